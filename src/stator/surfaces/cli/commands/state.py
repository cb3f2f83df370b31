"""`stator state`: shows the state at a position."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING

from stator.errors import BadPosition, BadQuery
from stator.model.log.query import CallRow
from stator.model.records.tables import COLLECTIONS
from stator.model.records.types import Record, WorkingRecord
from stator.model.values.ids import short
from stator.model.views.knowledge import DURABLE
from stator.model.views.project_state import StateEntry
from stator.runtime.facade.projects import STATE_LIMIT
from stator.runtime.facade.store import Store
from stator.runtime.views.as_read import is_history
from stator.surfaces.cli.parts.open_store import open_to_read, title
from stator.surfaces.cli.render import documents, project_entries, record_line, unplaced_items
from stator.surfaces.cli.render.lines import Line
from stator.surfaces.cli.render.progress import delayed_bar
from stator.surfaces.cli.render.screen import Screen

if TYPE_CHECKING:
    from stator.surfaces.cli.options import (
        CollectionOption,
        JsonFlag,
        LimitOption,
        NoPagerFlag,
        PlaceArgument,
        ProjectFlag,
        SessionOption,
        StoreOption,
    )

DOUBTS_MAX = 20
"""Calls in doubt that are listed."""
UNVERIFIED = "unverified"
"""In the place of a collection of a project: what rests on an untrusted root, in every collection."""
EXAMPLES = """
stator state                       the current state
stator state t3                    the state at the end of turn 3
stator state -c decisions -c facts
stator state fix-login:release --json | jq .facts
stator state --project             what every session of this project knows
stator state --project -c unverified   only what rests on something that nobody vouches for
stator state --user                what holds for you in every project
"""


def state(
    *what: PlaceArgument,
    session: SessionOption = None,
    collection: CollectionOption = None,
    project: ProjectFlag = False,
    user: bool = False,
    limit: LimitOption = None,
    store: StoreOption = None,
    json: JsonFlag = False,
    no_pager: NoPagerFlag = False,
) -> int:
    """Show the state at a position, collection by collection.

    Parameters
    ----------
    user
        For every project of yours: what holds for you.
    """
    if project or user:
        if what or session is not None or (project and user):
            raise BadQuery("--project and --user take no position, no session and not each other")
        return _of_project(
            collection or [], store, user=user, limit=limit, json=json, pager=not no_pager
        )
    if UNVERIFIED in (collection or []):
        raise BadQuery(
            f"{UNVERIFIED} is a question about the project",
            hint=f"stator state --project --collection {UNVERIFIED}",
        )
    names = _known(collection or [])
    if limit is not None:
        raise BadQuery("-n needs --project or --user")
    with open_to_read(store) as opened, Screen(json=json, pager=not no_pager) as screen:
        view, position = opened.named(what, session)
        if position is not None and ".." in position:
            raise BadPosition(
                "a state is that of one position",
                hint=f"stator diff {short(view.id)} {position} shows what changed",
            )
        point = view.at(position or "head")
        if json:
            screen.document(documents.STATE, documents.state(view, position, names))
            return 0
        waiting = view.unplaced() if point.shown == "head" and not names else []
        title(screen, view, opened, f"state at {point.shown}")
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


def _of_project(
    given: list[str], store: str | None, *, user: bool, limit: int | None, json: bool, pager: bool
) -> int:
    names = _known([name for name in given if name != UNVERIFIED])
    only = UNVERIFIED in given
    for name in names:
        if name not in DURABLE:
            raise BadQuery(f"{name!r:.40} ends with its session", hint=", ".join(DURABLE))
    with open_to_read(store) as opened, Screen(json=json, pager=pager) as screen:
        with delayed_bar(screen, opened.store.context.monotonic) as progress:
            found = opened.store.state(
                user=user, limit=STATE_LIMIT if limit is None else limit, progress=progress
            )
        shown = {name: found[name] for name in names or DURABLE}
        if only:
            shown = {
                name: [one for one in entries if _is_doubtful(one)]
                for name, entries in shown.items()
            }
        names = names or ([UNVERIFIED] if only else [])
        asked = [] if user or names else list(islice(in_doubt(opened.store), DOUBTS_MAX + 1))
        is_cut = len(asked) > DOUBTS_MAX
        asked = asked[:DOUBTS_MAX]
        if json:
            document = project_entries.as_json(found, shown)
            if not user and not names:
                document["in_doubt"] = [project_entries.call_as_json(row) for row in asked]
                document["in_doubt_cut"] = is_cut
            screen.document("stator.project_state/1", document)
            return 0
        lines = project_entries.lines(
            shown, {} if only else found.more, opened.now, whole=bool(names)
        )
        lines += project_entries.doubt_lines(asked, opened.names(), opened.now)
        if is_cut:
            lines.append(Line(f"… more than these {DOUBTS_MAX} in doubt: stator settle", "dim"))
        screen.lines(lines, hang=project_entries.INDENT)
        if not lines:
            what = (
                "nothing holds for you in every project yet"
                if user
                else (
                    f"no session of this project ({found.project or 'without a name'}) recorded anything that lasts"
                )
            )
            return opened.report_empty(what)
    return 0


def _is_doubtful(entry: StateEntry) -> bool:
    return bool(entry.unverified) or any(one.unverified for one in entry.conflicts)


def in_doubt(store: Store) -> Iterator[CallRow]:
    """Calls of this project that a person is asked about."""
    here = store.context.project
    page = store.calls(project=here, statuses=("in doubt",), limit=DOUBTS_MAX * 4)
    for row in page.rows:
        if not is_history(store.as_read, row.session, row.outcome or row.seq):
            yield row


def _known(given: list[str]) -> list[str]:
    for name in given:
        if name not in COLLECTIONS:
            raise BadQuery(f"unknown collection {name!r:.40}", hint=", ".join(COLLECTIONS))
    return given
