"""Records a person's word that content from some source is believed, or is not believed any more."""

from __future__ import annotations

import re

from stator.errors import InvalidInput, NotProven
from stator.model.log.commit import Provenance, Upsert
from stator.model.records.types import TrustRecord
from stator.runtime.base.ownership import require_own
from stator.runtime.base.pages import commit_at
from stator.runtime.driving.writer import SessionWriter
from stator.runtime.views.derivation import named, signed_trust
from stator.runtime.views.refs import locate

_WIDE = re.compile(r"(host|tool):(\S(?:.{0,251}\S)?)\Z")
"""A word about everything that came from a host or a tool."""


def vouch(writer: SessionWriter, ref: str, *, why: str, withdraw: bool) -> str:
    """Append the word; the id of its commit."""
    store = writer.store
    require_own(store, "record what is believed")
    if below := writer.context.below(store):
        raise NotProven(
            f"this program runs below {below}: what is believed is a person's word",
            hint="use another terminal, one that no agent started",
        )
    if not why.strip():
        raise InvalidInput("say why it is believed", path="$.why", hint='--why "checked by hand"')
    record = TrustRecord(on=_about(writer, ref), believed=not withdraw, by=writer.principal)
    draft = writer.draft(
        "trust",
        changes=(Upsert("trust", signed_trust(store, writer.id, record)),),
        provenance=Provenance("user", "verified"),
        why=why,
    )
    return writer.append([draft])[0].id


def _about(writer: SessionWriter, ref: str) -> str:
    if wide := _WIDE.match(ref):
        return f"{wide[1]}:{wide[2].lower() if wide[1] == 'host' else wide[2]}"
    (found,) = named(writer.store, writer.id, [ref], lambda given: 0)
    seq = found if isinstance(found, int) else locate(writer.store, writer.id, str(found)).seq
    return commit_at(writer.store, writer.id, seq, load=False).id
