"""The README has a first example that runs, a picture that needs no network, and links to every page."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from docs.runner import PAGES, ROOT, blocks

README = (ROOT / "README.md").read_text(encoding="utf-8")
FIRST = next(block for block in blocks(README) if block.language == "python")


@pytest.mark.parametrize("name", [name for name in PAGES if name != "README.md"])
def test_every_page_is_linked_from_the_readme(name):
    assert f"]({name})" in README


def test_the_readme_has_at_most_260_lines_and_no_comments():
    assert len(README.splitlines()) <= 260
    assert "<!--" not in README


def test_the_first_example_is_under_15_lines_and_runs_in_an_empty_folder(tmp_path):
    assert len(FIRST.text.splitlines()) < 15
    done = subprocess.run(
        [sys.executable, "-c", FIRST.text],
        cwd=tmp_path,
        env={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "hello.txt").read_text() == "Hello!\n"
    assert "hello.txt: created" in done.stdout


@pytest.mark.parametrize(
    "image", sorted((ROOT / "docs").rglob("*.svg")), ids=lambda path: path.name
)
def test_a_picture_loads_nothing_from_the_network(image):
    svg = image.read_text(encoding="utf-8")
    assert set(re.findall(r"\w+://[^\"'\s)]+", svg)) == {"http://www.w3.org/2000/svg"}
    assert "@font-face" not in svg
    assert "<script" not in svg


def test_the_recording_shows_two_payments_without_stator_and_one_with_it():
    svg = (ROOT / "docs/images/demo.svg").read_text(encoding="utf-8").replace("&#160;", " ")
    assert re.findall(r"payments in ledger\.txt: (\d)", svg) == ["2", "1"]
