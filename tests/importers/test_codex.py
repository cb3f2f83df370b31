"""Tests that Codex's rollouts of every version become sessions."""

from __future__ import annotations

import json
import os
import shutil

import pytest

import stator
from importers import counts_codex, growing_files
from importers.growing_files import (
    import_while_growing,
    items,
    model_output,
    outcomes,
    totals,
    usage_of,
)
from importers.import_helpers import (
    DATA,
    RECORDINGS,
    conversations_in,
    import_file,
    kinds,
    needs_recordings,
    plan,
    prompts_of,
    rendered,
    view,
)
from stator.errors import InvalidInput
from stator.importers.codex.rollout import FORMAT
from stator.importers.reading import jsonl as lines
from stator.importers.reading import zstd
from stator.importers.reading.found_conversation import FoundConversation
from stator.importers.reading.jsonl import read_beginning
from stator.model.brief.envelope import wrapped
from stator.model.exchange.items import (
    Called,
    Configured,
    Conversation,
    Cursor,
    Noise,
    Noted,
    Prompted,
    digest_of,
)
from stator.model.window.reply import requests

HERE = DATA / "codex"
ID = "0199aaaa-0000-7000-8000-0000000000"
MAIN = HERE / f"rollout-2026-10-01T09-00-00-{ID}0a.jsonl"
FORK = HERE / f"rollout-2026-10-01T10-00-00-{ID}0b.jsonl"
CHILD = HERE / f"rollout-2026-10-01T11-00-00-{ID}0c.jsonl"
PARENT = HERE / f"rollout-2026-10-01T10-30-00-{ID}10.jsonl"
OLD = HERE / f"rollout-2025-09-20T09-00-00-{ID}0d.jsonl"
OLDEST = HERE / f"rollout-2025-07-01T09-00-00-{ID}0e.jsonl"
EXEC = HERE / "exec-json.stdout.jsonl"
ROLLOUTS = [MAIN, FORK, CHILD, PARENT, OLD, OLDEST]


@pytest.fixture
def store():
    with stator.connect("memory:", project="garden") as opened:
        yield opened


def import_rollout(store, path):
    return growing_files.import_one(store, path, "codex")


def written(tmp_path, *lines, name="rollout-2026-10-01T09-00-00-0199bbbb.jsonl"):
    path = tmp_path / name
    meta = {"type": "session_meta", "payload": {"id": "0199bbbb", "cwd": "/home/dev/garden"}}
    path.write_text("".join(json.dumps(line) + "\n" for line in (meta, *lines)))
    return path


def said(kind, **payload):
    return {"type": "response_item", "payload": {"type": kind, **payload}}


def prompt(text):
    return said("message", role="user", content=[{"type": "input_text", "text": text}])


def call(name, tool="exec_command", **given):
    return said("function_call", name=tool, arguments=json.dumps(given), call_id=name)


def result(name, output):
    return said("function_call_output", call_id=name, output=output)


def outcome_of(store, tmp_path, output, tool="exec_command"):
    _, shown = import_rollout(
        store, written(tmp_path, prompt("go"), call("c1", tool, cmd="x"), result("c1", output))
    )
    (found,) = shown.calls()
    return found.status, found.cause


# -- what is in a rollout ---------------------------------------------------------------------------


@pytest.mark.parametrize("path", [*ROLLOUTS, EXEC], ids=lambda path: path.name[:28])
def test_a_rollout_is_recognized_by_its_first_line(path):
    assert FORMAT.recognizes(path, read_beginning(str(path)))


@pytest.mark.parametrize("path", ROLLOUTS, ids=lambda path: path.name[:28])
def test_the_counts_match_an_independent_count(path):
    assert totals(items(path, "codex")) == counts_codex.count(path)


def test_a_turn_begins_with_a_prompt_and_not_with_text_injected_by_codex(store):
    _, shown = import_rollout(store, MAIN)
    assert prompts_of(shown) == ["water the roses", "mend the pump"]


def test_text_typed_while_the_agent_works_belongs_to_the_current_turn(store):
    _, shown = import_rollout(store, MAIN)
    (said,) = [c for c in shown.log() if c.kind == "entry" and c.actor == "user"]
    assert (said.value("output"), said.turn) == ("and the tulips", 1)


def test_calls_of_one_answer_belong_to_one_answer(store):
    _, shown = import_rollout(store, MAIN)
    first = next(c for c in shown.log() if c.kind == "entry" and c.actor == "model")
    assert [call.name for call in requests(first.value("output"))] == [
        "update_plan",
        "exec_command",
    ]


def test_reasoning_stays_inside_the_answer(store):
    _, shown = import_rollout(store, MAIN)
    first = next(c for c in shown.log() if c.kind == "entry" and c.actor == "model")
    assert first.value("output")["output"][0]["type"] == "reasoning"


def test_every_call_has_its_recorded_outcome(store):
    _, shown = import_rollout(store, MAIN)
    assert outcomes(shown) == [
        (1, "apply_patch", "ok"),
        (1, "exec_command", "error"),
        (1, "exec_command", "ok"),
        (1, "mcp__well__depth", "ok"),
        (1, "update_plan", "ok"),
        (1, "web_search", "ok"),
        (2, "exec_command", "cancelled"),
    ]


def test_a_patch_yields_its_files(store):
    _, shown = import_rollout(store, MAIN)
    files = {entry.record.path: entry.record for entry in shown.entries("files")}
    assert {path: record.op for path, record in files.items()} == {
        "beds/roses.txt": "created",
        "diary.md": "modified",
        "can.txt": "deleted",
        "shed/can.txt": "renamed",
        "dead.txt": "deleted",
    }
    assert files["shed/can.txt"].from_path == "can.txt"


def test_the_plan_is_the_one_written_last(store):
    _, shown = import_rollout(store, MAIN)
    assert plan(shown) == [("fill the can", "in_progress"), ("pour", "pending")]


def test_the_result_of_an_mcp_server_is_stored_as_data(store):
    _, shown = import_rollout(store, MAIN)
    (answer,) = [c for c in shown.log() if c.kind == "outcome" and c.tool == "mcp__well__depth"]
    assert answer.value("output")["content"] == [{"type": "text", "text": "deep"}]


def test_web_results_are_marked_as_web(store):
    _, shown = import_rollout(store, MAIN)
    (answer,) = [c for c in shown.log() if c.kind == "outcome" and c.tool == "web_search"]
    assert answer.provenance.source == "web"


def test_a_call_that_the_user_aborted_is_cancelled(store):
    _, shown = import_rollout(store, MAIN)
    (stopped,) = [c for c in shown.calls() if c.status == "cancelled"]
    assert (stopped.turn, stopped.cause) == (2, "aborted by the user")


def test_an_aborted_turn_is_aborted(store):
    _, shown = import_rollout(store, MAIN)
    ends = [(c.turn, c.status) for c in shown.log() if c.kind == "turn_end"]
    assert ends == [(1, "ok"), (2, "aborted")]


def test_a_turn_whose_program_died_is_interrupted(store, tmp_path):
    begun = [{"type": "event_msg", "payload": {"type": "task_started", "turn_id": t}} for t in "ab"]
    killed = [begun[0], prompt("go"), call("c1", cmd="x")]
    _, shown = import_rollout(store, written(tmp_path, *killed, begun[1], prompt("on")))
    assert [c.status for c in shown.log() if c.kind == "turn_end"] == ["interrupted"]
    assert [c.status for c in shown.log() if c.kind == "outcome"] == ["in doubt"]


def test_a_command_that_only_reads_has_no_effect(tmp_path):
    path = written(
        tmp_path, prompt("go"), call("c1", cmd="cat a | head -5"), call("c2", cmd="make")
    )
    effects = {item.id: item.effect for item in told(path) if isinstance(item, Called)}
    assert effects == {"c1": "read", "c2": "write"}


def test_a_compaction_has_its_summary(store):
    _, shown = import_rollout(store, MAIN)
    (found,) = [c for c in shown.log() if c.kind == "compaction"]
    assert found.value("input")["summary"] == "The roses are watered."


def test_usage_is_counted_once(store):
    _, shown = import_rollout(store, MAIN)
    assert usage_of(shown)["tokens"] == 220


def test_a_session_is_named_after_its_first_prompt(store):
    _, shown = import_rollout(store, OLD)
    assert shown.record.name == "write the diary"


def test_calls_and_results_are_paired_when_rendered(store):
    _, shown = import_rollout(store, PARENT)
    said = rendered(store, shown, "openai")
    asks = [item["call_id"] for item in said if item.get("type") == "function_call"]
    answers = [item["call_id"] for item in said if item.get("type") == "function_call_output"]
    assert asks == answers == ["call_spawn"]


# -- whose words -----------------------------------------------------------------------------------


def told(path):
    return [item for item in items(path, "codex") if not isinstance(item, (Cursor, Noise))]


def prompts(path):
    return [(item.content, item.by) for item in told(path) if isinstance(item, Prompted)]


def test_the_context_of_an_editor_is_a_note_and_not_part_of_the_prompt():
    first, context = [
        item
        for item in told(OLD)
        if isinstance(item, (Prompted, Noted)) and "env" not in item.content
    ][:2]
    assert (first.content, first.by) == ("write the diary", "user")
    assert context.by == "system"
    assert context.content.endswith("- diary.md")


def test_what_codex_puts_beside_a_prompt_is_a_note(tmp_path):
    blocks = ["# AGENTS.md instructions for /x\n\nbe kind", "<environment_context>x", "go"]
    content = [{"type": "input_text", "text": text} for text in blocks]
    path = written(tmp_path, said("message", role="user", content=content))
    assert prompts(path) == [("go", "user")]
    (note,) = [item for item in told(path) if isinstance(item, Noted)]
    assert note.content == "\n\n".join(blocks[:2])


def test_the_first_prompt_of_a_sub_agent_is_its_parents():
    assert prompts(CHILD) == [("dig a hole", "agent")]


def test_a_message_of_another_agent_is_an_agents():
    (note,) = [item for item in told(CHILD) if isinstance(item, Noted)]
    assert note.by == "agent"


def test_a_turn_that_a_message_of_another_agent_started_has_it_as_its_prompt(tmp_path):
    message = said(
        "agent_message", id="m", author="lead", content=[{"type": "input_text", "text": "dig"}]
    )
    answer = said("message", role="assistant", content=[{"type": "output_text", "text": "Dug."}])
    begun = {"type": "event_msg", "payload": {"type": "task_started", "turn_id": "t"}}
    announced = {"type": "inter_agent_communication_metadata", "payload": {"trigger_turn": True}}
    path = written(tmp_path, begun, announced, message, answer)
    assert [
        (item.id, item.content, item.by) for item in told(path) if isinstance(item, Prompted)
    ] == [("turn/t", "dig", "agent")]


def test_a_sub_agent_hangs_at_the_call_that_started_it():
    (child,) = conversations_in(CHILD, "codex")
    assert child.conversation.parent.endswith("10")
    assert child.conversation.parent_call == "call_spawn"


def test_a_prompt_that_quotes_our_answer_stays_a_prompt(tmp_path):
    path = written(tmp_path, prompt(f"what is this? {wrapped('start', 'a note of Stator')}"))
    assert len(prompts(path)) == 1


def test_a_title_has_no_image_in_it(tmp_path):
    content = [
        {"type": "input_text", "text": "<image name=[Image #1]>"},
        {"type": "input_image", "image_url": "data:image/png;base64,QUJD"},
        {"type": "input_text", "text": "</image>"},
        {"type": "input_text", "text": "what is on it?"},
    ]
    (found,) = conversations_in(
        written(tmp_path, said("message", role="user", content=content)), "codex"
    )
    assert found.conversation.name == "what is on it?"


# -- plans, settings, files read ---------------------------------------------------------------------


def plan_call(name):
    return call(name, "update_plan", plan=[{"step": f"step {name}", "status": "pending"}])


def test_a_plan_changes_only_when_its_call_succeeded(store, tmp_path):
    failed = result("c2", "failed to parse function arguments: missing field")
    path = written(
        tmp_path,
        prompt("go"),
        plan_call("c1"),
        result("c1", "Plan updated"),
        plan_call("c2"),
        failed,
    )
    _, shown = import_rollout(store, path)
    assert plan(shown) == [("step c1", "pending")]


def test_a_plan_without_a_result_changes_nothing(store, tmp_path):
    _, shown = import_rollout(store, written(tmp_path, prompt("go"), plan_call("c1")))
    assert plan(shown) == []


def context(**settings):
    return {"type": "turn_context", "payload": {"cwd": "/home/dev/garden", **settings}}


def test_the_settings_of_a_turn_are_given_in_it_and_only_when_they_change(tmp_path):
    rose = context(
        model="rose-1", approval_policy="never", sandbox_policy={"mode": "read-only"}, effort="low"
    )
    path = written(tmp_path, rose, prompt("go"), rose, context(model="rose-2"), prompt("on"), rose)
    assert [
        (item.id, item.settings if isinstance(item, Configured) else "")
        for item in told(path)
        if isinstance(item, Configured) or item.id == "x"
    ] == [
        (
            "settings/1",
            {
                "model": "rose-1",
                "approval_policy": "never",
                "sandbox": "read-only",
                "reasoning_effort": "low",
            },
        ),
        ("settings/2", {"model": "rose-2"}),
        ("settings/3", {"model": "rose-1"}),
    ]
    kinds = [type(item) for item in told(path)]
    assert kinds.index(Configured) == kinds.index(Prompted) + 1


def test_the_instructions_of_a_project_are_a_setting_by_their_digest(tmp_path):
    words = "# AGENTS.md instructions for /x\n\nbe kind"
    path = written(tmp_path, prompt(words), prompt("go"))
    (found,) = [item for item in told(path) if isinstance(item, Configured)]
    assert found.settings == {"instructions": {"AGENTS.md": digest_of(words)}}


def test_a_file_that_a_command_shows_is_read(store, tmp_path):
    shows = call("c1", cmd="nl -ba beds/roses.md | sed -n '1,20p'")
    path = written(
        tmp_path, prompt("go"), shows, result("c1", "Process exited with code 0\nOutput:\n")
    )
    _, shown = import_rollout(store, path)
    (found,) = shown.entries("files")
    assert (found.record.path, found.record.op) == ("beds/roses.md", "read")


# -- older files ------------------------------------------------------------------------------------


def test_a_patch_in_a_shell_command_yields_files_in_the_commands_folder(store):
    _, shown = import_rollout(store, OLD)
    (found,) = shown.entries("files")
    assert (found.record.path, found.record.op) == ("notes/diary.md", "modified")


def test_a_refused_command_is_denied(store):
    _, shown = import_rollout(store, OLD)
    assert [c.status for c in shown.calls()] == ["denied", "ok"]


def test_the_same_prompt_twice_makes_two_turns(store):
    _, shown = import_rollout(store, OLD)
    assert len(prompts_of(shown)) == 2


def test_the_oldest_files_with_bare_items_are_read(store):
    report, shown = import_rollout(store, OLDEST)
    assert (report.turns, report.calls, report.unknown) == (1, 1, 0)
    assert prompts_of(shown) == ["say hello"]


@pytest.mark.parametrize(
    ("output", "ended"),
    [
        ("Exit code: 2\nWall time: 1 seconds\nOutput:\nExit code: 0", ("error", "exit code 2")),
        ("Wall time: 1 seconds\nOutput:\nExit code: 2", ("ok", "")),
        (
            "failed in sandbox X with execution error: denied, exit code: 1",
            ("error", "exit code 1"),
        ),
        ("exec_command failed: no such folder", ("error", "exec_command failed: no such folder")),
        ("exec_command failed for `ls`: no", ("error", "exec_command failed for `ls`: no")),
        ('{"output":"x","metadata":{"exit_code":7}}', ("error", "exit code 7")),
        ("command timed out after 1000 milliseconds\n", ("in doubt", "timeout")),
        ("aborted", ("cancelled", "aborted by the user")),
        ("aborted by user after 3.2s", ("cancelled", "aborted by the user")),
        ("Wall time: 3.0 seconds\naborted by user", ("cancelled", "aborted by the user")),
        ("Wall time: 3.0 seconds\nOutput:\naborted by user", ("ok", "")),
        ("aborted merge of two branches", ("ok", "")),
        ("exec command rejected by user", ("denied", "rejected by the user")),
        ({"content": "no", "success": False}, ("error", "no")),
        ([{"type": "input_text", "text": "fine"}], ("ok", "")),
        (None, ("ok", "")),
    ],
)
def test_the_outcome_of_a_command_is_read_from_its_output(store, tmp_path, output, ended):
    assert outcome_of(store, tmp_path, output) == ended


def test_an_interrupted_read_is_cancelled(store, tmp_path):
    assert outcome_of(store, tmp_path, "aborted", "read_mcp_resource")[0] == "cancelled"


# -- forks, sub-agents ------------------------------------------------------------------------------


def test_a_fork_shares_its_base_up_to_the_ordinal_it_names(store):
    _, base = import_rollout(store, MAIN)
    _, fork = import_rollout(store, FORK)
    assert (fork.record.parent.session, fork.record.parent.kind) == (base.id, "fork")
    assert prompts_of(fork) == ["water the roses", "sell the pump"]


def test_a_fork_without_its_base_becomes_a_separate_session(store, tmp_path):
    path = shutil.copy(FORK, tmp_path)
    _, fork = import_rollout(store, path)
    assert prompts_of(fork) == ["sell the pump"]
    assert fork.record.labels["forked from"].endswith("0a")


def test_a_fork_with_a_copied_base_begins_at_the_first_difference(store, tmp_path):
    _, base = import_rollout(store, OLD)
    old = [json.loads(line) for line in OLD.read_text().splitlines()]
    meta = {
        "type": "session_meta",
        "payload": {"id": "0199cccc", "forked_from_id": base.record.aliases[0][1]},
    }
    kept = [old[0], *old[1:10]]
    path = tmp_path / "rollout-2025-09-21T09-00-00-0199cccc.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in (meta, *kept, prompt("burn it"))))
    _, fork = import_rollout(store, path)
    assert fork.record.parent.session == base.id
    assert [text[-15:] for text in prompts_of(fork)] == ["write the diary", "burn it"]
    inherited = [kind for kind in kinds(fork) if kind in ("entry", "call")]
    assert inherited == ["entry", "entry", "entry", "call"]


def test_a_sub_agent_is_a_session_below_its_parent(store):
    _, parent = import_rollout(store, PARENT)
    _, child = import_rollout(store, CHILD)
    assert (child.record.parent.session, child.record.parent.kind) == (parent.id, "child")
    assert [entry.record.session for entry in parent.entries("children")] == [child.id]


def test_lines_a_sub_agent_inherited_are_not_imported(store):
    _, child = import_rollout(store, CHILD)
    assert prompts_of(child) == ["dig a hole"]


# -- the output of exec -----------------------------------------------------------------------------


def test_the_output_of_exec_can_be_imported_without_a_rollout(store):
    report, shown = import_rollout(store, EXEC)
    assert (report.turns, report.calls) == (1, 3)
    assert sorted((c.tool, c.status) for c in shown.calls()) == [
        ("apply_patch", "ok"),
        ("exec_command", "error"),
        ("mcp__well__depth", "ok"),
    ]


def test_beside_its_rollout_the_output_of_exec_adds_nothing(store, tmp_path):
    shutil.copy(MAIN, tmp_path)
    path = tmp_path / "out.jsonl"
    path.write_text(EXEC.read_text().replace(f"{ID}0f", f"{ID}0a"))
    import_rollout(store, tmp_path / MAIN.name)
    assert import_file(store, path, "codex").commits == 0


def test_where_the_rollout_was_imported_the_output_of_exec_adds_nothing(store, tmp_path):
    import_rollout(store, MAIN)
    path = tmp_path / "out.jsonl"
    path.write_text(EXEC.read_text().replace(f"{ID}0f", f"{ID}0a"))
    report = import_file(store, path, "codex")
    assert (report.commits, report.unchanged) == (0, 1)


def test_output_of_exec_that_grew_adds_only_what_is_new(store, tmp_path):
    told = EXEC.read_text().splitlines(keepends=True)
    path = tmp_path / "out.jsonl"
    path.write_text("".join(told[:4]))
    import_file(store, path, "codex")
    path.write_text("".join(told))
    _, shown = import_rollout(store, path)
    assert (len(prompts_of(shown)), len(shown.calls())) == (1, 3)


# -- repeated imports and growing files -------------------------------------------------------------


@pytest.mark.parametrize("path", [*ROLLOUTS, EXEC], ids=lambda path: path.name[:28])
def test_importing_again_adds_nothing(store, path):
    import_rollout(store, path)
    again, _ = import_rollout(store, path)
    assert (again.commits, again.unchanged) == (0, 1)


@pytest.mark.parametrize("path", [MAIN, OLD], ids=["new", "old"])
def test_a_file_that_grows_line_by_line_becomes_the_same_session(store, tmp_path, path):
    piecewise = import_while_growing(store, path, tmp_path / path.name, "codex")
    with stator.connect("memory:", project="garden") as other:
        _, whole = import_rollout(other, path)
        assert prompts_of(piecewise) == prompts_of(whole)
        assert model_output(piecewise) == model_output(whole)
        assert outcomes(piecewise) == outcomes(whole)
        assert usage_of(piecewise) == usage_of(whole)


def test_a_compressed_rollout_yields_the_same_session(store, tmp_path):
    path = tmp_path / f"{MAIN.name}.zst"
    path.write_bytes(vars(zstd)["zstd"].compress(MAIN.read_bytes()))
    import_rollout(store, path)
    assert import_rollout(store, MAIN)[0].turns == 0


# -- bad files --------------------------------------------------------------------------------------


def test_a_cut_last_line_is_reported_and_the_rest_is_imported(store, tmp_path):
    path = tmp_path / MAIN.name
    path.write_bytes(MAIN.read_bytes()[:-20])
    report, shown = import_rollout(store, path)
    assert [skip.why for skip in report.skips] == ["cut off"]
    assert len(prompts_of(shown)) == 2


@pytest.mark.parametrize("bad", [b"{nonsense\n", b"\0" * 300 + b"\n", b"[1, 2]\n", b'"x"\n'])
def test_a_bad_line_in_the_middle_is_skipped_and_the_rest_is_imported(store, tmp_path, bad):
    whole = MAIN.read_bytes().splitlines(keepends=True)
    path = tmp_path / MAIN.name
    path.write_bytes(b"".join([*whole[:20], bad, *whole[20:]]))
    report, shown = import_rollout(store, path)
    assert (report.skipped, len(prompts_of(shown))) == (1, 2)
    assert report.skips[0].line == 21


def test_lone_surrogates_are_kept(store, tmp_path):
    _, shown = import_rollout(store, written(tmp_path, prompt("a \ud800 b")))
    assert prompts_of(shown) == ["a \ud800 b"]


@pytest.mark.parametrize(
    "line",
    [
        {"type": "from_the_future", "payload": {"x": 1}},
        {"type": "response_item", "payload": {"type": "telepathy"}},
        {"type": "event_msg", "payload": {"type": "telepathy"}},
        {"type": "response_item", "payload": [1]},
        {"type": 7},
        {},
    ],
)
def test_a_line_of_an_unknown_kind_is_stored_unchanged(store, tmp_path, line):
    report, _ = import_rollout(store, written(tmp_path, prompt("go"), line))
    assert (report.unknown, report.turns) == (1, 1)


@pytest.mark.parametrize("value", [None, 7, "x", [], {}, [None, 7, {"text": 7}]])
@pytest.mark.parametrize(
    "kind", ["message", "reasoning", "function_call", "function_call_output", "web_search_call"]
)
def test_values_of_wrong_types_do_not_raise(store, tmp_path, kind, value):
    names = "role content id call_id arguments output name action namespace".split()
    odd = [said(kind, **{name: value}) for name in names] + [said(kind, role="user", content=value)]
    notices = [
        {
            "type": "event_msg",
            "payload": {"type": notice, "item": value, "info": value, "call_id": value},
        }
        for notice in ("item_completed", "token_count", "exec_command_end", "task_started", "error")
    ]
    others = [{"type": name, "payload": {"message": value, "usage": value, "cwd": value}} for name in
              ("compacted", "token_usage_record", "turn_context", "session_meta")]  # fmt: skip
    report, _ = import_rollout(store, written(tmp_path, *odd, *notices, *others, prompt("go")))
    assert report.turns >= 1


def test_a_result_without_its_call_is_an_orphan(store, tmp_path):
    report, _ = import_rollout(store, written(tmp_path, prompt("go"), result("nobody", "x")))
    assert (report.orphans, report.calls) == (1, 1)


def test_a_call_without_a_result_gets_none_from_the_end_of_the_file(store, tmp_path):
    _, shown = import_rollout(store, written(tmp_path, prompt("go"), call("c1", cmd="x")))
    assert [c.kind for c in shown.log() if c.kind in ("call", "outcome")] == ["call"]


def test_a_result_that_is_only_in_a_notice_is_recorded(store, tmp_path):
    done = {"type": "CommandExecution", "id": "c1", "status": "completed", "exit_code": 0}
    notice = {"type": "event_msg", "payload": {"type": "item_completed", "item": done}}
    _, shown = import_rollout(store, written(tmp_path, prompt("go"), call("c1", cmd="x"), notice))
    assert [c.status for c in shown.calls()] == ["ok"]


def test_repeated_lines_and_equal_times_change_nothing(store, tmp_path):
    once = [prompt("go"), call("c1", cmd="x"), result("c1", "y")]
    report, _ = import_rollout(store, written(tmp_path, *once, *once[1:]))
    assert (report.turns, report.calls) == (1, 1)


@pytest.mark.parametrize("change", [lambda b: b"\xef\xbb\xbf" + b, lambda b: b.replace(b"\n", b"\r\n"),
                                    lambda b: b.decode().encode("utf-16")], ids=["bom", "crlf", "utf-16"])  # fmt: skip
def test_other_encodings_are_read(store, tmp_path, change):
    path = tmp_path / MAIN.name
    path.write_bytes(change(MAIN.read_bytes()))
    assert FORMAT.recognizes(path, read_beginning(str(path)))
    report, _ = import_rollout(store, path)
    assert (report.turns, report.skipped) == (2, 0)


def test_the_bytes_of_an_image_are_not_stored(store, tmp_path):
    picture = "data:image/png;base64," + "QUJD" * 1000
    content = [
        {"type": "input_text", "text": "look"},
        {"type": "input_image", "image_url": picture},
    ]
    _, shown = import_rollout(
        store, written(tmp_path, said("message", role="user", content=content))
    )
    assert "QUJDQUJD" not in json.dumps(prompts_of(shown))


def test_a_line_above_the_limit_is_skipped_and_the_rest_is_imported(store, tmp_path, monkeypatch):
    path = written(tmp_path, prompt("go"), prompt("x" * 3000), prompt("on"))
    monkeypatch.setattr(lines, "LINE_MAX", 2000)
    report, shown = import_rollout(store, path)
    assert (report.skipped, prompts_of(shown)) == (1, ["go", "on"])


def test_a_pipe_is_refused_without_waiting(tmp_path):
    path = tmp_path / "rollout-x.jsonl"
    os.mkfifo(path)
    with pytest.raises(InvalidInput):
        list(FORMAT.conversations(path))


def test_a_session_id_cannot_point_out_of_the_folder(tmp_path):
    base = {"thread_id": "../../../etc/*", "end_ordinal_exclusive": 3}
    path = written(tmp_path, {"type": "session_meta", "payload": {"id": "x", "history_base": base}})
    path.write_text(path.read_text().splitlines()[1] + "\n")
    (found,) = FORMAT.conversations(path)
    assert found.conversation.fork_ids == frozenset()


# -- folders ----------------------------------------------------------------------------------------


def test_default_paths_are_codexs_folders(tmp_path):
    assert list(FORMAT.default_paths(tmp_path, {})) == [
        tmp_path / ".codex/sessions",
        tmp_path / ".codex/archived_sessions",
    ]
    assert [str(place) for place in FORMAT.default_paths(tmp_path, {"CODEX_HOME": "/x"})] == [
        "/x/sessions",
        "/x/archived_sessions",
    ]


def test_a_session_belongs_to_the_folder_it_took_place_in():
    talk = Conversation(source="codex", id="x", cwd="/home/dev/garden/beds")
    found = FoundConversation(path="x", conversation=talk)
    assert FORMAT.is_in_folder(found, "/home/dev/garden")
    assert not FORMAT.is_in_folder(found, "/home/dev/gard")


# -- real sessions ----------------------------------------------------------------------------------


@needs_recordings
def test_the_counts_of_real_sessions_match_an_independent_count(store):
    paths = [
        *RECORDINGS.glob("codex/*/*.jsonl"),
        *RECORDINGS.glob("generated/codex-*/rollout-*.jsonl"),
    ]
    assert paths
    for path in paths:
        assert totals(items(path, "codex")) == counts_codex.count(path), path.name
        assert import_file(store, path, "codex").refused == {}
        assert "turn" in kinds(view(store, conversations_in(path, "codex")[0]))
