"""Records a conversation that another program drives, item by item, into a session of its own.

What orders the conversation (a transcript, hooks, a proxy) holds a `Recorder` and hands it items. The same
conversation leads to the same session, and the same item to the same commit. Drafts are a function of the items alone,
so it does not matter how often a source is read, or by how many processes: what is known by its id is skipped, and the
rest follows in the same order. `flush` appends what was handed in, all or nothing, together with a note of how far the
source was read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import zip_longest
from typing import Any, NamedTuple, TypeVar

import msgspec
from msgspec import UNSET

from stator.errors import Conflict, InvalidInput
from stator.model.exchange.bookmark import Bookmark
from stator.model.exchange.item_commits import (
    Drafter,
    DraftingState,
    lifecycle_draft,
)
from stator.model.exchange.items import (
    Began,
    Compacted,
    Conversation,
    Ended,
    Item,
    Prompted,
    Via,
    commit_id,
)
from stator.model.exchange.kept_contents import KEPT
from stator.model.extraction.evidence import ENDS, origin_parts, seen_commit
from stator.model.extraction.extractor import Extractor
from stator.model.log.commit import Commit, Draft, Upsert
from stator.model.log.query import SessionQuery, SessionRow
from stator.model.log.shown_text import cut_short, legible
from stator.model.records.text import prompt_text
from stator.model.records.types import ApprovalRecord, CallRecord, SessionRecord
from stator.model.sessions.lifecycle import ENDED, check_transition
from stator.model.values import canon
from stator.model.values.ids import derived, short
from stator.runtime.base.context import Context
from stator.runtime.base.first_commit import opening
from stator.runtime.base.pages import commit_at, commits, find_entry
from stator.runtime.base.plan_checks import learn
from stator.runtime.base.project_flags import purged
from stator.runtime.branches import fork
from stator.runtime.ingest.earlier_log import Earlier
from stator.runtime.ingest.log_state import state_of_log
from stator.runtime.ingest.placement import find, fork_point, is_ready, known, parent_of, root_of
from stator.runtime.views.refs import Point, intent_of
from stator.store.port import StorePort

T = TypeVar("T")
NAME_MAX = 80
"""Characters a name is made from."""
RENEWAL_LABELS = ("again", "instead of", "was")
"""Labels that say how often a session was imported again, and instead of which. They are no fork's."""


Recorded = Commit | Draft
"""What was recorded: a commit, or the draft that became one, where it need not be read for what both say."""


class SeenCall(NamedTuple):
    """A call without an outcome: its id on the other side, its tool, when it began and what it was given."""

    foreign: str
    tool: str
    at: int
    input: Any


class ParentBehind(Exception):
    """A conversation cannot be begun yet: what it hangs at, or was forked from, is not recorded so far."""


class Recorder:
    """Takes the items of one conversation, in the order of what orders it. Not safe for threads."""

    def __init__(
        self,
        store: StorePort,
        context: Context,
        conversation: Conversation,
        *,
        via: Via = "import",
        row: SessionRow | None = None,
        orderer: str = "transcript",
        state: DraftingState | None = None,
    ) -> None:
        """`row`: the session it is recorded in, where that is known and need not be found. `state`: how drafting
        left off; without one it is read from the log, unless the source is read from its beginning."""
        self._store = store
        self._context = context
        self._via: Via = via
        self._orderer = orderer
        self.conversation = conversation
        row = row or find(store, conversation)
        self.is_new = row is None
        """Whether the session begins with this recorder: with what the first `flush` appends."""
        self._unbegun = self.is_new
        project = conversation.project or context.project
        self.session = conversation.session if row is None else row.id
        root = root_of(
            context,
            project if row is None else row.record.project,
            conversation,
            is_old=row is not None and not row.record.orderer,
        )
        if state is None:
            from_log = row is not None and orderer != "transcript"
            fresh = DraftingState(at=conversation.dated)
            state = state_of_log(store, self.session) if from_log else fresh
        self._drafter = Drafter(
            self.session,
            conversation.source,
            state,
            via=via,
            root=root,
            folder="" if root else conversation.cwd,
            approvals=self._approvals,
            identify=self._identify if conversation.fork_of else None,
            extract=self._extract,
        )
        state.extraction.folder = root or conversation.cwd
        self._extractor = Extractor(self.session, state.extraction)
        self._recorded_here: set[str] = set()
        """Compactions that this recorder appended: what is found in one follows it."""
        self._learned = learn(store, self._extractor) if row is not None else []
        self._pending: list[Draft | Began | Ended] = []
        self._seq = 0 if row is None else store.head(row.id).seq
        self._name = ""
        self._lineage: list[tuple[str, int]] | None = None
        self._is_described = False
        self._record: SessionRecord | None = None
        self._earliest = conversation.dated
        self.mended = 0
        """Values that no commit can hold (too deep, too large): what is kept says so."""

    def _extract(self, draft: Draft) -> list[Draft]:
        """What is found in a draft. Hooks and proxies leave no state: what was asked is in the log."""
        is_stateless = self._orderer != "transcript" and not self._unbegun
        if is_stateless and draft.kind in ENDS and self._extractor.lacks(draft.call):
            intent = intent_of(self._store, self.session, draft.call)
            if intent is not None:
                self._extractor.see(seen_commit(intent), late=True)
        return self._extractor.drafts(draft)

    @property
    def state(self) -> DraftingState:
        """What drafting must remember after all that was taken."""
        return self._drafter.state

    def take(self, item: Item) -> list[Recorded]:
        """Take an item; it is recorded by the next `flush`. A compaction is recorded at once, and what
        was taken before it."""
        self._earliest = self._earliest or max(item.at, 0)
        if isinstance(item, (Began, Ended)):
            self._pending.append(item)
        elif isinstance(item, Compacted):
            before, made = self.flush(), self._compacted(item)
            self._drafter.compacted(item)
            for commit in made:
                self._recorded_here.add(commit.id)
                self._pending += self._extractor.found_in(commit)
            return [*before, *made]
        else:
            if isinstance(item, Prompted) and not self._name:
                self._name = asked_first([item])
            self._pending += self._drafter.draft(item)
        return []

    @property
    def waiting(self) -> int:
        """Drafts that are not recorded yet."""
        return len(self._pending)

    def flush(self, *, bookmark: Bookmark | None = None, barrier: bool = True) -> list[Recorded]:
        """Append what was taken, all of it or nothing; what of it is new. A new session begins in the same
        transaction. A session that is begun must have something to begin with, or a note.

        `bookmark` is kept in that transaction; `HeadMoved` if another process has read further. Without
        `barrier`, a store in `barrier` mode syncs for intents of writes only.
        """
        before = self._seq
        new = self._append_taken(bookmark, barrier=barrier)
        if _may_name_checks(new, self._seq - before):
            self._learned += learn(self._store, self._extractor)
        if self._learned:
            new += self._new(self._store.append(self.session, self._learned, barrier=barrier))
            self._learned = []
        return new

    def _append_taken(self, bookmark: Bookmark | None, *, barrier: bool) -> list[Recorded]:
        if self._unbegun and self._begin():
            begun = self._created_with(bookmark)
            if begun is not None:
                return begun
        self._unbegun = False
        if not self._pending and bookmark is None:
            return []
        answers = self._mended(
            self._resolved(self._record_now()),
            lambda drafts: self._store.append(
                self.session, drafts, barrier=barrier, bookmark=bookmark
            ),
        )
        self._pending = []
        return [*self._new(answers)]

    def forget(self) -> None:
        """Let go of what was taken and could not be recorded."""
        self._pending = []

    def open_calls(self) -> list[SeenCall]:
        """Calls in the log that have no outcome yet."""
        found = []
        for entry in self._store.entries(self.session, "calls"):
            intent = commit_at(self._store, self.session, entry.seq)
            record = entry.record
            if (
                intent.origin is not None
                and isinstance(record, CallRecord)
                and record.status == "started"
            ):
                found.append(
                    SeenCall(intent.origin[1], record.tool, record.since, intent.known("input"))
                )
        return found

    # -- appending --------------------------------------------------------------------------------

    def _new(self, answers: list[Commit]) -> list[Commit]:
        """Those of the answers that were not in the log before."""
        new = list({c.seq: c for c in answers if c.seq > self._seq}.values())
        if new:
            self._seq = new[-1].seq
        return new

    def _begin(self) -> bool:
        """Whether the session can begin with what was taken. A fork cannot: it begins with a place in its parent."""
        if (gone := purged(self._store, self.conversation.session)) is not None:
            raise gone
        self._check_ready()
        base = fork_point(self._store, self.conversation)
        if base is None:
            return True
        row = _forked(self._store, self._context, self._named(), base)
        self._seq = self._store.head(row.id).seq
        return False

    def _check_ready(self) -> None:
        """`ParentBehind` while the session that this one hangs at may still reach the place. What hooks order is there
        only once, and is recorded when it comes."""
        talk = self.conversation
        if self._orderer != "transcript":
            return
        above = known(self._store, talk.source, talk.fork_of or talk.parent)
        rests = above is None or self._context.at_rest(self._store, above)
        if not is_ready(self._store, talk, at_rest=rests):
            raise ParentBehind(talk.id)

    def _created_with(self, bookmark: Bookmark | None) -> list[Recorded] | None:
        """Create the session with what was taken; None if another process has begun it."""
        record = self._first_record()
        first = msgspec.structs.replace(opening(self._context, record), happened=record.created)
        drafts = self._resolved(record)
        row, is_ours = self._mended(
            drafts, lambda made: _created(self._store, [first, *made], record, bookmark)
        )
        self._unbegun = False  # not before: an append that fails is tried again
        if not is_ours:
            return None
        self._pending = []
        if row.head == len(drafts) + 1:  # each became a commit, after the first
            self._seq = row.head
            return [*drafts]
        return [*self._new([c for c in commits(self._store, row.id) if c.seq > 1])]

    def _record_now(self) -> SessionRecord:
        """The record of the session, read again only for drafts that are made by its status or its name."""
        if self._record is None or any(map(self._asks_record, self._pending)):
            self._record = self._store.session(self.session).record
        return self._record

    def _asks_record(self, one: Draft | Began | Ended) -> bool:
        return not isinstance(one, Draft) or (one.kind == "turn" and not self._is_described)

    def _first_record(self) -> SessionRecord:
        conversation, now = self.conversation, self._context.clock()
        return SessionRecord(
            id=conversation.session,
            name=name_of(self._named()),
            agent=legible(conversation.agent or conversation.source),
            aliases=[] if conversation.again else [[conversation.source, legible(conversation.id)]],
            created=min(self._earliest or now, now),
            labels={legible(k): legible(v) for k, v in conversation.labels.items()},
            mapper=conversation.mapper if self._orderer == "transcript" else "",
            mode="recorded",
            orderer=self._orderer,
            parent=parent_of(self._store, conversation, began=self._earliest),
            project=conversation.project or self._context.project,
        )

    def _resolved(self, record: SessionRecord) -> list[Draft]:
        """What was taken, as drafts: what the log of an earlier release holds in another form is adapted to it."""
        drafts: list[Draft] = []
        for one in self._pending:
            if isinstance(one, Draft):
                if not self._is_left_to_extract(one):
                    drafts.append(one)
                continue
            draft = self._lifecycle(one, record)
            if draft is not None:
                status = check_transition(draft.kind, record.status, record.id, witnessed=True)
                record = msgspec.structs.replace(record, status=status or record.status)
                drafts.append(draft)
        if not self._is_described and not self._unbegun:
            drafts = [*self._described(record, drafts), *drafts]
        if not self._unbegun:
            drafts = self._without_strays(drafts)
        if not record.orderer and self._orderer == "transcript":
            drafts = Earlier(self._store, self.session).adapted(drafts)
        return drafts

    def _is_left_to_extract(self, draft: Draft) -> bool:
        """Whether a draft was found in a commit that is in the log already. Then it is there too, or the log was made
        by a release that did not find it: `stator extract` puts it where it does no harm."""
        parts = origin_parts(draft.origin)
        return (
            parts is not None
            and not self._unbegun
            and parts[2] not in self._recorded_here
            and bool(self._store.locate(parts[2], self.session))
        )

    def _without_strays(self, drafts: list[Draft]) -> list[Draft]:
        """Contents are recorded with the commit that names them. One that an earlier release recorded names none."""
        return [
            draft
            for draft, named in zip_longest(drafts, drafts[1:])
            if draft.status != KEPT
            or named is None
            or self._store.locate(draft.id, self.session)
            or not self._store.locate(named.id, self.session)
        ]

    def _lifecycle(self, item: Began | Ended, record: SessionRecord) -> Draft | None:
        """None if it is recorded: a start may have been another kind of commit, by the status at that time."""
        origin = self.conversation.source, legible(item.id)
        known = (commit_id(self.session, kind, origin) for kind in ("run", "resume", "pause"))
        if not self._unbegun and any(self._store.locate(one, self.session) for one in known):
            return None
        ended = self._ended_at() if record.status in ENDED else 0
        return lifecycle_draft(
            item, record, self.conversation.source, ended_at=ended, via=self._via
        )

    def _ended_at(self) -> int:
        """When the session was closed or archived: when its record last changed."""
        entry = find_entry(self._store, self.session, "session", "")
        return commit_at(self._store, self.session, entry.seq, load=False).at if entry else 0

    def _described(self, record: SessionRecord, drafts: list[Draft]) -> list[Draft]:
        """The first turn gives the session a name, if a hook began it before one was known. A commit of its own says
        so: those of the turn are the same in every recording."""
        if not any(draft.kind == "turn" for draft in drafts):
            return []
        self._is_described = True
        return naming(self._store, record, self._named(), via=self._via)

    def _named(self) -> Conversation:
        """The conversation, called after its first prompt if it has no name."""
        if self.conversation.name.strip():
            return self.conversation
        return msgspec.structs.replace(self.conversation, name=self._name)

    def _mended(self, drafts: list[Draft], append: Callable[[list[Draft]], T]) -> T:
        """Append; where a value cannot be recorded, what is recorded says what it was."""
        try:
            return append(drafts)
        except InvalidInput:
            whole = [mended(draft) for draft in drafts]
            changed = sum(new is not old for new, old in zip(whole, drafts, strict=True))
            if not changed:
                raise
            self.mended += changed
            return append(whole)

    # -- what drafting and compaction ask ---------------------------------------------------------

    def _approvals(self, tool: str) -> list[str]:
        return [
            entry.key
            for entry in self._store.entries(self.session, "approvals")
            if isinstance(entry.record, ApprovalRecord) and entry.record.tool == tool
        ]

    def _identify(self, kind: str, origin: tuple[str, str], attempt: int) -> str:
        """The id of the commit of an item. What a fork shares with its parents has the id that it has there."""
        if origin[1] in self.conversation.fork_ids:
            for owner, upto in self._shared():
                there = commit_id(owner, kind, origin, attempt)
                found = self._store.locate(there, owner)
                if found and found[0][1] <= upto:
                    return there
        return commit_id(self.session, kind, origin, attempt)

    def _shared(self) -> list[tuple[str, int]]:
        """The sessions that a fork continues, the nearest first, and up to which position."""
        if self._lineage is None:
            base = fork_point(self._store, self.conversation) if self.is_new else None
            if not self.is_new:
                parts = self._store.session(self.session).record.lineage
                self._lineage = [(part.session, part.upto) for part in reversed(parts)]
            elif base is not None:
                parts = self._store.session(base.session).record.lineage
                inherited = [(part.session, part.upto) for part in reversed(parts)]
                self._lineage = [(base.session, base.seq), *inherited]
            else:
                self._lineage = []
        return self._lineage

    def _compacted(self, item: Compacted) -> list[Commit]:
        from stator.runtime.window import (
            compaction,  # takes a hook longer to load than all else here
        )

        head = self._store.head(self.session).seq
        kept = self._place(legible(item.keeps_from)) if item.keeps_from else None
        found = compaction.foreign(
            self._store,
            self.session,
            upto=head if kept is None else kept - 1,
            summary=cut_short(item.summary, compaction.SUMMARY_MAX),
            origin=(self.conversation.source, legible(item.id)),
            tokens=(item.before, item.after),
            happened=item.at or self.conversation.dated,
        )
        if found.seq <= head:
            return []
        self._seq = found.seq
        return [commit_at(self._store, self.session, found.seq)]

    def _place(self, foreign: str) -> int | None:
        """Where in the log an item was recorded."""
        origin = self.conversation.source, foreign
        for kind, attempt in (("entry", 0), ("turn", 0), ("call", 1), ("outcome", 1)):
            found = self._store.locate(commit_id(self.session, kind, origin, attempt), self.session)
            if found:
                return found[0][1]
        return None


def _may_name_checks(new: list[Recorded], seqs: int) -> bool:
    """Whether the log may name checks now that it did not name `seqs` commits ago: by what was appended since, or by
    a commit of another process."""
    return seqs != len(new) or not new or any(map(_touches_plan, new))


def _touches_plan(one: Recorded) -> bool:
    changes = one.changes if isinstance(one, Draft) else one.delta
    return any(getattr(each, "collection", "") in ("checks", "plan") for each in changes)


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


def _created(
    store: StorePort, drafts: list[Draft], record: SessionRecord, bookmark: Bookmark | None
) -> tuple[SessionRow, bool]:
    """Create it; another session may have its name, and another process may have been first."""
    for name in (record.name, f"{record.name[:NAME_MAX]} {short(record.id)[2:]}"):
        named = msgspec.structs.replace(record, name=name)
        changed = msgspec.structs.replace(drafts[0], changes=(Upsert("session", named),))
        try:
            row, is_new = store.create([changed, *drafts[1:]], bookmark=bookmark)
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


def naming(
    store: StorePort, record: SessionRecord, conversation: Conversation, *, via: Via
) -> list[Draft]:
    """The draft that gives a session the name of its conversation, if it was begun before one was known."""
    given = name_of(conversation)
    if record.name != unnamed(conversation) or given == record.name:
        return []
    query = SessionQuery(name=given, project=record.project, tenant=record.tenant)
    if store.sessions(query, limit=1).rows:
        given = f"{given} {short(record.id)[2:]}"
    return [
        Draft(
            id=derived("commit", record.id, "describe"),
            session=record.id,
            kind="describe",
            actor="system",
            principal=f"{via}:{conversation.source}",
            changes=(Upsert("session", msgspec.structs.replace(record, name=given)),),
        )
    ]


def _forked(
    store: StorePort, context: Context, conversation: Conversation, base: Point
) -> SessionRow:
    labels = store.session(base.session).record.labels
    return fork.fork(
        store,
        context,
        base,
        name=f"{name_of(conversation)[:NAME_MAX]} {conversation.session[-8:]}",
        labels={name: value for name, value in labels.items() if name not in RENEWAL_LABELS},
        identifier=conversation.session,
        aliases=[] if conversation.again else [[conversation.source, legible(conversation.id)]],
    )
