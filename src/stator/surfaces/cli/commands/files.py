"""`stator files`: lists the files that were touched."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING

from stator.errors import BadPosition, BadQuery, NotFound
from stator.model.exchange.kept_contents import UNRECORDED
from stator.model.log.query import PAGE_MAX, check_limit
from stator.model.sessions.lifecycle import lent_upto
from stator.model.values.ids import short
from stator.model.values.paths import outside
from stator.runtime.views.file_changes import FileChange, net_op, only_in_revisions
from stator.runtime.views.ranges import seqs_of
from stator.surfaces import web_addresses
from stator.surfaces.cli.parts.open_store import open_to_read
from stator.surfaces.cli.parts.page_addresses import print_addresses
from stator.surfaces.cli.parts.question.question_scope import QuestionScope, scope_of
from stator.surfaces.cli.parts.question.typed_file import may_be_file
from stator.surfaces.cli.parts.question.typed_path import recorded_places
from stator.surfaces.cli.render import documents
from stator.surfaces.cli.render.lines import Line
from stator.surfaces.cli.render.record_line import OP_STYLES, count
from stator.surfaces.cli.render.screen import Screen, note
from stator.surfaces.cli.render.table import TAIL, Column, report_cut, table
from stator.surfaces.cli.render.times import parse_since
from stator.surfaces.cli.render.turns.subject import base_of, net, relative

if TYPE_CHECKING:
    from stator.model.views.patch import FilePatch
    from stator.runtime.facade.view import SessionView
    from stator.surfaces.cli.options import (
        EverywhereFlag,
        JsonFlag,
        LastOption,
        LimitOption,
        NoPagerFlag,
        ProjectFlag,
        RefsArgument,
        SessionOption,
        SinceOption,
        StoreOption,
        WebFlag,
    )

EXAMPLES = """
stator files                       files that sessions of this project touched
stator files t2                    files that turn 2 of the last session touched
stator files fix-login t2..t4      in the turns after t2, up to t4
stator files --since yesterday     in turns that began since
stator files --last 1              in the last turn of every session
stator files src/auth.py           the turns that changed one file
stator files fix-login auth.py     the same in one session
stator files --reads --json | jq -r .path
"""
LIMIT = 50
"""Files that are listed of a project, and sessions that are looked at for them, unless asked otherwise."""

NAMED = 8
"""Files that only revisions name which are listed."""
REVISIONS = 3
"""Revisions that a footnote names."""
COUNTED_EDITS = 100
"""With more edits than this, lines are not counted: each edit would be read."""
COLUMNS = (
    Column(title="CHANGE"),
    Column(title="FILE", shrinks=True, middle=True, least=20),
    Column(title="LINES", right=True),
    Column(title="EDITS", right=True, drop=2),
    Column(title="TURN"),
    Column(title="AT"),
    Column(title="SESSION", shrinks=True, least=16),
    Column(title="NOTE", shrinks=True, drop=1),
)


def files(
    *what: RefsArgument,
    session: SessionOption = None,
    last: LastOption = None,
    since: SinceOption = None,
    reads: bool = False,
    limit: LimitOption = None,
    project: ProjectFlag = False,
    everywhere: EverywhereFlag = False,
    web: WebFlag = False,
    store: StoreOption = None,
    json: JsonFlag = False,
    no_pager: NoPagerFlag = False,
) -> int:
    """List the files that sessions touched, with their net change.

    Looks in the sessions of this project, most recently used first, or in a session, a turn or a range. Of a file, the
    turns that changed it.

    Net change: a file created and then modified is listed as created; one created and then deleted is not listed. LINES
    are those added and removed in the end, where the record holds what they were; they are counted for one session.

    Parameters
    ----------
    reads
        Include files that were only read.
    """
    most = check_limit(LIMIT if limit is None else limit)
    if last is not None:
        check_limit(last)
    with open_to_read(store) as opened, Screen(json=json, pager=not no_pager) as screen:
        try:
            scope = scope_of(opened, what, session=session, project=project, everywhere=everywhere)
        except (BadPosition, BadQuery, NotFound):
            if not what or not may_be_file(what):
                raise
            scope = scope_of(
                opened, what[:-1], session=session, project=project, everywhere=everywhere
            )
            return _one_file(screen, scope, what[-1], most)
        floor = parse_since(since, opened.now) if since is not None else 0
        if floor and (last is not None or scope.span is not None):
            raise BadQuery("--since goes without --last, a turn or a range")
        found = _touched(
            scope, last, reads, None if scope.view and limit is None else most + 1, floor
        )
        cut = scope.view is None or limit is not None
        shown = found[:most] if cut else found
        if web:
            return print_addresses(
                screen, (web_addresses.file(one.session, one.path) for one in shown)
            )
        if json:
            for change in shown:
                screen.item(documents.file(change))
        else:
            scope.head(screen, f"files of the last {last} turns" if last else "files")
            _tell(screen, scope, found, shown, is_whole=last is None and not floor)
        if len(shown) < len(found):
            report_cut(screen, most, "files", f"-n {most * 2}", asked=limit is not None)
        if not found and scope.view is not None and (gone := _undone(scope.view, scope.span)):
            note(f"{count(gone, 'file')} touched in {scope.shown}, none is different in the end")
            return 0
        if not found:
            none = "no files were touched" + (f" in the last {last} turns" if last else "")
            return scope.report_empty(
                none, lambda wider: bool(_touched(wider, last, reads, 1, floor))
            )
    return 0


def _tell(
    screen: Screen,
    scope: QuestionScope,
    found: Sequence[FileChange],
    shown: Sequence[FileChange],
    *,
    is_whole: bool,
) -> None:
    """Show a list of files, and what it leaves out. `is_whole`: it is about all of the scope, and not of its end."""
    edits = sum(change.edits for change in found)
    changed = _patches(scope) if is_whole and edits <= COUNTED_EDITS else []
    names = scope.opened.names() if scope.view is None else None
    _show(screen, shown, _net_lines(changed), names)
    screen.lines(_uncounted(scope, changed))
    screen.lines(_inherited(scope, shown))
    if is_whole:
        screen.lines(_in_revisions(scope), hang=4)
    if scope.view is not None and edits > COUNTED_EDITS:
        few = f"lines are counted up to {COUNTED_EDITS} edits: name a turn"
        screen.line(Line(few, "dim"))


def _one_file(screen: Screen, scope: QuestionScope, path: str, most: int) -> int:
    """The turns that changed a file, or the files whose paths end so, the newest first."""
    _refuse_part(scope, path)
    found = _turns_of(scope, path, min(most + 1, PAGE_MAX))
    if screen.json:
        for change in found[:most]:
            screen.item(documents.file(change))
    elif found:
        scope.head(screen, f"changes of {path}")
        _show(screen, found[:most], {}, scope.opened.names())
        screen.line()
        screen.line(Line(f"the reasons: stator why {shlex.quote(path)}", "dim"))
    if len(found) > most:
        report_cut(screen, most, "turns", f"-n {most * 2}", asked=True)
    if not found:
        return scope.report_empty(
            f"no file {path} was changed", lambda wider: bool(_turns_of(wider, path, 1))
        )
    return 0


def _refuse_part(scope: QuestionScope, path: str) -> None:
    """Refuse a file of a turn or a range: a diff shows that."""
    if scope.view is not None and scope.span is not None:
        one = shlex.join(["stator", "diff", f"{short(scope.view.id)}:{scope.span}", path])
        raise BadQuery(f"{path!r:.60} and {scope.span!r:.60} are both named", hint=one)


def _turns_of(scope: QuestionScope, path: str, most: int) -> list[FileChange]:
    """What turns did to a file, by what is known of why it is as it is."""
    from stator.runtime.views.reasons.why import ask

    found = ask(
        scope.opened.store.as_read, path, project=scope.project or None, places=recorded_places,
        session=None if scope.view is None else scope.view.id, limit=most,
        folder=scope.opened.store.context.root,
    )  # fmt: skip
    changes = [
        FileChange(
            path=answer.name, op=reduce(net_op, ops), turn=turn.turn, seq=edits[-1].seq,
            root="/" if answer.name.startswith("/") else ".", edits=len(edits), session=turn.session,
        )
        for answer in found.answers
        if answer.kind == "file"
        for turn in answer.turns
        if (edits := [one for one in turn.reasons if one.kind == "edit"])
        and (ops := [one.status for one in edits])
    ]  # fmt: skip
    return changes[:most]


def _since(view: SessionView, floor: int) -> str:
    """The range of the turns of a session that began after a time; empty if none did, or if that is not known."""
    rows = view.turns(prompts=True)
    if not view.row.has_times:
        return ""
    later = [row.turn for row in rows if row.began is not None and row.began.when >= floor]
    return f"t{min(later) - 1}..head" if later else ""


def _undone(view: SessionView, span: str | None) -> int:
    """Files that were made and removed again."""
    changed = view.diff(span) if span is not None else view.diff("t0", "head")
    return changed.transient.get("files", 0)


def _touched(
    scope: QuestionScope, last: int | None, reads: bool, most: int | None, floor: int = 0
) -> list[FileChange]:
    """Files that were touched in a scope, newest session first: bounded in files and in sessions. Of several sessions
    none has what it inherited."""
    found: list[FileChange] = []
    for view in scope.views(LIMIT if most is None else max(LIMIT, most)):
        if floor and view.row.has_times and view.row.updated < floor:
            return found  # those that follow did nothing since either
        span = scope.span if not floor else _since(view, floor)
        if span != "":
            found += view.files(span, last=last, reads=reads, own=scope.view is None)
        if most is not None and len(found) >= most:
            return found[:most]
    return found


def _patches(scope: QuestionScope) -> list[FilePatch]:
    """How each file is different in the end, in one session."""
    if scope.view is None:
        return []
    return scope.view.patch(*([scope.span] if scope.span is not None else ["t0", "head"]))


def _net_lines(changed: Sequence[FilePatch]) -> dict[tuple[str, str], str]:
    """By how many lines each file is different in the end, by root and path."""
    return {
        (one.root, one.path): net(one.added, one.removed)
        for one in changed
        if one.added or one.removed
    }


def _uncounted(scope: QuestionScope, changed: Sequence[FilePatch]) -> Iterator[Line]:
    """Of which files no lines are counted, because their contents were not recorded."""
    lacking = sum(one.reason == UNRECORDED for one in changed)
    if lacking and scope.view is not None:
        from stator.surfaces.cli.parts.output.unrecorded_contents import remedy

        which = "" if lacking == len(changed) else f" of {count(lacking, 'file')}"
        why = f"lines{which} are not counted: contents were not recorded"
        yield Line()
        yield from (Line(told, "dim") for told in (why, remedy(scope.view)) if told)


def _inherited(scope: QuestionScope, shown: Sequence[FileChange]) -> Iterator[Line]:
    """How many files a fork has from its parent and did not touch itself."""
    if scope.view is None or (parent := scope.view.record.parent) is None:
        return
    lent = lent_upto(scope.view.record.lineage)
    if inherited := sum(change.seq <= lent for change in shown):
        many = f"{count(inherited, 'file')} {'was' if inherited == 1 else 'were'} touched only"
        yield Line(f"{many} before the {parent.kind} of {short(parent.session)}", "dim")


def _in_revisions(scope: QuestionScope) -> Iterator[Line]:
    """How many files git names that no recorded edit changed."""
    if scope.view is None:
        return
    port = scope.opened.store.as_read
    after, upto = seqs_of(port, scope.view.id, scope.span)
    upto = scope.view.row.head if upto is None else upto
    found = only_in_revisions(port, scope.view.id, after=after, upto=upto)
    if found:
        some = ", ".join([*list(found)[:REVISIONS], *(["…"] if len(found) > REVISIONS else [])])
        lead = f"revision {some} names" if len(found) == 1 else f"revisions {some} name"
        names = [name for each in found.values() for name in each]
        many = count(len(names), "more file")
        command = f"stator state {short(scope.view.id)} -c revisions --json"
        all_of_them = f" … all: {command}" if len(names) > NAMED else ""
        shown = ", ".join(names[:NAMED]) + all_of_them
        yield Line(f"{lead} {many}, which shell commands may have changed: {shown}", "dim")


def _show(
    screen: Screen,
    found: Sequence[FileChange],
    lines: Mapping[tuple[str, str], str],
    names: Mapping[str, str] | None,
) -> None:
    base = base_of(change.path for change in found)
    if not all(change.path.startswith(f"{base}/") for change in found):
        base = ""  # a path that is elsewhere would read as one in that folder
    cells = [_cells(change, names, lines, base) for change in found]
    screen.lines(table(COLUMNS, cells, screen.width))
    if base:
        screen.lines(["", Line(f"paths are below {base}", "dim")])


def _cells(
    change: FileChange,
    names: Mapping[str, str] | None,
    lines: Mapping[tuple[str, str], str],
    base: str,
) -> list[Line | str]:
    owner = Line()
    if names is not None:
        owner.add(names[change.session], "dim").add(f" {short(change.session)}", TAIL)
    about = outside(change.root, change.path).strip()
    how = f"({change.how})" if change.how != "recorded" else ""
    return [
        Line(change.op, OP_STYLES.get(change.op, "")),
        relative(change.path, base),
        lines.get((change.root, change.path), ""),
        str(change.edits) if change.edits else "",
        f"t{change.turn}",
        Line(f"@{change.seq}", "id"),
        owner,
        Line(" ".join(part for part in (about, how) if part), "dim"),
    ]
