"""`stator diff`: shows the net change of each collection, with before, after and the reason."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from stator.errors import BadPosition
from stator.model.records.tables import COLLECTIONS, NOT_DIFFED
from stator.model.records.text import setting_value, unproved
from stator.model.records.types import (
    READ_POSITION,
    DecisionRecord,
    FileRecord,
    PlanRecord,
    Record,
    SettingRecord,
)
from stator.model.values.canon import encode
from stator.model.views.diff import CallItem, Diff, DiffItem
from stator.runtime.facade.view import SessionView
from stator.surfaces.cli.parts.open_store import OpenedStore, open_to_read, title
from stator.surfaces.cli.render import (
    documents,
    record_line,
    wire,
)
from stator.surfaces.cli.render import (
    patch as patches,
)
from stator.surfaces.cli.render.detail import call_line
from stator.surfaces.cli.render.lines import Line
from stator.surfaces.cli.render.screen import Screen

if TYPE_CHECKING:
    from stator.model.views.compare import Comparison
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
stator diff fix-login:t5 other:head    between two sessions
stator diff t4..t5 --patch         the changed lines of files, as git shows them
stator diff --json | jq .decisions
"""
SIGNS = {"added": "+", "changed": "~", "superseded": "≈", "removed": "-"}
_INCIDENTAL = frozenset({"order", "digest", "commit", "because", "shown_by"})
"""Fields that always change together with a more important one."""
CALLS_SHOWN = 12
"""Up to this many calls that ended ok are listed one by one; more are counted by tool."""


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

    With --patch, prints a patch for git apply, as far as the contents of files were recorded.
    """
    with open_to_read(store) as opened, Screen(json=json, pager=not no_pager) as screen:
        view, span, end = _compared(opened, what, session)
        if patch:
            return _patch(screen, opened, view, span, end)
        found = view.diff(span, end) if end is not None else view.diff(span)
        tries = _tries(opened, view, span, end)
        if json:
            _document(screen, view, found, tries)
            return 0
        title(screen, view, opened, f"{_place(found.start)} → {_place(found.end)}")
        if tries is None:
            lines = [*_lines(found, all=full), *_calls(view, found.calls)]
        else:  # the comparison covers decisions and calls
            from stator.surfaces.cli.render import comparison

            screen.lines(comparison.lines(tries), hang=6)
            screen.line()
            screen.line(Line("Differences between the two states", "dim"))
            lines = list(_lines(found, all=full, without="decisions"))
        lines += _footnotes(found)
        screen.lines(lines or [Line("no change", "dim")], hang=10)
        if screen.is_terminal and found.of("files"):
            words = " ".join(["stator diff", *what, *(["-s", session] if session else []), "-p"])
            screen.line(Line(f"the lines: {words}", "dim"))
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
        session, words = view.id, words[1:]
        view, span = opened.resolve(session, words[0])
    end = words[1] if len(words) > 1 else None
    if len(words) > 2 or (end is not None and (span is None or ".." in span or ".." in end)):
        raise BadPosition("diff takes one range, or two positions", hint="stator diff t4 t5")
    return view, span, end


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
    from stator.surfaces.cli.render import comparison

    document = {**comparison.as_json(tries), "diff": documents.diff(view, found)}
    screen.document("stator.compare/1", document)


def _patch(
    screen: Screen, opened: OpenedStore, view: SessionView, start: str | None, end: str | None
) -> int:
    """Show the net change of files as patches."""
    found = view.patch(start, end)
    if screen.json:
        span = " ".join(part for part in (start or "t-1", end) if part)
        of = {"session": view.id, "name": view.name}
        files = [patches.as_json(patch) for patch in found]
        screen.document("stator.patch/1", {"of": of, "span": span, "files": files})
        return 0
    if not found:
        return opened.report_empty("no file changed in this range")
    patches.show(screen, found)
    return 0


def _place(text: str) -> str:
    """A position of a diff as people read it; in another session it begins with the end of that session's id."""
    session, colon, position = text.rpartition(":")
    return f"{session[:2]}{session[-8:]}:{position}" if colon else text


# -- as text --------------------------------------------------------------------------------------


def _lines(found: Diff, *, all: bool, without: str = "") -> Iterator[Line]:
    for name in COLLECTIONS:
        items = [
            item
            for item in found.of(name)
            if (all or item.is_listed) and not _is_read_position(item)
        ]
        if items and name != without:
            yield Line(name.replace("_", " "), "title")
            for item in items:
                yield _line(item)


def _is_read_position(item: DiffItem) -> bool:
    """Whether the item is an importer's note of how far it has read a transcript."""
    return str(getattr(item.after or item.before, "name", "")).startswith(READ_POSITION)


def _line(item: DiffItem) -> Line:
    """One net change: sign, commit, name, before → after, and the reason."""
    line = Line(f"  {SIGNS[item.change]} ", item.change).add(f"@{item.seq}", "id", width=5).add(" ")
    before, after = item.before, item.after
    if isinstance(after, DecisionRecord):
        _decision(line, item, after)
    elif isinstance(after or before, FileRecord):
        _file(line, next(r for r in (item.touch, after, before) if isinstance(r, FileRecord)))
    elif before is not None and after is not None:
        _changed(line, before, after)
    else:
        line.extend(record_line.of_record(after or before or Record()))
    why = item.why if not _has_reason(after) else ""
    return line.add(f" — {why}" if why else "", "dim")


def _has_reason(record: Record | None) -> bool:
    return bool(getattr(record, "why", ""))


def _decision(line: Line, item: DiffItem, after: DecisionRecord) -> None:
    """`auth: use JWT superseded by use cookies via use sessions — because …`"""
    if item.before is None and not item.via:
        line.extend(record_line.of_record(after))
        return
    line.add(f"{after.topic}: " if after.topic else "", "bold")
    steps = [getattr(step.record, "what", "(erased)") for step in item.via]
    if item.before is not None:
        line.add(f"{getattr(item.before, 'what', '(erased)')} superseded by ")
    line.add(after.what, "bold")
    line.add(f" via {', '.join(steps)}" if steps else "")
    line.add(f" — because {item.why}" if item.why else "", "dim")


def _file(line: Line, record: FileRecord) -> None:
    line.add(record.path).add(f" {record.op}", "dim")
    line.add(f" from {record.from_path}" if record.from_path else "")
    line.add(f" ({record.how})" if record.how != "recorded" else "", "dim")


def _changed(line: Line, before: Record, after: Record) -> None:
    """The name once, then each field that differs as before → after."""
    old, new = wire.record(before) or {}, wire.record(after) or {}
    name = next((old[key] for key in ("name", "step", "what", "path", "unit") if key in old), "")
    line.add(f"{name}: " if name else "", "bold")
    differing = [key for key in sorted({*old, *new}) if not _is_same(old.get(key), new.get(key))]
    differing = [key for key in differing if key not in _INCIDENTAL] or differing
    for place, key in enumerate(differing[:4]):
        line.add(", " if place else "")
        line.add(f"{key} " if key not in ("value", "status", "amount") else "", "dim")
        line.add(_field_text(before, key)).add(" → ").add(_field_text(after, key))
    why = unproved(after) if isinstance(after, PlanRecord) else ""
    line.add(f" — {why}" if why else "", "dim")


def _is_same(a: Any, b: Any) -> bool:
    """Whether two fields are recorded alike: true and 1 are not, although Python calls them equal."""
    return encode(a) == encode(b)


def _field_text(record: Record, key: str) -> str:
    value = getattr(record, key, None)
    if isinstance(record, SettingRecord):
        return setting_value(value, record_line.recorded)
    if key == "value" and not hasattr(record, "comment"):
        return record_line.recorded(value)
    return record_line.brief(
        value.replace("_", " ") if key == "status" and isinstance(value, str) else value
    )


def _calls(view: SessionView, calls: list[CallItem]) -> Iterator[Line]:
    """Calls that did not end ok one by one; the others too, unless there are many."""
    if not calls:
        return
    yield Line("calls", "title")
    fine = [call for call in calls if call.status == "ok"]
    few = len(fine) <= CALLS_SHOWN
    for call in calls:
        if few or call.status != "ok":
            yield call_line(view, call)
    if not few:
        tally = Counter(call.tool for call in fine).most_common()
        yield Line(f"    {len(fine)} ok: ").add(", ".join(f"{tool} ×{n}" for tool, n in tally))


def _footnotes(found: Diff) -> Iterator[Line]:
    for line in found.view_lines():
        yield Line(line, "dim")
    passing, same = (
        sum(count for name, count in counts.items() if name not in NOT_DIFFED)
        for counts in (found.transient, found.unchanged)
    )
    parts = [
        f"{passing} added and removed again" if passing else "",
        f"{same} changed and changed back" if same else "",
        f"{record_line.count(found.read, 'file')} only read" if found.read else "",
    ]
    text = ", ".join(part for part in parts if part)
    if text:
        yield Line(f"({text})", "dim")
