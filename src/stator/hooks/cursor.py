"""Turns the input of Cursor's hooks into items.

Unverified: based on what other programs read from these hooks, not on a recording of Cursor itself.
Any field may be missing, and unknown input is ignored.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from stator.model.exchange.items import (
    Answered,
    Began,
    Called,
    Compacted,
    Conversation,
    Ended,
    Item,
    Noise,
    Prompted,
    Returned,
    Spawned,
    Touch,
    Touched,
    TurnEnded,
    text_id,
)

SOURCE = "cursor"
READS = frozenset("Read Grep Glob LS List Search codebase_search read_file list_dir grep".split())
"""Tools that change nothing."""


def conversation(said: dict[str, Any]) -> Conversation | None:
    """The conversation that a hook's input belongs to."""
    found = said.get("conversation_id") or said.get("session_id")
    if not isinstance(found, str):
        return None
    roots = said.get("workspace_roots")
    root = roots[0] if isinstance(roots, list) and roots else said.get("cwd")
    return Conversation(source=SOURCE, id=found, cwd=root if isinstance(root, str) else "")


def items(said: dict[str, Any], at: int, unique: str, state: dict[str, Any]) -> Iterator[Item]:
    """The items in a hook's input."""
    name = _text(said, "hook_event_name")
    if name == "beforeSubmitPrompt":
        turn = _text(said, "generation_id") or unique
        yield Prompted(id=f"turn/{turn}", at=at, content=_text(said, "prompt"))
    elif name in ("preToolUse", "postToolUse", "postToolUseFailure"):
        state["tools"] = True
        yield _call(name, said, at, unique)
    elif name in ("afterFileEdit", "afterTabFileEdit"):
        path = _text(said, "file_path")
        if path:
            yield Touched(id=unique, at=at, files=(Touch(path=path, op="modified"),))
    elif name == "afterShellExecution":
        yield from _shell(said, at, unique, state)
    elif name == "preCompact":
        state["compactions"] = count = int(state.get("compactions", 0)) + 1
        yield Compacted(id=f"compact/{count}", at=at)
    elif name == "subagentStart":
        child = _text(said, "subagent_id") or unique
        yield Spawned(id=unique, at=at, child=child, name=_text(said, "subagent_type"))
    else:
        yield from _course(name, said, at, unique)


def _course(name: str, said: dict[str, Any], at: int, unique: str) -> Iterator[Item]:
    if name == "sessionStart":
        yield Began(id=unique, at=at, how=_text(said, "source") or "startup")
    elif name == "sessionEnd":
        yield Ended(id=unique, at=at, reason=_text(said, "reason"))
    elif name == "stop":
        ended = _text(said, "status") not in ("aborted", "error")
        yield TurnEnded(id=unique, at=at, status="ok" if ended else "interrupted")
    elif name == "afterAgentResponse" and _text(said, "text"):
        yield Answered(id=unique, at=at, reply=_text(said, "text"))
    else:
        yield Noise(kind=name or "unnamed")


def _call(name: str, said: dict[str, Any], at: int, unique: str) -> Item:
    tool = _text(said, "tool_name") or "?"
    call = _text(said, "tool_use_id")
    if not call:  # without an id, both hooks of a call derive the same one from its content
        call = text_id(_text(said, "generation_id"), tool, said.get("tool_input"))
    if name == "preToolUse":
        effect: Any = "read" if tool in READS else "write"
        return Called(id=call, at=at, tool=tool, input=said.get("tool_input"), effect=effect)
    if name == "postToolUseFailure":
        cause = _text(said, "error_message") or _text(said, "error")
        return Returned(id=call, at=at, tool=tool, status="error", cause=cause)
    output = next((said[key] for key in ("tool_output", "tool_response") if key in said), None)
    return Returned(id=call, at=at, tool=tool, output=output)


def _shell(said: dict[str, Any], at: int, unique: str, state: dict[str, Any]) -> Iterator[Item]:
    """Items for a shell command, if the hooks for tools do not report it."""
    if state.get("tools"):
        yield Noise(kind="afterShellExecution")
        return
    yield Called(id=unique, at=at, tool="shell", input={"command": _text(said, "command")})
    yield Returned(id=unique, at=at, tool="shell", output=_text(said, "output"))


def _text(said: dict[str, Any], name: str) -> str:
    value = said.get(name)
    return value if isinstance(value, str) else ""
