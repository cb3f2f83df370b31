"""Queries: the questions a store answers, and the rows of the answers.

Closed sets of filters over closed sets of fields; a column or a path is never named in free text. Every answer
that can grow is a page, continued by its cursor (the key of the last row, never an offset).
"""

from __future__ import annotations

from typing import Any, Generic, Literal, TypeVar

import msgspec

from stator.errors import BadQuery
from stator.model.records.types import SessionRecord

PAGE = 100
PAGE_MAX = 10_000

Row = TypeVar("Row")
UsageBy = Literal["content", "session", "tier", "kind"]
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
    live: bool = False


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

    @property
    def id(self) -> str:
        return self.record.id

    @property
    def has_times(self) -> bool:
        """Whether it is known when it was used: not every transcript says that."""
        return self.record.labels.get("times") != "unknown"

    @property
    def shown(self) -> str:
        """The status people see: an active session without a live driver is interrupted. A recorded session
        without a known live agent counts as paused."""
        status = self.record.status
        if self.record.mode == "recorded" and (
            (status == "open" and self.turns) or (status == "active" and self.at_rest)
        ):
            return "paused"
        live = self.holder is not None and self.holder.live
        if status == "active" and self.record.mode == "driven" and not live:
            return "interrupted"
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


class TurnRow(msgspec.Struct, frozen=True, kw_only=True):
    """A turn: its number, its position in the log and how it ended ("" while it is open)."""

    turn: int
    first: int
    last: int
    at: int
    status: str = ""


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


class CallQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which calls; `statuses` empty means any."""

    session: str | None = None
    project: str | None = None
    tool: str | None = None
    statuses: tuple[str, ...] = ()
    after: int = 0
    """Only calls begun after this seq."""
    after_turn: int = -1


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


def check_limit(limit: object) -> int:
    """A page size that makes sense."""
    if type(limit) is not int or not 0 < limit <= PAGE_MAX:
        raise BadQuery(f"a limit must be a whole number from 1 to {PAGE_MAX:,}, got {limit!r:.40}")
    return limit
