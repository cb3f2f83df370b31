"""What is said of a session beside its name: its first prompt, and what to type to name it in a command."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from stator.model.log.query import SessionRow
from stator.model.values.ids import short
from stator.model.values.late_pattern import late
from stator.model.views.name_words import is_words_of
from stator.runtime.views.glance.listed import ListedSession
from stator.surfaces.cli.render.lines import Line, cells, take
from stator.surfaces.cli.render.record_line import brief, value_of
from stator.surfaces.cli.render.table import TAIL

SEEN = 12
"""Letters and digits of a name that a narrow list shows: two names that begin with the same ones look alike there."""
TRUNKS = ("", "main", "master", "trunk", "HEAD")
"""Branches that tell nothing of a session."""
BRANCH_MAX = 16
ASKED_MAX = 300
"""Characters of a prompt that a line can show."""
NAME_MAX = 32
_PLAIN = late(r"[A-Za-z][A-Za-z0-9_.-]*\Z")


def prompt_beside_name(one: ListedSession, *, always: bool = False) -> str:
    """The first prompt; nothing if the session is named by it, unless `always`."""
    asked = value_of(one.began, "input") if one.began is not None else ""
    if not always and isinstance(asked, str) and is_words_of(one.row.record.name, asked):
        return ""
    return brief(asked, ASKED_MAX)


def newest_prompt(one: ListedSession) -> str:
    """The newest prompt, if it says something; else the first prompt beside the name."""
    if one.newest is not None and one.began is not None and one.newest.seq != one.began.seq:
        from stator.model.views.recap import says_something, typed  # of several turns only

        asked = value_of(one.newest, "input")
        if isinstance(asked, str) and says_something(asked):
            return brief(typed(asked), ASKED_MAX)
    return prompt_beside_name(one)


def typed_name(row: SessionRow) -> str:
    """What names a session in a shell: its name if that needs no quotes, else its id."""
    name = row.record.name
    is_plain = len(name) <= NAME_MAX and _PLAIN.match(name) is not None
    return name if is_plain else short(row.id)


def name_parts(row: SessionRow) -> tuple[str, str]:
    """The name of a session; of a sub-agent's, which begins with that of its parent, its own part, and its parent's."""
    of, _, own = row.record.name.rpartition("/")
    parent = row.record.parent
    if not of or parent is None or parent.kind != "child":
        return row.record.name, ""
    return f"↳ {own}", of


def name_line(row: SessionRow) -> Line:
    """The same on one line."""
    own, of = name_parts(row)
    return Line(own, "bold").add(f" of {of}" if of else "", "dim")


def names_apart(rows: Sequence[SessionRow]) -> list[Line]:
    """The names of several sessions, a line each. One that begins like another ends in what tells them apart: its
    branch, else its id; a table shows that where they look alike in the cells they get, and does not cut it off."""
    begin = [_seen(row) for row in rows]
    alike = Counter(begin)
    branches = Counter((seen, _branch(row)) for seen, row in zip(begin, rows, strict=True))
    lines: list[Line] = []
    for seen, row in zip(begin, rows, strict=True):
        line, branch = name_line(row), _branch(row)
        if alike[seen] > 1:
            is_own = branch not in TRUNKS and branches[seen, branch] == 1
            line.add(f" {branch if is_own else short(row.id)}", TAIL)
        lines.append(line)
    return lines


def _seen(row: SessionRow) -> str:
    return "".join(filter(str.isalnum, name_parts(row)[0]))[:SEEN]


def _branch(row: SessionRow) -> str:
    branch = row.record.labels.get("branch", "")
    return branch if cells(branch) <= BRANCH_MAX else f"{take(branch, BRANCH_MAX - 1)}…"
