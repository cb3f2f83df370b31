"""Reads single fields and contents of a commit from its row, for the views of `stator sql`.

What was erased reads NULL, and so does what a commit does not have. The key of a session is not among what can be read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from stator.errors import StatorError
from stator.model.log.chain import put_item
from stator.model.log.commit import Gone, Large
from stator.model.records.types import ErasedRecord
from stator.model.values import canon
from stator.store.compress import decompress
from stator.store.rows import content_of, envelope_of

FIELDS = frozenset({"kind", "turn", "at", "actor", "tool", "status", "effect", "cause"})
CONTENTS = frozenset({"input", "output", "input_hash", "output_summary", "why"})
TEXT_MAX = 16 * 1024 * 1024
"""The longest text a query can hold; sqlite_views.sql names the same number."""
UNITS = {"tokens": "tokens", "cached": "tokens:cache_read", "cost": "money:usd"}
"""What is asked of a commit's usage → the unit that answers it."""
MICRO = 1_000_000
Blob = Callable[[bytes], bytes | None]
"""Gives what is kept beside the log under a digest, as it is kept; None if it is not there."""


class CommitReader:
    """The functions over rows of the log. A query asks for several fields of one row in a row, so that the last
    one is kept."""

    def __init__(self, blob: Blob) -> None:
        self._blob = blob
        self._body = b""
        self._envelope: Any = None
        self._content: Mapping[str, Any] | None = None

    def field(self, body: Any, name: Any) -> Any:
        """A structural field; `happened` is when it happened."""
        envelope = self._read(body)
        if envelope is None:
            return None
        if name == "happened":
            return envelope.at + envelope.happened
        return getattr(envelope, name) if name in FIELDS else None

    def content(self, body: Any, name: Any) -> Any:
        """A content as text: a text as it is, anything else as JSON. `prompt` is that of a turn, `text` the words of
        an entry or a turn."""
        kind = self.field(body, "kind")
        if name == "prompt":
            return self._text(body, "input") if kind == "turn" else None
        if name == "text":
            if kind == "entry":
                return self._words(body)
            return self._text(body, "input") if kind == "turn" else None
        return self._text(body, name) if name in CONTENTS else None

    def used(self, body: Any, what: Any) -> Any:
        """Tokens, tokens read from a cache, or dollars that a commit reports; NULL if it reports none."""
        unit = UNITS.get(what)
        found = self._value(body, "usage") if unit is not None else None
        amount = found.get(unit) if isinstance(found, Mapping) else None
        if not isinstance(amount, int) or isinstance(amount, bool):
            return None
        return amount / MICRO if what == "cost" else amount

    def put(self, body: Any, number: Any) -> Any:
        """The record that a commit put, as JSON; of one that was erased, by which commit."""
        if not isinstance(number, int):
            return None
        name = put_item(number)
        item = self._item(body, name)
        gone = None if self._content is None else self._content.get(name)
        if isinstance(gone, Gone):
            return msgspec.json.encode(ErasedRecord(erased=gone.by)).decode()
        return _bounded(item.decode()) if isinstance(item, bytes) else None

    # -- reading ----------------------------------------------------------------------------------

    def _read(self, body: Any) -> Any:
        if not isinstance(body, bytes):
            return None
        if self._body != body:
            self._body, self._envelope, self._content = body, envelope_of(body), None
        return self._envelope

    def _item(self, body: Any, name: str) -> Any:
        """A content item in its recorded form; None if the commit has none or it was erased."""
        envelope = self._read(body)
        if envelope is None:
            return None
        if self._content is None:
            self._content = content_of(envelope)
        found = self._content.get(name)
        if isinstance(found, Large):
            if found.size > TEXT_MAX:
                return found
            kept = self._blob(found.digest)
            return None if kept is None else decompress(kept)
        return None if isinstance(found, Gone) else found

    def _value(self, body: Any, name: str) -> Any:
        item = self._item(body, name)
        if not isinstance(item, bytes):
            return item
        try:
            return canon.loads(item)
        except StatorError:
            return None

    def _text(self, body: Any, name: str) -> Any:
        item = self._item(body, name)
        if isinstance(item, Large):
            return f'{{"type":"cut","bytes":{item.size}}}'
        if not isinstance(item, bytes):
            return None
        value = self._value(body, name)
        return _bounded(value if isinstance(value, str) else item.decode())

    def _words(self, body: Any) -> Any:
        from stator.model.window.reply import dialect, text_of

        value = self._value(body, "output")
        if isinstance(value, str):
            return _bounded(value)
        if not isinstance(value, dict) or dialect(value) == "plain":
            return self._text(body, "output")
        return _bounded(text_of(value))


def _bounded(text: str) -> str:
    """The text as SQLite can hold it: not too long, and without halves of characters."""
    data = text.encode("utf-8", "replace")
    if len(data) > TEXT_MAX:
        return f'{{"type":"cut","bytes":{len(data)}}}'
    return data.decode()
