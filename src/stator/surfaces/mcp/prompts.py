"""Prompts: what a person picks to go on with a session, or to hand it over."""

from __future__ import annotations

from dataclasses import dataclass

from stator.errors import InvalidInput, NotFound
from stator.model.views.brief import MAX_TOKENS, MIN_TOKENS, TARGETS
from stator.surfaces.mcp.request_context import Desk
from stator.surfaces.mcp.tools.answers import MARK

TOKENS_MAX = 20_000


@dataclass(frozen=True)
class Prompt:
    """A prompt as clients list it; its arguments are texts, and all of them may be left out."""

    name: str
    title: str
    description: str
    arguments: dict[str, str]
    asks: str
    """What is asked of the model; the brief follows."""


SESSION = "A session: handle or name; default: the newest of this project"
TOKENS = f"At most so many tokens, from {MIN_TOKENS}; default: {MAX_TOKENS}"
PROMPTS = {
    prompt.name: prompt
    for prompt in (
        Prompt(
            "resume",
            "Go on with a session",
            "What stands, what is in doubt and what is next, to go on from.",
            {"session": SESSION, "max_tokens": TOKENS},
            "Go on with this session. Its handle is {handle}: pass it to the stator tools. First settle "
            "what is in doubt, then take up the plan where it stands, and record what you decide.",
        ),
        Prompt(
            "handoff",
            "Hand a session over",
            "A brief for another agent, and what to record before you go.",
            {
                "session": SESSION,
                "max_tokens": TOKENS,
                "target": f"Who reads it: {', '.join(TARGETS)}",
            },
            "Prepare session {handle} to be taken over by somebody who has seen nothing of it. Compare the "
            "brief with what you know; record with the stator tools what is missing (decisions with why, "
            "dead ends, the next plan steps), then answer with what they must do first.",
        ),
    )
}


def get(desk: Desk, name: str, given: dict[str, str]) -> str:
    """The text of a prompt."""
    prompt = PROMPTS[name]
    for argument in given:
        if argument not in prompt.arguments:
            raise InvalidInput(
                f"{name} has no argument {argument!r:.40}", path=f"$.{argument}"[:80]
            )
    wanted = given.get("session", "")
    row = desk.scope.find(wanted) if wanted else desk.scope.newest()
    if row is None:
        raise NotFound("there is no session here yet", hint="the tool open begins one")
    target = given.get("target", "generic")
    if target not in TARGETS:
        raise InvalidInput(
            f"unknown target {target!r:.40}", path="$.target", hint=", ".join(TARGETS)
        )
    brief = desk.scope.view(row).brief(
        max_tokens=_tokens(given.get("max_tokens", "")), target=target
    )
    return f"{prompt.asks.format(handle=row.id)} {MARK}\n\n{brief.text}"


def _tokens(text: str) -> int:
    if not text:
        return MAX_TOKENS
    if not (text.isascii() and text.isdecimal() and MIN_TOKENS <= int(text[:9]) <= TOKENS_MAX):
        raise InvalidInput(f"a whole number from {MIN_TOKENS} to {TOKENS_MAX}", path="$.max_tokens")
    return int(text)
