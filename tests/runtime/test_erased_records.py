"""Every reading of a session works when records of it were erased, for each collection."""

from __future__ import annotations

import pytest

import stator
from model.kinds import record_found
from reliability.support import copy_store, populate
from stator.connect import connect
from stator.model.records.tables import COLLECTIONS
from stator.model.records.types import ErasedRecord

KEPT = ("session", "children", "evicted")
"""A session's own record cannot be erased; of the others `history` has none."""
ERASABLE = [name for name in COLLECTIONS if name not in KEPT]
EVERYTHING = "everything"


@stator.tool()
def lose(order: str) -> str:
    raise stator.InDoubt("the connection was lost")


def history(store: stator.Store) -> None:
    """A session with a record in every collection that can be erased."""
    populate(store, turns=2, big=False)
    with store.open("main") as s, s.turn("lose one") as t:
        t.configure(permission_mode="plan")
        t.try_call(lose, order="A-1")
        record_found(s)
    store.approvals.grant("main", "pay")
    store.contribute("main").vouch("tool:lose", why="it is ours")
    store.fork("main", "t2", as_name="branch")


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    path = tmp_path_factory.mktemp("original") / "agent.db"
    with connect(path, project="test", durability="relaxed") as store:
        history(store)
    return path


@pytest.fixture(scope="module", params=[*ERASABLE, EVERYTHING])
def erased(request, original, tmp_path_factory):
    """A store in which all live records of one collection, or of all, were erased."""
    path = copy_store(original, tmp_path_factory.mktemp("erased") / "agent.db")
    with connect(path, project="test", durability="relaxed") as store:
        names = ERASABLE if request.param == EVERYTHING else [request.param]
        count = 0
        with store.open("main") as s:
            for name in names:
                for entry in s.entries(name):
                    s.erase(record=(name, entry.id))
                    count += 1
        assert count >= len(names)
        yield store


READS = {
    "decisions": lambda st, v: [(d.record.what, d.record.why) for d in v.decisions()],
    "decisions in force": lambda st, v: [d.record.what for d in v.decisions(standing=True)],
    "decisions not in force": lambda st, v: [d.record.what for d in v.decisions(standing=False)],
    "decisions of the store": lambda st, v: [d.record.what for d in st.decisions()],
    "facts": lambda st, v: v.facts(),
    "files": lambda st, v: [(f.path, f.op) for f in (*v.files(), *st.files())],
    "why": lambda st, v: [r.text for r in (*v.why("src/all.py"), *st.why("src/all.py"))],
    "artifacts": lambda st, v: [(a.name, a.version) for a in v.artifacts()],
    "brief": lambda st, v: str(v.brief()),
    "diff": lambda st, v: (v.diff("t0..head"), v.diff(), v.patch("t0..head")),
    "state": lambda st, v: (v.state(), v.state("t1"), v.app),
    "hot": lambda st, v: [e.record for page in v.hot().values() for e in page],
    "log": lambda st, v: (list(v.log()), list(v.tail(0, follow=False))),
    "calls": lambda st, v: (v.calls(), st.calls().rows),
    "tree": lambda st, v: (v.tree(), v.reflog(), v.evicted(), v.turns(), v.counts),
    "search": lambda st, v: list(st.search("plan")),
    "approvals": lambda st, v: (st.approvals.waiting(), st.approvals.grants()),
    "budgets": lambda st, v: (st.budgets.spent("main"), st.budgets.limits("main")),
    "verify": lambda st, v: v.id if st.verify().ok else pytest.fail("does not verify"),
}


@pytest.fixture
def view(erased):
    return erased.read("main")


def test_every_reading_works(erased, view):
    for read in READS.values():
        read(erased, view)


def test_every_entry_has_the_fields_of_its_collection(view):
    for collection, known in COLLECTIONS.items():
        for entry in view.entries(collection):
            assert [getattr(entry.record, name) for name in known.type.__struct_fields__]


def test_the_session_can_be_driven_to_its_end(erased):
    with erased.open("main") as s, s.turn("go on") as t:
        t.decide("new", topic="plan")
        t.fact("answer", 5)
        t.plan(["a step"])
        t.prefer("tabs", True)
        t.file("src/all.py", "modified")
        t.pend("later")
        t.note("scratch", [1])
        t.set(count=9)
        t.artifact("report", "another")
        t.use("file", "src/all.py")
        assert t.messages("plain")
    assert erased.read("main").turns()[-1].status == "ok"


@pytest.fixture
def decided(tmp_path):
    with connect(tmp_path / "agent.db", project="test") as store:
        with store.open("a") as s, s.turn("1") as t:
            t.decide("keep", topic="kept")
            t.decide("secret", topic="gone")
            gone = next(e for e in s.entries("decisions") if e.key == "gone")
            s.erase(record=("decisions", gone.id))
            erasure = s.head.seq
        yield store.read("a"), gone.id, erasure


def test_an_erased_decision_is_not_current(decided):
    view, _, _ = decided
    assert [line.record.what for line in view.decisions(standing=True)] == ["keep"]


def test_an_erased_decision_is_listed_with_the_commit_that_erased_it(decided):
    view, gone, erasure = decided
    (line,) = view.decisions(standing=False)
    assert (line.id, line.record.what, line.erased) == (gone, "(erased)", erasure)


def test_entries_gives_erased_records_when_asked_for_them(decided):
    view, gone, erasure = decided
    found = {entry.id: entry.record for entry in view.entries("decisions", erased=True)}
    assert found[gone] == ErasedRecord(erased=erasure)


def test_a_limit_counts_records_that_were_not_erased(decided):
    view, _, _ = decided
    assert [entry.key for entry in view.entries("decisions", limit=1)] == ["kept"]


def test_the_state_holds_a_typed_erased_record(decided):
    view, gone, erasure = decided
    record = view.state()["decisions"][gone]
    assert record == ErasedRecord(erased=erasure)
    with pytest.raises(AttributeError, match=f"erased by @{erasure}"):
        print(record.what)


def test_a_driver_whose_run_record_was_erased_leaves_in_order(tmp_path):
    with connect(tmp_path / "agent.db", project="test") as store:
        with store.open("a") as s:
            s.erase(record=("runs", s.entries("runs")[0].id))
        assert store.read("a").status == "paused"
        with store.open("a") as s:
            ends = [commit.status for commit in s.log() if commit.kind == "run_end"]
    assert ends == ["ok"]
