"""The laws of the model, as properties: fold, patch, chain, erasure, reducer, sealing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jsonpatch
import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stator.errors import BadDelta, StatorError
from stator.model.log import chain
from stator.model.log.commit import (
    CONTENT,
    Change,
    Commit,
    Draft,
    Gone,
    Provenance,
    Remove,
    Upsert,
)
from stator.model.log.delta import (
    Drop,
    Op,
    Put,
    from_plain,
    json_patch,
    to_plain,
)
from stator.model.log.fold import fold
from stator.model.log.reduce import reduce
from stator.model.log.seal import Place, same_part, seal
from stator.model.records.tables import COLLECTIONS, empty, key_of
from stator.model.records.types import (
    AppRecord,
    ArtifactRecord,
    DecisionRecord,
    Entry,
    FactRecord,
    FileRecord,
    PlanRecord,
    Record,
    ScratchRecord,
    State,
)
from stator.store.contract.drive import START, Drafts, Ids, salts

# --- stories ------------------------------------------------------------------------------------

names = st.sampled_from(["a", "b", "~c/d", "e\nf", "", "ü"])
topics = st.sampled_from(["", "auth", "db", "~/x"])
values = st.sampled_from([None, True, 0, -7, 2.5, "text", b"bytes", ["l", {"k": 1}], 2**60])
upserts: st.SearchStrategy[Change] = st.one_of(
    st.builds(lambda n, v: Upsert("facts", FactRecord(name=n, value=v)), names, values),
    st.builds(lambda n, v: Upsert("scratch", ScratchRecord(name=n, value=v)), names, values),
    st.builds(lambda n, v: Upsert("app", AppRecord(name=n, value=v)), names, values),
    st.builds(lambda n: Upsert("artifacts", ArtifactRecord(name=n)), names),
    st.builds(lambda n, o: Upsert("plan", PlanRecord(step=n, order=o)), names, st.integers(0, 9)),
    st.builds(
        lambda p, q, op: Upsert("files", FileRecord(path=p, from_path=q, op=op, after=p)),
        names.filter(bool),
        names,
        st.sampled_from(["created", "modified", "renamed", "deleted"]),
    ),
    st.builds(lambda t, n: Upsert("decisions", DecisionRecord(what=n, topic=t)), topics, names),
)
removals: st.SearchStrategy[Change] = st.builds(
    Remove, st.sampled_from(["facts", "scratch", "plan", "files"]), names
)
drafts_of = st.lists(st.lists(upserts | removals, max_size=3), min_size=1, max_size=12)


class Memory:
    """A state made of commits, as the reducer looks at it."""

    def __init__(self, commits: Sequence[Commit] = ()) -> None:
        self.entries: dict[tuple[str, str], Entry] = {}
        for commit in commits:
            self.take(commit)

    def take(self, commit: Commit) -> None:
        for op in commit.delta:
            self.entries.pop((op.collection, op.id), None)
            if isinstance(op, Put):
                key = key_of(COLLECTIONS[op.collection], op.record, op.id)
                entry = Entry(op.collection, op.id, key, commit.seq, commit.turn, op.record)
                self.entries[op.collection, op.id] = entry

    def all(self, collection: str) -> list[Entry]:
        return [entry for entry in self.entries.values() if entry.collection == collection]

    def find(self, collection: str, key: str) -> Entry | None:
        return next((entry for entry in self.all(collection) if entry.key == key), None)

    def locate(self, identifier: str) -> int:
        return 0


def tell(story: list[list[Change]], salted: Callable[[int], bytes] | None = None) -> list[Commit]:
    """The commits of a story, without drafts that drop a missing record."""
    ids = Ids("laws")
    drafts = Drafts(ids, ids("session"))
    draw = salted or salts("laws")
    opening = drafts.open("story")
    log: list[Commit] = []
    view = Memory()
    for draft in [opening, *(rich(drafts, changes, n) for n, changes in enumerate(story))]:
        prev = log[-1].hash if log else chain.GENESIS
        place = Place(len(log) + 1, 0, START + len(log), prev)
        try:
            log.append(seal(draft, place, view, None, draw).commit)
        except BadDelta:
            continue
        view.take(log[-1])
    return log


def rich(drafts: Drafts, changes: list[Change], n: int) -> Draft:
    """A draft with a value in every field."""
    return drafts.make(
        "fact", *changes, actor="user", attempt=n, call=drafts.ids("call"), cause="because",
        effect="write", epoch=n, happened=START - n, input={"n": n}, inputs=(1, "k"), key=f"key {n}",
        origin=("hook", str(n)), output=["out", n], output_summary="short", parent=drafts.ids("call"),
        principal="me", provenance=Provenance("web", "unverified"), run=drafts.ids("run"),
        status="ok", tool="tool", trace="00-1", usage={"tokens": n}, why="why not",
    )  # fmt: skip


stories = drafts_of.map(tell)
laws = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


# --- fold ---------------------------------------------------------------------------------------


@laws
@given(stories, st.data())
def test_folding_from_any_snapshot_equals_folding_from_the_start(
    log: list[Commit], data: st.DataObject
) -> None:
    """A snapshot is a cache, and folding from it does not change it."""
    deltas = [commit.delta for commit in log]
    cut = data.draw(st.integers(0, len(deltas)))
    snapshot = fold(deltas[:cut])
    kept = {name: dict(records) for name, records in snapshot.items()}
    assert fold(deltas[cut:], snapshot) == fold(deltas)
    assert snapshot == kept


@laws
@given(stories)
def test_the_folded_state_equals_the_view_of_the_reducer(log: list[Commit]) -> None:
    """The state by ids and the view by keys hold the same records."""
    view = Memory(log)
    seen = {(entry.collection, entry.id): entry.record for entry in view.entries.values()}
    state = fold(commit.delta for commit in log)
    assert seen == {(c, i): record for c, records in state.items() for i, record in records.items()}


@laws
@given(stories)
def test_records_survive_conversion_to_plain_data(log: list[Commit]) -> None:
    """Typed → plain → typed is the identity."""
    for commit in log:
        for op in commit.delta:
            if isinstance(op, Put):
                assert from_plain(op.collection, to_plain(op.record)) == op.record


# --- JSON Patch ---------------------------------------------------------------------------------


def as_json(state: State) -> dict[str, Any]:
    return {
        name: {identifier: to_plain(record) for identifier, record in records.items()}
        for name, records in state.items()
    }


@laws
@given(stories)
def test_a_delta_rendered_as_json_patch_has_the_same_effect(log: list[Commit]) -> None:
    """Applied by an independent implementation of RFC 6902, commit by commit."""
    document = as_json(empty())
    for n, commit in enumerate(log):
        document = jsonpatch.apply_patch(document, json_patch(commit.delta))
        assert document == as_json(fold(c.delta for c in log[: n + 1]))


# --- the chain ----------------------------------------------------------------------------------


def other(value: Any) -> Any:
    """Another value of the same type."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, str):
        return value[:-1] + ("0" if value[-1:] != "0" else "1") if value else "x"
    if isinstance(value, bytes):
        return value[:-1] + bytes([value[-1] ^ 1]) if value else b"x"
    if isinstance(value, Provenance):
        return Provenance("tool", value.trust)
    if isinstance(value, tuple):
        return (*value[:-1], other(value[-1]))
    if isinstance(value, list):
        return [*value[:-1], other(value[-1])] if value else [1]
    assert value is None
    return ("hook", "new")


def changed_items(commit: Commit) -> Iterator[tuple[str, Commit]]:
    """One content item with a changed, a missing or an additional byte."""
    for name, item in commit.content.items():
        assert isinstance(item, bytes)
        rest = {k: v for k, v in commit.content.items() if k != name}
        for what, new in (("changed", other(item)), ("cut", item[:-1]), ("longer", item + b" ")):
            yield f"{name} {what}", replace(commit, content=commit.content | {name: new})
        yield f"{name} left out", replace(commit, content=rest)
        false = Gone(99, bytes(32))
        yield f"{name} erased by a lie", replace(commit, content=commit.content | {name: false})
    for name in CONTENT:
        if name not in commit.content:
            yield f"{name} added", replace(commit, content=commit.content | {name: b"1"})
    yield "an unknown item added", replace(commit, content=commit.content | {"extra": b"1"})
    beyond = chain.put_item(len(commit.delta))
    yield "a put too many", replace(commit, content=commit.content | {beyond: b"{}"})


def changed_ops(commit: Commit) -> Iterator[tuple[str, Commit]]:
    """One op with another id, was or collection; or inverted, missing, repeated or moved."""
    delta = commit.delta
    for n, op in enumerate(delta):
        elsewhere = "facts" if op.collection != "facts" else "plan"
        turned: Op = (
            Drop(op.collection, op.id, op.was)
            if isinstance(op, Put)
            else Put(op.collection, op.id, FactRecord(name="x"), op.was)
        )
        for what, new in (
            ("id", msgspec.structs.replace(op, id=other(op.id))),
            ("was", msgspec.structs.replace(op, was=op.was + 1)),
            ("collection", msgspec.structs.replace(op, collection=elsewhere)),
            ("turned round", turned),
        ):
            yield f"op {n} {what}", replace(commit, delta=[*delta[:n], new, *delta[n + 1 :]])
        yield f"op {n} left out", replace(commit, delta=delta[:n] + delta[n + 1 :])
    yield "an op added", replace(commit, delta=[*delta, Drop("facts", "x", 1)])
    if len(delta) > 1:
        yield "ops turned round", replace(commit, delta=delta[::-1])


def replace(commit: Commit, **fields: Any) -> Commit:
    return msgspec.structs.replace(commit, **fields)


STRUCTURE = sorted(set(Commit.__struct_fields__) - {"content", "delta", "salts"})
"""Every stored field that is one value; content, delta and salts are changed item by item."""


@laws
@given(stories)
def test_any_change_to_any_stored_field_breaks_the_chain_at_that_commit(log: list[Commit]) -> None:
    """The commits before it stay valid."""
    prev = chain.GENESIS
    for n, commit in enumerate(log):
        assert chain.check(commit, prev, n + 1) is None
        for name in STRUCTURE:
            forged = replace(commit, **{name: other(getattr(commit, name))})
            assert chain.check(forged, prev, n + 1) is not None, name
        for what, forged in (*changed_items(commit), *changed_ops(commit)):
            assert chain.check(forged, prev, n + 1) is not None, what
        prev = commit.hash


@laws
@given(stories)
def test_a_moved_repeated_or_missing_commit_breaks_the_chain(log: list[Commit]) -> None:
    """A chain is an order."""
    for n, commit in enumerate(log[1:], 1):
        before = log[n - 1].hash
        assert chain.check(commit, before, n) is not None
        assert chain.check(commit, before, n + 2) is not None
        assert chain.check(commit, log[n - 2].hash if n > 1 else "0" * 63 + "1", n + 1) is not None


@laws
@given(stories, st.data())
def test_erasing_any_items_removes_the_bytes_and_keeps_the_chain_valid(
    log: list[Commit], data: st.DataObject
) -> None:
    """Neither bytes nor salt of an erased item are in the object; everything else is unchanged."""
    prev = chain.GENESIS
    for n, commit in enumerate(log):
        chosen = data.draw(st.sets(st.sampled_from(sorted(commit.content))))
        bare = chain.without(commit, chosen, by=99)
        assert chain.check(bare, prev, n + 1) is None
        for name, item in commit.content.items():
            if name in chosen:
                left = bare.content[name]
                assert isinstance(left, Gone)
                assert left.by == 99
                assert name not in bare.salts
            elif name not in chain.with_traces(chosen):
                assert bare.content[name] == item
        assert not chosen or not bare.salt
        again = chain.without(bare, chosen, by=100)
        assert again.content == bare.content
        prev = bare.hash


@laws
@given(stories)
def test_changing_a_salt_kept_by_an_erasure_breaks_the_chain(log: list[Commit]) -> None:
    """The separate salts that an erasure keeps are covered by the hash."""
    commit = log[-1]
    bare = chain.without(commit, {"why"}, by=99)
    for name, salt in bare.salts.items():
        forged = replace(bare, salts=bare.salts | {name: other(salt)})
        assert chain.check(forged, commit.prev, commit.seq) is not None, name


@laws
@given(stories)
def test_equal_contents_have_different_commitments(log: list[Commit]) -> None:
    """The salts hide that two erased items were equal."""
    gone: list[bytes] = []
    for commit in log:
        bare = chain.without(commit, set(commit.content), by=99)
        gone += [item.commitment for item in bare.content.values() if isinstance(item, Gone)]
    assert len(set(gone)) == len(gone)


# --- the reducer --------------------------------------------------------------------------------


@laws
@given(st.lists(st.tuples(topics.filter(bool), names), min_size=1, max_size=10))
def test_superseding_keeps_exactly_one_current_decision_per_topic(
    choices: list[tuple[str, str]],
) -> None:
    """The last one is current and names the one before it."""
    log = tell([[Upsert("decisions", DecisionRecord(what=w, topic=t))] for t, w in choices])
    standing = list(fold(commit.delta for commit in log)["decisions"].values())
    found = {record.topic: record.what for record in standing if isinstance(record, DecisionRecord)}
    assert len(standing) == len(found)
    assert found == dict(choices)


@laws
@given(st.lists(names, min_size=2, max_size=6))
def test_decisions_without_a_topic_are_all_kept(choices: list[str]) -> None:
    """Nothing supersedes a decision without a topic."""
    log = tell([[Upsert("decisions", DecisionRecord(what=what))] for what in choices])
    assert len(fold(commit.delta for commit in log)["decisions"]) == len(choices)


@laws
@given(
    st.sampled_from(["facts", "scratch", "plan", "preferences", "app"]),
    names,
    st.booleans(),
    values,
)
def test_put_then_drop_leaves_nothing(
    collection: str, key: str, together: bool, value: Any
) -> None:
    """In one commit or in two."""
    spec = COLLECTIONS[collection]
    fields: dict[str, Any] = {spec.key[0]: key}
    if "value" in spec.type.__struct_fields__:
        fields["value"] = value
    record: Record = spec.type(**fields)
    put, drop = Upsert(collection, record), Remove(collection, key)
    log = tell([[put, drop]] if together else [[put], [drop]])
    assert len(log) == (2 if together else 3)
    assert fold(commit.delta for commit in log)[collection] == {}


@laws
@given(stories)
def test_one_key_names_one_record(log: list[Commit]) -> None:
    """Writing a key again changes the same record."""
    for n in range(len(log)):
        view = Memory(log[: n + 1])
        keys = [(entry.collection, entry.key) for entry in view.entries.values()]
        assert len(keys) == len(set(keys))


@laws
@given(stories)
def test_was_is_the_seq_that_last_changed_the_record(log: list[Commit]) -> None:
    """0 if it is new; within one commit, what it was before that commit."""
    last: dict[tuple[str, str], int] = {}
    for commit in log:
        for op in commit.delta:
            assert op.was == last.get((op.collection, op.id), 0)
        last |= {(op.collection, op.id): commit.seq for op in commit.delta}


@laws
@given(stories, st.lists(upserts | removals, min_size=1, max_size=4))
def test_the_same_draft_and_view_make_the_same_delta(
    log: list[Commit], changes: list[Change]
) -> None:
    """The reducer is a pure function and does not change its view."""
    ids = Ids("again")
    draft = rich(Drafts(ids, log[0].session), changes, 1)
    view = Memory(log)
    before = dict(view.entries)

    def once() -> object:
        try:
            return reduce(draft, view)
        except StatorError as error:
            return type(error)

    assert once() == once()
    assert view.entries == before


# --- sealing ------------------------------------------------------------------------------------


@laws
@given(drafts_of)
def test_sealing_is_deterministic_given_the_salts(story: list[list[Change]]) -> None:
    """Equal salts, equal hashes; other salts, other hashes."""
    assert tell(story) == tell(story)
    one, other_salts = tell(story), tell(story, salts("others"))
    assert all(a.hash != b.hash for a, b in zip(one, other_salts, strict=True))


@laws
@given(stories)
def test_sealing_gives_the_hash_that_checking_recomputes(log: list[Commit]) -> None:
    """Both compute the same hash."""
    for commit in log:
        assert chain.rehash(commit) == commit.hash


@laws
@given(drafts_of)
def test_a_draft_is_recognised_as_the_commit_it_became(story: list[list[Change]]) -> None:
    """With the state it was applied to, and after later commits."""
    ids = Ids("laws")
    drafts = Drafts(ids, ids("session"))
    made = {draft.id: draft for draft in [drafts.open("story")]}
    for n, changes in enumerate(story):
        draft = rich(drafts, changes, n)
        made[draft.id] = draft
    log = tell(story)
    for n, commit in enumerate(log):
        draft = made[commit.id]
        assert same_part(draft, commit, Memory(log[:n]), None)
        assert not same_part(
            msgspec.structs.replace(draft, why="other"), commit, Memory(log[:n]), None
        )
