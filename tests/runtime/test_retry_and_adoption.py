"""Retries, adoption and names: a turn is retried in a sibling session, which can be adopted."""

from __future__ import annotations

import asyncio

import pytest

import stator
from runtime.support import Counted, die
from stator.errors import (
    ApprovalNeeded,
    Busy,
    Conflict,
    Erased,
    InvalidInput,
    NotFound,
    WrongState,
)
from stator.runtime.branches import retry
from stator.runtime.facade import aio
from stator.runtime.facade.aio_pool import Pool
from stator.runtime.views.refs import find_session, followed


@pytest.fixture
def session(either):
    """A driven session of three turns."""
    with either.open("main", labels={"team": "red"}) as s:
        for number in (1, 2, 3):
            with s.turn(f"ask {number}") as t:
                t.fact("n", number)
                t.say(f"answer {number}", usage={"tokens": 10})
        yield s


def another(s, turn="t2", value=22, **options):
    """Make a retry with another answer; returns its session id."""
    with s.retry(turn, **options) as t:
        t.fact("n", value)
        return t.session.id


# -- retrying -------------------------------------------------------------------------------------


def test_a_retry_starts_from_the_state_before_its_turn(either, session):
    with session.retry("t2") as t:
        assert t.number == 2
        assert t.session.facts() == {"n": 1}
        assert t.session.beginning(2).value("input") == "ask 2"
    assert t.session.record.parent.kind == "retry"
    assert either.read("main~t2.2").status == "paused"


def test_the_original_can_continue_during_a_retry(either, session):
    with session.retry("t2") as t:
        t.fact("n", 22)
        with session.turn("ask 4") as own:
            own.fact("n", 4)
    assert session.facts() == {"n": 4}
    assert t.session.facts() == {"n": 22}


def test_a_retry_can_use_another_prompt(session):
    with session.retry("t2", prompt="ask 2, better") as t:
        assert t.session.beginning(2).value("input") == "ask 2, better"


def test_the_first_turn_can_be_retried(session):
    with session.retry("t1") as t:
        assert (t.number, t.session.facts()) == (1, {})
    assert session.at("t1.2").session == t.session.id


def test_retries_are_numbered_in_order(either, session):
    ids = [another(session) for _ in range(3)]
    assert [session.at(f"t2.{n}").session for n in (2, 3, 4)] == ids
    assert [either.read(i).name for i in ids] == ["main~t2.2", "main~t2.3", "main~t2.4"]


def test_a_used_retry_name_is_skipped(either, session):
    with either.open("main~t2.2"):
        pass
    another(session)
    assert session.at("t2.2").session == either.read("main~t2.3").id


def test_a_retry_knows_its_siblings(either, session):
    first, second = another(session), another(session)
    view = either.read(first)
    assert view.at("t2.1").session == session.id
    assert view.at("t2").session == first
    assert view.at("t2.3").session == second


def test_a_retry_of_a_retry_is_a_sibling_of_both(either, session):
    first = another(session)
    with either.open(first) as s:
        second = another(s)
    assert session.at("t2.3").session == second
    assert either.read(second).record.parent.session == session.id


def test_a_retry_that_has_not_started_knows_its_original(either, session):
    made = retry.make(either.port, either.context, session.id, "t2")
    again = retry.make(either.port, either.context, made.row.id, "t2")
    assert (again.original, again.number, again.prompt) == (session.id, 3, "ask 2")
    assert session.adopt("t2.2").by == made.row.id


def test_a_later_turn_of_a_retry_can_be_retried(either, session):
    first = another(session)
    with either.open(first, rules=[]) as s:
        with s.turn("more") as t:
            t.fact("m", 1)
        third = another(s, "t3")
    assert either.read(third).record.parent.session == first


def test_reusing_a_name_continues_the_same_retry(either, session):
    with session.retry("t2", name="second") as t:
        first = t.session.id
    with session.retry("t2", name="second") as t:
        assert (t.session.id, t.number) == (first, 3)
    with pytest.raises(Conflict, match="already"), session.retry("t3", name="second"):
        pass


def test_only_a_turn_can_be_retried(session):
    for ref in ("@3", "head", "t0"):
        with pytest.raises(InvalidInput, match="only a turn can be retried"), session.retry(ref):
            pass
    with pytest.raises(NotFound), session.retry("t9"):
        pass
    with pytest.raises(InvalidInput, match="effects"), session.retry("t2", effects="maybe"):
        pass


def test_a_turn_with_an_erased_prompt_needs_a_new_one(session):
    session.erase(f"@{session.turns()[1].first}", fields=["input"])
    with pytest.raises(Erased), session.retry("t2"):
        pass
    assert session.tree().branches[0].turns == len(session.turns())
    with session.retry("t2", prompt="in other words") as t:
        assert t.number == 2


def test_a_retry_after_a_rewind_starts_from_the_rewound_state(either, session):
    session.rewind("t1")
    with session.turn("ask 4") as t:
        t.fact("n", 4)
    with session.retry("t4") as t:
        assert t.session.facts() == {"n": 1}
        users = [m["content"] for m in t.messages("plain") if m["role"] == "user"]
        assert users == ["ask 1", "ask 4"]


def test_an_exception_interrupts_the_turn_of_a_retry(either, session):
    with pytest.raises(ZeroDivisionError), session.retry("t2"):
        _ = 1 / 0
    (row,) = either.read("main~t2.2").turns(last=1)
    assert row.status == "interrupted"
    assert either.read("main~t2.2").status == "paused"


def test_a_retry_can_be_awaited(either, session):
    async def go():
        driven = aio.AsyncSession(session, Pool())
        async with driven.retry("t2") as t:
            await t.fact("n", 22)
            return await (await t.session()).facts()

    assert asyncio.run(go()) == {"n": 22}
    assert either.read("main~t2.2").status == "paused"


# -- what a retry may write -----------------------------------------------------------------------


def test_a_retry_asks_for_approval_before_it_writes(either, session):
    pay = Counted(name="pay")
    with pytest.raises(ApprovalNeeded), session.retry("t2") as t:
        t.call(pay.tool())
    assert pay.runs == []


def test_an_approved_call_runs_when_the_retry_continues(either, session):
    pay = Counted(name="pay")
    with pytest.raises(ApprovalNeeded) as needed, session.retry("t2", name="again") as t:
        t.call(pay.tool())
    either.contribute("again").approve(needed.value.ids["call"])
    with session.retry("t2", name="again") as t:
        assert t.continued
        assert t.call(pay.tool()) == "done"


def test_a_retry_reads_without_approval(session):
    with session.retry("t2") as t:
        assert t.call(Counted(name="look").tool(effect="read")) == "done"


def test_a_retry_with_effects_run_writes_without_approval(either, session):
    pay = Counted(name="pay")
    with session.retry("t2", effects="run") as t:
        t.call(pay.tool())
    with either.open(t.session.id) as s, s.turn("more") as t:
        t.call(pay.tool())
    assert len(pay.runs) == 2
    assert s.record.labels == {"team": "red", "effects": "run"}


def test_a_retry_does_not_inherit_effects_run(either, session):
    with session.retry("t2", effects="run") as t:
        first = t.session.id
    with either.open(first) as s, pytest.raises(ApprovalNeeded), s.retry("t2") as t:
        t.call(Counted(name="pay").tool())


def test_a_reopened_retry_still_asks_for_approval(either, session):
    again = another(session)
    with pytest.raises(ApprovalNeeded), either.open(again) as s, s.turn("more") as t:
        t.call(Counted(name="pay").tool())


def test_a_rule_that_denies_applies_in_a_retry(either, session):
    again = another(session)
    rules = [stator.Rule(tool="pay", action="deny", why="never")]
    with either.open(again, rules=rules) as s, s.turn("more") as t:
        assert t.try_call(Counted(name="pay").tool()).status == "denied"


def test_sessions_derived_from_a_retry_also_ask_for_approval(either, session):
    again = another(session)
    with either.open(again) as s:
        s.fork(name="fork of it")
        with s.turn("more") as t:
            t.say("more")
        with s.retry("t3", name="next") as t:
            t.say("otherwise")
        s.adopt("next:")
        with pytest.raises(ApprovalNeeded), either.open(again, busy="fork") as f, f.turn("x") as t:
            t.call(Counted(name="pay").tool())
    for name in ("fork of it", "next"):
        with pytest.raises(ApprovalNeeded), either.open(name) as s, s.turn("x") as t:
            t.call(Counted(name="pay").tool())


def test_a_fork_from_before_a_retry_writes_without_approval(either, session):
    again = another(session)
    with either.open(again) as s:
        s.fork(f"@{s.record.parent.seq}", name="before it")
    with either.open("before it") as s, s.turn("x") as t:
        assert t.call(Counted(name="pay").tool()) == "done"


def test_a_fork_of_an_adopted_retry_writes_without_approval(either, session):
    again = another(session)
    session.adopt("t2.2")
    with either.open(again) as s:
        s.fork(name="on")
    with either.open("on") as s, s.turn("x") as t:
        assert t.call(Counted(name="pay").tool()) == "done"


def test_an_adopted_retry_writes_without_approval(either, session):
    again = another(session)
    session.adopt("t2.2")
    with either.open(again) as s, s.turn("more") as t:
        assert t.call(Counted(name="pay").tool()) == "done"


# -- adopting -------------------------------------------------------------------------------------


def test_a_name_opens_the_adopted_session(either, session):
    again = another(session)
    done = session.adopt("t2.2")
    assert (done.name, done.by, done.by_name) == ("main", again, "main~t2.2")
    assert either.read("main").id == again
    with either.open("main") as s:
        assert s.id == again


def test_an_id_opens_the_session_with_that_id(either, session):
    another(session)
    session.adopt("t2.2")
    session.pause()
    assert either.read(session.id).id == session.id
    with either.open(session.id) as s:
        assert s.id == session.id


def test_an_adoption_can_be_undone(either, session):
    again = another(session)
    session.adopt("t2.2")
    session.pause()
    done = either.contribute("main").adopt("t2.1")
    assert (done.original, done.by) == (session.id, session.id)
    assert either.read("main").id == session.id
    assert either.read(again).record.adopted == ""


def test_a_name_follows_a_chain_of_adoptions(either, session):
    first = another(session)
    session.adopt("t2.2")
    with either.open(first) as s:
        with s.turn("more"):
            pass
        last = another(s, "t3")
        s.adopt("t3.2")
    assert either.read("main").id == last


def test_an_adoption_in_a_chain_can_be_undone_by_its_turn(either, session):
    again = another(session)
    session.adopt("t2.2")
    with either.open(again) as s:
        with s.turn("more") as t:
            t.say("more")
        another(s, "t3")
        s.adopt("t3.2")
    session.pause()
    assert either.contribute("main").adopt("t2.1").original == session.id
    assert either.read("main").id == session.id


def test_the_adoption_of_a_fork_can_be_undone(either, session):
    fork = session.fork("t2", name="plan-b")
    session.adopt("plan-b:")
    assert either.read("main").id == fork
    session.pause()
    either.contribute("main").adopt("t2.1")
    assert either.read("main").id == session.id


def test_undoing_without_an_adoption_is_refused(session):
    with pytest.raises(WrongState, match="nothing was adopted for t2 of session 'main'"):
        session.adopt("t2.1")


def test_a_cycle_of_adoptions_terminates(either, session):
    fork = session.fork(name="fork")
    session.adopt("fork:head")
    with either.open("fork") as s:
        back = s.fork(name="back")
        s.adopt("back:head")
    row = either.port.session(session.id)
    assert followed(either.port, row).id == back
    assert find_session(either.port, "fork").id == back
    assert fork != back


def test_only_a_session_derived_from_the_original_can_be_adopted(session):
    with pytest.raises(WrongState, match="cannot be adopted"):
        session.adopt("head")


def test_adopting_for_a_driven_session_is_busy(store):
    with store.open("main") as s:
        with s.turn("one"):
            pass
        another(s, "t1")
        with pytest.raises(Busy):
            store.contribute("main").adopt("t1.2")


def test_adopting_for_a_session_of_a_dead_driver_records_its_end(either):
    s = either.open("main")
    with s.turn("one"):
        pass
    s.turn("two")
    another(s, "t1")
    die(s)
    either.contribute(s.id).adopt("t1.2")
    assert either.read(s.id).status == "paused"
    assert either.read(s.id).record.adopted


def test_a_fork_does_not_inherit_the_adoption(either, session):
    another(session)
    session.adopt("t2.2")
    assert either.read(session.fork()).record.adopted == ""
