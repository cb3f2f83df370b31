"""Turns the entries of a pi session into items. What must be known of earlier entries is small, and bounded."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, Literal

import msgspec

from stator.importers.reading.appended_lines import RecentNames
from stator.importers.reading.attachments import strip_attachments
from stator.importers.reading.awaited_calls import AwaitedCall, AwaitedCalls
from stator.importers.reading.edit_places import from_numbered, swaps_of
from stator.importers.reading.fields import (
    as_text_if_plain,
    assistant_message,
    files_touched_by,
    headline,
    joined_text,
    micros_of_iso,
    record,
    records,
    text,
    tool_use_block,
    usage_units,
    whole_number,
)
from stator.importers.reading.shell_reads import only_reads
from stator.model.exchange.items import (
    Answered,
    Called,
    Compacted,
    Configured,
    Item,
    Noise,
    Noted,
    Prompted,
    Returned,
    Touch,
    Touched,
    TurnEnded,
    Unknown,
    digest_of,
)
from stator.model.records.types import Effect

READS = frozenset(("read", "grep", "find", "ls"))
IGNORED = frozenset("label custom session_info ephemeral context_transform".split())
"""Entries that contain nothing about the work."""
STOPPED = ("aborted", "error")
PATHS_MAX = 128
"""The most paths that are remembered as read or written."""
_ABORTED = re.compile(r"\b(aborted|cancelled)\b", re.I)


class PiEntryReader:
    """Turns the entries of one branch into items."""

    def __init__(
        self, state: dict[str, Any], before: Callable[[str], PiEntryReader] | None
    ) -> None:
        """`before` returns a reader that has read the file up to an entry; None if this one began there."""
        self._names = RecentNames(state.get("names"))
        self._calls = AwaitedCalls(state.get("calls"))
        paths = state.get("paths")
        self._seen_paths = {text(one): None for one in paths} if isinstance(paths, list) else {}
        """Digests of paths that were read or written, the latest last."""
        self._model = text(state.get("model"))
        """The model that was named last, by a change of it or by an answer."""
        self._before = before
        self.items: dict[str, str] = {}
        """Entry → the id of its item."""
        self.order: list[str] = []
        """The order by which version 1 counts: the header, then each entry of the file."""

    def state(self) -> dict[str, Any]:
        paths = list(self._seen_paths)
        return {
            "names": self._names.state(),
            "calls": self._calls.state(),
            "paths": paths,
            "model": self._model,
        }

    def place(self, name: str) -> None:
        """Note that an entry comes next in the file, on this branch or on another one."""
        self.order.append(name)

    def entry(self, name: str, given: dict[str, Any]) -> Iterator[Item]:
        kind, at = text(given.get("type")), micros_of_iso(given.get("timestamp"))
        if kind == "message" and isinstance(given.get("message"), dict):
            yield from self._message(name, at, given["message"])
        elif kind == "compaction":
            yield Compacted(
                id=name, at=at, summary=text(given.get("summary")), keeps_from=self._kept(name, given),
                before=whole_number(given.get("tokensBefore")),
            )  # fmt: skip
        elif kind == "branch_summary":
            yield self._noted(name, at, text(given.get("summary")))
        elif kind == "custom_message":
            yield self._noted(name, at, given.get("content"))
        elif kind in ("model_change", "thinking_level_change"):
            self._model = text(given.get("modelId")) or self._model
            yield from _configured(name, at, given)
        elif kind in IGNORED:
            yield Noise(kind=kind)
        else:
            yield Unknown(id=name, at=at, raw=strip_attachments(given))

    def _message(self, name: str, at: int, message: dict[str, Any]) -> Iterator[Item]:
        role = message.get("role")
        if role == "user":
            self.items[name] = name
            yield Prompted(
                id=name, at=at, content=as_text_if_plain(strip_attachments(message.get("content")))
            )
        elif role == "assistant":
            yield from self._answered(name, at, message)
        elif role == "toolResult":
            yield self._returned(name, at, message)
        elif role == "bashExecution":
            yield from self._user_command(name, at, message)
        elif role in ("custom", "hookMessage"):
            yield self._noted(name, at, message.get("content"))
        elif role in ("compactionSummary", "branchSummary"):
            yield Noise(kind=text(role))
        else:
            yield Unknown(id=name, at=at, raw=strip_attachments(message))

    def _answered(self, name: str, at: int, message: dict[str, Any]) -> Iterator[Item]:
        usage = record(message.get("usage"))
        stop = text(message.get("stopReason"))
        blocks, calls = self._blocks(at, records(message.get("content")))
        self.items[name] = name
        yield from self._answered_by(name, at, message)
        if blocks:
            yield Answered(
                id=name, at=at, reply=assistant_message(blocks), model=text(message.get("model")),
                usage=usage_units(
                    input_tokens=usage.get("input"), output_tokens=usage.get("output"),
                    cache_read=usage.get("cacheRead"), cache_write=usage.get("cacheWrite"),
                    dollars=record(usage.get("cost")).get("total"),
                ),
                partial=stop in STOPPED and not calls,
            )  # fmt: skip
        for call in calls:
            yield call
            if stop in STOPPED:  # pi runs no tools of an answer that was stopped
                yield Returned(
                    id=call.id, at=at, status="cancelled", cause="never run", source="system"
                )
        if stop in STOPPED:
            yield TurnEnded(at=at, status="aborted", why=headline(message.get("errorMessage")))
        elif stop and stop != "toolUse":
            yield TurnEnded(at=at)

    def _answered_by(self, name: str, at: int, message: dict[str, Any]) -> Iterator[Configured]:
        """The model of an answer as a setting, where no change named it: pi writes none for the one it starts with."""
        model, provider = text(message.get("model")), text(message.get("provider"))
        if model and model != self._model:
            self._model = model
            settings = {"model": model, **({"provider": provider} if provider else {})}
            yield Configured(id=f"{name}/settings", at=at, settings=settings)

    def _blocks(
        self, at: int, content: list[dict[str, Any]]
    ) -> tuple[list[dict[str, Any]], list[Called]]:
        blocks: list[dict[str, Any]] = []
        calls: list[Called] = []
        for block in content:
            kind = block.get("type")
            if kind == "text":
                blocks.append({"type": "text", "text": text(block.get("text"))})
            elif kind == "thinking":
                signed = text(block.get("thinkingSignature"))
                thought = {"type": "thinking", "thinking": text(block.get("thinking"))}
                blocks.append(thought | ({"signature": signed} if signed else {}))
            elif kind == "toolCall":
                tool, given = text(block.get("name")), strip_attachments(block.get("arguments"))
                name = self._names.once(text(block.get("id")))
                call = Called(id=name, at=at, tool=tool, input=given, effect=_effect(tool, given))
                self._calls.add(
                    name, AwaitedCall(effect=call.effect, files=_files(tool, record(given)))
                )
                calls.append(call)
                blocks.append(tool_use_block(name, tool, given))
            else:
                blocks.append(strip_attachments(block))
        return blocks, calls

    def _returned(self, name: str, at: int, message: dict[str, Any]) -> Returned:
        given_id = text(message.get("toolCallId"))
        call = self._names.latest(given_id) or self._names.once(given_id or name)
        self.items[name] = call
        request = self._calls.pop(call)
        words = joined_text(message.get("content"))
        failed = message.get("isError") is True
        status: Literal["ok", "error", "in doubt", "cancelled"] = "error" if failed else "ok"
        last = headline(words.rstrip().rpartition("\n")[2])
        if failed and _ABORTED.search(last):
            status = "cancelled" if request and request.effect == "read" else "in doubt"
        return Returned(
            id=call, at=at, status=status, cause=last if failed else "",
            output=as_text_if_plain(strip_attachments(message.get("content"))), tool=text(message.get("toolName")),
            files=self._files(request, message) if request and not failed else (),
        )  # fmt: skip

    def _files(self, request: AwaitedCall, message: dict[str, Any]) -> tuple[Touch, ...]:
        """The files of a call that succeeded. The diff in its result has the numbers of the lines."""
        shown = from_numbered(text(record(message.get("details")).get("diff")))
        return tuple(
            msgspec.structs.replace(touch, places=shown if touch.places and shown else touch.places)
            for touch in map(self._touched, request.files)
        )

    def _touched(self, touch: Touch) -> Touch:
        """A touch of a file. pi does not record whether a file existed before it was written: one that the
        session did not touch before counts as created."""
        digest = digest_of(touch.path)
        is_known = digest in self._seen_paths
        self._seen_paths.pop(digest, None)
        self._seen_paths[digest] = None
        while len(self._seen_paths) > PATHS_MAX:
            del self._seen_paths[next(iter(self._seen_paths))]
        if touch.op == "created" and touch.after and is_known:
            return msgspec.structs.replace(touch, op="modified", how="recorded")
        return touch

    def _user_command(self, name: str, at: int, message: dict[str, Any]) -> Iterator[Item]:
        """Items for a command that the user ran; the model sees it."""
        command, output = text(message.get("command")), text(message.get("output"))
        yield self._noted(name, at, f"Ran `{command}`\n{output}", "user")
        files = files_touched_by(command) if message.get("exitCode") == 0 else ()
        if files:
            yield Touched(id=f"{name}/files", at=at, files=files)

    def _noted(
        self, name: str, at: int, content: Any, by: Literal["user", "system"] = "system"
    ) -> Noted:
        self.items[name] = name
        return Noted(id=name, at=at, by=by, content=as_text_if_plain(strip_attachments(content)))

    def _kept(self, name: str, given: dict[str, Any]) -> str:
        """The id of the first item that a compaction kept."""
        if self._before is not None:
            earlier = self._before(name)
            self.items, self.order, self._before = earlier.items, earlier.order, None
        order = self.order
        first = text(given.get("firstKeptEntryId"))
        if first:
            place = order.index(first) if first in order else len(order)
        else:
            counted = given.get("firstKeptEntryIndex")
            place = counted if isinstance(counted, int) and counted >= 0 else len(order)
        return next((self.items[one] for one in order[place:] if one in self.items), "")


def _configured(name: str, at: int, given: dict[str, Any]) -> Iterator[Item]:
    fields = {"model": "modelId", "provider": "provider", "reasoning_effort": "thinkingLevel"}
    settings = {ours: text(given.get(field)) for ours, field in fields.items()}
    known = {ours: value for ours, value in settings.items() if value}
    yield (
        Configured(id=name, at=at, settings=known) if known else Noise(kind=text(given.get("type")))
    )


def _effect(tool: str, given: Any) -> Effect:
    reads = tool == "bash" and only_reads(text(record(given).get("command")))
    return "read" if tool in READS or reads else "write"


def _files(tool: str, given: dict[str, Any]) -> tuple[Touch, ...]:
    """The files that a call touches if it succeeds."""
    path = text(given.get("path")) or text(given.get("file_path"))
    if tool == "bash":
        return files_touched_by(given.get("command"))
    if tool not in ("read", "write", "edit") or not path:
        return ()
    if tool == "write":
        content = text(given.get("content"))
        return (Touch(path=path, op="created", after_text=content, how="inferred"),)
    if tool == "read":
        return (Touch(path=path, op="read"),)
    edits = given.get("edits")
    places = swaps_of(edits if isinstance(edits, list) else [given])
    return (Touch(path=path, op="modified", places=places),)
