"""What the parts of redaction share: spans of text, and what is no secret."""

from __future__ import annotations

from stator.model.values.late_pattern import late

TYPE_CHECKING = False  # as type checkers know it: a hook cannot wait until `typing` is loaded
if TYPE_CHECKING:
    from typing import Final, Literal, NamedTuple

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


PLAIN: Final = late(
    r"(?:[-_]{0,999}+(?:[a-z]{1,14}+[0-9]{0,3}+|[A-Z]{1,14}+[0-9]{0,3}+|[0-9]{1,4}+"
    r"|[a-z]{0,14}+(?:[A-Z][a-z]{2,13}+){1,9})(?![A-Za-z0-9])){0,99}[-_]{0,999}+"
)
"""Short words between separators or capitals: an identifier or a ruled line, never a key."""

PLACEHOLDER_HEAD: Final = "‹secret:"
