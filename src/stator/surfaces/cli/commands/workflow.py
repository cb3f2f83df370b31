"""`stator workflow`: extracts a workflow from recorded calls, shows one, or runs one."""

from __future__ import annotations

import json as jsons
import sys
from typing import TYPE_CHECKING, Any

import msgspec

from stator.connect import connect
from stator.errors import BadQuery, NotFound
from stator.model.calls import workflow as model
from stator.model.calls.workflow import Parameter, Workflow
from stator.model.values import canon
from stator.model.values.ids import short
from stator.runtime.branches.rerun import Effects, Tools
from stator.runtime.replay import workflow as workflows
from stator.runtime.replay.recorded_tools import RecordedTools
from stator.runtime.replay.workflow import Ran, WorkflowCall
from stator.surfaces.cli.exits import FINDING, OK
from stator.surfaces.cli.parts.confirm import asks_yes, can_ask, refuse_both
from stator.surfaces.cli.parts.load_function import load_tools, own_environment, prints_to_stderr
from stator.surfaces.cli.parts.open_store import open_to_read
from stator.surfaces.cli.render.lines import Line
from stator.surfaces.cli.render.record_line import brief, count
from stator.surfaces.cli.render.screen import Screen, note
from stator.surfaces.cli.render.waiting_calls import call_text, waiting_hint

if TYPE_CHECKING:
    from stator.surfaces.cli.options import (
        DryRunFlag,
        EffectsOption,
        JsonFlag,
        NoPagerFlag,
        RootOption,
        RunSessionOption,
        SetOption,
        StoreOption,
        Text,
        ToolsOption,
        TurnsOption,
        WorkflowFileOption,
        YesFlag,
    )

EXAMPLES = """
stator workflow extract fix-login -o refund.json      write the successful calls to a file
stator workflow extract fix-login --turns t3..t5
stator workflow show refund.json                      show its parameters and calls
stator workflow run refund.json --tools tools:TOOLS --set order=A-18
stator workflow run sort.json --root ~/inbox --dry-run   what a recorded chat would do here
stator workflow run sort.json --root ~/inbox --set date=2026-11-16 --yes
"""
USES_SHOWN = 4
MINE = {
    "extract": {"turns", "output", "name"},
    "show": set[str](),
    "run": {"tools", "root", "set", "session", "effects", "dry_run", "yes"},
}
"""The options that each action takes."""


def workflow(
    action: str,
    what: Text = None,
    /,
    *,
    turns: TurnsOption = None,
    output: WorkflowFileOption = None,
    name: str = "",
    tools: ToolsOption = None,
    root: RootOption = None,
    set: SetOption = None,
    session: RunSessionOption = None,
    effects: EffectsOption = "ask",
    dry_run: DryRunFlag = False,
    yes: YesFlag = False,
    store: StoreOption = None,
    json: JsonFlag = False,
    no_pager: NoPagerFlag = False,
) -> int:
    """Extract a workflow from recorded calls, show one, or run one.

    Values that come from the prompt, or that several calls share, become parameters; a result of an earlier
    call becomes a reference to it; a secret always becomes a parameter that must be set. A workflow runs in
    its own session. A call that writes waits for approval; running the workflow again continues where it
    stopped.

    Without --tools, the shell and file tools that agents have work in --root. Everything that would be done is
    shown first. At a terminal you are asked once whether all of it may run; --yes answers that. Where nobody can
    answer, reads run and the first write waits; with --effects run, nothing runs without --yes. Recorded paths become
    paths below --root, and no link is followed; a command is run by your shell, and nothing confines it.

    Parameters
    ----------
    action
        extract, show or run.
    what
        The session to extract from; the file to show or run.
    name
        The name of the workflow, for extract; default: the session's name.
    """
    given: dict[str, Any] = {
        "turns": turns,
        "output": output,
        "name": name,
        "tools": tools,
        "set": set,
        "root": root,
        "yes": yes,
    }
    given |= {"session": session, "dry_run": dry_run, "effects": effects != "ask"}
    if action not in MINE:
        raise BadQuery(f"unknown action {action!r:.40}", hint="extract, show or run")
    odd = [key for key, value in given.items() if value and key not in MINE[action]]
    if odd:
        raise BadQuery(f"--{odd[0].replace('_', '-')} does not work with workflow {action}")
    refuse_both(dry_run=dry_run, yes=yes)
    if action == "extract":
        return _extract(what, turns, output, name, store, json=json, no_pager=no_pager)
    if what is None:
        raise BadQuery("the file is missing", hint=f"stator workflow {action} FILE")
    found = model.parse(_read(what))
    if action == "show":
        with Screen(json=json, pager=not no_pager) as screen:
            _show_workflow(screen, found, json=json)
        return OK
    where = root or "." if tools is None or root else None
    prepared = _Prepared(found, _values(found, set or []), tools, where)
    if dry_run:
        with Screen(json=json, pager=not no_pager) as screen:
            _show_dry_run(screen, prepared, json=json)
        return OK
    return _run(prepared, session or "", effects, store, yes=yes, json=json, no_pager=no_pager)


class _Prepared:
    """A workflow with its parameters set, and the tools that do it."""

    def __init__(
        self, workflow: Workflow, given: dict[str, Any], tools: str | None, root: str | None
    ) -> None:
        self.workflow = workflow
        self.tools: Tools = load_tools(tools) if tools is not None else {}
        self.recorded = (
            RecordedTools(root, workflow.root, environment=own_environment())
            if root is not None
            else None
        )
        self.values = model.values_for(workflow, given)
        workflows.check_tools(workflow, self.tools, self.recorded)


def _run(
    prepared: _Prepared,
    session: str,
    effects: Effects,
    store: str | None,
    *,
    yes: bool,
    json: bool,
    no_pager: bool,
) -> int:
    may: Effects | None = "run" if yes else effects
    if prepared.recorded is not None and not yes:
        may = _asked(prepared, prepared.recorded, effects, json=json)
    if may is None:
        note("nothing was run; run it with --yes")
        return OK
    with connect(store) as opened, prints_to_stderr():
        ran = workflows.run(
            opened.port,
            opened.context,
            prepared.workflow,
            prepared.tools,
            prepared.values,
            session=session,
            effects=may,
            recorded=prepared.recorded,
        )
    with Screen(json=json, pager=not no_pager) as screen:
        _show_run(screen, ran, json=json)
    return OK if ran.status == "done" else FINDING


def _asked(
    prepared: _Prepared, recorded: RecordedTools, effects: Effects, *, json: bool
) -> Effects | None:
    """Show what would be done, and ask whether all of it may run; None if it may not. Where no person can answer, each
    write waits for its approval, and nothing runs if it was to run without."""
    workflows.check_acts(prepared.workflow, prepared.values, prepared.tools, recorded)
    waits = effects == "ask"
    asks = can_ask() and not json
    if not (json and waits):  # of one that runs, the document is what it did
        with Screen(json=json, pager=False) as screen:  # it is on the terminal before the question
            begins = "reads run now, the first write waits for approval" if waits else ""
            _show_dry_run(screen, prepared, json=json, begins="" if asks else begins)
    if not asks:
        return "ask" if waits else None
    return "run" if asks_yes(f"Do all of this in {recorded.root}?") else None


def _extract(
    session: str | None,
    turns: str | None,
    output: str | None,
    name: str,
    store: str | None,
    *,
    json: bool,
    no_pager: bool,
) -> int:
    with open_to_read(store) as opened:
        made = workflows.extract(opened.session(session), turns, name=name)
    if output is None:
        sys.stdout.write(made.to_json())
        return OK
    try:
        with open(output, "x", encoding="utf-8") as file:
            file.write(made.to_json())
    except FileExistsError:  # never overwrite: the file may have been edited
        raise BadQuery(f"{output!r:.200} exists already", hint="choose another name") from None
    with Screen(json=json, pager=not no_pager) as screen:
        _show_workflow(screen, made, json=json)
    note(f"wrote {output}")
    return OK


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(model.SIZE_MAX + 1)
    except FileNotFoundError:
        raise NotFound(f"no file {path!r:.200}") from None


def _values(found: Workflow, given: list[str]) -> dict[str, Any]:
    """Parse `name=value`: the value is text if the default is text or missing, else JSON."""
    defaults = {parameter.name: parameter for parameter in found.parameters}
    values: dict[str, Any] = {}
    for item in given:
        name, equals, text = item.partition("=")
        if not equals:
            raise BadQuery(f"--set takes name=value, got {item!r:.60}", hint="--set order=A-18")
        known = defaults.get(name)
        if known is None or known.required or isinstance(known.default, str):
            values[name] = text
            continue
        try:
            values[name] = canon.from_plain(canon.to_plain(jsons.loads(text)))
        except ValueError:
            raise BadQuery(
                f"--set {name}: {text!r:.60} is not JSON",
                hint=f"its default is {brief(known.default, 60)}",
            ) from None
    return values


# -- showing --------------------------------------------------------------------------------------


def _show_workflow(screen: Screen, found: Workflow, *, json: bool) -> None:
    if json:
        plain: dict[str, Any] = msgspec.to_builtins(found)
        screen.document(model.SCHEMA, plain)
        return
    head = Line(found.name, "title").add(f" · {count(len(found.calls), 'call')}", "dim")
    screen.line(head.add(f" · from {found.source}" if found.source else "", "dim"))
    for parameter in found.parameters:
        line = Line("  ").add(parameter.name, "bold", width=16).add(" ")
        if parameter.required:
            line.add("must be set", "doubt")
        else:
            line.add(brief(parameter.default, 60))
        screen.line(line.add(f"  {_used(parameter)}", "dim"), hang=20)
    if found.root:
        screen.line(Line("  recorded in ", "dim").add(found.root))
    if found.parameters:
        screen.line()
    for call in found.calls:
        screen.line(_call(call.id, call.tool, call.effect, call.input), hang=6)
    for text in found.notes:
        screen.line(Line(f"  {text}", "dim"), hang=4)


def _used(parameter: Parameter) -> str:
    """Where a parameter is used: `named by the prompt; c1 file_path, c3 command, and 4 more`."""
    places = [place.replace("/", " ", 1) for place in parameter.seen if place != "prompt"]
    shown = ", ".join(places[:USES_SHOWN])
    more = f", and {len(places) - USES_SHOWN} more" if len(places) > USES_SHOWN else ""
    named = "named by the prompt; " if "prompt" in parameter.seen else ""
    return f"{named}{shown}{more}"


def _call(identifier: str, tool: str, effect: str, given: dict[str, Any]) -> Line:
    shown = ", ".join(f"{key}={_reference(value)}" for key, value in given.items())
    line = Line(f"  {identifier:5} ", "id").add(f"{tool}({shown})", "bold")
    return line.add(f" · {effect}", "dim")


def _reference(value: Any) -> str:
    """An argument on one line: $order, c1/payment/id, or the value."""
    if isinstance(value, dict) and "$param" in value:
        return f"${value['$param']}"
    if isinstance(value, dict) and "$from" in value:
        return f"{value['$from']}{value.get('at', '')}"
    if isinstance(value, dict) and isinstance(value.get("$text"), list):
        return brief(
            "".join(p if isinstance(p, str) else _reference(p) for p in value["$text"]), 60
        )
    return brief(value, 60)


def _show_dry_run(screen: Screen, prepared: _Prepared, *, json: bool, begins: str = "") -> None:
    """Show every call with what it would do; `begins` says what follows at once, if anything does."""
    found, values, recorded = prepared.workflow, prepared.values, prepared.recorded
    shown = workflows.preview(found, values, prepared.tools, recorded)
    if json:
        calls = [
            {**plain, "does": item.lines, "problem": item.problem}
            for plain, item in zip(msgspec.to_builtins(found.calls), shown, strict=True)
        ]
        screen.document(
            "stator.workflow_run/1",
            {
                "workflow": found.name,
                "status": "dry run",
                "parameters": canon.to_plain(values),
                "calls": calls,
                "root": recorded.root if recorded is not None else "",
            },
        )
        return
    where = f" in {recorded.root}" if recorded is not None else ""
    state = f"plan{where}: {begins}" if begins else f"dry run{where}: nothing has run yet"
    screen.line(Line(found.name, "title").add(f" · {state}", "dim"), hang=2)
    for name, value in values.items():
        screen.line(Line("  ").add(name, "bold", width=16).add(f" {brief(value, 60)}"))
    for call, item in zip(found.calls, shown, strict=True):
        if not item.lines and not item.problem:
            screen.line(_call(call.id, call.tool, call.effect, call.input), hang=6)
            continue
        first, *rest = item.lines or [f"{call.tool} cannot run here: {item.problem}"]
        line = Line(f"  {call.id:5} ", "id").add(first, "bad" if item.problem else "bold")
        later = "" if item.is_whole else " · asks again, when it is known what it is given"
        # Whole, however long: what may run is decided by what is read here.
        screen.whole([line.add(f" · {item.effect}{later}", "dim")])
        screen.whole(Line(f"        {text}", _patch_style(text)) for text in rest)


def _patch_style(text: str) -> str:
    return {"+": "added", "-": "removed"}.get(text[:1], "dim")


def _show_run(screen: Screen, ran: Ran, *, json: bool) -> None:
    if json:
        calls = [
            {**msgspec.structs.asdict(call), "arguments": canon.to_plain(call.arguments)}
            for call in ran.calls
        ]
        plain = {**msgspec.structs.asdict(ran), "calls": calls}
        screen.document("stator.workflow_run/1", plain)
        return
    style = {"done": "ok", "failed": "bad", "waits": "doubt"}[ran.status]
    head = Line(ran.workflow, "title").add(" · ", "dim").add(ran.status, style)
    screen.line(head.add(f" · {ran.name} ", "dim").add(short(ran.session), "id"))
    for call in ran.calls:
        screen.line(_call_result(call), hang=6)
    if ran.waiting:
        screen.lines(["", waiting_hint(ran.waiting)])
    elif doubtful := next((call.call for call in ran.calls if call.status == "in doubt"), ""):
        how = f"stator settle {short(doubtful)}, then run the same command again to continue"
        screen.lines(["", Line("in doubt: ", "doubt").add(how)])
    elif ran.status == "failed":
        screen.lines(["", Line("run the same command again to continue from there", "dim")])


def _call_result(call: WorkflowCall) -> Line:
    line = Line(f"  {call.id:5} ", "id").status(call.status, width=18).add(" ")
    line.extend(Line(call.tool) if call.arguments is None else call_text(call.tool, call.arguments))
    line.add(" · ran before" if call.replayed else "", "dim")
    return line.add(f" — {call.error}" if call.error and call.status != "ok" else "", "dim")
