"""The law of two agents and one file: told iff another live session changed the file after my last read or write, and
I was not told since."""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from stator.model.brief.shared_files import KEPT_MAX, line_of, shortened, touches_in
from stator.touched_files import LINES_MAX, Toucher, own_process

SESSIONS = ("a", "b", "c")
CONTENTS = ("", "one", "two")
STEPS = st.one_of(
    st.tuples(st.just("read"), st.sampled_from(SESSIONS)),
    st.tuples(st.just("write"), st.sampled_from(SESSIONS), st.sampled_from(CONTENTS)),
    st.tuples(st.just("remove"), st.sampled_from(SESSIONS)),
    st.tuples(st.just("outside"), st.sampled_from(CONTENTS)),
    st.tuples(st.just("end"), st.sampled_from(SESSIONS)),
    st.tuples(st.just("begin"), st.sampled_from(SESSIONS)),
    st.tuples(st.just("die"), st.sampled_from(SESSIONS)),
)
DEAD = (2**22 - 3, 1, os.stat("/proc/self/ns/pid").st_ino)


class Oracle:
    """Who must be told, from what really happened."""

    def __init__(self) -> None:
        self.content: str | None = None
        self.clock = 0
        self.seen: dict[str, tuple[int, str | None]] = {}
        self.changed: dict[str, int] = {}
        self.told: dict[str, int] = {}
        self.over: set[str] = set()

    def is_told(self, who: str) -> bool:
        if who not in self.seen:
            return False
        at, content = self.seen[who]
        since = max(at, self.told.get(who, 0))
        others = [one for one in self.changed if one != who and one not in self.over]
        news = [self.changed[one] for one in others if self.changed[one] > since]
        if content == self.content or not news:
            return False
        self.told[who] = max(news)
        return True

    def read(self, who: str) -> None:
        self.clock += 1
        self.seen[who] = self.clock, self.content

    def write(self, who: str, content: str | None) -> None:
        is_change = content != self.content
        self.content = content
        self.read(who)
        if is_change:
            self.changed[who] = self.clock


@given(st.lists(STEPS, max_size=25), st.booleans())
@settings(max_examples=150, deadline=None)
def test_an_agent_is_told_exactly_what_it_did_not_see(steps, later):
    oracle = Oracle()
    with TemporaryDirectory() as folder:
        path = Path(folder) / "shared.md"
        process = dict.fromkeys(SESSIONS, own_process())

        def session(name: str) -> Toucher:
            return Toucher(folder, name, "agent", process[name])

        for step in steps:
            kind, *more = step
            who = more[0]
            if kind == "read":
                oracle.read(who)
                session(who).seen(str(path))
            elif kind in ("write", "remove"):
                content = more[1] if kind == "write" else None
                found = session(who).before_write(str(path), later=later)
                if later and found is not None:
                    found = session(who).due(str(path))
                assert (found is not None) == oracle.is_told(who), steps
                oracle.write(who, content)
                put(path, content)
                session(who).seen(str(path), wrote=True)
            elif kind == "outside":
                oracle.content = more[0]
                put(path, more[0])
            elif kind == "begin":
                oracle.over.discard(who)
                process[who] = own_process()
                session(who).began()
                oracle.read(who)
                session(who).seen(str(path))
            else:
                oracle.over.add(who)
                if kind == "end":
                    session(who).ended()
                else:
                    process[who] = DEAD
                    oracle.read(who)
                    session(who).seen(str(path))


def put(path: Path, content: str | None) -> None:
    if content is None:
        path.unlink(missing_ok=True)
    else:
        path.write_text(content)


LINES = st.lists(
    st.builds(
        lambda op, key, stamp, detail: (op, key, stamp, detail),
        st.sampled_from("rwdtb"), st.sampled_from(SESSIONS), st.sampled_from(CONTENTS),
        st.sampled_from(["", "5", "Edit"]),
    )
)  # fmt: skip


def facts(text: str) -> dict[str, tuple[Any, ...]]:
    known = touches_in(text)
    facts: dict[str, tuple[Any, ...]] = {
        key: (one.seen, one.wrote, one.told, one.due, one.stamp if one.seen else "")
        for key, one in known.by.items()
        if one.seen or one.told
    }
    return {**facts, "": (known.at, known.stamp)}


@given(LINES)
def test_lines_in_short_form_say_the_same(lines):
    text = "".join(
        line_of(at, op, key, "agent", stamp, "1.1.1", detail)
        for at, (op, key, stamp, detail) in enumerate(lines, 10)
    )
    assert facts(shortened(touches_in(text))) == facts(text)


@given(st.text(), LINES)
def test_anything_in_the_file_costs_at_most_its_own_line(junk, lines):
    good = "".join(
        line_of(at, op, key, "agent", stamp, "1.1.1", detail)
        for at, (op, key, stamp, detail) in enumerate(lines, 10)
    )
    touches_in(junk)
    assert facts(good + junk.replace("\n", "").replace("\t", "")) == facts(good)


@given(st.text(), st.text(), st.text())
def test_no_field_of_a_line_can_add_a_line(key, agent, tool):
    line = line_of(1, "w", key or "k", agent, "s", "1.1.1", tool)
    assert line.count("\n") == 1
    assert len(touches_in(line).by) == 1


def test_the_lines_of_one_file_stay_few(tmp_path):
    path = str(tmp_path / "a")
    for number in range(3 * KEPT_MAX):
        Toucher(str(tmp_path), f"session-{number}", "agent", own_process()).seen(path)
        for _ in range(3):
            Toucher(str(tmp_path), f"session-{number}", "agent", own_process()).seen(path)
    (kept,) = (tmp_path / "touched").iterdir()
    assert kept.stat().st_size <= LINES_MAX + 1000
