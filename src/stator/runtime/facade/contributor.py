"""Adds to a session, or steers it, without driving it."""

from __future__ import annotations

import functools
from typing import Any

from msgspec import UNSET

from stator.model.calls.approval import Scope
from stator.model.calls.budget import parse_amounts
from stator.model.log.commit import Draft
from stator.model.records.tables import DERIVED
from stator.model.values.ids import is_id
from stator.runtime.base.arguments import text
from stator.runtime.base.context import Context
from stator.runtime.branches import retry
from stator.runtime.branches import rewind as rewinding
from stator.runtime.branches.retry import Adopted
from stator.runtime.branches.rewind import Rewound
from stator.runtime.driving import (
    approvals,
    budgets,
    lifecycle,
    settlement,
)
from stator.runtime.driving.approvals import Grant
from stator.runtime.driving.lifecycle import Moved
from stator.runtime.driving.settlement import Settled, Verdict
from stator.runtime.driving.writer import OutsideWriter
from stator.runtime.facade import vouch as vouches
from stator.runtime.facade.annotations import Marker
from stator.runtime.views.refs import intent_of
from stator.store.port import StorePort


class Contributor(Marker):
    """Adds to a session without driving it: only kinds of commits that need no lease. For a person, or a
    program that acts for one; every commit carries their principal.
    """

    def __init__(self, store: StorePort, session: str, context: Context, principal: str) -> None:
        self.context = context
        self._store = store
        self._id = session
        self._principal = principal
        self._root = context.root
        self._writer = OutsideWriter(store, session, context, principal)

    def _draft(self, kind: str, **fields: Any) -> Draft:
        if kind in DERIVED and "inputs" not in fields and self._inside:
            fields["inputs"] = (self._inside,)
        return self._writer.draft(kind, **fields)

    @functools.cached_property
    def _inside(self) -> str:
        """The call of this session that the process was started in. What a person adds was made from nothing here,
        unless they say so."""
        call = self.context.call
        known = is_id(call, "call") and intent_of(self._store, self._id, call) is not None
        return call if known else ""

    def _submit(self, draft: Draft) -> str:
        return self._writer.append([draft])[0].id

    # -- its lifecycle ----------------------------------------------------------------------------

    def pause(self, reason: str = "user") -> Moved:
        """Pause the session; if it is driven, ask its driver to stop at its next call."""
        return lifecycle.pause(
            self._store, self.context, self._id, reason=reason, by=self._principal
        )

    def resume(self, reason: str = "user") -> Moved:
        """Reopen a closed session, so that it can be driven again."""
        return lifecycle.resume(
            self._store, self.context, self._id, reason=reason, by=self._principal
        )

    def close(self, reason: str = "done") -> Moved:
        """Close the session: it accepts no more turns until it is resumed."""
        return lifecycle.close(
            self._store, self.context, self._id, reason=reason, by=self._principal
        )

    def archive(self, reason: str = "done") -> Moved:
        """Archive a closed session: it can be read and forked, and never driven again."""
        return lifecycle.archive(
            self._store, self.context, self._id, reason=reason, by=self._principal
        )

    # -- its branches -----------------------------------------------------------------------------

    def rewind(self, to: str) -> Rewound:
        """Rewind the session to a position; takes the lease for a moment. `Busy` while it is driven."""
        return rewinding.rewind(self._store, self.context, self._id, to, by=self._principal)

    def adopt(self, ref: str) -> Adopted:
        """Adopt a retry or a fork of it (`t5.2`); `t5.1` undoes that."""
        return retry.adopt(self._store, self.context, self._id, ref, self._principal)

    # -- where its content came from --------------------------------------------------------------

    def vouch(self, ref: str, *, why: str, withdraw: bool = False) -> str:
        """Say that something is believed, whatever source it came from: a commit (`@42`, `t5`, an id; of a call, its
        result), `host:NAME` or `tool:NAME`. `withdraw` says that it is not believed any more, and neither is what
        was made from it. `NotProven` below an agent: this is a person's word."""
        return vouches.vouch(self._writer, ref, why=text(why, "why"), withdraw=withdraw)

    # -- its calls --------------------------------------------------------------------------------

    def approve(
        self, call: str, *, scope: Scope = "once", pattern: str = "", expires: int = 0
    ) -> Grant:
        """Let a call run that waits for a person's approval."""
        return approvals.approve(
            self._store, self.context, call,
            by=self._principal, scope=scope, pattern=pattern, expires=expires,
        )  # fmt: skip

    def deny(self, call: str, *, why: str = "") -> Grant:
        """Refuse a waiting call; the agent sees the reason."""
        return approvals.deny(self._store, self.context, call, by=self._principal, why=why)

    def settle(self, call: str, verdict: Verdict, value: Any = UNSET, *, why: str = "") -> Settled:
        """Settle a call in doubt: "done", "not done" or "run again"."""
        return settlement.settle(
            self._store, self.context, call, verdict,
            by=self._principal, value=value, why=why, session=self._id,
        )  # fmt: skip

    def budget(self, *amounts: str) -> dict[str, int]:
        """Change what the session may spend: `budget("+2usd", "turns=20")`; return the new limits."""
        return budgets.change(
            self._store, self.context, self._id, parse_amounts(amounts), by=self._principal
        )
