"""Loads what an argument names as `module:name` or `file.py:name`: an agent function, or tools.

Only arguments are loaded. A name that comes from the record is never imported, because that would run foreign code.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import runpy
import sys
from collections.abc import Iterator
from typing import Any

from stator.errors import BadQuery, StatorError


def load_target(text: str) -> Any:
    """Load the value that `module:name` or `file.py:name` names."""
    where, colon, name = text.rpartition(":")
    if not colon or not where or not name:
        raise BadQuery(
            f"not a module or file with a name: {text!r:.80}",
            hint="use module:name or file.py:name",
        )
    is_file = where.endswith(".py")
    # Modules beside it can be imported, as with `python -m` and `python file.py`.
    here = os.path.dirname(os.path.abspath(where)) if is_file else os.getcwd()
    if here not in sys.path:
        sys.path.insert(0, here)
    if is_file and not os.path.exists(where):
        raise BadQuery(f"no file {where!r:.200}", hint="use module:name or file.py:name")
    try:
        if is_file:
            # Not as __main__, so that the code under `if __name__ == "__main__"` does not run.
            space = runpy.run_path(where, run_name="__stator_main__")
            first, *rest = name.split(".")
            found = space[first]
        else:
            found, rest = importlib.import_module(where), name.split(".")
        for part in rest:
            found = getattr(found, part)
    except StatorError:
        raise
    except Exception as error:
        problem = f"{type(error).__name__}: {error}"
        raise BadQuery(f"cannot load {text!r:.80}: {problem}") from error
    return found


def load_function(text: str) -> Any:
    """Load a function."""
    found = load_target(text)
    if not callable(found):
        raise BadQuery(
            f"{text!r:.80} is not a function", hint="name a function that takes a session"
        )
    return found


def load_tools(text: str | None) -> Any:
    """Load the tools that --tools names."""
    if text is None:
        raise BadQuery(
            "--tools is missing", hint="use --tools module:TOOLS or --tools file.py:TOOLS"
        )
    return load_target(text)


def own_environment() -> dict[str, str]:
    """The variables that a recorded command is given: those that the user's shell has, without our own."""
    return {name: value for name, value in os.environ.items() if not name.startswith("STATOR_")}


@contextlib.contextmanager
def prints_to_stderr() -> Iterator[None]:
    """Send what the user's code prints to stderr: stdout holds only the command's answer."""
    with contextlib.redirect_stdout(sys.stderr):
        yield
