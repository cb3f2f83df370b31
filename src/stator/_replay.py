"""Replays a record against an agent; `stator.testing` and the pytest plugin both offer it.

It is a module of its own because the plugin must not depend on `stator.testing`, which offers the plugin's fixture.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from stator.connect import context
from stator.errors import BadType
from stator.model.log.commit import Commit
from stator.runtime.replay import engine
from stator.runtime.replay.report import Replayed
from stator.runtime.replay.sources import Source, gather, load_fixture
from stator.runtime.views.session import SessionView
from stator.store.memory import MemoryStore


def replay(
    source: Any,
    agent: engine.Agent,
    *,
    session: str | None = None,
    turns: str | None = None,
    strict: bool = False,
    passphrase: str | None = None,
) -> Replayed:
    """Drive an agent against recorded outcomes: no tool runs, no model is asked, the source stays as it is.

    `source` is a session (`store.read("login")`), the path of a fixture that `stator export --fixture` made,
    or sealed commits. `agent` is a function of a session, or a coroutine function of one. `session` says which
    one of a fixture with several, `turns` which of its turns (`"t3..t5"`). `strict`: decisions, facts and the
    like that are made otherwise are a divergence too. `passphrase` opens a fixture that is locked.
    """
    found = _source(source, session or "", passphrase)
    return engine.replay(found, agent, MemoryStore(), context(), turns=turns, strict=strict)


def _source(source: Any, session: str, passphrase: str | None) -> Source:
    if isinstance(source, Source):
        return source
    if isinstance(source, SessionView):
        return gather(source._store, source.id)
    if isinstance(source, (str, os.PathLike)):
        return Source(load_fixture(Path(source), passphrase), session)
    commits = list(getattr(source, "commits", source))
    logs = [[item] if isinstance(item, Commit) else item for item in commits]
    if not all(isinstance(commit, Commit) for log in logs for commit in log):
        raise BadType("not a record", hint="a session, the path of a fixture, or commits")
    return Source(logs, session)
