"""Keys in forks, rewinds, retries and bundles, after erasure, and keys that hold a secret."""

from __future__ import annotations

from typing import Any

import pytest

import stator
from runtime.support import Counted, interrupt, pay_once
from stator.errors import BadTurn, Erased
from stator.runtime.retention import erase

SECRET = "AKIA" + "IOSFODNN7EXAMPLQ"


# -- branches -------------------------------------------------------------------------------------


def test_a_fork_has_the_keys_of_its_past(either):
    act = Counted()
    pay_once(either, act)
    either.fork("main", "head", as_name="branch")
    assert pay_once(either, act, name="branch").reused


def test_a_fork_of_a_fork_has_the_keys_of_its_past(either):
    act = Counted()
    pay_once(either, act)
    either.fork("main", "head", as_name="branch")
    pay_once(either, act, key="second", name="branch")
    either.fork("branch", "head", as_name="twig")
    assert pay_once(either, act, name="twig").reused
    assert pay_once(either, act, key="second", name="twig").reused


def test_a_fork_does_not_have_the_keys_that_came_after_it(either):
    act = Counted()
    with either.open("main") as s, s.turn("first"):
        pass
    either.fork("main", "head", as_name="branch")
    pay_once(either, act)
    assert not pay_once(either, act, name="branch").reused


def test_a_parent_does_not_have_the_keys_of_its_forks(either):
    act = Counted()
    with either.open("main") as s, s.turn("first"):
        pass
    either.fork("main", "head", as_name="branch")
    pay_once(either, act, name="branch")
    assert not pay_once(either, act).reused


def test_a_rewound_turn_runs_again(either):
    act = Counted()
    with either.open("main") as s, s.turn("first"):
        pass
    pay_once(either, act)
    with either.open("main") as s:
        s.rewind("t1")
    assert not pay_once(either, act).reused
    assert len(act.runs) == 2


def test_a_turn_whose_rewind_was_taken_back_is_reused(either):
    act = Counted()
    with either.open("main") as s, s.turn("first"):
        pass
    pay_once(either, act)
    with either.open("main") as s:
        s.rewind("t1")
        s.rewind("rewind/1")
    assert pay_once(either, act).reused


def test_a_retry_runs_again(either):
    act = Counted()
    pay_once(either, act)
    with either.open("main") as s, s.retry("t1", effects="run") as t:
        t.call(act.tool(effect="write"), cents=42)
    assert len(act.runs) == 2


def test_an_adopted_retry_is_found_by_the_key_of_its_turn(either):
    act = Counted()
    pay_once(either, act)
    with either.open("main") as s:
        with s.retry("t1", effects="run") as t:
            t.call(act.tool(effect="write"), cents=42)
        s.adopt("t1.2")
    assert pay_once(either, act).reused
    assert len(act.runs) == 2


# -- bundles, erasure, secrets --------------------------------------------------------------------


def moved(store: Any, tmp_path: Any) -> Any:
    """A store with the same session, from a bundle."""
    store.export(["main"], str(tmp_path / "main.stator"))
    other = stator.connect(tmp_path / "other.db", project="shop")
    other.import_bundle(str(tmp_path / "main.stator"))
    return other


def erase_key(store: Any) -> None:
    with store.open("main") as s:
        first = next(c for c in s.log() if c.kind == "turn")
        s.erase(f"@{first.seq}")


def test_a_bundle_carries_keys(either, tmp_path):
    act = Counted()
    pay_once(either, act)
    with moved(either, tmp_path) as other:
        assert pay_once(other, act).reused


def test_a_bundle_carries_an_interrupted_turn(either, tmp_path):
    act = Counted()
    interrupt(either, act)
    with either.open("main") as s, s.turn("something else"):
        pass
    with moved(either, tmp_path) as other, other.open("main") as s:
        with s.turn("pay", key="order 17") as t:
            t.call(act.tool(effect="write"), cents=42)
        assert t.continued
    assert len(act.runs) == 1


def test_a_turn_whose_key_was_erased_is_reused(either):
    act = Counted()
    pay_once(either, act)
    erase_key(either)
    assert pay_once(either, act).reused


def test_an_erased_key_is_not_in_the_erasure(either):
    pay_once(either, Counted())
    erase_key(either)
    commits = [c for c in either.read("main").log() if c.kind == "erasure"]
    assert "order 17" not in str([c.value("input") for c in commits])


def test_a_turn_whose_key_was_erased_is_reused_after_the_indexes_are_rebuilt(either):
    act = Counted()
    pay_once(either, act)
    erase_key(either)
    either.port.rebuild()
    assert pay_once(either, act).reused


def test_a_bundle_carries_what_is_left_of_an_erased_key(either, tmp_path):
    act = Counted()
    pay_once(either, act)
    erase_key(either)
    with moved(either, tmp_path) as other:
        assert pay_once(other, act).reused


def test_a_fork_finds_a_key_that_its_parent_erased_later(either):
    act = Counted()
    pay_once(either, act)
    either.fork("main", "head", as_name="branch")
    erase_key(either)
    assert pay_once(either, act, name="branch").reused


def test_a_turn_is_reused_after_everything_in_its_session_was_erased(store):
    act = Counted()
    pay_once(store, act)
    session = store.read("main").id
    plan = erase.of_session(store.port, session)
    erase.erase(store.port, store.context, plan, by="local:person")
    with store.open("main") as s, s.turn("pay", key="order 17") as t:
        assert t.reused


@pytest.mark.parametrize("redact", [True, False])
def test_a_key_that_holds_a_secret_is_found(tmp_path, redact):
    act = Counted()
    for _ in range(2):
        with stator.connect(tmp_path / "a.db", project="shop", redact=redact) as store:
            pay_once(store, act, key=f"deploy {SECRET}")
    assert len(act.runs) == 1


def test_a_key_that_holds_a_secret_is_not_recorded_as_it_is(store):
    pay_once(store, Counted(), key=f"deploy {SECRET}")
    first = next(c for c in store.read("main").log() if c.kind == "turn")
    assert SECRET not in first.value("key")


def test_a_key_with_a_secret_that_an_opening_without_redaction_recorded_is_found(tmp_path):
    act = Counted()
    for redact in (False, True):
        with stator.connect(tmp_path / "a.db", project="shop", redact=redact) as store:
            pay_once(store, act, key=f"deploy {SECRET}")
    assert len(act.runs) == 1


def test_a_value_that_holds_a_secret_comes_back_with_a_placeholder_and_a_warning(either):
    with either.open("main") as s:
        assert s.once("login", lambda: {"token": SECRET}) == {"token": SECRET}
    with either.open("main") as s, pytest.warns(UserWarning, match="held a secret"):
        assert "‹secret:" in s.once("login", lambda: {"token": SECRET})["token"]


def test_a_key_with_a_secret_is_found_after_everything_in_its_session_was_erased(store):
    act = Counted()
    key = f"deploy {SECRET}"
    pay_once(store, act, key=key)
    plan = erase.of_session(store.port, store.read("main").id)
    erase.erase(store.port, store.context, plan, by="local:person")
    with store.open("main") as s:
        assert s.turn("pay", key=key).reused


def test_an_erased_value_is_an_error_and_not_nothing(either):
    pay_once(either, Counted())
    with either.open("main") as s:
        end = next(c for c in s.log() if c.kind == "turn_end")
        s.erase(f"@{end.seq}", fields=["output"])
    with (
        either.open("main") as s,
        s.turn("pay", key="order 17") as t,
        pytest.raises(Erased, match="is gone"),
    ):
        print(t.value)


def test_a_bundle_without_the_transcript_leaves_out_values(either, tmp_path):
    pay_once(either, Counted())
    either.export(["main"], str(tmp_path / "main.stator"), transcript=False)
    with stator.connect(tmp_path / "other.db", project="shop") as other:
        other.import_bundle(str(tmp_path / "main.stator"))
        end = next(c for c in other.read("main").log() if c.kind == "turn_end")
        assert end.known("output") is None


def test_the_prompt_of_once_is_its_key(either):
    with either.open("main") as s:
        s.once("order 17", Counted())
        assert next(c for c in s.log() if c.kind == "turn").value("input") == "order 17"


def test_a_second_end_with_a_value_is_refused(either):
    with either.open("main") as s, s.turn("pay", key="k") as t:
        t.end(value=1)
        with pytest.raises(BadTurn):
            t.end(value=2)
        t.end()
    assert t.value == 1
