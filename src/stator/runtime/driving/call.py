"""Runs the calls of a turn, each with its intent on disk before it begins and its outcome after.

The intent is appended before the tool runs because a crash can come at any moment: without it the log could
not distinguish a call that never began from one that may have changed something. With it, a call
that has no outcome is known to be in doubt, and is not run a second time.
"""

from __future__ import annotations

import contextlib
import contextvars
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from typing import Any

import msgspec

from stator.errors import BadType, InvalidInput, Paused, StoreUnreachable
from stator.model.calls import backoff, known
from stator.model.calls.life import (
    Answer,
    Asked,
    Granted,
    Life,
    Note,
    Outcome,
    Pause,
    Reconcile,
    Reconciled,
    RunTool,
    TimedOut,
    ToolRaised,
    ToolReturned,
    life,
)
from stator.model.log.commit import (
    Change,
    Commit,
    Draft,
    Named,
    Provenance,
    Upsert,
)
from stator.model.records.types import CallRecord, Effect
from stator.model.values.digest import sha256
from stator.model.values.ids import retype
from stator.runtime.driving import lifecycle, observe
from stator.runtime.driving.again import once
from stator.runtime.driving.effects import drive
from stator.runtime.driving.open_turn import OpenTurn
from stator.runtime.driving.policy import POLL_S
from stator.runtime.driving.state_writer import FROM_MODEL
from stator.runtime.driving.tools import (
    KEY_ARGUMENT,
    Tool,
    current_call,
    current_turn,
    declare,
    enter_call,
)

STARTS = ("call", "approval")
"""Kinds of commits after which a tool may run, unless the run was asked to end."""
ACTORS = {"call": "agent", "outcome": "tool"}


class Intent(msgspec.Struct, frozen=True, kw_only=True):
    """A call in doubt, as its tool's `reconcile` is given it."""

    call: str
    tool: str
    arguments: Any
    key: str
    """Its idempotency key: what the tool was given, if it takes one."""
    at: int
    attempt: int


class Calling:
    """One call of a turn, ready to run. Its methods carry out the effects of the call synchronously."""

    def __init__(
        self,
        turn: OpenTurn,
        function: Callable[..., Any] | Tool[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        *,
        origin: tuple[str, str] | None = None,
        given: dict[str, Any] | None = None,
        infers: bool = False,
    ) -> None:
        """`infers`: the tool's name and arguments are an agent's, so that they show which files it touches."""
        self.turn = turn
        self.tool = declare(function)
        self.args, self.kwargs = args, kwargs
        self.origin = origin
        if turn.batched is not None:
            raise InvalidInput(
                f"{self.tool.name} cannot be called in a batch",
                hint="its intent must be on disk before it runs; end the batch first",
            )
        self._intent = turn.driver.context.mint("commit")
        self._own = retype(self._intent, "call")
        self.parent = current_call.get()
        self.given = self.tool.arguments(args, kwargs) if given is None else given
        self.asked = Asked(
            call=self._own,
            tool=self.tool.name,
            effect=self.tool.effect,
            given=self.given,
        )
        self._seen: observe.FilesBefore | None = None
        self._infers = infers and self.tool.files is None
        self._inferred: observe.InferredFiles | None = None
        self._free = False
        self._late: Callable[[], None] | None = None
        # Keys are derived in the order calls are asked for, not in the order parallel calls begin:
        # when the program runs again, each call must get the key it had.
        self._key()

    # -- deciding ---------------------------------------------------------------------------------

    def life(self) -> Life:
        """Everything this call does: what the record answers, else asking, running, recording."""
        if self.turn.has_record or self.turn.driver.doubts.any:
            return self._answered()
        return self._made(self.asked)

    def _answered(self) -> Life:
        """The call, as far as the record may answer it."""
        met = yield from self.turn.answer_from_record(self.asked, self.tool, self.origin)
        return met if isinstance(met, Outcome) else (yield from self._made(met))

    def _made(self, met: Asked) -> Life:
        """The call as it is made, if it may be made now."""
        driver, tool = self.turn.driver, self.tool
        driver.check_terms()
        gate, why, proof = driver.terms.gate(tool, self.given)
        # A call that once waited for a person needs its start on record, even if nobody has to be
        # asked now: the log still has it as waiting.
        self._free = met.awaiting and not gate
        gate = "ask" if self._free else gate
        self.asked = msgspec.structs.replace(met, gate=gate, why=why, proof=proof) if gate else met
        made = life(self.asked, tool.policy, tool.detect)
        return made if tool.on_exhausted == "error" else self._pausing(made)

    def _pausing(self, made: Life) -> Life:
        """The call, after which the run ends if no attempt is left."""
        tool = self.tool
        outcome = yield from made
        if is_exhausted(tool.effect, outcome):
            raise Paused(
                f"{tool.name} failed {outcome.attempts} times: {outcome.error}",
                reason="error",
                hint="run again to go on with this call",
                call=outcome.call,
            )
        return outcome

    def _key(self) -> None:
        """The idempotency key: the same for the same call, however often it is tried or rerun."""
        self.key = self.tool.key
        if not self.tool.takes_key:
            return
        hashed = known.fingerprint(self.given, self.turn.driver.scrub)
        self.key = self.key or self._derived(hashed, self.turn.occurrence(self.tool.name, hashed))
        self.kwargs = {**self.kwargs, KEY_ARGUMENT: self.key}

    def _derived(self, hashed: str, occurrence: int) -> str:
        return self._digest(self.turn.driver.id, self.turn.id, hashed, occurrence)

    def _derived_then(self, effect: Reconcile) -> str:
        """The idempotency key that a recorded call was made with, maybe by another turn or another attempt."""
        driver = self.turn.driver
        made = once.made_in(driver.store, driver.id, effect.call)
        if made is None:
            return self._derived(effect.input_hash, effect.occurrence)
        session, turn, occurrence = made
        return self._digest(session, turn, effect.input_hash, occurrence)

    def _digest(self, session: str, turn: str, hashed: str, occurrence: int) -> str:
        parts = (session, turn, self.tool.name, hashed, str(occurrence))
        return sha256("\n".join(parts).encode()).hexdigest()

    def draft(self, note: Note) -> Draft:
        """The commit a note asks for."""
        kind, tool, asked = note.kind, self.tool, self.asked
        fields = {
            "call": asked.call,
            "tool": tool.name,
            "effect": tool.effect,
            "actor": ACTORS.get(kind, "system"),
            **note.fields,
        }
        if kind == "call":
            if asked.call == self._own and fields["attempt"] == 1:
                fields["id"] = self._intent
            if proof := fields.pop("proof", ""):
                fields["changes"] = (self._demanding(proof),)
            fields["origin"], fields["parent"], fields["key"] = self.origin, self.parent, tool.key
            fields["inputs"] = self._asked_from()
            fields["provenance"] = FROM_MODEL
        else:
            fields["provenance"] = self._came_from()
        if kind == "outcome":
            fields["changes"] = self._consequences(fields)
            fields["inputs"] = tuple(self.turn.driver.child_answers.pop(asked.call, ()))
        return self.turn.driver.draft(kind, **fields)

    def _came_from(self) -> Provenance:
        """Where its result comes from."""
        return self.turn.driver.terms.provenance(self.tool, self.given)

    def _asked_from(self) -> tuple[Named, ...]:
        """What the call is made from: the answer that asked for it. One that was made inside another call has that
        as its parent, and no more."""
        if self.origin is not None and self.origin[0] == known.MODEL:
            return (int(self.origin[1].partition("/")[0]),)
        return () if self.parent else self.turn.asked_from()

    def _demanding(self, proof: str) -> Change:
        """The waiting call with what its approval must prove: the person who answers has to know it."""
        asked = self.asked
        waiting = CallRecord(
            call=asked.call,
            tool=asked.tool,
            attempt=asked.attempt,
            effect=asked.effect,
            proof=proof,
            since=self.turn.driver.context.clock(),
            status="awaiting approval",
        )
        return Upsert("calls", waiting)

    def _consequences(self, fields: dict[str, Any]) -> tuple[Change, ...]:
        """What else an outcome changes: files, and what is left to find out."""
        touched: tuple[Change, ...] = fields.get("changes", ())
        if self._seen is not None:
            touched += self._seen.changes(self.given, fields.get("output"))
        if self._inferred is not None and fields["status"] == "ok":
            touched += self._inferred.changes()
        if fields["status"] == "in doubt" and self.tool.reconcile is None:
            return (*touched, lifecycle.left_to_settle(self.asked, fields["cause"]))
        return touched

    # -- doing, synchronously ---------------------------------------------------------------------

    def drive(self) -> Outcome:
        """Run the tool here and now."""
        if self.tool.is_async:
            raise BadType(
                f"{self.tool.name} is async and this is the synchronous API",
                hint="use stator.aio, or pass a plain function",
            )
        return drive(self.life(), self)

    def append(self, note: Note) -> Answer:
        self.landed(self.turn.write(self.drafts(note)))
        return self.turn.driver.stop() if note.kind in STARTS else None

    def landed(self, commits: Sequence[Commit]) -> None:
        """These commits of the call are in the log. A late result can settle a doubt only after that."""
        if self._seen is not None:
            self._seen.landed()
        late, self._late = self._late, None
        if late is not None:
            late()

    def drafts(self, note: Note) -> list[Draft]:
        driver = self.turn.driver
        try:
            made = self.draft(note)
        except StoreUnreachable as lost:
            if note.kind != "outcome":
                raise
            raise driver.unanswered.keep_unsent(self._without_files(note), lost) from lost
        before: list[Draft] = []
        if note.kind == "call":
            before = driver.settings_due()
        elif note.kind == "outcome" and self._seen is not None and self._seen.kept is not None:
            before = self._seen.kept.drafts(self.turn.draft, call=self.asked.call)
        return [*before, made, *driver.extract(made)]

    def _without_files(self, note: Note) -> Draft:
        """An outcome without what the call did to files: where that cannot be read, the outcome is still known."""
        self._seen = self._inferred = None
        return self.draft(note)

    def run(self, effect: RunTool) -> ToolReturned | ToolRaised:
        self.look()
        clock = self.turn.driver.context.monotonic
        context = contextvars.copy_context()
        began = clock()
        try:
            if self.tool.timeout_s is None:
                value = context.run(self.invoke)
            else:
                value = self._bounded(context, self.tool.timeout_s)
        except BaseException as error:
            return ToolRaised(error, clock(), began)
        return ToolReturned(value, clock(), began)

    def look(self) -> None:
        """Look at the files that the call may change, before it runs."""
        driver = self.turn.driver
        if self.tool.files or driver.tracked:
            self._seen = observe.FilesBefore(
                driver.root, self.tool, self.given, driver.tracked, driver.keeper
            )
        if self._infers:
            self._inferred = observe.InferredFiles(
                driver.root, self.tool, self.given, driver.tracked
            )

    def invoke(self) -> Any:
        """The function itself, with this call as the parent of those it makes."""
        enter_call(self.turn.driver.id, self.asked.call)
        return self.finish(self.tool.function(*self.args, **self.kwargs))

    def finish(self, value: Any) -> Any:
        """What the function gave, as the call's result."""
        return value

    def _bounded(self, context: contextvars.Context, seconds: float) -> Any:
        future = self.begin(context)
        try:
            return future.result(seconds)
        except BaseException as error:
            if future.done():  # the tool's own
                raise
            self.await_late(lambda: future.add_done_callback(self.settle_late))
            if isinstance(error, TimeoutError):
                raise TimedOut(seconds) from None
            raise

    def begin(self, context: contextvars.Context) -> Future[Any]:
        """Run in a thread of its own, so that waiting for it can end before it does. One that never
        ends does not keep the program from ending."""
        future: Future[Any] = Future()
        threading.Thread(
            target=context.run,
            args=(_fulfil, future, self.invoke),
            name=f"stator {self.tool.name}",
            daemon=True,
        ).start()
        return future

    def await_late(self, watch: Callable[[], None]) -> None:
        """A result that comes after its time settles the call, if it was left in doubt."""
        if self.tool.effect == "write":
            self._late = watch

    def settle_late(self, done: Future[Any]) -> None:
        self.turn.driver.settle_late(self.asked, done, self._came_from())

    def pause(self, effect: Pause) -> None:
        self.turn.driver.context.sleep(self.seconds(effect))

    def seconds(self, effect: Pause) -> float:
        jitter = self.turn.driver.context.jitter()
        return effect.least_s + (effect.most_s - effect.least_s) * jitter

    def answer(self) -> Answer:
        driver = self.turn.driver
        while (said := self.said()) is None and driver.terms.waits:
            driver.context.sleep(POLL_S)
        return said

    def said(self) -> Answer:
        """What people have answered to this call so far."""
        return Granted() if self._free else self.turn.driver.answer(self.asked)

    def reconcile(self, effect: Reconcile) -> Answer:
        assert self.tool.reconcile is not None
        return found(self.tool.reconcile(self.intent(effect)), self.tool)

    def intent(self, effect: Reconcile) -> Intent:
        return Intent(
            call=effect.call,
            tool=effect.tool,
            arguments=effect.arguments,
            key=effect.key or self._derived_then(effect),
            at=effect.at,
            attempt=effect.attempt,
        )


class DirectCalls:
    """Records tools that are called like plain functions inside a turn."""

    def __init__(self, turn: OpenTurn) -> None:
        self._turn = turn

    @property
    def ended(self) -> bool:
        return self._turn.ended

    def direct(self, tool: Tool[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return Calling(self._turn, tool, args, kwargs).drive().result()


@contextlib.contextmanager
def entered(turn: OpenTurn) -> Iterator[OpenTurn]:
    """Run a block inside a turn, and end the turn as the block is left."""
    token = current_turn.set(DirectCalls(turn))
    try:
        yield turn
    except BaseException as error:
        current_turn.reset(token)
        turn.leave(error)
        raise
    current_turn.reset(token)
    turn.leave(None)


def _fulfil(future: Future[Any], run: Callable[[], Any]) -> None:
    try:
        future.set_result(run())
    except BaseException as error:
        future.set_exception(error)


def is_exhausted(effect: Effect, outcome: Outcome) -> bool:
    """Whether a call failed although trying again was worth it: its attempts ran out."""
    error = outcome.exception
    failed = outcome.status in ("error", "timeout") and error is not None
    return failed and error is not None and backoff.may_repeat(effect, error)


def found(said: Any, tool: Tool[..., Any]) -> Reconciled:
    """The answer of a tool's `reconcile`, checked."""
    verdict, value = said if isinstance(said, tuple) and len(said) == 2 else (said, None)
    if verdict not in ("done", "not_done", "unknown"):
        raise BadType(
            f"reconcile of {tool.name} said {said!r:.60}",
            hint='return "done", "not_done", "unknown" or ("done", value)',
        )
    return Reconciled(verdict, value)
