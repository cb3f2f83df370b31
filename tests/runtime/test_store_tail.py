"""All commits of all sessions come in one stream that continues from its cursor, in any process."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections import defaultdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import stator
from stator.errors import BadPosition, BrokenChain
from stator.model.outlets import stream_cursor
from stator.model.outlets.stream_cursor import StreamPlace
from stator.runtime.tails import store_tail
from stator.runtime.tails.store_tail import StoreTail, StoreTailing
from stator.store.contract.drive import Ids, Story
from stator.store.contract.purge import purging, told
from stator.store.memory import MemoryStore


def read(store, cursor="", number=None, **options):
    """The next commits, and the cursor after them."""
    tail = StoreTail(StoreTailing(store, cursor, follow=False, **options))
    found = []
    for commit in tail:
        found.append(commit)
        if len(found) == number:
            break
    return found, tail.cursor


def names(commits):
    return [(commit.session, commit.seq) for commit in commits]


# -- the law --------------------------------------------------------------------------------------

ACTS = st.lists(
    st.tuples(
        st.sampled_from(
            [
                "open",
                "add",
                "add",
                "fork",
                "bundle",
                "erase",
                "purge",
                "back",
                "read",
                "read",
                "kill",
            ]
        ),
        st.integers(0, 7),
    ),
    max_size=40,
)


class History:
    """Random sessions of two stores, and a reader of one of them that stops and continues."""

    def __init__(self, project):
        self.here, self.there = MemoryStore(), MemoryStore()
        self.scope = project
        self.keeper = told(self.here, "(project)", mode="project", ids=Ids("keeper"))
        self.stories = {}
        self.removed = []
        self.begun = 0
        self.gone = set()
        self.cursor = ""
        self.taken = []
        """What was delivered and acknowledged, in order."""

    def act(self, act, number):
        stories = list(self.stories.values())
        chosen = stories[number % len(stories)] if stories else None
        if act == "open":
            project = "shop" if number % 3 else "other"
            self._keep(told(self.here, self._name(), ids=Ids(self._name()), project=project))
        elif act == "bundle":
            old = told(self.there, self._name(), ids=Ids(self._name()))
            for n in range(number):
                old.fact("x", n)
            self.here.ingest(old.log)
            self._keep(Story(self.here, old.drafts))
        elif act in ("read", "kill"):
            found, cursor = read(self.here, self.cursor, number, project=self.scope)
            if act == "read":
                self.cursor = cursor
                self.taken += found
        elif act == "back" and self.removed:
            commits, story = self.removed.pop(number % len(self.removed))
            self.here.ingest(commits)
            self._keep(story)
        elif chosen is not None:
            self._change(act, chosen, number)

    def _change(self, act, story, number):
        if act == "add":
            for n in range(number + 1):
                story.fact("x", n)
        elif act == "fork":
            self._keep(story.fork(self._name()))
        elif act == "erase" and (facts := [c for c in self._own(story) if c.kind == "fact"]):
            story.add(story.drafts.erase(facts[number % len(facts)].seq))
        elif act == "purge" and story.row.record.project == "shop" and not self._heirs(story):
            self.removed.append((self._own(story), story))
            self.keeper.add(purging(self.keeper, story.session))
            self.gone.add(story.session)
            del self.stories[story.session]

    def _name(self):
        self.begun += 1
        return f"n{self.begun}"

    def _keep(self, story):
        self.stories[story.session] = story

    def _heirs(self, story):
        lines = [
            *(other.row.record.lineage for other in self.stories.values()),
            *(commits[0].delta[0].record.lineage for commits, _ in self.removed),
        ]
        return any(part.session == story.session for line in lines for part in line)

    def _own(self, story):
        return [commit for commit in story.log if commit.session == story.session]

    def check(self):
        found, self.cursor = read(self.here, self.cursor, project=self.scope)
        self.taken += found
        runs: dict[str, list[list[int]]] = defaultdict(list)
        for commit in self.taken:
            if not runs[commit.session] or commit.kind in ("open", "fork"):
                runs[commit.session].append([])
                assert commit.kind in ("open", "fork"), "a session begins with its first commit"
            runs[commit.session][-1].append(commit.seq)
        for story in [*self.stories.values(), self.keeper]:
            if self.scope not in (None, story.row.record.project):
                assert story.session not in runs
                continue
            log = [commit.seq for commit in self._own(story)]
            assert runs[story.session][-1] == log
            if story.session not in self.gone:
                assert len(runs[story.session]) == 1, "delivered once"
        for earlier in (run for some in runs.values() for run in some):
            assert earlier == list(range(earlier[0], earlier[0] + len(earlier))), (
                "no gap, no double"
            )
        assert read(self.here, self.cursor, project=self.scope)[0] == []


@settings(max_examples=150)
@given(ACTS, st.sampled_from([None, "shop"]))
def test_a_reader_that_stops_and_continues_gets_the_whole_log_once_and_in_order(acts, project):
    history = History(project)
    for act, number in acts:
        history.act(act, number)
    history.check()


@given(st.integers(1, 5), st.integers(0, 12))
def test_what_a_fork_continues_is_delivered_before_the_fork(facts, cut):
    store = MemoryStore()
    parent = told(store, "parent", ids=Ids("zzz"))
    fork = parent.fork("fork")
    for n in range(facts):
        parent.fact("x", n)
    late = parent.fork("late")
    fork.fact("y", 1)
    first, cursor = read(store, "", cut)
    rest, _ = read(store, cursor)
    order = names(first + rest)
    point = late.row.record.lineage[-1].upto
    assert order.index((parent.session, point)) < order.index((late.session, point + 1))


# -- cursors --------------------------------------------------------------------------------------


@given(
    st.dictionaries(
        st.binary(min_size=8, max_size=8),
        st.builds(StreamPlace, st.integers(1, 2**40), st.binary(min_size=4, max_size=4)),
    )
)
def test_a_cursor_gives_back_the_places_it_was_made_of(places):
    assert stream_cursor.load(stream_cursor.dump(places.items())) == places


@given(st.integers(0, 200), st.sampled_from("Az09-_"))
def test_a_changed_or_cut_cursor_is_refused(place, letter):
    text = stream_cursor.dump((bytes([n] * 8), StreamPlace(n + 1, b"mark")) for n in range(9))
    place %= len(text)
    for changed in (text[:place], text[:place] + letter + text[place + 1 :]):
        if changed not in ("", text):
            with pytest.raises(BadPosition):
                stream_cursor.load(changed)


@pytest.mark.parametrize("cursor", ["5", 5, b"all1.", "all1.", "all1.\udcff", "x" * 100])
def test_what_is_no_cursor_is_refused(store, cursor):
    with pytest.raises(BadPosition):
        store.tail(cursor)


def test_the_cursor_of_ten_thousand_sessions_takes_eighteen_bytes_each():
    places = ((stream_cursor.key_of(f"s_{n}"), StreamPlace(5000, b"mark")) for n in range(10_000))
    assert len(stream_cursor.dump(places)) < 10_000 * 19


def test_a_log_that_came_back_otherwise_is_delivered_from_its_beginning():
    """Two copies of a session grew apart; the one that was read is replaced by the other."""
    first, second, reading = MemoryStore(), MemoryStore(), MemoryStore()
    story = told(first, "a")
    second.ingest(story.log)
    other = Story(second, story.drafts)
    for n in range(3):
        story.fact("x", n)
    other.fact("y", 1)
    reading.ingest(story.log)
    found, cursor = read(reading)
    assert names(found) == names(story.log)
    again = MemoryStore()
    again.ingest(other.log)
    assert read(again, cursor)[0] == other.log, "shorter than what was read"
    for n in range(5):
        other.fact("y", n)
    longer = MemoryStore()
    longer.ingest(other.log)
    assert read(longer, cursor)[0] == other.log, "longer, with other commits"


def test_a_copy_that_grew_otherwise_to_the_same_length_is_noticed_when_a_stream_is_resumed():
    """Also after more sessions than are asked about at once; those that did not change are not given again."""
    first, copy = MemoryStore(), MemoryStore()
    stories = [told(first, f"s{n}", ids=Ids(str(n))) for n in range(2 * store_tail.PAGE + 1)]
    for story in stories:
        copy.ingest(story.log)
    changed = [stories[0], stories[-1]]
    others = [Story(copy, story.drafts) for story in changed]
    for story in changed:
        story.fact("x", 1)
    _, cursor = read(first)
    for other in others:
        other.fact("x", 2)
    found, after = read(copy, cursor)
    assert found == [commit for other in others for commit in other.log]
    assert read(copy, after)[0] == []


def test_a_cursor_continues_in_another_copy_of_the_store():
    first, copy = MemoryStore(), MemoryStore()
    story = told(first, "a")
    story.fact("x", 1)
    _, cursor = read(first)
    story.fact("x", 2)
    copy.ingest(story.log)
    assert [commit.seq for commit in read(copy, cursor)[0]] == [3]


# -- the front door -------------------------------------------------------------------------------


def test_without_a_cursor_the_stream_begins_now(store):
    with store.open("a") as a:
        now = store.tail(follow=False)
        cursor = now.cursor
        a.flag("look")
        assert [commit.kind for commit in store.tail(cursor, follow=False)] == ["flag"]
        assert list(store.tail(follow=False)) == []


def test_a_project_has_only_its_own_sessions(store):
    with store.open("a"), store.open("b", project="elsewhere") as b:
        found = list(store.tail("", project="elsewhere", follow=False))
    assert {commit.session for commit in found} == {b.id}


def test_a_long_log_is_read_page_by_page(store, monkeypatch):
    monkeypatch.setattr(store_tail, "PAGE", 3)
    with store.open("a") as a:
        for n in range(5):
            with a.turn(f"turn {n}") as t:
                t.fact("n", n)
        assert list(store.tail("", follow=False)) == list(a.log())


def test_a_stream_that_follows_delivers_what_is_written_later(store):
    with store.open("a") as a:
        stop: list[bool] = []
        tail = store.tail("", until=lambda: bool(stop))
        kinds = []
        for commit in tail:
            kinds.append(commit.kind)
            if commit.kind == "flag":
                stop.append(True)
            elif len(kinds) == a.head.seq:
                a.flag("look")
    assert kinds[-1] == "flag"
    assert kinds.count("flag") == 1


def test_a_gap_in_a_log_is_an_error(store):
    with store.open("a") as a, a.turn("go") as t:
        t.fact("n", 1)

    class Holed:
        def __getattr__(self, name):
            return getattr(store.port, name)

        def commits(self, session, **options):
            found = store.port.commits(session, **options)
            return [commit for commit in found if commit.seq != 3]

    with pytest.raises(BrokenChain, match="comes @4"):
        read(Holed())


def test_a_round_asks_for_all_sessions_at_once_and_reads_only_what_moved():
    store = MemoryStore()
    stories = [told(store, f"s{n}", ids=Ids(str(n))) for n in range(50)]
    _, cursor = read(store)
    stories[7].fact("x", 1)
    asked = []

    class Counted:
        def __getattr__(self, name):
            asked.append(name)
            return getattr(store, name)

    found, _ = read(Counted(), cursor)
    assert names(found) == [(stories[7].session, 2)]
    assert asked == ["heads", "together", "heads", "commits"]


def test_the_asynchronous_stream_delivers_the_same(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    async def main():
        async with stator.aio.connect(tmp_path / "agent.db") as store:
            async with store.open("a") as a, a.turn("go") as t:
                await t.fact("n", 1)
            tail = store.tail("", follow=False)
            found = [commit async for commit in tail]
            assert found == [commit async for commit in (await store.read("a")).log()]
            assert [c async for c in store.tail(tail.cursor, follow=False)] == []

    asyncio.run(main())


READER = """
import sys, stator
with stator.connect(sys.argv[1], read_only=True) as store:
    tail = store.tail(sys.argv[2], follow=False)
    for _, commit in zip(range(int(sys.argv[3])), tail):
        print(commit.session, commit.seq)
    print(tail.cursor)
"""


def test_readers_in_other_processes_continue_each_other(store):
    for name in "abc":
        with store.open(name) as s, s.turn("go") as t:
            t.fact("n", 1)
    cursor, seen = "", []
    for number in (4, 0, 9, 99):
        run = [sys.executable, "-c", READER, store.port.path, cursor, str(number)]
        *lines, cursor = subprocess.run(
            run, capture_output=True, text=True, check=True
        ).stdout.split("\n")[:-1]
        seen += lines
    whole = [f"{c.session} {c.seq}" for c in store.tail("", follow=False)]
    assert seen == whole
