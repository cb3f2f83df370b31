"""Writes Codex rollouts of three versions, with everything that can happen in one, for property tests.

A rollout is a list of lines, and the numbers of lines after which it can come to a rest: Codex has ended a
turn or was killed, and what follows is another turn.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

THREAD = "0199dddd-0000-7000-8000-00000000000a"
PARENT = "0199dddd-0000-7000-8000-00000000000b"
STYLES = ("2025-09", "2026-01", "2026-11")
ENDS = ("complete", "complete", "aborted", "failed", "killed")
TOOLS = (
    "exec",
    "exec",
    "failing",
    "plan",
    "bad plan",
    "patch",
    "mcp",
    "search",
    "spawn",
    "aborted",
)
EXTRAS = ("note", "steer", "agent", "compact", "rollback", "setting", "odd")


@dataclass
class Rollout:
    """The lines of a rollout while they are written."""

    style: str
    lines: list[dict[str, Any]] = field(default_factory=list)
    rests: list[int] = field(default_factory=list)
    number: int = 0

    def add(self, kind: str, **payload: Any) -> None:
        stamp = f"2026-10-01T09:{len(self.lines) // 60 % 60:02}:{len(self.lines) % 60:02}.000Z"
        line: dict[str, Any] = {"timestamp": stamp, "type": kind, "payload": payload}
        if self.style == STYLES[2]:
            line["ordinal"] = len(self.lines)
        self.lines.append(line)

    def say(self, kind: str, **payload: Any) -> None:
        named = {"id": self.name(kind[:3])} if self.style == STYLES[2] else {}
        self.add("response_item", type=kind, **named, **payload)

    def notice(self, kind: str, **payload: Any) -> None:
        self.add("event_msg", type=kind, **payload)

    def name(self, kind: str) -> str:
        self.number += 1
        return f"{kind}_{self.number}"

    def message(self, role: str, words: str) -> None:
        kind = "output_text" if role == "assistant" else "input_text"
        self.say("message", role=role, content=[{"type": kind, "text": words}])

    @property
    def data(self) -> bytes:
        return "".join(json.dumps(line) + "\n" for line in self.lines).encode()


def write_turn(out: Rollout, draw: Any) -> None:
    """Write one turn, whole or cut short."""
    turn = out.name("turn")
    begin = len(out.lines)
    if out.style != STYLES[0]:
        out.notice("task_started", turn_id=turn)
    for _ in range(draw(st.integers(0, 2))):
        out.message(*draw(st.sampled_from([("developer", "<permissions>"), ("user", ENVIRONMENT)])))
    if out.style == STYLES[2]:
        write_context(out, draw, turn)
    if draw(st.integers(0, 9)):
        out.message("user", draw(st.sampled_from(["go", "again", EDITOR, "mend it"])))
    else:
        out.add("inter_agent_communication_metadata", trigger_turn=True)
        out.say(
            "agent_message",
            author="lead",
            recipient="fern",
            content=[{"type": "input_text", "text": "dig"}],
        )
    if out.style != STYLES[2]:
        write_context(out, draw, turn)
    for _ in range(draw(st.integers(0, 3))):
        write_step(out, draw, turn)
        if draw(st.booleans()):
            write_extra(out, draw, turn)
    write_answer(out, draw, calls=[])
    end = draw(st.sampled_from(ENDS))
    if end == "killed":
        del out.lines[draw(st.integers(begin + 1, len(out.lines))) :]
    elif end == "aborted":
        out.notice("turn_aborted", turn_id=turn, reason="interrupted")
    elif out.style != STYLES[0]:
        if end == "failed":
            out.notice("error", message="no more tokens")
        out.notice("task_complete", turn_id=turn)
    out.rests.append(len(out.lines))


ENVIRONMENT = "<environment_context>\n  <cwd>/home/dev/garden</cwd>\n</environment_context>"
EDITOR = (
    "# Context from my IDE setup:\n\n## Open tabs:\n- a.md\n\n## My request for Codex:\nread a.md"
)


def write_context(out: Rollout, draw: Any, turn: str) -> None:
    model = draw(st.sampled_from(["gpt-a", "gpt-a", "gpt-b"]))
    out.add("turn_context", turn_id=turn, cwd="/home/dev/garden", model=model, approval_policy="never",
            sandbox_policy={"type": "read-only"}, effort=draw(st.sampled_from(["low", "high"])))  # fmt: skip


def write_step(out: Rollout, draw: Any, turn: str) -> None:
    """Write an answer with calls, what becomes of them, and their results."""
    calls = [
        (tool, out.name("call"))
        for tool in draw(st.lists(st.sampled_from(TOOLS), min_size=1, max_size=3))
    ]
    write_answer(out, draw, calls)
    calls = [(tool, name) for tool, name in calls if tool != "search"]
    if out.style == STYLES[2]:
        for tool, name in draw(st.permutations(calls)):
            if draw(st.booleans()):
                write_result_notice(out, tool, name, turn)
    for tool, name in draw(st.permutations(calls)):
        out.say(
            "custom_tool_call_output" if tool == "patch" else "function_call_output",
            call_id=name, output=output_of(tool),
        )  # fmt: skip
    if out.style == STYLES[0]:
        write_context(out, draw, turn)


def write_answer(out: Rollout, draw: Any, calls: list[tuple[str, str]]) -> None:
    if out.style == STYLES[0]:
        write_cost(out)
    if draw(st.booleans()):
        out.say("reasoning", summary=[], content=None, encrypted_content="gAAA")
    if not calls or draw(st.booleans()):
        out.message("assistant", draw(st.sampled_from(["Looking.", "Done."])))
    for tool, name in calls:
        write_call(out, tool, name)
        if out.style == STYLES[2] and draw(st.integers(0, 4)) == 0:
            write_result_notice(out, tool, name, "turn")  # it ran while the model went on
    if out.style != STYLES[0]:
        write_cost(out)


def write_cost(out: Rollout) -> None:
    out.number += 1
    usage = {"input_tokens": 10, "cached_input_tokens": 2, "output_tokens": 3, "total_tokens": 13}
    totals = {**usage, "total_tokens": 13 * out.number}
    if out.style == STYLES[2]:
        out.add("token_usage_record", usage=usage)
    out.notice("token_count", info={"total_token_usage": totals, "last_token_usage": usage})


def write_call(out: Rollout, tool: str, name: str) -> None:
    plan = {"plan": [{"step": f"step {name}", "status": "pending"}]}
    given = {
        "exec": {"cmd": "nl -ba a.md | head -5"}, "failing": {"cmd": "false"}, "aborted": {"cmd": "sleep 9"},
        "plan": plan, "bad plan": plan, "spawn": {"message": "dig"}, "mcp": {"metres": 3},
    }  # fmt: skip
    if tool == "patch":
        patch = "*** Begin Patch\n*** Add File: b.md\n+b\n*** End Patch"
        out.say("custom_tool_call", call_id=name, name="apply_patch", input=patch)
    elif tool == "search":
        out.say("web_search_call", call_id=name, status="completed", action={"query": "roses"})
    else:
        named = {
            "plan": "update_plan",
            "bad plan": "update_plan",
            "spawn": "spawn_agent",
            "mcp": "depth",
        }
        space = {"namespace": "mcp__well"} if tool == "mcp" else {}
        out.say("function_call", call_id=name, name=named.get(tool, "exec_command"),
                arguments=json.dumps(given[tool]), **space)  # fmt: skip


def output_of(tool: str) -> str:
    header = "Chunk ID: 1\nWall time: 0.1 seconds\n"
    return {
        "failing": f"{header}Process exited with code 3\nOutput:\n",
        "bad plan": "failed to parse function arguments: missing field",
        "aborted": "Wall time: 3.0 seconds\naborted by user",
        "patch": '{"output": "Success.", "metadata": {"exit_code": 0}}',
        "spawn": '{"agent_id":"0199dddd-0000-7000-8000-0000000000cc","nickname":"Fern"}',
        "plan": "Plan updated",
    }.get(tool, f"{header}Process exited with code 0\nOutput:\naborted by user\n")


def write_result_notice(out: Rollout, tool: str, name: str, turn: str) -> None:
    item: dict[str, Any] = {"type": "CommandExecution", "id": name, "exit_code": 3 * (tool == "failing"),
                            "aggregated_output": "done"}  # fmt: skip
    if tool == "mcp":
        result = {"content": [{"type": "text", "text": "deep"}], "isError": False}
        item = {"type": "McpToolCall", "id": name, "status": "completed", "result": result}
    elif tool == "spawn":
        child = "0199dddd-0000-7000-8000-0000000000cc"
        item = {"type": "SubAgentActivity", "id": name, "kind": "started", "agent_thread_id": child}
    elif tool != "exec" and tool != "failing":
        return
    out.notice("item_completed", turn_id=turn, item=item)


def write_extra(out: Rollout, draw: Any, turn: str) -> None:
    kind = draw(st.sampled_from(EXTRAS))
    if kind == "note":
        out.message("developer", "mind the roses")
    elif kind == "steer":
        out.add("response_item", type="message", role="user", content=[{"type": "input_text", "text": "and tulips"}],
                internal_chat_message_metadata_passthrough={"turn_id": turn})  # fmt: skip
    elif kind == "agent":
        out.say(
            "agent_message",
            author="fern",
            recipient="lead",
            content=[{"type": "input_text", "text": "dug"}],
        )
    elif kind == "compact":
        out.add("compacted", message="So far: roses.", replacement_history=[])
    elif kind == "rollback":
        out.notice("thread_rolled_back", num_turns=1)
    elif kind == "setting":
        out.notice("thread_settings_applied", thread_settings={})
    else:
        out.lines.append({"type": "telepathy", "payload": {"what": turn}})


@st.composite
def rollouts(draw: st.DrawFn) -> Rollout:
    """A rollout of some turns: of a person's session, of a fork or of a sub-agent."""
    out = Rollout(draw(st.sampled_from(STYLES)))
    meta: dict[str, Any] = {"id": THREAD, "cwd": "/home/dev/garden", "cli_version": "0.166.0"}
    if draw(st.integers(0, 3)) == 0:
        meta |= {"parent_thread_id": PARENT, "subagent_history_start_ordinal": 3}
    out.add("session_meta", **meta)
    if draw(st.integers(0, 3)) == 0:
        out.add("session_meta", id=PARENT, cwd="/elsewhere")  # a fork copies its base's line
    for _ in range(draw(st.integers(1, 4))):
        write_turn(out, draw)
    return out
