"""Which projects a store has, and which of them a page is about."""

from __future__ import annotations

import msgspec
from starlette.requests import Request

from stator.model.log.query import SessionQuery, SessionRow
from stator.surfaces.http.served import Served

ROWS = 500
"""Sessions used last whose projects are listed."""


class KnownProject(msgspec.Struct, frozen=True):
    """A project, as lists show it."""

    name: str
    rows: list[SessionRow]
    """Its sessions among those used last, the newest first."""

    @property
    def sessions(self) -> int:
        return len(self.rows)

    @property
    def agents(self) -> list[str]:
        return sorted({row.record.agent for row in self.rows} - {""})

    @property
    def updated(self) -> int:
        return self.rows[0].updated


def known_projects(found: Served) -> list[KnownProject]:
    """The projects of the sessions used last."""
    rows: dict[str, list[SessionRow]] = {}
    for row in found.store.as_read.sessions(SessionQuery(), limit=ROWS).rows:
        if row.record.mode != "project":
            rows.setdefault(row.record.project, []).append(row)
    return [KnownProject(name, several) for name, several in rows.items()]


def chosen_project(request: Request, projects: list[KnownProject]) -> KnownProject | None:
    """The project that the address names, or the only one there is."""
    named = {one.name: one for one in projects}
    asked = request.query_params.get("project")
    if asked is not None and asked in named:
        return named[asked]
    return projects[0] if len(projects) == 1 else None
