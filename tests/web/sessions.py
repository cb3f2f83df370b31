"""Sessions that the tests of pages look at: one with everything a page can show, one that attacks its reader."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import stator
from stator.errors import InDoubt
from stator.runtime.facade.store import Store

HOSTILE = (
    "<script>alert(1)</script><img src=x onerror=alert(2)>",
    "<svg onload=alert(3)><a href='javascript:alert(4)'>x</a></svg>",
    'data:text/html,<script>alert(5)</script>" onmouseover="alert(6)',
    "\x1b]0;title\x07\x1b[2J\x1b[31mred\x1b[0m",
    "invoice\u202etxt.exe\u2066\u200b\u00ad",
    "{{ 7 * 7 }} {% for x in y %} ${7*7} <!-- --> ]]> &lt;b&gt;",
    "</title></textarea></style><base href=//evil.example>",
)
"""What a recorded session may hold: HTML, SVG, data URLs, terminal escapes, bidi, templates."""
LONG_LINE = 10 << 20


def edit(file_path: str, old_string: str, new_string: str) -> str:
    return "edited"


def bash(command: str) -> str:
    if "--set-upstream" in command or not command.startswith("git push"):
        return "ok"
    raise ValueError("Exit code 128\nfatal: the branch has no upstream")


def pay(to: str, cents: int) -> str:
    raise InDoubt("the connection was lost")


def read_file(path: str) -> str:
    return f"content of {path}"


def work(store: Store, name: str = "fix-login", project: str = "") -> str:
    """A session with decisions, a plan, edits, a repaired failure, a run of good calls and a call in doubt; its id."""
    with store.open(name, agent="tester", project=project or None) as s:
        with s.turn("make the login safe") as t:
            t.decide("keep sessions in memory", topic="sessions")
            t.plan("write the test")
            t.say("I look at the code first.")
            for number in range(6):
                t.call(read_file, path=f"src/part_{number}.py")
        with s.turn("store sessions on disk, then push") as t:
            t.decide("keep sessions on disk", topic="sessions", why="they must survive a restart")
            t.plan("write the test", status="done")
            t.file("src/login.py", "modified")
            t.call(
                edit,
                file_path="src/login.py",
                old_string="a = 1\nb = 2",
                new_string="a = 1\nb = 3\nc = 4",
            )
            t.try_call(bash, command="git push")
            t.call(bash, command="git push --set-upstream origin fix")
            t.say("Pushed. `b` is 3 now.\n\n- one\n- two")
            t.try_call(pay, to="ACME", cents=4200)
            return s.id


def long_session(store: Store, turns: int) -> str:
    """A session of many short turns; its id."""
    with store.open("long", agent="tester") as s:
        for number in range(turns):
            with s.turn(f"question {number}") as t:
                t.say(f"answer {number}")
        return s.id


def attack(store: Store) -> str:
    """A session whose every field is hostile; its id."""
    with store.open(HOSTILE[0], agent=HOSTILE[1], labels={"branch": HOSTILE[4]}) as s:
        for text in HOSTILE:
            with s.turn(text) as t:
                t.decide(text, topic=text, why=text)
                t.fact(text, text)
                t.plan(text)
                t.file(text.replace("\x1b", "").replace("\x07", "") + "/a.py", "modified")
                t.say(text)
                t.call(_echo, text=text)
                t.try_call(_fail, text=text)
        with s.turn("a line of 10 MB") as t:
            t.say("x" * LONG_LINE)
            t.call(_echo, text="y" * LONG_LINE)
            t.try_call(_fail, text="z" * LONG_LINE)
        return s.id


def attacked(path: Path) -> None:
    """A store with that session alone."""
    with stator.connect(path, durability="relaxed") as store:
        attack(store)


def _echo(text: str) -> Any:
    return text


def _fail(text: str) -> Any:
    raise ValueError(text)
