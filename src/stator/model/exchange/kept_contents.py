"""Decides what is kept of the contents of files that another agent's source shows. Pure.

The rules are those for files on disk: not too large, without a secret, not in a folder that is left out. A text that
is not exactly what the file held (bytes that were no text) is not kept. The same content is kept once, as far as that
is remembered.
"""

from __future__ import annotations

from typing import Any

import msgspec

from stator.model.exchange.hunks import Place, texts_of, to_plain
from stator.model.exchange.items import Touch, digest_of
from stator.model.log.redact import Redactor, has_placeholder
from stator.model.records.types import FileRecord, file_key

SKIPPED = frozenset({".git", ".hg", ".stator", ".venv", "__pycache__", "node_modules"})
"""Folders whose files are not kept."""
BYTES_MAX = 1_000_000
"""The largest content that is kept, in bytes, unless the caller sets another limit."""
BYTES_LIMIT = 8 * 1024 * 1024
"""Bytes a caller may say: escaped, a control character takes six, and a commit has an end."""
COMMIT_BYTES = BYTES_LIMIT
"""Bytes of contents of one commit: reading one file should not load them all."""
KEPT = "kept"
"""Status of a commit that only holds contents."""
NOT_KEPT = "not kept: "
UNKNOWN_BEFORE = "what was there before"
UNRECORDED = "its contents were not recorded"
"""Why a content is not known where nobody asked for contents: no single reason of that file."""
KNOWN_MAX = 128
"""The newest contents whose commits are remembered."""
NO_MODE = 0
"""The mode of a content whose source does not say it."""
_SCRUB = Redactor(b"").scrub
"""Only asked whether there is something to replace."""


class TouchContents:
    """What is kept of the files of one call: the records that name it, and what their commit holds."""

    def __init__(self, within: str, known: dict[str, str]) -> None:
        """`within` is the id of the commit to be; `known` the commits of earlier contents, and is added to."""
        self._within = within
        self._known = known
        self._bytes = 0
        self.contents: dict[str, dict[str, Any]] = {}
        self.patches: dict[str, list[dict[str, Any]]] = {}

    @property
    def input(self) -> dict[str, Any]:
        """What the commit holds; empty if there is nothing to keep."""
        found = {"contents": self.contents, "patches": self.patches}
        return {name: held for name, held in found.items() if held}

    def named(self, touch: Touch, record: FileRecord) -> FileRecord:
        """A record of a touched file, with the names of the commits that hold what it was and is."""
        fields: dict[str, str] = {}
        lost = ""
        skipped = not SKIPPED.isdisjoint(record.path.split("/"))
        sides = (
            ("before", touch.before, touch.before_text),
            ("after", touch.after, touch.after_text),
        )
        for side, digest, text in sides:
            if text is None:
                continue
            why = "ignored" if skipped else self._unfit(digest, text)
            lost = why or lost
            if not why:
                fields[f"{side}_in"] = self._kept(digest, text)
        if touch.places and "after_in" not in fields and not lost:
            lost = "ignored" if skipped else self._places(record, touch.places)
            fields |= {"patch_in": self._within} if not lost else {}
        reason = NOT_KEPT + lost if lost else record.reason
        return msgspec.structs.replace(record, reason=reason, **fields)

    def _kept(self, digest: str, text: str) -> str:
        """The commit that holds a content, now or already."""
        within = self._known.pop(digest, "") or self._within
        self._known[digest] = within
        if len(self._known) > KNOWN_MAX:
            del self._known[next(iter(self._known))]
        if within == self._within and digest not in self.contents:
            self.contents[digest] = {"data": text, "mode": NO_MODE}
            self._bytes += len(text)
        return within

    def _places(self, record: FileRecord, places: tuple[Place, ...]) -> str:
        """Keep changed places; or why not."""
        texts = list(texts_of(places))
        whole = "\n".join(texts)
        if (why := self._unfit("", whole)) or (why := next(filter(None, map(_inexact, texts)), "")):
            return why
        self.patches[place_key(record)] = to_plain(places)
        self._bytes += len(whole)
        return ""

    def _unfit(self, digest: str, text: str) -> str:
        """Why a text is not kept; nothing if it may be."""
        if digest in self._known:
            return ""
        if len(text) > BYTES_MAX or self._bytes + len(text) > COMMIT_BYTES:
            return "size"
        return _inexact(text) or ("secret" if holds_secret(text) else "")


def place_key(record: FileRecord) -> str:
    """What the changed places of a file are kept under. No path: a secret-looking name would take them away."""
    return digest_of(file_key(record.root, record.path))


def holds_secret(text: str) -> bool:
    """Whether a text holds a secret, or held one that was replaced."""
    return _SCRUB(text) is not text or has_placeholder(text)


def _inexact(text: str) -> str:
    """Why a text cannot be what a file held, byte by byte."""
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        return "not a text"
    if size > BYTES_MAX:
        return "size"
    return "not a text" if "\ufffd" in text else ""
