"""Applies the recipe of CONTRIBUTING for a new kind of record to a copy of the source, and tests it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parent.parent.parent
RECIPE = re.compile(
    r"^`([^`\n]+)`, before `([^\n]+)`:\n\n```\w+\n(.*?)^```$", re.MULTILINE | re.DOTALL
)
COPIED = ("src", "tests", "docs", "pyproject.toml", "README.md")
SOURCE_FILES = 4
TESTS = (
    "tests/model/test_registry.py",
    "tests/runtime/test_parity.py",
    "tests/docs/test_docs.py",
)


class Step(NamedTuple):
    """Lines to insert into a file before the only line with that beginning."""

    path: str
    before: str
    lines: str

    def apply(self, root: Path) -> None:
        file = root / self.path
        lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
        places = [n for n, line in enumerate(lines) if line.strip().startswith(self.before)]
        assert len(places) == 1, f"{self.path} has {len(places)} lines that begin {self.before!r}"
        lines.insert(places[0], self.lines)
        file.write_text("".join(lines), encoding="utf-8")


@pytest.fixture(scope="module")
def steps() -> list[Step]:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    section = text.partition("## A new kind of record")[2].partition("\n## ")[0]
    found = [Step(*match) for match in RECIPE.findall(section)]
    assert len(found) == section.count("```") // 2, "a block of the recipe has no place"
    return found


def test_a_new_kind_of_record_needs_at_most_four_source_files(steps):
    sources = {step.path for step in steps if step.path.startswith("src/")}
    assert 0 < len(sources) <= SOURCE_FILES


def test_the_recipe_of_contributing_adds_a_kind_of_record(steps, tmp_path):
    for name in COPIED:
        place = ROOT / name
        if place.is_dir():
            ignored = shutil.ignore_patterns("__pycache__", "*.db", "importers")
            ignored = ignored if name == "tests" else shutil.ignore_patterns("__pycache__")
            shutil.copytree(place, tmp_path / name, ignore=ignored)
        else:
            shutil.copy(place, tmp_path / name)
    for step in steps:
        step.apply(tmp_path)
    source = tmp_path / "src"
    done = subprocess.run(
        [
            sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", "-rN",
            "-k", "risk", *TESTS,
        ],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": f"{source}:{tmp_path / 'tests'}"},
        check=False,
        capture_output=True,
        text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-1000:]
    passed = int(re.findall(r"(\d+) passed", done.stdout)[-1])
    aspects = (ROOT / TESTS[0]).read_text(encoding="utf-8").count("@each")
    assert passed > aspects, done.stdout[-500:]
    used = subprocess.run(
        [sys.executable, "-c", "import stator; print(stator.__file__)"],
        env={**os.environ, "PYTHONPATH": str(source)},
        check=True,
        capture_output=True,
        text=True,
    )
    assert used.stdout.startswith(str(source)), "the tests ran on another copy"
