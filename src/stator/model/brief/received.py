"""Which texts of ours an agent was given and did not receive. Pure.

What was given is known from the hook that printed it, what arrived from the agent's transcript. A text is missed only
where a transcript would show it, and only once the model has answered without it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

import msgspec

from stator.model.exchange.own_notes import KINDS

SHOWN: dict[str, tuple[str, ...]] = {
    "claude-code": KINDS,
    "codex": KINDS,
    "gemini": KINDS,
    "opencode": ("file",),
}
"""Agent → the kinds of texts that its transcript shows. The system prompt of opencode is in no transcript, and of
Cursor none is read: there it is not visible what arrived."""
GAVE = "StatorGave"
"""The name of a hook's line that says what it gave."""
GIVEN_MAX = 32
"""The newest texts that are remembered as given."""


class GivenNote(msgspec.Struct, frozen=True):
    """A text that a hook printed."""

    kind: str
    id: str
    at: int
    """When, in µs."""


def with_given(known: list[GivenNote], more: Iterable[GivenNote]) -> list[GivenNote]:
    """What was given so far, the newest at the end."""
    return [*known, *more][-GIVEN_MAX:]


def not_received(
    agent: str, given: Iterable[GivenNote], received: Collection[str], answered_at: int
) -> list[GivenNote]:
    """The texts that did not arrive. `received`: their ids in the transcript; `answered_at`: when the model last
    answered."""
    shown = SHOWN.get(agent, ())
    return [
        note
        for note in given
        if note.kind in shown and note.id not in received and note.at < answered_at
    ]
