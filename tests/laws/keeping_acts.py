"""Acts of keeping: compaction and undo, erasure, leaving and coming back, other stores."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import stator
from laws import values
from laws.answers import Contradiction, answers, fields_of, hold, key_of, plain_state
from laws.oracle import COLLECTIONS, Told, Version
from laws.place import Place
from laws.provider_rules import RULES
from laws.telling import FOREIGN, Telling
from stator import errors

AGAIN = ("evicted",)
"""The collection whose records an undo writes again, each under an id of its own."""


class KeepingActs(Telling):
    """Acts of keeping: compaction and undo, erasure, leaving and coming back, other stores."""

    def do_compact(self, keep: int, summary: str, scratch: bool, max_tokens: int | None) -> None:
        session = self.driven()
        self.note()
        before = self.picture()
        notes = {v.key for v in self.told.live["scratch"].values() if not v.erased}
        found = session.compact(
            keep=keep, summary=summary or None, scratch=scratch, max_tokens=max_tokens
        )
        if not found.seq:
            return
        state = session.state(collections=["scratch", "evicted"])
        left = {key_of("scratch", r, i) for i, r in state["scratch"].items()}
        dropped = sorted(key for key in notes if key not in left and key[0] != "#")
        if dropped and not scratch:
            raise Contradiction(f"notes left that nobody gave away: {dropped}")
        keys = sorted(record.key for record in state["evicted"].values())
        for (name,) in dropped:
            if f"scratch:{name}" not in keys and not any(":t" in key for key in keys):
                raise Contradiction(f"note {name} was dropped, and no key names it: {keys}")
        hold("evicted keys", keys, sorted(record.key for record in found.evicted))
        self.told.live["scratch"] = {
            k: v for k, v in self.told.live["scratch"].items() if not v.erased or v.key in left
        }
        self.told.compacted(found.seq, [name for (name,) in dropped])
        self.before_compaction = (found.seq, before)

    def do_undo(self, nth: int) -> None:
        session = self.driven()
        self.note()
        try:
            found = session.undo_compaction()
        except errors.NotFound:
            return
        # One from before another store wrote to the session is not known here.
        if found.undone not in self.told.compactions:
            self.resync()
            return
        self.told.undone(found.undone)
        if self.before_compaction is not None and self.before_compaction[0] == found.seq - 1:
            hold("what an undone compaction shows", self.picture(), self.before_compaction[1])

    def picture(self) -> Any:
        """The whole state, and what each provider is shown, as bytes."""
        state = {
            name: sorted(
                (
                    key_of(name, r, i) if name in AGAIN else (i,),
                    values.canonical({k: str(v) for k, v in fields_of(r).items()}),
                )
                for i, r in records.items()
                if not hasattr(r, "erased")  # nothing brings that back
            )
            for name, records in self.session.state().items()
        }
        shown = None
        if self.turn is not None:
            shown = {name: values.canonical(self.turn.messages(name)) for name in RULES}
        return state, shown

    def do_erase(self, nth: int, collection: str) -> None:
        self.note()
        live = [v for v in self.told.live[collection].values() if v.id and not v.erased]
        if not live:
            return
        version = live[nth % len(live)]
        writer = self.session or self.store.contribute(self.told.id)
        try:
            writer.erase(record=(collection, version.id))
        except errors.StatorError as error:
            if self.told.forked:  # a part of its log is another session's
                return
            raise Contradiction(f"erasing {collection} {version.id} was refused") from error
        self.told.erase_record(collection, version.id)
        self._erased_anywhere()

    def do_erase_commit(self, nth: int) -> None:
        self.note()
        kinds = ("fact", "preference", "file", "decision", "plan", "artifact", "scratch", "app")
        log = self.store.port.commits(self.told.id, limit=10_000)
        own = [c for c in log if c.kind in kinds and c.session == self.told.id]
        if not own:
            return
        seq = own[nth % len(own)].seq
        (self.session or self.store.contribute(self.told.id)).erase(f"@{seq}")
        self.told.erase_commit(seq)
        self._erased_anywhere()

    def _erased_anywhere(self) -> None:
        """Forks share what came before them, so an erasure in one session is one in others."""
        for told in self.sessions:
            told.erased = True
        if any(told.resynced for told in self.sessions):
            for told in self.sessions:
                if told is not self.told:
                    self._take_erasures(told)

    def _take_erasures(self, told: Told) -> None:
        """Which records of a session are erased, where the oracle lost sight of what sessions share."""
        gone = self._erased_ids(told.id)
        for records in told.live.values():
            for version in records.values():
                version.erased = version.erased or version.id in gone
        told.snapshots = {self.store.port.head(told.id).seq: told.copy_live()}

    def do_leave(self, how: str) -> None:
        self.driven()
        self.leave(how)

    def do_reopen(self, nth: int) -> None:
        """Another process: the store is closed and opened again."""
        self.leave()
        self.note()
        before = answers(self.store, self.told)
        self.place.reopen()
        hold("answers after the store was opened again", answers(self.store, self.told), before)

    def do_rebuild(self, nth: int) -> None:
        self.leave()
        self.note()
        before = answers(self.store, self.told)
        self.store.port.rebuild()
        hold("answers after the indexes were rebuilt", answers(self.store, self.told), before)

    def elsewhere(self) -> Place:
        if self.other is None:
            self.other = Place(self.folder, "there")
        return self.other

    def _bundle(self, store: stator.Store, session: str) -> Path:
        path = self.scratch / f"{self.next()}.stator"
        store.export(session, path)
        return path

    def do_carry(self, dry_run: bool) -> None:
        """The session is imported into another store, new or continued."""
        there = self.elsewhere().store
        self.note()
        path = self._bundle(self.store, self.told.id)
        planned = self._fates(there, path, dry_run=True) if dry_run else None
        report = self._fates(there, path)
        os.unlink(path)
        if planned is not None:
            hold("what a dry run says of an import", planned, report)
        if not report and not self._is_grafted(self.told.id) and not self._differs(there):
            raise Contradiction("an import was refused, and no part of the log came from there")
        if report.get(self.told.id) in ("new", "same", "fast-forward"):
            hold(
                "the imported head",
                there.port.head(self.told.id),
                self.store.port.head(self.told.id),
            )
            # A fork does not carry what its parent erased after it.
            gone = self._erased_ids(self.told.id) if self.told.forked else ()
            hold(
                "the imported state",
                plain_state(there, self.told.id, gone=gone),
                plain_state(self.store, self.told.id, gone=gone),
            )

    def _fates(self, there: stator.Store, path: Path, dry_run: bool = False) -> dict[str, str]:
        """What becomes of each session; nothing where the bundle is refused."""
        try:
            found = there.import_bundle(path, erasures="apply", dry_run=dry_run).sessions
        except (errors.IdReused, errors.Conflict):
            return {}
        # A log that parted ways is a session of its own there, which later bundles continue.
        return {
            one.session: one.fate if one.into == one.session else f"{one.fate}, as another"
            for one in found
        }

    def _is_grafted(self, session: str) -> bool:
        """Whether a part of its log was imported as a fork: the other store has those commits already."""
        record = self.store.read(session).record
        while record.parent is not None:
            if record.parent.kind == "import":
                return True
            record = self.store.port.session(record.parent.session).record
        return False

    def _differs(self, there: stator.Store) -> bool:
        """Whether the other store has gone on differently in a part of the log that the session continues."""
        for part in self.store.read(self.told.id).record.lineage:
            ends = [
                [c.hash for c in port.commits(part.session, after=part.upto - 1, upto=part.upto)]
                for port in (self.store.port, there.port)
                if self._has(port, part.session)
            ]
            if len(ends) == 2 and ends[0] != ends[1]:
                return True
        return False

    def _has(self, port: Any, session: str) -> bool:
        try:
            port.session(session)
        except errors.NotFound:
            return False
        return True

    def do_carry_back(self, nth: int) -> None:
        """The other store goes on, and what it recorded comes back."""
        self.leave()
        self.note()
        there = self.elsewhere().store
        if self._is_grafted(self.told.id):
            return
        try:
            there.port.session(self.told.id)
        except errors.NotFound:
            return
        with there.open(self.told.id) as s, s.turn(f"{self.next()}: elsewhere") as t:
            t.fact("port", f"elsewhere {nth}")
        path = self._bundle(there, self.told.id)
        try:
            found = self.store.import_bundle(path, erasures="apply").sessions
            (brought,) = [s for s in found if s.session == self.told.id]
        finally:
            os.unlink(path)
        if brought.fate == "fork":
            known = next((told for told in self.sessions if told.id == brought.into), None)
            if known is None:
                known = Told(brought.into, forked=True)
                self.sessions.append(known)
            self.told = known
        self.resync()
        # What was erased here is not brought back, so such records are left out of the comparison.
        gone = self._erased_ids(self.told.id)
        mine = plain_state(self.store, self.told.id, brought.fate == "fork", gone)
        theirs = plain_state(there, s.id, brought.fate == "fork", gone)
        hold(f"the state that came back ({brought.fate})", mine, theirs)

    def _erased_ids(self, session: str) -> set[str]:
        state = self.store.read(session).state()
        return {i for records in state.values() for i, r in records.items() if hasattr(r, "erased")}

    def resync(self) -> None:
        """Take the product's word for a session that another store wrote to."""
        told = self.told
        view = self.store.read(told.id)
        state = view.state()
        told.live = {name: {} for name in COLLECTIONS}
        seqs = {
            (name, e.id): e.seq
            for name in COLLECTIONS
            for e in self.store.port.entries(told.id, name)
        }
        for name in COLLECTIONS:
            for identifier, record in state[name].items():
                data = fields_of(record)
                for field in FOREIGN:
                    if field in data:
                        data[field] = values.read_recorded(data[field])
                version = Version(
                    name, data, identifier, seqs[name, identifier], hasattr(record, "erased")
                )
                told.live[name][version.key] = version
        told.turns = {row.turn: "?" for row in view.turns()}
        told.calls = {row.call: row.status for row in self.all_calls(told.id)}
        told.touched, told.contents, told.compactions = {}, {}, {}
        told.snapshots, told.evicted = {}, {}
        told.choices, told.superseded, told.prompts, told.begun = [], {}, {}, {}
        told.erased = told.resynced = True
        told.status = view.record.status
        self.seen[told.id] = view.head.seq
        for path, seqs_of in self._touches(told.id).items():
            told.touched[path] = seqs_of

    def _touches(self, session: str) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for commit in self.store.port.commits(session, limit=10_000):
            for op in commit.delta:
                record: Any = getattr(op, "record", None)
                if op.collection == "files" and commit.kind != "rewind" and hasattr(record, "path"):
                    seqs = found.setdefault(record.path, [])
                    if commit.seq not in seqs:
                        seqs.append(commit.seq)
        return found
