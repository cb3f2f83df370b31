"""Diff: net folding, row by row of the table and for any sequence of edits."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stator.errors import BadDelta
from stator.model.log.delta import Drop, Put, Version
from stator.model.log.fold import fold as folded
from stator.model.records.types import DecisionRecord, Entry, FactRecord, FileRecord
from stator.model.values.canon import encode
from stator.model.views.diff import Touches, apply, compare, ends_of, paired, superseded


def known_of(versions, before):
    """What the first version of each key replaced, where `before` has a record under the key."""
    first: dict[str, Any] = {}
    for version in versions:
        first.setdefault(version.key, version.op)
    return {
        (op.collection, op.id, op.was): Version(
            op.was, 0, 1, key, Put(op.collection, op.id, before[key])
        )
        for key, op in first.items()
        if key in before
    }


def fold(versions, before=None):
    """The diff of a range of one log, whose records under some keys were there before."""
    touches = Touches([], versions)
    pairs = ends_of(touches, known_of(versions, before or {}))
    return compare(pairs, touches, lambda seq: f"why @{seq}", start="t1", end="t2")


def files(*ops, path="a.py", digests=None):
    """Versions of one file from seq 11 on, one per op; `digests` are its digests after each."""
    after = digests or ["" if op == "deleted" else str(n) for n, op in enumerate(ops)]
    records = [
        FileRecord(path=path, op=op, after=digest) for op, digest in zip(ops, after, strict=True)
    ]
    return [
        Version(seq, 0, 2, path, Put("files", path, record, seq - 1))
        for seq, record in enumerate(records, 11)
    ]


# -- the table, row by row ----------------------------------------------------------------------------

TABLE = {
    ("created",): "added",
    ("created", "modified"): "added",
    ("created", "modified", "modified"): "added",
    ("modified",): "changed",
    ("modified", "modified"): "changed",
    ("modified", "deleted"): "removed",
    ("deleted",): "removed",
    ("created", "deleted"): "transient",
    ("created", "modified", "deleted"): "transient",
    ("deleted", "created"): "changed",
    ("created", "deleted", "created"): "added",
    ("read",): "read",
    ("read", "modified"): "changed",
    ("created", "read"): "added",
    ("skipped",): "read",
    ("renamed",): "added",
    ("renamed", "deleted"): "transient",
}


@pytest.mark.parametrize(("ops", "net"), TABLE.items(), ids=lambda value: str(value))
def test_edits_of_a_file_fold_to_their_net_change(ops, net):
    assert net_of(fold(files(*ops))) == net


def net_of(diff):
    """The net change of one file."""
    if diff.items:
        return diff.items[0].change
    return "unchanged" if diff.unchanged else "read" if diff.read else "transient"


def test_equal_digests_at_both_ends_are_no_change():
    before = {"a.py": FileRecord(path="a.py", op="modified", after="same")}
    diff = fold(files("modified", "read", digests=["other", "same"]), before)
    assert (diff.of("files"), diff.unchanged) == ([], {"files": 1})


def test_without_digests_an_edit_is_a_change():
    diff = fold(files("modified", digests=[""]))
    assert net_of(diff) == "changed"


def test_the_commit_of_a_file_is_the_last_that_changed_it_not_the_last_that_read_it():
    (item,) = fold(files("modified", "read")).items
    assert (item.seq, item.why, item.touch.op) == (11, "why @11", "modified")
    assert item.after.op == "read"


def decisions(*whats, start=1):
    """X → Y → Z on one topic, as in the log: a drop and a put each."""
    found = []
    for n, what in enumerate(whats, start):
        if n > 1:
            found.append(Version(n, 0, 2, "db", Drop("decisions", f"d{n - 1}", n - 1)))
        record = DecisionRecord(what=what, topic="db", why=f"for {what}", supersedes=f"d{n - 1}")
        found.append(Version(n, 1, 2, "db", Put("decisions", f"d{n}", record)))
    return found


def test_a_chain_of_decisions_is_one_change_that_lists_the_steps_between():
    before = {"db": DecisionRecord(what="X", topic="db")}
    (item,) = fold(decisions("Y", "Z", start=2), before).items
    assert (item.change, item.before.what, item.after.what) == ("superseded", "X", "Z")
    assert [step.record.what for step in item.via] == ["Y"]
    assert item.why == "for Z"
    assert [step.why for step in item.via] == ["for Y"]


def test_a_decision_made_and_revised_within_the_range_is_added():
    (item,) = fold(decisions("X", "Y")).items
    assert (item.change, item.before, item.after.what) == ("added", None, "Y")


def test_a_decision_reverted_within_the_range_is_unchanged():
    before = {"db": DecisionRecord(what="X", topic="db", why="for X")}
    diff = fold(decisions("Y", "X", start=2), before)
    assert (diff.of("decisions"), diff.unchanged) == ([], {"decisions": 1})


def fact(seq, value, was):
    return Version(seq, 0, 2, "n", Put("facts", "f", FactRecord(name="n", value=value), was))


def test_a_record_put_and_dropped_within_the_range_is_transient():
    diff = fold([fact(1, 1, 0), Version(2, 0, 2, "n", Drop("facts", "f", 1))])
    assert (diff.items, diff.delta, diff.transient) == ([], [], {"facts": 1})
    assert not diff


def test_a_record_that_ends_as_it_began_is_unchanged():
    diff = fold([fact(5, 2, 1), fact(6, 1, 5)], {"n": FactRecord(name="n", value=1)})
    assert (diff.items, diff.unchanged) == ([], {"facts": 1})


def test_a_dropped_record_is_removed():
    (item,) = fold(
        [Version(5, 0, 2, "n", Drop("facts", "f", 1))], {"n": FactRecord(name="n", value=1)}
    ).items
    assert (item.change, item.after) == ("removed", None)


def test_the_delta_of_a_diff_has_one_op_per_record():
    diff = fold([fact(5, 2, 1), fact(6, 3, 5)], {"n": FactRecord(name="n", value=1)})
    (op,) = diff.delta
    assert isinstance(op, Put)
    assert (op.record, op.was) == (FactRecord(name="n", value=3), 1)


# -- two states ---------------------------------------------------------------------------------------


def entry(record_id, record, key="n", collection="facts"):
    return Entry(collection, record_id, key, 1, 1, record)


def of_states(left, right):
    """The diff of two states that nothing explains."""
    nothing = Touches([], [])
    return compare(paired(left, right), nothing, lambda seq: "", start="a", end="b")


@pytest.mark.parametrize(
    ("one", "other"), [(True, 1), (False, 0), ([1], [True]), ({"k": 0}, {"k": False})]
)
def test_values_that_python_calls_equal_and_the_record_does_not_are_a_change(one, other):
    left, right = (FactRecord(name="n", value=value) for value in (one, other))
    (item,) = of_states([entry("f", left)], [entry("f", right)]).items
    assert (item.change, item.before, item.after) == ("changed", left, right)


def test_a_record_of_the_same_name_under_another_id_is_one_item():
    left, right = (FactRecord(name="n", value=value) for value in (1, 2))
    (item,) = of_states([entry("f", left)], [entry("g", right)]).items
    assert (item.change, item.before_id, item.after_id) == ("changed", "f", "g")


def test_an_equal_record_under_another_id_is_an_item_that_is_not_listed():
    record = FactRecord(name="n", value=1)
    diff = of_states([entry("f", record)], [entry("g", record)])
    assert ([item.change for item in diff.items], diff.of("facts")) == (["unchanged"], [])
    assert apply(diff.items, {"facts": {"f": record}}) == {"facts": {"g": record}}


def test_applying_a_diff_leaves_the_state_it_is_given_as_it_was():
    record = FactRecord(name="n", value=1)
    state = {"facts": {"f": record}}
    of_states([entry("f", record)], []).apply(state)
    assert state == {"facts": {"f": record}}


@pytest.mark.parametrize("value", [2, True, None])
def test_applying_a_diff_to_another_state_is_refused(value):
    diff = of_states([entry("f", FactRecord(name="n", value=1))], [])
    other = {} if value is None else {"f": FactRecord(name="n", value=value)}
    with pytest.raises(BadDelta, match="facts/f is not what the diff starts from"):
        diff.apply({"facts": other})


def test_a_decision_that_supersedes_two_takes_the_place_of_one_and_the_other_is_superseded():
    both = [
        entry("a", DecisionRecord(what="A", topic="db"), "db", "decisions"),
        entry("x", DecisionRecord(what="X"), "#x", "decisions"),
    ]
    new = DecisionRecord(what="N", topic="db", supersedes="x")
    versions = [
        Version(9, 0, 2, "db", Drop("decisions", "a", 1)),
        Version(9, 1, 2, "#x", Drop("decisions", "x", 1)),
        Version(9, 2, 2, "db", Put("decisions", "n", new)),
    ]
    pairs = paired(both, [entry("n", new, "db", "decisions")])
    diff = compare(pairs, Touches([], versions), lambda seq: "", start="a", end="b")
    assert [(item.change, item.before_id, item.after_id) for item in diff.items] == [
        ("superseded", "a", "n"),
        ("superseded", "x", ""),
    ]


def test_what_a_rewind_puts_back_superseded_nothing():
    x, z = (
        DecisionRecord(what="X", topic="db"),
        DecisionRecord(what="Z", topic="db", supersedes="x"),
    )
    versions = [
        Version(1, 0, 1, "db", Put("decisions", "x", x)),
        Version(2, 0, 1, "db", Drop("decisions", "x", 1)),
        Version(2, 1, 1, "db", Put("decisions", "z", z)),
    ]
    back = [
        Version(3, 0, 1, "db", Drop("decisions", "z", 2)),
        Version(3, 1, 1, "db", Put("decisions", "x", x)),
    ]
    forth = [
        Version(4, 0, 1, "db", Drop("decisions", "x", 3)),
        Version(4, 1, 1, "db", Put("decisions", "z", z)),
    ]
    assert superseded(versions) == {"x": "z"}
    assert superseded(versions + back) == {}
    assert superseded(versions + back + forth) == {"x": "z"}


FACTS = st.builds(FactRecord, name=st.sampled_from("abc"), value=st.integers(0, 1) | st.booleans())
STATES = st.dictionaries(st.sampled_from("fghij"), FACTS)


@given(STATES, STATES)
def test_the_items_of_a_diff_applied_to_its_start_give_its_end(start, end):
    left, right = (
        [entry(record_id, record, record.name) for record_id, record in side.items()]
        for side in (start, end)
    )
    made = of_states(left, right)
    assert encode(made.apply({"facts": start})) == encode({"facts": end})
    assert encode(folded([made.delta], {"facts": start})) == encode({"facts": end})


# -- any sequence of edits ----------------------------------------------------------------------------

DIGESTS = st.sampled_from("abc")


@st.composite
def histories(draw):
    """A file's life before and in a range: (digest before or None, ops with the digest after each).

    Only valid histories: a file is created when it is missing, and edited or deleted when it exists.
    """
    start = draw(st.none() | DIGESTS)
    now, ops = start, []
    for _ in range(draw(st.integers(1, 8))):
        if now is None:
            op, now = "created", draw(DIGESTS)
        else:
            op = draw(st.sampled_from(["modified", "deleted", "read"]))
            now = {"modified": draw(DIGESTS), "deleted": None, "read": now}[op]
        ops.append((op, now))
    return start, ops


def by_the_table(start, ops):
    """The same table by another rule: only the two ends and whether there was an edit count."""
    end = ops[-1][1]
    if all(op == "read" for op, _ in ops):
        return "read"
    if start is None:
        return "transient" if end is None else "added"
    if end is None:
        return "removed"
    return "unchanged" if start == end else "changed"


@given(histories())
def test_net_folding_of_any_edits_equals_comparing_the_two_ends(history):
    start, ops = history
    before = {}
    if start is not None:
        before["a.py"] = FileRecord(path="a.py", op="modified", after=start)
    versions = files(*(op for op, _ in ops), digests=[after or "" for _, after in ops])
    assert net_of(fold(versions, before)) == by_the_table(start, ops)


@given(st.dictionaries(st.sampled_from(["a.py", "b.py", "c.py"]), histories(), min_size=1))
def test_files_fold_independently_of_each_other(lives):
    versions, before, expected = [], {}, {}
    for path, (start, ops) in lives.items():
        if start is not None:
            before[path] = FileRecord(path=path, op="modified", after=start)
        versions += files(*(op for op, _ in ops), path=path, digests=[a or "" for _, a in ops])
        expected[path] = by_the_table(start, ops)
    diff = fold(sorted(versions, key=lambda version: version.seq), before)
    assert {item.key: item.change for item in diff.of("files")} == {
        path: net for path, net in expected.items() if net in ("added", "changed", "removed")
    }
    nets = list(expected.values())
    assert diff.transient.get("files", 0) == nets.count("transient")
    assert diff.unchanged.get("files", 0) == nets.count("unchanged")
    assert diff.read == nets.count("read")


@given(
    st.lists(st.integers(0, 2) | st.none(), min_size=1, max_size=8), st.none() | st.integers(0, 2)
)
def test_net_folding_of_any_record_equals_comparing_the_two_ends(values, start):
    versions, was = [], 1 if start is not None else 0
    there = start is not None
    for seq, value in enumerate(values, 2):
        if value is None and not there:
            continue
        if value is None:
            versions.append(Version(seq, 0, 2, "n", Drop("facts", "f", was)))
            there, was = False, 0
        else:
            versions.append(fact(seq, value, was))
            there, was = True, seq
    if not versions:
        return
    before = {} if start is None else {"n": FactRecord(name="n", value=start)}
    diff = fold(versions, before)
    last = versions[-1].op
    end = getattr(last, "record").value if isinstance(last, Put) else None  # noqa: B009
    if start == end:
        assert diff.items == []
    else:
        (item,) = diff.items
        expected = "added" if start is None else "removed" if end is None else "changed"
        assert item.change == expected
