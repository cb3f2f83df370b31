"""Says which command is meant by a word that names none: by what other programs call it, or by what it would do.

Plain data and a search through the summaries: it is only asked once a word is known to be no command.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from difflib import get_close_matches

from stator.surfaces.cli.registry import COMMANDS, EVERYDAY
from stator.surfaces.cli.render.columns import rows

OTHER_NAMES: dict[str, str] = {
    **dict.fromkeys(("list", "sessions", "session", "dir"), "ls"),
    **dict.fromkeys(("history", "timeline", "transcript", "turns", "commits", "commit"), "log"),
    **dict.fromkeys(("st", "info", "dashboard", "home", "overview", "agents"), "status"),
    **dict.fromkeys(("summary", "summarize", "last", "yesterday", "today", "report"), "recap"),
    **dict.fromkeys(("costs", "spend", "spending", "spent", "tokens", "usage"), "cost"),
    **dict.fromkeys(("price", "prices", "money", "bill", "billing", "stats"), "cost"),
    **dict.fromkeys(("grep", "find", "query", "ask"), "search"),
    **dict.fromkeys(("changes", "changed", "patch", "compare"), "diff"),
    **dict.fromkeys(("file", "touched", "edits"), "files"),
    **dict.fromkeys(("tools", "call"), "calls"),
    **dict.fromkeys(("failed", "failures", "errors", "error"), "calls --failed"),
    **dict.fromkeys(("doubts", "doubt", "open", "pending"), "calls --open"),
    **dict.fromkeys(("explain", "reason", "reasons", "who"), "why"),
    **dict.fromkeys(("decided", "decision"), "decisions"),
    **dict.fromkeys(("annotate", "praise"), "blame"),
    **dict.fromkeys(("cat", "view", "inspect", "get", "print"), "show"),
    **dict.fromkeys(("context", "prompt", "memory", "handover", "tell"), "brief"),
    **dict.fromkeys(("forgotten", "lost", "removed", "compacted", "dropped"), "evicted"),
    **dict.fromkeys(("facts", "fact", "preferences", "preference", "knowledge"), "state --project"),
    **dict.fromkeys(("revisions", "revision", "git"), "state --project -c revisions"),
    **dict.fromkeys(("plan", "todo", "todos", "tasks", "steps"), "state --collection plan"),
    **dict.fromkeys(("children", "subagents", "sub-agents", "forks", "graph"), "tree"),
    **dict.fromkeys(("continue", "go", "start"), "resume"),
    **dict.fromkeys(("watch", "monitor", "live"), "top"),
    **dict.fromkeys(("follow", "stream", "events"), "tail"),
    **dict.fromkeys(("branch", "clone"), "fork"),
    **dict.fromkeys(("delete", "rm", "remove", "purge"), "erase --everything -s"),
    **dict.fromkeys(("forget-content", "redact"), "erase"),
    **dict.fromkeys(("clean", "prune", "cleanup"), "gc"),
    **dict.fromkeys(("size", "disk", "space"), "du"),
    **dict.fromkeys(("health", "fsck", "repair", "diagnose"), "doctor"),
    **dict.fromkeys(("audit", "tampered", "integrity", "hash"), "verify"),
    **dict.fromkeys(("confirm", "resolve", "paid", "happened"), "settle"),
    **dict.fromkeys(("ui", "gui", "tui", "browser", "serve", "dashboard-web"), "web"),
    **dict.fromkeys(("hooks", "setup", "install", "record", "enable", "config"), "init"),
    **dict.fromkeys(("cp", "move", "mv"), "copy"),
    **dict.fromkeys(("rate", "star"), "score"),
    **dict.fromkeys(("mark", "label", "bookmark"), "tag"),
    **dict.fromkeys(("kill", "end", "quit"), "stop"),
    "projects": "ls --everywhere",
    "version": "--version",
}
"""What people type → the command that answers it."""
SEVERAL: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("undo", "revert", "reset", "rollback", "checkout"), ("rewind", "restore")),
}
"""The same, where it depends on what is meant."""
SLIP, NEAR = 0.65, 0.8
"""How much alike a word and a command are for the one to be a slip for the other: with the same first letter, and
without."""
SUMMARIES = 4
"""Commands that are named at most for a word of their summaries."""
LINE_MAX = 200


def instead_of(words: Sequence[str], width: int) -> tuple[str, list[str]]:
    """For words that begin with no command: what to type instead, in a few words; and lines with the commands that
    may be meant, if there are several."""
    word, rest = words[0][:40].lower(), list(words[1:])
    if meant := OTHER_NAMES.get(word):
        return f"that is: {_line([*meant.split(), *rest])}", []
    several = SEVERAL.get(word, ())
    if not several and (meant := _slip(word)):
        return f"did you mean: {_line([*meant.split(), *rest])}", []
    several = several or _about(word)
    if len(several) == 1:
        return f"did you mean: {_line([several[0], *rest])}", []
    if several:
        pairs = [(f"stator {name}", COMMANDS[name]) for name in several]
        return "", list(rows(pairs, width))
    return "stator --help lists all commands", []


def _slip(word: str) -> str:
    """The command of which a word is a slip of the fingers; else that of a name of it; empty if of none."""
    for known in (COMMANDS, OTHER_NAMES):
        for found in get_close_matches(word, known, n=3, cutoff=SLIP):
            if found[0] == word[0] or get_close_matches(word, [found], n=1, cutoff=NEAR):
                return OTHER_NAMES.get(found, found)
    return ""


def _line(words: Sequence[str]) -> str:
    return f"{shlex.join(['stator', *words]):.{LINE_MAX}}"


def _about(word: str) -> tuple[str, ...]:
    """Commands whose summary has the word, those of every day first."""
    if len(word) < 3 or not word.isalpha():
        return ()
    has = re.compile(rf"\b{word.removesuffix('s')}", re.IGNORECASE).search
    everyday = [name for names in EVERYDAY.values() for name in names]
    found = [name for name in dict.fromkeys((*everyday, *COMMANDS)) if has(COMMANDS[name])]
    return tuple(found[:SUMMARIES])
