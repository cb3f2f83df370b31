"""Extracts the searchable texts of a commit, and the paths it is about.

Prompts, answers with what was thought, tool inputs and outputs, and every record an agent leaves behind. Not
what is kept beside them (the contents of files, definitions of tools), and not bookkeeping.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from stator.model.calls.known import MODEL
from stator.model.log.commit import CONTINUED, Commit
from stator.model.log.delta import Put
from stator.model.log.seal import summarise
from stator.model.records.search_text import strings
from stator.model.records.tables import SILENT, record_words
from stator.model.records.types import (
    FileRecord,
)
from stator.model.values.tokenizer import BETWEEN, indexed, words
from stator.model.views.search import SearchDocument
from stator.model.window.reply import (
    blocks_of,
    dialect,
    items_of,
    message_of,
    text_of,
    texts,
)

TEXT_MAX = 1_000_000
"""Characters of one text that are looked at."""
PATHS_MAX = 1000
PATH_NAMES = frozenset(
    "path paths file files filename file_path filepath notebook_path cwd directory folder dir".split()
)
"""Arguments of tools that name a file, in the tools there are."""

ELSEWHERE = frozenset(
    "text output_text input_text refusal message tool_use function_call custom_tool_call".split()
)
"""Parts of an answer that are its text, or that are calls of their own."""
THOUGHT = ("reasoning_content", "reasoning", "reasoning_details")
"""Where a chat completion has what was thought."""
OPAQUE = frozenset(
    "type id signature data encrypted_content encrypted_index tool_use_id call_id item_id".split()
)
"""Fields that hold no words of anybody."""


def document(commit: Commit) -> SearchDocument | None:
    """A commit as a search document; None if it has nothing to find."""
    said = list(said_in(commit))
    body = indexed(said) if said else ""
    if not body:
        return None
    paths = dict.fromkeys(" ".join(words(path)) for path in paths_in(commit))
    return SearchDocument(
        seq=commit.seq,
        kind=commit.kind,
        tool=commit.tool,
        at=commit.when,
        body=body,
        paths=f" {BETWEEN} ".join(paths),
    )


def said_in(commit: Commit) -> Iterator[str]:
    """The texts of a commit, messages first."""
    if commit.kind in SILENT or (commit.kind == "call" and commit.tool == MODEL):
        return
    reader = _CONTENT.get(commit.kind)
    if reader is not None:
        yield from (text[:TEXT_MAX] for text in reader(commit) if text)
    for op in commit.delta:
        if not isinstance(op, Put) or (op.collection == "session" and commit.kind != "open"):
            continue
        yield from (text[:TEXT_MAX] for text in record_words(op.record) if text)
    for text in (_summary(commit), commit.known("why", "")):
        if isinstance(text, str) and text:
            yield text[:TEXT_MAX]


def paths_in(commit: Commit) -> Iterator[str]:
    """The paths a commit is about: files it recorded, and those a call was given."""
    for op in commit.delta[:PATHS_MAX]:
        if isinstance(op, Put) and isinstance(op.record, FileRecord):
            yield op.record.path
            yield op.record.from_path
    given = commit.known("input") if commit.kind == "call" else None
    if isinstance(given, Mapping):
        for name, value in given.items():
            if name in PATH_NAMES:
                yield from list(strings(value))[:PATHS_MAX]


# -- content --------------------------------------------------------------------------------------


def _turn(commit: Commit) -> Iterator[str]:
    if commit.status != CONTINUED:
        yield from _prompt(commit.known("input"))


def _prompt(asked: Any) -> Iterator[str]:
    """What was asked; of content blocks, the texts in them."""
    blocks = (
        [block for block in asked if isinstance(block, dict)] if isinstance(asked, list) else []
    )
    found = list(texts(blocks))
    yield from found or strings(asked)


def _entry(commit: Commit) -> Iterator[str]:
    """The model's text, then what it thought and what tools of its provider gave back; the tools that it asked for are
    in the resulting calls."""
    said = commit.known("output")
    if isinstance(said, str) or dialect(said) != "plain":
        yield text_of(said)
        yield from _beside_text(said)
    else:
        yield from strings(said)


def _beside_text(said: Any) -> Iterator[str]:
    match dialect(said):
        case "anthropic":
            parts = blocks_of(said)
        case "openai":
            parts = items_of(said)
        case "openai-chat":
            message = message_of(said)
            parts = [{name: message[name] for name in THOUGHT if name in message}]
        case _:
            parts = []
    for part in parts:
        if part.get("type") not in ELSEWHERE:
            yield from strings(part, without=OPAQUE)


def _call(commit: Commit) -> Iterator[str]:
    yield commit.tool
    yield from strings(commit.known("input"))


def _outcome(commit: Commit) -> Iterator[str]:
    yield commit.cause
    yield from strings(commit.known("output"))


def _artifact(commit: Commit) -> Iterator[str]:
    yield from strings(commit.known("input"))


def _compaction(commit: Commit) -> Iterator[str]:
    said = commit.known("input")
    yield from strings(said.get("summary") if isinstance(said, Mapping) else None)


def _summary(commit: Commit) -> str:
    """The summary that an agent or a person wrote. One that is made of a long output says nothing new."""
    text: str = commit.known("output_summary", "")
    whole = commit.content.get("output")
    if text and isinstance(whole, bytes):
        is_made = text == summarise(msgspec.json.decode(whole), len(whole))
        return "" if is_made else text
    return text


def _raw(commit: Commit) -> Iterator[str]:
    yield from strings(commit.known("input"))
    yield from strings(commit.known("output"))


_CONTENT: dict[str, Callable[[Commit], Iterator[str]]] = {
    "turn": _turn,
    "entry": _entry,
    "call": _call,
    "outcome": _outcome,
    "settlement": _outcome,
    "artifact": _artifact,
    "compaction": _compaction,
    "raw": _raw,
}
