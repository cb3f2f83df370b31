"""Queries: the questions a store answers, and the rows of the answers.

Closed sets of filters over closed sets of fields; a column or a path is never named in free text. Every answer
that can grow is a page, continued by its cursor (the key of the last row, never an offset).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Generic, Literal, TypeVar

import msgspec

from stator.errors import BadQuery
from stator.model.log.commit import Commit
from stator.model.records.tables import COLLECTIONS
from stator.model.records.types import SessionRecord

PAGE = 100
PAGE_MAX = 10_000

NEWEST = -1
"""Among the seqs of commits that are asked for: the last commit there is."""
GONE = -1
"""The head of a session that is not in a store, where heads are asked for."""

Row = TypeVar("Row")
UsageBy = Literal["content", "session", "tier", "kind", "recorded"]
"""The ways in which the used space can be grouped."""


class Page(msgspec.Struct, Generic[Row], frozen=True):
    """Some rows, and where to continue (None at the end)."""

    rows: list[Row]
    cursor: tuple[int, ...] | None = None


class Holder(msgspec.Struct, frozen=True, kw_only=True):
    """Who drives a session."""

    epoch: int
    run: str = ""
    host: str = ""
    pid: int = 0
    program: str = ""
    since: int = 0
    live: bool | Literal["silent"] = False
    """Whether its process lives. "silent": it gave no sign for a while, on the clock of the process that looked; it may
    be displaced, and it may still run."""
    beats: int = 0
    """A counter that its process moves while it lives, where a store at a distance can know no more; 0 where the store
    knows by itself."""
    process: str = ""
    """Which process it is, among all of its machine: what is on the same machine can ask the kernel for it."""


class SessionRow(msgspec.Struct, frozen=True, kw_only=True):
    """A session as listings show it."""

    record: SessionRecord
    epoch: int = 0
    head: int = 0
    holder: Holder | None = None
    turns: int = 0
    updated: int = 0
    at_rest: bool = False
    """Whether readers know that the agent of a recorded session is not at work; a store by itself does not."""
    counts: Counts | None = None
    """How much it holds, where the reader asked for that. No part of any document."""
    acted: int = 0
    """When its agent last did something, where the reader asked for that; 0 where it did not."""

    @property
    def id(self) -> str:
        return self.record.id

    @property
    def used(self) -> int:
        """When it was last used: by what its agent did, or where nobody looked for that, by its newest commit."""
        return self.acted or self.updated

    @property
    def has_times(self) -> bool:
        """Whether it is known when it was used: not every transcript says that."""
        return self.record.labels.get("times") != "unknown"

    @property
    def shown(self) -> str:
        """The status people see: an active session without a live driver is interrupted, one whose driver gives no
        sign is silent. A recorded session
        without a known live agent counts as paused."""
        status = self.record.status
        if self.record.mode == "recorded" and (
            (status == "open" and self.turns) or (status == "active" and self.at_rest)
        ):
            return "paused"
        live = self.holder is not None and self.holder.live
        if status == "active" and self.record.mode == "driven" and live is not True:
            return live or "interrupted"
        return status


class Head(msgspec.Struct, frozen=True):
    """The latest commit of a session: its seq, hash, the last turn's number and whether it is open."""

    seq: int
    hash: str
    turn: int
    turn_open: bool = False


class Lease(msgspec.Struct, frozen=True):
    """The right to drive a session; `epoch` is its fencing number."""

    session: str
    epoch: int
    displaced: Holder | None = None
    newest: tuple[Commit, ...] = ()
    """The last commits there were, newest first, without content in blobs: as many as were asked for."""


class TurnRow(msgspec.Struct, frozen=True, kw_only=True):
    """A turn: its number, its position in the log and how it ended ("" while it is open)."""

    turn: int
    first: int
    last: int
    at: int
    status: str = ""
    began: Commit | None = None
    """The commit that began it, where the reader asked for prompts. No part of any document."""
    end: int = 0
    """Its last commit before a rewind and the tag of that, where the reader asked for ends. No part of any document."""


class CallRow(msgspec.Struct, frozen=True, kw_only=True):
    """A call and what is known of its outcome ("started" while nothing is)."""

    session: str
    call: str
    tool: str
    seq: int
    turn: int
    at: int
    status: str = "started"
    effect: str = ""
    cause: str = ""
    outcome: int = 0
    attempt: int = 1


class Counts(msgspec.Struct, frozen=True, kw_only=True):
    """How much a session holds."""

    commits: int = 0
    turns: int = 0
    calls: int = 0
    failed: int = 0
    open: int = 0
    content_bytes: int = 0
    live: dict[str, int] = {}
    """Live records by collection: as many as the state holds, those that a fork inherited included."""


class Read(msgspec.Struct, frozen=True):
    """A read of the port that is answered together with others: its method, and what that is given."""

    method: str
    args: tuple[Any, ...]
    options: dict[str, Any] = {}


def read(method: str, *args: Any, **options: Any) -> Read:
    """A read as it is written where a store is asked itself."""
    return Read(method, args, options)


TOGETHER = frozenset("session sessions head commits locate turns entries versions calls".split())
"""What can be asked together."""


class SessionQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which sessions; every filter given must hold."""

    name: str | None = None
    project: str | None = None
    tenant: str | None = None
    agent: str | None = None
    status: str | None = None
    mode: str | None = None
    alias: tuple[str, str] | None = None
    suffix: str | None = None
    parent: str | None = None
    holds: str | None = None
    """Only sessions that may hold records of this collection: none that holds one is left out."""


class CallQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which calls; `statuses` empty means any."""

    session: str | None = None
    project: str | None = None
    tool: str | None = None
    statuses: tuple[str, ...] = ()
    after: int = 0
    """Only calls begun after this seq."""
    after_turn: int = -1

    @property
    def wants_open_or_failed(self) -> bool:
        """Whether no call that ended ok is asked for: then most calls need not be read."""
        return bool(self.statuses) and "ok" not in self.statuses


class KeyTouch(msgspec.Struct, frozen=True, kw_only=True):
    """One version of a record somewhere in the store: who touched that key, where and when."""

    session: str
    seq: int
    turn: int
    id: str
    key: str
    collection: str
    dropped: bool = False


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """Something `verify` or `doctor` found."""

    what: str
    check: str
    session: str = ""
    seq: int = 0
    hint: str = ""
    severity: str = "error"
    name: str = ""
    """The name of the session."""
    last: int = 0
    """The last seq of a range of commits that begins with `seq`; 0 if there is no range."""
    held: dict[str, int] = {}
    """What the indexes still hold of damaged commits: records by collection."""


class VerifyReport(msgspec.Struct, frozen=True, kw_only=True):
    """What `verify` checked and what it found."""

    sessions: int = 0
    """Sessions whose log was read."""
    commits: int = 0
    """Commits that match their hash and their place."""
    log_ok: bool = True
    """Whether every commit that was looked for did."""
    damages: list[Finding] = []
    """Those in a log first, the first bad commit of each session before its other damage."""
    heads: dict[str, str] = {}
    """The hash of the head of each session whose log is intact, the most recently used first."""
    names: dict[str, str] = {}
    """The name of each session."""

    @property
    def ok(self) -> bool:
        return not self.damages


class StoreInfo(msgspec.Struct, frozen=True, kw_only=True):
    """What a store is."""

    id: str
    url: str
    kind: str
    schema: int
    durability: str
    read_only: bool = False
    detail: dict[str, Any] = {}


def check_limit(limit: object, name: str = "a limit") -> int:
    """A page size that makes sense; `name` is what it is called where it was given."""
    if type(limit) is not int or not 0 < limit <= PAGE_MAX:
        raise BadQuery(f"{name} must be a whole number from 1 to {PAGE_MAX:,}, got {limit!r:.40}")
    return limit


def check_collection(name: str) -> None:
    """Refuse what is no collection."""
    if name not in COLLECTIONS:
        raise BadQuery(f"no collection {name!r:.40}", hint=f"one of: {', '.join(COLLECTIONS)}")


def check_limits(
    collections: Sequence[str], limit: int | Mapping[str, int] | None
) -> dict[str, int | None]:
    """The collections that are asked for (none named: all), each once, with how many records of it."""
    limits: dict[str, int | None] = {}
    for name in collections or COLLECTIONS:
        check_collection(name)
        most = limit.get(name) if isinstance(limit, Mapping) else limit
        limits[name] = None if most is None else check_limit(most)
    return limits
