"""Recognizes, lists and reads Inspect's evaluation logs (`.eval` or `.json`); each sample of each
epoch is a conversation.

A sample's messages contain what the model received and answered. Its events contain the times and
the cost of each answer. Long contents are stored once as attachments and referenced where they
occur.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from stator.importers.inspect_ai import log_file
from stator.importers.inspect_ai.log_file import Sample, read_samples
from stator.importers.reading.attachments import strip_attachments
from stator.importers.reading.call_outcome import CallStatus
from stator.importers.reading.counted_items import Steps, counted_items
from stator.importers.reading.edit_places import editor_touch
from stator.importers.reading.fields import (
    as_text_if_plain,
    files_touched_by,
    headline,
    micros_of_iso,
    record,
    records,
    text,
    usage_units,
)
from stator.importers.reading.found_conversation import FoundConversation, Progress
from stator.importers.reading.json_document import dated
from stator.importers.reading.jsonl import read_beginning
from stator.importers.reading.line_boundary import looked_at, whole_line
from stator.importers.reading.shell_reads import only_reads
from stator.importers.reading.unnamed_messages import Dialogue, RequestedCall
from stator.model.exchange.items import (
    Called,
    Configured,
    Conversation,
    Cursor,
    Item,
    Touch,
    Unknown,
    text_id,
)
from stator.model.log.shown_text import cut_short
from stator.model.records.types import Effect, FileOp
from stator.model.values.json_text import canonical

NAME = "inspect"
READS = frozenset("think web_search web_browser_scrape list_files read_file grep submit".split())
DEEP = 60
STATUSES: dict[str, CallStatus] = {
    "timeout": "timeout",
    "approval": "denied",
    "permission": "error",
}
EDITED: dict[str, FileOp] = {
    "view": "read", "create": "created", "str_replace": "modified", "insert": "modified",
}  # fmt: skip
_LOG = re.compile(rb'\s*\{\s*"version"\s*:\s*\d+\s*,')
_REFERENCE = re.compile(r"(?:attachment|tc)://([0-9a-f]{8,128})")


class Inspect:
    """The format of Inspect's evaluation logs."""

    name = NAME
    mapper = 2

    def recognizes(self, path: Path, begin: bytes) -> bool:
        if begin.startswith(log_file.ZIP):
            return path.suffix == ".eval" or b"_journal/start.json" in begin[:200]
        return bool(_LOG.match(begin)) and b'"status"' in begin and b'"eval"' in begin

    def conversations(self, path: Path) -> Iterable[FoundConversation]:
        stat = path.stat()
        changed = stat.st_mtime_ns // 1000
        for sample in read_samples(str(path), _is_zip(str(path))):
            if records(sample.given.get("messages")) or not sample.is_readable:
                started = looked_at(_started_at, sample.given, default=0)
                started = started or micros_of_iso(sample.eval.get("created"))
                yield FoundConversation(
                    path=str(path), conversation=dated(_conversation(sample), started, changed),
                    part=sample.part, changed=changed, size=stat.st_size,
                )  # fmt: skip
        log_file.clear_cache()

    def read(
        self,
        found: FoundConversation,
        cursor: Cursor | None,
        progress: Progress | None,
        *,
        at_rest: bool = True,
    ) -> Iterator[Item]:
        for sample in read_samples(found.path, _is_zip(found.path), found.part):
            yield from _items_of_sample(sample, found, cursor, at_rest)
            if progress is not None:
                progress(found.size if found.part == "0" else 0)

    def default_paths(self, home: Path, environ: Mapping[str, str]) -> Iterable[Path]:
        folder = environ.get("INSPECT_LOG_DIR", "")
        return [Path(folder)] if folder and "://" not in folder else []

    def is_in_folder(self, found: FoundConversation, root: str) -> bool:
        return False


FORMAT = Inspect()


def _items_of_sample(
    sample: Sample, found: FoundConversation, cursor: Cursor | None, at_rest: bool
) -> Iterator[Item]:
    """The items of a sample. Inspect writes a sample when it is over, so all of it is final."""

    def steps() -> Steps:
        reader = _InspectReader(sample.given)
        read = reader.read(found.conversation.labels.get("model", ""))
        return Steps([read, iter(sample.skipped)], 1)

    return counted_items(steps, cursor, at_rest=at_rest)


def _is_zip(path: str) -> bool:
    return read_beginning(path, 4) == log_file.ZIP


def _conversation(sample: Sample) -> Conversation:
    given, header = sample.given, sample.eval
    run = text(header.get("eval_id")) or text(header.get("run_id")) or text(header.get("created"))
    place = f"{run}/{given.get('id')}/{given.get('epoch')}"
    if not sample.is_readable:
        place = f"{run}/{sample.part}"
    elif not run:
        place = text_id(repr(given.get("input")), given.get("id"), given.get("epoch"))
    task = text(header.get("task"))
    labels = {
        "task": task,
        "model": text(header.get("model")),
        "epoch": str(given.get("epoch", "")),
        **{f"score {name}": _score(score) for name, score in record(given.get("scores")).items()},
    }
    return Conversation(
        source=NAME,
        id=text(given.get("uuid")) or place,
        name=f"{headline(task) or NAME} {cut_short(str(given.get('id')), 40)}"
        + (f" epoch {given['epoch']}" if given.get("epoch") not in (None, 1) else ""),
        labels={name: cut_short(value, 200) for name, value in labels.items() if value},
    )


def _score(score: Any) -> str:
    value = record(score).get("value")
    return value if isinstance(value, str) else canonical(value)


def _events(given: dict[str, Any]) -> list[dict[str, Any]]:
    return records(given.get("events")) or records(record(given.get("transcript")).get("events"))


def _started_at(given: dict[str, Any]) -> int:
    """When a sample began: it says so, or its first event does."""
    times = (micros_of_iso(note.get("timestamp")) for note in _events(given))
    return micros_of_iso(given.get("started_at")) or next(filter(None, times), 0)


class _AnswerStats(msgspec.Struct, frozen=True):
    """What a sample's events say about an answer."""

    at: int
    usage: dict[str, int]
    model: str


class _InspectReader:
    """Reads one sample."""

    def __init__(self, given: dict[str, Any]) -> None:
        self._given = given
        old = record(given.get("transcript"))
        self._attachments = {**record(old.get("content")), **record(given.get("attachments"))}
        self._started_at = _started_at(given)
        self._model_events = [n for n in _events(given) if n.get("event") == "model"]
        self._dialogue = Dialogue()

    def read(self, model: str) -> Iterator[Item]:
        if model:
            yield Configured(id="settings/start", at=self._started_at, settings={"model": model})
        messages = self._given.get("messages")
        messages = messages if isinstance(messages, list) else []
        answers = [m for m in messages if record(m).get("role") == "assistant"]
        none: dict[int, _AnswerStats] = {}
        stats = looked_at(self._stats_by_answer, answers, default=none)
        for number, message in enumerate(messages):
            if not isinstance(message, dict):
                yield Unknown(id=f"message/{number}", raw=message)
                continue
            read = self._message(number, message, stats.get(id(message)))
            yield from whole_line(read, number + 1)
        failure = record(self._given.get("error"))
        if failure:
            yield self._dialogue.end("aborted", headline(failure.get("message")))
        elif self._dialogue.has_prompt and not self._dialogue.open_calls:
            yield self._dialogue.end()

    def _stats_by_answer(self, answers: list[dict[str, Any]]) -> dict[int, _AnswerStats]:
        """The events of each answer, matched by id, or by order in files without ids."""
        named: dict[str, _AnswerStats] = {}
        listed: list[_AnswerStats] = []
        for note in self._model_events:
            output = record(note.get("output"))
            one = _AnswerStats(
                micros_of_iso(note.get("timestamp")), _usage(output), text(output.get("model"))
            )
            listed.append(one)
            for choice in records(output.get("choices")):
                named[text(record(choice.get("message")).get("id"))] = one
        named.pop("", None)
        found = {id(a): named[text(a.get("id"))] for a in answers if text(a.get("id")) in named}
        if not found and len(listed) == len(answers):
            found = {id(a): one for a, one in zip(answers, listed, strict=True)}
        if not found and answers:
            output = record(self._given.get("output"))
            found = {id(answers[-1]): _AnswerStats(0, _usage(output), text(output.get("model")))}
        return found

    def _message(
        self, number: int, message: dict[str, Any], stats: _AnswerStats | None
    ) -> Iterator[Item]:
        role, name = message.get("role"), text(message.get("id"))
        content = strip_attachments(self._resolved(message.get("content")))
        if role == "system":
            yield self._dialogue.note(content, self._started_at, name)
        elif role == "user":
            yield self._dialogue.prompt(as_text_if_plain(content), self._started_at, name)
        elif role == "assistant":
            calls = [self._requested_call(call) for call in records(message.get("tool_calls"))]
            yield from self._dialogue.answer(
                _blocks(content), calls, at=stats.at if stats else 0, name=name,
                usage=stats.usage if stats else {}, model=stats.model if stats else "",
            )  # fmt: skip
        elif role == "tool":
            yield self._returned(message, content)
        else:
            yield Unknown(id=name or f"message/{number}", raw=strip_attachments(message))

    def _requested_call(self, call: dict[str, Any]) -> RequestedCall:
        tool, given = text(call.get("function")), self._resolved(call.get("arguments"))
        command = text(record(given).get("command"))
        command = command or text(record(given).get("cmd"))
        is_read = tool in READS or command == "view" or (tool == "bash" and only_reads(command))
        effect: Effect = "read" if is_read else "write"
        given = strip_attachments(given)
        return RequestedCall(tool=tool, id=text(call.get("id")), input=given, effect=effect)

    def _returned(self, message: dict[str, Any], content: Any) -> Item:
        named = text(message.get("tool_call_id"))
        call = self._dialogue.open_call(named) if named else self._dialogue.open_call()
        failure = record(message.get("error"))
        status: CallStatus = "ok"
        if failure:
            status = STATUSES.get(text(failure.get("type")), "error")
        return self._dialogue.result(
            call, as_text_if_plain(content), status, cause=headline(failure.get("message")), call=named,
            tool=text(message.get("function")), files=_files(call) if status == "ok" else (),
        )  # fmt: skip

    def _resolved(self, value: Any, depth: int = 0) -> Any:
        """A value in which references are replaced by the attachments they refer to."""
        if isinstance(value, str):
            found = _REFERENCE.fullmatch(value)
            return self._attachments.get(found[1], value) if found else value
        if depth > DEEP:
            return value
        if isinstance(value, list):
            return [self._resolved(one, depth + 1) for one in value]
        if isinstance(value, dict):
            return {key: self._resolved(one, depth + 1) for key, one in value.items()}
        return value


def _blocks(content: Any) -> list[dict[str, Any]]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    blocks: list[dict[str, Any]] = []
    for block in records(content):
        if block.get("type") == "reasoning":
            signed = text(block.get("signature"))
            thought = {"type": "thinking", "thinking": text(block.get("reasoning"))}
            blocks.append(thought | ({"signature": signed} if signed else {}))
        elif block.get("type") == "text":
            blocks.append({"type": "text", "text": text(block.get("text"))})
        else:
            blocks.append(block)
    return blocks


def _usage(output: dict[str, Any]) -> dict[str, int]:
    usage = record(output.get("usage"))
    fresh, whole = usage.get("input_tokens"), usage.get("total_tokens")
    read, written = usage.get("input_tokens_cache_read"), usage.get("input_tokens_cache_write")
    spent = usage_units(input_tokens=fresh, output_tokens=usage.get("output_tokens"))
    cached = usage_units(cache_read=read, cache_write=written).get("tokens", 0)
    if cached and spent.get("tokens") == whole:  # the input tokens include the cached ones
        fresh = max(spent.get("tokens:in", 0) - cached, 0)
    return usage_units(
        input_tokens=fresh,
        output_tokens=usage.get("output_tokens"),
        cache_read=read,
        cache_write=written,
    )


def _files(call: Called | None) -> tuple[Touch, ...]:
    if call is None:
        return ()
    given = record(call.input)
    if call.tool == "bash":
        return files_touched_by(given.get("cmd") or given.get("command"))
    path, op = text(given.get("path")), EDITED.get(text(given.get("command")))
    return (editor_touch(path, op, given),) if call.tool == "text_editor" and path and op else ()
