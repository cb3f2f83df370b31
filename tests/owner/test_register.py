"""The list of a user's stores: several processes write it, it is looked up by id, path and file, and stays short."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stator.owner import register as lists
from stator.owner.folder import UserFolder
from stator.owner.register import DECLINED, FILE, PROJECT, STORE, Listed, Register


@pytest.fixture
def register(tmp_path):
    return Register(UserFolder(str(tmp_path / "data" / "stator")))


def line(id="a" * 32, path="/home/ann/shop/.stator/store.db", *, inode=7, device=1, kind=STORE):
    return Listed(kind, id, inode, device, "", path)


def test_what_was_added_is_found_by_id_by_path_and_by_file(register):
    register.add(line())
    for found in (
        register.by_id(STORE, "a" * 32),
        register.by_path(STORE, "/home/ann/shop/.stator/store.db"),
        register.by_file(STORE, 7, 1),
    ):
        assert [one.line() for one in found] == [line().line()]


def test_a_line_of_another_kind_is_not_found(register):
    register.add(line(kind=PROJECT))
    register.add(line(kind=DECLINED))
    assert register.by_id(STORE, "a" * 32) == []


def test_what_was_withdrawn_is_found_under_none_of_its_names(register):
    register.add(line())
    register.add(line(path="/moved/store.db"))
    register.withdraw(STORE, "a" * 32, "/moved/store.db")
    assert register.by_id(STORE, "a" * 32) == []
    assert register.by_path(STORE, "/home/ann/shop/.stator/store.db") == []
    assert register.by_file(STORE, 7, 1) == []


def test_what_was_withdrawn_can_be_trusted_again(register):
    register.add(line())
    register.withdraw(STORE, "a" * 32, "/x")
    register.add(line())
    assert len(register.by_id(STORE, "a" * 32)) == 1


PATHS = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=40
)


@given(st.lists(st.tuples(PATHS, st.integers(0, 2**63)), max_size=6))
def test_any_path_is_read_back_as_it_was_written(tmp_path_factory, files):
    register = Register(UserFolder(str(tmp_path_factory.mktemp("data"))))
    for path, inode in files:
        register.add(line(path=path, inode=inode))
    found = [(one.path, one.inode) for one in register.by_id(STORE, "a" * 32)]
    assert found == files
    for path, inode in files:
        assert inode in [one.inode for one in register.by_path(STORE, path)]


def test_a_line_that_was_cut_off_does_not_count(register, tmp_path):
    register.add(line())
    with open(tmp_path / "data" / "stator" / FILE, "ab") as file:
        file.write(line(id="b" * 32).line()[:-4])
    assert register.by_id(STORE, "b" * 32) == []
    assert len(register.by_id(STORE, "a" * 32)) == 1


PROGRAM = """
import sys
from stator.owner.folder import UserFolder
from stator.owner import register as lists
lists.PRUNE_BYTES = int(sys.argv[3])
register = lists.Register(UserFolder(sys.argv[1]))
for n in range(60):
    register.add(lists.Listed("store", f"{sys.argv[2]}{n:03}", n, 1, "", sys.argv[1]))
"""


@pytest.mark.parametrize("prune_bytes", [2**20, 2000], ids=["short", "shortened all the time"])
def test_processes_that_add_at_once_lose_no_line(tmp_path, prune_bytes):
    folder = str(tmp_path)
    started = [
        subprocess.Popen([sys.executable, "-c", PROGRAM, folder, name, str(prune_bytes)])
        for name in "abcd"
    ]
    assert [one.wait() for one in started] == [0] * 4
    found = {one.id for one in Register(UserFolder(folder)).everything()}
    assert found == {f"{name}{n:03}" for name in "abcd" for n in range(60)}


def test_a_long_list_is_shortened_by_what_no_longer_exists(register, tmp_path, monkeypatch):
    monkeypatch.setattr(lists, "PRUNE_BYTES", 1000)
    there = tmp_path / "store.db"
    there.write_text("x")
    for number in range(30):
        register.add(line(id=f"{number:032}", path=f"/gone/{number}"))
    register.add(line(path=str(there)))
    assert [one.path for one in register.everything()][-1] == str(there)
    assert len(register.everything()) < 15


def test_a_list_that_other_users_can_write_does_not_count(register, tmp_path):
    register.add(line())
    os.chmod(tmp_path / "data" / "stator" / FILE, 0o666)
    with pytest.raises(PermissionError):
        register.by_id(STORE, "a" * 32)


def test_a_list_that_is_a_link_does_not_count(register, tmp_path):
    register.add(line())
    file = tmp_path / "data" / "stator" / FILE
    os.rename(file, tmp_path / "elsewhere")
    file.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="it is a link"):
        register.by_id(STORE, "a" * 32)


def test_a_line_that_was_not_written_to_its_end_does_not_spoil_the_next(register, tmp_path):
    register.add(line())
    path = tmp_path / "data" / "stator" / FILE
    path.write_bytes(path.read_bytes() + b"store\tbbbb")
    register.add(line("c" * 32))
    assert len(register.by_id(STORE, "a" * 32)) == 1
    assert len(register.by_id(STORE, "c" * 32)) == 1
