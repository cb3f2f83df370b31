"""Scope: which sessions a server shows. Having a handle is not enough to see what it names.

A session of another project, one in the trash and one that never was are all the same here: not found.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from stator.errors import Ambiguous, NotFound
from stator.model.log.query import Page, SessionQuery, SessionRow
from stator.model.values.ids import is_id, short, suffix_of
from stator.model.values.position import Ref, parse_range, parse_ref
from stator.runtime.base.context import Context
from stator.runtime.base.project_flags import Trash
from stator.runtime.facade.store import Store
from stator.runtime.facade.view import SessionView
from stator.runtime.views.refs import followed, last_used

CANDIDATES = 8
TENANT = ""
"""Sessions of other tenants are nobody's here, whatever their project."""


@dataclass(frozen=True)
class Scope:
    """The sessions of a project, or of every project."""

    store: Store
    project: str | None
    """None: every project's."""

    def context(self, row: SessionRow, principal: str) -> Context:
        """The world of whoever adds to a session: its root is known only where its project is here."""
        here = self.store.context
        project = row.record.project
        root = here.root if project == here.project else ""
        return replace(here, principal=principal, project=project, root=root)

    def find(self, handle: str) -> SessionRow:
        """The session a handle, the end of one or a name means, if it is one to be seen."""
        rows = [row for row in self._meant(handle) if self.shows(row)]
        if len(rows) > 1:
            raise Ambiguous(
                f"{len(rows)} sessions answer to {handle!r:.80}",
                candidates=[row.id for row in rows],
                hint="give one of the candidates",
            )
        if not rows:
            raise unknown(handle)
        return rows[0]

    def view(self, row: SessionRow) -> SessionView:
        here = self.store.context
        root = here.root if row.record.project == here.project else ""
        return SessionView(self.store.port, row.id, root=root)

    def newest(self) -> SessionRow | None:
        """The session used last."""
        found = last_used(self.store.port, self.project)
        if found is None or self.shows(found):
            return found
        return next(iter(self.listed().rows), None)

    def listed(self, cursor: tuple[int, ...] | None = None, limit: int = 20) -> Page[SessionRow]:
        """Sessions, most recently used first."""
        page = self.store.port.sessions(self._query(), cursor=cursor, limit=limit)
        trash = Trash(self.store.port)
        return Page([row for row in page.rows if self.shows(row, trash)], page.cursor)

    def position(self, ref: str) -> str:
        """A ref whose session, if it names one, is known to be seen from here."""
        return self._aimed(parse_ref(ref))

    def span(self, text: str) -> str:
        """The same for a range."""
        parsed = parse_range(text)
        end = self._aimed(parsed.end)
        return end if parsed.start is None else f"{self._aimed(parsed.start)}..{end}"

    def sees(self, sessions: Iterator[str]) -> set[str]:
        """Those of some ids that are to be seen."""
        found = set()
        for session in set(sessions):
            try:
                if self.shows(self.store.port.session(session)):
                    found.add(session)
            except NotFound:
                continue
        return found

    def _aimed(self, ref: Ref) -> str:
        if not ref.session:
            return ref.text or "t0"
        return f"{self.find(ref.session).id}:{ref.text.rpartition(':')[2]}"

    def _query(self, *, name: str | None = None, suffix: str | None = None) -> SessionQuery:
        return SessionQuery(name=name, suffix=suffix, project=self.project, tenant=TENANT)

    def _meant(self, handle: str) -> list[SessionRow]:
        """An id is only ever that session's, also where another one is named like it."""
        if is_id(handle, "session"):
            try:
                return [self.store.port.session(handle)]
            except NotFound:
                return []
        named = self.store.port.sessions(self._query(name=handle), limit=CANDIDATES).rows
        if named:
            return [followed(self.store.port, row) for row in named]
        suffix = suffix_of(handle, "session")
        return (
            self.store.port.sessions(self._query(suffix=suffix), limit=CANDIDATES).rows
            if suffix
            else []
        )

    def shows(self, row: SessionRow, trash: Trash | None = None) -> bool:
        """Whether a session is one to be seen."""
        record = row.record
        own = self.project is None or record.project == self.project
        listed = record.mode != "project" and record.tenant == TENANT
        return own and listed and row not in (trash or Trash(self.store.port))


def unknown(handle: str) -> NotFound:
    """What is said of every session that is not to be seen, whether or not there is one."""
    return NotFound(f"no session {handle!r:.80}", hint="the tool sessions lists what there is")


def named(row: SessionRow) -> str:
    """A session as a line of text names it."""
    return f"{row.record.name} ({short(row.id)})"
