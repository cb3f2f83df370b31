"""`stator.aio` has the same names and the same arguments as the synchronous API, awaited."""

from __future__ import annotations

import inspect

import pytest

from stator.runtime.facade import aio, aio_outside, outside
from stator.runtime.facade.aio_runs import AsyncRun
from stator.runtime.facade.aio_view import AsyncView
from stator.runtime.facade.contributor import Contributor
from stator.runtime.facade.run import Run
from stator.runtime.facade.session import Session, Turn
from stator.runtime.facade.store import Store
from stator.runtime.facade.view import SessionView

TWINS = {
    Store: aio.AsyncStore,
    Session: aio.AsyncSession,
    Turn: aio.AsyncTurn,
    SessionView: AsyncView,
    Contributor: aio.AsyncContributor,
    Run: AsyncRun,
    outside.Approvals: aio_outside.AsyncApprovals,
    outside.Budgets: aio_outside.AsyncBudgets,
    outside.Lifecycle: aio_outside.AsyncLifecycle,
    outside.Doubts: aio_outside.AsyncDoubts,
}
EXCEPTIONS: dict[tuple[type, str], str] = {
    (SessionView, "id"): "known without asking, so it stays a property",
    (Session, "id"): "known without asking, so it stays a property",
    (Turn, "ended"): "known without asking, so it stays a property",
    (Store, "foreign"): "known without asking, so it stays a property",
    **{
        (Store, name): "the object itself is at hand, its methods are awaited"
        for name in ("approvals", "budgets", "lifecycle", "doubts")
    },
}
"""What differs, and why."""

OPENING = {
    (Store, "open"),
    (Store, "tail"),
    (Session, "turn"),
    (Session, "child"),
    (Session, "wrap"),
    (Turn, "stream"),
}
"""Plain methods that give something awaitable: awaited and entered, called, or iterated."""
EVERY = [
    pytest.param(kind, name, id=f"{kind.__name__}.{name}")
    for kind in TWINS
    for name, value in inspect.getmembers(kind)
    if not name.startswith("_") and (inspect.isfunction(value) or isinstance(value, property))
    if (kind, name) not in EXCEPTIONS
]


def parameters(function):
    """Names, kinds and defaults; the type checker compares annotations."""
    return [
        (given.name, given.kind, given.default)
        for given in inspect.signature(function).parameters.values()
    ]


@pytest.mark.parametrize(("kind", "name"), EVERY)
def test_each_asynchronous_method_has_the_same_arguments(kind, name):
    value = getattr(kind, name)
    twin = inspect.getattr_static(TWINS[kind], name, None)
    assert twin is not None, f"{TWINS[kind].__name__} has no {name}"
    if isinstance(value, property):
        assert len(inspect.signature(twin).parameters) == 1, "a property becomes a plain method"
    else:
        assert parameters(twin) == parameters(value)


@pytest.mark.parametrize(("kind", "name"), EVERY)
def test_each_asynchronous_method_is_awaitable(kind, name):
    twin = inspect.getattr_static(TWINS[kind], name, None)
    if twin is None:
        pytest.skip("missing: the other test says so")
    made = twin if inspect.iscoroutinefunction(twin) else inspect.unwrap(twin)
    is_async = inspect.iscoroutinefunction(made) or inspect.isasyncgenfunction(made)
    assert is_async != ((kind, name) in OPENING)


@pytest.mark.parametrize(("kind", "twin"), TWINS.items(), ids=lambda kind: kind.__name__)
def test_the_asynchronous_class_has_no_additional_names(kind, twin):
    extra = {name for name in dir(twin) if not name.startswith("_")} - set(dir(kind))
    assert extra <= {"id", "number", "continued", "reused"}


def test_every_listed_exception_is_still_needed():
    for kind, name in EXCEPTIONS:
        value, twin = getattr(kind, name), inspect.getattr_static(TWINS[kind], name, None)
        assert isinstance(twin, property) or twin is None or parameters(twin) != parameters(value)
