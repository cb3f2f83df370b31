"""A session this program drives: its runs, its turns, and what it leaves behind."""

from __future__ import annotations

import contextlib
import contextvars
import functools
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

import msgspec
from msgspec import UNSET

from stator.errors import (
    ApprovalNeeded,
    BadDelta,
    BadTurn,
    BudgetSpent,
    Busy,
    LeaseLost,
    Paused,
    StatorError,
    WrongProcess,
    WrongState,
)
from stator.model.calls import known as replay
from stator.model.calls.known import Known, Scrub
from stator.model.calls.life import (
    Asked,
    Granted,
    Raised,
    Refused,
    Returned,
    Stop,
    judge,
)
from stator.model.log.commit import (
    CONTINUED,
    Commit,
    Draft,
    Provenance,
    Remove,
    Upsert,
)
from stator.model.log.query import Lease, SessionRow
from stator.model.records.registry import SHOWN
from stator.model.records.types import (
    FileRecord,
    RunRecord,
    SessionRecord,
    ToolRecord,
)
from stator.model.sessions.lifecycle import check_budget
from stator.model.values.ids import retype, run_id
from stator.model.window.compaction import LEVELS, Level
from stator.model.window.reply import Dialect
from stator.model.window.transcript import CountTokens, Transcript
from stator.runtime.base.arguments import cause, mapping, text
from stator.runtime.base.context import Context, warn_on_loop
from stator.runtime.base.first_commit import opening
from stator.runtime.branches import fork as forks
from stator.runtime.branches import retry as retries
from stator.runtime.branches import rewind as rewinding
from stator.runtime.branches.retry import Adopted, RetryEffects
from stator.runtime.branches.rewind import Rewound
from stator.runtime.driving import (
    children,
    lifecycle,
    recovery,
    settlement,
)
from stator.runtime.driving.call import FROM_TOOL, Calling
from stator.runtime.driving.loop import (
    Dispatch,
    DoubtMode,
    Effects,
    by_name,
    offered,
    unwrapped,
)
from stator.runtime.driving.observe import begin_tracking
from stator.runtime.driving.outside_requests import Boundary
from stator.runtime.driving.policy import (
    Gate,
    Limits,
    Terms,
    answer,
)
from stator.runtime.driving.recovery import Past, Recovery
from stator.runtime.driving.settlement import OpenDoubt
from stator.runtime.driving.tools import Tool
from stator.runtime.driving.turn import Turn, file_draft
from stator.runtime.facade.annotations import Marker
from stator.runtime.files import git
from stator.runtime.files.capture import (
    BYTES_MAX,
    ContentKeeper,
    record_kept,
    scrub_of,
)
from stator.runtime.views.refs import followed
from stator.runtime.views.session import SessionView
from stator.runtime.window import compaction
from stator.runtime.window.transcript import Rendering
from stator.store import port

if TYPE_CHECKING:
    from stator.runtime.branches.rerun import Effects as RerunEffects
    from stator.runtime.branches.rerun import Rerun, Tools

A = TypeVar("A")
T = TypeVar("T")
FROM_USER = Provenance("user", "verified")
INPUTS_MAX = 100
PARALLEL_MAX = 32
"""Calls of one response that run at once."""
ENDED = {"pause": "paused", "close": "closed"}
HeldMode = Literal["fail", "wait", "fork", "take"]
POLL_S = 0.25
"""How often a session that somebody else drives is asked for again."""


class Began(msgspec.Struct):
    """How a turn began."""

    id: str
    number: int
    how: Literal["new", "continued", "reused"] = "new"
    known: Known | None = None


class Session(SessionView, Marker, Generic[A]):
    """A session this program drives, from `open` until the `with` block is left."""

    def __init__(
        self,
        store: port.Store,
        row: SessionRow,
        context: Context,
        lease: Lease,
        terms: Terms,
        *,
        program: list[list[int]] | None = None,
        **app: Any,
    ) -> None:
        super().__init__(store, row.id, **app)
        self.context = context
        self._terms = terms
        self._principal = context.principal
        self._open_turn: Turn | None = None
        self._lease = lease
        self._run = run_id(row.id, lease.epoch)
        self._root = context.root
        self._tracked = ""
        self._keeper: ContentKeeper | None = None
        self._in_git = bool(context.root) and git.in_git(context.root)
        self._left = False
        self._lock = threading.RLock()
        self._place = 0
        """How many turns this run has come to."""
        self._matching = True
        self._since: list[int] = []
        self._rendering = Rendering(store, row.id)
        self._offered: dict[str, str] | None = None
        self._last_run = recovery.last_run(store, row, program)
        self._on_leave: Callable[[str], None] = lambda status: None
        self._boundary: Boundary | None = None
        began = self._begin(row)
        self._began = began.seq
        self._boundary = Boundary(store, row.id, self._run, began.seq)
        self._limits = Limits(store, row.id)
        self._boundary.changed = self._limits.refresh
        self._found = recovery.report(store, row.id, self._last_run)
        self._timed = context.monotonic()

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

    def _append(self, drafts: Sequence[Draft], *, if_head: str | None = None) -> list[Commit]:
        if self._left:
            raise WrongState(f"session {self._id} was left", hint="open it again", session=self._id)
        boundary = self._boundary
        if boundary is None:
            return self._store.append(self._id, drafts, fresh=True, if_head=if_head)
        boundary.sending(len(drafts))
        try:
            commits = self._store.append(self._id, drafts, fresh=True, if_head=if_head)
        except BaseException:
            boundary.failed(len(drafts))
            raise
        boundary.landed(commits)
        self._count(commits)
        return commits

    def _count(self, commits: Sequence[Commit]) -> None:
        """What the next answer of the model will be derived from."""
        with self._lock:
            for commit in commits:
                if commit.kind == "entry" and commit.actor == "model":
                    self._since.clear()
                elif commit.kind in SHOWN:
                    self._since.append(commit.seq)

    def _since_answer(self) -> tuple[int, ...]:
        with self._lock:
            return tuple(self._since[-INPUTS_MAX:])

    def _submit(self, draft: Draft) -> str:
        return self._append([draft])[0].id

    def _record_file(self, record: FileRecord, why: str) -> str:
        keeper = self._keeper
        if keeper is None:
            return super()._record_file(record, why)
        plain = file_draft(self, record, why)
        return record_kept(keeper, record, plain, self._draft, self._append)

    @functools.cached_property
    def _scrub(self) -> Scrub:
        """What this session's texts are redacted with."""
        return scrub_of(self._store, self._id)

    # -- beginning --------------------------------------------------------------------------------

    def _begin(self, row: SessionRow) -> Commit:
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
        spans = self._last_run.spans
        begin = self._draft(
            kind,
            actor="system",
            principal=context.principal,
            input={"program": spans} if spans else UNSET,
            changes=(Upsert("runs", run),),
        )
        left = lifecycle.close_out(self._store, self._lease, self._draft)
        return self._append([*left, begin])[-1]

    def _git(self) -> dict[str, str] | None:
        return git.facts(self._root) if self._in_git else None

    @property
    def recovery(self) -> Recovery:
        """What the last run left, as this one found it: interrupted or not, and what became of its
        calls."""
        return self._found

    @property
    def in_doubt(self) -> list[OpenDoubt]:
        """Calls that may or may not have happened, each with `settle`."""
        found = settlement.doubts(self._store, session=self._id)
        return [OpenDoubt(self._store, self.context, doubt) for doubt in found]

    # -- driving ----------------------------------------------------------------------------------

    def turn(self, prompt: Any = None, *, key: str = "", new: bool = False) -> Turn:
        """Begin a turn: `with s.turn("fix the login bug") as t`.

        If the last run was interrupted and this is the turn it had come to, it goes on there
        (`t.continued`), or comes from the record if it had ended (`t.reused`). `key` pins a turn
        whatever its prompt; `new=True` begins afresh.
        """
        warn_on_loop()
        self._open_turn = Turn(self, prompt, key=key, new=new)
        return self._open_turn

    def _begin_turn(self, prompt: Any, *, key: str, new: bool) -> Began:
        self._check_terms()
        self._place += 1
        past = None if new else self._past(prompt, key)
        if past is not None:
            return self._again(past)
        self._check_terms(turns=True)
        self._matching = False
        draft = self._draft(
            "turn", input=prompt, key=key, attempt=self._place, actor="user", provenance=FROM_USER
        )
        commit = self._append([draft])[0]
        return Began(retype(commit.id, "turn"), commit.turn)

    def _past(self, prompt: Any, key: str) -> Past | None:
        """The recorded turn that this one is, if the same program runs again."""
        spans = self._last_run.spans
        if key:
            return recovery.keyed(self._store, self._id, spans, key)
        number = replay.turn_at(spans, self._place) if self._matching else None
        if number is None:
            return None
        found = recovery.past(self._store, self._id, number)
        return found if found.asked(prompt, self._scrub) else None

    def _again(self, past: Past) -> Began:
        row = past.row
        identifier = retype(past.first.id, "turn")
        known = recovery.known(self._store, self._id, row)
        last = self._store.head(self._id).turn == row.turn
        if row.status != "interrupted" or not last:
            return Began(identifier, row.turn, "reused", known)
        self._append([self._draft("turn", status=CONTINUED, attempt=self._place, actor="system")])
        return Began(identifier, row.turn, "continued", known)

    def wrap(
        self, dispatch: Dispatch, *, effects: Effects | None = None, in_doubt: DoubtMode = "tell"
    ) -> Callable[[str, Mapping[str, Any]], Any]:
        """A dispatch function that records: the same name and arguments in, the same result out.

        A doubt is told to the model as a result (`in_doubt="raise"` raises it); a failure raises.
        """

        def recorded(name: str, arguments: Mapping[str, Any]) -> Any:
            return unwrapped(self._wrapped(name, arguments, dispatch, effects).drive(), in_doubt)

        return recorded

    def _wrapped(
        self,
        name: str,
        arguments: Mapping[str, Any],
        dispatch: Dispatch,
        effects: Effects | None,
    ) -> Calling:
        turn = self._open_turn
        if turn is None or turn.ended:
            raise BadTurn(
                f"no turn of session {self._id} is open",
                hint="with session.turn(…) first",
                session=self._id,
            )
        return by_name(turn, name, arguments, dispatch, effects)

    def track(
        self,
        root: str = "",
        *,
        contents: bool = False,
        ignore: Sequence[str] = (),
        max_bytes: int = BYTES_MAX,
    ) -> None:
        """Look at the files of a folder before and after each call that is not a read, and record
        what changed; with `contents` also what they held, but for what git or `ignore` ignores."""
        self._tracked, self._keeper = begin_tracking(
            self, root, contents=contents, ignore=ignore, max_bytes=max_bytes
        )

    def child(
        self,
        name: str,
        *,
        agent: str = "",
        budget: Mapping[str, int] | None = None,
        busy: HeldMode = "fail",
    ) -> Session[Any]:
        """Open the session of a sub-agent: `with s.child("research") as c`.

        Its id is recorded here before it starts, its end when it is left. Run again, the same name
        continues the same child.
        """
        known, program = children.announce(self, name)
        record = children.child_record(
            self, known, agent=agent, budget=check_budget(mapping(budget, "budget"))
        )
        child = drive(self._store, self.context, record, self._terms, busy=busy, program=program)
        child._on_leave = lambda status: children.conclude(self, known, child, status)
        return child

    def fork(self, at: str = "head", *, name: str = "") -> str:
        """Start another session from a position of this one; its id."""
        return forks.fork(self._store, self.context, self.at(at), name=name, kind="fork").id

    def rewind(self, to: str) -> Rewound:
        """Go back to a position, between turns: the state is what it was, and so is what a model is
        shown. Nothing leaves the log, and nothing outside it is undone."""
        return rewinding.rewind_driven(self, to)

    @contextlib.contextmanager
    def retry(
        self, turn: str, *, effects: RetryEffects = "ask", prompt: Any = None, name: str = ""
    ) -> Iterator[Turn]:
        """Try a turn again, beside this session: `with s.retry("t5") as t`.

        A fork of the end of the turn before, called `NAME~t5.2` unless it is given a name, driven
        for as long as the block lasts. It begins with the prompt of that turn, or another one. Its
        writes need a person's yes, unless `effects="run"`. Given the name of a retry that is there,
        it goes on with that one.
        """
        again, asked = self._begin_retry(turn, effects=effects, prompt=prompt, name=name)
        with again, again.turn(asked) as retried:
            yield retried

    def _begin_retry(self, turn: str, **options: Any) -> tuple[Session[Any], Any]:
        return retries.begin(self, turn, **options)

    def adopt(self, ref: str) -> Adopted:
        """Go on from a retry or a fork of this session (`t5.2`): its name leads there from now on.
        `t5.1` takes that back."""
        return retries.adopt(self, ref, self.context, self._principal, driven=self)

    def rerun(
        self,
        tools: Tools,
        span: str | None = None,
        *,
        effects: RerunEffects = "ask",
        name: str = "",
    ) -> Rerun:
        """Make the recorded calls again, of all turns or of some (`"t3..t5"`), and say what ended otherwise.

        It happens in a retry of its own. Writes wait for a person's yes, or `effects="run"` lets them run.
        """
        from stator.runtime.branches import rerun as reruns

        return reruns.rerun(
            self._store,
            self.context,
            self._id,
            tools,
            span,
            effects=effects,
            name=name,
            driver=self._terms,
        )

    def _stop(self) -> Stop | None:
        """Somebody's wish that this run end, if there is one."""
        asked = None if self._boundary is None else self._boundary.asked
        return None if asked is None else Stop(asked, "pause requested")

    def _check_terms(self, *, turns: bool = False) -> None:
        """Before anything new begins: raise if somebody asked to pause, or a limit is reached."""
        error = self._boundary.asked if self._boundary is not None else None
        running = {"seconds": int(self.context.monotonic() - self._timed)}
        stop = error or self._limits.spent(running, turns=turns)
        if stop is not None:
            raise stop

    def _elapsed(self) -> dict[str, int] | None:
        """Whole seconds since this was last asked, as spend."""
        now = self.context.monotonic()
        seconds = int(now - self._timed)
        self._timed += seconds
        return {"seconds": seconds} if seconds else None

    def _cost(self, usage: dict[str, int], model: Any) -> dict[str, int]:
        """What an answer used, with its price where that is known."""
        return self._terms.priced(usage, model if isinstance(model, str) else "")

    def _gate(self, tool: Tool[..., Any], given: dict[str, Any]) -> tuple[Gate, str]:
        """Whether a call may run as it is, and why not."""
        return self._terms.gate(tool, given)

    def _answer(self, asked: Asked) -> Granted | Refused | None:
        """What people have said to a call so far; raises where they want the run to end instead."""
        said = answer(self._store, self.context, self._id, asked, self._scrub)
        if said is None and self._terms.waits and self._boundary is not None:
            self._boundary.look()
            if self._boundary.asked is not None:
                raise self._boundary.asked
        return said

    # -- the transcript ---------------------------------------------------------------------------

    def _transcript(self) -> Transcript:
        """Everything said so far; read once, then only what is new."""
        with self._lock:
            return self._rendering.current()

    def compact(
        self,
        *,
        max_tokens: int | None = None,
        keep: int = compaction.KEEP,
        strategy: Sequence[Level] = LEVELS,
        summary: compaction.Summary | None = None,
        provider: Dialect = "plain",
        count_tokens: CountTokens | None = None,
        scratch: bool = False,
    ) -> compaction.Compaction:
        """Shorten what `t.messages` renders until it fits, and record which keys left the view.

        The latest `keep` answers stay whole. Of those before, long outputs go first, then calls
        with their results, then everything but what `summary` makes of it: a text, or a function
        of the messages. Without `max_tokens` every level of `strategy` is applied. Nothing leaves
        the log or the durable state; `scratch=True` drops old notes.
        """
        options = compaction.Options(
            max_tokens=max_tokens,
            keep=keep,
            strategy=strategy,
            summary=summary,
            provider=provider,
            count_tokens=count_tokens,
            scratch=scratch,
        )
        return compaction.compact(self, options)

    def undo_compaction(self) -> compaction.Compaction:
        """Show again what the last compaction left out, exactly as it was; again: the one before."""
        return compaction.undo(self)

    def _looks_anew(self) -> None:
        """After a rewind: what was said, offered and matched before it is read again."""
        with self._lock:
            self._rendering.forget()
            self._offered, self._matching = None, False
            self._since.clear()
            self._last_run = recovery.cut(self._store, self._id, self._last_run)

    def _offer(self, tools: Any) -> None:
        """Record what is offered to the model where that changed since it was last offered."""
        now = offered(tools)
        with self._lock:
            if self._offered is None:
                self._offered = {
                    record.name: record.definition
                    for entry in self._store.entries(self._id, "tools")
                    if isinstance(record := entry.record, ToolRecord)
                    and record.available
                    and record.definition
                }
            before, self._offered = (
                self._offered,
                {name: digest for name, (digest, _) in now.items()},
            )
        changed = {name: found for name, found in now.items() if before.get(name) != found[0]}
        gone = [name for name in before if name not in now]
        if not changed and not gone:
            return
        records = [
            ToolRecord(name=name, definition=digest) for name, (digest, _) in changed.items()
        ]
        records += [ToolRecord(name=name, available=False) for name in gone]
        self._submit(
            self._draft(
                "tools",
                input=[definition for _, definition in changed.values()],
                changes=tuple(Upsert("tools", record) for record in records),
            )
        )

    def _together(self, calls: Sequence[Callable[[], T]]) -> list[T]:
        """Run several calls at once, each in a thread of its own, in this context."""
        if len(calls) < 2:
            return [call() for call in calls]
        with ThreadPoolExecutor(min(len(calls), PARALLEL_MAX), "stator call") as pool:
            begun = [pool.submit(contextvars.copy_context().run, call) for call in calls]
            return [future.result() for future in begun]

    def _settle_late(self, asked: Asked, done: Future[Any]) -> None:
        """A tool answered after its time was up: what it says settles the call, if still in doubt."""
        error = done.exception()
        outcome, fields, _ = judge(asked, Raised(error) if error else Returned(done.result()))
        if outcome.status == "in doubt":
            return
        with contextlib.suppress(BadDelta, LeaseLost, WrongState, WrongProcess):
            # Somebody settled it meanwhile, or this run is over: what they know stands.
            self._submit(
                self._draft(
                    "settlement",
                    call=asked.call,
                    tool=asked.tool,
                    effect=asked.effect,
                    status=outcome.status,
                    cause="late result",
                    output=fields.get("output", UNSET),
                    actor="tool",
                    provenance=FROM_TOOL,
                )
            )

    # -- leaving ----------------------------------------------------------------------------------

    def pause(self, reason: str = "user") -> None:
        """End the run and leave the session paused."""
        self._leave("pause", reason)

    def close(self, reason: str = "done") -> None:
        """End the run and close the session: it takes no more turns until it is resumed."""
        self._leave("close", reason)

    def _leave(self, kind: str, reason: str, *, interrupted: bool = False) -> None:
        if self._left:
            return
        reason = cause(text(reason, "reason"))
        turn = self._open_turn
        in_turn = turn is not None and not turn.ended and not turn.reused
        ended = (Remove("runs", self._run),)
        status = "interrupted" if interrupted or in_turn else "ok"
        drafts = [
            self._draft(
                "run_end",
                status=status,
                cause=reason,
                actor="system",
                attempt=self._place,  # 0: it came to no turn
                inputs=(self._began,),
                changes=ended,
            ),
            self._draft(kind, cause=reason, actor="system"),
        ]
        try:
            if turn is not None and in_turn:
                turn._interrupt(f"left: {reason}")
            self._append(drafts)
        finally:
            self._left = True
            self._store.release(self._lease)
        self._on_leave("interrupted" if status != "ok" else ENDED[kind])

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: object
    ) -> None:
        if isinstance(error, LeaseLost):  # whoever drives it now has said what this run left
            self._left = True
            self._store.release(self._lease)
            return
        turn = self._open_turn
        between = turn is None or (turn.ended and turn._how != "interrupted")
        # Leaving between turns with Ctrl-C or exit() is leaving in order.
        in_order = error is None or (between and isinstance(error, (KeyboardInterrupt, SystemExit)))
        self._leave("pause", why_left(error), interrupted=not in_order)


def drive(
    store: port.Store,
    context: Context,
    record: SessionRecord,
    terms: Terms,
    *,
    busy: HeldMode = "fail",
    program: list[list[int]] | None = None,
    exact: bool = False,
    **app: Any,
) -> Session[Any]:
    """Create a session or take it up again, under the lease. Found by its name, it is the one that goes
    on for it; `exact`: that one."""
    row, _ = store.create([opening(context, record)])
    if row.id != record.id and not exact:
        row = followed(store, row)
    return take_up(store, context, row, terms, busy=busy, program=program, **app)


def take_up(
    store: port.Store,
    context: Context,
    row: SessionRow,
    terms: Terms,
    *,
    busy: HeldMode = "fail",
    program: list[list[int]] | None = None,
    **app: Any,
) -> Session[Any]:
    """Drive a session that is there."""
    lease = _acquire(store, context, row, busy)
    if lease is None:
        row = forks.fork(store, context, forks.head_of(store, row), kind="fork")
        lease = store.acquire(row.id, lifecycle.holder(context))
    try:
        row = store.session(row.id)
        terms = retries.terms_of(store, row.record, terms)
        return Session(store, row, context, lease, terms, program=program, **app)
    except StatorError:
        store.release(lease)
        raise


def _acquire(store: port.Store, context: Context, row: SessionRow, busy: HeldMode) -> Lease | None:
    """The lease; None where a fork is to be driven instead."""
    if row.record.status == "archived":
        raise WrongState(
            f"session {row.record.name!r} is archived", hint="fork it to go on", session=row.id
        )
    while True:
        try:
            return store.acquire(row.id, lifecycle.holder(context), take=busy == "take")
        except Busy:
            if busy == "fork":
                return None
            if busy != "wait":
                raise
        context.sleep(POLL_S)


def why_left(error: BaseException | None) -> str:
    """The typed reason a session is paused for when its block is left like this."""
    if isinstance(error, Paused):
        return error.reason
    if isinstance(error, BudgetSpent):
        return "budget"
    if isinstance(error, ApprovalNeeded):
        return "approval"
    if error is None or isinstance(error, (KeyboardInterrupt, SystemExit)):
        return "user"
    return f"error: {type(error).__name__}"
