"""Arguments of a tool, held against its schema: what is wrong, and where, before anything is done."""

from __future__ import annotations

from functools import cache
from typing import Any

import jsonschema_rs

from stator.errors import BadQuery, InvalidInput
from stator.surfaces.mcp.definitions import BY_NAME

MESSAGE_MAX = 200


def check(tool: str, given: dict[str, Any]) -> dict[str, Any]:
    """The arguments, or `InvalidInput` with the path of the first that is wrong."""
    for error in _validator(tool).iter_errors(given):
        path = "$" + "".join(_part(part) for part in error.instance_path)
        message = str(error.message)
        if len(message) > MESSAGE_MAX:  # it repeats the value, however large
            message = f"{message[:MESSAGE_MAX]}…"
        names = ", ".join(BY_NAME[tool].takes["properties"])
        raise InvalidInput(message, path=path, hint=f"{tool} takes {names}")
    return given


@cache
def _validator(tool: str) -> Any:
    return jsonschema_rs.validator_for(BY_NAME[tool].takes)


def _part(part: str | int) -> str:
    return f"[{part}]" if isinstance(part, int) else f".{part}"


def cursor(given: dict[str, Any]) -> tuple[int, ...] | None:
    """Where to go on, as the last answer said."""
    text = given.get("cursor")
    if not text:
        return None
    try:
        return tuple(int(part) for part in str(text)[:200].split("."))
    except ValueError:
        raise BadQuery(
            "not a cursor", path="$.cursor", hint="pass `more` of the last answer, unchanged"
        ) from None


def offset(given: dict[str, Any]) -> int:
    """A cursor that is a number of things to leave out."""
    found = cursor(given)
    return max(0, found[0]) if found else 0


def more(cursor: tuple[int, ...] | None) -> str | None:
    """A cursor as an answer gives it."""
    return None if cursor is None else ".".join(map(str, cursor))
