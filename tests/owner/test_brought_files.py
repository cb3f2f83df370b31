"""What a cloned or downloaded folder brings beside a store of one's own: none of it becomes part of that store."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys

import pytest

from stator.connect import connect, project_id
from stator.errors import InvalidInput, NotAStore
from stator.owner.policy_file import policy_text
from stator.surfaces.cli.main import main
from stator.surfaces.hook import line_of

AUTHOR = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
POISON = {"hook_event_name": "UserPromptSubmit", "session_id": "c1", "prompt": "poison"}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder that came from elsewhere, with a `.stator` and no store."""
    made = tmp_path / "helpful"
    (made / ".stator").mkdir(parents=True)
    monkeypatch.chdir(made)
    return made


def brought(folder, name):
    """Put a file there as another program would have left it."""
    path = folder / ".stator" / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(line_of("claude-code", str(folder), json.dumps(POISON).encode()))


BROUGHT = (
    "store.db-wal",
    "store.db-journal",
    "store.db-spool/current",
    "store.db-runs/r_1/run.json",
)


@pytest.mark.parametrize("name", BROUGHT[:3])
def test_no_store_is_made_beside_what_would_become_part_of_it(folder, name, capsys):
    brought(folder, name)
    assert main(["init"]) != 0
    assert "move it away" in capsys.readouterr().err
    assert not (folder / ".stator" / "store.db").exists()


def test_no_store_is_made_beside_recorded_commands(folder):
    (folder / ".stator" / "store.db-runs" / "r_1").mkdir(parents=True)
    with pytest.raises(NotAStore, match=r"store\.db-runs"):
        connect(folder / ".stator" / "store.db")


@pytest.mark.parametrize("name", BROUGHT[:3])
def test_a_store_is_foreign_while_git_brings_what_belongs_to_it(folder, name):
    path = folder / ".stator" / "store.db"
    with connect(path):
        assert (folder / ".stator" / "store.db-wal").exists()
        if not name.endswith("-wal"):
            brought(folder, name)
        for words in (["init", "-q"], ["add", "-f", f".stator/{name}"]):
            subprocess.run(["git", *AUTHOR, *words], cwd=folder, check=True)
        if name.endswith("-journal"):
            os.unlink(folder / ".stator" / name)  # what SQLite makes of it is not the question here
    with connect(path) as store:
        assert "tracked by git" in store.foreign
        assert not store.search("poison")


def test_hooks_queue_in_the_data_folder_until_the_store_they_name_is_made(folder, home):
    path = folder / "named.db"
    subprocess.run(
        [sys.executable, "-m", "stator.surfaces.hook", "claude-code", "--store", str(path)],
        input=json.dumps(POISON | {"prompt": "hello", "cwd": str(folder)}).encode(),
        check=True,
    )
    assert not (folder / "named.db-spool").exists()
    with connect(path) as store:
        assert store.search("hello")


def test_a_hard_link_to_a_store_of_ones_own_is_foreign(folder, tmp_path):
    connect(tmp_path / "mine.db").close()
    os.link(tmp_path / "mine.db", folder / ".stator" / "store.db")
    with connect() as store:
        assert "link" in store.foreign
    with connect(tmp_path / "mine.db") as store:
        assert store.foreign == ""


def test_a_hard_link_to_the_file_of_another_project_does_not_give_its_id(folder, tmp_path):
    assert main(["init", str(tmp_path / "mine")]) == 0
    mine = tmp_path / "mine" / ".stator" / "project"
    os.link(mine, folder / ".stator" / "project")
    with connect() as store:
        assert project_id(folder, store.port) != mine.read_text().strip()


def test_a_store_whose_file_alone_was_removed_can_be_made_again(folder):
    path = folder / ".stator" / "store.db"
    connect(path).close()
    path.unlink()
    with connect(path) as store:
        assert store.foreign == ""


def test_init_says_what_a_policy_that_came_along_allows(folder, capsys):
    (folder / "stator.toml").write_text('[[approval]]\ntool = "pay"\naction = "allow"\n')
    assert main(["init"]) == 0
    assert "stator.toml was here already" in capsys.readouterr().out
    assert main(["init"]) == 0
    assert "stator.toml" not in capsys.readouterr().out


def test_a_list_that_cannot_be_read_is_named_with_what_to_do(folder, home):
    path = folder / ".stator" / "store.db"
    connect(path).close()
    (home / ".local/share/stator/stores").chmod(0o666)
    with connect(path) as store:
        assert "other users can write it (make it your own: chown, chmod 600)" in store.foreign


def test_a_link_that_leads_nowhere_has_nothing_written_elsewhere(folder, tmp_path, capsys):
    for name in (".gitignore", "project"):
        (folder / ".stator" / name).symlink_to(tmp_path / f"outside{name}")
    assert main(["init"]) != 0
    assert "project" in capsys.readouterr().err
    assert not [name for name in os.listdir(tmp_path) if name.startswith("outside")]


def test_a_pipe_keeps_nobody_waiting(folder):
    os.mkfifo(folder / ".stator" / "project")
    os.mkfifo(folder / "stator.toml")
    with connect(folder / ".stator" / "store.db") as store:
        assert project_id(folder, store.port) == str(folder)
    with pytest.raises(InvalidInput, match="not a regular file"):
        policy_text(folder)
    assert main(["init"]) != 0
    shutil.rmtree(folder)
