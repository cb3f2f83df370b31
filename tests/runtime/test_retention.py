"""Applying retention: what is archived, expired, trashed, purged or kept."""

from __future__ import annotations

import os
import secrets
from collections import Counter
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import stator
from runtime.waiting import ask_for
from stator.connect import mint
from stator.errors import Erased, NotFound, Removed, WrongState
from stator.model.log.query import SessionQuery
from stator.model.records.tables import COLLECTIONS
from stator.model.sessions import retention as model
from stator.model.sessions.detached_run import RunInfo
from stator.model.sessions.retention import UNITS, parse
from stator.runtime.base import project_flags
from stator.runtime.base.context import Context
from stator.runtime.facade.store import Store
from stator.runtime.retention import policies
from stator.runtime.retention.subjects import subjects
from stator.runtime.runs.folder import RunFiles
from stator.runtime.views.refs import find_session, last_used
from stator.runtime.views.verify import verify
from stator.store.memory import MemoryStore
from stator.store.sqlite import SqliteStore, create

ANN = "local:ann"
DAY = UNITS["d"]


class Clock:
    """A clock that advances by a millisecond at each reading, and by days on request."""

    def __init__(self):
        self.now = 1_750_000_000_000_000

    def __call__(self):
        self.now += 1000
        return self.now

    def pass_days(self, days):
        self.now += int(days * DAY)


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture(params=["file", "memory"])
def store(request, tmp_path, clock):
    """A store of each kind, with the test's clock."""
    path = str(tmp_path / "agent.db")
    if request.param == "file":
        create(path)
    made = (
        SqliteStore(path, durability="relaxed", clock=clock)
        if request.param == "file"
        else MemoryStore(clock=clock)
    )
    context = Context(
        clock=clock, mint=mint, secret=secrets.token_bytes, principal=ANN, project="shop", pid=1
    )
    with Store(made, context) as opened:
        yield opened


def work(store, name, turns=1, **options):
    """A session with prompts, calls, answers and state."""
    with store.open(name, **options) as s:
        for n in range(turns):
            with s.turn(f"prompt {n} of {name}") as t:
                t.call(lambda text: f"output for {text}", text=f"input {n}")
                t.decide(f"choice {n}", topic="auth", why="because")
                t.fact("n", n)
                t.say(f"answer {n}")
    return s.id


def policy(store, *words, project="shop"):
    return policies.set_policies(store.port, store.context, parse(words), project=project, by=ANN)


def run(store, **options):
    """Plan and apply retention; returns the actions."""
    made = policies.plan(store.port, store.context, **options)
    done = list(policies.apply(store.port, store.context, made, by=ANN, yes=True))
    assert [one.failed for one in done if one.failed] == []
    return [(one.action.what, one.action.name) for one in done]


def state(store, session):
    return {
        name: [(e.id, e.key, e.seq, e.record) for e in store.port.entries(session, name)]
        for name in COLLECTIONS
        if name != "session"
    }


# -- policies -------------------------------------------------------------------------------------


def test_the_log_records_who_set_a_policy(store):
    policy(store, "trash=90d")
    (row,) = store.port.sessions(SessionQuery(mode="project")).rows
    last = store.port.commits(row.id)[-1]
    assert (last.kind, last.value("principal")) == ("retention", ANN)
    assert row.record.retention == {"trash": 90 * DAY}


def test_setting_the_same_policy_again_writes_nothing(store):
    policy(store, "trash=90d")
    (row,) = store.port.sessions(SessionQuery(mode="project")).rows
    policy(store, "trash=90d")
    assert store.port.session(row.id).head == row.head


def test_the_policy_of_a_project_overrides_that_of_the_store(store):
    policy(store, "trash=90d", "keep=5", project="")
    policy(store, "trash=never")
    found = policies.policies(store.port, "shop")
    assert found.holding == {"trash": 0, "keep": 5}
    policy(store, "trash=off")
    assert policies.policies(store.port, "shop").holding == {"trash": 90 * DAY, "keep": 5}


def test_the_policy_of_the_store_applies_to_every_project(store, clock):
    work(store, "here")
    work(store, "there", project="elsewhere")
    policy(store, "archive=30d", project="")
    clock.pass_days(31)
    assert set(run(store)) == {("archive", "here"), ("archive", "there")}


# -- ages -----------------------------------------------------------------------------------------


def test_everything_is_kept_without_a_policy(store, clock):
    work(store, "old")
    clock.pass_days(10_000)
    assert run(store) == []


def test_the_modification_time_of_the_store_file_does_not_age_sessions(store, clock, tmp_path):
    """What cleanup by file time got wrong: a copy, a sync or a touch makes nothing older or younger."""
    work(store, "young")
    policy(store, "trash=30d")
    for file in tmp_path.iterdir():
        os.utime(file, (0, 0))
    assert run(store) == []
    clock.pass_days(31)
    for file in tmp_path.iterdir():
        os.utime(file)
    assert run(store) == [("trash", "young")]


def test_a_commit_made_with_a_slow_clock_does_not_age_its_session(store, clock):
    session = work(store, "s")
    policy(store, "trash=30d")
    clock.pass_days(-300)
    store.contribute(session).tag("now")
    clock.pass_days(301)
    assert run(store) == []


def test_retention_commits_do_not_count_as_use(store, clock):
    work(store, "s")
    policy(store, "archive=10d", "transcript=20d", "trash=30d")
    for expected in (("archive", "s"), ("expire", "s"), ("trash", "s")):
        clock.pass_days(10.1)
        assert run(store) == [expected]
        assert run(store) == []


# -- archive --------------------------------------------------------------------------------------


def test_an_unused_session_is_closed_and_archived(store, clock):
    session = work(store, "s")
    policy(store, "archive=30d")
    before = state(store, session)
    clock.pass_days(31)
    run(store)
    assert store.port.session(session).record.status == "archived"
    assert state(store, session) == before


def test_the_end_of_a_dead_driver_is_recorded_before_archiving(store, clock):
    s = store.open("s")
    s.turn("go")
    store.port.release(s._driver.lease)
    policy(store, "archive=30d")
    clock.pass_days(31)
    assert run(store) == [("archive", "s")]
    assert store.read("s").turns()[-1].status == "interrupted"


# -- expiry ---------------------------------------------------------------------------------------


def test_an_expired_transcript_loses_its_messages_and_keeps_its_state(store, clock):
    session = work(store, "s", turns=3)
    policy(store, "transcript=180d")
    before = state(store, session)
    clock.pass_days(181)
    assert run(store) == [("expire", "s")]
    shown = repr(store.port.commits(session))
    for words in ("prompt", "answer", "input 1", "output for"):
        assert words not in shown
    assert state(store, session) == before
    assert store.read("s").facts() == {"n": 2}
    assert list(verify(store.port)) == []


def test_reading_expired_content_names_the_expiry(store, clock):
    work(store, "s")
    policy(store, "transcript=180d")
    clock.pass_days(181)
    run(store)
    view = store.read("s")
    first = view.commit(f"@{view.turns()[0].first}")
    with pytest.raises(Erased):
        first.value("input")
    erasure = view.commit(f"@{first.content['input'].by}")
    assert (erasure.kind, erasure.cause, erasure.value("why")) == (
        "erasure",
        "expired",
        "transcript=180d",
    )


def test_state_is_the_same_after_expiry_and_a_rebuild(store, clock):
    session = work(store, "s", turns=5)
    policy(store, "transcript=1d")
    before = state(store, session)
    clock.pass_days(2)
    run(store)
    store.port.rebuild()
    assert state(store, session) == before
    assert list(store.port.audit()) == []


def test_a_long_transcript_expires_page_by_page(store, clock, monkeypatch):
    monkeypatch.setattr(policies, "PAGE", 7)
    work(store, "s", turns=4)
    policy(store, "transcript=1d")
    clock.pass_days(2)
    run(store)
    erasures = [c for c in store.read("s").log() if c.kind == "erasure"]
    assert len(erasures) > 2
    assert [c.status for c in erasures[:-1]] == [""] * (len(erasures) - 1)
    assert run(store) == []


def test_many_expiry_commits_do_not_hide_the_last_use_of_a_session(store, clock, monkeypatch):
    """A long session is trashed no earlier because its transcript has expired."""
    monkeypatch.setattr(policies, "PAGE", 3)
    work(store, "s")
    clock.pass_days(25)
    work(store, "s", turns=6)
    policy(store, "transcript=10d", "trash=30d")
    clock.pass_days(11)
    assert run(store) == [("expire", "s")]
    assert run(store) == []
    clock.pass_days(20)
    assert run(store) == [("trash", "s")]


def test_a_session_used_during_its_expiry_keeps_the_rest(store, clock, monkeypatch):
    session = work(store, "s", turns=4)
    policy(store, "transcript=1d")
    clock.pass_days(2)
    made = policies.plan(store.port, store.context)
    monkeypatch.setattr(policies, "PAGE", 7)
    pages = policies._pages

    def slowly(port, row):
        for page in pages(port, row):
            yield page
            store.contribute(session).tag("now")

    monkeypatch.setattr(policies, "_pages", slowly)
    (done,) = policies.apply(store.port, store.context, made, by=ANN)
    assert done.failed
    assert "answer 3" in repr(store.port.commits(session))


def test_a_transcript_needed_by_an_active_fork_does_not_expire(store, clock):
    work(store, "s")
    policy(store, "transcript=30d")
    clock.pass_days(31)
    fork = store.fork("s", as_name="fork").id
    assert run(store) == []
    assert "answer 0" in repr(store.port.commits(fork))


# -- trash ----------------------------------------------------------------------------------------


def test_a_trashed_session_is_found_by_id_only(store, clock):
    session = work(store, "s")
    work(store, "t")
    policy(store, "trash=30d", "keep=1")
    clock.pass_days(31)
    assert run(store) == [("trash", "s")]
    assert find_session(store.port, session).id == session
    with pytest.raises(Removed, match="in the trash"):
        find_session(store.port, "s")
    newest = last_used(store.port)
    assert newest is not None
    assert newest.record.name == "t"


def test_a_trashed_session_can_be_restored(store, clock):
    session = work(store, "s")
    policy(store, "trash=30d")
    clock.pass_days(31)
    run(store)
    assert policies.restore(store.port, store.context, session, by=ANN)
    assert find_session(store.port, "s").id == session
    assert not policies.restore(store.port, store.context, session, by=ANN)


def test_a_trashed_session_that_is_used_again_is_not_purged(store, clock):
    work(store, "s")
    policy(store, "trash=30d")
    clock.pass_days(31)
    run(store)
    with store.open("s") as s, s.turn("again"):
        pass
    assert find_session(store.port, "s").id == s.id
    clock.pass_days(29)
    assert run(store) == [("restore", "s")]
    assert project_flags.marked(store.port, project_flags.TRASH) == {}


def test_a_trashed_session_is_purged_after_its_window(store, clock):
    session = work(store, "s")
    policy(store, "trash=30d")
    clock.pass_days(31)
    run(store)
    clock.pass_days(29)
    assert run(store) == []
    clock.pass_days(2)
    assert run(store) == [("purge", "s")]
    with pytest.raises(NotFound):
        store.port.session(session)


def due(store, clock):
    """A session that is due to be purged, and the plan for it."""
    session = work(store, "s")
    policy(store, "trash=30d")
    clock.pass_days(31)
    run(store)
    clock.pass_days(31)
    made = policies.plan(store.port, store.context)
    assert [action.what for action in made.actions] == ["purge"]
    return session, made


def take_out(store, clock, session):
    policies.restore(store.port, store.context, session, by=ANN)


def trash_anew(store, clock, session):
    take_out(store, clock, session)
    row = store.port.session(session)
    project_flags.put(store.port, store.context, row, project_flags.TRASH, by=ANN, why="again")


def use_while_the_clock_is_behind(store, clock, session):
    clock.pass_days(-300)
    store.contribute(session).tag("now")
    clock.pass_days(300)


@pytest.mark.parametrize("act", [take_out, trash_anew, use_while_the_clock_is_behind])
def test_a_planned_purge_is_dropped_if_the_session_changed(store, clock, act):
    """Another process may use or restore the session between the preview and the confirmation."""
    session, made = due(store, clock)
    act(store, clock, session)
    (done,) = policies.apply(store.port, store.context, made, by=ANN, yes=True)
    assert "changed since it was moved to the trash" in done.failed or "in use again" in done.failed
    assert store.port.session(session).id == session


def test_a_hold_set_just_before_a_purge_prevents_it(store, clock, monkeypatch):
    """The purge checks again after its first check."""
    session, made = due(store, clock)
    look = policies._unmoved

    def slowly(port, action):
        row = look(port, action)
        policies.hold(port, store.context, session, by=ANN)
        return row

    monkeypatch.setattr(policies, "_unmoved", slowly)
    (done,) = policies.apply(store.port, store.context, made, by=ANN, yes=True)
    assert "is held" in done.failed
    assert store.port.session(session).id == session


# -- purge ----------------------------------------------------------------------------------------


def purge(store, clock, *names):
    for name in names:
        work(store, name)
    policy(store, "trash=30d")
    for _ in range(2):
        clock.pass_days(31)
        run(store)


def test_finding_a_purged_session_reports_who_purged_it(store, clock):
    """The error has the time, the policy and the person."""
    purge(store, clock, "s")
    (tomb,) = project_flags.tombstones(store.port)
    assert (tomb.name, tomb.policy, tomb.by) == ("s", "purge=30d", ANN)
    assert tomb.about["turns"] == 1
    for asked in (tomb.session, tomb.session[-8:], "s"):
        with pytest.raises(Removed, match="by local:ann"):
            find_session(store.port, asked)


def test_the_name_of_a_purged_session_can_be_used_again(store, clock):
    purge(store, clock, "s")
    (tomb,) = project_flags.tombstones(store.port)
    session = work(store, "s")
    assert session != tomb.session
    assert find_session(store.port, "s").id == session


def test_a_purge_leaves_other_sessions_unchanged(store, clock):
    other = work(store, "other")
    policies.hold(store.port, store.context, other, by=ANN)
    before = state(store, other), store.port.commits(other)
    purge(store, clock, "s")
    assert (state(store, other), store.port.commits(other)) == before
    assert list(verify(store.port)) == []


def test_a_child_survives_the_purge_of_its_parent(store, clock):
    """The budget of the purged parent no longer limits it."""
    with (
        store.open("parent", budget={"turns": 5}) as parent,
        parent.turn("go"),
        parent.child("research") as child,
    ):
        pass
    policies.hold(store.port, store.context, child.id, by=ANN)
    policy(store, "trash=30d")
    for _ in range(2):
        clock.pass_days(31)
        run(store)
    with pytest.raises(NotFound):
        store.port.session(parent.id)
    with store.open(child.name, project=child.record.project) as again, again.turn("go"):
        assert again.id == child.id


def with_a_run(path, session):
    """The folder of a detached run that has ended."""
    files = RunFiles.create(f"{path}-runs", mint("run"))
    files.write(
        RunInfo(id=files.id, session=session, name="x", command=["true"], cwd="/", store=path)
    )
    return files


@pytest.fixture
def filed(tmp_path, clock):
    """A store in a file, and its path."""
    path = str(tmp_path / "agent.db")
    create(path)
    context = Context(clock=clock, mint=mint, secret=secrets.token_bytes, project="shop")
    with Store(SqliteStore(path, durability="relaxed", clock=clock), context) as store:
        yield store, path


def test_purging_a_session_removes_only_its_own_run_folders(filed, clock):
    """The next run also removes folders that a killed purge left."""
    store, path = filed
    gone, kept = work(store, "gone"), work(store, "kept")
    policies.hold(store.port, store.context, kept, by=ANN)
    runs = {}
    for session in (gone, kept):
        files = with_a_run(path, session)
        (Path(files.folder) / "output.0").write_text("printed")
        runs[session] = files.folder
    policy(store, "trash=30d")
    for _ in range(2):
        clock.pass_days(31)
        run(store)
    assert not os.path.exists(runs[gone])
    assert sorted(os.listdir(runs[kept])) == ["control", "output.0", "run.json"]


def test_the_run_folders_of_a_reimported_session_are_kept(filed):
    """The tombstone of the purged session does not apply to the reimported one."""
    store, path = filed
    session = work(store, "s")
    row = store.port.session(session)
    project_flags.put(store.port, store.context, row, project_flags.PURGED, by=ANN, why="purge=30d")
    files = with_a_run(path, session)
    run(store)
    assert os.path.exists(files.path("run.json"))


def test_a_run_without_a_record_yet_does_not_stop_retention(filed):
    store, path = filed
    files = RunFiles.create(f"{path}-runs", mint("run"))
    with files.hold(lambda seconds: None):
        assert policies.plan(store.port, store.context).actions == []


# -- laws -----------------------------------------------------------------------------------------

STEPS = st.lists(
    st.sampled_from(["turn", "fact", "again", "decide", "file", "plan", "say", "call", "fork"]),
    min_size=1,
    max_size=12,
)


def act(turn, step, n):
    if step == "call":
        turn.call(lambda value: value, value=f"value {n}")
    elif step == "fact":
        turn.fact(f"fact {n}", n)
    elif step == "again":
        turn.fact("same", n)
    elif step == "decide":
        turn.decide(f"choice {n}", topic=f"{n % 2}")
    elif step == "file":
        turn.file(f"{n % 3}.py", "modified")
    elif step == "plan":
        turn.plan(f"step {n % 3}", detail="x")
    else:
        turn.say(f"words {n}")


def lived(store, name, steps):
    """A session with these random actions."""
    with store.open(name) as s:
        turn = s.turn("begin")
        for n, step in enumerate(steps):
            if step == "turn":
                turn.end()
                turn = s.turn(f"turn {n}")
            elif step == "fork":
                store.fork(s.id, as_name=f"{name} fork {n}")
            else:
                act(turn, step, n)
        turn.end()
    return s.id


@given(STEPS, STEPS)
@settings(
    max_examples=20,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_the_state_of_kept_sessions_is_unchanged_by_any_retention(tmp_path_factory, mine, others):
    """After expiry, archiving, purges of others and a rebuild, every record is unchanged and the chains verify."""
    clock = Clock()
    path = str(tmp_path_factory.mktemp("any") / "agent.db")
    create(path)
    context = Context(clock=clock, mint=mint, secret=secrets.token_bytes, project="shop")
    with Store(SqliteStore(path, durability="relaxed", clock=clock), context) as store:
        session = lived(store, "mine", mine)
        lived(store, "other", others)
        for row in store.sessions().rows:
            if row.record.name.startswith("mine"):
                policies.hold(store.port, store.context, row.id, by=ANN)
        kept = {
            row.id: state(store, row.id)
            for row in store.sessions().rows
            if row.record.name.startswith("mine")
        }
        policy(store, "trash=30d")
        for _ in range(2):
            clock.pass_days(31)
            run(store)
        for row in store.sessions().rows:
            assert not row.record.name.startswith("other")
            policies.release(store.port, store.context, row.id, by=ANN)
        policy(store, "trash=off", "transcript=1d", "archive=1d")
        run(store)
        assert {row: state(store, row) for row in kept} == kept
        store.port.rebuild()
        assert {row: state(store, row) for row in kept} == kept
        assert store.port.session(session).record.status == "archived"
        assert list(verify(store.port)) == []


LIVES = st.lists(
    st.tuples(
        st.sampled_from(["work", "tag", "retention", "hold", "fork", "trash"]),
        st.sampled_from(["a", "b", "c"]),
        st.sampled_from([-3, 0, 1, 2, 5, 12]),
    ),
    min_size=1,
    max_size=14,
)
"""What happens, to which session, and how many days pass after it; a clock may also be set back."""
WANTED = st.sampled_from(
    [
        "trash=10d",
        "archive=4d trash=10d",
        "transcript=2d trash=10d",
        "archive=2d keep=1",
        "purge=3d",
        "",
    ]
)


@example([("work", "a", 7), ("retention", "a", 3)], "archive=4d trash=10d")
@given(LIVES, WANTED)
@settings(max_examples=40, deadline=None)
def test_sessions_that_are_not_looked_into_do_not_change_the_plan(lives, wanted):
    clock = Clock()
    context = Context(clock=clock, mint=mint, secret=secrets.token_bytes, project="shop")
    with Store(MemoryStore(clock=clock), context) as store:
        if wanted:
            policy(store, *wanted.split())
        for n, (what, name, days) in enumerate(lives):
            live(store, what, name, n)
            clock.pass_days(days)
            holding = policies.policies(store.port, "shop").holding
            now = clock.now + 1000  # what its next reading is
            whole = model.plan(subjects(store.port), partial(_same, holding), now)
            assert policies.plan(store.port, store.context) == whole


def _same(policy, subject):
    return policy


def live(store, what, name, n):
    """Something happens to a session; what its state does not allow does not."""
    known = {row.record.name: row for row in store.sessions(limit=1000).rows}
    with suppress(stator.StatorError):
        if what == "work" or name not in known:
            work(store, name)
        elif what == "tag":
            store.contribute(known[name].id).tag(f"tag {n}")
        elif what == "hold":
            policies.hold(store.port, store.context, known[name].id, by=ANN)
        elif what == "fork":
            store.fork(known[name].id, as_name=f"{name} {n}")
        elif what == "trash":
            project_flags.put(
                store.port, store.context, known[name], project_flags.TRASH, by=ANN, why=""
            )
        else:
            run(store)


def test_sessions_are_not_read_where_no_policy_asks_for_anything(store, clock):
    work(store, "s")
    clock.pass_days(1000)
    policy(store, "keep=3")
    read: Counter[str] = Counter()

    class Reading:
        def __getattr__(self, name):
            read[name] += 1
            return getattr(store.port, name)

    assert policies.plan(Reading(), store.context).actions == []
    assert not read.keys() & {"commits", "usage", "together"}


# -- sessions that are not removed ----------------------------------------------------------------


def left_alone(store, clock, *words):
    policy(store, *(words or ("trash=30d",)))
    clock.pass_days(31)
    made = policies.plan(store.port, store.context)
    assert made.actions == []
    return [one.why for one in made.skipped]


def test_a_held_session_is_not_removed(store, clock):
    session = work(store, "s")
    policies.hold(store.port, store.context, session, by=ANN, why="case 4711")
    assert left_alone(store, clock) == ["held"]
    assert policies.release(store.port, store.context, session, by="local:bob")
    assert run(store) == [("trash", "s")]
    (own,) = store.port.sessions(SessionQuery(mode="project")).rows
    said = [c.value("principal") for c in store.port.commits(own.id) if c.kind == "flag"]
    assert said == [ANN, "local:bob", ANN]


def test_a_driven_session_is_not_removed(store, clock):
    with store.open("s") as s, s.turn("go"):
        assert left_alone(store, clock) == ["driven"]


def test_a_session_with_a_call_awaiting_approval_is_not_removed(store, clock):
    s = store.open("s")
    s.turn("pay")
    ask_for(s, "refund", amount=5)
    store.port.release(s._driver.lease)
    assert left_alone(store, clock) == ["waits for approval"]


def test_a_session_with_a_call_in_doubt_is_not_removed(store, clock):
    def pay():
        raise stator.InDoubt("connection lost")

    with store.open("s") as s, s.turn("pay") as t:
        t.try_call(stator.tool(pay))
    assert left_alone(store, clock) == ["a call in doubt"]


def test_a_session_needed_by_a_fork_is_not_removed(store, clock):
    work(store, "s")
    work(store, "kept")
    clock.pass_days(31)
    store.fork("s", as_name="fork")
    policy(store, "trash=30d")
    made = policies.plan(store.port, store.context)
    assert [(one.name, one.why) for one in made.skipped] == [("s", "needed by a fork")]


def test_the_session_of_a_project_is_not_removed(store, clock):
    policy(store, "trash=1d", "archive=1d", "transcript=1d")
    clock.pass_days(1000)
    assert run(store) == []


def test_a_session_used_after_the_plan_is_not_removed(store, clock):
    work(store, "s")
    policy(store, "trash=30d")
    clock.pass_days(31)
    made = policies.plan(store.port, store.context)
    with store.open("s"):
        pass
    (done,) = policies.apply(store.port, store.context, made, by=ANN, yes=True)
    assert "in use again" in done.failed
    assert project_flags.in_trash(store.port) == {}


def test_a_session_held_after_the_plan_is_not_removed(store, clock):
    session = work(store, "s")
    policy(store, "trash=30d")
    clock.pass_days(31)
    made = policies.plan(store.port, store.context)
    policies.hold(store.port, store.context, session, by=ANN)
    (done,) = policies.apply(store.port, store.context, made, by=ANN, yes=True)
    assert "is held" in done.failed


def test_a_run_that_removes_much_stops_without_confirmation(store, clock):
    work(store, "s")
    policy(store, "trash=30d")
    clock.pass_days(31)
    made = policies.plan(store.port, store.context)
    with pytest.raises(WrongState, match="1 of 1 sessions"):
        list(policies.apply(store.port, store.context, made, by=ANN))
    assert project_flags.in_trash(store.port) == {}
