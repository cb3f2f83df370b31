"""The store of sessions that `stator.connect` returns: opening, reading and asking."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, cast

from stator.errors import Busy, InvalidInput
from stator.model.log.commit import Commit
from stator.model.log.query import (
    CallQuery,
    CallRow,
    Page,
    SessionQuery,
    SessionRow,
    StoreInfo,
    VerifyReport,
)
from stator.model.records.app_state import Upcast, schema_name
from stator.model.records.types import ParentKind, SessionRecord
from stator.model.sessions.lifecycle import check_budget, check_name
from stator.model.values.ids import is_id
from stator.runtime.base.arguments import mapping, pairs
from stator.runtime.base.context import warn_on_loop
from stator.runtime.base.pages import matching
from stator.runtime.facade.doors import OutsideDoors
from stator.runtime.facade.projects import ProjectKeeper
from stator.runtime.facade.retention import Keeper
from stator.runtime.facade.runs import Runner
from stator.runtime.views.as_read import OpenStore

if TYPE_CHECKING:  # loaded when a session is driven or read: a list of sessions needs none of it
    from stator.model.calls.approval import Rule
    from stator.model.calls.budget import PriceFunction, PriceTable
    from stator.model.views.recap import SessionRecap
    from stator.model.views.why import Why
    from stator.runtime.branches.open_driver import HeldMode
    from stator.runtime.bundles.report import Erasures, Imported
    from stator.runtime.bundles.transfer import Exported, Progress
    from stator.runtime.driving.policy import ApproveMode
    from stator.runtime.exchange.pull import Pulled
    from stator.runtime.exchange.sent import SentReport
    from stator.runtime.facade.contributor import Contributor
    from stator.runtime.facade.session import Session
    from stator.runtime.facade.view import SessionView
    from stator.runtime.ingest.extract import Extraction
    from stator.runtime.tails.store_tail import StoreTail
    from stator.runtime.views.artifacts import Document
    from stator.runtime.views.authors.blame import Blame
    from stator.runtime.views.file_changes import FileChange
    from stator.runtime.views.search import Hit
    from stator.runtime.views.search import Progress as SearchProgress
    from stator.runtime.views.session import DecisionLine


BUSY = ("fail", "wait", "read", "fork", "take")


class Store(OpenStore, Runner, Keeper, ProjectKeeper, OutsideDoors):
    """A store of sessions, as `stator.connect` returns it."""

    def info(self) -> StoreInfo:
        return self.port.info()

    def sync(self) -> None:
        """A barrier: when this returns, everything recorded survives a power cut."""
        self.port.sync()

    # -- opening ----------------------------------------------------------------------------------

    def open(
        self,
        name: str,
        *,
        agent: str = "",
        project: str | None = None,
        tenant: str = "",
        labels: Mapping[str, str] | None = None,
        budget: Mapping[str, int] | None = None,
        aliases: Sequence[tuple[str, str]] = (),
        app: Any = None,
        app_version: int = 1,
        upcasts: Mapping[int, Upcast] | None = None,
        busy: HeldMode | Literal["read"] = "fail",
        rules: Sequence[Rule] = (),
        approve: ApproveMode = "raise",
        prices: PriceTable | PriceFunction | None = None,
        after: str | None = None,
    ) -> Session[Any]:
        """Create the session or open it again, and drive it.

        `busy` decides what happens if another program drives it: "fail" raises `Busy` with the driver's name,
        "wait" waits until the session is free, "read" only reads it (as `read` does), "fork" drives a fork of it,
        "take" takes it from a driver that does not respond. `rules` say which calls a person must approve, before
        those of the policy file; `approve="wait"` waits for the answer instead of raising `ApprovalNeeded`.
        `prices` turns usage into money. `after` names the session that a new one continues, or "last": what that one
        knows is taken over when the new one first runs.
        """
        if busy not in BUSY:
            raise InvalidInput(f"unknown busy mode {busy!r:.40}", hint=", ".join(BUSY))
        warn_on_loop()
        from stator.runtime.branches.open_driver import drive
        from stator.runtime.driving import policy
        from stator.runtime.facade.session import Session

        # An id is that session itself; a name leads to the session that was adopted for it.
        if exact := is_id(str(name), "session"):
            known = self.port.session(name).record
            name, project, tenant = known.name, known.project, known.tenant
        record = SessionRecord(
            id=self.context.mint("session"),
            name=check_name(name),
            agent=agent,
            project=self.context.project if project is None else project,
            tenant=tenant,
            labels=mapping(labels, "labels"),
            budget=check_budget(mapping(budget, "budget")),
            aliases=pairs(aliases, "aliases"),
            app_schema=schema_name(app),
            app_version=app_version if app is not None else 0,
            created=self.context.clock(),
        )
        terms = policy.Terms(
            rules=[*rules, *policy.rules(self.context)],
            sources=policy.sources(self.context),
            approve=approve,
            prices=policy.prices(self.context) if prices is None else prices,
            proof=policy.proof(self.context),
        )
        if terms.demands_proof:
            # The keys that count are those of now: what is put in their place later approves nothing here.
            self.context.approvers.load()
        types: dict[str, Any] = {"app_type": app, "app_version": app_version, "upcasts": upcasts}
        try:
            driver = drive(
                self.port,
                self.context,
                record,
                terms,
                busy="fail" if busy == "read" else busy,
                exact=exact,
                after=after,
            )
            return Session(driver, **types)
        except Busy as held:
            if busy != "read":
                raise
            # It has the methods that read. Those that drive are missing, which refuses them.
            return cast("Session[Any]", self._view(held.ids["session"], record, **types))

    def read(self, /, name: str, *, project: str | None = None, **app: Any) -> SessionView:
        """Read a session: by id, end of an id, name, or `last`. Needs no lease, changes nothing."""
        from stator.runtime.views.refs import find_session

        scope = self.context.project if project is None else project
        row = find_session(self.port, name, project=scope or None)
        return self._view(row.id, row.record, **app)

    def _view(self, session: str, record: SessionRecord, **app: Any) -> SessionView:
        from stator.runtime.facade.view import SessionView

        return SessionView(self.as_read, session, root=self._root(record), **app)

    def _root(self, record: SessionRecord) -> str:
        """The folder a session's files are in, if its project is the one that is here."""
        return self.context.root if record.project == self.context.project else ""

    def contribute(self, name: str, *, principal: str = "") -> Contributor:
        """Add decisions, facts, tags, scores and the like to a session that another program drives."""
        from stator.runtime.facade.contributor import Contributor

        view = self.read(name)
        return Contributor(self.port, view.id, self.context, principal or self.context.principal)

    def fork(
        self, name: str, at: str = "head", *, as_name: str = "", kind: ParentKind = "fork"
    ) -> SessionView:
        """Start a session from a position of another, by reference: nothing is copied."""
        from stator.runtime.branches import fork as forks
        from stator.runtime.views.as_read import for_one_answer, itself_asked
        from stator.runtime.views.refs import find_session, locate

        seen = for_one_answer(self.as_read)
        point = locate(seen, find_session(seen, name, project=self.context.project or None).id, at)
        row = forks.fork(itself_asked(seen), self.context, point, name=as_name, kind=kind)
        return self._view(row.id, row.record)

    def ingest(
        self, commits: Iterable[Commit], *, projects: Mapping[str, str] | None = None
    ) -> int:
        """Import sealed commits unchanged; return how many were new. `projects` says where new sessions belong."""
        return self.port.ingest(commits, projects=projects)

    def extract(
        self,
        names: str | Sequence[str] | None = None,
        *,
        project: str | None = None,
        again: bool = False,
        dry_run: bool = False,
    ) -> Extraction:
        """Find in recorded logs what the rules of this release give (decisions, plans, revisions, …), and append what
        is missing: in these sessions, or in all of a project (`project=""`: of the store).

        `again` also replaces what earlier versions of the rules found otherwise. Doing it twice adds nothing.
        """
        from stator.runtime.ingest.extract import extract

        rows: Iterable[SessionRow]
        if names is None:
            scope = self.context.project if project is None else project
            rows = list(matching(self.port, SessionQuery(project=scope or None)))
        else:
            given = [names] if isinstance(names, str) else list(names)
            rows = [self.read(name, project=project).row for name in given]
        return extract(self.port, rows, again=again, dry_run=dry_run)

    def export(
        self,
        names: str | Sequence[str],
        path: str | PathLike[str],
        *,
        tree: bool = False,
        redact: Sequence[str] = (),
        transcript: bool = True,
        passphrase: str | None = None,
        fixture: bool = False,
        replace: bool = False,
        progress: Progress | None = None,
    ) -> Exported:
        """Write sessions to a bundle: one file that another store can import.

        Children come along; `tree` adds every fork and retry. Left out are secrets that the redaction rules
        find, content that contains a text of `redact`, and, with `transcript=False`, messages and calls; the
        chain still verifies. `passphrase` encrypts the bundle.
        """
        from stator.runtime.bundles import transfer

        wanted = [self.read(name).id for name in ([names] if isinstance(names, str) else names)]
        return transfer.export(
            self.port,
            self.context,
            wanted,
            str(path),
            tree=tree,
            redact=redact,
            transcript=transcript,
            passphrase=passphrase,
            fixture=fixture,
            replace=replace,
            progress=progress,
        )

    def import_bundle(
        self,
        path: str | PathLike[str],
        *,
        project: str | None = None,
        passphrase: str | Callable[[], str] | None = None,
        erasures: Erasures = "refuse",
        dry_run: bool = False,
        progress: Progress | None = None,
    ) -> Imported:
        """Import the sessions of a bundle, all or none, with the same ids and heads; every hash is checked. A
        session that this store already has is continued or left unchanged; if both copies have new commits, the
        imported one becomes a fork. `project` is the project of new sessions; by default their own, if this store has
        it, else the current one. `dry_run` checks everything and reports what would happen. A bundle whose erasures
        would take content away that is here is refused (`ErasesHere`), unless `erasures` is "apply".
        """
        from stator.runtime.bundles import transfer

        return transfer.import_bundle(
            self.port,
            self.context,
            str(path),
            project=project,
            passphrase=passphrase,
            erasures=erasures,
            dry_run=dry_run,
            progress=progress,
        )

    # -- other stores -----------------------------------------------------------------------------

    def copy_to(
        self, other: OpenStore, *, dry_run: bool = False, progress: Progress | None = None
    ) -> SentReport:
        """Copy every session into another store of the user, with the same ids and hashes; what is there already is not
        sent again. Killed at any point, the next copy continues. A session that diverged there is left as it is, and
        so is one whose name another one has; the report names them. What was purged here since it was copied is
        purged there, too, if it is there as it was sent. Both stores' heads are compared at the end.
        """
        from stator.runtime.exchange.copy import copy

        return copy(self.port, other.port, other.context, dry_run=dry_run, progress=progress)

    def push_to(
        self,
        other: OpenStore,
        *,
        projects: Sequence[str] | None = None,
        into: str | None = None,
        redact: Sequence[str] = (),
        forks: bool = False,
        dry_run: bool = False,
        progress: Progress | None = None,
    ) -> SentReport:
        """Send the sessions of some projects (default: the current one) to a store that others read. Left out are
        secrets that the redaction rules find and content that contains a text of `redact`. A session that is driven
        goes up to its last ended turn. One that was continued there is never overwritten: if both have new commits it
        stays, or with `forks` becomes a fork there. `into` is the project of sessions that are new there, instead of
        their own.
        """
        from stator.runtime.exchange.push import push

        chosen = [self.context.project] if projects is None else projects
        return push(
            self.port,
            other.port,
            other.context,
            chosen,
            into=into,
            redact=redact,
            forks=forks,
            dry_run=dry_run,
            progress=progress,
        )

    def pull_from(
        self,
        other: OpenStore,
        name: str,
        *,
        as_name: str = "",
        project: str | None = None,
        erasures: Erasures = "refuse",
        dry_run: bool = False,
        progress: Progress | None = None,
    ) -> Pulled:
        """Bring a session of another store here, as a bundle of it would be imported: new, as the continuation of the
        one that is here, or as a fork if both have new commits. `as_name` names that fork, or a fork at its head.
        """
        from stator.runtime.exchange.pull import find, pull

        scope = self.context.project if project is None else project
        return pull(
            other.port,
            self.port,
            self.context,
            find(other.as_read, name, scope),
            as_name=as_name,
            project=project,
            erasures=erasures,
            dry_run=dry_run,
            progress=progress,
        )

    # -- asking -----------------------------------------------------------------------------------

    def sessions(
        self,
        *,
        project: str | None = None,
        agent: str | None = None,
        status: str | None = None,
        cursor: tuple[int, ...] | None = None,
        limit: int = 100,
    ) -> Page[SessionRow]:
        """Sessions, most recently used first."""
        query = SessionQuery(project=project, agent=agent, status=status)
        return self.as_read.sessions(query, cursor=cursor, limit=limit)

    def verify(self, session: str | None = None) -> VerifyReport:
        """Check every commit of one session or of all, and whatever else is in the store.

        Never raises for what it finds: damage is in the report, by session and seq.
        """
        from stator.runtime.views.verify import examine  # seldom asked for

        found = None if session is None else self.read(session).id
        return examine(self.port, found)

    def calls(
        self,
        *,
        project: str | None = None,
        statuses: Sequence[str] = (),
        tool: str | None = None,
        cursor: tuple[int, ...] | None = None,
        limit: int = 100,
    ) -> Page[CallRow]:
        """Calls of a project or the whole store, newest session first."""
        from stator.runtime.views.glance.calls import list_calls

        query = CallQuery(project=project, statuses=tuple(statuses), tool=tool)
        return list_calls(self.as_read, query, cursor, limit)

    def views(self, *, project: str | None = None) -> Iterator[SessionView]:
        """Every session of a project, or of the store, most recently used first."""
        cursor: tuple[int, ...] | None = None
        while True:
            page = self.sessions(project=project, cursor=cursor)
            for row in page.rows:
                yield self._view(row.id, row.record)
            cursor = page.cursor
            if cursor is None:
                return

    def tail(
        self,
        cursor: str | None = None,
        *,
        project: str | None = None,
        follow: bool = True,
        until: Callable[[], bool] | None = None,
        load: bool = True,
    ) -> StoreTail:
        """Every commit of every session of a project, or of the store, as it arrives: within a session by seq, without
        a gap; across sessions in the order in which they arrived here, round by round. A fork has its own commits only.

        The result has a `cursor`, a text that continues after what was given out: tomorrow, in another process, in
        another copy of the store. "" is before everything; without a cursor it begins now. It does not end by itself:
        leave the loop, or pass `until`.
        """
        from stator.runtime.tails.store_tail import StoreTail, StoreTailing

        return StoreTail(
            StoreTailing(self.port, cursor, project=project, follow=follow, until=until, load=load)
        )

    def files(
        self, *, last: int | None = 5, reads: bool = False, project: str | None = None
    ) -> list[FileChange]:
        """Files touched in the last `last` turns of each session of a project, or of the store; those that a fork
        inherited are its parent's."""
        return [
            change
            for view in self.views(project=project)
            for change in view.files(last=last, reads=reads, own=True)
        ]

    def decisions(
        self, *, standing: bool | None = None, project: str | None = None
    ) -> list[DecisionLine]:
        """Decisions of every session of a project, or of the store."""
        return [
            line
            for view in self.views(project=project)
            for line in view.decisions(standing=standing)
        ]

    def blame(
        self,
        path: str,
        *,
        root: str = ".",
        project: str | None = None,
        session: str | None = None,
        all: bool = False,
        disk: bool = True,
    ) -> Blame:
        """Which turn each line of a file comes from, over every session of this project, or another, in one session, or
        in `all` of the store. The lines are those on disk; without `disk`, those that the last record left. Where
        nothing is recorded about the path, one that ends so is taken: the same file in another checkout."""
        from stator.runtime.views.authors.blame import on_disk
        from stator.runtime.views.reasons.whose import whose_lines
        from stator.runtime.views.refs import find_session

        scope = None if all else (self.context.project if project is None else project) or None
        found = None if session is None else find_session(self.as_read, session, project=scope).id
        now = on_disk(self.context.root, path, root) if disk else None
        return whose_lines(self.as_read, path, root, session=found, project=scope, now=now)

    def artifact(self, name: str, *, project: str | None = None) -> Document:
        """The newest version of a named document in any session of a project, with its content."""
        from stator.runtime.views import artifacts

        scope = self.context.project if project is None else project
        return artifacts.newest(self.port, name, scope)

    def why(
        self,
        thing: str,
        *,
        root: str = ".",
        project: str | None = None,
        session: str | None = None,
        all: bool = False,
        limit: int = 50,
        hunks: bool = False,
    ) -> Why:
        """Why something is as it is: a path, a decision's topic, the name of a fact, a preference or an artifact, a
        plan step, a revision, a call or a commit; lines of a file as `auth.py:10-20`. With `hunks`, what each turn
        changed in a file. Looks in this project, or another, in one session, or in `all` of
        the store. The answer says where it looked."""
        from stator.runtime.views.reasons.why import ask, places_in
        from stator.runtime.views.refs import find_session

        scope = None if all else (self.context.project if project is None else project) or None
        found = None if session is None else find_session(self.as_read, session, project=scope).id
        places = places_in(root, self.context.root)
        return ask(
            self.as_read, thing, project=scope, session=found, places=places, limit=limit,
            folder=self.context.root, hunks=hunks,
        )  # fmt: skip

    def recap(
        self,
        *sessions: str,
        since: int = 0,
        project: str | None = None,
        all: bool = False,
        limit: int = 10,
    ) -> list[SessionRecap]:
        """What the last sessions of a project were asked, did, and how they ended, the newest first; or the sessions
        that are named. `since` is a time in µs. Sub-agents count with the sessions that started them."""
        from stator.runtime.views.reasons.recap import recap

        scope = None if all else (self.context.project if project is None else project) or None
        return recap(self.as_read, project=scope, sessions=sessions, since=since, limit=limit)

    def search(
        self,
        words: str,
        *,
        project: str | None = None,
        agent: str | None = None,
        tool: str | None = None,
        path: str | None = None,
        session: str | None = None,
        kinds: Sequence[str] = (),
        since: int = 0,
        until: int = 0,
        limit: int = 20,
        any_word: bool = False,
        fresh: bool = True,
        progress: SearchProgress | None = None,
    ) -> list[Hit]:
        """Search every session of the store for words (all must occur, or with `any_word` one of them), "a phrase",
        prefix*, -not. The best match comes first; among equal matches the newest. The other arguments restrict the
        search: project, agent, tool, path or part of one, session, kinds of commits, time (µs since 1970). The index
        is updated first, unless `fresh=False`.
        """
        from stator.runtime.views import search as searching

        return searching.search(
            self.port,
            self.context,
            words,
            project=project,
            agent=agent,
            tool=tool,
            path=path,
            session=session,
            kinds=kinds,
            since=since,
            until=until,
            limit=limit,
            any_word=any_word,
            fresh=fresh,
            progress=progress,
        )
