"""Reads settings files, backs them up, and replaces them atomically if they did not change."""

from __future__ import annotations

import difflib
import os
from pathlib import Path
from typing import Literal

import msgspec

from stator.errors import Conflict, InvalidInput
from stator.surfaces.agent_settings.agents import WantedSettings
from stator.surfaces.agent_settings.merge import add_entries, remove_entries

SIZE_MAX = 32 * 2**20
BACKUP_SUFFIX = ".before-stator"

Action = Literal["create", "change", "delete", "nothing"]


class SettingsEdit(msgspec.Struct, frozen=True):
    """A planned change of one file."""

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


def plan_edit(wanted: WantedSettings, *, remove: bool) -> SettingsEdit:
    """Plan the change of a file from its present contents."""
    # A symbolic link is followed and stays a link: people link settings from other folders.
    path = Path(os.path.realpath(wanted.path))
    before, existed = _read_file(path)
    after = remove_entries(before, wanted) if remove else add_entries(before, wanted)
    return SettingsEdit(str(path), before, after, existed)


def apply_edit(edit: SettingsEdit) -> str:
    """Make the change; return the path of the backup, "" if the file is new or was deleted."""
    path = Path(edit.path)
    now, existed = _read_file(path)
    if (now, existed) != (edit.before, edit.existed):
        raise Conflict(
            f"{path} was changed by another program",
            hint="nothing was written; run the command again",
        )
    if edit.action == "delete":  # it contained only our entries
        path.unlink()
        return ""
    kept = _back_up(path, edit.before) if edit.existed else ""
    path.parent.mkdir(parents=True, exist_ok=True)
    mode = path.stat().st_mode & 0o777 if edit.existed else 0o600
    temporary = path.with_name(f".{path.name}.{os.getpid()}.new")
    _write(temporary, edit.after, mode)
    os.replace(temporary, path)
    return kept


def _back_up(path: Path, text: str) -> str:
    """Copy a file to a free name; the first backup is the file before our first change."""
    n = 0
    while True:
        copy = path.with_name(f"{path.name}{BACKUP_SUFFIX}{f'.{n}' if n else ''}")
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


def _read_file(path: Path) -> tuple[str, bool]:
    try:
        if not path.is_file():
            if path.exists():
                raise InvalidInput(f"{path} is not a file", path=str(path))
            return "", False
        if path.stat().st_size > SIZE_MAX:
            raise InvalidInput(f"{path} is too large for a settings file", path=str(path))
        with path.open(encoding="utf-8", newline="") as file:
            return file.read(), True
    except UnicodeDecodeError:
        raise InvalidInput(f"{path} is not text in UTF-8", path=str(path)) from None
