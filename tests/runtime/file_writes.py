"""Shared by the tests of files: writing them directly and by a tool, reading folders, and git."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import stator
from stator.model.views.patch import FilePatch, text_of

SECRET = "AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY\n"


def put(path: str | Path, text: str) -> str:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(text)
    return str(path)


@stator.tool(files="path")
def write(path: str, text: str) -> None:
    put(path, text)


def turn(session: Any, *writes: tuple[str, str | None]) -> None:
    """A turn with one call that writes (path, text) pairs; None as the text deletes."""

    def work() -> None:
        for path, text in writes:
            if text is None:
                os.remove(path)
            else:
                put(path, text)

    with session.turn("x", new=True) as t:
        t.call(work)


def tree(folder: str | Path) -> dict[str, bytes]:
    """The files of a folder, without git and stores."""
    return {
        p.relative_to(folder).as_posix(): p.read_bytes()
        for p in Path(folder).rglob("*")
        if p.is_file() and ".git" not in p.parts and ".db" not in p.as_posix()
    }


def fill(folder: Path, contents: dict[str, bytes]) -> None:
    """Make a folder contain exactly these files."""
    for name in tree(folder):
        (folder / name).unlink()
    for name, data in contents.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)


def apply(folder: str | Path, patches: list[FilePatch]) -> None:
    """Apply patches with git, which must succeed."""
    subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
    text = text_of(patches).encode()
    command = ["git", "apply", "--allow-empty", "--whitespace=nowarn", "-"]
    done = subprocess.run(command, cwd=folder, input=text, capture_output=True, check=False)
    assert done.returncode == 0, (text, done.stderr)
