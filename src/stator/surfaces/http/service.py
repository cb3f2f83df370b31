"""The service under `/v1`: makes the routes of its table, and turns answers into responses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.exceptions import ExceptionMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route

from stator.errors import BadQuery, StatorError, TooLarge
from stator.surfaces.cli.render import wire
from stator.surfaces.http.cursors import Cursors
from stator.surfaces.http.endpoint import (
    CURSOR,
    Attachment,
    Endpoint,
    ItemPage,
    Question,
    WholeDocument,
)
from stator.surfaces.http.openapi import PAGE, PREFIX, openapi
from stator.surfaces.http.problems import failed, refused
from stator.surfaces.http.reads import TABLE
from stator.surfaces.http.served import served
from stator.surfaces.http.tags import is_same, tag_of

BODY_MAX = 8 << 20
"""The largest document that is sent."""
JSON = "application/json"


def service(key: bytes) -> Mount:
    """Everything under /v1: JSON and streams, with errors as problem+json. `key` signs the cursors."""
    cursors = Cursors(key)
    return Mount(
        PREFIX,
        routes=[
            *(_route(endpoint, cursors) for endpoint in TABLE),
            Route("/openapi.json", _described),
        ],
        middleware=[
            Middleware(ExceptionMiddleware, handlers={StatorError: failed, HTTPException: refused})
        ],
    )


def _described(request: Request) -> Response:
    return Response(wire.dumps(openapi(TABLE)), media_type=JSON)


def _route(endpoint: Endpoint, cursors: Cursors) -> Route:
    if endpoint.stream is not None:
        return Route(endpoint.path, endpoint.stream)

    async def answered(request: Request) -> Response:
        values = endpoint.read(request.path_params, request.query_params)
        text = request.query_params.getlist(CURSOR)
        if len(text) > 1:
            raise BadQuery(f"{CURSOR} is given {len(text)} times", hint="give it once")
        after = cursors.load(text[0], endpoint.path, values) if text else None
        asked = Question(served(request), values, after)
        seen = request.headers.get("if-none-match", "")
        return await run_in_threadpool(_response, endpoint, asked, cursors, seen)

    return Route(endpoint.path, answered)


def _response(endpoint: Endpoint, asked: Question, cursors: Cursors, seen: str) -> Response:
    """In a thread: reads the store."""
    headers = {}
    if endpoint.tag:
        # Made before the answer: if the session moves in between, the tag is old and the next request reads again.
        tag = tag_of(asked.view, as_read=endpoint.tag == "read")
        headers = {"etag": tag, "cache-control": "private, no-cache"}
        if seen and is_same(tag, seen):
            return Response(status_code=304, headers=headers)
    assert endpoint.answer is not None
    answer = endpoint.answer(asked)
    if isinstance(answer, Attachment):
        headers["content-disposition"] = f'attachment; filename="{answer.name}"'
        return Response(answer.data, 200, headers, "application/octet-stream")
    body = wire.dumps(_plain(endpoint, answer, asked, cursors))
    if len(body) > BODY_MAX:
        raise TooLarge(
            f"this answer has {len(body):,} bytes, more than {BODY_MAX:,}",
            hint="ask for less: a smaller limit, fewer collections, a shorter range",
        )
    return Response(body, 200, headers, JSON)


def _plain(
    endpoint: Endpoint, answer: WholeDocument | ItemPage, asked: Question, cursors: Cursors
) -> Mapping[str, Any]:
    if isinstance(answer, WholeDocument):
        return {"schema": endpoint.schema, **answer.plain}
    after = answer.next
    following = None if after is None else cursors.dump(after, endpoint.path, asked.values)
    return {"schema": PAGE, "items": answer.items, "next": following}
