"""A record as it is recorded: its foreign values in tagged form, and no secret in any field of it.

Every field is looked at, by its value and not by its name, so that a new field of a record is safe by itself.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, AnyStr, TypeVar

import msgspec
from msgspec.structs import astuple

from stator.model.records.types import DecisionRecord, Record
from stator.model.values import canon
from stator.model.values.canon import Scrub

R = TypeVar("R", bound=Record)
Passes = Callable[[list[str]], bool]
"""Says of some texts that none holds a secret."""
_NO_TEXT = frozenset((int, bool, type(None)))


def texts_of(record: Record) -> list[str]:
    """The texts of a record that are not inside of something."""
    return [text for text in astuple(record) if type(text) is str]


def clean_record(record: R, scrub: Scrub | None, passes: Passes | None = None) -> R:
    """The record as it is recorded; the same object if nothing in it changes.

    `passes` says of all texts of the record at once that none holds a secret, which is faster.
    """
    foreign = _foreign_field(type(record))
    found = _tagged(record, foreign, scrub) if foreign else {}
    if scrub is not None:
        texts: list[str] = []
        fields: list[tuple[str, Any]] = []
        for name, value in zip(record.__struct_fields__, astuple(record), strict=True):
            kind = type(value)
            if kind is str:
                texts.append(value)
            elif kind in _NO_TEXT:
                continue
            if value and name not in found:
                fields.append((name, value))
        clear = passes is not None and passes(texts)
        for name, value in fields:
            if clear and type(value) is str:
                continue
            if (clean := _clean(value, name, scrub)) is not value:
                found[name] = clean
    return msgspec.structs.replace(record, **found) if found else record


@cache
def _foreign_field(kind: type[Record]) -> str:
    """The field of a record that holds values which are not ours; "" if it has none."""
    if issubclass(kind, DecisionRecord):
        return "factors"
    return "value" if "value" in kind.__struct_fields__ else ""


def _tagged(record: Record, field: str, scrub: Scrub | None) -> dict[str, Any]:
    """The field with foreign values, tagged and without secrets: the only place where those of records are tagged.

    The name of a record counts as the dict key of its value.
    """
    value: Any = getattr(record, field)
    if field == "factors":
        return {field: canon.to_plain(value, path="$.factors", scrub=scrub)} if value else {}
    if type(value) is int and abs(value) < 2**53:
        return {}
    name: str = getattr(record, "name", "value")
    return {field: canon.to_plain(value, path="$.value", scrub=scrub and _named(scrub, name))}


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
        fields = dict(zip(value.__struct_fields__, astuple(value), strict=True))
        # Their names are ours and hold no secret.
        changed = {
            field: clean
            for field, item in fields.items()
            if (clean := _clean(item, field, scrub)) is not item
        }
        return msgspec.structs.replace(value, **changed) if changed else value
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
