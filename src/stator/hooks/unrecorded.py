"""Compares the sessions that an agent keeps with those in the store: says what is missing, why, and what imports it.

Hooks can fail without a word: the disk was full, the store could not be written, the agent was never told to trust
them. The agent's own files show what there should be. A session that a person trashed or purged is not missing.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import msgspec

from stator.errors import InvalidInput, NotFound
from stator.hooks.hook_note import hook_note
from stator.hooks.spool import BAD
from stator.importers.agent_sessions import (
    NAMED,
    AgentSession,
    looked_into,
    sessions_of,
)
from stator.importers.reading.jsonl import open_regular_file
from stator.locations import NOTE
from stator.model.exchange.bookmark import TRANSCRIPT
from stator.model.log.query import SessionQuery, SessionRow
from stator.model.views.open_calls import REST_US
from stator.runtime.base.context import Context
from stator.runtime.base.project_flags import purged
from stator.runtime.ingest.placement import find
from stator.store.port import StorePort

DAY_US = 86_400 * 1_000_000
RECENT_US = 14 * DAY_US
"""Sessions that did not change for longer are history that nobody misses."""
SETTINGS = {
    "claude-code": ("CLAUDE_CONFIG_DIR", ".claude"),
    "codex": ("CODEX_HOME", ".codex"),
    "gemini": ("GEMINI_CLI_HOME", ".gemini"),
}
"""Agents with hooks → the variable that names the folder of their settings, and what it is called by default."""
SESSIONS_MAX = 20
"""Recorded sessions of an agent among which one is looked for that its hooks reported."""
OFF = "recording is not turned on for it, and it was never imported"
UNTRUSTED = "its hooks are set up and have never reported; Codex runs them only after you trust them (/hooks)"
UNREPORTED = "no hook reported it, and it was never imported"
READ_MAX = 2**20
"""Bytes of the files beside a spool that are searched for a reason."""


class MissingSession(msgspec.Struct, frozen=True, kw_only=True):
    """A session that an agent keeps, and that the store does not have, or not to its end."""

    agent: str
    id: str
    path: str
    changed: int
    """When its file last changed, in µs."""
    size: int
    read: int = 0
    """The bytes of it that were recorded."""
    why: str = ""
    """Why, as far as that shows."""
    is_expected: bool = True
    """Whether it should be there: recording is turned on for its agent."""


class MissingSessions(msgspec.Struct, frozen=True, kw_only=True):
    """The answer, the newest session first."""

    sessions: list[MissingSession]
    is_all: bool = True
    """Whether all of the agent's sessions were looked at in the time that was given."""

    def command(self) -> str:
        """The command that imports them; it adds only what is new."""
        agents = dict.fromkeys(one.agent for one in self.sessions)
        return f"stator import {' '.join(agents)}"


def missing_sessions(
    store: StorePort,
    context: Context,
    home: Path,
    environ: Mapping[str, str],
    *,
    agents: Iterable[str] = tuple(NAMED),
    spools: Sequence[str] = (),
    except_id: str = "",
    seconds: float = 0.0,
) -> MissingSessions:
    """The sessions of this project that agents keep and the store lacks.

    `spools` are the folders in which hooks queue for the store; what lies there may say why. `except_id` is a session
    that is beginning just now. With `seconds`, no more than that is spent, and only the project's own folder counts
    as the project; without, any folder that belongs to it.
    """
    now = context.clock()
    until = context.monotonic() + seconds if seconds else 0.0
    belongs = _in_root(context) if seconds else _in_project(context)
    found: list[MissingSession] = []
    for agent in agents:
        for session in sessions_of(agent, home, environ, since=now - RECENT_US):
            if until and context.monotonic() > until:
                return MissingSessions(sessions=_by_hook(found, spools), is_all=False)
            if session.id != except_id and (one := _missing(store, session, now, belongs)):
                found.append(one)
    if seconds:
        return MissingSessions(sessions=_by_hook(found, spools))
    setup = functools.cache(functools.partial(_setup, store, home, environ, context.root))
    return MissingSessions(sessions=[_explained(one, spools, setup(one.agent)) for one in found])


def _by_hook(found: list[MissingSession], spools: Sequence[str]) -> list[MissingSession]:
    """The same, as a hook explains them, which has little time: the newest stands for all, and hooks are set up."""
    return [_explained(one, spools if one is found[0] else (), UNREPORTED) for one in found]


def _missing(
    store: StorePort, session: AgentSession, now: int, belongs: Callable[[str], bool]
) -> MissingSession | None:
    """A session as missing; None if the store has it, had it, or it belongs to another project."""
    folder: str | None = None
    if not session.id:
        session, folder = looked_into(session)
    row = _row(store, session)
    if row is not None:
        if now - session.changed < REST_US:
            return None
        read = _read(store, row.id)
        return _as_missing(session, read) if read and _has_line(session, read) else None
    if folder is None:
        session, folder = looked_into(session)
    if not session.id or not folder or not belongs(folder):
        return None
    if purged(store, session.conversation.session) is not None:
        return None
    return _as_missing(session, 0)


def _row(store: StorePort, session: AgentSession) -> SessionRow | None:
    """The session in the store: under its derived id, as nearly all have it, else by its alias."""
    try:
        return store.session(session.conversation.session)
    except NotFound:
        return find(store, session.conversation)


def _as_missing(session: AgentSession, read: int) -> MissingSession:
    return MissingSession(
        agent=session.agent,
        id=session.id,
        path=session.path,
        changed=session.changed,
        size=session.size,
        read=read,
    )


def _read(store: StorePort, session: str) -> int:
    """How far the transcript of a session was read; 0 if that is not known."""
    kept = store.bookmark(session, TRANSCRIPT)
    value = kept.value.get("offset") if kept is not None and isinstance(kept.value, dict) else 0
    return value if isinstance(value, int) else 0


def _has_line(session: AgentSession, offset: int) -> bool:
    """Whether a whole line follows what was read; what is packed or is one document has no such place."""
    if not session.path.endswith(".jsonl") or session.size <= offset:
        return False
    try:
        with open_regular_file(session.path) as file:
            file.seek(offset)
            return b"\n" in file.read(READ_MAX)
    except (OSError, InvalidInput):
        return False


def _in_root(context: Context) -> Callable[[str], bool]:
    root = context.root.rstrip("/")
    return lambda folder: bool(root) and (folder == root or folder.startswith(root + "/"))


def _in_project(context: Context) -> Callable[[str], bool]:
    def belongs(folder: str) -> bool:
        home = context.home_of(folder)
        return home is not None and home[0] == context.project

    return belongs


# -- reasons --------------------------------------------------------------------------------------


def _explained(session: MissingSession, spools: Sequence[str], setup: str) -> MissingSession:
    """The same, with the reason that shows, or else with what is known of the agent's hooks."""
    why = _reason(session, spools) or setup
    return msgspec.structs.replace(session, why=why, is_expected=why != OFF)


def _setup(store: StorePort, home: Path, environ: Mapping[str, str], root: str, agent: str) -> str:
    """Why hooks of an agent reported nothing of a session, by what its settings and other sessions show."""
    rows = store.sessions(SessionQuery(mode="recorded", agent=agent), limit=SESSIONS_MAX).rows
    if any(hook_note(store, row.id).at for row in rows):
        return UNREPORTED
    if agent not in SETTINGS:
        return OFF
    variable, name = SETTINGS[agent]
    base = environ.get(variable) or str(home / name)
    folders = [base, os.path.join(base, name), os.path.join(root, name)]
    if not any(_names_hook(folder) for folder in folders):
        return OFF
    return UNTRUSTED


def _names_hook(folder: str) -> bool:
    """Whether a file of settings in a folder names our hook."""
    try:
        names = [name for name in os.listdir(folder) if name.endswith((".json", ".toml"))]
    except OSError:
        return False
    return any(b"stator-hook" in _beginning(os.path.join(folder, name)) for name in names)


def _reason(session: MissingSession, spools: Sequence[str]) -> str:
    """What the folders of hooks say about a session that is not recorded."""
    for folder in spools:
        if _is_refused(folder, session.id):
            return f"its hook lines were refused; they are in {os.path.join(folder, BAD)}"
        if said := _noted(folder, session):
            return f"a hook could not write: {said}"
        beside = folder if os.path.isdir(folder) else os.path.dirname(folder)
        if os.path.isdir(beside) and not os.access(beside, os.W_OK):
            return f"{beside} cannot be written"
        if _is_full(folder):
            return "the disk is full"
    return ""


def _is_refused(folder: str, id: str) -> bool:
    bad = os.path.join(folder, BAD)
    try:
        names = os.listdir(bad)
    except OSError:
        return False
    return any(id.encode() in _beginning(os.path.join(bad, name)) for name in names)


def _noted(folder: str, session: MissingSession) -> str:
    """What a hook of the agent noted on the day on which the session last changed."""
    for line in reversed(
        _beginning(os.path.join(folder, NOTE)).decode(errors="replace").splitlines()
    ):
        at, _, rest = line.partition(" ")
        agent, _, why = rest.partition(": ")
        if at.isdecimal() and agent == session.agent and abs(int(at) - session.changed) < DAY_US:
            return why
    return ""


def _beginning(path: str) -> bytes:
    try:
        with open_regular_file(path) as file:
            return file.read(READ_MAX)
    except (OSError, InvalidInput):
        return b""


def _is_full(folder: str) -> bool:
    try:
        found = os.statvfs(os.path.dirname(folder))
    except OSError:
        return False
    return found.f_bavail * found.f_frsize < READ_MAX
