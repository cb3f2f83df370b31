"""Recognizes, lists and reads Cline's tasks: a folder with the messages as they were sent to the
provider.

Only `api_conversation_history.json` is a conversation. The other files of a task (metadata, the
screen) are recognized but contain none. Calls are blocks of the answer, or tags in its text (older
versions). Results are texts that begin with the name of the tool.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from stator.importers.reading.attachments import strip_attachments
from stator.importers.reading.call_outcome import CallStatus
from stator.importers.reading.counted_items import Steps, counted_items, settled_count
from stator.importers.reading.edit_places import blocks_of
from stator.importers.reading.fields import (
    MICROS,
    files_touched_by,
    headline,
    micros_of_millis,
    parse_checklist,
    record,
    records,
    tagged_texts,
    text,
    usage_units,
)
from stator.importers.reading.found_conversation import FoundConversation, Progress, is_inside
from stator.importers.reading.json_document import (
    JsonDocument,
    read_document,
    single_conversation,
)
from stator.importers.reading.jsonl import read_beginning
from stator.importers.reading.line_boundary import whole_line
from stator.importers.reading.shell_reads import only_reads
from stator.importers.reading.unnamed_messages import Dialogue, RequestedCall
from stator.model.exchange.items import (
    Called,
    Compacted,
    Configured,
    Conversation,
    Cursor,
    Item,
    Planned,
    Touch,
    Unknown,
    digest_of,
    text_id,
)
from stator.model.records.types import Effect

NAME = "cline"
FILE = "api_conversation_history.json"
READS = frozenset(
    "read_file list_files search_files list_code_definition_names web_fetch web_search "
    "ask_followup_question plan_mode_respond attempt_completion access_mcp_resource "
    "load_mcp_documentation use_skill condense summarize_task report_bug focus_chain".split()
)
TOOLS = READS | frozenset(
    "write_to_file replace_in_file execute_command browser_action use_mcp_tool new_task new_rule "
    "apply_patch generate_explanation use_subagents".split()
)
ANSWERING_TOOLS = ("attempt_completion", "plan_mode_respond")
"""Tools that show an answer to the user, who may reply to it in the result."""
_HISTORY = re.compile(rb'\s*\[\s*\{\s*"role"\s*:\s*"user"\s*,\s*"content"\s*:\s*[\["]')
_SCREEN = re.compile(rb'\s*\[\s*\{\s*"ts"\s*:\s*\d+\s*,\s*"type"\s*:\s*"(?:say|ask)"')
_RESULT_HEADER = re.compile(r"\[(\w+)(?: for '.*?')?\] Result:[ \t]*\n?", re.DOTALL)
_FOLDER = re.compile(r"# Current Working Directory \((.*?)\) Files")
_CLOCK = re.compile(
    r"# Current Time\n(\d+)/(\d+)/(\d{4}), (\d+):(\d\d):(\d\d) (AM|PM) \([^)]*?UTC([+-]?\d+):(\d\d)\)"
)
USER_TAGS = ("task", "feedback", "user_message")
"""The tags in which Cline wraps the user's text."""
_EXIT = re.compile(r"exit code:? (-?\d+)", re.I)
_FINAL = re.compile(r"<final_file_content path=\"[^\"\n]*\">\n(.*)\n</final_file_content>", re.S)
_CHANGED_BY_USER = "The user made the following updates to your content"


class Cline:
    """The format of Cline's tasks."""

    name = NAME
    mapper = 2

    def recognizes(self, path: Path, begin: bytes) -> bool:
        return _is_conversation(begin) or _is_other_task_file(begin)

    def conversations(self, path: Path) -> Iterable[FoundConversation]:
        if not _is_conversation(read_beginning(str(path))):
            return
        messages = records(read_document(str(path)).value)
        if not messages:
            return
        first = _texts(messages[0])
        task = path.parent.name if path.name == FILE else ""
        folder = next((m[1] for m in map(_FOLDER.search, first) if m), "")
        conversation = Conversation(
            source=NAME,
            id=task or text_id("\n".join(first)),
            name=headline(_prompted(first)),
            cwd=folder,
        )
        times = (micros_of_millis(m.get("ts")) or _stated_time(_texts(m)) for m in messages)
        yield single_conversation(path, conversation, first=next(filter(None, times), 0))

    def read(
        self,
        found: FoundConversation,
        cursor: Cursor | None,
        progress: Progress | None,
        *,
        at_rest: bool = True,
    ) -> Iterator[Item]:
        whole = read_document(found.path, progress)
        return counted_items(lambda: _steps(whole), cursor, at_rest=at_rest)

    def default_paths(self, home: Path, environ: Mapping[str, str]) -> Iterable[Path]:
        code = "User/globalStorage/saoudrizwan.claude-dev/tasks"
        own = environ.get("CLINE_DIR")
        return [
            (Path(own) if own else home / ".cline") / "data" / "tasks",
            home / ".config" / "Code" / code,
            home / "Library" / "Application Support" / "Code" / code,
        ]

    def is_in_folder(self, found: FoundConversation, root: str) -> bool:
        return is_inside(found.conversation.cwd, root)


FORMAT = Cline()


def _steps(whole: JsonDocument) -> Steps:
    """One step for each message. A message is final when another one follows it: a task that is resumed
    adds to its last message."""
    reader = _ClineReader()
    messages = whole.value if isinstance(whole.value, list) else []
    steps = [
        whole_line(reader.message(number, message), number + 1)
        for number, message in enumerate(messages)
    ]
    settled = settled_count(steps, is_finished=False)
    return Steps([*steps, iter(whole.skipped)], settled)


def _is_conversation(begin: bytes) -> bool:
    known = b"<task>" in begin or b"environment_details>" in begin or b"<user_message>" in begin
    return bool(_HISTORY.match(begin)) and known


def _is_other_task_file(begin: bytes) -> bool:
    """Whether a file belongs to a task but contains no conversation."""
    return bool(_SCREEN.match(begin)) or (
        begin.lstrip().startswith(b"{") and b'"files_in_context"' in begin
    )


def _blocks(message: dict[str, Any]) -> list[dict[str, Any]]:
    content = message.get("content")
    return [{"type": "text", "text": content}] if isinstance(content, str) else records(content)


def _texts(message: dict[str, Any]) -> list[str]:
    return [text(block.get("text")) for block in _blocks(message) if block.get("type") == "text"]


def _asked(message: dict[str, Any], asking: dict[str, Any]) -> Any:
    """What the user asked in one block, with the images up to the next text of the user."""
    typed = _user_text(text(asking.get("text")))
    words = typed[1] if typed is not None else ""
    blocks = _blocks(message)
    place = next(number for number, block in enumerate(blocks) if block is asking)
    images: list[Any] = []
    for block in blocks[place + 1 :]:
        if _user_text(text(block.get("text"))) is not None:
            break
        if block.get("type") in ("image", "document"):
            images.append(strip_attachments(block))
    return [{"type": "text", "text": words}, *images] if images else words


def _prompted(texts: list[str]) -> str:
    """The text that the user typed, without what Cline wrapped around it."""
    return "\n".join(found[1] for words in texts if (found := _user_text(words)) is not None)


def _user_text(words: str) -> tuple[str, str] | None:
    """The tag and the user's text in it, if the text begins with such a tag or is the result of a
    tool that shows an answer. The results of other tools may contain the same tags as mere content.
    """
    mark = _RESULT_HEADER.match(words)
    if mark is not None and mark[1] not in ANSWERING_TOOLS:
        return None
    given = words[mark.end() :] if mark is not None else words.lstrip()
    found = next(tagged_texts(given, USER_TAGS), None)
    is_there = found is not None and (mark is not None or found.start == 0)
    return (found.name, found.body.strip()) if found is not None and is_there else None


def _stated_time(texts: list[str]) -> int:
    """The time in Cline's environment details, in µs; 0 if it is missing."""
    found = next((match for match in map(_CLOCK.search, reversed(texts)) if match), None)
    if found is None:
        return 0
    month, day, year, hour, minute, second = map(int, found.group(1, 2, 3, 4, 5, 6))
    hour = hour % 12 + (12 if found[7] == "PM" else 0)
    zone = timezone(timedelta(hours=int(found[8]), minutes=int(found[9])))
    try:
        at = datetime(year, month, day, hour, minute, second, tzinfo=zone)
    except ValueError:
        return 0
    return max(int(at.timestamp()), 0) * MICROS


class _ClineReader:
    """Reads one task."""

    def __init__(self) -> None:
        self._dialogue = Dialogue()
        self._seen_paths: set[str] = set()
        """Paths that were read or written."""

        self._settings: dict[str, str] = {}

    def message(self, number: int, message: Any) -> Iterator[Item]:
        role = message.get("role") if isinstance(message, dict) else None
        if role == "user":
            yield from self._user(message)
        elif role == "assistant":
            yield from self._assistant(message)
        else:
            yield Unknown(id=f"message/{number}", raw=strip_attachments(message))

    # -- answers ------------------------------------------------------------------------------------

    def _assistant(self, message: dict[str, Any]) -> Iterator[Item]:
        blocks: list[dict[str, Any]] = []
        calls: list[RequestedCall] = []
        for block in _blocks(message):
            if block.get("type") == "tool_use":
                calls.append(_requested_call(block))
            elif block.get("type") == "text":
                words, tag_calls = _split_tagged_calls(text(block.get("text")))
                calls += tag_calls
                blocks += [{"type": "text", "text": words}] if words.strip() else []
            else:
                blocks.append(strip_attachments(block))
        metrics = record(message.get("metrics"))
        tokens = record(metrics.get("tokens"))
        at = micros_of_millis(message.get("ts"))
        usage = usage_units(
            input_tokens=tokens.get("prompt"), output_tokens=tokens.get("completion"), cache_read=tokens.get("cached"),
            dollars=metrics.get("cost"),
        )  # fmt: skip
        info = record(message.get("modelInfo"))
        model = text(info.get("modelId"))
        answer = list(self._dialogue.answer(blocks, calls, at=at, usage=usage, model=model))
        yield from self._configured(info, answer, at)
        yield from answer
        for call in answer:
            # Cline takes over the checklist of a call before it runs the call
            given = record(call.input) if isinstance(call, Called) else {}
            if steps := parse_checklist(text(given.get("task_progress"))):
                yield Planned(id=f"{call.id}/plan", at=at, steps=steps)

    def _configured(self, info: dict[str, Any], answer: list[Item], at: int) -> Iterator[Item]:
        named = {"model": "modelId", "provider": "providerId", "agent_mode": "mode"}
        settings = {
            name: text(info.get(field)) for name, field in named.items() if text(info.get(field))
        }
        if settings and settings != self._settings and answer:
            self._settings = settings
            yield Configured(id=f"settings/{answer[0].id}", at=at, settings=dict(settings))

    # -- user messages ------------------------------------------------------------------------------

    def _user(self, message: dict[str, Any]) -> Iterator[Item]:
        texts = _texts(message)
        at = micros_of_millis(message.get("ts")) or _stated_time(texts)
        finished = False
        for call, tool, output in self._results(message):
            if call is None:
                yield self._dialogue.result(None, output, at=at, tool=tool, call=tool)
                continue
            finished = finished or call.tool == "attempt_completion"
            yield from self._returned(call, output, at)
        if finished:
            yield self._dialogue.end(at=at)
        if not self._dialogue.has_prompt and not _prompted(texts):
            shown = [words for words in texts if not _RESULT_HEADER.match(words)]
            yield self._dialogue.prompt("\n".join(shown), at)
            return
        for block in _blocks(message):
            words = text(block.get("text"))
            if block.get("type") == "text" and _user_text(words) is not None:
                yield self._dialogue.prompt(_asked(message, block), at)
            elif block.get("type") == "text" and not _RESULT_HEADER.match(words):
                yield self._dialogue.note(words, at)

    def _results(self, message: dict[str, Any]) -> Iterator[tuple[Called | None, str, Any]]:
        """The results in a message, each with its call and tool."""
        for block in records(message.get("content")):
            if block.get("type") == "tool_result":
                name = text(block.get("tool_use_id"))
                yield self._dialogue.open_call(name), name, strip_attachments(block.get("content"))
        texts = _texts(message)
        for number, words in enumerate(texts):
            mark = _RESULT_HEADER.match(words)
            if mark is None:
                continue
            output = words[mark.end() :]
            following = texts[number + 1 : number + 2]
            if not output.strip() and following and not following[0].startswith(("<", "[")):
                output = following[0]
            tool = mark[1]
            call = self._dialogue.open_call(tool=tool)
            if call is None and len(self._dialogue.open_calls) == 1:
                call = self._dialogue.open_calls[0]
            yield call, tool, output

    def _returned(self, call: Called, output: Any, at: int) -> Iterator[Item]:
        words = output if isinstance(output, str) else "\n".join(_texts({"content": output}))
        status, cause = _outcome(call, words)
        files = self._files(call, words) if status == "ok" else ()
        yield self._dialogue.result(call, output, status, at=at, cause=cause, files=files)
        summary = text(record(call.input).get("context"))
        if call.tool in ("condense", "summarize_task") and status == "ok" and summary:
            yield Compacted(id=f"{call.id}/compacted", at=at, summary=summary)

    def _files(self, call: Called, output: str) -> tuple[Touch, ...]:
        given = record(call.input)
        path = text(given.get("path")) or text(given.get("absolutePath"))
        if call.tool == "execute_command":
            return files_touched_by(given.get("command"))
        if call.tool not in ("read_file", "write_to_file", "replace_in_file") or not path:
            return ()
        known = path in self._seen_paths
        self._seen_paths.add(path)
        if call.tool == "read_file":
            return (Touch(path=path, op="read"),)
        after = _saved(output)
        if call.tool == "replace_in_file":
            places = () if _CHANGED_BY_USER in output else blocks_of(text(given.get("diff")))
            return (Touch(path=path, op="modified", after_text=after, places=places),)
        if known:
            return (Touch(path=path, op="modified", after_text=after),)
        # Cline does not record whether the file existed before it was written
        digest = digest_of(text(given.get("content")))
        return (Touch(path=path, op="created", after=digest, after_text=after, how="inferred"),)


def _saved(output: str) -> str | None:
    """The whole file as it was saved, where the result shows it."""
    found = _FINAL.search(output)
    return found[1] if found is not None else None


def _requested_call(block: dict[str, Any]) -> RequestedCall:
    tool, given = text(block.get("name")), strip_attachments(block.get("input"))
    effect = _effect(tool, record(given))
    return RequestedCall(tool=tool, id=text(block.get("id")), input=given, effect=effect)


def _effect(tool: str, given: dict[str, Any]) -> Effect:
    reads = tool == "execute_command" and only_reads(text(given.get("command")))
    return "read" if tool in READS or reads else "write"


def _split_tagged_calls(words: str) -> tuple[str, list[RequestedCall]]:
    """A text without the calls that are written in it as tags, and those calls."""
    found = list(tagged_texts(words, TOOLS))
    calls: list[RequestedCall] = []
    for one in found:
        given = {field.name: field.body.strip("\n") for field in tagged_texts(one.body)}
        calls.append(RequestedCall(tool=one.name, input=given, effect=_effect(one.name, given)))
    for one in reversed(found):
        words = words[: one.start] + words[one.end :]
    return words.strip() if calls else words, calls


def _outcome(call: Called, words: str) -> tuple[CallStatus, str]:
    begin = words.lstrip()[:400]
    if "user denied this operation" in begin or "<user_denied>" in begin:
        return "denied", "the user denied it"
    if "execution failed with the following error" in begin or begin.startswith(
        ("<error>", "Error")
    ):
        return "error", headline(re.sub(r"</?error>", "", begin))
    if "was interrupted" in begin:
        return ("in doubt" if call.effect == "write" else "cancelled"), "interrupted"
    if call.tool == "execute_command" and (code := _EXIT.search(begin)) and int(code[1]):
        return "error", f"exit code {code[1]}"
    return "ok", ""
