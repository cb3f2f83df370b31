"""`stator recap`: shows what the last sessions were asked, did, and how they ended."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

from stator.model.log.query import PAGE_MAX, check_limit
from stator.model.views.recap import SessionRecap
from stator.runtime.views.reasons.recap import LIMIT
from stator.runtime.views.reasons.recap import recap as read_recap
from stator.surfaces.cli.parts.open_store import open_to_read
from stator.surfaces.cli.render.lines import Line, widest
from stator.surfaces.cli.render.record_line import brief
from stator.surfaces.cli.render.screen import Screen
from stator.surfaces.cli.render.table import header, report_cut
from stator.surfaces.cli.render.times import moment, parse_since
from stator.surfaces.cli.render.waiting_calls import settled_words

if TYPE_CHECKING:
    from stator.surfaces.cli.options import (
        EverywhereFlag,
        JsonFlag,
        LimitOption,
        NoPagerFlag,
        RecapArgument,
        SinceOption,
        StoreOption,
    )

EXAMPLES = """
stator recap                       the last ten sessions of this project
stator recap -n 3                  the last three
stator recap --since 2d            those used in the last two days
stator recap fix-login             one session
stator recap --json | jq -r .asked
"""
LABEL = 12
BESIDE = 140
"""From this width on, the three lines are beside the name of the session, else below it."""
WHEN_CELLS, NAME_CELLS, AGENT_CELLS = 17, 24, 14


def recap(
    *sessions: RecapArgument,
    since: SinceOption = None,
    everywhere: EverywhereFlag = False,
    limit: LimitOption = None,
    store: StoreOption = None,
    json: JsonFlag = False,
    no_pager: NoPagerFlag = False,
) -> int:
    """Show what the last sessions were asked, did, and how they ended.

    Newest first. What was done and how it ended comes from records: files, revisions, plan steps, calls. The agent's
    last words are shown as its words. Sub-agents count with the session that started them.
    """
    most = check_limit(LIMIT if limit is None else limit)
    with open_to_read(store) as opened, Screen(json=json, pager=not no_pager) as screen:
        floor = parse_since(since, opened.now) if since is not None else 0
        found = read_recap(
            opened.store.as_read,
            project=None if everywhere else opened.project or None,
            sessions=[opened.session(name).id for name in sessions],
            since=floor,
            limit=min(most + 1, PAGE_MAX),
        )
        is_cut = len(found) > most and not sessions
        found = found if sessions else found[:most]
        if json:
            for one in found:
                screen.item(as_json(one))
        else:
            _show(screen, found)
        if is_cut:
            report_cut(screen, most, "sessions", f"-n {most * 2}", asked=limit is not None)
        if not found:
            other = "" if everywhere else "; --everywhere looks in every project"
            return opened.report_empty(f"no sessions to recap{other}")
    return 0


def as_json(one: SessionRecap) -> dict[str, object]:
    """A recap as JSON: its fields, and both lines in words."""
    return {**msgspec.to_builtins(one), "did": one.did, "ended": one.ended}


def _show(screen: Screen, found: list[SessionRecap]) -> None:
    names = widest((one.name for one in found), NAME_CELLS)
    agents = widest((one.agent for one in found), AGENT_CELLS)
    beside = screen.width >= BESIDE
    if beside and found:
        titles = (("WHEN", WHEN_CELLS + 2), ("SESSION", names + 2), ("AGENT", agents + 2))
        screen.line(header(*titles, ("WHAT", 0)))
    for place, one in enumerate(found):
        if place and not beside:
            screen.line()
        head = Line().add(_day(one), "dim", width=WHEN_CELLS).add("  ")
        head.add(one.name, "bold", width=names).add("  ").add(one.agent, "dim", width=agents).add(
            "  "
        )
        indent = head.width if beside else 2
        if not beside:
            screen.line(head)
        for row, line in enumerate(_lines(one)):
            front = head if beside and not row else Line(" " * indent)
            screen.line(Line().extend(front).extend(line), hang=indent + LABEL)


def _day(one: SessionRecap) -> str:
    return moment(one.at) if one.times_known else "times unknown"


def _lines(one: SessionRecap) -> Iterator[Line]:
    def labelled(label: str) -> Line:
        return Line().add(label, "dim", width=LABEL)

    if one.retry_of:
        yield labelled("retry of").add(brief(one.retry_of))
    yield labelled("asked").add(brief(one.asked, 300) or "(no prompt is recorded)")
    if one.asked_last:
        line = labelled("asked last").add(f"t{one.asked_last_turn}  ", "dim")
        yield line.add(brief(one.asked_last, 300))
    for place, decision in enumerate(one.decided):
        yield labelled("" if place else "decided").add(brief(decision, 200))
    yield labelled("did").add("; ".join(one.did))
    if one.subjects:
        more = len(one.revisions) - 1
        line = labelled("").add("revision: ", "dim").add(brief(one.subjects[0], 200))
        yield line.add(f", and {more} more" if more > 0 else "", "dim")
    if one.said:
        line = labelled("").add("the agent's last words: ", "dim")
        line.add(f"“{brief(one.said, 200)}”")
        yield line.add(f"  t{one.said_turn}" if one.said_turn != one.turns else "", "dim")
    for call in one.settled:
        yield labelled("settled").extend(settled_words(call))
    ended = labelled("ended")
    for place, words in enumerate(one.ended):
        ended.add("; " if place else "")
        ended.add(
            words, "doubt" if words.startswith(("in doubt", "waiting", "interrupted")) else ""
        )
    yield ended
