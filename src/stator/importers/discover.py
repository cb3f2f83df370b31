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
from stator.importers.format import Format
from stator.importers.reading.found_conversation import FoundConversation
from stator.importers.reading.jsonl import read_beginning
from stator.importers.reading.line_boundary import SHAPE_ERRORS, looked_at
from stator.model.exchange.bundle import MAGIC

FILES_MAX = 200_000
"""The most files that one walk looks at."""
DEPTH_MAX = 40
IGNORED_FOLDERS = frozenset({".git", "node_modules", ".venv", "__pycache__"})
"""Large folders in which no agent stores transcripts."""
READ_ERRORS = (*SHAPE_ERRORS, OSError)
"""What a format may raise on a file that is not what it seemed to be. The file is reported as
unreadable; the other files are imported."""


class ImportCandidate(msgspec.Struct, frozen=True):
    """A conversation that was found, and the format that reads it."""

    format: Format
    found: FoundConversation


class Discovery(msgspec.Struct, kw_only=True):
    """The transcripts and bundles that were found, and the files that are neither."""

    candidates: list[ImportCandidate] = []
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
        return sum(candidate.found.size for candidate in self.candidates)


def discover(
    paths: Iterable[str | os.PathLike[str]],
    *,
    formats: Sequence[Format] | None = None,
    about: str = "",
    belongs: Callable[[str], bool] = lambda folder: False,
    since: int = 0,
    seen: Callable[[int], None] | None = None,
) -> Discovery:
    """Find the transcripts and bundles in files and folders, judging by their content.

    `about` selects conversations that took place in a folder or below it, or in another folder that
    `belongs` to the same project. `since` selects those that changed at that time (µs) or later.
    `seen` is called with the number of files looked at so far.
    """
    discovery = Discovery()
    known = registry.load_all() if formats is None else formats
    load_more = registry.load_added if formats is None else list
    seen_files: set[tuple[str, str]] = set()
    candidates: list[ImportCandidate] = []
    for number, (path, is_named) in enumerate(_walk(paths, discovery.unread)):
        if seen is not None:
            seen(number + 1)
        for candidate in _candidates_in(path, known, load_more, discovery, is_named):
            key = os.path.realpath(candidate.found.path), candidate.found.part
            if key in seen_files:
                continue
            seen_files.add(key)
            folder = candidate.found.conversation.cwd
            is_here = not about or candidate.format.is_in_folder(candidate.found, about)
            if not is_here and not (folder and belongs(folder)):
                discovery.elsewhere += 1
            elif candidate.found.changed < since:
                discovery.older += 1
            else:
                candidates.append(candidate)
    discovery.candidates = _in_order(candidates)
    return discovery


def merge(discoveries: Sequence[Discovery]) -> Discovery:
    """Combine several discoveries into one."""
    others = Counter[str]()
    for discovery in discoveries:
        others.update(discovery.others)
    return Discovery(
        candidates=_in_order(
            [candidate for discovery in discoveries for candidate in discovery.candidates]
        ),
        bundles=[path for discovery in discoveries for path in discovery.bundles],
        others=dict(others),
        unread={path: why for discovery in discoveries for path, why in discovery.unread.items()},
        elsewhere=sum(discovery.elsewhere for discovery in discoveries),
        older=sum(discovery.older for discovery in discoveries),
    )


def existing_paths(format: Format, home: Path, environ: Mapping[str, str]) -> list[Path]:
    """The paths at which an agent stores transcripts, as far as they exist."""
    return [place for place in format.default_paths(home, environ) if os.path.lexists(place)]


# -- walking --------------------------------------------------------------------------------------


def _walk(
    paths: Iterable[str | os.PathLike[str]], unread: dict[str, str]
) -> Iterator[tuple[str, bool]]:
    """Yield the given files and the files below the given folders; the flag says whether a file was
    given by name."""
    remaining = FILES_MAX
    for given in paths:
        path = os.path.expanduser(os.fspath(given))
        if not os.path.isdir(path):
            yield path, True  # also when the file does not exist: reading it reports that
            continue
        for file in _files_below(path, unread, 0):
            if not remaining:
                unread[path] = f"more than {FILES_MAX:,} files; name folders further down"
                return
            remaining -= 1
            yield file, False


def _files_below(folder: str, unread: dict[str, str], depth: int) -> Iterator[str]:
    """Yield the files of a folder before those of its subfolders; symbolic links are not followed."""
    try:
        with os.scandir(folder) as entries:
            found_entries = sorted(entries, key=lambda entry: entry.name)
    except OSError as error:
        unread[folder] = error.strerror or "cannot be read"
        return
    yield from (entry.path for entry in found_entries if entry.is_file(follow_symlinks=False))
    for entry in found_entries:
        if not entry.is_dir(follow_symlinks=False) or entry.name in IGNORED_FOLDERS:
            continue
        if depth == DEPTH_MAX:
            unread[entry.path] = f"more than {DEPTH_MAX} folders deep"
        else:
            yield from _files_below(entry.path, unread, depth + 1)


# -- reading --------------------------------------------------------------------------------------


def _candidates_in(
    path: str,
    formats: Sequence[Format],
    load_more: Callable[[], list[Format]],
    discovery: Discovery,
    is_named: bool,
) -> list[ImportCandidate]:
    """List the conversations in a file; note bundles, other files and errors in `discovery`."""
    try:
        beginning = read_beginning(path)
        if beginning.startswith(MAGIC):
            discovery.bundles.append(path)
            return []
        format = detect_format(Path(path), beginning, formats)
        format = format or detect_format(Path(path), beginning, load_more())
        if format is not None:
            return [ImportCandidate(format, found) for found in format.conversations(Path(path))]
    except InvalidInput as refusal:
        discovery.unread[path] = refusal.what
    except READ_ERRORS as error:
        discovery.unread[path] = f"cannot be read: {error!r:.200}"
    else:
        if is_named:
            discovery.unread[path] = "not a transcript of a known format"
            return []
        kind = os.path.splitext(path)[1].lower()[:12] or "(no ending)"
        discovery.others[kind] = discovery.others.get(kind, 0) + 1
    return []


def detect_format(path: Path, beginning: bytes, formats: Sequence[Format]) -> Format | None:
    """The first format that recognizes a file."""
    if not beginning.strip():
        return None
    return next(
        (
            format
            for format in formats
            if looked_at(format.recognizes, path, beginning, default=False)
        ),
        None,
    )


def _in_order(candidates: list[ImportCandidate]) -> list[ImportCandidate]:
    """Sort the newest first, but keep every conversation after its parent and after its fork
    origin.

    Several files may hold the same conversation. The most complete one comes first, because it
    contains the first prompt, which names the session.
    """
    candidates = sorted(candidates, key=lambda candidate: -candidate.found.changed)
    by_id: dict[tuple[str, str], list[ImportCandidate]] = {}
    for candidate in sorted(candidates, key=_is_partial):
        by_id.setdefault(_identity(candidate), []).append(candidate)
    placed: dict[int, ImportCandidate] = {}
    for candidate in candidates:
        for each in reversed(_with_ancestors(candidate, by_id)):
            for same in by_id[_identity(each)]:
                placed.setdefault(id(same), same)
    return list(placed.values())


def _identity(candidate: ImportCandidate) -> tuple[str, str]:
    """The identity of a conversation: the agent's name and the agent's id for it."""
    return candidate.found.conversation.source, candidate.found.conversation.id


def _is_partial(candidate: ImportCandidate) -> tuple[bool, bool]:
    """Sort transcripts before printed output of the same conversation; printed output has no title."""
    return candidate.found.is_fallback, not candidate.found.conversation.name.strip()


def _with_ancestors(
    candidate: ImportCandidate, by_id: Mapping[tuple[str, str], list[ImportCandidate]]
) -> list[ImportCandidate]:
    """A conversation and all its ancestors (parents and fork origins); a cycle of ancestors is
    followed once."""
    ancestors, visited, remaining = [candidate], {id(candidate)}, [candidate]
    while remaining:
        conversation = remaining.pop().found.conversation
        for ancestor in (conversation.parent, conversation.fork_of):
            for other in by_id.get((conversation.source, ancestor), []) if ancestor else []:
                if id(other) not in visited:
                    visited.add(id(other))
                    ancestors.append(other)
                    remaining.append(other)
    return ancestors
