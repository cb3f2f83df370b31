"""The present code writes the commits that earlier releases wrote, byte for byte: a renamed cause, a reworded
reason or a reordered field would give a session another head."""

from __future__ import annotations

import ast
import json
import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest

import stator
from compat import commits
from compat.make import opened
from stator.model.records.tables import COLLECTIONS, KINDS

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

HERE = Path(__file__).parent
DATA = HERE / "data"
WORDING = DATA / "wording"
SOURCE = HERE.parents[1] / "src" / "stator"
RELEASE = "0.4.0"
WITH_EDGES = ("0.8.0", "0.9.0", "0.10.0")
NEWEST = WITH_EDGES[-1]
FRAME = struct.Struct(">ccII")


def run(module: str, folder: Path, *words: str) -> None:
    """Run a script in its own process with an unusual environment, none of which may be recorded."""
    folder.mkdir()
    environ = {
        **os.environ,
        "PYTHONPATH": str(HERE.parent),
        "TMPDIR": str(folder),
        "TZ": "Pacific/Apia",
        "LC_ALL": "C",
    }
    done = subprocess.run(
        [sys.executable, "-m", module, *words],
        env=environ, cwd=folder, umask=0o077, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]


def read(path: Path) -> list[commits.Line]:
    with stator.connect(path, create=False, read_only=True, project="compat") as store:
        return list(commits.lines(store))


def frames(path: Path) -> list[tuple[bytes, bytes]]:
    """The unpacked content of a bundle: another zstd may compress it differently."""
    data = path.read_bytes()
    (length,) = struct.unpack(">I", data[10:14])
    place, found = 14 + length, [(b"header", data[14 : 14 + length])]
    while place < len(data) - 32:
        kind, codec, size, _ = FRAME.unpack_from(data, place)
        place += FRAME.size
        packed = data[place : place + size]
        found.append((kind, zstd.decompress(packed) if codec == b"z" else packed))
        place += size
    return found


def _release(path: Path) -> list[int]:
    return [int(number) for number in path.parent.name.split(".")]


def lines(path: Path) -> list[commits.Line]:
    """The commits of a section. Those that a release with edges wrote are compared with them, hashes and all."""
    found = commits.read(path)
    newer = any((WORDING / release / path.name).exists() for release in WITH_EDGES)
    return found if newer else commits.without_edges(found)


def test_the_script_writes_the_same_commits_as_0_10_0(tmp_path):
    """Up to 0.7.0 it wrote those of 0.4.0. Since 0.8.0, commits name what they were made from, files are in the
    working set, what an agent runs with is recorded, and no note of how far a source was read. Since 0.9.0, what rules
    find and the contents of files that transcripts show are recorded. Since 0.10.0, a compaction names its turns, lists
    the most useful keys first, and its note is longer."""
    database, bundle = tmp_path / "again.db", tmp_path / "again.stator"
    run("compat.make", tmp_path / "run", str(database), str(bundle))
    known, now = commits.read(DATA / f"written-{NEWEST}.jsonl"), read(database)
    assert commits.difference(known, now) == ""
    assert [kind for kind, _ in frames(bundle)] == [
        kind for kind, _ in frames(DATA / f"{RELEASE}.stator")
    ]


def test_every_section_writes_the_same_commits_as_the_release_that_last_changed_it(tmp_path):
    """A section that a later release writes otherwise on purpose is compared with what that release wrote:
    from 0.6.0 on, a write in doubt is not run in another turn either ("died"), and the old path of a renamed file
    is recorded as deleted ("items", "import-codex"), and an undone compaction puts notes back under their ids
    ("branched"), and erasing a session keeps its redaction key ("erased").

    From 0.8.0 on: files that calls name are in the working set ("branched", "erased", "files", "git"); settings are
    recorded ("looped" and imports); a session names what orders it, no note of how far a source was read is in its
    log, an end is no outcome, and a plan changes when its call succeeded ("items", hooks and imports); a prompt is
    the words of the one who wrote it; a sub-agent's session hangs at the call that started it. What hooks report of a
    session whose transcript is missing is recorded with that cause ("hooks-claude-code").

    From 0.9.0 on: what rules find follows its evidence, and contents of files that transcripts and hooks show come
    before the outcome that names them (imports, hooks, the proxy). The reason of a denial is a candidate ("approved"),
    an adoption is a decision ("branched").

    From 0.10.0 on: a driven compaction names its turns and lists the most useful keys first ("awaited", "branched").
    The first turn of a sub-agent that an agent reports rests on what its parent had been shown ("mcp", "reported").

    What each commit was made from is recorded since 0.8.0: in sections of earlier releases it is not compared."""
    run("compat.wording", tmp_path / "run", str(tmp_path))
    written = {path.stem: lines(path) for path in tmp_path.glob("*.jsonl")}
    known = {path.stem: lines(path) for path in WORDING.glob("*.jsonl")}
    known |= {path.stem: lines(path) for path in sorted(WORDING.glob("*/*.jsonl"), key=_release)}
    assert written.keys() == known.keys()
    changed = {name: commits.difference(known[name], written[name]) for name in sorted(known)}
    said = "\n".join(f"{name}: {what}" for name, what in changed.items() if what)
    assert not said, said


def test_the_scripts_write_every_kind_of_commit_and_every_collection():
    found = read(DATA / f"{RELEASE}.db")
    for path in WORDING.rglob("*.jsonl"):
        found += commits.read(path)
    assert KINDS - {one["kind"] for one in found} == set()
    written = {change.split()[0] for one in found for change in one["delta"]}
    assert COLLECTIONS.keys() - written == set()


@pytest.mark.parametrize("word", (DATA / "recorded.txt").read_text(encoding="utf-8").splitlines())
def test_a_recorded_text_that_no_script_writes_is_still_in_the_source(word, source_texts):
    assert json.loads(word) in source_texts


@pytest.fixture(scope="module")
def source_texts() -> set[str]:
    """Every string in the source except docstrings."""
    found: set[str] = set()
    for path in SOURCE.rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        docs = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        found |= {
            node.value
            for node in ast.walk(tree)
            if isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and id(node) not in docs
        }
    return found


# -- the comparison itself ------------------------------------------------------------------------


@pytest.fixture
def two(tmp_path):
    """The commits of two stores in which a turn was aborted, for reasons that differ in one word."""
    found = []
    for name, why in (("first", "too dear"), ("second", "too slow")):
        with opened(str(tmp_path / f"{name}.db"), str(tmp_path)) as store:
            with store.open("work") as session, session.turn("pay") as t:
                t.abort(why)
            found.append(list(commits.lines(store)))
    return found


def test_a_difference_names_the_session_the_commit_and_the_field(two):
    first, second = two
    assert commits.difference(first, second) == (
        "session 'work' seq 4 kind turn_end: cause was 'too dear', is 'too slow'"
    )
    assert commits.difference(first, first) == ""


def test_missing_and_new_commits_and_sessions_are_named(two):
    first, _ = two
    gone = "session 'work' seq 6 kind pause is not written any more"
    assert commits.difference(first, first[:-1]) == gone
    assert commits.difference(first[:-1], first) == "session 'work' seq 6 kind pause is new"
    assert commits.difference(first, []) == "session 'work' is not written any more"
    assert commits.difference([], first) == "session 'work' is new"
