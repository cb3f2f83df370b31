"""Runs a query in a process of its own, and ends that process when the query's time is over.

SQLite can be interrupted between two of its steps. But one step may be a function over a long text,
which takes seconds, or a value that takes all memory. A process can be bounded by the system and
ended at any point, whatever it is doing: `query_answer` bounds its memory, and here it is given its time.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import IO, Any

import msgspec

from stator.errors import BadQuery, StatorError, StoreError, StoreFailed
from stator.model.views.sql_views import AS_IS, Shown
from stator.store.sandbox.query import SQL_MAX
from stator.store.sandbox.query_answer import (
    PREFIX,
    AnswerEnd,
    AnswerRow,
    Columns,
    Failed,
    Frame,
    Job,
    Ready,
)

_CHUNK = 64 * 1024
_decode = msgspec.msgpack.Decoder(Frame).decode


def run(
    child_module: str,
    store: str,
    given: Any,
    query: str,
    *,
    row_limit: int,
    seconds: float,
    shown: Shown = AS_IS,
) -> tuple[list[str], list[tuple[Any, ...]]]:
    """The answer to one SELECT over the views, or `BadQuery` saying what is not allowed.

    The module is one that opens a store by what it is `given`; `store` is the name of that store in errors.
    """
    if len(query) > SQL_MAX:
        raise BadQuery(f"the query is longer than {SQL_MAX:,} characters")
    if "\0" in query or query.encode("utf-8", "replace").decode() != query:
        raise BadQuery("a query must be text that UTF-8 can encode, without the character 0")
    names: list[str] = []
    rows: list[tuple[Any, ...]] = []
    with _started(child_module, Job(given, query, row_limit, seconds, shown)) as child:
        for frame in _frames(child, seconds):
            match frame:
                case Columns():
                    names = frame.names
                case AnswerRow():
                    rows.append(frame.cells)
                case Failed():
                    raise _error(frame, store)
                case AnswerEnd():
                    return names, rows
        raise _death(child, store)


@contextlib.contextmanager
def _started(module: str, job: Job) -> Iterator[subprocess.Popen[bytes]]:
    """A process that was given its job; it has ended when the block has."""
    child = subprocess.Popen(
        [sys.executable, "-P", "-m", module],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    with child:
        try:
            with contextlib.suppress(BrokenPipeError):  # it died; its end says why
                _of(child.stdin).write(msgspec.msgpack.encode(job))
                _of(child.stdin).close()
            yield child
        finally:
            child.kill()


def _of(stream: IO[bytes] | None) -> IO[bytes]:
    assert stream is not None
    return stream


def _frames(child: subprocess.Popen[bytes], seconds: float) -> Iterator[Frame]:
    """What the child writes, until it ends. Its time begins when the store is open."""
    deadline: float | None = None
    data = bytearray()
    while chunk := _chunk(child, deadline):
        data += chunk
        at = 0
        while (start := at + PREFIX) <= len(data):
            end = start + int.from_bytes(data[at:start], "big")
            if end > len(data):
                break
            frame = _decode(data[start:end])
            at = end
            if isinstance(frame, Ready):
                deadline = time.monotonic() + seconds
            yield frame
        del data[:at]


def _chunk(child: subprocess.Popen[bytes], deadline: float | None) -> bytes:
    """Some bytes from the child, none when it has ended; `BadQuery` when its time is over."""
    stream = _of(child.stdout)
    with selectors.DefaultSelector() as selector:
        selector.register(stream, selectors.EVENT_READ)
        left = None if deadline is None else deadline - time.monotonic()
        if left is not None and (left <= 0 or not selector.select(left)):
            raise _too_long()
        return os.read(stream.fileno(), _CHUNK)


def _too_long() -> BadQuery:
    return BadQuery("the query took too long and was stopped", hint="narrow it, or raise --seconds")


def _error(frame: Failed, store: str) -> StatorError:
    """The child's error as one of ours."""
    if frame.code == BadQuery.code:
        return BadQuery(frame.what, hint=frame.hint)
    kinds = {kind.code: kind for kind in StoreError.__subclasses__()}
    return kinds.get(frame.code, StoreFailed)(frame.what, hint=frame.hint, store=store)


def _death(child: subprocess.Popen[bytes], store: str) -> StatorError:
    """Why a child ended without an answer."""
    problem = _of(child.stderr).read().decode("utf-8", "replace").strip().rpartition("\n")[2]
    code = child.wait()
    if code == -signal.SIGXCPU:
        return _too_long()
    if code < 0:
        return BadQuery(f"the query was stopped by the system (signal {-code})", hint="narrow it")
    return StoreFailed(f"{store}: the query could not be run: {problem or f'exit {code}'}")
