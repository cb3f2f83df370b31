"""Records which tools the model is offered, where that changed since the last request."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

from stator.model.log.commit import Upsert
from stator.model.records.types import ToolRecord
from stator.model.values import canon
from stator.model.window.reply import plain_reply
from stator.store.port import StorePort


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
