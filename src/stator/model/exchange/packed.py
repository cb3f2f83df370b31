"""A commit as a bundle holds it: without what its position implies, and with its content as bytes."""

from __future__ import annotations

import msgspec

from stator.model.log.commit import Commit, Gone, Source, Trust
from stator.model.log.delta import Put
from stator.model.records.tables import COLLECTIONS
from stator.model.values.ids import to_bytes


class Packed(msgspec.Struct, array_like=True, omit_defaults=True, frozen=True):
    """A commit without the fields that its position implies."""

    id: bytes
    hash: bytes
    seq: int
    kind: str
    turn: int
    at: int
    content: dict[str, bytes | tuple[int, bytes]]
    """An item's bytes; of one that is gone the seq of its erasure (0: left out) and its commitment."""
    ops: list[tuple[int, str, int]] = []
    salt: bytes = b""
    salts: dict[str, bytes] = {}
    actor: str = "agent"
    run: bytes = b""
    epoch: int = 0
    happened: int = 0
    tool: str = ""
    call: bytes = b""
    status: str = ""
    effect: str = ""
    attempt: int = 0
    source: Source = "system"
    trust: Trust = "verified"
    cause: str = ""
    parent: str = ""
    origin: tuple[str, str] | None = None
    inputs: list[int | str] = []
    trace: str = ""
    v: int = 1


def pack(commit: Commit) -> Packed:
    """A commit for a batch of its session."""
    content: dict[str, bytes | tuple[int, bytes]] = {}
    for name, item in commit.content.items():
        if isinstance(item, Gone):
            content[name] = (item.by, item.commitment)
        else:
            assert isinstance(item, bytes), "read with its content"
            content[name] = item
    numbers = COLLECTIONS
    return Packed(
        to_bytes(commit.id),
        bytes.fromhex(commit.hash),
        commit.seq,
        commit.kind,
        commit.turn,
        commit.at,
        content,
        [
            (numbers[op.collection].number * (1 if type(op) is Put else -1), op.id, op.was)
            for op in commit.delta
        ],
        commit.salt,
        commit.salts,
        commit.actor,
        to_bytes(commit.run) if commit.run else b"",
        commit.epoch,
        commit.happened,
        commit.tool,
        to_bytes(commit.call) if commit.call else b"",
        commit.status,
        commit.effect,
        commit.attempt,
        commit.provenance.source,
        commit.provenance.trust,
        commit.cause,
        commit.parent,
        commit.origin,
        commit.inputs,
        commit.trace,
        commit.v,
    )
