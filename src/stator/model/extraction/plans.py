"""Finds the plan that a person accepted: a document called `plan`, in the agent's words.

Its steps are not taken from its text. Nobody would mark them as done: agents keep a list of steps of their own, which
is recorded as the plan.
"""

from __future__ import annotations

from typing import Any

from stator.model.exchange.extraction_state import ExtractionState, HeldCall
from stator.model.extraction.evidence import (
    ENDS,
    Evidence,
    ExtractionRule,
    Found,
    plain_text,
    string,
)
from stator.model.log.commit import Upsert
from stator.model.records.types import ArtifactRecord
from stator.model.values import canon
from stator.model.values.digest import sha256

TOOLS = frozenset({"ExitPlanMode", "exit_plan_mode"})
PLAN_MAX = 100_000
"""Characters of a plan."""
NAME = "plan"
_APPROVED = "## Approved Plan"


def _needs(tool: str, given: Any) -> Any:
    plan = string(given.get("plan")) if isinstance(given, dict) else ""
    return {"plan": plan} if 0 < len(plan) <= PLAN_MAX else None


def _find(state: ExtractionState, one: Evidence, held: HeldCall | None) -> Found | None:
    if one.tool not in TOOLS or one.status != "ok":
        return None
    text = plain_text(one.output)
    if "approved" not in text.partition("\n")[0].lower():
        return None
    # The person may have changed the plan before accepting it: what was accepted is in the answer.
    _, mark, written = text.partition(_APPROVED)
    accepted = written.partition("\n")[2].strip() if mark else ""
    given = held.given if held is not None and isinstance(held.given, dict) else {}
    plan = accepted or string(given.get("plan")).strip()
    if not plan or len(plan) > PLAN_MAX:
        return None
    data = canon.dumps(plan)
    record = ArtifactRecord(
        name=NAME, digest=sha256(data).hexdigest(), size=len(data), media_type="text/markdown"
    )
    return Found(changes=(Upsert("artifacts", record),), source="model", content=plan)


RULE = ExtractionRule(
    name="plan", version=1, kind="artifact", sees=ENDS, find=_find, needs=_needs,
    reads=TOOLS.__contains__,
)  # fmt: skip
