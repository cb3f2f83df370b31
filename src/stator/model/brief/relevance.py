"""Decides what bears on a prompt: its words, paths and names against those of recorded texts. Pure.

Words that say nothing of a subject do not count; words that are in every prompt about code count little, and so do
words that most sessions of a project have. Paths and names in code are compared as they are written. Below a
threshold nothing bears on a prompt: an agent that gets nothing is better off than one that gets something else.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping

import msgspec

from stator.model.values.tokenizer import folded, words
from stator.model.views.recap import typed

PROMPT_MAX = 6_000
"""Characters of a prompt that are looked at; of a longer one, its beginning and its end."""
WORDS_MAX = 40
NAMES_MAX = 12
NAME_MIN = 6
"""Characters of a name in code; a shorter word with capitals is the name of a product."""
LINE_MAX = 320
"""Characters of one line of a recorded text; a longer one is several."""
LINES_MAX = 400
"""Lines of one recorded text that are looked at."""
WEAK = 0.3
COMMON = 0.4
"""The weight of a word that is in most sessions of a project."""
FILE, NAME, BASENAME, PLAIN_FILE = 2.0, 2.0, 1.2, 0.6
"""The weights of a path or a name that is found whole, of a path of which only the last part is, and of a file name
that every project has."""
ENOUGH, SHARE = 1.3, 0.33
"""The weight that a line must have at least, and its share of what the prompt asks by."""
ENOUGH_BACK, SHARE_BACK = 0.6, 0.25
"""The same for a prompt that speaks of what was done before."""
MUCH, ALL = 2.0, 0.85
"""What a prompt must weigh, and the share of it that a line must have that asks or says the same, however common its
words are."""
SUBJECT = 0.8
"""The value of words that are spread over what a session is about, against words on one line."""

_NO_SUBJECT = frozenset(
    """a an and are as at be been being but by can could did do does doing done for from had has have having how i if in
    into is it its me my no not now of on or our out should so some than that the their them then there these they this
    those to up us was we were what when where which who why will with would you your yours please let lets like just
    also again all any anything about after before am im ive id dont doesnt didnt cant isnt wont hasnt thing things one
    two three four five other others same new old rest part still here over under more most yesterday today tomorrow
    last time continue continues carry go goes going ahead off left leave stop stopped said say says told tell want
    wants need needs must may might ill well too very really much many way ways get gets got give gives yet back down
    only own each every both between while during because since until another such sure thanks thank ok okay yes hi
    hello hey don t s re ve ll d m proceed resume pick keep kept nothing something everything someone where did
    whether without within against per via etc eg ie first second next see seen know known think try tried
    """.split()
)
_WEAK = frozenset(
    """add adds added adding fix fixes fixed fixing write writes wrote written make makes made create creates created
    creating change changes changed update updates updated use uses used using show shows find finds found look looks
    check checks checked run runs running ran work works working open opens opened close closes closed file files code
    test tests tested testing page pages app apps project projects function functions class classes method methods
    name names named list lists item items set sets data error errors fail fails failed failing value values type types
    line lines text texts user users version versions build builds move moves remove removes removed delete deletes
    deleted put puts take takes help explain explains implement implements implementing support supports start starts
    started read reads message messages result results folder folders directory repo repository package packages load
    loads loading wrong button command commands server client issue issues bug bugs feature features request requests
    api script scripts table tables column columns field fields component components module modules library tool tools
    convert converts replace rename set setup install upgrade document documents describe review refactor debug
    typescript javascript python github git html css json yaml sql readme step steps task tasks question answer
    agent agents model models session sessions input output option options default number string key keys id ids
    settings config src lib apps packages small simple short long whole full
    empty good bad better best several correct
    """.split()
)
_PLAIN_FILES = frozenset(
    """readme.md package.json index.ts index.js index.tsx main.py main.ts main.go setup.py pyproject.toml tsconfig.json
    dockerfile makefile .env env.ts .gitignore license changelog.md claude.md agents.md gemini.md cargo.toml go.mod
    __init__.py config.json config.py settings.json utils.py utils.ts types.ts app.py app.ts app.tsx test.py
    """.split()
)
_BRANDS = frozenset(
    "typescript javascript github gitlab graphql postgresql mysql sqlite openai openapi macos ios devops youtube"
    " linkedin oauth websocket nodejs mongodb dynamodb rabbitmq clickhouse latex powershell next.js node.js vue.js"
    " react.js d3.js three.js console.log console.error console.warn process.env"
    " express.js nuxt.js ember.js asp.net vb.net fastapi pytorch tensorflow".split()
)
"""Names of products, and names that all code has, that look like names in code."""

_TOKEN = re.compile(r"[\w@./~+-]*\w[\w/]*")
_FILE = re.compile(r"[^/]*[^/.]\.[A-Za-z][A-Za-z0-9]{0,5}\Z|\.[a-z][\w.]+\Z")
_NAMED = re.compile(r"[a-z0-9][A-Z]|[A-Za-z0-9]_[A-Za-z0-9]|[A-Za-z]-[A-Za-z]+-[A-Za-z]")
_SITE = re.compile(r"\A(?:https?://|www\.)|\.(?:com|org|net|io|dev|ai|co|app|edu|gov)\Z")
_POLITE = r"^\W*(?:(?:ok|okay|so|please|let'?s|now|hi|hey|hello|good morning|can you|could you|and|just)\W+)*"
_FOLLOWS = re.compile(
    _POLITE
    + r"(?:continue|go on|carry on|keep going|keep on|proceed|resume|pick up|go ahead|move on)\b"
    r"|\bwhere (?:we|you|i) (?:left|stopped|were|ended)\b|\bleft off\b"
    r"|\b(?:like|as|same as) (?:yesterday|last time|the last time|we (?:said|discussed|planned|agreed))\b"
    r"|\bfrom (?:yesterday|last (?:time|week|session))\b|\bthe same\b.{0,60}\bagain\b"
    r"|\bas (?:planned|discussed|agreed)\b",
    re.IGNORECASE | re.DOTALL,
)
_BACK = re.compile(
    r"\b(?:did|had|have) (?:we|you|the|it|that|they|i)\b|\b(?:were|was) (?:we|you|anything|it|the)\b"
    r"|\b(?:we|you) (?:did|had|were|wrote|made|decided|found|tried|used|said|changed|talked|chose|picked)\b"
    r"|\b(?:yesterday|last time|earlier|previously|the one before|like before)\b"
    r"|\bwhat (?:failed|happened|came out)\b|\bwho wrote\b|\bwhere is\b|\bdid\b[^.?!]*\?|\bagain\b",
    re.IGNORECASE,
)


class PromptSubject(msgspec.Struct, frozen=True):
    """What a prompt asks by."""

    words: dict[str, float]
    """The beginnings of words, and what each weighs."""
    names: tuple[str, ...] = ()
    """Paths and names in code, as they are written."""
    follows: bool = False
    """It says to continue what was done before."""
    looks_back: bool = False
    """It speaks of what was done before."""
    asked: float = 0.0
    """What everything in it weighs, however common it is."""

    @property
    def is_empty(self) -> bool:
        return not self.words and not self.names

    @property
    def whole(self) -> float:
        """What a text weighs that has everything."""
        return sum(self.words.values()) + sum(map(name_weight, self.names))


def subject_of(prompt: str) -> PromptSubject:
    """What a prompt asks by. Nothing in it is searched for secrets: it stays in this process."""
    text = typed(prompt)
    if len(text) > PROMPT_MAX:
        text = f"{text[: PROMPT_MAX // 2]}\n{text[-PROMPT_MAX // 2 :]}"
    names: dict[str, None] = {}
    plain = _TOKEN.sub(lambda found: _plain(found[0], names), text)
    found: dict[str, float] = {}
    for word in words(plain):
        if word in _NO_SUBJECT or len(word) < 2 or len(found) >= WORDS_MAX:
            continue
        weight = WEAK if word in _WEAK or word.isdigit() else 1.0
        found[stem(word)] = max(weight, found.get(stem(word), 0.0))
    follows = _FOLLOWS.search(text) is not None
    looks_back = follows or _BACK.search(text) is not None
    asked = sum(found.values()) + sum(map(name_weight, names))
    return PromptSubject(found, tuple(names), follows, looks_back, asked)


def _plain(token: str, names: dict[str, None]) -> str:
    """A token of a prompt; nothing where it is a path or a name in code, which is put down."""
    name = token.strip("./~@+-") if not token.startswith(".") else token.rstrip("./")
    if len(name) < 4 or len(name) > 200 or _SITE.search(token) or name.casefold() in _BRANDS:
        return token
    last = name.rpartition("/")[2]
    parts = words(name.rpartition(".")[0] if _FILE.match(last) else name)
    is_path = "/" in name and (bool(_FILE.match(last)) or _is_place(name))
    is_name = len(name) >= NAME_MIN and bool(_NAMED.search(name))
    if not is_path and not _FILE.match(name) and not is_name:
        return token
    if len(names) < NAMES_MAX:
        names[name] = None
    return " ".join(parts) if is_path else " "


def _is_place(name: str) -> bool:
    """Whether words with slashes between them are a path, and not words to choose from."""
    parts = name.casefold().split("/")
    return len(parts) > 2 and not all(part in _WEAK or part in _NO_SUBJECT for part in parts)


def stem(word: str) -> str:
    """A word without its ending, so that forms of a word are one; English only."""
    for ending in ("ings", "ing", "ations", "ation", "ies", "es", "ed", "s"):
        if word.endswith(ending) and len(word) - len(ending) >= 4:
            return word[: -len(ending)]
    return word


def stems(text: str) -> set[str]:
    """The beginnings of a text's words."""
    return {stem(word) for word in words(text)}


def is_file(name: str) -> bool:
    """Whether a path or a name is that of a file."""
    return bool(_FILE.match(name.rpartition("/")[2]))


def name_weight(name: str) -> float:
    return PLAIN_FILE if name.casefold() in _PLAIN_FILES else NAME


def names_in(text: str, names: Iterable[str]) -> dict[str, float]:
    """Which paths and names a text has, and what each weighs there."""
    plain = folded(text)
    found: dict[str, float] = {}
    for name in names:
        whole, last = folded(name), folded(name.rpartition("/")[2])
        if _stands_in(whole, plain):
            found[name] = name_weight(name)
        elif (
            last != whole
            and last not in _PLAIN_FILES
            and _FILE.match(last)
            and _stands_in(last, plain)
        ):
            found[name] = BASENAME
    return found


def _stands_in(name: str, text: str) -> bool:
    """Whether a name is in a text, and not as a part of another."""
    place = text.find(name)
    while place >= 0:
        before = text[place - 1 : place]
        after = text[place + len(name) : place + len(name) + 1]
        if not _joins(before) and not _joins(after):
            return True
        place = text.find(name, place + 1)
    return False


def _joins(char: str) -> bool:
    return bool(char) and (char.isalnum() or char == "_")


def lines_of(text: str) -> Iterator[str]:
    """The lines of a text that say something, each of bounded length."""
    count = 0
    for paragraph in text.split("\n"):
        line = " ".join(paragraph.split())
        while line and count < LINES_MAX:
            cut = len(line) if len(line) <= LINE_MAX else _sentence_end(line)
            yield line[:cut].strip()
            line = line[cut:].strip()
            count += 1


def passages_of(text: str) -> Iterator[tuple[int, int, str]]:
    """Each line with those after it that belong to it, as far as there is room: a heading says nothing by itself.
    The first line of each, the one after its last, and the text."""
    found = list(lines_of(text))
    for place, line in enumerate(found):
        whole, end = line, place + 1
        while end < len(found) and (len(whole) < LINE_MAX // 3 or whole.endswith(":")):
            if len(whole) + len(found[end]) > LINE_MAX:
                break
            whole = f"{whole} {found[end]}"
            end += 1
        yield place, end, whole


def _sentence_end(line: str) -> int:
    """Where a long line is divided: after a sentence, else before a word."""
    for mark in (". ", "; ", ", ", " "):
        place = line.rfind(mark, LINE_MAX // 2, LINE_MAX)
        if place > 0:
            return place + len(mark)
    return LINE_MAX


def weigh(subject: PromptSubject, text: str) -> float:
    """What a text weighs for a prompt."""
    if not subject.words and not subject.names:
        return 0.0
    have = stems(text)
    found = sum(weight for word, weight in subject.words.items() if word in have)
    return found + sum(names_in(text, subject.names).values())


def reweighed(
    subject: PromptSubject, sessions_with: Mapping[str, int], sessions: int
) -> PromptSubject:
    """The same with less weight for words that many sessions of a project have."""
    if sessions < 5:
        return subject
    found = {
        word: weight * max(COMMON, _rarity(sessions_with.get(word, 0), sessions))
        for word, weight in subject.words.items()
    }
    return msgspec.structs.replace(subject, words=found)


def _rarity(having: int, sessions: int) -> float:
    """1 for a word of at most one session, 0 for a word of all."""
    return 1.0 if having <= 1 else max(0.0, 1 - math.log(having) / math.log(sessions))


class SessionWeight(msgspec.Struct, frozen=True, kw_only=True):
    """How much a session has of what a prompt asks by."""

    session: str
    line: float = 0.0
    """The most on one line."""
    subject: float = 0.0
    """What its prompts, its name and its records have together."""
    names: float = 0.0
    """The paths and names that it has anywhere."""

    @property
    def most(self) -> float:
        return max(self.line, SUBJECT * self.subject, self.names)

    @property
    def rank(self) -> float:
        return self.line + SUBJECT * self.subject + self.names


def bears(weight: SessionWeight, subject: PromptSubject) -> bool:
    """Whether a session is about what a prompt asks."""
    if weight.names >= NAME:
        return True
    whole = subject.whole
    if not whole:
        return False
    if subject.follows:
        return weight.most >= SHARE * whole
    if subject.asked >= MUCH and weight.line >= ALL * whole:
        return True
    enough, share = (ENOUGH_BACK, SHARE_BACK) if subject.looks_back else (ENOUGH, SHARE)
    return weight.most >= enough and weight.most >= share * whole


# -- what the agent loads itself ------------------------------------------------------------------

SHINGLE = 4
SAID_SHARE = 0.8
LOADED_MAX = 200_000
"""Characters of the files that an agent loads itself."""


def shingles(texts: Iterable[str]) -> frozenset[str]:
    """The rows of words in texts, to see whether they say something already."""
    found: set[str] = set()
    room = LOADED_MAX
    for text in texts:
        row = list(words(text[:room]))
        room -= min(len(text), room)
        found |= {" ".join(row[place : place + SHINGLE]) for place in range(len(row))}
    return frozenset(found)


def is_said_in(loaded: Collection[str], text: str) -> bool:
    """Whether texts, as `shingles` gives them, say this too."""
    row = list(words(text))
    if not loaded or not row:
        return False
    last = max(1, len(row) - SHINGLE + 1)
    rows = [" ".join(row[place : place + SHINGLE]) for place in range(last)]
    if len(row) < SHINGLE:
        return any(one.startswith(rows[0]) for one in loaded)
    return sum(one in loaded for one in rows) >= SAID_SHARE * len(rows)
