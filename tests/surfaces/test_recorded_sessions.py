"""What commands say about sessions whose agent runs outside Stator, and where an import went."""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec
import pytest

from stator.model.log.query import SessionRow
from stator.model.records.types import Parent, SessionRecord
from stator.model.sessions.sub_agents import is_sub_agent
from stator.surfaces.cli.parts.agent_command import agent_command, by_hand
from stator.surfaces.cli.render.lines import Line
from stator.surfaces.cli.render.session_words import names_apart
from stator.surfaces.cli.render.table import TAIL, Column, table

TRANSCRIPT = "\n".join(
    [
        '{"type":"user","uuid":"u1","sessionId":"0f3a","timestamp":"2026-03-09T09:12:05Z","cwd":"/w",'
        '"message":{"role":"user","content":"count the files"}}',
        '{"type":"assistant","uuid":"a1","parentUuid":"u1","sessionId":"0f3a",'
        '"timestamp":"2026-03-09T09:12:09Z","message":{"role":"assistant","model":"m",'
        '"content":[{"type":"text","text":"There are four."}]}}',
        "",
    ]
)


@pytest.fixture
def imported(tmp_path, ask):
    """A session of Claude Code, imported."""
    path = tmp_path / "0f3a.jsonl"
    path.write_text(TRANSCRIPT)
    answer = ask("import", str(path))
    assert answer.code == 0, answer.err
    return answer


def test_an_import_says_which_store_it_wrote_to(imported):
    assert "  store " in imported.out
    assert "store.db (" in imported.out


def test_an_import_outside_a_project_offers_to_make_a_store(tmp_path, ask, monkeypatch):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "0f3a.jsonl").write_text(TRANSCRIPT)
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert "stator init" in ask("import", str(tmp_path / "0f3a.jsonl")).out


def test_a_recorded_session_is_resumed_by_its_own_agent(imported, ask):
    shown = ask("resume").out
    assert "  claude --resume 0f3a\n" in shown
    assert "python agent.py" not in shown


def test_a_recorded_session_is_not_rewound_and_the_refusal_says_what_to_do(imported, ask):
    answer = ask("rewind", "t1")
    assert answer.code not in (0, 70)
    assert "claude-code keeps its own conversation" in answer.err
    assert "stator fork" in answer.err


def test_the_preview_of_a_rewind_of_a_recorded_session_still_works(imported, ask):
    assert ask("rewind", "t0", "--dry-run").code == 0


def recorded(**fields) -> SessionRecord:
    record = SessionRecord(id="s_1", name="x", mode="recorded", aliases=[["codex", "01a1"]])
    return msgspec.structs.replace(record, **fields)


def test_each_known_agent_has_its_command():
    assert agent_command(recorded()) == ["codex", "resume", "01a1"]


def test_an_id_that_would_be_an_option_is_no_command():
    assert agent_command(recorded(aliases=[["claude-code", "--dangerously"]])) is None


def test_a_sub_agent_has_no_command_of_its_own():
    parent = Parent(session="s_2", seq=1, hash="", kind="child")
    assert agent_command(recorded(parent=parent)) is None


def test_a_driven_session_has_no_agent_command():
    assert agent_command(recorded(mode="driven")) is None


def test_pi_opens_a_session_by_its_id():
    assert agent_command(recorded(aliases=[["pi", "ffae836b"]])) == ["pi", "--session", "ffae836b"]


def test_a_session_is_found_by_the_name_of_its_agent_and_the_answer_says_so(imported, ask):
    answer = ask("resume", "claude-code")
    assert "  claude --resume 0f3a\n" in answer.out
    assert answer.err == (
        "claude-code: the last session of the agent claude-code, count the files\n"
    )


def test_the_beginning_of_an_agents_name_is_enough(imported, ask):
    assert "count the files" in ask("ls", "--agent", "claude", "--everywhere").out
    assert "count the files" in ask("log", "claude").out


def test_a_sub_agent_whose_parent_is_not_known_is_told_apart_from_a_session():
    assert is_sub_agent(recorded(aliases=[["claude-code", "6c2214d7/afc096d"]]))
    assert not is_sub_agent(recorded())


def test_where_no_command_continues_a_session_words_say_how():
    assert "one that started it" in by_hand(recorded(aliases=[["claude-code", "6c22/afc0"]]))
    assert "History" in by_hand(recorded(agent="cline"))


def test_the_heading_of_a_recorded_session_says_how_it_ended_as_a_list_does(imported, ask):
    (row,) = [line for line in ask("ls", "--everywhere").lines if "count the files" in line]
    assert " paused" not in row
    for words in ("log", "diff", "show"):
        assert " · paused" not in ask(words).lines[0]
    assert "  status      paused" in ask("show").lines


def used(number: int, tool: str, given: dict[str, Any], said: str, **result: Any) -> list[str]:
    """The two lines of a transcript with a call and its result."""
    at, head = f"2026-03-09T09:13:{number:02}Z", {"sessionId": "0f3a", "cwd": "/w"}
    asked = {"type": "tool_use", "id": f"toolu_{number}", "name": tool, "input": given}
    gave = {"type": "tool_result", "tool_use_id": f"toolu_{number}", "content": said}
    call = {"role": "assistant", "model": "m", "content": [asked]}
    answer = {"role": "user", "content": [gave]}
    return [
        json.dumps(
            {
                "type": "assistant",
                "uuid": f"r{number}a",
                "parentUuid": f"r{number - 1}" if number > 1 else "a1",
                "timestamp": at,
                "message": call,
            }
            | head
        ),
        json.dumps(
            {
                "type": "user",
                "uuid": f"r{number}",
                "parentUuid": f"r{number}a",
                "timestamp": at,
                "message": answer,
            }
            | {"toolUseResult": result or said}
            | head
        ),
    ]


def imported_log(tmp_path, ask, *lines: str) -> str:
    """The log of a session with these lines behind its first."""
    path = tmp_path / "0f3a.jsonl"
    path.write_text(TRANSCRIPT + "\n".join([*lines, ""]))
    answer = ask("import", str(path))
    assert answer.code == 0, answer.err
    shown: str = ask("log").out
    return shown


def test_a_revision_that_is_pushed_later_is_named_once_and_then_said_to_be_pushed(tmp_path, ask):
    made = "[main 64f1b9a] count the files\n 1 file changed, 1 insertion(+)"
    pushed = "To github.com:ann/shop.git\n   1a2b3c4..64f1b9a  main -> main"
    shown = imported_log(
        tmp_path, ask,
        *used(1, "Bash", {"command": "git commit -m 'count the files'"}, made),
        *used(2, "Bash", {"command": "git push"}, pushed),
    )  # fmt: skip
    assert len(re.findall(r"^    revision ", shown, re.M)) == 1
    assert re.search(r"^    pushed +64f1b9a to github.com:ann/shop.git", shown, re.M)


def test_a_write_shows_how_many_lines_it_changed(tmp_path, ask):
    given = {"file_path": "/w/a.py", "content": "one\ntwo\n"}
    shown = imported_log(
        tmp_path, ask,
        *used(1, "Write", given, "File created", type="create", filePath="/w/a.py",
              content="one\ntwo\n", structuredPatch=[]),
    )  # fmt: skip
    assert re.search(r"Write .*a\.py  \+2 −0 ", shown)


def test_files_of_a_session_say_by_how_many_lines_each_changed(tmp_path, ask):
    made = {"type": "create", "filePath": "/w/a.py", "content": "one\ntwo\n", "structuredPatch": []}
    given = {"file_path": "/w/a.py", "content": "one\ntwo\n"}
    imported_log(tmp_path, ask, *used(1, "Write", given, "File created", **made))
    assert "+2 −0" in ask("files", "last").out


def row_of(number: int, name: str, **fields) -> SessionRow:
    record = recorded(id=f"s_{number:032x}", name=name, **fields)
    return SessionRow(record=record, head=1, turns=1, updated=0)


def test_names_that_begin_alike_end_in_the_branch_or_the_id():
    rows = [
        row_of(1, "Work on the bead dov and test it", labels={"branch": "shop-dov"}),
        row_of(2, "Work on the bead fum and test it", labels={"branch": "shop-fum"}),
        row_of(3, "Work on the bead gqc and test it", labels={"branch": "main"}),
        row_of(4, "another", labels={"branch": "shop-x"}),
    ]
    shown = [line.plain for line in names_apart(rows)]
    assert [line.rpartition(" ")[2] for line in shown] == [
        "shop-dov", "shop-fum", "s_00000003", "another",
    ]  # fmt: skip


def named_rows(width: int, *names: tuple[str, str]) -> list[str]:
    columns = [Column(title="SESSION", shrinks=True, least=20), Column(title="COST")]
    rows: list[list[Line | str]] = [
        [Line(name).add(f" {tail}", TAIL), "$1"] for name, tail in names
    ]
    return [line.plain for line in table(columns, rows, width, titled=False)]


def test_a_table_that_cuts_a_name_keeps_what_tells_it_apart():
    names = (
        ("Work on the bead of dov and test", "shop-dov"),
        ("Work on the bead of fum", "shop-fum"),
    )
    assert named_rows(24, *names) == ["Work on th… shop-dov  $1", "Work on th… shop-fum  $1"]


def test_names_that_differ_in_the_cells_they_get_need_nothing_more():
    names = ("fix-basket-names", "s_7fd595a3"), ("fix-basket-names~t1", "s_d82b3c73")
    assert named_rows(24, *names) == ["fix-basket-names     $1", "fix-basket-names~t1  $1"]


def test_rows_of_one_session_look_alike_and_need_nothing_more():
    assert named_rows(24, ("one", "s_1"), ("one", "s_1")) == ["one  $1", "one  $1"]


def test_two_sessions_of_one_name_are_told_apart_on_a_wide_screen_too():
    rows = named_rows(80, ("one", "s_1"), ("one", "s_2"))
    assert rows == ["one s_1  $1", "one s_2  $1"]


@pytest.mark.parametrize("words", [["ls"], ["ls", "--long"]])
def test_a_narrow_list_keeps_tokens_and_cost_longer_than_the_agent(
    words, store, world, ask, monkeypatch
):
    monkeypatch.setenv("COLUMNS", "80")
    with (
        world.open(store) as opened,
        opened.open("a longer name than fits", agent="codex") as s,
        s.turn("hello") as t,
    ):
        t.say("hello", usage={"tokens": 1234, "money:usd": 1_500_000})
    header = ask(*words).lines[0].split()
    assert {"TOKENS", "COST"} <= set(header)
