"""A program that has answered ends at once, and loses nothing."""

from __future__ import annotations

import subprocess
import sys

import pytest

RUN = "from stator.surfaces.cli.main import main\nsys.exit(main())\n"


def started(before: str, *words: str, given: str = "") -> subprocess.CompletedProcess[str]:
    """The program, in an interpreter that ran `before`."""
    code = f"import sys\nsys.argv = {['stator', *words]!r}\n{before}\n{RUN}"
    return subprocess.run(
        [sys.executable, "-c", code], input=given, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(
    ("words", "code"),
    [(["--version"], 0), (["log"], 0), (["log", "no-such"], 3), (["log", "--no-such"], 2)],
    ids=["version", "ok", "not found", "usage"],
)
def test_the_exit_code_is_that_of_the_command(words, code, store):
    assert started("", *words).returncode == code
    module = subprocess.run(
        [sys.executable, "-m", "stator", *words], capture_output=True, check=False
    )
    assert module.returncode == code


def test_all_output_arrives_in_a_pipe(store, ask):
    answer = started("", "log", "--json", "--full")
    assert answer.stdout == ask("log", "--json", "--full").out


def test_what_is_to_run_at_the_end_runs(store):
    before = "import atexit; atexit.register(lambda: print('at the end'))"
    assert started(before, "ls").stdout.endswith("at the end\n")


def test_a_thread_that_still_works_is_waited_for(store):
    before = "import threading\nthreading.Thread(target=lambda: print(sys.stdin.read())).start()"
    assert "read to its end" in started(before, "ls", given="read to its end").stdout
