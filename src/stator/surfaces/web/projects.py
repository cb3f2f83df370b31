"""Which projects a store has, and which of them a page is about."""

from __future__ import annotations

import msgspec
from starlette.requests import Request

from stator.model.log.query import SessionQuery, SessionRow
from stator.surfaces.http.served import Served, served

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
    """The project that the address names, else the one that the service was started in, else the one used last."""
    named = {one.name: one for one in projects}
    asked = request.query_params.get("project")
    for name in (asked, served(request).project):
        if name is not None and name in named:
            return named[name]
    return projects[0] if projects else None
