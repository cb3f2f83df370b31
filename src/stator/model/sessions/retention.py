"""Computes how long sessions are kept, and what a retention policy would do now.

Nothing is removed unless a policy says so. Ages count from the last activity in a session's log; commits that
retention itself appends are not activity. Pure: the plan is computed here and carried out elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import msgspec

from stator.errors import InvalidInput
from stator.model.records.tables import TIERS, TRANSCRIPT

What = Literal["archive", "expire", "trash", "purge", "restore"]

AGES = ("archive", "transcript", "trash", "purge")
"""Policies that are a length of time, in µs; 0 means never, regardless of the store's policy."""
POLICIES = (*AGES, "keep")
LIMITS = ("archive", "transcript", "trash")
"""Those that are about the age of a session; `purge` is about the trash."""
UNITS = {"h": 3_600_000_000, "d": 86_400_000_000, "w": 604_800_000_000}
SIZES = {"kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12, "b": 1}
WINDOW = 30 * UNITS["d"]
"""How long a session stays in the trash, unless `purge` says so."""
SHARE = 10
"""Percent of the sessions that one run may remove without confirmation."""
BYTES = 10**9
"""Bytes that it may."""
WORDS = ("input", "input_hash", "output", "output_summary")
"""What expires of them: what was asked and answered, never who, when, why or at what cost."""
REMOVES = ("trash", "purge")
VALUE_MAX = 2**53 - 1

_AGE = re.compile(r"(\d{1,5})([hdw])\Z")
_SIZE = re.compile(r"(\d{1,12})(?:\.(\d))?\s*([kmgt]?b)\Z")


class Subject(msgspec.Struct, frozen=True, kw_only=True):
    """A session, as far as keeping it is concerned."""

    session: str
    name: str
    project: str = ""
    tenant: str = ""
    status: str = "paused"
    active: int = 0
    """When something last happened in it."""
    bytes: int = 0
    trashed: int = 0
    """When it was put in the trash; 0: it is not there."""
    returned: bool = False
    """Whether something happened in it since."""
    held: bool = False
    busy: str = ""
    """What it is in the middle of, or waits for."""
    heirs: tuple[str, ...] = ()
    """The sessions that need it: they continue its log, or it was adopted for them."""
    depth: int = 0
    """How many sessions its lineage has."""
    expired: bool = False
    """Whether its transcript has expired already."""


class Action(msgspec.Struct, frozen=True, kw_only=True):
    """Something to be done to a session, and why."""

    what: What
    session: str
    name: str
    active: int
    bytes: int
    why: str
    """The policy that says so."""
    trashed: int = 0
    """When it was put in the trash, if that is where it is."""


class SkippedSession(msgspec.Struct, frozen=True, kw_only=True):
    """A session that a policy is about and that is left alone."""

    what: What
    session: str
    name: str
    why: str


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What would be done now."""

    actions: list[Action] = []
    skipped: list[SkippedSession] = []
    sessions: int = 0
    """How many there are."""
    breaker: str = ""
    """Why the plan needs confirmation; empty if it is small enough."""

    @property
    def removed(self) -> list[Action]:
        return [action for action in self.actions if action.what in REMOVES]


def tier_of(kind: str) -> str:
    """How far a kind of commit is kept: as transcript, as contents, or as state."""
    return "transcript" if kind in TRANSCRIPT else TIERS.get(kind, "state")


# -- policies -------------------------------------------------------------------------------------


def check_retention(policies: dict[Any, Any]) -> dict[str, int]:
    """Policies with known names and whole numbers, else `InvalidInput`."""
    for name, value in policies.items():
        if name not in POLICIES:
            raise InvalidInput(
                f"unknown policy {name!r:.40}", path="$.retention", hint=", ".join(POLICIES)
            )
        if type(value) is not int or not 0 <= value <= VALUE_MAX:
            raise InvalidInput(
                f"a policy must be a whole number, got {value!r:.40}", path=f"$.retention.{name}"
            )
    return policies


def parse(words: Sequence[str]) -> dict[str, int | None]:
    """`archive=30d trash=90d keep=20 transcript=off` as settings; None takes one off."""
    found: dict[str, int | None] = {}
    for word in words:
        name, equals, text = word.partition("=")
        if not equals or name not in POLICIES:
            raise InvalidInput(
                f"not a policy: {word!r:.60}",
                hint="archive=30d, transcript=180d, trash=90d, purge=30d, keep=20; =off removes a policy",
            )
        found[name] = None if text == "off" else _value(name, text)
    return found


def _value(name: str, text: str) -> int:
    match = _AGE.match(text)
    if name == "keep" and text.isdecimal() and len(text) < 9:
        return int(text)
    if name != "keep" and text == "never":
        return 0
    if name == "keep" or match is None or not int(match[1]):
        wanted = "a number, such as 20" if name == "keep" else "a time, such as 12h, 30d or 8w"
        raise InvalidInput(f"{name} takes {wanted}, got {text!r:.40}", hint="or off")
    length = int(match[1]) * UNITS[match[2]]
    if length > VALUE_MAX:
        raise InvalidInput(f"{name}={text} is too long a time", hint=f"{name}=never is longer")
    return length


def parse_size(text: str) -> int:
    """`2GB` as bytes."""
    match = _SIZE.match(text.strip().lower())
    if match is None:
        raise InvalidInput(f"not a size: {text!r:.40}", hint="try 500MB or 2GB")
    scale = SIZES[match[3]]
    return int(match[1]) * scale + int(match[2] or 0) * scale // 10


def shown(name: str, value: int) -> str:
    """A policy as it is typed."""
    if name == "keep":
        return f"keep={value}"
    if not value:
        return f"{name}=never"
    unit = "h" if value % UNITS["d"] else "d"
    return f"{name}={value // UNITS[unit]}{unit}"


def shortest_age(policy: Mapping[str, int]) -> int:
    """The age below which no policy asks for anything; 0 if none does at any age."""
    return min((age for name in LIMITS if (age := policy.get(name, 0)) > 0), default=0)


# -- the plan -------------------------------------------------------------------------------------


def plan(
    subjects: Sequence[Subject],
    policy_of: Callable[[Subject], Mapping[str, int]],
    now: int,
    *,
    max_bytes: int | None = None,
) -> Plan:
    """What the policies, and a size to come down to, would do now; the oldest first."""
    ordered = sorted(subjects, key=lambda one: (one.active, one.session))
    newest = _newest(ordered, policy_of)
    found, skipped = [], []
    for one in ordered:
        for what, why in _due(one, policy_of(one), now):
            obstacle = "" if what == "restore" else _obstacle(one, newest)
            if obstacle:
                skipped.append(_skip(one, what, obstacle))
            else:
                found.append(_action(one, what, why))
    found, needed = _without_heirs(found, ordered, policy_of, now)
    skipped += needed
    if max_bytes is not None:
        found += _oversize(ordered, found, newest, max_bytes)
        going = {action.session for action in found if action.what == "trash"}
        found = [a for a in found if a.what in REMOVES or a.session not in going]
    depths = {one.session: one.depth for one in ordered}
    found.sort(key=lambda one: (1, -depths[one.session]) if one.what == "purge" else (0, 0))
    made = Plan(actions=found, skipped=skipped, sessions=len(ordered))
    return msgspec.structs.replace(made, breaker=_breaker(made))


def _newest(
    ordered: Sequence[Subject], policy_of: Callable[[Subject], Mapping[str, int]]
) -> set[str]:
    """The newest sessions of each project, as many as are kept at any age."""
    kept: dict[tuple[str, str], list[str]] = {}
    for one in reversed(ordered):
        of_project = kept.setdefault((one.tenant, one.project), [])
        if not one.trashed and len(of_project) < policy_of(one).get("keep", 0):
            of_project.append(one.session)
    return {session for of_project in kept.values() for session in of_project}


def _due(one: Subject, policy: Mapping[str, int], now: int) -> list[tuple[What, str]]:
    """What a session's age asks for. A clock that was set back makes nothing older."""
    age = max(0, now - one.active)

    def over(name: str) -> bool:
        return 0 < policy.get(name, 0) <= age

    if one.trashed:
        window = policy.get("purge", WINDOW)
        if one.returned:
            return [("restore", "it was used again")]
        if window and now - one.trashed >= window:
            return [("purge", shown("purge", window))]
        return []
    if over("trash"):
        return [("trash", shown("trash", policy["trash"]))]
    due: list[tuple[What, str]] = []
    if over("transcript") and not one.expired:
        due.append(("expire", shown("transcript", policy["transcript"])))
    if over("archive") and one.status != "archived":
        due.append(("archive", shown("archive", policy["archive"])))
    return due


def _obstacle(one: Subject, newest: set[str]) -> str:
    if one.held:
        return "held"
    if one.busy:
        return one.busy
    return "among the newest" if one.session in newest else ""


def _without_heirs(
    actions: list[Action],
    subjects: Sequence[Subject],
    policy_of: Callable[[Subject], Mapping[str, int]],
    now: int,
) -> tuple[list[Action], list[SkippedSession]]:
    """Keep the sessions that a kept fork is based on; those may require others in turn."""
    by_id = {one.session: one for one in subjects}
    expiring = {
        one.session
        for one in subjects
        if 0 < policy_of(one).get("transcript", 0) <= max(0, now - one.active)
    }
    skipped: list[SkippedSession] = []
    while True:
        trash = {one.session for one in subjects if one.trashed}
        trash |= {action.session for action in actions if action.what == "trash"}
        going = {
            "purge": {action.session for action in actions if action.what == "purge"},
            "trash": trash,
            "expire": trash | expiring,
        }
        needed = [
            action
            for action in actions
            if action.what in going
            and not going[action.what].issuperset(by_id[action.session].heirs)
        ]
        if not needed:
            return actions, skipped
        skipped += [_skip(by_id[a.session], a.what, "needed by a fork") for a in needed]
        actions = [action for action in actions if action not in needed]


def _oversize(
    ordered: Sequence[Subject], planned: list[Action], newest: set[str], most: int
) -> list[Action]:
    """The oldest sessions that have to go for the others to fit."""
    going = {one.session for one in ordered if one.trashed}
    going |= {action.session for action in planned if action.what == "trash"}
    left = sum(one.bytes for one in ordered if one.session not in going)
    found: list[Action] = []
    while left > most:
        free = (
            one
            for one in ordered
            if one.session not in going
            and not _obstacle(one, newest)
            and going.issuperset(one.heirs)
        )
        one = next(free, None)
        if one is None:
            break
        going.add(one.session)
        left -= one.bytes
        found.append(_action(one, "trash", "max size"))
    return found


def _breaker(made: Plan) -> str:
    removed, size = len(made.removed), sum(action.bytes for action in made.removed)
    if removed * 100 > SHARE * made.sessions:
        return f"it would remove {removed} of {made.sessions} sessions, more than {SHARE} %"
    if size > BYTES:
        return f"it would remove {size:,} bytes, more than {BYTES:,}"
    return ""


def _action(one: Subject, what: What, why: str) -> Action:
    return Action(
        what=what,
        session=one.session,
        name=one.name,
        active=one.active,
        bytes=one.bytes,
        why=why,
        trashed=one.trashed,
    )


def _skip(one: Subject, what: What, why: str) -> SkippedSession:
    return SkippedSession(what=what, session=one.session, name=one.name, why=why)
