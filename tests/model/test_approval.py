"""Rules, patterns and grants: which calls need approval, and which grant applies."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stator.errors import InvalidInput
from stator.model.calls.approval import (
    Pattern,
    Rule,
    answer,
    decide,
    fits,
    is_own,
    parse_pattern,
    parse_policy,
    sign,
    used_up,
)
from stator.model.log.commit import Remove
from stator.model.records.types import ApprovalRecord, Entry, ErasedRecord
from stator.model.sessions.ownership import OWN
from strategies import plain_text

NOW = 1_800_000_000_000_000
CALL = "c_" + "7f" * 16


def entry(seq: int = 1, **fields) -> Entry:
    record = ApprovalRecord(**{"tool": "pay", "by": "local:ann", **fields})
    return Entry("approvals", f"r{seq}", f"k{seq}", seq, 1, record)


def asked(*entries: Entry, **changed) -> Entry | None:
    call = {"tool": "pay", "digest": "d" * 64, "arguments": {"amount": 5}, "call": CALL, "now": NOW}
    return answer(entries, **{**call, **changed})


# -- patterns -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pattern", "value", "expected"),
    [
        ("prod", "prod", True),
        ("prod", "production", False),
        ("prod*", "production", True),
        ("*.py", "src/a.py", True),
        ("!prod", "staging", True),
        ("!prod", "prod", False),
        ("!prod*", "production", False),
        (">100", 101, True),
        (">100", 100, False),
        (">=100", 100, True),
        ("<=5", 5.0, True),
        ("<5", "4.99", True),
        ("!>100", 500, False),
        (">100", "a lot", None),
        (">100", True, None),
        (">100", float("1e300"), True),
        ("!>100", "a lot", None),
        ("=>5", ">5", True),
        ("=a*", "ab", False),
        ("true", True, True),
        ("null", None, True),
        ("7", 7, True),
        ("*", {"a": 1}, True),
        ('{"a":1}', {"a": 1}, True),
        ("*", object(), None),
    ],
)
def test_a_value_matches_does_not_match_or_cannot_be_compared_with_a_pattern(
    pattern, value, expected
):
    assert fits(pattern, value) is expected


@pytest.mark.parametrize("path", ["src/../../etc/passwd", "src/..", "src\\..\\x"])
def test_a_glob_does_not_match_a_path_that_leaves_its_folder_through_dot_dot(path):
    assert fits("src*", path) is None
    assert fits("src/../*", "src/../x") is True
    assert fits(f"={path}", path) is True


def test_a_rule_can_name_a_nested_argument():
    rule = Rule(tool="pay", when={"order.amount": ">100"})
    assert decide([rule], "pay", "write", {"order": {"amount": 200}}) is rule
    assert decide([rule], "pay", "write", {"order": {"amount": 2}}) is None
    assert decide([rule], "pay", "write", {"order.amount": 200}) is rule
    assert decide([rule], "pay", "write", {}) is None


names = st.from_regex(r"[a-z_][a-z0-9_.-]{0,8}", fullmatch=True)
conditions = st.one_of(
    plain_text.filter(lambda text: 0 < len(text) < 40).map(lambda text: "=" + text),
    st.from_regex(r"!?[a-z*?/ ,()\"\\]{1,12}", fullmatch=True),
    st.builds("{}{}".format, st.sampled_from([">", ">=", "<", "<="]), st.integers(-999, 999)),
    st.builds("!{}{}".format, st.sampled_from([">", "<="]), st.integers(0, 99)),
)


@given(
    st.builds(
        Pattern,
        st.sampled_from(["*", "pay", "read_*"]),
        st.dictionaries(names, conditions, max_size=3),
    )
)
def test_a_pattern_parses_from_its_own_text(pattern):
    if len(str(pattern)) <= 500:
        assert parse_pattern(str(pattern)) == pattern


@pytest.mark.parametrize(
    "text",
    ["", "pay(", "pay)", "pay(amount)", "pay(amount=1", "pay (x", "a b", "pay(amount>lots)", "x" * 501,
     "pay(a=1, a=2)", "pay(=1)", 'pay(a="x)'],
)  # fmt: skip
def test_an_invalid_pattern_is_refused(text):
    with pytest.raises(InvalidInput):
        parse_pattern(text)


# -- rules ----------------------------------------------------------------------------------------

rules = st.lists(
    st.builds(
        Rule,
        tool=st.sampled_from(["*", "pay", "read_*", "p??"]),
        effect=st.sampled_from(["", "read", "write"]),
        when=st.dictionaries(
            st.sampled_from(["amount", "path"]),
            st.sampled_from([">3", "<=3", "!x", "x*"]),
            max_size=2,
        ),
        action=st.sampled_from(["allow", "ask", "deny"]),
    ),
    max_size=5,
)


@given(
    rules,
    st.sampled_from(["pay", "read_file"]),
    st.sampled_from(["read", "write"]),
    st.dictionaries(
        st.sampled_from(["amount", "path"]), st.sampled_from([1, 9, "x", "y", None]), max_size=2
    ),
)
def test_the_first_matching_rule_decides(listed, tool, effect, arguments):
    found = decide(listed, tool, effect, arguments)
    alone = [rule for rule in listed if decide([rule], tool, effect, arguments) is rule]
    assert found is (alone[0] if alone else None)


def test_an_argument_that_cannot_be_compared_asks_for_approval():
    odd = {"amount": "lots"}
    for action in ("ask", "deny"):
        rule = Rule(tool="pay", when={"amount": ">100"}, action=action)
        assert decide([rule], "pay", "write", odd) is rule
    assert (
        decide([Rule(tool="pay", when={"amount": "<100"}, action="allow")], "pay", "write", odd)
        is None
    )


def test_a_missing_argument_matches_only_a_negated_condition():
    assert (
        decide([Rule(tool="deploy", when={"env": "!staging"})], "deploy", "write", {}) is not None
    )
    assert decide([Rule(tool="deploy", when={"env": "prod"})], "deploy", "write", {}) is None


POLICY = """
[[approval]]
tool = "read_*"
action = "allow"

[[approval]]
tool = "pay"
when = {amount = ">100", urgent = true, count = 3}
action = "ask"
why = "payments above 100"

[[approval]]
effect = "write"
action = "deny"

[prices."claude-*"]
"tokens:in" = 3
"""


def test_a_policy_file_parses_to_its_rules_in_order():
    assert parse_policy(POLICY) == [
        Rule(tool="read_*", action="allow"),
        Rule(
            tool="pay",
            when={"amount": ">100", "urgent": "true", "count": "3"},
            why="payments above 100",
        ),
        Rule(effect="write", action="deny"),
    ]
    assert parse_policy("") == []


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("[[approval]]\naction = 'maybe'", "$.approval[0].action"),
        ("[[approval]]\ntool = 'a'", "$.approval[0]"),
        ("[[approval]]\naction = 'ask'\n[[approval]]\naction = 'ask'\ntoool = 'a'", "$.approval[1].toool"),
        ("[[approval]]\naction = 'ask'\neffect = 'big'", "$.approval[0].effect"),
        ("[[approval]]\naction = 'ask'\ntool = ''", "$.approval[0].tool"),
        ("[[approval]]\naction = 'ask'\ntool = 3", "$.approval[0].tool"),
        ("[[approval]]\naction = 'ask'\nwhen = 'x'", "$.approval[0].when"),
        ("[[approval]]\naction = 'ask'\nwhen = {amount = '>x'}", "$.approval[0].when.amount"),
        ("[[approval]]\naction = 'ask'\nwhen = {amount = [1]}", "$.approval[0].when.amount"),
        ("[[approval]]\naction = 'ask'\nwhen = {amount = ''}", "$.approval[0].when.amount"),
        ("[[approval]]\naction = 'ask'\nwhen = {'a b' = 'x'}", "$.approval[0].when"),
        ("[approval]\naction = 'ask'", "$.approval"),
        ("approval = [3]", "$.approval[0]"),
        ("[rules]", "$.rules"),
        ("[[approval", "$"),
    ],
)  # fmt: skip
def test_the_error_of_a_bad_policy_names_the_path(text, path):
    with pytest.raises(InvalidInput) as refused:
        parse_policy(text)
    assert refused.value.path == path


def test_the_error_of_a_bad_rule_in_code_names_the_path():
    with pytest.raises(InvalidInput, match=r"\$\.action"):
        Rule(action="perhaps")  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match=r"\$\.when\.amount"):
        Rule(when={"amount": 3})  # type: ignore[dict-item]


# -- grants ---------------------------------------------------------------------------------------


@given(
    st.text("0123456789abcdef", min_size=64, max_size=64),
    st.sampled_from(["once", "session", "project"]),
)
def test_a_grant_does_not_apply_to_changed_arguments(digest, scope):
    grant = entry(arguments="d" * 64, scope=scope, call=CALL if scope == "once" else "")
    assert asked(grant) is grant
    assert (asked(grant, digest=digest) is grant) == (digest == "d" * 64)
    assert asked(grant, tool="pay_more") is None
    assert asked(grant, digest="") is None


@given(st.integers(1, 2 * NOW), st.sampled_from(["approved", "denied"]))
def test_an_expired_grant_does_not_apply(expires, verdict):
    grant = entry(arguments="d" * 64, scope="session", expires=expires, verdict=verdict)
    assert (asked(grant) is grant) == (expires > NOW)


def test_a_grant_without_an_expiry_does_not_expire():
    assert asked(entry(arguments="d" * 64, scope="session", expires=0), now=2**60) is not None


every_grant = st.builds(
    entry,
    seq=st.integers(1, 99),
    arguments=st.sampled_from(["", "d" * 64, "e" * 64]),
    pattern=st.sampled_from(
        ["", "pay", "p*", "pay(amount<=10)", "pay(amount>10)", "not a pattern("]
    ),
    scope=st.sampled_from(["once", "session", "project"]),
    verdict=st.sampled_from(["approved", "denied"]),
    call=st.sampled_from(["", CALL, "c_" + "0" * 32]),
    expires=st.sampled_from([0, NOW - 1, NOW, NOW + 1]),
)


@given(st.lists(every_grant, max_size=6))
def test_a_denial_wins_over_every_approval(grants):
    found = asked(*grants)
    answering = [grant for grant in grants if asked(grant)]
    denied = [
        grant for grant in answering if "denied" in msgspec.to_builtins(grant.record).values()
    ]
    assert found in (denied or answering or [None])


@given(st.lists(every_grant, max_size=6))
def test_the_grant_that_applies_also_applies_by_itself(grants):
    found = asked(*grants)
    assert (found is None) == all(asked(grant) is None for grant in grants)
    assert found is None or asked(found) is found


def test_a_grant_for_this_call_takes_precedence_over_wider_grants():
    wide = entry(1, pattern="pay", scope="project")
    exact = entry(2, arguments="d" * 64, scope="session")
    this = entry(3, arguments="d" * 64, scope="once", call=CALL)
    assert asked(wide, exact, this) is this
    assert asked(wide, exact) is exact
    narrower = entry(4, pattern="pay", scope="session")
    assert asked(wide, narrower) is narrower


def test_a_grant_for_one_call_does_not_apply_to_another_with_the_same_arguments():
    other = entry(arguments="d" * 64, scope="once", call="c_" + "0" * 32)
    assert asked(other) is None
    assert asked(other, call="") is None


def test_a_pattern_that_this_release_cannot_parse_denies_but_never_approves():
    assert asked(entry(pattern="pay[[amount in 1..5]]", scope="session")) is None
    assert asked(entry(pattern="pay(amount in 1..5", scope="session", verdict="denied")) is not None


def test_an_erased_grant_applies_to_no_call():
    assert asked(Entry("approvals", "r", "k", 1, 1, ErasedRecord(erased=4))) is None


def test_a_one_time_grant_is_removed_when_its_call_starts():
    once, wide = entry(1, scope="once"), entry(2, scope="session")
    assert used_up(once) == (Remove("approvals", "k1"),)
    assert used_up(wide) == ()


@given(
    every_grant, st.sampled_from(["tool", "arguments", "pattern", "scope", "verdict", "call", "by"])
)
def test_a_grant_is_valid_only_unchanged_in_its_own_store_and_session(grant, field):
    here, session = "store-1", "s_" + "1" * 32
    signed = sign(grant.record, session, here, OWN)
    assert is_own(signed, session, here, OWN)
    assert not is_own(signed, session, "store-2", OWN)
    assert not is_own(signed, "s_" + "2" * 32, here, OWN)
    changed = msgspec.structs.replace(signed, **{field: getattr(signed, field) + "x"})
    assert not is_own(changed, session, here, OWN)
    assert not is_own(
        msgspec.structs.replace(signed, expires=signed.expires + 1), session, here, OWN
    )
    assert not is_own(grant.record, session, here, OWN)


@given(st.text(max_size=60) | st.from_regex(r"\w{0,4}\([\w=<>!\", *\\.-]{0,30}\)", fullmatch=True))
def test_any_text_parses_as_a_pattern_or_is_refused(text):
    try:
        pattern = parse_pattern(text)
    except InvalidInput:
        return
    pattern.fits("pay", {"a": 1, "b": "x", "c": None})
    assert parse_pattern(str(pattern)) == pattern


@given(
    st.text(max_size=60),
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.binary()),
)
def test_any_accepted_condition_can_be_checked_against_any_value(condition, value):
    try:
        rule = Rule(when={"a": condition})
    except InvalidInput:
        return
    decide([rule], "pay", "write", {"a": value})
