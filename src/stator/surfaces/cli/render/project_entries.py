"""What a project or a user knows, as lines for people and as JSON."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from stator.model.log.query import CallRow
from stator.model.records.types import KEYLESS, PreferenceRecord
from stator.model.values.ids import short
from stator.model.views.project_state import ProjectState, StateEntry, StateValue
from stator.surfaces.cli.render import wire
from stator.surfaces.cli.render.lines import Line
from stator.surfaces.cli.render.record_line import of_record, recorded
from stator.surfaces.cli.render.times import ago

ANCHORS_SHOWN = 3


def lines(
    shown: Mapping[str, Sequence[StateEntry]], more: Mapping[str, int], now: int, *, user: bool
) -> list[Line]:
    """The entries by collection, a line each, and what is in conflict below it."""
    found: list[Line] = []
    for name, entries in shown.items():
        if not entries:
            continue
        rest = more.get(name, 0)
        found.append(Line(name, "title").add(f" {len(entries) + rest}", "dim"))
        for entry in entries:
            found += _entry(entry, now, user=user)
        if rest:
            found.append(Line(f"  … and {rest:,} older", "dim"))
    return found


def _entry(entry: StateEntry, now: int, *, user: bool) -> Iterable[Line]:
    line = Line("  ").extend(of_record(entry.record)).add("  ").extend(_where(entry, now))
    earlier = len(entry.earlier) + entry.more_earlier
    if earlier:
        line.add(f" · earlier: {earlier}", "dim")
    if entry.anchors:
        paths = ", ".join(path for path, _ in entry.anchors[:ANCHORS_SHOWN])
        line.add(f" · {paths}", "dim")
    yield line
    for other in entry.conflicts:
        said = Line("    conflict: ", "doubt").extend(of_record(other.record)).add("  ")
        yield said.extend(_where(other, now))
    if entry.conflicts:
        yield Line("    to resolve it: ", "dim").add(_resolve(entry), "bold")


def _where(value: StateValue, now: int) -> Line:
    """Where a value comes from: session, turn and age, source and trust."""
    if value.scope == "session":
        place = f"{value.name or short(value.session)} t{value.turn}"
    else:
        place = "for you, everywhere" if value.scope == "user" else "for the project"
    return Line(f"{place}, {ago(value.happened, now)} · {value.source}, {value.trust}", "dim")


def _resolve(entry: StateEntry) -> str:
    """The commands that make one value hold."""
    values = [one.record for one in (entry, *entry.conflicts)]
    preferred = [one for one in values if isinstance(one, PreferenceRecord)]
    if preferred:
        chosen = dict.fromkeys(recorded(one.value) for one in preferred)
        name = shlex.quote(preferred[0].name)
        return " | ".join(f"stator prefer {name} {shlex.quote(value)}" for value in chosen)
    return f"stator forget {shlex.quote(name_of(entry))}, then record it once more in a session"


def name_of(entry: StateEntry) -> str:
    """What a person can call an entry by."""
    if entry.key.startswith(KEYLESS):
        return short(entry.commit)
    last = entry.key.rpartition("\n")[2]
    return f"{entry.collection}:{last}"


def doubt_lines(rows: Sequence[CallRow], names: Mapping[str, str], now: int) -> list[Line]:
    """Calls in doubt, a line each."""
    if not rows:
        return []
    found = [Line("in doubt", "title").add(f" {len(rows)}", "dim")]
    for row in rows:
        line = Line("  ").add(row.tool, "bold").add(f" {short(row.call)}", "id")
        line.add(f"  {names[row.session]} t{row.turn}, {ago(row.at, now)}", "dim")
        found.append(line.add(f" · stator settle {short(row.call)}", "dim"))
    return found


def as_json(found: ProjectState, shown: Mapping[str, Sequence[StateEntry]]) -> dict[str, Any]:
    """The answer as JSON."""
    return {
        "project": found.project,
        "collections": {
            name: [_json(entry) for entry in entries] for name, entries in shown.items()
        },
        "more": {name: count for name, count in found.more.items() if name in shown},
    }


def _json(entry: StateEntry) -> dict[str, Any]:
    return {
        "key": entry.key,
        **_value(entry),
        "conflicts": [_value(one) for one in entry.conflicts],
        "earlier": [_value(one) for one in entry.earlier],
        "more_earlier": entry.more_earlier,
    }


def _value(value: StateValue) -> dict[str, Any]:
    return {
        "record": wire.record(value.record),
        "session": value.session,
        "name": value.name,
        "agent": value.agent,
        "turn": value.turn,
        "seq": value.seq,
        "commit": value.commit,
        "happened": value.happened,
        "source": value.source,
        "trust": value.trust,
        "scope": value.scope,
        "anchors": [{"path": path, "digest": digest} for path, digest in value.anchors],
        "revision": value.revision,
    }


def call_as_json(row: CallRow) -> dict[str, Any]:
    return {
        "session": row.session,
        "call": row.call,
        "tool": row.tool,
        "turn": row.turn,
        "seq": row.seq,
        "at": row.at,
        "cause": row.cause,
    }
