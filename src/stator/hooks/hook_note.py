"""What the hooks of a conversation reported last: its process, its transcript, whether it has ended.

It is kept as a bookmark of the session, so it may be lost. Then the next line of a hook repeats most of it.

A store on a server shows the notes of other machines too. A file and a process that they name are not those of this
machine, and who may write there could name any. So a note has a mark, made with the key of the spool that it came from.
"""

from __future__ import annotations

import os
from typing import Any

import msgspec

from stator.hooks.spool_key import known_key
from stator.model.brief.received import GivenNote
from stator.model.exchange.bookmark import HOOKS, Bookmark
from stator.model.exchange.item_commits import DraftingState
from stator.model.exchange.items import Began, Ended
from stator.model.values.digest import blake2b
from stator.model.values.json_text import canonical
from stator.store.port import StorePort

SETTLING_US = 3_000_000
"""A program that has reported its end may still write to its transcript for this long, in µs."""


class HookNote(msgspec.Struct, omit_defaults=True):
    """What is known of a conversation through its hooks."""

    number: int = 0
    transcript: str = ""
    cwd: str = ""
    process: tuple[int, int, int] = (0, 0, 0)
    """The agent's process: its id, its start time and its pid namespace. Zeros if unknown."""
    at: int = 0
    """When the last line was written, in µs."""
    began: int = 0
    """When the program last started the conversation or took it up again; 0 if no hook reported that."""
    ended: int = 0
    """When the program reported its end, unless it has started again since."""
    state: dict[str, Any] = {}
    """What the mapper of the agent's hooks keeps between lines."""
    drafting: DraftingState | None = None
    """How drafting left off, where hooks are what orders the session."""
    read: dict[str, int] = {}
    """There: up to which offset each file of the spool was recorded."""
    given: list[GivenNote] = []
    """The newest texts that its hooks gave to the agent."""
    mark: str = ""
    """In a store on a server: shows that its transcript and process are those of the machine with the spool."""

    def heard_from(self, process: tuple[int, int, int], at: int) -> None:
        """Note that a process wrote a line. Another one than that which ended is at work, also if the line of its
        start was lost."""
        if process != self.process and at > self.ended:
            self.ended = 0
        self.process, self.at = process, at

    def lifecycle(self, item: Began | Ended) -> None:
        """Note that the program started or ended."""
        if isinstance(item, Began):
            self.began, self.ended = item.at, 0
        else:
            self.ended = item.at

    def bookmark(self, session: str, key: bytes) -> Bookmark:
        """The note of a session to write in place of this one; `key`: of the spool it came from, for a store on a
        server."""
        mark = _mark(key, session, self) if key else ""
        changed = msgspec.structs.replace(self, number=self.number + 1, mark=mark)
        return Bookmark(HOOKS, self.number + 1, msgspec.to_builtins(changed))


def hook_note(store: StorePort, session: str) -> HookNote:
    """What is known of a session through its hooks; nothing if there were none. Of one on another machine, neither its
    transcript nor its process."""
    kept = store.bookmark(session, HOOKS)
    if kept is None:
        return HookNote()
    try:
        found = msgspec.convert(kept.value, HookNote)
    except msgspec.ValidationError:
        found = HookNote()
    found.number = kept.number
    if getattr(store, "remote", False) and not _is_from(
        getattr(store, "spool", ""), session, found
    ):
        found.transcript, found.process = "", (0, 0, 0)
    return found


def _is_from(spool: str, session: str, note: HookNote) -> bool:
    """Whether a note came from the spool of this machine."""
    key = known_key(spool) if spool else None
    return key is not None and note.mark == _mark(key, session, note)


def _mark(key: bytes, session: str, note: HookNote) -> str:
    said = canonical([session, note.transcript, list(note.process)]).encode()
    return blake2b(said, key=key, digest_size=16).hexdigest()


def is_running(note: HookNote) -> bool | None:
    """Whether the agent's process is there; None if that is not known."""
    # imported here because few callers need it
    from stator.runtime.runs.processes import start_ticks

    pid, born, space = note.process
    # A pid names a process only within its namespace, and is reused: the start time tells two apart.
    if not pid or space != namespace():
        return None
    return start_ticks(pid) == born


def rests(note: HookNote, now: int) -> bool | None:
    """Whether a conversation is at rest, so that nothing more is expected of it; None if hooks do not show it."""
    running = is_running(note)
    if note.ended and (not running or now - note.ended >= SETTLING_US):
        return True
    return None if running is None else not running


def namespace() -> int:
    """The pid namespace in which process ids are valid here; -1 if it is unknown."""
    try:
        return os.stat("/proc/self/ns/pid").st_ino
    except OSError:
        return -1
