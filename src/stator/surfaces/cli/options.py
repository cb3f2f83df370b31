"""The options commands share: their names on the command line and what they mean. Loads the parser."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from cyclopts import Parameter, Token


def _whole(_: Any, tokens: Sequence[Token]) -> int:
    """A whole number; the parser's own reading would round 1.5."""
    return int(tokens[0].value)


JsonFlag = Annotated[
    bool, Parameter(name="--json", help="For programs: JSON, one line per item of a list.")
]
StoreOption = Annotated[
    str | None, Parameter(name="--store", help="The store to use, instead of the nearest.")
]
NoPagerFlag = Annotated[
    bool, Parameter(name="--no-pager", help="Never page, even if the answer is long.")
]
SessionOption = Annotated[
    str | None,
    Parameter(name=["--session", "-s"], help="A session: name, id or end of one, or last."),
]
SessionArgument = Annotated[
    str | None,
    Parameter(name=["--session", "-s"], help="Name, id or end of one, or last."),
]
LimitOption = Annotated[
    int | None,
    Parameter(name=["--limit", "-n"], converter=_whole, help="At most so many, the newest."),
]
LastOption = Annotated[
    int | None, Parameter(name="--last", converter=_whole, help="Only the last so many turns.")
]
SinceOption = Annotated[
    str | None, Parameter(name="--since", help="Not older than: 2h, 3d, 2026-11-15.")
]
ProjectFlag = Annotated[
    bool, Parameter(name="--project", help="Over every session of this project.")
]
EverywhereFlag = Annotated[
    bool, Parameter(name=["--everywhere"], help="Over every session of the store.")
]
AllFlag = Annotated[
    bool, Parameter(name=["--all", "--everywhere"], help="Over every session of the store.")
]
KindOption = Annotated[
    list[str] | None,
    Parameter(
        name="--kind",
        consume_multiple=False,
        help="Only commits of this kind; may be given several times.",
    ),
]
CollectionOption = Annotated[
    list[str] | None,
    Parameter(
        name=["--collection", "-c"],
        consume_multiple=False,
        help="Only this collection; may be given several times.",
    ),
]
ForOption = Annotated[
    str | None,
    Parameter(
        name="--for",
        help="once (this call), session or project (every call of these arguments, or of the pattern).",
    ),
]
PatternOption = Annotated[
    str | None,
    Parameter(name="--pattern", help="Every call that fits: 'pay(amount<=100)', read_*."),
]
ExpiresOption = Annotated[
    str | None, Parameter(name="--expires", help="For how long, or until when: 2h, 7d, 2026-11-15.")
]
ReasonOption = Annotated[
    str, Parameter(name="--reason", help="user, done, budget, error, lease lost or process died.")
]
FollowFlag = Annotated[
    bool, Parameter(name=["--follow", "-f"], help="Go on with what comes, until interrupted.")
]
DetachFlag = Annotated[
    bool, Parameter(name=["--detach", "-d"], help="Return at once; the program runs on.")
]
FromOption = Annotated[
    str | None, Parameter(name="--from", help="Go on after this cursor, as attach printed it.")
]
RunSessionOption = Annotated[
    str | None,
    Parameter(
        name=["--session", "-s"], help="The session, made if there is none; default: a new one."
    ),
]
TurnsOption = Annotated[
    str | None,
    Parameter(name=["--turns", "--turn"], help="Only these turns: t3, t3..t5 (both with it), t3.."),
]
ToolsOption = Annotated[
    str | None, Parameter(name="--tools", help="Tools by name: module:TOOLS, or file.py:TOOLS.")
]
EffectsOption = Annotated[
    Literal["ask", "run"],
    Parameter(name="--effects", help="ask (the default): writes wait for a person; or run."),
]
WorkflowFileOption = Annotated[
    str | None,
    Parameter(name=["--output", "-o"], help="The file to write; never one that is there."),
]
SetOption = Annotated[
    list[str] | None,
    Parameter(
        name="--set",
        consume_multiple=False,
        help="Of run: a parameter, name=value; may be given several times.",
    ),
]
Command = Annotated[str, Parameter(help="The program and its arguments, after --.")]
Text = str | None
"""An argument that may be left out."""
