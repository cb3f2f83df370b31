"""A model that knows only what an MCP server says of itself: names, descriptions, schemas, refusals.

It is given a sentence and the things that the sentence is about, each under the word that a user would use for it. It
picks the tool whose description shares the rarest words with the sentence, and fills arguments whose names or
descriptions fit. Nothing about Stator is written here. If it is refused, it corrects itself with what the refusal says.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any

import mcp_types as types
from mcp import Client

TRIES = 3
_WORD = re.compile(r"[a-z0-9]+")


def stem(word: str) -> str:
    for end in ("ies", "ing", "ed", "es", "s", "ly", "e"):
        if word.endswith(end) and len(word) - len(end) >= 3:
            return word[: -len(end)]
    return word


def words(text: str) -> set[str]:
    return {stem(word) for word in _WORD.findall(text.lower().replace("_", " "))}


class ScriptedModel:
    """Plans calls from the lists that a server gives, and remembers the last answers."""

    def __init__(self, client: Client, tools: list[types.Tool]) -> None:
        self._client = client
        self._tools = {tool.name: tool for tool in tools}
        self.answer: dict[str, Any] = {}
        self.called: list[tuple[str, dict[str, Any]]] = []
        self._remembered: dict[str, Any] = {}
        """What answers named, by the name they gave it: a handle, a key, a call."""

    @classmethod
    async def reading(cls, client: Client) -> ScriptedModel:
        return cls(client, (await client.list_tools()).tools)

    async def do(self, sentence: str, **things: Any) -> dict[str, Any]:
        """Do what a sentence asks with one tool; correct the call if it is refused."""
        tool = self._choose(sentence, things)
        given = self._fill(tool, sentence, things)
        for _ in range(TRIES):
            self.called.append((tool.name, given))
            found = await self._client.call_tool(tool.name, given)
            assert found.structured_content is not None
            if not found.is_error:
                self.answer = dict(found.structured_content)
                self._remember(self.answer)
                return self.answer
            error = found.structured_content["error"]
            given = self._corrected(given, error, things)
        raise AssertionError(f"{sentence!r}: {tool.name} was refused: {error}")

    # -- which tool -------------------------------------------------------------------------------

    def _choose(self, sentence: str, things: dict[str, Any]) -> types.Tool:
        wanted = words(sentence) | words(" ".join(things))
        read = {name: words(self._all_of(tool)) for name, tool in self._tools.items()}
        rare = {
            word: math.log(len(read) / sum(word in known for known in read.values()))
            for word in wanted
            if any(word in known for known in read.values())
        }

        def fit(name: str) -> float:
            tool = self._tools[name]
            titled = words(f"{name.partition('_')[2]} {tool.title}")
            return sum(
                rare[word] * (2 if word in titled else 1) for word in rare if word in read[name]
            )

        return self._tools[max(read, key=fit)]

    def _all_of(self, tool: types.Tool) -> str:
        parts = [tool.name.partition("_")[2], tool.title or "", tool.description or ""]
        for name, schema in tool.input_schema["properties"].items():
            parts += [name, schema.get("description", ""), *schema.get("enum", ())]
        return " ".join(parts)

    # -- with which arguments ---------------------------------------------------------------------

    def _fill(self, tool: types.Tool, sentence: str, things: dict[str, Any]) -> dict[str, Any]:
        schema = tool.input_schema
        given: dict[str, Any] = {}
        left = dict(things)
        for name, one in schema["properties"].items():
            if name in left:
                given[name] = left.pop(name)
            elif "enum" in one:
                given |= self._chosen(name, one["enum"], sentence)
            elif one.get("type") == "integer":
                number = re.search(rf"\b{name}\s+(\d+)", sentence)
                given |= {name: int(number[1])} if number else {}
            elif name in self._remembered and self._is_meant(name, one, sentence, things, schema):
                given[name] = self._remembered[name]
        for name, one in schema["properties"].items():
            inner = one.get("items", {}) if one.get("type") == "array" else {}
            if name not in given and "kind" in inner.get("properties", {}) and left:
                kind = self._chosen("kind", inner["properties"]["kind"]["enum"], sentence)
                given[name], left = [{**kind, **left}], {}
        missing = [name for name in schema.get("required", ()) if name not in given]
        if len(missing) == 1 and len(left) == 1:
            given[missing[0]] = left.popitem()[1]
        return given

    @staticmethod
    def _chosen(name: str, choices: list[str], sentence: str) -> dict[str, str]:
        """The choice whose words the sentence has; of several, the one that it names first."""
        said = [stem(word) for word in _WORD.findall(sentence.lower())]
        fitting = [choice for choice in choices if words(choice) <= set(said)]
        first = min(fitting, key=lambda one: min(map(said.index, words(one))), default=None)
        return {} if first is None else {name: first}

    def _is_meant(
        self,
        name: str,
        one: dict[str, Any],
        sentence: str,
        things: dict[str, Any],
        schema: dict[str, Any],
    ) -> bool:
        """Whether something that was remembered belongs here: it is required or about the handle, or mentioned."""
        about = words(one.get("description", ""))
        if name in schema.get("required", ()) or "handl" in about:
            return not self._is_restriction(name, sentence, schema)
        return stem(name) in words(sentence)

    @staticmethod
    def _is_restriction(name: str, sentence: str, schema: dict[str, Any]) -> bool:
        """Whether the sentence asks for more than what is remembered: `every`, `all`."""
        return name not in schema.get("required", ()) and bool(words(sentence) & words("every all"))

    # -- and if that is refused -------------------------------------------------------------------

    def _corrected(
        self, given: dict[str, Any], error: dict[str, Any], things: dict[str, Any]
    ) -> dict[str, Any]:
        """The call with the item that the refusal shows, and the things of the sentence in it."""
        hint = error.get("hint", "")
        place = re.match(r"\$\.(\w+)\[(\d+)\]", error.get("path", ""))
        if place is None or "for example: " not in hint:
            raise AssertionError(f"refused without an example: {error}")
        example = json.loads(hint.partition("for example: ")[2])
        values = {name: value for name, value in things.items() if name in example}
        others = [value for name, value in things.items() if name not in example]
        free = [name for name in example if name not in values and name != "kind"]
        item = {"kind": example["kind"], **values, **dict(zip(free, others, strict=False))}
        return {**given, place[1]: [item]}

    def _remember(self, answer: dict[str, Any]) -> None:
        for rows in answer.values():
            if isinstance(rows, list) and rows and isinstance(rows[0], dict):
                named = {name: rows[0][name] for name in ("key", "call") if name in rows[0]}
                self._remembered |= named
                if "session" not in answer and "session" in rows[0]:
                    self._remembered["session"] = rows[0]["session"]
        if isinstance(answer.get("session"), str):
            self._remembered["session"] = answer["session"]
