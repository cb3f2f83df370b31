"""Pure decisions about runs: status, end, restart, and which output is kept."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stator.errors import BadPosition, InvalidInput
from stator.model.sessions.detached_run import (
    LAST_WAIT_S,
    RESTARTS,
    SEGMENTS,
    OutputCursor,
    RunInfo,
    StopRequest,
    anew,
    ended,
    exit_code,
    kept,
    lost_cause,
    parse_cursor,
    place,
    restart_wait_s,
    restarts_allowed,
    session_name,
    shown,
    starts_again,
)

INFO = RunInfo(
    id="r_" + "0" * 32, session="s_" + "0" * 32, name="x", command=["x"], cwd="/", store="/s.db"
)
ANN = StopRequest(by="local:ann")


def test_a_run_without_a_supervisor_and_without_an_end_is_lost():
    assert shown(INFO, live=True) == "running"
    assert shown(INFO, live=False) == "lost"


def test_a_run_with_an_end_is_never_lost():
    assert shown(ended(INFO, 0, at=1), live=False) == "done"


def test_a_reboot_is_distinguished_from_a_killed_supervisor():
    info = anew(INFO, store="/s.db", by="", host="", boot="one", at=1)
    assert lost_cause(info, "two") == "the machine was restarted"
    assert lost_cause(info, "one") == "its supervisor was killed"


@pytest.mark.parametrize(
    ("code", "stop", "told", "status", "reason", "cause"),
    [
        (0, None, 0, "done", "done", ""),
        (3, None, 0, "failed", "error", "exit 3"),
        (-9, None, 0, "failed", "process died", "killed by SIGKILL"),
        (-15, None, 0, "failed", "process died", "killed by SIGTERM"),
        (-15, ANN, 0, "stopped", "user", "stopped by local:ann"),
        (0, ANN, 0, "stopped", "user", "stopped by local:ann"),
        (-15, None, 15, "failed", "process died", "its supervisor was told to end (SIGTERM)"),
        (0, None, 15, "done", "done", ""),
    ],
)
def test_only_a_stop_that_a_person_requested_is_called_stopped(
    code, stop, told, status, reason, cause
):
    found = ended(INFO, code, at=7, stop=stop, told=told)
    assert (found.status, found.reason, found.cause, found.ended) == (status, reason, cause, 7)


def test_an_end_by_signal_has_the_exit_code_of_a_shell():
    assert exit_code(ended(INFO, -9, at=1)) == 137
    assert exit_code(ended(INFO, 3, at=1)) == 3
    assert exit_code(ended(INFO, 0, at=1)) == 0


@pytest.mark.parametrize(
    ("policy", "allowed"), [("no", 0), ("on-failure", RESTARTS), ("on-failure:2", 2)]
)
def test_a_restart_policy_sets_the_number_of_restarts(policy, allowed):
    assert restarts_allowed(policy) == allowed


@pytest.mark.parametrize("policy", ["", "always", "on-failure:", "on-failure:0", "on-failure:9999"])
def test_an_unknown_restart_policy_is_refused(policy):
    with pytest.raises(InvalidInput, match="no restart policy"):
        restarts_allowed(policy)


def test_only_failures_are_restarted_up_to_the_limit():
    twice = RunInfo(
        **{**{n: getattr(INFO, n) for n in INFO.__struct_fields__}, "restart": "on-failure:2"}
    )
    assert starts_again(twice, 1, 1, told=False)
    assert not starts_again(twice, 1, 2, told=False)
    assert not starts_again(twice, 0, 0, told=False)
    assert not starts_again(twice, 1, 0, told=True)


@given(st.integers(0, 10_000))
def test_waits_between_restarts_grow_and_are_bounded(n):
    assert 0 < restart_wait_s(n) <= restart_wait_s(n + 1) <= LAST_WAIT_S


@given(st.integers(0, 10**15 - 1), st.integers(0, 10**15 - 1))
def test_a_cursor_parses_from_its_own_text(seq, byte):
    assert parse_cursor(str(OutputCursor(seq, byte))) == OutputCursor(seq, byte)


@pytest.mark.parametrize("text", ["", "x", "-1", "1+", "+1", "1+2+3", "1.5", "9" * 30, "1\n"])
def test_an_invalid_cursor_is_refused(text):
    with pytest.raises(BadPosition):
        parse_cursor(text)


@given(st.sets(st.integers(0, 10**6), min_size=1), st.integers(0, 2 * 10**6))
def test_a_cursor_is_in_the_last_segment_that_begins_before_it(starts, cursor):
    start, lost = place(sorted(starts), cursor)
    assert start in starts
    assert cursor + lost >= start
    assert (lost > 0) == (cursor < min(starts))
    assert not [other for other in starts if start < other <= cursor]


@given(st.lists(st.integers(0, 10**6), unique=True))
def test_the_newest_segments_are_kept(starts):
    staying, dropped = kept(starts)
    assert sorted([*staying, *dropped]) == sorted(starts)
    assert len(staying) <= SEGMENTS
    assert not staying or not dropped or max(dropped) < min(staying)


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (["/usr/bin/agent", "-x"], "agent"),
        (["python3.11", "work/agent.py"], "agent.py"),
        (["python", "-m", "agent"], "python"),
        (["sh"], "sh"),
    ],
)
def test_a_session_is_named_after_the_program(command, name):
    assert session_name(command, "r_" + "1" * 32) == f"{name}-11111111"
