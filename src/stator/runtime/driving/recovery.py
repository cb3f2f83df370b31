"""Finds out what an interrupted run left, and which of its turns the same program runs again.

It only reads and classifies: nothing is executed here.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from stator.model.calls import known as replay
from stator.model.calls.known import Known, KnownCall, Scrub
from stator.model.log.commit import Commit
from stator.model.log.query import SessionRow, TurnRow
from stator.model.window.reply import requests
from stator.runtime.base.pages import commit_at
from stator.runtime.driving import settlement
from stator.runtime.driving.settlement import Doubt
from stator.runtime.views import reflog
from stator.store.port import StorePort

PAGE = 200
FEW = 8


class Unfinished(msgspec.Struct, frozen=True, kw_only=True):
    """A call of which something is still to be known or done, or that ended just before."""

    call: str
    tool: str
    effect: str
    arguments: Any
    input_hash: str
    at: int
    attempt: int
    turn: int
    seq: int
    status: str
    cause: str


class Unstarted(msgspec.Struct, frozen=True, kw_only=True):
    """Something the model asked for that was never begun."""

    tool: str
    arguments: Any
    turn: int


class Recovery(msgspec.Struct, frozen=True, kw_only=True):
    """What `open` found: how the last run ended, and what became of the calls of its last turn."""

    interrupted: bool = False
    """Whether the last run ended in the middle: running the same program again continues it."""
    turn: int = 0
    prompt: Any = None
    cause: str = ""
    never_started: list[Unstarted] = []
    settled: list[Unfinished] = []
    """Calls whose outcome is known; they will not run again."""
    cancelled: list[Unfinished] = []
    """Reads and repeatable calls without an outcome; they may run again."""
    awaiting: list[Unfinished] = []
    """Calls that wait for a person's yes."""
    in_doubt: list[Doubt] = []
    """Writes that may or may not have happened, of this turn or an earlier one."""


class LastRun(msgspec.Struct, frozen=True):
    """The run before this one."""

    interrupted: bool
    spans: list[list[int]]
    """Its program's turns."""


def last_run(store: StorePort, row: SessionRow, program: list[list[int]] | None = None) -> LastRun:
    """How the last run of a session ended, and the turns its program had begun.

    A run that was left in order has none. One that began no turn keeps those of the run before it:
    opening a session only to look, or to settle a call, must not end the program it interrupts.
    `program`: the turns are these instead, up to the last there is.
    """
    if program is not None:  # a child or a rerun: its caller knows which turns are its program's
        upto = store.head(row.id).turn
        spans = [[first, min(last, upto)] for first, last in program if first <= min(last, upto)]
        return cut(store, row.id, LastRun(_began(store, row.id)[1] == "interrupted", spans))
    began, ended = _began(store, row.id)
    if began is None or ended == "ok":
        return LastRun(False, [])
    commit = commit_at(store, row.id, began)
    interrupted = ended == "interrupted" or commit.has("input")
    spans = []
    if commit.has("input"):
        spans = commit.value("input")["program"]
    begun, upto = commit.turn + 1, store.head(row.id).turn
    place = 1
    if upto >= begun:
        turn = store.turns(row.id, after=begun - 1, upto=begun)[0]
        place = commit_at(store, row.id, turn.first).attempt or 1
    return cut(store, row.id, LastRun(interrupted, replay.program(spans, begun, upto, place)))


def cut(store: StorePort, session: str, run: LastRun) -> LastRun:
    """A run without the turns that were rewound since: those are neither continued nor replayed."""
    spans = reflog.standing_program(store, session, run.spans)
    return run if spans == run.spans else LastRun(False, spans)


def _began(
    store: StorePort, session: str
) -> tuple[int | None, Literal["ok", "idle", "interrupted"]]:
    """Where the last run began (None: there was none, or it is not recorded), and how it ended; "idle":
    in order, and without coming to a turn."""
    stale = store.entries(session, "runs")
    if stale:
        return stale[0].seq, "interrupted"
    upto: int | None = None
    closed = ""
    limit = FEW  # as a rule the last commits are how the last run ended
    while True:
        page = store.commits(session, upto=upto, newest_first=True, limit=limit, load=False)
        limit = PAGE
        for commit in page:
            if commit.kind == "close":
                closed = commit.run
            if commit.kind == "run_end":
                began = commit.inputs[0] if commit.inputs else None
                whole = began if isinstance(began, int) else None
                if commit.status == "interrupted":
                    return whole, "interrupted"
                # A driver that closed its session ended its program.
                return whole, "ok" if commit.attempt or closed == commit.run else "idle"
            if commit.kind in ("open", "fork"):
                return None, "ok"
        if not page:
            return None, "ok"
        upto = page[-1].seq - 1


# -- a turn, as it was ----------------------------------------------------------------------------


class Past(msgspec.Struct):
    """A recorded turn that a program has reached again."""

    row: TurnRow
    first: Commit

    def asked(self, prompt: Any, scrub: Scrub) -> bool:
        """Whether it began with this prompt."""
        return replay.same_value(self.first, "input", prompt, scrub)

    def keyed(self, key: str) -> bool:
        return bool(key) and self.first.known("key") == key


def keyed(store: StorePort, session: str, spans: list[list[int]], key: str) -> Past | None:
    """The turn of a program that was begun under a key, newest first."""
    for first, last in reversed(spans):
        for number in range(last, first - 1, -1):
            found = past(store, session, number)
            if found.keyed(key):
                return found
    return None


def past(store: StorePort, session: str, number: int) -> Past:
    row = store.turns(session, after=number - 1, upto=number)[0]
    return Past(row, commit_at(store, session, row.first))


def known(store: StorePort, session: str, row: TurnRow) -> Known:
    """Everything a turn recorded."""
    return Known(_turn_commits(store, session, row))


def _turn_commits(store: StorePort, session: str, row: TurnRow) -> list[Commit]:
    found: list[Commit] = []
    upto = store.head(session).seq
    after = row.first
    while page := store.commits(session, after=after, upto=upto, limit=PAGE):
        found += [commit for commit in page if commit.turn == row.turn]
        if page[-1].turn > row.turn:
            break
        after = page[-1].seq
    return found


# -- the report -----------------------------------------------------------------------------------


def report(store: StorePort, session: str, run: LastRun) -> Recovery:
    """What the last run left, once what it left open has been recorded."""
    doubts = settlement.doubts(store, session=session)
    rows = store.turns(session, newest_first=True, limit=1)
    if not run.interrupted or not rows:
        return Recovery(interrupted=run.interrupted, in_doubt=doubts)
    row = rows[0]
    commits = _turn_commits(store, session, row)
    begun = past(store, session, row.turn)
    calls = [_unfinished(call) for call in Known(commits).calls]
    ends = [commit for commit in commits if commit.kind == "turn_end"]
    return Recovery(
        interrupted=True,
        turn=row.turn,
        prompt=begun.first.known("input"),
        cause=ends[-1].cause if ends else "",
        never_started=_never_started(commits),
        settled=[call for call in calls if call.status in ("ok", "error", "timeout", "denied")],
        cancelled=[call for call in calls if call.status == "cancelled"],
        awaiting=[call for call in calls if call.status == "awaiting approval"],
        in_doubt=doubts,
    )


def _unfinished(call: KnownCall) -> Unfinished:
    return Unfinished(
        call=call.call,
        tool=call.tool,
        effect=call.effect,
        arguments=call.given,
        input_hash=call.input_hash,
        at=call.at,
        attempt=call.attempt,
        turn=call.turn,
        seq=call.seq,
        status=call.status,
        cause=call.cause,
    )


def _never_started(commits: list[Commit]) -> list[Unstarted]:
    """What the model asked for last and no call began."""
    entries = [c for c in commits if c.kind == "entry" and c.actor == "model" and not c.status]
    if not entries:
        return []
    entry = entries[-1]
    begun = {
        commit.origin[1].split("/", 2)[1]
        for commit in commits
        if commit.kind == "call" and commit.origin and commit.origin[1].startswith(f"{entry.seq}/")
    }
    return [
        Unstarted(tool=request.name, arguments=request.arguments, turn=entry.turn)
        for request in requests(entry.known("output"))
        if str(request.index) not in begun
    ]
