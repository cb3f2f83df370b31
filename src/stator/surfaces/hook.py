"""`stator-hook AGENT`: writes the input of an agent's hook to the spool as one line, and exits.

It never gets in an agent's way: it always exits with 0, waits for no lock and prints nothing, except for what
an agent is given: when a session starts, and once with its first prompt. Secrets are redacted before the input
reaches the disk. Its cost is its start-up time, so it imports almost nothing: not `json` (only the
C part of it), and `re` only if there may be something to redact.

A line is written by a single `write` in append mode, under a shared lock that is acquired or
refused immediately; the ingesting process holds an exclusive one. If the lock is refused, the line
goes to a file of its own.
"""

from __future__ import annotations

import errno
import gc
import os
import select
import stat
import sys
import time
import zlib
from _json import encode_basestring_ascii, make_scanner

from stator import locks
from stator.hooks.event_names import BEFORE_CALLS, ENDS, PROMPTS, STARTS, STOPS
from stator.locations import (
    CURRENT,
    FILE,
    NOTE,
    OWN,
    SERVERS,
    foreign_spool_of,
    nearest,
    path_of,
    scheme_of,
    server_address,
    server_spool_of,
    spool_of,
    users,
)
from stator.owner.server_file import server_in
from stator.owner.standing import is_own_spool
from stator.surfaces.handover_request import HOOKS as HANDOVER_HOOKS
from stator.surfaces.handover_request import is_wanted, request
from stator.surfaces.told_marks import claim
from stator.surfaces.write_notice import HOOKS as FILE_HOOKS
from stator.surfaces.write_notice import answer as notice_answer
from stator.surfaces.write_notice import notice

# type checkers recognize the name; importing it from `typing` would take too long
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

STDIN_MAX = 32 * 2**20
PAUSE_S = 0.25
"""Seconds without input after which the input counts as complete, if it parses."""
WAIT_S = 3.0
"""The same, if it does not parse."""
TOTAL_S = 20.0
"""Seconds after which reading ends in any case."""
NOTES_MAX = 64 * 1024
LOOKED_AT_MAX = 2**19
"""Bytes up to which input is looked at for letters first: that takes sixty searches, longer than to load the rules
and to apply them once, where there is much of it."""
ATTEMPTS = 8
DURABLE = BEFORE_CALLS
"""Hooks whose line must survive a power failure, because the call that follows may have an effect."""
DOSES = ("off", "start", "full")
RINGING = STARTS | STOPS | ENDS
"""Hooks after which the transcript holds more than before."""
INGESTER = "stator.surfaces.ingester"
PROJECTS = {"claude-code": "CLAUDE_PROJECT_DIR", "gemini": "GEMINI_PROJECT_DIR"}
"""The variable in which an agent names its project folder to hooks."""
SHELLS = frozenset((b"sh", b"dash", b"bash", b"zsh", b"ash", b"ksh", b"fish"))
SHELLS_MAX = 4
APPENDING = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def main() -> NoReturn:
    """Record an agent's hook input from standard input."""
    gc.disable()  # the program ends before there is anything to collect
    try:
        _record(sys.argv[1:])
    finally:
        os._exit(0)  # whatever failed, the agent must not notice


def _record(arguments: list[str]) -> None:
    agent, store, brief = _arguments(arguments)
    data, why = _read_all()
    hook_input = None if why else _parsed(data)
    if hook_input is None:
        if not data.strip():
            return
        data, hook_input = _placeholder_for(why or "not a JSON object", data), {}
    cwd = hook_input.get("cwd")
    here = cwd if isinstance(cwd, str) and cwd else _working_folder()
    path, named = _store_path(store, _project(agent) or here)
    folder = _spool_folder(path, named=named) if path else ""
    if not folder:
        return
    is_server = scheme_of(path) in SERVERS
    path = path if is_server else os.path.realpath(path)
    name = str(hook_input.get("hook_event_name"))
    queued = 0
    try:
        payload, cwd = _redacted(folder, data, hook_input, here)
        line = line_of(agent, cwd, payload)
        _append(folder, line, durable=name in DURABLE)
        queued = len(line)
    except OSError as error:
        _note(folder, agent, error)
    if _is_answered(name, hook_input, folder, brief):
        from stator.surfaces.light_start import load_msgspec

        load_msgspec()
        from stator.surfaces.hook_answer import answer

        reply = answer(
            agent, hook_input, here, path, folder, named=named, brief=brief,
            queued=queued if _has_ingester(name) else 0,
        )  # fmt: skip
        if reply:
            _give(reply, folder, agent, here, hook_input)
    if _has_ingester(name):
        _start_ingester(path, here, named=named)
    if name in HANDOVER_HOOKS and is_wanted(arguments):
        reply = request(name, agent, hook_input, folder)
        if reply:
            _give(reply, folder, agent, here, hook_input)
    if name in FILE_HOOKS:
        news = notice(name, agent, hook_input, here, folder, agent_process())
        if news:
            # Before a call no agent waits for a server: the other session stays without its name.
            asked = "" if is_server else path
            reply = notice_answer(agent, name, news, asked, here, named=named)
            if reply:
                _give(reply, folder, agent, here, hook_input)


def _give(reply: bytes, folder: str, agent: str, cwd: str, hook_input: dict[str, Any]) -> None:
    """Answer the agent, and write down afterwards what it was given: a process that dies in between claims
    nothing."""
    os.write(1, reply)
    from stator.surfaces.hook_reply import given  # few hooks answer

    if said := given(reply, hook_input):
        append_line(folder, agent, cwd, said, durable=False)


def _is_answered(name: str, hook_input: dict[str, Any], folder: str, brief: str) -> bool:
    """Whether an agent gets an answer now. The store is opened only then."""
    if name in STARTS:
        return True
    if name not in PROMPTS or brief != "full" or hook_input.get("agent_id"):
        return False
    conversation = hook_input.get("session_id")
    return isinstance(conversation, str) and bool(conversation) and claim(folder, conversation)


def _has_ingester(name: str) -> bool:
    """Whether the program that takes in the spool is started after this hook."""
    return name in RINGING and os.environ.get("STATOR_INGESTER", "") != "off"


def _start_ingester(path: str, cwd: str, *, named: bool) -> None:
    """Start the program that takes in the spool and the transcript; nobody waits for it."""
    nothing = os.open(os.devnull, os.O_RDWR)
    actions = [(os.POSIX_SPAWN_DUP2, nothing, number) for number in (0, 1, 2)]
    environ = dict(os.environ)
    if (
        scheme_of(path) in SERVERS
    ):  # everyone can see the words of a command, and a URL may hold a password
        environ["STATOR_STORE"], path = path, ""
    arguments = [sys.executable, "-m", INGESTER, path, cwd, "named" if named else "found"]
    os.posix_spawn(sys.executable, arguments, environ, file_actions=actions, setsid=True)


def append_line(folder: str, agent: str, cwd: str, said: dict[str, Any], *, durable: bool) -> None:
    """Write a line of another witness to a spool, without its secrets."""
    import json

    data = json.dumps(said, separators=(",", ":")).encode()
    os.makedirs(folder, mode=0o700, exist_ok=True)
    line, _ = _redacted(folder, data, said, cwd)
    _append(folder, line_of(agent, cwd, line, (0, 0, 0)), durable=durable)


def _arguments(arguments: list[str]) -> tuple[str, str, str]:
    """The agent, the store that is named, and which doses the agent is given."""
    agent, store, brief = "", "", ""
    rest = iter(arguments)
    for argument in rest:
        if argument == "--store":
            store = next(rest, "")
        elif argument.startswith("--store="):
            store = argument[len("--store=") :]
        elif argument.startswith("--brief="):
            brief = argument[len("--brief=") :]
        elif not agent:
            agent = argument[:40]
    wanted = os.environ.get("STATOR_BRIEF", "")
    wanted = wanted if wanted in DOSES else brief
    return agent, store, wanted if wanted in DOSES else DOSES[-1]


def _read_all() -> tuple[bytes, str]:
    """The input, and why it is incomplete ("" if it is complete)."""
    if os.isatty(0):
        return b"", ""
    pieces: list[bytes] = []
    size = 0
    silent = 0.0
    until = time.monotonic() + TOTAL_S
    while silent < WAIT_S:
        if not select.select([0], [], [], PAUSE_S)[0]:
            # an agent may leave its end open; its input is complete once it parses
            silent = silent + PAUSE_S if _parsed(b"".join(pieces)) is None else WAIT_S
            continue
        silent = 0.0
        piece = os.read(0, 1 << 20)
        if not piece:
            break
        pieces.append(piece)
        size += len(piece)
        if size > STDIN_MAX:
            return b"".join(pieces)[:STDIN_MAX], f"more than {STDIN_MAX // 2**20} MB"
        if time.monotonic() > until:
            return b"".join(pieces), f"not at its end after {TOTAL_S:.0f} s"
    return b"".join(pieces), ""


class DoubledKeys(dict[str, "Any"]):
    """A parsed object whose text names a key twice somewhere: the text holds values that are not in here."""


class _ScannerSettings:
    """The settings that the C scanner of `json` reads, with the values of `json.JSONDecoder`; whether a key was
    given twice."""

    array_hook = None

    strict = True
    object_hook = None
    parse_float = float
    parse_int = int
    parse_constant = str
    memo: dict[str, str] = {}  # noqa: RUF012 - as json.decoder has it

    def __init__(self) -> None:
        self.is_doubled = False

    def object_pairs_hook(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        self.is_doubled |= len(found) < len(pairs)
        return found


def _parsed(data: bytes) -> dict[str, Any] | None:
    settings = _ScannerSettings()
    try:
        text = data.decode().strip(" \t\r\n")
        found, end = make_scanner(settings)(text, 0)  # type: ignore[arg-type]  # only names are looked at
    except (ValueError, StopIteration, RecursionError, SystemError):
        return None  # a SystemError: its own exception is in `json.decoder`, which is not imported
    if not isinstance(found, dict) or end < len(text):
        return None
    return DoubledKeys(found) if settings.is_doubled else found


def _placeholder_for(why: str, data: bytes) -> bytes:
    """The payload for input that cannot be parsed. It contains none of the input, which cannot be
    searched for secrets."""
    return b'{"unread":"%b","bytes":%d}' % (why.encode(), len(data))


def _working_folder() -> str:
    try:
        return os.getcwd()
    except OSError:
        return "/"


def _project(agent: str) -> str:
    """The project folder of an agent, if the agent provides it. The agent may work in another
    folder for a while, and its hooks still belong to the same store."""
    folder = os.environ.get(PROJECTS.get(agent, ""), "")
    return folder if os.path.isabs(folder) else ""


def _store_path(store: str, here: str) -> tuple[str, bool]:
    """The store to record in ("" if there is none with a spool), and whether it was named rather than found. A file
    that names a server and is not this user's own counts for nothing: then the user's own store is used."""
    given = store or os.environ.get("STATOR_STORE", "")
    folder = None if given else nearest(here)
    server = None if folder is None else server_in(os.environ, folder)
    given = given or server or ""
    if scheme_of(given) in SERVERS:
        return server_address(given, os.environ.get("STATOR_TENANT")), True
    if given:
        return path_of(given), True
    if server is not None:
        folder = None
    folder = folder or users(os.environ)
    return ("" if folder is None else os.path.join(folder, FILE)), False


def _spool_folder(path: str, *, named: bool) -> str:
    """The folder of a store's spool, created if necessary: beside the store, or for one on a server, or that is not
    this user's own, in the user's data folder."""
    if scheme_of(path) in SERVERS:
        spool = server_spool_of(path, os.environ)
        if spool is None:
            return ""
    else:
        is_own = is_own_spool(os.environ, path, named=named)
        spool = (None if is_own else foreign_spool_of(path, os.environ)) or spool_of(path)
    try:
        os.mkdir(spool, 0o700)
    except FileExistsError:
        pass
    except FileNotFoundError:
        os.makedirs(os.path.dirname(spool), mode=0o700, exist_ok=True)
        os.mkdir(spool, 0o700)
    # a symbolic link from a cloned repository must not lead out of the folder
    return spool if stat.S_ISDIR(os.lstat(spool).st_mode) else ""


# -- building the line ----------------------------------------------------------------------------


def _redacted(folder: str, data: bytes, hook_input: dict[str, Any], cwd: str) -> tuple[bytes, str]:
    """The payload as one line, and the working folder, both with their secrets redacted."""
    from stator.model.log.secret_prefilter import suspicious

    line = data.strip().replace(b"\n", b" ").replace(b"\r", b" ")
    is_short = len(line) <= LOOKED_AT_MAX
    if is_short and not suspicious(line) and not suspicious(cwd.encode(errors="replace")):
        return line, cwd
    import json

    from stator.hooks.spool_key import spool_key
    from stator.model.log.redact import Redactor

    redactor = Redactor(spool_key(folder, os.urandom))
    if hook_input:
        try:
            clean = redactor.scrub_json(hook_input)
            # Without secrets the input is kept as it came: to write it again takes as long as to search it.
            if clean != hook_input or isinstance(hook_input, DoubledKeys):
                line = json.dumps(clean, separators=(",", ":")).encode()
        except RecursionError:
            line = _placeholder_for("nested too deeply", data)
    return line, redactor.scrub(cwd, None)


def line_of(
    agent: str, cwd: str, payload: bytes, process: tuple[int, int, int] | None = None
) -> bytes:
    """A line of the spool: a mark, a checksum, a length, a header and the payload."""
    at = time.time_ns() // 1000
    quoted = encode_basestring_ascii
    pid, born, space = process or agent_process()
    header = (
        f'{{"id":"{at:x}-{os.urandom(6).hex()}","at":{at},"process":[{pid},{born},{space}]'
        f',"agent":{quoted(agent)},"cwd":{quoted(cwd)}}}'
    )
    head = header.encode() + b"\t"
    checksum = zlib.crc32(payload, zlib.crc32(head))  # a payload can be large: it is copied once
    return b"stator1 %08x %d %b%b\n" % (checksum, len(head) + len(payload), head, payload)


def agent_process() -> tuple[int, int, int]:
    """The agent's process: its id, its start time in kernel ticks, and its pid namespace. They show
    later whether the agent died. Zeros if unknown. Shells between the agent and this process are
    skipped."""
    pid = os.getppid()
    for _ in range(SHELLS_MAX):
        try:
            with open(f"/proc/{pid}/stat", "rb") as file:
                name, _, rest = file.read().partition(b"(")[2].rpartition(b")")
            fields = rest.split()
            if name not in SHELLS:
                return pid, int(fields[19]), os.stat("/proc/self/ns/pid").st_ino
            pid = int(fields[1])
        except (OSError, ValueError, IndexError):
            break
    return 0, 0, 0


# -- writing the line -----------------------------------------------------------------------------


def _append(folder: str, line: bytes, *, durable: bool) -> None:
    name = CURRENT
    why = OSError(errno.EAGAIN, "no file of the spool could be written")
    for _ in range(ATTEMPTS):
        path = os.path.join(folder, name)
        name = f"{OWN}{time.time_ns():x}-{os.getpid()}-{os.urandom(4).hex()}"
        try:
            handle = os.open(path, APPENDING, 0o600)
        # the current file may be no regular file, or belong to another user
        except OSError as error:
            why = error
            continue
        try:
            if _write(handle, path, line, durable):
                return
        finally:
            os.close(handle)
    raise why


def _write(handle: int, path: str, line: bytes, durable: bool) -> bool:
    """Append a line; return False if the file is being ingested, or only part of the line was
    written."""
    if not _lock_shared(handle, path):
        return False
    if os.write(handle, line) < len(line):
        os.write(handle, b"\n")  # so that the next line starts on a line of its own
        return False
    if durable:
        os.fsync(handle)
    return True


def _lock_shared(handle: int, path: str) -> bool:
    """Whether the handle is still the file with that name, and stays so until it is closed."""
    try:
        if not locks.lock_whole(handle, shared=True):
            return False
        here, there = os.fstat(handle), os.lstat(path)
    except OSError:
        return False
    return stat.S_ISREG(here.st_mode) and (here.st_dev, here.st_ino) == (
        there.st_dev,
        there.st_ino,
    )


def _note(folder: str, agent: str, error: OSError) -> None:
    """Note that a line could not be written. This is the last resort."""
    try:
        handle = os.open(os.path.join(folder, NOTE), APPENDING, 0o600)
        try:
            if os.fstat(handle).st_size < NOTES_MAX:
                why = error.strerror or "unknown"
                os.write(handle, f"{time.time_ns() // 1000} {agent}: {why}\n".encode())
        finally:
            os.close(handle)
    except OSError:
        pass


if __name__ == "__main__":
    main()
