"""Implements the tools `stator_recall`, `stator_search` and `stator_why`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from stator.errors import BadQuery, NotFound
from stator.model.log.query import SessionRow
from stator.model.log.shown_text import cut_short
from stator.model.values.json_text import shown
from stator.model.views.search import parse
from stator.model.views.why import Reason, Why, WhyAnswer, WhyTurn
from stator.runtime.facade.view import SessionView
from stator.runtime.views.reasons.why import ask, places_in
from stator.runtime.views.search import Hit
from stator.surfaces.cli.render import wire
from stator.surfaces.mcp.keys import is_handle, seq_in, split_key
from stator.surfaces.mcp.request_context import Arguments, RequestContext, without_empty
from stator.surfaces.mcp.tools.answers import ReadyText, ToolAnswer, bounded_text, fitting, iso_time
from stator.surfaces.mcp.tools.arguments import cursor_text, read_offset
from stator.surfaces.mcp.tools.open import evicted_rows

LIMIT = 20
CONTENT_MAX = 12_000
"""Maximum number of characters of recorded content in one answer."""
LISTED_MAX = 50
"""Maximum number of evicted keys in one answer."""
REASONS_MAX = 500
"""Edits or versions that are looked at to say why."""
WORDS_MAX = 600
"""Maximum number of characters of one reason."""
FEW_WORDS = "No commit holds all of these words: the hits hold some of them, best first."


# -- recall ---------------------------------------------------------------------------------------


def recall(request: RequestContext, given: Arguments) -> ToolAnswer:
    row, view, key = request.find_by_key(given)
    first = read_offset(given)
    if not key:
        found = view.evicted()
        rows = evicted_rows(request, row, found[first : first + LISTED_MAX])
        rows = rows[: fitting(rows)]
        upto = first + len(rows)
        rest = cursor_text((upto,)) if upto < len(found) else None
        line = f"{len(found)} keys left the view of {request.label(row)}"
        return ToolAnswer(line, {"session": row.id, "evicted": rows, "more": rest})
    data, text = _content(request, row, view, key)
    upto = _page_end(text, first)
    data |= {
        "content": ReadyText(bounded_text(text[first:upto], upto - first)),
        "more": cursor_text((upto,)) if upto < len(text) else None,
    }
    (marked,) = request.marked(row.id, [data])
    return ToolAnswer(f"{data['key']}, {data['status']}", marked)


def _page_end(text: str, first: int) -> int:
    """Return where a page of a text ends: not inside of a line break, which would be shown in another way."""
    upto = min(first + CONTENT_MAX, len(text))
    return upto + 1 if text[upto - 1 : upto + 1] == "\r\n" else upto


def _content(
    request: RequestContext, row: SessionRow, view: SessionView, key: str
) -> tuple[dict[str, Any], str]:
    """Return what is known of a key, and its content as a text."""
    seq = seq_in(key)
    if seq is not None:
        commit = view.commit(f"@{seq}")
        if commit.call:
            key = f"call:{commit.call}"
        elif not commit.has("output") and not commit.has("input"):
            records = [wire.record(getattr(op, "record", None)) for op in commit.delta]
            facts = {
                "seq": seq,
                "turn": commit.turn,
                "status": "recallable",
                "source": commit.provenance.source,
                "trust": commit.provenance.trust,
            }
            text = shown([record for record in records if record] or commit.kind)
            return {"session": row.id, "key": request.key(row, f"@{seq}"), **facts}, text
        else:
            key = f"entry:@{seq}"
    try:
        item = view.recall(key)
    except NotFound as error:
        if error.hint.startswith("near"):
            raise
        hint = "call stator_recall without a key to list what left your view, or stator_log with what=state"
        raise NotFound(error.what, hint=hint, **error.ids) from None
    data = {
        "session": row.id,
        "key": request.key(row, item.key),
        "seq": item.seq,
        "turn": item.turn,
        "status": item.status,
        "source": item.source,
        "trust": item.trust,
    }
    return data, "" if item.content is None else shown(item.content)


# -- search ---------------------------------------------------------------------------------------


def search(request: RequestContext, given: Arguments) -> ToolAnswer:
    words = given["words"]
    found = _hits(request, given)
    note = ""
    if not found and len(parse(words)[0]) > 1:
        found = _hits(request, given, any_word=True)
        note = FEW_WORDS if found else ""
    sessions = dict.fromkeys(hit.session for hit in found)
    rows = [
        without_empty(
            key=request.key_in(hit.session, f"@{hit.seq}"),
            session=hit.session,
            name=hit.name,
            agent=hit.agent,
            seq=hit.seq,
            turn=hit.turn,
            kind=hit.kind,
            tool=hit.tool,
            at=iso_time(hit.at),
            snippet=hit.snippet,
        )
        for hit in found
    ]
    marked: dict[tuple[str, int], dict[str, Any]] = {}
    for session in sessions:
        own = request.marked(session, [row for row in rows if row["session"] == session])
        marked |= {(session, row["seq"]): row for row in own}
    rows = [marked[row["session"], row["seq"]] for row in rows]
    rows = rows[: fitting(rows)]
    some = " with some of the words" if note else ""
    return ToolAnswer(f"{len(rows)} hits{some}", {"words": words, "hits": rows}, note=note)


def _hits(request: RequestContext, given: Arguments, *, any_word: bool = False) -> list[Hit]:
    wanted = given.get("session")
    hits = request.scope.store.search(
        given["words"],
        project=request.scope.project,
        session=request.scope.find(wanted).id if wanted else None,
        tool=given.get("tool"),
        path=given.get("path"),
        limit=given.get("limit", LIMIT),
        any_word=any_word,
    )
    seen = request.scope.visible_sessions(hit.session for hit in hits)
    return [hit for hit in hits if hit.session in seen]


# -- why ------------------------------------------------------------------------------------------


def why(request: RequestContext, given: Arguments) -> ToolAnswer:
    asked = given["thing"]
    wanted, thing = _named_session(request, asked)
    session = (
        request.scope.find(wanted or given["session"]) if wanted or given.get("session") else None
    )
    if not thing.strip():
        raise BadQuery("say what to ask about", path="$.thing", hint="a path, a topic, a key")
    store = request.scope.store
    found = ask(
        store.as_read,
        thing,
        project=request.scope.project,
        session=session.id if session is not None else None,
        places=places_in(".", store.context.root),
        limit=REASONS_MAX,
        folder=store.context.root,
        alone=True,
    )
    rows = list(_rows(request, found))
    first = read_offset(given)
    page = rows[first : first + given.get("limit", LIMIT)]
    page = page[: fitting(page)]
    upto = first + len(page)
    data = {
        "thing": asked,
        "found": [_heading(answer) for answer in found.answers],
        "rows": page,
        "near": [{"thing": name} for name in found.near],
        "more": cursor_text((upto,)) if upto < len(rows) else None,
    }
    if not found.answers:
        near = f"; near: {', '.join(found.near)}" if found.near else ""
        note = "Nothing of this name is recorded: try stator_search with words."
        return ToolAnswer(
            f"nothing is recorded about {cut_short(asked, 200)}{near}", data, note=note
        )
    names = "; ".join(
        f"{answer.kind} {cut_short(answer.name, 200)}"
        + (f" (unverified, from {answer.unverified})" if answer.unverified else "")
        for answer in found.answers[:5]
    )
    return ToolAnswer(f"{len(rows)} reasons for {names}", data)


def _named_session(request: RequestContext, thing: str) -> tuple[str, str]:
    """Return the session that a thing names, and the thing in it. A name before a colon may also be part of a path."""
    session, key = split_key(thing)
    if session:
        return session, key
    head, colon, rest = thing.partition(":")
    if not colon or not rest or rest[0].isdecimal() or not head or is_handle(thing):
        return "", thing
    try:
        return request.scope.find(head).id, rest
    except NotFound:
        return "", thing


def _heading(answer: WhyAnswer) -> dict[str, Any]:
    return without_empty(
        kind=answer.kind,
        name=answer.name,
        matched=answer.matched,
        changes=answer.changes,
        sessions=answer.sessions,
        older_not_listed=answer.more or None,
        unverified=_from(answer.unverified),
    )


def _rows(request: RequestContext, found: Why) -> Iterator[dict[str, Any]]:
    """Return every reason as a row, newest turn first: the request, then decisions, words and calls."""
    turns = [turn for answer in found.answers for turn in answer.turns]
    seen = request.scope.visible_sessions(turn.session for turn in turns)
    for answer in found.answers:
        about = f"{answer.kind} {cut_short(answer.name, 200)}" if len(found.answers) > 1 else ""
        named = answer.unverified if about else ""
        for line in answer.lines:
            if not line.session or line.session in seen:
                yield without_empty(
                    key=request.key_in(line.session, f"@{line.seq}") if line.session else "",
                    about=about,
                    kind="line",
                    what=f"{line.line}: {cut_short(line.text, WORDS_MAX)}",
                    status=line.source,
                    unverified=_from(line.unverified or named),
                )
        for turn in answer.turns:
            if turn.session in seen:
                yield from _turn_rows(request, turn, about, turn.unverified or named)


def _turn_rows(
    request: RequestContext, turn: WhyTurn, about: str, origin: str
) -> Iterator[dict[str, Any]]:
    """Return the reasons of a turn as rows; `origin` is where what all of them name came from."""
    common = without_empty(about=about, session=turn.name, turn=turn.turn)
    if turn.asked and not any(reason.kind == "asked" for reason in turn.reasons):
        asked = cut_short(" ".join(turn.asked.split()), WORDS_MAX)
        yield without_empty(**common, kind="asked", what=asked, unverified=_from(origin))
    for reason in turn.reasons:
        yield {
            "key": request.key_in(turn.session, f"@{reason.seq}"),
            **common,
            **without_empty(
                kind=reason.kind,
                what=cut_short(_words(reason), WORDS_MAX),
                why=cut_short(reason.detail, WORDS_MAX),
                status=reason.status,
                at=iso_time(reason.at),
                unverified=_origin(reason) or _from(origin),
            ),
        }


def _words(reason: Reason) -> str:
    """Return a reason in words."""
    topic = f"{reason.topic}: " if reason.topic and reason.kind != "dead_end" else ""
    over = f", over {', '.join(reason.over)}" if reason.over else ""
    by = f" (by the {reason.by})" if reason.by else ""
    path = f"{reason.path} " if reason.kind in ("edit", "read") and reason.path else ""
    return f"{path}{topic}{' '.join(reason.text.split())}{over}{by}"


def _from(origin: str) -> str:
    return f"from {origin}" if origin else ""


def _origin(reason: Reason) -> str:
    """Return from where a reason comes that nobody vouches for; empty if nothing speaks against it."""
    if reason.unverified:
        return _from(reason.unverified)
    if reason.trust not in ("unverified", "unknown"):
        return ""
    sources = dict.fromkeys(
        ground.source or ground.kind for ground in reason.grounds if ground.trust == "unverified"
    )
    return f"from {', '.join(sources)}" if sources else reason.trust
