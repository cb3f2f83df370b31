"""Turns errors into exit codes and into one line on stderr.

0 ok · 1 a finding · 2 usage · 3 not found · 4 busy · 5 store unusable · 130 interrupted
"""

from __future__ import annotations

import sys
from typing import Any

from stator import errors
from stator.model.values.late_pattern import late
from stator.surfaces.cli.render.escape import bounded

OK, FINDING, USAGE, NOT_FOUND, BUSY, UNUSABLE, INTERRUPTED = 0, 1, 2, 3, 4, 5, 130

# The order matters: StoreBusy is a StoreError too, and every error is a StatorError.
_CODES: tuple[tuple[type[errors.StatorError], int], ...] = (
    (errors.NotFound, NOT_FOUND),
    (errors.Busy, BUSY),
    (errors.LeaseLost, BUSY),
    (errors.StoreBusy, BUSY),
    (errors.ErasesHere, USAGE),
    (errors.Conflict, BUSY),
    (errors.StoreError, UNUSABLE),
    (errors.BrokenChain, FINDING),
    (errors.BadBundle, FINDING),
    (errors.OutletFailed, FINDING),
    (errors.StatorError, USAGE),
)
"""The first class that matches decides. All other errors are mistakes in the arguments."""
MESSAGE_MAX = 2000
_OF_A_STORE = late(r"\bstator (?:init|doctor|verify)\b(?! --store)(?: --rebuild\b)?")
"""Commands in hints that would look at another store if they did not name the one that was meant."""
_PLACE = late(r" - at \$\.[a-z_:]+(?=$| \()")
_IN_PROGRAMS = late(r' \((?:replace=True|erasures="apply")\)')
"""What an option is called where a program calls the same."""


def code_of(error: errors.StatorError) -> int:
    return next(code for kind, code in _CODES if isinstance(error, kind))


def report(error: errors.StatorError, *, json: bool, store: str | None = None) -> int:
    """Print the error on stderr, and with `json` as a JSON line too; returns the exit code. `store` is the one that the
    command line names."""
    code = code_of(error)
    error.hint = _IN_PROGRAMS.sub("", error.hint)
    if store is not None and isinstance(error, errors.StoreError):
        error.hint = _OF_A_STORE.sub(rf"\g<0> --store {_quoted(store)}", error.hint, count=1)
    write_stderr(f"stator: {_typed(str(error))}")
    if json:
        from stator.surfaces.cli.render.wire import dumps

        plain: dict[str, Any] = {"schema": "stator.error/1", **error.wire(), "exit": code}
        sys.stderr.write(dumps(plain) + "\n")
    return code


def _quoted(store: str) -> str:
    """A store as it is typed, in what replaces a match."""
    import shlex

    from stator.locations import without_secrets

    return shlex.quote(without_secrets(store)).replace("\\", r"\\")


def _typed(text: str) -> str:
    """An error in the words of the command line: where an argument is in a program's call says nothing there."""
    return _PLACE.sub("", text, count=1)


def write_stderr(text: str) -> None:
    """Write one line to stderr; control characters in the text are escaped."""
    if sys.stderr is not None:
        sys.stderr.write(bounded(text, MESSAGE_MAX) + "\n")
