"""The user's own state: one record per field, loaded into the type the user asked for.

A dataclass, msgspec Struct, TypedDict or pydantic model. The version that wrote a field is kept
with it; upcasts convert older values one version at a time. What does not fit loads as plain
data: a session never becomes unreadable because a class changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from stator.model.records.types import AppRecord, Entry
from stator.model.values import canon

Upcast = Callable[[dict[str, Any]], dict[str, Any]]
"""Fields as version n had them → as version n + 1 has them."""


def fields_of(
    entries: Iterable[Entry], version: int, upcasts: Mapping[int, Upcast]
) -> dict[str, Any]:
    """Stored fields by name, converted to `version`."""
    records = [entry.record for entry in entries if isinstance(entry.record, AppRecord)]
    fields = {record.name: canon.from_plain(record.value) for record in records}
    oldest = min((record.version for record in records), default=version)
    for step in range(oldest, version):
        upcast = upcasts.get(step)
        if upcast is not None:
            fields = upcast(fields)
    return fields


def load(kind: Any, fields: dict[str, Any]) -> Any:
    """The fields as the user's type, or as they are if they do not fit it."""
    if kind is None or kind is dict:
        return fields
    try:
        validate = getattr(kind, "model_validate", None)
        return validate(fields) if validate is not None else msgspec.convert(fields, kind)
    except Exception:  # whatever a user's type raises, its data stays readable
        return fields


def schema_name(kind: Any) -> str:
    """What the session's record says of the type: its name, never used to import anything."""
    return (
        ""
        if kind is None
        else f"{getattr(kind, '__module__', '')}.{getattr(kind, '__qualname__', '')}"
    )
