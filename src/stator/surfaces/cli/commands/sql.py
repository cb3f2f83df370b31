"""`stator sql`: runs read-only SQL over the store's documented views."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any

from stator.errors import BadQuery
from stator.model.log.query import check_limit
from stator.surfaces.cli.parts.open_store import open_to_read
from stator.surfaces.cli.render.lines import Line, widest
from stator.surfaces.cli.render.record_line import brief
from stator.surfaces.cli.render.screen import Screen, note

if TYPE_CHECKING:
    from stator.surfaces.cli.options import CountOption, JsonFlag, NoPagerFlag, StoreOption

EXAMPLES = """
stator sql "SELECT tool, status, count(*) FROM calls GROUP BY 1, 2"
stator sql "SELECT path, op, turn FROM files ORDER BY seq DESC" -n 20
stator sql "SELECT topic, what, why FROM decisions" --json
"""
LIMIT = 1000
SECONDS, SECONDS_MAX = 5.0, 600.0
CELL_MAX = 60


def sql(
    query: str,
    /,
    *,
    limit: CountOption = None,
    seconds: float = SECONDS,
    store: StoreOption = None,
    json: JsonFlag = False,
    no_pager: NoPagerFlag = False,
) -> int:
    """Run a read-only SQL query over documented views.

    The views are sessions, commits, turns, calls, records, files and decisions.

    Parameters
    ----------
    query
        One SELECT statement.
    seconds
        Stop the query after this many seconds (default 5).
    """
    count = check_limit(LIMIT if limit is None else limit)
    if not 0 < seconds <= SECONDS_MAX:
        raise BadQuery(
            f"--seconds must be more than 0 and at most {SECONDS_MAX:g}, got {seconds:g}"
        )
    if "\0" in query:
        raise BadQuery("the query contains a NUL character")
    with open_to_read(store) as opened, Screen(json=json, pager=not no_pager) as screen:
        names, rows = opened.store.port.sql(_checked(query), row_limit=count, seconds=seconds)
        if json:
            keys = _distinct(names)
            for row in rows:
                screen.item(dict(zip(keys, map(_in_json, row), strict=True)))
        else:
            _table(screen, names, rows)
        if not rows:
            return opened.report_empty("no rows")
        if len(rows) == count:
            note(f"stopped after {count:,} rows; change the limit with -n N")
    return 0


def _checked(query: str) -> str:
    """The query, checked: SQLite accepts only UTF-8."""
    try:
        query.encode()
    except UnicodeEncodeError:
        raise BadQuery("the query is not valid UTF-8") from None
    return query


def _distinct(names: list[str]) -> list[str]:
    """The names of columns as keys of one object: a name that is taken gets a number, as in SQLite's subqueries."""
    found: dict[str, None] = {}
    for name in names:
        free = (f"{name}:{number}" if number else name for number in itertools.count())
        found[next(one for one in free if one not in found)] = None
    return list(found)


def _in_json(cell: Any) -> Any:
    """JSON has no infinity."""
    return None if isinstance(cell, float) and math.isinf(cell) else cell


def _table(screen: Screen, names: list[str], rows: list[tuple[Any, ...]]) -> None:
    shown = [[brief(cell, CELL_MAX) if cell is not None else "" for cell in row] for row in rows]
    widths = [
        widest([name, *(row[place] for row in shown)], CELL_MAX) for place, name in enumerate(names)
    ]
    right = [all(isinstance(row[place], int) for row in rows) for place in range(len(names))]
    header = Line()
    for name, width, is_number in zip(names, widths, right, strict=True):
        header.add(name, "title", width=width, right=is_number).add("  ")
    screen.line(header)
    for row in shown:
        line = Line()
        for cell, width, is_number in zip(row, widths, right, strict=True):
            line.add(cell, width=width, right=is_number).add("  ")
        screen.line(line)
