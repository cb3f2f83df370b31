"""Declares tools: functions, and what Stator must know of each.

Called directly inside a turn, a tool is recorded like any call; outside one it is just the
function.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar, Token
from types import FunctionType
from typing import Any, Generic, Literal, ParamSpec, Protocol, TypeVar, overload

from stator.errors import BadType, InvalidInput
from stator.model.calls.backoff import Policy
from stator.model.calls.life import Detect
from stator.model.calls.sources import check_source
from stator.model.log.commit import Source
from stator.model.records.types import Effect

P = ParamSpec("P")
R = TypeVar("R")
Files = str | Sequence[str] | Callable[[Mapping[str, Any], Any], Iterable[str]]
"""Which files a call touches: the name of an argument, names of several, or a function of arguments and result."""
Approve = bool | Callable[[Mapping[str, Any]], bool]
"""Whether a person must approve first: always, or depending on the arguments."""
Exhausted = Literal["error", "pause"]
EFFECTS = ("read", "idempotent", "write")
EXHAUSTED = ("error", "pause")
KEY_ARGUMENT = "idempotency_key"
"""A tool with an argument of this name is given the call's idempotency key."""


class Surrounding(Protocol):
    """The turn that code runs in, as a tool that is called like a function needs it."""

    @property
    def ended(self) -> bool: ...
    def direct(
        self, tool: Tool[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any: ...


current_turn: ContextVar[Surrounding | None] = ContextVar("stator_turn", default=None)
"""The turn this code runs in."""
current_call: ContextVar[str] = ContextVar("stator_call", default="")
"""The call this code runs in: the parent of the calls it makes."""
_calling_session: ContextVar[str] = ContextVar("stator_calling_session", default="")
"""The session of that call: the session of a sub-agent that the call drives is another one."""


def enter_call(session: str, call: str) -> Token[str]:
    """From here on, this code runs in that call. The token takes `current_call` back."""
    _calling_session.set(session)
    return current_call.set(call)


def call_id() -> str:
    """The id of the call that this code runs in; empty outside one. A tool that starts a program gives it to that
    program as `$STATOR_CALL`: what the program contributes to the session was then made in this call."""
    return current_call.get()


def call_in(session: str) -> str:
    """The call of that session which this code runs in; empty if it runs in none."""
    return current_call.get() if _calling_session.get() == session else ""


class Tool(Generic[P, R]):
    """A function, what a call of it may do to the world, and how to call it."""

    def __init__(
        self,
        function: Callable[P, R],
        *,
        name: str = "",
        effect: Effect | None = None,
        timeout_s: float | None = None,
        attempts: int = 3,
        deadline_s: float | None = None,
        on_exhausted: Exhausted = "error",
        reconcile: Callable[..., Any] | None = None,
        approve: Approve = False,
        files: Files | None = None,
        detect: Detect | None = None,
        key: str = "",
        source: Source | None = None,
    ) -> None:
        given: object = function
        if not callable(given):
            what = f"not callable: {type(given).__name__}"
            raise BadType(what, hint="t.call(function, arg=…)")
        self.function = function
        self.name = name or getattr(function, "__name__", "") or type(function).__name__
        self.effect: Effect = "write" if effect is None else effect
        if self.effect not in EFFECTS:
            raise _unknown(effect, EFFECTS, "effect")
        self.declared_write = effect == "write"
        """Whether it says itself that it writes: one that declares no effect counts as a write, too."""
        self.timeout_s = None if timeout_s is None else _seconds(timeout_s, "timeout_s")
        deadline = None if deadline_s is None else _seconds(deadline_s, "deadline_s")
        self.policy = Policy(attempts=attempts, deadline_s=deadline).check()
        self.on_exhausted: Exhausted = on_exhausted
        if on_exhausted not in EXHAUSTED:
            raise _unknown(on_exhausted, EXHAUSTED, "on_exhausted")
        self.reconcile = reconcile
        self.approve = approve
        self.files = None if files is None else _files(files)
        self.detect = detect
        self.key = key
        self.source: Source | None = None if source is None else check_source(source, "$.source")
        if type(function) is FunctionType and not function.__dict__:
            # Its code says it all. A tool that is made for one call is not asked for more.
            code = function.__code__
            self.is_async = bool(code.co_flags & inspect.CO_COROUTINE)
            if KEY_ARGUMENT not in code.co_varnames:
                self.takes_key = False
        else:
            self.is_async = inspect.iscoroutinefunction(function)
        functools.update_wrapper(self, function)

    def using(self, **changes: Any) -> Tool[P, R]:
        """The same tool with other options: `pay.using(key="order-17")`."""
        options: dict[str, Any] = {
            "name": self.name,
            "effect": self.effect if self.effect != "write" or self.declared_write else None,
            "timeout_s": self.timeout_s,
            "attempts": self.policy.attempts,
            "deadline_s": self.policy.deadline_s,
            "on_exhausted": self.on_exhausted,
            "reconcile": self.reconcile,
            "approve": self.approve,
            "files": self.files,
            "detect": self.detect,
            "key": self.key,
            "source": self.source,
        }
        return Tool(self.function, **{**options, **changes})

    @functools.cached_property
    def signature(self) -> inspect.Signature | None:
        """How the function is called, asked once; None where that is not to be known."""
        try:
            return inspect.signature(self.function)
        except (TypeError, ValueError):
            return None

    @functools.cached_property
    def takes_key(self) -> bool:
        """Whether the function wants to be given an idempotency key."""
        return self.signature is not None and KEY_ARGUMENT in self.signature.parameters

    def arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """The arguments of a call by name, as far as the function's signature shows."""
        if not args:
            return dict(kwargs)
        try:
            if self.signature is not None:
                return dict(self.signature.bind_partial(*args, **kwargs).arguments)
        except TypeError:
            pass  # the function will say what is wrong with them
        return {"args": list(args), **kwargs}

    def needs_approval(self, given: Mapping[str, Any]) -> bool:
        """Whether the tool itself asks for a person's yes to these arguments."""
        return self.approve(given) if callable(self.approve) else bool(self.approve)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        turn = current_turn.get()
        if turn is None or turn.ended:
            return self.function(*args, **kwargs)
        result: R = turn.direct(self, args, kwargs)
        return result


@overload
def tool(function: Callable[P, R], /, **options: Any) -> Tool[P, R]: ...
@overload
def tool(**options: Any) -> Callable[[Callable[P, R]], Tool[P, R]]: ...
def tool(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Declare what a call does: `read` changes nothing, `idempotent` may be repeated, else `write`.

    `timeout_s` and `attempts` bound it; `reconcile(intent)` says `"done"`, `"not_done"` or
    `"unknown"` of a call that a crash left in doubt (or `("done", value)`); `approve` asks a person
    first; `files` names the arguments that are paths; `detect(result)` says what is wrong with a
    result that looks like success; `on_exhausted="pause"` stops the run when the attempts run out;
    `source` says where its results come from: "tool" (the program's own word), "file", "web" or "import".
    """
    if function is not None:
        return Tool(function, **options)
    Tool(_nothing, **options)  # refuse what is wrong here, not at the first use
    return lambda made: Tool(made, **options)


def _nothing() -> None:
    """A placeholder for a function that is not known yet."""


def declare(function: Callable[..., Any] | Tool[..., Any]) -> Tool[..., Any]:
    """A function that declares nothing counts as a write."""
    return function if isinstance(function, Tool) else Tool(function)


def _unknown(value: Any, among: tuple[str, ...], name: str) -> InvalidInput:
    hint = f"{', '.join(among[:-1])} or {among[-1]}"
    return InvalidInput(f"unknown {name} {value!r:.40}", hint=hint, path=f"$.{name}")


def _files(given: Files) -> Files:
    if isinstance(given, str) or callable(given):
        return given
    found: list[object] = list(given) if isinstance(given, (list, tuple)) else [None]
    if not all(isinstance(name, str) for name in found):
        raise BadType(
            f"files names arguments, got {given!r:.60}",
            path="$.files",
            hint='files="path", files=("old", "new") or a function of arguments and result',
        )
    return tuple(given)


def _seconds(value: Any, name: str) -> float:
    if not isinstance(value, (int, float)) or not 0 < value < 1e9:
        raise InvalidInput(f"{name} must be a number above 0, got {value!r:.40}", path=f"$.{name}")
    return float(value)
