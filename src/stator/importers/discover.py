"""Finds transcripts and bundles, in the folders where agents store them or below any path.

The walk has a limit, follows no symbolic links and reads only the beginning of each file. Files
that are not transcripts are counted by their extension. Files that cannot be read are listed with
the reason.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from stator.errors import InvalidInput
from stator.importers import registry
from stator.importers.format import Format, FoundConversation
from stator.importers.reading.jsonl import read_beginning
from stator.model.exchange.bundle import MAGIC

FILES_MAX = 200_000
"""The most files that one walk looks at."""
DEPTH_MAX = 40
IGNORED_FOLDERS = frozenset({".git", "node_modules", ".venv", "__pycache__"})
"""Large folders in which no agent stores transcripts."""
READ_ERRORS = (ArithmeticError, AttributeError, LookupError, OSError, RecursionError, TypeError, ValueError)  # fmt: skip
"""What a format may raise on a file that is not what it seemed to be. The file is reported as
unreadable; the other files are imported."""


class ImportCandidate(msgspec.Struct, frozen=True):
    """A conversation that was found, and the format that reads it."""

    form: Format
    found: FoundConversation


class Discovery(msgspec.Struct, kw_only=True):
    """The transcripts and bundles that were found, and the files that are neither."""

    told: list[ImportCandidate] = []
    """The newest first; sub-agents follow their parents, and forks follow what they were forked
    from."""
    bundles: list[str] = []
    others: dict[str, int] = {}
    """The number of files that are not transcripts, by extension."""
    unread: dict[str, str] = {}
    """Files and folders that could not be read, and why."""
    elsewhere: int = 0
    """The number of conversations that took place in other projects."""
    older: int = 0
    """The number of conversations that last changed before the given time."""

    @property
    def size(self) -> int:
        """The most bytes that an import would have to read."""
        return sum(one.found.size for one in self.told)


def discover(
    paths: Iterable[str | os.PathLike[str]],
    *,
    formats: Sequence[Format] | None = None,
    about: str = "",
    since: int = 0,
    seen: Callable[[int], None] | None = None,
) -> Discovery:
    """Find the transcripts and bundles in files and folders, judging by their content.

    `about` selects conversations that took place in a folder or below it. `since` selects those
    that changed at that time (µs) or later. `seen` is called with the number of files looked at so
    far.
    """
    sight = Discovery()
    known = registry.load_all() if formats is None else formats
    met: set[tuple[str, str]] = set()
    told: list[ImportCandidate] = []
    for number, (path, is_named) in enumerate(_walk(paths, sight.unread)):
        if seen is not None:
            seen(number + 1)
        for one in _candidates_in(path, known, sight, is_named):
            key = os.path.realpath(one.found.path), one.found.part
            if key in met:
                continue
            met.add(key)
            if about and not one.form.is_about(one.found, about):
                sight.elsewhere += 1
            elif one.found.changed < since:
                sight.older += 1
            else:
                told.append(one)
    sight.told = _in_order(told)
    return sight


def merge(sights: Sequence[Discovery]) -> Discovery:
    """Combine several discoveries into one."""
    others = Counter[str]()
    for sight in sights:
        others.update(sight.others)
    return Discovery(
        told=_in_order([one for sight in sights for one in sight.told]),
        bundles=[path for sight in sights for path in sight.bundles],
        others=dict(others),
        unread={path: why for sight in sights for path, why in sight.unread.items()},
        elsewhere=sum(sight.elsewhere for sight in sights),
        older=sum(sight.older for sight in sights),
    )


def existing_paths(form: Format, home: Path, environ: Mapping[str, str]) -> list[Path]:
    """The paths at which an agent stores transcripts, as far as they exist."""
    return [place for place in form.places(home, environ) if os.path.lexists(place)]


# -- walking --------------------------------------------------------------------------------------


def _walk(
    paths: Iterable[str | os.PathLike[str]], unread: dict[str, str]
) -> Iterator[tuple[str, bool]]:
    """Yield the given files and the files below the given folders; the flag says whether a file was
    given by name."""
    left = FILES_MAX
    for given in paths:
        path = os.path.expanduser(os.fspath(given))
        if not os.path.isdir(path):
            yield path, True  # also when the file does not exist: reading it reports that
            continue
        for file in _files_below(path, unread, 0):
            if not left:
                unread[path] = f"more than {FILES_MAX:,} files; name folders further down"
                return
            left -= 1
            yield file, False


def _files_below(folder: str, unread: dict[str, str], depth: int) -> Iterator[str]:
    """Yield the files of a folder before those of its subfolders; symbolic links are not followed."""
    try:
        with os.scandir(folder) as entries:
            there = sorted(entries, key=lambda entry: entry.name)
    except OSError as error:
        unread[folder] = error.strerror or "cannot be read"
        return
    yield from (entry.path for entry in there if entry.is_file(follow_symlinks=False))
    for entry in there:
        if not entry.is_dir(follow_symlinks=False) or entry.name in IGNORED_FOLDERS:
            continue
        if depth == DEPTH_MAX:
            unread[entry.path] = f"more than {DEPTH_MAX} folders deep"
        else:
            yield from _files_below(entry.path, unread, depth + 1)


# -- reading --------------------------------------------------------------------------------------


def _candidates_in(
    path: str, formats: Sequence[Format], sight: Discovery, is_named: bool
) -> list[ImportCandidate]:
    """List the conversations in a file; note bundles, other files and errors in `discovery`."""
    try:
        begin = read_beginning(path)
        if begin.startswith(MAGIC):
            sight.bundles.append(path)
            return []
        form = detect_format(Path(path), begin, formats)
        if form is not None:
            return [ImportCandidate(form, found) for found in form.conversations(Path(path))]
    except InvalidInput as refusal:
        sight.unread[path] = refusal.what
    except READ_ERRORS as error:
        sight.unread[path] = f"cannot be read: {error!r:.200}"
    else:
        if is_named:
            sight.unread[path] = "not a transcript of a known format"
            return []
        kind = os.path.splitext(path)[1].lower()[:12] or "(no ending)"
        sight.others[kind] = sight.others.get(kind, 0) + 1
    return []


def detect_format(path: Path, begin: bytes, formats: Sequence[Format]) -> Format | None:
    """The first format that recognizes a file."""
    if not begin.strip():
        return None
    return next((form for form in formats if form.is_one(path, begin)), None)


def _in_order(told: list[ImportCandidate]) -> list[ImportCandidate]:
    """Sort the newest first, but keep every conversation behind its parent and behind what it was
    forked from.

    Several files may hold the same conversation. The most complete one comes first, because it
    contains the first prompt, which names the session.
    """
    told = sorted(told, key=lambda one: -one.found.changed)
    by_id: dict[tuple[str, str], list[ImportCandidate]] = {}
    for one in sorted(told, key=_is_partial):
        by_id.setdefault(_identity(one), []).append(one)
    placed: dict[int, ImportCandidate] = {}
    for one in told:
        for each in reversed(_with_ancestors(one, by_id)):
            for same in by_id[_identity(each)]:
                placed.setdefault(id(same), same)
    return list(placed.values())


def _identity(one: ImportCandidate) -> tuple[str, str]:
    """The identity of a conversation: the agent's name and the agent's id for it."""
    return one.found.conversation.source, one.found.conversation.id


def _is_partial(one: ImportCandidate) -> tuple[bool, bool]:
    """Sort output that a program printed behind transcripts it stored; printed output has no title."""
    return one.found.is_second_hand, not one.found.conversation.name.strip()


def _with_ancestors(
    one: ImportCandidate, by_id: Mapping[tuple[str, str], list[ImportCandidate]]
) -> list[ImportCandidate]:
    """A conversation and all its ancestors (parents and fork origins); a cycle of ancestors is
    followed once."""
    line, met, left = [one], {id(one)}, [one]
    while left:
        talk = left.pop().found.conversation
        for above in (talk.parent, talk.fork_of):
            for other in by_id.get((talk.source, above), []) if above else []:
                if id(other) not in met:
                    met.add(id(other))
                    line.append(other)
                    left.append(other)
    return line
