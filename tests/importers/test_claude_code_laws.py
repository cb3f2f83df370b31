"""Tests that the order and the pieces in which Claude Code's data arrives make no difference."""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

import stator
from importers.claude_code_writer import SESSION, TranscriptWriter, import_files, items, view
from importers.test_claude_code_hooks import MAIN, TOLD, WHOLE, record, tally
from stator.model.exchange.items import Cursor, Noise, Skipped

LINES = MAIN.read_bytes().splitlines(keepends=True)
GARDEN = MAIN.stem
few = settings(max_examples=5, deadline=None)


def said(seen: Any) -> dict[str, list[Any]]:
    """The blocks of every answer, joined across commits."""
    found: dict[str, list[Any]] = {}
    for commit in seen.log():
        if commit.kind == "entry" and commit.actor == "model":
            reply = commit.value("output")
            found.setdefault(reply["id"], []).extend(reply["content"])
    return found


def outcome(seen: Any) -> Counter[Any]:
    log = [c for c in seen.log() if c.kind in ("turn", "call", "outcome", "compaction", "plan")]
    return Counter((c.kind, c.origin, c.tool, c.status) for c in log)


@few
@given(st.lists(st.integers(0, sum(map(len, LINES))), max_size=6))
def test_a_growing_file_yields_the_same_as_the_whole_file(cuts):
    whole = MAIN.read_bytes()
    with tempfile.TemporaryDirectory() as folder:
        growing = Path(folder) / MAIN.name
        with stator.connect("memory:") as store, stator.connect("memory:") as other:
            for cut in [*sorted(cuts), len(whole)]:
                growing.write_bytes(whole[:cut])
                import_files(store, growing, conclude=False)
            import_files(other, growing, conclude=False)
            assert said(view(store, GARDEN)) == said(view(other, GARDEN))
            assert outcome(view(store, GARDEN)) == outcome(view(other, GARDEN))


@few
@given(st.lists(st.tuples(st.booleans(), st.integers(1, 8)), max_size=12))
def test_hooks_and_a_growing_transcript_record_everything_once_in_any_order(pieces):
    state: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder, stator.connect("memory:") as store:
        growing = Path(folder) / MAIN.name
        read = told = 0
        for is_read, step in [*pieces, (False, len(TOLD)), (True, len(LINES))]:
            if is_read:
                read += step
                growing.write_bytes(b"".join(LINES[:read]))
                import_files(store, growing, conclude=False)
            else:
                record(store, TOLD[told : told + step], state)
                told += step
        assert tally(store) == WHOLE


junk = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=6,
)
names = st.sampled_from(
    "type subtype uuid parentUuid sessionId timestamp message content role id isSidechain agentId cwd"
    " isMeta promptId toolUseResult attachment rendered compactMetadata forkedFrom session_id".split()
)
kinds = st.sampled_from(["user", "assistant", "system", "attachment", "result", "summary", "new"])
blocks = st.fixed_dictionaries(
    {"type": st.sampled_from(["text", "tool_use", "tool_result", "image"])},
    optional={
        "id": junk,
        "name": junk,
        "input": junk,
        "tool_use_id": junk,
        "content": junk,
        "text": junk,
    },
)


@settings(max_examples=25, deadline=None)
@given(
    st.lists(
        st.builds(
            lambda fields, kind, content: {**fields, "type": kind, "message": {"content": content}},
            st.dictionaries(names, junk, max_size=6),
            kinds,
            st.lists(blocks, max_size=3) | junk,
        ),
        max_size=6,
    )
)
def test_any_line_is_read_or_reported(lines):
    with tempfile.TemporaryDirectory() as folder, stator.connect("memory:") as store:
        file = TranscriptWriter(Path(folder) / f"{SESSION}.jsonl")
        file.prompt("go", uuid="first")
        for line in lines:
            file.raw(json.dumps(line))
        told = items(file.path)
        assert not [item for item in told if isinstance(item, Skipped)]
        assert [item for item in told if not isinstance(item, (Cursor, Noise))]
        import_files(store, file.path)
        assert import_files(store, file.path).commits == 0
