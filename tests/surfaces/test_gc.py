"""The commands retention, gc, hold and erase, and how ls, du and doctor show what was removed."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys

import apsw
import pytest

from surfaces.recorded import START, World

YEARS = 6 * 365 * 86_400_000_000


class LongAgo(World):
    """A clock some years in the past."""

    def clock(self):
        return START - YEARS + 1_000_000 * next(self.ticks)


@pytest.fixture
def old(tmp_path, monkeypatch):
    """A store whose sessions were last used years ago: three here, one in another project."""
    path = tmp_path / "old.db"
    with LongAgo().open(path) as store:
        for name, project in (("a", "shop"), ("b", "shop"), ("c", "shop"), ("d", "other")):
            with store.open(name, project=project) as s, s.turn(f"prompt of {name}") as t:
                t.fact("phone", "555 0100")
                t.decide("JWT", topic="auth")
                t.say("done")
    monkeypatch.setenv("STATOR_STORE", str(path))
    return path


def document(answer):
    return json.loads(answer.out)


def actions(answer):
    return [(one["what"], one["name"]) for one in document(answer)["actions"]]


def remove(ask, *names):
    """Move these sessions to the trash, and hold the others."""
    for name in ("a", "b", "c", "d"):
        if name not in names:
            ask("hold", name)
    ask("retention", "trash=1d", "--whole")
    assert ask("gc", "--apply", "--yes").code == 0


def test_retention_shows_each_policy_and_where_it_is_set(old, ask):
    assert "no policies: everything is kept" in ask("retention").out
    assert ask("retention", "trash=90d", "keep=20").code == 0
    ask("retention", "archive=30d", "--whole")
    shown = ask("retention").out
    for words in (
        "trash=90d",
        "keep=20",
        "this project",
        "archive=30d",
        "the store",
    ):
        assert words in shown
    found = document(ask("retention", "trash=off", "--json"))
    assert (found["schema"], set(found["own"]), set(found["store"])) == (
        "stator.retention/1", {"keep"}, {"archive"},
    )  # fmt: skip


@pytest.mark.parametrize("words", [["trash"], ["trash=x"], ["nonsense=1d"], ["keep=1d"]])
def test_an_invalid_policy_is_refused(old, ask, words):
    answer = ask("retention", *words)
    assert answer.code == 2
    assert "stator: " in answer.err


def test_gc_without_a_policy_has_nothing_to_do(old, ask):
    answer = ask("gc")
    assert (answer.code, answer.out) == (0, "nothing to do\n")


def test_gc_without_apply_changes_nothing(old, ask):
    ask("retention", "trash=90d", "--whole")
    before = ask("ls", "--all", "--json").out
    answer = ask("gc")
    assert answer.code == 0
    assert answer.out.count("trash ") == 5
    assert " 2020 " in answer.out  # when each was last used
    assert "4 of 4 sessions, more than 10 %" in answer.out
    assert ask("ls", "--all", "--json").out == before


def test_gc_reports_content_still_in_the_search_index(old, ask):
    ask("search", "prompt", "--all")
    ask("retention", "transcript=90d", "--whole")
    reader = apsw.Connection(f"{old}-search")
    reader.execute("BEGIN; SELECT count(*) FROM doc").fetchall()
    answer = ask("gc", "--apply", "--yes")
    reader.close()
    assert (answer.code, "not finished" in answer.out) == (1, True)


def test_erase_reports_words_still_in_the_search_index(old, ask):
    ask("search", "prompt", "--all")
    reader = apsw.Connection(f"{old}-search")
    reader.execute("BEGIN; SELECT count(*) FROM doc").fetchall()
    answer = ask("erase", "--session", "a", "--all", "--yes")
    reader.close()
    assert answer.code == 1
    assert "the search index still holds words" in answer.out
    assert "write-ahead log" not in answer.out


def test_gc_that_would_remove_much_stops_without_yes(old, ask):
    ask("retention", "trash=90d", "--whole")
    stopped = ask("gc", "--apply")
    assert stopped.code == 1
    assert "stopped: it would remove 4 of 4 sessions" in stopped.out
    assert document(ask("gc", "--apply", "--json"))["applied"] is False
    assert ask("ls", "--trash", "--all").out == ""
    assert ask("gc", "--apply", "--yes").code == 0
    assert "trash" in ask("ls", "--trash", "--all").out


def test_gc_counts_skipped_sessions_and_the_reason(old, ask):
    ask("hold", "a", "--why", "case 4711")
    ask("hold", "d")
    ask("retention", "trash=90d", "--whole")
    assert "  2 held: unchanged" in ask("gc").out
    assert {one["why"] for one in document(ask("gc", "--json"))["skipped"]} == {"held"}


def test_gc_with_project_leaves_other_projects_unchanged(old, ask):
    ask("retention", "trash=90d", "--whole")
    assert {name for _, name in actions(ask("gc", "--project", "--json"))} == {"a", "b", "c"}


def test_gc_archives_and_expires(old, ask):
    ask("retention", "archive=30d", "transcript=90d", "keep=2")
    assert ask("gc", "--apply").code == 0
    assert "archived" in ask("ls").out
    assert "prompt of a" not in ask("log", "a").out
    assert "JWT" in ask("decisions", "-s", "a").out
    assert "expired" in ask("log", "a").out
    assert ask("verify").code == 0


def test_gc_trashes_sessions_down_to_a_size(old, ask):
    assert ("trash", "a") in actions(ask("gc", "--max-size", "1KB", "--json"))
    assert actions(ask("gc", "--max-size", "1GB", "--json")) == []
    assert ask("gc", "--max-size", "much").code == 2


def test_a_trashed_session_is_hidden_until_restored(old, ask):
    remove(ask, "a")
    assert " a " not in ask("ls").out
    assert " a " in ask("ls", "--trash").out
    assert ask("show", "a").code == 3
    assert "in the trash" in ask("show", "a").err
    assert ask("gc", "--restore", "a").code == 0
    assert ask("show", "a").code == 0
    assert ask("gc", "--restore", "a").code == 3


def test_a_purged_session_is_not_found_and_the_error_says_when_it_was_purged(old, ask, tmp_path):
    remove(ask, "a")
    (row,) = [json.loads(line) for line in ask("ls", "--trash", "--json").lines]
    # The clock of the program is the machine's, so the window is made short instead of waiting.
    with LaterOn().open(old) as store:
        store.retention("purge=1h")
        assert [one.failed for one in store.collect(store.gc(), yes=True)] == [""]
    for asked in ("a", row["id"], row["id"][-8:]):
        answer = ask("show", asked)
        assert answer.code == 3
        assert "was purged on 2326-" in answer.err
        assert "by local:ann (purge=1h)" in answer.err
    assert "purged" in ask("ls", "--trash").out
    (left,) = [json.loads(line) for line in ask("ls", "--trash", "--json").lines]
    assert (left["name"], left["policy"], left["about"]["turns"]) == ("a", "purge=1h", 1)
    assert ask("verify").code == 0


class LaterOn(World):
    """A clock far in the future."""

    def __init__(self):
        super().__init__()
        self.ids = itertools.count(10_000)

    def clock(self):
        return START + 50 * YEARS + 1_000_000 * next(self.ticks)


def test_a_hold_is_listed_and_released(old, ask):
    assert ask("hold", "a", "--why", "case 4711").code == 0
    assert "case 4711" in ask("hold").out
    (found,) = [json.loads(line) for line in ask("hold", "--json").lines]
    assert (found["name"], found["why"]) == ("a", "case 4711")
    assert ask("hold", "a", "--release").code == 0
    assert ask("hold", "a", "--release").code == 1
    assert ask("hold").out == ""


# -- erase ----------------------------------------------------------------------------------------


def test_erase_without_yes_changes_nothing(old, ask):
    answer = ask("erase", "--record", "facts:phone", "-s", "a")
    assert answer.code == 0
    assert "; erase with --yes" in answer.out
    assert "555 0100" in ask("state", "a:", "-c", "facts").out


def test_erase_removes_a_record_and_names_the_commit(old, ask):
    answer = ask("erase", "--record", "facts:phone", "-s", "a", "--yes", "--why", "asked to")
    assert answer.code == 0
    assert ", recorded as k_" in answer.out
    assert "555 0100" not in ask("state", "a:", "-c", "facts").out
    assert "555 0100" in ask("state", "b:", "-c", "facts").out
    assert ask("verify").code == 0
    again = ask("erase", "--record", "facts:phone", "-s", "a", "--yes")
    assert again.code == 3


def test_erase_removes_fields_of_a_commit(old, ask):
    (turn,) = [json.loads(line) for line in ask("log", "a", "--kind", "turn", "--json").lines]
    assert ask("erase", f"a:@{turn['seq']}", "--field", "nonsense").code == 2
    assert ask("erase", f"a:@{turn['seq']}", "--field", "input", "--yes").code == 0
    assert "prompt of a" not in ask("log", "a").out
    assert "nothing to erase" in ask("erase", f"a:@{turn['seq']}", "--field", "input").out


def test_erase_removes_all_content_of_a_session_and_says_what_stays(old, ask):
    answer = ask("erase", "--all", "-s", "a", "--yes")
    assert answer.code == 0
    assert "not erased: its name" in answer.out
    assert "JWT" not in ask("log", "a").out
    assert ask("verify").code == 0


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["@3", "--all"],
        ["a:t1..t1"],
        ["--record", "facts"],
        ["--record", "facts:phone", "--field", "input"],
    ],
)
def test_erase_needs_exactly_one_target(old, ask, words):
    assert ask("erase", *words).code == 2


READER = """
import apsw, sys
db = apsw.Connection(sys.argv[1], flags=apsw.SQLITE_OPEN_READONLY)
db.execute("BEGIN"); db.execute("SELECT count(*) FROM log").fetchall()
print("ready", flush=True); sys.stdin.read()
"""


def test_erase_exits_with_1_while_another_program_reads_and_doctor_warns(old, ask):
    ask("tag", "now", "a:head")
    keeper = apsw.Connection(str(old))  # keeps the write-ahead log from being folded in at close
    keeper.execute("SELECT count(*) FROM log").fetchall()
    ask("tag", "then", "a:head")
    with subprocess.Popen(
        [sys.executable, "-c", READER, str(old)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as reader:
        assert reader.stdout is not None
        reader.stdout.readline()
        answer = ask("erase", "--record", "facts:phone", "-s", "a", "--yes")
        assert answer.code == 1
        assert f"(pid {reader.pid})" in answer.out
        again = ask("erase", "--record", "facts:phone", "-s", "a", "--yes")
        assert again.code != 0
        report = ask("doctor")
        assert report.code == 1
        assert "an erasure is not finished" in report.out
        reader.communicate()
    ask("tag", "after", "a:head")
    assert "an erasure is not finished" not in ask("doctor").out
    keeper.close()


# -- du -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("by", ["session", "tier", "kind"])
def test_du_adds_up_to_the_file(old, ask, by):
    found = document(ask("du", "--by", by, "--json"))
    assert sum(found["usage"].values()) == found["total"] == old.stat().st_size
    assert "  total" in ask("du", "--by", by).out


def test_du_of_one_session_is_by_tier_by_default(old, ask):
    assert set(document(ask("du", "-s", "a", "--json"))["usage"]) == {"transcript", "state"}
    assert "decision" in ask("du", "-s", "a", "--by", "kind").out
    assert ask("du", "--by", "nonsense").code == 2
