"""Explains a path: its edits, turn by turn, with their calls and decisions, or what was asked and said."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from stator.errors import Erased
from stator.model.log.commit import Commit
from stator.model.log.delta import Put
from stator.model.log.edges import edges_of
from stator.model.log.query import KeyTouch
from stator.model.log.rewinds import Stretch, stands, visible
from stator.model.records.text import given_by
from stator.model.records.types import ApprovalRecord, FileRecord
from stator.model.window.reply import dialect, text_of
from stator.runtime.base.pages import commit_at
from stator.runtime.views.reflog import rewinds
from stator.store.port import StorePort

WORDS_MAX = 6
"""Entries of a turn, up to which all of them are given."""


class Reason(msgspec.Struct, frozen=True, kw_only=True):
    """One reason why a file is as it is."""

    kind: str
    """decision, call, edit, or asked and said (a prompt and an answer) where no decision was recorded."""
    text: str
    session: str
    turn: int
    seq: int
    detail: str = ""
    topic: str = ""
    """Of a decision that has one."""


def why_of(commit: Commit) -> str:
    """Why a commit was made, as far as that is still there."""
    try:
        return str(commit.value("why", ""))
    except Erased:
        return "(erased)"


def explain(
    store: StorePort, touches: Sequence[KeyTouch], path: str, *, within: str | None = None
) -> list[Reason]:
    """The reasons behind touches of a path, turn by turn, newest first; what was rewound since is left out.

    `within` is the session whose log has them all, as a fork's log has those of its parents.
    """
    reasons: list[Reason] = []
    seen: set[tuple[str, int]] = set()
    in_force: dict[str, list[Stretch]] = {}
    for touch in touches:
        session, seq, turn = touch.session, touch.seq, touch.turn
        owner = within or session
        if owner not in in_force:
            in_force[owner] = visible(rewinds(store, owner), store.head(owner).seq)
        if not stands(in_force[owner], seq):  # nor does a rewind itself: it did nothing to the file
            continue
        reasons.append(_edit(commit_at(store, session, seq), path))
        if (session, turn) in seen or not turn:
            continue
        seen.add((session, turn))
        reasons += _turn_reasons(store, session, turn, path)
    return reasons


def _edit(commit: Commit, path: str) -> Reason:
    record = next(
        (
            op.record
            for op in commit.delta
            if isinstance(op, Put) and isinstance(op.record, FileRecord) and op.record.path == path
        ),
        None,
    )
    how = f" ({record.how})" if record is not None and record.how != "recorded" else ""
    op = record.op if record is not None else "touched"
    why = why_of(commit)
    return Reason(
        kind="edit",
        text=f"{op} by {commit.actor}{how}" + (f": {why}" if why else ""),
        session=commit.session,
        turn=commit.turn,
        seq=commit.seq,
    )


def _turn_reasons(store: StorePort, session: str, turn: int, path: str) -> list[Reason]:
    """Decisions and calls of a turn; where it has no decision, its prompt and answers."""
    rows = store.turns(session, after=turn - 1, upto=turn)
    if not rows:
        return []
    commits = store.commits(session, after=rows[0].first - 1, upto=rows[0].last, load=True)
    decisions = [_decision(commit) for commit in commits if commit.kind == "decision"]
    naming = [commit for commit in commits if commit.kind == "call" and _mentions(commit, path)]
    approved = _approvals(commits)
    calls = [_call(commit, path, approved.get(commit.call, "")) for commit in naming]
    if decisions:
        return decisions + calls
    said = [_said(commit) for commit in _words(commits, naming)]
    return calls + [reason for reason in said if reason.text]


def _words(commits: Sequence[Commit], naming: Sequence[Commit]) -> list[Commit]:
    """The prompt and answers of a turn; of many, those that requested the calls that name the path."""
    words = [commit for commit in commits if commit.kind in ("turn", "entry")]
    behind = [edge for call in naming for edge in edges_of(call)]
    if len(words) <= WORDS_MAX or not behind:
        return words
    return [
        commit
        for commit in words
        if commit.kind == "turn" or any(edge.holds(commit) for edge in behind)
    ]


def _decision(commit: Commit) -> Reason:
    record = next(
        (op.record for op in commit.delta if isinstance(op, Put) and op.collection == "decisions"),
        None,
    )
    what = getattr(record, "what", "(erased)")
    return Reason(
        kind="decision",
        text=what,
        session=commit.session,
        turn=commit.turn,
        seq=commit.seq,
        detail=getattr(record, "why", ""),
        topic=getattr(record, "topic", ""),
    )


def _mentions(commit: Commit, path: str) -> bool:
    try:
        return path in str(commit.value("input", ""))
    except Erased:
        return False


def _approvals(commits: Sequence[Commit]) -> dict[str, str]:
    """Who approved or denied each call, and how that person was recognised."""
    return {
        commit.call: f"{op.record.verdict} {given_by(op.record)}"
        for commit in commits
        if commit.kind == "approval" and commit.call
        for op in commit.delta
        if isinstance(op, Put) and isinstance(op.record, ApprovalRecord)
    }


def _call(commit: Commit, path: str, approved: str) -> Reason:
    return Reason(
        kind="call",
        text=f"{commit.tool}({path})",
        session=commit.session,
        turn=commit.turn,
        seq=commit.seq,
        detail="; ".join(filter(None, [why_of(commit), approved])),
    )


def _said(commit: Commit) -> Reason:
    field = "input" if commit.kind == "turn" else "output"
    try:
        value = commit.value(field, "")
        text = str(value) if dialect(value) == "plain" else text_of(value)
    except Erased:
        text = "(erased)"
    return Reason(
        kind="asked" if commit.kind == "turn" else "said",
        text=text,
        session=commit.session,
        turn=commit.turn,
        seq=commit.seq,
    )
