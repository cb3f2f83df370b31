"""Chooses which requests of a person are told, and what of each: the newest, the first, and what still holds. Pure.

Also what a turn came to, and which calls showed what a request names.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

import msgspec

from stator.model.brief import story as stories
from stator.model.brief.condense import terms, units_of
from stator.model.brief.sections import BriefItem
from stator.model.brief.story import Deed, PersonRequest, SessionStory
from stator.model.calls.vocabulary import is_idle

REQUESTS_MAX = 12
FEW = 3
"""Requests that are all in a brief."""
TELLING = 2
"""Terms from which on a request says what is wanted; `ls` does not."""
NAMES_TOLD, NAMES_ASKED = 2, 4
"""Names that nothing later has, from which on a settled request is told all the same, and a settled question."""
_LASTING = re.compile(
    r"\b(?:must|always|never|should|prefer\w*|instead|don['’]?t|do not|wants?|use|only|need(?:s|ed)? to|make sure"
    r"|ensure|keep|avoid|without|rather|decid\w*)\b",
    re.IGNORECASE,
)
"""Words of a request that holds beyond the answer to it."""
_RULE = re.compile(
    r"\b(?:must|always|never|prefer\w*|don['’]?t|do not|avoid|from now on|in (?:the )?future|every time|whenever)\b",
    re.IGNORECASE,
)
"""Words of a sentence that holds beyond the work that it was about."""
_SUBJECT = re.compile(
    r"^[ \t]*(?:#{1,6}[ \t]*)?(?:issue|problem|task|bug report|feature request)"
    r"(?: statement| description| text)?:?[ \t]*$",
    re.IGNORECASE | re.MULTILINE,
)
"""The line above the part of a prompt that is about the work."""
_AROUND = re.compile(
    r"^[ \t]*(?:#{1,6}[ \t]*)?(?:INSTRUCTIONS?|IMPORTANT|NOTES?|TIPS|RULES|GUIDELINES)(?: [A-Z ]+)?:",
    re.MULTILINE,
)
"""How a part begins that a program puts into every prompt, for the model that works on it."""
_REJECTS = re.compile(r"\s*(?:no|nope|nah|wrong)\b\s*[,.!]", re.IGNORECASE)
_STRESSED = re.compile(r"\b(?:NOT|ONLY|NEVER|MUST|ALWAYS)\b")

_NAMED = re.compile(r"(?<![\w@])[\w@][\w@./:-]*[-./#]\w[\w./-]*\w|#\d+")
"""Names in a request that a call may be about: a path, an issue. Sought only where a word begins: one long word
without an end would be read again from each of its letters."""
NAMED_TEXT = 8_000
"""How much of a request is read for names."""
_SHOWS = re.compile(
    r"bd show|gh (?:issue|pr) view|glab (?:issue|mr) view|jira \w+|linear \w+|(?:cat|less|head) \S+\.(?:md|txt|rst)"
)
EARLY = 8
"""Calls after a request among which those are that show what it names."""


def request_items(
    asked: Sequence[PersonRequest], label: Callable[[int], str], story: SessionStory
) -> list[BriefItem]:
    """The newest request that is more than a word of assent or an aside, the first, then those between: what says most
    in few words, and is new, first. Of those between, only what holds beyond its answer, or names what nothing later
    does; of what is in a revision since, only the rules."""
    idle = asides(story)
    found = [one for one in stories.requests(asked) if one.turn not in idle]
    found = [one for one in found if not one.text.startswith(stories.COMPACTING)] or found
    telling = [
        one
        for one in found
        if len(found) <= FEW or len(terms(one.text)) >= TELLING or one is found[-1]
    ]
    if not telling:
        return []
    newest, first = telling[-1], telling[0]
    places = {one.seq: place for place, one in enumerate(telling)}
    between = sorted(
        _still_holding(telling[1:-1], telling, story),
        key=lambda one: -_request_worth(one) * (1 + places[one.seq] / len(telling)),
    )
    ordered = [newest, *([] if _is_settled(first, newest, story) else [first]), *between]
    return [
        BriefItem(
            text=subject_of(one.text), mark=f"t{one.turn}", source=label(one.seq), seq=one.seq
        )
        for one in ordered[:REQUESTS_MAX]
    ]


def subject_of(text: str) -> str:
    """The part of a prompt that is about the work, where a program put the same words around it as around others; of
    those words only the rules that are stressed."""
    begins = _SUBJECT.search(text)
    ends = None if begins is None else _AROUND.search(text, begins.end())
    if begins is None or ends is None:
        return text
    rules = [unit.text for unit in units_of(text[ends.start() :]) if _STRESSED.search(unit.text)]
    return "\n\n".join(filter(None, [text[begins.end() : ends.start()].strip(), " ".join(rules)]))


def asides(story: SessionStory) -> frozenset[int]:
    """Turns at the end in which nothing was asked of the work and nothing done for it: a word, a look, a question about
    what was just shown."""
    turns = sorted({one.turn for one in story.asked}, reverse=True)
    if len(turns) <= FEW or not story.answered:
        return frozenset()
    telling = {one.turn for one in story.asked if len(terms(one.text)) >= TELLING}
    did = {one.turn for one in story.deeds if not one.only_looks and not is_idle(one.tool)}
    last = next((place for place, turn in enumerate(turns) if turn in telling | did), 0)
    return frozenset(turns[:last])


def rejected(story: SessionStory) -> frozenset[int]:
    """Turns whose answer the next request says no to."""
    pairs = zip(story.asked, story.asked[1:], strict=False)
    return frozenset(one.turn for one, later in pairs if _REJECTS.match(later.text))


def wrote_in(story: SessionStory) -> dict[int, int]:
    """When each turn changed a file that is there still, or made a revision last."""
    found = {one.turn: 0 for one in story.asked}
    gone = {one.path for one in story.files if one.op == stories.GONE_AGAIN}
    for deed in story.deeds:
        act = deed.act
        writes = act is not None and act.kind in ("write", "edit") and act.path not in gone
        if deed.status == "ok" and (writes or _commits(deed.steps)):
            found[deed.turn] = deed.seq
    for one in story.files:
        if one.changed and one.op != stories.GONE_AGAIN:
            found[one.turn] = max(found.get(one.turn, 0), one.changed)
    return found


def _commits(steps: Sequence[Sequence[str]]) -> bool:
    return any(words[:2] == ["git", "commit"] for words in steps)


def _is_settled(first: PersonRequest, newest: PersonRequest, story: SessionStory) -> bool:
    """Whether the first request is the newest, or a question that names nothing, was answered and changed nothing."""
    if first is newest:
        return True
    found = terms(first.text)
    return (
        max(found.values(), default=0) <= 1
        and len(found) < len(terms(newest.text))
        and any(said.turn == first.turn for said in story.said)
        and not wrote_in(story).get(first.turn)
        and any(one.seq == first.seq for one in story.asked)
    )


def _still_holding(
    between: Sequence[PersonRequest], asked: Sequence[PersonRequest], story: SessionStory
) -> list[PersonRequest]:
    """Requests that hold beyond the answer to them, or name what nothing later names. Of those that a revision
    followed, only the sentences that say how things must always be."""
    revised = max(
        (one.seq for one in story.deeds if one.status == "ok" and _commits(one.steps)), default=0
    )
    named: dict[str, int] = {}
    texts = [*((one.text, one.seq) for one in asked), *((one.text, one.seq) for one in story.said)]
    for text, seq in texts:
        named.update((term, max(named.get(term, 0), seq)) for term in terms(text))
    found = []
    for one in between:
        if one.seq < revised:
            rules = [
                unit.text
                for unit in units_of(_typed(one))
                if _RULE.search(unit.text) and "?" not in unit.text
            ]
            if rules:
                found.append(msgspec.structs.replace(one, text=" ".join(rules)))
        elif _holds(one, named):
            found.append(one)
    return found


def _typed(one: PersonRequest) -> str:
    """A request up to the data that was pasted into it."""
    return one.text.partition('{"')[0]


def _holds(one: PersonRequest, named: Mapping[str, int]) -> bool:
    words = _typed(one)
    asks = "?" in words
    if not asks and _LASTING.search(words):
        return True
    new = sum(worth > 1 and named.get(term, 0) <= one.seq for term, worth in terms(words).items())
    return new >= (NAMES_ASKED if asks else NAMES_TOLD)


def _request_worth(one: PersonRequest) -> float:
    return sum(terms(one.text).values()) / (min(len(one.text), 400) + 60)


def referenced(story: SessionStory) -> list[Deed]:
    """Calls that showed what a request names, such as an issue or a document, in the order of the log; not what was
    changed since."""
    found: list[Deed] = []
    written = {
        deed.act.path: deed.seq
        for deed in story.deeds
        if deed.act is not None and deed.act.kind in ("write", "edit") and deed.status == "ok"
    }
    for asked in story.asked:
        named = {word for word in _NAMED.findall(asked.text[:NAMED_TEXT]) if len(word) > 3}
        deeds = [deed for deed in story.deeds if deed.seq > asked.seq and deed.turn == asked.turn]
        for deed in deeds[:EARLY]:
            act = deed.act
            if (
                act is None
                or deed.status != "ok"
                or written.get(act.path, 0) > deed.seq
                or not any(word in (act.text or act.path) for word in named)
            ):
                continue
            if act.path.lower().endswith(stories.DOCUMENTS) or any(
                _SHOWS.match(" ".join(words[:3])) for words in deed.steps
            ):
                found.append(deed)
    return found
