"""Measures what agents are told with a first prompt: how much of what bears on it, and how seldom anything else.

    STATOR_TRANSCRIPTS=DIR python -m tests.brief.first_prompts [-v] [NAME …]

Each list in `items` has three prompts that are about its session, with the items that an answer needs, and five that
are about something else in the same repository; `unrelated.json` has a hundred about anything. The dose was tuned on
the first half of the lists in alphabetical order; of the others, only the numbers were looked at. Each session is
measured in a project of its own, and once more in a project that holds the sessions of all lists.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec

import stator
from stator.importers.discover import discover
from stator.importers.run import import_transcripts
from stator.runtime.facade.store import Store

ITEMS = Path(__file__).parent / "items"
RECORDINGS = Path(os.environ.get("STATOR_TRANSCRIPTS") or "/nonexistent")
PROJECT = "measured"


class PromptTally(msgspec.Struct):
    """What prompts were answered with."""

    items: int = 0
    found: int = 0
    related: int = 0
    silent: int = 0
    """Prompts about the session that got nothing."""
    unrelated: int = 0
    told: int = 0
    """Prompts about something else that got something."""
    most: int = 0
    """Tokens of the longest dose."""

    @property
    def share(self) -> float:
        return self.found / max(1, self.items)

    @property
    def noise(self) -> float:
        return self.told / max(1, self.unrelated)


def prompt_lists() -> dict[str, dict[str, Any]]:
    """The lists with prompts, by name."""
    found = {path.stem: json.loads(path.read_bytes()) for path in sorted(ITEMS.glob("*.json"))}
    return {name: one for name, one in found.items() if "related" in one}


def tuned_half() -> set[str]:
    """The lists that the dose was tuned on."""
    names = sorted(prompt_lists())
    return set(names[: (len(names) + 1) // 2])


def unrelated_prompts() -> list[str]:
    return list(json.loads((ITEMS / "unrelated.json").read_bytes())["prompts"])


def holds(item: dict[str, Any], text: str) -> bool:
    """Whether a text has a member of each group of words of an item."""
    low = " ".join(text.casefold().split())
    return all(
        any(" ".join(one.casefold().split()) in low for one in group) for group in item["all"]
    )


def ask_related(store: Store, one: dict[str, Any], tally: PromptTally) -> Iterator[str]:
    """Ask with the prompts of a list; yields what is missing."""
    items = {item["id"]: item for item in one["items"]}
    for asked in one["related"]:
        dose = store.brief(asked["prompt"], project=PROJECT)
        missing = [name for name in asked["items"] if not holds(items[name], dose.text)]
        tally.related += 1
        tally.items += len(asked["items"])
        tally.found += len(asked["items"]) - len(missing)
        tally.silent += not dose
        tally.most = max(tally.most, dose.tokens)
        if missing:
            yield f"{asked['prompt'][:70]}: lacks {', '.join(missing)}"


def ask_unrelated(store: Store, prompts: list[str], tally: PromptTally) -> Iterator[str]:
    """Ask with prompts about something else; yields those that were told something."""
    for asked in prompts:
        dose = store.brief(asked, project=PROJECT)
        tally.unrelated += 1
        tally.told += bool(dose)
        if dose:
            yield f"{asked[:70]}: told {dose.lines[0].text[:60]}"


def take(store: Store, transcript: Path) -> None:
    import_transcripts(store, discover([transcript]), project=PROJECT)


def measure(
    folder: Path, names: list[str], *, verbose: bool = False
) -> tuple[PromptTally, PromptTally]:
    """The tallies of lists: each session in a project of its own; all of them in one."""
    lists = {name: one for name, one in prompt_lists().items() if name in names}
    alone, together = PromptTally(), PromptTally()
    said: list[str] = []
    with TemporaryDirectory() as place, stator.connect(Path(place) / "all.db") as everything:
        for name, one in lists.items():
            with stator.connect(Path(place) / f"{name}.db") as store:
                take(store, folder / one["session"])
                said += ask_related(store, one, alone)
                said += ask_unrelated(store, [*one["unrelated"], *unrelated_prompts()], alone)
        for one in prompt_lists().values():
            take(everything, folder / one["session"])
        everything.search("hello", project=PROJECT)  # an index that lacks much is asked as it is
        for one in lists.values():
            said += ask_related(everything, one, together)
            said += ask_unrelated(everything, one["unrelated"], together)
        said += ask_unrelated(everything, unrelated_prompts(), together)
    for line in said if verbose else ():
        print(f"  {line}")
    return alone, together


def show(label: str, tally: PromptTally) -> None:
    print(
        f"{label}: {tally.found}/{tally.items} items ({tally.share:.0%}), {tally.silent} of {tally.related} related"
        f" prompts got nothing; {tally.told} of {tally.unrelated} unrelated prompts got something"
        f" ({tally.noise:.1%}); longest dose {tally.most} tokens",
        flush=True,
    )


def main() -> None:
    asked = argparse.ArgumentParser(description="measure what first prompts are answered with")
    asked.add_argument("names", nargs="*", help="lists to measure; without any, all")
    asked.add_argument("-v", action="store_true", help="say what is missing, of the tuned half")
    given = asked.parse_args()
    if not RECORDINGS.is_dir():
        raise SystemExit("set STATOR_TRANSCRIPTS to a folder of recorded sessions")
    tuned = tuned_half()
    others = sorted(set(prompt_lists()) - tuned)
    for half, names in (("tuned half", sorted(tuned)), ("other half", others)):
        wanted = [name for name in names if name in (given.names or names)]
        if wanted:
            alone, together = measure(RECORDINGS, wanted, verbose=given.v and half == "tuned half")
            show(f"{half}, a project each", alone)
            show(f"{half}, one project", together)


if __name__ == "__main__":
    main()
