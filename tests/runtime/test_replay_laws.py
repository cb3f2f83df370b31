"""Laws of replay: any program replays as recorded, and any other program diverges."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import stator
from runtime.support import Counted, Died, driving, raising, says
from stator.errors import CallError
from stator.testing import memory_store, replay

AMOUNTS = st.integers(1, 3)
OPS = st.one_of(
    st.tuples(st.sampled_from(["read", "write", "fail", "doubt", "denied"]), AMOUNTS),
    st.tuples(st.sampled_from(["ask", "ask two", "stream", "unanswered"]), AMOUNTS),
    st.tuples(st.sampled_from(["decide", "fact", "say", "session fact", "child"]), AMOUNTS),
)
HARD = (
    "read",
    "write",
    "fail",
    "doubt",
    "denied",
    "ask",
    "ask two",
    "stream",
    "unanswered",
    "child",
)
PROGRAMS = st.lists(st.lists(OPS, max_size=5), min_size=1, max_size=3)
# An ended turn is not continued past a failed model request.
MORTAL = PROGRAMS.filter(lambda p: any(p) and "unanswered" not in str(p))


class World:
    """The tools and the model of a program, which count their uses, or fail when used."""

    def __init__(self, *, live: bool) -> None:
        self._live = live

    def tool(self, name: str, *first: Any, effect: Any = "write", **options: Any) -> Any:
        ways = first if self._live else [raising(AssertionError("a tool ran"))] * 3
        return Counted(*ways, name=name, value={"done": name}).tool(
            effect=effect, attempts=1, **options
        )

    def model(self, answer: Any) -> Any:
        def ask(**_: Any) -> Any:
            assert self._live, "a model was asked"
            if isinstance(answer, Exception):
                raise answer
            return answer

        return ask


def run(s: Any, program: Any, world: World, stop: int = -1) -> list[Any]:
    """Run a program, whose process dies at the op with number `stop`; returns the results it got."""
    told: list[Any] = []
    count = 0
    for place, ops in enumerate(program):
        with s.turn(f"turn {place}") as t:
            for kind, amount in ops:
                if count == stop:
                    raise Died
                count += 1
                told.append(one(s, t, kind, amount, world))
                told.append(sorted(s.facts().items()))
    return told


def one(s: Any, t: Any, kind: str, amount: int, world: World) -> Any:
    if kind in ("read", "write"):
        return t.call(world.tool(kind, effect=kind), amount=amount)
    if kind == "fail":
        return status(t.try_call(world.tool("fail", raising(ValueError("no"))), amount=amount))
    if kind == "doubt":
        return status(t.try_call(world.tool(f"doubt{amount}", raising(TimeoutError()))))
    if kind == "denied":
        return status(t.try_call(world.tool("never"), amount=amount))
    if kind.startswith("ask"):
        asks = [("act", {"amount": amount + n}) for n in range(2 if kind == "ask two" else 1)]
        r = t.model(world.model(says(*asks)), model="m", messages=t.messages("anthropic"))
        return t.results(r, {"act": world.tool("act")}, parallel=True)
    if kind == "stream":
        for _ in (stream := t.stream(world.model(iter(["a", str(amount)])), model="m")):
            pass
        return stream.reply
    if kind == "unanswered":
        with pytest.raises(CallError):
            t.model(world.model(ValueError("overloaded")), model=f"m{amount}")
        return None
    if kind == "child":
        with s.child(f"child{amount}") as c, c.turn("help") as u:
            return u.call(world.tool("help"), amount=amount)
    return record(s, t, kind, amount)


def record(s: Any, t: Any, kind: str, amount: int) -> None:
    if kind == "decide":
        t.decide(f"take {amount}", topic="what")
    elif kind == "fact":
        t.fact("amount", amount)
    elif kind == "say":
        t.say(f"that is {amount}")
    else:
        s.fact("of the session", amount)


def status(outcome: Any) -> tuple[str, str, str]:
    return outcome.status, outcome.error, outcome.cause


RULES = [stator.Rule(tool="never", action="deny", why="never")]


def recorded(program: Any) -> tuple[Any, list[Any]]:
    store = memory_store()
    with store.open("p", rules=RULES) as s:
        told = run(s, program, World(live=True))
    return store.read("p"), told


@settings(max_examples=50)
@given(program=PROGRAMS)
def test_any_program_replays_as_recorded_with_the_same_results(program):
    view, told = recorded(program)
    found = replay(view, lambda s: run(s, program, World(live=False)), strict=True)
    assert str(found.divergence) == "None"
    assert (found.result, found.ended) == (told, "")


@settings(max_examples=50)
@given(program=PROGRAMS, data=st.data())
def test_a_program_with_a_changed_call_diverges(program, data):
    view, _ = recorded(program)
    hard = [
        (p, n) for p, ops in enumerate(program) for n, (kind, _) in enumerate(ops) if kind in HARD
    ]
    if not hard:
        return
    place, number = data.draw(st.sampled_from(hard))
    other = [list(ops) for ops in program]
    kind, amount = other[place].pop(number)
    if data.draw(st.booleans(), label="in place of it"):
        other[place].insert(number, ("read" if kind != "read" else "write", amount))
    found = replay(view, lambda s: run(s, other, World(live=False)))
    before = [(kind, amount) for kind, amount in program[place] if kind in HARD]
    after = [(kind, amount) for kind, amount in other[place] if kind in HARD]
    assert found.ok == (before == after)


def died(program: Any, data: Any) -> Any:
    """A store with the record of a program whose process died at some op."""
    stop = data.draw(st.integers(0, sum(map(len, program)) - 1), label="dies at")
    store = memory_store()
    with driving(store, "p", rules=RULES) as s:
        run(s, program, World(live=True), stop)
    return store


@settings(max_examples=50)
@given(program=MORTAL, data=st.data())
def test_a_program_that_died_and_was_rerun_replays_as_one(program, data):
    store = died(program, data)
    with store.open("p", rules=RULES) as s:
        run(s, program, World(live=True))
    found = replay(store.read("p"), lambda s: run(s, program, World(live=False)))
    assert str(found.divergence) == "None"


@settings(max_examples=50)
@given(program=MORTAL, data=st.data())
def test_the_record_of_a_killed_program_replays_up_to_its_end(program, data):
    store = died(program, data)
    found = replay(store.read("p"), lambda s: run(s, program, World(live=False)))
    assert str(found.divergence) == "None"
    assert found.ended
