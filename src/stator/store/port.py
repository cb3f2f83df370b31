"""The port: everything a store must do. Docstrings are the contract; `store.contract` tests it.

Synchronous: one method, one transaction. A method that raises has changed nothing, unless it says otherwise.
One exception cannot say so: `StoreUnreachable`, which a store at a distance raises where no answer came. What
was sent may or may not have landed, all of it or none, now or later; *the same ids show it*. So every write can
be asked again: `append` with the same drafts (without `fresh`), `create` with the same session, `ingest` with
the same commits, `release` of the same lease; an `acquire` whose answer was lost shows in the row's holder.
Asking again after it landed is answered as if it had been asked once, before anything else is checked: the
lease, the lifecycle, `if_head`. A store at a distance says so (`remote`), and the runtime then asks again for
a bounded time (`runtime.base.asking_again`); `store.contract.distance` has a store that loses answers. No
method reads the environment, prints, or decides policy: redaction, reduction and hashing are
`model.log.seal`, which every store calls inside its append transaction.

Positions are seqs. A session's log is the log of its lineage up to the fork and its own after it;
every method that takes a session and a range of seqs reads across that border without the caller
noticing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol

from stator.model.exchange.bookmark import Bookmark
from stator.model.exchange.packed import Packed
from stator.model.log.commit import Commit, Draft
from stator.model.log.delta import Op, Version
from stator.model.log.query import (
    CallQuery,
    CallRow,
    Finding,
    Head,
    Holder,
    KeyTouch,
    Lease,
    Page,
    Read,
    SessionQuery,
    SessionRow,
    StoreInfo,
    TurnRow,
    UsageBy,
)
from stator.model.records.types import Entry
from stator.model.sessions.ownership import Ownership
from stator.model.views.sql_views import AS_IS, Shown

if TYPE_CHECKING:  # loaded only by `verify`, for searches and for projects
    from stator.model.log.log_walk import SessionLog
    from stator.model.views.knowledge import SessionKnowledge
    from stator.model.views.project_state import HeldKey, KnownSession, Learned, SessionAbout
    from stator.model.views.search import Advance, Mark, SearchQuery
    from stator.model.views.untrusted import SessionTaint

Durability = Literal["full", "barrier", "relaxed"]


class StorePort(Protocol):
    """A database of sessions."""

    ownership: Ownership
    """What this user is to the store; `connect` sets it. A store object that is used by itself is its user's own."""

    remote: bool
    """Whether it is asked over a wire, where an answer can be lost (`StoreUnreachable`)."""

    needs_tenant: bool
    """Whether it can be used only as one tenant, as a server is: `connect` then requires `tenant=`."""

    wrote: Callable[[], object]
    """Called after every write of this store object that was acknowledged, so that who watches the store in this
    process need not wait for its next look. The runtime sets it; a store begins with one that does nothing."""

    def info(self) -> StoreInfo:
        """What and where this store is. Never touches the log."""
        ...

    def close(self) -> None:
        """Give everything back. Idempotent; leases this store object holds are released."""
        ...

    def sync(self) -> None:
        """A barrier on request: when this returns, everything acknowledged before survives a power cut."""
        ...

    # -- sessions ---------------------------------------------------------------------------------

    def create(
        self, drafts: Sequence[Draft], *, bookmark: Bookmark | None = None
    ) -> tuple[SessionRow, bool]:
        """Create the session whose `open` or `fork` commit leads `drafts`, atomically with them and with a
        bookmark.

        Returns the row and True; if a session of that tenant, project and name is there already,
        its row and False, and nothing is written. An id that exists under another name is
        `Conflict`.
        """
        ...

    def session(self, session: str, *, counted: bool = False) -> SessionRow:
        """The session with that id, or `NotFound`; `counted`, with how much it holds (`SessionRow.counts`), which is
        known without reading its log."""
        ...

    def sessions(
        self, query: SessionQuery, *, cursor: tuple[int, ...] | None = None, limit: int = 100
    ) -> Page[SessionRow]:
        """Sessions that match, most recently used first (`Commit.used` of their newest commits)."""
        ...

    # -- the lease --------------------------------------------------------------------------------

    def acquire(
        self, session: str, holder: Holder, *, take: bool = False, over: int = 0, newest: int = 0
    ) -> Lease:
        """Take the lease: a new store-wide epoch, checked by every later append.

        A holder proven dead is replaced. One that is alive, or not proven dead, is `Busy` unless
        `take`, which fences it: its next append raises `LeaseLost`. `over` fences just the holder of that epoch, which
        the caller saw to be silent; another one is `Busy`. A lease that fenced a holder names it (`displaced`).
        It holds as many of the `newest` commits as are asked for, as they are once it is held.

        A store that asks the kernel knows whether a holder lives (`Holder.live`). One at a distance
        reports a counter (`Holder.beats`) that the holder's process moves every 2 seconds, and the runtime judges.
        """
        ...

    def release(self, lease: Lease) -> None:
        """Release the lease. A lease that was displaced since is left alone.

        It is released also where nothing can be written and an error is raised: the next driver then finds what
        a dead one leaves.
        """
        ...

    # -- the log ----------------------------------------------------------------------------------

    def append(
        self,
        session: str,
        drafts: Sequence[Draft],
        *,
        if_head: str | None = None,
        barrier: bool = False,
        fresh: bool = False,
        bookmark: Bookmark | None = None,
    ) -> list[Commit]:
        """Append all drafts or none, in order, durably: acknowledged means on disk.

        A draft whose id is in the log already is answered with that commit if the caller's part is
        the same and `IdReused` if not; one whose (kind, origin, attempt) is there is answered with
        that one. `if_head` is compare-and-set on the head's hash (`HeadMoved`). The lease is
        checked inside the transaction (`LeaseLost`), and so is the lifecycle (`WrongState`).
        `barrier` asks a store in `barrier` mode for a durable commit now. `fresh` promises that
        these ids were just made and never sent before, so that the store need not look for them.
        `bookmark` is kept in the same transaction, with its secrets replaced; unless its number follows
        that of the note that is there, everything is refused (`HeadMoved`).
        """
        ...

    def bookmark(self, session: str, name: str) -> Bookmark | None:
        """How far a source of a session was read; None if no note is kept. A store may drop a note at any time,
        and drops those of a session with its purge, and where something in it is erased."""
        ...

    def ingest(
        self, commits: Iterable[Commit], *, projects: Mapping[str, str] | None = None
    ) -> int:
        """Append sealed commits unchanged, as a bundle contains them, all or none; return how many were new.

        Those of one session come one after the other, a fork's after what it continues. They must
        continue what is there: same prefix, unbroken chain (`BrokenChain`, naming the first bad
        one), ids that no other commit has (`IdReused`), and a session without a live driver (`Busy`).
        One that does not exist yet begins with its `open` or `fork` commit and is found here in the
        project that `projects` names for its id, or in its own. Content that an arriving erasure
        has taken away is taken away here too; content that was erased here stays erased. `commits`
        may be gone through again, should the transaction have to be.
        """
        ...

    def head(self, session: str) -> Head:
        """The latest commit's place."""
        ...

    def heads(
        self, known: Mapping[str, int], *, project: str | None = None, others: bool = False
    ) -> dict[str, int]:
        """The sessions whose head has another seq than `known` says, with that seq: `GONE` for one that is not in the
        store, or not in the project if one is named. `others` adds every session that is not in `known`, of the
        project or of the store.

        One snapshot; a lookup in an index for each session that is known, and no commit is decoded. They come in
        the order in which they arrived in the store, so that what a fork continues comes before the fork.
        """
        ...

    def commits(
        self,
        session: str,
        *,
        after: int = 0,
        upto: int | None = None,
        newest_first: bool = False,
        limit: int = 1000,
        load: bool = True,
        seqs: Collection[int] | None = None,
        ids: Collection[str] | None = None,
        rewinds: bool = False,
        origins: Collection[tuple[str, str]] | None = None,
    ) -> list[Commit]:
        """Commits with `after < seq <= upto`, at most `limit`. Without `load`, content in blobs stays there.

        Given `seqs`, `ids` or `rewinds`, only those at one of the seqs (`NEWEST`: the last there is), those with one
        of the whole ids, and those that record a rewind and follow its tag (`model.log.rewinds`). Given `origins`,
        only the commits that have one of these (source, id), of any kind and attempt. All from one snapshot; what is
        not there is left out.
        """
        ...

    def packed(
        self, session: str, *, after: int = 0, upto: int | None = None, limit: int = 1000
    ) -> list[Packed]:
        """The same commits with all their content, as a bundle holds them: copied, and not made into commits."""
        ...

    def locate(self, text: str, session: str | None = None) -> list[tuple[str, int]]:
        """(session, seq) of commits whose id ends in, or whose hash begins with, those hex digits; at most 10."""
        ...

    def turns(
        self,
        session: str,
        *,
        after: int = 0,
        upto: int | None = None,
        newest_first: bool = False,
        limit: int = 1000,
        keys: Collection[str] | None = None,
        prompts: bool = False,
        ends: bool = False,
        standing: bool = False,
    ) -> list[TurnRow]:
        """Turns with `after < number <= upto`.

        Given `keys`, only those whose `turn` commit holds one of them (as recorded: redacted where it held a
        secret), and those whose key was erased since, if the erasure kept a digest of it. With `prompts`, each row
        holds the commit that began the turn, content loaded. With `ends`, each says where the turn ends, without the
        rewinds that followed it; `standing` leaves out turns that were rewound.
        """
        ...

    # -- state ------------------------------------------------------------------------------------

    def entries(
        self,
        session: str,
        *collections: str,
        at: int | None = None,
        limit: int | Mapping[str, int] | None = None,
        keys: Collection[str] | None = None,
        prefix: str = "",
    ) -> list[Entry]:
        """Live records of these collections (none named: all) at a seq (default: head), from one snapshot: those of
        one collection together, in the order asked, last touched first.

        All, or the newest `limit` of each collection, or of each that a mapping names. Given `keys`, only the record
        that answers to each: its natural key, or `#` and the id of a record without one. Given a `prefix`, only
        records whose natural key begins so.
        """
        ...

    def versions(
        self, session: str, *, after: int, upto: int, collections: Sequence[str] = ()
    ) -> list[Version]:
        """Every op of those collections (none named: all) with `after < seq <= upto`, in log order."""
        ...

    def replaced(self, session: str, ops: Sequence[Op]) -> list[Version | None]:
        """The version that each of these ops replaced or dropped; None where there was none."""
        ...

    def touches(
        self,
        collection: str,
        key: str,
        *,
        session: str | None = None,
        project: str | None = None,
        limit: int = 100,
    ) -> list[KeyTouch]:
        """Who touched a key, newest first: in a session and its lineage, in a project, or anywhere."""
        ...

    def calls(
        self, query: CallQuery, *, cursor: tuple[int, ...] | None = None, limit: int = 100
    ) -> Page[CallRow]:
        """Calls that match, newest first (within a session; sessions newest first)."""
        ...

    # -- several reads ----------------------------------------------------------------------------

    def together(self, *reads: Read) -> list[Any]:
        """The answers to several reads (`TOGETHER`), in order: one round trip, one snapshot.

        In the place of an answer to what is `NotFound` is that error; another error is raised. A store at a distance
        sends all of them before it waits for one, so that they take as long as the longest, not as their sum.
        """
        ...

    # -- keeping ----------------------------------------------------------------------------------

    def logs(self, session: str | None = None) -> Iterator[SessionLog]:
        """The log of every session, or of one and of those it was forked from, for `verify`: as it lies in the
        store, without its indexes, and with an `Unreadable` in the place of what cannot be read. Damage is never
        an error here. Each log is walked before the next is asked for.
        """
        ...

    def audit(self, *, skip: Collection[str] = ()) -> Iterator[Finding]:
        """What is wrong with the store besides its logs: pages, schema, indexes and projections against the
        log. Damage is never an error here. The indexes of sessions to `skip`, whose log is damaged, are compared
        with nothing.
        """
        ...

    def rebuild(self) -> None:
        """Throw every projection away and make it again from the log.

        A log that does not verify is refused with `LogDamaged`, and nothing is changed: the projections may be
        the last good copy of what the log has lost.
        """
        ...

    def usage(self, *, by: UsageBy = "content", session: str | None = None) -> dict[str, int]:
        """Bytes, for `du`: of the store by what they are for, by session (its id), by tier or by kind
        of commit.

        Each adds up to what the store takes: what belongs to no session or commit is under a name in
        brackets. A payload that several commits need counts with the first of them. Of one
        `session`, only what its own commits hold.

        `recorded` is another sum: by session, the content of its own commits before compression, as
        `Counts.content_bytes` has it. It is known without reading a log.
        """
        ...

    def sql(
        self, query: str, *, row_limit: int = 1000, seconds: float = 5.0, shown: Shown = AS_IS
    ) -> tuple[list[str], list[tuple[Any, ...]]]:
        """Read-only SQL over the documented views, bounded in rows and time: (column names, rows). `shown`: what
        the views show that the log does not have: the status of calls without an outcome, and computed costs."""
        ...


class IndexLost(Exception):
    """A search index was not what it should be and was recreated empty. Ask again."""


class Index(Protocol):
    """A search index: the words of a store's commits, built from its log.

    It holds words and positions, not texts, and can be deleted and rebuilt at any time. Every
    method but `close` may raise `IndexLost`, and then has changed nothing else.
    """

    kept: bool
    """Whether it is there for the next process too."""

    def behind(self) -> tuple[list[str], list[str]]:
        """Sessions whose log it does not know, or not to its end, oldest first; sessions it knows that are gone."""
        ...

    def mark(self, session: str) -> Mark:
        """How far it knows a session."""
        ...

    def put(self, advances: Sequence[Advance]) -> None:
        """Index these commits, all or none; an advance that does not start at the index's own mark is ignored."""
        ...

    def drop(self, sessions: Sequence[str]) -> None:
        """Forget sessions."""
        ...

    def find(self, query: SearchQuery, *, limit: int) -> list[tuple[str, int]]:
        """(session, seq) of what matches: the best first, of equals the newest."""
        ...

    def scrub(self) -> bool:
        """Remove every byte of what was dropped or replaced; False if a reader delays that."""
        ...

    def close(self) -> None:
        """Give everything back. Idempotent."""
        ...


class ProjectIndex(Protocol):
    """An index of what the projects of a store know: values of keys, built from its log.

    It answers as `model.views.project_state.settle_all` does of everything that was put into it, can be deleted and
    rebuilt at any time, and forgets what is dropped or replaced. Every method but `close` may raise `IndexLost`, and
    then has changed nothing else.
    """

    kept: bool
    """Whether it is there for the next process too."""

    def behind(self) -> tuple[list[str], list[str]]:
        """Sessions whose log it does not know, or not to its end, oldest first; sessions it knows that are gone."""
        ...

    def known(self, session: str) -> KnownSession | None:
        """How far it knows a session, and as what."""
        ...

    def knowledge(self, session: str) -> SessionKnowledge | None:
        """What the session knows, as it was put."""
        ...

    def below(self, sessions: Sequence[str]) -> list[str]:
        """The sessions that came from these or continue them, directly or not."""
        ...

    def taint(self, session: str) -> SessionTaint | None:
        """What is not trusted of a session, as it was put."""
        ...

    def resting(self, sessions: Sequence[str]) -> list[str]:
        """The sessions with commits that were made from commits of these, directly or not, as far as what was put
        of them says so."""
        ...

    def put(self, groups: Sequence[Sequence[Learned]]) -> bool:
        """Take in what sessions know, each group all or none: a group with a session that is not as the caller knew
        it (`Learned.before`) is left out. Whether none was."""
        ...

    def drop(self, sessions: Sequence[str]) -> None:
        """Forget sessions."""
        ...

    def settled(self, project: str, *, limit: int) -> dict[str, tuple[list[HeldKey], int]]:
        """What holds in a project by collection: the newest `limit` (of equals by key), and how much there is."""
        ...

    def find(self, project: str, collection: str, key: str) -> HeldKey | None:
        """What holds for one key."""
        ...

    def about(self, sessions: Sequence[str]) -> dict[str, SessionAbout]:
        """What is known of sessions, those that count."""
        ...

    def scrub(self) -> bool:
        """Remove every byte of what was dropped or replaced; False if a reader delays that."""
        ...

    def close(self) -> None:
        """Give everything back. Idempotent."""
        ...
