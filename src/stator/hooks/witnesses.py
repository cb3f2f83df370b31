"""Keeps what hooks saw until the transcript of the session tells it too.

A session with a transcript has the order of its transcript. What a hook reports has no place in it yet: it is
*unplaced*. Its line is kept in a file of the spool (`held/SESSION`) and goes when the log holds all that it reports. If
the conversation is at rest and its transcript still does not mention it (a program was killed right after the hook), it
is recorded at the end, with the cause *not in the transcript*.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from copy import deepcopy
from typing import Any

import msgspec

from stator.errors import InvalidInput
from stator.hooks import spool
from stator.hooks.mappers import load_mapper
from stator.hooks.repeated_lines import repeats_last
from stator.importers.reading.jsonl import open_regular_file
from stator.locations import HELD
from stator.model.exchange.item_commits import Drafter
from stator.model.exchange.items import (
    Called,
    Conversation,
    Flagged,
    Item,
    Noted,
    Offered,
    Planned,
    Prompted,
    Returned,
    Spawned,
    Unknown,
    commit_id,
)
from stator.model.log.commit import Draft
from stator.model.log.query import CallQuery
from stator.model.log.redact import has_placeholder
from stator.model.log.shown_text import legible
from stator.model.sessions.lifecycle import NOT_TOLD
from stator.model.values import canon
from stator.runtime.base.context import Context
from stator.runtime.ingest.log_state import state_of_log
from stator.runtime.ingest.placement import root_of
from stator.store.port import StorePort

LINES_MAX = 20_000
"""Lines of one session that are looked at."""
KINDS: dict[type[Item], tuple[str, ...]] = {
    Prompted: ("turn", "entry"),
    Called: ("call",),
    Returned: ("outcome", "settlement"),
    Spawned: ("child",),
    Offered: ("tools",),
    Flagged: ("flag",),
    Unknown: ("raw",),
}
"""What a witness can report that a log must hold, and the kinds of commits that record it. Everything else (the end
of a turn, an answer, a compaction) has no meaning without its place."""


class Witnessed(msgspec.Struct, frozen=True):
    """What one line reports of a conversation."""

    line: spool.SpoolLine
    items: tuple[Item, ...]


def hold(folder: str, session: str, lines: Iterable[spool.SpoolLine]) -> None:
    """Keep lines until they have a place. They are on disk when this returns."""
    os.makedirs(os.path.join(folder, HELD), mode=0o700, exist_ok=True)
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    handle = os.open(_path(folder, session), flags, 0o600)
    with os.fdopen(handle, "wb") as file:
        for line in lines:
            file.write(line.raw + b"\n")
        file.flush()
        os.fsync(file.fileno())


def held_sessions(folder: str) -> list[str]:
    """The sessions of which lines are kept."""
    try:
        return sorted(os.listdir(os.path.join(folder, HELD)))
    except OSError:
        return []


def held_lines(folder: str, session: str) -> list[spool.SpoolLine]:
    """The lines that are kept of a session, each once: a process that died may have written one again."""
    found: dict[str, spool.SpoolLine] = {}
    try:
        with open_regular_file(_path(folder, session)) as file:
            for line in spool.read_spool_file(file, session):
                if isinstance(line, spool.SpoolLine):
                    found.setdefault(line.id, line)
                if len(found) >= LINES_MAX:
                    break
    except InvalidInput:  # there is none
        return []
    return list(found.values())


def keep_only(folder: str, session: str, lines: list[spool.SpoolLine]) -> None:
    """Keep these lines of a session and no others."""
    path = _path(folder, session)
    if not lines:
        with suppress(FileNotFoundError):
            os.unlink(path)
        with suppress(OSError):  # while other sessions have lines there
            os.rmdir(os.path.dirname(path))
        return
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(path + ".new", flags, 0o600), "wb") as file:
        for line in lines:
            file.write(line.raw + b"\n")
        file.flush()
        os.fsync(file.fileno())
    os.replace(path + ".new", path)


def reported(
    lines: Iterable[spool.SpoolLine],
    state: dict[str, Any],
    refuse: Callable[[spool.SpoolLine, Exception], None],
) -> Iterator[Witnessed]:
    """What lines report, in order. `state` is what their mapper keeps between them; `refuse` gets a line whose shape
    the mapper did not expect."""
    for line in lines:
        known = deepcopy(state)
        try:
            items: tuple[Item, ...] = ()
            if not repeats_last(line, known):
                mapper = load_mapper(line.agent)
                items = tuple(mapper.items(line.payload, line.at, line.id, known))
        except Exception as error:  # a mapper may raise anything on hostile input
            refuse(line, error)
            continue
        state.clear()
        state.update(known)
        yield Witnessed(line, items)


def is_placed(store: StorePort, session: str, source: str, item: Item) -> bool:
    """Whether a log holds what an item reports, or need not hold it."""
    kinds = next((names for kind, names in KINDS.items() if isinstance(item, kind)), ())
    foreign = (item.id or item.child) if isinstance(item, Spawned) else item.id
    attempt = item.attempt if isinstance(item, (Called, Returned)) else 0
    origin = source, legible(foreign)
    if any(store.locate(commit_id(session, kind, origin, attempt), session) for kind in kinds):
        return True
    # The id of a prompt may be made from its text, and in the line a secret was replaced.
    return not kinds or (
        isinstance(item, Prompted)
        and isinstance(item.content, str)
        and has_placeholder(item.content)
    )


def needs_no_place(item: Item) -> bool:
    """Whether an item means the same wherever it is recorded."""
    return isinstance(item, tuple(KINDS))


def is_same_call(store: StorePort, session: str, item: Item) -> bool:
    """Whether a log holds a call under another id that a witness without the agent's id saw: the same tool and
    the same input."""
    if not isinstance(item, Called) or item.key != ANOTHER_ID:
        return False
    given = canon.dumps(item.input)
    for row in store.calls(CallQuery(session=session, tool=item.tool), limit=CALLS_COMPARED).rows:
        there = store.commits(session, after=row.seq - 1, upto=row.seq)
        if there and canon.dumps(there[0].known("input")) == given:
            return True
    return False


ANOTHER_ID = "witness"
"""The key of a call that its witness knows by an id of its own."""
CALLS_COMPARED = 200


def drafts_of(
    store: StorePort,
    context: Context,
    session: str,
    conversation: Conversation,
    items: list[Item],
    *,
    has_turns: bool,
) -> list[Draft]:
    """The drafts of what witnesses saw, at the end of a log. With `has_turns`, a prompt is an entry: turns are those
    of the transcript."""
    if not items:
        return []
    record = store.session(session).record
    root = root_of(context, record.project, conversation, is_old=not record.orderer)
    drafter = Drafter(
        session,
        conversation.source,
        state_of_log(store, session),
        via="hook",
        root=root,
        folder="" if root else conversation.cwd,
    )
    drafts: list[Draft] = []
    for item in items:
        if isinstance(item, Prompted) and has_turns:
            item = Noted(id=item.id, at=item.at, content=item.content, by=item.by)
        drafts += drafter.draft(item)
    return drafts


def landed(drafts: list[Draft]) -> list[Draft]:
    """The drafts as they are recorded of what only witnesses saw: their cause says so."""
    return [
        msgspec.structs.replace(
            draft, cause=f"{NOT_TOLD}: {draft.cause}" if draft.cause else NOT_TOLD
        )
        for draft in drafts
    ]


def worth_landing(items: Iterable[Item]) -> list[Item]:
    """The items that are recorded without their place: those that a log must hold, and plans."""
    return [item for item in items if isinstance(item, (*KINDS, Planned))]


def _path(folder: str, session: str) -> str:
    return os.path.join(folder, HELD, session)
