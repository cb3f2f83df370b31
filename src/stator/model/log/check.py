"""Checks a draft's shape, before anything is made of it.

A struct does not check what it is given, and what reaches the log must always be readable: an
unknown shape is refused here with the path of the offending field, and nothing is written.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from operator import attrgetter
from typing import Any, get_args
from uuid import UUID

import msgspec

from stator.errors import BadText, BadType, InvalidInput
from stator.model.log.commit import (
    Actor,
    Draft,
    Erase,
    Provenance,
    Purge,
    Remove,
    Reset,
    Source,
    Trust,
    Upsert,
    is_data_name,
)
from stator.model.log.delta import record_decoders
from stator.model.records.tables import COLLECTIONS, OPERANDS
from stator.model.records.types import Record
from stator.model.values.ids import check_id

INT_MAX = 2**53 - 1
"""The largest integer every reader of the file keeps exactly."""

DATA_MAX = 64
"""Names under which one commit may hold bytes."""

_ACTORS = frozenset(get_args(Actor))
_SOURCES = frozenset(get_args(Source))
_TRUST = frozenset(get_args(Trust))
_WORDS = ("kind", "tool", "status", "effect", "cause", "trace")
_IDS = ("call", "parent", "run")
_CONTENT = ("key", "output_summary", "principal", "why")
_NUMBERS = ("attempt", "epoch", "happened")
_words: Callable[[Draft], tuple[str, ...]] = attrgetter(*_WORDS)
_texts: Callable[[Draft], tuple[str, ...]] = attrgetter(*_IDS, *_CONTENT)
_NOT_JSON = (bytes, bytearray, datetime, date, time, timedelta, UUID, Decimal)
encode_record = msgspec.json.Encoder(order="sorted").encode


def check_draft(draft: Draft) -> None:
    """`InvalidInput` with the path of a field that is not what its name promises."""
    check_frame(draft)
    check_rest(draft)


def check_frame(draft: Draft) -> None:
    """The same for what a draft has in common with many others: its words, and who it is from."""
    if not _are_plain(_words(draft)):
        for name in _WORDS:
            check_text(getattr(draft, name), f"$.{name}")
    actor: object = draft.actor
    if type(actor) is not str or actor not in _ACTORS:
        raise InvalidInput(
            f"unknown actor {actor!r:.40}",
            path="$.actor",
            hint=", ".join(sorted(_ACTORS)),
        )
    source: object = draft.provenance
    if not isinstance(source, Provenance):
        raise _expected("a Provenance", source, "$.provenance")
    if source.source not in _SOURCES or source.trust not in _TRUST:
        raise InvalidInput(
            f"unknown provenance {source.source!r:.40}, {source.trust!r:.40}", path="$.provenance"
        )


def check_rest(draft: Draft) -> None:
    """The same for all other fields."""
    attempt, epoch, happened = draft.attempt, draft.epoch, draft.happened
    # The common case in one go: every number is small, every text is ASCII text.
    if not (
        type(attempt) is type(epoch) is type(happened) is int
        and 0 <= attempt <= INT_MAX
        and 0 <= epoch <= INT_MAX
        and 0 <= happened <= INT_MAX
        and _are_plain(_texts(draft))
    ):
        _check_fields(draft)
    if draft.origin is not None:
        _check_pair(draft.origin, "$.origin")
    if draft.inputs != ():
        _check_inputs(draft.inputs, draft.kind in OPERANDS)
    if draft.usage is not None:
        _check_usage(draft.usage)
    if draft.changes != ():
        _check_changes(draft.changes)
    if draft.data != {}:
        _check_data(draft.data)


def _are_plain(texts: tuple[str, ...]) -> bool:
    try:
        return "".join(texts).isascii()
    except TypeError:
        return False


def _check_fields(draft: Draft) -> None:
    for name in _IDS:
        check_text(getattr(draft, name), f"$.{name}")
    for name in _CONTENT:
        value: object = getattr(draft, name)
        if type(value) is not str:
            raise _expected("text", value, f"$.{name}")
    for name in _NUMBERS:
        check_number(getattr(draft, name), f"$.{name}")


def _check_data(data: object) -> None:
    if type(data) is not dict or len(data) > DATA_MAX:
        raise _expected(f"a dict of at most {DATA_MAX} names and bytes", data, "$.data")
    for name, value in data.items():
        if type(name) is not str or not is_data_name(name):
            raise _expected("a name of 1 to 64 letters, digits, _, . or -", name, "$.data")
        if type(value) is not bytes:
            raise _expected("bytes", value, "$.data")


def check_text(value: object, path: str) -> None:
    """Plain text that UTF-8 can hold."""
    if type(value) is not str:
        raise _expected("text", value, path)
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise BadText(
                "text with a lone surrogate cannot be recorded here",
                path=path,
                hint="decode it with errors='replace', or record it as a call's input or output",
            ) from None


def check_number(value: object, path: str) -> None:
    if type(value) is not int or not -INT_MAX <= value <= INT_MAX:
        raise _not_whole(value, path)


def encode_checked(collection: str, record: Record) -> bytes:
    """A record's canonical bytes, once it is certain that every later release will read them."""
    try:
        data = encode_record(record)
    except UnicodeEncodeError:
        raise BadText(
            "text with a lone surrogate cannot be part of a record",
            path=f"$.{collection}",
            hint="decode it with errors='replace', or record it as a call's input or output",
        ) from None
    except (TypeError, ValueError, msgspec.MsgspecError) as error:
        raise BadType(f"not recordable: {error}", path=f"$.{collection}") from None
    try:
        if (
            record_decoders[collection](data) != record
        ):  # bytes and dates encode as text: not as given
            msgspec.convert(
                msgspec.to_builtins(record, builtin_types=_NOT_JSON), COLLECTIONS[collection].type
            )
    except msgspec.ValidationError as error:
        what, _, where = str(error).partition(" - at `$")
        raise InvalidInput(what, path=f"$.{collection}" + where.rstrip("`")) from None
    return data


def _check_pair(value: object, path: str) -> None:
    if not isinstance(value, tuple) or len(value) != 2:
        raise _expected("(source, id)", value, path)
    for text in value:
        check_text(text, path)


def _check_inputs(value: object, are_operands: bool) -> None:
    if not isinstance(value, tuple):
        raise _expected("a tuple of commits", value, "$.inputs")
    begins: object = 0
    for item in value:
        if type(item) is int:
            if not -INT_MAX <= item <= INT_MAX:
                raise _not_whole(item, "$.inputs")
            if are_operands:
                continue
            if item < 0 and not (type(begins) is int and 0 < begins < -item):
                raise InvalidInput(
                    f"{item} ends no range",
                    path="$.inputs",
                    hint="a range is n, -m, with n below m",
                )
        elif type(item) is tuple:
            _check_pair(item, "$.inputs")
        else:
            check_text(item, "$.inputs")
        begins = item


def _check_usage(value: object) -> None:
    if not isinstance(value, dict):
        raise _expected("a dict of whole numbers", value, "$.usage")
    for unit, amount in value.items():
        check_text(unit, "$.usage")
        check_number(amount, f"$.usage.{unit}")


def _check_changes(value: object) -> None:
    if not isinstance(value, tuple):
        raise _expected("a tuple of changes", value, "$.changes")
    for change in value:
        if isinstance(change, (Upsert, Remove, Reset)):
            check_collection(change.collection)
        elif isinstance(change, Purge):
            check_id(change.session, "session")
            check_number(change.head, "$.changes.head")
        elif not isinstance(change, Erase):
            raise _expected("Upsert, Remove, Erase, Reset or Purge", change, "$.changes")
        if isinstance(change, (Remove, Reset)):
            check_text(change.key, f"$.{change.collection}")
        if isinstance(change, Reset):
            check_text(change.id, f"$.{change.collection}")


def check_collection(name: object) -> None:
    if not isinstance(name, str) or name not in COLLECTIONS:
        raise InvalidInput(f"no collection {name!r:.40}", path="$.changes")


def _not_whole(value: object, path: str) -> BadType:
    return _expected("a whole number below 2**53", value, path)


def _expected(what: str, value: Any, path: str) -> BadType:
    return BadType(f"expected {what}, got {type(value).__name__}", path=path)
