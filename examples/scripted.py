"""Scripted models that are called, and answer, as the SDKs are. They need no key and no network.

Use `anthropic.Anthropic()` or `openai.OpenAI()` in their place and the examples talk to a real model. A
script keeps nothing between calls: like a model, it decides from the messages it is sent.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from typing import Any

Move = tuple[str, dict[str, Any]]
ANSWER = "Paid 42.00 to ACME; the receipt is in receipt.txt."
PLAN: list[Move] = [
    ("read_file", {"path": "invoice.txt"}),
    ("pay", {"to": "ACME", "cents": 4200}),
    ("write_file", {"path": "receipt.txt", "text": "42.00 to ACME\n"}),
]
LOOK: Move = ("read_file", {"path": "ledger.txt"})


def decide(results: list[str]) -> Move | None:
    """What to do next, from the results so far; None when everything is done.

    If a result says that the outcome of the payment is unknown, it looks into the ledger.
    """
    plan = list(PLAN)
    if any("may or may not have happened" in text for text in results[1:]):
        plan.insert(2, LOOK)
    return plan[len(results)] if len(results) < len(plan) else None


# ── Anthropic: client.messages.create(model=…, max_tokens=…, tools=…, messages=…) ────────────────


@dataclass
class Block:
    type: str
    text: str | None = None
    id: str | None = None
    name: str | None = None
    input: dict[str, Any] | None = None


@dataclass
class Message:
    content: list[Block]
    stop_reason: str
    role: str = "assistant"
    usage: dict[str, int] = field(
        default_factory=lambda: {"input_tokens": 400, "output_tokens": 40}
    )


class Anthropic:
    """In place of `anthropic.Anthropic()`."""

    def __init__(self) -> None:
        self.messages = self

    def create(self, *, messages: list[Any], **_: Any) -> Message:
        blocks = [b for m in messages if isinstance(m["content"], list) for b in m["content"]]
        results = [b for b in blocks if isinstance(b, dict) and b.get("type") == "tool_result"]
        move = decide([str(block["content"]) for block in results])
        if move is None:
            return Message([Block("text", text=ANSWER)], "end_turn")
        ask = Block("tool_use", id=f"toolu_{len(results)}", name=move[0], input=move[1])
        return Message([ask], "tool_use")


class AsyncAnthropic(Anthropic):
    """In place of `anthropic.AsyncAnthropic()`."""

    async def create(self, **request: Any) -> Message:  # type: ignore[override]
        await asyncio.sleep(0)
        return super().create(**request)


# ── OpenAI: client.chat.completions.create(model=…, tools=…, messages=…) ─────────────────────────


@dataclass
class Function:
    name: str
    arguments: str


@dataclass
class ToolCall:
    id: str
    function: Function
    type: str = "function"


@dataclass
class ChatMessage:
    content: str | None = None
    tool_calls: list[ToolCall] | None = None
    role: str = "assistant"


@dataclass
class Choice:
    message: ChatMessage
    finish_reason: str
    index: int = 0


@dataclass
class Completion:
    choices: list[Choice]
    usage: dict[str, int] = field(
        default_factory=lambda: {"prompt_tokens": 400, "completion_tokens": 40}
    )


class OpenAI:
    """In place of `openai.OpenAI()`."""

    def __init__(self) -> None:
        self.chat = self.completions = self

    def create(self, *, messages: list[Any], **_: Any) -> Completion:
        results = [m for m in messages if isinstance(m, dict) and m["role"] == "tool"]
        move = decide([str(message["content"]) for message in results])
        if move is None:
            return Completion([Choice(ChatMessage(ANSWER), "stop")])
        ask = ToolCall(f"call_{len(results)}", Function(move[0], json.dumps(move[1])))
        return Completion([Choice(ChatMessage(tool_calls=[ask]), "tool_calls")])
