"""Which later call repaired a failure, and which only looks like it."""

from __future__ import annotations

import pytest

import stator
from stator.runtime.views.reasons.repaired import TURNS_LOOKED, repaired_by, repaired_calls


def ran(store, *commands):
    """Run commands in one turn; one that begins with `!` fails. The seqs of failures that were repaired, by command."""

    @stator.tool
    def bash(command):
        if command in failing:
            raise RuntimeError("exit 1")

    with store.open("work") as s, s.turn("do it") as t:
        for command in commands:
            failing = {command[1:]} if command.startswith("!") else set()
            t.try_call(bash, command=command.removeprefix("!"))
        found = repaired_by(store.port, s.id, 1)
        return {s.commit(f"@{seq}").value("input")["command"] for seq in found}


@pytest.fixture
def store(tmp_path):
    with stator.connect(tmp_path / "repairs.db", durability="relaxed") as opened:
        yield opened


REPAIRS = [
    ("npx vitest run 2>&1", "npx vitest run 2>&1"),
    ("git push 2>&1", "git push --set-upstream origin work 2>&1"),
    ("git commit -m 'one'", "git commit -m 'one, formatted'"),
    ("git add a.json b.js && git commit -m x", "git add b.js && git commit -m x"),
    ("mix test test/a_test.exs", "mix test"),
    ("pytest -q tests/test_cart.py", "PYTHONPATH=src pytest -q tests/test_cart.py"),
    ("pnpm --filter @repo/labs check-types", "pnpm --filter @repo/labs check-types | tail -5"),
]
DIFFERENT = [
    ("python3 migrate_db.py", "python3 hello.py"),
    ("pip install psycopg2", "pip install requests"),
    ("git push origin release", "git push origin docs"),
    ("python -m pytest tests/test_money.py", "python -m pytest tests/test_docs.py"),
    ("mix test", "mix test test/a_test.exs"),
    ("npm run test", "npm run lint"),
    ("python3 -c 'import a'", "python3 -c 'import b'"),
    ("make release && git push", "git push"),
    ("rm -rf build", "rm -rf dist"),
]


@pytest.mark.parametrize(("failed", "later"), REPAIRS)
def test_the_same_done_again_repairs_a_failure(failed, later, store):
    assert ran(store, f"!{failed}", later) == {failed}


@pytest.mark.parametrize(("failed", "later"), DIFFERENT)
def test_something_else_done_by_the_same_program_repairs_nothing(failed, later, store):
    assert ran(store, f"!{failed}", later) == set()


def test_a_call_in_doubt_is_not_repaired_by_one_that_did_the_same(store):
    @stator.tool
    def bash(command):
        if command == "git push":
            raise stator.InDoubt("no answer")

    with store.open("work") as s:
        with s.turn("push") as t:
            t.try_call(bash, command="git push")
            t.try_call(bash, command="git push origin work")
        assert [call.status for call in s.calls()] == ["ok", "in doubt"]
        assert repaired_by(store.port, s.id, 1) == {}


def test_repairs_are_found_in_as_many_turns_as_are_looked_at(store):
    @stator.tool
    def bash(command, fails):
        if fails:
            raise RuntimeError("exit 1")

    with store.open("many") as s:
        for n in range(TURNS_LOOKED):
            with s.turn(f"turn {n}") as t:
                t.try_call(bash, command="make", fails=True)
                t.try_call(bash, command="make", fails=False)
        failed = [call for call in s.diff("t0..head").calls if call.status == "error"]
        assert len(failed) == TURNS_LOOKED
        assert len(repaired_calls(store.port, s.id, failed)) == TURNS_LOOKED
