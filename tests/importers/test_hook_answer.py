"""What the hook answers when an agent starts: what it must know, and the handle of its session."""

from __future__ import annotations

import json

import pytest

import stator
from importers.hooking import post, pre, prompt, said, talk
from stator.hooks import spool
from stator.model.exchange.items import Conversation
from stator.surfaces import hook_answer
from stator.surfaces.agent_settings.agents import CLAUDE, CODEX, GEMINI


def answered(done):
    assert (done.returncode, done.stderr) == (0, b"")
    return json.loads(done.stdout)["additional_context"]


def handle(name: str) -> str:
    return Conversation(source="cursor", id=name).session


def test_the_first_session_of_a_project_is_told_its_handle(hooked):
    text = answered(hooked.hook(said("sessionStart")))
    assert handle("c1") in text
    assert "do it" not in text


def test_a_new_session_is_told_of_the_newest_before_it(hooked):
    hooked.write(*talk("c1"))
    text = answered(hooked.hook(said("sessionStart", "c2")))
    assert "do it" in text
    assert f"as {handle('c2')}" in text


@pytest.mark.parametrize("source", ["resume", "compact", "fork"])
def test_a_session_that_goes_on_is_told_of_itself(hooked, source):
    hooked.write(prompt(text="the older one"), said("stop"), *talk("c2"))
    text = answered(hooked.hook(said("sessionStart", source=source)))
    assert "the older one" in text


def test_what_was_lost_with_the_last_run_is_told(hooked):
    hooked.write(said("sessionStart"), prompt(), pre("t1", command="pay 5"))
    text = answered(hooked.hook(said("sessionStart", source="resume")))
    assert "doubt" in text


def test_other_projects_are_not_told_of(hooked, tmp_path):
    other = tmp_path / "other"
    (other / ".git").mkdir(parents=True)
    hooked.write(*({"cwd": str(other), **line} for line in talk("c1")))
    text = answered(hooked.hook(said("sessionStart", "c2")))
    assert "do it" not in text


def test_after_it_the_session_is_in_the_store(hooked):
    hooked.hook(said("sessionStart"))
    with stator.connect(hooked.path, read_only=True) as store:
        assert [view.id for view in store.views()] == [handle("c1")]


def test_a_store_that_is_none_is_not_the_agents_problem(hooked):
    hooked.path.write_bytes(b"no database at all" * 100)
    done = hooked.hook(said("sessionStart"))
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_an_agent_that_nobody_knows_is_told_nothing(hooked):
    done = hooked.hook(said("sessionStart"), agent="nobody")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_a_long_spool_is_taken_in_only_so_far(hooked, monkeypatch):
    hooked.write(*(line for n in range(400) for line in (pre(f"t{n}"), post(f"t{n}"))))
    assert answered(hooked.hook(said("sessionStart", "c2")))
    assert spool.status_of(str(hooked.spool)).files == 1


def test_it_gives_up_before_the_agent_does():
    """Whoever holds the store's lock may hold it for long; an agent says that a hook failed then."""
    assert min(CLAUDE.timeout, CODEX.timeout, GEMINI.timeout / 1000) > hook_answer.SECONDS
