"""A store's commits as plain data, and where two stores first differ."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec

from stator.model.log.commit import Commit, Gone, Large
from stator.model.log.edges import ALWAYS
from stator.model.records.tables import OPERANDS
from stator.runtime.facade.store import Store

TEXT_MAX = 2_000
"""Characters of a content item that are shown; of a longer one, its length and its digest."""
Line = dict[str, Any]
_HASH = re.compile(r'("hash":"|head )[0-9a-f]{64}')


def lines(store: Store) -> Iterator[Line]:
    """Every commit of a store: sessions by name and id, the oldest commit first."""
    rows = sorted(store.sessions(limit=1000).rows, key=lambda row: (row.record.name, row.id))
    for row in rows:
        for commit in store.read(row.id, project="").log():
            if commit.session == row.id:  # shared commits belong to the parent
                yield line(row.record.name, commit)


def line(name: str, commit: Commit) -> Line:
    """A commit with the name of its session, without empty fields."""
    said = {
        field: getattr(commit, field)
        for field in commit.__struct_fields__
        if field not in ("session", "v", "content", "delta", "prev", "salt", "salts")
    }
    return {
        "session": name,
        "seq": said.pop("seq"),
        "kind": said.pop("kind"),
        **{k: v for k, v in msgspec.to_builtins(said).items() if v or k == "turn"},
        **{f"content.{k}": _shown(v) for k, v in commit.content.items()},
        "delta": [f"{op.collection} {op.id}" for op in commit.delta],
    }


def _shown(item: bytes | Gone | Large) -> str:
    if isinstance(item, Gone):
        return f"gone by @{item.by}"
    assert isinstance(item, bytes)
    text = item.decode("utf-8", "backslashreplace")
    return text if len(text) <= TEXT_MAX else f"{len(item)} bytes, {sha256(item).hexdigest()}"


def read(path: Path) -> list[Line]:
    with path.open(encoding="utf-8") as file:
        return [json.loads(text) for text in file]


def write(path: Path, found: Iterable[Line]) -> None:
    with path.open("w", encoding="utf-8") as file:
        file.writelines(f"{json.dumps(one, ensure_ascii=False)}\n" for one in found)


def heads(found: Iterable[Line]) -> dict[str, tuple[int, str]]:
    """The seq and the hash of the last commit of each session."""
    return {one["session"]: (one["seq"], one["hash"]) for one in found}


def without_edges(found: Iterable[Line]) -> list[Line]:
    """Commits without what they were made from, which is recorded since 0.8.0, and without the hashes over it."""
    return [_without_edges(one) for one in found]


def _without_edges(one: Line) -> Line:
    status = OPERANDS.get(one["kind"])
    kept = status is not None and status in (ALWAYS, one.get("status", ""))
    rest = {k: v for k, v in one.items() if k != "hash" and (k != "inputs" or kept)}
    rest = {k: _HASH.sub(r"\1", v) if isinstance(v, str) else v for k, v in rest.items()}
    return {**rest, "hash": sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()}


def difference(known: Sequence[Line], now: Sequence[Line]) -> str:
    """The first commit that differs in each session, and in which fields; "" where there is none."""
    before, after = _by_session(known), _by_session(now)
    said = [f"session {name!r} is not written any more" for name in before if name not in after]
    said += [f"session {name!r} is new" for name in after if name not in before]
    said += [_first(before[name], after[name]) for name in before if name in after]
    return "\n".join(filter(None, said))


def _by_session(found: Iterable[Line]) -> dict[str, list[Line]]:
    sessions: dict[str, list[Line]] = {}
    for one in found:
        sessions.setdefault(one["session"], []).append(one)
    return sessions


def _first(known: Sequence[Line], now: Sequence[Line]) -> str:
    for before, after in zip(known, now, strict=False):
        if before["hash"] != after["hash"]:
            return f"{_named(before)}: {_fields(before, after)}"
    if len(known) != len(now):
        longer = (known if len(known) > len(now) else now)[min(len(known), len(now))]
        what = "is not written any more" if len(known) > len(now) else "is new"
        return f"{_named(longer)} {what}"
    return ""


def _named(one: Line) -> str:
    return f"session {one['session']!r} seq {one['seq']} kind {one['kind']}"


def _fields(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    names = [name for name in {**before, **after} if before.get(name) != after.get(name)]
    told = [
        f"{name} was {before.get(name)!r:.300}, is {after.get(name)!r:.300}"
        for name in names
        if name != "hash"
    ]
    return "; ".join(told) or "only the hash differs: its salts, the commit before it or the format"
