"""Reads settings files, and replaces them atomically if they did not change."""

from __future__ import annotations

import difflib
import os
import re
from pathlib import Path
from typing import Literal

import msgspec

from stator.errors import Conflict, InvalidInput
from stator.surfaces.agent_settings.agents import BRIEFS, HANDOVER, BriefMode, WantedSettings
from stator.surfaces.agent_settings.json_edit import parsed_value
from stator.surfaces.agent_settings.merge import add_entries, has_hooks, remove_entries

SIZE_MAX = 32 * 2**20
BACKUP_SUFFIX = ".before-stator"
"""Versions before 0.8 kept a copy of a file they changed, under this ending."""

_BRIEF = re.compile(r"--brief=(\w+)")

Action = Literal["create", "change", "delete", "nothing"]


class SettingsEdit(msgspec.Struct, frozen=True):
    """A planned change of one file; a text of None means that there is no file."""

    path: str
    before: str | None
    after: str | None
    backup: str = ""
    """A copy that an earlier version left, and that the change makes superfluous."""
    folders: tuple[str, ...] = ()
    """The agent's folders that the file is in, innermost first. They are created with it, and removed with it
    once they are empty."""

    @property
    def action(self) -> Action:
        if self.before == self.after:
            return "nothing"
        if self.after is None:
            return "delete"
        return "create" if self.before is None else "change"

    def patch(self) -> list[str]:
        """The change as a unified diff."""
        return list(
            difflib.unified_diff(
                (self.before or "").splitlines(),
                (self.after or "").splitlines(),
                os.devnull if self.before is None else self.path,
                os.devnull if self.after is None else self.path,
                lineterm="",
            )
        )


def plan_edit(wanted: WantedSettings, *, remove: bool) -> SettingsEdit:
    """Plan the change of a file from its present contents."""
    # A symbolic link is followed and stays a link: people link settings from other folders.
    path = Path(os.path.realpath(wanted.path))
    before = _read_file(path)
    folders = () if wanted.path.is_symlink() else tuple(map(str, path.parents[: wanted.folders]))
    if not remove:
        new = add_entries(before, wanted)
        if before == new.removesuffix("\n") or (before is None and _is_first_empty(folders)):
            # a file of ours without a last line break: its folder was there, and stays
            new = new.removesuffix("\n")
        return SettingsEdit(str(path), before, new, folders=folders)
    after = remove_entries(before, wanted)
    backup = path.with_name(path.name + BACKUP_SUFFIX)
    kept = _read_file(backup) if wanted.kind == "json" and before != after else None
    if kept is not None and _same_settings(kept, after):
        return SettingsEdit(str(path), before, kept, str(backup))
    return SettingsEdit(str(path), before, after, folders=folders)


def records_in(wanted: WantedSettings) -> bool:
    """Whether a settings file turns on recording."""
    return has_hooks(_read_file(Path(os.path.realpath(wanted.path))), wanted)


def brief_in(wanted: WantedSettings) -> BriefMode | None:
    """What a settings file says that the agent is given; None if it does not turn on recording."""
    text = _read_file(Path(os.path.realpath(wanted.path))) or ""
    if not has_hooks(text, wanted):
        return None
    found = _BRIEF.search(text)
    return next((mode for mode in BRIEFS if found is not None and mode == found[1]), "full")


def asks_handover(wanted: WantedSettings) -> bool:
    """Whether a settings file turns on that the agent is asked for handovers."""
    text = _read_file(Path(os.path.realpath(wanted.path))) or ""
    return has_hooks(text, wanted) and HANDOVER in text


def apply_edit(edit: SettingsEdit) -> None:
    """Make the change, whole or not at all."""
    path = Path(edit.path)
    if _read_file(path) != edit.before:
        raise Conflict(
            f"{path} was changed by another program",
            hint="nothing was written; run the command again",
        )
    if edit.after is None:
        path.unlink()
        keeps_first = not (edit.before or "").endswith("\n")
        _remove_empty(edit.folders[:-1] if keeps_first else edit.folders)
    else:
        path.parent.mkdir(parents=True, exist_ok=True)
        _replace(path, edit.after, path.stat() if edit.before is not None else None)
    if edit.backup:
        Path(edit.backup).unlink(missing_ok=True)


def _replace(path: Path, text: str, known: os.stat_result | None) -> None:
    """Replace a file; its mode and its owner stay."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.new")
    mode = known.st_mode & 0o7777 if known else 0o600
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
            file.write(text)
            made = os.fstat(handle)
            if known and (known.st_uid, known.st_gid) != (made.st_uid, made.st_gid):
                os.fchown(handle, known.st_uid, known.st_gid)
            os.fchmod(handle, mode)
            file.flush()
            os.fsync(handle)
        os.replace(temporary, path)
    except PermissionError as error:
        raise InvalidInput(
            f"{path} belongs to another user or group: {error.strerror}",
            path=str(path),
            hint="nothing was changed; run the command as its owner",
        ) from None
    finally:
        temporary.unlink(missing_ok=True)


def _is_first_empty(folders: tuple[str, ...]) -> bool:
    """Whether the first of the agent's folders is there already, and empty."""
    return bool(folders) and os.path.isdir(folders[-1]) and not os.listdir(folders[-1])


def _remove_empty(folders: tuple[str, ...]) -> None:
    """Remove the folders of a removed file, up to one that something else is in."""
    for folder in folders:
        if os.listdir(folder):
            return
        os.rmdir(folder)


def _same_settings(one: str, other: str | None) -> bool:
    """Whether two texts hold the same settings."""
    try:
        return bool(parsed_value(one) == (parsed_value(other) if other and other.strip() else {}))
    except ValueError:
        return False


def _read_file(path: Path) -> str | None:
    """The text of a file; None if there is none."""
    try:
        if not path.is_file():
            if path.exists():
                raise InvalidInput(f"{path} is not a file", path=str(path))
            return None
        if path.stat().st_size > SIZE_MAX:
            raise InvalidInput(f"{path} is too large for a settings file", path=str(path))
        with path.open(encoding="utf-8", newline="") as file:
            return file.read()
    except UnicodeDecodeError:
        raise InvalidInput(f"{path} is not text in UTF-8", path=str(path)) from None
