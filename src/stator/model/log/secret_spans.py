"""What the parts of redaction share: spans of text, and patterns that are compiled when they are first used."""

from __future__ import annotations

import re

TYPE_CHECKING = False  # as type checkers know it: a hook cannot wait until `typing` is loaded
if TYPE_CHECKING:
    from typing import Any, AnyStr, Final, Literal, NamedTuple

    class Span(NamedTuple):
        start: int
        end: int
        kind: str

    class GivenValue(NamedTuple):
        text: str
        start: int
        last: int
        name: str
        sort: NameSort
        op: str
        value: str

    NameSort = Literal["password", "token", "credential", "auth", "cookie"]
else:
    from collections import namedtuple

    Span = namedtuple("Span", "start end kind")
    GivenValue = namedtuple("GivenValue", "text start last name sort op value")


class LatePattern:
    """A pattern that is made when it is first used: to make all of them takes longer than most programs
    that need one or two of them run. After that its methods are the pattern's own."""

    def __init__(self, source: str | bytes) -> None:
        self._source = source

    def __getattr__(self, name: str) -> Any:
        found = re.compile(self._source)
        for known in ("finditer", "fullmatch", "match", "search", "split", "sub"):
            setattr(self, known, getattr(found, known))
        return getattr(found, name)


def late_pattern(source: AnyStr) -> re.Pattern[AnyStr]:
    made: Any = LatePattern(source)
    return made  # type: ignore[no-any-return]  # `cast` would load `typing`


PLAIN: Final = late_pattern(
    r"(?:[-_]{0,999}+(?:[a-z]{1,14}+[0-9]{0,3}+|[A-Z]{1,14}+[0-9]{0,3}+|[0-9]{1,4}+"
    r"|[a-z]{0,14}+(?:[A-Z][a-z]{2,13}+){1,9})(?![A-Za-z0-9])){0,99}[-_]{0,999}+"
)
"""Short words between separators or capitals: an identifier or a ruled line, never a key."""

PLACEHOLDER_HEAD: Final = "‹secret:"
