"""The list of the stores and projects that this user made or trusted, in the user's data folder.

A line for each: what it is, its id, the file's inode and device, a remark, and the path. Lines are only added; what
was withdrawn has a later line that says so. The hook reads it too, so it loads nothing heavy, and looks a line up
without parsing the others.
"""

from __future__ import annotations

import os
import time

from stator.owner.folder import UserFolder

# type checkers recognize the name; importing it from `typing` would take too long for the hook
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

FILE = "stores"
STORE, PROJECT, WITHDRAWN, DECLINED = "store", "project", "withdrawn", "declined"
"""What a line is about. Declined: the user was asked whether a store is theirs, and answered no."""
SERVER_FILE = "server"
"""A file that names a project's store on a server."""
CONFIRMED = "grants"
"""The remark of a store whose grants of releases up to 0.6 count."""
NOTHING = "-"
PRUNE_BYTES = 2**20
"""A longer list is shortened: lines of files that no longer exist are left out."""
ATTEMPTS = 200
WAIT_S = 0.005


class Listed:
    """A line of the list."""

    __slots__ = ("device", "id", "inode", "kind", "path", "remark")

    def __init__(self, kind: str, id: str, inode: int, device: int, remark: str, path: str) -> None:
        self.kind, self.id, self.inode = kind, id, inode
        self.device, self.remark, self.path = device, remark, path

    def line(self) -> bytes:
        fields = (self.kind, self.id, str(self.inode), str(self.device), self.remark or NOTHING)
        return b"\t".join([*map(str.encode, fields), _quoted(self.path)]) + b"\n"

    def is_file(self, path: str, inode: int, device: int) -> bool:
        """Whether it is about this very file: under the same name, or moved within its filesystem.

        Under its name the device does not count: it changes with a restart, or with the machine that mounts it.
        """
        return self.inode == inode and (self.path == path or self.device == device)


class Register:
    """The list, as it is when it is asked."""

    def __init__(self, folder: UserFolder) -> None:
        self._folder = folder

    def by_id(self, kind: str, id: str) -> list[Listed]:
        """Every line in force about a store or project, by its id; newest last."""
        return [line for line in self._lines(f"\t{id}\t".encode()) if line.kind == kind]

    def by_path(self, kind: str, path: str) -> list[Listed]:
        """Every line in force about what is, or was, at a path."""
        return self._still(kind, self._lines(b"\t" + _quoted(path) + b"\n"))

    def by_file(self, kind: str, inode: int, device: int) -> list[Listed]:
        """Every line in force about a file, under any name."""
        return self._still(kind, self._lines(f"\t{inode}\t{device}\t".encode()))

    def _still(self, kind: str, found: list[Listed]) -> list[Listed]:
        """Those that no later line has withdrawn; such a line names the id, under any path."""
        lines = [line for line in found if line.kind == kind]
        ids = {line.id for line in lines}
        in_force = {line.line() for id in ids for line in self.by_id(kind, id)}
        return [line for line in lines if line.line() in in_force]

    def everything(self) -> list[Listed]:
        return self._lines(b"")

    def add(self, line: Listed) -> None:
        """Write a line down, durably. `OSError` if the folder cannot be written."""
        data = line.line()
        for _ in range(ATTEMPTS):
            if self._folder.append(FILE, data):
                break
            time.sleep(WAIT_S)
        else:
            raise OSError(11, "another process keeps it locked", self._folder.file(FILE))
        if self._size() > PRUNE_BYTES:
            self._folder.rewrite(FILE, _pruned)

    def withdraw(self, kind: str, id: str, path: str) -> None:
        """From now on it is not on the list, under any name."""
        self.add(Listed(WITHDRAWN, id, 0, 0, kind, path))

    def _lines(self, wanted: bytes) -> list[Listed]:
        return _in_force(self._folder.read(FILE) or b"", wanted)

    def _size(self) -> int:
        return os.stat(self._folder.file(FILE)).st_size


def _pruned(data: bytes) -> bytes:
    """The list without what no longer exists."""
    return b"".join(line.line() for line in _in_force(data, b"") if os.path.lexists(line.path))


def _in_force(data: bytes, wanted: bytes) -> list[Listed]:
    """The lines that contain some bytes and were not withdrawn since."""
    found: list[Listed] = []
    for line in _found(data, wanted):
        if line.kind == WITHDRAWN:
            found = [one for one in found if (one.kind, one.id) != (line.remark, line.id)]
        else:
            found.append(line)
    return found


def _found(data: bytes, wanted: bytes) -> Iterator[Listed]:
    """The lines that contain some bytes, in their order."""
    at = 0
    while (at := data.find(wanted, at)) >= 0 and at < len(data):
        begin = data.rfind(b"\n", 0, at) + 1
        end = data.find(b"\n", at)
        if end < 0:
            return  # a line that was not written to its end
        line = _parsed(data[begin:end])
        if line is not None:
            yield line
        at = end + (not wanted)


def _parsed(line: bytes) -> Listed | None:
    fields = line.split(b"\t")
    if len(fields) != 6 or not (fields[2].isdigit() and fields[3].isdigit()):
        return None
    kind, id, remark = (fields[n].decode(errors="replace") for n in (0, 1, 4))
    shown = "" if remark == NOTHING else remark
    return Listed(kind, id, int(fields[2]), int(fields[3]), shown, _unquoted(fields[5]))


def _quoted(path: str) -> bytes:
    """A path without the characters that separate fields and lines."""
    found = os.fsencode(path).replace(b"%", b"%25")
    return found.replace(b"\t", b"%09").replace(b"\n", b"%0A").replace(b"\r", b"%0D")


def _unquoted(path: bytes) -> str:
    found = path.replace(b"%0D", b"\r").replace(b"%0A", b"\n").replace(b"%09", b"\t")
    return os.fsdecode(found.replace(b"%25", b"%"))
