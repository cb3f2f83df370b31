"""Recognizes, lists and reads Gemini CLI's chats (`~/.gemini/tmp/*/chats/session-*.jsonl`, and the older
`.json`, one document that Gemini CLI rewrites completely).

`messages` turns the records into items.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from glob import escape
from pathlib import Path
from typing import Any

from stator.errors import InvalidInput
from stator.importers import default_folders
from stator.importers.gemini.messages import (
    COMMANDS,
    INJECTED,
    GeminiReader,
    read_document,
    text_of_message,
)
from stator.importers.reading.fields import headline, record, records, text
from stator.importers.reading.found_conversation import FoundConversation, Progress, is_inside
from stator.importers.reading.jsonl import (
    LINE_MAX,
    JsonlLine,
    decode_json,
    parse_line,
    read_beginning,
    read_lines,
    read_whole,
)
from stator.importers.reading.line_stream import LineStream
from stator.model.exchange.items import Conversation, Cursor, Item, Spawned
from stator.model.values.digest import sha256

SOURCE = "gemini"
HEAD_LINES = 400
ROOT_FILE = ".project_root"
"""A file beside `chats` that contains the path of the project's folder."""
_WORKSPACE = re.compile(r"\*\*Workspace Directories:\*\*\n((?:  - [^\n]+\n)+)")
_FIRST = re.compile(rb'"sessionId"\s*:.{0,2000}"projectHash"\s*:', re.S)


class Gemini:
    """The format of Gemini CLI's chats."""

    name = SOURCE
    mapper = 2

    def recognizes(self, path: Path, begin: bytes) -> bool:
        """Judge by the beginning: a session id and a project hash."""
        head = begin[:8192].lstrip(b"\xef\xbb\xbf").lstrip()
        return head.startswith(b"{") and _FIRST.search(head) is not None

    def conversations(self, path: Path) -> Iterable[FoundConversation]:
        """The conversation in a file."""
        conversation_found = conversation_of(path)
        if conversation_found is not None:
            stat = path.stat()
            yield FoundConversation(
                path=str(path),
                conversation=conversation_found,
                changed=stat.st_mtime_ns // 1000,
                size=stat.st_size,
            )

    def read(
        self,
        found: FoundConversation,
        cursor: Cursor | None,
        progress: Progress | None,
        *,
        at_rest: bool = True,
    ) -> Iterator[Item]:
        """Read the items, starting at a cursor."""
        reader = GeminiReader(found.conversation)
        if is_document(found.path):
            document = _document(found.path, progress)
            return read_document(reader, document, cursor, self.mapper, at_rest=at_rest)
        return LineStream(reader, found.path, cursor, self.mapper).read(progress, at_rest=at_rest)

    def default_paths(self, home: Path, environ: Mapping[str, str]) -> Iterable[Path]:
        """The folders in which Gemini CLI stores its chats, one for each project."""
        return default_folders.gemini(home, environ)

    def is_in_folder(self, found: FoundConversation, root: str) -> bool:
        """Whether the chat took place in a folder, or below it; some files only name the folder's
        digest."""
        digest = sha256(root.rstrip("/").encode("utf-8", "surrogateescape")).hexdigest()
        conversation = found.conversation
        return is_inside(conversation.cwd, root) or conversation.labels.get("project") == digest


FORMAT = Gemini()


# -- finding the conversation -----------------------------------------------------------------------


def is_document(path: str) -> bool:
    """Whether a file is one document and not lines."""
    first = read_beginning(path).split(b"\n", 1)[0].removesuffix(b"\r")
    if parse_line(JsonlLine(1, 0, len(first), first))[0] is not None:
        return False
    return path.endswith(".json") or first.strip() == b"{"


def _document(path: str, progress: Progress | None) -> dict[str, Any]:
    try:
        return record(decode_json(read_whole(path, LINE_MAX, progress)))
    except ValueError:
        raise InvalidInput(f"{path} is cut off, or not JSON", path=path) from None


def conversation_of(path: Path) -> Conversation | None:
    """What the first records of a file say about its conversation."""
    meta: dict[str, Any] = {}
    asked = context = ""
    for value in _first_records(str(path)):
        meta |= {key: value[key] for key in ("summary", "directories") if key in value}
        if "projectHash" in value and not meta.get("sessionId"):
            meta = {**value, **meta}
        for message in [value, *records(value.get("messages"))]:
            if message.get("type") == "user":
                words = text_of_message(message)
                context = context or (words if words.startswith(INJECTED[0]) else "")
                asked = asked or ("" if words.startswith((*INJECTED, *COMMANDS)) else words)
        if asked:
            break
    session = text(meta.get("sessionId"))
    if not session:
        return None
    folder = path.parent
    is_child = meta.get("kind") == "subagent" and folder.name != "chats"
    return Conversation(
        source=SOURCE,
        id=session,
        name=headline(text(meta.get("summary")) or asked),
        agent=SOURCE,
        cwd=_cwd(path, meta, context),
        labels={"project": text(meta.get("projectHash"))} if meta.get("projectHash") else {},
        parent=folder.name if is_child else "",
        parent_call=_call_that_started(session, folder.name, path) if is_child else "",
    )


def _first_records(path: str) -> Iterator[dict[str, Any]]:
    """The first records of a file; of a `$set`, the values it sets."""
    if is_document(path):
        yield _document(path, None)
        return
    for line in read_lines(path):
        value, _ = parse_line(line)
        if value is not None:
            yield record(value.get("$set")) or value
        if line.number >= HEAD_LINES:
            return


def _cwd(path: Path, meta: dict[str, Any], context: str) -> str:
    """The folder the chat took place in, from its project's folder or from the context sent to the
    model."""
    for folder in (path.parent.parent, path.parent.parent.parent):
        try:
            root = read_beginning(str(folder / ROOT_FILE), 4096).decode("utf-8", "replace").strip()
        except InvalidInput:
            continue
        if root.startswith("/"):
            return root
    found = _WORKSPACE.search(context)
    named = [line[4:].strip() for line in found[1].splitlines()] if found else []
    named += [name for name in meta.get("directories") or [] if isinstance(name, str)]
    digest = text(meta.get("projectHash"))
    exact = (n for n in named if sha256(n.encode("utf-8", "replace")).hexdigest() == digest)
    return next(exact, named[0] if named else "")


def _call_that_started(child: str, parent: str, path: Path) -> str:
    """The call in the parent's chat that started a sub-agent; "" if it is not known."""
    chats = sorted(path.parent.parent.glob(f"session-*-{escape(parent[:8])}.json*"))
    for candidate in chats:
        for found in FORMAT.conversations(candidate):
            if found.conversation.id == parent:
                started = (i for i in FORMAT.read(found, None, None) if isinstance(i, Spawned))
                return next((item.call for item in started if item.child == child), "")
    return ""
