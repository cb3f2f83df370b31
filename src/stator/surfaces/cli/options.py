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


_SESSION = "The session: its name or the beginning of it, its id or the end of it, or last."

JsonFlag = Annotated[bool, Option(name="--json", help="Print JSON; a list has one item per line.")]
WebFlag = Annotated[
    bool, Option(name="--web", help="Print addresses of its pages in the inspector (stator web).")
]
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
RefsArgument = Annotated[
    str,
    Option(help="A session, a turn or a range: fix-login, t2, fix-login t2, fix-login:t2, t4..t5."),
]
WholeArgument = Annotated[str, Option(help="A session: its name or a part of it, or its id.")]
PlaceArgument = Annotated[
    str,
    Option(help="A session, or a place in one: fix-login, t2, fix-login t2, fix-login:t2, @42."),
]
ComparedArgument = Annotated[
    str,
    Option(
        help="A turn, a range or two positions, after a session or without: t5, t4..t5, fix-login t5, a:t5 b:head; "
        "default: the last turn."
    ),
]
LimitOption = Annotated[
    int | None, Option(name=["--limit", "-n"], whole=True, metavar="N", help="Show at most N.")
]
AllFlag = Annotated[bool, Option(name="--all", help="Include those that are left out by default.")]
FullFlag = Annotated[
    bool, Option(name="--full", help="Include bookkeeping, and large content as a whole.")
]
PatchFlag = Annotated[bool, Option(name=["--patch", "-p"], help="Show edits as patches.")]
YesFlag = Annotated[bool, Option(name="--yes", help="Do it without asking.")]
DryRunFlag = Annotated[
    bool, Option(name="--dry-run", help="Only show what would be done; write nothing.")
]
OnceFlag = Annotated[bool, Option(name="--once", help="Print what there is now, and exit.")]
EraseFlag = Annotated[
    bool, Option(name="--erase", help="Also erase here what was erased where it comes from.")
]
WhyOption = Annotated[str, Option(name="--why", help="The reason, which is recorded.")]
NeededWhyOption = Annotated[
    str, Option(name="--why", help="The reason, which is recorded: why it is believed.")
]
CauseOption = Annotated[
    str,
    Option(
        name="--why",
        help="The reason, which is recorded: in your words, or one of user, done, budget, error.",
    ),
]
AfterOption = Annotated[
    str | None,
    Option(
        name="--after",
        metavar="PLACE",
        help="Begin after this: a position or a hash; for attach, a cursor that it printed.",
    ),
]
AsOption = Annotated[
    str | None,
    Option(
        name="--as", metavar="AGENT", help="In the form that this agent reads: claude-code, codex."
    ),
]
NewNameOption = Annotated[
    str | None,
    Option(
        name="--name",
        help="The name of the new session: of the fork if both stores continued it, else of a fork at its head.",
    ),
]
IntoOption = Annotated[
    str | None,
    Option(
        name="--into",
        metavar="PROJECT",
        help="The project that new sessions go into, by its name or its folder; default: the one each took place in.",
    ),
]
ProjectsOption = Annotated[
    list[str] | None,
    Option(
        name="--of",
        repeated=True,
        metavar="PROJECT",
        help="A project by its name or its folder; default: the current one. Can be repeated.",
    ),
]
OutsideOption = Annotated[
    str | None,
    Option(
        name="--outside",
        metavar="FOLDER",
        help="A folder outside the project in which files may be restored.",
    ),
]
ChangedSinceOption = Annotated[
    str | None,
    Option(
        name="--since",
        metavar="TIME",
        help="Not older than this: 2h, 3d or 2026-11-15; by when a session last changed.",
    ),
]
RunSessionOption = Annotated[
    str | None,
    Option(
        name=["--session", "-s"],
        metavar="SESSION",
        help="The session: created if missing; default: a new one.",
    ),
]
MaxTokensOption = Annotated[
    int, Option(name="--max-tokens", whole=True, metavar="N", help="At most N tokens.")
]
FitOption = Annotated[
    int | None,
    Option(
        name="--max-tokens",
        whole=True,
        metavar="N",
        help="At most N tokens: stop when the transcript fits; default: apply every strategy.",
    ),
]
AtOption = Annotated[
    str | None,
    Option(name="--at", metavar="POSITION", help="The position: t3, @42, a tag or SESSION:t3."),
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
ProjectFlag = Annotated[bool, Option(name="--project", help="This project, all of it.")]
EverywhereFlag = Annotated[
    bool, Option(name="--everywhere", help="Every project of the store, not only this one.")
]
KindOption = Annotated[
    list[str] | None,
    Option(
        name="--kind",
        repeated=True,
        help="Only commits of this kind: prompt, answer, call, outcome, decision, file, … Can be repeated.",
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
LongFlag = Annotated[bool, Option(name=["--long", "-l"], help="Show ids and statuses too.")]
FollowFlag = Annotated[
    bool, Option(name=["--follow", "-f"], help="Keep printing new commits until interrupted.")
]
ForPromptOption = Annotated[
    str | None,
    Option(
        name="--for-prompt",
        metavar="TEXT",
        help="Print what an agent is told with this first prompt: nothing, if nothing bears on it.",
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
OnOption = Annotated[
    str | None, Option(name="--on", help="A turn (t5) or a call; default: the whole session.")
]
EffectsOption = Annotated[
    Literal["ask", "run"],
    Option(name="--effects", help="Calls that write: ask for approval first, or run."),
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
        name=["--output", "-o"],
        metavar="FILE",
        help="The file to write; default: its name or id, with .stator.",
    ),
]
PageOption = Annotated[
    str | None,
    Option(name=["--output", "-o"], metavar="FILE", help="The file to write; default: NAME.html."),
]
TenantOption = Annotated[
    str | None,
    Option(
        name="--tenant",
        metavar="TENANT",
        help="Only the sessions of this tenant; a server may require it.",
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
SourcesArgument = Annotated[
    list[str] | None,
    Option(
        name="--sources",
        leading_hyphen=True,
        help="Agents (claude-code, codex, …), files, folders, or - for stdin; default: every agent on this machine.",
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
