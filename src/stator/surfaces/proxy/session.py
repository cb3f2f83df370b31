"""Which session a proxy records in: the one that was named, or one of its own."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import PurePath
from urllib.parse import urlsplit

from stator.errors import NotFound
from stator.model.exchange.items import Conversation, Ended
from stator.model.log.query import SessionQuery, SessionRow
from stator.model.values.ids import is_id, short
from stator.runtime.facade.store import Store
from stator.runtime.ingest.recorder import Recorder
from stator.runtime.views.refs import find_session

SOURCE = "mcp"
NAME_MAX = 60
LEFT_MAX = 50
"""Sessions, the newest, that are looked at for what a killed proxy left."""
_LAUNCHERS = re.compile(r"(?:python|node|deno|bun|ruby|npx|uvx|uv|pipx|docker|env|sh|bash)[\d.]*\Z")
_SUBCOMMANDS = frozenset({"run", "exec", "x", "tool", "dlx"})


@dataclass(frozen=True)
class Chosen:
    """Where it is recorded."""

    opened: Callable[[str], Recorder]
    shared: bool
    """Whether others record there too: then the session does not begin and end with the proxy."""
    said: str = ""
    """What a person should know about it."""


def choose(store: Store, named: str, server: str, run: str) -> Chosen:
    """The session somebody named (a new name makes a new one), or one of its own for this run."""
    if not named:
        _finish(store)
        return Chosen(partial(_own, store, server, run, {}), shared=False)
    try:
        row = find_session(store.port, named, project=store.context.project)
    except NotFound:
        if is_id(named, "session"):
            raise
        return Chosen(_shared(store, _begun(store, named)), shared=True)
    if row.record.mode != "recorded":
        said = f"{row.record.name} is driven by its own program; recording beside it"
        own = partial(_own, store, server, run, {"beside": row.id})
        return Chosen(own, shared=False, said=said)
    return Chosen(_shared(store, row), shared=True)


def _shared(store: Store, row: SessionRow) -> Callable[[str], Recorder]:
    aliases = [tuple(alias) for alias in row.record.aliases]
    # an agent's own name for the conversation, so that what it and we tell of one call is one
    source, known = next(
        (alias for alias in aliases if alias[0] != SOURCE), (aliases or [(SOURCE, row.id)])[0]
    )
    talk = Conversation(source=source, id=known)
    return lambda client: Recorder(store.port, store.context, talk, via="proxy", row=row)


def _begun(store: Store, name: str) -> SessionRow:
    # named by what was asked for, so that two who begin it at once begin the same one
    talk = Conversation(source=SOURCE, id=f"{store.context.project}/{name}", name=name)
    recorder = Recorder(store.port, store.context, talk, via="proxy")
    recorder.flush()
    return store.port.session(recorder.session)


def _finish(store: Store) -> None:
    """Say of what a proxy of this machine was at when it was killed that nobody knows how it ended."""
    context = store.context
    query = SessionQuery(project=context.project, mode="recorded", status="active")
    for row in store.port.sessions(query, limit=LEFT_MAX).rows:
        labels, aliases = row.record.labels, row.record.aliases
        pid = labels.get("pid", "")
        if labels.get("host") != context.host or _runs(pid):
            continue
        if [alias[0] for alias in aliases] == [SOURCE]:
            talk = Conversation(source=SOURCE, id=aliases[0][1])
            recorder = Recorder(store.port, context, talk, via="proxy", row=row)
            recorder.take(Ended(id=f"killed/{pid}", at=context.clock(), reason="it was killed"))
            recorder.flush()


def _runs(pid: str) -> bool:
    """Whether there may be a process of that number; only a plain no is one."""
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return False
    except (OSError, ValueError, OverflowError):
        return True
    return True


def _own(store: Store, server: str, run: str, labels: dict[str, str], client: str) -> Recorder:
    talk = Conversation(
        source=SOURCE, id=f"{server}/{run}", name=f"{server} {short(run)[2:]}", agent=client,
        labels={"server": server, "host": store.context.host, "pid": str(store.context.pid), **labels},
    )  # fmt: skip
    return Recorder(store.port, store.context, talk, via="proxy")


def server_name(command: Sequence[str], url: str = "") -> str:
    """What a server is called that nobody named: after its program, or its host."""
    words = [urlsplit(url).hostname or "server"] if url else list(command)
    plain = [word for word in words if not word.startswith("-") and word not in _SUBCOMMANDS]
    # NAME=VALUE goes into an environment, an address is an argument: either may hold a secret
    plain = [word for word in plain if "=" not in word and "://" not in word]
    program = next((w for w in plain if not _LAUNCHERS.match(PurePath(w).name)), words[0])
    stem = re.sub(r"\.(?:py|js|mjs|cjs|ts|rb|sh|exe)\Z", "", PurePath(program).name)
    stem = stem.partition("@")[0] or stem
    return clean(stem)


def clean(name: str) -> str:
    """A name as it stands in a tool's: `mcp__NAME__tool`."""
    return re.sub(r"[^A-Za-z0-9_-]+", "_", name)[:NAME_MAX].strip("_") or "server"
