"""What a project or a user knows, as lines for people and as JSON."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from stator.model.log.query import CallRow
from stator.model.records.types import KEYLESS, PreferenceRecord, WorkingRecord
from stator.model.values.ids import short
from stator.model.views.project_state import ProjectState, StateEntry, StateValue
from stator.surfaces.cli.render import wire
from stator.surfaces.cli.render.lines import Line, fit
from stator.surfaces.cli.render.record_line import of_record, recorded
from stator.surfaces.cli.render.times import ago

NAME_WIDTH = 20
"""Columns of a session's name and turn."""
TIME_WIDTH = 10
INDENT = 2 + TIME_WIDTH + 1 + NAME_WIDTH + 2
"""The column in which what is known begins."""
FILES_SHOWN = 4
PARTS_SHOWN = 3
"""Parts of a path that are shown of a file in use."""


def lines(
    shown: Mapping[str, Sequence[StateEntry]], more: Mapping[str, int], now: int, *, whole: bool
) -> list[Line]:
    """The entries by collection, a line each, and what is in conflict below it. Unless the `whole` list is wanted,
    files in use are only counted."""
    found: list[Line] = []
    for name, entries in shown.items():
        if not entries:
            continue
        rest = more.get(name, 0)
        files = [] if whole else [entry for entry in entries if _is_file_in_use(entry)]
        found.append(Line(name.replace("_", " "), "title").add(f" {len(entries) + rest:,}", "dim"))
        for entry in entries:
            if entry not in files:
                found += _entry(entry, now)
        if files:
            found.append(_in_use(files, rest))
        elif rest:
            found.append(Line(f"  … and {rest:,} older: -n {len(entries) + rest}", "dim"))
    return found


def _is_file_in_use(entry: StateEntry) -> bool:
    record = entry.record
    return isinstance(record, WorkingRecord) and record.kind == "file" and not record.detail


def _in_use(files: Sequence[StateEntry], rest: int) -> Line:
    names = [_last_parts(str(getattr(entry.record, "name", ""))) for entry in files[:FILES_SHOWN]]
    more = len(files) + rest - len(names)
    line = Line("  files in use: ", "dim").add(", ".join(names))
    return line.add(f", … {more:,} more: -c working_set" if more else "", "dim")


def _last_parts(path: str) -> str:
    """The end of a long path."""
    parts = path.split("/")
    return path if len(parts) <= PARTS_SHOWN else "…/" + "/".join(parts[-PARTS_SHOWN:])


def _entry(entry: StateEntry, now: int) -> Iterable[Line]:
    line = _where(entry, now).extend(of_record(entry.record)).extend(_marks(entry))
    earlier = len(entry.earlier) + entry.more_earlier
    yield line.add(f" · {earlier} earlier" if earlier else "", "dim")
    for other in entry.conflicts:
        said = _where(other, now).add("conflict: ", "doubt").extend(of_record(other.record))
        yield said.extend(_marks(other))
    if entry.conflicts:
        yield Line("    to resolve it: ", "dim").add(resolve_with(entry), "bold")


def _where(value: StateValue, now: int) -> Line:
    """When a value was recorded, and in which session and turn, in two columns."""
    if value.scope == "session":
        turn = f" t{value.turn}"
        name = fit(value.name or short(value.session), NAME_WIDTH - len(turn)).rstrip() + turn
    else:
        name = "for you, everywhere" if value.scope == "user" else "for the project"
    line = Line("  ").add(ago(value.happened, now), "dim", width=TIME_WIDTH).add(" ")
    return line.add(name, "dim", width=NAME_WIDTH).add("  ")


def _marks(value: StateValue) -> Line:
    """Whose words they are, where that is not the agent, and whether anybody vouches for them."""
    line = Line(" (user)" if value.source == "user" else "", "dim")
    return line.add(f" (unverified, from {value.unverified})" if value.unverified else "", "doubt")


def resolve_with(entry: StateEntry) -> str:
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
        name = fit(names[row.session], NAME_WIDTH - 5).rstrip() + f" t{row.turn}"
        line = Line("  ").add(ago(row.at, now), "dim", width=TIME_WIDTH).add(" ")
        line.add(name, "dim", width=NAME_WIDTH).add("  ").add(row.tool, "bold")
        found.append(line.add(f"  stator settle {short(row.call)}", "bold"))
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
        "unverified": value.unverified,
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
