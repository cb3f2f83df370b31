"""Makes the JSON documents of answers: what `--json` prints and what the service sends are the same.

A document names its schema (`stator.session/1`). An item of a list has none, unless it is read apart from its list.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from stator.model.calls.costs import is_computed, plain
from stator.model.records.tables import COLLECTIONS
from stator.surfaces.cli.render import wire

if TYPE_CHECKING:  # most answers need one of these
    from stator.model.brief.sections import Brief
    from stator.model.log.commit import Commit
    from stator.model.log.query import CallRow, SessionRow, TurnRow
    from stator.model.views.diff import CallItem, Diff, DiffItem
    from stator.model.views.tree import Tree
    from stator.model.views.why import Reason, WhyAnswer
    from stator.runtime.facade.store import Store
    from stator.runtime.facade.view import SessionView
    from stator.runtime.views.file_changes import FileChange
    from stator.runtime.views.glance.listed import ListedSession
    from stator.runtime.views.search import Hit
    from stator.runtime.views.session import DecisionLine
    from stator.runtime.window.recall import Evicted

SESSION = "stator.session/1"
COMMIT = "stator.commit/1"
STATE = "stator.state/1"
DIFF = "stator.diff/1"
TREE = "stator.tree/1"
BRIEF = "stator.brief/1"
HIT = "stator.hit/1"


# -- sessions -------------------------------------------------------------------------------------


def session_row(row: SessionRow) -> dict[str, Any]:
    """A session in a list: its record, its status as shown, its size and its driver."""
    holder = row.holder
    return {
        **(wire.record(row.record) or {}),
        "status": row.record.status,
        "shown": row.shown,
        "head": row.head,
        "turns": row.turns,
        "updated": row.updated,
        "driver": None
        if holder is None
        else {
            "host": holder.host,
            "pid": holder.pid,
            "program": holder.program,
            "since": holder.since,
            "epoch": holder.epoch,
            "live": holder.live,
        },
    }


def used_row(one: ListedSession) -> dict[str, Any]:
    """A session in a list: with when its agent last did something, what it spent, how it ended, what it was asked and
    how many files it changed; null is unknown."""
    from stator.surfaces.cli.render.session_words import prompt_beside_name

    row = one.row
    return {
        **session_row(row),
        "used": row.used if row.has_times else None,
        "spend": plain(one.cost.spend),
        "computed": one.cost.is_computed,
        "ended": one.ended or None,
        "asked": prompt_beside_name(one, always=True) or None,
        "files": one.files,
    }


def session(view: SessionView) -> dict[str, Any]:
    """A session at a glance: its row, its head, its counts and what has no place in its log yet."""
    counts, head = view.counts, view.head
    return {
        **session_row(view.row),
        "head": {"seq": head.seq, "hash": head.hash, "turn": head.turn},
        "counts": {name: getattr(counts, name) for name in counts.__struct_fields__},
        "unplaced": _unplaced(view),
    }


def _unplaced(view: SessionView) -> list[dict[str, Any]]:
    from stator.surfaces.cli.render import unplaced_items

    return unplaced_items.all_as_json(view.unplaced())


def tree(found: Tree) -> dict[str, Any]:
    branches = [
        {**msgspec.to_builtins(one), "spent": plain(one.spent), "computed": is_computed(one.spent)}
        for one in found.branches
    ]
    total = found.total
    return {
        **msgspec.to_builtins(found),
        "branches": branches,
        "total": plain(total),
        "computed": is_computed(total),
    }


def brief(made: Brief) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.to_builtins(made)
    return plain


def hit(found: Hit) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.to_builtins(found)
    return {"schema": HIT, **plain}


# -- parts of a session ---------------------------------------------------------------------------


def commit(store: Store, session: str, found: Commit) -> dict[str, Any]:
    """A commit in full, with where it comes from, and for a call its outcome."""
    from stator.runtime.base.provenance import provenance
    from stator.runtime.views.refs import last_attempt

    source = provenance(store.port, found)
    plain = wire.commit(found)
    plain["provenance"] = {"source": source.source, "trust": source.trust}
    became = last_attempt(store.as_read, session, found) if found.kind == "call" else None
    if became is not None:
        plain["became"] = {"status": became.status, "cause": became.cause or None}
    return plain


def turn(row: TurnRow) -> dict[str, Any]:
    """A turn: where it is in the log, how it ended, and what began it."""
    prompt = None if row.began is None else wire.commit(row.began)["input"]
    places = {"turn": row.turn, "first": row.first, "last": row.last, "at": row.at}
    return {**places, "status": row.status or "open", "prompt": prompt}


def state(view: SessionView, position: str | None, names: list[str]) -> dict[str, Any]:
    """The state at a position: the records of each collection by their keys."""
    point = view.at(position or "head")
    found = view.state(position or "head", collections=names)
    whole: dict[str, Any] = {"ref": f"{point.session}:@{point.seq}"}
    for name, records in found.items():
        whole[name] = {key: wire.record(record) for key, record in records.items()}
    if point.shown == "head" and not names:
        whole["unplaced"] = _unplaced(view)
    return whole


def call(row: CallRow) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.to_builtins(row)
    return {**plain, "outcome": row.outcome or None}


def file(change: FileChange) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.to_builtins(change)
    return plain


def decision(line: DecisionLine) -> dict[str, Any]:
    return {
        "id": line.id,
        "session": line.session,
        "turn": line.turn,
        "seq": line.seq,
        "stands": line.stands,
        "by": line.by or None,
        "left_out": line.left_out,
        "record": wire.record(line.recorded),
    }


def reason(found: Reason, answer: WhyAnswer) -> dict[str, Any]:
    """One reason why something is as it is, and of what."""
    plain: dict[str, Any] = msgspec.to_builtins(found)
    return {**plain, "of": {"kind": answer.kind, "name": answer.name}}


def evicted(item: Evicted) -> dict[str, Any]:
    return {**msgspec.structs.asdict(item), "kind": item.kind}


# -- differences ----------------------------------------------------------------------------------


def diff(view: SessionView, found: Diff) -> dict[str, Any]:
    """What changed: one list per collection, calls from the log, and the delta."""
    document: dict[str, Any] = {
        "of": {"session": view.id, "name": view.name},
        "from": found.start,
        "to": found.end,
    }
    for name in COLLECTIONS:
        document[name] = [_changed(item) for item in found.of(name)]
    document["calls"] = [_called(call) for call in found.calls]
    document["delta"] = [wire.operation(op) for op in found.delta]
    document["transient"] = found.transient
    document["unchanged"] = found.unchanged
    document["read"] = found.read
    return document


def _changed(item: DiffItem) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "key": item.key,
        "change": item.change,
        "before": wire.record(item.before),
        "after": wire.record(item.after),
        "before_id": item.before_id,
        "after_id": item.after_id,
        "why": item.why,
        "seq": item.seq,
        "turn": item.turn,
    }
    if item.touch is not None:
        entry["touch"] = wire.record(item.touch)
    if item.via:
        entry["via"] = [
            {"record": wire.record(step.record), "seq": step.seq, "why": step.why}
            for step in item.via
        ]
    return entry


def _called(call: CallItem) -> dict[str, Any]:
    after = {
        "call": call.call,
        "tool": call.tool,
        "status": call.status,
        "effect": call.effect,
        "cause": call.cause,
    }
    return {
        "key": call.call,
        "change": "added",
        "before": None,
        "after": after,
        "why": "",
        "seq": call.seq,
        "turn": call.turn,
    }
