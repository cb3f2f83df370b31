"""Asks a session everything, and says where two answers differ.

Answers are plain data, so that those of two stores, or of one store before and after something, can
be compared.
"""

from __future__ import annotations

from typing import Any

import stator
from laws import values
from laws.oracle import KEYS, Key, Told


class Contradiction(AssertionError):
    """The product says one thing and the contract another, or it says two things at once."""


def hold(what: str, one: Any, other: Any) -> None:
    """Two answers must be the same; the error shows where they first differ."""
    if one == other:
        return
    if isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
        name = next(name for name in one if one[name] != other[name])
        return hold(f"{what}, {name}", one[name], other[name])
    if isinstance(one, (list, tuple)) and isinstance(other, type(one)) and len(one) == len(other):
        place = next(n for n, item in enumerate(one) if item != other[n])
        return hold(f"{what}, {place}", one[place], other[place])
    raise Contradiction(f"{what}:\n  {str(one)[:1500]}\n  {str(other)[:1500]}")


def fields_of(record: Any) -> dict[str, Any]:
    """A record of the public API as a plain dictionary with every field."""
    return {name: getattr(record, name) for name in record.__struct_fields__}


def key_of(collection: str, record: Any, identifier: str) -> Key:
    """The key by which a record is known."""
    if hasattr(record, "erased") or (collection == "decisions" and not record.topic):
        return ("#", identifier)
    return tuple(str(getattr(record, name)) for name in KEYS[collection])


TIMES = ("at", "since", "expires", "sure", "created", "hash", "epoch", "pid", "host", "program")


def shown(value: Any) -> str:
    """A value as one text, whatever the order of its keys."""
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key!r}: {shown(value[key])}' for key in sorted(value))}}}"
    if isinstance(value, (list, tuple)):
        return f"{type(value).__name__}({', '.join(map(shown, value))})"
    return repr(value)


def timeless(data: Any) -> Any:
    """Plain data without clock readings, hashes and what names a process."""
    if isinstance(data, dict):
        return {k: timeless(v) for k, v in data.items() if k not in TIMES}
    return data


def plain(value: Any) -> Any:
    """A public object as plain data."""
    if hasattr(value, "__struct_fields__"):
        return {name: plain(getattr(value, name)) for name in value.__struct_fields__}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return value if isinstance(value, (str, int, bool, type(None))) else repr(value)


def _reasons(why: Any) -> Any:
    """Reasons without times, and without what is trusted, which a copy in another store is not."""
    return [{**plain(reason), "at": 0, "trust": "", "grounds": []} for reason in why]


def _without_eraser(record: Any) -> str:
    """A record as a text; the commit that erased it may be in a part of the log that is not here."""
    return "erased" if hasattr(record, "erased") else values.canonical(plain(record))


def plain_state(store: stator.Store, session: str, moved: bool = False, gone: Any = ()) -> Any:
    """The state as canonical texts, without what differs from store to store; of a log that was
    `moved` into a fork, also without what refers to positions."""
    skipped = {"session", "runs"} | ({"calls", "spend", "tags", "evicted"} if moved else set())
    return {
        name: sorted((i, _without_eraser(r)) for i, r in records.items() if i not in gone)
        for name, records in store.read(session).state().items()
        if name not in skipped
    }


def answers(store: stator.Store, told: Told) -> Any:
    """Everything a session answers, as plain data, without times and hashes."""
    view = store.read(told.id)
    head = view.head
    return {
        "head": (head.seq, head.turn, head.turn_open),
        "state": {
            name: sorted((i, timeless(plain(r))) for i, r in records.items())
            for name, records in view.state().items()
        },
        "log": [
            (c.id, c.seq, c.kind, c.turn, c.status, c.cause, c.call, c.session) for c in view.log()
        ],
        "counts": plain(view.counts) | {"content_bytes": 0},
        "turns": [timeless(plain(row)) for row in view.turns()],
        "calls": [timeless(plain(row)) for row in view.calls(limit=10_000)],
        "decisions": [plain(line) for line in view.decisions()],
        "files": [plain(line) for line in view.files(reads=True)],
        "last": [plain(line) for line in view.files(last=1)],
        "facts": {name: shown(value) for name, value in view.facts().items()},
        "why": {path: _reasons(view.why(path, limit=1000)) for path in told.touched},
        "evicted": [plain(item) for item in view.evicted(all=True)],
        "artifacts": [timeless(plain(item)) for item in view.artifacts()],
        "app": {name: shown(value) for name, value in view.app.items()},
    }
