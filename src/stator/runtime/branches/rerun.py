"""Runs recorded tool calls again, with the recorded arguments and today's tools.

It happens in a session of its own, a retry that branches off where the first of the turns began, so that
nothing is written to the source. Writes wait for a person's yes unless the caller lets them run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import msgspec

from stator.errors import ApprovalNeeded, BadType, InvalidInput
from stator.model.calls.approval import Rule
from stator.model.calls.expectations import alike, as_seen, unified
from stator.model.calls.known import Known, KnownCall, is_redacted
from stator.model.calls.known_children import MANY
from stator.model.calls.life import Outcome
from stator.model.log.commit import CONTINUED, Commit, Gone
from stator.model.log.query import SessionQuery, SessionRow
from stator.model.sessions.lifecycle import check_name
from stator.model.values import canon
from stator.model.values.position import turn_numbers
from stator.runtime.base.context import Context
from stator.runtime.branches import fork
from stator.runtime.branches.open_driver import drive
from stator.runtime.branches.retry import labels_of
from stator.runtime.driving import policy
from stator.runtime.driving.call import entered
from stator.runtime.driving.loop import by_name
from stator.runtime.driving.open_turn import OpenTurn
from stator.runtime.driving.policy import Terms
from stator.runtime.driving.tools import declare
from stator.runtime.views.refs import Point
from stator.runtime.views.session import SessionReader
from stator.store.port import StorePort

Effects = Literal["ask", "run"]
Verdict = Literal["same", "other value", "other status", "not compared", "not run"]
Toolbox = Callable[..., Any] | dict[str, Callable[..., Any]]
"""A function of name and arguments, or tools by name."""
Tools = Toolbox | Mapping[str, Callable[..., Any]] | Sequence[Callable[..., Any]]
"""The same, or a list of tools."""
NAMES_MAX = 1000
NEVER_RAN = ("denied", "awaiting approval", "requested")


class Again(msgspec.Struct, frozen=True, kw_only=True):
    """A call, as it ended then and as it ends now."""

    tool: str
    arguments: Any
    turn: int
    seq: int
    """Of the recorded call."""
    verdict: Verdict
    before: str
    """Its status then."""
    after: str = ""
    call: str = ""
    """The call that was made now."""
    why: str = ""
    diff: str = ""


class Rerun(msgspec.Struct, frozen=True, kw_only=True):
    """The results of a rerun, call by call."""

    source: str
    session: str
    """The session it happened in."""
    name: str
    calls: list[Again] = []
    waiting: str = ""
    """The call that waits for a person's word; what comes after it was not run yet."""

    @property
    def same(self) -> bool:
        """Whether every call was made again and ended as it had."""
        return all(call.verdict == "same" for call in self.calls)

    def counts(self) -> dict[str, int]:
        """How many calls have each verdict."""
        found: dict[str, int] = {}
        for call in self.calls:
            found[call.verdict] = found.get(call.verdict, 0) + 1
        return found


class Chain(msgspec.Struct, frozen=True):
    """A recorded turn, and the calls its program made in it."""

    begun: Commit
    calls: list[tuple[Commit, KnownCall]]


def chains(reader: SessionReader, turns: str | None) -> list[Chain]:
    """The calls of some turns, in order; without those that tools made while they ran, and without turns
    that were rewound, unless it is one that is asked for."""
    left, head = reader.rewound(), reader.head
    first, last = turn_numbers(turns, head.turn, left)
    rows = {row.turn: row for row in reader.turns()}
    found: list[Chain] = []
    for number in range(first, last + 1):
        if number in left and first != last:
            continue
        # What is recorded after a turn and before the next has its number, such as settlements.
        end = rows[number + 1].first - 1 if number + 1 in rows else head.seq
        span = f"@{rows[number].first - 1}..@{end}"
        commits = [commit for commit in reader.log(span) if commit.turn == number]
        seen = list(as_seen(commits))
        by_seq = {commit.seq: commit for commit in seen}
        calls = [(by_seq[call.seq], call) for call in Known(seen).calls]
        begun = next(c for c in commits if c.kind == "turn" and c.status != CONTINUED)
        found.append(Chain(begun, calls))
    return found


def rewound(reader: SessionReader, turns: str | None) -> set[int]:
    """Which of some turns were rewound."""
    left = reader.rewound()
    first, last = turn_numbers(turns, reader.head.turn, left)
    return {turn for turn in left if first <= turn <= last}


def toolbox(tools: Tools) -> Toolbox:
    """Tools as they are dispatched to: by name, or by a function of name and arguments."""
    if not isinstance(tools, (Mapping, Sequence)):
        if not callable(tools):
            raise BadType(
                f"not tools: {type(tools).__name__}", hint="tools by name, or a list of them"
            )
        return tools
    found: dict[str, Any] = (
        dict(tools) if isinstance(tools, Mapping) else {declare(tool).name: tool for tool in tools}
    )
    wrong = [name for name, tool in found.items() if not callable(tool)]
    if wrong:
        raise BadType(f"the tool {wrong[0]!r:.60} cannot be called", hint="tools by name")
    return found


def terms(context: Context, effects: Effects, why: str, driver: Terms | None = None) -> Terms:
    """The terms on which calls are run again: writes ask, also where a rule allows them.

    `driver`: the terms of the driver of the session they are from; what those deny is denied here.
    """
    if effects not in ("ask", "run"):
        raise InvalidInput(f"unknown effects {effects!r:.40}", hint="ask or run", path="$.effects")
    if driver is None:
        driver = Terms(
            rules=policy.rules(context),
            prices=policy.prices(context),
            proof=policy.proof(context),
            sources=policy.sources(context),
        )
    rules = driver.rules
    if effects == "ask":
        # What is denied, and what needs a proof, needs it here too: the general question demands neither.
        stricter = [rule for rule in rules if rule.action == "deny" or rule.proof]
        rules = [*stricter, Rule(effect="write", action="ask", why=why), *rules]
    return Terms(rules=rules, prices=driver.prices, proof=driver.proof, sources=driver.sources)


def rerun(
    store: StorePort,
    context: Context,
    session: str,
    tools: Tools,
    span: str | None = None,
    *,
    effects: Effects = "ask",
    name: str = "",
    driver: Terms | None = None,
) -> Rerun:
    """Run the calls of a session again, or of some of its turns, and show which results changed.

    Where a write waits for a person, the rest is not run; once it is approved, the same rerun continues.
    """
    hands = toolbox(tools)
    held = terms(context, effects, "a rerun makes it again", driver)
    found = chains(SessionReader(store, session), span)
    if not found:
        raise InvalidInput("there is no turn to rerun", session=session)
    start = found[0].begun.seq - 1
    row = _branch(store, context, session, start, name, effects)
    made: list[Again] = []
    waiting = ""
    try:
        program = [[found[0].begun.turn, MANY]]  # the turns before are not this program's
        with drive(store, context, row.record, held, program=program) as branch:
            for chain in found:
                with entered(OpenTurn(branch, chain.begun.known("input"))) as turn:
                    for begun, call in chain.calls:
                        made.append(_again(turn, begun, call, hands))
    except ApprovalNeeded as needed:
        waiting = str(needed.ids.get("call", ""))
    rest = [pair for chain in found for pair in chain.calls][len(made) :]
    whys = ["waits for approval", *["a call before it waits for approval"] * len(rest)]
    made += [_not_run(*pair, why) for pair, why in zip(rest, whys, strict=False)]
    return Rerun(source=session, session=row.id, name=row.record.name, calls=made, waiting=waiting)


def _branch(
    store: StorePort, context: Context, source: str, start: int, name: str, effects: Effects
) -> SessionRow:
    """The session to rerun in: one that waits for approval is continued, else it is a new one."""
    record = store.session(source).record
    point, labels = Point(source, start, ""), labels_of(record, effects)
    base = check_name(name) if name else f"{record.name}~rerun"
    for n in range(1, NAMES_MAX):
        wanted = base if n == 1 else f"{base}{n}"
        query = SessionQuery(name=wanted, project=record.project, tenant=record.tenant)
        rows = store.sessions(query, limit=1).rows
        if not rows:
            return fork.fork(store, context, point, name=wanted, kind="retry", labels=labels)
        parent = rows[0].record.parent
        ours = parent is not None and (parent.session, parent.seq) == (source, start)
        if ours and rows[0].record.reason == "approval" and effects == "ask":
            return rows[0]
        if name:
            raise InvalidInput(
                f"there is a session {name!r:.80}, and it is not an unfinished rerun", path="$.name"
            )
    raise InvalidInput(
        f"there are already {NAMES_MAX} reruns of {record.name!r:.80}", hint="name it"
    )


def _again(turn: OpenTurn, begun: Commit, call: KnownCall, tools: Toolbox) -> Again:
    why = _why_not(begun, call, tools)
    if why:
        return _not_run(begun, call, why)
    outcome = by_name(turn, call.tool, call.given, tools, None).drive()
    return _compared(begun, call, outcome)


def _why_not(begun: Commit, call: KnownCall, tools: Toolbox) -> str:
    if isinstance(begun.content.get("input"), Gone):
        return "its arguments were erased"
    if is_redacted(begun, "input"):
        return "its arguments held a secret, which is not on record"
    if not isinstance(call.given, dict):
        return "its arguments have no names"
    if call.status in NEVER_RAN:
        return f"it did not run then either ({call.status})"
    if isinstance(tools, dict) and call.tool not in tools:
        return "there is no tool of that name"
    return ""


def _not_run(begun: Commit, call: KnownCall, why: str) -> Again:
    return _made(begun, call, verdict="not run", why=why)


def _made(begun: Commit, known: KnownCall, /, **fields: Any) -> Again:
    return Again(
        tool=known.tool,
        arguments=known.given,
        turn=begun.turn,
        seq=begun.seq,
        before=known.status,
        **fields,
    )


def _compared(begun: Commit, call: KnownCall, outcome: Outcome) -> Again:
    ending = call.ending
    fields: dict[str, Any] = {"after": outcome.status, "call": outcome.call}
    if outcome.status != call.status:
        return _made(begun, call, verdict="other status", why=outcome.error, **fields)
    if ending is not None and isinstance(ending.content.get("output"), Gone):
        return _made(begun, call, verdict="not compared", why="the result was erased", **fields)
    old: Any = call.outcome().error
    new: Any = outcome.error
    if outcome.ok:
        old, new = (None if ending is None else ending.known("output")), outcome.value
    if canon.dumps(old) == canon.dumps(new) or (call.redacted and alike(old, new)):
        return _made(begun, call, verdict="same", **fields)
    return _made(begun, call, verdict="other value", diff=unified(old, new), **fields)
