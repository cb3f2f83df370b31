"""Workflows: a chain of tool calls with parameters, made from a recorded one. Pure.

    {"schema": "stator.workflow/1", "name": "refund",
     "parameters": [{"name": "order", "default": "A-17", "seen": ["prompt", "c1/order"]}],
     "calls": [{"id": "c1", "tool": "find_order", "effect": "read", "input": {"order": {"$param": "order"}}},
               {"id": "c2", "tool": "refund", "effect": "write",
                "input": {"payment": {"$from": "c1", "at": "/payment/id"}, "cents": 4200}}]}

An object of an input whose keys begin with "$" is not a value but says where one comes from: a parameter, the
output of an earlier call (`at` is a JSON Pointer into it), `$text`, texts and parameters that are joined to one text,
or `$value`, a value in its recorded form, for what JSON has no word for. A file is data and never trusted: it names
tools, it never is one.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any, Literal

import msgspec
from jsonpointer import EndOfList, JsonPointer, JsonPointerException
from msgspec import UNSET

from stator.errors import BadWorkflow, InvalidInput
from stator.model.records.types import Effect
from stator.model.values import canon

SCHEMA = "stator.workflow/1"
SIZE_MAX = 4_000_000
"""Bytes of a workflow file."""
CALLS_MAX = 1000
PARAMETERS_MAX = 1000
DEPTH_MAX = canon.DEPTH_MAX
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}\Z")
OnError = Literal["stop", "continue"]


class Parameter(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A parameter of a workflow; it must be set if it has no default."""

    name: str
    default: Any = UNSET
    seen: list[str] = []
    """Where the recorded chain had its value: `prompt`, `c2/path`."""

    @property
    def required(self) -> bool:
        return self.default is UNSET


class CallTemplate(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """One call of a workflow."""

    id: str
    tool: str
    effect: Effect = "write"
    """As it was recorded, to be read; what holds is what the tool itself says."""
    input: dict[str, Any] = {}
    on_error: OnError = "stop"


class Workflow(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A chain of calls with parameters."""

    schema: str
    name: str
    parameters: list[Parameter] = []
    calls: list[CallTemplate] = []
    notes: list[str] = []
    """What was left out of the recorded chain, and what to look at before it is run."""
    source: str = ""
    """The session and turns it was made from."""
    root: str = ""
    """The folder that the recorded paths are in; run elsewhere, they are paths in the folder that is chosen then."""

    def to_json(self) -> str:
        """The file's text; ASCII, so that a terminal may show it."""
        return json.dumps(msgspec.to_builtins(self), indent=2) + "\n"


# -- reading a file -------------------------------------------------------------------------------


def parse(data: bytes) -> Workflow:
    """Read and check a workflow file; `BadWorkflow` says what is wrong and where."""
    if len(data) > SIZE_MAX:
        raise BadWorkflow(f"a workflow has at most {SIZE_MAX:,} bytes, this has {len(data):,}")
    try:
        found = msgspec.json.decode(data, type=Workflow, strict=True)
    except msgspec.MsgspecError as error:
        raise BadWorkflow(f"not a workflow: {error}") from None
    except (RecursionError, ValueError) as error:
        raise BadWorkflow(f"not a workflow: {type(error).__name__}") from None
    return check(found)


def check(workflow: Workflow) -> Workflow:
    """The workflow, if it can be run at all."""
    if workflow.schema != SCHEMA:
        raise BadWorkflow(f"unknown schema {workflow.schema!r:.60}", path="$.schema", hint=SCHEMA)
    if not workflow.name.strip() or len(workflow.name) > 200:
        raise BadWorkflow("a workflow needs a name of at most 200 characters", path="$.name")
    for given, most, name in (
        (workflow.calls, CALLS_MAX, "calls"),
        (workflow.parameters, PARAMETERS_MAX, "parameters"),
    ):
        if len(given) > most:
            raise BadWorkflow(f"at most {most} {name}, got {len(given)}", path=f"$.{name}")
    names: set[str] = set()
    for place, parameter in enumerate(workflow.parameters):
        _new_name(parameter.name, names, f"$.parameters[{place}].name")
        if parameter.default is not UNSET:
            literal(parameter.default, f"$.parameters[{place}].default")
    earlier: set[str] = set()
    for place, call in enumerate(workflow.calls):
        path = f"$.calls[{place}]"
        if not 0 < len(call.tool) <= 200:
            raise BadWorkflow("a call needs a tool", path=f"{path}.tool")
        for key, item in call.input.items():
            _check_template(item, names, earlier, f"{path}.input.{key}"[:200], 1)
        _new_name(call.id, earlier, f"{path}.id")
    return workflow


def _new_name(name: str, known: set[str], path: str) -> None:
    if not _NAME.match(name):
        raise BadWorkflow(f"not a name: {name!r:.60}", path=path, hint="letters, digits, _ . -")
    if name in known:
        raise BadWorkflow(f"{name!r} occurs twice", path=path)
    known.add(name)


def _check_template(
    node: Any, parameters: set[str], earlier: set[str], path: str, depth: int
) -> None:
    if depth > DEPTH_MAX:
        raise BadWorkflow(f"nested deeper than {DEPTH_MAX}", path=path[:200])
    if isinstance(node, list):
        for place, item in enumerate(node):
            _check_template(item, parameters, earlier, f"{path}[{place}]", depth + 1)
        return
    if not isinstance(node, dict):
        _scalar(node, path)
        return
    if not _is_reference(node):
        for key, item in node.items():
            _check_template(item, parameters, earlier, f"{path}.{key}"[:400], depth + 1)
    elif node.keys() == {"$param"}:
        if not isinstance(node["$param"], str) or node["$param"] not in parameters:
            raise BadWorkflow(f"no parameter {node['$param']!r:.60}", path=path)
    elif "$from" in node and node.keys() <= {"$from", "at"}:
        _check_from(node, earlier, path)
    elif node.keys() == {"$value"}:
        literal(node, path)
    elif node.keys() == {"$text"}:
        _check_joined(node["$text"], parameters, path)
    else:
        raise BadWorkflow(
            f"unknown reference {sorted(map(str, node))!r:.60}",
            path=path,
            hint='{"$param": name}, {"$from": call, "at": pointer}, {"$text": [parts]} or {"$value": recorded form}',
        )


def _check_joined(parts: Any, parameters: set[str], path: str) -> None:
    """Refuse a joined text with other parts than texts and parameters."""
    if not isinstance(parts, list):
        raise BadWorkflow("a joined text is a list of texts and parameters", path=path)
    for place, part in enumerate(parts):
        if isinstance(part, dict) and part.keys() == {"$param"}:
            _check_template(part, parameters, set(), f"{path}[{place}]", 1)
        elif not isinstance(part, str):
            raise BadWorkflow("a part is a text or a parameter", path=f"{path}[{place}]")


def _check_from(node: dict[str, Any], earlier: set[str], path: str) -> None:
    origin = node["$from"]
    if not isinstance(origin, str) or origin not in earlier:
        raise BadWorkflow(
            f"no earlier call {origin!r:.60}",
            path=path,
            hint="a call can use only the outputs of earlier calls",
        )
    pointer = node.get("at", "")
    try:
        JsonPointer(pointer)
    except (JsonPointerException, TypeError) as error:
        raise BadWorkflow(f"not a JSON Pointer: {pointer!r:.60} ({error})", path=path) from None


def _is_reference(node: Mapping[str, Any]) -> bool:
    return any(key.startswith("$") for key in node)


def _scalar(node: Any, path: str) -> None:
    if isinstance(node, float) and not math.isfinite(node):
        raise BadWorkflow("not a number that JSON allows", path=path)


# -- filling in -----------------------------------------------------------------------------------


def values_for(workflow: Workflow, given: Mapping[str, Any]) -> dict[str, Any]:
    """The value of every parameter: as given, else its default."""
    names = {parameter.name for parameter in workflow.parameters}
    for name in given:
        if name not in names:
            raise BadWorkflow(
                f"no parameter {name!r:.60}", hint=", ".join(sorted(names)) or "it has none"
            )
    missing = [p.name for p in workflow.parameters if p.required and p.name not in given]
    if missing:
        hint = " ".join(f"--set {name}=…" for name in missing[:5])
        raise BadWorkflow(f"{', '.join(missing[:5])} must be set", hint=hint)
    return {
        p.name: given[p.name] if p.name in given else literal(p.default, "$.parameters")
        for p in workflow.parameters
    }


def fill(
    template: Any, values: Mapping[str, Any], outputs: Mapping[str, Any], path: str = "$.input"
) -> Any:
    """An input with its references replaced. `outputs` are those of the calls made so far."""
    if isinstance(template, list):
        return [fill(item, values, outputs, f"{path}[{n}]") for n, item in enumerate(template)]
    if not isinstance(template, dict):
        return template
    if not _is_reference(template):
        return {key: fill(item, values, outputs, f"{path}.{key}") for key, item in template.items()}
    if "$param" in template:
        return values[template["$param"]]
    if "$value" in template:
        return literal(template, path)
    if "$text" in template:
        return "".join(str(fill(part, values, outputs, path)) for part in template["$text"])
    origin, pointer = template["$from"], template.get("at", "")
    if origin not in outputs:
        raise BadWorkflow(f"{origin} has no output to use", path=path)
    try:
        found = JsonPointer(pointer).resolve(outputs[origin])
    except (JsonPointerException, TypeError):
        found = _NOTHING
    if found is _NOTHING or isinstance(found, EndOfList):
        raise BadWorkflow(f"the output of {origin} has nothing at {pointer!r:.80}", path=path)
    return found


def sketch(template: Any, values: Mapping[str, Any]) -> tuple[Any, bool]:
    """An input as far as it is known before anything ran, and whether that is all of it: what an earlier call will
    give is named instead."""
    whole = True

    def known(node: Any) -> Any:
        nonlocal whole
        if isinstance(node, list):
            return [known(item) for item in node]
        if not isinstance(node, dict):
            return node
        if "$from" in node:
            whole = False
            return f"(what {node['$from']}{node.get('at', '')} gives)"
        if _is_reference(node):
            return fill(node, values, {})
        return {key: known(item) for key, item in node.items()}

    return known(template), whole


_NOTHING = object()


def written(value: Any) -> Any:
    """A value as a file has it: as JSON where that keeps it, else in its recorded form."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return value if abs(value) <= canon.INT_MAX else {"$value": canon.to_plain(value)}
    if isinstance(value, float) and math.isfinite(value):
        return value
    if isinstance(value, list):
        return [written(item) for item in value]
    if isinstance(value, dict) and all(map(plain_key, value)):
        return {key: written(item) for key, item in value.items()}
    plain = canon.to_plain(value)
    return plain if isinstance(plain, str) else {"$value": plain}


def plain_key(key: Any) -> bool:
    return isinstance(key, str) and not key.startswith("$") and canon.to_plain(key) == key


def literal(node: Any, path: str, depth: int = 1) -> Any:
    """The value a file spells; it has no references to anything else in it."""
    if depth > DEPTH_MAX:
        raise BadWorkflow(f"nested deeper than {DEPTH_MAX}", path=path)
    if isinstance(node, list):
        return [literal(item, path, depth + 1) for item in node]
    if not isinstance(node, dict):
        _scalar(node, path)
        return node
    if not _is_reference(node):
        return {key: literal(item, path, depth + 1) for key, item in node.items()}
    if node.keys() != {"$value"}:
        raise BadWorkflow("expected a value, not a reference", path=path)
    try:
        return canon.from_plain(node["$value"])
    except InvalidInput as error:
        raise BadWorkflow(f"not a recorded value: {error.what}", path=path) from None
