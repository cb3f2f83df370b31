"""Recognizes Stator's own texts in what an agent's transcript shows. Pure.

A text that hooks give to an agent comes back in its transcript: as it is, escaped, or inside what the agent puts around
the texts of hooks. It is nobody's words there. That it came back shows that the agent received it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, Literal, get_args

import msgspec

from stator.model.exchange.items import Delivered, Item, Noted, Prompted, Returned
from stator.model.values.digest import blake2b
from stator.model.values.late_pattern import late

NoteKind = Literal["start", "prompt", "file", "handover"]
"""What a text is: the dose at the start of a session or with its first prompt, a notice that another agent changed a
file, the request for a handover."""
KINDS: tuple[NoteKind, ...] = get_args(NoteKind)
TAG = "stator-note"
ID_BYTES = 4
NOTES_MAX = 16
"""The most of our texts that are looked for in one text."""
_QUOTE = '(?:"|&quot;|&#34;)'
_OPENING = late(
    rf"(<|&lt;){TAG} kind={_QUOTE}({'|'.join(KINDS)}){_QUOTE}"
    rf" id={_QUOTE}([0-9a-f]{{{2 * ID_BYTES}}}){_QUOTE}(?:>|&gt;)\n"
)
_ENDS = ("</hook_context>", "</hook_prompt>", "\n</system-reminder>")
"""What agents put after the text of a hook: there a text ends that was cut on its way."""
_FRAMES = late(
    r"</?system-reminder>|</?hook_context>|<hook_prompt[^>]{0,2000}>|</hook_prompt>"
    r"|^\s*Stop hook feedback:|^\s*[\w:.*/-]{1,200} hook additional context:"
    r'|^\s*Stop hook blocking error from command: "[^"\n]{0,2000}":',
    re.MULTILINE,
)
"""What agents put around the texts of hooks."""
_RECORDED_AS = "Stator records this session as "
_TAKEN_BY = " Its MCP tools take that as `session`"
"""Both are in what releases before 0.10 answered to the start of a session, after the brief."""


class OwnNote(msgspec.Struct, frozen=True):
    """A text of ours that was found in another text."""

    kind: NoteKind
    id: str
    whole: bool
    """It arrived as it was given."""
    start: int
    end: int
    text: str = ""
    """What it says."""


def note_id(text: str) -> str:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=ID_BYTES).hexdigest()


def notes_in(text: str) -> list[OwnNote]:
    """Every text of ours in another one, in order."""
    notes: list[OwnNote] = []
    place = 0
    while len(notes) < NOTES_MAX and TAG in text:
        found = _OPENING.search(text, place)
        if found is None:
            break
        note = _note(text, found)
        notes.append(note)
        place = note.end
    return notes


def without_notes(text: str) -> str:
    """What is left of a text without ours and without what an agent puts around them; empty if it is ours
    altogether."""
    return _without(text, notes_in(text))


def is_own(text: str) -> bool:
    """Whether a text is ours altogether."""
    return TAG in text and not without_notes(text)


def apart(item: Item) -> Iterator[Item]:
    """An item without our texts, and before it each of these as an item of its own.

    What a person typed is ours altogether or theirs. In what a program added, a text that was cut counts only where
    the program's own text begins with it: any text may begin like one.
    """
    if not isinstance(item, (Prompted, Noted)):
        yield item
        return
    texts = list(_texts(item.content))
    whole = "\n".join(texts)
    is_typed = isinstance(item, Prompted) or item.by == "user"
    if is_own(whole):
        yield from deliveries(item, notes_in(whole))
    elif is_typed or not (TAG in whole or _is_of_before(whole)):
        yield item
    elif _is_of_before(whole):
        return
    else:
        yield from deliveries(item, [note for text in texts for note in _sure_notes(text)])
        yield msgspec.structs.replace(item, content=_each(item.content, _without_sure))


def deliveries(item: Item, notes: list[OwnNote]) -> Iterator[Delivered]:
    """What arrived with an item."""
    for number, note in enumerate(notes):
        yield Delivered(
            id=f"{item.id}/note/{number}", at=item.at, within=item.within,
            note=note.id, kind=note.kind, whole=note.whole, text=note.text,
        )  # fmt: skip


def result_apart(item: Returned) -> Iterator[Item]:
    """A result without the texts of ours that its agent put at the end of it, and after it each of these."""
    output, notes = _from_output(item.output)
    yield msgspec.structs.replace(item, output=output) if notes else item
    yield from deliveries(item, notes)


def _from_output(output: Any) -> tuple[Any, list[OwnNote]]:
    if not isinstance(output, str) or TAG not in output:
        return output, []
    notes = [note for note in notes_in(output) if note.whole]
    while notes and without_notes(output[notes[0].start :]):
        notes = notes[1:]  # something else comes after it: it is part of what the call gave
    if not notes:
        return output, []
    before = output[: notes[0].start]
    for opening in ("<hook_context>", "<system-reminder>"):
        before = before.rstrip().removesuffix(opening) if opening in before else before
    return before.rstrip(), notes


def _is_of_before(text: str) -> bool:
    """Whether a text is what an earlier release answered to the start of a session, with the brief before it."""
    place = text.rfind(_RECORDED_AS)
    return place >= 0 and _TAKEN_BY in text[place : place + 200]


def _note(text: str, found: re.Match[str]) -> OwnNote:
    closing = f"\n</{TAG}>" if found[1] == "<" else f"\n&lt;/{TAG}&gt;"
    kind = next(kind for kind in KINDS if kind == found[2])
    start = found.end()
    following = _OPENING.search(text, start)
    limit = len(text) if following is None else following.start()
    end = text.find(closing, start, limit)
    if end < 0:
        places = [place for one in _ENDS if (place := text.find(one, start, limit)) >= 0]
        after = end = min(places, default=limit)
    else:
        after = end + len(closing)
    import html  # few texts hold one

    shown = text[start:end]
    for plain in (shown, shown.replace("&lt;", "<").replace("&gt;", ">"), html.unescape(shown)):
        if note_id(plain) == found[3]:
            return OwnNote(kind, found[3], True, found.start(), after, plain)
    return OwnNote(kind, found[3], False, found.start(), after, html.unescape(shown))


def _without(text: str, notes: list[OwnNote]) -> str:
    left, place = "", 0
    for note in notes:
        left += text[place : note.start]
        place = note.end
    if not place:
        return text
    left += text[place:]
    return left.strip() if _FRAMES.sub("", left).strip() else ""


def _sure_notes(text: str) -> list[OwnNote]:
    """Those that arrived as they were given, and one that the text begins with."""
    return [
        note
        for note in notes_in(text)
        if note.whole or not _FRAMES.sub("", text[: note.start]).strip()
    ]


def _without_sure(text: str) -> str:
    return _without(text, _sure_notes(text))


def _texts(content: Any) -> Iterator[str]:
    """The texts of a message: itself, or those of its blocks."""
    if isinstance(content, str):
        yield content
    for block in content if isinstance(content, list) else ():
        if isinstance(block, str):
            yield block
        elif isinstance(block, dict) and isinstance(block.get("text"), str):
            yield block["text"]


def _each(content: Any, change: Callable[[str], str]) -> Any:
    """A message with each of its texts changed; a block that says nothing afterwards is left out."""
    if isinstance(content, str):
        return change(content)
    if not isinstance(content, list):
        return content
    made = []
    for block in content:
        if isinstance(block, str):
            block = change(block)
        elif isinstance(block, dict) and isinstance(block.get("text"), str):
            text = change(block["text"])
            block = {**block, "text": text} if text or not block["text"] else ""
        if block != "":
            made.append(block)
    return made
