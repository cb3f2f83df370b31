"""Imports files that grow, and counts the items in them."""

from __future__ import annotations

from importers.import_helpers import context_of, conversations_in, import_file, view
from stator.importers.conversation import Report, import_conversation
from stator.importers.registry import load
from stator.model.exchange.items import Called, Prompted, Returned


def import_one(store, path, name):
    """Import a file with one conversation that is at rest; return the report and the session."""
    report = import_file(store, path, name, at_rest=True)
    (found,) = conversations_in(path, name)
    return report, view(store, found)


def items(path, name):
    """All items of a file with one conversation."""
    (found,) = conversations_in(path, name)
    return list(load(name).read(found, None, None))


def totals(told):
    """Count turns, calls, results and tokens; web searches are left out, because they have no
    separate result."""
    own = [item for item in told if getattr(item, "tool", "") != "web_search"]
    return {
        "turns": sum(isinstance(item, Prompted) for item in own),
        "calls": sum(isinstance(item, Called) for item in own),
        "results": sum(isinstance(item, Returned) for item in own),
        "tokens": sum(getattr(item, "usage", {}).get("tokens", 0) for item in own),
    }


def import_while_growing(store, source, path, name):
    """Import a file after each line that is added to it, at last at rest; return the session."""
    lines = source.read_bytes().splitlines(keepends=True)
    for end in range(1, len(lines) + 1):
        path.write_bytes(b"".join(lines[:end]))
        for found in conversations_in(path, name):
            import_conversation(
                store.port,
                context_of(store, found.conversation),
                load(name),
                found,
                Report(),
                at_rest=end == len(lines),
            )
    return view(store, conversations_in(path, name)[0])


def model_output(shown):
    """Everything the model wrote, in order, regardless of how it was split into answers."""
    answers = [c.value("output") for c in shown.log() if c.kind == "entry" and c.actor == "model"]
    return [part for answer in answers if answer for parts in answer.values() if isinstance(parts, list)
            for part in parts]  # fmt: skip


def outcomes(shown):
    return sorted((call.turn, call.tool, call.status) for call in shown.calls())


def usage_of(shown):
    return {entry.record.unit: entry.record.amount for entry in shown.entries("spend")}
