"""Lists all commands with their summaries, and the other text of `stator --help`.

Plain data, because help must print fast: a command's file is not imported for it. The command `name` is the function
of that name in `commands/name.py`, and a test compares each summary with the first line of its docstring.
"""

from __future__ import annotations

GROUPS: dict[str, dict[str, str]] = {
    "Ask": {
        "status": "Show where things are: what needs you, what runs, how sessions ended, what the week cost.",
        "ls": "List sessions with their tokens, cost and end, most recently used first.",
        "show": "Show a session at a glance, a turn, or one commit in full.",
        "log": "Show what happened, one line a call, newest turn first.",
        "diff": "Show what changed in a turn or between two positions.",
        "state": "Show the state at a position, collection by collection.",
        "files": "List the files that sessions touched, with their net change.",
        "decisions": "Show the decisions in force, and the reasons for them.",
        "calls": "List tool calls and how they ended.",
        "evicted": "List what left an agent's view: by compaction, or because it did not fit.",
        "why": "Show why something is as it is: a file, a decision, a fact, a call, a revision.",
        "recap": "Show what the last sessions were asked, did, and how they ended.",
        "blame": "Show which turn each line of a file comes from.",
        "cost": "Show what sessions cost: by day, agent, project, model or session.",
        "search": "Search the sessions of this project, or of the whole store.",
        "tree": "Show forks, retries and sub-agents, what each was asked and what it spent.",
        "reflog": "List the rewinds of a session, newest first.",
        "brief": "Print what the next agent is told: of a session, of the --project, with a prompt.",
        "artifact": "List named documents, or show their content, versions and changes.",
        "du": "Show what uses space in the store.",
        "top": "Watch the sessions that are running or waiting for you.",
        "tail": "Follow every session of this project at once, or feed another program.",
        "sql": "Run a read-only SQL query over documented views.",
    },
    "Steer": {
        "resume": "Show where a session stopped and how to continue it, or do so.",
        "pause": "Pause a session, or ask its driver to pause it.",
        "close": "Close a session; it accepts no turns until it is resumed.",
        "check": "Run the checks of steps that are claimed to be done.",
        "approvals": "List calls that wait for approval, or the approvals given.",
        "approve": "Approve a call that waits for approval.",
        "deny": "Deny a call that waits for approval.",
        "budget": "Show a session's budget and spending, or change the budget.",
        "fork": "Start a new session from a position of another one.",
        "retry": "Try a turn again, in a new session that starts before that turn.",
        "adopt": "Make a retry or a fork replace the original session.",
        "rewind": "Return a session to an earlier state; the log keeps everything.",
        "score": "Rate a session, a turn or a call with a number.",
        "flag": "Flag a session, a turn or a call for review.",
        "tag": "Give a position a name.",
        "prefer": "Record how something is to be done in this project, or in all of yours.",
        "forget": "Let something that the project knows hold no longer.",
        "vouch": "Vouch for something that came from the web, from a bundle or from another tool.",
        "run": "Run a program with its own session, in the foreground or detached.",
        "ps": "List runs and their status, lost ones first.",
        "attach": "Follow the commits and the output of a run or a session.",
        "stop": "Stop a run, and record that the stop was requested.",
    },
    "Recover": {
        "settle": "Record whether a call in doubt happened.",
        "restore": "Preview or restore files as they were at a position.",
        "replay": "Run an agent against a recorded session; report where it diverges.",
        "rerun": "Run recorded tool calls again and show which results changed.",
        "verify": "Check all database pages, indexes and commit hashes.",
        "doctor": "Find problems with the store and show how to fix them.",
    },
    "Keep": {
        "compact": "Shorten the transcript an agent sees, and list what was removed.",
        "recall": "Show the content behind a key, and where it came from.",
        "export": "Write sessions to one file that another store can import.",
        "import": "Import sessions from agents' transcripts or from bundles.",
        "copy": "Copy everything of one store into another.",
        "push": "Send the sessions of a project to a store that others read.",
        "pull": "Bring a session of another store here.",
        "archive": "Archive a closed session; it can be read and forked, not driven.",
        "retention": "Show or change how long sessions are kept.",
        "hold": "Exempt a session from retention policies, or list exempt sessions.",
        "gc": "Preview or apply the retention policies.",
        "erase": "Preview or permanently erase recorded content.",
    },
    "Connect": {
        "init": "Make this folder a project, or turn on recording in an agent.",
        "mcp": "Serve sessions to an agent over MCP.",
        "trust": "Show whether a store is your own, or say that it is.",
        "ingest": "Import what hooks have queued, and read transcripts again.",
        "extract": "Find decisions, plans and revisions in what was recorded.",
        "proxy": "Record the calls between an agent and an MCP server.",
        "share": "Write a session as one page that opens in any browser.",
        "web": "Show your sessions in a browser, live.",
        "workflow": "Extract a workflow from recorded calls, show one, or run one.",
    },
}
COMMANDS: dict[str, str] = {
    name: summary for group in GROUPS.values() for name, summary in group.items()
}
EVERYDAY: dict[str, tuple[str, ...]] = {
    "See where things are": ("status", "ls", "recap", "cost"),
    "Ask what happened": ("log", "diff", "files", "calls"),
    "Ask why": ("why", "decisions", "search"),
    "Act on it": ("resume", "settle"),
    "Begin": ("init", "import", "web"),
}
"""The commands that `stator --help` explains; the others it only names."""

USAGE = "Usage: stator [COMMAND] [ARGUMENTS] [OPTIONS]"
ABOUT = "Session state for AI agents: ask what an agent did, what changed, and why."
NAMING = {
    "position": (
        "head, head~3 (3 commits back), t5 (end of turn 5), t-1 (last turn), @42 (commit number), "
        "a tag or a hash; t4..t5 is a range, SESSION:t5 is in another session"
    ),
    "session": "a name or a part of it, an id or its last characters, or last; default: $STATOR_SESSION, then last",
    "store": "--store, $STATOR_STORE, the nearest .stator/store.db upward, or your user store",
}
OPTIONS = {
    "-h, --help": "Show this help; stator COMMAND --help shows one command, stator --help --all every one.",
    "--version": "Show the version.",
    "--install-completion": "Install completion for your shell (bash, zsh, fish).",
}
