"""Following over HTTP: each commit once, whatever is cut off; and which sessions moved."""

from __future__ import annotations

import random
import threading
from typing import Any

import pytest

from stator.runtime.facade.session import Session
from stator.runtime.facade.store import Store
from stator.surfaces.http import tails
from web.running import RunningInspector
from web.sse_client import EventReader

CUTS = 1_000
AHEAD = 40
"""How far the writer may be ahead of the reader in these tests."""


def reader(
    inspector: RunningInspector, token: str, session: str, after: int | None = None
) -> EventReader:
    headers = {} if after is None else {"Last_Event_ID": str(after)}
    return EventReader(inspector.address, f"/v1/sessions/{session}/tail", token, **headers)


@pytest.fixture
def token(inspector: RunningInspector) -> str:
    return inspector.access.new_token()


class Writer(threading.Thread):
    """Appends commits to a session, a few ahead of its reader, until it is stopped."""

    def __init__(self, session: Session[Any]) -> None:
        super().__init__()
        self._session = session
        self.room = threading.Semaphore(AHEAD)
        self.stopped = threading.Event()

    def run(self) -> None:
        with self._session.turn("go") as turn:
            n = 0
            while not self.stopped.is_set():
                self.room.acquire()
                n += 1
                turn.fact(f"n{n % 7}", n)


def test_a_stream_that_is_cut_a_thousand_times_misses_and_repeats_no_commit(
    store: Store, inspector: RunningInspector, token: str
) -> None:
    drawn = random.Random(19)
    with store.open("a") as session:
        writer = Writer(session)
        writer.start()
        got: list[int] = []
        for _ in range(CUTS):
            with reader(inspector, token, session.id, got[-1] if got else 0) as stream:
                stream.cut_after(drawn.randrange(1, 3_000))
                for event in stream:
                    if event.name == "commit":
                        got.append(int(event.id))
                        writer.room.release()
        writer.stopped.set()
        writer.room.release()
        writer.join()
        head = session.head.seq
        with reader(inspector, token, session.id, got[-1]) as stream:
            for event in stream:
                if event.name == "commit":
                    got.append(int(event.id))
                if got[-1] == head:
                    break
    assert got == list(range(1, head + 1))
    assert head > CUTS / 4


def test_the_first_event_is_the_head_and_what_follows_continues_it(
    store: Store, inspector: RunningInspector, token: str
) -> None:
    with store.open("a") as session, reader(inspector, token, "a") as stream:
        events = iter(stream)
        head = next(events)
        assert (head.name, head.data["seq"], head.id) == (
            "head",
            session.head.seq,
            str(session.head.seq),
        )
        assert head.data["hash"] == session.head.hash
        with session.turn("hello"):
            pass
        begun = next(events)
        assert (begun.name, begun.data["kind"]) == ("commit", "turn")
        assert begun.data["seq"] == head.data["seq"] + 1
        assert begun.data["prev"] == head.data["hash"]


def test_cut_off_after_the_head_a_reader_still_has_its_own_cursor(
    store: Store, inspector: RunningInspector, token: str
) -> None:
    with store.open("a") as session, session.turn("hello"):
        pass
    with reader(inspector, token, "a", after=1) as stream:
        head = next(iter(stream))
    assert head.data["seq"] > 1
    assert head.id == "1"


def test_a_reader_that_is_far_behind_gets_its_cursor_and_is_let_go(
    store: Store, inspector: RunningInspector, token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tails, "BEHIND_MAX", 600)
    with store.open("a") as session, session.turn("much") as turn:
        for n in range(700):
            turn.fact("n", n)
    with reader(inspector, token, "a", after=2) as stream:
        events = list(stream)
    assert [event.name for event in events] == ["head", "reset"]
    assert events[1].data["cursor"] == 2
    assert events[1].data["head"] == events[0].data["seq"]


def test_a_cursor_past_the_end_of_the_log_is_reset(
    store: Store, inspector: RunningInspector, token: str
) -> None:
    with store.open("a"):
        pass
    with reader(inspector, token, "a", after=900) as stream:
        assert [event.name for event in stream] == ["head", "reset"]


def test_a_stream_of_heads_names_the_session_that_moved(
    store: Store, inspector: RunningInspector, token: str
) -> None:
    with (
        store.open("a") as moving,
        store.open("b"),
        EventReader(inspector.address, "/v1/heads", token) as stream,
    ):
        events = iter(stream)
        assert next(events).data == {"moved": {}, "all": True}
        with moving.turn("hello"):
            seen: dict[str, int] = {}
            while seen.get(moving.id, 0) < moving.head.seq:
                seen |= next(events).data["moved"]


def test_what_no_session_has_is_a_problem_with_its_code(
    inspector: RunningInspector, token: str
) -> None:
    with reader(inspector, token, "nobody") as stream:
        assert not list(stream)
        assert stream.status == 404
    with reader(inspector, "another token", "nobody") as stream:
        assert not list(stream)
        assert stream.status == 401
