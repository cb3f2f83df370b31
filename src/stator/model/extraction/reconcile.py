"""Compares what the rules find in a log with what the log has of it, and gives the drafts that are missing. Pure.

A finding belongs right after its evidence. In a log that lacks it, it can only be appended at the end. So a value that
something later in the log has changed is left alone: the state becomes the one that the log would have if the rules
had been there from the beginning. With `again`, that also holds for findings of earlier versions of the rules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal

import msgspec

from stator.model.exchange.extraction_state import ExtractionState
from stator.model.extraction.evidence import (
    Evidence,
    ExtractionRule,
    RuleFinding,
    draft_of,
    origin_parts,
    removal_of,
    seen_commit,
)
from stator.model.extraction.extractor import RULES, Extractor
from stator.model.log.clean_record import untagged
from stator.model.log.commit import Change, Commit, Draft, Gone, Remove, Upsert
from stator.model.log.delta import Put
from stator.model.records.registry import ROWS
from stator.model.records.tables import COLLECTIONS, KEPT_IN_REWIND, key_of
from stator.model.records.types import ErasedRecord, Record, RevisionRecord, WorkingRecord

MERGED = ("revisions", "working_set")
"""Collections in which a record adds to the one before it, so that their order does not matter."""
NOT_COMPARED = {"supersedes": "", "uses": 1, "commit": "", "version": 1}
"""Fields that say how a record came about, and not what it says."""

COLLECTION_OF = {row.name: row.collection.name for row in ROWS if row.collection is not None}
"""The collection of the records that a kind of commit is about."""

Key = tuple[str, str]
"""A collection and a key of it."""
What = Literal["added", "corrected", "removed"]


class Lacking(msgspec.Struct, frozen=True):
    """A draft that a log lacks, and what it does."""

    rule: str
    what: What
    draft: Draft


class _Touch(msgspec.Struct, frozen=True):
    """A record that was put under a key, or removed (None). `place` is where it belongs in the log."""

    place: tuple[int, int]
    record: Record | None
    rule: str = ""
    evidence: str = ""


class _Wanted(msgspec.Struct, frozen=True):
    finding: RuleFinding
    evidence: Evidence
    seq: int


class _Recorded(msgspec.Struct, frozen=True):
    """What the log has of a rule's findings in a commit: its last version, and whether it can be judged."""

    version: int
    kind: str
    seq: int
    keys: tuple[Key, ...]
    is_whole: bool


class LogExtraction:
    """Walks the log of one session, and says what it lacks."""

    def __init__(
        self,
        session: str,
        *,
        rules: Sequence[ExtractionRule] = RULES,
        in_force: Callable[[int], bool] = lambda seq: True,
    ) -> None:
        self._session = session
        self._versions = {rule.name: rule.version for rule in rules}
        self._order = {rule.name: place for place, rule in enumerate(rules)}
        self._extractor = Extractor(session, ExtractionState(), rules)
        self._in_force = in_force
        self._wanted: dict[tuple[str, str], _Wanted] = {}
        self._recorded: dict[tuple[str, str], _Recorded] = {}
        self._touches: dict[Key, list[_Touch]] = {}
        self._live: dict[Key, Record] = {}
        self._keys: dict[tuple[str, str], Key] = {}
        self._seqs: dict[str, int] = {}
        self._gone: set[int] = set()
        self._made = {COLLECTION_OF[rule.kind] for rule in (*RULES, *rules)}

    def see(self, commit: Commit) -> None:
        """Take the next commit of the log."""
        self._seqs[commit.id] = commit.seq
        if any(isinstance(item, Gone) for item in commit.content.values()):
            self._gone.add(commit.seq)
        parts = origin_parts(commit.origin)
        if parts is not None:
            self._finding(commit, *parts)
            return
        self._touch(commit, (commit.seq, 0))
        one = seen_commit(commit)
        for finding in self._extractor.see(one):
            kept = COLLECTION_OF[finding.kind] in KEPT_IN_REWIND or self._in_force(commit.seq)
            if commit.session == self._session and kept:
                self._wanted[finding.rule, one.id] = _Wanted(finding, one, commit.seq)

    def steps(self, *, again: bool = False) -> Iterator[Lacking]:
        """What the log lacks, in the order of the evidence. With `again`, also what earlier versions of the rules
        found and these do not."""
        changed = set(self._changed()) if again else set()
        names = {*self._wanted, *changed}
        for name in sorted(names, key=self._place):
            if name not in self._recorded:
                yield from self._missing(self._wanted[name])
            elif name in changed:
                yield from self._corrected(name)

    def _place(self, name: tuple[str, str]) -> tuple[int, int, str]:
        rule, evidence = name
        return self._seqs.get(evidence, 0), self._order.get(rule, -1), rule

    # -- walking ----------------------------------------------------------------------------------

    def _finding(self, commit: Commit, rule: str, version: int, evidence: str) -> None:
        keys = self._touch(commit, (self._seqs.get(evidence, commit.seq), 1), rule, evidence)
        known = self._recorded.get((rule, evidence))
        sources = [abs(one) for one in commit.inputs if isinstance(one, int)]
        self._recorded[rule, evidence] = _Recorded(
            version=version,
            kind=commit.kind,
            seq=commit.seq,
            keys=tuple(dict.fromkeys((*(known.keys if known else ()), *keys))),
            is_whole=commit.session == self._session and not self._gone.intersection(sources),
        )

    def _touch(
        self, commit: Commit, place: tuple[int, int], rule: str = "", evidence: str = ""
    ) -> list[Key]:
        """Note what a commit does to the records that rules make."""
        keys = []
        for op in commit.delta:
            if op.collection not in self._made:
                continue
            named = op.collection, op.id
            record = op.record if isinstance(op, Put) else None
            if record is not None and not isinstance(record, ErasedRecord):
                self._keys[named] = (
                    op.collection,
                    key_of(COLLECTIONS[op.collection], record, op.id),
                )
            key = self._keys.get(named)
            if key is None:
                continue
            keys.append(key)
            # A decision takes the one before it out of the state: what it puts is what counts.
            self._touches.setdefault(key, []).append(_Touch(place, record, rule, evidence))
            if record is None:
                self._live.pop(key, None)
            else:
                self._live[key] = record
        return keys

    # -- what is missing --------------------------------------------------------------------------

    def _missing(self, wanted: _Wanted) -> Iterator[Lacking]:
        place = wanted.seq, 1
        changes = tuple(
            change
            for change in wanted.finding.changes
            if isinstance(change, Upsert)
            and (change.collection in MERGED or not self._is_overtaken(_key(change), place))
        )
        for change in changes:
            put = _Touch(place, change.record, wanted.finding.rule, wanted.evidence.id)
            after = _merged(self._live.get(_key(change)), put)
            if after is not None:
                self._live[_key(change)] = after
        if changes:
            finding = msgspec.structs.replace(wanted.finding, changes=changes)
            draft = draft_of(self._session, wanted.evidence, finding)
            yield Lacking(finding.rule, "added", draft)

    def _is_overtaken(self, key: Key, place: tuple[int, int]) -> bool:
        return any(touch.place > place for touch in self._touches.get(key, ()))

    # -- what earlier versions found --------------------------------------------------------------

    def _changed(self) -> Iterator[tuple[str, str]]:
        """Findings that this version of their rule does not give, or gives in another form."""
        for name, recorded in self._recorded.items():
            wanted = self._wanted.get(name)
            if not recorded.is_whole or (wanted is None and not recorded.keys):
                continue
            if wanted is None or wanted.finding.version != recorded.version:
                yield name

    def _corrected(self, name: tuple[str, str]) -> Iterator[Lacking]:
        rule, evidence = name
        recorded, wanted = self._recorded[name], self._wanted.get(name)
        ours = wanted.finding.changes if wanted is not None else ()
        keys = dict.fromkeys((*recorded.keys, *(_key(one) for one in ours if _is_put(one))))
        changes: list[Change] = []
        for key in keys:
            changes += self._set(key, self._desired(key), own=key in [_key(c) for c in ours])
        if not changes:
            return
        if wanted is not None:
            finding = msgspec.structs.replace(wanted.finding, changes=tuple(changes))
            yield Lacking(rule, "corrected", draft_of(self._session, wanted.evidence, finding))
        else:
            yield Lacking(
                rule,
                "removed",
                removal_of(
                    self._session,
                    evidence,
                    rule,
                    self._versions.get(rule, recorded.version),
                    recorded.kind,
                    tuple(changes),
                ),
            )

    def _set(self, key: Key, wanted: Record | None, *, own: bool) -> Iterator[Change]:
        """What makes the record under a key the wanted one, if it is another."""
        live = self._live.get(key)
        if _plain(live) == _plain(wanted) or isinstance(live, ErasedRecord):
            return
        if key[0] == "artifacts" and wanted is not None and not own:
            return  # its content is in the commit that made it
        if live is not None:
            del self._live[key]
            yield Remove(*key)
        if wanted is not None:
            self._live[key] = wanted
            yield Upsert(key[0], untagged(wanted))

    def _desired(self, key: Key) -> Record | None:
        """The record that a key would have if the rules had been these from the beginning."""
        touches = [
            touch
            for touch in self._touches.get(key, ())
            if not touch.rule or not self._is_replaced(touch)
        ]
        for wanted in self._wanted.values():
            name = wanted.finding.rule, wanted.evidence.id
            recorded = self._recorded.get(name)
            if recorded is not None and recorded.version == wanted.finding.version:
                continue
            touches += [
                _Touch((wanted.seq, 1), change.record, wanted.finding.rule, wanted.evidence.id)
                for change in wanted.finding.changes
                if isinstance(change, Upsert) and _key(change) == key
            ]
        record: Record | None = None
        for touch in sorted(touches, key=lambda one: one.place):
            record = _merged(record, touch)
        return record

    def _is_replaced(self, touch: _Touch) -> bool:
        recorded = self._recorded[touch.rule, touch.evidence]
        if not recorded.is_whole:
            return False
        wanted = self._wanted.get((touch.rule, touch.evidence))
        return wanted is None or wanted.finding.version != recorded.version


def _merged(before: Record | None, touch: _Touch) -> Record | None:
    """A record after another one was put under its key, as the reducer does it."""
    record = touch.record
    if isinstance(record, WorkingRecord) and isinstance(before, WorkingRecord):
        return msgspec.structs.replace(record, detail=record.detail or before.detail)
    if isinstance(record, RevisionRecord) and isinstance(before, RevisionRecord) and touch.rule:
        given = {
            name: value
            for name in ("branch", "files", "pushed", "replaced", "subject")
            if (value := getattr(record, name))
        }
        return msgspec.structs.replace(before, **given)
    return record


def _plain(record: Record | None) -> dict[str, Any] | None:
    """A record as it is compared: what it says."""
    if record is None:
        return None
    said: dict[str, Any] = msgspec.to_builtins(record)
    return {name: value for name, value in said.items() if name not in NOT_COMPARED}


def _is_put(change: Change) -> bool:
    return isinstance(change, Upsert)


def _key(change: Change) -> Key:
    assert isinstance(change, Upsert)  # rules only put records
    return change.collection, key_of(COLLECTIONS[change.collection], change.record, "")
