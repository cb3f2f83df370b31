"""Records what an agent reports of its own work from outside, for example over MCP.

It drives nothing: sessions it begins are `recorded`, and what it adds to a driven session is a
contribution. Everything it reports is unverified, and has a principal of its own.
"""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import UNSET

from stator.errors import Busy, Conflict, IdReused, InvalidInput, NotFound, WrongState
from stator.model.calls.sources import hosts, source_of
from stator.model.log.commit import Commit, Draft, Named, Provenance, Upsert
from stator.model.log.query import SessionQuery, SessionRow
from stator.model.log.shown_text import without_secrets
from stator.model.records.reports import OUTCOMES
from stator.model.records.text import prompt_text
from stator.model.records.types import (
    ChildRecord,
    Effect,
    FlagRecord,
    Parent,
    SessionRecord,
    UseKind,
)
from stator.model.sessions.lifecycle import ENDED, check_name, lent_upto
from stator.model.values.ids import derived, retype, short
from stator.model.views.taint import REPORTED
from stator.runtime.base.arguments import text
from stator.runtime.base.context import Context
from stator.runtime.base.first_commit import opening
from stator.runtime.base.pages import commit_at
from stator.runtime.driving import children, lifecycle
from stator.runtime.driving.lifecycle import Moved
from stator.runtime.driving.state_writer import FROM_MODEL, StateWriter, in_use
from stator.runtime.views.derivation import check_verified
from stator.store.port import StorePort

SAID: dict[str, Any] = {"actor": "agent", "provenance": FROM_MODEL}
"""Fields of every commit made here."""
FROM_WEB = Provenance("web", "unverified")
"""Of the result of a call that reads the web, or was given an address."""
CHILDREN_MAX = 100
"""Sub-agents, from the newest, whose ends a report names."""
NAME_MAX = 48
"""Characters of a purpose that a session is named by."""
KEY_MAX = 200
"""Characters of a key under which something is recorded once."""
ORDERER = "mcp"
"""What orders a session that only its agent reports on."""
PURPOSES_MAX = 50
"""Open sessions of an agent that are compared by what they are for, and names that are tried for a new one."""
_NOT_A_WORD = re.compile(r"[^\w]+")
_SECRET = re.compile(r"‹secret:([a-z-]+):[0-9a-f]+›")


class Reporter(StateWriter):
    """Collects what an agent reports of one session, and appends it all or not at all.

    Reported again under the same `key`, the same things are there once, and other things are
    refused: the ids of their commits are made from the key.
    """

    def __init__(
        self,
        store: StorePort,
        context: Context,
        session: str,
        *,
        source: str,
        key: str = "",
        call: str = "",
    ) -> None:
        """`call`: the call of the session that it is reported in, where that is known."""
        if len(key) > KEY_MAX:
            raise InvalidInput(f"a key has at most {KEY_MAX} characters", path="$.key")
        self._store = store
        self._context = context
        self._id = session
        self._source = source
        self._key = key
        self._call = call
        self._root = context.root
        self._drafts: list[Draft] = []
        self._beginning: list[Draft] = []
        """The commits that begin a turn, before the others."""
        self._head: str | None = None
        """The head that they continue."""
        self._results: list[Named] = []
        """The outcomes of calls that are reported with the rest: what follows them was made from them too."""

    def _draft(self, kind: str, **fields: Any) -> Draft:
        said = {**SAID, "principal": self._context.principal, **fields}
        if kind in REPORTED and "inputs" not in said:
            said["inputs"] = (*self._made_from, *self._heard, *self._results)
        return Draft(id=self._next_id(), session=self._id, kind=kind, **said)

    @functools.cached_property
    def _heard(self) -> tuple[Named, ...]:
        """The ends of the sub-agents whose work the agent knows."""
        return tuple(
            entry.seq
            for entry in self._store.entries(self._id, "children", limit=CHILDREN_MAX)
            if getattr(entry.record, "status", "") == "closed"
        )

    @functools.cached_property
    def _made_from(self) -> tuple[Named, ...]:
        """What is reported was made from: its call, else what was said in the open turn."""
        if self._call:
            return (self._call,)
        if self._beginning:
            return (self._beginning[-1].id,)
        head = self._store.head(self._id)
        rows = self._store.turns(self._id, after=head.turn - 1, upto=head.turn)
        if not head.turn_open or not rows:
            return ()
        first = rows[0].first
        return (first, -head.seq) if first < head.seq else (first,)

    def _check_verified(self, draft: Draft) -> None:
        check_verified(self._store, self._id, draft, self._drafts)

    def _place(self) -> tuple[StorePort, str]:
        return self._store, self._id

    def _next_id(self) -> str:
        """Derived from the key, if given: reporting again gives the same commit."""
        if not self._key:
            return self._context.mint("commit")
        return self._keyed(len(self._drafts))

    def _submit(self, draft: Draft) -> str:
        self._drafts.append(draft)
        return draft.id

    def request(self, said: str) -> bool:
        """Begin a turn with what the user asks, before anything else is reported; False if the open turn is that one
        already, or was begun under the key. Only in a session that nothing else orders (`is_own_orderer`)."""
        if not text(said, "request").strip():
            raise InvalidInput("a request is the user's words", path="$.request")
        began = derived("commit", self._id, self._source, self._key, "turn") if self._key else ""
        known = self._store.locate(began, self._id) if began else []
        if known:
            commit = commit_at(self._store, self._id, known[0][1])
            if not is_same(prompt_text(commit.known("input", "")), said):
                raise IdReused("another request was recorded under that key", session=self._id)
            return False
        if self._key and self._is_there(0):
            return False
        head = self._store.head(self._id)
        if head.turn_open and is_same(asked_in(self._store, self._id, head.turn), said):
            return False
        if head.turn_open:
            ending = derived("commit", self._id, self._source, self._key, "end") if began else ""
            end = _draft(self._context, self._id, "turn_end", status="ok")
            self._beginning.append(msgspec.structs.replace(end, id=ending or end.id))
        turn = _draft(self._context, self._id, "turn", input=said)
        self._beginning.append(msgspec.structs.replace(turn, id=began or turn.id))
        self._head = head.hash
        return True

    def call(
        self,
        tool: str,
        status: str,
        *,
        arguments: Any = None,
        result: Any = UNSET,
        effect: Effect = "write",
        why: str = "",
    ) -> str:
        """Report a call that the agent made, and how it ended."""
        if status not in OUTCOMES:
            raise InvalidInput(
                f"unknown status {status!r:.40}", path="$.status", hint=", ".join(OUTCOMES)
            )
        named: dict[str, Any] = {"tool": text(tool, "tool"), "effect": effect, "attempt": 1}
        given = {} if arguments is None else arguments
        asked = self._draft("call", input=given, status="started", why=why, **named)
        call = retype(asked.id, "call")
        self._submit(msgspec.structs.replace(asked, call=call))
        from_web = source_of((), named["tool"], None, given) == "web" or bool(hosts(given))
        if from_web:
            named["provenance"] = FROM_WEB
        ended = self._draft("outcome", call=call, status=status, output=result, **named)
        self._results.append(self._submit(ended))
        return asked.id

    def use(self, name: str, *, type: UseKind = "data", detail: str = "", why: str = "") -> str:
        """Report a file, app or data source that is in play."""
        return self._record("use", Upsert("working_set", in_use(type, name, detail)), why=why)

    def flag(self, name: str, *, on: str = "", why: str = "") -> str:
        """Mark something that a person should look at."""
        by = self._context.principal
        record = FlagRecord(name=text(name, "name"), on=text(on, "on"), why=why, by=by)
        return self._record("flag", Upsert("flags", record))

    def send(self) -> list[Commit]:
        """Append what was collected, in one transaction; `HeadMoved` if a turn was to begin and another writer was
        faster: then all of it must be reported to a new reporter."""
        drafts, self._drafts = self._drafts, []
        if self._key and drafts:
            self._check_same(len(drafts))
            drafts = [self._as_recorded(draft) for draft in drafts]
        drafts = [*self._beginning, *drafts]
        if not drafts:
            return []
        return self._store.append(self._id, drafts, if_head=self._head, barrier=True)

    def _check_same(self, count: int) -> None:
        """What was recorded under the key was recorded whole: it has as many parts as this, or none."""
        first, last, beyond = (self._is_there(place) for place in (0, count - 1, count))
        if first and (beyond or not last):
            raise IdReused("other items were recorded under that key", session=self._id)

    def _as_recorded(self, draft: Draft) -> Draft:
        """A draft that is on record already was made from what was there then."""
        for _, seq in self._store.locate(draft.id, self._id):
            known = commit_at(self._store, self._id, seq, load=False)
            return msgspec.structs.replace(draft, inputs=tuple(known.inputs))
        return draft

    def _is_there(self, place: int) -> bool:
        return bool(self._store.locate(self._keyed(place), self._id))

    def _keyed(self, place: int) -> str:
        return derived("commit", self._id, self._source, self._key, str(place))


def is_own_orderer(record: SessionRecord) -> bool:
    """Whether the turns and calls of a session are those that agents report; else they come from its transcript, its
    hooks, a proxy or the program that drives it."""
    if record.mode != "recorded":
        return False
    return record.orderer == ORDERER or not (record.orderer or record.aliases)


def asked_in(store: StorePort, session: str, turn: int) -> str:
    """What was asked in a turn, as a text; empty where that is not known."""
    rows = store.turns(session, after=turn - 1, upto=turn) if turn > 0 else []
    if not rows:
        return ""
    return prompt_text(commit_at(store, session, rows[0].first).known("input", ""))


def is_same(one: str, other: str) -> bool:
    """Whether two requests or purposes are the same: case and white space do not count, and of secrets only which
    kind they are."""
    return folded(one) == folded(other)


def folded(said: str) -> str:
    """A text as it is compared."""
    known = _SECRET.sub(r"‹secret:\1›", said)  # first: a digest in it would be taken for a secret
    return " ".join(without_secrets(known).casefold().split())


def begin(
    store: StorePort,
    context: Context,
    *,
    agent: str,
    name: str = "",
    purpose: str = "",
    parent: Parent | None = None,
    identifier: str = "",
    inputs: tuple[Named, ...] = (),
) -> tuple[SessionRow, bool]:
    """A session for an agent to report to, with what it is for as its first turn; and whether it is new. `inputs` is
    what that was made from."""
    identifier = identifier or context.mint("session")
    record = SessionRecord(
        id=identifier,
        name=check_name(name) if name else named_after(purpose, identifier),
        agent=agent,
        project=context.project,
        created=context.clock(),
        mode="recorded",
        orderer=ORDERER,
        parent=parent,
    )
    drafts = [msgspec.structs.replace(opening(context, record), **SAID)]
    if purpose:
        drafts.append(_draft(context, identifier, "turn", input=purpose, inputs=inputs))
    return store.create(drafts)


def begin_for(
    store: StorePort,
    context: Context,
    *,
    agent: str,
    purpose: str,
    is_visible: Callable[[SessionRow], bool],
) -> tuple[SessionRow, bool]:
    """The open session of an agent for a purpose, in the context's project, and whether it is new.

    Two processes that ask at the same time get the same one: the name of a new session follows from its purpose, and
    a store has one session of a name.
    """
    if not folded(purpose):
        raise InvalidInput("a purpose says what the session is for", path="$.purpose")

    def is_it(row: SessionRow) -> bool:
        record = row.record
        mine = record.agent == agent and is_own_orderer(record) and record.parent is None
        if not mine or record.status in ENDED or not is_visible(row):
            return False
        return is_same(asked_in(store, row.id, 1), purpose)

    query = SessionQuery(project=context.project, agent=agent, mode="recorded")
    for row in store.sessions(query, limit=PURPOSES_MAX).rows:
        if is_it(row):
            return row, False
    slug = slug_of(purpose)
    for number in range(1, PURPOSES_MAX + 1):
        name = slug if number == 1 else f"{slug}-{number}"
        known = store.sessions(SessionQuery(name=name, project=context.project), limit=1).rows
        if known and is_it(known[0]):
            return known[0], False
        if known:
            continue
        row, made = begin(store, context, agent=agent, name=name, purpose=purpose)
        if made or is_it(row):
            return row, made
    return begin(store, context, agent=agent, purpose=purpose)


def slug_of(purpose: str) -> str:
    """`Fix the login bug` → `fix-the-login-bug`."""
    words = _NOT_A_WORD.sub("-", without_secrets(purpose).casefold())[:NAME_MAX].strip("-_")
    return words or "session"


def named_after(purpose: str, identifier: str) -> str:
    """`Fix the login bug` → `fix-the-login-bug-7f2a91bc`."""
    return check_name(f"{slug_of(purpose)}-{short(identifier)[2:]}")


def begin_child(
    store: StorePort, context: Context, above: SessionRow, *, agent: str, name: str, purpose: str
) -> SessionRow:
    """A session for a sub-agent: its parent records its id before it exists. `Busy` while the parent is
    driven. Without a name, the same purpose finds the same open child."""
    if not name:
        for row in store.sessions(
            SessionQuery(parent=above.id, agent=agent), limit=PURPOSES_MAX
        ).rows:
            is_open = row.record.status not in ENDED and is_own_orderer(row.record)
            if is_open and is_same(asked_in(store, row.id, 1), purpose):
                return row
    identifier = context.mint("session")
    short_name = name or named_after(purpose, identifier)
    whole = children.full_name(above.record, short_name)
    known = store.sessions(SessionQuery(name=whole, project=above.record.project), limit=1).rows
    if known:
        raise _taken(known[0])
    head = store.head(above.id)
    link = Parent(session=above.id, seq=head.seq, hash=head.hash, kind="child")
    child = ChildRecord(session=identifier, name=short_name)
    # What the agent had read when it asked, its sub-agent rests on too: the first turn says so.
    begun = _tell_parent(store, context, link, child, "started")
    row, made = begin(
        store,
        context,
        agent=agent,
        name=whole,
        purpose=purpose or name,
        parent=link,
        identifier=identifier,
        inputs=(begun,),
    )
    if not made:
        raise _taken(row)
    return row


def _taken(row: SessionRow) -> Conflict:
    return Conflict(
        f"a session {row.record.name!r:.80} exists already",
        hint="choose another name",
        session=row.id,
    )


def _tell_parent(
    store: StorePort, context: Context, parent: Parent, child: ChildRecord, status: str
) -> str:
    """Record in a parent how its child is; the id of the commit."""
    stands = msgspec.structs.replace(child, status=status)
    said = {**SAID, "principal": context.principal}
    with lifecycle.held(store, context, parent.session) as hold:
        draft = hold.draft("child", status=status, changes=(Upsert("children", stands),), **said)
        store.append(parent.session, [*hold.left_behind(), draft], barrier=True)
    return draft.id


def begun_by(store: StorePort, row: SessionRow) -> str:
    """The principal of the agent that began a session by reporting to it; empty if none did."""
    low = lent_upto(row.record.lineage)
    first = store.commits(row.id, after=low, upto=low + 1, limit=1)[0]
    reported = first.actor == SAID["actor"] and first.provenance == FROM_MODEL
    return "" if row.record.aliases or not reported else str(first.known("principal", ""))


def check_begun_by(store: StorePort, row: SessionRow, principal: str, action: str) -> None:
    """Refuse to pause, resume or close a session for an agent that did not begin it by reporting to it.

    Else an agent could declare the record of its own work finished, while hooks, a transcript or a program
    keep it.
    """
    by = begun_by(store, row)
    if by == principal:
        return
    if row.record.aliases:
        why = f"it is recorded from {row.record.aliases[0][0]!r:.40}"
    elif by:
        why = "another agent opened it"
    else:
        why = "a program or a person began it"
    raise WrongState(
        f"session {row.record.name!r:.80} is not yours to {action}: {why}",
        hint=f"an agent may {action} what it opened itself; ask the user to run: stator {action} {short(row.id)}",
        session=row.id,
        status=row.record.status,
    )


def close(store: StorePort, context: Context, session: str) -> Moved:
    """Close a session: the open turn of a reported session ends with it, and its parent records the end."""
    row = store.session(session)
    recorded = row.record.mode == "recorded"
    if recorded and row.record.status != "closed" and store.head(session).turn_open:
        end = _draft(context, session, "turn_end", status="ok")
        store.append(session, [end], barrier=True)
    moved = lifecycle.close(store, context, session, by=context.principal, **SAID)
    parent = row.record.parent
    if recorded and parent is not None and parent.kind == "child":
        child = ChildRecord(session=session, name=row.record.name.rpartition("/")[2])
        # A driven parent records the end of its child itself.
        with contextlib.suppress(Busy, NotFound, WrongState):
            _tell_parent(store, context, parent, child, "closed")
    return moved


def _draft(context: Context, session: str, kind: str, **fields: Any) -> Draft:
    said = {**SAID, "principal": context.principal, **fields}
    return Draft(id=context.mint("commit"), session=session, kind=kind, **said)
