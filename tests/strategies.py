"""Hypothesis strategies for the values people hand to Stator, and how to compare what comes back.

`plain_values` is what JSON keeps exactly; `foreign_values` is everything `canon.to_plain` accepts;
`tagged_plain` is plain data full of tags, right and wrong, as a newer or damaged store may hold.
"""

from __future__ import annotations

import struct
from datetime import datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

from stator.model.values.canon import INT_MAX, Foreign

ODD_TEXT = [
    "",
    "\x00",
    "a\x00b",
    "$",
    "$f",
    "$m",
    "é",
    "e\u0301",
    "\x7f\u2028\ufeff",
    "한국",
    "\ud7ff",
    "\ue000",
    "\uffff",
    "😀",
    "\U0010ffff",
]
LONE_TEXT = ["\ud800", "\udfff", "a\ud800b", "\ud83d\ude00", "$\udc00"]
BMP_TEXT = [text for text in ODD_TEXT if max(text, default="") <= "\uffff"]

plain_text = st.text() | st.sampled_from(ODD_TEXT)
"""Text that UTF-8 can hold."""

any_text = st.text(st.characters(exclude_categories=())) | st.sampled_from(ODD_TEXT + LONE_TEXT)
"""Any Python str, lone surrogates among them."""

plain_keys = st.sampled_from(BMP_TEXT) | st.text(
    st.characters(max_codepoint=0xFFFF, exclude_categories=["Cs"])
)
"""Keys that sort alike by code point and by UTF-16."""

small_integers = st.integers(-INT_MAX, INT_MAX) | st.sampled_from([-INT_MAX, INT_MAX])
big_integers = st.sampled_from([INT_MAX + 1, -INT_MAX - 1, 2**63, -(2**64), 10**30, 2**14_000])

offsets_s = st.integers(-86_399, 86_399)
fixed_zones = st.none() | offsets_s.map(lambda s: timezone(timedelta(seconds=s)))

plain_leaves = st.none() | st.booleans() | small_integers | plain_text

foreign_leaves = st.one_of(
    st.none(),
    st.booleans(),
    small_integers,
    big_integers,
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from([-0.0, 0.0, 1.0, 5e-324, 1e308]),
    any_text,
    st.binary(max_size=40),
    st.datetimes(timezones=fixed_zones, allow_imaginary=False),
    st.dates(),
    st.times(timezones=fixed_zones),
    st.decimals(allow_nan=False, allow_infinity=False),
    st.uuids(),
)


def _plain_containers(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(inner, max_size=4) | st.dictionaries(plain_keys, inner, max_size=4)


def _foreign_containers(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=4).map(tuple),
        st.dictionaries(any_text, inner, max_size=4),
        st.dictionaries(any_text.map("$".__add__), inner, min_size=1, max_size=1),
    )


TAGS = ["$f", "$i", "$b", "$u", "$t", "$m", "$x", "$z", "$", "$😀"]
TAG_TEXT = [
    *("1.5", "1.50", "nan", "1e999", "0x20000000000000", "0X1", "0x1", "0x" + "f" * 9000),
    *("AAE=", "AAE", "AA E=", "7aCA", "YQ==", "/w==", "=", "é"),
    *("2026-01-02", "2026-01-02T03:04:05", "20260102", "03:04:05", "1E+9", "1e9", "NaN", "1E9E9"),
    *("datetime", "date", "time", "decimal", "uuid", "complex"),
    *("00000000-0000-0000-0000-000000000000", "00000000000000000000000000000000"),
]
tag_text = st.sampled_from(TAG_TEXT)


def _tagged_containers(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    key = plain_text | tag_text.map(lambda text: {"$u": text})
    body = st.one_of(
        inner,
        tag_text,
        st.lists(tag_text, min_size=2, max_size=2),
        st.lists(st.tuples(key, inner).map(list), max_size=3),
    )
    return _plain_containers(inner) | st.builds(
        lambda tag, under: {tag: under}, st.sampled_from(TAGS), body
    )


plain_values = st.recursive(plain_leaves, _plain_containers, max_leaves=20)
foreign_values = st.recursive(foreign_leaves, _foreign_containers, max_leaves=20)
tagged_plain = st.recursive(plain_leaves, _tagged_containers, max_leaves=20)


def same(one: Any, other: Any) -> bool:
    """Equal in value and type all the way down: 1, True, 1.0 and -0.0 are four things."""
    if type(one) is not type(other):
        return False
    if isinstance(one, float):
        return struct.pack("d", one) == struct.pack("d", other)
    if isinstance(one, Decimal):
        return bool(one.as_tuple() == other.as_tuple())
    if isinstance(one, (datetime, time)):
        return one.isoformat() == str(other.isoformat())
    if isinstance(one, Foreign):
        return bool(one.tag == other.tag) and same(one.value, other.value)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    return bool(one == other)
