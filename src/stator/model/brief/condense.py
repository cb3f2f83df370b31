"""Chooses the parts of long texts that carry most, for a text that has little room. Pure and deterministic.

A text is split into units: sentences, items of lists, rows of tables. A unit is worth the terms in it that nothing
chosen before names: paths, identifiers and numbers most, words of the requests more than others. So what another line
says already is worth nothing, and nothing is said twice.
"""

from __future__ import annotations

import heapq
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import lru_cache

import msgspec

from stator.model.brief.any_case import AnyCase
from stator.model.log.shown_text import cut_short
from stator.model.values.late_pattern import late

TEXT_MAX = 16_000
"""Characters of one text that are looked at: its beginning and its end."""
UNITS_MAX = 300
"""Units of one text that are chosen from."""
UNIT_MAX = 180
"""Characters of a unit; a longer one is split where a clause ends."""
UNIT_MIN = 12
WORTH_MIN = 1.5
"""What a unit must be worth at least: one word is none."""
OVERHEAD = 30
"""Characters that a unit counts for besides its own, so that scraps do not win."""
GAP = " … "
WANTED, KNOWN = 1.35, 0.35
"""What a term counts for that is in a request, and one that a line of the text has already."""
NAMES, NAMES_MORE = 7, 0.4
"""Names of one unit that count in full, and what each after them counts for: a long list of names says little."""
LEAD = (3.0, 2.5, 2.0, 1.6, 1.4, 1.3, 1.2, 1.1, 1.0)
"""What the first units of a request count for: it begins with what is wanted."""
SAME_PART = 0.85
"""What each unit counts for after another one under the same heading, so that every part of a text has its say."""

KEPT_MAX, KEPT = 1000, 512
"""Characters of a text whose terms are kept, and of how many texts: a brief asks for those of a line many times."""
TOKEN_MAX, TOKENS = 40, 8192
"""The same of words and names, which many texts have."""

_FENCE = late(r"^\s*(```|~~~).*?(?:^\s*\1\s*$|\Z)", re.DOTALL | re.MULTILINE)
_LINE_OF_CODE = late(r":\s*\n\s*(```|~~~)\w*\s*\n([^\n`]{3,100}?)\s*\n\s*\1(?=\s)")
"""A code block of one line, which a sentence announces."""
_CITED = late(r"^[ \t]{0,3}(?:>[ \t]?)+", re.MULTILINE)
_DATA = late(r"^\s*\{\".{160,}$", re.MULTILINE)
"""A line of data, such as one of a log."""
_CLOSING = late(r"</([a-z][a-z_-]{1,30})>")
_HEADING = late(
    r"\s{0,3}(?:#{1,6}\s+(?P<hash>.+)|(?:\d+[.)]\s+)?\*\*(?P<bold>[^*]{2,80})\*\*:?|\d+[.)]\s+(?P<plain>[A-Z][^.`]{2,60}):)\s*\Z"
)
_ITEM = late(r"\A\s*(?:[-*+•]|\d{1,3}[.)])\s+(?:\[[ xX]\]\s+)?")
_RULE = late(r"[\s|:=*_\-]+\Z")
_SENTENCE = late(
    r"(?<=[.!?])(?<!e\.g\.)(?<!i\.e\.)(?<!etc\.)(?<!vs\.)[\"')\]*]*\s+(?=[\"'(`*\[A-Z0-9/@])"
)
_CLAUSE = late(r"(?<=[;:])\s+|\s+[—–]\s+|,\s+(?=(?:and|but|so|which|while|with)\b)|(?<=\)),\s+")
_MARKUP = late(r"\*\*|\\*`|\\{2,}|(?<=\])\([^)\s]*\)|<br>|[\x00-\x08]")
_MARKED = late(r"[*`\x00-\x08]|\\\\|\]\(|<br>")
"""What a text with marks of Markdown has somewhere, which is found much sooner."""
_SIGN = late(r"[^\w ./,:`'-]")
_TERM = late(r"[A-Za-z0-9_@$#~][\w@$#~./:+*\-\[\]()]*[\w)\]*]|\w+")
_WORD = late(r"[A-Za-z]+\Z")
_NUMBER = late(r"v?\d[\d.,:x%-]*\Z")
_NAME_WORTH, _NUMBER_WORTH = 1.7, 1.2
_NARRATION = late(
    r"(?:(?:ok(?:ay)?|great|perfect|excellent|good|now|alright|sure|thanks|absolutely|right|got it)\b[,.!:\s—-]*){0,3}"
    r"(?:(?:first|next|then),?\s+)?(?:(?:i['’]ll|i will|i need to|i want to|i should|i am going to|i['’]m going to)\b"
    r"|let(?:['’]s| me| us)\b|now\b|here(?:['’]s| is| are)\b|i apologi[sz]e|sorry\b|it (?:seems|appears)"
    r"|i (?:see|understand)\b|thank|certainly|based on (?:this|my|the)|\Z)",
    re.IGNORECASE,
)
_LEADS_IN = late(
    r"(?:(?:ok(?:ay)?|great|perfect|excellent|good|now|alright|sure|right|got it)\b[,.!:\s—-]*){0,3}"
    r"(?:let(?:['’]s| me| us)|(?:i|we)['’]ll|i will|(?:i|we) (?:now )?need to|next,|first,)\s",
    re.IGNORECASE,
)
"""How a sentence begins that announces what its author did right after."""
_POINTS_BACK = late(
    r"(?:it|this|that|these|those|they|(?:fixed|resolved|solved|repaired|worked around)\s+(?:by|with|in|via))\b",
    re.IGNORECASE,
)
"""How a sentence begins that says little without the one before it, and after another one says something else."""
_AHEAD = AnyCase(
    r"\b(?:let me know|would you like|do you want|shall i|should i|want me to|feel free"
    r"|if you(?:['’]d)? (?:want|like|prefer)|yet"
    r"|right now|at the moment|not run|not tested|untested|current(?:ly)?|in[ _]progress|next steps?"
    r"|still to (?:do|be)|remaining|i['’]ll|i will|let me|let['’]s|going to|today|should now)\b|\?\s*\Z"
    r"|\A(?:pros|cons|option \w|(?:the )?user asked)\b|\b\d+ (?:tests?|total) pass"
)
_CUES = AnyCase(
    r"\b(?:because|since|root cause|caused?|due to|turns? out|found|bug|issue|problem|fix(?:ed|es)?|broke\w*|fail\w*"
    r"|errors?|never|not|no|only|must|should|cannot|can['’]t|don['’]t|doesn['’]t|without|instead|rather than|decided"
    r"|chose\w*|prefer\w*|wants?|requires?d?|pass(?:es|ed|ing)?|tests?|commit(?:ted)?|push(?:ed)?|branch|merged?"
    r"|deploy\w*|released?|pending|todo|to do|next|remain\w*|blocked|waiting|verified|confirmed|unverified|missing"
    r"|removed?|renamed?|replaced?|added|created|changed|now|limit\w*|default|warning|workaround)\b"
)
_FOUND = AnyCase(
    r"\b(?:because|root cause|real bug|bug\b|turns? out|actually|discovered"
    r"|the (?:issue|problem|reason|cause) (?:is|was)|means? that|so that|must|instead of|rather than|never|only works"
    r"|does ?n[o'’]t|did ?n[o'’]t"
    r"|all \d+|\d+ tests)\b"
)
"""Words of what was found out."""
_STOP = frozenset(
    "about above after again also although always another anything because been before being below between both came"
    " come could does doing done down during each either else even ever every everything from further gave give given"
    " goes going gone have having here into itself just know like look looks made make makes many maybe more most much"
    " must need needs never next nothing once only onto other over same seem shall should since some something still"
    " such sure take takes than that their them then there these they thing things this those through together under"
    " until upon used uses using very want wants well went were what when where whether which while will with within"
    " without would your yours work works working please thanks first last currently actually really quite".split()
)


class Unit(msgspec.Struct, frozen=True):
    """A part of a text that may be shown by itself."""

    text: str
    place: int
    """Its number in its text."""
    heading: str = ""
    """The heading it is under."""
    starts: bool = True
    """Whether a sentence or an item begins with it; else it continues the one before."""
    follows: bool = False
    """Whether the unit before it is of the same paragraph or item."""


class SourceText(msgspec.Struct, frozen=True, kw_only=True):
    """A text to choose from."""

    units: Sequence[Unit]
    weight: float = 1.0
    """What its terms are worth, relative to those of other texts."""
    lead: bool = False
    """Whether its beginning says what it is about, as that of a request does."""
    newest: bool = True
    """Whether nothing was done after it; else what it announces, asks or calls open is obsolete."""


class WeighedText(msgspec.Struct, frozen=True):
    """A text to choose from, and what the terms of each of its units are worth."""

    units: Sequence[Unit]
    worths: Sequence[Mapping[str, float]]


# -- splitting ------------------------------------------------------------------------------------


def units_of(text: str) -> list[Unit]:
    """The units of a text, in order, without code blocks and without markup."""
    found: list[Unit] = []
    for heading, words, whole in _lines(_bounded(text)):
        before = len(found)
        for sentence in _SENTENCE.split(words) if not whole else [words]:
            for place, part in enumerate(_pieces(plain(sentence))):
                if _announces(found, heading) and len(found[-1].text) + len(part) < UNIT_MAX:
                    found[-1] = msgspec.structs.replace(found[-1], text=f"{found[-1].text} {part}")
                elif len(part) >= UNIT_MIN or (whole and part):
                    follows = len(found) > before
                    found.append(Unit(part, len(found), heading, place == 0, follows))
    return (
        found if len(found) <= UNITS_MAX else [*found[: UNITS_MAX // 2], *found[-UNITS_MAX // 2 :]]
    )


def _announces(found: Sequence[Unit], heading: str) -> bool:
    """Whether the last unit only says that something follows: it is none without the next."""
    return bool(found) and found[-1].text.endswith(":") and found[-1].heading == heading


def plain(text: str) -> str:
    """A text on one line, without the marks of Markdown."""
    return " ".join((_MARKUP.sub("", text) if _MARKED.search(text) else text).split())


def beginning(text: str, size: int) -> str:
    """The first characters of a text, however long it is, without half a secret at their end."""
    return cut_short(text[: 2 * size + 200], size)


def _bounded(text: str) -> str:
    if len(text) > TEXT_MAX:
        half = TEXT_MAX // 2
        text = f"{beginning(text, half)}\n\n{text[-half:]}"
    text = _CITED.sub("", text) if ">" in text else text
    text = _DATA.sub("", text) if '{"' in text else text
    if "```" in text or "~~~" in text:
        text = _FENCE.sub("\n", _LINE_OF_CODE.sub(r": \2\n", text))
    for name in set(_CLOSING.findall(text)):
        text = text.replace(f"<{name}>", "\n").replace(f"</{name}>", "\n")
    return text


def _lines(text: str) -> Iterator[tuple[str, str, bool]]:
    """(heading, words, whether they are a row of a table) of each paragraph and each item of a list."""
    heading, kept, top = "", "", ""
    for line in [*text.split("\n"), ""]:
        title = _HEADING.match(line)
        starts = (
            title is not None
            or not line.strip()
            or _ITEM.match(line)
            or line.lstrip().startswith("|")
        )
        if starts and kept:
            yield heading, kept, False
            kept = ""
        if title is not None:
            top = plain(title["hash"] or title["plain"] or "") or top
            heading = top or plain(title["bold"] or "")
        elif line.lstrip().startswith("|"):
            cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
            if not _RULE.match(line) and any(cells):
                yield heading, ": ".join(filter(None, cells)), True
        elif not _RULE.match(line):
            kept = f"{kept} {_ITEM.sub('', line, count=1) if not kept else line.strip()}".strip()


def _pieces(sentence: str) -> Iterator[str]:
    """A sentence, or where it is long the clauses of it, several together while they are short."""
    if len(sentence) <= UNIT_MAX:
        yield sentence
        return
    kept, start = "", 0
    for found in [*_CLAUSE.finditer(sentence), None]:
        end = len(sentence) if found is None else found.start()
        clause = sentence[start:end]
        joined = sentence[start - len(kept) : end] if kept else clause
        if kept and len(joined) > UNIT_MAX:
            yield kept.strip()
            kept = clause
        else:
            kept = joined
        if found is None:
            break
        start = found.end()
        kept += sentence[found.start() : start]
    yield from _words(kept.strip())


def _words(text: str) -> Iterator[str]:
    """A clause that is too long even so, cut between words."""
    while len(text) > 2 * UNIT_MAX:
        end = text.rfind(" ", 0, 2 * UNIT_MAX)
        end = end if end > 0 else 2 * UNIT_MAX
        yield text[:end]
        text = text[end:].strip()
    if text:
        yield text


# -- what a unit is worth -------------------------------------------------------------------------


def terms(text: str) -> Mapping[str, float]:
    """The terms of a text and what each is worth: names and numbers more than words."""
    return _terms_kept(text) if len(text) <= KEPT_MAX else _terms(text)


@lru_cache(maxsize=KEPT)
def _terms_kept(text: str) -> Mapping[str, float]:
    return _terms(text)


def _terms(text: str) -> Mapping[str, float]:
    found: dict[str, float] = {}
    for token in dict.fromkeys(_TERM.findall(text)):
        for term, worth in _token_kept(token) if len(token) <= TOKEN_MAX else _terms_of(token):
            found.setdefault(term, worth)
    return found


def _terms_of(token: str) -> tuple[tuple[str, float], ...]:
    """The terms of one word or name."""
    token = token.strip(".:-+*()[]~")
    if _WORD.match(token) and not _is_name(token):
        low = token.lower()
        return ((low[:6], 1.0),) if len(token) >= 4 and low not in _STOP else ()
    return tuple(
        (part, _NUMBER_WORTH if _NUMBER.match(part) else _NAME_WORTH) for part in _parts(token)
    )


_token_kept = lru_cache(maxsize=TOKENS)(_terms_of)


def _is_name(token: str) -> bool:
    return token != token.lower() and token[1:] != token[1:].lower() and len(token) > 2


def _parts(token: str) -> Iterator[str]:
    """What a name is known by: of a path its last two parts, so that a short form of it is no news."""
    parts = [part for part in token.lower().strip("/").split("/") if part]
    for part in parts[-2:]:
        name = part.split(":")[0] if ":" in part and not part.startswith(":") else part
        if len(name) > 1:
            yield name


def _factor(unit: Unit, passage: SourceText) -> float:
    """What the new terms of a unit count for."""
    factor = passage.weight * heading_weight(unit.heading, passage.newest)
    factor *= 1 + 0.15 * min(4, _CUES.count(unit.text))
    factor *= 1.3 if _FOUND.is_in(unit.text) else 1.0
    if _NARRATION.match(unit.text) and not passage.lead:
        factor *= 0.35
    if not passage.newest and _AHEAD.is_in(unit.text):
        factor *= 0.15
    if not unit.starts:
        factor *= 0.75
    if _POINTS_BACK.match(unit.text) and unit.place and not passage.lead:
        factor *= 0.6
    if is_code(unit.text):
        factor *= 0.3
    if passage.lead:
        factor *= LEAD[min(unit.place, len(LEAD) - 1)]
    return factor


def leads_in(text: str) -> bool:
    """Whether a sentence only announces what follows it."""
    return text.endswith(":") or _LEADS_IN.match(text) is not None


def is_code(text: str) -> bool:
    """Whether a text has too many signs for one of words, names and paths."""
    return len(_SIGN.findall(text)) * 8 > len(text)


_OPEN_THEN = AnyCase(
    r"\b(?:pending|next|current|remaining|to ?do|outstanding|blocked|in progress|(?:fix )?plan\Z|options?\b|proposals?"
    r"|recommend|problem\Z|motivation|background)"
)
_REPAIRED = AnyCase(r"\berrors?\b.*\bfix")
_HEADINGS: tuple[tuple[AnyCase, float], ...] = tuple(
    (AnyCase(rf"\b(?:{words})"), weight)
    for words, weight in (
        (r"all user messages|conversation|tool results?", 0.35),
        (r"no-?gos?\b|non-?goals?|out of scope|exclu(?:ded|sions?)", 2.2),
        (r"acceptance|scenarios?|examples?", 0.7),
        (r"key technical concepts|tech(?:nology)? stack", 0.6),
        (
            r"pending|next|current|remaining|to ?do|open|status|state|progress|outstanding|blocked",
            1.5,
        ),
        (r"request|goal|intent|task|decision|constraint|requirement|preference|scope", 1.5),
        (r"error|problem|issue|fix|bug|fail|dead end|lesson|gotcha|learn|discover|finding", 1.2),
        (r"summary|result|verif|test|migration|plan|recommend|conclusion|outcome", 1.15),
        (r"files? and code|code sections?|relevant files|file structure", 0.6),
    )
)


def heading_weight(heading: str, newest: bool) -> float:
    """What a part of a summary is worth by its heading: state, next steps and errors most. Of an older text, what was
    open then is obsolete, and an error that it tells of was repaired."""
    if not heading:
        return 1.0
    if not newest and _OPEN_THEN.is_in(heading):
        return 0.2
    if not newest and _REPAIRED.is_in(heading):
        return 0.9
    return next((weight for words, weight in _HEADINGS if words.is_in(heading)), 1.0)


# -- choosing -------------------------------------------------------------------------------------


def weighed(passage: SourceText) -> WeighedText:
    """A text to choose from with what each term of its units is worth, which is made once."""
    return WeighedText(passage.units, [_worths(unit, passage) for unit in passage.units])


def chosen(
    passages: Sequence[WeighedText],
    room: int,
    *,
    wanted: AbstractSet[str] = frozenset(),
    known: AbstractSet[str] = frozenset(),
    least: float = 0.02,
    worth: float = WORTH_MIN,
) -> list[list[Unit]]:
    """The units of each passage that carry most, in order, in at most `room` characters altogether.

    `wanted` are terms of the requests, `known` those that are in the text already. A unit that is worth less than
    `worth`, or than `least` a character, is left out, even if there is room.
    """
    return Choice(passages, wanted, known).best(room, least=least, worth=worth)


class Choice:
    """Texts to choose from, beside what was asked and what is in the text already: made once, for any room."""

    def __init__(
        self, passages: Sequence[WeighedText], wanted: AbstractSet[str], known: AbstractSet[str]
    ) -> None:
        self.wanted, self.known = wanted, known
        self._passages = len(passages)
        self._candidates = [
            _Candidate(number, unit, _beside(worths, wanted, known))
            for number, passage in enumerate(passages)
            for unit, worths in zip(passage.units, passage.worths, strict=True)
        ]

    def best(self, room: int, *, least: float, worth: float) -> list[list[Unit]]:
        """See `chosen`."""
        candidates = self._candidates
        named: set[str] = set()
        parts: Counter[tuple[int, str]] = Counter()
        found: list[list[Unit]] = [[] for _ in range(self._passages)]
        # What is left is worth less with every choice, so only the best needs to be looked at again.
        heap = [(-one.first_rate(worth), place) for place, one in enumerate(candidates)]
        heapq.heapify(heap)
        while heap and -heap[0][0] > least:
            place = heapq.heappop(heap)[1]
            one = candidates[place]
            if one.size > room:
                continue
            rate = one.rate(named, parts, worth)
            if heap and rate < -heap[0][0]:
                heapq.heappush(heap, (-rate, place))
            elif rate > least:
                found[one.passage].append(one.unit)
                named.update(one.worths)
                parts[one.part] += 1
                room -= one.size
        return [_connected(sorted(units, key=lambda unit: unit.place)) for units in found]


def _connected(units: Sequence[Unit]) -> list[Unit]:
    """Units without those that point back to one that was not chosen."""
    found: list[Unit] = []
    for unit in units:
        after = found[-1].place + 1 if found else -1
        if not unit.follows or unit.place == after or not _POINTS_BACK.match(unit.text):
            found.append(unit)
    return found


class _Candidate:
    """A unit that may be chosen."""

    def __init__(self, passage: int, unit: Unit, worths: dict[str, float]) -> None:
        self.passage, self.unit, self.worths = passage, unit, worths
        self.part = (passage, unit.heading)
        self.size = len(unit.text) + len(GAP)
        self.whole = sum(worths.values())

    def first_rate(self, least: float) -> float:
        """What it is worth a character before anything is chosen; nothing if it is worth less than `least`."""
        return 0.0 if self.whole < least else self.whole / (self.size + OVERHEAD)

    def rate(
        self, named: AbstractSet[str], parts: Mapping[tuple[int, str], int], least: float
    ) -> float:
        """The same beside what was chosen already."""
        new = sum([worth for term, worth in self.worths.items() if term not in named])
        if new < least:
            return 0.0
        return new * SAME_PART ** parts[self.part] / (self.size + OVERHEAD)


def _worths(unit: Unit, passage: SourceText) -> dict[str, float]:
    """What each term of a unit is worth, until another unit with it is chosen."""
    factor = _factor(unit, passage)
    found: dict[str, float] = {}
    names = 0
    for term, weight in terms(unit.text).items():
        names += weight > 1
        found[term] = weight * factor * (NAMES_MORE if weight > 1 and names > NAMES else 1.0)
    return found


def _beside(
    worths: Mapping[str, float], wanted: AbstractSet[str], known: AbstractSet[str]
) -> dict[str, float]:
    """What terms are worth beside what was asked and what is in the text already."""
    found = dict(worths)
    for term in worths.keys() & wanted:
        found[term] *= WANTED
    for term in worths.keys() & known:
        found[term] *= KNOWN
    return found


def joined(units: Sequence[Unit], whole: Sequence[Unit]) -> str:
    """Units as one text; a mark shows where others were left out."""
    text, last = "", -1
    for unit in units:
        if text:
            text += " " if unit.place == last + 1 else GAP
        elif unit.place or not unit.starts:
            text = "… "
        text += unit.text
        last = unit.place
    if units and whole and last < whole[-1].place:
        text += " …"
    return text


def condensed(text: str, room: int) -> str:
    """A text as it is, if it takes at most `room` characters; else the parts of it that carry most."""
    if len(text) <= room:
        return " ".join(text.split())
    units = units_of(text)
    (units_chosen,) = chosen([weighed(SourceText(units=units, lead=True))], room, least=0.0)
    return (
        joined(units_chosen, units)
        or f"{beginning(' '.join(beginning(text, 2 * room).split()), max(room - 1, 0))}…"
    )
