"""The asynchronous façade: the same names, one line a method, over a bounded pool of threads.

One operation is one thread hop. Appends that arrive together share a transaction in the store. A
cancelled caller waits for the outcome of a write it began: it is either in the log or it is not,
and the caller knows which.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, Generic, Literal, Self, TypeVar

from msgspec import UNSET

from stator.errors import ApprovalNeeded, StatorError
from stator.model.calls.approval import Rule, Scope
from stator.model.calls.budget import PriceFunction, PriceTable
from stator.model.calls.life import Outcome
from stator.model.log.commit import Actor, Commit
from stator.model.log.query import (
    CallRow,
    Counts,
    Head,
    Page,
    SessionRow,
    StoreInfo,
    TurnRow,
)
from stator.model.records.app_state import Upcast
from stator.model.records.types import (
    Entry,
    FileOp,
    Knowledge,
    ParentKind,
    SessionRecord,
    State,
    StepStatus,
    UseKind,
)
from stator.model.views.brief import Brief, Target
from stator.model.views.compare import Comparison
from stator.model.views.diff import Diff
from stator.model.views.patch import FilePatch
from stator.model.views.tree import Tree
from stator.model.window.compaction import LEVELS, Level
from stator.model.window.reply import Dialect
from stator.runtime.base.context import warn_on_loop
from stator.runtime.branches.retry import Adopted, RetryEffects
from stator.runtime.branches.rewind import Rewound
from stator.runtime.driving.approvals import Grant
from stator.runtime.driving.call import Calling
from stator.runtime.driving.lifecycle import Moved
from stator.runtime.driving.loop import (
    Dispatch,
    DoubtMode,
    Effects,
    ModelCalling,
    unwrapped,
)
from stator.runtime.driving.policy import ApproveMode
from stator.runtime.driving.recovery import Recovery
from stator.runtime.driving.settlement import OpenDoubt, Settled, Verdict
from stator.runtime.driving.tools import Tool, current_turn
from stator.runtime.driving.turn import Turn
from stator.runtime.facade.aio_calls import AsyncStream, drive
from stator.runtime.facade.aio_pool import Pool
from stator.runtime.facade.aio_retention import AsyncKeeper
from stator.runtime.facade.aio_runs import AsyncRunner
from stator.runtime.facade.contributor import Contributor
from stator.runtime.facade.session import HeldMode, Session
from stator.runtime.facade.store import Store
from stator.runtime.files.capture import BYTES_MAX
from stator.runtime.files.contents import Content
from stator.runtime.files.restore import Restoration
from stator.runtime.views.artifacts import Artifact, Document
from stator.runtime.views.reflog import Reflog
from stator.runtime.views.refs import Point
from stator.runtime.views.session import DecisionLine, FileChange, SessionView
from stator.runtime.views.why import Reason
from stator.runtime.window.compaction import KEEP, Compaction, Summary
from stator.runtime.window.recall import Evicted, Recalled

if TYPE_CHECKING:
    from stator.runtime.branches.rerun import Effects as RerunEffects
    from stator.runtime.branches.rerun import Rerun, Tools
    from stator.runtime.bundles.transfer import Exported, Imported, Progress
    from stator.runtime.views.search import Hit
    from stator.runtime.views.search import Progress as SearchProgress

T = TypeVar("T")
A = TypeVar("A")


class AsyncView:
    """`SessionView`, awaited."""

    def __init__(self, view: SessionView, pool: Pool) -> None:
        self._sync = view
        self._pool = pool

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: object
    ) -> None:
        return None

    @property
    def id(self) -> str:
        return self._sync.id

    async def row(self) -> SessionRow:
        return await self._pool.run(lambda: self._sync.row)

    async def record(self) -> SessionRecord:
        return await self._pool.run(lambda: self._sync.record)

    async def name(self) -> str:
        return await self._pool.run(lambda: self._sync.name)

    async def head(self) -> Head:
        return await self._pool.run(lambda: self._sync.head)

    async def status(self) -> str:
        return await self._pool.run(lambda: self._sync.status)

    async def counts(self) -> Counts:
        return await self._pool.run(lambda: self._sync.counts)

    async def app(self) -> Any:
        return await self._pool.run(lambda: self._sync.app)

    async def log(
        self,
        span: str | None = None,
        *,
        newest_first: bool = False,
        limit: int | None = None,
        load: bool = True,
    ) -> AsyncIterator[Commit]:
        commits = self._sync.log(span, newest_first=newest_first, limit=limit, load=load)
        while (commit := await self._pool.run(next, commits, None)) is not None:
            yield commit

    async def tail(
        self,
        after: int | None = None,
        *,
        follow: bool = True,
        until: Callable[[], bool] | None = None,
        load: bool = True,
    ) -> AsyncIterator[Commit]:
        tailing = self._sync._tailing(after, follow=follow, until=until, load=load)
        while not tailing.ended:
            for commit in await self._pool.run(tailing.look):
                yield commit
            if tailing.wait_s and not tailing.ended:
                await asyncio.sleep(tailing.wait_s)

    async def commit(self, ref: str) -> Commit:
        return await self._pool.run(self._sync.commit, ref)

    async def turns(self, *, last: int | None = None) -> list[TurnRow]:
        return await self._pool.run(self._sync.turns, last=last)

    async def at(self, ref: str) -> Point:
        return await self._pool.run(self._sync.at, ref)

    async def state(self, at: str = "head", *, collections: Sequence[str] = ()) -> State:
        return await self._pool.run(self._sync.state, at, collections=collections)

    async def hot(self, at: str = "head") -> dict[str, list[Entry]]:
        return await self._pool.run(self._sync.hot, at)

    async def entries(
        self, collection: str, at: str = "head", *, limit: int | None = None
    ) -> list[Entry]:
        return await self._pool.run(self._sync.entries, collection, at, limit=limit)

    async def facts(self) -> dict[str, Any]:
        return await self._pool.run(self._sync.facts)

    async def diff(self, start: str | None = None, end: str | None = None) -> Diff:
        return await self._pool.run(self._sync.diff, start, end)

    async def evicted(self, *, all: bool = False) -> list[Evicted]:
        return await self._pool.run(self._sync.evicted, all=all)

    async def recall(self, key: str) -> Recalled:
        return await self._pool.run(self._sync.recall, key)

    async def patch(self, start: str | None = None, end: str | None = None) -> list[FilePatch]:
        return await self._pool.run(self._sync.patch, start, end)

    async def contents(self, path: str, at: str = "head", *, root: str = ".") -> Content | None:
        return await self._pool.run(self._sync.contents, path, at, root=root)

    async def files(self, *, last: int | None = None, reads: bool = False) -> list[FileChange]:
        return await self._pool.run(self._sync.files, last=last, reads=reads)

    async def decisions(self, *, standing: bool | None = None) -> list[DecisionLine]:
        return await self._pool.run(self._sync.decisions, standing=standing)

    async def calls(
        self,
        *,
        status: str | None = None,
        tool: str | None = None,
        last: int | None = None,
        limit: int = 100,
    ) -> list[CallRow]:
        return await self._pool.run(
            self._sync.calls, status=status, tool=tool, last=last, limit=limit
        )

    async def compare(self, a: str, b: str) -> Comparison:
        return await self._pool.run(self._sync.compare, a, b)

    async def tree(self, *, limit: int = 1000) -> Tree:
        return await self._pool.run(self._sync.tree, limit=limit)

    async def reflog(self) -> list[Reflog]:
        return await self._pool.run(self._sync.reflog)

    async def rewound(self) -> set[int]:
        return await self._pool.run(self._sync.rewound)

    async def beginning(self, turn: int) -> Commit | None:
        return await self._pool.run(self._sync.beginning, turn)

    async def why(self, path: str, *, root: str = ".", limit: int = 50) -> list[Reason]:
        return await self._pool.run(self._sync.why, path, root=root, limit=limit)

    async def brief(
        self,
        *,
        max_tokens: int = 2000,
        target: Target = "generic",
        since: str | None = None,
        count_tokens: Callable[[str], int] | None = None,
        disk: bool = True,
    ) -> Brief:
        return await self._pool.run(
            self._sync.brief,
            max_tokens=max_tokens,
            target=target,
            since=since,
            count_tokens=count_tokens,
            disk=disk,
        )

    async def artifacts(self) -> list[Artifact]:
        return await self._pool.run(self._sync.artifacts)

    async def artifact_versions(self, name: str) -> list[Artifact]:
        return await self._pool.run(self._sync.artifact_versions, name)

    async def read_artifact(self, name: str, version: int | None = None) -> Any:
        return await self._pool.run(self._sync.read_artifact, name, version)

    async def artifact_diff(self, name: str, a: int | None = None, b: int | None = None) -> str:
        return await self._pool.run(self._sync.artifact_diff, name, a, b)


class AsyncRecorder:
    """The typed commits that turns, sessions and contributors share, awaited."""

    _recorder: Turn | Session[Any] | Contributor
    _pool: Pool

    async def decide(
        self,
        what: str,
        *,
        topic: str = "",
        why: str = "",
        over: Sequence[str] = (),
        confidence: float | None = None,
        factors: Mapping[str, Any] | None = None,
        supersedes: str = "",
    ) -> str:
        return await self._pool.run(
            self._recorder.decide,
            what,
            topic=topic,
            why=why,
            over=over,
            confidence=confidence,
            factors=factors,
            supersedes=supersedes,
        )

    async def file(
        self,
        path: str,
        op: FileOp,
        *,
        before: str = "",
        after: str = "",
        from_path: str = "",
        how: Knowledge = "recorded",
        reason: str = "",
        why: str = "",
    ) -> str:
        return await self._pool.run(
            self._recorder.file,
            path,
            op,
            before=before,
            after=after,
            from_path=from_path,
            how=how,
            reason=reason,
            why=why,
        )

    async def fact(self, name: str, value: Any, *, verified: bool = False, why: str = "") -> str:
        return await self._pool.run(self._recorder.fact, name, value, verified=verified, why=why)

    async def prefer(self, name: str, value: Any, *, why: str = "") -> str:
        return await self._pool.run(self._recorder.prefer, name, value, why=why)

    async def dead_end(self, what: str, *, why: str = "") -> str:
        return await self._pool.run(self._recorder.dead_end, what, why=why)

    async def plan(
        self,
        step: str | Sequence[str],
        status: StepStatus = "pending",
        *,
        detail: str = "",
        evidence: str = "",
        order: int = 0,
        why: str = "",
    ) -> str:
        return await self._pool.run(
            self._recorder.plan,
            step,
            status,
            detail=detail,
            evidence=evidence,
            order=order,
            why=why,
        )

    async def artifact(
        self, name: str, content: Any, *, media_type: str = "text/plain", why: str = ""
    ) -> str:
        return await self._pool.run(
            self._recorder.artifact, name, content, media_type=media_type, why=why
        )


class AsyncMarker(AsyncRecorder):
    """`Marker`, awaited."""

    _marker: Session[Any] | Contributor

    async def tag(self, name: str, at: str = "head") -> str:
        return await self._pool.run(self._marker.tag, name, at)

    async def score(self, name: str, value: float, *, on: str = "", comment: str = "") -> str:
        return await self._pool.run(self._marker.score, name, value, on=on, comment=comment)

    async def flag(self, name: str, *, on: str = "", why: str = "") -> str:
        return await self._pool.run(self._marker.flag, name, on=on, why=why)

    async def restore(
        self,
        *paths: str,
        at: str,
        apply: bool = False,
        force: bool = False,
        everything: bool = False,
        root: str = "",
    ) -> Restoration:
        return await self._pool.run(
            self._marker.restore, *paths,
            at=at, apply=apply, force=force, everything=everything, root=root,
        )  # fmt: skip

    async def erase(
        self, ref: str = "", *, fields: Sequence[str] = (), record: tuple[str, str] | None = None
    ) -> str:
        return await self._pool.run(self._marker.erase, ref, fields=fields, record=record)


class AsyncTurn(AsyncRecorder):
    """`Turn`, awaited; its tools may be plain functions or coroutine functions."""

    def __init__(self, turn: Turn, pool: Pool) -> None:
        self._sync = self._recorder = turn
        self._pool = pool
        self.id, self.number = turn.id, turn.number
        self.continued, self.reused = turn.continued, turn.reused
        self._token: contextvars.Token[Any] | None = None

    async def session(self) -> AsyncSession[Any]:
        return AsyncSession(self._sync.session, self._pool)

    @property
    def ended(self) -> bool:
        return self._sync.ended

    @contextlib.asynccontextmanager
    async def batch(self) -> AsyncIterator[None]:
        batch = self._sync.batch()
        batch.__enter__()
        try:
            yield
        except BaseException as error:
            batch.__exit__(type(error), error, error.__traceback__)
            raise
        await self._pool.run(batch.__exit__, None, None, None)

    async def say(
        self,
        said: Any,
        *,
        actor: Actor = "model",
        usage: Mapping[str, int] | None = None,
        why: str = "",
    ) -> str:
        return await self._pool.run(self._sync.say, said, actor=actor, usage=usage, why=why)

    async def pend(self, what: str, *, on: str = "", why: str = "", done: bool = False) -> str:
        return await self._pool.run(self._sync.pend, what, on=on, why=why, done=done)

    async def use(self, kind: UseKind, name: str, *, detail: str = "") -> str:
        return await self._pool.run(self._sync.use, kind, name, detail=detail)

    async def note(self, name: str, value: Any) -> str:
        return await self._pool.run(self._sync.note, name, value)

    async def set(self, **fields: Any) -> str:
        return await self._pool.run(self._sync.set, **fields)

    async def call(
        self, function: Callable[..., Any] | Tool[..., Any], /, *args: Any, **kwargs: Any
    ) -> Any:
        return (await self.try_call(function, *args, **kwargs)).result()

    async def try_call(
        self, function: Callable[..., Any] | Tool[..., Any], /, *args: Any, **kwargs: Any
    ) -> Outcome:
        return await self._drive(Calling(self._sync, function, args, kwargs))

    async def _drive(self, calling: Calling) -> Outcome:
        return await drive(calling, self._pool)

    def _direct(self, tool: Tool[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A tool that was called like a function: awaited if it is a coroutine function."""
        if tool.is_async:
            return self.call(tool, *args, **kwargs)
        warn_on_loop()
        return self._sync.call(tool, *args, **kwargs)

    async def model(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        await self._pool.run(self._sync._offer, kwargs.get("tools"))
        calling = ModelCalling(self._sync, function, args, kwargs)
        return self._sync._reply((await self._drive(calling)).result(), calling.seq)

    async def reply(self, response: Any, *, model: str = "") -> Any:
        return await self._pool.run(self._sync.reply, response, model=model)

    def stream(self, source: Any, /, *args: Any, **kwargs: Any) -> AsyncStream:
        return AsyncStream(self._sync.stream(source, *args, **kwargs), self._pool)

    async def messages(
        self,
        provider: Dialect,
        *,
        max_tokens: int | None = None,
        count_tokens: Callable[[str], int] | None = None,
    ) -> list[dict[str, Any]]:
        return await self._pool.run(
            self._sync.messages, provider, max_tokens=max_tokens, count_tokens=count_tokens
        )

    async def results(
        self,
        reply: Any,
        dispatch: Dispatch,
        *,
        effects: Effects | None = None,
        parallel: bool = False,
        in_doubt: DoubtMode = "tell",
    ) -> list[dict[str, Any]]:
        seq, calls = await self._pool.run(self._sync._requested, reply, dispatch, effects)
        if parallel:
            ended = await asyncio.gather(*(self._attempt(call) for call in calls))
        else:
            ended = [await self._attempt(call) for call in calls]
        return await self._pool.run(self._sync._told, seq, ended, in_doubt)

    async def _attempt(self, calling: Calling) -> Outcome | StatorError:
        try:
            return await self._drive(calling)
        except ApprovalNeeded as needed:
            return needed

    async def end(self) -> None:
        await self._pool.run(self._sync.end)

    async def abort(self, why: str) -> None:
        await self._pool.run(self._sync.abort, why)

    async def __aenter__(self) -> AsyncTurn:
        self._token = current_turn.set(self)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: object
    ) -> None:
        if self._token is not None:
            current_turn.reset(self._token)
            self._token = None
        await self._pool.run(self._sync.__exit__, kind, error, trace)


class _Opening(Generic[T]):
    """What is both awaited and entered: `async with s.turn(…) as t`, or `t = await s.turn(…)`."""

    def __init__(self, opening: Callable[[], Any]) -> None:
        self._opening = opening
        self._opened: Any = None

    def __await__(self) -> Any:
        return self._opening().__await__()

    async def __aenter__(self) -> T:
        self._opened = await self._opening()
        entered: T = await self._opened.__aenter__()
        return entered

    async def __aexit__(self, *exc: Any) -> None:
        await self._opened.__aexit__(*exc)


class AsyncDoubt:
    """`OpenDoubt`, awaited."""

    def __init__(self, doubt: OpenDoubt, pool: Pool) -> None:
        self._sync = doubt
        self._pool = pool

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sync, name)

    async def settle(self, verdict: Verdict, value: Any = UNSET, *, why: str = "") -> Settled:
        return await self._pool.run(self._sync.settle, verdict, value, why=why)


class AsyncSession(AsyncView, AsyncMarker, Generic[A]):
    """`Session`, awaited."""

    def __init__(self, session: Session[A], pool: Pool) -> None:
        AsyncView.__init__(self, session, pool)
        self._session = self._recorder = self._marker = session

    def turn(self, prompt: Any = None, *, key: str = "", new: bool = False) -> _Opening[AsyncTurn]:
        async def begin() -> AsyncTurn:
            turn = await self._pool.run(self._session.turn, prompt, key=key, new=new)
            return AsyncTurn(turn, self._pool)

        return _Opening(begin)

    async def recovery(self) -> Recovery:
        return await self._pool.run(lambda: self._session.recovery)

    async def in_doubt(self) -> list[AsyncDoubt]:
        found = await self._pool.run(lambda: self._session.in_doubt)
        return [AsyncDoubt(doubt, self._pool) for doubt in found]

    def wrap(
        self, dispatch: Dispatch, *, effects: Effects | None = None, in_doubt: DoubtMode = "tell"
    ) -> Callable[[str, Mapping[str, Any]], Awaitable[Any]]:
        async def recorded(name: str, arguments: Mapping[str, Any]) -> Any:
            calling = self._session._wrapped(name, arguments, dispatch, effects)
            outcome = await drive(calling, self._pool)
            return unwrapped(outcome, in_doubt)

        return recorded

    async def compact(
        self,
        *,
        max_tokens: int | None = None,
        keep: int = KEEP,
        strategy: Sequence[Level] = LEVELS,
        summary: Summary | None = None,
        provider: Dialect = "plain",
        count_tokens: Callable[[str], int] | None = None,
        scratch: bool = False,
    ) -> Compaction:
        return await self._pool.run(
            self._session.compact,
            max_tokens=max_tokens,
            keep=keep,
            strategy=strategy,
            summary=summary,
            provider=provider,
            count_tokens=count_tokens,
            scratch=scratch,
        )

    async def undo_compaction(self) -> Compaction:
        return await self._pool.run(self._session.undo_compaction)

    async def track(
        self,
        root: str = "",
        *,
        contents: bool = False,
        ignore: Sequence[str] = (),
        max_bytes: int = BYTES_MAX,
    ) -> None:
        await self._pool.run(
            self._session.track, root, contents=contents, ignore=ignore, max_bytes=max_bytes
        )

    def child(
        self,
        name: str,
        *,
        agent: str = "",
        budget: Mapping[str, int] | None = None,
        busy: HeldMode = "fail",
    ) -> _Opening[AsyncSession[Any]]:
        async def begin() -> AsyncSession[Any]:
            child = await self._pool.run(
                self._session.child, name, agent=agent, budget=budget, busy=busy
            )
            return AsyncSession(child, self._pool)

        return _Opening(begin)

    async def fork(self, at: str = "head", *, name: str = "") -> str:
        return await self._pool.run(self._session.fork, at, name=name)

    async def rewind(self, to: str) -> Rewound:
        return await self._pool.run(self._session.rewind, to)

    @contextlib.asynccontextmanager
    async def retry(
        self, turn: str, *, effects: RetryEffects = "ask", prompt: Any = None, name: str = ""
    ) -> AsyncIterator[AsyncTurn]:
        again, asked = await self._pool.run(
            self._session._begin_retry, turn, effects=effects, prompt=prompt, name=name
        )
        async with AsyncSession(again, self._pool) as session, session.turn(asked) as retried:
            yield retried

    async def adopt(self, ref: str) -> Adopted:
        return await self._pool.run(self._session.adopt, ref)

    async def rerun(
        self,
        tools: Tools,
        span: str | None = None,
        *,
        effects: RerunEffects = "ask",
        name: str = "",
    ) -> Rerun:
        return await self._pool.run(self._session.rerun, tools, span, effects=effects, name=name)

    async def pause(self, reason: str = "user") -> None:
        await self._pool.run(self._session.pause, reason)

    async def close(self, reason: str = "done") -> None:
        await self._pool.run(self._session.close, reason)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: object
    ) -> None:
        await self._pool.run(self._session.__exit__, kind, error, trace)


class AsyncContributor(AsyncMarker):
    """`Contributor`, awaited."""

    def __init__(self, contributor: Contributor, pool: Pool) -> None:
        self._recorder = self._marker = self._contributor = contributor
        self._pool = pool

    async def pause(self, reason: str = "user") -> Moved:
        return await self._pool.run(self._contributor.pause, reason)

    async def resume(self, reason: str = "user") -> Moved:
        return await self._pool.run(self._contributor.resume, reason)

    async def close(self, reason: str = "done") -> Moved:
        return await self._pool.run(self._contributor.close, reason)

    async def archive(self, reason: str = "done") -> Moved:
        return await self._pool.run(self._contributor.archive, reason)

    async def rewind(self, to: str) -> Rewound:
        return await self._pool.run(self._contributor.rewind, to)

    async def adopt(self, ref: str) -> Adopted:
        return await self._pool.run(self._contributor.adopt, ref)

    async def approve(
        self, call: str, *, scope: Scope = "once", pattern: str = "", expires: int = 0
    ) -> Grant:
        return await self._pool.run(
            self._contributor.approve, call, scope=scope, pattern=pattern, expires=expires
        )

    async def deny(self, call: str, *, why: str = "") -> Grant:
        return await self._pool.run(self._contributor.deny, call, why=why)

    async def settle(
        self, call: str, verdict: Verdict, value: Any = UNSET, *, why: str = ""
    ) -> Settled:
        return await self._pool.run(self._contributor.settle, call, verdict, value, why=why)

    async def budget(self, *amounts: str) -> dict[str, int]:
        return await self._pool.run(self._contributor.budget, *amounts)


class AsyncStore(AsyncRunner, AsyncKeeper):
    """`Store`, awaited."""

    _sync: Store

    def __init__(self, store: Store, pool: Pool | None = None) -> None:
        self._sync = store
        self._pool = pool or Pool()

    async def info(self) -> StoreInfo:
        return await self._pool.run(self._sync.info)

    async def close(self) -> None:
        if not self._pool.closed:
            await self._pool.run(self._sync.close)
            self._pool.close()

    async def sync(self) -> None:
        await self._pool.run(self._sync.sync)

    async def __aenter__(self) -> AsyncStore:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

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
    ) -> _Opening[AsyncSession[Any]]:
        async def begin() -> Any:
            session = await self._pool.run(
                self._sync.open,
                name,
                agent=agent,
                project=project,
                tenant=tenant,
                labels=labels,
                budget=budget,
                aliases=aliases,
                app=app,
                app_version=app_version,
                upcasts=upcasts,
                busy=busy,
                rules=rules,
                approve=approve,
                prices=prices,
            )
            view: SessionView = session
            if isinstance(view, Session):
                return AsyncSession(view, self._pool)
            return AsyncView(view, self._pool)

        return _Opening(begin)

    async def read(self, name: str, *, project: str | None = None, **app: Any) -> AsyncView:
        view = await self._pool.run(self._sync.read, name, project=project, **app)
        return AsyncView(view, self._pool)

    async def contribute(self, name: str, *, principal: str = "") -> AsyncContributor:
        made = await self._pool.run(self._sync.contribute, name, principal=principal)
        return AsyncContributor(made, self._pool)

    async def fork(
        self, name: str, at: str = "head", *, as_name: str = "", kind: ParentKind = "fork"
    ) -> AsyncView:
        view = await self._pool.run(self._sync.fork, name, at, as_name=as_name, kind=kind)
        return AsyncView(view, self._pool)

    async def ingest(
        self, commits: Iterable[Commit], *, projects: Mapping[str, str] | None = None
    ) -> int:
        return await self._pool.run(self._sync.ingest, commits, projects=projects)

    async def export(
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
        return await self._pool.run(
            self._sync.export,
            names,
            path,
            tree=tree,
            redact=redact,
            transcript=transcript,
            passphrase=passphrase,
            fixture=fixture,
            replace=replace,
            progress=progress,
        )

    async def import_bundle(
        self,
        path: str | PathLike[str],
        *,
        project: str | None = None,
        passphrase: str | Callable[[], str] | None = None,
        dry_run: bool = False,
        progress: Progress | None = None,
    ) -> Imported:
        return await self._pool.run(
            self._sync.import_bundle,
            path,
            project=project,
            passphrase=passphrase,
            dry_run=dry_run,
            progress=progress,
        )

    async def sessions(
        self,
        *,
        project: str | None = None,
        agent: str | None = None,
        status: str | None = None,
        cursor: tuple[int, ...] | None = None,
        limit: int = 100,
    ) -> Page[SessionRow]:
        return await self._pool.run(
            self._sync.sessions,
            project=project,
            agent=agent,
            status=status,
            cursor=cursor,
            limit=limit,
        )

    async def calls(
        self,
        *,
        project: str | None = None,
        statuses: Sequence[str] = (),
        tool: str | None = None,
        cursor: tuple[int, ...] | None = None,
        limit: int = 100,
    ) -> Page[CallRow]:
        return await self._pool.run(
            self._sync.calls,
            project=project,
            statuses=statuses,
            tool=tool,
            cursor=cursor,
            limit=limit,
        )

    async def views(self, *, project: str | None = None) -> AsyncIterator[AsyncView]:
        views = self._sync.views(project=project)
        while (view := await self._pool.run(next, views, None)) is not None:
            yield AsyncView(view, self._pool)

    async def files(
        self, *, last: int | None = 5, reads: bool = False, project: str | None = None
    ) -> list[FileChange]:
        return await self._pool.run(self._sync.files, last=last, reads=reads, project=project)

    async def decisions(
        self, *, standing: bool | None = None, project: str | None = None
    ) -> list[DecisionLine]:
        return await self._pool.run(self._sync.decisions, standing=standing, project=project)

    async def artifact(self, name: str, *, project: str | None = None) -> Document:
        return await self._pool.run(self._sync.artifact, name, project=project)

    async def search(
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
        fresh: bool = True,
        progress: SearchProgress | None = None,
    ) -> list[Hit]:
        return await self._pool.run(
            self._sync.search,
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
            fresh=fresh,
            progress=progress,
        )

    async def why(
        self, path: str, *, root: str = ".", project: str | None = None, limit: int = 50
    ) -> list[Reason]:
        return await self._pool.run(self._sync.why, path, root=root, project=project, limit=limit)
