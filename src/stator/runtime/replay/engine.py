"""Replay: a program driven against its record. No tool runs, no model is asked, nothing is written to the source.

The program is given a session over a copy of the record that grows as it comes along: what it reads of state
or transcript is what was there at that place. Whatever it asks for is held against the script of the turn
(`model.calls.expectations`); the first thing that does not fit ends the replay and is explained.
"""

from __future__ import annotations

import inspect
import threading
from collections import defaultdict
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, Literal, NoReturn, cast

import msgspec

from stator.errors import ApprovalNeeded, InvalidInput
from stator.model.calls import expectations as scripts
from stator.model.calls import known
from stator.model.calls.expectations import (
    Asking,
    Cue,
    Divergence,
    Script,
)
from stator.model.calls.known import is_redacted
from stator.model.calls.life import (
    Answer,
    Asked,
    EffectOf,
    Outcome,
)
from stator.model.log.commit import (
    CONTINUED,
    Commit,
    Draft,
    Gone,
)
from stator.model.log.delta import Put
from stator.model.log.query import Lease, SessionRow
from stator.model.records.registry import COMPARED
from stator.model.values.ids import retype, short
from stator.model.values.position import turn_numbers
from stator.runtime.base.context import Context
from stator.runtime.branches import rewind as rewinding
from stator.runtime.branches.rewind import Rewound, check_between_turns
from stator.runtime.driving.call import Calling
from stator.runtime.driving.policy import Terms
from stator.runtime.driving.recovery import Recovery
from stator.runtime.driving.turn import Turn
from stator.runtime.facade.session import Began, HeldMode, Session
from stator.runtime.replay.report import Replayed, uncaptured
from stator.runtime.replay.sources import Source, left_by_others, own_rewinds
from stator.runtime.window.compaction import Compaction
from stator.store.port import Store

Agent = Callable[[Any], Any]
"""A function of a session: `def agent(s): with s.turn("…") as t: …`; or a coroutine function of one."""


class Halted(BaseException):
    """Ends a replay, whatever the agent catches."""


class Replay:
    """One replay: the copy that grows, what was met so far, and where it went astray."""

    def __init__(self, source: Source, copy: Store, context: Context, *, strict: bool) -> None:
        self.source, self.context = source, context
        self._store = copy
        self.copy = cast("Store", _Growing(copy, self.grow))
        self._strict = strict
        self._come_to: dict[str, int] = {}
        self._let: dict[str, int] = defaultdict(int)
        self._grown = True
        self.lock = threading.RLock()
        self.halted = False
        self.report = Replayed(session=source.main, name=source.record(source.main).name)

    # -- the copy ---------------------------------------------------------------------------------

    def reach(self, session: str, seq: int) -> None:
        """The program has come to this place of a session: so much of it may be read."""
        with self.lock:
            self._come_to[session] = max(seq, self._come_to.get(session, 0))
            self._grown = False

    def grow(self) -> None:
        """Let the copy grow to where the program is."""
        with self.lock:
            if not self._grown:
                self._grown = True
                for session, seq in list(self._come_to.items()):
                    self._let_in(session, seq)

    def _let_in(self, session: str, seq: int) -> None:
        """Commits up to a place, and before the first of them those of what it was forked from."""
        log = self.source.logs[session]
        done = place = self._let[session]
        if not done:
            for part in self.source.record(session).lineage:
                if part.session in self.source.logs:
                    self._let_in(part.session, part.upto)
        while place < len(log) and log[place].seq <= seq:
            place += 1
        if place > done:
            self._store.ingest(log[done:place])
            self._let[session] = place

    # -- findings ---------------------------------------------------------------------------------

    def check(self) -> None:
        """A replay that is over stays over, whatever the program caught."""
        if self.halted:
            raise Halted

    def diverge(self, found: Divergence, session: str) -> NoReturn:
        with self.lock:
            if not self.halted:
                self.report.divergence = msgspec.structs.replace(found, session=session)
            self.halted = True
        raise Halted

    def end(self, why: str) -> NoReturn:
        with self.lock:
            if not self.halted:
                self.report.ended = why
            self.halted = True
        raise Halted

    def differ(self, found: Divergence, session: str) -> None:
        """Something that need not stop a replay."""
        if self._strict:
            self.diverge(found, session)
        with self.lock:
            self.report.differences.append(msgspec.structs.replace(found, session=session))


class _Growing:
    """The copy, as the program reads it: first it is let grow. Most programs read little of it."""

    def __init__(self, store: Store, grow: Callable[[], None]) -> None:
        self._store, self._grow = store, grow

    def __getattr__(self, name: str) -> Any:
        self._grow()
        return getattr(self._store, name)


class ReplayTurn(Turn):
    """A turn everything in which comes from its script."""

    _session: ReplaySession

    def __init__(self, session: ReplaySession, prompt: Any, *, key: str, new: bool) -> None:
        super().__init__(session, prompt, key=key, new=new)
        self._script = session._script

    def _take(self, asking: Asking) -> Cue:
        self._check_open()
        play, session = self._session._play, self._session
        with play.lock:
            play.check()
            cue = self._script.take(asking)
        if cue is not None:
            return cue
        if not self._script.left and session._ends_here(self.number):
            play.end(
                f"the record ends in t{self.number}, where the program asks for {asking.asked}"
            )
        play.diverge(scripts.explain(self._script, asking, self.number), session.id)

    # -- what a turn asks of its record -----------------------------------------------------------

    def _submit(self, draft: Draft) -> str:
        self._check_open()
        return self._recorded(draft) or draft.id

    def _recorded(self, draft: Draft) -> str | None:
        return self._session._made(draft)

    def _meet(self, calling: Calling) -> Generator[EffectOf, Answer, Outcome | Asked]:
        yield from ()
        return self._outcome(calling)

    def _outcome(self, calling: Calling) -> Outcome:
        session, play = self._session, self._session._play
        hashes = [known.fingerprint(calling.given, how) for how in (session._scrub, None)]
        asking = Asking(
            kind="call",
            name=calling.tool.name,
            given=calling.given,
            key=calling.tool.key,
            origin=calling.origin,
            hashes=hashes,
        )
        cue = self._take(asking)
        call = cue.call
        assert call is not None
        if not scripts.same_arguments(cue, asking):
            how = "under the key it had" if call.key else "as the answer to the same request"
            found = Divergence(
                what=f"{call.tool} was called with other arguments, {how}",
                turn=self.number,
                place=self._script.place - 1,
                seq=cue.seq,
                commit=cue.commit,
                expected={"tool": call.tool, "arguments": cue.given},
                got={"tool": call.tool, "arguments": calling.given},
                diff=scripts.unified(cue.given, calling.given),
            )
            play.diverge(found, session.id)
        if call.status == "awaiting approval":
            raise ApprovalNeeded(
                f"{call.tool} waited for a person's word · call {short(call.call)}",
                call=call.call,
                tool=call.tool,
            )
        if call.ending is None and session._ends_here(self.number):
            play.end(f"the record ends in t{self.number}, before {call.tool} had an outcome")
        if call.ending is not None:
            self._held(call.ending, f"what {call.tool} returned")
            play.reach(session.id, call.ending.seq)
        with play.lock:
            play.report.calls += 1
        return _as_told(self._script, cue)

    def _held(self, commit: Commit, what: str) -> None:
        """Whether the record still has what the program is to be given. A hole is no end: what comes
        after it would pass unchecked."""
        gone = commit.content.get("output")
        if isinstance(gone, Gone):
            hole = Divergence(
                what=f"{what} was erased by @{gone.by}: the replay cannot go on",
                turn=self.number,
                place=self._script.place - 1,
                seq=commit.seq,
                commit=commit.id,
            )
            self._session._play.diverge(hole, self._session.id)

    def _next_entry(self, question: Mapping[str, Any] | None = None) -> Commit:
        cue = self._take(Asking(kind="answer"))
        play = self._session._play
        if question is not None and not scripts.same_question(cue.given, question):
            difference = Divergence(
                what="the model was asked otherwise",
                turn=self.number,
                place=self._script.place - 1,
                seq=cue.seq,
                commit=cue.commit,
                expected={"model": cue.given},
                got={"model": dict(question)},
                diff=scripts.unified(cue.given, dict(question)),
            )
            play.differ(difference, self._session.id)
        play.reach(self._session.id, cue.end)
        with play.lock:
            play.report.answers += 1
        if cue.failed is not None:
            raise cue.failed.to_error()
        assert cue.entry is not None
        self._held(cue.entry, "what the model said")
        return cue.entry

    # -- ending -----------------------------------------------------------------------------------

    def _end(self, status: Literal["ok", "aborted", "interrupted"], cause: str) -> None:
        self.ended, self._how = True, status
        if not self._session._play.halted:
            self._session._turn_ended(status, cause)


def _as_told(script: Script, cue: Cue) -> Outcome:
    """What the program was told of a call; secrets that were taken out stay out, the rest is given."""
    call = cue.call
    assert call is not None
    told = call.outcome()
    if call.instead:  # it was told of the call because of which this one did not run
        doubt = next((c.call for c in script.cues if c.call and c.call.call == call.instead), None)
        if doubt is not None and doubt.status in ("started", "in doubt"):
            return msgspec.structs.replace(doubt.outcome(), cause=call.cause)
    if call.redacted and call.status == "ok" and call.ending is not None:
        return msgspec.structs.replace(told, value=call.ending.known("output"))
    return told


class ReplaySession(Session[Any]):
    """A session that was, gone through again."""

    def __init__(
        self, play: Replay, session: str, *, first: int = 1, last: int = scripts.NEVER
    ) -> None:
        self._play = play
        log = play.source.logs[session]
        left = left_by_others(log)
        begun = [c for c in log if c.kind == "turn" and c.status != CONTINUED]
        begun = [c for c in begun if c.turn not in left or first == c.turn == last]
        self._turns_left = [c for c in begun if first <= c.turn <= last]
        self._last_turn = max((c.turn for c in begun), default=0)
        low = min((c.seq for c in self._turns_left), default=scripts.NEVER)
        high = min((c.seq for c in begun if c.turn > last), default=scripts.NEVER)
        self._rewinds_left = [c for c in own_rewinds(log) if low < c.seq < high]
        start = self._turns_left[0].seq - 1 if self._turns_left else log[-1].seq
        play.reach(session, start)
        self._began_at = start
        before = play.source.turn(session, begun[0].turn - 1 if begun else 0)
        own = bool(self._turns_left) and self._turns_left[0] is begun[0]
        self._script = Script(before if own else [])
        self._number = 0
        row = play.copy.session(session)
        lease = Lease(session, 0)
        super().__init__(play.copy, row, play.context, lease, Terms(), program=[])
        self._found = Recovery()

    # -- nothing is written -----------------------------------------------------------------------

    def _begin(self, row: SessionRow) -> Commit:
        at = self._began_at
        return self._store.commits(row.id, after=at - 1, upto=at, limit=1)[0]

    def _append(self, drafts: Sequence[Draft], *, if_head: str | None = None) -> list[Commit]:
        raise InvalidInput("a replay writes nothing")

    def _submit(self, draft: Draft) -> str:
        return self._made(draft)

    def _check_terms(self, *, turns: bool = False) -> None:
        self._play.check()

    def _offer(self, tools: Any) -> None:
        return None

    def track(self, root: str = "", **options: Any) -> None:
        """Tools do not run, so that there is nothing to look at."""

    def compact(self, **options: Any) -> Compaction:
        """No model is asked, so that there is nothing to shorten."""
        return Compaction(session=self.id)

    def _begin_retry(self, turn: str, **options: Any) -> NoReturn:
        self._outside(f"tries {turn} again")

    def rerun(self, *args: Any, **options: Any) -> NoReturn:
        """Calls are not made again."""
        self._outside("makes calls again")

    def _outside(self, what: str) -> NoReturn:
        """What happens in a session that is not of this record would run tools."""
        said = f"the program {what}, in another session: the replay cannot go on"
        self._play.diverge(Divergence(what=said[:200], turn=self._number), self.id)

    def _leave(self, kind: str, reason: str, *, interrupted: bool = False) -> None:
        if not self._left:
            self._left = True
            self._on_leave("")

    # -- meeting the record -----------------------------------------------------------------------

    def turn(self, prompt: Any = None, *, key: str = "", new: bool = False) -> Turn:
        """The next turn of the record."""
        self._open_turn = ReplayTurn(self, prompt, key=key, new=new)
        return self._open_turn

    def _begin_turn(self, prompt: Any, *, key: str, new: bool) -> Began:
        play = self._play
        play.check()
        self._finish_records()
        if self._turns_left:
            self._check_rewound(self._turns_left[0].seq)
        got = {"prompt": prompt}
        if not self._turns_left:
            if self._broke_off():
                play.end(f"the record ends after t{self._number}: its run was interrupted")
            said = "the record has no further turn, and the program begins one"
            play.diverge(Divergence(what=said, turn=self._number + 1, got=got), self.id)
        first = self._turns_left.pop(0)
        pinned = bool(key) and first.known("key") == key
        if not pinned and not self._asked(first, prompt):
            recorded = first.known("input")
            found = Divergence(
                what="the turn begins with another prompt",
                turn=first.turn,
                seq=first.seq,
                commit=first.id,
                expected={"prompt": recorded},
                got=got,
                diff=scripts.unified(recorded, prompt),
            )
            play.diverge(found, self.id)
        play.reach(self.id, first.seq)
        self._number = first.turn
        commits = play.source.turn(self.id, first.turn)
        self._script = Script([c for c in commits if c.seq > first.seq])
        play.report.turns += 1
        return Began(retype(first.id, "turn"), first.turn, "reused")

    def _asked(self, first: Commit, prompt: Any) -> bool:
        if known.same_value(first, "input", prompt, self._scrub):
            return True
        if isinstance(first.content.get("input"), Gone):
            return True
        return is_redacted(first, "input") and scripts.alike(first.known("input"), prompt)

    def _made(self, draft: Draft) -> str:
        """The commit that recorded what the program records now."""
        play = self._play
        play.check()
        if draft.kind not in COMPARED:
            return draft.id
        with play.lock:
            found, same = self._script.mark(draft, self._scrub)
        if found is None:
            if not self._script.left and self._ends_here(self._number):
                play.end(f"the record ends in t{self._number}, where the program records more")
            extra = Divergence(
                what=f"the program makes a record of kind {draft.kind} that it did not make then",
                turn=self._number,
                got=_said(draft),
            )
            if draft.kind == "entry":  # what was said is what the rest builds on
                play.diverge(extra, self.id)
            play.differ(extra, self.id)
            return draft.id
        if not same:
            before, now = _recorded(found), _said(draft)
            difference = Divergence(
                what=f"a record of kind {draft.kind} says something else",
                turn=self._number,
                seq=found.seq,
                commit=found.id,
                expected=before,
                got=now,
                diff=scripts.unified(before, now),
            )
            (play.diverge if draft.kind == "entry" else play.differ)(difference, self.id)
        with play.lock:
            play.report.records += same
        play.reach(self.id, found.seq)
        return found.id

    def _turn_ended(self, status: str, cause: str) -> None:
        """The program ended its turn: so must the record have."""
        script, play = self._script, self._play
        left = scripts.leftover(script, self._number)
        if left is not None:
            said = f"; it was left by {cause}" if cause else ""
            play.diverge(msgspec.structs.replace(left, what=left.what + said), self.id)
        kind, recorded = cause.partition(":")[0], script.cause.partition(":")[0]
        found = Divergence(
            what=f"the turn ended {script.status} ({script.cause})".replace(" ()", "")
            + f" in the record, and now {status} ({cause})".replace(" ()", ""),
            turn=self._number,
            seq=script.last,
        )
        if status == "interrupted" and script.status in ("ok", "aborted"):
            play.diverge(found, self.id)
        # A record that breaks off here says nothing of how the program would have ended.
        open_end = status != script.status and self._ends_here(self._number)
        differs = not open_end and (status, kind) != (script.status, recorded)
        if differs:
            play.differ(found, self.id)
        play.reach(self.id, script.last)

    def _ends_here(self, number: int) -> bool:
        """Whether the record of this session breaks off in that turn."""
        return number == self._last_turn and self._script.status in ("", "interrupted")

    def _broke_off(self) -> bool:
        """Whether the run the record is of was interrupted."""
        log = self._play.source.logs[self.id]
        ends = [c for c in log if c.kind in ("run", "resume", "run_end")]
        return bool(ends) and (ends[-1].kind != "run_end" or ends[-1].status == "interrupted")

    def _finish_records(self) -> None:
        """What the program did not record of what it had, up to here."""
        play = self._play
        for commit in self._script.unmade():
            found = Divergence(
                what=f"a record of kind {commit.kind} was made then and is not made now",
                turn=commit.turn,
                seq=commit.seq,
                commit=commit.id,
                expected=_recorded(commit),
            )
            (play.diverge if commit.kind == "entry" else play.differ)(found, self.id)
        self._script = Script([])

    def _finish(self) -> None:
        """The program is done: nothing of the record may be left."""
        self._play.check()
        if self._turns_left:
            first = self._turns_left[0]
            found = Divergence(
                what="the program ended and never began this turn",
                turn=first.turn,
                seq=first.seq,
                commit=first.id,
                expected={"prompt": first.known("input")},
            )
            self._play.diverge(found, self.id)
        self._check_rewound(scripts.NEVER)
        self._finish_records()

    def rewind(self, to: str) -> Rewound:
        """Go back as the record did; what can be read is what was there then."""
        play = self._play
        play.check()
        check_between_turns(self)
        self._finish_records()
        coming = self._turns_left[0].seq if self._turns_left else scripts.NEVER
        made = next((c for c in self._rewinds_left if c.seq < coming), None)
        if made is None:
            if not self._turns_left and self._broke_off():
                play.end(f"the record ends after t{self._number}: its run was interrupted")
            said = f"the program goes back to {to}, and did not then"
            play.diverge(Divergence(what=said[:200], turn=self._number), self.id)
        self._rewinds_left.remove(made)
        target, left = made.inputs
        play.reach(self.id, int(left))
        found = rewinding.plan(self, to)
        if found.end != target:
            said = f"the program goes back to @{found.end} ({found.shown}), and then to @{target}"
            away = Divergence(what=said, turn=self._number, seq=made.seq, commit=made.id)
            play.diverge(away, self.id)
        play.reach(self.id, made.seq)
        self._looks_anew()
        return msgspec.structs.replace(found, seq=made.seq)

    def _check_rewound(self, upto: int) -> None:
        """Where the program went back then, it must do so now."""
        for made in self._rewinds_left:
            if made.seq < upto:
                said = f"the program went back to @{made.inputs[0]} here, and does not now"
                found = Divergence(what=said, turn=self._number, seq=made.seq, commit=made.id)
                self._play.diverge(found, self.id)

    def child(
        self,
        name: str,
        *,
        agent: str = "",
        budget: Mapping[str, int] | None = None,
        busy: HeldMode = "fail",
    ) -> Session[Any]:
        """The sub-agent of that name, as it was then."""
        turn, play = self._open_turn, self._play
        if not isinstance(turn, ReplayTurn) or turn.ended:
            raise InvalidInput(f"child {name!r:.60} needs an open turn", session=self.id)
        cue = turn._take(Asking(kind="child", name=name))
        assert cue.child is not None
        play.reach(self.id, cue.seq)
        if cue.child.session not in play.source.logs:
            said = f"the child {name!r:.60} is not in the record: the replay cannot go on"
            hole = Divergence(what=said, turn=turn.number, seq=cue.seq, commit=cue.commit)
            play.diverge(hole, self.id)
        child = ReplaySession(play, cue.child.session, first=cue.after + 1, last=cue.turns)

        def left(status: str) -> None:
            child._finish()
            if cue.end < scripts.NEVER:
                play.reach(self.id, cue.end)

        child._on_leave = left
        return child

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: object
    ) -> None:
        if error is None:
            self._leave("pause", "user")


def _said(draft: Draft) -> dict[str, Any]:
    """What a draft would record, for a report."""
    said = {
        name: value
        for name in ("input", "output")
        if (value := getattr(draft, name)) is not msgspec.UNSET
    }
    records = [msgspec.to_builtins(r, enc_hook=str) for c in draft.changes if (r := _of(c))]
    return {**said, **({"records": records} if records else {})}


def _of(change: Any) -> Any:
    return getattr(change, "record", None)


def _recorded(commit: Commit) -> dict[str, Any]:
    said = {name: commit.known(name) for name in ("input", "output") if commit.has(name)}
    records = [msgspec.to_builtins(op.record) for op in commit.delta if isinstance(op, Put)]
    return {**said, **({"records": records} if records else {})}


# -- driving --------------------------------------------------------------------------------------


def replay(
    source: Source,
    agent: Agent,
    copy: Store,
    context: Context,
    *,
    turns: str | None = None,
    strict: bool = False,
) -> Replayed:
    """Drive an agent against a record, up to the first divergence. `copy` is an empty store."""
    first, last = turn_numbers(turns, source.turns, left_by_others(source.logs[source.main]))
    play = Replay(source, copy, context, strict=strict)
    session = ReplaySession(play, source.main, first=first, last=last)
    play.report.uncaptured = uncaptured(source, first, last)
    try:
        try:
            play.report.result = _drive(agent, session)
        except Exception as error:
            _raised(session, error)
        session._finish()
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
        # In a thread of its own: whoever replays may be on a loop already.
        with ThreadPoolExecutor(1, "stator replay") as thread:
            ran = thread.submit(contextvars.copy_context().run, asyncio.run, main)
            return ran.result()
    finally:
        pool.close()


def _raised(session: ReplaySession, error: Exception) -> None:
    """The agent raised: as it did then, or not."""
    session._play.check()
    turn = session._open_turn
    if turn is not None and turn._how == "interrupted":
        return  # how the turn ended was compared
    if session._broke_off():
        return
    said = f"the agent raised {type(error).__name__}: {error}"[:500]
    session._play.diverge(Divergence(what=said, turn=session._number), session.id)
