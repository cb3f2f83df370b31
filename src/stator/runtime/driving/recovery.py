"""Finds out what an interrupted run left, and which of its turns the same program runs again.

It only reads and classifies: nothing is executed here.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from stator.model.calls import program as programs
from stator.model.calls.known import Known, KnownCall
from stator.model.calls.once import TurnPart
from stator.model.calls.program import Spans
from stator.model.log.commit import Commit
from stator.model.log.query import SessionRow, TurnRow
from stator.model.window.reply import requests
from stator.runtime.base.context import Launch
from stator.runtime.base.pages import commit_at
from stator.runtime.driving import lifecycle, settlement
from stator.runtime.driving.settlement import Doubt
from stator.runtime.views import reflog
from stator.store.port import StorePort

PAGE = 200


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
    """The run before this one, as far as this one is the same program again."""

    interrupted: bool
    spans: Spans
    """Its program's turns."""
    place: int = 0
    """How many turns of the program came before this run: in a supervised start, a program may open a session
    several times."""


def last_run(
    store: StorePort,
    row: SessionRow,
    program: Spans | None = None,
    launch: Launch | None = None,
) -> LastRun:
    """How the last run of a session ended, and the turns its program had begun.

    A run that was left in order has none, unless the same supervised run (`launch`) began it: started
    again, that one must not begin what it has recorded the end of. One that began no turn keeps those
    of the run before it: opening a session only to look, or to settle a call, must not end the program
    it interrupts. `program`: the turns are these instead, up to the last there is.
    """
    if program is not None:  # a child or a rerun: its caller knows which turns are its program's
        upto = store.head(row.id).turn
        spans = [[first, min(last, upto)] for first, last in program if first <= min(last, upto)]
        return cut(store, row.id, LastRun(_began(store, row.id).how == "interrupted", spans))
    ended = RunEnding(None, "ok") if lifecycle.is_new(row.record) else _began(store, row.id)
    if ended.began is None:
        return LastRun(False, [])
    if ended.how == "ok" and launch is None:
        return LastRun(False, [])
    commit = commit_at(store, row.id, ended.began)
    said = commit.known("input") or {}
    before_us = said.get("launch") or [None]
    same = launch is not None and before_us[0] == launch.id
    if ended.how == "ok" and not same:
        return LastRun(False, [])
    before: Spans = said.get("program", [])
    own = programs.own_stretches(
        commit.turn + 1, _last_turn(store, row.id, ended), lambda n: _place(store, row.id, n)
    )
    place = 0
    if launch is not None and before_us[:2] == [launch.id, launch.start]:
        # A program that was interrupted begins again, except where the same process caught its error; after one
        # that was left in order, this is its next block, or the next program of the same start.
        follows = ended.how != "interrupted" or before_us[2:] == [launch.process]
        place = ended.places if follows else said.get("place", 0)
    interrupted = ended.how == "interrupted" or (ended.how == "idle" and bool(before))
    return cut(store, row.id, LastRun(interrupted, programs.program(before, own), place))


def _last_turn(store: StorePort, session: str, ended: RunEnding) -> int:
    """The last turn that a run began; a run without an end is the last there is."""
    if not ended.seq:
        return store.head(session).turn
    return commit_at(store, session, ended.seq, load=False).turn


def _place(store: StorePort, session: str, number: int) -> int:
    """The place of a turn among those of its program."""
    return past(store, session, number).first.attempt or 1


def cut(store: StorePort, session: str, run: LastRun) -> LastRun:
    """A run without the turns that were rewound since: those are neither continued nor replayed."""
    spans = reflog.standing_program(store, session, run.spans)
    return run if spans == run.spans else LastRun(False, spans, run.place)


class RunEnding(msgspec.Struct, frozen=True):
    """How the last run of a session ended."""

    began: int | None
    """Where it began; None: there was none, or it is not recorded."""
    how: Literal["ok", "idle", "interrupted"]
    """"idle": in order, and without beginning a turn."""
    places: int = 0
    """The place of its last turn."""
    seq: int = 0
    """Its end; 0 if that is not recorded."""


def _began(store: StorePort, session: str) -> RunEnding:
    stale = store.entries(session, "runs")
    if stale:
        return RunEnding(stale[0].seq, "interrupted")
    upto: int | None = None
    closed = ""
    limit = lifecycle.FEW  # as a rule the last commits are how the last run ended
    while True:
        page = store.commits(session, upto=upto, newest_first=True, limit=limit, load=False)
        limit = PAGE
        for commit in page:
            if commit.kind == "close":
                closed = commit.run
            if commit.kind == "run_end":
                began = commit.inputs[0] if commit.inputs else None
                whole = began if isinstance(began, int) else None
                # A driver that closed its session ended its program.
                ended = commit.attempt or closed == commit.run
                how: Literal["ok", "idle"] = "ok" if ended else "idle"
                return RunEnding(
                    whole,
                    "interrupted" if commit.status == "interrupted" else how,
                    commit.attempt,
                    commit.seq,
                )
            if commit.kind in ("open", "fork"):
                return RunEnding(None, "ok")
        if not page:
            return RunEnding(None, "ok")
        upto = page[-1].seq - 1


# -- a turn, as it was ----------------------------------------------------------------------------


def past(store: StorePort, session: str, number: int) -> TurnPart:
    """A recorded turn that a program may have reached again."""
    row = store.turns(session, after=number - 1, upto=number)[0]
    return TurnPart(row, commit_at(store, session, row.first))


def known(store: StorePort, session: str, row: TurnRow) -> Known:
    """Everything a turn recorded."""
    return Known(turn_commits(store, session, row))


def turn_end(store: StorePort, session: str, row: TurnRow) -> Commit | None:
    """The commit that ended a turn. What came after it, up to the next turn, has its number too."""
    upto, limit = row.last, lifecycle.FEW
    while upto >= row.first:
        page = store.commits(
            session, after=row.first - 1, upto=upto, newest_first=True, limit=limit, load=False
        )
        for commit in page:
            if commit.kind == "turn_end":
                return commit_at(store, session, commit.seq)
        if not page:
            break
        upto, limit = page[-1].seq - 1, PAGE
    return None


def turn_commits(store: StorePort, session: str, row: TurnRow) -> list[Commit]:
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


def report(store: StorePort, opened: SessionRow, run: LastRun) -> Recovery:
    """What the last run left, once what it left open has been recorded."""
    session = opened.id
    doubts = settlement.doubts_in(store, [opened])
    rows = store.turns(session, newest_first=True, limit=1) if run.interrupted else []
    if not rows:
        return Recovery(interrupted=run.interrupted, in_doubt=doubts)
    row = rows[0]
    commits = turn_commits(store, session, row)
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
