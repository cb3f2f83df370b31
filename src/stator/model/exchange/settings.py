"""Settings: what an agent runs with, as values that are recorded, and which of them changed. Pure.

Names that have a meaning: `model`, `system_prompt` (digest and first line), `temperature`, `top_p`, `max_tokens`,
`reasoning_effort`, `permission_mode`, `sandbox`, `approval_policy`, `instructions` (files and their digests), `tools`
(a digest of the tool set) and `version` (of the agent). Any other name is recorded, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stator.errors import StatorError
from stator.model.exchange.items import DIGEST_DIGITS, digest_of
from stator.model.log.commit import Change, Remove, Upsert
from stator.model.log.shown_text import cut_short
from stator.model.records.types import SettingRecord
from stator.model.values import canon
from stator.model.values.digest import sha256

NAMES_MAX = 100
"""Settings of one conversation that are remembered; one with more of them is not telling settings."""
FIRST_MAX = 200
"""Characters of a prompt's first line."""
VALUE_MAX = 4_000
"""Bytes of a value; of a larger one the digest is recorded, and of a text how it begins."""


def prompt_value(text: str) -> dict[str, str]:
    """What is recorded of a prompt: its digest, and the first line that says something."""
    first = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return {"digest": digest_of(text), "first": cut_short(first, FIRST_MAX)}


def set_digest(parts: Mapping[str, str]) -> str:
    """One digest of a set of named things, in any order, that have digests of their own."""
    return digest_of("\n".join(f"{name}\0{digest}" for name, digest in sorted(parts.items())))


def bounded(value: Any) -> Any:
    """A value that a record can hold, whatever it was."""
    try:
        data = canon.dumps(value)
    except StatorError as error:
        return f"(not recorded: {error})"[:FIRST_MAX]
    if len(data) <= VALUE_MAX:
        return value
    if isinstance(value, str):
        return prompt_value(value)
    # nothing of its text: a secret in the middle of JSON is not recognised by what stands around it
    return {"digest": digest_of(data), "bytes": len(data)}


def fingerprint(value: Any, scrub: canon.Scrub | None = None) -> str:
    """What a value is compared by: it is kept where the value itself must not be."""
    return sha256(canon.dumps(value, scrub=scrub)).hexdigest()[:DIGEST_DIGITS]


def changes_of(known: dict[str, str], settings: Mapping[str, Any]) -> tuple[Change, ...]:
    """The changes that settings make to those that are `known` by their fingerprints, which is brought up to date.
    None as a value means that the setting no longer applies."""
    changes: list[Change] = []
    for name, given in settings.items():
        if given is None:
            if known.pop(name, None) is not None:
                changes.append(Remove("settings", name))
            continue
        value = bounded(given)
        mark = fingerprint(value)
        if known.get(name) == mark or (name not in known and len(known) >= NAMES_MAX):
            continue
        known[name] = mark
        changes.append(Upsert("settings", SettingRecord(name=name, value=value)))
    return tuple(changes)


_OPTIONS = {
    "model": "model",
    "temperature": "temperature",
    "top_p": "top_p",
    "top_k": "top_k",
    "seed": "seed",
    "max_tokens": "max_tokens",
    "max_output_tokens": "max_tokens",
    "max_completion_tokens": "max_tokens",
    "reasoning_effort": "reasoning_effort",
}
"""Options of a request to a model → the setting each of them is."""
_SYSTEM = ("system", "instructions", "system_instruction")
"""Where providers take the system prompt."""


def request_settings(options: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that a request to a model shows, by the names that providers have for them. The system prompt
    is in there as text. An option that is missing says nothing."""
    found = {
        name: options[option]
        for option, name in _OPTIONS.items()
        if isinstance(options.get(option), (str, int, float))
    }
    reasoning, thinking = options.get("reasoning"), options.get("thinking")
    if isinstance(reasoning, Mapping) and isinstance(reasoning.get("effort"), str):
        found["reasoning_effort"] = reasoning["effort"]
    if isinstance(thinking, Mapping):
        found["thinking"] = dict(thinking)
    prompt = next(filter(None, (prompt_text(options.get(name)) for name in _SYSTEM)), "")
    prompt = prompt or _system_message(options.get("messages") or options.get("input"))
    if prompt:
        found["system_prompt"] = prompt
    inner = options.get("config")
    return {**request_settings(inner), **found} if isinstance(inner, Mapping) else found


def answer_settings(said: Any, model: str = "") -> dict[str, Any]:
    """The settings that a model's answer shows: which model it is of."""
    named = model or (said.get("model") if isinstance(said, Mapping) else "")
    return {"model": named} if isinstance(named, str) and named else {}


def prompt_text(prompt: Any) -> str:
    """A system prompt as one text, given as text or as a list of blocks."""
    if isinstance(prompt, str):
        return prompt
    blocks = prompt if isinstance(prompt, (list, tuple)) else ()
    texts = [block.get("text") for block in blocks if isinstance(block, Mapping)]
    return "\n".join(text for text in texts if isinstance(text, str))


def _system_message(messages: Any) -> str:
    """The system prompt that is the first of the messages, where a provider takes it there."""
    first = messages[0] if isinstance(messages, (list, tuple)) and messages else None
    if not isinstance(first, Mapping) or first.get("role") not in ("system", "developer"):
        return ""
    return prompt_text(first.get("content"))
