"""Says in a few words what a call is about: its command, its path below the folder of the work, what it looks for.

Only arguments are read, and only their names and shapes are relied on, so that a tool nobody knows is shown too.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Mapping
from typing import Any

from stator.model.calls.argument_names import COMMANDS, PATHS, SOUGHT
from stator.surfaces.cli.render.lines import cells, take
from stator.surfaces.cli.render.record_line import arguments, brief

ABOUT = ("url", "uri", "description", "subject", "title", "question")
BODIES = frozenset(
    "content contents text file_text new_string old_string new_str old_str newText oldText newString"
    " oldString edits patch diff".split()
)
"""Arguments that hold what is written; they say nothing in a few words."""
OLD_AND_NEW = (
    ("old_string", "new_string"), ("old_str", "new_str"), ("oldText", "newText"),
    ("oldString", "newString"), ("old", "new"),
)  # fmt: skip
"""How tools name the text that an edit replaces, and the text that takes its place."""
SUBJECT_MAX = 400
"""Characters of a subject; no screen shows more of it on one line."""
MIDDLE_MIN = 8
"""With less room than this, a path is cut at its end."""
_LINES_MAX = 400


class CallSubject:
    """What a call is about: words, and whether they are a path, which is cut in the middle."""

    __slots__ = ("is_path", "words")

    def __init__(self, words: str, is_path: bool = False) -> None:
        self.words = words
        self.is_path = is_path

    def fitted(self, room: int) -> str:
        """The words in at most `room` cells."""
        return middle(self.words, room) if self.is_path else end(self.words, room)


def subject_of(given: Any, base: str = "") -> CallSubject:
    """What a call with these arguments is about; paths below `base` are shown without it."""
    if not isinstance(given, Mapping):
        return CallSubject(brief(given, SUBJECT_MAX) if given not in ("", None) else "")
    if command := _command(given):
        return CallSubject(without(command, base))
    path = next((given[name] for name in PATHS if isinstance(given.get(name), str)), "")
    sought = next((given[name] for name in SOUGHT if isinstance(given.get(name), str)), "")
    if sought:
        where = f" in {relative(path, base)}" if path else ""
        return CallSubject(brief(sought, SUBJECT_MAX) + where)
    if path and all(name in BODIES or _is_small(given[name]) for name in given):
        return CallSubject(brief(relative(path, base), SUBJECT_MAX), is_path=True)
    about = next((given[name] for name in ABOUT if isinstance(given.get(name), str)), "")
    about = about or _first_question(given)
    return CallSubject(brief(about, SUBJECT_MAX) if about else without(arguments(given), base))


def _first_question(given: Mapping[str, Any]) -> str:
    """The first of several questions to a person."""
    asked = given.get("questions")
    first = asked[0] if isinstance(asked, (list, tuple)) and asked else None
    found = first.get("question") if isinstance(first, Mapping) else None
    return found if isinstance(found, str) else ""


def _command(given: Mapping[str, Any]) -> str:
    found = next((given[name] for name in COMMANDS if name in given), "")
    if isinstance(found, (list, tuple)):  # ["bash", "-lc", "make test"]
        words = [word for word in found if isinstance(word, str)]
        found = words[2] if len(words) == 3 and words[1] in ("-c", "-lc") else " ".join(words)
    return brief(found, SUBJECT_MAX) if isinstance(found, str) else ""


def _is_small(value: Any) -> bool:
    """Whether an argument beside a path only says which part of the file is meant."""
    return not isinstance(value, (str, Mapping, list)) or (
        isinstance(value, str) and len(value) < 200
    )


def relative(path: str, base: str) -> str:
    """The path below `base`, if it is there."""
    if not base or path == base or not path.startswith(f"{base}/"):
        return path
    return path[len(base) + 1 :]


def without(text: str, base: str) -> str:
    """A text in which paths below `base` are relative, without a change to that folder at its beginning."""
    if not base or base not in text:
        return text
    for lead in (f"cd {base} && ", f"cd {base}; ", f'cd "{base}" && '):
        text = text.removeprefix(lead)
    return text.replace(f"{base}/", "")


def middle(text: str, room: int) -> str:
    """A path in at most `room` cells: the name at its end stays, folders in the middle go."""
    if cells(text) <= room:
        return text
    if room < MIDDLE_MIN:
        return end(text, room)
    head, _, name = text.rpartition("/")
    if not head or cells(name) + 2 > room:  # a long name: its beginning and its end
        half = (room - 1) // 2
        return take(text, room - 1 - half) + "…" + _last(text, half)
    kept = take(head, room - cells(name) - 2)
    return f"{kept}…/{name}"


def end(text: str, room: int) -> str:
    """A text in at most `room` cells, cut at its end."""
    return text if cells(text) <= room else take(text, max(0, room - 1)) + "…"


def _last(text: str, room: int) -> str:
    found = text[-room:] if room else ""
    while cells(found) > room:
        found = found[1:]
    return found


def net(added: int, removed: int) -> str:
    """How many lines were added and removed."""
    return f"+{added:,} −{removed:,}"


def lines_changed(given: Any) -> tuple[int, int] | None:
    """Lines that an edit adds and removes, as its arguments say; None if they do not say."""
    if not isinstance(given, Mapping):
        return None
    if isinstance(given.get("edits"), (list, tuple)):
        parts = [lines_changed(edit) for edit in given["edits"]]
        known = [part for part in parts if part is not None]
        if not known or len(known) < len(parts):
            return None
        return sum(part[0] for part in known), sum(part[1] for part in known)
    for old, new in OLD_AND_NEW:
        if isinstance(given.get(old), str) and isinstance(given.get(new), str):
            if given.get("replace_all") or given.get("replaceAll"):
                return None
            return _between(given[old].splitlines(), given[new].splitlines())
    return None


def _between(old: list[str], new: list[str]) -> tuple[int, int] | None:
    """Lines added and removed: those left after what both begin with, end with and have in common."""
    if len(old) + len(new) > _LINES_MAX:
        return None
    while old and new and old[0] == new[0]:
        old, new = old[1:], new[1:]
    while old and new and old[-1] == new[-1]:
        old, new = old[:-1], new[:-1]
    row = [0] * (len(new) + 1)
    for line in old:  # the length of the longest common subsequence
        before = 0
        for place, other in enumerate(new):
            above = row[place + 1]
            row[place + 1] = before + 1 if line == other else max(above, row[place])
            before = above
    return len(new) - row[-1], len(old) - row[-1]


def base_of(paths: Iterable[str]) -> str:
    """The folder that most absolute paths are in; empty if there is none."""
    from stator.model.brief.path_groups import common_folder

    return common_folder([posixpath.normpath(path) for path in paths if path.startswith("/")])
