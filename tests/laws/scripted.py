"""The tools and the model of a history: what they do, and how a call of each must end."""

from __future__ import annotations

from typing import Any

import stator
from laws import values

TOOLS = {"denied": "forbidden", "asked": "asked"}
USAGE = {"tokens": 15, "tokens:in": 10, "tokens:out": 5, "tokens:unpriced": 15}


def behave(how: str, value: Any) -> Any:
    """What a tool does."""
    if how == "ok":
        return value
    if how == "result error":
        return stator.Result(error="no")
    if how == "unrecordable":
        return object()
    raise {
        "error": ValueError("no"),
        "timeout": TimeoutError("late"),
        "lost": ConnectionError("gone"),
        "not done": stator.NotDone("nothing happened"),
        "in doubt": stator.InDoubt("who knows"),
        "cancelled": KeyboardInterrupt(),
    }[how]


def expected_status(effect: str, how: str) -> str:
    """The table "How a call ends" of docs/reference/library.md."""
    write = effect == "write"
    return {
        "ok": "ok",
        "unrecordable": "ok",
        "result error": "error",
        "error": "error",
        "not done": "error",
        "in doubt": "in doubt",
        "timeout": "in doubt" if write else "timeout",
        "lost": "in doubt" if write else "error",
        "cancelled": "in doubt" if write else "cancelled",
        "denied": "denied",
    }[how]


def is_tried_again(effect: str, how: str) -> bool:
    return how == "not done" or (effect != "write" and how in ("timeout", "lost"))


def answer_of(
    shape: str, text: str, calls: list[tuple[str, dict[str, Any], str]]
) -> dict[str, Any]:
    """What a model answers, in the form of its provider."""
    if shape == "anthropic":
        blocks: list[dict[str, Any]] = [{"type": "text", "text": text}] if text else []
        blocks += [
            {"type": "tool_use", "id": i, "name": name, "input": given} for name, given, i in calls
        ]
        usage = {"input_tokens": 10, "output_tokens": 5}
        return {"role": "assistant", "content": blocks, "stop_reason": "end_turn", "usage": usage}
    if shape == "openai":
        said = {"type": "message", "role": "assistant"}
        items = [{**said, "content": [{"type": "output_text", "text": text}]}] if text else []
        asks = [
            {
                "type": "function_call",
                "call_id": i,
                "name": name,
                "arguments": values.canonical(given),
            }
            for name, given, i in calls
        ]
        usage = {"input_tokens": 10, "output_tokens": 5}
        return {"output": [*items, *asks], "status": "completed", "usage": usage}
    functions = [
        {
            "id": i,
            "type": "function",
            "function": {"name": name, "arguments": values.canonical(given)},
        }
        for name, given, i in calls
    ]
    message = {"role": "assistant", "content": text or None, "tool_calls": functions or None}
    return {
        "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 5},
    }
