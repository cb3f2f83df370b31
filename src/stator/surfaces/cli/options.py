"""Defines the options that commands share: their names, their types and their help. Loads the parser."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from cyclopts import Parameter, Token


def _whole(_: Any, tokens: Sequence[Token]) -> int:
    """Parse a whole number; the parser itself would round 1.5."""
    text = tokens[0].value
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"{text!r:.40} is not a whole number") from None


_SESSION = "A session name, an id or its last characters, or last."

JsonFlag = Annotated[
    bool, Parameter(name="--json", help="Print JSON; a list has one item per line.")
]
StoreOption = Annotated[
    str | None,
    Parameter(name="--store", metavar="STORE", help="Use this store instead of the nearest one."),
]
NoPagerFlag = Annotated[bool, Parameter(name="--no-pager", help="Do not use a pager.")]
SessionOption = Annotated[
    str | None,
    Parameter(name=["--session", "-s"], metavar="SESSION", help=_SESSION),
]
SessionArgument = Annotated[
    str | None,
    Parameter(name=["--session", "-s"], metavar="SESSION", help=_SESSION),
]
AtOption = Annotated[
    str | None,
    Parameter(name="--at", metavar="POSITION", help="The position: t3, @42, a tag or SESSION:t3."),
]
LimitOption = Annotated[
    int | None,
    Parameter(
        name=["--limit", "-n"], converter=_whole, metavar="N", help="Show at most N, newest first."
    ),
]
CountOption = Annotated[
    int | None,
    Parameter(name=["--limit", "-n"], converter=_whole, metavar="N", help="Show at most N."),
]
LastOption = Annotated[
    int | None,
    Parameter(name="--last", converter=_whole, metavar="N", help="Only the last N turns."),
]
SinceOption = Annotated[
    str | None,
    Parameter(name="--since", metavar="TIME", help="Not older than this: 2h, 3d or 2026-11-15."),
]
UntilOption = Annotated[
    str | None,
    Parameter(name="--until", metavar="TIME", help="Not newer than this: 2h, 3d or 2026-11-15."),
]
WordsArgument = Annotated[
    list[str] | None,
    Parameter(
        name="--words",
        help='Words that must all match: word, "a phrase", prefix*. After --, -word excludes a word.',
    ),
]
NotOption = Annotated[
    list[str] | None,
    Parameter(
        name="--not",
        consume_multiple=False,
        help="Exclude matches of this word or phrase. Can be repeated.",
    ),
]
ProjectFlag = Annotated[
    bool, Parameter(name="--project", help="Include every session of this project.")
]
EverywhereFlag = Annotated[
    bool, Parameter(name=["--everywhere"], help="Include every session of the store.")
]
AllFlag = Annotated[
    bool, Parameter(name=["--all", "--everywhere"], help="Include every session of the store.")
]
KindOption = Annotated[
    list[str] | None,
    Parameter(
        name="--kind",
        consume_multiple=False,
        help="Only commits of this kind. Can be repeated.",
    ),
]
FromRefOption = Annotated[
    str | None,
    Parameter(
        name="--from",
        metavar="REF",
        help="Where it comes from: a candidate to confirm (prefer), host:NAME (forget).",
    ),
]
CollectionOption = Annotated[
    list[str] | None,
    Parameter(
        name=["--collection", "-c"],
        consume_multiple=False,
        help="Only this collection. Can be repeated.",
    ),
]
ForOption = Annotated[
    str | None,
    Parameter(
        name="--for",
        metavar="SCOPE",
        help="How far the answer reaches: once (this call), session or project (every call with the same "
        "arguments, or every call that matches the pattern).",
    ),
]
PatternOption = Annotated[
    str | None,
    Parameter(
        name="--pattern", help="Answer every call that matches: 'pay(amount<=100)' or read_*."
    ),
]
ExpiresOption = Annotated[
    str | None,
    Parameter(
        name="--expires", metavar="TIME", help="When the answer expires: 2h, 7d or 2026-11-15."
    ),
]
ReasonOption = Annotated[
    str,
    Parameter(
        name="--reason",
        help="The reason to record: user, done, budget, error, lease lost or process died.",
    ),
]
FollowFlag = Annotated[
    bool, Parameter(name=["--follow", "-f"], help="Keep printing new commits until interrupted.")
]
MaxTokensOption = Annotated[
    int, Parameter(name="--max-tokens", converter=_whole, metavar="N", help="Use at most N tokens.")
]
ForPromptOption = Annotated[
    str | None,
    Parameter(
        name="--for-prompt",
        metavar="TEXT",
        help="Print what an agent is told with this first prompt: nothing, if nothing bears on it.",
    ),
]
TargetOption = Annotated[
    str, Parameter(name="--for", help="The reader: generic, claude-code or codex.")
]
SincePositionOption = Annotated[
    str | None,
    Parameter(
        name="--since",
        metavar="POSITION",
        help="Begin with what happened after this position or hash.",
    ),
]
NoDiskFlag = Annotated[
    bool, Parameter(name="--no-disk", help="Do not check whether files on disk match the record.")
]
VersionOption = Annotated[
    int | None,
    Parameter(name="--version", converter=_whole, metavar="N", help="Show this version."),
]
VersionsOption = Annotated[
    str | None,
    Parameter(
        name="--diff", help="Compare two versions: 1..3, or 3 for version 3 and the one before."
    ),
]
DetachFlag = Annotated[
    bool, Parameter(name=["--detach", "-d"], help="Return at once; the program keeps running.")
]
FromOption = Annotated[
    str | None,
    Parameter(
        name="--from", metavar="CURSOR", help="Continue after this cursor, which attach printed."
    ),
]
RunSessionOption = Annotated[
    str | None,
    Parameter(
        name=["--session", "-s"],
        metavar="SESSION",
        help="The session to use, created if missing; default: a new one.",
    ),
]
OnOption = Annotated[
    str | None, Parameter(name="--on", help="A turn (t5) or a call; default: the whole session.")
]
EffectsOption = Annotated[
    Literal["ask", "run"],
    Parameter(name="--effects", help="Calls that write: ask for approval first, or run."),
]
FitOption = Annotated[
    int | None,
    Parameter(
        name="--max-tokens",
        converter=_whole,
        metavar="N",
        help="Stop when the transcript fits N tokens; default: apply every strategy.",
    ),
]
KeepOption = Annotated[
    int,
    Parameter(
        name="--keep", converter=_whole, metavar="N", help="Keep the latest N answers whole."
    ),
]
StrategyOption = Annotated[
    list[str] | None,
    Parameter(
        name="--strategy",
        consume_multiple=False,
        help="outputs, mask or summarise. Can be repeated; default: all three, in this order.",
    ),
]
EveryCompactionFlag = Annotated[
    bool, Parameter(name="--all", help="Include every compaction, not only the current one.")
]
WholeFlag = Annotated[
    bool, Parameter(name="--whole", help="Apply to every project of the store, not only this one.")
]
YesFlag = Annotated[bool, Parameter(name="--yes", help="Do it without asking.")]
MaxSizeOption = Annotated[
    str | None,
    Parameter(
        name="--max-size",
        metavar="SIZE",
        help="Trash the oldest sessions until the rest is this small: 2GB.",
    ),
]
FieldOption = Annotated[
    list[str] | None,
    Parameter(
        name="--field",
        consume_multiple=False,
        help="Only this field of the commit. Can be repeated.",
    ),
]
SessionsArgument = Annotated[
    list[str] | None,
    Parameter(
        name="--sessions",
        help="Session names, ids or their last characters; default: the last session.",
    ),
]
HunksFlag = Annotated[
    bool,
    Parameter(
        name=["--patch", "-p"], help="Show what each turn changed in the file, line by line."
    ),
]
RecapArgument = Annotated[
    str,
    Parameter(
        name="--sessions",
        help="Session names, ids or their last characters; default: the last ten of the project.",
    ),
]
OutputOption = Annotated[
    str | None,
    Parameter(
        name=["--output", "-o"], metavar="FILE", help="The file to write; default: NAME.stator."
    ),
]
AsOption = Annotated[
    str | None,
    Parameter(
        name="--as",
        metavar="AGENT",
        help="Write a transcript that this agent can resume: claude-code.",
    ),
]
CwdOption = Annotated[
    str | None,
    Parameter(
        name="--cwd", metavar="FOLDER", help="The folder the agent will work in; default: this one."
    ),
]
RedactOption = Annotated[
    list[str] | None,
    Parameter(
        name="--redact",
        consume_multiple=False,
        help="Leave out content that contains this text, ignoring case. Can be repeated.",
    ),
]
PassphraseFileOption = Annotated[
    str | None,
    Parameter(
        name="--passphrase-file",
        metavar="FILE",
        help="Read the passphrase from the first line of this file.",
    ),
]
ProofOption = Annotated[
    str | None,
    Parameter(
        name="--proof",
        metavar="PROOF",
        help="How to prove that a person approves: terminal, passphrase or signed. Default: what the call demands.",
    ),
]
SigningKeyOption = Annotated[
    str | None,
    Parameter(
        name="--signing-key",
        metavar="FILE",
        help="Sign the approval with this private Ed25519 key (PEM); stator init --approver-key lists its public half.",
    ),
]
IntoProjectOption = Annotated[
    str | None,
    Parameter(
        name="--project",
        help="The project for new sessions; default: the one each took place in, else one called after its agent.",
    ),
]
SourcesArgument = Annotated[
    list[str] | None,
    Parameter(
        name="--sources",
        allow_leading_hyphen=True,
        help="Agents (claude-code, codex, …), files, folders, or - for stdin; default: every agent on this machine.",
    ),
]
EveryProjectFlag = Annotated[
    bool,
    Parameter(name="--all", help="Import agents' sessions of every project, not only of this one."),
]
ChangedSinceOption = Annotated[
    str | None,
    Parameter(
        name="--since", metavar="TIME", help="Only sessions changed since: 2h, 30d or 2026-11-15."
    ),
]
TurnsOption = Annotated[
    str | None,
    Parameter(
        name=["--turns", "--turn"],
        help="Only these turns: t3, t3..t5 (inclusive), or t3.. (to the last).",
    ),
]
ToolsOption = Annotated[
    str | None, Parameter(name="--tools", help="The tools by name: module:TOOLS or file.py:TOOLS.")
]
RootOption = Annotated[
    str | None,
    Parameter(
        name="--root",
        metavar="FOLDER",
        help="The folder to work in, with the shell and file tools that agents have; default: this one.",
    ),
]
WorkflowFileOption = Annotated[
    str | None,
    Parameter(
        name=["--output", "-o"], metavar="FILE", help="The file to write; it must not exist yet."
    ),
]
SetOption = Annotated[
    list[str] | None,
    Parameter(
        name="--set",
        consume_multiple=False,
        help="For run: set a parameter, name=value. Can be repeated.",
    ),
]
PortOption = Annotated[
    int,
    Parameter(
        name="--port",
        converter=_whole,
        metavar="PORT",
        help="The port to listen on; 0 picks a free one.",
    ),
]
UpstreamOption = Annotated[
    str | None,
    Parameter(name="--upstream", metavar="URL", help="The address of the server, with --http."),
]
Command = Annotated[str, Parameter(help="The program and its arguments, after --.")]
Text = str | None
"""An argument that may be left out."""
