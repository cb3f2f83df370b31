"""Calls: intent on disk before the effect, outcome after, and the truth about what is not known.

One attempt per call. What a tool reports is `ok` or `error`; what nobody reported is `in doubt` if
the tool may have changed something, and `cancelled` if it only reads.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar

import msgspec

from stator.errors import (
    BadType,
    CallCancelled,
    CallError,
    CallFailed,
    InDoubt,
    InvalidInput,
    NotDone,
    StatorError,
)
from stator.model import canon
from stator.model.commit import Provenance
from stator.model.ids import retype, short
from stator.model.state import CallStatus, Effect
from stator.runtime.context import Context

if TYPE_CHECKING:
    from stator.runtime.turns import Turn

P = ParamSpec("P")
R = TypeVar("R")
FROM_TOOL = Provenance("tool", "unverified")
MESSAGE_MAX = 2000


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """How a call ended. `value` is the result if `ok`; `error` says what the tool said if not."""

    call: str
    tool: str
    status: CallStatus
    value: Any = None
    error: str = ""
    cause: str = ""
    exception: BaseException | None = None

    @property
    def ok(self) -> bool:
        return self.status == "ok"

    def result(self) -> Any:
        """The value, or the typed error of a call that did not end ok."""
        if self.ok:
            return self.value
        raise self.to_error() from self.exception

    def to_error(self) -> CallError:
        kind = {"in doubt": InDoubt, "cancelled": CallCancelled}.get(self.status, CallFailed)
        if kind is InDoubt:
            return InDoubt(
                f"in doubt: {self.tool} · call {short(self.call)} · {self.cause}. "
                "It may or may not have happened",
                outcome=self,
                hint=f"check, then: stator settle {short(self.call)} --done | --not-done",
                call=self.call,
            )
        return kind(
            f"{self.tool} {self.status}: {self.error or self.cause} · call {short(self.call)}",
            outcome=self,
            call=self.call,
        )


class Tool(Generic[P, R]):
    """A function with what Stator must know of it. Called directly, it is just the function."""

    def __init__(self, function: Callable[P, R], name: str, effect: Effect = "write") -> None:
        self.function = function
        self.name = name
        self.effect: Effect = effect
        functools.update_wrapper(self, function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.function(*args, **kwargs)


def tool(*, effect: Effect = "write", name: str = "") -> Callable[[Callable[P, R]], Tool[P, R]]:
    """Declare what a call does: `read` changes nothing, `idempotent` may be repeated, else `write`."""
    if effect not in ("read", "idempotent", "write"):
        raise InvalidInput(f"unknown effect {effect!r:.40}", hint="read, idempotent or write")

    def declare(function: Callable[P, R]) -> Tool[P, R]:
        return Tool(function, name or function.__name__, effect)

    return declare


class Calling:
    """Runs calls of one turn."""

    def __init__(self, turn: Turn, context: Context) -> None:
        self._turn = turn
        self._context = context

    def call(
        self,
        function: Callable[..., Any] | Tool[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:
        return self.try_call(function, args, kwargs).result()

    def try_call(
        self,
        function: Callable[..., Any] | Tool[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Outcome:
        declared = function if isinstance(function, Tool) else declare(function)
        check_sync(declared)
        intent = self._intend(declared, arguments(declared.function, args, kwargs))
        return self._run(declared, intent, args, kwargs)

    def _intend(self, declared: Tool[..., Any], given: dict[str, Any]) -> str:
        turn = self._turn
        if turn._batch is not None:
            raise InvalidInput(
                f"{declared.name} cannot be called in a batch",
                hint="its intent must be on disk before it runs; end the batch first",
            )
        commit = self._context.mint("commit")
        call = retype(commit, "call")
        turn._submit(
            turn._draft(
                "call",
                id=commit,
                call=call,
                tool=declared.name,
                effect=declared.effect,
                attempt=1,
                status="started",
                input=given,
                provenance=Provenance("model", "unverified"),
                happened=self._context.clock(),
            )
        )
        return call

    def _run(
        self, declared: Tool[..., Any], call: str, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Outcome:
        try:
            value = declared.function(*args, **kwargs)
        except NotDone as error:
            return self._record(
                declared, call, _failure(call, declared, "error", "not done", error)
            )
        except InDoubt as error:
            return self._record(
                declared,
                call,
                _failure(call, declared, "in doubt", "the tool does not know", error),
            )
        except Exception as error:
            cause = type(error).__name__
            return self._record(declared, call, _failure(call, declared, "error", cause, error))
        except BaseException as error:
            status: CallStatus = "in doubt" if declared.effect == "write" else "cancelled"
            cause = f"interrupted by {type(error).__name__}"
            self._record(declared, call, _failure(call, declared, status, cause, error))
            raise
        return self._succeed(declared, call, value)

    def _succeed(self, declared: Tool[..., Any], call: str, value: Any) -> Outcome:
        """Record the result in the form in which it will always be read; refuse, loudly, what has none."""
        try:
            known = canon.from_plain(canon.to_plain(value, path="$.result"))
        except InvalidInput as refused:
            self._record(
                declared,
                call,
                Outcome(call=call, tool=declared.name, status="ok", cause="result not recordable"),
            )
            raise BadType(
                f"{declared.name} ended ok (call {short(call)}), but its result cannot be recorded: "
                f"{refused.what}",
                hint="return plain data, such as dataclasses.asdict(value)",
                call=call,
            ) from refused
        done = Outcome(call=call, tool=declared.name, status="ok", value=known)
        return self._record(declared, call, done, output=value)

    def _record(
        self, declared: Tool[..., Any], call: str, outcome: Outcome, **fields: Any
    ) -> Outcome:
        if outcome.error:
            fields["output"] = {"error": outcome.cause, "message": outcome.error}
        turn = self._turn
        turn._submit(
            turn._draft(
                "outcome",
                call=call,
                tool=declared.name,
                effect=declared.effect,
                attempt=1,
                status=outcome.status,
                cause=outcome.cause,
                actor="tool",
                provenance=FROM_TOOL,
                happened=self._context.clock(),
                **fields,
            )
        )
        return outcome


def _failure(
    call: str, declared: Tool[..., Any], status: CallStatus, cause: str, error: BaseException
) -> Outcome:
    message = (error.what if isinstance(error, StatorError) else str(error)) or type(error).__name__
    safe = message.encode("utf-8", "replace").decode()[:MESSAGE_MAX]
    return Outcome(
        call=call, tool=declared.name, status=status, error=safe, cause=cause, exception=error
    )


def declare(function: Callable[..., Any]) -> Tool[..., Any]:
    """A function that declares nothing counts as a write."""
    if not callable(function):
        raise BadType(f"not callable: {type(function).__name__}", hint="t.call(function, arg=…)")
    name = getattr(function, "__name__", "") or type(function).__name__
    return Tool(function, name)


def check_sync(declared: Tool[..., Any]) -> None:
    if inspect.iscoroutinefunction(declared.function):
        raise BadType(
            f"{declared.name} is async and this is the synchronous API",
            hint="use stator.aio, or pass a plain function",
        )


def arguments(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> dict[str, Any]:
    """The arguments by name, as far as the function's signature tells."""
    if not args:
        return dict(kwargs)
    try:
        bound = inspect.signature(function).bind_partial(*args, **kwargs)
    except (TypeError, ValueError):
        return {"args": list(args), **kwargs}
    return dict(bound.arguments)
