"""A conversation without ids: what is said, asked for and returned is named by its place.

Formats that are a list of messages have no names for them, and often none for calls: a result is
simply what comes next. This keeps count and pairs them, so that reading the same list again, or a
longer one, gives the same ids.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from typing import Any, Literal

import msgspec

from stator.importers.reading.attachments import without_bytes
from stator.importers.reading.fields import (
    Names,
    asks,
    record,
    said,
    text,
)
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

Status = Literal["ok", "error", "timeout", "cancelled", "denied", "in doubt"]


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """A call that an answer asks for."""

    tool: str
    input: Any = None
    id: str = ""
    effect: Effect = "write"


def asked_of(call: dict[str, Any], reads: Container[str]) -> Asked:
    """A call as chat completions write it; `reads` are the tools that change nothing."""
    function = record(call.get("function"))
    tool, raw = text(function.get("name")), function.get("arguments")
    given, problem = (raw, "") if isinstance(raw, dict) else parse_object(raw)
    viewing = record(given).get("command") == "view"
    return Asked(
        tool=tool, id=text(call.get("id")), input=raw if problem else without_bytes(given),
        effect="read" if tool in reads or viewing else "write",
    )  # fmt: skip


class Dialogue:
    """Makes the items of one conversation, in order."""

    def __init__(self) -> None:
        self._names = Names()
        self.open: list[Called] = []
        """Calls without a result, the earliest first."""
        self._own: dict[str, str] = {}
        """The other side's id of a call → ours, which differs where that comes again."""
        self.is_begun = False
        """Whether somebody asked for something."""

    def prompt(self, content: Any, at: int = 0, name: str = "") -> Prompted:
        self.is_begun = True
        return Prompted(id=self._name("prompt", name, content), at=at, content=content)

    def note(
        self, content: Any, at: int = 0, name: str = "", by: Literal["user", "system"] = "system"
    ) -> Noted:
        return Noted(id=self._name("note", name, content), at=at, content=content, by=by)

    def answer(
        self,
        blocks: list[dict[str, Any]],
        calls: Sequence[Asked] = (),
        *,
        at: int = 0,
        name: str = "",
        usage: dict[str, int] | None = None,
        model: str = "",
    ) -> Iterator[Item]:
        """An answer, and the calls it asks for."""
        begun = [self._called(call, at) for call in calls]
        words = blocks + [asks(one.id, one.tool, one.input) for one in begun]
        if words:
            identifier = self._name("answer", name, words)
            yield Answered(id=identifier, at=at, reply=said(words), usage=usage or {}, model=model)
        yield from begun
        self.open += begun

    def _called(self, call: Asked, at: int) -> Called:
        own = call.id or "call"
        name = self._names.once(own if call.id else "call/1")
        self._own[own] = name
        return Called(id=name, at=at, tool=call.tool, input=call.input, effect=call.effect)

    def waiting(self, call: str = "", tool: str = "") -> Called | None:
        """The call a result belongs to: the one that is named, else the first that still waits."""
        if call:
            name = self._own.get(call, call)
            return next((one for one in self.open if one.id == name), None)
        named = [one for one in self.open if not tool or one.tool == tool]
        return named[0] if named else None

    def result(
        self,
        to: Called | None,
        output: Any,
        status: Status = "ok",
        *,
        at: int = 0,
        cause: str = "",
        files: tuple[Touch, ...] = (),
        call: str = "",
        tool: str = "",
    ) -> Returned:
        """What became of a call; of one that was never seen, by the name it is given."""
        if to is not None and to in self.open:
            self.open.remove(to)
        identifier = to.id if to is not None else self._names.once(call or "result/1")
        return Returned(
            id=identifier, at=at, status=status, output=output, cause=cause, files=files,
            tool=to.tool if to is not None else tool,
        )  # fmt: skip

    def end(self, status: Literal["ok", "aborted"] = "ok", why: str = "", at: int = 0) -> TurnEnded:
        return TurnEnded(at=at, status=status, why=why)

    def _name(self, kind: str, given: str, content: Any) -> str:
        # by what it says and not by its number: an agent may take back the end of a conversation
        # and go another way, and what comes in its place is something else
        return self._names.once(given or f"{kind}/{text_id(repr(content))}")
