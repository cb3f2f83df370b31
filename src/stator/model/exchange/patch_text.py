"""Finds the files that a patch for `apply_patch` (Codex's patch format) changes. Pure.

    *** Begin Patch
    *** Add File: notes.txt
    +one line
    *** Update File: old.py
    *** Move to: new.py
    @@
    -gone
    +here
    *** Delete File: left.txt
    *** End Patch

Only lines that begin with `*** ` are operations. Every line of a file's content begins with `+`,
`-`, a space or `@@`, so content can never be mistaken for an operation.
"""

from __future__ import annotations

from collections.abc import Iterator

from stator.model.exchange.hunks import HUNKS_MAX, Hunk, lines_of
from stator.model.exchange.items import Touch
from stator.model.values.late_pattern import late

BEGIN, END = "*** Begin Patch", "*** End Patch"
END_OF_FILE = "*** End of File"
_IN_SHELL = late(r"(?:^|[\s;&|(])apply_?patch\b[^\n]{0,200}<<-?\s*(['\"]?)(\w+)\1[^\n]*\n")
"""`apply_patch <<'EOF'`, the way in which a shell command passes a patch."""


def files_in_patch(patch: str) -> tuple[Touch, ...]:
    """The files that a patch changes, in its order; empty if the patch is incomplete."""
    lines = patch.strip().split("\n")
    if len(lines) < 2 or lines[0].strip() != BEGIN or lines[-1].strip() != END:
        return ()
    return tuple(_operations(lines[1:-1]))


def files_in_command(command: str) -> tuple[Touch, ...]:
    """The files that a shell command changes through `apply_patch` and a here-document."""
    found = _IN_SHELL.search(command)
    if found is None:
        return ()
    body: list[str] = []
    for line in command[found.end() :].split("\n"):
        if line.strip() == found[2]:
            return files_in_patch("\n".join(body))
        body.append(line)
    return ()


def _operations(lines: list[str]) -> Iterator[Touch]:
    at = 0
    while at < len(lines):
        order, _, path = lines[at].partition(": ")
        path = path.strip()
        at += 1
        if not path:
            continue
        if order == "*** Delete File":
            yield Touch(path=path, op="deleted")
        elif order == "*** Add File":
            body = _added_lines(lines, at)
            yield Touch(path=path, op="created", after_text="".join(body))
        elif order == "*** Update File":
            moved = lines[at] if at < len(lines) else ""
            target = moved.removeprefix("*** Move to: ").strip()
            if moved.startswith("*** Move to: ") and target:
                places = _hunks(lines, at + 1)
                yield Touch(path=target, op="renamed", from_path=path, places=places)
            else:
                yield Touch(path=path, op="modified", places=_hunks(lines, at))


def _added_lines(lines: list[str], at: int) -> Iterator[str]:
    while at < len(lines) and lines[at].startswith("+"):
        yield lines[at][1:] + "\n"
        at += 1


def _hunks(lines: list[str], at: int) -> tuple[Hunk, ...]:
    """The changed places of a file, without the numbers of their lines; nothing if one of them is not understood."""
    bodies: list[list[str]] = [[]]
    while at < len(lines) and (not lines[at].startswith("*** ") or lines[at] == END_OF_FILE):
        if lines[at].startswith("@@"):
            bodies.append([])
        elif lines[at] != END_OF_FILE:
            bodies[-1].append(lines[at])
        at += 1
    changing = (body for body in bodies if any(line[:1] not in ("", " ") for line in body))
    found = tuple(Hunk("".join(f"{line}\n" for line in body)) for body in changing)
    known = len(found) <= HUNKS_MAX and all(lines_of(hunk) is not None for hunk in found)
    return found if known else ()
