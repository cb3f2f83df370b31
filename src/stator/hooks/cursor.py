"""Turns the input of Cursor's hooks into items.

Unverified: based on what other programs read from these hooks, not on a recording of Cursor itself.
Any field may be missing, and unknown input is ignored.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from stator.importers.reading.edit_places import swaps_of
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


def conversation(payload: dict[str, Any]) -> Conversation | None:
    """The conversation that a hook's input belongs to."""
    found = payload.get("conversation_id") or payload.get("session_id")
    if not isinstance(found, str):
        return None
    roots = payload.get("workspace_roots")
    root = roots[0] if isinstance(roots, list) and roots else payload.get("cwd")
    return Conversation(source=SOURCE, id=found, cwd=root if isinstance(root, str) else "")


def items(payload: dict[str, Any], at: int, unique: str, state: dict[str, Any]) -> Iterator[Item]:
    """The items in a hook's input."""
    name = _text(payload, "hook_event_name")
    if name == "beforeSubmitPrompt":
        turn = _text(payload, "generation_id") or unique
        yield Prompted(id=f"turn/{turn}", at=at, content=_text(payload, "prompt"))
    elif name in ("preToolUse", "postToolUse", "postToolUseFailure"):
        state["tools"] = True
        yield _call(name, payload, at, unique)
    elif name in ("afterFileEdit", "afterTabFileEdit"):
        path = _text(payload, "file_path")
        if path:
            edits = payload.get("edits")
            places = swaps_of(edits) if isinstance(edits, list) else ()
            touch = Touch(path=path, op="modified", places=places)
            yield Touched(id=unique, at=at, files=(touch,))
    elif name == "afterShellExecution":
        yield from _shell(payload, at, unique, state)
    elif name == "preCompact":
        state["compactions"] = count = int(state.get("compactions", 0)) + 1
        yield Compacted(id=f"compact/{count}", at=at)
    elif name == "subagentStart":
        child = _text(payload, "subagent_id") or unique
        yield Spawned(id=unique, at=at, child=child, name=_text(payload, "subagent_type"))
    else:
        yield from _lifecycle(name, payload, at, unique)


def _lifecycle(name: str, payload: dict[str, Any], at: int, unique: str) -> Iterator[Item]:
    if name == "sessionStart":
        yield Began(id=unique, at=at, how=_text(payload, "source") or "startup")
    elif name == "sessionEnd":
        yield Ended(id=unique, at=at, reason=_text(payload, "reason"))
    elif name == "stop":
        ended = _text(payload, "status") not in ("aborted", "error")
        yield TurnEnded(id=unique, at=at, status="ok" if ended else "interrupted")
    elif name == "afterAgentResponse" and _text(payload, "text"):
        yield Answered(id=unique, at=at, reply=_text(payload, "text"))
    else:
        yield Noise(kind=name or "unnamed")


def _call(name: str, payload: dict[str, Any], at: int, unique: str) -> Item:
    tool = _text(payload, "tool_name") or "?"
    call = _text(payload, "tool_use_id")
    if not call:  # without an id, both hooks of a call derive the same one from its content
        call = text_id(_text(payload, "generation_id"), tool, payload.get("tool_input"))
    if name == "preToolUse":
        effect: Any = "read" if tool in READS else "write"
        return Called(id=call, at=at, tool=tool, input=payload.get("tool_input"), effect=effect)
    if name == "postToolUseFailure":
        cause = _text(payload, "error_message") or _text(payload, "error")
        return Returned(id=call, at=at, tool=tool, status="error", cause=cause)
    output = next(
        (payload[key] for key in ("tool_output", "tool_response") if key in payload), None
    )
    return Returned(id=call, at=at, tool=tool, output=output)


def _shell(payload: dict[str, Any], at: int, unique: str, state: dict[str, Any]) -> Iterator[Item]:
    """Items for a shell command, if the hooks for tools do not report it."""
    if state.get("tools"):
        yield Noise(kind="afterShellExecution")
        return
    yield Called(id=unique, at=at, tool="shell", input={"command": _text(payload, "command")})
    yield Returned(id=unique, at=at, tool="shell", output=_text(payload, "output"))


def _text(payload: dict[str, Any], name: str) -> str:
    value = payload.get(name)
    return value if isinstance(value, str) else ""
