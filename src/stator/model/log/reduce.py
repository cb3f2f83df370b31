"""The reducer: computes the delta of a draft from the state before it.

Pure and run once per commit, at append. Most changes put a record under its key; the few kinds with more to
do (calls, decisions, artifacts, lifecycle) have a function of their own
here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, cast, get_args

import msgspec

from stator.errors import BadDelta, InvalidInput
from stator.model.log.commit import Change, Draft, Erase, Purge, Remove, Reset, Upsert
from stator.model.log.delta import Delta, Drop, Put
from stator.model.records.tables import (
    COLLECTIONS,
    COMPACTIBLE,
    DROPPED_BY_FORK,
    KEPT_IN_REWIND,
    KINDS,
    key_of,
)
from stator.model.records.types import (
    KEY_MAX,
    KEYLESS,
    ArtifactRecord,
    CallRecord,
    CallStatus,
    DecisionRecord,
    Effect,
    Entry,
    FileRecord,
    PlanRecord,
    Record,
    RevisionRecord,
    SessionRecord,
    SpendRecord,
    ToolRecord,
    WorkingRecord,
    file_key,
    to_settle,
)
from stator.model.sessions.lifecycle import (
    TRANSITIONS,
    check_budget,
    check_transition,
    is_witnessed,
)
from stator.model.sessions.retention import check_retention
from stator.model.values.ids import record_id, retype


class StateView(Protocol):
    """The state just before the commit, as far as the reducer looks at it."""

    def find(self, collection: str, key: str) -> Entry | None:
        """The live record that answers to `key`."""
        ...

    def all(self, collection: str) -> Sequence[Entry]:
        """Every live record of a (small) collection."""
        ...


Standing = tuple[str, int, Record]
"""(id, was, record) of the live record under a key."""


class Made:
    """Ops made so far for one draft; later changes of the same draft see earlier ones."""

    __slots__ = ("_minted", "_touched", "commit", "keys", "ops", "view")

    def __init__(self, commit: str, view: StateView) -> None:
        self.commit = commit
        self.view = view
        self.ops: Delta = []
        self.keys: list[str] = []
        self._minted = 0
        self._touched: dict[tuple[str, str], Standing | None] = {}

    def find(self, collection: str, key: str) -> Standing | None:
        """The live record under `key`."""
        if self._touched and (collection, key) in self._touched:
            return self._touched[collection, key]
        entry = self.view.find(collection, key)
        return None if entry is None else (entry.id, entry.seq, entry.record)

    def key_of_id(self, collection: str, identifier: str) -> str:
        """The key of the live record with that id; it is an error if there is none."""
        for (name, key), standing in self._touched.items():
            if name == collection and standing is not None and standing[0] == identifier:
                return key
        for entry in self.view.all(collection):
            if entry.id == identifier and (collection, entry.key) not in self._touched:
                return entry.key
        raise BadDelta(
            f"no {collection} record with id {identifier!r:.80} is in force",
            path=f"$.{collection}",
            hint="it was never recorded, or was superseded already: stator decisions",
        )

    def put(self, collection: str, record: Record, key: str) -> None:
        """Put the record under its key, with the id of the live record there, or a new id."""
        self.put_over(self.find(collection, key), collection, record, key)

    def put_over(
        self, standing: Standing | None, collection: str, record: Record, key: str | None
    ) -> None:
        """The same where the live record is known; without a key the record is known by its id."""
        if key is not None and len(key) > KEY_MAX:
            raise InvalidInput(
                f"a {collection} key has at most {KEY_MAX} characters, got {len(key)}",
                path=f"$.{collection}",
            )
        identifier, was, _ = standing or (self.mint(), 0, record)
        if key is None:
            key = KEYLESS + identifier
        self.ops.append(Put(collection, identifier, record, was))
        self.keys.append(key)
        self._touched[collection, key] = (identifier, was, record)

    def drop(self, collection: str, key: str) -> str:
        """Remove the record under `key`; it is an error if there is none."""
        return self.drop_standing(self.find(collection, key), collection, key)

    def drop_standing(self, standing: Standing | None, collection: str, key: str) -> str:
        """The same where the live record is known."""
        if standing is None:
            raise BadDelta(
                f"no {collection} record {key!r:.80} to remove",
                path=f"$.{collection}",
                hint="it was never recorded, or is gone already",
            )
        self.ops.append(Drop(collection, standing[0], standing[1]))
        self.keys.append(key)
        self._touched[collection, key] = None
        return standing[0]

    def mint(self) -> str:
        """The id of the next record that the commit creates."""
        self._minted += 1
        return record_id(self.commit, self._minted - 1)


def reduce(draft: Draft, view: StateView) -> tuple[Delta, list[str]]:
    """The delta of a draft in that state, and the key of each op's record."""
    if draft.kind not in KINDS:
        raise InvalidInput(f"unknown kind of commit {draft.kind!r:.40}", path="$.kind")
    special = _SPECIAL.get(draft.kind)
    if special is None and not draft.changes and not draft.usage:
        return [], []
    made = Made(draft.id, view)
    if special is not None:
        special(draft, made)
    else:
        for change in draft.changes:
            _change(change, made)
    if draft.kind in TRANSITIONS:
        _lifecycle(draft, made)
    if draft.usage:
        _spend(draft.usage, made)
    return made.ops, made.keys


def _change(change: Change, made: Made) -> None:
    if isinstance(change, Upsert):
        collection = COLLECTIONS[change.collection]
        if not isinstance(change.record, collection.type):
            raise InvalidInput(
                f"{type(change.record).__name__} is not a record of {change.collection}",
                path=f"$.{change.collection}",
            )
        merge = _MERGE.get(change.collection)
        if merge is None:
            made.put(change.collection, change.record, key_of(collection, change.record, ""))
        else:
            merge(change.record, made)
    elif isinstance(change, Remove):
        made.drop(change.collection, change.key)
    else:
        said = {Erase: "only an erasure erases", Reset: "only a rewind resets"}
        words = said.get(type(change), "only a project's session purges")
        raise InvalidInput(words, path="$.changes")


def _call(draft: Draft, made: Made) -> None:
    status = _CALL_STATUSES.get(draft.status)
    if status is None:
        raise InvalidInput(
            f"a call cannot have the status {draft.status!r:.40}",
            path="$.status",
            hint=", ".join(get_args(CallStatus)),
        )
    record = CallRecord(
        call=draft.call,
        tool=draft.tool,
        attempt=draft.attempt or 1,
        effect=_effect(draft),
        since=draft.happened,
        status=status,
    )
    # Under an id that this commit made nothing can stand, so nobody need look.
    fresh = draft.call == retype(draft.id, "call")
    standing = None if fresh else made.find("calls", draft.call)
    made.put_over(standing, "calls", record, draft.call)
    for change in draft.changes:
        _change(change, made)


def _outcome(draft: Draft, made: Made) -> None:
    """An outcome closes its call and counts in its tool; an unknown one leaves the call in doubt. What another program
    reports may come after a person has settled the call: it is recorded, and the call stays closed."""
    standing = made.find("calls", draft.call)
    if standing is None and draft.origin is None:
        raise BadDelta(
            f"no open call {draft.call}: an outcome needs its intent, and only one may settle it",
            path="$.call",
            call=draft.call,
        )
    if standing is None:
        pass
    elif draft.status == "in doubt":
        record = _known_call(standing[2], draft)
        doubt = msgspec.structs.replace(record, status="in doubt", cause=draft.cause)
        made.put_over(standing, "calls", doubt, draft.call)
    else:
        made.drop_standing(standing, "calls", draft.call)
    _count_use(draft, made)
    for change in draft.changes:
        _change(change, made)


def _known_call(record: Record, draft: Draft) -> CallRecord:
    """The call a commit is about, also where its record was erased."""
    if isinstance(record, CallRecord):
        return record
    attempt = draft.attempt or 1
    return CallRecord(call=draft.call, tool=draft.tool, attempt=attempt, effect=_effect(draft))


def _effect(draft: Draft) -> Effect:
    """What a call does. One of another name could be written, and never be read again."""
    effect = _EFFECTS.get(draft.effect)
    if effect is None:
        raise InvalidInput(
            f"a call cannot have the effect {draft.effect!r:.40}",
            path="$.effect",
            hint=", ".join(get_args(Effect)),
        )
    return effect


def _count_use(draft: Draft, made: Made) -> None:
    standing = made.find("tools", draft.tool)
    known = standing[2] if standing else None
    tool = known if isinstance(known, ToolRecord) else ToolRecord(name=draft.tool)
    failed = draft.status != "ok"
    counted = msgspec.structs.replace(
        tool, uses=tool.uses + 1, failures=tool.failures + failed, last=draft.status
    )
    made.put_over(standing, "tools", counted, draft.tool)


def _turn_end(draft: Draft, made: Made) -> None:
    """An end says how the turn ended: the index of turns knows an open turn by its empty status."""
    for change in draft.changes:
        _change(change, made)
    if not draft.status:
        what, hint = "a turn cannot end without a status", '"ok", or what went wrong'
        raise InvalidInput(what, path="$.status", hint=hint)


def _settlement(draft: Draft, made: Made) -> None:
    """A call in doubt is settled, and its pending item is removed. So is a call reported by another program
    that was given up without a result and is no longer open."""
    if draft.origin is None or made.find("calls", draft.call) is not None:
        made.drop("calls", draft.call)
    if made.find("pending", to_settle(draft.call)) is not None:
        made.drop("pending", to_settle(draft.call))
    for change in draft.changes:
        _change(change, made)


def _approval(draft: Draft, made: Made) -> None:
    """An answer is kept in the state; the driver's own commit records that the approved call has started."""
    for change in draft.changes:
        _change(change, made)
    if draft.status == "started":
        standing = made.find("calls", draft.call)
        if standing is None:
            raise BadDelta(f"no call {draft.call} waits for approval", path="$.call")
        record = _known_call(standing[2], draft)
        made.put("calls", msgspec.structs.replace(record, status="started"), draft.call)


def _tool(tool: ToolRecord, made: Made) -> None:
    """A tool's definition may change; how often it was used stays."""
    standing = made.find("tools", tool.name)
    if standing is not None and isinstance(known := standing[2], ToolRecord):
        tool = msgspec.structs.replace(
            tool, uses=known.uses, failures=known.failures, last=known.last
        )
    made.put_over(standing, "tools", tool, tool.name)


def _decision(decision: DecisionRecord, made: Made) -> None:
    """A decision supersedes the live one on its topic, and the one it names; both leave the state.

    It gets an id of its own instead of being a new version of an old one: both stay citable, and `supersedes`
    leads from one to the other.
    """
    named, topic = decision.supersedes, decision.topic
    standing = made.find("decisions", topic) if topic else None
    if standing is not None:
        old = made.drop_standing(standing, "decisions", topic)
        decision = msgspec.structs.replace(decision, supersedes=named or old)
    if named and (standing is None or standing[0] != named):
        made.drop("decisions", made.key_of_id("decisions", named))
    made.put_over(None, "decisions", decision, topic or None)


def _file(file: FileRecord, made: Made) -> None:
    """A file keeps its id over its life; a rename leaves the old path deleted, recorded before or not."""
    key = file_key(file.root, file.path)
    source = file_key(file.root, file.from_path) if file.from_path else ""
    if source == key:
        source = ""
    standing = made.find("files", source or key)
    if standing is not None:
        known = standing[2]
        # The record may have been erased; an ErasedRecord has none of these fields.
        known_after: str = getattr(known, "after", "")
        if not file.before and known_after:
            file = msgspec.structs.replace(file, before=known_after)
        if file.op == "read" and not file.after and known_after:
            file = msgspec.structs.replace(file, after=known_after)
        file = _with_kept(file, known)
    if not source:
        made.put_over(standing, "files", file, key)
        return
    there = made.find("files", key) or (made.mint(), 0, file)
    made.put_over(standing, "files", _left_behind(file, standing and standing[2]), source)
    made.put_over(there, "files", file, key)


def _left_behind(file: FileRecord, known: Record | None) -> FileRecord:
    """The old path of a renamed file, as far as its record says more than the rename itself."""
    if not isinstance(known, FileRecord):
        return FileRecord(
            path=file.from_path,
            op="deleted",
            before=file.before,
            before_in=file.before_in,
            how=file.how,
            root=file.root,
        )
    return msgspec.structs.replace(
        known, op="deleted", before=known.after, before_in=known.after_in,
        after="", after_in="", patch_in="",
    )  # fmt: skip


def _with_kept(file: FileRecord, known: Record) -> FileRecord:
    """Content that was kept once need not be kept again: the same digest, the same commit."""
    kept = {
        digest: commit
        for digest, commit in (
            (getattr(known, "before", ""), getattr(known, "before_in", "")),
            (getattr(known, "after", ""), getattr(known, "after_in", "")),
        )
        if digest and commit
    }
    before_in = file.before_in or kept.get(file.before, "")
    after_in = file.after_in or kept.get(file.after, "")
    if (before_in, after_in) == (file.before_in, file.after_in):
        return file
    return msgspec.structs.replace(file, before_in=before_in, after_in=after_in)


def _artifact(artifact: ArtifactRecord, made: Made) -> None:
    standing = made.find("artifacts", artifact.name)
    version = getattr(standing[2], "version", 0) + 1 if standing else 1
    artifact = msgspec.structs.replace(artifact, version=version, commit=made.commit)
    made.put_over(standing, "artifacts", artifact, artifact.name)


def _plan(step: PlanRecord, made: Made) -> None:
    """A step whose status moves keeps its place, its detail and evidence, its check and files."""
    standing = made.find("plan", step.step)
    if standing is not None and isinstance(known := standing[2], PlanRecord):
        step = msgspec.structs.replace(
            step,
            order=step.order or known.order,
            detail=step.detail or known.detail,
            evidence=step.evidence or known.evidence,
            check=step.check or known.check,
            files=step.files or known.files,
        )
    made.put_over(standing, "plan", step, step.step)


def _use(use: WorkingRecord, made: Made) -> None:
    """Another use of the same thing is counted; what was known of it stays known."""
    key = f"{use.kind}\n{use.name}"
    standing = made.find("working_set", key)
    uses, detail = 1, use.detail
    if standing is not None:
        uses = getattr(standing[2], "uses", 0) + 1
        detail = detail or getattr(standing[2], "detail", "")
    whole = msgspec.structs.replace(use, uses=uses, detail=detail)
    made.put_over(standing, "working_set", whole, key)


def _revision(revision: RevisionRecord, made: Made) -> None:
    """What becomes known of a revision later (that it was pushed, or amended) is added to what is known."""
    standing = made.find("revisions", revision.sha)
    if standing is not None and isinstance(known := standing[2], RevisionRecord):
        given = {
            name: value
            for name in ("branch", "files", "pushed", "replaced", "subject")
            if (value := getattr(revision, name))
        }
        revision = msgspec.structs.replace(known, **given)
    made.put_over(standing, "revisions", revision, revision.sha)


def _fork(draft: Draft, made: Made) -> None:
    """A fork starts without its parent's approvals, budget and spend; its open calls are elsewhere."""
    for change in draft.changes:
        _change(change, made)
    for collection in DROPPED_BY_FORK:
        for entry in made.view.all(collection):
            made.drop_standing(_standing(entry), collection, entry.key)
    for entry in made.view.all("calls"):
        if isinstance(entry.record, CallRecord):
            # The parent's driver may be running it at this moment; its outcome will be recorded there.
            call = msgspec.structs.replace(entry.record, elsewhere=True)
            made.put_over(_standing(entry), "calls", call, entry.key)
        else:  # erased: nobody can answer for it any more
            made.drop_standing(_standing(entry), "calls", entry.key)


def _standing(entry: Entry) -> Standing:
    return entry.id, entry.seq, entry.record


def _budget(draft: Draft, made: Made) -> None:
    """Only the limits are taken."""
    known, wanted = _session_wish(draft, made, "a budget brings a session's limits")
    limits = check_budget(wanted.budget)
    made.put("session", msgspec.structs.replace(known, budget=limits), "")


def _retention(draft: Draft, made: Made) -> None:
    """Only the policies are taken."""
    known, wanted = _session_wish(draft, made, "a retention brings a project's policies")
    policies = check_retention(wanted.retention)
    made.put("session", msgspec.structs.replace(known, retention=policies), "")


def _lifecycle(draft: Draft, made: Made) -> None:
    standing = made.find("session", "")
    if standing is None:
        raise BadDelta(f"{draft.kind} before the session was opened", path="$.kind")
    record = cast("SessionRecord", standing[2])
    seen = is_witnessed(record.mode, draft.origin, draft.epoch)
    status = check_transition(draft.kind, record.status, record.id, witnessed=seen)
    # None: a witness reports after the session was closed that its agent began or ended
    if status is not None and (status != record.status or draft.cause != record.reason):
        made.put("session", msgspec.structs.replace(record, status=status, reason=draft.cause), "")
    for change in draft.changes:
        _change(change, made)


def _spend(usage: dict[str, int], made: Made) -> None:
    for unit, amount in usage.items():
        if type(amount) is not int or amount < 0:
            raise InvalidInput("usage must be in whole units", path=f"$.usage.{unit}")
        standing = made.find("spend", unit)
        spent = getattr(standing[2], "amount", 0) if standing else 0
        made.put("spend", SpendRecord(unit=unit, amount=spent + amount), unit)


def _erasure(draft: Draft, made: Made) -> None:
    """The store carries an erasure out; it changes no state by itself."""
    if not draft.changes or not all(isinstance(change, Erase) for change in draft.changes):
        raise InvalidInput("an erasure may contain only what to erase", path="$.changes")


def _rewind(draft: Draft, made: Made) -> None:
    """Records are restored as they were, under their own ids, without merging."""
    for change in draft.changes:
        if not isinstance(change, Reset):
            raise InvalidInput("a rewind may only reset records", path="$.changes")
        if change.collection in KEPT_IN_REWIND:
            raise InvalidInput(f"a rewind cannot reset {change.collection}", path="$.changes")
        _reset(change, made)


def _carry(draft: Draft, made: Made) -> None:
    """What a session takes over from another one, as it was recorded there, under ids of its own."""
    for change in draft.changes:
        if not isinstance(change, Reset) or change.record is None:
            raise InvalidInput("records are taken over as they were recorded", path="$.changes")
        key = key_of(COLLECTIONS[change.collection], change.record, "")
        if key == KEYLESS:
            made.put_over(None, change.collection, change.record, None)
        else:
            made.put(change.collection, change.record, key)


def _compaction(draft: Draft, made: Made) -> None:
    """Undoing one puts back the records that it dropped, each as it was recorded."""
    for change in draft.changes:
        if isinstance(change, Reset) and change.collection in COMPACTIBLE and change.record:
            _reset(change, made)
        else:
            _change(change, made)


def _reset(change: Reset, made: Made) -> None:
    standing = made.find(change.collection, change.key)
    if change.record is None:
        made.drop_standing(standing, change.collection, change.key)
    else:
        # `was` is the version before of the same record. If another record has the key by now, there is none.
        if standing is None or standing[0] != change.id:
            # A record whose newest version was erased is in force without its key.
            standing = made.find(change.collection, KEYLESS + change.id)
        was = standing[1] if standing is not None else 0
        found = (change.id, was, change.record)
        made.put_over(found, change.collection, change.record, change.key)


def _purge(draft: Draft, made: Made) -> None:
    """A project's own session says which sessions are gone; the store carries that out."""
    standing = made.find("session", "")
    if standing is None or getattr(standing[2], "mode", "") != "project":
        raise InvalidInput("only a project's own session can purge others", path="$.kind")
    for change in draft.changes:
        if not isinstance(change, Purge):
            _change(change, made)


def _adopt(draft: Draft, made: Made) -> None:
    """Only the adopted session is taken."""
    known, wanted = _session_wish(draft, made, "an adoption must name the session that continues")
    made.put("session", msgspec.structs.replace(known, adopted=wanted.adopted), "")


def _session_wish(draft: Draft, made: Made, what: str) -> tuple[SessionRecord, SessionRecord]:
    """The session's record as it is and as a draft wants it: the draft's author may not know its other fields."""
    standing = made.find("session", "")
    wanted = [
        c.record for c in draft.changes if isinstance(c, Upsert) and c.collection == "session"
    ]
    if standing is None or len(draft.changes) != 1 or len(wanted) != 1:
        raise InvalidInput(f"{what}, and nothing else", path="$.changes")
    return cast("SessionRecord", standing[2]), cast("SessionRecord", wanted[0])


def _nothing(draft: Draft, made: Made) -> None:
    """Lifecycle kinds apply their changes after the transition, in `_lifecycle`."""


_CALL_STATUSES: Mapping[str, CallStatus] = {
    "": "started",
    **{status: status for status in get_args(CallStatus)},
}
_EFFECTS: Mapping[str, Effect] = {"": "write", **{effect: effect for effect in get_args(Effect)}}
_SPECIAL: dict[str, Callable[[Draft, Made], None]] = {
    "call": _call,
    "outcome": _outcome,
    "turn_end": _turn_end,
    "settlement": _settlement,
    "approval": _approval,
    "budget": _budget,
    "retention": _retention,
    "fork": _fork,
    "erasure": _erasure,
    "rewind": _rewind,
    "compaction": _compaction,
    "carry": _carry,
    "purge": _purge,
    "adopt": _adopt,
    **dict.fromkeys(TRANSITIONS, _nothing),
}
_MERGE: dict[str, Callable[[Any, Made], None]] = {
    "decisions": _decision,
    "files": _file,
    "artifacts": _artifact,
    "plan": _plan,
    "working_set": _use,
    "revisions": _revision,
    "tools": _tool,
}
