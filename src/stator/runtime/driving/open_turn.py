"""The turn that is open: appends its commits, and finds in the record what an earlier run did in it.

`Turn`, which people hold, is a thin layer over an `OpenTurn`; calls and the agent loop work on it.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Generator, Iterator, Mapping
from typing import Any, Literal

from msgspec import UNSET

from stator.errors import BadTurn, Diverged
from stator.model.calls import known
from stator.model.calls.known import Known, KnownCall
from stator.model.calls.known_children import KnownEnd, KnownOpening
from stator.model.calls.life import (
    Answer,
    Asked,
    EffectOf,
    Outcome,
)
from stator.model.log.commit import Commit, Draft, Named
from stator.model.log.edges import PARTIAL
from stator.model.log.shown_text import cut_short
from stator.model.records.tables import SHOWN
from stator.model.records.types import FileRecord
from stator.model.values import canon
from stator.model.window.reply import Reply, requests, usage_of
from stator.runtime.base.arguments import cause as as_cause
from stator.runtime.driving.again.turn_start import Changed
from stator.runtime.driving.driver import Driver
from stator.runtime.driving.state_writer import FROM_MODEL, file_fields, with_entry
from stator.runtime.driving.tools import Tool, call_in
from stator.runtime.files.capture import record_kept
from stator.runtime.views.derivation import check_verified


class OpenTurn:
    """One turn of a driven session, from its prompt to its end. Safe to use from several threads."""

    def __init__(
        self,
        driver: Driver,
        prompt: Any,
        *,
        key: str = "",
        new: bool = False,
        changed: Changed = "warn",
    ) -> None:
        self.driver = driver
        self.ended = False
        self.how = ""
        """How it ended; empty while it is open."""
        self.batched: list[Draft] | None = None
        """The drafts of the batch that is open; None if none is."""
        self._unlogged: list[Draft] = []
        """Drafts of the batch that the model is shown."""
        self._lock = threading.RLock()
        self._occurrences: dict[tuple[str, str], int] = {}
        self._replies: dict[int, tuple[Any, int]] = {}
        """Responses of this turn and the seqs of their entries, by identity."""
        self._answer: int | str = 0
        """The last answer that the program has reached in this turn."""
        began = driver.begin_turn(prompt, key=key, new=new, changed=changed)
        self.id, self.number, self.attempt = began.id, began.number, began.attempt
        self._began = began
        self.has_record = began.known is not None
        """Whether something is on record of it."""
        self._unread = began.known
        self._read: Known | None = None
        self._given: Any = None
        """The value it was ended with in this run."""
        self.continued = began.how == "continued"
        """Whether an earlier run was interrupted in this turn, and it continues here."""
        self.reused = began.how == "reused"
        """Whether this turn ended in an earlier run: everything in it comes from the record."""
        self.one_call = False
        """Whether the next call is the only one of this turn: the record has no other for it."""
        driver.current = self
        if began.how == "new" and (due := driver.settings_due()):
            driver.append(due)

    @property
    def _known(self) -> Known | None:
        """What is on record of this turn: read when it is first needed, once for all threads."""
        if self._unread is not None:
            with self._lock:
                if self._unread is not None:
                    self._read, self._unread = self._unread(), None
        return self._read

    @property
    def value(self) -> Any:
        """The value the turn ended with: on record, or given to `end`."""
        return self._recorded_value if self.reused else self._given

    @functools.cached_property
    def _recorded_value(self) -> Any:
        return self._began.value()

    # -- appending --------------------------------------------------------------------------------

    def draft(self, kind: str, **fields: Any) -> Draft:
        """A commit of this turn, with what it is made from."""
        if "inputs" not in fields:
            made = self.driver.made_from(kind, fields)
            if made and self._unlogged:
                made = self._batched(kind, made)
            if made:
                fields["inputs"] = made
        return self.driver.draft(kind, **fields)

    def _batched(self, kind: str, made: tuple[Named, ...]) -> tuple[Named, ...]:
        """The same with what is shown in the batch and is not in the log yet."""
        shown = self._unlogged
        if call_in(self.driver.id):
            return made
        answers = [n for n, draft in enumerate(shown) if draft.actor == "model"]
        if answers and kind != "entry":
            return tuple(draft.id for draft in shown[answers[-1] :])
        return (*made, *(draft.id for draft in shown))

    def check_verified(self, draft: Draft) -> None:
        """Raise `Unverified` if a draft was made from something that nobody vouches for. What an earlier run recorded
        was checked then."""
        if self._known is None or not self._known.has(draft, self.driver.scrub, loose=self.reused):
            check_verified(self.driver.store, self.driver.id, draft, self.batched or ())

    def asked_from(self) -> tuple[Named, ...]:
        """What a call by hand is made from: the last answer of the turn, else its prompt."""
        return (self._answer or self.id,)

    def submit(self, draft: Draft) -> str:
        """Append a record, unless an earlier run of this turn has made it; its id."""
        if self.ended:
            raise self._over()
        if self.has_record and (recorded := self.recorded(draft)) is not None:
            return recorded
        made = [draft, *self.driver.extract(draft)]
        if draft.kind == "entry":
            made = [*self.driver.settings_due(), *self.evictions_due(draft), *made]
        self._collect(made)
        if draft.kind == "entry" and draft.actor == "model":
            self._answer = draft.id
        return draft.id

    def evictions_due(self, entry: Draft) -> list[Draft]:
        """The commit that records which turns an answer was made without, of which it is not known how it was asked
        for."""
        if entry.actor != "model" or entry.status == PARTIAL or not self.driver.has_cut:
            return []
        if any(each.kind == "compaction" for each in self.batched or ()):
            return []  # an earlier answer of the batch says so
        return self.driver.evictions_due(self.driver.asked_with())

    def record_file(self, record: FileRecord, why: str, made: Mapping[str, Any]) -> str:
        """Append the report of a file, with what it holds where contents are kept."""
        plain = self.draft("file", **file_fields(record, why), **made)
        if self.ended:
            raise self._over()
        # An earlier release recorded no entry of the working set with it, so that it is found without one.
        if self.has_record and (recorded := self.recorded(plain)) is not None:
            return recorded
        whole = with_entry(plain, record)
        keeper = self.driver.keeper
        if keeper is not None:
            return record_kept(keeper, record, whole, self.draft, self._collect)
        self._collect([whole])
        return whole.id

    def configure(self, settings: Mapping[str, Any]) -> None:
        """Record what the program says it runs with, where that changed. While an earlier run of this turn is
        ahead, it is only remembered: that run has recorded it, or what came of it later."""
        self.check_open()
        self.driver.configure(settings)
        if self.reused or (self._known is not None and self._known.has_more):
            return
        if due := self.driver.settings_due():
            self._collect(due)

    def _collect(self, drafts: list[Draft]) -> list[Commit] | None:
        if self.batched is None:
            return self.driver.append(drafts)
        self.batched += drafts
        for draft in drafts:
            if draft.kind in SHOWN:
                self._unlogged.append(draft)
        return None

    def write(self, drafts: list[Draft]) -> list[Commit]:
        """Append at once what a call or an answer must have on disk, also inside a batch."""
        if self.ended:
            raise self._over()
        return self.driver.append(drafts)

    @contextlib.contextmanager
    def batch(self) -> Iterator[None]:
        """Collect what is recorded inside and append it at the end, all or nothing."""
        self.check_open()
        if self.batched is not None:
            raise BadTurn("a batch is open already", hint="batches do not nest")
        collected: list[Draft] = []
        self.batched, self._unlogged = collected, []
        try:
            yield
            if self.batched is collected and collected:
                self.driver.append(collected)
        except BaseException:
            self.driver.not_recorded(collected)
            # The end of the turn, if the batch held it, is not on record any more than the rest of it.
            if any(draft.kind == "turn_end" for draft in collected):
                self.ended, self.how = False, ""
            raise
        finally:
            self.batched, self._unlogged = None, []

    def check_open(self) -> None:
        if self.ended:
            raise self._over()

    def _over(self) -> BadTurn:
        return BadTurn(
            f"turn {self.number} of session {self.driver.id} has ended",
            hint="begin another: with session.turn(…) as t",
            session=self.driver.id,
        )

    # -- what an earlier run of this turn recorded -------------------------------------------------

    @property
    def is_ahead(self) -> bool:
        """Whether the record still has something that this run has not reached."""
        return self._known is not None and self._known.is_ahead

    def recorded(self, draft: Draft) -> str | None:
        """The commit that recorded this in an earlier run of the same turn."""
        if self._known is None:
            return None
        with self._lock:
            found = self._known.mark(draft, self.driver.scrub, loose=self.reused)
        if found is not None:
            return found.id
        self.check_unended(f"a {draft.kind}")
        return None

    def check_unended(self, what: str) -> None:
        """A turn that ended in an earlier run takes nothing new."""
        if self.reused:
            raise Diverged(
                f"turn {self.number} of session {self.driver.id} ended in an earlier run, "
                f"and this program asks it for {what} that it did not record",
                hint="the program changed: begin this turn with new=True",
                session=self.driver.id,
            )

    def answer_from_record(
        self, asked: Asked, tool: Tool[..., Any], origin: tuple[str, str] | None
    ) -> Generator[EffectOf, Answer, Outcome | Asked]:
        """What the record knows of a call: its outcome, or the call as it is still to be made."""
        own: KnownCall | None = None
        # The record has the hash of the redacted arguments, or of the plain ones if the store was
        # opened without redaction at the time. Either is a match.
        hashes = [known.fingerprint(asked.given, how) for how in (self.driver.scrub, None)]
        done: KnownCall | None = None
        doubts: list[KnownCall] = []
        with self._lock:
            only, self.one_call = self.one_call, False
            if self._known is not None:
                own = self._known.call(tool.name, key=tool.key, origin=origin, hashes=hashes)
                if own is None and only:
                    own = self._known.only()
                doubts = self._known.doubts("" if only else tool.name, own)
            if own is None:
                self.check_unended(f"a call of {tool.name}")
                if self._known is not None:
                    done = self._known.done_before(tool.name, key=tool.key, hashes=hashes)
                    if done is None and only:
                        done = self._known.only_before()
        if done is not None:
            return (yield from known.answer_done(asked, done))
        if own is not None and own.instead and not doubts:
            doubts = self.driver.doubts.reason(own.instead)
        if own is None:
            request = known.provider_id(origin)
            doubts += self.driver.doubts.find(
                self._began.group,
                lambda call: known.may_be(
                    call, tool.name, key=tool.key, request=request,
                    hashes=hashes if tool.declared_write else (),
                ),
            )  # fmt: skip
        asked_about = doubts if own is None else [*doubts, own]
        ask = tool.reconcile is not None and all(c.tool == tool.name for c in asked_about)
        same = own is not None and own.input_hash in hashes
        return (
            yield from known.answer_from_record(
                asked, own, doubts, ended=self.reused, ask=ask, same=same
            )
        )

    def known_child(self, session: str) -> KnownOpening | None:
        """Where an earlier run of this turn opened a child."""
        if self._known is None:
            return None
        with self._lock:
            found = self._known.children.opening(session, call_in(self.driver.id))
        if found is None:
            self.check_unended("a child")
        return found

    def take_child_end(self, session: str) -> KnownEnd | None:
        """The end that the record has of the child that is being left."""
        if self._known is None:
            return None
        with self._lock:
            return self._known.children.end(session)

    def next_entry(self, question: Mapping[str, Any] | None = None) -> Commit | None:
        """The next answer of the model in the record. One whose arguments were redacted is asked
        for again."""
        if self._known is None:
            return None
        with self._lock:
            entry = self._known.entry()
        if entry is not None and known.is_redacted(entry, "output") and not self.reused:
            asked = requests(entry.value("output"))
            if any(known.PLACEHOLDER.decode() in repr(request.arguments) for request in asked):
                return None
        return entry

    def failed_ask(self) -> Outcome | None:
        """The outcome of the next question that the record has no answer to. A turn that is
        continued asks it again."""
        if self._known is None or not self.reused:
            return None
        with self._lock:
            return self._known.failed_ask()

    # -- what the model said ----------------------------------------------------------------------

    def entry(
        self,
        said: Any,
        *,
        call: str = "",
        model: Any = "",
        status: str = "",
        inputs: tuple[Named, ...] = (),
    ) -> Draft:
        """The model's answer, as it is recorded."""
        driver = self.driver
        return self.draft(
            "entry",
            output=said,
            call=call,
            actor="model",
            status=status,
            provenance=FROM_MODEL,
            inputs=inputs or driver.asked_with().inputs,
            usage=driver.cost(usage_of(said), model) or None,
        )

    def reply(self, said: Any, seq: int) -> Any:
        """A response as the loop reads it; which entry it is, is remembered."""
        reply = Reply(said) if isinstance(said, dict) else said
        # The reply itself is kept too: while it lives, no other object can have its `id()`.
        self._replies[id(reply)] = (reply, seq)
        self._answer = seq
        return reply

    def seq_of_reply(self, reply: Any) -> int:
        """The seq of the entry that holds a response of this turn; 0 if it was not recorded."""
        return self._replies.get(id(reply), (None, 0))[1]

    def seq_of(self, identifier: str) -> int:
        found = self.driver.store.locate(identifier.partition("_")[2], self.driver.id)
        return found[0][1]

    def occurrence(self, tool: str, hashed: str) -> int:
        """Which call of this tool with these arguments the next one is, in this turn."""
        with self._lock:
            count = self._occurrences[tool, hashed] = self._occurrences.get((tool, hashed), 0) + 1
        return count

    # -- ending -----------------------------------------------------------------------------------

    def end(
        self, status: Literal["ok", "aborted", "interrupted"], cause: str, value: Any = UNSET
    ) -> None:
        """End the turn; one that comes from the record has its end there. In a batch, the end is its last
        commit."""
        if not self.reused:
            # Asking git takes a while, so that another thread may have ended the turn by then.
            git = self.driver.git_facts()
            self.check_open()
            self._given = None if value is UNSET else canon.loads(canon.dumps(value))
            end = self.draft(
                "turn_end",
                status=status,
                cause=cut_short(cause, 500),
                actor="system",
                usage=self.driver.elapsed(),
                input={"git": git} if git else UNSET,
                output=value,
            )
            self._collect([end])
        self.ended, self.how = True, status

    def interrupt(self, cause: str) -> None:
        """End the turn because its driver leaves before it is done; what a batch collected is lost."""
        self.batched, self._unlogged = None, []
        self.end("interrupted", cause)

    def leave(self, error: BaseException | None) -> None:
        """End the turn as its block is left: in order, or by an error."""
        if self.ended:
            return
        if error is None:
            self.end("ok", "")
        else:
            self.end("interrupted", as_cause(f"{type(error).__name__}: {error}"))
