"""Says what each kind of record is: one row per kind of commit, one per collection of the state.

Everything that the rest of the package must know of a kind is in its row: whether it needs the lease,
what a rerun does about it, what a rewind, a compaction and a brief make of it, how it reads, what
an agent may report of it. The tables below the rows are derived from them, and so is every other
table about kinds. Plain data: importing this costs nothing.

A `place` orders rows in one list. Places are ten apart, so that a new row fits between two others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, get_args

import msgspec

from stator.model.records import search_text, text
from stator.model.records.text import Piece, Show
from stator.model.records.types import (
    KEYLESS,
    AppRecord,
    ApprovalRecord,
    ArtifactRecord,
    CallRecord,
    ChildRecord,
    DeadEndRecord,
    DecisionRecord,
    ErasedRecord,
    EvictedRecord,
    FactRecord,
    FileOp,
    FileRecord,
    FlagRecord,
    PendingRecord,
    PlanRecord,
    PreferenceRecord,
    Record,
    RunRecord,
    ScoreRecord,
    ScratchRecord,
    SessionRecord,
    SpendRecord,
    State,
    StepStatus,
    TagRecord,
    ToolRecord,
    WorkingRecord,
    file_key,
)
from stator.model.values import canon


class Hot(msgspec.Struct, frozen=True):
    """A collection that a resuming agent needs first."""

    place: int
    newest: int | None = None
    """Only so many, the newest; None: all."""


class Briefed(msgspec.Struct, frozen=True, kw_only=True):
    """A collection that has a section in the brief."""

    title: str
    place: int
    """Where the section stands in the text."""
    room: int
    """When the section is given room, before others or after them."""
    weight: int
    """Its part of the room, against the others that have something to say."""
    more: str = ""
    """The command that shows the rest; empty: `stator state -c COLLECTION`."""
    note: Callable[[Any], str] = lambda record: ""
    """Our words after a record."""


class RecallKey(msgspec.Struct, frozen=True):
    """A collection whose records are recalled by a key, `PREFIX:NAME`."""

    prefix: str
    rank: int | None = None
    """How much an agent misses it when it leaves the view, 0 the most; None: it never leaves."""
    name: Callable[[Any, str], str] = lambda record, identifier: str(record.name)
    """The part of the key after the prefix, of a record and its id; empty: it has no key."""
    about: Callable[[Any], Any] = lambda record: canon.from_plain(record.value)
    """What the key does not say of it."""


class NotedAs(msgspec.Struct, frozen=True):
    """A collection that the note about a compaction counts: it is as it was."""

    place: int
    words: str
    """How the note names it among what is kept; empty: it is only counted."""


class Collection(msgspec.Struct, frozen=True, kw_only=True):
    """One map of the state, from record id to record. Number, name, key and type are on disk."""

    number: int
    name: str
    type: type[Record]
    key: tuple[str, ...]
    """The fields that make the natural key, by which a record is found again."""

    text: Callable[[Any], str] | None = None
    """A record in one text, for the brief; None: the name of its type."""
    line: Callable[[Any, Show], list[Piece]] | None = None
    """A record in one line on a screen; None: its text."""
    search: Callable[[Any], Iterable[str]] = lambda record: ()
    """What a search finds it by."""

    bookkeeping: bool = False
    """Small, and kept up to date by commits that are about something else."""
    tallied: bool = False
    """Counted up by commits of other kinds, which do not mention it."""
    structural: bool = False
    """Erasing a whole session leaves it: the session could not be found or ended without it."""
    rewound: bool = True
    """A rewind takes it back. What is not: it happened, was spent, or is what a person said of it."""
    compactible: bool = False
    """A compaction drops records that are older than its boundaries; every other collection stays."""
    diffed: bool = True
    """A diff lists its changes to people."""
    dropped_by_fork: int = 0
    """Its place among what a fork starts without; 0: a fork inherits it."""
    listed: int = 0
    """Its place in the state that an agent is shown over MCP; 0: it is not shown."""
    hot: Hot | None = None
    brief: Briefed | None = None
    recall: RecallKey | None = None
    noted: NotedAs | None = None


class Field(msgspec.Struct, frozen=True):
    """An argument of an item that an agent reports."""

    name: str
    schema: dict[str, Any] = msgspec.field(default_factory=lambda: {"type": "string"})
    """Its JSON Schema."""
    blank: bool = False
    """Whether it may be empty."""


class Reported(msgspec.Struct, frozen=True, kw_only=True):
    """What an agent may report over MCP, besides `why`: the arguments of a method of the recorder."""

    method: str
    must: tuple[Field, ...]
    may: tuple[Field, ...] = ()
    hint: str = ""
    """What the description of the tool says of it; empty: the names of what it must have."""


class CommitKind(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of commit. Its name is on disk; none is ever renamed."""

    name: str
    contributed: bool = False
    """It needs no lease in a driven session: it carries its own principal."""
    after_the_end: bool = False
    """A closed or archived session still accepts it."""
    once: bool = False
    """An agent's own program appends it in a turn: a program that is run again after a crash gets the
    commit that is there, and appends none."""
    compared: bool = False
    """A replay compares what the program records with it."""
    spoken: bool = False
    """What was asked, said, called or answered: it leaves a view by `entry:` and `call:`."""
    expires: bool = False
    """Part of the transcript: retention takes its words when they are old."""
    shown: bool = False
    """The model is shown its content: its next answer derives from it."""
    learned: bool = False
    """What it says of a call that still counts stays known after a rewind."""
    news: bool = False
    """A brief since a position mentions it, besides what was contributed."""
    barrier: bool = False
    """`barrier` durability syncs for it."""
    removes: bool = False
    """Its transaction takes content away."""
    keeping: bool = False
    """Retention appends it: it is not something that happened in the session."""
    silent: bool = False
    """It only repeats, or keeps, what other commits said: no search finds it."""
    quiet: bool = False
    """Bookkeeping to a reader of the log."""
    tier: str = ""
    """What is said of the space its content takes; empty: it is part of the transcript or the log."""
    collection: Collection | None = None
    """What it puts records into, if it has a collection of its own."""
    reported: Reported | None = None


_TEXTS: dict[str, Any] = {"type": "array", "items": {"type": "string"}}
_SHARE: dict[str, Any] = {"type": "number", "minimum": 0, "maximum": 1}
_NAMED_VALUE = (Field("name"), Field("value", {}, blank=True))


def _one_of(words: Any) -> dict[str, Any]:
    return {"type": "string", "enum": list(get_args(words))}


def _reason(record: Any) -> str:
    return " — ".join(part for part in (record.what, record.why) if part)


def _path(record: FileRecord, identifier: str) -> str:
    return record.path if record.root == "." else f"{record.root}/{record.path}"


def _sure(record: DecisionRecord) -> str:
    return "" if record.confidence is None else f"{record.confidence / 10:g}% sure"


ROWS: tuple[CommitKind, ...] = (
    # -- lifecycle ------------------------------------------------------------------------------
    CommitKind(
        name="open",
        barrier=True,
        quiet=True,
        collection=Collection(
            number=1,
            name="session",
            type=SessionRecord,
            key=(),
            line=text.session_line,
            search=search_text.session,
            bookkeeping=True,
            structural=True,
            rewound=False,
            diffed=False,
            hot=Hot(10),
        ),
    ),
    CommitKind(name="fork", barrier=True, silent=True),
    CommitKind(
        name="run",
        barrier=True,
        news=True,
        silent=True,
        quiet=True,
        collection=Collection(
            number=3,
            name="runs",
            type=RunRecord,
            key=("id",),
            line=text.run_line,
            bookkeeping=True,
            structural=True,
            rewound=False,
            diffed=False,
            dropped_by_fork=30,
        ),
    ),
    CommitKind(name="run_end", barrier=True, silent=True, quiet=True),
    CommitKind(name="resume", after_the_end=True, barrier=True, news=True, quiet=True),
    CommitKind(name="pause", barrier=True, quiet=True),
    CommitKind(name="pause_request", contributed=True),
    CommitKind(name="close", barrier=True, keeping=True, quiet=True),
    CommitKind(name="archive", barrier=True, keeping=True),
    CommitKind(name="adopt", silent=True),
    CommitKind(name="purge", barrier=True, removes=True, silent=True),
    # -- turns ----------------------------------------------------------------------------------
    CommitKind(name="turn", spoken=True, expires=True, shown=True, news=True),
    CommitKind(name="turn_end", barrier=True, quiet=True),
    CommitKind(name="entry", once=True, compared=True, spoken=True, expires=True, shown=True),
    CommitKind(
        name="call",
        spoken=True,
        expires=True,
        collection=Collection(
            number=9,
            name="calls",
            type=CallRecord,
            key=("call",),
            line=text.call_line,
            bookkeeping=True,
            structural=True,
            rewound=False,
            diffed=False,
            hot=Hot(40),
            noted=NotedAs(80, "open calls"),
        ),
    ),
    CommitKind(name="outcome", spoken=True, expires=True, shown=True, learned=True),
    CommitKind(
        name="settlement",
        contributed=True,
        after_the_end=True,
        spoken=True,
        expires=True,
        shown=True,
        learned=True,
        barrier=True,
    ),
    # -- state ----------------------------------------------------------------------------------
    CommitKind(
        name="decision",
        contributed=True,
        once=True,
        compared=True,
        collection=Collection(
            number=7,
            name="decisions",
            type=DecisionRecord,
            key=("topic",),
            text=text.decision_text,
            line=text.decision_line,
            search=search_text.decision,
            listed=20,
            hot=Hot(60, newest=200),
            brief=Briefed(
                title="Decisions that stand",
                place=20,
                room=40,
                weight=6,
                more="stator decisions",
                note=_sure,
            ),
            recall=RecallKey("decision", 0, name=lambda r, i: r.topic or i, about=_reason),
            noted=NotedAs(10, "decisions"),
        ),
        reported=Reported(
            method="decide",
            must=(Field("what"),),
            may=(Field("topic"), Field("over", _TEXTS), Field("confidence", _SHARE)),
            hint="what, topic, over: rejected options; a new one on a topic supersedes the old",
        ),
    ),
    CommitKind(
        name="fact",
        contributed=True,
        once=True,
        compared=True,
        collection=Collection(
            number=11,
            name="facts",
            type=FactRecord,
            key=("name",),
            text=text.named_value_text,
            line=text.named_value_line,
            search=search_text.named_value,
            listed=30,
            brief=Briefed(title="Facts", place=40, room=70, weight=4),
            recall=RecallKey("fact", 2),
            noted=NotedAs(20, "facts"),
        ),
        reported=Reported(method="fact", must=_NAMED_VALUE),
    ),
    CommitKind(
        name="preference",
        contributed=True,
        once=True,
        compared=True,
        collection=Collection(
            number=12,
            name="preferences",
            type=PreferenceRecord,
            key=("name",),
            text=text.named_value_text,
            line=text.named_value_line,
            search=search_text.named_value,
            listed=40,
            hot=Hot(50),
            brief=Briefed(title="Preferences and constraints", place=30, room=50, weight=3),
            recall=RecallKey("preference", 1),
            noted=NotedAs(30, "preferences"),
        ),
        reported=Reported(method="prefer", must=_NAMED_VALUE),
    ),
    CommitKind(
        name="file",
        contributed=True,
        once=True,
        compared=True,
        tier="contents of files",
        collection=Collection(
            number=6,
            name="files",
            type=FileRecord,
            key=("root", "path"),
            text=text.file_text,
            line=text.file_line,
            search=lambda r: (r.path, r.from_path, r.reason),
            listed=80,
            hot=Hot(70, newest=200),
            brief=Briefed(title="Files", place=70, room=120, weight=4, more="stator files --reads"),
            recall=RecallKey("file", 3, name=_path, about=lambda r: r.op),
        ),
        reported=Reported(method="file", must=(Field("path"), Field("op", _one_of(FileOp)))),
    ),
    CommitKind(
        name="plan",
        contributed=True,
        once=True,
        compared=True,
        collection=Collection(
            number=10,
            name="plan",
            type=PlanRecord,
            key=("step",),
            text=text.plan_text,
            line=text.plan_line,
            search=lambda r: (r.step, r.detail, r.evidence),
            listed=10,
            hot=Hot(20),
            brief=Briefed(title="Plan: what is done stays done", place=50, room=60, weight=4),
            noted=NotedAs(50, "plan"),
        ),
        reported=Reported(
            method="plan",
            must=(Field("step"),),
            may=(Field("status", _one_of(StepStatus)),),
            hint="step, status; the same step again updates it",
        ),
    ),
    CommitKind(
        name="artifact",
        contributed=True,
        once=True,
        compared=True,
        tier="artifacts",
        collection=Collection(
            number=14,
            name="artifacts",
            type=ArtifactRecord,
            key=("name",),
            text=text.artifact_text,
            line=text.artifact_line,
            search=lambda r: (r.name,),
            listed=70,
            brief=Briefed(
                title="Artifacts: read them first, stator artifact NAME",
                place=60,
                room=110,
                weight=2,
                more="stator artifact",
                note=lambda r: f"v{r.version}, {r.size:,} bytes",
            ),
            recall=RecallKey("artifact", about=lambda r: ""),
            noted=NotedAs(60, "artifacts"),
        ),
        reported=Reported(
            method="artifact",
            must=(Field("name"), Field("content", blank=True)),
            hint="name, content: a new version",
        ),
    ),
    CommitKind(
        name="dead_end",
        contributed=True,
        once=True,
        compared=True,
        collection=Collection(
            number=13,
            name="dead_ends",
            type=DeadEndRecord,
            key=("what",),
            text=text.reasoned_text,
            line=text.reasoned_line,
            search=lambda r: (r.what, r.why),
            listed=50,
            brief=Briefed(title="Dead ends: do not try these again", place=80, room=100, weight=3),
            recall=RecallKey("dead_end", 1, name=lambda r, i: r.what, about=_reason),
            noted=NotedAs(40, "dead ends"),
        ),
        reported=Reported(method="dead_end", must=(Field("what"),)),
    ),
    CommitKind(
        name="pending",
        once=True,
        compared=True,
        collection=Collection(
            number=8,
            name="pending",
            type=PendingRecord,
            key=("what",),
            text=text.pending_text,
            line=text.pending_line,
            search=lambda r: (r.what, r.on, r.why),
            listed=60,
            hot=Hot(30),
            brief=Briefed(title="Pending: intended and not begun", place=110, room=90, weight=2),
            noted=NotedAs(70, ""),
        ),
    ),
    CommitKind(
        name="use",
        once=True,
        compared=True,
        quiet=True,
        collection=Collection(
            number=15,
            name="working_set",
            type=WorkingRecord,
            key=("kind", "name"),
            line=text.working_line,
            search=lambda r: (r.name, r.detail),
            diffed=False,
        ),
    ),
    CommitKind(
        name="scratch",
        once=True,
        compared=True,
        quiet=True,
        collection=Collection(
            number=21,
            name="scratch",
            type=ScratchRecord,
            key=("name",),
            line=text.named_value_line,
            search=search_text.named_value,
            compactible=True,
            recall=RecallKey("scratch", 4),
        ),
    ),
    CommitKind(
        name="app",
        once=True,
        compared=True,
        collection=Collection(
            number=22,
            name="app",
            type=AppRecord,
            key=("name",),
            line=text.named_value_line,
            search=search_text.named_value,
        ),
    ),
    CommitKind(
        name="tools",
        once=True,
        silent=True,
        collection=Collection(
            number=5,
            name="tools",
            type=ToolRecord,
            key=("name",),
            line=lambda r, show: [(f"{r.name}: used {r.uses} times, {r.failures} failed", "")],
            bookkeeping=True,
            tallied=True,
            diffed=False,
        ),
    ),
    # -- about a session ------------------------------------------------------------------------
    CommitKind(
        name="tag",
        contributed=True,
        after_the_end=True,
        once=True,
        compared=True,
        barrier=True,
        collection=Collection(
            number=2,
            name="tags",
            type=TagRecord,
            key=("name",),
            text=lambda r: f"{r.name} at @{r.seq}",
            line=lambda r, show: [(r.name, "bold"), (f" → @{r.seq}", "")],
            search=lambda r: (r.name,),
            rewound=False,
            listed=90,
        ),
    ),
    CommitKind(
        name="score",
        contributed=True,
        after_the_end=True,
        once=True,
        compared=True,
        collection=Collection(
            number=18,
            name="scores",
            type=ScoreRecord,
            key=("name", "on", "by"),
            text=text.score_text,
            line=text.score_line,
            search=lambda r: (r.name, r.comment),
            rewound=False,
        ),
    ),
    CommitKind(
        name="flag",
        contributed=True,
        after_the_end=True,
        once=True,
        compared=True,
        collection=Collection(
            number=20,
            name="flags",
            type=FlagRecord,
            key=("name", "on"),
            text=text.flag_text,
            line=text.flag_line,
            search=search_text.flag,
            rewound=False,
            listed=100,
        ),
    ),
    CommitKind(name="budget", contributed=True, barrier=True),
    CommitKind(name="retention", barrier=True),
    CommitKind(
        name="approval",
        contributed=True,
        learned=True,
        barrier=True,
        collection=Collection(
            number=16,
            name="approvals",
            type=ApprovalRecord,
            key=("tool", "arguments", "pattern", "scope", "call"),
            text=text.approval_text,
            line=text.approval_line,
            rewound=False,
            dropped_by_fork=10,
        ),
    ),
    CommitKind(
        name="child",
        once=True,
        collection=Collection(
            number=4,
            name="children",
            type=ChildRecord,
            key=("session",),
            line=text.child_line,
            rewound=False,
        ),
    ),
    # -- keeping --------------------------------------------------------------------------------
    CommitKind(
        name="compaction",
        expires=True,
        news=True,
        collection=Collection(
            number=19,
            name="evicted",
            type=EvictedRecord,
            key=("key",),
            text=lambda r: r.key,
            line=lambda r, show: [(f"{r.key} (@{r.seq})", "")],
            diffed=False,
            brief=Briefed(
                title="Evicted from view by the last compaction: stator recall KEY",
                place=130,
                room=140,
                weight=2,
                more="stator evicted",
            ),
        ),
    ),
    CommitKind(name="rewind", news=True, silent=True),
    CommitKind(
        name="erasure",
        contributed=True,
        after_the_end=True,
        learned=True,
        barrier=True,
        removes=True,
        keeping=True,
        silent=True,
    ),
    CommitKind(name="raw", expires=True),
)
"""Every kind of commit there is. New releases add kinds; none is ever renamed."""

SPEND = Collection(
    number=17,
    name="spend",
    type=SpendRecord,
    key=("unit",),
    line=lambda r, show: [(f"{r.amount:,} {r.unit}", "")],
    bookkeeping=True,
    tallied=True,
    structural=True,
    rewound=False,
    diffed=False,
    dropped_by_fork=20,
)
"""The one collection without a kind of its own: every commit that used something adds to it."""


# -- kinds of commits -----------------------------------------------------------------------------


def _kinds(has: Callable[[CommitKind], bool]) -> frozenset[str]:
    return frozenset(row.name for row in ROWS if has(row))


KINDS = _kinds(lambda row: True)
CONTRIBUTIONS = _kinds(lambda row: row.contributed)
AFTER_THE_END = _kinds(lambda row: row.after_the_end)
ONCE = _kinds(lambda row: row.once)
COMPARED = _kinds(lambda row: row.compared)
SPOKEN = _kinds(lambda row: row.spoken)
TRANSCRIPT = _kinds(lambda row: row.expires)
SHOWN = _kinds(lambda row: row.shown)
LEARNED = _kinds(lambda row: row.learned)
NEWS = _kinds(lambda row: row.news)
BARRIERS = _kinds(lambda row: row.barrier)
REMOVALS = _kinds(lambda row: row.removes)
KEEPING = _kinds(lambda row: row.keeping)
SILENT = _kinds(lambda row: row.silent)
QUIET = _kinds(lambda row: row.quiet)
TIERS: dict[str, str] = {row.name: row.tier for row in ROWS if row.tier}
REPORTED: dict[str, Reported] = {row.name: row.reported for row in ROWS if row.reported is not None}


# -- collections ----------------------------------------------------------------------------------

COLLECTIONS: dict[str, Collection] = {
    one.name: one
    for one in sorted(
        (SPEND, *(row.collection for row in ROWS if row.collection is not None)),
        key=lambda one: one.number,
    )
}
NUMBERED: dict[int, Collection] = {one.number: one for one in COLLECTIONS.values()}
_TYPES: dict[type[Record], Collection] = {one.type: one for one in COLLECTIONS.values()}


def _collections(has: Callable[[Collection], bool]) -> frozenset[str]:
    return frozenset(name for name, one in COLLECTIONS.items() if has(one))


def _placed(place: Callable[[Collection], int]) -> tuple[str, ...]:
    """The collections that have a place, in its order."""
    placed = [(place(one), name) for name, one in COLLECTIONS.items() if place(one)]
    return tuple(name for _, name in sorted(placed))


BOOKKEEPING = _collections(lambda one: one.bookkeeping)
TALLIED = _collections(lambda one: one.tallied)
STRUCTURE = _collections(lambda one: one.structural)
KEPT_IN_REWIND = _collections(lambda one: not one.rewound)
COMPACTIBLE = _collections(lambda one: one.compactible)
NOT_DIFFED = _collections(lambda one: not one.diffed)
DROPPED_BY_FORK = _placed(lambda one: one.dropped_by_fork)
LISTED = _placed(lambda one: one.listed)
HOT: dict[str, Hot] = {
    name: hot
    for name in _placed(lambda one: one.hot.place if one.hot else 0)
    if (hot := COLLECTIONS[name].hot)
}
NOTED: dict[str, NotedAs] = {
    name: noted
    for name in _placed(lambda one: one.noted.place if one.noted else 0)
    if (noted := COLLECTIONS[name].noted)
}
BRIEFED: dict[str, Briefed] = {name: one.brief for name, one in COLLECTIONS.items() if one.brief}
RECALLED: dict[str, str] = {
    one.recall.prefix: name for name, one in COLLECTIONS.items() if one.recall
}
"""The prefix of a key → the collection that its record is in."""
EVICTED: dict[str, int] = {
    name: rank
    for rank, _, name in sorted(
        (one.recall.rank, one.number, name)
        for name, one in COLLECTIONS.items()
        if one.recall and one.recall.rank is not None
    )
}
"""Collections whose records leave the view when what was said around them does, with their rank: what
an agent misses most comes first."""


# -- what a record says ---------------------------------------------------------------------------


def key_of(collection: Collection, record: Record, record_id: str) -> str:
    """The natural key by which a record is found again; without one, or erased, it is known by its id."""
    if isinstance(record, DecisionRecord):
        return record.topic or KEYLESS + record_id
    if isinstance(record, FileRecord):
        return file_key(record.root, record.path)
    if isinstance(record, ErasedRecord):
        return KEYLESS + record_id
    return "\n".join([str(getattr(record, name)) for name in collection.key])


def recall_key(collection: str, record: Record, record_id: str) -> str:
    """The key a record is evicted and recalled by; "" if it has none (it was erased)."""
    recall = COLLECTIONS[collection].recall
    if recall is None or isinstance(record, ErasedRecord):
        return ""
    name = recall.name(record, record_id)
    return f"{recall.prefix}:{name}" if name else ""


def recall_note(collection: str, record: Record) -> Any:
    """What the key of a record does not say of it."""
    recall = COLLECTIONS[collection].recall
    return "" if recall is None else recall.about(record)


def record_text(record: Record) -> str:
    """What a record says, or that it was erased."""
    if isinstance(record, ErasedRecord):
        return f"(erased by @{record.erased})"
    known = _TYPES.get(type(record))
    if known is None or known.text is None:
        return type(record).__name__.removesuffix("Record")
    return known.text(record)


def record_pieces(record: Record, show: Show) -> list[Piece] | None:
    """A record in one line on a screen; None of what is not a record of a collection."""
    known = _TYPES.get(type(record))
    if known is None:
        return None
    return [(record_text(record), "")] if known.line is None else known.line(record, show)


def record_words(record: Record) -> Iterable[str]:
    """The texts a search finds a record by."""
    known = _TYPES.get(type(record))
    return () if known is None else known.search(record)


def empty() -> State:
    return {name: {} for name in COLLECTIONS}
