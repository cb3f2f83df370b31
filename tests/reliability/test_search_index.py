"""The search index as a file: damage changes no answer, and removed content leaves no byte."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import apsw
import pytest

from reliability.removals import REMOVALS
from reliability.support import bare, copy_store
from stator.connect import connect
from stator.index_files import keeps_index
from stator.model.log.commit import Draft, Erase
from stator.model.views.search import SearchQuery, parse
from stator.runtime.views import search
from stator.store.port import IndexLost

RARE, TRACE = "zzyxwvutquirk", b"yxwvutquirk"
"""A word, and its bytes in an index, which stores only the difference from the previous word."""


def fill(store, words=RARE, sessions=3):
    for n in range(sessions):
        with store.open(f"s{n}") as s, s.turn(f"common {words if n == 0 else 'other'}") as t:
            t.call(lambda text: f"said {text}", text=words if n == 0 else "else")
            t.say(f"answer {words if n == 0 else ''}")


def index_of(path: Path) -> Path:
    return Path(f"{path}-search")


def raw(path: Path) -> bytes:
    """Every byte of the index."""
    return b"".join(file.read_bytes() for file in path.parent.glob(f"{path.name}-search*"))


def found(store, words="common"):
    return sorted((hit.name, hit.seq) for hit in store.search(words))


@pytest.fixture
def searched(store, path):
    """Fill and search a store; returns the hits."""
    fill(store)
    return found(store)


# -- removed content ------------------------------------------------------------------------------


def test_a_word_is_in_the_index_before_it_is_erased(store, path):
    """The control: the search can find the text."""
    fill(store)
    store.search(RARE)
    assert TRACE in raw(path)


@pytest.mark.parametrize("what", REMOVALS)
def test_removed_content_is_in_no_byte_of_the_index(store, path, what):
    fill(store)
    assert store.search(RARE)
    REMOVALS[what](store)
    assert TRACE not in raw(path)
    assert store.search(RARE) == []
    assert store.search("common")


def test_content_erased_by_a_driver_is_in_no_byte_of_the_index(store, path):
    with store.open("main") as s:
        s.fact("part", RARE)
        assert store.search(RARE)
        s.erase("head")
        assert TRACE not in raw(path)


def test_content_erased_by_an_imported_bundle_is_in_no_byte_of_the_index(store, path, tmp_path):
    with connect(tmp_path / "there.db", project="test") as there:
        with there.open("main") as s:
            s.fact("part", RARE)
        there.export("main", tmp_path / "one.stator")
        store.import_bundle(tmp_path / "one.stator")
        assert store.search(RARE)
        there.contribute("main").erase("@3")
        there.export("main", tmp_path / "two.stator")
    store.import_bundle(tmp_path / "two.stator", erasures="apply")
    assert TRACE not in raw(path)


def test_content_erased_by_an_imported_fork_is_in_no_byte_of_the_index(store, path, tmp_path):
    """The erased commit is in the shared session, not in the imported fork."""
    with connect(tmp_path / "there.db", project="test") as there:
        with store.open("main") as s:
            s.fact("part", RARE)
        store.export("main", tmp_path / "one.stator")
        there.import_bundle(tmp_path / "one.stator")
        for one in (store, there):
            with one.open("main") as s:
                s.fact("after", "both")
        (hit,) = store.search(RARE)
        there.contribute("main").erase(f"@{hit.seq}")
        there.export("main", tmp_path / "two.stator")
    store.import_bundle(tmp_path / "two.stator", erasures="apply")
    assert TRACE not in raw(path)


@pytest.mark.parametrize("what", REMOVALS)
def test_a_concurrent_indexer_does_not_restore_removed_content(store, path, what):
    """Another process read the session before the removal and writes to the index after it."""
    store.search("common")
    fill(store)
    session = store.read("s0").id
    with store.context.index(store.port, True) as index:
        read = list(search._advances(store.port, session, index.mark(session)))
        REMOVALS[what](store)
        index.put(read)
    assert TRACE not in raw(path)


def test_the_next_search_removes_what_a_killed_erasure_left_in_the_index(store, path):
    """As if the process died between erasing and updating the index."""
    with store.open("main") as s:
        s.fact("part", RARE)
    (hit,) = store.search(RARE)
    change = Erase(seq=hit.seq)
    draft = Draft(
        id=store.context.mint("commit"), session=hit.session, kind="erasure", changes=(change,)
    )
    store.port.append(hit.session, [draft])
    assert TRACE in raw(path)
    assert store.search("part") == []
    assert TRACE not in raw(path)


def test_an_erasure_blocked_by_a_reader_of_the_index_is_pending(store, path):
    fill(store)
    store.search(RARE)
    reader = bare(index_of(path))
    reader.execute("BEGIN; SELECT count(*) FROM doc").fetchall()
    result = store.erase(store.erasing("s0"))
    assert result.pending
    reader.close()
    store.search("common")
    assert TRACE not in raw(path)


def test_erasing_creates_no_index(store, path):
    fill(store)
    store.erase(store.erasing("s0"))
    assert not index_of(path).exists()


# -- damaged index files --------------------------------------------------------------------------


def nothing_there(index):
    index.unlink()


def an_empty_file(index):
    index.write_bytes(b"")


def text(index):
    index.write_bytes(b"dear diary\n" * 5000)


def half_of_it(index):
    index.write_bytes(index.read_bytes()[: index.stat().st_size // 2])


def zeros_in_the_middle(index):
    data = bytearray(index.read_bytes())
    data[8192 : len(data) - 4096] = bytes(len(data) - 12288)
    index.write_bytes(data)


def another_database(index):
    index.unlink()
    with bare(index) as db:
        db.execute("CREATE TABLE diary (text)")


def a_table_is_missing(index):
    with bare(index) as db:
        db.execute("DROP TABLE word")


def a_table_of_another_make(index):
    with bare(index) as db:
        db.execute("ALTER TABLE doc RENAME COLUMN tool TO program")


def another_release(index):
    with bare(index) as db:
        db.pragma("user_version", 99)


def another_store(index):
    with bare(index) as db:
        db.execute("UPDATE meta SET value = 'another' WHERE key = 'store'")


def a_folder(index):
    index.unlink()
    index.mkdir()


def a_link(index):
    index.unlink()
    index.symlink_to(index.with_name("precious"))
    index.with_name("precious").write_text("do not touch")


def a_pipe(index):
    index.unlink()
    os.mkfifo(index)


HARMS = [
    nothing_there, an_empty_file, text, half_of_it, zeros_in_the_middle, another_database,
    a_table_is_missing, a_table_of_another_make, another_release, another_store, a_folder, a_link, a_pipe,
]  # fmt: skip


@pytest.mark.parametrize("harm", HARMS)
def test_a_damaged_index_changes_no_answer(path, harm):
    with connect(path, project="test") as store:
        fill(store)
        before = found(store)
    harm(index_of(path))
    with connect(path, project="test") as store:
        assert (found(store), found(store)) == (before, before)


@pytest.mark.parametrize("harm", [half_of_it, zeros_in_the_middle, a_table_of_another_make])
def test_an_erasure_leaves_no_byte_in_a_damaged_index(path, harm):
    with connect(path, project="test") as store:
        fill(store)
        store.search(RARE)
    harm(index_of(path))
    with connect(path, project="test") as store:
        assert not store.erase(store.erasing("s0")).pending
        assert TRACE not in raw(path)


def test_an_erasure_is_pending_while_a_reader_holds_an_old_index(path):
    with connect(path, project="test") as store:
        fill(store)
        store.search(RARE)
    another_release(index_of(path))
    reader = bare(index_of(path))
    reader.execute("BEGIN; SELECT count(*) FROM doc").fetchall()
    with connect(path, project="test") as store:
        assert store.erase(store.erasing("s0")).pending
        reader.close()
        store.search("common")
        assert TRACE not in raw(path)


def test_an_index_replaced_after_it_was_filled_raises_index_lost(store, path):
    fill(store)
    with store.context.index(store.port, True) as index:
        search.catch_up(store.port, index)
        another_release(index_of(path))
        with store.context.index(store.port, True):
            pass
        with pytest.raises(IndexLost):
            index.find(SearchQuery(terms=parse("common")[0]), limit=5)


def test_a_valid_index_is_not_rebuilt(path):
    with connect(path, project="test") as store:
        fill(store)
        store.search("common")
    with connect(path, project="test") as store:
        assert len(store.search("common", fresh=False)) == 3


def test_a_link_in_place_of_the_index_is_not_followed(path):
    with connect(path, project="test") as store:
        fill(store)
        store.search("common")
        a_link(index_of(path))
        store.search("common")
        assert not keeps_index(store.port)
    assert index_of(path).with_name("precious").read_text() == "do not touch"


def test_an_index_emptied_under_an_open_store_is_filled_again(store, path, searched):
    db = bare(index_of(path))
    db.config(apsw.SQLITE_DBCONFIG_RESET_DATABASE, 1)
    db.execute("VACUUM")
    db.config(apsw.SQLITE_DBCONFIG_RESET_DATABASE, 0)
    db.close()
    assert found(store) == searched


def test_only_its_owner_may_read_the_index(store, path, searched):
    assert index_of(path).stat().st_mode & 0o077 == 0


def test_no_partial_file_is_left_beside_the_store(store, path, searched):
    assert [name for name in os.listdir(path.parent) if ".new-" in name] == []


# -- replaced stores ------------------------------------------------------------------------------


def test_a_search_after_the_store_was_replaced_finds_only_the_new_store(path, tmp_path):
    with connect(path, project="test") as store:
        fill(store)
        store.search("common")
    with connect(tmp_path / "new.db", project="test") as new, new.open("new") as s:
        s.fact("common", "ground")
    copy_store(tmp_path / "new.db", path)
    with connect(path, project="test") as store:
        assert [hit.name for hit in store.search("common")] == ["new"]
        assert store.search(RARE) == []


def test_a_search_after_an_older_copy_was_restored_finds_only_its_content(path, tmp_path):
    """A session continued, an older copy of the store was restored, and it continued differently."""
    with connect(path, project="test") as store, store.open("main") as s:
        s.fact("common", "ground")
    copy_store(path, tmp_path / "older.db")
    with connect(path, project="test") as store:
        with store.open("main") as s:
            s.fact("first", "lost words")
        assert store.search("lost")
    copy_store(tmp_path / "older.db", path)
    with connect(path, project="test") as store:
        with store.open("main") as s:
            s.fact("second", "other words")
        assert store.search("lost") == []
        assert store.search("other")


# -- concurrent searches --------------------------------------------------------------------------


def test_concurrent_searches_give_the_same_answer(zygote, store, path):
    fill(store, sessions=60)
    workers = [zygote.start("search", path, "common") for _ in range(6)]
    for worker in workers:
        assert worker.hear() == "ready"
    for worker in workers:
        worker.say("go")
    answers = [sorted(map(tuple, worker.result())) for worker in workers]
    zygote.end(*workers)
    assert answers == [sorted((f"s{n}", 3) for n in range(60))] * 6


def test_a_search_during_writes_finds_all_earlier_content(zygote, store, path):
    fill(store, sessions=5)
    writer = zygote.start("write_until_killed", path, "busy", "relaxed")
    writer.hear()
    for _ in range(5):
        assert len(found(store)) == 5
    zygote.end(writer)


def test_the_next_search_completes_the_index_of_a_killed_one(zygote, store, path):
    fill(store, sessions=40)
    for _ in range(5):
        worker = zygote.start("search", path, "common")
        worker.hear()
        worker.say("go")
        zygote.end(worker)
    assert len(store.search("common", limit=100)) == 40
    assert len({(hit.session, hit.seq) for hit in store.search("common", limit=100)}) == 40


# -- unwritable folders ---------------------------------------------------------------------------


@pytest.fixture
def shared(path):
    """A closed store in a folder that other users can reach, unlike that of pytest."""
    with connect(path, project="test") as store:
        fill(store)
    folder = Path(tempfile.mkdtemp(prefix="stator-rights-"))
    yield copy_store(path, folder / "store.db")
    folder.chmod(0o755)
    shutil.rmtree(folder)


@pytest.fixture
def unwritable(shared):
    """A store that can be read but not written."""
    for name in os.listdir(shared.parent):
        (shared.parent / name).chmod(0o444)
    shared.parent.chmod(0o555)
    return shared


def test_a_store_in_an_unwritable_folder_can_be_searched(zygote, unwritable):
    assert sorted(zygote.run("search_without_rights", unwritable, "common")) == ["s0", "s1", "s2"]


def test_searching_an_unwritable_store_writes_nothing_beside_it(zygote, unwritable):
    before = sorted(os.listdir(unwritable.parent))
    zygote.run("search_without_rights", unwritable, "common")
    assert sorted(os.listdir(unwritable.parent)) == before


def test_an_erasure_is_pending_when_another_user_owns_the_index(zygote, shared):
    with connect(shared, project="test") as store:
        assert store.search(RARE)
    shared.parent.chmod(0o777)
    for file in shared.parent.iterdir():
        file.chmod(0o600 if file == index_of(shared) else 0o666)
    assert zygote.run("erase_without_rights", shared, "s0") is (os.getuid() == 0)
    with connect(shared, project="test") as store:
        assert store.search(RARE) == []
    assert TRACE not in raw(shared)


def test_searching_a_read_only_store_does_not_change_it(path):
    with connect(path, project="test") as store:
        fill(store)
    before = path.read_bytes()
    with connect(path, project="test", read_only=True) as store:
        assert len(found(store)) == 3
    assert path.read_bytes() == before


FIRST_SEARCHES = """
import multiprocessing, sys
from stator.store.sqlite.index.search_index import SearchIndex


class NoLog:
    def chunk_heads(self, chunk=None):
        return []

    def head_sums(self):
        return {}


def open_index(path, barrier, answers):
    barrier.wait()
    try:
        SearchIndex(path, "s", NoLog()).close()
        answers.put("")
    except Exception as error:
        answers.put(str(error))


fork = multiprocessing.get_context("fork")
for number in range(40):
    barrier, answers = fork.Barrier(6), fork.Queue()
    given = (f"{sys.argv[1]}/{number}-search", barrier, answers)
    processes = [fork.Process(target=open_index, args=given) for _ in range(6)]
    for process in processes:
        process.start()
    for error in filter(None, [answers.get() for _ in processes]):
        print(error)
    for process in processes:
        process.join()
"""


def test_processes_that_search_for_the_first_time_at_once_all_get_an_index(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", FIRST_SEARCHES, str(tmp_path)],
        capture_output=True, text=True, timeout=100,
    )  # fmt: skip
    assert (done.stdout, done.stderr, done.returncode) == ("", "", 0)
