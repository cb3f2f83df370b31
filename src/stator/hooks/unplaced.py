"""What is known of a conversation and has no place in its log yet, for readers.

Two sources: the end of the transcript, which no process has recorded yet or which may still change, and what hooks saw.
Nothing here is written. The drafts have the ids that their commits will have, and no position.

Whatever is read out of a store asks this, hooks of agents among it, and mostly there is nothing: so what reads
transcripts and spools is imported where there is one to read.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from stator.errors import StatorError
from stator.importers.reading.file_stamp import is_unchanged
from stator.locations import waits
from stator.model.exchange.bookmark import HOOKS, TRANSCRIPT
from stator.model.log.commit import Draft
from stator.model.log.query import SessionRow
from stator.runtime.base.context import Context
from stator.store.port import StorePort

if TYPE_CHECKING:
    from stator.hooks import spool
    from stator.model.exchange.items import Conversation, Item

LINES_MAX = 20_000
"""Lines of the spool that are looked at."""


def unplaced(
    store: StorePort, context_for: Callable[[str], Context], folders: list[str], row: SessionRow
) -> list[Draft]:
    """Drafts of what is not in the log of a session yet, in order as far as that is known."""
    if row.record.mode != "recorded" or not row.record.aliases:
        return []
    queues = [folder for folder in folders if waits(folder)]
    if not queues and _is_all_recorded(store, row.id):
        return []
    from stator.hooks.hook_note import hook_note
    from stator.model.exchange.items import Conversation

    source, foreign = row.record.aliases[0]
    cwd = hook_note(store, row.id).cwd
    conversation = Conversation(source=source, id=foreign, cwd=cwd)
    drafts = _tail(store, context_for, row, conversation)
    known = {draft.id for draft in drafts}
    items = [item for folder in queues for item in _seen(store, folder, row.id, conversation)]
    if not items:
        return drafts
    from stator.hooks import witnesses

    drafts += [
        draft
        for draft in witnesses.drafts_of(
            store, context_for(cwd), row.id, conversation, items, has_turns=False
        )
        if draft.id not in known and not store.locate(draft.id, row.id)
    ]
    return drafts


def _is_all_recorded(store: StorePort, session: str) -> bool:
    """Whether the transcript of a session is as it was when all of it was recorded, or none is known."""
    hooks, read = (store.bookmark(session, name) for name in (HOOKS, TRANSCRIPT))
    known = "" if hooks is None else hooks.value.get("transcript", "")
    if read is None:
        return not known
    return known in ("", read.value.get("path")) and is_unchanged(read.value)


def _tail(
    store: StorePort,
    context_for: Callable[[str], Context],
    row: SessionRow,
    conversation: Conversation,
) -> list[Draft]:
    """What the transcript holds beyond what was recorded."""
    from stator.hooks.hook_note import hook_note

    hooks = hook_note(store, row.id)
    if not hooks.transcript and store.bookmark(row.id, TRANSCRIPT) is None:
        return []
    from stator.importers import registry
    from stator.importers.conversation import read_note, unrecorded_drafts
    from stator.importers.discover import READ_ERRORS
    from stator.importers.reading.line_boundary import SHAPE_ERRORS

    # Who imported it into a store on a server did so from a file of any machine.
    note = None if getattr(store, "remote", False) else read_note(store, row.id, TRANSCRIPT)[1]
    path = hooks.transcript or (note.path if note is not None else "")
    if not path or not Path(path).is_file():
        return []
    try:
        format = registry.load(conversation.source)
        for found in format.conversations(Path(path)):
            if found.conversation.id == conversation.id:
                return unrecorded_drafts(store, context_for(hooks.cwd), format, found)
    except (*READ_ERRORS, *SHAPE_ERRORS, StatorError):
        return []  # it cannot be read: then it shows nothing. An import says why.
    return []


def _seen(store: StorePort, folder: str, session: str, conversation: Conversation) -> list[Item]:
    """What hooks reported of a conversation that its log does not hold."""
    from stator.hooks import spool, witnesses
    from stator.model.exchange.items import Began, Ended

    lines = witnesses.held_lines(folder, session)
    lines += [line for line in islice(spool.peek(folder), LINES_MAX) if _is_of(line, conversation)]
    found: list[Item] = []
    for seen in witnesses.reported(lines, {}, lambda line, error: None):
        found += [
            item
            for item in seen.items
            if not item.within
            and not isinstance(item, (Began, Ended))
            and not witnesses.is_placed(store, session, conversation.source, item)
        ]
    return found


def _is_of(line: spool.SpoolLine, conversation: Conversation) -> bool:
    from stator.hooks.mappers import load_mapper

    try:
        found = load_mapper(line.agent).conversation(line.payload)
    except Exception:  # a mapper may raise anything on hostile input; ingesting refuses the line
        return False
    return found is not None and (found.source, found.id) == (conversation.source, conversation.id)
