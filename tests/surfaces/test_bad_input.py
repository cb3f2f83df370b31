"""Bad input gives one line that says what is wrong, the right exit code, and writes nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import stator
from stator.surfaces.cli.registry import COMMANDS
from surfaces.recorded import Answer, program

READING = [
    ["ls"], ["show"], ["log"], ["diff"], ["state"], ["files"], ["decisions"], ["calls"],
    ["why", "a.py"], ["recap"], ["verify"], ["doctor"], ["du"], ["sql", "SELECT 1"], ["tag", "x"], ["top"],
    ["tail", "--once"],
    ["blame", "a.py"], ["ps"], ["evicted"], ["recall", "entry:@1"], ["compact", "--dry-run"],
]  # fmt: skip


def refused(answer: Answer, code: int) -> str:
    """Refused with one line on stderr and nothing on stdout."""
    assert answer.code == code, (answer.out, answer.err)
    assert answer.err.count("\n") == 1, answer.err
    assert answer.err.startswith("stator: ")
    assert answer.out == ""
    return answer.err


# 24: what cannot be a store


@pytest.mark.parametrize(
    "words", [words for words in READING if words[0] != "doctor"], ids=lambda w: w[0]
)
@pytest.mark.parametrize("path", ["/nowhere/x.db", "/tmp", "/dev/null", "/proc/self/mem"])
def test_a_path_that_is_not_a_store_is_refused_in_one_line(words, path, ask):
    assert os.path.basename(path) in refused(ask(*words, "--store", path), 5)


def test_a_fifo_is_refused_without_waiting_for_a_writer(ask, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    refused(ask("ls", "--store", str(tmp_path / "pipe")), 5)


def test_an_empty_path_is_refused(ask):
    refused(ask("ls", "--store", ""), 5)


def test_doctor_explains_why_a_path_is_not_a_store(ask):
    answer = ask("doctor", "--store", "/nowhere/x.db")
    assert answer.code == 5
    assert "there is no store here" in answer.out
    assert "stator init" in answer.out


def test_a_store_whose_log_was_removed_is_reported_as_damaged_and_not_as_empty(ask, store):
    Path(f"{store}-shm").touch()  # what a killed program leaves, without its -wal
    ask("verify")
    answer = ask("log")
    assert answer.code == 5
    assert "agent.db-wal is missing" in answer.err


# 25: files that are something else


@pytest.mark.parametrize(
    "content", [b"", b"hello\n", b"SQLite format 3\x00" + b"\0" * 84, b"\0" * 8192]
)
@pytest.mark.parametrize("words", [["ls"], ["tag", "x"], ["init"]], ids=lambda w: w[0])
def test_a_file_that_is_not_a_store_is_not_changed(words, content, ask, tmp_path):
    path = tmp_path / "other.db"
    path.write_bytes(content)
    refused(ask(*words, "--store", str(path)), 5)
    assert path.read_bytes() == content


def test_init_does_not_overwrite_a_file_that_is_not_a_store(ask, tmp_path):
    path = tmp_path / "work" / ".stator" / "store.db"
    path.write_text("my notes")
    refused(ask("init"), 5)
    assert path.read_text() == "my notes"


# 26 and 27: times and limits


@pytest.mark.parametrize("since", ["yesterday', now", "9999-99-99", "1e99", "", "-1d", "99999999d"])
@pytest.mark.parametrize("command", ["log", "ls"])
def test_an_invalid_time_is_a_usage_error(command, since, store, ask):
    refused(ask(command, f"--since={since}"), 2)


def test_times_are_parsed_as_people_type_them(store, ask):
    for since in ("2h", "3d", "1970-01-01", "2026-11-15T00:00", "2026-11-15T00:00:00+02:00"):
        assert ask("log", "--since", since).code == 0
    assert len(ask("log", "--since", "1970-01-01", "--json").lines) == 32
    assert ask("log", "--since", "2099-01-01", "--json").lines == []


@pytest.mark.parametrize("limit", ["-1", "0", "1000000000000000000", "x", "1e99", "1.5", ""])
@pytest.mark.parametrize(
    "words", [["log"], ["ls"], ["calls"], ["du"], ["sql", "SELECT 1"], ["why", "x"]]
)
def test_an_invalid_limit_is_a_usage_error(words, limit, store, ask):
    refused(ask(*words, f"--limit={limit}"), 2)


@pytest.mark.parametrize("words", [["files"], ["calls"]])
@pytest.mark.parametrize("last", ["-1", "0", "1000000000000000000"])
def test_an_invalid_number_of_turns_is_a_usage_error(words, last, store, ask):
    refused(ask(*words, f"--last={last}"), 2)


# 28: names that are not clear


def test_an_ambiguous_end_of_an_id_lists_the_candidates(tmp_path, ask, world):
    mint = world.mint
    world.mint = lambda kind: mint(kind)[:-8] + "abcd1234"
    with world.open(tmp_path / "two.db") as opened:
        for name in ("one", "two"):
            with opened.open(name):
                pass
    error = refused(ask("log", "--session", "abcd1234", "--store", str(tmp_path / "two.db")), 2)
    assert "2 sessions match 'abcd1234'" in error
    assert error.count("s_abcd1234") == 2
    refused(ask("verify", "abcd1234", "--store", str(tmp_path / "two.db")), 2)


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["log", "t99"], 3),
        (["log", "nosuch"], 3),
        (["show", "--session", "nosuch"], 3),
        (["log", "@99999"], 3),
        (["diff", "t1..t99"], 3),
        (["diff", "@abc"], 2),
        (["diff", "t1..t2", "t3"], 2),
        (["state", "-c", "nosuch"], 2),
        (["log", "--kind", "nosuch"], 2),
        (["calls", "--status", "nosuch"], 2),
        (["calls", "--failed", "--open"], 2),
        (["ls", "--status", "nosuch"], 2),
        (["verify", "--head", "xyz"], 2),
        (["sql", "DROP TABLE log"], 2),
        (["sql", "SELECT * FROM log"], 2),
        (["sql", "SELECT nonsense FROM"], 2),
        (["sql", "SELECT 1", "--seconds", "-1"], 2),
        (["tag", "t5"], 2),
        (["tag", "a..b"], 2),
        (["tag", "head"], 2),
        (["log", "--nosuch"], 2),
        (["log", "a", "b"], 3),
        (["why"], 2),
        (["why", ""], 2),
        (["blame"], 2),
        (["blame", ""], 2),
        (["blame", "a.py:0"], 2),
        (["blame", "a.py:9-3"], 2),
        (["nosuch"], 2),
        (["--nosuch"], 2),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else str(value),
)
def test_an_error_says_what_is_wrong_with_the_arguments(words, code, store, ask):
    refused(ask(*words), code)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["log", "t1", "t2"], "unexpected argument 't2' (a range is t1..t2)"),
        (["blame"], "FILE is missing (for example: stator blame auth.py)"),
        (["ls", "--since"], "--since needs a value (for example: stator ls "),
        (["ls", "-n", "many"], "invalid value for -n: 'many' is not a whole number"),
        (["ls", "--jsn"], "stator ls has no option --jsn (did you mean: stator ls --json)"),
    ],
    ids=["extra", "missing", "no value", "not a number", "unknown option"],
)
def test_an_error_of_the_parser_is_plain_english(words, message, store, ask):
    assert f"stator: {message}" in refused(ask(*words), 2)


def test_a_mistyped_command_gets_a_suggestion(ask):
    assert "did you mean: stator decisions" in refused(ask("decsions"), 2)


# 30: nobody reads


def test_a_closed_pipe_ends_the_program_quietly(store):
    command = f"{sys.executable} -m stator.surfaces.cli.main log --json --full | head -n 1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, timeout=60, check=True)
    assert done.stderr == b""
    assert done.stdout.count(b"\n") == 1


def test_closed_standard_streams_are_not_an_error(store):
    command = f"{sys.executable} -m stator.surfaces.cli.main log >&- 2>&-"
    assert subprocess.run(["bash", "-c", command], timeout=60, check=False).returncode == 0


def test_a_full_disk_is_reported(store):
    command = f"{sys.executable} -m stator.surfaces.cli.main log > /dev/full"
    done = subprocess.run(["bash", "-c", command], capture_output=True, timeout=60, check=False)
    assert done.returncode == 5
    assert done.stderr == b"stator: No space left on device\n"


# 32: poor terminals


@pytest.mark.parametrize(
    "env",
    [
        {"LANG": "C", "LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"},
        {"PYTHONIOENCODING": "latin-1"},
        {"TERM": "dumb", "COLUMNS": "20"},
        {"COLUMNS": "nonsense"},
        {"COLUMNS": "0", "LINES": "0"},
    ],
    ids=lambda env: " ".join(env),
)
@pytest.mark.parametrize("words", [["log"], ["log", "--help"]], ids=" ".join)
def test_commands_run_in_a_minimal_environment(words, env, store):
    answer = program(*words, env=env)
    assert answer.code == 0, answer.err
    assert answer.err == ""
    assert answer.out


@pytest.mark.parametrize("home", ["", "/proc/nowhere"])
def test_without_a_home_folder_a_store_is_read_and_a_line_says_whose_it_is(home, store):
    answer = program("log", env={"HOME": home, "XDG_DATA_HOME": home})
    assert answer.code == 0, answer.err
    foreign, elsewhere = answer.err.splitlines()
    assert foreign.startswith("foreign store: ")
    assert elsewhere.startswith("no session in this project; ")
    assert answer.out


def test_the_error_without_home_and_store_says_what_to_set(tmp_path):
    env = {key: value for key, value in os.environ.items() if key not in ("HOME", "XDG_DATA_HOME")}
    done = subprocess.run(
        [sys.executable, "-m", "stator.surfaces.cli.main", "ls"],
        capture_output=True, env=env, cwd="/", text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 5
    assert "stator init" in done.stderr


def test_a_read_only_store_in_a_read_only_folder_is_read(tmp_path, world, ask):
    from surfaces.recorded import record

    folder = tmp_path / "frozen"
    folder.mkdir()
    path = folder / "agent.db"
    with world.open(path) as opened:
        record(opened)
    for leftover in ("-wal", "-shm"):
        (folder / f"agent.db{leftover}").unlink(missing_ok=True)
    path.chmod(0o400)
    folder.chmod(0o500)
    before = sorted(os.listdir(folder))
    try:
        for words in (["log"], ["diff"], ["state"], ["verify"], ["sql", "SELECT 1"], ["ls"]):
            answer = ask(*words, "--store", str(path))
            assert answer.code == 0, answer.err
        assert set(os.listdir(folder)) - set(before) <= {"agent.db-wal", "agent.db-shm"}
    finally:
        folder.chmod(0o700)


def test_reading_writes_nothing(store, ask):
    before = store.read_bytes()
    for words in READING:
        if words[0] != "tag":
            ask(*words)
            ask(*words, "--json")
    assert store.read_bytes() == before


# 33 and 34: arguments that are not quite text, or look like options


def test_arguments_that_are_not_utf8_are_handled(store):
    for words in (
        [b"why", b"\xff\xfe.py"],
        [b"log", b"\xff"],
        [b"show", b"--session", b"\xff"],
        [b"sql", b"SELECT '\xff'"],
        [b"ls", b"--store", b"/tmp/\xff.db"],
        [b"tag", b"\xff"],
    ):
        answer = program(*words)
        assert answer.code in (0, 2, 3, 5)
        assert "Traceback" not in answer.err
        assert answer.err


def test_names_that_look_like_options_are_names(tmp_path, world, ask):
    path = str(tmp_path / "odd.db")
    with world.open(tmp_path / "odd.db") as opened:
        for name in ("-rf", "--", "--help"):
            with opened.open(name) as s, s.turn(f"turn of {name}"):
                pass
    for name in ("-rf", "--", "--help"):
        assert f"turn of {name}" in ask("log", f"--session={name}", "--store", path).out
    assert "turn of -rf" in ask("show", "--store", path, "--", "-rf").out
    assert "turn of -rf" in ask("log", "--store", path, "--", "-rf").out


# 36: clocks


@pytest.mark.parametrize("moment", [0, 1, 4_291_747_200_000_000, 2**53 - 1])
def test_any_recorded_time_can_be_shown(moment, tmp_path, world, ask):
    path = str(tmp_path / "clock.db")
    world.clock = lambda: moment
    with world.open(tmp_path / "clock.db") as opened, opened.open("clock") as s, s.turn("go") as t:
        t.call(stator.tool(effect="read")(lambda: 1))
        t.file("a.py", "created")
    for words in READING:
        answer = ask(*words, "--store", path)
        assert answer.code in (0, 1), (words, answer.err)


# -- what holds for every command -----------------------------------------------------------------


def test_an_empty_answer_names_the_store_and_the_other_stores(ask, tmp_path):
    stator.connect(str(tmp_path / "empty.db")).close()
    assert ask("init").code == 0
    answer = ask("ls", "--store", str(tmp_path / "empty.db"))
    assert answer.code == 0
    assert answer.out == ""
    assert f"(store: {tmp_path / 'empty.db'}, as given; other stores: " in answer.err
    assert f"{tmp_path / 'work' / '.stator' / 'store.db'} (nearest .stator folder)" in answer.err
    error = refused(ask("log", "--store", str(tmp_path / "empty.db")), 3)
    assert "no sessions in " in error
    assert "nearest .stator folder" in error


ENDING = {"tail": ("--once",), "web": ("--port", "-1")}
"""What commands need that would not end by themselves."""


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_can_be_called_without_arguments(name, store, ask):
    answer = ask(name, *ENDING.get(name, ()))
    needy = (
        "why", "blame", "tag", "approve", "deny", "archive", "run", "attach", "stop", "rewind",
        "retry", "adopt", "score", "flag", "recall", "restore", "erase",
        "replay", "rerun", "workflow", "search", "proxy", "vouch", "prefer", "forget",
        "copy", "push", "pull", "web",
    )  # fmt: skip
    assert answer.code == (2 if name in needy else 1 if name == "doctor" else 0)
