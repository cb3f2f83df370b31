"""The law of recorded sessions, as a comparison: a log of what a source told, without what may differ between
recordings (positions, hashes, times of appending), and histories in which a file grows."""

from __future__ import annotations

import os
import random
import re
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import stator
from stator.importers.conversation import Report, import_conversation
from stator.importers.registry import load
from stator.model.log.commit import Draft, Gone, Upsert
from stator.model.log.query import SessionQuery
from stator.model.records.types import DecisionRecord
from stator.runtime.base.pages import matching

PLACEHOLDER = re.compile(r"‹[^›]*›|\[redacted[^\]]*\]|⟦[^⟧]*⟧")
LONG_AGO = 1_700_000_000
LIFECYCLE = ("open", "fork", "run", "resume", "pause", "describe")
NOT_COMPARED = ("put", "principal", "input_hash")
"""Content that is derived, or says through which channel it came; records are compared by what they say below."""


def log_of(store: Any, session: str) -> list[tuple[Any, ...]]:
    """What a source told of a session, in order, as every recording of it must have it."""
    commits = list(store.read(session).log())
    ids = {commit.seq: commit.id for commit in commits}
    return [
        (
            commit.id, commit.kind, commit.turn, commit.status, commit.cause, commit.call,
            commit.parent, commit.attempt, commit.actor, commit.effect, commit.tool,
            commit.happened if commit.happened != commit.at else 0,
            commit.provenance.source, _edges(commit, ids), _content(commit), _changes(commit),
        )
        for commit in commits
        if commit.origin is not None and commit.kind not in LIFECYCLE
    ]  # fmt: skip


def _edges(commit: Any, ids: dict[int, str]) -> list[Any]:
    if commit.kind == "compaction":  # positions, not edges
        return []
    return [
        ("to", ids[-one]) if isinstance(one, int) and one < 0 else ids.get(one, one)
        for one in commit.inputs
    ]


def _content(commit: Any) -> dict[str, str]:
    if commit.kind == "compaction":
        return {"summary": str(commit.known("input", {}).get("summary"))}
    return {
        name: PLACEHOLDER.sub("‹›", bytes(data).decode("utf-8", "replace"))
        for name, data in commit.content.items()
        if not name.startswith(NOT_COMPARED) and not isinstance(data, Gone)
    }


def _changes(commit: Any) -> list[str]:
    if commit.kind == "compaction":
        return []
    return [
        PLACEHOLDER.sub("‹›", f"{type(op).__name__} {op.collection} {getattr(op, 'record', '')}")
        for op in commit.delta
        if op.collection not in ("session", "tools", "spend", "working_set")
    ]


def sessions_of(store: Any) -> list[str]:
    return [row.id for row in matching(store.port, SessionQuery(mode="recorded"))]


def logs(store: Any) -> dict[str, list[tuple[Any, ...]]]:
    return {session: log_of(store, session) for session in sessions_of(store)}


def take_in(store: Any, name: str, path: Path, *, at_rest: bool) -> None:
    format = load(name)
    for found in format.conversations(path):
        import_conversation(store.port, store.context, format, found, Report(), at_rest=at_rest)


def forks(name: str, path: Path) -> list[tuple[str, frozenset[str]]]:
    """What the conversations of a file say they were forked from."""
    found = [one.conversation for one in load(name).conversations(path)]
    return [(one.fork_of, one.fork_ids) for one in found]


def contribute(store: Any, session: str, number: int) -> None:
    record = DecisionRecord(topic=f"topic {number}", what="x")
    draft = Draft(
        id=store.context.mint("commit"), session=session, kind="decision", actor="user",
        changes=(Upsert("decisions", record),),
    )  # fmt: skip
    store.port.append(session, [draft])


def lose_notes(store: Any) -> None:
    store.port._write(lambda db: db.execute("DELETE FROM meta WHERE key LIKE 'bookmark %'"))


def first_difference(one: list[tuple[Any, ...]], other: list[tuple[Any, ...]]) -> str:
    for number, (a, b) in enumerate(zip(one, other, strict=False)):
        if a != b:
            fields = [place for place, (x, y) in enumerate(zip(a, b, strict=True)) if x != y]
            return f"#{number} {a[1]} differs in {fields}: {[a[f] for f in fields]} / {[b[f] for f in fields]}"[
                :1500
            ]
    longer = one if len(one) > len(other) else other
    extra = longer[min(len(one), len(other)) :]
    return f"{len(one)} against {len(other)} commits; the first that one lacks: {extra[0] if extra else None}"[
        :1500
    ]


def history(
    name: str, source: Path, folder: Path, seed: int, whole: dict[str, list[tuple[Any, ...]]]
) -> Counter[str]:
    """Grow a copy of a file at random cuts, and take it in each time, between contributions, lost notes and readers
    that come too late. The log that results is that of one whole import, and no position that was shown changes."""
    chance = random.Random(seed)
    data = source.read_bytes()
    path = beside_its_siblings(source, folder)
    written(path, data)
    origin = forks(name, path)
    counts: Counter[str] = Counter(histories=1)
    shown: dict[tuple[str, int], str] = {}
    with stator.connect(folder / f"{seed}.db", durability="relaxed", project="x") as store:
        cuts = sorted(chance.randrange(1, len(data)) for _ in range(chance.randrange(1, 8)))
        for cut in [*cuts, len(data)]:
            written(path, data[:cut])
            if forks(name, path) != origin:
                continue  # an agent writes the copied lines of a fork at once
            for _ in range(chance.choice((1, 1, 2))):
                take_in(store, name, path, at_rest=False)
            if chance.random() < 0.3:
                lose_notes(store)
                counts["lost notes"] += 1
            for session in sessions_of(store):
                if chance.random() < 0.4:
                    contribute(store, session, chance.randrange(10**9))
                    counts["contributions"] += 1
                for commit in store.read(session).log():
                    counts["shown"] += 1
                    assert shown.setdefault((session, commit.seq), commit.hash) == commit.hash
        take_in(store, name, path, at_rest=True)
        if chance.random() < 0.3:
            lose_notes(store)
            take_in(store, name, path, at_rest=True)
        found = logs(store)
    assert found.keys() == whole.keys()
    for session, log in whole.items():
        counts["commits"] += len(log)
        assert log == found[session], first_difference(log, found[session])
    return counts


def beside_its_siblings(source: Path, folder: Path) -> Path:
    """A place for a copy of a file. What lies beside it is copied: a fork names a conversation there."""
    if not (folder / source.name).exists():
        shutil.copytree(source.parent, folder, dirs_exist_ok=True)
    return folder / source.name


def written(path: Path, data: bytes) -> None:
    """A file that was last changed at a fixed time: formats without times take that."""
    path.write_bytes(data)
    os.utime(path, (LONG_AGO, LONG_AGO))


def whole_import(name: str, source: Path, folder: Path) -> dict[str, list[tuple[Any, ...]]]:
    path = beside_its_siblings(source, folder)
    written(path, source.read_bytes())
    with stator.connect(folder / "whole.db", durability="relaxed", project="x") as store:
        take_in(store, name, path, at_rest=True)
        return logs(store)
