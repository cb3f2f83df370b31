"""Answers from the record of a turn when the same program runs that turn again.

A turn that was interrupted is continued: model responses and outcomes come from the record, in
order, up to where it ends; what comes after runs. A turn that ended is only replayed. Decisions
only: who reads the log and who runs tools is `runtime`'s business.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Any, Literal, cast

import msgspec
from msgspec import UNSET

from stator.model.calls.known_children import KnownChildren
from stator.model.calls.life import (
    Answer,
    Asked,
    EffectOf,
    Note,
    Outcome,
    Reconcile,
    Reconciled,
    settled,
)
from stator.model.extraction.evidence import origin_parts
from stator.model.log.clean_record import clean_record
from stator.model.log.commit import (
    CONTINUED,
    CONTINUES,
    DATA,
    Change,
    Commit,
    Draft,
    Upsert,
)
from stator.model.log.delta import Drop, Put
from stator.model.log.secret_bytes import redacted_reading
from stator.model.records.tables import ONCE
from stator.model.records.types import CallStatus, Effect, Record
from stator.model.values import canon
from stator.model.values.digest import sha256

Scrub = canon.Scrub
Course = Literal["replay", "run", "in doubt", "awaiting"]
"""What to do about a call that the record knows: give its outcome, run it (again), ask its tool what
happened, or keep waiting for a person."""

PLACEHOLDER = "‹secret:".encode()
"""How the placeholder of a secret begins."""
DISPLACED = "driver displaced"
"""The cause of a doubt whose driver may still be working: its tool is never asked."""
WITHDRAWN = "arguments changed"
"""Why a call no longer waits for a person: under its key, other arguments were asked for."""
DONE_BY = "done by call "
"""How the cause of a write begins that was not run because an earlier attempt at its turn had done it."""
MODEL = "model"
"""The tool that a model call is a call of, and the origin of the calls it asks for."""


def fingerprint(given: Any, scrub: Scrub | None) -> str:
    """The hash of a call's arguments, as the log has it."""
    return sha256(canon.dumps(given, path="$.input", scrub=scrub)).hexdigest()


def same_value(recorded: Commit, name: str, given: Any, scrub: Scrub | None) -> bool:
    """Whether a content field was recorded from this value."""
    item = recorded.content.get(name)
    if given is UNSET:
        return item is None
    # As it is, and redacted: a value that the program got from the record holds placeholders already.
    return item is not None and item in (canon.dumps(given), canon.dumps(given, scrub=scrub))


class KnownCall(msgspec.Struct, kw_only=True):
    """A call of the turn, as far as its record goes."""

    call: str
    tool: str
    effect: Effect
    turn: int
    seq: int
    attempt: int = 1
    at: int = 0
    key: str = ""
    input_hash: str = ""
    occurrence: int = 1
    """Which of the calls of this tool with these arguments it is, in the order they were asked."""
    given: Any = None
    origin: tuple[str, str] | None = None
    status: CallStatus = "started"
    cause: str = ""
    ending: Commit | None = None
    """The outcome, or the settlement, that says what became of it."""
    redacted: bool = False
    """Whether its value was not kept because it contained a secret."""
    last: bool = True
    """Whether nothing that was recorded after its end can have built on it."""
    met: bool = False
    """Whether the running program has reached it, or saw its outcome."""
    parent: str = ""
    """The call whose tool made it, if one did."""

    @property
    def is_done(self) -> bool:
        """Whether it is a write that happened."""
        echo = self.cause.startswith(DONE_BY)  # of a write that another attempt has done
        return self.effect == "write" and self.status == "ok" and not echo

    @property
    def instead(self) -> str:
        """The call because of which this one was not run: that may have been it, in other words."""
        said = None if self.status != "denied" or self.ending is None else self.ending
        output = None if said is None else said.known("output")
        return str(output.get("call", "")) if isinstance(output, dict) else ""

    def course(self, *, ended: bool) -> Course:
        """What a program gets that asks for this call again; `ended`: in a turn that is over."""
        if self.status in ("started", "in doubt") and self.effect == "write":
            return "in doubt"
        if self.status == "awaiting approval":
            return "awaiting"
        if self.status == "ok":
            # A value that held a secret is not on record. To read it again does no harm; to write again may.
            again = self.redacted and self.effect != "write"
            return "run" if again and not ended else "replay"
        again = self.cause == "run again" or self.last
        return "run" if again and not ended else "replay"

    def outcome(self) -> Outcome:
        """What the record says of it."""
        said = None if self.ending is None else self.ending.known("output")
        known = Outcome(
            call=self.call,
            tool=self.tool,
            status="in doubt" if self.status == "started" else self.status,
            cause=self.cause or "no outcome was recorded",
            attempts=self.attempt,
            replayed=True,
        )
        if self.status == "ok":
            cause = "value redacted" if self.redacted else ""
            value = None if self.redacted else said
            return msgspec.structs.replace(known, value=value, cause=cause)
        if not isinstance(said, dict):
            return known
        error = str(said.get("message", ""))
        return msgspec.structs.replace(known, error=error, value=said.get("returned"))


def _unanswered(commit: Commit) -> Outcome:
    """What is known of a question that the model did not answer."""
    return KnownCall(
        call=commit.call,
        tool=commit.tool,
        effect="read",
        turn=commit.turn,
        seq=commit.seq,
        attempt=commit.attempt or 1,
        status=cast("CallStatus", commit.status),
        cause=commit.cause,
        ending=commit,
    ).outcome()


class Known:
    """The record of one turn, handed out piece by piece. Not safe for threads: its turn locks."""

    def __init__(self, commits: Iterable[Commit], earlier: Iterable[KnownCall] = ()) -> None:
        """`earlier`: the calls of earlier attempts at the turn."""
        self.calls: list[KnownCall] = []
        self._earlier = list(earlier)
        self._marks: list[Commit] = []
        self._entries: list[Commit] = []
        self._broken: set[str] = set()
        """Questions to the model that were not answered, or not to the end."""
        self._failed: dict[str, Commit] = {}
        """How each of those ended, in the order they did."""
        self._taken: set[int] = set()
        self._intents: dict[str, int] = {}
        self.children = KnownChildren(self._marks, self._taken, self._intents)
        by_id: dict[str, KnownCall] = {}
        for commit in commits:
            self._add(commit, by_id)

    def _add(self, commit: Commit, by_id: dict[str, KnownCall]) -> None:
        kind = commit.kind
        if kind == "call":
            self._intents.setdefault(commit.call, commit.seq)
            self._begun(commit, by_id)
        elif kind in ("outcome", "settlement") and (call := by_id.get(commit.call)):
            call.status, call.cause = commit.status, commit.cause  # type: ignore[assignment]
            call.ending = commit
            call.redacted = is_redacted(commit, "output")
            call.last = True
        elif kind == "approval" and commit.status == "started" and (call := by_id.get(commit.call)):
            call.status = "started"
        elif kind == "turn" and commit.status in (CONTINUED, CONTINUES):
            self._failed.clear()  # the run that continues asks the model again
        elif kind == "outcome" and commit.tool == MODEL:
            self._failed.pop(commit.call, None)
            if commit.status == "ok":
                self._broken.discard(commit.call)
            else:
                self._broken.add(commit.call)
                self._failed[commit.call] = commit
        elif kind == "entry" and commit.actor == "model":
            if commit.call not in self._broken:
                (self._entries if commit.call else self._marks).append(commit)
            for call in self.calls:
                call.last = False
        elif (
            kind in ONCE
            and commit.epoch
            and not (kind == "file" and commit.status)
            and origin_parts(commit.origin) is None
        ):
            # A file commit with a status holds contents or is a restore's, and a finding was made by a rule: no
            # program asked for them.
            ends_again = kind == "child" and self.children.ends_again(commit)
            self._marks.append(commit)
            if not ends_again:
                self._built_on(commit.call)

    def _built_on(self, call: str) -> None:
        """Code that made a call by hand continued with its outcome. A model learns the outcome of its request
        only when it is asked again."""
        for other in self.calls:
            if other.ending is not None and other.origin is None and other.call != call:
                other.last = False

    def _begun(self, commit: Commit, by_id: dict[str, KnownCall]) -> None:
        # A question to the model is not found as a call: its answer is the entry that follows.
        if commit.tool == MODEL and commit.origin is None:
            return
        self._built_on(commit.call)
        known = by_id.get(commit.call)
        if known is None:
            known = by_id[commit.call] = KnownCall(
                call=commit.call,
                tool=commit.tool,
                effect=commit.effect or "write",  # type: ignore[arg-type]
                turn=commit.turn,
                seq=commit.seq,
                at=commit.when,
                key=commit.known("key", ""),
                input_hash=commit.known("input_hash", ""),
                given=commit.known("input"),
                origin=commit.origin,
                parent=commit.parent,
            )
            known.occurrence += sum(
                call.tool == known.tool and call.input_hash == known.input_hash
                for call in self.calls
            )
            self.calls.append(known)
        known.attempt = commit.attempt or 1
        known.status = commit.status or "started"  # type: ignore[assignment]
        known.cause, known.ending = "", None

    # -- handing out ------------------------------------------------------------------------------

    @property
    def is_ahead(self) -> bool:
        """Whether the record has more answers of the model than the program has reached."""
        return any(commit.seq not in self._taken for commit in self._entries)

    @property
    def has_more(self) -> bool:
        """Whether the record has anything, but settings, that the program has not reached."""
        seqs = [
            commit.seq for commit in (*self._entries, *self._marks) if commit.kind != "settings"
        ]
        return any(seq not in self._taken for seq in (*seqs, *(call.seq for call in self.calls)))

    def entry(self) -> Commit | None:
        """The next recorded answer of the model."""
        for commit in self._entries:
            if commit.seq not in self._taken:
                self._taken.add(commit.seq)
                return commit
        return None

    def failed_ask(self) -> Outcome | None:
        """What became of the next question to the model, if it was asked before the next answer came
        and was not answered."""
        answers = [commit.seq for commit in self._entries if commit.seq not in self._taken]
        for commit in self._failed.values():
            if commit.seq not in self._taken and not (answers and answers[0] < commit.seq):
                self._taken.add(commit.seq)
                return _unanswered(commit)
        return None

    def call(
        self, tool: str, *, key: str = "", origin: tuple[str, str] | None = None,
        hashes: Sequence[str] = (),
    ) -> KnownCall | None:  # fmt: skip
        """The call the record has for this one: by key, by the provider's id, by its arguments."""
        free = [
            call
            for call in self.calls
            if call.seq not in self._taken and call.tool == tool and call.cause != WITHDRAWN
        ]
        # From the surest match to the weakest. A call with a key is never matched by its arguments: the key
        # is how a program says that two equal calls are different ones.
        found = (
            _first(call for call in free if key and call.key == key)
            or _first(call for call in free if origin and call.origin == origin)
            or _first(call for call in free if not key and call.input_hash in hashes)
        )
        if found is not None:
            self._taken.add(found.seq)
            found.met = True
        return found

    def done_before(self, tool: str, *, key: str, hashes: Sequence[str]) -> KnownCall | None:
        """The write that an earlier attempt at the turn has done, for this call."""
        for call in self._earlier:
            same = call.key == key if key else not call.key and call.input_hash in hashes
            if same and call.tool == tool and call.is_done and call.seq not in self._taken:
                self._taken.add(call.seq)
                call.met = True
                return call
        return None

    def only(self) -> KnownCall | None:
        """The write that a turn with one call made: it happened, or may have, whatever the function is called
        now and whichever arguments it is given."""
        return self._take_only(self.calls, lambda call: call.course(ended=False) == "in doubt")

    def only_before(self) -> KnownCall | None:
        """The write that an earlier attempt at a turn with one call has done."""
        return self._take_only(self._earlier, lambda call: False)

    def _take_only(
        self, calls: Iterable[KnownCall], or_else: Callable[[KnownCall], bool]
    ) -> KnownCall | None:
        for call in calls:
            if not call.parent and call.seq not in self._taken and (call.is_done or or_else(call)):
                self._taken.add(call.seq)
                call.met = True
                return call
        return None

    def doubts(self, tool: str, own: KnownCall | None) -> list[KnownCall]:
        """Writes of that tool (or of any, without a name) whose outcome is unknown, or which were settled as done
        while no program ran. For `own`, which was not run: the reason."""
        known = [*self._earlier, *self.calls]
        if own is not None:
            return [call for call in known if call.call == own.instead]
        return [
            call
            for call in known
            if tool in ("", call.tool)
            and (call.course(ended=False) == "in doubt" or _turned_out(call))
        ]

    def mark(self, draft: Draft, scrub: Scrub | None, *, loose: bool) -> Commit | None:
        """The commit that recorded what this draft would; `loose`: the next of its kind will do."""
        found = self._mark(draft, scrub, loose)
        if found is not None:
            self._taken.add(found.seq)
        return found

    def has(self, draft: Draft, scrub: Scrub | None, *, loose: bool) -> bool:
        """Whether there is one, which stays to be taken."""
        return self._mark(draft, scrub, loose) is not None

    def _mark(self, draft: Draft, scrub: Scrub | None, loose: bool) -> Commit | None:
        for commit in self._marks:
            if commit.seq in self._taken or commit.kind != draft.kind:
                continue
            if loose or says(commit, draft, scrub):
                return commit
        return None


def says(commit: Commit, draft: Draft, scrub: Scrub | None) -> bool:
    """Whether a commit holds what a draft asks for; the reducer may have added to it, never changed."""
    if (commit.kind, commit.actor, commit.status, commit.tool) != (
        draft.kind, draft.actor, draft.status, draft.tool,
    ):  # fmt: skip
        return False
    if not all(
        same_value(commit, name, getattr(draft, name), scrub) for name in ("input", "output")
    ):
        return False
    if not same_value(commit, "why", draft.why or UNSET, scrub):
        return False
    return all(_did(commit, change, scrub) for change in draft.changes)


def _did(commit: Commit, change: Change, scrub: Scrub | None) -> bool:
    """Whether a commit made this change. Of a removal it keeps the id and not the key, so that only
    its collection can be compared."""
    if isinstance(change, Upsert):
        return any(
            isinstance(op, Put)
            and op.collection == change.collection
            and _holds(op.record, change.record, scrub)
            for op in commit.delta
        )
    gone = getattr(change, "collection", "")
    return any(isinstance(op, Drop) and op.collection == gone for op in commit.delta)


def _holds(record: Record, wish: Record, scrub: Scrub | None) -> bool:
    """Whether every field the caller set is in the record, compared by canonical bytes."""
    kept: dict[str, Any] = msgspec.to_builtins(record)
    for how in (None, scrub):
        wanted: dict[str, Any] = msgspec.to_builtins(clean_record(wish, how))
        if all(
            name in kept and canon.encode(kept[name]) == canon.encode(value)
            for name, value in wanted.items()
        ):
            return True
    return False


def is_redacted(commit: Commit, name: str) -> bool:
    """Whether a secret was taken out of a content field before it was recorded."""
    item = commit.content.get(name)
    if not isinstance(item, bytes):
        return False
    within = [item] if name.startswith(DATA) else canon.bytes_within(item)
    return PLACEHOLDER in item or any(map(redacted_reading, within))


def provider_id(origin: tuple[str, str] | None) -> str:
    """The id that the provider gave to the request of a call; empty if it gave none."""
    parts = origin[1].split("/", 2) if origin is not None and origin[0] == MODEL else []
    return parts[2] if len(parts) > 2 else ""


def may_be(doubt: KnownCall, tool: str, *, key: str, request: str, hashes: Sequence[str]) -> bool:
    """Whether a call may be a write of another turn that is in doubt: of the same tool, with the same key,
    the provider's id of the same request, or the same arguments."""
    if doubt.tool != tool:
        return False
    if key and doubt.key:  # by which the program says whether two calls are the same
        return key == doubt.key
    same_request = bool(request) and request == provider_id(doubt.origin)
    return same_request or doubt.input_hash in hashes


# -- meeting the record ---------------------------------------------------------------------------


def answer_from_record(
    asked: Asked,
    own: KnownCall | None,
    doubts: Sequence[KnownCall],
    *,
    ended: bool,
    ask: bool,
    same: bool,
) -> Generator[EffectOf, Answer, Outcome | Asked]:
    """What the record makes of a call: how it ended, or what is left to run.

    `own` is the call the record has for it, `doubts` are writes of the same tool from before that
    it may repeat. `ask`: the tool can say what became of one; `same`: the arguments are `own`'s.
    """
    if own is None:
        return (yield from _beside(asked, doubts, ask=ask))
    following = msgspec.structs.replace(asked, call=own.call, attempt=own.attempt + 1)
    course = own.course(ended=ended)
    if doubts:
        return (yield from _beside(following, doubts, ask=ask and not ended, own=own))
    if course == "replay":
        return own.outcome()
    if course == "awaiting" and same:
        return msgspec.structs.replace(following, attempt=own.attempt, awaiting=True)
    if course == "awaiting":  # what a person is shown must be what would run
        yield Note("outcome", {"call": own.call, **_withdrawn(own)})
        return asked
    if course == "run":
        return following
    found = yield from _reconcile(own, ask=ask and not ended)
    if found.verdict == "done":
        return msgspec.structs.replace(
            own.outcome(), status="ok", value=found.value, cause="reconciled", error=""
        )
    return following if found.verdict == "not_done" else own.outcome()


def answer_done(asked: Asked, done: KnownCall) -> Generator[EffectOf, Answer, Outcome | Asked]:
    """A write that an earlier attempt at the turn has done: it is recorded in this attempt, too, and not
    run."""
    known = msgspec.structs.replace(done.outcome(), call=asked.call)
    yield Note("call", {"status": "requested", "input": asked.given, "attempt": asked.attempt})
    cause = DONE_BY + done.call
    ending = {"status": "ok", "cause": cause, "attempt": asked.attempt, "output": known.value}
    yield Note("outcome", ending)
    return msgspec.structs.replace(known, cause=cause)


def _withdrawn(own: KnownCall) -> dict[str, Any]:
    said = {"error": WITHDRAWN, "message": "not run: it was asked for again with other arguments"}
    return {"status": "cancelled", "cause": WITHDRAWN, "attempt": own.attempt, "output": said}


def _beside(
    asked: Asked, doubts: Sequence[KnownCall], *, ask: bool, own: KnownCall | None = None
) -> Generator[EffectOf, Answer, Outcome | Asked]:
    """A call of a tool of which an earlier write is in doubt: it may be the same one, reworded.

    It does not run, however often the program asks (`own`: it was answered before), unless the earlier one is
    known not to have happened.
    """
    for doubt in doubts:
        found = yield from _found(doubt, ask=ask)
        if found.verdict == "not_done":
            continue
        doubt.met = True
        known = doubt.outcome()
        if found.verdict == "done":
            cause = f"call {doubt.call} is done"
            said = f"not run: an earlier call of {asked.tool} turned out to be done; ask again if it is still needed"
            known = msgspec.structs.replace(known, call=asked.call, status="denied", error=said)
        else:
            cause = left_in_doubt(doubt.call)
            said = f"not run: whether an earlier call of {asked.tool} happened is not known"
        known = msgspec.structs.replace(known, cause=cause, replayed=own is not None)
        if own is not None:
            return known
        yield Note("call", {"status": "requested", "input": asked.given, "attempt": asked.attempt})
        refusal = {"error": cause, "message": said, "call": doubt.call}
        ending = {"status": "denied", "cause": cause, "attempt": asked.attempt, "output": refusal}
        yield Note("outcome", ending)
        return known
    return asked


def left_in_doubt(call: str) -> str:
    """Why a call was not run: an earlier one, which may have been the same, is in doubt."""
    return f"call {call} is in doubt"


def _found(doubt: KnownCall, *, ask: bool) -> Generator[EffectOf, Answer, Reconciled]:
    """What is known of a call that was in doubt: its settlement, else what its tool says."""
    if doubt.course(ended=False) == "in doubt":
        return (yield from _reconcile(doubt, ask=ask))
    return Reconciled("done" if doubt.status == "ok" else "not_done")


def _turned_out(call: KnownCall) -> bool:
    """Whether a call in doubt was settled as done and the program has not seen that yet."""
    settled = call.ending is not None and call.ending.kind == "settlement"
    return settled and call.status == "ok" and not call.met


def _reconcile(known: KnownCall, *, ask: bool) -> Generator[EffectOf, Answer, Reconciled]:
    """Ask the tool what became of a call in doubt, and put on record what it says."""
    if not ask or known.status != "in doubt" or known.cause == DISPLACED:
        return Reconciled("unknown")
    found = yield Reconcile(
        known.call,
        known.tool,
        known.given,
        known.at,
        known.attempt,
        known.key,
        known.input_hash,
        known.occurrence,
    )
    assert isinstance(found, Reconciled)
    if found.verdict != "unknown":
        yield Note("settlement", {"call": known.call, **settled(found)})
        known.status = "ok" if found.verdict == "done" else "error"
    return found


def _first(found: Iterable[KnownCall]) -> KnownCall | None:
    return next(iter(found), None)
