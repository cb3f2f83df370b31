"""Acts that record something: decisions, files, facts, plans, notes, tags, scores, flags."""

from __future__ import annotations

import contextlib
from typing import Any

from laws import values
from laws.answers import Contradiction
from laws.histories import Step
from laws.oracle import SETTLE
from laws.place import OTHER, PRINCIPAL
from laws.telling import Telling
from stator import errors

AFTER_THE_END = ("score", "flag", "tag")
"""What a closed session still takes."""


class RecordActs(Telling):
    """Acts that record something: decisions, files, facts, plans, notes, tags, scores, flags."""

    def writer(self, where: str, kind: str = "") -> Any:
        """Who records it; a closed session refuses most of what comes from outside, and is opened first."""
        if where == "turn":
            return self.in_turn()
        if where == "session":
            return self.driven()
        outside = self.store.contribute(self.told.id, principal=OTHER)
        if self.told.status == "closed" and kind not in AFTER_THE_END:
            with contextlib.suppress(errors.WrongState):
                outside.dead_end("recorded after the end")
                raise Contradiction("a closed session took a record")
            self.driven()
        return outside

    def do_decide(self, what: str, where: str, **said: Any) -> None:
        writer = self.writer(where)
        self.note()
        if "supersedes" in said:
            standing = [v for v in self.told.live["decisions"].values() if not v.erased and v.id]
            nth = said.pop("supersedes")
            if standing:
                said["supersedes"] = standing[nth % len(standing)].id
        writer.decide(what, **said)
        self.told.decide(what, **said)

    def do_file(self, where: str, path: str, op: str, **said: Any) -> None:
        self.writer(where).file(path, op, **said)
        self.told.file(path, op, **said)

    def do_fact(self, where: str, name: str, value: Any) -> None:
        self.writer(where).fact(name, value)
        self.told.put("facts", name=name, value=value, verified=False)

    def do_prefer(self, where: str, name: str, value: Any) -> None:
        self.writer(where).prefer(name, value)
        self.told.put("preferences", name=name, value=value)

    def do_dead_end(self, where: str, what: str, why: str) -> None:
        self.writer(where).dead_end(what, why=why)
        self.told.put("dead_ends", what=what, why=why)

    def do_plan(
        self, where: str, steps: list[str], status: str, detail: str, order: int, listed: bool
    ) -> None:
        said = steps if listed else steps[0]
        self.writer(where).plan(said, status, detail=detail, order=order)
        self.told.plan(steps if listed else steps[:1], status, detail, order, listed)

    def do_artifact(self, where: str, name: str, content: Any) -> None:
        commit = self.writer(where).artifact(name, content)
        found = self.store.port.commits(self.told.id, after=self._head() - 1)[0]
        data = found.content["input"]
        assert isinstance(data, bytes)
        if not values.same(found.value("input"), content):
            raise Contradiction(f"content of {name}: {found.value('input')!r}, {content!r}")
        self.told.artifact(name, data, "text/plain", commit)
        self.told.contents[name, found.seq] = content

    def do_pend(self, what: str, on: str) -> None:
        self.in_turn().pend(what, on=on)
        self.told.put("pending", what=what, on=on, why="")

    def do_pend_done(self, nth: int) -> None:
        names = [k[0] for k, v in self.told.live["pending"].items() if not v.erased]
        names = [name for name in names if not name.startswith(SETTLE) and name != "#"]
        turn = self.in_turn()
        if not names:
            with contextlib.suppress(errors.BadDelta):
                turn.pend("never intended", done=True)
                raise Contradiction("something that was never pending was taken off")
            return
        name = sorted(names)[nth % len(names)]
        turn.pend(name, done=True)
        self.told.drop("pending", name)

    def do_use(self, kind: str, name: str, detail: str) -> None:
        self.in_turn().use(kind, name, detail=detail)
        self.told.use(kind, name, detail)

    def do_note(self, name: str, value: Any) -> None:
        self.in_turn().note(name, value)
        self.told.put("scratch", name=name, value=value)

    def do_set(self, fields: dict[str, Any]) -> None:
        self.in_turn().set(**fields)
        for name, value in fields.items():
            self.told.put("app", name=name, value=value, version=1)

    def do_say(self, text: str, usage: dict[str, int], actor: str) -> None:
        self.in_turn().say(text, usage=usage or None, actor=actor)
        self.told.spend(usage)

    def do_batch(self, steps: list[Step], fails: bool) -> None:
        """Several records in one transaction; one that fails leaves nothing."""
        turn = self.in_turn()
        self.note()
        before, choices = self.told.copy_live(), list(self.told.choices)
        self.batching = True
        with contextlib.suppress(ZeroDivisionError), turn.batch():
            for name, arguments in steps:
                if "where" in arguments:
                    arguments = {**arguments, "where": "turn"}
                getattr(self, f"do_{name}")(**arguments)
            if fails:
                raise ZeroDivisionError
        self.batching = False
        if fails:
            self.told.live, self.told.choices = before, choices
            self.told.fresh.clear()

    def _by(self, where: str) -> str:
        return OTHER if where == "outside" else PRINCIPAL

    def do_score(self, where: str, name: str, value: float, on: str) -> None:
        self.writer(where, "score").score(name, value, on=on)
        self.told.put(
            "scores", name=name, value=round(value * 1000), by=self._by(where), comment="", on=on
        )

    def do_flag(self, where: str, name: str, on: str, why: str) -> None:
        self.writer(where, "flag").flag(name, on=on, why=why)
        self.told.put("flags", name=name, by=self._by(where), on=on, why=why)

    def do_tag(self, name: str, nth: int) -> None:
        session = self.driven()
        self.note()
        seq = self.position(nth)
        session.tag(name, f"@{seq}")
        self.told.put("tags", name=name, seq=seq)
