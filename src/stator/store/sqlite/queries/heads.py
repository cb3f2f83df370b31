"""Which sessions have moved: the last commit of many sessions, each by one lookup, and nothing decoded."""

from __future__ import annotations

from collections.abc import Mapping

import apsw
import msgspec

from stator.store.sqlite.connection import many
from stator.store.sqlite.projection import SQL

OF_ALL = SQL["heads_other"].replace("(:project IS NULL OR project = :project) AND ", "", 1)
"""The others of every project: an index has all of it, which a filter that may be left out would hide."""


def heads(
    db: apsw.Connection, known: Mapping[str, int], project: str | None, *, others: bool
) -> dict[str, int]:
    """The heads that are not as they are known, in the order in which sessions arrived."""
    # As one text: a statement for each session would take longer than looking it up.
    values = {"known": msgspec.json.encode(known).decode(), "project": project}
    found = many(db, SQL["heads_known"], values)
    if others:
        found += many(db, SQL["heads_other"] if project is not None else OF_ALL, values)
    return {session: head for _, session, head in sorted(found)}
