"""Turns items (`model.exchange.items`) into drafts of commits, given the session's state. Pure.

A session that is fed from outside has no driver that knows what comes next, so what an item implies is added
here: a prompt ends the turn before it, and a call without a result by then is in doubt (or cancelled, if it
only read). What is known already is not drafted twice where that would do harm; for the rest the store
answers with the existing commit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import singledispatchmethod
from typing import Any

import msgspec
from msgspec import UNSET

from stator.model.exchange.items import (
    Answered,
    Began,
    Called,
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
)
from stator.model.log.commit import (
    Actor,
    Change,
    Draft,
    Provenance,
    Remove,
    Source,
    Upsert,
)
from stator.model.log.shown_text import cut_short
from stator.model.records.types import (
    ChildRecord,
    FileRecord,
    FlagRecord,
    PlanRecord,
    ToolRecord,
    WorkingRecord,
)
from stator.model.sessions.lifecycle import ENDED
from stator.model.values import paths
from stator.model.values.ids import derived, retype

INPUTS_MAX = 64
"""The most commits an answer records as its inputs: the newest of those shown since the last answer."""
TEXT_MAX = 2_000
"""Characters of what goes into a record's texts: a path, a step, a name."""
OVER_MAX = 10_000
"""Ended calls that are remembered: a second report of a call comes soon after the first."""
UNSEEN = "no result was recorded"
DIED = "the agent's program ended"
UNASKED = "only its result was recorded"
"""Why nothing is known of what a call was given."""


@dataclass(slots=True)
class Open:
    """A call without an outcome, or one in doubt."""

    call: str
    tool: str
    effect: str = "write"
    doubtful: bool = False
    at: int = 0
    attempt: int = 1
    drafted: bool = False
    """Whether it was reported just now: the log may have it already, and more of it."""


@dataclass(slots=True)
class DraftingState:
    """The part of a session's state that drafting needs; drafting keeps it up to date."""

    status: str = "open"
    ended_at: int = 0
    """When a session was closed or archived, if it was."""
    turn_open: bool = False
    prompt: str = ""
    """The id of the last turn's prompt."""
    turn_at: int = 0
    """When it was asked, where that is known."""
    calls: dict[str, Open] = field(default_factory=dict)
    """Open calls by the id they have on the other side."""
    plan: dict[str, PlanRecord] = field(default_factory=dict)
    since: list[str] = field(default_factory=list)
    """Commits since the last answer."""
    answer: str = ""
    """The commit of the last answer."""
    known: Callable[[str], bool] = lambda prompt: False
    """Whether a turn of that prompt is in the log already."""
    approvals: Callable[[str], list[str]] = lambda tool: []
    """The keys of what was approved for a tool."""
    told: Callable[[str, str, int], bool] = lambda kind, foreign, attempt: False
    """Whether a commit of that kind records that item, and that attempt at it, already."""
    over: dict[tuple[str, int], None] = field(default_factory=dict)
    """The newest calls, and attempts at them, of which an outcome was drafted."""
    given_up: Callable[[str], Open | None] = lambda foreign: None
    """A call in the log that was marked cancelled because it had no result."""
    dropped: dict[str, Open] = field(default_factory=dict)
    """Calls that were drafted as such."""
    begun: set[str] = field(default_factory=set)
    """Prompts of the turns that were drafted."""
    at: int = 0
    """When the last thing happened of which that is known."""
    past: bool = False
    """Whether an item is from before the last turn: it does not change the present state."""


class Drafter:
    """Makes the drafts of one conversation's items."""

    def __init__(
        self,
        session: str,
        source: str,
        standing: DraftingState,
        *,
        via: Via = "import",
        root: str = "",
        folder: str = "",
    ) -> None:
        self._session = session
        self._source = source
        self._root = root
        self._folder = folder
        self._principal = f"{via}:{source}"
        self._trust = via != "import"
        self.standing = standing

    def draft(self, item: Item) -> list[Draft]:
        """What an item adds to the log, in order."""
        if self.standing.past and isinstance(item, (Planned, TurnEnded, Began, Ended)):
            return []
        return list(self._make(item))

    def conclude(self, at: int = 0, cause: str = UNSEEN, *, upto: int = 0) -> list[Draft]:
        """The drafts that end calls which will get no result any more. `upto`: only calls that began by then;
        a report about the past does not cover later ones."""
        return [
            self._unanswered(foreign, call, at, cause)
            for foreign, call in list(self.standing.calls.items())
            if not call.doubtful and not 0 < upto < call.at
        ]

    # -- items ------------------------------------------------------------------------------------

    @singledispatchmethod
    def _make(self, item: Item) -> Iterator[Draft]:
        """Items that only count: nothing."""
        yield from ()

    @_make.register
    def _(self, item: Prompted) -> Iterator[Draft]:
        standing = self.standing
        prompt = legible(item.id)
        if prompt == standing.prompt or prompt in standing.begun or standing.known(prompt):
            standing.past = prompt != standing.prompt
            return
        standing.past = False
        if standing.turn_open:
            yield from self.conclude(item.at)
            yield self._turn_end("ok", item.at)
        draft = self._draft(
            "turn", prompt, item.at, actor="user", source="user", input=item.content
        )
        standing.turn_open, standing.prompt, standing.turn_at = True, prompt, item.at
        standing.begun.add(prompt)
        self._shown(draft)
        yield draft

    @_make.register
    def _(self, item: Answered) -> Iterator[Draft]:
        standing = self.standing
        draft = self._draft(
            "entry", item.id, item.at,
            actor="model", source="model", output=item.reply, usage=item.usage or None,
            status="partial" if item.partial else "", tool=legible(item.model),
            inputs=tuple(standing.since[-INPUTS_MAX:]),
        )  # fmt: skip
        standing.answer, standing.since = draft.id, []
        yield draft

    @_make.register
    def _(self, item: Noted) -> Iterator[Draft]:
        draft = self._draft(
            "entry", item.id, item.at, actor=item.by, source=item.by, output=item.content
        )
        self._shown(draft)
        yield draft

    @_make.register
    def _(self, item: Called) -> Iterator[Draft]:
        foreign = legible(item.id)
        if foreign in self.standing.calls or self._is_over(foreign, item.attempt):
            return
        origin = self._source, foreign
        call = retype(commit_id(self._session, "call", origin, 1), "call")
        enclosing = self.standing.calls.get(legible(item.parent)) if item.parent else None
        tool = legible(item.tool) or "?"
        self.standing.calls[foreign] = Open(
            call, tool, item.effect, at=item.at, attempt=item.attempt, drafted=True
        )
        yield self._draft(
            "call", foreign, item.at,
            actor="agent", source="model", attempt=item.attempt, call=call, tool=tool,
            effect=item.effect,
            status="started", input={} if item.input is None else item.input, key=item.key,
            parent=enclosing.call if enclosing else "",
            inputs=(self.standing.answer,) if self.standing.answer else (),
        )  # fmt: skip

    @_make.register
    def _(self, item: Returned) -> Iterator[Draft]:
        foreign = legible(item.id)
        known = self._given_up(item, foreign) or self.standing.calls.get(foreign)
        if known is None and self._is_over(foreign, item.attempt):
            return
        if known is None:  # its intent was never seen
            intent = Called(id=item.id, at=item.at, tool=item.tool or "?", attempt=item.attempt)
            for draft in self._make(intent):
                yield msgspec.structs.replace(draft, cause=UNASKED)
            known = self.standing.calls[foreign]
        late = known.doubtful
        self._end(foreign, known.attempt)
        if item.status == "in doubt":
            known.doubtful = True
        else:
            self.standing.calls.pop(foreign, None)
        if late and item.status == "in doubt":
            return
        draft = self._draft(
            "settlement" if late else "outcome", foreign, item.at,
            actor="tool", source=item.source, attempt=known.attempt, call=known.call, tool=known.tool,
            effect=known.effect, status=_settled(item.status) if late else item.status,
            cause="late result" if late else legible(item.cause),
            output=UNSET if item.output is None else item.output,
            output_summary=legible(item.summary), usage=item.used or None,
            changes=self._files(item.files),
        )  # fmt: skip
        self._shown(draft)
        yield draft

    @_make.register
    def _(self, item: Touched) -> Iterator[Draft]:
        changes = self._files(item.files)
        if changes:
            yield self._draft("file", item.id, item.at, source="tool", changes=changes)

    @_make.register
    def _(self, item: Planned) -> Iterator[Draft]:
        standing = self.standing
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
        gone = [name for name in standing.plan if name not in wanted] if item.whole else []
        moved = [record for name, record in wanted.items() if standing.plan.get(name) != record]
        changes: list[Change] = [Remove("plan", name) for name in gone]
        changes += [Upsert("plan", record) for record in moved]
        standing.plan = wanted if item.whole else standing.plan | wanted
        if changes:
            yield self._draft("plan", item.id, item.at, source="model", changes=tuple(changes))

    @_make.register
    def _(self, item: Offered) -> Iterator[Draft]:
        changes: list[Change] = [
            Upsert("tools", ToolRecord(name=legible(name), definition=legible(digest)))
            for name, digest in item.tools.items()
        ]
        for name in item.changed:
            changes += [Remove("approvals", key) for key in self.standing.approvals(legible(name))]
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
        if self.standing.turn_open and not self._is_before(item.at):
            yield self._turn_end(item.status, item.at, legible(item.why))

    @_make.register
    def _(self, item: Spawned) -> Iterator[Draft]:
        known = self.standing.calls.get(legible(item.call)) if item.call else None
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
    def _(self, item: Began) -> Iterator[Draft]:
        if any(self.standing.told(kind, item.id, 0) for kind in ("run", "resume")):
            return  # the first of them may have been either, by how things stood then
        yield from self.conclude(item.at, DIED, upto=item.at)
        standing = self.standing
        # A start from before the close, read only now, does not resume what was closed after it.
        over = standing.status == "archived" or (
            standing.status == "closed" and item.at <= standing.ended_at
        )
        kind = "run" if over or standing.status == "open" else "resume"
        standing.status = standing.status if over else "active"
        yield self._draft(kind, item.id, item.at, actor="system", why=legible(item.how))

    @_make.register
    def _(self, item: Ended) -> Iterator[Draft]:
        yield from self.conclude(item.at, DIED, upto=item.at)
        if self.standing.turn_open and not self._is_before(item.at):
            yield self._turn_end("interrupted", item.at)
        if self.standing.status not in ENDED:
            self.standing.status = "paused"
        cause = "process died" if item.died else "user"
        yield self._draft(
            "pause", item.id, item.at, actor="system", cause=cause, why=legible(item.reason)
        )

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
        self.standing.at = max(at, 0) or self.standing.at
        verified = self._trust and source in ("user", "system")
        return Draft(
            id=commit_id(self._session, kind, origin, attempt),
            session=self._session,
            kind=kind,
            actor=actor,
            attempt=attempt,
            happened=self.standing.at,
            origin=origin,
            principal=self._principal,
            provenance=Provenance(source, "verified" if verified else "unverified"),
            **fields,
        )

    def _is_before(self, at: int) -> bool:
        """Whether something happened before the last turn began, and says nothing of that."""
        return 0 < at < self.standing.turn_at

    def _shown(self, draft: Draft) -> None:
        """What the next answer derives from."""
        since = self.standing.since
        since.append(draft.id)
        if len(since) > 2 * INPUTS_MAX:
            del since[:-INPUTS_MAX]

    def _end(self, foreign: str, attempt: int) -> None:
        over = self.standing.over
        over[foreign, attempt] = None
        if len(over) > OVER_MAX:
            del over[next(iter(over))]

    def _is_over(self, foreign: str, attempt: int) -> bool:
        """Whether a call has its outcome: reported again, it must not be reopened."""
        return (foreign, attempt) in self.standing.over or self.standing.told(
            "outcome", foreign, attempt
        )

    def _turn_end(self, status: str, at: int, why: str = "") -> Draft:
        self.standing.turn_open = False
        return self._draft(
            "turn_end", f"end/{self.standing.prompt}", at, actor="system", status=status, why=why
        )

    def _unanswered(self, foreign: str, call: Open, at: int, cause: str) -> Draft:
        """A write may have happened; what only reads did no harm and may be asked again."""
        doubtful = call.effect == "write"
        self._end(foreign, call.attempt)
        if doubtful:
            call.doubtful = True
        else:
            self.standing.dropped[foreign] = self.standing.calls.pop(foreign)
        return self._draft(
            "outcome", foreign, at or call.at,
            actor="system", attempt=call.attempt, call=call.call, tool=call.tool, effect=call.effect,
            status="in doubt" if doubtful else "cancelled", cause=cause,
        )  # fmt: skip

    def _given_up(self, item: Returned, foreign: str) -> Open | None:
        """The call of a late result: the status recorded before was a guess."""
        told = self.standing.calls.get(foreign)
        # what is open in the log was not given up, and what writes would be in doubt there
        is_open = told is not None and (not told.drafted or told.effect == "write")
        if is_open or item.status in ("cancelled", "in doubt"):
            return None
        found = self.standing.dropped.pop(foreign, None) or self.standing.given_up(foreign)
        return None if found is None else replace(found, doubtful=True)

    def _files(self, touches: Sequence[Touch]) -> tuple[Change, ...]:
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
            changes.append(Upsert("files", record))
            if touch.op not in ("skipped", "deleted"):
                changes.append(Upsert("working_set", WorkingRecord(name=path, kind="file")))
        return tuple(changes)

    def _place(self, path: str) -> tuple[str, str]:
        """(root, path) as `files` has them: below the session's folder, or by its own anchor."""
        path = legible(path.replace("\0", "")) if path else ""
        if not path.strip():
            return ".", ""
        return paths.split(path, self._root, self._folder)


def _settled(status: str) -> str:
    """A settlement says whether it happened."""
    return "ok" if status == "ok" else "error"


def legible(text: object) -> str:
    """Text that a record can hold: bounded, no NUL, a lone surrogate as its escape."""
    whole = text if isinstance(text, str) else str(text)
    plain = whole.encode("utf-8", "backslashreplace").decode().replace("\0", "\\0")
    return plain if len(plain) <= TEXT_MAX else cut_short(plain, TEXT_MAX - 1) + "…"
