"""Recognizes, lists and reads Codex rollouts (`sessions/YYYY/MM/DD/rollout-*.jsonl`, also
compressed) and the output of `codex exec --json`.

`rollout_lines` classifies the lines, `reader` turns them into items.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from stator.importers import default_folders
from stator.importers.codex import exec_output
from stator.importers.codex.messages import is_prompt, typed_words
from stator.importers.codex.reader import CodexReader
from stator.importers.codex.rollout_lines import (
    SOURCE,
    THREAD,
    is_inherited,
    labels_of,
    own_history_start,
    parent_of,
    unwrap_line,
)
from stator.importers.reading.fields import (
    headline,
    record,
    text,
)
from stator.importers.reading.file_stamp import stamp_of
from stator.importers.reading.found_conversation import (
    FoundConversation,
    Progress,
    is_inside,
)
from stator.importers.reading.jsonl import (
    JsonlLine,
    parse_line,
    read_beginning,
    read_lines,
)
from stator.importers.reading.line_boundary import looked_at
from stator.importers.reading.line_stream import LineReader, LineStream
from stator.model.exchange.items import (
    Conversation,
    Cursor,
    Item,
    Spawned,
)

EXEC = "exec"
"""The part of a found conversation that is the output of `codex exec`."""
HEAD_LINES = 400
"""The number of lines in which the first prompt is searched for; it names the session."""


class Codex:
    """The format of Codex's files."""

    name = SOURCE
    mapper = 2

    def recognizes(self, path: Path, begin: bytes) -> bool:
        """Judge by the first line: it describes the session, or says that a thread started."""
        first = begin.lstrip(b"\xef\xbb\xbf").lstrip().split(b"\n", 1)[0]
        if first.startswith(b"{") and re.search(rb'"type"\s*:\s*"session_meta"', first[:4096]):
            return True
        value, _ = parse_line(JsonlLine(1, 0, len(first), first.removesuffix(b"\r")))
        if value is None:
            return False
        kind, _ = unwrap_line(value)
        return kind == "session_meta" or exec_output.is_first_line(value)

    def conversations(self, path: Path) -> Iterable[FoundConversation]:
        """The conversation in a file. If the output of `exec` is beside its rollout, the rollout
        is read instead, because it contains more."""
        thread = exec_output.session_of(str(path))
        if thread:
            rollout = rollout_of(thread, path)
            if rollout is None:
                yield _found(path, Conversation(source=SOURCE, id=thread, agent=SOURCE), EXEC)
                return
            path = rollout
        conversation = conversation_of(path)
        if conversation is not None:
            yield _found(path, conversation)

    def read(
        self,
        found: FoundConversation,
        cursor: Cursor | None,
        progress: Progress | None,
        *,
        at_rest: bool = True,
    ) -> Iterator[Item]:
        """Read the items, starting at a cursor."""
        reader: LineReader = (
            exec_output.ExecReader() if found.part == EXEC else CodexReader(found.conversation)
        )
        return LineStream(reader, found.path, cursor, self.mapper).read(progress, at_rest=at_rest)

    def default_paths(self, home: Path, environ: Mapping[str, str]) -> Iterable[Path]:
        """The folders in which Codex stores its rollouts."""
        return default_folders.codex(home, environ)

    def is_in_folder(self, found: FoundConversation, root: str) -> bool:
        """Whether the session took place in a folder, or below it."""
        return is_inside(found.conversation.cwd, root)


FORMAT = Codex()


def conversation_of(path: Path) -> Conversation | None:
    """What the first lines of a rollout say about its conversation."""
    meta: dict[str, Any] | None = None
    prompt = ""
    start = 0
    for line in read_lines(str(path)):
        value, _ = parse_line(line)
        kind, payload = unwrap_line(value) if value is not None else ("", {})
        if kind == "session_meta" and meta is None:
            meta = payload
            start = own_history_start(meta)
        elif (
            kind == "response_item"
            and not is_inherited(start, value)
            and looked_at(is_prompt, payload, default=False)
        ):
            prompt = typed_words(payload)
        if prompt or line.number >= HEAD_LINES:
            break
    thread = text(meta.get("id")) or text(meta.get("session_id")) if meta else ""
    if meta is None or not thread:
        return None
    base = record(meta.get("history_base"))
    fork_of = text(base.get("thread_id")) or text(meta.get("forked_from_id"))
    return Conversation(
        source=SOURCE,
        id=thread,
        name=headline(prompt),
        agent=SOURCE,
        cwd=text(meta.get("cwd")),
        labels=labels_of(meta, fork_of),
        parent=(parent := parent_of(meta)),
        parent_call=call_that_started(thread, parent, path) if parent else "",
        fork_of=fork_of,
        fork_ids=shared_ids(path, base) if fork_of else frozenset(),
    )


def call_that_started(child: str, parent: str, path: Path) -> str:
    """The call in the parent's rollout that started a sub-agent; "" if it is not known."""
    rollout = rollout_of(parent, path)
    if rollout is None or not THREAD.fullmatch(child):
        return ""
    wanted = child.encode()
    for line in read_lines(str(rollout)):
        if wanted in line.data:
            call = looked_at(_call_starting, line, child, default="")
            if call:
                return call
    return ""


def _call_starting(line: JsonlLine, child: str) -> str:
    value, _ = parse_line(line)
    if value is None:
        return ""
    reader = CodexReader(Conversation(source=SOURCE, id=""))
    started = (item for item in reader.items(value, line) if isinstance(item, Spawned))
    return next((item.call for item in started if item.child == child), "")


def rollout_of(thread: str, near: Path) -> Path | None:
    """Find the rollout of a session, beside another file and in Codex's folders around it."""
    if not THREAD.fullmatch(thread):
        return None
    pattern = f"rollout-*-{thread}*.jsonl*"
    roots = [folder for folder in near.parents[:5] if folder.name.endswith("sessions")]
    tries = [near.parent.glob(pattern)]
    for root in roots:
        tries += [
            root.parent.glob(f"{kind}/**/{pattern}") for kind in ("sessions", "archived_sessions")
        ]
    return next((path for found in tries for path in sorted(found) if path != near), None)


def shared_ids(path: Path, base: dict[str, Any], depth: int = 0) -> frozenset[str]:
    """Ids of the items that a fork shares with its origin.

    Newer versions name the place in the other file up to which they share; older versions copy all
    of it into the fork's own file.
    """
    if not base:
        return frozenset(_ids(path, None))
    other = rollout_of(text(base.get("thread_id")), path)
    end_ordinal = base.get("end_ordinal_exclusive")
    if other is None or type(end_ordinal) is not int or depth > 8:
        return frozenset()
    ids = frozenset(_ids(other, end_ordinal))
    before = _base_of(other)
    return ids | shared_ids(other, before, depth + 1) if before else ids


def _base_of(path: Path) -> dict[str, Any]:
    first = read_beginning(str(path)).split(b"\n", 1)[0]
    value, _ = parse_line(JsonlLine(1, 0, len(first), first))
    return record(unwrap_line(value)[1].get("history_base")) if value is not None else {}


def _ids(path: Path, end_ordinal: int | None) -> Iterator[str]:
    reader = CodexReader(Conversation(source=SOURCE, id=""), end_ordinal)
    items = LineStream(reader, str(path), None, FORMAT.mapper).read(None, at_rest=True)
    return (item.id for item in items if item.id)


def _found(path: Path, conversation: Conversation, part: str = "") -> FoundConversation:
    stat = path.stat()
    return FoundConversation(
        path=str(path),
        conversation=conversation,
        part=part,
        changed=stat.st_mtime_ns // 1000,
        size=stat.st_size,
        is_fallback=part == EXEC,
        stamp=stamp_of(stat),
    )
