"""Records the lines of a spool in a store, one conversation after another.

A conversation with a transcript has the order of its transcript: whenever lines arrive, the transcript is read as
far as it is written. Of the lines themselves, only starts and ends are recorded at once, because nothing else tells
them; the others wait for their place (`hooks.witnesses`). A conversation without a transcript has the order of its
hooks.

If this program dies at any point, the next one loses nothing and records nothing twice.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress

import msgspec

from stator.errors import HeadMoved, StoreError
from stator.hooks import spool, witnesses
from stator.hooks.event_names import STARTS
from stator.hooks.given_notes import given_in
from stator.hooks.hook_note import HookNote, hook_note, is_running, rests
from stator.hooks.mappers import MAPPERS, load_mapper
from stator.hooks.spool_key import spool_key
from stator.hooks.transcript_file import TranscriptFile, error_text, transcript_path
from stator.hooks.witness import AGENT as WITNESS
from stator.importers.conversation import Report, subagent_conversation
from stator.model.brief.received import with_given
from stator.model.exchange.bookmark import Bookmark
from stator.model.exchange.items import (
    Began,
    Conversation,
    Ended,
    Item,
)
from stator.model.log.commit import Draft
from stator.model.log.query import SessionQuery
from stator.model.views.open_calls import REST_US
from stator.runtime.base.context import Context
from stator.runtime.base.pages import matching
from stator.runtime.ingest.placement import find
from stator.runtime.ingest.recorder import ParentBehind, Recorder, asked_first, naming
from stator.store.port import StorePort

ATTEMPTS = 5
"""How often lines are recorded again because another process was first."""
BATCH_LINES = 2_000
BATCH_BYTES = 16 * 2**20

ContextFor = Callable[[str], Context]
"""Returns the context (project and root) for the folder in which an agent worked."""


class IngestLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How much to ingest at once; the rest is left for the next time."""

    lines: int = 0
    """The most lines; 0 for all of them."""
    seconds: float = 0.0
    """After which reading transcripts ends; 0 for never."""
    wait_s: float = 1.0
    """How long to wait for another process that is ingesting the same spool."""


NO_LIMITS = IngestLimits()


class IngestResult(msgspec.Struct, kw_only=True):
    """What was recorded from a spool."""

    lines: int = 0
    commits: int = 0
    names: list[str] = []
    """Ids of the sessions in which something was recorded."""
    bad: int = 0
    """Damaged pieces that were moved to the folder `bad`."""
    refused: dict[str, str] = {}
    """Conversations that could not be recorded, and why; their lines are in the folder `bad`."""
    transcripts: Report = msgspec.field(default_factory=Report)
    is_all: bool = True
    """Whether nothing was left for the next time."""
    starts: int = 0
    """Conversations that were started or resumed."""


def ingest(
    store: StorePort,
    context_for: ContextFor,
    folder: str,
    *,
    limits: IngestLimits = NO_LIMITS,
    result: IngestResult | None = None,
) -> IngestResult:
    """Record what hooks wrote to a folder, and add it to `result`. Do nothing if another process is doing so."""
    result = IngestResult() if result is None else result
    if not spool.spooled_files(folder) and not witnesses.held_sessions(folder):
        return result
    here = context_for("")
    with spool.exclusive(folder, sleep=here.sleep, wait_s=limits.wait_s) as is_mine:
        if not is_mine:
            result.is_all = False
            return result
        intake = Intake(store, context_for, folder, limits, result)
        while intake.round():
            pass
        intake.place_held()
    return result


def advance(
    store: StorePort,
    context_for: ContextFor,
    session: str,
    *,
    folders: list[str],
    limits: IngestLimits = NO_LIMITS,
    result: IngestResult | None = None,
) -> bool:
    """Read a session's transcript as far as it is written, and place what waits for it; return False if none is
    known."""
    result = IngestResult() if result is None else result
    row = store.session(session)
    note = hook_note(store, session)
    if not note.transcript or not row.record.aliases:
        return False
    source, foreign = row.record.aliases[0]
    conversation = Conversation(source=source, id=foreign, cwd=note.cwd)
    for folder in folders:
        intake = Intake(store, context_for, folder, limits, result)
        intake.catch_up_alone(source, conversation, note)
    return True


def end_dead_conversations(
    store: StorePort, context_for: ContextFor, *, folders: list[str]
) -> list[str]:
    """Record the end of conversations whose program died without reporting it; return their sessions."""
    ended = []
    for row in matching(store, SessionQuery(mode="recorded", status="active")):
        note = hook_note(store, row.id)
        if not row.record.aliases or is_running(note) is not False:
            continue
        source, foreign = row.record.aliases[0]
        conversation = Conversation(source=source, id=foreign, cwd=note.cwd)
        for folder in folders:
            Intake(store, context_for, folder, NO_LIMITS, IngestResult()).catch_up_alone(
                source, conversation, note
            )
        pid, born, _ = note.process
        recorder = Recorder(store, context_for(note.cwd), conversation, via="hook", row=row)
        recorder.take(Ended(id=f"died/{pid}.{born}", at=note.at, died=True))
        recorder.flush()
        ended.append(row.id)
    return ended


def agent_processes(store: StorePort) -> dict[int, str]:
    """The processes of the agents whose conversations are open, as their hooks reported them: pid → agent."""
    found = {}
    for row in matching(store, SessionQuery(mode="recorded", status="active")):
        note = hook_note(store, row.id)
        if is_running(note):
            agent = row.record.aliases[0][0] if row.record.aliases else row.record.agent
            found[note.process[0]] = agent
    return found


class Intake:
    """Takes the lines of one spool into a store."""

    def __init__(
        self,
        store: StorePort,
        context_for: ContextFor,
        folder: str,
        limits: IngestLimits,
        result: IngestResult,
    ) -> None:
        self._store = store
        self._context_for = context_for
        self._folder = folder
        self._limits = limits
        self._result = result
        self._rejected: spool.RejectedPieces | None = None
        here = context_for("")
        self._clock = here.clock
        end = here.monotonic() + limits.seconds
        self._stop = (lambda: here.monotonic() >= end) if limits.seconds else (lambda: False)
        self._touched: set[str] = set()
        """Sessions whose transcript was read and whose lines were placed in this intake."""

    # -- the files --------------------------------------------------------------------------------

    def round(self) -> bool:
        """Record the files that are there now; return whether there may be more."""
        here = self._context_for("")
        unique = lambda: here.secret(6).hex()  # noqa: E731
        result = self._result
        self._rejected = rejected = spool.RejectedPieces(self._folder)
        with spool.ClaimedFiles(
            self._folder, now=here.clock() * 1000, unique=unique, sleep=here.sleep,
            wait_s=self._limits.wait_s,
        ) as claimed:  # fmt: skip
            if not claimed.files:
                result.is_all = result.is_all and not claimed.skipped
                return False
            try:
                is_complete = self._record_files(claimed)
            finally:
                rejected.close()
            result.bad += rejected.count
            if not is_complete:
                result.is_all = False
                return False
            # The files are the only other copy: they go when the store has everything on disk, in any durability.
            self._store.sync()
            claimed.remove()
            return True

    def _record_files(self, claimed: spool.ClaimedFiles) -> bool:
        """Record the lines of the files; return False if a limit was reached first."""
        batch = _Batch()
        seen = 0
        for item in claimed.lines():
            if isinstance(item, spool.BadPiece):
                self._reject(item.file, item.raw)
                continue
            if self._limits.lines and seen >= self._limits.lines:
                self._record(batch)
                return False
            seen += 1
            self._sort(batch, item)
            if batch.lines >= BATCH_LINES or batch.bytes >= BATCH_BYTES:
                self._record(batch)
                batch = _Batch()
        self._record(batch)
        return True

    def _sort(self, batch: _Batch, line: spool.SpoolLine) -> None:
        """Add a line to those of its conversation."""
        try:
            conversation = load_mapper(line.agent).conversation(line.payload)
        except Exception as error:  # a mapper may raise anything on hostile input
            self._refuse(line, f"{line.agent or 'no agent'}: {error_text(error)}")
            return
        if conversation is None:
            self._refuse(line, f"{line.agent}: the line names no conversation")
            return
        if not conversation.cwd:
            conversation = msgspec.structs.replace(conversation, cwd=line.cwd)
        batch.add(conversation, line)

    def _record(self, batch: _Batch) -> None:
        for key, lines in batch.by_conversation.items():
            conversation = batch.conversations[key]
            try:
                self._record_repeatedly(conversation, lines)
            except StoreError:
                raise
            except ParentBehind:
                continue  # its lines are held; the transcript tells where it hangs
            except Exception as error:  # a failure in one conversation must not affect the others
                why = f"{conversation.source} {conversation.id}: {error_text(error)}"
                for line in lines:
                    self._refuse(line, why)

    def _record_repeatedly(self, conversation: Conversation, lines: list[spool.SpoolLine]) -> None:
        """Record the lines; if another process was first, from what it left."""
        for _ in range(ATTEMPTS - 1):
            with suppress(HeadMoved):
                return self._record_conversation(conversation, lines)
        return self._record_conversation(conversation, lines)

    def _refuse(self, line: spool.SpoolLine, why: str) -> None:
        """Keep a line that cannot be recorded in the folder `bad`, and report why."""
        self._reject(line.file, line.raw)
        self._result.refused.setdefault(why.split(":")[0], why)

    def _refuse_shape(self, line: spool.SpoolLine, error: Exception) -> None:
        self._refuse(line, error_text(error))

    def _reject(self, file: str, raw: bytes) -> None:
        if self._rejected is not None:
            self._rejected.put(file, raw)

    # -- one conversation -------------------------------------------------------------------------

    def _record_conversation(
        self, conversation: Conversation, lines: list[spool.SpoolLine]
    ) -> None:
        row = find(self._store, conversation)
        note = HookNote() if row is None else hook_note(self._store, row.id)
        lines = [line for line in lines if line.end > note.read.get(line.file, 0)]
        if not lines:
            return
        self._result.lines += len(lines)
        self._result.starts += any(_hook_name(line) in STARTS for line in lines)
        note.transcript = _named_transcript(lines, note.transcript)
        note.cwd = note.cwd or conversation.cwd
        gave = {line.id: given_in(line) for line in lines}
        note.given = with_given(note.given, (one for notes in gave.values() for one in notes))
        own = [line for line in lines if line.agent != WITNESS and not gave[line.id]]
        if own:
            note.heard_from(own[-1].process, own[-1].at)
        orderer = row.record.orderer if row is not None and row.record.orderer else ""
        if not orderer:
            orderer = "transcript" if note.transcript else "hooks"
        if orderer == "transcript":
            self._witness(conversation, lines, note)
        else:
            self._order(conversation, lines, note)

    def _witness(
        self, conversation: Conversation, lines: list[spool.SpoolLine], note: HookNote
    ) -> None:
        """Record starts and ends, keep the rest, and read the transcript."""
        context = self._context_for(conversation.cwd)
        file = TranscriptFile(self._store, context, conversation, note.transcript)
        conversation = file.describe(conversation)
        kept, lifecycle = [], []
        for seen in witnesses.reported(lines, note.state, self._refuse_shape):
            lifecycle += [item for item in seen.items if isinstance(item, (Began, Ended))]
            if any(not isinstance(item, (Began, Ended)) for item in seen.items):
                kept.append(seen.line)
        session = (
            conversation.session if (row := find(self._store, conversation)) is None else row.id
        )
        if kept:  # before the files go
            witnesses.hold(self._folder, session, kept)
        ends = next((n for n, item in enumerate(lifecycle) if isinstance(item, Ended)), None)
        try:
            if ends is not None and (row is not None or ends):
                # what a program did before its end is in the log before it
                self._lifecycle(conversation, lifecycle[:ends], None)
                lifecycle = lifecycle[ends:]
                file.read(self._result.transcripts, at_rest=False, stop=self._stop)
            for item in lifecycle:
                note.lifecycle(item)
            self._lifecycle(conversation, lifecycle, note.bookmark(session, self._key()))
        except ParentBehind:
            # A sub-agent whose starting call is not recorded yet: its transcript begins it later.
            witnesses.hold(self._folder, session, lines)
            self._result.is_all = False
            return
        note.number += 1
        self._name(session)
        self.catch_up(conversation.source, conversation, note)

    def _lifecycle(
        self, conversation: Conversation, items: list[Began | Ended], bookmark: Bookmark | None
    ) -> None:
        """Record starts and ends of a program."""
        context, row = self._context_for(conversation.cwd), find(self._store, conversation)
        recorder = Recorder(self._store, context, conversation, via="hook", row=row)
        for item in items:
            recorder.take(item)
        if items or bookmark is not None:
            self._result.commits += len(recorder.flush(bookmark=bookmark))

    def _order(
        self, conversation: Conversation, lines: list[spool.SpoolLine], note: HookNote
    ) -> None:
        """Record everything, in the order of the lines: nothing else tells it."""
        context = self._context_for(conversation.cwd)
        recorders: dict[str, Recorder] = {}

        def recorder(within: str) -> Recorder:
            if within not in recorders:
                if within:
                    recorders[""].flush()  # a sub-agent's session refers to its parent's
                talk = subagent_conversation(conversation, within) if within else conversation
                recorders[within] = Recorder(
                    self._store, context, talk, via="hook", orderer="hooks",
                    state=None if within else note.drafting,
                )  # fmt: skip
            return recorders[within]

        main = recorder("")
        note.state["no transcript"] = True
        for seen in witnesses.reported(lines, note.state, self._refuse_shape):
            for item in seen.items:
                self._result.commits += len(recorder(item.within).take(item))
                if isinstance(item, (Began, Ended)):
                    note.lifecycle(item)
        for line in lines:
            note.read[line.file] = line.end
        for within, one in recorders.items():
            if within:
                self._result.commits += len(one.flush())
        note.drafting = main.state
        self._result.commits += len(main.flush(bookmark=note.bookmark(main.session, self._key())))
        self._name(main.session)

    def _key(self) -> bytes:
        """What marks notes as those of this machine; nothing for a store that is on it."""
        if not getattr(self._store, "remote", False):
            return b""
        return spool_key(self._folder, self._context_for("").secret)

    def _name(self, session: str) -> None:
        if session not in self._result.names:
            self._result.names.append(session)

    # -- the transcript and what waits for it ----------------------------------------------------

    def catch_up_alone(self, source: str, conversation: Conversation, note: HookNote) -> None:
        """Catch up outside of a round. Another process may be adding to the lines that wait: then only the transcript
        is read, and that process places them."""
        if not os.path.isdir(self._folder):
            self._read(conversation, note)
            return
        sleep, wait_s = self._context_for("").sleep, self._limits.wait_s
        with spool.exclusive(self._folder, sleep=sleep, wait_s=wait_s) as is_mine:
            row = find(self._store, conversation) if is_mine else None
            if row is None:
                self._read(conversation, note)
            else:  # the agent may have reported more while this process waited
                self.catch_up(source, conversation, hook_note(self._store, row.id))

    def catch_up(self, source: str, conversation: Conversation, note: HookNote) -> None:
        """Read the transcript as far as it is written, and place what waits for it. The spool's lock is held."""
        file, is_all = self._read(conversation, note)
        row = find(self._store, conversation)
        if row is None:
            return
        self._touched.add(row.id)
        lines = witnesses.held_lines(self._folder, row.id)
        if not lines:
            return
        has_file = bool(file.conversations)
        left = self._unplaced(row.id, source, lines, has_file=has_file)
        at_rest = rests(note, self._clock())
        if at_rest is None:
            last = max(row.updated, *(line.at for line in lines))
            at_rest = self._clock() - last >= REST_US
        if at_rest and is_all:
            talk = msgspec.structs.replace(conversation, cwd=conversation.cwd or note.cwd)
            self._land(row.id, talk, left, has_file=has_file)
            left = []
        witnesses.keep_only(self._folder, row.id, [seen.line for seen in left])

    def _read(self, conversation: Conversation, note: HookNote) -> tuple[TranscriptFile, bool]:
        """Read the transcript; return it, and whether all of it was read."""
        context = self._context_for(note.cwd)
        file = TranscriptFile(self._store, context, conversation, note.transcript)
        at_rest = rests(note, self._clock())
        is_all = file.read(self._result.transcripts, at_rest=at_rest, stop=self._stop)
        self._result.is_all = self._result.is_all and is_all
        return file, is_all

    def _unplaced(
        self, session: str, source: str, lines: list[spool.SpoolLine], *, has_file: bool
    ) -> list[witnesses.Witnessed]:
        """The lines that report what the log does not hold."""
        left = []
        for seen in witnesses.reported(lines, {"no transcript": not has_file}, self._refuse_shape):
            missing = [
                item
                for item in seen.items
                if not self._is_placed(session, source, item)
                or (not has_file and not witnesses.needs_no_place(item))
            ]
            if missing:
                left.append(seen)
        return left

    def _is_placed(self, session: str, source: str, item: Item) -> bool:
        owner = _owner(self._store, source, session, item)
        return witnesses.is_placed(self._store, owner, source, item)

    def _land(
        self,
        session: str,
        conversation: Conversation,
        left: list[witnesses.Witnessed],
        *,
        has_file: bool,
    ) -> None:
        """Record what only hooks saw, at the end of the log: all of it if there is no transcript."""
        context = self._context_for(conversation.cwd)
        by_owner: dict[str, list[Item]] = {}
        known: set[str] = set()
        for seen in left:
            for item in witnesses.worth_landing(seen.items) if has_file else seen.items:
                owner = _owner(self._store, conversation.source, session, item)
                if witnesses.is_same_call(self._store, owner, item):
                    known.add(item.id)
                if item.id not in known:
                    by_owner.setdefault(owner, []).append(item)
        for owner, items in by_owner.items():
            drafts = witnesses.landed(
                witnesses.drafts_of(
                    self._store, context, owner, conversation, items, has_turns=has_file
                )
            )
            if owner == session and not has_file:
                drafts = [*self._naming(session, conversation, items), *drafts]
            head = self._store.head(owner).seq
            answers = self._store.append(owner, drafts)
            self._result.commits += sum(commit.seq > head for commit in answers)

    def _naming(self, session: str, conversation: Conversation, items: list[Item]) -> list[Draft]:
        """A session without a transcript is called after the first prompt that a hook reported."""
        record = self._store.session(session).record
        named = msgspec.structs.replace(conversation, name=conversation.name or asked_first(items))
        return naming(self._store, record, named, via="hook")

    def place_held(self) -> None:
        """Look again at sessions with lines that wait, though no hook reported anything new."""
        for session in witnesses.held_sessions(self._folder):
            if session in self._touched or session.endswith(".new"):
                continue
            lines = witnesses.held_lines(self._folder, session)
            own = [line for line in lines if line.agent in MAPPERS and line.agent != WITNESS]
            conversation = load_mapper(own[-1].agent).conversation(own[-1].payload) if own else None
            if conversation is None:
                continue
            row = find(self._store, conversation)
            note = HookNote() if row is None else hook_note(self._store, row.id)
            if not note.at:  # it was lost; the lines hold most of it
                note.process, note.at = own[-1].process, own[-1].at
            note.transcript = note.transcript or transcript_path(own[-1])
            note.cwd = note.cwd or conversation.cwd or own[-1].cwd
            self.catch_up(conversation.source, conversation, note)


class _Batch:
    """Lines by conversation."""

    def __init__(self) -> None:
        self.by_conversation: dict[tuple[str, str], list[spool.SpoolLine]] = {}
        self.conversations: dict[tuple[str, str], Conversation] = {}
        self.lines = self.bytes = 0

    def add(self, conversation: Conversation, line: spool.SpoolLine) -> None:
        key = conversation.source, conversation.id
        self.conversations.setdefault(key, conversation)
        self.by_conversation.setdefault(key, []).append(line)
        self.lines += 1
        self.bytes += len(line.raw)


def _owner(store: StorePort, source: str, session: str, item: Item) -> str:
    """The session that an item belongs to: a sub-agent's own, if it is recorded."""
    if not item.within:
        return session
    row = find(store, Conversation(source=source, id=item.within))
    return session if row is None else row.id


def _named_transcript(lines: list[spool.SpoolLine], known: str) -> str:
    """The transcript that the last line names. When an agent takes up a conversation, its first line may name a file
    that it leaves again at once: that one counts only if none is known."""
    named = [line for line in reversed(lines) if not _is_of_child(line)]
    later = (transcript_path(line) for line in named if _hook_name(line) not in STARTS)
    at_start = (transcript_path(line) for line in named)
    return next(filter(None, later), known) or next(filter(None, at_start), "")


def _is_of_child(line: spool.SpoolLine) -> bool:
    """Whether a line reports a sub-agent: it may name the transcript of that one."""
    return _hook_name(line) in ("SubagentStart", "SubagentStop")


def _hook_name(line: spool.SpoolLine) -> str:
    name = line.payload.get("hook_event_name")
    return name if isinstance(name, str) else ""
