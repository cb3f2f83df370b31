"""A reader that stays answers as one that has just opened the file, whatever is written between its reads.

The stories of `test_differential` again, over longer tails, with two stores that keep what they read: one that only
reads, and the writer's own. After every other append each of them is asked something; the memory store says what is
right. From time to time every read of the port is compared with that of a store opened a moment ago.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import rule

from contract.test_differential import EXAMPLES, Stores, difference, names, pages, positions
from stator.errors import NotFound, StatorError, StoreCorrupt
from stator.model.log.commit import Draft, Purge
from stator.model.log.query import CallQuery, SessionQuery
from stator.model.records.tables import COLLECTIONS
from stator.model.records.types import FactRecord
from stator.runtime.base.pages import counts_of
from stator.store import rows
from stator.store.compress import decompress
from stator.store.contract.drive import Drafts, Ids, Story, begin, large_text
from stator.store.port import StorePort
from stator.store.sqlite import SqliteStore, create, projection
from stator.store.sqlite.queries import commits as commit_reads
from stator.store.sqlite.queries.tails import COMMIT_BYTES, KeptTails
from stator.store.sqlite.queries.turns import LAST_ROWS

LONG_TAIL = 20
"""Long enough to be extended several times, short enough to be flushed in the middle of a story."""

Question = Callable[[StorePort, str], Any]

ASKED: dict[str, Question] = {
    "head": lambda store, s: store.head(s),
    "session": lambda store, s: store.session(s),
    "counts": lambda store, s: store.session(s, counted=True).counts,
    "turns": lambda store, s: store.turns(s),
    "last turn": lambda store, s: store.turns(s, newest_first=True, limit=1),
    "calls": lambda store, s: pages(lambda c: store.calls(CallQuery(session=s), cursor=c, limit=5)),
    "keyed turns": lambda store, s: store.turns(s, keys=("a", "b"), prompts=True),
    "all state": lambda store, s: store.entries(s, limit={"facts": 2}),
    "entries by key": lambda store, s: store.entries(s, "facts", "files", keys=("a", "a.py")),
    "entries by prefix": lambda store, s: store.entries(s, "files", "decisions", prefix="a"),
    "commits by origin": lambda store, s: store.commits(s, origins=[("hook", "1"), ("hook", "2")]),
    "commits by seq": lambda store, s: store.commits(s, seqs=[1, 2, store.head(s).seq]),
    "commits": lambda store, s: store.commits(s, newest_first=True, limit=9),
    "versions": lambda store, s: store.versions(s, after=0, upto=store.head(s).seq),
    "last versions": lambda store, s: store.versions(
        s, after=store.head(s).seq - 5, upto=store.head(s).seq
    ),
    "touches": lambda store, s: store.touches("facts", "a", session=s),
    "sessions": lambda store, s: pages(lambda c: store.sessions(SessionQuery(), cursor=c, limit=3)),
    "all calls": lambda store, s: pages(lambda c: store.calls(CallQuery(), cursor=c, limit=7)),
    "all touches": lambda store, s: store.touches("files", "a.py"),
    "a commit's place": lambda store, s: store.locate(
        store.commits(s, newest_first=True, limit=1)[0].id, s
    ),
    **{
        f"{name}": lambda store, s, name=name: store.entries(s, name)  # type: ignore[misc]
        for name in COLLECTIONS
    },
    **{
        f"{name} before": lambda store, s, name=name: store.entries(  # type: ignore[misc]
            s, name, at=max(1, store.head(s).seq - 4), limit=3
        )
        for name in ("facts", "files", "decisions", "calls", "tools")
    },
}
"""Every read of the port that shows what a session holds."""


class Watched(Stores):
    """The same stories, watched by a reader that stays."""

    def open_sqlite(self) -> SqliteStore:
        if not hasattr(self, "reader"):
            self.patch.setattr(projection, "TAIL_MAX", LONG_TAIL)
            self.reader = SqliteStore(self.path, read_only=True)
            self.next_question = count()
        return super().open_sqlite()

    def teardown(self) -> None:
        if hasattr(self, "reader"):
            for session in self.all_sessions():
                self.compare_with_a_new_reader(session)
            self.reader.close()
        super().teardown()

    def append(self, session: str, *drafts: Draft) -> Draft:
        made = super().append(session, *drafts)
        n, odd = divmod(next(self.next_question), 2)
        if odd:  # so that a flush and more commits can come between two questions
            return made
        question = list(ASKED.values())[n % len(ASKED)]
        right = question(self.memory, session)
        for store in (self.reader, self.sqlite):
            found = question(store, session)
            assert found == right, difference(right, found)
        return made

    @rule(session=Stores.sessions)
    def compare_with_a_new_reader(self, session: str) -> None:
        with SqliteStore(self.path, read_only=True) as fresh:
            for name, question in ASKED.items():
                right, found = question(fresh, session), question(self.reader, session)
                assert found == right, (name, difference(right, found))

    @rule()
    def flush(self) -> None:
        self.sqlite._write(self.sqlite._appender.flush_dirty)

    @rule(session=Stores.sessions, name=names)
    def undo(self, session: str, name: str) -> None:
        """A batch whose last draft is refused leaves nothing, and the writer has believed in it."""
        maker = self.maker(session, driving=False)
        other = Drafts(self.ids, self.ids("session"))
        self.append(session, maker.fact(name, "undone"), other.fact(name, "for another session"))

    @rule(n=positions, more=st.integers(0, 5))
    def purge(self, n: int, more: int) -> None:
        """A session goes, comes back from its log, and continues otherwise under the same number."""
        owner, gone = self.open_session("project", "q"), self.open_session("recorded", "q")
        facts = Drafts(self.ids, gone)
        for k in range(n % 7):
            self.append(gone, facts.fact("a", k))
        log = self.memory.commits(gone)
        self.append(owner, Drafts(self.ids, owner).make("purge", Purge(gone)))
        with pytest.raises(NotFound):
            self.reader.entries(gone, "facts")
        back = log[: max(1, n % (len(log) + 1))]
        self.both(lambda store: store.ingest(back))
        for k in range(more):
            self.append(gone, facts.fact("a", -k))
        self.compare_with_a_new_reader(gone)


TestWatched = Watched.TestCase
TestWatched.settings = settings(
    max_examples=EXAMPLES or 12,
    stateful_step_count=20,
    deadline=None,
    derandomize=not EXAMPLES,
    phases=tuple(Phase) if EXAMPLES else (Phase.generate,),
    report_multiple_bugs=False,
    suppress_health_check=list(HealthCheck),
)


# -- one moment at a time ---------------------------------------------------------------------------


@pytest.fixture
def path(tmp_path: Path) -> str:
    made = str(tmp_path / "store.db")
    create(made)
    return made


@pytest.fixture
def writer(path: str) -> Iterator[SqliteStore]:
    with SqliteStore(path, durability="relaxed") as store:
        yield store


@pytest.fixture
def reader(path: str) -> Iterator[SqliteStore]:
    with SqliteStore(path, read_only=True) as store:
        yield store


def live_story(store: SqliteStore, name: str = "live", facts: int = 40) -> Story:
    """A session with a tail: an open turn, and facts that nothing has flushed."""
    story = begin(store, name, ids=Ids(name)).drive()
    story.turn()
    for n in range(facts):
        story.fact(f"fact {n % 7}", n)
    return story


def newest_value(store: SqliteStore, session: str) -> Any:
    (entry,) = store.entries(session, "facts", limit=1)
    assert isinstance(entry.record, FactRecord)
    return entry.record.value


def same_answers(path: str, reader: SqliteStore, session: str) -> bool:
    with SqliteStore(path, read_only=True) as fresh:
        return all(ask(reader, session) == ask(fresh, session) for ask in ASKED.values())


def test_an_older_snapshot_shows_nothing_newer_than_itself(writer, reader):
    story = live_story(writer)
    with reader._reading() as db:
        first = reader._place(db, story.session).tail
        before = [item.seq for item in first.commits]
        story.fact("fact 1", "newer")
        assert newest_value(reader, story.session) == "newer"
        place = reader._place(db, story.session)
        assert [item.seq for item in place.tail.commits] == before
        assert [item.seq for item in first.commits] == before
        assert all(version[0] <= before[-1] for version in place.tail.latest.values())


def test_a_reader_follows_a_store_that_was_put_back_from_a_copy(path, tmp_path, writer):
    """The copy has the same session with the same projections and other commits after them."""
    story = live_story(writer)
    session, epoch = story.session, story.drafts.epoch
    writer.sync()
    other = str(tmp_path / "other.db")
    with SqliteStore(path, read_only=True) as source, source._reading() as db:
        db.execute("ROLLBACK")
        db.execute("VACUUM INTO ?", (other,))
    story.fact("fact 1", "here")
    reader = SqliteStore(path, read_only=True)
    try:
        assert newest_value(reader, session) == "here"
        writer._readers.close()
        writer._writer.close(fold=True)
        with SqliteStore(other, durability="relaxed") as there:
            there.append(session, [Drafts(Ids("other"), session, epoch).fact("fact 1", "there")])
            for suffix in ("-wal", "-shm"):
                Path(path + suffix).unlink(missing_ok=True)
            with there._reading() as db:
                db.execute("ROLLBACK")
                Path(path + ".new").unlink(missing_ok=True)
                db.execute("VACUUM INTO ?", (path + ".new",))
            os.replace(path + ".new", path)
        assert newest_value(reader, session) == "there"
        assert same_answers(path, reader, session)
    finally:
        reader.close()


def test_erasing_a_parents_record_shows_in_the_tail_of_its_fork(path, writer, reader):
    """The fork's tail drops a record under a key that only the parent's log holds."""
    parent = begin(writer, "parent", mode="recorded")
    fact = parent.fact("secret name", 1)
    fork = parent.fork("fork")
    fork.add(fork.drafts.forget("secret name"))
    assert reader.touches("facts", "secret name", session=fork.session)
    parent.add(parent.drafts.erase_record("facts", fact.delta[0].id))
    assert same_answers(path, reader, fork.session)
    assert "secret name" not in repr(reader.versions(fork.session, after=0, upto=99))


def test_a_kept_tail_is_dropped_when_it_was_flushed(writer, reader):
    story = live_story(writer)
    counts_of(reader, story.session)
    assert reader._tails._size > 0
    writer._write(writer._appender.flush_dirty)
    counts_of(reader, story.session)
    assert reader._tails._size == 0


def test_kept_tails_take_bounded_memory(writer, reader):
    stories = [live_story(writer, f"live {n}") for n in range(3)]
    reader._tails = KeptTails(most=100 * (COMMIT_BYTES + 100))
    for story in stories:
        counts_of(reader, story.session)
    assert list(reader._tails._kept) == [story.session for story in stories[1:]]


def test_a_tail_longer_than_the_bound_is_read_and_not_kept(path, writer, reader):
    story = live_story(writer)
    reader._tails = KeptTails(most=COMMIT_BYTES)
    assert same_answers(path, reader, story.session)
    assert (len(reader._tails._kept), reader._tails._size) == (0, 0)


def test_threads_that_read_while_a_driver_appends_see_whole_snapshots(writer, reader):
    story = live_story(writer, facts=5)
    done = threading.Event()
    wrong: list[Any] = []

    def watch(store: SqliteStore) -> None:
        while not done.is_set():
            try:
                seq = store.head(story.session).seq
                found = store.entries(story.session, "facts")
                newest = max(entry.seq for entry in found)
                counted = counts_of(store, story.session).commits
                if newest < seq or counted < seq:
                    wrong.append((seq, newest, counted))
            except StatorError as error:
                wrong.append(error)

    threads = [threading.Thread(target=watch, args=(s,)) for s in (reader, reader, writer)]
    for thread in threads:
        thread.start()
    for n in range(300):
        story.fact(f"fact {n % 5}", n)
    done.set()
    for thread in threads:
        thread.join()
    assert wrong == []


@pytest.mark.parametrize("name", ["head", "session", "sessions", "counts"])
def test_damage_at_the_end_of_a_log_names_the_session_and_the_seq(writer, reader, name):
    story = live_story(writer)
    head = writer.head(story.session).seq
    writer._write(
        lambda db: db.execute("UPDATE log SET body = x'00' WHERE k = (SELECT max(k) FROM log)")
    )
    with pytest.raises(StoreCorrupt, match=f"@{head} of session {story.session}"):
        ASKED[name](reader, story.session)


# -- how much is read -------------------------------------------------------------------------------


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], Any]], int]:
    """Counts the rows of the log that an answer decodes."""
    seen: list[int] = []

    def counting(frame: bytes) -> bytes:
        seen.append(len(frame))
        return decompress(frame)

    monkeypatch.setattr(rows, "decompress", counting)

    def measure(ask: Callable[[], Any]) -> int:
        seen.clear()
        ask()
        return len(seen)

    return measure


READS_OF_ONE_TAIL = ["counts", "turns", "calls", "facts", "touches", "a commit's place"]


@pytest.mark.parametrize("name", READS_OF_ONE_TAIL)
@pytest.mark.parametrize("new", [0, 1, 5])
def test_a_second_read_decodes_only_what_was_appended_since(writer, reader, decoded, name, new):
    story = live_story(writer, facts=100)
    ask = ASKED[name]
    assert decoded(lambda: ask(reader, story.session)) > 100
    again = decoded(lambda: ask(reader, story.session))
    for n in range(new):
        story.fact("new", n)
    assert decoded(lambda: ask(reader, story.session)) == again + new


def test_a_driver_decodes_nothing_of_its_own_tail(writer, decoded):
    story = live_story(writer, facts=100)
    assert decoded(lambda: counts_of(writer, story.session)) == 1  # the newest: when it was used
    story.fact("new", 1)
    assert decoded(lambda: writer.entries(story.session, "facts")) == 0


def test_a_head_is_read_from_the_last_rows(writer, reader, decoded):
    story = live_story(writer, facts=100)
    story.turn_end()
    story.fact("after the turn", 1)
    assert decoded(lambda: reader.head(story.session)) == 2


def test_a_head_in_a_long_turn_decodes_a_bounded_number_of_rows_the_second_time(
    writer, reader, decoded
):
    story = live_story(writer, facts=100)
    reader.head(story.session)
    assert decoded(lambda: reader.head(story.session)) == LAST_ROWS


def test_a_session_is_shown_from_the_last_row_of_its_log(writer, reader, decoded):
    story = live_story(writer, facts=100)
    assert decoded(lambda: reader.session(story.session)) == 1


def test_a_listing_decodes_one_row_a_live_session(writer, reader, decoded):
    for n in range(4):
        live_story(writer, f"live {n}", facts=50)
    assert decoded(lambda: reader.sessions(SessionQuery())) == 4


def test_reading_a_tail_loads_no_large_outputs(writer, reader, monkeypatch):
    story = live_story(writer)
    call = story.call()
    story.outcome(call, large_text())
    loaded: list[bytes] = []
    monkeypatch.setattr(commit_reads, "find_blob", lambda db, digest: loaded.append(digest))
    counted = counts_of(reader, story.session)
    assert reader.calls(CallQuery(session=story.session)).rows[0].status == "ok"
    assert (loaded, counted.content_bytes) == (
        [],
        counts_of(writer, story.session).content_bytes,
    )
