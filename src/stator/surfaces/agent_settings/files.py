"""Settings files on disk: read, kept aside, replaced in one step, and never behind somebody's back."""

from __future__ import annotations

import difflib
import os
from pathlib import Path
from typing import Literal

import msgspec

from stator.errors import Conflict, InvalidInput
from stator.surfaces.agent_settings.agents import Wanted
from stator.surfaces.agent_settings.merge import added, removed

SIZE_MAX = 32 * 2**20
KEPT = ".before-stator"

Action = Literal["create", "change", "delete", "nothing"]


class Edit(msgspec.Struct, frozen=True):
    """What is to become of one file."""

    path: str
    before: str
    after: str
    existed: bool

    @property
    def action(self) -> Action:
        if self.before == self.after and (self.existed or not self.after):
            return "nothing"
        if not self.after:
            return "delete"
        return "change" if self.existed else "create"

    def patch(self) -> list[str]:
        """The change as a unified diff."""
        return list(
            difflib.unified_diff(
                self.before.splitlines(),
                self.after.splitlines(),
                self.path if self.existed else os.devnull,
                self.path if self.after else os.devnull,
                lineterm="",
            )
        )


def planned(wanted: Wanted, *, remove: bool) -> Edit:
    """What has to change in a file, worked out from what is there now."""
    # A link, as people have who keep their settings elsewhere, is followed and stays a link.
    path = Path(os.path.realpath(wanted.path))
    before, existed = _read(path)
    after = removed(before, wanted) if remove else added(before, wanted)
    return Edit(str(path), before, after, existed)


def apply(edit: Edit) -> str:
    """Make the change; the path of what was kept of the file before, "" if there was none."""
    path = Path(edit.path)
    now, existed = _read(path)
    if (now, existed) != (edit.before, edit.existed):
        raise Conflict(
            f"{path} was changed meanwhile",
            hint="nothing was written; run the command again",
        )
    if edit.action == "delete":  # nothing but ours was in it
        path.unlink()
        return ""
    kept = _keep(path, edit.before) if edit.existed else ""
    path.parent.mkdir(parents=True, exist_ok=True)
    mode = path.stat().st_mode & 0o777 if edit.existed else 0o600
    temporary = path.with_name(f".{path.name}.{os.getpid()}.new")
    _write(temporary, edit.after, mode)
    os.replace(temporary, path)
    return kept


def _keep(path: Path, text: str) -> str:
    """Keep a copy under a name that is free; the first one is what the file was before us."""
    n = 0
    while True:
        copy = path.with_name(f"{path.name}{KEPT}{f'.{n}' if n else ''}")
        try:
            _write(copy, text, path.stat().st_mode & 0o777)
        except FileExistsError:
            n += 1
            continue
        return str(copy)


def _write(path: Path, text: str, mode: int) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def _read(path: Path) -> tuple[str, bool]:
    try:
        if not path.is_file():
            if path.exists():
                raise InvalidInput(f"{path} is not a file", path=str(path))
            return "", False
        if path.stat().st_size > SIZE_MAX:
            raise InvalidInput(f"{path} is larger than settings are", path=str(path))
        with path.open(encoding="utf-8", newline="") as file:
            return file.read(), True
    except UnicodeDecodeError:
        raise InvalidInput(f"{path} is not text in UTF-8", path=str(path)) from None
