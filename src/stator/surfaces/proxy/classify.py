"""Classifies JSON-RPC messages from a copy of their bytes. Pure.

Only the members the record needs are decoded; the rest stays bytes. A message this module does not understand
is still passed on.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from typing import Any, Literal

import msgspec
from msgspec import UNSET

from stator.model.log.shown_text import cut_short, without_secrets
from stator.model.values.escape import visible

TEXT_MAX = 2_000
"""Characters of an error's text."""
SECRET_MAX = 4_096
"""Bytes beyond an excerpt that are looked at, so that no secret in it is cut."""
CALL, LIST, CANCELLED = "tools/call", "tools/list", "notifications/cancelled"


class _RawMessage(msgspec.Struct):
    """The members of a message; their contents stay undecoded bytes."""

    jsonrpc: Any = UNSET
    id: Any = UNSET
    method: Any = UNSET
    params: msgspec.Raw = msgspec.Raw()
    result: msgspec.Raw = msgspec.Raw()
    error: msgspec.Raw = msgspec.Raw()


@dataclass(frozen=True, slots=True)
class RpcRequest:
    """A request: its sender waits for a response."""

    id: str
    """The id as JSON text, so that 1 and "1" stay different."""
    method: str
    params: Any


@dataclass(frozen=True, slots=True)
class RpcNotification:
    """A notification: it has no response."""

    method: str
    params: Any


@dataclass(frozen=True, slots=True)
class RpcResponse:
    """The response to a request: a result or an error, decoded only on demand."""

    id: str
    result: msgspec.Raw | None = None
    error: msgspec.Raw | None = None


@dataclass(frozen=True, slots=True)
class NotAMessage:
    """Valid JSON that is not a message of the protocol."""


Message = RpcRequest | RpcNotification | RpcResponse | NotAMessage

_decoder = msgspec.json.Decoder(_RawMessage)
_batch = msgspec.json.Decoder(list[_RawMessage])


def classify(data: bytes) -> list[Message] | None:
    """Return the messages in some bytes: one, or those of a batch; None if the bytes are not JSON."""
    try:
        if data.lstrip()[:1] == b"[":
            return [_message(wire) for wire in _batch.decode(data)]
        return [_message(_decoder.decode(data))]
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _classify_leniently(data)
    except RecursionError:
        return [NotAMessage()]


def _classify_leniently(data: bytes) -> list[Message] | None:
    """Classify bytes that a strict decoder refuses: client and server may both accept them."""
    try:
        value = _decode_leniently(data)
        return [
            _message(_raw_message(one)) for one in (value if isinstance(value, list) else [value])
        ]
    except RecursionError:
        return [NotAMessage()]
    except ValueError:
        return None


def _raw_message(value: Any) -> _RawMessage:
    found = _RawMessage()
    for name in _RawMessage.__struct_fields__ if isinstance(value, dict) else ():
        if name in value:
            inner = value[name]
            raw = name in ("params", "result", "error")
            setattr(found, name, msgspec.Raw(json.dumps(inner).encode()) if raw else inner)
    return found


def _decode_leniently(data: bytes) -> Any:
    """Decode JSON as leniently as most programs do. Lone surrogates and bytes that are not UTF-8 are kept;
    NaN, Infinity and numbers out of range become text."""
    text = data.decode("utf-8-sig", "surrogateescape")
    return json.loads(text, parse_constant=str, parse_float=_float, parse_int=_int)


def _float(text: str) -> float | str:
    return value if math.isfinite(value := float(text)) else text


def _int(text: str) -> int | str:
    try:
        return int(text)
    except ValueError:
        return text


def _message(wire: _RawMessage) -> Message:
    if isinstance(wire.method, str):
        params = decode_raw(wire.params)
        if wire.id is UNSET:
            return RpcNotification(wire.method, params)
        return RpcRequest(id_text(wire.id), wire.method, params)
    if wire.id is not UNSET and wire.method is UNSET:
        if bytes(wire.error):
            return RpcResponse(id_text(wire.id), error=wire.error)
        if bytes(wire.result):
            return RpcResponse(id_text(wire.id), result=wire.result)
    return NotAMessage()


def decode_raw(raw: msgspec.Raw) -> Any:
    """Decode bytes that are known to be JSON."""
    data = bytes(raw)
    try:
        return msgspec.json.decode(data) if data else {}
    except (msgspec.DecodeError, UnicodeDecodeError):
        return _decode_leniently(data)


def id_text(value: Any) -> str:
    """Return an id as JSON text; 1 and 1.0 give the same text."""
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
    """Find the id of a response too long to decode, in its first or its last bytes."""
    found = _HEAD.match(head) or _TAIL.search(tail)
    return id_text(msgspec.json.decode(found[1])) if found else None


# -- tool calls ---------------------------------------------------------------------------------


def member(value: Any, *names: str) -> Any:
    """Return the value at a path of member names; None if any of them is missing."""
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def text_of(value: Any, *names: str) -> str:
    found = member(value, *names)
    return found if isinstance(found, str) else ""


def client_name(message: Message) -> str:
    """Return the client's name, from `initialize` or from the metadata of a request."""
    params = message.params if isinstance(message, RpcRequest) else None
    return text_of(params, "clientInfo", "name") or text_of(
        params, "_meta", "io.modelcontextprotocol/clientInfo", "name"
    )


Status = Literal["ok", "error", "in doubt"]


@dataclass(frozen=True, slots=True)
class CallResult:
    """How a call ended, according to its response."""

    status: Status
    cause: str = ""
    output: Any = None
    task: str = ""
    """The id of the task that continues the call, if the response only names one."""


def call_result(answer: RpcResponse) -> CallResult:
    """Return how a call ended, from its response."""
    try:
        if answer.error is not None:
            return _failed(decode_raw(answer.error))
        return _ended(decode_raw(answer.result or msgspec.Raw(b"{}")))
    except RecursionError:
        return CallResult("in doubt", cause="its answer is nested too deep to be read")


def _failed(error: Any) -> CallResult:
    code, message = member(error, "code"), text_of(error, "message")
    output = {"error": f"JSON-RPC error {code}", "message": cut_short(message, TEXT_MAX)}
    if (data := member(error, "data")) is not None:
        output["data"] = data
    return CallResult("error", cause=f"JSON-RPC error {code}", output=output)


def _ended(result: Any) -> CallResult:
    if member(result, "isError") is True:
        output = {"error": "isError", "message": _error_text(result), "result": result}
        return CallResult("error", cause="isError", output=output)
    kind = member(result, "resultType")
    task = text_of(result, "taskId") if kind == "task" else text_of(result, "task", "taskId")
    if task and (kind == "task" or "content" not in result):
        return CallResult("in doubt", cause="goes on as a task", task=task)
    return CallResult(
        "ok", cause="input required" if kind == "input_required" else "", output=result
    )


def task_result(answer: RpcResponse) -> CallResult | None:
    """Return how a task ended, from the response to `tasks/get` or `tasks/result`; None while it runs."""
    result = decode_raw(answer.result) if answer.result is not None else None
    if not isinstance(result, dict):
        return None
    if "content" in result:
        return _ended(result)
    if result.get("status") == "completed" and "result" in result:
        return _ended(result["result"])
    if result.get("status") == "failed":
        return _failed(result.get("error"))
    if result.get("status") == "cancelled":
        return CallResult("error", cause="cancelled", output={"error": "cancelled", "message": ""})
    return None


def _error_text(result: Any) -> str:
    content = member(result, "content")
    texts = [text_of(part, "text") for part in content] if isinstance(content, list) else []
    return cut_short("\n".join(text for text in texts if text), TEXT_MAX)


def error_answer(id: str, code: int, message: str) -> bytes:
    """Build an error response to a request, as one line."""
    error = msgspec.json.encode({"code": code, "message": message})
    return b'{"jsonrpc":"2.0","id":' + id.encode() + b',"error":' + error + b"}\n"


def excerpt(data: bytes, limit: int = 200) -> str:
    """Return the first bytes as text that is safe to print."""
    # More than is returned: a secret that begins within the limit is then whole, and recognised.
    text = data[: limit + SECRET_MAX].decode("utf-8", "backslashreplace").strip()
    return visible(without_secrets(text)[:limit])
