"""Values of every kind that can be recorded, and the recorded form read back without Stator's own code.

The recorded form is the table "Values" of docs/design/record.md: what JSON lacks is an object with
one key that begins with a dollar sign.
"""

from __future__ import annotations

import base64
import datetime
import decimal
import json
import math
import random
import uuid
from typing import Any

WORDS = ("ash", "birch", "cedar", "dogwood", "elm", "fir", "ginkgo", "holly", "ivy", "juniper")
ODD_TEXT = ("", " ", "é", "e\u0301", "\x00", "a\nb", "\u2028", "😀", "$f", "‹x›", "<b>", "\x1b[31m")
LONE = ("\ud800", "a\udfffb")


def word(rng: random.Random) -> str:
    return rng.choice(WORDS)


def sentence(rng: random.Random, words: int = 0) -> str:
    """A text without anything that looks like a secret."""
    return " ".join(word(rng) for _ in range(words or rng.randint(1, 6)))


def leaf(rng: random.Random) -> Any:
    """One value that has no parts."""
    return rng.choice(
        (
            lambda: None,
            lambda: rng.choice((True, False)),
            lambda: rng.choice((0, 1, -1, 2**53 - 1, 2**53, -(2**53), 2**64, 10**30, 2**200)),
            lambda: rng.choice((0.0, -0.0, 1.0, 1.5, -2.25, 5e-324, 1e308, 0.1, 1e16)),
            lambda: rng.choice((b"", b"\x00\x01", b"ash", b"\xff\xfe")),
            lambda: rng.choice(ODD_TEXT),
            lambda: rng.choice(LONE),
            lambda: sentence(rng),
            lambda: rng.randint(-5, 5),
            lambda: datetime.date(2026, 1, rng.randint(1, 28)),
            lambda: datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC),
            lambda: decimal.Decimal(rng.choice(("1.10", "1E+3", "-0"))),
            lambda: uuid.UUID(int=rng.getrandbits(128)),
        )
    )()


def foreign(rng: random.Random, depth: int = 0) -> Any:
    """Any value that Stator accepts, nested a few levels deep."""
    if depth >= 3 or rng.random() < 0.65:
        return leaf(rng)
    inner = [foreign(rng, depth + 1) for _ in range(rng.randint(0, 3))]
    kind = rng.randrange(4)
    if kind == 0:
        return inner
    if kind == 1:
        return tuple(inner)
    names = ("a", "b", "$f", "$t", "", "é", "$", "ключ")
    return {rng.choice(names): value for value in inner}


def same(one: Any, other: Any) -> bool:
    """Equal in value and in type at every level: 1, True, 1.0 and -0.0 are four values."""
    if type(one) is not type(other):
        return False
    if isinstance(one, float):
        return one == other and math.copysign(1, one) == math.copysign(1, other)
    if isinstance(one, decimal.Decimal):
        return str(one) == str(other)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    return bool(one == other)


def read_recorded(plain: Any) -> Any:
    """A value from its recorded form."""
    if isinstance(plain, list):
        return [read_recorded(item) for item in plain]
    if not isinstance(plain, dict):
        return plain
    if len(plain) != 1 or not next(iter(plain)).startswith("$"):
        return {key: read_recorded(value) for key, value in plain.items()}
    ((tag, body),) = plain.items()
    return _READ[tag](body)


def _read_text(body: str) -> str:
    return base64.b64decode(body).decode("utf-8", "surrogatepass")


def _read_map(body: list[Any]) -> dict[str, Any]:
    return {read_recorded(key): read_recorded(value) for key, value in body}


def _read_typed(body: list[str]) -> Any:
    kind, text = body
    return {
        "datetime": datetime.datetime.fromisoformat,
        "date": datetime.date.fromisoformat,
        "time": datetime.time.fromisoformat,
        "decimal": decimal.Decimal,
        "uuid": uuid.UUID,
    }[kind](text)


_READ: dict[str, Any] = {
    "$f": float,
    "$i": lambda body: int(body, 16),
    "$b": base64.b64decode,
    "$u": _read_text,
    "$t": lambda body: tuple(read_recorded(item) for item in body),
    "$m": _read_map,
    "$x": _read_typed,
}


def canonical(plain: Any) -> str:
    """Plain data as one text: equal texts mean the same data, with True and 1 apart."""
    return json.dumps(plain, sort_keys=True, ensure_ascii=True)
