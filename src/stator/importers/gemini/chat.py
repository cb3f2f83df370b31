"""Reads Gemini CLI's chats (`~/.gemini/tmp/*/chats/session-*.jsonl`, and the older `.json`).

A line is the session's own record, a message, a change to either (`$set`), or a rewind
(`$rewindTo`). A message may be repeated under its id with more content: the calls of an answer come
with its second version, and only after they have ended. The reader therefore yields an answer when
the next message begins or the file ends. If a later version adds something, the addition becomes an
answer of its own.

The messages in a `$set` replace what the model sees. If some of the earlier ones are missing, the
view was compacted. A mere change of wording is ignored.

Answers become content blocks, because none of our providers' dialects is Gemini's: text, and calls
under the same ids that hooks derive (see `tools`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Any

from stator.errors import InvalidInput
from stator.importers.gemini import tools
from stator.importers.reading.attachments import strip_attachments
from stator.importers.reading.fields import (
    assistant_message,
    headline,
    micros_of_iso,
    record,
    records,
    text,
    tool_use_block,
)
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
from stator.importers.reading.line_boundary import whole_line
from stator.importers.reading.plain_text import plain_text, redaction_stable
from stator.model.exchange.items import (
    About,
    Answered,
    Called,
    Compacted,
    Conversation,
    Cursor,
    Item,
    Noise,
    Noted,
    Planned,
    Prompted,
    Returned,
    Skipped,
    Spawned,
    Unknown,
    text_id,
)

SOURCE = "gemini"
HEAD_LINES = 400
ROOT_FILE = ".project_root"
"""A file beside `chats` that contains the path of the project's folder."""
INJECTED = ("<session_context>",)
"""Beginnings of messages that Gemini CLI sends in the user's name."""
COMMANDS = ("/", "?")
"""Beginnings of commands to Gemini CLI itself; the model does not see them."""
IGNORED = frozenset({"info", "warning", "error"})
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
        """Read the items. Ids contain how often a text occurred before, so the whole file is read;
        items before the cursor are not yielded again."""
        reader = GeminiReader(found.conversation, cursor)
        if is_document(found.path):
            return reader.whole(_document(found.path, progress))
        return reader.read(read_lines(found.path, progress=progress))

    def default_paths(self, home: Path, environ: Mapping[str, str]) -> Iterable[Path]:
        """The folders in which Gemini CLI stores its chats, one for each project."""
        root = Path(environ.get("GEMINI_CLI_HOME") or home) / ".gemini" / "tmp"
        return sorted(root.glob("*/chats"))

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
    return Conversation(
        source=SOURCE,
        id=session,
        name=headline(text(meta.get("summary")) or asked),
        agent=SOURCE,
        cwd=_cwd(path, meta, context),
        labels={"project": text(meta.get("projectHash"))} if meta.get("projectHash") else {},
        parent=folder.name if meta.get("kind") == "subagent" and folder.name != "chats" else "",
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


def text_of_message(message: dict[str, Any]) -> str:
    """The text of a message, without what hooks added to it."""
    content = message.get("content")
    parts = content if isinstance(content, list) else [content]
    return "".join(tools.typed_text(plain_text([part])) for part in parts)


# -- reading ----------------------------------------------------------------------------------------


class GeminiReader:
    """Reads the records of one chat. Of earlier turns it holds only ids and counts."""

    def __init__(self, conversation: Conversation, cursor: Cursor | None = None) -> None:
        self._cwd = conversation.cwd
        self._start = cursor.offset if cursor else 0
        self._splits: dict[str, dict[str, Any]] = dict(
            record(record(cursor and cursor.state).get("cuts"))
        )
        """Answers that were yielded when the file ended within them: after how many blocks, and
        whether with their cost. A file that grows continues such an answer, and the parts must get
        the same ids again."""
        self._turn_cursor = cursor or Cursor(offset=0)
        self._visible: dict[str, str] = {}
        """Messages that the model sees → the ids of their items."""
        self._seen_messages: set[str] = set()
        self._prompt_counts: dict[str, int] = {}
        self._prompt = ""
        self._call_counts: dict[str, int] = {}
        self._calls: dict[str, str] = {}
        """A call's message and provider id → the id of its item."""
        self._calls_of_turn: dict[str, str] = {}
        """The calls of the current turn: the provider's id → the id of the item."""
        self._items_yielded: set[str] = set()
        self._answer: dict[str, Any] = {}
        self._blocks_yielded: dict[str, int] = {}
        self._charged: set[str] = set()
        self._compactions = 0
        self._line = 0

    def read(self, rows: Iterable[JsonlLine]) -> Iterator[Item]:
        """Yield the items of some lines, starting at the cursor."""
        behind = self._start > 0
        for item in self._all(rows):
            if behind and isinstance(item, Cursor) and item.offset >= self._start:
                behind = False
            if not behind:
                yield item

    def whole(self, document: dict[str, Any]) -> Iterator[Item]:
        """Yield the items of a document. Gemini CLI rewrites it completely, so there is no cursor."""
        for item in whole_line(self._record(document, JsonlLine(1, 0, 0)), 1):
            if not isinstance(item, Cursor):
                yield item
        yield from self._close()

    def _all(self, rows: Iterable[JsonlLine]) -> Iterator[Item]:
        for line in rows:
            value, problem = parse_line(line)
            if value is not None:
                yield from whole_line(self._record(value, line), line.number)
            elif problem:
                yield Skipped(line=line.number, why=problem)
        is_cut = bool(self._answer)
        yield from self._close(is_cut=True)
        if is_cut:
            at = self._turn_cursor
            yield Cursor(offset=at.offset, line=at.line, state={"cuts": self._splits})

    def _record(self, value: dict[str, Any], line: JsonlLine) -> Iterator[Item]:
        self._line = line.number
        if isinstance(value.get("$rewindTo"), str):
            yield from self._rewound(value["$rewindTo"], line)
        elif isinstance(value.get("$set"), dict):
            yield from self._set(value["$set"], line)
        elif isinstance(value.get("id"), str) and isinstance(value.get("type"), str):
            yield from self._read_message(value, line)
        elif isinstance(value.get("sessionId"), str):
            yield About(
                at=micros_of_iso(value.get("startTime")), name=headline(text(value.get("summary")))
            )
            for number, message in enumerate(records(value.get("messages")), line.number):
                yield from whole_line(self._read_message(message, line), number)
        else:
            yield Unknown(id=f"line/{line.number}", raw=strip_attachments(value))

    def _read_message(self, message: dict[str, Any], line: JsonlLine) -> Iterator[Item]:
        name, kind = text(message.get("id")), text(message.get("type"))
        if name != self._answer.get("id"):
            yield from self._close()
        if kind == "gemini":
            self._answer = message
            self._visible.setdefault(name, name)
        elif kind == "user":
            if name not in self._seen_messages:
                yield from self._user(message, line)
        elif kind in IGNORED:
            yield Noise(kind=f"message/{kind}")
        else:
            yield Unknown(
                id=name, at=micros_of_iso(message.get("timestamp")), raw=strip_attachments(message)
            )
        self._seen_messages.add(name)

    # -- user messages and rewinds ----------------------------------------------------------------

    def _user(self, message: dict[str, Any], line: JsonlLine) -> Iterator[Item]:
        name, at = text(message["id"]), micros_of_iso(message.get("timestamp"))
        answers = [
            record(part["functionResponse"])
            for part in records(message.get("content"))
            if isinstance(part.get("functionResponse"), dict)
        ]
        words = text_of_message(message)
        self._visible[name] = name
        if answers:
            yield from self._late_results(answers, at)
        elif words.lstrip().startswith(INJECTED):
            yield Noted(id=name, at=at, content=words)
        elif not words.strip() and (added := plain_text(message.get("content")).strip()):
            yield Noted(id=name, at=at, content=added)  # only text that hooks added
        elif words.lstrip().startswith(COMMANDS):
            yield Noise(kind="message/command")
        else:
            yield from self._begin(name, words, strip_attachments(message.get("content")), line, at)

    def _begin(
        self, name: str, words: str, content: Any, line: JsonlLine, at: int
    ) -> Iterator[Item]:
        digest = text_id(redaction_stable(words))
        before = self._prompt_counts.get(digest, 0)
        self._prompt_counts[digest] = before + 1
        self._prompt = self._visible[name] = tools.prompt_id(words, before)
        self._call_counts, self._calls_of_turn = {}, {}
        if line.offset > self._start:
            self._splits = {}
        state = {"cuts": self._splits} if self._splits else {}
        self._turn_cursor = Cursor(offset=line.offset, line=line.number - 1, state=state)
        yield self._turn_cursor
        plain = all(set(part) == {"text"} for part in records(content))
        yield Prompted(id=self._prompt, at=at, content=words if plain else content)

    def _rewound(self, target: str, line: JsonlLine) -> Iterator[Item]:
        yield from self._close()
        names = list(self._visible)
        left = names[names.index(target) :] if target in self._visible else names
        for name in left:
            del self._visible[name]
        note = f"[went back: {len(left)} messages were taken out]"
        yield Noted(id=f"rewind/{line.number}", content=note, by="user")

    def _set(self, change: dict[str, Any], line: JsonlLine) -> Iterator[Item]:
        if text(change.get("summary")):
            yield About(name=headline(text(change["summary"])))
        if not isinstance(change.get("messages"), list):
            yield Noise(kind="$set")
            return
        yield from self._close()
        messages = records(change["messages"])
        names = [text(message.get("id")) for message in messages]
        missing = self._visible.keys() - set(names)
        if not missing:
            for message in messages:
                if text(message.get("id")) not in self._seen_messages:
                    yield from self._read_message(message, line)
            yield Noise(kind="$set/messages")
            return
        yield from self._compacted(messages, micros_of_iso(change.get("lastUpdated")))
        self._visible = {name: self._visible.get(name, name) for name in names}
        self._seen_messages.update(names)

    def _compacted(self, messages: list[dict[str, Any]], at: int) -> Iterator[Item]:
        """Some messages have left the model's view; the first new one contains the summary."""
        fresh = [m for m in messages if text(m.get("id")) not in self._seen_messages]
        sums = (text_of_message(message) for message in fresh if message.get("type") == "user")
        kept = (self._visible[n] for m in messages if (n := text(m.get("id"))) in self._visible)
        self._compactions += 1
        yield Compacted(
            id=f"compact/{self._compactions}",
            at=at,
            summary=next(
                (words for words in sums if not words.startswith(INJECTED)),
                "",
            ),
            keeps_from=next(kept, ""),
        )

    # -- answers and calls ------------------------------------------------------------------------

    def _close(self, *, is_cut: bool = False) -> Iterator[Item]:
        """Yield what is new in the current version of an answer.

        After the file ended within an answer (`is_cut`), a later import finds it with more content.
        To arrive at the same ids again, the answer is split at the same places.
        """
        message, self._answer = self._answer, {}
        if message:
            yield from whole_line(self._closed(message, is_cut), self._line)

    def _closed(self, message: dict[str, Any], is_cut: bool) -> Iterator[Item]:
        name, at = text(message["id"]), micros_of_iso(message.get("timestamp"))
        calls = list(self._calls_with_ids(message))
        blocks = list(_blocks(message, calls))
        known, cuts = self._blocks_yielded.get(name, 0), self._splits.get(name, {})
        after = [number for number in cuts.get("after", []) if known < number < len(blocks)]
        unpaid = tools.usage_of(message.get("tokens"))
        if name in self._charged or cuts.get("paid"):
            unpaid = {}
        for start, stop in pairwise([known, *after, len(blocks)]):
            if start == stop:
                continue
            is_new = stop == len(blocks) and stop not in cuts.get("after", [])
            yield Answered(
                id=f"{name}+{start}" if start else name, at=at, usage=unpaid if is_new else {},
                reply=_reply(blocks[start:stop], None if start else message.get("thoughts")),
                model=text(message.get("model")),
            )  # fmt: skip
            unpaid = {} if is_new else unpaid
        if unpaid:  # it was recorded before its cost was known
            yield Answered(id=f"{name}/spent", at=at, reply="", usage=unpaid, partial=True)
        self._blocks_yielded[name] = max(known, len(blocks))
        if message.get("tokens"):
            self._charged.add(name)
        if is_cut:
            conversation_found = {"after": sorted({*cuts.get("after", []), len(blocks)} - {0})}
            self._splits[name] = {**conversation_found, "paid": name in self._charged}
        for identifier, call in calls:
            yield from self._call(identifier, call, at)

    def _calls_with_ids(self, message: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
        """The calls of an answer, under ids that hooks derive as well."""
        calls = records(message.get("toolCalls"))
        known = {text(call.get("id")) for call in calls}
        for part in records(message.get("content")):
            call = record(part.get("functionCall"))
            if call and text(call.get("id")) not in known:
                calls.append(call)
        for number, call in enumerate(calls):
            key = f"{text(message['id'])}/{text(call.get('id')) or number}"
            if key not in self._calls:
                tool, arguments = text(call.get("name")), call.get("args")
                what = tools.call_digest(tool, arguments)
                before = self._call_counts.get(what, 0)
                self._call_counts[what] = before + 1
                self._calls[key] = tools.call_id(self._prompt, tool, arguments, before)
                self._calls_of_turn[text(call.get("id"))] = self._calls[key]
            yield self._calls[key], call

    def _call(self, name: str, call: dict[str, Any], at: int) -> Iterator[Item]:
        tool, arguments = text(call.get("name")), strip_attachments(call.get("args"))
        over = micros_of_iso(call.get("timestamp")) or at
        if name not in self._items_yielded:
            yield Called(
                id=name, at=at, tool=tool, input=arguments, effect=tools.effect_of(tool),
                key=text(call.get("id")),
            )  # fmt: skip
            self._items_yielded.add(name)
            steps = tools.steps_of(tool, arguments)
            if steps:
                yield Planned(id=name, at=at, steps=steps)
            if text(call.get("agentId")):
                named = text(record(arguments).get("agent_name"))
                yield Spawned(at=at, child=call["agentId"], name=named, call=name)
        status = text(call.get("status"))
        if status in tools.ENDED and f"{name}/over" not in self._items_yielded:
            self._items_yielded.add(f"{name}/over")
            yield tools.result(
                name, tool, arguments, over, status=status, cwd=self._cwd,
                output=tools.output_of(call.get("result")), display=call.get("resultDisplay"),
            )  # fmt: skip

    def _late_results(self, answers: list[dict[str, Any]], at: int) -> Iterator[Item]:
        """Results in a message to the model. They were yielded with their calls, unless Gemini CLI
        died in between."""
        for answer in answers:
            key, tool = text(answer.get("id")), text(answer.get("name"))
            name = self._calls_of_turn.get(key) or f"call_{text_id(self._prompt, tool, key)}"
            if f"{name}/over" in self._items_yielded:
                yield Noise(kind="message/tool response")
                continue
            self._items_yielded.add(f"{name}/over")
            output = tools.output_of([{"functionResponse": answer}])
            status = "error" if "error" in record(answer.get("response")) else "success"
            ended = tools.outcome_of(tool, status, output)
            yield Returned(
                id=name, at=at, tool=tool, status=ended.status, cause=ended.cause,
                output=strip_attachments(output), source=tools.source_of(tool),
            )  # fmt: skip


def _reply(blocks: list[dict[str, Any]], thoughts: Any) -> dict[str, Any]:
    conversation_found = {"thoughts": strip_attachments(thoughts)} if thoughts else {}
    return {**assistant_message(blocks), **conversation_found}


def _blocks(
    message: dict[str, Any], calls: list[tuple[str, dict[str, Any]]]
) -> Iterator[dict[str, Any]]:
    words = plain_text(message.get("content"))
    if words:
        yield {"type": "text", "text": words}
    for name, call in calls:
        yield tool_use_block(name, text(call.get("name")), strip_attachments(call.get("args")))
