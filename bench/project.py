"""How fast a project with 10,000 sessions says what it knows: `python -m bench.project [--sessions 10000] [--keep DIR]
[--write]`.

Builds the store once (about 30 durable records in each session, some of their keys shared with other sessions), fills
the index, then asks `store.state()` as `stator state --project` does: with nothing new, and with one session changed
since the last question. `--keep DIR` leaves the store there and takes the one that is.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median, quantiles

import stator
from bench.report import rewrite
from stator.model.log.commit import Draft, Upsert
from stator.model.records.types import (
    ArtifactRecord,
    DeadEndRecord,
    DecisionRecord,
    FactRecord,
    PendingRecord,
    PlanRecord,
    PreferenceRecord,
    Record,
    SessionRecord,
    WorkingRecord,
)
from stator.runtime.base.first_commit import opening
from stator.runtime.facade.store import Store

RESULTS = Path(__file__).with_name("RESULTS-project.md")
ASKED = 20


def records(n: int) -> list[tuple[str, str, Record]]:
    """About 30 records of a session: (kind, collection, record). Some keys are shared by many sessions."""
    found: list[tuple[str, str, Record]] = []
    for k in range(5):
        topic = f"topic {(n + k) % 300}" if k < 2 else f"topic {n}.{k}"
        found.append(("decision", "decisions", DecisionRecord(what=f"choice {n % 7}", topic=topic)))
    for k in range(8):
        name = f"fact {(n * 3 + k) % 500}" if k < 3 else f"fact {n}.{k}"
        found.append(("fact", "facts", FactRecord(name=name, value=f"value {n % 5} of {k}")))
    for k in range(2):
        preference = PreferenceRecord(name=f"preference {k}", value=f"way {n % 3}")
        found.append(("preference", "preferences", preference))
    for k in range(3):
        found.append(("dead_end", "dead_ends", DeadEndRecord(what=f"way {n}.{k}", why="slow")))
    for k in range(5):
        found.append(("plan", "plan", PlanRecord(step=f"step {n}.{k}", order=k)))
    for k in range(2):
        found.append(("pending", "pending", PendingRecord(what=f"wait {n}.{k}")))
    for k in range(2):
        found.append(("artifact", "artifacts", ArtifactRecord(name=f"doc {n}.{k}", digest=str(n))))
    for k in range(3):
        found.append(("use", "working_set", WorkingRecord(name=f"src/file{(n + k) % 900}.py")))
    return found


def draft(store: Store, session: str, kind: str, collection: str, record: Record) -> Draft:
    return Draft(
        id=store.context.mint("commit"),
        session=session,
        kind=kind,
        changes=(Upsert(collection, record),),
    )


def build(folder: Path, sessions: int) -> Path:
    path = folder / "stator.db"
    if path.exists():
        return path
    with stator.connect(path, project="bench", durability="relaxed") as store:
        for n in range(sessions):
            record = SessionRecord(
                id=store.context.mint("session"),
                name=f"work-{n}",
                project="bench",
                mode="recorded",
                created=store.context.clock(),
            )
            drafts = [draft(store, record.id, *each) for each in records(n)]
            store.port.create([opening(store.context, record), *drafts])
    return path


def fill(path: Path) -> tuple[float, float]:
    """Make the index from nothing; wall and CPU seconds."""
    for end in ("", "-wal", "-shm"):
        path.with_name(f"{path.name}-projects{end}").unlink(missing_ok=True)
    with stator.connect(path, project="bench") as store:
        wall, cpu = time.perf_counter(), time.process_time()
        store.state()
        return time.perf_counter() - wall, time.process_time() - cpu


def change(store: Store, n: int) -> None:
    """One session records a decision that others know another value of."""
    row = store.read(f"work-{n}")
    record = DecisionRecord(what=f"changed {n}", topic=f"topic {n % 300}")
    store.port.append(row.id, [draft(store, row.id, "decision", "decisions", record)])


def timed(
    ask: Callable[[], object], before: Callable[[int], object]
) -> tuple[list[float], list[float]]:
    """Milliseconds of each question, of wall and of CPU time."""
    wall: list[float] = []
    cpu: list[float] = []
    for n in range(ASKED):
        before(n * 37)
        begun, worked = time.perf_counter(), time.process_time()
        ask()
        wall.append((time.perf_counter() - begun) * 1000)
        cpu.append((time.process_time() - worked) * 1000)
    return wall, cpu


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sessions", type=int, default=10_000)
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    folder = given.keep or Path(tempfile.mkdtemp())
    folder.mkdir(parents=True, exist_ok=True)
    try:
        path = build(folder, given.sessions)
        wall, cpu = fill(path)
        index = path.with_name(f"{path.name}-projects").stat().st_size
        lines = [
            f"{given.sessions:,} sessions, a store of {path.stat().st_size / 1e6:.0f} MB; an index of"
            f" {index / 1e6:.0f} MB, filled in {wall:.0f} s ({cpu:.0f} s of CPU).",
            "",
            f"| {ASKED} questions each | median ms | of CPU | p95 ms | of CPU |",
            "|---|---|---|---|---|",
        ]
        with stator.connect(path, project="bench") as store:
            cases: dict[str, tuple[Callable[[], object], Callable[[int], object]]] = {
                "what the project knows, nothing new": (store.state, lambda n: None),
                "what the project knows, one session changed": (
                    store.state,
                    lambda n: change(store, n % given.sessions),
                ),
            }
            for name, (ask, before) in cases.items():
                took, worked = timed(ask, before)
                figures = [
                    f"{median(took):.0f}",
                    f"{median(worked):.0f}",
                    f"{quantiles(took, n=20)[-1]:.0f}",
                    f"{quantiles(worked, n=20)[-1]:.0f}",
                ]
                lines.append(f"| {name} | {' | '.join(figures)} |")
        print("\n".join(lines))
        if given.write:
            rewrite(RESULTS, lines)
    finally:
        if given.keep is None:
            shutil.rmtree(folder)


if __name__ == "__main__":
    main()
