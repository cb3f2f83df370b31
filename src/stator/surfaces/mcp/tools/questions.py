"""The tools that ask: `log`, `diff`, `recall` and `search`. They change nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from stator.errors import BadPosition, InvalidInput, NotFound
from stator.model.log.commit import Commit
from stator.model.log.query import CallQuery, TurnRow
from stator.model.records.registry import LISTED, NOT_DIFFED
from stator.model.records.types import Entry, Record
from stator.model.values.json_text import shown
from stator.model.views.diff import Item
from stator.runtime.facade.view import SessionView
from stator.runtime.views.session import list_calls
from stator.surfaces.cli.render import record_line, wire
from stator.surfaces.mcp.request_context import (
    Desk,
    Given,
    filled,
    head_of,
)
from stator.surfaces.mcp.scope import named
from stator.surfaces.mcp.tools.answers import TEXT_MAX, Answer, when
from stator.surfaces.mcp.tools.arguments import cursor, more, offset
from stator.surfaces.mcp.tools.open import evicted_row

LIMIT = 20
CHANGES = 50
"""Net changes, and calls, in one answer."""
SCANNED = 5_000
"""Commits that are looked through for those of some kinds, for one answer."""
INCIDENTAL = frozenset({"after_in", "before_in", "digest", "commit", "factors"})
NARROWS = {
    "kinds": ("commits",),
    "after": ("commits",),
    "last": ("commits", "turns", "files", "decisions", "calls"),
}
"""Which logs an argument means something to; ignored by the others, it would be a wrong answer."""
Page = tuple[list[dict[str, Any]], str | None]


# -- log ------------------------------------------------------------------------------------------


def log(desk: Desk, given: Given) -> Answer:
    row, view = desk.find(given)
    what = given.get("what", "commits")
    for name, logs in NARROWS.items():
        if name in given and what not in logs:
            raise InvalidInput(
                f"{what} are not narrowed by {name}",
                path=f"$.{name}",
                hint=f"{name} goes with what: {', '.join(logs)}",
            )
    rows, rest = _LOGS[what](desk, view, given)
    line = f"{len(rows)} {what} of {named(row)}{'; there are more' if rest else ''}"
    data = {"session": row.id, "what": what, "rows": rows, "more": rest, "head": head_of(view)}
    return Answer(line, data)


def _commits(desk: Desk, view: SessionView, given: Given) -> Page:
    """Newest first; with `after`, oldest first from there on."""
    limit = _limit(given)
    kinds = frozenset(given.get("kinds", ()))
    forward = "after" in given
    place = cursor(given)
    after, upto = _since(view, given.get("last")), view.head.seq
    if forward:
        after = max(after, place[0] if place else given["after"])
    elif place:
        upto = min(upto, place[0] - 1)
    if upto <= after:
        return [], None
    found: list[Commit] = []
    last = 0
    span = f"@{after}..@{upto}"
    looked = SCANNED if kinds else limit
    for commit in view.log(span, newest_first=not forward, limit=looked, load=False):
        last = commit.seq
        if not kinds or commit.kind in kinds:
            found.append(commit)
        if len(found) == limit:
            break
    unseen = last < upto if forward else last > after + 1
    return [commit_row(commit) for commit in found], more((last,)) if unseen else None


def _since(view: SessionView, last: int | None) -> int:
    """Where the last so many turns begin; 0 is the beginning."""
    turns = view.turns(last=last) if last is not None else []
    return turns[0].first - 1 if turns else 0


def commit_row(commit: Commit) -> dict[str, Any]:
    """A commit in a line of words."""
    return filled(
        seq=commit.seq,
        turn=commit.turn,
        at=when(commit.when),
        kind=commit.kind,
        actor=commit.actor,
        tool=commit.tool,
        call=commit.call,
        status=commit.status,
        what=record_line.of_commit(commit).plain,
        source=f"{commit.provenance.source}, {commit.provenance.trust}",
    )


def _turns(desk: Desk, view: SessionView, given: Given) -> Page:
    limit = _limit(given)
    place = cursor(given)
    least = view.head.turn - given["last"] if "last" in given else 0
    turns = desk.scope.store.port.turns(
        view.id,
        after=max(0, least),
        upto=place[0] - 1 if place else None,
        newest_first=True,
        limit=limit + 1,
    )
    rows = [_turn_row(view, turn) for turn in turns[:limit]]
    return rows, more((turns[limit - 1].turn,)) if len(turns) > limit else None


def _turn_row(view: SessionView, turn: TurnRow) -> dict[str, Any]:
    began = view.beginning(turn.turn)
    asked = "" if began is None else record_line.of_commit(began).plain
    status = turn.status or "open"
    return {
        "turn": turn.turn,
        "at": when(turn.at),
        "status": status,
        "seq": turn.first,
        "asked": asked,
    }


def _files(desk: Desk, view: SessionView, given: Given) -> Page:
    found = view.files(last=given.get("last"), reads=True)
    rows = [
        {"path": file.path, "root": file.root, "op": file.op, "turn": file.turn, "seq": file.seq}
        for file in found
    ]
    return _cut(rows, given, _limit(given))


def _decisions(desk: Desk, view: SessionView, given: Given) -> Page:
    after = _since(view, given.get("last"))
    rows = [
        {
            **(wire.record(line.record) or {}),
            "stands": line.stands,
            "turn": line.turn,
            "seq": line.seq,
        }
        for line in reversed(view.decisions())
        if line.seq > after
    ]
    return _cut(rows, given, _limit(given))


def _calls(desk: Desk, view: SessionView, given: Given) -> Page:
    query = CallQuery(session=view.id, after=_since(view, given.get("last")))
    page = list_calls(desk.scope.store.port, query, cursor(given), _limit(given))
    rows = [
        filled(
            call=call.call,
            tool=call.tool,
            status=call.status,
            cause=call.cause,
            effect=call.effect,
            turn=call.turn,
            seq=call.seq,
            at=when(call.at),
        )
        for call in page.rows
    ]
    return rows, more(page.cursor)


def _state(desk: Desk, view: SessionView, given: Given) -> Page:
    rows = [
        {"collection": name, **entry_row(entry)} for name in LISTED for entry in view.entries(name)
    ]
    return _cut(rows, given, _limit(given))


def entry_row(entry: Entry) -> dict[str, Any]:
    """A record that stands, in words."""
    status = getattr(entry.record, "status", "") or getattr(entry.record, "op", "")
    return filled(key=entry.key, what=_words(entry), status=status, seq=entry.seq, turn=entry.turn)


def _words(entry: Entry) -> str:
    return record_line.of_record(entry.record).plain


_LOGS: dict[str, Callable[[Desk, SessionView, Given], Page]] = {
    "commits": _commits,
    "turns": _turns,
    "files": _files,
    "decisions": _decisions,
    "calls": _calls,
    "state": _state,
}


def _limit(given: Given) -> int:
    return int(given.get("limit", LIMIT))


def _cut(rows: Sequence[dict[str, Any]], given: Given, limit: int) -> Page:
    """A page of what is known whole."""
    first = offset(given)
    rest = more((first + limit,)) if first + limit < len(rows) else None
    return list(rows[first : first + limit]), rest


# -- diff -----------------------------------------------------------------------------------------


def diff(desk: Desk, given: Given) -> Answer:
    row, view = desk.find(given)
    start, end = given.get("start"), given.get("end")
    if end is not None and (start is None or ".." in start or ".." in end):
        raise BadPosition(
            "a diff is of one range, or of two positions", path="$.end", hint="start t4, end t5"
        )
    if end is not None and start is not None:
        found = view.diff(desk.scope.position(start), desk.scope.position(end))
    else:
        found = view.diff(desk.scope.span(start) if start is not None else None)
    items = [_change(item) for item in found.items if item.collection not in NOT_DIFFED]
    changes, rest = _cut(items, given, CHANGES)
    calls, calls_rest = _cut(
        [
            filled(call=c.call, tool=c.tool, status=c.status, cause=c.cause, seq=c.seq)
            for c in found.calls
        ],
        given,
        CHANGES,
    )
    line = f"{len(items)} net changes in {named(row)} from {found.start} to {found.end}"
    data = {
        "session": row.id,
        "from": found.start,
        "to": found.end,
        "changes": changes,
        "calls": calls,
        "more": rest or calls_rest,
    }
    return Answer(line, data)


def _said(record: Record | None) -> dict[str, Any] | None:
    """The fields of a record that say something, but for the marks of where its contents are."""
    fields = wire.record(record)
    return fields and filled(**{name: fields[name] for name in fields if name not in INCIDENTAL})


def _change(item: Item) -> dict[str, Any]:
    return filled(
        collection=item.collection,
        key=item.key,
        change=item.change,
        before=_said(item.before),
        after=_said(item.after),
        why=item.why,
        seq=item.seq,
        turn=item.turn,
    )


# -- recall ---------------------------------------------------------------------------------------


def recall(desk: Desk, given: Given) -> Answer:
    row, view = desk.find(given)
    if "key" not in given:
        found = view.evicted()
        rows, rest = _cut([evicted_row(item) for item in found], given, CHANGES)
        line = f"{len(found)} keys left the view of {named(row)}"
        return Answer(line, {"session": row.id, "evicted": rows, "more": rest})
    try:
        item = view.recall(given["key"])
    except NotFound as error:
        if error.hint.startswith("near"):
            raise
        hint = "recall without a key lists what left your view; log, what: state, what stands"
        raise NotFound(error.what, hint=hint, **error.ids) from None
    text = "" if item.content is None else shown(item.content)
    first = offset(given)
    upto = first + TEXT_MAX
    data = {
        "session": row.id,
        "key": item.key,
        "seq": item.seq,
        "turn": item.turn,
        "status": item.status,
        "source": item.source,
        "trust": item.trust,
        "content": text[first:upto],
        "more": more((upto,)) if upto < len(text) else None,
    }
    return Answer(f"{item.key} of {named(row)}, {item.status}", data)


# -- search ---------------------------------------------------------------------------------------


def search(desk: Desk, given: Given) -> Answer:
    wanted = given.get("session")
    hits = desk.scope.store.search(
        given["words"],
        project=desk.scope.project,
        session=desk.scope.find(wanted).id if wanted else None,
        tool=given.get("tool"),
        path=given.get("path"),
        limit=_limit(given),
    )
    seen = desk.scope.sees(hit.session for hit in hits)
    rows = [
        filled(
            session=hit.session,
            name=hit.name,
            seq=hit.seq,
            turn=hit.turn,
            kind=hit.kind,
            at=when(hit.at),
            agent=hit.agent,
            snippet=hit.snippet,
        )
        for hit in hits
        if hit.session in seen
    ]
    return Answer(f"{len(rows)} hits", {"words": given["words"], "hits": rows})
