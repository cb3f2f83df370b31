"""Finds where a question looks: in one session or a part of it, in the project, or in the whole store.

A question that names no session is about the project. An answer says where it looked; an empty one says where else
there is something.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING

import msgspec

from stator.errors import BadQuery
from stator.model.log.query import SessionQuery, SessionRow
from stator.model.values.ids import short
from stator.runtime.base.pages import matching
from stator.runtime.base.project_flags import Trash
from stator.runtime.views.as_read import for_one_answer
from stator.runtime.views.last_acts import by_last_act
from stator.surfaces.cli.parts.open_store import OpenedStore, title
from stator.surfaces.cli.render.lines import Line
from stator.surfaces.cli.render.screen import Screen, note

if TYPE_CHECKING:
    from stator.runtime.facade.view import SessionView


MADE = re.compile(r"p_[0-9a-f]{32}\Z")
"""An id of a project that was made for it; people do not know it by that."""


def project_words(project: str) -> str:
    """The current project in words."""
    return "this project" if not project or MADE.match(project) else f"project {project}"


class QuestionScope(msgspec.Struct, frozen=True):
    """Where a question looks."""

    opened: OpenedStore
    view: SessionView | None = None
    """The session, if it looks in one only."""
    span: str | None = None
    """A position or a range of that session."""
    everywhere: bool = False

    @property
    def project(self) -> str | None:
        """The project, to filter by; None for all of them."""
        return None if self.everywhere else self.opened.project

    @property
    def shown(self) -> str:
        if self.view is not None:
            return f"{self.span} of {self.view.name}" if self.span else f"session {self.view.name}"
        if self.everywhere:
            return "every project of the store"
        return project_words(self.opened.project)

    def views(self, most: int) -> Iterator[SessionView]:
        """The sessions it looks in, most recently used first: none in the trash, of a project none that another one
        was adopted for. Asked for more than `most` of them, it notes on stderr that there are others."""
        if self.view is not None:
            yield self.view
            return
        from stator.runtime.facade.view import SessionView

        port = for_one_answer(self.opened.store.as_read)
        rows = self.rows()
        for row in islice(rows, most):
            yield SessionView(port, row.id)
        if next(rows, None) is not None:
            note(f"looked in the {most} sessions used last; -n {most * 2} looks in more")

    def rows(self) -> Iterator[SessionRow]:
        """The sessions of a scope of several, in the order of `views`."""
        port, is_meant = for_one_answer(self.opened.store.as_read), self.meant()
        used = by_last_act(port, matching(port, SessionQuery(project=self.project)))
        return (row for row in used if is_meant(row))

    def meant(self) -> Callable[[SessionRow], bool]:
        """Whether a session of the project, or of the store, is one of those that are looked at."""
        trash = Trash(for_one_answer(self.opened.store.as_read))
        return lambda row: (
            row.record.mode != "project"
            and (self.everywhere or not row.record.adopted)
            and row not in trash
        )

    def expect_whole(self) -> None:
        """Refuse a part of a session, for a question that looks at all of one."""
        if self.view is not None and self.span is not None:
            raise BadQuery(
                f"{self.span!r:.60} is a part of a session; this looks at all of it",
                hint=f"name only the session: -s {short(self.view.id)}",
            )

    def head(self, screen: Screen, what: str, day: str = "") -> None:
        """Print what is answered and where it was looked for; with the day, if all of it is of one."""
        if self.view is not None:
            about = f"{what} of {self.span}" if self.span else what
            title(screen, self.view, self.opened, *filter(None, (about, day)))
            return
        line = Line(self.shown, "title").add(" · ", "dim").add(what, "bold")
        screen.line(line.add(f" · {day}" if day else "", "dim"))
        screen.line()

    def wider(self) -> Iterator[tuple[QuestionScope, str]]:
        """Where else to look, the nearest first, and how to ask for it."""
        if self.view is not None and self.span:
            yield (
                QuestionScope(self.opened, self.view),
                f"name only the session: {short(self.view.id)}",
            )
        if self.view is not None:
            yield QuestionScope(self.opened), "name no session"
        if not self.everywhere:
            yield QuestionScope(self.opened, everywhere=True), "add --everywhere"

    def report_empty(self, what: str, holds: Callable[[QuestionScope], bool]) -> int:
        """Note on stderr that there is nothing here, and the nearest wider place where there is something."""
        for wider, how in self.wider():
            if holds(wider):
                note(f"{what} in {self.shown}; there is something in {wider.shown}: {how}")
                return 0
        return self.opened.report_empty(f"{what} in {self.shown}")


def scope_of(
    opened: OpenedStore,
    words: Sequence[str] = (),
    *,
    session: str | None,
    project: bool = False,
    everywhere: bool,
) -> QuestionScope:
    """Where a question looks that was asked with these words and options. Up to the head is the whole session."""
    named = bool(words) or session is not None
    if named + project + everywhere > 1:
        raise BadQuery("name a session, --project or --everywhere, not two of them")
    if not named:
        return QuestionScope(opened, everywhere=everywhere)
    view, span = opened.named(words, session)
    if span is not None and span != "head":
        from stator.surfaces.cli.parts.question.tagged_turn import with_tagged_turn

        return QuestionScope(opened, view, with_tagged_turn(view, span))
    return QuestionScope(opened, view)
