"""What `verify`, `doctor` and `rebuild` say of a damaged store, as data and on the screen."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import stator
from reliability.store_map import PAGE, StoreMap
from reliability.support import answers, bare, copy_store, populate
from stator import testing
from stator.connect import connect
from stator.errors import LogDamaged, StoreCorrupt
from stator.surfaces.cli.commands import doctor
from stator.surfaces.cli.main import main


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    """A closed store: two sessions, and a fork of the first at its second turn."""
    path = tmp_path_factory.mktemp("original") / "store.db"
    with connect(path, project="test") as store:
        populate(store)
        store.fork("main", "t2", as_name="branch")
        with store.open("other") as s:
            for number in range(30):
                s.flag(f"flag {number}")
    return path


@pytest.fixture
def copy(original, tmp_path):
    return copy_store(original, tmp_path / "copy.db")


def ordinal(path: Path, name: str) -> tuple[int, str]:
    db = bare(path)
    found = db.execute("SELECT s, hex(id) FROM session WHERE name = ?", (name,)).fetchall()
    db.close()
    return int(str(found[0][0])), "s_" + str(found[0][1]).lower()


def spoil(path: Path, name: str, seq: int) -> str:
    """Change one byte in the body of a commit; returns the session's id."""
    s, session = ordinal(path, name)
    db = bare(path)
    ((body,),) = db.execute("SELECT body FROM log WHERE k = ?", (s << 40 | seq,)).fetchall()
    assert isinstance(body, bytes)
    spoiled = body[:-4] + bytes([body[-4] ^ 1]) + body[-3:]
    db.execute("UPDATE log SET body = ? WHERE k = ?", (spoiled, s << 40 | seq))
    db.close()
    return session


def verified(path: Path) -> stator.Store:
    return connect(path, create=False, read_only=True, project="test")


def test_a_clean_store_reports_how_much_was_checked(copy):
    with verified(copy) as store:
        report = store.verify()
        heads = {row.id: store.port.head(row.id).hash for row in store.sessions().rows}
    assert (report.ok, report.log_ok, report.sessions) == (True, True, 3)
    assert report.heads == heads


def test_a_memory_store_reports_the_same_fields():
    with testing.memory_store() as store:
        with store.open("a") as s:
            s.flag("x")
        report = store.verify()
    assert (report.ok, report.sessions, report.commits > 3) == (True, 1, True)


def test_every_damaged_session_is_named_with_its_first_bad_commit(copy):
    main_id, other_id = spoil(copy, "main", 5), spoil(copy, "other", 9)
    spoil(copy, "other", 20)
    with verified(copy) as store:
        report = store.verify()
    first: dict[str, tuple[str, int]] = {}
    for found in report.damages:
        if found.check == "chain":
            first.setdefault(found.session, (found.name, found.seq))
    assert first[main_id] == ("main", 5)
    assert first[other_id] == ("other", 9)


def test_a_fork_is_named_for_the_damage_that_it_inherits(copy):
    spoil(copy, "main", 5)
    _, branch = ordinal(copy, "branch")
    with verified(copy) as store:
        named = [(f.session, f.seq) for f in store.verify().damages if f.session == branch]
    assert named == [(branch, 5)]


def test_commits_behind_a_damaged_one_are_still_checked(copy):
    spoil(copy, "other", 9)
    with verified(copy) as store:
        whole = sum(store.port.head(row.id).seq for row in store.sessions().rows)
        inherited = store.read("main").at("t2").seq
        assert store.verify().commits == whole - inherited - 1


def test_pages_of_the_log_that_cannot_be_read_are_named_as_a_range(copy):
    s, session = ordinal(copy, "main")
    region = StoreMap(copy)
    keys = {region.at(byte).key for byte in region.bytes_of("log row")}
    middle = sorted(k for k in keys if k >> 40 == s)[20]
    place = next(b for b in region.bytes_of("log row") if region.at(b).key == middle)
    page = place // PAGE
    on_page = {region.at(b).key for b in range(page * PAGE, (page + 1) * PAGE)} & keys
    data = bytearray(copy.read_bytes())
    data[page * PAGE : (page + 1) * PAGE] = b"\xff" * PAGE
    copy.write_bytes(data)
    with verified(copy) as store:
        damages = [f for f in store.verify().damages if f.check == "chain"]
    lost = {k & (1 << 40) - 1 for k in on_page if k >> 40 == s}
    named = {
        seq for f in damages if f.session == session for seq in range(f.seq, (f.last or f.seq) + 1)
    }
    assert lost <= named


def test_a_reader_that_hits_a_damaged_commit_names_session_and_seq(copy):
    session = spoil_body(copy, "other", 9)
    with verified(copy) as store, pytest.raises(StoreCorrupt) as error:
        list(store.read("other").log())
    assert (error.value.ids["session"], error.value.ids["seq"]) == (session, 9)


def spoil_body(path: Path, name: str, seq: int) -> str:
    """Replace a commit by bytes that are none."""
    s, session = ordinal(path, name)
    db = bare(path)
    db.execute("UPDATE log SET body = x'0091c0' WHERE k = ?", (s << 40 | seq,))
    db.close()
    return session


def test_a_rebuild_refuses_a_damaged_log(copy):
    session = spoil(copy, "main", 12)
    with connect(copy, project="test") as store, pytest.raises(LogDamaged) as error:
        store.port.rebuild()
    wire = error.value.wire()
    assert (wire["code"], wire["ids"]["session"], wire["ids"]["seq"]) == (
        "E_LOG_DAMAGED",
        session,
        12,
    )


def test_a_refused_rebuild_keeps_what_the_indexes_hold(copy):
    spoil(copy, "main", 12)
    db = bare(copy)
    before = db.execute("SELECT * FROM rec").fetchall()
    db.close()
    with connect(copy, project="test") as store, pytest.raises(LogDamaged):
        store.port.rebuild()
    db = bare(copy)
    after = db.execute("SELECT * FROM rec").fetchall()
    db.close()
    assert after == before


def test_a_refused_rebuild_says_what_the_indexes_still_hold(copy):
    with verified(copy) as store:
        seq = max(c.seq for c in store.read("main").log() if c.kind == "decision")
    spoil(copy, "main", seq)
    with connect(copy, project="test") as store, pytest.raises(LogDamaged, match="1 of decisions"):
        store.port.rebuild()


def test_a_rebuild_repairs_indexes_of_an_intact_log(copy):
    with verified(copy) as store:
        before = answers(store)
    db = bare(copy)
    db.execute("DELETE FROM rec")
    db.close()
    with connect(copy, project="test") as store:
        assert not store.verify().ok
        store.port.rebuild()
        assert (store.verify().ok, answers(store)) == (True, before)


# -- on the screen --------------------------------------------------------------------------------


@pytest.fixture
def ask(copy, capsys):
    def run(*words: str) -> tuple[int, str]:
        capsys.readouterr()
        code = main([*words, "--store", str(copy)])
        return code, capsys.readouterr().out

    return run


def test_the_first_line_says_that_the_log_is_damaged(copy, ask):
    spoil(copy, "other", 12)
    code, out = ask("verify")
    assert code == 1
    assert out.splitlines()[0].startswith("✗ the log is damaged in 1 session; 3 sessions, ")
    assert "log is intact" not in out


def test_the_first_line_says_that_the_log_is_intact_only_if_it_is(copy, ask):
    db = bare(copy)
    db.execute("UPDATE turn_ix SET status = 'aborted'")
    db.close()
    code, out = ask("verify")
    assert code == 1
    assert out.splitlines()[0].startswith("✗ the log is intact (3 sessions, ")
    assert "stator doctor --rebuild" in out


def test_json_has_the_report(copy, ask):
    session = spoil(copy, "main", 12)
    code, out = ask("verify", "--json")
    found = json.loads(out)
    first = found["findings"][0]
    assert (code, found["ok"], found["log_ok"], found["sessions"]) == (1, False, False, 3)
    assert (first["session"], first["name"], first["seq"]) == (session, "main", 12)


def test_doctor_names_the_damaged_commit(copy, ask):
    spoil(copy, "main", 12)
    code, out = ask("doctor")
    assert code == 1
    assert "(main) @12" in out
    assert "OK: " not in out


@pytest.fixture
def large(copy, monkeypatch):
    """The copy, counted as a store that is too large to be verified in passing."""
    monkeypatch.setattr(doctor, "WHOLE_MAX", 0)
    return copy


def test_doctor_checks_the_newest_commits_of_a_large_store(large, ask):
    with verified(large) as store:
        newest = store.sessions().rows[0]
    spoil(large, newest.record.name, newest.head)
    code, out = ask("doctor")
    assert code == 1
    assert f"({newest.record.name}) @{newest.head}" in out


def test_doctor_says_that_old_commits_of_a_large_store_were_not_looked_at(large, ask, monkeypatch):
    monkeypatch.setattr(doctor, "COMMITS_MAX", 3)
    spoil(large, "main", 2)
    _, out = ask("doctor")
    assert "(main)" not in out
    assert "not looked at: all but the newest 3 commits" in " ".join(out.split())
    assert "stator doctor --all" in " ".join(out.split())


def test_doctor_looks_at_every_commit_of_a_large_store_when_asked(large, ask, monkeypatch):
    monkeypatch.setattr(doctor, "COMMITS_MAX", 3)
    spoil(large, "main", 2)
    code, out = ask("doctor", "--all")
    assert code == 1
    assert "(main) @2" in out
    assert "not looked at" not in out


def test_doctor_names_a_session_whose_newest_commit_cannot_be_read(large, ask):
    with verified(large) as store:
        newest = store.sessions().rows[0]
    s, _ = ordinal(large, newest.record.name)
    db = bare(large)
    db.execute("UPDATE log SET body = x'00' WHERE k = ?", (s << 40 | newest.head,))
    db.close()
    code, out = ask("doctor")
    assert code == 1
    assert f"({newest.record.name}) @{newest.head}: " in " ".join(out.split())


def test_doctor_refuses_to_rebuild_a_damaged_log(copy, ask):
    spoil(copy, "main", 12)
    code, out = ask("doctor", "--rebuild")
    assert code == 1
    assert "nothing was rebuilt" in " ".join(out.split())


def test_a_store_with_a_damaged_schema_is_read_as_far_as_it_can_be(copy, ask):
    data = copy.read_bytes()
    place = data.index(b"CREATE INDEX call_failed")
    copy.write_bytes(data[:place] + b"CREATE INDEX call_fai1ed" + data[place + 24 :])
    code, out = ask("verify")
    assert code == 1
    assert "3 sessions" in out.splitlines()[0]


def test_a_file_of_which_nothing_can_be_read_is_unusable(copy, ask):
    copy.write_bytes(b"\0" * 100 + copy.read_bytes()[100:])
    assert ask("verify")[0] == 5
