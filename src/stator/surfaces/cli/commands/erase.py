"""`stator erase`: previews or permanently erases content; the hash chain stays verifiable."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from stator.errors import InvalidInput
from stator.model.records.tables import collection_named
from stator.model.values.ids import short
from stator.runtime.retention import erase as erasing
from stator.runtime.retention.erase import Erasing, ErasureResult
from stator.surfaces.cli.exits import FINDING, OK
from stator.surfaces.cli.parts.confirm import agreed, refuse_both
from stator.surfaces.cli.parts.open_store import OpenedStore, open_to_read, open_to_write
from stator.surfaces.cli.render.lines import Line
from stator.surfaces.cli.render.record_line import count, size
from stator.surfaces.cli.render.screen import Screen

if TYPE_CHECKING:
    from stator.surfaces.cli.options import (
        DryRunFlag,
        FieldOption,
        JsonFlag,
        NoPagerFlag,
        SessionOption,
        StoreOption,
        WhyOption,
        YesFlag,
    )

EXAMPLES = """
stator erase @42                             show what would be erased from this commit
stator erase @42 --field input --yes         erase its input
stator erase --record facts:phone --yes      erase every value this fact had
stator erase --call c_7f2a91bc               arguments and results of a call
stator erase --path notes.txt                records and contents of a file
stator erase --everything -s fix-login --yes   all content of a session
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
    everything: bool = False,
    session: SessionOption = None,
    why: WhyOption = "",
    yes: YesFlag = False,
    dry_run: DryRunFlag = False,
    store: StoreOption = None,
    json: JsonFlag = False,
    no_pager: NoPagerFlag = False,
) -> int:
    """Preview or permanently erase recorded content.

    Without --yes it shows what would go, and asks if it runs on a terminal. The log can still be verified, and it
    shows what was erased. Exits with 1 if
    another program is reading an older state of the store: the content is then out of the log, but its bytes
    stay in the write-ahead log until that program is done and a program writes again.

    Parameters
    ----------
    ref
        The position of the commit whose content to erase.
    record
        Erase every version of a record: COLLECTION:KEY, such as facts:phone.
    call
        Erase a call: its id, or the last characters of it.
    path
        Only what is about this path: the records and contents of the file.
    everything
        Everything there is: all content of the session.
    """
    refuse_both(dry_run=dry_run, yes=yes)
    if (
        sum((ref is not None, record is not None, call is not None, path is not None, everything))
        != 1
    ):
        raise InvalidInput(
            "name exactly one thing to erase",
            hint="a position, --record, --call, --path or --everything",
        )
    if field and ref is None:
        raise InvalidInput(
            "--field needs the position of a commit", hint="stator erase @42 --field input"
        )
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
            later = erasing.left_on_server(port) if result is not None else ""
            screen.document("stator.erase/1", {**_as_json(made, result), "later": later})
        else:
            screen.lines(_lines(made, result, opened), hang=2)
    question = f"Erase {size(made.bytes)} for ever?"
    if made.items and not (yes or dry_run) and agreed(question, json=json):
        return erase(
            ref, field=field, record=record, call=call, path=path, everything=everything, session=session,
            why=why, yes=True, store=store, json=json, no_pager=no_pager,
        )  # fmt: skip
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
            raise InvalidInput("erase takes the position of one commit", hint="try @42, t5 or head")
        return erasing.of_commit(port, view.at(position), fields)
    view = opened.session(session)
    if record is not None:
        collection, colon, key = record.partition(":")
        if not colon:
            raise InvalidInput("--record takes COLLECTION:KEY", hint="for example facts:phone")
        return erasing.of_record(port, view.id, collection_named(collection), key)
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
        yield Line(f"… {len(made.items) - LISTED} more", "dim")
    for text in made.left:
        yield Line(f"not erased: {text}", "dim")
    what = f"{size(made.bytes)} in {count(len(made.items), 'commit')}"
    if not made.items and (result is None or not result.pending):
        yield Line("nothing to erase", "title")
    elif result is None:
        yield Line(f"would erase {what}; erase with --yes", "title")
    elif result.pending:
        who = ", ".join(result.readers) or "another program"
        yield Line(f"erased {what}; not finished", "doubt")
        if result.indexed:
            yield Line(
                "the search index still holds words of it: another program is using the index"
            )
            yield Line("the next stator search of that user removes them", "dim")
            if not result.readers:
                return
        yield Line(f"{who} reads an older state, so the bytes are still in the write-ahead log")
        yield Line(
            "the next write after it is done removes them; stator doctor shows whether any are left",
            "dim",
        )
    else:
        ids = ", ".join(short(commit) for commit in result.commits)
        yield Line(f"erased {what}", "title").add(f", recorded as {ids}", "dim")
        if later := erasing.left_on_server(opened.store.port):
            yield Line(later, "dim")


def _as_json(made: Erasing, result: ErasureResult | None) -> dict[str, Any]:
    return {
        "erased": result is not None,
        "pending": result is not None and result.pending,
        "readers": result.readers if result else [],
        "commits": result.commits if result else [],
        "bytes": made.bytes,
        "items": [msgspec.to_builtins(item) for item in made.items],
        "left": made.left,
    }
