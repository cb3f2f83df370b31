"""Fills an empty store with the sessions that agents keep on this machine: the newest first."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from stator.errors import StatorError
from stator.importers import registry
from stator.importers.agent_sessions import NAMED, sessions_of
from stator.importers.discover import Discovery, ImportCandidate, discover, existing_paths
from stator.importers.run import ImportRun
from stator.runtime.facade.store import Store

NEWEST = 50
"""Sessions that are imported before anything else is looked for."""
AT_ONCE = 20
"""Sessions between two reports of progress."""
LEAVE_S = 10


class ImportProgress(msgspec.Struct, frozen=True, kw_only=True):
    """How far the import is. `total` is 0 while it is not known yet."""

    done: int = 0
    total: int = 0
    ended: bool = False
    problem: str = ""


class FirstImport:
    """An import in a thread of its own. It ends by itself, or when it is closed; what it has read stays."""

    def __init__(self, store: Store, home: Path, environ: Mapping[str, str]) -> None:
        self._store = store
        self._home = home
        self._environ = environ
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="stator import", daemon=True)
        self.progress = ImportProgress()

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Stop, and wait for the session that is being read."""
        self._stop.set()
        self._thread.join(LEAVE_S)

    def _run(self) -> None:
        try:
            self._import()
        except StatorError as error:
            self._report(ended=True, problem=str(error))
        else:
            self._report(ended=True)

    def _import(self) -> None:
        newest = newest_files(self._home, self._environ, NEWEST)
        self._take(discover(newest, formats=[registry.load(name) for name in NAMED]).candidates)
        known = {os.path.realpath(path) for path in newest}
        everything = self._everything()
        rest = [one for one in everything if os.path.realpath(one.found.path) not in known]
        self._report(total=self.progress.done + len(rest))
        for start in range(0, len(rest), AT_ONCE):
            self._take(rest[start : start + AT_ONCE])

    def _everything(self) -> list[ImportCandidate]:
        formats = [*registry.load_all(), *registry.load_added()]
        return [
            candidate
            for format in formats
            if not self._stop.is_set()
            for candidate in discover(
                existing_paths(format, self._home, self._environ), formats=[format]
            ).candidates
        ]

    def _take(self, candidates: Sequence[ImportCandidate]) -> None:
        if candidates and not self._stop.is_set():
            discovery = Discovery(candidates=list(candidates))
            ImportRun(self._store, discovery, stop=self._stop.is_set).run()
            self._report(done=self.progress.done + len(candidates))

    def _report(self, **changed: object) -> None:
        self.progress = msgspec.structs.replace(self.progress, **changed)


def newest_files(home: Path, environ: Mapping[str, str], most: int) -> list[str]:
    """The files of the newest sessions of all agents, by their times alone."""
    found = [
        one for agent in NAMED for one in sessions_of(agent, home, environ, since=0) if one.size
    ]
    found.sort(key=lambda one: -one.changed)
    return [one.path for one in found[:most]]


def has_agent_sessions(home: Path, environ: Mapping[str, str]) -> bool:
    """Whether any agent keeps sessions on this machine."""
    if newest_files(home, environ, 1):
        return True
    others = [one for one in registry.load_all() if one.name not in NAMED]
    return any(
        discover(existing_paths(format, home, environ), formats=[format]).candidates
        for format in others
    )
