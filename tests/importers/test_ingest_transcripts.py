"""Tests that a conversation with hooks and a transcript is one session in the order of its transcript."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

import stator
from importers.hook_lines import (
    DEAD,
    after_tool,
    before_tool,
    hook_input,
    kinds,
    lose_bookmarks,
    prompt,
    session,
)
from importers.toy_format import ToyFormat, ToyTranscript
from stator.connect import advance, spools, take_spool, worlds
from stator.hooks import at_rest, ingest, transcript_file
from stator.hooks import cursor as cursor_hooks
from stator.hooks.hook_note import SETTLING_US, hook_note, namespace
from stator.hooks.ingest import IngestLimits
from stator.importers import registry
from stator.importers.conversation import Report, import_conversation
from stator.model.exchange.items import Prompted
from stator.runtime.runs.processes import start_ticks
from stator.runtime.views.verify import examine
from stator.surfaces.cli.parts.open_store import open_to_read


@pytest.fixture(autouse=True)
def formats(monkeypatch):
    monkeypatch.setattr(transcript_file, "_format_of", lambda agent: ToyFormat())
    monkeypatch.setattr(registry, "load", lambda name: ToyFormat())


@pytest.fixture
def transcript(tmp_path):
    return ToyTranscript(tmp_path / "talk.jsonl")


def waiting(hooked, conversation="c1"):
    """The kinds of what a reader is shown besides the log."""
    with stator.connect(hooked.path, read_only=True) as store:
        row = store.port.session(session(store, conversation).id)
        return [draft.kind for draft in store.context.unplaced(store.port, row)]


def held(hooked):
    folder = hooked.spool / "held"
    return sorted(os.listdir(folder)) if folder.exists() else []


def test_a_transcript_and_hooks_record_each_item_once_in_the_order_of_the_transcript(
    hooked, transcript
):
    transcript.turn()
    hooked.write(
        *transcript.lines(
            hook_input("sessionStart"), prompt(), before_tool("t1"), after_tool("t1"),
            hook_input("stop"),
        )
    )  # fmt: skip
    assert hooked.kinds() == ["open", "run", "turn", "entry", "call", "outcome"]
    assert held(hooked) == []


def test_what_only_a_hook_has_seen_so_far_is_unplaced(hooked, transcript):
    hooked.write(*transcript.lines(hook_input("sessionStart"), prompt(), before_tool("t1")))
    assert hooked.kinds() == ["open", "run"]
    assert waiting(hooked) == ["turn", "call"]


def test_an_unplaced_item_has_the_id_that_its_commit_gets(hooked, transcript):
    hooked.write(*transcript.lines(hook_input("sessionStart"), prompt(), before_tool("t1")))
    with stator.connect(hooked.path) as store:
        view = session(store)
        before = [d.id for d in store.context.unplaced(store.port, view.row)]
        transcript.turn()
        advance(store.port, view.id)
        assert before == [c.id for c in view.log() if c.kind in ("turn", "call")]


def test_the_end_of_the_transcript_is_unplaced_until_it_is_closed(hooked, transcript):
    transcript.add("Prompted", id="turn/g1", content="do it")
    transcript.add("Answered", id="a1", reply="I will")
    hooked.write(*transcript.lines(hook_input("sessionStart")))
    assert hooked.kinds() == ["open", "run", "turn"]
    assert waiting(hooked) == ["entry"]


def test_a_position_once_shown_stays(hooked, transcript):
    shown: dict[int, str] = {}
    for number in (1, 2, 3):
        hooked.write(*transcript.lines(prompt(number), before_tool(f"t{number}")))
        hooked.kinds()
        transcript.turn(number)
        hooked.write(*transcript.lines(after_tool(f"t{number}"), hook_input("stop")))
        with stator.connect(hooked.path) as store:
            for commit in session(store).log():
                assert shown.setdefault(commit.seq, commit.hash) == commit.hash
    found = hooked.kinds()
    assert [found.count(kind) for kind in ("turn", "entry", "call", "outcome")] == [3, 3, 3, 3]


def test_the_log_of_an_import_is_that_of_the_hooks(hooked, transcript, tmp_path):
    for number in (1, 2):
        hooked.write(*transcript.lines(prompt(number), before_tool(f"t{number}")))
        hooked.kinds()
        transcript.turn(number)
    hooked.write(*transcript.lines(hook_input("sessionEnd")), process=DEAD)
    hooked.kinds()
    with stator.connect(tmp_path / "other.db") as other, stator.connect(hooked.path) as store:
        file = transcript_file.TranscriptFile(
            other.port, other.context, ToyFormat().conversations(transcript.path)[0].conversation,
            str(transcript.path),
        )  # fmt: skip
        file.read(Report(), at_rest=True)
        told = [
            [(c.id, c.kind, c.turn, c.status) for c in session(one).log() if c.origin]
            for one in (store, other)
        ]
        assert [one for one in told[0] if one[1] not in ("run", "pause", "resume")] == told[1]


def test_a_result_that_the_transcript_never_got_lands_when_the_agent_is_dead(hooked, transcript):
    transcript.turn(whole=False)
    hooked.write(*transcript.lines(prompt(), before_tool("t1"), after_tool("t1")), process=DEAD)
    with stator.connect(hooked.path) as store:
        last = list(session(store).log())[-1]
        assert (last.kind, last.cause) == ("outcome", "not in the transcript")
    assert held(hooked) == []


def test_a_session_whose_transcript_is_missing_is_called_after_its_first_prompt(hooked, transcript):
    reported = transcript.lines(hook_input("sessionStart"), prompt(text="water the roses"))
    os.unlink(transcript.path)
    hooked.write(*reported, process=DEAD)
    with stator.connect(hooked.path) as store:
        assert session(store).row.record.name == "water the roses"


def test_files_that_only_a_hook_saw_have_the_paths_of_their_project(hooked, transcript):
    edited = hook_input("afterFileEdit", file_path=str(hooked.root / "src" / "a.py"), edits=[])
    reported = transcript.lines(hook_input("sessionStart"), prompt(), edited)
    os.unlink(transcript.path)
    hooked.write(*reported, process=DEAD)
    with stator.connect(hooked.path) as store:
        assert [file.path for file in session(store).files()] == ["src/a.py"]


def test_a_transcript_from_a_clock_that_is_ahead_comes_to_rest(tmp_path, transcript):
    transcript.add("Prompted", id="turn/g1", content="do it", at=4_000_000_000_000_000)
    transcript.add("Answered", id="a1", reply="I will")
    os.utime(transcript.path, (1, 1))
    (found,) = ToyFormat().conversations(transcript.path)
    with stator.connect(tmp_path / "store.db") as store:
        import_conversation(store.port, store.context, ToyFormat(), found, Report())
        assert kinds(store) == ["open", "turn", "entry"]


def test_a_write_whose_hook_fired_before_a_kill_lands_at_the_end(hooked, transcript):
    transcript.add("Prompted", id="turn/g1", content="do it")
    hooked.write(*transcript.lines(prompt(), before_tool("t1", tool="Write")), process=DEAD)
    with stator.connect(hooked.path) as store:
        last = list(session(store).log())[-1]
        assert (last.kind, last.tool, last.cause) == ("call", "Write", "not in the transcript")


def test_what_landed_is_not_recorded_again_when_the_transcript_tells_it_after_all(
    hooked, transcript
):
    transcript.add("Prompted", id="turn/g1", content="do it")
    hooked.write(*transcript.lines(prompt(), before_tool("t1")), process=DEAD)
    hooked.kinds()
    transcript.add("Called", id="t1", tool="Shell")
    transcript.add("Returned", id="t1", output="ok")
    hooked.write(*transcript.lines(hook_input("sessionStart", source="resume")))
    assert hooked.kinds().count("call") == 1


def test_nothing_lands_while_the_agent_lives(hooked, transcript):
    transcript.add("Prompted", id="turn/g1", content="do it")
    hooked.write(*transcript.lines(prompt(), before_tool("t1")))
    assert "call" not in hooked.kinds()
    assert len(held(hooked)) == 1


def test_a_session_does_not_rest_while_an_agent_lives_whose_start_was_lost(hooked, transcript):
    hooked.write(
        *transcript.lines(hook_input("sessionStart"), hook_input("sessionEnd")), process=DEAD
    )
    hooked.kinds()
    hooked.write(*transcript.lines(prompt(), before_tool("t1")))
    with stator.connect(hooked.path) as store:
        later = store.context.clock() + 2 * SETTLING_US
        assert not at_rest.at_rest(store.port, session(store).row, later)


def test_a_prompt_that_the_transcript_never_got_is_no_turn(hooked, transcript):
    """Turn numbers are those of the transcript."""
    transcript.turn()
    hooked.write(*transcript.lines(prompt(1), prompt(2)), process=DEAD)
    with stator.connect(hooked.path) as store:
        log = list(session(store).log())
        assert [c.turn for c in log if c.kind == "turn"] == [1]
        assert (log[-1].kind, log[-1].actor, log[-1].cause) == (
            "entry", "user", "not in the transcript",
        )  # fmt: skip


def test_a_conversation_whose_transcript_was_never_written_is_recorded_from_its_hooks(
    hooked, tmp_path
):
    lines = [
        {**line, "transcript_path": str(tmp_path / "never.jsonl")}
        for line in (prompt(), before_tool("t1"), after_tool("t1"), hook_input("stop"))
    ]
    hooked.write(*lines, process=DEAD)
    assert hooked.kinds()[1:] == ["turn", "call", "outcome", "turn_end"]


def test_a_call_without_a_result_gets_no_outcome_from_the_end_of_its_agent(hooked, transcript):
    transcript.turn(whole=False)
    hooked.write(
        *transcript.lines(prompt(), before_tool("t1"), hook_input("sessionEnd")), process=DEAD
    )
    found = hooked.kinds()
    assert "outcome" not in found
    assert "turn_end" not in found
    with stator.connect(hooked.path) as store:
        assert [call.status for call in session(store).calls()] == ["in doubt"]


def test_a_prompt_with_a_secret_in_it_is_one_turn(hooked, transcript, monkeypatch):
    """A prompt without an id is identified by its text, in which the hook redacted a secret."""
    made = cursor_hooks.items
    monkeypatch.setattr(
        cursor_hooks,
        "items",
        lambda told, *rest: (
            Prompted(id=f"by text {item.content}", content=item.content)
            if isinstance(item, Prompted)
            else item
            for item in made(told, *rest)
        ),
    )
    secret = "use sk-ant-api03-" + "Ab1" * 20
    transcript.add("Prompted", id=f"by text {secret}", content=secret)
    (line,) = transcript.lines(prompt(text=secret))
    hooked.hook(line)
    found = hooked.kinds()
    assert (found.count("turn"), found.count("entry")) == (1, 0)
    assert held(hooked) == []


def test_a_session_takes_its_name_from_the_transcript(hooked, transcript):
    hooked.write(*transcript.lines(prompt()))
    with stator.connect(hooked.path) as store:
        assert session(store).name == "what the transcript calls it"


def test_a_fork_is_linked_to_its_origin(hooked, tmp_path):
    first = ToyTranscript(tmp_path / "first.jsonl")
    first.turn(1)
    first.turn(2)
    second = ToyTranscript(tmp_path / "second.jsonl", "c2", fork="c1", shared=["turn/g1", "t1"])
    second.turn(1)
    second.turn(3)
    hooked.write(*first.lines(prompt()))
    hooked.write(*second.lines(hook_input("sessionStart", "c2", source="fork"), prompt(3, "c2")))
    with stator.connect(hooked.path) as store:
        fork = session(store, "c2")
        assert fork.row.record.parent is not None
        assert fork.row.record.parent.session == session(store, "c1").id
        assert [c.origin[1] for c in fork.log() if c.kind == "turn"] == ["turn/g1", "turn/g3"]


def test_a_lost_note_is_made_again_and_nothing_is_recorded_twice(hooked, transcript):
    transcript.turn(1)
    hooked.write(*transcript.lines(prompt(1)))
    before = hooked.kinds()
    with stator.connect(hooked.path) as store:
        lose_bookmarks(store)
    transcript.turn(2)
    hooked.write(*transcript.lines(prompt(2)))
    after = hooked.kinds()
    assert after[: len(before)] == before
    assert after[len(before) :] == ["turn_end", "turn", "entry", "call", "outcome"]


def test_reading_that_runs_out_of_time_continues_the_next_time(hooked, transcript, monkeypatch):
    for number in range(1, 6):
        transcript.turn(number)
    hooked.write(*transcript.lines(hook_input("sessionStart")))
    with stator.connect("memory:") as store:
        ticks = iter(range(1_000))
        monkeypatch.setattr(
            ingest, "Intake", lambda s, c, f, limits, r: _hurried(s, c, f, limits, r, ticks)
        )
        done = take_spool(store.port, str(hooked.spool), limits=IngestLimits(seconds=0.1))
        assert not done.is_all
        monkeypatch.undo()
        monkeypatch.setattr(transcript_file, "_format_of", lambda agent: ToyFormat())
        part = kinds(store)
        ingest.advance(
            store.port, worlds(store.port), session(store).id, folders=[str(hooked.spool)]
        )
        assert kinds(store)[: len(part)] == part
        assert kinds(store).count("turn") == 5


_Intake = ingest.Intake


def _hurried(store, context_for, folder, limits, result, ticks):
    made = _Intake(store, context_for, folder, limits, result)
    made._stop = lambda: next(ticks) > 4
    return made


def nothing(path: Path) -> None:
    path.unlink()


def a_fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def another_kind(path: Path) -> None:
    path.write_text("what is this")


def of_another(path: Path) -> None:
    ToyTranscript(path, "c9").turn(9)


@pytest.mark.parametrize("change", [nothing, a_fifo, another_kind, of_another])
def test_an_invalid_transcript_does_not_stop_the_hooks(hooked, transcript, change):
    change(transcript.path)
    hooked.write(
        *transcript.lines(prompt(), before_tool("t1"), after_tool("t1"), hook_input("stop")),
        process=DEAD,
    )
    assert hooked.kinds() == ["open", "turn", "call", "outcome", "turn_end"]
    with stator.connect(hooked.path) as store:
        assert len(list(store.views())) == 1


def test_a_line_that_breaks_its_reader_costs_that_line(hooked, transcript):
    transcript.add("Prompted", id="turn/g1", content="do it")
    transcript.add("no such item")
    transcript.add("Called", id="t1", tool="Shell")
    hooked.write(*transcript.lines(prompt()))
    assert hooked.kinds() == ["open", "turn", "call"]


def test_a_session_without_hooks_has_no_transcript_to_read(hooked):
    with stator.connect(hooked.path) as store:
        with store.open("by hand") as own:
            identifier = own.id
        assert not advance(store.port, identifier)


def test_an_active_session_rests_when_its_process_is_gone(hooked, transcript):
    hooked.write(*transcript.lines(hook_input("sessionStart"), prompt()))
    with stator.connect(hooked.path) as store:
        row = session(store).row
        assert not at_rest.at_rest(store.port, row, store.context.clock())
    hooked.write(*transcript.lines(before_tool("t1")), process=DEAD)
    with stator.connect(hooked.path) as store:
        assert at_rest.at_rest(store.port, session(store).row, store.context.clock())


def test_a_command_that_reads_shows_a_call_in_doubt_as_soon_as_its_agent_is_killed(
    hooked, transcript
):
    transcript.add("Prompted", id="turn/g1", content="do it")
    with subprocess.Popen(["sleep", "600"]) as agent:
        process = agent.pid, start_ticks(agent.pid), namespace()
        hooked.write(*transcript.lines(prompt(), before_tool("t1", tool="Write")), process=process)
        assert "call" not in hooked.kinds()
        agent.kill()
    with open_to_read(str(hooked.path)) as opened:
        assert [call.tool for call in opened.store.calls(statuses=("in doubt",)).rows] == ["Write"]


def test_the_end_of_a_program_comes_after_what_it_did(hooked, transcript):
    hooked.write(*transcript.lines(hook_input("sessionStart")))
    hooked.kinds()
    transcript.turn()
    hooked.write(*transcript.lines(prompt(), hook_input("sessionEnd")))
    assert hooked.kinds() == ["open", "run", "turn", "entry", "call", "outcome", "pause"]


def test_a_file_that_only_a_start_names_is_not_read_in_place_of_the_transcript(
    hooked, transcript, tmp_path
):
    transcript.turn()
    hooked.write(*transcript.lines(hook_input("sessionStart"), prompt()))
    hooked.kinds()
    left = ToyTranscript(tmp_path / "left.jsonl")
    left.add("Prompted", id="turn/g9", content="of a file that was left again")
    hooked.write(*left.lines(hook_input("sessionStart", source="resume")))
    assert hooked.kinds().count("turn") == 1
    with stator.connect(hooked.path) as store:
        assert hook_note(store.port, session(store).id).transcript == str(transcript.path)


def test_a_store_with_unplaced_items_verifies(hooked, transcript):
    transcript.turn()
    hooked.write(*transcript.lines(hook_input("sessionStart"), prompt(2), before_tool("t2")))
    hooked.kinds()
    with stator.connect(hooked.path, read_only=True) as store:
        assert examine(store.port).damages == []
        assert spools(store.port)
