"""Turns items (`model.exchange.items`) into drafts of commits, in the order of one source. Pure.

What orders a recorded session (its transcript, else its hooks or a proxy) gives items, and the drafts are a function
of these items alone: not of the log, of the clock, or of how often the source was looked at. So the drafts of a source
that is still growing are the first drafts of the whole one. What drafting must remember is small and can be kept
(`DraftingState`).

A missing result is recorded only where the source itself shows that it will not come: at the next prompt. A call
without a result by then is in doubt (or cancelled, if it only read).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import singledispatchmethod
from typing import Any

import msgspec
from msgspec import UNSET

from stator.model.exchange.extraction_state import ExtractionState
from stator.model.exchange.items import (
    Answered,
    Author,
    Began,
    Called,
    Compacted,
    Configured,
    Delivered,
    Ended,
    Flagged,
    Item,
    Noted,
    Offered,
    Planned,
    Prompted,
    Returned,
    Spawned,
    Touch,
    Touched,
    TurnEnded,
    Unknown,
    Via,
    commit_id,
    text_id,
)
from stator.model.exchange.kept_contents import KEPT, TouchContents
from stator.model.exchange.own_notes import apart
from stator.model.exchange.settings import changes_of
from stator.model.log.commit import (
    Actor,
    Change,
    Draft,
    Provenance,
    Remove,
    Source,
    Upsert,
)
from stator.model.log.shown_text import legible
from stator.model.records.types import (
    ChildRecord,
    DeliveryRecord,
    FileRecord,
    FlagRecord,
    PlanRecord,
    SessionRecord,
    ToolRecord,
    WorkingRecord,
)
from stator.model.values import paths
from stator.model.values.ids import derived, retype

RECENT_MAX = 64
"""The newest items whose commits are remembered, for a compaction that keeps some of them in view."""
BEGUN_MAX = 256
"""The newest prompts that are remembered: one that is repeated begins no turn."""
OPEN_MAX = 512
"""Calls without a result that are remembered; of a source that has more, the oldest are given up."""
GUESSED_MAX = 64
"""Those among them whose turn is over that are remembered, for a result that comes late."""
DELIVERED_MAX = 32
"""Texts of ours that are remembered between two answers."""
UNSEEN = "no result was recorded"
UNASKED = "only its result was recorded"
"""Why nothing is known of what a call was given."""
WORDS: dict[Author, tuple[Actor, Source]] = {
    "user": ("user", "user"),
    "agent": ("agent", "model"),
    "system": ("system", "system"),
}
"""Whose words a text is → who acted, and where it comes from."""


Identify = Callable[[str, tuple[str, str], int], str]
"""The id of the commit for a kind, an origin and an attempt."""


class UnsettledCall(msgspec.Struct, omit_defaults=True):
    """A call without an outcome, or one whose outcome was a guess."""

    call: str
    tool: str
    effect: str = "write"
    guessed: bool = False
    """Whether it was marked in doubt or cancelled for lack of a result: one that comes late settles it."""
    at: int = 0
    attempt: int = 1
    intent: str = ""
    """The commit that records what was asked."""


class DraftingState(msgspec.Struct, omit_defaults=True):
    """What drafting remembers from one item to the next. It is kept with the place that was read up to, and does not
    grow with the conversation."""

    turn_open: bool = False
    prompt: str = ""
    """The id of the last turn's prompt."""
    calls: dict[str, UnsettledCall] = {}
    """By the id they have on the other side."""
    plan: dict[str, list[str]] = {}
    """The plan's steps: a digest of each one's name → its name, and a digest of the step. Digests, because a name
    that holds a secret is kept without it."""
    settings: dict[str, str] = {}
    """What the agent runs with: the fingerprint of each value by its name."""
    first: str = ""
    """The first commit in the agent's view, and the last one."""
    last: str = ""
    answer: str = ""
    """The last answer."""
    recent: dict[str, str] = {}
    """The newest items in view: their ids → their commits."""
    begun: list[str] = []
    """The newest prompts."""
    at: int = 0
    """When the last thing happened of which that is known."""
    extraction: ExtractionState = msgspec.field(default_factory=ExtractionState)
    """What the rules of extraction must know."""
    contents: dict[str, str] = {}
    """The newest contents of files that were kept: their digests → their commits."""
    delivered: list[str] = []
    """Texts of ours that arrived since the last answer. An agent may show one at several places."""


class Drafter:
    """Makes the drafts of one conversation's items.

    `approvals` gives the keys of what was approved for a tool; only a proxy needs it. `identify` gives the id of an
    item's commit; a fork needs it, whose first items are in the log of its parent. `extract` gives the drafts of what
    is found in a draft: they follow it.
    """

    def __init__(
        self,
        session: str,
        source: str,
        state: DraftingState,
        *,
        via: Via = "import",
        root: str = "",
        approvals: Callable[[str], list[str]] = lambda tool: [],
        identify: Identify | None = None,
        folder: str = "",
        extract: Callable[[Draft], list[Draft]] = lambda draft: [],
    ) -> None:
        self._session = session
        self._extract = extract
        self._source = source
        self._root = root
        self._folder = folder
        self._principal = f"{via}:{source}"
        self._trust = via != "import"
        self._approvals = approvals
        self._identify: Identify = identify or (
            lambda kind, origin, attempt: commit_id(session, kind, origin, attempt)
        )
        self.state = state

    def draft(self, item: Item) -> list[Draft]:
        """What an item adds to the log, in order."""
        drafts: list[Draft] = []
        for one in apart(item):
            for draft in self._make(one):
                drafts += [draft, *self._extract(draft)]
        return drafts

    def compacted(self, item: Compacted) -> None:
        """The agent's view begins with its summary from here on. The commit is made where the log is: it
        names what left the view."""
        state = self.state
        made = self._identify("compaction", (self._source, legible(item.id)), 0)
        kept = state.recent.get(legible(item.keeps_from)) if item.keeps_from else None
        state.first = kept or made
        state.last, state.answer = made, ""
        state.recent = {}

    # -- items ------------------------------------------------------------------------------------

    @singledispatchmethod
    def _make(self, item: Item) -> Iterator[Draft]:
        """Items that only count: nothing."""
        yield from ()

    @_make.register
    def _(self, item: Prompted) -> Iterator[Draft]:
        state = self.state
        prompt = legible(item.id)
        if prompt in state.begun:
            return
        lost = list(self._conclude(item.at))
        yield from lost
        if state.turn_open:
            yield self._turn_end("interrupted" if lost else "ok", item.at)
        actor, source = WORDS[item.by]
        draft = self._draft("turn", prompt, item.at, actor=actor, source=source, input=item.content)
        state.turn_open, state.prompt = True, prompt
        state.begun = [*state.begun[-BEGUN_MAX + 1 :], prompt]
        self._show(item.id, draft)
        yield draft

    @_make.register
    def _(self, item: Answered) -> Iterator[Draft]:
        state = self.state
        draft = self._draft(
            "entry", item.id, item.at,
            actor="model", source="model", output=item.reply, usage=item.usage or None,
            status="partial" if item.partial else "", tool=legible(item.model),
            inputs=((state.first, state.last),) if state.first else (),
        )  # fmt: skip
        self._show(item.id, draft)
        state.answer, state.delivered = draft.id, []
        yield draft

    @_make.register
    def _(self, item: Noted) -> Iterator[Draft]:
        actor, source = WORDS[item.by]
        draft = self._draft(
            "entry", item.id, item.at, actor=actor, source=source, output=item.content
        )
        self._show(item.id, draft)
        yield draft

    @_make.register
    def _(self, item: Delivered) -> Iterator[Draft]:
        note = legible(item.note)
        if note in self.state.delivered:
            return
        self.state.delivered = [*self.state.delivered[-DELIVERED_MAX + 1 :], note]
        record = DeliveryRecord(note=note, kind=legible(item.kind), whole=item.whole)
        yield self._draft(
            "delivery", item.id, item.at,
            actor="system", output=item.text, changes=(Upsert("deliveries", record),),
        )  # fmt: skip

    @_make.register
    def _(self, item: Configured) -> Iterator[Draft]:
        given = {legible(name): value for name, value in item.settings.items() if name}
        changes = changes_of(self.state.settings, given)
        if changes:
            yield self._draft("settings", item.id, item.at, actor="system", changes=changes)

    @_make.register
    def _(self, item: Called) -> Iterator[Draft]:
        state = self.state
        foreign = legible(item.id)
        known = state.calls.get(foreign)
        if known is not None and known.attempt >= item.attempt:
            return
        origin = self._source, foreign
        call = retype(self._identify("call", origin, 1), "call")
        enclosing = state.calls.get(legible(item.parent)) if item.parent else None
        tool = legible(item.tool) or "?"
        draft = self._draft(
            "call", foreign, item.at,
            actor="agent", source="model", attempt=item.attempt, call=call, tool=tool,
            effect=item.effect,
            status="started", input={} if item.input is None else item.input, key=item.key,
            parent=enclosing.call if enclosing else "",
            inputs=self._asked_by(enclosing),
        )  # fmt: skip
        state.calls[foreign] = UnsettledCall(
            call, tool, item.effect, at=item.at, attempt=item.attempt, intent=draft.id
        )
        if len(state.calls) > OPEN_MAX:
            del state.calls[next(iter(state.calls))]
        self._show(item.id, draft)
        yield draft

    @_make.register
    def _(self, item: Returned) -> Iterator[Draft]:
        state = self.state
        foreign = legible(item.id)
        if foreign not in state.calls:  # its intent was never seen
            intent = Called(id=item.id, at=item.at, tool=item.tool or "?", attempt=item.attempt)
            for draft in self._make(intent):
                yield msgspec.structs.replace(draft, cause=UNASKED)
        known = state.calls[foreign]
        late, unsure = known.guessed, item.status == "in doubt"
        if late and (unsure or (known.effect != "write" and item.status == "cancelled")):
            return  # it adds nothing to the guess
        if unsure:
            known.guessed = True
        else:
            del state.calls[foreign]
        kept, changes = self._files(foreign, item.at, item.files)
        yield from kept
        draft = self._draft(
            "settlement" if late else "outcome", foreign, item.at,
            actor="tool", source=item.source, attempt=known.attempt, call=known.call, tool=known.tool,
            effect=known.effect, status=_settled(item.status) if late else item.status,
            cause="late result" if late else legible(item.cause),
            output=UNSET if item.output is None else item.output,
            output_summary=legible(item.summary), usage=item.used or None,
            changes=changes,
        )  # fmt: skip
        self._show(f"{foreign}/result", draft)
        yield draft

    @_make.register
    def _(self, item: Touched) -> Iterator[Draft]:
        kept, changes = self._files(legible(item.id), item.at, item.files)
        yield from kept
        if changes:
            yield self._draft(
                "file", item.id, item.at, source="tool", changes=changes, inputs=self._seen()
            )

    @_make.register
    def _(self, item: Planned) -> Iterator[Draft]:
        state = self.state
        wanted: dict[str, PlanRecord] = {}
        for step in item.steps:
            name = legible(step.step)
            if name.strip() and name not in wanted:
                wanted[name] = PlanRecord(
                    step=name,
                    detail=legible(step.detail),
                    order=len(wanted) + 1,
                    status=step.status,
                )
        plan = {text_id(name): step_digest(record) for name, record in wanted.items()}
        gone = [known for key, known in state.plan.items() if key not in plan] if item.whole else []
        moved = [record for name, record in wanted.items() if self._is_moved(text_id(name), plan)]
        changes: list[Change] = [Remove("plan", name) for name, _ in gone]
        changes += [Upsert("plan", record) for record in moved]
        state.plan = plan if item.whole else state.plan | plan
        if changes:
            yield self._draft(
                "plan", item.id, item.at,
                source="model", changes=tuple(changes), inputs=self._seen(item.id),
            )  # fmt: skip

    def _is_moved(self, step: str, plan: dict[str, list[str]]) -> bool:
        known = self.state.plan.get(step)
        return known is None or known[1] != plan[step][1]

    @_make.register
    def _(self, item: Offered) -> Iterator[Draft]:
        changes: list[Change] = [
            Upsert("tools", ToolRecord(name=legible(name), definition=legible(digest)))
            for name, digest in item.tools.items()
        ]
        for name in item.changed:
            changes += [Remove("approvals", key) for key in self._approvals(legible(name))]
        yield self._draft(
            "tools", item.id, item.at,
            actor="tool", source="tool", changes=tuple(changes),
            input=UNSET if item.definitions is None else item.definitions,
        )  # fmt: skip

    @_make.register
    def _(self, item: Flagged) -> Iterator[Draft]:
        flag = FlagRecord(
            name=legible(item.name), on=legible(item.on), why=legible(item.why), by=self._principal
        )
        yield self._draft(
            "flag", item.id, item.at, actor="system", changes=(Upsert("flags", flag),)
        )

    @_make.register
    def _(self, item: TurnEnded) -> Iterator[Draft]:
        if self.state.turn_open:
            yield self._turn_end(item.status, item.at, legible(item.why))

    @_make.register
    def _(self, item: Spawned) -> Iterator[Draft]:
        known = self.state.calls.get(legible(item.call)) if item.call else None
        child = ChildRecord(
            session=derived("session", self._source, item.child),
            name=legible(item.name),
            status=legible(item.status),
        )
        yield self._draft(
            "child", item.id or item.child, item.at,
            status=child.status, parent=known.call if known else "",
            changes=(Upsert("children", child),),
        )  # fmt: skip

    @_make.register
    def _(self, item: Unknown) -> Iterator[Draft]:
        # nobody could read it, so nobody vouches for it
        yield self._draft("raw", item.id, item.at, actor="system", source="import", input=item.raw)

    # -- parts ------------------------------------------------------------------------------------

    def _draft(
        self,
        kind: str,
        foreign: str,
        at: int,
        *,
        actor: Actor = "agent",
        source: Source = "system",
        attempt: int = 0,
        **fields: Any,
    ) -> Draft:
        origin = self._source, legible(foreign)
        # what was written down without a time happened about when the thing before it did
        self.state.at = max(at, 0) or self.state.at
        verified = self._trust and source in ("user", "system")
        return Draft(
            id=self._identify(kind, origin, attempt),
            session=self._session,
            kind=kind,
            actor=actor,
            attempt=attempt,
            happened=self.state.at,
            origin=origin,
            principal=self._principal,
            provenance=Provenance(source, "verified" if verified else "unverified"),
            **fields,
        )

    def _show(self, foreign: str, draft: Draft) -> None:
        """The agent's view has this from here on."""
        state = self.state
        state.first = state.first or draft.id
        state.last = draft.id
        state.recent[legible(foreign)] = draft.id
        if len(state.recent) > RECENT_MAX:
            del state.recent[next(iter(state.recent))]

    def _asked_by(self, enclosing: UnsettledCall | None) -> tuple[str, ...]:
        """What a call derives from: the call around it, the answer that asked for it, else the prompt."""
        if enclosing is not None:
            return (enclosing.intent,) if enclosing.intent else ()
        found = self.state.answer or self.state.recent.get(self.state.prompt, "")
        return (found,) if found else ()

    def _seen(self, within: str = "") -> tuple[str | tuple[str, str], ...]:
        """What a record derives from: the call that it is part of, else the last answer and what came after it."""
        state = self.state
        made = state.recent.get(f"{legible(within)}/result") if within else None
        if made is not None:
            return (made,)
        start = state.answer or state.recent.get(state.prompt, "")
        return ((start, state.last),) if start else ()

    def _turn_end(self, status: str, at: int, why: str = "") -> Draft:
        self.state.turn_open = False
        return self._draft(
            "turn_end", f"end/{self.state.prompt}", at, actor="system", status=status, why=why
        )

    def _conclude(self, at: int) -> Iterator[Draft]:
        """End what will get no result any more: the next prompt has come."""
        for foreign, call in self.state.calls.items():
            if not call.guessed:
                call.guessed = True
                # A write may have happened; what only reads did no harm and may be asked again.
                doubtful = call.effect == "write"
                draft = self._draft(
                    "outcome", foreign, at or call.at,
                    actor="system", attempt=call.attempt, call=call.call, tool=call.tool,
                    effect=call.effect, status="in doubt" if doubtful else "cancelled", cause=UNSEEN,
                )  # fmt: skip
                self._show(f"{foreign}/result", draft)
                yield draft
        guessed = [foreign for foreign, call in self.state.calls.items() if call.guessed]
        for foreign in guessed[:-GUESSED_MAX]:
            del self.state.calls[foreign]

    def _files(
        self, foreign: str, at: int, touches: Sequence[Touch]
    ) -> tuple[list[Draft], tuple[Change, ...]]:
        """The records of touched files, and before them the commit that holds what is kept of them."""
        within = self._identify("contents", (self._source, foreign), 0)
        kept = TouchContents(within, self.state.contents)
        changes: list[Change] = []
        for touch in touches:
            root, path = self._place(touch.path)
            if not path:
                continue
            record = FileRecord(
                path=path, op=touch.op, root=root, how=touch.how,
                before=touch.before, after=touch.after,
                from_path=self._place(touch.from_path)[1] if touch.from_path else "",
            )  # fmt: skip
            changes.append(Upsert("files", kept.named(touch, record)))
            if touch.op not in ("skipped", "deleted"):
                changes.append(Upsert("working_set", WorkingRecord(name=path, kind="file")))
        if not kept.input:
            return [], tuple(changes)
        holder = self._draft(
            "file", contents_origin(foreign), at,
            actor="system", source="file", status=KEPT, input=kept.input,
        )  # fmt: skip
        return [msgspec.structs.replace(holder, id=within)], tuple(changes)

    def _place(self, path: str) -> tuple[str, str]:
        """(root, path) as `files` has them: below the session's folder, or by its own anchor."""
        path = legible(path.replace("\0", "")) if path else ""
        if not path.strip():
            return ".", ""
        return paths.split(path, self._root, self._folder)


def contents_origin(foreign: str) -> str:
    """What the commit with the contents of a call's files is called: no other commit of the call has that origin."""
    return f"{foreign}/contents"


def step_digest(record: PlanRecord) -> list[str]:
    """A step of the plan as drafting remembers it: its name, and a digest of all that an agent's own plan can say."""
    plain = msgspec.structs.replace(record, check="", files=[])
    return [record.step, text_id(repr(msgspec.to_builtins(plain)))]


def lifecycle_draft(
    item: Began | Ended, record: SessionRecord, source: str, *, ended_at: int = 0, via: Via = "hook"
) -> Draft:
    """The draft of an agent's program that starts or leaves a conversation. It says nothing of calls or turns.

    `ended_at` is when a closed session was closed: a start from before that, which is read only now, does not resume
    it.
    """
    if isinstance(item, Began):
        over = record.status == "archived" or (record.status == "closed" and item.at <= ended_at)
        kind = "run" if over or record.status == "open" else "resume"
        cause, why = "", item.how
    else:
        kind, cause, why = "pause", "process died" if item.died else "user", item.reason
    origin = source, legible(item.id)
    return Draft(
        id=commit_id(record.id, kind, origin),
        session=record.id,
        kind=kind,
        actor="system",
        cause=cause,
        happened=max(item.at, 0),
        origin=origin,
        principal=f"{via}:{source}",
        provenance=Provenance("system", "verified" if via != "import" else "unverified"),
        why=legible(why),
    )


def _settled(status: str) -> str:
    """A settlement says whether it happened."""
    return "ok" if status == "ok" else "error"
