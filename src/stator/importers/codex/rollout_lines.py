"""Classifies the lines of Codex rollouts, of all versions.

A line is `{timestamp, ordinal?, type, payload}`; the oldest files contain bare items instead.
"""

from __future__ import annotations

import re
from typing import Any

from stator.importers.reading.fields import record, text
from stator.model.log.shown_text import cut_short

SOURCE = "codex"
SETTING_MAX = 200
"""The most characters of a setting."""
THREAD = re.compile(r"[0-9a-fA-F][0-9a-fA-F-]{7,63}")
ANSWER_ITEMS = frozenset({"reasoning"})
CALLS = frozenset(
    "function_call custom_tool_call local_shell_call tool_search_call web_search_call "
    "image_generation_call".split()
)
PROVIDER_CALLS = frozenset({"web_search_call", "image_generation_call"})
"""Calls that the provider runs itself: the same item contains the request and the result."""
OUTPUTS = frozenset("function_call_output custom_tool_call_output tool_search_output".split())
IGNORED_ITEMS = frozenset(
    "compaction context_compaction compaction_summary compaction_trigger ghost_snapshot "
    "additional_tools".split()
)
ITEM_TYPES = ANSWER_ITEMS | CALLS | OUTPUTS | IGNORED_ITEMS | {"message"}
"""Items that the oldest files contain without an envelope."""
IGNORED = frozenset("world_state security_risk_score state session_state".split())
IGNORED_NOTICES = frozenset(
    "user_message agent_message agent_reasoning agent_reasoning_raw_content thread_settings_applied "
    "agent_reasoning_section_break agent_message_delta agent_reasoning_delta context_compacted "
    "session_configured environment_connected environment_disconnected thread_goal_updated warning "
    "thread_queue_changed mcp_startup_update mcp_startup_complete mcp_tool_call_begin stream_error "
    "web_search_begin web_search_end image_generation_begin image_generation_end exec_command_begin "
    "exec_command_output_delta terminal_interaction view_image_tool_call exec_approval_request "
    "request_permissions request_user_input dynamic_tool_call_request dynamic_tool_call_response "
    "elicitation_request apply_patch_approval_request guardian_assessment guardian_warning "
    "deprecation_notice background_event undo_started undo_completed patch_apply_begin turn_diff "
    "get_history_entry_response plan_update plan_delta entered_review_mode exited_review_mode "
    "raw_response_item item_started hook_started hook_completed model_reroute model_verification "
    "turn_moderation_metadata safety_buffering realtime_conversation_started shutdown_complete "
    "realtime_conversation_realtime realtime_conversation_closed realtime_conversation_sdp "
    "skills_update_available collab_agent_spawn_begin collab_agent_interaction_begin "
    "collab_agent_interaction_end collab_waiting_begin collab_waiting_end collab_close_begin "
    "collab_close_end collab_resume_begin collab_resume_end sub_agent_activity".split()
)
RESULT_ITEMS = frozenset(
    "CommandExecution McpToolCall FileChange DynamicToolCall WebSearch".split()
)
"""Completed items whose notice contains a structured result."""
RESULT_NOTICES = frozenset({"exec_command_end", "mcp_tool_call_end", "patch_apply_end"})
"""The same, as older versions write it."""


def unwrap_line(value: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """The kind of a line and its payload, from any version's envelope; the kind is "" if it is
    unknown."""
    kind, payload = value.get("type"), value.get("payload")
    if isinstance(kind, str) and isinstance(payload, dict):
        return kind, payload
    if "payload" in value:
        return "", value
    if kind is None and isinstance(value.get("id"), str) and "timestamp" in value:
        return "session_meta", value
    if "record_type" in value:
        return "state", value
    return ("response_item", value) if isinstance(kind, str) and kind in ITEM_TYPES else ("", value)


def own_history_start(meta: dict[str, Any] | None) -> int:
    """The ordinal of the first line that a sub-agent's file did not copy from its parent; 0: all are its own."""
    start = record(meta).get("subagent_history_start_ordinal")
    return start if type(start) is int and start > 0 else 0


def is_inherited(start: int, value: dict[str, Any] | None) -> bool:
    """Whether a sub-agent's file copied a line from its parent."""
    ordinal = record(value).get("ordinal")
    return type(ordinal) is int and ordinal < start


def parent_of(meta: dict[str, Any]) -> str:
    """The session that started a sub-agent; "" for other sessions."""
    spawned = record(record(record(meta.get("source")).get("subagent")).get("thread_spawn"))
    return text(meta.get("parent_thread_id")) or text(spawned.get("parent_thread_id"))


def settings_of(context: dict[str, Any]) -> dict[str, str]:
    """What the agent runs with, from the context of a turn."""
    mode = record(context.get("collaboration_mode"))
    sandbox = record(context.get("sandbox_policy"))
    found = {
        "model": context.get("model"),
        "approval_policy": context.get("approval_policy"),
        "sandbox": sandbox.get("type") or sandbox.get("mode"),
        "reasoning_effort": context.get("effort")
        or record(mode.get("settings")).get("reasoning_effort"),
        "mode": mode.get("mode"),
    }
    return {
        name: cut_short(value, SETTING_MAX)
        for name, value in found.items()
        if isinstance(value, str) and value
    }


def labels_of(meta: dict[str, Any], fork_of: str = "") -> dict[str, str]:
    """Facts about a session that become labels."""
    found = {
        "version": meta.get("cli_version"),
        "branch": record(meta.get("git")).get("branch"),
        "originator": meta.get("originator"),
        "role": meta.get("agent_role"),
        "forked from": fork_of,
    }
    return {name: value for name, value in found.items() if isinstance(value, str) and value}
