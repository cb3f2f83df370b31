"""A rewind restores an earlier state and keeps the whole log."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import stator
from runtime.conftest import memory_store
from runtime.support import Counted, Died, Model, die, driving, raising, says
from stator.errors import ApprovalNeeded, BadTurn, Busy, InvalidInput, NotFound, WrongState
from stator.model.log.commit import Upsert
from stator.model.log.rewinds import RESET
from stator.model.records.tables import KEPT_IN_REWIND
from stator.model.records.types import TagRecord
from stator.model.values.canon import encode
from stator.runtime.branches import rewind
from stator.runtime.driving import lifecycle
from stator.runtime.views.verify import verify
from strategies import same


def five_turns(store, name="main"):
    with store.open(name) as s:
        for number in range(1, 6):
            with s.turn(f"ask {number}") as t:
                t.fact("n", number)
                t.decide(f"plan {number}", topic="plan")
                t.say(f"answer {number}", usage={"tokens": 10})
    return s


def gone_back(session, at):
    """Every collection that a rewind resets."""
    return session.state(at, collections=RESET)


def asked(turn):
    return [message["content"] for message in turn.messages("plain") if message["role"] == "user"]


# -- effects of a rewind --------------------------------------------------------------------------


def test_a_rewind_restores_the_earlier_state(either):
    five_turns(either)
    with either.open("main") as s:
        s.rewind("t2")
        assert s.facts() == {"n": 2}
        assert gone_back(s, "head") == gone_back(s, "t2")


def test_rewound_turns_can_still_be_read(either):
    """Rewound turns keep their numbers and seqs, and the reflog has a tag for them."""
    five_turns(either)
    with either.open("main") as s:
        before = s.state("t5", collections=RESET)
        done = s.rewind("t2")
        assert gone_back(s, "t5") == before
        assert gone_back(s, done.tag) == before
        assert s.at("t5").seq < done.seq


def test_a_rewind_can_be_undone(either):
    five_turns(either)
    with either.open("main") as s:
        before = gone_back(s, "head")
        done = s.rewind("t2")
        s.rewind(done.tag)
        assert gone_back(s, "head") == before


def test_turn_numbers_are_never_reused(either):
    five_turns(either)
    with either.open("main") as s:
        s.rewind("t2")
        with s.turn("ask 6") as t:
            assert t.number == 6
            t.fact("n", 6)
        assert s.diff("t6").of("facts")[0].before.value == 2


def test_the_diff_of_a_turn_excludes_the_rewind_after_it(either):
    five_turns(either)
    with either.open("main") as s:
        alone = [item.key for item in s.diff("t5").items if item.collection in RESET]
        s.rewind("t2")
        assert [item.key for item in s.diff("t5").items if item.collection in RESET] == alone


def test_rewound_turns_are_skipped_when_counting_from_the_end(either):
    five_turns(either)
    either.contribute("main").rewind("t2")
    view = either.read("main")
    assert [view.at(f"t-{n}").shown for n in (1, 2)] == ["t2", "t1"]
    assert view.diff().end == "t2"
    with pytest.raises(NotFound, match="the session has 2 turns"):
        view.at("t-3")
    with either.open("main") as s, s.turn("on"):
        pass
    assert [s.at(f"t-{n}").shown for n in (1, 2)] == ["t6", "t2"]
    assert s.at("t5").shown == "t5"


def test_spend_scores_flags_and_tags_survive_a_rewind(either):
    five_turns(either)
    with either.open("main") as s:
        s.score("good", 1.0)
        s.flag("look")
        s.tag("here", "t4")
        before = s.state(collections=sorted(KEPT_IN_REWIND - {"tags", "runs"}))
        s.rewind("t1")
        assert s.state(collections=sorted(KEPT_IN_REWIND - {"tags", "runs"})) == before
        assert s.at("here").seq == s.at("t4").seq


def test_a_rewind_to_the_start_clears_the_state(either):
    five_turns(either)
    with either.open("main") as s:
        s.rewind("t0")
        assert not any(gone_back(s, "head").values())
        with s.turn("anew") as t:
            assert asked(t) == ["anew"]


def test_a_rewind_lists_the_writes_it_cannot_undo(either):
    read = Counted(name="look").tool(effect="read")
    with either.open("main") as s:
        with s.turn("one") as t:
            t.call(Counted(name="before").tool())
        with s.turn("two") as t:
            t.call(read)
            t.call(Counted(name="pay").tool())
            t.try_call(Counted(raising(stator.InDoubt("?")), name="ship").tool())
            t.try_call(Counted(raising(ValueError("no")), name="fail").tool())
        done = s.rewind("t1")
    assert [(call.tool, call.status) for call in done.effects] == [
        ("pay", "ok"),
        ("ship", "in doubt"),
    ]
    assert done.turns == [2]


def test_a_call_awaiting_approval_is_not_listed_as_an_effect(either):
    with pytest.raises(ApprovalNeeded), either.open("main") as s, s.turn("pay") as t:
        t.call(Counted(name="pay").tool(approve=True))
    assert either.contribute("main").rewind("t0").effects == []


def test_effects_listed_by_an_earlier_rewind_are_not_listed_again(either):
    with either.open("main") as s:
        for name in ("one", "two"):
            with s.turn(name) as t:
                t.call(Counted(name=name).tool())
        s.rewind("t1")
        assert [call.tool for call in s.rewind("t0").effects] == ["one"]


def test_a_call_in_doubt_stays_in_doubt_after_a_rewind(either):
    with either.open("main") as s:
        with s.turn("one") as t:
            t.fact("x", 1)
        with s.turn("two") as t:
            t.try_call(Counted(raising(stator.InDoubt("?")), name="pay").tool())
        pending = s.state(collections=["pending"])
        s.rewind("t1")
        assert [doubt.tool for doubt in s.in_doubt] == ["pay"]
        assert s.state(collections=["pending"]) == pending


def test_a_call_settled_later_stays_settled_after_a_rewind(either):
    with either.open("main") as s:
        with s.turn("one") as t:
            t.try_call(Counted(raising(stator.InDoubt("?")), name="pay").tool())
        s.in_doubt[0].settle("done")
        with s.turn("two") as t:
            t.fact("x", 1)
        s.rewind("t1")
        assert s.state(collections=["pending"]) == {"pending": {}}


# -- refusals -------------------------------------------------------------------------------------


def test_a_rewind_inside_a_turn_is_refused(either):
    five_turns(either)
    with either.open("main") as s, s.turn("six"), pytest.raises(BadTurn, match="open"):
        s.rewind("t2")


def test_a_rewind_to_the_current_position_is_refused(either):
    five_turns(either)
    with either.open("main") as s, pytest.raises(InvalidInput, match="current position"):
        s.rewind("head")


def test_a_rewind_to_a_position_of_another_session_is_refused(either):
    five_turns(either)
    five_turns(either, "other")
    with either.open("main") as s, pytest.raises(InvalidInput, match="another session"):
        s.rewind("other:t2")
    with either.open("main") as s, pytest.raises(NotFound):
        s.rewind("t9")


def test_a_closed_session_cannot_be_rewound(either):
    five_turns(either)
    either.open("main").close()
    view = either.read("main")
    with pytest.raises(WrongState, match="closed"):
        rewind.rewind(either.port, either.context, view.id, "t2")


def test_tags_named_like_those_of_the_reflog_are_refused(either):
    five_turns(either)
    with either.open("main") as s, pytest.raises(InvalidInput, match="rewind"):
        s.tag("rewind/1", "t1")


# -- rewinds by other processes -------------------------------------------------------------------


def test_a_driven_session_cannot_be_rewound_by_another_process(store):
    five_turns(store)
    with store.open("main") as s, pytest.raises(Busy):
        rewind.rewind(store.port, store.context, s.id, "t2")


def test_a_rewind_plan_changes_nothing_and_matches_the_rewind(either):
    view = five_turns(either)
    head = view.head
    planned = rewind.plan(either.port, view.id, "t2")
    assert view.head == head
    done = rewind.rewind(either.port, either.context, view.id, "t2")
    assert (planned.start, planned.end, planned.turns, planned.tag, planned.records) == (
        done.start,
        done.end,
        done.turns,
        done.tag,
        done.records,
    )
    assert planned.seq == 0


def test_the_end_of_a_dead_driver_is_recorded_before_the_rewind(either):
    five_turns(either)
    s = either.open("main")
    s.turn("six")
    die(s)
    rewind.rewind(either.port, either.context, s.id, "t2")
    view = either.read("main")
    assert view.status == "paused"
    assert [row.status for row in view.turns(last=1)] == ["interrupted"]
    assert view.facts() == {"n": 2}


# -- the reflog -----------------------------------------------------------------------------------


def test_the_reflog_lists_rewinds_newest_first(either):
    five_turns(either)
    with either.open("main") as s:
        first = s.rewind("t3")
        second = s.rewind("t1")
        lines = s.reflog()
    assert [(line.tag, line.start, line.end, line.turns) for line in lines] == [
        ("rewind/2", second.start, second.end, [2, 3]),
        ("rewind/1", first.start, first.end, [4, 5]),
    ]
    assert lines[0].by == either.context.principal


def test_turns_restored_by_a_second_rewind_are_not_rewound(either):
    five_turns(either)
    with either.open("main") as s:
        done = s.rewind("t3")
        assert s.rewound() == {4, 5}
        s.rewind("t1")
        assert s.rewound() == {2, 3, 4, 5}
        s.rewind(done.tag)
        assert s.rewound() == set()


def test_after_a_rewind_files_and_their_reasons_are_those_of_the_target(either):
    with either.open("main") as s:
        with s.turn("edit") as t:
            t.file("a.py", "modified", after="a")
        before, why = s.files(), list(s.why("a.py"))
        with s.turn("edit") as t:
            t.file("a.py", "modified", after="b")
            t.file("b.py", "created", after="b")
        after = s.files(), list(s.why("a.py")), list(s.why("b.py"))
        done = s.rewind("t1")
        assert (s.files(), list(s.why("a.py")), list(s.why("b.py"))) == (before, why, [])
        s.rewind(done.tag)
        assert (s.files(), list(s.why("a.py")), list(s.why("b.py"))) == after


def test_the_last_turns_whose_files_are_listed_are_those_in_force(either):
    with either.open("main") as s:
        for name in "ab":
            with s.turn("edit") as t:
                t.file(f"{name}.py", "created", after="1")
        s.rewind("t1")
        assert [file.path for file in s.files(last=1)] == ["a.py"]


@pytest.mark.parametrize(("one", "other"), [(True, 1), (1, 1.0), ([0], [False])])
def test_a_rewind_restores_a_value_that_python_calls_equal(either, one, other):
    with either.open("main") as s:
        for value in (one, other):
            with s.turn("go") as t:
                t.fact("n", value)
        s.rewind("t1")
        assert same(s.facts()["n"], one)


def test_a_file_that_was_edited_and_rewound_away_is_removed_by_the_rewind(either):
    with either.open("main") as s:
        with s.turn("zero"):
            pass
        with s.turn("one") as t:
            t.file("x.py", "created", after="1")
        with s.turn("two") as t:
            t.file("x.py", "modified", after="2")
        done = s.rewind("t1")
        (item,) = s.diff("t2..head").of("files")
        assert (item.key, item.change, item.seq) == ("x.py", "removed", done.seq)


def test_after_a_rewind_a_diff_from_the_target_lists_only_the_tag(either):
    with either.open("main") as s:
        with s.turn("one") as t:
            t.fact("n", 1)
        with s.turn("two") as t:
            t.file("x.py", "created", after="1")
            t.file("y.py", "modified", before="0", after="2")
        s.rewind("t1")
        found = [item for item in s.diff("t1..head").items if item.collection in RESET]
        assert found == []


def test_after_a_rewind_only_earlier_decisions_are_current(either):
    five_turns(either)
    with either.open("main") as s:
        s.rewind("t2")
        assert [line.record.what for line in s.decisions(standing=True)] == ["plan 2"]


def test_a_session_that_was_never_rewound_has_no_reflog(either):
    assert five_turns(either).reflog() == []


def test_an_invalid_recorded_rewind_is_ignored(either):
    """A rewind recorded elsewhere may name a position that does not exist."""
    view = five_turns(either)
    for place, inputs in enumerate([(99, 1), ("k", "k"), (), (1, 2, 3), (-1, 1)]):
        with lifecycle.held(either.port, either.context, view.id) as hold:
            tag = TagRecord(name=f"rewind/{place + 1}", seq=1, hash="")
            lies = hold.draft("rewind", inputs=inputs)
            either.port.append(view.id, [hold.draft("tag", changes=(Upsert("tags", tag),)), lies])
    assert view.reflog() == []
    with either.open("main") as s, s.turn("ask 6") as t:
        assert len(asked(t)) == 6


# -- messages to the model ------------------------------------------------------------------------


def test_rewound_turns_are_not_sent_to_the_model(either):
    five_turns(either)
    with either.open("main") as s:
        s.rewind("t2")
        with s.turn("ask 6") as t:
            assert asked(t) == ["ask 1", "ask 2", "ask 6"]
    with either.open("main") as s, s.turn("ask 7") as t:
        assert asked(t) == ["ask 1", "ask 2", "ask 6", "ask 7"]


def test_a_fork_of_a_rewound_session_sends_the_same_messages(either):
    five_turns(either)
    with either.open("main") as s:
        s.rewind("t2")
        s.fork(name="fork")
        s.fork("t4", name="before")
    with either.open("fork") as s, s.turn("ask 6") as t:
        assert asked(t) == ["ask 1", "ask 2", "ask 6"]
    with either.open("before") as s, s.turn("other 5") as t:
        assert asked(t) == ["ask 1", "ask 2", "ask 3", "ask 4", "other 5"]


def test_undoing_a_rewind_sends_all_turns_again(either):
    five_turns(either)
    with either.open("main") as s:
        done = s.rewind("t2")
        s.rewind(done.tag)
        with s.turn("ask 6") as t:
            assert len(asked(t)) == 6


def test_a_settlement_in_a_rewound_turn_stays_known(either):
    """The payment of turn 1 was settled in turn 2, which was rewound."""
    pay = Counted(raising(stator.InDoubt("?")), name="pay").tool()
    model = Model(says(("pay", {"amount": 5})), says(text="unsure"))
    with either.open("main") as s:
        with s.turn("one") as t:
            t.results(t.model(model), {"pay": pay})
            t.model(model)
        with s.turn("two") as t:
            s.in_doubt[0].settle("done", "paid")
        s.rewind("t1")
        with s.turn("three") as t:
            assert "paid" in str(t.messages("anthropic"))
            assert "'two'" not in str(t.messages("anthropic"))


# -- reruns of a program ---------------------------------------------------------------------------


def test_a_rerun_does_not_reuse_rewound_turns(either):
    def program(s, die_in):
        seen = []
        for number in (1, 2, 3):
            t = s.turn(f"ask {number}")
            with t:
                if number == die_in:
                    raise Died
                seen.append((t.number, t.reused))
        return seen

    with driving(either) as s:
        program(s, 3)
    rewind.rewind(either.port, either.context, either.read("main").id, "t1")
    with either.open("main") as s:
        assert not s.recovery.interrupted
        assert program(s, 0) == [(1, True), (4, False), (5, False)]


def test_a_program_interrupted_after_a_rewind_continues(either):
    five_turns(either)
    rewind.rewind(either.port, either.context, either.read("main").id, "t2")
    with driving(either) as s, s.turn("ask 6") as t:
        t.fact("n", 6)
        raise Died
    with either.open("main") as s, s.turn("ask 6") as t:
        assert t.continued
        assert t.number == 6


def test_a_rewind_within_a_run_ends_matching(either):
    with driving(either) as s:
        for number in (1, 2, 3):
            with s.turn(f"ask {number}"):
                pass
        s.rewind("t1")
        with s.turn("ask 2 anew"):
            raise Died
    with either.open("main") as s:
        with s.turn("ask 1") as t:
            assert t.reused
        with s.turn("ask 2") as t:
            assert (t.reused, t.number) == (False, 5)


# -- laws -----------------------------------------------------------------------------------------

changes = st.one_of(
    st.tuples(st.just("fact"), st.sampled_from("ab"), st.integers(0, 3) | st.booleans()),
    st.tuples(st.just("decide"), st.sampled_from(["", "auth", "db"]), st.sampled_from("xy")),
    st.tuples(st.just("plan"), st.sampled_from("ab"), st.sampled_from(["pending", "done"])),
    st.tuples(st.just("file"), st.sampled_from(["a.py", "b.py"]), st.sampled_from(["created", "deleted"])),
    st.tuples(st.just("rename"), st.sampled_from(["a.py", "b.py"]), st.sampled_from(["a.py", "c.py"])),
    st.tuples(st.just("artifact"), st.sampled_from("ab"), st.integers(0, 2)),
    st.tuples(st.just("use"), st.just("app"), st.sampled_from("ab")),
    st.tuples(st.just("note"), st.sampled_from("ab"), st.integers(0, 2)),
    st.tuples(st.just("set"), st.sampled_from("ab"), st.integers(0, 2)),
    st.tuples(st.just("call"), st.sampled_from("ab"), st.just(0)),
    st.tuples(st.just("say"), st.sampled_from(["yes", "no"]), st.just(0)),
    st.tuples(st.just("pend"), st.sampled_from("ab"), st.just(0)),
    st.tuples(st.just("erase"), st.just(0), st.integers(0, 50)),
)  # fmt: skip
turns = st.lists(changes, max_size=4)
acts = st.lists(turns | st.tuples(st.just("rewind"), st.integers(0, 200)), min_size=1, max_size=8)


def tell(s, acts):
    """Perform random turns and rewinds."""
    for act in acts:
        if isinstance(act, tuple):
            target = act[1] % (s.head.seq + 1)
            if target != s.head.seq:
                s.rewind(f"@{target}")
            continue
        with s.turn("go on") as t:
            for change in act:
                record(s, t, *change)


def record(s, t, kind, a, b):
    if kind == "decide":
        t.decide(b, topic=a)
    elif kind == "rename":
        t.file(b, "renamed", from_path=a)
    elif kind == "set":
        t.set(**{a: b})
    elif kind == "call":
        t.call(Counted(name=a).tool())
    elif kind == "say":
        t.say(a)
    elif kind == "pend":
        t.pend(a)
    elif kind == "erase":
        facts = s.entries("facts")
        if facts:
            s.erase(record=("facts", facts[b % len(facts)].id))
    else:
        getattr(t, kind)(a, b)


@settings(deadline=None, max_examples=25, suppress_health_check=list(HealthCheck))
@given(acts, st.integers(0, 500), st.sampled_from(["memory", "file"]))
def test_after_a_rewind_the_state_equals_that_of_the_target(acts, at, kind):
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        store = memory_store() if kind == "memory" else stator.connect(Path(folder) / "a.db")
        with store, store.open("main") as s:
            tell(s, acts)
            target = at % s.head.seq
            before = gone_back(s, "head")
            wanted = gone_back(s, f"@{target}")
            kept = s.state(collections=sorted(KEPT_IN_REWIND - {"tags"}))
            done = s.rewind(f"@{target}")
            assert without_erased(gone_back(s, "head")) == without_erased(wanted)
            assert s.state(collections=sorted(KEPT_IN_REWIND - {"tags"})) == kept
            fork = store.fork("main")
            assert gone_back(fork, "head") == gone_back(s, "head")
            assert s.diff(f"@{done.start}", f"@{done.seq}").end == f"@{done.seq}"
            s.rewind(done.tag)
            assert without_erased(gone_back(s, "head")) == without_erased(before)
            assert list(verify(store.port, s.id)) == []
            store.port.rebuild()
            assert list(store.port.audit()) == []


@settings(deadline=None, max_examples=25, suppress_health_check=list(HealthCheck))
@given(acts, st.integers(0, 500))
def test_after_a_rewind_the_messages_equal_those_of_a_fork_at_the_target(acts, at):
    store = memory_store()
    with store.open("main") as s:
        tell(s, acts)
        target = 1 + at % s.head.seq
        fork = s.fork(f"@{target}")
        if target != s.head.seq:
            s.rewind(f"@{target}")
        with s.turn("now") as t:
            rewound = t.messages("anthropic")
    with store.open(fork) as f, f.turn("now") as t:
        assert t.messages("anthropic") == rewound


def without_erased(state):
    """The canonical bytes of a state without the erased records."""
    kept = {
        name: {i: r for i, r in records.items() if not hasattr(r, "erased")}
        for name, records in state.items()
    }
    return encode(kept)


def test_a_rewind_restores_a_record_whose_newer_version_was_erased(either):
    with either.open("a") as s:
        with s.turn("note it") as t:
            t.note("n", 1)
            t.note("n", 2)
            s.erase(f"@{s.head.seq}")
        first = s.turns()[0].first + 1
        s.rewind(f"@{first}")
        assert s.state()["scratch"] == s.state(f"@{first}")["scratch"]
        assert [entry.key for entry in s.entries("scratch")] == ["n"]


def test_a_diff_says_nothing_of_an_edit_that_was_rewound(memory):
    with memory.open("a") as s:
        with s.turn("1"):
            pass
        with s.turn("2") as t:
            t.file("c.py", "modified", after="d1")
        s.rewind("t1")
        with s.turn("3") as t:
            t.file("c.py", "read", after="d1")
        assert s.diff("t0", "head").of("files") == []


def test_a_diff_calls_a_file_changed_whose_creation_was_rewound(memory):
    with memory.open("a") as s:
        with s.turn("1"):
            pass
        with s.turn("2") as t:
            t.file("c.py", "created")
        s.rewind("t1")
        with s.turn("3") as t:
            t.file("c.py", "modified")
        assert [item.change for item in s.diff("t0", "head").of("files")] == ["changed"]


def test_a_record_whose_newest_version_was_erased_is_counted_once_after_a_rewind(either):
    with either.open("a") as s:
        with s.turn("1") as t:
            t.file("c.py", "created", after="d1")
        with s.turn("2") as t:
            t.file("c.py", "modified", after="d2")
            seq = s.head.seq
        s.erase(f"@{seq}")
        s.rewind("t1")
        assert s.counts.live["files"] == len(s.state()["files"]) == 1
