"""The commands, one file each: a function named like the file, and `EXAMPLES` for its help.

The parameters of the function are the command's options, and it returns the exit code. The types of the parameters
are names from `options`; they are imported only when there are arguments to parse, because that loads the parser.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from keyword import iskeyword


def load(name: str) -> Callable[..., int]:
    """Import a command and return its function."""
    found: Callable[..., int] = getattr(
        import_module(f"{__name__}.{python_name(name)}"), python_name(name)
    )
    return found


def python_name(name: str) -> str:
    """The command's name in Python: `import` is a keyword there, so it is spelled `import_`."""
    return f"{name}_" if iskeyword(name) else name


def examples(name: str) -> str:
    text: str = import_module(f"{__name__}.{python_name(name)}").EXAMPLES
    return text
