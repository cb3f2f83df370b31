"""The commands there are, and what each is for. Plain data: printing the help imports nothing else.

A command `name` is the function of that name in `commands/name.py`; a test holds every summary here against the
command's own first line, so that the fast help cannot say what the program does not do.
"""

from __future__ import annotations

from stator.surfaces.cli.render.columns import rows, wrap

GROUPS: dict[str, dict[str, str]] = {
    "Ask": {
        "ls": "List sessions, most recently used first.",
        "show": "Show a session at a glance, or one commit in full.",
        "log": "Show what happened, commit by commit, the newest turn first.",
        "diff": "Show what changed in the last turn, in a turn, or between two positions.",
        "state": "Show the state at a position, collection by collection.",
        "files": "Show which files were touched, with their net change.",
        "decisions": "Show which decisions stand, and why.",
        "calls": "Show tool calls and how they ended.",
        "evicted": "Show what left an agent's view, what matters most first.",
        "why": "Show what lies behind a file: edits, decisions, calls, words.",
        "search": "Search what was said, done, decided and learned, in every session.",
        "tree": "Show sessions with their forks, retries and children, and what each spent.",
        "reflog": "Show the rewinds of a session, and where each left it, newest first.",
        "brief": "Show what the next session must know, within a budget of tokens.",
        "artifact": "Show named documents, their content, their versions and what changed.",
        "du": "Show what takes the space in the store.",
        "top": "Show every session at work or waiting for you, live.",
        "sql": "Ask in SQL, read-only, over documented views.",
    },
    "Steer": {
        "resume": "Show where a session stands and how to go on with it, or go on.",
        "pause": "Pause a session, or ask its driver to.",
        "close": "Close a session: it takes no more turns until it is resumed.",
        "approvals": "Show which calls wait for a person's word, or what was granted.",
        "approve": "Let a waiting call run.",
        "deny": "Refuse a waiting call.",
        "budget": "Show what a session may spend and has spent, or change it.",
        "fork": "Start a session from a position of another: nothing is copied.",
        "retry": "Try a turn again, in a session of its own that begins where the turn did.",
        "adopt": "Go on from a retry or a fork: the name of the original leads there.",
        "rewind": "Go back to a position: the state is what it was, the log stays.",
        "score": "Judge a session, a turn or a call, with a number.",
        "flag": "Mark a session, a turn or a call for somebody to look at.",
        "tag": "Name a position, to come back to it.",
        "run": "Run a program with a session of its own, here or detached.",
        "ps": "List runs and how they stand, the lost ones first.",
        "attach": "Follow a run or a session: commits and output, as they come.",
        "stop": "End a run, and record that it was asked for.",
    },
    "Recover": {
        "settle": "Say what became of a call in doubt.",
        "restore": "Show what it takes to have files as they were, or do it.",
        "replay": "Drive an agent against its record; say where it would do otherwise.",
        "rerun": "Make recorded calls again, and show which end otherwise.",
        "verify": "Check every page, every index and every commit's hash.",
        "doctor": "Say what is wrong with the store, and what to do about it.",
    },
    "Keep": {
        "compact": "Shorten what an agent is shown, and say what left.",
        "recall": "Show the content behind a key, with where it came from.",
        "export": "Write sessions to one file that another store takes up.",
        "import": "Take in what agents did, from their own transcripts or from bundles.",
        "archive": "Archive a closed session: it can be read and forked, never driven.",
        "retention": "Show how long sessions are kept, or change it.",
        "hold": "Keep a session whatever the policies say, or show what is held.",
        "gc": "Show what the policies would archive, expire, trash or purge now, or do it.",
        "erase": "Take content out of the record for good, or show what would go.",
    },
    "Connect": {
        "init": "Make this folder a project; switch recording on in an agent.",
        "mcp": "Serve sessions to an agent over MCP.",
        "ingest": "Take in what hooks left, and read transcripts once more.",
        "proxy": "Stand between an agent and an MCP server, and record its calls.",
        "workflow": "Make a workflow of recorded calls, show one, or run one.",
    },
}
COMMANDS: dict[str, str] = {
    name: summary for group in GROUPS.values() for name, summary in group.items()
}

USAGE = "Usage: stator COMMAND [ARGUMENTS] [OPTIONS]"
ABOUT = "Session state for AI agents: ask what an agent did, what changed, and why."
NAMING = {
    "position": (
        "head, head~3 (3 commits back), t5 (end of turn 5), t-1 (last turn), @42 (commit number), "
        "a tag or a hash; t4..t5 is a range, SESSION:t5 is in another session"
    ),
    "session": "a name, an id or its last characters, or last; default: $STATOR_SESSION, or last",
    "store": "--store, $STATOR_STORE, the nearest .stator/store.db upward, or your user store",
}
WIDTH_MAX = 80
"""Columns of the help on a terminal that has more."""
OPTIONS = {
    "-h, --help": "Show this; stator COMMAND --help shows one command.",
    "--version": "Show the version.",
    "--install-completion": "Install completion for your shell (bash, zsh, fish).",
}


def help_text(width: int = WIDTH_MAX) -> str:
    """What `stator --help` prints, laid out for at most `width` columns."""
    width, longest = min(width, WIDTH_MAX), max(map(len, COMMANDS))
    parts = [*wrap(USAGE, width), "", *wrap(ABOUT, width)]
    for group, commands in GROUPS.items():
        parts += ["", group, *rows(commands.items(), width, term_min=longest)]
    parts += ["", "Options", *rows(OPTIONS.items(), width)]
    parts += ["", "Naming things", *rows(NAMING.items(), width)]
    return "\n".join([*parts, ""])
