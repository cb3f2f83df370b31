"""Checks a draft's shape, before anything is made of it.

A struct does not check what it is given, and what reaches the log must always be readable: an
unknown shape is refused here with the path of the offending field, and nothing is written.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
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
)
from stator.model.records.tables import COLLECTIONS, OPERANDS
from stator.model.records.types import Record
from stator.model.values.ids import check_id

INT_MAX = 2**53 - 1
"""The largest integer every reader of the file keeps exactly."""

_ACTORS = frozenset(get_args(Actor))
_SOURCES = frozenset(get_args(Source))
_TRUST = frozenset(get_args(Trust))
_STRUCTURE = ("kind", "tool", "status", "effect", "cause", "call", "parent", "run", "trace")
_CONTENT = ("key", "output_summary", "principal", "why")
_NUMBERS = ("attempt", "epoch", "happened")
_NOT_JSON = (bytes, bytearray, datetime, date, time, timedelta, UUID, Decimal)
encode_record = msgspec.json.Encoder(order="sorted").encode
_decode: dict[str, Callable[[bytes], Record]] = {
    name: msgspec.json.Decoder(collection.type).decode for name, collection in COLLECTIONS.items()
}


def check_draft(draft: Draft) -> None:
    """`InvalidInput` with the path of a field that is not what its name promises."""
    if not _is_plain(draft):
        _check_fields(draft)
    actor: object = draft.actor
    if type(actor) is not str or actor not in _ACTORS:
        raise InvalidInput(
            f"unknown actor {actor!r:.40}",
            path="$.actor",
            hint=", ".join(sorted(_ACTORS)),
        )
    _check_provenance(draft.provenance)
    if draft.origin is not None:
        _check_pair(draft.origin, "$.origin")
    if draft.inputs != ():
        _check_inputs(draft.inputs, draft.kind in OPERANDS)
    if draft.usage is not None:
        _check_usage(draft.usage)
    if draft.changes != ():
        _check_changes(draft.changes)


def _is_plain(draft: Draft) -> bool:
    """The common case in one go: every text is ASCII text, every number small."""
    try:
        text = "".join(
            (
                draft.kind,
                draft.tool,
                draft.status,
                draft.effect,
                draft.cause,
                draft.call,
                draft.parent,
                draft.run,
                draft.trace,
                draft.key,
                draft.output_summary,
                draft.principal,
                draft.why,
            )
        )
    except TypeError:
        return False
    attempt, epoch, happened = draft.attempt, draft.epoch, draft.happened
    whole = type(attempt) is int and type(epoch) is int and type(happened) is int
    return (
        whole
        and text.isascii()
        and 0 <= attempt <= INT_MAX
        and 0 <= epoch <= INT_MAX
        and 0 <= happened <= INT_MAX
    )


def _check_fields(draft: Draft) -> None:
    for name in _STRUCTURE:
        check_text(getattr(draft, name), f"$.{name}")
    for name in _CONTENT:
        value: object = getattr(draft, name)
        if type(value) is not str:
            raise _expected("text", value, f"$.{name}")
    for name in _NUMBERS:
        check_number(getattr(draft, name), f"$.{name}")


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
        raise _expected("a whole number below 2**53", value, path)


def encode_checked(collection: str, record: Record) -> bytes:
    """A record's canonical bytes, once it is certain that every later release will read them."""
    path = f"$.{collection}"
    try:
        data = encode_record(record)
    except UnicodeEncodeError:
        raise BadText(
            "text with a lone surrogate cannot be part of a record",
            path=path,
            hint="decode it with errors='replace', or record it as a call's input or output",
        ) from None
    except (TypeError, ValueError, msgspec.MsgspecError) as error:
        raise BadType(f"not recordable: {error}", path=path) from None
    try:
        if _decode[collection](data) != record:  # bytes and dates encode as text: not as given
            msgspec.convert(
                msgspec.to_builtins(record, builtin_types=_NOT_JSON), COLLECTIONS[collection].type
            )
    except msgspec.ValidationError as error:
        what, _, where = str(error).partition(" - at `$")
        raise InvalidInput(what, path=path + where.rstrip("`")) from None
    return data


def _check_provenance(value: object) -> None:
    if not isinstance(value, Provenance):
        raise _expected("a Provenance", value, "$.provenance")
    if value.source not in _SOURCES or value.trust not in _TRUST:
        raise InvalidInput(
            f"unknown provenance {value.source!r:.40}, {value.trust!r:.40}", path="$.provenance"
        )


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
            check_number(item, "$.inputs")
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


def _expected(what: str, value: Any, path: str) -> BadType:
    return BadType(f"expected {what}, got {type(value).__name__}", path=path)
