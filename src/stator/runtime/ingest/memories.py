"""Records the notes that agents keep about a project, in the project's own session, as the model's words.

Each file is an artifact with versions: `memory/AGENT/FILE`. A text that is recorded already adds nothing; a file that
is gone takes the artifact out of the state, and its versions stay in the log. Nothing in them is believed: where a note
has the name of a fact or a preference of the project and says something else, that is reported.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from stator.model.extraction.evidence import EXTRACT
from stator.model.extraction.reconcile import What
from stator.model.log.commit import Draft, Provenance, Remove, Upsert
from stator.model.records.text import value_text
from stator.model.records.types import ArtifactRecord, FactRecord, PreferenceRecord, SessionRecord
from stator.model.values import canon
from stator.model.values.digest import sha256
from stator.model.views.taint import MEMORIES
from stator.runtime.base import project_session
from stator.runtime.base.context import Context
from stator.runtime.base.pages import find_entry
from stator.runtime.ingest.extract import Extracted, MemoryConflict
from stator.store.port import StorePort

PREFIX = MEMORIES
RULE = "memory"
NAME = re.compile(r"^name:[ \t]*(\S.*?)[ \t]*$", re.MULTILINE)
CONTRADICTED = ("facts", "preferences")
"""Collections that a note can contradict: a name and its value."""


class MemoryFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file of an agent's memories."""

    agent: str
    path: str
    """Below the agent's folder of memories, with slashes."""
    text: str
    changed: int
    """When it last changed, in µs."""

    @property
    def about(self) -> str:
        """What it says it is about: the name in its frontmatter; "" if it has none."""
        head = self.text.partition("\n---")[0] if self.text.startswith("---\n") else ""
        match = NAME.search(head)
        return match[1].strip("\"'") if match else ""


def record_memories(
    store: StorePort,
    context: Context,
    memories: Mapping[str, Sequence[MemoryFile]],
    *,
    dry_run: bool = False,
) -> list[Extracted]:
    """Record what changed in the notes of the agents that were looked at."""
    record = SessionRecord(id="", name="", project=context.project)
    row = project_session.known(store, record)
    known: dict[str, ArtifactRecord] = {}
    if row is not None:
        for entry in store.entries(row.id, "artifacts"):
            if entry.key.startswith(PREFIX) and isinstance(entry.record, ArtifactRecord):
                known[entry.key] = entry.record
    changes = list(_changes(memories, known))
    if not changes or dry_run:
        return [_told(row.id if row else "", name, memory, known) for name, memory in changes]
    row = row or project_session.own(store, context, record)
    drafts = [_draft(context, row.id, name, memory) for name, memory in changes]
    store.append(row.id, drafts)
    return [
        msgspec.structs.replace(_told(row.id, name, memory, known), commit=draft.id)
        for (name, memory), draft in zip(changes, drafts, strict=True)
    ]


def conflicts(
    store: StorePort, context: Context, memories: Mapping[str, Sequence[MemoryFile]]
) -> list[MemoryConflict]:
    """Notes that have the name of a fact or a preference of the project, and do not hold its value."""
    found = []
    for memory in (one for notes in memories.values() for one in notes if one.about):
        for collection in CONTRADICTED:
            for touch in store.touches(collection, memory.about, project=context.project, limit=1):
                entry = find_entry(store, touch.session, collection, memory.about)
                record = entry.record if entry is not None else None
                if not isinstance(record, (FactRecord, PreferenceRecord)):
                    continue
                value = value_text(canon.from_plain(record.value))
                if value not in memory.text:
                    found.append(
                        MemoryConflict(
                            memory=_name(memory), collection=collection, key=memory.about,
                            value=value, session=touch.session, seq=touch.seq,
                        )
                    )  # fmt: skip
    return found


def _name(memory: MemoryFile) -> str:
    return f"{PREFIX}{memory.agent}/{memory.path}"


def _changes(
    memories: Mapping[str, Sequence[MemoryFile]], known: Mapping[str, ArtifactRecord]
) -> Iterator[tuple[str, MemoryFile | None]]:
    """The notes that are new or say something else, and those that are gone (None)."""
    here = {_name(memory): memory for notes in memories.values() for memory in notes}
    for name, memory in here.items():
        recorded = known.get(name)
        if recorded is None or recorded.digest != _digest(memory.text):
            yield name, memory
    for name in known:
        if name not in here and name.removeprefix(PREFIX).partition("/")[0] in memories:
            yield name, None


def _digest(text: str) -> str:
    return sha256(canon.dumps(text)).hexdigest()


def _draft(context: Context, session: str, name: str, memory: MemoryFile | None) -> Draft:
    made = Draft(
        id=context.mint("commit"),
        session=session,
        kind="artifact",
        actor="agent",
        principal=EXTRACT,
        provenance=Provenance("model", "unverified"),
    )
    if memory is None:
        return msgspec.structs.replace(
            made, changes=(Remove("artifacts", name),), why="the file is gone"
        )
    record = ArtifactRecord(
        name=name,
        digest=_digest(memory.text),
        size=len(canon.dumps(memory.text)),
        media_type="text/markdown",
    )
    change = Upsert("artifacts", record)
    return msgspec.structs.replace(
        made, changes=(change,), input=memory.text, happened=memory.changed
    )


def _told(
    session: str, name: str, memory: MemoryFile | None, known: Mapping[str, ArtifactRecord]
) -> Extracted:
    what: What = "removed" if memory is None else "corrected" if name in known else "added"
    return Extracted(
        session=session, rule=RULE, what=what, commit="", evidence=name,
        says=[name] if memory is not None else [],
    )  # fmt: skip
