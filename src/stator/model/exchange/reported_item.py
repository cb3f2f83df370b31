"""Reads an item that an agent reports of its own work, in the words that agents use. Pure.

What cannot be read is refused with what the kind takes and an item that is right: a model that gets this corrects
itself, so the schema that it reads first can stay small.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import msgspec

from stator.errors import InvalidInput
from stator.model.records.reports import DECISION, KIND_WORDS, WHY
from stator.model.records.row_types import Field, Reported

_GAPS = re.compile(r"[\s_-]+")


class ReportedItem(msgspec.Struct, frozen=True):
    """An item as it is recorded: the method that records it, and its arguments."""

    kind: str
    method: str
    fields: dict[str, Any]


def read_items(items: object, kinds: Mapping[str, Reported]) -> list[Any]:
    """The items of a report; `InvalidInput` with a list that is right if it is not a list."""
    if isinstance(items, list):
        return items
    kind = _kind(items.get("kind"), kinds) if isinstance(items, Mapping) else None
    example = DECISION.example if kind is None else kinds[kind].example
    raise InvalidInput(
        f"items is a list of items, got {type(items).__name__}",
        path="$.items",
        hint=f"for example: {_shown([example])}",
    )


def read_item(item: object, kinds: Mapping[str, Reported]) -> ReportedItem:
    """An item of an agent in our words; `InvalidInput` with an item that is right if that is not possible."""
    if not isinstance(item, Mapping):
        raise InvalidInput(
            f"an item is an object with a kind, got {type(item).__name__}",
            path="$",
            hint=f"for example: {_shown(DECISION.example)}",
        )
    given = dict(item)
    said = given.pop("kind", None)
    kind = _kind(said, kinds)
    if kind is None:
        raise InvalidInput(
            "an item needs a kind" if said is None else f"no kind {said!r:.40}",
            path="$.kind",
            hint=f"kinds: {', '.join(kinds)}; for example: {_shown(DECISION.example)}",
        )
    if kind == "artifact" and isinstance(said, str) and _plain(said) in ("handover", "handoff"):
        given.setdefault("name", "handover")
    reported = kinds[kind]
    known = (*reported.must, *reported.may, WHY)
    found: dict[str, Any] = {}
    for name, value in given.items():
        field = _field(name, known)
        if field is None:
            raise _refused(kind, reported, f"{_one(kind)} has no {name!r:.40}", name)
        if field.name in found:
            raise _refused(
                kind, reported, f"{_one(kind)} has {field.name} twice: {name!r:.40}", name
            )
        found[field.name] = _value(kind, reported, field, value)
    for field in reported.must:
        value = found.get(field.name)
        empty = isinstance(value, str) and not value.strip() and not field.blank
        if field.name not in found or empty:
            raise _refused(kind, reported, f"{_one(kind)} needs {field.name}", field.name)
    return ReportedItem(kind, reported.method, found)


def example_hint(kind: str, reported: Reported) -> str:
    """What a kind takes, and an item of it that is right."""
    names = [field.name for field in (*reported.must, *reported.may, WHY)]
    return f"{_one(kind)} takes {', '.join(names)}; for example: {_shown(reported.example)}"


def _refused(kind: str, reported: Reported, what: str, name: str) -> InvalidInput:
    return InvalidInput(what, path=f"$.{name}"[:80], hint=example_hint(kind, reported))


def _kind(said: object, kinds: Mapping[str, Reported]) -> str | None:
    if not isinstance(said, str):
        return None
    plain = _plain(said)
    own = {_plain(kind): kind for kind in kinds}
    return own.get(plain) or own.get(_plain(KIND_WORDS.get(plain, "")))


def _field(name: str, known: tuple[Field, ...]) -> Field | None:
    for field in known:
        if name == field.name:
            return field
    plain = _plain(name)
    fitting = [field for field in known if plain in map(_plain, (field.name, *field.also))]
    return fitting[0] if len(fitting) == 1 else None


def _value(kind: str, reported: Reported, field: Field, value: Any) -> Any:
    schema = field.schema
    wanted = schema.get("type")
    if "enum" in schema:
        words = {_plain(word): word for word in schema["enum"]} | field.words
        read = words.get(_plain(value)) if isinstance(value, str) else None
        if read is None:
            what = f"{field.name} of {_one(kind)} is one of {', '.join(schema['enum'])}, not {value!r:.40}"
            raise _refused(kind, reported, what, field.name)
        return read
    if wanted == "array" and isinstance(value, str):
        return [value]
    is_list = isinstance(value, list) and all(isinstance(one, str) for one in value)
    if field.several and is_list and value:
        return value
    if wanted == "array" and not is_list:
        raise _refused(
            kind, reported, f"{field.name} of {_one(kind)} is a list of texts", field.name
        )
    if wanted == "string" and not isinstance(value, str):
        raise _refused(kind, reported, f"{field.name} of {_one(kind)} is a text", field.name)
    return value


def _plain(word: str) -> str:
    return _GAPS.sub(" ", word).strip().casefold()


def _one(kind: str) -> str:
    """A kind with its article."""
    return f"{'an' if kind[0] in 'aeio' else 'a'} {kind}"


def _shown(example: Mapping[str, Any] | list[Mapping[str, Any]]) -> str:
    return json.dumps(example, ensure_ascii=False, separators=(",", ":"))
