"""Builds the transcript of a session: its log, as the messages a model is sent next.

`feed` takes commits in log order, once; `render` gives the messages for a provider. For every
prefix of every log the result is one the provider accepts, and the same bytes in every process.

What is fixed when. A call's result is what is known of it when the *next* answer is recorded; until
then it is open. What becomes known later is shown as a note at that later place. Hence the law on
which prompt caches rest:

    once an answer is recorded, everything up to and with it is always rendered the same

in every dialect, block by block (Anthropic's neighbours of one role are one message, so its last
message may still gain blocks). Three things break it, and must: an erasure, a compaction, and
`max_tokens`. And one block may still go: a call of the provider's own tool, if the provider never
answers it.

A turn's calls and results are rendered together, so leaving out whole turns never splits a pair.

Where a compaction is in force (`model.window.compaction`), the transcript covers its view. From before its
last boundary only the prompt of the interrupted turn and the intents of open calls are needed; other commits
from before it are ignored.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, get_args

import msgspec

from stator.errors import InvalidInput
from stator.model.log.commit import UNTRUSTED, Commit, Gone
from stator.model.log.shown_text import legible
from stator.model.sessions.lifecycle import split_cause
from stator.model.window.compaction import (
    WHOLE,
    WINDOW,
    Thing,
    TranscriptView,
    unsaid,
    view_of,
)
from stator.model.window.dialects import VOICES
from stator.model.window.left_out import LeftOut, note_room
from stator.model.window.messages import ID, KnownResult, Message, text_part
from stator.model.window.reply import (
    Dialect,
    Request,
    dialect,
    requests,
)
from stator.model.window.said import (
    GONE,
    AnsweredEntry,
    LateEntry,
    ResultSlot,
    SaidEntry,
    ShownTurn,
    SpokenEntry,
    Voiced,
    content_of,
    left_out_note,
    shown_value,
)
from stator.model.window.words import CountTokens, Told, tokens

EARLY_MAX = 20_000
"""Calls that may wait for the answer that requested them; older ones belong to no answer. Hooks report all
calls of a turn, or of several, before the transcript has the answers."""
KEPT_PARTS = 4
"""At least three of these parts of what would fit are kept."""


def is_foreign(commit: Commit) -> bool:
    """Whether a commit says of itself that its content came from outside."""
    return commit.provenance.source in UNTRUSTED


class Transcript:
    """The entries of a session, growing with its log. `view` is the view at `asof`: compactions and erasures
    up to there are included. `told` says what the keys stand for that a compaction's note names; `is_outside` whether
    nobody here vouches for a commit's content.
    """

    rendered_from = 0
    """The seq of the first entry of the last rendering, if older ones were left out of it; 0: none were."""
    quotes: Sequence[int] = ()
    """The seqs of what was left out of the last rendering and is quoted in its note."""
    window = 0
    """The last seq that was left out of what the last answer was made from, as the log has it; 0: nothing was."""
    stale = False
    """Whether the fed commits no longer suffice: read the log again, from where its view begins."""

    def __init__(
        self,
        view: TranscriptView = WHOLE,
        *,
        asof: int = 0,
        told: Told = unsaid,
        is_outside: Callable[[Commit], bool] = is_foreign,
    ) -> None:
        self.view = view
        self._asof = asof
        self._told = told
        self._is_outside = is_outside
        self._left = LeftOut()
        """What is in the oldest turns, as far as they were ever left out."""
        self._left_turns = 0
        """How many the last rendering left out."""
        self._left_for_good = True
        """Whether nothing in the turns that were folded can change any more."""
        self._turns: list[ShownTurn] = [ShownTurn()]
        self._begun = False
        self._answers: dict[int, AnsweredEntry] = {}
        self._open: AnsweredEntry | None = None
        """The last answer: what it asked for may still be answered."""
        self._calls: dict[str, ResultSlot] = {}
        self._unseen: set[str] = set()
        """Calls that were asked for before the view begins."""
        self._names: set[str] = set()
        """Ids of calls that are taken."""
        self._requests: dict[str, ResultSlot] = {}
        """Requests by the provider's id for them: a call recorded from outside is known by it."""
        self._early: dict[str, tuple[str, KnownResult]] = {}
        """Calls recorded from outside before the answer that asked for them was."""

    def feed(self, commit: Commit) -> None:
        """Take the next commit of the log, or of a fork's lineage.

        Its content must be loaded. An erasure takes effect on what was fed before it if its input
        says what it erased, and a compaction if its view begins where this one does; in any other case the
        transcript is stale.
        """
        take = _TAKES.get(commit.kind)
        is_seen = commit.seq > self.view.summarise
        if take is not None and (is_seen or commit.kind in _BEFORE):
            take(self, commit)
        if is_seen and commit.delta:
            self._turns[-1].keep(commit)

    def render(
        self,
        provider: Dialect,
        *,
        max_tokens: int | None = None,
        count_tokens: CountTokens | None = None,
        marks: bool = True,
        upto: int | None = None,
        view: TranscriptView | None = None,
    ) -> list[Message]:
        """The messages for a provider; they are the caller's to change.

        With `max_tokens` the oldest turns are left out, whole, until the rest fits; the current one
        always stays. A note names what they hold. Tokens are a quarter of the JSON's bytes unless `count_tokens`
        counts a text. With `marks`, a fixed line comes before content that nobody here vouches for.
        `upto` ends it with the entry at that seq. `view` renders it as it would be after a
        compaction.
        """
        voice = VOICES.get(provider)
        if voice is None:
            raise InvalidInput(
                f"unknown provider {provider!r:.40}",
                path="$.provider",
                hint=", ".join(get_args(Dialect)),
            )
        seen = self.view if view is None else view
        turns = self._turns if view is None and upto is None else self._seen(seen, upto)
        voiced = Voiced(provider, voice, seen, marks)
        noted = [text_part(seen.note)] if seen.note else []
        messages: list[Message] = voice.user(noted) if noted else []
        left_out, self.quotes = 0, ()
        if max_tokens is not None:
            count = count_tokens or tokens
            if noted:
                max_tokens -= count(msgspec.json.encode(messages).decode())
            left_out = _left_out(turns, voiced, max_tokens, count)
            if left_out:
                self._leave(left_out)
                note = voiced.note(self._left, max_tokens, count)
                messages += note.messages
                self.quotes = note.quotes
        self._left_turns = left_out
        first = [said.seq for turn in turns[left_out:] for said in turn.said[:1]]
        self.rendered_from = (first[0] if first else self._left.upto + 1) if left_out else 0
        for turn in turns[left_out:]:
            for said in turn.said:
                messages += msgspec.json.decode(said.rendered(voiced))
        return voice.assemble(messages)

    @property
    def left(self) -> LeftOut:
        """What the last rendering left out for `max_tokens`."""
        return self._left if self._left_turns else LeftOut()

    def _leave(self, turns: int) -> None:
        """Fold what is in the oldest turns; of those that were folded before, nothing is looked at again."""
        if turns < self._left.turns or not self._left_for_good:
            self._left = LeftOut()
        for turn in self._turns[self._left.turns : turns]:
            turn.leave(self._left)
        self._left_for_good = self._open is None or self._open.seq > self._left.upto

    def _seen(self, view: TranscriptView, upto: int | None) -> list[ShownTurn]:
        """The turns as a view shows them, or up to a seq."""
        prompts = [said.seq for turn in self._turns for said in turn.said if said.kind == "prompt"]
        stays = max((seq for seq in prompts if seq <= view.summarise), default=0)
        turns = []
        for turn in self._turns:
            kept = [s for s in turn.said if s.seq > view.summarise or s.seq == stays]
            kept = [s for s in kept if upto is None or s.seq <= upto]
            if kept or turn is self._turns[-1]:
                turns.append(ShownTurn(kept))
        return turns

    def things(self) -> list[Thing]:
        """The entries, as a compaction looks at them."""
        return [said.thing() for turn in self._turns for said in turn.said]

    def results(self, seq: int) -> list[Message]:
        """What is known of the calls that the entry at a seq asked for, in its own dialect: what
        belongs behind it. Anthropic's are the blocks of one message."""
        answered = self._answers.get(seq)
        if answered is None:
            return []
        provider = dialect(shown_value(answered.value))
        known = [slot.later or slot.result for slot in answered.slots]
        messages = VOICES[provider].results(answered.answer(), known)
        if provider != "anthropic":
            return messages
        return [block for message in messages for block in message["content"]]

    # -- taking commits ---------------------------------------------------------------------------

    def _take_turn(self, commit: Commit) -> None:
        # The prompt was shown when the turn began; continuing it after a crash adds none.
        if commit.status == "continued":
            return
        if commit.seq <= self.view.summarise:
            self._turns = [ShownTurn()]  # of all that is not shown, the latest request is
        elif self._begun:
            self._turns.append(ShownTurn())
        self._begun = True
        if commit.has("input"):
            self._say(SpokenEntry(commit, "input", self._is_outside(commit)))

    def _take_entry(self, commit: Commit) -> None:
        # A stream that broke off is in the log for people; the model is asked again and never sees it.
        if commit.status == "partial" or not commit.has("output"):
            return
        value = content_of(commit, "output")
        if commit.actor == "user":
            self._say(SpokenEntry(commit, "output", self._is_outside(commit)))
        elif commit.actor in ("model", "agent"):
            asked = [] if value is GONE else requests(value)
            answered = AnsweredEntry(commit, value, asked, self._identify(commit.seq, asked))
            if self._open is not None:
                self._open.fixed = True
            self._open = self._answers[commit.seq] = answered
            self._say(answered)
            for slot in answered.slots:
                if _foreign(commit):  # its agent may have run it, reported or not
                    slot.result = KnownResult(status="started")
                self._meet(slot)

    def _meet(self, slot: ResultSlot) -> None:
        """A new request: a hook may have reported its call already."""
        name = legible(slot.answered.asked[slot.index].id)
        if not name:
            return
        self._requests.setdefault(name, slot)
        call, result = self._early.pop(name, ("", None))
        if result is not None:
            self._calls[call] = slot
            slot.call, slot.result = call, result

    def _take_delivery(self, commit: Commit) -> None:
        """A notice for the model of this session. What another agent received is in no one's transcript."""
        if commit.origin is None and commit.has("output"):
            self._say(SpokenEntry(commit, "output", outside=False))

    def _take_call(self, commit: Commit) -> None:
        slot = self._asked_for(commit)
        foreign = _foreign(commit)
        if slot is None and foreign and commit.seq > self.view.summarise:
            self._early[foreign] = commit.call, KnownResult(status="started", seq=commit.seq)
            if len(self._early) > EARLY_MAX:
                del self._early[next(iter(self._early))]
        if slot is None or commit.seq <= self.view.summarise:
            return
        self._calls[commit.call] = slot
        if not slot.answered.fixed:
            slot.call, slot.effect = commit.call, commit.effect
            slot.result = KnownResult(status=commit.status or "started", seq=commit.seq)

    def _take_approval(self, commit: Commit) -> None:
        slot = self._slot(commit.call)
        if slot is not None and commit.status == "started" and not slot.answered.fixed:
            slot.result = KnownResult(status="started", seq=commit.seq)

    def _take_outcome(self, commit: Commit) -> None:
        slot = self._slot(commit.call)
        early = slot is None and _foreign(commit) in self._early
        if slot is None and not early and commit.call not in self._unseen:
            return
        result = KnownResult(
            status=commit.status,
            cause=split_cause(commit.cause)[1],
            known=commit.has("output"),
            value=shown_value(content_of(commit, "output")),
            seq=commit.seq,
            settled=commit.kind == "settlement",
            outside=self._is_outside(commit),
        )
        if early:
            self._early[_foreign(commit)] = commit.call, result
        elif slot is None or slot.answered.fixed:
            self._say(LateEntry(commit, slot, result))
            if slot is not None:
                slot.later = result
        else:
            slot.result = result

    def _take_erasure(self, commit: Commit) -> None:
        """Forget erased content, so that reading the log again would give the same."""
        erased = None if isinstance(commit.content.get("input"), Gone) else commit.value("input")
        if not isinstance(erased, dict) or self._told_by(erased):
            self.stale = commit.seq > self._asof
        if not isinstance(erased, dict) or not erased.get("seq"):
            return
        seq, fields = erased["seq"], erased.get("fields") or ("input", "output")  # none: all
        named = any(item.seq == seq for turn in self._turns for item in turn.kept)
        if self.view.note or named:  # a note may quote it
            self.stale = commit.seq > self._asof
        self._left = LeftOut()
        for turn in self._turns:
            for said in turn.said:
                said.forget(seq, fields)
            turn.said = [said for said in turn.said if not said.gone]
        for _, result in self._early.values():
            result.forget(seq, fields)
        # An id can depend on the ids before it, so all are given out again: a process that reads the log after
        # the erasure must get the same ones.
        self._names.clear()
        for turn in self._turns:
            for said in turn.said:
                if isinstance(said, AnsweredEntry):
                    said.ids = self._identify(said.seq, said.asked)
                said.cache.clear()

    def _told_by(self, erased: dict[str, Any]) -> bool:
        """Whether the erased content is not shown, or is part of the note of the compaction in force."""
        seq, collection = erased.get("seq"), erased.get("collection")
        return not (seq or collection) or collection == "evicted" or seq == self.view.by

    def _take_trust(self, commit: Commit) -> None:
        """A person vouches for something, or does not any more: what is marked is looked at again."""
        self.stale = self.stale or commit.seq > self._asof

    def _take_compaction(self, commit: Commit) -> None:
        if commit.status == WINDOW:
            self.window = left_upto(commit)
            return
        self.window = 0  # a compaction lists all that left the view
        if commit.seq <= self._asof:
            return
        view = view_of(commit, self._told)
        if view.summarise != self.view.summarise:
            self.stale = True
            return
        self.view = view
        self._left = LeftOut()
        for turn in self._turns:
            for said in turn.said:
                said.cache.clear()

    # -- keeping track ----------------------------------------------------------------------------

    def _say(self, said: SaidEntry) -> None:
        self._turns[-1].said.append(said)

    def _slot(self, call: str) -> ResultSlot | None:
        slot = self._calls.get(call)
        return None if slot is None or slot.answered.value is GONE else slot

    def _asked_for(self, commit: Commit) -> ResultSlot | None:
        """The request a call answers, by its origin: "<entry's seq>/<index>/<provider's id>"."""
        source, place = commit.origin or ("", "")
        if foreign := _foreign(commit):
            return self._requests.get(foreign)
        match = _PLACE.match(place)
        if source != "model" or match is None:
            return None
        if int(match[1]) <= self.view.summarise:
            self._unseen.add(commit.call)
            return None
        answered = self._answers.get(int(match[1]))
        slots = [] if answered is None else answered.slots
        index = int(match[2])
        return slots[index] if index < len(slots) else None

    def _identify(self, seq: int, asked: list[Request]) -> list[str]:
        """An id for each request: the provider's, unless it is missing, illegal or taken."""
        ids: list[str] = []
        for request in asked:
            name = request.id
            again = 0
            while name in self._names or not ID.fullmatch(name):
                name = f"call_{seq}_{request.index}" + (f"_{again}" if again else "")
                again += 1
            self._names.add(name)
            ids.append(name)
        return ids


_TAKES: dict[str, Callable[[Transcript, Commit], None]] = {
    "turn": Transcript._take_turn,
    "entry": Transcript._take_entry,
    "call": Transcript._take_call,
    "approval": Transcript._take_approval,
    "outcome": Transcript._take_outcome,
    "settlement": Transcript._take_outcome,
    "delivery": Transcript._take_delivery,
    "erasure": Transcript._take_erasure,
    "compaction": Transcript._take_compaction,
    "trust": Transcript._take_trust,
}
_BEFORE = frozenset({"turn", "call"})
"""Kinds that matter to a view although they come before it."""
_FROM_HERE = frozenset({"", "model"})
"""Sources of calls that a driver of ours recorded."""
_PLACE = re.compile(r"([0-9]{1,15})/([0-9]{1,6})(?:/|$)")


def _foreign(commit: Commit) -> str:
    """The provider's id of a call that was recorded from outside."""
    source, name = commit.origin or ("", "")
    return "" if source in _FROM_HERE else name


def left_upto(commit: Commit) -> int:
    """The last seq that was left out, as a commit with the status `window` says."""
    upto = commit.inputs[0] if len(commit.inputs) == 1 else 0
    return min(upto, commit.seq) if isinstance(upto, int) and upto > 0 else 0


# --- leaving out ---------------------------------------------------------------------------------


def _left_out(turns: list[ShownTurn], how: Voiced, max_tokens: int, count: CountTokens) -> int:
    """How many of the oldest turns do not fit; never the last."""
    least = how.voice.user(left_out_note(len(turns)))
    note = max(count(msgspec.json.encode(least).decode()), note_room(max_tokens))
    first = len(turns) - 1
    spent = 0
    for n in range(first, -1, -1):
        spent += count(b"".join(s.rendered(how) for s in turns[n].said).decode())
        if spent > max_tokens:
            break
        # The note about turns left out takes room too, unless none is left out.
        if spent + (note if n else 0) <= max_tokens:
            first = n
    return _stepped(first, len(turns))


def _stepped(first: int, turns: int) -> int:
    """A cut that does not move at every turn: a prompt cache holds until it does.

    Cuts are multiples of a power of two, up to a quarter of what fits, so that several turns go at
    once and then none for as long.
    """
    step = 1 << max(0, ((turns - first) // KEPT_PARTS).bit_length() - 1)
    return min(-(-first // step) * step, turns - 1)
