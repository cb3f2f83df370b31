"""Statements on their way to the server and rows on their way back: one write, then everything is read.

The driver's own pipeline sends each statement by itself, so that the server is woken for each, and converts lists one
element at a time. Values here are of few types, and the text of a statement says which lists there are.

What every append needs is prepared once for a connection, if that leads to one server process, whose id says so. Behind
a pooler nothing is. The name of a prepared statement is a digest of its text, so that none is taken for another.
"""

from __future__ import annotations

import functools
import re
import select
from collections.abc import Mapping, Sequence
from hashlib import sha256
from struct import Struct
from typing import Any, NamedTuple

import psycopg
from psycopg import errors as pg
from psycopg import pq
from psycopg.adapt import Transformer

from stator.store.postgres.patience import ANSWER_S, Silent, wait_for, while_it_moves
from stator.store.sql import statements

Rows = list[tuple[Any, ...]]
Text = tuple[str, Mapping[str, Any] | None]

BOOL, BYTEA, INT8, INT4, TEXT = 16, 17, 20, 23, 25
ARRAYS = {BOOL: 1000, BYTEA: 1001, INT8: 1016, INT4: 1007, TEXT: 1009}
ELEMENTS = {"boolean": BOOL, "bytea": BYTEA, "bigint": INT8, "integer": INT4, "text": TEXT}
BINARY, PLAIN = 1, 0
KEPT = ("settings", "append", "rec_end", "blob_insert", "blob_use_insert")
"""Statements that a connection prepares: those of an append."""
_KEPT_TEXTS = frozenset(map(statements("postgres.sql").__getitem__, KEPT))

NOT_PREPARED = (pg.InvalidSqlStatementName, pg.DuplicatePreparedStatement)

_parameter = re.compile(r"%\((\w+)\)s(?:::(\w+)\[\])?|%%")
_int8, _int4, _size = Struct(">q"), Struct(">i"), Struct(">i")
_head = Struct(">iiIii")


class Link(psycopg.Connection[Any]):
    """A connection, what is prepared on it, and how long it may be silent."""

    patience_s = ANSWER_S

    def wait(self, gen: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return super().wait(while_it_moves(gen, self.patience_s), *args, **kwargs)
        except Silent:
            self.close()  # what it says later would answer the next question
            raise

    def __init__(self, *given: Any, **options: Any) -> None:
        super().__init__(*given, **options)
        self.prepared: set[bytes] = set()
        self.warned = ""
        """What the server warned of while it answered."""
        self._is_direct = False
        self._is_refused = False

    @property
    def prepares(self) -> bool:
        """Whether statements are prepared on it: it leads to one server process, as far as is known."""
        return self._is_direct and not self._is_refused

    def answered_by(self, process: int) -> None:
        """The server process that answered is known."""
        self._is_direct = process == self.info.backend_pid

    def refused(self) -> None:
        """What was prepared is not there, or was there already: something stands in between after all."""
        self._is_refused = True


class _Parsed(NamedTuple):
    """A statement as the protocol takes it."""

    text: bytes
    names: tuple[str, ...]
    elements: tuple[int, ...]
    """The type of the elements of each list, as a cast names it; 0 where there is none."""
    is_kept: bool


@functools.cache
def _parsed(text: str) -> _Parsed:
    elements: dict[str, int] = {}
    for name, cast in _parameter.findall(text):
        if name:
            elements[name] = elements.get(name) or (ELEMENTS[cast] if cast else 0)
    places = {name: n for n, name in enumerate(elements, 1)}

    def place(found: re.Match[str]) -> str:
        if not found[1]:
            return "%"
        return f"${places[found[1]]}" + (f"::{found[2]}[]" if found[2] else "")

    plain = _parameter.sub(place, text).encode()
    return _Parsed(plain, tuple(elements), tuple(elements.values()), text in _KEPT_TEXTS)


def exchange(link: Link, texts: Sequence[Text]) -> list[Rows]:
    """The rows of each statement, after one round trip. What the server refuses is raised as the driver raises it."""
    connection = link.pgconn
    connection.enter_pipeline_mode()
    try:
        made: list[bytes | None] = []
        for text, values in texts:
            _send(link, _parsed(text), values or {}, made)
        connection.pipeline_sync()
        results = _results(connection, link.patience_s)
        connection.exit_pipeline_mode()
    except BaseException:  # what is still under way would be taken for the answer to something else
        link.close()
        raise
    for result, name in zip(results, made, strict=True):
        if result.status == pq.ExecStatus.FATAL_ERROR:
            error = pg.error_from_result(result, encoding="utf-8")
            if isinstance(error, NOT_PREPARED):
                link.refused()
            raise error
        if name is not None:
            link.prepared.add(name)
    loader = Transformer(link)
    return [
        _rows(loader, result) for result, name in zip(results, made, strict=True) if name is None
    ]


def _send(link: Link, parsed: _Parsed, values: Mapping[str, Any], made: list[bytes | None]) -> None:
    """Add a statement to what is sent; with the name of what it prepares, or None, for each answer to come."""
    given = [
        _encoded(values[name], element)
        for name, element in zip(parsed.names, parsed.elements, strict=True)
    ]
    data = [one[0] for one in given]
    types = [one[1] for one in given]
    formats = [one[2] for one in given]
    if not (parsed.is_kept and link.prepares):
        link.pgconn.send_query_params(parsed.text, data, types, formats, BINARY)
        made.append(None)
        return
    name = _name(parsed.text, tuple(types))
    if name not in link.prepared and name not in made:
        link.pgconn.send_prepare(name, parsed.text, types)
        made.append(name)
    link.pgconn.send_query_prepared(name, data, formats, BINARY)
    made.append(None)


@functools.lru_cache(256)
def _name(text: bytes, types: tuple[int, ...]) -> bytes:
    return b"stator_" + sha256(text + repr(types).encode()).hexdigest()[:24].encode()


def _results(connection: pq.abc.PGconn, patience_s: float) -> list[pq.abc.PGresult]:
    """Send what is left and read until the end of the pipeline."""
    found: list[pq.abc.PGresult] = []
    watched = select.poll()
    while True:
        unsent = connection.flush()
        watched.register(connection.socket, select.POLLIN | (select.POLLOUT if unsent else 0))
        wait_for(watched, patience_s)
        connection.consume_input()
        while not connection.is_busy():
            result = connection.get_result()
            if result is None:
                if connection.status == pq.ConnStatus.BAD:
                    raise psycopg.OperationalError(connection.get_error_message())
            elif result.status == pq.ExecStatus.PIPELINE_SYNC:
                return found
            else:
                found.append(result)


def _rows(loader: Any, result: pq.abc.PGresult) -> Rows:
    if not result.ntuples:
        return []
    loader.set_pgresult(result, set_loaders=True, format=pq.Format.BINARY)
    rows: Rows = loader.load_rows(0, result.ntuples, tuple)
    return rows


# -- values ---------------------------------------------------------------------------------------


def _encoded(value: Any, element: int) -> tuple[bytes | None, int, int]:
    """A value as it is sent, its type, and whether it is binary."""
    kind = type(value)
    if kind is list or kind is tuple:
        return _array(value, element)
    if value is None:
        return None, ARRAYS[element] if element else 0, BINARY
    if kind is bool:
        return _bool(value), BOOL, BINARY
    if kind is int:
        return _int8.pack(value), INT8, BINARY
    if kind is str:
        return value.encode(), TEXT, BINARY
    return bytes(value), BYTEA, BINARY


def _bool(value: bool) -> bytes:
    return b"\1" if value else b"\0"


_ENCODE: dict[int, Any] = {
    BOOL: _bool,
    BYTEA: bytes,
    INT8: _int8.pack,
    INT4: _int4.pack,
    TEXT: str.encode,
}
_TYPES = {bool: BOOL, int: INT8, str: TEXT, bytes: BYTEA}


def _array(values: Sequence[Any], element: int) -> tuple[bytes, int, int]:
    if not element:
        known = next((one for one in values if one is not None), None)
        if known is None:
            return b"{" + b",".join([b"NULL"] * len(values)) + b"}", 0, PLAIN
        element = _TYPES[type(known)]
    if not values:
        return _head.pack(0, 0, element, 0, 0)[:12], ARRAYS[element], BINARY
    encode = _ENCODE[element]
    parts = [_head.pack(1, None in values, element, len(values), 1)]
    for one in values:
        if one is None:
            parts.append(b"\xff\xff\xff\xff")
        else:
            data = encode(one)
            parts += (_size.pack(len(data)), data)
    return b"".join(parts), ARRAYS[element], BINARY
