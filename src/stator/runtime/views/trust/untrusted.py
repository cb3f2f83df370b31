"""Works out which commits rest on an untrusted root, session by session, from the oldest commit to the newest.

Edges lead to other sessions too: to those that one continues, and to sub-agents. Each session is read once, as far as
it is needed, or continued from what an index knows of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from stator.errors import NotFound
from stator.model.log.commit import Commit, Large
from stator.model.log.edges import Edge
from stator.model.values.ids import is_id, retype
from stator.model.views.knowledge import CARRY, origins_of
from stator.model.views.taint import RESULTS, edges_in, reported_children
from stator.model.views.untrusted import NOT_KNOWN, Rooted, SessionTaint, newer
from stator.runtime.base.one_answer import reading
from stator.runtime.base.pages import commit_at, commits
from stator.runtime.views.derivation import children_at, judge_of, origin_of
from stator.runtime.views.refs import intent_of
from stator.store.port import StorePort

REREAD = ("erasure", "rewind", "trust")
"""After these, what was found out about the commits before may hold no longer."""
NESTED_MAX = 40
"""Sessions that are read for one another at the same time. What lies behind more of them is not trusted."""
RECENT_MAX = 2000
"""Calls whose places and requests are kept."""
STREAMS_MAX = 2000
"""Sessions that a reader keeps."""

Saved = Callable[[str], SessionTaint | None]
"""What an index knows of a session, as a copy; None if that is nothing."""


def nothing_saved(session: str) -> SessionTaint | None:
    """Where there is no index."""
    return None


class TaintReader:
    """Reads sessions for what is not trusted in them, each once."""

    def __init__(self, store: StorePort, saved: Saved = nothing_saved) -> None:
        self._store = store
        self._saved = saved
        self._streams: dict[str, TaintStream] = {}
        self._nested = 0

    def begin(self, session: str, taint: SessionTaint | None = None) -> TaintStream:
        """Read a session from its beginning, or continue after what is known of it."""
        stream = TaintStream(self._store, session, self, taint or SessionTaint())
        self._streams[session] = stream
        if len(self._streams) > STREAMS_MAX:
            del self._streams[next(iter(self._streams))]
        return stream

    def stream(self, session: str) -> TaintStream | None:
        """What was read of a session so far."""
        return self._streams.get(session)

    def forget(self, sessions: Iterable[str]) -> None:
        """Read these again when they are asked for."""
        for session in sessions:
            self._streams.pop(session, None)

    def at(self, session: str, seq: int) -> Rooted | None:
        """What a commit of a session rests on."""
        stream = self._advanced(session, seq)
        if isinstance(stream, Rooted):
            return stream
        return None if stream is None else stream.taint.at(seq)

    def anywhere(self, session: str) -> Rooted | None:
        """What anything in a session rests on."""
        stream = self._advanced(session, None)
        if isinstance(stream, Rooted):
            return stream
        return None if stream is None else stream.taint.anywhere()

    def named(self, identifier: str) -> tuple[str, Rooted | None] | None:
        """What a commit with that id rests on, and whose it is; None if it is not here."""
        for owner, seq in self._store.locate(identifier)[:1]:
            return owner, self.at(owner, seq)
        return None

    def _advanced(self, session: str, seq: int | None) -> TaintStream | Rooted | None:
        """The session read up to a seq, or up to its head; None if it was purged."""
        try:
            upto = self._store.session(session).head if seq is None else seq
            stream = self._streams.get(session) or self._resumed(session)
        except NotFound:
            return None
        if stream.taint.upto >= upto:
            return stream
        if stream.is_busy or self._nested >= NESTED_MAX:
            return Rooted(0, NOT_KNOWN)
        self._nested += 1
        try:
            stream.advance(upto)
        finally:
            self._nested -= 1
        return stream

    def _resumed(self, session: str) -> TaintStream:
        taint = self._saved(session)
        if taint is not None and taint.upto:
            new = commits(self._store, session, after=taint.upto, load=False)
            if any(commit.kind in REREAD for commit in new):
                taint = None
        return self.begin(session, taint)


def reader_of(store: StorePort, session: str) -> TaintReader:
    """A reader that begins with a session; for one question, always the same. Where sessions rest on one another, what
    is found out of them depends on which is read first."""
    asked = reading(store)
    if asked is None:
        return TaintReader(store)
    return asked.once(f"taint {session}", lambda: TaintReader(store))


class TaintStream:
    """One session, commit by commit."""

    def __init__(
        self, store: StorePort, session: str, reader: TaintReader, taint: SessionTaint
    ) -> None:
        self.taint = taint
        self.is_busy = False
        self.is_alone = True
        """Whether nothing was looked for in another session."""
        self._store, self._id, self._reader = store, session, reader
        self._calls: dict[str, Commit] = {}
        self._judge = judge_of(store, session, self._intent)
        self._edges = edges_in(store.session(session).record)
        self._children = children_at(store, session)

    def advance(self, upto: int) -> None:
        """Read up to a seq."""
        for commit in commits(self._store, self._id, after=self.taint.upto, upto=upto, load=False):
            self.feed(commit)

    def feed(self, commit: Commit) -> Rooted | None:
        """Take the next commit; what it rests on."""
        self.is_busy = True
        try:
            rooted = self._rooted(commit)
        finally:
            self.is_busy = False
        self.taint.mark(commit, rooted)
        if commit.kind == "call":
            self._calls[commit.id] = commit
            if len(self._calls) > RECENT_MAX:
                del self._calls[next(iter(self._calls))]
        return rooted

    def taken_over(self, commit: Commit) -> list[Rooted | None]:
        """What each of the records that a commit took over from another session rests on."""
        own = self.taint.at(commit.seq)
        found: list[Rooted | None] = []
        for identifier, _ in origins_of(commit):
            known = self._reader.named(identifier) if is_id(identifier) else None
            found.append(own if known is None else known[1])
        return found

    def _rooted(self, commit: Commit) -> Rooted | None:
        leads_out = self._leads_out(commit)
        self.is_alone = self.is_alone and not leads_out
        why = self._judge(commit)
        if why is None:
            return None
        if why:
            return Rooted(commit.seq, self._origin(commit, why))
        found: Rooted | None = None
        # Where nothing before is untrusted, only what is elsewhere can be.
        for edge in self._edges(commit) if self.taint.runs or leads_out else ():
            found = newer(found, self._behind(commit, edge))
        for child in self._reports(commit):
            self.taint.lead(child)
            if (report := self._reader.anywhere(child)) is not None:
                found = newer(found, Rooted(0, f"a sub-agent's report of {report.origin}"))
        return found

    def _leads_out(self, commit: Commit) -> bool:
        """Whether a commit names another that may be in another session."""
        if commit.parent or any(isinstance(item, str) for item in commit.inputs):
            return True
        if not commit.call or commit.kind in ("call", "entry"):
            return commit.kind in ("child", CARRY)
        return not self._seq(retype(commit.call, "commit"))

    def _behind(self, commit: Commit, edge: Edge) -> Rooted | None:
        if edge.id:
            return self._named(commit, edge.id)
        return (
            self.taint.within(edge.first, edge.last) if edge.is_range else self.taint.at(edge.first)
        )

    def _named(self, commit: Commit, text: str) -> Rooted | None:
        if not is_id(text):
            return None
        identifier = retype(text, "commit")
        seq = self._seq(identifier)
        if 0 < seq < commit.seq:
            return self.taint.at(seq)
        if not seq and (known := self._reader.named(identifier)) is not None:
            owner, rooted = known
            self.taint.lead(owner)
            return None if rooted is None else Rooted(0, rooted.origin)
        # It was not there yet when the model reported: what it had been shown then is not known better.
        return self.taint.within(1, commit.seq) if commit.provenance.source == "model" else None

    def _seq(self, identifier: str) -> int:
        if (held := self._calls.get(identifier)) is not None:
            return held.seq
        found = self._store.locate(identifier, self._id)
        return found[0][1] if found else 0

    def _reports(self, commit: Commit) -> Iterable[str]:
        if commit.kind == "child":
            return reported_children(commit)
        if not self._children or not commit.call or commit.kind not in RESULTS:
            return ()
        return self._children.get(self._seq(retype(commit.call, "commit")), ())

    def _intent(self, call: str) -> Commit | None:
        held = self._calls.get(retype(call, "commit"))
        if held is not None and held.call == call:
            is_large = isinstance(held.content.get("input"), Large)
            return commit_at(self._store, self._id, held.seq) if is_large else held
        return intent_of(self._store, self._id, call)

    def _origin(self, commit: Commit, why: str) -> str:
        return origin_of(commit, why, self._intent)
