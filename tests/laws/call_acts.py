"""Acts of turns: they begin and end, make calls, ask a model, and are run again after a crash."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import stator
from laws import values
from laws.answers import Contradiction, hold, key_of, plain
from laws.place import OTHER
from laws.scripted import TOOLS, USAGE, answer_of, behave, expected_status, is_tried_again
from laws.telling import Telling
from stator import errors


class CallActs(Telling):
    """Acts of turns: they begin and end, make calls, ask a model, and are run again after a crash."""

    def do_turn(self, prompt: str, key: str, end: str) -> None:
        self.end_turn(end)
        self.begin(prompt, key)

    def do_end(self, how: str) -> None:
        self.end_turn(how)

    def do_call(self, effect: str, how: str, value: Any, attempts: int) -> None:
        turn = self.in_turn()
        self.note()
        name = TOOLS.get(how, effect)
        tool = stator.tool(
            lambda n: behave(how, value), name=name, effect=effect, attempts=attempts
        )
        with contextlib.suppress(KeyboardInterrupt, errors.BadType, stator.ApprovalNeeded):
            outcome = turn.try_call(tool, n=self.next())
            if how == "ok" and not values.same(outcome.value, value):
                raise Contradiction(f"a call returned {outcome.value!r} instead of {value!r}")
            hold("status of the call", outcome.status, expected_status(effect, how))
        self._calls_ended([(effect, how, attempts)])

    def _calls_ended(self, made: list[tuple[str, str, int]]) -> None:
        """Tell the oracle how calls ended; only their ids are read from the log."""
        log = self.store.port.commits(self.told.id, after=self.seen[self.told.id], limit=10_000)
        ids = list(dict.fromkeys(c.call for c in log if c.kind == "call" and c.tool != "model"))
        hold("number of calls made", len(ids), len(made))
        for call, (effect, how, attempts) in zip(ids, made, strict=True):
            tool = TOOLS.get(how, effect)
            if how == "asked":
                self.told.waits(call, tool, effect)
                continue
            status = expected_status(effect, how)
            tries = attempts if is_tried_again(effect, how) else 1
            self.told.outcome(call, tool, status, effect, tries)

    def do_ask(
        self,
        shape: str,
        text: str,
        calls: list[tuple[str, str, int]],
        run: bool,
        value: str,
        through: str,
    ) -> None:
        """A model answers, and asks for calls; they run, or the program asks it again without."""
        turn = self.in_turn()
        self.note()
        asked = []
        for place, (effect, how, slot) in enumerate(calls):
            taken = how in ("ok", "error") and all(slot != other for _, _, other in calls[:place])
            # Providers may use an id again in another answer; a call in doubt must stay unique.
            identifier = f"id_{slot}" if taken else f"own_{self.next()}"
            asked.append((TOOLS.get(how, effect), {"how": how, "n": self.next()}, identifier))
        answer = answer_of(shape, text or ("" if calls else "well"), asked)
        if through == "model":
            reply = turn.model(lambda **given: answer, model="m")
            self.told.setting("model", "m")
            self.told.outcome(self._model_call(), "model", "ok", "read")
        else:
            reply = turn.reply(answer)
        self.told.spend(USAGE)
        if not run:
            return
        made = []
        for effect, how, _ in calls:
            made.append((effect, how, 1))
            if how in ("cancelled", "unrecordable"):
                break
        effects: dict[str, Any] = {
            TOOLS.get(how, effect): {"effect": effect, "attempts": 1} for effect, how, _ in calls
        }
        # Tools of one name have one effect: the last that was named.
        made = [(effects[TOOLS.get(how, e)]["effect"], how, n) for e, how, n in made]
        with contextlib.suppress(KeyboardInterrupt, errors.BadType, stator.ApprovalNeeded):
            turn.results(reply, lambda name, given: behave(given["how"], value), effects=effects)
        self._calls_ended(made)

    def _model_call(self) -> str:
        log = self.store.port.commits(self.told.id, after=self.seen[self.told.id], limit=10_000)
        return next(c.call for c in log if c.kind == "call" and c.tool == "model")

    def doubts(self) -> list[str]:
        calls = self.told.live["calls"].values()
        return sorted(
            v.data["call"] for v in calls if not v.erased and v.data["status"] == "in doubt"
        )

    def do_settle(self, nth: int, verdict: Any, value: Any) -> None:
        doubts = self.doubts()
        if not doubts:
            return
        call = doubts[nth % len(doubts)]
        known = {"value": value} if verdict == "done" else {}
        self.store.contribute(self.told.id, principal=OTHER).settle(call, verdict, **known)
        self.told.settle(call, verdict)

    def do_approval(self, nth: int, yes: bool) -> None:
        waiting = [
            v.data["call"]
            for v in self.told.live["calls"].values()
            if v.data["status"] == "awaiting approval" and not v.data["elsewhere"]
        ]
        if not waiting or self.told.status == "closed":
            return
        call = sorted(waiting)[nth % len(waiting)]
        outside = self.store.contribute(self.told.id, principal=OTHER)
        with contextlib.suppress(errors.WrongState, errors.Conflict):  # answered already
            outside.approve(call) if yes else outside.deny(call)

    def do_program(self, acts: list[tuple[str, Any]], crashes: list[int]) -> None:
        """A program that is interrupted and run again leaves the state of one that never was."""
        self.note()
        number, ran = self.next(), [0]
        name, twin = f"program {number}", f"twin {number}"
        for stop in [*sorted({crash % (len(acts) + 1) for crash in crashes}), None]:
            self._run_program(name, acts, stop, ran)
        hold("how often the program's writes ran", ran[0], sum(kind == "call" for kind, _ in acts))
        self._run_program(twin, acts, None, [0])
        mine, other = (self._knowledge(session) for session in (name, twin))
        hold("what an interrupted program recorded", mine, other)

    def _run_program(
        self, name: str, acts: list[tuple[str, Any]], stop: int | None, ran: list[int]
    ) -> None:
        def pay(n: int) -> Any:
            ran[0] += 1
            return acts[n][1]

        with (
            contextlib.suppress(ZeroDivisionError),
            self.store.open(name) as s,
            s.turn("work") as t,
        ):
            for place, (kind, value) in enumerate(acts):
                if place == stop:
                    raise ZeroDivisionError
                _ACTS[kind](t, value) if kind != "call" else t.call(pay, n=place)
            if stop == len(acts):
                raise ZeroDivisionError

    def _knowledge(self, session: str) -> Any:
        """Records by key, without ids: two sessions that did the same hold the same."""
        state = self.store.read(session).state()
        skipped = ("session", "runs", "artifacts")
        found = {
            name: {key_of(name, r, ""): plain(r) for i, r in records.items()}
            for name, records in state.items()
            if name not in skipped
        }
        for record in found["decisions"].values():
            record["supersedes"] = bool(record["supersedes"])
        return found


_ACTS: dict[str, Callable[[Any, Any], Any]] = {
    "fact": lambda t, value: t.fact("port", value),
    "note": lambda t, value: t.note("n1", value),
    "set": lambda t, value: t.set(count=value),
    "say": lambda t, value: t.say(str(value), usage={"tokens": 3}),
    "decide": lambda t, value: t.decide(str(value), topic="auth"),
    "file": lambda t, value: t.file("a.py", "modified"),
    "use": lambda t, value: t.use("app", "Safari"),
    "plan": lambda t, value: t.plan("dig", "done"),
    "pend": lambda t, value: t.pend("ship"),
    "artifact": lambda t, value: t.artifact("features", value),
}
