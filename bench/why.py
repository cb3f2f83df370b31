"""Measures `why`, `blame` and `recap` in a store of many sessions, in CPU time.

python -m bench.why [--sessions 10000] [--keep DIR]
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import stator
from stator.model.log.commit import Draft, Upsert
from stator.model.records.types import RevisionRecord

BOUND_MS = 100.0
ROUNDS = 5


@stator.tool(effect="write")
def edit(path: str) -> str:
    return "ok"


@stator.tool(effect="write", files="path")
def save(path: str, text: str) -> None:
    Path(path).write_text(text)


def fill(store: stator.Store, sessions: int) -> str:
    """Sessions of one project that all change one file and decide about one topic; the id of a call."""
    call = ""
    for number in range(sessions):
        with store.open(f"s{number}", project="p") as s, s.turn(f"task {number}") as t:
            t.decide(f"way {number}", topic="approach", why="it fits")
            t.call(edit, path="README.md")
            t.file("README.md", "modified")
            t.file(f"src/m{number}.py", "created")
            t.fact(f"fact {number}", number)
            t.say(f"done {number}")
            if number == sessions // 2:
                call = s.calls()[0].call
        store.port.append(
            s.id,
            [
                Draft(
                    id=store.context.mint("commit"),
                    session=s.id,
                    kind="revision",
                    changes=(Upsert("revisions", RevisionRecord(sha=f"{number + 0x64F1000:07x}")),),
                )
            ],
        )
    return call


def long_session(store: stator.Store, edits: int) -> None:
    """A session with one long turn that changes one file again and again."""
    with store.open("long", project="p") as s, s.turn("a long day") as t:
        for number in range(edits):
            t.say(f"step {number}")
            t.call(edit, path="long.py")
            t.file("long.py", "modified")


def shared_file(store: stator.Store, folder: Path, sessions: int = 20, writes: int = 5) -> None:
    """A file whose contents are recorded, written again and again by several sessions."""
    lines = [f"line {number}" for number in range(300)]
    for number in range(sessions):
        with store.open(f"shared {number}", project="p") as s:
            s.track(str(folder), contents=True)
            for k in range(writes):
                lines[(number * 37 + k * 11) % len(lines)] = f"line by {number}.{k}"
                lines.insert(k * 50, f"new by {number}.{k}")
                with s.turn(f"change {k}") as t:
                    t.call(save, path=str(folder / "shared.py"), text="\n".join(lines) + "\n")


def cpu_ms(ask: Callable[[], object]) -> float:
    """The least CPU time of a few rounds, in ms; the first of them warms up."""
    found = []
    for _ in range(ROUNDS):
        before = time.process_time()
        ask()
        found.append((time.process_time() - before) * 1000)
    return min(found)


def build(path: Path, sessions: int) -> str:
    """The store that is asked; the id of a call in it."""
    note = path.with_suffix(".call")
    if not note.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        with stator.connect(path, project="p", durability="relaxed", redact=False) as store:
            call = fill(store, sessions)
            long_session(store, 500)
            shared_file(store, path.parent.resolve())
        note.write_text(call)
    return note.read_text()


def main(folder: Path, sessions: int) -> int:
    path = folder / "store.db"
    call = build(path, sessions)
    slow, shared = 0, str(folder.resolve() / "shared.py")
    with stator.connect(path, project="p") as store:
        asked: dict[str, Callable[[], object]] = {
            "why of a file of every session": lambda: store.why("README.md"),
            "why of a file of one session": lambda: store.why("src/m7.py"),
            "why of a file with a long turn": lambda: store.why("long.py"),
            "why of a topic of every session": lambda: store.why("approach"),
            "why of a fact": lambda: store.why("fact 7"),
            "why of a revision": lambda: store.why("64f1007"),
            "why of a call": lambda: store.why(call),
            "recap of the last ten sessions": store.recap,
            "blame of a file of 100 writes": lambda: store.blame(shared, root="/", disk=False),
            "blame of an unknown file": lambda: store.blame("nothing.py", disk=False),
            "why of an unknown name": lambda: store.why("nothing like it"),
        }
        for name, ask in asked.items():
            took = cpu_ms(ask)
            slow += took > BOUND_MS
            print(f"{name:34} {took:7.1f} ms")
    return 1 if slow else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sessions", type=int, default=10_000)
    parser.add_argument("--keep", type=Path, help="leave the store there, and take the one that is")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        raise SystemExit(main(given.keep or Path(made), given.sessions))
