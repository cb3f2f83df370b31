"""Walks a session's own log as it lies in a store, past what is damaged, and lists the damage by seq.

A store gives each log as a `SessionLog`: its commits, and an `Unreadable` in the place of each commit that is
missing or cannot be read. The walk never stops at the first problem: a commit names the hash before it, so the
commits behind a damaged one can still be checked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator

import msgspec

from stator.errors import LogDamaged
from stator.model.log import chain
from stator.model.log.commit import Commit, Gone
from stator.model.records.types import Segment

NAMED_MAX = 20
"""Damaged sessions that an error names."""


class Unreadable(msgspec.Struct, frozen=True):
    """Commits that are not there, or cannot be read: `first` to `last`."""

    first: int
    last: int
    what: str


Held = Callable[[int, int], dict[str, int]]
"""What the indexes still hold of the commits in a range: records by collection."""


class SessionLog(msgspec.Struct, frozen=True):
    """A session's own log, to be walked once."""

    session: str
    """Its id; empty where no part of the store tells it."""
    name: str
    place: str
    """Where it lies in the store, in words: for a session whose id cannot be read."""
    rows: Iterator[Commit | Unreadable]
    low: int = 0
    """The seq before its own first commit."""
    prev: str = chain.GENESIS
    """The hash its first commit continues."""
    lineage: tuple[Segment, ...] = ()
    joint: str | None = None
    """For a fork: the hash that its parent's log has at `low`; None where that cannot be read."""
    row: str = ""
    """What is wrong with the session's row, if something is."""
    held: Held = lambda first, last: {}


class Walked(msgspec.Struct):
    """What a walk found."""

    log: SessionLog
    verified: int = 0
    head: str = ""
    """The hash of the last commit."""
    used: int = 0
    """When the session was last used."""
    damages: list[Unreadable] = []
    epochs: dict[int, int] = {}
    """Each epoch of its commits, with the last seq that has it."""
    left_out: list[int] = []
    """Commits with content that no erasure took: a bundle may have left it out."""

    @property
    def first_bad(self) -> int:
        """The seq of the first damaged commit; 0 if there is none."""
        return min((damage.first for damage in self.damages), default=0)


def walk(log: SessionLog, progress: Callable[[str, int], None] | None = None) -> Walked:
    """Check every commit of a log against its hash and its place."""
    walked = Walked(log)
    damages: list[Unreadable] = []
    gone: dict[int, int] = {}
    erasures: set[int] = set()
    prev: str | None = log.prev
    if log.lineage and log.joint is not None and log.joint != log.prev:
        damages.append(
            Unreadable(log.low + 1, log.low + 1, "the commit it was forked from has another hash")
        )
    for seq, row in _placed(log.rows, log.low + 1):
        if isinstance(row, Unreadable):
            damages.append(row)
            prev = None
            continue
        if prev is None and row.prev:  # the row before is damaged and still has its hash
            prev = row.prev
        wrong = _wrong(row, prev, seq)
        if wrong is None:
            walked.verified += 1
        else:
            damages.append(Unreadable(row.seq, row.seq, wrong))
        prev = walked.head = row.hash
        walked.used = row.used
        if row.epoch:
            walked.epochs[row.epoch] = row.seq
        if row.kind == "erasure":
            erasures.add(row.seq)
        for item in row.content.values():
            if isinstance(item, Gone):
                gone.setdefault(item.by, row.seq)
                if not item.by and row.seq not in walked.left_out[-1:]:
                    walked.left_out.append(row.seq)
        if progress is not None and not walked.verified % 500:
            progress(log.session, walked.verified)
    for by, seq in gone.items():
        if by and by not in erasures and not any(d.first <= by <= d.last for d in damages):
            damages.append(Unreadable(seq, seq, f"content is missing, but @{by} is not an erasure"))
    walked.damages = merged(damages)
    if progress is not None:
        progress(log.session, walked.verified)
    return walked


def must_verify(logs: Iterable[SessionLog]) -> None:
    """`LogDamaged` unless every commit of every log verifies."""
    walked = [walk(log) for log in logs]
    bad = [each for each in walked if each.damages]
    if not bad:
        return
    lines = [described(each) for each in bad[:NAMED_MAX]]
    if len(bad) > NAMED_MAX:
        lines.append(f"{len(bad) - NAMED_MAX} more sessions")
    raise LogDamaged(
        "the log does not verify, so nothing was rebuilt from it: " + "; ".join(lines),
        hint="restore a backup, or import a bundle of these sessions into a new store; the other sessions "
        "can be exported: stator export. The indexes are unchanged: they may hold what the log has lost",
        session=bad[0].log.session or None,
        seq=bad[0].first_bad,
        sessions=[each.log.session for each in bad],
        seqs=[each.first_bad for each in bad],
    )


def described(walked: Walked) -> str:
    """A damaged log in words: session, first bad commit, and what the indexes still hold of all that is bad."""
    log = walked.log
    first, size = walked.first_bad, sum(bad.last - bad.first + 1 for bad in walked.damages)
    text = f"session {log.session or log.place}"
    text += f" ({log.name})" if log.name else ""
    text += f" @{first}" + (f" and {size - 1} more" if size > 1 else "")
    return f"{text}, of which {in_words(held_of(walked))}"


def held_of(walked: Walked) -> dict[str, int]:
    """What the indexes still hold of the damaged commits of a session, by collection."""
    found: Counter[str] = Counter()
    for bad in walked.damages:
        found.update(walked.log.held(bad.first, bad.last))
    return dict(found)


def in_words(held: dict[str, int]) -> str:
    if not held:
        return "the indexes hold nothing"
    return "the indexes still hold " + ", ".join(f"{n} of {name}" for name, n in held.items())


def _placed(
    rows: Iterator[Commit | Unreadable], first: int
) -> Iterator[tuple[int, Commit | Unreadable]]:
    """Each row with the seq it should have."""
    seq = first
    for row in rows:
        yield seq, row
        seq = (row.last if isinstance(row, Unreadable) else row.seq) + 1


def _wrong(commit: Commit, prev: str | None, seq: int) -> str | None:
    if prev is None:
        return "the commit before it is missing, so that its hash cannot be checked"
    return chain.check(commit, prev, seq)


def merged(damages: list[Unreadable]) -> list[Unreadable]:
    """Damage in order, neighbours with the same words as one range."""
    found: list[Unreadable] = []
    for damage in sorted(damages, key=lambda damage: (damage.first, damage.last)):
        last = found[-1] if found else None
        if last is not None and damage.first <= last.last + 1 and damage.what == last.what:
            found[-1] = Unreadable(last.first, max(last.last, damage.last), last.what)
        else:
            found.append(damage)
    return found
