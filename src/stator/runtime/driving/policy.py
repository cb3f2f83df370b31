"""Decides what a driver may do: which calls need a person's approval, what may be spent, what usage costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any, Literal

from stator.errors import BudgetSpent, InvalidInput
from stator.model.calls import approval, budget, known
from stator.model.calls.approval import Rule
from stator.model.calls.budget import PriceFunction, PriceTable
from stator.model.calls.life import Asked, Granted, Refused
from stator.model.calls.proof import demanded
from stator.model.calls.sources import SourceRule, parse_sources, source_of
from stator.model.calls.web_calls import fetched_hosts
from stator.model.log.commit import UNTRUSTED, Provenance
from stator.model.records.types import ApprovalRecord, Entry, SessionRecord
from stator.runtime.base.context import Context
from stator.runtime.driving import approvals, budgets, proofs
from stator.runtime.driving.tools import Tool
from stator.store.port import StorePort

ApproveMode = Literal["raise", "wait"]
Gate = Literal["", "ask", "deny"]
POLL_S = 0.25
"""How often a call that waits for a person looks for the answer."""


class Terms:
    """What one driver was given when it opened its session."""

    def __init__(
        self,
        *,
        rules: Sequence[Rule] = (),
        approve: ApproveMode = "raise",
        prices: PriceTable | PriceFunction | None = None,
        proof: str = "",
        sources: Sequence[SourceRule] = (),
    ) -> None:
        if approve not in ("raise", "wait"):
            raise InvalidInput(f"unknown approve {approve!r:.40}", hint="raise or wait")
        self.rules = list(rules)
        self.sources = list(sources)
        self.waits = approve == "wait"
        self.prices = prices
        self.proof = proof
        """What every approval must prove, whatever its rule demands."""
        self.ask_writes = ""
        """Why every write needs a person's approval; empty: only those that a rule or a tool names."""

    def asking_writes(self, why: str) -> Terms:
        """The same terms, but nothing is written without a person's yes."""
        found = copy(self)
        found.ask_writes = why
        return found

    @property
    def demands_proof(self) -> bool:
        """Whether an approval may have to be verified."""
        return bool(demanded([self.proof, *(rule.proof for rule in self.rules)]))

    def gate(self, tool: Tool[..., Any], given: Mapping[str, Any]) -> tuple[Gate, str, str]:
        """Whether a call may run: as it is, after a person approved it, or not at all; why; and what the approval
        must prove."""
        if not (self.rules or self.ask_writes or tool.approve):
            return "", "", ""
        gate, why, proof = self._ruled(tool, given)
        if not gate and self.ask_writes and tool.effect == "write":
            gate, why = "ask", self.ask_writes
        return gate, why, demanded([self.proof, proof]) if gate == "ask" else ""

    def _ruled(self, tool: Tool[..., Any], given: Mapping[str, Any]) -> tuple[Gate, str, str]:
        """What the rules, or else the tool itself, decide about a call."""
        if self.rules:
            rule = approval.decide(self.rules, tool.name, tool.effect, given)
            if rule is not None:
                return ("" if rule.action == "allow" else rule.action), rule.why, rule.proof
        return ("ask" if tool.approve and tool.needs_approval(given) else ""), "", ""

    def provenance(self, tool: Tool[..., Any], given: Mapping[str, Any]) -> Provenance:
        """Where the result of a call comes from."""
        declared = tool.source or ("web" if fetched_hosts(tool.name, given) else None)
        return Provenance(source_of(self.sources, tool.name, declared, given), "unverified")

    def priced(self, usage: dict[str, int], model: str) -> dict[str, int]:
        """Usage with its price added, or with a mark that the price is not known."""
        return {**usage, **budget.price(usage, model, self.prices or {})} if usage else usage


def rules(context: Context) -> list[Rule]:
    """The rules of the project's policy file. In a project that is not this user's own they may ask and deny, and
    nothing else: a cloned repository must not allow what its own text makes an agent do.
    """
    text = context.policy()
    found = approval.parse_policy(text) if text else []
    return found if context.policy_is_own else [rule for rule in found if rule.action != "allow"]


def sources(context: Context) -> list[SourceRule]:
    """Where the results of tools come from, by the project's policy file. In a project that is not this user's own it
    may call results untrusted, and nothing else."""
    text = context.policy()
    found = parse_sources(text) if text else []
    return found if context.policy_is_own else [r for r in found if r.source in UNTRUSTED]


def prices(context: Context) -> PriceTable | None:
    """The prices of the project's policy file; none from a project that is not this user's own, because a price of
    zero would make every budget endless."""
    text = context.policy()
    return budget.parse_prices(text) if text and context.policy_is_own else None


def proof(context: Context) -> str:
    """What the project's policy file demands of every approval; also that of a project that is not this user's own:
    a demand allows nothing."""
    text = context.policy()
    return approval.parse_proof(text) if text else ""


def demand_of(store: StorePort, context: Context, calls: Sequence[str] = ()) -> str:
    """What an approval of these calls, or in advance, must prove: what the project and their rules demand."""
    found = [approvals.find_waiting(store, call).proof for call in calls]
    return demanded([proof(context), *found])


def _is_no(entry: Entry) -> bool:
    return getattr(entry.record, "verdict", "") == "denied"


def answer(
    store: StorePort, context: Context, session: str, asked: Asked, scrub: known.Scrub
) -> Granted | Refused | None:
    """What people answered to a call: yes, no, or nothing yet. A yes that holds once is used up."""
    granted = approvals.standing_in(store, session)
    if context.is_joined:
        granted = [(place, entry) for place, entry in granted if place == session or _is_no(entry)]
    standing = proofs.enough(store, context, granted, asked.proof, asked.attempt)
    boot = context.boot()
    # An approval names the digest of the arguments as they were recorded: redacted, or plain if
    # the store was opened without redaction at the time.
    now = 0
    for how in (scrub, None):
        now = approvals.time_known(store, context.clock())
        entry = approval.answer(
            standing,
            tool=asked.tool,
            digest=known.fingerprint(asked.given, how),
            arguments=asked.given,
            now=now,
            call=asked.call,
            boot=boot,
        )
        if entry is None:
            continue
        record = entry.record
        assert isinstance(record, ApprovalRecord)
        used = approval.used_up(entry)
        if record.verdict == "denied":
            return Refused(_reason(store, session, entry) or f"denied by {record.by}", used)
        return Granted(used)
    if any(approval.is_expired(entry.record, now, boot) for _, entry in granted):
        approvals.retire(store, context, session, now)
    return None


def _reason(store: StorePort, session: str, entry: Entry) -> str:
    """The reason that was given for denying a call."""
    for commit in store.commits(session, after=entry.seq - 1, upto=entry.seq, limit=1):
        if commit.kind == "approval" and any(op.id == entry.id for op in commit.delta):
            return str(commit.known("why", ""))
    return ""


class Limits:
    """Whether a session may spend more; the store is not asked while no limit holds for it."""

    def __init__(self, store: StorePort, record: SessionRecord) -> None:
        self._store, self._session = store, record.id
        # A limit may be set on a session above a child while the child runs. That is written to the
        # other session's log, where this driver would not notice it, so a child always checks.
        parent = record.parent
        self._child = parent is not None and parent.kind == "child"
        self.some = self._child or bool(record.budget)
        """Whether there may be a limit."""

    def refresh(self) -> None:
        self.some = self._child or bool(budgets.limits(self._store, self._session))

    def spent(self, running: Mapping[str, int], *, turns: bool) -> BudgetSpent | None:
        """The limit that is reached, if one is."""
        if not self.some:
            return None
        breach = budgets.check(self._store, self._session, running=running, turns=turns)
        return None if breach is None else budgets.spent_up(self._store, breach)
