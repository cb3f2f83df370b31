"""Laws of bundles over random logs: an import changes nothing, and diverged sessions lose nothing."""

from __future__ import annotations

import contextlib
import secrets
import tempfile
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import msgspec
from hypothesis import given, settings

from stator.connect import mint
from stator.errors import StatorError
from stator.model.exchange.packed import pack
from stator.model.log.commit import Commit, Upsert
from stator.model.records.tables import COLLECTIONS
from stator.model.records.types import (
    ErasedRecord,
    EvictedRecord,
    FlagRecord,
    ScoreRecord,
    TagRecord,
)
from stator.runtime.base.context import Context
from stator.runtime.bundles import transfer
from stator.runtime.views.verify import verify
from stator.store.contract.drive import Clock, Drafts, Ids, Story, begin
from stator.store.memory import MemoryStore
from stator.store.sqlite import SqliteStore, create

ACTIONS = st.sampled_from(
    "turn turn_end fact forget decision file plan call outcome doubt settle erase tag score "
    "evict asked compaction pause".split()
)
LOGS = st.lists(st.tuples(ACTIONS, st.integers(0, 5)), max_size=14)
POINTS = ("tags", "scores", "flags", "evicted", "session")
"""Collections whose records name commits, or the session itself."""


def context() -> Context:
    return Context(
        clock=Clock(), mint=mint, secret=secrets.token_bytes, principal="local:test", project="p"
    )


def act(story: Story, action: str, n: int) -> None:
    """Append one commit of that kind, if the session accepts it now."""
    log, drafts = story.log, story.drafts
    with contextlib.suppress(StatorError, IndexError):
        {
            "turn": lambda: story.turn(f"prompt {n}"),
            "turn_end": lambda: story.turn_end(),
            "fact": lambda: story.fact(f"f{n}", {"n": n, "of": len(log)}),
            "forget": lambda: story.add(drafts.forget(f"f{n}")),
            "decision": lambda: story.decision(f"d{len(log)}", f"topic {n % 3}"),
            "file": lambda: story.file(f"src/{n}.py"),
            "plan": lambda: story.add(drafts.plan(f"step {n}", "done")),
            "call": lambda: story.call("tool", {"n": n}),
            "outcome": lambda: story.outcome(_open(story)[n]),
            "doubt": lambda: story.in_doubt(_open(story)[n]),
            "settle": lambda: story.settle(_open(story)[n]),
            "erase": lambda: _erase(story, log[-1 - n]),
            "tag": lambda: _put(story, "tag", "tags", _tag(log[-1 - n], n)),
            "score": lambda: _put(
                story, "score", "scores", ScoreRecord(name="s", value=n, on=f"@{log[-1 - n].seq}")
            ),
            "evict": lambda: _put(
                story, "flag", "evicted", EvictedRecord(key=f"f{n}", seq=log[-1 - n].seq)
            ),
            "asked": lambda: story.call("tool", n, origin=("model", f"{log[-1 - n].seq}/0/x{n}")),
            "compaction": lambda: story.add(
                drafts.make("compaction", input={"outputs": log[-1 - n].seq, "kept": {"n": n}})
            ),
            "pause": lambda: _put(
                story, "flag", "flags", FlagRecord(name="f", on=f"@{log[-1].seq}")
            ),
        }[action]()


def _open(story: Story) -> list[Any]:
    entries = story.store.entries(story.session, "calls")
    return [c for e in entries for c in story.log if c.kind == "call" and c.call == e.key]


def _erase(story: Story, commit: Commit) -> None:
    if commit.kind not in ("open", "fork"):  # a session without its own record cannot be exported
        story.erase(commit.seq)


def _tag(commit: Commit, n: int) -> TagRecord:
    return TagRecord(name=f"tag {n}", seq=commit.seq, hash=commit.hash)


def _put(story: Story, kind: str, collection: str, record: Any) -> None:
    story.add(story.drafts.make(kind, Upsert(collection, record)))


def taken_up(store: Any, story: Story, seed: str) -> Story:
    """The same session in another store, driven there by another process."""
    return Story(store, Drafts(Ids(seed), story.session)).drive()


def state(store: Any, session: str) -> dict[str, dict[str, Any]]:
    """Every record by its id, without those that name commits; erased ones are shown as erased.

    Of calls only which are open: a fork's first commit holds its own copy of those it inherits.
    """
    return {
        name: {
            entry.id: "gone"
            if isinstance(entry.record, ErasedRecord) or name == "calls"
            else entry.record
            for entry in store.entries(session, name)
        }
        for name in COLLECTIONS
        if name not in POINTS
    }


@settings(max_examples=20, deadline=None)
@given(before=LOGS, here=LOGS, there=LOGS, later=LOGS)
def test_a_diverged_session_is_imported_without_loss(before, here, there, later):
    with tempfile.TemporaryDirectory() as folder, MemoryStore(clock=Clock()) as other:
        create(f"{folder}/here.db")
        with SqliteStore(f"{folder}/here.db", durability="relaxed", clock=Clock()) as store:
            file = str(Path(folder, "x.stator"))
            story = begin(store, "story", project="p").drive()
            for action in before:
                act(story, *action)
            transfer.export(store, context(), [story.session], file)
            transfer.import_bundle(other, context(), file)
            theirs = taken_up(other, story, "there")
            kept = [one for one in here if one[0] != "erase"]  # locally erased content stays erased
            for actions, one in ((kept, story), (there, theirs)):
                for action in actions:
                    act(one, *action)
            story.fact("ours")
            for more in ((), later):
                for action in more:
                    act(theirs, *action)
                transfer.export(other, context(), [story.session], file, replace=True)
                found = transfer.import_bundle(store, context(), file, erasures="apply")
                (brought,) = found.sessions
                assert list(verify(store)) == []
                assert state(store, brought.into) == state(other, story.session)
                _check_pointers(store, brought.into)


def _check_pointers(store: Any, session: str) -> None:
    """Check that every reference to a commit names an existing commit with the same meaning."""
    log = {commit.seq: commit for commit in store.commits(session)}
    for entry in store.entries(session, "tags"):
        if isinstance(entry.record, TagRecord):
            assert log[entry.record.seq].hash == entry.record.hash
    for commit in log.values():
        assert all(op.was < commit.seq for op in commit.delta)
        for op in commit.delta:
            if op.was:
                assert any(
                    (before.collection, before.id) == (op.collection, op.id)
                    for before in log[op.was].delta
                )


@settings(max_examples=20, deadline=None)
@given(actions=LOGS, forked=LOGS)
def test_an_exported_and_imported_session_is_the_same(actions, forked):
    with tempfile.TemporaryDirectory() as folder, MemoryStore(clock=Clock()) as source:
        create(f"{folder}/there.db")
        story = begin(source, "story", project="p").drive()
        for action in actions:
            act(story, *action)
        fork = story.fork("fork")
        for action in forked:
            act(fork, *action)
        with SqliteStore(f"{folder}/there.db", durability="relaxed") as target:
            file = f"{folder}/x.stator"
            transfer.export(source, context(), [story.session, fork.session], file)
            here = msgspec.structs.replace(context(), project="/elsewhere")
            transfer.import_bundle(target, here, file)
            for session in (story.session, fork.session):
                assert target.commits(session) == source.commits(session)
                assert target.packed(session) == source.packed(session)
                assert target.packed(session) == [pack(c) for c in source.commits(session)]
                assert target.head(session) == source.head(session)
                assert state(target, session) == state(source, session)
            assert list(verify(target)) == []
