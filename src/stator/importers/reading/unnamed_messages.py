"""Gives ids to the messages and calls of conversations that have none, and pairs results with
calls.

Some formats are a plain list of messages without ids, often without ids for calls: a result is
simply the next message. This module derives ids from the content and its ordinal, so that reading
the same list again, or a longer one, yields the same ids.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from typing import Any, Literal

import msgspec

from stator.importers.reading.attachments import strip_attachments
from stator.importers.reading.call_outcome import CallStatus
from stator.importers.reading.fields import (
    UniqueIds,
    assistant_message,
    record,
    text,
    tool_use_block,
)
from stator.importers.reading.shell_reads import only_reads
from stator.model.exchange.items import (
    Answered,
    Called,
    Item,
    Noted,
    Prompted,
    Returned,
    Touch,
    TurnEnded,
    text_id,
)
from stator.model.records.types import Effect
from stator.model.values.json_text import parse_object

SHELLS = frozenset(("bash", "execute_bash", "run", "shell", "terminal"))
"""Names of tools that run a shell command."""


class RequestedCall(msgspec.Struct, frozen=True, kw_only=True):
    """A tool call that an answer requests."""

    tool: str
    input: Any = None
    id: str = ""
    effect: Effect = "write"


def shell_call(tool: str, command: str) -> RequestedCall:
    """A call of a shell; a command that is known to only read is a read."""
    effect: Effect = "read" if only_reads(command) else "write"
    return RequestedCall(tool=tool, input={"command": command}, effect=effect)


def requested_call(call: dict[str, Any], reads: Container[str]) -> RequestedCall:
    """A call in the form of chat completions; `reads` names the tools that change nothing."""
    function = record(call.get("function"))
    tool, raw = text(function.get("name")), function.get("arguments")
    given, problem = (raw, "") if isinstance(raw, dict) else parse_object(raw)
    command = text(record(given).get("command"))
    is_read = tool in reads or command == "view" or (tool in SHELLS and only_reads(command))
    return RequestedCall(
        tool=tool, id=text(call.get("id")), input=raw if problem else strip_attachments(given),
        effect="read" if is_read else "write",
    )  # fmt: skip


class Dialogue:
    """Builds the items of one conversation, in order."""

    def __init__(self) -> None:
        self._names = UniqueIds()
        self.open_calls: list[Called] = []
        """Calls without a result, the earliest first."""
        self._own_ids: dict[str, str] = {}
        """The agent's id of a call → ours, which differs if the agent repeats an id."""
        self.has_prompt = False
        """Whether there was a prompt."""

    def prompt(self, content: Any, at: int = 0, name: str = "") -> Prompted:
        self.has_prompt = True
        return Prompted(id=self._unique_id("prompt", name, content), at=at, content=content)

    def note(
        self, content: Any, at: int = 0, name: str = "", by: Literal["user", "system"] = "system"
    ) -> Noted:
        return Noted(id=self._unique_id("note", name, content), at=at, content=content, by=by)

    def answer(
        self,
        blocks: list[dict[str, Any]],
        calls: Sequence[RequestedCall] = (),
        *,
        at: int = 0,
        name: str = "",
        usage: dict[str, int] | None = None,
        model: str = "",
    ) -> Iterator[Item]:
        """An answer, followed by the calls it requests."""
        called = [self._call_item(call, at) for call in calls]
        words = blocks + [tool_use_block(one.id, one.tool, one.input) for one in called]
        if words:
            identifier = self._unique_id("answer", name, words)
            yield Answered(
                id=identifier, at=at, reply=assistant_message(words), usage=usage or {}, model=model
            )
        yield from called
        self.open_calls += called

    def _call_item(self, call: RequestedCall, at: int) -> Called:
        own = call.id or "call"
        name = self._names.once(own if call.id else "call/1")
        self._own_ids[own] = name
        return Called(id=name, at=at, tool=call.tool, input=call.input, effect=call.effect)

    def open_call(self, call: str = "", tool: str = "") -> Called | None:
        """The call that a result belongs to: the one with the given id, otherwise the first open
        one."""
        if call:
            name = self._own_ids.get(call, call)
            return next((one for one in self.open_calls if one.id == name), None)
        named = [one for one in self.open_calls if not tool or one.tool == tool]
        return named[0] if named else None

    def result(
        self,
        to: Called | None,
        output: Any,
        status: CallStatus = "ok",
        *,
        at: int = 0,
        cause: str = "",
        files: tuple[Touch, ...] = (),
        call: str = "",
        tool: str = "",
    ) -> Returned:
        """The result of a call; if the call was never seen, the result gets the given id."""
        if to is not None and to in self.open_calls:
            self.open_calls.remove(to)
        identifier = to.id if to is not None else self._names.once(call or "result/1")
        return Returned(
            id=identifier, at=at, status=status, output=output, cause=cause, files=files,
            tool=to.tool if to is not None else tool,
        )  # fmt: skip

    def end(self, status: Literal["ok", "aborted"] = "ok", why: str = "", at: int = 0) -> TurnEnded:
        return TurnEnded(at=at, status=status, why=why)

    def _unique_id(self, kind: str, given: str, content: Any) -> str:
        # The id comes from the content, not from a running number. An agent may discard the end of
        # a conversation and continue differently; the new messages must get other ids than the old
        # ones.
        return self._names.once(given or f"{kind}/{text_id(repr(content))}")
