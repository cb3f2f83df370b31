"""Makes a workflow from a recorded chain of calls: finds what its parameters are. Pure.

A value becomes a reference where an earlier call gave it, and a parameter where the prompt says it or several calls
have it; so does a part of a path or a command that the prompt names, or a date in it. What the names of parameters
are is decided in `parameter_names`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from jsonpointer import escape
from msgspec import UNSET, UnsetType

from stator.model.calls.known import PLACEHOLDER, KnownCall
from stator.model.calls.parameter_names import (
    is_content,
    is_option,
    is_place,
    name_for,
    split_by,
    telling_parts,
    with_more,
)
from stator.model.calls.vocabulary import act_of, is_idle, root_of
from stator.model.calls.workflow import (
    CALLS_MAX,
    DEPTH_MAX,
    SCHEMA,
    CallTemplate,
    Parameter,
    Workflow,
    plain_key,
    written,
)
from stator.model.values import canon

NODES_MAX = 50_000
"""Values of the outputs of a chain that inputs are looked for among."""
TEXTS_MAX = 2000
"""Texts of outputs that texts of inputs are looked through for."""
TEXT_MIN = 3
"""Characters from which on two equal texts count as the same value."""
NUMBER_MIN = 1000
"""Smaller whole numbers are equal by accident, unless their names match too."""
SHARED_MAX = 200
"""Characters of a text that is a parameter because several calls have it; a longer one is content."""
PROMPT_MAX = 100_000
_SECRET = PLACEHOLDER.decode()


def extract(
    name: str,
    prompts: Sequence[Any],
    calls: Sequence[KnownCall],
    *,
    source: str = "",
    project: str = "",
    scrub: canon.Scrub | None = None,
) -> Workflow:
    """The chain of calls that worked, with parameters for what came from outside.

    A value becomes a reference where an earlier call gave it, and a parameter where the prompt says it or
    several calls have it. What was a secret, or is one for `scrub`, is always a parameter, and has no default.
    `project` is the folder of the session, if it is one.
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
    inputs = [clean(_named(call.given)) for call in kept]
    acts = [act_of(call.tool, given) for call, given in zip(kept, inputs, strict=True)]
    root = root_of([act for act in acts if act is not None], project)
    made.count(inputs, root)
    found: list[CallTemplate] = []
    for place, (call, arguments, act) in enumerate(zip(kept, inputs, acts, strict=True), 1):
        identifier = f"c{place}"
        given = {
            key: written(item)
            if act is not None and is_option(key) and not _is_secret(item)
            else made.template(item, key, f"{identifier}/{escape(key)}", whole=act is None)
            for key, item in arguments.items()
        }
        found.append(CallTemplate(id=identifier, tool=call.tool, effect=call.effect, input=given))
        output = None if call.ending is None else clean(call.ending.known("output"))
        # What another agent's tool gave has that agent's form; only a text as a whole is the same here.
        made.learn(identifier, output if act is None or isinstance(output, str) else None)
    return Workflow(
        schema=SCHEMA,
        name=name,
        parameters=list(made.parameters.values()),
        calls=found,
        notes=[*notes, *made.notes],
        source=source,
        root=root,
    )


def _named(given: Any) -> Any:
    """The arguments of a call by their names; a tool that takes one text is given it as its input."""
    return {"input": given} if isinstance(given, str) else given


def _left_out(call: KnownCall) -> str:
    if call.status != "ok":
        return f"it ended {call.status}"
    given = _named(call.given)
    if not isinstance(given, dict):
        return "its arguments were erased"
    if not all(isinstance(key, str) for key in given):
        return "its arguments have no names"
    if is_idle(call.tool) and act_of(call.tool, given) is None:
        return "it only kept the agent's own books"
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
        self._root = ""
        self._parts: list[str] = []
        """Parts of paths and commands that vary from one time to the next."""

    def count(self, inputs: Sequence[dict[str, Any]], root: str) -> None:
        """Note which texts several calls were given, and which parts of them vary."""
        self._root = root
        places = [text for given in inputs for text in _places(given)]
        self._parts = telling_parts(self._prompt, places, root)
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

    def template(self, value: Any, name: str, seen: str, *, whole: bool = True) -> Any:
        """A value of an input as the file has it. Without `whole`, a command or the text of a file is no parameter
        as a whole."""
        if value == self._root and value:
            return written(value)
        whole = whole or not is_content(name)
        secret = _is_secret(value)
        origin = self._origin(value, name)
        pieces = self._pieces(value, name) if not secret else []
        if not secret and whole and self._prompted(value) and len(pieces) < 2:
            return self._parameter(value, name, seen, "prompt")
        if origin is not None:
            return {"$from": origin[0], "at": origin[1]} if origin[1] else {"$from": origin[0]}
        if secret:
            return self._parameter(value, name, seen, "")
        if pieces:
            parts = [
                self._parameter(text, name, seen, "prompt" if _says(self._prompt, text) else "")
                if is_part
                else text
                for text, is_part in pieces
            ]
            return parts[0] if len(parts) == 1 else {"$text": parts}
        if whole and self._is_shared(value):
            return self._parameter(value, name, seen, "")
        if isinstance(value, list):
            return [self.template(v, name, f"{seen}/{n}", whole=whole) for n, v in enumerate(value)]
        if isinstance(value, dict) and all(map(plain_key, value)):
            return {
                key: self.template(v, key, f"{seen}/{escape(key)}", whole=whole)
                for key, v in value.items()
            }
        self._warn(value, seen)
        return written(value)

    def _pieces(self, value: Any, name: str) -> list[tuple[str, bool]]:
        """A path or command, cut where it has a part that varies; nothing if it has none."""
        if not self._parts or not isinstance(value, str) or not is_place(name):
            return []
        pieces = split_by(value, self._parts)
        return pieces if any(is_part for _, is_part in pieces) else []

    def _is_shared(self, value: Any) -> bool:
        """Whether several calls were given a text that is short enough to be given by a person."""
        is_short = _telling(value) and len(value) <= SHARED_MAX and "\n" not in value.strip()
        return is_short and self._calls_with.get(_key(value), 0) > 1

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
            secret = _is_secret(value)
            default: Any | UnsetType = UNSET if secret else written(value)
            first = [also] if also else []
            wanted = name if secret else name_for(value, name, self._prompt)
            known = Parameter(name=self._name(wanted, value), default=default, seen=first)
            self.parameters[key] = known
        if seen not in known.seen:
            known.seen.append(seen)
        return {"$param": known.name}

    def _name(self, wanted: str, value: Any) -> str:
        """A name that no other parameter has: one that says which, before one with a number."""
        base = _clean_name(wanted)
        if base in self._names and not _is_secret(value):
            base = _clean_name(with_more(wanted, value))
        if base in self._names and not _is_secret(value):
            base = _clean_name(with_more(wanted, value, above=True))
        name, n = base, 1
        while name in self._names:
            n += 1
            name = f"{base}_{n}"
        self._names.add(name)
        return name


def _clean_name(wanted: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.-]+", "_", wanted)[:50].strip("_") or "value"


def _is_secret(value: Any) -> bool:
    return isinstance(value, str) and _SECRET in value


def _places(given: Mapping[str, Any]) -> Iterator[str]:
    """The paths and commands among some arguments, also those in lists."""
    for key, value in given.items():
        if is_place(key):
            yield from (leaf for leaf in _leaves(value) if isinstance(leaf, str))


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
