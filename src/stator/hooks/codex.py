"""Turns the input of Codex's hooks into items, with the ids that a rollout has for the same things.

A hook reports a call before it runs; a rollout does not. Everything else is in both, and the source
that comes second adds nothing. Codex has no hook for a failed call: how a command ended is known
from the rollout, or from the tool's output.

The hooks of a sub-agent name the session of its parent, and beside it the sub-agent itself (`agent_id`). What
they report belongs to the sub-agent's conversation. Only that it started and ended belongs to the parent's.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from stator.importers.codex import tools
from stator.importers.codex.messages import parts_of
from stator.importers.reading.attachments import strip_attachments
from stator.importers.reading.fields import record, text
from stator.model.exchange.items import (
    Answered,
    Author,
    Began,
    Called,
    Compacted,
    Conversation,
    Ended,
    Item,
    Planned,
    Prompted,
    Returned,
    Spawned,
    TurnEnded,
)

SOURCE = "codex"
CHILD_LIFECYCLE = ("SubagentStart", "SubagentStop")
"""Hooks that tell a parent about its sub-agents."""


def conversation(payload: dict[str, Any]) -> Conversation | None:
    """The conversation that a hook's input belongs to."""
    session, cwd = text(payload.get("session_id")), text(payload.get("cwd"))
    if not session:
        return None
    child = _child_of(payload)
    if child and child != session:
        return Conversation(source=SOURCE, id=child, agent=SOURCE, cwd=cwd, parent=session)
    return Conversation(source=SOURCE, id=session, agent=SOURCE, cwd=cwd)


def _child_of(payload: dict[str, Any]) -> str:
    """The sub-agent whose hook this is; "" for an agent that a person started."""
    if text(payload.get("hook_event_name")) in CHILD_LIFECYCLE:
        return ""
    return text(payload.get("agent_id"))


def items(payload: dict[str, Any], at: int, unique: str, state: dict[str, Any]) -> Iterator[Item]:
    """The items in a hook's input. `unique` identifies the input; `state` is kept from one input of
    a conversation to the next."""
    kind = text(payload.get("hook_event_name"))
    prompt = f"turn/{text(payload.get('turn_id'))}"
    call = text(payload.get("tool_use_id"))
    if kind == "SessionStart":
        how = text(payload.get("source"))
        if how == "compact":  # the program continues; this start marks the end of a compaction
            yield from _compacted(True, at, state)
        else:
            yield Began(id=unique, at=at, how=how)
    elif kind == "UserPromptSubmit" and prompt != "turn/":
        by: Author = "agent" if _child_of(payload) else "user"
        yield Prompted(id=prompt, at=at, content=_typed(payload.get("prompt")), by=by)
    elif kind == "PreToolUse" and call:
        tool = text(payload.get("tool_name"))
        arguments = strip_attachments(payload.get("tool_input"))
        effect = tools.effect_of(tool, arguments)
        yield Called(id=call, at=at, tool=tool, input=arguments, effect=effect)
    elif kind == "PostToolUse" and call:
        # the hook's input does not show how a command ended; the rollout does
        if state.get("no transcript") or text(payload.get("tool_name")) not in tools.SHELLS:
            yield from _returned(payload, call, at)
    elif kind == "PreCompact":
        state["compacting"] = True
    elif kind == "PostCompact":
        state["compacting"] = True
        yield from _compacted(True, at, state)
    elif kind in CHILD_LIFECYCLE and text(payload.get("agent_id")):
        status = "started" if kind == "SubagentStart" else "ended"
        child = text(payload.get("agent_id"))
        name = child if status == "started" else f"{child}/ended"
        named = text(payload.get("agent_type"))
        yield Spawned(id=name, at=at, child=child, name=named, status=status)
    elif kind == "Stop":
        yield from _stopped(payload, at, unique, state)
    elif kind == "SessionEnd":
        yield Ended(id=unique, at=at, reason=text(payload.get("reason")))


def _typed(prompt: Any) -> Any:
    """What a person typed, without what Codex puts before it."""
    typed = parts_of({"role": "user", "content": prompt}).typed
    return strip_attachments(prompt) if typed is None else typed


def _returned(payload: dict[str, Any], call: str, at: int) -> Iterator[Item]:
    tool, arguments, answer = (
        text(payload.get("tool_name")),
        payload.get("tool_input"),
        payload.get("tool_response"),
    )
    ended = tools.outcome_of(tool, answer, {"result": record(answer)}, arguments)
    fine = ended.status == "ok"
    output = tools.unwrap_output(answer)[0] if isinstance(answer, str) else answer
    yield Returned(
        id=call, at=at, tool=tool, status=ended.status, cause=ended.cause,
        output=strip_attachments(output),
        files=tools.files_of(tool, arguments, text(payload.get("cwd")), {}) if fine else (),
    )  # fmt: skip
    steps = tools.steps_of(tool, arguments) if fine else ()
    if steps:
        yield Planned(id=call, at=at, steps=steps)


def _compacted(done: bool, at: int, state: dict[str, Any]) -> Iterator[Item]:
    """The item for a compaction, once, however many hooks report it."""
    if done and state.pop("compacting", False):
        state["compactions"] = int(state.get("compactions", 0)) + 1
        if state.get("no transcript"):  # otherwise the rollout contains it, with its summary
            yield Compacted(id=f"compact/{state['compactions']}", at=at)


def _stopped(
    payload: dict[str, Any], at: int, unique: str, state: dict[str, Any]
) -> Iterator[Item]:
    words = text(payload.get("last_assistant_message"))
    if words and state.get("no transcript"):
        content = [{"type": "output_text", "text": words}]
        message = {"type": "message", "role": "assistant", "content": content}
        yield Answered(
            id=unique, at=at, reply={"output": [message]}, model=text(payload.get("model"))
        )
    turn = text(payload.get("turn_id"))
    yield TurnEnded(id=f"end/turn/{turn}" if turn else unique, at=at)
