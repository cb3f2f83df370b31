"""Continues the logs of earlier releases, which were not a function of their source alone.

Up to 0.7, hooks and transcript wrote into one log as they arrived. Such a log stays as it is: what it lacks is
appended. Some of what it holds was a guess, which a result that is read now settles; and its turns may be others than
those of the source.
"""

from __future__ import annotations

import msgspec

from stator.model.exchange.items import commit_id
from stator.model.log.commit import Commit, Draft
from stator.runtime.base.pages import commit_at
from stator.store.port import StorePort

GUESSES = ("in doubt", "cancelled")
"""Outcomes that were written where none was known."""


class Earlier:
    """The log of a session that was begun by a release before 0.8."""

    def __init__(self, store: StorePort, session: str) -> None:
        self._store = store
        self._session = session
        self._turn_open = store.head(session).turn_open

    def adapted(self, drafts: list[Draft]) -> list[Draft]:
        """The drafts that this log lacks, in a form that it accepts."""
        found: list[Draft] = []
        for draft in drafts:
            known = self._known(draft)
            if known is None:
                found += self._in_turn(draft)
            elif draft.kind == "outcome" and _is_settled_by(known, draft):
                found.append(_settling(draft))
        return found

    def _known(self, draft: Draft) -> Commit | None:
        there = self._store.locate(draft.id, self._session)
        return commit_at(self._store, self._session, there[0][1], load=False) if there else None

    def _in_turn(self, draft: Draft) -> list[Draft]:
        """A draft, with the end of the turn that is open here where it begins another one."""
        if draft.kind == "turn_end":
            was_open, self._turn_open = self._turn_open, False
            return [draft] if was_open else []
        if draft.kind != "turn":
            return [draft]
        if not self._turn_open:
            self._turn_open = True
            return [draft]
        assert draft.origin is not None  # every draft of a source has one
        origin = draft.origin[0], f"before/{draft.origin[1]}"
        end = msgspec.structs.replace(
            draft,
            id=commit_id(draft.session, "turn_end", origin),
            kind="turn_end",
            actor="system",
            status="ok",
            input=msgspec.UNSET,
            inputs=(),
            origin=origin,
        )
        return [end, draft]


def _is_settled_by(known: Commit, draft: Draft) -> bool:
    guessed = known.actor == "system" and known.status in GUESSES
    return guessed and draft.actor == "tool" and draft.status not in GUESSES


def _settling(draft: Draft) -> Draft:
    assert draft.origin is not None  # every draft of a source has one
    return msgspec.structs.replace(
        draft,
        id=commit_id(draft.session, "settlement", draft.origin, draft.attempt),
        kind="settlement",
        status="ok" if draft.status == "ok" else "error",
        cause="late result",
    )
