"""The demo: real kills, real payments, short answers, and a folder that is left to try things in."""

from __future__ import annotations

import fcntl
import os
import re
import struct
import subprocess
import sys
import termios
from dataclasses import dataclass
from pathlib import Path

import pytest

DEMO = Path(__file__).resolve().parent.parent.parent / "examples/demo.py"
STATOR = Path(sys.executable).with_name("stator")
WIDTHS = [60, 80, 100, 120]
HEAD = re.compile(r"  [0-9a-f]{64}")
"""A head that `verify` prints is copied, so it is whole on any terminal."""


@dataclass
class Shown:
    """What one run of the demo printed, and the folder it ran in."""

    text: str
    cwd: Path

    @property
    def lines(self):
        """As a person sees them: without colours, and without a progress bar that was erased."""
        lasting = [line.rpartition("\x1b[2K")[2] for line in self.text.splitlines()]
        return [re.sub(r"\x1b\[[?\d;]*[a-zA-Z]", "", line) for line in lasting]

    @property
    def folder(self):
        return self.cwd / "stator-demo"


def environment(cwd):
    return {"PATH": "/usr/bin:/bin", "HOME": str(cwd), "TERM": "xterm-256color"}


def piped(cwd):
    done = subprocess.run(
        [sys.executable, str(DEMO)],
        cwd=cwd,
        env=environment(cwd),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stdout
    return Shown(done.stdout, cwd)


def on_terminal(cwd, columns):
    """Run the demo on a terminal of its own that is `columns` wide."""
    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    child = subprocess.Popen(
        [sys.executable, str(DEMO)],
        cwd=cwd,
        env=environment(cwd),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    seen = bytearray()
    try:
        while chunk := os.read(ours, 65536):
            seen += chunk
    except OSError:  # Linux: the last process with the terminal open has ended
        pass
    finally:
        os.close(ours)
    text = seen.decode()
    assert child.wait(timeout=100) == 0, text
    return Shown(text, cwd)


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """One run, in a clone that ignores the demo's folder, as ours does."""
    clone = tmp_path_factory.mktemp("demo")
    subprocess.run(["git", "init", "-q", "-b", "main"], cwd=clone, check=True)
    (clone / ".gitignore").write_text("/stator-demo*/\n")
    return piped(clone)


def answers(lines):
    """The lines under each `$ stator` command."""
    found: dict[str, list[str]] = {}
    command = ""
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        if line.startswith("$ stator "):
            command = line
        elif following.startswith("$ ") or line.startswith("Now you"):
            command = ""  # the title of what comes next
        elif command:
            found.setdefault(command, []).append(line)
    return {command: "\n".join(shown).strip().splitlines() for command, shown in found.items()}


def test_without_stator_the_killed_agent_pays_twice_and_with_it_once(demo):
    assert re.findall(r"payments in ledger.txt: (\d)", demo.text) == ["2", "1"]
    assert demo.text.count("killed by SIGKILL") == 2


def test_the_demo_opens_with_the_payment_in_its_first_25_lines(demo):
    assert "payments in ledger.txt: 1" in demo.lines[:25]


def test_the_demo_prints_at_most_90_lines(demo):
    assert len(demo.lines) <= 90


def test_the_demo_asks_five_questions_with_answers_of_at_most_six_lines(demo):
    found = answers(demo.lines)
    assert len(found) == 5
    assert all(1 <= len(lines) <= 6 for lines in found.values()), found


def test_output_through_a_pipe_has_no_colours_and_fits_80_columns(demo):
    assert "\x1b" not in demo.text
    assert max(map(len, demo.lines)) <= 80


@pytest.mark.parametrize("columns", WIDTHS)
def test_nothing_is_wider_than_the_terminal(columns, tmp_path):
    shown = on_terminal(tmp_path, columns)
    cuttable = [line for line in shown.lines if not HEAD.fullmatch(line)]
    assert max(map(len, cuttable)) <= columns
    assert len(shown.lines) <= 90
    assert all(len(lines) <= 8 for lines in answers(shown.lines).values())


def test_the_folder_it_leaves_answers_the_commands_it_suggests(demo):
    suggested = [
        line.partition("#")[0].split() for line in demo.lines if line.startswith("  stator ")
    ]
    suggested.remove(["stator", "web"])  # it serves until it is interrupted
    assert ["stator", "log", "pay-invoice"] in suggested
    printed = {}
    for _, *words in suggested:
        done = subprocess.run(
            [str(STATOR), *words],
            cwd=demo.folder,
            env=environment(demo.cwd),
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout
        printed[words[0]] = done.stdout
    assert "+def cents(price):" in printed["diff"]
    assert re.search(r"pay .* — process died +in doubt", printed["log"])


def test_the_demo_says_how_to_remove_its_folder(demo):
    assert "  rm -r stator-demo" in demo.lines


def test_a_second_run_leaves_the_first_folder_alone(demo):
    kept = sorted(path.name for path in demo.folder.iterdir())
    assert "  rm -r stator-demo-2" in piped(demo.cwd).lines
    assert sorted(path.name for path in demo.folder.iterdir()) == kept
