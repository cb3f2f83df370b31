"""Counts what a recorder would append, without appending it: the same drafts, compared with the record."""

from __future__ import annotations

from stator.model.exchange.bookmark import Bookmark
from stator.model.exchange.item_commits import DraftingState
from stator.model.exchange.items import Compacted, Conversation, commit_id
from stator.model.log.commit import Commit, Draft
from stator.runtime.base.context import Context
from stator.runtime.ingest.placement import find, fork_point
from stator.runtime.ingest.recorder import Recorded, Recorder, mended
from stator.store.port import StorePort

SHARED = (("entry", 0), ("turn", 0), ("call", 1), ("outcome", 1))
"""What a fork may share with the conversation it comes from: kinds of commits, and which try."""


class Foreteller(Recorder):
    """Takes the items of one conversation and records nothing: `told` lists what would be new.

    `foretold` (hashes of ids, for they may be many) holds what would be on record by then.
    """

    def __init__(
        self,
        store: StorePort,
        context: Context,
        conversation: Conversation,
        foretold: set[int],
        *,
        state: DraftingState | None = None,
    ) -> None:
        super().__init__(store, context, conversation, state=state)
        self._foretold = foretold
        self._drafts: list[Draft] = []
        self.is_new = self.is_new and hash(self.session) not in foretold
        self._base, self._is_recorded = self._begun_in() if self.is_new else ("", False)

    def told(self) -> list[Draft]:
        """What would be new since the last time this was asked."""
        drafts, self._drafts = self._drafts, []
        return drafts

    def flush(self, *, bookmark: Bookmark | None = None, barrier: bool = True) -> list[Recorded]:
        drafts = [
            draft
            for draft in self._pending
            if isinstance(draft, Draft) and not self._is_left_to_extract(draft)
        ]
        whole = [mended(draft) for draft in drafts]
        self.mended += sum(new is not old for new, old in zip(whole, drafts, strict=True))
        self._foretold.add(hash(self.session))
        self._drafts += [draft for draft in whole if self._is_new(draft)]
        self._pending = []
        return []

    def _begun_in(self) -> tuple[str, bool]:
        """The session that a fork would start from, if it is recorded (and whether it is) or would be."""
        talk = self.conversation
        if not talk.fork_of:
            return "", False
        if (point := fork_point(self._store, talk)) is not None:
            return point.session, True
        base = Conversation(source=talk.source, id=talk.fork_of).session
        would_be = any(
            hash(commit_id(base, kind, (talk.source, foreign), attempt)) in self._foretold
            for foreign in talk.fork_ids
            for kind, attempt in SHARED
        )
        return base if would_be else "", False

    def _is_new(self, draft: Draft) -> bool:
        """Whether a draft would be recorded; it is known from then on."""
        named = hash(draft.id)
        if named in self._foretold:
            return False
        self._foretold.add(named)
        if self._base and draft.origin is not None and self._is_inherited(draft, draft.origin):
            return False
        return self._unbegun or not self._store.locate(draft.id, self.session)

    def _is_inherited(self, draft: Draft, origin: tuple[str, str]) -> bool:
        if origin[1] in self.conversation.fork_ids:
            return True
        there = commit_id(self._base, draft.kind, origin, draft.attempt)
        if self._is_recorded:
            return bool(self._store.locate(there, self._base))
        return hash(there) in self._foretold

    def _compacted(self, item: Compacted) -> list[Commit]:
        return []


def is_foretold(store: StorePort, conversation: Conversation, foretold: set[int]) -> bool:
    """Whether a conversation is on record, or would be by then."""
    return hash(conversation.session) in foretold or find(store, conversation) is not None
