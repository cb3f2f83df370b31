"""Runs a page of documentation: its Python blocks in order, its console blocks line by line.

A page runs in an empty folder with an empty home. Python blocks share one namespace. A console block has
commands after `$ ` and their output; a command without output under it only has to succeed.
`…` alone on a line matches any lines. What differs on every run (ids, hashes, times, sizes) is
not compared, nor are spaces and rules. A block whose info string has `no-run` is shown only
(`console no-run`); `exit=N` says which exit code is right. A Python block with `file=NAME` is not run but
written to that file, for `$ python NAME`, which runs in its own process and may be killed.
`$ cd NAME` continues in a sibling folder with its own home: another machine, which has the page's files. A block with
`apart` runs on a separate machine, and the page continues where it was. The examples of the repository are available
as `examples`. A page that names `db.example` is given a PostgreSQL server with a database `agents`, its owner `owner`
and a role `app`.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from stator.owner import ancestry
from stator.surfaces.cli.main import main

ROOT = Path(__file__).resolve().parent.parent.parent
PAGES = sorted(
    path.relative_to(ROOT).as_posix()
    for path in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md"))
)
SERVER = "db.example"
"""The PostgreSQL server of a page; the tests have one of their own."""
_FENCE = re.compile(r"^```(\w*)[ \t]*([^\n]*)\n(.*?)^```$", re.M | re.S)
_RUN = re.compile(r"\bon [\w.-]+, pid \d+")
_USER = re.compile(r"\blocal:[\w.-]+")
_AGENT = re.compile(r" · below agent [\w.-]+, process \d+")
"""Where an agent runs the tests, the grants of a page say so."""
_VARYING = [
    (re.compile(pattern), sign)
    for pattern, sign in (
        (r"\b[stckr]_[0-9a-f]{8,32}\b", "ID"),
        (r"\b\d{1,2} [A-Z][a-z]{2} \d{4} \d\d:\d\d ", "TIME "),
        (r"\bp_[0-9a-f]{32}\b", "PROJECT"),
        (r"\b[0-9a-f]{12,64}\b", "HASH"),
        (r"\b\d{4}-\d\d-\d\d(?: \d\d:\d\d UTC)?\b", "DATE"),
        (r'\bid="[0-9a-f]{8}"', "NOTE"),
        (r"\b\d\d:\d\d:\d\d\b", "TIME"),
        (r"\b\d{16}\b", "MICROS"),
        (r"\b\d+ (s|min|h|d) ago\b|\bjust now\b", "AGO"),
        (r"\b\d+(?:\.\d)? s\b", "SECONDS"),
        (r"\b\d{1,2} [A-Z][a-z]{2}(?: \d{4})? \d\d:\d\d(?:–\d\d:\d\d)?", "WHEN"),
        (r"\b[\d.]+ [KM]?B\b", "SIZE"),
        (r"\bpid \d+|\bstore [0-9a-f]{8}\b|SQLite [\d.]+", "ABOUT"),
        (r"\w[\w.<>-]* on [\w.-]+, ABOUT", "PROGRAM"),
        (r"[─\s]+", " "),
    )
]


@dataclass
class Block:
    """A fenced block of a page."""

    language: str
    info: str
    text: str
    start: int
    """Where its text starts in the page."""
    line: int


@dataclass
class Shown:
    """A command in a console block, and the output shown on the page."""

    command: str
    output: list[str] = field(default_factory=list)


def blocks(page: str) -> Iterator[Block]:
    for match in _FENCE.finditer(page):
        line = page.count("\n", 0, match.start(3)) + 1
        yield Block(match[1], match[2], match[3], match.start(3), line)


def runs(block: Block) -> bool:
    return block.language in ("python", "console") and "no-run" not in block.info


def shown(text: str) -> list[Shown]:
    found: list[Shown] = []
    for line in text.splitlines():
        if line.startswith("$ "):
            found.append(Shown(line[2:]))
        elif found:
            found[-1].output.append(line)
    return found


def loose(text: str) -> str:
    """A line without the parts that differ from run to run."""
    for pattern, sign in _VARYING:
        text = pattern.sub(sign, text)
    return text.strip()


def matches(expected: list[str], actual: list[str]) -> bool:
    """Whether the lines match those of the page, where `…` matches any lines."""
    pattern = "".join(
        r"(?:.*\n)*?" if line.strip() == "…" else re.escape(loose(line)) + r"\n"
        for line in expected
        if line.strip()
    )
    text = "".join(loose(line) + "\n" for line in actual if line.strip())
    return re.fullmatch(pattern, text) is not None


def _here(text: str) -> str:
    """The text with the server of the tests in place of the page's."""
    return text.replace(f"@{SERVER}/", "@/")


def _served() -> dict[str, str]:
    """A server with an empty database `agents`, its owner and a role `app`; returns how libpq finds it."""
    import psycopg

    from postgres_server import server

    with psycopg.connect(server().url(), autocommit=True) as db:
        db.execute("DROP DATABASE IF EXISTS agents")
        for name in ("owner", "app"):
            db.execute(f"DROP ROLE IF EXISTS {name}")
            db.execute(f"CREATE ROLE {name} LOGIN")
        db.execute("CREATE DATABASE agents OWNER owner")
    return {"PGHOST": str(server().data)}


class Page:
    """One page, run in its own folder."""

    def __init__(self, name: str, folder: Path) -> None:
        self.text = (ROOT / name).read_text(encoding="utf-8")
        self.name = name
        self.folder = folder
        self.namespace: dict[str, Any] = {"__name__": "__main__"}
        self.files: dict[str, str] = {}
        """The programs of the page, by their names."""
        home = folder / "home"
        work = folder / "project"
        home.mkdir()
        work.mkdir()
        self.work = work
        (work / "examples").symlink_to(ROOT / "examples")
        self.env = {
            **{name: value for name, value in os.environ.items() if not name.startswith("STATOR")},
            "HOME": str(home),
            "PATH": f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}",
            "NO_COLOR": "1",
        }
        for name in ("COLUMNS", "XDG_DATA_HOME", *ancestry.VARIABLES):
            self.env.pop(name, None)
        if any(SERVER in block.text for block in blocks(self.text) if runs(block)):
            self.env |= _served()

    def run(self) -> Iterator[tuple[Block, str]]:
        """Run every block; yields the block and its current output."""
        for block in blocks(self.text):
            if not runs(block):
                continue
            if block.language == "python":
                name = re.search(r"file=(\S+)", block.info)
                if name:
                    self.files[name[1]] = _here(block.text)
                    self._write_files()
                else:
                    self._python(block)
                yield block, block.text
            elif "apart" in block.info.split():
                here, home = self.work, self.env["HOME"]
                self._move("apart")
                yield block, self._console(block)
                self.work, self.env["HOME"] = here, home
            else:
                yield block, self._console(block)

    def _write_files(self) -> None:
        for name, text in self.files.items():
            (self.work / name).write_text(text, encoding="utf-8")

    def _python(self, block: Block) -> None:
        code = compile("\n" * (block.line - 1) + _here(block.text), self.name, "exec")
        with self._inside(), contextlib.redirect_stdout(io.StringIO()):
            exec(code, self.namespace)  # noqa: S102

    @contextlib.contextmanager
    def _inside(self) -> Iterator[None]:
        """Set up the page's folder, home, modules and arguments for code that runs in this process."""
        kept, here, argv, path = dict(os.environ), Path.cwd(), sys.argv, list(sys.path)
        modules = set(sys.modules)
        os.environ.clear()
        os.environ.update(self.env)
        os.chdir(self.work)
        sys.argv = ["agent.py"]
        sys.path.insert(0, str(self.work))
        try:
            yield
        finally:
            sys.path[:] = path
            for name in set(sys.modules) - modules:
                if str(self.work) in str(getattr(sys.modules[name], "__file__", "")):
                    del sys.modules[name]
            os.chdir(here)
            os.environ.clear()
            os.environ.update(kept)
            sys.argv = argv

    def _console(self, block: Block) -> str:
        allowed = re.search(r"exit=(\d+)", block.info)
        wanted = int(allowed[1]) if allowed else 0
        lines: list[str] = []
        for item in shown(block.text):
            code, output = self.command(item.command)
            assert code == wanted, f"{self.name}:{block.line}: $ {item.command} → {code}\n{output}"
            said = output.splitlines()
            lines.append(f"$ {item.command}")
            if item.output and matches(item.output, said):
                lines += item.output
            elif item.output:
                lines += [*said, *([""] if item.output[-1] == "" else [])]
        return "\n".join(lines) + "\n"

    def command(self, command: str) -> tuple[int, str]:
        """The exit code and the output of a command; `stator` runs in this process, which is faster."""
        words = shlex.split(_here(command), comments=True)
        given = dict(word.split("=", 1) for word in words if re.match(r"[A-Z_]+=", word))
        program, *words = words[len(given) :]
        if program == "cd":
            self._move(words[0])
            return 0, ""
        if program in ("python", "cat"):
            found = sys.executable if program == "python" else program
            return self._process([found, *words], given)
        assert program == "stator", f"{self.name}: only stator, python and cat are run: {command}"
        printed = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
        with (
            self._inside(),
            contextlib.redirect_stdout(printed),
            contextlib.redirect_stderr(printed),
        ):
            code = main(words)
        buffer = printed.detach()
        assert isinstance(buffer, io.BytesIO)
        text = buffer.getvalue().decode().replace(str(self.work), "~/project")
        text = _AGENT.sub("", _RUN.sub("on laptop, pid 4711", text))
        return code, _USER.sub("local:ann", text)

    def _move(self, name: str) -> None:
        """Switch to another machine, which shares nothing with this one."""
        self.work, home = self.folder / name / "project", self.folder / name / "home"
        self.work.mkdir(parents=True, exist_ok=True)
        home.mkdir(exist_ok=True)
        if not (self.work / "examples").exists():
            (self.work / "examples").symlink_to(ROOT / "examples")
        self._write_files()
        self.env["HOME"] = str(home)

    def _process(self, words: list[str], env: dict[str, str]) -> tuple[int, str]:
        """Run a program of the page as a shell would; returns its exit code and output."""
        done = subprocess.run(
            words,
            cwd=self.work,
            env={**self.env, **env},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=60,
            check=False,
        )
        if done.returncode < 0:
            return 128 - done.returncode, done.stdout + "Killed\n"
        return done.returncode, done.stdout


def rewritten(name: str, folder: Path) -> str:
    """The page with the current output of its commands."""
    page = Page(name, folder)
    text, shift = page.text, 0
    for block, now in page.run():
        start = block.start + shift
        text = text[:start] + now + text[start + len(block.text) :]
        shift += len(now) - len(block.text)
    return text
