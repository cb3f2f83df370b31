"""Records what a driven agent runs with, where that changed: what its program states, what its requests show, and
which tools they offer.

A program that runs again after a crash goes through the settings it had before, up to those it has now. So what it
says is only remembered here, and recorded when something new is: with the next request, the next call or the next
turn that is not answered from the record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import PurePath
from typing import Any

from stator.errors import InvalidInput
from stator.model.calls.known import Scrub
from stator.model.exchange.settings import (
    bounded,
    fingerprint,
    prompt_text,
    prompt_value,
    set_digest,
)
from stator.model.log.clean_record import clean_record
from stator.model.log.commit import Change, Remove, Upsert
from stator.model.records.types import SettingRecord, ToolRecord
from stator.model.values import canon, paths
from stator.model.values.digest import sha256
from stator.model.window.reply import plain_reply
from stator.runtime.base.arguments import text, texts
from stator.runtime.files.disk_check import digest_at
from stator.store.port import StorePort

MISSING = "missing"
"""Instead of the digest of an instruction file that does not exist."""
_MAKE: dict[str, Callable[[Any], Any]] = {"system_prompt": prompt_value, "tools": set_digest}
"""What is recorded of a setting that requests show, where that is not its value."""


class Settings:
    """What one run of a program runs with, and what the record says of that. Not safe for threads: its driver
    locks."""

    def __init__(self, store: StorePort, session: str, scrub: Callable[[], Scrub]) -> None:
        self._store, self._session, self._scrub = store, session, scrub
        self._recorded: dict[str, str] | None = None
        """Fingerprints of what is on record, by name; None before it was read."""
        self._now: dict[str, Any] = {}
        self._seen: dict[str, Any] = {}
        """What requests showed last, as they showed it: compared first, because that costs nothing."""
        self._stated: set[str] = set()
        self.due: set[str] = set()
        """Names whose value may be another than the one on record."""

    def forget(self) -> None:
        """Compare with the record again, because an append failed."""
        self._recorded = None
        self.due = set(self._now)

    def rewound(self) -> None:
        """Compare with the record again, because a rewind changed it. The next request shows its own settings."""
        self._now = {name: self._now[name] for name in self._stated}
        self._seen.clear()
        self.forget()

    def state(self, settings: Mapping[str, Any]) -> None:
        """Take what the program itself says. From then on, requests are not asked about these names."""
        self._stated |= settings.keys()
        self._now |= settings
        self.due |= settings.keys()

    def see(self, shown: Mapping[str, Any]) -> None:
        """Take what a request shows."""
        for name, value in shown.items():
            if name in self._stated or (name in self._seen and self._seen[name] == value):
                continue
            make = _MAKE.get(name, bounded)
            self._seen[name], self._now[name] = value, make(value)
            self.due.add(name)

    def see_wrapped(self, dispatch: Any) -> None:
        """Take the names of the tools that a wrapped loop has, unless a request showed their definitions."""
        if isinstance(dispatch, Mapping) and "tools" not in self._seen:
            self.see({"tools": tool_set(dispatch)})

    def take(self, only: Iterable[str] = ()) -> tuple[Change, ...]:
        """The changes that record what is due, or only these names; they count as recorded from here on."""
        if not self.due:
            return ()
        if self._recorded is None:
            self._recorded = self._read()
        changes: list[Change] = []
        for name in sorted(self.due.intersection(only) if only else self.due):
            self.due.discard(name)
            value = self._now[name]
            mark = "" if value is None else self._mark(name, value)
            if mark == self._recorded.get(name, ""):
                continue
            self._recorded[name] = mark
            record = SettingRecord(name=name, value=value)
            changes.append(Upsert("settings", record) if mark else Remove("settings", name))
        return tuple(changes)

    def _mark(self, name: str, value: Any) -> str:
        """The fingerprint of a value as it is recorded, without secrets."""
        record = clean_record(SettingRecord(name=name, value=value), self._scrub())
        return fingerprint(canon.from_plain(record.value))

    def _read(self) -> dict[str, str]:
        return {
            entry.record.name: fingerprint(canon.from_plain(entry.record.value))
            for entry in self._store.entries(self._session, "settings")
            if isinstance(entry.record, SettingRecord)
        }


class OfferedTools:
    """The tool definitions that the model of a session was offered last."""

    def __init__(self, store: StorePort, session: str) -> None:
        self._store, self._session = store, session
        self._offered: dict[str, str] | None = None

    @property
    def digests(self) -> dict[str, str]:
        """The digests of the definitions that were offered last, by name."""
        return self._offered or {}

    def forget(self) -> None:
        """Read what was offered from the state again, which a rewind may have changed."""
        self._offered = None

    def changes(self, tools: Any) -> dict[str, Any] | None:
        """The fields of the commit that records this offer; None if it is the same as the last one."""
        now = definitions(tools)
        before = self._recorded() if self._offered is None else self._offered
        self._offered = {name: digest for name, (digest, _) in now.items()}
        changed = {name: found for name, found in now.items() if before.get(name) != found[0]}
        gone = [name for name in before if name not in now]
        if not changed and not gone:
            return None
        records = [
            ToolRecord(name=name, definition=digest) for name, (digest, _) in changed.items()
        ]
        records += [ToolRecord(name=name, available=False) for name in gone]
        return {
            "input": [definition for _, definition in changed.values()],
            "changes": tuple(Upsert("tools", record) for record in records),
        }

    def _recorded(self) -> dict[str, str]:
        return {
            record.name: record.definition
            for entry in self._store.entries(self._session, "tools")
            if isinstance(record := entry.record, ToolRecord)
            and record.available
            and record.definition
        }


def stated(settings: Mapping[str, Any], root: str) -> dict[str, Any]:
    """What a program says it runs with, as it is recorded. None means that a setting no longer applies."""
    if not settings:
        raise InvalidInput("nothing to configure", hint='t.configure(model="…", temperature=0)')
    found: dict[str, Any] = {}
    for given, value in settings.items():
        name = "system_prompt" if given == "system" else given
        if value is not None and name == "system_prompt":
            value = prompt_value(_prompt(value))
        elif value is not None and name == "instructions" and not isinstance(value, Mapping):
            value = _instructions(value, root)
        elif name == "tools" and isinstance(value, (list, tuple, Mapping)):
            value = set_digest(tool_set(value))
        canon.dumps(value, path=f"$.{given}")
        found[name] = bounded(value)
    return found


def tool_set(tools: Any) -> dict[str, str]:
    """Tools by name with the digests of their definitions; of functions by name, the names."""
    if isinstance(tools, Mapping):
        return {str(name): "" for name in tools}
    return {name: digest for name, (digest, _) in definitions(tools).items()}


def _prompt(given: Any) -> str:
    """The text of a system prompt."""
    return prompt_text(given) or text(given, "system")


def _instructions(given: Any, root: str) -> dict[str, str]:
    """The digests of instruction files, by their paths below the session's folder."""
    found: dict[str, str] = {}
    for path in [given] if isinstance(given, str) else texts(given, "instructions"):
        place, relative = paths.split(path, root)
        shown = relative if place == "." else path
        found[shown] = digest_at(str(PurePath(root, path))) or MISSING
    return found


def definitions(tools: Any) -> dict[str, tuple[str, Any]]:
    """The offered tools by name: the digest of each definition, and the definition."""
    found: dict[str, tuple[str, Any]] = {}
    for item in tools if isinstance(tools, (list, tuple)) else ():
        plain = plain_reply(item)
        inner = plain.get("function") if isinstance(plain, dict) else None
        named = inner if isinstance(inner, dict) else plain
        name = named.get("name") or named.get("type") if isinstance(named, dict) else None
        if isinstance(name, str):
            data = canon.dumps(plain, path=f"$.tools.{name}")
            found[name] = (sha256(data).hexdigest()[:32], plain)
    return found
