"""Whose store it is, situation by situation: what a foreign store may do, and how one becomes one's own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import msgspec
import pytest

import stator
from stator.connect import NEAREST, StorePlace, connect, trust_store
from stator.errors import CallDenied, ForeignStore, NoOwner
from stator.importers.conversation import FileBookmark, Report, import_conversation
from stator.importers.registry import load
from stator.model.exchange.bookmark import Bookmark
from stator.owner import standing
from stator.owner.projects import trust_project
from stator.runtime.facade import run as runs
from stator.runtime.ingest.placement import find

RULES = [stator.Rule(effect="write", action="ask", why="every write asks")]


@stator.tool(effect="write")
def deploy(to):
    return f"deployed to {to}"


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project of the user's own, with a store, a session and a grant for the whole project."""
    folder = tmp_path / "shop"
    (folder / ".stator").mkdir(parents=True)
    (folder / ".stator" / "project").write_text("p_" + "1" * 32 + "\n")
    trust_project(os.environ, folder)
    monkeypatch.chdir(folder)
    with connect(folder / ".stator" / "store.db") as store:
        with store.open("work") as s, s.turn("begin") as t:
            t.fact("colour", "blue")
        store.approvals.grant("work", "deploy", scope="project", by="local:ann")
    return folder


def deploys(path=None, **options):
    """Whether a write that a rule asks about runs, without anyone answering now."""
    with connect(path, **options) as store:
        try:
            with store.open("work", rules=RULES) as s, s.turn("deploy", new=True) as t:
                return t.call(deploy, to="prod") == "deployed to prod"
        except stator.ApprovalNeeded:
            return False


def foreign(path=None, **options):
    with connect(path, **options) as store:
        return store.port.ownership.foreign


def as_stranger(monkeypatch, tmp_path):
    """From here on the user is another one."""
    home = tmp_path / "stranger"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))


FOREIGN = {"[import]", "[import, rests on a foreign store]"}


def sources(path):
    """Where the recorded texts of a session come from, as its brief says."""
    with connect(path) as store:
        text = store.read("work").brief().text
    return {
        line[2:].split("]")[0] + "]" for line in text.splitlines() if line.startswith("- [")
    } | ({"unlabelled"} if any(line.startswith("- «") for line in text.splitlines()) else set())


# -- one's own -----------------------------------------------------------------------------------


def test_the_maker_of_a_store_is_its_owner_without_a_word(project):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert deploys()


def test_a_grant_answers_in_another_process_of_the_same_user(project):
    program = (
        "import stator\n"
        "tool = stator.tool(lambda to: print('deployed'), name='deploy', effect='write')\n"
        "with stator.open('work', rules=[stator.Rule(effect='write')]) as s, s.turn('d', new=True) as t:\n"
        "    t.call(tool, to='prod')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "deployed\n"


def test_a_store_in_the_users_data_folder_is_the_users_own(home):
    folder = home / ".local" / "share" / "stator"
    folder.mkdir(parents=True)
    assert foreign(folder / "other.db") == ""


def test_a_moved_project_is_still_the_users_own(project, tmp_path, monkeypatch):
    os.rename(project, tmp_path / "renamed")
    monkeypatch.chdir(tmp_path / "renamed")
    assert deploys()
    assert foreign() == ""


def test_a_project_that_was_moved_twice_is_still_the_users_own(project, tmp_path, monkeypatch):
    for name in ("once", "twice"):
        os.rename(Path.cwd(), tmp_path / name)
        monkeypatch.chdir(tmp_path / name)
        assert foreign() == ""


def test_a_named_link_to_a_store_of_ones_own_is_the_users_own(project, tmp_path):
    (tmp_path / "link.db").symlink_to(project / ".stator" / "store.db")
    assert foreign(tmp_path / "link.db") == ""


def test_a_store_that_was_just_made_is_on_the_list_before_it_has_its_name(tmp_path):
    """So that no kill leaves a store that its maker has not written down."""
    seen = []

    def announce(identifier, file):
        seen.append((os.path.exists(path), file.st_ino))

    from stator.store.sqlite import create

    path = tmp_path / "new.db"
    create(str(path), announce)
    assert seen == [(False, os.stat(path).st_ino)]


# -- foreign ------------------------------------------------------------------------------------


def test_a_copied_project_is_foreign_and_says_of_what_it_is_a_copy(project, tmp_path, monkeypatch):
    shutil.copytree(project, tmp_path / "copy")
    monkeypatch.chdir(tmp_path / "copy")
    assert foreign() == f"{standing.COPIED} ({project}/.stator/store.db)"
    assert not deploys(tmp_path / "copy" / ".stator" / "store.db")


def test_a_file_put_in_the_place_of_a_store_is_foreign(project, tmp_path):
    path = project / ".stator" / "store.db"
    shutil.copy(path, tmp_path / "other")
    os.rename(tmp_path / "other", path)
    assert foreign() == standing.REPLACED


def test_another_store_put_in_the_place_of_a_store_is_foreign(project, tmp_path):
    path = project / ".stator" / "store.db"
    with connect(tmp_path / "other.db"):
        pass
    shutil.copyfile(tmp_path / "other.db", path)  # the same file, with the content of another
    for end in ("-wal", "-shm"):
        Path(f"{path}{end}").unlink(missing_ok=True)
    assert foreign() != ""


def test_the_store_of_another_user_is_foreign(project, tmp_path, monkeypatch):
    as_stranger(monkeypatch, tmp_path)
    assert foreign() == standing.UNKNOWN


def test_a_store_that_git_tracks_is_foreign_also_to_its_maker(project):
    subprocess.run(["git", "init", "-q"], check=True)
    subprocess.run(["git", "add", "-f", ".stator"], check=True)
    assert foreign() == standing.TRACKED
    assert not deploys(project / ".stator" / "store.db")
    subprocess.run(["git", "rm", "-rqf", "--cached", ".stator"], check=True)
    assert foreign() == ""


def test_the_grants_of_a_foreign_store_answer_nothing(project, tmp_path, monkeypatch):
    as_stranger(monkeypatch, tmp_path)
    assert not deploys(project / ".stator" / "store.db")
    with connect() as store:
        assert [grant.state for grant in store.approvals.grants()] == ["foreign"]


def test_a_denial_in_a_foreign_store_answers_nothing(project, tmp_path, monkeypatch):
    with connect() as store:
        store.approvals.grant("work", "deploy", verdict="denied", by="local:mallory")
    as_stranger(monkeypatch, tmp_path)
    assert not deploys(project / ".stator" / "store.db")  # it waits, and is not denied


def test_the_texts_of_a_foreign_store_count_as_imported(project, tmp_path, monkeypatch):
    before = sources(project / ".stator" / "store.db")
    assert "[import]" not in before
    as_stranger(monkeypatch, tmp_path)
    assert sources(project / ".stator" / "store.db") == FOREIGN


def test_nothing_of_that_is_written_into_the_store(project, tmp_path, monkeypatch):
    with connect() as store:
        before = [commit.hash for commit in store.read("work").log()]
    as_stranger(monkeypatch, tmp_path)
    assert sources(None) == FOREIGN
    with connect() as store:
        assert [commit.hash for commit in store.read("work").log()] == before


def test_a_program_that_finds_a_foreign_store_cannot_drive_it(project, tmp_path, monkeypatch):
    as_stranger(monkeypatch, tmp_path)
    with pytest.raises(ForeignStore, match="stator trust"):
        stator.open("work")


def test_a_program_that_finds_a_foreign_store_can_read_it(project, tmp_path, monkeypatch):
    as_stranger(monkeypatch, tmp_path)
    with connect() as store:
        assert store.read("work").facts()["colour"] == "blue"


def test_a_program_that_names_a_foreign_store_can_drive_it(project, tmp_path, monkeypatch):
    as_stranger(monkeypatch, tmp_path)
    monkeypatch.setenv("STATOR_STORE", str(project / ".stator" / "store.db"))
    with stator.open("work") as s, s.turn("continue", new=True) as t:
        t.say("done")


def test_no_file_is_read_because_a_foreign_store_names_it(project, tmp_path, monkeypatch):
    """A bookmark says where a transcript is, and one that comes from elsewhere could name any file."""
    private = Path(__file__).parents[1] / "importers/data/pi"
    (file,) = sorted(private.rglob("*.jsonl"))[:1]
    format = load("pi")
    (found, *_) = format.conversations(file)
    path = project / ".stator" / "store.db"
    with connect(path) as store:
        import_conversation(
            store.port, store.context, format, found, Report(), stop=lambda: True, at_rest=False
        )
        row = find(store.port, found.conversation)
        assert row is not None
        note = FileBookmark(offset=0, mapper="pi/2", path=str(file))
        store.port.append(row.id, [], bookmark=Bookmark("transcript", 1, msgspec.to_builtins(note)))
        assert store.context.unplaced(store.port, row)
    as_stranger(monkeypatch, tmp_path)
    with connect(path) as store:
        assert store.context.unplaced(store.port, row) == []


def test_in_a_foreign_store_no_one_can_approve(project, tmp_path, monkeypatch):
    as_stranger(monkeypatch, tmp_path)
    with connect(project / ".stator" / "store.db") as store, pytest.raises(ForeignStore):
        store.approvals.grant("work", "deploy", by="local:mallory")


def test_a_command_that_a_foreign_store_holds_is_not_started(project, tmp_path, monkeypatch):
    with connect() as store:
        run = runs.start(store.port, store.context, ["true"])
        run.wait()
    as_stranger(monkeypatch, tmp_path)
    with connect(project / ".stator" / "store.db") as store:
        with pytest.raises(ForeignStore):
            store.attach(run.id).again()
        with pytest.raises(ForeignStore):
            store.attach(run.id).stop()


# -- becoming one's own -----------------------------------------------------------------------


def test_a_trusted_store_is_the_users_own_and_the_grants_of_others_still_answer_nothing(
    project, tmp_path, monkeypatch
):
    as_stranger(monkeypatch, tmp_path)
    with connect() as store:
        trust_store(store, old_grants=True)
        assert store.port.ownership.foreign == ""
        assert [grant.state for grant in store.approvals.grants()] == ["imported"]
    assert not deploys()


def test_a_trusted_copy_keeps_the_users_own_grants(project, tmp_path, monkeypatch):
    shutil.copytree(project, tmp_path / "copy")
    monkeypatch.chdir(tmp_path / "copy")
    with connect() as store:
        trust_store(store, old_grants=False)
    assert deploys()


def test_a_store_that_git_tracks_cannot_be_trusted(project):
    subprocess.run(["git", "init", "-q"], check=True)
    subprocess.run(["git", "add", "-f", ".stator/store.db"], check=True)
    with connect() as store, pytest.raises(ForeignStore, match="git rm --cached"):
        trust_store(store, old_grants=False)


def test_trust_for_one_connection_is_written_nowhere(project, tmp_path, monkeypatch):
    as_stranger(monkeypatch, tmp_path)
    assert foreign(trust=True) == ""
    assert foreign() == standing.UNKNOWN


# -- containers, teams, machines -------------------------------------------------------------------


def test_in_a_container_without_a_home_a_store_is_read_and_driven_by_name(tmp_path, monkeypatch):
    monkeypatch.delenv("HOME")
    with connect(tmp_path / "a.db") as store, store.open("work") as s, s.turn("x") as t:
        t.say("y")
    program = f"import stator; stator.connect({str(tmp_path / 'a.db')!r}).open('work').close()"
    subprocess.run([sys.executable, "-c", program], check=True, env={"PATH": os.environ["PATH"]})


def test_in_a_container_without_a_home_an_approval_says_what_is_missing(tmp_path, monkeypatch):
    monkeypatch.delenv("HOME")
    with connect(tmp_path / "a.db") as store:
        store.open("work").close()
        with pytest.raises(NoOwner, match="STATOR_OWNER_KEY"):
            store.approvals.grant("work", "deploy", by="local:ann")


def test_a_key_in_the_environment_makes_a_named_store_the_users_own(project, tmp_path, monkeypatch):
    monkeypatch.delenv("HOME")
    monkeypatch.setenv("STATOR_OWNER_KEY", "a team's long secret")
    path = project / ".stator" / "store.db"
    with connect(path) as store:
        store.approvals.grant("work", "deploy", by="local:ann")
    assert deploys(path)
    assert foreign() != ""  # found, and not named
    monkeypatch.setenv("STATOR_OWNER_KEY", "another team's secret")
    assert not deploys(path)


def test_a_key_in_the_environment_does_not_trust_what_git_brings(project, monkeypatch):
    monkeypatch.setenv("STATOR_OWNER_KEY", "a team's long secret")
    subprocess.run(["git", "init", "-q"], check=True)
    subprocess.run(["git", "add", "-f", ".stator"], check=True)
    assert foreign(project / ".stator" / "store.db") == standing.TRACKED


def test_a_home_that_cannot_be_written_leaves_a_new_store_to_the_process_that_made_it(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("HOME", "/proc/nowhere")
    assert foreign(tmp_path / "a.db") == ""
    program = (
        f"import stator; print(stator.connect({str(tmp_path / 'a.db')!r}).port.ownership.foreign)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert standing.UNKNOWN in done.stdout


def test_on_a_second_machine_with_the_same_home_a_store_is_trusted_once_and_the_first_stays(
    project, tmp_path
):
    path = project / ".stator" / "store.db"
    here, there = tmp_path / "here", tmp_path / "there"
    os.rename(path, here)
    shutil.copy(here, there)
    os.rename(there, path)  # what the second machine has at the same path: another file
    assert foreign() == standing.REPLACED
    with connect() as store:
        trust_store(store, old_grants=False)
    assert foreign() == ""
    os.rename(path, there)
    os.rename(here, path)
    assert foreign() == ""


def test_two_users_of_one_store_approve_each_for_themselves(project, tmp_path, monkeypatch):
    as_stranger(monkeypatch, tmp_path)
    with connect() as store:
        trust_store(store, old_grants=False)
        assert not deploys()  # the first user's grant
        store.approvals.grant("work", "deploy", scope="project", by="local:bob")
    assert deploys()


def test_a_store_on_a_server_is_trusted_by_who_names_it():
    from stator.owner.stores import ownership

    assert ownership(os.environ, "", "id", was_found=False).foreign == ""


# -- projects -------------------------------------------------------------------------------------


def clone(tmp_path, monkeypatch, text):
    """A folder from elsewhere, whose `.stator/project` claims an id; the user's own store is in use."""
    folder = tmp_path / "clone"
    (folder / ".stator").mkdir(parents=True)
    (folder / ".stator" / "project").write_text(text)
    monkeypatch.chdir(folder)
    return folder


def test_a_folder_cannot_claim_to_be_another_project_of_the_user(project, tmp_path, monkeypatch):
    path = project / ".stator" / "store.db"
    folder = clone(tmp_path, monkeypatch, (project / ".stator" / "project").read_text())
    with connect(path) as store:
        assert store.context.project == str(folder)
    assert not deploys(path)


def test_a_folder_that_links_to_another_project_does_not_get_its_grants(
    project, tmp_path, monkeypatch
):
    folder = tmp_path / "download"
    folder.mkdir()
    (folder / ".stator").symlink_to("../shop/.stator")
    monkeypatch.chdir(folder)
    with connect(StorePlace(str(folder / ".stator" / "store.db"), NEAREST)) as store:
        assert store.port.ownership.foreign == standing.LINKED
        assert store.context.project == str(folder)
    with pytest.raises(ForeignStore):
        deploys()


POLICY = """
[[approval]]
tool = "deploy"
action = "allow"

[prices.m]
"tokens:in" = 0
"""


@stator.tool(effect="write", approve=True)
def publish(to):
    return "published"


def publishes():
    with connect("memory:") as store:
        try:
            with store.open("work") as s, s.turn("x") as t:
                return t.call(publish, to="prod") == "published"
        except stator.ApprovalNeeded:
            return False


def test_the_policy_file_of_a_project_that_is_not_ones_own_allows_nothing(tmp_path, monkeypatch):
    clone(tmp_path, monkeypatch, "p_" + "2" * 32)
    Path("stator.toml").write_text(POLICY.replace("deploy", "*"))
    assert not publishes()


def test_the_policy_file_of_ones_own_project_allows(project):
    Path("stator.toml").write_text(POLICY.replace("deploy", "*"))
    assert publishes()


def test_the_policy_file_of_a_project_that_is_not_ones_own_sets_no_price(tmp_path, monkeypatch):
    from stator.runtime.driving import policy

    clone(tmp_path, monkeypatch, "p_" + "2" * 32)
    Path("stator.toml").write_text(POLICY)
    with connect("memory:") as store:
        assert policy.prices(store.context) is None


def test_the_policy_file_of_a_project_that_is_not_ones_own_can_still_deny(tmp_path, monkeypatch):
    clone(tmp_path, monkeypatch, "p_" + "2" * 32)
    Path("stator.toml").write_text('[[approval]]\naction = "deny"\n')
    with (
        connect("memory:") as store,
        store.open("work") as s,
        s.turn("x") as t,
        pytest.raises(CallDenied),
    ):
        t.call(deploy, to="prod")
