"""Decides which sessions a server shows. A handle alone gives no access.

A session of another project, a session in the trash and one that never existed all give the same error: not found.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from msgspec.structs import replace

from stator.errors import Ambiguous, NotFound
from stator.model.log.query import Page, SessionQuery, SessionRow
from stator.model.sessions.lifecycle import ENDED
from stator.model.values.ids import is_id, short, suffix_of
from stator.model.values.position import Ref, parse_range, parse_ref
from stator.runtime.base.context import Context
from stator.runtime.base.project_flags import Trash
from stator.runtime.facade.store import Store
from stator.runtime.facade.view import SessionView
from stator.runtime.views.refs import followed, last_used
from stator.surfaces.mcp.keys import is_handle

CANDIDATES = 8


@dataclass(frozen=True)
class Scope:
    """Finds the sessions of a project, or of every project."""

    store: Store
    project: str | None
    """None means every project."""

    @property
    def tenant(self) -> str:
        """The tenant of the connection; "" without one. Sessions of others are never shown, in any project."""
        return getattr(self.store.port, "tenant", None) or ""

    def context(self, row: SessionRow, principal: str) -> Context:
        """Return the context for adding to a session; its root is known only if its project is this one."""
        here = self.store.context
        project = row.record.project
        root = here.root if project == here.project else ""
        return replace(here, principal=principal, project=project, root=root)

    def find(self, handle: str) -> SessionRow:
        """Find a visible session by its handle, the end of a handle, or its name."""
        rows = [row for row in self._candidates(handle) if self.is_visible(row)]
        if len(rows) > 1:
            raise Ambiguous(
                f"{len(rows)} sessions match {handle!r:.80}",
                candidates=[row.id for row in rows],
                hint="use one of the candidates",
            )
        if not rows:
            raise session_not_found(handle)
        return rows[0]

    def view(self, row: SessionRow) -> SessionView:
        here = self.store.context
        root = here.root if row.record.project == here.project else ""
        return SessionView(self.store.as_read, row.id, root=root)

    def newest(self) -> SessionRow | None:
        """Return the visible session that was used last."""
        found = last_used(self.store.as_read, self.project)
        if found is None or self.is_visible(found):
            return found
        return next(iter(self.listed().rows), None)

    def listed(
        self, cursor: tuple[int, ...] | None = None, limit: int = 20, *, ended: bool = True
    ) -> Page[SessionRow]:
        """List visible sessions, most recently used first; those that were closed only with `ended`."""
        trash = Trash(self.store.as_read)
        while True:
            page = self.store.as_read.sessions(self._query(), cursor=cursor, limit=limit)
            rows = [
                row
                for row in page.rows
                if self.is_visible(row, trash) and (ended or row.record.status not in ENDED)
            ]
            cursor = page.cursor
            if rows or cursor is None:
                return Page(rows, cursor)

    def short_handle(self, session: str) -> str:
        """The shortest form of a handle that means only this session here."""
        found = self.store.as_read.sessions(self._query(suffix=short(session)[2:]), limit=2).rows
        return short(session) if [row.id for row in found] == [session] else session

    def checked_position(self, ref: str) -> str:
        """Check that the session a position names is visible; return the position with its full id."""
        return self._checked_ref(parse_ref(ref))

    def checked_range(self, text: str) -> str:
        """Check both ends of a range as `checked_position` does."""
        parsed = parse_range(text)
        end = self._checked_ref(parsed.end)
        return end if parsed.start is None else f"{self._checked_ref(parsed.start)}..{end}"

    def visible_sessions(self, sessions: Iterator[str]) -> set[str]:
        """Return those of some session ids that are visible."""
        found = set()
        for session in set(sessions):
            try:
                if self.is_visible(self.store.as_read.session(session)):
                    found.add(session)
            except NotFound:
                continue
        return found

    def _checked_ref(self, ref: Ref) -> str:
        if not ref.session:
            return ref.text or "t0"
        return f"{self.find(ref.session).id}:{ref.text.rpartition(':')[2]}"

    def _query(self, *, name: str | None = None, suffix: str | None = None) -> SessionQuery:
        return SessionQuery(name=name, suffix=suffix, project=self.project, tenant=self.tenant)

    def _candidates(self, handle: str) -> list[SessionRow]:
        """Return the sessions a handle may mean; a full id means only that session, never another's name."""
        if is_id(handle, "session"):
            try:
                return [self.store.as_read.session(handle)]
            except NotFound:
                return []
        if is_handle(handle) and (rows := self._ending(handle)):
            return rows  # before names: what looks like a handle is one
        named = self.store.as_read.sessions(self._query(name=handle), limit=CANDIDATES).rows
        if named:
            return [followed(self.store.as_read, row) for row in named]
        return self._ending(handle)

    def _ending(self, handle: str) -> list[SessionRow]:
        """The sessions whose ids end so."""
        suffix = suffix_of(handle, "session")
        if not suffix:
            return []
        return self.store.as_read.sessions(self._query(suffix=suffix), limit=CANDIDATES).rows

    def is_visible(self, row: SessionRow, trash: Trash | None = None) -> bool:
        """Whether a session is visible."""
        record = row.record
        own = self.project is None or record.project == self.project
        listed = record.mode != "project" and record.tenant == self.tenant
        return own and listed and row not in (trash or Trash(self.store.as_read))


def session_not_found(handle: str) -> NotFound:
    """Return the same error for every session that is not visible, whether or not it exists."""
    return NotFound(
        f"no session {handle!r:.80}", hint="stator_open without arguments lists sessions"
    )


def session_label(row: SessionRow) -> str:
    """Return a session's name and short id for a line of text."""
    return f"{row.record.name} ({short(row.id)})"
