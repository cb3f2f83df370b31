"""Tests that opencode's database, export and run output become one session."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import closing

import apsw
import pytest

import stator
from importers.counts_opencode import count
from importers.import_helpers import (
    DATA,
    RECORDINGS,
    conversations_in,
    detected_format,
    import_file,
    kinds,
    needs_recordings,
    plan,
    prompts_of,
    rendered,
    sessions,
    totals,
    view,
    views,
)
from stator.errors import InvalidInput
from stator.importers.opencode.session import FORMAT
from stator.model.exchange.items import Noted, Prompted

EXPORT = DATA / "opencode" / "export.json"
SCHEMA = """
create table session (id text primary key, parent_id text, title text, directory text, version text,
  time_created integer, time_updated integer);
create table message (id text primary key, session_id text, time_created integer, data text);
create table part (id text primary key, message_id text, session_id text, data text);
"""


@pytest.fixture
def store():
    with stator.connect("memory:", project="shop") as opened:
        yield opened


def put(db, info, messages):
    """Store a conversation in opencode's database."""
    times = info["time"]
    db.execute(
        "insert into session values (?, ?, ?, ?, ?, ?, ?)",
        (info["id"], info.get("parentID"), info["title"], info["directory"], info["version"],
         times["created"], times["updated"]),
    )  # fmt: skip
    for message in messages:
        said = {key: value for key, value in message["info"].items() if key != "id"}
        made = said["time"]["created"]
        row = (message["info"]["id"], info["id"], made, json.dumps(said))
        db.execute("insert or replace into message values (?, ?, ?, ?)", row)
        for part in message["parts"]:
            kept = {key: value for key, value in part.items() if key != "id"}
            row = (part["id"], message["info"]["id"], info["id"], json.dumps(kept))
            db.execute("insert or replace into part values (?, ?, ?, ?)", row)


def exported():
    return json.loads(EXPORT.read_text())


def database(path, *talks, wal=False):
    with closing(apsw.Connection(str(path))) as db:
        if wal:
            db.pragma("journal_mode", "wal")
        db.execute(SCHEMA)
        for talk in talks:
            put(db, talk["info"], talk["messages"])
    return path


def written(path, talk):
    path.write_text(json.dumps(talk))
    return path


def printed(path, talk):
    """Write the output of `opencode run --format json` for a conversation."""
    names = {"tool": "tool_use", "step-start": "step_start", "step-finish": "step_finish"}
    with path.open("w") as file:
        for message in talk["messages"]:
            if message["info"]["role"] == "user" or message["info"].get("summary"):
                continue
            for part in message["parts"]:
                kind = names.get(part["type"], part["type"])
                if kind in (*names.values(), "text"):
                    said = {**part, "messageID": message["info"]["id"]}
                    told = {"type": kind, "timestamp": 1, "sessionID": talk["info"]["id"]}
                    file.write(json.dumps({**told, "part": said}) + "\n")
    return path


def test_an_export_becomes_turns_answers_calls_and_files(store):
    report = import_file(store, EXPORT, "opencode")
    (shown,) = views(store, EXPORT, "opencode")
    assert totals(report) == {"turns": 2, "calls": 5}
    assert prompts_of(shown) == ["add tax to the cart", "fix the test"]
    assert (shown.record.name, shown.record.mode) == ("Tax in the cart", "recorded")
    assert {(change.path, change.op) for change in shown.files()} >= {("tax.py", "created")}


def test_each_call_has_its_outcome(store):
    import_file(store, EXPORT, "opencode")
    (shown,) = views(store, EXPORT, "opencode")
    outcomes = {c.tool: (c.status, c.cause) for c in shown.log() if c.kind == "outcome"}
    assert outcomes["write"] == ("ok", "")
    assert outcomes["edit"][0] == "denied"
    assert [c.status for c in shown.log() if c.kind == "outcome" and c.tool == "bash"] == [
        "error",
    ]


def test_todo_write_sets_the_plan(store):
    import_file(store, EXPORT, "opencode")
    (shown,) = views(store, EXPORT, "opencode")
    assert plan(shown) == [
        ("write tax.py", "in_progress"),
        ("old idea", "dropped"),
    ]


def test_usage_is_counted_once(store):
    import_file(store, EXPORT, "opencode")
    (shown,) = views(store, EXPORT, "opencode")
    usages = [c.value("usage") for c in shown.log() if c.kind == "entry" and c.has("usage")]
    assert usages[0] == {
        "tokens": 165, "tokens:in": 100, "tokens:out": 25, "tokens:cache_read": 40,
        "money:usd": 250_000,
    }  # fmt: skip


def test_a_compaction_has_a_summary_and_names_the_first_kept_item(store):
    import_file(store, EXPORT, "opencode")
    (shown,) = views(store, EXPORT, "opencode")
    said = str(rendered(store, shown))
    assert "Tax rate is in tax.py." in said
    assert "one test fails" in said
    assert "'I begin.'" not in said


def test_unknown_parts_are_stored_and_counted(store):
    report = import_file(store, EXPORT, "opencode")
    (shown,) = views(store, EXPORT, "opencode")
    assert report.unknown == 1
    assert [c.value("input")["beam"] for c in shown.log() if c.kind == "raw"] == [7]


def test_calls_are_rendered_for_every_provider(store):
    import_file(store, EXPORT, "opencode")
    (shown,) = views(store, EXPORT, "opencode")
    for dialect in ("anthropic", "openai", "openai-chat"):
        assert "rm -r build" in str(rendered(store, shown, dialect))


@pytest.mark.parametrize("order", ["dbx", "xdb", "bxd"])
def test_database_export_and_run_are_one_session(store, tmp_path, order):
    talk = exported()
    talk["messages"] = talk["messages"][:3]
    files = {
        "d": database(tmp_path / "opencode.db", talk),
        "b": written(tmp_path / "export.json", talk),
        "x": printed(tmp_path / "out.jsonl", talk),
    }
    for letter in order:
        import_file(store, files[letter], "opencode")
    (shown,) = views(store, files["d"], "opencode")
    assert sessions(store) == 1
    assert sorted(kinds(shown)) == sorted(
        "open turn entry entry call call call call outcome outcome outcome outcome plan file file raw"
        " turn_end".split()
    )


def test_a_second_import_adds_nothing(store, tmp_path):
    path = database(tmp_path / "opencode.db", exported())
    import_file(store, path, "opencode")
    again = import_file(store, path, "opencode")
    assert (again.commits, again.unchanged) == (0, 1)


def test_a_conversation_that_grew_adds_only_what_is_new(store, tmp_path):
    talk = exported()
    short = {**talk, "messages": talk["messages"][:3]}
    import_file(store, database(tmp_path / "opencode.db", short), "opencode")
    (tmp_path / "opencode.db").unlink()
    report = import_file(store, database(tmp_path / "opencode.db", talk), "opencode")
    assert totals(report) == {"turns": 1, "calls": 1}


def test_a_running_call_gets_its_outcome_when_its_result_arrives(store, tmp_path):
    talk = exported()
    import_file(store, written(tmp_path / "a.json", talk), "opencode")
    last = talk["messages"][-1]
    last["info"] |= {
        "finish": "stop",
        "time": {"created": 1794725183000, "completed": 1794725184000},
    }
    last["parts"][1]["state"] |= {"status": "completed", "output": "", "metadata": {"exit": 0}}
    import_file(store, written(tmp_path / "a.json", talk), "opencode")
    (shown,) = views(store, tmp_path / "a.json", "opencode")
    (settled,) = [
        c for c in shown.log() if c.origin == ("opencode", "call_rm") and c.kind != "call"
    ]
    assert (settled.kind, settled.status) == ("outcome", "ok")


def test_a_sub_agent_is_a_session_below_the_call_that_started_it(store, tmp_path):
    talk = exported()
    talk["messages"] = talk["messages"][:2]
    state = {
        "status": "completed", "input": {"description": "look", "prompt": "look around"},
        "output": "seen", "title": "look", "metadata": {"sessionId": "ses_b2"}, "time": {},
    }  # fmt: skip
    task = {"id": "prt_08a", "type": "tool", "tool": "task", "callID": "call_task", "state": state}
    talk["messages"][1]["parts"].insert(8, task)
    child = {
        "info": {**talk["info"], "id": "ses_b2", "parentID": "ses_a1", "title": "look (@explore)"},
        "messages": [
            {
                "info": {"id": "msg_b1", "role": "user", "time": {"created": 1794725173000}},
                "parts": [{"id": "prt_b1", "type": "text", "text": "look around"}],
            }
        ],
    }
    path = database(tmp_path / "opencode.db", child, talk)
    import_file(store, path, "opencode")
    above, below = views(store, path, "opencode")
    (parent,) = [c for c in above.log() if c.kind == "call" and c.tool == "task"]
    assert (below.record.parent.session, below.record.parent.seq) == (above.id, parent.seq)
    assert [entry.record.session for entry in above.entries("children")] == [below.id]


def authors(path):
    (found,) = conversations_in(path, "opencode")
    return [(type(item).__name__, item.by) for item in FORMAT.read(found, None, None)
            if isinstance(item, (Prompted, Noted))]  # fmt: skip


def user_message(*parts):
    info = {"id": "msg_u", "role": "user", "time": {"created": 1794725173000}}
    return {
        "info": info,
        "parts": [{"id": f"prt_{n}", "type": "text", **p} for n, p in enumerate(parts)],
    }


def test_a_prompt_of_a_sub_agent_is_the_agents(tmp_path):
    talk = {
        "info": {**exported()["info"], "parentID": "ses_up"},
        "messages": [user_message({"text": "look"})],
    }
    assert authors(written(tmp_path / "a.json", talk)) == [("Prompted", "agent")]


def test_text_that_opencode_adds_is_the_systems_and_begins_no_turn(tmp_path):
    added = {"text": "Continue if you have next steps", "synthetic": True}
    talk = {"info": exported()["info"], "messages": [user_message(added)]}
    assert authors(written(tmp_path / "a.json", talk)) == [("Noted", "system")]
    talk["messages"] = [user_message({"text": "go"}, added)]
    assert authors(written(tmp_path / "a.json", talk)) == [
        ("Prompted", "user"),
        ("Noted", "system"),
    ]


def test_a_summary_that_was_aborted_compacts_nothing(store, tmp_path):
    talk = exported()
    (summary,) = [m for m in talk["messages"] if m["info"].get("summary")]
    summary["info"]["error"] = {"name": "MessageAbortedError"}
    path = written(tmp_path / "a.json", talk)
    import_file(store, path, "opencode")
    (shown,) = views(store, path, "opencode")
    assert "compaction" not in kinds(shown)


def test_a_failed_todo_tool_changes_no_plan(store, tmp_path):
    talk = exported()
    for message in talk["messages"]:
        for part in message["parts"]:
            if part.get("tool") == "todowrite":
                part["state"] |= {"status": "error", "error": "Invalid todos"}
    path = written(tmp_path / "a.json", talk)
    import_file(store, path, "opencode")
    (shown,) = views(store, path, "opencode")
    assert plan(shown) == []


@pytest.mark.parametrize(
    ("error", "status"),
    [("Tool execution aborted", "in doubt"), ("The user rejected permission", "denied"),
     ("test_cancel failed: 1 != 2", "error")],
)  # fmt: skip
def test_only_a_call_that_was_stopped_is_in_doubt(store, tmp_path, error, status):
    talk = exported()
    (call,) = [p for m in talk["messages"] for p in m["parts"] if p.get("callID") == "call_no"]
    call["state"] |= {"status": "error", "error": error}
    path = written(tmp_path / "a.json", talk)
    import_file(store, path, "opencode")
    (shown,) = views(store, path, "opencode")
    assert status in [c.status for c in shown.log() if c.origin == ("opencode", "call_no")]


def test_a_fork_shares_the_copied_messages(store, tmp_path):
    talk = exported()
    talk["messages"] = talk["messages"][:3]
    copy = json.loads(json.dumps(talk).replace('"msg_', '"msg_f').replace('"prt_', '"prt_f'))
    created = talk["info"]["time"]["updated"]
    copy["info"] |= {"id": "ses_f", "title": "Tax in the cart (fork #1)"}
    copy["info"]["time"] = {"created": created, "updated": created + 10}
    more = {"id": "msg_f9", "role": "user", "time": {"created": created + 5}}
    copy["messages"].append(
        {"info": more, "parts": [{"id": "prt_f9", "type": "text", "text": "another way"}]}
    )
    path = database(tmp_path / "opencode.db", talk, copy)
    report = import_file(store, path, "opencode")
    origin, fork = views(store, path, "opencode")
    assert (fork.record.parent.session, fork.record.parent.kind) == (origin.id, "fork")
    assert prompts_of(fork) == ["add tax to the cart", "another way"]
    assert totals(report) == {"turns": 2, "calls": 4}


def test_repeated_provider_ids_are_made_unique(store, tmp_path):
    talk = exported()
    for message in talk["messages"]:
        for part in message["parts"]:
            if part["type"] == "tool":
                part["callID"] = "call_0"
    report = import_file(store, written(tmp_path / "a.json", talk), "opencode")
    assert report.calls == 5


@pytest.mark.parametrize("keep", [0.3, 0.6, 0.9])
def test_a_cut_export_is_read_to_its_last_complete_message(store, tmp_path, keep):
    text = EXPORT.read_text()
    path = tmp_path / "cut.json"
    path.write_text(text[: int(len(text) * keep)])
    report = import_file(store, path, "opencode")
    assert [(skip.why) for skip in report.skips] == ["cut off"]
    assert report.turns >= 1
    assert len(import_file(store, EXPORT, "opencode").refused) == 0


def test_malformed_messages_are_stored_and_the_rest_is_read(store, tmp_path):
    talk = exported()
    talk["messages"][1:1] = ["words", 7, {"info": None}, {"info": {"role": "ghost"}, "parts": []}]
    report = import_file(store, written(tmp_path / "a.json", talk), "opencode")
    assert totals(report) == {"turns": 2, "calls": 5}


def test_rows_that_are_not_json_are_counted_and_the_rest_is_read(store, tmp_path):
    path = database(tmp_path / "opencode.db", exported())
    with closing(apsw.Connection(str(path))) as db:
        db.execute("update message set data = '{' where id = 'msg_01'")
        db.execute("update part set data = x'00ff' where id = 'prt_06'")
    report = import_file(store, path, "opencode")
    assert (report.skipped, report.turns, report.calls) == (2, 1, 4)


def test_another_programs_database_is_not_recognized(tmp_path):
    with closing(apsw.Connection(str(tmp_path / "other.db"))) as db:
        db.execute("create table session (id)")
    assert detected_format(tmp_path / "other.db", ["opencode"]) == ""


def test_a_damaged_database_is_refused_with_a_reason(tmp_path):
    path = database(tmp_path / "opencode.db", exported())
    data = bytearray(path.read_bytes())
    data[4096:8192] = b"\xff" * 4096
    path.write_bytes(data)
    with pytest.raises(InvalidInput, match="cannot read the database"):
        conversations_in(path, "opencode")


@pytest.mark.parametrize("wal", [False, True])
def test_reading_an_idle_database_leaves_no_side_files(store, tmp_path, wal):
    path = database(tmp_path / "opencode.db", exported(), wal=wal)
    before = path.read_bytes(), os.listdir(tmp_path)
    import_file(store, path, "opencode")
    assert (path.read_bytes(), os.listdir(tmp_path)) == before


WRITER = """
import apsw, sys
db = apsw.Connection(sys.argv[1])
db.execute("update session set title = 'not in the file yet'")
print("written", flush=True)
sys.stdin.read()
"""


def test_uncheckpointed_writes_of_a_running_opencode_are_read(store, tmp_path):
    path = database(tmp_path / "opencode.db", exported(), wal=True)
    command = [sys.executable, "-c", WRITER, str(path)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as writer:
        assert writer.stdout is not None
        assert writer.stdin is not None
        assert writer.stdout.readline() == "written\n"
        before = sorted(os.listdir(tmp_path))
        (found,) = conversations_in(path, "opencode")
        import_file(store, path, "opencode")
        assert sorted(os.listdir(tmp_path)) == before
        writer.stdin.close()
    assert view(store, found).record.name == "not in the file yet"


def test_default_paths_are_opencodes_database(tmp_path):
    (place,) = FORMAT.default_paths(tmp_path, {})
    assert place == tmp_path / ".local/share/opencode/opencode.db"
    (place,) = FORMAT.default_paths(tmp_path, {"XDG_DATA_HOME": "/data"})
    assert str(place) == "/data/opencode/opencode.db"


def test_the_counts_match_an_independent_count(store):
    report = import_file(store, EXPORT, "opencode")
    counted = count(EXPORT)
    # one of the user's messages only marks a compaction
    assert {"sessions": 1, "turns": report.turns + 1, "calls": report.calls} == counted


@needs_recordings
def test_the_counts_of_real_conversations_match_an_independent_count():
    files = [
        *RECORDINGS.glob("opencode/**/*.json"),
        *(RECORDINGS / "generated").glob("opencode-*/*"),
    ]
    for path in files:
        if path.name == "hooks.stdin.jsonl":
            continue
        with stator.connect("memory:", project="shop") as store:
            assert detected_format(path) == "opencode", path
            report = import_file(store, path, "opencode")
            made = sessions(store)
        assert {"sessions": made, **totals(report)} == count(path), path
