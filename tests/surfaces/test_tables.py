"""Tables: headers, the width of a real terminal, unknown amounts, and cuts that are said."""

from __future__ import annotations

import csv
import fcntl
import io
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios

import pytest

import stator
from stator.model.views.sql_views import SQL_EXAMPLES, SQL_VIEWS
from stator.surfaces.cli.render import amounts
from stator.surfaces.cli.render.lines import cells
from stator.surfaces.cli.render.table import Column, table
from surfaces.recorded import record
from waiting import PATIENCE_S, is_readable


def on_terminal(columns: int, *words: str) -> list[str]:
    """The lines that the program shows on a pseudo-terminal of that width."""
    parent, child = pty.openpty()
    fcntl.ioctl(child, termios.TIOCSWINSZ, struct.pack("HHHH", 60, columns, 0, 0))
    environ = {**os.environ, "TERM": "xterm", "NO_COLOR": "1", "STATOR_PAGER": "cat"}
    environ.pop("COLUMNS", None)
    process = subprocess.Popen(
        [sys.executable, "-m", "stator.surfaces.cli.main", *words],
        stdin=child, stdout=child, stderr=child, env=environ, close_fds=True,
    )  # fmt: skip
    os.close(child)
    shown = b""
    while is_readable(parent):
        try:
            data = os.read(parent, 65536)
        except OSError:
            break
        if not data:
            break
        shown += data
    process.wait(timeout=PATIENCE_S)
    os.close(parent)
    assert process.returncode == 0, shown.decode()
    return shown.decode().replace("\r\n", "\n").splitlines()


@pytest.fixture
def many(tmp_path, world, monkeypatch):
    """A store of two sessions with long names and prompts."""
    path = tmp_path / "many.db"
    with world.open(path) as opened:
        record(opened)
        name, prompt = "a-session-with-quite-a-long-name-" * 3, "please fix the basket " * 9
        with opened.open(name, agent="coder") as s, s.turn(prompt) as t:
            usage = {"tokens": 90_500, "tokens:cache_read": 90_000, "money:usd": 1_250_000}
            t.say("ok", usage=usage)
            t.file("/".join(["a-folder-with-a-long-name"] * 6) + "/basket.py", "created")
    monkeypatch.setenv("STATOR_STORE", str(path))


@pytest.mark.parametrize("columns", [80, 120, 200])
@pytest.mark.parametrize(
    "words", [["ls"], ["ls", "-l"], ["top", "--all", "--once"], ["files"], ["calls", "fix-login"], ["log"],
              ["log", "--oneline"], ["sql", "SELECT * FROM sessions"], ["decisions", "fix-login"], ["recap"],
              ["du"], ["status"]], ids=" ".join,
)  # fmt: skip
def test_no_line_is_wider_than_a_real_terminal(columns, words, many):
    lines = on_terminal(columns, *words)
    assert lines
    assert max(map(cells, lines)) <= columns


def test_a_wider_terminal_shows_more(many):
    rows = {columns: on_terminal(columns, "ls") for columns in (80, 120, 200)}
    assert "CACHED" not in rows[80][0]
    assert "CACHED" in rows[120][0]
    assert "ASKED" in rows[200][0]
    name = "a-session-with-quite-a-long-name-a-session"
    assert not any(name in row for row in rows[80])
    assert any(name in row for row in rows[200])


def test_ls_has_a_header(store, ask):
    shown = ask("ls").lines[0].split()
    assert shown[:3] == ["SESSION", "AGENT", "WHEN"]
    assert {"FILES", "ENDED"} <= set(shown)
    assert "ID" not in shown
    assert {"STATUS", "ID"} <= set(ask("ls", "-l").lines[0].split())


def test_cache_reads_are_apart_and_money_is_shown(many, ask, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    row = next(line for line in ask("ls").lines if "coder" in line)
    assert "500" in row.split()
    assert "90 k" in row
    assert "$1.25" in row


def test_unknown_amounts_are_a_dash():
    assert amounts.tokens({}) == "–"
    assert amounts.money({"tokens": 5}) == "–"
    assert amounts.took(None) == "–"


def test_a_sum_of_money_that_lacks_a_price_is_marked():
    assert amounts.money({"money:usd": 1_000_000, "tokens:unpriced": 5}) == "> $1.00"


@pytest.mark.parametrize(
    ("number", "shown"),
    [
        (0, "0"),
        (950, "950"),
        (1200, "1.2 k"),
        (164_000, "164 k"),
        (999_600, "1.0 M"),
        (12e6, "12 M"),
    ],
)
def test_numbers_have_three_digits(number, shown):
    assert amounts.short(int(number)) == shown


def test_a_list_that_stops_by_itself_says_so_in_text_and_json(tmp_path, world, ask, monkeypatch):
    path = tmp_path / "calls.db"
    with world.open(path) as opened, opened.open("busy") as s, s.turn("go") as t:
        for _ in range(101):
            t.call(len, "x")
    monkeypatch.setenv("STATOR_STORE", str(path))
    assert ask("calls").lines[-1] == "… more calls than these 100: -n 200"
    found = [json.loads(line) for line in ask("calls", "--json").lines]
    assert len(found) == 101
    assert found[-1]["cut"]["shown"] == 100
    assert len(ask("calls", "--json", "-n", "5").lines) == 5


def test_a_recap_and_a_list_of_sizes_say_that_they_are_cut(tmp_path, world, ask, monkeypatch):
    path = tmp_path / "many.db"
    with world.open(path) as opened:
        for number in range(11):
            with opened.open(f"s{number}") as s, s.turn("go") as t:
                t.say("ok")
    monkeypatch.setenv("STATOR_STORE", str(path))
    assert ask("recap").lines[-1] == "… more sessions than these 10: -n 20"
    assert json.loads(ask("recap", "--json").lines[-1])["cut"]["shown"] == 10
    assert ask("du").lines[-1] == "… 1 more session: -n 11"
    assert json.loads(ask("du", "--json").out)["cut"] == {"shown": 10, "of": 11}
    assert json.loads(ask("du", "--json", "-n", "11").out)["cut"] is None


def test_a_search_that_stops_by_itself_says_so_in_text_and_json(tmp_path, world, ask, monkeypatch):
    path = tmp_path / "words.db"
    with world.open(path) as opened, opened.open("talk") as s:
        for _ in range(40):
            with s.turn("the same basket") as t:
                t.say("basket")
    monkeypatch.setenv("STATOR_STORE", str(path))
    found = [json.loads(line) for line in ask("search", "basket", "--json").lines]
    cut = found[-1]["cut"]
    assert (cut["shown"], cut["of"], cut["more"]) == (len(found) - 1, 80, "-n 40")
    assert "… 60 more matches" in ask("search", "basket").out
    assert all(
        "cut" not in json.loads(line) for line in ask("search", "basket", "--json", "-n", "5").lines
    )


def test_a_tree_counts_cache_reads_apart(many, ask, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    assert re.search(r" 500 +90 k +\$1\.25 ", ask("tree", "--project").out)


def test_a_wide_recap_has_a_header(many, ask, monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")
    assert ask("recap").lines[0].split() == ["WHEN", "SESSION", "AGENT", "WHAT"]


def test_optional_columns_give_way_first():
    columns = (
        Column(title="A"),
        Column(title="B", shrinks=True, least=4),
        Column(title="C", drop=1),
    )
    rows = [["aaaa", "b" * 20, "cccc"]]
    assert [line.plain for line in table(columns, rows, 14)] == ["A     B", "aaaa  bbbbbbb…"]
    assert next(line.plain for line in table(columns, rows, 40)).split() == ["A", "B", "C"]


def test_a_column_without_content_is_left_out():
    columns = (Column(title="A"), Column(title="B"))
    assert [line.plain for line in table(columns, [["a", ""]], 40)] == ["A", "a"]


# -- show -----------------------------------------------------------------------------------------


def test_show_prints_an_answer_as_text(opened, ask, monkeypatch):
    reply = {
        "role": "assistant",
        "content": [{"type": "text", "text": "First line.\nSecond line."}],
    }
    with opened.open("talk") as s, s.turn("go") as t:
        t.reply(reply)
    monkeypatch.setenv("STATOR_STORE", str(opened.port.path))
    (entry,) = [c for c in s.log() if c.kind == "entry"]
    shown = ask("show", f"@{entry.seq}").lines
    assert "        Second line." in shown
    assert '"type"' not in "\n".join(shown)


def test_show_prints_an_edit_as_a_diff(opened, ask, monkeypatch):
    with opened.open("edit") as s, s.turn("go") as t:
        t.call(lambda **given: None, path="a.py", old_string="one\ntwo", new_string="one\nthree")
    monkeypatch.setenv("STATOR_STORE", str(opened.port.path))
    (call,) = [c for c in s.log() if c.kind == "call"]
    shown = ask("show", f"@{call.seq}").out
    assert "        -two\n" in shown
    assert "        +three\n" in shown
    assert "\\n" not in shown


# -- sql ------------------------------------------------------------------------------------------


def test_sql_alone_lists_the_views_with_their_columns_and_five_questions(ask):
    shown = ask("sql").out
    assert all(view in shown for view in SQL_VIEWS)
    assert "prompt" in shown
    assert shown.count("stator sql ") == 5


@pytest.mark.parametrize("query", [query for _, query in SQL_EXAMPLES])
def test_the_listed_questions_run(query, many, ask):
    assert ask("sql", query).code == 0


def test_prompts_that_led_to_failing_tests_are_those_whose_calls_ran_tests(
    opened, ask, monkeypatch
):
    monkeypatch.setenv("STATOR_STORE", str(opened.port.path))

    def fail(**given):
        raise RuntimeError("failed")

    bash = stator.tool(fail, effect="read", name="bash")
    read = stator.tool(fail, effect="read", name="read")
    with opened.open("tests") as s:
        for prompt, tool, given in (
            ("run them", bash, {"command": "cd x && pytest -q 2>&1"}),
            ("run all", bash, {"cmd": "pnpm test"}),
            ("copy", bash, {"command": "cp a.py tests/ && git add pytest.ini"}),
            ("look", read, {"path": "test/support/mix test.exs"}),
        ):
            with s.turn(prompt) as t:
                t.try_call(tool, **given)
    query = dict(SQL_EXAMPLES)["which prompts led to failing tests?"]
    found = [json.loads(row)["prompt"] for row in ask("sql", query, "--json").lines]
    assert sorted(found) == ["run all", "run them"]


def test_sql_prints_comma_separated_values(many, ask):
    query = "SELECT name, tokens, cost_usd FROM sessions ORDER BY name DESC"
    rows = list(csv.reader(io.StringIO(ask("sql", query, "--csv").out)))
    assert rows[0] == ["name", "tokens", "cost_usd"]
    assert rows[1] == ["fix-login", "1200", ""]
    assert rows[2][1:] == ["500", "1.25"]


def test_two_forms_of_output_at_once_are_refused(store, ask):
    assert ask("sql", "SELECT 1", "--csv", "--json").code == 2


def test_prompts_texts_and_reasons_are_in_the_views(store, ask):
    found = ask("sql", "SELECT prompt, calls, failed FROM turns ORDER BY turn", "--json").lines
    assert [json.loads(row) for row in found] == [
        {"prompt": "fix the login bug", "calls": 2, "failed": 0},
        {"prompt": "run the tests", "calls": 1, "failed": 1},
        {"prompt": "finish, and pay the invoice", "calls": 1, "failed": 1},
    ]
    text = ask("sql", "SELECT text FROM commits WHERE kind = 'entry' ORDER BY seq", "--json").lines
    assert json.loads(text[0])["text"] == "The login now verifies the token."
    row = json.loads(ask("sql", "SELECT * FROM calls WHERE tool = 'run_tests'", "--json").out)
    assert row["input"] == '{"command":"pytest -q"}'
    assert row["took"] == 1_000_000
    assert "2 failed" in row["output"]


def test_an_erased_content_reads_null(store, ask):
    assert ask("erase", "@21", "--field", "output", "--yes").code == 0
    query = "SELECT text, output FROM commits WHERE seq = 21"
    assert json.loads(ask("sql", query, "--json").out) == {"text": None, "output": None}


def test_the_key_of_a_session_is_in_no_view(store, ask):
    found = ask("sql", "SELECT input, output, text, why FROM commits WHERE seq = 1", "--json").out
    assert "5e5e5e5e" not in found


def test_a_large_content_is_read_from_its_blob(opened, ask, monkeypatch):
    text = "".join(f"{n * 7919 % 1000003} " for n in range(20_000))
    with opened.open("large") as s, s.turn("go") as t:
        t.say(text)
    monkeypatch.setenv("STATOR_STORE", str(opened.port.path))
    query = "SELECT length(text) AS n FROM commits WHERE kind = 'entry'"
    assert json.loads(ask("sql", query, "--json").out) == {"n": len(text)}


def test_the_state_view_holds_what_is_in_force(store, ask):
    query = "SELECT record ->> 'what' AS what FROM state WHERE collection = 'decisions'"
    assert [json.loads(row)["what"] for row in ask("sql", query, "--json").lines] == [
        "use signed cookies"
    ]
