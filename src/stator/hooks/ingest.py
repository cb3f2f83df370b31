"""From the spool to the store: each line once, in order, conversation by conversation.

Hooks are the signal, the transcript is the truth: before the lines of a conversation are recorded, what
its transcript has is; then come the things that only hooks know. How far each file of the spool was
read for a conversation is noted in the transaction that records what it held, so that whatever ends
this program, the next one neither loses nor doubles anything.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from copy import deepcopy
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any, Protocol, cast

import msgspec

from stator.errors import InvalidInput, StoreError
from stator.hooks import spool
from stator.importers import conversation as taking
from stator.importers import registry
from stator.importers.format import Format, Found
from stator.importers.reading.jsonl import beginning
from stator.model.exchange.items import (
    Compacted,
    Conversation,
    Ended,
    Item,
    Prompted,
)
from stator.model.log.query import SessionQuery
from stator.model.log.redact import has_placeholder
from stator.runtime.base.context import Context
from stator.runtime.base.paging import matching
from stator.runtime.ingest.recorder import Recorder, find, noted_cursor
from stator.store.port import StorePort

MAPPERS = {
    "claude-code": "claude_code",
    "codex": "codex",
    "gemini": "gemini",
    "cursor": "cursor",
}
"""Agent → the module here that knows what its hooks say."""
HOOKS = "hooks"
"""The name of the note that says how far the spool was read."""
BATCH_LINES = 2_000
BATCH_BYTES = 16 * 2**20
STARTS = ("SessionStart", "sessionStart")
ENDS = ("SessionEnd", "sessionEnd")
BEGIN = 65_536

World = Callable[[str], Context]
"""The world as it is for whoever works in a folder: its project and its root."""


class Mapper(Protocol):
    """What an agent's hooks say, as items."""

    def conversation(self, said: dict[str, Any]) -> Conversation | None:
        """The conversation a line is about; None: it is about none."""
        ...

    def items(
        self, said: dict[str, Any], at: int, unique: str, state: dict[str, Any]
    ) -> Iterator[Item]:
        """What a line says. `unique` names what has no id of its own; `state` is kept between lines."""
        ...


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """How much is taken in at once; the rest is left for the next."""

    lines: int = 0
    """0: all of them."""
    transcript: int = 0
    """Bytes of a transcript behind the place where reading goes on; 0: any number."""
    wait_s: float = 1.0
    """For somebody else who takes the spool in."""


EVERYTHING = Limits()
GLANCE = Limits(lines=20_000, transcript=8 * 2**20)
"""For whoever only looks: it is done again the next time."""


class Ingested(msgspec.Struct, kw_only=True):
    """What came of a spool."""

    lines: int = 0
    commits: int = 0
    names: list[str] = []
    """Ids of the sessions that something came into."""
    bad: int = 0
    """Pieces that were set aside."""
    refused: dict[str, str] = {}
    """Conversations that could not be recorded, and why; their lines are set aside."""
    transcripts: taking.Report = msgspec.field(default_factory=taking.Report)
    is_all: bool = True
    """Whether nothing was left for the next."""
    starts: int = 0
    """Conversations that were begun or taken up again."""


def load(agent: str) -> Mapper:
    """Who knows what an agent's hooks say."""
    if agent not in MAPPERS:
        raise InvalidInput(f"no agent {agent!r:.40}", hint=", ".join(MAPPERS), path="$.agent")
    return cast("Mapper", import_module(f"stator.hooks.{MAPPERS[agent]}"))


def ingest(store: StorePort, world: World, folder: str, *, limits: Limits = EVERYTHING) -> Ingested:
    """Take in what hooks left in a folder. If somebody else is at it, nothing is done."""
    done = Ingested()
    if not spool.names(folder):
        return done
    here = world("")
    with spool.alone(folder, sleep=here.sleep, wait_s=limits.wait_s) as mine:
        if not mine:
            done.is_all = False
            return done
        while _round(store, world, folder, limits, done):
            pass
        if done.starts:
            bury(store, world)
    return done


def bury(store: StorePort, world: World) -> list[str]:
    """Say of conversations whose program is gone without a word that they ended; the sessions.

    What such a program was doing is in doubt, and nobody else will ever say so: it may be taken up by
    another program, or never.
    """
    from stator.runtime.runs.processes import start_ticks  # what starts programs is needed by few

    ended = []
    for row in matching(store, SessionQuery(mode="recorded", status="active")):
        note = noted_cursor(store, row.id, HOOKS)
        if not isinstance(note, dict) or not row.record.aliases:
            continue
        pid, born, space = note.get("process") or (0, 0, 0)
        if not pid or space != _namespace() or start_ticks(pid) == born:
            continue
        source, foreign = row.record.aliases[0]
        about = Conversation(source=source, id=foreign)
        recorder = Recorder(store, world(str(note.get("cwd") or "")), about, via="hook")
        recorder.take(Ended(id=f"died/{pid}.{born}", at=note.get("at", 0), died=True))
        recorder.flush()
        ended.append(row.id)
    return ended


def look(store: StorePort, world: World, folder: str) -> Ingested:
    """Record what hooks left in a folder and leave it there: for a store that nobody keeps."""
    done = Ingested()
    recording = Recording(store, world, GLANCE, done, files=spool.names(folder))
    for line in islice(spool.looked_at(folder), GLANCE.lines):
        recording.add(line)
    recording.flush()
    return done


def _round(store: StorePort, world: World, folder: str, limits: Limits, done: Ingested) -> bool:
    """Take one round of files in; whether there may be more."""
    here = world("")
    aside = spool.Aside(folder)
    unique = lambda: here.secret(6).hex()  # noqa: E731
    with spool.Taken(
        folder, now=here.clock() * 1000, unique=unique, sleep=here.sleep, wait_s=limits.wait_s
    ) as taken:
        if not taken.files:
            done.is_all = done.is_all and not taken.skipped
            return False
        try:
            whole = _recorded(store, world, taken, aside, limits, done)
        finally:
            aside.close()
        done.bad += aside.count
        if not whole:
            done.is_all = False
            return False
        store.sync()
        taken.remove()
        return True


def _recorded(
    store: StorePort,
    world: World,
    taken: spool.Taken,
    aside: spool.Aside,
    limits: Limits,
    done: Ingested,
) -> bool:
    """Record what the files hold; False where a limit was reached before their end."""
    recording = Recording(store, world, limits, done, files=taken.files, aside=aside)
    for item in taken.lines():
        if isinstance(item, spool.Bad):
            aside.put(item.file, item.raw)
        elif limits.lines and recording.seen >= limits.lines:
            recording.flush()
            return False
        else:
            recording.add(item)
    recording.flush()
    return not recording.is_waiting


class Recording:
    """Lines on their way into a store, a batch at a time."""

    def __init__(
        self,
        store: StorePort,
        world: World,
        limits: Limits,
        done: Ingested,
        *,
        files: list[str],
        aside: spool.Aside | None = None,
    ) -> None:
        """`aside` is where lines go that no session takes."""
        self._store = store
        self._world = world
        self._limits = limits
        self._done = done
        self._files = frozenset(files)
        self._talks: dict[tuple[str, str], list[spool.Line]] = {}
        self._about: dict[tuple[str, str], Conversation] = {}
        self._aside = aside
        self._bytes = 0
        self._waiting = 0
        self.seen = 0
        """Lines that were taken, those among them that were recorded before."""
        self.is_waiting = False
        """Whether a conversation was left for the next."""

    def add(self, line: spool.Line) -> None:
        """Take a line; it is recorded with the batch it is in."""
        self.seen += 1
        self._waiting += 1
        self._bytes += len(line.raw)
        try:
            about = load(line.agent).conversation(line.said)
        except Exception as error:  # whatever a mapper makes of hostile input
            self._refuse(line, f"{line.agent or 'no agent'}: {_said(error)}")
            return
        if about is None:
            self._refuse(line, f"{line.agent}: says of no conversation")
            return
        place = line.agent, about.id
        if not about.cwd:
            about = msgspec.structs.replace(about, cwd=line.cwd)
        self._about.setdefault(place, about)
        self._talks.setdefault(place, []).append(line)
        if self._waiting >= BATCH_LINES or self._bytes >= BATCH_BYTES:
            self.flush()

    def flush(self) -> None:
        """Record the batch."""
        for place, lines in self._talks.items():
            about = self._about[place]
            try:
                self._talk(place[0], about, lines)
            except StoreError:
                raise
            except Exception as error:  # one conversation must not hold the others up
                for line in lines:
                    self._refuse(line, f"{about.source} {about.id}: {_said(error)}")
        self._talks, self._about, self._waiting, self._bytes = {}, {}, 0, 0

    def _refuse(self, line: spool.Line, why: str) -> None:
        if self._aside is not None:
            self._aside.put(line.file, line.raw)
        self._done.refused.setdefault(why.split(":")[0], why)

    def _talk(self, agent: str, about: Conversation, lines: list[spool.Line]) -> None:
        context = self._world(about.cwd)
        path = next(filter(None, map(_transcript, reversed(lines))), "")
        transcript = _Transcript(self._store, context, agent, about, path)
        if find(self._store, about) is None:
            if self._limits.transcript and not transcript.founds and _is_fork(lines):
                # what it is a fork of stands in a file that is not there yet
                self.is_waiting = True
                return
            about = transcript.about(about)
        talk = _Talk(self._store, context, load(agent), about, self._files, self._refuse)
        lines = talk.unread(lines)
        self._done.lines += len(lines)
        self._done.starts += any(_name(line) in STARTS for line in lines)
        if not lines:
            return
        # What comes after a compaction is not to be told before what came before it.
        first = next((n for n, line in enumerate(lines) if not _is_start(line)), len(lines))
        talk.transcript = path or talk.transcript
        talk.record(lines[:first])
        talk.has_transcript = transcript.read(self._limits, self._done.transcripts)
        talk.record(lines[first:])
        if _name(lines[-1]) in ENDS:
            transcript.read(self._limits, self._done.transcripts, conclude=True)
        self._done.commits += talk.commits
        if talk.session not in self._done.names:
            self._done.names.append(talk.session)


class _Talk:
    """One conversation, as its hooks tell it."""

    def __init__(
        self,
        store: StorePort,
        context: Context,
        mapper: Mapper,
        about: Conversation,
        files: frozenset[str],
        refuse: Callable[[spool.Line, str], None],
    ) -> None:
        self._store = store
        self._context = context
        self._mapper = mapper
        self._about = about
        self._files = files
        self._refuse = refuse
        self._recorders: dict[str, Recorder] = {}
        self.session = about.session
        self.commits = 0
        self.has_transcript = False
        known = self._noted()
        self.transcript: str = known.get("transcript") or ""
        self._state: dict[str, Any] = known.get("state") or {}
        self._process = {"process": known.get("process") or [0, 0, 0], "at": known.get("at", 0)}
        self._read: dict[str, int] = {
            name: end for name, end in (known.get("read") or {}).items() if name in files
        }

    def _noted(self) -> dict[str, Any]:
        main = self._recorder("")
        self.session = main.session
        found = main.cursor(HOOKS)
        return found if isinstance(found, dict) else {}

    def unread(self, lines: list[spool.Line]) -> list[spool.Line]:
        """Those of the lines that were not recorded by somebody who died before the file was gone."""
        return [line for line in lines if line.end > self._read.get(line.file, 0)]

    def record(self, lines: list[spool.Line]) -> None:
        """Record what they say, with the place that was come to."""
        if not lines:
            return
        self._state["no transcript"] = not self.has_transcript
        for line in lines:
            state = deepcopy(self._state)  # the old one is noted until the line is recorded
            try:
                items = list(self._mapper.items(line.said, line.at, line.id, state))
            except Exception as error:  # whatever a mapper makes of hostile input
                # set aside before it is noted as read: whoever dies in between must not lose it
                self._refuse(line, f"{line.agent} {self._about.id}: {_said(error)}")
                items, state = [], self._state
            if any(isinstance(item, Compacted) for item in items):
                self._flush()  # a compaction is recorded at once: what stands before it, whole
            for item in items:
                if not self._is_told_better(item):
                    self.commits += len(self._recorder(item.within).take(item))
            self._state = state
            self._process = {"process": list(line.process), "at": line.at}
            self._read[line.file] = line.end
        self._flush()

    def _is_told_better(self, item: Item) -> bool:
        """Whether the transcript has it under another id: one made from text that was redacted here."""
        return (
            self.has_transcript
            and isinstance(item, Prompted)
            and isinstance(item.content, str)
            and has_placeholder(item.content)
        )

    def _flush(self) -> None:
        """The sub-agents' first: what says that all was read comes last."""
        note = {
            "state": self._state,
            "read": self._read,
            "transcript": self.transcript,
            "cwd": self._about.cwd,
            **self._process,
        }
        for within, recorder in self._recorders.items():
            if within:
                self.commits += len(recorder.flush())
        commits = self._recorder("").flush(cursor=(HOOKS, note))
        self.commits += sum(commit.kind != "scratch" for commit in commits)

    def _recorder(self, within: str) -> Recorder:
        known = self._recorders.get(within)
        if known is None:
            if within:
                self._flush()  # a sub-agent's parent comes first
            about = taking.below(self._about, within) if within else self._about
            known = Recorder(self._store, self._context, about, via="hook")
            self._recorders[within] = known
        return known


class _Transcript:
    """A conversation's transcript, and what it tells of sub-agents."""

    def __init__(
        self, store: StorePort, context: Context, agent: str, about: Conversation, path: str
    ) -> None:
        self._store = store
        self._context = context
        self._path = path
        self._own = about.id
        self._form = _form(agent) if path else None
        self._why = ""
        self.founds: list[Found] = []
        """None, where the file is not what it is said to be."""
        try:
            self.founds = self._found()
        except Exception as error:  # whatever a reader makes of a hostile file
            self._why = _said(error)

    def _found(self) -> list[Found]:
        path, form = Path(self._path), self._form
        if form is None or not os.path.isfile(path):
            return []
        if not form.is_one(path, beginning(self._path, BEGIN)):
            return []
        return [
            found
            for found in form.conversations(path)
            if self._own in (found.conversation.id, found.conversation.parent)
        ]

    def about(self, known: Conversation) -> Conversation:
        """What it says of the conversation as a whole, which hooks do not: its name, what it is a fork of."""
        for found in self.founds:
            if found.conversation.id == known.id:
                return msgspec.structs.replace(found.conversation, cwd=known.cwd)
        return known

    def read(self, limits: Limits, report: taking.Report, *, conclude: bool = False) -> bool:
        """Take in what is new of it; whether it could be read."""
        try:
            for found in self.founds:
                if self._form is not None and not self._is_too_much(found, limits):
                    taking.take(
                        self._store, self._context, self._form, found, report, via="hook",
                        conclude=conclude,
                    )  # fmt: skip
        except StoreError:
            raise
        except Exception as error:  # a transcript nobody can read must not hold the hooks' lines up
            self._why = _said(error)
        if self._why:
            report.refused.setdefault(self._path, self._why)
        return bool(self.founds) and not self._why

    def _is_too_much(self, found: Found, limits: Limits) -> bool:
        if not limits.transcript:
            return False
        note = noted_cursor(self._store, found.conversation.session, found.place)
        known = note.get("offset", 0) if isinstance(note, dict) else 0
        return found.size - known > limits.transcript


def reconcile(store: StorePort, world: World, session: str, report: taking.Report) -> bool:
    """Bring a session's transcript in once more, as far as it goes by now; False: none is known."""
    row = store.session(session)
    note = noted_cursor(store, session, HOOKS)
    path = note.get("transcript") if isinstance(note, dict) else ""
    if not path or not row.record.aliases:
        return False
    source, foreign = row.record.aliases[0]
    about = Conversation(source=source, id=foreign, cwd=str(note.get("cwd") or ""))
    transcript = _Transcript(store, world(about.cwd), source, about, path)
    return transcript.read(EVERYTHING, report)


def _namespace() -> int:
    """Where numbers of processes mean what they mean here; -1: there is no way to tell."""
    try:
        return os.stat("/proc/self/ns/pid").st_ino
    except OSError:
        return -1


def _form(agent: str) -> Format | None:
    try:
        return registry.load(agent)
    except (InvalidInput, ImportError):
        return None


def _transcript(line: spool.Line) -> str:
    path = line.said.get("transcript_path")
    return path if isinstance(path, str) and os.path.isabs(path) and "\0" not in path else ""


def _name(line: spool.Line) -> str:
    name = line.said.get("hook_event_name")
    return name if isinstance(name, str) else ""


def _is_start(line: spool.Line) -> bool:
    """Whether it says that a conversation begins or is taken up, and nothing of what was said in it."""
    return _name(line) in STARTS and line.said.get("source") != "compact"


def _is_fork(lines: list[spool.Line]) -> bool:
    """Whether all that is known of a conversation is that it began as a fork."""
    starts = all(_name(line) in STARTS for line in lines)
    return starts and any(line.said.get("source") == "fork" for line in lines)


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:400]
