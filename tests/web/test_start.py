"""Starting `stator web`: what it shows with nothing, with agents' sessions on disk, and how it ends."""

from __future__ import annotations

import json
import os
import pty
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import stator
from stator.surfaces.cli.main import main
from stator.surfaces.web.first_import import newest_files
from waiting import eventually
from web.service_client import ServiceClient
from web.sse_client import EventReader

SESSIONS = 70


class Started:
    """`stator web --json` as a process, in a home of its own."""

    def __init__(self, home: Path, *words: str) -> None:
        environ = {"HOME": str(home), "PATH": os.environ["PATH"]}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "stator", "web", "--json", "--port", "0", *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            env=environ,
            cwd=home,
            text=True,
        )
        assert self.process.stdout is not None
        self.door = json.loads(self.process.stdout.readline())
        self.client = ServiceClient(self.door["address"], self.door["token"])

    def interrupt(self) -> tuple[int, str]:
        """Press Ctrl-C; its exit code, and what it wrote to stderr."""
        self.process.send_signal(signal.SIGINT)
        _, errors = self.process.communicate(timeout=60)
        return self.process.returncode, errors

    def names(self) -> list[str]:
        return [item["name"] for item in self.client.items("/sessions")]

    def line(self) -> str:
        """The line under the bar of each page."""
        return self.client.page("/first-steps")


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    made = tmp_path / "home"
    made.mkdir()
    yield made
    shutil.rmtree(made)


def transcript(id: str, n: int) -> Iterator[dict[str, object]]:
    common = {"sessionId": id, "cwd": "/home/u/p", "timestamp": "2026-11-01T10:00:00Z"}
    asked = {"role": "user", "content": f"fix bug {n}"}
    said = {"role": "assistant", "model": "m", "content": [{"type": "text", "text": f"done {n}"}]}
    yield {**common, "type": "user", "uuid": f"{id}-1", "message": asked}
    yield {
        **common,
        "type": "assistant",
        "uuid": f"{id}-2",
        "parentUuid": f"{id}-1",
        "message": said,
    }


def kept_by_an_agent(home: Path, sessions: int) -> None:
    folder = home / ".claude/projects/-home-u-p"
    folder.mkdir(parents=True)
    for n in range(sessions):
        id = f"00000000-0000-4000-8000-{n:012}"
        file = folder / f"{id}.jsonl"
        file.write_text("".join(json.dumps(line) + "\n" for line in transcript(id, n)))
        os.utime(file, (1_700_000_000 + n, 1_700_000_000 + n))


def test_with_nothing_two_samples_are_shown_and_what_to_do(home: Path) -> None:
    started = Started(home)
    try:
        assert sorted(started.names()) == ["fix-login (sample)", "pay-invoice-42 (sample)"]
        assert "samples" in started.line()
        assert "stator import" in started.line()
        calls = started.client.items("/sessions/pay-invoice-42 (sample)/calls".replace(" ", "%20"))
        newest = next(calls)
        assert (newest["tool"], newest["status"]) == ("pay", "in doubt")
    finally:
        assert started.interrupt()[0] == 0
    assert not list(home.rglob("store.db"))


def test_an_empty_store_is_filled_with_agents_sessions_and_the_page_shows_how_far(
    home: Path,
) -> None:
    kept_by_an_agent(home, SESSIONS)
    started = Started(home)
    try:
        eventually(lambda: f"All {SESSIONS} sessions" in started.line())
        assert len(started.names()) == SESSIONS
    finally:
        assert started.interrupt()[0] == 0
    assert list(home.rglob("store.db"))


def test_the_newest_sessions_are_read_first(home: Path) -> None:
    kept_by_an_agent(home, 5)
    found = newest_files(home, {}, 2)
    assert [Path(path).stem[-1] for path in found] == ["4", "3"]


def test_ctrl_c_ends_it_with_exit_code_0_while_streams_are_open(home: Path) -> None:
    with stator.connect(home / "a.db") as store, store.open("a"):
        pass
    started = Started(home, "--store", str(home / "a.db"))
    address, token = started.door["address"], started.door["token"]
    with (
        EventReader(address, "/v1/sessions/a/tail", token) as tail,
        EventReader(address, "/v1/heads", token) as heads,
    ):
        assert next(iter(tail)).name == "head"
        assert next(iter(heads)).name == "heads"
        code, errors = started.interrupt()
    # The home is not the one that the store was made in, which is said; nothing else is.
    assert (code, errors.splitlines()[1:]) == (0, [])
    assert errors.startswith("foreign store")


def test_a_port_in_use_is_an_error_that_says_what_to_do(home: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = subprocess.run(
            [sys.executable, "-m", "stator", "web", "--port", str(taken.getsockname()[1])],
            env={"HOME": str(home), "PATH": os.environ["PATH"]},
            cwd=home,
            capture_output=True,
            text=True,
            timeout=60,
        )
    assert done.returncode == 2
    assert "--port" in done.stderr
    assert "Traceback" not in done.stderr


def test_enter_prints_a_new_link_that_opens_the_pages(home: Path) -> None:
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "stator", "web", "--no-browser", "--port", "0"],
        stdin=theirs,
        stderr=subprocess.PIPE,
        env={"HOME": str(home), "PATH": os.environ["PATH"]},
        cwd=home,
        text=True,
    ) as process:
        assert process.stderr is not None
        lines = iter(process.stderr)
        links = [next(line for line in lines if "/enter?link=" in line)]
        os.write(ours, b"\n")
        links.append(next(line for line in lines if "/enter?link=" in line))
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
    os.close(ours)
    os.close(theirs)
    assert len({re.findall(r"link=([0-9a-f]{64})", line)[0] for line in links}) == 2


@pytest.mark.parametrize(
    ("words", "page"),
    [
        (["show", "a"], "/s/{id}"),
        (["show", "a:t1"], "/s/{id}/t1"),
        (["show", "a:@3"], "/s/{id}/@3"),
        (["log", "a:t1"], "/s/{id}/t1"),
        (["files", "a"], "/s/{id}/files?path=src/a%20b.py"),
        (["decisions", "a"], "/s/{id}/decisions#"),
        (["why", "src/a b.py", "-s", "a"], "/s/{id}/files?path=src/a%20b.py"),
    ],
)
def test_a_command_prints_the_address_of_its_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], page: str
) -> None:
    with stator.connect(tmp_path / "a.db") as store, store.open("a") as session:
        with session.turn("go") as turn:
            turn.file("src/a b.py", "created")
            turn.decide("so", topic="how", why="because")
        id = session.id
    assert main([*words, "--web", "--store", str(tmp_path / "a.db")]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("http://127.0.0.1:8719" + page.format(id=id))
    assert printed.count("\n") == 1
