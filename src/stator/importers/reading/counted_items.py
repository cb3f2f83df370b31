"""Reads documents and databases that an agent rewrites while they grow: what was given before is counted
and skipped.

Such a source has no offset at which reading could continue. So it is read from its beginning each time. The
cursor holds how many items were given, and a digest of their ids. If the first items are no longer those (an
agent went back and continued differently), all items are given again, and a store skips those it knows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sized
from hashlib import sha256

import msgspec

from stator.importers.reading.jsonl import CUT_OFF
from stator.model.exchange.items import Cursor, Item, Skipped


class Steps(msgspec.Struct, frozen=True):
    """The items of a document, in steps. A step is what one message or record adds."""

    steps: Iterable[Iterator[Item]]
    """Each step is read after the ones before it, and only if it is needed."""
    settled: int
    """How many of the steps nothing that is written later can change."""


def settled_count(records: Sized, *, is_finished: bool) -> int:
    """How many records are final in a document in which only the last one may still change."""
    return len(records) if is_finished else max(len(records) - 1, 0)


def counted_items(
    read: Callable[[], Steps], cursor: Cursor | None, *, at_rest: bool
) -> Iterator[Item]:
    """Yield the items after a cursor: those of the settled steps, and at rest those of all steps."""
    count, cut = _Count(), list[Item]()
    given, known = _given_before(cursor)
    is_settled = True
    for item in _marked(read()):
        if isinstance(item, Cursor):
            is_settled = False
            if count.number >= given:
                yield count.cursor()
                if not at_rest:
                    return
            continue
        if isinstance(item, Skipped) and item.why == CUT_OFF:
            cut.append(item)  # the next time, more may be there
            continue
        count.add(item)
        if count.number > given:
            yield item
        elif count.number == given and count.digest() != known:
            break
        elif count.number == given and not (is_settled or at_rest):
            yield count.cursor()  # at rest, more was given than is settled now
            return
    if count.number < given or (count.number == given and given and count.digest() != known):
        yield from counted_items(read, None, at_rest=at_rest)
        return
    yield from cut
    yield count.cursor()


def _marked(found: Steps) -> Iterator[Item]:
    """The items of all steps, with a cursor where the settled ones end."""
    is_marked = False
    for number, step in enumerate(found.steps):
        if number == found.settled:
            is_marked = True
            yield Cursor(offset=0)
        yield from step
    if not is_marked:
        yield Cursor(offset=0)


def _given_before(cursor: Cursor | None) -> tuple[int, str]:
    """How many items were given, and the digest of their ids."""
    state = cursor.state if cursor is not None else {}
    given, known = state.get("given"), state.get("ids")
    return (given, known) if isinstance(given, int) and isinstance(known, str) else (0, "")


class _Count:
    """Counts items and digests their ids."""

    def __init__(self) -> None:
        self.number = 0
        self._ids = sha256()

    def add(self, item: Item) -> None:
        self.number += 1
        name = f"{type(item).__name__}\0{item.id}\0"
        self._ids.update(name.encode("utf-8", "surrogatepass"))

    def digest(self) -> str:
        return self._ids.hexdigest()[:32]

    def cursor(self) -> Cursor:
        state = {"given": self.number, "ids": self.digest()}
        return Cursor(offset=0, line=self.number, state=state)
