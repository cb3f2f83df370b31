"""Whether git tracks a file, read from the index of real repositories in all its forms."""

from __future__ import annotations

import os
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stator.owner.git_index import is_tracked

AUTHOR = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")


def git(folder, *words):
    environ = {**os.environ, "HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1"}
    return subprocess.run(
        ["git", *AUTHOR, *words], cwd=folder, check=True, capture_output=True, env=environ
    ).stdout


@pytest.fixture
def repository(tmp_path):
    folder = tmp_path / "repo"
    folder.mkdir()
    git(folder, "init", "-q")
    return folder


def write(folder, *names):
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)


NAMES = (".stator/project", ".stator/store.db", ".stat", "a/.stator/store.db", "z/store.db")


@pytest.mark.parametrize("version", [2, 3, 4])
def test_a_tracked_file_is_known_in_every_version_of_the_index(repository, version):
    write(repository, *NAMES, "other/store.db")
    git(repository, "update-index", "--add", "--index-version", str(version), *NAMES)
    if version == 3:  # a version that git writes only for entries with more flags
        git(repository, "add", "--intent-to-add", "other/store.db")
    assert all(is_tracked(str(repository / name)) for name in NAMES)
    assert not is_tracked(str(repository / "store.db"))
    assert not is_tracked(str(repository / "a/store.db"))


def test_the_end_of_a_longer_name_is_not_that_file(repository):
    write(repository, "a/.stator/store.db", ".stator/store.db")
    git(repository, "add", "-f", "a/.stator/store.db")
    assert is_tracked(str(repository / "a/.stator/store.db"))
    assert not is_tracked(str(repository / ".stator/store.db"))


def test_a_folder_that_git_brings_as_a_link_is_tracked_with_all_that_is_in_it(repository, tmp_path):
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "store.db").write_text("x")
    (repository / ".stator").symlink_to("../other")
    git(repository, "add", "-f", ".stator")
    assert is_tracked(str(repository / ".stator" / "store.db"))


def test_a_split_index_is_read_with_the_part_that_is_shared(repository):
    write(repository, ".stator/store.db")
    git(repository, "add", "-f", ".stator/store.db")
    git(repository, "update-index", "--split-index")
    write(repository, "later")
    git(repository, "add", "later")
    assert is_tracked(str(repository / ".stator/store.db"))


def test_a_repository_with_long_ids_is_read(tmp_path):
    folder = tmp_path / "repo"
    folder.mkdir()
    git(folder, "init", "-q", "--object-format=sha256")
    write(folder, ".stator/store.db", "b")
    git(folder, "add", "-f", ".")
    git(folder, "update-index", "--index-version", "4")
    assert is_tracked(str(folder / ".stator/store.db"))
    assert not is_tracked(str(folder / "c"))


def test_a_worktree_has_an_index_of_its_own(repository, tmp_path):
    write(repository, ".stator/store.db")
    git(repository, "add", "-f", ".")
    git(repository, "commit", "-qm", "x")
    git(repository, "worktree", "add", "-q", str(tmp_path / "tree"))
    assert is_tracked(str(tmp_path / "tree" / ".stator" / "store.db"))


def test_a_file_that_git_ignores_is_not_tracked(repository):
    write(repository, ".stator/store.db", ".stator/.gitignore", "code.py")
    (repository / ".stator/.gitignore").write_text("*\n")
    git(repository, "add", ".")
    assert not is_tracked(str(repository / ".stator/store.db"))


def test_a_folder_without_git_tracks_nothing(tmp_path):
    write(tmp_path, "store.db")
    assert not is_tracked(str(tmp_path / "store.db"))


@given(st.binary(max_size=300), st.sampled_from([b"", b"DIRC\0\0\0\2", b"DIRC\0\0\0\4\0\0\0\3"]))
def test_a_damaged_index_is_read_without_an_error(tmp_path_factory, rest, begin):
    folder = tmp_path_factory.mktemp("damaged")
    (folder / ".git").mkdir()
    (folder / ".git" / "index").write_bytes(begin + rest)
    assert is_tracked(str(folder / "store.db")) in (True, False)


@given(
    st.lists(
        st.text("abst./", min_size=1, max_size=12).filter(
            lambda name: (
                not name.startswith("/") and os.path.normpath(name) == name and ".." not in name
            )
        ),
        min_size=1,
        max_size=8,
        unique=True,
    ),
    st.sampled_from(["2", "4"]),
)
def test_the_index_is_read_as_git_reads_it(tmp_path_factory, names, version):
    folder = tmp_path_factory.mktemp("random")
    git(folder, "init", "-q")
    written: list[str] = []
    for number, name in enumerate(names):
        if name == "." or any(f"{one}/".startswith(f"{name}/") for one in written):
            continue
        if any(name.startswith(f"{one}/") for one in written):
            continue
        write(folder, name)
        written.append(name)
        if number % 2:
            git(folder, "add", "-f", name)
    if (folder / ".git" / "index").exists():
        git(folder, "update-index", "--index-version", version)
    tracked = set(git(folder, "ls-files", "-z").decode().split("\0"))
    assert {name for name in written if is_tracked(str(folder / name))} == tracked - {""}


@pytest.mark.parametrize("version", ["2", "4"])
@pytest.mark.parametrize(
    "name", [".stator/store.db-wal", ".stator/store.db-spool/current", ".Stator/Store.db"]
)
def test_what_belongs_to_a_file_is_tracked_with_it_under_any_case(repository, name, version):
    write(repository, name)
    git(repository, "add", "-f", name)
    git(repository, "update-index", "--index-version", version)
    assert is_tracked(str(repository / ".stator/store.db"))
    assert not is_tracked(str(repository / ".stator/store"))
    assert not is_tracked(str(repository / "a/.stator/store.db"))


def test_a_name_in_other_letters_is_found_as_it_is_written(repository):
    write(repository, "Ä/store.db")
    git(repository, "add", "-f", ".")
    assert is_tracked(str(repository / "Ä/store.db"))


def test_a_repository_within_another_does_not_hide_what_the_outer_one_tracks(repository):
    write(repository, "inner/.stator/store.db")
    git(repository, "add", "-f", ".")
    git(repository / "inner", "init", "-q")
    assert is_tracked(str(repository / "inner/.stator/store.db"))


def test_a_worktree_of_a_repository_with_long_ids_is_read(tmp_path):
    folder = tmp_path / "repo"
    folder.mkdir()
    git(folder, "init", "-q", "--object-format=sha256")
    write(folder, ".stator/store.db", "b")
    git(folder, "add", "-f", ".")
    git(folder, "commit", "-qm", "x")
    git(folder, "worktree", "add", "-q", str(tmp_path / "tree"))
    git(tmp_path / "tree", "update-index", "--index-version", "4")
    assert is_tracked(str(tmp_path / "tree" / ".stator" / "store.db"))


@pytest.mark.parametrize("name", [".git", ".git/index"])
def test_a_pipe_in_the_place_of_a_file_keeps_nobody_waiting(tmp_path, name):
    (tmp_path / name).parent.mkdir(exist_ok=True)
    os.mkfifo(tmp_path / name)
    assert not is_tracked(str(tmp_path / "store.db"))
