"""Decides when an agent learns that another one changed the file that it is about to write. Pure.

Each read and write of a file is one line, with a stamp of what the file held afterwards. An agent learns it once: if
another live session wrote the file after this one last saw it, and it holds something else than it did then. Hooks load
this module, so it imports nothing.
"""

from __future__ import annotations

TYPE_CHECKING = False  # as type checkers know it, without the time that loading `typing` takes
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

READ, WROTE, BEFORE, DUE, TOLD = "r", "w", "b", "d", "t"
FIELDS = 7
FIELD_MAX = 160
"""Characters of a field."""
KEPT_MAX = 64
"""Sessions of one file that are remembered."""
PATHS_MAX = 16
"""Files of one call that are looked at."""
PATH_MAX = 4096
COMMAND_MAX = 20_000
PATH_NAMES = ("file_path", "filePath", "notebook_path", "path", "target_file")
READS = frozenset(("Read", "NotebookRead", "read_file", "read", "view_image"))
WRITES = frozenset(
    "Write Edit MultiEdit NotebookEdit StrReplace Delete write_file replace edit_file search_replace delete_file "
    "write edit".split()
)
PATCHES = frozenset(("apply_patch", "patch"))
PATCH_LINES = ("*** Update File: ", "*** Add File: ", "*** Delete File: ", "*** Move to: ")
SHELLS = frozenset(
    ("Bash", "Shell", "shell", "bash", "exec_command", "run_shell_command", "local_shell")
)
TO_FILE = (">", ">>", "tee")


class FileTouch:
    """What is known of one session and one file."""

    __slots__ = ("agent", "at", "due", "key", "process", "seen", "stamp", "told", "tool", "wrote")

    def __init__(self, key: str) -> None:
        self.key = key
        self.agent = self.process = self.stamp = self.tool = ""
        self.at = self.seen = self.wrote = self.due = self.told = 0


class KnownTouches:
    """What is known of one file: each session's touches, what it held at the last line, and when that was."""

    __slots__ = ("at", "by", "stamp")

    def __init__(self) -> None:
        self.by: dict[str, FileTouch] = {}
        self.stamp = ""
        self.at = 0


def line_of(
    at: int, op: str, key: str, agent: str, stamp: str, process: str, detail: str = ""
) -> str:
    """One line: when, what, which session, which agent, what the file holds, which process, and the tool or, of a
    notice, which write it is about."""
    fields = (str(at), op, key, agent, stamp, process, detail)
    whole = "".join(fields)
    is_plain = len(whole) <= FIELD_MAX and _is_plain(whole)
    return "\t".join(fields if is_plain else map(_plain, fields)) + "\n"


def _is_plain(text: str) -> bool:
    return text.isascii() and text.isprintable() and " " not in text and "%" not in text


def _plain(field: str) -> str:
    """A field without anything that could end it; other sessions read it back."""
    field = field[:FIELD_MAX]
    if _is_plain(field):
        return field
    return "".join(c if " " < c <= "~" and c != "%" else f"%{ord(c):x}." for c in field)


def touches_in(text: str) -> KnownTouches:
    """What the lines of one file say. A line of another shape counts for nothing."""
    known = KnownTouches()
    for line in text.split("\n")[:-1]:  # what a process that died left unfinished has no end
        fields = line.split("\t")
        if len(fields) != FIELDS or not fields[0].isdigit() or not fields[2]:
            continue
        at, op, key = int(fields[0]), fields[1], fields[2]
        one = known.by.setdefault(key, FileTouch(key))
        known.stamp, known.at = fields[4], max(known.at, at)
        one.at, one.agent, one.process = at, fields[3], fields[5]
        if op in (READ, WROTE):
            one.seen, one.stamp, one.due = at, fields[4], 0
        if op == WROTE:
            one.wrote, one.tool = at, fields[6]
        if op in (DUE, TOLD) and fields[6].isdigit():
            one.told = int(fields[6])
            one.due = one.told if op == DUE else 0
    return known


def news_for(
    known: KnownTouches, key: str, stamp: str, is_live: Callable[[FileTouch], bool]
) -> FileTouch | None:
    """The session whose write this one must hear of, if there is one."""
    mine = known.by.get(key)
    if mine is None or not mine.seen or mine.stamp == stamp:
        return None
    since = max(mine.seen, mine.told)
    others = [one for one in known.by.values() if one.key != key and one.wrote > since]
    for one in sorted(others, key=lambda other: -other.wrote):
        if is_live(one):
            return one
    return None


def shortened(known: KnownTouches) -> str:
    """Lines that say the same, of the sessions that were active last."""
    lines = []
    newest = sorted(known.by.values(), key=lambda one: one.at)[-KEPT_MAX:]
    for one in newest:
        who = (one.key, one.agent, one.stamp, one.process)
        if one.wrote:
            lines.append((one.wrote, WROTE, *who, one.tool))
        if one.seen > one.wrote:
            lines.append((one.seen, READ, *who, ""))
        if one.told:
            lines.append((one.at, DUE if one.due else TOLD, *who, str(one.told)))
    if newest:
        last = newest[-1]
        lines.append((known.at, BEFORE, last.key, last.agent, known.stamp, last.process, ""))
    return "".join(line_of(*line) for line in sorted(lines, key=lambda line: line[0]))


def paths_of(tool: str, given: Any) -> list[tuple[str, str]]:
    """The files that a call names, and whether it reads or writes each, as its arguments show it."""
    if isinstance(given, str):
        given = {"command": given}
    if not isinstance(given, dict):
        return []
    if tool in READS or tool in WRITES:
        op = READ if tool in READS else WROTE
        found = [(op, given[name]) for name in PATH_NAMES if isinstance(given.get(name), str)][:1]
    else:
        text = next(
            (
                given[name]
                for name in ("command", "cmd", "input", "patch", "patchText")
                if name in given
            ),
            "",
        )
        text = " ".join(map(str, text)) if isinstance(text, list) else text
        if not isinstance(text, str) or len(text) > COMMAND_MAX:
            return []
        if tool in PATCHES or text.startswith("*** Begin Patch"):
            found = list(_in_patch(text))
        else:
            found = _in_command(text) if tool in SHELLS else []
    return [(op, path) for op, path in found if 0 < len(path) <= PATH_MAX and "\0" not in path][
        :PATHS_MAX
    ]


def _in_patch(text: str) -> Iterable[tuple[str, str]]:
    for line in text.split("\n"):
        for start in PATCH_LINES:
            if line.startswith(start):
                yield WROTE, line[len(start) :].strip()


def _in_command(text: str) -> list[tuple[str, str]]:
    """The words of a command that may be files. What it redirects to, it writes; the others it may have read."""
    for sign in (">>", ">", "|", ";", "&", "(", ")", "<"):
        text = text.replace(sign, f" {sign} ") if sign != ">" else _spaced(text)
    found, before = [], ""
    for word in text.split()[: 4 * PATHS_MAX]:
        bare = word.strip("'\"")
        if bare and not bare.startswith("-") and any(c.isalnum() for c in bare):
            found.append((WROTE if before in TO_FILE else READ, bare))
        before = word
    return found


def _spaced(text: str) -> str:
    """The text with blanks around each `>` that is no `>>`."""
    return text.replace(">>", "\0").replace(">", " > ").replace("\0", ">>")
