"""Reports the result of a replay, and what no replay can check because it was never captured."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from stator.errors import Diverged
from stator.model.calls.expectations import Divergence
from stator.model.calls.known import is_redacted
from stator.model.log.commit import Commit, Gone
from stator.model.values.ids import short
from stator.model.window.reply import dialect
from stator.runtime.replay.sources import Source

ALWAYS = "clock, randomness, environment, files and network that the agent uses itself"


class Uncaptured(msgspec.Struct, frozen=True, kw_only=True):
    """Something the record does not hold, so that no replay can check it."""

    what: str
    why: str
    turn: int = 0
    seq: int = 0

    def __str__(self) -> str:
        where = f"@{self.seq} " if self.seq else ""
        return f"{where}{self.what}: {self.why}"


class Replayed(msgspec.Struct, kw_only=True):
    """What came of a replay. `print(replayed)` is a report."""

    session: str
    name: str
    turns: int = 0
    calls: int = 0
    """Outcomes that were given from the record."""
    answers: int = 0
    """Answers of the model that were given from the record."""
    records: int = 0
    """Decisions, facts and the like that the program made as it had made them."""
    divergence: Divergence | None = None
    differences: list[Divergence] = []
    """Records that differ or are missing: reported, and a divergence only if `strict`."""
    ended: str = ""
    """Why the replay ended before the program did, where the record does."""
    uncaptured: list[Uncaptured] = []
    result: Any = None
    """What the agent returned."""

    @property
    def ok(self) -> bool:
        return self.divergence is None

    @property
    def verdict(self) -> str:
        """In a word or two."""
        if not self.ok:
            return "diverged"
        return "as recorded, as far as the record goes" if self.ended else "as recorded"

    def check(self) -> Replayed:
        """Itself, or `Diverged` with the report."""
        if self.divergence is not None:
            raise Diverged(str(self), session=self.session, commit=self.divergence.commit or None)
        return self

    def __str__(self) -> str:
        head = f"replay of {self.name} {short(self.session)}: "
        head += self.verdict
        reused = {
            "turn": self.turns,
            "call": self.calls,
            "answer": self.answers,
            "record": self.records,
        }
        counted = [f"{n} {noun}{'' if n == 1 else 's'}" for noun, n in reused.items()]
        done = f"  {', '.join(counted)} reused"
        lines = [head, done]
        if self.divergence is not None:
            lines += [f"  {line}" for line in str(self.divergence).splitlines()]
        if self.ended:
            lines.append(f"  stopped: {self.ended}")
        for difference in self.differences:
            lines += [f"  differs: {line}" for line in str(difference).splitlines()]
        lines += [f"  not captured: {item}" for item in self.uncaptured]
        return "\n".join(map(_visible, lines))


def _visible(line: str) -> str:
    """A line as a terminal may show it: what was recorded may be anything."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in line)


def uncaptured(source: Source, first: int, last: int) -> list[Uncaptured]:
    """What the record does not hold of the turns a replay goes through."""
    found: list[Uncaptured] = []
    for session, log in source.logs.items():
        own = session == source.main
        commits = [c for c in log if not own or first <= c.turn <= last]
        found += _missing(commits)
    return [*found, Uncaptured(what=ALWAYS, why="never captured")]


def _missing(commits: Sequence[Commit]) -> list[Uncaptured]:
    found: list[Uncaptured] = []
    nested = {c.call for c in commits if c.kind == "call" and c.parent}

    def add(commit: Commit, what: str, why: str) -> None:
        found.append(Uncaptured(what=what, why=why, turn=commit.turn, seq=commit.seq))

    for commit in commits:
        what = commit.tool or commit.kind
        for name, shown in (("input", "arguments"), ("output", "result")):
            item = commit.content.get(name)
            if isinstance(item, Gone):
                add(commit, f"{what}, {shown}", f"erased by @{item.by}")
            elif is_redacted(commit, name):
                add(commit, f"{what}, {shown}", "a secret was taken out; the rest is compared")
        if commit.kind == "call" and commit.call in nested:
            add(commit, what, "called inside another tool, which does not run")
        if commit.kind == "entry" and commit.status == "partial":
            add(commit, "a response that broke off", "its chunks were never recorded")
        elif commit.kind == "entry" and not commit.call and _is_response(commit):
            add(commit, "a response the agent fetched itself", "compared, and not given")
    return found


def _is_response(commit: Commit) -> bool:
    return dialect(commit.known("output")) != "plain"
