"""Applies the rules of extraction to commits, one after the other, and remembers what the rules need. Pure.

The findings are a function of the commits in their order. What is remembered is small and can be kept
(`ExtractionState`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from stator.model.exchange.extraction_state import ExtractionState, HeldCall
from stator.model.exchange.tool_files import subject
from stator.model.extraction import (
    adoptions,
    answers,
    checks,
    handovers,
    plans,
    refusals,
    revisions,
    surroundings,
)
from stator.model.extraction.evidence import (
    ENDS,
    Evidence,
    ExtractionRule,
    RuleFinding,
    draft_of,
    origin_parts,
    seen_commit,
    seen_draft,
)
from stator.model.log.commit import Commit, Draft
from stator.model.log.shown_text import cut_short, legible

RULES: tuple[ExtractionRule, ...] = (
    checks.RULE,  # the first: no position of a log is between a call and what is found of its checks, but one
    answers.RULE,
    plans.RULE,
    revisions.RULE,
    revisions.PUSHED,
    refusals.RULE,
    adoptions.RULE,
    handovers.RULE,
    surroundings.RULE,
)
"""Every rule. One whose findings change gets the next version; none is ever renamed."""
ABOUT_CALLS = ENDS | {"approval"}
CALLS_MAX = 64
"""Calls without an outcome that are remembered; of more, the oldest are given up."""
ABOUT_MAX = 160
TOOLS_MAX = 256
"""Tools of which it is remembered which rules read the input of their calls."""


class Extractor:
    """Sees the commits of one session in their order."""

    def __init__(
        self, session: str, state: ExtractionState, rules: Sequence[ExtractionRule] = RULES
    ) -> None:
        self.session = session
        self.state = state
        kinds = frozenset[str]().union(*(rule.sees for rule in rules))
        self._by_kind = {kind: [rule for rule in rules if kind in rule.sees] for kind in kinds}
        self._rules = rules
        self._readers = lru_cache(maxsize=TOOLS_MAX)(self._readers_of)

    def see(self, one: Evidence, *, late: bool = False) -> list[RuleFinding]:
        """What the rules find in a commit, given those before it. `late`: it is a call that began before what was
        seen so far."""
        if one.kind == "call":
            self._hold(one, late=late)
            return []
        rules = self._by_kind.get(one.kind, ())
        # what is recorded inside a call is not about the call
        is_about = one.call and one.kind in ABOUT_CALLS
        held = self.state.calls.get(one.call) if is_about else None
        is_unread = held is not None and held.given is None
        found = []
        for rule in rules:
            if is_unread and rule.only_read:
                continue
            made = rule.find(self.state, one, held)
            if made is None:
                continue
            intent = (held.intent,) if held is not None and held.intent else ()
            found.append(
                RuleFinding(
                    rule=rule.name, version=rule.version, kind=rule.kind, changes=made.changes,
                    source=made.source or one.provenance.source, content=made.content,
                    also=tuple(i for i in dict.fromkeys((*made.also, *intent)) if i != one.id),
                )
            )  # fmt: skip
        if held is not None and one.kind != "approval" and one.status != "in doubt":
            del self.state.calls[one.call]
        return found

    def lacks(self, call: str) -> bool:
        """Whether it is not known what was asked in a call."""
        return bool(call) and call not in self.state.calls

    def drafts(self, draft: Draft) -> list[Draft]:
        """The drafts of what is found in a draft: they follow it in the log."""
        kind = draft.kind
        if kind != "call" and kind not in self._by_kind:
            return []
        if kind == "entry" and not self.state.handover:  # most answers: nothing was asked for
            return []
        if draft.origin is not None and origin_parts(draft.origin) is not None:
            return []
        one = seen_draft(draft)
        found = self.see(one)
        return [draft_of(self.session, one, finding) for finding in found] if found else []

    def found_in(self, commit: Commit) -> list[Draft]:
        """The drafts of what is found in a commit that another process appended."""
        one = seen_commit(commit)
        return [draft_of(self.session, one, finding) for finding in self.see(one)]

    def _hold(self, one: Evidence, *, late: bool) -> None:
        needed: dict[str, Any] = {}
        for needs in self._readers(one.tool):
            part = needs(one.tool, one.input)
            if isinstance(part, dict):
                needed |= part
        calls = self.state.calls
        calls.pop(one.call, None)
        self.state.begun += not late
        calls[one.call] = HeldCall(
            intent=one.id, tool=one.tool, about=about(one.tool, one.input), given=needed or None,
            place=0 if late else self.state.begun,
        )  # fmt: skip
        while len(calls) > CALLS_MAX:
            del calls[next(iter(calls))]

    def _readers_of(self, tool: str) -> list[Callable[[str, Any], Any]]:
        """What reads the input of a tool's calls, in the order of the rules; each once."""
        found = [rule.needs for rule in self._rules if rule.needs and rule.reads(tool)]
        return list(dict.fromkeys(found))


def about(tool: str, given: Any) -> str:
    """A call in a few words: its tool, and its command or what else says what it is about."""
    words = f"{tool} {subject(tool, given)}".strip()
    return legible(words if len(words) <= ABOUT_MAX else cut_short(words, ABOUT_MAX))
