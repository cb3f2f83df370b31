"""What takes the space in the file: by what it is for, by session, by tier or by kind of commit.

Rows and blobs are counted as they are stored, compressed; what is left of the pages is indexes. So every
grouping adds up to the size of the file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import apsw

from stator.model.log.query import UsageBy
from stator.model.sessions.retention import tier_of
from stator.model.values.ids import from_bytes, to_bytes
from stator.store.rows import envelope_of
from stator.store.sqlite.connection import many, one
from stator.store.sqlite.projection import SEQ_BITS, SEQ_MASK, SQL, content_bytes
from stator.store.sqlite.queries import lineage, places
from stator.store.sqlite.queries.lineage import FindPlace
from stator.store.sqlite.queries.session_counts import Counting

INDEXES, FREE = "(indexes)", "(free)"


def usage(
    db: apsw.Connection, by: UsageBy, session: str | None, counting: Counting, placed: FindPlace
) -> dict[str, int]:
    """Bytes of the file, or of one session's own commits."""
    if by == "recorded":
        return _recorded(db, session, counting, placed)
    low, high = 0, 2**63 - 1
    if session is not None:
        s = places.load_place(db, session).s
        low, high = lineage.key(s, 0), lineage.key(s, SEQ_MASK)
    if by == "content" and session is None:
        return _content(db)
    found: Counter[str] = Counter()
    names = {s: from_bytes(identifier, "session") for s, identifier in many(db, SQL["session_ids"])}
    for key, size, kind in _commits(db, low, high, kinds=by in ("tier", "kind")):
        named = {"session": names.get(key >> SEQ_BITS, "?"), "kind": kind, "content": "log"}
        found[named.get(by) or tier_of(kind)] += size
    if session is None:
        whole = _content(db)
        found[INDEXES], found[FREE] = whole["indexes"], whole["free"]
    return dict(found.most_common())


def _recorded(
    db: apsw.Connection, session: str | None, counting: Counting, placed: FindPlace
) -> dict[str, int]:
    """Bytes of content before compression by session, newest first; only those that have a tail are counted."""
    asked = {"id": None if session is None else to_bytes(session)}
    found: dict[str, int] = {}
    for identifier, ledger, has_tail in many(db, SQL["session_ledgers"], asked):
        one = from_bytes(identifier, "session")
        if has_tail:
            found[one] = counting.counts(db, placed(db, one)).content_bytes
        else:
            found[one] = content_bytes(ledger)
    return found


def _commits(
    db: apsw.Connection, low: int, high: int, *, kinds: bool
) -> Iterator[tuple[int, int, str]]:
    """(key, bytes, kind) of each commit, with the blobs that it was the first to need."""
    blobs: Counter[int] = Counter()
    for key, size in many(db, SQL["bytes_blob_by_log"]):
        if low < key <= high:
            blobs[key] += size
    if not kinds:
        for key, size in db.execute(SQL["bytes_log_by_key"], (low, high)):
            yield key, size + blobs[key], ""
        return
    for key, size, body in db.execute(SQL["bytes_log_with_body"], (low, high)):
        yield key, size + blobs[key], envelope_of(body).kind


def _content(db: apsw.Connection) -> dict[str, int]:
    page = int(db.pragma("page_size"))
    found = {
        "file": page * int(db.pragma("page_count")),
        "free": page * int(db.pragma("freelist_count")),
        "log": int(one(db, SQL["bytes_log"])[0]),
        "blobs": int(one(db, SQL["bytes_blob"])[0]),
    }
    found["indexes"] = max(0, found["file"] - found["free"] - found["log"] - found["blobs"])
    return found
