"""`stator decisions`: shows the decisions in force."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from stator.errors import NotFound
from stator.model.log.query import check_limit
from stator.runtime.views.as_read import for_one_answer
from stator.runtime.views.reasons.left_out import LeftOutReasons
from stator.runtime.views.session import DecisionLine
from stator.surfaces import web_addresses
from stator.surfaces.cli.parts.open_store import OpenedStore, is_place, open_to_read
from stator.surfaces.cli.parts.page_addresses import print_addresses
from stator.surfaces.cli.parts.question.question_scope import QuestionScope, scope_of
from stator.surfaces.cli.render import documents
from stator.surfaces.cli.render.lines import Line, widest
from stator.surfaces.cli.render.record_line import of_record
from stator.surfaces.cli.render.screen import Screen
from stator.surfaces.cli.render.table import header, report_cut

if TYPE_CHECKING:
    from stator.surfaces.cli.options import (
        AllFlag,
        EverywhereFlag,
        JsonFlag,
        LimitOption,
        NoPagerFlag,
        ProjectFlag,
        RefsArgument,
        SessionOption,
        StoreOption,
        WebFlag,
    )

EXAMPLES = """
stator decisions                   decisions in force, in this project
stator decisions payment           those about a topic
stator decisions fix-login t2      those that this turn made
stator decisions --all             superseded decisions too
stator decisions --superseded      only superseded decisions
stator decisions --everywhere --json  decisions of every project
"""
NAME_CELLS = 24
LIMIT = 50
"""Decisions that are listed of a project, and sessions that are looked at for them, unless asked otherwise."""


def decisions(
    *what: RefsArgument,
    session: SessionOption = None,
    all: AllFlag = False,
    superseded: bool = False,
    limit: LimitOption = None,
    project: ProjectFlag = False,
    everywhere: EverywhereFlag = False,
    web: WebFlag = False,
    store: StoreOption = None,
    json: JsonFlag = False,
    no_pager: NoPagerFlag = False,
) -> int:
    """Show the decisions in force, and the reasons for them.

    Looks in the sessions of this project, most recently used first, or in a session, a turn or a range. A word that
    names no session is a topic.

    Parameters
    ----------
    superseded
        Show only superseded decisions, and what superseded them.
    """
    standing = None if all else not superseded
    most = check_limit(LIMIT if limit is None else limit)
    with open_to_read(store) as opened, Screen(json=json, pager=not no_pager) as screen:
        scope, topic = _asked(opened, what, session, project=project, everywhere=everywhere)
        known = _made(scope, standing, None if scope.view and limit is None else most + 1, topic)
        found = [line for line in known if _is_asked(line, standing, topic)]
        shown = found if scope.view is not None and limit is None else found[:most]
        shown = _for_project(scope, shown)
        kind = "superseded decisions" if superseded else "decisions"
        kind += f" about {topic}" if topic else ""
        if web:
            return print_addresses(
                screen, (web_addresses.decision(one.session, one.id) for one in shown)
            )
        if json:
            for line in shown:
                screen.item(documents.decision(line))
        else:
            scope.head(screen, kind)
            _show(screen, shown, known, opened.names() if scope.view is None else None)
        if len(shown) < len(found):
            report_cut(screen, most, "decisions", f"-n {most * 2}", asked=limit is not None)
        if not found:
            none = f"no {kind}" if superseded or all or topic else "no decisions in force"
            return scope.report_empty(none, lambda wider: bool(_made(wider, standing, 1, topic)))
    return 0


def _asked(
    opened: OpenedStore,
    what: Sequence[str],
    session: str | None,
    *,
    project: bool,
    everywhere: bool,
) -> tuple[QuestionScope, str]:
    """Where to look, and for which topic: a word that names no session is a topic, if decisions here are about it."""
    may_be_topic = len(what) == 1 and not is_place(what[0])
    try:
        if not (may_be_topic and (project or everywhere)):  # with these, a word names no session
            named = scope_of(opened, what, session=session, project=project, everywhere=everywhere)
            return named, ""
    except NotFound:
        if not may_be_topic:
            raise
    topic, scope = (
        what[0],
        scope_of(opened, session=session, project=project, everywhere=everywhere),
    )
    if not _made(scope, None, 1, topic):
        where = "any project" if scope.everywhere else scope.shown
        missing = f"no decision in {where} is about {topic!r:.80}, and no session has that name"
        raise NotFound(missing, hint=_elsewhere(scope, topic))
    return scope, topic


def _elsewhere(scope: QuestionScope, topic: str) -> str:
    """Where there are decisions about a topic, if there are; else how to look further."""
    for wider, how in scope.wider():
        if _made(wider, None, 1, topic):
            return f"there are some in {wider.shown}: {how}"
    return "all of them: stator decisions; in everything that was recorded: stator search"


def _is_asked(line: DecisionLine, standing: bool | None, topic: str) -> bool:
    is_about = not topic or topic.casefold() in _text(line).casefold()
    return is_about and (standing is None or line.stands is standing)


def _text(line: DecisionLine) -> str:
    """What a decision says: its topic, what was decided, over what and why."""
    if line.erased is not None:
        return ""
    record = line.record
    return "\n".join((record.topic, record.what, record.why, *record.over))


def _made(
    scope: QuestionScope, standing: bool | None, most: int | None, topic: str
) -> list[DecisionLine]:
    """The decisions of a scope, newest session first, until enough are found that are as asked; none if none is."""
    known: list[DecisionLine] = []
    count = 0
    for view in scope.views(LIMIT if most is None else max(LIMIT, most)):
        lines = view.decisions(scope.span)
        known += lines
        count += sum(_is_asked(line, standing, topic) for line in lines)
        if most is not None and count >= most:
            break
    return known if count else []


def _for_project(scope: QuestionScope, shown: Sequence[DecisionLine]) -> list[DecisionLine]:
    """Decisions of several sessions: one of an attempt that was not adopted is in force only in that session."""
    if scope.view is not None:
        return [*shown]
    left_out = LeftOutReasons(for_one_answer(scope.opened.store.as_read))
    whys = [left_out.why(line.session, line.seq) if line.stands else "" for line in shown]
    return [
        msgspec.structs.replace(line, stands=False, left_out=why) if why else line
        for line, why in zip(shown, whys, strict=True)
    ]


def _show(
    screen: Screen,
    shown: Sequence[DecisionLine],
    known: Sequence[DecisionLine],
    names: Mapping[str, str] | None,
) -> None:
    by_id = {line.id: line for line in known}
    room = 0 if names is None else widest((names[one.session] for one in shown), NAME_CELLS) + 2
    if shown:
        session = [] if names is None else [("SESSION", room)]
        screen.line(header(("", 2), *session, ("TURN", 5), ("AT", 7), ("DECISION AND REASON", 0)))
    for one in shown:
        line = Line("✓ ", "ok") if one.stands else Line("≈ ", "superseded")
        line = Line("- ", "dim") if one.left_out else line
        if names is not None:
            line.add(names[one.session], "dim", width=room - 2).add("  ")
        screen.line(line.extend(_line(one, by_id)), hang=14 + room)


def _line(line: DecisionLine, by_id: dict[str, DecisionLine]) -> Line:
    shown = Line().add(f"t{line.turn}", "dim", width=5).add(f"@{line.seq}", "id", width=7)
    shown.extend(of_record(line.recorded))
    if line.left_out:
        return shown.add(f" · {line.left_out}", "dim")
    if not line.stands and (line.by or line.erased is None):
        after = by_id.get(line.by)
        what = after.record.what if after else ""
        shown.add(f" → superseded by {what}" if what else " → superseded", "superseded")
    return shown
