"""Shapes a call for a page: a verb, what it is about, how it ended, and what is inside when it is opened."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import msgspec

from stator.model.calls.sources import WEB_TOOLS
from stator.model.calls.web_calls import BROWSERS
from stator.model.exchange.tool_files import FILE_TOOLS, is_shell, words_of
from stator.model.extraction.answers import TOOLS as QUESTIONS
from stator.model.extraction.answers import AnsweredQuestion, answered
from stator.model.log.commit import Commit, Large
from stator.model.log.delta import Put
from stator.model.records.types import LOOKS, FileRecord
from stator.surfaces.cli.render.record_line import size, value_of
from stator.surfaces.cli.render.times import clock
from stator.surfaces.cli.render.turns.fold import LogItem
from stator.surfaces.cli.render.turns.subject import relative
from stator.surfaces.web.shape import diff_rows, texts
from stator.surfaces.web.shape.diff_rows import DiffRows
from stator.surfaces.web.shape.texts import ShownText

GOOD = frozenset({"ok"})
RUNS = frozenset({"started", "running", "requested"})
ACTS: dict[str, tuple[str, str, str]] = {
    "shell": ("term", "Run", "command"),
    "read": ("read", "Read", "read"),
    "write": ("new", "Write", "write"),
    "edit": ("edit", "Edit", "edit"),
    "patch": ("edit", "Patch", "edit"),
    "delete": ("x", "Delete", "deletion"),
    "move": ("edit", "Move", "move"),
    "list": ("folder", "List", "listing"),
    "glob": ("find", "Find", "search"),
    "grep": ("find", "Search", "search"),
    "web": ("find", "Look up", "look-up"),
    "agent": ("agent", "Sub-agent", "sub-agent"),
    "question": ("person", "Asked you", "question"),
    "plan": ("plan", "Plan", "plan"),
}
"""What a call does: its icon, its verb, and the noun it is counted under."""
AGENTS = frozenset("task agent spawn_agent dispatch_agent subagent".split())
PLANS = frozenset(
    "todo_write todowrite update_plan todo task_create task_update write_todos".split()
)
EDITS = frozenset({"edit", "write", "patch"})
FAILED_SHOWN = 1500
"""Characters at the end of what a failed call answered that are shown at once."""
_COUNTS = re.compile(r"\+(\d+) −(\d+)")
OUTCOMES = {
    "error": "failed", "timeout": "timed out", "denied": "refused", "cancelled": "cancelled",
    "in doubt": "in doubt", "awaiting approval": "waits for you", "started": "running",
    "not begun": "not begun",
}  # fmt: skip


class DoubtEvidence(msgspec.Struct, frozen=True, kw_only=True):
    """Of a call in doubt: what is known and what is not."""

    known: str
    unknown: str


class Repair(msgspec.Struct, frozen=True, kw_only=True):
    """The call that later did what a failed one did not."""

    anchor: str
    words: str
    later: int
    """µs after the failure."""
    tries: int = 0
    """Failures in between."""


class CallView(msgspec.Struct, kw_only=True):
    """A call, as one line that opens."""

    kind: str = "call"
    seq: int
    call: str
    act: str
    icon: str
    verb: str
    about: str
    is_path: bool
    status: str
    word: str = ""
    """How it ended, in words, where that is not simply well."""
    added: int = 0
    removed: int = 0
    took: int | None = None
    outcome: int = 0
    """The commit with its outcome."""
    at: int = 0
    remark: str = ""
    open: bool = False
    failed: ShownText | None = None
    """What a failed call answered; the end of it."""
    diff: DiffRows | None = None
    evidence: DoubtEvidence | None = None
    repair: Repair | None = None
    questions: list[AnsweredQuestion] = []
    more: str = ""
    """A short result."""

    @property
    def is_good(self) -> bool:
        return self.status in GOOD

    @property
    def is_failed(self) -> bool:
        return not self.is_good and self.status not in RUNS and self.status != "in doubt"

    @property
    def folds(self) -> bool:
        """Whether it may disappear in a line for many."""
        return self.is_good and not self.questions and self.act not in ("agent", "question")


@lru_cache(maxsize=512)
def act_of(tool: str) -> str:
    """What a tool does, by its name; "" if that is not known."""
    name = "_".join(words_of(tool))
    if tool in QUESTIONS:
        return "question"
    if is_shell(tool):
        return "shell"
    if tool in WEB_TOOLS or tool in BROWSERS or name in ("web_search", "web_fetch"):
        return "web"
    if name in AGENTS:
        return "agent"
    if name in PLANS or "todo" in name:
        return "plan"
    return FILE_TOOLS.get(name, "")


def shaped(
    item: LogItem, intent: Commit | None, outcome: Commit | None, session: str, base: str
) -> CallView:
    """A call of a folded turn."""
    tool = (
        intent.tool if intent is not None else outcome.tool if outcome is not None else item.label
    )
    act = act_of(tool)
    icon, verb, _ = ACTS.get(act, ("term", item.label, ""))
    about, is_path = _about(item, intent, outcome, act, base)
    counts = _COUNTS.match(item.more)
    view = CallView(
        seq=item.seq, call=intent.call if intent is not None else "", act=act, icon=icon, verb=verb,
        about=about, is_path=is_path, status=item.status, took=item.took, at=item.at, outcome=item.outcome,
        remark=item.remark, more="" if counts else item.more.removeprefix("→ "),
        added=int(counts[1]) if counts else 0, removed=int(counts[2]) if counts else 0,
    )  # fmt: skip
    if act in ("write", "patch") and intent is not None and not counts:
        view.added, view.removed = _written(intent)
    if not view.is_good:
        view.word = _ending(view.status, item.remark)
    if act == "question" and intent is not None:
        output = value_of(outcome, "output") if outcome is not None else ""
        view.questions = answered(tool, value_of(intent, "input"), output)
        view.about = view.questions[0].text if view.questions else view.about
    if view.status == "in doubt":
        view.open, view.evidence = True, _evidence(view, outcome, item.remark)
    elif view.is_failed and outcome is not None:
        view.open, view.failed = True, _failure(session, outcome)
    return view


def with_diff(view: CallView, intent: Commit, rows: int) -> bool:
    """Open an edit as a diff, if that is short; whether it is."""
    is_long = not 0 < view.added + view.removed <= rows
    if view.act not in EDITS or is_long or isinstance(intent.content.get("input"), Large):
        return False
    found = diff_rows.of_arguments(value_of(intent, "input"))
    if found is None or not 0 < len(found.rows) <= rows:
        return False
    view.diff, view.open = found, True
    return True


def _about(
    item: LogItem, intent: Commit | None, outcome: Commit | None, act: str, base: str
) -> tuple[str, bool]:
    touched = next(_touched(outcome), "") if outcome is not None else ""
    is_unloaded = intent is not None and isinstance(intent.content.get("input"), Large)
    if touched and (is_unloaded or act == "patch"):
        return relative(touched, base), True
    if item.subject is not None:
        return item.subject.words, item.subject.is_path
    return (item.text.plain if item.text is not None else ""), False


def _touched(outcome: Commit) -> Any:
    for op in outcome.delta:
        if isinstance(op, Put) and isinstance(op.record, FileRecord) and op.record.op not in LOOKS:
            yield op.record.path


def _written(intent: Commit) -> tuple[int, int]:
    """Lines that a write or a patch adds and removes, counted without comparing anything."""
    if isinstance(intent.content.get("input"), Large):
        return 0, 0
    given = value_of(intent, "input")
    if not isinstance(given, Mapping):
        return 0, 0
    for name in diff_rows.WRITTEN:
        if isinstance(text := given.get(name), str):
            return text.count("\n") + (not text.endswith("\n") and bool(text)), 0
    patch = next((v for n in ("patch", "input") if isinstance(v := given.get(n), str)), "")
    lines = patch.split("\n")
    return sum(line[:1] == "+" for line in lines), sum(line[:1] == "-" for line in lines)


def _ending(status: str, remark: str) -> str:
    found = re.search(r"[Ee]xit code (\d+)", remark[:80])
    word = OUTCOMES.get(status, status)
    return f"{word}, {found[1]}" if found and status == "error" else word


def _evidence(view: CallView, outcome: Commit | None, remark: str) -> DoubtEvidence:
    known = f"it was started at {clock(view.at)}"
    known += f"; then: {remark}" if remark else "; no answer was recorded"
    return DoubtEvidence(
        known=known, unknown="whether it happened. It is not run again until this is settled"
    )


def _failure(session: str, outcome: Commit) -> ShownText:
    """The end of what a failed call answered: that is where the reason usually is."""
    whole = texts.of_field(session, outcome, "output", most=1 << 20)
    text = whole.text.strip("\n")
    if len(text) <= FAILED_SHOWN:
        return msgspec.structs.replace(whole, text=text)
    kept = text[-FAILED_SHOWN:]
    kept = kept[kept.find("\n") + 1 :] if "\n" in kept[:400] else kept
    rest = texts.text_address(session, outcome.seq, "output")
    return ShownText(text=f"…\n{kept}", rest=rest, size=size(len(text)))
