"""Hooks and detached runs of a project whose store is on a server: what they report arrives there, or waits here."""

from __future__ import annotations

import json
import os
import select
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import stator
from importers.hook_lines import (
    DEAD,
    HookedStore,
    before_tool,
    conversation_lines,
    hook_input,
    prompt,
    session,
)
from importers.hook_lines import kinds as kinds_in
from postgres_server import new_tenant, shared_database
from stator.connect import advance, locate, spools, take_spools, worlds
from stator.errors import NotAStore
from stator.hooks.hook_note import hook_note
from stator.hooks.ingest import end_dead_conversations
from stator.locations import server_spool_of
from stator.owner.server_file import name_server
from stator.surfaces.cli.main import main

START = {"hook_event_name": "SessionStart", "session_id": "c1", "source": "startup"}


@pytest.fixture
def url() -> str:
    return f"{shared_database()}&tenant={new_tenant()}"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project's folder, and a home of its own."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("STATOR_STORE", raising=False)
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def hook(told: dict[str, Any], cwd: Path, agent: str = "cursor") -> bytes:
    """Run the hook program as an agent would; what it answers."""
    done = subprocess.run(
        [sys.executable, "-m", "stator.surfaces.hook", agent],
        input=json.dumps({"cwd": str(cwd), **told}).encode(),
        capture_output=True,
        cwd=cwd,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout


def spool_of(url: str) -> Path:
    return Path(server_spool_of(url, os.environ) or "")


def waiting(url: str) -> int:
    """How many lines wait for the store of a URL."""
    files = [file for file in spool_of(url).glob("*") if file.name.startswith(("current", "own-"))]
    return sum(len(file.read_bytes().splitlines()) for file in files)


def kinds(url: str, conversation: str = "c1") -> list[str]:
    with stator.connect(url) as store:
        return kinds_in(store, conversation)


def ingester(url: str, cwd: Path) -> None:
    """The program that hooks start, run to its end."""
    subprocess.run(
        [sys.executable, "-m", "stator.surfaces.ingester", "", str(cwd), "named"],
        check=True,
        env={**os.environ, "STATOR_STORE": url},
        timeout=60,
    )


def test_a_project_with_a_store_on_a_server_is_recorded_there(project, url, capsys):
    assert main(["init", ".", "--store", url]) == 0
    assert "created " in capsys.readouterr().out
    assert (project / ".stator" / "server").read_text() == f"{url}\n"
    assert locate().url == url
    for line in (prompt(), before_tool("t1", command="ls")):
        assert hook(line, project) == b""
    assert waiting(url) == 2
    ingester(url, project)
    assert waiting(url) == 0
    assert kinds(url) == ["open", "turn", "call"]
    assert not (project / ".stator" / "store.db").exists()


def test_init_of_such_a_project_again_changes_nothing(project, url, capsys):
    main(["init", ".", "--store", url])
    capsys.readouterr()
    assert main(["init"]) == 0
    assert "nothing to do" in capsys.readouterr().out
    assert locate().url == url


def test_what_the_environment_names_is_recorded_on_its_server(project, url, monkeypatch):
    monkeypatch.setenv("STATOR_STORE", url)
    for line in conversation_lines():
        hook(line, project)
    assert kinds(url) == ["open", "run", "turn", "call", "outcome", "turn_end", "pause"]


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ("postgresql://app:secret@db/agents?tenant=a", "password"),
        ("postgresql://app@db/agents", "tenant"),
    ],
)
def test_a_url_that_cannot_be_written_down_is_refused(project, capsys, wrong, why):
    assert main(["init", ".", "--store", wrong]) == 2
    said = capsys.readouterr().err
    assert why in said
    assert "secret" not in said
    assert not (project / ".stator" / "server").exists()


def test_a_file_that_came_with_a_copy_sends_nothing_to_its_server(project, url, tmp_path):
    main(["init", ".", "--store", url])
    copy = tmp_path / "copy"
    shutil.copytree(project, copy)
    os.chdir(copy)
    with pytest.raises(NotAStore, match="you did not write it"):
        locate()
    for line in conversation_lines():
        hook(line, copy)
    assert waiting(url) == 0
    assert sessions_at_home(tmp_path) == 1


# -- files of strangers ---------------------------------------------------------------------------


@pytest.fixture
def stranger() -> Iterator[Stranger]:
    """A server of somebody else, and whether anybody called."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        yield Stranger(listening)


class Stranger:
    def __init__(self, listening: socket.socket) -> None:
        self._listening = listening
        port = listening.getsockname()[1]
        self.url = f"postgresql://app@127.0.0.1:{port}/agents?tenant=a"

    def was_called(self) -> bool:
        return bool(select.select([self._listening], [], [], 0)[0])


def git(folder: Path, *words: str) -> None:
    who = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    subprocess.run(["git", *who, *words], cwd=folder, check=True, capture_output=True)


def commit_server_file(repository: Path, url: str) -> None:
    """Put a file that names a server under git, as who wants it to count for others would."""
    (repository / ".stator").mkdir(exist_ok=True)
    (repository / ".stator" / "server").write_text(f"{url}\n")
    git(repository, "add", "--force", ".stator/server")
    git(repository, "commit", "-m", "a server")


def sessions_at_home(tmp_path: Path) -> int:
    """How many sessions the user's own store has."""
    with stator.connect(tmp_path / "home" / "stator" / "store.db") as own:
        return len(own.sessions().rows)


def test_a_cloned_repository_with_a_server_file_sends_nothing_there(project, tmp_path, stranger):
    git(project, "init")
    commit_server_file(project, stranger.url)
    clone = tmp_path / "clone"
    git(tmp_path, "clone", str(project), str(clone))
    for line in (START, *conversation_lines()):
        hook(line, clone, agent="claude-code" if line is START else "cursor")
    assert (waiting(stranger.url), stranger.was_called()) == (0, False)
    assert sessions_at_home(tmp_path) >= 1


def test_a_branch_that_replaces_ones_own_server_file_sends_nothing_there(
    project, url, tmp_path, stranger
):
    """Git replaces what it ignores, and the new file often gets the inode of the old one."""
    git(project, "init")
    git(project, "commit", "--allow-empty", "-m", "empty")
    git(project, "checkout", "-b", "theirs")
    commit_server_file(project, stranger.url)
    git(project, "checkout", "-")
    main(["init", ".", "--store", url])
    git(project, "checkout", "theirs")
    assert (project / ".stator" / "server").read_text() == f"{stranger.url}\n"
    for line in conversation_lines():
        hook(line, project)
    assert (waiting(stranger.url), stranger.was_called()) == (0, False)
    assert sessions_at_home(tmp_path) == 1


def test_a_server_file_that_was_written_over_in_place_does_not_count(project, url, stranger):
    main(["init", ".", "--store", url])
    (project / ".stator" / "server").write_text(f"{stranger.url}\n")
    with pytest.raises(NotAStore, match="you did not write it"):
        locate()
    hook(prompt(), project)
    assert (waiting(stranger.url), stranger.was_called()) == (0, False)


def test_a_folder_that_links_to_another_projects_has_not_its_server(project, url, tmp_path):
    main(["init", ".", "--store", url])
    other = tmp_path / "other"
    other.mkdir()
    (other / ".stator").symlink_to(project / ".stator")
    hook(prompt(), other)
    assert waiting(url) == 0


def test_a_server_of_before_does_not_come_back_with_its_file(project, url, stranger):
    """Only what the user named last counts."""
    folder = project / ".stator"
    folder.mkdir()
    name_server(os.environ, str(folder), stranger.url)
    name_server(os.environ, str(folder), url)
    (folder / "server").write_text(f"{stranger.url}\n")
    with pytest.raises(NotAStore):
        locate()


def test_init_where_a_stranger_named_a_server_makes_no_store_beside_it(project, stranger, capsys):
    git(project, "init")
    commit_server_file(project, stranger.url)
    assert main(["init"]) == 5
    assert "you did not write it" in capsys.readouterr().err
    assert not (project / ".stator" / "store.db").exists()


# -- a server that is away ------------------------------------------------------------------------


@pytest.fixture(params=["refused", "silent"])
def away(request) -> Any:
    """A URL where nothing answers: nobody listens, or somebody does and says nothing."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        if request.param == "silent":
            listening.listen()
        yield f"postgresql://app@127.0.0.1:{listening.getsockname()[1]}/agents?tenant=a"


def test_a_session_starts_without_its_server_and_the_user_is_told(project, away):
    (project / ".stator").mkdir()
    name_server(os.environ, str(project / ".stator"), away)
    told = json.loads(hook(START, project, agent="claude-code"))
    assert "does not answer" in told["systemMessage"]
    assert (
        hook(
            {"hook_event_name": "UserPromptSubmit", "session_id": "c1", "prompt": "continue"},
            project,
            agent="claude-code",
        )
        == b""
    )
    assert waiting(away) == 2


def test_what_waited_for_a_server_arrives_when_it_is_back(project, away, url):
    """The same lines, under the name of a server that answers."""
    away += "&connect_timeout=2"
    (project / ".stator").mkdir()
    name_server(os.environ, str(project / ".stator"), away)
    for line in conversation_lines():
        hook(line, project)
    ingester(away, project)
    assert waiting(away) == len(conversation_lines())
    os.rename(spool_of(away), spool_of(url))
    assert kinds(url) == ["open", "run", "turn", "call", "outcome", "turn_end", "pause"]


# -- two machines ---------------------------------------------------------------------------------


def test_another_machine_neither_ends_an_agent_nor_reads_its_files(
    project, url, tmp_path, monkeypatch
):
    transcript = tmp_path / "talk.jsonl"
    transcript.write_text("{}\n")
    hooked = HookedStore(project, url)
    hooked.write(
        hook_input("sessionStart", transcript_path=str(transcript)), prompt(), process=DEAD
    )
    with stator.connect(url) as store:
        name = session(store).id
        assert hook_note(store.port, name).process == DEAD
        assert hook_note(store.port, name).transcript == str(transcript)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "another home"))
    with stator.connect(url) as store:
        note = hook_note(store.port, name)
        assert (note.process, note.transcript) == ((0, 0, 0), "")
        assert (
            end_dead_conversations(store.port, worlds(store.port), folders=spools(store.port)) == []
        )
        assert advance(store.port, name) is False
        assert store.read(name).row.record.status == "active"
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))
    with stator.connect(url) as store:
        folders = spools(store.port)
        assert end_dead_conversations(store.port, worlds(store.port), folders=folders) == [name]


def test_a_note_with_a_mark_of_its_own_making_is_not_believed(project, url):
    hooked = HookedStore(project, url)
    hooked.write(hook_input("sessionStart"), prompt(), process=DEAD)
    with stator.connect(url) as store:
        take_spools(store.port)
        name = session(store).id
        kept = hook_note(store.port, name)
        kept.transcript = "/etc/passwd"
        store.port.append(name, [], bookmark=kept.bookmark(name, b"another key"))
        assert hook_note(store.port, name).transcript == ""


# -- runs -----------------------------------------------------------------------------------------

PROGRAM = """
import stator
with stator.open() as s, s.turn("work") as t:
    t.fact("done", True)
print("it ran")
"""


@pytest.mark.parametrize("how", [[], ["--detach"]])
def test_a_run_drives_a_session_on_a_server(project, url, monkeypatch, capfd, how):
    monkeypatch.setenv("STATOR_STORE", url)
    (project / "agent.py").write_text(PROGRAM)
    assert main(["run", *how, "--session", "job", "--", sys.executable, "agent.py"]) == 0
    with stator.connect(url) as store:
        (run,) = store.runs()
        run.wait()
        assert run.standing().status == "done"
        assert run.output().text == "it ran\n"
        assert [turn.status for turn in store.read("job").turns()] == ["ok"]
    assert main(["ps", "--all"]) == 0
    assert "job" in capfd.readouterr().out


def test_a_password_is_not_written_down_for_a_run(project, url, monkeypatch, capsys):
    monkeypatch.setenv("STATOR_STORE", url.replace("postgres@", "postgres:secret@"))
    assert main(["run", "--", "true"]) == 2
    said = capsys.readouterr().err
    assert "password" in said
    assert "secret" not in said
