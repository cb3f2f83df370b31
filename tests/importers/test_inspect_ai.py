"""Tests that each sample of each epoch in Inspect's logs becomes a session, from zip and JSON
alike."""

from __future__ import annotations

import json
import os
import zipfile

import pytest

import stator
from importers.import_helpers import (
    DATA,
    conversations_in,
    detected_format,
    import_file,
    prompts_of,
    sessions,
    views,
)
from stator.errors import InvalidInput
from stator.importers.inspect_ai import log_file
from stator.importers.inspect_ai.samples import FORMAT

LOG = DATA / "inspect" / "log.json"


@pytest.fixture
def store():
    with stator.connect("memory:", project="shop") as opened:
        yield opened


def zipped(path, log, **more):
    """A log in Inspect's zip format."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("_journal/start.json", json.dumps({"eval": log["eval"]}))
        for sample in log["samples"]:
            name = f"samples/{sample['id']}_epoch_{sample['epoch']}.json"
            archive.writestr(name, json.dumps(sample))
        header = {key: value for key, value in log.items() if key != "samples"}
        archive.writestr("header.json", json.dumps(header))
        for name, data in more.items():
            archive.writestr(name, data)
    return path


def whole():
    return json.loads(LOG.read_text())


def test_each_epoch_of_a_sample_is_a_session(store):
    import_file(store, LOG, "inspect")
    first, second = views(store, LOG, "inspect")
    assert (first.record.name, second.record.name) == ("shop/tax 1", "shop/tax 1 epoch 2")
    assert first.record.labels == {
        "task": "shop/tax", "model": "fake/one", "epoch": "1", "score match": "C",
    }  # fmt: skip


def test_zip_and_json_logs_yield_the_same_sessions(store, tmp_path):
    path = zipped(tmp_path / "log.eval", whole())
    assert detected_format(path) == "inspect"
    import_file(store, path, "inspect")
    again = import_file(store, LOG, "inspect")
    assert (sessions(store), again.turns, again.calls) == (2, 0, 0)


def test_attachments_are_resolved_without_image_bytes(store):
    import_file(store, LOG, "inspect")
    first, _ = views(store, LOG, "inspect")
    words, image = prompts_of(first)[0].split("\n")
    assert words == "add tax to the cart"
    assert image.startswith("[image/png, 1,200 bytes, sha256 ")


def test_calls_have_the_outcome_in_the_log(store):
    import_file(store, LOG, "inspect")
    first, second = views(store, LOG, "inspect")
    assert [(c.tool, c.status, c.cause) for c in first.log() if c.kind == "outcome"] == [
        ("text_editor", "ok", ""),
        ("bash", "timeout", "Command timed out."),
    ]
    assert [c.status for c in second.log() if c.kind == "outcome"] == []
    assert [c.status for c in second.log() if c.kind == "turn_end"] == ["aborted"]


def test_each_answer_has_its_time_and_cost(store):
    import_file(store, LOG, "inspect")
    first, _ = views(store, LOG, "inspect")
    answers = [c for c in first.log() if c.kind == "entry" and c.actor == "model"]
    assert [answer.value("usage")["tokens"] for answer in answers] == [165, 12]
    assert answers[0].happened == 1_783_259_981_000_000


def test_a_log_without_samples_is_recognized_and_contains_no_conversation(store, tmp_path):
    log = whole()
    del log["samples"]
    path = tmp_path / "log.json"
    path.write_text(json.dumps(log))
    assert detected_format(path) == "inspect"
    assert conversations_in(path, "inspect") == []
    assert conversations_in(zipped(tmp_path / "log.eval", {**log, "samples": []}), "inspect") == []


def test_a_decompression_bomb_is_refused_and_the_rest_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(log_file, "DOCUMENT_MAX", 2**20)
    bomb = '{"id": 1, "messages": "' + "0" * 2**24 + '"}'
    path = zipped(tmp_path / "log.eval", whole(), **{"samples/2_epoch_1.json": bomb})
    *good, bad = conversations_in(path, "inspect")
    assert [len(list(FORMAT.read(found, None, None))) > 0 for found in good] == [True, True]
    with pytest.raises(InvalidInput, match="larger than 1 MB"):
        list(FORMAT.read(bad, None, None))


def test_names_in_a_zip_are_never_used_as_paths(store, tmp_path):
    evil = json.dumps(whole()["samples"][0] | {"uuid": "evil"})
    folder = tmp_path / "logs"
    folder.mkdir()
    names = {"samples/../../../escaped_epoch_1.json": evil, "/etc/x_epoch_1.json": evil}
    import_file(store, zipped(folder / "log.eval", whole(), **names), "inspect")
    assert os.listdir(tmp_path) == ["logs"]
    assert os.listdir(folder) == ["log.eval"]


def test_an_incomplete_zip_is_refused_with_the_reason(tmp_path):
    path = zipped(tmp_path / "log.eval", whole())
    path.write_bytes(path.read_bytes()[:-60])
    with pytest.raises(InvalidInput, match="not a complete zip file"):
        conversations_in(path, "inspect")


def test_a_damaged_sample_is_refused_with_its_name_and_the_rest_is_read(tmp_path):
    path = zipped(tmp_path / "log.eval", whole(), **{"samples/9_epoch_1.json": "no json"})
    *good, bad = conversations_in(path, "inspect")
    assert len(good) == 2
    with pytest.raises(InvalidInput, match=r"samples/9_epoch_1\.json is not JSON"):
        list(FORMAT.read(bad, None, None))
