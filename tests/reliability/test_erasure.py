"""Erasure removes the bytes from the file, keeps the chain valid, and shows in the state."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from reliability.support import answers, findings, incompressible, recorded_session
from stator.connect import connect
from stator.errors import Erased
from stator.model.log.commit import Draft, Erase
from stator.model.records.types import ErasedRecord
from stator.store.sqlite import space

pytestmark = pytest.mark.usefixtures("uncompressed")

MARK = b"q7Zx-marker-"


def marker(name: str) -> str:
    """Text to search for in the file."""
    return MARK.decode() + name + "-Vw3Kp9Lm2Xc8"


def everywhere(path: Path) -> bytes:
    """Every byte the store has on disk."""
    return b"".join(
        Path(f"{path}{suffix}").read_bytes()
        for suffix in ("", "-wal")
        if Path(f"{path}{suffix}").exists()
    )


def big(name: str) -> str:
    """A text that is kept as a blob."""
    return incompressible(24_000, name) + marker(name) + incompressible(24_000, name + "'")


@pytest.fixture
def session(store):
    with store.open("main") as session:
        yield session


def prompt(session, text: str) -> str:
    """Record a turn with that prompt; returns the position of its commit."""
    seq = session.head.seq + 1
    session.turn(text).end()
    return f"@{seq}"


TEXTS = {"small": marker("x"), "large": big("x")}


@pytest.mark.parametrize("size", TEXTS)
def test_a_text_is_in_the_file_before_it_is_erased(session, path, size):
    """The control: the search can find the text."""
    prompt(session, TEXTS[size])
    assert traces(path, TEXTS[size])


@pytest.mark.parametrize("size", TEXTS)
def test_erased_bytes_are_gone_when_erase_returns(session, path, size):
    session.erase(prompt(session, TEXTS[size]))
    assert not traces(path, TEXTS[size])


@pytest.mark.parametrize("size", TEXTS)
def test_erased_bytes_are_gone_after_close(path, size):
    with connect(path, project="test") as store, store.open("main") as session:
        session.erase(prompt(session, TEXTS[size]))
    assert not traces(path, TEXTS[size])


def traces(path: Path, text: str) -> list[str]:
    """The pieces of a text that are on disk."""
    data = everywhere(path)
    pieces = [text[at : at + 24] for at in range(0, len(text) - 24, 12)] or [text]
    return [piece for piece in {MARK.decode(), *pieces} if piece.encode() in data]


def test_an_erased_record_is_gone_from_the_file(session, path):
    with session.turn() as turn:
        turn.fact("secret plan", marker("one"))
        turn.fact("secret plan", marker("two"))
    (entry,) = session.entries("facts")
    session.erase(record=("facts", entry.id))
    assert not traces(path, marker("one")) + traces(path, marker("two"))


def test_the_name_of_an_erased_record_is_gone_too(session, path):
    with session.turn() as turn:
        turn.fact(marker("name"), 1)
    (entry,) = session.entries("facts")
    session.erase(record=("facts", entry.id))
    assert not traces(path, marker("name"))


def test_a_record_erased_after_it_was_dropped_is_gone(session, path):
    with session.turn() as turn:
        turn.pend(marker("pend"))
        (entry,) = session.entries("pending")
        turn.pend(marker("pend"), done=True)
    session.erase(record=("pending", entry.id))
    assert not traces(path, marker("pend"))


@pytest.mark.parametrize("size", TEXTS)
def test_the_chain_verifies_after_an_erasure(path, size):
    with connect(path, project="test") as store, store.open("main") as session:
        session.erase(prompt(session, TEXTS[size]))
    assert findings(path) == []


def test_the_chain_verifies_after_a_record_was_erased(path):
    with connect(path, project="test") as store, store.open("main") as session:
        with session.turn() as turn:
            turn.fact("plan", 1)
        (entry,) = session.entries("facts")
        session.erase(record=("facts", entry.id))
    assert findings(path) == []


def test_reading_an_erased_field_raises_erased(session):
    ref = prompt(session, marker("x"))
    session.erase(ref)
    with pytest.raises(Erased):
        session.commit(ref).value("input")


def test_an_erased_record_is_listed_as_erased(session):
    with session.turn() as turn:
        turn.fact("plan", 1)
    (entry,) = session.entries("facts")
    session.erase(record=("facts", entry.id))
    found = session.entries("facts", erased=True)
    assert [type(entry.record) for entry in found] == [ErasedRecord]


def test_an_erased_record_is_erased_at_every_earlier_position(session):
    with session.turn() as turn:
        turn.fact("plan", 1)
    at = session.head.seq
    (entry,) = session.entries("facts")
    session.erase(record=("facts", entry.id))
    found = session.entries("facts", f"@{at}", erased=True)
    assert [type(entry.record) for entry in found] == [ErasedRecord]


def test_only_the_named_field_is_erased(session):
    with session.turn(marker("prompt"), key="kept"):
        pass
    seq = session.head.seq - 1
    session.erase(f"@{seq}", fields=["input"])
    assert session.commit(f"@{seq}").value("key") == "kept"


def test_other_commits_keep_their_content(session):
    prompt(session, "kept")
    kept = session.head.seq - 1
    session.erase(prompt(session, marker("x")))
    assert session.commit(f"@{kept}").value("input") == "kept"


def test_a_blob_that_another_commit_needs_is_kept(session):
    first, second = prompt(session, big("x")), prompt(session, big("x"))
    session.erase(first)
    assert session.commit(second).value("input") == big("x")


def test_a_blob_is_removed_with_the_last_commit_that_needs_it(session, path):
    first, second = prompt(session, big("x")), prompt(session, big("x"))
    session.erase(first)
    session.erase(second)
    assert not traces(path, big("x"))


def test_a_blob_that_another_field_of_the_commit_needs_is_kept(store):
    session = recorded_session(store, "main")
    mint = store.context.mint
    both = Draft(id=mint("commit"), session=session, kind="raw", input=big("x"), output=big("x"))
    seq = store.port.append(session, [both])[0].seq
    erasure = Draft(
        id=mint("commit"),
        session=session,
        kind="erasure",
        changes=(Erase(seq=seq, fields=("input",)),),
    )
    store.port.append(session, [erasure])
    assert store.read(session).commit(f"@{seq}").value("output") == big("x")


def test_content_erased_in_the_parent_is_erased_in_the_fork(store):
    with store.open("main") as session:
        ref = prompt(session, marker("x"))
        store.fork("main", as_name="branch")
        session.erase(ref)
    with pytest.raises(Erased):
        store.read("branch").commit(ref).value("input")


def test_a_rebuild_after_an_erasure_gives_the_same_answers(store, session):
    with session.turn(marker("prompt")) as turn:
        turn.fact("plan", marker("plan"))
        turn.fact("other", 1)
        turn.file("src/all.py", "modified", why=marker("why"))
    (plan, *_) = [entry for entry in session.entries("facts") if entry.key == "plan"]
    session.erase(record=("facts", plan.id))
    session.erase("@3")
    before = answers(store)
    store.port.rebuild()
    assert answers(store) == before


def test_a_fact_can_be_recorded_again_after_its_erasure(session):
    with session.turn() as turn:
        turn.fact("plan", marker("x"))
        (entry,) = session.entries("facts")
        session.erase(record=("facts", entry.id))
        turn.fact("plan", "new")
    assert session.facts() == {"plan": "new"}


def test_erasing_a_missing_record_is_refused(session):
    before = session.head
    with pytest.raises(Exception, match="no record"):
        session.erase(record=("facts", "nothing"))
    assert session.head == before


def test_erasing_twice_leaves_a_valid_store(session, path):
    ref = prompt(session, marker("x"))
    session.erase(ref)
    session.erase(ref)
    assert findings(path) == []


# -- copies that SQLite made ----------------------------------------------------------------------


def many_facts(store, seed: int) -> None:
    """Facts of many sizes, overwritten and erased in any order, so that rows move between pages."""
    chance = random.Random(seed)
    with store.open("moved") as session:
        for _ in range(chance.randint(20, 120)):
            with session.turn("go on") as t:
                for _ in range(chance.randint(1, 6)):
                    name, size = f"f{chance.randint(0, 30)}", chance.randint(10, 900)
                    t.fact(name, MARK.decode() + "x" * size)
    contributor = store.contribute("moved")
    facts = store.read("moved").entries("facts")
    chance.shuffle(facts)
    for fact in facts:
        contributor.erase(record=("facts", fact.id))


@pytest.mark.parametrize("seed", range(3))
def test_no_copy_of_erased_bytes_is_left_where_rows_were_moved(path, seed):
    """`secure_delete` overwrites a row at its current place, not at earlier places."""
    with connect(path, durability="relaxed") as store:
        many_facts(store, seed)
        assert MARK not in everywhere(path)


def test_info_reports_unfinished_erasure_of_a_large_file_until_sync(path, monkeypatch):
    monkeypatch.setattr(space, "WHOLE_MAX", 0)
    with connect(path, durability="relaxed") as store:
        many_facts(store, 1)
        assert store.info().detail["unfinished"]
        store.sync()
        assert not store.info().detail["unfinished"]
        assert MARK not in everywhere(path)


def test_closing_after_an_erasure_rewrites_a_large_file(path, monkeypatch):
    monkeypatch.setattr(space, "WHOLE_MAX", 0)
    with connect(path, durability="relaxed") as store:
        many_facts(store, 1)
    assert MARK not in everywhere(path)
    with connect(path, read_only=True) as store:
        assert not store.info().detail["unfinished"]
