"""Records what a proxy sees in a session that has a transcript: as a witness, whose reports wait for their place.

Calls and their results go to the spool, like the lines of a hook. What only the proxy knows (the definitions of
tools, flags) is recorded at once.
"""

from __future__ import annotations

import msgspec

from stator.connect import spools
from stator.hooks.witness import AGENT, payload
from stator.hooks.witnesses import ANOTHER_ID
from stator.model.exchange.bookmark import Bookmark
from stator.model.exchange.items import Called, Conversation, Item, Returned
from stator.model.log.query import SessionRow
from stator.runtime.facade.store import Store
from stator.runtime.ingest.recorder import Recorded, Recorder, SeenCall
from stator.surfaces.hook import append_line


class WitnessRecorder(Recorder):
    """Takes the items of a proxy for a session that its transcript orders."""

    def __init__(self, store: Store, conversation: Conversation, row: SessionRow) -> None:
        super().__init__(
            store.port, store.context, conversation, via="proxy", row=row, orderer="proxy"
        )
        self._row = row
        self._folder = spools(store.port)[0]
        self._seen: list[Item] = []

    def take(self, item: Item) -> list[Recorded]:
        if not isinstance(item, (Called, Returned)):
            return super().take(item)
        if isinstance(item, Called) and item.id.startswith("proxy/"):
            # the transcript has this call under an id that the proxy does not know
            item = msgspec.structs.replace(item, key=ANOTHER_ID)
        self._seen.append(item)
        return []

    def flush(self, *, bookmark: Bookmark | None = None, barrier: bool = True) -> list[Recorded]:
        """Write the calls to the spool, on disk where a call may have an effect; append the rest."""
        if self._seen:
            said = payload(self.conversation.source, self.conversation.id, self._seen)
            durable = any(
                isinstance(item, Called) and item.effect == "write" for item in self._seen
            )
            append_line(self._folder, AGENT, "", said, durable=durable)
            self._seen = []
        return super().flush(bookmark=bookmark, barrier=barrier)

    def forget(self) -> None:
        self._seen = []
        super().forget()

    def open_calls(self) -> list[SeenCall]:
        """Calls that hooks reported and that have no result yet."""
        drafts = self._context.unplaced(self._store, self._row)
        ended = {draft.call for draft in drafts if draft.kind == "outcome"}
        return [
            SeenCall(draft.origin[1], draft.tool, draft.happened, draft.input)
            for draft in drafts
            if draft.kind == "call" and draft.origin is not None and draft.call not in ended
        ]
