"""Shapes what a turn changed: files with their lines, decisions with what they superseded, steps of the plan."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec

from stator.model.log.commit import Commit
from stator.model.log.delta import Drop, Put, Version
from stator.model.records.types import (
    DecisionRecord,
    FileRecord,
    PlanRecord,
    Record,
    RevisionRecord,
)
from stator.model.views.diff import versions_of
from stator.runtime.views.browse.turns import ReadTurn, ReadTurns
from stator.runtime.views.file_changes import net_files
from stator.surfaces.cli.render.turns.subject import relative

if TYPE_CHECKING:
    from stator.surfaces.web.shape.call_view import CallView

FILES, DECISIONS, STEPS = 6, 5, 8
"""How many of each are shown with a turn."""
NEW = frozenset({"created", "renamed"})


class FileLine(msgspec.Struct, frozen=True, kw_only=True):
    """A file that a turn changed."""

    path: str
    root: str
    shown: str
    op: str
    added: int = 0
    removed: int = 0


class DecisionChange(msgspec.Struct, frozen=True, kw_only=True):
    """A decision that was made, and what it took the place of."""

    what: str
    old: str = ""
    why: str = ""
    by: str = ""
    seq: int = 0


class StepChange(msgspec.Struct, frozen=True, kw_only=True):
    """A step of the plan as the turn left it."""

    step: str
    status: str


class Changes(msgspec.Struct, frozen=True, kw_only=True):
    """What a turn changed."""

    files: list[FileLine] = []
    more_files: int = 0
    changed: int = 0
    new: int = 0
    decisions: list[DecisionChange] = []
    more_decisions: int = 0
    steps: list[StepChange] = []
    more_steps: int = 0
    revisions: list[str] = []
    partial: bool = False
    """Whether the turn was read in part, so that lines are counted in that part only."""

    @property
    def is_empty(self) -> bool:
        return not (self.files or self.decisions or self.steps)


def changes_of(turn: ReadTurn, found: ReadTurns, calls: Sequence[CallView], base: str) -> Changes:
    """What a turn changed, as far as its commits were read."""
    versions = list(versions_of(turn.commits, found.replaced))
    files = _files(versions, found, calls, base)
    decisions = list(_decisions(versions, found))
    steps = _steps(versions, found)
    new = sum(one.op in NEW for one in files)
    return Changes(
        files=files[:FILES],
        more_files=max(0, len(files) - FILES),
        changed=len(files) - new,
        new=new,
        decisions=decisions[:DECISIONS],
        more_decisions=max(0, len(decisions) - DECISIONS),
        steps=steps[:STEPS],
        more_steps=max(0, len(steps) - STEPS),
        revisions=list(_revisions(turn.commits)),
        partial=bool(turn.earlier or turn.later),
    )


def _files(
    versions: Sequence[Version], found: ReadTurns, calls: Sequence[CallView], base: str
) -> list[FileLine]:
    own = [version for version in versions if version.op.collection == "files"]
    there = {
        version.key
        for version in found.replaced.values()
        if isinstance(version.op, Put)
        and isinstance(record := version.op.record, FileRecord)
        and record.op != "deleted"
    }
    lines: dict[str, list[int]] = {}
    for call in calls:
        if call.is_path and call.is_good and (call.added or call.removed):
            counts = lines.setdefault(call.about, [0, 0])
            counts[0] += call.added
            counts[1] += call.removed
    files = []
    for change in net_files(own, there=there):
        if change.op == "skipped":
            continue
        shown = relative(change.path, base)
        added, removed = lines.get(shown, (0, 0))
        files.append(
            FileLine(
                path=change.path,
                root=change.root,
                shown=shown,
                op=change.op,
                added=added,
                removed=removed,
            )
        )
    return sorted(files, key=lambda one: -(one.added + one.removed))


def _decisions(versions: Sequence[Version], found: ReadTurns) -> Iterator[DecisionChange]:
    """Decisions that the turn made and did not replace itself."""
    last: dict[str, tuple[int, DecisionRecord]] = {}
    old: dict[str, DecisionRecord] = {}
    for version in versions:
        op = version.op
        if op.collection != "decisions":
            continue
        before = found.replaced.get((op.collection, op.id, op.was))
        if before is not None and isinstance(before.op, Put):
            record = before.op.record
            if isinstance(record, DecisionRecord):
                old[op.id] = record
        if isinstance(op, Drop):
            last.pop(op.id, None)
        elif isinstance(op.record, DecisionRecord):
            last[op.id] = (version.seq, op.record)
    for identifier, (seq, record) in last.items():
        earlier = old.get(identifier) or old.get(record.supersedes) or _on(old.values(), record)
        yield DecisionChange(
            what=record.what, why=record.why, by=record.by, seq=seq,
            old=earlier.what if earlier is not None and earlier.what != record.what else "",
        )  # fmt: skip


def _on(records: Iterable[DecisionRecord], new: DecisionRecord) -> DecisionRecord | None:
    return next((one for one in records if one.topic and one.topic == new.topic), None)


def _steps(versions: Sequence[Version], found: ReadTurns) -> list[StepChange]:
    """Steps that the turn touched, in the order of the plan; one that is only claimed to be done says so."""
    now: dict[str, str] = {step.step: str(step.status) for step in found.head.steps}
    last: dict[str, PlanRecord] = {}
    for version in versions:
        if isinstance(version.op, Put) and isinstance(version.op.record, PlanRecord):
            last[version.op.id] = version.op.record
    steps = sorted(last.values(), key=lambda step: step.order)
    return [
        StepChange(
            step=step.step,
            status="claimed"
            if step.status == "done" and now.get(step.step) == "claimed"
            else step.status,
        )
        for step in steps
    ]


def _revisions(commits: Iterable[Commit]) -> Iterator[str]:
    records: Iterator[Record | None] = (
        getattr(op, "record", None) for commit in commits for op in commit.delta
    )
    found = {one.sha: one for one in records if isinstance(one, RevisionRecord)}
    yield from (f"{one.sha[:8]}" for one in found.values())
