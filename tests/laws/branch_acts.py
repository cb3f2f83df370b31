"""Acts that go back or branch off: rewinds, forks, retries, adoptions, children."""

from __future__ import annotations

import contextlib
from typing import Any

from laws.answers import Contradiction, hold
from laws.oracle import COLLECTIONS, NOT_MODELLED, Told, Version
from laws.telling import Telling
from stator import errors
from stator.model.values.ids import short


class BranchActs(Telling):
    """Acts that go back or branch off: rewinds, forks, retries, adoptions, children."""

    def do_rewind(self, nth: int, back: bool) -> None:
        self.end_turn()
        session = self.driven()
        self.note()
        told, head = self.told, self._head()
        to, ref = self.position(nth), ""
        if back:  # where a rewind left off
            tags = [v for k, v in told.live["tags"].items() if k[0].startswith("rewind/")]
            tags = [v for v in tags if not v.erased and v.data["seq"] in told.snapshots]
            if tags:
                tag = tags[nth % len(tags)]
                to, ref = tag.data["seq"], tag.data["name"]
        if to == head:
            return
        done = session.rewind(ref or f"@{to}")
        told.rewind(to)
        told.rewinds.append((done.seq, to))
        told.put("tags", name=done.tag, seq=head)
        self._erased_as_found()
        now = sorted(e.key for e in self.store.port.entries(told.id, "evicted"))
        hold("evicted keys after a rewind", now, told.evicted[to])

    def _erased_as_found(self) -> None:
        """What is erased cannot be restored; which erased records are listed is the product's word."""
        state = self.view().state()
        for name in COLLECTIONS:
            live = self.told.live[name]
            self.told.live[name] = {k: v for k, v in live.items() if not v.erased}
            for identifier, record in state[name].items():
                if hasattr(record, "erased") and name not in NOT_MODELLED:
                    gone = Version(name, {}, identifier, erased=True)
                    self.told.live[name][gone.key] = gone

    def do_fork(self, nth: int) -> None:
        self.note()
        seq = self.position(nth)
        made = self.store.fork(self.told.id, f"@{seq}", as_name=f"fork {self.next()}")
        self._branch(made.id, seq)

    def _branch(self, identifier: str, seq: int) -> Told:
        fork = self.told.fork(identifier, seq)
        fork.calls = {row.call: row.status for row in self.all_calls(identifier)}
        self.sessions.append(fork)
        self.seen[identifier] = seq
        last = self.store.port.head(identifier).turn  # the fork may cut it short
        fork.turns = {n: status for n, status in fork.turns.items() if n < last}
        home, self.told = self.told, fork
        self.note()
        self.compare(fork)
        self.told = home
        return fork

    def do_switch(self, nth: int) -> None:
        self.leave()
        self.note()
        self.told = self.sessions[nth % len(self.sessions)]
        self.note()

    def do_retry(self, nth: int, value: Any) -> None:
        """A turn is tried again beside the session."""
        self.end_turn()
        session = self.driven()
        self.note()
        turns = [row for row in session.turns() if row.first - 1 in self.told.snapshots]
        if not turns:
            return
        row = turns[nth % len(turns)]
        begun = self.store.port.commits(self.told.id, after=row.first - 1, upto=row.first)[0]
        prompt = (
            f"{self.next()}: again" if begun.status == "continued" or self.told.erased else None
        )
        with session.retry(f"t{row.turn}", effects="run", prompt=prompt) as t:
            t.fact("port", value)
        self._branch_of_retry(t, row, value)

    def _branch_of_retry(self, t: Any, row: Any, value: Any) -> None:
        home = self.told
        fork = home.fork(t.session.id, row.first - 1)
        self.sessions.append(fork)
        self.seen[fork.id] = row.first - 1
        fork.turns = {n: status for n, status in fork.turns.items() if n < row.turn}
        fork.turns[t.number] = "ok"
        fork.status = "paused"
        fork.put("facts", name="port", value=value, verified=False)
        self.told = fork
        self.note()
        fork.calls = {row.call: row.status for row in self.all_calls(fork.id)}
        self.told = home
        view = self.store.read(fork.id)
        self.compare_view(view, fork)

    def compare_view(self, view: Any, told: Told) -> None:
        session, self.session = self.session, view
        try:
            self.compare(told)
        finally:
            self.session = session

    def do_adopt(self, nth: int) -> None:
        """A fork takes the place of the session it came from."""
        self.leave()
        self.note()
        forks = [told for told in self.sessions if told.forked]
        if not forks:
            return
        fork = forks[nth % len(forks)]
        record = self.store.read(fork.id).record
        if record.parent is None or record.parent.kind not in ("fork", "retry"):
            return
        name = self.store.read(record.parent.session).record.name
        by_id = self.store.port.session(record.parent.session).record
        parent = self.store.contribute(record.parent.session)
        if by_id.status == "closed":
            with contextlib.suppress(errors.WrongState):
                parent.adopt(f"{fork.id}:head")
                raise Contradiction("a closed session was adopted from")
            return
        found = parent.adopt(f"{fork.id}:head")
        hold("the adopted session", found.by, fork.id)
        hold("what the original's name leads to", bool(self.store.read(name).id), True)
        hold("the original itself", self.store.read(by_id.id).record.adopted, fork.id)
        self.note_adoption(by_id, fork.id)

    def note_adoption(self, original: Any, adopted: str) -> None:
        """That a person adopted one try over another is a decision of theirs, in the log of the original."""
        current = self.told
        self.told = next(told for told in self.sessions if told.id == original.id)
        self.told.decide(
            f"the try {short(adopted)}",
            topic=f"which try continues {original.name}",
            over=(f"the original {short(original.id)}",),
            by="user",
            how="inferred",
        )
        self.note()
        self.told = current

    def do_child(self, nth: int) -> None:
        self.in_turn()
        with self.session.child(f"child {self.next()}") as child, child.turn("look") as t:
            t.fact("port", nth)
        self.told.put("children", session=child.id)
