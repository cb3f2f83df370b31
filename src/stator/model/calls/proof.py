"""Decides how strongly a grant shows that a person gave it, and whether that is as much as a rule demands.

Decisions only. The proofs, from the weakest: a *program* called the library, or a browser of this machine that came
through the link of `stator web` did (*local*, which proves no more); the command ran in a real *terminal*;
the person typed the *passphrase*, which unlocks the key that signs the grant; the grant is *signed* by another key
that the user has listed. Only the last two can be verified later; the others are what the grant says of itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import msgspec

from stator.errors import InvalidInput
from stator.model.records.types import ApprovalRecord
from stator.model.values import canon

Proof = Literal["program", "local", "terminal", "passphrase", "signed"]

PROOFS: tuple[Proof, ...] = ("program", "terminal", "passphrase", "signed")
"""What a rule may demand, from the weakest to the strongest."""
SIGNED: tuple[Proof, ...] = ("passphrase", "signed")
"""Those that carry a signature."""
_PURPOSE = "stator approval 1"


def check_proof(value: object, path: str) -> None:
    """Refuse a text that names no proof. An empty one demands nothing."""
    if value and value not in PROOFS:
        raise InvalidInput(
            f"unknown proof {value!r:.40}", path=path, hint=f"one of: {', '.join(PROOFS)}"
        )


def demanded(proofs: Iterable[str]) -> str:
    """The strongest of these demands; empty if none of them demands more than a program."""
    found = max(proofs, key=_rank, default="")
    return found if _rank(found) else ""


def is_enough(record: ApprovalRecord, demand: str) -> bool:
    """Whether a grant answers a call whose rule demands that proof. A denial always does.

    A grant given below a driver or an agent is not enough for any demand: what the agent started, the agent may
    control, also the terminal in which a passphrase is typed.
    """
    if record.verdict == "denied" or not _rank(demand):
        return True
    return not is_weaker(record.proof, demand) and not record.below


def is_weaker(proof: str, demand: str) -> bool:
    """Whether a proof is less than what is demanded."""
    return _rank(proof) < _rank(demand)


def signed_bytes(record: ApprovalRecord, session: str, store: str) -> bytes:
    """What a signature is about: the whole grant, its session and its store. It is valid nowhere else."""
    plain = msgspec.to_builtins(msgspec.structs.replace(record, sure="", signature=""))
    return canon.dumps([_PURPOSE, store, session, plain])


def _rank(proof: str) -> int:
    """A proof that this release does not know counts as the weakest."""
    return PROOFS.index(proof) if proof in PROOFS else 0
