"""Validates the arguments of a tool against its schema and names the first wrong one by its path."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from functools import cache
from typing import Any

import jsonschema_rs

from stator.errors import BadQuery, InvalidInput
from stator.model.log.shown_text import cut_short
from stator.surfaces.mcp.tools.definitions import BY_NAME

MESSAGE_MAX = 200
_NUMBER = re.compile(r"[0-9]{1,18}")


def check_arguments(tool: str, given: dict[str, Any]) -> dict[str, Any]:
    """Return valid arguments; raise `InvalidInput` with the path of the first wrong one."""
    schema = BY_NAME[tool].input_schema
    for name in given:
        if name not in schema["properties"]:
            raise _unknown_argument(tool, name, schema["properties"])
    for error in _validator(tool).iter_errors(given):
        path = "$" + "".join(_path_part(part) for part in error.instance_path)
        message = str(error.message)
        if len(message) > MESSAGE_MAX:  # it repeats the value, which may be large
            message = f"{cut_short(message, MESSAGE_MAX)}…"
        raise InvalidInput(message, path=path, hint=_hint(tool, error.instance_path))
    return given


def _unknown_argument(tool: str, name: str, known: dict[str, Any]) -> InvalidInput:
    near = difflib.get_close_matches(name.casefold(), known, 1, 0.6)
    meant = f"did you mean {near[0]}? " if near else ""
    return InvalidInput(
        f"{tool} has no argument {name!r:.40}",
        path=f"$.{name}"[:80],
        hint=f"{meant}{tool} takes {', '.join(known)}",
    )


def _hint(tool: str, path: Sequence[str | int]) -> str:
    """Return what the schema allows at a path."""
    schema, name = BY_NAME[tool].input_schema, tool
    for part in path:
        found = schema.get("items") if isinstance(part, int) else schema["properties"].get(part)
        if not found:
            break
        schema, name = found, name if isinstance(part, int) else part
    each = "a list, each of " if "items" in schema else ""
    schema = schema.get("items", schema)
    if "enum" in schema:
        return f"{name}: {each}{', '.join(schema['enum'])}"
    if "properties" in schema:
        return f"{name} takes {each}{', '.join(schema['properties'])}"
    about = f", {schema['description']}" if "description" in schema else ""
    takes = ", ".join(BY_NAME[tool].input_schema["properties"])
    return f"{name}: {schema.get('type', 'any value')}{about}; {tool} takes {takes}"


@cache
def _validator(tool: str) -> Any:
    return jsonschema_rs.validator_for(BY_NAME[tool].checked_schema)


def _path_part(part: str | int) -> str:
    return f"[{part}]" if isinstance(part, int) else f".{part}"


def read_cursor(given: dict[str, Any], parts: int = 1) -> tuple[int, ...] | None:
    """Parse the cursor that the last answer gave: `parts` whole numbers."""
    text = given.get("cursor")
    if not text:
        return None
    found = str(text).split(".", parts)
    if len(found) != parts or not all(map(_NUMBER.fullmatch, found)):
        raise BadQuery(
            "not a cursor", path="$.cursor", hint="pass `more` of the last answer, unchanged"
        )
    return tuple(map(int, found))


def read_offset(given: dict[str, Any]) -> int:
    """Parse a cursor that is the number of items to skip."""
    found = read_cursor(given)
    return found[0] if found else 0


def cursor_text(cursor: tuple[int, ...] | None) -> str | None:
    """Return a cursor in the form answers use."""
    return None if cursor is None else ".".join(map(str, cursor))
