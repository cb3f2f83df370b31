"""Calls of a turn: each with its intent on disk before it runs, met by what the record knows of it."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import msgspec

from stator.errors import BadType, InvalidInput, Paused
from stator.model.calls import backoff, known
from stator.model.calls.life import (
    Answer,
    Asked,
    Found,
    Granted,
    Life,
    Note,
    Outcome,
    Pause,
    Raised,
    Reconcile,
    Returned,
    Run,
    TimedOut,
    life,
)
from stator.model.log.commit import (
    Change,
    Commit,
    Draft,
    Provenance,
)
from stator.model.records.types import Effect
from stator.model.values.ids import retype
from stator.runtime.driving import lifecycle, observe
from stator.runtime.driving.effects import drive
from stator.runtime.driving.policy import POLL_S
from stator.runtime.driving.tools import (
    KEY_ARGUMENT,
    Tool,
    arguments,
    current_call,
    declare,
)

if TYPE_CHECKING:
    from stator.runtime.driving.turn import Turn

FROM_TOOL = Provenance("tool", "unverified")
FROM_MODEL = Provenance("model", "unverified")
ACTORS = {"call": "agent", "outcome": "tool"}


class Intent(msgspec.Struct, frozen=True, kw_only=True):
    """A call in doubt, as its tool's `reconcile` is asked about it."""

    call: str
    tool: str
    arguments: Any
    key: str
    """Its idempotency key: what the tool was given, if it takes one."""
    at: int
    attempt: int


class Calling:
    """One call of a turn, ready to be driven. The synchronous driver's hands are its own methods."""

    def __init__(
        self,
        turn: Turn,
        function: Callable[..., Any] | Tool[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        *,
        origin: tuple[str, str] | None = None,
        given: dict[str, Any] | None = None,
    ) -> None:
        self.turn = turn
        self.tool = declare(function)
        self.args, self.kwargs = args, kwargs
        self.origin = origin
        if turn._batch is not None:
            raise InvalidInput(
                f"{self.tool.name} cannot be called in a batch",
                hint="its intent must be on disk before it runs; end the batch first",
            )
        self._intent = turn._session.context.mint("commit")
        self.parent = current_call.get()
        self.given = arguments(self.tool.function, args, kwargs) if given is None else given
        self.asked = Asked(
            call=retype(self._intent, "call"),
            tool=self.tool.name,
            effect=self.tool.effect,
            given=self.given,
        )
        self._seen: observe.Sight | None = None
        self._free = False
        self._late: Callable[[], None] | None = None
        # In the order calls are asked for, whichever begins first: a rerun must find the same keys.
        self._key()

    # -- deciding ---------------------------------------------------------------------------------

    def life(self) -> Life:
        """Everything this call does: what the record answers, else asking, running, recording."""
        turn, tool = self.turn, self.tool
        met = yield from turn._meet(self)
        if isinstance(met, Outcome):
            return met
        turn._session._check_terms()
        gate, why = turn._session._gate(tool, self.given)
        # What once waited for a person needs its start on record, even if nobody need be asked now.
        self._free = met.awaiting and not gate
        self.asked = msgspec.structs.replace(met, gate="ask" if self._free else gate, why=why)
        outcome = yield from life(self.asked, tool.policy, tool.detect)
        if tool.on_exhausted == "pause" and is_exhausted(tool.effect, outcome):
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
        hashed = known.fingerprint(self.given, self.turn._session._scrub)
        self.key = self.key or self._derived(hashed, self.turn._occurrence(self.tool.name, hashed))
        self.kwargs = {**self.kwargs, KEY_ARGUMENT: self.key}

    def _derived(self, hashed: str, occurrence: int) -> str:
        turn = self.turn
        parts = (turn._session.id, turn.id, self.tool.name, hashed, str(occurrence))
        return sha256("\n".join(parts).encode()).hexdigest()

    def draft(self, note: Note) -> Draft:
        """The commit a note asks for."""
        kind = note.kind
        fields = dict(note.fields)
        intent = kind == "call"
        asked = self.asked
        own = intent and asked.call == retype(self._intent, "call") and fields["attempt"] == 1
        if intent:
            fields.update(origin=self.origin, parent=self.parent, key=self.tool.key)
        elif kind == "outcome":
            fields["changes"] = self._consequences(fields)
        return self.turn._draft(
            kind,
            id=self._intent if own else "",
            call=fields.pop("call", asked.call),
            tool=self.tool.name,
            effect=self.tool.effect,
            actor=ACTORS.get(kind, "system"),
            provenance=FROM_MODEL if intent else FROM_TOOL,
            **fields,
        )

    def _consequences(self, fields: dict[str, Any]) -> tuple[Change, ...]:
        """What else an outcome changes: files, and what is left to find out."""
        touched: tuple[Change, ...] = fields.get("changes", ())
        if self._seen is not None:
            touched += self._seen.changes(self.given, fields.get("output"))
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
        self.landed(self.turn._write(self.drafts(note)))
        return self.stop(note)

    def stop(self, note: Note) -> Answer:
        """Once the intent is on disk and before anything runs: whether somebody wants the run to end."""
        return self.turn._session._stop() if note.kind in ("call", "approval") else None

    def landed(self, commits: Sequence[Commit]) -> None:
        """These commits of the call are in the log. Only once its doubt is can a late result settle it."""
        if self._seen is not None:
            self._seen.landed()
        late, self._late = self._late, None
        if late is not None:
            late()

    def drafts(self, note: Note) -> list[Draft]:
        made = self.draft(note)
        kept = self._seen.kept if self._seen is not None and note.kind == "outcome" else None
        held = kept.drafts(self.turn._draft, call=self.asked.call) if kept is not None else []
        return [*held, made]

    def run(self, effect: Run) -> Returned | Raised:
        self.look()
        clock = self.turn._session.context.monotonic
        context = contextvars.copy_context()
        began = clock()
        try:
            if self.tool.timeout_s is None:
                value = context.run(self.invoke)
            else:
                value = self._bounded(context, self.tool.timeout_s)
        except BaseException as error:
            return Raised(error, clock(), began)
        return Returned(value, clock(), began)

    def look(self) -> None:
        """See what is there before the call runs, where it may change files."""
        session = self.turn._session
        self._seen = observe.before(
            session._root, self.tool, self.given, session._tracked, session._keeper
        )

    def invoke(self) -> Any:
        """The function itself, with this call as the parent of those it makes."""
        current_call.set(self.asked.call)
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
        self.turn._session._settle_late(self.asked, done)

    def pause(self, effect: Pause) -> None:
        self.turn._session.context.sleep(self.seconds(effect))

    def seconds(self, effect: Pause) -> float:
        jitter = self.turn._session.context.jitter()
        return effect.least_s + (effect.most_s - effect.least_s) * jitter

    def answer(self) -> Answer:
        session = self.turn._session
        while (said := self.said()) is None and session._terms.waits:
            session.context.sleep(POLL_S)
        return said

    def said(self) -> Answer:
        """What people have said to this call so far."""
        return Granted() if self._free else self.turn._session._answer(self.asked)

    def reconcile(self, effect: Reconcile) -> Answer:
        assert self.tool.reconcile is not None
        return found(self.tool.reconcile(self.intent(effect)), self.tool)

    def intent(self, effect: Reconcile) -> Intent:
        return Intent(
            call=effect.call,
            tool=effect.tool,
            arguments=effect.arguments,
            key=effect.key or self._derived(effect.input_hash, effect.occurrence),
            at=effect.at,
            attempt=effect.attempt,
        )


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


def found(said: Any, tool: Tool[..., Any]) -> Found:
    """What a tool's `reconcile` says, typed."""
    verdict, value = said if isinstance(said, tuple) and len(said) == 2 else (said, None)
    if verdict not in ("done", "not_done", "unknown"):
        raise BadType(
            f"reconcile of {tool.name} said {said!r:.60}",
            hint='return "done", "not_done", "unknown" or ("done", value)',
        )
    return Found(verdict, value)
