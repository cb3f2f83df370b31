"""The commit that begins a session."""

from __future__ import annotations

from stator.model.log.check import encode_checked
from stator.model.log.commit import Draft, Upsert
from stator.model.records.types import SessionRecord
from stator.runtime.base.context import Context

KEY_BYTES = 16
"""Of a session's redaction key."""


def opening(context: Context, record: SessionRecord) -> Draft:
    """A new session's first commit, with the key its secrets are named by."""
    encode_checked("session", record)
    return Draft(
        id=context.mint("commit"),
        session=record.id,
        kind="open",
        key=context.secret(KEY_BYTES).hex(),
        actor="system",
        principal=context.principal,
        changes=(Upsert("session", record),),
    )
