"""What a JSON-RPC message is, read from a copy of its bytes. Pure.

Only what the record needs is looked at; everything else stays unread. A message that is not
understood is nobody's fault and no reason to hold it back.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from typing import Any, Literal

import msgspec
from msgspec import UNSET

from stator.model.values.escape import visible

TEXT_MAX = 2_000
"""Characters of an error's text."""
CALL, LIST, CANCELLED = "tools/call", "tools/list", "notifications/cancelled"
CLAUDE_CALL = "claudecode/toolUseId"
"""Where Claude Code says which of its tool uses a request is."""


class _Wire(msgspec.Struct):
    """The members of a message; what is inside them is left as bytes."""

    jsonrpc: Any = UNSET
    id: Any = UNSET
    method: Any = UNSET
    params: msgspec.Raw = msgspec.Raw()
    result: msgspec.Raw = msgspec.Raw()
    error: msgspec.Raw = msgspec.Raw()


@dataclass(frozen=True, slots=True)
class Request:
    """Somebody asks, and waits for an answer."""

    id: str
    """The id as JSON text: 1 and "1" are two."""
    method: str
    params: Any


@dataclass(frozen=True, slots=True)
class Notice:
    """Somebody says something; nobody answers."""

    method: str
    params: Any


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a request: a result or an error, not read until somebody wants to know."""

    id: str
    result: msgspec.Raw | None = None
    error: msgspec.Raw | None = None


@dataclass(frozen=True, slots=True)
class Strange:
    """JSON, and no message of the protocol."""


Message = Request | Notice | Answer | Strange

_decoder = msgspec.json.Decoder(_Wire)
_batch = msgspec.json.Decoder(list[_Wire])


def classify(data: bytes) -> list[Message] | None:
    """The messages in some bytes: one, those of a batch, or None if it is not JSON."""
    try:
        if data.lstrip()[:1] == b"[":
            return [_message(wire) for wire in _batch.decode(data)]
        return [_message(_decoder.decode(data))]
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _as_others_read(data)
    except RecursionError:
        return [Strange()]


def _as_others_read(data: bytes) -> list[Message] | None:
    """The same for what a strict reader refuses: what both sides understand must not be lost on us."""
    try:
        value = _lenient(data)
        return [_message(_wire(one)) for one in (value if isinstance(value, list) else [value])]
    except RecursionError:
        return [Strange()]
    except ValueError:
        return None


def _wire(value: Any) -> _Wire:
    found = _Wire()
    for name in _Wire.__struct_fields__ if isinstance(value, dict) else ():
        if name in value:
            inner = value[name]
            raw = name in ("params", "result", "error")
            setattr(found, name, msgspec.Raw(json.dumps(inner).encode()) if raw else inner)
    return found


def _lenient(data: bytes) -> Any:
    """What some bytes say, the way most programs read JSON: half a surrogate pair stays, and so does what
    is no UTF-8; a number that is none, or of no size one can hold, becomes text."""
    text = data.decode("utf-8-sig", "surrogateescape")
    return json.loads(text, parse_constant=str, parse_float=_float, parse_int=_int)


def _float(text: str) -> float | str:
    return value if math.isfinite(value := float(text)) else text


def _int(text: str) -> int | str:
    try:
        return int(text)
    except ValueError:
        return text


def _message(wire: _Wire) -> Message:
    if isinstance(wire.method, str):
        params = inside(wire.params)
        if wire.id is UNSET:
            return Notice(wire.method, params)
        return Request(id_text(wire.id), wire.method, params)
    if wire.id is not UNSET and wire.method is UNSET:
        if bytes(wire.error):
            return Answer(id_text(wire.id), error=wire.error)
        if bytes(wire.result):
            return Answer(id_text(wire.id), result=wire.result)
    return Strange()


def inside(raw: msgspec.Raw) -> Any:
    """What some bytes say that are known to be JSON."""
    data = bytes(raw)
    try:
        return msgspec.json.decode(data) if data else {}
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _lenient(data)


def id_text(value: Any) -> str:
    """An id as JSON text; a whole number is the same however it is spelled."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    try:
        return msgspec.json.encode(value).decode()
    except (UnicodeEncodeError, OverflowError):
        return json.dumps(value)


_ID = rb'(-?\d+|"(?:[^"\\]|\\.){0,200}")'
_HEAD = re.compile(rb'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*' + _ID + rb"\s*,")
_TAIL = re.compile(
    rb'[\]}"\w]\s*,\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*'
    + _ID
    + rb'(?:\s*,\s*"jsonrpc"\s*:\s*"2\.0")?\s*\}\s*\Z'
)


def edge_id(head: bytes, tail: bytes) -> str | None:
    """The id of an answer too long to be read, from its first or its last bytes."""
    found = _HEAD.match(head) or _TAIL.search(tail)
    return id_text(msgspec.json.decode(found[1])) if found else None


# -- tool calls ---------------------------------------------------------------------------------


def member(value: Any, *names: str) -> Any:
    """What is inside, name by name; None where there is no such thing."""
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def text_of(value: Any, *names: str) -> str:
    found = member(value, *names)
    return found if isinstance(found, str) else ""


def client_name(message: Message) -> str:
    """What the client calls itself, in `initialize` or in what goes with each request."""
    params = message.params if isinstance(message, Request) else None
    return text_of(params, "clientInfo", "name") or text_of(
        params, "_meta", "io.modelcontextprotocol/clientInfo", "name"
    )


Status = Literal["ok", "error", "in doubt"]


@dataclass(frozen=True, slots=True)
class Told:
    """What an answer says of a call."""

    status: Status
    cause: str = ""
    output: Any = None
    task: str = ""
    """The task it goes on as, where the answer is only that."""


def told(answer: Answer) -> Told:
    """How a call ended, by its answer."""
    try:
        if answer.error is not None:
            return _failed(inside(answer.error))
        return _ended(inside(answer.result or msgspec.Raw(b"{}")))
    except RecursionError:
        return Told("in doubt", cause="its answer is nested too deep to be read")


def _failed(error: Any) -> Told:
    code, message = member(error, "code"), text_of(error, "message")
    output = {"error": f"JSON-RPC error {code}", "message": message[:TEXT_MAX]}
    if (data := member(error, "data")) is not None:
        output["data"] = data
    return Told("error", cause=f"JSON-RPC error {code}", output=output)


def _ended(result: Any) -> Told:
    if member(result, "isError") is True:
        output = {"error": "isError", "message": _said(result), "result": result}
        return Told("error", cause="isError", output=output)
    kind = member(result, "resultType")
    task = text_of(result, "taskId") if kind == "task" else text_of(result, "task", "taskId")
    if task and (kind == "task" or "content" not in result):
        return Told("in doubt", cause="goes on as a task", task=task)
    return Told("ok", cause="input required" if kind == "input_required" else "", output=result)


def task_told(answer: Answer) -> Told | None:
    """How a task ended, by the answer to somebody who asked for it; None while it goes on."""
    result = inside(answer.result) if answer.result is not None else None
    if not isinstance(result, dict):
        return None
    if "content" in result:
        return _ended(result)
    if result.get("status") == "completed" and "result" in result:
        return _ended(result["result"])
    if result.get("status") == "failed":
        return _failed(result.get("error"))
    if result.get("status") == "cancelled":
        return Told("error", cause="cancelled", output={"error": "cancelled", "message": ""})
    return None


def _said(result: Any) -> str:
    content = member(result, "content")
    texts = [text_of(part, "text") for part in content] if isinstance(content, list) else []
    return "\n".join(text for text in texts if text)[:TEXT_MAX]


def error_answer(id: str, code: int, message: str) -> bytes:
    """An error in answer to a request, as one line."""
    said = msgspec.json.encode({"code": code, "message": message})
    return b'{"jsonrpc":"2.0","id":' + id.encode() + b',"error":' + said + b"}\n"


def shown(data: bytes, limit: int = 200) -> str:
    """The beginning of some bytes, for people."""
    return visible(data[:limit].decode("utf-8", "backslashreplace").strip())
