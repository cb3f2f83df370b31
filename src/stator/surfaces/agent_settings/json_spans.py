"""Finds where every value of a JSON text begins and ends. Comments and trailing commas are allowed. Pure.

Settings are edited as text: only the bytes of our own entries may change. So the parser keeps places
instead of values, and `JsonSpan.value` gives the value of a part when it is needed.
"""

from __future__ import annotations

import json
import re
from typing import Any, Literal

import msgspec

DEPTH_MAX = 200
_SKIPPED = re.compile(r"(?:[ \t\r\n]+|//[^\r\n]*|/\*.*?\*/)*", re.DOTALL)
_STRING = re.compile(
    r'"[^"\\\x00-\x1f]*(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\x00-\x1f]*)*"', re.DOTALL
)
_PLAIN = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null")
_SPACES = re.compile(r"[ \t\r\n]*")

SpanKind = Literal["object", "array", "plain"]


class JsonEntry(msgspec.Struct):
    """A member of an object or an element of an array, and its place."""

    start: int
    span: JsonSpan
    key: str = ""
    key_end: int = 0
    colon: int = 0
    comma: int = -1
    """Where the comma after it is; -1 if there is none."""

    @property
    def end(self) -> int:
        return self.span.end


class JsonSpan(msgspec.Struct):
    """A value and its place."""

    text: str
    kind: SpanKind
    start: int
    end: int = 0
    entries: list[JsonEntry] = []

    @property
    def value(self) -> Any:
        """The value, as a program reads it: of two members with one name, the last counts."""
        if self.kind == "plain":
            return json.loads(self.text[self.start : self.end])
        if self.kind == "array":
            return [entry.span.value for entry in self.entries]
        return {entry.key: entry.span.value for entry in self.entries}

    def member(self, key: str) -> JsonEntry | None:
        """The member of an object that counts."""
        return next((entry for entry in reversed(self.entries) if entry.key == key), None)


def parse_json(text: str) -> JsonSpan:
    """Parse a text; ValueError says what is wrong and where."""
    start = skip_space(text, 1 if text.startswith("\ufeff") else 0)
    root = _value(text, start, 0)
    end = skip_space(text, root.end)
    if end != len(text):
        raise _wrong(text, end, "text after the end")
    return root


def skip_space(text: str, at: int) -> int:
    """Where the white space and the comments from a place on end."""
    found = _SKIPPED.match(text, at)
    return found.end() if found else at


def space_end(text: str, at: int) -> int:
    """Where the white space from a place on ends."""
    found = _SPACES.match(text, at)
    return found.end() if found else at


def _value(text: str, at: int, depth: int) -> JsonSpan:
    first = text[at : at + 1]
    if first in ("{", "["):
        if depth >= DEPTH_MAX:
            raise _wrong(text, at, f"more than {DEPTH_MAX} levels")
        return _container(text, at, depth)
    found = (_STRING if first == '"' else _PLAIN).match(text, at)
    if found is None or not found[0]:
        raise _wrong(text, at, "no value")
    return JsonSpan(text, "plain", at, found.end())


def _container(text: str, at: int, depth: int) -> JsonSpan:
    is_object = text[at] == "{"
    span = JsonSpan(text, "object" if is_object else "array", at, entries=[])
    place = skip_space(text, at + 1)
    while text[place : place + 1] != ("}" if is_object else "]"):
        if span.entries and span.entries[-1].comma < 0:
            raise _wrong(text, place, "no comma")
        entry = _member(text, place, depth) if is_object else _element(text, place, depth)
        place = skip_space(text, entry.end)
        if text[place : place + 1] == ",":
            entry.comma = place
            place = skip_space(text, place + 1)
        span.entries.append(entry)
    span.end = place + 1
    return span


def _member(text: str, at: int, depth: int) -> JsonEntry:
    key = _STRING.match(text, at)
    if key is None:
        raise _wrong(text, at, "no name of a member")
    colon = skip_space(text, key.end())
    if text[colon : colon + 1] != ":":
        raise _wrong(text, colon, "no colon")
    span = _value(text, skip_space(text, colon + 1), depth + 1)
    return JsonEntry(at, span, json.loads(key[0]), key.end(), colon)


def _element(text: str, at: int, depth: int) -> JsonEntry:
    return JsonEntry(at, _value(text, at, depth + 1))


def _wrong(text: str, at: int, what: str) -> ValueError:
    line = text.count("\n", 0, at) + 1
    return ValueError(f"{what} at line {line} column {at - text.rfind(chr(10), 0, at)}")
