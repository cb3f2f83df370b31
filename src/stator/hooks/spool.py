"""The spool: what hooks wrote and no store has taken yet. Finding its files, having them alone, reading them.

Hooks append to `current`, or to a file of their own where that one is being taken. Whoever takes them
holds the folder's lock, renames each file (so that the next hook begins another) and then locks it: a
hook that is still writing has it shared until it is done. A file is removed when a store has all of
it; until then whoever comes next reads it again. `docs/design/spool.md` has the whole protocol.
"""

from __future__ import annotations

import fcntl
import heapq
import os
import stat
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from typing import Any, BinaryIO

import msgspec

from stator.errors import InvalidInput
from stator.importers.reading.jsonl import decode, open_plain
from stator.locations import NOTE, TAKEN, is_spooled
from stator.model.exchange.item_commits import legible

MARK = b"stator1 "
LOCK = "lock"
BAD = "bad"
"""The folder of what could not be read, or no session took."""
LINE_MAX = 256 * 2**20
HEAD_MAX = 64
"""Bytes in which mark, checksum and length of a line stand."""
FILES_MAX = 200
"""Files that are read at once; more are the next round's."""
EMPTY_OLD_NS = 3600 * 10**9
"""An empty file of a hook's own is one that is about to write; after an hour it is a dead one's."""


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """What one hook said."""

    id: str
    at: int
    agent: str
    cwd: str
    said: dict[str, Any]
    process: tuple[int, int, int] = (0, 0, 0)
    """The agent's: its number, when it started, the namespace that is in. Zeros: nobody knows."""
    file: str = ""
    end: int = 0
    """The offset behind it in its file."""
    raw: bytes = b""


class Bad(msgspec.Struct, frozen=True, kw_only=True):
    """A piece of a file that is no line."""

    file: str
    raw: bytes
    why: str


class Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """What stands in a spool, for whoever asks how it is."""

    files: int = 0
    taken: int = 0
    """Of those, the ones that somebody began to take."""
    bytes: int = 0
    lines: int = 0
    since: int = 0
    """When the oldest line was written, in µs; 0: there is none."""
    torn: int = 0
    bad: int = 0
    """Pieces that were set aside."""
    notes: int = 0
    """Times a hook could not record."""


def names(folder: str) -> list[str]:
    """The files that hold lines, those first that somebody began to take."""
    try:
        with os.scandir(folder) as found:
            kept = [entry.name for entry in found if is_spooled(entry.name)]
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return []
    return sorted(kept, key=lambda name: (not name.startswith(TAKEN), name))


@contextmanager
def alone(folder: str, *, sleep: Callable[[float], object], wait_s: float = 1.0) -> Iterator[bool]:
    """Hold the folder's lock: one takes at a time, or the order of what was said is lost.

    False where somebody else has it for longer than `wait_s`.
    """
    handle = os.open(
        os.path.join(folder, LOCK), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600
    )
    try:
        yield _locked(handle, sleep, wait_s)
    finally:
        os.close(handle)


def _locked(handle: int | BinaryIO, sleep: Callable[[float], object], wait_s: float) -> bool:
    pause, waited = 0.02, 0.0
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if waited >= wait_s:
                return False
            sleep(pause)
            waited += pause
        else:
            return True


class Taken:
    """Files of the spool that are ours until they are closed: nobody writes to them any more."""

    def __init__(
        self,
        folder: str,
        *,
        now: int,
        unique: Callable[[], str],
        sleep: Callable[[float], object],
        wait_s: float = 0.0,
    ) -> None:
        """`now` in ns; `unique` gives a name that nothing else has. A hook that is writing is waited
        for, if not for long: what it began stands before what is in other files."""
        self._folder = folder
        self._sleep = sleep
        self._wait_s = wait_s
        self._held: dict[str, BinaryIO] = {}
        self.skipped = 0
        """Files that a hook is writing to: the next round's."""
        for name in names(folder)[:FILES_MAX]:
            self._take(name, now, unique)

    def _take(self, name: str, now: int, unique: Callable[[], str]) -> None:
        path = os.path.join(self._folder, name)
        try:
            found = os.lstat(path)
            if not stat.S_ISREG(found.st_mode):
                return
            if not name.startswith(TAKEN):
                if not found.st_size and now - found.st_mtime_ns < EMPTY_OLD_NS:
                    return
                name = f"{TAKEN}{now:016x}-{unique()}"
                os.rename(path, os.path.join(self._folder, name))
            file = open_plain(os.path.join(self._folder, name))
        except (FileNotFoundError, InvalidInput):
            return
        if _locked(file, self._sleep, self._wait_s):
            self._held[name] = file
        else:
            self.skipped += 1
            file.close()

    def __enter__(self) -> Taken:
        return self

    def __exit__(self, *exc: object) -> None:
        for file in self._held.values():
            file.close()

    @property
    def files(self) -> list[str]:
        return list(self._held)

    def lines(self) -> Iterator[Line | Bad]:
        """Everything in them, in the order in which it was said."""
        return merged(read(file, name) for name, file in self._held.items())

    def remove(self) -> None:
        """Remove them: a store has what they held."""
        for name in self._held:
            os.unlink(os.path.join(self._folder, name))


def looked_at(folder: str) -> Iterator[Line]:
    """Everything in a spool, without taking any of it."""
    files = []
    try:
        for name in names(folder)[:FILES_MAX]:
            try:
                files.append((name, open_plain(os.path.join(folder, name))))
            except InvalidInput:  # it was taken meanwhile, or is no file
                continue
        everything = merged(read(file, name) for name, file in files)
        yield from (line for line in everything if isinstance(line, Line))
    finally:
        for _, file in files:
            file.close()


def merged(streams: Iterable[Iterator[Line | Bad]]) -> Iterator[Line | Bad]:
    """Files side by side, by time; within one its order stands, whatever the clock did."""
    found = heapq.merge(*map(_timed, streams), key=lambda pair: pair[0])
    return (item for _, item in found)


def _timed(stream: Iterator[Line | Bad]) -> Iterator[tuple[int, Line | Bad]]:
    last = 0
    for item in stream:
        last = max(last, item.at) if isinstance(item, Line) else last
        yield last, item


def read(file: BinaryIO, name: str) -> Iterator[Line | Bad]:
    """The lines of a file from its beginning, and what is none."""
    file.seek(0)
    with os.fdopen(os.dup(file.fileno()), "rb") as buffered:
        end = 0
        while data := buffered.readline(LINE_MAX):
            end += len(data)
            yield from _pieces(data, name, end)


def _pieces(data: bytes, name: str, end: int) -> Iterator[Line | Bad]:
    """A line; what was cut off and stands before one, as something else."""
    whole = data.rstrip(b"\n")
    if not whole.strip():
        return
    first = found = parsed(whole, name, end)
    start = 0
    while not isinstance(found, Line):
        start = whole.find(MARK, start + 1)
        if start < 0:
            yield Bad(file=name, raw=whole, why=str(first))
            return
        if _ends_it(whole, start):
            found = parsed(whole[start:], name, end)
    if start:
        yield Bad(file=name, raw=whole[:start], why="cut off")
    yield found


def _ends_it(data: bytes, start: int) -> bool:
    """Whether what begins there is as long as it says: told from its beginning, for there may be many."""
    head = data[start : start + HEAD_MAX].split(b" ", 3)
    if len(head) < 4:
        return False
    length = len(data) - start - sum(len(part) + 1 for part in head[:3])
    return head[2] == b"%d" % length


def parsed(data: bytes, name: str, end: int) -> Line | str:
    """What a line says, or why it says nothing."""
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
        about, said = decode(header), decode(payload)
        return Line(
            id=legible(about["id"]),
            at=int(about["at"]),
            agent=legible(about["agent"]),
            cwd=str(about["cwd"]),
            said=said if isinstance(said, dict) else {},
            process=_process(about.get("process")),
            file=name,
            end=end,
            raw=data,
        )
    except (ValueError, TypeError, KeyError, AttributeError):
        return "not JSON"


def _process(value: Any) -> tuple[int, int, int]:
    """Who the agent is, where its hook could tell."""
    if isinstance(value, list) and len(value) == 3 and all(type(n) is int for n in value):
        return value[0], value[1], value[2]
    return 0, 0, 0


class Aside:
    """Where what could not be used is kept, once: what one file leaves is put there each time it is read."""

    def __init__(self, folder: str) -> None:
        self._folder = os.path.join(folder, BAD)
        self._files: dict[str, BinaryIO] = {}
        self._known: dict[str, set[bytes]] = {}
        self.count = 0
        """Pieces that were not there before."""

    def put(self, name: str, raw: bytes) -> None:
        """Keep a piece; a kill after this does not lose it."""
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
        if last and not last.endswith(b"\n"):  # whoever wrote it died over it
            file.write(b"\n")
        self._files[name], self._known[name] = file, known

    def close(self) -> None:
        """What was put is on disk from here."""
        for file in self._files.values():
            os.fsync(file.fileno())
            file.close()
        self._files = {}


def standing(folder: str) -> Waiting:
    """How a spool stands."""
    found = names(folder)
    size = lines = torn = since = 0
    for name in found:
        try:
            with open_plain(os.path.join(folder, name)) as file:
                size += os.fstat(file.fileno()).st_size
                for item in read(file, name):
                    lines += isinstance(item, Line)
                    torn += isinstance(item, Bad)
                    if isinstance(item, Line):
                        since = min(since or item.at, item.at)
        except InvalidInput:
            continue
    return Waiting(
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
        with open_plain(path) as file:
            return sum(chunk.count(b"\n") for chunk in iter(lambda: file.read(65_536), b""))
    except InvalidInput:
        return 0
