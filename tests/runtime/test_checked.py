"""Steps of a plan read done only where the log proves it, in every view."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import stator
from stator.errors import InvalidInput
from stator.model.log.commit import Upsert
from stator.model.records.types import ReadStep
from stator.runtime.views import checked
from stator.runtime.views.overview import overview
from stator.testing import memory_store

CHECKS = ("make test", "make lint")


class Failed(Exception):
    """What a tool raises whose command did not exit with 0."""


@stator.tool(effect="read")
def shell(command: str, fails: bool = False) -> str:
    if fails:
        raise Failed("exit code 1")
    return "ok"


def step(view, name="s"):
    (found,) = [e.record for e in view.entries("plan") if e.record.step == name]
    return found


def run(turn, command, *, fails=False):
    with contextlib.suppress(Exception):
        turn.call(shell, command=command, fails=fails)


@pytest.fixture
def store(tmp_path):
    with stator.connect(tmp_path / "a.db") as opened:
        yield opened


@pytest.fixture
def session(store):
    with store.open("a") as opened:
        yield opened


def test_a_step_is_claimed_until_its_check_succeeds(session):
    with session.turn("one") as t:
        t.plan("s", "done", check="make test", files=["a.py"])
        assert step(session).status == "claimed"
        run(t, "make test")
        assert (step(session).status, step(session).check) == ("done", "make test")


def test_a_later_update_keeps_the_check_and_the_files(session):
    with session.turn("one") as t:
        t.plan("s", check="make test", files=["a.py"])
        t.plan("s", "done")
    assert (step(session).check, step(session).files) == ("make test", ["a.py"])


def test_reading_a_file_after_the_check_changes_nothing(session):
    with session.turn("one") as t:
        t.plan("s", "done", check="make test", files=["a.py"])
        t.file("a.py", "modified")
        run(t, "make test")
        t.file("a.py", "read")
        assert step(session).status == "done"


def test_a_change_that_was_read_since_is_still_a_change(session):
    with session.turn("one") as t:
        t.plan("s", "done", check="make test", files=["a.py"])
        run(t, "make test")
        t.file("a.py", "modified")
        t.file("a.py", "read")
        assert step(session).because == "changed since the check: a.py"


def test_a_change_of_another_file_concerns_only_steps_that_name_no_files(session):
    with session.turn("one") as t:
        t.plan("s", "done", check="make test", files=["a.py"])
        t.plan("all", "done", check="make test")
        run(t, "make test")
        t.file("b.py", "modified")
        assert step(session).status == "done"
        assert step(session, "all").because == "changed since the check: b.py"


def test_a_file_below_a_folder_that_a_step_names_is_one_of_its_files(session):
    with session.turn("one") as t:
        t.plan("s", "done", check="make test", files=["src"])
        run(t, "make test")
        t.file("srcs/x.py", "modified")
        assert step(session).status == "done"
        t.file("src/x.py", "created")
        assert step(session).because == "changed since the check: src/x.py"


def test_the_past_reads_as_it_was(session):
    with session.turn("one") as t:
        t.plan("s", "done", check="make test")
        before = session.head.seq
        run(t, "make test")
        proved = session.head.seq
        t.file("a.py", "modified")
    read = {at: session.entries("plan", f"@{at}")[0].record.status for at in (before, proved)}
    assert read == {before: "claimed", proved: "done"}
    assert step(session).status == "claimed"


def test_a_diff_says_that_a_step_reads_done_without_a_change_of_its_record(session):
    with session.turn("one") as t:
        t.plan("s", "done", check="make test")
    with session.turn("two") as t:
        run(t, "make test")
    (item,) = session.diff("t2").of("plan")
    assert (item.before.status, item.after.status) == ("claimed", "done")


def test_a_diff_lists_no_step_that_was_proved_again(session):
    with session.turn("one") as t:
        t.plan("s", "done", check="make test")
        run(t, "make test")
    with session.turn("two") as t:
        run(t, "make test")
    assert session.diff("t2").of("plan") == []


def test_a_check_before_a_rewind_proves_nothing_of_the_files_on_disk(session):
    with session.turn("one") as t:
        t.plan("s", "done", check="make test")
        run(t, "make test")
    with session.turn("two") as t:
        t.file("a.py", "modified")
    session.rewind("t1")
    assert step(session).because == "rewound since the check"


def test_a_fork_inherits_the_proof_and_loses_it_by_its_own_changes(store, session):
    with session.turn("one") as t:
        t.plan("s", "done", check="make test")
        run(t, "make test")
    fork = store.fork("a", as_name="b")
    assert step(fork).status == "done"
    with store.open("b") as other, other.turn("two") as t:
        t.file("a.py", "modified")
        assert step(other).status == "claimed"
    assert step(session).status == "done"


def test_another_session_proves_nothing(store, session):
    with session.turn("one") as t:
        t.plan("s", "done", check="make test")
    with store.open("b") as other, other.turn("one") as t:
        run(t, "make test")
    assert step(session).because == "its check did not run"


def test_an_old_proof_is_found_where_the_step_was_recorded(session, monkeypatch):
    monkeypatch.setattr(checked, "NEWEST", 5)
    with session.turn("one") as t:
        run(t, "make test")
        t.plan("s", "done", check="make test", files=["a.py"])
        for n in range(10):
            run(t, f"echo {n}")
        assert step(session).status == "done"
        run(t, "make test", fails=True)
        for n in range(10):
            run(t, f"echo {n}")
        assert step(session).because.startswith("its check failed at @")


def test_a_proof_that_is_too_far_away_proves_nothing(session, monkeypatch):
    monkeypatch.setattr(checked, "NEWEST", 5)
    monkeypatch.setattr(checked, "BEFORE", 2)
    with session.turn("one") as t:
        run(t, "make test")
        for n in range(10):
            run(t, f"echo {n}")
        t.plan("s", "done", check="make test")
        for n in range(10):
            run(t, f"echo {n}")
        assert step(session).because == "its check did not run in the last 5 calls"


def test_claimed_is_never_recorded(store, session):
    with session.turn("one") as t:
        t.plan("s", "done")
        with pytest.raises(InvalidInput):
            t.plan("s", "claimed")
    record = ReadStep(step="s", status="claimed")
    with pytest.raises(InvalidInput):
        session._submit(session._draft("plan", changes=(Upsert("plan", record),)))
    (entry,) = store.port.entries(session.id, "plan")
    assert entry.record.status == "done"


def test_a_brief_lists_claimed_steps_first_with_their_check_as_recorded_text(session):
    with session.turn("one") as t:
        t.plan("open", order=1)
        t.plan("proved", "done", check="make lint", order=2)
        run(t, "make lint")
        t.plan("s", "done", check="make test", order=3)
        t.plan("bare", "done", order=4)
    lines = [line for line in str(session.brief()).splitlines() if "«" in line and "t1" in line]
    steps = [line.split("] ", 1)[1] for line in lines if line.startswith("- [model]")]
    assert [line.split(" «")[0] for line in steps] == ["claimed", "claimed", "pending", "done"]
    assert "«s; check: make test»" in steps[0]


def test_an_overview_counts_only_what_is_proved(store, session):
    with session.turn("one") as t:
        t.plan("a", "done")
        t.plan("b", "done", check="make test")
        run(t, "make test")
        (found,) = overview(store.as_read, everything=True)
    assert (found.done, found.total) == (1, 2)


# -- random histories -----------------------------------------------------------------------------

ACTS = st.lists(
    st.one_of(
        st.tuples(st.just("run"), st.sampled_from(CHECKS), st.booleans()),
        st.tuples(st.just("change"), st.sampled_from(["a.py", "b.py"]), st.just(None)),
        st.tuples(st.just("look"), st.sampled_from(["a.py", "b.py"]), st.just(None)),
        st.tuples(st.just("turn"), st.just(""), st.just(None)),
        st.tuples(st.just("rewind"), st.just(""), st.just(None)),
        st.tuples(st.just("fork"), st.just(""), st.just(None)),
    ),
    max_size=25,
)
STEPS = {
    "a": ("make test", ["a.py"]),
    "b": ("make lint", ["b.py"]),
    "any": ("make test", []),
    "none": ("", []),
}


def expected(told, check, files):
    """What a step reads, from the acts in order alone."""
    proved = False
    for what, name, fails in told:
        if what == "run" and name == check:
            proved = not fails
        elif what == "rewind" or (what == "change" and (not files or name in files)):
            proved = False
    return "done" if proved and check else "claimed"


@settings(deadline=None, max_examples=40, suppress_health_check=list(HealthCheck))
@given(ACTS)
def test_a_step_reads_what_the_history_of_checks_and_changes_proves(acts):
    store = memory_store()
    session = store.open("s0")
    told: list[tuple[str, str, object]] = []
    turn = session.turn("go")
    for name, (check, files) in STEPS.items():
        turn.plan(name, "done", check=check, files=files)
    turn.end()
    turn = session.turn("go on")
    forks = 0
    for what, name, fails in acts:
        if what == "run":
            run(turn, name, fails=bool(fails))
        elif what == "change":
            turn.file(name, "modified")
        elif what == "look":
            turn.file(name, "read")
        else:
            turn.end()
            if what == "rewind":
                session.rewind("t1")
            elif what == "fork":
                forks += 1
                session.close()
                store.fork(session.id, as_name=f"s{forks}")
                session = store.open(f"s{forks}")
            turn = session.turn("next")
        told.append((what, name, fails))
        for step_name, (check, files) in STEPS.items():
            read = step(session, step_name)
            assert read.status == expected(told, check, files), (step_name, read.because, told)
    turn.end()
    session.close()


@pytest.mark.parametrize("files", [["*.py"], ["."], ["./"], ["src/**"], ["src/"], []])
def test_a_change_below_a_named_folder_or_of_a_named_pattern_counts(session, files):
    with session.turn("one") as t:
        run(t, "make test")
        t.file("src/a.py", "modified")
        t.plan("s", "done", check="make test", files=files)
    assert step(session).because == "changed since the check: src/a.py"


@pytest.mark.parametrize("command", ["echo x > a.py", "sed -i s/x/y/ a.py", "rm a.py"])
def test_a_command_whose_words_write_a_file_counts_though_nobody_reported_it(session, command):
    with session.turn("one") as t:
        run(t, "make test")
        run(t, command)
        t.plan("s", "done", check="make test", files=["a.py"])
    assert step(session).because == "changed since the check: a.py"


def test_a_write_after_the_check_in_the_same_line_counts(session):
    with session.turn("one") as t:
        run(t, "make test && echo x > a.py")
        t.plan("s", "done", check="make test")
        assert step(session).because == "changed since the check: a.py"
        run(t, "echo x > a.py && make test && echo ok")
    assert step(session).status == "done"
