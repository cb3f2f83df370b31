"""`stator import` of transcripts: its arguments, interrupted, killed, and two at once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import stator
from importers import notebook_format
from importers.notebook_format import turn_lines, write_conversation
from owner.repositories import made, worktree
from stator.runtime.base.pages import counts_of

PROGRAM = [sys.executable, notebook_format.__file__]


@pytest.fixture(autouse=True)
def only_format(monkeypatch):
    """The format of the tests is the only one there is, until the test is over."""
    from stator.importers import registry

    before = dict(registry.MODULES)
    notebook_format.install()
    yield
    registry.MODULES.clear()
    registry.MODULES.update(before)


@pytest.fixture
def kept():
    """Where the agent keeps its transcripts."""
    return Path(os.environ["HOME"], ".notebook")


def here(path, *rows, **about):
    return write_conversation(path, *rows, cwd=os.getcwd(), **about)


def document(answer):
    return json.loads(answer.out)


def test_import_finds_the_agents_sessions_of_this_project(ask, kept):
    here(kept / "a.jsonl", *turn_lines(1), name="fix it")
    write_conversation(kept / "b.jsonl", *turn_lines(1), id="n2", cwd="/elsewhere")
    answer = ask("import", "notebook")
    assert answer.code == 0
    assert "1 session · 1 turn · 1 call · 1 file" in answer.out
    assert "1 session of other projects" in answer.out
    listed = ask("ls").out
    assert "fix it" in listed
    assert "notebook" in listed


def test_import_without_arguments_looks_for_every_agent(ask, kept):
    here(kept / "a.jsonl", *turn_lines(1))
    answer = ask("import", "--json")
    assert document(answer)["agents"] == {"notebook": 1}
    assert "1 session" in ask("import").out


def test_import_without_any_agent_names_those_it_looked_for(ask):
    answer = ask("import")
    assert (answer.code, answer.out) == (0, "✓ nothing to import\n")
    assert "notebook" in answer.err


def test_all_imports_every_project_into_its_own(ask, kept, tmp_path):
    other = tmp_path / "other"
    (other / ".git").mkdir(parents=True)
    (other / "src").mkdir()
    write_conversation(kept / "a.jsonl", *turn_lines(1), id="a", cwd=str(other / "src"))
    write_conversation(kept / "b.jsonl", *turn_lines(1), id="b", cwd="/not/here")
    write_conversation(kept / "c.jsonl", *turn_lines(1), id="c", cwd=os.getcwd())
    found = document(ask("import", "notebook", "--all", "--json"))["sessions"]
    assert {one["project"] for one in found} == {str(other), "notebook", "shop"}


def test_sessions_in_a_worktree_are_sessions_of_the_project(ask, kept, tmp_path, monkeypatch):
    shop = made(tmp_path / "repository")
    tree = worktree(shop, tmp_path / "elsewhere", "feature")
    write_conversation(kept / "a.jsonl", *turn_lines(1), id="a", cwd=str(tree))
    write_conversation(kept / "b.jsonl", *turn_lines(1), id="b", cwd=str(tmp_path))
    monkeypatch.chdir(shop)
    found = document(ask("import", "notebook", "--json"))
    assert found["projects"] == {str(shop): 1}
    assert found["elsewhere"] == 1


def test_the_report_names_each_project_and_its_sessions(ask, kept, tmp_path):
    write_conversation(kept / "b.jsonl", *turn_lines(1), id="b", cwd="/not/here")
    here(kept / "a.jsonl", *turn_lines(1), id="kept")
    lines = ask("import", "notebook", "--all").out.splitlines()
    found = [" ".join(line.split()) for line in lines if line.strip().startswith("project")]
    assert found == [
        "project notebook: 1 session; see stator ls --everywhere",
        "project this one: 1 session",
    ]


def test_a_name_means_the_agent_and_a_path_means_the_folder(ask, kept):
    here(kept / "a.jsonl", *turn_lines(1), id="kept")
    write_conversation(Path("notebook", "b.jsonl"), *turn_lines(1), id="folder")
    assert [one["path"] for one in document(ask("import", "notebook", "--json"))["sessions"]] == [
        str(kept / "a.jsonl")
    ]
    found = document(ask("import", "./notebook", "--json"))["sessions"]
    assert [one["path"] for one in found] == ["notebook/b.jsonl"]


def test_since_skips_older_sessions(ask, kept):
    path = here(kept / "a.jsonl", *turn_lines(1))
    os.utime(path, (1, 1))
    answer = ask("import", "notebook", "--since", "30d")
    assert "1 session older than --since" in answer.out


def test_a_second_import_reports_nothing_new(ask, kept):
    here(kept / "a.jsonl", *turn_lines(1))
    ask("import", "notebook")
    answer = ask("import", "notebook")
    assert answer.code == 0
    assert "nothing new · 1 session unchanged" in answer.out
    assert document(ask("import", "notebook", "--json"))["commits"] == 0


def test_a_dry_run_creates_no_store(ask, kept, tmp_path, monkeypatch):
    monkeypatch.setenv("STATOR_STORE", str(tmp_path / "none.db"))
    here(kept / "a.jsonl", *turn_lines(1))
    answer = ask("import", "notebook", "--dry-run")
    assert "would be imported" in answer.out
    assert not (tmp_path / "none.db").exists()


def test_the_report_lists_what_needs_attention(ask, tmp_path, monkeypatch):
    monkeypatch.setattr(notebook_format, "AT", time.time_ns() // 1000 - 86_400_000_000)
    path = write_conversation(
        tmp_path / "in" / "a.jsonl", *turn_lines(1, done=False), {"noise": "tick"}, {"odd": 1}
    )
    with path.open("a") as file:
        file.write("oh no\n")
    (tmp_path / "in" / "notes.md").write_text("text")
    answer = ask("import", str(tmp_path / "in"))
    assert answer.code == 0
    for text in (
        "in doubt      1 call that may or may not have happened; see stator calls --everywhere --open",
        "unknown       1 record",
        "left out      2 records without content (talk 1, tick 1)",
        "not read      1 file, not transcripts (.md 1)",
        "skipped       1 line",
        f"{path}:7: not JSON",
    ):
        assert text in answer.out


def test_a_refused_conversation_is_a_finding(ask, tmp_path):
    (tmp_path / "a.jsonl").write_text('{"talk": oh no\n')
    answer = ask("import", str(tmp_path / "a.jsonl"))
    assert answer.code == 1
    assert f"{tmp_path}/a.jsonl: cannot be read" in answer.out


def test_a_missing_path_is_not_found(ask):
    answer = ask("import", "nothing.jsonl")
    assert answer.code == 3
    assert "no file, folder or agent 'nothing.jsonl'" in answer.err


def test_an_unknown_option_is_not_read_as_a_source(ask):
    answer = ask("import", "--everything")
    assert answer.code == 2
    assert "unknown option '--everything'" in answer.err


def test_hostile_names_are_escaped(ask, tmp_path):
    write_conversation(tmp_path / "a.jsonl", *turn_lines(1), name="\x1b[31mred\x1b[0m")
    assert "\x1b" not in ask("import", str(tmp_path)).out


def test_bundles_and_transcripts_can_be_imported_together(ask, store, tmp_path, monkeypatch):
    ask("export", "-o", str(tmp_path / "in" / "x.stator"))
    (tmp_path / "in").mkdir()
    assert ask("export", "-o", str(tmp_path / "in" / "x.stator")).code == 0
    write_conversation(tmp_path / "in" / "a.jsonl", *turn_lines(1))
    monkeypatch.setenv("STATOR_STORE", str(tmp_path / "other.db"))
    answer = ask("import", str(tmp_path / "in"))
    assert answer.code == 0
    assert "all hashes verified" in answer.out
    assert "do 1 xxx" in ask("ls", "--all").out


def test_commands_work_on_imported_sessions(ask, kept):
    here(kept / "a.jsonl", *turn_lines(1), *turn_lines(2), name="fix it")
    ask("import", "notebook")
    assert "notebook  14 Nov 2023      2      2" in ask("ls").out
    assert "fix it" in ask("ls", "--status", "paused").out
    assert ask("ls", "--status", "open").out == ""
    assert "recorded    import:notebook" in ask("show").out
    assert "reading" not in ask("diff").out
    assert "modified  f2.py" in ask("files", "--last", "5").out
    why = ask("why", "f2.py").out
    assert "asked: do 2" in why
    assert "“I will.” (the agent's words; no decision recorded)" in why
    assert "22:13:28  t2" in ask("calls").out


# -- in separate processes ----------------------------------------------------------------------


def start(*words, **options):
    return subprocess.Popen(
        [*PROGRAM, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "STATOR_STORE": "a.db"},
        **options,
    )


def run(*words, **options):
    done = subprocess.run(
        [*PROGRAM, *words],
        capture_output=True,
        env={**os.environ, "STATOR_STORE": "a.db"},
        **options,
    )
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def long_talk(path, turns):
    return write_conversation(
        path, *(row for n in range(turns) for row in turn_lines(n, size=2_000))
    )


def until_something_is_in(process):
    """Wait for the first part of an import to be on disk."""
    while process.poll() is None:
        if os.path.exists("a.db"):
            with stator.connect("a.db", read_only=True, create=False, project="shop") as opened:
                if opened.sessions().rows:
                    return
    raise AssertionError(process.stderr.read())


def turns_in():
    """How many turns and calls are on record, and how many calls without an outcome."""
    with stator.connect("a.db", read_only=True, create=False, project="shop") as opened:
        (row,) = opened.sessions().rows
        counts = counts_of(opened.port, row.id)
        return counts.turns, counts.calls, counts.open


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_import_keeps_whole_turns_and_continues_later(end):
    long_talk(Path("in", "a.jsonl"), 900)
    process = start("import", "in")
    until_something_is_in(process)
    process.send_signal(end)
    out, err = process.communicate()
    turns, calls, unanswered = turns_in()
    assert 0 < turns < 900
    assert (calls, unanswered) == (turns, 0)
    if end == signal.SIGINT:
        assert process.returncode == 130, err
        assert b"stopped: run the import again to continue" in out
        assert f"{turns:,} turns".encode() in out
    assert run("import", "in")[0] == 0
    assert turns_in() == (900, 900, 0)
    assert run("verify")[0] == 0


def test_two_simultaneous_imports_lose_and_duplicate_nothing():
    for n in range(8):
        write_conversation(Path("in", f"{n}.jsonl"), *turn_lines(1), *turn_lines(2), id=str(n))
    both = [start("import", "in", "--json") for _ in range(2)]
    reports = [json.loads(process.communicate()[0]) for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert sum(one["turns"] for one in reports) == 16
    with stator.connect("a.db", project="shop") as opened:
        rows = opened.sessions().rows
        assert [row.turns for row in rows] == [2] * 8
    assert run("verify")[0] == 0


def test_a_transcript_can_be_read_from_stdin():
    path = write_conversation(Path("a.jsonl"), *turn_lines(1))
    code, out, err = run("import", "-", input=path.read_bytes())
    assert (code, err) == (0, "")
    assert "1 turn" in out
    assert "nothing new" in run("import", "-", input=path.read_bytes())[1]


def test_stdin_that_is_not_a_transcript_is_refused():
    code, _, err = run("import", "-", input=os.urandom(100_000))
    assert code == 2
    assert "not a transcript" in err


def test_endless_stdin_is_refused_after_its_beginning():
    with open("/dev/zero", "rb") as zeros:
        assert run("import", "-", stdin=zeros, timeout=60)[0] == 2


def test_closed_stdin_is_refused():
    done = subprocess.run(
        ["sh", "-c", 'exec "$0" "$@" <&-', *PROGRAM, "import", "-"], capture_output=True
    )
    assert done.returncode == 2
    assert b"stdin is closed" in done.stderr
