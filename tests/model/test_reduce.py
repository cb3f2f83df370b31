"""The reducer for rewinds, adoptions, purges and captured files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from stator.errors import BadDelta, InvalidInput
from stator.model.log.commit import (
    Draft,
    Purge,
    Remove,
    Reset,
    Upsert,
)
from stator.model.log.delta import Drop, Put
from stator.model.log.reduce import reduce
from stator.model.records.tables import COLLECTIONS, KEPT_IN_REWIND, key_of
from stator.model.records.types import (
    DecisionRecord,
    Entry,
    FileRecord,
    FlagRecord,
    PlanRecord,
    Record,
    SessionRecord,
)

COMMIT = "k_" + "1" * 32
SESSION = "s_" + "2" * 32
OTHER = "s_" + "3" * 32


class Standing:
    """The state a draft is applied to: records put at seqs 1, 2, …"""

    def __init__(self, **records: Record) -> None:
        self.entries: list[Entry] = []
        for seq, (name, record) in enumerate(records.items(), 1):
            collection = COLLECTIONS[name.rstrip("0123456789")]
            key = key_of(collection, record, f"r{seq}")
            self.entries.append(Entry(collection.name, f"r{seq}", key, seq, 0, record))

    def find(self, collection: str, key: str) -> Entry | None:
        found = [e for e in self.entries if (e.collection, e.key) == (collection, key)]
        return found[-1] if found else None

    def all(self, collection: str) -> Sequence[Entry]:
        return [entry for entry in self.entries if entry.collection == collection]


def draft(kind: str, *changes: object) -> Draft:
    return Draft(id=COMMIT, session=SESSION, kind=kind, changes=changes)  # type: ignore[arg-type]


def puts(met: Standing, wished: Draft) -> list[Any]:
    """The records a draft puts."""
    return [op.record for op in reduce(wished, met)[0] if isinstance(op, Put)]


class TestRewind:
    def test_a_reset_restores_a_record_under_its_own_id(self):
        old = DecisionRecord(what="use sessions", topic="auth")
        met = Standing(decisions=DecisionRecord(what="use JWT", topic="auth"))
        resets = [Reset("decisions", "r1", "auth"), Reset("decisions", "old", "auth", old)]
        ops, _ = reduce(draft("rewind", *resets), met)
        assert ops == [Drop("decisions", "r1", 1), Put("decisions", "old", old, 0)]

    def test_a_reset_replaces_the_current_record_without_merging(self):
        """A plan step that gained its evidence later loses it again."""
        before = PlanRecord(step="deploy")
        met = Standing(plan=PlanRecord(step="deploy", status="done", evidence="green", order=4))
        ops, _ = reduce(draft("rewind", Reset("plan", "r1", "deploy", before)), met)
        assert ops == [Put("plan", "r1", before, 1)]

    def test_a_reset_that_drops_a_missing_record_is_an_error(self):
        with pytest.raises(BadDelta):
            reduce(draft("rewind", Reset("plan", "r1", "deploy")), Standing())

    @pytest.mark.parametrize("collection", sorted(KEPT_IN_REWIND))
    def test_a_reset_of_a_history_or_spending_collection_is_refused(self, collection):
        with pytest.raises(InvalidInput, match="cannot reset"):
            reduce(draft("rewind", Reset(collection, "r1", "x")), Standing())

    def test_a_rewind_with_any_other_change_is_refused(self):
        with pytest.raises(InvalidInput, match="may only reset records"):
            reduce(draft("rewind", Remove("plan", "deploy")), Standing())

    @pytest.mark.parametrize("kind", ["plan", "file", "turn_end"])
    def test_a_reset_in_any_other_commit_is_refused(self, kind):
        with pytest.raises(InvalidInput, match="only a rewind"):
            reduce(draft(kind, Reset("plan", "r1", "deploy")), Standing())


class TestAdopt:
    def test_an_adoption_changes_only_the_adopted_session(self):
        known = SessionRecord(id=SESSION, name="fix", labels={"a": "b"})
        brought = SessionRecord(id=SESSION, name="another", adopted=OTHER)
        (record,) = puts(Standing(session=known), draft("adopt", Upsert("session", brought)))
        assert record == SessionRecord(id=SESSION, name="fix", labels={"a": "b"}, adopted=OTHER)

    def test_an_adoption_without_an_adopted_session_is_refused(self):
        known = SessionRecord(id=SESSION, name="fix")
        with pytest.raises(InvalidInput, match="nothing else"):
            reduce(draft("adopt"), Standing(session=known))


class TestPurge:
    def test_a_purge_in_the_project_session_leaves_a_flag(self):
        own = SessionRecord(id=SESSION, name="(project)", mode="project")
        mark = FlagRecord(name="purged", on=OTHER)
        wish = draft("purge", Purge(OTHER), Upsert("flags", mark))
        assert puts(Standing(session=own), wish) == [mark]

    def test_a_purge_outside_the_project_session_is_refused(self):
        own = SessionRecord(id=SESSION, name="fix")
        with pytest.raises(InvalidInput, match="project's own session"):
            reduce(draft("purge", Purge(OTHER)), Standing(session=own))


class TestKeptFiles:
    def test_captured_content_is_referenced_again_by_its_digest(self):
        met = Standing(files=FileRecord(path="a.py", op="created", after="11", after_in="k_1"))
        wish = FileRecord(path="a.py", op="modified", before="11", after="22", after_in="k_2")
        (record,) = puts(met, draft("file", Upsert("files", wish)))
        assert (record.before_in, record.after_in) == ("k_1", "k_2")

    def test_content_with_another_digest_has_no_reference(self):
        met = Standing(files=FileRecord(path="a.py", op="created", after="11", after_in="k_1"))
        wish = FileRecord(path="a.py", op="modified", before="33", after="22")
        (record,) = puts(met, draft("file", Upsert("files", wish)))
        assert (record.before_in, record.after_in) == ("", "")

    def test_restored_content_references_the_original_capture(self):
        met = Standing(
            files=FileRecord(
                path="a.py", op="modified", before="11", before_in="k_1", after="22", after_in="k_2"
            )
        )
        wish = FileRecord(path="a.py", op="modified", before="22", after="11")
        (record,) = puts(met, draft("file", Upsert("files", wish)))
        assert (record.before_in, record.after_in) == ("k_2", "k_1")

    def test_a_renamed_file_keeps_its_captured_content_at_both_paths(self):
        met = Standing(files=FileRecord(path="a.py", op="created", after="11", after_in="k_1"))
        wish = FileRecord(path="b.py", op="renamed", from_path="a.py", after="11")
        gone, there = puts(met, draft("file", Upsert("files", wish)))
        assert (gone.before_in, gone.after_in) == ("k_1", "")
        assert there.after_in == "k_1"
