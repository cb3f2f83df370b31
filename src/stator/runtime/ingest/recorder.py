"""Records a conversation that another program drives, item by item, into a session of its own.

Each channel (an importer, hooks, the proxy) holds a `Recorder` of the conversation and hands it items. The
same conversation leads to the same session, and the same item to the same commit, so several channels may
report it, at once or one after the other. `flush` appends what was handed in, all or nothing. If another
process appended first, the drafts are computed again.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Container, Iterable, Sequence
from typing import Any

import msgspec
from msgspec import UNSET

from stator.errors import Conflict, HeadMoved, InvalidInput, NotFound
from stator.model.exchange.item_commits import (
    Drafter,
    DraftingState,
    Open,
    legible,
)
from stator.model.exchange.items import (
    Compacted,
    Conversation,
    Item,
    Prompted,
    Via,
    commit_id,
)
from stator.model.log.commit import Commit, Draft, Upsert
from stator.model.log.query import SessionQuery, SessionRow
from stator.model.log.shown_text import cut_short
from stator.model.records.text import prompt_text
from stator.model.records.types import (
    READ_POSITION,
    ApprovalRecord,
    CallRecord,
    Parent,
    PlanRecord,
    ScratchRecord,
    SessionRecord,
)
from stator.model.sessions.lifecycle import ENDED
from stator.model.values import canon
from stator.model.values.ids import derived, short
from stator.runtime.base.context import Context
from stator.runtime.base.first_commit import opening
from stator.runtime.base.pages import commit_at, commits
from stator.runtime.base.project_flags import purged
from stator.runtime.branches import fork
from stator.runtime.views.refs import Point
from stator.runtime.window import compaction
from stator.store.port import StorePort

ATTEMPTS = 50
"""How often an append is worked out again because another writer was first."""
LOOKUPS_MAX = 8
"""Prompts that are looked up one by one."""
PLACES_MAX = 20_000
"""Items whose place in the log is remembered, for a compaction that names one of them."""
NAME_MAX = 80
"""Characters a name is made from."""


class Recorder:
    """Takes the items of one conversation. Not safe for threads."""

    def __init__(
        self,
        store: StorePort,
        context: Context,
        conversation: Conversation,
        *,
        via: Via = "import",
        row: SessionRow | None = None,
    ) -> None:
        """`row`: the session it is recorded in, where that is known and need not be found."""
        self._store = store
        self._context = context
        self._via = via
        self.conversation = conversation
        row = row or find(store, conversation)
        self.is_new = row is None
        """Whether the session begins with this recorder: with what the first `flush` appends."""
        self._unbegun = self._blank = self.is_new
        project = conversation.project or context.project
        self.session = conversation.session if row is None else row.id
        self._root = root_of(context, project if row is None else row.record.project, conversation)
        self._items: list[Item] = []
        self._latest = conversation.dated
        self._standing: DraftingState | None = None
        self._head = ""
        self._seq = 0
        self._past = False
        self._barrier = True
        self._is_named = False
        self._lookups = 0
        self._prompts: frozenset[str] | None = None
        self._begun: set[str] = set()
        self._places: OrderedDict[str, int] = OrderedDict()
        self.mended = 0
        """Values that no commit can hold (too deep, too large): what is kept says so."""

    def take(self, item: Item) -> list[Commit]:
        """Take an item; it is recorded by the next `flush`. A compaction is recorded at once, and what
        was taken before it."""
        self._latest = max(self._latest, item.at)
        if not isinstance(item, Compacted):
            self._items.append(item)
            return []
        return [*self.flush(), *self._compacted(item)]

    @property
    def waiting(self) -> int:
        """Items taken and not recorded."""
        return len(self._items)

    def flush(
        self,
        *,
        conclude: str = "",
        cursor: tuple[str, Any] | None = None,
        barrier: bool = True,
    ) -> list[Commit]:
        """Append what was taken, all of it or nothing; the commits that are new. A new session begins
        in the same transaction.

        `conclude` says why calls without a result will not get one. `cursor` is a note under a name,
        read back by `cursor`: where a reader continues next time, in the same transaction. Without
        `barrier`, a store in `barrier` mode syncs for intents of writes only.
        """
        self._barrier = barrier
        for _ in range(ATTEMPTS):
            standing = self._load()
            head = self._head
            drafter = Drafter(
                self.session, self.conversation.source, standing, via=self._via, root=self._root
            )
            drafts = [draft for item in self._items for draft in drafter.draft(item)]
            if conclude:
                drafts += drafter.conclude(cause=conclude)
            if cursor is not None:
                drafts.append(self._noted(*cursor))
            drafts = self._named(drafts)
            try:
                return self._append_mended(drafts, head)
            except HeadMoved:
                self._standing, self._blank, self._prompts = None, False, None
            except BaseException:
                self._standing = None
                raise
        raise Conflict(
            f"session {self.session}: gave up after {ATTEMPTS} conflicting appends by other writers",
            hint="try again when less is recorded into it",
            session=self.session,
        )

    def forget(self) -> None:
        """Let go of what was taken and could not be recorded."""
        self._items = []

    def open_calls(self) -> dict[str, Open]:
        """Calls without an outcome, and those in doubt, by the id they have on the other side."""
        return dict(self._load().calls)

    def cursor(self, name: str) -> Any:
        """What a reader left under a name, or None."""
        return None if self._unbegun else noted_cursor(self._store, self.session, name)

    # -- how it stands ----------------------------------------------------------------------------

    def _load(self) -> DraftingState:
        if self._unbegun:
            self._standing = DraftingState(known=self._is_known, at=self.conversation.dated)
            return self._standing
        head = self._store.head(self.session)
        if self._standing is not None and head.hash == self._head:
            # what is drafted from it must not outlive a failed append: `flush` forgets it then
            return self._standing
        store, session = self._store, self.session
        self._head, self._seq = head.hash, head.seq
        prompt, asked = self._last_turn()
        status = store.session(session).record.status
        self._standing = DraftingState(
            status=status,
            ended_at=self._ended_at() if status in ENDED else 0,
            turn_open=head.turn_open,
            prompt=prompt,
            turn_at=asked,
            calls=self._open_calls(),
            plan={
                entry.record.step: entry.record
                for entry in store.entries(session, "plan")
                if isinstance(entry.record, PlanRecord)
            },
            known=self._is_known,
            approvals=self._approvals,
            told=self._is_told,
            given_up=self._given_up,
            past=self._past,
            at=self.conversation.dated,
        )
        return self._standing

    def _ended_at(self) -> int:
        """When the session was closed or archived: when its record last changed."""
        entry = self._store.find(self.session, "session", "")
        return commit_at(self._store, self.session, entry.seq, load=False).at if entry else 0

    def _approvals(self, tool: str) -> list[str]:
        return [
            entry.key
            for entry in self._store.entries(self.session, "approvals")
            if isinstance(entry.record, ApprovalRecord) and entry.record.tool == tool
        ]

    def _is_known(self, prompt: str) -> bool:
        """Whether a turn began with that prompt; a few are looked up, of many all are read once."""
        if prompt in self._begun:
            return True
        if self._blank:
            return False
        self._lookups += 1
        if self._prompts is None and self._lookups > LOOKUPS_MAX:
            self._prompts = self._all_prompts()
        if self._prompts is not None:
            return prompt in self._prompts
        origin = self.conversation.source, prompt
        record = self._store.session(self.session).record
        owners = {self.session, *(part.session for part in record.lineage)}
        return any(
            self._store.locate(commit_id(owner, "turn", origin), self.session) for owner in owners
        )

    def _is_told(self, kind: str, foreign: str, attempt: int) -> bool:
        """Whether an item is in the log as a commit of that kind."""
        if self._blank:
            return False
        origin = self.conversation.source, legible(foreign)
        known = commit_id(self.session, kind, origin, attempt)
        return bool(self._store.locate(known, self.session))

    def _given_up(self, foreign: str) -> Open | None:
        """A call that was marked cancelled for lack of a result, and that got none since."""
        if self._blank:
            return None
        origin = self.conversation.source, foreign
        found = self._store.locate(commit_id(self.session, "outcome", origin, 1), self.session)
        if not found:
            return None
        commit = commit_at(self._store, self.session, found[0][1], load=False)
        if commit.actor != "system" or commit.status != "cancelled":
            return None
        return Open(commit.call, commit.tool, commit.effect)

    def _last_turn(self) -> tuple[str, int]:
        """The last turn's prompt, and when it was asked, where that is known."""
        turns = self._store.turns(self.session, newest_first=True, limit=1)
        if not turns:
            return "", 0
        commit = commit_at(self._store, self.session, turns[0].first, load=False)
        return (commit.origin[1], _told_at(commit)) if commit.origin else ("", 0)

    def _all_prompts(self) -> frozenset[str]:
        found: set[str] = set()
        after = 0
        while rows := self._store.turns(self.session, after=after):
            for row in rows:
                commit = commit_at(self._store, self.session, row.first, load=False)
                if commit.origin:
                    found.add(commit.origin[1])
            after = rows[-1].turn
        return frozenset(found)

    def _open_calls(self) -> dict[str, Open]:
        found = {}
        for entry in self._store.entries(self.session, "calls"):
            commit = commit_at(self._store, self.session, entry.seq, load=False)
            record = entry.record
            if commit.origin is None or not isinstance(record, CallRecord):
                continue
            found[commit.origin[1]] = Open(
                record.call, record.tool, record.effect, record.status == "in doubt",
                record.since if _told_at(commit) else 0, record.attempt,
            )  # fmt: skip
        return found

    # -- appending --------------------------------------------------------------------------------

    def _append_mended(self, drafts: list[Draft], head: str) -> list[Commit]:
        """Append; where a value cannot be recorded, what is recorded says what it was."""
        try:
            return self._append(drafts, head)
        except InvalidInput:
            whole = [mended(draft) for draft in drafts]
            changed = sum(new is not old for new, old in zip(whole, drafts, strict=True))
            if not changed:
                raise
            self.mended += changed
            return self._append(whole, head)

    def _append(self, drafts: list[Draft], head: str) -> list[Commit]:
        if self._unbegun:
            answers = self._begin(drafts)
        elif drafts:
            answers = self._store.append(self.session, drafts, if_head=head, barrier=self._barrier)
        else:
            answers = []
        self._begun |= {legible(item.id) for item in self._items if isinstance(item, Prompted)}
        self._items = []
        self._past = self._standing is not None and self._standing.past
        # what was taken twice at once is answered twice
        new = list({c.seq: c for c in answers if c.seq > self._seq}.values())
        if new:
            self._head, self._seq = new[-1].hash, new[-1].seq
        for commit in answers:
            if commit.origin is not None:
                self._places[commit.origin[1]] = commit.seq
        while len(self._places) > PLACES_MAX:
            self._places.popitem(last=False)
        return new

    def _begin(self, drafts: list[Draft]) -> list[Commit]:
        """Begin the session with these. A fork begins without them, and what another process began was
        drafted without knowing: both are worked out again, from what is there."""
        named = self.conversation
        if not named.name.strip():
            named = msgspec.structs.replace(named, name=asked_first(self._items))
        at = next((item.at for item in self._items if item.at > 0), named.dated)
        row, is_ours = begin(self._store, self._context, named, drafts, at=at)
        self._unbegun = False
        if not is_ours:
            raise HeadMoved(f"session {row.id} has begun", head="", session=row.id)
        self._seq = 1
        answers = list(commits(self._store, self.session, after=1))
        if not answers:
            self._head = self._store.head(self.session).hash
        return answers

    def _named(self, drafts: list[Draft]) -> list[Draft]:
        """The same, where the session has no name yet but that of its source and a prompt gives it one:
        a hook reports the beginning of a conversation before its first message."""
        place = next((n for n, draft in enumerate(drafts) if draft.kind == "turn"), None)
        if place is None or self._unbegun or self._is_named:
            return drafts
        record = self._store.session(self.session).record
        self._is_named = record.name != unnamed(self.conversation)
        given = name_of(
            msgspec.structs.replace(
                self.conversation, name=self.conversation.name or asked_first(self._items)
            )
        )
        if self._is_named or given == record.name:
            return drafts
        query = SessionQuery(name=given, project=record.project, tenant=record.tenant)
        if self._store.sessions(query, limit=1).rows:
            given = f"{given} {short(self.session)[2:]}"
        named = Upsert("session", msgspec.structs.replace(record, name=given))
        turn = drafts[place]
        drafts[place] = msgspec.structs.replace(turn, changes=(*turn.changes, named))
        return drafts

    def _noted(self, name: str, value: Any) -> Draft:
        note = ScratchRecord(name=f"{READ_POSITION}: {name}", value=value)
        commit = self._context.mint("commit")
        # A closed session accepts what has an origin; two notes are never the same.
        closed = self._standing is not None and self._standing.status in ENDED
        return Draft(
            id=commit,
            session=self.session,
            kind="scratch",
            happened=self._latest,
            origin=(self.conversation.source, f"{READ_POSITION}: {commit}") if closed else None,
            actor="system",
            principal=f"{self._via}:{self.conversation.source}",
            changes=(Upsert("scratch", note),),
        )

    def _compacted(self, item: Compacted) -> list[Commit]:
        head = self._store.head(self.session).seq
        kept = self._place(legible(item.keeps_from)) if item.keeps_from else None
        found = compaction.foreign(
            self._store,
            self._context,
            self.session,
            upto=head if kept is None else kept - 1,
            summary=cut_short(item.summary, compaction.SUMMARY_MAX),
            origin=(self.conversation.source, legible(item.id)),
            tokens=(item.before, item.after),
            happened=item.at or self.conversation.dated,
        )
        return [commit_at(self._store, self.session, found.seq)] if found.seq > head else []

    def _place(self, foreign: str) -> int | None:
        """Where in the log an item was recorded, now or before."""
        if foreign in self._places:
            return self._places[foreign]
        origin = self.conversation.source, foreign
        for kind, attempt in (("entry", 0), ("turn", 0), ("call", 1), ("outcome", 1)):
            found = self._store.locate(commit_id(self.session, kind, origin, attempt), self.session)
            if found:
                return found[0][1]
        return None


def mended(draft: Draft) -> Draft:
    """A draft that can be recorded: a value that cannot be is replaced by a description."""
    for name in ("input", "output"):
        value = getattr(draft, name)
        if value is UNSET:
            continue
        try:
            canon.dumps(value)
        except InvalidInput as refusal:
            note = {"not kept": str(refusal), "began": legible(_beginning(value))}
            draft = msgspec.structs.replace(draft, **{name: note})
    return draft


def _beginning(value: Any) -> str:
    """The beginning of a value that is too large or too deep to be shown."""
    if isinstance(value, str):
        return cut_short(value, 200)
    return (
        ", ".join(list(map(str, value))[:20]) if isinstance(value, dict) else type(value).__name__
    )


def _told_at(commit: Commit) -> int:
    """When it happened, as far as is known. An item without a time gets the time of its append, which is
    later than items still to come."""
    return commit.happened if commit.happened < commit.at else 0


def noted_cursor(store: StorePort, session: str, name: str) -> Any:
    """What a reader of a session's source left under a name, or None."""
    entry = store.find(session, "scratch", f"{READ_POSITION}: {name}")
    return getattr(entry.record, "value", None) if entry is not None else None


def find(store: StorePort, conversation: Conversation) -> SessionRow | None:
    """The session a conversation is recorded in, if it has begun."""
    alias = conversation.source, legible(conversation.id)
    rows = store.sessions(SessionQuery(alias=alias), limit=1).rows
    if rows:
        return rows[0]
    try:
        return store.session(conversation.session)
    except NotFound:
        return None


def begin(
    store: StorePort,
    context: Context,
    conversation: Conversation,
    drafts: Sequence[Draft] = (),
    *,
    at: int = 0,
) -> tuple[SessionRow, bool]:
    """The session of a conversation, begun: by itself, below the one it is a sub-agent of, or as a fork.
    Whether it began with those drafts: a fork does not, nor one that is there. One that was purged
    does not come back. `at`: when it began, where that is known."""
    if (gone := purged(store, conversation.session)) is not None:
        raise gone
    base = fork_point(store, conversation)
    if base is not None:
        return _forked(store, context, conversation, base), False
    now = context.clock()
    record = SessionRecord(
        id=conversation.session,
        name=name_of(conversation),
        agent=legible(conversation.agent or conversation.source),
        aliases=[[conversation.source, legible(conversation.id)]],
        created=min(at or now, now),
        labels={legible(k): legible(v) for k, v in conversation.labels.items()},
        mode="recorded",
        parent=_parent(store, conversation),
        project=conversation.project or context.project,
    )
    first = msgspec.structs.replace(opening(context, record), happened=record.created)
    return _created(store, [first, *drafts], record)


def _created(
    store: StorePort, drafts: list[Draft], record: SessionRecord
) -> tuple[SessionRow, bool]:
    """Create it; another session may have its name, and another process may have been first."""
    for name in (record.name, f"{record.name[:NAME_MAX]} {short(record.id)[2:]}"):
        named = msgspec.structs.replace(record, name=name)
        changed = msgspec.structs.replace(drafts[0], changes=(Upsert("session", named),))
        try:
            row, is_new = store.create([changed, *drafts[1:]])
        except Conflict:
            return store.session(record.id), False
        if row.id == record.id:
            return row, is_new
    raise Conflict(
        f"two other sessions are called {record.name!r:.80}", hint="rename one", session=row.id
    )


def name_of(conversation: Conversation) -> str:
    """What a session is called: its title on the other side, else which it is."""
    given = " ".join(legible(conversation.name).split())
    if given:
        return given if len(given) <= NAME_MAX else cut_short(given, NAME_MAX - 1) + "…"
    return unnamed(conversation)


def unnamed(conversation: Conversation) -> str:
    """The name of a session before anything in it is known."""
    return f"{conversation.source} {cut_short(legible(conversation.id), NAME_MAX)}"


def asked_first(items: Iterable[Item]) -> str:
    """The words a conversation began with, for one without a title."""
    for item in items:
        if isinstance(item, Prompted) and not item.within:
            return cut_short(prompt_text(item.content), NAME_MAX * 4)
    return ""


def root_of(context: Context, project: str, conversation: Conversation) -> str:
    """The folder that paths are relative to: the project's, where the agent worked below it, else the agent's own."""
    here, cwd = context.root.rstrip("/"), conversation.cwd
    below = here and (cwd == here or cwd.startswith(here + "/"))
    return here if not cwd or (below and project == context.project) else cwd


def _parent(store: StorePort, conversation: Conversation) -> Parent | None:
    if not conversation.parent:
        return None
    parent = _known(store, conversation.source, conversation.parent)
    if parent is None:
        return None
    origin = conversation.source, legible(conversation.parent_call)
    intent = commit_id(parent.id, "call", origin, 1)
    found = store.locate(intent, parent.id) if conversation.parent_call else []
    seq = found[0][1] if found else store.head(parent.id).seq
    commit = commit_at(store, parent.id, seq, load=False)
    return Parent(session=parent.id, seq=seq, hash=commit.hash, kind="child")


def _known(store: StorePort, source: str, foreign: str) -> SessionRow | None:
    return find(store, Conversation(source=source, id=foreign))


def fork_point(store: StorePort, conversation: Conversation) -> Point | None:
    """Where in its parent a fork begins: after the last item they share."""
    if not conversation.fork_of:
        return None
    parent = _known(store, conversation.source, conversation.fork_of)
    if parent is None:
        return None
    seq = last_of(commits(store, parent.id, load=False), conversation.fork_ids)
    return Point(parent.id, seq, f"@{seq}") if seq else None


def last_of(log: Iterable[Commit], ids: Container[str]) -> int:
    """The last place in a log at which one of those items was recorded; 0: none was."""
    return max((c.seq for c in log if c.origin is not None and c.origin[1] in ids), default=0)


def _forked(
    store: StorePort, context: Context, conversation: Conversation, base: Point
) -> SessionRow:
    return fork.fork(
        store,
        context,
        base,
        name=f"{name_of(conversation)[:NAME_MAX]} {conversation.session[-8:]}",
        identifier=derived("session", conversation.source, conversation.id),
        aliases=[[conversation.source, legible(conversation.id)]],
    )
