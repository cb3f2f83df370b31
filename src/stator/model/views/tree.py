"""The tree of sessions: what was forked, retried and started from what, and what each spent itself.

A fork shares its parent's turns and begins with nothing spent, so what a tree has used is the sum
of what each of its sessions used: every turn is counted once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from stator.model.calls.costs import total


class Branch(msgspec.Struct, frozen=True, kw_only=True):
    """A session in a tree."""

    id: str
    name: str
    status: str
    parent: str = ""
    kind: str = ""
    """How it came from its parent: fork, retry, child or import; "" without one. A child without a parent is a
    sub-agent's session whose parent was not recorded."""
    turn: int = 0
    """The turn of the parent at whose end it begins; of a retry, the turn that is retried."""
    seq: int = 0
    """Where in the parent's log it begins."""
    turns: int = 0
    """Its own."""
    spent: dict[str, int] = {}
    """By itself."""
    adopted: str = ""
    """The session that was adopted for it."""
    goes_on: bool = False
    """Whether it was adopted for its parent."""
    rewound: int = 0
    """How often it was gone back in."""
    created: int = 0
    updated: int = 0


class UnrecordedAgent(msgspec.Struct, frozen=True, kw_only=True):
    """A sub-agent that a session names, and whose own session is not in the store."""

    session: str
    name: str
    status: str
    parent: str
    """The session that names it."""
    seq: int


class Tree(msgspec.Struct, frozen=True, kw_only=True):
    """Sessions and how they hang together."""

    branches: list[Branch]
    """Each after its parent."""
    more: bool = False
    """Whether there are more than were asked for."""
    alone: int = 0
    """Sessions without relatives that were looked at and are not among them."""
    unrecorded: list[UnrecordedAgent] = []
    """Sub-agents of these, and of those looked at, that have no session here."""

    @property
    def total(self) -> dict[str, int]:
        """What all of them have spent, every turn counted once."""
        return total([branch.spent for branch in self.branches])


def in_order(branches: Sequence[Branch]) -> list[Branch]:
    """Every branch after its parent, siblings by where they begin and when they were made."""
    below = _below(branches)
    found: list[Branch] = []
    todo = below.get("", [])[::-1]
    while todo:
        branch = todo.pop()
        found.append(branch)
        todo += reversed(below.get(branch.id, []))
    return found


def drawn(branches: Sequence[Branch]) -> Iterator[tuple[str, Branch]]:
    """Every branch with the lines that lead to it."""
    below = _below(branches)
    todo = [("", "", branch) for branch in below.get("", [])[::-1]]
    while todo:
        lead, under, branch = todo.pop()
        yield lead, branch
        inner = below.get(branch.id, [])
        for place, other in enumerate(reversed(inner)):
            last = place == 0
            todo.append(
                (under + ("└─ " if last else "├─ "), under + ("   " if last else "│  "), other)
            )


def _below(branches: Iterable[Branch]) -> dict[str, list[Branch]]:
    """Branches by their parent; those whose parent is not among them by nothing."""
    ordered = sorted(branches, key=lambda branch: (branch.seq, branch.created, branch.id))
    known = {branch.id for branch in ordered}
    below: dict[str, list[Branch]] = {}
    for branch in ordered:
        below.setdefault(branch.parent if branch.parent in known else "", []).append(branch)
    return below
