"""Recording the conversation of another agent: one session, each item once, from several sources."""

from __future__ import annotations

from collections import Counter

import msgspec
import pytest

import stator
from stator.errors import HeadMoved, StoreBusy
from stator.model.exchange.bookmark import Bookmark
from stator.model.exchange.item_commits import DraftingState
from stator.model.exchange.items import (
    Answered,
    Began,
    Called,
    Compacted,
    Conversation,
    Ended,
    Planned,
    Prompted,
    Returned,
    Spawned,
    Step,
    Touch,
    TurnEnded,
    Unknown,
)
from stator.runtime.facade.view import SessionView
from stator.runtime.ingest.placement import find
from stator.runtime.ingest.recorder import Recorder
from stator.runtime.window.transcript import Rendering

TALK = Conversation(source="claude-code", id="9d4f", name="write hello", cwd="/home/dev/demo")


def answer(*requests, text="", id="msg_1", usage=None):
    blocks = [{"type": "text", "text": text}] if text else []
    blocks += [{"type": "tool_use", "id": i, "name": n, "input": a} for i, n, a in requests]
    return Answered(id=id, at=20, reply={"role": "assistant", "content": blocks}, usage=usage or {})


TURN = [
    Prompted(id="p1", at=10, content="write hello"),
    answer(("toolu_1", "Write", {"file_path": "/home/dev/demo/hello.txt"}), usage={"tokens": 18}),
    Called(id="toolu_1", at=30, tool="Write", input={"file_path": "/home/dev/demo/hello.txt"}),
    Returned(
        id="toolu_1",
        at=40,
        output="done",
        files=(Touch(path="/home/dev/demo/hello.txt", op="created"),),
    ),
    answer(text="Done.", id="msg_2"),
    TurnEnded(at=50),
]


@pytest.fixture(params=["memory:", "file"])
def store(request, tmp_path):
    url = "memory:" if request.param == "memory:" else tmp_path / "a.db"
    with stator.connect(url, project="demo") as opened:
        yield opened


def recorder(store, talk=TALK, **options):
    return Recorder(store.port, store.context, talk, **options)


def record(store, items, talk=TALK, **options):
    """Record items of a source, which continues where the last ones of that conversation ended."""
    note = store.port.bookmark(talk.session, "test") if find(store.port, talk) else None
    state = None if note is None else msgspec.convert(note.value, DraftingState)
    recording = recorder(store, talk, state=state, **options)
    for item in items:
        recording.take(item)
    kept = msgspec.to_builtins(recording.state)
    recording.flush(bookmark=Bookmark("test", 1 if note is None else note.number + 1, kept))
    return SessionView(store.port, recording.session)


def kinds(view):
    return [commit.kind for commit in view.log()]


def test_a_turn_becomes_a_turn_of_a_recorded_session(store):
    view = record(store, TURN)
    assert kinds(view) == ["open", "turn", "entry", "call", "outcome", "entry", "turn_end"]
    assert (view.record.mode, view.record.name) == ("recorded", "write hello")
    assert [change.path for change in view.files()] == ["/home/dev/demo/hello.txt"]


def test_a_source_that_is_read_again_adds_nothing(store):
    record(store, TURN)
    again = recorder(store)
    for item in TURN:
        again.take(item)
    assert again.flush() == []
    assert not again.is_new


def test_a_write_without_a_result_is_in_doubt_when_the_agent_continues(store):
    view = record(store, [*TURN[:3], Prompted(id="p2", at=60, content="go on")])
    (call,) = view.calls()
    assert call.status == "in doubt"


def test_a_read_without_a_result_is_cancelled(store):
    asked = Called(id="toolu_1", at=30, tool="Read", input={}, effect="read")
    view = record(store, [TURN[0], asked, Prompted(id="p2", at=60, content="go on")])
    (call,) = view.calls()
    assert call.status == "cancelled"


def test_a_late_result_settles_its_call(store):
    record(store, [*TURN[:3], Prompted(id="p2", at=60, content="go on")])
    view = record(store, [TURN[3]])
    assert view.entries("calls") == []
    assert kinds(view)[-1] == "settlement"


def test_a_prompt_ends_the_previous_turn(store):
    view = record(store, [TURN[0], Prompted(id="p2", at=60, content="go on")])
    assert kinds(view) == ["open", "turn", "turn_end", "turn"]


def test_a_repeated_prompt_starts_no_second_turn(store):
    more = [*TURN, Prompted(id="p2", at=60, content="go on")]
    record(store, more)
    again = recorder(store)
    for item in more:
        again.take(item)
    assert again.flush() == []


def test_a_result_without_its_call_is_recorded(store):
    view = record(store, [TURN[0], TURN[3]])
    (call,) = view.calls()
    assert (call.tool, call.status) == ("?", "ok")


def test_the_plan_is_the_last_one_the_agent_reported(store):
    first = Planned(id="a", steps=(Step(step="one"), Step(step="two")))
    last = Planned(id="b", steps=(Step(step="two", status="done"), Step(step="three")))
    view = record(store, [TURN[0], first, last])
    plan = {entry.record.step: entry.record.status for entry in view.entries("plan")}
    assert plan == {"two": "done", "three": "pending"}


def test_usage_is_recorded_as_spend(store):
    view = record(store, TURN)
    (spent,) = view.entries("spend")
    assert (spent.record.unit, spent.record.amount) == ("tokens", 18)


def test_a_compaction_by_the_agent_records_what_was_evicted(store):
    view = record(store, [*TURN, Compacted(id="compact/1", summary="hello was written", before=18)])
    assert kinds(view)[-1] == "compaction"
    assert view.entries("evicted")


def test_an_unknown_item_is_recorded_verbatim(store):
    view = record(store, [Unknown(id="raw/7", raw={"type": "new", "x": [1]})])
    (commit,) = [commit for commit in view.log() if commit.kind == "raw"]
    assert commit.value("input") == {"type": "new", "x": [1]}


def test_a_sub_agent_is_a_child_session(store):
    view = record(
        store, [*TURN[:3], Spawned(id="s1", child="agent-a", call="toolu_1", name="look")]
    )
    below = Conversation(
        source="claude-code", id="agent-a", parent="9d4f", parent_call="toolu_1", name="look"
    )
    child = record(store, [Prompted(id="q1", content="look")], below)
    (known,) = view.entries("children")
    assert known.record.session == child.id
    assert child.record.parent.session == view.id
    assert child.record.parent.kind == "child"


def test_a_recorded_fork_shares_the_earlier_commits(store):
    record(store, [*TURN, Prompted(id="p2", at=60, content="one way")])
    other = Conversation(
        source="claude-code", id="ec63", fork_of="9d4f", fork_ids=frozenset({"p1", "msg_2"})
    )
    view = record(store, [*TURN, Prompted(id="p9", at=70, content="another way")], other)
    assert view.record.parent.kind == "fork"
    assert kinds(view)[-2:] == ["fork", "turn"] or kinds(view)[-3:] == ["fork", "turn_end", "turn"]
    assert [c.value("input") for c in view.log() if c.kind == "turn"] == [
        "write hello",
        "another way",
    ]


def test_ending_and_resuming_change_the_session_status(store):
    view = record(store, [Began(id="b1", how="startup"), *TURN, Ended(id="e1", reason="other")])
    assert view.record.status == "paused"
    view = record(store, [Began(id="b2", how="resume")])
    assert view.record.status == "active"


def test_the_end_and_the_start_of_an_agent_record_no_outcomes_and_no_turn_ends(store):
    record(store, [Began(id="b1"), *TURN[:3]])
    view = record(store, [Ended(id="e1", died=True), Began(id="b2", how="resume")])
    assert kinds(view) == ["open", "run", "turn", "entry", "call", "pause", "resume"]


def test_two_recorders_that_read_one_source_record_each_item_once_and_in_order(store):
    one, two = recorder(store), recorder(store)
    for recording, upto in ((one, 2), (two, 4)):
        for item in TURN[:upto]:
            recording.take(item)
        recording.flush()
    for item in TURN[2:]:
        one.take(item)
    one.flush()
    assert kinds(SessionView(store.port, one.session)) == [
        "open", "turn", "entry", "call", "outcome", "entry", "turn_end",
    ]  # fmt: skip


def test_of_two_readers_of_one_source_the_second_starts_again(store):
    for number in (1, 2):
        recording = recorder(store)
        recording.take(TURN[0])
        recording.flush(bookmark=Bookmark("a.jsonl", number, {"offset": number}))
    assert store.port.bookmark(recording.session, "a.jsonl").value == {"offset": 2}
    late = recorder(store)
    late.take(TURN[1])
    with pytest.raises(HeadMoved):
        late.flush(bookmark=Bookmark("a.jsonl", 2, {"offset": 9}))
    assert len(kinds(SessionView(store.port, late.session))) == 2


def test_a_session_that_could_not_be_created_is_created_by_the_next_flush(store, monkeypatch):
    def busy(*given, **options):
        raise StoreBusy("another program writes")

    recording = recorder(store)
    with monkeypatch.context() as patched:
        patched.setattr(store.port, "create", busy)
        with pytest.raises(StoreBusy):
            recording.flush()
    recording.take(TURN[0])
    assert [commit.kind for commit in recording.flush()] == ["turn"]


def test_an_answer_derives_from_everything_in_the_agents_view(store):
    view = record(store, TURN)
    second = [commit for commit in view.log() if commit.kind == "entry"][1]
    assert second.inputs == [2, -5]


def test_after_a_compaction_an_answer_derives_from_the_summary_and_what_follows(store):
    more = [Prompted(id="p2", at=60, content="more"), answer(text="so", id="msg_3")]
    view = record(store, [*TURN, Compacted(id="compact/1", at=55, summary="short"), *more])
    log = {commit.kind: commit for commit in view.log()}
    assert log["entry"].inputs == [log["compaction"].seq, -log["turn"].seq]


def test_a_call_derives_from_the_answer_that_asked_for_it(store):
    view = record(store, TURN)
    (call,) = [commit for commit in view.log() if commit.kind == "call"]
    assert call.inputs == [3]


def test_a_child_begins_at_the_call_that_started_it(store):
    view = record(store, TURN[:3])
    below = Conversation(
        source="claude-code", id="agent-a", parent="9d4f", parent_call="toolu_1", name="look"
    )
    child = record(store, [Prompted(id="q1", at=31, content="look", by="agent")], below)
    (call,) = [commit for commit in view.log() if commit.kind == "call"]
    (turn,) = [commit for commit in child.log() if commit.kind == "turn"]
    assert child.record.parent.seq == call.seq
    assert (turn.actor, turn.provenance.source) == ("agent", "model")


def test_what_is_kept_of_a_source_holds_no_secret(store):
    secret = "ghp_" + "a1B2" * 9
    recording = recorder(store)
    recording.take(TURN[0])
    recording.flush(bookmark=Bookmark("a.jsonl", 1, {"held": f"token {secret}"}))
    assert secret not in str(store.port.bookmark(recording.session, "a.jsonl").value)


def test_an_erasure_drops_the_notes_of_a_session(store):
    view = record(store, TURN)
    store.erase(store.erasing(view.id, "@2"))
    assert store.port.bookmark(view.id, "test") is None


def test_imported_records_name_the_importer_and_their_source(store):
    view = record(store, TURN)
    outcome = next(commit for commit in view.log() if commit.kind == "outcome")
    assert outcome.value("principal") == "import:claude-code"
    assert (outcome.provenance.source, outcome.provenance.trust) == ("tool", "unverified")


def test_names_with_lone_surrogates_are_recorded_readably(store):
    odd = Called(id="toolu_\ud800", tool="R\udfff", input={"x": "\ud800"})
    view = record(store, [TURN[0], odd])
    (call,) = view.calls()
    assert call.tool == "R\\udfff"


def test_a_session_is_created_by_the_first_flush(store):
    recording = recorder(store)
    for item in TURN:
        recording.take(item)
    assert store.sessions().rows == []
    new = recording.flush()
    assert [commit.kind for commit in new] == kinds(SessionView(store.port, recording.session))[1:]


def test_a_conversation_without_a_title_is_named_after_its_first_prompt(store):
    asked = Prompted(id="p1", content=[{"type": "text", "text": "fix\n the login " + "x" * 500}])
    view = record(store, [asked], Conversation(source="codex", id="1"))
    assert view.record.name.startswith("fix the login xxx")
    assert len(view.record.name) == 80


def test_a_recorded_session_without_a_running_agent_is_shown_as_paused(store):
    assert record(store, TURN).row.shown == "paused"
    assert record(store, [Began(id="b")]).row.shown == "active"


def test_a_recorded_session_is_dated_by_its_items(store):
    recording = recorder(store)
    for item in TURN:
        recording.take(item)
    recording.flush(bookmark=Bookmark("a.jsonl", 1, {"offset": 12}))
    row = store.port.session(recording.session)
    assert (row.record.created, row.updated) == (10, 50)


def test_an_item_without_a_time_gets_that_of_the_item_before(store):
    view = record(store, [TURN[0], Unknown(id="u", raw={"type": "odd"})])
    assert [commit.when for commit in view.log()][1:] == [10, 10]


def test_a_start_reported_twice_is_recorded_once(store):
    told = [Began(id="b1", at=1), *TURN, Ended(id="e1", at=70), Began(id="b2", at=80)]
    before = kinds(record(store, told, via="hook"))
    assert kinds(record(store, told, via="hook")) == before


def test_a_compaction_can_name_an_item_of_another_recorder(store):
    record(store, [*TURN, Prompted(id="p2", at=60, content="go on"), answer(text="so", id="msg_3")])
    view = record(store, [Compacted(id="compact/1", summary="short", keeps_from="msg_3")])
    shown = str(Rendering(store.port, view.id).current().render("anthropic"))
    assert "'so'" in shown
    assert "'Done.'" not in shown


def test_a_cancelled_read_gets_its_late_result(store):
    asked = Called(id="toolu_1", at=30, tool="Read", input={}, effect="read")
    late = Returned(id="toolu_1", at=40, output="found")
    record(store, [TURN[0], asked, Prompted(id="p2", at=60, content="go on"), late])
    view = record(store, [TURN[0], asked, late])
    assert [call.status for call in view.calls()] == ["ok"]
    assert kinds(view).count("settlement") == 1


def results(store, view):
    said = Rendering(store.port, view.id).current().render("anthropic")
    return [b["content"] for m in said for b in m["content"] if b["type"] == "tool_result"]


def test_a_requested_call_without_a_report_is_rendered_as_unknown(store):
    view = record(store, TURN[:2])
    (result,) = results(store, view)
    assert "unknown" in result


def test_a_result_is_matched_by_an_id_that_is_too_long_to_record(store):
    name = "t" * 5_000
    told = [
        TURN[0],
        answer((name, "Write", {})),
        Called(id=name, at=30, tool="Write", input={}),
        Returned(id=name, at=40, output="done"),
    ]
    assert results(store, record(store, told)) == ["done"]


def test_a_prompt_repeated_after_a_compaction_starts_no_turn(store):
    again = Prompted(id="p2", at=60, content="go on")
    recording = recorder(store)
    for item in [*TURN, again, Compacted(id="compact/1", at=70, summary="short"), TURN[0]]:
        recording.take(item)
    recording.flush()
    log = list(SessionView(store.port, recording.session).log())
    assert [commit.turn for commit in log if commit.kind == "turn_end"] == [1]


NAMELESS = Conversation(source="claude-code", id="77aa")


def test_a_session_created_without_a_prompt_is_named_after_its_first_prompt(store):
    view = record(store, [Began(id="b1")], NAMELESS)
    assert view.record.name == "claude-code 77aa"
    record(store, [Prompted(id="p1", at=10, content="mend the fence")], NAMELESS)
    assert store.read("mend the fence").id == view.id


def test_a_used_name_gets_a_suffix(store):
    record(store, [Began(id="b1")], NAMELESS)
    record(store, [Prompted(id="p1", at=10, content="write hello")])
    view = record(store, [Prompted(id="p1", at=10, content="write hello")], NAMELESS)
    assert view.record.name.startswith("write hello ")


def test_a_name_is_not_changed_by_later_prompts(store):
    record(store, [Began(id="b1")], NAMELESS)
    record(store, [Prompted(id="p1", at=10, content="mend the fence")], NAMELESS)
    view = record(store, [Prompted(id="p2", at=20, content="and paint it")], NAMELESS)
    assert view.record.name == "mend the fence"


def test_a_renamed_session_verifies(store):
    record(store, [Began(id="b1")], NAMELESS)
    view = record(store, [Prompted(id="p1", at=10, content="mend the fence")], NAMELESS)
    store.port.rebuild()
    assert list(store.port.audit()) == []
    assert store.read("mend the fence").id == view.id


def test_a_call_in_a_session_that_nobody_else_writes_to_is_recorded_without_reading(store):
    asked: Counter[str] = Counter()

    class CountedPort:
        def __getattr__(self, name):
            asked[name] += 1
            return getattr(store.port, name)

    recording = Recorder(CountedPort(), store.context, TALK, via="proxy", orderer="proxy")
    for number in range(3):
        asked.clear()
        recording.take(Called(id=f"c{number}", at=10, tool="echo", input={}))
        recording.flush()
    assert asked == {"append": 1}
