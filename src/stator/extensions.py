"""Looks up transcript formats and stores that other packages add through entry points.

Ours always come first: an entry point is asked only for a URL scheme, a format name or a file that is not ours, so
an installed package can add to Stator and can never replace a part of it. Nothing is loaded before it is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import cache
from typing import Any

from stator.errors import BadExtension, NotAStore

FORMATS = "stator.formats"
"""Entry points of transcript formats: name of the format → an object with the methods of `stator.importing.Format`."""
STORES = "stator.stores"
"""Entry points of stores: URL scheme → a function that opens one, called as `stator.connect` opens ours."""


@cache
def names(group: str) -> tuple[str, ...]:
    """What other packages add to a group, sorted by name."""
    from importlib.metadata import entry_points

    return tuple(sorted({point.name for point in entry_points(group=group)}))


@cache
def load(group: str, name: str) -> Any:
    """The object that an entry point names. `BadExtension` if its package cannot be loaded."""
    from importlib.metadata import entry_points

    point = next(iter(entry_points(group=group, name=name)))
    try:
        return point.load()
    except Exception as error:  # a foreign package may raise anything while it is imported
        package = point.dist.name if point.dist is not None else point.value
        raise BadExtension(
            f"{package} adds {name!r} to {group}, but cannot be loaded: {error}",
            hint=f"repair or uninstall {package}",
        ) from error


def takes(function: Callable[..., Any], parameter: str) -> bool:
    """Whether a function of another package has such a parameter."""
    from inspect import signature  # takes long to load, and few programs ask

    return parameter in signature(function).parameters


def store_opener(scheme: str, *, elsewhere: Collection[str]) -> Callable[..., Any]:
    """What opens URLs of a scheme that is not ours: another package's entry point `stator.stores`. `elsewhere`: schemes
    that are ours, but not of this release."""
    if scheme in names(STORES):
        opener: Callable[..., Any] = load(STORES, scheme)
        return opener
    if scheme in elsewhere:
        raise NotAStore(
            f"{scheme} stores are not part of this release", hint="use a path or sqlite:///path"
        )
    raise NotAStore(
        f"no installed package opens {scheme}:// stores",
        hint=f"use a path or sqlite:///path, or install a package with the entry point {STORES}",
    )
