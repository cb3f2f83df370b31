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
from collections.abc import Callable, Container
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

import msgspec

from stator.errors import InvalidInput
from stator.model.exchange.item_commits import legible
from stator.model.log.commit import Commit, Gone
from stator.model.sessions.lifecycle import split_cause
from stator.model.values.ids import short
from stator.model.window.compaction import (
    WHOLE,
    Thing,
    TranscriptView,
    view_of,
)
from stator.model.window.dialects import VOICES, Voice
from stator.model.window.messages import (
    ERASED,
    ID,
    Answer,
    KnownResult,
    Message,
    Part,
    answer_of,
    late_note,
    legal,
    masked_note,
    parts_of,
    shortened,
    text_part,
)
from stator.model.window.reply import (
    Dialect,
    Request,
    dialect,
    requests,
)

CountTokens = Callable[[str], int]
"""Tokens in a text."""

BYTES_PER_TOKEN = 4
EARLY_MAX = 20_000
"""Calls that may wait for the answer that requested them; older ones belong to no answer. Hooks report all
calls of a turn, or of several, before the transcript has the answers."""
KEPT_PARTS = 4
"""At least three of these parts of what would fit are kept."""


class Transcript:
    """The entries of a session, growing with its log. `view` is the view at `asof`: compactions and erasures
    up to there are included.
    """

    rendered_from = 0
    """The seq of the first entry of the last rendering, if older ones were left out of it; 0: none were."""
    stale = False
    """Whether the fed commits no longer suffice: read the log again, from where its view begins."""

    def __init__(self, view: TranscriptView = WHOLE, *, asof: int = 0) -> None:
        self.view = view
        self._asof = asof
        self._turns: list[_Turn] = [_Turn()]
        self._begun = False
        self._answers: dict[int, _Answered] = {}
        self._open: _Answered | None = None
        """The last answer: what it asked for may still be answered."""
        self._calls: dict[str, _Slot] = {}
        self._unseen: set[str] = set()
        """Calls that were asked for before the view begins."""
        self._names: set[str] = set()
        """Ids of calls that are taken."""
        self._requests: dict[str, _Slot] = {}
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
        if take is not None and (commit.seq > self.view.summarise or commit.kind in _BEFORE):
            take(self, commit)

    def render(
        self,
        provider: Dialect,
        *,
        max_tokens: int | None = None,
        count_tokens: CountTokens | None = None,
        upto: int | None = None,
        view: TranscriptView | None = None,
    ) -> list[Message]:
        """The messages for a provider; they are the caller's to change.

        With `max_tokens` the oldest turns are left out, whole, until the rest fits; the current one
        always stays. Tokens are a quarter of the JSON's bytes unless `count_tokens` counts a text.
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
        noted = [text_part(seen.note)] if seen.note else []
        left_out = 0
        if max_tokens is not None:
            count = count_tokens or tokens
            if noted:
                max_tokens -= count(msgspec.json.encode(voice.user(noted)).decode())
            left_out = _left_out(turns, provider, voice, seen, max_tokens, count)
        first = [said.seq for turn in turns[left_out:] for said in turn.said[:1]]
        self.rendered_from = first[0] if left_out and first else 0
        messages: list[Message] = voice.user(noted) if noted else []
        if left_out:
            messages += voice.user(_left_out_note(left_out))
        for turn in turns[left_out:]:
            for said in turn.said:
                messages += msgspec.json.decode(said.rendered(provider, voice, seen))
        return voice.assemble(messages)

    def _seen(self, view: TranscriptView, upto: int | None) -> list[_Turn]:
        """The turns as a view shows them, or up to a seq."""
        prompts = [said.seq for turn in self._turns for said in turn.said if said.kind == "prompt"]
        stays = max((seq for seq in prompts if seq <= view.summarise), default=0)
        turns = []
        for turn in self._turns:
            kept = [s for s in turn.said if s.seq > view.summarise or s.seq == stays]
            kept = [s for s in kept if upto is None or s.seq <= upto]
            if kept or turn is self._turns[-1]:
                turns.append(_Turn(kept))
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
        provider = dialect(_shown(answered.value))
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
            self._turns = [_Turn()]  # of all that is not shown, the latest request is
        elif self._begun:
            self._turns.append(_Turn())
        self._begun = True
        if commit.has("input"):
            self._say(_Spoken(commit, "input"))

    def _take_entry(self, commit: Commit) -> None:
        # A stream that broke off is in the log for people; the model is asked again and never sees it.
        if commit.status == "partial" or not commit.has("output"):
            return
        value = _content(commit, "output")
        if commit.actor == "user":
            self._say(_Spoken(commit, "output"))
        elif commit.actor in ("model", "agent"):
            asked = [] if value is _GONE else requests(value)
            answered = _Answered(commit, value, asked, self._identify(commit.seq, asked))
            if self._open is not None:
                self._open.fixed = True
            self._open = self._answers[commit.seq] = answered
            self._say(answered)
            for slot in answered.slots:
                if _foreign(commit):  # its agent may have run it, reported or not
                    slot.result = KnownResult(status="started")
                self._meet(slot)

    def _meet(self, slot: _Slot) -> None:
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
            self._say(_Spoken(commit, "output"))

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
            slot.call = commit.call
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
            value=_shown(_content(commit, "output")),
            seq=commit.seq,
            settled=commit.kind == "settlement",
        )
        if early:
            self._early[_foreign(commit)] = commit.call, result
        elif slot is None or slot.answered.fixed:
            self._say(_Note(commit, slot, result))
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
                if isinstance(said, _Answered):
                    said.ids = self._identify(said.seq, said.asked)
                said.cache.clear()

    def _told_by(self, erased: dict[str, Any]) -> bool:
        """Whether the erased content is not shown, or is part of the note of the compaction in force."""
        seq, collection = erased.get("seq"), erased.get("collection")
        return not (seq or collection) or collection == "evicted" or seq == self.view.by

    def _take_compaction(self, commit: Commit) -> None:
        if commit.seq <= self._asof:
            return
        view = view_of(commit)
        if view.summarise != self.view.summarise:
            self.stale = True
            return
        self.view = view
        for turn in self._turns:
            for said in turn.said:
                said.cache.clear()

    # -- keeping track ----------------------------------------------------------------------------

    def _say(self, said: _Said) -> None:
        self._turns[-1].said.append(said)

    def _slot(self, call: str) -> _Slot | None:
        slot = self._calls.get(call)
        return None if slot is None or slot.answered.value is _GONE else slot

    def _asked_for(self, commit: Commit) -> _Slot | None:
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
}
_BEFORE = frozenset({"turn", "call"})
"""Kinds that matter to a view although they come before it."""
_FROM_HERE = frozenset({"", "model"})
"""Sources of calls that a driver of ours recorded."""
_PLACE = re.compile(r"([0-9]{1,15})/([0-9]{1,6})(?:/|$)")


# --- what was said, where --------------------------------------------------------------------


KINDS_SAID: dict[str, Literal["prompt", "note"]] = {"turn": "prompt", "delivery": "note"}
"""What a text that is shown as the user's is, by the kind of its commit; others are a person's words."""


class _Said:
    """One entry, and its rendering once that can no longer change."""

    fixed = True
    gone = False
    kind: Literal["prompt", "user", "answer", "note"]

    def __init__(self, commit: Commit) -> None:
        self.seq = commit.seq
        self.turn = commit.turn
        self.cache: dict[Dialect, tuple[TranscriptView, bytes]] = {}

    def rendered(self, provider: Dialect, voice: Voice, view: TranscriptView) -> bytes:
        """Its messages as JSON, so that a caller who changes the result of `render` does not change the next one."""
        seen, kept = self.cache.get(provider, (None, b""))
        if seen is not view:
            kept = msgspec.json.encode(self.messages(voice, view))
            if self.fixed:
                self.cache[provider] = view, kept
        return kept

    def messages(self, voice: Voice, view: TranscriptView) -> list[Message]:
        raise NotImplementedError

    def thing(self) -> Thing:
        return Thing(self.kind, self.seq, self.turn)

    def forget(self, seq: int, fields: Container[str]) -> None:
        """Those content fields of that commit are erased."""
        raise NotImplementedError


class _Spoken(_Said):
    """A prompt, a person's note, or a notice of ours."""

    def __init__(self, commit: Commit, field: str) -> None:
        super().__init__(commit)
        self.kind = KINDS_SAID.get(commit.kind, "user")
        self.field = field
        self.value = _content(commit, field)

    def messages(self, voice: Voice, view: TranscriptView) -> list[Message]:
        return voice.user(parts_of(_shown(self.value)))

    def forget(self, seq: int, fields: Container[str]) -> None:
        if self.seq == seq and self.field in fields:
            self.value = _GONE


class _Answered(_Said):
    """A model's answer, and what is known of each call it asked for."""

    kind = "answer"

    def __init__(self, commit: Commit, value: Any, asked: list[Request], ids: list[str]) -> None:
        super().__init__(commit)
        self.value = value
        self.asked = asked
        self.ids = ids
        self.slots = [_Slot(self, request.index) for request in asked]
        self.fixed = False

    def messages(self, voice: Voice, view: TranscriptView) -> list[Message]:
        said = self.answer()
        if self.seq <= view.mask and self.asked:
            calls = [
                (ask.name, slot.call, slot.result.status)
                for ask, slot in zip(said.asks, self.slots, strict=True)
            ]
            words = answer_of(said.text, [], [])
            return voice.answer(words) + voice.user([text_part(masked_note(calls))])
        results = [slot.result for slot in self.slots]
        if self.seq <= view.outputs:
            results = [shortened(slot.result, slot.call) for slot in self.slots]
        return voice.answer(said) + voice.results(said, results)

    def thing(self) -> Thing:
        begun = [slot for slot in self.slots if slot.call]
        calls = tuple((slot.call, slot.result.seq, slot.is_long) for slot in begun)
        last = max((slot.result.seq for slot in begun), default=0)
        return Thing(self.kind, self.seq, self.turn, last, calls, bool(self.asked))

    def answer(self) -> Answer:
        return answer_of(_shown(self.value), self.asked, self.ids)

    def forget(self, seq: int, fields: Container[str]) -> None:
        if self.seq == seq and "output" in fields:
            self.value = _GONE
            self.asked, self.ids, self.slots = [], [], []
        for slot in self.slots:
            slot.result.forget(seq, fields)


class _Slot:
    """One request of an answer, and what is known of it."""

    def __init__(self, answered: _Answered, index: int) -> None:
        self.answered = answered
        self.index = index
        self.call = ""
        """The call it became, if it was begun before the next answer."""
        self.result = KnownResult()
        self.later: KnownResult | None = None
        """What became of it after the next answer: shown as a note, and given to the program that ran it."""

    @property
    def is_long(self) -> bool:
        return shortened(self.result, self.call) is not self.result


class _Note(_Said):
    """What became known of a call after its result was fixed."""

    kind = "note"

    def __init__(self, commit: Commit, slot: _Slot | None, result: KnownResult) -> None:
        super().__init__(commit)
        self.slot = slot
        """Of a call that was asked for before the view begins: none."""
        self.call = commit.call
        self.tool = commit.tool
        self.result = result

    def messages(self, voice: Voice, view: TranscriptView) -> list[Message]:
        result = shortened(self.result, self.call) if self.seq <= view.outputs else self.result
        return voice.user([text_part(late_note(*self._named(view), result))])

    def _named(self, view: TranscriptView) -> tuple[str, str]:
        """Its call as the model knows it: by the provider's id where that is still to be seen."""
        if self.slot is None or self.slot.answered.seq <= max(view.mask, view.summarise):
            return legal(self.tool), short(self.call)
        ask = self.slot.answered.answer().asks[self.slot.index]
        return ask.name, ask.id

    def thing(self) -> Thing:
        is_long = shortened(self.result, self.call) is not self.result
        return Thing(self.kind, self.seq, self.turn, calls=((self.call, self.seq, is_long),))

    def forget(self, seq: int, fields: Container[str]) -> None:
        self.result.forget(seq, fields)
        self.gone = self.slot is not None and self.slot.answered.value is _GONE


@dataclass(slots=True)
class _Turn:
    said: list[_Said] = field(default_factory=list)


class _Gone:
    """Marks content that was erased."""


_GONE = _Gone()


def _foreign(commit: Commit) -> str:
    """The provider's id of a call that was recorded from outside."""
    source, name = commit.origin or ("", "")
    return "" if source in _FROM_HERE else name


def _content(commit: Commit, name: str) -> Any:
    return _GONE if isinstance(commit.content.get(name), Gone) else commit.value(name)


def _shown(value: Any) -> Any:
    return ERASED if value is _GONE else value


# --- leaving out ---------------------------------------------------------------------------------


def _left_out(
    turns: list[_Turn],
    provider: Dialect,
    voice: Voice,
    view: TranscriptView,
    max_tokens: int,
    count: CountTokens,
) -> int:
    """How many of the oldest turns do not fit; never the last."""
    note = count(msgspec.json.encode(voice.user(_left_out_note(len(turns)))).decode())
    first = len(turns) - 1
    spent = 0
    for n in range(first, -1, -1):
        spent += count(b"".join(s.rendered(provider, voice, view) for s in turns[n].said).decode())
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


def _left_out_note(turns: int) -> list[Part]:
    words = "1 earlier turn is" if turns == 1 else f"{turns} earlier turns are"
    return [text_part(f"[{words} not shown]")]


def tokens(text: str) -> int:
    """About how many tokens a text has."""
    return -(-len(text.encode()) // BYTES_PER_TOKEN)
