"""Calls: what a tool is, and the calls of one turn."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar

from stator.errors import BadType, InvalidInput
from stator.model.call import Life, Note, Outcome, life
from stator.model.commit import Draft, Provenance
from stator.model.ids import retype
from stator.model.state import Effect
from stator.runtime.drive import drive

if TYPE_CHECKING:
    from stator.runtime.turns import Turn

P = ParamSpec("P")
R = TypeVar("R")
FROM_TOOL = Provenance("tool", "unverified")
FROM_MODEL = Provenance("model", "unverified")


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

    def declared(function: Callable[P, R]) -> Tool[P, R]:
        return Tool(function, name or function.__name__, effect)

    return declared


class Calling:
    """One call of a turn, ready to be driven."""

    def __init__(
        self,
        turn: Turn,
        function: Callable[..., Any] | Tool[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> None:
        self.turn = turn
        self.tool = function if isinstance(function, Tool) else declare(function)
        self.args, self.kwargs = args, kwargs
        if turn._batch is not None:
            raise InvalidInput(
                f"{self.tool.name} cannot be called in a batch",
                hint="its intent must be on disk before it runs; end the batch first",
            )
        self._intent = turn._session.context.mint("commit")
        self.call = retype(self._intent, "call")

    def life(self) -> Life:
        given = arguments(self.tool.function, self.args, self.kwargs)
        return life(self.call, self.tool.name, self.tool.effect, given)

    def draft(self, note: Note) -> Draft:
        """The commit a note asks for."""
        intent = note.kind == "call"
        return self.turn._draft(
            note.kind,
            id=self._intent if intent else "",
            call=self.call,
            tool=self.tool.name,
            effect=self.tool.effect,
            attempt=1,
            actor="agent" if intent else "tool",
            provenance=FROM_MODEL if intent else FROM_TOOL,
            **note.fields,
        )

    def run(self) -> Outcome:
        """Run the tool here and now."""
        if inspect.iscoroutinefunction(self.tool.function):
            raise BadType(
                f"{self.tool.name} is async and this is the synchronous API",
                hint="use stator.aio, or pass a plain function",
            )
        return drive(
            self.life(),
            lambda note: self.turn._submit(self.draft(note)),
            lambda: self.tool.function(*self.args, **self.kwargs),
        )


def declare(function: Callable[..., Any]) -> Tool[..., Any]:
    """A function that declares nothing counts as a write."""
    if not callable(function):
        raise BadType(f"not callable: {type(function).__name__}", hint="t.call(function, arg=…)")
    name = getattr(function, "__name__", "") or type(function).__name__
    return Tool(function, name)


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
