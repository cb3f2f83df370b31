"""Tests that every line of the spool is recorded once and in order, even if a process dies."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import threading
from collections.abc import Callable

import pytest

import stator
from importers.hook_lines import (
    DEAD,
    HookedStore,
    after_tool,
    before_tool,
    conversation_lines,
    hook_input,
    kinds,
    prompt,
    session,
)
from stator.connect import take_spool
from stator.hooks import spool
from stator.hooks.ingest import IngestLimits
from stator.runtime.runs.processes import start_ticks
from stator.surfaces.hook import line_of

WHOLE = ["open", "run", "turn", "call", "outcome", "turn_end", "pause"]


def test_opening_the_store_ingests_the_spool(hooked):
    hooked.write(*conversation_lines())
    assert hooked.kinds() == WHOLE
    assert spool.spooled_files(str(hooked.spool)) == []


def test_lines_written_by_the_program_are_ingested(hooked):
    for line in conversation_lines():
        hooked.hook(line)
    assert hooked.kinds() == WHOLE


def test_a_call_without_an_end_is_in_doubt_when_the_session_ends(hooked):
    hooked.write(
        hook_input("sessionStart"),
        prompt(),
        before_tool("t1", command="pay"),
        hook_input("sessionEnd"),
        process=DEAD,
    )
    assert hooked.kinds() == ["open", "run", "turn", "call", "pause"]
    with stator.connect(hooked.path) as store:
        (call,) = store.calls(statuses=("in doubt",)).rows
        assert call.tool == "Shell"


def test_a_call_without_an_end_is_in_doubt_when_the_agent_restarts(hooked):
    hooked.write(hook_input("sessionStart"), prompt(), before_tool("t1", command="pay"))
    hooked.kinds()
    hooked.write(hook_input("sessionStart", source="resume"))
    with stator.connect(hooked.path) as store:
        assert [row.status for row in store.calls().rows] == ["in doubt"]


def test_a_running_call_is_not_in_doubt(hooked):
    hooked.write(hook_input("sessionStart"), prompt(), before_tool("t1", command="pay"))
    with stator.connect(hooked.path) as store:
        assert [row.status for row in store.calls().rows] == ["started"]


def by(process, *lines):
    """Lines of hooks that a given process ran."""
    return [line_of("cursor", "", json.dumps(line).encode(), process) for line in lines]


def here():
    """This process, in the form that a hook records."""
    return os.getpid(), start_ticks(os.getpid()), os.stat("/proc/self/ns/pid").st_ino


def gone():
    """A process that has ended."""
    pid, born, space = here()
    return pid, born - 1, space


def left_behind(hooked, process):
    hooked.raw(*by(process, hook_input("sessionStart"), prompt(), before_tool("t1", command="pay")))
    hooked.kinds()
    hooked.raw(*by(here(), hook_input("sessionStart", "other")))
    with stator.connect(hooked.path) as store:
        return [row.status for row in store.calls().rows]


def test_a_call_of_a_dead_agent_is_in_doubt_when_another_agent_starts(hooked):
    assert left_behind(hooked, gone()) == ["in doubt"]


def test_a_call_of_a_living_agent_is_not_in_doubt_when_another_agent_starts(hooked):
    assert left_behind(hooked, here()) == ["started"]


def test_an_agent_in_another_container_does_not_count_as_dead(hooked):
    pid, born, _ = gone()
    assert left_behind(hooked, (pid, born, 1)) == ["started"]


def test_start_and_end_of_a_call_in_two_rounds_make_one_call(hooked):
    hooked.write(prompt(), before_tool("t1"))
    hooked.kinds()
    hooked.write(after_tool("t1"), hook_input("stop"))
    assert hooked.kinds() == ["open", "turn", "call", "outcome", "turn_end"]


def test_a_conversation_is_recorded_in_the_project_it_took_place_in(hooked, tmp_path):
    hooked.write(*conversation_lines())
    with stator.connect(hooked.path, project="another") as store:
        assert session(store).row.record.project == str(tmp_path)
        assert session(store).row.record.mode == "recorded"


def test_interleaved_conversations_keep_their_order(hooked):
    both = zip(conversation_lines("c1", 3), conversation_lines("c2", 3), strict=True)
    hooked.write(*(line for pair in both for line in pair))
    assert hooked.kinds("c1") == hooked.kinds("c2") == ["open", "run", *WHOLE[2:6] * 3, "pause"]


def test_lines_in_other_files_are_ordered_by_time(hooked):
    lines = conversation_lines(turns=2)
    for n, line in enumerate(lines):
        hooked.write(line, name="current" if n % 2 else f"own-{len(lines) - n}")
    assert hooked.kinds() == ["open", "run", *WHOLE[2:6] * 2, "pause"]


def test_a_cut_line_is_rejected_and_the_next_one_is_read(hooked):
    hooked.write(*conversation_lines())
    current = hooked.spool / "current"
    data = current.read_bytes().splitlines(keepends=True)
    current.write_bytes(b"".join([data[0], data[1][:40], *data[1:], data[0][:60]]))
    assert hooked.kinds() == WHOLE
    assert (
        sum(len(file.read_bytes().splitlines()) for file in (hooked.spool / "bad").iterdir()) == 2
    )


def test_a_damaged_line_is_rejected(hooked):
    hooked.write(*conversation_lines())
    current = hooked.spool / "current"
    current.write_bytes(current.read_bytes().replace(b'"command": "ls"', b'"command": "rm"'))
    assert hooked.kinds() == ["open", "run", "turn", "call", "outcome", "turn_end", "pause"]
    assert spool.status_of(str(hooked.spool)).bad == 1


def test_a_line_of_an_unknown_agent_is_rejected(hooked):
    hooked.write(prompt(), agent="nobody")
    with stator.connect(hooked.path) as store:
        assert list(store.views()) == []
    assert spool.status_of(str(hooked.spool)).bad == 1


def test_a_line_that_breaks_its_mapper_is_rejected_and_the_rest_is_recorded(hooked, monkeypatch):
    from stator.hooks import cursor

    monkeypatch.setattr(cursor, "_shell", lambda *_: 1 / 0)
    hooked.write(prompt(), hook_input("afterShellExecution"), hook_input("stop"))
    assert hooked.kinds() == ["open", "turn", "turn_end"]
    assert spool.status_of(str(hooked.spool)).bad == 1


def test_rejected_lines_stay_when_their_file_is_read_again(hooked, monkeypatch):
    """A limit leaves the file for the next ingest, which finds another unusable line in it."""
    from stator.hooks import cursor

    monkeypatch.setattr(cursor, "_shell", lambda *_: 1 / 0)
    hooked.write(
        prompt(),
        hook_input("afterShellExecution"),
        hook_input("stop"),
        hook_input("afterShellExecution"),
    )
    with stator.connect("memory:") as store:
        for _ in range(2):
            take_spool(store.port, str(hooked.spool), limits=IngestLimits(lines=3))
        assert spool.status_of(str(hooked.spool)).bad == 1
        take_spool(store.port, str(hooked.spool))
    (kept,) = (hooked.spool / "bad").iterdir()
    assert len(set(kept.read_bytes().splitlines())) == len(kept.read_bytes().splitlines()) == 2


def test_a_line_is_kept_in_bad_before_it_counts_as_read(hooked, monkeypatch):
    from stator.hooks import cursor

    def body() -> None:
        monkeypatch.setattr(cursor, "_shell", lambda *_: 1 / 0)
        monkeypatch.setattr(
            spool.RejectedPieces, "close", lambda _: os.kill(os.getpid(), signal.SIGKILL)
        )
        stator.connect(hooked.path)

    hooked.write(prompt(), hook_input("afterShellExecution"))
    assert in_a_child(body) == -signal.SIGKILL
    hooked.kinds()
    assert spool.status_of(str(hooked.spool)).bad == 1


def test_only_plausible_parts_of_a_torn_line_are_parsed(hooked, monkeypatch):
    """An agent's input may be full of our own mark; parsing from each one would take quadratic
    time."""
    asked: list[int] = []
    parsed = spool.parse_spool_line

    def counted(data: bytes, name: str, end: int) -> spool.SpoolLine | str:
        asked.append(len(data))
        return parsed(data, name, end)

    monkeypatch.setattr(spool, "parse_spool_line", counted)
    hooked.write(hook_input("stop"))
    (line,) = hooked.lines()
    torn = b"stator1 00000000 99 " * 5_000
    first, second = spool._pieces(torn + line + b"\n", "current", 0)
    assert isinstance(first, spool.BadPiece)
    assert isinstance(second, spool.SpoolLine)
    assert (first.raw, len(asked)) == (torn, 2)


def test_ingest_waits_for_a_hook_that_is_writing(hooked):
    """Its file contains lines that are older than those in other files."""
    hooked.write(before_tool("t1"))
    hooked.write(after_tool("t1"), name="own-1")
    with open(hooked.spool / "current", "ab") as writing:
        fcntl.flock(writing, fcntl.LOCK_SH)
        with spool.ClaimedFiles(
            str(hooked.spool), now=1, unique=iter("ab").__next__, wait_s=1,
            sleep=lambda _: fcntl.flock(writing, fcntl.LOCK_UN),
        ) as taken:  # fmt: skip
            assert (len(taken.files), taken.skipped) == (2, 0)


def test_an_invalid_conversation_id_does_not_block_the_others(hooked):
    """A lone surrogate as a conversation id cannot be passed to a store."""
    hooked.write(prompt(1, "\ud800"), *conversation_lines())
    hooked.write(prompt(2, "\ud800"))
    assert hooked.kinds() == WHOLE
    assert hooked.kinds("\ud800") == ["open", "turn", "turn_end", "turn"]
    assert hooked.lines() == []


@pytest.mark.parametrize("rounds", [1, 5])
def test_a_repeated_call_line_does_not_reopen_a_finished_call(hooked, rounds):
    """Otherwise the end of the session marks the call as in doubt, and its repeated end settles a
    missing call."""
    lines = [
        after_tool("t1"),
        before_tool("t1"),
        hook_input("sessionEnd"),
        after_tool("t1"),
        prompt(),
    ]
    for n in range(rounds):
        hooked.write(*(lines if rounds == 1 else lines[n : n + 1]))
        stator.connect(hooked.path).close()
    assert hooked.kinds() == ["open", "call", "outcome", "pause", "turn"]
    assert spool.status_of(str(hooked.spool)).bad == 0


def test_a_failing_store_leaves_the_spool_unchanged(hooked, monkeypatch):
    from stator.errors import StoreFull
    from stator.store.postgres import PostgresStore
    from stator.store.sqlite import SqliteStore

    def full(*args, **options):
        raise StoreFull("the disk is full")

    hooked.write(*conversation_lines())
    with monkeypatch.context() as patched:
        for kind in (SqliteStore, PostgresStore):
            patched.setattr(kind, "append", full)
            patched.setattr(kind, "create", full)
        with pytest.warns(RuntimeWarning, match="the disk is full"):
            stator.connect(hooked.path).close()
    assert hooked.kinds() == WHOLE


def test_a_line_limit_leaves_the_rest_for_the_next_ingest(hooked):
    hooked.write(*conversation_lines(turns=3))
    with stator.connect("memory:") as store:
        done = take_spool(store.port, str(hooked.spool), limits=IngestLimits(lines=4))
        assert (done.lines, done.is_all) == (4, False)
        assert kinds(store) == ["open", "run", "turn", "call", "outcome"]
        take_spool(store.port, str(hooked.spool))
        assert kinds(store) == ["open", "run", *WHOLE[2:6] * 3, "pause"]


def test_a_file_locked_by_a_hook_is_left_for_the_next_ingest(hooked):
    hooked.write(*conversation_lines())
    with open(hooked.spool / "current", "ab") as writing:
        fcntl.flock(writing, fcntl.LOCK_SH)
        with stator.connect(hooked.path) as store:
            assert list(store.views()) == []
    assert hooked.kinds() == WHOLE


def test_only_one_process_ingests_at_a_time(hooked):
    hooked.write(*conversation_lines())
    nothing = IngestLimits(wait_s=0)
    with (
        spool.exclusive(str(hooked.spool), sleep=lambda _: None) as mine,
        stator.connect("memory:") as s,
    ):
        assert mine
        assert not take_spool(s.port, str(hooked.spool), limits=nothing).is_all
    assert hooked.kinds() == WHOLE


def test_concurrent_hooks_and_ingests_lose_and_duplicate_nothing(hooked):
    """Ten conversations of fifty calls each, written while the spool is ingested repeatedly."""
    from stator.surfaces import hook

    done = threading.Event()
    hooked.spool.mkdir(mode=0o700)

    def agent(name: str) -> None:
        for n in range(25):
            for line in (before_tool(f"{name}-{n}", name), after_tool(f"{name}-{n}", name)):
                data = hook.line_of("cursor", str(hooked.root), json.dumps(line).encode())
                hook._append(str(hooked.spool), data, durable=False)

    def taking() -> None:
        while not done.is_set():
            stator.connect(hooked.path).close()

    taker = threading.Thread(target=taking)
    agents = [threading.Thread(target=agent, args=(f"c{n}",)) for n in range(10)]
    for thread in (taker, *agents):
        thread.start()
    for thread in agents:
        thread.join()
    done.set()
    taker.join()
    with stator.connect(hooked.path) as store:
        for n in range(10):
            assert kinds(store, f"c{n}") == ["open", *["call", "outcome"] * 25]


# -- processes that are killed --------------------------------------------------------------------


def in_a_child(body: Callable[[], None]) -> int:
    """The signal that killed a child process, or 0."""
    child = os.fork()
    if not child:
        try:
            body()
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def dying(at: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kill this process before or after the nth operation that changes the disk."""
    from stator.store.sqlite import SqliteStore

    passed = 0

    def mortal(inner):
        def called(*args, **options):
            nonlocal passed
            for act in (None, inner):
                answer = act(*args, **options) if act else None
                if passed == at:
                    os.kill(os.getpid(), signal.SIGKILL)
                passed += 1
            return answer

        return called

    for owner, name in (
        (os, "rename"),
        (os, "unlink"),
        (SqliteStore, "append"),
        (SqliteStore, "create"),
        (SqliteStore, "sync"),
        (spool.RejectedPieces, "close"),
    ):
        monkeypatch.setattr(owner, name, mortal(getattr(owner, name)))


def test_an_ingest_killed_at_any_step_loses_and_duplicates_nothing(tmp_path, monkeypatch):
    expected = ["open", "run", "turn", "call", "outcome", "compaction", "turn_end", "pause"]
    at = 0
    while True:
        (tmp_path / str(at)).mkdir()
        hooked = HookedStore(tmp_path / str(at))
        hooked.write(hook_input("sessionStart"), prompt(), before_tool("t1"))
        hooked.write(after_tool("t1"), hook_input("preCompact"), name="own-1")
        hooked.write(hook_input("stop"), hook_input("sessionEnd"), name="own-2")
        with open(hooked.spool / "own-2", "ab") as file:
            file.write(b"stator1 cut off")

        def body(hooked=hooked, at=at) -> None:
            with monkeypatch.context() as patched:
                dying(at, patched)
                stator.connect(hooked.path).close()

        died = in_a_child(body)
        assert hooked.kinds() == expected, f"killed at {at}"
        assert spool.status_of(str(hooked.spool)) == spool.SpoolStatus(bad=1)
        if died != -signal.SIGKILL:
            break
        at += 1
    assert at > 10
