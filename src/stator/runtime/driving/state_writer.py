"""Writes typed records to a session: decisions, files, facts, plans and the like.

Each method appends one commit and returns its id.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from stator.errors import InvalidInput
from stator.model.log.commit import (
    Actor,
    Change,
    Draft,
    Provenance,
    Remove,
    Upsert,
)
from stator.model.records.types import (
    AppRecord,
    ArtifactRecord,
    DeadEndRecord,
    DecisionRecord,
    FactRecord,
    FileOp,
    FileRecord,
    Knowledge,
    PendingRecord,
    PlanRecord,
    PreferenceRecord,
    ScratchRecord,
    StepStatus,
    UseKind,
    WorkingRecord,
)
from stator.model.values import canon, paths
from stator.model.values.digest import sha256
from stator.model.window.reply import reported_usage
from stator.runtime.base.arguments import (
    mapping,
    text,
    texts,
    thousandths,
)
from stator.runtime.views.derivation import From, check_verified, named
from stator.runtime.views.refs import find_decision
from stator.store.port import StorePort

FROM_MODEL = Provenance("model", "unverified")


class StateWriter:
    """The typed records that a turn, a session and a contributor can all make.

    A subclass says how a commit is drafted (`_draft`) and where it goes (`_submit`, `_place`).
    """

    _root: str
    """The folder that paths of files are relative to."""

    def _submit(self, draft: Draft) -> str:
        raise NotImplementedError

    def _draft(self, kind: str, **fields: Any) -> Draft:
        raise NotImplementedError

    def _place(self) -> tuple[StorePort, str]:
        """The store and the session it writes to."""
        raise NotImplementedError

    def _record(
        self,
        kind: str,
        *changes: Change,
        provenance: Provenance = FROM_MODEL,
        from_: From = None,
        **fields: Any,
    ) -> str:
        if from_ is not None:
            fields |= self._made(from_)
        return self._submit(self._draft(kind, changes=changes, provenance=provenance, **fields))

    def _made(self, from_: From) -> dict[str, Any]:
        """What a commit is made from, if the program says so."""
        return {} if from_ is None else {"inputs": named(*self._place(), from_, self._reply_seq)}

    def _reply_seq(self, given: Any) -> int:
        """The seq of the entry that holds a response of the model; 0 if it is no recorded response."""
        return 0

    def _superseded(self, given: str) -> str:
        return find_decision(*self._place(), given) if given else ""

    def decide(
        self,
        what: str,
        *,
        topic: str = "",
        why: str = "",
        over: Sequence[str] = (),
        confidence: float | None = None,
        factors: Mapping[str, Any] | None = None,
        supersedes: str = "",
        from_: From = None,
    ) -> str:
        """Record a choice and its reason. One on the same `topic` supersedes the current one
        there.

        `confidence` is from 0 to 1. `supersedes` names another decision that this one replaces, by the id that
        `decide` returned for it, by the id of its record, or by a unique end of either. `from_` names what it
        was made from, here and in the other methods: commits, ids, positions, outcomes, responses. Without it,
        that is the last answer and what was shown since, or the call that it is recorded in.
        """
        record = DecisionRecord(
            what=text(what, "what"),
            topic=text(topic, "topic"),
            why=text(why, "why"),
            over=texts(over, "over"),
            confidence=per_mille(confidence),
            factors=mapping(factors, "factors"),
            supersedes=self._superseded(text(supersedes, "supersedes")),
        )
        return self._record("decision", Upsert("decisions", record), from_=from_)

    def file(
        self,
        path: str,
        op: FileOp,
        *,
        before: str = "",
        after: str = "",
        from_path: str = "",
        how: Knowledge = "recorded",
        reason: str = "",
        why: str = "",
        from_: From = None,
    ) -> str:
        """Record that a file was read, created, modified, deleted, renamed or skipped. Digests where they are known."""
        if op not in ("read", "created", "modified", "deleted", "renamed", "skipped"):
            raise InvalidInput(
                f"unknown file op {op!r:.40}",
                path="$.op",
                hint="read, created, modified, deleted, renamed or skipped",
            )
        root, relative = paths.split(text(path, "path"), self._root)
        record = FileRecord(
            path=relative,
            op=op,
            before=before,
            after=after,
            from_path=paths.split(text(from_path, "from_path"), self._root)[1] if from_path else "",
            how=how,
            reason=reason or (why if op == "skipped" else ""),
            root=root,
        )
        return self._record_file(record, why, self._made(from_))

    def _record_file(self, record: FileRecord, why: str, made: Mapping[str, Any]) -> str:
        """Record a reported file; a driver that keeps contents adds what is on disk."""
        plain = self._draft("file", **file_fields(record, why), **made)
        return self._submit(with_entry(plain, record))

    def fact(
        self,
        name: str,
        value: Any,
        *,
        verified: bool = False,
        why: str = "",
        from_: From = None,
    ) -> str:
        """Record a durable statement under a name.

        A fact cannot be `verified` while something it was made from came from the web, from a bundle or from a
        foreign store: `Unverified` names the way there. Say with `from_` what it really rests on.
        """
        record = FactRecord(name=text(name, "name"), value=value, verified=verified)
        trust = Provenance("model", "verified" if verified else "unverified")
        made = {"changes": (Upsert("facts", record),), "provenance": trust, "why": why}
        draft = self._draft("fact", **made, **self._made(from_))
        if verified:
            self._check_verified(draft)
        return self._submit(draft)

    def _check_verified(self, draft: Draft) -> None:
        """Raise `Unverified` if a draft was made from something that nobody vouches for."""
        check_verified(*self._place(), draft)

    def prefer(self, name: str, value: Any, *, why: str = "", from_: From = None) -> str:
        """Record how the user likes something done."""
        record = PreferenceRecord(name=text(name, "name"), value=value)
        return self._record("preference", Upsert("preferences", record), why=why, from_=from_)

    def dead_end(self, what: str, *, why: str = "", from_: From = None) -> str:
        """Record an approach that does not work, so that it is not tried again."""
        record = DeadEndRecord(what=text(what, "what"), why=text(why, "why"))
        return self._record("dead_end", Upsert("dead_ends", record), from_=from_)

    def plan(
        self,
        step: str | Sequence[str],
        status: StepStatus = "pending",
        *,
        detail: str = "",
        evidence: str = "",
        check: str = "",
        files: Sequence[str] = (),
        order: int = 0,
        why: str = "",
        from_: From = None,
    ) -> str:
        """Record a step of the plan and its status, or a list of steps, all with that status.

        `check` is a command. A step that is done reads *claimed* until its check has succeeded after the last change
        of its `files` (none named: of any file that the session changed).
        """
        about = [paths.split(path, self._root) for path in texts(files, "files")]
        steps = [step] if isinstance(step, str) else texts(step, "step")
        if status not in ("pending", "in_progress", "done", "blocked", "dropped"):
            raise InvalidInput(
                f"unknown status {status!r:.40}",
                path="$.status",
                hint="pending, in_progress, done, blocked or dropped",
            )
        records = [
            PlanRecord(
                step=text(name, "step"),
                status=status,
                detail=detail,
                evidence=evidence,
                check=text(check, "check"),
                files=[path for _, path in about],
                order=order if isinstance(step, str) or type(order) is not int else order + place,
            )
            for place, name in enumerate(steps, 1)
        ]
        changes = [Upsert("plan", record) for record in records]
        return self._record("plan", *changes, why=why, from_=from_)

    def artifact(
        self,
        name: str,
        content: Any,
        *,
        media_type: str = "text/plain",
        why: str = "",
        from_: From = None,
    ) -> str:
        """Record a new version of a named document."""
        data = canon.dumps(content, path="$.content")
        record = ArtifactRecord(
            name=text(name, "name"),
            digest=sha256(data).hexdigest(),
            size=len(data),
            media_type=media_type,
        )
        change = Upsert("artifacts", record)
        return self._record("artifact", change, input=content, why=why, from_=from_)


class TurnWriter(StateWriter):
    """The records that can only be made inside a turn."""

    _app_version: int

    def _heard(self, said: Any) -> None:
        """Take note of the settings that an answer shows."""
        raise NotImplementedError

    def say(
        self,
        said: Any,
        *,
        actor: Actor = "model",
        usage: Mapping[str, int] | None = None,
        why: str = "",
    ) -> str:
        """Record what the agent answered, and what that used: `tokens`, `money:usd` in millionths, any unit of your
        own, or what a provider reports, as it reports it."""
        if actor == "model":
            self._heard(said)
        used = reported_usage(mapping(usage, "usage"))
        return self._record("entry", output=said, actor=actor, why=why, usage=used or None)

    def pend(
        self,
        what: str,
        *,
        on: str = "",
        why: str = "",
        done: bool = False,
        from_: From = None,
    ) -> str:
        """Record something intended and not begun; `done=True` takes it off again."""
        name = text(what, "what")
        change: Change = (
            Remove("pending", name)
            if done
            else Upsert("pending", PendingRecord(what=name, on=on, why=why))
        )
        return self._record("pending", change, from_=from_)

    def use(self, kind: UseKind, name: str, *, detail: str = "") -> str:
        """Record a file, app or data source that is in play."""
        return self._record("use", Upsert("working_set", in_use(kind, name, detail)))

    def note(self, name: str, value: Any) -> str:
        """Keep a scratch value: compaction may take it, nothing else does."""
        record = ScratchRecord(name=text(name, "name"), value=value)
        return self._record("scratch", Upsert("scratch", record))

    def set(self, /, **fields: Any) -> str:
        """Set fields of the session's own typed state."""
        if not fields:
            raise InvalidInput("nothing to set", hint="t.set(counter=3)")
        changes = [
            Upsert("app", AppRecord(name=name, value=value, version=self._app_version))
            for name, value in fields.items()
        ]
        return self._record("app", *changes)


def file_fields(record: FileRecord, why: str) -> dict[str, Any]:
    """The fields of the commit that reports a file, without the file's contents."""
    return {"changes": (Upsert("files", record),), "provenance": FROM_MODEL, "why": why}


def with_entry(draft: Draft, record: FileRecord) -> Draft:
    """The report of a file with its entry in the working set."""
    return msgspec.structs.replace(draft, changes=(*draft.changes, *in_play(record)))


def in_use(kind: UseKind, name: str, detail: str) -> WorkingRecord:
    """The entry of the working set for something that is in play."""
    if kind not in ("file", "app", "data"):
        raise InvalidInput(f"unknown kind {kind!r:.40}", path="$.kind", hint="file, app or data")
    return WorkingRecord(kind=kind, name=text(name, "name"), detail=text(detail, "detail"))


def in_play(record: FileRecord) -> tuple[Change, ...]:
    """The entry of a file in the working set. What an agent did not name is not what it works on: a build may
    write a thousand files."""
    if record.op in ("skipped", "deleted") or record.how == "observed":
        return ()
    return (Upsert("working_set", WorkingRecord(name=record.path, kind="file")),)


def per_mille(confidence: float | None) -> int | None:
    """Confidence from 0 to 1 as the whole per-mille that is recorded."""
    if confidence is None:
        return None
    recorded = thousandths(confidence, "confidence")
    if not 0 <= confidence <= 1:
        raise InvalidInput(
            f"confidence must be from 0 to 1, got {confidence!r:.40}", path="$.confidence"
        )
    return recorded
