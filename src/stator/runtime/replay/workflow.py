"""Makes workflows from recorded calls, and runs them in a session of their own.

A workflow that stopped, because a call failed or waits for a person, continues where it stopped when it is run
again in the same session with the same parameters: it is an interrupted turn like any other.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from stator.errors import ApprovalNeeded, BadWorkflow, WrongState
from stator.model.calls import workflow as model
from stator.model.calls import workflow_maker
from stator.model.calls.vocabulary import lines_of
from stator.model.calls.workflow import (
    CallTemplate,
    Workflow,
    fill,
    sketch,
    values_for,
)
from stator.model.log.query import SessionQuery
from stator.model.log.redact import Redactor
from stator.model.log.shown_text import cut_short
from stator.model.records.types import Effect, SessionRecord
from stator.model.sessions.lifecycle import check_name
from stator.runtime.base.context import Context
from stator.runtime.branches.open_driver import drive
from stator.runtime.branches.rerun import (
    Effects,
    Toolbox,
    Tools,
    chains,
    rewound,
    terms,
    toolbox,
)
from stator.runtime.driving.call import entered
from stator.runtime.driving.loop import by_name
from stator.runtime.driving.open_turn import OpenTurn
from stator.runtime.replay.recorded_tools import RecordedTools
from stator.runtime.views.session import SessionReader
from stator.store.port import StorePort

Status = Literal["done", "failed", "waits"]


class WorkflowCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call of a workflow, and what became of it."""

    id: str
    tool: str
    status: str
    """As of any call; `not run` if it was not reached."""
    arguments: Any = None
    call: str = ""
    error: str = ""
    replayed: bool = False
    """Whether an earlier run had made it."""


class Ran(msgspec.Struct, frozen=True, kw_only=True):
    """The result of running a workflow."""

    workflow: str
    session: str
    name: str
    status: Status
    calls: list[WorkflowCall] = []
    waiting: str = ""
    """The call that waits for a person's word."""
    why: str = ""


class _Stopped(Exception):
    """A call failed and nothing may follow it; the turn stays interrupted, to be continued."""


def extract(view: SessionReader, turns: str | None = None, *, name: str = "") -> Workflow:
    """The calls of a session that worked, as a workflow with parameters."""
    found = chains(view, turns)
    prompts = [chain.begun.known("input") for chain in found]
    calls = [call for chain in found for _, call in chain.calls]
    source = f"{view.name} {view.id}"
    if found:
        source += f" t{found[0].begun.turn}..t{found[-1].begun.turn}"
    # The store may hold secrets: those of `redact=False`, or what only this release finds.
    opening = next(iter(view.log()))
    scrub = Redactor(bytes.fromhex(opening.known("key", "00"))).scrub
    made = workflow_maker.extract(
        name or view.name, prompts, calls, source=source, project=view.record.project, scrub=scrub
    )
    there = {chain.begun.turn for chain in found}
    gone = [f"t{turn}: left out, it was rewound" for turn in rewound(view, turns) - there]
    return msgspec.structs.replace(made, notes=[*sorted(gone), *made.notes])


def run(
    store: StorePort,
    context: Context,
    workflow: Workflow,
    tools: Tools,
    given: Mapping[str, Any] | None = None,
    *,
    session: str = "",
    effects: Effects = "ask",
    recorded: RecordedTools | None = None,
) -> Ran:
    """Run a workflow, up to its end, the first failure, or the first write that waits for a person.

    `recorded` does what the shell and file tools of other agents did, where `tools` has no tool of that name.
    """
    values = values_for(model.check(workflow), given or {})
    hands = check_tools(workflow, tools, recorded)
    if recorded is not None:
        check_acts(workflow, values, hands, recorded)
    held = terms(context, effects, f"a write of the workflow {workflow.name}"[:200])
    record = SessionRecord(
        id=context.mint("session"),
        name=check_name(session or f"workflow/{workflow.name}"),
        agent="workflow",
        project=context.project,
        created=context.clock(),
    )
    _check_own(store, record)
    made: list[WorkflowCall] = []
    ended: dict[str, Any] = {"status": "done"}
    with_id = record
    try:
        with drive(store, context, record, held) as driver:
            with_id = store.session(driver.id).record
            prompt = {"workflow": workflow.name, "parameters": values}
            with entered(OpenTurn(driver, prompt)) as turn:
                _chain(turn, workflow, values, hands, made, recorded)
    except ApprovalNeeded as needed:
        ended = {"status": "waits", "waiting": needed.ids.get("call", ""), "why": needed.what}
    except _Stopped as stopped:
        ended = {"status": "failed", "why": str(stopped)}
    rest = workflow.calls[len(made) :]
    made += [WorkflowCall(id=call.id, tool=call.tool, status="not run") for call in rest]
    return Ran(workflow=workflow.name, session=with_id.id, name=with_id.name, calls=made, **ended)


def _check_own(store: StorePort, record: SessionRecord) -> None:
    """A workflow runs in a session of its own, not in one that an agent is driven in."""
    query = SessionQuery(name=record.name, project=record.project, tenant=record.tenant)
    for row in store.sessions(query, limit=1).rows:
        if row.record.agent != record.agent:
            raise WrongState(
                f"session {record.name!r:.80} was not created by a workflow",
                hint="choose another name, or none",
                session=row.id,
            )


class Preview(msgspec.Struct, frozen=True, kw_only=True):
    """What a call of a workflow would do, as far as that is known before it runs."""

    id: str
    tool: str
    effect: Effect
    lines: list[str] = []
    """What it would do; empty for a tool of the user's own."""
    arguments: Any = None
    problem: str = ""
    """Why it cannot run."""
    is_whole: bool = True
    """Whether nothing of it depends on what an earlier call gives."""


def preview(
    workflow: Workflow, values: Mapping[str, Any], tools: Tools, recorded: RecordedTools | None
) -> list[Preview]:
    """What each call would do. Nothing is run."""
    hands = toolbox(tools)
    return [_previewed(call, values, hands, recorded) for call in workflow.calls]


def _previewed(
    call: CallTemplate, values: Mapping[str, Any], hands: Toolbox, recorded: RecordedTools | None
) -> Preview:
    given, is_whole = sketch(call.input, values)
    about: dict[str, Any] = {"id": call.id, "tool": call.tool, "is_whole": is_whole}
    if recorded is None or not isinstance(hands, dict) or call.tool in hands:
        return Preview(effect=call.effect, arguments=given, **about)
    try:
        act = recorded.act(call.tool, given)
    except BadWorkflow as error:
        return Preview(effect=call.effect, arguments=given, problem=error.what, **about)
    return Preview(effect=act.effect, arguments=given, lines=lines_of(act), **about)


def check_acts(
    workflow: Workflow, values: Mapping[str, Any], tools: Tools, recorded: RecordedTools
) -> None:
    """Refuse a workflow of which one call cannot run here, before any of them runs."""
    for place, found in enumerate(preview(workflow, values, tools, recorded)):
        if found.problem and found.is_whole:
            raise BadWorkflow(found.problem, path=f"$.calls[{place}]")


def check_tools(workflow: Workflow, tools: Tools, recorded: RecordedTools | None = None) -> Toolbox:
    """The tools, if every call has one."""
    hands = toolbox(tools)
    if not isinstance(hands, dict):
        return hands
    known = [call.tool for call in workflow.calls if call.tool not in hands]
    missing = [tool for tool in known if recorded is None or tool not in recorded]
    if missing:
        hint = ", ".join(sorted(hands)[:20]) or "take its calls out of the file, or give --tools"
        raise BadWorkflow(f"there is no tool {missing[0]!r:.80}", hint=hint)
    return hands


def _chain(
    turn: OpenTurn,
    workflow: Workflow,
    values: dict[str, Any],
    tools: Toolbox,
    made: list[WorkflowCall],
    recorded: RecordedTools | None,
) -> None:
    outputs: dict[str, Any] = {}
    for place, call in enumerate(workflow.calls):
        hands = tools
        try:
            given = fill(call.input, values, outputs, f"$.calls[{place}].input")
            if recorded is not None and isinstance(tools, dict) and call.tool not in tools:
                given = recorded.arguments(given)
                is_shown = sketch(call.input, values)[1]
                hands = {call.tool: recorded.tool(call.tool, given, is_shown=is_shown)}
        except BadWorkflow as error:  # what it builds on is not there, or leads elsewhere
            done = WorkflowCall(id=call.id, tool=call.tool, status="not run", error=error.what)
        else:
            done = _one(turn, call, given, outputs, hands, made)
        made.append(done)
        if done.status != "ok" and call.on_error == "stop":
            why = f"{call.id} ({call.tool}) ended {done.status}: {done.error}"
            raise _Stopped(cut_short(why, 500))


def _one(
    turn: OpenTurn,
    call: CallTemplate,
    given: dict[str, Any],
    outputs: dict[str, Any],
    tools: Toolbox,
    made: list[WorkflowCall],
) -> WorkflowCall:
    try:
        outcome = by_name(turn, call.tool, given, tools, None).drive()
    except ApprovalNeeded as needed:  # the person who is asked is shown what would run
        waits = WorkflowCall(
            id=call.id,
            tool=call.tool,
            status="awaiting approval",
            arguments=given,
            call=str(needed.ids.get("call", "")),
        )
        made.append(waits)
        raise
    if outcome.ok:
        outputs[call.id] = outcome.value
    return WorkflowCall(
        id=call.id,
        tool=call.tool,
        status=outcome.status,
        arguments=given,
        call=outcome.call,
        error=outcome.error or outcome.cause,
        replayed=outcome.replayed,
    )
