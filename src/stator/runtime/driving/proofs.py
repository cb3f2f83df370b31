"""Records how the person who answers was recognised, and checks that when a call looks for its answer.

What a grant says of itself cannot be trusted: any program of this user can write one. A signature can: it is verified
here with the public keys that the context holds, over the whole grant, its session and its store.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

import msgspec

from stator.errors import NotProven
from stator.model.calls.approval import end_since_boot
from stator.model.calls.proof import SIGNED, Proof, is_enough, is_weaker, signed_bytes
from stator.model.log.delta import Put
from stator.model.records.types import ApprovalRecord, Entry
from stator.runtime.base.context import Context
from stator.store.port import StorePort

NONCE_BYTES = 12


class Recognised(msgspec.Struct, frozen=True):
    """How the caller recognised the person; `sign` makes the signature of a grant that carries one."""

    proof: Proof = "program"
    sign: Callable[[bytes], str] | None = None


PROGRAM = Recognised()
"""A program called the library: the name it gives is all that is known of the person."""


def with_proof(
    store: StorePort,
    context: Context,
    record: ApprovalRecord,
    session: str,
    how: Recognised,
    *,
    now: int,
    demand: str = "",
    attempt: int = 0,
) -> ApprovalRecord:
    """The grant with what is known of the person who gives it, signed where the person can sign.

    `NotProven` if the call it answers demands more, or demands a proof and this process runs below a driver or an
    agent; also without a demand, if the driver that it answers, or an agent that is recorded, started this process.
    """
    below = context.below(store)
    if record.verdict == "approved":
        refuse_started(context.started_by(store, session))
        refuse_below(below, demand)
        refuse_weaker(how.proof, demand)
    known = msgspec.structs.replace(
        record,
        proof=how.proof,
        below=below,
        ends=end_since_boot(context.boot(), record.expires - now) if record.expires else "",
        nonce=context.secret(NONCE_BYTES).hex() if how.sign else "",
        attempt=attempt if how.sign and record.call else 0,
    )
    if how.sign is None:
        return known
    signature = how.sign(signed_bytes(known, session, store.info().id))
    return msgspec.structs.replace(known, signature=signature)


def refuse_started(started_by: str) -> None:
    """Refuse an approval from a process that the agent itself started: a tool, a shell of its own."""
    if started_by:
        raise NotProven(
            f"{started_by} started this process: an agent does not approve its own calls",
            hint="approve it in another terminal, one that no agent started",
        )


def refuse_below(below: str, demand: str) -> None:
    """Refuse an approval from a process that an agent may control, where a proof is demanded."""
    if below and demand:
        raise NotProven(
            f"this command runs below {below}, and the call demands proof of a person ({demand}): "
            "what an agent started, the agent may control",
            hint="approve it in another terminal, one that no agent started",
        )


def refuse_weaker(proof: str, demand: str) -> None:
    """Refuse an approval that its call would not accept."""
    if is_weaker(proof, demand):
        raise NotProven(
            f"the call demands a stronger proof: {demand}; this approval has only: {proof}",
            hint=f"in a terminal: stator approve CALL --proof {demand}",
        )


def enough(
    store: StorePort,
    context: Context | None,
    standing: Sequence[tuple[str, Entry]],
    demand: str,
    attempt: int,
) -> list[Entry]:
    """Those of the grants in force, each with its session, that prove what is demanded, for that attempt at a call."""
    return [
        entry
        for session, entry in standing
        if is_enough(record := cast("ApprovalRecord", entry.record), demand)
        and record.attempt in (0, attempt)
        and not is_void(store, context, entry, session)
    ]


def is_void(store: StorePort, context: Context | None, entry: Entry, session: str) -> bool:
    """Whether a yes claims a signature that does not hold: of an unknown key, moved from elsewhere, or used before."""
    record = entry.record
    if not isinstance(record, ApprovalRecord) or record.verdict == "denied":
        return False
    if record.proof not in SIGNED:
        return False
    if context is None:
        return True
    signed = signed_bytes(record, session, store.info().id)
    if not context.approvers.verifies(record.proof, record.signature, signed):
        return True
    return not _is_given_once(store, entry, session, record.signature)


def _is_given_once(store: StorePort, entry: Entry, session: str, signature: str) -> bool:
    """Whether the log has this very grant once, and nothing after it has used it up or withdrawn it. A copy of a
    used grant still has a valid signature."""
    head = store.head(session).seq
    found = store.versions(session, after=0, upto=head, collections=("approvals",))
    ops = [version for version in found if version.key == entry.key]
    given = [
        version.seq
        for version in ops
        if isinstance(version.op, Put) and getattr(version.op.record, "signature", "") == signature
    ]
    return bool(ops) and given == [ops[-1].seq]
