"""Records what an agent reports of its own work from outside, for example over MCP.

It drives nothing: sessions it begins are `recorded`, and what it adds to a driven session is a
contribution. Everything it reports is unverified, and has a principal of its own.
"""

from __future__ import annotations

import contextlib
import functools
import re
from typing import Any

import msgspec

from stator.errors import Busy, Conflict, IdReused, InvalidInput, NotFound, WrongState
from stator.model.log.commit import Commit, Draft, Named, Upsert
from stator.model.log.query import SessionQuery, SessionRow
from stator.model.log.shown_text import without_secrets
from stator.model.records.tables import DERIVED
from stator.model.records.types import ChildRecord, Parent, SessionRecord
from stator.model.sessions.lifecycle import check_name, lent_upto
from stator.model.values.ids import derived, short
from stator.runtime.base.context import Context
from stator.runtime.base.first_commit import opening
from stator.runtime.base.pages import commit_at
from stator.runtime.driving import children, lifecycle
from stator.runtime.driving.lifecycle import Moved
from stator.runtime.driving.state_writer import FROM_MODEL, StateWriter
from stator.runtime.views.derivation import check_verified
from stator.store.port import StorePort

SAID: dict[str, Any] = {"actor": "agent", "provenance": FROM_MODEL}
"""Fields of every commit made here."""
NAME_MAX = 48
"""Characters of a purpose that a session is named by."""
KEY_MAX = 200
"""Characters of a key under which something is recorded once."""
_NOT_A_WORD = re.compile(r"[^\w]+")


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

    def _draft(self, kind: str, **fields: Any) -> Draft:
        said = {**SAID, "principal": self._context.principal, **fields}
        if kind in DERIVED and "inputs" not in said:
            said["inputs"] = self._made_from
        return Draft(id=self._next_id(), session=self._id, kind=kind, **said)

    @functools.cached_property
    def _made_from(self) -> tuple[Named, ...]:
        """What is reported was made from: its call, else what was said in the open turn."""
        if self._call:
            return (self._call,)
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

    def send(self) -> list[Commit]:
        """Append what was collected, in one transaction."""
        drafts, self._drafts = self._drafts, []
        if self._key and drafts:
            self._check_same(len(drafts))
            drafts = [self._as_recorded(draft) for draft in drafts]
        return self._store.append(self._id, drafts, barrier=True) if drafts else []

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


def begin(
    store: StorePort,
    context: Context,
    *,
    agent: str,
    name: str = "",
    purpose: str = "",
    parent: Parent | None = None,
    identifier: str = "",
) -> tuple[SessionRow, bool]:
    """A session for an agent to report to, with what it is for as its first turn; and whether it is new."""
    identifier = identifier or context.mint("session")
    record = SessionRecord(
        id=identifier,
        name=check_name(name) if name else named_after(purpose, identifier),
        agent=agent,
        project=context.project,
        created=context.clock(),
        mode="recorded",
        orderer="mcp",
        parent=parent,
    )
    drafts = [msgspec.structs.replace(opening(context, record), **SAID)]
    if purpose:
        drafts.append(_draft(context, identifier, "turn", input=purpose))
    return store.create(drafts)


def named_after(purpose: str, identifier: str) -> str:
    """`Fix the login bug` → `fix-the-login-bug-7f2a91bc`."""
    words = _NOT_A_WORD.sub("-", without_secrets(purpose).casefold())[:NAME_MAX].strip("-_")
    return check_name(f"{words or 'session'}-{short(identifier)[2:]}")


def begin_child(
    store: StorePort, context: Context, above: SessionRow, *, agent: str, name: str, purpose: str
) -> SessionRow:
    """A session for a sub-agent: its parent records its id before it exists. `Busy` while the parent is
    driven."""
    identifier = context.mint("session")
    short_name = name or named_after(purpose, identifier)
    whole = children.full_name(above.record, short_name)
    known = store.sessions(SessionQuery(name=whole, project=above.record.project), limit=1).rows
    if known:
        raise _taken(known[0])
    head = store.head(above.id)
    link = Parent(session=above.id, seq=head.seq, hash=head.hash, kind="child")
    _tell_parent(store, context, link, ChildRecord(session=identifier, name=short_name), "started")
    row, made = begin(
        store,
        context,
        agent=agent,
        name=whole,
        purpose=purpose,
        parent=link,
        identifier=identifier,
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
) -> None:
    stands = msgspec.structs.replace(child, status=status)
    said = {**SAID, "principal": context.principal}
    with lifecycle.held(store, context, parent.session) as hold:
        draft = hold.draft("child", status=status, changes=(Upsert("children", stands),), **said)
        store.append(parent.session, [*hold.left_behind(), draft], barrier=True)


def check_begun_by(store: StorePort, row: SessionRow, principal: str, action: str) -> None:
    """Refuse to pause, resume or close a session for an agent that did not begin it by reporting to it.

    Else an agent could declare the record of its own work finished, while hooks, a transcript or a program
    keep it.
    """
    low = lent_upto(row.record.lineage)
    first = store.commits(row.id, after=low, upto=low + 1, limit=1)[0]
    reported = first.actor == SAID["actor"] and first.provenance == FROM_MODEL
    if reported and not row.record.aliases and first.known("principal", "") == principal:
        return
    if row.record.aliases:
        why = f"it is recorded from {row.record.aliases[0][0]!r:.40}"
    elif reported:
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
