"""Tests what an agent is told by its hooks: when a session starts, and once with its first prompt."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import msgspec
import pytest

import stator
from importers.hook_lines import (
    DEAD,
    HOOK,
    IN_A_FILE,
    after_tool,
    before_tool,
    conversation_lines,
    hook_input,
    prompt,
)
from stator.hooks import spool
from stator.model.brief.doses import PROMPT_TOKENS, START_TOKENS
from stator.model.brief.envelope import notes_in
from stator.model.brief.received import GAVE
from stator.model.exchange.items import Conversation
from stator.model.log.query import CallQuery
from stator.model.views.open_calls import HISTORY_US
from stator.runtime.brief.start import Starting, start_dose
from stator.runtime.views.as_read import as_read
from stator.surfaces import hook_answer, told_marks
from stator.surfaces.agent_settings.agents import CLAUDE, CODEX, GEMINI

PROMPT_EVENTS = {
    "claude-code": "UserPromptSubmit",
    "codex": "UserPromptSubmit",
    "gemini": "BeforeAgent",
    "opencode": "UserPromptSubmit",
}
NOTHING = (0, b"", b"")


def answered(done):
    assert (done.returncode, done.stderr) == (0, b"")
    return json.loads(done.stdout)["additional_context"]


def given(done) -> str:
    """What an agent with hooks of Claude Code's form was told; empty if nothing."""
    assert (done.returncode, done.stderr) == (0, b"")
    said = json.loads(done.stdout) if done.stdout else {}
    return str(said.get("hookSpecificOutput", {}).get("additionalContext", ""))


def ended(done):
    return done.returncode, done.stdout, done.stderr


def handle(name: str, source: str = "cursor") -> str:
    return Conversation(source=source, id=name).session


def first_prompt(agent: str, text: str, name: str = "n1"):
    more = {"parts": [{"type": "text", "text": text}]} if agent == "opencode" else {"prompt": text}
    return {"hook_event_name": PROMPT_EVENTS[agent], "session_id": name, **more}


@pytest.fixture
def known(hooked):
    """A store in which a session decided how contracts are laid out."""
    with (
        stator.connect(hooked.path) as store,
        store.open("files-monday", agent="desk", project=project_of(hooked)) as session,
        session.turn("Organise the contracts below Documents by client") as turn,
    ):
        turn.decide("one folder per client", topic="layout", over=["one per year"])
        turn.dead_end("moving contracts while Dropbox syncs", why="two conflicts")
        turn.say("The contracts are sorted; the photos of 2024 are still open.")
    return hooked


def project_of(hooked) -> str:
    """The project that hooks record in from the folder of a store."""
    hooked.hook(hook_input("sessionStart", "first"))
    with stator.connect(hooked.path, read_only=True) as store:
        return next(iter(store.views())).row.record.project


# -- when a session starts ------------------------------------------------------------------------


def test_the_first_session_of_a_project_receives_its_handle(hooked):
    text = answered(hooked.hook(hook_input("sessionStart")))
    assert handle("c1") in text
    assert "do it" not in text


def test_a_new_session_is_told_of_the_one_before_in_one_line(hooked):
    hooked.write(*conversation_lines("c1"))
    text = answered(hooked.hook(hook_input("sessionStart", "c2")))
    (line,) = [line for line in text.split("\n") if "the session before this one" in line]
    assert "which may be unrelated" in line
    assert handle("c1")[-8:] in line or "s_" in line
    assert f"This session is {handle('c2')}" in text


@pytest.mark.parametrize("source", ["resume", "compact", "fork"])
def test_a_session_that_continues_is_told_of_no_other(hooked, source):
    hooked.write(prompt(text="the older one"), hook_input("stop"), *conversation_lines("c2"))
    text = answered(hooked.hook(hook_input("sessionStart", source=source)))
    assert "the session before" not in text
    assert handle("c1") in text


def test_a_resumed_session_is_told_nothing_twice(hooked):
    hooked.hook(hook_input("sessionStart"))
    hooked.write(prompt(), hook_input("stop"))
    assert ended(hooked.hook(hook_input("sessionStart", source="resume"))) == NOTHING


def test_a_compacted_session_gets_its_handle_again(hooked):
    hooked.hook(hook_input("sessionStart"))
    hooked.write(prompt(), hook_input("stop"))
    assert handle("c1") in answered(hooked.hook(hook_input("sessionStart", source="compact")))


def test_a_resumed_session_is_told_which_of_its_calls_are_in_doubt(hooked):
    hooked.hook(hook_input("sessionStart"))
    hooked.write(prompt(), before_tool("t1", command="pay 5"))
    text = answered(hooked.hook(hook_input("sessionStart", source="resume")))
    assert "in doubt, your call" in text
    assert "stator settle c_" in text


def test_a_new_session_is_told_what_is_in_doubt_in_the_project(hooked):
    from importers.hook_lines import DEAD

    lines = hook_input("sessionStart"), prompt(), before_tool("t1", command="pay 5")
    hooked.write(*lines, process=DEAD)
    text = answered(hooked.hook(hook_input("sessionStart", "c2")))
    assert "in doubt, it may or may not have happened" in text
    assert "stator settle c_" in text


def test_the_start_dose_is_wrapped_and_within_its_budget(hooked):
    hooked.write(*conversation_lines("c1"))
    text = answered(hooked.hook(hook_input("sessionStart", "c2")))
    assert [note.kind for note in notes_in(text)] == ["start"]
    assert len(text.encode()) <= 4 * START_TOKENS


def test_sessions_of_other_projects_are_not_named(hooked, tmp_path):
    other = tmp_path / "other"
    (other / ".git").mkdir(parents=True)
    hooked.write(*({"cwd": str(other), **line} for line in conversation_lines("c1")))
    text = answered(hooked.hook(hook_input("sessionStart", "c2")))
    assert "do it" not in text


def test_the_answer_records_the_session_in_the_store(hooked):
    hooked.hook(hook_input("sessionStart"))
    with stator.connect(hooked.path, read_only=True) as store:
        assert [view.id for view in store.views()] == [handle("c1")]


@IN_A_FILE
def test_hook_exits_zero_when_the_store_is_not_a_database(hooked):
    hooked.path.write_bytes(b"no database at all" * 100)
    assert ended(hooked.hook(hook_input("sessionStart"))) == NOTHING
    assert ended(hooked.hook(first_prompt("codex", "continue"), agent="codex")) == NOTHING


def test_an_unknown_agent_receives_no_answer(hooked):
    assert ended(hooked.hook(hook_input("sessionStart"), agent="nobody")) == NOTHING
    assert ended(hooked.hook(first_prompt("codex", "continue"), agent="nobody")) == NOTHING


def test_a_long_spool_is_ingested_up_to_the_limit(hooked, monkeypatch):
    hooked.write(
        *(line for n in range(400) for line in (before_tool(f"t{n}"), after_tool(f"t{n}")))
    )
    assert answered(hooked.hook(hook_input("sessionStart", "c2")))
    assert spool.status_of(str(hooked.spool)).taken == 1


def test_the_answer_gives_up_within_the_agents_timeout():
    """Another process may hold the store's lock for long, and an agent reports a slow hook as
    failed."""
    assert min(CLAUDE.timeout, CODEX.timeout, GEMINI.timeout / 1000) > hook_answer.SECONDS


# -- with the first prompt ------------------------------------------------------------------------


@pytest.mark.parametrize("agent", PROMPT_EVENTS)
def test_a_first_prompt_is_answered_with_what_bears_on_it(known, agent):
    text = given(known.hook(first_prompt(agent, "carry on with the contracts"), agent=agent))
    assert "one folder per client" in text
    assert "moving contracts while Dropbox syncs" in text
    assert [note.kind for note in notes_in(text)] == ["prompt"]
    assert len(text.encode()) <= 4 * PROMPT_TOKENS


@pytest.mark.parametrize("agent", PROMPT_EVENTS)
def test_only_the_first_prompt_is_answered(known, agent):
    assert given(known.hook(first_prompt(agent, "carry on with the contracts"), agent=agent))
    again = known.hook(first_prompt(agent, "carry on with the contracts"), agent=agent)
    assert ended(again) == NOTHING


@pytest.mark.parametrize("agent", PROMPT_EVENTS)
def test_an_unrelated_prompt_gets_nothing(known, agent):
    done = known.hook(first_prompt(agent, "Set up nginx as a reverse proxy"), agent=agent)
    assert ended(done) == NOTHING


def test_continue_alone_means_the_session_before(known):
    text = given(known.hook(first_prompt("codex", "continue"), agent="codex"))
    assert "one folder per client" in text
    assert "the previous session" in text


def test_after_a_greeting_the_next_prompt_is_the_first(known):
    assert ended(known.hook(first_prompt("codex", "hi"), agent="codex")) == NOTHING
    assert given(known.hook(first_prompt("codex", "continue"), agent="codex"))


def test_of_hooks_that_run_at_once_one_answers(known):
    line = json.dumps({"cwd": str(known.root), **first_prompt("codex", "continue")}).encode()

    def run(_: int) -> bytes:
        return subprocess.run(
            [*HOOK, "codex"], input=line, capture_output=True, cwd=known.root, check=True,
            env=known.environ, timeout=60,
        ).stdout  # fmt: skip

    with ThreadPoolExecutor(4) as threads:
        answers = list(threads.map(run, range(4)))
    assert sum(map(bool, answers)) == 1


@pytest.mark.parametrize("source", ["resume", "compact", "fork"])
def test_a_conversation_that_continues_has_had_its_first_prompt(known, source):
    start = {"hook_event_name": "SessionStart", "session_id": "n1", "source": source}
    known.hook(start, agent="claude-code")
    done = known.hook(first_prompt("claude-code", "continue"), agent="claude-code")
    assert ended(done) == NOTHING


def test_a_sub_agents_prompt_is_not_answered(known):
    line = first_prompt("codex", "continue") | {"agent_id": "a1"}
    assert ended(known.hook(line, agent="codex")) == NOTHING


def test_a_killed_answer_is_not_given_later(known):
    """The mark is made before the answer: a conversation is told at most once."""
    told_marks.claim(str(known.spool), "n1")
    assert ended(known.hook(first_prompt("codex", "continue"), agent="codex")) == NOTHING


def give_up(hooked, line) -> None:
    """Run a hook of Codex whose answer takes too long."""
    code = (
        "import os, signal, sys\nfrom stator.runtime.brief import doses\nfrom stator.surfaces import hook\n"
        "doses.prompt_dose = lambda *_, **__: os.kill(os.getpid(), signal.SIGALRM)\n"
        "sys.argv = ['stator-hook', 'codex']\nhook.main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], input=json.dumps({"cwd": str(hooked.root), **line}).encode(),
        capture_output=True, cwd=hooked.root, env=hooked.environ, check=True,
    )  # fmt: skip
    assert ended(done) == NOTHING


def test_an_answer_that_takes_too_long_leaves_its_dose_to_the_next_prompt(known):
    give_up(known, first_prompt("codex", "continue"))
    assert given(known.hook(first_prompt("codex", "continue"), agent="codex"))
    assert ended(known.hook(first_prompt("codex", "continue"), agent="codex")) == NOTHING


def test_an_agent_waits_for_a_slow_store_with_few_prompts(known):
    for _ in range(hook_answer.LATE_MAX + 1):
        give_up(known, first_prompt("codex", "continue"))
    assert ended(known.hook(first_prompt("codex", "continue"), agent="codex")) == NOTHING


def test_what_the_agent_loads_itself_is_not_told(known):
    (known.root / "CLAUDE.md").write_text(
        "Decisions. layout: one folder per client (over one per year)\n"
    )
    text = given(known.hook(first_prompt("codex", "carry on with the contracts"), agent="codex"))
    assert "one folder per client" not in text
    assert "moving contracts while Dropbox syncs" in text


def test_the_session_that_asks_is_never_told_of_itself(known):
    known.hook(first_prompt("codex", "Sort the photos of 2024 into albums"), agent="codex")
    with stator.connect(known.path):
        pass
    text = given(known.hook(first_prompt("codex", "continue", "n2"), agent="codex"))
    assert handle("n2", "codex")[-8:] not in text


# -- switched off ---------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["off", "start"])
def test_the_prompt_dose_can_be_switched_off(known, mode):
    line = first_prompt("codex", "continue")
    assert ended(known.hook(line, agent="codex", STATOR_BRIEF=mode)) == NOTHING


def test_the_start_dose_can_be_switched_off(hooked):
    done = hooked.hook(hook_input("sessionStart"), STATOR_BRIEF="off")
    assert ended(done) == NOTHING
    with stator.connect(hooked.path) as store:
        assert [view.id for view in store.views()] == [handle("c1")]


def test_the_environment_overrides_the_command(known):
    line = {"cwd": str(known.root), **first_prompt("codex", "continue")}

    def run(**environ: str) -> bytes:
        return subprocess.run(
            [*HOOK, "codex", "--brief=off"], input=json.dumps(line).encode(), capture_output=True,
            cwd=known.root, check=True, env=known.environ | environ, timeout=60,
        ).stdout  # fmt: skip

    assert run() == b""
    assert run(STATOR_BRIEF="full")


# -- marks ----------------------------------------------------------------------------------------


def test_marks_are_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(told_marks, "KEPT_MAX", 20)
    for number in range(30):
        assert told_marks.claim(str(tmp_path), f"c{number}")
    told_marks.remove_old(str(tmp_path))
    assert len(os.listdir(tmp_path / "told")) == 10


@pytest.mark.parametrize("name", ["../../etc/passwd", "a/b", "", "x" * 500, "é\n\0ü"])
def test_a_mark_stays_in_its_folder(tmp_path, name):
    path = told_marks.told_path(str(tmp_path), name)
    assert os.path.dirname(path) == str(tmp_path / "told")


# -- what an answer loads -------------------------------------------------------------------------

NOT_FOR_AN_ANSWER = (
    "stator.runtime.facade",
    "stator.runtime.driving",
    "stator.runtime.retention",
    "stator.runtime.bundles",
    "stator.runtime.ingest.recorder",
    "stator.importers.conversation",
    "stator.importers.discover",
    "stator.hooks.ingest",
    "stator.hooks.unplaced",
    "stator.model.extraction.extractor",
    "stator.store.sandbox",
    "stator.store.sqlite.sandbox",
    "subprocess",
    "cryptography",
)
"""What drives sessions, reads transcripts, keeps or erases: an agent waits for its hook, and it needs none of this."""
NOT_FOR_A_START = ("stator.model.window.compaction", "stator.runtime.views.session")


@pytest.fixture
def settled(known):
    """The same, with nothing in its spool."""
    with stator.connect(known.path):
        assert known.lines() == []
    return known


def answer_and_modules(hooked, line, **environ) -> tuple[bytes, set[str]]:
    """What a hook of Claude Code answers, and the modules it has loaded then. The program that ingests is not
    started."""
    code = (
        "import os, sys\nfrom stator.surfaces import hook\nleave = os._exit\n"
        "hook._start_ingester = lambda *_, **__: None\n"
        "def end(code):\n    print(*sys.modules, file=sys.stderr, flush=True)\n    leave(code)\n"
        "os._exit = end\nsys.argv = ['stator-hook', 'claude-code']\nhook.main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], input=json.dumps({"cwd": str(hooked.root), **line}).encode(),
        capture_output=True, cwd=hooked.root, env=hooked.environ | environ, check=True,
    )  # fmt: skip
    return done.stdout, set(done.stderr.decode().split())


def those_of(loaded: set[str], unwanted: tuple[str, ...]) -> list[str]:
    return sorted(
        name for name in loaded for one in unwanted if name == one or name.startswith(one + ".")
    )


def start_of(name: str, source: str = "startup") -> dict[str, str]:
    return {"hook_event_name": "SessionStart", "session_id": name, "source": source}


def queued(hooked) -> list[str]:
    """The hooks whose lines wait in the spool; what hooks gave to an agent is not among them."""
    found = (json.loads(line.split(b"\t", 1)[1]).get("hook_event_name") for line in hooked.lines())
    return [name for name in found if name != GAVE]


@IN_A_FILE
def test_the_answer_to_a_start_loads_only_what_reads_the_store(settled):
    told, loaded = answer_and_modules(settled, start_of("n1"), STATOR_INGESTER="")
    assert b"files-monday" in told
    assert those_of(loaded, NOT_FOR_AN_ANSWER + NOT_FOR_A_START) == []


@IN_A_FILE
def test_the_answer_to_a_first_prompt_loads_only_what_reads_the_store(settled):
    prompted = first_prompt("claude-code", "one folder per client for the new contracts")
    told, loaded = answer_and_modules(settled, prompted)
    assert b"one folder per client" in told
    assert those_of(loaded, NOT_FOR_AN_ANSWER) == []


def test_a_start_ingests_what_other_hooks_queued_before_it_answers(settled):
    settled.write(*conversation_lines("c7"))
    answer_and_modules(settled, start_of("n1"), STATOR_INGESTER="")
    assert queued(settled) == []


def test_a_start_leaves_its_own_line_to_the_program_that_ingests_after_it(settled):
    answer_and_modules(settled, start_of("n1"), STATOR_INGESTER="")
    assert queued(settled) == ["SessionStart"]


def test_a_start_ingests_its_own_line_if_no_program_does_so_after_it(settled):
    answer_and_modules(settled, start_of("n1"), STATOR_INGESTER="off")
    assert queued(settled) == []


@pytest.mark.parametrize("source", hook_answer.CONTINUING)
def test_a_session_that_continues_is_ingested_before_its_start_is_answered(settled, source):
    answer_and_modules(settled, start_of("n1", source), STATOR_INGESTER="")
    assert queued(settled) == []


def test_a_start_is_answered_the_same_whether_or_not_its_line_is_ingested_first(settled):
    before, _ = answer_and_modules(settled, start_of("n1"), STATOR_INGESTER="")
    after, _ = answer_and_modules(settled, start_of("n1"), STATOR_INGESTER="off")
    assert before == after != b""


def test_a_start_reads_no_transcript_for_calls_that_are_history(settled):
    settled.write(prompt(), before_tool("t1", command="ls"), process=DEAD)
    asked = []

    def unplaced(port, row):
        asked.append(row.id)
        return []

    with stator.connect(settled.path) as store:
        later = store.context.clock() + 2 * HISTORY_US
        context = msgspec.structs.replace(
            store.context,
            clock=lambda: later,
            unplaced=unplaced,
        )
        (row,) = store.port.calls(CallQuery(statuses=("started",))).rows
        told = str(start_dose(as_read(store.port, context), context, Starting(session="s_1")))
    assert row.tool not in told
    assert asked == []
