"""Parses search queries, and finds the matching part of a text.

    jwt login          both words
    "session store"    side by side, in that order
    auth*              every word with that beginning
    -cookie            and not that (--force is a word)

Nothing else has a meaning: all other input is words, never syntax of the engine below.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import islice

import msgspec

from stator.errors import BadQuery
from stator.model.values import tokenizer as lexicon
from stator.model.values.late_pattern import late
from stator.model.values.tokenizer import (
    composed,
    folded,
    is_single,
    parts,
    places,
)

TEXT_MAX = 1000
"""Characters of a question."""
WORDS_MAX = 64
"""Words of one."""
PREFIX_MIN = 2
"""Characters a beginning needs: fewer would be half of the index."""
SNIPPET = 160
"""Characters shown of a text that matches."""
SHORT = 240
"""Texts of at most this many characters are shown side by side."""
LEAD = 40
"""Of these, at most this many before the first match."""
SEEN_MAX = 40
"""Matches of one term that are looked at, to choose which part of a text is shown."""

Span = tuple[int, int]
"""A stretch of a text: from, to."""


class Term(msgspec.Struct, frozen=True):
    """Words side by side; with `prefix`, the last is the beginning of one. `parts`: what a name is made of."""

    words: tuple[str, ...]
    prefix: bool = False
    parts: tuple[str, ...] = ()


class Stretch(msgspec.Struct, frozen=True):
    """Commits of a session with `after < seq <= upto` (0: all there are)."""

    session: str
    after: int = 0
    upto: int = 0


def within(stretches: Iterable[Stretch], after: int, upto: int | None) -> Iterator[Stretch]:
    """What of some stretches is after a seq and up to another; None: to the end."""
    for one in stretches:
        first = max(one.after, after)
        last = min((end for end in (one.upto, upto) if end), default=0)
        if not last or first < last:
            yield Stretch(one.session, first, last)


class SearchQuery(msgspec.Struct, frozen=True, kw_only=True):
    """What is looked for; every filter given must hold, and of kinds and stretches any."""

    terms: tuple[Term, ...]
    any_term: bool = False
    """Whether one of the terms is enough; else all must hold."""
    without: tuple[Term, ...] = ()
    project: str | None = None
    agent: str | None = None
    tool: str | None = None
    path: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    stretches: tuple[Stretch, ...] = ()
    since: int = 0
    until: int = 0


class SearchDocument(msgspec.Struct, frozen=True, kw_only=True):
    """What an index stores of a commit."""

    seq: int
    kind: str
    tool: str
    at: int
    body: str
    """The words of its texts, as `words.indexed` gives them."""
    paths: str = ""


class Mark(msgspec.Struct, frozen=True):
    """How far an index covers a session: the last indexed commit, and when it was appended."""

    seq: int = 0
    updated: int = 0
    hash: str = ""


class Advance(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a session's log for an index, from one mark to another; `anew` replaces everything indexed before."""

    session: str
    project: str
    agent: str
    before: Mark
    after: Mark
    documents: list[SearchDocument]
    anew: bool = False


# -- the question ---------------------------------------------------------------------------------

_QUOTES = str.maketrans({"“": '"', "”": '"', "„": '"', "«": '"', "»": '"', "\0": " "})
_PIECE = late(r'(-(?!-)|)(?:"([^"]*)"?(\*?)|([^\s"]+))')
"""A sign, and a phrase or a word. Two dashes are none: they begin the options of programs, and who
looks for `git push --force` does not mean those without."""


def parse(text: object) -> tuple[tuple[Term, ...], tuple[Term, ...]]:
    """The terms that are wanted and those that are not, or `BadQuery`."""
    if not isinstance(text, str):
        raise BadQuery(f"a query must be text, got {type(text).__name__}")
    if len(text) > TEXT_MAX:
        raise BadQuery(f"at most {TEXT_MAX:,} characters can be searched for, got {len(text):,}")
    wanted: dict[Term, None] = {}
    without: dict[Term, None] = {}
    for sign, phrase, starred, word in _PIECE.findall(text.translate(_QUOTES)):
        for term in _terms(phrase, bool(starred)) if not word else _terms(word, None):
            (without if sign else wanted)[term] = None
    if sum(len(term.words) for term in (*wanted, *without)) > WORDS_MAX:
        raise BadQuery(f"a query has at most {WORDS_MAX} words")
    if not wanted:
        said = "only words that must not be there" if without else "no word to look for"
        raise BadQuery(said, hint='words, "a phrase", prefix* or -not')
    return tuple(wanted), tuple(without)


def _terms(text: str, starred: bool | None) -> Iterator[Term]:
    """A word or a phrase as a term; nothing if it has no letter or digit."""
    prefix = text.endswith("*") if starred is None else starred
    found = tuple(lexicon.words(text))
    if not found:
        return
    if prefix and len(found[-1]) < PREFIX_MIN and not is_single(found[-1]):
        raise BadQuery(
            f"{text!r:.40}: a prefix needs at least {PREFIX_MIN} characters",
            hint="add a character",
        )
    yield Term(found, prefix, tuple(parts(text)) if len(found) == 1 else ())


def path_words(path: str) -> tuple[str, ...]:
    """A path, or a part of one, as words; `BadQuery` if it has no word."""
    found = tuple(lexicon.words(path[:TEXT_MAX].replace("\0", " ")))
    if not found:
        raise BadQuery(f"not a path: {path!r:.60}")
    return found


# -- the answer -----------------------------------------------------------------------------------


class Snippet(msgspec.Struct, frozen=True):
    """Part of a text on one line, and which stretches of it matched."""

    text: str
    matched: list[Span]


def snippet(texts: Iterable[str], terms: tuple[Term, ...]) -> Snippet:
    """The part of some texts that contains most terms; the beginning of the first text if no term is found."""
    patterns = [(_pattern(term), _loosely(term)) for term in terms]
    best: tuple[int, str, int, list[Span]] = (0, "", 0, [])
    for text in _together(map(composed, texts)):
        if not best[1] and text.strip():
            best = (0, text, 0, [])
        spans = _spans(text, patterns)
        start, kinds = _window(spans)
        if kinds > best[0]:
            best = (kinds, text, start, [(low, high) for low, high, _ in spans])
        if kinds == len(terms):
            break
    return _cut(best[1], best[2], best[3])


def _together(texts: Iterable[str]) -> Iterator[str]:
    """Short texts as one: what a record says, with its reason."""
    short: list[str] = []
    for text in texts:
        if len(text) <= SHORT and len(short) < WORDS_MAX:
            short.append(text)
            continue
        if short:
            yield " · ".join(short)
            short = []
        yield text
    if short:
        yield " · ".join(short)


def _pattern(term: Term) -> re.Pattern[str]:
    """The words of a term as they appear in a folded text."""
    made = r"(?<![^\W_])" if not is_single(term.words[0]) else ""
    for before, word in zip(("", *term.words), term.words, strict=False):
        loose = (
            not before or is_single(before) or is_single(word) or len(before) >= lexicon.WORD_MAX
        )
        made += ("" if not before else r"[\W_]*" if loose else r"[\W_]+") + re.escape(word)
    whole = term.prefix or is_single(term.words[-1]) or len(term.words[-1]) >= lexicon.WORD_MAX
    if term.prefix:
        made += r"[^\W_]*"
    return re.compile(made if whole else made + r"(?![^\W_])")


def _loosely(term: Term) -> re.Pattern[str]:
    """The same inside of longer words: part of a name that only capitals divide."""
    return re.compile(r"[\W_]*".join(map(re.escape, term.words)))


def _spans(
    text: str, patterns: list[tuple[re.Pattern[str], re.Pattern[str]]]
) -> list[tuple[int, int, int]]:
    """Where terms occur in a text: start, end, which term."""
    plain = folded(text)
    found: list[tuple[int, int, int]] = []
    for which, (strict, loose) in enumerate(patterns):
        hits = list(islice(strict.finditer(plain), SEEN_MAX))
        hits = hits or list(islice(loose.finditer(plain), SEEN_MAX))
        found += [(hit.start(), hit.end(), which) for hit in hits]
    if found and not text.isascii():
        ends = places(text, (end for low, high, _ in found for end in (low, high - 1)))
        pairs = zip(ends[::2], ends[1::2], found, strict=True)
        found = [(low, high + 1, which) for low, high, (_, _, which) in pairs]
    return sorted(found)


def _window(spans: list[tuple[int, int, int]]) -> tuple[int, int]:
    """Where the part begins that holds most terms, and how many those are; the first of equals."""
    best = (0, 0)
    for place, (low, _, _) in enumerate(spans):
        near: set[int] = set()
        for at, high, which in islice(spans, place, None):
            if at > low + SNIPPET:
                break
            if high <= low + SNIPPET - LEAD or at == low:
                near.add(which)
        if len(near) > best[1]:
            best = (low, len(near))
    return best


_ENDS = late(r"(?:\\n){2,}|\\n(?![a-z])")
"""Not a part of a path, such as C:\\new."""
_SPACE = late(r"\s+")


def _cut(text: str, first: int, spans: list[Span]) -> Snippet:
    """So much of a text on one line, from a little before the first match on."""
    low = _word_start(text, max(0, first - LEAD), first)
    high = min(len(text), low + SNIPPET)
    made, matched, place = "…" if low else "", [], low
    for start, end in sorted(spans):
        start, end = max(start, place), min(end, high)
        if start >= end:
            continue
        made += _line(text[place:start])
        begin = len(made)
        made += _line(text[start:end])
        matched.append((begin, len(made)))
        place = end
    made += _line(text[place:high])
    return Snippet(made + ("…" if high < len(text) else ""), matched)


def _line(text: str) -> str:
    """A text on one line. Ends of lines that a program wrote as `\\n` are no words either."""
    return _SPACE.sub(" ", _ENDS.sub(" ⏎ ", text) if "\\n" in text else text)


def _word_start(text: str, low: int, first: int) -> int:
    """The first place from `low` on where a word begins, at or before the match."""
    if low == 0:
        return 0
    space = text.find(" ", low, first)
    return low if space < 0 else space + 1
