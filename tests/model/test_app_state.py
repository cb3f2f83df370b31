"""The user's own state: fields, upcasts, and types that no longer fit."""

from __future__ import annotations

import dataclasses

import msgspec
import pytest
from hypothesis import given

from stator.model.records.app_state import fields_of, load, schema_name
from stator.model.records.types import AppRecord, Entry
from stator.model.values import canon
from strategies import foreign_values, same


def entries(version=1, **fields):
    return [
        Entry(
            "app",
            name,
            name,
            1,
            1,
            AppRecord(name=name, value=canon.to_plain(value), version=version),
        )
        for name, value in fields.items()
    ]


@dataclasses.dataclass
class Point:
    x: int = 0
    y: int = 0


class Strict(msgspec.Struct, forbid_unknown_fields=True):
    x: int = 0


@given(foreign_values)
def test_any_recordable_value_is_read_back_unchanged(value):
    assert same(fields_of(entries(field=value), 1, {}), {"field": value})


def test_upcasts_run_in_order_from_the_oldest_version_found():
    def to(version):
        return lambda fields: {**fields, "seen": [*fields.get("seen", []), version]}

    upcasts = {1: to(2), 2: to(3), 3: to(4)}
    assert fields_of(entries(2, x=1), 4, upcasts)["seen"] == [3, 4]
    assert "seen" not in fields_of(entries(4, x=1), 4, upcasts)


def test_fields_load_as_the_type_or_as_plain_data():
    assert load(Point, {"x": 1}) == Point(1, 0)
    assert load(Point, {"x": "one"}) == {"x": "one"}
    assert load(Strict, {"x": 1, "gone": 2}) == {"x": 1, "gone": 2}
    assert load(None, {"x": 1}) == {"x": 1}
    assert load(dict, {"x": 1}) == {"x": 1}


class Explodes:
    @classmethod
    def model_validate(cls, fields):
        raise RuntimeError("a type that does not even fail politely")


@pytest.mark.parametrize("kind", [Explodes, object(), "no type", int, list])
def test_a_type_that_rejects_the_fields_leaves_them_readable_as_data(kind):
    assert load(kind, {"x": 1}) == {"x": 1}


def test_the_record_names_the_type_and_nothing_imports_it():
    assert schema_name(Point).endswith("Point")
    assert schema_name(None) == ""
