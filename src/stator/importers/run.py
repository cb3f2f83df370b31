"""Bringing what was found into a store: one conversation after the other, each by itself.

What goes wrong with one conversation is said of it and stops no other. What a person put away (closed,
archived, trashed, purged) is not added to. An import that is stopped leaves whole turns; run again, it
goes on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

import msgspec

from stator.errors import (
    BadBundle,
    BrokenChain,
    Removed,
    StatorError,
    StoreError,
    WrongState,
)
from stator.importers.conversation import Report, take
from stator.importers.discover import STUMBLES, Sight, Told
from stator.model.exchange.items import Conversation
from stator.model.log.query import SessionRow
from stator.model.sessions.lifecycle import check_transition
from stator.runtime.base.context import Context
from stator.runtime.base.project_flags import Trash, purged
from stator.runtime.bundles.transfer import Imported
from stator.runtime.facade.store import Store
from stator.runtime.ingest.dry_run import is_foretold
from stator.runtime.ingest.recorder import find, name_of
from stator.store import port

Fate = Literal["new", "grown", "same", "left", "refused"]
"""What became of a conversation: `left` is one that a person put away."""
Moved = Callable[[str, int, int], None]
"""(what is being read, bytes read, of how many)."""
SHOWN = 32
"""Characters of a name that are told while it is read."""
Home = tuple[str, str]
"""A project, and the folder it is."""


class Taken(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one conversation."""

    path: str
    source: str
    name: str
    project: str
    fate: Fate
    session: str = ""
    agent: str = ""
    why: str = ""
    """Why it was left, or refused."""
    report: Report


class Brought(msgspec.Struct, kw_only=True):
    """What an import did, or with `dry_run` would do."""

    taken: list[Taken] = []
    total: Report
    """All of them together; `sessions` counts each once, however many files tell of it."""
    bundles: list[Imported] = []
    others: dict[str, int] = {}
    """Files that are no transcripts, by how their names end."""
    unread: dict[str, str] = {}
    """Files and folders that could not be read."""
    elsewhere: int = 0
    older: int = 0
    stopped: bool = False
    dry_run: bool = False

    @property
    def changed(self) -> list[Taken]:
        return [one for one in self.taken if one.fate in ("new", "grown")]

    @property
    def refused(self) -> list[Taken]:
        return [one for one in self.taken if one.fate == "refused"]


class Stopped(Exception):
    """Somebody asked for an end."""


def bring(store: Store, sight: Sight, **options: Any) -> Brought:
    """Take in what is new of everything that was found; the options are those of `Bringing`."""
    return Bringing(store, sight, **options).run()


class Bringing:
    """An import as it goes on: `brought` says what is in, also when the store could take no more.

    New sessions are found in `project` (default: the one at hand), or with `spread` each in the
    project its agent worked in, which `home_of` tells for a folder. `stop` is asked again and again;
    once it says yes, what was read and not recorded is left, and the answer says so.
    """

    def __init__(
        self,
        store: Store,
        sight: Sight,
        *,
        project: str = "",
        home_of: Callable[[str], Home] | None = None,
        spread: bool = False,
        passphrase: str | Callable[[], str] | None = None,
        dry_run: bool = False,
        progress: Moved | None = None,
        stop: Callable[[], bool] = bool,
    ) -> None:
        self._store = store
        self._sight = sight
        self._passphrase = passphrase
        self._port: port.StorePort = store.port
        self._project = project
        self._home_of = home_of
        self._spread = spread
        self._progress = progress
        self._stop = stop
        self._trash = Trash(store.port)
        self._size = sight.size
        self._read = 0
        self._now = ""
        self._changed: set[str] = set()
        self._foretold: set[int] = set()
        self._names: dict[str, str] = {}
        self.brought = Brought(
            total=Report(),
            others=sight.others,
            unread=sight.unread,
            elsewhere=sight.elsewhere,
            older=sight.older,
            dry_run=dry_run,
        )

    def run(self) -> Brought:
        try:
            for path in self._sight.bundles:
                self._bundle(path)
            for number, one in enumerate(self._sight.told, 1):
                self._now = f"{number}/{len(self._sight.told)}"
                self._one(one)
        except Stopped:
            self.brought.stopped = True
        return self.brought

    def _bundle(self, path: str) -> None:
        if self._stop():
            raise Stopped
        try:
            brought = self._store.import_bundle(
                path,
                project=self._project or None,
                passphrase=self._passphrase,
                dry_run=self.brought.dry_run,
                progress=self._progress,
            )
        except (BadBundle, BrokenChain) as refusal:
            self.brought.unread[path] = str(refusal)
        else:
            self.brought.bundles.append(brought)

    def _one(self, told: Told) -> None:
        """Take one conversation in, and note what became of it."""
        report = Report()
        talk, context = self._placed(told.found.conversation)
        told = Told(told.form, msgspec.structs.replace(told.found, conversation=talk))
        row = find(self._port, talk)
        is_known = is_foretold(self._port, talk, self._foretold)
        before = self._read
        self._now += f" {name_of(talk)[:SHOWN]}"
        why = self._put_away(talk, row)
        fate: Fate = "left"
        try:
            self._moved(0)
            if not why:
                self._take(told, context, report)
                fate = _fate(is_known, report)
        except (Stopped, StoreError):
            if report.commits:  # whole turns of it are in
                report.sessions = 1
                self._note(told, report, _fate(is_known, report), "")
            raise
        except (WrongState, Removed) as refusal:
            why, report = refusal.what, Report()
        except StatorError as refusal:
            fate, why = "refused", str(refusal)
        except STUMBLES as error:
            fate, why = "refused", f"cannot be read: {error!r:.200}"
        self._note(told, report, fate, why)
        self._read = before + told.found.size

    def _take(self, told: Told, context: Context, report: Report) -> None:
        foretold = self._foretold if self.brought.dry_run else None
        take(
            self._port, context, told.form, told.found, report,
            progress=self._moved, foretold=foretold,
        )  # fmt: skip
        if foretold is None:
            return
        row = find(self._port, told.found.conversation)
        if row is not None and report.sessions:
            check_transition("entry", row.record.status, row.id)

    def _note(self, told: Told, report: Report, fate: Fate, why: str) -> None:
        found, talk = told.found, told.found.conversation
        row = find(self._port, talk)
        session = talk.session if row is None else row.id
        name = self._names.setdefault(session, name_of(talk))
        if fate == "refused":
            report.refused[found.path] = why
        self.brought.total.add(report)
        if report.sessions and session in self._changed:
            self.brought.total.sessions -= 1
        elif report.sessions:
            self._changed.add(session)
        self.brought.taken.append(
            Taken(
                path=found.path,
                source=talk.source,
                name=row.record.name if row is not None else name,
                project=row.record.project if row is not None else talk.project,
                fate=fate,
                session=session,
                agent=talk.agent or talk.source,
                why=why,
                report=report,
            )
        )

    def _put_away(self, talk: Conversation, row: SessionRow | None) -> str:
        """Why nothing is added to a session, if somebody put it away."""
        if row is None:
            gone = purged(self._port, talk.session)
            return gone.what if gone is not None else ""
        return "it is in the trash" if row in self._trash else ""

    def _placed(self, talk: Conversation) -> tuple[Conversation, Context]:
        """A conversation in its project, and the world as that sees it: paths are told from its folder."""
        context = self._store.context
        own = self._home_of(talk.cwd) if self._home_of is not None and talk.cwd else ("", "")
        project = self._project or (own[0] if self._spread else "") or context.project
        row = find(self._port, talk)
        held = project if row is None else row.record.project
        if own[0] and held == own[0]:
            context = replace(context, project=own[0], root=own[1])
        return msgspec.structs.replace(talk, project=project), context

    def _moved(self, read: int) -> None:
        if self._stop():
            raise Stopped
        self._read += read
        if self._progress is not None:
            self._progress(self._now, min(self._read, self._size), self._size)


def _fate(is_known: bool, report: Report) -> Fate:
    if not report.sessions:
        return "same"
    return "grown" if is_known else "new"
