"""Detached runs: real programs under real supervisors, really killed."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap

import msgspec
import pytest

import stator
from stator.errors import Ambiguous, BadType, Busy, InvalidInput, NotFound, StoreFailed
from stator.model.sessions.detached_run import SEGMENT, SEGMENTS
from stator.runtime.facade import run as runs
from stator.runtime.runs.folder import OutputWriter, RunFiles, boot_id
from stator.runtime.runs.processes import is_child, start_ticks
from waiting import eventually

AGENT = """
import os, sys, time
import stator

def wait_for(name):
    while not os.path.exists(name):
        time.sleep(0.01)

@stator.tool(effect="read")
def look(n):
    return n

@stator.tool(effect="write")
def pay(amount):
    open("paying", "w").close()
    wait_for("paid")
    return amount

def work(turns):
    with stator.open() as s:
        for n in range(turns):
            with s.turn(f"turn {n}") as t:
                t.plan("look", "done")
                t.call(look, n=n)
        print("worked", turns, flush=True)

def pay_five():
    with stator.open() as s, s.turn("pay") as t:
        t.call(pay, amount=5)

def die_once():
    with stator.open() as s, s.turn("go") as t:
        t.call(look, n=1)
        if not os.path.exists("died"):
            open("died", "w").close()
            os.kill(os.getpid(), 9)

async def alone(name):
    async with stator.aio.connect() as store:
        async with store.open("async", project="shop") as s, s.turn(name):
            pass

class Agent:
    @staticmethod
    def method():
        print("from a class")

def outer():
    def inner():
        pass
    return inner
"""


@pytest.fixture
def agent(tmp_path, monkeypatch):
    """A separate module that another process can import."""
    (tmp_path / "run_agent.py").write_text(AGENT)
    monkeypatch.syspath_prepend(str(tmp_path))
    import run_agent  # type: ignore[import-not-found]

    yield run_agent
    del sys.modules["run_agent"]


@pytest.fixture(autouse=True)
def nothing_left(store):
    """No test leaves a process behind."""
    yield
    for run in store.runs():
        run.stop(grace_s=0)


def script(store, text, **options):
    """Run a Python program given as text."""
    command = [sys.executable, "-c", textwrap.dedent(text)]
    return runs.start(store.port, store.context, command, **options)


def kill_supervisor(run):
    os.kill(run.info.supervisor, signal.SIGKILL)
    eventually(lambda: run.status == "lost")


# -- a program and its session --------------------------------------------------------------------


def test_a_function_runs_in_its_own_process_and_drives_its_session(store, agent):
    run = store.run(agent.work, 3)
    assert run.wait() == "done"
    assert len(run.view.turns()) == 3
    assert run.view.name == run.info.name == f"work-{run.id[-8:]}"
    assert run.output().text == "worked 3\n"
    assert run.info.child != os.getpid()


def test_the_environment_of_the_program_names_its_store_session_and_run(store):
    names = ("STATOR_STORE", "STATOR_SESSION", "STATOR_RUN")
    run = script(store, f"import os; print(*[os.environ[n] for n in {names!r}])")
    assert run.wait() == "done"
    path = os.path.abspath(store.info().detail["path"])
    assert run.output().text.split() == [path, run.info.session, run.id]


def test_a_run_can_use_an_existing_session(store, agent):
    with store.open("mine") as s:
        pass
    run = store.run(agent.work, 1, session="mine")
    assert run.wait() == "done"
    assert run.info.session == s.id
    assert store.read("mine").row.turns == 1


def test_a_coroutine_function_runs_on_an_event_loop(store, agent):
    assert store.run(agent.alone, "one").wait() == "done"
    assert store.read("async").row.turns == 1


def test_a_function_inside_a_class_can_run(store, agent):
    run = store.run(agent.Agent.method)
    assert run.wait() == "done"
    assert run.output().text == "from a class\n"


def test_a_function_of_the_main_program_is_found_by_its_path(store, tmp_path):
    path = store.info().detail["path"]
    (tmp_path / "main_program.py").write_text(
        textwrap.dedent(f"""
        import stator

        def task(words):
            print("here", *words)

        if __name__ == "__main__":
            run = stator.connect({path!r}).run(task, ["a", "b"])
            print(run.id)
        """)
    )
    done = subprocess.run(
        [sys.executable, "main_program.py"], capture_output=True, text=True, check=True
    )
    run = store.attach(done.stdout.strip())
    assert run.wait() == "done"
    assert run.output().text == "here a b\n"


def test_a_builtin_function_can_run(store):
    run = store.run(print, "hello")
    assert run.wait() == "done"
    assert run.output().text == "hello\n"


@pytest.mark.parametrize("function", [lambda: 1, "text", 5], ids=["lambda", "text", "number"])
def test_a_function_that_another_process_cannot_import_is_refused(store, function):
    with pytest.raises(BadType, match="by its name"):
        store.run(function)
    assert store.runs() == []


def test_a_nested_function_is_refused(store, agent):
    with pytest.raises(BadType, match="by its name"):
        store.run(agent.outer())


@pytest.mark.parametrize(
    "argument",
    [(1, 2), {1: 2}, {"a"}, float("nan"), b"x", object()],
    ids=lambda a: type(a).__name__,
)
def test_arguments_that_json_would_change_are_refused(store, agent, argument):
    with pytest.raises(BadType, match="JSON"):
        store.run(agent.work, argument)


def test_a_memory_store_cannot_start_runs(memory, agent):
    with pytest.raises(InvalidInput, match="memory store"):
        memory.run(agent.work, 1)


# -- starting -------------------------------------------------------------------------------------


def test_starting_a_missing_program_is_not_found_and_records_nothing(store):
    with pytest.raises(NotFound, match="no program 'nosuch'"):
        runs.start(store.port, store.context, ["nosuch"])
    assert store.runs() == []
    assert store.sessions().rows == []


def test_starting_a_file_that_cannot_run_is_refused_and_records_nothing(store, tmp_path):
    odd = tmp_path / "odd"
    odd.write_bytes(b"\x00\x01 no program")
    odd.chmod(0o755)
    with pytest.raises(InvalidInput, match="cannot run it: Exec format error"):
        runs.start(store.port, store.context, [str(odd)])
    assert store.runs() == []


@pytest.mark.parametrize("command", [[], [""], ["x\0y"], ["x"] * 2000, ["x", "\udcff"]])
def test_an_invalid_command_is_refused(store, command):
    with pytest.raises(InvalidInput):
        runs.start(store.port, store.context, command)


def test_the_error_of_a_supervisor_that_cannot_start_has_the_reason(store):
    run = script(store, "pass")
    run.wait()
    os.unlink(run.files.path("control"))
    os.mkdir(run.files.path("control"))
    with pytest.raises(StoreFailed, match="the supervisor did not start: "):
        run.again()
    assert run.status == "failed"
    os.rmdir(run.files.path("control"))


def test_only_its_owner_can_read_a_run_folder(store):
    run = script(store, "print(1)")
    run.wait()
    assert os.stat(run.files.folder).st_mode & 0o777 == 0o700
    for name in os.listdir(run.files.folder):
        assert os.stat(run.files.path(name)).st_mode & 0o077 == 0


def test_the_supervisor_is_not_a_child_of_the_starter(store):
    run = script(store, "import time; time.sleep(600)")
    with pytest.raises(ChildProcessError):
        os.waitpid(run.info.supervisor, os.WNOHANG)
    assert run.stop(grace_s=0) == "stopped"


def test_the_program_does_not_inherit_the_lock(store):
    # A program that outlives its supervisor must not make it look alive.
    run = script(
        store,
        "import os, time; print(sorted(os.listdir('/proc/self/fd')), flush=True); time.sleep(600)",
    )
    printed = eventually(lambda: run.output().text)
    assert (
        len(msgspec.json.decode(printed.replace("'", '"'))) <= 4
    )  # 0, 1, 2 and the listing itself
    kill_supervisor(run)


# -- two at once ----------------------------------------------------------------------------------


def test_two_concurrent_runs_have_separate_sessions(store, agent):
    first, second = store.run(agent.work, 3), store.run(agent.work, 4)
    assert (first.wait(), second.wait()) == ("done", "done")
    assert first.info.session != second.info.session
    assert (first.view.row.turns, second.view.row.turns) == (3, 4)


def test_a_session_has_one_run_at_a_time(store):
    first = script(store, "import time; time.sleep(600)", session="mine")
    with pytest.raises(Busy, match=f"driven by run r_{first.id[-8:]}"):
        script(store, "pass", session="mine")
    first.stop(grace_s=0)
    assert script(store, "pass", session="mine").wait() == "done"


def test_starting_a_run_in_a_driven_session_is_busy(store, agent):
    with store.open("mine"), pytest.raises(Busy, match="is driven by"):
        store.run(agent.work, 1, session="mine")
    assert store.runs() == []


# -- how it ends ----------------------------------------------------------------------------------


def test_a_failed_program_is_recorded_with_its_exit_code(store):
    run = script(store, "raise SystemExit(7)")
    assert run.wait() == "failed"
    assert (run.info.exit, run.info.reason, run.info.cause) == (7, "error", "exit 7")


def test_a_killed_program_is_recorded_as_failed(store):
    run = script(store, "import time; time.sleep(600)")
    os.kill(run.info.child, signal.SIGTERM)
    assert run.wait() == "failed"
    assert (run.info.reason, run.info.cause) == ("process died", "killed by SIGTERM")


def test_a_terminated_supervisor_ends_the_program_and_records_the_cause(store):
    run = script(store, "import time; time.sleep(600)")
    os.kill(run.info.supervisor, signal.SIGTERM)
    assert run.wait() == "failed"
    assert run.info.cause == "its supervisor was told to end (SIGTERM)"


def test_stop_ends_the_program_and_its_child_processes(store):
    run = script(
        store,
        """
        import os, signal, subprocess, sys, time
        deaf = "import signal, time; signal.signal(15, signal.SIG_IGN); print('deaf', flush=True); time.sleep(600)"
        child = subprocess.Popen([sys.executable, "-c", deaf])
        print(child.pid, flush=True)
        time.sleep(600)
        """,
    )
    eventually(lambda: "deaf" in run.output().text)
    grandchild = int(run.output().text.replace("deaf", " ").split()[0])
    assert run.stop() == "stopped"
    assert run.info.reason == "user"
    assert run.info.cause == f"stopped by {store.context.principal}"
    eventually(lambda: start_ticks(grandchild) == 0)


def test_a_program_that_ignores_the_stop_is_killed_after_the_grace_period(store):
    run = script(
        store,
        "import signal, time; signal.signal(15, signal.SIG_IGN); print('deaf', flush=True); time.sleep(600)",
    )
    eventually(lambda: run.output().data)
    assert run.stop(grace_s=0.1) == "stopped"
    assert run.info.signal == signal.SIGKILL


def test_stopping_an_ended_run_changes_nothing(store):
    run = script(store, "pass")
    run.wait()
    before = run.info
    assert run.stop() == "done"
    assert run.info == before


@pytest.mark.parametrize("grace", [-1, float("nan"), 10**9])
def test_an_invalid_grace_period_is_refused(store, grace):
    run = script(store, "pass")
    with pytest.raises(InvalidInput, match="grace"):
        run.stop(grace_s=grace)
    run.wait()


def test_waiting_can_time_out(store):
    run = script(store, "import time; time.sleep(600)")
    assert run.wait(0.1) == "running"


# -- lost -----------------------------------------------------------------------------------------


def test_a_run_whose_supervisor_was_killed_is_lost_and_names_its_last_commit(store, agent):
    run = store.run(agent.pay_five)
    eventually(lambda: os.path.exists("paying"))
    kill_supervisor(run)
    standing = run.standing()
    assert standing.status == "lost"
    assert standing.cause == "its supervisor was killed"
    assert standing.last is not None
    assert standing.last.kind == "call"
    assert standing.last.seq == run.view.head.seq
    assert [call.tool for call in standing.unfinished] == ["pay"]
    assert standing.orphaned


def test_a_lost_program_that_still_runs_can_be_stopped(store, agent):
    run = store.run(agent.pay_five)
    eventually(lambda: os.path.exists("paying"))
    kill_supervisor(run)
    assert run.stop() == "stopped"
    assert not is_child(run.info, boot_id())
    assert run.info.reason == "user"


def test_a_lost_run_cannot_restart_while_its_program_runs(store, agent):
    run = store.run(agent.pay_five)
    eventually(lambda: os.path.exists("paying"))
    kill_supervisor(run)
    with pytest.raises(Busy, match="is still running"):
        run.again()


def test_after_a_reboot_a_run_is_lost_and_no_process_is_mistaken_for_its_program(store):
    run = script(store, "import time; time.sleep(600)")
    kill_supervisor(run)
    real = run.info
    run.files.write(msgspec.structs.replace(real, boot="another start of the machine"))
    standing = run.standing()
    assert (standing.status, standing.cause) == ("lost", "the machine was restarted")
    assert not standing.orphaned
    assert run.stop() == "lost"
    assert is_child(real, boot_id()), "a process of this boot was signalled for a run of another"
    run.files.write(real)


def test_a_process_that_reused_the_pid_of_a_lost_program_is_not_stopped(store):
    run = script(store, "import time; time.sleep(600)")
    kill_supervisor(run)
    real = run.info
    run.files.write(msgspec.structs.replace(real, child_start=real.child_start + 1))
    assert run.stop() == "lost"
    assert is_child(real, boot_id())
    run.files.write(real)


# -- starting again -------------------------------------------------------------------------------


def test_a_failed_program_is_restarted_by_policy_and_its_log_continues(store, agent):
    run = store.run(agent.die_once, restart="on-failure:2")
    kinds = [
        (commit.kind, commit.status, commit.cause)
        for commit in run.view.tail(0, until=lambda: run.status != "running")
    ]
    assert run.status == "done"
    assert run.info.restarts == 1
    assert ("turn_end", "interrupted", "process died") in kinds
    assert len(kinds) == run.view.head.seq


def test_a_program_that_keeps_failing_is_not_restarted_forever(store):
    run = script(store, "print('again', flush=True); raise SystemExit(1)", restart="on-failure:1")
    assert run.wait() == "failed"
    assert run.info.restarts == 1
    assert run.output().text == "again\nagain\n"


def test_a_run_waiting_for_its_restart_can_be_stopped(store):
    run = script(store, "raise SystemExit(1)", restart="on-failure:1000")
    eventually(lambda: run.info.restarts >= 1)
    assert run.stop() == "stopped"


def test_an_ended_run_can_be_started_again_in_its_session(store, agent):
    run = store.run(agent.work, 2)
    run.wait()
    run.again()
    assert run.wait() == "done"
    assert run.info.restarts == 1
    assert run.view.row.turns == 4
    assert run.output().text == "worked 2\nworked 2\n"


def test_a_running_run_cannot_be_started_again(store):
    run = script(store, "import time; time.sleep(600)")
    with pytest.raises(Busy, match="is running"):
        run.again()


def test_restarting_a_program_that_was_removed_is_a_failure(store, tmp_path):
    path = tmp_path / "once"
    path.write_text("#!/bin/sh\nexit 0\n")
    path.chmod(0o755)
    run = runs.start(store.port, store.context, [str(path)])
    run.wait()
    path.unlink()
    with pytest.raises(InvalidInput, match="No such file"):
        run.again()
    assert (run.status, run.info.reason) == ("failed", "error")


# -- output ---------------------------------------------------------------------------------------


def test_output_can_be_read_from_a_cursor(store):
    run = script(store, "print('one'); print('two')")
    run.wait()
    first = run.output()
    assert first.cursor == 8
    assert run.output(4).text == "two\n"
    assert run.output(8).data == b""


def test_stdout_and_stderr_are_kept_in_order(store):
    run = script(
        store, "import sys; print('out', flush=True); print('err', file=sys.stderr, flush=True)"
    )
    run.wait()
    assert run.output().text == "out\nerr\n"


def test_output_is_bounded_and_a_late_reader_sees_how_much_was_dropped(store):
    lines, width = 40_000, 100
    run = script(store, f"for n in range({lines}): print(f'{{n:0{width - 1}d}}')")
    assert run.wait() == "done"
    held = sum(
        os.path.getsize(run.files.path(name))
        for name in os.listdir(run.files.folder)
        if name.startswith("output.")
    )
    assert held <= SEGMENT * SEGMENTS
    data, cursor, lost = b"", 0, 0
    while (chunk := run.output(cursor)).data:
        data, cursor, lost = data + chunk.data, chunk.cursor, lost + chunk.lost
    assert lost + len(data) == cursor == lines * width
    assert data.endswith(b"%099d\n" % (lines - 1))
    assert len(data) == held


def test_output_lost_on_a_full_disk_is_counted(store, tmp_path):
    files = RunFiles.create(str(tmp_path / "runs"), "r_" + "0" * 32)
    writer = OutputWriter(files)
    writer.write(b"before\n")
    writer.close()
    writer._descriptor = os.open(os.devnull, os.O_RDONLY)  # every write to it fails
    writer.write(b"gone\n")
    writer.write(b"after\n")
    writer.close()
    first = files.output(0)
    assert first.text == "before\n"
    assert files.output(first.cursor) == type(first)(b"after\n", 18, 5)


# -- finding them ---------------------------------------------------------------------------------


def test_runs_are_found_by_id_suffix_and_listed_newest_first(store):
    first, second = script(store, "pass"), script(store, "pass")
    assert [run.id for run in store.runs()] == [second.id, first.id]
    assert store.attach(first.id[-8:]).id == store.attach(first.id).id == first.id
    assert [run.id for run in store.runs(session=first.info.session)] == [first.id]
    first.wait()
    second.wait()


def test_an_unknown_run_is_not_found(store):
    for text in ("ffffffff", "", "x", "r_", "../.."):
        with pytest.raises(NotFound, match="no run"):
            store.attach(text)


def test_an_ambiguous_id_suffix_lists_the_candidates(store, tmp_path):
    folder = store.info().detail["path"] + "-runs"
    for digit in "12":
        RunFiles.create(os.path.abspath(folder), f"r_{digit * 24}abcdabcd")
    with pytest.raises(Ambiguous) as found:
        store.attach("abcdabcd")
    assert len(found.value.candidates) == 2


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"id": 5}', b"\xff" * 100])
def test_an_unreadable_run_record_does_not_hide_the_others(store, content):
    good, bad = script(store, "pass"), script(store, "pass")
    bad.wait()
    with open(bad.files.path("run.json"), "wb") as file:
        file.write(content)
    assert [run.id for run in store.runs()] == [good.id]
    with pytest.raises(NotFound, match="cannot be read"):
        bad.status  # noqa: B018
    good.wait()


# -- awaited --------------------------------------------------------------------------------------


def test_runs_can_be_awaited(store, agent):
    async def main():
        async with stator.aio.connect(store.info().detail["path"], project="shop") as opened:
            run = await opened.run(agent.work, 2)
            assert await run.wait() == "done"
            assert (await run.output()).text == "worked 2\n"
            assert (await (await run.view()).row()).turns == 2
            assert (await run.standing()).status == "done"
            assert [found.id for found in await opened.runs()] == [run.id]
            again = await opened.attach(run.id)
            assert await again.status() == (await again.info()).status == "done"
            assert await again.stop() == "done"
            await again.again()
            assert await again.wait() == "done"

    asyncio.run(main())


# -- stator.open() --------------------------------------------------------------------------------


def test_open_without_a_name_uses_the_session_of_the_environment(store, monkeypatch):
    with store.open("mine") as s:
        pass
    monkeypatch.setenv("STATOR_STORE", store.info().detail["path"])
    monkeypatch.setenv("STATOR_SESSION", s.id)
    with stator.open() as again:
        assert again.id == s.id


def test_open_by_id_finds_the_session_from_any_project(store, monkeypatch, tmp_path):
    with store.open("mine") as s:
        pass
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    with stator.open(s.id, store=store.info().detail["path"]) as again:
        assert again.id == s.id


def test_open_without_a_name_outside_a_run_is_refused(monkeypatch):
    monkeypatch.delenv("STATOR_SESSION", raising=False)
    with pytest.raises(InvalidInput, match="needs a name"):
        stator.open()
