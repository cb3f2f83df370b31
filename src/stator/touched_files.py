"""Who read and wrote which file last: small files in a folder beside the spool, which hooks and drivers keep.

The name of a file there is a digest of the path of the file it is about, so that no path leads out of the folder. A
line is written by one `write`, under a lock that death releases; a line that was cut counts for nothing. Hooks load
this module, so it imports almost nothing.
"""

from __future__ import annotations

import os
import stat
import time
import zlib
from _blake2 import blake2b

from stator import locks
from stator.model.brief.shared_files import (
    BEFORE,
    DUE,
    READ,
    TOLD,
    WROTE,
    FileTouch,
    KnownTouches,
    line_of,
    news_for,
    shortened,
    touches_in,
)

TYPE_CHECKING = False  # as type checkers know it, without the time that loading `typing` takes
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Final

    Look = Callable[[KnownTouches], tuple[FileTouch | None, str]]
    """Answers a question about what is known of a file, and gives the line to add."""

FOLDER: Final = "touched"
ENDED: Final = "ended-"
"""Prefix of a file that says that a session has ended."""
DRIVEN: Final = "driven"
"""What the key of a session begins with that a program drives; others begin with their agent."""
CONTENT_MAX = 2**20
"""Bytes of a file whose content is looked at; of a larger one, its size and time."""
LINES_MAX = 4 * 1024
"""Bytes of lines after which they are written in short form."""
READ_MAX = 64 * 1024
ATTEMPTS = 20
PAUSE_S = 0.001
QUIET_US = 600 * 1_000_000
"""A session whose process is not known counts as live for this long after its last line."""
FOLDERS_MAX = 200
"""Folders that are remembered with their paths without links."""
OLD_S = 7 * 24 * 3600
"""Files about nothing that was touched for this long are removed."""
FILES_MAX = 5_000
OPENING = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Toucher:
    """A session that reads and writes files, as it appears to others."""

    def __init__(self, spool: str, key: str, agent: str, process: tuple[int, int, int]) -> None:
        self.folder = os.path.join(spool, FOLDER)
        self.key = key
        self.agent = agent
        self.process = ".".join(map(str, process))
        self._folders: dict[str, tuple[tuple[int, int, int] | None, str]] = {}
        """Folders of files: which one that was and when it changed last, and its path without links."""

    def seen(
        self, path: str, *, tool: str = "", wrote: bool = False, last: tuple[int, str] = (0, "")
    ) -> tuple[int, str]:
        """Note that the session knows what a file holds now: it read it, or wrote it. Returns when that was noted, as
        `noted` does, and what the file holds. `last` is what this returned for the file the last time: where nothing
        changed since, the last line of the file says it already."""
        real = self._real(path)
        stamp = _stamp(real)
        name = self._lines_at(real)
        if last[0] and last == (_changed(name), stamp):
            return last

        def look(known: KnownTouches) -> tuple[None, str]:
            has_changed = wrote and known.stamp != stamp
            line = self._line(known, WROTE if has_changed else READ, stamp, tool if wrote else "")
            return None, line

        self._ask(name, look)
        return _changed(name), stamp

    def before_write(self, path: str, *, later: bool = False) -> FileTouch | None:
        """The session whose change this one has not seen and is about to write over; each change is given once.
        `later`: it is given when `due` is asked."""
        stamp = stamp_of(path)

        def look(known: KnownTouches) -> tuple[FileTouch | None, str]:
            found = news_for(known, self.key, stamp, self._is_live)
            if found is None:
                return None, self._line(known, BEFORE, stamp)
            return found, self._line(known, DUE if later else TOLD, stamp, str(found.wrote))

        return self._locked(path, look)

    def news(self, path: str) -> FileTouch | None:
        """The same of a file that this session is not about to write, until that is noted."""
        stamp = stamp_of(path)
        return self._locked(
            path, lambda known: (news_for(known, self.key, stamp, self._is_live), ""), create=False
        )

    def told(self, path: str, other: FileTouch) -> None:
        """Note that this session knows of a change now."""
        self._locked(
            path, lambda known: (None, self._line(known, TOLD, known.stamp, str(other.wrote)))
        )

    def noted(self, path: str) -> int:
        """When something was noted about a file last; 0 if nothing was."""
        return _changed(self._lines_at(self._real(path)))

    def due(self, path: str) -> FileTouch | None:
        """What `before_write` left to be given later."""

        def look(known: KnownTouches) -> tuple[FileTouch | None, str]:
            mine = known.by.get(self.key)
            if mine is None or not mine.due:
                return None, ""
            # the other session may have written again since
            later = [
                one for one in known.by.values() if one.key != self.key and one.wrote >= mine.due
            ]
            found = min(later, key=lambda one: one.wrote, default=None)
            return found, self._line(known, TOLD, known.stamp, str(mine.due))

        return self._locked(path, look, create=False)

    def ended(self) -> None:
        """Note that the session has ended: its changes are news to nobody."""
        if is_made(self.folder):
            flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            os.close(os.open(self._end_of(self.key), flags, 0o600))

    def began(self) -> None:
        """Note that the session is live, also after it had ended."""
        if os.path.lexists(end := self._end_of(self.key)):
            os.unlink(end)

    # -- parts ------------------------------------------------------------------------------------

    def _line(self, known: KnownTouches, op: str, stamp: str, detail: str = "") -> str:
        at = max(
            time.time_ns() // 1000, known.at + 1
        )  # lines are in order, whatever the clock does
        return line_of(at, op, self.key, self.agent, stamp, self.process, detail)

    def _real(self, path: str) -> str:
        """The path of a file without links. Its folder is looked up again if it changed, or if it is another one."""
        folder, _, name = path.rpartition("/")
        if not path.startswith("/") or name in ("", ".", "..") or os.path.islink(path):
            return os.path.realpath(path)
        which: tuple[int, int, int] | None = None
        try:
            found = os.stat(folder or "/")
            which = found.st_dev, found.st_ino, found.st_ctime_ns
        except OSError:
            pass  # it is not there, as far as can be seen
        known = self._folders.get(folder)
        if known is None or known[0] != which:
            if len(self._folders) >= FOLDERS_MAX:
                self._folders.clear()
            known = self._folders[folder] = (which, os.path.realpath(folder or "/"))
        return f"{known[1].rstrip('/')}/{name}"

    def _lines_at(self, real: str) -> str:
        """The file with the lines about a file, by the path of that without links."""
        return f"{self.folder}/{digest_of(real)}"

    def _end_of(self, key: str) -> str:
        return os.path.join(self.folder, ENDED + digest_of(key))

    def _is_live(self, one: FileTouch) -> bool:
        if os.path.lexists(self._end_of(one.key)):
            return False
        running = is_running(one.process)
        return time.time_ns() // 1000 - one.at < QUIET_US if running is None else running

    def _locked(self, path: str, look: Look, *, create: bool = True) -> FileTouch | None:
        """Ask about the lines of a file, and add one, while no other process does."""
        return self._ask(self._lines_at(os.path.realpath(path)), look, create=create)

    def _ask(self, name: str, look: Look, *, create: bool = True) -> FileTouch | None:
        if not create and not os.path.lexists(name):
            return None
        if not is_made(self.folder):
            return None
        for _ in range(ATTEMPTS):
            handle = os.open(name, OPENING, 0o600)
            try:
                if not _is_locked(handle, name):
                    time.sleep(PAUSE_S)
                    continue
                text = os.pread(handle, READ_MAX, 0).decode("ascii", "replace")
                known = touches_in(text)
                answer, line = look(known)
                if line:
                    _write(handle, name, text, line)
                return answer
            finally:
                os.close(handle)
        return None


def stamp_of(path: str) -> str:
    """What a file holds, in a few characters: the same for the same content."""
    try:
        return _stamp(os.path.realpath(path))
    except (OSError, ValueError):
        return "unread"


def _stamp(real: str) -> str:
    try:
        found = os.stat(real)
        if not stat.S_ISREG(found.st_mode):
            return f"no-file-{stat.S_IFMT(found.st_mode):o}"
        if found.st_size > CONTENT_MAX:
            return f"{found.st_size:x}-{found.st_mtime_ns:x}"
        with open(
            os.open(real, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb"
        ) as file:
            data = file.read(CONTENT_MAX + 1)
    except FileNotFoundError:
        return "gone"
    except (OSError, ValueError):
        return "unread"
    return f"{len(data):x}-{zlib.crc32(data):08x}"


def is_running(process: str) -> bool | None:
    """Whether the process of a line is there; None if that is not known."""
    try:
        pid, born, space = (int(part) for part in process.split("."))
        if not pid or space != os.stat("/proc/self/ns/pid").st_ino:
            return None
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        return int(fields[19]) == born and fields[0] not in (b"Z", b"X")
    except FileNotFoundError:
        return False
    except (OSError, ValueError, IndexError):
        return None


def own_process() -> tuple[int, int, int]:
    """This process, as lines name it."""
    try:
        with open("/proc/self/stat", "rb") as file:
            born = int(file.read().rpartition(b")")[2].split()[19])
        return os.getpid(), born, os.stat("/proc/self/ns/pid").st_ino
    except (OSError, ValueError, IndexError):
        return 0, 0, 0


def prune(spool: str) -> None:
    """Remove what is old, and the oldest of what is too much."""
    folder = os.path.join(spool, FOLDER)
    try:
        with os.scandir(folder) as found:
            files = sorted(
                (entry.stat(follow_symlinks=False).st_mtime, entry.path) for entry in found
            )
    except OSError:
        return
    limit = time.time() - OLD_S
    for number, (changed, path) in enumerate(files):
        if changed >= limit and len(files) - number <= FILES_MAX:
            break
        try:
            os.unlink(path)
        except OSError:
            continue


def _changed(name: str) -> int:
    try:
        return os.stat(name, follow_symlinks=False).st_mtime_ns
    except OSError:
        return 0


def digest_of(text: str) -> str:
    return blake2b(os.fsencode(text), digest_size=16).hexdigest()


def is_made(folder: str) -> bool:
    """Whether the folder is there, made if necessary; a link from elsewhere does not count."""
    try:
        return stat.S_ISDIR(os.lstat(folder).st_mode)
    except OSError:
        pass  # it is not there yet
    try:
        os.makedirs(folder, 0o700, exist_ok=True)
        return stat.S_ISDIR(os.lstat(folder).st_mode)
    except OSError:
        return False


def _is_locked(handle: int, name: str) -> bool:
    """Whether the file is ours alone now, and still the one with that name."""
    if not locks.lock_whole(handle):
        return False
    try:
        here, there = os.fstat(handle), os.lstat(name)
    except OSError:
        return False
    return stat.S_ISREG(here.st_mode) and (here.st_dev, here.st_ino) == (there.st_dev, there.st_ino)


def _write(handle: int, name: str, text: str, line: str) -> None:
    """Add a line; if there are many, write the file again in short form, complete or not at all."""
    cut = "" if text.endswith("\n") or not text else "\n"
    if len(text) + len(line) <= LINES_MAX:
        os.write(handle, (cut + line).encode())
        return
    made = f"{name}.{os.getpid()}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(os.open(made, flags, 0o600), "wb") as file:
        file.write(shortened(touches_in(text + cut + line)).encode())
    os.rename(made, name)
