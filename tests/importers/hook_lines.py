"""Builds hook lines in Cursor's form, runs the hook program, and reads the spool."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import psycopg
import pytest

import stator
from stator.locations import server_spool_of
from stator.model.values.ids import to_bytes
from stator.owner.server_file import name_server
from stator.store.sqlite import SqliteStore
from stator.surfaces.hook import line_of

DEAD = (2**22 - 3, 1, os.stat("/proc/self/ns/pid").st_ino)
"""A process that is gone."""
HOOK = [sys.executable, "-m", "stator.surfaces.hook"]


def hook_input(name: str, conversation: str = "c1", **more: Any) -> dict[str, Any]:
    return {"hook_event_name": name, "conversation_id": conversation, **more}


def prompt(turn: int = 1, conversation: str = "c1", text: str = "do it") -> dict[str, Any]:
    return hook_input("beforeSubmitPrompt", conversation, generation_id=f"g{turn}", prompt=text)


def before_tool(
    call: str, conversation: str = "c1", tool: str = "Shell", **arguments: Any
) -> dict[str, Any]:
    return hook_input(
        "preToolUse", conversation, tool_use_id=call, tool_name=tool, tool_input=arguments
    )


def after_tool(
    call: str, conversation: str = "c1", tool: str = "Shell", output: Any = "ok"
) -> dict[str, Any]:
    return hook_input(
        "postToolUse", conversation, tool_use_id=call, tool_name=tool, tool_output=output
    )


def conversation_lines(name: str = "c1", turns: int = 1) -> list[dict[str, Any]]:
    """The lines of a complete conversation."""
    lines = [hook_input("sessionStart", name)]
    for turn in range(1, turns + 1):
        call = f"{name}-{turn}"
        lines += [prompt(turn, name), before_tool(call, name, command="ls"), after_tool(call, name)]
        lines += [hook_input("stop", name)]
    return [*lines, hook_input("sessionEnd", name, reason="exit")]


class HookedStore:
    """A folder with a store, or with a file that names one on a server, and hooks that write to its spool."""

    def __init__(self, root: Path, server: str = "") -> None:
        self.root = root
        self.path: Any = server or root / ".stator" / "store.db"
        self.spool = Path(server_spool_of(server, os.environ) or "") if server else spool_in(root)
        self.environ = {
            name: os.environ[name]
            for name in ("PATH", "STATOR_INGESTER", "XDG_DATA_HOME")
            if name in os.environ
        }
        is_split = "XDG_DATA_HOME" in self.environ  # else the list of stores is in the home folder
        self.environ["HOME"] = str(root / "home") if is_split else os.environ["HOME"]
        if server:
            os.makedirs(root / ".stator")
            name_server(os.environ, str(root / ".stator"), server)
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

    def write(
        self,
        *lines: dict[str, Any],
        name: str = "current",
        agent: str = "cursor",
        process: tuple[int, int, int] | None = None,
    ) -> None:
        """Write lines in the program's format, without starting the program for each. The agent's process is that of
        the tests, which lives, unless another one is given."""
        self.spool.mkdir(mode=0o700, exist_ok=True, parents=True)
        with open(self.spool / name, "ab") as file:
            for line in lines:
                told = {"cwd": str(self.root), **line}
                file.write(line_of(agent, str(self.root), json.dumps(told).encode(), process))

    def raw(self, *lines: bytes) -> None:
        """Write raw lines."""
        self.spool.mkdir(mode=0o700, exist_ok=True, parents=True)
        with open(self.spool / "current", "ab") as file:
            file.writelines(lines)

    def lines(self) -> list[bytes]:
        return [
            line
            for file in sorted(self.spool.glob("*"))
            if file.name.startswith(("current", "own-", "taken-"))
            for line in file.read_bytes().splitlines()
        ]

    def kinds(self, conversation: str = "c1") -> list[str]:
        """The kinds of a conversation's commits, after the store was opened and has ingested the
        spool."""
        with stator.connect(self.path) as store:
            return kinds(store, conversation)


IN_A_FILE = pytest.mark.parametrize("hooked", ["file"], indirect=True)
"""For tests of what is different with a store on a server."""


def lose_bookmarks(store: Any) -> None:
    """Every bookmark of a store is gone."""
    for row in store.sessions().rows:
        if isinstance(store.port, SqliteStore):
            store.port._write(lambda db: db.execute("DELETE FROM meta WHERE key LIKE 'bookmark %'"))
        else:
            with psycopg.connect(store.port.url, autocommit=True) as db:
                db.execute(
                    "DELETE FROM stator.bookmark b USING stator.session s"
                    " WHERE b.t = s.t AND b.s = s.s AND s.id = %s",
                    [to_bytes(row.id)],
                )


def spool_in(root: Path) -> Path:
    return root / ".stator" / "store.db-spool"


def session(store: Any, conversation: str = "c1") -> Any:
    from stator.model.exchange.items import Conversation

    return store.read(Conversation(source="cursor", id=conversation).session)


def kinds(store: Any, conversation: str = "c1") -> list[str]:
    return [
        commit.kind for commit in session(store, conversation).log() if commit.kind != "describe"
    ]
