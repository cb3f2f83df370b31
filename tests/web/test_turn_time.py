"""The picture of a turn's time: the model, its calls side by side, waiting for a person, what was tried again."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from stator.surfaces.web.pictures.turn_time import LANES_MAX, ROW, WIDTH, TurnTime, turn_time
from stator.surfaces.web.shape.call_view import CallView, Repair
from stator.surfaces.web.shape.changes import Changes
from stator.surfaces.web.shape.texts import ShownText
from stator.surfaces.web.shape.turn_view import TurnView

SECOND = 1_000_000


def call(at: float, took: float, *, status: str = "ok", act: str = "shell") -> CallView:
    return CallView(
        seq=1, call="c", act=act, icon="term", verb="Run", about="make", is_path=False,
        status=status, at=round(at * SECOND), took=round(took * SECOND),
    )  # fmt: skip


def drawn(calls: list[CallView], seconds: float = 100) -> TurnTime | None:
    turn = TurnView(
        number=1, ask=ShownText(text=""), asked_by="", first=1, last=2, at=0,
        until=round(seconds * SECOND), waited=0, status="ok", spend={}, changes=Changes(),
        lines=calls, items=calls, unread=0, next_after=0, calls=len(calls), failed=0, doubts=0,
        rewound=False, times=True,
    )  # fmt: skip
    return turn_time(turn)


def test_calls_at_the_same_time_are_side_by_side_below_the_model() -> None:
    found = drawn([call(10, 20), call(15, 20), call(50, 10)])
    assert found is not None
    rows = [(bar.kind, bar.y // ROW, bar.x) for bar in found.bars]
    assert rows == [
        ("model", 0, 0), ("model", 0, 350), ("model", 0, 600), ("tool", 1, 100), ("tool", 2, 150), ("tool", 1, 500),
    ]  # fmt: skip
    assert found.words.endswith("3 calls 35 s, up to 2 at once")


def test_waiting_and_what_was_tried_again_stand_apart() -> None:
    failed = call(40, 10, status="error")
    failed.repair = Repair(anchor="c2", words="make", later=SECOND, tries=0)
    found = drawn(
        [call(0, 30, act="question"), failed, call(60, 10), call(70, 30, status="in doubt")]
    )
    assert found is not None
    assert [bar.kind for bar in found.bars if bar.anchor] == ["wait", "bad", "tool", "unsure"]
    assert "waiting for you 30 s, 1 failed, 1 tried again" in found.words


def test_a_turn_without_a_call_has_no_picture() -> None:
    assert drawn([]) is None


@given(st.lists(st.tuples(st.floats(0, 90), st.floats(0, 200)), min_size=1, max_size=40))
def test_every_call_is_drawn_once_inside_the_picture(spans: list[tuple[float, float]]) -> None:
    found = drawn([call(at, took) for at, took in sorted(spans)])
    assert found is not None
    assert sum(bool(bar.anchor) for bar in found.bars) == len(spans)
    assert all(0 <= bar.x <= WIDTH and bar.y < found.height for bar in found.bars)
    assert found.height <= ROW * (1 + LANES_MAX)
