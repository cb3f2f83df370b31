"""The columns of the registry: what a row says about a kind of commit and about a collection."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from stator.model.records.text import Piece, Show
from stator.model.records.types import (
    Record,
)
from stator.model.values import canon


class Hot(msgspec.Struct, frozen=True):
    """A collection that a resuming agent needs first."""

    place: int
    newest: int | None = None
    """Only this many, the newest; None means all."""


class Briefed(msgspec.Struct, frozen=True, kw_only=True):
    """A collection that has a section in the brief."""

    title: str
    place: int
    """The position of the section in the text."""
    room: int
    """The order in which sections are given room."""
    weight: int
    """Its share of the room, relative to the other sections."""
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
    """What the key does not show."""


class NotedAs(msgspec.Struct, frozen=True):
    """A collection that the note about a compaction counts, because it is unchanged."""

    place: int
    words: str
    """How the note names it among what is kept; if empty, it is only counted."""


class Collection(msgspec.Struct, frozen=True, kw_only=True):
    """One map of the state, from record id to record. Number, name, key and type are on disk."""

    number: int
    name: str
    type: type[Record]
    key: tuple[str, ...]
    """The fields that make the natural key, by which a record is looked up."""

    text: Callable[[Any], str] | None = None
    """A record as one text, for the brief; None gives the name of its type."""
    line: Callable[[Any, Show], list[Piece]] | None = None
    """A record as one line on a screen; None gives its text."""
    search: Callable[[Any], Iterable[str]] = lambda record: ()
    """What a search finds it by."""

    bookkeeping: bool = False
    """Small, and kept up to date by commits that are about something else."""
    tallied: bool = False
    """Counted up by commits of other kinds, which do not mention it."""
    structural: bool = False
    """Erasing a whole session leaves it, because the session could not be found or ended without it."""
    rewound: bool = True
    """A rewind resets it. The others are not reset: they happened, were spent, or were recorded by a person."""
    compactible: bool = False
    """A compaction drops records that are older than its boundaries; every other collection stays."""
    diffed: bool = True
    """A diff lists its changes to people."""
    dropped_by_fork: int = 0
    """Its place among the collections a fork starts without; 0 means a fork inherits it."""
    listed: int = 0
    """Its place in the state that an agent is shown over MCP; 0 means it is not shown."""
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
    also: tuple[str, ...] = ()
    """Other names that agents give it."""
    several: bool = False
    """Whether it may be a list of such values."""
    words: dict[str, str] = {}
    """Of a field with few values: other words for them, in small letters, with spaces between."""


class Reported(msgspec.Struct, frozen=True, kw_only=True):
    """What an agent may report over MCP, besides `why`: the arguments of a method of `Reporter`."""

    method: str
    must: tuple[Field, ...]
    may: tuple[Field, ...] = ()
    hint: str = ""
    """How the tool's description explains it; by default the names of its required fields."""
    example: dict[str, Any]
    """An item of this kind that is accepted as it is."""


class CommitKind(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of commit. Its name is on disk; none is ever renamed."""

    name: str
    contributed: bool = False
    """It needs no lease in a driven session: it carries its own principal."""
    after_the_end: bool = False
    """A closed or archived session still accepts it."""
    once: bool = False
    """An agent's own program appends it in a turn. Run again after a crash, the program gets the existing
    commit and appends none."""
    compared: bool = False
    """A replay compares what the program records with it."""
    spoken: bool = False
    """Part of the conversation: it leaves a view under an `entry:` or `call:` key."""
    expires: bool = False
    """Part of the transcript: retention erases its content when it is old."""
    shown: bool = False
    """A model's view holds it: its next answer derives from it, and a range of `inputs` means it."""
    derived: bool = False
    """Its driver records what it was made from: outside a call, the last answer and what was shown since."""
    operands: str = ""
    """Its `inputs` are not what it was made from but what it is about: "always", or with this status only."""
    learned: bool = False
    """What it records about a call that is still in force stays known after a rewind."""
    news: bool = False
    """A brief since a position mentions it, as it mentions contributions."""
    barrier: bool = False
    """`barrier` durability syncs for it."""
    removes: bool = False
    """Its transaction removes content."""
    keeping: bool = False
    """Retention appends it, so it does not count as activity in the session."""
    outside: bool = False
    """It says something of a session, or steers it, from outside: it is no act of its agent."""
    silent: bool = False
    """It only repeats, or stores, what other commits hold, so no search finds it."""
    quiet: bool = False
    """Bookkeeping to a reader of the log."""
    tier: str = ""
    """The name under which the space of its content is reported; by default that of the transcript or the log."""
    collection: Collection | None = None
    """The collection it puts records into, if it has one of its own."""
    reported: Reported | None = None
