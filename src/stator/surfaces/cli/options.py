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
AtOption = Annotated[
    str | None, Parameter(name="--at", help="A position: t3, @42, a tag, SESSION:t3.")
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
UntilOption = Annotated[
    str | None, Parameter(name="--until", help="Not newer than: 2h, 3d, 2026-11-15.")
]
WordsArgument = Annotated[
    list[str] | None,
    Parameter(name="--words", help='Words, all of them; "a phrase"; a beginning*; -- -not.'),
]
NotOption = Annotated[
    list[str] | None,
    Parameter(
        name="--not",
        consume_multiple=False,
        help="Without this word or phrase; may be given several times.",
    ),
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
MaxTokensOption = Annotated[
    int, Parameter(name="--max-tokens", converter=_whole, help="At most so many tokens.")
]
TargetOption = Annotated[
    str, Parameter(name="--for", help="Who reads it: generic, claude-code or codex.")
]
SincePositionOption = Annotated[
    str | None, Parameter(name="--since", help="The last you know: a position or a hash.")
]
NoDiskFlag = Annotated[
    bool, Parameter(name="--no-disk", help="Do not look whether files are as recorded.")
]
VersionOption = Annotated[
    int | None, Parameter(name="--version", converter=_whole, help="That version of it.")
]
VersionsOption = Annotated[
    str | None, Parameter(name="--diff", help="What changed: 1..3, or 3 against the one before.")
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
OnOption = Annotated[
    str | None, Parameter(name="--on", help="A turn (t5) or a call; default: the session.")
]
EffectsOption = Annotated[
    Literal["ask", "run"],
    Parameter(name="--effects", help="What it may write: ask a person first, or run."),
]
FitOption = Annotated[
    int | None,
    Parameter(
        name="--max-tokens", converter=_whole, help="Until it fits; default: every strategy."
    ),
]
KeepOption = Annotated[
    int,
    Parameter(name="--keep", converter=_whole, help="How many of the latest answers stay whole."),
]
StrategyOption = Annotated[
    list[str] | None,
    Parameter(
        name="--strategy",
        consume_multiple=False,
        help="outputs, mask or summarise; may be given several times. Default: all, in that order.",
    ),
]
EveryCompactionFlag = Annotated[
    bool, Parameter(name="--all", help="By every compaction, not only the one that stands.")
]
WholeFlag = Annotated[
    bool, Parameter(name="--whole", help="For every project of the store, not this one.")
]
YesFlag = Annotated[bool, Parameter(name="--yes", help="I have seen what would go.")]
MaxSizeOption = Annotated[
    str | None, Parameter(name="--max-size", help="Trash the oldest until so much is left: 2GB.")
]
FieldOption = Annotated[
    list[str] | None,
    Parameter(
        name="--field",
        consume_multiple=False,
        help="Only this field of the commit; may be given several times.",
    ),
]
SessionsArgument = Annotated[
    list[str] | None,
    Parameter(name="--sessions", help="Names, ids or ends of them; default: the last session."),
]
OutputOption = Annotated[
    str | None,
    Parameter(name=["--output", "-o"], help="The file to write; default: NAME.stator."),
]
AsOption = Annotated[
    str | None,
    Parameter(name="--as", help="Write a transcript for that agent to resume: claude-code."),
]
CwdOption = Annotated[
    str | None,
    Parameter(name="--cwd", help="The folder the agent will work in; default: this one."),
]
RedactOption = Annotated[
    list[str] | None,
    Parameter(
        name="--redact",
        consume_multiple=False,
        help="Leave out content that holds this text, in any case; may be given several times.",
    ),
]
PassphraseFileOption = Annotated[
    str | None,
    Parameter(name="--passphrase-file", help="A file whose first line is the passphrase."),
]
IntoProjectOption = Annotated[
    str | None,
    Parameter(
        name="--project",
        help="The project to bring new sessions to; default: theirs if it is known here, else this one.",
    ),
]
SourcesArgument = Annotated[
    list[str] | None,
    Parameter(
        name="--sources",
        allow_leading_hyphen=True,
        help="Agents (claude-code, codex, …), files and folders, or - for stdin; default: every agent found here.",
    ),
]
EveryProjectFlag = Annotated[
    bool, Parameter(name="--all", help="Of every project, each into its own.")
]
ChangedSinceOption = Annotated[
    str | None, Parameter(name="--since", help="Only what changed since: 2h, 30d, 2026-11-15.")
]
TurnsOption = Annotated[
    str | None,
    Parameter(name=["--turns", "--turn"], help="Only these turns: t3, t3..t5 (both with it), t3.."),
]
ToolsOption = Annotated[
    str | None, Parameter(name="--tools", help="Tools by name: module:TOOLS, or file.py:TOOLS.")
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
PortOption = Annotated[
    int, Parameter(name="--port", converter=_whole, help="The port; 0: any that is free.")
]
UpstreamOption = Annotated[
    str | None, Parameter(name="--upstream", help="The address of the server, with --http.")
]
Command = Annotated[str, Parameter(help="The program and its arguments, after --.")]
Text = str | None
"""An argument that may be left out."""
