"""Canonical bytes and the tagged encoding: exact round trips, errors with paths, limits."""

from __future__ import annotations

import contextlib
import decimal
import enum
import sys
import threading
from collections import OrderedDict, defaultdict, namedtuple
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from typing import Any, AnyStr
from uuid import UUID
from zoneinfo import ZoneInfo

import msgspec
import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from stator.errors import (
    BadNumber,
    BadText,
    BadType,
    Cyclic,
    InvalidInput,
    StatorError,
    TooDeep,
    TooLarge,
)
from stator.model.values import tagged
from stator.model.values.canon import (
    BYTES_MAX,
    DEPTH_MAX,
    INT_BITS_MAX,
    INT_MAX,
    NODES_MAX,
    Foreign,
    decode,
    dumps,
    encode,
    from_plain,
    loads,
    to_plain,
)
from strategies import any_text, foreign_values, plain_values, same, tagged_plain


def nested(levels: int, wrap: Callable[[Any], Any] = lambda inner: [inner]) -> Any:
    """`levels` containers around None."""
    value: Any = None
    for _ in range(levels):
        value = wrap(value)
    return value


def refused(value: Any, kind: type[InvalidInput], at: str, **kw: Any) -> InvalidInput:
    with pytest.raises(kind) as caught:
        to_plain(value, **kw)
    assert type(caught.value) is kind
    assert caught.value.path == at
    assert at in str(caught.value)
    return caught.value


# --- laws ----------------------------------------------------------------------------------------


@given(foreign_values)
def test_every_tagged_value_is_decoded_with_its_value_and_type(value: Any) -> None:
    data = dumps(value)
    back = loads(data)
    assert same(back, value)
    assert dumps(back) == data


@given(plain_values)
def test_canonical_bytes_follow_rfc_8785(plain: Any) -> None:
    assert encode(plain) == rfc8785.dumps(plain)
    assert decode(encode(plain)) == plain


@given(foreign_values)
def test_dumps_writes_the_rfc_8785_bytes_of_the_plain_form(value: Any) -> None:
    assert dumps(value) == rfc8785.dumps(to_plain(value))


@given(tagged_plain)
def test_any_stored_tags_load_and_are_written_back_unchanged(plain: Any) -> None:
    assert same(to_plain(from_plain(plain)), plain)


@given(st.dictionaries(any_text, foreign_values, max_size=6), st.randoms(use_true_random=False))
def test_equal_dicts_give_equal_bytes_for_any_insertion_order(
    value: dict[str, Any], random: Any
) -> None:
    items = list(value.items())
    random.shuffle(items)
    assert dumps(dict(items)) == dumps(value)


@given(foreign_values, foreign_values)
def test_different_values_give_different_bytes(one: Any, other: Any) -> None:
    assert (dumps(one) == dumps(other)) == same(one, other)


@given(foreign_values, st.lists(any_text | st.integers(0, 3), max_size=4))
def test_the_error_for_a_nested_value_names_its_path(value: Any, steps: list[str | int]) -> None:
    bad: Any = object()
    for step in reversed(steps):
        bad = {step: bad} if isinstance(step, str) else [value] * step + [bad]
    shown = "$" + "".join(tagged.path_step(step) for step in steps)
    refused(bad, BadType, shown)


@given(st.binary(max_size=60))
def test_bytes_that_are_not_json_raise_only_bad_text(data: bytes) -> None:
    with contextlib.suppress(BadText):
        loads(data)


@given(foreign_values, st.data())
def test_damaged_bytes_load_or_are_refused_with_a_typed_error(value: Any, data: Any) -> None:
    good = dumps(value)
    cut = data.draw(st.integers(0, len(good) - 1))
    damaged = good[:cut] + data.draw(st.binary(max_size=3)) + good[cut + 1 :]
    with contextlib.suppress(StatorError):
        loads(damaged)


# --- the format on disk: these bytes never change ------------------------------------------------

GOLDEN = [
    (None, b"null"),
    ([True, 1, "é\x00\n"], '[true,1,"é\\u0000\\n"]'.encode()),
    ({"b": 1, "a": {}}, b'{"a":{},"b":1}'),
    (1.5, b'{"$f":"1.5"}'),
    (-0.0, b'{"$f":"-0.0"}'),
    (1e22, b'{"$f":"1e+22"}'),
    (INT_MAX, b"9007199254740991"),
    (INT_MAX + 1, b'{"$i":"0x20000000000000"}'),
    (-(2**64), b'{"$i":"-0x10000000000000000"}'),
    (b"\x00\x01", b'{"$b":"AAE="}'),
    (b"", b'{"$b":""}'),
    ("\ud800", b'{"$u":"7aCA"}'),
    ((), b'{"$t":[]}'),
    ((1, [2]), b'{"$t":[1,[2]]}'),
    ({"$f": "1.5"}, b'{"$m":[["$f","1.5"]]}'),
    ({"$a": 1, "b": 2}, b'{"$a":1,"b":2}'),
    ({"😀": 1, "\uffff": 2}, '{"$m":[["\uffff",2],["😀",1]]}'.encode()),
    ({"\ud800": 1, "a": 2}, b'{"$m":[["a",2],[{"$u":"7aCA"},1]]}'),
    (datetime(2026, 1, 2, 3, 4, 5, 6), b'{"$x":["datetime","2026-01-02T03:04:05.000006"]}'),
    (datetime(2026, 1, 2, tzinfo=UTC), b'{"$x":["datetime","2026-01-02T00:00:00+00:00"]}'),
    (date(2026, 1, 2), b'{"$x":["date","2026-01-02"]}'),
    (time(3, 4), b'{"$x":["time","03:04:00"]}'),
    (Decimal("1.10"), b'{"$x":["decimal","1.10"]}'),
    (Decimal("1E+9"), b'{"$x":["decimal","1E+9"]}'),
    (UUID(int=1), b'{"$x":["uuid","00000000-0000-0000-0000-000000000001"]}'),
]


@pytest.mark.parametrize(("value", "data"), GOLDEN, ids=[repr(value) for value, _ in GOLDEN])
def test_the_encoded_form_of_each_type_is_fixed(value: Any, data: bytes) -> None:
    assert dumps(value) == data
    assert same(loads(data), value)


@pytest.mark.parametrize(
    "data",
    [
        b'{"$z":1}',
        b'{"$set":[1,{"$f":"1.5"}]}',
        b'{"$x":["fraction","1/3"]}',
        b'{"$x":["date","tomorrow"]}',
        b'{"$x":3}',
        b'{"$f":"nan"}',
        b'{"$f":"1.50"}',
        b'{"$f":1}',
        b'{"$i":"12"}',
        b'{"$i":"0x20_000000000000"}',
        b'{"$i":"0x%s"}' % (b"f" * 100_000),
        b'{"$b":"!"}',
        b'{"$u":"YQ=="}',
        b'{"$t":1}',
        b'{"$m":[["a",1]]}',
        b'{"$m":[["$a",1],["$a",2]]}',
        b'{"$m":[]}',
    ],
    ids=lambda data: data[:30].decode(),
)
def test_an_unknown_or_damaged_tag_loads_as_data_and_keeps_its_bytes(data: bytes) -> None:
    value = loads(data)
    assert type(value) is Foreign
    assert dumps(value) == data
    assert loads(dumps([value, {"in": value}])) == [value, {"in": value}]


def test_nested_damaged_tags_load_in_linear_time() -> None:
    plain = nested(40, lambda inner: {"$m": [["a", inner]]})
    assert to_plain(from_plain(plain)) == plain


def test_a_foreign_value_needs_a_valid_tag() -> None:
    for tag in ("", "z", "$\ud800", 3):
        refused([Foreign(tag, 1)], BadType, "$[0]")  # type: ignore[arg-type]
    refused({"a": Foreign("$z", [object()])}, BadType, '$.a["$z"][0]')


def test_a_struct_is_encoded_with_its_fields_in_declared_order() -> None:
    class Record(msgspec.Struct):
        a: int
        b: dict[str, int]

    assert encode(Record(a=1, b={"z": 1, "y": 2})) == b'{"a":1,"b":{"y":2,"z":1}}'


def test_encode_refuses_non_plain_values_with_typed_errors() -> None:
    for value, kind in ((object(), BadType), ({1: 2}, BadType), ("\ud800", BadText)):
        with pytest.raises(kind):
            encode(value)
    with pytest.raises(TooDeep):
        encode(nested(100_000))


def test_decoding_endless_nesting_raises_too_deep() -> None:
    with pytest.raises(TooDeep):
        decode(b"[" * 1_000_000)


def test_nfc_and_nfd_keys_stay_two_keys() -> None:
    value = {"é": 1, "e\u0301": 2}
    assert loads(dumps(value)) == value


def test_an_unchanged_string_is_the_same_object() -> None:
    for text in ("x" * 4096, "é" * 2048, "한" * 100):
        assert to_plain(text) is text
        assert to_plain([text])[0] is text


def test_the_decimal_context_does_not_change_the_record() -> None:
    with decimal.localcontext() as context:
        context.capitals = 0
        context.prec = 2
        context.traps[decimal.InvalidOperation] = False
        assert dumps(Decimal("1.2345E+9")) == b'{"$x":["decimal","1.2345E+9"]}'
        assert loads(b'{"$x":["decimal","1.2345E+9"]}') == Decimal("1.2345E+9")
        assert type(loads(b'{"$x":["decimal","?"]}')) is Foreign


def test_an_aware_datetime_keeps_its_instant_and_offset() -> None:
    value = datetime(2026, 10, 25, 2, 30, tzinfo=ZoneInfo("Europe/Berlin"), fold=1)
    back = loads(dumps(value))
    assert back.isoformat() == value.isoformat() == "2026-10-25T02:30:00+01:00"
    assert back.tzinfo == timezone(timedelta(hours=1))


# --- subclasses ----------------------------------------------------------------------------------


def _explode(*_: Any, **__: Any) -> Any:
    raise AssertionError("user code was called")


class HostileMeta(type):
    __name__ = property(_explode)
    __hash__ = __eq__ = __instancecheck__ = __subclasscheck__ = _explode
    __getattribute__ = __call__ = _explode


def hostile(base: type) -> Callable[..., Any]:
    """A constructor of a subclass whose methods, and those of its metaclass, all raise."""
    spared = {"__new__", "__init__", "__init_subclass__", "__hash__", "__class__"}
    body: dict[str, Any] = dict.fromkeys(set(dir(base)) - spared, _explode)
    body |= {"__hash__": lambda self: 7, "__class__": property(_explode), "__doc__": None}
    body |= {"__getattr__": _explode, "__buffer__": _explode}
    cls = type.__new__(HostileMeta, f"Hostile{base.__name__.title()}", (base,), body)
    return lambda *args: type.__call__(cls, *args)


@pytest.mark.parametrize(
    "value",
    ["text", "é\ud800", 7, 2**70, 1.5, b"\x00\xff", {"k": [1]}, [1, "a"], (1, "a")],
    ids=repr,
)
def test_a_hostile_subclass_is_recorded_as_its_base_type_without_running_its_code(
    value: Any,
) -> None:
    twisted = hostile(type(value))(value)
    assert same(loads(dumps([twisted])), [value])


def test_a_hostile_key_is_recorded_as_its_text() -> None:
    value = {hostile(str)("k"): 1}
    assert dumps(value) == b'{"k":1}'


def test_a_hostile_object_is_refused_without_running_its_code() -> None:
    error = refused({"a": hostile(object)()}, BadType, "$.a")
    assert "HostileObject" in error.what


def test_enums_and_other_harmless_subclasses_become_plain_data() -> None:
    class Colour(enum.StrEnum):
        RED = "red"

    class Size(enum.IntEnum):
        BIG = 3

    class Flag(enum.IntFlag):
        A = 1
        B = 2

    point = namedtuple("point", "x y")
    value = [Colour.RED, Size.BIG, Flag.A | Flag.B, point(1, 2), {Colour.RED: 1}]
    assert same(loads(dumps(value)), ["red", 3, 3, (1, 2), {"red": 1}])
    assert dumps(OrderedDict(b=1, a=2)) == dumps(defaultdict(int, a=2, b=1)) == b'{"a":2,"b":1}'


def test_two_keys_with_the_same_text_are_refused_and_not_merged() -> None:
    class Other(str):
        __hash__ = str.__hash__

        def __eq__(self, other: object) -> bool:
            return False

    refused({"in": {Other("k"): 1, Other("k"): 2}}, BadText, "$.in")
    refused({"one": 1, "two": 2}, BadText, "$", scrub=lambda text, key: "***")


# --- refusals ------------------------------------------------------------------------------------


class LocalZone(tzinfo):
    utcoffset = dst = tzname = _explode


class Thing:
    pass


REFUSED = [
    (float("nan"), BadNumber, "E_NUMBER"),
    (float("-inf"), BadNumber, "E_NUMBER"),
    (Decimal("NaN"), BadNumber, "E_NUMBER"),
    (Decimal("sNaN"), BadNumber, "E_NUMBER"),
    (Decimal("Infinity"), BadNumber, "E_NUMBER"),
    (Thing(), BadType, "E_TYPE"),
    (Thing, BadType, "E_TYPE"),
    (len, BadType, "E_TYPE"),
    ({1}, BadType, "E_TYPE"),
    (frozenset(), BadType, "E_TYPE"),
    (bytearray(b"x"), BadType, "E_TYPE"),
    (memoryview(b"x"), BadType, "E_TYPE"),
    (1j, BadType, "E_TYPE"),
    (timedelta(1), BadType, "E_TYPE"),
    (datetime(2026, 1, 1, tzinfo=LocalZone()), BadType, "E_TYPE"),
    (time(1, tzinfo=ZoneInfo("Europe/Berlin")), BadType, "E_TYPE"),
    (datetime(2026, 1, 1, tzinfo=timezone(timedelta(microseconds=1))), BadType, "E_TYPE"),
    (type("Stamp", (datetime,), {})(2026, 1, 1), BadType, "E_TYPE"),
    ({1: 2}, BadType, "E_TYPE"),
    ({None: 2}, BadType, "E_TYPE"),
    ({("a",): 2}, BadType, "E_TYPE"),
    ({b"a": 2}, BadType, "E_TYPE"),
    (1 << INT_BITS_MAX, TooLarge, "E_SIZE"),
    (-(10**100_000), TooLarge, "E_SIZE"),
]


@pytest.mark.parametrize(
    ("value", "kind", "code"), REFUSED, ids=[type(value).__name__ for value, *_ in REFUSED]
)
def test_a_value_that_cannot_be_recorded_is_refused_with_code_path_and_hint(
    value: Any, kind: type[InvalidInput], code: str
) -> None:
    refused(value, kind, "$")
    error = refused({"a": [1, 2, 3, {"b": (value,)}]}, kind, "$.a[3].b[0]")
    assert error.code == code
    assert error.hint


def test_an_error_path_starts_at_the_callers_root_and_quotes_unusual_keys() -> None:
    refused({"x y": [object()]}, BadType, '$.output["x y"][0]', path="$.output")
    refused({'"\x1b\ud800': object()}, BadType, '$["\\"\\u001b\\ud800"]')
    error = refused({"k" * 10_000: object()}, BadType, f'$["{"k" * 80}\\u2026"]')
    assert len(str(error)) < 300


def test_an_error_names_the_type_and_its_hint_names_what_to_pass() -> None:
    assert "Thing" in refused(Thing(), BadType, "$").what
    assert refused({1}, BadType, "$").hint == "pass a sorted list"
    assert "int" in refused({1: 2}, BadType, "$").what


def test_a_value_that_contains_itself_raises_cyclic() -> None:
    ring: list[Any] = [1]
    ring.append({"back": ring})
    assert refused(ring, Cyclic, "$[1].back").code == "E_CYCLE"
    table: dict[str, Any] = {"wide": list(range(1000))}
    table["self"] = (table,)
    refused(table, Cyclic, "$.self[0]")


def test_a_value_shared_by_two_places_is_not_cyclic() -> None:
    shared = {"a": [1]}
    assert loads(dumps([shared, shared, (shared,)])) == [shared, shared, (shared,)]


WRAPS: list[Callable[[Any], Any]] = [
    lambda inner: [inner],
    lambda inner: (inner,),
    lambda inner: {"a": inner},
    lambda inner: {"$a": inner},
    lambda inner: Foreign("$z", inner),
]


@pytest.mark.parametrize("wrap", WRAPS, ids=["list", "tuple", "dict", "pairs", "foreign"])
def test_nesting_is_accepted_up_to_the_limit_and_refused_past_it(
    wrap: Callable[[Any], Any],
) -> None:
    value = nested(DEPTH_MAX, wrap)
    data = dumps(value)
    assert dumps(loads(data)) == data
    with pytest.raises(TooDeep):
        to_plain(nested(DEPTH_MAX + 1, wrap))


@pytest.mark.parametrize("wrap", WRAPS[:4], ids=["list", "tuple", "dict", "pairs"])
def test_nesting_of_a_hundred_thousand_levels_raises_too_deep(wrap: Callable[[Any], Any]) -> None:
    value = nested(100_000, wrap)
    with pytest.raises(TooDeep) as caught:
        dumps(value)
    assert caught.value.code == "E_DEPTH"


def test_a_call_deep_in_the_stack_returns_the_value_or_raises_too_deep() -> None:
    value = nested(DEPTH_MAX)
    seen: set[str] = set()

    def dive(left: int) -> None:
        if left:
            dive(left - 1)
            return
        try:
            seen.add(str(loads(dumps(value)) == value))
        except TooDeep:
            seen.add("TooDeep")

    def run() -> None:
        # The last few frames are needed to call anything at all.
        for left in range(0, sys.getrecursionlimit() - 40, 20):
            dive(left)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert "True" in seen
    assert seen <= {"True", "TooDeep"}


def test_from_plain_of_endless_nesting_raises_too_deep() -> None:
    with pytest.raises(TooDeep):
        from_plain(nested(100_000))


def test_a_million_keys_raise_too_large_before_any_string_is_scrubbed() -> None:
    value = dict.fromkeys(map(str, range(NODES_MAX)))
    error = refused({"a": value}, TooLarge, "$.a", scrub=lambda text, key: text)
    assert error.code == "E_SIZE"
    refused(value, TooLarge, "$", scrub=_explode)
    refused([None] * NODES_MAX, TooLarge, "$")


def test_shared_values_count_each_time_they_are_written() -> None:
    value: Any = "ha"
    for _ in range(20):
        value = [value] * 10
    with pytest.raises(TooLarge):
        to_plain(value)


def test_text_past_the_limit_raises_too_large_before_it_is_scrubbed() -> None:
    for text in ("x" * (BYTES_MAX + 1), "é" * (BYTES_MAX // 2 + 1)):
        refused([text], TooLarge, "$[0]")
    refused(["x" * (BYTES_MAX + 1)], TooLarge, "$[0]", scrub=_explode)
    half = "x" * (BYTES_MAX // 2)
    refused([half, half, "x"], TooLarge, "$[2]")
    refused([half, {"key": half}], TooLarge, "$[1].key")
    refused({"x" * (BYTES_MAX + 1): None}, TooLarge, "$")
    refused([b"x" * BYTES_MAX], TooLarge, "$[0]")
    assert to_plain([half, half]) == [half, half]


def test_text_that_scrub_adds_counts_towards_the_size_limit() -> None:
    refused(["x"], TooLarge, "$[0]", scrub=lambda text, key: "y" * (BYTES_MAX + 1))


def test_a_large_integer_is_kept_under_any_digit_limit_of_the_process() -> None:
    value = 2**INT_BITS_MAX - 1
    limit = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(640)
    try:
        assert loads(dumps([value, -value])) == [value, -value]
    finally:
        sys.set_int_max_str_digits(limit)


# --- scrub ---------------------------------------------------------------------------------------


def test_scrub_receives_every_text_with_its_nearest_key_and_every_key_alone() -> None:
    class Sub(str):
        pass

    class Raw(bytes):
        pass

    seen: list[tuple[str | bytes, str | None]] = []

    def note(text: AnyStr, key: str | None) -> AnyStr:
        assert type(text) in (str, bytes)
        seen.append((text, key))
        return text

    value = {"a": "1", "b": ["2", ("3", {"c": Sub("4")})], "n": 5, "x": b"6", Sub("d"): "\ud800"}
    value["y"] = [Raw(b"7")]
    assert to_plain(value, scrub=note) == to_plain(value)
    assert sorted(seen, key=repr) == sorted(
        [
            *((key, None) for key in "abcdnxy"),
            *(("1", "a"), ("2", "b"), ("3", "b"), ("4", "c"), ("\ud800", "d")),
            *((b"6", "x"), (b"7", "y")),
        ],
        key=repr,
    )
    seen.clear()
    to_plain("top", scrub=note)
    to_plain(["in"], scrub=note)
    to_plain({"k": Foreign("$z", "kept")}, scrub=note)
    assert seen == [("top", None), ("in", None), ("k", None), ("$z", None), ("kept", "k")]


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ({"name": "API_KEY", "value": "it"}, "API_KEY"),
        ({"value": "it", "key": "API_KEY"}, "API_KEY"),
        ({"Name": "API_KEY", "Value": ["it"]}, "API_KEY"),
        ({"name": 5, "value": "it"}, "value"),
        ({"a": ["run", "--token", "it"]}, "--token"),
        ({"a": ("--token", "it")}, "--token"),
        ({"a": ["--token", "it"]}, "--token"),
        ({"a": ["-t", "it"]}, "a"),
        ({"a": ["--token", 5, "it"]}, "a"),
    ],
)
def test_scrub_receives_a_value_with_the_name_that_counts_for_it(value: Any, name: str) -> None:
    seen: dict[str | bytes, str | None] = {}

    def note(text: AnyStr, key: str | None) -> AnyStr:
        seen[text] = key
        return text

    to_plain(value, scrub=note)
    assert seen["it"] == name


def test_the_text_scrub_returns_is_used_in_values_keys_and_paths() -> None:
    def hide(text: AnyStr, key: str | None) -> AnyStr:
        if isinstance(text, bytes):
            return text.replace(b"hunter2", b"secret")
        return text.replace("hunter2", "·secret·")

    assert to_plain({"hunter2": ["my hunter2"]}, scrub=hide) == {"·secret·": ["my ·secret·"]}
    assert from_plain(to_plain([b"my hunter2"], scrub=hide)) == [b"my secret"]
    error = refused({"hunter2": object()}, BadType, '$["\\u00b7secret\\u00b7"]', scrub=hide)
    assert "hunter2" not in str(error)


def test_a_key_that_scrub_turns_into_a_tag_is_written_as_pairs() -> None:
    def mark(text: AnyStr, key: str | None) -> AnyStr:
        if isinstance(text, bytes):
            return b"$" + text
        return "$" + text

    value = to_plain({"k": 1}, scrub=mark)
    assert value == {"$m": [["$k", 1]]}


def test_an_error_raised_by_scrub_propagates() -> None:
    def fail(text: AnyStr, key: str | None) -> AnyStr:
        raise KeyError(text)

    with pytest.raises(KeyError):
        to_plain(["x"], scrub=fail)
