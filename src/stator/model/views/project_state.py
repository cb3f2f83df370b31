"""Works out what a project knows, from what each of its sessions knows. Pure.

Per key of a collection the newest value holds; one that rests on an untrusted root does not replace one that rests on
none, but is in conflict with it. What it replaced, in its own session or in others, are its earlier
values. Another session that still lives by another value, and was used since the newer one was recorded, is in
conflict with it. Values for the whole project and for the user come from sessions of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

import msgspec

from stator.model.records.types import PlanRecord, Record, SessionRecord
from stator.model.views.knowledge import DURABLE, KeyDrop, SessionKnowledge, Value
from stator.model.views.search import Mark

Scope = Literal["session", "project", "user"]
ALL = 2**62
"""Every commit of a session counts."""
VALUES_MAX = 32
"""Values of one key that are compared, the newest: so many that are trusted and so many that are not. What is older
than all of them is not looked at."""
CONFLICTS_MAX = 8
EARLIER_MAX = 3
"""Earlier values of a key that an entry lists; the others are counted."""
ABOVE_MAX = 100
"""Sessions that are followed from one to the one it came from."""
OPEN = ("pending", "in_progress", "blocked")
REPLACED = "was"
"""The label of a recorded session that another one replaced when its transcript was imported again."""
LIMIT = 50
"""Entries of a collection that an answer holds."""


class SessionAbout(msgspec.Struct, frozen=True, array_like=True):
    """What must be known of a session to weigh its values."""

    id: str
    name: str
    agent: str
    active: int
    """When it was last used; of one that another was adopted for, at the place where that one begins."""
    scope: str = "session"
    ancestors: list[tuple[str, int]] = []
    """The sessions that it had records from, and up to which seq each; `ALL` where that is a matter of time."""


class HeldKey(msgspec.Struct, frozen=True, array_like=True):
    """What holds for one key."""

    value: Value
    conflicts: list[Value] = []
    earlier: list[Value] = []
    more_earlier: int = 0
    """Earlier values that are not listed."""


class KnownSession(msgspec.Struct, frozen=True):
    """How far an index knows a session."""

    mark: Mark
    revision: int
    """Differs as soon as anything that the index holds of the session does."""
    upto: int
    """The seq up to which its records count, as `counted_upto` gives it."""
    parent: str
    adopted: str


class Learned(msgspec.Struct, frozen=True, kw_only=True):
    """What an index is told of a session."""

    about: SessionAbout
    project: str
    mark: Mark
    knowledge: SessionKnowledge
    before: int = 0
    """The revision that the index had of it; 0 if it had none."""
    upto: int = ALL
    parent: str = ""
    """The session that it came from."""
    continues: str = ""
    adopted: str = ""
    anew: bool = False
    """Its log was read from the beginning: what it lacks by now may have been erased."""


class StateValue(msgspec.Struct, frozen=True, kw_only=True):
    """A value, and where it comes from."""

    record: Record
    session: str
    name: str
    """Of the session."""
    agent: str
    turn: int
    seq: int
    commit: str
    happened: int
    source: str
    trust: str
    scope: Scope = "session"
    anchors: list[tuple[str, str]] = []
    """Files that it names: path and the digest they had then, which may be empty."""
    revision: str = ""
    """The head of version control at the end of its turn."""
    unverified: str = ""
    """Where the untrusted root came from that it rests on, such as "web:a.example" or "a bundle"; empty if it rests
    on none, or a person vouches for it."""


class StateEntry(StateValue, frozen=True, kw_only=True):
    """What holds for a key of a collection."""

    collection: str
    key: str
    conflicts: list[StateValue] = []
    """What other sessions live by that were used since: a person must say which one holds."""
    earlier: list[StateValue] = []
    more_earlier: int = 0


class ProjectState(msgspec.Struct, frozen=True, kw_only=True):
    """What a project, or a user, knows."""

    project: str
    collections: dict[str, list[StateEntry]]
    """The newest entries of each collection first."""
    more: dict[str, int] = {}
    """How many entries of each collection there are beyond those."""

    def __getitem__(self, collection: str) -> list[StateEntry]:
        return self.collections.get(collection, [])


# -- which sessions count -------------------------------------------------------------------------

Above = Callable[[str], SessionRecord | None]
"""A session by its id; None if it is not there."""


def counted_upto(record: SessionRecord, above: Above, is_left_out: Callable[[str], bool]) -> int:
    """The seq up to which a session's own records count: 0 for none, `ALL` for all of them."""
    if record.mode == "recorded" and REPLACED in record.labels and not record.aliases:
        return 0
    if is_left_out(record.id):
        return 0
    upto = _taken(record, above, is_left_out)
    for _ in range(ABOVE_MAX):
        parent = _first_attempt(record, above).parent
        if parent is None or parent.kind != "child" or (caller := above(parent.session)) is None:
            return upto
        if parent.seq > _taken(caller, above, lambda session: False):
            return 0
        record = caller
    return upto


def why_left_out(
    record: SessionRecord, seq: int, above: Above, is_left_out: Callable[[str], bool]
) -> str:
    """In words, why what a session recorded at a seq does not count for its project; empty if it does."""
    is_replaced = bool(record.adopted) or REPLACED in record.labels
    if record.parent is None and not is_replaced:
        return ""  # nothing it came from or gave way to: what is in the trash is shown nowhere
    if seq <= counted_upto(record, above, is_left_out):
        return ""
    if record.parent is not None and record.parent.kind in ("fork", "retry") and not is_replaced:
        return f"in a {record.parent.kind} that was not adopted"
    if record.parent is not None and record.parent.kind == "child":
        return "in a sub-agent of an attempt that was not adopted"
    return "in an attempt that another one replaced"


def _taken(record: SessionRecord, above: Above, is_left_out: Callable[[str], bool]) -> int:
    """How much of a session belongs to the attempt that was adopted in the end."""
    last = _first_attempt(record, above)
    for _ in range(ABOVE_MAX):
        adopted = above(last.adopted) if last.adopted not in ("", last.id) else None
        if adopted is None or is_left_out(adopted.id):
            break
        last = adopted
    if last.id == record.id:
        return ALL
    return next((part.upto for part in last.lineage if part.session == record.id), 0)


def _first_attempt(record: SessionRecord, above: Above) -> SessionRecord:
    """The session that a retry or a fork came from, and so on. A conversation that was forked in its own agent is no
    attempt at another."""
    for _ in range(ABOVE_MAX):
        parent = record.parent
        if parent is None or parent.kind not in ("fork", "retry") or record.mode != "driven":
            break
        if (other := above(parent.session)) is None:
            break
        record = other
    return record


# -- one key --------------------------------------------------------------------------------------


def settle(
    values: Iterable[Value],
    drops: Sequence[KeyDrop],
    forgotten: int,
    about: Callable[[str], SessionAbout | None],
) -> HeldKey | None:
    """What holds for a key; None if nothing does. `forgotten`: up to when its values are."""
    ordered = sorted(values, key=lambda value: value.order, reverse=True)
    trusted = [one for one in ordered if not one.unverified][:VALUES_MAX]
    doubtful = [one for one in ordered if one.unverified][:VALUES_MAX]
    hidden = _dropped(drops, about)
    compared = sorted([*trusted, *doubtful], key=lambda value: value.order, reverse=True)
    left = [one for one in compared if one.happened > forgotten and not hidden(one)]
    live = [one for one in left if one.live]
    if not live:
        return None
    value = next((one for one in live if not one.unverified), live[0])
    conflicts: list[Value] = []
    earlier: dict[str, Value] = {}
    decided = _scope(value, about) == "project"
    for one in left:
        if one is value or one.said == value.said:
            continue
        if one.live and not decided and _is_used_since(one, value, about):
            if len(conflicts) < CONFLICTS_MAX:
                conflicts.append(one)
        else:
            earlier.setdefault(one.said, one)
    if value.collection == "plan" and not any(map(_is_open, [value, *conflicts])):
        return None
    listed = list(earlier.values())
    return HeldKey(value, conflicts, listed[:EARLIER_MAX], max(0, len(listed) - EARLIER_MAX))


def _scope(value: Value, about: Callable[[str], SessionAbout | None]) -> str:
    known = about(value.session)
    return "session" if known is None else known.scope


def _is_used_since(one: Value, newer: Value, about: Callable[[str], SessionAbout | None]) -> bool:
    known = about(one.session)
    return known is not None and (known.scope != "session" or known.active > newer.happened)


def _is_open(value: Value) -> bool:
    record = value.record
    return isinstance(record, PlanRecord) and record.status in OPEN


def _dropped(
    drops: Sequence[KeyDrop], about: Callable[[str], SessionAbout | None]
) -> Callable[[Value], bool]:
    """Whether a value was removed by a session that had it from another."""
    known = [(drop, about(drop.session)) for drop in drops]
    reach = [(drop, dict(each.ancestors)) for drop, each in known if each is not None]

    def is_dropped(value: Value) -> bool:
        for drop, ancestors in reach:
            upto = ancestors.get(value.session)
            if upto is not None and (
                value.seq <= upto if upto != ALL else value.happened <= drop.happened
            ):
                return True
        return False

    return is_dropped


def ancestors(record: SessionRecord, above: Above) -> list[tuple[str, int]]:
    """The sessions that one was forked from or continues, and those that these were, up to which seq each."""
    found: dict[str, int] = {}
    waiting = [record]
    while waiting and len(found) < ABOVE_MAX:
        known = waiting.pop()
        reached = [(part.session, part.upto) for part in known.lineage]
        if known.continues:
            reached.append((known.continues, ALL))
        for session, upto in reached:
            if session not in found and session != record.id:
                found[session] = upto
                if (other := above(session)) is not None:
                    waiting.append(other)
    return list(found.items())


# -- everything -----------------------------------------------------------------------------------

Group = tuple[str, str]
"""A collection and a key."""


def settle_all(
    sessions: Sequence[tuple[SessionAbout, SessionKnowledge]],
) -> dict[Group, HeldKey]:
    """What holds in a project, by what its sessions know: the definition that an index is compared with."""
    about = {each.id: each for each, _ in sessions}
    values: dict[Group, list[Value]] = {}
    drops: dict[Group, list[KeyDrop]] = {}
    forgotten: dict[Group, int] = {}
    for each, known in sessions:
        for value in known.values():
            values.setdefault((value.collection, value.key), []).append(value)
        for drop in known.key_drops():
            drops.setdefault((drop.collection, drop.key), []).append(drop)
        if each.scope != "session":
            for collection, keys in known.forgotten.items():
                forgotten |= {(collection, key): upto for key, upto in keys.items()}
    found = {
        group: settle(held, drops.get(group, []), forgotten.get(group, 0), about.get)
        for group, held in values.items()
    }
    return {group: settled for group, settled in found.items() if settled is not None}


def as_state(
    project: str,
    settled: Mapping[str, tuple[Sequence[HeldKey], int]],
    about: Callable[[str], SessionAbout | None],
    scope: Scope = "project",
) -> ProjectState:
    """The answer: what holds by collection, and how much of each there is. `scope` is that of its own session."""
    return ProjectState(
        project=project,
        collections={
            name: [_entry(one, about, scope) for one in settled.get(name, ((), 0))[0]]
            for name in DURABLE
        },
        more={
            name: total - len(shown)
            for name, (shown, total) in settled.items()
            if total > len(shown)
        },
    )


def newest(found: Mapping[Group, HeldKey], limit: int) -> dict[str, tuple[list[HeldKey], int]]:
    """The newest of each collection, and how many there are."""
    answer: dict[str, tuple[list[HeldKey], int]] = {}
    for name in DURABLE:
        all_of = [one for (collection, _), one in found.items() if collection == name]
        all_of.sort(key=lambda one: (-one.value.happened, one.value.key))
        answer[name] = all_of[:limit], len(all_of)
    return answer


def _entry(
    settled: HeldKey, about: Callable[[str], SessionAbout | None], scope: Scope
) -> StateEntry:
    value = settled.value
    return StateEntry(
        collection=value.collection,
        key=value.key,
        conflicts=[_shown(one, about, scope) for one in settled.conflicts],
        earlier=[_shown(one, about, scope) for one in settled.earlier],
        more_earlier=settled.more_earlier,
        **_fields(value, about(value.session), scope),
    )


def _shown(value: Value, about: Callable[[str], SessionAbout | None], scope: Scope) -> StateValue:
    return StateValue(**_fields(value, about(value.session), scope))


def _fields(value: Value, known: SessionAbout | None, scope: Scope) -> dict[str, Any]:
    return {
        "record": value.record,
        "session": value.session,
        "name": known.name if known is not None else "",
        "agent": known.agent if known is not None else "",
        "turn": value.turn,
        "seq": value.seq,
        "commit": value.commit,
        "happened": value.happened,
        "source": value.source,
        "trust": value.trust,
        "scope": "session" if known is None or known.scope == "session" else scope,
        "anchors": _pairs(value),
        "revision": value.revision,
        "unverified": value.unverified,
    }


def _pairs(value: Value) -> list[tuple[str, str]]:
    return [(one.path, one.digest) for one in value.anchors] if value.anchors else []
