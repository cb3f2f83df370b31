"""Tests what holds for every format."""

from __future__ import annotations

import codecs
import copy
import json
import os
import random
from contextlib import suppress
from typing import Any

import pytest

import stator
from importers import (
    counts_cline,
    counts_copilot,
    counts_inspect,
    counts_mini_swe_agent,
    counts_openhands,
    counts_swe_agent,
)
from importers.import_helpers import (
    DATA,
    RECORDINGS,
    conversations_in,
    detected_format,
    import_file,
    kinds,
    needs_recordings,
    rendered,
    sessions,
    totals,
    view,
)
from stator.errors import InvalidInput
from stator.importers.reading import json_document
from stator.importers.registry import UNVERIFIED, load

TASK = DATA / "cline" / "1770913324799"
FILES = {
    "opencode": [DATA / "opencode" / "export.json"],
    "pi": [DATA / "pi" / "tree.jsonl", DATA / "pi" / "first-version.jsonl"],
    "cline": [TASK / "api_conversation_history.json"],
    "openhands": [DATA / "openhands" / "trajectory.json", DATA / "openhands" / "output.jsonl"],
    "inspect": [DATA / "inspect" / "log.json"],
    "copilot": [next((DATA / "copilot").rglob("events.jsonl"))],
    "swe-agent": [DATA / "swe-agent" / "tools.traj", DATA / "swe-agent" / "text.traj"],
    "mini-swe-agent": [
        DATA / "mini-swe-agent" / "run.traj.json",
        DATA / "mini-swe-agent" / "list.traj.json",
    ],
}
ALL = [pytest.param(name, path, id=path.name) for name in FILES for path in FILES[name]]
DOCUMENTS = [case for case in ALL if not str(case.values[1]).endswith(".jsonl")]
BESIDE = [
    TASK / "task_metadata.json",
    TASK / "ui_messages.json",
]
LISTS = ("messages", "history", "samples")


@pytest.fixture
def store():
    with stator.connect("memory:", project="shop") as opened:
        yield opened


def items(path, name):
    form = load(name)
    return [item for found in conversations_in(path, name) for item in form.read(found, None, None)]


def put(folder, path, data):
    """Write a file with other content, in a folder of the same name, which some formats use."""
    place = folder / path.parent.name / path.name
    place.parent.mkdir(exist_ok=True)
    place.write_bytes(data)
    return place


@pytest.mark.parametrize(("name", "path"), ALL)
def test_a_file_is_recognized_by_its_content(name, path):
    assert detected_format(path) == name


@pytest.mark.parametrize(("name", "path"), ALL)
def test_a_second_import_adds_nothing(store, name, path):
    first = import_file(store, path, name)
    again = import_file(store, path, name)
    assert first.commits > 0
    assert (again.commits, again.sessions) == (0, 0)


@pytest.mark.parametrize(("name", "path"), ALL)
def test_every_provider_receives_each_call_with_its_result(store, name, path):
    import_file(store, path, name)
    for found in conversations_in(path, name):
        said = rendered(store, view(store, found))
        blocks = [block for message in said for block in message["content"]]
        asked = [block["id"] for block in blocks if block["type"] == "tool_use"]
        results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        assert asked == results
        for dialect in ("openai", "openai-chat"):
            assert rendered(store, view(store, found), dialect)


@pytest.mark.parametrize(("name", "path"), ALL)
def test_calls_are_those_requested_in_the_answers(name, path):
    kinds = {type(item).__name__ for item in items(path, name)}
    said = [item for item in items(path, name) if type(item).__name__ == "Answered"]
    asked = [b["id"] for item in said for b in item.reply["content"] if b["type"] == "tool_use"]
    called = [item.id for item in items(path, name) if type(item).__name__ == "Called"]
    assert {"Prompted", "Answered"} <= kinds
    assert asked == called


@pytest.mark.parametrize(("name", "path"), DOCUMENTS)
@pytest.mark.parametrize("keep", [0.5, 0.8, 0.97])
def test_a_cut_file_is_read_to_its_last_complete_record(tmp_path, name, path, keep):
    data = path.read_bytes()
    place = put(tmp_path, path, data[: int(len(data) * keep)])
    if name == "inspect" and keep < 0.9:  # the end of its first sample is missing
        with pytest.raises(InvalidInput, match="cut off before"):
            items(place, name)
        return
    short = items(place, name)
    assert "cut off" in [item.why for item in short if type(item).__name__ == "Skipped"]
    ids = [item.id for item in items(path, name)]
    kept = [item.id for item in short if type(item).__name__ in ("Prompted", "Answered", "Called")]
    if (path.name, keep) != ("tools.traj", 0.5):  # only the actions are left, and they have no ids
        assert set(kept) <= set(ids)


def longer(whole):
    """Yield a document with one more record each time; the records are a list or a field of the
    document."""
    if isinstance(whole, list):
        return [whole[:count] for count in range(1, len(whole) + 1)]
    field = next(field for field in LISTS if field in whole)
    return [{**whole, field: whole[field][:count]} for count in range(1, len(whole[field]) + 1)]


@pytest.mark.parametrize(
    ("name", "path"), [case for case in DOCUMENTS if case.values[0] in ("opencode", "cline")]
)
def test_a_file_that_grows_record_by_record_yields_the_same_session(tmp_path, name, path):
    whole = json.loads(path.read_bytes())
    with stator.connect("memory:", project="shop") as store:
        for part in longer(whole):
            import_file(store, put(tmp_path, path, json.dumps(part).encode()), name)
        grown = [sorted(kinds(view(store, f))) for f in conversations_in(path, name)]
    with stator.connect("memory:", project="shop") as store:
        import_file(store, path, name)
        once = [sorted(kinds(view(store, f))) for f in conversations_in(path, name)]
    # a result that came with the next record
    late = [kind for kind in grown[0] if kind != "settlement"]
    assert late == [kind for kind in once[0] if kind != "settlement"]


@pytest.mark.parametrize(("name", "path"), ALL)
@pytest.mark.parametrize("how", ["bom", "utf-16", "crlf"])
def test_the_encoding_of_a_file_makes_no_difference(tmp_path, name, path, how):
    data = path.read_bytes()
    recoded = {
        "bom": codecs.BOM_UTF8 + data,
        "utf-16": data.decode().encode("utf-16"),
        "crlf": data.replace(b"\n", b"\r\n"),
    }[how]
    place = put(tmp_path, path, recoded)
    assert [item.id for item in items(place, name)] == [item.id for item in items(path, name)]


ODD: tuple[Any, ...] = (
    None,
    True,
    -1,
    2**70,
    1.5,
    "",
    "text",
    "\ud800",
    "\0",
    [],
    [[]],
    {},
    {"type": 7},
    ["a"],
)


def odd(value, chance):
    """A value in which some places hold something else."""
    if chance.random() < 0.04:
        return copy.deepcopy(chance.choice(ODD))
    if isinstance(value, list):
        return [odd(one, chance) for one in value]
    if isinstance(value, dict):
        return {key: odd(one, chance) for key, one in value.items() if chance.random() > 0.02}
    return value


@pytest.mark.parametrize(("name", "path"), ALL)
def test_values_of_wrong_types_do_not_stop_the_import(tmp_path, name, path):
    by_line = path.suffix == ".jsonl"
    texts = path.read_text().splitlines() if by_line else [path.read_text()]
    for seed in range(25):
        chance = random.Random(seed)
        changed = [json.dumps(odd(json.loads(one), chance)) for one in texts]
        place = put(tmp_path, path, "\n".join(changed).encode())
        try:
            told = items(place, name)
        except InvalidInput:
            continue
        assert all(isinstance(item.id, str) for item in told)


@pytest.mark.parametrize(("name", "path"), ALL)
def test_items_of_malformed_files_can_be_recorded(tmp_path, name, path):
    by_line = path.suffix == ".jsonl"
    texts = path.read_text().splitlines() if by_line else [path.read_text()]
    chance = random.Random(7)
    for _ in range(5):
        changed = [json.dumps(odd(json.loads(one), chance)) for one in texts]
        place = put(tmp_path, path, "\n".join(changed).encode())
        with stator.connect("memory:", project="shop") as store, suppress(InvalidInput):
            import_file(store, place, name)


@pytest.mark.parametrize(("name", "path"), DOCUMENTS)
def test_a_file_above_the_limit_is_refused_with_the_reason(monkeypatch, name, path):
    monkeypatch.setattr(json_document, "DOCUMENT_MAX", 100)
    with pytest.raises(InvalidInput, match="read as a whole"):
        conversations_in(path, name)


@pytest.mark.parametrize("name", FILES)
def test_a_pipe_is_refused_without_waiting(tmp_path, name):
    os.mkfifo(tmp_path / "pipe.json")
    with pytest.raises((InvalidInput, OSError)):
        list(conversations_in(tmp_path / "pipe.json", name))


@pytest.mark.parametrize("path", BESIDE, ids=lambda path: path.name)
def test_other_files_of_a_task_are_recognized_and_contain_no_conversation(path):
    assert detected_format(path) == "cline"
    assert conversations_in(path, "cline") == []


@pytest.mark.parametrize(("name", "path"), ALL)
def test_reading_never_changes_a_file(store, tmp_path, name, path):
    place = put(tmp_path, path, path.read_bytes())
    place.chmod(0o400)
    import_file(store, place, name)
    assert place.read_bytes() == path.read_bytes()
    assert os.listdir(place.parent) == [place.name]


# -- independent counts ------------------------------------------------------------------------------

COUNTS = {
    "cline": counts_cline.count,
    "openhands": counts_openhands.count,
    "inspect": counts_inspect.count,
    "swe-agent": counts_swe_agent.count,
    "copilot": counts_copilot.count,
    "mini-swe-agent": counts_mini_swe_agent.count,
}
"""opencode and pi are counted beside their own tests, because their forks share commits."""


def agrees(path, name, folder):
    with stator.connect(folder / "a.db", project="shop") as store:
        report = import_file(store, path, name)
        made = {"sessions": sessions(store), **totals(report)}
    (folder / "a.db").unlink()
    counted = COUNTS[name](path)
    return {field: made[field] for field in counted} == counted


@pytest.mark.parametrize(("name", "path"), [case for case in ALL if case.values[0] in COUNTS])
def test_the_counts_match_an_independent_count(tmp_path, name, path):
    assert agrees(path, name, tmp_path)


@needs_recordings
@pytest.mark.parametrize("name", [name for name in COUNTS if name not in UNVERIFIED])
def test_the_counts_of_real_files_match_an_independent_count(tmp_path, name):
    seen = 0
    for path in sorted(p for p in (RECORDINGS / name).rglob("*") if p.is_file()):
        kind = detected_format(path)
        assert kind in (name, ""), path
        if kind and conversations_in(path, name):
            seen += 1
            assert agrees(path, name, tmp_path), path
    assert seen
