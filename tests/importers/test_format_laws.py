"""Tests the law of readers on the samples and on recorded files, cut at every message, record or line."""

from __future__ import annotations

import json
import random
from contextlib import closing

import apsw
import pytest

from importers.format_laws import (
    assert_reading_is_lawful,
    by_id,
    documents_of,
    lines_of,
    read,
)
from importers.import_helpers import RECORDINGS, detected_format, needs_recordings
from importers.test_cline import TASK as CLINE
from importers.test_opencode import exported, printed
from importers.test_openhands import TRAJECTORY as OPENHANDS
from importers.test_other_formats import ALL
from importers.test_pi import TREE
from importers.test_swe_agents import MINI
from importers.test_swe_agents import TOOLS as SWE_AGENT
from stator.importers.reading.counted_items import Steps, counted_items
from stator.model.exchange.items import Cursor, Noise, Noted, Prompted

CONTINUED = ("opencode", "pi", "cline", "copilot")
"""Formats whose conversations can be resumed. A run of the others is over when it is at rest."""
CUTS_MAX = 40


def continues(name, path):
    """Whether more may follow after a rest; the output of an opencode run is over then."""
    return name in CONTINUED and not (name == "opencode" and path.suffix == ".jsonl")


def versions_of(name, path):
    """The beginnings of a file as its agent wrote them; a seeded share of many."""
    data = path.read_bytes()
    if path.suffix == ".jsonl":
        found = lines_of(data)
    elif path.suffix == ".eval":
        return [data]
    else:
        found = [json.dumps(one).encode() for one in documents_of(name, json.loads(data))]
    *early, whole = found
    chosen = sorted(random.Random(7).sample(range(len(early)), min(CUTS_MAX, len(early))))
    return [*(early[number] for number in chosen), whole]


def copied(tmp_path, path):
    place = tmp_path / path.parent.name / path.name
    place.parent.mkdir()
    return place


@pytest.mark.parametrize(("name", "path"), ALL)
def test_a_growing_file_gives_the_beginning_of_what_the_whole_gives(tmp_path, name, path):
    place = copied(tmp_path, path)
    assert_reading_is_lawful(name, place, versions_of(name, path), continues=continues(name, path))


RECORDED = [
    path
    for folder in ("opencode", "pi", "cline", "openhands", "inspect", "swe-agent", "mini-swe-agent",
                   "generated/opencode-1.18.33")
    for path in sorted((RECORDINGS / folder).rglob("*"))
    if path.is_file() and path.suffix != ".db"
]  # fmt: skip


@needs_recordings
@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.name[-40:])
def test_a_recorded_file_that_grows_gives_the_beginning_of_the_whole(tmp_path, path):
    name = detected_format(path)
    if not name or not by_id(path, name):
        pytest.skip("it contains no conversation")
    place = copied(tmp_path, path)
    assert_reading_is_lawful(name, place, versions_of(name, path), continues=continues(name, path))


@needs_recordings
def test_a_database_that_grows_row_by_row_gives_the_beginning_of_the_whole(tmp_path):
    (path,) = (RECORDINGS / "generated").glob("opencode-*/opencode.db")
    data = path.read_bytes()
    with closing(
        apsw.Connection(
            f"file:{path}?immutable=1", flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
        )
    ) as db:
        ids = [one for (one,) in db.execute("select id from message order by time_created, id")]
    versions = []
    for count in range(1, len(ids)):
        place = tmp_path / f"{count}.db"
        place.write_bytes(data)
        with closing(apsw.Connection(str(place))) as db:
            db.pragma("journal_mode", "delete")
            for gone in ids[count:]:
                db.execute("delete from part where message_id = ?", (gone,))
                db.execute("delete from message where id = ?", (gone,))
        versions.append(place.read_bytes())
    (tmp_path / "live").mkdir()
    assert_reading_is_lawful("opencode", tmp_path / "live" / "opencode.db", [*versions, data])


@pytest.mark.parametrize("name", ["pi", "opencode"])
def test_a_line_that_is_cut_anywhere_is_read_once_it_is_whole(tmp_path, name):
    place = tmp_path / "a.jsonl"
    printed(place, exported())
    data = place.read_bytes() if name == "opencode" else TREE.read_bytes()
    cuts = sorted(random.Random(3).sample(range(len(data) // 4, len(data)), 20))
    assert_reading_is_lawful(name, place, [*(data[:cut] for cut in cuts), data], continues=False)


def test_the_state_of_a_cursor_does_not_grow_with_the_file(tmp_path):
    lines = [json.dumps({"type": "session", "id": "5e55", "cwd": "/shop"})]
    for number in range(3_000):
        parent = f"e{number - 1}" if number else None
        use = {"type": "toolCall", "id": f"call_{number}", "name": "write",
               "arguments": {"path": f"{number}.py", "content": "x"}}  # fmt: skip
        said = {"role": "assistant", "content": [use], "stopReason": "toolUse"}
        lines.append(
            json.dumps({"type": "message", "id": f"e{number}", "parentId": parent, "message": said})
        )
    path = tmp_path / "a.jsonl"
    path.write_text("\n".join(lines) + "\n")
    (found,) = by_id(path, "pi").values()
    _, cursor = read(found, "pi")
    assert len(json.dumps(cursor.state)) < 20_000


# -- what is counted --------------------------------------------------------------------------------


def document(*names, settled):
    def steps():
        return Steps([iter([Noted(id=name, content=name)]) for name in names], settled)

    return steps


def ids(items):
    return [item.id for item in items if not isinstance(item, Cursor)]


def continued(read_steps, cursor, *, at_rest=False):
    return list(counted_items(read_steps, cursor, at_rest=at_rest))


def test_what_is_not_settled_is_given_only_at_rest():
    early = continued(document("a", "b", settled=1), None)
    assert ids(early) == ["a"]
    assert ids(continued(document("a", "b", settled=1), early[-1], at_rest=True)) == ["b"]


def test_what_was_given_at_rest_is_not_given_again():
    rest = continued(document("a", "b", settled=1), None, at_rest=True)
    assert ids(continued(document("a", "b", settled=1), rest[-1])) == []
    again = continued(document("a", "b", "c", settled=2), rest[-1], at_rest=True)
    assert ids(again) == ["c"]


def test_a_document_that_was_rewritten_is_given_from_its_beginning():
    whole = continued(document("a", "b", "c", settled=3), None)
    assert ids(continued(document("a", "x", "y", "z", settled=4), whole[-1])) == [
        "a",
        "x",
        "y",
        "z",
    ]
    assert ids(continued(document("a", settled=1), whole[-1])) == ["a"]


def test_two_kinds_of_item_with_one_id_are_not_the_same():
    steps = lambda item: lambda: Steps([iter([item])], 1)  # noqa: E731
    (_, cursor) = continued(steps(Prompted(id="a", content="x")), None)
    assert len(continued(steps(Noise(id="a", kind="x")), cursor)) == 2


# -- what closes a message ----------------------------------------------------------------------------


def settled_ids(path, name):
    (found,) = by_id(path, name).values()
    return ids(read(found, name)[0])


def test_a_message_of_cline_is_given_when_another_follows_it(tmp_path):
    path = tmp_path / "api_conversation_history.json"
    told = json.loads(CLINE.read_text())
    path.write_text(json.dumps(told[:1]))
    assert settled_ids(path, "cline") == []
    path.write_text(json.dumps(told[:2]))
    assert len(settled_ids(path, "cline")) == 2


def test_an_answer_of_opencode_is_given_when_it_is_complete_or_another_follows(tmp_path):
    path = tmp_path / "export.json"
    talk = exported()
    talk["messages"] = talk["messages"][:2]
    answer = talk["messages"][1]["info"]
    completed = answer["time"].pop("completed")
    path.write_text(json.dumps(talk))
    assert [one.partition("/")[0] for one in settled_ids(path, "opencode")] == ["prompt"]
    answer["time"]["completed"] = completed
    path.write_text(json.dumps(talk))
    complete = settled_ids(path, "opencode")
    assert "call_no" in complete
    del answer["time"]["completed"]
    talk["messages"].append({"info": {"id": "msg_9", "role": "user", "time": {}}, "parts": []})
    path.write_text(json.dumps(talk))
    assert len(settled_ids(path, "opencode")) == 1
    talk["messages"].append(
        {"info": {"id": "msg_99", "role": "assistant", "time": {}}, "parts": []}
    )
    path.write_text(json.dumps(talk))
    assert settled_ids(path, "opencode")[: len(complete)] == complete


@pytest.mark.parametrize("name", ["swe-agent", "mini-swe-agent"])
def test_the_last_message_of_a_run_is_given_when_the_run_has_its_exit_status(tmp_path, name):
    source = {"swe-agent": SWE_AGENT, "mini-swe-agent": MINI}[name]
    whole = json.loads(source.read_text())
    path = tmp_path / source.name
    path.write_text(json.dumps(whole))
    finished = settled_ids(path, name)
    del whole["info"]["exit_status"]
    path.write_text(json.dumps(whole))
    running = settled_ids(path, name)
    assert running == finished[: len(running)]
    assert len(running) < len(finished)


def test_a_record_of_openhands_is_given_when_another_follows_it(tmp_path):
    path = tmp_path / "trajectory.json"
    history = json.loads(OPENHANDS.read_text())
    path.write_text(json.dumps(history[:1]))
    assert settled_ids(path, "openhands") == []
    path.write_text(json.dumps(history))
    (found,) = by_id(path, "openhands").values()
    assert len(settled_ids(path, "openhands")) < len(read(found, "openhands", at_rest=True)[0])
