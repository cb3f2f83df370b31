"""Describes a record as one text. It contains recorded words only; the caller delimits them.

Bounded: of a value of a million parts only the first few thousand characters are ever written out.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from stator.errors import StatorError
from stator.model.records.types import (
    ApprovalRecord,
    ArtifactRecord,
    DeadEndRecord,
    DecisionRecord,
    ErasedRecord,
    EvictedRecord,
    FactRecord,
    FileRecord,
    FlagRecord,
    PendingRecord,
    PlanRecord,
    PreferenceRecord,
    Record,
    ScoreRecord,
    TagRecord,
)
from stator.model.values import canon
from stator.model.values.ids import is_id, short

VALUE_MAX = 4000
"""Characters of a value that are written out."""
BITS_MAX = 1024
"""Of a number that is written out in digits."""


def value_text(value: Any) -> str:
    """A value as text: a string as it is, anything else much as JSON writes it."""
    if isinstance(value, str):
        return value
    found: list[str] = []
    size = 0
    for piece in _pieces(value):
        found.append(piece)
        size += len(piece)
        if size > VALUE_MAX:
            return "".join(found)[:VALUE_MAX] + "…"
    return "".join(found)


def _pieces(value: Any) -> Iterator[str]:
    """JSON, piece by piece, so that it can stop early."""
    if isinstance(value, str):
        yield json.dumps(value[:VALUE_MAX], ensure_ascii=False)
    elif value is None or isinstance(value, bool):
        yield json.dumps(value)
    elif isinstance(value, int):
        bits = value.bit_length()
        yield str(value) if bits <= BITS_MAX else f"(a number of {bits:,} bits)"
    elif isinstance(value, Mapping):
        yield "{"
        for place, (key, item) in enumerate(value.items()):
            yield f"{', ' if place else ''}{json.dumps(str(key)[:VALUE_MAX], ensure_ascii=False)}: "
            yield from _pieces(item)
        yield "}"
    elif isinstance(value, (list, tuple)):
        yield "["
        for place, item in enumerate(value):
            yield ", " if place else ""
            yield from _pieces(item)
        yield "]"
    elif isinstance(value, bytes):
        yield f"({len(value):,} bytes)"
    else:
        yield str(value)[:VALUE_MAX]


def recorded_text(plain: Any) -> str:
    """A value inside a record, from its recorded form."""
    try:
        return value_text(canon.from_plain(plain))
    except StatorError:
        return value_text(plain)


def arguments_text(tool: str, given: Any) -> str:
    """A call as it was meant: `pay(amount=5)`."""
    if not isinstance(given, Mapping):
        return f"{tool}({'' if given is None else value_text(given)})"
    shown: list[str] = []
    size = 0
    for name, value in given.items():
        shown.append(f"{name}={value_text(value)}")
        size += len(shown[-1])
        if size > VALUE_MAX:
            break
    return f"{tool}({', '.join(shown)})"


def prompt_text(prompt: Any) -> str:
    """What was asked; of content blocks, the texts in them."""
    if isinstance(prompt, list):
        texts = [block["text"] for block in prompt if _is_text(block)]
        if texts:
            return "\n".join(texts)
    return value_text(prompt)


def _is_text(block: Any) -> bool:
    return isinstance(block, Mapping) and isinstance(block.get("text"), str)


# -- records --------------------------------------------------------------------------------------


def record_text(record: Record) -> str:
    """What a record says, or that it was erased."""
    made = _TEXTS.get(type(record))
    return made(record) if made is not None else type(record).__name__.removesuffix("Record")


def _because(what: str, why: str) -> str:
    return f"{what} — because {why}" if why else what


def _decision(record: DecisionRecord) -> str:
    text = _because(f"{record.topic}: {record.what}" if record.topic else record.what, record.why)
    return f"{text} (over {', '.join(record.over)})" if record.over else text


def _plan(record: PlanRecord) -> str:
    text = f"{record.step}: {record.detail}" if record.detail else record.step
    return f"{text} (evidence: {record.evidence})" if record.evidence else text


def _pending(record: PendingRecord) -> str:
    verb, _, call = record.what.partition(" ")
    what = f"settle {short(call)}" if verb == "settle" and is_id(call, "call") else record.what
    return _because(f"{what} (waits for {record.on})" if record.on else what, record.why)


def _file(record: FileRecord) -> str:
    where = record.path if record.root == "." else f"{record.path} in {record.root}"
    return f"{where} from {record.from_path}" if record.from_path else where


def _artifact(record: ArtifactRecord) -> str:
    kind = "" if record.media_type == "text/plain" else f" ({record.media_type})"
    return f"{record.name}{kind}"


def _approval(record: ApprovalRecord) -> str:
    by = f" by {record.by}" if record.by else ""
    return f"{record.verdict} {record.pattern or record.tool} for {record.scope}{by}"


def _on(name: str, on: str) -> str:
    return f"{name} on {on}" if on else name


_TEXTS: dict[type[Record], Callable[[Any], str]] = {
    ApprovalRecord: _approval,
    ArtifactRecord: _artifact,
    DeadEndRecord: lambda r: _because(r.what, r.why),
    DecisionRecord: _decision,
    ErasedRecord: lambda r: f"(erased by @{r.erased})",
    EvictedRecord: lambda r: r.key,
    FactRecord: lambda r: f"{r.name} = {recorded_text(r.value)}",
    FileRecord: _file,
    FlagRecord: lambda r: _because(_on(r.name, r.on), r.why),
    PendingRecord: _pending,
    PlanRecord: _plan,
    PreferenceRecord: lambda r: f"{r.name} = {recorded_text(r.value)}",
    ScoreRecord: lambda r: _because(_on(f"{r.name} {r.value / 1000:g}", r.on), r.comment),
    TagRecord: lambda r: f"{r.name} at @{r.seq}",
}
