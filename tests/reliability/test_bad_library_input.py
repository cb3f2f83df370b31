"""Bad input to the library: a typed error, nothing written, the store still usable.

The numbers in the headings are those of the catalogue of failures; the codes are those of `stator.errors`.
"""

from __future__ import annotations

import contextlib
import enum
import threading
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import msgspec
import pytest

import stator
from reliability.support import answers, fact_draft, findings, look, recorded_session
from stator.connect import connect
from stator.errors import InvalidInput, StatorError
from stator.model.log.commit import Draft, Remove, Upsert
from stator.model.records.types import FactRecord
from stator.model.values.canon import BYTES_MAX, DEPTH_MAX, NODES_MAX
from stator.runtime.driving import lifecycle
from stator.store.sqlite import SqliteStore

LONE = "a\ud800b"


@pytest.fixture
def session(store):
    with store.open("main") as session:
        yield session


@pytest.fixture
def turn(session):
    turn = session.turn("go")
    yield turn
    turn.end()


def refuses(session, code: str, action) -> None:
    """Assert that the action fails with that code, the head is unchanged, and the next append works."""
    before = session.head
    with pytest.raises(StatorError) as error:
        action()
    assert error.value.code == code
    assert session.head == before
    session.flag("still alive")


def result_of(turn, value):
    """Pass a value through a tool call: the result for the caller, and the value in the log."""
    got = turn.call(lambda: value)
    return got, turn.session.commit("head").value("output")


# -- 1: lone surrogates ---------------------------------------------------------------------------


def test_a_lone_surrogate_in_a_value_is_kept(session, turn):
    turn.fact("odd", {LONE: [LONE]})
    assert session.facts().get("odd") == {LONE: [LONE]}


def test_a_lone_surrogate_in_a_prompt_is_kept(session):
    with session.turn(LONE):
        assert session.commit("head").value("input") == LONE


def test_a_lone_surrogate_in_arguments_and_results_is_kept(turn):
    assert result_of(turn, LONE) == (LONE, LONE)


@pytest.mark.parametrize(
    "act",
    [
        lambda t: t.fact(LONE, 1),
        lambda t: t.decide(LONE),
        lambda t: t.decide("x", topic=LONE),
        lambda t: t.decide("x", why=LONE),
        lambda t: t.file(LONE, "read"),
        lambda t: t.file("x", "read", reason=LONE),
        lambda t: t.dead_end(LONE),
        lambda t: t.plan(LONE),
        lambda t: t.pend(LONE),
        lambda t: t.use("file", LONE),
        lambda t: t.note(LONE, 1),
        lambda t: t.prefer(LONE, 1),
        lambda t: t.artifact(LONE, "x"),
        lambda t: t.set(**{LONE: 1}),
        lambda t: t.call(stator.tool(name=LONE)(lambda: 1)),
        lambda t: t.say("x", usage={LONE: 1}),
        lambda t: t.session.flag(LONE),
        lambda t: t.session.score(LONE, 1),
        lambda t: t.session.tag(LONE),
        lambda t: t.session.turn("x", key=LONE) if t.end() is None else None,
    ],
)
def test_a_lone_surrogate_in_a_name_is_kept_or_refused_with_a_code(session, act):
    turn = session.turn("go")
    try:
        act(turn)
    except StatorError as error:
        assert error.code == "E_ENCODING"  # noqa: PT017 - either way is right
    session.flag("still alive")
    assert [commit.seq for commit in session.log()] == list(range(1, session.head.seq + 1))


@pytest.mark.parametrize(
    "options",
    [
        {"name": LONE},
        {"name": "x", "agent": LONE},
        {"name": "x", "project": LONE},
        {"name": "x", "tenant": LONE},
        {"name": "x", "labels": {LONE: "x"}},
        {"name": "x", "labels": {"x": LONE}},
        {"name": "x", "aliases": [(LONE, "x")]},
        {"name": "x", "aliases": [("x", LONE)]},
    ],
)
def test_a_session_with_a_lone_surrogate_is_refused(store, options):
    with pytest.raises(StatorError) as error:
        store.open(options.pop("name"), **options)
    assert error.value.code == "E_ENCODING"
    assert store.sessions().rows == []


# -- 2: NUL ---------------------------------------------------------------------------------------


def test_nul_in_text_is_kept_exactly(session, turn):
    turn.fact("odd", "a\0b")
    assert session.facts().get("odd") == "a\0b"


@pytest.mark.parametrize(
    "bad", ["", "x", "k_\0" + "0" * 31, "k_" + "0" * 31, "K_" + "0" * 32, 5, None]
)
def test_a_bad_commit_id_is_refused(store, session, bad):
    draft = Draft(id=bad, session=session.id, kind="fact")
    refuses(session, "E_ID", lambda: store.port.append(session.id, [draft]))


@pytest.mark.parametrize("bad", ["", "s_\0" + "0" * 31, "s_" + "f" * 32, "'; DROP TABLE log; --"])
def test_a_bad_session_id_is_not_found(store, session, bad):
    draft = fact_draft(store, bad, "x")
    refuses(session, "E_NOT_FOUND", lambda: store.port.append(bad, [draft]))


def test_nul_in_a_path_is_refused(session, turn):
    refuses(session, "E_INVALID", lambda: turn.file("a\0b", "read"))


# -- 3-5: numbers ---------------------------------------------------------------------------------

NOT_NUMBERS = [float("nan"), float("inf"), float("-inf"), 1e400]


@pytest.mark.parametrize("value", NOT_NUMBERS, ids=repr)
def test_nan_and_infinity_are_refused_as_facts(session, turn, value):
    refuses(session, "E_NUMBER", lambda: turn.fact("x", [value]))


@pytest.mark.parametrize("value", NOT_NUMBERS, ids=repr)
def test_nan_and_infinity_are_refused_as_arguments(session, turn, value):
    refuses(session, "E_NUMBER", lambda: turn.call(look, path=value))


@pytest.mark.parametrize("value", NOT_NUMBERS, ids=repr)
def test_nan_and_infinity_are_refused_as_scores(session, value):
    refuses(session, "E_NUMBER", lambda: session.score("x", value))


@pytest.mark.parametrize("value", [1e30, -1e30, 2**60])
def test_a_score_too_large_to_keep_exactly_is_refused(session, value):
    refuses(session, "E_NUMBER", lambda: session.score("x", value))


@pytest.mark.parametrize("value", [-0.1, 1.1, "high", True + 1])
def test_a_confidence_outside_zero_to_one_is_refused(session, turn, value):
    refuses(session, "E_INVALID", lambda: turn.decide("x", confidence=value))


def test_a_confidence_that_is_not_a_number_is_refused(session, turn):
    refuses(session, "E_NUMBER", lambda: turn.decide("x", confidence=float("nan")))


@pytest.mark.parametrize("value", [2**53, 2**63 - 1, 2**63, -(2**64), 10**30])
def test_a_big_integer_is_kept_exactly(session, turn, value):
    turn.fact("big", value)
    assert session.facts().get("big") == value


@pytest.mark.parametrize(
    "value", [-0.0, 0.0, 1.0, 1, True, 5e-324, 1.7976931348623157e308], ids=repr
)
def test_a_number_keeps_its_type(session, turn, value):
    turn.fact("n", [value])
    assert repr(session.facts().get("n")) == repr([value])


# -- 6-11: values ---------------------------------------------------------------------------------


@pytest.mark.parametrize("key", [1, None, (1, 2), b"x", 1.5, True])
def test_a_dict_with_other_keys_than_text_is_refused(session, turn, key):
    refuses(session, "E_TYPE", lambda: turn.fact("x", {key: 1}))


def cyclic():
    value: list[object] = []
    value.append({"again": value})
    return value


def nested(depth: int):
    value: object = 0
    for _ in range(depth):
        value = [value]
    return value


def test_a_value_that_contains_itself_is_refused(session, turn):
    refuses(session, "E_CYCLE", lambda: turn.fact("x", cyclic()))


def test_deep_nesting_is_refused_without_exhausting_the_stack(session, turn):
    refuses(session, "E_DEPTH", lambda: turn.fact("x", nested(100_000)))


def test_deep_arguments_are_refused(session, turn):
    refuses(session, "E_DEPTH", lambda: turn.call(look, path=nested(DEPTH_MAX + 5)))


def test_too_many_values_are_refused(session, turn):
    refuses(session, "E_SIZE", lambda: turn.fact("x", [0] * (NODES_MAX + 1)))


def test_too_many_keys_are_refused(session, turn):
    refuses(
        session, "E_SIZE", lambda: turn.fact("x", dict.fromkeys(map(str, range(NODES_MAX + 1))))
    )


def test_too_long_a_text_is_refused(session, turn):
    refuses(session, "E_SIZE", lambda: turn.fact("x", "x" * (BYTES_MAX + 1)))


@pytest.mark.parametrize(
    "value",
    [
        b"\x00\xff",
        datetime(2026, 1, 2, 3, 4, 5, 6, UTC),
        date(2026, 1, 2),
        Decimal("1.10"),
        UUID(int=7),
        (1, (2, 3)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_value_that_json_lacks_is_kept(turn, value):
    assert result_of(turn, value) == (value, value)


class Plain:
    pass


class Reducible:
    calls = 0

    def __reduce__(self):
        Reducible.calls += 1
        return print, ("loaded",)

    __str__ = __repr__ = __reduce__


@pytest.mark.parametrize(
    "value", [{1, 2}, frozenset(), object(), Plain(), print, Reducible(), 1j, ...]
)
def test_a_value_that_cannot_be_recorded_is_refused(session, turn, value):
    refuses(session, "E_TYPE", lambda: turn.fact("x", value))


def test_no_method_of_a_refused_value_is_called(session, turn):
    refuses(session, "E_TYPE", lambda: turn.fact("x", Reducible()))
    assert Reducible.calls == 0


class Hostile(str):
    def __str__(self):
        raise AssertionError("called")

    __repr__ = __hash__ = __eq__ = __len__ = encode = __iter__ = __str__  # type: ignore[assignment]


class Colour(enum.Enum):
    RED = "red"


class Size(enum.StrEnum):
    SMALL = "small"


def test_a_hostile_str_subclass_is_recorded_as_plain_text(session, turn):
    turn.fact("x", [Hostile("plain")])
    assert session.facts().get("x") == ["plain"]


def test_a_text_enum_is_recorded_as_text(session, turn):
    turn.fact("x", Size.SMALL)
    assert type(session.facts().get("x")) is str


def test_an_enum_that_is_not_text_or_number_is_refused(session, turn):
    refuses(session, "E_TYPE", lambda: turn.fact("x", Colour.RED))


def test_a_call_whose_result_cannot_be_recorded_has_status_ok(session, turn):
    with pytest.raises(StatorError) as error:
        turn.call(object)
    assert error.value.code == "E_TYPE"
    assert session.calls()[0].status == "ok"


# -- 12, 13: names --------------------------------------------------------------------------------


def test_composed_and_decomposed_keys_stay_distinct(session, turn):
    turn.fact("x", {"é": 1, "e\u0301": 2})
    assert session.facts().get("x") == {"é": 1, "e\u0301": 2}


@pytest.mark.parametrize("name", ["", " ", "\t\n", "x" * 10_000, "a\0b", None, 5, b"x"])
def test_an_invalid_session_name_is_refused(store, name):
    with pytest.raises(InvalidInput):
        store.open(name)
    assert store.sessions().rows == []


@pytest.mark.parametrize(
    "name",
    [
        "../x",
        "CON",
        "🙂",
        "-rf",
        "a/b",
        "'; DROP TABLE session; --",
        "last",
        "head",
        "%s",
        "x" * 300,
    ],
)
def test_a_session_name_may_be_any_text(store, name):
    with store.open(name) as session:
        assert session.name == name


# -- 14-19: the wrong state -----------------------------------------------------------------------


def test_a_closed_session_refuses_turns(store):
    with store.open("main") as session:
        session.close()
        with pytest.raises(StatorError) as error:
            session.turn("more")
    assert error.value.code == "E_STATE"


@pytest.mark.parametrize("kind", ["fact", "turn", "call", "entry", "decision"])
def test_a_closed_session_refuses_all_but_a_fixed_list_of_kinds(store, kind):
    with store.open("main") as session:
        session.close()
        before = session.head
        lease = store.port.acquire(session.id, lifecycle.holder(store.context))
        draft = Draft(
            id=store.context.mint("commit"), session=session.id, kind=kind, epoch=lease.epoch
        )
        with pytest.raises(StatorError) as error:
            store.port.append(session.id, [draft])
        store.port.release(lease)
    assert (error.value.code, session.head) == ("E_STATE", before)


def test_the_error_of_a_stale_head_names_the_current_head(store, session):
    stale = session.head.hash
    session.flag("moved")
    draft = fact_draft(store, session.id, "x")
    with pytest.raises(stator.errors.HeadMoved) as error:
        store.port.append(session.id, [draft], if_head=stale)
    assert error.value.head == session.head.hash


def test_the_current_head_is_accepted(store, session):
    draft = fact_draft(store, session.id, "x")
    store.port.append(session.id, [draft], if_head=session.head.hash)
    assert session.facts().get("x") == 0


def test_a_commit_id_reused_with_another_body_is_refused(store, session):
    draft = fact_draft(store, session.id, "x", 1)
    store.port.append(session.id, [draft])
    other = fact_draft(store, session.id, "x", 2, id=draft.id)
    refuses(session, "E_IDEMPOTENCY", lambda: store.port.append(session.id, [other]))


def test_a_commit_id_used_in_another_session_is_refused(store, session):
    other = recorded_session(store, "other")
    draft = fact_draft(store, other, "x", 1)
    store.port.append(other, [draft])
    same = fact_draft(store, session.id, "x", 1, id=draft.id)
    refuses(session, "E_IDEMPOTENCY", lambda: store.port.append(session.id, [same]))


def test_a_commit_appended_twice_is_returned_and_not_written_again(store, session):
    draft = fact_draft(store, session.id, "x", 1)
    first = store.port.append(session.id, [draft])
    before = session.head
    assert store.port.append(session.id, [draft]) == first
    assert session.head == before


@pytest.mark.parametrize(
    "budget",
    [
        {"tokens": 0}, {"tokens": -1}, {"tokens": 2**53}, {"tokens": 1.5}, {"tokens": True},
        {"tokens": "1"}, {"hours": 1}, {"": 1}, {5: 1},
    ],
    ids=repr,
)  # fmt: skip
def test_an_invalid_budget_is_refused(store, budget):
    with pytest.raises(StatorError) as error:
        store.open("main", budget=budget)
    assert error.value.code == "E_BUDGET"
    assert store.sessions().rows == []


def test_a_turn_inside_a_turn_is_refused(session, turn):
    refuses(session, "E_TURN", lambda: session.turn("another"))


def test_an_ended_turn_accepts_nothing(session):
    with session.turn("go") as turn:
        turn.end()
        refuses(session, "E_TURN", lambda: turn.fact("x", 1))


def test_ending_a_turn_that_is_not_open_is_refused(store, session):
    draft = session._draft("turn_end", status="ok")
    refuses(session, "E_TURN", lambda: store.port.append(session.id, [draft]))


def test_removing_a_missing_record_is_refused(session, turn):
    refuses(session, "E_DELTA", lambda: turn.pend("never said", done=True))


def test_an_outcome_without_a_call_is_refused(store, session):
    draft = session._draft("outcome", call=store.context.mint("call"), status="ok")
    refuses(session, "E_DELTA", lambda: store.port.append(session.id, [draft]))


def test_a_settlement_without_a_call_is_refused(store, session):
    draft = session._draft("settlement", call=store.context.mint("call"), status="ok")
    refuses(session, "E_DELTA", lambda: store.port.append(session.id, [draft]))


def test_an_unknown_kind_is_refused(store, session):
    draft = session._draft("miracle")
    refuses(session, "E_INVALID", lambda: store.port.append(session.id, [draft]))


def test_a_change_to_an_unknown_collection_is_refused(store, session):
    draft = session._draft("fact", changes=(Upsert("miracles", FactRecord(name="x")),))
    refuses(session, "E_INVALID", lambda: store.port.append(session.id, [draft]))


def test_removing_from_an_unknown_collection_is_refused(store, session):
    draft = session._draft("fact", changes=(Remove("miracles", "x"),))
    with pytest.raises(InvalidInput):
        store.port.append(session.id, [draft])
    session.flag("still alive")


def test_a_draft_for_another_session_is_refused(store, session):
    draft = fact_draft(store, store.context.mint("session"), "x")
    refuses(session, "E_INVALID", lambda: store.port.append(session.id, [draft]))


def test_one_bad_draft_rejects_the_whole_append(store, session):
    good, bad = fact_draft(store, session.id, "x"), fact_draft(store, session.id, "y", {1: 2})
    refuses(session, "E_TYPE", lambda: store.port.append(session.id, [good, bad]))
    assert session.facts().get("x") is None


def test_a_batch_with_a_bad_last_record_records_nothing(session, turn):
    def batch():
        with turn.batch():
            turn.fact("x", 1)
            turn.fact("y", float("nan"))

    refuses(session, "E_NUMBER", batch)
    assert session.facts().get("x") is None


# -- 20-22: threads, and callbacks that raise -----------------------------------------------------


def test_a_store_may_be_used_from_another_thread(session, turn):
    thread = threading.Thread(target=lambda: turn.fact("x", 1))
    thread.start()
    thread.join()
    assert session.facts().get("x") == 1


class Moody:
    """A clock that fails on request."""

    broken = False

    def __call__(self) -> int:
        if self.broken:
            raise RuntimeError("no time")
        return 1


def test_a_callback_that_raises_in_the_transaction_rolls_it_back(path):
    connect(path, project="test").close()
    clock = Moody()
    with connect(path, project="test") as front, SqliteStore(str(path), clock=clock) as port:
        session = recorded_session(front, "main")
        before = front.port.head(session)
        clock.broken = True
        with pytest.raises(RuntimeError):
            port.append(session, [fact_draft(front, session, "x")])
        assert front.port.head(session) == before
        clock.broken = False
        assert port.append(session, [fact_draft(front, session, "y")])[0].seq == before.seq + 1


# -- any argument of any method -------------------------------------------------------------------

ODD = [
    5,
    1.5,
    True,
    None,
    b"bytes",
    ["list"],
    {"a": 1},
    object(),
    LONE,
    "\0",
    "x" * 5000,
    -1,
    float("nan"),
]

ARGUMENTS: dict[str, tuple[str, dict[str, Any]]] = {
    "decide": ("what topic why over confidence factors supersedes", {"what": "w"}),
    "file": ("path op before after from_path how reason why", {"path": "p", "op": "read"}),
    "fact": ("name value verified why", {"name": "n", "value": 1}),
    "prefer": ("name value why", {"name": "n", "value": 1}),
    "dead_end": ("what why", {"what": "w"}),
    "plan": ("step status detail evidence order why", {"step": "s"}),
    "artifact": ("name content media_type why", {"name": "n", "content": "c"}),
    "say": ("said actor usage why", {"said": "s"}),
    "pend": ("what on why done", {"what": "w"}),
    "use": ("kind name detail", {"kind": "file", "name": "n"}),
    "note": ("name value", {"name": "n", "value": 1}),
    "abort": ("why", {}),
}
SESSION_ARGUMENTS: dict[str, tuple[str, dict[str, Any]]] = {
    "tag": ("name at", {"name": "n"}),
    "score": ("name value on comment", {"name": "n", "value": 1}),
    "flag": ("name on why", {"name": "n"}),
    "turn": ("prompt key", {}),
    "pause": ("reason", {}),
    "close": ("reason", {}),
    "fork": ("at name", {}),
}
OPTIONS = "agent project tenant labels budget aliases app_version busy".split()


def cases(table):
    return [(method, name) for method, (names, _) in table.items() for name in names.split()]


def sound(store, path) -> list[str]:
    """Whether everything can still be read, and verifies."""
    answers(store)
    for row in store.sessions().rows:
        store.read(row.id).state()
    return findings(path)


@pytest.mark.parametrize(("method", "name"), cases(ARGUMENTS))
def test_an_unusual_argument_of_a_turn_is_recorded_readably_or_refused(store, path, method, name):
    with store.open("main") as session:
        for value in ODD:
            turn = session.turn("go")
            with contextlib.suppress(StatorError):
                getattr(turn, method)(**{**ARGUMENTS[method][1], name: value})
            turn.end()
        assert sound(store, path) == []


@pytest.mark.parametrize(("method", "name"), cases(SESSION_ARGUMENTS))
def test_an_unusual_argument_of_a_session_is_recorded_readably_or_refused(
    store, path, method, name
):
    for value in ODD:
        with store.open("main") as session:
            try:
                made = getattr(session, method)(**{**SESSION_ARGUMENTS[method][1], name: value})
            except StatorError:
                continue
            if method == "turn":
                made.end()
    assert sound(store, path) == []


@pytest.mark.parametrize("name", OPTIONS)
def test_an_unusual_option_of_open_is_recorded_readably_or_refused(store, path, name):
    for number, value in enumerate([*ODD, {1: 2}, [1], [("a",)], [("a", "b", "c")], [(1, 2)]]):
        try:
            with store.open(f"s{number}", **{name: value}):
                pass
        except StatorError:
            pass
    assert sound(store, path) == []


DRAFT_FIELDS = [
    field for field in Draft.__struct_fields__ if field not in ("id", "session", "kind")
]


@pytest.mark.parametrize("field", DRAFT_FIELDS)
def test_an_unusual_field_of_a_draft_is_recorded_readably_or_refused(store, path, field):
    session = recorded_session(store, "main")
    for kind in ("fact", "raw", "entry"):
        for value in [*ODD, (), (1,), ("a", "b"), (b"x", 1)]:
            draft = fact_draft(store, session, "x")
            draft = msgspec.structs.replace(draft, kind=kind, **{field: value})
            with contextlib.suppress(StatorError):
                store.port.append(session, [draft])
    store.port.append(session, [fact_draft(store, session, "last")])
    assert sound(store, path) == []
