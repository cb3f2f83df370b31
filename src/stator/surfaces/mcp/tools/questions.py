"""Implements the tools `stator_log` and `stator_diff`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

from stator.errors import BadPosition, InvalidInput
from stator.model.log.commit import Commit
from stator.model.log.query import CallQuery, SessionRow, TurnRow
from stator.model.log.shown_text import cut_short
from stator.model.records.tables import LISTED, recall_key
from stator.model.records.types import Entry, Record
from stator.model.views.diff import DiffItem
from stator.model.views.unplaced import EXPLAINED
from stator.runtime.facade.view import SessionView
from stator.runtime.views.file_changes import files_touched
from stator.runtime.views.glance.calls import list_calls
from stator.runtime.views.ranges import between, points
from stator.runtime.views.refs import Point, find_call
from stator.surfaces.cli.render import record_line, wire
from stator.surfaces.mcp.keys import call_in, seq_in
from stator.surfaces.mcp.request_context import (
    Arguments,
    RequestContext,
    head_fields,
    without_empty,
)
from stator.surfaces.mcp.tools.answers import ROWS_BYTES, ToolAnswer, fitting, iso_time
from stator.surfaces.mcp.tools.arguments import cursor_text, read_cursor

LIMIT = 20
CHANGES_MAX = 50
"""Maximum number of net changes, and most calls, in one answer."""
SCANNED_MAX = 5_000
"""Maximum number of commits searched for those of some kinds, for one answer."""
INCIDENTAL = frozenset({"after_in", "before_in", "digest", "commit", "factors"})
APPLIES_TO = {
    "kinds": ("commits",),
    "after": ("commits",),
    "key": ("commits",),
    "last": ("commits", "turns", "files", "decisions", "calls"),
}
"""By argument: the only logs that accept it. Ignoring it elsewhere would answer another question."""
MARKED_IN = ("commits", "turns", "files", "decisions", "state")
"""Logs whose rows say whether they rest on something that nobody vouches for."""
SUMMARY_MAX = 400
UNPLACED_BYTES = 32 * 1024
UNPLACED_IN = ("commits", "turns", "calls", "state")
"""Logs that also show what has no place yet."""
Page = tuple[list[dict[str, Any]], str | None]


# -- log ------------------------------------------------------------------------------------------


def log(request: RequestContext, given: Arguments) -> ToolAnswer:
    row, view, key = request.find_by_key(given)
    what = given.get("what", "commits")
    for name, logs in APPLIES_TO.items():
        if name in given and what not in logs:
            raise InvalidInput(
                f"log of {what} does not accept {name}",
                path=f"$.{name}",
                hint=f"{name} goes with what: {', '.join(logs)}",
            )
    if key:
        given = {**given, "after": max(0, _seq_of(request, view, key) - _limit(given) // 2 - 1)}
    rows, rest = _LOGS[what](request, view, given)
    if (fits := fitting(rows)) < len(rows):
        rows, rest = _LOGS[what](request, view, {**given, "limit": fits})
    rows = [_with_key(request, row, one) for one in rows]
    if what in MARKED_IN:
        rows = request.marked(row.id, rows)
    line = f"{len(rows)} {what} of {request.label(row)}{'; there are more' if rest else ''}"
    data = {"session": row.id, "what": what, "rows": rows, "more": rest, "head": head_fields(view)}
    if what in UNPLACED_IN and "cursor" not in given and (unplaced := unplaced_rows(view)):
        line += f"; {len(unplaced)} unplaced: {EXPLAINED}"
        data["unplaced"] = unplaced
    return ToolAnswer(line, data)


def _seq_of(request: RequestContext, view: SessionView, key: str) -> int:
    """Return the seq of what a key names."""
    seq = seq_in(key)
    if seq is not None:
        return view.at(f"@{seq}").seq
    if call := call_in(key):
        return find_call(request.scope.store.as_read, call, session=view.id).seq
    return view.recall(key).seq


def _with_key(request: RequestContext, row: SessionRow, found: dict[str, Any]) -> dict[str, Any]:
    """Return a row with the key of what it is about, its session first."""
    key = found.get("recalled_by") or (f"call:{found['call']}" if found.get("call") else "")
    rest = {name: value for name, value in found.items() if name != "recalled_by"}
    return {"key": request.key(row, key or f"@{found['seq']}"), **rest}


def unplaced_rows(view: SessionView) -> list[dict[str, Any]]:
    """Return what is known of a session and has no place in its log yet, the newest if there is much."""
    rows = [
        without_empty(
            id=one.id,
            kind=one.kind,
            tool=one.tool,
            call=one.call,
            status=one.status,
            summary=cut_short(one.summary, SUMMARY_MAX),
            happened=iso_time(one.happened) if one.happened else "",
        )
        for one in view.unplaced()[-CHANGES_MAX:]
    ]
    return rows[-max(1, fitting(rows[::-1], UNPLACED_BYTES)) :]


def _commits(request: RequestContext, view: SessionView, given: Arguments) -> Page:
    """List commits, newest first; with `after`, oldest first from that seq."""
    limit = _limit(given)
    kinds = frozenset(given.get("kinds", ()))
    forward = "after" in given
    place = read_cursor(given, 2)
    upto = view.head.seq
    since = after = place[1] if place else _seq_before_last_turns(view, given.get("last"))
    if forward:
        after = max(after, place[0] if place else given["after"])
    elif place:
        upto = min(upto, place[0] - 1)
    if upto <= after:
        return [], None
    found: list[Commit] = []
    last = 0
    span = f"@{after}..@{upto}"
    looked = SCANNED_MAX if kinds else limit
    for commit in view.log(span, newest_first=not forward, limit=looked, load=False):
        last = commit.seq
        if not kinds or commit.kind in kinds:
            found.append(commit)
        if len(found) == limit:
            break
    unseen = last < upto if forward else last > after + 1
    return [commit_row(commit) for commit in found], cursor_text((last, since)) if unseen else None


def _seq_before_last_turns(view: SessionView, last: int | None) -> int:
    """Return the seq before the first of the last turns; 0 if `last` is None."""
    turns = view.turns(last=last) if last is not None else []
    return turns[0].first - 1 if turns else 0


def commit_row(commit: Commit) -> dict[str, Any]:
    """Return a commit as a row with a line of text."""
    return without_empty(
        seq=commit.seq,
        turn=commit.turn,
        at=iso_time(commit.when),
        kind=commit.kind,
        actor=commit.actor,
        tool=commit.tool,
        call=commit.call,
        status=commit.status,
        what=record_line.of_commit(commit).plain,
        source=f"{commit.provenance.source}, {commit.provenance.trust}",
    )


def _turns(request: RequestContext, view: SessionView, given: Arguments) -> Page:
    limit = _limit(given)
    place = read_cursor(given, 2)
    least = max(0, view.head.turn - given["last"]) if "last" in given else 0
    since = place[1] if place else least
    turns = request.scope.store.as_read.turns(
        view.id,
        after=since,
        upto=place[0] - 1 if place else None,
        newest_first=True,
        limit=limit + 1,
        prompts=True,
    )
    rows = [_turn_row(turn) for turn in turns[:limit]]
    return rows, cursor_text((turns[limit - 1].turn, since)) if len(turns) > limit else None


def _turn_row(turn: TurnRow) -> dict[str, Any]:
    asked = "" if turn.began is None else record_line.of_commit(turn.began).plain
    status = turn.status or "open"
    return {
        "turn": turn.turn,
        "at": iso_time(turn.at),
        "status": status,
        "seq": turn.first,
        "asked": asked,
    }


def _files(request: RequestContext, view: SessionView, given: Arguments) -> Page:
    window = _window(view, given)
    store, (_, upto, after) = request.scope.store.as_read, window
    found = files_touched(store, view.id, after=after, upto=upto, reads=True)
    page, rest = _page(found, given, window)
    rows = [
        {"path": file.path, "root": file.root, "op": file.op, "turn": file.turn, "seq": file.seq}
        for file in page
    ]
    return rows, rest


def _decisions(request: RequestContext, view: SessionView, given: Arguments) -> Page:
    window = _window(view, given)
    page, rest = _page(view.decisions()[::-1], given, window)
    rows = [
        {
            **(wire.record(line.recorded) or {}),
            "stands": line.stands,
            "turn": line.turn,
            "seq": line.seq,
        }
        for line in page
    ]
    return rows, rest


def _calls(request: RequestContext, view: SessionView, given: Arguments) -> Page:
    place = read_cursor(given, 2)
    since = place[1] if place else _seq_before_last_turns(view, given.get("last"))
    query = CallQuery(session=view.id, after=since)
    cursor = place[:1] if place else None
    page = list_calls(request.scope.store.as_read, query, cursor, _limit(given))
    # The cause is part of the outcome, which rests on all that the call rests on.
    ends = request.marked(view.id, [{"seq": call.outcome or call.seq} for call in page.rows])
    rows = [
        without_empty(
            call=call.call,
            tool=call.tool,
            status=call.status,
            cause=call.cause,
            effect=call.effect,
            turn=call.turn,
            seq=call.seq,
            at=iso_time(call.at),
            unverified=end.get("unverified", ""),
        )
        for call, end in zip(page.rows, ends, strict=True)
    ]
    return rows, cursor_text((*page.cursor, since)) if page.cursor else None


def _state(request: RequestContext, view: SessionView, given: Arguments) -> Page:
    window = _window(view, given)
    found = [entry for name in LISTED for entry in view.entries(name, f"@{window[1]}", erased=True)]
    page, rest = _page(found, given, window)
    rows = [
        {
            "collection": entry.collection,
            "recalled_by": recall_key(entry.collection, entry.record, entry.id),
            **without_empty(name=entry.key),
            **{key: value for key, value in entry_row(entry).items() if key != "key"},
        }
        for entry in page
    ]
    return rows, rest


def entry_row(entry: Entry) -> dict[str, Any]:
    """Return a current record as a row with a line of text."""
    status = getattr(entry.record, "status", "") or getattr(entry.record, "op", "")
    return without_empty(
        key=entry.key, what=_record_text(entry), status=status, seq=entry.seq, turn=entry.turn
    )


def _record_text(entry: Entry) -> str:
    return record_line.of_record(entry.record).plain


_LOGS: dict[str, Callable[[RequestContext, SessionView, Arguments], Page]] = {
    "commits": _commits,
    "turns": _turns,
    "files": _files,
    "decisions": _decisions,
    "calls": _calls,
    "state": _state,
}


def _limit(given: Arguments) -> int:
    return int(given.get("limit", LIMIT))


class _Placed(Protocol):
    """Something that has a place in a log."""

    @property
    def seq(self) -> int: ...


P = TypeVar("P", bound=_Placed)


def _window(view: SessionView, given: Arguments) -> tuple[int, int, int]:
    """Return how many rows came before, and the seqs between which rows count: those at the time of the first page. To
    be asked before anything is read, since the log may grow at any time."""
    head = view.head.seq
    if place := read_cursor(given, 3):
        return place[0], min(place[1], head), place[2]
    return 0, head, _seq_before_last_turns(view, given.get("last"))


def _page(
    found: Sequence[P], given: Arguments, window: tuple[int, int, int]
) -> tuple[list[P], str | None]:
    """Return one page of what is all in memory: what is newer than the first page is left out, so that what follows
    it does not move."""
    first, upto, after = window
    limit = _limit(given)
    known = [one for one in found if after < one.seq <= upto]
    rest = cursor_text((first + limit, upto, after)) if first + limit < len(known) else None
    return known[first : first + limit], rest


# -- diff -----------------------------------------------------------------------------------------


def diff(request: RequestContext, given: Arguments) -> ToolAnswer:
    row, _ = request.find(given)
    start, end = given.get("start"), given.get("end")
    if end is not None and (start is None or ".." in start or ".." in end):
        raise BadPosition(
            "give one range as start, or two positions", path="$.end", hint="start t4, end t5"
        )
    scope = request.scope
    if end is not None and start is not None:
        places: tuple[str | None, str | None] = (
            scope.checked_position(start),
            scope.checked_position(end),
        )
    else:
        places = (scope.checked_range(start) if start is not None else None), None
    ends = points(scope.store.as_read, row.id, *places)
    if place := read_cursor(given, 3):  # as it was at the first page, however the log grew
        ends = _at_seq(ends[0], place[1]), _at_seq(ends[1], place[2])
    found = between(scope.store.as_read, *ends)
    of = ends[1].session
    owner = request.scope.store.as_read.session(of)
    items = [_change(request, owner, item) for item in found.items if item.is_listed]
    calls = [
        without_empty(
            key=request.key(owner, f"call:{c.call}"),
            call=c.call,
            tool=c.tool,
            status=c.status,
            cause=c.cause,
            seq=c.seq,
        )
        for c in found.calls
    ]
    first = place[0] if place else 0
    size = CHANGES_MAX
    for rows in (items, calls):
        page = rows[first : first + size]
        if (fits := fitting(page, ROWS_BYTES // 2)) < len(page):
            size = fits
    upto = first + size
    line = f"{len(items)} net changes in {request.label(row)} from {found.start} to {found.end}"
    data = {
        "session": row.id,
        "from": found.start,
        "to": found.end,
        "changes": _marked(request, of, items[first:upto]),
        "calls": calls[first:upto],
        "more": cursor_text((upto, ends[0].seq, ends[1].seq))
        if upto < max(len(items), len(calls))
        else None,
    }
    return ToolAnswer(line, data)


def _at_seq(end: Point, seq: int) -> Point:
    """Return an end of a diff, as it was at the first page."""
    return end if end.seq <= seq else Point(end.session, seq, f"@{seq}")


def _marked(
    request: RequestContext, session: str, rows: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Return changes, each that is still there with from where, if nobody vouches for it."""
    kept = request.marked(session, [row for row in rows if "after" in row])
    marked = iter(kept)
    return [next(marked) if "after" in row else row for row in rows]


def _record_fields(record: Record | None) -> dict[str, Any] | None:
    """Return the fields of a record that are not empty, without pointers to its contents."""
    fields = wire.record(record)
    return fields and without_empty(
        **{name: fields[name] for name in fields if name not in INCIDENTAL}
    )


def _change(request: RequestContext, row: SessionRow, item: DiffItem) -> dict[str, Any]:
    """Return a change as a row; its key is that of the record it led to."""
    known = recall_key(item.collection, item.after, item.after_id) if item.after else ""
    return without_empty(
        key=request.key(row, known or f"@{item.seq}") if item.after else "",
        collection=item.collection,
        name=item.key,
        change=item.change,
        before=_record_fields(item.before),
        after=_record_fields(item.after),
        touch=_record_fields(item.touch),
        why=item.why,
        seq=item.seq,
        turn=item.turn,
    )
