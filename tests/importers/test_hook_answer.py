"""Tests the answer to a session-start hook: the brief and the session's handle."""

from __future__ import annotations

import json

import pytest

import stator
from importers.hook_lines import after_tool, before_tool, conversation_lines, hook_input, prompt
from stator.hooks import spool
from stator.model.exchange.items import Conversation
from stator.surfaces import hook_answer
from stator.surfaces.agent_settings.agents import CLAUDE, CODEX, GEMINI


def answered(done):
    assert (done.returncode, done.stderr) == (0, b"")
    return json.loads(done.stdout)["additional_context"]


def handle(name: str) -> str:
    return Conversation(source="cursor", id=name).session


def test_the_first_session_of_a_project_receives_its_handle(hooked):
    text = answered(hooked.hook(hook_input("sessionStart")))
    assert handle("c1") in text
    assert "do it" not in text


def test_a_new_session_receives_the_brief_of_the_newest_one(hooked):
    hooked.write(*conversation_lines("c1"))
    text = answered(hooked.hook(hook_input("sessionStart", "c2")))
    assert "do it" in text
    assert f"as {handle('c2')}" in text


@pytest.mark.parametrize("source", ["resume", "compact", "fork"])
def test_a_resumed_session_receives_its_own_brief(hooked, source):
    hooked.write(prompt(text="the older one"), hook_input("stop"), *conversation_lines("c2"))
    text = answered(hooked.hook(hook_input("sessionStart", source=source)))
    assert "the older one" in text


def test_the_brief_lists_calls_in_doubt_from_the_last_run(hooked):
    hooked.write(hook_input("sessionStart"), prompt(), before_tool("t1", command="pay 5"))
    text = answered(hooked.hook(hook_input("sessionStart", source="resume")))
    assert "doubt" in text


def test_sessions_of_other_projects_are_not_in_the_brief(hooked, tmp_path):
    other = tmp_path / "other"
    (other / ".git").mkdir(parents=True)
    hooked.write(*({"cwd": str(other), **line} for line in conversation_lines("c1")))
    text = answered(hooked.hook(hook_input("sessionStart", "c2")))
    assert "do it" not in text


def test_the_answer_records_the_session_in_the_store(hooked):
    hooked.hook(hook_input("sessionStart"))
    with stator.connect(hooked.path, read_only=True) as store:
        assert [view.id for view in store.views()] == [handle("c1")]


def test_hook_exits_zero_when_the_store_is_not_a_database(hooked):
    hooked.path.write_bytes(b"no database at all" * 100)
    done = hooked.hook(hook_input("sessionStart"))
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_an_unknown_agent_receives_no_answer(hooked):
    done = hooked.hook(hook_input("sessionStart"), agent="nobody")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_a_long_spool_is_ingested_up_to_the_limit(hooked, monkeypatch):
    hooked.write(
        *(line for n in range(400) for line in (before_tool(f"t{n}"), after_tool(f"t{n}")))
    )
    assert answered(hooked.hook(hook_input("sessionStart", "c2")))
    assert spool.status_of(str(hooked.spool)).files == 1


def test_the_answer_gives_up_within_the_agents_timeout():
    """Another process may hold the store's lock for long, and an agent reports a slow hook as
    failed."""
    assert min(CLAUDE.timeout, CODEX.timeout, GEMINI.timeout / 1000) > hook_answer.SECONDS
