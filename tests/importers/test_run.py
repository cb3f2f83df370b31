"""Tests that an import records everything once, isolates failing conversations and changes no
source."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

import stator
from importers import notebook_format
from importers.notebook_format import FORMAT, Notebook, turn_lines, write_conversation
from owner.repositories import made, worktree
from stator.errors import StoreBusy
from stator.importers import conversation
from stator.importers.discover import discover
from stator.importers.run import ImportRun, import_transcripts
from stator.model.exchange.items import (
    Conversation,
    Returned,
)
from stator.runtime.base import project_flags
from stator.runtime.facade.outside import person_needs
from stator.runtime.facade.store import Store
from stator.runtime.ingest.recorder import Recorder


@pytest.fixture
def store(tmp_path):
    with stator.connect(tmp_path / "a.db", project="shop") as opened:
        yield opened


def discovery(*paths):
    return discover([str(path) for path in paths], formats=[FORMAT])


def run_import(store, *paths, **options):
    return import_transcripts(store, discovery(*paths), **options)


def statuses(result):
    return [one.fate for one in result.taken]


def grow(path, *rows):
    with path.open("a") as file:
        file.writelines(json.dumps(row) + "\n" for row in rows)


def commits(store):
    return sum(row.head for row in store.sessions().rows)


@pytest.fixture
def path(tmp_path):
    return write_conversation(
        tmp_path / "in" / "one.jsonl", *turn_lines(1), *turn_lines(2), name="fix it"
    )


def test_a_transcript_becomes_a_session(store, path):
    result = run_import(store, path)
    (one,) = result.taken
    assert (one.fate, one.name, one.agent) == ("new", "fix it", "notebook")
    view = store.read(one.session)
    assert [file.path for file in view.files(last=None)] == ["f2.py", "f1.py"]
    assert (one.report.turns, one.report.calls, one.report.files) == (2, 2, 2)


def test_a_file_touched_several_times_counts_once(store, tmp_path):
    rows = [*turn_lines(1), {"call": "again"}, {"done": "again", "file": "f1.py"}]
    assert run_import(store, write_conversation(tmp_path / "x.jsonl", *rows)).total.files == 1


def test_the_second_import_adds_nothing(store, path):
    run_import(store, path)
    before = commits(store)
    result = run_import(store, path)
    assert (statuses(result), result.total.sessions, commits(store)) == (["same"], 0, before)


def test_a_transcript_that_grew_adds_only_what_is_new(store, path):
    run_import(store, path)
    grow(path, *turn_lines(3))
    result = run_import(store, path)
    assert (statuses(result), result.total.turns, result.total.calls) == (["grown"], 1, 1)


def test_a_moved_transcript_is_recognized(store, path, tmp_path):
    run_import(store, path)
    path.rename(tmp_path / "elsewhere.jsonl")
    assert statuses(run_import(store, tmp_path / "elsewhere.jsonl")) == ["same"]


def test_a_dry_run_reports_new_sessions_and_writes_nothing(store, path):
    result = run_import(store, path, dry_run=True)
    assert (statuses(result), result.total.turns, result.total.calls) == (["new"], 2, 2)
    assert store.sessions().rows == []


def test_a_dry_run_after_the_import_reports_nothing_new(store, path):
    run_import(store, path)
    assert statuses(run_import(store, path, dry_run=True)) == ["same"]


def test_a_dry_run_counts_only_what_is_new(store, path):
    run_import(store, path)
    grow(path, *turn_lines(3))
    result = run_import(store, path, dry_run=True)
    total = result.total
    assert (statuses(result), total.turns, total.calls, total.files) == (["grown"], 1, 1, 1)


NUMBERS = (
    "sessions",
    "turns",
    "calls",
    "files",
    "in_doubt",
    "orphans",
    "unknown",
    "mended",
    "skipped",
)
DATA = Path(__file__).parent / "data"


def numbers(result):
    return {name: getattr(result.total, name) for name in NUMBERS}


@pytest.mark.parametrize("name", [*sorted(os.listdir(DATA)), "."])
def test_a_dry_run_and_the_import_report_the_same_counts(store, name):
    seen = discover([DATA / name])
    would = import_transcripts(store, seen, dry_run=True)
    assert store.sessions().rows == []
    does = import_transcripts(store, discover([DATA / name]))
    assert (numbers(would), statuses(would)) == (numbers(does), statuses(does))


@pytest.fixture
def yesterday(monkeypatch):
    """The conversations of a test took place yesterday."""
    monkeypatch.setattr(notebook_format, "AT", time.time_ns() // 1000 - 86_400_000_000)


def test_a_dry_run_reports_calls_that_would_be_in_doubt(store, tmp_path, yesterday):
    path = write_conversation(tmp_path / "x.jsonl", {"ask": "go"}, {"call": "c1"})
    assert run_import(store, path, dry_run=True).total.in_doubt == 1


def test_a_dry_run_counts_items_that_are_in_two_files_once(store, path, tmp_path):
    shorter = write_conversation(tmp_path / "in" / "two.jsonl", *turn_lines(1))
    result = run_import(store, path, shorter, dry_run=True)
    assert (result.total.sessions, result.total.turns, result.total.calls) == (1, 2, 2)
    assert sorted(statuses(result)) == ["new", "same"]
    assert {one.name for one in result.taken} == {"fix it"}


def test_the_file_with_a_title_is_imported_first(store, path, tmp_path):
    printed = write_conversation(tmp_path / "in" / "printed.jsonl", {"call": "c1"}, {"done": "c1"})
    os.utime(path, (1, 1))
    result = run_import(store, printed, path)
    assert [Path(one.path).name for one in result.taken] == ["one.jsonl", "printed.jsonl"]
    view = store.read(result.taken[0].session)
    assert view.record.name == "fix it"
    assert all(call.turn for call in view.calls())


def test_an_import_does_not_change_the_source(store, path):
    path.chmod(0o444)
    path.parent.chmod(0o555)
    before = os.stat(path), path.read_bytes(), sorted(os.listdir(path.parent))
    os.utime(path, ns=(1_000_000_000, before[0].st_mtime_ns))
    before = os.stat(path), *before[1:]
    run_import(store, path)
    after = os.stat(path)
    for name in ("st_atime_ns", "st_mtime_ns", "st_ctime_ns", "st_size", "st_ino", "st_mode"):
        assert getattr(after, name) == getattr(before[0], name)
    assert (path.read_bytes(), sorted(os.listdir(path.parent))) == before[1:]
    path.parent.chmod(0o755)


def test_an_unreadable_line_is_reported_and_the_rest_is_imported(store, tmp_path):
    path = write_conversation(tmp_path / "x.jsonl", *turn_lines(1))
    with path.open("a") as file:
        file.write("oh no\n" + "".join(json.dumps(row) + "\n" for row in turn_lines(2)))
    total = run_import(store, path).total
    assert (total.turns, total.skipped) == (2, 1)
    assert [(skip.path, skip.line, skip.why) for skip in total.skips] == [
        (str(path), 6, "not JSON")
    ]


def test_records_without_content_are_counted_by_kind(store, tmp_path):
    rows = [{"noise": "tick"}, {"noise": "tick"}, {"what": "is this"}]
    total = run_import(store, write_conversation(tmp_path / "x.jsonl", *turn_lines(1), *rows)).total
    assert total.noise == {"talk": 1, "tick": 2}
    assert total.unknown == 1


def test_a_write_without_a_result_is_in_doubt(store, tmp_path, yesterday):
    total = run_import(
        store, write_conversation(tmp_path / "x.jsonl", *turn_lines(1, done=False))
    ).total
    assert total.in_doubt == 1


def test_a_write_without_a_result_of_long_ago_is_history(store, tmp_path):
    total = run_import(
        store, write_conversation(tmp_path / "x.jsonl", *turn_lines(1, done=False))
    ).total
    assert total.in_doubt == 0


def test_a_call_in_doubt_of_long_ago_is_known_although_nobody_is_asked_about_it(store, tmp_path):
    run_import(store, write_conversation(tmp_path / "x.jsonl", *turn_lines(1, done=False)))
    found = person_needs(store.port, store.context)
    assert (found.doubts, len(found.old_doubts)) == ([], 1)


def test_a_result_of_a_known_tool_without_a_call_is_an_orphan(store):
    other = Conversation(source="notebook", id="n9")
    recorder = Recorder(store.port, store.context, other)
    recorder.take(Returned(id="c1", tool="edit"))
    report = conversation.Report()
    report.recorded(recorder.flush())
    assert (report.calls, report.orphans) == (1, 1)


def test_a_result_without_a_call_is_an_orphan(store, tmp_path):
    total = run_import(
        store, write_conversation(tmp_path / "x.jsonl", {"ask": "hi"}, {"done": "c9"})
    ).total
    assert total.orphans == 1


def test_a_failing_conversation_does_not_stop_the_others(store, path, tmp_path):
    class Stumbling(Notebook):
        def read(self, found, cursor, progress, *, at_rest=True):
            if "bad" in found.path:
                raise KeyError("uuid")
            yield from super().read(found, cursor, progress, at_rest=at_rest)

    write_conversation(tmp_path / "in" / "bad.jsonl", *turn_lines(1), id="bad")
    result = import_transcripts(store, discover([str(path.parent)], formats=[Stumbling()]))
    assert sorted(statuses(result)) == ["new", "refused"]
    assert "KeyError('uuid')" in result.refused[0].why
    assert len(store.sessions().rows) == 1


# -- projects -------------------------------------------------------------------------------------


def home_of(cwd):
    return ("lib", "/srv/lib") if cwd.startswith("/srv/lib") else None


def test_each_session_goes_into_the_project_it_took_place_in_else_one_named_after_its_source(
    store, tmp_path
):
    paths = [
        write_conversation(tmp_path / "a.jsonl", *turn_lines(1), id="a", cwd="/srv/lib/src"),
        write_conversation(tmp_path / "b.jsonl", *turn_lines(1), id="b", cwd="/home/dev/gone"),
        write_conversation(tmp_path / "c.jsonl", *turn_lines(1), id="c"),
    ]
    result = run_import(store, *paths, home_of=home_of)
    found = {one.path[-7]: one.project for one in result.taken}
    assert found == {"a": "lib", "b": "notebook", "c": "notebook"}
    assert result.projects == {"lib": 1, "notebook": 2}


def test_a_sub_agent_whose_folder_is_unknown_goes_where_its_parent_is(store, tmp_path):
    paths = [
        write_conversation(tmp_path / "p.jsonl", *turn_lines(1), id="p", cwd="/srv/lib"),
        write_conversation(tmp_path / "k.jsonl", *turn_lines(1), id="k", parent="p"),
    ]
    for dry_run in (True, False):
        result = run_import(store, *paths, home_of=home_of, dry_run=dry_run)
        assert result.projects == {"lib": 2}


def test_a_project_that_is_given_takes_every_session(store, tmp_path):
    path = write_conversation(tmp_path / "a.jsonl", *turn_lines(1), id="a", cwd="/srv/lib/src")
    (one,) = run_import(store, path, home_of=home_of, project="other").taken
    assert one.project == "other"


def test_a_session_goes_into_the_repository_that_its_folder_is_in(store, tmp_path):
    shop = made(tmp_path / "shop")
    tree = worktree(shop, tmp_path / "feature", "feature")
    path = write_conversation(tmp_path / "a.jsonl", *turn_lines(1), id="a", cwd=str(tree))
    assert run_import(store, path).taken[0].project == str(shop)


def test_a_session_of_a_removed_folder_goes_into_the_repository_around_it(store, tmp_path):
    shop = made(tmp_path / "shop")
    gone = shop / ".claude" / "worktrees" / "gone"
    path = write_conversation(tmp_path / "a.jsonl", *turn_lines(1), id="a", cwd=str(gone))
    assert run_import(store, path).taken[0].project == str(shop)


def touching(path, *, id, cwd, file):
    rows = [{"ask": "hi"}, {"call": "c"}, {"done": "c", "file": file}]
    return write_conversation(path, *rows, id=id, cwd=cwd)


def files_of(store, session):
    return [(file.root, file.path) for file in store.read(session).files(last=None)]


def test_paths_are_relative_to_the_project_the_agent_worked_in(store, tmp_path):
    path = touching(tmp_path / "a.jsonl", id="a", cwd="/srv/lib/src", file="/srv/lib/src/a.py")
    (one,) = run_import(store, path, home_of=home_of).taken
    assert files_of(store, one.session) == [(".", "src/a.py")]


@pytest.mark.parametrize("project", ["", "shop"])
@pytest.mark.parametrize("file", ["README.md", "/home/dev/x/README.md"])
def test_files_of_another_repository_keep_their_own_root(store, tmp_path, project, file):
    path = touching(tmp_path / "a.jsonl", id="a", cwd="/home/dev/x", file=file)
    (one,) = run_import(store, path, project=project).taken
    assert files_of(store, one.session) == [("/", "/home/dev/x/README.md")]


def test_why_never_merges_the_files_of_two_repositories(store, tmp_path):
    paths = [
        touching(tmp_path / f"{name}.jsonl", id=name, cwd=f"/{name}", file=f"/{name}/README.md")
        for name in ("one", "two")
    ]
    run_import(store, *paths, project="shop")
    ending_so = store.why("README.md", project="shop").answers
    assert [len({reason.session for reason in answer}) for answer in ending_so] == [1, 1]
    found = store.why("/one/README.md", root="/", project="shop")
    assert len({reason.session for reason in found}) == 1


def test_files_of_another_repository_are_not_gone_from_disk(store, tmp_path):
    path = touching(tmp_path / "a.jsonl", id="a", cwd="/home/dev/x", file="/home/dev/x/README.md")
    (one,) = run_import(store, path, project="shop").taken
    assert "gone from disk" not in store.read(one.session).brief().text


def test_a_path_in_the_home_folder_stays_one(store, tmp_path):
    path = touching(tmp_path / "a.jsonl", id="a", cwd="/srv/lib", file="~/.pi/agent/notes.md")
    (one,) = run_import(store, path, home_of=home_of).taken
    assert files_of(store, one.session) == [("~", "~/.pi/agent/notes.md")]


def test_a_session_stays_in_the_project_it_was_imported_into(store, path):
    run_import(store, path, project="other")
    grow(path, *turn_lines(3))
    (one,) = run_import(store, path).taken
    assert (one.fate, one.project) == ("grown", "other")


# -- closed, trashed and purged sessions ----------------------------------------------------------


def test_a_closed_session_without_news_is_reported_as_unchanged(store, path):
    (one,) = run_import(store, path).taken
    store.contribute(one.session).close()
    assert statuses(run_import(store, path)) == ["same"]


def test_nothing_is_added_to_a_session_in_the_trash(store, path):
    (one,) = run_import(store, path).taken
    row = store.port.session(one.session)
    project_flags.put(store.port, store.context, row, project_flags.TRASH, by="ann", why="old")
    grow(path, *turn_lines(3))
    (left,) = run_import(store, path).taken
    assert (left.fate, left.why) == ("left", "it is in the trash")
    assert store.port.session(one.session).head == row.head


def test_a_purged_session_is_not_imported_again(store, path):
    run_import(store, path, project="shop")
    store.retention("trash=30d", "purge=30d")
    for days in (31, 62, 93):
        later = store.context.clock() + days * 86_400_000_000
        then = Store(store.port, replace(store.context, clock=lambda later=later: later))
        then.collect(then.gc(), yes=True)
    (left,) = run_import(store, path).taken
    assert left.fate == "left"
    assert "was purged on" in left.why
    assert [row.record.mode for row in store.sessions().rows] == ["project"]


# -- stopped --------------------------------------------------------------------------------------


def test_a_stopped_import_records_nothing_of_the_current_conversation(store, path):
    asked = iter([False, True])
    result = run_import(store, path, stop=lambda: next(asked))
    assert (result.stopped, result.taken) == (True, [])
    assert store.sessions().rows == []


def test_a_stopped_import_reports_what_it_recorded_and_continues_when_run_again(store, tmp_path):
    folder = tmp_path / "in"
    for n in range(3):
        write_conversation(folder / f"{n}.jsonl", *turn_lines(1), id=str(n))
    asked = iter([False, False, True])
    result = run_import(store, folder, stop=lambda: next(asked))
    assert (result.stopped, len(result.taken)) == (True, 1)
    again = run_import(store, folder)
    assert sorted(statuses(again)) == ["new", "new", "same"]


def test_stopping_a_long_conversation_leaves_whole_turns(store, tmp_path, monkeypatch):
    monkeypatch.setattr(conversation, "BATCH_ITEMS", 4)
    monkeypatch.setattr("stator.importers.reading.jsonl.CHUNK", 256)
    path = write_conversation(
        tmp_path / "x.jsonl", *(row for n in range(20) for row in turn_lines(n))
    )
    asked = iter([False] * 8 + [True] * 100)
    (one,) = run_import(store, path, stop=lambda: next(asked)).taken
    view = store.read(one.session)
    rows = store.port.turns(view.id)
    assert 0 < len(rows) < 20
    assert one.report.turns == len(rows)
    assert all(call.status == "ok" for call in view.calls())
    again = run_import(store, path)
    assert again.total.turns == 20 - len(rows)
    assert [call.status for call in view.calls()] == ["ok"] * 20


def test_a_failing_store_ends_the_import_and_the_result_shows_what_was_recorded(store, tmp_path):
    folder = tmp_path / "in"
    for n in range(2):
        write_conversation(folder / f"{n}.jsonl", *turn_lines(1), id=str(n))

    class Full(Notebook):
        def read(self, found, cursor, progress, *, at_rest=True):
            if found.conversation.id == "0":
                raise StoreBusy("another program writes and writes")
            yield from super().read(found, cursor, progress, at_rest=at_rest)

    os.utime(folder / "0.jsonl", (1, 1))
    importing = ImportRun(store, discover([str(folder)], formats=[Full()]))
    with pytest.raises(StoreBusy):
        importing.run()
    assert statuses(importing.result) == ["new"]


def test_reports_are_added_field_by_field(store):
    one = conversation.Report(
        turns=1, noise={"a": 1}, skipped=1, skips=[conversation.SkippedLine("x", 1, "bad")]
    )
    two = conversation.Report(turns=2, noise={"a": 2, "b": 1}, refused={"x": "why"}, names=["s"])
    one.add(two)
    assert msgspec.to_builtins(one) == {
        **msgspec.to_builtins(conversation.Report()),
        "turns": 3,
        "noise": {"a": 3, "b": 1},
        "skipped": 1,
        "skips": [{"path": "x", "line": 1, "why": "bad"}],
        "refused": {"x": "why"},
        "names": ["s"],
    }


# -- concurrent writers ---------------------------------------------------------------------------
