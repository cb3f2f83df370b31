"""No provider's dialect: text by role, for briefs, people and models behind no API.

{"role": "user", "content": text}
{"role": "assistant", "content": text, "calls": [{"id", "name", "arguments"}]}
{"role": "tool", "call": id, "name": name, "status": status, "content": text}
"""

from __future__ import annotations

from stator.model.window.messages import (
    Answer,
    KnownResult,
    Message,
    Part,
)


def user(parts: list[Part]) -> list[Message]:
    words = (part.text if part.kind == "text" else f"[{part.kind} not shown]" for part in parts)
    return [{"role": "user", "content": "\n\n".join(words)}]


def answer(said: Answer) -> list[Message]:
    message: Message = {"role": "assistant", "content": said.text}
    if said.asks:
        message["calls"] = [
            {"id": ask.id, "name": ask.name, "arguments": ask.arguments} for ask in said.asks
        ]
    return [message] if said.text.strip() or said.asks else []


def results(said: Answer, results: list[KnownResult]) -> list[Message]:
    return [
        {
            "role": "tool",
            "call": ask.id,
            "name": ask.name,
            "status": result.status,
            "content": result.text(),
        }
        for ask, result in zip(said.asks, results, strict=True)
    ]


def assemble(messages: list[Message]) -> list[Message]:
    return messages
