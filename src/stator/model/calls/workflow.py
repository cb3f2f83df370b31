"""Workflows: a chain of tool calls with parameters, made from a recorded one. Pure.

    {"schema": "stator.workflow/1", "name": "refund",
     "parameters": [{"name": "order", "default": "A-17", "seen": ["prompt", "c1/order"]}],
     "calls": [{"id": "c1", "tool": "find_order", "effect": "read", "input": {"order": {"$param": "order"}}},
               {"id": "c2", "tool": "refund", "effect": "write",
                "input": {"payment": {"$from": "c1", "at": "/payment/id"}, "cents": 4200}}]}

An object of an input whose keys begin with "$" is not a value but says where one comes from: a parameter, the
output of an earlier call (`at` is a JSON Pointer into it), or `$value`, a value in its recorded form, for what
JSON has no word for. A file is data and never trusted: it names tools, it never is one.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import msgspec
from jsonpointer import EndOfList, JsonPointer, JsonPointerException, escape
from msgspec import UNSET, UnsetType

from stator.errors import BadWorkflow, InvalidInput
from stator.model.calls.known import PLACEHOLDER, KnownCall
from stator.model.records.types import Effect
from stator.model.values import canon

SCHEMA = "stator.workflow/1"
SIZE_MAX = 4_000_000
"""Bytes of a workflow file."""
CALLS_MAX = 1000
PARAMETERS_MAX = 1000
DEPTH_MAX = canon.DEPTH_MAX
NODES_MAX = 50_000
"""Values of the outputs of a chain that inputs are looked for among."""
TEXTS_MAX = 2000
"""Texts of outputs that texts of inputs are looked through for."""
TEXT_MIN = 3
"""Characters from which on two equal texts count as the same value."""
NUMBER_MIN = 1000
"""Smaller whole numbers are equal by accident, unless their names match too."""
PROMPT_MAX = 100_000
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}\Z")
_SECRET = PLACEHOLDER.decode()
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
    else:
        raise BadWorkflow(
            f"unknown reference {sorted(map(str, node))!r:.60}",
            path=path,
            hint='{"$param": name}, {"$from": call, "at": pointer} or {"$value": recorded form}',
        )


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
    if isinstance(value, dict) and all(map(_plain_key, value)):
        return {key: written(item) for key, item in value.items()}
    plain = canon.to_plain(value)
    return plain if isinstance(plain, str) else {"$value": plain}


def _plain_key(key: Any) -> bool:
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


# -- making one from a record ---------------------------------------------------------------------


def extract(
    name: str,
    prompts: Sequence[Any],
    calls: Sequence[KnownCall],
    *,
    source: str = "",
    scrub: canon.Scrub | None = None,
) -> Workflow:
    """The chain of calls that worked, with parameters for what came from outside.

    A value becomes a reference where an earlier call gave it, and a parameter where the prompt says it or
    several calls have it. What was a secret, or is one for `scrub`, is always a parameter, and has no default.
    """

    def clean(value: Any) -> Any:
        return value if scrub is None else canon.loads(canon.dumps(value, scrub=scrub))

    made = _Making("\n".join(_texts(clean(list(prompts))))[:PROMPT_MAX])
    notes: list[str] = []
    kept: list[KnownCall] = []
    for call in calls:
        why = _left_out(call)
        if why:
            notes.append(f"t{call.turn} @{call.seq} {call.tool}: left out, {why}")
        elif len(kept) < CALLS_MAX:
            kept.append(call)
        else:
            notes.append(f"t{call.turn} @{call.seq} {call.tool}: left out, {CALLS_MAX} is the most")
    inputs = [clean(call.given) for call in kept]
    made.count(inputs)
    found: list[CallTemplate] = []
    for place, (call, arguments) in enumerate(zip(kept, inputs, strict=True), 1):
        identifier = f"c{place}"
        given = {
            key: made.template(item, key, f"{identifier}/{escape(key)}")
            for key, item in arguments.items()
        }
        found.append(CallTemplate(id=identifier, tool=call.tool, effect=call.effect, input=given))
        made.learn(identifier, None if call.ending is None else clean(call.ending.known("output")))
    return Workflow(
        schema=SCHEMA,
        name=name,
        parameters=list(made.parameters.values()),
        calls=found,
        notes=[*notes, *made.notes],
        source=source,
    )


def _left_out(call: KnownCall) -> str:
    if call.status != "ok":
        return f"it ended {call.status}"
    if not isinstance(call.given, dict):
        return "its arguments were erased"
    if not all(isinstance(key, str) for key in call.given):
        return "its arguments have no names"
    return ""


def _texts(value: Any) -> Iterator[str]:
    """Every text in a prompt of any shape."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _texts(item)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield repr(value)


class _Making:
    """What is known while a workflow is made: the prompt, the outputs so far, how often values occur."""

    def __init__(self, prompt: str) -> None:
        self._prompt = prompt
        self._outputs: dict[bytes, tuple[str, str]] = {}
        self._calls_with: dict[bytes, int] = {}
        self._texts: dict[str, tuple[str, str]] = {}
        self.parameters: dict[bytes, Parameter] = {}
        self.notes: list[str] = []
        self._names: set[str] = set()

    def count(self, inputs: Sequence[dict[str, Any]]) -> None:
        """Note which texts several calls were given."""
        for given in inputs:
            for key in {_key(leaf) for leaf in _leaves(given) if _telling(leaf)}:
                self._calls_with[key] = self._calls_with.get(key, 0) + 1

    def learn(self, call: str, output: Any) -> None:
        """Note what a call gave, for the calls after it."""
        for pointer, node in _nodes(output, ""):
            if len(self._outputs) >= NODES_MAX:
                return
            self._outputs.setdefault(_key(node), (call, pointer))
            if _telling(node) and len(self._texts) < TEXTS_MAX:
                self._texts.setdefault(node, (call, pointer))

    def template(self, value: Any, name: str, seen: str) -> Any:
        """A value of an input as the file has it."""
        secret = isinstance(value, str) and _SECRET in value
        origin = self._origin(value, name)
        if not secret and self._prompted(value):
            return self._parameter(value, name, seen, "prompt")
        if origin is not None:
            return {"$from": origin[0], "at": origin[1]} if origin[1] else {"$from": origin[0]}
        if secret:
            return self._parameter(value, name, seen, "")
        if _telling(value) and self._calls_with.get(_key(value), 0) > 1:
            return self._parameter(value, name, seen, "")
        if isinstance(value, list):
            return [self.template(v, name, f"{seen}/{n}") for n, v in enumerate(value)]
        if isinstance(value, dict) and all(map(_plain_key, value)):
            return {key: self.template(v, key, f"{seen}/{escape(key)}") for key, v in value.items()}
        self._warn(value, seen)
        return written(value)

    def _warn(self, value: Any, seen: str) -> None:
        """Say so where a text that stays as it is was made from what a call gave."""
        if not isinstance(value, str):
            return
        for text, (call, pointer) in self._texts.items():
            if _says(value, text):
                self.notes.append(f"{seen} stays as it was, and holds what {call}{pointer} gave")
                return

    def _prompted(self, value: Any) -> bool:
        if isinstance(value, bool) or not isinstance(value, (str, int, float)):
            return False
        text = value if isinstance(value, str) else repr(value)
        if isinstance(value, str) and len(text.strip()) < TEXT_MIN:
            return False
        return _says(self._prompt, text)

    def _origin(self, value: Any, name: str) -> tuple[str, str] | None:
        if isinstance(value, (dict, list)):
            return self._outputs.get(_key(value)) if value else None
        found = self._outputs.get(_key(value))
        if found is None or value is None or isinstance(value, bool):
            return None
        if isinstance(value, str):
            return found if len(value.strip()) >= TEXT_MIN else None
        if not isinstance(value, int) or abs(value) >= NUMBER_MIN:
            return found
        last = found[1].rpartition("/")[2].lower()
        return found if last and name.lower().endswith(last) else None

    def _parameter(self, value: Any, name: str, seen: str, also: str) -> dict[str, str]:
        key = _key(value)
        known = self.parameters.get(key)
        if known is None:
            secret = isinstance(value, str) and _SECRET in value
            default: Any | UnsetType = UNSET if secret else written(value)
            first = [also] if also else []
            known = Parameter(name=self._name(name), default=default, seen=first)
            self.parameters[key] = known
        known.seen.append(seen)
        return {"$param": known.name}

    def _name(self, wanted: str) -> str:
        base = re.sub(r"[^A-Za-z0-9_.-]+", "_", wanted)[:50].strip("_") or "value"
        name, n = base, 1
        while name in self._names:
            n += 1
            name = f"{base}_{n}"
        self._names.add(name)
        return name


def _says(whole: str, text: str) -> bool:
    """Whether a text has another in it, not as a part of a word."""
    at = whole.find(text)
    while at >= 0:
        before, after = whole[max(at - 1, 0) : at], whole[at + len(text) : at + len(text) + 1]
        if not _word(before, text[0]) and not _word(text[-1], after):
            return True
        at = whole.find(text, at + 1)
    return False


def _word(one: str, other: str) -> bool:
    """Whether two neighbouring characters belong to one word."""
    return bool(one) and bool(other) and _is_word(one) and _is_word(other)


def _is_word(char: str) -> bool:
    return char.isalnum() or char == "_"


def _telling(value: Any) -> bool:
    return isinstance(value, str) and len(value.strip()) >= TEXT_MIN


def _key(value: Any) -> bytes:
    return canon.dumps(value)


def _leaves(value: Any) -> Iterator[Any]:
    for _, node in _nodes(value, ""):
        if not isinstance(node, (dict, list)):
            yield node


def _nodes(value: Any, pointer: str, depth: int = 0) -> Iterator[tuple[str, Any]]:
    """A value and every value in it, each with its JSON Pointer; the outer before the inner."""
    yield pointer, value
    if depth >= DEPTH_MAX:
        return
    if isinstance(value, dict):
        for key, item in value.items():
            if isinstance(key, str):
                yield from _nodes(item, f"{pointer}/{escape(key)}", depth + 1)
    elif isinstance(value, list):
        for place, item in enumerate(value):
            yield from _nodes(item, f"{pointer}/{place}", depth + 1)
