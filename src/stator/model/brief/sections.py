"""What a brief consists of: its sections, their order and share of the room, and the items in them. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Literal

import msgspec

from stator.model.brief.condense import Unit
from stator.model.log.query import Head
from stator.model.records.row_types import Briefed
from stator.model.records.tables import BRIEFED
from stator.model.views.unplaced import EXPLAINED, Unplaced

Target = Literal["generic", "claude-code", "codex"]
TARGETS: tuple[Target, ...] = ("generic", "claude-code", "codex")
SectionName = str
"""The collection a section is about, or one of `_OTHERS`."""

GOAL, LAST, SAID, SEEN = "goal", "last", "said", "seen"


def _other(title: str, place: int, room: int, weight: int) -> Briefed:
    return Briefed(title=title, place=place, room=room, weight=weight)


_OTHERS: dict[SectionName, Briefed] = {
    GOAL: _other("What was asked", 10, 10, 12),
    "in_doubt": _other(
        "Calls in doubt: each may or may not have happened; do not assume, settle it first",
        12, 20, 4,
    ),
    "settled": _other("Were in doubt, and are known now", 13, 32, 4),
    "waiting": _other("Waiting for a person's word", 14, 35, 2),
    LAST: _other("The agent's last words", 16, 200, 14),
    SAID: _other("What the agent wrote earlier", 18, 210, 0),
    "revisions": _other("Revisions", 64, 75, 4),
    "checks": _other("Checks, the newest run of each", 66, 85, 4),
    "open": _other("Calls without a result", 88, 36, 3),
    "failed": _other("Failed and not repaired", 90, 95, 3),
    "lessons": _other("Failed, then worked in another way", 91, 90, 3),
    "did": _other("Other calls", 92, 150, 2),
    "read": _other("Files it only read", 72, 155, 2),
    SEEN: _other("What its calls wrote and showed", 94, 230, 0),
    "model": _other("The model was changed", 96, 115, 1),
    "away": _other("While you were away", 140, 30, 4),
    "unplaced": _other(f"Done lately, {EXPLAINED}", 145, 40, 3),
    "unverified": _other("Unverified", 900, 220, 1),
}  # fmt: skip
"""Sections that are about the log and its calls, and not about one collection."""
_BRIEFED = {**BRIEFED, **_OTHERS}
SECTIONS: dict[SectionName, Briefed] = {
    name: _BRIEFED[name] for name in sorted(_BRIEFED, key=lambda name: _BRIEFED[name].place)
}
"""In the order of the text."""
FIRST: tuple[SectionName, ...] = tuple(sorted(SECTIONS, key=lambda name: SECTIONS[name].room))
"""In the order in which they are given room."""
LATE = frozenset({"did", "unverified", "read"})
"""Sections that get no room before the agent's words have theirs."""
LISTS = frozenset({"files", "read", "did", "revisions", "checks", "lessons"})
"""Sections whose lines are lists: they may be twice as long."""
TWICE = frozenset({"files", "revisions", "checks", "failed"})
"""Sections that get two lines before the agent's words have theirs."""
FILES_SHOWN = 300
"""Characters of a line of files, or of other short texts."""
MUST = FIRST[:3]
"""Of these the first line is there in any case, cut if need be."""


class BriefItem(msgspec.Struct, frozen=True, kw_only=True):
    """One item of a brief: recorded text, and our words about it."""

    text: str
    """Recorded: anything may be in it. Empty where there are only our own words."""
    mark: str = ""
    """Our word before it."""
    note: str = ""
    """Our words after it."""
    source: str = ""
    """Where it came from; empty for a verified user's own."""
    seq: int = 0
    seqs: tuple[int, ...] = ()
    """The commits that its text is from, where that is not the one at `seq`."""


Tell = Callable[[], BriefItem]
"""Made only if there is room: finding the source of a text requires reading the log."""


ListedText = tuple[str, *tuple[int, ...]]
"""A short text, and the seqs of the commits that it is from."""


class Topic(msgspec.Struct, frozen=True, kw_only=True):
    """The items of a section, most important first, and how many exist altogether."""

    tells: Sequence[Tell]
    total: int = 0
    exact: bool = True
    """Whether the total is known, or is only at least so much."""
    title: str = ""
    """Instead of the section's own."""
    in_order: bool = False
    """Whether its lines are shown in the order of the log, whatever their importance."""


class Saying(msgspec.Struct, frozen=True, kw_only=True):
    """A text to choose from: an answer of the model, its own summary, what a call showed."""

    text: str
    seq: int
    units: Sequence[Unit] = ()
    """Its parts, where they are not those of a text."""
    lead: str = ""
    """Recorded text that is before what is chosen: the call that showed it."""
    mark: str = ""
    note: str = ""
    source: str = "model"
    weight: float = 1.0
    """What it is worth beside the others."""
    newest: bool = False
    """Whether little was done since: what it calls open is open."""


class BriefOpening(msgspec.Struct, frozen=True, kw_only=True):
    """What a brief says first: whose it is."""

    own: bool = False
    """Whether the asker is the session that the brief is about."""
    agent: str = ""
    used: str = ""
    """When it was last used."""
    ended: Sequence[str] = ()
    """How it ended and what it changed, in our words: sentences."""
    about: Sequence[tuple[str, str]] = ()
    """Our word and recorded text: its branch, its folder, its model."""


class Gathered(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a brief is made from."""

    session: str
    name: str
    name_origin: str = ""
    """From where the name came, if nobody vouches for that."""
    head: Head
    topics: dict[SectionName, Topic]
    opening: BriefOpening = BriefOpening()
    last: Sequence[Saying] = ()
    """The agent's last words, and its last report before them."""
    said: Sequence[Saying] = ()
    """What it said before, in order."""
    showed: Sequence[Saying] = ()
    """What its calls wrote and showed, the newest first."""


def unplaced_topic(found: Sequence[Unplaced], limit: int) -> Topic:
    """What has no place in the log yet, the newest first."""
    items = [
        BriefItem(text=one.summary, mark=one.kind, note=one.status, source="import")
        for one in found[: -limit - 1 : -1]
    ]
    return told(items, total=len(found))


def told(
    items: Sequence[BriefItem], *, total: int = 0, in_order: bool = False, title: str = ""
) -> Topic:
    """A topic of items that are made already."""
    tells = [partial(_made, item) for item in items]
    return Topic(tells=tells, total=total or len(items), in_order=in_order, title=title)


def listed(found: Sequence[ListedText], mark: str = "") -> list[BriefItem]:
    """Short texts, as many in a line as fit."""
    items: list[BriefItem] = []
    text, seqs = "", set[int]()
    for one, *own in [*found, ("",)]:
        if text and (not one or len(text) + len(one) > FILES_SHOWN):
            newest, every = max(seqs, default=0), tuple(sorted(seqs))
            items.append(BriefItem(text=text, mark=mark, source="tool", seq=newest, seqs=every))
            text, seqs = "", set()
        text, seqs = (f"{text}; {one}" if text else one), seqs | set(own)
    return items


def _made(item: BriefItem) -> BriefItem:
    return item


class BriefLine(msgspec.Struct, frozen=True):
    """One line of a section, as it is in the text."""

    text: str
    seq: int
    source: str


class Section(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a brief."""

    name: SectionName
    title: str
    lines: list[BriefLine]
    left_out: int = 0


class Brief(msgspec.Struct, frozen=True, kw_only=True):
    """A session in a few words; `str(brief)` is what to hand to the next one."""

    session: str
    target: Target
    text: str
    tokens: int
    head: Head
    sections: list[Section]
    left_out: dict[str, int]

    def __str__(self) -> str:
        return self.text
