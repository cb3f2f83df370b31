"""What an erasure keeps of the keys of turns, so that a turn whose key was erased is not run again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from stator.model.log import turn_keys
from stator.model.log.commit import Change, Erase
from stator.runtime.base.context import Context
from stator.store.port import StorePort

SALT_BYTES = 16


def with_kept_keys(
    store: StorePort,
    context: Context,
    session: str,
    changes: Iterable[Change],
    said: Mapping[str, Any],
) -> dict[str, Any]:
    """The input of an erasure: what it says anyway, and digests of the turns' keys that it takes away."""
    keys: dict[int, bytes] = {}
    for change in changes:
        if not isinstance(change, Erase) or change.seq < 1:
            continue
        if change.fields and "key" not in change.fields:
            continue
        for commit in store.commits(session, after=change.seq - 1, upto=change.seq, limit=1):
            data = commit.content.get("key")
            if commit.kind == "turn" and isinstance(data, bytes):
                keys[commit.seq] = data
    if not keys:
        return dict(said)
    return {**said, **turn_keys.keep(context.secret(SALT_BYTES).hex(), keys)}
