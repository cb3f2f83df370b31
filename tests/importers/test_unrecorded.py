"""What an agent keeps and the store lacks is said, with the reason and the command that imports it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from itertools import repeat
from pathlib import Path

import pytest
from msgspec.structs import replace

import stator
from importers.hook_lines import HOOK
from stator.connect import connect, spools
from stator.hooks.unrecorded import OFF, UNREPORTED, UNTRUSTED, missing_sessions
from stator.model.exchange.items import Conversation
from stator.model.log.query import SessionQuery
from stator.runtime.base import project_flags
from stator.runtime.facade.store import Store
from stator.surfaces.cli.main import main

ONE = "5e551000-0000-4000-8000-000000000001"
TWO = "5e551000-0000-4000-8000-000000000002"


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A project with a store, and the home folder of a user whose agents worked in it."""
    home = tmp_path / "home"
    home.mkdir()
    for name in ("XDG_DATA_HOME", "STATOR_STORE", "CLAUDE_CONFIG_DIR", "CODEX_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(home))
    folder = tmp_path / "shop"
    folder.mkdir()
    monkeypatch.chdir(folder)
    assert main(["init", "--json"]) == 0
    return folder


def claude_lines(session, cwd, prompt="do it"):
    common = {"sessionId": session, "cwd": str(cwd), "version": "2.1.0", "isSidechain": False}
    return [
        {**common, "type": "user", "uuid": f"u-{session}", "parentUuid": None,
         "timestamp": "2026-11-01T10:00:00Z", "message": {"role": "user", "content": prompt}},
        {**common, "type": "assistant", "uuid": f"a-{session}", "parentUuid": f"u-{session}",
         "timestamp": "2026-11-01T10:00:01Z",
         "message": {"id": f"m-{session}", "role": "assistant", "model": "m",
                     "content": [{"type": "text", "text": "done"}]}},
    ]  # fmt: skip


def claude(cwd, session=ONE, lines=None):
    """Keep a session as Claude Code does."""
    folder = Path(os.environ["HOME"], ".claude", "projects", str(cwd).replace("/", "-"))
    return written(
        folder / f"{session}.jsonl", claude_lines(session, cwd) if lines is None else lines
    )


def codex(cwd, session=ONE):
    """Keep a session as Codex does."""
    folder = Path(os.environ["HOME"], ".codex", "sessions", "2026", "11", "01")
    meta = {"id": session, "cwd": str(cwd), "cli_version": "1", "originator": "codex_cli"}
    asked = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]}
    lines = [
        {"timestamp": "2026-11-01T10:00:00Z", "type": "session_meta", "payload": meta},
        {"timestamp": "2026-11-01T10:00:01Z", "type": "response_item", "payload": asked},
    ]
    return written(folder / f"rollout-2026-11-01T10-00-00-{session}.jsonl", lines)


def written(path, lines):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def missing(**options):
    with connect() as store:
        home = Path(os.environ["HOME"])
        queues = spools(store.port)
        return missing_sessions(
            store.port, store.context, home, os.environ, spools=queues, **options
        )


def ids(**options):
    return [one.id for one in missing(**options).sessions]


def whys():
    return [one.why for one in missing().sessions]


# -- what is missing ------------------------------------------------------------------------------


@pytest.mark.parametrize("keep", [claude, codex])
def test_a_session_that_was_never_imported_is_missing_until_it_is(place, keep):
    keep(place)
    found = missing()
    assert [one.id for one in found.sessions] == [ONE]
    assert main([*found.command().split()[1:], "--json"]) == 0
    assert ids() == []


def test_a_session_of_another_project_is_not_missing(place, tmp_path):
    (tmp_path / "other").mkdir()
    claude(tmp_path / "other")
    assert ids() == []


def test_a_session_in_a_folder_below_the_project_is_the_projects(place):
    (place / "src").mkdir()
    claude(place / "src")
    assert ids() == [ONE]


def test_a_session_of_last_month_is_not_missed(place):
    long_ago = 1_700_000_000
    os.utime(claude(place), (long_ago, long_ago))
    assert ids() == []


def test_a_file_without_a_message_is_no_session(place):
    claude(place, lines=[{"type": "summary", "summary": "x", "cwd": str(place)}])
    assert ids() == []


def test_the_session_that_is_beginning_is_not_missing(place):
    claude(place)
    assert ids(except_id=ONE) == []


def test_a_trashed_session_is_not_missing(place):
    claude(place)
    assert main(["import", "claude-code", "--json"]) == 0
    with connect() as store:
        row = store.port.session(Conversation(source="claude-code", id=ONE).session)
        project_flags.put(store.port, store.context, row, project_flags.TRASH, by="ann", why="old")
    assert ids() == []


def test_a_purged_session_is_not_missing(place):
    claude(place)
    assert main(["import", "claude-code", "--json"]) == 0
    with connect() as store:
        store.retention("trash=30d", "purge=30d")
        for days in (31, 62, 93):
            later = store.context.clock() + days * 86_400_000_000
            then = Store(store.port, replace(store.context, clock=repeat(later).__next__))
            then.collect(then.gc(), yes=True)
        assert not store.port.sessions(SessionQuery(mode="recorded")).rows
    assert ids() == []


def test_a_session_that_was_not_read_to_its_end_is_missing_once_its_file_rests(place):
    path = claude(place)
    assert main(["import", "claude-code", "--json"]) == 0
    with path.open("a") as file:
        file.writelines(json.dumps(line) + "\n" for line in claude_lines(TWO, place))
    assert ids() == []
    an_hour_ago = path.stat().st_mtime - 3600
    os.utime(path, (an_hour_ago, an_hour_ago))
    (one,) = missing().sessions
    assert 0 < one.read < one.size


def test_no_more_time_is_spent_than_is_given(place):
    for number in range(20):
        claude(place, session=f"5e551000-0000-4000-8000-{number:012}")
    assert len(ids()) == 20
    found = missing(seconds=1e-9)
    assert not found.is_all
    assert len(found.sessions) < 20


# -- why ------------------------------------------------------------------------------------------


def test_an_agent_without_hooks_is_no_reason_for_a_warning(place):
    claude(place)
    (one,) = missing().sessions
    assert (one.why, one.is_expected) == (OFF, False)


def test_codex_that_does_not_trust_its_hooks_is_named_as_the_reason(place):
    assert main(["init", "codex", "--yes", "--json"]) == 0
    codex(place)
    (one,) = missing().sessions
    assert (one.why, one.is_expected) == (UNTRUSTED, True)


def hook(place, session, event="UserPromptSubmit"):
    """Run the hook program as Claude Code would."""
    told = {"hook_event_name": event, "session_id": session, "cwd": str(place), "prompt": "hi",
            "prompt_id": "p"}  # fmt: skip
    command = [*HOOK, "claude-code"]
    return subprocess.run(command, input=json.dumps(told).encode(), cwd=place, check=True)


def test_a_session_that_hooks_left_out_is_named_as_such(place):
    hook(place, TWO)
    claude(place)
    assert whys() == [UNREPORTED]


def test_a_hook_that_could_not_write_is_named_as_the_reason(place):
    spool = place / ".stator" / "store.db-spool"
    spool.mkdir(mode=0o700)
    path = claude(place)
    at = path.stat().st_mtime_ns // 1000
    (spool / "note").write_text(f"{at} claude-code: No space left on device\n")
    assert whys() == ["a hook could not write: No space left on device"]


def test_refused_hook_lines_are_named_as_the_reason(place):
    bad = place / ".stator" / "store.db-spool" / "bad"
    bad.mkdir(parents=True, mode=0o700)
    (bad / "current").write_text(f"damaged {ONE} line\n")
    claude(place)
    assert whys() == [f"its hook lines were refused; they are in {bad}"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root can write everywhere")
def test_a_folder_that_cannot_be_written_is_named_as_the_reason(place):
    claude(place)
    (place / ".stator").chmod(0o500)
    assert whys() == [f"{place / '.stator'} cannot be written"]


def test_a_full_disk_leaves_a_session_that_is_missing(place, monkeypatch):
    """The hook's files may not grow, as on a full disk: it exits with 0, and its session is in no log."""
    path = claude(place)
    told = json.dumps({"hook_event_name": "Stop", "session_id": ONE, "cwd": str(place)})
    command = f"ulimit -f 0; exec {HOOK[0]} -m {HOOK[2]} claude-code"
    done = subprocess.run(["sh", "-c", command], input=told.encode(), cwd=place, check=False)
    assert done.returncode in (0, -25)  # the signal for a file that is too large
    assert [one.path for one in missing().sessions] == [str(path)]


# -- who says it ----------------------------------------------------------------------------------


def doctor(capfd):
    code = main(["doctor", "--json"])
    found = json.loads(capfd.readouterr().out.splitlines()[-1])["findings"]
    return code, [one for one in found if one["check"] == "missing"]


def test_doctor_names_what_is_missing_and_the_command(place, capfd):
    assert main(["init", "codex", "--yes", "--json"]) == 0
    codex(place)
    code, (finding,) = doctor(capfd)
    assert code == 1
    assert ONE in finding["what"]
    assert finding["hint"] == "import what is missing: stator import codex"


def test_doctor_says_nothing_once_it_was_imported(place, capfd):
    codex(place)
    assert main(["import", "codex", "--json"]) == 0
    assert doctor(capfd)[1] == []


def test_doctor_does_not_fail_for_agents_that_are_not_recorded(place, capfd):
    claude(place)
    (finding,) = doctor(capfd)[1]
    assert finding["severity"] == "note"


def started(place):
    """What the hook answers to an agent that starts, if it has time enough."""
    program = (
        "from stator.surfaces import hook, hook_answer\n"
        "hook_answer.COMPARING_S = hook_answer.SECONDS = 60.0\n"
        "hook.main()"
    )
    told = {"hook_event_name": "SessionStart", "session_id": TWO, "cwd": str(place),
            "source": "startup"}  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", program, "claude-code"], input=json.dumps(told).encode(),
        cwd=place, capture_output=True, check=True,
    )  # fmt: skip
    return json.loads(done.stdout)


def test_an_agent_that_starts_tells_its_user_what_is_missing(place):
    claude(place)
    said = started(place)["systemMessage"]
    assert "1 session" in said
    assert "stator import claude-code" in said


def test_an_agent_that_starts_says_nothing_if_nothing_is_missing(place):
    claude(place)
    assert main(["import", "claude-code", "--json"]) == 0
    assert "systemMessage" not in started(place)


def test_a_store_that_is_only_read_is_compared_too(place):
    claude(place)
    with stator.connect(place / ".stator" / "store.db", read_only=True) as store:
        home = Path(os.environ["HOME"])
        found = missing_sessions(store.port, store.context, home, os.environ)
    assert [one.id for one in found.sessions] == [ONE]


def test_links_and_pipes_among_the_agents_files_are_left_alone(place, tmp_path):
    path = claude(place)
    shutil.move(path, tmp_path / "elsewhere.jsonl")
    path.symlink_to(tmp_path / "elsewhere.jsonl")
    os.mkfifo(path.with_name(f"{TWO}.jsonl"))
    assert ids() == []
