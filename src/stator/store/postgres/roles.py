"""Roles: what a connection may do, by what the server lets it write.

The server refuses what a role has no grant for. What it cannot tell apart, the store refuses before it asks: an
approver appends answers of a person, and nothing as a driver.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Literal

import msgspec
from psycopg import errors as pg

from stator.errors import NotAStore, StoreReadOnly
from stator.model.log.commit import Draft
from stator.store.postgres.connection import Connections, Statement
from stator.store.postgres.wire import Link
from stator.store.sql import statements

Right = Literal["read", "approve", "drive"]
ROLES = ("counts", "read", "approve", "drive")
ANSWERS = frozenset({"approval", "settlement"})
"""What a person says of a call."""
FOUND_IN_ANSWERS = frozenset({"candidate", "check"})
"""What is appended with it, in one transaction."""
HINT = "see docs/guides/postgres.md, roles"


class ProjectCounts(msgspec.Struct, frozen=True):
    """How much happened in the sessions of a project and agent that began on a day (UTC)."""

    project: str
    agent: str
    day: str
    sessions: int
    turns: int
    calls: int
    failures: int
    tokens: int
    bytes: int


def make_roles(link: Link) -> None:
    """Make the roles that are missing, and grant all of them what they may do."""
    known = statements("postgres_roles.sql")
    there = {name for (name,) in link.execute(known["there"]).fetchall()}
    for role in ROLES:
        if f"stator_{role}" not in there:
            # Roles belong to all databases of a server: another may have made it just now.
            with suppress(pg.DuplicateObject, pg.UniqueViolation), link.transaction():
                link.execute(known[f"make_{role}"])
    link.execute(known["grants"])


def right_of(row: tuple[bool, bool]) -> Right:
    """What a role may do, by whether it may add sessions and whether it may append."""
    drives, appends = row
    return "drive" if drives else "approve" if appends else "read"


def check_drives(right: Right) -> None:
    """Refuse what only a driver does."""
    if right == "read":
        raise StoreReadOnly("the role of this connection may only read", hint=HINT)
    if right == "approve":
        raise StoreReadOnly(
            "the role of this connection may approve and settle calls, and drive nothing", hint=HINT
        )


def check_appends(right: Right, drafts: Sequence[Draft], *, noted: bool) -> None:
    """Refuse drafts that are not for this role to append."""
    answers = bool(drafts) and drafts[0].kind in ANSWERS and not noted
    rest = all(one.kind in ANSWERS | FOUND_IN_ANSWERS and not one.epoch for one in drafts)
    if right != "approve" or not (answers and rest):
        check_drives(right)


def counts(url: str, *, tenant: str) -> list[ProjectCounts]:
    """Numbers of a tenant's sessions by project, agent and day, for a role that may read nothing else."""
    connections = Connections(url)
    try:
        key = tenant.encode("utf-8", "surrogatepass")
        connections.settings = {"tenant": key.hex(), "t": ""}
        (found,) = connections.read(Statement("tenant_number", {"name": key}))
        if not found:
            raise NotAStore("this database holds no store of this tenant")
        connections.settings = {"tenant": key.hex(), "t": str(found[0][0])}
        connections.always = {"t": found[0][0]}
        (rows,) = connections.read(Statement("counts"))
    finally:
        connections.close()
    return [ProjectCounts(*row) for row in rows]
