"""`stator diff`: shows the net change of each collection, with before, after and the reason."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from stator.errors import Ambiguous, BadPosition, NotFound
from stator.model.records.types import FileRecord
from stator.model.sessions.lifecycle import lent_upto
from stator.model.values.ids import short
from stator.model.views.diff import Diff
from stator.runtime.facade.view import SessionView
from stator.surfaces.cli.parts.open_store import OpenedStore, open_to_read, title
from stator.surfaces.cli.parts.question.typed_file import names_file
from stator.surfaces.cli.render import documents
from stator.surfaces.cli.render.differences import calls_made, changes
from stator.surfaces.cli.render.differences import patch as patches
from stator.surfaces.cli.render.lines import Line
from stator.surfaces.cli.render.screen import Screen
from stator.surfaces.cli.render.turns.subject import base_of

if TYPE_CHECKING:
    from stator.model.views.compare import Comparison
    from stator.model.views.patch import FilePatch
    from stator.surfaces.cli.options import (
        ComparedArgument,
        FullFlag,
        JsonFlag,
        NoPagerFlag,
        PatchFlag,
        SessionOption,
        StoreOption,
    )

EXAMPLES = """
stator diff                        what the last turn changed
stator diff t5                     what turn 5 changed
stator diff t2..t3                 from the end of turn 2 to the end of turn 3
stator diff t5 t5.2                compare two attempts at a turn: answers, decisions, calls
stator diff fix-login other-try    two sessions: at the turn that one of them tried again
stator diff fix-login:t5 other:head    between two places in two sessions
stator diff t4..t5 --patch         the changed lines of files, as git shows them
stator diff fix-login src/auth.py    what a session changed in one file
stator diff --json | jq .decisions
"""
CALLS_COUNTED = 200
"""With more calls than this in a range, changed lines are not counted: each edit would be read."""


def diff(
    *what: ComparedArgument,
    session: SessionOption = None,
    full: FullFlag = False,
    patch: PatchFlag = False,
    store: StoreOption = None,
    json: JsonFlag = False,
    no_pager: NoPagerFlag = False,
) -> int:
    """Show what changed in a turn or between two positions.

    + added, ~ changed, - removed, ≈ superseded. A record that was both added and removed in between is not listed.

    With --patch, prints a patch for git apply, as far as the contents of files were recorded; with the name of a file
    at the end, that of the file, of the whole session where no turn is named.
    """
    with open_to_read(store) as opened, Screen(json=json, pager=not no_pager) as screen:
        if names_file(opened, what, session):
            view, span, end = _compared(opened, what[:-1], session)
            return _patch(screen, opened, view, span or "t0..head", end, what[-1])
        view, span, end = _compared(opened, what, session)
        if patch:
            return _patch(screen, opened, view, span, end)
        found = view.diff(span, end) if end is not None else view.diff(span)
        tries = _tries(opened, view, span, end)
        if json:
            _document(screen, view, found, tries)
            return 0
        title(screen, view, opened, f"{_place(found.start)} → {_place(found.end)}")
        counts = _line_counts(view, found, span, end)
        about = _range_of(view, found)
        if tries is None:
            lines = list(changes.lines(found, screen.width, counts, all=full))
            lines += calls_made.lines(view, found.calls, _known(opened, view, found, about))
        else:  # the comparison covers decisions and calls
            from stator.surfaces.cli.render.differences import comparison

            screen.lines(comparison.lines(tries), hang=6)
            screen.line()
            screen.line(Line("Differences between the two states", "dim"))
            lines = list(changes.lines(found, screen.width, counts, all=full, without="decisions"))
        lines += changes.footnotes(found, f"stator evicted {about}" if about else "")
        screen.lines(lines or _nothing(view, found), hang=6)
        if found.of("files") and len(found.calls) > CALLS_COUNTED:
            few = f"lines of files are counted up to {CALLS_COUNTED} calls: name a turn, or add -p"
            screen.line(Line(few, "dim"))
        if found.of("files"):
            words = about or shlex.join([*what, *(["-s", session] if session else [])])
            screen.line(Line(f"the lines: stator diff {words} -p", "dim"))
    return 0


def _compared(
    opened: OpenedStore, words: Sequence[str], session: str | None
) -> tuple[SessionView, str | None, str | None]:
    """The session and the two positions, or the range, that the words name: those of `log`, or two positions."""
    if len(words) < 2:
        view, span = opened.resolve(session, words[0] if words else None)
        return view, span, None
    view, span = opened.resolve(session, words[0])
    if span is None and session is None:  # the first word names the session of the others
        if len(words) == 2 and (other := _session(opened, view, words[1])) is not None:
            return _two_sessions(view, other)
        session, words = view.id, words[1:]
        view, span = opened.resolve(session, words[0])
    end = words[1] if len(words) > 1 else None
    if len(words) > 2 or (end is not None and (span is None or ".." in span or ".." in end)):
        raise BadPosition("diff takes one range, or two positions", hint="stator diff t4 t5")
    return view, span, end


def _session(opened: OpenedStore, view: SessionView, word: str) -> SessionView | None:
    """The other session that a word names; None if it is a place in this one, or nothing."""
    try:
        view.at(word.partition("..")[0])
        return None
    except (BadPosition, NotFound):
        pass
    try:
        return opened.session(word)
    except (Ambiguous, NotFound):
        return None


def _two_sessions(
    view: SessionView, other: SessionView
) -> tuple[SessionView, str | None, str | None]:
    """Where two sessions are compared: at the turn that one tried again, if it did; else as they are now."""
    for original, again in ((view, other), (other, view)):
        parent, lineage = again.record.parent, again.record.lineage
        if parent is not None and parent.kind == "retry" and parent.session == original.id:
            own = (row.turn for row in again.turns() if row.first > lent_upto(lineage))
            if turn := next(own, 0):
                return view, f"{view.id}:t{turn}", f"{other.id}:t{turn}"
    return view, f"{view.id}:head", f"{other.id}:head"


def _tries(
    opened: OpenedStore, view: SessionView, start: str | None, end: str | None
) -> Comparison | None:
    """Two tries at one turn, aligned; None if the positions are no two tries."""
    if start is None or end is None:
        return None
    from stator.runtime.views.compare import are_siblings

    return (
        view.compare(start, end) if are_siblings(opened.store.port, view.id, start, end) else None
    )


def _document(screen: Screen, view: SessionView, found: Diff, tries: Comparison | None) -> None:
    if tries is None:
        screen.document(documents.DIFF, documents.diff(view, found))
        return
    from stator.surfaces.cli.render.differences import comparison

    document = {**comparison.as_json(tries), "diff": documents.diff(view, found)}
    screen.document("stator.compare/1", document)


def _patch(
    screen: Screen,
    opened: OpenedStore,
    view: SessionView,
    start: str | None,
    end: str | None,
    file: str = "",
) -> int:
    """Show the net change of files as patches; of one file, or of those whose paths end so."""
    found = view.patch(start, end)
    if file:
        last = f"/{file.removeprefix('./')}"
        found = [one for one in found if f"/{one.path}".endswith(last)]
    if screen.json:
        span = " ".join(part for part in (start or "t-1", end) if part)
        of = {"session": view.id, "name": view.name}
        files = [patches.as_json(patch) for patch in found]
        screen.document("stator.patch/1", {"of": of, "span": span, "files": files})
        return 0
    if not found:
        none = f"{file} did not change" if file else "no file changed"
        return opened.report_empty(f"{none} in this range")
    patches.show(screen, found, _lacking(opened, view, start, end, found))
    return 0


def _lacking(
    opened: OpenedStore,
    view: SessionView,
    start: str | None,
    end: str | None,
    found: list[FilePatch],
) -> list[str]:
    """What is to be known of files whose contents were not recorded; of two sessions no calls are named."""
    from stator.surfaces.cli.parts.output.unrecorded_contents import comments

    span = f"{start}..{end}" if end is not None else start or "t-1"
    return list(comments(opened, view, span if ":" not in span else "", found))


def _place(text: str) -> str:
    """A position of a diff as people read it; in another session it begins with the end of that session's id."""
    session, colon, position = text.rpartition(":")
    return f"{session[:2]}{session[-8:]}:{position}" if colon else text


def _nothing(view: SessionView, found: Diff) -> Iterator[Line]:
    yield Line("no change")
    if found.start != "t0":
        yield Line(f"since its beginning: stator diff {short(view.id)} t0..head", "dim")


def _range_of(view: SessionView, found: Diff) -> str:
    """The session and the range as other commands take them; empty if the two ends are in two sessions."""
    if ":" in found.start + found.end:
        return ""
    return f"{short(view.id)} {found.start}..{found.end}"


def _known(
    opened: OpenedStore, view: SessionView, found: Diff, about: str
) -> calls_made.KnownCalls:
    """What else is known of the calls in between."""
    failed = [call for call in found.calls if call.status != "ok"]
    if not failed:
        return calls_made.KnownCalls()
    from stator.runtime.views.as_read import to_settle
    from stator.runtime.views.reasons.repaired import repaired_calls

    reading = opened.store.as_read
    records = (item.touch or item.after for item in found.of("files"))
    return calls_made.KnownCalls(
        repaired=repaired_calls(reading, view.id, failed),
        asked=[record.call for record in to_settle(reading, view.id)],
        base=base_of(record.path for record in records if isinstance(record, FileRecord)),
        all_failed=f"stator calls {about} --failed" if about else "",
    )


def _line_counts(
    view: SessionView, found: Diff, start: str | None, end: str | None
) -> changes.LineCounts:
    """By how many lines each file is different."""
    if not found.of("files") or len(found.calls) > CALLS_COUNTED or view.reflog():
        return {}  # a rewind leaves files as they are: a patch of them is no difference of the states
    return {
        (one.root, one.path): changes.LineCount(one.added, one.removed, len(one.parts))
        for one in view.patch(start, end)
    }
