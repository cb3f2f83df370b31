"""How each provider is spoken to: one module per dialect, all with the same four functions.

Each is written so that no input can make it break its provider's rules; `assemble` sees all
messages together and does what only then can be done.
"""

from __future__ import annotations

from typing import Protocol

from stator.model.window.dialects import (
    anthropic,
    openai,
    openai_chat,
    plain,
)
from stator.model.window.messages import (
    Answer,
    KnownResult,
    Message,
    Part,
)
from stator.model.window.reply import Dialect


class Voice(Protocol):
    """What a dialect's module can do."""

    def user(self, parts: list[Part]) -> list[Message]:
        """A user's message."""
        ...

    def answer(self, said: Answer) -> list[Message]:
        """A model's message: verbatim if it was given in this dialect."""
        ...

    def results(self, said: Answer, results: list[KnownResult]) -> list[Message]:
        """The results of the calls it asked for, one for each, in order."""
        ...

    def assemble(self, messages: list[Message]) -> list[Message]:
        """All messages as one valid list."""
        ...


VOICES: dict[Dialect, Voice] = {
    "anthropic": anthropic,
    "openai": openai,
    "openai-chat": openai_chat,
    "plain": plain,
}
