"""Turns the events of a Copilot CLI session into items. Every event is final when it is written.

A sub-agent's events are in its parent's file. They name the call that started it, or the sub-agent, which the
event `subagent.started` connects with that call.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from stator.importers.copilot.tools import effect_of, files_of, outcome_of, output_of, steps_of
from stator.importers.reading.appended_lines import RecentNames
from stator.importers.reading.attachments import strip_attachments
from stator.importers.reading.awaited_calls import AwaitedCall, AwaitedCalls
from stator.importers.reading.fields import (
    assistant_message,
    headline,
    micros_of_iso,
    record,
    records,
    text,
    tool_use_block,
    usage_units,
    whole_number,
)
from stator.model.exchange.items import (
    Answered,
    Author,
    Called,
    Compacted,
    Configured,
    Item,
    Noise,
    Noted,
    Planned,
    Prompted,
    Returned,
    Spawned,
    TurnEnded,
    Unknown,
)
from stator.model.values.json_text import parse_object

AGENTS_MAX = 64
"""The most sub-agents that are remembered."""
WEB = frozenset(("web_fetch", "web_search", "fetch"))
SETTINGS: dict[str, dict[str, str]] = {
    "session.start": {"model": "selectedModel", "reasoning_effort": "reasoningEffort", "version": "copilotVersion"},
    "session.resume": {"model": "selectedModel", "reasoning_effort": "reasoningEffort"},
    "session.model_change": {"model": "newModel", "reasoning_effort": "reasoningEffort"},
    "session.mode_changed": {"agent_mode": "newMode"},
    "session.permissions_changed": {"permission_mode": "mode"},
    "subagent.selected": {"agent": "agentName"},
}  # fmt: skip
"""Events that say what the agent runs with: our name of a setting → theirs."""
ABOUT_ITSELF = frozenset(
    "session assistant tool subagent hook permission user_input elicitation sampling mcp external_tool command"
    " commands capabilities pending_messages exit_plan_mode auto_mode_switch session_limits_exhausted factory"
    " tool_search ui model".split()
)
"""The first words of events about the program; those that say something about the work are read."""


def author_of(event: dict[str, Any], data: dict[str, Any]) -> Author:
    """Whose words a user message is. Copilot also sends messages of its own, of skills and of agents this way."""
    source = text(data.get("source"))
    if (
        source.startswith("agent")
        or text(event.get("agentId"))
        or text(data.get("parentToolCallId"))
    ):
        return "agent"
    is_typed = source in ("", "user") and data.get("isAutopilotContinuation") is not True
    return "user" if is_typed else "system"


class CopilotEventReader:
    """Reads the events of one session. What it must know of earlier ones is small, and bounded."""

    def __init__(self, session: str, state: dict[str, Any]) -> None:
        self._session = session
        self._names = RecentNames(state.get("names"))
        self._calls = AwaitedCalls(state.get("calls"))
        agents = record(state.get("agents"))
        self._agents = {name: text(call) for name, call in agents.items()}
        """A sub-agent's id → the call that started it."""
        self._answer = text(state.get("answer"))
        """What the model did since its turn began: "" nothing, "calls" or "words"."""

    def state(self) -> dict[str, Any]:
        return {
            "names": self._names.state(), "calls": self._calls.state(), "agents": self._agents,
            "answer": self._answer,
        }  # fmt: skip

    def event(self, event: dict[str, Any], line: int) -> Iterator[Item]:
        """The items of an event; those of a sub-agent are within its conversation."""
        within = self._within(event)
        for item in self._items(event, record(event.get("data")), line, is_child=bool(within)):
            is_parents = isinstance(item, Spawned) or not within
            yield item if is_parents else msgspec.structs.replace(item, within=within)

    def _within(self, event: dict[str, Any]) -> str:
        data, agent = record(event.get("data")), text(event.get("agentId"))
        is_about_one = text(event.get("type")).startswith("subagent.")
        call = text(data.get("toolCallId" if is_about_one else "parentToolCallId"))
        call = call or self._agents.get(agent, agent)
        return f"{self._session}/{call}" if call else ""

    def _items(
        self, event: dict[str, Any], data: dict[str, Any], line: int, *, is_child: bool
    ) -> Iterator[Item]:
        kind, at = text(event.get("type")), micros_of_iso(event.get("timestamp"))
        name = text(event.get("id")) or f"line/{line}"
        if event.get("ephemeral") is True:
            yield Noise(kind=kind)
        elif kind == "user.message":
            yield _prompt(name, at, event, data)
        elif kind == "assistant.message":
            yield from self._answered(name, at, data, is_child)
        elif kind in ("tool.execution_start", "tool.user_requested"):
            yield from self._started(at, data)
        elif kind == "tool.execution_complete":
            yield from self._returned(at, data)
        elif kind.startswith("subagent."):
            yield from self._subagent(kind, name, at, event, data)
        elif kind in ("assistant.turn_start", "assistant.turn_end", "abort"):
            yield from self._turn(kind, at, data, is_child)
        elif kind in ("system.message", "system.notification", "skill.invoked"):
            yield Noted(id=name, at=at, by="system", content=strip_attachments(data.get("content")))
        elif kind in ("session.compaction_complete", "session.context_cleared"):
            yield _compacted(kind, name, at, data)
        elif kind in SETTINGS:
            yield _configured(kind, name, at, data)
        elif kind.partition(".")[0] in ABOUT_ITSELF and kind != "session.error":
            yield Noise(kind=kind)
        else:
            yield Unknown(id=name, at=at, raw=strip_attachments(event))

    def _answered(self, name: str, at: int, data: dict[str, Any], is_child: bool) -> Iterator[Item]:
        blocks: list[dict[str, Any]] = []
        for field, kind in (("reasoningText", "thinking"), ("content", "text")):
            if words := text(data.get(field)):
                blocks.append({"type": kind, kind: words})
        asked = [self._call(at, one) for one in records(data.get("toolRequests"))]
        blocks += [tool_use_block(call.id, call.tool, call.input) for call in asked]
        if not is_child:
            self._answer = "calls" if asked or self._answer == "calls" else "words"
        if blocks:
            yield Answered(
                id=text(data.get("messageId")) or name, at=at, reply=assistant_message(blocks),
                model=text(data.get("model")), usage=usage_units(output_tokens=data.get("outputTokens")),
            )  # fmt: skip
        yield from asked

    def _call(self, at: int, asked: dict[str, Any]) -> Called:
        tool = text(asked.get("name")) or text(asked.get("toolName"))
        raw = asked.get("arguments")
        given, problem = parse_object(raw) if isinstance(raw, str) else (raw, "")
        given = strip_attachments(raw if problem else given)
        name = self._names.once(text(asked.get("toolCallId")))
        arguments = record(given)
        effect = effect_of(tool, arguments)
        self._calls.add(
            name,
            AwaitedCall(
                tool=tool,
                effect=effect,
                files=files_of(tool, given),
                steps=steps_of(tool, arguments),
            ),
        )
        return Called(id=name, at=at, tool=tool, input=given, effect=effect)

    def _started(self, at: int, data: dict[str, Any]) -> Iterator[Item]:
        """A call that an answer requested is known; one that the user requested begins here."""
        if self._names.latest(text(data.get("toolCallId"))):
            yield Noise(kind="tool.execution_start")
        else:
            yield self._call(at, data)

    def _returned(self, at: int, data: dict[str, Any]) -> Iterator[Item]:
        given = text(data.get("toolCallId"))
        name = self._names.latest(given) or self._names.once(given)
        call = self._calls.pop(name) or AwaitedCall(tool=text(data.get("toolName")))
        outcome = outcome_of(call, data)
        is_ok = outcome.status == "ok"
        yield Returned(
            id=name, at=at, status=outcome.status, cause=outcome.cause, tool=call.tool,
            output=strip_attachments(output_of(data)), files=call.files if is_ok else (),
            source="web" if call.tool in WEB else "tool",
        )  # fmt: skip
        if call.steps and is_ok:
            yield Planned(id=f"{name}/plan", at=at, steps=call.steps)

    def _subagent(
        self, kind: str, name: str, at: int, event: dict[str, Any], data: dict[str, Any]
    ) -> Iterator[Item]:
        call = text(data.get("toolCallId"))
        if kind == "subagent.started" and call:
            if agent := text(event.get("agentId")):
                self._agents[agent] = call
            while len(self._agents) > AGENTS_MAX:
                del self._agents[next(iter(self._agents))]
            child = f"{self._session}/{call}"
            title = text(data.get("agentDisplayName")) or text(data.get("agentName"))
            named = self._names.latest(call) or call
            yield Spawned(id=child, at=at, child=child, name=title, call=named)
        elif kind in ("subagent.completed", "subagent.failed") and call:
            is_ok = kind == "subagent.completed" and data.get("cancelled") is not True
            why = headline(data.get("error"))
            yield TurnEnded(at=at, status="ok" if is_ok else "aborted", why=why)
        elif kind in SETTINGS:
            yield _configured(kind, name, at, data)
        elif kind == "subagent.deselected":
            yield Configured(id=name, at=at, settings={"agent": None})
        else:
            yield Noise(kind=kind)

    def _turn(self, kind: str, at: int, data: dict[str, Any], is_child: bool) -> Iterator[Item]:
        """The model's turns: the user's turn ends with the one in which the model requests no call."""
        if kind == "abort":
            yield TurnEnded(at=at, status="aborted", why=headline(data.get("reason")))
        elif is_child:
            yield Noise(kind=kind)
        elif kind == "assistant.turn_end" and self._answer == "words":
            yield TurnEnded(at=at)
        else:
            yield Noise(kind=kind)
        self._answer = self._answer if is_child else ""


def _prompt(name: str, at: int, event: dict[str, Any], data: dict[str, Any]) -> Item:
    by, words = author_of(event, data), text(data.get("content"))
    files = [
        f"[file {text(one.get('path')) or text(one.get('displayName'))}]"
        for one in records(data.get("attachments"))
    ]
    if by == "system":
        return Noted(id=name, at=at, by=by, content=words)
    return Prompted(id=name, at=at, by=by, content="\n".join([words, *files]))


def _configured(kind: str, name: str, at: int, data: dict[str, Any]) -> Item:
    settings = {ours: text(data.get(field)) for ours, field in SETTINGS[kind].items()}
    known = {ours: value for ours, value in settings.items() if value}
    return Configured(id=name, at=at, settings=known) if known else Noise(kind=kind)


def _compacted(kind: str, name: str, at: int, data: dict[str, Any]) -> Item:
    if kind == "session.compaction_complete" and data.get("success") is not True:
        return Noise(kind=kind)
    return Compacted(
        id=name, at=at, summary=text(data.get("summaryContent")),
        before=whole_number(data.get("preCompactionTokens")), after=whole_number(data.get("postCompactionTokens")),
    )  # fmt: skip
