"""Reads what the last sessions were asked, did, and how they ended. Sub-agents count with their parents."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from stator.errors import NotFound
from stator.model.exchange.tool_files import command_of
from stator.model.log.commit import Commit
from stator.model.log.query import Read, SessionQuery, SessionRow, TurnRow, check_limit, read
from stator.model.log.shown_text import cut_short
from stator.model.records.tables import SPOKEN
from stator.model.records.types import (
    CallRecord,
    ChildRecord,
    DecisionRecord,
    Entry,
    PlanRecord,
    RevisionRecord,
)
from stator.model.sessions.lifecycle import lent_upto
from stator.model.values.ids import short
from stator.model.views.recap import (
    TEXT_MAX,
    RanTests,
    SessionRecap,
    asked_in,
    asked_last,
    ran_tests,
    says_something,
)
from stator.model.views.why import words_of
from stator.runtime.base.one_answer import ahead
from stator.runtime.base.pages import commit_at, commits_at, counts_of, matching
from stator.runtime.base.project_flags import Trash
from stator.runtime.views.as_read import for_one_answer, read_ahead, to_settle, unplaced_in
from stator.runtime.views.file_changes import (
    FileChange,
    asks_changed_lately,
    changed_lately,
    is_long,
)
from stator.runtime.views.glance.calls import unanswered
from stator.runtime.views.last_acts import acted, asks_last_act, by_last_act
from stator.runtime.views.reasons.doubt_story import settled_in
from stator.runtime.views.reflog import turn_at
from stator.runtime.views.refs import find_session
from stator.store.port import StorePort

LIMIT = 10
PROMPTS = 6
"""Turns, from the first, whose prompts are looked at for what a session is about."""
LAST_TURNS: dict[str, Any] = {"newest_first": True, "limit": PROMPTS, "prompts": True}
"""The turns, the newest first, among whose prompts that is looked for which was asked last."""
NEWEST = 60
"""Commits at the end of a log in which the agent's last words and the last tests are looked for."""
SPEAKERS = ("model", "agent")
CHILDREN_MAX = 50
"""Sub-agents of a session whose files and calls are counted."""
NAMED = 3
"""The newest decisions, and subjects of revisions, that a recap names."""


def recap(
    store: StorePort,
    *,
    project: str | None = None,
    sessions: Sequence[str] = (),
    since: int = 0,
    limit: int = LIMIT,
) -> list[SessionRecap]:
    """The sessions that are named, else those used last, the newest first."""
    check_limit(limit)
    store = for_one_answer(store)
    found: list[SessionRecap] = []
    for row in _named(store, sessions, project) if sessions else _rows(store, project):
        if since and (not row.has_times or row.used < since):
            break
        found.append(_recap(store, row))
        if len(found) >= limit and not sessions:
            break
    return sorted(found, key=lambda one: (one.times_known, one.at), reverse=True)


def _named(store: StorePort, names: Sequence[str], project: str | None) -> Iterator[SessionRow]:
    rows = [find_session(store, name, project=project) for name in names]
    return iter(rows)


def _rows(store: StorePort, project: str | None) -> Iterator[SessionRow]:
    """Sessions that people worked in: not a project's own, not in the trash, not replaced by another, and not a
    sub-agent's whose parent is here."""
    trash = Trash(store)
    for row in by_last_act(store, matching(store, SessionQuery(project=project))):
        record = row.record
        if record.mode == "project" or record.adopted or row in trash:
            continue
        parent = record.parent
        if parent is not None and parent.kind == "child" and _is_here(store, parent.session):
            continue
        yield row


def _is_here(store: StorePort, session: str) -> bool:
    try:
        store.session(session)
    except NotFound:
        return False
    return True


def _recap(store: StorePort, row: SessionRow) -> SessionRecap:
    session = row.id
    store = for_one_answer(store)
    asked_for = ("plan", "revisions", "calls", "tags", "children", "decisions")
    also = [*asks_changed_lately(row), *_asks_log(row), asks_last_act(row.id)]
    most = {"children": CHILDREN_MAX, "decisions": NAMED}
    read_ahead(store, session, *asked_for, limit=most, also=also)
    (row,) = acted(store, [row])
    first = asked_in(_prompts(store, row), row.record.name)
    turns = store.turns(session, **LAST_TURNS)
    last_turn, last_asked = asked_last(_words_of_turns(turns), first)
    steps = [e.record for e in store.entries(session, "plan") if isinstance(e.record, PlanRecord)]
    states: list[str] = [step.status for step in steps if step.status != "dropped"]
    revisions = store.entries(session, "revisions")
    records = [e.record for e in revisions if isinstance(e.record, RevisionRecord)]
    children = _children(store, session)
    changed, edited = changed_lately(store, row)
    of_children = [changed_lately(store, child) for child in children]
    below = [change for changes, _ in of_children for change in changes]
    page = store.commits(
        session, after=lent_upto(row.record.lineage), newest_first=True, limit=NEWEST
    )
    answers = [c for c in page if c.kind == "entry" and _speaks(c)]
    in_words = (c for c in answers if any(char.isalnum() for char in words_of(c)))
    words = next(in_words, answers[0] if answers else None)
    calls = [e.record for e in store.entries(session, "calls") if isinstance(e.record, CallRecord)]
    asked_about = to_settle(store, session)
    return SessionRecap(
        session=session,
        name=row.record.name,
        agent=row.record.agent,
        project=row.record.project,
        at=row.used,
        times_known=row.has_times,
        status=row.shown,
        turns=row.turns,
        asked=first[1],
        asked_turn=first[0],
        asked_last=last_asked,
        asked_last_turn=last_turn,
        retry_of=_retried(store, row),
        steps_done=states.count("done"),
        steps_claimed=sum(status == "claimed" for status in states),
        steps_open=sum(status not in ("done", "claimed") for status in states),
        files=len({(change.root, change.path) for change in [*changed, *below]}),
        files_least=any(map(is_long, (row, *children))),
        edited=edited or any(any_edit for _, any_edit in of_children),
        files_since=_since(changed, revisions),
        revisions=[record.sha for record in records],
        pushed=bool(records and records[0].pushed),
        subjects=[cut_short(one.subject, TEXT_MAX) for one in records[:NAMED] if one.subject],
        decided=[
            cut_short(f"{one.topic}: {one.what}" if one.topic else one.what, TEXT_MAX)
            for entry in store.entries(session, "decisions", limit=NAMED)
            if isinstance(one := entry.record, DecisionRecord)
        ],
        calls=sum(counts_of(store, each.id).calls for each in (row, *children)),
        agents=len(children),
        tests=_tests(page),
        said="" if words is None else cut_short(words_of(words).strip(), TEXT_MAX),
        said_seq=0 if words is None else words.seq,
        said_turn=0 if words is None else words.turn,
        in_doubt=[_call(record) for record in asked_about],
        old_doubts=len([r for r in calls if r.status == "in doubt" and not r.elsewhere])
        - len(asked_about),
        settled=settled_in(store, session, page, turns[0].first if turns else 0),
        waiting=[_call(record) for record in unanswered(store, row, calls)],
        last_turn=turns[0].status if turns else "",
        mid_turn=bool(turns and not turns[0].status) and _stops_midway(page),
        unplaced=len(unplaced_in(store, session)) if row.record.status == "active" else 0,
    )


def _asks_log(row: SessionRow) -> Iterator[Read]:
    """What is read of every session that a recap is about."""
    lent = lent_upto(row.record.lineage)
    yield read("session", row.id, counted=True)
    yield read("commits", row.id, after=lent, newest_first=True, limit=NEWEST)
    yield read("turns", row.id, **LAST_TURNS)
    if (parent := row.record.parent) is not None and parent.kind == "retry":
        yield read("session", parent.session)
    if not lent:
        yield read("turns", row.id, limit=PROMPTS, prompts=True)


def _call(record: CallRecord) -> str:
    return f"{record.tool} {short(record.call)}"


def _prompts(store: StorePort, row: SessionRow) -> list[tuple[int, str]]:
    """The first prompts of a session, up to one that says something; of a fork, its own if it has any."""
    found: list[tuple[int, str]] = []
    lent = lent_upto(row.record.lineage)
    rows = store.turns(row.id, newest_first=True, limit=row.turns or 1) if lent else []
    own = [turn for turn in reversed(rows) if turn.first > lent][:PROMPTS]
    if own:
        commits_at(store, row.id, [turn.first for turn in own])
    for turn in own or store.turns(row.id, limit=PROMPTS, prompts=True):
        prompt = words_of(turn.began or commit_at(store, row.id, turn.first), "input")
        found.append((turn.turn, prompt))
        if says_something(prompt):
            break
    return found


def _words_of_turns(turns: Iterable[TurnRow]) -> Iterator[tuple[int, str]]:
    return ((turn.turn, words_of(turn.began, "input")) for turn in turns if turn.began is not None)


def _retried(store: StorePort, row: SessionRow) -> str:
    """The turn that a retry tries again; empty of other sessions."""
    parent = row.record.parent
    if parent is None or parent.kind != "retry":
        return ""
    try:
        name = store.session(parent.session).record.name
    except NotFound:  # the original is gone
        name = short(parent.session)
    return f"t{turn_at(store, row.id, parent.seq) + 1} of {name}"


def _children(store: StorePort, session: str) -> list[SessionRow]:
    """The sub-agents of a session, as far as they are here."""
    entries = store.entries(session, "children", limit=CHILDREN_MAX)
    records = (entry.record for entry in entries)
    ids = [r.session for r in records if isinstance(r, ChildRecord) and r.kind == "child"]
    ahead(store, *(read("session", each, counted=True) for each in ids))
    found: list[SessionRow] = []
    for each in ids:
        with contextlib.suppress(NotFound):
            found.append(store.session(each))
    ahead(store, *(one for row in found for one in asks_changed_lately(row)))
    return found


def _since(changed: Sequence[FileChange], revisions: Sequence[Entry]) -> int:
    last = max((entry.seq for entry in revisions), default=0)
    return sum(change.seq > last for change in changed) if last else 0


def _speaks(commit: Commit) -> bool:
    return commit.actor in SPEAKERS and bool(words_of(commit))


def _stops_midway(page: Sequence[Commit]) -> bool:
    """Whether the newest commit of the conversation asks for something that did not come any more."""
    last = next((commit for commit in page if commit.kind in SPOKEN), None)
    return last is not None and not (last.kind == "entry" and _speaks(last))


def _tests(page: Sequence[Commit]) -> RanTests | None:
    """The last run of tests, if it is near the end."""
    ended = {c.call: c for c in page if c.kind in ("outcome", "settlement")}
    for commit in page:
        if commit.kind != "call":
            continue
        outcome = ended.get(commit.call)
        output = None if outcome is None else outcome.known("output")
        status = "" if outcome is None else outcome.status
        found = ran_tests(command_of(commit.known("input")), commit.seq, status, output)
        if found is not None:
            return found
    return None
