"""Tasks of worker processes that send sessions from store to store, and say how far they are."""

from __future__ import annotations

from typing import Any

from stator.connect import connect
from stator.runtime.exchange import delivery


def copy_store(talk: Any, source: str, target: str) -> int:
    """Copy a store in many small transactions."""
    delivery.COMMITS = 7
    with connect(source, project="shop") as here, connect(target, project="shop") as there:
        return here.copy_to(there, progress=lambda *said: talk.say(said[1])).verified


def push_store(talk: Any, source: str, target: str) -> int:
    """Push a project in many small transactions."""
    delivery.COMMITS = 7
    with connect(source, project="shop") as here, connect(target, project="shop") as there:
        return here.push_to(there, progress=lambda *said: talk.say(said[1])).verified


def pull_session(talk: Any, source: str, target: str, name: str) -> str:
    """Pull a session."""
    with connect(source, project="shop") as there, connect(target, project="shop") as here:
        return here.pull_from(there, name, progress=lambda *said: talk.say(said[1])).session
