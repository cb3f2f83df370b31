"""State: the fold of the log, at any seq."""

from __future__ import annotations

from typing import Any

import pytest

from stator.errors import BadDelta, StatorError
from stator.model.log.commit import Remove, Reset, Upsert
from stator.model.log.delta import Drop, Put
from stator.model.log.fold import fold
from stator.model.records.tables import COLLECTIONS
from stator.model.records.types import (
    DecisionRecord,
    FactRecord,
    FileRecord,
    ScratchRecord,
    ToolRecord,
)
from stator.store.contract.drive import Story, find, large_text


class TestState:
    def test_entries_equal_the_folded_log_at_every_seq(self, story: Story) -> None:
        """For every collection."""
        busy(story)
        log = story.log
        for at in range(len(log) + 1):
            state = fold(commit.delta for commit in log[:at])
            for name in COLLECTIONS:
                entries = story.store.entries(story.session, name, at=at)
                assert {entry.id: entry.record for entry in entries} == state[name]

    def test_entries_are_listed_last_changed_first(self, story: Story) -> None:
        """Changing a record moves it to the front."""
        for name in "abca":
            story.fact(name)
        keys = [entry.key for entry in story.store.entries(story.session, "facts")]
        assert keys == ["a", "c", "b"]

    def test_a_limit_returns_the_newest_entries(self, story: Story) -> None:
        """It returns no more than the limit."""
        for name in "abc":
            story.fact(name)
        entries = story.store.entries(story.session, "facts", limit=2)
        assert [entry.key for entry in entries] == ["c", "b"]

    def test_an_entry_names_the_seq_and_turn_that_changed_it_last(self, story: Story) -> None:
        """The entry also has its key."""
        story.turn()
        commit = story.fact("a")
        (entry,) = story.store.entries(story.session, "facts")
        assert (entry.seq, entry.turn, entry.key) == (commit.seq, 1, "a")

    def test_a_record_is_found_by_its_key_at_any_seq(self, story: Story) -> None:
        """With its value at that seq; None before it was put and after it was dropped."""
        one, two = story.fact("a", 1), story.fact("a", 2)
        gone = story.add(story.drafts.forget("a"))

        def value(at: int | None) -> object:
            entry = find(story.store, story.session, "facts", "a", at=at)
            return entry and getattr(entry.record, "value", None)

        assert [value(at) for at in (one.seq - 1, one.seq, two.seq, gone.seq, None)] == [
            None, 1, 2, None, None,
        ]  # fmt: skip

    def test_a_large_record_is_whole_at_every_seq(self, story: Story) -> None:
        """Also after another version replaced it, and when the indexes hold both."""
        large, small = story.fact("a", large_text()), story.fact("a", 2)

        def values() -> list[object]:
            entries = [
                story.store.entries(story.session, "facts", at=at)[0] for at in (large.seq, None)
            ]
            return [getattr(entry.record, "value", None) for entry in entries]

        assert values() == [large_text(), 2]
        story.store.rebuild()
        assert values() == [large_text(), 2]
        (version,) = story.store.versions(story.session, after=large.seq - 1, upto=large.seq)
        assert version.op == large.delta[0] != small.delta[0]

    def test_keys_of_two_fields_and_keyless_records_are_found(self, story: Story) -> None:
        """A file under another root, a decision without a topic, a call, a tool."""
        story.file("a.py", root="/other")
        untopical = story.decision("something").delta[0].id
        call = story.call("sh")
        story.outcome(call)
        store, session = story.store, story.session
        assert find(store, session, "files", "/other\na.py") is not None
        assert find(store, session, "files", "a.py") is None
        assert find(store, session, "decisions", "#" + untopical) is not None
        assert find(store, session, "calls", call.call) is None
        assert find(store, session, "tools", "sh") is not None
        assert find(store, session, "session", "") is not None

    def test_several_collections_are_read_in_one_answer(self, story: Story) -> None:
        """Those of one collection together, in the order asked, each as if it was asked alone."""
        busy(story)
        store, session = story.store, story.session
        names = [*COLLECTIONS][::-1]
        for at in (None, len(story.log) // 2):
            alone = [entry for name in names for entry in store.entries(session, name, at=at)]
            assert store.entries(session, *names, at=at) == alone
        alone = [entry for name in COLLECTIONS for entry in store.entries(session, name)]
        assert store.entries(session) == alone

    def test_a_limit_holds_for_each_collection(self, story: Story) -> None:
        """One number for all, or one for each that is named."""
        for name in "abc":
            story.fact(name)
            story.file(f"{name}.py")

        def keys(limit: int | dict[str, int]) -> list[str]:
            found = story.store.entries(story.session, "files", "facts", limit=limit)
            return [entry.key for entry in found]

        assert keys(1) == ["c.py", "c"]
        assert keys({"files": 2}) == ["c.py", "b.py", "c", "b", "a"]
        assert keys({"files": 1, "facts": 2}) == ["c.py", "c", "b"]
        with pytest.raises(StatorError):
            keys({"facts": 0})

    def test_a_set_of_keys_returns_the_record_under_each(self, story: Story) -> None:
        """Last touched first, at any seq; keys without a record are left out."""
        for name in "abcab":
            story.fact(name)
        then = story.log[-1].seq
        story.add(story.drafts.forget("b"))
        story.file("a")

        def keys(*wanted: str, **options: Any) -> list[str]:
            found = story.store.entries(story.session, "facts", keys=wanted, **options)
            return [entry.key for entry in found]

        assert keys("a", "b", "c", "d") == ["a", "c"]
        assert keys("a", "b", "c", "d", at=then) == ["b", "a", "c"]
        assert keys("c", "a", "b", at=then - 1) == ["a", "c", "b"]
        assert keys("a", "c", limit=1) == ["a"]
        both = story.store.entries(story.session, "files", "facts", keys=["a", "c"])
        assert [(entry.collection, entry.key) for entry in both] == [
            ("files", "a"), ("facts", "a"), ("facts", "c"),
        ]  # fmt: skip

    def test_a_fork_finds_keys_of_its_own_and_of_its_lineage(self, story: Story) -> None:
        """What it dropped is gone for it, and what the parent did after the fork is not there."""
        for name in "abcd":
            story.fact(name)
        fork = story.fork("fork").drive()
        story.fact("late")
        fork.fact("c", "its own")
        fork.add(fork.drafts.forget("b"))
        for _ in range(2):
            found = story.store.entries(
                fork.session, "facts", keys=["a", "b", "c", "d", "late", "none"]
            )
            assert [entry.key for entry in found] == ["c", "d", "a"]
            story.store.rebuild()

    def test_a_prefix_chooses_by_the_beginning_of_natural_keys(self, story: Story) -> None:
        """Records without a natural key have none; a limit counts what was chosen."""
        for name in ("user/ann", "user/bob", "team", "#user"):
            story.fact(name)
        story.decision("something")
        story.decision("that", "user/topic")

        def keys(prefix: str, *names: str, **options: Any) -> list[str]:
            found = story.store.entries(story.session, *names, prefix=prefix, **options)
            return [entry.key for entry in found]

        assert keys("user/", "facts") == ["user/bob", "user/ann"]
        assert keys("user/", "facts", limit=1) == ["user/bob"]
        assert keys("user/", "facts", "decisions") == ["user/bob", "user/ann", "user/topic"]
        assert keys("user/a", "facts", keys=["user/ann", "user/bob", "team"]) == ["user/ann"]
        assert keys("#", "facts", "decisions") == ["#user"]
        assert keys("x", "facts") == []

    def test_an_unknown_collection_is_refused(self, story: Story) -> None:
        """The error is typed."""
        with pytest.raises(StatorError):
            story.store.entries(story.session, "facts", "nonsense")
        with pytest.raises(StatorError):
            story.store.versions(story.session, after=0, upto=9, collections=["nonsense"])

    def test_a_decision_supersedes_the_one_on_its_topic(self, story: Story) -> None:
        """Only the new one is live, and it names the one it replaced."""
        old = story.decision("sessions", "auth").delta[0].id
        story.decision("JWT", "auth")
        (entry,) = story.store.entries(story.session, "decisions")
        assert entry.record == DecisionRecord(what="JWT", topic="auth", supersedes=old)

    def test_a_renamed_file_is_deleted_at_its_old_path(self, story: Story) -> None:
        """The record at the new path has its digest."""
        story.file("a.py", "created", after="d1")
        story.file("b.py", "renamed", from_path="a.py", after="d1")
        records = {e.key: e.record for e in story.store.entries(story.session, "files")}
        old, new = records["a.py"], records["b.py"]
        assert isinstance(old, FileRecord)
        assert isinstance(new, FileRecord)
        assert (old.op, new.op, new.before) == ("deleted", "renamed", "d1")

    def test_a_decision_supersedes_the_one_it_names(self, story: Story) -> None:
        """Whatever topic either has; the one on its own topic is superseded, too."""
        story.decision("named", "db")
        story.decision("on the topic", "auth")
        old = find(story.store, story.session, "decisions", "db")
        assert old is not None
        record = DecisionRecord(what="new", topic="auth", supersedes=old.id)
        story.add(story.drafts.make("decision", Upsert("decisions", record)))
        (entry,) = story.store.entries(story.session, "decisions")
        assert (entry.key, entry.record) == ("auth", record)

    def test_a_decision_cannot_supersede_one_that_is_not_in_force(self, story: Story) -> None:
        """Nothing is written."""
        story.decision("one", "db")
        head = story.store.head(story.session)
        record = DecisionRecord(what="new", supersedes="0123456789abcdef")
        with pytest.raises(BadDelta, match="is in force"):
            story.add(story.drafts.make("decision", Upsert("decisions", record)))
        assert story.store.head(story.session) == head

    def test_a_rename_leaves_the_old_path_deleted(self, story: Story) -> None:
        """Also a path that was never recorded; the file keeps the id it has under its new path."""
        story.add(story.drafts.file("b.py", "created", after="2"))
        old = find(story.store, story.session, "files", "b.py")
        story.add(story.drafts.file("b.py", "renamed", from_path="a.py", after="1"))
        found = story.store.entries(story.session, "files")
        ops = {entry.key: getattr(entry.record, "op", "") for entry in found}
        assert ops == {"a.py": "deleted", "b.py": "renamed"}
        assert old is not None
        assert old.id in {entry.id for entry in found if entry.key == "b.py"}

    def test_what_a_compaction_puts_back_is_not_tagged_again(self, story: Story) -> None:
        """The record is the one that was recorded, byte for byte."""
        note = ScratchRecord(name="n", value={"$f": "1.5"})
        change = Reset("scratch", "", "n", note)
        story.add(story.drafts.make("compaction", change, status="undone", inputs=(1, 0)))
        (entry,) = story.store.entries(story.session, "scratch")
        assert entry.record == note

    def test_a_tool_counts_its_uses_and_failures(self, story: Story) -> None:
        """An unknown outcome counts as a failure."""
        for fields in ({"status": "ok"}, {"status": "error"}):
            story.outcome(story.call("sh"), **fields)
        story.in_doubt(story.call("sh"))
        entry = find(story.store, story.session, "tools", "sh")
        assert entry is not None
        assert entry.record == ToolRecord(name="sh", uses=3, failures=2, last="in doubt")

    def test_versions_are_every_op_in_log_order(self, story: Story) -> None:
        """Of the whole log or a range, of some collections or all."""
        busy(story)
        log = story.log
        ops = [(c.seq, n, op) for c in log for n, op in enumerate(c.delta)]
        found = story.store.versions(story.session, after=0, upto=len(log))
        assert [(v.seq, v.n, v.op) for v in found] == ops
        part = story.store.versions(story.session, after=3, upto=9, collections=["facts", "calls"])
        assert [(v.seq, v.n, v.op) for v in part] == [
            (seq, n, op)
            for seq, n, op in ops
            if 3 < seq <= 9 and op.collection in ("facts", "calls")
        ]

    def test_a_dropped_version_keeps_its_key(self, story: Story) -> None:
        """Also of a call, whose key is its id, and within one commit."""
        story.fact("a")
        story.add(story.drafts.forget("a"))
        call = story.call("sh")
        story.outcome(call)
        both = (Upsert("facts", FactRecord(name="b")), Remove("facts", "b"))
        last = story.add(story.drafts.make("fact", *both))
        found = story.store.versions(story.session, after=0, upto=last.seq)
        assert [v.key for v in found if isinstance(v.op, Drop)] == ["a", call.call, "b"]
        assert [v.key for v in found if isinstance(v.op, Put) and v.seq == last.seq] == ["b"]

    def test_the_version_that_an_op_replaced_can_be_read(self, story: Story) -> None:
        """Before and after indexing, and across a fork point; None if nothing was replaced."""
        busy(story)
        fork = story.fork("fork", len(story.log) - 2)
        fork.fact("n", 5)
        fork.decision("another choice", "topic")
        for told in (story, fork):
            found = told.store.versions(told.session, after=0, upto=len(told.log))
            last = {(v.op.collection, v.op.id, v.seq): v for v in found}
            right = [last.get((v.op.collection, v.op.id, v.op.was)) for v in found]
            assert any(right)
            assert None in right
            ops = [version.op for version in found]
            assert told.store.replaced(told.session, ops) == right
            told.store.rebuild()
            assert told.store.replaced(told.session, ops) == right
        assert story.store.replaced(story.session, []) == []

    def test_touches_list_the_commits_that_changed_a_key(self, story: Story) -> None:
        """Newest first: in a session and its lineage, in a project, or in the store."""
        first, second = story.file("a.py"), story.file("a.py")
        fork = story.fork("fork")
        third = fork.file("a.py", "deleted")
        story.file("b.py")
        store = story.store
        line = [(t.session, t.seq) for t in store.touches("files", "a.py", session=fork.session)]
        assert line == [
            (fork.session, third.seq), (story.session, second.seq), (story.session, first.seq),
        ]  # fmt: skip
        assert [(t.session, t.seq) for t in store.touches("files", "a.py")] == line
        assert store.touches("files", "a.py", project="elsewhere") == []
        assert len(store.touches("files", "a.py", session=story.session)) == 2
        assert len(store.touches("files", "a.py", limit=1)) == 1

    def test_touches_of_one_project_are_found_among_many_others(self, story: Story) -> None:
        """The limit counts only touches of that project."""
        from stator.store.contract.drive import begin

        mine = begin(story.store, "mine", project="p")
        mine.file("a.py")
        other = begin(story.store, "other")
        for _ in range(5):
            other.file("a.py")
        found = story.store.touches("files", "a.py", project="p", limit=2)
        assert [touch.session for touch in found] == [mine.session]


def busy(story: Story) -> None:
    """A turn with many kinds of commits."""
    story.turn("fix it")
    for n in range(4):
        call = story.call("read_file", {"path": f"{n}.py"}, effect="read")
        story.outcome(call, "text", usage={"tokens": n})
        story.file(f"{n % 2}.py", "read" if n < 2 else "modified", after=f"d{n}")
        story.decision(f"choice {n}", "topic" if n % 2 else "")
        story.fact("n", n)
    story.file("9.py", "renamed", from_path="1.py")
    story.in_doubt(story.call("pay"))
    story.add(story.drafts.forget("n"))
    story.add(story.drafts.plan("test", "done"))
    story.turn_end()
