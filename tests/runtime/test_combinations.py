"""Features in combination: compactions, rewinds, forks, bundles, replays."""

from __future__ import annotations

from typing import Any

import pytest

import stator
from runtime.support import Model, says
from stator.runtime.views.verify import verify
from stator.testing import replay


def talk(session: Any, prompt: str, answer: str = "") -> None:
    with session.turn(prompt) as t:
        t.decide(f"{prompt}, so", topic=prompt)
        t.say(answer or f"about {prompt}")


def seen(session: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = session._driver.transcript().render("plain", marks=False)
    return found


@pytest.fixture
def session(store):
    with store.open("a") as s:
        for prompt in ("one", "two", "three"):
            talk(s, prompt)
        yield s


class TestRewindAndCompaction:
    def test_a_rewind_to_before_a_compaction_shows_the_earlier_view(self, session):
        before = seen(session)
        at = session.head.seq
        session.compact(keep=1, summary="short")
        talk(session, "four")
        assert seen(session) != before
        session.rewind(f"@{at}")
        assert seen(session) == before

    def test_a_rewind_to_before_a_compaction_clears_the_evicted_list(self, session):
        at = session.head.seq
        session.compact(keep=1, summary="short")
        assert session.evicted()
        session.rewind(f"@{at}")
        assert session.evicted() == []

    def test_a_rewind_to_after_a_compaction_keeps_it(self, session):
        session.compact(keep=1, summary="short")
        talk(session, "four")
        before = seen(session)
        at = session.head.seq
        talk(session, "five")
        session.rewind(f"@{at}")
        assert seen(session) == before
        assert session.evicted()

    def test_undoing_the_rewind_restores_the_compacted_view(self, session):
        at = session.head.seq
        session.compact(keep=1, summary="short")
        compacted = seen(session)
        session.rewind(f"@{at}")
        session.rewind("rewind/1")
        assert seen(session) == compacted
        assert session.evicted()

    def test_a_compaction_after_a_rewind_can_be_undone(self, session):
        session.compact(keep=1, summary="short")
        session.rewind("t2")
        talk(session, "another three")
        before = seen(session)
        session.compact(keep=1, summary="shorter")
        session.undo_compaction()
        assert seen(session) == before

    def test_undoing_a_compaction_that_a_rewind_restored_shows_everything(self, session):
        whole = seen(session)
        at = session.head.seq
        session.compact(keep=1, summary="short")
        session.rewind(f"@{at}")
        session.rewind("rewind/1")
        session.undo_compaction()
        assert seen(session) == whole

    def test_a_rewound_turn_is_not_summarised(self, session):
        talk(session, "a mistake", "nobody should read this")
        session.rewind("t3")
        told: list[Any] = []

        def summary(messages):
            told.extend(messages)
            return "short"

        talk(session, "four")
        session.compact(keep=1, summary=summary)
        assert "nobody should read this" not in str(told)
        assert "nobody should read this" not in str(seen(session))

    def test_another_process_has_the_same_view(self, session, store):
        session.compact(keep=1, summary="short")
        session.rewind("t2")
        talk(session, "four")
        now = seen(session)
        session.pause()
        with store.open("a") as again:
            assert seen(again) == now


def test_a_fork_of_a_compacted_session_has_the_same_view(session, store):
    session.compact(keep=1, summary="short")
    fork = session.fork()
    now = seen(session)
    with store.open(fork) as other:
        assert seen(other) == now
        other.undo_compaction()
        assert seen(other) != now
    assert seen(session) == now


def test_a_session_with_every_feature_can_be_exported_imported_and_driven(session, store, tmp_path):
    session.compact(keep=1, summary="short")
    session.rewind("t2")
    talk(session, "four")
    with session.retry("t4", effects="run") as t:
        t.say("otherwise")
    session.adopt("t4.2")
    now = seen(session)
    session.pause()
    store.export(session.id, tmp_path / "a.stator", tree=True)
    with stator.connect(tmp_path / "there.db", project="there") as there:
        there.import_bundle(tmp_path / "a.stator")
        assert list(verify(there.port)) == []
        with there.open(session.id) as again:
            assert seen(again) == now
        with there.open("a") as adopted:
            assert adopted.name == "a~t4.2"


def test_a_name_opens_the_adopted_session_on_another_machine(session, store, tmp_path):
    with session.retry("t3", effects="run") as t:
        t.say("otherwise")
    session.adopt("t3.2")
    session.pause()
    store.export("a", tmp_path / "a.stator")
    with stator.connect(tmp_path / "there.db", project="there") as there:
        there.import_bundle(tmp_path / "a.stator")
        assert there.read("a").name == "a~t3.2"
        assert there.read(session.id).head == store.read(session.id).head


def test_a_bundle_includes_the_children_that_a_replay_needs(store, tmp_path):
    model = Model(says(), says())

    def agent(s):
        with s.turn("one") as t:
            t.model(model)
            with s.child("look") as c, c.turn("two") as u:
                u.model(model)

    with store.open("a") as s:
        agent(s)
    store.export("a", tmp_path / "a.stator", fixture=True)
    replayed = replay(tmp_path / "a.stator", agent)
    assert replayed.ok, str(replayed)
    assert model.asked == 2


def test_an_encrypted_fixture_replays_with_its_passphrase(store, tmp_path):
    def agent(s):
        with s.turn("one") as t:
            t.say("done")

    with store.open("a") as s:
        agent(s)
    store.export("a", tmp_path / "a.stator", fixture=True, passphrase="horse")
    assert replay(tmp_path / "a.stator", agent, passphrase="horse").ok


def test_a_program_that_compacts_can_be_replayed(store):
    def agent(s):
        for prompt in ("one", "two", "three"):
            talk(s, prompt)
        s.compact(keep=1, summary="short")
        talk(s, "four")

    with store.open("a") as s:
        agent(s)
    assert replay(store.read("a"), agent).ok


def test_a_summary_expires_with_its_transcript(session, store):
    session.compact(keep=1, summary="the launch code is in the drawer")
    session.close()
    from stator.model.records.tables import TRANSCRIPT

    kinds = {commit.kind for commit in session.log() if "drawer" in str(commit.content)}
    assert kinds <= TRANSCRIPT
