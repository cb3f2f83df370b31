"""Recognizes, lists and reads pi's sessions: lines that form a tree (`entry_tree`), each naming its
parent.

Files of version 1 have no ids; there, each line follows the one before it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from stator.importers.pi.entry_tree import PiTree, read_tree
from stator.importers.reading.attachments import strip_attachments
from stator.importers.reading.fields import (
    UniqueIds,
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
from stator.importers.reading.found_conversation import FoundConversation, Progress, is_inside
from stator.importers.reading.jsonl import (
    JsonlLine,
    decode_json,
    parse_line,
    read_lines,
)
from stator.importers.reading.line_boundary import whole_line
from stator.model.exchange.items import (
    Answered,
    Called,
    Compacted,
    Conversation,
    Cursor,
    Item,
    Noise,
    Noted,
    Prompted,
    Returned,
    Skipped,
    Touch,
    Touched,
    TurnEnded,
    Unknown,
    digest_of,
)
from stator.model.records.types import Effect

NAME = "pi"
READS = frozenset(("read", "grep", "find", "ls"))
SETTINGS = frozenset(
    "model_change thinking_level_change label custom session_info ephemeral context_transform".split()
)
"""Entries that contain nothing about the work."""
STOPPED = ("aborted", "error")
_FILE = re.compile(r"_([0-9a-fA-F-]{8,64})\.jsonl$")
_ABORTED = re.compile(r"\b(aborted|cancelled)\b", re.I)


class Pi:
    """The format of pi's sessions."""

    name = NAME
    mapper = 2

    def recognizes(self, path: Path, begin: bytes) -> bool:
        try:
            first = record(decode_json(begin.split(b"\n", 1)[0]))
        except ValueError:
            return False
        return first.get("type") == "session" and bool(text(first.get("id"))) and "cwd" in first

    def conversations(self, path: Path) -> Iterable[FoundConversation]:
        tree = read_tree(str(path))
        stat = path.stat()
        for branch in tree.branches:
            if branch and branch not in tree.last_message_at:
                continue  # only a setting was changed on this branch
            yield FoundConversation(
                path=str(path), conversation=_conversation(tree, branch), part=branch, size=stat.st_size,
                changed=tree.last_message_at.get(branch) or stat.st_mtime_ns // 1000,
            )  # fmt: skip

    def read(
        self,
        found: FoundConversation,
        cursor: Cursor | None,
        progress: Progress | None,
        *,
        at_rest: bool = True,
    ) -> Iterator[Item]:
        tree = read_tree(found.path)
        reader = _PiReader(tree)
        wanted = tree.entries_on(found.part)
        for line in read_lines(found.path, progress=progress):
            name = tree.lines.get(line.number, "")
            if name in wanted:
                read = reader.entry(name, record(parse_line(line)[0]))
                yield from whole_line(read, line.number)
            elif not name and not found.part:
                yield from whole_line(_other_line(line, tree), line.number)

    def default_paths(self, home: Path, environ: Mapping[str, str]) -> Iterable[Path]:
        folder = environ.get("PI_CODING_AGENT_DIR")
        return [(Path(folder) if folder else home / ".pi" / "agent") / "sessions"]

    def is_in_folder(self, found: FoundConversation, root: str) -> bool:
        return is_inside(found.conversation.cwd, root)


FORMAT = Pi()


def _conversation(tree: PiTree, branch: str) -> Conversation:
    """Describe the conversation on one branch; a branch is a fork that shares everything before it."""
    header = tree.header
    session_id = text(header.get("id"))
    fork_of, shared = "", tree.entries_on("")
    origin = text(header.get("parentSession")) or text(header.get("branchedFrom"))
    if branch and tree.branches[branch]:
        parting = tree.entries[tree.branches[branch]]
        fork_of = f"{session_id}/{parting.branch}" if parting.branch else session_id
        shared = {entry.id for entry in tree.ancestors(parting.id)}
    elif not branch and (named := _FILE.search(origin)):
        fork_of = named[1]
    calls = {tree.entries[name].call for name in shared}
    return Conversation(
        source=NAME,
        id=f"{session_id}/{branch}" if branch else session_id,
        name=f"{tree.name} ({branch})" if branch else tree.name,
        cwd=text(header.get("cwd")),
        fork_of=fork_of,
        fork_ids=frozenset((shared | calls) - {""}) if fork_of else frozenset(),
    )


def _other_line(line: JsonlLine, tree: PiTree) -> Iterator[Item]:
    """Items for a line that is not an entry."""
    given, why = parse_line(line)
    if why:
        yield Skipped(line=line.number, why=why)
    elif given is not None and given is not tree.header and given != tree.header:
        if text(given.get("id")) in tree.entries:
            yield Noise(kind="written twice")
        else:
            yield Unknown(id=f"line/{line.number}", raw=strip_attachments(given))


class _PiReader:
    """Reads one branch of a session."""

    def __init__(self, tree: PiTree) -> None:
        self._tree = tree
        self._names = UniqueIds()
        self._calls: dict[str, str] = {}
        """pi's id of a call → ours, which differs if pi repeats an id."""
        self._requests: dict[str, Called] = {}
        self._items: dict[str, str] = {}
        """Entry → the id of its item."""
        self._seen_paths: set[str] = set()
        """Paths that were read or written."""

    def entry(self, name: str, given: dict[str, Any]) -> Iterator[Item]:
        kind, at = text(given.get("type")), micros_of_iso(given.get("timestamp"))
        if kind == "message" and isinstance(given.get("message"), dict):
            yield from self._message(name, at, given["message"])
        elif kind == "compaction":
            yield Compacted(
                id=name, at=at, summary=text(given.get("summary")), keeps_from=self._kept(given),
                before=whole_number(given.get("tokensBefore")),
            )  # fmt: skip
        elif kind == "branch_summary":
            yield self._noted(name, at, text(given.get("summary")), "system")
        elif kind == "custom_message":
            yield self._noted(name, at, given.get("content"))
        elif kind in SETTINGS:
            yield Noise(kind=kind)
        else:
            yield Unknown(id=name, at=at, raw=strip_attachments(given))

    def _message(self, name: str, at: int, message: dict[str, Any]) -> Iterator[Item]:
        role = message.get("role")
        if role == "user":
            self._items[name] = name
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
        self._items[name] = name
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
                session_id = text(block.get("id"))
                name = self._calls[session_id] = self._names.once(session_id)
                effect: Effect = "read" if tool in READS else "write"
                self._requests[name] = Called(id=name, at=at, tool=tool, input=given, effect=effect)
                calls.append(self._requests[name])
                blocks.append(tool_use_block(name, tool, given))
            else:
                blocks.append(strip_attachments(block))
        return blocks, calls

    def _returned(self, name: str, at: int, message: dict[str, Any]) -> Returned:
        session_id = text(message.get("toolCallId"))
        call = self._calls.get(session_id) or self._names.once(session_id or name)
        self._items[name] = call
        request = self._requests.pop(call, None)
        words = joined_text(message.get("content"))
        failed = message.get("isError") is True
        status: Literal["ok", "error", "in doubt", "cancelled"] = "error" if failed else "ok"
        last = headline(words.rstrip().rpartition("\n")[2])
        if failed and _ABORTED.search(last):
            status = "cancelled" if request and request.effect == "read" else "in doubt"
        return Returned(
            id=call, at=at, status=status, cause=last if failed else "",
            output=as_text_if_plain(strip_attachments(message.get("content"))), tool=text(message.get("toolName")),
            files=self._files(request) if request and not failed else (),
        )  # fmt: skip

    def _files(self, request: Called) -> tuple[Touch, ...]:
        given = record(request.input)
        path = text(given.get("path")) or text(given.get("file_path"))
        if request.tool == "bash":
            return files_touched_by(given.get("command"))
        if request.tool not in ("read", "write", "edit") or not path:
            return ()
        known = path in self._seen_paths
        self._seen_paths.add(path)
        if request.tool == "read":
            return (Touch(path=path, op="read"),)
        if request.tool == "edit":
            return (Touch(path=path, op="modified"),)
        # pi does not record whether the file existed before it was written
        after = digest_of(text(given.get("content")))
        op: Literal["modified", "created"] = "modified" if known else "created"
        return (Touch(path=path, op=op, after=after, how="recorded" if known else "inferred"),)

    def _user_command(self, name: str, at: int, message: dict[str, Any]) -> Iterator[Item]:
        """Items for a command that the user ran; the model sees it."""
        command, output = text(message.get("command")), text(message.get("output"))
        yield self._noted(name, at, f"Ran `{command}`\n{output}")
        files = files_touched_by(command) if message.get("exitCode") == 0 else ()
        if files:
            yield Touched(id=f"{name}/files", at=at, files=files)

    def _noted(
        self, name: str, at: int, content: Any, by: Literal["user", "system"] = "user"
    ) -> Noted:
        self._items[name] = name
        return Noted(id=name, at=at, by=by, content=as_text_if_plain(strip_attachments(content)))

    def _kept(self, given: dict[str, Any]) -> str:
        """The id of the first item that a compaction kept."""
        order = self._tree.order
        first = text(given.get("firstKeptEntryId"))
        if first:
            place = order.index(first) if first in order else len(order)
        else:
            counted = given.get("firstKeptEntryIndex")
            place = counted if isinstance(counted, int) and counted >= 0 else len(order)
        return next((self._items[name] for name in order[place:] if name in self._items), "")
