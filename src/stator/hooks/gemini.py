"""Turns the input of Gemini CLI's hooks into items, with the ids that a chat file has for the same
things.

Hooks contain no id of a call. They may be installed, or get lost, in the middle of a conversation.
So counting hooks is not enough to derive the ids that the chat file has. If the file can be read,
it shows what had happened before the time of a hook; only if it cannot, hooks are counted.

No id can be derived from text in which secrets were redacted. Such an item is found in the file by
its time, or left for the file to report.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec

from stator.errors import InvalidInput
from stator.importers.gemini import chat
from stator.importers.gemini import tools as gemini_tools
from stator.importers.reading.attachments import strip_attachments
from stator.importers.reading.fields import micros_of_iso, record, text
from stator.importers.reading.plain_text import plain_text
from stator.model.exchange.items import (
    Answered,
    Began,
    Called,
    Conversation,
    Ended,
    Item,
    Prompted,
    Returned,
    TurnEnded,
    text_id,
)
from stator.model.exchange.own_notes import is_own
from stator.model.log.redact import has_placeholder
from stator.model.values.json_text import shown

SOURCE = "gemini"
PROMPT_DELAY = 10_000_000
"""The time in µs within which a prompt appears in the chat file after its hook."""
ASKED_MAX = 5_000
"""The most prompts that are counted."""


def conversation(payload: dict[str, Any]) -> Conversation | None:
    """The conversation that a hook's input belongs to."""
    session = text(payload.get("session_id"))
    if not session:
        return None
    return Conversation(source=SOURCE, id=session, agent=SOURCE, cwd=text(payload.get("cwd")))


def items(payload: dict[str, Any], at: int, unique: str, state: dict[str, Any]) -> Iterator[Item]:
    """The items in a hook's input. `unique` identifies the input; `state` is kept from one input of
    a conversation to the next."""
    kind = text(payload.get("hook_event_name"))
    at = micros_of_iso(payload.get("timestamp")) or at
    if kind == "SessionStart":
        yield Began(id=unique, at=at, how=text(payload.get("source")))
    elif kind == "BeforeAgent":
        yield from _prompted(payload, at, state)
    elif kind == "BeforeTool":
        yield from _called(payload, at, state)
    elif kind == "AfterTool":
        yield from _returned(payload, at, state)
    elif kind == "AfterAgent":
        answer = text(payload.get("prompt_response"))
        if answer and state.get("no transcript"):
            content = [{"type": "text", "text": answer}]
            yield Answered(id=unique, at=at, reply={"role": "assistant", "content": content})
        prompt = text(state.get("prompt"))
        yield TurnEnded(id=f"end/{prompt}" if prompt else unique, at=at)
    elif kind == "SessionEnd":
        yield Ended(id=unique, at=at, reason=text(payload.get("reason")))


# -- looking things up in the chat file -------------------------------------------------------------


class ChatIndex(msgspec.Struct):
    """What a chat file contains: prompts with their times, and calls with the times at which they
    ended."""

    prompts: dict[str, int] = {}
    over: dict[str, int] = {}
    tools: dict[str, tuple[str, str]] = {}
    """Call → its prompt and tool."""


def _chat_index(payload: dict[str, Any], state: dict[str, Any]) -> ChatIndex | None:
    """The current content of the chat file; None if it cannot be read."""
    path = text(payload.get("transcript_path"))
    if not path or state.get("no transcript"):
        return None
    try:
        stat = os.stat(path)
        return _read_chat(path, stat.st_mtime_ns, stat.st_size)
    except (OSError, ValueError, InvalidInput):
        return None


@lru_cache(maxsize=4)
def _read_chat(path: str, changed: int, size: int) -> ChatIndex:
    found = ChatIndex()
    prompt = ""
    for one in chat.FORMAT.conversations(Path(path)):
        for item in chat.FORMAT.read(one, None, None):
            if isinstance(item, Prompted):
                prompt = item.id
                found.prompts[prompt] = item.at
            elif isinstance(item, Called):
                found.tools[item.id] = prompt, item.tool
            elif isinstance(item, Returned):
                found.over[item.id] = item.at
    return found


def _times_before(
    name: Callable[[int], str], happened: dict[str, int], at: int, least: int = 0
) -> int:
    """How often something had happened before a time."""
    number = least
    while happened.get(name(number), at) < at:
        number += 1
    return number


# -- deriving ids -----------------------------------------------------------------------------------


def _prompted(payload: dict[str, Any], at: int, state: dict[str, Any]) -> Iterator[Item]:
    asked = gemini_tools.typed_text(text(payload.get("prompt")))
    if is_own(asked):  # our own text, with which Gemini CLI continues a turn
        return
    chat_file = _chat_index(payload, state)
    counts: dict[str, int] = state.setdefault("asked", {})
    digest = text_id(asked)[:12]
    if chat_file is None:
        prompt = gemini_tools.prompt_id(asked, counts.get(digest, 0))
    else:
        number = _times_before(lambda n: gemini_tools.prompt_id(asked, n), chat_file.prompts, at)
        prompt = gemini_tools.prompt_id(asked, number)
        counts[digest] = number
        if has_placeholder(asked) and prompt not in chat_file.prompts:
            soon = (
                name
                for name, earlier in chat_file.prompts.items()
                if at <= earlier <= at + PROMPT_DELAY
            )
            prompt = next(soon, "")
    counts[digest] = counts.get(digest, 0) + 1
    if len(counts) > ASKED_MAX:
        del counts[next(iter(counts))]
    _set_prompt(state, prompt, at)
    if prompt:
        yield Prompted(id=prompt, at=at, content=strip_attachments(asked))


def _set_prompt(state: dict[str, Any], prompt: str, at: int) -> None:
    if state.get("prompt") != prompt:
        state.update(prompt=prompt, tried={}, open={})
    state["prompted"] = at


def _prompt_at(state: dict[str, Any], chat_file: ChatIndex | None, at: int) -> str:
    """The prompt that a hook belongs to: the last one before it, from the chat file or an earlier
    hook."""
    if chat_file is not None:
        earlier = [(time, name) for name, time in chat_file.prompts.items() if time <= at]
        time, name = max(earlier, default=(0, ""))
        if name and time >= int(state.get("prompted", 0)):
            _set_prompt(state, name, time)
    return text(state.get("prompt"))


def _called(payload: dict[str, Any], at: int, state: dict[str, Any]) -> Iterator[Item]:
    tool, arguments = text(payload.get("tool_name")), payload.get("tool_input")
    chat_file = _chat_index(payload, state)
    prompt = _prompt_at(state, chat_file, at)
    what = gemini_tools.call_digest(tool, arguments)
    waiting: list[str] = state.setdefault("open", {}).setdefault(what, [])
    if chat_file is not None and (not prompt or has_placeholder(shown(arguments))):
        name = _running_call(chat_file, prompt, tool, at, state)
    else:
        tried: dict[str, int] = state.setdefault("tried", {})
        number = _number(chat_file, prompt, tool, arguments, at, tried.get(what, 0))
        tried[what] = number + 1
        name = gemini_tools.call_id(prompt, tool, arguments, number)
    if name:
        waiting.append(name)
        effect = gemini_tools.effect_of(tool, arguments)
        yield Called(id=name, at=at, tool=tool, input=strip_attachments(arguments), effect=effect)


def _number(
    chat_file: ChatIndex | None, prompt: str, tool: str, arguments: Any, at: int, least: int
) -> int:
    over = chat_file.over if chat_file is not None else {}
    return _times_before(
        lambda n: gemini_tools.call_id(prompt, tool, arguments, n), over, at, least
    )


def _running_call(
    chat_file: ChatIndex, prompt: str, tool: str, at: int, state: dict[str, Any]
) -> str:
    """The call of a tool that was running at a time and is not matched to another hook."""
    taken = {name for names in state["open"].values() for name in names}
    under_way = (
        name
        for name, over in chat_file.over.items()
        if over >= at and chat_file.tools.get(name) == (prompt, tool) and name not in taken
    )
    return next(under_way, "")


def _returned(payload: dict[str, Any], at: int, state: dict[str, Any]) -> Iterator[Item]:
    tool, arguments = text(payload.get("tool_name")), payload.get("tool_input")
    answer = record(payload.get("tool_response"))
    chat_file = _chat_index(payload, state)
    prompt = _prompt_at(state, chat_file, at)
    what = gemini_tools.call_digest(tool, arguments)
    waiting: list[str] = state.setdefault("open", {}).get(what, [])
    if waiting:
        name = waiting.pop(0)
    elif chat_file is not None and (not prompt or has_placeholder(shown(arguments))):
        return  # left to the chat file
    else:
        number = _number(chat_file, prompt, tool, arguments, at, 0)
        name = gemini_tools.call_id(prompt, tool, arguments, number)
    failed = bool(answer.get("error"))
    output = answer.get("llmContent")
    output = (plain_text(output) or output) if isinstance(output, list) else output
    yield gemini_tools.result(
        name, tool, arguments, at, status="error" if failed else "success",
        output=answer if failed else output, display=answer.get("returnDisplay"),
        cwd=text(payload.get("cwd")),
    )  # fmt: skip
