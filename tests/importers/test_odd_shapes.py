"""One line of an unexpected shape costs that line: the others are imported, and the skip is counted.

Every field of every line of a recorded sample is replaced by values of every type, one at a time. The suite tries a
seeded share of them; `STATOR_MUTATIONS=all` tries all.
"""

from __future__ import annotations

import copy
import json
import os
import random
import shutil
from collections import Counter

import pytest

from importers.import_helpers import DATA, FORMAT_NAMES, detected_format, import_file, sessions
from stator.importers.discover import discover
from stator.importers.reading import line_boundary
from stator.importers.registry import load
from stator.importers.run import import_transcripts
from stator.model.exchange.items import Noise, Skipped
from stator.runtime.facade.view import SessionView
from stator.testing import memory_store

VALUES = [None, True, 1.5, "", [], {}, ["a"], {"a": 1}, "\ud800", 10**30]
SEED, SHARE = 7, 20
SAMPLES = [
    path
    for path in sorted(DATA.rglob("*"))
    if path.suffix in (".json", ".jsonl", ".traj")
    and not path.name.startswith("hooks")
    and detected_format(path)
]


def places(value, at=()):
    """Where the fields of a value are."""
    if isinstance(value, (dict, list)):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield (*at, key)
            yield from places(value[key], (*at, key))


def replaced(value, at, new):
    if not at:
        return new
    changed = copy.copy(value)
    changed[at[0]] = replaced(value[at[0]], at[1:], new)
    return changed


def mutations(documents):
    """(which document, where in it, the new value), in a random order that is always the same."""
    found = [
        (number, at, value)
        for number, document in enumerate(documents)
        for at in places(document)
        for value in VALUES
    ]
    random.Random(SEED).shuffle(found)
    return found if os.environ.get("STATOR_MUTATIONS") == "all" else found[:SHARE]


def documents_of(path):
    data = path.read_bytes()
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in data.splitlines() if line.strip()]
    return [json.loads(data)]


def written(path, documents):
    path.write_text("".join(json.dumps(document) + "\n" for document in documents))


def recorded(path, name):
    """What an import of a file records, as counts. Ids are no use here: some are made from the lines before."""
    with memory_store() as store:
        import_file(store, path, name)
        return Counter(
            (
                commit.kind,
                commit.tool if commit.kind == "call" else "",
                repr(commit.value("input") if commit.has("input") else ""),
            )
            for row in store.sessions().rows
            for commit in SessionView(store.port, row.id).log()
            if commit.kind in ("turn", "call", "entry", "raw")
        )


def sample_in(tmp_path, path):
    """A copy of a sample among the files it lies among."""
    rel = path.relative_to(DATA)
    shutil.copytree(DATA / rel.parts[0], tmp_path / rel.parts[0])
    return tmp_path / rel


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.name[-40:])
def test_no_value_in_any_field_stops_an_import(path, tmp_path):
    name, documents, target = detected_format(path), documents_of(path), sample_in(tmp_path, path)
    for number, at, value in mutations(documents):
        written(target, replaced(documents, (number, *at), value))
        for other in FORMAT_NAMES:
            load(other).recognizes(target, target.read_bytes()[:65_536])
        with memory_store() as store:
            import_file(store, target, name)


@pytest.mark.parametrize(
    "path",
    [path for path in SAMPLES if path.suffix == ".jsonl" and len(documents_of(path)) > 2],
    ids=lambda path: path.name[-40:],
)
def test_the_lines_beside_an_odd_one_are_imported(path, tmp_path):
    name, documents, target = detected_format(path), documents_of(path), sample_in(tmp_path, path)
    whole = recorded(target, name)
    for number, at, value in mutations(documents)[:10]:
        if number == 0:
            continue  # in most formats it says which conversation this is
        written(target, documents[:number] + documents[number + 1 :])
        expected = whole & recorded(target, name)
        written(target, replaced(documents, (number, *at), value))
        missing = expected - recorded(target, name)
        assert not missing, (number, at, value, missing)


CLAUDE = DATA / "claude-code" / "5e551000-0000-4000-8000-00000000000b.jsonl"
CODEX = next(path for path in SAMPLES if "CollabAgentToolCall" in path.read_text(encoding="utf-8"))
ODD_LINES = {
    "a list as the type": b'{"type": ["a"], "uuid": "u", "parentUuid": null, "sessionId": "s"}',
    "an object as the type": b'{"type": {"a": 1}, "uuid": {"a": 1}, "parentUuid": [], "sessionId": 5}',
    "a list as the id": b'{"type": "user", "uuid": ["a"], "parentUuid": ["b"], "message": {"content": "x"}}',
    "a number as the message": b'{"type": "assistant", "uuid": "v", "parentUuid": null, "message": 7}',
    "deep nesting": b'{"type": "user", "message": ' + b"[" * 1_000_000 + b"]" * 1_000_000 + b"}",
    "a huge number": b'{"type": "user", "uuid": 1' + b"0" * 5000 + b"}",
    "NaN": b'{"type": "user", "uuid": NaN, "timestamp": Infinity, "message": {"content": -Infinity}}',
    "a lone surrogate": b'{"type": "\\ud800", "uuid": "\\udfff", "message": {"role": "\\ud800"}}',
    "keys given twice": b'{"type": "user", "type": ["a"], "uuid": "w", "uuid": null, "message": {}}',
    "no object": b"[1, 2]",
    "no JSON": b'{"type": "user", ',
    "bytes that are no text": b"\xff\xff{}",
}


@pytest.mark.parametrize("place", ["first", "middle"])
@pytest.mark.parametrize("line", ODD_LINES.values(), ids=ODD_LINES)
@pytest.mark.parametrize("path", [CLAUDE, CODEX], ids=["claude-code", "codex"])
def test_a_file_with_one_odd_line_is_found_and_imported(path, line, place, tmp_path):
    lines = path.read_bytes().splitlines()
    # A file is recognized by its beginning, and a rollout by its first line.
    is_first = place == "first" and path is CLAUDE and len(line) < 60_000
    at = 0 if is_first else len(lines) // 2
    target = sample_in(tmp_path, path)
    whole = recorded(target, detected_format(path))
    target.write_bytes(b"\n".join([*lines[:at], line, *lines[at:]]) + b"\n")
    with memory_store() as store:
        result = import_transcripts(store, discover([target]))
    assert (result.refused, result.unread) == ([], {})
    assert not whole - recorded(target, detected_format(path))


def test_a_line_that_a_reader_cannot_take_apart_is_counted_and_named(tmp_path):
    documents, target = documents_of(CODEX), sample_in(tmp_path, CODEX)
    number = next(n for n, one in enumerate(documents) if "CollabAgentToolCall" in json.dumps(one))
    at = (number, "payload", "item", "receiver_thread_ids")
    written(target, replaced(documents, at, 1.5))
    with memory_store() as store:
        report = import_file(store, target, "codex")
    assert report.skipped == 1
    (skip,) = report.skips
    assert (skip.path, skip.line, skip.why) == (
        str(target),
        number + 1,
        "unexpected shape: TypeError",
    )


def test_half_of_an_odd_line_is_not_recorded():
    def items():
        yield Noise(kind="first half")
        raise KeyError("second half")

    assert list(line_boundary.whole_line(items(), 3)) == [
        Skipped(line=3, why="unexpected shape: KeyError")
    ]


def test_counts_that_no_record_can_hold_are_left_out(tmp_path):
    documents, target = documents_of(CLAUDE), sample_in(tmp_path, CLAUDE)
    number = next(n for n, one in enumerate(documents) if "output_tokens" in json.dumps(one))
    written(target, replaced(documents, (number, "message", "usage", "output_tokens"), 10**30))
    with memory_store() as store:
        report = import_file(store, target, "claude-code")
        assert (report.skipped, sessions(store)) == (0, 1)
