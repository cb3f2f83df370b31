"""Splits text into words, the same way for the search index and for queries.

Case, accents and width do not count. A word is a run of letters and digits, so that `snake_case` and
`src/auth.py` are found by any of their parts, and whole as a row of words. Scripts that write no
spaces (Chinese, Japanese, Korean, Thai …) give a word for each character. What only capitals
divide (`parseHttp`) is one word, and its parts are added after the text.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable

from stator.model.values.late_pattern import late

WORD_MAX = 64
"""Characters of one word; a longer run is several, side by side."""
HUMPED_MAX = 2000
"""Different identifiers of one text that are taken apart."""
BETWEEN = "\N{BROKEN BAR}"
"""Separates two texts of one document, so that no phrase spans both."""

SINGLE = (
    "\u0e00-\u0eff\u1000-\u109f\u1100-\u11ff\u1780-\u17ff\u3005-\u3007\u3041-\u30ff\u3130-\u318f"
    "\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff"
    "\U0001b000-\U0001b16f\U00020000-\U000323af"
)
"""Characters that are words by themselves, as a set in a pattern: scripts that write no spaces."""
_SINGLE = late(f"[{SINGLE}]")
_ASCII = late(rf"[a-z0-9]{{1,{WORD_MAX}}}")
_WORD = late(rf"(?!\W)[{SINGLE}]|[^\W_{SINGLE}]{{1,{WORD_MAX}}}")
_HUMPED = late(
    rf"(?<![A-Za-z0-9])[A-Za-z0-9]{{0,{WORD_MAX}}}?"
    rf"(?:[a-z0-9][A-Z]|[A-Z]{{2}}[a-z])[A-Za-z0-9]{{0,{WORD_MAX}}}"
)
"""A name that capitals divide. It begins where a run does, so that a long run is gone through once."""
_HUMP = late(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


class _Folds(dict[int, str]):
    """What each character is to a search; filled as characters come."""

    def __missing__(self, code: int) -> str:
        char = chr(code)
        if is_single(char):  # taken apart, a syllable of these would be another word
            made = unicodedata.normalize("NFKC", char)
        else:
            apart = unicodedata.normalize("NFKD", char.casefold())
            made = "".join(one for one in apart if not unicodedata.combining(one)).casefold()
        self[code] = made
        return made


_FOLDS = _Folds()


def composed(text: str) -> str:
    """The text in composed form: some file systems store accents as separate characters."""
    return text if text.isascii() else unicodedata.normalize("NFC", text)


def folded(text: str) -> str:
    """The text without case, accents and width."""
    return text.lower() if text.isascii() else text.translate(_FOLDS)


def places(text: str, found: Iterable[int]) -> list[int]:
    """Where in the text those places of its folded form are."""
    sizes = {char: len(folded(char)) for char in set(text)}
    odd = "".join(char for char, size in sizes.items() if size != 1)
    if not odd:
        return list(found)
    starts: list[int] = []  # in the folded text, of each character that is not one there
    shifts: list[tuple[int, int]] = []  # where it is in the text; how far what follows is moved
    shift = 0
    for match in re.finditer(f"[{re.escape(odd)}]", text):
        starts.append(match.start() + shift)
        shift += sizes[match[0]] - 1
        shifts.append((match.start(), shift))
    return [_place(place, bisect_right(starts, place) - 1, shifts) for place in found]


def _place(place: int, last: int, shifts: list[tuple[int, int]]) -> int:
    if last < 0:
        return place
    start, shift = shifts[last]
    return max(start, place - shift)


def words(text: str) -> list[str]:
    """The words of a text, in order."""
    plain = folded(composed(text))
    return (_ASCII if plain.isascii() else _WORD).findall(plain)


def parts(name: str) -> list[str]:
    """The words that capitals divide a name into; nothing if they do not."""
    return words(_HUMP.sub(" ", name)) if _HUMPED.search(name) else []


def is_single(word: str) -> bool:
    """Whether a word is of a script that writes no spaces."""
    return _SINGLE.match(word) is not None


def indexed(texts: Iterable[str]) -> str:
    """Texts as an index takes them: their words with single spaces, then what names are made of."""
    found: list[str] = []
    humped: dict[str, None] = {}
    for text in texts:
        found += words(text)
        found.append(BETWEEN)
        if len(humped) < HUMPED_MAX:
            humped |= dict.fromkeys(_HUMPED.findall(text))
    for name in list(humped)[:HUMPED_MAX]:
        found += parts(name)
        found.append(BETWEEN)
    return " ".join(found[:-1])
