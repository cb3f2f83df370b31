"""Bad database files are reported, refused or read, and never damaged further.

Only closed stores and copies are tampered with here.
"""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
import stat
import tempfile
from pathlib import Path

import apsw
import msgspec
import pytest

from reliability.support import all_sessions, answers, bare, copy_store, findings, populate
from stator.connect import connect
from stator.errors import (
    NewerStore,
    NotAStore,
    SchemaChanged,
    StatorError,
    StoreError,
    StoreReadOnly,
    StoreReplaced,
)
from stator.runtime.views.verify import holds_head, verify
from stator.store.sqlite.projection import pack_ledger, unpack_ledger


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    """A closed store with every kind of record. Read only: tests copy it."""
    path = tmp_path_factory.mktemp("original") / "store.db"
    with connect(path, project="test") as store:
        populate(store)
        store.fork("main", "t2", as_name="branch")
    return path


@pytest.fixture
def copy(original, tmp_path):
    return copy_store(original, tmp_path / "copy.db")


def tamper(path: Path, statement: str, *values: object) -> None:
    db = bare(path)
    db.execute(statement, values)
    db.close()


# -- 88: rows that hide something (bits: test_bit_flips.py) ----------------------------------------


def told(path: Path) -> str:
    """Every answer of a store, or its error."""
    try:
        with connect(path, create=False, project="test") as store:
            return answers(store)
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def test_verify_finds_a_session_row_that_omits_a_collection(copy):
    """Collections that the row omits are not read, so a wrong row hides records."""
    db = bare(copy)
    for s, packed in db.execute("SELECT s, counts FROM session").fetchall():
        assert isinstance(packed, bytes)
        ledger = unpack_ledger(packed)
        if len(ledger.snaps) > 3:
            forgotten = dict(list(ledger.snaps.items())[1:])
            other = pack_ledger(msgspec.structs.replace(ledger, snaps=forgotten))
            db.execute("UPDATE session SET counts = ? WHERE s = ?", (other, s))
    db.close()
    assert any("collections" in finding for finding in findings(copy))


def test_a_missing_key_of_the_meta_table_raises_store_error(copy):
    tamper(copy, "DELETE FROM meta WHERE key = 'blob_key'")
    with pytest.raises(StoreError):
        connect(copy, project="test")


def test_a_damaged_meta_table_raises_store_error(copy):
    db = bare(copy)
    ((page,),) = db.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'meta'").fetchall()
    db.close()
    with copy.open("r+b") as file:
        file.seek((int(str(page)) - 1) * 4096)
        file.write(b"\xff" * 16)
    with pytest.raises(StoreError):
        connect(copy, project="test")


# -- 89: -wal and -shm ----------------------------------------------------------------------------


@pytest.fixture
def unclosed(zygote, tmp_path):
    """A store whose last commits are only in its WAL, because its writer was killed, and its last head."""
    path = tmp_path / "unclosed.db"
    worker = zygote.start("hold", path, "main")
    worker.hear()
    for number in range(5):
        worker.say(number)
        worker.hear()
    with connect(path, project="test") as store:
        head = store.read("main").head
    worker.kill()
    zygote.end(worker)
    assert os.path.getsize(f"{path}-wal") > 0
    return path, head


def test_a_remembered_head_reveals_a_deleted_wal(unclosed, tmp_path):
    path, head = unclosed
    copied = copy_store(path, tmp_path / "copy.db")
    Path(f"{copied}-wal").unlink()
    Path(f"{copied}-shm").unlink()
    assert not knows(copied, head.hash)


def test_a_deleted_shm_loses_nothing(unclosed, tmp_path):
    path, head = unclosed
    copied = copy_store(path, tmp_path / "copy.db")
    Path(f"{copied}-shm").unlink()
    assert knows(copied, head.hash)


def test_the_wal_of_another_store_is_reported_or_ignored(unclosed, copy):
    path, _ = unclosed
    before = told(copy)
    shutil.copyfile(f"{path}-wal", f"{copy}-wal")
    assert findings(copy) != [] or told(copy) == before


def test_a_remembered_head_reveals_an_older_copy_of_the_file(copy, tmp_path):
    old = copy_store(copy, tmp_path / "old.db")
    with connect(copy, project="test") as store, store.open("main") as session:
        session.flag("later")
    with connect(copy, project="test") as store:
        head = store.read("main").head.hash
    assert knows(copy, head)
    assert not knows(old, head)


def knows(path: Path, head: str) -> bool:
    """Whether a remembered head is in the log of `main`; False if the store cannot be read."""
    try:
        with connect(path, create=False, project="test") as store:
            return holds_head(store.port, store.read("main").id, head)
    except StatorError:
        return False


# -- 90: replaced while open ----------------------------------------------------------------------


def test_a_store_replaced_while_open_acknowledges_no_write(copy, original):
    with connect(copy, project="test") as store:
        session = store.open("main")
        spare = copy.with_name("spare.db")
        shutil.copyfile(original, spare)
        os.rename(spare, copy)
        with pytest.raises(StoreReplaced):
            session.flag("into nowhere")


def test_a_store_removed_while_open_acknowledges_no_write(copy):
    with connect(copy, project="test") as store:
        session = store.open("main")
        copy.unlink()
        with pytest.raises(StoreReplaced):
            session.flag("into nowhere")


def test_the_file_that_replaced_a_store_is_unchanged(copy, original):
    with connect(copy, project="test") as store:
        session = store.open("main")
        spare = copy.with_name("spare.db")
        shutil.copyfile(original, spare)
        os.rename(spare, copy)
        with pytest.raises(StoreReplaced):
            session.flag("into nowhere")
    assert copy.read_bytes() == original.read_bytes()


# -- 91, 92: schema and version -------------------------------------------------------------------

ADDITIONS = [
    "CREATE TABLE extra (x)",
    "CREATE INDEX extra ON log (hash)",
    "CREATE VIEW extra AS SELECT 1",
    "CREATE TRIGGER extra AFTER INSERT ON log BEGIN UPDATE session SET status = 'closed'; END",
    "DROP INDEX rec_key",
    "ALTER TABLE session ADD COLUMN extra TEXT",
    "ALTER TABLE log RENAME TO log_old",
]


@pytest.mark.parametrize("statement", ADDITIONS)
@pytest.mark.parametrize("read_only", [False, True])
def test_a_changed_schema_is_refused(copy, statement, read_only):
    tamper(copy, statement)
    with pytest.raises(SchemaChanged):
        connect(copy, read_only=read_only, project="test")


def test_a_log_table_replaced_by_a_view_is_refused(copy):
    tamper(copy, "ALTER TABLE log RENAME TO hidden")
    tamper(copy, "CREATE VIEW log AS SELECT * FROM hidden")
    with pytest.raises(SchemaChanged):
        connect(copy, project="test")


def test_a_file_with_a_refused_schema_is_unchanged(copy):
    tamper(copy, ADDITIONS[0])
    before = copy.read_bytes()
    with pytest.raises(SchemaChanged):
        connect(copy, project="test")
    assert copy.read_bytes() == before


def test_a_schema_changed_while_open_is_refused_for_the_next_writer(copy):
    with connect(copy, project="test") as store:
        tamper(copy, ADDITIONS[3])
        with pytest.raises(SchemaChanged):
            store.open("main")


def test_another_application_id_is_refused(copy):
    tamper(copy, "PRAGMA application_id = 7")
    with pytest.raises(NotAStore):
        connect(copy, project="test")


def newer(path: Path) -> bytes:
    tamper(path, "PRAGMA user_version = 999")
    return path.read_bytes()


def test_a_newer_store_is_not_written_to(copy):
    newer(copy)
    with connect(copy, project="test") as store, pytest.raises(NewerStore):
        store.open("main")


def test_a_newer_store_can_be_read(copy):
    newer(copy)
    with connect(copy, project="test") as store:
        assert store.read("main").head.seq > 1


def test_a_newer_store_is_unchanged(copy):
    before = newer(copy)
    with connect(copy, project="test") as store:
        with pytest.raises(NewerStore):
            store.open("main")
        answers(store)
    assert copy.read_bytes() == before


# -- 93: rows -------------------------------------------------------------------------------------

EDITS = {
    "edited body": "UPDATE log SET body = (SELECT body FROM log WHERE k > l.k LIMIT 1) FROM "
    "(SELECT k FROM log ORDER BY k LIMIT 1 OFFSET 10) AS l WHERE log.k = l.k",
    "edited hash": "UPDATE log SET hash = zeroblob(32) WHERE k = (SELECT k FROM log LIMIT 1 OFFSET 10)",
    "edited salts": "UPDATE log SET salts = zeroblob(length(salts)) "
    "WHERE k = (SELECT k FROM log LIMIT 1 OFFSET 10)",
    "edited id": "UPDATE log SET id = zeroblob(16) WHERE k = (SELECT k FROM log LIMIT 1 OFFSET 10)",
    "deleted": "DELETE FROM log WHERE k = (SELECT k FROM log LIMIT 1 OFFSET 10)",
    "deleted first": "DELETE FROM log WHERE k = (SELECT min(k) FROM log)",
    "deleted blob": "DELETE FROM blob WHERE k = (SELECT max(k) FROM blob)",
    "edited blob": "UPDATE blob SET data = zeroblob(length(data))",
    "doubled": "INSERT INTO log SELECT (SELECT max(k) FROM log) + 1, id, hash, salts, body FROM log "
    "ORDER BY k LIMIT 1",
    "session name": "UPDATE session SET name = 'other' WHERE name = 'main'",
    "session record": "UPDATE session SET record = CAST(replace(CAST(record AS TEXT), 'tester', "
    "'fester') AS BLOB)",
    "session status": "UPDATE session SET status = 'archived' WHERE name = 'main'",
    "alias": "UPDATE alias SET foreign_id = 'foreign-2'",
    "alias deleted": "DELETE FROM alias",
    "state": "UPDATE rec SET body = CAST(replace(CAST(body AS TEXT), 'because', 'despite') AS BLOB)",
    "state key": "UPDATE rec SET key = key + 1 WHERE key IS NOT NULL",
    "state deleted": "DELETE FROM rec WHERE c = 6",
    "call status": "UPDATE call_ix SET status = 'ok'",
    "call cause": "UPDATE call_ix SET cause = 'another' WHERE cause <> ''",
    "call deleted": "DELETE FROM call_ix",
    "turn status": "UPDATE turn_ix SET status = 'aborted'",
    "turn deleted": "DELETE FROM turn_ix",
    "commit index": "DELETE FROM commit_ix",
    "flushed": "UPDATE session SET flushed = flushed - 5",
    "counts": "UPDATE session SET counts = x''",
}


@pytest.mark.parametrize("edit", EDITS)
def test_verify_finds_a_tampered_row(copy, edit):
    before = copy.read_bytes()
    tamper(copy, EDITS[edit])
    assert copy.read_bytes() != before
    assert findings(copy) != []


def test_verify_finds_swapped_rows(copy):
    db = bare(copy)
    (a,), (b,) = db.execute("SELECT k FROM log ORDER BY k LIMIT 2 OFFSET 10").fetchall()
    for old, new in ((a, -1), (b, a), (-1, b)):
        db.execute("UPDATE log SET k = ? WHERE k = ?", (new, old))
    db.close()
    assert findings(copy) != []


def test_verify_names_the_first_bad_commit(copy):
    tamper(copy, EDITS["edited salts"])
    with connect(copy, project="test") as store:
        session = store.read("main").id
        assert {f.seq for f in verify(store.port, session) if f.check == "chain"} == {11}


def test_a_remembered_head_reveals_removed_commits(copy):
    with connect(copy, project="test") as store:
        view = store.read("main")
        head, session = view.head.hash, view.id
    db = bare(copy)
    ((s,),) = db.execute("SELECT s FROM session WHERE name = 'main'").fetchall()
    db.execute(
        "DELETE FROM log WHERE k IN (SELECT k FROM log WHERE k >> 40 = ? ORDER BY k DESC LIMIT 3)",
        (s,),
    )
    db.close()
    with connect(copy, project="test") as store:
        assert not holds_head(store.port, session, head)


def test_the_current_head_is_recognised(copy):
    with connect(copy, project="test") as store:
        view = store.read("main")
        assert holds_head(store.port, view.id, view.head.hash)


def test_an_earlier_head_is_recognised(copy):
    with connect(copy, project="test") as store:
        view = store.read("main")
        assert holds_head(store.port, view.id, view.commit("@5").hash)


# -- 94: links ------------------------------------------------------------------------------------


def test_a_symlink_opens_the_store_it_points_to(copy, tmp_path):
    link = tmp_path / "link.db"
    link.symlink_to(copy)
    with connect(link, project="test") as store:
        store.open("main").pause()
    assert not Path(f"{link}-wal").exists()
    assert findings(copy) == []


def test_a_store_and_a_symlink_to_it_share_leases(copy, tmp_path):
    link = tmp_path / "link.db"
    link.symlink_to(copy)
    with (
        connect(copy, project="test") as store,
        store.open("main"),
        connect(link, project="test") as again,
        pytest.raises(StatorError) as error,
    ):
        again.open("main")
    assert error.value.code == "E_BUSY"


def test_a_dangling_symlink_is_refused(tmp_path):
    link = tmp_path / "link.db"
    link.symlink_to(tmp_path / "nothing.db")
    with pytest.raises(NotAStore):
        connect(link, project="test")
    assert not (tmp_path / "nothing.db").exists()


# -- 96: permissions ------------------------------------------------------------------------------


@pytest.fixture
def shared():
    """A folder that other users can reach, unlike that of pytest."""
    folder = Path(tempfile.mkdtemp(prefix="stator-rights-"))
    folder.chmod(0o755)
    yield folder
    folder.chmod(0o755)
    shutil.rmtree(folder)


@pytest.fixture(params=["file", "folder"])
def unwritable(request, shared, original):
    """A store that can be read but not written, because of its file or its folder."""
    path = copy_store(original, shared / "store.db")
    path.chmod(0o444 if request.param == "file" else 0o666)
    shared.chmod(0o555 if request.param == "folder" else 0o777)
    return path


def test_an_unwritable_store_can_be_read(zygote, unwritable):
    worker = zygote.start("without_rights", unwritable, "main")
    said = worker.drain()
    zygote.end(worker)
    assert said[0] > 1, said


def test_an_unwritable_store_is_not_written_to(zygote, unwritable):
    before = unwritable.read_bytes()
    code = zygote.run("without_rights", unwritable, "main")
    assert (code, unwritable.read_bytes() == before) == (StoreReadOnly.code, True)


def test_a_store_with_a_wal_in_an_unwritable_folder_is_refused(zygote, shared, unclosed):
    source, _ = unclosed
    path = copy_store(source, shared / "store.db")
    Path(f"{path}-shm").unlink()
    for name in os.listdir(shared):
        (shared / name).chmod(0o444)
    shared.chmod(0o555)
    assert zygote.run("without_rights", path, "main") == StoreReadOnly.code


def test_a_read_only_store_refuses_writes(copy):
    with connect(copy, read_only=True, project="test") as store, pytest.raises(StoreReadOnly):
        store.open("main")


def test_reading_leaves_the_file_unchanged(copy):
    before = copy.read_bytes()
    with connect(copy, read_only=True, project="test") as store:
        answers(store)
    assert copy.read_bytes() == before


# -- 97: other page sizes and encodings -----------------------------------------------------------


@pytest.mark.parametrize("pragma", ["page_size = 512", "page_size = 65536", "auto_vacuum = 0"])
def test_a_store_with_another_page_layout_works(copy, pragma):
    db = bare(copy)
    db.execute("PRAGMA journal_mode = DELETE")
    db.execute(f"PRAGMA {pragma}")
    db.execute("VACUUM")
    db.execute("PRAGMA journal_mode = WAL")
    db.close()
    with connect(copy, project="test") as store:
        store.open("main").pause()
    assert findings(copy) == []


def test_a_store_in_another_encoding_works_or_is_refused(tmp_path, copy):
    other = tmp_path / "utf16.db"
    db = bare(other)
    db.execute("PRAGMA encoding = 'UTF-16le'")
    source = bare(copy)
    for (sql,) in source.execute("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL"):
        db.execute(sql)
    for table in ("meta", "log", "blob", "blob_use", "session", "alias", "commit_ix", "origin_ix"):
        rows = source.execute(f"SELECT * FROM {table}").fetchall()
        db.executemany(
            f"INSERT INTO {table} VALUES ({','.join('?' * len(rows[0]))})" if rows else "SELECT 1",
            rows or [()],
        )
    for pragma in ("application_id", "user_version"):
        db.execute(f"PRAGMA {pragma} = {source.pragma(pragma)}")
    source.close()
    db.close()
    try:
        with connect(other, project="test") as store:
            store.port.rebuild()
            store.open("main").pause()
    except StoreError:
        return
    assert findings(other) == []


def test_a_store_in_rollback_mode_is_switched_to_wal_or_refused(copy):
    db = bare(copy)
    db.execute("PRAGMA journal_mode = DELETE")
    db.close()
    try:
        with connect(copy, project="test") as store:
            store.open("main").pause()
    except StoreError:
        return
    db = bare(copy)
    mode = db.pragma("journal_mode")
    db.close()
    assert mode == "wal"


# -- 25, 99: files that are no store --------------------------------------------------------------


def nothing_like(folder: Path, kind: str) -> Path:
    path = folder / f"{kind}.db"
    if kind == "empty":
        path.touch()
    elif kind == "text":
        path.write_text("not a database\n" * 500)
    elif kind == "header":
        path.write_bytes(b"SQLite format 3\0" + b"\0" * 84)
    elif kind == "zeros":
        path.write_bytes(b"\0" * 8192)
    elif kind == "sqlite":
        other = sqlite3.connect(path)
        other.execute("CREATE TABLE mine (x)")
        other.commit()
        other.close()
    elif kind == "empty sqlite":
        db = bare(path)
        db.execute("PRAGMA user_version = 1")
        db.close()
    return path


@pytest.mark.parametrize("kind", ["empty", "text", "header", "zeros", "sqlite", "empty sqlite"])
def test_a_file_that_is_not_a_store_is_refused(tmp_path, kind):
    with pytest.raises(NotAStore):
        connect(nothing_like(tmp_path, kind), project="test")


@pytest.mark.parametrize("kind", ["empty", "text", "header", "zeros", "sqlite", "empty sqlite"])
def test_a_file_that_is_not_a_store_is_unchanged(tmp_path, kind):
    path = nothing_like(tmp_path, kind)
    before = path.read_bytes()
    with pytest.raises(NotAStore):
        connect(path, project="test")
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == [path.name]


def test_a_truncated_store_is_refused_or_reported(copy):
    whole = copy.read_bytes()
    rng = random.Random(99)
    for size in [1, 99, 100, 512, 4095, 4096, 8192, *rng.sample(range(len(whole)), 20)]:
        copy.write_bytes(whole[:size])
        assert findings(copy) != [], size


def special(folder: Path, kind: str) -> Path:
    path = folder / "special.db"
    if kind == "folder":
        path.mkdir()
    elif kind == "FIFO":
        os.mkfifo(path)
    else:
        return Path(kind)
    return path


@pytest.mark.parametrize(
    "kind", ["folder", "FIFO", "/dev/null", "/dev/zero", "/proc/self/mem", "/proc"]
)
def test_a_path_that_is_not_a_file_is_refused_without_opening_it(tmp_path, kind):
    path = special(tmp_path, kind)
    with pytest.raises(NotAStore):
        connect(path, project="test")
    assert stat.S_IFMT(path.stat().st_mode) == stat.S_IFMT(special_mode(path))


def special_mode(path: Path) -> int:
    return os.lstat(path).st_mode


@pytest.mark.parametrize("path", ["", "a\0b.db", "/nonexistent/folder/store.db"])
def test_an_impossible_path_is_refused(path):
    with pytest.raises(NotAStore):
        connect(path, project="test")


def test_a_path_below_a_file_is_refused(copy):
    with pytest.raises(NotAStore):
        connect(copy / "store.db", project="test")


def test_opening_a_missing_store_without_create_makes_no_file(tmp_path):
    with pytest.raises(NotAStore):
        connect(tmp_path / "none.db", create=False, project="test")
    assert os.listdir(tmp_path) == []


# -- 100: a reader that blocks checkpoints of the WAL ---------------------------------------------


def test_a_long_reader_does_not_block_writers(copy):
    with connect(copy, project="test") as store:
        reader = apsw.Connection(str(copy), flags=apsw.SQLITE_OPEN_READONLY)
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM log").fetchone()
        with store.open("main") as session, session.turn() as turn:
            for n in range(300):
                turn.fact(f"fact {n}", "x" * 1000)
        reader.close()
        assert len(list(all_sessions(store))) == 2
    assert findings(copy) == []


def test_the_fingerprint_of_each_schema_matches_its_file():
    from stator.store.sqlite import connection

    for version in connection.SCHEMA_FILES:
        made = connection.scratch(version)
        assert connection.fingerprint(made) == connection.expected_fingerprint(version)
        made.close()
