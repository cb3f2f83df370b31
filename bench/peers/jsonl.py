"""JSON Lines, append and fsync: what coding agents do. Every question reads the whole file."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from bench.peers.base import (
    FULL,
    RELAXED,
    Diffs,
    Peer,
    States,
    check_durability,
    delta_diff,
    recent_files,
)
from bench.workload import Delta, Turn, empty, fold, records


class Jsonl(Peer):
    name = "JSONL + fsync"
    version = "stdlib"
    note = "A file per session, a line per record, fsync after each; a fork copies the file's head."
    durabilities = frozenset({FULL, RELAXED})

    def open(self, directory: Path, durability: str = FULL, **options: Any) -> None:
        check_durability(self, durability)
        self._directory = directory
        self._sync = durability == FULL
        self._open: dict[str, int] = {}
        self._forks = itertools.count(1)

    def new(self, session: str) -> None:
        self._descriptor(session)

    def append(self, session: str, turn: Turn) -> None:
        descriptor = self._descriptor(session)
        for record in records(turn):
            os.write(descriptor, json.dumps(record, separators=(",", ":")).encode() + b"\n")
            if self._sync:
                os.fsync(descriptor)

    def leave(self, session: str) -> None:
        if (descriptor := self._open.pop(session, None)) is not None:
            os.close(descriptor)

    def close(self) -> None:
        for session in list(self._open):
            self.leave(session)

    def files(self) -> Sequence[Path]:
        return sorted(self._directory.glob("*.jsonl"))

    def state(self, session: str) -> States:
        return self._fold(session, None)

    def state_at(self, session: str, turn: int) -> States:
        return self._fold(session, turn)

    def diff(self, session: str, turn: int) -> Diffs:
        return next(delta_diff(delta) for k, delta in self._deltas(session) if k == turn)

    def files_last(self, session: str, n: int) -> list[str]:
        return recent_files(self._fold(session, None), n)

    def fork(self, session: str, turn: int) -> str:
        name = f"{session}-fork-{next(self._forks)}"
        with self._path(session).open("rb") as source, self._path(name).open("wb") as target:
            for line in source:
                if json.loads(line)["turn"] > turn:
                    break
                target.write(line)
            target.flush()
            os.fsync(target.fileno())
        return name

    def list_sessions(self, limit: int) -> Sequence[Any]:
        """Names by time of last change, each with its first prompt, as session pickers show them."""
        entries = [(e.stat().st_mtime_ns, e.path) for e in os.scandir(self._directory)]
        return [_first_prompt(path) for _, path in sorted(entries, reverse=True)[:limit]]

    def _path(self, session: str) -> Path:
        return self._directory / f"{session}.jsonl"

    def _descriptor(self, session: str) -> int:
        if session not in self._open:
            flags = os.O_CREAT | os.O_APPEND | os.O_WRONLY
            self._open[session] = os.open(self._path(session), flags, 0o644)
        return self._open[session]

    def _deltas(self, session: str) -> Iterator[tuple[int, Delta]]:
        with self._path(session).open("rb") as f:
            for line in f:
                record = json.loads(line)
                if record["kind"] == "answer":
                    yield record["turn"], record["delta"]

    def _fold(self, session: str, last: int | None) -> Any:
        state = empty()
        for k, delta in self._deltas(session):
            if last is not None and k > last:
                break
            fold(state, delta, k)
        return state


def _first_prompt(path: str) -> tuple[str, str]:
    with open(path, "rb") as f:
        return os.path.basename(path), json.loads(f.readline())["text"]
