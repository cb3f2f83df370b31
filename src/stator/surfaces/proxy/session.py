"""Chooses the session a proxy records in: the one the user named, or a new one for this run."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import PurePath
from urllib.parse import urlsplit

from stator.errors import NotFound
from stator.model.exchange.items import Conversation, Ended
from stator.model.log.query import SessionQuery, SessionRow
from stator.model.log.shown_text import without_secrets
from stator.model.values.ids import is_id, short
from stator.runtime.facade.store import Store
from stator.runtime.ingest.recorder import Recorder
from stator.runtime.views.refs import find_session
from stator.surfaces.proxy.witness import WitnessRecorder

SOURCE = "mcp"
NAME_MAX = 60
ACTIVE_MAX = 50
"""Newest active sessions that are searched for calls of a killed proxy."""
_LAUNCHERS = re.compile(r"(?:python|node|deno|bun|ruby|npx|uvx|uv|pipx|docker|env|sh|bash)[\d.]*\Z")
_SUBCOMMANDS = frozenset({"run", "exec", "x", "tool", "dlx"})


@dataclass(frozen=True)
class SessionChoice:
    """The session a proxy records in."""

    open_recorder: Callable[[str], Recorder]
    shared: bool
    """Whether other programs record in it too; if so, the proxy neither begins nor ends the session."""
    notice: str = ""
    """A notice to print for the user, or ""."""


def choose(store: Store, named: str, server: str, run: str) -> SessionChoice:
    """Choose the named session (a new name creates one), or a new session for this run."""
    if not named:
        _end_killed_proxies(store)
        return SessionChoice(partial(_own_session, store, server, run, {}), shared=False)
    try:
        row = find_session(store.port, named, project=store.context.project)
    except NotFound:
        if is_id(named, "session"):
            raise
        return SessionChoice(_shared_session(store, _new_session(store, named)), shared=True)
    if row.record.mode != "recorded":
        notice = f"{row.record.name} is driven by its own program; recording beside it"
        own = partial(_own_session, store, server, run, {"beside": row.id})
        return SessionChoice(own, shared=False, notice=notice)
    return SessionChoice(_shared_session(store, row), shared=True)


def _shared_session(store: Store, row: SessionRow) -> Callable[[str], Recorder]:
    aliases = [tuple(alias) for alias in row.record.aliases]
    # prefer the agent's own id: a call that a hook and the proxy both record is then one call
    source, known = next(
        (alias for alias in aliases if alias[0] != SOURCE), (aliases or [(SOURCE, row.id)])[0]
    )
    conversation = Conversation(source=source, id=known)
    if row.record.orderer == "transcript":
        return lambda client: WitnessRecorder(store, conversation, row)
    return lambda client: Recorder(
        store.port, store.context, conversation, via="proxy", row=row, orderer="proxy"
    )


def _new_session(store: Store, name: str) -> SessionRow:
    # the id is derived from the name, so that two proxies that start at once create one session
    conversation = Conversation(source=SOURCE, id=f"{store.context.project}/{name}", name=name)
    recorder = Recorder(store.port, store.context, conversation, via="proxy", orderer="proxy")
    recorder.flush()
    return store.port.session(recorder.session)


def _end_killed_proxies(store: Store) -> None:
    """End the sessions of killed proxies of this machine: their open calls are in doubt from then on."""
    context = store.context
    query = SessionQuery(project=context.project, mode="recorded", status="active")
    for row in store.port.sessions(query, limit=ACTIVE_MAX).rows:
        labels, aliases = row.record.labels, row.record.aliases
        pid = labels.get("pid", "")
        if labels.get("host") != context.host or _may_be_running(pid):
            continue
        if [alias[0] for alias in aliases] == [SOURCE]:
            conversation = Conversation(source=SOURCE, id=aliases[0][1])
            recorder = Recorder(
                store.port, context, conversation, via="proxy", row=row, orderer="proxy"
            )
            recorder.take(Ended(id=f"killed/{pid}", at=context.clock(), reason="it was killed"))
            recorder.flush()


def _may_be_running(pid: str) -> bool:
    """Return False only if no process has this pid; if that cannot be known, return True."""
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return False
    except (OSError, ValueError, OverflowError):
        return True
    return True


def _own_session(
    store: Store, server: str, run: str, labels: dict[str, str], client: str
) -> Recorder:
    conversation = Conversation(
        source=SOURCE, id=f"{server}/{run}", name=f"{server} {short(run)[2:]}", agent=client,
        labels={"server": server, "host": store.context.host, "pid": str(store.context.pid), **labels},
    )  # fmt: skip
    return Recorder(store.port, store.context, conversation, via="proxy", orderer="proxy")


def server_name(command: Sequence[str], url: str = "") -> str:
    """Derive a server's name from its program or its host."""
    words = [urlsplit(url).hostname or "server"] if url else list(command)
    shown = [word for before, word in pairwise(["", *words]) if not _is_secret(before, word)]
    plain = [word for word in shown if not word.startswith("-") and word not in _SUBCOMMANDS]
    # skip NAME=VALUE and addresses: either may hold a secret
    plain = [word for word in plain if "=" not in word and "://" not in word]
    program = next((w for w in plain if not _LAUNCHERS.match(PurePath(w).name)), words[0])
    stem = re.sub(r"\.(?:py|js|mjs|cjs|ts|rb|sh|exe)\Z", "", PurePath(program).name)
    stem = stem.partition("@")[0] or stem
    return clean_name(stem)


def clean_name(name: str) -> str:
    """Return a name in the form that tool names use: `mcp__NAME__tool`."""
    plain = re.sub(r"[^A-Za-z0-9_-]+", "_", without_secrets(name))
    return plain[:NAME_MAX].strip("_") or "server"


def _is_secret(before: str, word: str) -> bool:
    """Whether a word of a command is a secret, by itself or by the word before it."""
    both = f"{before} {word}"
    return without_secrets(both) != both and without_secrets(before) == before
