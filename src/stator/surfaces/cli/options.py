"""Defines the options that commands share: their names, their types and their help.

Plain data, because most words are read without the parser (`plain_words`), which takes longer to import than most
commands take to run. The parser makes its own parameters of them (`parser`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Annotated, Any, Literal, get_type_hints


class Option:
    """What a command line can say of one parameter: the names it has there, and its help."""

    __slots__ = ("help", "leading_hyphen", "metavar", "names", "repeated", "whole")

    def __init__(
        self,
        name: str | Sequence[str] = (),
        *,
        help: str,
        metavar: str | None = None,
        whole: bool = False,
        repeated: bool = False,
        leading_hyphen: bool = False,
    ) -> None:
        """`whole`: a whole number. `repeated`: one value each time it is given. `leading_hyphen`: a word that begins
        with a hyphen is a value too."""
        self.names = (name,) if isinstance(name, str) else tuple(name)
        self.help = help
        self.metavar = metavar
        self.whole = whole
        self.repeated = repeated
        self.leading_hyphen = leading_hyphen


@cache
def hints(function: Callable[..., int]) -> dict[str, Any]:
    """The types of a command's parameters, with their options: its file names them as strings only."""
    return get_type_hints(function, localns=globals(), include_extras=True)


_SESSION = "A session name, an id or its last characters, or last."

JsonFlag = Annotated[bool, Option(name="--json", help="Print JSON; a list has one item per line.")]
StoreOption = Annotated[
    str | None,
    Option(name="--store", metavar="STORE", help="Use this store instead of the nearest one."),
]
NoPagerFlag = Annotated[bool, Option(name="--no-pager", help="Do not use a pager.")]
SessionOption = Annotated[
    str | None,
    Option(name=["--session", "-s"], metavar="SESSION", help=_SESSION),
]
SessionArgument = Annotated[
    str | None,
    Option(name=["--session", "-s"], metavar="SESSION", help=_SESSION),
]
AtOption = Annotated[
    str | None,
    Option(name="--at", metavar="POSITION", help="The position: t3, @42, a tag or SESSION:t3."),
]
LimitOption = Annotated[
    int | None,
    Option(name=["--limit", "-n"], whole=True, metavar="N", help="Show at most N, newest first."),
]
CountOption = Annotated[
    int | None,
    Option(name=["--limit", "-n"], whole=True, metavar="N", help="Show at most N."),
]
LastOption = Annotated[
    int | None,
    Option(name="--last", whole=True, metavar="N", help="Only the last N turns."),
]
SinceOption = Annotated[
    str | None,
    Option(name="--since", metavar="TIME", help="Not older than this: 2h, 3d or 2026-11-15."),
]
UntilOption = Annotated[
    str | None,
    Option(name="--until", metavar="TIME", help="Not newer than this: 2h, 3d or 2026-11-15."),
]
WordsArgument = Annotated[
    list[str] | None,
    Option(
        name="--words",
        help='Words that must all match: word, "a phrase", prefix*. After --, -word excludes a word.',
    ),
]
NotOption = Annotated[
    list[str] | None,
    Option(
        name="--not",
        repeated=True,
        help="Exclude matches of this word or phrase. Can be repeated.",
    ),
]
ProjectFlag = Annotated[
    bool, Option(name="--project", help="Include every session of this project.")
]
EverywhereFlag = Annotated[
    bool, Option(name=["--everywhere"], help="Include every session of the store.")
]
AllFlag = Annotated[
    bool, Option(name=["--all", "--everywhere"], help="Include every session of the store.")
]
KindOption = Annotated[
    list[str] | None,
    Option(
        name="--kind",
        repeated=True,
        help="Only commits of this kind. Can be repeated.",
    ),
]
FromRefOption = Annotated[
    str | None,
    Option(
        name="--from",
        metavar="REF",
        help="Where it comes from: a candidate to confirm (prefer), host:NAME (forget).",
    ),
]
CollectionOption = Annotated[
    list[str] | None,
    Option(
        name=["--collection", "-c"],
        repeated=True,
        help="Only this collection. Can be repeated.",
    ),
]
ForOption = Annotated[
    str | None,
    Option(
        name="--for",
        metavar="SCOPE",
        help="How far the answer reaches: once (this call), session or project (every call with the same "
        "arguments, or every call that matches the pattern).",
    ),
]
PatternOption = Annotated[
    str | None,
    Option(name="--pattern", help="Answer every call that matches: 'pay(amount<=100)' or read_*."),
]
ExpiresOption = Annotated[
    str | None,
    Option(name="--expires", metavar="TIME", help="When the answer expires: 2h, 7d or 2026-11-15."),
]
ReasonOption = Annotated[
    str,
    Option(
        name="--reason",
        help="The reason to record: user, done, budget, error, lease lost or process died.",
    ),
]
FollowFlag = Annotated[
    bool, Option(name=["--follow", "-f"], help="Keep printing new commits until interrupted.")
]
EditsFlag = Annotated[bool, Option(name=["--patch", "-p"], help="Show every edit as a patch.")]
MaxTokensOption = Annotated[
    int, Option(name="--max-tokens", whole=True, metavar="N", help="Use at most N tokens.")
]
ForPromptOption = Annotated[
    str | None,
    Option(
        name="--for-prompt",
        metavar="TEXT",
        help="Print what an agent is told with this first prompt: nothing, if nothing bears on it.",
    ),
]
TargetOption = Annotated[
    str, Option(name="--for", help="The reader: generic, claude-code or codex.")
]
SincePositionOption = Annotated[
    str | None,
    Option(
        name="--since",
        metavar="POSITION",
        help="Begin with what happened after this position or hash.",
    ),
]
NoDiskFlag = Annotated[
    bool, Option(name="--no-disk", help="Do not check whether files on disk match the record.")
]
VersionOption = Annotated[
    int | None,
    Option(name="--version", whole=True, metavar="N", help="Show this version."),
]
VersionsOption = Annotated[
    str | None,
    Option(
        name="--diff", help="Compare two versions: 1..3, or 3 for version 3 and the one before."
    ),
]
DetachFlag = Annotated[
    bool, Option(name=["--detach", "-d"], help="Return at once; the program keeps running.")
]
FromOption = Annotated[
    str | None,
    Option(
        name="--from", metavar="CURSOR", help="Continue after this cursor, which attach printed."
    ),
]
RunSessionOption = Annotated[
    str | None,
    Option(
        name=["--session", "-s"],
        metavar="SESSION",
        help="The session to use, created if missing; default: a new one.",
    ),
]
OnOption = Annotated[
    str | None, Option(name="--on", help="A turn (t5) or a call; default: the whole session.")
]
EffectsOption = Annotated[
    Literal["ask", "run"],
    Option(name="--effects", help="Calls that write: ask for approval first, or run."),
]
FitOption = Annotated[
    int | None,
    Option(
        name="--max-tokens",
        whole=True,
        metavar="N",
        help="Stop when the transcript fits N tokens; default: apply every strategy.",
    ),
]
KeepOption = Annotated[
    int,
    Option(name="--keep", whole=True, metavar="N", help="Keep the latest N answers whole."),
]
StrategyOption = Annotated[
    list[str] | None,
    Option(
        name="--strategy",
        repeated=True,
        help="outputs, mask or summarise. Can be repeated; default: all three, in this order.",
    ),
]
EveryCompactionFlag = Annotated[
    bool, Option(name="--all", help="Include every compaction, not only the current one.")
]
WholeFlag = Annotated[
    bool, Option(name="--whole", help="Apply to every project of the store, not only this one.")
]
YesFlag = Annotated[bool, Option(name="--yes", help="Do it without asking.")]
MaxSizeOption = Annotated[
    str | None,
    Option(
        name="--max-size",
        metavar="SIZE",
        help="Trash the oldest sessions until the rest is this small: 2GB.",
    ),
]
FieldOption = Annotated[
    list[str] | None,
    Option(
        name="--field",
        repeated=True,
        help="Only this field of the commit. Can be repeated.",
    ),
]
SessionsArgument = Annotated[
    list[str] | None,
    Option(
        name="--sessions",
        help="Session names, ids or their last characters; default: the last session.",
    ),
]
HunksFlag = Annotated[
    bool,
    Option(name=["--patch", "-p"], help="Show what each turn changed in the file, line by line."),
]
RecapArgument = Annotated[
    str,
    Option(
        name="--sessions",
        help="Session names, ids or their last characters; default: the last ten of the project.",
    ),
]
OutputOption = Annotated[
    str | None,
    Option(
        name=["--output", "-o"], metavar="FILE", help="The file to write; default: NAME.stator."
    ),
]
AsOption = Annotated[
    str | None,
    Option(
        name="--as",
        metavar="AGENT",
        help="Write a transcript that this agent can resume: claude-code.",
    ),
]
AsNameOption = Annotated[
    str | None,
    Option(
        name="--as",
        metavar="NAME",
        help="The name of the fork if both stores continued it; else a fork at its head, called so.",
    ),
]
TenantOption = Annotated[
    str | None,
    Option(
        name="--tenant",
        metavar="TENANT",
        help="Only the sessions of this tenant; a server may require it.",
    ),
]
ProjectsOption = Annotated[
    list[str] | None,
    Option(
        name="--project",
        repeated=True,
        metavar="PROJECT",
        help="A project by its name or its folder; default: the current one. Can be repeated.",
    ),
]
HereProjectOption = Annotated[
    str | None,
    Option(
        name="--project",
        metavar="PROJECT",
        help="The project of a session that is new here; default: its own if this store has it, else the current one.",
    ),
]
IntoOption = Annotated[
    str | None,
    Option(
        name="--into",
        metavar="PROJECT",
        help="The project of sessions that are new there; default: their own.",
    ),
]
CwdOption = Annotated[
    str | None,
    Option(
        name="--cwd", metavar="FOLDER", help="The folder the agent will work in; default: this one."
    ),
]
RedactOption = Annotated[
    list[str] | None,
    Option(
        name="--redact",
        repeated=True,
        help="Leave out content that contains this text, ignoring case. Can be repeated.",
    ),
]
PassphraseFileOption = Annotated[
    str | None,
    Option(
        name="--passphrase-file",
        metavar="FILE",
        help="Read the passphrase from the first line of this file.",
    ),
]
ProofOption = Annotated[
    str | None,
    Option(
        name="--proof",
        metavar="PROOF",
        help="How to prove that a person approves: terminal, passphrase or signed. Default: what the call demands.",
    ),
]
SigningKeyOption = Annotated[
    str | None,
    Option(
        name="--signing-key",
        metavar="FILE",
        help="Sign the approval with this private Ed25519 key (PEM); stator init --approver-key lists its public half.",
    ),
]
IntoProjectOption = Annotated[
    str | None,
    Option(
        name="--project",
        help="The project for new sessions; default: the one each took place in, else one called after its agent.",
    ),
]
SourcesArgument = Annotated[
    list[str] | None,
    Option(
        name="--sources",
        leading_hyphen=True,
        help="Agents (claude-code, codex, …), files, folders, or - for stdin; default: every agent on this machine.",
    ),
]
EveryProjectFlag = Annotated[
    bool,
    Option(name="--all", help="Import agents' sessions of every project, not only of this one."),
]
ChangedSinceOption = Annotated[
    str | None,
    Option(
        name="--since", metavar="TIME", help="Only sessions changed since: 2h, 30d or 2026-11-15."
    ),
]
TurnsOption = Annotated[
    str | None,
    Option(
        name=["--turns", "--turn"],
        help="Only these turns: t3, t3..t5 (inclusive), or t3.. (to the last).",
    ),
]
ToolsOption = Annotated[
    str | None, Option(name="--tools", help="The tools by name: module:TOOLS or file.py:TOOLS.")
]
RootOption = Annotated[
    str | None,
    Option(
        name="--root",
        metavar="FOLDER",
        help="The folder to work in, with the shell and file tools that agents have; default: this one.",
    ),
]
WorkflowFileOption = Annotated[
    str | None,
    Option(
        name=["--output", "-o"], metavar="FILE", help="The file to write; it must not exist yet."
    ),
]
SetOption = Annotated[
    list[str] | None,
    Option(
        name="--set",
        repeated=True,
        help="For run: set a parameter, name=value. Can be repeated.",
    ),
]
PortOption = Annotated[
    int,
    Option(
        name="--port",
        whole=True,
        metavar="PORT",
        help="The port to listen on; 0 picks a free one.",
    ),
]
UpstreamOption = Annotated[
    str | None,
    Option(name="--upstream", metavar="URL", help="The address of the server, with --http."),
]
OutletOption = Annotated[
    str | None,
    Option(
        name="--to",
        metavar="FILE",
        leading_hyphen=True,
        help="Append commits to this file as JSON Lines, as in stator log --json --full; - is stdout.",
    ),
]
Command = Annotated[str, Option(help="The program and its arguments, after --.")]
Text = str | None
"""An argument that may be left out."""
