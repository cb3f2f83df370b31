"""Builds hook lines in Cursor's form, runs the hook program, and reads the spool."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import stator
from stator.surfaces.hook import line_of

HOOK = [sys.executable, "-m", "stator.surfaces.hook"]


def said(name: str, talk: str = "c1", **more: Any) -> dict[str, Any]:
    return {"hook_event_name": name, "conversation_id": talk, **more}


def prompt(turn: int = 1, talk: str = "c1", text: str = "do it") -> dict[str, Any]:
    return said("beforeSubmitPrompt", talk, generation_id=f"g{turn}", prompt=text)


def pre(call: str, talk: str = "c1", tool: str = "Shell", **arguments: Any) -> dict[str, Any]:
    return said("preToolUse", talk, tool_use_id=call, tool_name=tool, tool_input=arguments)


def post(call: str, talk: str = "c1", tool: str = "Shell", output: Any = "ok") -> dict[str, Any]:
    return said("postToolUse", talk, tool_use_id=call, tool_name=tool, tool_output=output)


def talk(name: str = "c1", turns: int = 1) -> list[dict[str, Any]]:
    """The lines of a complete conversation."""
    lines = [said("sessionStart", name)]
    for turn in range(1, turns + 1):
        call = f"{name}-{turn}"
        lines += [prompt(turn, name), pre(call, name, command="ls"), post(call, name)]
        lines += [said("stop", name)]
    return [*lines, said("sessionEnd", name, reason="exit")]


class Hooked:
    """A folder with a store, and hooks that write to its spool."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.path = root / ".stator" / "store.db"
        self.spool = root / ".stator" / "store.db-spool"
        self.environ = {"HOME": str(root / "home"), "PATH": os.environ["PATH"]}
        with stator.connect(self.path):
            pass

    def hook(
        self, told: Any, agent: str = "cursor", **environ: str
    ) -> subprocess.CompletedProcess[bytes]:
        """Run the hook program as an agent would."""
        data = (
            told
            if isinstance(told, bytes)
            else json.dumps({"cwd": str(self.root), **told}).encode()
        )
        return subprocess.run(
            [*HOOK, agent], input=data, capture_output=True, cwd=self.root, check=False,
            env=self.environ | environ, timeout=60,
        )  # fmt: skip

    def write(self, *lines: dict[str, Any], name: str = "current", agent: str = "cursor") -> None:
        """Write lines in the program's format, without starting the program for each."""
        self.spool.mkdir(mode=0o700, exist_ok=True)
        with open(self.spool / name, "ab") as file:
            for line in lines:
                told = {"cwd": str(self.root), **line}
                file.write(line_of(agent, str(self.root), json.dumps(told).encode()))

    def raw(self, *lines: bytes) -> None:
        """Write raw lines."""
        self.spool.mkdir(mode=0o700, exist_ok=True)
        with open(self.spool / "current", "ab") as file:
            file.writelines(lines)

    def lines(self) -> list[bytes]:
        return [
            line
            for file in sorted(self.spool.glob("*"))
            if file.name.startswith(("current", "own-", "taken-"))
            for line in file.read_bytes().splitlines()
        ]

    def kinds(self, talk: str = "c1") -> list[str]:
        """The kinds of a conversation's commits, after the store was opened and has ingested the
        spool."""
        with stator.connect(self.path) as store:
            return kinds(store, talk)


def session(store: Any, talk: str = "c1") -> Any:
    from stator.model.exchange.items import Conversation

    return store.read(Conversation(source="cursor", id=talk).session)


def kinds(store: Any, talk: str = "c1") -> list[str]:
    return [commit.kind for commit in session(store, talk).log() if commit.kind != "scratch"]
