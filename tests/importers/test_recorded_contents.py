"""What real sessions hold of files: git accepts each of their patches, and most writes have one."""

from __future__ import annotations

from collections import Counter

import pytest

from importers.import_helpers import (
    RECORDINGS,
    conversations_in,
    detected_format,
    import_file,
    needs_recordings,
    view,
)
from runtime.file_writes import apply, fill, tree
from stator import testing
from stator.model.views.file_story import WRITES, FileStory
from stator.runtime.views.contents import ContentReader, hunks_of, wrote_upto

FILES = sorted(
    path for path in RECORDINGS.rglob("*") if path.suffix in (".jsonl", ".json", ".traj")
)
KNOWN = {"claude-code": 0.95, "codex": 0.95, "pi": 0.95, "opencode": 1.0, "gemini": 1.0}
"""The least share of writes by tools that must have a patch."""
pytestmark = needs_recordings


def sessions_of(path):
    name = detected_format(path)
    if not name:
        return []
    store = testing.memory_store(project="shop", root="/project")
    import_file(store, path, name, at_rest=True)
    return [(name, store, view(store, found)) for found in conversations_in(path, name)]


def edits_of(store, shown):
    story = FileStory()
    head = store.port.head(shown.id).seq
    return [e for v in wrote_upto(store.port, shown.id, head) if (e := story.take(v)) is not None]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name[-40:])
def test_git_applies_each_edit_to_the_file_as_it_was(path, tmp_path):
    for _, store, shown in sessions_of(path):
        reader = ContentReader(store.port, shown.id)
        for edit in edits_of(store, shown):
            if edit.record.op != "modified" or edit.record.root != ".":
                continue
            before, after = (
                reader.load(held) if held is not None else "" for held in (edit.start, edit.end)
            )
            if isinstance(before, str) or isinstance(after, str):
                continue
            fill(tmp_path, {edit.record.path: before[0]})
            span = f"@{edit.version.seq - 1}..@{edit.version.seq}"
            patches = [p for p in shown.patch(span) if p.path == edit.record.path]
            apply(tmp_path, patches)
            assert tree(tmp_path) == {edit.record.path: after[0]}


def test_most_writes_of_tools_have_a_patch():
    known: Counter[str] = Counter()
    every: Counter[str] = Counter()
    for path in FILES:
        for name, store, shown in sessions_of(path):
            for edit in edits_of(store, shown):
                record = edit.record
                if record.op not in WRITES or record.how == "inferred":
                    continue
                every[name] += 1
                found = hunks_of(store.port, shown.id, edit.version.seq, record.path, record.root)
                known[name] += bool(found and (found.places or not found.reason))
    assert {
        name: known[name] / every[name] >= least for name, least in KNOWN.items()
    } == dict.fromkeys(KNOWN, True)
