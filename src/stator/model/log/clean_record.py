"""A record as it is recorded: its foreign values in tagged form, and no secret in any field of it.

Every field is looked at, by its value and not by its name, so that a new field of a record is safe by itself.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, AnyStr, TypeVar

import msgspec
from msgspec.structs import astuple

from stator.model.records.types import DecisionRecord, Record
from stator.model.values import canon
from stator.model.values.canon import Scrub

R = TypeVar("R", bound=Record)
_NO_TEXT = frozenset((int, bool, type(None)))


@lru_cache
def _containers(kind: type[Record]) -> tuple[str, ...]:
    """The fields of a record that hold neither one text nor a number."""
    fields = msgspec.structs.fields(kind)
    return tuple(field.name for field in fields if field.type not in (str, int, bool))


def clean_record(
    record: R, scrub: Scrub | None, passes: Callable[[list[str]], bool] | None = None
) -> R:
    """The record as it is recorded; the same object if nothing in it changes.

    `passes` says of all texts of the record at once that none holds a secret, which is faster.
    """
    found = _tagged(record, scrub)
    if scrub is not None:
        names = record.__struct_fields__
        if passes is not None and passes([t for t in astuple(record) if type(t) is str]):
            names = _containers(type(record))
        for name in names:
            value = getattr(record, name)
            if value and name not in found and (clean := _clean(value, name, scrub)) is not value:
                found[name] = clean
    return msgspec.structs.replace(record, **found) if found else record


def _tagged(record: Record, scrub: Scrub | None) -> dict[str, Any]:
    """The fields with foreign values, tagged and without secrets: the only place where those of records are tagged.

    The name of a record counts as the dict key of its value.
    """
    if isinstance(record, DecisionRecord):
        factors = record.factors
        return (
            {"factors": canon.to_plain(factors, path="$.factors", scrub=scrub)} if factors else {}
        )
    if not hasattr(record, "value"):
        return {}
    value: Any = record.value
    if type(value) is int and abs(value) < 2**53:
        return {}
    name: str = getattr(record, "name", "value")
    return {"value": canon.to_plain(value, path="$.value", scrub=scrub and _named(scrub, name))}


def _named(scrub: Scrub, name: str) -> Scrub:
    def named(text: AnyStr, key: str | None, /) -> AnyStr:
        return scrub(text, key or name)

    return named


def _clean(value: Any, name: str | None, scrub: Scrub) -> Any:
    """A field without secrets, the same object if it has none. What is neither text nor a container is left to
    the check of the record's shape."""
    kind = type(value)
    if kind is str:
        return scrub(value, name)
    if kind in _NO_TEXT:
        return value
    if isinstance(value, list):
        items = [_clean(item, name, scrub) for item in value]
        return value if _same(items, value) else items
    if isinstance(value, dict):
        return _clean_dict(value, scrub)
    if isinstance(value, msgspec.Struct):
        fields = {key: getattr(value, key) for key in value.__struct_fields__}
        clean = _clean_dict(fields, scrub)
        return value if clean is fields else msgspec.structs.replace(value, **clean)
    return value


def _clean_dict(value: dict[Any, Any], scrub: Scrub) -> dict[Any, Any]:
    clean = {_clean(key, None, scrub): _clean(item, key, scrub) for key, item in value.items()}
    same = _same(clean, value) and _same(clean.values(), value.values())
    return value if same else clean


def _same(new: Any, old: Any) -> bool:
    return all(a is b for a, b in zip(new, old, strict=True))


def untagged(record: Record) -> Record:
    """A record that was read from a log, with its values as they were given."""
    given = {
        name: canon.from_plain(value)
        for name in record.__struct_fields__
        if isinstance(value := getattr(record, name), (dict, list))
    }
    return msgspec.structs.replace(record, **given) if given else record
