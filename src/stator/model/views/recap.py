"""A session in three lines: what it was asked, what it did, how it ended. Pure; from records, never from prose."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from stator.model.exchange.check_lines import ending_of, tidy
from stator.model.exchange.shell_effects import parts_of_success
from stator.model.log.shown_text import cut_short
from stator.model.values.late_pattern import late
from stator.model.views.name_words import COPY
from stator.model.views.open_calls import SettledCall

TEXT_MAX = 500
"""Characters of a prompt, of the agent's words and of a command."""
_CONTEXT = late(
    r"\s*<(ide_\w+|system-reminder|new-diagnostics|environment_context|user_instructions|environment_details"
    r"|local-command-\w+)\b[^>]*>.*?</\1>\s*",
    re.DOTALL,
)
_PICTURE = late(r"\[Image(?: #\d+)?[^\]]{0,200}\]")
_COMMAND = late(r"[/!][\w:.-]+(?:\s+\S+){0,2}\Z")
"""A command to the agent's program with at most two words after it."""
TITLE_MIN, PREAMBLE_MIN = 10, 20
"""Characters of a title, and of what is before it in a prompt."""
_OURS = ("Recorded by Stator", "<stator", "This session is being continued from a previous")
_NOTHING = frozenset(
    [
        "",
        *"continue, go, go on, go ahead, carry on, keep going, proceed, next, resume".split(", "),
        *"ok, okay, k, y, yes, yep, sure, thanks, thank you, great, good, nice".split(", "),
        *"hi, hey, hello, test, ping, no, stop, again, retry, try again, do it".split(", "),
    ]
)
"""What says nothing of what a session is about."""
_TEST = late(
    r"(?:^|[\s;&|/(])((?:py\.?test|jest|vitest|rspec|phpunit|ctest|tox|nox)\b"
    r"|(?:mix|cargo|go|make|bun|deno|rails|dotnet|swift|npm|pnpm|yarn|gradle|gradlew|mvn)\s+(?:run\s+)?test\b"
    r"|python[\d.]*\s+-m\s+(?:pytest|unittest)\b)"
)


class RanTests(msgspec.Struct, frozen=True):
    """The last run of tests among the newest commits of a session."""

    command: str
    seq: int
    status: str = ""
    """How its call ended; empty where that says nothing of the tests, as behind a pipe."""


class SessionRecap(msgspec.Struct, frozen=True, kw_only=True):
    """What a session was asked, did, and how it ended."""

    session: str
    name: str
    agent: str = ""
    project: str = ""
    at: int = 0
    """When it was last used, in µs."""
    times_known: bool = True
    """Whether its source says when it was; else that is the time of a file."""
    status: str = ""
    turns: int = 0
    asked: str = ""
    asked_turn: int = 0
    """The turn whose prompt that is; 0: no prompt is recorded."""
    asked_last: str = ""
    """The newest prompt that says something; empty where that is the same."""
    asked_last_turn: int = 0
    retry_of: str = ""
    """Of a retry: the turn that it tries again, `t1 of fix-login`."""
    steps_done: int = 0
    steps_claimed: int = 0
    """Steps of the plan that are recorded as done and were not checked."""
    steps_open: int = 0
    files: int = 0
    """Files changed, those of sub-agents too; not those that are as they were before."""
    files_least: bool = False
    """Whether there may be more: of a long session not every commit is read."""
    edited: bool = False
    """Whether any file was changed at all."""
    files_since: int = 0
    """Files changed after the last revision."""
    revisions: list[str] = []
    """Version-control commits, the newest first."""
    pushed: bool = False
    """Whether the newest of them is known to be pushed."""
    subjects: list[str] = []
    """Subjects of the newest of them."""
    decided: list[str] = []
    """The newest decisions in force: `topic: what`."""
    calls: int = 0
    agents: int = 0
    """Sub-agents."""
    tests: RanTests | None = None
    said: str = ""
    """The last words of the agent."""
    said_seq: int = 0
    said_turn: int = 0
    in_doubt: list[str] = []
    """Calls that may or may not have happened, and that a person is asked about: id and tool."""
    settled: list[SettledCall] = []
    """Calls in doubt that were settled since the last turn began."""
    old_doubts: int = 0
    """Calls that may or may not have happened, so long ago in an imported session that nobody is asked."""
    waiting: list[str] = []
    """Calls that wait for a person: id and tool."""
    last_turn: str = ""
    """How the last turn ended; empty while it is open."""
    mid_turn: bool = False
    """Whether its record stops in the middle of a turn: there are no words of the agent after its last call."""
    unplaced: int = 0
    """What is known of it and has no place in its log yet."""

    @property
    def did(self) -> list[str]:
        """What it did, as far as records say, in words."""
        return list(_did(self))

    @property
    def ended(self) -> list[str]:
        """How it ended, in words; what asks for a person first."""
        return list(_ended(self))


def typed(prompt: str) -> str:
    """What a person typed of a prompt: without what an editor or a program put around it."""
    end = 0
    while (found := _CONTEXT.match(prompt, end)) is not None:
        end = found.end()
    return _PICTURE.sub(" ", prompt[end:]).strip()


def says_something(prompt: str) -> bool:
    """Whether a prompt says what a session is about."""
    words = typed(prompt)
    low = " ".join(words.casefold().split()).rstrip(".!? ")
    if low in _NOTHING or words.startswith(_OURS):
        return False
    return _COMMAND.match(words) is None


def asked_in(prompts: Sequence[tuple[int, str]], name: str) -> tuple[int, str]:
    """(turn, words) of the first prompt that says what the session is about; else the first that says anything at
    all. Of a prompt that begins with the same words as many others, the title that the session is named by."""
    for turn, prompt in prompts:
        if says_something(prompt):
            words = typed(prompt)
            title = COPY.sub("", name)
            whole = title.rstrip("… ")
            if len(whole) >= TITLE_MIN and words.find(whole) >= PREAMBLE_MIN:
                return turn, title
            return turn, cut_short(words, TEXT_MAX)
    for turn, prompt in prompts:
        if words := typed(prompt):
            return turn, cut_short(words, TEXT_MAX)
    return 0, ""


def asked_last(newest: Iterable[tuple[int, str]], first: tuple[int, str]) -> tuple[int, str]:
    """(turn, words) of the newest prompt that says something, if that is another one than the first; the newest prompt
    comes first."""
    for turn, prompt in newest:
        if says_something(prompt):
            words = cut_short(typed(prompt), TEXT_MAX)
            return (turn, words) if turn > first[0] and words != first[1] else (0, "")
    return 0, ""


def ran_tests(command: str, seq: int, status: str, output: Any) -> RanTests | None:
    """The tests that a call ran, if it ran any. They ended ok or failed only where the status of the call cannot mean
    anything else, so not behind a pipe."""
    if not _TEST.search(command):
        return None
    for part in parts_of_success(command):
        if _TEST.search(part) and "|" not in part:
            return RanTests(tidy(part), seq, ending_of(part, command, status, output) or "")
    return RanTests(tidy(command), seq)


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _did(one: SessionRecap) -> Iterable[str]:
    if one.steps_done or one.steps_open:
        total = _count(one.steps_done + one.steps_claimed + one.steps_open, "step")
        # Where none is open, how it ended says it.
        is_told = one.steps_claimed and one.steps_open
        claimed = f", {one.steps_claimed} claimed done, not checked" if is_told else ""
        yield f"{one.steps_done} of {total} done{claimed}"
    if one.files:
        least = "at least " if one.files_least else ""
        yield f"changed {least}{_count(one.files, 'file')}"
    if one.revisions:
        yield _count(len(one.revisions), "revision")
    if one.tests is not None:
        how = {"ok": "ok", "": "ran"}.get(one.tests.status, one.tests.status)
        yield f"last tests {how}: {cut_short(' '.join(one.tests.command.split()), 60)}"
    if one.agents:
        yield _count(one.agents, "sub-agent")
    if one.edited and not one.files:
        yield "changed files; none is different in the end"
    elif not one.files:
        lately = " lately" if one.files_least else ""
        yield f"{_count(one.calls, 'call')}, no file changed{lately}" if one.calls else "no calls"


def _ended(one: SessionRecap) -> Iterable[str]:
    for what, calls, command in (
        ("in doubt", one.in_doubt, "settle"),
        ("waiting for a person", one.waiting, "approve"),
    ):
        if calls:
            more = f" and {len(calls) - 1} more" if len(calls) > 1 else ""
            yield f"{what}: {calls[0]}{more} (stator {command} {calls[0].split()[-1]})"
    cut = one.last_turn in ("interrupted", "aborted", "cancelled") or one.status == "interrupted"
    if one.status == "active":
        yield "still at work"
    elif cut:
        yield "interrupted"
    elif one.mid_turn:
        yield "stops in the middle of a turn"
    elif one.last_turn == "error":
        yield "its last turn failed"
    if one.old_doubts:
        yield f"{_count(one.old_doubts, 'call')} without a result"
    if one.revisions:
        yield f"committed {one.revisions[0]}" + (" and pushed" if one.pushed else "")
        if one.files_since:
            yield f"{_count(one.files_since, 'file')} changed since"
    if one.steps_open:
        yield f"{_count(one.steps_open, 'step')} open"
    elif one.steps_claimed:
        whole = "all " if one.steps_claimed > 1 and not one.steps_done else ""
        yield f"{whole}{_count(one.steps_claimed, 'step')} claimed done, not checked"
    elif not (
        one.in_doubt
        or one.old_doubts
        or one.waiting
        or cut
        or one.mid_turn
        or one.status == "active"
    ):
        yield "nothing open"
