"""Asking a store: which one, which session, and what to say when there is nothing to say.

Nothing here creates a store; `asking` opens one for reading only, `telling` to add something to it.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from stator.connect import StorePlace, catch_up, connect, known_stores, locate
from stator.errors import BadPosition, NotFound, Removed, StatorError
from stator.model.log.query import SessionRow
from stator.model.values.ids import short
from stator.model.values.position import AtName, Range, parse_range
from stator.runtime.base.context import nap
from stator.runtime.facade.store import Store
from stator.runtime.facade.view import SessionView
from stator.runtime.views.refs import find_session, last_used
from stator.surfaces.cli.render.lines import Line
from stator.surfaces.cli.render.record_line import count
from stator.surfaces.cli.render.screen import Screen, note
from stator.surfaces.cli.render.times import ago

LAST = "last"


@dataclass(frozen=True)
class Asking:
    """A store opened to be asked, and where it was found."""

    store: Store
    place: StorePlace

    @property
    def project(self) -> str:
        return self.store.context.project

    @property
    def now(self) -> int:
        return self.store.context.clock()

    def wait(self, seconds: float) -> None:
        """Wait for news; what hooks left meanwhile is part of it."""
        nap(seconds)
        catch_up(self.store)

    def session(self, name: str | None = None) -> SessionView:
        """The session a person means: the one named, $STATOR_SESSION, or the last one used."""
        wanted = name if name is not None else os.environ.get("STATOR_SESSION") or LAST
        try:
            found = find_session(self.store.port, wanted, project=self.project or None)
        except NotFound:
            if wanted != LAST:
                raise
            found = self._newest()
        return SessionView(self.store.port, found.id, sleep=self.wait)

    def _newest(self) -> SessionRow:
        found = last_used(self.store.port)
        if found is None:
            raise NotFound(f"there are no sessions in {self.place.url}", hint=self.elsewhere())
        return found

    def aim(self, session: str | None, text: str | None) -> tuple[SessionView, str | None]:
        """The session that a position or range is about, and the position; None where only a session was named.

        `t5`, `t4..t5`, `fix-login:t5`, `release` (a tag) and `fix-login` (a session) are all told apart here.
        """
        if text is None:
            return self.session(session), None
        if text.endswith(":"):
            return self.session(text[:-1]), None
        try:
            return self._position(session, parse_range(text), text)
        except (BadPosition, NotFound):
            found = self._maybe(text) if session is None else None
            if found is None:
                raise
            return found, None

    def _position(
        self, session: str | None, span: Range, text: str
    ) -> tuple[SessionView, str | None]:
        first = span.start or span.end
        view = self.session(first.session or session)
        if span.start is None and isinstance(span.end.position, AtName):
            try:
                view.at(text)
            except BadPosition:
                raise NotFound(
                    f"no session {text!r:.80}, and no tag or commit of that name in {view.name!r:.80}",
                    hint="stator ls shows sessions, stator show their tags",
                ) from None
        return view, text

    def _maybe(self, text: str) -> SessionView | None:
        try:
            return self.session(text)
        except Removed:
            raise
        except NotFound:
            return None

    def names(self) -> dict[str, str]:
        """What sessions are called, looked up as they are needed."""
        return _Names(self.store)

    def elsewhere(self) -> str:
        """Which other stores can be seen from here."""
        here = os.path.realpath(self.place.url)
        others = [seen for seen in known_stores() if os.path.realpath(seen.url) != here]
        if not others:
            return "no other store is in sight"
        return "also in sight: " + ", ".join(f"{seen.url} ({seen.why})" for seen in others)

    def nothing(self, what: str) -> int:
        """Say that an answer is empty, where it was looked for and where else one could look."""
        note(f"{what}; looked in {self.place.url} ({self.place.why}), {self.elsewhere()}")
        return 0


class _Names(dict[str, str]):
    def __init__(self, store: Store) -> None:
        super().__init__()
        self._store = store

    def __missing__(self, session: str) -> str:
        name = self[session] = self._store.port.session(session).record.name
        return name


@contextmanager
def asking(store: str | None) -> Iterator[Asking]:
    """Open the store that is meant, for reading."""
    place = locate(store)
    with connect(place.url, create=False, read_only=True) as opened:
        yield Asking(opened, place)


@contextmanager
def watching(store: str | None) -> Iterator[Asking]:
    """Open the store that is meant for reading, to see what comes: also what hooks tell, which somebody
    must take in."""
    place = locate(store)
    with contextlib.suppress(StatorError):
        connect(place.url, create=False).close()
    with asking(store) as ask:
        yield ask


@contextmanager
def telling(store: str | None) -> Iterator[Asking]:
    """Open the store that is meant, to change something in it."""
    place = locate(store)
    with connect(place.url, create=False) as opened:
        yield Asking(opened, place)


def heading(view: SessionView, now: int, *more: str) -> Line:
    """The line that says which session an answer is about."""
    row = view.row
    line = Line(row.record.name, "title").add(" ").add(short(row.id), "id")
    for part in more:
        line.add(" · ", "dim").add(part, "bold")
    if row.record.agent:
        line.add(f" · {row.record.agent}", "dim")
    line.add(" · ", "dim").status(row.shown)
    holds = f"{count(row.turns, 'turn')}, {count(row.head, 'commit')}"
    return line.add(f" · {holds} · {ago(row.updated, now)}", "dim")


def title(screen: Screen, view: SessionView, now: int, *more: str) -> None:
    """Print the heading and a blank line under it."""
    screen.line(heading(view, now, *more))
    screen.line()
