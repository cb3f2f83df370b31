"""Makes patches: the change of a file's content as a unified diff that `git apply` accepts.

Pure text from two contents. Lines end at "\\n" and nowhere else, so that a form feed or a carriage
return is content like any other. Content that cannot be shown line by line is called binary. A path is
quoted as git quotes it: one with a line break in it cannot pretend to be another line of the patch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

import msgspec

from stator.model.exchange.hunks import Hunk, Lines, Place, lines_of, split_lines

CONTEXT = 3
PAIRS_MAX = 1_000_000
"""Equal lines of two contents that are paired to find a short patch; beyond it, one hunk replaces all."""
SNIFFED = 8000
"""Bytes in which a NUL says that a content is binary, as git has it."""
_QUOTED = {"\a": "\\a", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\v": "\\v", "\f": "\\f"}
_QUOTED |= {"\r": "\\r", '"': '\\"', "\\": "\\\\"}

_Operation = tuple[str, int, int, int, int]
"""What becomes of a run of lines: the word for it, where the run is in the one text, and where in the other."""
Change = Literal["added", "changed", "removed", "renamed"]


class FileSide(msgspec.Struct, frozen=True):
    """A file as it is on one side of a patch."""

    path: str
    data: bytes
    mode: int = 0o644


class PatchPart(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of one write of a file whose contents are not: the changed places, or why not even these."""

    turn: int
    seq: int
    places: tuple[Place, ...] = ()
    reason: str = ""


class FilePatch(msgspec.Struct, frozen=True, kw_only=True):
    """The net change of one file: its patch, or the reason why no patch can be shown.

    Where only changed places are known, `parts` has them, write by write, and there is no net patch.
    """

    path: str
    change: Change
    root: str = "."
    from_path: str = ""
    patch: str = ""
    reason: str = ""
    added: int = 0
    """Lines."""
    removed: int = 0
    parts: tuple[PatchPart, ...] = ()
    note: str = ""
    """What else is to be known of the patch: something that is not recorded changed the file in between."""
    base: str = ""
    """The folder that the paths in the patch are relative to, where that is not the session's root."""


def file_patch(
    path: str, root: str, before: FileSide | None, after: FileSide | None, base: str = ""
) -> FilePatch | None:
    """What makes the one of the other; None where they are equal. In the patch, paths are relative to `base`."""
    if before == after or (before is None and after is None):
        return None
    change: Change = "added" if before is None else "removed" if after is None else "changed"
    source = before.path if before is not None and before.path != path else ""
    made = FilePatch(
        path=path, root=root, change="renamed" if source else change, from_path=source, base=base
    )
    before, after = _below(before, base), _below(after, base)
    if (before and is_binary(before.data)) or (after and is_binary(after.data)):
        return msgspec.structs.replace(made, reason=_binary(before, after))
    lines = unified(before, after)
    body = lines[next((n for n, line in enumerate(lines) if line[:2] == "@@"), len(lines)) :]
    signs = Counter(line[:1] for line in body)
    return msgspec.structs.replace(made, patch="".join(lines), added=signs["+"], removed=signs["-"])


def rename_patch(path: str, root: str, from_path: str, base: str = "") -> FilePatch:
    """The patch of a file that got another name and is otherwise the same, whatever it holds."""
    sides = [FileSide(relative(name, base), b"") for name in (from_path, path)]
    return FilePatch(
        path=path, root=root, change="renamed", from_path=from_path, base=base,
        patch="".join(unified(*sides)),
    )  # fmt: skip


def _below(side: FileSide | None, base: str) -> FileSide | None:
    if side is None or not base:
        return side
    return msgspec.structs.replace(side, path=relative(side.path, base))


def is_binary(data: bytes) -> bool:
    """Whether a content has no lines to show."""
    if b"\0" in data[:SNIFFED]:
        return True
    try:
        data.decode()
    except UnicodeDecodeError:
        return True
    return False


def _binary(before: FileSide | None, after: FileSide | None) -> str:
    sizes = [f"{len(side.data):,}" for side in (before, after) if side is not None]
    return f"binary, {' → '.join(sizes)} bytes"


def unified(before: FileSide | None, after: FileSide | None) -> list[str]:
    """The lines of a patch between two text contents, in git's form."""
    first, last = before or after, after or before
    assert first is not None
    assert last is not None
    lines = [f"diff --git {quoted('a/' + first.path)} {quoted('b/' + last.path)}\n"]
    if before is None:
        lines.append(f"new file mode {_mode(last)}\n")
    elif after is None:
        lines.append(f"deleted file mode {_mode(first)}\n")
    else:
        if _mode(before) != _mode(after):
            lines += [f"old mode {_mode(before)}\n", f"new mode {_mode(after)}\n"]
        if before.path != after.path:
            lines += ["similarity index 100%\n"] if before.data == after.data else []
            lines += [f"rename from {quoted(before.path)}\n", f"rename to {quoted(after.path)}\n"]
    hunks = list(_hunks(_lines(before), _lines(after)))
    if hunks:
        lines.append(f"--- {_named('a/' + first.path) if before else '/dev/null'}\n")
        lines.append(f"+++ {_named('b/' + last.path) if after else '/dev/null'}\n")
    return lines + hunks


def text_of(patches: Iterable[FilePatch]) -> str:
    """Patches as one text; a file without a patch becomes a comment, which `git apply` ignores.

    Files outside the session's root are comments too: applied inside it, they would be other files. Only where no
    file is inside, paths are relative to the folder that the text begins with, and those outside it are comments.
    """
    found = list(patches)
    base = next((patch.base for patch in found if patch.base), "")
    lead = f"# paths are relative to {quoted(base)}\n" if base else ""
    return lead + "".join(line for patch in found for line in _shown(patch, base))


def _shown(patch: FilePatch, base: str) -> Iterator[str]:
    path = quoted(patch.path)
    if patch.root != "." and not patch.base:
        folder = quoted(base) if base else "the session's root"
        yield f"# {path}: outside {folder}\n"
        return
    if patch.reason:
        source = f" from {quoted(patch.from_path)}" if patch.change == "renamed" else ""
        yield f"# {path}: {patch.change}{source}; {quoted(patch.reason)}\n"
        return
    if patch.note:
        yield f"# {path}: {quoted(patch.note)}\n"
    if patch.parts:
        yield f"# {path}: only these changed places are known, not the rest of the file\n"
    yield patch.patch
    for part in patch.parts:
        yield f"# {path}: turn {part.turn}, @{part.seq}"
        yield f": {quoted(part.reason)}\n" if part.reason else "\n"
        yield from part_lines(relative(patch.path, patch.base), part.places)


def relative(path: str, base: str) -> str:
    """A path below a folder; as it is where there is no folder, or it is not below it."""
    return path.removeprefix(base.rstrip("/") + "/") if base else path


def part_lines(path: str, places: Sequence[Place]) -> Iterator[str]:
    """Changed places as a patch that git accepts; as comments where it could not: without a line before and after
    the change git does not search for the place, and a text may begin inside a line."""
    numbered = _numbered(places)
    if numbered is None:
        for place in places:
            yield from (f"#   {line}\n" for line in _commented(place))
    elif numbered:
        named = quoted("a/" + path), quoted("b/" + path)
        yield f"diff --git {named[0]} {named[1]}\n"
        yield f"--- {_named('a/' + path)}\n"
        yield f"+++ {_named('b/' + path)}\n"
        for old, new, lines in numbered:
            spans = (old, len(lines.old)), (new, len(lines.new))
            yield "@@ -{} +{} @@\n".format(*(f"{start},{length}" for start, length in spans))
            yield from (_line(sign, line) for sign, line in lines.parts)


def _numbered(places: Sequence[Place]) -> list[tuple[int, int, Lines]] | None:
    """Hunks with the numbers of their lines; made up where they are not known, since git searches for the place
    unless it is said to be the first line."""
    found: list[tuple[int, int, Lines]] = []
    at, more = 2, 0
    for place in places:
        lines = lines_of(place) if isinstance(place, Hunk) else None
        if lines is None or not isinstance(place, Hunk):
            return None
        if not (lines.trail if place.old == 0 else lines.lead + lines.trail):
            return None
        if place.old == 0 and not lines.lead:
            return None
        old = place.old or at
        found.append((old, old + more, lines))
        at = old + len(lines.old)
        more += len(lines.new) - len(lines.old)
    return found


def _commented(place: Place) -> Iterator[str]:
    if isinstance(place, Hunk):
        yield from place.body.removesuffix("\n").split("\n")
        return
    for sign, text in (("-", place.old), ("+", place.new)):
        yield from (f"{sign}{line}" for line in text.removesuffix("\n").split("\n") if text)


def quoted(path: str) -> str:
    """A path as git writes it: as it is, or in quotes if it holds what would end a line."""
    if not any(char < " " or char in '"\\\x7f' for char in path):
        return path
    inner = "".join(
        _QUOTED.get(char) or (f"\\{ord(char):03o}" if char < " " or char == "\x7f" else char)
        for char in path
    )
    return f'"{inner}"'


def _named(path: str) -> str:
    """The same after --- and +++, where a tab ends a name that has a space in it."""
    shown = quoted(path)
    return shown + "\t" if " " in shown and shown == path else shown


def _mode(side: FileSide) -> str:
    return "100755" if side.mode & 0o100 else "100644"


def _lines(side: FileSide | None) -> list[str]:
    """The lines with their ends; the last may have none."""
    return split_lines(side.data.decode()) if side is not None else []


def _hunks(a: list[str], b: list[str]) -> Iterator[str]:
    for group in _groups(a, b):
        first, last = group[0], group[-1]
        yield f"@@ -{_span(first[1], last[2])} +{_span(first[3], last[4])} @@\n"
        for tag, i1, i2, j1, j2 in group:
            if tag == "equal":
                yield from (_line(" ", line) for line in a[i1:i2])
                continue
            yield from (_line("-", line) for line in a[i1:i2])
            yield from (_line("+", line) for line in b[j1:j2])


def _groups(old: list[str], new: list[str]) -> Iterator[list[_Operation]]:
    """Where two texts differ, hunk by hunk, each with the equal lines around it."""
    group: list[_Operation] = []
    for tag, i1, i2, j1, j2 in _operations(old, new):
        if tag != "equal":
            group.append((tag, i1, i2, j1, j2))
            continue
        is_last = i2 == len(old) and j2 == len(new)
        if group:
            kept = i2 - i1 if i2 - i1 <= 2 * CONTEXT and not is_last else min(CONTEXT, i2 - i1)
            group.append((tag, i1, i1 + kept, j1, j1 + kept))
            if kept == i2 - i1 and not is_last:
                continue
            yield group
        lead = min(CONTEXT, i2 - i1)
        group = [(tag, i2 - lead, i2, j2 - lead, j2)] if not is_last else []
    if group:
        yield group


def _operations(old: list[str], new: list[str]) -> Iterator[_Operation]:
    """How the one text becomes the other, as difflib has it; runs that touch each other are one."""
    i = j = start = 0
    for a, b, size in [*matching(old, new), (len(old), len(new), 0)]:
        if (a, b) != (i, j):
            if i > start:
                yield "equal", start, i, j - (i - start), j
            yield ("replace" if a > i and b > j else "delete" if a > i else "insert"), i, a, j, b
            start = a
        i, j = a + size, b + size
    if i > start:
        yield "equal", start, i, j - (i - start), j


def matching(old: Sequence[str], new: Sequence[str]) -> Iterator[tuple[int, int, int]]:
    """Runs of lines that two texts have in common, as a patch between them shows it: where each begins in the one, in
    the other, and its length."""
    from difflib import SequenceMatcher  # only patches need it

    a, b = list(old), list(new)
    low = _common(a, b)
    high = _common(a[low:][::-1], b[low:][::-1])
    yield 0, 0, low
    inner = a[low : len(a) - high], b[low : len(b) - high]
    counts = Counter(inner[1])
    if sum(counts[line] for line in inner[0]) <= PAIRS_MAX:
        for block in SequenceMatcher(None, *inner, autojunk=False).get_matching_blocks():
            yield block.a + low, block.b + low, block.size
    yield len(a) - high, len(b) - high, high


def _common(a: list[str], b: list[str]) -> int:
    """How many leading lines two lists share."""
    pairs = enumerate(zip(a, b, strict=False))
    return next((n for n, (x, y) in pairs if x != y), min(len(a), len(b)))


def _span(start: int, stop: int) -> str:
    length = stop - start
    if length == 1:
        return str(start + 1)
    return f"{start + 1 if length else start},{length}"


def _line(sign: str, line: str) -> str:
    return (
        f"{sign}{line}" if line.endswith("\n") else f"{sign}{line}\n\\ No newline at end of file\n"
    )
