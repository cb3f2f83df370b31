"""Reads the spool: the files to which hooks append lines until a store records them.

Hooks append to `current`, or to a file of their own while `current` is being ingested. The
ingesting process holds the folder's lock. It renames each file, so that the next hook starts
another one, and then locks it: a hook that is still writing holds a shared lock until it is done. A
file is removed when a store has recorded all of it; until then, the next process reads it again.
`docs/design/spool.md` describes the whole protocol.
"""

from __future__ import annotations

import heapq
import os
import stat
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, BinaryIO

import msgspec

from stator import locks
from stator.errors import InvalidInput
from stator.importers.reading.jsonl import decode_json, open_regular_file
from stator.locations import NOTE, TAKEN, is_spooled
from stator.model.log.shown_text import legible
from stator.model.values.digest import sha256

MARK = b"stator1 "
LOCK = "lock"
BAD = "bad"
"""The folder for pieces that could not be read or that no session accepted."""
LINE_MAX = 256 * 2**20
HEAD_MAX = 64
"""The bytes that hold the mark, the checksum and the length of a line."""
FILES_MAX = 200
"""The most files that are read in one round; the next round reads the others."""
EMPTY_OLD_NS = 3600 * 10**9
"""A hook creates its own file and then writes to it. A file that is still empty after an hour
belongs to a dead hook."""


class SpoolLine(msgspec.Struct, frozen=True, kw_only=True):
    """One line, written by one hook."""

    id: str
    at: int
    agent: str
    cwd: str
    payload: dict[str, Any]
    process: tuple[int, int, int] = (0, 0, 0)
    """The agent's process: its id, its start time and its pid namespace. Zeros if unknown."""
    file: str = ""
    end: int = 0
    """The offset after the line in its file."""
    raw: bytes = b""


class BadPiece(msgspec.Struct, frozen=True, kw_only=True):
    """A piece of a file that is not a valid line."""

    file: str
    raw: bytes
    why: str


class SpoolStatus(msgspec.Struct, frozen=True, kw_only=True):
    """What a spool contains, for reports."""

    files: int = 0
    taken: int = 0
    """The number of these files that an ingesting process has already renamed."""
    bytes: int = 0
    lines: int = 0
    since: int = 0
    """When the oldest line was written, in µs; 0 if there is none."""
    torn: int = 0
    bad: int = 0
    """Pieces in the folder `bad`."""
    notes: int = 0
    """How often a hook could not write its line."""


def spooled_files(folder: str) -> list[str]:
    """The files that contain lines of this user's hooks; files that were renamed for ingestion come
    first."""
    kept = [name for name, is_own in _owned(folder).items() if is_own]
    # Files that are renamed already were left by a process that died: their lines are the oldest.
    return sorted(kept, key=lambda name: (not name.startswith(TAKEN), name))


def foreign_files(folder: str) -> list[str]:
    """What is left alone because it belongs to another user: the folder, or files in it."""
    if os.path.lexists(folder) and not _is_own_folder(folder):
        return [folder]
    foreign = [name for name, is_own in _owned(folder).items() if not is_own]
    return [os.path.join(folder, name) for name in sorted(foreign)]


def _owned(folder: str) -> dict[str, bool]:
    """The files of lines in a folder, and whether each is this user's own; none if the folder is not:
    another user may have put anything into it."""
    owned: dict[str, bool] = {}
    try:
        if not _is_own_folder(folder):
            return {}
        for name in filter(is_spooled, os.listdir(folder)):
            with suppress(FileNotFoundError):  # it was ingested in between
                owned[name] = _is_own(os.lstat(os.path.join(folder, name)))
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return {}
    return owned


def _is_own_folder(folder: str) -> bool:
    found = os.lstat(folder)
    return stat.S_ISDIR(found.st_mode) and _is_own(found)


def _is_own(found: os.stat_result) -> bool:
    """Whether a file belongs to the user this process runs as; for root too, only what is root's."""
    return found.st_uid == os.geteuid()


@contextmanager
def exclusive(
    folder: str, *, sleep: Callable[[float], object], wait_s: float = 1.0
) -> Iterator[bool]:
    """Hold the folder's lock. Only one process may ingest at a time, or lines would be recorded out
    of order.

    Yield False if another process holds the lock for longer than `wait_s`.
    """
    handle = os.open(
        os.path.join(folder, LOCK), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600
    )
    try:
        yield _lock(handle, sleep, wait_s)
    finally:
        os.close(handle)


def _lock(handle: int | BinaryIO, sleep: Callable[[float], object], wait_s: float) -> bool:
    pause, waited = 0.02, 0.0
    while True:
        if locks.lock_whole(handle if isinstance(handle, int) else handle.fileno()):
            return True
        if waited >= wait_s:
            return False
        sleep(pause)
        waited += pause


class ClaimedFiles:
    """Files of the spool that this process has renamed and locked, so that no hook writes to them."""

    def __init__(
        self,
        folder: str,
        *,
        now: int,
        unique: Callable[[], str],
        sleep: Callable[[float], object],
        wait_s: float = 0.0,
    ) -> None:
        """`now` is in ns; `unique` returns a unique name. A hook that is writing is awaited for up
        to `wait_s`, because its lines may be older than those in other files."""
        self._folder = folder
        self._sleep = sleep
        self._wait_s = wait_s
        self._files: dict[str, BinaryIO] = {}
        self.skipped = 0
        """Files to which a hook is writing; they are left for the next round."""
        for name in spooled_files(folder)[:FILES_MAX]:
            self._claim(name, now, unique)

    def _claim(self, name: str, now: int, unique: Callable[[], str]) -> None:
        path = os.path.join(self._folder, name)
        try:
            found = os.lstat(path)
            if not stat.S_ISREG(found.st_mode) or not _is_own(found):
                return
            if not name.startswith(TAKEN):
                if not found.st_size and now - found.st_mtime_ns < EMPTY_OLD_NS:
                    return
                name = f"{TAKEN}{now:016x}-{unique()}"
                os.rename(path, os.path.join(self._folder, name))
            file = open_regular_file(os.path.join(self._folder, name))
        except (FileNotFoundError, InvalidInput):
            return
        # A hook that opened the file before it was renamed still appends to it, under a shared lock.
        if _lock(file, self._sleep, self._wait_s):
            self._files[name] = file
        else:
            self.skipped += 1
            file.close()

    def __enter__(self) -> ClaimedFiles:
        return self

    def __exit__(self, *exc: object) -> None:
        for file in self._files.values():
            file.close()

    @property
    def files(self) -> list[str]:
        return list(self._files)

    def lines(self) -> Iterator[SpoolLine | BadPiece]:
        """Every line in the files, in the order in which it was written."""
        return merge_by_time(read_spool_file(file, name) for name, file in self._files.items())

    def remove(self) -> None:
        """Remove the files, after a store has recorded them."""
        for name in self._files:
            os.unlink(os.path.join(self._folder, name))


def peek(folder: str) -> Iterator[SpoolLine]:
    """Read every line in a spool without locking or renaming its files."""
    files = []
    try:
        for name in spooled_files(folder)[:FILES_MAX]:
            try:
                files.append((name, open_regular_file(os.path.join(folder, name))))
            except InvalidInput:  # it was ingested in between, or is not a regular file
                continue
        everything = merge_by_time(read_spool_file(file, name) for name, file in files)
        yield from (line for line in everything if isinstance(line, SpoolLine))
    finally:
        for _, file in files:
            file.close()


def merge_by_time(
    streams: Iterable[Iterator[SpoolLine | BadPiece]],
) -> Iterator[SpoolLine | BadPiece]:
    """Merge the lines of several files by time; the order within a file stays, even if the clock
    was set back."""
    found = heapq.merge(*map(_with_times, streams), key=lambda pair: pair[0])
    return (item for _, item in found)


def _with_times(
    stream: Iterator[SpoolLine | BadPiece],
) -> Iterator[tuple[int, SpoolLine | BadPiece]]:
    last = 0
    for item in stream:
        last = max(last, item.at) if isinstance(item, SpoolLine) else last
        yield last, item


def read_spool_file(file: BinaryIO, name: str) -> Iterator[SpoolLine | BadPiece]:
    """The lines of a file, and the pieces that are not valid lines."""
    file.seek(0)
    # A duplicate: closing the buffer must not close the file, which would release its lock.
    with os.fdopen(os.dup(file.fileno()), "rb") as buffered:
        end = 0
        while data := buffered.readline(LINE_MAX):
            end += len(data)
            yield from _pieces(data, name, end)


def _pieces(data: bytes, name: str, end: int) -> Iterator[SpoolLine | BadPiece]:
    """A line. If a hook died while writing, its partial line and the next one share a line; the
    partial one is yielded as a bad piece."""
    whole = data.rstrip(b"\n")
    if not whole.strip():
        return
    first = found = parse_spool_line(whole, name, end)
    start = 0
    while not isinstance(found, SpoolLine):
        start = whole.find(MARK, start + 1)
        if start < 0:
            yield BadPiece(file=name, raw=whole, why=str(first))
            return
        if _has_stated_length(whole, start):
            found = parse_spool_line(whole[start:], name, end)
    if start:
        yield BadPiece(file=name, raw=whole[:start], why="cut off")
    yield found


def _has_stated_length(data: bytes, start: int) -> bool:
    """Whether a line that begins at `start` is as long as it says. Cheap, because there may be many
    candidates."""
    head = data[start : start + HEAD_MAX].split(b" ", 3)
    if len(head) < 4:
        return False
    length = len(data) - start - sum(len(part) + 1 for part in head[:3])
    return head[2] == b"%d" % length


def parse_spool_line(data: bytes, name: str, end: int) -> SpoolLine | str:
    """Parse a line; return the reason if it is not valid."""
    parts = data.split(b" ", 3)
    if len(parts) != 4 or parts[0] != MARK.strip():
        return "no line"
    body = parts[3]
    if parts[2] != b"%d" % len(body):
        return "cut off"
    if parts[1] != b"%08x" % zlib.crc32(body):
        return "damaged"
    header, _, payload = body.partition(b"\t")
    try:
        about, payload = decode_json(header), decode_json(payload)
        return SpoolLine(
            id=legible(about["id"]),
            at=int(about["at"]),
            agent=legible(about["agent"]),
            cwd=str(about["cwd"]),
            payload=payload if isinstance(payload, dict) else {},
            process=_process(about.get("process")),
            file=name,
            end=end,
            raw=data,
        )
    except (ValueError, TypeError, KeyError, AttributeError):
        return "not JSON"


def _process(value: Any) -> tuple[int, int, int]:
    """The agent's process, if the hook could find it."""
    if isinstance(value, list) and len(value) == 3 and all(type(n) is int for n in value):
        return value[0], value[1], value[2]
    return 0, 0, 0


class RejectedPieces:
    """Keeps unusable pieces in files, each piece once, although a file may be read several times."""

    def __init__(self, folder: str) -> None:
        self._folder = os.path.join(folder, BAD)
        self._files: dict[str, BinaryIO] = {}
        self._known: dict[str, set[bytes]] = {}
        self.count = 0
        """Pieces that were not kept before."""

    def put(self, name: str, raw: bytes) -> None:
        """Keep a piece; it survives a kill of this process."""
        if name not in self._files:
            self._open(name)
        digest = sha256(raw).digest()
        if digest not in self._known[name]:
            self._known[name].add(digest)
            self._files[name].write(raw + b"\n")
            self.count += 1

    def _open(self, name: str) -> None:
        os.makedirs(self._folder, mode=0o700, exist_ok=True)
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        file = os.fdopen(os.open(os.path.join(self._folder, name), flags, 0o600), "r+b", 0)
        with os.fdopen(os.dup(file.fileno()), "rb") as before:
            last, known = b"\n", set()
            while last.endswith(b"\n") and (last := before.readline(LINE_MAX)):
                known.add(sha256(last.removesuffix(b"\n")).digest())
        if last and not last.endswith(b"\n"):  # the process that wrote it died in between
            file.write(b"\n")
        self._files[name], self._known[name] = file, known

    def close(self) -> None:
        """Write everything to disk."""
        for file in self._files.values():
            os.fsync(file.fileno())
            file.close()
        self._files = {}


def status_of(folder: str) -> SpoolStatus:
    """Count what a spool contains."""
    found = spooled_files(folder)
    size = lines = torn = since = 0
    for name in found:
        try:
            with open_regular_file(os.path.join(folder, name)) as file:
                size += os.fstat(file.fileno()).st_size
                for item in read_spool_file(file, name):
                    lines += isinstance(item, SpoolLine)
                    torn += isinstance(item, BadPiece)
                    if isinstance(item, SpoolLine):
                        since = min(since or item.at, item.at)
        except InvalidInput:
            continue
    return SpoolStatus(
        files=len(found),
        taken=sum(name.startswith(TAKEN) for name in found),
        bytes=size,
        lines=lines,
        since=since,
        torn=torn,
        bad=sum(_count(os.path.join(folder, BAD, name)) for name in _listed(folder, BAD)),
        notes=_count(os.path.join(folder, NOTE)),
    )


def _listed(*parts: str) -> list[str]:
    try:
        return sorted(os.listdir(os.path.join(*parts)))
    except OSError:
        return []


def _count(path: str) -> int:
    try:
        with open_regular_file(path) as file:
            return sum(chunk.count(b"\n") for chunk in iter(lambda: file.read(65_536), b""))
    except InvalidInput:
        return 0
