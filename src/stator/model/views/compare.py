"""Compares two tries at one turn: what was asked, done, decided and answered, side by side.

The two are aligned: calls by their place and what they were called with, records by their key. What is the
same is counted, what differs is shown with both sides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from difflib import SequenceMatcher, unified_diff
from typing import Any, Literal

import msgspec

from stator.model.calls.known import Known, KnownCall
from stator.model.log.commit import Commit
from stator.model.records.types import DecisionRecord, Record
from stator.model.values.canon import encode
from stator.model.views.diff import Diff, DiffItem
from stator.model.window.reply import text_of

LINES_MAX = 2000
"""Lines of an answer that are compared."""
CONTEXT = 2
"""Lines around a difference."""

CallChange = Literal["same", "other arguments", "other outcome", "added", "dropped"]


class Side(msgspec.Struct, frozen=True, kw_only=True):
    """One try at the turn."""

    session: str
    name: str
    turn: int
    status: str
    prompt: Any = None
    answer: str = ""
    usage: dict[str, int] = {}


class CallSide(msgspec.Struct, frozen=True, kw_only=True):
    """A call as one side has it."""

    call: str
    seq: int
    status: str
    arguments: Any = None
    cause: str = ""


class CallPair(msgspec.Struct, frozen=True, kw_only=True):
    """Two calls that correspond, or one without a counterpart."""

    tool: str
    change: CallChange
    a: CallSide | None = None
    b: CallSide | None = None


class Shift(msgspec.Struct, frozen=True, kw_only=True):
    """A decision that differs."""

    topic: str
    change: str
    before: str = ""
    after: str = ""
    why_before: str = ""
    why: str = ""
    confidence: tuple[int | None, int | None] = (None, None)
    """In per-mille, on either side."""
    factors: dict[str, tuple[Any, Any]] = {}
    """Those that differ, on either side."""


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """Two tries at one turn, aligned."""

    a: Side
    b: Side
    same_prompt: bool
    answer: list[str]
    """A unified diff of what was answered; empty: the same."""
    decisions: list[Shift]
    calls: list[CallPair]
    files: list[DiffItem]
    facts: list[DiffItem]
    plan: list[DiffItem]
    why: str
    """What made the difference, in one line; "" if nothing recorded says so."""

    def of(self, *changes: CallChange) -> list[CallPair]:
        """The pairs of calls that changed in one of those ways."""
        return [pair for pair in self.calls if pair.change in changes]


def side(commits: Sequence[Commit], *, name: str, session: str, turn: int, status: str) -> Side:
    """One try, from the commits of its turn."""
    asked = next((c for c in commits if c.kind == "turn" and c.status != "continued"), None)
    said = [c for c in commits if c.kind == "entry" and c.actor == "model" and c.status == ""]
    usage: dict[str, int] = {}
    for commit in commits:
        for unit, amount in (commit.known("usage") or {}).items():
            usage[unit] = usage.get(unit, 0) + amount
    return Side(
        session=session,
        name=name,
        turn=turn,
        status=status,
        prompt=None if asked is None else asked.known("input"),
        answer=text_of(said[-1].known("output", "(erased)")) if said else "",
        usage=usage,
    )


def compare(
    a: Side, b: Side, left: Sequence[Commit], right: Sequence[Commit], diff: Diff
) -> Comparison:
    """Two tries at a turn, their commits, and the diff from the end of the one to that of the other."""
    decisions = [_shift(item) for item in diff.of("decisions")]
    calls = aligned(Known(left).calls, Known(right).calls)
    same_prompt = a.prompt == b.prompt
    return Comparison(
        a=a,
        b=b,
        same_prompt=same_prompt,
        answer=_answers(a.answer, b.answer),
        decisions=decisions,
        calls=calls,
        files=diff.of("files"),
        facts=diff.of("facts"),
        plan=diff.of("plan"),
        why=_why(decisions, calls, same_prompt=same_prompt),
    )


def _answers(a: str, b: str) -> list[str]:
    old, new = (text.splitlines()[:LINES_MAX] for text in (a, b))
    found = list(unified_diff(old, new, "a", "b", lineterm="", n=CONTEXT))
    if found or a == b:
        return found
    said = f"@@ they differ after line {LINES_MAX:,}, or in how lines end @@"
    return ["--- a", "+++ b", said]


# -- calls ----------------------------------------------------------------------------------------


def aligned(left: Sequence[KnownCall], right: Sequence[KnownCall]) -> list[CallPair]:
    """Calls of both sides, in order, each with its counterpart if it has one.

    First those of one tool with the same arguments; of what is left in between, those of one tool.
    """
    pairs: list[CallPair] = []
    for same, ours, theirs in _runs(left, right, lambda call: (call.tool, call.input_hash)):
        if same:
            pairs += map(_pair, ours, theirs)
            continue
        for alike, a, b in _runs(ours, theirs, lambda call: call.tool):
            if alike:
                pairs += map(_pair, a, b)
                continue
            pairs += [CallPair(tool=c.tool, change="dropped", a=_side(c)) for c in a]
            pairs += [CallPair(tool=c.tool, change="added", b=_side(c)) for c in b]
    return pairs


def _runs(
    left: Sequence[KnownCall], right: Sequence[KnownCall], mark: Callable[[KnownCall], object]
) -> Iterator[tuple[bool, Sequence[KnownCall], Sequence[KnownCall]]]:
    """Stretches of both sides that have the same marks, and those in between."""
    ours, theirs = [mark(call) for call in left], [mark(call) for call in right]
    for tag, i, j, k, m in SequenceMatcher(None, ours, theirs, autojunk=False).get_opcodes():
        yield tag == "equal", left[i:j], right[k:m]


def _pair(a: KnownCall, b: KnownCall) -> CallPair:
    change: CallChange = "same"
    if a.input_hash != b.input_hash:
        change = "other arguments"
    elif a.status != b.status or _result(a) != _result(b):
        change = "other outcome"
    return CallPair(tool=a.tool, change=change, a=_side(a), b=_side(b))


def _result(call: KnownCall) -> Any:
    """What a call returned, as the bytes it was recorded as."""
    return None if call.ending is None else call.ending.content.get("output")


def _side(call: KnownCall) -> CallSide:
    return CallSide(
        call=call.call, seq=call.seq, status=call.status, arguments=call.given, cause=call.cause
    )


# -- decisions ------------------------------------------------------------------------------------


def _shift(item: DiffItem) -> Shift:
    before, after = item.before, item.after
    return Shift(
        topic=_of(after, "topic", "") or _of(before, "topic", ""),
        change=item.change,
        before=_of(before, "what", ""),
        after=_of(after, "what", ""),
        why_before=_of(before, "why", ""),
        why=_of(after, "why", ""),
        confidence=(_of(before, "confidence", None), _of(after, "confidence", None)),
        factors=_factors(_of(before, "factors", {}), _of(after, "factors", {})),
    )


def _of(record: Record | None, name: str, default: Any) -> Any:
    return getattr(record, name, default) if isinstance(record, DecisionRecord) else default


def _factors(before: dict[str, Any], after: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    names = [*before, *(name for name in after if name not in before)]
    return {
        name: (before.get(name), after.get(name))
        for name in names
        if encode(before.get(name)) != encode(after.get(name))
    }


def _why(decisions: Sequence[Shift], calls: Sequence[CallPair], *, same_prompt: bool) -> str:
    """What made the difference: a decision with its reason, or the first thing that differs."""
    for shift in decisions:
        if shift.why and shift.after:
            topic = f"{shift.topic}: " if shift.topic else ""
            instead = f" instead of {shift.before}" if shift.before not in ("", shift.after) else ""
            return f"{topic}{shift.after}{instead}, because {shift.why}"
    if not same_prompt:
        return "another prompt"
    for pair in calls:
        if pair.change == "other outcome" and pair.a and pair.b:
            if pair.a.status != pair.b.status:
                return f"{pair.tool} ended {pair.b.status} instead of {pair.a.status}"
            return f"{pair.tool} returned something else"
    return ""
