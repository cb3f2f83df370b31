"""Shared by the tests of calls and continuation: drivers that die, counting tools, a scripted model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import stator


class Died(BaseException):
    """Represents the death of a process: nothing after it is recorded."""


class driving:
    """Drive a session as a process would that may die: `raise Died` leaves it as a dead driver does."""

    def __init__(self, store: Any, name: str = "main", **options: Any) -> None:
        self._session = store.open(name, **options)

    def __enter__(self) -> Any:
        turn = self._session.turn
        self._session.turn = lambda *args, **kwargs: _mortal(turn(*args, **kwargs))
        return self._session

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: object
    ) -> bool:
        if isinstance(error, Died):
            die(self._session)
            return True
        self._session.__exit__(kind, error, trace)
        return False


@contextmanager
def left_by(
    store: Any, error: type[BaseException], *, match: str | None = None, **options: Any
) -> Iterator[tuple[Any, Any]]:
    """Drive one turn of a session that ends with that error."""
    with (
        pytest.raises(error, match=match),
        driving(store, **options) as session,
        session.turn("one") as turn,
    ):
        yield session, turn


def _mortal(turn: Any) -> Any:
    """A turn whose end a dead process does not record."""
    turn._open.end = _unless_dead(turn._open.end)
    return turn


def _unless_dead(end: Callable[..., None]) -> Callable[..., None]:
    def ended(status: str, cause: str, *value: Any) -> None:
        if not cause.startswith("Died"):
            end(status, cause, *value)

    return ended


def die(session: Any) -> None:
    """End a driver without recording it: its lease is free, its run and its turn stay open."""
    session._driver.left = True
    session._store.release(session._driver.lease)


def dying(*_: Any, **__: Any) -> Any:
    raise Died


class Counted:
    """A tool that counts its runs; the first ones do what the given functions do."""

    def __init__(self, *first: Callable[[], Any], name: str = "act", value: Any = "done") -> None:
        self.__name__ = name
        self.runs: list[dict[str, Any]] = []
        self._first = list(first)
        self._value = value

    def __call__(self, **given: Any) -> Any:
        self.runs.append(given)
        return self._first.pop(0)() if self._first else self._value

    def tool(self, **options: Any) -> Any:
        return stator.tool(self, name=self.__name__, **options)


def raising(error: BaseException) -> Callable[[], Any]:
    def go() -> Any:
        raise error

    return go


def says(*asks: tuple[str, dict[str, Any]], text: str = "on it") -> dict[str, Any]:
    """An answer of a model, as Anthropic gives it."""
    calls = [
        {"type": "tool_use", "id": f"tu_{name}_{place}", "name": name, "input": given}
        for place, (name, given) in enumerate(asks)
    ]
    return {
        "role": "assistant",
        "content": [{"type": "text", "text": text}, *calls],
        "stop_reason": "tool_use" if asks else "end_turn",
        "usage": {"input_tokens": 10, "output_tokens": 5},
    }


class Model:
    """Gives its answers in order and counts the requests."""

    def __init__(self, *answers: Any) -> None:
        self._answers = list(answers)
        self.asked = 0

    def __call__(self, **_: Any) -> Any:
        self.asked += 1
        answer = self._answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return answer


def kinds(session: Any) -> list[str]:
    return [commit.kind for commit in session.log(load=False)]


def statuses(session: Any, kind: str = "outcome") -> list[str]:
    return [commit.status for commit in session.log(load=False) if commit.kind == kind]


def pay_once(store: Any, act: Counted, *, key: str = "order 17", name: str = "main") -> Any:
    """A program that pays in a turn with a key, from start to end."""
    with store.open(name) as s, s.turn("pay", key=key) as t:
        t.call(act.tool(effect="write"), cents=42)
        t.end(value={"paid": 42})
    return t


def interrupt(store: Any, act: Counted, *, key: str = "order 17") -> Any:
    """The same program, which dies after the payment."""
    with driving(store) as s, s.turn("pay", key=key) as t:
        t.call(act.tool(effect="write"), cents=42)
        raise Died
    return t
