"""Finds the session, the position or the call that a person typed."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator
from itertools import islice
from typing import Any

import msgspec

from stator.errors import Ambiguous, BadPosition, NotFound, Removed
from stator.model.log.commit import Commit
from stator.model.log.delta import Put
from stator.model.log.query import CallQuery, CallRow, SessionQuery, SessionRow
from stator.model.log.shown_text import cut_short
from stator.model.records.types import CallRecord, Parent
from stator.model.sessions.sub_agents import is_sub_agent
from stator.model.values.ids import is_id, record_id, short, suffix_of
from stator.model.values.position import (
    AtHead,
    AtName,
    AtSeq,
    AtTurn,
    Position,
    Ref,
    parse_position,
    parse_ref,
)
from stator.model.views.unplaced import EXPLAINED, named
from stator.runtime.base import project_flags
from stator.runtime.base.one_answer import head_seq
from stator.runtime.base.pages import commit_at, find_entry, matching
from stator.runtime.views.as_read import for_one_answer, unplaced_in
from stator.runtime.views.last_acts import by_last_act
from stator.runtime.views.reflog import standing_turns, turn_at
from stator.store.port import StorePort

CANDIDATES = 8
AGENTS_IN = 1000
"""Sessions, those used last, in which an agent is looked for by the beginning of its name."""
NAME_MAX = 40
PAGE = 100
_RECORD = re.compile(r"[0-9a-f]{16}(\.[0-9]+)?\Z")
"""What the id of a record looks like."""


_KEYED = re.compile(r"(s_[0-9a-f]{8,32}):(.+)\Z", re.DOTALL)
"""A key with its session, as texts for agents name it: `s_7f2a91bc:decision:auth`."""


def with_session(key: str) -> tuple[str, str]:
    """The session that a key names, or "", and the key in it."""
    found = _KEYED.match(key)
    return (found[1], found[2]) if found else ("", key)


class Point(msgspec.Struct, frozen=True):
    """A place in a session's log, and how it is shown."""

    session: str
    seq: int
    shown: str


def find_session(
    store: StorePort, text: str, *, project: str | None = None, partly: bool = False
) -> SessionRow:
    """The session a person means: id, end of an id, name, or `last` (newest in the project); with `partly`, also the
    name of an agent, whose last session it is, a part of a session's name, or the beginning of an agent's.

    A name means the session that was adopted for it; an id means that session itself.
    """
    if text == "last":
        newest = last_used(store, project)
        if newest is None:
            raise NotFound(
                "there are no sessions here yet",
                hint="stator ls --everywhere lists the sessions of every project",
            )
        return newest
    if is_id(text, "session"):
        return _by_id(store, text)
    rows = store.sessions(SessionQuery(name=text, project=project), limit=CANDIDATES).rows
    if not rows and project is not None:
        rows = store.sessions(SessionQuery(name=text), limit=CANDIDATES).rows
    trash = project_flags.Trash(store)
    if rows and not (rows := [row for row in rows if row not in trash]):
        raise Removed(
            f"session {text!r:.80} is in the trash",
            hint="stator ls --trash shows it; stator gc --restore takes it out",
            session=text,
        )
    named = bool(rows)
    if not rows and (suffix := suffix_of(text, "session")):
        rows = store.sessions(SessionQuery(suffix=suffix), limit=CANDIDATES).rows
    if not rows and partly:
        rows = (
            _last_of(store, text, project)
            or _partly_named(store, text, project, trash)
            or _last_of(store, agent_named(store, text, project), project)
        )
        named = bool(rows)
    if not rows:
        raise project_flags.purged(store, text) or NotFound(
            f"no session {text!r:.80}", hint=_hint(store, text, project), session=text
        )
    if len(rows) > 1:
        raise Ambiguous(
            f"{len(rows)}{' or more' * (len(rows) == CANDIDATES)} sessions match {text!r:.80}",
            candidates=[f"{row.id} {row.record.project}: {row.record.name}" for row in rows],
            hint="give more of the name, or an id: " + ", ".join(map(_id_and_name, rows)),
        )
    return followed(store, rows[0]) if named else rows[0]


def _id_and_name(row: SessionRow) -> str:
    name = cut_short(row.record.name, NAME_MAX)
    return f"{short(row.id)} ({name}{'…' * (len(name) < len(row.record.name))})"


def _hint(store: StorePort, text: str, project: str | None) -> str:
    """What to do about a name that no session has: people try an agent's name, or mistype."""
    page = store.sessions(SessionQuery(agent=text, project=project), limit=1)
    if page.rows:
        return f"the last session of {text} is {short(page.rows[0].id)}; stator ls -l lists ids"
    from difflib import get_close_matches  # only a mistake needs it

    known = store.sessions(SessionQuery(project=project), limit=PAGE).rows
    names = {row.record.name.lower(): row for row in reversed(known)}
    similar = get_close_matches(text[:NAME_MAX].lower(), names, n=1)
    if similar:
        return f"did you mean {_id_and_name(names[similar[0]])}?"
    return "stator ls lists sessions"


def agent_named(store: StorePort, text: str, project: str | None = None) -> str:
    """The agent that is meant: the text itself if it has sessions there, else the only one that begins so and has
    some, there or else anywhere; "" if there is none or more than one."""
    if not text or store.sessions(SessionQuery(agent=text, project=project), limit=1).rows:
        return text
    rows = islice(matching(store, SessionQuery(project=project)), AGENTS_IN)
    agents = {row.record.agent for row in rows if row.record.agent.startswith(text)}
    if not agents and project is not None:
        return agent_named(store, text)
    return agents.pop() if len(agents) == 1 else ""


def _last_of(store: StorePort, agent: str, project: str | None) -> list[SessionRow]:
    """The session that an agent used last, in the project or else anywhere; none of its sub-agents'."""
    if not agent:
        return []
    found = last_used(store, project, agent=agent)
    if found is None and project is not None:
        found = last_used(store, agent=agent)
    return [] if found is None else [found]


def followed(store: StorePort, row: SessionRow) -> SessionRow:
    """The session that continues another: the one adopted for it, and so on; the last before a circle."""
    seen = {row.id}
    while row.record.adopted and row.record.adopted not in seen:
        seen.add(row.record.adopted)
        try:
            row = store.session(row.record.adopted)
        except NotFound:  # it is gone: the one that was adopted from is what is left
            break
    return row


def _by_id(store: StorePort, session: str) -> SessionRow:
    try:
        return store.session(session)
    except NotFound as error:
        raise project_flags.purged(store, session) or error from None


def _partly_named(
    store: StorePort, text: str, project: str | None, trash: project_flags.Trash
) -> list[SessionRow]:
    """Sessions whose names begin so, else those with a word that does: of the project, else any. Those that one session
    was adopted for count once."""
    named = {
        row.id: row
        for row in matching(store, SessionQuery(project=project))
        if _has_word(row.record.name, text) and row.record.mode != "project" and row not in trash
    }
    begin = {id: row for id, row in named.items() if row.record.name.startswith(text)}
    found = [row for row in (begin or named).values() if not _is_part_of(row, named)]
    if not found and project is not None:
        return _partly_named(store, text, None, trash)
    ends = {followed(store, row).id: row for row in found[:CANDIDATES]}
    return list(ends.values())


def _has_word(name: str, text: str) -> bool:
    """Whether a name has the text where a word begins: `test` is in `test-all` and `run tests`, not in `fastest`."""
    name, text = name.casefold(), text.casefold()
    at = name.find(text)
    while at > 0 and text[:1].isalnum() and name[at - 1].isalnum():
        at = name.find(text, at + 1)
    return at >= 0


def _is_part_of(row: SessionRow, others: Container[str]) -> bool:
    """Whether a session is a sub-agent or a retry of one of some others: its name repeats theirs."""
    parent = row.record.parent
    return parent is not None and parent.kind in ("child", "retry") and parent.session in others


def last_used(
    store: StorePort, project: str | None = None, *, agent: str | None = None
) -> SessionRow | None:
    """The session in which an agent did something last, apart from a project's own session and those in the trash; of
    one agent, if it is named, none of its sub-agents'.

    Settling, tagging, scoring or importing a session does not make it the last one, nor does a transcript without
    times."""
    store = for_one_answer(store)
    trash = project_flags.Trash(store)
    rows = (
        row
        for row in matching(store, SessionQuery(project=project, agent=agent))
        if row.record.mode != "project" and not (agent and is_sub_agent(row.record))
    )
    newest = next(
        (row for row in by_last_act(store, rows, distrust=True) if row not in trash), None
    )
    return None if newest is None else followed(store, newest)


def rows_of(
    store: StorePort,
    *,
    session: str | None = None,
    project: str | None = None,
    holds: str | None = None,
) -> Iterator[SessionRow]:
    """One session, those of a project, or all there are, most recently used first; with `holds`, of several only those
    that may hold records of that collection."""
    if session is not None:
        yield store.session(session)
        return
    yield from matching(store, SessionQuery(project=project, holds=holds))


def find_call(store: StorePort, text: str, *, session: str | None = None) -> Commit:
    """The intent of the call a person means: its id, or the end of one, also with its session, as a brief gives it; in
    a session, or anywhere."""
    named, text = with_session(text)
    if named:
        holder = find_session(store, named).id
        if session not in (None, holder):
            raise NotFound(
                f"no call {text!r:.60} in this session", hint=f"it names {holder}", call=text
            )
        session = holder
    digits = suffix_of(text, "call")
    wanted = f"k_{digits}" if is_id(text, "call") else digits
    places = store.locate(wanted, session) if wanted else []
    found: dict[str, Commit] = {}
    for owner, seq in places:
        (commit,) = store.commits(owner, after=seq - 1, upto=seq, limit=1)
        if commit.kind == "call" and commit.call.endswith(digits or ""):
            found.setdefault(commit.call, commit)
    if not found:
        raise NotFound(f"no call {text!r:.60}", hint="stator calls lists them", call=text)
    if len(found) > 1:
        raise Ambiguous(
            f"{len(found)} calls match {text!r:.60}",
            candidates=list(found),
            hint="give more digits: " + ", ".join(found),
        )
    return next(iter(found.values()))


def find_decision(store: StorePort, session: str, text: str) -> str:
    """The record id of the decision that a caller means: the id of its commit, which `decide` returns, its own id,
    or a unique end of either."""
    if is_id(text, "commit"):
        return record_id(text, 0)
    if _RECORD.match(text):
        return text
    digits = suffix_of(text, "commit")
    found = [entry.id for entry in store.entries(session, "decisions") if digits]
    found = [identifier for identifier in found if identifier.endswith(digits or "")]
    if digits and not found:  # superseded since: a program that runs again names it as before
        found = _decisions_at(store, session, store.locate(digits, session), digits)
    if not found:
        raise NotFound(
            f"no decision {text!r:.60} in session {session}",
            hint=f"pass the id that decide returned; stator decisions -s {short(session)} lists them",
            session=session,
        )
    if len(found) > 1:
        raise Ambiguous(
            f"{len(found)} decisions match {text!r:.60}",
            candidates=found,
            hint="give more digits: " + ", ".join(found),
        )
    return found[0]


def _decisions_at(
    store: StorePort, session: str, places: Iterable[tuple[str, int]], digits: str
) -> list[str]:
    """The decisions that some commits put, as far as their ids end so."""
    return [
        op.id
        for _, seq in places
        for commit in store.commits(session, after=seq - 1, upto=seq, limit=1, load=False)
        for op in commit.delta
        if isinstance(op, Put) and op.collection == "decisions" and op.id.endswith(digits)
    ]


def intent_of(store: StorePort, session: str, call: str) -> Commit | None:
    """The commit that holds what a call was asked to do."""
    for _, seq in store.locate(f"k_{call[2:]}", session):  # a whole id: there is an index of those
        (found,) = store.commits(session, after=seq - 1, upto=seq, limit=1)
        if found.kind == "call" and found.call == call:
            return found
    return None


def last_attempt(store: StorePort, session: str, intent: Commit) -> CallRow | None:
    """The last attempt of a call, with how it ended or was settled."""
    query = CallQuery(session=session, after=intent.seq - 1, tool=intent.tool)
    cursor: tuple[int, ...] | None = (_attempted_upto(store, session, intent) + 1,)
    while cursor is not None:
        page = store.calls(query, cursor=cursor, limit=PAGE)
        for row in page.rows:  # the newest first
            if row.call == intent.call:
                return _with_waiting(store, session, row)
        cursor = page.cursor
    return None


def _with_waiting(store: StorePort, session: str, row: CallRow) -> CallRow:
    """The row; of a call that an index has as started, with whether it waits for a person, which the state says."""
    entry = find_entry(store, session, "calls", row.call) if row.status == "started" else None
    if entry is None or not isinstance(entry.record, CallRecord):
        return row
    return msgspec.structs.replace(row, status=entry.record.status)


def _attempted_upto(store: StorePort, session: str, intent: Commit) -> int:
    """A seq after which a call is not attempted any more: its attempts are made in one turn. A turn with a key may
    be continued under other numbers."""
    rows = store.turns(session, after=max(intent.turn - 1, 0), upto=intent.turn)
    if not rows or not intent.turn:
        return store.head(session).seq
    first = commit_at(store, session, rows[0].first)
    if not first.has("key"):
        return rows[0].last
    key = first.known("key", "")  # empty: it was erased
    if not key:
        return store.head(session).seq
    (row,) = store.turns(session, keys=[key], newest_first=True, limit=1)
    return row.last


def arguments_of(intent: Commit | None) -> Any:
    """The arguments of a call as they were recorded; None where they are not there to see."""
    return None if intent is None else intent.known("input")


def locate(store: StorePort, session: str, ref: str) -> Point:
    """Where a ref points; one that names no session points into this one."""
    parsed = parse_ref(ref)
    return resolve(store, session_of(store, session, parsed), parsed.position)


def annotated(store: StorePort, session: str, on: str) -> str:
    """The turn (by number) or call (by id) that a person wants to mark, as it is recorded."""
    if suffix_of(on, "call"):
        return find_call(store, on, session=session).call
    if isinstance(parse_position(on), AtTurn):
        return locate(store, session, on).shown
    raise BadPosition(f"{on!r:.60} is neither a turn nor a call", hint="use t5 or the id of a call")


def session_of(store: StorePort, session: str, ref: Ref) -> str:
    """The session a ref is about: the one it names, else this one."""
    if not ref.session or ref.session == session:
        return session
    if is_id(ref.session, "session"):
        own = store.session(session).record
        # What a session continues is there as long as it is.
        is_there = any(part.session == ref.session for part in own.lineage)
        return ref.session if is_there else _by_id(store, ref.session).id
    own = store.session(session).record
    return find_session(store, ref.session, project=own.project, partly=True).id


def resolve(store: StorePort, session: str, position: Position) -> Point:
    """Where a position is in a session; `NotFound` if the session does not reach there."""
    if isinstance(position, AtHead):
        head = head_seq(store, session)
        if position.back > head:
            raise NotFound(f"the log has {head} commits: head~{position.back} is before it")
        shown = f"head~{position.back}" if position.back else "head"
        return Point(session, head - position.back, shown)
    if isinstance(position, AtSeq):
        if not 0 <= position.seq <= store.head(session).seq:
            raise NotFound(f"no commit @{position.seq} in session {session}", session=session)
        return Point(session, position.seq, f"@{position.seq}")
    if isinstance(position, AtTurn):
        return span(store, session, position)[1]
    return _named(store, session, position)


def span(store: StorePort, session: str, position: AtTurn) -> tuple[Point, Point]:
    """Both ends of a turn: where the one before it ended, and where it ends itself."""
    if position.retry:
        session = sibling(store, session, position)
    nothing = Point(session, 0, "t0")
    if position.turn == 0:
        return nothing, nothing
    if position.turn < 0:
        rows = standing_turns(store, session, -position.turn)
        if len(rows) < -position.turn:
            raise NotFound(f"the session has {len(rows)} turns, so there is no t{position.turn}")
    else:
        rows = store.turns(session, after=position.turn - 1, upto=position.turn, ends=True)
        if not rows:
            raise _no_turn(store, session, position.turn)
    row = rows[-1]
    # Every commit belongs to a turn from the first one on, so a turn ends where the next begins.
    before = Point(session, row.first - 1, f"t{row.turn - 1}") if row.turn > 1 else nothing
    return before, Point(session, row.end, f"t{row.turn}")


def _no_turn(store: StorePort, session: str, turn: int) -> NotFound:
    row = store.session(session)
    last = f"its last turn is t{row.turns}" if row.turns else "it has no turns"
    return NotFound(
        f"no turn {turn} in session {short(session)} ({cut_short(row.record.name, NAME_MAX)})",
        hint=last,
        session=session,
    )


class Siblings(msgspec.Struct, frozen=True):
    """A turn and its retries: the session it was first in, where it begins there, and the others in
    the order they were made."""

    original: str
    before: int
    retries: list[SessionRow]


def siblings(store: StorePort, session: str, turn: int) -> Siblings:
    """The retries of a turn, also where one of them is asked."""
    original = session
    parent = store.session(session).record.parent
    while parent is not None and retries_turn(store, parent, turn):
        original = parent.session
        parent = store.session(original).record.parent
    rows = store.turns(original, after=turn - 1, upto=turn)
    if not rows:
        raise _no_turn(store, original, turn)
    before = rows[0].first - 1
    made = [
        row
        for row in matching(store, SessionQuery(parent=original))
        if row.record.parent is not None
        and row.record.parent.kind == "retry"
        and row.record.parent.seq == before
    ]
    return Siblings(original, before, sorted(made, key=lambda row: (row.record.created, row.id)))


def retries_turn(store: StorePort, parent: Parent, turn: int) -> bool:
    """Whether a session with that parent is a retry of that turn."""
    if parent.kind != "retry":
        return False
    try:
        return turn_at(store, parent.session, parent.seq) + 1 == turn
    except NotFound:  # the original is gone
        return False


def sibling(store: StorePort, session: str, position: AtTurn) -> str:
    """The nth sibling of a turn: the original is 1, retries count from 2 in the order they were made."""
    found = siblings(store, session, position.turn)
    if position.retry == 1:
        return found.original
    if position.retry - 2 >= len(found.retries):
        raise NotFound(f"turn {position.turn} has no retry {position.retry}", session=session)
    return found.retries[position.retry - 2].id


def _named(store: StorePort, session: str, position: AtName) -> Point:
    tag = find_entry(store, session, "tags", position.name)
    if tag is not None:
        return Point(session, int(getattr(tag.record, "seq", 0)), position.name)
    if named(unplaced_in(store, session), position.name):
        raise NotFound(
            f"{position.name} has no position in session {session} yet: {EXPLAINED}",
            hint=f"stator show {position.name} shows it; other commands need a commit of the log",
            session=session,
        )
    if not position.maybe_hash:
        raise BadPosition(
            f"no tag {position.name!r:.60} in this session",
            hint="try head, head~3, t5, t-1, @42, a hash, or a range such as t4..t5",
        )
    found = store.locate(position.name, session)
    if not found:
        raise NotFound(f"no commit {position.name} in session {session}", session=session)
    if len(found) > 1:
        raise Ambiguous(
            f"{len(found)} commits match {position.name}",
            candidates=[f"@{seq}" for _, seq in found],
            hint="give more digits, or a seq: " + ", ".join(f"@{seq}" for _, seq in found),
        )
    return Point(session, found[0][1], f"@{found[0][1]}")
