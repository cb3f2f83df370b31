"""`stator state`: shows the state at a position."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stator.errors import BadQuery
from stator.model.records.tables import COLLECTIONS
from stator.model.records.types import Record, WorkingRecord
from stator.surfaces.cli.parts.open_store import open_to_read, title
from stator.surfaces.cli.render import record_line, unplaced_items, wire
from stator.surfaces.cli.render.lines import Line
from stator.surfaces.cli.render.screen import Screen

if TYPE_CHECKING:
    from stator.surfaces.cli.options import (
        CollectionOption,
        JsonFlag,
        NoPagerFlag,
        SessionOption,
        StoreOption,
    )

EXAMPLES = """
stator state                       the current state
stator state t3                    the state at the end of turn 3
stator state -c decisions -c facts
stator state fix-login:release --json | jq .facts
"""


def state(
    ref: str | None = None,
    /,
    *,
    session: SessionOption = None,
    collection: CollectionOption = None,
    store: StoreOption = None,
    json: JsonFlag = False,
    no_pager: NoPagerFlag = False,
) -> int:
    """Show the state at a position, collection by collection.

    Parameters
    ----------
    ref
        A position (t5, @42, a tag, SESSION:t5) or a session; default: the head.
    """
    names = _known(collection or [])
    with open_to_read(store) as opened, Screen(json=json, pager=not no_pager) as screen:
        view, position = opened.resolve(session, ref)
        point = view.at(position or "head")
        now = point.shown == "head" and not names
        waiting = view.unplaced() if now else []
        if json:
            found = view.state(position or "head", collections=names)
            document = {
                name: {key: wire.record(record) for key, record in records.items()}
                for name, records in found.items()
            }
            whole: dict[str, Any] = {"ref": f"{point.session}:@{point.seq}", **document}
            if now:
                whole["unplaced"] = unplaced_items.all_as_json(waiting)
            screen.document("stator.state/1", whole)
            return 0
        title(screen, view, opened.now, f"state at {point.shown}")
        shown = 0
        for name in names or list(COLLECTIONS):
            entries = view.entries(name, position or "head", erased=True)
            if name == "working_set" and not names:  # its files are among the files
                entries = [entry for entry in entries if not _is_plain_file(entry.record)]
            if not entries:
                continue
            screen.line(Line(name, "title").add(f" {len(entries)}", "dim"))
            for entry in entries:
                line = Line("  ").add(f"@{entry.seq}", "id", width=6).add(" ")
                screen.line(line.extend(record_line.of_record(entry.record)))
            shown += len(entries)
        screen.lines(unplaced_items.lines(waiting))
        if not shown and not waiting:
            return opened.report_empty(f"the state is empty at {point.shown}")
    return 0


def _is_plain_file(record: Record) -> bool:
    """Whether a record of the working set says no more than that a file is in use."""
    return isinstance(record, WorkingRecord) and record.kind == "file" and not record.detail


def _known(given: list[str]) -> list[str]:
    for name in given:
        if name not in COLLECTIONS:
            raise BadQuery(f"unknown collection {name!r:.40}", hint=", ".join(COLLECTIONS))
    return given
