"""The composition root: from a URL to a store, with a real clock, real ids and what the environment
says.

The only place besides the surfaces that reads the environment, and the only one that names a
concrete store.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import msgspec

from stator import extensions, machine
from stator.errors import (
    InvalidInput,
    NotAStore,
    NotFound,
    StatorError,
    StoreError,
)
from stator.homes import homes, project_in
from stator.index_files import path_of_store, project_index, remote_folder, search_index
from stator.locations import (
    ELSEWHERE,
    SERVERS,
    nearest,
    path_of,
    scheme_of,
    server_address,
    server_spool_of,
    spools_of,
    users,
    waits,
    without_secrets,
)
from stator.locations import FILE as FILE
from stator.locations import FOLDER as FOLDER
from stator.machine import mint as mint
from stator.model.log.commit import Draft
from stator.model.log.query import Finding, SessionRow, VerifyReport
from stator.model.sessions.ownership import OWN, Ownership
from stator.owner import projects
from stator.owner import stores as owners
from stator.owner.approver import KnownApprovers
from stator.owner.policy_file import policy_text
from stator.owner.project_folder import prepare_folder
from stator.owner.server_file import own_server_in
from stator.runtime.base.context import Context
from stator.store import port
from stator.store.kept_stores import KeptStores, file_in_place

if TYPE_CHECKING:
    from stator.hooks.ingest import IngestLimits, IngestResult
    from stator.runtime.facade.session import Session
    from stator.runtime.facade.store import Store
    from stator.runtime.views.as_read import OpenStore
    from stator.store.postgres import ServerSetup

USERS = "user data folder"
NEAREST = f"nearest {FOLDER} folder"
NAMED_THERE = f"named in the {NEAREST}"
MEMORY = ("memory:", ":memory:")
DURABILITIES = ("full", "barrier", "relaxed")


class StorePlace(msgspec.Struct, frozen=True):
    """The location of a store, and why it was chosen."""

    url: str
    why: str

    @property
    def shown(self) -> str:
        """The URL without a password: the only form that is printed."""
        return without_secrets(self.url)


def connect(
    url: str | os.PathLike[str] | StorePlace | None = None,
    *,
    durability: port.Durability = "full",
    create: bool = True,
    read_only: bool = False,
    redact: bool = True,
    project: str | None = None,
    trust: bool = False,
    tenant: str | None = None,
) -> Store:
    """Open a store, creating it if it is not there.

    `url` is a path, `sqlite:///path`, `memory:`, `postgresql://…`, or a URL that another package opens;
    without one: `$STATOR_STORE`, the nearest `.stator/store.db` upward, the user's data folder.

    `durability`: "full" loses nothing acknowledged, ever; "barrier" may lose to a power cut (not to a kill) the
    commits after the last write or turn end; "relaxed" may lose the newest commits to a power cut.

    A store that this user neither made nor trusted is foreign: it can be read, its grants answer nothing, and a
    program that did not name it cannot drive it. `trust` says that it is the user's own, for this connection.

    `tenant`: nothing is read, named or written outside of it; a session of another tenant looks like one that is not
    there. Without one, a file shows all there is. A store on a server requires it (or `$STATOR_TENANT`).
    """
    if durability not in DURABILITIES:
        raise InvalidInput(
            f"unknown durability {durability!r:.40}", hint="full, barrier or relaxed"
        )
    place = locate(url)
    if create and not read_only:
        _make_folder(place)
    store = _open(
        place.url, durability, create=create, read_only=read_only, redact=redact, tenant=tenant
    )
    return _ready(store, place, project=project, trust=trust, read_only=read_only)


def _make_folder(place: StorePlace) -> None:
    if place.why == USERS:
        os.makedirs(os.path.dirname(place.url), mode=0o700, exist_ok=True)


def _ready(
    store: port.StorePort,
    place: StorePlace,
    *,
    project: str | None = None,
    trust: bool = False,
    read_only: bool = False,
) -> Store:
    """A store that was opened, for a program: whose it is, what hooks queued for it, and where the program runs."""
    from stator.runtime.facade.store import Store

    store.ownership = _ownership(store, place, trust=trust)
    if not read_only:
        for folder in spools(store):
            if waits(folder):
                _take_quietly(store, folder)
    return Store(store, context(project=project, store=store))


def spools(store: port.StorePort) -> list[str]:
    """The folders in which hooks queue for a store: beside it, and where they did while it was foreign. None of a
    store that still is: what is queued there waits until the user trusts it."""
    if queue := getattr(store, "spool", ""):
        return [queue]
    path = path_of_store(store)
    return spools_of(path, os.environ) if path and not store.ownership.foreign else []


def _ownership(store: port.StorePort, place: StorePlace, *, trust: bool = False) -> Ownership:
    """What this user is to a store; one in memory is this process's own."""
    if place.url in MEMORY:
        return OWN
    return owners.ownership(
        os.environ, path_of(place.url), store.info().id, was_found=place.why == NEAREST, trust=trust
    )


def trust_store(store: Store, *, old_grants: bool) -> None:
    """Write a store down as this user's own; `old_grants`: with the grants that releases up to 0.6 recorded."""
    owners.trust_store(
        os.environ, store.port.ownership.path, store.info().id, old_grants=old_grants
    )
    _look_again(store)


def withdraw_trust(store: Store) -> None:
    """Take a store off the list of this user's own."""
    info = store.info()
    owners.withdraw_trust(os.environ, path_of(info.url), info.id)
    _look_again(store)


def _look_again(store: Store) -> None:
    """Ask again what this user is to a store that is open."""
    known = store.port.ownership
    place = StorePlace(known.path, NEAREST if known.was_found else "as given")
    store.port.ownership = _ownership(store.port, place)


def _take_quietly(store: port.StorePort, folder: str) -> None:
    """Import a hook queue. A failure does not keep the store from opening; `stator doctor` says what is left."""
    try:
        take_spool(store, folder)
    except Exception as error:
        warnings.warn(
            f"what hooks left in {folder} was not taken in: {error}", RuntimeWarning, stacklevel=3
        )


def catch_up(store: Store, *, held: bool = True) -> None:
    """Import what hooks queued since a store was opened. `held`: also look again at what waits for its place; without
    it only if nothing more is expected of its session."""
    waiting = [
        folder
        for folder in spools(store.port)
        if waits(folder, held=held) or (waits(folder) and _can_land(store.port, folder))
    ]
    if waiting and store.info().read_only:  # a store that is opened to write imports them
        with contextlib.suppress(StatorError):
            url = getattr(store.port, "address", "") or path_of_store(store.port)
            connect(url, create=False).close()
        return
    for folder in waiting:
        _take_quietly(store.port, folder)


def _can_land(store: port.StorePort, folder: str) -> bool:
    """Whether lines wait there of a session that is at rest: then they wait for nothing any more."""
    from stator.hooks import witnesses

    for session in witnesses.held_sessions(folder):
        with contextlib.suppress(NotFound):  # it is a sub-agent that has no session yet
            if _at_rest(store, store.session(session)):
                return True
    return False


def advance(store: port.StorePort, session: str, result: IngestResult | None = None) -> bool:
    """Read the transcript of a recorded session as far as it is written; return False if none is known."""
    from stator.hooks import ingest

    return ingest.advance(store, worlds(store), session, folders=spools(store), result=result)


def _at_rest(store: port.StorePort, row: SessionRow) -> bool:
    from stator.hooks.at_rest import at_rest

    return at_rest(store, row, now())


def _started(store: port.StorePort, row: SessionRow) -> int:
    from stator.hooks.at_rest import started

    return started(store, row)


def _unplaced(store: port.StorePort, row: SessionRow) -> list[Draft]:
    from stator.hooks import unplaced

    if store.ownership.foreign:  # its bookmarks may name any file of this user
        return []
    return unplaced.unplaced(store, worlds(store), spools(store), row)


def verify_damaged(url: str, refused: StoreError) -> VerifyReport:
    """What can be read of a store that `connect` has refused; raises that refusal again if it is nothing."""
    from stator.runtime.views.verify import examine
    from stator.store.sqlite import SqliteStore

    if scheme_of(url):
        raise refused
    try:
        with SqliteStore(path_of(url), damaged=True) as store:
            report = examine(store)
    except StoreError:
        raise refused from None
    if not report.commits:
        raise refused
    finding = Finding(what=refused.what, check="store", hint=refused.hint)
    return msgspec.structs.replace(report, damages=[*report.damages, finding])


def connect_as_is(place: StorePlace, *, create: bool = False, start: str | None = None) -> Store:
    """Open a store without importing its hook queue; `start` is the folder the search begins in."""
    from stator.runtime.facade.store import Store

    opened = open_as_is(place, create=create, start=start)
    return Store(opened.port, opened.context)


def open_as_is(place: StorePlace, *, create: bool = False, start: str | None = None) -> OpenStore:
    """The same, without the methods for programs, which take time to load."""
    from stator.runtime.views.as_read import OpenStore

    store = _open(place.url, "full", create=create, read_only=False, redact=True)
    store.ownership = _ownership(store, place)
    return OpenStore(store, context(start=None if start is None else Path(start), store=store))


def take_spools(store: port.StorePort, *, limits: IngestLimits | None = None) -> IngestResult:
    """Import what hooks queued for a store, each conversation into its project."""
    from stator.hooks import ingest

    result = ingest.IngestResult()
    for folder in spools(store):
        take_spool(store, folder, limits=limits, result=result)
    return result


def take_spool(
    store: port.StorePort,
    folder: str,
    *,
    limits: IngestLimits | None = None,
    result: IngestResult | None = None,
) -> IngestResult:
    """Import the hook queue of a folder; what was done is added to `result`."""
    from stator.hooks import ingest

    return ingest.ingest(
        store, worlds(store), folder, limits=limits or ingest.NO_LIMITS, result=result
    )


def worlds(store: port.StorePort) -> Callable[[str], Context]:
    """The context of a folder (clock, ids, project, policy), determined once per folder."""
    return functools.cache(
        lambda cwd: context(start=Path(cwd) if os.path.isabs(cwd) else None, store=store)
    )


def open(
    name: str | None = None, *, store: str | os.PathLike[str] | None = None, **options: Any
) -> Session[Any]:
    """`connect().open(name)`: create or resume a session in the default store, and drive it.

    Without a name it is the session that `$STATOR_SESSION` names, as in a program that `stator run` started. An
    id finds its session from any folder.
    """
    wanted = os.environ.get("STATOR_SESSION", "") if name is None else name
    if name is None and not wanted:
        raise InvalidInput(
            "a session needs a name", hint="give one, or set STATOR_SESSION", path="$.name"
        )
    return _connect_kept(locate(store)).open(wanted, **options)


_kept = KeptStores()


def _connect_kept(place: StorePlace) -> Store:
    """`connect`, with the connection that this process has to the same store; a store in memory is a new one each
    time, and what another package opens is its own affair."""
    _make_folder(place)
    how: dict[str, Any] = {"create": True, "read_only": False, "redact": True}
    scheme, make = scheme_of(place.url), functools.partial(_open, place.url, "full", **how)
    if place.url in MEMORY or (scheme and scheme not in SERVERS):
        return _ready(make(), place)
    server = place.url, os.environ.get("STATOR_TENANT")
    path = path_of(place.url)
    # A foreign store that a program named can be driven, and one that was found cannot: they share no connection.
    which = lambda: (place.why == NEAREST, server if scheme else file_in_place(path))  # noqa: E731
    return _ready(_kept.get(which, make), place)


def _open(
    url: str,
    durability: port.Durability,
    *,
    create: bool,
    read_only: bool,
    redact: bool,
    tenant: str | None = None,
) -> port.StorePort:
    """The store of a URL, as the tenant sees it if one is named."""
    how: dict[str, Any] = {"create": create, "read_only": read_only, "redact": redact}
    store: port.StorePort
    if url in MEMORY:
        from stator.store.memory import MemoryStore

        store = MemoryStore(redact=redact)
    elif (scheme := scheme_of(url)) in SERVERS:
        return _open_postgres(url, durability=durability, tenant=tenant, **how)
    elif scheme:
        opener = extensions.store_opener(scheme, elsewhere=ELSEWHERE)
        if tenant is not None and extensions.takes(opener, "tenant"):
            how["tenant"] = tenant
        store = opener(url, durability=durability, **how)
    else:
        store = _open_sqlite(path_of(url), durability, **how)
    if tenant is None:
        if getattr(store, "needs_tenant", False):
            store.close()
            raise InvalidInput(
                f"{url!r:.200} holds the sessions of several tenants",
                hint="name yours: connect(url, tenant=…)",
                path="$.tenant",
            )
        return store
    from stator.store.one_tenant import one_tenant

    return one_tenant(store, tenant)


def _open_postgres(url: str, *, tenant: str | None, **how: Any) -> port.StorePort:
    from stator.runtime.base.asking_again import reached
    from stator.store import postgres

    tenant = tenant or (None if "tenant=" in url else os.environ.get("STATOR_TENANT"))
    open_it = functools.partial(postgres.open_store, url, tenant=tenant, **how)
    wait = postgres.names_several_hosts(url)  # one of them may be taking over
    store = reached(open_it, time.monotonic, time.sleep) if wait else open_it()
    store.address = server_address(url, tenant)
    store.holds_password = store.address != without_secrets(store.address)
    store.spool = server_spool_of(store.address, os.environ) or ""
    store.index_path = remote_folder(users(os.environ), store.info().id)
    return store


def set_up_server(url: str, *, application: str = "") -> ServerSetup:
    """Make the tables and the tenant of a PostgreSQL store; `application` names a role that may then use them."""
    from stator.store import postgres

    tenant = None if "tenant=" in url else os.environ.get("STATOR_TENANT")
    return postgres.set_up(url, tenant=tenant, application=application)


def _open_sqlite(
    path: str, durability: port.Durability, *, create: bool, read_only: bool, redact: bool
) -> port.StorePort:
    from stator.store import sqlite

    if create and not read_only and path and not os.path.lexists(path):
        folder = os.path.dirname(path)
        if folder and os.path.basename(folder) == FOLDER:
            prepare_folder(folder)
        if "\0" not in path:  # such a path is refused by `create`
            owners.check_place(os.environ, path)
        sqlite.create(path, owners.announced(os.environ, path))
    return sqlite.SqliteStore(path, durability=durability, read_only=read_only, redact=redact)


@contextmanager
def user_store(store: port.StorePort, create: bool) -> Iterator[port.StorePort | None]:
    """The store in the user's data folder, where what is true of the user is kept; None if it is not there. Each tenant
    has its own part of it."""
    try:
        path = user_folder() / FILE
    except NotAStore:
        if create:
            raise
        yield None
        return
    if os.path.realpath(path) == os.path.realpath(path_of_store(store) or os.devnull):
        yield store
        return
    if not create and not path.exists():
        yield None
        return
    os.makedirs(path.parent, mode=0o700, exist_ok=True)
    from stator.store.one_tenant import one_tenant

    with connect_as_is(StorePlace(str(path), USERS), create=create) as opened:
        yield one_tenant(opened.port, getattr(store, "tenant", None))


def locate(
    url: str | os.PathLike[str] | StorePlace | None = None, environ: dict[str, str] | None = None
) -> StorePlace:
    """Choose the store: argument, `$STATOR_STORE`, nearest `.stator`, user data folder. A place that was chosen
    before is kept, with what is known of how it was chosen."""
    given = os.environ if environ is None else environ
    if isinstance(url, StorePlace):
        return url
    if url is not None:
        if not os.fspath(url):
            raise NotAStore("a store needs a path, got an empty one", hint="for example: stator.db")
        return StorePlace(os.fspath(url), "as given")
    if named := given.get("STATOR_STORE"):
        return StorePlace(named, "$STATOR_STORE")
    nearest = nearest_folder()
    if nearest is not None:
        return _place_in(nearest, given)
    return StorePlace(str(user_folder(given) / FILE), USERS)


def _place_in(folder: Path, environ: Mapping[str, str]) -> StorePlace:
    """The store of a project's folder."""
    if server := own_server_in(environ, str(folder)):
        return StorePlace(server, NAMED_THERE)
    return StorePlace(str(folder / FILE), NEAREST)


def nearest_folder(start: Path | None = None) -> Path | None:
    """The nearest `.stator` folder upward that holds a store."""
    found = nearest(str(start or Path.cwd()))
    return None if found is None else Path(found)


def user_folder(environ: Any = None) -> Path:
    """The path of a user's own store."""
    given = os.environ if environ is None else environ
    found = users(given)
    if found is not None:
        return Path(found)
    raise NotAStore(
        "no store was named, and there is no home folder for the default store",
        hint="set STATOR_STORE, or run stator init in the project",
    )


def known_stores() -> list[StorePlace]:
    """Other stores near this folder, for messages about an empty result."""
    places: list[StorePlace] = []
    nearest = nearest_folder()
    if nearest is not None:
        with contextlib.suppress(NotAStore):
            places.append(_place_in(nearest, os.environ))
    with contextlib.suppress(NotAStore):
        if (own := user_folder() / FILE).exists():
            places.append(StorePlace(str(own), USERS))
    return places


def project_root(start: Path | None = None) -> Path:
    """The folder of a project: the checkout of a repository, or where `.stator` is, else the working folder."""
    return projects.project_root(start or Path.cwd())


def project_id(root: Path, store: port.StorePort) -> str:
    """The id that the project in a folder has in a store: the one that `init` wrote, else the repository's, else
    the folder."""
    return project_in(os.environ, root, store).id


def context(
    *,
    project: str | None = None,
    start: Path | None = None,
    store: port.StorePort | None = None,
) -> Context:
    """The context of this process: clock, ids and user; `start` is the folder in which it looks for the project."""
    root = project_root(start)
    known = project_in(os.environ, root, store)
    return Context(
        clock=now,
        mint=mint,
        secret=os.urandom,
        sleep=time.sleep,
        monotonic=time.monotonic,
        jitter=machine.jitter,
        host=os.uname().nodename,
        pid=os.getpid(),
        program=os.path.basename(sys.argv[0] or "python") if sys.argv else "python",
        principal=f"local:{machine.user()}",
        project=known.id if project is None else project,
        root=str(root),
        policy=lambda: policy_text(root),
        policy_is_own=known.is_own,
        call=os.environ.get("STATOR_CALL", ""),
        is_joined=known.is_joined and project is None,
        home_of=functools.cache(homes(os.environ, store, str(root), project)),
        folder_of=functools.cache(functools.partial(projects.folder_of, os.environ)),
        instructions=lambda: _instructions(str(root)),
        launch=machine.launch(os.environ),
        index=search_index,
        project_index=project_index,
        user_store=user_store,
        approvers=KnownApprovers(os.environ),
        below=lambda store: machine.below(store, os.environ),
        started_by=machine.started_by,
        boot=machine.boot,
        process=machine.process,
        is_gone=machine.is_gone,
        at_rest=_at_rest,
        started=_started,
        touch_folder=lambda store: next(iter(spools(store)), ""),
        unplaced=_unplaced,
    )


def _instructions(root: str) -> list[str]:
    from stator.instruction_files import instructions

    return instructions(root, os.environ)


def now() -> int:
    """µs since 1970."""
    return time.time_ns() // 1000


class _Callable(ModuleType):
    """This module, called, is `connect`.

    Importing a submodule binds it in its package: once anything had imported `stator.connect` (`stator.open`
    does), the public function of that name would be hidden by its own module.
    """

    def __call__(self, *args: Any, **options: Any) -> Store:
        return connect(*args, **options)


sys.modules[__name__].__class__ = _Callable
