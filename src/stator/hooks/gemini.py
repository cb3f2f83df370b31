"""What Gemini CLI's hooks are told, as items. Ids are those that a chat file has for the same things.

Hooks carry no id of a call, and they may be installed, or get lost, in the middle of a conversation,
so counting what they tell is not enough to name it as the chat file does. Where that file can be read,
it is asked what had been said and done before the moment of a notice; only where it cannot, notices
are counted.

Text that was redacted on its way here cannot be named from what it says. It is found in the file by
its moment, or left for the file to tell.
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
from stator.importers.reading.attachments import without_bytes
from stator.importers.reading.fields import moment, record, text
from stator.importers.reading.plain_text import words
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
from stator.model.log.redact import has_placeholder
from stator.model.values.json_text import shown

SOURCE = "gemini"
SOON = 10_000_000
"""µs after a notice of a prompt in which the chat file has it."""
ASKED_MAX = 5_000
"""Prompts that are counted."""


def conversation(said: dict[str, Any]) -> Conversation | None:
    """The conversation a notice is of."""
    session = text(said.get("session_id"))
    if not session:
        return None
    return Conversation(source=SOURCE, id=session, agent=SOURCE, cwd=text(said.get("cwd")))


def items(said: dict[str, Any], at: int, unique: str, state: dict[str, Any]) -> Iterator[Item]:
    """What a notice tells; `unique` names it, `state` is what is remembered of its conversation."""
    kind = text(said.get("hook_event_name"))
    at = moment(said.get("timestamp")) or at
    if kind == "SessionStart":
        yield Began(id=unique, at=at, how=text(said.get("source")))
    elif kind == "BeforeAgent":
        yield from _prompted(said, at, state)
    elif kind == "BeforeTool":
        yield from _called(said, at, state)
    elif kind == "AfterTool":
        yield from _returned(said, at, state)
    elif kind == "AfterAgent":
        answer = text(said.get("prompt_response"))
        if answer and state.get("no transcript"):
            content = [{"type": "text", "text": answer}]
            yield Answered(id=unique, at=at, reply={"role": "assistant", "content": content})
        yield TurnEnded(id=unique, at=at)
    elif kind == "SessionEnd":
        yield Ended(id=unique, at=at, reason=text(said.get("reason")))


# -- what the chat file knows -----------------------------------------------------------------------


class Known(msgspec.Struct):
    """What a chat file has: prompts and when they were told, calls and when they were over."""

    prompts: dict[str, int] = {}
    over: dict[str, int] = {}
    tools: dict[str, tuple[str, str]] = {}
    """A call's prompt and tool."""


def _known(said: dict[str, Any], state: dict[str, Any]) -> Known | None:
    """What the chat file knows by now; None: there is none that could be read."""
    path = text(said.get("transcript_path"))
    if not path or state.get("no transcript"):
        return None
    try:
        stat = os.stat(path)
        return _read(path, stat.st_mtime_ns, stat.st_size)
    except (OSError, ValueError, InvalidInput):
        return None


@lru_cache(maxsize=4)
def _read(path: str, changed: int, size: int) -> Known:
    found = Known()
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


def _first(name: Callable[[int], str], happened: dict[str, int], at: int, least: int = 0) -> int:
    """How often something had happened before a moment."""
    number = least
    while happened.get(name(number), at) < at:
        number += 1
    return number


# -- naming -----------------------------------------------------------------------------------------


def _prompted(said: dict[str, Any], at: int, state: dict[str, Any]) -> Iterator[Item]:
    asked = gemini_tools.spoken(text(said.get("prompt")))
    known = _known(said, state)
    counts: dict[str, int] = state.setdefault("asked", {})
    digest = text_id(asked)[:12]
    if known is None:
        prompt = gemini_tools.prompt_id(asked, counts.get(digest, 0))
    else:
        number = _first(lambda n: gemini_tools.prompt_id(asked, n), known.prompts, at)
        prompt = gemini_tools.prompt_id(asked, number)
        counts[digest] = number
        if has_placeholder(asked) and prompt not in known.prompts:
            soon = (name for name, told in known.prompts.items() if at <= told <= at + SOON)
            prompt = next(soon, "")
    counts[digest] = counts.get(digest, 0) + 1
    if len(counts) > ASKED_MAX:
        del counts[next(iter(counts))]
    _turn(state, prompt, at)
    if prompt:
        yield Prompted(id=prompt, at=at, content=without_bytes(asked))


def _turn(state: dict[str, Any], prompt: str, at: int) -> None:
    if state.get("prompt") != prompt:
        state.update(prompt=prompt, tried={}, open={})
    state["prompted"] = at


def _now(state: dict[str, Any], known: Known | None, at: int) -> str:
    """The prompt a notice belongs to: the last before it, whoever tells of it."""
    if known is not None:
        told = [(moment, name) for name, moment in known.prompts.items() if moment <= at]
        moment, name = max(told, default=(0, ""))
        if name and moment >= int(state.get("prompted", 0)):
            _turn(state, name, moment)
    return text(state.get("prompt"))


def _called(said: dict[str, Any], at: int, state: dict[str, Any]) -> Iterator[Item]:
    tool, given = text(said.get("tool_name")), said.get("tool_input")
    known = _known(said, state)
    prompt = _now(state, known, at)
    what = gemini_tools.asked(tool, given)
    waiting: list[str] = state.setdefault("open", {}).setdefault(what, [])
    if known is not None and (not prompt or has_placeholder(shown(given))):
        name = _by_moment(known, prompt, tool, at, state)
    else:
        tried: dict[str, int] = state.setdefault("tried", {})
        number = _number(known, prompt, tool, given, at, tried.get(what, 0))
        tried[what] = number + 1
        name = gemini_tools.call_id(prompt, tool, given, number)
    if name:
        waiting.append(name)
        effect = gemini_tools.effect_of(tool)
        yield Called(id=name, at=at, tool=tool, input=without_bytes(given), effect=effect)


def _number(known: Known | None, prompt: str, tool: str, given: Any, at: int, least: int) -> int:
    over = known.over if known is not None else {}
    return _first(lambda n: gemini_tools.call_id(prompt, tool, given, n), over, at, least)


def _by_moment(known: Known, prompt: str, tool: str, at: int, state: dict[str, Any]) -> str:
    """The call of a tool that was under way at a moment and is not taken for another one."""
    taken = {name for names in state["open"].values() for name in names}
    under_way = (
        name
        for name, over in known.over.items()
        if over >= at and known.tools.get(name) == (prompt, tool) and name not in taken
    )
    return next(under_way, "")


def _returned(said: dict[str, Any], at: int, state: dict[str, Any]) -> Iterator[Item]:
    tool, given = text(said.get("tool_name")), said.get("tool_input")
    answer = record(said.get("tool_response"))
    known = _known(said, state)
    prompt = _now(state, known, at)
    what = gemini_tools.asked(tool, given)
    waiting: list[str] = state.setdefault("open", {}).get(what, [])
    if waiting:
        name = waiting.pop(0)
    elif known is not None and (not prompt or has_placeholder(shown(given))):
        return  # the file tells
    else:
        number = _number(known, prompt, tool, given, at, 0)
        name = gemini_tools.call_id(prompt, tool, given, number)
    failed = bool(answer.get("error"))
    output = answer.get("llmContent")
    output = (words(output) or output) if isinstance(output, list) else output
    yield gemini_tools.result(
        name, tool, given, at, status="error" if failed else "success",
        output=answer if failed else output, display=answer.get("returnDisplay"),
        cwd=text(said.get("cwd")),
    )  # fmt: skip
