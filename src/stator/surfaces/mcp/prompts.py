"""Builds the prompts a person can pick: continue a session, or hand it over."""

from __future__ import annotations

from dataclasses import dataclass

from stator.errors import InvalidInput, NotFound
from stator.model.brief.compose import MAX_TOKENS, MIN_TOKENS
from stator.model.brief.sections import TARGETS
from stator.model.log.shown_text import cut_short
from stator.model.values.escape import visible
from stator.surfaces.mcp.request_context import RequestContext
from stator.surfaces.mcp.tools.answers import DATA_NOTE

TOKENS_MAX = 20_000
NAME_MAX = 80
"""Characters of a recorded name among our words."""


@dataclass(frozen=True)
class PromptDefinition:
    """A prompt as clients list it; its arguments are texts and all optional."""

    name: str
    title: str
    description: str
    arguments: dict[str, str]
    instructions: str
    """What the model is asked to do; the brief follows."""


SESSION = "Handle or name of a session; default: the newest of this project"
TOKENS = f"Maximum tokens of the brief, at least {MIN_TOKENS}; default: {MAX_TOKENS}"
PROMPTS = {
    prompt.name: prompt
    for prompt in (
        PromptDefinition(
            "resume",
            "Continue a session",
            "The current state, calls in doubt and next steps, to continue from.",
            {"session": SESSION, "max_tokens": TOKENS},
            "Continue the session «{name}», which «{agent}» began. Its handle is {handle}: pass it as `session` to the "
            "stator_ tools. Find out first how the calls in doubt ended, and stator_settle them. Then continue the "
            "plan, and stator_record what the user asks and what you decide, with why.",
        ),
        PromptDefinition(
            "handoff",
            "Hand a session over",
            "A brief for another agent, and what to record before you leave.",
            {
                "session": SESSION,
                "max_tokens": TOKENS,
                "target": f"Who reads it: {', '.join(TARGETS)}",
            },
            "Prepare the session «{name}» ({handle}) for another agent that has seen nothing of it. Compare the brief "
            "with what you know; stator_record what is missing (decisions with why, dead ends, the next plan steps). "
            "Then answer with what the next agent must do first.",
        ),
    )
}


def get(request: RequestContext, name: str, given: dict[str, str]) -> str:
    """Return the text of a prompt."""
    prompt = PROMPTS[name]
    for argument in given:
        if argument not in prompt.arguments:
            raise InvalidInput(
                f"{name} has no argument {argument!r:.40}", path=f"$.{argument}"[:80]
            )
    wanted = given.get("session", "")
    row = request.scope.find(wanted) if wanted else request.scope.newest()
    if row is None:
        raise NotFound(
            "this project has no session yet", hint="stator_open with a purpose creates one"
        )
    target = given.get("target", "generic")
    if target not in TARGETS:
        raise InvalidInput(
            f"unknown target {target!r:.40}", path="$.target", hint=", ".join(TARGETS)
        )
    brief = request.scope.view(row).brief(
        max_tokens=_tokens(given.get("max_tokens", "")), target=target
    )
    asked = prompt.instructions.format(
        handle=row.id,
        name=visible(cut_short(row.record.name, NAME_MAX)),
        agent=visible(cut_short(row.record.agent, NAME_MAX)) or "a program or a person",
    )
    return f"{asked} {DATA_NOTE}\n\n{brief.text}"


def _tokens(text: str) -> int:
    if not text:
        return MAX_TOKENS
    if not (text.isascii() and text.isdecimal() and MIN_TOKENS <= int(text[:9]) <= TOKENS_MAX):
        raise InvalidInput(
            f"max_tokens must be a whole number from {MIN_TOKENS} to {TOKENS_MAX}",
            path="$.max_tokens",
        )
    return int(text)
