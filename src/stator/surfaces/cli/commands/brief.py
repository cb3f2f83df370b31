"""`stator brief`: prints what the next agent is told."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, cast

import msgspec

from stator.errors import BadQuery
from stator.model.brief.compose import MAX_TOKENS
from stator.model.brief.doses import PROMPT_TOKENS
from stator.model.brief.sections import Target
from stator.model.values.late_pattern import late
from stator.runtime.base.pages import counts_of
from stator.runtime.base.project_flags import Trash
from stator.runtime.views.as_read import for_one_answer
from stator.runtime.views.reasons.left_out import LeftOutReasons
from stator.runtime.views.refs import rows_of
from stator.surfaces.cli.parts.open_store import OpenedStore, open_to_read
from stator.surfaces.cli.render import documents
from stator.surfaces.cli.render.escape import EscapedText
from stator.surfaces.cli.render.lines import Line
from stator.surfaces.cli.render.record_line import count
from stator.surfaces.cli.render.screen import Screen, note

if TYPE_CHECKING:
    from stator.model.brief.doses import Dose
    from stator.surfaces.cli.options import (
        AfterOption,
        AsOption,
        ForPromptOption,
        JsonFlag,
        MaxTokensOption,
        NoDiskFlag,
        NoPagerFlag,
        ProjectFlag,
        SessionOption,
        StoreOption,
        WholeArgument,
    )

EXAMPLES = """
stator brief                                 what an agent is told that starts here; the last session
stator brief fix-login --as codex --max-tokens 4000 | codex exec -
stator brief --for-prompt "carry on with the login bug"     what an agent is told with this first prompt
stator brief --project                       what an agent is told that starts in this project
stator brief --after 9f2c1e07                begin with what happened since that head
stator brief --json | jq .left_out           what did not fit
"""
INDENT = 2
"""Cells before the later rows of a line."""

_HANDLE = late(r"\bs_[0-9a-f]{32}\b")
FOR_PROMPT = "stator brief --for-prompt '…'"
OF_LAST = "this is the brief of the last session; what an agent is told that starts here: stator brief --project"
COUNTED_IN = 200
"""Sessions, those used last, whose decisions are counted."""


def brief(
    *what: WholeArgument,
    session: SessionOption = None,
    for_prompt: ForPromptOption = None,
    project: ProjectFlag = False,
    max_tokens: MaxTokensOption = MAX_TOKENS,
    as_: AsOption = None,
    after: AfterOption = None,
    no_disk: NoDiskFlag = False,
    store: StoreOption = None,
    json: JsonFlag = False,
    no_pager: NoPagerFlag = False,
) -> int:
    """Print what the next agent is told: of a session, of the --project, with a prompt.

    Of a session: what another agent must know to continue it, within a token budget. With --project: what an agent is
    told that starts in this project. Where no session is named, a terminal shows that first, and then the brief of the
    last session; a pipe gets that brief alone. With --for-prompt: what it is told with that first prompt. The same log
    always gives the same text. Recorded text in it is delimited and labelled with its source.
    """
    if project:
        if what or session is not None or for_prompt is not None or after is not None:
            raise BadQuery(
                "--project is about no session and no prompt", hint="stator brief --project"
            )
        return _at_start(store, json=json, pager=not no_pager)
    if for_prompt is not None:
        if what or session is not None or after is not None:
            raise BadQuery(
                "--for-prompt is about the whole project: it takes no session and no --after"
            )
        return _for_prompt(
            for_prompt, min(max_tokens, PROMPT_TOKENS), store, json=json, pager=not no_pager
        )
    with open_to_read(store) as opened, Screen(json=json, pager=not no_pager) as screen:
        view = opened.store.read(
            opened.whole(what, session, "--after t2 begins with what happened since").id
        )
        made = view.brief(
            max_tokens=max_tokens,
            target=cast("Target", as_ or "generic"),
            since=after,
            disk=not no_disk,
        )
        if json:
            screen.document(documents.BRIEF, documents.brief(made))
        elif screen.is_terminal:
            if not what and session is None:
                _tell_start(screen, opened, _dose(opened))
                screen.line()
                last = f"What continues {view.name}, the session used last, is told:"
                screen.line(Line(last, "title"))
                screen.line()
            _to_read(screen, made.text)
        else:
            screen.raw(f"{made.text}\n".encode())
            if not what and session is None and "STATOR_SESSION" not in os.environ:
                note(OF_LAST)
    return 0


def _at_start(store: str | None, *, json: bool, pager: bool) -> int:
    """Print what an agent is given when it starts a new session in this project."""
    with open_to_read(store) as opened, Screen(json=json, pager=pager) as screen:
        dose = _dose(opened)
        if json:
            screen.document("stator.dose/1", msgspec.to_builtins(dose))
        else:
            _tell_start(screen, opened, dose)
    return 0


def _dose(opened: OpenedStore) -> Dose:
    from stator.runtime.brief.start import Starting, start_dose

    context = opened.store.context
    starting = Starting(session=context.mint("session"))
    return start_dose(opened.store.as_read, context, starting)


def _tell_start(screen: Screen, opened: OpenedStore, dose: Dose) -> None:
    """Show what an agent is given at its start, and that more comes with its first prompt."""
    screen.line(Line("An agent that starts in this project is told:", "title"))
    screen.line()
    _to_read(screen, _HANDLE.sub("s_…", dose.text))  # which session starts next is not known yet
    screen.line()
    words = f"That is all at its start; {_with_prompt(_decisions(opened))}: {FOR_PROMPT}"
    screen.line(Line(words, "dim"), hang=INDENT)
    screen.line(Line("what the project knows: stator state --project", "dim"))


def _with_prompt(decisions: int) -> str:
    """What is told with a first prompt."""
    if not decisions:
        return "what bears on its first prompt is told with that"
    their = "is told with a first prompt that is about it"
    if decisions > 1:
        their = "are told with a first prompt that is about them"
    return f"{count(decisions, 'decision')} in force {their}"


def _decisions(opened: OpenedStore) -> int:
    """How many decisions are in force in the project."""
    store = for_one_answer(opened.store.as_read)
    trash = Trash(store)
    rows = rows_of(store, project=opened.project or None, holds="decisions")
    left_out = LeftOutReasons(store)
    held = (
        row.id
        for row in rows
        if not row.record.adopted and row not in trash and not left_out.why(row.id, row.head)
    )
    return sum(counts_of(store, one).live.get("decisions", 0) for one in islice(held, COUNTED_IN))


def _for_prompt(prompt: str, max_tokens: int, store: str | None, *, json: bool, pager: bool) -> int:
    """Print what an agent is given with a first prompt."""
    with open_to_read(store) as opened, Screen(json=json, pager=pager) as screen:
        dose = opened.store.brief(prompt, max_tokens=max_tokens)
        if json:
            screen.document("stator.dose/1", msgspec.to_builtins(dose))
        elif not dose:
            screen.lines(_why_nothing(prompt, _decisions(opened)), hang=INDENT)
        elif screen.is_terminal:
            _to_read(screen, dose.text)
        else:
            screen.raw(f"{dose.text}\n".encode())
    return 0


def _why_nothing(prompt: str, decisions: int) -> Iterator[Line]:
    """That nothing of the project is about a prompt; what was looked at, and what would be about it."""
    from stator.model.brief.relevance import subject_of

    yield Line("nothing bears on it: an agent is told nothing", "dim")
    subject = subject_of(prompt)
    if subject.is_empty and not subject.follows:
        yield Line("it has no word that says what it is about, and no path or name in code", "dim")
        return
    looked = f"{count(decisions, 'decision')} in force, and what was asked, said and done"
    yield Line(f"looked at: {looked} in the sessions of this project", "dim")
    words = (
        "about a prompt is what has two or more of its rarer words on one line, and a third of them"
    )
    yield Line(f"{words}, or a path or a name in code that it names", "dim")


def _to_read(screen: Screen, text: str) -> None:
    """Print it for a person: wrapped between words, nothing cut."""
    for line in text.split("\n"):
        made = _line(line)
        fits = made.width <= screen.width
        screen.whole([made] if fits else made.wrapped(screen.width, INDENT, rows=len(line) + 1))


def _line(text: str) -> Line:
    # A brief is made of escaped text.
    return Line(EscapedText(text), "title" if text.startswith(("#", "<")) else "")
