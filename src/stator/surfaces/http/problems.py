"""Turns errors into responses of the service: problem+json (RFC 9457), code for code those of `stator.errors`."""

from __future__ import annotations

from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from stator import errors
from stator.errors import StatorError
from stator.surfaces.cli.render import wire

MEDIA_TYPE = "application/problem+json"
STATUS: tuple[tuple[type[StatorError], int], ...] = (
    (errors.TooLarge, 413),
    (errors.InvalidInput, 400),
    (errors.Erased, 410),
    (errors.Removed, 410),
    (errors.NotFound, 404),
    (errors.Ambiguous, 409),
    (errors.Conflict, 409),
    (errors.WrongState, 409),
    (errors.Busy, 409),
    (errors.StoreBusy, 503),
    (errors.StoreUnreachable, 503),
)
"""The first that fits; an error that is not here is a fault of the store or of ours."""
FAULT = 500
UNAUTHORIZED = "E_UNAUTHORIZED"
"""The code of a request without a cookie or a token; no store knows it."""
OTHER_CODES = {401: UNAUTHORIZED, 404: "E_NOT_FOUND", 405: "E_METHOD"}
"""The codes of what is refused before the store is asked, by status."""


def status_of(error: StatorError) -> int:
    return next((status for kind, status in STATUS if isinstance(error, kind)), FAULT)


def failed(request: Request, error: Exception) -> Response:
    """The response to an error of the store."""
    assert isinstance(error, StatorError)
    found = error.wire()
    return problem(status_of(error), found["code"], found["what"], found["hint"], found["ids"])


def refused(request: Request, error: Exception) -> Response:
    """The response to what no route answers."""
    assert isinstance(error, HTTPException)
    made = refusal(error.status_code, error.detail)
    made.headers.update(error.headers or {})
    return made


def refusal(status: int, text: str) -> Response:
    """The response to a request that reaches no route."""
    return problem(status, OTHER_CODES.get(status, "E_REFUSED"), text)


def problem(
    status: int, code: str, what: str, hint: str = "", ids: dict[str, Any] | None = None
) -> Response:
    found = {
        "type": f"urn:stator:error:{code}",
        "title": what,
        "status": status,
        "code": code,
        "detail": f"{what} ({hint})" if hint else what,
        "hint": hint,
        "ids": ids or {},
    }
    headers = {"www-authenticate": "Bearer"} if status == 401 else {}
    return Response(wire.dumps(found), status, headers, MEDIA_TYPE)
