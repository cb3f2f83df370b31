"""What the rules of extraction see of a commit, and what they find in it. Pure.

A rule sees a commit while it is recorded (a `Draft`) or in a log (a `Commit`), in the same form. What it finds becomes
a draft of its own, which names the commit as its evidence: in its inputs, and in its origin.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec
from msgspec import UNSET

from stator.model.exchange.extraction_state import ExtractionState, HeldCall
from stator.model.log.commit import (
    Change,
    Commit,
    Draft,
    Gone,
    Provenance,
    Source,
    Upsert,
)
from stator.model.log.delta import Put
from stator.model.records.types import Record
from stator.model.values.ids import derived

ENDS = frozenset({"outcome", "settlement"})
"""The kinds of commits that end a call."""
EXTRACT = "extract"
"""The origin, and the principal, of what extraction records."""
REMOVED = "-"
"""How the version ends in the origin of what takes a finding back."""
DEPTH_MAX = 8
TEXT_MAX = 1_000_000
"""Characters of an output that rules look at."""


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """A commit, as rules see it."""

    id: str
    kind: str
    actor: str = ""
    tool: str = ""
    call: str = ""
    status: str = ""
    cause: str = ""
    why: str = ""
    input: Any = None
    output: Any = None
    happened: int = 0
    provenance: Provenance = Provenance()
    records: tuple[Record, ...] = ()
    """The records that it puts."""
    is_whole: bool = True
    """Whether all of its content is there: none was erased, or left out of a bundle."""


class RuleFinding(msgspec.Struct, frozen=True, kw_only=True):
    """What a rule found in a commit."""

    rule: str
    version: int
    kind: str
    changes: tuple[Change, ...]
    source: Source
    content: Any = UNSET
    also: tuple[str, ...] = ()
    """Other commits that it was found in."""


class ExtractionRule(msgspec.Struct, frozen=True, kw_only=True):
    """One rule: what it is called, which version of it this is, and the kind of commit that it makes."""

    name: str
    version: int
    kind: str
    sees: frozenset[str]
    """The kinds of commits that it finds something in."""
    find: Callable[[ExtractionState, Evidence, HeldCall | None], Found | None]
    needs: Callable[[str, Any], Any] | None = None
    """The part of a call's input that it reads, for a tool and its input; None if it reads nothing of it."""
    reads: Callable[[str], bool] = lambda tool: True
    """Whether it reads anything of the input of a tool's calls."""
    only_read: bool = False
    """Whether it finds nothing in the end of a call of whose input no rule reads anything."""


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """What a rule gives: records, whose words they are if not the evidence's, and a document's content."""

    changes: tuple[Change, ...]
    source: Source | None = None
    content: Any = UNSET
    also: tuple[str, ...] = ()


def seen_draft(draft: Draft) -> Evidence:
    """A draft, as rules see it."""
    return Evidence(
        id=draft.id, kind=draft.kind, actor=draft.actor, tool=draft.tool, call=draft.call,
        status=draft.status, cause=draft.cause, why=draft.why,
        input=None if draft.input is UNSET else draft.input,
        output=None if draft.output is UNSET else draft.output,
        happened=draft.happened, provenance=draft.provenance,
        records=_put(draft.changes) if draft.changes else (),
    )  # fmt: skip


def _put(changes: tuple[Change, ...]) -> tuple[Record, ...]:
    return tuple([change.record for change in changes if isinstance(change, Upsert)])


def seen_commit(commit: Commit) -> Evidence:
    """A commit of a log, as rules see it."""
    return Evidence(
        id=commit.id, kind=commit.kind, actor=commit.actor, tool=commit.tool, call=commit.call,
        status=commit.status, cause=commit.cause, why=commit.known("why", ""),
        input=commit.known("input"), output=commit.known("output"),
        happened=commit.happened or commit.at, provenance=commit.provenance,
        records=tuple(op.record for op in commit.delta if isinstance(op, Put)),
        is_whole=not any(isinstance(item, Gone) for item in commit.content.values()),
    )  # fmt: skip


def draft_of(session: str, evidence: Evidence, finding: RuleFinding) -> Draft:
    """The draft that records a finding."""
    return Draft(
        id=finding_id(evidence.id, finding.rule, finding.version),
        session=session,
        kind=finding.kind,
        actor="system",
        happened=evidence.happened,
        origin=(EXTRACT, f"{finding.rule}/{finding.version}:{evidence.id}"),
        principal=EXTRACT,
        # never trusted more than what it was found in
        provenance=Provenance(finding.source, evidence.provenance.trust),
        inputs=(evidence.id, *finding.also),
        changes=finding.changes,
        input=finding.content,
    )


def finding_id(evidence: str, rule: str, version: int) -> str:
    """The id of what a rule found in a commit: finding it again adds nothing."""
    return derived("commit", EXTRACT, evidence, rule, str(version))


def removal_of(
    session: str, evidence: str, rule: str, version: int, kind: str, changes: tuple[Change, ...]
) -> Draft:
    """The draft that takes a finding back: this version of its rule does not find it."""
    return Draft(
        id=derived("commit", EXTRACT, evidence, rule, str(version), REMOVED),
        session=session,
        kind=kind,
        actor="system",
        origin=(EXTRACT, f"{rule}/{version}{REMOVED}:{evidence}"),
        principal=EXTRACT,
        inputs=(evidence,),
        changes=changes,
        why="the rules of this release do not find it",
    )


def origin_parts(origin: tuple[str, str] | None) -> tuple[str, int, str] | None:
    """The rule, its version and the evidence that an origin names; None if it is no finding's."""
    if origin is None or origin[0] != EXTRACT:
        return None
    named, _, evidence = origin[1].rpartition(":")
    rule, _, version = named.removesuffix(REMOVED).rpartition("/")
    return (rule, int(version), evidence) if version.isdecimal() and len(version) < 9 else None


# -- reading values -------------------------------------------------------------------------------


def plain_text(value: Any) -> str:
    """The text in what a tool returned, in whichever form its agent keeps it."""
    whole = "\n".join(_texts(value, 0))
    return whole if len(whole) <= TEXT_MAX else ""


def _texts(value: Any, depth: int) -> Iterator[str]:
    if depth > DEPTH_MAX:
        return
    if isinstance(value, str):
        inner = as_json(value) if depth < DEPTH_MAX else None
        if isinstance(inner, dict) and isinstance(inner.get("output"), str):
            yield inner["output"]
        else:
            yield value
    elif isinstance(value, (list, tuple)):
        for one in value:
            yield from _texts(one, depth + 1)
    elif isinstance(value, dict):
        for name in ("output", "stdout", "stderr", "text", "content", "result"):
            if name in value:
                yield from _texts(value[name], depth + 1)


def as_json(text: str) -> Any:
    """The value that a text is the JSON of; None if it is none."""
    if not text.lstrip().startswith(("{", "[")) or len(text) > TEXT_MAX:
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def entries(value: Any) -> list[Any]:
    """The entries of a list; a text may be the JSON of one."""
    if isinstance(value, str):
        value = as_json(value)
    return list(value) if isinstance(value, (list, tuple)) else []


def string(value: Any) -> str:
    """A text, or nothing."""
    return value if isinstance(value, str) else ""


def unique(texts: Iterable[str]) -> list[str]:
    """Texts that are not empty, each once."""
    return [text for text in dict.fromkeys(texts) if text]
