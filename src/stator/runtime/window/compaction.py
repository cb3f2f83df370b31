"""Works out a compaction: how to shorten what a session's agent is shown, and what leaves its view.

Levels are tried from the mildest on, each as far as `keep` lets it, until the rendering fits. One
commit records the boundaries, the summary and the keys that left the view; undoing it appends
another. A crash leaves the one view or the other: there is nothing in between. `driving.compact`
appends what is worked out here.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from msgspec import UNSET

from stator.errors import Conflict, InvalidInput, NotFound, TooLarge, WrongState
from stator.model.exchange.items import commit_id
from stator.model.log.commit import (
    Change,
    Commit,
    Draft,
    Provenance,
    Remove,
    Reset,
    Upsert,
)
from stator.model.log.delta import Drop, Put
from stator.model.records.tables import COMPACTIBLE, EVICTED, NOTED
from stator.model.records.types import Entry, ErasedRecord, EvictedRecord
from stator.model.window import compaction
from stator.model.window.compaction import (
    CHATTER,
    DURABLE,
    LEVELS,
    UNDONE,
    LeftKey,
    Level,
)
from stator.model.window.reply import Dialect
from stator.model.window.transcript import Transcript
from stator.model.window.words import CountTokens, tokens
from stator.runtime.base.arguments import texts
from stator.runtime.base.pages import commit_at
from stator.runtime.window.transcript import Rendering, latest, stands_for, told_in
from stator.store.port import StorePort

KEEP = 4
"""Answers that stay whole by default."""
SUMMARY_MAX = 200_000
"""Characters of a summary."""
Summary = str | Callable[[list[dict[str, Any]]], str]
"""A text, or a function that makes one from the messages that leave the view."""
FROM_CALLER = Provenance("model", "unverified")


class Compaction(msgspec.Struct, frozen=True, kw_only=True):
    """What a compaction did, or would do."""

    session: str
    seq: int = 0
    """Its commit; 0 if nothing was recorded."""
    outputs: int = 0
    mask: int = 0
    summarise: int = 0
    before: int = 0
    """Tokens of what was rendered before, and after."""
    after: int = 0
    fits: bool = True
    levels: list[str] = []
    """What was applied."""
    evicted: list[EvictedRecord] = []
    left: dict[str, int] = {}
    """How much left the view, by rank."""
    undone: int = 0
    """Of an undo: the compaction that was taken back."""


class CompactionOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How to compact."""

    max_tokens: int | None = None
    keep: int = KEEP
    strategy: Sequence[str] = LEVELS
    summary: Summary | None = None
    provider: Dialect = "plain"
    count_tokens: CountTokens | None = None
    scratch: bool = False

    def checked(self) -> CompactionOptions:
        for level in texts(self.strategy, "strategy"):
            if level in LEVELS:
                continue
            raise InvalidInput(
                f"unknown strategy {level!r:.80}",
                path="$.strategy",
                hint=", ".join(LEVELS),
            )
        for name, least in (("keep", 1), ("max_tokens", 0)):
            value = getattr(self, name)
            if value is None and name == "max_tokens":
                continue
            if type(value) is not int or value < least:
                raise InvalidInput(
                    f"expected a whole number of at least {least}, got {value!r:.40}",
                    path=f"$.{name}",
                )
        return self

    def size(self, messages: list[dict[str, Any]]) -> int:
        count = self.count_tokens or tokens
        return count(msgspec.json.encode(messages).decode())


# -- working it out -------------------------------------------------------------------------------


class Proposal(msgspec.Struct, frozen=True, kw_only=True):
    """A compaction that is worked out and not recorded."""

    found: Compaction
    said: dict[str, Any] = {}
    base: int = 0
    """The compaction that was in force when it was computed."""
    dropped: list[tuple[str, str]] = []
    """Notes that it drops: their collections and keys."""

    def fields(self, store: StorePort) -> dict[str, Any]:
        """The fields of its commit."""
        found = self.found
        if _seq(latest(store, found.session)) != self.base:
            raise Conflict(
                f"session {found.session} was compacted by another process",
                hint="compact again if it still does not fit",
                session=found.session,
            )
        cuts = (found.outputs, found.mask, found.summarise)
        dropped = [Remove(collection, key) for collection, key in self.dropped]
        changes = (*_replaced(store, found.session, found.evicted), *dropped)
        return {
            "input": _said(cuts, self.said),
            "inputs": cuts,
            "changes": changes,
            "provenance": FROM_CALLER if self.said.get("summary") else Provenance(),
        }


def propose(
    store: StorePort, session: str, transcript: Transcript, options: CompactionOptions
) -> Proposal:
    """Work out how to make a session's rendering fit, without recording anything."""
    work = _Work(store, session, transcript, options.checked())
    for level in LEVELS:
        if level in options.strategy and not work.fits:
            work.apply(level)
    return work.proposal()


class _Work:
    """A compaction being worked out, level by level."""

    def __init__(
        self, store: StorePort, session: str, transcript: Transcript, options: CompactionOptions
    ) -> None:
        self._session = session
        self._transcript = transcript
        self._options = options
        self._things = transcript.things()
        self._reach = compaction.reach(self._things, options.keep)
        self._cuts = transcript.view.cuts
        self._levels: list[str] = []
        self._items: list[LeftKey] = []
        self._records: list[EvictedRecord] = []
        self._told = told_in(store, session)
        self._durable, kept = _durable(store, session)
        self._scratch = _compactible(store, session) if options.scratch else []
        last = latest(store, session)
        self._base = _seq(last)
        self._said: dict[str, Any] = {
            "kept": kept,
            "provider": options.provider,
            "summary": "" if last is None else _summary_of(last),
        }
        self._before = self._after = options.size(transcript.render(options.provider))

    @property
    def fits(self) -> bool:
        """Whether no work is left."""
        limit = self._options.max_tokens
        return limit is not None and self._after <= limit

    def apply(self, level: Level) -> None:
        if self._reach is None or (level == "summarise" and self._options.summary is None):
            return
        view = self._transcript.view
        raised = compaction.raised(view, level, self._reach)
        cuts = (
            max(self._cuts[0], raised[0]),
            max(self._cuts[1], raised[1]),
            max(self._cuts[2], raised[2]),
        )
        items = compaction.left(self._things, view.cuts, cuts, self._durable)
        if not items or (level != "summarise" and len(items) == len(self._items)):
            return
        if level == "summarise":
            self._said["summary"] = self._summary(cuts[2])
        self._cuts, self._items = cuts, items
        self._levels.append(level)
        self._settle()

    def _summary(self, upto: int) -> str:
        leaving = self._transcript.render(self._options.provider, upto=upto)
        return summarised(self._options.summary, leaving)

    def _settle(self) -> None:
        """What leaves with these boundaries, and the size of the rendering then."""
        items = self._items + self._notes()
        self._records = compaction.grouped(items)
        self._said["left"] = compaction.counted(items)
        self._said["turns"] = _turns(items)
        shown = compaction.view(self._cuts, self._said, self._records, told=self._told)
        self._after = self._options.size(
            self._transcript.render(self._options.provider, view=shown)
        )

    def _notes(self) -> list[LeftKey]:
        return [
            LeftKey(compaction.key_for(entry), EVICTED[entry.collection], entry.seq, entry.turn)
            for entry in self._gone()
            if not isinstance(entry.record, ErasedRecord)
        ]

    def _gone(self) -> list[Entry]:
        return [entry for entry in self._scratch if entry.seq <= max(self._cuts)]

    def proposal(self) -> Proposal:
        limit = self._options.max_tokens
        outputs, mask, summarise = self._cuts
        found = Compaction(
            session=self._session,
            outputs=outputs,
            mask=mask,
            summarise=summarise,
            before=self._before,
            after=self._after,
            fits=limit is None or self._after <= limit,
            levels=self._levels,
            evicted=self._records,
            left=self._said.get("left", {}),
        )
        return Proposal(
            found=found,
            said=self._said | {"tokens": [self._before, self._after]},
            base=self._base,
            dropped=[(entry.collection, entry.key) for entry in self._gone()]
            if self._levels
            else [],
        )


def summarised(summary: Summary | None, messages: list[dict[str, Any]]) -> str:
    """The caller's summary of some messages, checked."""
    text: Any = summary(messages) if callable(summary) else summary
    if inspect.iscoroutine(text):
        text.close()
    if not isinstance(text, str) or not text.strip():
        got = "nothing but space" if isinstance(text, str) else type(text).__name__
        raise InvalidInput(
            f"a summary must be text, got {got}",
            path="$.summary",
            hint="a function of messages that returns text, not a coroutine; or the text itself",
        )
    if len(text) > SUMMARY_MAX:
        raise TooLarge(
            f"a summary has at most {SUMMARY_MAX:,} characters, got {len(text):,}",
            path="$.summary",
        )
    return text


def _durable(store: StorePort, session: str) -> tuple[list[Entry], dict[str, int]]:
    """The records whose eviction is named, and how many there are of all that is kept."""
    found = {name: store.entries(session, name) for name in {*NOTED, *DURABLE}}
    counts = {name: len(found[name]) for name in NOTED if found[name]}
    return [entry for name in DURABLE for entry in found[name]], counts


def _compactible(store: StorePort, session: str) -> list[Entry]:
    """The records that a compaction may drop."""
    return [entry for name in sorted(COMPACTIBLE) for entry in store.entries(session, name)]


def _turns(items: Sequence[LeftKey]) -> list[int]:
    """The first and the last turn of which something left."""
    turns = [item.turn for item in items]
    return [min(turns), max(turns)] if turns else []


def _named_by(seq: int) -> EvictedRecord:
    """A key for a compaction that has none to name: by its keys it is found again."""
    return EvictedRecord(key=f"entry:@{seq}", rank=CHATTER, seq=seq)


def _summary_of(commit: Commit) -> str:
    said = commit.known("input", {})
    return str(said.get("summary") or "") if isinstance(said, dict) else ""


def _said(cuts: Sequence[int], more: dict[str, Any]) -> dict[str, Any]:
    return dict(zip(LEVELS, cuts, strict=True)) | more


def _seq(commit: Commit | None) -> int:
    return 0 if commit is None else commit.seq


def _replaced(store: StorePort, session: str, records: Sequence[EvictedRecord]) -> list[Change]:
    """The changes by which these keys, and no others, are those that left the view."""
    keys = {record.key for record in records}
    gone = [entry.key for entry in store.entries(session, "evicted") if entry.key not in keys]
    return [
        *(Remove("evicted", key) for key in gone),
        *(Upsert("evicted", record) for record in records),
    ]


# -- undoing it ----------------------------------------------------------------------------------


def undoing(store: StorePort, session: str) -> tuple[Compaction, dict[str, Any]]:
    """What undoing the current compaction leads to, and the fields of the commit that does it."""
    last = latest(store, session)
    if last is None:
        raise NotFound(
            f"session {session} has no compaction to undo",
            hint="the agent's view is complete",
            session=session,
        )
    undone = stands_for(last)
    prior = latest(store, session, at=undone - 1)
    cuts = (0, 0, 0) if prior is None else compaction.view_of(prior).cuts
    before = [] if prior is None else store.entries(session, "evicted", at=undone - 1)
    there = {entry.key for entry in before}
    records = [] if prior is None else [r for r in _evicted_by(prior) if r.key in there]
    if prior is not None and not records:
        records = [_named_by(max(cuts))]
    said = {} if prior is None else prior.known("input", {})
    found = Compaction(
        session=session,
        outputs=cuts[0],
        mask=cuts[1],
        summarise=cuts[2],
        evicted=records,
        undone=undone,
    )
    return found, {
        "status": UNDONE,
        "input": UNSET if prior is not None and not said else _said(cuts, said),
        "inputs": (undone, 0 if prior is None else stands_for(prior), *cuts),
        "changes": (*_replaced(store, session, records), *_notes_again(store, session, undone)),
    }


def _evicted_by(commit: Commit) -> list[EvictedRecord]:
    """The keys that a compaction evicted, in the order of their use."""
    puts = [op.record for op in commit.delta if isinstance(op, Put)]
    return [record for record in puts if isinstance(record, EvictedRecord)]


def _notes_again(store: StorePort, session: str, seq: int) -> list[Change]:
    """The scratch notes a compaction dropped, unless others took their place since."""
    drops = [
        op
        for op in commit_at(store, session, seq).delta
        if isinstance(op, Drop) and op.collection in COMPACTIBLE
    ]
    known = {(one.collection, one.key) for one in _compactible(store, session)} if drops else set()
    return [
        Reset(version.op.collection, version.op.id, version.key, version.op.record)
        for version in (store.replaced(session, drops) if drops else ())
        if version is not None
        and isinstance(version.op, Put)
        and not isinstance(version.op.record, ErasedRecord)
        and (version.op.collection, version.key) not in known
    ]


def refuse_recorded(store: StorePort, session: str) -> None:
    """What a session shows to its agent can be shortened only where Stator renders it."""
    record = store.session(session).record
    if record.mode != "driven":
        raise WrongState(
            f"session {record.name!r:.80} is {record.mode}: Stator does not render what its agent sees",
            hint="its agent compacts its own view; what that left out is recorded when it is imported",
            session=session,
        )


# -- what others did ------------------------------------------------------------------------------


def foreign(
    store: StorePort,
    session: str,
    *,
    upto: int,
    summary: str,
    origin: tuple[str, str],
    tokens: tuple[int, int] = (0, 0),
    happened: int = 0,
) -> Compaction:
    """Record the compaction that a foreign agent made of its own view: the same record, the same keys.

    Everything up to a seq left its view, replaced by the summary. Recording it again (the same origin) gives
    the existing commit.
    """
    transcript = Rendering(store, session).current()
    base = transcript.view
    upto = max(min(upto, store.head(session).seq), base.summarise)
    cuts = (max(upto, base.outputs), max(upto, base.mask), upto)
    durable, kept = _durable(store, session)
    items = compaction.left(transcript.things(), base.cuts, cuts, durable)
    # Its agent renders its own note, so that the keys are in the order in which they are listed.
    records = compaction.grouped(sorted(items, key=compaction.order)) or [_named_by(upto)]
    left = compaction.counted(items)
    said = {"kept": kept, "summary": summary, "tokens": list(tokens)}
    draft = Draft(
        id=commit_id(session, "compaction", origin),
        session=session,
        kind="compaction",
        actor="agent",
        happened=happened,
        origin=origin,
        input=_said(cuts, said | {"left": left}),
        inputs=cuts,
        changes=tuple(_replaced(store, session, records)),
        provenance=Provenance("import", "unverified"),
    )
    (commit,) = store.append(session, [draft])  # or the one that is there
    outputs, mask, summarise = compaction.view_of(commit).cuts
    known = commit.known("input", {})
    return Compaction(
        session=session,
        seq=commit.seq,
        outputs=outputs,
        mask=mask,
        summarise=summarise,
        before=tokens[0],
        after=tokens[1],
        evicted=_evicted_by(commit),
        left=known.get("left", {}) if isinstance(known, dict) else {},
    )
