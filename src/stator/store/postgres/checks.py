"""What `stator doctor` looks at on a server: its version, what a commit waits for, the role, row-level security, the
clock, a pooler, and what dead processes left. Each finding comes with what to do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from stator.model.log.query import Finding
from stator.store.postgres.connection import READ, SQL, Connections, translated
from stator.store.postgres.schema import OLDEST
from stator.store.postgres.wire import Link

SKEW_US = 2_000_000
DEAD_MAX = 100
"""Rows of processes that drive nothing, up to which nothing is reported: some belong to processes that are idle."""
ROLE = "connect as a role that only uses the tables: stator init --store … --application ROLE"
SAID = "role is_super bypasses owns commit standbys fsync".split()
STATE = (
    "SELECT current_user::text, r.rolsuper, r.rolbypassrls, pg_has_role(n.nspowner, 'MEMBER'),"
    " current_setting('synchronous_commit'), current_setting('synchronous_standby_names'),"
    " current_setting('fsync') = 'on', (extract(epoch FROM clock_timestamp()) * 1000000)::bigint,"
    " pg_backend_pid(), current_setting('server_version')"
    " FROM pg_roles r, pg_namespace n WHERE r.rolname = current_user AND n.nspname = 'stator'"
)
"""What is in `SAID`, then the server's time in µs, the process that works, and the version in words."""
UNFORCED = (
    "SELECT c.relname::text FROM pg_class c WHERE c.relnamespace = 'stator'::regnamespace"
    " AND c.relkind IN ('r', 'p') AND c.relname <> 'schema'"
    " AND NOT (c.relrowsecurity AND c.relforcerowsecurity) ORDER BY 1"
)
DEAD = (
    "SELECT count(*) FROM stator.process p WHERE p.t = %(t)s"
    " AND NOT EXISTS (SELECT 1 FROM stator.session x WHERE x.t = p.t AND x.process = p.id)"
)


class ServerState(msgspec.Struct, frozen=True, kw_only=True):
    """What a server said of itself."""

    role: str = ""
    is_super: bool = False
    bypasses: bool = False
    owns: bool = False
    skew: int = 0
    """Microseconds that its clock is ahead of this machine's, beyond what the round trip may explain."""
    commit: str = "on"
    standbys: str = ""
    fsync: bool = True
    name: str = ""
    version: int = OLDEST * 10000
    pooled: bool = False
    """Whether something answers in the place of the server: the process that greeted is not the one that works."""
    unforced: list[str] = []
    dead: int = 0

    @property
    def about(self) -> str:
        """The server, and what `full` means on it, in a line."""
        pool = "through a pooler (transaction mode works), " if self.pooled else ""
        return f"PostgreSQL {self.name}, {pool}role {self.role}, full: {self.full}"

    @property
    def full(self) -> str:
        """What a commit waits for with the durability `full`; a weaker `synchronous_commit` is raised to `on`."""
        if not self.standbys:
            return "on the server's disk, no standby is waited for"
        done = "applied" if self.commit == "remote_apply" else "on disk"
        return f"on the server's disk, and {done} on standbys ({self.standbys})"


class ServerChecks(msgspec.Struct, frozen=True):
    """The server in a line, and what was found."""

    about: str
    findings: list[Finding]


def checked(connections: Connections, clock: Callable[[], int]) -> ServerChecks:
    seen = state_of(connections, clock)
    return ServerChecks(seen.about, list(findings(seen)))


def state_of(connections: Connections, clock: Callable[[], int]) -> ServerState:
    """Ask the server, on a connection of its own."""
    link = connections.open()
    with link, translated(link):
        before = clock()
        row: Any = link.execute(STATE).fetchone()
        after = clock()
        *said, there, pid, name = row
        return ServerState(
            **dict(zip(SAID, said, strict=True)),
            skew=there - after if there > after else min(0, there - before),
            name=name.split()[0],
            version=link.info.server_version,
            pooled=link.info.backend_pid != pid,
            unforced=[table for (table,) in link.execute(UNFORCED)],
            dead=_dead(link, connections),
        )


def _dead(link: Link, connections: Connections) -> int:
    link.execute(READ)
    link.execute(SQL["settings"], connections.settings)
    (found,) = link.execute(DEAD, connections.always).fetchall()
    link.execute("COMMIT")
    return int(found[0])


def findings(seen: ServerState) -> Iterator[Finding]:
    """What is to be done about a server; nothing where all is well."""
    if seen.version < OLDEST * 10000:
        what = f"PostgreSQL {seen.name} is older than {OLDEST}"
        yield _finding("error", what, "server", "use a newer server")
    if not seen.fsync:
        what = "fsync is off: a power cut of the server may lose or damage everything"
        yield _finding("warning", what, "durability", "set fsync = on, unless this is a test")
    yield from _of_role(seen)
    yield from _of_tables(seen)
    if abs(seen.skew) > SKEW_US:
        side = "ahead of" if seen.skew > 0 else "behind"
        what = f"the server's clock is {abs(seen.skew) / 1e6:.1f} s {side} this machine's"
        hint = "set both by NTP; times of commits are those of the machine that wrote them"
        yield _finding("warning", what, "clock", hint)


def _of_tables(seen: ServerState) -> Iterator[Finding]:
    if seen.unforced:
        change = f"ALTER TABLE stator.{seen.unforced[0]} ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY"
        what = f"row-level security is not enabled and forced on {', '.join(seen.unforced)}"
        hint = f"as the owner, for each: {change}"
        yield _finding("error", what, "row-level security", hint)
    if seen.dead > DEAD_MAX:
        what = f"{seen.dead:,} rows of processes that drive nothing, most of them killed"
        hint = "they do no harm; stator doctor --rebuild deletes them"
        yield _finding("note", what, "processes", hint)


def _of_role(seen: ServerState) -> Iterator[Finding]:
    if seen.is_super or seen.bypasses:
        why = "is a superuser" if seen.is_super else "has BYPASSRLS"
        what = f"role {seen.role} {why}: row-level security does not bind it"
        yield _finding("warning", what, "role", ROLE)
    elif seen.owns:
        what = (
            f"role {seen.role} owns the tables: it can turn row-level security off, and drop them"
        )
        yield _finding("warning", what, "role", ROLE)


def _finding(severity: str, what: str, check: str, hint: str) -> Finding:
    return Finding(what=what, check=check, hint=hint, severity=severity)
