"""What each rule of extraction finds, and what it leaves alone."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.extraction_talks import call, drafted, drafter, findings, prompt, records, shell
from stator.model.exchange.extraction_state import ExtractionState, HeldCall
from stator.model.exchange.items import Called, Prompted, Returned, Touch
from stator.model.extraction.evidence import ENDS, EXTRACT, Evidence
from stator.model.extraction.extractor import CALLS_MAX, RULES
from stator.model.log.commit import Upsert

OPTIONS = [
    {"label": "SQLite", "description": "one file"},
    {"label": "PostgreSQL", "description": "a server"},
]
QUESTION = {"question": "Which store?", "header": "Store", "options": OPTIONS, "multiSelect": False}


def answered(answer: str, question: str = "Which store?") -> str:
    return (
        f'User has answered your questions: "{question}"="{answer}". '
        "You can now continue with the user's answers in mind."
    )


def only(found):
    (one,) = found
    return one


# -- answers --------------------------------------------------------------------------------------

ANSWERS = {
    "Claude Code": ("AskUserQuestion", {"questions": [QUESTION]}, answered("SQLite")),
    "Claude Code, blocks": (
        "AskUserQuestion",
        {"questions": [QUESTION]},
        [{"type": "text", "text": answered("SQLite")}],
    ),
    "opencode": ("question", {"questions": [QUESTION]}, answered("SQLite")),
    "Codex": (
        "request_user_input",
        {"questions": [{"id": "store", **QUESTION}]},
        json.dumps({"answers": {"store": {"answers": ["SQLite"]}}}),
    ),
    "Gemini CLI": ("ask_user", {"questions": [QUESTION]}, '{"answers": {"0": "SQLite"}}'),
    "Copilot": (
        "ask_user",
        {"question": "Which store?", "choices": ["SQLite", "PostgreSQL"]},
        "User selected: SQLite",
    ),
    "Cline": (
        "ask_followup_question",
        {"question": "Which store?", "options": '["SQLite", "PostgreSQL"]'},
        "<answer>\nSQLite\n</answer>",
    ),
}


@pytest.mark.parametrize("agent", ANSWERS)
def test_an_answered_question_is_a_decision_of_the_user(agent):
    decision = only(records([prompt(), *call(*ANSWERS[agent])], "answer"))
    assert (decision.topic, decision.what, decision.over) == (
        "Which store?",
        "SQLite",
        ["PostgreSQL"],
    )
    assert (decision.by, decision.how) == ("user", "inferred")


def test_the_reason_is_the_description_of_the_option():
    asked = call("AskUserQuestion", {"questions": [QUESTION]}, answered("PostgreSQL"))
    assert only(records(asked)).why == "a server"


def test_an_answer_in_other_words_is_over_no_option():
    asked = call("AskUserQuestion", {"questions": [QUESTION]}, answered("a file, as before"))
    decision = only(records(asked))
    assert (decision.what, decision.over, decision.why) == ("a file, as before", [], "")


def test_all_chosen_options_are_in_the_decision():
    options = [{"label": name} for name in ("lint, strict", "types", "tests")]
    question = {**QUESTION, "options": options, "multiSelect": True}
    asked = call("AskUserQuestion", {"questions": [question]}, answered("lint, strict, tests"))
    decision = only(records(asked))
    assert (decision.what, decision.over) == ("lint, strict, tests", ["types"])


def test_several_questions_are_several_decisions_of_one_commit():
    second = {**QUESTION, "question": "Which port?", "options": [{"label": "80"}, {"label": "81"}]}
    output = answered("SQLite").replace('"SQLite".', '"SQLite", "Which port?"="81".')
    asked = call("AskUserQuestion", {"questions": [QUESTION, second]}, output)
    draft = only(findings(asked))
    assert [change.record.what for change in draft.changes] == ["SQLite", "81"]


@pytest.mark.parametrize("status", ["denied", "error", "cancelled", "in doubt"])
def test_a_question_without_an_answer_decides_nothing(status):
    asked = call("AskUserQuestion", {"questions": [QUESTION]}, answered("SQLite"), status=status)
    assert not records(asked, "answer")


def test_an_empty_answer_decides_nothing():
    assert not records(call("question", {"questions": [QUESTION]}, answered("Unanswered")))


# -- plans ----------------------------------------------------------------------------------------


def test_an_accepted_plan_is_a_document_in_the_words_of_the_model():
    planned = call("ExitPlanMode", {"plan": "# Plan\n1. a"}, "User has approved your plan.")
    draft = only(findings(planned))
    assert (draft.kind, draft.input, draft.provenance.source) == (
        "artifact",
        "# Plan\n1. a",
        "model",
    )
    assert only(records(planned)).name == "plan"


def test_the_plan_is_the_one_that_was_approved():
    said = "User has approved your plan.\n\n## Approved Plan (edited by user):\n# Other\n"
    assert only(findings(call("ExitPlanMode", {"plan": "# Plan"}, said))).input == "# Other"


def test_a_plan_that_was_not_accepted_is_no_document():
    assert not findings(call("ExitPlanMode", {"plan": "# Plan"}, "no", status="denied"), "plan")
    assert not findings(call("ExitPlanMode", {"plan": "# Plan"}, "Exited."), "plan")


# -- revisions ------------------------------------------------------------------------------------

MADE = (
    "[main 1234abc] Add the store\n 2 files changed, 9 insertions(+)\n"
    " create mode 100644 src/store.py\n"
)


def test_a_commit_is_a_revision_with_the_files_that_are_known():
    command = "git add src/store.py src/api.py && git commit -m 'Add the store'"
    revision = only(records(shell(command, MADE)))
    assert (revision.sha, revision.branch, revision.subject) == (
        "1234abc",
        "main",
        "Add the store",
    )
    assert (sorted(revision.files), revision.how) == (["src/api.py", "src/store.py"], "inferred")


OUTPUTS = {
    "Codex": (
        "shell",
        {"command": ["bash", "-lc", "git commit -m x"]},
        json.dumps({"output": MADE}),
    ),
    "Codex, unified": ("exec_command", {"cmd": "git commit -m x"}, MADE),
    "Gemini CLI": ("run_shell_command", {"command": "git commit -m x"}, {"output": MADE}),
    "opencode": ("bash", {"command": "git commit -m x"}, MADE),
    "OpenHands": ("run", {"command": "git commit -m x"}, MADE),
    "Cline": ("execute_command", {"command": "git commit -m x"}, MADE),
}


@pytest.mark.parametrize("agent", OUTPUTS)
def test_revisions_are_found_in_the_shell_of_each_agent(agent):
    assert only(records(call(*OUTPUTS[agent]), "revision")).sha == "1234abc"


def test_files_added_before_belong_to_the_next_revision_only():
    talk = [
        *shell("git add a.py", "", name="c1"),
        *shell("git commit -m x", "[main 1234abc] x\n 1 file changed\n", name="c2"),
        *shell("git commit -am y", "[main 1234abd] y\n 1 file changed\n", name="c3"),
    ]
    assert [record.files for record in records(talk)] == [["a.py"], []]


def test_more_added_files_than_git_counts_are_left_out():
    command = "git add a.py b.py && git commit -m x"
    revision = only(records(shell(command, "[main 1234abc] x\n 1 file changed\n")))
    assert revision.files == []


def test_a_revision_counts_though_a_later_part_of_the_command_failed():
    talk = shell("git commit -m x && git push", MADE + "fatal: no upstream", status="error")
    assert only(records(talk)).sha == "1234abc"


@pytest.mark.parametrize(
    ("command", "output"),
    [
        ("git commit -m x", "nothing to commit, working tree clean"),
        ("git log", MADE),
        ("cat notes.txt", MADE),
        ("git commit -m x", "On branch main\n[1234abc] x"),
    ],
)
def test_what_git_does_not_report_is_no_revision(command, output):
    assert not records(shell(command, output))


def test_an_amended_revision_is_replaced():
    talk = [
        *shell("git commit -m x", "[main 1234abc] x", name="c1"),
        *shell("git commit --amend -m y", "[main 1234abd] y\n Date: now", name="c2"),
    ]
    old, new = records(talk)[1:]
    assert (old.sha, old.replaced, new.sha, new.subject) == ("1234abc", "1234abd", "1234abd", "y")


def test_a_push_marks_the_revisions_of_its_branch():
    pushed = "To https://me:secret@git.example/r.git\n   1234abc..1234abd  main -> main\n"
    talk = [
        *shell("git commit -m x", "[main 1234abc] x", name="c1"),
        *shell("git commit -m y", "[other 1234abd] y", name="c2"),
        *shell("git push", pushed, name="c3"),
        *shell("git push", pushed, name="c4"),
    ]
    record = only(records(talk, "pushed"))
    assert (record.sha, record.pushed) == ("1234abc", "https://git.example/r.git main")


# -- refusals -------------------------------------------------------------------------------------

REFUSED = "The user doesn't want to proceed with this tool use. The tool use was rejected."
WITH_WORDS = {
    "Claude Code": f"{REFUSED} To tell you how to proceed, the user said:\nuse uv, never pip",
    "opencode": "The user rejected permission to use this specific tool call with the following"
    " feedback: use uv, never pip",
    "Cline": "The user denied this operation.\n<feedback>\nuse uv, never pip\n</feedback>",
}


@pytest.mark.parametrize("agent", WITH_WORDS)
def test_words_with_a_refusal_are_a_candidate(agent):
    refused = call("Bash", {"command": "pip install x"}, WITH_WORDS[agent], status="denied")
    record = only(records([prompt(), *refused]))
    assert (record.name, record.quote, record.collection) == (
        "refused: Bash pip install x",
        "use uv, never pip",
        "preferences",
    )


def test_the_next_prompt_after_a_refusal_is_quoted():
    refused = call("Bash", {"command": "pip install x"}, REFUSED, status="denied")
    talk = [prompt(), *refused, prompt("use uv", "p2"), prompt("and go", "p3")]
    draft = only(findings(talk))
    assert draft.provenance.source == "user"
    assert [change.record.quote for change in draft.changes] == ["use uv"]


def test_of_calls_refused_together_the_first_is_named():
    talk = [
        Called(id="c1", tool="Bash", input={"command": "rm a"}),
        Called(id="c2", tool="Glob", input={"pattern": "*"}),
        Returned(id="c1", status="denied", output=REFUSED),
        Returned(id="c2", status="denied", output=REFUSED),
        prompt("no"),
    ]
    assert only(records(talk)).name == "refused: Bash rm a"


@pytest.mark.parametrize(
    "output",
    ["Permission to use Bash has been denied by a rule.", "Blocked by a hook", "sandbox: denied"],
)
def test_a_refusal_by_a_program_is_no_candidate(output):
    refused = call("Bash", {"command": "rm a"}, output, status="denied")
    assert not records([*refused, prompt("go on", "p2")])


def test_after_another_success_a_refusal_is_not_what_the_next_prompt_is_about():
    talk = [
        *call("Bash", {"command": "rm a"}, REFUSED, status="denied"),
        *call("Read", {"file_path": "a"}, "text", name="c2"),
        prompt("thanks", "p2"),
    ]
    assert not records(talk)


def test_the_prompt_of_an_agent_is_no_word_of_a_person():
    refused = call("Bash", {"command": "rm a"}, REFUSED, status="denied")
    assert not records([*refused, Prompted(id="p2", content="go on", by="agent")])


# -- surroundings ---------------------------------------------------------------------------------

USED = {
    "mcp__github__get_issue": ("mcp__github__get_issue", {}, "app github (MCP server)"),
    "WebFetch": ("WebFetch", {"url": "https://me:pw@docs.example/x?q=1"}, "data docs.example (web host)"),
    "curl": ("Bash", {"command": "curl -s http://localhost:4000/a | jq ."}, "data localhost:4000 (web host)"),
    "psql": ("Bash", {"command": "psql postgres://me:pw@db.example/shop -c x"}, "data db.example/shop (PostgreSQL)"),
    "psql -h": ("Bash", {"command": "psql -h db -d shop"}, "data db/shop (PostgreSQL)"),
    "sqlite3": ("Bash", {"command": "sqlite3 data/a.db 'select 1'"}, "data data/a.db (SQLite)"),
}  # fmt: skip


@pytest.mark.parametrize("name", USED)
def test_what_a_session_worked_with_is_in_its_working_set(name):
    from stator.model.records.tables import record_text

    tool, arguments, shown = USED[name]
    assert record_text(only(records(call(tool, arguments, "ok")))) == shown


def test_each_is_recorded_once():
    talk = [*call("mcp__a__x", {}, name="c1"), *call("mcp__a__y", {}, name="c2")]
    assert len(records(talk)) == 1


def test_what_failed_was_not_worked_with():
    assert not records(call("mcp__a__x", {}, status="error"))


def test_an_instruction_file_that_was_read_is_marked():
    read = (Touch(path="docs/AGENTS.md", op="read"), Touch(path="a.md", op="read"))
    record = only(records(call("Read", {}, files=read)))
    assert (record.kind, record.name, record.detail) == ("file", "docs/AGENTS.md", "instructions")


# -- all of them ----------------------------------------------------------------------------------

TALK = [
    prompt(),
    *call("AskUserQuestion", {"questions": [QUESTION]}, answered("SQLite"), name="c1"),
    *shell("git add a.py && git commit -m x && git push", MADE, name="c2"),
    *call("mcp__a__x", {}, name="c3"),
    *call("Bash", {"command": "rm a"}, REFUSED, status="denied", name="c4"),
    prompt("no", "p2"),
]


def test_a_finding_follows_its_evidence_and_names_it():
    drafts: list[Any] = drafted(TALK)
    for place, draft in enumerate(drafts):
        if draft.origin[0] == EXTRACT:
            evidence = next(d for d in reversed(drafts[:place]) if d.origin[0] != EXTRACT)
            assert draft.inputs[0] == evidence.id
            assert draft.origin[1].endswith(f":{evidence.id}")
            assert draft.happened == evidence.happened
            assert draft.provenance.trust == evidence.provenance.trust


def test_findings_of_a_prefix_are_a_prefix_and_the_state_can_be_kept():
    import msgspec

    from stator.model.exchange.item_commits import DraftingState

    whole = drafted(TALK)
    made, state = [], DraftingState()
    for item in TALK:
        made += drafter(state=state).draft(item)
        state = msgspec.json.decode(msgspec.json.encode(state), type=DraftingState)
    assert made == whole


def test_what_is_remembered_does_not_grow():
    made = drafter()
    for number in range(3 * CALLS_MAX):
        made.draft(Called(id=str(number), tool="Bash", input={"command": "git commit -m x"}))
    assert len(made.state.extraction.calls) == CALLS_MAX


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=9), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip
names = st.sampled_from(
    "AskUserQuestion request_user_input ask_user question ask_followup_question ExitPlanMode Bash"
    " shell WebFetch mcp__a__b mcp____ run".split()
)
keys = st.sampled_from(
    "questions question options choices plan command cmd url id label answers".split()
)


@given(
    names,
    st.dictionaries(keys, json_values, max_size=4) | json_values,
    json_values | st.sampled_from([MADE, answered("x"), '{"answers": [1]}', "<answer></answer>"]),
    st.sampled_from(["ok", "error", "denied", "cancelled", "in doubt"]),
)
def test_odd_shapes_cost_nothing(tool, arguments, output, status):
    for draft in findings(
        [prompt(), *call(tool, arguments, output, status=status), prompt("x", "p2")]
    ):
        assert draft.changes
        assert all(isinstance(change, Upsert) for change in draft.changes)


commands = st.lists(
    st.sampled_from(
        ["git", "commit", "push", "add", "-m", "'x y'", "&&", ";", "|", "curl", "http://[", "psql", "sqlite3",
         "a.py", "--amend", "$(", "\n", "-h", "-d", "mysql://u:p@", "||", '"']
    ),
    max_size=12,
)  # fmt: skip


@given(commands, st.text(max_size=80) | st.just(MADE))
def test_odd_commands_cost_nothing(words, output):
    findings(shell(" ".join(words), output))


# -- which rules are asked ------------------------------------------------------------------------


@pytest.mark.parametrize("rule", [rule for rule in RULES if rule.only_read], ids=lambda r: r.name)
@given(
    kind=st.sampled_from(sorted(ENDS)),
    tool=st.sampled_from(["Bash", "Read", "AskUserQuestion", "ExitPlanMode", "mcp__a__b", "x"]),
    status=st.sampled_from(["ok", "error", "denied", "timeout", "cancelled", "in doubt"]),
    output=st.sampled_from([None, "[main 1234567] fix", answered("SQLite"), {"exit_code": 0}]),
)
def test_a_rule_that_is_not_asked_would_have_found_nothing(rule, kind, tool, status, output):
    state = ExtractionState(
        staged=["a.py"], unpushed=[["1234567", "main"]], refused=["a", "b", "c"]
    )
    before = repr(state)
    end = Evidence(id="k_1", kind=kind, tool=tool, call="c_1", status=status, output=output)
    held = HeldCall(intent="k_0", tool=tool, about="a call", given=None, place=1)
    assert rule.find(state, end, held) is None
    assert repr(state) == before
