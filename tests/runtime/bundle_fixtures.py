"""Shared by the tests of bundles: a session with every kind of record, and a second machine."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import stator
from stator.model.exchange import bundle
from stator.model.exchange.bundle import (
    Batch,
    End,
    Header,
    Manifest,
)
from stator.model.exchange.packed import pack
from stator.model.log.commit import Commit
from stator.model.log.delta import Put
from stator.model.records.types import FactRecord, SessionRecord
from stator.runtime.bundles.file import BundleWriter
from stator.runtime.facade.store import Store
from stator.runtime.views.verify import verify


def machine(folder: Path, project: str) -> Store:
    """A separate store, where the project is another folder."""
    folder.mkdir(parents=True, exist_ok=True)
    return stator.connect(folder / "agent.db", project=project)


def work(store: Store, name: str = "fix-login", turns: int = 3) -> Any:
    """The view of a session with decisions, file changes and a failed call."""
    with store.open(name, agent="demo") as s:
        for n in range(1, turns + 1):
            with s.turn(f"part {n}") as t:
                t.call(read_file, path=f"src/{n}.py")
                t.decide(f"choice {n}", topic="auth", why="it is shorter")
                t.file(f"src/{n}.py", "modified")
                t.fact(f"fact {n}", {"n": n, "raw": b"\x00\x01", "half": 0.5})
                t.say(f"done {n}")
        s.tag("good", "t1")
    return store.read(name)


def bulky(store: Store, name: str = "bulky") -> Any:
    """A session of several frames: some megabytes, in few commits."""
    words = random.Random(7)
    with store.open(name) as s, s.turn("much") as t:
        for n in range(6):
            t.fact(f"fact {n}", " ".join(str(words.randrange(10**6)) for _ in range(120_000)))
    return store.read(name)


def facts(store: Store, session: str) -> list[Any]:
    """The facts of a session, without erased ones."""
    records = store.read(session).state()["facts"].values()
    return sorted((r.name, r.value) for r in records if isinstance(r, FactRecord))


@stator.tool(effect="read")
def read_file(path: str) -> str:
    return f"content of {path}\n" * 40


def made(
    path: Path,
    commits: list[Commit],
    *,
    header: Header | None = None,
    sessions: list[Any] | None = None,
    end: int | None = None,
    **told: Any,
) -> Path:
    """A bundle of one session's commits; the options change its manifest."""
    puts = (op.record for op in commits[0].delta if isinstance(op, Put))
    record = next(found for found in puts if isinstance(found, SessionRecord))
    one = bundle.Bundled(
        **{
            "id": commits[0].session,
            "name": record.name,
            "project": record.project,
            "seq": commits[-1].seq,
            "hash": commits[-1].hash,
            **told,
        }
    )
    path = path.with_name("made.stator")
    with BundleWriter(str(path), header or Header(), replace=True) as writer:
        manifest = Manifest(sessions=[one] if sessions is None else sessions)
        writer.add(bundle.MANIFEST, bundle.encode(manifest))
        writer.add(bundle.BATCH, bundle.encode(Batch(0, [pack(c) for c in commits])))
        writer.add(bundle.END, bundle.encode(End(commits=len(commits) if end is None else end)))
        writer.finish()
    return path


def whole(store: Store, session: str) -> dict[str, Any]:
    """Every answer about a session, to be compared between stores."""
    view = store.read(session)
    return {
        "log": list(view.log()),
        "state": view.state(),
        "head": view.head,
        "turns": view.turns(),
        "counts": view.counts,
        "diff": view.diff("t0..head"),
    }


def findings(store: Store) -> list[str]:
    return [f"{found.check} @{found.seq} {found.what}" for found in verify(store.port)]
