"""Drives a session: holds its lease and its run, and appends every commit that needs them.

Everything that works for a driven session (turns, calls, compaction, rewinds, children) is given
a `Driver`. `Session`, which people hold, is a thin layer over one.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Protocol, Self, TypeVar

import msgspec
from msgspec import UNSET

from stator.errors import (
    ApprovalNeeded,
    BadDelta,
    BudgetSpent,
    LeaseLost,
    Paused,
    StoreError,
    StoreUnreachable,
    WrongProcess,
    WrongState,
)
from stator.model.calls.known import Scrub
from stator.model.calls.life import (
    Asked,
    Granted,
    Refused,
    Stop,
    ToolRaised,
    ToolReturned,
    judge,
)
from stator.model.exchange.extraction_state import ExtractionState
from stator.model.extraction.evidence import ENDS, seen_commit
from stator.model.extraction.extractor import Extractor
from stator.model.log.commit import (
    Commit,
    Draft,
    Named,
    Provenance,
    Remove,
    Upsert,
)
from stator.model.log.edges import Edge, as_inputs
from stator.model.log.query import Lease, SessionRow
from stator.model.records.tables import DERIVED
from stator.model.records.types import FileRecord, RunRecord
from stator.model.values.ids import retype, run_id
from stator.model.window.reply import Dialect
from stator.model.window.transcript import Transcript
from stator.runtime.base.arguments import cause, text
from stator.runtime.base.context import Context
from stator.runtime.base.one_answer import one_answer
from stator.runtime.base.plan_checks import learn
from stator.runtime.base.unanswered_appends import UnansweredAppends
from stator.runtime.driving import lifecycle, recovery
from stator.runtime.driving.again.doubts_elsewhere import IN_DOUBT, DoubtsElsewhere
from stator.runtime.driving.again.turn_start import Changed, TurnStart, TurnStarts
from stator.runtime.driving.again.turns_of_children import TurnsOfChildren
from stator.runtime.driving.outside_requests import OutsideRequests
from stator.runtime.driving.policy import (
    Limits,
    Terms,
    answer,
)
from stator.runtime.driving.settings import OfferedTools, Settings
from stator.runtime.driving.tools import call_in, current_call
from stator.runtime.files import git
from stator.runtime.files.capture import ContentKeeper, record_kept, scrub_of
from stator.runtime.files.file_news import FileNews, notice_of
from stator.runtime.views.refs import intent_of
from stator.runtime.window.left_out import (
    AskedWith,
    RenderedMessages,
    cut_of,
    evictions,
)
from stator.runtime.window.shown import SHOWS, ShownRanges
from stator.runtime.window.transcript import Rendering
from stator.store.port import StorePort

T = TypeVar("T")
PARALLEL_MAX = 32
"""Calls of one response that run at once."""
LEARNED_AT = ENDS | {"approval"}  # before the tool runs, so that its outcome needs no read
ENDED = {"pause": "paused", "close": "closed"}


class CurrentTurn(Protocol):
    """What a driver must know of the turn that was begun last."""

    number: int
    ended: bool
    reused: bool
    how: str
    """How it ended; empty while it is open."""

    @property
    def is_ahead(self) -> bool:
        """Whether the record of an earlier run still has something for this turn."""
        ...

    def interrupt(self, cause: str) -> None: ...


NEEDED_TO_BEGIN = ("runs", "calls", "checks", "plan")
"""Collections that a driver reads before it begins a run."""


class Driver:
    """The lease and the run of one session, from opening it until it is left."""

    def __init__(
        self,
        store: StorePort,
        row: SessionRow,
        context: Context,
        lease: Lease,
        terms: Terms,
        *,
        program: list[list[int]] | None = None,
        taken: Callable[[Callable[..., Draft]], list[Draft]] = lambda draft: [],
        known: StorePort | None = None,
    ) -> None:
        """`taken` makes the commits that a first run begins with: what it takes over from another session. `known`
        is the store with what was read of it under the lease."""
        self.store = store
        self.id = row.id
        self.context = context
        self.lease = lease
        self.terms = terms
        self.principal = context.principal
        self.root = context.root
        self.run = run_id(row.id, lease.epoch)
        self.lock = threading.RLock()
        self.tracked = ""
        """The folder whose files are looked at before and after calls; may be empty."""
        self.keeper: ContentKeeper | None = None
        self.current: CurrentTurn | None = None
        self.left = False
        self.on_leave: Callable[[str], None] = lambda status: None
        """Called with the session's status once the run has ended."""
        self._in_git = bool(context.root) and git.in_git(context.root)
        self._shown = ShownRanges(store, row.id)
        self._rendered = RenderedMessages()
        self.asked_by = ""
        """Of a sub-agent: the commit of its parent that its turns were asked in."""
        self.child_answers: dict[str, list[str]] = {}
        """The last answers of the sub-agents that a call drove, by the call, until its outcome."""
        self.turns_of_children = TurnsOfChildren(store)
        self._rendering = Rendering(store, row.id)
        self._offered = OfferedTools(store, row.id)
        self._settings = Settings(store, row.id, lambda: self.scrub)
        known = known or one_answer(store)
        last = recovery.last_run(known, row, program, context.launch)
        self._turns = TurnStarts(self, last)
        self._outside: OutsideRequests | None = None
        self.unanswered = UnansweredAppends(row.id, self._append)
        self._taken = taken
        begun = self.begin_run(row, known)
        self.began = began = begun[0].seq
        if len(begun) > 1:  # what was read before is not so any more
            known = one_answer(store)
        self._outside = OutsideRequests(store, row.id, self.run, began)
        self._limits = Limits(store, row.record)
        self._outside.changed = self._limits.refresh
        self.recovered = recovery.report(known, row, last)
        self.doubts = DoubtsElsewhere(store, row.id, some=bool(self.recovered.in_doubt))
        self._timed = context.monotonic()
        self._extractor = Extractor(row.id, ExtractionState(folder=context.root.rstrip("/")))
        self._outside.planned = self._plan_changed
        self._plan_is_new = True
        self.learn_checks(known)
        folder = context.touch_folder(store)
        self._files = FileNews(store, row.id, folder, row.record.agent, context.root)

    # -- appending --------------------------------------------------------------------------------

    def draft(self, kind: str, *, id: str = "", **fields: Any) -> Draft:
        """A commit under this lease."""
        return Draft(
            id=id or self.context.mint("commit"),
            session=self.id,
            kind=kind,
            run=self.run,
            epoch=self.lease.epoch,
            **fields,
        )

    def append(self, drafts: Sequence[Draft], *, if_head: str | None = None) -> list[Commit]:
        """Append commits in one transaction, and notice what other processes appended."""
        if self.left:
            raise WrongState(
                f"the `with` block of session {self.id} has ended",
                hint="open it again",
                session=self.id,
            )
        if self.unanswered.lost is not None:
            return self.unanswered.send(drafts)
        try:
            return self._append(drafts, if_head, fresh=True)
        except StoreUnreachable as lost:
            # The answer counts as lost also if it is a read after the append that failed: the caller does not
            # get its commits either.
            raise self.unanswered.keep(drafts, lost) from lost

    def _append(self, drafts: Sequence[Draft], if_head: str | None, fresh: bool) -> list[Commit]:
        outside = self._outside
        if outside is None:  # the first commits of the run: what is before them is not news
            return self.store.append(self.id, drafts, fresh=fresh, if_head=if_head)
        outside.sending(len(drafts))
        try:
            commits = self.store.append(self.id, drafts, fresh=fresh, if_head=if_head)
        except BaseException:
            outside.failed(len(drafts))
            self.not_recorded(drafts)
            raise
        outside.landed(commits)
        with self.lock:
            for commit in commits:
                if commit.status == IN_DOUBT:
                    self.doubts.any = True
                if commit.kind in SHOWS and self._shown.landed(commit):
                    self._rendered.waits = False
            for draft in drafts:
                if draft.changes:
                    self._files.landed(draft)
        if fresh and self._plan_is_new:  # else the run only ends what it began
            self.learn_checks()
        return commits

    def _plan_changed(self) -> None:
        self._plan_is_new = True

    def learn_checks(self, known: StorePort | None = None) -> None:
        """Look for runs of the checks that others gave the plan, from now on and among the last."""
        self._plan_is_new = False
        with self.lock:
            found = learn(known or self.store, self._extractor)
        if found:
            self.append([self._of_run(draft) for draft in found])

    def _of_run(self, draft: Draft) -> Draft:
        return msgspec.structs.replace(draft, run=self.run, epoch=self.lease.epoch)

    def extract(self, draft: Draft) -> list[Draft]:
        """The drafts of what is found in a draft of this run: they follow it in the log."""
        with self.lock:
            if draft.kind in LEARNED_AT and self._extractor.lacks(draft.call):
                self._learn_call(draft)  # an earlier run began it
            found = self._extractor.drafts(draft)
        return [self._of_run(one) for one in found] if found else []

    def _learn_call(self, draft: Draft) -> None:
        try:
            intent = intent_of(self.store, self.id, draft.call)
        except StoreUnreachable as lost:
            raise self.unanswered.keep_unsent(draft, lost) from lost
        if intent is not None:
            self._extractor.see(seen_commit(intent), late=True)

    def submit(self, draft: Draft) -> str:
        """Append one commit; its id."""
        return self.append([draft, *self.extract(draft)])[0].id

    def record_file(self, keeper: ContentKeeper, record: FileRecord, plain: Draft) -> str:
        """Append the report of a file together with what the file holds."""
        return record_kept(keeper, record, plain, self.draft, self.append)

    # -- what is made from what -------------------------------------------------------------------

    def made_from(self, kind: str, fields: Mapping[str, Any]) -> tuple[Named, ...]:
        """What a commit of that kind is made from, if the program does not say: the call it is recorded in, else
        what the model was shown."""
        if kind == "entry":
            return self.asked_with().inputs if fields.get("actor") == "model" else ()
        if kind not in DERIVED or fields.get("call"):  # the call it belongs to is implied
            return ()
        if current_call.get() and (inside := call_in(self.id)):
            return (retype(inside, "commit"),)
        with self.lock:
            return self._shown.recent()

    def asked_with(self, given: Iterable[Any] | None = None) -> AskedWith:
        """What the model is shown that is asked with these arguments: the messages that were rendered last, if they
        are among them, else everything in view. Without arguments, how it was asked is not known: if messages were
        rendered since the last answer and did not hold everything, it was with these."""
        inside = call_in(self.id)
        with self.lock:
            last = self._rendered
            if given is None:
                is_last = last.waits
                inputs = last.inputs if is_last and last.cut else None
            else:
                is_last = last.are_in(given)
                inputs = last.inputs if is_last else None
            if inputs is None:
                inputs = self._shown.whole()
        made = (*inputs, retype(inside, "commit")) if inside else inputs
        return AskedWith(made, last.cut if is_last else None)

    @property
    def has_cut(self) -> bool:
        """Whether something may have been left out for an answer of which it is not known how it was asked for."""
        return self._rendered.waits and self._rendered.cut is not None

    def evictions_due(self, asked: AskedWith) -> list[Draft]:
        """The commit that records which turns an answer was made without, where that is not what the log has; it is
        appended with the answer."""
        if asked.cut is None:
            return []
        with self.lock:
            fields = evictions(self.store, self.id, self._rendering, asked.cut)
        return [self.draft("compaction", actor="system", **fields)] if fields else []

    def render(self, provider: Dialect, **options: Any) -> list[dict[str, Any]]:
        """The transcript as a provider takes it; what it was made from is remembered."""
        with self.lock:
            self._tell_of_files()
            transcript = self._rendering.current()
            messages = transcript.render(provider, **options)
            since, note = transcript.rendered_from, transcript.view.by
            shown = self._shown.whole(self._rendering.upto, since=since)
            # Where turns were left out, the note about a compaction still comes first.
            noted = (Edge(note, note),) if since and note and transcript.view.note else ()
            # What it quotes of these turns, the model was shown.
            quoted = (Edge(seq, seq) for seq in transcript.quotes)
            self._rendered = RenderedMessages(
                messages, (*as_inputs((*noted, *quoted)), *shown), cut_of(transcript)
            )
        return messages

    def _tell_of_files(self) -> None:
        """Record for the model that another session changed a file it knows; it is part of the transcript from here
        on, and stays the same."""
        news = self._files.news()
        if news and not self.left:
            text, changes = notice_of(self.store, news, self.context.clock())
            if text:
                self.append([self.draft("delivery", actor="system", output=text, changes=changes)])
            self._files.told(news)

    @functools.cached_property
    def scrub(self) -> Scrub:
        """What this session's texts are redacted with."""
        return scrub_of(self.store, self.id)

    def git_facts(self) -> dict[str, str] | None:
        """Branch and head of the working tree; None outside of one."""
        return git.facts(self.root) if self._in_git else None

    # -- beginning --------------------------------------------------------------------------------

    def begin_run(self, row: SessionRow, known: StorePort) -> list[Commit]:
        """Begin a run: record what the last one left open, then that this one began. That commit is the first of
        the answer."""
        context = self.context
        run = RunRecord(
            id=self.run,
            epoch=self.lease.epoch,
            host=context.host,
            pid=context.pid,
            program=context.program,
            since=context.clock(),
        )
        kind = "run" if row.record.status in ("open", "active") else "resume"
        begin = self.draft(
            kind,
            actor="system",
            principal=context.principal,
            input=self._turns.program() or UNSET,
            changes=(Upsert("runs", run),),
        )
        # In the same transaction: a crash between the two would leave a live run whose
        # predecessor's calls look as if they still ran.
        left = lifecycle.close_out(known, self.lease, self.draft, row.record)
        # So is what it takes over from the session that it continues: all of it or none, once.
        made = self.append([*left, begin, *self._taken(self.draft)])
        return [made.pop(len(left)), *made]

    def begin_turn(self, prompt: Any, *, key: str, new: bool, changed: Changed) -> TurnStart:
        """Begin a turn, or find the one on record that the program has reached again."""
        return self._turns.begin(prompt, key=key, new=new, changed=changed)

    # -- what may run -----------------------------------------------------------------------------

    def stop(self) -> Stop | None:
        """The request of another process to end this run, or None."""
        asked = None if self._outside is None else self._outside.asked
        return None if asked is None else Stop(asked, "pause requested")

    def check_terms(self, *, turns: bool = False) -> None:
        """Before anything new begins: raise if a pause was requested or a limit is reached."""
        if self._outside is not None and self._outside.asked is not None:
            raise self._outside.asked
        if self._limits.some:
            running = {"seconds": int(self.context.monotonic() - self._timed)}
            stop = self._limits.spent(running, turns=turns)
            if stop is not None:
                raise stop

    def elapsed(self) -> dict[str, int] | None:
        """Whole seconds since this was last asked, as spend."""
        now = self.context.monotonic()
        seconds = int(now - self._timed)
        # The fraction of a second is left for the next time: many short turns must not cost nothing.
        self._timed += seconds
        return {"seconds": seconds} if seconds else None

    def cost(self, usage: dict[str, int], model: Any) -> dict[str, int]:
        """What an answer used, with its price where that is known."""
        return self.terms.priced(usage, model if isinstance(model, str) else "")

    def answer(self, asked: Asked) -> Granted | Refused | None:
        """What people answered to a call so far; raises if they asked the run to end instead."""
        said = answer(self.store, self.context, self.id, asked, self.scrub)
        if said is None and self.terms.waits and self._outside is not None:
            self._outside.look()
            if self._outside.asked is not None:
                raise self._outside.asked
        return said

    # -- the model's view -------------------------------------------------------------------------

    def transcript(self) -> Transcript:
        """Everything the model is shown; read once, then only what is new."""
        with self.lock:
            return self._rendering.current()

    def offer(self, tools: Any) -> None:
        """Record which tools the model is offered, where that changed since the last request."""
        with self.lock:
            changed = self._offered.changes(tools)
            self._settings.see({"tools": self._offered.digests})
            if changed is not None:
                changed["changes"] += self._settings.take(only=("tools",))
        if changed is not None:
            self.submit(self.draft("tools", **changed))

    # -- what the agent runs with -----------------------------------------------------------------

    def configure(self, settings: Mapping[str, Any]) -> None:
        """Take what the program says it runs with; it is recorded with what comes next."""
        with self.lock:
            self._settings.state(settings)

    def see(self, shown: Mapping[str, Any]) -> None:
        """Take what a request to the model shows of the settings."""
        with self.lock:
            self._settings.see(shown)

    def see_wrapped(self, dispatch: Any) -> None:
        """Take the tools that a wrapped loop calls."""
        with self.lock:
            self._settings.see_wrapped(dispatch)

    def settings_due(self) -> list[Draft]:
        """The commit that records which settings changed; none if none did."""
        if not self._settings.due:
            return []
        with self.lock:
            changes = self._settings.take()
        return [self.draft("settings", changes=changes)] if changes else []

    def not_recorded(self, drafts: Sequence[Draft]) -> None:
        """These drafts did not get into the log: settings among them are still to be recorded, and a run of a check
        proves nothing."""
        with self.lock:
            self._extractor.state.ran.clear()
        if any(draft.kind in ("settings", "tools") for draft in drafts):
            with self.lock:
                self._settings.forget()

    def forget_view(self) -> None:
        """After a rewind: read again what is shown, offered and matched."""
        with self.lock:
            self._rendering.forget()
            self._rendered = RenderedMessages()
            self._offered.forget()
            self._shown.forget()
            self._settings.rewound()
            self._turns.forget()

    # -- calls ------------------------------------------------------------------------------------

    def together(self, calls: Sequence[Callable[[], T]]) -> list[T]:
        """Run several calls at once, each in a thread of its own, in this context."""
        if len(calls) < 2:
            return [call() for call in calls]
        # Each thread gets a copy of this context: calls must find their turn and their parent call.
        with ThreadPoolExecutor(min(len(calls), PARALLEL_MAX), "stator call") as pool:
            begun = [pool.submit(contextvars.copy_context().run, call) for call in calls]
            return [future.result() for future in begun]

    def settle_late(self, asked: Asked, done: Future[Any], source: Provenance) -> None:
        """Settle a call with the result that its tool returned after the time was up."""
        error = done.exception()
        outcome, fields, _ = judge(
            asked, ToolRaised(error) if error else ToolReturned(done.result())
        )
        if outcome.status == "in doubt":
            return
        with contextlib.suppress(BadDelta, LeaseLost, WrongState, WrongProcess, StoreUnreachable):
            # Settled by another writer in the meantime, or this run is over: the record stays as it is. Without an
            # answer of the store, it is kept and sent again.
            self.submit(
                self.draft(
                    "settlement",
                    call=asked.call,
                    tool=asked.tool,
                    effect=asked.effect,
                    status=outcome.status,
                    cause="late result",
                    output=fields.get("output", UNSET),
                    actor="tool",
                    provenance=source,
                )
            )

    # -- leaving ----------------------------------------------------------------------------------

    def leave(self, kind: str, reason: str, *, interrupted: bool = False) -> None:
        """End the run, and leave the session paused or closed."""
        if self.left:
            return
        reason = cause(text(reason, "reason"))
        turn = self.current
        in_turn = turn is not None and not turn.ended and not turn.reused
        status = "interrupted" if interrupted or in_turn else "ok"
        drafts = [
            self.draft(
                "run_end",
                status=status,
                cause=reason,
                actor="system",
                attempt=self._turns.place,  # 0: it began no turn
                inputs=(self.began,),
                changes=self._own_run(),
            ),
            self.draft(kind, cause=reason, actor="system"),
        ]
        try:
            if turn is not None and in_turn:
                turn.interrupt(f"left: {reason}")
            self.append(drafts)
        finally:
            # Also where the append failed: a lease that is kept would make the session busy for
            # as long as this process lives. The next driver records what is missing here.
            self.left = True
            self._files.left()
            self.store.release(self.lease)
        self.on_leave("interrupted" if status != "ok" else ENDED[kind])

    def _own_run(self) -> tuple[Remove, ...]:
        """The end of the run's record. If it was erased meanwhile, it is no longer found under the run's id."""
        try:
            runs = self.store.entries(self.id, "runs")
        except StoreError:  # the append reports it, and the lease is released
            return (Remove("runs", self.run),)
        return tuple(Remove("runs", entry.key) for entry in runs)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: object
    ) -> None:
        if isinstance(error, LeaseLost):
            # The driver that took the lease has recorded what this run left open, and every
            # append from here would be refused: there is nothing left to write.
            self.left = True
            self.store.release(self.lease)
            return
        turn = self.current
        between = turn is None or (turn.ended and turn.how != "interrupted")
        # Leaving between turns with Ctrl-C or exit() is leaving in order.
        in_order = error is None or (between and isinstance(error, (KeyboardInterrupt, SystemExit)))
        self.leave("pause", why_left(error), interrupted=not in_order)


def why_left(error: BaseException | None) -> str:
    """The reason a session is paused with when its block is left by that error."""
    if isinstance(error, Paused):
        return error.reason
    if isinstance(error, BudgetSpent):
        return "budget"
    if isinstance(error, ApprovalNeeded):
        return "approval"
    if error is None or isinstance(error, (KeyboardInterrupt, SystemExit)):
        return "user"
    return f"error: {type(error).__name__}"
