"""From the spool to the store: each line once and in order, whoever dies on the way."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import threading
from collections.abc import Callable

import pytest

import stator
from importers.hooking import Hooked, kinds, post, pre, prompt, said, session, talk
from stator.connect import take_spool
from stator.hooks import spool
from stator.hooks.ingest import IngestLimits
from stator.runtime.runs.processes import start_ticks
from stator.surfaces.hook import line_of

WHOLE = ["open", "run", "turn", "call", "outcome", "turn_end", "pause"]


def test_the_next_to_open_the_store_takes_the_spool_in(hooked):
    hooked.write(*talk())
    assert hooked.kinds() == WHOLE
    assert spool.spooled_files(str(hooked.spool)) == []


def test_what_the_program_wrote_is_what_is_taken_in(hooked):
    for line in talk():
        hooked.hook(line)
    assert hooked.kinds() == WHOLE


def test_a_call_whose_end_was_never_told_is_in_doubt_when_the_session_ends(hooked):
    hooked.write(said("sessionStart"), prompt(), pre("t1", command="pay"), said("sessionEnd"))
    with stator.connect(hooked.path) as store:
        (call,) = store.calls(statuses=("in doubt",)).rows
        assert call.tool == "Shell"


def test_a_call_whose_end_was_never_told_is_in_doubt_when_the_agent_starts_again(hooked):
    hooked.write(said("sessionStart"), prompt(), pre("t1", command="pay"))
    hooked.kinds()
    hooked.write(said("sessionStart", source="resume"))
    with stator.connect(hooked.path) as store:
        assert [row.status for row in store.calls().rows] == ["in doubt"]


def test_a_call_that_runs_is_not_in_doubt(hooked):
    hooked.write(said("sessionStart"), prompt(), pre("t1", command="pay"))
    with stator.connect(hooked.path) as store:
        assert [row.status for row in store.calls().rows] == ["started"]


def by(process, *lines):
    """Lines of hooks that a process ran."""
    return [line_of("cursor", "", json.dumps(line).encode(), process) for line in lines]


def here():
    """This process, as a hook that it ran would name it."""
    return os.getpid(), start_ticks(os.getpid()), os.stat("/proc/self/ns/pid").st_ino


def gone():
    """A process that is no more."""
    pid, born, space = here()
    return pid, born - 1, space


def left_behind(hooked, process):
    hooked.raw(*by(process, said("sessionStart"), prompt(), pre("t1", command="pay")))
    hooked.kinds()
    hooked.raw(*by(here(), said("sessionStart", "other")))
    with stator.connect(hooked.path) as store:
        return [row.status for row in store.calls().rows]


def test_a_call_of_an_agent_that_died_is_in_doubt_when_another_one_starts(hooked):
    assert left_behind(hooked, gone()) == ["in doubt"]


def test_a_call_of_an_agent_that_lives_is_not_in_doubt_when_another_one_starts(hooked):
    assert left_behind(hooked, here()) == ["started"]


def test_an_agent_in_another_container_is_not_taken_for_dead(hooked):
    pid, born, _ = gone()
    assert left_behind(hooked, (pid, born, 1)) == ["started"]


def test_two_halves_of_a_call_in_two_rounds_are_one_call(hooked):
    hooked.write(prompt(), pre("t1"))
    hooked.kinds()
    hooked.write(post("t1"), said("stop"))
    assert hooked.kinds() == ["open", "turn", "call", "outcome", "turn_end"]


def test_a_conversation_is_found_in_the_project_it_took_place_in(hooked, tmp_path):
    hooked.write(*talk())
    with stator.connect(hooked.path, project="another") as store:
        assert session(store).row.record.project == str(tmp_path)
        assert session(store).row.record.mode == "recorded"


def test_several_conversations_side_by_side_keep_their_order(hooked):
    both = zip(talk("c1", 3), talk("c2", 3), strict=True)
    hooked.write(*(line for pair in both for line in pair))
    assert hooked.kinds("c1") == hooked.kinds("c2") == ["open", "run", *WHOLE[2:6] * 3, "pause"]


def test_files_of_their_own_come_where_their_time_was(hooked):
    lines = talk(turns=2)
    for n, line in enumerate(lines):
        hooked.write(line, name="current" if n % 2 else f"own-{len(lines) - n}")
    assert hooked.kinds() == ["open", "run", *WHOLE[2:6] * 2, "pause"]


def test_a_line_that_was_cut_off_is_set_aside_and_the_next_is_read(hooked):
    hooked.write(*talk())
    current = hooked.spool / "current"
    data = current.read_bytes().splitlines(keepends=True)
    current.write_bytes(b"".join([data[0], data[1][:40], *data[1:], data[0][:60]]))
    assert hooked.kinds() == WHOLE
    assert (
        sum(len(file.read_bytes().splitlines()) for file in (hooked.spool / "bad").iterdir()) == 2
    )


def test_a_damaged_line_is_set_aside(hooked):
    hooked.write(*talk())
    current = hooked.spool / "current"
    current.write_bytes(current.read_bytes().replace(b'"command": "ls"', b'"command": "rm"'))
    assert hooked.kinds() == ["open", "run", "turn", "call", "outcome", "turn_end", "pause"]
    assert spool.status_of(str(hooked.spool)).bad == 1


def test_a_line_of_an_unknown_agent_is_set_aside(hooked):
    hooked.write(prompt(), agent="nobody")
    with stator.connect(hooked.path) as store:
        assert list(store.views()) == []
    assert spool.status_of(str(hooked.spool)).bad == 1


def test_what_a_mapper_cannot_read_is_set_aside_and_the_rest_taken(hooked, monkeypatch):
    from stator.hooks import cursor

    monkeypatch.setattr(cursor, "_shell", lambda *_: 1 / 0)
    hooked.write(prompt(), said("afterShellExecution"), said("stop"))
    assert hooked.kinds() == ["open", "turn", "turn_end"]
    assert spool.status_of(str(hooked.spool)).bad == 1


def test_what_was_set_aside_stays_when_its_file_is_read_again(hooked, monkeypatch):
    """A limit leaves the file for the next, who finds another line in it that cannot be used."""
    from stator.hooks import cursor

    monkeypatch.setattr(cursor, "_shell", lambda *_: 1 / 0)
    hooked.write(prompt(), said("afterShellExecution"), said("stop"), said("afterShellExecution"))
    with stator.connect("memory:") as store:
        for _ in range(2):
            take_spool(store.port, str(hooked.spool), limits=IngestLimits(lines=3))
        assert spool.status_of(str(hooked.spool)).bad == 1
        take_spool(store.port, str(hooked.spool))
    (kept,) = (hooked.spool / "bad").iterdir()
    assert len(set(kept.read_bytes().splitlines())) == len(kept.read_bytes().splitlines()) == 2


def test_a_line_is_set_aside_before_it_is_noted_as_read(hooked, monkeypatch):
    from stator.hooks import cursor

    def body() -> None:
        monkeypatch.setattr(cursor, "_shell", lambda *_: 1 / 0)
        monkeypatch.setattr(
            spool.RejectedPieces, "close", lambda _: os.kill(os.getpid(), signal.SIGKILL)
        )
        stator.connect(hooked.path)

    hooked.write(prompt(), said("afterShellExecution"))
    assert in_a_child(body) == -signal.SIGKILL
    hooked.kinds()
    assert spool.status_of(str(hooked.spool)).bad == 1


def test_of_a_torn_line_only_what_may_be_one_is_read(hooked, monkeypatch):
    """What an agent read may be full of our own mark: of each, reading the rest takes forever."""
    asked: list[int] = []
    parsed = spool.parse_spool_line

    def counted(data: bytes, name: str, end: int) -> spool.SpoolLine | str:
        asked.append(len(data))
        return parsed(data, name, end)

    monkeypatch.setattr(spool, "parse_spool_line", counted)
    hooked.write(said("stop"))
    (line,) = hooked.lines()
    torn = b"stator1 00000000 99 " * 5_000
    first, second = spool._pieces(torn + line + b"\n", "current", 0)
    assert isinstance(first, spool.BadPiece)
    assert isinstance(second, spool.SpoolLine)
    assert (first.raw, len(asked)) == (torn, 2)


def test_a_hook_that_is_writing_is_waited_for(hooked):
    """What it writes to holds what came before the lines of other files."""
    hooked.write(pre("t1"))
    hooked.write(post("t1"), name="own-1")
    with open(hooked.spool / "current", "ab") as writing:
        fcntl.flock(writing, fcntl.LOCK_SH)
        with spool.ClaimedFiles(
            str(hooked.spool), now=1, unique=iter("ab").__next__, wait_s=1,
            sleep=lambda _: fcntl.flock(writing, fcntl.LOCK_UN),
        ) as taken:  # fmt: skip
            assert (len(taken.files), taken.skipped) == (2, 0)


def test_a_name_that_is_no_text_does_not_hold_the_others_up(hooked):
    """Half a character as the id of a conversation: no store can be asked for that."""
    hooked.write(prompt(1, "\ud800"), *talk())
    hooked.write(prompt(2, "\ud800"))
    assert hooked.kinds() == WHOLE
    assert hooked.kinds("\ud800") == ["open", "turn", "turn_end", "turn"]
    assert hooked.lines() == []


@pytest.mark.parametrize("rounds", [1, 5])
def test_a_call_that_is_told_again_after_its_end_is_not_open_again(hooked, rounds):
    """Else the end of the session leaves it in doubt, and its end, told again, settles what is not there."""
    lines = [post("t1"), pre("t1"), said("sessionEnd"), post("t1"), prompt()]
    for n in range(rounds):
        hooked.write(*(lines if rounds == 1 else lines[n : n + 1]))
        stator.connect(hooked.path).close()
    assert hooked.kinds() == ["open", "call", "outcome", "pause", "turn"]
    assert spool.status_of(str(hooked.spool)).bad == 0


def test_a_closed_session_takes_no_more_lines(hooked):
    hooked.write(*talk())
    with stator.connect(hooked.path) as store:
        store.contribute(session(store).id).close()
    hooked.write(prompt(2))
    assert hooked.kinds()[-1] == "close"
    assert spool.status_of(str(hooked.spool)).bad == 1


def test_a_store_that_cannot_take_it_leaves_the_spool_as_it_is(hooked, monkeypatch):
    from stator.errors import StoreFull
    from stator.store.sqlite import SqliteStore

    def full(*args, **options):
        raise StoreFull("the disk is full")

    hooked.write(*talk())
    with monkeypatch.context() as patched:
        patched.setattr(SqliteStore, "append", full)
        with pytest.warns(RuntimeWarning, match="the disk is full"):
            stator.connect(hooked.path).close()
    assert hooked.kinds() == WHOLE


def test_a_limit_leaves_the_rest_for_the_next(hooked):
    hooked.write(*talk(turns=3))
    with stator.connect("memory:") as store:
        done = take_spool(store.port, str(hooked.spool), limits=IngestLimits(lines=4))
        assert (done.lines, done.is_all) == (4, False)
        assert kinds(store) == ["open", "run", "turn", "call", "outcome"]
        take_spool(store.port, str(hooked.spool))
        assert kinds(store) == ["open", "run", *WHOLE[2:6] * 3, "pause"]


def test_a_file_that_a_hook_is_writing_to_is_left_for_the_next(hooked):
    hooked.write(*talk())
    with open(hooked.spool / "current", "ab") as writing:
        fcntl.flock(writing, fcntl.LOCK_SH)
        with stator.connect(hooked.path) as store:
            assert list(store.views()) == []
    assert hooked.kinds() == WHOLE


def test_one_takes_the_spool_in_at_a_time(hooked):
    hooked.write(*talk())
    nothing = IngestLimits(wait_s=0)
    with (
        spool.exclusive(str(hooked.spool), sleep=lambda _: None) as mine,
        stator.connect("memory:") as s,
    ):
        assert mine
        assert not take_spool(s.port, str(hooked.spool), limits=nothing).is_all
    assert hooked.kinds() == WHOLE


def test_hooks_and_takers_at_once_lose_and_double_nothing(hooked):
    """Ten conversations of fifty calls each, written while the spool is taken in again and again."""
    from stator.surfaces import hook

    done = threading.Event()
    hooked.spool.mkdir(mode=0o700)

    def agent(name: str) -> None:
        for n in range(25):
            for line in (pre(f"{name}-{n}", name), post(f"{name}-{n}", name)):
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


# -- whoever dies on the way ----------------------------------------------------------------------


def in_a_child(body: Callable[[], None]) -> int:
    """The signal a child died of, or 0."""
    child = os.fork()
    if not child:
        try:
            body()
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def dying(at: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Die before or after the nth thing that leaves a trace."""
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


def test_whoever_is_killed_while_taking_it_in_loses_and_doubles_nothing(tmp_path, monkeypatch):
    expected = ["open", "run", "turn", "call", "outcome", "compaction", "turn_end", "pause"]
    at = 0
    while True:
        (tmp_path / str(at)).mkdir()
        hooked = Hooked(tmp_path / str(at))
        hooked.write(said("sessionStart"), prompt(), pre("t1"))
        hooked.write(post("t1"), said("preCompact"), name="own-1")
        hooked.write(said("stop"), said("sessionEnd"), name="own-2")
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
