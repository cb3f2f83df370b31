"""Commits as the statements that write them: the row of the session, the log, and the versions of records.

All of it goes in one transaction and one round trip. The first statement changes nothing unless the session is as the
writer knew it, and then neither do those that follow.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stator.model.log.chain import put_item
from stator.model.log.commit import CONTINUED, Commit, size_of
from stator.model.log.delta import Put
from stator.model.log.turn_keys import names_of
from stator.model.records.types import SessionRecord
from stator.model.values.ids import to_bytes
from stator.store.postgres.connection import Statement
from stator.store.postgres.live_session import RemoteLive
from stator.store.postgres.session_row import ENDLESS, SEEN_GRAIN, encode_record
from stator.store.postgres.text import digest, packed
from stator.store.rows import BLOB, Row, envelope_of, to_row

LOG = "seq id hash salts kind turn at body status call tool effect cause attempt origin".split()
REC = "c id seq n put was turn ended mark key span".split()
IN_FORCE = 63
"""The `span` of a version that nothing has replaced."""
NAMING = frozenset({"turn", "erasure"})
"""Kinds of commits that give names to turns."""
CALLS = frozenset({"call", "outcome", "settlement"})

Keyed = tuple[Commit, Sequence[str]]
"""A commit, and the key of each of its ops."""


def written(
    live: RemoteLive, commits: Sequence[Keyed], before: SessionRecord | None
) -> list[Statement]:
    """The statements that append these commits, which `live` has applied already, to what it knew before.

    `before` is the session's record until now; None where its row does not have it yet.
    """
    known, last = live.known, commits[-1][0]
    rows = [to_row(commit, live.digest) for commit, _ in commits]
    log = [log_columns(commit, row) for (commit, _), row in zip(commits, rows, strict=True)]
    versions, ended = version_rows(commits, known.low)
    guard = {"s": known.s, "hash": bytes.fromhex(last.hash)}
    values: dict[str, Any] = {
        **guard,
        **columns("l", LOG, log),
        **columns("r", REC, versions),
        **counted([commit for commit, _ in commits]),
        "head": last.seq,
        "turn": live.turn,
        "turn_open": live.turn_open,
        "updated": last.used,
        "grain": SEEN_GRAIN,
        "seen": known.head,
        "seen_hash": known.hash,
        "epoch": live.epoch,
        "held": live.held,
    }
    found = [Statement("append", values)]
    found += blob_statements(rows, [commit.seq for commit, _ in commits], guard)
    for (collection, identifier), (was, seq) in ended.items():
        which = {"c": collection, "id": packed(identifier), "was": was}
        until = {"ended": seq, "span": span(was, seq), "endless": ENDLESS}
        found.append(Statement("rec_end", {**guard, **which, **until}))
    names = [name for commit, _ in commits if commit.kind in NAMING for name in names_of(commit)]
    if names:
        found.append(Statement("turn_key_insert", {**guard, **name_columns(names)}))
    if live.record is not before:
        found += record_statements(live.record, before, guard)
    return found


def log_columns(commit: Commit, row: Row) -> tuple[Any, ...]:
    """A commit as its row in the log."""
    plain = plain_columns(commit)
    return (commit.seq, row.id, row.hash, row.salts, *plain[:3], row.body, *plain[3:])


def plain_columns(commit: Commit) -> tuple[Any, ...]:
    """What queries look for: (kind, turn, at, status, call, tool, effect, cause, attempt, origin)."""
    in_call = commit.kind in CALLS
    return (
        packed(commit.kind),
        commit.turn,
        commit.at,
        packed(commit.status) if commit.status else None,
        to_bytes(commit.call) if in_call and commit.call else None,
        packed(commit.tool) if commit.tool else None,
        packed(commit.effect) if commit.effect else None,
        packed(commit.cause) if commit.cause else None,
        commit.attempt if in_call else None,
        None if commit.origin is None else digest(*commit.origin),
    )


def version_rows(
    commits: Sequence[Keyed], low: int
) -> tuple[list[list[Any]], dict[tuple[str, str], tuple[int, int]]]:
    """The versions that commits make, and by record which older one of this session's own they end, and where."""
    rows: list[list[Any]] = []
    latest: dict[tuple[str, str], list[Any]] = {}
    ended: dict[tuple[str, str], tuple[int, int]] = {}
    for commit, keys in commits:
        for n, (op, key) in enumerate(zip(commit.delta, keys, strict=True)):
            slot = (op.collection, op.id)
            put = isinstance(op, Put)
            row: list[Any] = [
                op.collection,
                packed(op.id),
                commit.seq,
                n,
                put,
                op.was,
                commit.turn,
                ENDLESS if put else commit.seq,
                digest(key),
                packed(key),
            ]
            older = latest.get(slot)
            if older is None:
                if op.was > low:
                    ended[slot] = (op.was, commit.seq)
            elif older[4]:
                older[7] = commit.seq
            latest[slot] = row
            rows.append(row)
    for row in rows:
        row.append(span(row[2], row[7]))
    return rows, ended


def span(seq: int, ended: int) -> int:
    """How many binary digits the length of an interval has."""
    return IN_FORCE if ended == ENDLESS else (ended - seq).bit_length()


def columns(prefix: str, names: Sequence[str], rows: Sequence[Sequence[Any]]) -> dict[str, Any]:
    """Rows as one list for each column."""
    return {f"{prefix}_{name}": [row[n] for row in rows] for n, name in enumerate(names)}


def name_columns(names: Sequence[Any]) -> dict[str, Any]:
    return {
        "batches": [packed(name.group) for name in names],
        "names": [packed(name.name) for name in names],
        "seqs": [name.seq for name in names],
    }


def counted(commits: Sequence[Commit]) -> dict[str, int]:
    """What these commits add to the numbers in their session's row."""
    return {
        "commits": len(commits),
        "turns": sum(c.kind == "turn" and c.status != CONTINUED for c in commits),
        "calls": sum(c.kind == "call" for c in commits),
        "failed": sum(c.kind == "outcome" and c.status != "ok" for c in commits),
        "tokens": sum(map(_tokens, commits)),
        "content_bytes": sum(size_of(item) for c in commits for item in c.content.values()),
    }


def _tokens(commit: Commit) -> int:
    """The tokens that a commit reports."""
    usage = commit.known("usage", None)
    return int(usage.get("tokens", 0)) if isinstance(usage, dict) else 0


def blob_statements(
    rows: Sequence[Row], seqs: Sequence[int], guard: dict[str, Any]
) -> list[Statement]:
    """Keep the blobs of rows, each once, and that these commits need them."""
    blobs = {one[0]: one for row in rows for one in row.blobs}
    if not blobs:
        return []
    uses = [use for row, seq in zip(rows, seqs, strict=True) for use in uses_of(row.body, seq)]
    return [
        Statement(
            "blob_insert",
            {
                **guard,
                "digests": list(blobs),
                "sizes": [size for _, _, size in blobs.values()],
                "datas": [data for _, data, _ in blobs.values()],
            },
        ),
        Statement("blob_use_insert", {**guard, **use_columns(uses)}),
    ]


def uses_of(body: bytes, seq: int) -> list[tuple[int, bytes, bool]]:
    """(seq, digest, for a record) of the blobs that a row needs."""
    found: dict[bytes, bool] = {}
    for item in envelope_of(body).items:
        if item.state == BLOB and item.data is not None:
            found[item.data] = found.get(item.data, False) or item.name.startswith(PUTS)
    return [(seq, address, put) for address, put in found.items()]


PUTS = put_item(0)[:-1]
"""How the names of content items begin that are records."""


def use_columns(uses: Sequence[tuple[int, bytes, bool]]) -> dict[str, Any]:
    return {
        "seqs": [seq for seq, _, _ in uses],
        "digests": [address for _, address, _ in uses],
        "puts": [put for _, _, put in uses],
    }


def session_columns(record: SessionRecord) -> dict[str, Any]:
    """What a session's row says beside its record."""
    return {
        "called": digest(record.tenant, record.project, record.name),
        "project": packed(record.project),
        "project_mark": digest(record.project),
        "name_mark": digest(record.name),
        "name": packed(record.name),
        "agent": packed(record.agent),
        "status": packed(record.status),
        "record": encode_record(record),
    }


def record_statements(
    record: SessionRecord, before: SessionRecord | None, guard: dict[str, Any]
) -> list[Statement]:
    found = [Statement("session_record", {**guard, **session_columns(record)})]
    if before is None or record.aliases != before.aliases:
        found += alias_statements(record, guard["s"])
    return found


def alias_statements(record: SessionRecord, s: int) -> list[Statement]:
    """The names that a session has elsewhere, as its record has them."""
    aliases = [digest(source, foreign) for source, foreign in record.aliases]
    return [
        Statement("alias_delete", {"s": s}),
        Statement("alias_insert", {"s": s, "aliases": aliases}),
    ]
