"""Which project a folder is: checkouts of one repository share one, and no folder can claim another."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

import stator
from owner.repositories import cloned, git, made, worktree
from stator.connect import connect, context, locate, project_id, project_root
from stator.owner import root_commit as asking
from stator.owner.projects import trust_project
from stator.owner.repositories import FILE as LIST
from stator.owner.root_commit import GIVEN_UP, root_commit
from stator.surfaces.cli.main import main
from stator.worktrees import repository_at

RULES = [stator.Rule(effect="write", action="ask", why="every write asks")]


@stator.tool(effect="write")
def deploy(to):
    return f"deployed to {to}"


@pytest.fixture
def store(home):
    with connect() as opened:
        yield opened


@pytest.fixture
def shop(tmp_path):
    return made(tmp_path / "shop")


def project(store, folder):
    return project_id(project_root(Path(folder)), store.port)


def begun(store, folder, name="work"):
    """Record a session as an agent in that folder would; its project."""
    with connect(store.info().url, project=project(store, folder)) as opened:
        opened.open(name).close()
    return project(store, folder)


def initialised(folder, monkeypatch):
    monkeypatch.chdir(folder)
    assert main(["init", "--json"]) == 0
    return (folder / ".stator" / "project").read_text().strip()


# -- names ----------------------------------------------------------------------------------------


def test_a_project_that_init_made_is_called_by_its_folder_from_elsewhere_too(
    store, shop, monkeypatch
):
    assert store.context.project_name(initialised(shop, monkeypatch)) == "shop"


def test_a_project_that_this_user_never_made_is_called_by_the_start_of_its_id(store):
    assert store.context.project_name("p_0123456789abcdef") == "p_01234567"


def test_a_project_without_an_id_of_its_own_is_called_by_its_folder_or_source(store):
    names = map(store.context.project_name, ["/home/ann/shop/", "claude-code", "/", ""])
    assert list(names) == ["shop", "claude-code", "/", ""]


# -- worktrees ------------------------------------------------------------------------------------


def test_a_worktree_is_the_project_of_its_main_checkout(store, shop, tmp_path):
    tree = worktree(shop, tmp_path / "elsewhere" / "feature", "feature")
    assert project(store, tree) == project(store, shop) == str(shop)


def test_the_paths_of_a_worktree_are_relative_to_the_worktree(shop, tmp_path):
    tree = worktree(shop, tmp_path / "feature", "feature")
    (tree / "src").mkdir()
    assert project_root(tree / "src") == tree


def test_a_worktree_has_the_project_that_init_wrote_in_the_main_checkout(
    store, shop, tmp_path, monkeypatch
):
    tree = worktree(shop, tmp_path / "feature", "feature")
    assert initialised(shop, monkeypatch) == project(store, tree)


def test_a_worktree_finds_the_store_of_the_main_checkout(shop, tmp_path, monkeypatch):
    tree = worktree(shop, tmp_path / "elsewhere" / "feature", "feature")
    initialised(shop, monkeypatch)
    (tree / "src").mkdir()
    monkeypatch.chdir(tree / "src")
    assert locate().url == str(shop / ".stator" / "store.db")
    with connect() as opened:
        assert opened.foreign == ""


def test_a_worktree_with_a_store_of_its_own_uses_that(shop, tmp_path, monkeypatch):
    tree = worktree(shop, tmp_path / "feature", "feature")
    initialised(shop, monkeypatch)
    initialised(tree, monkeypatch)
    assert locate().url == str(tree / ".stator" / "store.db")


def test_init_in_a_worktree_keeps_the_id_of_the_project(shop, tmp_path, monkeypatch):
    tree = worktree(shop, tmp_path / "feature", "feature")
    assert initialised(shop, monkeypatch) == initialised(tree, monkeypatch)


def test_worktrees_of_a_bare_repository_are_one_project(store, shop, tmp_path):
    bare = cloned(shop, tmp_path / "shop.git", "--bare")
    one, two = (worktree(bare, tmp_path / name, name) for name in ("one", "two"))
    assert project(store, one) == project(store, two)


def test_a_worktree_of_a_bare_repository_finds_the_store_of_another_one(
    shop, tmp_path, monkeypatch
):
    bare = cloned(shop, tmp_path / "shop.git", "--bare")
    one, two = (worktree(bare, tmp_path / name, name) for name in ("one", "two"))
    id = initialised(two, monkeypatch)
    monkeypatch.chdir(one)
    assert locate().url == str(two / ".stator" / "store.db")
    with connect() as opened:
        assert opened.context.project == id


def test_a_worktree_that_an_earlier_release_recorded_as_its_own_project_stays_it(
    store, shop, tmp_path
):
    tree = worktree(shop, tmp_path / "feature", "feature")
    with connect(store.info().url, project=str(tree)) as opened:
        opened.open("old").close()
    assert project(store, tree) == str(tree)


def test_a_new_worktree_joins_the_worktree_that_an_earlier_release_recorded(store, shop, tmp_path):
    bare = cloned(shop, tmp_path / "shop.git", "--bare")
    one, two = (worktree(bare, tmp_path / name, name) for name in ("one", "two"))
    with connect(store.info().url, project=str(one)) as opened:
        opened.open("old").close()
    assert project(store, two) == str(one)


def test_a_worktree_whose_repository_was_moved_is_a_folder_of_its_own(store, shop, tmp_path):
    tree = worktree(shop, tmp_path / "feature", "feature")
    os.rename(shop, tmp_path / "moved")
    assert project(store, tree) == str(tree)


# -- what a folder may not claim ------------------------------------------------------------------


def claims(shop, folder):
    """Folders that say they are checkouts of a repository which does not know them."""
    tree = worktree(shop, shop.parent / "feature", "feature")
    given = (tree / ".git").read_text()
    fake = folder.parent / "fake" / "worktrees" / "x"
    fake.mkdir(parents=True)
    (fake / "commondir").write_text(f"{shop}/.git\n")
    (fake / "gitdir").write_text(f"{folder}/.git\n")
    return {
        "the git folder of a worktree": given,
        "the git folder itself": f"gitdir: {shop}/.git\n",
        "a git folder that names another as its own": f"gitdir: {fake}\n",
    }


@pytest.mark.parametrize(
    "claim",
    [
        "the git folder of a worktree",
        "the git folder itself",
        "a git folder that names another as its own",
    ],
)
def test_a_folder_that_only_claims_to_be_a_worktree_gets_neither_store_nor_approvals(
    shop, tmp_path, monkeypatch, claim
):
    folder = tmp_path / "unpacked"
    folder.mkdir()
    (folder / ".git").write_text(claims(shop, folder)[claim])
    initialised(shop, monkeypatch)
    monkeypatch.chdir(folder)
    assert locate().why == "user data folder"
    with connect() as opened:
        assert opened.context.is_joined or opened.context.project == str(folder)


def test_a_git_folder_that_is_a_link_gets_neither_store_nor_approvals(shop, tmp_path, monkeypatch):
    initialised(shop, monkeypatch)
    folder = tmp_path / "unpacked"
    folder.mkdir()
    (folder / ".git").symlink_to(shop / ".git")
    monkeypatch.chdir(folder)
    assert locate().why == "user data folder"
    with connect() as opened:
        assert opened.context.is_joined or opened.context.project == str(folder)


def test_a_foreign_project_file_in_a_clone_claims_no_other_project(
    store, shop, tmp_path, monkeypatch
):
    id = initialised(shop, monkeypatch)
    other = made(tmp_path / "other", first="other")
    (other / ".stator").mkdir()
    (other / ".stator" / "project").write_text(id)
    assert project(store, other) == str(other)


@pytest.mark.parametrize("name", [".git", "HEAD", "config", "objects", "packed-refs", "commondir"])
def test_a_pipe_in_a_git_folder_keeps_no_program_waiting(store, tmp_path, name, monkeypatch):
    monkeypatch.setattr(asking, "TIMEOUT_S", 0.3)
    folder = made(tmp_path / "hostile")
    place = folder / ".git" / name if name != ".git" else folder / ".git"
    if place.is_dir():
        shutil.rmtree(place)
    elif place.exists():
        place.unlink()
    os.mkfifo(place)
    assert project(store, folder) == str(folder)


def test_nothing_that_a_repository_configures_is_run(store, tmp_path):
    folder = made(tmp_path / "hostile")
    mark = tmp_path / "ran"
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\ntouch {mark}\n")
    program.chmod(0o755)
    for name in (
        "core.fsmonitor", "core.pager", "core.sshCommand", "core.alternateRefsCommand", "core.editor",
        "core.gitProxy", "gpg.program", "pager.rev-list", "alias.rev-list", "remote.origin.uploadpack",
        "credential.helper", "diff.external",
    ):  # fmt: skip
        git(folder, "config", name, program)
    git(folder, "config", "core.hooksPath", tmp_path)
    git(folder, "config", "remote.origin.url", f"ext::{program}")
    git(folder, "config", "remote.origin.promisor", "true")
    git(folder, "config", "extensions.partialClone", "origin")
    first = git(folder, "rev-list", "--max-parents=0", "HEAD")
    (folder / ".git" / "objects" / first[:2] / first[2:]).unlink()
    project(store, folder)
    assert not mark.exists()


# -- clones ---------------------------------------------------------------------------------------


def test_clones_of_one_repository_are_one_project(store, shop, tmp_path):
    copy = cloned(shop, tmp_path / "copy")
    assert begun(store, shop) == project(store, copy) == str(shop)


def test_a_clone_of_a_project_that_init_made_joins_it(store, shop, tmp_path, monkeypatch):
    id = initialised(shop, monkeypatch)
    assert project(store, shop) == id
    assert project(store, cloned(shop, tmp_path / "copy")) == id


def test_init_in_a_clone_keeps_the_id_of_the_project(store, shop, tmp_path, monkeypatch):
    id = initialised(shop, monkeypatch)
    assert project(store, shop) == id
    assert initialised(cloned(shop, tmp_path / "copy"), monkeypatch) == id


def test_repositories_with_another_first_commit_are_other_projects(store, shop, tmp_path):
    other = made(tmp_path / "other", first="other")
    assert project(store, shop) != project(store, other) == str(other)


def test_a_repository_that_merged_another_ones_history_is_not_that_one(store, shop, tmp_path):
    other = made(tmp_path / "other", first="other")
    git(shop, "fetch", "-q", other, "main")
    git(shop, "merge", "-q", "--allow-unrelated-histories", "-s", "ours", "-m", "m", "FETCH_HEAD")
    assert project(store, other) == str(other)
    assert project(store, shop) == str(shop)


def test_a_shallow_clone_is_a_project_of_its_own(store, tmp_path):
    origin = made(tmp_path / "origin", commits=4)
    one, two = (cloned(origin, tmp_path / name, "--depth", "2") for name in ("one", "two"))
    assert project(store, one) == str(one)
    assert project(store, two) == str(two)
    assert project(store, origin) == str(origin)


def test_a_clone_that_an_earlier_release_recorded_stays_its_own_project(store, shop, tmp_path):
    copy = cloned(shop, tmp_path / "copy")
    with connect(store.info().url, project=str(copy)) as opened:
        opened.open("old").close()
    assert project(store, shop) == str(shop)
    assert project(store, copy) == str(copy)


def test_what_was_approved_in_a_project_does_not_answer_in_a_clone(
    store, shop, tmp_path, monkeypatch
):
    monkeypatch.chdir(shop)
    with connect() as opened:
        opened.open("work").close()
        opened.approvals.grant("work", "deploy", scope="project", by="local:ann")
    copy = cloned(shop, tmp_path / "copy")
    answers = {}
    for folder in (shop, copy):
        monkeypatch.chdir(folder)
        with connect() as opened:
            try:
                with opened.open("other", rules=RULES) as s, s.turn("go", new=True) as t:
                    answers[folder.name] = t.call(deploy, to="prod")
            except stator.ApprovalNeeded:
                answers[folder.name] = "asked"
    assert answers == {"shop": "deployed to prod", "copy": "asked"}


def test_a_clone_that_the_user_made_a_project_has_its_approvals(store, shop, tmp_path, monkeypatch):
    id = initialised(shop, monkeypatch)
    assert project(store, shop) == id
    copy = cloned(shop, tmp_path / "copy")
    initialised(copy, monkeypatch)
    found = context(start=copy, store=store.port)
    assert (found.project, found.is_joined) == (id, False)


def test_git_is_asked_once_for_each_repository(store, shop, monkeypatch):
    project(store, shop)
    monkeypatch.setattr(asking, "_asked", lambda *given: pytest.fail("git was asked again"))
    assert project(store, shop) == str(shop)


def test_a_repository_that_git_does_not_answer_for_in_time_is_its_own_project(
    store, shop, tmp_path, monkeypatch
):
    project(store, shop)
    monkeypatch.setattr(asking, "TIMEOUT_S", 0.0)
    copy = cloned(shop, tmp_path / "copy")
    assert root_commit(str(copy / ".git"), str(copy / ".git"), os.environ) == GIVEN_UP
    assert project(store, copy) == str(copy)


def test_without_git_a_repository_is_its_folder(store, shop, monkeypatch):
    monkeypatch.setenv("PATH", "/nonexistent")
    assert project(store, shop) == str(shop)


# -- other folders --------------------------------------------------------------------------------


def test_a_submodule_is_a_project_of_its_own(store, shop, tmp_path, monkeypatch):
    library = made(tmp_path / "library", first="library")
    git(shop, "submodule", "add", "-q", f"file://{library}", "lib")
    initialised(shop, monkeypatch)
    assert project_root(shop / "lib") == shop / "lib"
    assert project(store, shop / "lib") == str(shop / "lib")


def test_a_repository_inside_another_one_is_a_project_of_its_own(store, shop, monkeypatch):
    inner = made(shop / "vendor" / "inner", first="inner")
    initialised(shop, monkeypatch)
    assert project(store, inner) == str(inner)


def test_a_project_that_is_in_no_repository_holds_the_repositories_below_it(
    store, tmp_path, monkeypatch
):
    (tmp_path / "work").mkdir()
    id = initialised(tmp_path / "work", monkeypatch)
    inner = made(tmp_path / "work" / "inner")
    assert project_root(inner) == tmp_path / "work"
    assert project(store, inner) == id


def test_a_folder_without_git_is_its_path(store, tmp_path):
    (tmp_path / "plain").mkdir()
    assert project(store, tmp_path / "plain") == str(tmp_path / "plain")


def test_a_repository_that_was_moved_keeps_its_project(store, shop, tmp_path):
    assert begun(store, shop) == str(shop)
    os.rename(shop, tmp_path / "moved")
    assert project(store, tmp_path / "moved") == str(shop)


def test_a_repository_that_takes_the_place_of_another_is_not_that_one(store, shop, tmp_path):
    copy = cloned(shop, tmp_path / "copy")
    assert begun(store, shop) == project(store, copy)
    os.rename(copy, tmp_path / "kept")
    made(tmp_path / "copy", first="other")
    assert project(store, tmp_path / "copy") == str(tmp_path / "copy")


def test_a_list_that_another_user_could_write_is_not_believed(store, shop, tmp_path, home):
    assert begun(store, shop) == str(shop)
    (home / ".local" / "share" / "stator" / LIST).chmod(0o666)
    assert project(store, cloned(shop, tmp_path / "copy")) == str(tmp_path / "copy")


def test_a_name_with_line_breaks_adds_no_line_to_the_list(store, tmp_path):
    odd = made(tmp_path / 'a\n{"common": "x"}', first="odd")
    assert project(store, odd) == str(odd)
    copy = cloned(odd, tmp_path / "copy")
    assert project(store, copy) == str(odd)


def test_a_repository_is_found_without_following_links(shop, tmp_path):
    (tmp_path / "link").symlink_to(shop)
    found = repository_at(str(tmp_path / "link"))
    assert found is not None
    assert found.common == str(shop / ".git")


def test_trusting_a_project_does_not_need_its_repository(shop, monkeypatch):
    initialised(shop, monkeypatch)
    assert trust_project(os.environ, shop)
