"""Shapes one commit, or what a call was given and answered, for a page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from stator.model.log.commit import CONTENT, Commit, Gone, Large
from stator.model.log.delta import Put
from stator.model.log.edges import edges_of
from stator.model.values.ids import short
from stator.surfaces.cli.render.record_line import brief, of_record, size, value_of
from stator.surfaces.cli.render.record_line import of_commit as line_of
from stator.surfaces.web.shape import diff_rows, texts
from stator.surfaces.web.shape.diff_rows import DiffRows
from stator.surfaces.web.shape.texts import ShownText

SHORT = 120
"""Characters of an argument that is shown beside its name."""
ARGUMENTS_MAX = 40
OPS_MAX = 60
EDGES_MAX = 12
HIDDEN = frozenset({"key", "input_hash", "principal"})
"""Content that says nothing to a reader, or is among the facts."""


class Argument(msgspec.Struct, frozen=True, kw_only=True):
    """One argument of a call: short ones beside their name, long ones below it."""

    name: str
    value: str = ""
    text: ShownText | None = None


class CallBody(msgspec.Struct, frozen=True, kw_only=True):
    """What is inside a call."""

    given: list[Argument]
    diff: DiffRows | None = None
    answered: ShownText | None = None
    rest: str = ""
    """Where the arguments are, if they are too large to be shown."""


class CommitField(msgspec.Struct, frozen=True):
    """A content field of a commit."""

    name: str
    text: ShownText


class CommitOp(msgspec.Struct, frozen=True):
    """A change of the state that a commit recorded."""

    sign: str
    collection: str
    text: str


class CommitView(msgspec.Struct, frozen=True, kw_only=True):
    """A commit in full."""

    line: str
    body: CallBody | None
    """Of a call: what it was given."""
    facts: list[tuple[str, str]]
    fields: list[CommitField]
    ops: list[CommitOp]
    more_ops: int = 0
    edges: list[tuple[str, int]]
    """What it was made from: words, and the seq that they lead to (0: elsewhere)."""


def body_of(session: str, intent: Commit | None, outcome: Commit | None) -> CallBody:
    """What a call was given and answered."""
    given: list[Argument] = []
    diff, rest = None, ""
    if intent is not None and isinstance(intent.content.get("input"), Large):
        rest = texts.text_address(session, intent.seq, "input")
    elif intent is not None:
        value = value_of(intent, "input")
        diff = diff_rows.of_arguments(value)
        given = list(_arguments(session, intent, value, is_edit=diff is not None))
    answered = None
    if outcome is not None and "output" in outcome.content:
        answered = texts.of_field(session, outcome, "output")
    return CallBody(given=given, diff=diff, answered=answered, rest=rest)


def _arguments(session: str, intent: Commit, value: Any, *, is_edit: bool) -> Iterator[Argument]:
    if not isinstance(value, Mapping):
        if value not in ("", None):
            yield Argument(name="input", text=texts.of_field(session, intent, "input"))
        return
    shown = {
        "edits",
        "patch",
        *diff_rows.WRITTEN,
        *(name for pair in diff_rows.OLD_NEW for name in pair),
    }
    for name, item in list(value.items())[:ARGUMENTS_MAX]:
        if is_edit and name in shown:
            continue
        text = texts.readable(item)
        if len(text) <= SHORT and "\n" not in text:
            yield Argument(name=str(name), value=text)
        else:
            part = text[: texts.TEXT_MAX]
            rest = texts.text_address(session, intent.seq, "input") if len(part) < len(text) else ""
            yield Argument(
                name=str(name), text=ShownText(text=part, rest=rest, size=size(len(text)))
            )


def of_commit(session: str, commit: Commit) -> CommitView:
    """A commit in full: its content, its changes, and how it is placed."""
    is_call = commit.kind == "call"
    fields = [
        CommitField(name, texts.of_field(session, commit, name))
        for name in CONTENT
        if name in commit.content and name not in HIDDEN and not (is_call and name == "input")
    ]
    return CommitView(
        line=line_of(commit).plain,
        facts=[(name, value) for name, value in _facts(commit) if value],
        body=body_of(session, commit, None) if is_call else None,
        fields=fields,
        ops=[_op(op) for op in commit.delta[:OPS_MAX]],
        more_ops=max(0, len(commit.delta) - OPS_MAX),
        edges=[
            (short(e.id) if e.id else f"@{e.first}" + f"–@{e.last}" * e.is_range, e.first)
            for e in edges_of(commit)[:EDGES_MAX]
        ],
    )


def _facts(commit: Commit) -> Iterator[tuple[str, str]]:
    principal = commit.content.get("principal")
    who = (
        ""
        if principal is None or isinstance(principal, (Gone, Large))
        else brief(value_of(commit, "principal"))
    )
    yield "by", f"{commit.actor}{f' ({who})' if who else ''}"
    yield "tool", commit.tool
    yield "status", commit.status
    yield "cause", brief(commit.cause) if commit.cause else ""
    yield "effect", commit.effect
    yield "attempt", str(commit.attempt) if commit.attempt > 1 else ""
    yield "came from", f"{commit.provenance.source}, {commit.provenance.trust}"
    yield "origin", " ".join(commit.origin) if commit.origin else ""
    yield "run", short(commit.run) if commit.run else ""
    yield "id", commit.id
    yield "hash", commit.hash
    yield "before it", commit.prev


def _op(op: Any) -> CommitOp:
    if isinstance(op, Put):
        return CommitOp("~" if op.was else "+", op.collection, of_record(op.record).plain)
    return CommitOp(
        "−", op.collection, f"removed; it was put at @{op.was}" if op.was else "removed"
    )
