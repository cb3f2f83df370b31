"""Keeps which commits of a session rest on an untrusted root, and where that root came from. Pure.

Commits are fed one by one, in the order of the log. What is kept is bounded and can be written down: stretches of the
log that are not trusted, not single commits. Where it would grow too large, the oldest stretches become one: then
what lies between them is not trusted either, which errs on the safe side.
"""

from __future__ import annotations

from bisect import bisect_right

import msgspec

from stator.model.log.commit import Commit
from stator.model.log.edges import is_shown

RUNS_MAX = 4000
"""Stretches that are kept, of each kind."""
MERGED = 500
"""How many of the oldest become one when there are more."""
ORIGINS_MAX = 200
LEADS_MAX = 1000
"""Other sessions whose ids are kept; with more, each change of another session concerns this one."""
SEVERAL = "several places"
NOT_KNOWN = "not known: too much lies behind it"
ANY = "*"
"""In the place of a session: there are more of them than are kept."""


class Rooted(msgspec.Struct, frozen=True, array_like=True):
    """The untrusted root that something rests on: of several, the newest of its own session."""

    seq: int
    """0 if it is in another session."""
    origin: str
    """Where it came from, in a word."""


class TaintedRun(msgspec.Struct, array_like=True):
    """Commits one after the other that rest on one untrusted root."""

    first: int
    last: int
    root: int
    origin: int
    """Its number in the list of origins."""
    newest: int = 0
    """The newest root of this run and of those before it."""


class SessionTaint(msgspec.Struct):
    """What is not trusted of a session's log, up to a seq."""

    upto: int = 0
    runs: list[TaintedRun] = []
    """Every commit that rests on an untrusted root."""
    shown: list[TaintedRun] = []
    """The same for ranges, which mean what a model was shown: a commit that is not shown interrupts none."""
    clean: int = 0
    """The last commit that was shown and is trusted."""
    origins: list[str] = []
    leads: list[str] = []
    """Other sessions that were looked at."""

    def at(self, seq: int) -> Rooted | None:
        """What the commit at a seq rests on."""
        place = bisect_right(self.runs, seq, key=_first) - 1
        if place < 0 or self.runs[place].last < seq:
            return None
        return self._rooted(self.runs[place])

    def within(self, first: int, last: int) -> Rooted | None:
        """What the commits of a range rest on."""
        runs = self.shown
        place = bisect_right(runs, last, key=_first) - 1
        best: TaintedRun | None = None
        while place >= 0 and runs[place].last >= first:
            run = runs[place]
            if best is None or run.root > best.root:
                best = run
            if best.root >= run.newest:  # none before it is newer
                break
            place -= 1
        return None if best is None else self._rooted(best)

    def anywhere(self) -> Rooted | None:
        """What anything in it rests on."""
        return self._rooted(max(self.runs, key=lambda run: run.root)) if self.runs else None

    def lead(self, session: str) -> None:
        """Remember that another session was looked at."""
        if session not in self.leads and ANY not in self.leads:
            self.leads.append(session if len(self.leads) < LEADS_MAX else ANY)

    def mark(self, commit: Commit, rooted: Rooted | None) -> None:
        """Take what was found out about the next commit."""
        self.upto = seq = commit.seq
        shown = is_shown(commit)
        if rooted is None:
            self.clean = seq if shown else self.clean
            return
        origin = self._numbered(rooted.origin)
        _extend(self.runs, seq, rooted.seq, origin, seq - 1)
        if shown:
            _extend(self.shown, seq, rooted.seq, origin, self.clean + 1)

    def _rooted(self, run: TaintedRun) -> Rooted:
        return Rooted(run.root, self.origins[run.origin])

    def _numbered(self, origin: str) -> int:
        if origin not in self.origins and len(self.origins) >= ORIGINS_MAX:
            origin = SEVERAL
        if origin not in self.origins:
            self.origins.append(origin)
        return self.origins.index(origin)


def newer(one: Rooted | None, other: Rooted | None) -> Rooted | None:
    """Of what two things rest on, the newer root."""
    if one is None or other is None:
        return one or other
    return other if other.seq > one.seq else one


def _first(run: TaintedRun) -> int:
    return run.first


def _extend(runs: list[TaintedRun], seq: int, root: int, origin: int, since: int) -> None:
    """Add a commit to the last run, if that reaches up to `since` and rests on the same; else as a new one."""
    last = runs[-1] if runs else None
    if last is not None and last.last >= since and (last.root, last.origin) == (root, origin):
        last.last = seq
        return
    runs.append(TaintedRun(seq, seq, root, origin, max(root, last.newest if last else 0)))
    if len(runs) > RUNS_MAX:
        oldest = runs[:MERGED]
        whole = max(oldest, key=lambda run: run.root)
        runs[:MERGED] = [
            TaintedRun(oldest[0].first, oldest[-1].last, whole.root, whole.origin, whole.root)
        ]
