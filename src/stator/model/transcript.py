"""The transcript of a session: its log, read as what a model is to be sent next.

`feed` takes commits in log order, once; `render` gives the messages for a provider. For every
prefix of every log the result is one the provider accepts, and the same bytes in every process.

What is fixed when. A call's result is what is known of it when the *next* answer is recorded; until
then it is open. What becomes known later is told as a note where it became known. Hence the law on
which prompt caches rest:

    once an answer is recorded, everything up to and with it is rendered the same for ever

in every dialect, block by block (Anthropic's neighbours of one role are one message, so its last
message may still gain blocks). Two things break it, and must: an erasure, and `max_tokens`. And one
block may still go: a call of the provider's own tool, if the provider never answers it.

A turn's calls and results are rendered together, so leaving out whole turns never splits a pair.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container
from dataclasses import dataclass, field
from typing import Any, get_args

import msgspec

from stator.errors import InvalidInput
from stator.model.commit import Commit, Gone
from stator.model.dialects import VOICES, Voice
from stator.model.reply import Dialect, Request, dialect, requests
from stator.model.said import (
    ERASED,
    ID,
    Answer,
    Message,
    Part,
    Result,
    answer_of,
    late_note,
    parts_of,
    text_part,
)

CountTokens = Callable[[str], int]
"""Tokens in a text."""

BYTES_PER_TOKEN = 4
KEPT_PARTS = 4
"""At least three of these parts of what would fit are kept."""


class Transcript:
    """What was said in a session, growing with its log."""

    def __init__(self) -> None:
        self._turns: list[_Turn] = [_Turn()]
        self._begun = False
        self._answers: dict[int, _Answered] = {}
        self._open: _Answered | None = None
        """The last answer: what it asked for may still be answered."""
        self._calls: dict[str, _Slot] = {}
        self._names: set[str] = set()
        """Ids of calls that are taken."""

    def feed(self, commit: Commit) -> None:
        """Take the next commit of the log, or of a fork's lineage.

        Its content must be loaded. An erasure takes effect on what was fed before it if its input
        says what it erased; otherwise feed a new transcript.
        """
        take = _TAKES.get(commit.kind)
        if take is not None:
            take(self, commit)

    def render(
        self,
        provider: Dialect,
        *,
        max_tokens: int | None = None,
        count_tokens: CountTokens | None = None,
    ) -> list[Message]:
        """The messages for a provider; they are the caller's to change.

        With `max_tokens` the oldest turns are left out, whole, until the rest fits; the current one
        always stays. Tokens are a quarter of the JSON's bytes unless `count_tokens` counts a text.
        """
        voice = VOICES.get(provider)
        if voice is None:
            raise InvalidInput(
                f"unknown provider {provider!r:.40}",
                path="$.provider",
                hint=", ".join(get_args(Dialect)),
            )
        turns = self._turns
        left_out = 0
        if max_tokens is not None:
            left_out = _left_out(turns, provider, voice, max_tokens, count_tokens or _tokens)
        messages: list[Message] = []
        if left_out:
            messages += voice.user(_left_out_note(left_out))
        for turn in turns[left_out:]:
            for said in turn.said:
                messages += msgspec.json.decode(said.rendered(provider, voice))
        return voice.assemble(messages)

    def results(self, seq: int) -> list[Message]:
        """What is known of the calls that the entry at a seq asked for, in its own dialect: what
        belongs behind it. Anthropic's are the blocks of one message."""
        answered = self._answers.get(seq)
        if answered is None:
            return []
        provider = dialect(_shown(answered.value))
        known = [slot.result for slot in answered.slots]
        messages = VOICES[provider].results(answered.answer(), known)
        if provider != "anthropic":
            return messages
        return [block for message in messages for block in message["content"]]

    # -- taking commits ---------------------------------------------------------------------------

    def _take_turn(self, commit: Commit) -> None:
        if commit.status == "continued":
            return
        if self._begun:
            self._turns.append(_Turn())
        self._begun = True
        if commit.has("input"):
            self._say(_Spoken(commit.seq, "input", _content(commit, "input")))

    def _take_entry(self, commit: Commit) -> None:
        if commit.status == "partial" or not commit.has("output"):
            return
        value = _content(commit, "output")
        if commit.actor == "user":
            self._say(_Spoken(commit.seq, "output", value))
        elif commit.actor in ("model", "agent"):
            asked = [] if value is _GONE else requests(value)
            answered = _Answered(commit.seq, value, asked, self._identify(commit.seq, asked))
            if self._open is not None:
                self._open.fixed = True
            self._open = self._answers[commit.seq] = answered
            self._say(answered)

    def _take_call(self, commit: Commit) -> None:
        slot = self._asked_for(commit)
        if slot is None:
            return
        self._calls[commit.call] = slot
        if not slot.answered.fixed:
            slot.result = Result(status=commit.status or "started", seq=commit.seq)

    def _take_approval(self, commit: Commit) -> None:
        slot = self._slot(commit.call)
        if slot is not None and commit.status == "started" and not slot.answered.fixed:
            slot.result = Result(status="started", seq=commit.seq)

    def _take_outcome(self, commit: Commit) -> None:
        slot = self._slot(commit.call)
        if slot is None:
            return
        result = Result(
            status=commit.status,
            cause=commit.cause,
            known=commit.has("output"),
            value=_shown(_content(commit, "output")),
            seq=commit.seq,
            settled=commit.kind == "settlement",
        )
        if slot.answered.fixed:
            self._say(_Note(slot, result))
        else:
            slot.result = result

    def _take_erasure(self, commit: Commit) -> None:
        """Forget what was fed and is gone, so that feeding the log anew would give the same."""
        erased = None if isinstance(commit.content.get("input"), Gone) else commit.value("input")
        if not isinstance(erased, dict) or not erased.get("seq"):
            return
        seq, fields = erased["seq"], erased.get("fields") or ("input", "output")  # none: all
        for turn in self._turns:
            for said in turn.said:
                said.forget(seq, fields)
            turn.said = [said for said in turn.said if not said.gone]
        self._names.clear()
        for turn in self._turns:
            for said in turn.said:
                if isinstance(said, _Answered):
                    said.ids = self._identify(said.seq, said.asked)
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
        match = _PLACE.match(place)
        if source != "model" or match is None:
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
    "erasure": Transcript._take_erasure,
}
_PLACE = re.compile(r"([0-9]{1,15})/([0-9]{1,6})(?:/|$)")


# --- what was said, where --------------------------------------------------------------------


class _Said:
    """One thing that was said, and its rendering once that can no longer change."""

    fixed = True
    gone = False

    def __init__(self) -> None:
        self.cache: dict[Dialect, bytes] = {}

    def rendered(self, provider: Dialect, voice: Voice) -> bytes:
        """Its messages as JSON: nobody who changes what `render` gave can reach into the next."""
        kept = self.cache.get(provider)
        if kept is None:
            kept = msgspec.json.encode(self.messages(voice))
            if self.fixed:
                self.cache[provider] = kept
        return kept

    def messages(self, voice: Voice) -> list[Message]:
        raise NotImplementedError

    def forget(self, seq: int, fields: Container[str]) -> None:
        """Those content fields of that commit are erased."""
        raise NotImplementedError


class _Spoken(_Said):
    """A prompt, or a person's note."""

    def __init__(self, seq: int, field: str, value: Any) -> None:
        super().__init__()
        self.seq = seq
        self.field = field
        self.value = value

    def messages(self, voice: Voice) -> list[Message]:
        return voice.user(parts_of(_shown(self.value)))

    def forget(self, seq: int, fields: Container[str]) -> None:
        if self.seq == seq and self.field in fields:
            self.value = _GONE


class _Answered(_Said):
    """A model's answer, and what is known of each call it asked for."""

    def __init__(self, seq: int, value: Any, asked: list[Request], ids: list[str]) -> None:
        super().__init__()
        self.seq = seq
        self.value = value
        self.asked = asked
        self.ids = ids
        self.slots = [_Slot(self, request.index) for request in asked]
        self.fixed = False

    def messages(self, voice: Voice) -> list[Message]:
        said = self.answer()
        return voice.answer(said) + voice.results(said, [slot.result for slot in self.slots])

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
        self.result = Result()


class _Note(_Said):
    """What became known of a call after its result was fixed."""

    def __init__(self, slot: _Slot, result: Result) -> None:
        super().__init__()
        self.slot = slot
        self.result = result

    def messages(self, voice: Voice) -> list[Message]:
        ask = self.slot.answered.answer().asks[self.slot.index]
        return voice.user([text_part(late_note(ask.name, ask.id, self.result))])

    def forget(self, seq: int, fields: Container[str]) -> None:
        self.result.forget(seq, fields)
        self.gone = self.slot.answered.value is _GONE


@dataclass(slots=True)
class _Turn:
    said: list[_Said] = field(default_factory=list)


class _Gone:
    """Stands for content that was erased."""


_GONE = _Gone()


def _content(commit: Commit, name: str) -> Any:
    return _GONE if isinstance(commit.content.get(name), Gone) else commit.value(name)


def _shown(value: Any) -> Any:
    return ERASED if value is _GONE else value


# --- leaving out ---------------------------------------------------------------------------------


def _left_out(
    turns: list[_Turn], provider: Dialect, voice: Voice, max_tokens: int, count: CountTokens
) -> int:
    """How many of the oldest turns do not fit; never the last."""
    note = count(msgspec.json.encode(voice.user(_left_out_note(len(turns)))).decode())
    first = len(turns) - 1
    spent = 0
    for n in range(first, -1, -1):
        spent += count(b"".join(s.rendered(provider, voice) for s in turns[n].said).decode())
        if spent > max_tokens:
            break
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


def _tokens(text: str) -> int:
    return -(-len(text.encode()) // BYTES_PER_TOKEN)
