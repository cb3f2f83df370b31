"""Stator itself, through its public API, as an agent loop would use it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import apsw
import msgspec
from msgspec.structs import replace

import stator
from bench.peers.base import BARRIER, FULL, READS, RELAXED, Peer, package_versions
from bench.workload import Turn
from stator.connect import connect
from stator.model.views import checked  # noqa: F401 - loaded late, and "after imports" is after these
from stator.owner import git_index  # noqa: F401
from stator.runtime.driving.tools import Tool
from stator.runtime.facade.session import Session
from stator.runtime.facade.store import Store
from stator.runtime.facade.view import SessionView
from stator.store.sqlite import store as _  # noqa: F401

EFFECTS = {"Read": "read", "Grep": "read", "Ls": "read", "Bash": "write", "Edit": "write"}
OPS = {"edit": "modified", "create": "created"}
STEPS = {"pending": "pending", "in_progress": "in_progress", "done": "done", "blocked": "blocked"}


class Stator(Peer):
    name = "stator"
    version = f"{stator.__version__}, {package_versions('apsw', 'msgspec')}, SQLite {apsw.sqlite_lib_version()}"
    note = "The public API: a turn, three calls, and a batch with files, decision, plan, answer and turn end."
    native = READS
    durabilities = frozenset({FULL, BARRIER, RELAXED})

    _store: Store

    def open(self, directory: Path, durability: str = FULL, **options: Any) -> None:
        self._path = directory / "stator.db"
        redact = options.get("redaction", True)
        self._store = connect(self._path, durability=durability, redact=redact, project="bench")  # type: ignore[arg-type]
        # The work tree is the benchmark's own folder: no git there to ask at turn end.
        self._store.context = replace(self._store.context, root=str(directory))
        self._sessions: dict[str, Session[Any]] = {}
        self._views: dict[str, SessionView] = {}

    def new(self, session: str) -> None:
        self._drive(session)

    def _drive(self, name: str) -> Session[Any]:
        if name not in self._sessions:
            self._sessions[name] = self._store.open(name, agent="bench")
        return self._sessions[name]

    def _view(self, name: str) -> SessionView:
        if name not in self._views:
            self._views[name] = self._store.read(name)
        return self._views[name]

    def append(self, session: str, turn: Any) -> None:
        made: Turn = turn
        with self._drive(session).turn(made["user"]) as t:
            for call in made["tools"]:
                output = call["output"]
                tool = Tool(
                    lambda *, _out=output, **_: _out,
                    name=call["name"],
                    effect=EFFECTS.get(call["name"], "write"),
                )  # type: ignore[arg-type, misc]
                t.call(tool, **json.loads(call["input"]))
            with t.batch():
                for path, file in made["delta"]["files"].items():
                    t.file(path, OPS[file["op"]], before=file["before"], after=file["after"])  # type: ignore[arg-type]
                for topic, decision in made["delta"]["decision"].items():
                    t.decide(
                        decision["choice"],
                        topic=topic,
                        why=decision["why"],
                        confidence=decision["confidence"],
                    )
                for step, status in made["delta"]["plan"].items():
                    t.plan(step, STEPS[status])  # type: ignore[arg-type]
                t.say(made["assistant"])
                t.end()

    def leave(self, session: str) -> None:
        driven = self._sessions.pop(session, None)
        if driven is not None:
            driven.pause()

    def close(self) -> None:
        for name in list(self._sessions):
            self.leave(name)
        self._store.close()

    def files(self) -> Sequence[Path]:
        return [self._path]

    # ---- reading

    def state(self, session: str) -> Any:
        return self._view(session).state(collections=("files", "decisions", "plan"))

    def state_at(self, session: str, turn: int) -> Any:
        return self._view(session).state(f"t{turn}", collections=("files", "decisions", "plan"))

    def diff(self, session: str, turn: int) -> Any:
        diff = self._view(session).diff(f"t{turn}")
        return {name: diff.of(name) for name in ("files", "decisions", "plan")}

    def files_last(self, session: str, n: int) -> list[str]:
        return sorted(file.path for file in self._view(session).files(last=n))

    def fork(self, session: str, turn: int) -> Any:
        return self._store.fork(session, f"t{turn}").id

    def list_sessions(self, limit: int) -> Any:
        return self._store.sessions(limit=limit).rows

    def hot(self, session: str) -> Mapping[str, Any]:
        view = self._view(session)
        return {"counts": view.counts.live, **view.hot()}

    def brief(self, session: str) -> int:
        return self._view(session).brief().tokens

    def hot_at(self, session: str, turn: int) -> Mapping[str, Any]:
        return self._view(session).hot(f"t{turn}")

    def full_state(self, session: str) -> int:
        """Bytes from every hundredth record or so: encoding them all again would be timed too."""
        size = 0
        for records in self._view(session).state().values():
            sample = list(records.values())[:: max(1, len(records) // 100)]
            if sample:
                size += sum(map(_size, sample)) * len(records) // len(sample)
        return size

    def cli_log(self, session: str) -> tuple[list[str], dict[str, str]]:
        return ["log", session, "-n", "20"], {"STATOR_STORE": str(self._path)}


def _size(record: Any) -> int:
    return len(msgspec.json.encode(record))
