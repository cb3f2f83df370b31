"""Commits of a session by range, by name and by what they follow, and where commits are."""

from __future__ import annotations

from collections.abc import Collection, Generator
from typing import Any

from stator.model.exchange.packed import Packed
from stator.model.log.commit import Commit
from stator.model.log.query import NEWEST, check_limit
from stator.model.log.rewinds import rewind_tags
from stator.model.values.ids import from_bytes, is_id, to_bytes
from stator.store.postgres.connection import Rows, Statement
from stator.store.postgres.queries.commit_rows import commit_of, loader, named, ranged
from stator.store.postgres.queries.question import Question, StatementBatch
from stator.store.postgres.queries.state import tags
from stator.store.postgres.session_row import MAX_SEQ, by_id, key_of, must_find
from stator.store.rows import to_packed

LOCATED_MAX = 10
HEX = frozenset("0123456789abcdef")


def commits(
    identifier: str,
    *,
    after: int = 0,
    upto: int | None = None,
    newest_first: bool = False,
    limit: int = 1000,
    load: bool = True,
    seqs: Collection[int] | None = None,
    ids: Collection[str] | None = None,
    rewinds: bool = False,
    origins: Collection[tuple[str, str]] | None = None,
) -> Question[list[Commit]]:
    check_limit(limit)
    high = MAX_SEQ if upto is None else upto
    if seqs is None and ids is None and not rewinds and origins is None:
        rows = yield StatementBatch(
            by_id(identifier), ranged(identifier, after, high, newest_first, limit, load)
        )
        must_find(rows[0], identifier)
        log = [commit_of(row, load) for row in rows[1]]
        return log[::-1] if newest_first else log
    places = set(seqs or ())
    if rewinds:
        places |= yield from _rewind_seqs(identifier, high)
    by_place = seqs is not None or ids is not None or rewinds
    rows = yield StatementBatch(
        by_id(identifier),
        named(
            identifier,
            [seq for seq in places if 0 < seq < MAX_SEQ],
            [to_bytes(one) for one in ids or () if is_id(one, "commit")],
            high,
            load,
            newest=NEWEST in places,
            origins=None if by_place else origins,
        ),
    )
    known = must_find(rows[0], identifier)
    log = [commit_of(row, load) for row in rows[1]]
    if rewinds:  # a tag may be followed by something else
        others = {*(seqs or ()), *({min(known.head, high)} if NEWEST in places else ())}
        log = [c for c in log if c.kind == "rewind" or c.seq in others or c.id in (ids or ())]
    log = [c for c in log if after < c.seq <= high and (origins is None or c.origin in origins)]
    return (log[::-1] if newest_first else log)[:limit]


def _rewind_seqs(identifier: str, at: int) -> Generator[StatementBatch, list[Rows], set[int]]:
    found_tags = yield from tags(identifier, at)
    return {seq + 1 for seq, _ in rewind_tags(found_tags)}


def packed_commits(
    identifier: str, *, after: int = 0, upto: int | None = None, limit: int = 1000
) -> Question[list[Packed]]:
    check_limit(limit)
    high = MAX_SEQ if upto is None else upto
    rows = yield StatementBatch(
        by_id(identifier), ranged(identifier, after, high, False, limit, True)
    )
    must_find(rows[0], identifier)
    return [
        to_packed(
            from_bytes(row[0], "session"),
            row[1],
            (row[2], row[3], row[5], row[6]),
            loader(row[7], row[8]),
        )
        for row in rows[1]
    ]


def locate(text: str, identifier: str | None = None) -> Question[list[tuple[str, int]]]:
    digits = text.removeprefix("k_")
    usual = 4 <= len(digits) <= 64 and set(digits) <= HEX
    whole = is_id(text, "commit")
    asked = [by_id(identifier)] if identifier is not None else []
    if usual:
        name = (
            ("locate_id" if whole else "locate_all")
            if identifier is None
            else ("locate_id_in" if whole else "locate_in")
        )
        values: dict[str, Any] = {"id": to_bytes(text)} if whole else {"digits": digits}
        if identifier is not None:
            values["session"] = key_of(identifier)
        asked.append(Statement(name, values))
    rows = (yield StatementBatch(*asked)) if asked else []
    if identifier is not None:
        must_find(rows[0], identifier)
    rows = rows if usual else [[]]
    return [(from_bytes(owner, "session"), seq) for owner, seq in rows[-1]][:LOCATED_MAX]
