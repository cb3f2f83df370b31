"""Follows sessions over HTTP (server-sent events): the commits of one session, or which sessions moved.

A stream of commits reads the log at its reader's pace, from the reader's own cursor: nothing is kept for it here, and
no writer waits for it. A reader that is too far behind gets its position and is let go; it reads the log by
pages and comes back.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from typing import Any

import anyio
import msgspec
from sse_starlette.event import ServerSentEvent
from sse_starlette.sse import EventSourceResponse
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from stator.errors import BadPosition, NotFound, StatorError
from stator.model.log.commit import Commit
from stator.model.log.query import GONE, Head
from stator.runtime.base.watch import watcher_of
from stator.runtime.facade.aio_view import news
from stator.runtime.facade.store import Store
from stator.runtime.tails.tail import PAGE, Tailing
from stator.runtime.views.refs import find_session
from stator.surfaces.cli.render import wire
from stator.surfaces.http.served import served

BEHIND_MAX = 10_000
"""How many commits a follower may lack; one that lacks more reads the log by pages first."""
COMMENT_S = 15
"""After this many seconds without an event a comment says that the stream is alive."""
LEAVE_S = 1.0
"""How long streams may take to end when the service ends."""
SEND_S = 60
"""A reader that takes nothing for so long is gone."""
MOVED_MAX = 500
"""Sessions that one event names; if more moved, the reader looks at all of them."""
SEPARATOR = "\n"
CHUNK_BYTES = 64 << 10
"""About as much is sent at once; other streams get their turn in between."""
TOGETHER_S = 0.1
"""What moves within this time is one event."""


async def tail(request: Request) -> Response:
    """Commits of a session, each exactly once, in order; `id:` is the seq. The first event is the head."""
    store = served(request).store
    after = cursor_of(request)
    following = await run_in_threadpool(_following, store, request.path_params["session"], after)
    return _stream(_commits(following))


async def heads(request: Request) -> Response:
    """Which sessions moved, and where their heads are now. Levels: what was missed does not matter."""
    return _stream(_moved(served(request).store))


def cursor_of(request: Request) -> int | None:
    """The seq of the last commit that the reader has: what its browser repeats, else what the address says."""
    text = request.headers.get("last-event-id") or request.query_params.get("after", "")
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise BadPosition(
            f"a cursor is the seq of a commit, got {text!r:.40}",
            hint="0 is before the first commit",
        )
    return int(text)


def _stream(events: AsyncGenerator[ServerSentEvent | bytes]) -> Response:
    leaving = anyio.Event()
    return EventSourceResponse(
        _until(leaving, events),
        ping=COMMENT_S,
        send_timeout=SEND_S,
        sep=SEPARATOR,
        shutdown_event=leaving,
        shutdown_grace_period=LEAVE_S,
    )


async def _until(
    leaving: anyio.Event, events: AsyncGenerator[ServerSentEvent | bytes]
) -> AsyncIterator[ServerSentEvent | bytes]:
    """The events, until the service ends: then the stream ends as it should, and is not cut off."""
    left = asyncio.ensure_future(leaving.wait())
    try:
        while True:
            coming = asyncio.ensure_future(anext(events, None))
            try:
                await asyncio.wait((left, coming), return_when=asyncio.FIRST_COMPLETED)
            finally:
                if not coming.done():
                    coming.cancel()
                    await asyncio.wait((coming,))
            if coming.cancelled() or (event := coming.result()) is None:
                return
            yield event
    finally:
        left.cancel()
        await events.aclose()


def _event(name: str, data: dict[str, Any], id: int | None = None) -> ServerSentEvent:
    shown = None if id is None else str(id)
    return ServerSentEvent(wire.dumps(data), event=name, id=shown, sep=SEPARATOR)


# -- one session ----------------------------------------------------------------------------------


class _Following(msgspec.Struct):
    """A place in the log of one session, and what the log was when the stream began."""

    tailing: Tailing
    session: str
    cursor: int
    head: Head
    store: Store

    def look(self) -> tuple[list[tuple[int, bytes]], int]:
        """The next commits as chunks of a stream, each with the last seq in it; and how many commits the reader
        lacks before these."""
        page = self.tailing.look()
        is_whole = len(page) == PAGE
        behind = self.store.port.head(self.session).seq - self.cursor if is_whole else 0
        return list(_chunks(page)) if behind <= BEHIND_MAX else [], behind


def _following(store: Store, name: str, after: int | None) -> _Following:
    session = find_session(store.as_read, name).id
    head = store.port.head(session)
    cursor = head.seq if after is None else after
    return _Following(
        Tailing(store.port, session, cursor, load=False), session, cursor, head, store
    )


def _chunks(commits: list[Commit]) -> Iterator[tuple[int, bytes]]:
    chunk = b""
    for commit in commits:
        chunk += _event("commit", wire.commit(commit), commit.seq).encode()
        if len(chunk) >= CHUNK_BYTES or commit is commits[-1]:
            yield commit.seq, chunk
            chunk = b""


async def _commits(following: _Following) -> AsyncGenerator[ServerSentEvent | bytes]:
    head, tailing = following.head, following.tailing
    # Its id is the reader's own cursor: cut off right after this event, it asks again for what it lacks.
    shown = {"schema": "stator.head/1", "session": following.session}
    yield _event("head", {**shown, "seq": head.seq, "hash": head.hash}, following.cursor)
    try:
        if following.cursor > head.seq:
            yield _reset(following, "this log ends before the cursor", head.seq)
            return
        while not tailing.ended:
            chunks, behind = await run_in_threadpool(following.look)
            if behind > BEHIND_MAX:
                yield _reset(following, f"{behind} commits behind", following.cursor + behind)
                return
            for seq, chunk in chunks:
                yield chunk
                following.cursor = seq
                await asyncio.sleep(0)  # a reader that is gone is noticed
            if tailing.wait_s and not tailing.ended:
                tailing.woken(await news(tailing.watch))
    except NotFound as error:  # removed, or put back to an earlier time
        yield _reset(following, error.what, None)
    except StatorError as error:
        yield _event("problem", error.wire())
    finally:
        tailing.close()


def _reset(following: _Following, why: str, head: int | None) -> ServerSentEvent:
    """The last event of a stream: where the reader is, so that it reads the log from there and follows again."""
    return _event("reset", {"cursor": following.cursor, "head": head, "why": why})


# -- all sessions ---------------------------------------------------------------------------------


async def _moved(store: Store) -> AsyncGenerator[ServerSentEvent | bytes]:
    watch = await run_in_threadpool(_watch_everything(store))
    try:
        # What moved before this event is for the reader to read; what moves from now on is named.
        yield _event("heads", {"moved": {}, "all": True})
        while not watch.ended:
            await news(watch)
            if moved := watch.take():
                yield _event("heads", await run_in_threadpool(_levels, store, moved))
            await asyncio.sleep(TOGETHER_S)
    except StatorError as error:
        yield _event("problem", error.wire())
    finally:
        watch.close()


def _watch_everything(store: Store) -> Callable[[], Any]:
    return lambda: watcher_of(store.port).watch(everything=True)


def _levels(store: Store, sessions: set[str]) -> dict[str, Any]:
    """Where the heads of these sessions are; null for one that is gone."""
    if len(sessions) > MOVED_MAX:
        return {"moved": {}, "all": True}
    found = store.port.heads(dict.fromkeys(sessions, 0))
    return {
        "moved": {one: None if seq == GONE else seq for one, seq in found.items()},
        "all": False,
    }
