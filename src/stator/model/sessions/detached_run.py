"""Decides about detached runs: their status, how they ended, whether they restart, and which output is kept.

Decisions only; files, locks and processes are the runtime's. A run is `running` as long as its supervisor
lives. A run without a recorded end and without a supervisor is `lost`, which is never stored: readers compute
it. Why a run ended is one of the reasons a session has, and "user" only ever
means that a person asked for it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

import msgspec

from stator.errors import BadPosition, InvalidInput
from stator.model.values.ids import SHORT_DIGITS

Status = Literal["running", "done", "failed", "stopped", "lost"]
Reason = Literal["", "done", "error", "process died", "user"]

SEGMENT = 2**20
"""Bytes of output in one file."""
SEGMENTS = 2
"""Files of output that are kept; older output is deleted, and readers learn how much was."""
RESTARTS = 5
"""How often a run that fails is started again when `on-failure` does not say."""
RESTARTS_MAX = 1000
FIRST_WAIT_S, LAST_WAIT_S = 0.5, 30.0
"""Before the first restart and at most before any."""
GRACE_S = 10.0
"""How long a program that was asked to end may take before it is killed."""

_SIGNALS = {
    1: "SIGHUP",
    2: "SIGINT",
    3: "SIGQUIT",
    6: "SIGABRT",
    9: "SIGKILL",
    11: "SIGSEGV",
    13: "SIGPIPE",
    15: "SIGTERM",
}
_RESTART = re.compile(r"on-failure(?::([0-9]{1,4}))?\Z")
_CURSOR = re.compile(r"([0-9]{1,15})(?:\+([0-9]{1,15}))?\Z")
_INTERPRETER = re.compile(r"(python|pypy|node|ruby|perl|bash|sh|uv)[0-9.]*\Z")


class RunInfo(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What `run.json` says."""

    id: str
    session: str
    name: str
    """Of the session, when the run began."""
    command: list[str]
    cwd: str
    store: str
    title: str = ""
    """What it is, on one line, where the command itself says little."""
    by: str = ""
    """On whose behalf it was started."""
    host: str = ""
    boot: str = ""
    """Which start of the machine this was; another one means that nothing of it is left."""
    started: int = 0
    head: int = 0
    """The session's last seq before the run: what it did comes after."""
    supervisor: int = 0
    """Pid, to be shown. Whether it lives is a lock's to say."""
    child: int = 0
    child_start: int = 0
    """When the child started, in the kernel's ticks: with the pid, it is that process and no other."""
    restart: str = "no"
    restarts: int = 0
    finished: int = 0
    """How often its program was started again after it had succeeded: it then does everything again."""
    status: Literal["running", "done", "failed", "stopped"] = "running"
    reason: Reason = ""
    cause: str = ""
    exit: int | None = None
    signal: int = 0
    ended: int = 0


class StopRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request to end a run."""

    by: str
    grace_s: float = GRACE_S


class OutputCursor(msgspec.Struct, frozen=True):
    """How far a reader has come: the seq of a commit, and an offset in the output."""

    seq: int = 0
    byte: int = 0

    def __str__(self) -> str:
        return f"{self.seq}+{self.byte}"


def parse_cursor(text: str) -> OutputCursor:
    """`42+1034`, or only a seq, which is before any output."""
    match = _CURSOR.match(text)
    if match is None:
        raise BadPosition(
            f"not a cursor: {text!r:.60}", hint="it looks like 42+1034, as attach prints it"
        )
    return OutputCursor(int(match[1]), int(match[2] or 0))


# -- how it stands --------------------------------------------------------------------------------


def shown(info: RunInfo, *, live: bool) -> Status:
    """The status people see. `live`: a supervisor holds the run's lock."""
    return "lost" if info.status == "running" and not live else info.status


def lost_cause(info: RunInfo, boot: str) -> str:
    """Why a run without an end has no supervisor."""
    if info.boot and boot and info.boot != boot:
        return "the machine was restarted"
    return "its supervisor was killed"


def ended(
    info: RunInfo, code: int, *, at: int, stop: StopRequest | None = None, told: int = 0
) -> RunInfo:
    """The run with its end: `code` as the operating system gave it, negative for a signal.

    `stop` is a person's request; `told` a signal that ended the supervisor, which counts as nobody's request.
    """
    known = {"exit": code if code >= 0 else None, "signal": -code if code < 0 else 0, "ended": at}
    if stop is not None:
        fate = {"status": "stopped", "reason": "user", "cause": f"stopped by {stop.by}"}
    elif code == 0:
        fate = {"status": "done", "reason": "done", "cause": ""}
    elif told:
        why = f"its supervisor was told to end ({signal_name(told)})"
        fate = {"status": "failed", "reason": "process died", "cause": why}
    elif code > 0:
        fate = {"status": "failed", "reason": "error", "cause": f"exit {code}"}
    else:
        why = f"killed by {signal_name(-code)}"
        fate = {"status": "failed", "reason": "process died", "cause": why}
    return msgspec.structs.replace(info, **known, **fate)


def unstarted(info: RunInfo, why: str, *, at: int) -> RunInfo:
    """The end of a run that could not be started."""
    return msgspec.structs.replace(info, status="failed", reason="error", cause=why, ended=at)


def anew(info: RunInfo, *, store: str, by: str, host: str, boot: str, at: int) -> RunInfo:
    """The run as it begins again: what it is stays, how it went is the last time's."""
    return RunInfo(
        id=info.id,
        session=info.session,
        name=info.name,
        command=info.command,
        cwd=info.cwd,
        store=store,
        title=info.title,
        restart=info.restart,
        restarts=info.restarts + 1,
        finished=info.finished + (info.status == "done"),
        head=info.head,
        by=by,
        host=host,
        boot=boot,
        started=at,
    )


def signal_name(number: int) -> str:
    return _SIGNALS.get(number, f"signal {number}")


def exit_code(info: RunInfo) -> int:
    """What a shell would call the way it ended."""
    return 128 + info.signal if info.signal else info.exit or 0


# -- starting again -------------------------------------------------------------------------------


def restarts_allowed(policy: str) -> int:
    """How often `no`, `on-failure` or `on-failure:N` starts a run again; anything else is `InvalidInput`."""
    if policy == "no":
        return 0
    match = _RESTART.match(policy)
    limit = int(match[1] or RESTARTS) if match else 0
    if not 0 < limit <= RESTARTS_MAX:
        raise InvalidInput(
            f"no restart policy {policy!r:.40}",
            hint=f"no, on-failure ({RESTARTS} times) or on-failure:N",
            path="$.restart",
        )
    return limit


def starts_again(info: RunInfo, code: int, restarts: int, *, told: bool) -> bool:
    """Whether a run that ended this way is restarted; never one that a person stopped."""
    return code != 0 and not told and restarts < restarts_allowed(info.restart)


def restart_wait_s(restarts: int) -> float:
    """How long to wait before the next start: longer each time."""
    return min(LAST_WAIT_S, FIRST_WAIT_S * float(2 ** min(restarts, 10)))


# -- output ---------------------------------------------------------------------------------------


def place(starts: Sequence[int], cursor: int) -> tuple[int, int]:
    """Which segment holds a cursor, by its first byte's offset, and how many bytes before it are gone.

    Segments begin at `starts`, in order. A cursor in none of them is in the oldest.
    """
    held = [start for start in starts if start <= cursor]
    if held:
        return held[-1], 0
    return starts[0], starts[0] - cursor


def kept(starts: Sequence[int]) -> tuple[list[int], list[int]]:
    """The segments to keep and those to drop, when a new one has begun."""
    ordered = sorted(starts)
    return ordered[-SEGMENTS:], ordered[:-SEGMENTS]


# -- names ----------------------------------------------------------------------------------------


def session_name(command: Sequence[str], run: str) -> str:
    """The default name of a run's session: the program, and the end of the run's id."""
    words = [word for word in command if word]
    program = _last(words[0]) if words else "run"
    if len(words) > 1 and _INTERPRETER.match(program) and not words[1].startswith("-"):
        program = _last(words[1])
    return f"{program[:80] or 'run'}-{run[-SHORT_DIGITS:]}"


def _last(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2]


def title(info: RunInfo) -> str:
    """The run on one line."""
    return info.title or " ".join(info.command)
