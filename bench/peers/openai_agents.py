"""OpenAI Agents SDK, SQLiteSession on a file: the items of a conversation, in order."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from agents.memory import SQLiteSession

from bench.peers.base import (
    FULL,
    Diffs,
    Peer,
    States,
    check_durability,
    delta_diff,
    package_versions,
    recent_files,
)
from bench.workload import Delta, Turn, empty, fold

STATE = "state of turn "  # begins the developer message that carries a turn's changes


class OpenAIAgents(Peer):
    name = "OpenAI Agents SQLiteSession"
    version = f"{package_versions('openai-agents')}, SQLite {sqlite3.sqlite_version}"
    note = (
        "8 × add_items a turn. It has no state: changes travel as a developer message beside the "
        "answer, and questions read all items back. No fork and no listing in its API."
    )

    def open(self, directory: Path, durability: str = FULL, **options: Any) -> None:
        check_durability(self, durability)
        self._path = directory / "agents.db"
        self._runner = asyncio.Runner()
        self._sessions: dict[str, SQLiteSession] = {}

    def new(self, session: str) -> None:
        self._session(session)

    def append(self, session: str, turn: Turn) -> None:
        self._runner.run(self._append(self._session(session), turn))

    def leave(self, session: str) -> None:
        if handle := self._sessions.pop(session, None):
            handle.close()

    def close(self) -> None:
        for session in list(self._sessions):
            self.leave(session)
        self._runner.close()

    def files(self) -> Sequence[Path]:
        return [self._path]

    def state(self, session: str) -> States:
        return self._fold(session, None)

    def state_at(self, session: str, turn: int) -> States:
        return self._fold(session, turn)

    def diff(self, session: str, turn: int) -> Diffs:
        return next(delta_diff(delta) for k, delta in self._deltas(session) if k == turn)

    def files_last(self, session: str, n: int) -> list[str]:
        return recent_files(self._fold(session, None), n)

    def _session(self, session: str) -> SQLiteSession:
        if session not in self._sessions:
            self._sessions[session] = SQLiteSession(session, self._path)
        return self._sessions[session]

    async def _append(self, handle: SQLiteSession, turn: Turn) -> None:
        for items in _items(turn):
            await handle.add_items(items)

    def _deltas(self, session: str) -> Iterator[tuple[int, Delta]]:
        items: list[Any] = self._runner.run(self._session(session).get_items())
        for item in items:
            if item.get("role") == "developer" and item["content"].startswith(STATE):
                number, _, delta = item["content"][len(STATE) :].partition(": ")
                yield int(number), json.loads(delta)

    def _fold(self, session: str, last: int | None) -> Any:
        state = empty()
        for k, delta in self._deltas(session):
            if last is not None and k > last:
                break
            fold(state, delta, k)
        return state


def _items(turn: Turn) -> Iterator[list[Any]]:
    """The conversation items of a turn, as the SDK's own runner would add them."""
    yield [{"role": "user", "content": turn["user"]}]
    for call in turn["tools"]:
        same = {"call_id": call["id"]}
        yield [{"type": "function_call", **same, "name": call["name"], "arguments": call["input"]}]
        yield [{"type": "function_call_output", **same, "output": call["output"]}]
    changes = f"{STATE}{turn['turn']}: {json.dumps(turn['delta'], separators=(',', ':'))}"
    yield [
        {"role": "assistant", "content": turn["assistant"]},
        {"role": "developer", "content": changes},
    ]
