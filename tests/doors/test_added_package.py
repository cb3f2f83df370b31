"""An installed package adds a transcript format and a store, and replaces no built-in one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PROJECT = """
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "stator-toy"
version = "1"

[project.entry-points."stator.formats"]
toy = "stator_toy:FORMAT"
codex = "stator_toy:FORMAT"

[project.entry-points."stator.stores"]
toy = "stator_toy:open_store"
sqlite = "stator_toy:refuse"
broken = "stator_toy:no_such_name"
"""

MODULE = '''
"""A toy format (a file of lines that begin with ask or say) and a toy store (a SQLite file under another URL)."""

from pathlib import Path

from stator.importing import FoundConversation, items
from stator.store import sqlite


class ToyFormat:
    name = "toy"
    mapper = 1

    def recognizes(self, path, begin):
        return begin.startswith(b"toy transcript")

    def conversations(self, path):
        about = items.Conversation(source="toy", id=path.stem, name=path.stem)
        yield FoundConversation(path=str(path), conversation=about, size=path.stat().st_size)

    def read(self, found, cursor, progress, *, at_rest):
        for number, line in enumerate(Path(found.path).read_text().splitlines()):
            word, _, text = line.partition(" ")
            if word == "ask":
                yield items.Prompted(id=f"line/{number}", content=text)
            elif word == "say":
                yield items.Answered(id=f"line/{number}", reply=text)

    def default_paths(self, home, environ):
        return [home / ".toy"]

    def is_in_folder(self, found, root):
        return True


FORMAT = ToyFormat()


def open_store(url, *, durability, create, read_only, redact):
    path = url.removeprefix("toy://")
    if create and not Path(path).exists():
        sqlite.create(path)
    return sqlite.SqliteStore(path, durability=durability, read_only=read_only, redact=redact)


def refuse(url, **options):
    raise AssertionError("a store of ours was opened by another package")
'''


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A folder that the toy package was installed to with pip."""
    source, target = tmp_path_factory.mktemp("toy"), tmp_path_factory.mktemp("site")
    (source / "pyproject.toml").write_text(PROJECT)
    (source / "stator_toy").mkdir()
    (source / "stator_toy" / "__init__.py").write_text(MODULE)
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps"]
    command += ["--no-build-isolation", "--target", str(target), str(source)]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    return target


@pytest.fixture
def run(site, tmp_path):
    """Runs Python, or the command line, in an empty folder with the package installed."""

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        environ = {**os.environ, "PYTHONPATH": str(site), "HOME": str(tmp_path)}
        environ.pop("STATOR_STORE", None)
        return subprocess.run(
            [sys.executable, *arguments],
            cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=120,
        )  # fmt: skip

    return run


def stator(run, *words: str) -> subprocess.CompletedProcess[str]:
    done: subprocess.CompletedProcess[str] = run("-m", "stator.surfaces.cli.main", *words)
    return done


def write_transcript(folder: Path) -> None:
    (folder / "chat.toy").write_text("toy transcript\nask fix the login\nsay fixed\n")


def test_the_store_of_a_package_is_opened_by_its_scheme(run, tmp_path):
    code = "import stator\nwith stator.open('work', store='toy://a.db') as s, s.turn('hi') as t: t.say('ho')\n"
    assert run("-c", code).returncode == 0
    listed = stator(run, "ls", "--store", "toy://a.db", "--json")
    assert json.loads(listed.stdout.splitlines()[0])["name"] == "work"


def test_the_transcripts_of_a_package_are_imported_from_a_path(run, tmp_path):
    write_transcript(tmp_path)
    assert stator(run, "init").returncode == 0
    done = stator(run, "import", "chat.toy")
    assert done.returncode == 0, done.stderr
    log = stator(run, "log", "--json").stdout
    assert "fix the login" in log
    assert "fixed" in log


def test_the_store_of_a_package_does_not_open_a_built_in_scheme(run, tmp_path):
    done = stator(run, "ls", "--store", "sqlite:///a.db")
    assert "another package" not in done.stderr
    code = "import stator; stator.connect('sqlite:///a.db').close()"
    assert run("-c", code).returncode == 0


def test_the_format_of_a_package_does_not_replace_a_built_in_one(run):
    code = "from stator.importers import registry; print(type(registry.load('codex')).__module__)"
    assert run("-c", code).stdout.startswith("stator.")


def test_the_error_of_an_entry_point_that_cannot_be_loaded_names_its_package(run):
    done = stator(run, "ls", "--store", "broken://x")
    assert done.returncode == 2
    assert "stator-toy adds 'broken' to stator.stores, but cannot be loaded" in done.stderr


@pytest.mark.parametrize("scheme", ["nowhere", "postgresql+driver", "x-y.z"])
def test_a_scheme_that_no_package_opens_is_refused(run, scheme):
    done = stator(run, "ls", "--store", f"{scheme}://x")
    assert f"no installed package opens {scheme}:// stores" in done.stderr


def test_a_path_with_a_colon_is_still_a_path(run, tmp_path):
    code = "import stator; stator.connect('a_b:c.db').close()"
    assert run("-c", code).returncode == 0
    assert (tmp_path / "a_b:c.db").exists()


def test_a_built_in_store_is_opened_without_loading_package_metadata(run):
    code = "import stator, sys; stator.connect('a.db').close(); print('importlib.metadata' in sys.modules)"
    assert run("-c", code).stdout.strip() == "False"
