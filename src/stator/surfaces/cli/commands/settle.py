"""`stator settle`: records whether a call in doubt happened."""

from __future__ import annotations

import json as jsons
from typing import TYPE_CHECKING, Any, cast

import msgspec
from msgspec import UNSET

from stator.errors import BadQuery
from stator.model.values import canon
from stator.model.values.ids import short
from stator.runtime.driving import settlement
from stator.runtime.driving.settlement import Verdict
from stator.runtime.views.glance.overview import waiting_calls
from stator.surfaces.cli.exits import FINDING
from stator.surfaces.cli.parts.confirm import agreed, can_ask
from stator.surfaces.cli.parts.open_store import OpenedStore, open_to_read, open_to_write
from stator.surfaces.cli.parts.output.tell_doubt import tell
from stator.surfaces.cli.render.lines import Line
from stator.surfaces.cli.render.screen import Screen, note
from stator.surfaces.cli.render.session_words import typed_name
from stator.surfaces.cli.render.times import stamp
from stator.surfaces.cli.render.waiting_calls import (
    as_json,
    call_text,
    doubt_lines,
    older_words,
)

if TYPE_CHECKING:
    from stator.surfaces.cli.options import (
        EverywhereFlag,
        JsonFlag,
        NoPagerFlag,
        SessionOption,
        StoreOption,
        Text,
        WhyOption,
        YesFlag,
    )

EXAMPLES = """
stator settle                      list the calls in doubt of this project
stator settle c_7f2a91bc           all that is known of this one
stator settle c_7f2a91bc --done    it happened
stator settle 7f2a91bc --done --value '{"id": "re_1Nx"}'
stator settle 7f2a91bc --not-done --why "not in the bank's log"
stator settle 7f2a91bc --run-again
"""
STOPPED = ("interrupted", "paused")
UNFINISHED = ("", "interrupted", "aborted", "cancelled")
"""Statuses of a turn that a program continues, once nothing in it is in doubt."""


def settle(
    call: Text = None,
    /,
    *,
    done: bool = False,
    not_done: bool = False,
    run_again: bool = False,
    value: str | None = None,
    why: WhyOption = "",
    yes: YesFlag = False,
    session: SessionOption = None,
    everywhere: EverywhereFlag = False,
    store: StoreOption = None,
    json: JsonFlag = False,
    no_pager: NoPagerFlag = False,
) -> int:
    """Record whether a call in doubt happened.

    A verdict without a call is about the only call in doubt of this project: it is shown, and on a terminal you are
    asked; elsewhere add --yes. If there are several, name one. A call without a verdict shows all that is known of
    it; the exit code is then 1 while it is in doubt, and 0 once it is settled.

    Parameters
    ----------
    call
        The id of the call, or the last characters of it; without one, calls in doubt are listed.
    done
        It happened.
    not_done
        It did not happen, and must not be run again.
    run_again
        It did not happen; the next driver of the session may run it again.
    value
        The value it returned, as JSON; only with --done.
    """
    verdicts = {"done": done, "not done": not_done, "run again": run_again}
    given = [verdict for verdict, is_given in verdicts.items() if is_given]
    if call is None:
        if not given and value is None:
            return _list(session, everywhere, store, json=json, no_pager=no_pager)
        call = _only_one(session, everywhere, store, (given or ["done"])[0], yes=yes, json=json)
        if call is None:
            return 0
    if not given and value is None:
        if _show_doubt(call, session, store, json=json):
            return FINDING
        if _show_ended(call, session, store, json=json):
            return 0
    if len(given) != 1:
        raise BadQuery(
            "use exactly one of --done, --not-done and --run-again",
            hint=f"stator settle {call} --done | --not-done | --run-again",
        )
    with open_to_write(store) as opened, Screen(json=json, pager=not no_pager) as screen:
        context = opened.store.context
        found = settlement.settle(
            opened.store.port,
            context,
            call,
            cast("Verdict", given[0]),
            by=context.principal,
            value=_value(value),
            why=why,
            session=opened.session(session).id if session is not None else None,
        )
        if json:
            screen.document("stator.settled/1", msgspec.structs.asdict(found))
        else:
            line = Line("settled: ").add(found.tool, "bold").add(f" {found.verdict} · call ")
            line.add(short(found.call), "id").add(f" · {found.name} ", "dim")
            line.add(f"@{found.seq}", "id")
            screen.line(line.add(f" · because {found.why}" if found.why else ""), hang=4)
            if _waits_to_continue(opened, found.session):
                row = opened.store.port.session(found.session)
                screen.line(Line(f"next: stator resume {typed_name(row)}", "dim"))
    return 0


def _waits_to_continue(opened: OpenedStore, session: str) -> bool:
    """Whether a session stopped in the middle of its last turn, and a program can continue it."""
    port = opened.store.port
    if port.session(session).shown not in STOPPED:
        return False
    last = port.turns(session, newest_first=True, limit=1)
    return bool(last) and last[0].status in UNFINISHED


def _value(text: str | None) -> Any:
    """Parse the value of --value, which is JSON."""
    if text is None:
        return UNSET
    try:
        return canon.from_plain(canon.to_plain(jsons.loads(text)))
    except ValueError as error:
        raise BadQuery(
            f"--value is not JSON: {error}", hint="text needs quotes: '\"ok\"'"
        ) from None


def _only_one(
    session: str | None,
    everywhere: bool,
    store: str | None,
    verdict: str,
    *,
    yes: bool,
    json: bool,
) -> str | None:
    """The call that a verdict without a call is about: the only one that is in doubt. None if the person who is asked
    does not agree."""
    with open_to_read(store) as opened:
        one = opened.session(session).id if session is not None else None
        found, older = _doubts(opened, one, None if everywhere or one else opened.project)
        if not found:
            more = f"; older ones: {older:,}, stator calls --open" if older else ""
            raise BadQuery(
                "no call is in doubt that it could be about", hint=f"name the call{more}"
            )
        first, flag = found[0], f"--{verdict.replace(' ', '-')}"
        about = f"{call_text(first.tool, first.arguments).plain} in {first.name}"
        command = f"stator settle {short(first.call)} {flag}"
        # Which of several is meant, nobody but the person knows; an old one may be.
        if len(found) > 1 or (older and yes):
            others = f"; stator settle lists all {len(found)}" if len(found) > 1 else ""
            others += f"; {older:,} older: stator calls --open" if older else ""
            raise BadQuery(f"name the call: {about} is in doubt", hint=command + others)
        if yes:
            return first.call
        if json or not can_ask():
            raise BadQuery(f"name the call, or add --yes: {about} is in doubt", hint=command)
        with Screen(pager=False) as screen:
            tell(screen, opened, first, is_asked=True)
    if agreed(f"Settle it as {verdict}?", json=json):
        return first.call
    note("nothing was settled")
    return None


def _list(
    session: str | None, everywhere: bool, store: str | None, *, json: bool, no_pager: bool
) -> int:
    with open_to_read(store) as opened, Screen(json=json, pager=not no_pager) as screen:
        one = opened.session(session).id if session is not None else None
        scope = None if everywhere or one else opened.project
        found, older = _doubts(opened, one, scope)
        for item in found:
            if json:
                screen.item(as_json(item))
            elif len(found) == 1:
                tell(screen, opened, item)
            else:
                screen.lines(doubt_lines(item), hang=4)
        wider = " --everywhere" if everywhere else ""
        more = f"{older_words(older)}: stator calls --open{wider}" if older else ""
        if not found:
            where = "" if everywhere or one else " in this project"
            return opened.report_empty(f"no call is in doubt{where}{more and f'; older: {more}'}")
        if more and not json:
            screen.lines(["", Line(f"older: {more}", "dim")])
    return 0


def _doubts(
    opened: OpenedStore, session: str | None, project: str | None
) -> tuple[list[settlement.Doubt], int]:
    """The calls in doubt that a person is asked about, and how many are too old for that."""
    store = opened.store.as_read
    if session is not None:
        return settlement.doubts(store, session=session), 0
    waiting = waiting_calls(store, project)
    rows = map(store.session, waiting.sessions)
    return settlement.doubts_in(store, rows), waiting.old_doubts


def _show_doubt(call: str, session: str | None, store: str | None, *, json: bool) -> bool:
    """Show a call in doubt with all that is known of it; whether there is such a call."""
    with open_to_read(store) as opened, Screen(json=json) as screen:
        one = opened.session(session).id if session is not None else None
        found = settlement.doubt_of(opened.store.as_read, call, session=one)
        if found is None:
            return False
        if json:
            screen.item(as_json(found))
        else:
            tell(screen, opened, found)
    return True


def _show_ended(call: str, session: str | None, store: str | None, *, json: bool) -> bool:
    """Say how a call ended that is not in doubt, or not any more; whether it ended."""
    with open_to_read(store) as opened, Screen(json=json) as screen:
        one = opened.session(session).id if session is not None else None
        found = settlement.ended(opened.store.as_read, call, session=one)
        if found is None:
            return False
        if json:
            screen.document("stator.ended/1", msgspec.structs.asdict(found))
            return True
        line = Line(f"{'already ' if found.is_settled else 'not in doubt: it '}{found.how}", "bold")
        screen.line(line.add(f" · {stamp(found.at)}", "dim").add(f" @{found.seq}", "id"))
        line = Line(found.tool).add(" · call ", "dim").add(short(found.call), "id")
        line.add(f" of {found.name}", "dim")
        screen.line(line.add(f" · stator show {short(found.call)}", "dim"))
    return True
