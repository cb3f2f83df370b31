"""The folder of a detached run, beside the store: `<store>-runs/<run id>/`.

    run.json           what is known of it; replaced whole, and on disk before it is announced
    lock               flock'ed by the supervisor for its life; a pid or a heartbeat proves nothing
    control            a FIFO the supervisor reads: requests to stop
    output.<offset>    what the program printed, in segments named by their first byte's offset

Output is a bounded live stream, not a record: two segments are kept, and a reader that comes too late
is told how much it missed. Nothing here is redacted, so the folders are their owner's alone.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable, Iterator

import msgspec

from stator import locks
from stator.errors import Busy, InvalidInput, NotFound, StoreFailed
from stator.model.sessions.detached_run import (
    SEGMENT,
    RunInfo,
    StopRequest,
    kept,
    place,
)
from stator.model.values.ids import is_id
from stator.store.port import StorePort

READ_MAX = 64 * 1024
"""Bytes of output that one read gives."""
INFO_MAX = 2**20
"""Bytes of a `run.json` that anyone reads."""
TRIES = 50
TRY_S = 0.01
"""How often, and how far apart, a lock is tried that someone may only be testing."""


class Output(msgspec.Struct, frozen=True):
    """Some output: the bytes, the cursor after them, and how many bytes before them are gone."""

    data: bytes
    cursor: int
    lost: int = 0

    @property
    def text(self) -> str:
        return self.data.decode("utf-8", "replace")


def folder_of(store: StorePort) -> tuple[str, str]:
    """What another process opens the store by, and where its runs are: beside it, or for a store on a server in the
    user's data folder, because a run is one of this machine."""
    if (address := getattr(store, "address", "")) and store.index_path:  # type: ignore[attr-defined]
        return address, f"{store.index_path}-runs"  # type: ignore[attr-defined]
    info = store.info()
    path = info.detail.get("path", "") if info.kind == "sqlite" else ""
    if not path:
        raise InvalidInput(
            f"a {info.kind} store cannot be opened by another process",
            hint="runs need a store in a file",
        )
    whole = os.path.abspath(str(path))
    return whole, f"{whole}-runs"


def boot_id() -> str:
    """Which start of the machine this is; empty where the system does not say."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""


def here() -> str:
    """The working folder."""
    return os.getcwd()


class RunFiles:
    """One run's folder."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.id = os.path.basename(folder)

    def path(self, name: str) -> str:
        return os.path.join(self.folder, name)

    @classmethod
    def create(cls, runs: str, run: str) -> RunFiles:
        os.makedirs(runs, mode=0o700, exist_ok=True)
        folder = os.path.join(runs, run)
        os.mkdir(folder, mode=0o700)
        made = cls(folder)
        os.mkfifo(made.path("control"), 0o600)
        return made

    @classmethod
    def all(cls, runs: str) -> Iterator[RunFiles]:
        """Every run, in no order."""
        try:
            names = os.listdir(runs)
        except FileNotFoundError:
            return
        for name in names:
            if is_id(name, "run"):
                yield cls(os.path.join(runs, name))

    # -- run.json ---------------------------------------------------------------------------------

    def read(self) -> RunInfo:
        """What is known of the run; `NotFound` if nothing can be read."""
        try:
            with open(self.path("run.json"), "rb") as file:
                data = file.read(INFO_MAX)
            return msgspec.json.decode(data, type=RunInfo)
        except (OSError, msgspec.DecodeError) as error:
            raise NotFound(
                f"run {self.id} cannot be read: {error}", hint="stator ps lists runs", run=self.id
            ) from None

    def write(self, info: RunInfo) -> None:
        """Replace what is known, all at once, and have it on disk."""
        made = self.path("run.json.new")
        descriptor = os.open(made, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(msgspec.json.encode(info))
            file.flush()
            os.fsync(descriptor)
        os.replace(made, self.path("run.json"))
        folder = os.open(self.folder, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    # -- liveness ---------------------------------------------------------------------------------

    @contextlib.contextmanager
    def hold(self, sleep: Callable[[float], None]) -> Iterator[int]:
        """Hold the lock, or `Busy`. A process that inherits the descriptor keeps holding it."""
        descriptor = os.open(self.path("lock"), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            self._lock(descriptor, sleep)
            yield descriptor
        finally:
            os.close(descriptor)

    def _lock(self, descriptor: int, sleep: Callable[[float], None]) -> None:
        for _ in range(TRIES):
            if locks.lock_whole(descriptor):
                return
            sleep(TRY_S)
        raise Busy(f"run {self.id} is running", hint=f"stator stop {self.id}", run=self.id)

    def is_live(self) -> bool:
        """Whether a supervisor holds the lock; asking never disturbs it."""
        try:
            descriptor = os.open(self.path("lock"), os.O_RDONLY)
        except OSError:
            return False
        try:
            return not locks.lock_whole(descriptor, shared=True)
        finally:
            os.close(descriptor)

    # -- requests ---------------------------------------------------------------------------------

    def listen(self) -> tuple[int, int]:
        """The supervisor's end of `control`, and a writing end that keeps it from ever being at its end."""
        with contextlib.suppress(FileExistsError):  # a folder that was copied has lost it
            os.mkfifo(self.path("control"), 0o600)
        reading = os.open(self.path("control"), os.O_RDONLY | os.O_NONBLOCK)
        return reading, os.open(self.path("control"), os.O_WRONLY | os.O_NONBLOCK)

    def ask(self, stop: StopRequest) -> bool:
        """Hand a request to the supervisor; False if none is listening."""
        try:
            descriptor = os.open(self.path("control"), os.O_WRONLY | os.O_NONBLOCK)
        except OSError as error:
            if error.errno in (errno.ENXIO, errno.ENOENT):
                return False
            raise StoreFailed(f"run {self.id} cannot be notified: {error.strerror}") from None
        try:
            os.write(descriptor, msgspec.json.encode(stop) + b"\n")
        finally:
            os.close(descriptor)
        return True

    # -- output -----------------------------------------------------------------------------------

    def starts(self) -> list[int]:
        names = (name.partition("output.")[2] for name in os.listdir(self.folder))
        return sorted(int(name) for name in names if name.isdecimal())

    def segment(self, start: int) -> str:
        return self.path(f"output.{start}")

    def output(self, cursor: int = 0) -> Output:
        """What the program printed from a cursor on, at most `READ_MAX` bytes; empty if nothing is new."""
        lost = 0
        while starts := self.starts():
            start, gone = place(starts, cursor)
            cursor, lost = cursor + gone, lost + gone
            data = self._read(start, cursor - start)
            if data is None:  # it was dropped while we looked
                continue
            if data:
                return Output(data, cursor + len(data), lost)
            # The list is older than the read, so a later segment in it means this one is complete.
            later = [later for later in starts if later > start]
            if not later:
                break
            lost, cursor = lost + later[0] - cursor, later[0]
        return Output(b"", cursor, lost)

    def _read(self, start: int, offset: int) -> bytes | None:
        try:
            with open(self.segment(start), "rb") as file:
                file.seek(offset)
                return file.read(READ_MAX)
        except FileNotFoundError:
            return None

    def discard_output(self) -> None:
        """Forget what the program printed."""
        for start in self.starts():
            os.unlink(self.segment(start))

    def discard(self) -> None:
        """Forget the run: one that never began, or whose session is gone."""
        for name in os.listdir(self.folder):
            os.unlink(self.path(name))
        os.rmdir(self.folder)


class OutputWriter:
    """The supervisor's side of the output. A disk that is full loses output, never the run."""

    def __init__(self, files: RunFiles) -> None:
        self._files = files
        self._starts = files.starts() or [0]
        self._start = self._starts[-1]
        self._descriptor = -1
        self._size = 0
        with contextlib.suppress(FileNotFoundError):
            self._size = os.path.getsize(files.segment(self._start))

    def write(self, data: bytes) -> None:
        while data:
            if self._size >= SEGMENT:
                self._turn_over(self._start + self._size)
            part, data = data[: SEGMENT - self._size], data[SEGMENT - self._size :]
            self._write(part)

    def _write(self, part: bytes) -> None:
        try:
            if self._descriptor < 0:
                flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
                path = self._files.segment(self._start)
                self._descriptor = os.open(path, flags, 0o600)
            written = os.write(self._descriptor, part)
        except OSError:
            written = 0
        self._size += written
        if written < len(part):  # what follows is at its own offset; a reader sees the hole
            self._turn_over(self._start + self._size + len(part) - written)

    def _turn_over(self, start: int) -> None:
        self.close()
        if not self._size:
            self._starts.pop()  # it is empty, so nothing older has to go for it
        self._start, self._size = start, 0
        self._starts, dropped = kept([*self._starts, start])
        for old in dropped:
            with contextlib.suppress(OSError):
                os.unlink(self._files.segment(old))

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def beside(store: StorePort) -> Iterator[RunFiles]:
    """The folders of every run beside a store; a store that is in no file has none."""
    with contextlib.suppress(InvalidInput):
        yield from RunFiles.all(folder_of(store)[1])
