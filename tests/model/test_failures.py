"""Why a call failed: its cause, and the line of its output that says what failed."""

from __future__ import annotations

import time

import pytest

from stator.model.exchange.failures import failure_text

BEGINNING = "Compiling 40 files (.ex)\nGenerated spotter app\nRunning ExUnit with seed: 1\n\n"
TRACEBACK = (
    'Traceback (most recent call last):\n  File "a.py", line 6, in <module>\n    raise x\n'
    "json.decoder.JSONDecodeError: Unterminated string: line 1 column 256 (char 255)"
)


@pytest.mark.parametrize(
    ("cause", "said", "told"),
    [
        (
            "Exit code 2",
            f"Exit code 2\n{BEGINNING}  1) test mounts\n\nFinished in 1.3 s\n12 tests, 12 failures",
            "Exit code 2: 12 tests, 12 failures",
        ),
        ("", f"{BEGINNING}== 2 failed, 11 passed in 0.1s ==", "== 2 failed, 11 passed in 0.1s =="),
        (
            "Exit code 1",
            f"Exit code 1\n{TRACEBACK}",
            "Exit code 1: json.decoder.JSONDecodeError: Unterminated string: line 1 column 256 (char 255)",
        ),
        (
            "Exit code 128",
            "Exit code 128\nfatal: no upstream branch.\nTo push, use\n\n git push -u",
            "Exit code 128: fatal: no upstream branch.",
        ),
        (
            "Command exited with code 2",
            "> check\n> tsgo\n\na.ts(5,3): error TS2339: no such property\nnpm error code 2\n\n"
            "Command exited with code 2",
            "Command exited with code 2: a.ts(5,3): error TS2339: no such property",
        ),
        (
            "exit code 1",
            "Command failed with exit code 1.\nOutput:\ncp: a.json: No such file or directory",
            "exit code 1: cp: a.json: No such file or directory",
        ),
        (
            "Exit code 1",
            "Exit code 1\nThese paths are ignored by git:\nassets\nhint: use -f",
            "Exit code 1: These paths are ignored by git: assets",
        ),
        (
            "Checks failed:\\n\\n[DIALYZER]\\nFinding suitable PLTs",
            "Checks failed:\\n\\n[DIALYZER]\\nFinding suitable PLTs\nTotal errors: 2, Skipped: 0",
            "Checks failed: Total errors: 2, Skipped: 0",
        ),
    ],
)  # fmt: skip
def test_the_line_that_says_what_failed_is_told_before_the_beginning(cause, said, told):
    assert failure_text(cause, said) == told


def test_what_a_cause_says_already_is_told_once_and_without_tags():
    tagged = "<tool_use_error>File does not exist.</tool_use_error>"
    assert failure_text("File does not exist.", tagged) == "File does not exist."
    assert failure_text("", tagged) == "File does not exist."


def test_a_cause_that_was_cut_gives_way_to_the_words_it_was_cut_from():
    said = "Could not find the exact text in /home/ann/shop/a.py. It must match."
    assert failure_text("Could not find the exact text in /home…", said) == said


def test_output_in_which_no_line_says_what_failed_is_told_as_it_is():
    assert failure_text("Exit code 3", "Exit code 3\nhello\n\nthere") == "Exit code 3: hello\nthere"
    assert failure_text("never run", "") == "never run"
    assert failure_text(
        "Command exited with code 1", "(no output)\n\nCommand exited with code 1"
    ) == ("Command exited with code 1: (no output)")


def test_no_failures_are_no_count_of_failures():
    told = failure_text("", "5 tests, 0 failures\nfatal: could not push")
    assert told == "fatal: could not push"


@pytest.mark.parametrize(
    "hostile",
    ["a.b" * 700_000, "1 " * 1_000_000, "<error" * 300_000, "Error" * 400_000, "\x1b[" * 900_000,
     "\n".join(["x" * 499] * 5_000), "error " * 300_000, "\\n" * 900_000],
)  # fmt: skip
def test_a_large_output_takes_little_time(hostile):
    began = time.process_time()
    failure_text("Exit code 1", hostile)
    failure_text(hostile[:20_000], hostile)
    assert time.process_time() - began < 0.5
