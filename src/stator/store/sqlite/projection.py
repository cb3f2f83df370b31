"""Projections: indexes and state rows made from the log, flushed lazily.

A session's `Tail` is what its log holds beyond `session.flushed`. Readers combine the flushed tables with the
tail; a writer that makes the tail too long flushes it. Deleting every row these functions
write and rebuilding gives the same answers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import apsw
import msgspec

from stator.model.log.chain import put_item
from stator.model.log.commit import CONTINUED, Commit, size_of
from stator.model.log.delta import Put
from stator.model.log.query import Counts
from stator.model.log.turn_keys import KeyName, names_of
from stator.model.records.tables import BOOKKEEPING, COLLECTIONS, NUMBERED
from stator.model.records.types import KEYLESS, ErasedRecord
from stator.model.values.ids import to_bytes
from stator.store.compress import compress, decompress
from stator.store.drafts import KeyOf, keys_of
from stator.store.sql import statements
from stator.store.sqlite.connection import many, one
from stator.store.sqlite.versions import CALLS, Version, kept, to_sql

SQL = statements("sqlite.sql")

TAIL_MAX = 1000
"""Commits a session's tail may have before its writer flushes it."""
SNAP_MIN = 64
"""Versions since the last snapshot before another is worth writing."""

READ_FROM_LOG = BOOKKEEPING
"""Small collections that change often: their rows carry no key and no copy of the record."""

NAMING = frozenset({"turn", "erasure"})
"""Kinds of commits that `names_of` finds names in."""
KEY_KIND = "turn key"
"""What stands in the index of origins for the kind, where a row is a name of a turn's key."""
SILENT = "-"
"""The status of a turn in a segment of log that neither begins nor ends it."""
ERASED = b'{"type":"erased"'
"""How the body of an erased record begins."""
Lineage = Sequence[tuple[int, int]]
"""(ordinal, upto) of the segments a session's log continues, oldest first."""


class Ledger(msgspec.Struct, array_like=True):
    """What a session row keeps of everything flushed: counts, and the state of its snapshots."""

    commits: int = 0
    turns: int = 0
    calls: int = 0
    failed: int = 0
    open: int = 0
    content_bytes: int = 0
    snaps: dict[int, tuple[int, int, int]] = {}
    """Collection number → (seq of the last snapshot, versions since, live records in it)."""
    erased: list[int] = []
    """Collections with an erased record: a key there may still name an older version of it."""
    live: dict[int, int] = {}
    """Collection number → how many more records are live than at the beginning of the session's own log."""
    turn: int = 0
    """The number of the last turn."""
    keyed: int = 0
    """The seq up to which the keys of turns are indexed. Releases before 0.6 did not index them."""
    exact: bool = False
    """Whether `live` is right in a fork, too: releases before 0.6 did not count inherited records that it dropped."""


_pack = msgspec.msgpack.Encoder().encode
_unpack_ledger = msgspec.msgpack.Decoder(Ledger).decode
_unpack_live = msgspec.msgpack.Decoder(list[tuple[int, int]]).decode


class _LedgerSize(msgspec.Struct, array_like=True):
    """The beginning of a ledger, up to its bytes."""

    commits: int = 0
    turns: int = 0
    calls: int = 0
    failed: int = 0
    open: int = 0
    content_bytes: int = 0


_unpack_size = msgspec.msgpack.Decoder(_LedgerSize).decode


def content_bytes(ledger: bytes) -> int:
    """The bytes of content that a packed ledger has, without what else is in it: where all sessions are asked for."""
    return _unpack_size(ledger).content_bytes if ledger else 0


def pack_ledger(ledger: Ledger) -> bytes:
    return _pack(ledger)


def unpack_ledger(data: bytes) -> Ledger:
    return _unpack_ledger(data) if data else Ledger()


class Tailed(msgspec.Struct, frozen=True):
    """What the indexes need of one commit."""

    seq: int
    id: bytes
    kind: str
    turn: int
    at: int
    status: str
    call: str
    tool: str
    effect: str
    cause: str
    attempt: int
    origin: tuple[str, str] | None
    size: int
    versions: list[tuple[int, Version]]
    """(collection number, version)."""
    used: int
    key_names: Sequence[KeyName] = ()
    hash: str = ""

    def net(self) -> list[tuple[int, Version]]:
        """The last version of each record it touched."""
        return list({(number, v[5]): (number, v) for number, v in self.versions}.values())


def tailed(commit: Commit, keys: Sequence[str]) -> Tailed:
    """A commit as the indexes see it; `keys` are those of its ops."""
    seq, turn, at, content = commit.seq, commit.turn, commit.at, commit.content
    size = 0
    for item in content.values():
        size += len(item) if type(item) is bytes else size_of(item)
    versions: list[tuple[int, Version]] = []
    for n, op in enumerate(commit.delta):
        small = op.collection in READ_FROM_LOG
        body: Any = None
        if is_put := type(op) is Put:
            # The content item is gone; the mark itself is kept as the body, so that a reader sees an erasure
            # and not a record that was never there.
            if type(op.record) is ErasedRecord:
                body = msgspec.json.encode(op.record)
            elif not small:
                body = content[put_item(n)]
        key = None if small or keys[n][:1] == KEYLESS else keys[n]
        version = (seq, n, int(is_put), op.was, turn, op.id, key, body)
        versions.append((COLLECTIONS[op.collection].number, version))
    return Tailed(
        seq,
        bytes.fromhex(commit.id[2:]),
        commit.kind,
        turn,
        at,
        commit.status,
        commit.call,
        commit.tool,
        commit.effect,
        commit.cause,
        commit.attempt,
        commit.origin,
        size,
        versions,
        commit.used,
        names_of(commit) if commit.kind in NAMING else (),
        commit.hash,
    )


class Tail:
    """The part of a session's log that no projection holds yet."""

    def __init__(self) -> None:
        self.commits: list[Tailed] = []
        self.ids: dict[bytes, int] = {}
        self.origins: dict[tuple[str, str, str, int], int] = {}
        self.latest: dict[tuple[int, str], Version] = {}
        """The last version of each key the tail touched."""
        self.key_names: list[KeyName] = []

    def __len__(self) -> int:
        return len(self.commits)

    def copy(self) -> Tail:
        """A copy of the tail that later appends do not change."""
        tail = Tail()
        tail.commits, tail.ids = list(self.commits), dict(self.ids)
        tail.origins, tail.latest = dict(self.origins), dict(self.latest)
        tail.key_names = list(self.key_names)
        return tail

    def add(self, item: Tailed) -> None:
        self.commits.append(item)
        self.ids[item.id] = item.seq
        if item.origin is not None:
            self.origins[item.kind, *item.origin, item.attempt] = item.seq
        self.key_names += item.key_names
        for number, version in item.versions:
            if version[6] is not None:
                self.latest[number, version[6]] = version

    def upto(self, seq: int) -> Tail:
        """The tail as it was when its last commit was the one at a seq."""
        tail = Tail()
        for item in self._between(0, seq):
            tail.add(item)
        return tail

    def versions(self, collection: int, after: int, upto: int) -> list[Version]:
        """Versions of a collection with `after < seq <= upto`, in log order."""
        return [
            version
            for item in self._between(after, upto)
            for number, version in item.versions
            if number == collection
        ]

    def versions_at(self, seq: int) -> Sequence[tuple[int, Version]]:
        """The versions of the commit at a seq; none if that is not in the tail."""
        return [each for item in self._between(seq - 1, seq) for each in item.versions]

    def _between(self, after: int, upto: int) -> Sequence[Tailed]:
        """Commits with `after < seq <= upto`. Those of a tail follow each other without a gap."""
        if not self.commits:
            return ()
        before = self.commits[0].seq - 1
        return self.commits[max(0, after - before) : max(0, upto - before)]

    def turns(self) -> list[tuple[int, int, int, int, str]]:
        """(turn, first, last, at, status) of every turn the tail has commits of; `SILENT` if it says no status."""
        found: dict[int, tuple[int, int, int, int, str]] = {}
        for item in self.commits:
            if item.turn == 0:
                continue
            turn, first, _, at, status = found.get(
                item.turn, (item.turn, item.seq, item.seq, item.at, SILENT)
            )
            if item.kind == "turn":
                status = ""
            elif item.kind == "turn_end":
                status = item.status
            found[item.turn] = (turn, first, item.seq, at, status)
        return list(found.values())

    def calls(self) -> tuple[list[tuple[Tailed, Tailed | None]], dict[str, Tailed]]:
        """Intents of the tail with their outcome (or settlement), and outcomes of earlier intents, by call.

        An outcome belongs to the latest attempt of its call.
        """
        intents: list[tuple[Tailed, Tailed | None]] = []
        latest: dict[str, int] = {}
        earlier: dict[str, Tailed] = {}
        for item in self.commits:
            if item.kind == "call":
                latest[item.call] = len(intents)
                intents.append((item, None))
            elif item.kind in ("outcome", "settlement"):
                if item.call in latest:
                    intents[latest[item.call]] = (intents[latest[item.call]][0], item)
                else:
                    earlier[item.call] = item
        return intents, earlier

    def counted(self, ledger: Ledger) -> Ledger:
        """The ledger with the tail counted in."""
        turns, calls, failed, size = ledger.turns, ledger.calls, ledger.failed, ledger.content_bytes
        live, erased, opened = dict(ledger.live), set(ledger.erased), ledger.open
        for item in self.commits:
            size += item.size
            if item.kind == "turn":
                # A turn that was continued has several `turn` commits and is one turn.
                turns += item.status != CONTINUED
            elif item.kind == "call":
                calls += 1
            elif item.kind == "outcome":
                failed += item.status != "ok"
            net = item.net() if len(item.versions) > 1 else item.versions
            for number, (_, _, op, was, _, _, _, _) in net:
                live[number] = live.get(number, 0) + op - (was > 0)
                if number == CALLS:
                    # A fork's first commit puts every call it inherits: those open here.
                    opened += op - (was > 0 and item.kind != "fork")
            for number, version in item.versions:
                if version[7] is not None and version[7].startswith(ERASED):
                    erased.add(number)
        return msgspec.structs.replace(
            ledger,
            commits=ledger.commits + len(self.commits),
            turns=turns,
            turn=self.commits[-1].turn if self.commits else ledger.turn,
            calls=calls,
            failed=failed,
            open=opened,
            content_bytes=size,
            erased=sorted(erased),
            live=live,
        )


def counts(ledger: Ledger, inherited: Mapping[int, int] | None = None) -> Counts:
    """What a session holds: by its exact ledger, and by how many live records of each collection it inherited."""
    live = Counter(ledger.live)
    live.update(inherited or {})
    return Counts(
        commits=ledger.commits,
        turns=ledger.turns,
        calls=ledger.calls,
        failed=ledger.failed,
        open=ledger.open,
        content_bytes=ledger.content_bytes,
        live={NUMBERED[number].name: n for number, n in sorted(live.items()) if n},
    )


def flush(
    connection: apsw.Connection, s: int, tail: Tail, ledger: Ledger, low: int, lineage: Lineage
) -> Ledger:
    """Write a tail into the projections; the ledger to keep. Runs inside the caller's transaction.

    `ledger` is exact. `low` is the seq at which the session's own log begins (its fork point, or 0).
    """
    base = s << SEQ_BITS
    write = connection.executemany
    items = tail.commits
    _flush_ids(connection, base, tail)
    write(
        SQL["origin_insert"],
        [
            (s, item.kind, item.origin[0], item.origin[1], item.attempt, item.seq)
            for item in items
            if item.origin is not None
        ],
    )
    write_key_names(connection, s, tail.key_names)
    write(SQL["turn_put"], [(s, *turn) for turn in tail.turns()])
    versions = kept([each for item in items for each in item.versions])
    write(SQL["rec_insert"], [to_sql(s, number, version) for number, version in versions])
    _flush_calls(connection, s, low, lineage, tail)
    ledger = tail.counted(ledger)
    snaps = _flush_snaps(connection, s, low, items[-1].seq, versions, dict(ledger.snaps))
    last = items[-1]
    ledger = msgspec.structs.replace(ledger, snaps=snaps, keyed=last.seq)
    connection.execute(SQL["flush_insert"], (s, last.seq))
    connection.execute(SQL["session_flushed"], (last.seq, last.used, _pack(ledger), s))
    return ledger


def write_key_names(connection: apsw.Connection, s: int, names: Iterable[KeyName]) -> None:
    """Index the keys of turns. They share a table with origins, which files of every release have."""
    rows = [(s, KEY_KIND, name.group, name.name, name.seq, name.seq) for name in names]
    connection.executemany(SQL["origin_insert"], rows)


NEIGHBOURS_MAX = 256
"""Ids of other commits that one query may read; reading more takes longer than to look up each id."""


def commit_slot(identifier: bytes) -> int:
    """Where a commit's id is looked for first."""
    # 63 bits, because SQLite's rowids are signed. Ids made here begin with the time, so that the ids of
    # one tail are neighbours in the index.
    return int.from_bytes(identifier[:8], "big") >> 1


def find_commit(connection: apsw.Connection, identifier: bytes) -> int | None:
    """The key of the commit with that id, among those flushed."""
    slot = commit_slot(identifier)
    while (row := one(connection, SQL["commit_slot"], (slot,))) is not None:
        if one(connection, SQL["log_id"], row) == (identifier,):
            return int(row[0])
        slot += 1
    return None


def _flush_ids(connection: apsw.Connection, base: int, tail: Tail) -> None:
    """Index the ids of a tail's commits, each in the first free slot from its own on."""
    wanted = [(commit_slot(item.id), base | item.seq) for item in tail.commits]
    low, high = min(wanted)[0], max(wanted)[0] + len(wanted)
    # One query for the whole range instead of one for each id.
    most = NEIGHBOURS_MAX + len(wanted)
    taken = dict(many(connection, SQL["commit_taken"], (low, high, most)))
    if len(taken) == most:
        # Ids that were derived, as those of a transcript, are no neighbours: the range is most of the index.
        taken, high = {}, low - 1
    rows = []
    for first, key in wanted:
        slot = first
        while True:
            if slot > high and slot not in taken:  # what slots hold is known up to `high` only
                there = one(connection, SQL["commit_slot"], (slot,))
                if there is not None:
                    taken[slot] = there[0]
            if (found := taken.get(slot)) is None:
                taken[slot] = key
                rows.append((slot, key))
                break
            if found == key:
                break
            slot += 1
    connection.executemany(SQL["commit_insert"], rows)


def _flush_calls(
    connection: apsw.Connection, s: int, low: int, lineage: Lineage, tail: Tail
) -> None:
    """Write intents with their outcomes, and outcomes of calls begun before the tail.

    The outcome of an inherited call is a row of this session under the seq of its intent, which is at or
    below the fork point: the parent's row stays as it is.
    """
    intents, outcomes = tail.calls()
    connection.executemany(
        SQL["call_insert"],
        [
            (
                s,
                item.seq,
                to_bytes(item.call),
                item.tool,
                item.effect,
                end.status if end else "started",
                end.cause if end else "",
                item.attempt,
                end.seq if end else 0,
                item.turn,
                item.at,
            )
            for item, end in intents
        ],
    )
    for call, item in outcomes.items():
        intent = _intent(connection, s, low, lineage, call, item.seq)
        if intent is not None:
            connection.execute(SQL["call_insert"], (s, *intent))
            connection.execute(
                SQL["call_outcome"], (item.status, item.cause, item.seq, s, intent[0])
            )


def _intent(
    connection: apsw.Connection, s: int, low: int, lineage: Lineage, call: str, before: int
) -> Any:
    """The row, without its session, of a call's latest attempt before a seq, here or in the lineage."""
    digits = to_bytes(call)
    # A call made here has the digits of the commit of its first intent, so the index of commits finds it.
    first = find_commit(connection, digits)
    owner, seq = (first >> SEQ_BITS, first & SEQ_MASK) if first else (s, low + 1)
    mine = one(connection, SQL["call_latest"], (s, digits, min(seq, low), before))
    if mine is not None or owner == s:
        return mine
    for other, upto in reversed(lineage):
        found = one(connection, SQL["call_latest"], (other, digits, seq - 1, upto))
        if found is not None:
            return found
    return None


# The key of a log row is the session's ordinal above 40 bits of seq: the commits of a session are
# neighbours in the file, in order.
SEQ_BITS = 40
SEQ_MASK = (1 << SEQ_BITS) - 1


def _flush_snaps(
    connection: apsw.Connection,
    s: int,
    low: int,
    upto: int,
    versions: Sequence[tuple[int, Version]],
    snaps: dict[int, tuple[int, int, int]],
) -> dict[int, tuple[int, int, int]]:
    """Snapshot each collection whose versions since the last one outnumber what was live in it.

    So that the cost of all snapshots is at most one pointer a version, and reading back at most one
    version a live record.
    """
    touched = Counter(number for number, _ in versions)
    for number, more in touched.items():
        seq, since, live = snaps.get(number, (low, 0, 0))
        since += more
        if since <= max(SNAP_MIN, live):
            snaps[number] = (seq, since, live)
            continue
        pointers = live_pointers(connection, s, number, low, upto)
        connection.execute(SQL["snap_insert"], (s, number, upto, compress(_pack(pointers))))
        snaps[number] = (upto, 0, len(pointers))
    return snaps


def live_pointers(
    connection: apsw.Connection, s: int, number: int, low: int, upto: int, before: int | None = None
) -> list[tuple[int, int]]:
    """(seq, n) of every version of this session's own log that is live at `upto`, in log order.

    Records that live only in the session's lineage are not among them; drops of those are (n
    negative), so that a reader going further back knows they are gone. Builds on the last snapshot
    up to `upto`, or below `before` if that is given.
    """
    start, known = snapshot_before(connection, s, number, low, (before or upto + 1) - 1)
    live: dict[Any, tuple[int, int]] = {}
    for seq, n in known:
        row = one(connection, SQL["rec_one"], (s, number, seq, abs(n) - 1))
        if row is not None:
            live[row[5]] = (seq, n)
    for row in connection.execute(SQL["rec_forward"], (s, number, start, upto)):
        seq, n, op, was, _, identifier, _, _ = row
        live.pop(identifier, None)
        if op:
            live[identifier] = (seq, n + 1)
        elif low and _born_before(connection, s, number, low, was, identifier):
            # A negative pointer is a drop. It is n + 1 because zero has no sign.
            live[identifier] = (seq, -(n + 1))
    return sorted(live.values())


def _born_before(
    connection: apsw.Connection, s: int, number: int, low: int, was: int, identifier: Any
) -> bool:
    """Whether a dropped record came from the lineage: follow `was` back to the first version."""
    while was > low:
        found = one(
            connection,
            "SELECT was FROM rec WHERE s = ? AND c = ? AND seq = ? AND id = ? ORDER BY n LIMIT 1",
            (s, number, was, identifier),
        )
        if found is None:
            return False
        was = found[0]
    return was > 0


def snapshot_before(
    connection: apsw.Connection, s: int, number: int, low: int, upto: int
) -> tuple[int, list[tuple[int, int]]]:
    """The last snapshot of a collection with `low < seq <= upto`: (its seq, its pointers), or (low, [])."""
    found = one(connection, SQL["snap_last"], (s, number, low, upto))
    if found is None:
        return low, []
    return found[0], _unpack_live(decompress(found[1]))


def wipe(connection: apsw.Connection) -> None:
    """Delete every projection row. Inside the caller's transaction."""
    for table in ("commit_ix", "origin_ix", "turn_ix", "rec", "snap", "call_ix", "flush_ix"):
        connection.execute(f"DELETE FROM {table}")  # noqa: S608 - a fixed list of our own tables


def replayed(commits: Iterable[Commit], key_of_id: KeyOf) -> Tail:
    """The tail that those commits make."""
    tail = Tail()
    keys: dict[tuple[str, str], str] = {}

    def known(collection: str, identifier: str, was: int) -> str:
        return keys.get((collection, identifier)) or key_of_id(collection, identifier, was)

    for commit in commits:
        found = keys_of(commit, known)
        for op, key in zip(commit.delta, found, strict=True):
            keys[op.collection, op.id] = key
        tail.add(tailed(commit, found))
    return tail


def each_tail(
    commits: Iterable[Commit], key_of_id: KeyOf, cuts: frozenset[int] = frozenset()
) -> Iterator[Tail]:
    """Commits as the tails they were flushed in (`cuts`: where), or of a bounded size."""
    batch: list[Commit] = []
    for commit in commits:
        batch.append(commit)
        if commit.seq in cuts or (not cuts and len(batch) >= TAIL_MAX):
            yield replayed(batch, key_of_id)
            batch = []
    if batch:
        yield replayed(batch, key_of_id)
