"""The state of a session: live records at a seq, their versions, and its turns."""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any

import msgspec

from stator.model.log.commit import Commit
from stator.model.log.delta import Drop, Op, Put, Version
from stator.model.log.query import PAGE_MAX, TurnRow, check_collection, check_limit, check_limits
from stator.model.log.rewinds import rewind_of, rewind_tags, stands, visible, with_ends
from stator.model.log.turn_keys import SALT, wanted_names
from stator.model.records.tables import COLLECTIONS, key_of
from stator.model.records.types import Entry, Record, chosen
from stator.model.values.ids import from_bytes
from stator.store.postgres.connection import Rows, Statement
from stator.store.postgres.queries.commit_rows import commit_of, named, with_records
from stator.store.postgres.queries.question import Question, StatementBatch
from stator.store.postgres.session_row import MAX_SEQ, FoundSession, by_id, must_find
from stator.store.postgres.session_row import key_of as session_key
from stator.store.postgres.text import digest, packed, unpacked
from stator.store.rows import from_row

LIMIT_NONE = 1 << 40
MORE_TURNS = 64
"""Turns that are read at first for some that were not rewound, beyond those that are asked for."""


# -- records --------------------------------------------------------------------------------------


def entries(
    session: str,
    *collections: str,
    at: int | None = None,
    limit: int | Mapping[str, int] | None = None,
    keys: Collection[str] | None = None,
    prefix: str = "",
) -> Question[list[Entry]]:
    limits = check_limits(collections, limit)
    chosen_here = keys is not None or bool(prefix)
    first, rows = yield StatementBatch(
        by_id(session),
        live(session, {} if chosen_here else limits, list(limits), at, keys=keys, prefix=prefix),
    )
    must_find(first, session)
    found = by_collection(rows)
    each = ((chosen(found.get(name, []), keys, prefix), most) for name, most in limits.items())
    return [entry for entries, most in each for entry in entries[:most]]


def live(
    session: str,
    limits: Mapping[str, int | None],
    collections: Sequence[str],
    at: int | None,
    *,
    keys: Collection[str] | None = None,
    prefix: str = "",
) -> Statement:
    """The statement that finds live records."""
    values = {
        "session": session_key(session),
        "at": MAX_SEQ if at is None else min(at, MAX_SEQ),
        "collections": list(collections),
        "limits": [limits.get(name) or LIMIT_NONE for name in collections],
        "marks": None if keys is None else [digest(key) for key in keys],
        "prefix": packed(prefix),
        "endless": MAX_SEQ,
    }
    return Statement("entries", values)


def by_collection(rows: Rows) -> dict[str, list[Entry]]:
    """Live records, each collection last touched first."""
    found: dict[str, list[tuple[int, int, Entry]]] = {}
    for (name, identifier, seq, n, turn, *_), record in records_of(rows):
        key = key_of(COLLECTIONS[name], record, identifier)
        found.setdefault(name, []).append((seq, n, Entry(name, identifier, key, seq, turn, record)))
    for each in found.values():
        each.sort(key=itemgetter(0, 1), reverse=True)
    return {name: [entry for _, _, entry in each] for name, each in found.items()}


def records_of(rows: Rows) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Each row with the record that it puts, if it is a put. The first row of each commit carries the commit."""
    held: dict[tuple[bytes, int], Commit] = {}
    for row in rows:
        if row[9] is not None:
            session = from_bytes(row[5], "session")
            bare = from_row(session, row[2], b"", row[6:10], None)
            held[row[5], row[2]] = with_records(bare, row[10], row[11])
    for row in rows:
        op = held[row[5], row[2]].delta[row[3]]
        record = op.record if isinstance(op, Put) else None
        yield (row[0], unpacked(row[1]), *row[2:]), record


def tags(session: str, at: int | None = None) -> Generator[StatementBatch, list[Rows], list[Entry]]:
    """Live tags, as the first part of a question."""
    first, rows = yield StatementBatch(by_id(session), live(session, {}, ["tags"], at), last=False)
    must_find(first, session)
    return by_collection(rows).get("tags", [])


def versions(
    session: str, *, after: int, upto: int, collections: Sequence[str] = ()
) -> Question[list[Version]]:
    for name in collections:
        check_collection(name)
    values = {
        "session": session_key(session),
        "after": max(after, 0),
        "upto": max(min(upto, MAX_SEQ), 0),
        "collections": list(collections or COLLECTIONS),
    }
    first, rows = yield StatementBatch(by_id(session), Statement("versions", values))
    must_find(first, session)
    return [version_of(row, record) for row, record in records_of(rows)]


def version_of(row: tuple[Any, ...], record: Record | None) -> Version:
    name, identifier, seq, n, turn = row[:5]
    key, put, was = row[12:15]
    op: Op = (
        Put(name, identifier, record, was)
        if put and record is not None
        else Drop(name, identifier, was)
    )
    return Version(seq, n, turn, unpacked(key), op)


def replaced(session: str, ops: Sequence[Op]) -> Question[list[Version | None]]:
    values = {
        "session": session_key(session),
        "cs": [op.collection for op in ops],
        "ids": [packed(op.id) for op in ops],
        "seqs": [op.was for op in ops],
    }
    first, rows = yield StatementBatch(by_id(session), Statement("replaced", values))
    must_find(first, session)
    last = {(row[0], row[1], row[2]): version_of(row, record) for row, record in records_of(rows)}
    return [last.get((op.collection, op.id, op.was)) for op in ops]


# -- turns ----------------------------------------------------------------------------------------


def turns(
    session: str,
    *,
    after: int = 0,
    upto: int | None = None,
    newest_first: bool = False,
    limit: int = 1000,
    keys: Collection[str] | None = None,
    prompts: bool = False,
    ends: bool = False,
    standing: bool = False,
) -> Question[list[TurnRow]]:
    check_limit(limit)
    numbers: set[int] | None = None
    if keys is not None:
        numbers = yield from _keyed(session, list(keys))
    if not ends and not standing:
        page, _ = yield from _page(session, after, upto, newest_first, limit, numbers, prompts)
        return page
    found: list[TurnRow] = []
    size = limit
    seqs: list[int] = []
    while True:
        # The page comes with the tags that rewinds left, and with the rewinds at `seqs`, in one snapshot.
        beside = [live(session, {}, ["tags"], None)]
        if seqs:
            beside.append(named(session, seqs, [], MAX_SEQ, False))
        page, (tag_rows, *log_rows) = yield from _page(
            session, after, upto, newest_first, size, numbers, prompts, beside
        )
        left = rewind_tags(by_collection(tag_rows).get("tags", []))
        if standing and (there := [seq + 1 for seq, _ in left]) != seqs:
            seqs, size = there, min(limit + MORE_TURNS, PAGE_MAX)
            continue
        if not seqs:
            found = page
            break
        log = [commit_of(row, load=False) for row in log_rows[0]]
        in_force = visible([one for c in log if (one := rewind_of(c)) is not None], MAX_SEQ)
        more = [row for row in page if stands(in_force, row.first)]
        if len(found) + len(more) >= limit or len(page) < size:
            found += more
            break
        if size < PAGE_MAX:
            size = min(4 * size, PAGE_MAX)
            continue
        found += more
        after, upto = (after, page[-1].turn - 1) if newest_first else (page[-1].turn, upto)
    return with_ends(found[:limit], left) if ends else found[:limit]


def _keyed(session: str, keys: Sequence[str]) -> Generator[StatementBatch, list[Rows], set[int]]:
    """The numbers of the turns that were begun with one of these keys."""
    who = session_key(session)
    first, rows = yield StatementBatch(
        by_id(session), Statement("turn_salts", {"session": who, "salt": SALT}), last=False
    )
    must_find(first, session)
    names = sorted(wanted_names(keys, [unpacked(name) for (name,) in rows]))
    values = {
        "session": who,
        "batches": [packed(group) for group, _ in names],
        "names": [packed(name) for _, name in names],
    }
    (rows,) = yield StatementBatch(Statement("turn_keyed", values), last=False)
    return {turn for (turn,) in rows}


def _page(
    session: str,
    after: int,
    upto: int | None,
    newest: bool,
    limit: int,
    numbers: set[int] | None,
    prompts: bool,
    beside: Sequence[Statement] = (),
) -> Generator[StatementBatch, list[Rows], tuple[list[TurnRow], list[Rows]]]:
    """Turns of a range, or those with some numbers; and the rows of statements that are asked beside."""
    low, high = max(after, 0), MAX_SEQ if upto is None else max(upto, 0)
    who = session_key(session)
    if numbers is None:
        values = {"session": who, "after": low, "upto": high, "newest": newest, "limit": limit}
        asked = Statement("turn_marks", values)
    else:
        near = sorted({*numbers, *(number + 1 for number in numbers)})
        asked = Statement("turn_marks_of", {"session": who, "numbers": near})
    first, rows, *others = yield StatementBatch(by_id(session), asked, *beside, last=not prompts)
    known = must_find(first, session)
    made = _turn_rows(rows, known)
    made = [
        row for row in made if low < row.turn <= high and (numbers is None or row.turn in numbers)
    ]
    if numbers is None and newest:
        made = made[-limit:]
    made = (made[::-1] if newest else made)[:limit]
    if not prompts:
        return made, others
    (rows,) = yield StatementBatch(named(session, [row.first for row in made], [], MAX_SEQ, True))
    began = {commit.seq: commit for commit in map(commit_of, rows)}
    return [msgspec.structs.replace(row, began=began.get(row.first)) for row in made], others


def _turn_rows(marks: Rows, known: FoundSession) -> list[TurnRow]:
    """Turns, oldest first, from the commits that begin and end them. A turn lasts until the next begins."""
    firsts: dict[int, tuple[int, int]] = {}
    status: dict[int, str] = {}
    for seq, turn, kind, said, at in marks:
        firsts.setdefault(turn, (seq, at))
        status[turn] = "" if kind == "turn" else unpacked(said or "")
    return [
        TurnRow(
            turn=turn,
            first=seq,
            last=firsts[turn + 1][0] - 1 if turn + 1 in firsts else known.head,
            at=at,
            status=status[turn],
        )
        for turn, (seq, at) in sorted(firsts.items())
    ]
