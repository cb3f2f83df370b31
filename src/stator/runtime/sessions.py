"""Sessions: opening, driving, leaving. `Store` is the object people hold; `Session` is a session they drive."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Generic, Literal, TypeVar

from stator.errors import Busy, InvalidInput, StatorError, WrongState
from stator.model.app import Upcast, schema_name
from stator.model.commit import Commit, Draft, Remove, Upsert
from stator.model.ids import run_id
from stator.model.query import (
    CallQuery,
    CallRow,
    Holder,
    Lease,
    Page,
    SessionQuery,
    SessionRow,
    StoreInfo,
)
from stator.model.session import ParentKind, check_budget, check_name
from stator.model.state import (
    CallRecord,
    RunRecord,
    SessionRecord,
    file_key,
)
from stator.runtime import forks, worktree
from stator.runtime.arguments import cause, mapping, pairs, text
from stator.runtime.context import Context, warn_on_loop
from stator.runtime.marks import Marker
from stator.runtime.opening import opening
from stator.runtime.reading import DecisionLine, FileChange, Reason, SessionView, explain
from stator.runtime.resolve import find_session
from stator.runtime.runs import Runner
from stator.runtime.turns import Turn
from stator.store import port

A = TypeVar("A")
BusyMode = Literal["fail", "fork", "take"]


class Session(SessionView, Marker, Generic[A]):
    """A session this program drives, from `open` until the `with` block is left."""

    def __init__(
        self, store: port.Store, row: SessionRow, context: Context, lease: Lease, **app: Any
    ) -> None:
        super().__init__(store, row.id, **app)
        self.context = context
        self._principal = context.principal
        self._open_turn: Turn | None = None
        self._lease = lease
        self._run = run_id(row.id, lease.epoch)
        self._root = context.root
        self._in_git = bool(context.root) and worktree.in_git(context.root)
        self._left = False
        self._begin(row)

    # -- appending --------------------------------------------------------------------------------

    def _draft(self, kind: str, *, id: str = "", **fields: Any) -> Draft:
        return Draft(
            id=id or self.context.mint("commit"),
            session=self._id,
            kind=kind,
            run=self._run,
            epoch=self._lease.epoch,
            **fields,
        )

    def _append(self, drafts: Sequence[Draft]) -> list[Commit]:
        if self._left:
            raise WrongState(f"session {self._id} was left", hint="open it again", session=self._id)
        return self._store.append(self._id, drafts, fresh=True)

    def _submit(self, draft: Draft) -> str:
        return self._append([draft])[0].id

    def _begin(self, row: SessionRow) -> None:
        """Begin a run: say what the last one left open, take the session up again."""
        context = self.context
        run = RunRecord(
            id=self._run,
            epoch=self._lease.epoch,
            host=context.host,
            pid=context.pid,
            program=context.program,
            since=context.clock(),
        )
        kind = "run" if row.record.status in ("open", "active") else "resume"
        begin = self._draft(
            kind, actor="system", principal=context.principal, changes=(Upsert("runs", run),)
        )
        self._append([*self._close_out(row), begin])

    def _close_out(self, row: SessionRow) -> list[Draft]:
        """What a driver that died left behind, said: unknown writes are in doubt, its turn is
        interrupted.

        Nothing is executed, and nothing at all is said of a driver that may still be alive.
        """
        if self._lease.displaced is not None:
            return []
        drafts = [
            self._draft(
                "outcome",
                call=record.call,
                tool=record.tool,
                effect=record.effect,
                attempt=record.attempt,
                status="in doubt" if record.effect == "write" else "cancelled",
                cause="process died",
                actor="system",
            )
            for entry in self._store.entries(self._id, "calls")
            if isinstance(record := entry.record, CallRecord)
            and record.status == "started"
            and not record.elsewhere
        ]
        died = {"status": "interrupted", "cause": "process died", "actor": "system"}
        if self._store.head(self._id).turn_open:
            drafts.append(self._draft("turn_end", **died))
        stale = tuple(Remove("runs", entry.key) for entry in self._store.entries(self._id, "runs"))
        if stale:
            drafts.append(self._draft("run_end", changes=stale, **died))
        return drafts

    def _git(self) -> dict[str, str] | None:
        return worktree.facts(self._root) if self._in_git else None

    # -- driving ----------------------------------------------------------------------------------

    def turn(self, prompt: Any = None, *, key: str = "") -> Turn:
        """Begin a turn: `with s.turn("fix the login bug") as t`."""
        warn_on_loop()
        self._open_turn = Turn(self, prompt, key=key)
        return self._open_turn

    def fork(self, at: str = "head", *, name: str = "") -> str:
        """Start another session from a position of this one; its id."""
        return forks.fork(self._store, self.context, self.at(at), name=name, kind="fork").id

    # -- leaving ----------------------------------------------------------------------------------

    def pause(self, reason: str = "user") -> None:
        """End the run and leave the session paused."""
        self._leave("pause", reason)

    def close(self, reason: str = "done") -> None:
        """End the run and close the session: it takes no more turns until it is resumed."""
        self._leave("close", reason)

    def _leave(self, kind: str, reason: str) -> None:
        if self._left:
            return
        reason = cause(text(reason, "reason"))
        ended = (Remove("runs", self._run),)
        drafts = [
            self._draft("run_end", status="ok", cause=reason, actor="system", changes=ended),
            self._draft(kind, cause=reason, actor="system"),
        ]
        try:
            if self._open_turn is not None and not self._open_turn.ended:
                self._open_turn._interrupt(f"left: {reason}")
            self._append(drafts)
        finally:
            self._left = True
            self._store.release(self._lease)

    def __enter__(self) -> Session[A]:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: object
    ) -> None:
        self._leave("pause", "user" if error is None else f"error: {type(error).__name__}")


class Store(Runner):
    """A store of sessions, as `stator.connect` gives it."""

    def __init__(self, store: port.Store, context: Context) -> None:
        self.port = store
        self.context = context

    def info(self) -> StoreInfo:
        return self.port.info()

    def close(self) -> None:
        self.port.close()

    def sync(self) -> None:
        """A barrier: when this returns, everything recorded survives a power cut."""
        self.port.sync()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

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
        busy: BusyMode = "fail",
    ) -> Session[Any]:
        """Create the session or take it up again, and drive it.

        `busy` says what to do when another driver has it: "fail" with who it is, "fork" it and
        drive the fork, or "take" it from a driver that does not answer. (To only look, `read` needs
        no lease.)
        """
        if busy not in ("fail", "fork", "take"):
            raise InvalidInput(f"unknown busy mode {busy!r:.40}", hint="fail, fork or take")
        warn_on_loop()
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
        row, _ = self.port.create([opening(self.context, record)])
        lease = self._acquire(row, busy)
        if lease is None:
            row = forks.fork(self.port, self.context, forks.head_of(self.port, row), kind="fork")
            lease = self.port.acquire(row.id, self._holder())
        try:
            return Session(
                self.port,
                self.port.session(row.id),
                self.context,
                lease,
                app_type=app,
                app_version=app_version,
                upcasts=upcasts,
            )
        except StatorError:
            self.port.release(lease)
            raise

    def _acquire(self, row: SessionRow, busy: BusyMode) -> Lease | None:
        if row.record.status == "archived":
            raise WrongState(
                f"session {row.record.name!r} is archived", hint="fork it to go on", session=row.id
            )
        try:
            return self.port.acquire(row.id, self._holder(), take=busy == "take")
        except Busy:
            if busy == "fork":
                return None
            raise

    def _holder(self) -> Holder:
        context = self.context
        return Holder(
            epoch=0,
            host=context.host,
            pid=context.pid,
            program=context.program,
            since=context.clock(),
        )

    def read(self, name: str, *, project: str | None = None, **app: Any) -> SessionView:
        """A session to look at: by id, end of an id, name, or `last`. Needs no lease, changes nothing."""
        scope = self.context.project if project is None else project
        return SessionView(
            self.port, find_session(self.port, name, project=scope or None).id, **app
        )

    def contribute(self, name: str, *, principal: str = "") -> Contributor:
        """Add decisions, facts, tags, scores and the like to a session somebody else drives."""
        view = self.read(name)
        return Contributor(self.port, view.id, self.context, principal or self.context.principal)

    def fork(
        self, name: str, at: str = "head", *, as_name: str = "", kind: ParentKind = "fork"
    ) -> SessionView:
        """Start a session from a position of another, by reference: nothing is copied."""
        point = self.read(name).at(at)
        row = forks.fork(self.port, self.context, point, name=as_name, kind=kind)
        return SessionView(self.port, row.id)

    def ingest(self, commits: Sequence[Commit]) -> int:
        """Take in sealed commits of one session, as they are; how many were new."""
        return self.port.ingest(commits)

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
        return self.port.sessions(query, cursor=cursor, limit=limit)

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
        query = CallQuery(project=project, statuses=tuple(statuses), tool=tool)
        return self.port.calls(query, cursor=cursor, limit=limit)

    def views(self, *, project: str | None = None) -> Iterator[SessionView]:
        """Every session of a project, or of the store, most recently used first."""
        cursor: tuple[int, ...] | None = None
        while True:
            page = self.sessions(project=project, cursor=cursor)
            for row in page.rows:
                yield SessionView(self.port, row.id)
            cursor = page.cursor
            if cursor is None:
                return

    def files(
        self, *, last: int | None = 5, reads: bool = False, project: str | None = None
    ) -> list[FileChange]:
        """Files touched in the last so many turns of each session of a project, or of the store."""
        return [
            change
            for view in self.views(project=project)
            for change in view.files(last=last, reads=reads)
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

    def why(
        self, path: str, *, root: str = ".", project: str | None = None, limit: int = 50
    ) -> list[Reason]:
        """What lies behind a path, over every session of a project, or of the store."""
        touches = self.port.touches("files", file_key(root, path), project=project, limit=limit)
        return explain(self.port, [(t.session, t.seq, t.turn) for t in touches], path)


class Contributor(Marker):
    """Adds to a session without driving it: the closed list of kinds that need no lease."""

    def __init__(self, store: port.Store, session: str, context: Context, principal: str) -> None:
        self._store = store
        self._id = session
        self._context = context
        self._principal = principal
        self._root = context.root
        self._app_version = 1

    def _draft(self, kind: str, **fields: Any) -> Draft:
        fields.setdefault("actor", "user")
        return Draft(
            id=self._context.mint("commit"),
            session=self._id,
            kind=kind,
            principal=fields.pop("principal", self._principal),
            **fields,
        )

    def _submit(self, draft: Draft) -> str:
        return self._store.append(self._id, [draft], barrier=True)[0].id
