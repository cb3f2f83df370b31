"""Settings of driven sessions: what the agent runs with is state, and a change of it is in the diff."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

import stator
from runtime.support import Died, Model, driving, says
from stator.errors import InvalidInput
from stator.model.records.tables import NOT_DIFFED
from stator.model.values import canon
from stator.testing import memory_store, replay

OPUS, HAIKU = "claude-opus-4", "claude-haiku-4"
CAREFUL = "You are careful.\nNever guess."
QUICK = "You are quick."


@pytest.fixture(params=["memory", "file"])
def store(request, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    if request.param == "memory":
        yield memory_store(project="shop", root=str(tmp_path))
        return
    with stator.connect(tmp_path / "agent.db", project="shop") as opened:
        yield opened


def settings(view):
    return {e.record.name: canon.from_plain(e.record.value) for e in view.entries("settings")}


def recorded(view):
    """The names that each settings commit changed."""
    return [
        sorted(getattr(op, "record", op).name for op in commit.delta)
        for commit in view.log()
        if commit.kind == "settings"
    ]


def ask(turn, *, model=OPUS, system=CAREFUL, **options):
    return turn.model(Model(says(text="yes")), model=model, system=system, **options)


def changed(diff):
    """The net changes of settings, as name: before → after."""
    return {
        item.key: tuple(
            canon.from_plain(record.value) if record is not None else None
            for record in (item.before, item.after)
        )
        for item in diff.of("settings")
    }


# -- what requests show ---------------------------------------------------------------------------


def test_a_request_to_the_model_shows_what_the_agent_runs_with(store):
    with store.open("main") as s, s.turn("go") as t:
        ask(t, temperature=0.5, max_tokens=1024, top_p=1, thinking={"type": "enabled"})
        found = settings(s)
    assert found.pop("system_prompt")["first"] == "You are careful."
    assert found == {
        "model": OPUS,
        "temperature": 0.5,
        "max_tokens": 1024,
        "top_p": 1,
        "thinking": {"type": "enabled"},
    }


def test_another_model_and_another_prompt_are_exactly_the_diff(store):
    with store.open("main") as s:
        with s.turn("one") as t:
            ask(t, temperature=0)
        with s.turn("two") as t:
            ask(t, model=HAIKU, system=QUICK, temperature=0)
        diff = s.diff("t2")
    found = changed(diff)
    assert found.pop("model") == (OPUS, HAIKU)
    before, after = found.pop("system_prompt")
    assert (before["first"], after["first"]) == ("You are careful.", "You are quick.")
    assert found == {}
    assert {item.collection for item in diff.items} - NOT_DIFFED == {"settings"}


def test_a_turn_in_which_nothing_changed_records_no_settings(store):
    with store.open("main") as s:
        for prompt in ("one", "two", "three"):
            with s.turn(prompt) as t:
                ask(t, tools=[{"name": "look", "input_schema": {}}])
    assert recorded(s) == [["model", "system_prompt"]]


def test_a_session_that_is_opened_again_knows_its_settings(store):
    for prompt in ("one", "two"):
        with store.open("main") as s, s.turn(prompt) as t:
            ask(t)
    assert recorded(s) == [["model", "system_prompt"]]


def test_the_settings_of_a_request_are_on_record_before_it_is_asked(store):
    with store.open("main") as s, s.turn("go") as t:
        ask(t)
    kinds = [commit.kind for commit in s.log()]
    assert kinds.index("settings") == kinds.index("call") - 1


@pytest.mark.parametrize(
    "options",
    [
        {"system": CAREFUL},
        {"system": [{"type": "text", "text": "You are careful."}, {"type": "text", "text": "Never guess."}]},
        {"instructions": CAREFUL},
        {"messages": [{"role": "system", "content": CAREFUL}, {"role": "user", "content": "go"}]},
        {"input": [{"role": "developer", "content": [{"type": "input_text", "text": CAREFUL}]}]},
        {"config": {"system_instruction": CAREFUL}},
    ],
)  # fmt: skip
def test_the_system_prompt_is_found_where_providers_take_it(store, options):
    with store.open("main") as s, s.turn("go") as t:
        t.model(Model(says(text="yes")), **options)
        assert settings(s)["system_prompt"]["first"] == "You are careful."


@pytest.mark.parametrize(
    "options", [{"reasoning_effort": "high"}, {"reasoning": {"effort": "high"}}]
)
def test_the_reasoning_effort_has_one_name(store, options):
    with store.open("main") as s, s.turn("go") as t:
        t.model(Model(says(text="yes")), **options)
        assert settings(s) == {"reasoning_effort": "high"}


def test_the_tool_set_has_one_digest_that_changes_with_any_definition(store):
    with store.open("main") as s:
        for place, schema in enumerate([{}, {}, {"type": "object"}]):
            with s.turn(f"turn {place}") as t:
                t.model(Model(says(text="yes")), tools=[{"name": "look", "input_schema": schema}])
        assert changed(s.diff("t2")) == {}
        (before, after) = changed(s.diff("t3"))["tools"]
    assert before != after


def test_the_tools_of_a_wrapped_loop_are_its_tool_set(store):
    with store.open("main") as s:
        run = s.wrap({"look": lambda: "done"})
        with s.turn("one"):
            run("look", {})
        assert settings(s).keys() == {"tools"}
    with store.open("main") as s:
        run = s.wrap({"look": lambda: "done", "pay": lambda: "done"})
        with s.turn("two"):
            run("look", {})
        assert changed(s.diff("t2")).keys() == {"tools"}


@pytest.mark.parametrize("how", ["reply", "say", "results", "stream"])
def test_an_answer_names_its_model_where_no_request_did(store, how):
    answer = {**says(text="yes"), "model": HAIKU}
    with store.open("main") as s, s.turn("go") as t:
        if how == "reply":
            t.reply(answer)
        elif how == "say":
            t.say(answer)
        elif how == "results":
            t.results(answer, {})
        else:
            t.model(lambda: answer)
        assert settings(s) == {"model": HAIKU}


def test_the_name_in_the_request_counts_and_not_that_in_the_answer(store):
    with store.open("main") as s, s.turn("go") as t:
        t.model(lambda **_: {**says(text="yes"), "model": "claude-opus-4-20260101"}, model=OPUS)
        assert settings(s) == {"model": OPUS}


def test_a_secret_in_a_prompt_is_neither_recorded_nor_a_change_in_every_run(store):
    secret = "Use the key sk-ant-api03-" + "Zx9" * 31 + "AA."
    for prompt in ("one", "two"):
        with store.open("main") as s, s.turn(prompt) as t:
            ask(t, system=secret)
    assert "Zx9Zx9" not in repr(settings(s))
    assert recorded(s) == [["model", "system_prompt"]]


# -- what the program states ----------------------------------------------------------------------


def test_a_program_states_what_no_request_shows(store, tmp_path):
    (tmp_path / "AGENTS.md").write_text("be brief")
    with store.open("main") as s, s.turn("go") as t:
        t.configure(permission_mode="plan", instructions=["AGENTS.md", "CLAUDE.md"], system=QUICK)
        found = settings(s)
    assert found["permission_mode"] == "plan"
    assert found["instructions"]["CLAUDE.md"] == "missing"
    assert len(found["instructions"]["AGENTS.md"]) == 16
    assert found["system_prompt"]["first"] == QUICK


def test_an_instruction_file_that_was_edited_is_a_change(store, tmp_path):
    rules = tmp_path / "AGENTS.md"
    with store.open("main") as s:
        for place, text in enumerate(["be brief", "be brief", "be thorough"], 1):
            rules.write_text(text)
            with s.turn(f"turn {place}") as t:
                t.configure(instructions=str(rules))
        assert changed(s.diff("t2")) == {}
        before, after = changed(s.diff("t3"))["instructions"]
    assert before.keys() == after.keys() == {"AGENTS.md"}
    assert before != after


def test_the_same_settings_stated_again_add_no_commit(store):
    with store.open("main") as s, s.turn("go") as t:
        t.configure(permission_mode="plan")
        before = s.head
        t.configure(permission_mode="plan")
        assert s.head == before


def test_a_setting_is_taken_back_with_none(store):
    with store.open("main") as s:
        with s.turn("one") as t:
            t.configure(sandbox="read-only")
        with s.turn("two") as t:
            t.configure(sandbox=None)
        assert settings(s) == {}
        assert changed(s.diff("t2")) == {"sandbox": ("read-only", None)}


def test_settings_stated_between_turns_are_recorded_with_the_next_turn(store):
    with store.open("main") as s:
        s.configure(permission_mode="plan")
        with s.turn("one"):
            assert settings(s) == {"permission_mode": "plan"}
        assert changed(s.diff("t1")) == {"permission_mode": (None, "plan")}


def test_what_is_stated_is_not_taken_from_requests_any_more(store):
    """A program with two models says which is the one that its sessions are about."""
    with store.open("main") as s:
        s.configure(model=OPUS)
        for prompt in ("one", "two"):
            with s.turn(prompt) as t:
                ask(t)
                ask(t, model=HAIKU)
        assert settings(s)["model"] == OPUS
    assert recorded(s) == [["model"], ["system_prompt"]]


def test_nothing_to_configure_is_refused(store):
    with store.open("main") as s, pytest.raises(InvalidInput, match="nothing to configure"):
        s.configure()


def test_a_value_that_cannot_be_recorded_is_refused(store):
    with store.open("main") as s, pytest.raises(InvalidInput, match=r"\$\.gate"):
        s.configure(gate=object())


def test_a_batch_that_fails_records_no_settings_and_a_later_one_does(store):
    with store.open("main") as s, s.turn("go") as t:
        with contextlib.suppress(ZeroDivisionError), t.batch():
            t.configure(permission_mode="plan")
            _ = 1 / 0
        assert settings(s) == {}
        with t.batch():
            t.configure(permission_mode="plan")
            t.configure(permission_mode="plan")
        assert settings(s) == {"permission_mode": "plan"}
    assert recorded(s) == [["permission_mode"]]


def test_settings_are_configured_with_asyncio(tmp_path):
    async def drive():
        async with (
            stator.aio.connect(tmp_path / "agent.db", project="shop") as store,
            store.open("main") as s,
        ):
            await s.configure(permission_mode="plan")
            async with s.turn("go") as t:
                await t.model(Model(says(text="yes")), model=OPUS)
                await t.configure(sandbox="off")
            return {e.key for e in await s.entries("settings")}

    assert asyncio.run(drive()) == {"permission_mode", "model", "sandbox"}


# -- what can happen to a session -----------------------------------------------------------------


def program(s, *, upto, models=(OPUS, HAIKU, OPUS, HAIKU)):
    """Four turns, each with another model; the process dies in turn `upto`, after its answer."""
    for place, model in enumerate(models, 1):
        with s.turn(f"turn {place}") as t:
            t.configure(temperature=place)
            ask(t, model=model)
            t.configure(permission_mode=f"mode {place}")
            t.fact("place", place)
            if place == upto:
                raise Died


@pytest.mark.parametrize("upto", [1, 2, 3, 4])
def test_a_program_that_runs_again_after_a_crash_records_what_it_would_have_recorded(store, upto):
    with driving(store, "whole") as s:
        program(s, upto=0)
    with driving(store) as s:
        program(s, upto=upto)
    with driving(store) as s:
        program(s, upto=0)
    assert recorded(store.read("main")) == recorded(store.read("whole"))
    assert settings(store.read("main")) == settings(store.read("whole"))


def test_a_changed_program_that_runs_again_records_what_it_runs_with_now(store):
    with driving(store) as s:
        program(s, upto=3)
    with driving(store) as s:
        program(s, upto=0, models=(OPUS, OPUS, HAIKU, HAIKU))
    assert settings(store.read("main"))["model"] == HAIKU


def test_a_reused_turn_takes_settings_that_it_did_not_have(store):
    with driving(store) as s:
        with s.turn("one") as t:
            t.fact("a", 1)
        with s.turn("two") as t:
            t.fact("b", 2)
            raise Died
    with driving(store) as s:
        with s.turn("one") as t:
            assert t.reused
            t.configure(permission_mode="plan")
            t.fact("a", 1)
        with s.turn("two") as t:
            t.fact("b", 2)
        with s.turn("three"):
            assert settings(s) == {"permission_mode": "plan"}


def test_a_fork_has_the_settings_of_where_it_began(store):
    with store.open("main") as s:
        for place, model in enumerate((OPUS, HAIKU), 1):
            with s.turn(f"turn {place}") as t:
                ask(t, model=model)
        other = s.fork("t1")
    assert settings(store.read(other))["model"] == OPUS


def test_a_rewind_takes_settings_back_and_the_next_request_records_its_own(store):
    with store.open("main") as s:
        for place, model in enumerate((OPUS, HAIKU), 1):
            with s.turn(f"turn {place}") as t:
                ask(t, model=model)
        s.rewind("t1")
        assert settings(s)["model"] == OPUS
        with s.turn("again") as t:
            ask(t, model=HAIKU)
        assert settings(s)["model"] == HAIKU


def test_a_compaction_keeps_the_settings(store):
    with store.open("main") as s:
        for place in range(8):
            with s.turn(f"turn {place}") as t:
                ask(t)
        before = settings(s)
        s.compact(keep=1)
        assert settings(s) == before


def test_settings_travel_in_a_bundle(store, tmp_path):
    with store.open("main") as s, s.turn("go") as t:
        ask(t, temperature=0.25)
    store.export("main", tmp_path / "main.stator")
    with stator.connect(tmp_path / "other.db", project="shop") as other:
        other.import_bundle(tmp_path / "main.stator")
        assert settings(other.read("main")) == settings(s)


def test_a_replay_does_not_depend_on_settings(store):
    def agent(s):
        s.configure(sandbox="off")
        with s.turn("go") as t:
            t.configure(permission_mode="plan")
            ask(t)

    with store.open("main") as s:
        agent(s)
    assert replay(store.read("main"), agent).check().ok
