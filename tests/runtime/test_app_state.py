"""The user's own state: typed if it fits the type, plain data otherwise, never an error."""

from __future__ import annotations

import dataclasses
from typing import TypedDict

import msgspec
import pytest


@dataclasses.dataclass
class Counter:
    count: int = 0
    names: list[str] = dataclasses.field(default_factory=list)


class Progress(msgspec.Struct):
    done: int = 0
    ratio: float = 0.0


class Seen(TypedDict, total=False):
    urls: list[str]


def test_fields_are_set_one_by_one_and_read_as_the_type(memory):
    with memory.open("a", app=Counter) as s, s.turn("one") as t:
        assert s.app == Counter()
        t.set(count=3)
        t.set(names=["x"])
        assert s.app == Counter(3, ["x"])
    assert s.record.app_schema.endswith("Counter")


def test_a_struct_and_a_typed_dict_can_be_the_type(memory):
    with memory.open("a", app=Progress) as s, s.turn("one") as t:
        t.set(done=1, ratio=0.25)
        assert s.app == Progress(1, 0.25)
    with memory.open("b", app=Seen) as s, s.turn("one") as t:
        t.set(urls=["x"])
        assert s.app == {"urls": ["x"]}


def test_a_pydantic_model_can_be_the_type(memory):
    pydantic = pytest.importorskip("pydantic")
    model = pydantic.create_model("Model", count=(int, 0))
    with memory.open("a", app=model) as s, s.turn("one") as t:
        t.set(count=3)
        assert s.app == model(count=3)


def test_without_a_type_the_state_is_a_dict(memory):
    with memory.open("a") as s, s.turn("one") as t:
        t.set(count=3, where=(1, 2))
        assert s.app == {"count": 3, "where": (1, 2)}


def test_fields_that_do_not_fit_the_type_load_as_data(memory):
    with memory.open("a") as s, s.turn("one") as t:
        t.set(count="three")
    assert memory.read("a", app_type=Counter).app == {"count": "three"}
    assert memory.read("a", app_type=object()).app == {"count": "three"}


def test_older_fields_are_upgraded_one_version_at_a_time(memory):
    with memory.open("a", app=dict, app_version=1) as s, s.turn("one") as t:
        t.set(n=3)
    upcasts = {
        1: lambda fields: {"total": fields["n"]},
        2: lambda fields: {"count": fields["total"] * 10},
    }
    with memory.open("a", app=Counter, app_version=3, upcasts=upcasts) as s:
        assert s.app == Counter(30)


def test_a_version_without_an_upcast_changes_nothing(memory):
    with memory.open("a", app=Counter) as s, s.turn("one") as t:
        t.set(count=3)
    with memory.open("a", app=Counter, app_version=2) as s:
        assert s.app == Counter(3)


def test_app_state_is_part_of_the_state_and_of_the_diff(memory):
    with memory.open("a", app=Counter) as s:
        with s.turn("one") as t:
            t.set(count=1)
        with s.turn("two") as t:
            t.set(count=2)
    (item,) = s.diff().of("app")
    assert (item.key, item.before.value, item.after.value) == ("count", 1, 2)
    (record,) = s.state("t1", collections=["app"])["app"].values()
    assert record.value == 1
