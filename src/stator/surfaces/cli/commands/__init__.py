"""One file per command: the function of the file's name, and `EXAMPLES` for its help.

A command's parameters are its options; their types are names from `options`, resolved only when there are
arguments to read. It returns its exit code.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from keyword import iskeyword


def load(name: str) -> Callable[..., int]:
    """The function of a command."""
    found: Callable[..., int] = getattr(import_module(f"{__name__}.{spelled(name)}"), spelled(name))
    return found


def spelled(name: str) -> str:
    """A command's name in Python, where some names are taken."""
    return f"{name}_" if iskeyword(name) else name


def examples(name: str) -> str:
    text: str = import_module(f"{__name__}.{spelled(name)}").EXAMPLES
    return text
