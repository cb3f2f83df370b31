"""Compares two attempts at one turn."""

from __future__ import annotations

import pytest

from runtime.support import Counted, raising
from stator.errors import InvalidInput


def read(value="text"):
    return Counted(name="read", value=value).tool(effect="read")


def look(value="text"):
    return Counted(name="look", value=value).tool(effect="read")


@pytest.fixture
def tried(either):
    """A session with one turn, and one turn with two attempts."""
    with either.open("main") as s:
        with s.turn("prepare") as t:
            t.fact("os", "linux")
        with s.turn("fix it") as t:
            t.call(read(), path="a.py")
            t.call(look(), at="x")
            t.try_call(read(), path="tests")
            t.decide("use JWT", topic="auth", why="no store", confidence=0.9, factors={"cost": 1})
            t.file("a.py", "modified", after="1")
            t.fact("port", 80)
            t.say("Done.\nIt uses JWT.", usage={"tokens": 100})
        with s.retry("t2") as t:
            t.call(read("other"), path="a.py")
            t.call(look(), at="y")
            t.try_call(
                Counted(raising(ValueError("no")), name="read").tool(effect="read"), path="b"
            )
            t.call(Counted(name="search").tool(effect="read"))
            t.decide(
                "use cookies", topic="auth", why="JWT cannot be revoked",
                confidence=0.6, factors={"cost": 1, "risk": 2},
            )  # fmt: skip
            t.file("b.py", "created", after="2")
            t.fact("port", 80)
            t.say("Done.\nIt uses cookies.", usage={"tokens": 70})
        yield s


def test_answers_are_compared_line_by_line(tried):
    found = tried.compare("t2", "t2.2")
    assert [line for line in found.answer if line[0] in "+-"][2:] == [
        "-It uses JWT.",
        "+It uses cookies.",
    ]
    assert found.same_prompt


def test_a_changed_decision_is_shown_with_its_differences_and_reason(tried):
    (shift,) = tried.compare("t2", "t2.2").decisions
    assert (shift.topic, shift.before, shift.after) == ("auth", "use JWT", "use cookies")
    assert shift.confidence == (900, 600)
    assert shift.factors == {"risk": (None, 2)}
    assert shift.why == "JWT cannot be revoked"


def test_the_reason_for_the_difference_is_the_changed_decision(tried):
    why = tried.compare("t2", "t2.2").why
    assert why == "auth: use cookies instead of use JWT, because JWT cannot be revoked"


def test_calls_are_aligned(tried):
    found = [(pair.tool, pair.change) for pair in tried.compare("t2", "t2.2").calls]
    assert found == [
        ("read", "other outcome"),
        ("look", "other arguments"),
        ("read", "other arguments"),
        ("search", "added"),
    ]
    back = [(pair.tool, pair.change) for pair in tried.compare("t2.2", "t2").calls]
    assert back[-1] == ("search", "dropped")


def test_equal_records_are_not_listed(tried):
    found = tried.compare("t2", "t2.2")
    assert found.facts == []
    assert {item.key for item in found.files} == {"a.py", "b.py"}


def test_the_usage_of_both_attempts_is_shown(tried):
    found = tried.compare("t2", "t2.2")
    assert (found.a.usage, found.b.usage) == ({"tokens": 100}, {"tokens": 70})


def test_two_equal_attempts_have_no_differences(either):
    with either.open("main") as s:
        with s.turn("go") as t:
            t.call(read(), path="a")
            t.say("ok")
        with s.retry("t1") as t:
            t.call(read(), path="a")
            t.say("ok")
        found = s.compare("t1", "t1.2")
    assert (found.answer, found.decisions, found.why) == ([], [], "")
    assert [pair.change for pair in found.calls] == ["same"]


def test_a_different_prompt_is_named_as_the_reason(tried):
    with tried.retry("t2", prompt="fix it well"):
        pass
    found = tried.compare("t2.2", "t2.3")
    assert not found.same_prompt
    assert found.why == "another prompt"


def test_a_turn_of_a_fork_can_be_compared(either, tried):
    either.fork("main", "t1", as_name="fork")
    with either.open("fork") as s, s.turn("fix it") as t:
        t.say("no")
    assert tried.compare("t2", "fork:t2").b.answer == "no"


def test_only_attempts_at_the_same_turn_can_be_compared(tried):
    for a, b in (("t1", "t2"), ("t2", "t2"), ("t2", "head"), ("t0", "t2.2")):
        with pytest.raises(InvalidInput, match="not two attempts"):
            tried.compare(a, b)


def test_answers_that_differ_after_the_compared_lines_are_reported(memory):
    long = "\n".join(map(str, range(2500)))
    with memory.open("main") as s:
        with s.turn("x") as t:
            t.say(long)
        with s.retry("t1") as t:
            t.say(long + "\nand more")
        assert "after line 2,000" in s.compare("t1", "t1.2").answer[-1]
