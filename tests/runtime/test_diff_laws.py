"""The laws of a diff: it is a function of two states, whatever happened between them."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import stator
from runtime.conftest import memory_store
from runtime.support import Counted, raising, says
from stator.errors import BadDelta
from stator.model.log.fold import fold
from stator.model.records.tables import BOOKKEEPING
from stator.model.values.canon import encode
from stator.runtime.views import ranges

SEVERAL = settings(deadline=None, max_examples=30, suppress_health_check=list(HealthCheck))
PATHS = ["a.py", "b.py", "c.py"]
OPS = ["read", "created", "modified", "deleted", "skipped"]
VALUES = [True, 1, 1.0, False, 0, None, (1,), [1]]

changes = st.one_of(
    st.tuples(st.just("fact"), st.sampled_from("ab"), st.sampled_from(VALUES)),
    st.tuples(st.just("note"), st.sampled_from("ab"), st.sampled_from(VALUES)),
    st.tuples(st.just("set"), st.sampled_from("ab"), st.sampled_from(VALUES)),
    st.tuples(st.just("decide"), st.sampled_from(["", "auth", "db"]), st.sampled_from("xy")),
    st.tuples(st.just("supersede"), st.sampled_from(["", "auth", "db"]), st.integers(0, 9)),
    st.tuples(st.just("plan"), st.sampled_from("ab"), st.sampled_from(["pending", "done"])),
    st.tuples(st.just("file"), st.sampled_from(PATHS), st.sampled_from(OPS)),
    st.tuples(st.just("rename"), st.sampled_from(PATHS), st.sampled_from(PATHS)),
    st.tuples(st.just("artifact"), st.sampled_from("ab"), st.integers(0, 2)),
    st.tuples(st.just("use"), st.just("app"), st.sampled_from("ab")),
    st.tuples(st.just("pend"), st.sampled_from("ab"), st.booleans()),
    st.tuples(st.just("call"), st.sampled_from("ab"), st.booleans()),
    st.tuples(st.just("erase"), st.sampled_from(["facts", "files", "decisions"]), st.integers(0, 9)),
    st.tuples(st.just("tag"), st.sampled_from("ab"), st.just(0)),
    st.tuples(st.just("flag"), st.sampled_from("ab"), st.just(0)),
)  # fmt: skip
turns = st.lists(changes, max_size=5)
acts = st.one_of(
    turns,
    turns,
    st.tuples(st.just("rewind"), st.integers(0, 200)),
    st.tuples(st.just("fork"), st.integers(0, 200)),
    st.tuples(st.just("compact"), st.booleans()),
)
stories = st.lists(acts, min_size=1, max_size=8)
kinds = st.sampled_from(["memory", "file"])
reading = st.sampled_from([ranges.SMALL_RANGE, 3])
"""How many commits are still a short way: past that, records are found by the index of versions."""


def record(s: Any, t: Any, kind: str, a: Any, b: Any) -> None:
    if kind == "decide":
        t.decide(b, topic=a)
    elif kind == "supersede":
        live = s.entries("decisions")
        t.decide("another", topic=a, supersedes=live[b % len(live)].id if live else "")
    elif kind == "rename":
        t.file(b, "renamed", from_path=a)
    elif kind == "set":
        t.set(**{a: b})
    elif kind == "file":
        t.file(a, b, after="" if b == "deleted" else a)
    elif kind == "call":
        tool = Counted(raising(stator.InDoubt("?")), name=a) if b else Counted(name=a)
        t.try_call(tool.tool())
    elif kind == "pend":
        if not b or any(entry.key == a for entry in s.entries("pending")):
            t.pend(a, done=b)
    elif kind == "erase":
        entries = s.entries(a)
        if entries:
            with contextlib.suppress(BadDelta):  # what another session wrote is erased there
                s.erase(record=(a, entries[b % len(entries)].id))
    elif kind in ("tag", "flag"):
        getattr(s, kind)(a)
    else:
        getattr(t, kind)(a, b)


def tell(store: Any, story: list[Any]) -> list[str]:
    """Perform random turns, rewinds, compactions and forks; return the sessions there are."""
    names = ["main"]
    for act in story:
        with store.open(names[-1]) as s:
            if isinstance(act, list):
                with s.turn("go") as t:
                    for change in act:
                        record(s, t, *change)
                    t.reply(says(text="done"))
            elif act[0] == "compact":
                if act[1] or not s.evicted():
                    strategy = ("mask", "summarise")
                    s.compact(keep=1, strategy=strategy, summary="short", scratch=True)
                else:
                    s.undo_compaction()
            elif act[0] == "rewind" and (target := act[1] % (s.head.seq + 1)) != s.head.seq:
                s.rewind(f"@{target}")
        if act[0:1] == ("fork",):
            at = 1 + act[1] % store.read(names[-1]).head.seq
            names.append(store.fork(names[-1], f"@{at}", as_name=f"fork-{len(names)}").name)
    return names


@contextlib.contextmanager
def opened(kind: str, small: int) -> Iterator[Any]:
    """A store of a kind; ways of over `small` commits count as long."""
    known = ranges.SMALL_RANGE
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        store = memory_store() if kind == "memory" else stator.connect(Path(folder) / "a.db")
        ranges.SMALL_RANGE = small
        try:
            with store:
                yield store
        finally:
            ranges.SMALL_RANGE = known


@SEVERAL
@given(stories, kinds, reading, st.lists(st.tuples(*[st.integers(0, 999)] * 4), max_size=6))
def test_a_diff_applied_to_the_state_at_its_start_gives_the_state_at_its_end(
    story, kind, small, wanted
):
    with opened(kind, small) as store:
        names = tell(store, story)
        with store.open("stranger") as s, s.turn("go") as t:
            t.fact("a", 1)
            t.file("a.py", "modified", after="1")
        views = [store.read(name) for name in (*names, "stranger")]
        for one, other, low, high in [(0, -2, 0, 999), (0, -1, 999, 999), *wanted]:
            a, b = views[one % len(views)], views[other % len(views)]
            start = f"{a.id}:@{low % (a.head.seq + 1)}"
            end = f"{b.id}:@{high % (b.head.seq + 1)}"
            found = a.diff(start, end)
            before, after = a.state(start), a.state(end)
            assert encode(found.apply(before)) == encode(after)
            assert encode(fold([found.delta], before)) == encode(after)


@SEVERAL
@given(stories, kinds, st.integers(0, 999), st.integers(0, 999))
def test_a_diff_lists_the_same_whether_the_way_is_short_or_long(story, kind, low, high):
    with opened(kind, ranges.SMALL_RANGE) as store:
        view = store.read(tell(store, story)[-1])
        ends = [f"@{seq % (view.head.seq + 1)}" for seq in (low, high)]
        short = view.diff(*ends)
        ranges.SMALL_RANGE = 0
        long = view.diff(*ends)
    assert sorted(map(shown, short.items)) == sorted(map(shown, long.items))
    assert (short.transient, short.unchanged, short.read) == (
        long.transient,
        long.unchanged,
        long.read,
    )


def shown(item: Any) -> str:
    """An item as a text. What commits keep up to date by themselves is not looked for commit by commit."""
    if item.collection in BOOKKEEPING:
        item = msgspec.structs.replace(item, seq=0, turn=0, why="")
    return repr(item)


@SEVERAL
@given(stories, kinds)
def test_lists_and_counts_say_what_the_state_holds(story, kind):
    with opened(kind, ranges.SMALL_RANGE) as store:
        for name in tell(store, story):
            view = store.read(name)
            state = view.state()
            assert view.counts.live == {k: len(v) for k, v in state.items() if v}
            assert {line.id for line in view.decisions(standing=True)} == set(state["decisions"])
            listed = {file.path for file in view.files(reads=True) if file.op != "deleted"}
            known = {
                path
                for record in state["files"].values()
                if (path := getattr(record, "path", "")) and record.op != "deleted"
            }
            assert known <= listed
            assert listed - known <= set(PATHS if any_erased(view) else ())


def any_erased(view: Any) -> bool:
    return any(commit.kind == "erasure" for commit in view.log())


def test_a_diff_of_records_that_are_too_large_for_the_log_gives_their_states(store):
    with store.open("main") as s:
        for text in ("a" * 300_000, "b" * 300_000, "c"):
            with s.turn("go") as t:
                t.fact("n", text)
        for start, end in (("t0", "t1"), ("t1", "t2"), ("t2", "t3"), ("t3", "t1")):
            made = s.diff(start, end).apply(s.state(start))
            assert encode(made) == encode(s.state(end))
