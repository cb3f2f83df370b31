"""Answers waiting calls: turns the options of `approve` and `deny` into grants."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from stator.errors import BadQuery
from stator.model.calls.approval import Scope, Verdict
from stator.model.values.ids import short
from stator.runtime.driving import approvals, policy
from stator.runtime.driving.approvals import Grant
from stator.runtime.driving.proofs import Recognised
from stator.surfaces.cli.parts.open_store import OpenedStore
from stator.surfaces.cli.parts.person import Person
from stator.surfaces.cli.render.lines import Line
from stator.surfaces.cli.render.screen import Screen
from stator.surfaces.cli.render.times import parse_until
from stator.surfaces.cli.render.waiting_calls import grant_as_json, grant_line


class ApprovalAnswer:
    """An approval or a denial by the current user: its scope, its expiry and the reason."""

    def __init__(
        self,
        opened: OpenedStore,
        session: str | None,
        scope: str | None,
        pattern: str | None,
        expires: str | None,
        *,
        verdict: Verdict,
        why: str = "",
        person: Person | None = None,
    ) -> None:
        self._ask, self._session = opened, session
        self._scope = cast("Scope", scope or ("session" if pattern else "once"))
        self._pattern, self._verdict, self._why = pattern, verdict, why
        self._person = person or Person()
        self._until = parse_until(expires, opened.now) if expires is not None else 0

    def apply(self, calls: Sequence[str]) -> list[Grant]:
        """Answer these calls; without any, answer every call that matches the pattern."""
        store = self._ask.store
        demand = policy.demand_of(store.port, store.context, calls)
        if calls:
            how = self._recognise(demand)
            return [self._answer_call(call, how) for call in calls]
        if self._pattern is None:
            raise self._nameless()
        return [
            approvals.grant(
                store.port, store.context, self._ask.session(self._session).id, self._pattern,
                by=store.context.principal, verdict=self._verdict, scope=self._scope,
                expires=self._until, why=self._why, how=self._recognise(demand), demand=demand,
            )
        ]  # fmt: skip

    def _nameless(self) -> BadQuery:
        """The error of an answer to no call: with the command for the one that waits longest."""
        store, ask = self._ask.store, self._ask
        one = ask.session(self._session).id if self._session is not None else None
        found = approvals.waiting(
            store.port, now=ask.now, session=one, project=None if one else ask.project,
            context=store.context,
        )  # fmt: skip
        if not found:
            return BadQuery(
                "name a call or a --pattern",
                hint="no call waits: stator approvals lists those that do",
            )
        first, command = found[0], "approve" if self._verdict == "approved" else "deny"
        others = f"; stator approvals lists all {len(found)}" if len(found) > 1 else ""
        return BadQuery(
            f"name the call: {first.tool} in {first.name} waits",
            hint=f"stator {command} {short(first.call)}{others}",
        )

    def _recognise(self, demand: str) -> Recognised:
        """How the person is recognised. A denial always counts, so it is not made harder."""
        store = self._ask.store
        wanted = demand if self._verdict == "approved" else ""
        return self._person.recognise(wanted, lambda: store.context.below(store.port))

    def _answer_call(self, call: str, how: Recognised) -> Grant:
        store = self._ask.store
        return approvals.answer(
            store.port, store.context, call, self._verdict,
            by=store.context.principal, scope=self._scope, pattern=self._pattern or "",
            expires=self._until, why=self._why, how=how,
        )  # fmt: skip


def show_grant(screen: Screen, grant: Grant) -> None:
    """Show a grant and the commit that records it."""
    if screen.json:
        screen.item(grant_as_json(grant))
    else:
        line = grant_line(grant).add(" ").add(short(grant.session), "id")
        screen.line(line.add(f" @{grant.seq}", "id"))
        if grant.record.verdict == "approved" and grant.record.call:
            screen.line(Line("  the call runs now, or when its session is driven next", "dim"))
