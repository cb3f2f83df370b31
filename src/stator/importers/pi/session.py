"""Recognizes, lists and reads pi's sessions: lines that form a tree (`entry_tree`), each naming its
parent.

Files of version 1 have no ids; there, each line follows the one before it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from stator.importers import default_folders
from stator.importers.pi.branch import PiBranch
from stator.importers.pi.entry_tree import PiTree, read_tree
from stator.importers.reading.fields import record, text
from stator.importers.reading.found_conversation import FoundConversation, Progress, is_inside
from stator.importers.reading.jsonl import decode_json
from stator.model.exchange.items import Conversation, Cursor, Item

NAME = "pi"
_FILE = re.compile(r"_([0-9a-fA-F-]{8,64})\.jsonl$")


class Pi:
    """The format of pi's sessions."""

    name = NAME
    mapper = 2

    def recognizes(self, path: Path, begin: bytes) -> bool:
        try:
            first = record(decode_json(begin.split(b"\n", 1)[0]))
        except ValueError:
            return False
        return first.get("type") == "session" and bool(text(first.get("id"))) and "cwd" in first

    def conversations(self, path: Path) -> Iterable[FoundConversation]:
        tree = read_tree(str(path))
        stat = path.stat()
        for branch in tree.branches:
            if branch not in tree.last_message_at:
                continue  # only a setting was changed on this branch
            yield FoundConversation(
                path=str(path), conversation=_conversation(tree, branch), part=branch, size=stat.st_size,
                changed=tree.last_message_at.get(branch) or stat.st_mtime_ns // 1000,
            )  # fmt: skip

    def read(
        self,
        found: FoundConversation,
        cursor: Cursor | None,
        progress: Progress | None,
        *,
        at_rest: bool = True,
    ) -> Iterator[Item]:
        return PiBranch(found, cursor).read(progress, at_rest=at_rest)

    def default_paths(self, home: Path, environ: Mapping[str, str]) -> Iterable[Path]:
        return default_folders.pi(home, environ)

    def is_in_folder(self, found: FoundConversation, root: str) -> bool:
        return is_inside(found.conversation.cwd, root)


FORMAT = Pi()


def _conversation(tree: PiTree, branch: str) -> Conversation:
    """Describe the conversation on one branch; a branch is a fork that shares everything before it."""
    header = tree.header
    session_id = text(header.get("id"))
    fork_of, shared = "", tree.entries_on("")
    origin = text(header.get("parentSession")) or text(header.get("branchedFrom"))
    if branch and tree.branches[branch]:
        parting = tree.entries[tree.branches[branch]]
        fork_of = f"{session_id}/{parting.branch}" if parting.branch else session_id
        shared = {entry.id for entry in tree.ancestors(parting.id)}
    elif not branch and (named := _FILE.search(origin)):
        fork_of = named[1]
    calls = {tree.entries[name].call for name in shared}
    return Conversation(
        source=NAME,
        id=f"{session_id}/{branch}" if branch else session_id,
        name=(not branch and tree.name)
        or tree.prompts.get(branch)
        or tree.name
        or tree.prompts.get("", ""),
        cwd=text(header.get("cwd")),
        fork_of=fork_of,
        fork_ids=frozenset((shared | calls) - {""}) if fork_of else frozenset(),
    )
