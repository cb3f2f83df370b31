"""What a person names on the command line to be run: `module:name` or `file.py:name`.

Only who types a command decides what it imports; nothing that was recorded is ever imported.
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
    """The function or value that `module:name` or `file.py:name` stands for."""
    where, colon, name = text.rpartition(":")
    if not colon or not where or not name:
        raise BadQuery(f"not a target: {text!r:.80}", hint="module:name, or file.py:name")
    is_file = where.endswith(".py")
    # As `python -m` and `python file.py` find the modules beside them.
    here = os.path.dirname(os.path.abspath(where)) if is_file else os.getcwd()
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        if is_file:
            # Not as __main__: what the file does when it is run is not wanted here.
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
        said = f"{type(error).__name__}: {error}"
        raise BadQuery(f"cannot load {text!r:.80}: {said}") from error
    return found


def load_function(text: str) -> Any:
    """The function a target stands for."""
    found = load_target(text)
    if not callable(found):
        raise BadQuery(f"{text!r:.80} cannot be called", hint="name a function of a session")
    return found


def load_tools(text: str | None) -> Any:
    """The tools a target stands for."""
    if text is None:
        raise BadQuery("which tools?", hint="--tools module:TOOLS, or file.py:TOOLS")
    return load_target(text)


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """What the user's own code prints goes to stderr: the answer is the command's."""
    with contextlib.redirect_stdout(sys.stderr):
        yield
