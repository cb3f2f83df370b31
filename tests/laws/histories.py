"""Random histories: lists of steps, each one act of a program, a person or an operator.

A step is a name and plain arguments. Where a step needs something that a history has only by then
(a position, a call in doubt, a session), it holds a number, and the teller counts it off among what
is there. So every step is possible in every place, and a history stays one when steps are left out.
"""

from __future__ import annotations

import random
from typing import Any

from laws import values

Step = tuple[str, dict[str, Any]]
PATHS = ("a.py", "b.py", "src/c.py", "src/d.py", "notes.md")
OPS = ("created", "modified", "deleted", "renamed", "read", "modified", "created")
STATUSES = ("pending", "in_progress", "done", "blocked", "dropped")
ENDS = ("ok", "ok", "ok", "raise", "abort")
OUTCOMES = (
    *("ok", "ok", "ok", "error", "timeout", "not done", "in doubt", "cancelled", "denied"),
    *("lost", "result error", "unrecordable", "asked"),
)
EFFECTS = ("read", "idempotent", "write", "write")
SHAPES = ("anthropic", "openai", "openai-chat")
DIGESTS = ("", "d1", "d2", "d3")
BIG = 40_000

WEIGHTS = {
    "say": 5,
    "ask": 6,
    "call": 8,
    "decide": 7,
    "file": 10,
    "fact": 7,
    "prefer": 2,
    "dead_end": 2,
    "plan": 4,
    "pend": 3,
    "pend_done": 2,
    "artifact": 3,
    "use": 2,
    "note": 5,
    "set": 3,
    "batch": 2,
    "end": 9,
    "turn": 4,
    "tag": 2,
    "score": 2,
    "flag": 2,
    "settle": 4,
    "approval": 1,
    "rewind": 5,
    "compact": 4,
    "undo": 4,
    "erase": 3,
    "erase_commit": 1,
    "fork": 3,
    "retry": 2,
    "adopt": 1,
    "child": 1,
    "switch": 3,
    "leave": 3,
    "reopen": 2,
    "rebuild": 1,
    "carry": 2,
    "carry_back": 1,
    "program": 1,
}


def history(seed: int, *, steps: int = 0, big: bool = False) -> list[Step]:
    """The history of a seed: 20 to 60 steps, unless a number is given."""
    rng = random.Random(seed)
    names, weights = list(WEIGHTS), list(WEIGHTS.values())
    if rng.random() < 0.5:  # some acts often, others never: rare combinations meet
        weights = [weight * rng.choice((0, 1, 1, 4)) for weight in weights]
        weights[names.index("fact")] += 1
    count = steps or rng.randint(20, 60)
    return [_step(rng, name, big) for name in rng.choices(names, weights, k=count)]


def _step(rng: random.Random, name: str, big: bool) -> Step:
    return name, _MAKERS.get(name, lambda rng, big: {"nth": rng.randrange(1000)})(rng, big)


def _where(rng: random.Random) -> str:
    """Who records: the turn, the session between turns, or another program."""
    return rng.choice(("turn", "turn", "turn", "session", "outside"))


def _text(rng: random.Random, big: bool) -> str:
    if big and rng.random() < 0.3:
        return values.sentence(rng, rng.randrange(1000, BIG // 6))
    return values.sentence(rng, 30) if rng.random() < 0.2 else values.sentence(rng)


def _decide(rng: random.Random, big: bool) -> dict[str, Any]:
    made: dict[str, Any] = {"where": _where(rng), "what": values.sentence(rng)}
    if rng.random() < 0.7:
        made["topic"] = rng.choice(("auth", "store", "#1", "a\nb"))
    if rng.random() < 0.3:
        made["supersedes"] = rng.randrange(100)
    if rng.random() < 0.4:
        made["over"] = [values.word(rng) for _ in range(rng.randint(1, 2))]
    if rng.random() < 0.3:
        made["confidence"] = rng.choice((0, 1, 0.5, 0.123))
    if rng.random() < 0.3:
        made["factors"] = {"cost": values.foreign(rng)}
    if rng.random() < 0.5:
        made["why"] = values.sentence(rng)
    return made


def _file(rng: random.Random, big: bool) -> dict[str, Any]:
    op = rng.choice(OPS)
    made = {"where": _where(rng), "path": rng.choice(PATHS), "op": op}
    if op == "renamed":
        made["from_path"] = rng.choice(PATHS)
    if op != "deleted":
        made["after"] = rng.choice(DIGESTS)
    if rng.random() < 0.2:
        made["before"] = rng.choice(DIGESTS)
    return made


def _named(*names: str) -> Any:
    def make(rng: random.Random, big: bool) -> dict[str, Any]:
        value = _text(rng, big) if big and rng.random() < 0.5 else values.foreign(rng)
        return {"where": _where(rng), "name": rng.choice(names), "value": value}

    return make


def _plan(rng: random.Random, big: bool) -> dict[str, Any]:
    some = rng.sample(("dig", "build", "paint", "move in"), rng.randint(1, 3))
    return {
        "where": _where(rng),
        "steps": some,
        "status": rng.choice(STATUSES),
        "detail": rng.choice(("", "", "soon")),
        "order": rng.choice((0, 0, 3)),
        "listed": len(some) > 1 or rng.random() < 0.3,
    }


def _call(rng: random.Random, big: bool) -> dict[str, Any]:
    return {
        "effect": rng.choice(EFFECTS),
        "how": rng.choice(OUTCOMES),
        "value": _text(rng, big) if big else values.foreign(rng),
        "attempts": rng.choice((1, 1, 2)),
    }


def _ask(rng: random.Random, big: bool) -> dict[str, Any]:
    return {
        "shape": rng.choice(SHAPES),
        "text": rng.choice(("", _text(rng, big), _text(rng, big))),
        "calls": [
            (rng.choice(EFFECTS), rng.choice(OUTCOMES), rng.randrange(4))
            for _ in range(rng.choice((0, 1, 1, 2, 3)))
        ],
        "run": rng.random() < 0.85,
        "value": _text(rng, big),
        "through": rng.choice(("reply", "reply", "model")),
    }


def _batch(rng: random.Random, big: bool) -> dict[str, Any]:
    names = rng.choices(("fact", "note", "file", "decide", "plan", "pend", "say", "set"), k=4)
    inside = [_step(rng, name, big) for name in names[: rng.randint(1, 4)]]
    for _, arguments in inside:
        arguments.pop("supersedes", None)
    return {"steps": inside, "fails": rng.random() < 0.2}


def _set(rng: random.Random, big: bool) -> dict[str, Any]:
    fields = rng.sample(("count", "total", "name"), rng.randint(1, 2))
    return {"fields": {name: values.foreign(rng) for name in fields}}


def _compact(rng: random.Random, big: bool) -> dict[str, Any]:
    return {
        "keep": rng.choice((1, 1, 2, 4)),
        "summary": rng.choice(("", "it went well")),
        "scratch": rng.random() < 0.6,
        "max_tokens": rng.choice((None, None, 0, 200)),
    }


def _pend(rng: random.Random, big: bool) -> dict[str, Any]:
    return {"what": rng.choice(("ask Ann", "ship", "test")), "on": rng.choice(("", "Ann"))}


def _program(rng: random.Random, big: bool) -> dict[str, Any]:
    kinds = ("fact", "note", "set", "say", "decide", "file", "use", "plan", "pend", "call")
    acts = [(rng.choice((*kinds, "artifact", "call")), values.leaf(rng)) for _ in range(8)]
    acts = [(kind, "well") if kind in ("say", "decide") else (kind, value) for kind, value in acts]
    crashes = [rng.randrange(100) for _ in range(rng.randint(1, 3))]
    return {"acts": acts[: rng.randint(1, 8)], "crashes": crashes}


def _turn(rng: random.Random, big: bool) -> dict[str, Any]:
    return {
        "prompt": _text(rng, big),
        "key": rng.choice(("", "", "", f"k{rng.randrange(3)}")),
        "end": rng.choice(ENDS),
    }


_MAKERS: dict[str, Any] = {
    "say": lambda rng, big: {
        "text": _text(rng, big),
        "usage": rng.choice(({}, {"tokens": rng.randrange(50)})),
        "actor": rng.choice(("model", "model", "user", "agent")),
    },
    "ask": _ask,
    "call": _call,
    "decide": _decide,
    "file": _file,
    "fact": _named("test command", "port", "owner"),
    "prefer": _named("tabs", "tone"),
    "note": lambda rng, big: {
        "name": rng.choice(("n1", "n2", "n3", "n4")),
        "value": values.foreign(rng),
    },
    "dead_end": lambda rng, big: {
        "where": _where(rng),
        "what": values.word(rng),
        "why": values.sentence(rng),
    },
    "plan": _plan,
    "pend": _pend,
    "artifact": lambda rng, big: {
        "where": _where(rng),
        "name": rng.choice(("features", "progress")),
        "content": _text(rng, big) if rng.random() < 0.5 else values.foreign(rng),
    },
    "use": lambda rng, big: {
        "kind": rng.choice(("file", "app", "data")),
        "name": rng.choice(("Safari", "db")),
        "detail": rng.choice(("", "open")),
    },
    "set": _set,
    "batch": _batch,
    "turn": _turn,
    "end": lambda rng, big: {"how": rng.choice(ENDS)},
    "tag": lambda rng, big: {"name": rng.choice(("good", "bad")), "nth": rng.randrange(1000)},
    "score": lambda rng, big: {
        "where": rng.choice(("session", "outside")),
        "name": rng.choice(("quality", "speed")),
        "value": rng.choice((0, 1, 0.5, -2)),
        "on": rng.choice(("", "t1")),
    },
    "flag": lambda rng, big: {
        "where": rng.choice(("session", "outside")),
        "name": rng.choice(("look", "odd")),
        "on": rng.choice(("", "t1")),
        "why": values.sentence(rng),
    },
    "settle": lambda rng, big: {
        "nth": rng.randrange(100),
        "verdict": rng.choice(("done", "done", "not done", "run again")),
        "value": values.foreign(rng),
    },
    "approval": lambda rng, big: {"nth": rng.randrange(100), "yes": rng.random() < 0.5},
    "rewind": lambda rng, big: {"nth": rng.randrange(1000), "back": rng.random() < 0.25},
    "compact": _compact,
    "program": _program,
    "erase": lambda rng, big: {
        "nth": rng.randrange(1000),
        "collection": rng.choice(
            (
                "facts",
                "files",
                "decisions",
                "scratch",
                "artifacts",
                "plan",
                "app",
                "tools",
                "pending",
            )
        ),
    },
    "retry": lambda rng, big: {"nth": rng.randrange(100), "value": values.foreign(rng)},
    "leave": lambda rng, big: {"how": rng.choice(("pause", "close", "raise"))},
    "carry": lambda rng, big: {"dry_run": rng.random() < 0.5},
}
