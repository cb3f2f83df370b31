"""Patches that git applies, for any contents."""

from __future__ import annotations

import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stator.model.views.patch import (
    FilePatch,
    FileSide,
    file_patch,
    is_binary,
    quoted,
    text_of,
)

LINES = st.lists(
    st.sampled_from(["a\n", "b\n", "\n", "c\r\n", " x\n", "\x0cp\n", "é\n"]), max_size=30
)
CONTENTS = st.tuples(LINES, st.sampled_from(["", "end", "-- x", "\u2028"])).map(
    lambda pair: ("".join(pair[0]) + pair[1]).encode()
)


def applied(tmp_path, before: FileSide | None, after: FileSide | None, patch: str):
    """What `git apply` makes of one side in an empty folder."""
    if before is not None:
        target = tmp_path / before.path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(before.data)
        target.chmod(before.mode)
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    done = subprocess.run(
        ["git", "apply", "--whitespace=nowarn", "-"],
        cwd=tmp_path, input=patch.encode(), capture_output=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, (patch, done.stderr)
    made = tmp_path / path_of(before, after)
    return (made.read_bytes(), made.stat().st_mode & 0o777) if made.exists() else None


def path_of(before: FileSide | None, after: FileSide | None) -> str:
    side = after or before
    assert side is not None
    return side.path


def patch_of(before: FileSide | None, after: FileSide | None) -> FilePatch:
    made = file_patch(path_of(before, after), ".", before, after)
    assert made is not None
    return made


CASES = {
    "changed": (FileSide("a.py", b"1\n2\n3\n"), FileSide("a.py", b"1\nx\n3\n")),
    "created": (None, FileSide("new/a.py", b"1\n2\n")),
    "created empty": (None, FileSide("a.py", b"")),
    "deleted": (FileSide("a.py", b"1\n2\n"), None),
    "deleted empty": (FileSide("a.py", b""), None),
    "emptied": (FileSide("a.py", b"1\n"), FileSide("a.py", b"")),
    "no newline before": (FileSide("a.py", b"1\n2"), FileSide("a.py", b"1\n2\n")),
    "no newline after": (FileSide("a.py", b"1\n2\n"), FileSide("a.py", b"1\n2")),
    "carriage returns": (FileSide("a.py", b"1\r\n2\r\n"), FileSide("a.py", b"1\r\n3\r\n")),
    "executable": (None, FileSide("run.sh", b"echo\n", 0o755)),
    "made executable": (FileSide("run.sh", b"echo\n", 0o644), FileSide("run.sh", b"echo\n", 0o755)),
    "renamed": (FileSide("a.py", b"1\n2\n"), FileSide("b.py", b"1\n2\n")),
    "renamed and changed": (FileSide("a.py", b"1\n2\n3\n"), FileSide("b.py", b"1\n2\n4\n")),
    "a space in its name": (FileSide("a b.py", b"1\n"), FileSide("a b.py", b"2\n")),
    "a quote in its name": (FileSide('a"b.py', b"1\n"), FileSide('a"b.py', b"2\n")),
    "a line break in its name": (FileSide("a\nb.py", b"1\n"), FileSide("a\nb.py", b"2\n")),
    "an umlaut in its name": (FileSide("ä.py", b"1\n"), FileSide("ä.py", b"2\n")),
}


@pytest.mark.parametrize("case", CASES)
def test_git_applies_a_patch(case, tmp_path):
    before, after = CASES[case]
    made = applied(tmp_path, before, after, patch_of(before, after).patch)
    if after is None:
        assert made is None
    else:
        assert made is not None
        assert made[0] == after.data
        assert bool(made[1] & 0o100) == bool(after.mode & 0o100)


@given(before=CONTENTS, after=CONTENTS)
def test_a_patch_turns_any_text_into_any_other(before, after, tmp_path_factory):
    if before == after:
        assert file_patch("x", ".", FileSide("x", before), FileSide("x", after)) is None
        return
    sides = FileSide("x", before), FileSide("x", after)
    made = applied(tmp_path_factory.mktemp("p"), *sides, patch_of(*sides).patch)
    assert made == (after, 0o644)


def test_equal_contents_have_no_patch():
    assert file_patch("a", ".", FileSide("a", b"1"), FileSide("a", b"1")) is None


def test_distant_edits_are_separate_hunks_with_three_lines_of_context():
    old = [f"{n}\n" for n in range(100)]
    new = [*old[:10], "x\n", *old[11:80], "y\n", *old[81:]]
    made = patch_of(FileSide("a", "".join(old).encode()), FileSide("a", "".join(new).encode()))
    assert made.patch.count("@@ -") == 2
    assert "@@ -8,7 +8,7 @@" in made.patch
    assert (made.added, made.removed) == (2, 2)


def test_a_highly_repetitive_file_is_one_hunk():
    old, new = b"x\n" * 40_000 + b"a\n", b"y\n" + b"x\n" * 40_000 + b"b\n"
    assert patch_of(FileSide("a", old), FileSide("a", new)).patch.count("@@ -") == 1


def test_binary_content_is_named_as_binary_and_not_shown():
    made = patch_of(FileSide("a.png", b"\0\1\2"), FileSide("a.png", b"\0\1\2\3\4"))
    assert (made.patch, made.reason) == ("", "binary, 3 → 5 bytes")


@pytest.mark.parametrize("data", [b"a\0b", b"\xff\xfe", b"caf\xe9"])
def test_content_that_is_not_text_is_binary(data):
    assert is_binary(data)


def test_git_ignores_remarks_between_patches(tmp_path):
    (tmp_path / "a").write_text("1\n")
    patches = [
        FilePatch(path="big.bin", change="changed", reason="not kept: size"),
        patch_of(FileSide("a", b"1\n"), FileSide("a", b"2\n")),
        FilePatch(path="x\ndiff --git a/a b/a", change="changed", reason="not kept:\n--- a/a"),
        patch_of(None, FileSide("b", b"new\n")),
        FilePatch(path="/etc/x", root="/", change="changed", patch="--- a/a\n"),
    ]
    assert applied(tmp_path, None, FileSide("b", b""), text_of(patches)) == (b"new\n", 0o644)
    assert (tmp_path / "a").read_text() == "2\n"


def test_a_path_with_a_newline_stays_on_one_line():
    assert "\n" not in quoted("a\nb\r\x1b")
