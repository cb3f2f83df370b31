"""No line of an answer is wider than the terminal, whatever was recorded.

Not tested are answers that show content in full or are made to be copied: `show POSITION`, `log --full`,
`recall`, patches, and the heads that `verify` prints.
"""

from __future__ import annotations

import json
import re

import pytest

from stator.surfaces.cli.render.lines import Line, cells
from surfaces.recorded import record

COMMANDS = [
    ["ls"], ["ls", "--all"], ["show"], ["log"], ["log", "fix-login:t2"], ["diff"],
    ["diff", "fix-login:t1", "fix-login:t3"], ["diff", "--all"], ["state"], ["files"],
    ["files", "--project", "--reads"],
    ["decisions", "--all"], ["decisions", "--project"], ["calls"], ["calls", "--project"],
    ["evicted"],
    ["why", "auth.py"], ["why", "auth.py", "--project"], ["search", "login"], ["tree"],
    ["tree", "--project"], ["du"], ["du", "--by", "kind"], ["top", "--once"], ["budget"], ["settle"],
    ["approvals"], ["verify"], ["doctor"], ["retention"], ["gc"], ["erase", "--all"],
    ["compact", "--dry-run"], ["rewind", "t1", "--dry-run"], ["sql", "SELECT * FROM commits"],
]  # fmt: skip


@pytest.fixture
def wide(tmp_path, world, monkeypatch):
    """A store in which names, prompts, paths and values are longer than any terminal is wide."""
    path = tmp_path / "wide.db"
    with world.open(path) as opened:
        record(opened)
        with opened.open("名前" * 40, agent="agent-" * 30) as s, s.turn("fix the login " * 60) as t:
            t.decide("use cookies " * 40, topic="auth " * 30, why="because " * 80)
            t.fact("phone-" * 30, "五" * 300)
            t.file("/".join(["a-folder-with-a-long-name"] * 12) + "/auth.py", "created")
            t.file("auth.py", "created", why="why " * 90)
            t.plan(["one " * 60, "two " * 60])
    monkeypatch.setenv("STATOR_STORE", str(path))


@pytest.mark.parametrize("columns", [60, 80, 100, 120])
@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_no_line_of_an_answer_is_wider_than_the_terminal(words, columns, wide, ask, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(columns))
    answer = ask(*words)
    assert answer.code in (0, 1), answer.err
    copied = re.compile(r"  [0-9a-f]{64}\Z")
    too_wide = [line for line in answer.lines if cells(line) > columns]
    assert [line for line in too_wide if not copied.match(line)] == []


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_the_heads_that_verify_prints_can_be_copied_from_any_terminal(
    columns, wide, ask, monkeypatch
):
    monkeypatch.setenv("COLUMNS", str(columns))
    heads = json.loads(ask("verify", "--json").out)["heads"]
    shown = ask("verify").out
    assert heads
    assert all(head in shown for head in heads.values())


@pytest.mark.parametrize("columns", [60, 80])
def test_the_cause_of_an_open_call_is_shown_in_full(columns, wide, ask, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(columns))
    answer = ask("calls", "fix-login", "--open")
    assert "…" not in answer.out, answer.out


def test_a_command_to_copy_is_not_broken_between_its_words():
    line = Line(
        "no passphrase is set, so any process of this user can approve → stator init --approver"
    )
    rows = [row.plain for row in line.wrapped(72, 6)]
    assert rows[-1].strip() == "stator init --approver"
    first, *others = Line("first stator log a, then stator log b c d e f g h").wrapped(30, 2)
    assert first.plain.startswith("first stator log a,")
    assert others[0].plain.strip().startswith("stator log b c")


def test_a_mark_after_a_word_of_another_style_stays_with_it():
    line = Line("it was ").add("pushed", "ok").add(", as one says")
    assert all(not row.plain.lstrip().startswith(",") for row in line.wrapped(14, 2))
