"""Imports discovered transcripts and bundles into a store, one conversation after another.

A failure in one conversation is reported for it and does not stop the others. What comes to a
closed or archived session is recorded as such: it stays closed. Sessions that are in the trash or
were purged are left alone. An import that is stopped leaves whole
turns; the next import continues from there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, Literal

import msgspec

from stator.errors import (
    BadBundle,
    BrokenChain,
    ErasesHere,
    Removed,
    StatorError,
    StoreError,
    WrongState,
)
from stator.importers.again import import_again, is_outdated
from stator.importers.conversation import Report, import_conversation
from stator.importers.discover import READ_ERRORS, Discovery, ImportCandidate
from stator.model.exchange.items import Conversation
from stator.model.log.query import SessionRow
from stator.runtime.base.context import Context
from stator.runtime.base.project_flags import Trash, purged
from stator.runtime.bundles.report import Erasures, Imported
from stator.runtime.facade.store import Store
from stator.runtime.ingest.dry_run import is_foretold
from stator.runtime.ingest.placement import find
from stator.runtime.ingest.recorder import name_of
from stator.store import port

Fate = Literal["new", "grown", "same", "left", "refused"]
"""The outcome for one conversation; `left` means that the session is in the trash or was purged."""
ReportProgress = Callable[[str, int, int], None]
"""Called with (what is being read, bytes read, bytes in total)."""
NAME_SHOWN = 32
"""The most characters of a conversation's name in a progress message."""
ProjectFolder = tuple[str, str]
"""A project's id and its folder."""


class ImportedConversation(msgspec.Struct, frozen=True, kw_only=True):
    """What an import did with one conversation."""

    path: str
    source: str
    name: str
    project: str
    fate: Fate
    session: str = ""
    agent: str = ""
    why: str = ""
    """Why the conversation was left alone or refused."""
    report: Report


class ImportResult(msgspec.Struct, kw_only=True):
    """What an import did, or with `dry_run` would do."""

    taken: list[ImportedConversation] = []
    total: Report
    """The sum over all conversations; `sessions` counts each session once, even if several files
    hold it."""
    bundles: list[Imported] = []
    others: dict[str, int] = {}
    """The number of files that are not transcripts, by extension."""
    unread: dict[str, str] = {}
    """Files and folders that could not be read, and why."""
    elsewhere: int = 0
    older: int = 0
    stopped: bool = False
    dry_run: bool = False
    here: str = ""
    """The current project."""

    @property
    def changed(self) -> list[ImportedConversation]:
        return [one for one in self.taken if one.fate in ("new", "grown")]

    @property
    def projects(self) -> dict[str, int]:
        """How many sessions gained something, by project."""
        by_session = {one.session: one.project for one in self.changed}
        return dict(Counter(by_session.values()))

    @property
    def refused(self) -> list[ImportedConversation]:
        return [one for one in self.taken if one.fate == "refused"]


class ImportStopped(Exception):
    """The caller asked the import to stop."""


def import_transcripts(store: Store, discovery: Discovery, **options: Any) -> ImportResult:
    """Import everything that was discovered; the options are those of `ImportRun`."""
    return ImportRun(store, discovery, **options).run()


class ImportRun:
    """One import. `result` holds what was imported so far, also after the store failed.

    New sessions go into `project`. Without one, each goes into the project that its agent worked in;
    `home_of` returns that project, and its folder, for the agent's folder. If that is unknown, a
    sub-agent or fork goes where its parent is, and any other session into a project that is called
    after its source: never silently into the current one. `stop` is called repeatedly. Once it
    returns True, the import ends without recording what it has read but not recorded yet, and
    `result.stopped` is set.
    """

    def __init__(
        self,
        store: Store,
        discovery: Discovery,
        *,
        project: str = "",
        home_of: Callable[[str], ProjectFolder | None] | None = None,
        passphrase: str | Callable[[], str] | None = None,
        erasures: Erasures = "refuse",
        again: bool = False,
        dry_run: bool = False,
        progress: ReportProgress | None = None,
        stop: Callable[[], bool] = bool,
    ) -> None:
        self._again = again
        self._store = store
        self._discovery = discovery
        self._passphrase = passphrase
        self._erasures: Erasures = erasures
        self._port: port.StorePort = store.port
        self._project = project
        self._home_of = home_of or store.context.home_of
        self._projects: dict[tuple[str, str], str] = {}
        self._progress = progress
        self._stop = stop
        self._trash = Trash(store.port)
        self._size = discovery.size
        self._read = 0
        self._current = ""
        self._changed: set[str] = set()
        self._predicted: set[int] = set()
        self._names: dict[str, str] = {}
        self.result = ImportResult(
            total=Report(),
            others=discovery.others,
            unread=discovery.unread,
            elsewhere=discovery.elsewhere,
            older=discovery.older,
            dry_run=dry_run,
            here=store.context.project,
        )

    def run(self) -> ImportResult:
        try:
            for path in self._discovery.bundles:
                self._import_bundle(path)
            for number, one in enumerate(self._discovery.candidates, 1):
                self._current = f"{number}/{len(self._discovery.candidates)}"
                self._import_one(one)
        except ImportStopped:
            self.result.stopped = True
        return self.result

    def _import_bundle(self, path: str) -> None:
        if self._stop():
            raise ImportStopped
        try:
            result = self._store.import_bundle(
                path,
                project=self._project or None,
                passphrase=self._passphrase,
                erasures=self._erasures,
                dry_run=self.result.dry_run,
                progress=self._progress,
            )
        except (BadBundle, BrokenChain, ErasesHere) as refusal:
            self.result.unread[path] = str(refusal)
        else:
            self.result.bundles.append(result)

    def _import_one(self, candidate: ImportCandidate) -> None:
        """Import one conversation and note the outcome."""
        report = Report()
        row = find(self._port, candidate.found.conversation)
        conversation, context = self._in_project(candidate.found.conversation, row)
        candidate = ImportCandidate(
            candidate.format, msgspec.structs.replace(candidate.found, conversation=conversation)
        )
        is_known = row is not None or is_foretold(self._port, conversation, self._predicted)
        before = self._read
        self._current += f" {name_of(conversation)[:NAME_SHOWN]}"
        why = self._reason_to_leave(conversation, row)
        fate: Fate = "left"
        try:
            self._progressed(0)
            if not why:
                self._import_items(candidate, context, report, row)
                fate = _fate(is_known, report)
        except (ImportStopped, StoreError):
            if report.commits:  # some turns were recorded before the failure
                report.sessions = 1
                self._add_result(candidate, report, _fate(is_known, report), "", None)
            raise
        except (WrongState, Removed) as refusal:
            why, report = refusal.what, Report()
        except StatorError as refusal:
            fate, why = "refused", str(refusal)
        except READ_ERRORS as error:
            fate, why = "refused", f"cannot be read: {error!r:.200}"
        self._add_result(candidate, report, fate, why, row if fate == "same" else None)
        self._read = before + candidate.found.size

    def _import_items(
        self, candidate: ImportCandidate, context: Context, report: Report, row: SessionRow | None
    ) -> None:
        old = row if self._again else None
        if (
            old is not None
            and is_outdated(old, candidate.format, candidate.found)
            and not self.result.dry_run
        ):
            import_again(
                self._port, context, candidate.format, candidate.found, old, report,
                progress=self._progressed,
            )  # fmt: skip
            return
        import_conversation(
            self._port, context, candidate.format, candidate.found, report,
            progress=self._progressed,
            predicted=self._predicted if self.result.dry_run else None,
            row=row, from_start=self._again,
        )  # fmt: skip

    def _add_result(
        self,
        candidate: ImportCandidate,
        report: Report,
        fate: Fate,
        why: str,
        row: SessionRow | None,
    ) -> None:
        """Note an outcome; `row` is the session's, if it was not written to."""
        found, conversation = candidate.found, candidate.found.conversation
        row = row or find(self._port, conversation)
        session = conversation.session if row is None else row.id
        name = self._names.setdefault(session, name_of(conversation))
        if fate == "refused":
            report.refused[found.path] = why
        self.result.total.add(report)
        if report.sessions and session in self._changed:
            self.result.total.sessions -= 1
        elif report.sessions:
            self._changed.add(session)
        self.result.taken.append(
            ImportedConversation(
                path=found.path,
                source=conversation.source,
                name=row.record.name if row is not None else name,
                project=row.record.project if row is not None else conversation.project,
                fate=fate,
                session=session,
                agent=conversation.agent or conversation.source,
                why=why,
                report=report,
            )
        )

    def _reason_to_leave(self, conversation: Conversation, row: SessionRow | None) -> str:
        """Why a session must be left alone, if a person trashed or purged it; "" otherwise."""
        if row is None:
            gone = purged(self._port, conversation.session)
            return gone.what if gone is not None else ""
        return "it is in the trash" if row in self._trash else ""

    def _in_project(
        self, conversation: Conversation, row: SessionRow | None
    ) -> tuple[Conversation, Context]:
        """Assign a conversation to a project, and return the context of that project. Paths are
        recorded relative to the project's folder, if the agent worked there."""
        context = self._store.context
        home = self._home_of(conversation.cwd) if conversation.cwd else None
        project = self._project or (home[0] if home else self._inherited(conversation))
        held = project if row is None else row.record.project
        self._projects[conversation.source, conversation.id] = held
        if home is not None and held == home[0]:
            context = msgspec.structs.replace(context, project=home[0], root=home[1])
        return msgspec.structs.replace(conversation, project=project), context

    def _inherited(self, conversation: Conversation) -> str:
        """The project of a conversation whose folder is unknown: its parent's, else one named after its source."""
        for other in filter(None, (conversation.parent, conversation.fork_of)):
            if (conversation.source, other) in self._projects:
                return self._projects[conversation.source, other]
            row = find(self._port, Conversation(source=conversation.source, id=other))
            if row is not None:
                return row.record.project
        return conversation.source

    def _progressed(self, read: int) -> None:
        """Report progress, and stop the import if the caller asked for that."""
        if self._stop():
            raise ImportStopped
        self._read += read
        if self._progress is not None:
            self._progress(self._current, min(self._read, self._size), self._size)


def _fate(is_known: bool, report: Report) -> Fate:
    if not report.sessions:
        return "same"
    return "grown" if is_known else "new"
