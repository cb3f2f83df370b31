"""Says from where the parts of an answer to why came that nobody vouches for: reasons, prompts, names."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from stator.model.records.types import Entry
from stator.model.views.why import Reason, WhyAnswer, WhyLine, WhyTurn
from stator.runtime.views.reasons.lookup import Lookup
from stator.runtime.views.trust.names import file_name_origins, session_name_origin
from stator.runtime.views.trust.unverified import unverified

ABOUT_FILES = ("edit", "read")
"""Kinds of reasons that have the name of a file."""
BY_ID = ("call", "commit")
"""Kinds of things that have no name of their own: what they say is their name."""


class Origins:
    """What the commits rest on that one answer is made from, looked up session by session."""

    def __init__(self, reading: Lookup, answers: Sequence[WhyAnswer]) -> None:
        self._reading = reading
        wanted: dict[str, set[int]] = {}
        for answer in answers:
            for place in _places(answer, reading):
                if place[0]:
                    wanted.setdefault(place[0], set()).add(place[1])
        self._roots = {
            session: unverified(reading.store, session, seqs) for session, seqs in wanted.items()
        }
        self._names: dict[str, str] = {}

    def on(self, answer: WhyAnswer) -> WhyAnswer:
        """An answer, with from where each part of it came."""
        return msgspec.structs.replace(
            answer,
            unverified=self._name(answer),
            turns=[self._turn(turn) for turn in answer.turns],
            lines=[self._line(line) for line in answer.lines],
        )

    def _at(self, session: str, seq: int) -> str:
        return self._roots.get(session, {}).get(seq, "")

    def _turn(self, turn: WhyTurn) -> WhyTurn:
        asked = self._reading.prompt(turn.session, turn.turn)
        origin = "" if asked is None else self._at(turn.session, asked.seq)
        return msgspec.structs.replace(
            turn,
            unverified=origin or self._session(turn.session),
            reasons=[self._reason(reason) for reason in turn.reasons],
        )

    def _reason(self, reason: Reason) -> Reason:
        origin = self._at(reason.session, reason.seq)
        if not origin or reason.trust == "vouched":
            return reason
        return msgspec.structs.replace(reason, trust="unverified", unverified=origin)

    def _line(self, line: WhyLine) -> WhyLine:
        origin = self._at(line.session, line.seq) if line.session else ""
        return msgspec.structs.replace(line, unverified=origin) if origin else line

    def _session(self, session: str) -> str:
        if session not in self._names:
            row = self._reading.row(session)
            found = "" if row is None else session_name_origin(self._reading.store, row)
            self._names[session] = found
        return self._names[session]

    def _name(self, answer: WhyAnswer) -> str:
        """From where the name of a thing came: from here, if one session had it before it read anything."""
        kinds = ABOUT_FILES if answer.kind == "file" else (answer.kind,)
        own = [reason for reason in answer if reason.kind in kinds]
        if answer.kind in BY_ID:
            return next(filter(None, (self._at(one.session, one.seq) for one in own)), "")
        first: dict[str, int] = {}
        for reason in own:
            first[reason.session] = min(reason.seq, first.get(reason.session, reason.seq))
        found = [self._at(session, seq) for session, seq in first.items()]
        return "" if not all(found) else next(iter(found), "")


def _places(answer: WhyAnswer, reading: Lookup) -> Iterable[tuple[str, int]]:
    for turn in answer.turns:
        yield from ((reason.session, reason.seq) for reason in turn.reasons)
        asked = reading.prompt(turn.session, turn.turn)
        if asked is not None:
            yield turn.session, asked.seq
    yield from ((line.session, line.seq) for line in answer.lines)


def is_from_here(reading: Lookup, holders: Iterable[tuple[str, Entry]]) -> bool:
    """Whether one of the sessions that hold a name has it from here."""
    for session, entry in holders:
        if not unverified(reading.store, session, [entry.seq]):
            return True
        if entry.collection == "files" and not file_name_origins(reading.store, session, [entry]):
            return True
    return False
