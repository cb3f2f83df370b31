"""Hook lines that another user wrote are left alone: not imported, not deleted, and named by doctor."""

from __future__ import annotations

import os

import pytest

import stator
from importers.hook_lines import conversation_lines
from stator.connect import take_spool
from stator.hooks import spool

STRANGER = 12_345
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


@pytest.fixture
def foreign(hooked):
    """A store whose spool holds a file of another user."""
    hooked.write(*conversation_lines())
    (file,) = (path for path in hooked.spool.iterdir() if path.name == "current")
    os.chown(file, STRANGER, -1)
    return hooked


def test_a_file_of_another_user_is_not_imported(foreign):
    with stator.connect(foreign.path) as store:
        assert list(store.views()) == []


def test_a_file_of_another_user_is_not_moved_or_deleted(foreign):
    before = contents(foreign.spool)
    with stator.connect(foreign.path) as store:
        take_spool(store.port, str(foreign.spool))
    with stator.connect(foreign.path, read_only=True):
        pass
    assert contents(foreign.spool) == before


def test_a_file_of_another_user_is_not_shown_to_a_reader(foreign):
    with stator.connect(foreign.path, read_only=True) as store:
        assert list(store.views()) == []


def test_own_lines_beside_a_file_of_another_user_are_imported(foreign):
    (foreign.spool / "current").rename(foreign.spool / "taken-0")
    foreign.write(*conversation_lines("c2"))
    with stator.connect(foreign.path) as store:
        assert len(list(store.views())) == 1
    assert spool.foreign_files(str(foreign.spool)) == [str(foreign.spool / "taken-0")]


def test_a_folder_of_another_user_is_left_as_it_is(hooked):
    hooked.write(*conversation_lines())
    os.chown(hooked.spool, STRANGER, -1)
    before = contents(hooked.spool)
    with stator.connect(hooked.path) as store:
        assert list(store.views()) == []
    assert contents(hooked.spool) == before


def test_a_link_to_a_folder_is_not_followed(hooked, tmp_path):
    hooked.write(*conversation_lines())
    aside = tmp_path / "aside"
    hooked.spool.rename(aside)
    hooked.spool.symlink_to(aside)
    before = contents(aside)
    with stator.connect(hooked.path) as store:
        assert list(store.views()) == []
    assert contents(aside) == before


@pytest.mark.parametrize("what", ["file", "folder"])
def test_doctor_names_what_belongs_to_another_user(hooked, what, capsys, monkeypatch):
    from stator.surfaces.cli.main import main

    monkeypatch.setenv("COLUMNS", "1000")
    hooked.write(*conversation_lines())
    path = hooked.spool if what == "folder" else hooked.spool / "current"
    os.chown(path, STRANGER, -1)
    main(["doctor", "--store", str(hooked.path)])
    assert f"{path} belongs to another user" in capsys.readouterr().out.replace("\n", "")
