"""Reads the transcript that an agent's hooks name, with those of the sub-agents beside it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import msgspec

from stator.errors import InvalidInput, StoreError
from stator.hooks.spool import SpoolLine
from stator.importers import registry
from stator.importers.conversation import Report, import_conversation, mapper_of
from stator.importers.format import Format
from stator.importers.reading.found_conversation import FoundConversation
from stator.importers.reading.jsonl import read_beginning
from stator.model.exchange.items import Conversation
from stator.model.log.shown_text import without_secrets
from stator.runtime.base.context import Context
from stator.store.port import StorePort

BEGIN = 65_536


class TranscriptFile:
    """A conversation's transcript, with the sub-agents in it."""

    def __init__(
        self, store: StorePort, context: Context, conversation: Conversation, path: str
    ) -> None:
        self._store = store
        self._context = context
        self._path = path
        self._own = conversation.id
        self.format = _format_of(conversation.source) if path else None
        self._problem = ""
        self.conversations: list[FoundConversation] = []
        """The conversations in the file; empty if it is not a transcript of this conversation."""
        try:
            self.conversations = self._find_conversations()
        except Exception as error:  # a format may raise anything on a hostile file
            self._problem = error_text(error)

    def _find_conversations(self) -> list[FoundConversation]:
        path, format = Path(self._path), self.format
        if format is None or not os.path.isfile(path):
            return []
        if not format.recognizes(path, read_beginning(self._path, BEGIN)):
            return []
        family = {self._own}
        found = []
        for one in format.conversations(path):  # a sub-agent comes after the agent that started it
            if one.conversation.id in family or one.conversation.parent in family:
                family.add(one.conversation.id)
                found.append(one)
        return found

    def describe(self, known: Conversation) -> Conversation:
        """The conversation with what only the transcript knows: its name, what it was forked from, and which mapping
        reads it."""
        if self.format is None:
            return known
        own = [one for one in self.conversations if one.conversation.id == known.id]
        if not own:
            return msgspec.structs.replace(known, mapper=f"{self.format.name}/{self.format.mapper}")
        mapper = mapper_of(self.format, own[-1])
        return msgspec.structs.replace(own[-1].conversation, cwd=known.cwd, mapper=mapper)

    def read(
        self, report: Report, *, at_rest: bool | None, stop: Callable[[], bool] = lambda: False
    ) -> bool:
        """Import what is new in the transcript; return whether all of it was read."""
        is_all = True
        try:
            for found in self.conversations:
                if self.format is not None and not stop():
                    is_all = import_conversation(
                        self._store, self._context, self.format, found, report, via="hook",
                        at_rest=at_rest, stop=stop,
                    ) and is_all  # fmt: skip
        except StoreError:
            raise
        # an unreadable transcript must not keep the hooks' lines from being recorded
        except Exception as error:
            self._problem = error_text(error)
        if self._problem:
            report.refused.setdefault(self._path, self._problem)
        return is_all and not stop()


def transcript_path(line: SpoolLine) -> str:
    """The transcript that a line names; "" if it names none."""
    path = line.payload.get("transcript_path")
    return path if isinstance(path, str) and os.path.isabs(path) and "\0" not in path else ""


def _format_of(agent: str) -> Format | None:
    try:
        return registry.load(agent)
    except (InvalidInput, ImportError):
        return None


def error_text(error: Exception) -> str:
    """An error in one line, without secrets, for a report."""
    return without_secrets(f"{type(error).__name__}: {error}")[:400]
