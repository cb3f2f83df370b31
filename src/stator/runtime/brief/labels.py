"""Labels the lines of a brief that rest on something that nobody vouches for with where that came from."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from stator.model.brief.path_groups import common_folder
from stator.model.brief.sections import BriefItem, Saying
from stator.model.brief.story import NetFile
from stator.model.log.shown_text import cut_short
from stator.runtime.brief.newest import NewestCommits

ORIGIN_MAX = 60
_ORIGIN = re.compile(r"[^\w.:/@' -]+")


class Labels:
    """What the commits rest on that lines are from; each is asked about once."""

    def __init__(self, newest: NewestCommits) -> None:
        self.newest = newest
        self._waiting: set[int] = set()
        self._asked: set[int] = set()
        self._known: dict[int, str] = {}

    def ask(self, seqs: Iterable[int]) -> None:
        """Commits that will be asked about: they are looked up together."""
        self._waiting |= {seq for seq in seqs if seq > 0} - self._asked

    @property
    def known(self) -> dict[int, str]:
        """Of the commits that were asked about, those that rest on what nobody vouches for, and from where."""
        if self._waiting:
            self._known |= self.newest.unverified(sorted(self._waiting))
            self._asked |= self._waiting
            self._waiting = set()
        return self._known

    def on(self, item: BriefItem) -> BriefItem:
        """An item, with what the commits rest on that it is from."""
        seqs = item.seqs or (item.seq,)
        self.ask(seqs)
        known = self.known
        return labelled(item, next((known[seq] for seq in seqs if seq in known), ""))

    def all_on(self, items: Iterable[BriefItem]) -> list[BriefItem]:
        return [self.on(item) for item in items]

    def sourced(self, items: Iterable[BriefItem]) -> list[BriefItem]:
        """Items with the label of where their newest commit came from."""
        return [
            msgspec.structs.replace(item, source=self.newest.source(item.seq)) for item in items
        ]

    def by_origin(self, files: Sequence[NetFile]) -> dict[str, list[NetFile]]:
        """Files by where their names came from; first those whose names are from here. The name of a file that was
        known before a page was read is from here, whatever was done to the file afterwards."""
        groups: dict[str, list[NetFile]] = {"": []}
        for one in files:
            groups.setdefault(self.known.get(one.first, ""), []).append(one)
        return groups

    def folder(self, files: Sequence[NetFile]) -> str:
        """The folder that all files are in, if one of them has a name that is from here; of a single file only if it
        was changed."""
        tells = len(files) > 1 or any(one.edits for one in files)
        return (
            common_folder([one.path for one in files])
            if tells and self.by_origin(files)[""]
            else ""
        )


def origin_words(where: str) -> str:
    """Where something came from, without what could be mistaken for our words."""
    return cut_short(_ORIGIN.sub("?", where), ORIGIN_MAX)


def labelled(item: BriefItem, origin: str) -> BriefItem:
    """An item, with a label of what it rests on, if there is an origin."""
    if not origin:
        return item
    source = f"{item.source or 'agent'}, rests on {origin_words(origin)}"
    return msgspec.structs.replace(item, source=source)


def resting(saying: Saying, doubtful: Mapping[int, str]) -> Saying:
    """The agent's words, with a label of what they rest on."""
    if saying.seq not in doubtful:
        return saying
    source = f"{saying.source}, rests on {origin_words(doubtful[saying.seq])}"
    return msgspec.structs.replace(saying, source=source)
