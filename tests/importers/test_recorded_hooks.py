"""Tests that recorded hooks of real agents make the same session as their transcript.

The recordings are not part of the project; `STATOR_TRANSCRIPTS` names their folder.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import stator
from stator.hooks.mappers import MAPPERS

FOLDER = Path(os.environ.get("STATOR_TRANSCRIPTS", "/nonexistent")) / "generated"
RECORDED = {
    "claude-code": "claude-code-2.1.325",
    "codex": "codex-0.166.0",
    "gemini": "gemini-cli-0.61.0",
}
pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason="STATOR_TRANSCRIPTS names no folder")
CALLS = ("PreToolUse", "BeforeTool")
ENDS = ("PostToolUse", "PostToolUseFailure", "AfterTool")


def lines(agent: str, *, transcript: bool) -> list[dict[str, Any]]:
    folder = FOLDER / RECORDED[agent]
    text = (folder / "hooks.stdin.jsonl").read_text()
    found = [json.loads(line)["stdin"] for line in text.splitlines()]
    for line in found:
        name = Path(line["transcript_path"]).name
        line["transcript_path"] = str(folder / name) if transcript else "/nonexistent.jsonl"
    return found


@pytest.fixture(params=[True, False], ids=["with transcript", "hooks alone"])
def transcript(request):
    return request.param


@pytest.fixture(params=["at once", "one by one"])
def pace(request):
    return request.param


@pytest.mark.parametrize("agent", RECORDED)
def test_recorded_hooks_and_transcript_record_everything_once(hooked, agent, transcript, pace):
    if find_spec(f"stator.importers.{MAPPERS[agent]}") is None:
        pytest.skip("nobody reads these hooks yet")
    told = lines(agent, transcript=transcript)
    for line in told:
        hooked.write(line, agent=agent)
        if pace == "one by one":
            stator.connect(hooked.path).close()
    with stator.connect(hooked.path) as store:
        views = {view.row.record.aliases[0][1]: view for view in store.views()}
        kinds = {name: Counter(c.kind for c in view.log()) for name, view in views.items()}
        rows = store.calls().rows
    assert views.keys() == {line["session_id"] for line in told}
    for name in views:
        own = [line["hook_event_name"] for line in told if line["session_id"] == name]
        begun = sum(kind in CALLS for kind in own)
        if not transcript:
            assert (kinds[name]["call"], kinds[name]["outcome"]) == (begun, begun)
    assert {row.status for row in rows} <= {"ok", "error"}
    assert not (hooked.spool / "bad").exists()
