"""The first page: what waits for a person, one card a decision, then what runs and what ended lately."""

from __future__ import annotations

from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from stator.model.exchange.tool_files import is_shell
from stator.model.views.open_calls import AGENT_ENDED, DIED, NO_RESULT
from stator.runtime.driving import policy
from stator.runtime.facade.outside import person_needs
from stator.runtime.views.glance.listed import total
from stator.runtime.views.glance.needs import ClaimedStep, NeededCall, Needs
from stator.runtime.views.glance.status import AtWork
from stator.surfaces.cli.render.record_line import arguments
from stator.surfaces.cli.render.times import span
from stator.surfaces.cli.render.turns.subject import subject_of
from stator.surfaces.http.served import served
from stator.surfaces.web.page import render

CARDS_MAX = 60
OLD_MAX = 20
"""Calls in doubt that are listed although nobody is asked about them."""
CALL_MAX = 160
"""Characters of a call that a title shows."""
NUMBERS = "No One Two Three Four Five Six Seven Eight Nine Ten".split()
ASKED = {
    "pay": "Paid", "charge": "Charged", "refund": "Refunded", "transfer": "Transferred", "order": "Ordered",
    "book": "Booked", "send": "Sent", "email": "Sent", "post": "Posted", "publish": "Published",
    "write": "Written", "edit": "Edited", "create": "Created", "insert": "Inserted", "update": "Updated",
    "delete": "Deleted", "remove": "Removed", "upload": "Uploaded", "deploy": "Deployed", "push": "Pushed",
    "merge": "Merged", "commit": "Committed", "migrate": "Migrated", "bash": "Run", "shell": "Run", "exec": "Run",
}  # fmt: skip
"""The first word of a tool's name → what is asked about a call of it that is in doubt."""
CAUSES = {
    DIED: "its process died",
    AGENT_ENDED: "the agent's program ended",
    NO_RESULT: "no result was recorded",
}


class NeedCard(msgspec.Struct, frozen=True):
    """One decision: which kind, and what its template is given."""

    kind: str
    about: Any


def home(request: Request) -> Response:
    store = served(request).store
    found = person_needs(store.port, store.context)
    cards = _cards(found)
    return render(
        request,
        "needs.html",
        tab="needs",
        needs=found,
        cards=cards[:CARDS_MAX],
        more=max(0, len(cards) - CARDS_MAX),
        title=_title(len(cards)),
        several=len(found.projects) > 1,
        old=found.old_doubts[:OLD_MAX],
        demand=policy.proof(store.context),
        spent=total([one.seen.cost for one in found.running]),
        call_text=call_text,
        question=question,
        then=then,
        doing=doing,
        claim_title=claim_title,
        claim_word=claim_word,
    )


def _cards(found: Needs) -> list[NeedCard]:
    """Worst first: what may have happened, who waits, what is contradicted, what asks to be looked at."""
    kinds: list[tuple[str, list[Any]]] = [
        ("doubt", found.doubts),
        ("approval", [one for one in found.approvals if not one.answer]),
        (
            "conflict",
            [{"project": project, "entry": entry} for project, entry in found.conflicts or ()],
        ),
        ("claim", found.claims),
        ("shared", found.shared),
        ("flag", found.flags),
    ]
    return [NeedCard(kind, one) for kind, several in kinds for one in several]


def _title(count: int) -> str:
    if not count:
        return "Nothing needs you"
    number = NUMBERS[count] if count < len(NUMBERS) else str(count)
    return f"{number} thing{'' if count == 1 else 's'} need{'s' if count == 1 else ''} you"


def call_text(call: NeededCall) -> str:
    """`pay(to=ACME, cents=4200)`, on one line; of a shell, the command alone."""
    given = call.intent.known("input") if call.intent is not None else None
    shown = arguments(given) if given is not None else "…"
    is_command = given is not None and is_shell(call.record.tool)
    text = subject_of(given).words if is_command else f"{call.record.tool}({shown})"
    return text if len(text) <= CALL_MAX else text[: CALL_MAX - 1] + "…"


def question(call: NeededCall) -> str:
    """What is asked about a call in doubt: "Paid or not?"."""
    word = call.record.tool.replace("-", "_").partition("_")[0].lower()
    return f"{ASKED.get(word, 'Done')} or not?"


def then(call: NeededCall) -> str:
    """What happened after a call in doubt began."""
    cause = CAUSES.get(call.record.cause, call.record.cause or "no result was recorded")
    later = call.last - call.since
    when = f", {span(later)} later" if call.since and later >= 1_000_000 else ""
    return f"{cause}{when}. No outcome was recorded, and it was not run again."


def claim_word(claim: ClaimedStep) -> str:
    """Why a step that is called done cannot be believed."""
    because = claim.step.because
    if "failed" in because:
        return "claimed, check fails"
    return "claimed, changed since" if claim.step.shown_by else "claimed, never checked"


def claim_title(claim: ClaimedStep) -> str:
    """The same as the end of a sentence about the step."""
    return {
        "claimed, check fails": "is called done, but its check fails",
        "claimed, changed since": "is called done, but something changed since its check",
        "claimed, never checked": "is called done, but its check never ran",
    }[claim_word(claim)]


def doing(running: AtWork, now: int) -> str:
    """What a session is at, in a few words."""
    one, parts = running.seen, []
    if one.call is not None:
        given = running.intent.known("input") if running.intent is not None else None
        about = subject_of(given).words[:CALL_MAX] if is_shell(one.call.tool) else ""
        parts.append(f"{about or one.call.tool}, {span(now - one.since)} so far")
        if one.calls > 1:
            parts.append(f"{one.calls} calls at once")
    elif one.waiting:
        parts.append("waits for you")
    else:
        parts.append("writing its answer" if one.turn_open else "between turns")
    if one.total:
        parts.append(f"plan {one.done} of {one.total}")
    return "; ".join(parts)


def needs_count(request: Request) -> Response:
    """How many cards the first page has: a script asks for it on every other page."""
    store = served(request).store
    number = len(_cards(person_needs(store.port, store.context)))
    return render(request, "needs_count.html", number=number)


ROUTES = (Route("/", home), Route("/needs/count", needs_count))
