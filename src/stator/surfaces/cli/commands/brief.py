"""`stator brief`: prints what the next agent is told."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import msgspec

from stator.errors import BadQuery
from stator.model.brief.compose import MAX_TOKENS
from stator.model.brief.doses import PROMPT_TOKENS
from stator.model.brief.sections import Target
from stator.surfaces.cli.parts.open_store import open_to_read
from stator.surfaces.cli.render import documents
from stator.surfaces.cli.render.escape import EscapedText
from stator.surfaces.cli.render.lines import Line
from stator.surfaces.cli.render.screen import Screen, note

if TYPE_CHECKING:
    from stator.surfaces.cli.options import (
        AfterOption,
        AsOption,
        ForPromptOption,
        JsonFlag,
        MaxTokensOption,
        NoDiskFlag,
        NoPagerFlag,
        ProjectFlag,
        RefsArgument,
        SessionOption,
        StoreOption,
    )

EXAMPLES = """
stator brief                                 the last session
stator brief fix-login --as codex --max-tokens 4000 | codex exec -
stator brief --for-prompt "carry on with the login bug"     what an agent is told with this first prompt
stator brief --project                       what an agent is told that starts in this project
stator brief --after 9f2c1e07                begin with what happened since that head
stator brief --json | jq .left_out           what did not fit
"""
INDENT = 2
"""Cells before the later rows of a line."""

FOR_PROMPT = "stator brief --for-prompt TEXT"
OTHERS = (
    f"what an agent is told of the project: stator brief --project, with a prompt: {FOR_PROMPT}"
)


def brief(
    *what: RefsArgument,
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
    told that starts in this project. With --for-prompt: what it is told with that first prompt. The same log always
    gives the same text. Recorded text in it is delimited and labelled with its source.
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
            _to_read(screen, made.text)
            if not what and session is None:
                note(f"this is the brief of {view.name}, the session used last; {OTHERS}")
        else:
            screen.raw(f"{made.text}\n".encode())
    return 0


def _at_start(store: str | None, *, json: bool, pager: bool) -> int:
    """Print what an agent is given when it starts a new session in this project."""
    from stator.runtime.brief.start import Starting, start_dose

    with open_to_read(store) as opened, Screen(json=json, pager=pager) as screen:
        context = opened.store.context
        starting = Starting(session=context.mint("session"))
        dose = start_dose(opened.store.as_read, context, starting)
        if json:
            screen.document("stator.dose/1", msgspec.to_builtins(dose))
            return 0
        screen.line(Line("An agent that starts in this project is told:", "title"))
        screen.line()
        _to_read(screen, dose.text)
        screen.line()
        screen.line(Line(f"Then, with its first prompt, what bears on that: {FOR_PROMPT}", "dim"))
        screen.line(Line("What the project knows: stator state --project", "dim"))
    return 0


def _for_prompt(prompt: str, max_tokens: int, store: str | None, *, json: bool, pager: bool) -> int:
    """Print what an agent is given with a first prompt."""
    with open_to_read(store) as opened, Screen(json=json, pager=pager) as screen:
        dose = opened.store.brief(prompt, max_tokens=max_tokens)
        if json:
            screen.document("stator.dose/1", msgspec.to_builtins(dose))
        elif not dose:
            screen.line(Line("nothing bears on it: an agent is told nothing", "dim"))
        elif screen.is_terminal:
            _to_read(screen, dose.text)
        else:
            screen.raw(f"{dose.text}\n".encode())
    return 0


def _to_read(screen: Screen, text: str) -> None:
    """Print it for a person: wrapped between words, nothing cut."""
    for line in text.split("\n"):
        made = _line(line)
        fits = made.width <= screen.width
        screen.whole([made] if fits else made.wrapped(screen.width, INDENT, rows=len(line) + 1))


def _line(text: str) -> Line:
    # A brief is made of escaped text.
    return Line(EscapedText(text), "title" if text.startswith(("#", "<")) else "")
