"""Sets a database up for a tenant: tables, grants, the tenant's row. What a role may not do is written as SQL, for an
administrator to run.

That SQL makes no tenant, because a tenant's row holds its secret: the role that may use the tables adds its own.
"""

from __future__ import annotations

import contextlib

import msgspec
from psycopg import sql

from stator.errors import InvalidInput, NotAStore
from stator.store.postgres import schema
from stator.store.postgres.connection import Connections, NotAllowed, translated
from stator.store.postgres.tenant_store import tenant_in
from stator.store.postgres.wire import Link
from stator.store.sql import script

VERSION = "UPDATE stator.schema SET version = {} WHERE one = 1;"
THERE = (
    "SELECT bool_or(has_schema_privilege(n.oid, 'USAGE') AND has_table_privilege(c.oid, 'SELECT'))"
    " FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
    " WHERE n.nspname = 'stator' AND c.relname = 'schema'"
)
"""Whether the table of the version can be read; NULL if it is not there."""
GRANTED = (
    "SELECT coalesce(bool_and(has_table_privilege(%(role)s, c.oid, 'INSERT')), false)"
    " FROM pg_class c WHERE c.relnamespace = 'stator'::regnamespace AND c.relname IN ('log', 'process')"
)


class ServerSetup(msgspec.Struct, frozen=True):
    """What setting up a database did, or the SQL that is left for an administrator."""

    tenant: str
    made: list[str]
    sql: str = ""


def set_up(url: str, *, tenant: str | None, application: str = "") -> ServerSetup:
    """Make what is missing; `application` names a role that may then use the tables."""
    url, tenant = tenant_in(url, tenant)
    with contextlib.closing(Connections(url)) as connections:
        user, version = _asked(connections, application)
        made = [] if version == schema.SCHEMA else [f"tables, schema {schema.SCHEMA}"]
        try:
            made += _make(connections, tenant, application, new=bool(made))
        except NotAllowed:
            return ServerSetup(tenant, [], sql_for_administrator(version, application or user))
    return ServerSetup(tenant, made)


def _make(connections: Connections, tenant: str, application: str, *, new: bool) -> list[str]:
    made = []
    had = not new and _is_granted(connections, application)
    schema.prepare(connections.url, application=application)
    if application and not had:
        # A grant by a role that may not give it is a warning of the server, and an error here.
        if not _is_granted(connections, application):
            raise NotAllowed(f"this role may not give {application} the use of the tables")
        made.append(f"grants for {application}")
    if schema.tenant(connections, tenant) is None:
        schema.add_tenant(connections, tenant)
        made.append(f"tenant {tenant}")
    return made


def _asked(connections: Connections, application: str) -> tuple[str, int]:
    """The role that is connected, and the version of the tables. Refuses a server or a role that cannot serve."""
    link = connections.open()
    with link, translated(link):
        check_version(link.info.server_version)
        if application:
            found = link.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", (application,))
            if found.fetchone() is None:
                raise InvalidInput(
                    f"the server has no role {application!r:.80}",
                    hint=f"as an administrator: CREATE ROLE {_quoted(application)} LOGIN",
                )
        return link.info.user, _version(link)


def _version(link: Link) -> int:
    """The version of the tables; 0 without any. One that a role may not read counts as the newest: it needs grants."""
    row = link.execute(THERE).fetchone()
    if row is None or row[0] is None:
        return 0
    if not row[0]:
        return schema.SCHEMA
    row = link.execute("SELECT version FROM stator.schema WHERE one = 1").fetchone()
    return int(row[0]) if row else 0


def check_version(number: int) -> None:
    """Refuse a server that is too old; `number` is as libpq counts, 160004."""
    if number < schema.OLDEST * 10000:
        raise NotAStore(
            f"PostgreSQL {number // 10000} is too old: {schema.OLDEST} is the oldest that works",
            hint="use a newer server",
        )


def _is_granted(connections: Connections, application: str) -> bool:
    """Whether a role may use the tables, which are there."""
    if not application:
        return False
    link = connections.open()
    with link, translated(link):
        row = link.execute(GRANTED, {"role": application}).fetchone()
    return row is not None and bool(row[0])


def sql_for_administrator(version: int, role: str) -> str:
    """Everything from a version of the tables to the newest, and the grants of a role, for psql."""
    name = _quoted(role)
    parts = [
        f"-- The tables of a Stator store, and their use for the role {name}. Run it as a role that may create a",
        "-- schema in this database: psql -f FILE. It changes all or nothing.",
        r"\set ON_ERROR_STOP on",
        "BEGIN;",
    ]
    if version < schema.SCHEMA:
        parts += [f"{text};" for text in schema.BOOTSTRAP]
        for number in range(version + 1, schema.SCHEMA + 1):
            parts.append(script(f"postgres_schema_{number}.sql").strip())
        parts.append(VERSION.format(schema.SCHEMA))
    parts += [f"{grant.format(name)};" for grant in schema.GRANTS]
    return "\n".join([*parts, "COMMIT;", ""])


def _quoted(name: str) -> str:
    return sql.Identifier(name).as_string(None)
