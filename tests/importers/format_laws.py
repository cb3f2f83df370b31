"""Checks the law of readers: what a file gives while it grows is the beginning of what it gives in the end."""

from __future__ import annotations

import json

from importers.import_helpers import conversations_in
from stator.importers.registry import load
from stator.model.exchange.items import Cursor, Skipped


def read(found, name, cursor=None, *, at_rest=False):
    """The items that follow a cursor, and the last cursor as a store gives it back."""
    given = list(load(name).read(found, cursor, None, at_rest=at_rest))
    assert isinstance(given[-1], Cursor)
    last = given[-1]
    state = json.loads(json.dumps(last.state))
    return told(given), Cursor(offset=last.offset, line=last.line, state=state)


def told(given):
    """The items themselves. That a file is cut off is said of the file as it is now."""
    return [
        item
        for item in given
        if not isinstance(item, Cursor)
        and not (isinstance(item, Skipped) and item.why == "cut off")
    ]


def by_id(path, name):
    return {found.conversation.id: found for found in conversations_in(path, name)}


def assert_reading_is_lawful(name, path, versions, *, continues=True):
    """Write the versions of a file, from the shortest to the whole, and compare what is read.

    `continues`: whether a conversation of this format can be continued after a rest.
    """
    *shorter, whole = versions
    path.write_bytes(whole)
    everything = {
        key: read(found, name, at_rest=True)[0] for key, found in by_id(path, name).items()
    }
    settled = {key: read(found, name)[0] for key, found in by_id(path, name).items()}
    for number, version in enumerate(shorter):
        path.write_bytes(version)
        early = by_id(path, name)
        streamed = {key: read(found, name) for key, found in early.items()}
        flushed = {key: read(found, name, at_rest=True) for key, found in early.items()}
        path.write_bytes(whole)
        for key, found in by_id(path, name).items():
            if key not in early:
                continue
            items, cursor = streamed[key]
            assert items == everything[key][: len(items)], number
            assert items + read(found, name, cursor)[0] == settled[key], number
            assert items + read(found, name, cursor, at_rest=True)[0] == everything[key], number
            items, cursor = flushed[key]
            if continues:
                assert items + read(found, name, cursor, at_rest=True)[0] == everything[key], number


def lines_of(data):
    """The beginnings of a file of lines, one for each line."""
    lines = data.splitlines(keepends=True)
    return [b"".join(lines[:count]) for count in range(1, len(lines) + 1)]


def documents_of(name, whole):
    """The versions that a document had while its agent wrote it, one for each message or record."""
    if isinstance(whole, list):
        return [whole[:count] for count in range(1, len(whole) + 1)]
    if name == "swe-agent":
        return [*(_run_up_to(whole, count) for count in range(1, len(whole["history"]))), whole]
    field = next(field for field in ("messages", "samples") if field in whole)
    status = {"info": {k: v for k, v in whole.get("info", {}).items() if k != "exit_status"}}
    early = status if name == "mini-swe-agent" else {}
    counts = range(1, len(whole[field]))
    return [*({**whole, **early, field: whole[field][:count]} for count in counts), whole]


def _run_up_to(whole, count):
    history = whole["history"][:count]
    answers = sum(m["role"] == "assistant" and not m.get("is_demo") for m in history)
    info = {key: value for key, value in whole.get("info", {}).items() if key != "exit_status"}
    return {
        **whole,
        "history": history,
        "trajectory": whole.get("trajectory", [])[: max(answers - 1, 0)],
        "info": info,
    }
