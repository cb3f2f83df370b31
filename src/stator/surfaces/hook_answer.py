"""Answers an agent's session-start hook with a brief and with the handle of the session.

A store that is not this user's own gives an agent nothing; the user is told so once.

An agent that starts a new session gets the brief of the project's newest session; one that resumes,
was compacted or forked gets the brief of its own. The spool is ingested only as far as an agent can
wait.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stator.connect import NEAREST, StorePlace, connect_as_is, spools, take_spools
from stator.hooks.ingest import IngestLimits
from stator.hooks.mappers import load_mapper
from stator.model.log.query import SessionQuery
from stator.model.values.escape import visible
from stator.model.values.json_text import canonical
from stator.runtime.ingest.placement import find

if TYPE_CHECKING:
    from stator.model.brief.compose import Target
    from stator.runtime.facade.store import Store

SAID = "said"
"""The file in a spool that shows that the user was told whose store it is for."""
MAX_TOKENS = 1500
"""The most tokens of the brief. Codex shows an agent about 2,500."""
LIMITS = IngestLimits(lines=300, seconds=0.08, wait_s=0.05)
COMPARING_S = 0.008
"""How long the agent's own list of sessions is compared with the store."""
SECONDS = 3
"""How long an agent has to wait at most, for example for the store's lock."""
TARGETS: dict[str, Target] = {"claude-code": "claude-code", "codex": "codex"}
CONTINUING = ("resume", "compact", "fork")
"""The sources of a session start that continue an existing session."""
SESSIONS_SEARCHED = 20
"""The number of recent sessions among which one with a turn is searched for."""


def answer(
    agent: str, hook_input: dict[str, Any], cwd: str, path: str, spool: str, *, named: bool
) -> bytes:
    """The bytes for standard output; empty if there is nothing to answer. `spool` is the folder that hooks queue in;
    `named`: the store was named, and not only found."""
    signal.signal(signal.SIGALRM, lambda *_: os._exit(0))
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    place = StorePlace(path, "as given" if named else NEAREST)
    conversation = load_mapper(agent).conversation(hook_input)
    if conversation is None:
        return b""
    with connect_as_is(place, create=True, start=cwd) as store:
        if why := store.port.ownership.foreign:
            return _foreign_answer(path, why, spool)
        take_spools(store.port, limits=LIMITS)
        row = find(store.port, conversation)
        own = "" if row is None else row.id
        chosen = (
            own
            if hook_input.get("source") in CONTINUING and own
            else _newest_other(store, exclude=own)
        )
        text = _brief(store, chosen or own, TARGETS.get(agent, "generic"))
        missing = _missing(store, agent, conversation.id)
    context = "\n\n".join(filter(None, (text, _handle(own or conversation.session))))
    said = {"systemMessage": missing} if missing else {}
    return canonical(_as_hook_output(agent, hook_input, context) | said).encode() + b"\n"


def _missing(store: Store, agent: str, beginning: str) -> str:
    """A message for the user about sessions of this project that the agent keeps and that are not recorded."""
    from stator.hooks.unrecorded import missing_sessions

    found = missing_sessions(
        store.port, store.context, Path(os.path.expanduser("~")), os.environ,
        agents=[agent], spools=spools(store.port), except_id=beginning, seconds=COMPARING_S,
    )  # fmt: skip
    expected = [one for one in found.sessions if one.is_expected]
    if not expected:
        return ""
    number = f"{len(expected)} session" + "s" * (len(expected) != 1)
    return (
        f"Stator: {'' if found.is_all else 'at least '}{number} of {agent} in this project not recorded "
        f"({expected[0].why}). To import what is missing: {found.command()}"
    )


def _foreign_answer(path: str, why: str, spool: str) -> bytes:
    """A message for the user that nothing is recorded in a foreign store; once for each store."""
    try:
        os.close(os.open(os.path.join(spool, SAID), os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except FileExistsError:
        return b""
    text = (
        f"Stator: {visible(path)} {why}. What hooks report is kept outside it and not recorded yet. "
        "If the store is yours: stator trust"
    )
    return canonical({"systemMessage": text}).encode() + b"\n"


def _newest_other(store: Store, *, exclude: str) -> str:
    """The most recently used session of the project that has a turn."""
    query = SessionQuery(project=store.context.project)
    rows = store.port.sessions(query, limit=SESSIONS_SEARCHED).rows
    return next((row.id for row in rows if row.turns and row.id != exclude), "")


def _brief(store: Store, session: str, target: Target) -> str:
    if not session or not store.port.session(session).turns:
        return ""
    return store.read(session).brief(max_tokens=MAX_TOKENS, target=target, disk=False).text


def _handle(session: str) -> str:
    return (
        f"Stator records this session as {session}. Its MCP tools take that as `session`: use them to "
        "record decisions, facts and dead ends, to ask what happened before, and to recall what was "
        f"compacted away. In a shell: stator show {session}"
    )


def _as_hook_output(agent: str, hook_input: dict[str, Any], context: str) -> dict[str, Any]:
    if agent == "cursor":
        return {"additional_context": context}
    name = hook_input.get("hook_event_name")
    return {"hookSpecificOutput": {"hookEventName": name, "additionalContext": context}}
