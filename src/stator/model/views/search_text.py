"""Extracts the searchable texts of a commit, and the paths it is about.

Prompts, answers, tool inputs and outputs, and every record an agent leaves behind. Not
what is kept beside them (the contents of files, definitions of tools), and not bookkeeping.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from stator.errors import StatorError
from stator.model.calls.known import MODEL
from stator.model.log.commit import CONTINUED, Commit
from stator.model.log.delta import Put
from stator.model.records.types import (
    AppRecord,
    ArtifactRecord,
    DeadEndRecord,
    DecisionRecord,
    FactRecord,
    FileRecord,
    FlagRecord,
    PendingRecord,
    PlanRecord,
    PreferenceRecord,
    Record,
    ScoreRecord,
    ScratchRecord,
    SessionRecord,
    TagRecord,
    WorkingRecord,
)
from stator.model.values import canon
from stator.model.values.tokenizer import BETWEEN, indexed, words
from stator.model.views.search import Document
from stator.model.window.reply import dialect, text_of, texts

TEXT_MAX = 1_000_000
"""Characters of one text that are looked at."""
PARTS_MAX = 20_000
"""Texts of one value that are looked at."""
PATHS_MAX = 1000
PATH_NAMES = frozenset(
    "path paths file files filename file_path filepath notebook_path cwd directory folder dir".split()
)
"""Arguments of tools that name a file, in the tools there are."""
SILENT = frozenset({"fork", "run", "run_end", "rewind", "erasure", "purge", "tools", "adopt"})
"""Kinds that only repeat, or store, what other commits hold."""


def document(commit: Commit) -> Document | None:
    """A commit as a search document; None if it has nothing to find."""
    said = list(said_in(commit))
    body = indexed(said) if said else ""
    if not body:
        return None
    paths = dict.fromkeys(" ".join(words(path)) for path in paths_in(commit))
    return Document(
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
        made = _RECORDS.get(type(op.record))
        if made is not None:
            yield from (text[:TEXT_MAX] for text in made(op.record) if text)
    for name in ("output_summary", "why"):
        text = commit.known(name, "")
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
                yield from list(_strings(value))[:PATHS_MAX]


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
    yield from found or _strings(asked)


def _entry(commit: Commit) -> Iterator[str]:
    """The model's text; its tool requests are in the resulting calls."""
    said = commit.known("output")
    if isinstance(said, str) or dialect(said) != "plain":
        yield text_of(said)
    else:
        yield from _strings(said)


def _call(commit: Commit) -> Iterator[str]:
    yield commit.tool
    yield from _strings(commit.known("input"))


def _outcome(commit: Commit) -> Iterator[str]:
    yield commit.cause
    yield from _strings(commit.known("output"))


def _artifact(commit: Commit) -> Iterator[str]:
    yield from _strings(commit.known("input"))


def _compaction(commit: Commit) -> Iterator[str]:
    said = commit.known("input")
    yield from _strings(said.get("summary") if isinstance(said, Mapping) else None)


def _raw(commit: Commit) -> Iterator[str]:
    yield from _strings(commit.known("input"))
    yield from _strings(commit.known("output"))


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


def _strings(value: Any, *, names: bool = False) -> Iterator[str]:
    """The texts and numbers in a value, in order; with the names of fields, if they say something."""
    left = PARTS_MAX
    waiting = [value]
    while waiting and left:
        left -= 1
        one = waiting.pop()
        if isinstance(one, str):
            yield one
        elif isinstance(one, Mapping):
            inner = [
                part for pair in list(one.items())[:left] for part in (pair if names else pair[1:])
            ]
            waiting += reversed(inner)
        elif isinstance(one, (list, tuple)):
            waiting += reversed(one[:left])
        elif isinstance(one, float) or (type(one) is int and one.bit_length() <= 128):
            yield str(one)


# -- records --------------------------------------------------------------------------------------


def _value(name: str, plain: Any) -> Iterator[str]:
    """A name and its value, from the recorded form."""
    yield name
    try:
        yield from _strings(canon.from_plain(plain), names=True)
    except StatorError:
        yield from _strings(plain, names=True)


def _decision(record: DecisionRecord) -> Iterator[str]:
    yield from (record.topic, record.what, record.why, *record.over)
    for name, value in record.factors.items():
        yield from _value(name, value)


_RECORDS: dict[type[Record], Callable[[Any], Iterator[str] | tuple[str, ...]]] = {
    AppRecord: lambda r: _value(r.name, r.value),
    ArtifactRecord: lambda r: (r.name,),
    DeadEndRecord: lambda r: (r.what, r.why),
    DecisionRecord: _decision,
    FactRecord: lambda r: _value(r.name, r.value),
    FileRecord: lambda r: (r.path, r.from_path, r.reason),
    FlagRecord: lambda r: (r.name, r.why) if not r.on.startswith("s_") else (),
    PendingRecord: lambda r: (r.what, r.on, r.why),
    PlanRecord: lambda r: (r.step, r.detail, r.evidence),
    PreferenceRecord: lambda r: _value(r.name, r.value),
    ScoreRecord: lambda r: (r.name, r.comment),
    ScratchRecord: lambda r: _value(r.name, r.value),
    SessionRecord: lambda r: (r.name, r.agent, *r.labels.values()) if r.mode != "project" else (),
    TagRecord: lambda r: (r.name,),
    WorkingRecord: lambda r: (r.name, r.detail),
}
"""What each kind of record says. Marks that a project has on a session say nothing of what it did."""
