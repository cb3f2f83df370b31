"""Calls of recorded sessions that have no outcome in the log: what readers make of them, all at once."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

import stator
from runtime.support import Died, driving
from stator.errors import Busy, NotFound, WrongState
from stator.model.exchange.items import Called, Conversation, Prompted, Returned
from stator.model.log.commit import Draft
from stator.model.log.query import SessionRow
from stator.model.records.types import CallRecord, SessionRecord
from stator.model.sessions.lifecycle import NOT_TOLD
from stator.model.views import open_calls
from stator.model.views.unplaced import EXPLAINED
from stator.runtime.driving import settlement
from stator.runtime.facade.store import Store
from stator.runtime.ingest.recorder import Recorder
from stator.runtime.views import attention
from stator.runtime.views.glance.overview import overview

DAY = 24 * 3600 * 1_000_000
TALK = Conversation(source="claude-code", id="9d4f", name="deploy it")
DOUBT, LOOK = "toolu_write", "toolu_read"


def world(store, *, at_rest=True, unplaced=()):
    """The same store, where the agents of recorded sessions are at rest or not, and something may be unplaced."""
    given = {"at_rest": lambda port, row: at_rest, "unplaced": lambda port, row: list(unplaced)}
    return Store(store.port, replace(store.context, **given))


def left(store, *, ago=0, via="import"):
    """A conversation whose agent ended while it wrote and while it read, that long ago; the id of its session."""
    at = store.context.clock() - ago
    recorder = Recorder(store.port, store.context, TALK, via=via)
    for item in (
        Prompted(id="p1", at=at, content="deploy it"),
        Called(id=DOUBT, at=at + 1, tool="Bash", input={"command": "make deploy"}, effect="write"),
        Called(id=LOOK, at=at + 2, tool="Read", input={"file_path": "a.py"}, effect="read"),
    ):
        recorder.take(item)
    recorder.flush()
    return recorder.session


def told_later(store, *items):
    recorder = Recorder(store.port, store.context, TALK, via="import")
    for item in items:
        recorder.take(item)
    recorder.flush()


def statuses(rows):
    return {row.tool: row.status for row in rows}


# -- the rule -------------------------------------------------------------------------------------

RECORDS = st.builds(
    CallRecord, call=st.just("c_" + "0" * 32), tool=st.text(min_size=1, max_size=8),
    effect=st.sampled_from(["read", "write"]), status=st.sampled_from(["requested", "started"]),
)  # fmt: skip
STATUSES = st.sampled_from(["open", "active", "paused", "closed", "archived"])


def row_of(status, mode="recorded"):
    return SessionRow(record=SessionRecord(id="s_" + "0" * 32, name="a", mode=mode, status=status))


@given(RECORDS, STATUSES)
def test_only_a_write_is_ever_in_doubt(record, status):
    seen = open_calls.left_open(record, row_of(status))
    assert seen.status == ("in doubt" if record.effect == "write" else "cancelled")
    assert seen.cause in (open_calls.NO_RESULT, open_calls.AGENT_ENDED)


@given(STATUSES, st.integers(0, 60 * DAY), st.sampled_from(["import:codex", "hook:codex", ""]))
def test_only_what_was_imported_and_is_older_than_14_days_is_history(status, age, principal):
    imported = principal.startswith("import:") or status == "open"
    found = open_calls.is_history(row_of(status), principal, 100 * DAY - age, 100 * DAY)
    assert found is (imported and age > 14 * DAY)
    assert not open_calls.is_history(row_of(status, "driven"), principal, 0, 100 * DAY)


# -- at rest --------------------------------------------------------------------------------------


def test_at_rest_a_write_without_a_result_is_in_doubt_and_a_read_is_cancelled(either):
    store, session = world(either), left(either)
    view = store.read(session)
    assert statuses(view.calls()) == {"Bash": "in doubt", "Read": "cancelled"}
    assert {row.cause for row in view.calls()} == {open_calls.NO_RESULT}


def test_while_its_agent_works_a_call_without_a_result_has_started(either):
    store, session = world(either, at_rest=False), left(either)
    assert statuses(store.read(session).calls()) == {"Bash": "started", "Read": "started"}
    assert settlement.doubts(store.as_read) == []


def test_library_readers_agree_about_a_call_without_a_result(either):
    store, session = world(either), left(either)
    view = store.read(session)
    (found,) = view.state(collections=["calls"])["calls"].values()
    (doubt,) = store.doubts.open(session)
    (listed,) = store.calls(statuses=["in doubt"]).rows
    (one,) = overview(store.as_read)
    assert (found.status, found.tool) == ("in doubt", "Bash")
    assert {found.call, doubt.call, listed.call, one.waiting[0].call} == {doubt.call}
    assert [entry.record.status for entry in view.entries("calls")] == ["in doubt"]
    assert [row.call for row in view.calls(status="in doubt")] == [doubt.call]
    assert view.calls(status="started") == []
    assert "make deploy" in view.brief().text
    assert "Calls in doubt" in view.brief().text


@pytest.mark.parametrize("contributions", [1, 60])
def test_what_a_person_adds_is_no_sign_of_the_agent(tmp_path, contributions):
    with stator.connect(tmp_path / "store.db") as store:
        session = left(store, ago=3 * 3600 * 1_000_000)
        assert statuses(store.read(session).calls()) == {"Bash": "in doubt", "Read": "cancelled"}
        for number in range(contributions):
            store.contribute(session).tag(f"here-{number}")
        assert statuses(store.read(session).calls()) == {"Bash": "in doubt", "Read": "cancelled"}


def test_reading_what_is_in_doubt_writes_nothing(either):
    store, session = world(either), left(either)
    before = either.port.head(session)
    store.read(session).calls()
    store.read(session).brief()
    store.doubts.open()
    assert either.port.head(session) == before


def test_the_state_at_a_past_position_stays_as_it_was(either):
    store, session = world(either), left(either)
    view = store.read(session)
    call = next(row for row in view.calls() if row.tool == "Bash")
    (past,) = view.state(f"@{call.seq}", collections=["calls"])["calls"].values()
    assert past.status == "started"


def test_a_turn_with_a_lost_call_is_interrupted_and_another_stays_open(either):
    session = left(either)
    assert [turn.status for turn in world(either).read(session).turns()] == ["interrupted"]
    assert [turn.status for turn in world(either, at_rest=False).read(session).turns()] == [""]
    done = (Returned(id=DOUBT, output="ok"), Returned(id=LOOK, output="text"))
    told_later(either, *done)
    assert [turn.status for turn in world(either).read(session).turns()] == [""]


def test_an_agent_at_rest_is_shown_as_paused_by_every_listing(either):
    session = left(either, via="hook")
    record = replace_status(either, session)
    assert world(either, at_rest=False).read(session).status == "active"
    store = world(either)
    assert store.read(session).status == "paused"
    assert [row.shown for row in store.sessions().rows] == ["paused"]
    assert record.status == "active"


def replace_status(store, session):
    """Let a hook report that the agent began."""
    draft = Draft(
        id=store.context.mint("commit"), session=session, kind="run", actor="system",
        origin=("claude-code", "start"), principal="hook:claude-code",
    )  # fmt: skip
    store.port.append(session, [draft])
    return store.port.session(session).record


def test_a_result_that_is_known_and_unplaced_leaves_its_call_out_of_doubt(either):
    session = left(either)
    call = next(row for row in either.read(session).calls() if row.tool == "Bash")
    result = Draft(
        id=either.context.mint("commit"), session=session, kind="outcome", call=call.call,
        tool="Bash", status="ok", output="deployed",
    )  # fmt: skip
    store = world(either, unplaced=[result])
    assert store.doubts.open(session) == []
    assert [row.tool for row in store.read(session).calls(status="started")] == ["Bash"]


def test_the_calls_of_a_dead_driver_are_in_doubt_for_every_reader(either):

    @stator.tool(effect="write")
    def pay(amount):
        raise Died

    with driving(either, "left") as s, s.turn("go") as t:
        t.call(pay, amount=5)
    view = either.read("left")
    assert [row.status for row in view.calls()] == ["in doubt"]
    assert [entry.record.status for entry in view.entries("calls")] == ["in doubt"]
    assert [one.waiting[0].what for one in overview(either.as_read)] == ["settle"]


# -- history --------------------------------------------------------------------------------------


def test_what_was_imported_long_ago_is_in_doubt_where_one_looks_and_no_alarm(either):
    store, session = world(either), left(either, ago=15 * DAY)
    view = store.read(session)
    assert statuses(view.calls()) == {"Bash": "in doubt", "Read": "cancelled"}
    assert [record.status for record in view.state()["calls"].values()] == ["in doubt"]
    assert store.doubts.open() == []
    assert overview(store.as_read) == []
    assert attention.unresolved(store.as_read, most=10).doubtful == []
    assert "Calls in doubt" not in view.brief().text


def test_a_doubt_that_an_older_release_wrote_down_is_history_too(either):
    session = left(either, ago=15 * DAY)
    (call,) = either.read(session).calls(tool="Bash")
    guessed = draft(
        either, session, "outcome", call=call.call, tool="Bash", effect="write", attempt=1,
        status="in doubt", cause=open_calls.NO_RESULT, actor="system", origin=("claude-code", DOUBT),
        principal="import:claude-code", happened=either.context.clock() - 15 * DAY,
    )  # fmt: skip
    either.port.append(session, [guessed])
    store = world(either, at_rest=False)
    assert [row.tool for row in store.read(session).calls(status="in doubt")] == ["Bash"]
    assert store.doubts.open() == []


def test_what_a_hook_reported_long_ago_stays_an_alarm(either):
    session = left(either, ago=15 * DAY, via="hook")
    replace_status(either, session)
    (doubt,) = world(either).doubts.open(session)
    assert doubt.cause == open_calls.AGENT_ENDED


def test_history_can_still_be_settled(either):
    store, session = world(either), left(either, ago=15 * DAY)
    call = store.read(session).calls(status="in doubt")[0].call
    store.doubts.settle(call, "done")
    assert store.read(session).calls(status="in doubt") == []


# -- settling -------------------------------------------------------------------------------------


def test_a_person_settles_a_call_that_the_log_has_as_started(either):
    store, session = world(either), left(either)
    (doubt,) = store.doubts.open(session)
    head = either.port.head(session).seq
    settled = store.doubts.settle(doubt.call, "done", "deployed", why="it is live")
    assert settled.seq == head + 1, "nothing but the settlement is written"
    assert statuses(store.read(session).calls()) == {"Bash": "ok", "Read": "cancelled"}
    assert store.doubts.open(session) == []


def test_a_call_of_an_agent_at_work_is_not_settled(either):
    store, session = world(either, at_rest=False), left(either)
    call = store.read(session).calls(tool="Bash")[0].call
    with pytest.raises(Busy, match="still running"):
        store.doubts.settle(call, "done")


def test_a_read_without_a_result_is_not_settled(either):
    store, session = world(either), left(either)
    call = store.read(session).calls(tool="Read")[0].call
    with pytest.raises(WrongState, match="only reads"):
        store.doubts.settle(call, "done")


@pytest.mark.parametrize("status", ["ok", "error"])
@pytest.mark.parametrize("verdict", ["done", "not done", "run again"])
def test_a_result_that_the_transcript_tells_after_a_settlement_lands(either, verdict, status):
    store, session = world(either), left(either)
    (doubt,) = store.doubts.open(session)
    store.doubts.settle(doubt.call, verdict)
    told_later(either, Returned(id=DOUBT, output="deployed", status=status))
    last = list(store.read(session).log())[-1]
    assert (last.kind, last.status, last.call) == ("outcome", status, doubt.call)
    assert store.read(session).calls(tool="Bash")[0].status == status
    assert store.doubts.open(session) == []
    assert store.verify().ok


# -- unplaced -------------------------------------------------------------------------------------


def draft(store, session, kind="call", **fields):
    return Draft(id=store.context.mint("commit"), session=session, kind=kind, **fields)


def test_what_is_unplaced_has_an_id_and_no_position(either):
    session = left(either)
    prompt = draft(either, session, "turn", input="and now the tests", happened=7)
    store = world(either, unplaced=[prompt])
    (one,) = store.read(session).unplaced()
    assert (one.id, one.kind, one.summary, one.happened) == (
        prompt.id, "turn", "and now the tests", 7,
    )  # fmt: skip
    assert not hasattr(one, "seq")
    assert not hasattr(one, "hash")


@pytest.mark.parametrize(("effect", "lost"), [("write", "in doubt"), ("read", "cancelled")])
def test_an_unplaced_call_without_a_result_is_lost_once_its_agent_is_at_rest(either, effect, lost):
    session = left(either)
    begun = draft(
        either, session, call="c_" + "1" * 32, tool="Edit", effect=effect, status="started"
    )
    ended = draft(either, session, "outcome", call=begun.call, tool="Edit", status="ok")
    for at_rest, known, status in (
        (False, [begun], "started"),
        (True, [begun], lost),
        (True, [begun, ended], "started"),
    ):
        store = world(either, at_rest=at_rest, unplaced=known)
        assert store.read(session).unplaced()[0].status == status


def test_secrets_in_what_is_unplaced_are_not_shown(either):
    session = left(either)
    token = "ghp_" + "a1B2c3D4e5F6g7H8i9J0" * 2
    said = draft(
        either, session, call="c_" + "1" * 32, tool="Bash",
        input={"command": f"curl -H {token}", "password": "hunter2hunter2"},
    )  # fmt: skip
    (one,) = world(either, unplaced=[said]).read(session).unplaced()
    assert token not in f"{one.summary}{one.input}"
    assert "hunter2" not in f"{one.summary}{one.input}"


def test_something_unplaced_of_an_odd_shape_costs_its_own_line_only(either):
    session = left(either)
    odd = draft(either, session, "entry", output=object())
    plain = draft(either, session, "entry", output="hello")
    found = world(either, unplaced=[odd, plain]).read(session).unplaced()
    assert [one.summary for one in found] == ["(cannot be recorded as it is)", "hello"]


def test_a_position_that_names_something_unplaced_says_so(either):
    session = left(either)
    one = draft(either, session, "turn", input="next")
    store = world(either, unplaced=[one])
    with pytest.raises(NotFound, match=EXPLAINED):
        store.read(session).at(one.id)
    with pytest.raises(NotFound, match=EXPLAINED):
        store.fork(session, one.id)


def test_head_log_export_and_verify_never_see_what_is_unplaced(either, tmp_path):
    session = left(either)
    one = draft(either, session, "turn", input="next")
    with_it, without = world(either, unplaced=[one]), world(either)
    view = with_it.read(session)
    assert view.head == without.read(session).head
    assert one.id not in [commit.id for commit in view.log()]
    assert with_it.verify() == without.verify()
    with_it.export(session, tmp_path / "a.stator")
    assert with_it.fork(session).head.seq == view.head.seq + 1


def test_a_brief_tells_what_is_unplaced(either):
    session = left(either)
    one = draft(either, session, "turn", input="and now the tests")
    text = world(either, unplaced=[one]).read(session).brief().text
    assert "and now the tests" in text
    assert EXPLAINED in text


def test_a_driven_session_has_nothing_unplaced(either):
    with either.open("a") as s:
        assert s.unplaced() == []
    one = draft(either, s.id, "turn", input="next")
    assert world(either, unplaced=[one]).read("a").unplaced() == []


# -- what no transcript contains ------------------------------------------------------------------


def test_commits_that_no_transcript_contains_are_found(either):
    session = left(either)
    late = draft(
        either, session, "entry", output="from a hook", cause=NOT_TOLD,
        origin=("claude-code", "late"), principal="hook:claude-code",
    )  # fmt: skip
    (commit,) = either.port.append(session, [late])
    (found,) = attention.not_told(either.as_read, either.context.clock())
    assert (found.row.id, found.seq, found.count) == (session, commit.seq, 1)
    assert list(attention.not_told(either.as_read, either.context.clock() + 20 * DAY)) == []
