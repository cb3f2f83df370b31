"""Calls of a shell, as a story has them."""

from __future__ import annotations

from stator.model.brief.command_words import parts
from stator.model.brief.story import Deed
from stator.model.calls.vocabulary import act_of


def ran(command: str, status: str = "ok", seq: int = 1, result: str = "", turn: int = 1) -> Deed:
    act = act_of("Bash", {"command": command})
    return Deed(
        seq=seq, turn=turn, call=f"c_{seq}", tool="Bash", status=status, result=result, act=act,
        steps=parts(command), shown=command, source="tool", ended=seq,
    )  # fmt: skip
