"""The tables of the store, and the tenants in them: made by the first writer that may.

Migrations are additive files, run in one transaction that holds the row of the version locked: a migrator that dies
leaves nothing behind, and of two the second finds the work done.
"""

from __future__ import annotations

import re
import secrets
from typing import NamedTuple

from psycopg import errors as pg
from psycopg import sql

from stator.errors import InvalidInput, NotAStore, StoreFailed
from stator.store.postgres.connection import Connections, NotPrepared, Statement, translated
from stator.store.postgres.patience import LONG_S
from stator.store.postgres.roles import Right, make_roles, right_of
from stator.store.postgres.wire import Link
from stator.store.sql import script

SCHEMA = 1
"""The newest version there is; its files are `postgres_schema_1.sql` and on."""
OLDEST = 15
"""The oldest major version of PostgreSQL: views that are read with the rights of who asks came with it."""
BOOTSTRAP = (
    "CREATE SCHEMA IF NOT EXISTS stator",
    "CREATE TABLE IF NOT EXISTS stator.schema (one integer PRIMARY KEY, version integer NOT NULL)",
    "INSERT INTO stator.schema (one, version) VALUES (1, 0) ON CONFLICT DO NOTHING",
)
GRANTS = (
    "GRANT USAGE ON SCHEMA stator TO {}",
    "GRANT SELECT ON ALL TABLES IN SCHEMA stator TO {}",
    "GRANT INSERT, UPDATE, DELETE ON stator.tenant, stator.session, stator.alias, stator.log, stator.blob,"
    " stator.blob_use, stator.rec, stator.turn_key, stator.bookmark, stator.process TO {}",
    "GRANT USAGE ON ALL SEQUENCES IN SCHEMA stator TO {}",
)
NAME_MAX = 200
TRIES = 5
"""How often the first steps are tried: two that make the same schema at once collide in the catalogue."""


class Tenant(NamedTuple):
    """A tenant of the store: its number, the id that its part is known by, and its secret."""

    number: int
    id: str
    secret: bytes
    right: Right = "drive"
    """What the role of the connection may do there."""


def prepare(url: str, *, application: str = "", roles: bool = False) -> None:
    """Make or renew the tables, as a role that may; `application` names a role that may then use them. `roles`: make
    `stator_counts`, `stator_read`, `stator_approve` and `stator_drive` too, for logins to be members of."""
    connections = Connections(url)
    try:
        link = connections.open()
        link.patience_s = LONG_S
        with link, translated(link):
            if not application and not roles and _is_current(link):
                return  # a role that only uses the tables need not be able to make any
            _bootstrap(link)
            with link.transaction():
                link.execute("SET LOCAL synchronous_commit = on")
                _migrate(link)
                for grant in GRANTS if application else ():
                    link.execute(sql.SQL(grant).format(sql.Identifier(application)))
                if roles:
                    make_roles(link)
    finally:
        connections.close()


def _is_current(link: Link) -> bool:
    try:
        row = link.execute("SELECT version FROM stator.schema WHERE one = 1").fetchone()
    except (pg.UndefinedTable, pg.InvalidSchemaName):
        return False
    return row is not None and bool(row[0] == SCHEMA)


def _bootstrap(link: Link) -> None:
    for text in BOOTSTRAP:
        for left in reversed(range(TRIES)):
            try:
                link.execute(text)
            except (pg.UniqueViolation, pg.DuplicateSchema, pg.DuplicateTable):
                if not left:
                    raise
            else:
                break


def _migrate(link: Link) -> None:
    row = link.execute("SELECT version FROM stator.schema WHERE one = 1 FOR UPDATE").fetchone()
    version = row[0] if row else 0
    _check_version(version)
    for number in range(version + 1, SCHEMA + 1):
        link.execute(script(f"postgres_schema_{number}.sql"))
        link.execute("UPDATE stator.schema SET version = %s WHERE one = 1", (number,))


def _check_version(version: int) -> None:
    if version > SCHEMA:
        raise NotAStore(
            f"this database has schema {version}; this release knows schemas up to {SCHEMA}",
            hint="use a newer release of stator",
        )


def tenant(connections: Connections, name: str) -> Tenant | None:
    """The tenant of that name, whose the connections are from now on; None if it, or its tables, are not there."""
    if not name or len(name) > NAME_MAX or re.search(r"[\x00-\x1f]", name):
        raise InvalidInput(f"a tenant's name has 1 to {NAME_MAX} characters", path="$.tenant")
    key = name.encode("utf-8", "surrogatepass")
    connections.settings = {"tenant": key.hex(), "t": ""}
    try:
        versions, rows, rights = connections.read(
            Statement("schema_version"), Statement("tenant_find", {"name": key}), Statement("right")
        )
    except NotPrepared:
        return None
    version = versions[0][0] if versions else 0
    _check_version(version)
    if version < SCHEMA or not rows:
        return None
    number, identifier, secret = rows[0]
    connections.settings = {"tenant": key.hex(), "t": str(number)}
    connections.always = {"t": number}
    return Tenant(number, identifier.hex(), secret, right_of(rights[0]))


def add_tenant(connections: Connections, name: str) -> Tenant:
    """The tenant of that name, made if it is not there."""
    made = {
        "name": name.encode("utf-8", "surrogatepass"),
        "id": secrets.token_bytes(16),
        "secret": secrets.token_bytes(32),
    }
    connections.write(lambda db: db.ask(Statement("tenant_insert", made), commit=True))
    found = tenant(connections, name)
    if found is None:
        raise StoreFailed(f"tenant {name!r:.80} was made and is not there")
    return found
