"""Places the sessions of a tree as rows with lines between them. Only places: a template draws them."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from stator.model.views.tree import Branch

ROW = 48
LANE = 18
LEFT = 14
LANES_MAX = 8
"""Deeper generations share the last lane."""


class TreeRow(msgspec.Struct, frozen=True, kw_only=True):
    """A session at its place."""

    branch: Branch
    x: int
    y: int
    above: tuple[int, int] | None = None
    """Where its parent is."""


class TreePicture(msgspec.Struct, frozen=True, kw_only=True):
    """A tree as rows, and how large the picture of its lines is."""

    rows: list[TreeRow]
    width: int
    height: int
    words: str


def tree_rows(branches: Sequence[Branch]) -> TreePicture:
    """The sessions of a tree, each after its parent, in rows."""
    placed: dict[str, TreeRow] = {}
    rows: list[TreeRow] = []
    depth: dict[str, int] = {}
    for number, branch in enumerate(branches):
        parent = placed.get(branch.parent)
        depth[branch.id] = 0 if parent is None else min(depth[branch.parent] + 1, LANES_MAX)
        row = TreeRow(
            branch=branch,
            x=LEFT + depth[branch.id] * LANE,
            y=number * ROW + ROW // 2,
            above=None if parent is None else (parent.x, parent.y),
        )
        placed[branch.id] = row
        rows.append(row)
    width = LEFT * 2 + max((row.x for row in rows), default=0)
    kinds = [branch.kind or "session" for branch in branches]
    words = ", ".join(f"{kinds.count(kind)} {kind}" for kind in dict.fromkeys(kinds))
    return TreePicture(rows=rows, width=width, height=len(rows) * ROW, words=words)
