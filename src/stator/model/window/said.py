"""The entries of a transcript, and how each is rendered. Pure.

An entry is rendered once for each dialect, and again only if its view changes, or while what is known of its calls
can still change.
"""

from __future__ import annotations

import functools
from collections.abc import Container, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple

import msgspec

from stator.model.log.commit import Commit, Gone
from stator.model.log.delta import Put
from stator.model.records.types import Entry
from stator.model.values.ids import short
from stator.model.window.compaction import (
    DURABLE,
    LeftKey,
    Thing,
    ThingCall,
    TranscriptView,
    keys_of,
    left_record,
)
from stator.model.window.dialects import Voice
from stator.model.window.left_out import LeftItem, LeftOut, note_room
from stator.model.window.messages import (
    ERASED,
    Answer,
    KnownResult,
    MaskedCall,
    Message,
    Part,
    answer_of,
    late_note,
    legal,
    marked_parts,
    masked_note,
    parts_of,
    shortened,
    text_part,
)
from stator.model.window.reply import Dialect, Request
from stator.model.window.words import (
    CountTokens,
    FittingLines,
    call_words,
    model_words,
    place_of,
    user_words,
)

_NOT_AT_ALL = 3
"""The level of what is not shown (`compaction.keys_of`)."""


# --- rendering -----------------------------------------------------------------------------------


class WindowNote(NamedTuple):
    """The note about turns that are left out."""

    messages: list[Message]
    quotes: Sequence[int] = ()
    """The seqs of the commits whose words are in it."""


@dataclass(frozen=True, slots=True)
class Voiced:
    """How entries are rendered: for which provider, as which view shows them, with or without marks."""

    provider: Dialect
    voice: Voice
    view: TranscriptView
    marks: bool

    def result(self, result: KnownResult) -> KnownResult:
        return replace(result, marked=True) if self.marks and result.outside else result

    def note(self, left: LeftOut, max_tokens: int, count: CountTokens) -> WindowNote:
        """The note about the turns that are left out: as much as there is room for, at least how many there are."""
        room = note_room(max_tokens)
        lines, named = left.lines(room)
        most = len(lines)
        while lines:
            messages = self.voice.user(left_out_note(left.turns, lines))
            if count(msgspec.json.encode(messages).decode()) <= room:
                return WindowNote(messages, left.quotes(named))
            most = most * 3 // 4
            lines, named = left.lines(room, most=most) if most else FittingLines()
        return WindowNote(self.voice.user(left_out_note(left.turns)))


# --- what was said, where --------------------------------------------------------------------


KINDS_SAID: dict[str, Literal["prompt", "note"]] = {"turn": "prompt", "delivery": "note"}
"""What a text that is shown as the user's is, by the kind of its commit; others are a person's words."""


class SaidEntry:
    """One entry, and its rendering once that can no longer change."""

    fixed = True
    gone = False
    kind: Literal["prompt", "user", "answer", "note"]

    def __init__(self, commit: Commit) -> None:
        self.seq = commit.seq
        self.turn = commit.turn
        self.cache: dict[tuple[Dialect, bool], tuple[TranscriptView, bytes]] = {}

    def rendered(self, how: Voiced) -> bytes:
        """Its messages as JSON, so that a caller who changes the result of `render` does not change the next one."""
        seen, kept = self.cache.get((how.provider, how.marks), (None, b""))
        if seen is not how.view:
            kept = msgspec.json.encode(self.messages(how))
            if self.fixed:
                self.cache[how.provider, how.marks] = how.view, kept
        return kept

    def messages(self, how: Voiced) -> list[Message]:
        raise NotImplementedError

    def words(self, key: str) -> str:
        """What is left out with one of its keys, in words."""
        raise NotImplementedError

    @property
    def quotes(self) -> int:
        """The seq of the commit whose words these are; 0 if they are no one's."""
        return self.seq

    def thing(self) -> Thing:
        return Thing(self.kind, self.seq, self.turn)

    def forget(self, seq: int, fields: Container[str]) -> None:
        """Those content fields of that commit are erased."""
        raise NotImplementedError


class SpokenEntry(SaidEntry):
    """A prompt, a person's note, or a notice of ours."""

    def __init__(self, commit: Commit, field: str, outside: bool) -> None:
        super().__init__(commit)
        self.kind = KINDS_SAID.get(commit.kind, "user")
        self.field = field
        self.value = content_of(commit, field)
        self.outside = outside

    def messages(self, how: Voiced) -> list[Message]:
        parts = parts_of(shown_value(self.value))
        return how.voice.user(marked_parts(parts) if how.marks and self.outside else parts)

    def words(self, key: str) -> str:
        return user_words(shown_value(self.value))

    def forget(self, seq: int, fields: Container[str]) -> None:
        if self.seq == seq and self.field in fields:
            self.value = GONE


class AnsweredEntry(SaidEntry):
    """A model's answer, and what is known of each call it asked for."""

    kind = "answer"

    def __init__(self, commit: Commit, value: Any, asked: list[Request], ids: list[str]) -> None:
        super().__init__(commit)
        self.value = value
        self.asked = asked
        self.ids = ids
        self.slots = [ResultSlot(self, request.index) for request in asked]
        self.fixed = False

    def messages(self, how: Voiced) -> list[Message]:
        said, voice = self.answer(), how.voice
        if self.seq <= how.view.mask and self.asked:
            note = masked_note([self._masked(said, n) for n in range(len(self.slots))])
            words = answer_of(said.text, [], [])
            return voice.answer(words) + voice.user([text_part(note)])
        results = [how.result(slot.result) for slot in self.slots]
        if self.seq <= how.view.outputs:
            results = [
                shortened(result, slot.call)
                for result, slot in zip(results, self.slots, strict=True)
            ]
        return voice.answer(said) + voice.results(said, results)

    def _masked(self, said: Answer, index: int) -> MaskedCall:
        ask, slot = said.asks[index], self.slots[index]
        return MaskedCall(ask.name, ask.arguments, slot.call, slot.effect, slot.result)

    def words(self, key: str) -> str:
        said = self.answer()
        for index, slot in enumerate(self.slots):
            if key == f"call:{slot.call}":
                ask = said.asks[index]
                return call_words(ask.name, ask.arguments, slot.result.status, slot.result.size)
        return model_words(shown_value(self.value))

    def thing(self) -> Thing:
        begun = [slot for slot in self.slots if slot.call]
        calls = tuple(
            ThingCall(
                slot.call, slot.result.seq, slot.is_long, place_of(slot.result.status, slot.effect)
            )
            for slot in begun
        )
        last = max((slot.result.seq for slot in begun), default=0)
        return Thing(self.kind, self.seq, self.turn, last, calls, bool(self.asked))

    def answer(self) -> Answer:
        return answer_of(shown_value(self.value), self.asked, self.ids)

    def forget(self, seq: int, fields: Container[str]) -> None:
        if self.seq == seq and "output" in fields:
            self.value = GONE
            self.asked, self.ids, self.slots = [], [], []
        for slot in self.slots:
            slot.result.forget(seq, fields)


class ResultSlot:
    """One request of an answer, and what is known of it."""

    def __init__(self, answered: AnsweredEntry, index: int) -> None:
        self.answered = answered
        self.index = index
        self.call = ""
        """The call it became, if it was begun before the next answer."""
        self.effect = ""
        self.result = KnownResult()
        self.later: KnownResult | None = None
        """What became of it after the next answer: shown as a note, and given to the program that ran it."""

    @property
    def is_long(self) -> bool:
        return shortened(self.result, self.call) is not self.result


class LateEntry(SaidEntry):
    """What became known of a call after its result was fixed."""

    kind = "note"

    def __init__(self, commit: Commit, slot: ResultSlot | None, result: KnownResult) -> None:
        super().__init__(commit)
        self.slot = slot
        """Of a call that was asked for before the view begins: none."""
        self.call = commit.call
        self.tool = commit.tool
        self.result = result

    def messages(self, how: Voiced) -> list[Message]:
        result = how.result(self.result)
        if self.seq <= how.view.outputs:
            result = shortened(result, self.call)
        return how.voice.user([text_part(late_note(*self._named(how.view), result))])

    def words(self, key: str) -> str:
        asks = [] if self.slot is None else self.slot.answered.answer().asks
        given = asks[self.slot.index].arguments if self.slot is not None and asks else None
        return call_words(legal(self.tool), given, self.result.status, self.result.size)

    @property
    def quotes(self) -> int:
        return 0 if self.slot is None else self.slot.answered.seq

    def _named(self, view: TranscriptView) -> tuple[str, str]:
        """Its call as the model knows it: by the provider's id where that is still to be seen."""
        if self.slot is None or self.slot.answered.seq <= max(view.mask, view.summarise):
            return legal(self.tool), short(self.call)
        ask = self.slot.answered.answer().asks[self.slot.index]
        return ask.name, ask.id

    def thing(self) -> Thing:
        is_long = shortened(self.result, self.call) is not self.result
        effect = "" if self.slot is None else self.slot.effect
        place = place_of(self.result.status, effect)
        return Thing(
            self.kind, self.seq, self.turn, calls=(ThingCall(self.call, self.seq, is_long, place),)
        )

    def forget(self, seq: int, fields: Container[str]) -> None:
        self.result.forget(seq, fields)
        self.gone = self.slot is not None and self.slot.answered.value is GONE


@dataclass(slots=True)
class ShownTurn:
    said: list[SaidEntry] = field(default_factory=list)
    kept: list[LeftKey] = field(default_factory=list)
    """The records that were put in it: they are named if it is left out."""

    def keep(self, commit: Commit) -> None:
        for op in commit.delta:
            if isinstance(op, Put) and op.collection in DURABLE:
                entry = Entry(op.collection, op.id, "", commit.seq, commit.turn, op.record)
                if item := left_record(entry):
                    self.kept.append(item)

    def leave(self, left: LeftOut) -> None:
        """Add what it holds to what is left out."""
        left.take_turn(max((said.seq for said in self.said), default=0))
        for item in self.kept:
            left.take(LeftItem(item, str, item.seq))
        for said in self.said:
            for item in keys_of(said.thing(), _NOT_AT_ALL):
                left.take(LeftItem(item, functools.partial(said.words, item.key), said.quotes))


class ErasedMark:
    """Marks content that was erased."""


GONE = ErasedMark()


def content_of(commit: Commit, name: str) -> Any:
    return GONE if isinstance(commit.content.get(name), Gone) else commit.value(name)


def shown_value(value: Any) -> Any:
    return ERASED if value is GONE else value


def left_out_note(turns: int, lines: Sequence[str] = ()) -> list[Part]:
    words = "1 earlier turn is" if turns == 1 else f"{turns:,} earlier turns are"
    head = f"[note, not from the user: {words} not shown]"
    return [text_part("\n".join([head, *lines, "[end of note]"]) if lines else head)]
