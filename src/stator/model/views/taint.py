"""Finds out what a commit rests on: follows edges back to where its content came from. Pure.

A *root* is a commit whose content was not made from other commits: a prompt, a result of a tool, what a person
reported. A model's answer and a summary pass on what they were made from and are no roots. A root is untrusted if it
came from the web, from a bundle or from a foreign store, unless a person vouches for it. Everything made from it is
unverified.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from stator.model.log.commit import EXTRACTED, UNTRUSTED, Commit
from stator.model.log.delta import Put
from stator.model.log.edges import Edge, edges_of, is_shown
from stator.model.records.tables import DERIVED
from stator.model.records.types import ArtifactRecord, ChildRecord, SessionRecord, TrustRecord
from stator.model.values.ids import is_id, retype


class PathStep(msgspec.Struct, frozen=True):
    """One commit on the way from a root."""

    session: str
    seq: int
    id: str
    kind: str
    tool: str = ""


class Reach(msgspec.Struct, frozen=True):
    """What a walk found."""

    path: list[PathStep] = []
    """From an untrusted root to what was asked about; empty if none was reached."""
    why: str = ""
    """Why that root is not trusted."""
    whole: bool = True
    """Whether everything behind it was looked at."""
    roots: list[PathStep] = []
    """The roots that were reached, the newest first; of many, the first of them."""
    looked: int = 0
    """How many commits were read for it."""


Judge = Callable[[Commit], str | None]
"""Why a commit is not trusted; empty if nothing speaks against it; None if a person believes it, whatever it was made
from."""
Edges = Callable[[Commit], list[Edge]]
"""What a commit of a session was made from."""
RESULTS = frozenset({"outcome", "settlement"})
ROOTS_MAX = 100
"""Roots that an answer lists."""


class Sweep:
    """Follows edges back through one session's log. Commits are fed from the newest to the oldest; those that nothing
    leads to may be left out."""

    def __init__(self, judge: Judge, edges: Edges, made: dict[PathStep, PathStep | None]) -> None:
        """`made` is shared by the sweeps of one walk: what each commit on the way leads to."""
        self._judge = judge
        self._edges = edges
        self._made = made
        self._single: dict[int, PathStep | None] = {}
        self._ranges: list[tuple[int, int, PathStep | None]] = []
        """(last, first, by), for ranges that were not reached yet."""
        self._within: tuple[int, PathStep | None] = (0, None)
        """Of the ranges that were reached, where the longest begins. It covers the others."""
        self.ids: dict[str, PathStep | None] = {}
        """Commits that are known by their ids alone. They may be in another session."""
        self.roots: list[PathStep] = []

    def want(self, edges: Iterable[Edge], by: PathStep | None) -> None:
        """Look for what these edges lead to."""
        for edge in edges:
            if edge.id:
                if is_id(edge.id):
                    self.ids.setdefault(retype(edge.id, "commit"), by)
            elif edge.is_range:
                self._ranges.append((edge.last, edge.first, by))
            else:
                self._single.setdefault(edge.first, by)

    def next(self, below: int) -> int:
        """The highest seq below another that may be wanted; 0 if none is."""
        if 0 < self._within[0] < below:
            return below - 1
        ends = [*self._single, *(last for last, _, _ in self._ranges)]
        return max((min(seq, below - 1) for seq in ends), default=0)

    def feed(self, commit: Commit) -> tuple[PathStep, str] | None:
        """Take an older commit; the untrusted root that it is, and why."""
        wanted, by = self._wanted(commit)
        if not wanted:
            return None
        step = PathStep(commit.session, commit.seq, commit.id, commit.kind, commit.tool)
        if step in self._made:
            return None
        self._made[step] = by
        why = self._judge(commit)
        if why:
            return step, why
        edges = [] if why is None else self._edges(commit)
        if not edges and len(self.roots) < ROOTS_MAX:
            self.roots.append(step)
        self.want(edges, step)
        return None

    def step_of(self, commit: Commit) -> PathStep | None:
        """The commit as a step, if something on the way leads to it and it is followed."""
        step = PathStep(commit.session, commit.seq, commit.id, commit.kind, commit.tool)
        return step if step in self._made and self._judge(commit) == "" else None

    def _wanted(self, commit: Commit) -> tuple[bool, PathStep | None]:
        seq = commit.seq
        reached = [each for each in self._ranges if each[0] >= seq]
        if reached:
            self._ranges = [each for each in self._ranges if each[0] < seq]
            for _, first, by in reached:
                begins = self._within[0]
                if not 0 < begins <= seq or first < begins:
                    self._within = first, by
        if self._within[0] > seq:
            self._within = 0, None
        ranged = self._within[0] > 0 and is_shown(commit)
        by = self._within[1]
        if commit.id in self.ids:
            ranged, by = True, self.ids.pop(commit.id)
        if seq in self._single:
            ranged, by = True, self._single.pop(seq)
        return ranged, by


def path_from(step: PathStep, made: Mapping[PathStep, PathStep | None]) -> list[PathStep]:
    """The way from a commit to what was asked about."""
    found: list[PathStep] = []
    at: PathStep | None = step
    while at is not None and at not in found:
        found.append(at)
        at = made.get(at)
    return found


class Beliefs:
    """What people said of commits, tools and hosts."""

    def __init__(self, records: Iterable[TrustRecord]) -> None:
        self._said = {record.on: record.believed for record in records}

    def __bool__(self) -> bool:
        return bool(self._said)

    def of(self, commit: Commit, hosts_of: Callable[[Commit], Sequence[str]]) -> bool | None:
        """Whether a commit is believed; None if nobody said so. The most exact word decides; a tool and its hosts are
        about results only, and every host of a result must be believed."""
        if (said := self._said.get(commit.id)) is not None:
            return said
        if commit.kind not in RESULTS:
            return None
        if any(on.startswith("host:") for on in self._said):
            found = [self._said.get(f"host:{host}") for host in hosts_of(commit)]
            if False in found:
                return False
            if found and all(found):
                return True
        return self._said.get(f"tool:{commit.tool}")


def is_outside(commit: Commit) -> bool:
    """Whether a commit's content came from a source that nobody here vouches for. What a model said, what a
    summary says and what rules found was made from other commits."""
    if commit.kind in ("compaction", "entry") and commit.actor != "user":
        return False
    if commit.origin is not None and commit.origin[0] == EXTRACTED and commit.inputs:
        return False
    return commit.provenance.source in UNTRUSTED


MEMORIES = "memory/"
"""What the names of the artifacts begin with that are notes of agents."""
REPORTED = DERIVED | {"flag"}
"""What an agent reports was made from what it was shown."""
ACCOUNT = REPORTED | {"call", "turn", "file"}
"""What an agent says by itself of its work: that, its calls, and what it says that the user asked."""


def edges_in(record: SessionRecord) -> Edges:
    """What the commits of a session were made from. What an agent reports by itself beside its transcript rests on
    all that was shown to it so far: it names less than that, and a transcript may lag behind."""
    if record.mode != "recorded":
        return edges_of

    def edges(commit: Commit) -> list[Edge]:
        found = edges_of(commit)
        is_report = commit.origin is None and commit.provenance.source == "model"
        if is_report and commit.kind in ACCOUNT and commit.seq > 2:
            found.append(Edge(1, commit.seq - 1))
        return found

    return edges


def is_persons_word(commit: Commit) -> bool:
    """Whether rules found a person's own word: an answer, a refusal, a choice between tries. What the model offered
    to choose from may come from anywhere; the choice is the person's."""
    is_found = commit.origin is not None and commit.origin[0] == EXTRACTED
    return is_found and commit.provenance.source == "user"


def reported_children(commit: Commit) -> list[str]:
    """The sub-agents whose end a commit records without naming what they said."""
    if commit.kind != "child" or commit.status == "started" or commit.inputs:
        return []
    records = [op.record for op in commit.delta if isinstance(op, Put)]
    return [record.session for record in records if isinstance(record, ChildRecord)]


def is_memory(commit: Commit) -> bool:
    """Whether a commit keeps a note that an agent wrote for itself: what the agent had read then is not known."""
    return commit.kind == "artifact" and any(
        isinstance(op, Put)
        and isinstance(op.record, ArtifactRecord)
        and op.record.name.startswith(MEMORIES)
        and commit.provenance.source == "model"
        for op in commit.delta
    )
