"""Runs an agent against a recorded session and reports where it diverges.

No tool runs, no model is asked, and nothing is written to the source. The agent is given a session
over a copy of the record that grows with it (`progress`), and everything it asks for comes from the
record (`driver`).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from stator.errors import InvalidInput
from stator.model.calls import expectations as scripts
from stator.model.calls.expectations import Divergence, ProgramRequest
from stator.model.values.position import turn_numbers
from stator.runtime.base.context import Context
from stator.runtime.branches.open_driver import HeldMode
from stator.runtime.branches.rewind import Rewound
from stator.runtime.driving.again.turn_start import Changed
from stator.runtime.facade.session import Session, Turn
from stator.runtime.replay.driver import ReplayDriver, ReplayTurn
from stator.runtime.replay.progress import Halted, Replay
from stator.runtime.replay.report import Replayed, uncaptured
from stator.runtime.replay.sources import Source, left_by_others
from stator.runtime.window.compaction import Compaction
from stator.store.port import StorePort

Agent = Callable[[Any], Any]
"""A function of a session: `def agent(s): with s.turn("…") as t: …`; or a coroutine function of one."""


class ReplaySession(Session[Any]):
    """What a replayed program holds: a session that takes everything from its record."""

    def __init__(self, driver: ReplayDriver) -> None:
        super().__init__(driver)
        self._replayed = driver

    def turn(
        self, prompt: Any = None, *, key: str = "", new: bool = False, changed: Changed = "warn"
    ) -> Turn:
        """The next turn of the record, or one before it that was answered by its key."""
        self._turn = ReplayTurn(self._replayed, prompt, key=key, new=new, changed=changed)
        turn = Turn(self, self._turn)
        turn.reused = self._replayed.answered  # as it was when this was recorded
        return turn

    def track(self, root: str = "", **options: Any) -> None:
        """Tools do not run, so no file changes."""

    def compact(self, **options: Any) -> Compaction:
        """No model is asked, so nothing needs shortening."""
        return Compaction(session=self.id)

    def _begin_retry(self, turn: str, **options: Any) -> NoReturn:
        self._replayed.outside(f"tries {turn} again")

    def rerun(self, *args: Any, **options: Any) -> NoReturn:
        """Calls are not made again."""
        self._replayed.outside("makes calls again")

    def rewind(self, to: str) -> Rewound:
        """Go back as the record did; what can be read is what was there then."""
        return self._replayed.rewind(to)

    def child(
        self,
        name: str,
        *,
        agent: str = "",
        budget: Mapping[str, int] | None = None,
        busy: HeldMode = "fail",
    ) -> Session[Any]:
        """The sub-agent of that name, as it was then."""
        turn, play = self._turn, self._replayed.play
        if not isinstance(turn, ReplayTurn) or turn.ended:
            raise InvalidInput(f"child {name!r:.60} needs an open turn", session=self.id)
        cue = turn.take(ProgramRequest(kind="child", name=name))
        assert cue.child is not None
        play.reach(self.id, cue.seq)
        if cue.child.session not in play.source.logs:
            said = f"the child {name!r:.60} is not in the record: the replay cannot go on"
            hole = Divergence(what=said, turn=turn.number, seq=cue.seq, commit=cue.commit)
            play.diverge(hole, self.id)
        child = ReplayDriver(play, cue.child.session, first=cue.after + 1, last=cue.turns)

        def left(status: str) -> None:
            child.finish()
            if cue.end < scripts.NEVER:
                play.reach(self.id, cue.end)

        child.on_leave = left
        return ReplaySession(child)


def replay(
    source: Source,
    agent: Agent,
    copy: StorePort,
    context: Context,
    *,
    turns: str | None = None,
    strict: bool = False,
) -> Replayed:
    """Drive an agent against a record, up to the first divergence. `copy` is an empty store."""
    first, last = turn_numbers(turns, source.turns, left_by_others(source.logs[source.main]))
    play = Replay(source, copy, context, strict=strict)
    driver = ReplayDriver(play, source.main, first=first, last=last)
    play.report.uncaptured = uncaptured(source, first, last)
    try:
        try:
            play.report.result = _drive(agent, ReplaySession(driver))
        except Exception as error:
            _raised(driver, error)
        driver.finish()
    except Halted:
        pass
    return play.report


def _drive(agent: Agent, session: ReplaySession) -> Any:
    if not inspect.iscoroutinefunction(agent):
        return agent(session)
    import asyncio
    import contextvars
    from concurrent.futures import ThreadPoolExecutor

    from stator.runtime.facade.aio import AsyncSession
    from stator.runtime.facade.aio_pool import Pool

    pool = Pool()
    main = agent(AsyncSession(session, pool))
    try:
        # In a thread of its own: the caller may be on an event loop already.
        with ThreadPoolExecutor(1, "stator replay") as thread:
            ran = thread.submit(contextvars.copy_context().run, asyncio.run, main)
            return ran.result()
    finally:
        pool.close()


def _raised(driver: ReplayDriver, error: Exception) -> None:
    """The agent raised: as it did then, or not."""
    driver.play.check()
    turn = driver.current
    if turn is not None and turn.how == "interrupted":
        return  # how the turn ended was compared
    if driver.broke_off():
        return
    said = f"the agent raised {type(error).__name__}: {error}"[:500]
    driver.play.diverge(Divergence(what=said, turn=driver.number), driver.id)
