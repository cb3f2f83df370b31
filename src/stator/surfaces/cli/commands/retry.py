"""`stator retry`: tries a turn again, in a new session."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stator.model.values import canon
from stator.model.values.ids import short
from stator.runtime.branches import retry as retries
from stator.runtime.branches.retry import Retry
from stator.surfaces.cli.commands import fork
from stator.surfaces.cli.parts.hand_over import become, check_program, environ_for
from stator.surfaces.cli.parts.open_store import OpenedStore, open_to_write
from stator.surfaces.cli.render.lines import Line
from stator.surfaces.cli.render.record_line import brief
from stator.surfaces.cli.render.screen import Screen

if TYPE_CHECKING:
    from stator.surfaces.cli.options import (
        EffectsOption,
        JsonFlag,
        NoPagerFlag,
        SessionOption,
        StoreOption,
    )

EXAMPLES = """
stator retry t5                    prepare a second try of turn 5
stator retry t5 -- python agent.py     and run it with a program
stator retry t5 --effects run      it may write without approval
stator diff t5 t5.2                afterwards: compare the two tries
"""


def retry(
    turn: str,
    /,
    *command: str,
    name: str | None = None,
    effects: EffectsOption = "ask",
    session: SessionOption = None,
    store: StoreOption = None,
    json: JsonFlag = False,
    no_pager: NoPagerFlag = False,
) -> int:
    """Try a turn again, in a new session that starts before that turn.

    Parameters
    ----------
    turn
        The turn: t5, t-1, SESSION:t5.
    command
        After --: the program that runs the turn; $STATOR_STORE and $STATOR_SESSION are set for it.
    name
        The name of the new session; default: NAME~t5.2.
    """
    if command:
        check_program(command)
    with open_to_write(store) as opened:
        view, _ = opened.resolve(session, turn)
        port, context = opened.store.port, opened.store.context
        made = retries.make(port, context, view.id, turn, effects=effects, name=name or "")
        if not command:
            with Screen(json=json, pager=not no_pager) as screen:
                _show(screen, made, opened)
            return 0
        environ = environ_for(made.row, opened)
        environ["STATOR_SESSION"] = made.row.id
    return become(command, environ)


def _show(screen: Screen, made: Retry, opened: OpenedStore) -> None:
    if screen.json:
        screen.document("stator.retry/1", _as_json(made))
        return
    screen.lines(fork.new_session_lines(made.row, opened, f"t{made.turn}"))
    ref = f"{short(made.original)}:t{made.turn}"
    if made.prompt is not None:
        screen.line(Line("  prompt: ", "dim").add(brief(made.prompt), "user"))
    screen.line(Line(f"  stator diff {ref} {ref}.{made.number}", "dim"))
    screen.line(Line(f"  stator adopt {ref}.{made.number}", "dim"))


def _as_json(made: Retry) -> dict[str, Any]:
    return {
        **fork.as_json(made.row),
        "turn": made.turn,
        "number": made.number,
        "made": made.made,
        "prompt": canon.to_plain(made.prompt),
    }
