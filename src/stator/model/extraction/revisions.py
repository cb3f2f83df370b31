"""Finds the revisions that a shell command made with git, and what was pushed, in git's own output.

`git commit` prints `[BRANCH SHA] SUBJECT` when it has made a revision, and `git push` one line for each branch that it
moved. No other line counts: a command that asks for a commit may fail, or have nothing to commit.
"""

from __future__ import annotations

import posixpath
import shlex
from typing import Any

from stator.model.exchange.extraction_state import ExtractionState, HeldCall
from stator.model.exchange.tool_files import command_text, is_shell
from stator.model.extraction.evidence import (
    ENDS,
    Evidence,
    ExtractionRule,
    Found,
    plain_text,
    string,
    unique,
)
from stator.model.extraction.urls import without_credentials
from stator.model.log.commit import Change, Upsert
from stator.model.log.shown_text import legible
from stator.model.records.types import RevisionRecord
from stator.model.values.late_pattern import late

COMMAND_MAX = 20_000
FILES_MAX = 200
REVISIONS_MAX = 50
"""Revisions that one command can have made, and those that are remembered until they are pushed."""
LINES_MAX = 5_000
_OPTIONS = r"(?:\s+(?:-[cC]\s+\S+|--?[\w-]+(?:=\S+)?))*"
_COMMITS = late(rf"\bgit{_OPTIONS}\s+commit\b")
_PUSHES = late(rf"\bgit{_OPTIONS}\s+push\b")
_ADDS = late(rf"\bgit{_OPTIONS}\s+add\s+([^;&|\n]*)")
_RESETS = late(rf"\bgit{_OPTIONS}\s+(?:reset|stash|checkout|restore)\b")
_AMENDS = late(rf"\bgit{_OPTIONS}\s+commit\b[^;&|\n]*\s--amend\b")
_MADE = late(
    r"\[(?P<branch>detached HEAD|[^\[\]\s]{1,250})(?: \(root-commit\))? (?P<sha>[0-9a-f]{7,40})\] (?P<subject>\S.*)"
)
_COUNT = late(r" (\d{1,7}) files? changed")
_MODE = late(r" (?:create|delete) mode \d{6} (?P<path>\S.*)")
_RENAME = late(r" rename (?P<both>.+ => .+) \(\d{1,3}%\)")
_BRACES = late(r"\{(?P<old>[^{}]*) => (?P<new>[^{}]*)\}")
_TO = late(r"To (?P<url>\S+)")
_MOVED = late(
    r" (?:[ +*] )?\s*(?:[0-9a-f]{7,40}\.\.\.?[0-9a-f]{7,40}|\[new branch\])\s+(?P<branch>\S+) -> (?P<there>\S+)"
)


def _needs(tool: str, given: Any) -> Any:
    command = command_text(given) if isinstance(given, dict) else ""
    if "git" not in command:
        return None
    wanted = any(one.search(command) for one in (_COMMITS, _PUSHES, _ADDS, _RESETS))
    return {"command": command} if wanted and len(command) <= COMMAND_MAX else None


def _command(one: Evidence, held: HeldCall | None) -> str:
    """The command of a call that ended, and whose exit is known."""
    given = held.given if held is not None and one.status in ("ok", "error") else None
    return string(given.get("command")) if isinstance(given, dict) else ""


def _find(state: ExtractionState, one: Evidence, held: HeldCall | None) -> Found | None:
    """The revisions that a command made. If a later part of it failed, they were still made."""
    command = _command(one, held)
    if not command:
        return None
    if _RESETS.search(command):
        state.staged = []
    if one.status == "ok" or _COMMITS.search(command):
        state.staged = unique([*state.staged, *_added(command)])[-FILES_MAX:]
    if not _COMMITS.search(command):
        return None
    amends = _AMENDS.search(command) is not None
    changes: list[Change] = []
    for record in _revisions(plain_text(one.output), state.staged):
        last = state.unpushed[-1] if state.unpushed else ["", ""]
        if amends and last[1] == record.branch and last[0] != record.sha:
            # the last revision of this session on the branch was replaced by this one
            changes.append(Upsert("revisions", RevisionRecord(sha=last[0], replaced=record.sha)))
            state.unpushed.pop()
        changes.append(Upsert("revisions", record))
        state.unpushed = [*state.unpushed, [record.sha, record.branch]][-REVISIONS_MAX:]
        state.staged = []
    return Found(changes=tuple(changes)) if changes else None


def _revisions(text: str, staged: list[str]) -> list[RevisionRecord]:
    """The revisions that git reports, each with the files that are known to be in it."""
    found: list[RevisionRecord] = []
    lines = text.split("\n")
    for n, line in enumerate(lines[:LINES_MAX]):
        match = _MADE.fullmatch(line.rstrip())
        if match is None or any(match["sha"] == one.sha for one in found):
            continue
        count, named = _stat(lines[n + 1 : n + 1 + FILES_MAX])
        files = unique([*named, *(staged if not found else [])])
        # what was staged and did not change is in no revision
        files = files if count < 0 or len(files) <= count else named
        found.append(
            RevisionRecord(
                sha=match["sha"],
                branch=legible(match["branch"]),
                subject=legible(match["subject"]),
                files=[legible(path) for path in files[:FILES_MAX]],
            )
        )
        if len(found) == REVISIONS_MAX:
            break
    return found


def _stat(lines: list[str]) -> tuple[int, list[str]]:
    """How many files git says that a revision changed (-1: it does not say), and those that it names."""
    count, files = -1, []
    for line in lines:
        if (match := _COUNT.match(line)) is not None:
            count = int(match[1])
        elif (match := _MODE.fullmatch(line.rstrip())) is not None:
            files.append(match["path"])
        elif (match := _RENAME.fullmatch(line.rstrip())) is not None:
            files.append(_renamed(match["both"]))
        elif not line.startswith(" "):
            break
    return count, [path for path in files if not path.startswith('"')]


def _renamed(both: str) -> str:
    """The new name in `a/{b => c}/d` or in `a => b`."""
    if _BRACES.search(both):
        return posixpath.normpath(_BRACES.sub(lambda match: match["new"], both))
    return both.rpartition(" => ")[2]


def _added(command: str) -> list[str]:
    """The files that `git add` names one by one."""
    found: list[str] = []
    for match in _ADDS.finditer(command):
        try:
            words = shlex.split(match[1])
        except ValueError:
            continue
        for word in words:
            is_plain = not set("*?[]{}$`~!<>\n") & set(word) and not word.startswith("-")
            if is_plain and posixpath.splitext(word)[1] and not word.endswith(("/", "/.", "..")):
                found.append(posixpath.normpath(word))
    return found


def _find_pushed(state: ExtractionState, one: Evidence, held: HeldCall | None) -> Found | None:
    """The revisions of this session on the branches that a command pushed."""
    command = _command(one, held)
    if not _PUSHES.search(command):
        return None
    text = plain_text(one.output)
    to, changes = "", []
    for line in text.split("\n")[:LINES_MAX]:
        if (match := _TO.fullmatch(line.rstrip())) is not None:
            to = without_credentials(match["url"])
        elif (match := _MOVED.match(line.rstrip())) is not None:
            where = f"{to} {match['there']}" if to else match["there"]
            pushed = [sha for sha, branch in state.unpushed if branch == match["branch"]]
            state.unpushed = [pair for pair in state.unpushed if pair[0] not in pushed]
            changes += [
                Upsert("revisions", RevisionRecord(sha=sha, pushed=legible(where)))
                for sha in pushed
            ]
    return Found(changes=tuple(changes)) if changes else None


RULE = ExtractionRule(
    name="revision", version=1, kind="revision", sees=ENDS, find=_find, needs=_needs,
    reads=is_shell, only_read=True,
)  # fmt: skip
PUSHED = ExtractionRule(
    name="pushed", version=1, kind="revision", sees=ENDS, find=_find_pushed, needs=_needs,
    reads=is_shell, only_read=True,
)  # fmt: skip
