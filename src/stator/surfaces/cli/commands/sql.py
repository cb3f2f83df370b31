"""`stator sql`: runs read-only SQL over the store's documented views."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any

from stator.errors import BadQuery
from stator.model.log.query import check_limit
from stator.model.views.sql_views import SQL_EXAMPLES, SQL_VIEWS, Shown, columns_of
from stator.runtime.views.glance.sql_costs import shown_costs
from stator.runtime.views.glance.sql_statuses import shown_calls, shown_sessions
from stator.surfaces.cli.parts.open_store import open_to_query
from stator.surfaces.cli.render import table as tables
from stator.surfaces.cli.render.escape import lines
from stator.surfaces.cli.render.lines import Line
from stator.surfaces.cli.render.record_line import brief
from stator.surfaces.cli.render.screen import Screen, note
from stator.surfaces.cli.render.table import Column

if TYPE_CHECKING:
    from stator.surfaces.cli.options import JsonFlag, LimitOption, NoPagerFlag, StoreOption

EXAMPLES = """
stator sql                         the views, their columns and five questions
stator sql "SELECT tool, status, count(*) FROM calls GROUP BY 1, 2"
stator sql "SELECT path, op, turn FROM files ORDER BY seq DESC" -n 20
stator sql "SELECT topic, what, why FROM decisions" --json
stator sql "SELECT project, sum(tokens) FROM sessions GROUP BY 1" --csv
"""
LIMIT = 1000
SECONDS, SECONDS_MAX = 5.0, 600.0
CELL_MAX = 60
INDENT = 12
"""Cells before the columns of a view."""


def sql(
    query: str | None = None,
    /,
    *,
    csv: bool = False,
    table: bool = False,
    limit: LimitOption = None,
    seconds: float = SECONDS,
    store: StoreOption = None,
    json: JsonFlag = False,
    no_pager: NoPagerFlag = False,
) -> int:
    """Run a read-only SQL query over documented views.

    Without a query, lists the views with their columns, and five questions with their queries.

    Parameters
    ----------
    query
        One SELECT statement.
    csv
        Print comma-separated values, with a header.
    table
        Print a table, cut to the width of the screen: the default.
    seconds
        Stop the query after this many seconds (default 5).
    """
    count = check_limit(LIMIT if limit is None else limit)
    if not 0 < seconds <= SECONDS_MAX:
        raise BadQuery(
            f"--seconds must be more than 0 and at most {SECONDS_MAX:g}, got {seconds:g}"
        )
    if csv + table + json > 1:
        raise BadQuery("use only one of --csv, --table and --json")
    if query is None:
        with Screen(json=json, pager=not no_pager) as screen:
            _list_views(screen)
        return 0
    if "\0" in query:
        raise BadQuery("the query contains a NUL character")
    with open_to_query(store) as opened, Screen(json=json, pager=not no_pager) as screen:
        reading = opened.store.as_read
        shown = Shown(
            shown_calls(reading, _checked(query)),
            shown_costs(reading, opened.prices(), query),
            shown_sessions(reading, query),
        )
        names, found = opened.store.port.sql(
            query, row_limit=count + 1, seconds=seconds, shown=shown
        )
        rows = found[:count]
        if json:
            keys = _distinct(names)
            for row in rows:
                screen.item(dict(zip(keys, map(_in_json, row), strict=True)))
        elif csv:
            _csv(screen, names, rows)
        else:
            _table(screen, names, rows)
        if not rows:
            return opened.report_empty("no rows")
        if len(found) > count:
            note(f"stopped after {count:,} rows; change the limit with -n N")
    return 0


def _list_views(screen: Screen) -> None:
    """Show the views and their columns, then questions with their queries."""
    if screen.json:
        for view, (about, _) in SQL_VIEWS.items():
            columns = [{"name": name, "type": kind} for name, kind in columns_of(view)]
            screen.item({"view": view, "about": about, "columns": columns})
        return
    for view, (about, _) in SQL_VIEWS.items():
        screen.line(Line().add(view, "bold", width=INDENT).add(about, "dim"))
        names = " ".join(name for name, _ in columns_of(view))
        screen.line(Line(" " * INDENT).add(names), hang=INDENT)
    screen.line()
    for question, query in SQL_EXAMPLES:
        screen.line(Line(question, "title"))
        screen.whole([Line(f'  stator sql "{query}"')])


def _csv(screen: Screen, names: list[str], rows: list[tuple[Any, ...]]) -> None:
    """Comma-separated values, as they are in a pipe; on a terminal escaped."""
    import csv as format_csv
    import io

    text = io.StringIO()
    writer = format_csv.writer(text, lineterminator="\n")
    writer.writerow(names)
    writer.writerows(rows)
    if screen.is_terminal:
        screen.whole(Line(line) for line in lines(text.getvalue().removesuffix("\n")))
    else:
        screen.verbatim(text.getvalue())


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
    right = [all(_is_number(row[place]) for row in rows) for place in range(len(names))]
    columns = [
        Column(title=brief(name, CELL_MAX), right=number, shrinks=not number, keep=True)
        for name, number in zip(names, right, strict=True)
    ]
    screen.lines(tables.table(columns, shown, screen.cut))


def _is_number(cell: Any) -> bool:
    return cell is None or isinstance(cell, (int, float))
