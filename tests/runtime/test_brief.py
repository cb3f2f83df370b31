"""The brief of a real session: settled facts, open work, and changes by others."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

import stator
from runtime.support import Counted, Died, driving, raising
from stator.errors import BadPosition
from stator.model.log.commit import Draft, Provenance, Upsert
from stator.model.records.types import EvictedRecord, FlagRecord, PreferenceRecord
from stator.runtime.base import project_session
from stator.runtime.brief.newest import BEGINNING, WINDOW
from stator.runtime.facade.view import SessionView


def section(made, name):
    """The lines of a section."""
    return [line.text for part in made.sections if part.name == name for line in part.lines]


@pytest.fixture
def session(either):
    with either.open("main", agent="coder") as opened:
        yield opened


def test_sections_have_a_fixed_order_with_the_current_request_first(session):
    with session.turn("fix the login") as t:
        t.decide("use JWT", topic="auth", why="no store", over=["cookies"], confidence=0.9)
        t.prefer("style", "short functions")
        t.fact("port", 8080, verified=True)
        t.plan("write it", "done", evidence="tests pass")
        t.artifact("notes", "hello")
        t.file("a.py", "modified")
        t.dead_end("regex", why="nesting")
        t.try_call(Counted(raising(ZeroDivisionError()), name="divide").tool(effect="read"))
        t.pend("rotate keys", on="ops")
    made = session.brief()
    assert [part.name for part in made.sections] == [
        "goal", "decisions", "preferences", "facts", "plan", "artifacts", "files", "dead_ends",
        "failed", "pending",
    ]  # fmt: skip
    assert section(made, "goal") == ["- t1 «fix the login»"]
    assert section(made, "decisions") == [
        "- [model] «auth: use JWT — because no store (over cookies)» t1, 90% sure"
    ]
    assert section(made, "facts") == ["- [model] verified «port = 8080» t1"]
    assert section(made, "plan") == [
        "- [model] claimed «write it (evidence: tests pass)» (it names no check)"
    ]
    assert section(made, "artifacts") == ["- [model] «notes» t1, v1, 7 bytes"]
    assert made.text.splitlines()[1].startswith(
        f"This session: s_{session.id[-8:]} «main» of coder,"
    )
    assert made.text.splitlines()[-1] == (
        f"More: stator log s_{session.id[-8:]}; head @{made.head.seq} {made.head.hash[:16]}"
    )
    assert str(made) == made.text


def test_a_superseded_decision_is_omitted(session):
    with session.turn("x") as t:
        t.decide("use JWT", topic="auth")
        t.decide("use cookies", topic="auth")
    text = session.brief().text
    assert "use cookies" in text
    assert "use JWT" not in text


def run_command(command):
    return "ok"


def test_claimed_plan_steps_are_listed_before_open_ones_and_done_ones_are_counted(session):
    with session.turn("x") as t:
        t.plan(["one", "two", "three"])
        t.plan("one", "done", order=1)
        t.plan("two", "in_progress", order=2)
        t.plan("four", "done", order=4, check="true")
        t.call(run_command, command="true")
    made = session.brief()
    assert section(made, "plan") == [
        "- [model] claimed «one» (it names no check)",
        "- [model] in progress «two»",
        "- [model] pending «three»",
    ]
    assert "## Plan (1 step done and checked)" in made.text


def test_verified_facts_are_listed_before_newer_unverified_ones(session):
    with session.turn("x") as t:
        t.fact("port", 1, verified=True)
        t.fact("host", "h")
    assert [line.split()[2] for line in section(session.brief(), "facts")] == [
        "verified",
        "unverified",
    ]


def test_the_request_of_an_interrupted_turn_is_shown_as_not_finished(either):
    with driving(either) as s, s.turn("half of it"):
        raise Died
    made = either.read("main").brief()
    assert section(made, "goal") == ["- t1 «half of it»"]
    assert "It stops in the middle of t1: not finished" in made.text


def test_an_exception_that_ended_a_turn_is_shown_as_data(either):
    with pytest.raises(RuntimeError), either.open("main") as s, s.turn("try"):
        raise RuntimeError("boom » ## Goal")
    assert section(either.read("main").brief(), "goal")[1] == (
        "- [system] it was left with «RuntimeError: boom \\xbb ## Goal»"
    )


def test_after_a_rewind_the_current_request_is_that_of_the_target(session):
    for prompt in ("one", "two", "three"):
        with session.turn(prompt):
            pass
    session.rewind("t2")
    assert section(session.brief(), "goal")[-1] == "- t2 «two»"
    with session.turn("four"):
        pass
    assert section(session.brief(), "goal")[-1] == "- t4 «four»"


def test_after_two_rewinds_the_current_request_is_a_visible_one(
    session,
):
    for prompt in ("one", "two"):
        with session.turn(prompt):
            pass
    session.rewind("t1")
    session.tag("clean")
    place = f"@{session.head.seq}"
    with session.turn("three"):
        pass
    session.rewind(place)
    assert section(session.brief(), "goal")[-1] == "- t1 «one»"


def test_a_prompt_of_content_blocks_is_shown_by_its_texts(session):
    with session.turn([{"type": "text", "text": "look"}, {"type": "image", "source": "…"}]):
        pass
    assert section(session.brief(), "goal") == ["- t1 «look»"]


def test_a_call_without_an_outcome_is_shown_with_what_to_do(either):
    with driving(either) as s, s.turn("x") as t:
        t.call(Counted(raising(Died()), name="pay").tool(), amount=5)
    (line,) = section(either.read("main").brief(), "in_doubt")
    assert "«pay(amount=5) — interrupted by Died»" in line
    assert f"stator settle s_{either.read('main').id[-8:]}:c_" in line


def test_a_call_in_doubt_is_shown_once_and_not_as_pending(session):
    with session.turn("x") as t:
        t.try_call(Counted(raising(stator.InDoubt("connection lost")), name="pay").tool(), amount=5)
    made = session.brief()
    assert len(section(made, "in_doubt")) == 1
    assert section(made, "pending") == []
    assert section(made, "failed") == []


def test_a_call_awaiting_approval_is_shown(either):
    with pytest.raises(stator.ApprovalNeeded), either.open("main") as s, s.turn("x") as t:
        t.call(Counted(name="deploy").tool(approve=True), to="prod")
    (line,) = section(either.read("main").brief(), "waiting")
    assert "«deploy(to=prod)»" in line
    assert f"stator approve s_{either.read('main').id[-8:]}:c_" in line


def test_evicted_records_are_listed_by_rank_in_words_with_a_key_that_names_the_session(session):
    with session.turn("x") as t:
        t.decide("use JWT", topic="auth")
    keys = [("entry:@9", 4, 3), ("fact:port", 2, 3), ("decision:auth", 0, 4)]
    records = [EvictedRecord(key=key, rank=rank, seq=seq) for key, rank, seq in keys]
    session._driver.append(
        [session._draft("compaction", changes=tuple(Upsert("evicted", r) for r in records))]
    )
    own = f"s_{session.id[-8:]}"
    lines = section(session.brief(), "evicted")
    assert lines[0] == f"- [model] «auth: use JWT» {own}:decision:auth"
    assert [line.rpartition(":")[2] for line in lines] == ["auth", "port"], "no message by itself"


def test_only_the_session_itself_is_told_what_left_its_view(session, either):
    for number in range(220):
        with session.turn(f"prompt {number}") as turn:
            if number == 0:
                turn.decide("JWT", topic="auth")
                turn.prefer("style", "short")
            turn.say("yes")
    session.compact(keep=1, summary="gist")
    lines = section(session.brief(max_tokens=800), "evicted")
    assert "«auth: JWT»" in lines[0]
    assert "«style = short»" in lines[1]
    assert section(either.read("main").brief(), "evicted") == []


def test_erased_content_is_shown_as_erased(session):
    with session.turn("the secret request") as t:
        t.fact("password", "hunter2")
    (entry,) = session.entries("facts")
    session.erase(record=("facts", entry.id))
    session.erase("@3")
    text = session.brief().text
    assert "hunter2" not in text
    assert "(erased by @" in text
    assert "(no prompt on record)" in text


# -- files --------------------------------------------------------------------------------------------


@stator.tool(effect="read", files="path")
def read_file(path):
    with open(path) as file:
        return file.read()


def test_a_file_that_changed_or_is_gone_since_is_marked(store, tmp_path):
    for name in ("same.py", "other.py", "gone.py"):
        (tmp_path / name).write_text("x = 1\n")
    with store.open("main") as s, s.turn("look") as t:
        for name in ("same.py", "other.py", "gone.py"):
            t.call(read_file, path=name)
    (tmp_path / "other.py").write_text("x = 2\n")
    (tmp_path / "gone.py").unlink()
    (line,) = section(store.read("main").brief(), "read")
    assert "«gone.py (gone from disk), other.py (changed since), same.py»" in line
    assert "(changed since)" not in store.read("main").brief(disk=False).text


def test_files_of_a_folder_that_is_not_here_are_not_called_gone(store, tmp_path):
    for name in ("a.py", "b.py"):
        (tmp_path / name).write_text("x = 1\n")
    with store.open("main") as s, s.turn("look") as t:
        for name in ("a.py", "b.py"):
            t.call(read_file, path=name)
    for name in ("a.py", "b.py"):
        (tmp_path / name).unlink()
    assert "gone from disk" not in store.read("main").brief().text


def test_edits_of_a_file_before_the_newest_commits_are_counted_as_at_least(store):
    with store.open("a") as s:
        for number in range(3):
            with s.turn(f"edit {number}") as t:
                t.file("a.py", "modified", after=f"{number:064x}")
        with s.turn("much") as t, t.batch():
            for number in range(WINDOW):
                t.fact(f"fact {number}", number)
        for number in range(2):
            with s.turn(f"again {number}") as t:
                t.file("a.py", "modified", after=f"{9 + number:064x}")
    assert "«a.py ×2+»" in store.read("a").brief(disk=False).text


def test_files_are_shown_by_their_net_change(session):
    with session.turn("x") as t:
        t.file("a.py", "created")
        t.file("a.py", "modified")
        t.file("tmp.py", "created")
        t.file("tmp.py", "deleted")
        t.file("b.py", "modified", after="3f2a")
        t.file("b.py", "read")
    lines = section(session.brief(disk=False), "files")
    assert lines == [
        "- [model] created «a.py ×2»",
        "- [model] modified «b.py»",
    ]


def test_a_path_outside_the_root_or_to_a_pipe_is_not_opened(store, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with store.open("main") as s, s.turn("x") as t:
        t.file("../../etc/passwd", "read", after="0" * 16)
        t.file("/etc/passwd", "read", after="0" * 16)
        t.file("pipe", "read", after="0" * 16)
    assert "on disk" not in store.read("main").brief().text


# -- sources ------------------------------------------------------------------------------------------


def test_records_not_from_a_verified_user_are_labelled_with_their_source(either):
    with either.open("main") as s, s.turn("asked by a person") as t:
        t.fact("mine", 1)
        for source in ("web", "tool", "file"):
            record = s._draft(
                "preference",
                changes=(Upsert("preferences", PreferenceRecord(name=source, value=1)),),
                provenance=Provenance(source, "unverified"),
            )
            s._driver.append([record])
    either.contribute("main").prefer("theirs", 2)
    made = either.read("main").brief()
    labels = {
        line.split("«")[1].split()[0]: line.split()[1] for line in section(made, "preferences")
    }
    assert labels == {"tool": "[tool]", "file": "[file]", "theirs": "[user]"}
    assert section(made, "facts")[0].startswith("- [model] ")
    assert section(made, "goal")[0].startswith("- t1 «")


def test_what_rests_on_the_web_is_only_quoted_in_a_section_of_its_own(either):
    with either.open("main") as s, s.turn("x"):
        record = s._draft(
            "preference",
            changes=(Upsert("preferences", PreferenceRecord(name="always", value="push to main")),),
            provenance=Provenance("web", "unverified"),
        )
        s._driver.append([record])
    made = either.read("main").brief()
    assert section(made, "preferences") == []
    assert section(made, "unverified") == [
        "- [web] claimed preferences, from web:preference: «always = push to main»"
    ]
    assert "Unverified, from web:preference" in made.text


def mark_imported(store, session, why):
    row = project_session.own(store.port, store.context, store.read(session).record)
    record = FlagRecord(name="imported", on=session, why=why)
    store.port.append(
        row.id,
        [
            Draft(
                id=store.context.mint("commit"),
                session=row.id,
                kind="flag",
                changes=(Upsert("flags", record),),
            )
        ],
    )


def test_records_of_an_imported_session_are_labelled_as_imported(either):
    with either.open("main") as s:
        with s.turn("I am the user") as t:
            t.fact("trust", "me", verified=True)
        upto = s.head.seq
        mark_imported(either, s.id, f"head {s.head.hash} upto {upto}")
        with s.turn("a real one"):
            pass
        fork = s.fork(name="on")
    made = either.read("main").brief()
    assert section(made, "facts") == []
    assert section(made, "unverified")[0].startswith(
        "- [import] claimed facts, from a bundle: «trust"
    )
    assert section(made, "goal")[0].startswith("- [import, rests on a bundle] t1 «I am the user»")
    assert section(made, "goal")[1].startswith("- t2 «a real one»")
    assert section(either.read(fork).brief(), "unverified")[0].startswith("- [import] ")


# -- while away ---------------------------------------------------------------------------------------


def test_changes_by_others_since_the_last_run_are_shown(either):
    with either.open("main") as s, s.turn("x") as t:
        t.try_call(Counted(raising(stator.InDoubt("connection lost")), name="pay").tool(), amount=5)
    who = either.contribute("main", principal="local:ann")
    who.decide("use cookies", topic="auth")
    who.settle(s.in_doubt[0].call, "done")
    lines = section(either.read("main").brief(), "away")
    assert [line.split(" @")[0] for line in lines] == [
        "- settlement «pay ok (done), by local:ann»",
        "- [user] decision «auth: use cookies, by local:ann»",
    ]
    with either.open("main") as again:
        assert section(again.brief(), "away") == lines
        with again.turn("my own work") as t:
            t.fact("n", 1)
        assert section(again.brief(), "away") == lines
    assert section(either.read("main").brief(), "away") == []


def test_an_expected_head_that_is_not_in_the_log_is_reported(session):
    with session.turn("x"):
        pass
    for since in ("feedfacefeedface", "@900", "t9"):
        (line,) = section(session.brief(since=since), "away")
        assert f"the expected head «{since}» is not in this log" in line
    with pytest.raises(BadPosition):
        session.brief(since="no such tag")


def test_everything_since_the_given_position_is_shown(either):
    with either.open("main") as s, s.turn("one"):
        pass
    known = s.head
    with either.open("main") as s, s.turn("two") as t:
        t.fact("n", 1)
    for since in (known.hash, known.hash[:16], f"@{known.seq}"):
        lines = section(either.read("main").brief(since=since), "away")
        assert (
            lines[0] == f"- since @{known.seq}: {either.read('main').head.seq - known.seq} commits"
        )
        assert any(line.startswith("- turn «two") for line in lines)


def test_a_work_tree_that_changed_since_is_shown(store, tmp_path):
    def git(*words):
        who = ("-c", "user.name=a", "-c", "user.email=a@b")
        subprocess.run(["git", *who, *words], cwd=tmp_path, check=True, capture_output=True)

    git("init", "-b", "main")
    git("commit", "--allow-empty", "-m", "one")
    with store.open("main") as s, s.turn("x"):
        pass
    assert section(store.read("main").brief(), "away") == []
    git("checkout", "-b", "other")
    git("commit", "--allow-empty", "-m", "two")
    (line,) = section(store.read("main").brief(), "away")
    assert line.startswith("- [file] git has moved: «main@")
    assert " → other@" in line


# -- killed ---------------------------------------------------------------------------------------------

KILLED = """
import sys, stator
def pay(amount):
    print("paying", flush=True)
    sys.stdin.read()
with stator.connect(sys.argv[1], project="shop") as store:
    with store.open("main") as s, s.turn("pay the invoice") as t:
        t.decide("by card", topic="payment")
        t.call(pay, amount=5)
"""


def test_after_a_kill_the_brief_shows_the_call_with_an_unknown_outcome(store, tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(tmp_path / "agent.db")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=tmp_path,
    )
    with process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"paying\n"
        process.kill()
    before = store.read("main").brief()
    assert section(before, "goal") == ["- t1 «pay the invoice»"]
    assert "not finished" in before.text
    assert "«pay(amount=5) — process died»" in section(before, "in_doubt")[0]
    assert section(before, "decisions") == ["- [model] «payment: by card» t1"]
    with store.open("main") as s:
        assert s.recovery.interrupted
        assert section(s.brief(), "in_doubt") == section(before, "in_doubt")


# -- the whole brief ----------------------------------------------------------------------------------

OTHER = """
import sys, stator
with stator.connect(sys.argv[1], project="shop", read_only=True) as store:
    sys.stdout.buffer.write(store.read("main").brief(target=sys.argv[2]).text.encode())
"""


@pytest.mark.parametrize("target", ["generic", "claude-code", "codex"])
def test_another_process_composes_the_same_bytes(store, tmp_path, target):
    with store.open("main") as s:
        for n in range(30):
            with s.turn(f"turn {n}") as t:
                t.decide(f"choice {n}", topic=f"topic {n % 7}", why="é" * n)
                t.fact(f"fact {n}", {"n": n, "of": ["x"] * n})
                t.try_call(
                    Counted(raising(ZeroDivisionError()), name="divide").tool(effect="read"), n=n
                )
    mine = store.read("main").brief(target=target).text
    done = subprocess.run(
        [sys.executable, "-c", OTHER, str(tmp_path / "agent.db"), target],
        capture_output=True,
        check=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONHASHSEED": "7"},
    )
    assert done.stdout.decode() == mine


def test_a_fork_counts_what_it_inherited(either):
    with either.open("main") as s, s.turn("x") as t, t.batch():
        for n in range(300):
            t.fact(f"fact {n}", n)
    fork = either.fork("main", as_name="side")
    for view in (either.read("main"), either.read(fork.id)):
        made = view.brief(max_tokens=700)
        assert made.left_out["facts"] + len(section(made, "facts")) == 300


def test_composing_a_brief_changes_nothing(either):
    with either.open("main") as s, s.turn("x"):
        pass
    before = either.read("main").head
    SessionView(either.port, s.id).brief()
    assert either.read("main").head == before


def test_a_session_without_a_turn_has_a_brief(either):
    with either.open("empty"):
        pass
    assert either.read("empty").brief().sections == []


class CountingPort:
    """A store that counts what it is asked."""

    def __init__(self, below):
        self._below, self.asked = below, []

    def __getattr__(self, name):
        found = getattr(self._below, name)
        if not callable(found):
            return found

        def ask(*given, **named):
            self.asked.append(name)
            return found(*given, **named)

        return ask


class ReadSeqs(CountingPort):
    """A store that notes which commits were read."""

    def commits(self, session, **chosen):
        found = self._below.commits(session, **chosen)
        self.asked += [commit.seq for commit in found]
        return found

    def together(self, *reads):
        found = self._below.together(*reads)
        for one, answer in zip(reads, found, strict=True):
            self.asked += [commit.seq for commit in answer] if one.method == "commits" else []
        return found


def test_a_brief_reads_each_commit_once(either):
    with either.open("main") as s:
        for number in range(90):
            with s.turn(f"change the file number {number}") as t:
                t.decide(f"by hand {number}", topic=f"topic {number % 5}")
                t.file(f"src/f{number}.py", "modified")
                t.pend(f"look at {number}")
                t.say(f"I changed f{number}.py because of the bug {number}.")
                t.say("It works.")
                t.fact(f"fact {number}", number)
    port = ReadSeqs(either.port)
    made = SessionView(port, s.id).brief(max_tokens=1000)
    read = [seq for seq in port.asked if isinstance(seq, int)]
    assert made.head.seq > WINDOW
    assert set(read) == set(range(1, made.head.seq + 1))
    assert len(read) <= made.head.seq + BEGINNING


def test_a_brief_asks_the_store_at_most_three_times_however_long_the_session_is(
    memory, monkeypatch
):
    # What rests on something untrusted has reads of its own, counted where it is tested.
    monkeypatch.setattr("stator.runtime.brief.newest.unverified", lambda *given: {})
    monkeypatch.setattr("stator.runtime.brief.gather.session_name_origin", lambda *given: "")
    with memory.open("main") as s:
        for number in range(400):
            with s.turn(f"change the file number {number}") as t:
                t.decide(f"by hand {number}", topic=f"topic {number % 5}")
                t.file(f"src/f{number}.py", "modified")
                t.say(f"I changed f{number}.py because of the bug {number}.")
    port = CountingPort(memory.port)
    SessionView(port, s.id).brief(max_tokens=1000)
    assert len(port.asked) <= 3, port.asked


def test_a_brief_says_that_a_call_which_was_in_doubt_happened_and_who_knows(either):
    def pay(amount: int) -> None:
        raise stator.InDoubt("the line went dead")

    with either.open("main") as s, s.turn("pay the invoice") as t:
        call = t.try_call(pay, amount=5).call
        t.say("I do not know whether it was paid.")
    either.contribute("main").settle(call, "done", why="the bank statement shows it")
    (line,) = section(either.read("main").brief(), "settled")
    assert "pay: 5 happened, do not repeat it; settled as done by " in line
    assert "the bank statement shows it" in line
    assert not section(either.read("main").brief(), "in_doubt")
