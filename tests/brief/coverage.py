"""Measures how much of what the next agent must know is in a brief.

    STATOR_TRANSCRIPTS=DIR python -m tests.brief.coverage [--second] [--out DIR] [NAME …]

Each list in `items` names a recorded session and what the next agent must know of it, as groups of words: an item is
in a text if each of its groups has a member in it, regardless of case. The lists were written by people who had not
seen a brief. The brief was tuned twice: first on the lists up to `FIRST_ROUND` in alphabetical order, then on all.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec

import stator
from stator.importers.discover import discover
from stator.importers.run import import_transcripts

ITEMS = Path(__file__).parent / "items"
SECOND = Path(__file__).parent / "second"
"""Other lists of some of the sessions, by other people. No rule was made for an item of them, but they are no longer
unseen: while the brief was tuned, their shares and the ids of what was missing were seen, and the items of four of
these lists were read."""
RECORDINGS = Path(os.environ.get("STATOR_TRANSCRIPTS") or "/nonexistent")
MAX_TOKENS = 1000
FIRST_ROUND = "generated-9d4f"


class MeasuredSession(msgspec.Struct, frozen=True, kw_only=True):
    """The brief of one recorded session, and which items are in it."""

    name: str
    short: bool
    text: str
    tokens: int
    present: list[str]
    missing: list[str]

    @property
    def half(self) -> str:
        """`A` if the brief was tuned on its list in both rounds, `B` if only in the second."""
        return "A" if self.name <= FIRST_ROUND else "B"

    @property
    def share(self) -> float:
        return len(self.present) / (len(self.present) + len(self.missing))


def item_lists(folder: Path = ITEMS) -> dict[str, dict[str, Any]]:
    """The lists of what the next agent must know, by name."""
    found = {path.stem: json.loads(path.read_bytes()) for path in sorted(folder.glob("*.json"))}
    return {name: one for name, one in found.items() if "session" in one}


def is_in(item: dict[str, Any], text: str) -> bool:
    """Whether a text says what an item asks for."""
    folded = " ".join(text.casefold().split())
    return all(
        any(" ".join(way.casefold().split()) in folded for way in ways) for ways in item["all"]
    )


def measured(
    folder: Path, names: Sequence[str] = (), max_tokens: int = MAX_TOKENS, lists: Path = ITEMS
) -> Iterator[MeasuredSession]:
    """The briefs of the recorded sessions that the lists are about, each imported by itself."""
    for name, one in item_lists(lists).items():
        if names and name not in names:
            continue
        with TemporaryDirectory() as place:
            briefs = briefs_of(Path(place), folder / one["session"], max_tokens)
        text = "\n".join(brief for brief, _ in briefs)
        there = [
            item["id"] for item in one["items"] if any(is_in(item, brief) for brief, _ in briefs)
        ]
        yield MeasuredSession(
            name=name,
            short=one["short"],
            text=text,
            tokens=max(tokens for _, tokens in briefs),
            present=there,
            missing=[item["id"] for item in one["items"] if item["id"] not in there],
        )


def briefs_of(place: Path, transcript: Path, max_tokens: int) -> list[tuple[str, int]]:
    """The brief of each conversation in a transcript, imported into a store of its own, and its tokens. A file with
    several conversations has one list about all of them: an item must be in one of their briefs."""
    with stator.connect(place / "store.db") as store:
        taken = import_transcripts(store, discover([transcript])).taken
        views = [store.read(session) for session in dict.fromkeys(one.session for one in taken)]
        roots = [view for view in views if store.port.session(view.id).record.parent is None]
        briefs = [view.brief(max_tokens=max_tokens) for view in roots or views]
        return [(brief.text, brief.tokens) for brief in briefs]


def main() -> None:
    asked = argparse.ArgumentParser(description="measure the coverage of briefs")
    asked.add_argument("names", nargs="*", help="lists to measure; without any, all")
    asked.add_argument("--out", type=Path, help="a folder to write the briefs to")
    asked.add_argument("--max-tokens", type=int, default=MAX_TOKENS)
    asked.add_argument("--second", action="store_true", help="measure with the second lists")
    given = asked.parse_args()
    if not RECORDINGS.is_dir():
        raise SystemExit("set STATOR_TRANSCRIPTS to a folder of recorded sessions")
    found = []
    lists = SECOND if given.second else ITEMS
    for one in measured(RECORDINGS, given.names, given.max_tokens, lists):
        found.append(one)
        lacks = ", ".join(one.missing)
        size = len(one.present) + len(one.missing)
        kind = "short" if one.short else ""
        print(
            f"{one.name:20} {one.half} {kind:5} {len(one.present):2}/{size:2} {one.share:4.0%}"
            f" {one.tokens:5} {lacks}",
            flush=True,
        )
        if given.out is not None:
            (given.out / f"{one.name}.txt").write_text(f"{one.text}\n")
    for halves in ("A", "B", "AB"):
        long = [one for one in found if one.half in halves and not one.short]
        total = sum(len(one.present) + len(one.missing) for one in long)
        there = sum(len(one.present) for one in long)
        if total:
            print(f"{halves}: {there}/{total} {there / total:.1%}")


if __name__ == "__main__":
    main()
