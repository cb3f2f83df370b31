"""Names the parameters of a workflow as a person would, and finds the parts of texts that are worth one. Pure.

The words of the prompt come first (`client ACME` is the client), then what a value is (a date, an address), then what
its argument is for (`file_path` is a file).
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Sequence

DATE = r"(?:19|20)\d\d-[01]\d-[0-3]\d|(?:19|20)\d\d[01]\d[0-3]\d"
PART_MAX = 200
"""Characters of a part of a text that is a parameter."""
PARTS_MAX = 50
WORD_MAX = 20
"""Letters of a word that a name is made of; a longer one is an id."""
TEXT_MAX = 20_000
"""Characters of a text that is looked through for such parts."""
_DATE = re.compile(rf"(?<![\w-])(?:{DATE})(?![\w-])|(?<=[/_ ])(?:{DATE})(?=[/_. ])")
_PATH = re.compile(r"(?<![\w:/.~-])(?:~/|/|\.{1,2}/)?[\w.-]+(?:/[\w.-]+)+/?")
_QUOTED = re.compile(r"`([^`\n]{3,80})`|\"([^\"\n]{3,80})\"|(?<!\w)'([^'\n]{3,80})'(?!\w)")
_NUMBERED = re.compile(
    r"(?<![\w/.-])(?=[\w-]*[A-Za-z])(?=[\w-]*\d)[A-Za-z0-9]+(?:-[A-Za-z0-9]+)+(?![\w/-])"
)
_FILE = re.compile(r"[\w./~-]*(?:/|\.[A-Za-z][A-Za-z0-9]{0,4})[\w./-]*")
_URL = re.compile(r"https?://\S+")
_ADDRESS = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
_NAMED_BY = frozenset(
    "account author branch build client column company country customer directory email environment feature field file"
    " folder invoice issue job key language message module month name number order package page path pattern person"
    " port project query region release report repo repository server service supplier table tag task team ticket title"
    " topic user version week year".split()
)
"""Words that say what stands beside them."""
_ARGUMENTS = {
    **dict.fromkeys(("file_path", "filePath", "absolute_path", "notebook_path", "target_file", "filename", "file_name"),
                    "file"),
    **dict.fromkeys(("path", "dir_path", "directory", "workdir", "cwd", "folder", "dir"), "folder"),
    **dict.fromkeys(("pattern", "regex", "glob", "include"), "pattern"),
    **dict.fromkeys(("command", "cmd", "script"), "command"),
    **dict.fromkeys(("content", "contents", "file_text"), "text"),
    **dict.fromkeys(("old_string", "oldString", "oldText", "old_str"), "old_text"),
    **dict.fromkeys(("new_string", "newString", "newText", "new_str"), "new_text"),
}  # fmt: skip
"""What an argument of agents' tools is for."""
_OPTIONS = frozenset(
    "description output_mode outputMode subagent_type model type status activeForm active_form task_progress header"
    " multiSelect requires_approval timeout timeout_ms yield_time_ms replace_all replaceAll explanation justification"
    " head_limit limit offset context run_in_background security_risk summary task_id".split()
)
"""Arguments that say how a tool is to work, or why it is used: not what a workflow is about."""
_PLACES = frozenset({"file", "folder", "pattern", "command"})


def is_option(argument: str) -> bool:
    """Whether an argument is never a parameter."""
    return argument in _OPTIONS or argument.startswith("-")


def is_content(argument: str) -> bool:
    """Whether an argument holds a command or a text of a file: a parameter may be in it, but it is none itself."""
    return _ARGUMENTS.get(argument, argument) in ("command", "text", "old_text", "new_text")


def is_place(argument: str) -> bool:
    """Whether an argument holds paths or a command, of which a part may be a parameter."""
    return _ARGUMENTS.get(argument, argument) in _PLACES or argument in ("url", "query", "file")


def name_for(value: object, argument: str, prompt: str) -> str:
    """What a person would call a value."""
    text = value if isinstance(value, str) else repr(value)
    if re.fullmatch(DATE, text):
        return "date"
    said = _said_of(text, prompt)
    if said:
        return said
    if _URL.fullmatch(text):
        return "url"
    if _ADDRESS.fullmatch(text):
        return "email"
    kind = _ARGUMENTS.get(argument, argument)
    is_path = kind in ("folder", "file") or (kind in _PLACES and _FILE.fullmatch(text) is not None)
    if is_path:
        return "file" if posixpath.splitext(text.rstrip("/"))[1] else "folder"
    return "number" if kind == "command" else kind


def _said_of(text: str, prompt: str) -> str:
    """The word of the prompt that says what a value is: the one before it, else the one after it."""
    if not text.strip() or len(text) > PART_MAX:
        return ""
    around = re.search(
        rf"(?:\b([A-Za-z]+)[ :#=]+)?['\"`(]*(?<!\w){re.escape(text)}(?!\w)['\"`)]*(?: +([A-Za-z]+))?",
        prompt,
    )
    words = [word.lower() for word in (around.groups() if around else ()) if word]
    found = next((word for word in words if word in _NAMED_BY), "")
    return {"directory": "folder", "repo": "repository"}.get(found, found)


def with_more(name: str, value: object, *, above: bool = False) -> str:
    """Another name for a second value that would be called the same: it says which; with `above`, by its folder too."""
    folder, last = posixpath.split(str(value).rstrip("/"))
    said = f"{posixpath.basename(folder)} {last}" if above else last
    words = re.findall(r"[A-Za-z0-9]+", posixpath.splitext(said)[0].lower())
    plain = [word for word in words if word.isalpha() and len(word) <= WORD_MAX][:3]
    return "_".join([*plain, name])[:50] if plain else name


def telling_parts(prompt: str, texts: Sequence[str], root: str) -> list[str]:
    """Parts of the given paths and commands that vary from one time to the next: what the prompt names of them, and
    dates that occur more than once. The longest come first; a path with a date in it varies by the date."""
    known = [text for text in texts if len(text) <= TEXT_MAX]
    dates = _seen_dates(known)
    found = {date for date, times in dates.items() if times > 1 or date in prompt}
    for part in _named(prompt):
        clean = part.rstrip("/.,") or part
        is_root = bool(root) and (root + "/").startswith(clean.rstrip("/") + "/")
        if not 3 <= len(clean) <= PART_MAX or is_root or _DATE.search(clean):
            continue
        if any(has(text, clean) for text in known):
            found.add(clean)
    return sorted(found, key=lambda part: (-len(part), part))[:PARTS_MAX]


def _seen_dates(texts: Iterable[str]) -> dict[str, int]:
    seen: dict[str, int] = {}
    for text in texts:
        for date in {match.group() for match in _DATE.finditer(text)}:
            seen[date] = seen.get(date, 0) + 1
    return seen


def _named(prompt: str) -> Iterable[str]:
    """What a prompt names exactly: paths, files, numbers of orders and the like; a quoted name if the prompt says of
    what."""
    for match in _QUOTED.finditer(prompt):
        part = next(group for group in match.groups() if group)
        is_name = part != part.lower() or any(char.isdigit() for char in part)
        if _FILE.fullmatch(part) or (is_name and _said_of(part, prompt)):
            yield part
    for rule in (_PATH, _NUMBERED):
        yield from (match.group() for match in rule.finditer(prompt))


def split_by(text: str, parts: Sequence[str]) -> list[tuple[str, bool]]:
    """A text cut where it has one of the parts: the pieces, and whether each is such a part."""
    if not parts:
        return [(text, False)]
    rule = "|".join(rf"(?<![\w-]){re.escape(part)}(?![\w-])" for part in parts)
    pieces = re.split(f"({rule})", text)
    return [(piece, place % 2 == 1) for place, piece in enumerate(pieces) if piece]


def has(text: str, part: str) -> bool:
    """Whether a text has a part in it, not within a word."""
    return any(is_part for _, is_part in split_by(text, [part]))
