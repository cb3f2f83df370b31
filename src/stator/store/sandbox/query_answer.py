"""Answers one query in a process of its own: it is bounded, opens the store to read, and writes to a pipe.

It reads a `Job` from standard input and writes frames to standard output, each with its length
before it: `Ready` when the store is open, then the columns, rows, and the end or an error. `process`
starts it and reads them. Each kind of store has a module that opens it and is the process's own (`child`).
"""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import resource
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, BinaryIO

import apsw
import msgspec

from stator.errors import BadQuery, StatorError
from stator.model.views.sql_views import AS_IS, Shown
from stator.store.sandbox import query
from stator.store.sandbox.shown_costs import with_costs
from stator.store.sandbox.shown_statuses import as_shown
from stator.store.sandbox.view_tables import RowSource

HEAP_MAX = 128 * 1024 * 1024
"""What SQLite may allocate in this process."""
SPACE_MAX = 1024 * 1024 * 1024
"""What the process may map: SQLite's heap, the rows as Python values, Python itself."""
FILE_MAX = 1024 * 1024 * 1024
"""How large a temporary file may become."""
ANSWER_MAX = 64 * 1024 * 1024
"""How large an answer may be."""
SPARE_S = 10
"""How much longer than the query it may compute, should nobody be there any more to end it."""


class Job(msgspec.Struct):
    """One query and its limits."""

    given: Any
    """What the store is opened by."""
    query: str
    row_limit: int
    seconds: float
    shown: Shown = AS_IS
    """What the views show that the log does not have."""


class Ready(msgspec.Struct, tag="ready"):
    """The store is open; the time of the query begins."""


class Columns(msgspec.Struct, tag="columns"):
    names: list[str]


class AnswerRow(msgspec.Struct, tag="row"):
    cells: tuple[Any, ...]


class AnswerEnd(msgspec.Struct, tag="end"):
    """The answer is complete."""


class Failed(msgspec.Struct, tag="failed"):
    """One of Stator's errors, as `wire()` gives it."""

    code: str
    what: str
    hint: str


Opened = Callable[[Any], AbstractContextManager[RowSource]]
"""Opens a store by what a job gives for it."""
Frame = Ready | Columns | AnswerRow | AnswerEnd | Failed
PREFIX = 4
"""Bytes of a frame's length."""


def answer(opened: Opened) -> None:
    """Answer the job on standard input."""
    with os.fdopen(0, "rb") as stream:
        job = msgspec.msgpack.decode(stream.read(), type=Job)
    limit(job.seconds)
    with os.fdopen(1, "wb") as out, contextlib.suppress(BrokenPipeError):
        try:
            _answer(job, opened, out)
        except MemoryError:
            _write_error(out, query.too_large())
        except StatorError as error:
            _write_error(out, error)


def limit(seconds: float) -> None:
    """Bound this process. It cannot lift the bounds again."""
    apsw.hard_heap_limit(HEAP_MAX)
    for name, most in {
        resource.RLIMIT_AS: SPACE_MAX,
        resource.RLIMIT_FSIZE: FILE_MAX,
        resource.RLIMIT_CPU: math.ceil(seconds) + SPARE_S,
        resource.RLIMIT_CORE: 0,
    }.items():
        _, hard = resource.getrlimit(name)
        value = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(name, (value, value))


def _answer(job: Job, opened: Opened, out: BinaryIO) -> None:
    with opened(job.given) as source:
        _write(out, Ready())
        out.flush()
        seen = with_costs(as_shown(source, job.shown), job.shown.costs)
        with query.opened(seen, job.query) as (names, rows):
            left = ANSWER_MAX - _write(out, Columns(names))
            for row in itertools.islice(rows, job.row_limit):
                left -= _write(out, AnswerRow(row), left)
        _write(out, AnswerEnd())


def _write(out: BinaryIO, frame: Frame, most: int = ANSWER_MAX) -> int:
    """Write a frame of at most so many bytes; return how many they are."""
    data = msgspec.msgpack.encode(frame)
    if len(data) > most:
        raise BadQuery(
            f"the answer is larger than {ANSWER_MAX // 2**20} MiB",
            hint="ask for fewer rows with -n, or for less of each with substr()",
        )
    out.write(len(data).to_bytes(PREFIX, "big"))
    out.write(data)
    return len(data)


def _write_error(out: BinaryIO, error: StatorError) -> None:
    _write(out, Failed(error.code, error.what, error.hint))
