"""Describes what is known of a recorded session and has no place in its log yet. Pure.

Hooks and the end of a transcript report things before the transcript says in which order they happened. Until then
each has an id, but no position and no hash. What is shown of it is redacted, as everything in a log is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from stator.errors import StatorError
from stator.model.log.commit import Draft, Upsert
from stator.model.log.seal import encode_content, scrub
from stator.model.log.shown_text import cut_short, masking
from stator.model.records.tables import record_text
from stator.model.records.text import arguments_text, prompt_text, value_text
from stator.model.values import canon
from stator.model.values.ids import suffix_of
from stator.model.window.reply import dialect, requests, text_of

if TYPE_CHECKING:  # its patterns take a while to compile
    from stator.model.log.redact import Redactor

EXPLAINED = "not placed yet: the transcript has not reached it"
"""What `unplaced` means, for people."""
SHOWN_MAX = 1000
"""The most that are shown of one session: the newest."""
SUMMARY_MAX = 200
UNREADABLE = "(cannot be recorded as it is)"


class Unplaced(msgspec.Struct, frozen=True, kw_only=True):
    """Something that is known and has no place in the log yet."""

    id: str
    """The id that its commit will have."""
    session: str
    kind: str
    actor: str = ""
    tool: str = ""
    call: str = ""
    effect: str = ""
    status: str = ""
    cause: str = ""
    summary: str = ""
    happened: int = 0
    input: Any = None
    output: Any = None


def unplaced(drafts: Sequence[Draft]) -> list[Unplaced]:
    """Drafts without a place, as they are shown, in order."""
    redactor = masking()
    return [_described(draft, redactor) for draft in drafts[-SHOWN_MAX:]]


def _described(draft: Draft, redactor: Redactor) -> Unplaced:
    try:
        clean = scrub(draft, redactor)
        content = {
            name: canon.loads(data) for name, data in encode_content(clean, redactor).items()
        }
    except StatorError:  # recorded content is hostile: an odd shape costs its line
        return Unplaced(id=draft.id, session=draft.session, kind=draft.kind, summary=UNREADABLE)
    return Unplaced(
        id=clean.id,
        session=clean.session,
        kind=clean.kind,
        actor=clean.actor,
        tool=clean.tool,
        call=clean.call,
        effect=clean.effect,
        status=clean.status,
        cause=clean.cause,
        summary=_summary(clean, content),
        happened=clean.happened,
        input=content.get("input"),
        output=content.get("output"),
    )


def _summary(draft: Draft, content: dict[str, Any]) -> str:
    """One line."""
    if draft.kind == "turn":
        text = prompt_text(content.get("input", ""))
    elif draft.kind == "call":
        text = arguments_text(draft.tool, content.get("input"))
    elif draft.kind in ("outcome", "settlement"):
        told = content.get("output_summary") or value_text(content.get("output", ""))
        text = f"{draft.tool} {draft.status}" + (f": {told}" if told else "")
    elif "output" in content:
        text = _said(content["output"])
    else:
        records = (change.record for change in draft.changes if isinstance(change, Upsert))
        text = "; ".join(map(record_text, records)) or draft.status or draft.cause
    return cut_short(" ".join(text.split()), SUMMARY_MAX)


def _said(output: Any) -> str:
    """A message, and the calls that the model requested with it."""
    plain = dialect(output) == "plain" and not isinstance(output, str)
    text = prompt_text(output) if plain else text_of(output)
    asked = [f"→ {request.name}" for request in requests(output)]
    return " ".join(filter(None, (text, *asked)))


def calls_of(found: Iterable[Unplaced]) -> list[Unplaced]:
    """The calls among them, each once: with its outcome where that is known too, and outcomes of placed calls."""
    calls: dict[str, Unplaced] = {}
    for one in found:
        if one.kind == "call":
            calls[one.call] = one
        elif one.kind in ("outcome", "settlement"):
            begun = calls.get(one.call)
            calls[one.call] = one if begun is None else _ended(begun, one)
    return list(calls.values())


def _ended(begun: Unplaced, end: Unplaced) -> Unplaced:
    return msgspec.structs.replace(begun, status=end.status, cause=end.cause, output=end.output)


def named(found: Iterable[Unplaced], text: str) -> list[Unplaced]:
    """Those that an id, or the end of one, names: of the commit that it will be, or of its call."""
    commit, call = suffix_of(text, "commit"), suffix_of(text, "call")
    return [
        one
        for one in found
        if (commit and one.id.endswith(commit)) or (call and one.call.endswith(call))
    ]
