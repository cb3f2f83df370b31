"""Reads a provider's response, in any SDK's form and any dialect.

A response is recorded as plain data, whole: fields that are null stay, because a loop written for
the SDK's object asks for them (`message.tool_calls` is None, not missing). What a provider does not
want back is left out when the transcript is rendered, not here.

Dialects are recognised by shape:

    anthropic    {"content": [blocks]}      Messages
    openai       {"output": [items]}        Responses
    openai-chat  {"choices": [...]}         Chat Completions and all that copy it; or its bare message
    plain        text, or anything else
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal, cast

import msgspec

from stator.errors import BadType
from stator.model.values.json_text import canonical, parse_object

Dialect = Literal["anthropic", "openai", "openai-chat", "plain"]
ANSWER_COST_MAX = 2**40
"""The most of a unit that one answer is believed to cost; thousands of these add up to what a record can hold."""


class Reply(dict[str, Any]):
    """Plain data read like an SDK's object: `r.content[0].text` is `r["content"][0]["text"]`.

    A key that is also a method of dict (`items`, `get`, …) is reached by its name in brackets only.
    """

    __slots__ = ()

    def __init__(self, plain: dict[str, Any]) -> None:
        super().__init__({key: _wrapped(value) for key, value in plain.items()})

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            if name == "output_text" and dialect(self) == "openai":
                return text_of(self)  # the SDK computes it too
            raise AttributeError(f"the response has no {name!r:.80}") from None

    def __reduce__(self) -> Any:
        return Reply, (dict(self),)


def _wrapped(value: Any) -> Any:
    if isinstance(value, dict):
        return Reply(value)
    return [_wrapped(item) for item in value] if isinstance(value, list) else value


class Request(msgspec.Struct, frozen=True):
    """A call the model asked for. `index` counts the response's requests from 0."""

    index: int
    id: str
    name: str
    arguments: dict[str, Any] = {}
    error: str = ""
    """Why the arguments could not be read ("": they could)."""
    raw: str = ""
    """The arguments as the text they came in ("": they came as an object)."""
    custom: bool = False
    """Whether the tool takes free text; it is then the argument `input`."""


def plain_reply(response: object) -> Any:
    """A response as plain data: from an SDK's object, a dataclass, a struct, a dict or text."""
    if response is None or isinstance(response, (str, bool, int, float)):
        return response
    if isinstance(response, dict):
        return {str(key): plain_reply(value) for key, value in response.items()}
    if isinstance(response, (list, tuple)):
        return [plain_reply(value) for value in response]
    dump = getattr(response, "model_dump", None)
    if callable(dump):
        # By alias: the wire's names, which the provider expects back. SDKs build their objects
        # without validation, so pydantic's warnings would tell the user nothing.
        return plain_reply(dump(mode="json", by_alias=True, warnings=False))
    # what a dataclass is known by; the module that says so takes long to load
    if hasattr(response, "__dataclass_fields__") or isinstance(response, msgspec.Struct):
        return plain_reply(msgspec.to_builtins(response))
    raise BadType(
        f"not a response: {type(response).__name__}",
        hint="give the SDK's object, a dict or text",
    )


def dialect(plain: Any) -> Dialect:
    """Which provider's shape it has."""
    if isinstance(plain, dict):
        if isinstance(plain.get("choices"), list):
            return "openai-chat"
        if isinstance(plain.get("output"), list):
            return "openai"
        if isinstance(plain.get("content"), list) and "tool_calls" not in plain:
            return "anthropic"
        if plain.get("role") == "assistant":
            return "openai-chat"
    return "plain"


def requests(plain: Any) -> list[Request]:
    """The calls a response asks for, in order. Never raises: what cannot be read says so."""
    found: list[Request] = []
    for identifier, name, given, raw, custom in _asked(plain):
        if custom:
            arguments, error = {"input": raw if isinstance(raw, str) else ""}, ""
        elif isinstance(given, dict):
            arguments, error = given, ""
        else:
            arguments, error = parse_object(raw)
        found.append(
            Request(
                len(found),
                identifier if isinstance(identifier, str) else "",
                name if isinstance(name, str) else "",
                arguments,
                error,
                raw if isinstance(raw, str) else canonical(raw) if error else "",
                custom,
            )
        )
    return found


_Asked = tuple[Any, Any, Any, Any, bool]
"""Id, name, arguments as an object, arguments as text, whether they are free text."""


def _asked(plain: Any) -> Iterator[_Asked]:
    spoken = dialect(plain)
    if spoken == "anthropic":
        for block in blocks_of(plain):
            if block.get("type") == "tool_use":
                yield (
                    block.get("id"),
                    block.get("name"),
                    block.get("input"),
                    block.get("input"),
                    False,
                )
    elif spoken == "openai":
        for item in items_of(plain):
            if item.get("type") == "function_call":
                yield item.get("call_id"), item.get("name"), None, item.get("arguments"), False
            elif item.get("type") == "custom_tool_call":
                yield item.get("call_id"), item.get("name"), None, item.get("input"), True
    elif spoken == "openai-chat":
        for call in _dicts(message_of(plain).get("tool_calls")):
            if isinstance(tool := call.get("custom"), dict):
                yield call.get("id"), tool.get("name"), None, tool.get("input"), True
            else:
                tool = call.get("function")
                tool = tool if isinstance(tool, dict) else {}
                yield call.get("id"), tool.get("name"), None, tool.get("arguments"), False


def text_of(plain: Any) -> str:
    """What a response says in words; a refusal counts."""
    spoken = dialect(plain)
    if spoken == "anthropic":
        return "".join(texts(blocks_of(plain)))
    if spoken == "openai":
        messages = [item for item in items_of(plain) if item.get("type") == "message"]
        return "".join(text for item in messages for text in texts(_dicts(item.get("content"))))
    if spoken == "openai-chat":
        message = message_of(plain)
        content = message.get("content")
        said = content if isinstance(content, str) else "".join(texts(_dicts(content)))
        refusal = message.get("refusal")
        return said or (refusal if isinstance(refusal, str) else "")
    if isinstance(plain, str):
        return plain
    content = plain.get("content") if isinstance(plain, dict) else None
    return content if isinstance(content, str) else canonical(plain)


def texts(blocks: list[dict[str, Any]]) -> Iterator[str]:
    """The words in content blocks of any dialect."""
    for block in blocks:
        if block.get("type") in ("text", "output_text", "input_text", "refusal"):
            said = block.get("refusal" if block["type"] == "refusal" else "text")
            if isinstance(said, str):
                yield said


def usage_of(plain: Any) -> dict[str, int]:
    """What a response cost, in units that add up: `tokens` is the sum of the next four; the last is a part of what was
    written to a cache, kept there for an hour, which costs more.

    OpenAI counts cached tokens as input, Anthropic beside it; `tokens:in` is what neither read
    from a cache nor wrote to one.
    """
    usage = plain.get("usage") if isinstance(plain, dict) else None
    if not isinstance(usage, dict):
        return {}
    hourly = 0
    if dialect(plain) == "anthropic":
        kept = usage.get("cache_creation")
        hourly = _count(kept, "ephemeral_1h_input_tokens") if isinstance(kept, dict) else 0
        fresh = _count(usage, "input_tokens")
        read = _count(usage, "cache_read_input_tokens")
        written = _count(usage, "cache_creation_input_tokens")
        said = _count(usage, "output_tokens")
    else:
        chat = "prompt_tokens" in usage
        details = usage.get("prompt_tokens_details" if chat else "input_tokens_details")
        details = details if isinstance(details, dict) else {}
        whole = _count(usage, "prompt_tokens" if chat else "input_tokens")
        read = min(_count(details, "cached_tokens"), whole)
        written = min(_count(details, "cache_write_tokens"), whole - read)
        fresh = whole - read - written
        said = _count(usage, "completion_tokens" if chat else "output_tokens")
    spent = {
        "tokens": fresh + read + written + said,
        "tokens:in": fresh,
        "tokens:out": said,
        "tokens:cache_read": read,
        "tokens:cache_write": written,
        "tokens:cache_write_1h": min(hourly, written),
    }
    return {unit: amount for unit, amount in spent.items() if amount}


_ANTHROPICS = ("cache_read_input_tokens", "cache_creation_input_tokens")
_PROVIDERS = frozenset(
    (
        "input_tokens",
        "output_tokens",
        "prompt_tokens",
        "completion_tokens",
        "total_tokens",
        *_ANTHROPICS,
    )
)
_DETAILS = frozenset(
    "cache_creation prompt_tokens_details input_tokens_details completion_tokens_details"
    " output_tokens_details".split()
)
_PARTS = ("tokens:in", "tokens:out", "tokens:cache_read", "tokens:cache_write")


def reported_usage(usage: Mapping[Any, Any]) -> dict[Any, Any]:
    """What a program says that an answer used, in the units that budgets count: a provider's own names are read as in
    its responses, parts of `tokens` add up to it, and the letters of a currency may be capitals. What is no number is
    left as it is, to be refused."""
    named = {name: usage[name] for name in _PROVIDERS.intersection(usage)}
    found: dict[Any, Any] = {}
    if named and all(type(amount) is int for amount in named.values()):
        about: dict[str, Any] = {"usage": dict(usage)}
        found = usage_of({**about, "content": []} if any(map(usage.get, _ANTHROPICS)) else about)
        if not found and named.get("total_tokens"):
            found = {"tokens": named["total_tokens"]}
        usage = {name: usage[name] for name in usage if name not in _PROVIDERS | _DETAILS}
    for unit, amount in usage.items():
        is_money = isinstance(unit, str) and unit.startswith("money:")
        found[unit.lower() if is_money else unit] = amount
    parts = [found[unit] for unit in _PARTS if type(found.get(unit)) is int]
    if parts and "tokens" not in found:
        found["tokens"] = sum(parts)
    return found


def _count(usage: dict[str, Any], name: str) -> int:
    amount = usage.get(name)
    return amount if type(amount) is int and 0 < amount <= ANSWER_COST_MAX else 0


# --- finding one's way in a response ------------------------------------------------------------


def blocks_of(plain: Any) -> list[dict[str, Any]]:
    """The content blocks of an Anthropic message."""
    return _dicts(plain.get("content"))


def items_of(plain: Any) -> list[dict[str, Any]]:
    """The output items of an OpenAI response."""
    return _dicts(plain.get("output"))


def message_of(plain: Any) -> dict[str, Any]:
    """The message of a chat completion: its first choice's, or itself."""
    if "choices" not in plain:
        return cast("dict[str, Any]", plain)
    choices = _dicts(plain["choices"])
    message = choices[0].get("message") if choices else None
    return message if isinstance(message, dict) else {}


def _dicts(value: Any) -> list[dict[str, Any]]:
    """The objects in a list; recorded content may hold anything."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
