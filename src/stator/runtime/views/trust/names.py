"""Says from where the names came that agents gave to sessions and files, where nobody vouches for it.

A name rests on what the commit rests on that brought it: the first that has it. So a file that was known before the
agent read a page stays a file of this project, whatever was done to it afterwards.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from stator.errors import NotFound
from stator.model.log.query import SessionRow
from stator.model.records.text import prompt_text
from stator.model.records.types import Entry, FileRecord, file_key
from stator.model.sessions.lifecycle import lent_upto
from stator.model.views.name_words import is_words_of
from stator.runtime.base.context import Context
from stator.runtime.views.trust.unverified import anywhere, unverified
from stator.store.port import StorePort

PROMPTS = 6
"""Turns, from the first, in whose prompts the name of a session is looked for."""
PARENTS_MAX = 10
TOUCHES_MAX = 200
"""Touches of a file, the newest, among which the first is looked for."""


def session_name_origin(store: StorePort, row: SessionRow, context: Context | None = None) -> str:
    """From where the name of a session came; empty if a person or a program here gave it. It was made when the session
    began, or it is a title that a model made from anything in it."""
    for one in _with_parents(store, row):
        if origin := _first_origin(store, one, context):
            return origin
        if _is_title(store, one):
            return anywhere(store, one.id, context)
    return ""


def is_name_from_here(store: StorePort, row: SessionRow, context: Context | None = None) -> bool:
    """Whether a person or a program here gave a session its name. Of a title that is not asked: what a session rests
    on takes long to find out, and where this is asked its handle serves as well."""
    return not any(
        _first_origin(store, one, context) or _is_title(store, one)
        for one in _with_parents(store, row)
    )


def _with_parents(store: StorePort, row: SessionRow) -> Iterator[SessionRow]:
    """A session, and those whose names its own begins with: it is a sub-agent of theirs."""
    for _ in range(PARENTS_MAX):
        yield row
        parent = row.record.parent
        if parent is None or parent.kind != "child":
            return
        try:
            above = store.session(parent.session)
        except NotFound:
            return
        if not row.record.name.startswith(f"{above.record.name}/"):
            return
        row = above


def _first_origin(store: StorePort, row: SessionRow, context: Context | None) -> str:
    """What the first commit of a session and its first prompt rest on."""
    turns = store.turns(row.id, limit=1)
    began = [lent_upto(row.record.lineage) + 1, *(turn.first for turn in turns)]
    found = unverified(store, row.id, [seq for seq in began if seq <= row.head], context)
    return next(iter(found.values()), "")


def _is_title(store: StorePort, row: SessionRow) -> bool:
    """Whether the name of a transcript is none of the words in its prompts: then a model made it."""
    record = row.record
    named = [f"{source} {name}" for source, name in record.aliases]
    if not named or record.parent is not None or record.name in named:
        return False
    turns = store.turns(row.id, limit=PROMPTS, prompts=True)
    prompts = (turn.began.known("input", "") for turn in turns if turn.began is not None)
    return not any(is_words_of(record.name, prompt_text(prompt)) for prompt in prompts)


def file_name_origins(
    store: StorePort, session: str, entries: Iterable[Entry], context: Context | None = None
) -> Mapping[int, str]:
    """Of the files that a session has, by their seqs, those whose names came from elsewhere, and from where."""
    files = {e.seq: e.record for e in entries if isinstance(e.record, FileRecord)}
    late = unverified(store, session, files, context)
    first: dict[int, int] = {}
    for seq in late:
        record = files[seq]
        key = file_key(record.root, record.path)
        touches = store.touches("files", key, session=session, limit=TOUCHES_MAX)
        first[seq] = min((one.seq for one in touches if one.session == session), default=seq)
    found = unverified(store, session, first.values(), context)
    return {seq: found[began] for seq, began in first.items() if began in found}
