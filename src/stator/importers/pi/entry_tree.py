"""Splits the tree of entries in a pi session into one session and its forks.

At each place where the tree branches, the entry that was written first continues the session. Each
later branch is a fork, identified by its first entry. A file that grows on any branch therefore
only adds to what was imported. Only ids are held in memory, not the content of the entries.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from stator.importers.reading.appended_lines import RecentNames
from stator.importers.reading.fields import (
    headline,
    joined_text,
    micros_of_iso,
    record,
    text,
)
from stator.importers.reading.jsonl import parse_line, read_lines
from stator.importers.reading.line_boundary import looked_at
from stator.model.exchange.items import text_id


class PiEntry(msgspec.Struct):
    """One entry of the tree."""

    id: str
    parent: str
    branch: str
    """The id of the first entry of its branch; "" for the main branch."""
    call: str = ""
    """The call whose result it is."""


class PiTree(msgspec.Struct):
    """A file's entries, without their content."""

    header: dict[str, Any] = {}
    entries: dict[str, PiEntry] = {}
    branches: dict[str, str] = msgspec.field(default_factory=lambda: {"": ""})
    """Branch → the entry at which it leaves its parent branch, in the order in which the branches
    began."""
    last_message_at: dict[str, int] = {}
    """Branches that contain messages → the time of the last message."""
    name: str = ""
    prompts: dict[str, str] = {}
    """Branch → the first line of the first prompt on it."""

    def ancestors(self, entry: str) -> list[PiEntry]:
        """An entry and all its ancestors, the latest first."""
        found = []
        while entry:
            found.append(self.entries[entry])
            entry = self.entries[entry].parent
        return found

    def entries_on(self, branch: str) -> set[str]:
        """The entries of a branch and all their ancestors."""
        own = {entry.id for entry in self.entries.values() if entry.branch == branch}
        return own | {entry.id for entry in self.ancestors(self.branches[branch])}


def read_tree(path: str) -> PiTree:
    """Read the tree in a file; damaged lines are ignored."""
    tree = PiTree()
    names = RecentNames({})
    followed: set[str] = set()
    last = ""
    for line in read_lines(path):
        entry = record(parse_line(line)[0])
        if not tree.header and entry.get("type") == "session":
            tree.header = entry
        elif isinstance(entry.get("type"), str):
            own = text(entry.get("id"))
            if own in tree.entries:  # written twice
                continue
            name = entry_name(entry, names.once)
            parent = _parent(tree, entry, last)
            last = looked_at(_add, tree, followed, entry, name, parent, default=last)
    return tree


def entry_name(entry: dict[str, Any], once: Callable[[str], str]) -> str:
    """The id of an entry; in files of version 1, which have none, one made from its time and role."""
    made = f"line/{text_id(text(entry.get('timestamp')), _role(entry))}"
    return text(entry.get("id")) or once(made)


def _parent(tree: PiTree, entry: dict[str, Any], last: str) -> str:
    """The entry that an entry follows: the one it names, otherwise the one on the line before."""
    if not text(entry.get("id")):
        return last
    named = entry.get("parentId")
    return "" if named is None else named if text(named) in tree.entries else last


def _add(tree: PiTree, followed: set[str], entry: dict[str, Any], name: str, parent: str) -> str:
    """Add an entry to the tree. A second entry with the same parent begins a new branch."""
    above = tree.entries.get(parent)
    branch = above.branch if above else ""
    if parent in followed:
        branch = name
        tree.branches[branch] = parent
    followed.add(parent)
    message = record(entry.get("message"))
    tree.entries[name] = PiEntry(name, parent, branch, text(message.get("toolCallId")))
    if entry["type"] in ("message", "compaction", "custom_message"):
        tree.last_message_at[branch] = max(
            tree.last_message_at.get(branch, 0), micros_of_iso(entry.get("timestamp"))
        )
    if entry["type"] == "session_info":
        tree.name = text(entry.get("name")) or tree.name
    elif message.get("role") == "user":
        tree.prompts.setdefault(branch, headline(joined_text(message.get("content"))))
    return name


def _role(entry: dict[str, Any]) -> str:
    return text(record(entry.get("message")).get("role")) or text(entry.get("type"))
