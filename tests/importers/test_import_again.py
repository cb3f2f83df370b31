"""Tests that importing again makes a corrected session which replaces the old one."""

from __future__ import annotations

import json

import pytest

import stator
from importers.claude_code_writer import SESSION, TranscriptWriter
from importers.recorded_law import log_of
from importers.toy_format import ToyFormat, ToyTranscript
from stator.importers import conversation
from stator.importers.again import import_again, is_outdated
from stator.importers.claude_code.transcript import FORMAT
from stator.importers.conversation import Report, import_conversation
from stator.model.exchange.items import Conversation
from stator.model.log.query import SessionRow
from stator.runtime.ingest.placement import find
from stator.runtime.ingest.recorder import ParentBehind, Recorder

TALK = Conversation(source="cursor", id="c1")


class NewerFormat(ToyFormat):
    mapper = 2


@pytest.fixture
def store(tmp_path):
    with stator.connect(tmp_path / "store.db", project="x") as opened:
        yield opened


@pytest.fixture
def transcript(tmp_path):
    made = ToyTranscript(tmp_path / "talk.jsonl")
    made.turn(1)
    return made


def take_in(store, transcript, format=None):
    format = format or ToyFormat()
    (found,) = format.conversations(transcript.path)
    import_conversation(store.port, store.context, format, found, Report(), at_rest=True)
    return row_of(store)


def row_of(store, talk=TALK) -> SessionRow:
    row = find(store.port, talk)
    assert row is not None
    return row


def again(store, transcript):
    format = NewerFormat()
    (found,) = format.conversations(transcript.path)
    old = row_of(store)
    return import_again(store.port, store.context, format, found, old, Report())


def decided(store, session):
    return [
        (c.turn, c.delta[0].record.what) for c in store.read(session).log() if c.kind == "decision"
    ]


def test_the_new_session_takes_name_and_alias_and_the_old_one_is_archived(store, transcript):
    old = take_in(store, transcript)
    new = again(store, transcript)
    assert row_of(store).id == new != old.id
    assert store.port.session(new).record.name == old.record.name
    assert store.port.session(old.id).record.status == "archived"


def test_the_new_session_is_what_a_first_import_makes(store, transcript, tmp_path):
    take_in(store, transcript)
    new = again(store, transcript)
    with stator.connect(tmp_path / "other.db", project="x") as other:
        fresh = take_in(other, transcript, NewerFormat())
        kinds = [[one[1:4] for one in log_of(s, i)] for s, i in ((store, new), (other, fresh.id))]
    assert kinds[0] == kinds[1]


def test_contributions_are_carried_in_their_turns(store, transcript):
    old = take_in(store, transcript)
    store.contribute(old.id).decide("first", topic="a")
    transcript.turn(2)
    take_in(store, transcript)
    store.contribute(old.id).decide("second", topic="b")
    new = again(store, transcript)
    assert decided(store, new) == [(1, "first"), (2, "second")]


def test_values_that_were_contributed_stay_the_same(store, transcript):
    old = take_in(store, transcript)
    store.contribute(old.id).fact("ratio", {"exact": 1.5, "raw": b"\0\1"})
    new = again(store, transcript)
    values = [store.read(one).entries("facts")[0].record.value for one in (old.id, new)]
    assert values[0] == values[1]


def test_a_tag_names_the_same_item(store, transcript):
    old = take_in(store, transcript)
    (call,) = [c for c in store.read(old.id).log() if c.kind == "call"]
    store.contribute(old.id).tag("here", at=f"@{call.seq}")
    new = again(store, transcript)
    (tag,) = store.read(new).entries("tags")
    assert store.read(new).commit(f"@{tag.record.seq}").origin == call.origin


def test_importing_again_twice_doubles_nothing(store, transcript):
    old = take_in(store, transcript)
    store.contribute(old.id).decide("first", topic="a")
    new = again(store, transcript)
    (found,) = NewerFormat().conversations(transcript.path)
    assert not is_outdated(store.port.session(new), NewerFormat(), found)
    before = len(list(store.read(new).log()))
    take_in(store, transcript, NewerFormat())
    assert len(list(store.read(new).log())) == before


def test_an_interrupted_renewal_is_finished_by_the_next_one(store, transcript, monkeypatch):
    old = take_in(store, transcript)
    store.contribute(old.id).decide("first", topic="a")
    from stator.importers import again as module

    real = module._describe
    calls: list[int] = []

    def once(*given):
        if calls:
            raise KeyboardInterrupt
        calls.append(1)
        real(*given)

    monkeypatch.setattr(module, "_describe", once)
    with pytest.raises(KeyboardInterrupt):
        again(store, transcript)
    monkeypatch.undo()
    new = again(store, transcript)
    assert row_of(store).id == new
    assert decided(store, new) == [(1, "first")]
    assert store.port.session(old.id).record.status == "archived"


def test_the_new_session_continues_with_the_transcript(store, transcript):
    take_in(store, transcript)
    new = again(store, transcript)
    transcript.turn(2)
    take_in(store, transcript, NewerFormat())
    assert [c.turn for c in store.read(new).log() if c.kind == "turn"] == [1, 2]


def recorded_turns(store, path, turns=4):
    """Record some turns of a Claude Code session, with a decision in each."""
    writer = TranscriptWriter(path)
    for turn in range(1, turns + 1):
        writer.prompt(f"do {turn}", promptId=f"p{turn}")
        writer.says(f"m{turn}", f"I did {turn}", stop="end_turn")
        old = written(store, path)
        store.contribute(old.id).decide(f"in {turn}", topic=f"topic {turn}")
    return [(turn, f"in {turn}") for turn in range(1, turns + 1)]


def written(store, path):
    (found,) = FORMAT.conversations(path)
    import_conversation(store.port, store.context, FORMAT, found, Report(), at_rest=True)
    return find(store.port, found.conversation)


def renewed(store, path):
    (found,) = FORMAT.conversations(path)
    old = store.port.session(found.conversation.session)
    return import_again(store.port, store.context, FORMAT, found, old, Report())


@pytest.mark.parametrize("appends", range(1, 6))
def test_contributions_are_in_their_turns_wherever_a_renewal_was_interrupted(
    store, tmp_path, monkeypatch, appends
):
    path = tmp_path / f"{SESSION}.jsonl"
    expected = recorded_turns(store, path)
    monkeypatch.setattr(conversation, "BATCH_ITEMS", 1)
    kept: list[object] = []
    real = Recorder.flush

    def flush(self, **given):
        if len(kept) == appends:
            raise KeyboardInterrupt
        kept.append(1)
        return real(self, **given)

    monkeypatch.setattr(Recorder, "flush", flush)
    with pytest.raises(KeyboardInterrupt):
        renewed(store, path)
    monkeypatch.undo()
    assert decided(store, renewed(store, path)) == expected


@pytest.mark.parametrize("place", range(1, 6))
def test_a_renewal_that_another_process_overtakes_loses_no_contribution(
    store, tmp_path, monkeypatch, place
):
    path = tmp_path / f"{SESSION}.jsonl"
    expected = recorded_turns(store, path)
    monkeypatch.setattr(conversation, "BATCH_ITEMS", 1)
    real, flushes = Recorder.flush, []

    def flush(self, **given):
        flushes.append(1)
        if len(flushes) == place:
            renewed(store, path)
        return real(self, **given)

    monkeypatch.setattr(Recorder, "flush", flush)
    assert decided(store, renewed(store, path)) == expected


@pytest.fixture
def forked(store, transcript, tmp_path):
    """A conversation that was forked after its first turn, with a decision in a turn of the fork and in one before."""
    take_in(store, transcript)
    fork = ToyTranscript(tmp_path / "fork.jsonl", "c2", fork="c1", shared=["turn/g1", "a1", "t1"])
    fork.turn(1)
    fork.turn(2)
    transcript.turn(3)
    take_in(store, transcript)
    (found,) = ToyFormat().conversations(fork.path)
    import_conversation(store.port, store.context, ToyFormat(), found, Report(), at_rest=True)
    store.contribute(row_of(store, found.conversation).id).decide("in the fork", topic="a")
    return fork


def test_a_fork_is_imported_again_as_a_fork_of_the_corrected_session(store, transcript, forked):
    parent = again(store, transcript)
    (found,) = NewerFormat().conversations(forked.path)
    old = row_of(store, found.conversation)
    new = import_again(store.port, store.context, NewerFormat(), found, old, Report())
    row = row_of(store, found.conversation)
    assert (row.id, row.record.name) == (new, old.record.name)
    assert row.record.parent is not None
    assert row.record.parent.session == parent
    assert store.port.session(old.id).record.status == "archived"
    assert decided(store, new) == [(2, "in the fork")]
    assert row.record.labels["instead of"] == old.id


def test_a_fork_of_a_corrected_session_is_not_taken_for_a_corrected_one(
    store, transcript, tmp_path
):
    take_in(store, transcript)
    again(store, transcript)
    fork = ToyTranscript(tmp_path / "fork.jsonl", "c2", fork="c1", shared=["turn/g1", "a1", "t1"])
    fork.turn(1)
    fork.turn(2)
    transcript.turn(3)
    take_in(store, transcript, NewerFormat())
    (found,) = NewerFormat().conversations(fork.path)
    import_conversation(store.port, store.context, NewerFormat(), found, Report(), at_rest=True)
    assert "instead of" not in row_of(store, found.conversation).record.labels


def test_a_fork_that_must_wait_for_its_parent_stays_as_it_was(
    store, transcript, forked, monkeypatch
):
    (found,) = NewerFormat().conversations(forked.path)
    old = row_of(store, found.conversation)

    def waits(self):
        raise ParentBehind("c1")

    monkeypatch.setattr(Recorder, "_check_ready", waits)
    report = Report()
    same = import_again(store.port, store.context, NewerFormat(), found, old, report)
    assert (same, report.waiting) == (old.id, 1)
    assert store.port.session(old.id).record.aliases == old.record.aliases


def test_what_was_contributed_to_turns_that_are_now_the_parents_comes_first_in_a_fork(
    store, transcript, tmp_path
):
    transcript.turn(2)
    transcript.turn(9)
    take_in(store, transcript)
    apart = ToyTranscript(tmp_path / "fork.jsonl", "c2")  # an earlier release did not see the fork
    talk = Conversation(source="cursor", id="c2")
    for number in (1, 2, 3, 4):
        apart.turn(number)
        take_in(store, apart)
        store.contribute(talk.session).decide(f"in {number}", topic=f"topic {number}")
    about = {"talk": "c2", "fork": "c1", "shared": ["turn/g1", "a1", "t1", "turn/g2", "a2", "t2"]}
    lines = apart.path.read_text().splitlines()[1:]
    apart.path.write_text("\n".join([json.dumps(about), *lines]) + "\n")
    (found,) = NewerFormat().conversations(apart.path)
    old = store.port.session(talk.session)
    new = import_again(store.port, store.context, NewerFormat(), found, old, Report())
    assert decided(store, new) == [(2, "in 1"), (2, "in 2"), (3, "in 3"), (4, "in 4")]
