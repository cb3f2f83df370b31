"""Regular expressions that are compiled when they are first used.

To compile one takes longer than to load the module around it, and a program that answers one question uses few of them.
"""

from __future__ import annotations

import re

TYPE_CHECKING = False  # as type checkers know it: a hook cannot wait until `typing` is loaded
if TYPE_CHECKING:
    from typing import Any, AnyStr


class LatePattern:
    """Becomes its compiled pattern, method by method: each is looked up once."""

    def __init__(self, pattern: str | bytes, flags: int) -> None:
        self._given = pattern, flags
        self._compiled: re.Pattern[Any] | None = None

    def __getattr__(self, name: str) -> Any:
        if self._compiled is None:
            self._compiled = re.compile(*self._given)
        found = getattr(self._compiled, name)
        setattr(self, name, found)
        return found


def late(pattern: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """A pattern as `re.compile` makes it, but not before it is used. For constants of modules."""
    made: Any = LatePattern(pattern, flags)
    return made  # type: ignore[no-any-return]  # `cast` would load `typing`
