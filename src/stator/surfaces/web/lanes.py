"""Lays two tries side by side: what both did is folded, and the first place where they part is marked.

Pure: from the folded turns of both to rows. The words of a model are left out, because they differ in every try; what
it decided, called and changed is compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from itertools import groupby, takewhile, zip_longest

import msgspec

from stator.model.calls.costs import MONEY, computed, is_computed, plain, total
from stator.model.records.types import UNPRICED
from stator.surfaces.cli.render.amounts import money
from stator.surfaces.cli.render.record_line import count
from stator.surfaces.cli.render.turns.fold import LogItem, TurnFold

LEFT_OUT = frozenset({"said", "user", "tool", "system", "continued", "fork", "open", "resume"})
"""Labels of items that are words or the life of a session, and not acts."""
KEPT_SAME = 3
"""Of a run of same steps after the first difference, at most this many are shown."""
KEPT_ALONE = 12
"""Of a run of steps that only one side has, at most this many are shown."""


class LaneStep(msgspec.Struct, frozen=True, kw_only=True):
    """One act of a lane."""

    seq: int
    turn: int
    verb: str
    words: str
    is_path: bool = False
    status: str = ""
    more: str = ""
    took: int | None = None
    at: int = 0

    @property
    def key(self) -> tuple[str, str]:
        """What makes two steps the same act."""
        return self.verb, self.words

    @property
    def failed(self) -> bool:
        return self.status not in ("", "ok", "started", "running")


class LaneRow(msgspec.Struct, frozen=True, kw_only=True):
    """A row of both lanes: a pair, one side alone, or a fold of steps that both have."""

    a: LaneStep | None = None
    b: LaneStep | None = None
    same: int = 0
    """How many same steps are folded into this row."""
    differs: bool = False
    """Whether the same act ended otherwise."""
    alone: int = 0
    """How many steps of one side are folded into this row."""
    side: str = ""
    """Which side that is: A or B."""


class Lane(msgspec.Struct, frozen=True, kw_only=True):
    """One try after the point where the logs part."""

    steps: list[LaneStep]
    spend: dict[str, int]
    took: int | None
    """How long its turns took; the time between them is left out. None where times are unknown."""
    decided: list[LaneStep]
    answer: str
    """The last words of the model."""
    ended: str
    files: int
    cut: bool = False
    """Whether more was done than is shown."""
    spend_is_whole: bool = True
    """Whether what it spent includes what is not shown."""

    @property
    def failed(self) -> int:
        return sum(step.failed for step in self.steps)


class Lanes(msgspec.Struct, frozen=True, kw_only=True):
    """Both lanes, row by row."""

    rows: list[LaneRow]
    shared: int
    """Same steps before the first difference, those of the common log not counted."""
    first: LaneRow | None
    """Where they part; None if they do not."""


def lane(turns: Sequence[TurnFold], *, files: int, times: bool, cut: bool) -> Lane:
    """A lane from the turns after the common log, which changed so many files."""
    items = [(turn.turn, item) for turn in turns for item in turn.items]
    steps = [_step(turn, item) for turn, item in items if item.label not in LEFT_OUT]
    said = [item for _, item in items if item.label == "said" and item.text is not None]
    return Lane(
        steps=steps,
        spend=total([turn.spend for turn in turns]),
        took=sum(turn.until - turn.first.when for turn in turns) if turns and times else None,
        decided=[step for step in steps if step.verb == "decided"],
        answer=said[-1].text.plain if said and said[-1].text is not None else "",
        ended=turns[-1].ended if turns else "",
        files=files,
        cut=cut,
        spend_is_whole=not cut,
    )


def _step(turn: int, item: LogItem) -> LaneStep:
    subject = item.subject
    return LaneStep(
        seq=item.seq,
        turn=turn,
        verb=item.label,
        words=subject.words if subject else item.text.plain if item.text else "",
        is_path=bool(subject and subject.is_path),
        status=item.status,
        more=item.remark or item.more,
        took=item.took,
        at=item.at,
    )


def laid_out(a: Sequence[LaneStep], b: Sequence[LaneStep]) -> Lanes:
    """Both lanes: what both did first, and after that aligned by what was done."""
    shared = _prefix(a, b)
    rows = list(_aligned(a[shared:], b[shared:]))
    first = next((row for row in rows if _kind(row) != "same"), None)
    made = [LaneRow(same=shared)] if shared else []
    return Lanes(rows=[*made, *_folded(rows)], shared=shared, first=first)


def _prefix(a: Sequence[LaneStep], b: Sequence[LaneStep]) -> int:
    """How many steps both did first, with the same ends."""
    pairs = zip(a, b, strict=False)
    same = takewhile(
        lambda pair: pair[0].key == pair[1].key and pair[0].status == pair[1].status, pairs
    )
    return sum(1 for _ in same)


def _aligned(a: Sequence[LaneStep], b: Sequence[LaneStep]) -> Iterator[LaneRow]:
    matcher = SequenceMatcher(None, [s.key for s in a], [s.key for s in b], autojunk=False)
    for tag, i, j, k, m in matcher.get_opcodes():
        for left, right in zip_longest(a[i:j], b[k:m]):
            differs = tag == "equal" and left.status != right.status
            yield LaneRow(a=left, b=right, differs=differs)


def _folded(rows: Sequence[LaneRow]) -> list[LaneRow]:
    """Long runs of same steps, and of steps that one side has alone, as one row each."""
    made: list[LaneRow] = []
    for kind, group in groupby(rows, key=_kind):
        run = list(group)
        if kind == "same" and len(run) > KEPT_SAME:
            made.append(LaneRow(same=len(run)))
        elif kind in ("A", "B") and len(run) > KEPT_ALONE + 1:
            made += [*run[:KEPT_ALONE], LaneRow(alone=len(run) - KEPT_ALONE, side=kind)]
        else:
            made += run
    return made


def _kind(row: LaneRow) -> str:
    """What rows are folded together by."""
    if row.a and row.b:
        return "same" if row.a.key == row.b.key and not row.differs else "pair"
    return "A" if row.a else "B"


def verdict(a: Lane, b: Lane) -> str:
    """Compare both in one sentence, from what was recorded. Parts of two tries do not say which was quicker."""
    parts = [*_cost(a, b)] if a.spend_is_whole and b.spend_is_whole else []
    if not a.cut and not b.cut:
        parts += [*_time(a, b), *_failures(a, b), *_answers(a, b)]
    if not parts:
        return "Nothing recorded tells them apart."
    told = "; ".join(parts)
    return f"{told[:1].upper()}{told[1:]}."


def _answers(a: Lane, b: Lane) -> list[str]:
    """Where both acted alike, whether their last words differ."""
    if a.answer == b.answer or [one.key for one in a.steps] != [one.key for one in b.steps]:
        return []
    if not a.answer or not b.answer:
        return [f"only {'A' if a.answer else 'B'} gave an answer"]
    return ["both acted alike and answered differently"]


def _cost(a: Lane, b: Lane) -> list[str]:
    spends = [plain(lane.spend) for lane in (a, b)]
    units = sorted({unit for spend in spends for unit in spend if unit.startswith(MONEY)})
    if len(units) != 1 or any(units[0] not in spend for spend in spends):
        return []
    less, more = sorted((spend[units[0]], name) for spend, name in zip(spends, "AB", strict=True))
    if less[0] == more[0] or any(spend.get(UNPRICED) for spend in spends):
        return []
    unit = computed(units[0]) if is_computed({**a.spend, **b.spend}) else units[0]
    return [f"{more[1]} cost {money({unit: more[0] - less[0]})} more"]


def _time(a: Lane, b: Lane) -> list[str]:
    if not a.took or not b.took or a.took == b.took:
        return []
    return [f"{'A' if a.took < b.took else 'B'} was quicker"]


def _failures(a: Lane, b: Lane) -> list[str]:
    if a.failed == b.failed:
        return []
    return [f"{count(a.failed, 'call')} of A failed, {b.failed} of B"]
