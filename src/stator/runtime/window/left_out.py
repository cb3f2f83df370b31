"""Records with an answer which turns it was made without, because they did not fit into the window.

`t.messages(max_tokens=)` leaves out the oldest turns. That is no fact until an answer is made: then a commit with
the status `window` is appended with the answer, if what was left out is not what the log has. It puts the keys of what
left the view into `evicted`, and drops those of turns that are shown again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from stator.model.log.commit import Change, Named, Remove, Upsert
from stator.model.records.types import EvictedRecord
from stator.model.window.compaction import WINDOW
from stator.model.window.transcript import Transcript
from stator.runtime.window.transcript import Rendering
from stator.store.port import StorePort


@dataclass(frozen=True, slots=True)
class WindowCut:
    """What a rendering left out."""

    base: int
    """The compaction that was in force; 0: none was."""
    upto: int = 0
    """The last seq that was left out; 0: nothing was."""
    turns: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    records: tuple[EvictedRecord, ...] | None = ()
    """The keys of it; None if the log had them already."""

    def __bool__(self) -> bool:
        return self.upto > 0


@dataclass(frozen=True, slots=True)
class AskedWith:
    """What a model was asked with."""

    inputs: tuple[Named, ...] = ()
    cut: WindowCut | None = None
    """What was left out for it; None if that is not known."""


@dataclass(slots=True)
class RenderedMessages:
    """Messages that were rendered, what they were made from and what was left out of them."""

    messages: list[Any] | None = None
    inputs: tuple[Named, ...] = ()
    cut: WindowCut | None = None
    waits: bool = True
    """Whether no answer was recorded since."""

    def are_in(self, given: Iterable[Any]) -> bool:
        """Whether they are among the arguments of a question: the list itself, or another one that holds each of
        them, such as one that begins with a system message."""
        if self.messages is None:
            return False
        mine = set(map(id, self.messages))
        return any(
            each is self.messages
            or (bool(mine) and isinstance(each, list) and mine <= set(map(id, each)))
            for each in given
        )


def cut_of(transcript: Transcript) -> WindowCut:
    """What the last rendering of a transcript left out."""
    left, base = transcript.left, transcript.view.by
    if not left.turns:
        return WindowCut(base)
    upto = transcript.rendered_from - 1
    # The same cut as on record has the same keys.
    records = None if upto == transcript.window else tuple(left.records())
    return WindowCut(base, upto, left.turns, dict(left.counts), records)


def evictions(
    store: StorePort, session: str, rendering: Rendering, cut: WindowCut
) -> dict[str, Any] | None:
    """The fields of the commit that records a cut; None if the log has it, or if another answer or a compaction came
    between: the next answer records it then."""
    if cut.records is None or cut.upto == rendering.window:
        return None
    transcript = rendering.current()
    if cut.upto == transcript.window or cut.base != transcript.view.by:
        return None
    changes = _changes(store, session, cut.records)
    if not changes:
        return None
    return {
        "status": WINDOW,
        "inputs": (cut.upto,),
        "input": {"turns": cut.turns, "left": cut.counts},
        "changes": tuple(changes),
    }


def _changes(store: StorePort, session: str, records: Iterable[EvictedRecord]) -> list[Change]:
    """What makes these keys those that did not fit. What a compaction evicted stays as it is."""
    wanted = {record.key: record for record in records}
    changes: list[Change] = []
    for entry in store.entries(session, "evicted"):
        new = wanted.pop(entry.key, None)
        record = entry.record
        if isinstance(record, EvictedRecord) and record.window:
            if new is None:
                changes.append(Remove("evicted", entry.key))
            elif new != record:
                changes.append(Upsert("evicted", new))
    return [*changes, *(Upsert("evicted", record) for record in wanted.values())]
