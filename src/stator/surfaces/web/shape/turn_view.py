"""Shapes a turn for a page: what it changed first, then the conversation, in lines of bounded number.

The folding of commits into items is that of `stator log`; here items become what a browser shows: calls that open,
runs of good calls as one line, questions with their answer, sub-agents nested, what left the view.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import msgspec

from stator.model.brief.command_words import gist, parts
from stator.model.log.commit import Commit, Large
from stator.model.log.delta import Put
from stator.model.records.text import prompt_text
from stator.model.records.types import ChildRecord, EvictedRecord
from stator.model.window.reply import dialect, text_of
from stator.runtime.views.browse.turns import COMMITS, ReadChild, ReadTurn, ReadTurns
from stator.surfaces.cli.render.amounts import short
from stator.surfaces.cli.render.record_line import count, value_of
from stator.surfaces.cli.render.turns import fold
from stator.surfaces.cli.render.turns.fold import LogItem, TurnFold
from stator.surfaces.cli.render.turns.subject import base_of
from stator.surfaces.web.shape import call_view, prose, texts
from stator.surfaces.web.shape.call_view import ACTS, CallView, Repair
from stator.surfaces.web.shape.changes import Changes, changes_of
from stator.surfaces.web.shape.texts import ShownText

RUN_MIN = 4
"""Good calls in a row that become one line."""
ASIDE_MAX = 160
"""Characters of words between good calls that go with them into one line, where turns are shown in short."""
LINES = 160
"""Lines of a page of several turns."""
TURN_LINES = 60
"""Lines of one of several turns."""
LINES_MIN = 6
"""Lines of a turn that are shown even where the page is full."""
DIFFS, DIFFS_FULL, DIFF_ROWS = 4, 20, 14
"""Short edits that are open, on a page of many turns and on that of one; and what counts as short."""
SOON = 12
"""Calls after a failure among which the one is that repaired it."""
PROMPT_MAX = 600
"""Characters of a prompt that are shown as the title of its turn."""
TOLD_ABOVE = frozenset({"split", "plan"})
"""Icons of decisions and steps of the plan: where turns are shown in short, they stand above the conversation."""
PIECES_MAX = 1_200
"""Pieces of code and stressed words that are set apart on a page; texts beyond that are shown as they were written."""


class SayView(msgspec.Struct, kw_only=True):
    """Words of the model, or of another one who spoke in the turn."""

    kind: str = "say"
    seq: int
    who: str
    text: ShownText
    partial: bool = False
    pieces: list[prose.Piece] = []
    """The text that is shown, with code and stressed words set apart; empty where it is shown as it was written."""


class NoteView(msgspec.Struct, kw_only=True):
    """Anything else that happened, on one line."""

    kind: str = "note"
    seq: int
    at: int
    icon: str
    label: str
    text: str
    status: str = ""


class CutView(msgspec.Struct, kw_only=True):
    """Where the view of the agent was shortened."""

    kind: str = "cut"
    seq: int
    at: int
    text: str
    left: int
    """Things that left its view."""
    times: bool = True


class RunView(msgspec.Struct, kw_only=True):
    """Good calls in a row, as one line."""

    kind: str = "run"
    first: int
    last: int
    icon: str
    number: int
    words: str
    took: int


class SubView(msgspec.Struct, kw_only=True):
    """A sub-agent: its last words, what it spent, and where it is."""

    kind: str = "sub"
    seq: int
    at: int
    name: str
    status: str
    session: str
    follows: bool = False
    """Whether the line before it is the call that started it."""
    here: bool = False
    said: str = ""
    calls: int = 0
    failed: int = 0
    spend: dict[str, int] = {}


class TurnView(msgspec.Struct, kw_only=True):
    """A turn as a page shows it."""

    number: int
    ask: ShownText
    asked_by: str
    first: int
    last: int
    at: int
    until: int
    waited: int
    """µs of it in which a person was asked."""
    status: str
    spend: dict[str, int]
    changes: Changes
    lines: list[Any]
    earlier: int = 0
    """Lines before those that are shown."""
    unread: int = 0
    """Commits before those that were read."""
    next_after: int = 0
    """Where the next part of the turn begins; 0 at its end."""
    calls: int = 0
    failed: int = 0
    doubts: int = 0
    rewound: bool = False
    times: bool = True
    items: list[Any] = []
    """All of its lines, before runs were folded: what pictures are made from."""

    @property
    def took(self) -> int:
        return max(0, self.until - self.at)


def in_short(found: ReadTurns) -> list[TurnView]:
    """The turns of a page, in the order they were read: stretches of good calls as one line, the end of each turn."""
    return _shaped(found, lines=LINES, most=TURN_LINES, aside=ASIDE_MAX)


def in_full(found: ReadTurns, *, runs: bool = True) -> list[TurnView]:
    """The same with all words; `runs`: good calls in a row are one line."""
    return _shaped(found, lines=COMMITS, most=COMMITS, aside=0 if runs else None)


def _shaped(found: ReadTurns, *, lines: int, most: int, aside: int | None) -> list[TurnView]:
    base = base_of(found.head.paths)
    shaper = _Shaper(found, base)
    views = [shaper.turn(turn) for turn in found.turns if turn.commits]
    left, diffs = lines, DIFFS if most == TURN_LINES else DIFFS_FULL
    pieces = PIECES_MAX
    for view in views:
        if most == TURN_LINES:
            view.lines = [line for line in view.lines if not _is_told_above(line)]
        if aside is not None:
            view.lines = list(_folded(view.lines, aside))
        allowed = min(most, max(LINES_MIN, left))
        view.earlier = max(0, len(view.lines) - allowed)
        view.lines = view.lines[view.earlier :]
        left -= len(view.lines)
        pieces -= _set_apart(view.lines, pieces)
        for line in reversed(view.lines):
            if diffs and isinstance(line, CallView) and line.is_good:
                intent = shaper.intents.get(line.seq)
                diffs -= intent is not None and call_view.with_diff(line, intent, DIFF_ROWS)
    return views


def _set_apart(lines: Sequence[Any], most: int) -> int:
    """Give the words of the model their pieces, as long as there are at most so many; how many there were."""
    used = 0
    for line in lines:
        if isinstance(line, SayView) and not line.who and line.text.text:
            found = prose.pieces(line.text.text)
            number = prose.marked(found)
            if used + number <= most:
                line.pieces = found
                used += number
    return used


class _Shaper:
    """Shapes the turns of one page."""

    def __init__(self, found: ReadTurns, base: str) -> None:
        self.found = found
        self.session = found.head.row.id
        self.times = found.head.row.has_times
        self.base = base
        self.model = str(found.head.settings.get("model") or "")
        self.intents: dict[int, Commit] = {}

    def turn(self, turn: ReadTurn) -> TurnView:
        commits = turn.commits
        folded = fold.fold(
            commits, self.found.unanswered, self.base, times=self.times,
            prices=self.found.head.prices, model=self.model,
        )  # fmt: skip
        by_seq = {commit.seq: commit for commit in commits}
        self.intents |= {seq: one for seq, one in by_seq.items() if one.kind == "call"}
        items = [item for item in folded.items if by_seq[item.seq].kind != "turn_end"]
        lines = [self._line(item, by_seq) for item in items]
        calls = [line for line in lines if isinstance(line, CallView)]
        _link_repairs(calls)
        _join_sub_agents(lines)
        last = self.found.turns[0] is turn and self.found.head.row.shown != "paused"
        return TurnView(
            number=turn.number,
            ask=self._ask(turn),
            asked_by="",
            first=turn.row.first,
            last=turn.row.last,
            at=turn.row.began.when if turn.row.began is not None else commits[0].when,
            until=folded.until,
            waited=sum(c.took or 0 for c in calls if c.act == "question"),
            status=_status(turn, folded, is_open=last),
            spend=folded.spend if not turn.earlier and not turn.later else {},
            changes=changes_of(turn, self.found, calls, self.base),
            lines=lines,
            items=lines,
            unread=turn.earlier,
            next_after=commits[-1].seq if turn.later else 0,
            calls=folded.calls,
            failed=sum(call.is_failed for call in calls),
            doubts=sum(call.status == "in doubt" for call in calls),
            rewound=turn.rewound,
            times=self.times,
        )

    def _ask(self, turn: ReadTurn) -> ShownText:
        began = turn.row.began
        if began is None:
            return ShownText(text="")
        value = value_of(began, "input")
        text = prompt_text(value).strip() if value else ""
        return texts.of_value(self.session, began, "input", text, PROMPT_MAX)

    # -- lines ------------------------------------------------------------------------------------

    def _line(self, item: LogItem, by_seq: Mapping[int, Commit]) -> Any:
        commit = by_seq[item.seq]
        if item.status and (item.is_call or item.subject is not None or item.outcome):
            intent = commit if commit.kind == "call" else None
            outcome = by_seq.get(item.outcome) if item.outcome else None
            return call_view.shaped(item, intent, outcome, self.session, self.base)
        if commit.kind == "entry":
            return self._say(item, commit)
        if commit.kind == "compaction":
            left = sum(
                isinstance(getattr(op, "record", None), EvictedRecord) for op in commit.delta
            )
            return CutView(
                seq=item.seq, at=item.at, text=_shortened(commit, item), left=left, times=self.times
            )
        if commit.kind == "child":
            return self._sub(item, commit)
        icon = {"revision": "git", "decision": "split", "plan": "plan", "dead_end": "x"}
        label = {"revision": "Commit", "decision": "Decided", "file": "File", "plan": "Plan"}
        return NoteView(
            seq=item.seq,
            at=item.at,
            icon=icon.get(commit.kind, "ring"),
            label=label.get(commit.kind, item.label.capitalize()),
            text=_plain(item),
        )

    def _say(self, item: LogItem, commit: Commit) -> SayView:
        output = commit.content.get("output")
        text = ""
        if not isinstance(output, Large):
            value = value_of(commit, "output")
            text = text_of(value) if dialect(value) != "plain" else texts.readable(value)
        who = "" if commit.actor == "model" else commit.actor
        shown = texts.of_value(self.session, commit, "output", text.strip())
        return SayView(seq=item.seq, who=who, text=shown, partial=commit.status == "partial")

    def _sub(self, item: LogItem, commit: Commit) -> SubView:
        records = (op.record for op in commit.delta if isinstance(op, Put))
        record = next((one for one in records if isinstance(one, ChildRecord)), None)
        if record is None:
            return SubView(seq=item.seq, at=item.at, name=_plain(item), status="", session="")
        child = self.found.children.get(record.session)
        view = SubView(
            seq=item.seq, at=item.at, name=record.name, status=record.status, session=record.session
        )
        if child is not None:
            view.here, view.said, view.spend = True, _last_words(child), child.spend
            view.calls, view.failed = child.counts.calls, child.counts.failed
        return view


def _plain(item: LogItem) -> str:
    return item.text.plain if item.text is not None else ""


def _shortened(commit: Commit, item: LogItem) -> str:
    """How much the view lost: from how many tokens to how many, where that is known."""
    found = value_of(commit, "input")
    sizes = found.get("tokens") if isinstance(found, Mapping) else None
    if isinstance(sizes, list) and len(sizes) == 2 and all(isinstance(n, int) for n in sizes):
        before, after = sizes
        return (
            f"{short(before)} tokens to {short(after)}"
            if after
            else f"it held {short(before)} tokens"
        )
    return "" if isinstance(found, Mapping) and found.get("left") else _plain(item)


def _last_words(child: ReadChild) -> str:
    for commit in child.newest:
        if commit.kind == "entry" and not isinstance(commit.content.get("output"), Large):
            value = commit.known("output")
            text = text_of(value) if dialect(value) != "plain" else texts.readable(value)
            if text.strip():
                return text.strip()[:600]
    return ""


def _status(turn: ReadTurn, folded: TurnFold, *, is_open: bool) -> str:
    if turn.rewound:
        return "rewound"
    status = turn.row.status or folded.ended
    return status or ("active" if is_open else "")


# -- runs of good calls ---------------------------------------------------------------------------


def _folded(lines: Sequence[Any], aside: int) -> Iterator[Any]:
    """The lines with each run of good calls as one; words of at most `aside` characters between them go with them."""
    run: list[Any] = []
    for line in [*lines, None]:
        goes = line.folds if isinstance(line, CallView) else run and _is_aside(line, aside)
        if goes:
            run.append(line)
            continue
        end = max((n for n, one in enumerate(run, 1) if isinstance(one, CallView)), default=0)
        calls = [one for one in run if isinstance(one, CallView)]
        yield from [_run(calls)] if len(calls) >= RUN_MIN else run[:end]
        yield from run[end:]
        run = []
        if line is not None:
            yield line


def _is_told_above(line: Any) -> bool:
    """Whether a line only repeats a decision or a step that stands with what the turn changed."""
    return isinstance(line, NoteView) and line.icon in TOLD_ABOVE


def _is_aside(line: Any, most: int) -> bool:
    """Whether words only lead from one call to the next."""
    if not isinstance(line, SayView) or line.who or line.text.rest:
        return False
    return len(line.text.text) <= most and "\n" not in line.text.text


def _run(calls: Sequence[CallView]) -> RunView:
    nouns = Counter(ACTS[one.act][2] if one.act in ACTS else one.verb for one in calls)
    words = [
        count(n, noun) if noun in _NOUNS else f"{n} {noun}" for noun, n in nouns.most_common(5)
    ]
    kinds = Counter(one.icon for one in calls)
    return RunView(
        first=calls[0].seq,
        last=max(max(one.seq, one.outcome) for one in calls),
        icon=kinds.most_common(1)[0][0],
        number=len(calls),
        words=", ".join(words).replace("searchs", "searches") + "; none failed",
        took=sum(one.took or 0 for one in calls),
    )


_NOUNS = frozenset(act[2] for act in ACTS.values())


# -- what failed and was repaired -----------------------------------------------------------------


def _link_repairs(calls: Sequence[CallView]) -> None:
    """Link each failed call with the call soon after that did the same and worked."""
    for place, failed in enumerate(calls):
        if not failed.is_failed or (same := _sameness(failed)) is None:
            continue
        tries = 0
        for other in calls[place + 1 : place + 1 + SOON]:
            if _sameness(other) != same:
                continue
            if other.is_good:
                failed.repair = Repair(
                    anchor=f"c{other.seq}",
                    words=other.about,
                    later=other.at - failed.at,
                    tries=tries,
                )
                break
            tries += other.is_failed


def _join_sub_agents(lines: Sequence[Any]) -> None:
    """A sub-agent that follows the call which started it need not be named again."""
    for before, line in pairwise(lines):
        if isinstance(line, SubView) and isinstance(before, CallView) and before.act == "agent":
            line.follows = True


def _sameness(call: CallView) -> tuple[str, ...] | None:
    """What two calls have in common that do the same: the program and its verb, or the file."""
    if call.act == "shell":
        words = parts(call.about[:400])
        return ("shell", gist(words[-1])) if words else None
    return (call.act or call.verb, call.about) if call.about else None
