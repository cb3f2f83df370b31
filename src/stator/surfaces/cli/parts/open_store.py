"""Opens the store a command works on, and finds the session and position its arguments name.

No function here creates a store: `open_to_read` opens it read-only, `open_to_write` to change something.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

import msgspec

from stator.connect import StorePlace, catch_up, connect, connect_as_is, known_stores, locate
from stator.errors import BadPosition, BadQuery, NotFound, Removed, StatorError
from stator.model.log.query import SessionRow
from stator.model.values.ids import short
from stator.model.values.position import AtName, AtTurn, Range, parse_position, parse_range
from stator.model.views.open_calls import is_cut_off
from stator.runtime.base.context import nap
from stator.runtime.base.prices import prices_of
from stator.runtime.views.last_acts import acted
from stator.surfaces.cli.render.lines import ENDED_STYLES, Line, cells
from stator.surfaces.cli.render.record_line import count
from stator.surfaces.cli.render.screen import Screen, note
from stator.surfaces.cli.render.times import used

if TYPE_CHECKING:  # loaded by the commands that read a session: a list of sessions needs none of it
    from stator.model.calls.costs import Prices
    from stator.model.views.unplaced import Unplaced
    from stator.runtime.base.watch import Watch
    from stator.runtime.facade.store import Store
    from stator.runtime.facade.view import SessionView

LAST = "last"
CALL = "c_"
"""How the id of a call begins."""
NAME_SHORTEST, NAME_LEAST = 12, 28
"""Cells of the name of a session that a heading keeps: beside what it shows, and beside its size and age too."""
HOW_TO_NAME = "name a session, then a turn or a range: fix-login t2, fix-login:t2, t4..t5"


class OpenedStore(msgspec.Struct, frozen=True):
    """An open store and the place where it was found."""

    store: Store
    place: StorePlace

    @property
    def project(self) -> str:
        return self.store.context.project

    def project_shown(self, project: str) -> str:
        """A project as people call it."""
        return self.store.context.project_name(project)

    @property
    def now(self) -> int:
        return self.store.context.clock()

    def prices(self) -> Prices | None:
        """The prices by which costs are computed: those of the project's stator.toml, and the list prices. A file that
        cannot be used is told: no list of sessions needs it."""
        try:
            return prices_of(self.store.context)
        except StatorError as error:
            note(f"costs are not computed: {error}")
            return None

    def wait(self, seconds: float, watch: Watch | None = None) -> bool:
        """Wait, or until a watch reports news; then import what hooks have queued since. Whether there were news."""
        if watch is None:
            nap(seconds)
        news = watch is not None and watch.wait(seconds)
        catch_up(self.store)
        return news

    def session(self, name: str | None = None) -> SessionView:
        """The session that is named, else $STATOR_SESSION, else the last one used."""
        from stator.runtime.facade.view import SessionView
        from stator.runtime.views.refs import find_session

        wanted = name if name is not None else os.environ.get("STATOR_SESSION") or LAST
        try:
            found = find_session(
                self.store.as_read,
                wanted,
                project=self.project or None,
                partly=not is_place(wanted),
            )
        except NotFound as error:
            if name is None and wanted != LAST:
                error.what += ", which $STATOR_SESSION names"
            if wanted != LAST:
                raise
            found = self._newest()
            if self.project:
                of = self.project_shown(found.record.project) or "no project"
                note(f"no session in this project; shown is the last one of the store, of {of}")
        self._tell_agent(wanted, found)
        return SessionView(self.store.as_read, found.id)

    def _tell_agent(self, wanted: str, found: SessionRow) -> None:
        """Say which session was found, if it was by the name of its agent."""
        record = found.record
        if wanted != record.name and record.agent.startswith(wanted) and wanted not in record.name:
            note(f"{wanted}: the last session of the agent {record.agent}, {record.name}")

    def _newest(self) -> SessionRow:
        from stator.runtime.views.refs import last_used

        found = last_used(self.store.as_read)
        if found is None:
            raise NotFound(f"no sessions in {self.place.shown}", hint=self.other_stores())
        return found

    def named(
        self, words: Sequence[str], session: str | None = None
    ) -> tuple[SessionView, str | None]:
        """The session and the position or range that the words of a command name: `SESSION`, `t5`, `SESSION:t5`,
        `SESSION t5`, `t4..t5`. Without words, the session that the option names, else the last one."""
        if len(words) > 2:
            raise BadQuery(f"unexpected argument {words[2]!r:.60}", hint=HOW_TO_NAME)
        if len(words) < 2:
            return self._in_its_session(*self.resolve(session, words[0] if words else None))
        first, second = words
        if session is not None or is_place(first):
            raise BadQuery(
                f"unexpected argument {second!r:.60}",
                hint=f"a range is {first}..{second}" if is_place(second) else HOW_TO_NAME,
            )
        found = self._position(self.session(first).id, parse_range(second), second)
        return self._in_its_session(*found)

    def whole(self, words: Sequence[str], session: str | None, instead: str) -> SessionView:
        """The session that the words name, where an answer is about all of it; `instead` says what a position needs."""
        view, place = self.named(words, session)
        if place is not None:
            raise BadQuery(f"{place!r:.60} is a part of a session; name the session", hint=instead)
        return view

    def _in_its_session(
        self, view: SessionView, place: str | None
    ) -> tuple[SessionView, str | None]:
        """The same place without the name of the session; a retry, which is a turn of another session, as a turn of
        that session."""
        span = None if place is None else parse_range(place)
        if span is None or place is None:
            return view, place
        if span.start is not None:
            alone = span.end.session in ("", span.start.session)
            ends = [one.text.rpartition(":")[2] for one in (span.start, span.end)]
            return view, "..".join(ends) if alone else place
        turn = span.end.position
        if not isinstance(turn, AtTurn) or not turn.retry:
            return view, place.rpartition(":")[2]
        from stator.runtime.facade.view import SessionView

        return SessionView(self.store.as_read, view.at(place).session), f"t{turn.turn}"

    def resolve(self, session: str | None, text: str | None) -> tuple[SessionView, str | None]:
        """The session and the position or range that `text` names; None instead of a position if it names a session.

        `text` may be `t5`, `t4..t5`, `fix-login:t5`, `release` (a tag), `c_7f2a91bc` (a call) or `fix-login`.
        """
        if text is None:
            return self._optional(session)
        if text.endswith(":"):
            return self.session(text[:-1]), None
        if text[:1] == "-" and text[1:].isdigit():
            raise BadQuery(f"{text!r:.20} names nothing", hint=f"-n {text[1:]} shows so many")
        if text.startswith(CALL) and (found := self._call(text)) is not None:
            return found
        try:
            return self._position(session, parse_range(text), text)
        except (BadPosition, NotFound) as error:
            # Not a position or a tag of the session, so it may be the name of a session.
            if session is not None:
                raise
            try:
                return self.session(text), None
            except Removed:
                raise
            except NotFound as missing:
                if not is_place(text):
                    error.hint = self._tagged(text) or missing.hint
                raise error from None

    def _tagged(self, tag: str) -> str:
        """Which other session of the project has a tag of that name; empty if none has."""
        touches = self.store.as_read.touches("tags", tag, project=self.project or None, limit=1)
        if not touches or touches[0].dropped:
            return ""
        found = touches[0].session
        return f"{self.names()[found]} has such a tag: {short(found)}:{tag}"

    def _optional(self, session: str | None) -> tuple[SessionView, str | None]:
        """What an option names: a session, or `SESSION:t5`."""
        try:
            return self.session(session), None
        except NotFound:
            if session is None or ":" not in session:
                raise
            return self._position(None, parse_range(session), session)

    def _call(self, text: str) -> tuple[SessionView, str] | None:
        """Where a call is that is named by its id; None if no session has such a call in its log."""
        from stator.runtime.facade.view import SessionView
        from stator.runtime.views.refs import find_call

        try:
            intent = find_call(self.store.as_read, text)
        except NotFound:
            return None
        return SessionView(self.store.as_read, intent.session), f"@{intent.seq}"

    def _position(
        self, session: str | None, span: Range, text: str
    ) -> tuple[SessionView, str | None]:
        first = span.start or span.end
        view = self.session(first.session or session)
        if first.session and session is not None and self.session(session).id != view.id:
            raise BadQuery(
                f"two sessions are named: {first.session!r:.60} and {session!r:.60}",
                hint="name one",
            )
        if span.start is None and isinstance(span.end.position, AtName):
            try:
                view.at(text)
            except BadPosition:
                raise NotFound(_nothing_named(text, view, is_last=session is None)) from None
        return view, text

    def unplaced(self, session: str | None, text: str) -> Unplaced | None:
        """What `text`, an id or the end of one, names that has no place in the log yet; None if nothing."""
        from stator.model.views.unplaced import named

        owner, _, name = text.rpartition(":")
        found = named(self.session(owner or session).unplaced(), name)
        return found[0] if found else None

    def names(self) -> dict[str, str]:
        """Session names by id, each looked up when it is first used."""
        return _Names(self.store)

    def other_stores(self) -> str:
        """A remark that names the other stores on this machine."""
        here = os.path.realpath(self.place.url)
        others = [seen for seen in known_stores() if os.path.realpath(seen.url) != here]
        if not others:
            return "no other stores found"
        return "other stores: " + ", ".join(f"{seen.url} ({seen.why})" for seen in others)

    def report_empty(self, what: str) -> int:
        """Note on stderr that an answer is empty, which store was read, and which others exist."""
        note(f"{what} (store: {self.place.shown}, {self.place.why}; {self.other_stores()})")
        return 0


def path_here(path: str) -> str:
    """A path as a person would type it here."""
    near = os.path.relpath(path) if path.startswith("/") else path
    home = os.path.expanduser("~")
    if not near.startswith(".."):
        return near
    return f"~{path[len(home) :]}" if path.startswith(home + "/") else path


def is_place(word: str) -> bool:
    """Whether a word can only be a position or a range, as t2, @42, head~3 and t4..t5 are; another word may be the
    name of a session."""
    if ".." in word:
        return True
    try:
        return not isinstance(parse_position(word), AtName)
    except BadPosition:
        return False


def _warn_if_foreign(store: Store) -> None:
    """Say that a store is not this user's own, if it is not."""
    if store.foreign:
        from stator.surfaces.cli.parts.foreign import warn_if_foreign  # most stores are one's own

        warn_if_foreign(store)


class _Names(dict[str, str]):
    def __init__(self, store: Store) -> None:
        super().__init__()
        self._store = store

    def __missing__(self, session: str) -> str:
        name = self[session] = self._store.port.session(session).record.name
        return name


def _nothing_named(text: str, view: SessionView, *, is_last: bool) -> str:
    """What was looked for and is not there: in a session that was named, a part of it; else also a session."""
    if not is_last:
        return f"{view.name!r:.80} has no position, tag or commit {text!r:.80}"
    return (
        f"no session {text!r:.80}, and the last one, {view.name!r:.80}, has no such tag or commit"
    )


@contextmanager
def open_to_read(store: str | None) -> Iterator[OpenedStore]:
    """Open the store for reading. What hooks have queued is imported first, if it can be."""
    place = locate(store)
    with connect(place, create=False, read_only=True) as opened:
        _warn_if_foreign(opened)
        catch_up(opened, held=False)
        yield OpenedStore(opened, place)


@contextmanager
def open_to_query(store: str | None) -> Iterator[OpenedStore]:
    """Open the store for questions in SQL. Its views show what is indexed, and a store that may be written indexes what
    others appended first; one that is not to be written now shows what it has."""
    with ExitStack() as stack:
        opened = stack.enter_context(open_to_read(store))
        if not opened.store.foreign:
            with contextlib.suppress(StatorError):
                # As it is: what hooks queue is taken in by `open_to_read`, and a second try would wait for writers.
                writable = stack.enter_context(connect_as_is(opened.place))
                opened = OpenedStore(writable, opened.place)
        yield opened


@contextmanager
def open_to_follow(store: str | None) -> Iterator[OpenedStore]:
    """Open the store for reading, to follow new commits.

    Opens it once to write first: that imports what hooks have queued, which a read-only store cannot.
    """
    place = locate(store)
    with contextlib.suppress(StatorError):
        connect(place, create=False).close()
    with open_to_read(store) as opened:
        yield opened


@contextmanager
def open_to_write(store: str | None) -> Iterator[OpenedStore]:
    """Open the store to change something in it."""
    place = locate(store)
    with connect(place, create=False) as opened:
        _warn_if_foreign(opened)
        yield OpenedStore(opened, place)


def heading(view: SessionView, opened: OpenedStore, *more: str, room: int) -> Line:
    """The line that names the session an answer is about, its status and its size.

    A long name is cut for them. Whole parts are left out where they do not fit into `room` cells even so, the last ones
    first: half a number misleads. The first of `more`, which says what is shown, always stays.
    """
    (row,) = acted(opened.store.as_read, [view.row])
    agent = f" · {row.record.agent}" if row.record.agent else ""
    status = _status_word(opened, row)
    holds = f"{count(row.turns, 'turn')}, {count(row.head, 'commit')}"
    when = used(row, opened.now)
    ago = [] if when in more else [when]
    beside = " · ".join(filter(None, [f" {short(row.id)}", *more, status, holds, *ago]))
    line = _named(row, more[:1], room - cells(agent) - cells(beside), room)
    for part in more[1:]:
        if line.width + cells(f" · {part}") > room:
            return line
        line.add(" · ", "dim").add(part, "bold")
    told = f" · {status}" if status else ""
    if line.width + cells(f"{agent}{told} · {holds}") <= room:
        line.add(agent, "dim")
    if line.width + cells(told) > room:
        return line
    if status:
        line.add(" · ", "dim").add(status, ENDED_STYLES.get(status, ""))
    for part in (f" · {one}" for one in (holds, *ago)):
        if line.width + cells(part) > room:
            break
        line.add(part, "dim")
    return line


def _named(row: SessionRow, shown: Sequence[str], left: int, room: int) -> Line:
    """The session, and what an answer shows of it. The name is cut to `left` cells, or to what a heading keeps."""
    line = Line(" ").add(short(row.id), "id")
    for part in shown:
        line.add(" · ", "dim").add(part, "bold")
    least = min(NAME_LEAST, max(room - line.width, NAME_SHORTEST))
    return Line(row.record.name, "title").cut_plain(max(least, left)).extend(line)


def _status_word(opened: OpenedStore, row: SessionRow) -> str:
    """The status of a session; of one that is only recorded, how it ended, in the word of `stator ls`: nobody paused
    or opened it here."""
    if row.record.mode != "recorded":
        return "interrupted" if is_cut_off(row) else row.shown
    from stator.runtime.views.glance.listed import ended

    return ended(opened.store.as_read, row)


def title(screen: Screen, view: SessionView, opened: OpenedStore, *more: str) -> None:
    """Print the heading and a blank line under it."""
    screen.line(heading(view, opened, *more, room=screen.cut))
    screen.line()
