"""Steps of a plan read done only where the log proves it, in every view."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import stator
from stator.errors import InvalidInput
from stator.model.extraction import checks
from stator.model.log.commit import Draft, Upsert
from stator.model.records.types import PlanRecord, ReadStep
from stator.model.values.ids import derived
from stator.runtime.views import checked
from stator.runtime.views.glance.overview import overview
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


@stator.tool(effect="read")
def coded(command: str, code: int) -> dict[str, int]:
    return {"exit_code": code}


@stator.tool(effect="write")
def unsure(command: str) -> None:
    raise stator.InDoubt("connection lost")


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


def noise(turn, count):
    for n in range(count):
        run(turn, f"echo {n}")


def test_a_proof_holds_however_many_calls_follow(session, monkeypatch):
    monkeypatch.setattr(checked, "CALLS", 5)
    with session.turn("one") as t:
        t.plan("s", "done", check="make test", files=["a.py"])
        run(t, "make test")
        noise(t, 300)
        assert step(session).status == "done"
        run(t, "make test", fails=True)
        noise(t, 300)
        assert step(session).because.startswith("its check failed at @")


def test_a_step_may_be_recorded_after_its_check_ran(session, monkeypatch):
    monkeypatch.setattr(checked, "CALLS", 5)
    with session.turn("one") as t:
        run(t, "make && make test")
        noise(t, 20)
        t.plan("s", "done", check="make test", files=["a.py"])
        noise(t, 20)
        assert step(session).status == "done"


def test_a_check_that_exits_with_another_code_failed_though_its_call_did_not(session, monkeypatch):
    monkeypatch.setattr(checked, "CALLS", 5)
    with session.turn("one") as t:
        t.plan("s", "done", check="make test")
        run(t, "make test")
        noise(t, 50)
        t.call(coded, command="make test", code=1)
        noise(t, 200)
        assert step(session).because.startswith("its check failed at @")


def test_a_run_that_nobody_recorded_and_that_is_too_far_away_proves_nothing(session, monkeypatch):
    monkeypatch.setattr(checked, "CALLS", 5)
    with session.turn("one") as t:
        run(t, "make test")
        noise(t, 100)
        t.plan("s", "done", check="make test")
        noise(t, 10)
        assert step(session).because == "its check did not run in the last 5 calls"


def test_a_program_that_opens_the_session_again_notices_a_check_that_fails(store, monkeypatch):
    monkeypatch.setattr(checked, "CALLS", 5)
    with store.open("b") as first, first.turn("one") as t:
        t.plan("s", "done", check="make test")
        run(t, "make test")
    with store.open("b") as second, second.turn("two") as t:
        assert step(second).status == "done"
        run(t, "make test", fails=True)
        noise(t, 20)
        assert step(second).because.startswith("its check failed at @")


def test_a_check_that_another_process_adds_to_the_plan_is_found_before_and_after(
    store, session, monkeypatch
):
    monkeypatch.setattr(checked, "CALLS", 5)
    with session.turn("one") as t:
        run(t, "make test")
        report = PlanRecord(step="s", check="make test", status="done")
        store.port.append(
            session.id,
            [
                Draft(
                    id=derived("commit", "reported"),
                    session=session.id,
                    kind="plan",
                    changes=(Upsert("plan", report),),
                )
            ],
        )
        noise(t, 20)
        assert step(session).status == "done"
        run(t, "make test", fails=True)
        noise(t, 20)
        assert step(session).status == "claimed"


def test_the_position_right_after_a_failed_check_shows_it(store, session):
    with session.turn("one") as t:
        t.plan("s", "done", check="make test")
        run(t, "make test")
        run(t, "make test", fails=True)
    (ended,) = [c for c in session.log() if c.kind == "outcome" and c.status == "error"]
    assert session.entries("plan", f"@{ended.seq}")[0].record.status == "claimed"
    fork = store.fork("a", f"@{ended.seq}", as_name="b")
    assert step(fork).because.startswith("its check failed at @")


def test_a_check_of_more_than_can_be_remembered_is_given_up(session, monkeypatch):
    monkeypatch.setattr(checked, "CALLS", 5)
    with session.turn("one") as t:
        t.plan("s", "done", check="make test")
        run(t, "make test")
        for n in range(checks.CHECKS_MAX):
            t.plan(f"s{n}", "done", check=f"make {n}")
        run(t, "make test", fails=True)
        noise(t, 10)
        assert step(session).status == "claimed"


def test_a_batch_that_fails_proves_nothing(session):
    with session.turn("one") as t:
        with contextlib.suppress(Failed), t.batch():
            t.plan("s", "done", check="make test")
            raise Failed
        run(t, "make test")
        t.plan("s", "done", check="make test")
        assert step(session).status == "done"


def test_running_a_program_again_records_no_run_twice(store):
    for _ in range(2):
        with store.open("b") as again, again.turn("one", key="k") as t:
            t.plan("s", "done", check="make test")
            run(t, "make test")
            t.plan("later", "done", check="make test")
    assert [c.kind for c in store.read("b").log()].count("check") == 1


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
    (plan,) = [part for part in session.brief().sections if part.name == "plan"]
    steps = [line.text.removeprefix("- [model] ") for line in plan.lines]
    assert [line.split(" «")[0] for line in steps] == ["claimed", "claimed", "pending"]
    assert "«s; check: make test»" in steps[0]
    assert plan.title == "Plan (1 step done and checked)"


def test_an_overview_counts_only_what_is_proved(store, session):
    with session.turn("one") as t:
        t.plan("a", "done")
        t.plan("b", "done", check="make test")
        run(t, "make test")
        (found,) = overview(store.as_read, everything=True)
    assert (found.done, found.total) == (1, 2)


# -- random histories -----------------------------------------------------------------------------

NAMES = st.sampled_from(CHECKS)
ACTS = st.lists(
    st.one_of(
        st.tuples(st.just("run"), NAMES, st.booleans()),
        st.tuples(st.just("exit"), NAMES, st.booleans()),
        st.tuples(st.just("doubt"), NAMES, st.just(None)),
        st.tuples(st.just("settle"), st.just(""), st.booleans()),
        st.tuples(st.just("noise"), st.just(""), st.just(None)),
        st.tuples(st.just("plan"), st.just(""), st.just(None)),
        st.tuples(st.just("change"), st.sampled_from(["a.py", "b.py"]), st.just(None)),
        st.tuples(st.just("write"), st.sampled_from(["a.py", "b.py"]), st.just(None)),
        st.tuples(st.just("look"), st.sampled_from(["a.py", "b.py"]), st.just(None)),
        st.tuples(st.just("turn"), st.just(""), st.just(None)),
        st.tuples(st.just("rewind"), st.just(""), st.just(None)),
        st.tuples(st.just("open"), st.just(""), st.just(None)),
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
        if what == "run" and name == check and fails is not None:
            proved = not fails
        elif what == "rewind" or (what == "change" and (not files or name in files)):
            proved = False
    return "done" if proved and check else "claimed"


class History:
    """Does what the acts say, and remembers what happened, in the order in which it began."""

    def __init__(self, *, plans_first):
        self.store = memory_store()
        self.session = self.store.open("s0")
        self.told: list[tuple[str, str, object]] = []
        self.doubts: list[tuple[str, int]] = []
        self.forks = 0
        self.is_sure = True
        """Whether a rule saw all that decides, so that nothing is left to what readers look through."""
        self.turn = self.session.turn("go")
        self.planned = plans_first
        if plans_first:
            self.plan()
        self.next()

    def plan(self):
        for name, (check, files) in STEPS.items():
            self.turn.plan(name, "done", check=check, files=files)

    def next(self):
        self.turn.end()
        self.turn = self.session.turn("next")

    def act(self, what, name, fails):
        if what in ("run", "exit"):
            if what == "run":
                run(self.turn, f"{name} && echo fine", fails=bool(fails))
            else:
                self.turn.call(coded, command=name, code=int(bool(fails)))
            self.told.append(("run", name, bool(fails)))
        elif what == "doubt":
            self.doubts.append((self.turn.try_call(unsure, command=name).call, len(self.told)))
            self.told.append(("run", name, None))
        elif what == "settle":
            if self.doubts:
                call, place = self.doubts.pop()
                person = self.store.contribute(self.session.id)
                person.settle(call, "not done" if fails else "done")
                self.told[place] = ("run", self.told[place][1], bool(fails))
                self.is_sure = False
        elif what == "noise":
            noise(self.turn, 8)
        elif what == "plan":
            self.plan()
            self.planned = True
        elif what == "write":
            run(self.turn, f"echo x > {name}")
            self.told.append(("change", name, None))
        elif what in ("change", "look"):
            self.turn.file(name, "modified" if what == "change" else "read")
            self.told.append((what, name, None))
        else:
            self.turn.end()
            self._between(what)
            self.turn = self.session.turn("next")

    def _between(self, what):
        if what == "rewind":
            self.session.rewind("t1")
            self.told.append((what, "", None))
            self.planned = self.planned and bool(self.session.entries("plan"))
        elif what in ("fork", "open"):
            name = self.session.id
            self.session.close() if what == "fork" else self.session.__exit__(None, None, None)
            self.is_sure = self.is_sure and self.planned
            if what == "fork":
                self.forks += 1
                self.doubts = []
                self.store.fork(name, as_name=f"s{self.forks}")
                name = f"s{self.forks}"
            self.session = self.store.open(name)

    def check(self):
        for name, (check, files) in STEPS.items() if self.planned else ():
            read, wanted = step(self.session, name), expected(self.told, check, files)
            assert read.status == wanted or (wanted == "done" and not self.is_sure), (
                name, read.because, self.told,
            )  # fmt: skip


@settings(deadline=None, max_examples=80, suppress_health_check=list(HealthCheck))
@given(ACTS, st.booleans())
def test_a_step_reads_what_the_history_of_checks_and_changes_proves(acts, plans_first):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checked, "CALLS", 3)
        history = History(plans_first=plans_first)
        for act in acts:
            history.act(*act)
            history.check()
        history.turn.end()
        history.session.close()


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


def test_what_a_command_wrote_counts_however_many_calls_follow(session, monkeypatch):
    monkeypatch.setattr(checked, "CALLS", 5)
    with session.turn("one") as t:
        t.plan("s", "done", check="make test", files=["a.py"])
        run(t, "make test")
        run(t, "echo x > a.py")
        noise(t, 20)
    assert step(session).because == "changed since the check: a.py"


def test_a_write_after_the_check_in_the_same_line_counts(session):
    with session.turn("one") as t:
        run(t, "make test && echo x > a.py")
        t.plan("s", "done", check="make test")
        assert step(session).because == "changed since the check: a.py"
        run(t, "echo x > a.py && make test && echo ok")
    assert step(session).status == "done"
