"""Stores in which something waits for a person, and what their logs say afterwards."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec

from stator.model.log.delta import Put
from stator.runtime.facade.store import Store

PROGRAM = Path(__file__).with_name("left_behind.py")
ID = re.compile(r"[0-9a-f]{32}")
CHANGES = ("signature", "nonce", "sure", "proof", "hash", "id", "created", "commit")
"""Fields of records that differ from store to store, or that say how a person was recognised."""


def leave_behind(*places: Path, proof: str = "") -> None:
    """Let a program leave in each of these stores a call in doubt, one that waits, a claim and a flag."""
    words = [sys.executable, str(PROGRAM), proof, *map(str, places)]
    done = subprocess.run(words, capture_output=True, text=True, env=os.environ, check=False)
    assert done.returncode == 0, done.stderr


def heads(store: Store) -> dict[str, int]:
    """The seq of every session's head."""
    return store.port.heads({}, others=True)


def newest(store: Store, name: str, kind: str) -> dict[str, Any]:
    """What the newest commit of a kind says, without what differs from store to store."""
    view = store.read(name, project="shop")
    commit = next(c for c in reversed(list(view.log())) if c.kind == kind)
    puts = [op.record for op in commit.delta if isinstance(op, Put)]
    records = [_plain(msgspec.to_builtins(record)) for record in puts]
    said = {name: getattr(commit, name) for name in ("kind", "actor", "tool", "status", "cause")}
    held = {name: commit.known(name, "") for name in ("principal", "why")}
    return {**said, **held, "inputs": len(commit.inputs), "records": records}


def _plain(value: Any) -> Any:
    """A record without ids, hashes and what is drawn for it."""
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items() if name not in CHANGES}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return "an id" if isinstance(value, str) and ID.search(value) else value
