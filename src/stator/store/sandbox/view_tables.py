"""The documented views as virtual tables: all that the connection of a query holds.

The connection that runs the query holds no file, and knows the names in `VIEWS` and no other. A virtual table is the
only way from it to the store, and what that may ask is written here: the columns of one view, of all sessions or of one
(`RowSource`). A name in a query is looked up on this connection alone. So whatever a query calls its parts, a table of
the store is not among the things it can name.

Each table answers "which session" and "which place in it" from the store's keys. Everything else of
a query is SQLite's: it checks every condition itself, these two as well.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import apsw
import msgspec

from stator.model.views.sql_views import SQL_VIEWS, columns_of

PLACES = 2**40
"""A place in a session's log is below this: the key of a commit is (session << 40) | place."""
_ALL_ROWS, _SESSION_ROWS, _ONE_ROW = 1_000_000, 10_000, 10
"""What SQLite is to expect; the order of a join depends on how they compare, not on how true they are."""


class View(msgspec.Struct, frozen=True):
    """One documented view: its columns, and how the rows of one session are found."""

    name: str
    columns: tuple[str, ...]
    """As SQLite declares them: a name and INTEGER, REAL or TEXT."""
    key: tuple[str, ...]
    """Columns, hidden from queries, that tell its rows apart."""
    session: str = "session"
    """The column that holds the id of a session."""
    place: str | None = None
    """The column by which the rows of one session are found."""
    unique: bool = False
    """Whether session and place name one row."""

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.split()[0] for column in self.columns)


_BY_RECORD = {
    "key": ("s", "c", "seq", "n"),
    "place": "seq",
}
_KEYS: dict[str, dict[str, Any]] = {
    "sessions": {"key": ("s",), "session": "id", "unique": True},
    "commits": {
        "key": ("k",),
        "place": "seq",
        "unique": True,
    },
    "turns": {
        "key": ("s", "turn"),
        "place": "turn",
        "unique": True,
    },
    "calls": {
        "key": ("s", "seq"),
        "place": "seq",
        "unique": True,
    },
    "spend": {"key": ("s", "unit")},
}
"""What tells the rows of a view apart and how those of one session are found, where that is not by record."""


def _view(name: str) -> View:
    columns = tuple(f"{column} {kind}" for column, kind in columns_of(name))
    return View(name, columns, **_KEYS.get(name, _BY_RECORD))


VIEWS = {name: _view(name) for name in SQL_VIEWS}
"""What a query may name; docs/reference/sql.md says what the columns mean."""

_SIGNS = {
    apsw.SQLITE_INDEX_CONSTRAINT_EQ: "=",
    apsw.SQLITE_INDEX_CONSTRAINT_GT: ">",
    apsw.SQLITE_INDEX_CONSTRAINT_GE: ">=",
    apsw.SQLITE_INDEX_CONSTRAINT_LT: "<",
    apsw.SQLITE_INDEX_CONSTRAINT_LE: "<=",
}
_OWNER, _PLACE = "session", "place"
_IS_SESSION = re.compile("s_(?:[0-9a-f]{2})+").fullmatch


class Bounds(NamedTuple):
    """The rows of one session between two places."""

    s: int
    low: int
    high: int


class RowSource(Protocol):
    """Reads the store for the views."""

    def ordinal(self, identifier: bytes) -> int | None:
        """The store's number of a session."""

    def rows(
        self, view: View, columns: Collection[str], bounds: Bounds | None
    ) -> Iterator[tuple[Any, ...]]:
        """The rows of a view, or those of one session: a value for each column, NULL for one that is not in `columns`,
        and after them the key."""


def offer(sandbox: apsw.Connection, source: RowSource) -> None:
    """Make the views known to a connection that holds nothing."""
    for view in VIEWS.values():
        module: Any = _Module(_Table(view, source))  # of what apsw names, all that reading needs
        sandbox.create_module(
            view.name,
            module,
            use_bestindex_object=True,
            eponymous_only=True,
            read_only=True,
        )


class _Module:
    """What SQLite asks for a table when a query names one."""

    def __init__(self, table: _Table) -> None:
        self._table = table

    def Connect(self, db: Any, module: str, database: str, name: str, *arguments: Any) -> Any:
        return f"CREATE TABLE view ({', '.join(self._table.view.columns)})", self._table


class _Term(msgspec.Struct, frozen=True):
    """A condition that the store's keys can answer."""

    about: str
    """`_OWNER` or `_PLACE`."""
    sign: str


class _ReadPlan(msgspec.Struct, frozen=True):
    """How a view is read for one part of a query: which columns, and by which conditions."""

    columns: frozenset[str]
    terms: tuple[_Term, ...]


class _Table:
    """One view, for SQLite's planner."""

    def __init__(self, view: View, source: RowSource) -> None:
        self.view = view
        self.source = source
        self.plans: list[_ReadPlan] = []
        self._ordinals: dict[str, int | None] = {}

    def BestIndexObject(self, info: apsw.IndexInfo) -> bool:
        """Choose the conditions that the store's keys answer; `Filter` is given the number of the plan."""
        found = {
            number: term
            for number in range(info.nConstraint)
            if (term := self._term(info, number)) is not None
        }
        owned = any(term.about == _OWNER for term in found.values())
        if not owned:  # a place is one only in a session
            found = {}
        for argument, number in enumerate(found, 1):
            info.set_aConstraintUsage_argvIndex(number, argument)
        placed = self.view.place is None or _Term(_PLACE, "=") in found.values()
        if owned and placed and self.view.unique:
            info.idxFlags = apsw.SQLITE_INDEX_SCAN_UNIQUE
        rows = _ONE_ROW if owned and placed else _SESSION_ROWS if owned else _ALL_ROWS
        info.estimatedRows = rows
        info.estimatedCost = float(rows)
        info.idxNum = len(self.plans)
        used = frozenset(name for at, name in enumerate(self.view.names) if at in info.colUsed)
        self.plans.append(_ReadPlan(used, tuple(found.values())))
        return True

    def _term(self, info: apsw.IndexInfo, number: int) -> _Term | None:
        column = info.get_aConstraint_iColumn(number)
        sign = _SIGNS.get(info.get_aConstraint_op(number))
        if sign is None or column < 0 or not info.get_aConstraint_usable(number):
            return None
        if info.get_aConstraint_collation(number).upper() != "BINARY":
            return None
        name = self.view.names[column]
        if name == self.view.session:
            return _Term(_OWNER, sign) if sign == "=" else None
        return _Term(_PLACE, sign) if name == self.view.place else None

    def ordinal(self, session: Any) -> int | None:
        """The store's number of a session; only a text such as `s_` and 32 digits is the id of one."""
        if type(session) is not str or not _IS_SESSION(session):
            return None
        if session not in self._ordinals:
            self._ordinals[session] = self.source.ordinal(bytes.fromhex(session[2:]))
        return self._ordinals[session]

    def Open(self) -> _Cursor:
        return _Cursor(self)

    def Disconnect(self) -> None:
        """Nothing is held: the connections belong to the caller."""


class _Cursor:
    """One walk over a view, which may begin again with other values."""

    def __init__(self, table: _Table) -> None:
        self._table = table
        self._width = len(table.view.columns)
        self._rows: Iterator[tuple[Any, ...]] = iter(())
        self._row: tuple[Any, ...] | None = None

    def Filter(self, number: int, name: str | None, values: Sequence[Any]) -> None:
        plan, table = self._table.plans[number], self._table
        if plan.terms:
            self._rows = self._of_session(plan, values)
        else:
            self._rows = table.source.rows(table.view, plan.columns, None)
        self.Next()

    def _of_session(self, plan: _ReadPlan, values: Sequence[Any]) -> Iterator[tuple[Any, ...]]:
        sessions: set[int | None] = set()
        low, high = 0, PLACES - 1
        for term, value in zip(plan.terms, values, strict=True):
            if term.about == _OWNER:
                sessions.add(self._table.ordinal(value))
            elif (
                type(value) is int
            ):  # a text may compare as equal to a number: SQLite decides, row by row
                if term.sign in ("=", ">", ">="):
                    low = max(low, value + (term.sign == ">"))
                if term.sign in ("=", "<", "<="):
                    high = min(high, value - (term.sign == "<"))
        s = sessions.pop()
        if sessions or s is None or low > high:
            return iter(())
        table = self._table
        return table.source.rows(table.view, plan.columns, Bounds(s, low, high))

    def Next(self) -> None:
        self._row = next(self._rows, None)

    def Eof(self) -> bool:
        return self._row is None

    def Column(self, number: int) -> Any:
        assert self._row is not None
        return self._row[number] if number >= 0 else self.Rowid()

    def Rowid(self) -> int:
        """A number that is the same whenever SQLite sees this row; it compares rows by it."""
        assert self._row is not None
        return hash(self._row[self._width :]) & (2**63 - 1)

    def Close(self) -> None:
        """Let the store's rows go."""
        self._rows = iter(())
