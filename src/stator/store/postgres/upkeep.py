"""Verifying and keeping: the logs as they lie in the tables, what the projections say against them, and making the
projections again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator
from typing import Any

from stator.errors import NotFound, StatorError
from stator.model.log.chain import GENESIS
from stator.model.log.commit import Commit
from stator.model.log.log_walk import SessionLog, Unreadable, must_verify
from stator.model.log.query import Finding, UsageBy
from stator.model.log.turn_keys import names_of
from stator.model.records.types import KEYLESS, SessionRecord
from stator.model.sessions.retention import tier_of
from stator.model.values.ids import from_bytes
from stator.store.drafts import keys_of
from stator.store.postgres.connection import READ, Connections, Statement, Transaction
from stator.store.postgres.live_session import as_here
from stator.store.postgres.patience import LONG_S
from stator.store.postgres.queries.commit_rows import loader
from stator.store.postgres.session_row import FoundSession, found, key_of
from stator.store.postgres.text import packed, unpacked
from stator.store.postgres.written import (
    LOG,
    NAMING,
    REC,
    Keyed,
    columns,
    counted,
    name_columns,
    plain_columns,
    uses_of,
    version_rows,
)
from stator.store.rows import UNREADABLE, from_row

PAGE = 500
HINT = "if stator verify finds the log intact, rebuild them: stator doctor --rebuild"


def logs(connections: Connections, session: str | None) -> Iterator[SessionLog]:
    """The log of every session, or of one and of those it was forked from; each from a snapshot of its own."""
    listed, orphans = connections.read(
        Statement("session_all"), Statement("orphans"), patience_s=LONG_S
    )
    everything = [found(row) for row in listed]
    wanted = None
    if session is not None:
        named = [one for one in everything if one.id == session]
        if not named:
            raise NotFound(f"no session {session}", session=session)
        wanted = {session, *(part.session for part in named[0].record.lineage)}
    for known in everything:
        if wanted is None or known.id in wanted:
            yield _session_log(connections, known)
    for s, first, last in orphans if wanted is None else ():
        rows: Iterator[Commit | Unreadable] = iter(
            [Unreadable(first, last, "no session's row names it")]
        )
        yield SessionLog(session="", name="", place=f"number {s}", rows=rows)


def _session_log(connections: Connections, known: FoundSession) -> SessionLog:
    record = known.record
    joint = None
    if record.lineage:
        asked = {"s": known.part_s[-2], "seq": record.lineage[-1].upto}
        (there,) = connections.read(Statement("log_hash", asked))
        joint = there[0][0].hex() if there else None
    return SessionLog(
        session=known.id,
        name=record.name,
        place=f"number {known.s}",
        rows=_own_rows(connections, known),
        low=known.low,
        prev=_base(known).hex(),
        lineage=tuple(record.lineage),
        joint=joint,
    )


def _own_rows(connections: Connections, known: FoundSession) -> Iterator[Commit | Unreadable]:
    with connections.transaction(READ, patience_s=LONG_S) as db:
        rows = db.many("session_by_id", session=key_of(known.id))
        if rows:  # else it was purged meanwhile
            yield from _rows(db, found(rows[0]))
        db.ask(commit=True)


def _rows(db: Transaction, known: FoundSession) -> Iterator[Commit | Unreadable]:
    """A session's own commits, with what is missing or cannot be read in its place."""
    seq = known.low
    base = _base(known)
    while rows := db.many("log_page", s=known.s, after=seq, limit=PAGE):
        for at, identifier, hashed, prev, salts, body, digests, datas in rows:
            if at > seq + 1:
                yield Unreadable(seq + 1, at - 1, "missing")
            before = base if at == known.low + 1 else prev or b""
            try:
                yield from_row(
                    known.id, at, before, (identifier, hashed, salts, body), loader(digests, datas)
                )
            except (StatorError, *UNREADABLE) as error:
                what = error.what if isinstance(error, StatorError) else "it cannot be read"
                yield Unreadable(at, at, what)
            seq = at
    if seq < known.head:
        yield Unreadable(seq + 1, known.head, "missing")


def _base(known: FoundSession) -> bytes:
    parent = known.record.parent
    return bytes.fromhex(parent.hash if parent and known.record.lineage else GENESIS)


# -- projections ----------------------------------------------------------------------------------


class _Projected:
    """What the tables should hold for one session, from its log."""

    def __init__(
        self, db: Transaction, known: FoundSession, keys: dict[tuple[str, str], str]
    ) -> None:
        """`keys` are those of the records it inherits; it adds its own."""
        self.known = known
        self.commits: list[Commit] = []
        self.keyed: list[Keyed] = []
        for commit in _rows(db, known):
            if isinstance(commit, Unreadable):
                raise StatorError(f"@{commit.first} of session {known.id}: {commit.what}")
            self.commits.append(commit)
            self.keyed.append((commit, _keys(commit, keys)))
        self.versions, _ = version_rows(self.keyed, known.low)
        self.names = [n for c in self.commits if c.kind in NAMING for n in names_of(c)]

    @property
    def row(self) -> dict[str, Any]:
        """The numbers in the session's row."""
        known, own = self.known, self.commits
        open_ = known.turn_open
        for commit in own:
            if commit.kind in ("turn", "turn_end"):
                open_ = commit.kind == "turn"
        last = own[-1] if own else None
        return {
            **counted(own),
            "head": last.seq if last else known.low,
            "hash": bytes.fromhex(last.hash) if last else known.hash,
            "turn": last.turn if last else known.turn,
            "turn_open": open_,
            "updated": last.used if last else known.updated,
        }


def _keys(commit: Commit, keys: dict[tuple[str, str], str]) -> list[str]:
    def key_of_id(collection: str, identifier: str, was: int) -> str:
        return keys.get((collection, identifier), KEYLESS + identifier)

    made = keys_of(commit, key_of_id)
    for op, key in zip(commit.delta, made, strict=True):
        keys[op.collection, op.id] = key
    return made


def _inherited(db: Transaction, known: FoundSession) -> dict[tuple[str, str], str]:
    """The keys of the records of a session's ancestors, as they were last put before it began."""
    keys: dict[tuple[str, str], str] = {}
    for s, after, upto in zip(known.part_s, known.part_after, known.part_upto, strict=True):
        if s == known.s:
            break
        for name, identifier, seq, *_, key, _ in db.many("rec_page", s=s):
            if after < seq <= upto:
                keys[name, unpacked(identifier)] = unpacked(key)
    return keys


def audit(connections: Connections, skip: Collection[str]) -> Iterator[Finding]:
    """What the tables say that the log does not."""
    with connections.transaction(READ, patience_s=LONG_S) as db:
        for row in db.many("session_all"):
            known = found(row)
            if known.id not in skip:
                yield from _audit_session(db, known)
        for (address,) in db.many("blob_unused"):
            yield Finding(what=f"blob {address.hex()[:12]} is needed by no commit", check="blobs")


def _audit_session(db: Transaction, known: FoundSession) -> Iterator[Finding]:
    try:
        made = _Projected(db, known, _inherited(db, known))
    except (StatorError, LookupError) as error:
        yield _wrong(known, f"its log cannot be read: {error}")
        return
    differ = []
    if {tuple(row) for row in made.versions} != set(db.many("rec_page", s=known.s)):
        differ.append("its records")
    names = {(packed(n.group), packed(n.name), n.seq) for n in made.names}
    if names != set(db.many("turn_key_page", s=known.s)):
        differ.append("the keys of its turns")
    row = made.row
    mine = dict(zip("commits turns calls failed content_bytes".split(), known.counted, strict=True))
    said = {**mine, "head": known.head, "hash": known.hash, "turn": known.turn}
    said |= {"turn_open": known.turn_open, "updated": known.updated}
    differ += [f"its {name}" for name in said if said[name] != row[name]]
    record = _last_record(made)
    if record is not None and record != known.record:
        differ.append("its record")
    plain = [(c.seq, bytes.fromhex(c.id[2:]), *plain_columns(c)) for c in made.commits]
    if plain != _columns(db, known):
        differ.append("what the log's rows say of their commits")
    uses = {use for row in _bodies(db, known) for use in uses_of(row[1], row[0])}
    if uses != set(db.many("use_page", s=known.s)):
        differ.append("the blobs it needs")
    for what in differ:
        yield _wrong(known, f"{what} differ from the log")


def _bodies(db: Transaction, known: FoundSession) -> Iterator[tuple[int, bytes]]:
    seq = known.low
    while rows := db.many("log_page", s=known.s, after=seq, limit=PAGE):
        yield from ((row[0], row[5]) for row in rows)
        seq = rows[-1][0]


def _columns(db: Transaction, known: FoundSession) -> list[Any]:
    found_rows: list[Any] = []
    while rows := db.many(
        "columns_page", s=known.s, after=found_rows[-1][0] if found_rows else 0, limit=PAGE
    ):
        found_rows += rows
    return found_rows


def _last_record(made: _Projected) -> Any:
    for commit in reversed(made.commits):
        for op in reversed(commit.delta):
            record = getattr(op, "record", None)
            if isinstance(record, SessionRecord):
                return as_here(record, made.known.record)
    return None


def _wrong(known: FoundSession, what: str) -> Finding:
    return Finding(
        what=f"session {known.id}: {what}",
        check="indexes",
        session=known.id,
        name=known.record.name,
        hint=HINT,
    )


def rebuild(connections: Connections, db: Transaction) -> None:
    """Make every projection again, in one transaction."""
    must_verify(logs(connections, None))
    for row in db.many("session_all"):
        # Locked before its log is read: what is appended meanwhile would be missing from what is made of it.
        locked = db.many("session_lock", session=row[1])
        if not locked:
            continue  # it was purged meanwhile
        known = found(locked[0])
        inherited = _inherited(db, known)
        made = _Projected(db, known, inherited)
        here = {"s": known.s}
        plain = [(c.seq, *plain_columns(c)) for c in made.commits]
        names = [name for name in LOG if name not in ("id", "hash", "salts", "body")]
        db.ask(
            Statement("purge_rec", here),
            Statement("purge_turn_key", here),
            Statement("rebuild_rec", {**here, **columns("r", REC, made.versions)}),
            Statement("rebuild_turn_key", {**here, **name_columns(made.names)}),
            Statement("rebuild_log", {**here, **columns("l", names, plain)}),
            Statement("rebuild_session", {**here, **made.row}),
        )
    db.ask(Statement("process_sweep"), commit=True)


# -- space ----------------------------------------------------------------------------------------


def usage(connections: Connections, by: UsageBy, session: str | None) -> dict[str, int]:
    """Bytes of commits as they are stored, compressed, with the blobs that they were the first to need."""
    wanted = {"session": None if session is None else key_of(session)}
    if by == "recorded":
        (counts,) = connections.read(Statement("content_bytes", wanted))
        return {from_bytes(owner, "session"): int(size) for owner, size in counts}
    asked = Statement("usage", wanted)
    (rows,) = connections.read(asked, patience_s=LONG_S)
    total: Counter[str] = Counter()
    if by == "content":
        total["log"] = 0
    for owner, kind, size in rows:
        kind = unpacked(kind)
        named = {"session": from_bytes(owner, "session"), "kind": kind, "content": "log"}
        total[named.get(by) or tier_of(kind)] += int(size)
    return dict(total.most_common())
