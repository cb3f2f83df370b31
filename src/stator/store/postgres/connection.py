"""Connections to the server, and how statements are sent over them: in pipelines, each pipeline one round trip.

Nothing is left on a connection between transactions, so that a transaction pooler may be used: the tenant
and the durability are set inside each transaction, and statements are prepared only where there is none (`wire`).
What the driver raises becomes an error of ours here: where no answer came, `StoreUnreachable`.
"""

from __future__ import annotations

import logging
import os
import select
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import msgspec
import psycopg
from psycopg import conninfo
from psycopg import errors as pg

from stator.errors import (
    NotAStore,
    StatorError,
    StoreBusy,
    StoreFailed,
    StoreFull,
    StoreUnreachable,
    WrongProcess,
)
from stator.store.postgres.patience import ANSWER_S, LONG_S
from stator.store.postgres.wire import NOT_PREPARED, Link, exchange
from stator.store.sql import statements

SQL = statements("postgres.sql")
IDLE_MAX = 8
"""Connections that are kept open without being used."""
USED_MAX = 16
FREE_S = 1.0
"""How many are used at a time, and how long a thread waits for one that others use before it opens one more all the
same: a thread that reads a log over one connection may need another to go on."""
TRIES_MAX = 10
"""How often a transaction is begun again that the server could not serialize with others."""
CONNECT_S = 10
KEEPALIVES = {
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "20000",
}
"""How soon a network that was cut is noticed, unless the URL says otherwise."""
UNACKNOWLEDGED = "01000"
"""The SQLSTATE with which the server says, in its own language, that a commit is not known to be on its standby: the
wait for it was cancelled. It is a warning there, and no answer here. No statement of ours warns of anything else."""
READ = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
WRITE = "BEGIN ISOLATION LEVEL READ COMMITTED"

Rows = list[tuple[Any, ...]]
Result = TypeVar("Result")
# The driver logs what it could not send on a connection that broke; without this, Python prints it for programs that
# do not log. What broke is raised.
logging.getLogger("psycopg").addHandler(logging.NullHandler())


class Statement(msgspec.Struct, frozen=True):
    """A named statement of `postgres.sql`, and what it is given."""

    name: str
    values: Mapping[str, Any] = {}

    @property
    def text(self) -> str:
        return SQL[self.name]


class SerializeAgain(Exception):
    """The transaction was refused for what others did at the same time; it can be begun again."""


class Transaction:
    """A transaction on one connection; `ask` sends statements in one round trip."""

    def __init__(self, connections: Connections, link: Link, begin: str) -> None:
        self._connections = connections
        self._link = link
        self._how = begin
        self._begun = False
        self.durable = True
        """Whether its commit waits for the disk."""

    def ask(self, *asked: Statement, commit: bool = False) -> list[Rows]:
        """The rows of each statement. The transaction begins with the first, and ends with `commit`; then another
        may begin."""
        texts: list[tuple[str, Mapping[str, Any] | None]] = []
        if not self._begun:
            texts += [(self._how, None), (SQL["settings"], self._connections.settings)]
        self._begun = not commit
        skip = len(texts)
        texts += [(one.text, {**self._connections.always, **one.values}) for one in asked]
        if commit:
            if not self.durable:
                texts.append((SQL["not_durable"], None))
            texts.append(("COMMIT", None))
        found = self._connections.send(self._link, texts)
        if skip:
            self._link.answered_by(found[1][0][2])
        return found[skip : skip + len(asked)]

    def be_patient(self) -> None:
        """What follows is work on a whole session, which may take the server long."""
        self._link.patience_s = LONG_S

    def one(self, name: str, **values: Any) -> tuple[Any, ...] | None:
        """The first row of a statement."""
        (rows,) = self.ask(Statement(name, values))
        return rows[0] if rows else None

    def many(self, name: str, **values: Any) -> Rows:
        (rows,) = self.ask(Statement(name, values))
        return rows


class Connections:
    """The connections of one store object."""

    def __init__(self, url: str, *, writes: bool = True) -> None:
        """`writes`: of several servers in the URL, only one that takes writes will do."""
        self.url = url
        self._writes = writes
        self.settings: dict[str, Any] = {"tenant": "", "t": ""}
        """What each transaction sets first: whose rows it sees."""
        self.always: dict[str, Any] = {"t": 0}
        self.trips = 0
        """Round trips so far, for tests that count them."""
        self._idle: list[Link] = []
        self._used = 0
        self._free = threading.Condition(threading.Lock())
        self._pid = os.getpid()
        self._closed = False

    @property
    def closed(self) -> bool:
        return self._closed

    @property
    def is_ours(self) -> bool:
        """Whether this process opened it, and not the one it was forked from."""
        return self._pid == os.getpid()

    def check(self) -> None:
        if self._closed:
            raise WrongProcess("this store is closed", hint="connect again")
        if self._pid != os.getpid():
            raise WrongProcess(
                "this store was opened before a fork", hint="connect in the child process"
            )

    def close(self) -> None:
        if self._pid != os.getpid():  # a thread of the parent may have held the lock at the fork
            self._closed = True
            return
        with self._free:
            self._closed = True
            self._drop_idle()

    def _drop_idle(self) -> None:
        while self._idle:
            self._idle.pop().close()

    # -- transactions -----------------------------------------------------------------------------

    def read(self, *asked: Statement, patience_s: float = ANSWER_S) -> list[Rows]:
        """Statements in one snapshot and one round trip."""
        with self.transaction(READ, patience_s=patience_s) as db:
            return db.ask(*asked, commit=True)

    def write(
        self, work: Callable[[Transaction], Result], *, patience_s: float = ANSWER_S
    ) -> Result:
        """Run a transaction, again where the server asks for it. `work` commits with its last statements."""
        met: SerializeAgain | None = None
        for _ in range(TRIES_MAX):
            try:
                with self.transaction(WRITE, patience_s=patience_s) as db:
                    return work(db)
            except SerializeAgain as error:
                met = error
        raise StoreBusy(
            f"gave up after {TRIES_MAX} transactions that met others", hint="try again"
        ) from met

    @contextmanager
    def transaction(self, begin: str, *, patience_s: float = ANSWER_S) -> Iterator[Transaction]:
        """A transaction; what was not committed at its end is undone."""
        link = self._take()
        link.patience_s = patience_s
        try:
            yield Transaction(self, link, begin)
        except BaseException as error:
            self._undo(link)
            if isinstance(error, SerializeAgain) and begin == READ:
                # A standby that replays a change can no longer show the snapshot: who asks again gets a newer one.
                raise StoreUnreachable(
                    f"the server let a read go: {error}", landed="nothing"
                ) from error
            raise
        finally:
            self._give_back(link)

    def _undo(self, link: Link) -> None:
        status = link.info.transaction_status
        if link.closed or status == psycopg.pq.TransactionStatus.IDLE:
            return
        self.trips += 1
        try:
            link.execute("ROLLBACK")
        except psycopg.Error:
            link.close()

    def _take(self) -> Link:
        self.check()
        with self._free:
            self._free.wait_for(lambda: self._used < USED_MAX, FREE_S)
            self._used += 1
            while self._idle:
                link = self._idle.pop()
                if _is_quiet(link):
                    return link
                link.close()
        try:
            return self.open()
        except BaseException:
            self._no_longer_used()
            raise

    def _no_longer_used(self) -> None:
        with self._free:
            self._used -= 1
            self._free.notify()

    def open(self) -> Link:
        """A new connection."""
        try:
            link = Link.connect(
                conninfo.make_conninfo(self.url, **_unsaid(self.url, writes=self._writes)),
                client_encoding="utf8",
                autocommit=True,
                prepare_threshold=None,
            )
        except psycopg.OperationalError as error:
            refused = _refused(error)
            raise refused from (None if isinstance(refused, NotAStore) else error)
        except (psycopg.Error, ValueError):
            raise _unreadable() from None  # what the driver says may quote a password
        link.add_notice_handler(lambda notice: _note(link, notice))
        return link

    def _give_back(self, link: Link) -> None:
        with self._free:
            if link.closed:  # it broke, or led to a server that takes no writes: so will the others
                self._drop_idle()
            elif (
                self._closed
                or len(self._idle) >= IDLE_MAX
                or link.info.transaction_status != psycopg.pq.TransactionStatus.IDLE
            ):
                link.close()
            else:
                self._idle.append(link)
        self._no_longer_used()

    def send(self, link: Link, texts: Sequence[tuple[str, Mapping[str, Any] | None]]) -> list[Rows]:
        """Send everything, then read everything: one round trip."""
        self.trips += 1
        link.warned = ""
        with translated(link):
            found = exchange(link, texts)
        if link.warned:
            raise StoreUnreachable(f"the standby did not acknowledge: {link.warned}")
        return found


@contextmanager
def translated(link: Link) -> Iterator[None]:
    """What the driver raises inside is raised as an error of ours."""
    try:
        yield
    except psycopg.Error as error:
        unsaid = isinstance(error, psycopg.OperationalError) and error.sqlstate is None
        if link.closed or link.broken or unsaid:  # the driver's word, not the server's
            link.close()
            raise lost(error) from error
        if isinstance(error, pg.ReadOnlySqlTransaction):
            link.close()  # it leads to a server that is a standby now
        raise _ours(error) from error


def _is_quiet(link: Link) -> bool:
    """Whether nobody closed a connection while it was idle. A server that ends says so, or the kernel does for it."""
    if link.closed:
        return False
    watched = select.poll()
    watched.register(link.fileno(), select.POLLIN)
    return not watched.poll(0)


def _note(link: Link, notice: psycopg.errors.Diagnostic) -> None:
    if notice.sqlstate == UNACKNOWLEDGED:
        link.warned = notice.message_primary or "a wait was cancelled"


def _unsaid(url: str, *, writes: bool) -> dict[str, str]:
    """What a connection is opened with where the URL does not say it."""
    said = conninfo.conninfo_to_dict(url)
    if set(str(said.get("port", ""))) - set("0123456789,"):
        raise ValueError("a port is a number")  # most likely a password with a slash in it
    wanted = {"application_name": "stator", "connect_timeout": str(CONNECT_S), **KEEPALIVES}
    if writes and "," in f"{said.get('host') or ''}{said.get('hostaddr') or ''}":
        wanted["target_session_attrs"] = (
            "read-write"  # else a standby that is named first is asked for ever
        )
    return {name: value for name, value in wanted.items() if name not in said}


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())[:300]


def lost(error: psycopg.Error) -> StoreUnreachable:
    """The error for an answer that did not come."""
    return StoreUnreachable(f"no answer from the server: {_line(error)}")


def _refused(error: psycopg.OperationalError) -> StatorError:
    """Why no connection was made. A server that answers no is not one that does not answer."""
    state = error.sqlstate or ""
    text = _line(error)
    if "connection option" in text:
        return _unreadable()
    if (
        state.startswith(("28", "3D"))
        or "authentication failed" in text
        or "does not exist" in text
    ):
        return NotAStore(f"the server refuses this connection: {text}")
    return StoreUnreachable(f"cannot be reached: {text}", landed="nothing")


def _unreadable() -> NotAStore:
    return NotAStore(
        "libpq cannot read this URL",
        hint="write / @ : ? # & and % in names and passwords as percent codes; / is %2F",
    )


UNANSWERED = (
    pg.AdminShutdown,
    pg.CrashShutdown,
    pg.CannotConnectNow,
    pg.IdleInTransactionSessionTimeout,
)


def _ours(error: psycopg.Error) -> Exception:
    """An error of the server as one of ours."""
    if isinstance(error, (pg.SerializationFailure, pg.DeadlockDetected, *NOT_PREPARED)):
        return SerializeAgain(_line(error))
    if isinstance(error, pg.UniqueViolation):
        return Taken(error.diag.constraint_name or "")
    if isinstance(error, UNANSWERED) or (error.sqlstate or "").startswith("08"):
        return lost(error)
    if isinstance(error, pg.ReadOnlySqlTransaction):
        # Another server may have taken over; the next connection finds it.
        return StoreUnreachable(f"the server is read-only: {_line(error)}", landed="nothing")
    if isinstance(error, (pg.DiskFull, pg.OutOfMemory)):
        return StoreFull(f"the server has no room: {_line(error)}")
    if isinstance(error, (pg.UndefinedTable, pg.InvalidSchemaName)):
        return NotPrepared(_line(error))
    if isinstance(error, pg.InsufficientPrivilege):
        return NotAllowed(
            f"this role may not do that: {_line(error)}", hint="see docs/guides/postgres.md, roles"
        )
    return StoreFailed(f"the server refused a statement: {_line(error)}")


class Taken(Exception):
    """A unique key is there already; `key` is the name of its index."""

    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key


class NotAllowed(NotAStore):
    """The role may not do what was asked."""


class NotPrepared(StoreFailed):
    """The database holds no tables of ours yet."""
