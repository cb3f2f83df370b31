"""Appending: typed, atomic, in order, redacted."""

from __future__ import annotations

import threading

import msgspec
import pytest

from stator.errors import BadDelta, BadId, BadType, Erased, HeadMoved, InvalidInput, NotFound
from stator.model.log.commit import (
    DATA,
    Commit,
    Erase,
    Remove,
    Upsert,
)
from stator.model.records.types import FactRecord, FileRecord
from stator.store.contract.drive import Clock, Drafts, Ids, Story, begin, find
from stator.store.contract.fixtures import Capabilities, MakeStore, skip_unless_durable
from stator.store.memory import MemoryStore
from stator.store.port import StorePort

SECRET = "sk-ant-" + "api03-abcdefghij0123456789"


class TestAppend:
    def test_seqs_are_counted_from_one_without_gaps(self, story: Story) -> None:
        """For any number of appends."""
        story.fact("a")
        story.add(story.drafts.fact("b"), story.drafts.fact("c"))
        assert [commit.seq for commit in story.log] == [1, 2, 3, 4, 5]

    def test_append_returns_the_commits_of_the_log(self, story: Story) -> None:
        """Field by field, content and salts too."""
        call = story.call("pay", {"amount": 5.5, "raw": b"\0", "to": ("a", 1)})
        story.outcome(call, {"ok": True}, usage={"tokens": 3}, why="because")
        returned = [
            story.turn("hello"),
            story.file("a.py", after="d1"),
            story.fact("x", {"deep": [1, 2.5, None]}, origin=("hook", "7"), happened=5),
            story.entry("é" * 500, inputs=(2, 3), trace="00-11", principal="me"),
        ]
        assert story.log[-4:] == returned

    def test_several_drafts_are_appended_together_or_not_at_all(self, story: Story) -> None:
        """One bad draft at the end rejects all of them."""
        head = story.store.head(story.session)
        with pytest.raises(BadDelta):
            story.add(story.drafts.fact("a"), story.drafts.forget("never there"))
        assert story.store.head(story.session) == head
        assert story.store.entries(story.session, "facts") == []

    def test_a_failed_append_leaves_the_session_usable(self, story: Story) -> None:
        """The next append gets the seq of the failed one."""
        seq = story.store.head(story.session).seq
        with pytest.raises(InvalidInput):
            story.add(story.drafts.make("nonsense"))
        assert story.fact("a").seq == seq + 1

    def test_later_drafts_see_earlier_ones(self, story: Story) -> None:
        """Within one append."""
        story.add(story.drafts.fact("a"), story.drafts.forget("a"))
        assert story.store.entries(story.session, "facts") == []

    def test_appending_no_drafts_changes_nothing(self, story: Story) -> None:
        """The result is an empty list."""
        assert story.store.append(story.session, []) == []

    def test_appending_to_a_missing_session_is_not_found(self, store: StorePort) -> None:
        """The error is NotFound."""
        drafts = Drafts(Ids("nobody"), Ids("nobody")("session"))
        with pytest.raises(NotFound):
            store.append(drafts.session, [drafts.fact("x")])

    def test_a_draft_for_another_session_is_refused(self, store: StorePort) -> None:
        """A draft names its session."""
        a, b = begin(store, "a"), begin(store, "b")
        with pytest.raises(InvalidInput):
            store.append(a.session, [b.drafts.fact("x")])

    def test_an_append_with_a_stale_head_is_refused(self, story: Story) -> None:
        """The head's hash is accepted, an older one is HeadMoved and names the head."""
        old = story.store.head(story.session).hash
        story.store.append(story.session, [story.drafts.fact("a")], if_head=old)
        with pytest.raises(HeadMoved) as caught:
            story.store.append(story.session, [story.drafts.fact("b")], if_head=old)
        assert caught.value.head == story.store.head(story.session).hash

    @pytest.mark.parametrize("kind", ["", "nonsense", "Fact"])
    def test_an_unknown_kind_is_refused(self, story: Story, kind: str) -> None:
        """Every mutation is a typed commit."""
        with pytest.raises(InvalidInput):
            story.add(story.drafts.make(kind))

    def test_a_record_of_another_collection_is_refused(self, story: Story) -> None:
        """A file record cannot be put into facts."""
        with pytest.raises(InvalidInput):
            story.add(story.drafts.make("fact", Upsert("facts", FileRecord(path="a", op="read"))))

    def test_an_unknown_collection_is_refused(self, story: Story) -> None:
        """The error is typed."""
        for change in (Upsert("nonsense", FactRecord(name="a")), Remove("nonsense", "a")):
            with pytest.raises(InvalidInput):
                story.add(story.drafts.make("fact", change))

    def test_a_value_that_cannot_be_recorded_is_refused(self, story: Story) -> None:
        """The error has the path within the value."""
        with pytest.raises(BadType, match=r"\$\.input\.a\[1\]"):
            story.call("x", {"a": [1, object()]})

    @pytest.mark.parametrize("identifier", ["", "k_12", "c_" + "0" * 32, "k_" + "A" * 32])
    def test_an_invalid_commit_id_is_refused(self, story: Story, identifier: str) -> None:
        """An id is a prefix and 32 lower-case hex digits."""
        with pytest.raises(BadId):
            story.fact("x", id=identifier)

    @pytest.mark.parametrize("call", ["abc", "k_" + "0" * 32, "c_" + "A" * 32])
    def test_an_invalid_call_id_is_refused(self, story: Story, call: str) -> None:
        """Otherwise it would be read back as another id."""
        with pytest.raises(BadId):
            story.call("x", call=call)

    @pytest.mark.parametrize("run", ["abc", "s_" + "0" * 32, "r_" + "A" * 32])
    def test_an_invalid_run_id_is_refused(self, story: Story, run: str) -> None:
        """Otherwise it would be read back as another id."""
        with pytest.raises(BadId):
            story.fact("x", run=run)

    def test_an_erase_change_outside_an_erasure_commit_is_refused(self, story: Story) -> None:
        """No requested change is silently ignored."""
        story.fact("x")
        with pytest.raises(InvalidInput):
            story.add(story.drafts.make("fact", Erase(seq=3)))

    def test_changes_in_a_call_commit_are_applied(self, story: Story) -> None:
        """No requested change is silently ignored."""
        fact = Upsert("facts", FactRecord(name="x", value=1))
        story.add(msgspec.structs.replace(story.drafts.call("read"), changes=(fact,)))
        assert find(story.store, story.session, "facts", "x") is not None

    def test_happened_defaults_to_the_time_of_the_append(self, story: Story) -> None:
        """Retention uses `at`, displays use `happened`."""
        now, then = story.fact("a"), story.fact("b", happened=77)
        assert now.happened == now.at
        assert (then.happened, then.at > now.at) == (77, True)

    def test_threads_append_concurrently(self, store: StorePort) -> None:
        """Every commit is recorded once, and the seqs have no gap."""
        stories = [begin(store, f"s{n}") for n in range(2)]
        errors: list[BaseException] = []

        def work(n: int) -> None:
            drafts = Drafts(Ids(f"thread {n}"), stories[n % 2].session)
            try:
                for i in range(10):
                    store.append(drafts.session, [drafts.fact(f"{n}.{i}")])
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert errors == []
        for story in stories:
            assert [commit.seq for commit in story.log] == list(range(1, 22))
            assert len(store.entries(story.session, "facts")) == 20


class TestRedaction:
    def test_no_secret_reaches_the_log(self, story: Story) -> None:
        """Neither in content nor in records, structural text or origins."""
        story.call("sh", {"cmd": f"curl -H 'x-api-key: {SECRET}'"})
        story.entry(f"your key is {SECRET}", cause=f"saw {SECRET}", origin=("hook", SECRET))
        story.fact("key", {"value": SECRET}, why=SECRET, principal=SECRET)
        story.decision(f"use {SECRET}", SECRET)
        assert SECRET not in repr(story.log)
        assert "‹secret:anthropic:" in repr(story.log)

    def test_equal_secrets_have_equal_placeholders(self, story: Story) -> None:
        """This holds within a session and its forks."""
        one, other = story.entry(SECRET), story.fork("fork").drive().entry(SECRET)
        assert one.value("output") == other.value("output")

    def test_a_commit_with_a_redacted_origin_is_recorded_once(self, story: Story) -> None:
        """The lookup uses the redacted origin."""
        first = story.entry("a", origin=("hook", SECRET))
        assert story.entry("a", origin=("hook", SECRET)) == first

    def test_a_secret_in_a_session_name_is_not_in_its_row(self, store: StorePort) -> None:
        """The row has the redacted name of the record."""
        story = begin(store, f"rotate {SECRET}")
        assert SECRET not in repr(story.row)
        assert story.row.record == store.entries(story.session, "session")[0].record

    def test_a_session_with_a_secret_in_its_name_is_found_again(self, store: StorePort) -> None:
        """Creating it again returns the same session."""
        story = begin(store, f"rotate {SECRET}")
        row, new = store.create([story.drafts.open(f"rotate {SECRET}")])
        assert (row.id, new) == (story.session, False)

    def test_redaction_can_be_switched_off(self, make_store: MakeStore) -> None:
        """For programs that redact elsewhere."""
        store = make_store(redact=False, clock=Clock())
        try:
            assert begin(store).drive().entry(SECRET).value("output") == SECRET
        finally:
            store.close()


class TestDurability:
    def test_an_end_of_a_turn_without_a_status_is_refused_and_the_turn_stays_open(
        self, story: Story
    ) -> None:
        story.turn()
        with pytest.raises(InvalidInput, match="cannot end without a status"):
            story.turn_end("")
        assert story.store.head(story.session).turn_open

    def test_an_origin_that_is_no_pair_is_refused(self, story: Story) -> None:
        with pytest.raises(InvalidInput, match="source, id"):
            story.entry("a", origin=("hook",))

    def test_acknowledged_commits_exist_after_reopening(
        self, make_store: MakeStore, capabilities: Capabilities
    ) -> None:
        """This includes state and turns."""
        skip_unless_durable(capabilities)
        first = make_store(clock=Clock())
        story = begin(first).drive()
        story.turn()
        story.decision("a", "topic")
        story.turn_end()
        seen = _everything(first, story.session)
        first.close()
        second = make_store()
        try:
            assert _everything(second, story.session) == seen
        finally:
            second.close()

    def test_closing_releases_the_lease(
        self, make_store: MakeStore, capabilities: Capabilities
    ) -> None:
        """The next driver can then acquire it without taking it over."""
        skip_unless_durable(capabilities)
        first = make_store(clock=Clock())
        story = begin(first).drive()
        first.close()
        second = make_store()
        try:
            assert Story(second, story.drafts).drive().turn().turn == 1
        finally:
            second.close()

    def test_two_open_stores_see_each_others_appends_immediately(
        self, make_store: MakeStore, capabilities: Capabilities
    ) -> None:
        """An append through one is in the next answer of the other."""
        skip_unless_durable(capabilities)
        one, other = make_store(clock=Clock()), make_store(clock=Clock())
        try:
            story = begin(one)
            guest = Story(other, Drafts(Ids("guest"), story.session))
            for n in range(5):
                mine, theirs = story.fact(f"a{n}"), guest.fact(f"b{n}")
                assert theirs.seq == mine.seq + 1
                assert len(one.entries(story.session, "facts")) == 2 * n + 2
        finally:
            one.close()
            other.close()

    def test_a_closed_store_refuses_every_request(self, make_store: MakeStore) -> None:
        """Closing twice is harmless; any other method is an error."""
        store = make_store(clock=Clock())
        story = begin(store)
        store.close()
        store.close()
        with pytest.raises(Exception, match="closed"):
            store.session(story.session)

    def test_sync_usage_and_info_change_nothing(self, store: StorePort) -> None:
        """They only read."""
        story = begin(store)
        before = story.log
        store.sync()
        assert store.info().id
        assert all(size >= 0 for size in store.usage().values())
        assert story.log == before


def _everything(store: StorePort, session: str) -> tuple[list[Commit], object, object, object]:
    return (
        store.commits(session),
        store.entries(session, "decisions"),
        store.turns(session),
        store.head(session),
    )


EVERY_BYTE = bytes(range(256)) * 5
LARGE = b"".join(n.to_bytes(3, "big") for n in range(40_000))
TOKEN = b"ghp_" + b"a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"


def with_data(story: Story, **data: bytes) -> int:
    draft = story.drafts.make("entry", output="kept", data=data)
    return story.add(draft).seq


class TestData:
    def test_bytes_come_back_as_they_were_given(self, story: Story) -> None:
        story.turn()
        seq = with_data(story, state=EVERY_BYTE, large=LARGE, none=b"")
        found = story.log[seq - 1]
        assert found.data_names == ["large", "none", "state"]
        assert (found.bytes("state"), found.bytes("large")) == (EVERY_BYTE, LARGE)
        assert (found.bytes("none"), found.bytes("other")) == (b"", None)
        assert found.content[DATA + "state"] == EVERY_BYTE

    def test_a_secret_in_bytes_that_are_text_is_replaced(self, story: Story) -> None:
        story.turn()
        seq = with_data(story, env=b"TOKEN=" + TOKEN + b"\n")
        found = story.log[seq - 1].bytes("env")
        assert found is not None
        assert TOKEN not in found
        assert found.startswith(b"TOKEN=")

    def test_bytes_that_are_no_text_stay_as_they_are(self, story: Story) -> None:
        """Whatever is in them: with another length, a frame around it could not be read again."""
        story.turn()
        seq = with_data(story, frame=b"\x82\xa5token\xd9\x28" + TOKEN + b"\xa4step\x07")
        found = story.log[seq - 1].bytes("frame")
        assert found == b"\x82\xa5token\xd9\x28" + TOKEN + b"\xa4step\x07"

    def test_bytes_are_erased_by_name(self, story: Story) -> None:
        story.turn()
        seq = with_data(story, one=EVERY_BYTE, two=LARGE)
        story.erase(seq, DATA + "two")
        found = story.log[seq - 1]
        assert found.bytes("one") == EVERY_BYTE
        with pytest.raises(Erased):
            found.bytes("two")

    def test_the_same_draft_again_is_the_same_commit(self, story: Story) -> None:
        story.turn()
        draft = story.drafts.make("entry", output="kept", data={"a": EVERY_BYTE})
        assert story.add(draft) == story.add(draft)

    def test_bytes_travel_with_their_commit(self, store: StorePort) -> None:
        with MemoryStore(clock=Clock()) as other:
            story = begin(other).drive()
            story.turn()
            with_data(story, a=EVERY_BYTE, b=LARGE)
            store.ingest(story.log)
            assert store.commits(story.session) == story.log
            assert store.packed(story.session) == other.packed(story.session)

    @pytest.mark.parametrize("data", [{"a b": b""}, {"": b""}, {"a": "text"}, {1: b""}, [b""]])
    def test_other_names_and_values_are_refused(self, story: Story, data: object) -> None:
        story.turn()
        with pytest.raises(InvalidInput):
            story.add(story.drafts.make("entry", output="x", data=data))
