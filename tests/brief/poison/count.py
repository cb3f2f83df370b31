"""Counts how often the poison of the corpus is told, and how often without its label.

    PYTHONPATH=tests python -m brief.poison.count [FAMILY …]

One row for each family: its sessions, the entries of the project's state that hold the poison, how often an agent is
given it, and how many of these lines lack a label.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

import stator
from brief.poison.corpus import FAMILIES, GUISES, PROJECT, build
from brief.poison.tellings import held, told, unlabelled


class FamilyCount(msgspec.Struct):
    """What was counted in the sessions of one family."""

    sessions: int = 0
    entries: int = 0
    told: int = 0
    unlabelled: int = 0

    def add(self, other: FamilyCount) -> None:
        self.sessions += other.sessions
        self.entries += other.entries
        self.told += other.told
        self.unlabelled += other.unlabelled

    def row(self, label: str) -> str:
        return f"| {label} | {self.sessions} | {self.entries:,} | {self.told:,} | {self.unlabelled:,} |"


def counted(family: str, guise: str) -> FamilyCount:
    """What is told of one poisoned session."""
    with (
        TemporaryDirectory() as place,
        stator.connect(Path(place) / "s.db", project=PROJECT, durability="relaxed") as store,
    ):
        poisoned = build(store, Path(place), family, guise)
        one = FamilyCount(sessions=1, entries=len(held(store, poisoned)))
        for _, found in told(store, poisoned):
            one.told += json.dumps(found, default=str).count(poisoned.marker)
            one.unlabelled += len(list(unlabelled(found, poisoned.marker)))
    return one


def main() -> None:
    asked = argparse.ArgumentParser(description="count how often the poison of the corpus is told")
    asked.add_argument("families", nargs="*", help="families to count; without any, all")
    total = FamilyCount()
    for family in asked.parse_args().families or FAMILIES:
        count = FamilyCount()
        for guise in GUISES:
            count.add(counted(family, guise))
        total.add(count)
        print(count.row(family), flush=True)
    print(total.row("**all**"))


if __name__ == "__main__":
    main()
