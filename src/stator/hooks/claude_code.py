"""Turns the input of Claude Code's hooks into items. Pure.

Each item has the id that it has in the transcript (the provider's id of a call, the prompt id of a
turn, the number of a compaction, the sub-agent's id). So it is recorded once, whether the hook or the
transcript comes first. The model's answers, and reports of background tasks, are only in the transcript,
and are left to it unless it cannot be read. That the program started and ended (`LIFECYCLE`) only hooks say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from stator.importers.claude_code import tools
from stator.importers.claude_code.line_fields import author_of, compaction_id, title_of, turn_id
from stator.model.exchange.items import (
    Answered,
    Began,
    Called,
    Compacted,
    Conversation,
    Ended,
    Item,
    Noted,
    Prompted,
    Returned,
    Spawned,
    TurnEnded,
    text_id,
)

SOURCE = "claude-code"
NO_TRANSCRIPT = "no transcript"
"""A key in `state`: the session's transcript could not be read, so hooks are the only source."""

LIFECYCLE = (Began, Ended)
"""The items that no transcript contains."""

HookInput = Mapping[str, Any]
State = dict[str, Any]


def conversation(payload: HookInput) -> Conversation | None:
    """The conversation that a hook's input belongs to."""
    session = _text(payload, "session_id")
    if not session:
        return None
    name = _text(payload, "session_title") or title_of(_text(payload, "prompt"))
    return Conversation(
        source=SOURCE, id=session, name=name, agent=SOURCE, cwd=_text(payload, "cwd")
    )


def items(payload: HookInput, at: int, unique: str, state: State) -> Iterator[Item]:
    """The items in a hook's input. `unique` identifies the input, for items without an id of their
    own; `state` is kept from one input of a session to the next."""
    make = _MAKERS.get(_text(payload, "hook_event_name"))
    if make is not None:
        yield from make(payload, at, unique, state)


def _started(payload: HookInput, at: int, unique: str, state: State) -> Iterator[Item]:
    how = _text(payload, "source")
    if how == "compact":  # the program continues; this start marks the end of a compaction
        yield from _compacted(payload, at, state, "")
        return
    state.pop("compacting", None)
    yield Began(id=f"hook/{unique}", at=at, how=how)


def _ended(payload: HookInput, at: int, unique: str, state: State) -> Iterator[Item]:
    yield Ended(id=f"hook/{unique}", at=at, reason=_text(payload, "reason"))


def _prompted(payload: HookInput, at: int, unique: str, state: State) -> Iterator[Item]:
    text, prompt = _text(payload, "prompt"), _text(payload, "prompt_id")
    if not prompt:  # older versions give no prompt id, and only the transcript identifies the turn
        if not state.get(NO_TRANSCRIPT):
            return
        prompt = f"hook-{unique}"
    within = _within(payload)
    # Claude Code submits the reports of background tasks like prompts. The transcript has them under other ids.
    if author_of(payload, text, in_agent=bool(within)) != "user":
        if state.get(NO_TRANSCRIPT):
            yield Noted(id=turn_id(prompt, text), at=at, within=within, content=text, by="agent")
        return
    yield Prompted(id=turn_id(prompt, text), at=at, within=within, content=text)


def _called(payload: HookInput, at: int, unique: str, state: State) -> Iterator[Item]:
    call = _call(payload)
    if call.id:
        yield Called(
            id=call.id,
            at=at,
            within=_within(payload),
            tool=call.tool,
            input=tools.without_images(payload.get("tool_input")),
            effect=tools.effect_of(call.tool),
        )


def _returned(payload: HookInput, at: int, unique: str, state: State) -> Iterator[Item]:
    call, result = _call(payload), payload.get("tool_response")
    if not call.id:
        return
    within = _within(payload)
    # an interrupted program may report that in a result that is not an error
    returned_item = tools.result_of(
        call, at=at, within=within, output=_visible_output(result), result=result, is_error=False
    )
    session = _text(payload, "session_id")
    start, end = tools.subagent_of(call, result, session, at=at, within=within)
    plan = None
    if returned_item.status == "ok":
        names, text = state.setdefault("tasks", {}), tools.text_of(returned_item.output)
        plan = tools.plan_of(call, text, result, names, at=at, within=within)
    yield from (item for item in (start, returned_item, end, plan) if item is not None)


def _failed(payload: HookInput, at: int, unique: str, state: State) -> Iterator[Item]:
    call, error = _call(payload), _text(payload, "error")
    if not call.id:
        return
    denial = "interrupted" if payload.get("is_interrupt") is True else ""
    status, cause = tools.outcome_of(call, error, True, None, denial)
    yield Returned(
        id=call.id,
        at=at,
        within=_within(payload),
        status=status,
        cause="interrupted" if denial else cause,
        output=error,
        source=tools.source_of(call.tool),
        tool=call.tool,
    )


def _denied(payload: HookInput, at: int, unique: str, state: State) -> Iterator[Item]:
    call = _call(payload)
    if call.id:
        reason = tools.first_line(_text(payload, "reason"))
        yield Returned(
            id=call.id,
            at=at,
            within=_within(payload),
            status="denied",
            cause=reason,
            tool=call.tool,
        )


def _compacting(payload: HookInput, at: int, unique: str, state: State) -> Iterator[Item]:
    """Note that a compaction begins; nothing else is known about it before its end."""
    state["compacting"] = True
    yield from ()


def _compacted(payload: HookInput, at: int, state: State, summary: str) -> Iterator[Item]:
    if not state.pop("compacting", False):
        return
    within = _within(payload)
    counts = state.setdefault("compactions", {})
    counts[within] = counts.get(within, 0) + 1
    yield Compacted(id=compaction_id(counts[within]), at=at, within=within, summary=summary)


def _was_compacted(payload: HookInput, at: int, unique: str, state: State) -> Iterator[Item]:
    yield from _compacted(payload, at, state, _text(payload, "compact_summary"))


def _stopped(payload: HookInput, at: int, unique: str, state: State) -> Iterator[Item]:
    within, last = _within(payload), _text(payload, "last_assistant_message")
    if state.get(NO_TRANSCRIPT) and last:
        identifier = f"stop/{_text(payload, 'prompt_id') or unique}/{text_id(last)}"
        yield Answered(id=identifier, at=at, within=within, reply=last)
    yield TurnEnded(at=at, within=within)


def _turn_failed(payload: HookInput, at: int, unique: str, state: State) -> Iterator[Item]:
    why = tools.first_line(_text(payload, "error"))
    yield TurnEnded(at=at, within=_within(payload), status="interrupted", why=why)


def _agent(payload: HookInput, at: int, unique: str, state: State) -> Iterator[Item]:
    session, agent = _text(payload, "session_id"), _text(payload, "agent_id")
    kind = _text(payload, "agent_type")
    # A compaction runs in agents without a type; nobody started them as sub-agents.
    if not agent or not kind:
        return
    has_stopped = _text(payload, "hook_event_name") == "SubagentStop"
    yield Spawned(
        id=f"child/{agent}/end" if has_stopped else f"child/{agent}",
        at=at,
        child=tools.child_id(session, agent),
        name=kind,
        status="ended" if has_stopped else "started",
    )


_MAKERS: dict[str, Callable[[HookInput, int, str, State], Iterator[Item]]] = {
    "SessionStart": _started,
    "SessionEnd": _ended,
    "UserPromptSubmit": _prompted,
    "PreToolUse": _called,
    "PostToolUse": _returned,
    "PostToolUseFailure": _failed,
    "PermissionDenied": _denied,
    "PreCompact": _compacting,
    "PostCompact": _was_compacted,
    "Stop": _stopped,
    "StopFailure": _turn_failed,
    "SubagentStart": _agent,
    "SubagentStop": _agent,
}
"""Other hooks contain nothing that these do not."""


def _call(payload: HookInput) -> tools.ClaudeCodeCall:
    arguments = payload.get("tool_input")
    return tools.ClaudeCodeCall(
        _text(payload, "tool_use_id"),
        _text(payload, "tool_name") or "?",
        arguments if isinstance(arguments, dict) else {},
        _text(payload, "cwd"),
    )


def _visible_output(result: Any) -> Any:
    """The part of a result that the model may have received; the file's earlier content is left
    out."""
    if not isinstance(result, dict):
        return tools.without_images(result)
    left_out = ("originalFile", "structuredPatch", "gitDiff")
    return tools.without_images({k: v for k, v in result.items() if k not in left_out})


def _within(payload: HookInput) -> str:
    """The sub-agent's conversation, if the hook ran in one."""
    agent = _text(payload, "agent_id")
    return tools.child_id(_text(payload, "session_id"), agent) if agent else ""


def _text(payload: HookInput, name: str) -> str:
    found = payload.get(name)
    return found if isinstance(found, str) else ""
