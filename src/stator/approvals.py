"""Approvals: rules about which calls a person must approve, and the types that `store.approvals` gives.

    with stator.connect() as store:
        for call in store.approvals.waiting():
            store.approvals.approve(call.call, by="local:ann")

See the guide on approvals.
"""

from __future__ import annotations

from stator.model.calls.approval import Pattern, Rule, decide, parse_pattern, parse_policy
from stator.runtime.driving.approvals import Grant, Waiting
from stator.runtime.facade.outside import Approvals

__all__ = [
    "Approvals",
    "Grant",
    "Pattern",
    "Rule",
    "Waiting",
    "decide",
    "parse_pattern",
    "parse_policy",
]
