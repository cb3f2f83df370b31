"""`stator erase`: content goes, the chain stays; first, show what would go."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from stator.errors import InvalidInput
from stator.model.values.ids import short
from stator.runtime.retention import erase as erasing
from stator.runtime.retention.erase import Erasing, ErasureResult
from stator.surfaces.cli.exits import FINDING, OK
from stator.surfaces.cli.parts.open_store import OpenedStore, open_to_read, open_to_write
from stator.surfaces.cli.render.lines import Line
from stator.surfaces.cli.render.record_line import count, size
from stator.surfaces.cli.render.screen import Screen

if TYPE_CHECKING:
    from stator.surfaces.cli.options import (
        FieldOption,
        JsonFlag,
        NoPagerFlag,
        SessionOption,
        StoreOption,
        YesFlag,
    )

EXAMPLES = """
stator erase @42                             what of this commit would go
stator erase @42 --field input --yes         its input, for good
stator erase --record facts:phone --yes      every value this fact ever had
stator erase --call c_7f2a91bc               what a call was asked and answered
stator erase --path notes.txt                a file's records and kept contents
stator erase --all -s fix-login --yes        every payload of a session
"""
LISTED = 20


def erase(
    ref: str | None = None,
    /,
    *,
    field: FieldOption = None,
    record: str | None = None,
    call: str | None = None,
    path: str | None = None,
    all: bool = False,
    session: SessionOption = None,
    why: str = "",
    yes: YesFlag = False,
    store: StoreOption = None,
    json: JsonFlag = False,
    no_pager: NoPagerFlag = False,
) -> int:
    """Take content out of the record for good, or show what would go.

    Without --yes nothing changes. The chain still verifies, and says what was erased. Exits with 1 if
    another program still reads an older state of the store: the content is out of the log then, and
    leaves the write-ahead log as soon as that program is done and anybody writes.

    Parameters
    ----------
    ref
        A position: the commit whose content is to go.
    record
        COLLECTION:KEY, such as facts:phone: every put of that record.
    call
        A call: its id, or the end of one.
    path
        A file.
    all
        Every payload of the session.
    why
        The reason, as it will stand in the log.
    """
    if sum((ref is not None, record is not None, call is not None, path is not None, all)) != 1:
        raise InvalidInput(
            "say what is to go", hint="a position, --record, --call, --path or --all"
        )
    if field and ref is None:
        raise InvalidInput("--field is of a position", hint="stator erase @42 --field input")
    with (
        (open_to_write if yes else open_to_read)(store) as opened,
        Screen(json=json, pager=not no_pager) as screen,
    ):
        port, context = opened.store.port, opened.store.context
        made = _plan(opened, session, ref, tuple(field or ()), record, call, path)
        result = None
        if yes:
            result = erasing.erase(port, context, made, by=context.principal, why=why)
        if json:
            screen.document("stator.erase/1", _plain(made, result))
        else:
            screen.lines(_lines(made, result, opened), hang=2)
    return FINDING if result is not None and result.pending else OK


def _plan(
    opened: OpenedStore,
    session: str | None,
    ref: str | None,
    fields: tuple[str, ...],
    record: str | None,
    call: str | None,
    path: str | None,
) -> Erasing:
    port = opened.store.port
    if call is not None:
        within = None if session is None else opened.session(session).id
        return erasing.of_call(port, call, session=within)
    if ref is not None:
        view, position = opened.resolve(session, ref)
        if position is None or ".." in position:
            raise InvalidInput("not the position of one commit", hint="try @42, t5 or head")
        return erasing.of_commit(port, view.at(position), fields)
    view = opened.session(session)
    if record is not None:
        collection, colon, key = record.partition(":")
        if not colon:
            raise InvalidInput("a record is COLLECTION:KEY", hint="such as facts:phone")
        return erasing.of_record(port, view.id, collection, key)
    if path is not None:
        return erasing.of_path(port, view.id, path)
    return erasing.of_session(port, view.id)


def _lines(made: Erasing, result: ErasureResult | None, opened: OpenedStore) -> Iterator[Line]:
    names = opened.names()
    for item in made.items[:LISTED]:
        line = Line().add(f"@{item.seq}", "id", width=8).add(item.kind, width=12)
        line.add(size(item.bytes), width=11, right=True).add("  ")
        fields = ("record" if name.startswith("put") else name for name in item.fields)
        yield line.add(", ".join(fields)).add(f"  {names[item.session]}", "dim")
    if len(made.items) > LISTED:
        yield Line(f"… and {len(made.items) - LISTED} more", "dim")
    for text in made.left:
        yield Line(f"not: {text}", "dim")
    what = f"{size(made.bytes)} in {count(len(made.items), 'commit')}"
    if not made.items and (result is None or not result.pending):
        yield Line("there is nothing left to erase", "title")
    elif result is None:
        yield Line(f"{what} would go for good; --yes erases them", "title")
    elif result.pending:
        who = ", ".join(result.readers) or "another program"
        yield Line(f"{what} erased; not finished", "doubt")
        if result.indexed:
            yield Line(
                "its words are still in the search index, which another program reads or keeps; "
            )
            yield Line("the next stator search of whoever keeps it finishes", "dim")
            if not result.readers:
                return
        yield Line(f"{who} reads an older state, so the bytes are still in the write-ahead log; ")
        yield Line("whoever writes after it is done finishes: stator doctor says whether", "dim")
    else:
        ids = ", ".join(short(commit) for commit in result.commits)
        yield Line(f"{what} erased", "title").add(f" by {ids}", "dim")


def _plain(made: Erasing, result: ErasureResult | None) -> dict[str, Any]:
    return {
        "erased": result is not None,
        "pending": result is not None and result.pending,
        "readers": result.readers if result else [],
        "commits": result.commits if result else [],
        "bytes": made.bytes,
        "items": [msgspec.to_builtins(item) for item in made.items],
        "left": made.left,
    }
