"""A turn: one prompt-to-idle cycle, and everything an agent may record in it.

Each method appends one typed commit and returns its id. Inside `with t.batch():` they are collected
and appended together, in one transaction.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextvars import Token
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Literal

from msgspec import UNSET

from stator.errors import BadTurn, Diverged, InvalidInput
from stator.model.calls import known
from stator.model.calls.known import Known
from stator.model.calls.life import (
    Answer,
    Asked,
    EffectOf,
    Outcome,
)
from stator.model.log.commit import (
    Actor,
    Change,
    Commit,
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
from stator.model.window.reply import Reply, requests, usage_of
from stator.runtime.base.arguments import (
    cause,
    mapping,
    text,
    texts,
    thousandths,
)
from stator.runtime.driving.call import Calling
from stator.runtime.driving.loop import Loop
from stator.runtime.driving.tools import Tool, current_turn
from stator.runtime.files.capture import record_kept

if TYPE_CHECKING:
    from stator.runtime.facade.session import Session

FROM_MODEL = Provenance("model", "unverified")
FROM_USER = Provenance("user", "verified")


class Recorder:
    """The typed commits a driver or a contributor can make. What is appended, and how, is up to `_submit`."""

    _root: str
    _app_version: int

    def _submit(self, draft: Draft) -> str:
        raise NotImplementedError

    def _draft(self, kind: str, **fields: Any) -> Draft:
        raise NotImplementedError

    def _record(
        self, kind: str, *changes: Change, provenance: Provenance = FROM_MODEL, **fields: Any
    ) -> str:
        return self._submit(self._draft(kind, changes=changes, provenance=provenance, **fields))

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
    ) -> str:
        """Record a choice and its reason. One on the same `topic` supersedes the one that stands
        there.

        `confidence` is from 0 to 1. `supersedes` names the id of a decision that has no topic.
        """
        record = DecisionRecord(
            what=text(what, "what"),
            topic=text(topic, "topic"),
            why=text(why, "why"),
            over=texts(over, "over"),
            confidence=per_mille(confidence),
            factors=canon.to_plain(mapping(factors, "factors"), path="$.factors"),
            supersedes=text(supersedes, "supersedes"),
        )
        return self._record("decision", Upsert("decisions", record))

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
            reason=reason,
            root=root,
        )
        return self._record_file(record, why)

    def _record_file(self, record: FileRecord, why: str) -> str:
        """A file that somebody reports; a driver that keeps contents adds what is on disk."""
        return self._record("file", Upsert("files", record), why=why)

    def fact(self, name: str, value: Any, *, verified: bool = False, why: str = "") -> str:
        """Record a durable statement under a name."""
        record = FactRecord(name=text(name, "name"), value=value, verified=verified)
        trust = Provenance("model", "verified" if verified else "unverified")
        return self._record("fact", Upsert("facts", record), why=why, provenance=trust)

    def prefer(self, name: str, value: Any, *, why: str = "") -> str:
        """Record how the user likes something done."""
        record = PreferenceRecord(name=text(name, "name"), value=value)
        return self._record("preference", Upsert("preferences", record), why=why)

    def dead_end(self, what: str, *, why: str = "") -> str:
        """Record an approach that does not work, so that nobody tries it again."""
        record = DeadEndRecord(what=text(what, "what"), why=text(why, "why"))
        return self._record("dead_end", Upsert("dead_ends", record))

    def plan(
        self,
        step: str | Sequence[str],
        status: StepStatus = "pending",
        *,
        detail: str = "",
        evidence: str = "",
        order: int = 0,
        why: str = "",
    ) -> str:
        """Record a step of the plan and its status, or a list of steps, all with that status."""
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
                order=order if isinstance(step, str) or type(order) is not int else order + place,
            )
            for place, name in enumerate(steps, 1)
        ]
        return self._record("plan", *(Upsert("plan", record) for record in records), why=why)

    def artifact(
        self, name: str, content: Any, *, media_type: str = "text/plain", why: str = ""
    ) -> str:
        """Record a new version of a named document."""
        data = canon.dumps(content, path="$.content")
        record = ArtifactRecord(
            name=text(name, "name"),
            digest=sha256(data).hexdigest(),
            size=len(data),
            media_type=media_type,
        )
        return self._record("artifact", Upsert("artifacts", record), input=content, why=why)


class Turn(Recorder, Loop):
    """What an agent does between being asked and being done. Safe to use from several threads."""

    ended = False

    def __init__(
        self, session: Session[Any], prompt: Any, *, key: str = "", new: bool = False
    ) -> None:
        self._session = session
        self._root = session._root
        self._app_version = session._app_version
        self._batch: list[Draft] | None = None
        self._lock = threading.RLock()
        self._occurrences: dict[tuple[str, str], int] = {}
        self._replies: dict[int, tuple[Any, int]] = {}
        """Responses of this turn and the seqs of their entries, by identity."""
        self._token: Token[Any] | None = None
        began = session._begin_turn(prompt, key=key, new=new)
        self.id, self.number = began.id, began.number
        self._known: Known | None = began.known
        self.continued = began.how == "continued"
        """Whether this turn was interrupted and goes on here."""
        self.reused = began.how == "reused"
        """Whether this turn ended in an earlier run: everything in it comes from the record."""
        self._how = ""

    @property
    def session(self) -> Session[Any]:
        """The session this is a turn of."""
        return self._session

    # -- appending --------------------------------------------------------------------------------

    def _draft(self, kind: str, **fields: Any) -> Draft:
        return self._session._draft(kind, **fields)

    def _submit(self, draft: Draft) -> str:
        self._check_open()
        recorded = self._recorded(draft)
        if recorded is not None:
            return recorded
        if self._batch is not None:
            self._batch.append(draft)
        else:
            self._session._append([draft])
        return draft.id

    def _record_file(self, record: FileRecord, why: str) -> str:
        keeper = self._session._keeper
        if keeper is None:
            return super()._record_file(record, why)
        self._check_open()
        plain = file_draft(self, record, why)
        recorded = self._recorded(plain)
        return recorded or record_kept(keeper, record, plain, self._draft, self._collect)

    def _collect(self, drafts: list[Draft]) -> list[Commit] | None:
        if self._batch is None:
            return self._session._append(drafts)
        self._batch += drafts
        return None

    def _recorded(self, draft: Draft) -> str | None:
        """The commit that recorded this in an earlier run of the same turn."""
        if self._known is None:
            return None
        with self._lock:
            found = self._known.mark(draft, self._session._scrub, loose=self.reused)
        if found is not None:
            return found.id
        self._check_unended(f"a {draft.kind}")
        return None

    def _check_unended(self, what: str) -> None:
        """A turn that ended takes nothing new."""
        if self.reused:
            raise Diverged(
                f"turn {self.number} of session {self._session.id} ended in an earlier run, "
                f"and this program asks it for {what} that it did not record",
                hint="the program changed: begin this turn with new=True",
                session=self._session.id,
            )

    def _write(self, drafts: list[Draft]) -> list[Commit]:
        """Append what a call or an answer asks to be recorded, whatever a batch collects."""
        self._check_open()
        return self._session._append(drafts)

    def _meet(self, calling: Calling) -> Generator[EffectOf, Answer, Outcome | Asked]:
        """What this turn's record makes of a call."""
        if self._known is None:
            return calling.asked
        scrub = self._session._scrub
        hashes = [known.fingerprint(calling.given, how) for how in (scrub, None)]
        with self._lock:
            own = self._known.call(
                calling.tool.name, key=calling.tool.key, origin=calling.origin, hashes=hashes
            )
        if own is None:
            self._check_unended(f"a call of {calling.tool.name}")
        doubts = self._known.doubts(calling.tool.name, own)
        ask = calling.tool.reconcile is not None
        same = own is not None and own.input_hash in hashes
        return (
            yield from known.meet(calling.asked, own, doubts, ended=self.reused, ask=ask, same=same)
        )

    def _known_child(self, session: str) -> tuple[Commit | None, Commit | None]:
        """Where an earlier run of this turn started a child, and where it concluded it."""
        if self._known is None:
            return None, None
        with self._lock:
            begun, ended = self._known.child(session)
        if begun is None:
            self._check_unended("a child")
        return begun, ended

    def _take_child_end(self, session: str) -> bool:
        """Whether the record has the end of the child that is being left."""
        if self._known is None:
            return False
        with self._lock:
            return self._known.child_end(session)

    # -- what the model said -----------------------------------------------------------------------

    def _next_entry(self, question: Mapping[str, Any] | None = None) -> Commit | None:
        """The next answer of the model that this turn's record has. One whose arguments were redacted
        is asked for again."""
        if self._known is None:
            return None
        with self._lock:
            entry = self._known.entry()
        if entry is not None and known.is_redacted(entry, "output") and not self.reused:
            asked = requests(entry.value("output"))
            if any(known.PLACEHOLDER.decode() in repr(request.arguments) for request in asked):
                return None
        return entry

    def _failed_ask(self) -> Outcome | None:
        """What became of the next question to the model that this turn's record has no answer to. A
        turn that goes on asks it again."""
        if self._known is None or not self.reused:
            return None
        with self._lock:
            return self._known.failed_ask()

    def _entry(self, said: Any, *, call: str = "", model: Any = "", status: str = "") -> Draft:
        """What the model said, as it is recorded."""
        session = self._session
        return self._draft(
            "entry",
            output=said,
            call=call,
            actor="model",
            status=status,
            provenance=FROM_MODEL,
            inputs=session._since_answer(),
            usage=session._cost(usage_of(said), model) or None,
        )

    def _reply(self, said: Any, seq: int) -> Any:
        """A response as the loop reads it, and which entry it is."""
        reply = Reply(said) if isinstance(said, dict) else said
        self._replies[id(reply)] = (reply, seq)
        return reply

    def _seq_of(self, identifier: str) -> int:
        found = self._session._store.locate(identifier.partition("_")[2], self._session.id)
        return found[0][1]

    def _occurrence(self, tool: str, hashed: str) -> int:
        """Which call of this tool with these arguments the next one is, in this turn."""
        with self._lock:
            count = self._occurrences[tool, hashed] = self._occurrences.get((tool, hashed), 0) + 1
        return count

    def _check_open(self) -> None:
        if self.ended:
            raise BadTurn(
                f"turn {self.number} of session {self._session.id} has ended",
                hint="begin another: with session.turn(…) as t",
                session=self._session.id,
            )

    @contextlib.contextmanager
    def batch(self) -> Iterator[None]:
        """Collect what is recorded inside and append it at the end, all or nothing, in one
        transaction.

        Calls cannot be made in a batch: their intent must be on disk before they run. If the block
        raises, nothing of it is recorded.
        """
        self._check_open()
        if self._batch is not None:
            raise BadTurn("a batch is open already", hint="batches do not nest")
        collected: list[Draft] = []
        self._batch = collected
        try:
            yield
        finally:
            self._batch = None
        if collected:
            self._session._append(collected)

    # -- recording --------------------------------------------------------------------------------

    def say(
        self,
        said: Any,
        *,
        actor: Actor = "model",
        usage: Mapping[str, int] | None = None,
        why: str = "",
    ) -> str:
        """Record what the agent answered."""
        return self._record(
            "entry", output=said, actor=actor, why=why, usage=usage and mapping(usage, "usage")
        )

    def pend(self, what: str, *, on: str = "", why: str = "", done: bool = False) -> str:
        """Record something intended and not begun; `done=True` takes it off again."""
        name = text(what, "what")
        change: Change = (
            Remove("pending", name)
            if done
            else Upsert("pending", PendingRecord(what=name, on=on, why=why))
        )
        return self._record("pending", change)

    def use(self, kind: UseKind, name: str, *, detail: str = "") -> str:
        """Record a file, app or data source that is in play."""
        if kind not in ("file", "app", "data"):
            raise InvalidInput(
                f"unknown kind {kind!r:.40}", path="$.kind", hint="file, app or data"
            )
        record = WorkingRecord(kind=kind, name=text(name, "name"), detail=detail)
        return self._record("use", Upsert("working_set", record))

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

    # -- calling ----------------------------------------------------------------------------------

    def call(
        self, function: Callable[..., Any] | Tool[..., Any], /, *args: Any, **kwargs: Any
    ) -> Any:
        """Run a tool and return its result; its intent is on disk before it runs, its outcome
        after.

        Raises `CallFailed` with the tool's exception as cause, or `InDoubt` where nobody knows.
        """
        return Calling(self, function, args, kwargs).drive().result()

    def try_call(
        self, function: Callable[..., Any] | Tool[..., Any], /, *args: Any, **kwargs: Any
    ) -> Outcome:
        """Run a tool and return its outcome, whatever it is, to branch on."""
        return Calling(self, function, args, kwargs).drive()

    def _direct(self, tool: Tool[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A tool that was called like a function, inside this turn."""
        return self.call(tool, *args, **kwargs)

    # -- ending -----------------------------------------------------------------------------------

    def end(self) -> None:
        """End the turn here; leaving the `with` block then does nothing more."""
        if not self.ended:
            self._end("ok", "")

    def abort(self, why: str) -> None:
        """Give the turn up, and say why."""
        self._check_open()
        self._end("aborted", text(why, "why"))

    def _interrupt(self, cause: str) -> None:
        """End the turn as interrupted: whoever drove it left before it was done."""
        self._batch = None
        self._end("interrupted", cause)

    def _end(self, status: Literal["ok", "aborted", "interrupted"], cause: str) -> None:
        if not self.reused:
            git = self._session._git()
            self._check_open()
            end = self._draft(
                "turn_end",
                status=status,
                cause=cause[:500],
                actor="system",
                usage=self._session._elapsed(),
                input={"git": git} if git else UNSET,
            )
            self._session._append([end])
        self.ended, self._how = True, status

    def __enter__(self) -> Turn:
        self._token = current_turn.set(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: object
    ) -> None:
        if self._token is not None:
            current_turn.reset(self._token)
            self._token = None
        if self.ended:
            return
        if error is None:
            self._end("ok", "")
        else:
            self._end("interrupted", cause(f"{type(error).__name__}: {error}"))


def file_draft(recorder: Recorder, record: FileRecord, why: str) -> Draft:
    """A reported file as it is said, without its contents."""
    return recorder._draft(
        "file", changes=(Upsert("files", record),), provenance=FROM_MODEL, why=why
    )


def per_mille(confidence: float | None) -> int | None:
    """Confidence from 0 to 1 as the whole per-mille that is recorded."""
    if confidence is None:
        return None
    recorded = thousandths(confidence, "confidence")
    if not 0 <= confidence <= 1:
        raise InvalidInput(
            f"confidence is from 0 to 1, got {confidence!r:.40}", path="$.confidence"
        )
    return recorded
