"""Reads artifacts: named, versioned documents, as they were recorded, compared, or the newest of a project.

Versions are found by the key they were recorded under; the log is never scanned.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator
from typing import Any

import msgspec

from stator.errors import InvalidInput, NotFound
from stator.model.log.commit import Commit
from stator.model.log.delta import Put
from stator.model.log.query import KeyTouch
from stator.model.records.types import ArtifactRecord
from stator.model.values import json_text
from stator.model.values.ids import short
from stator.runtime.base.arguments import text
from stator.runtime.base.pages import commit_at, find_entry
from stator.runtime.base.provenance import known_time
from stator.store.port import StorePort

VERSIONS_MAX = 10_000
"""Versions of one document that are looked at, the newest."""
COMPARED = 20_000_000
"""Pairs of lines a comparison may look at; past that, everything between what is equal at both ends
is shown as taken out and put in."""


class Artifact(msgspec.Struct, frozen=True, kw_only=True):
    """One version of a named document, and where it is recorded."""

    name: str
    version: int
    size: int
    """Bytes of its content as recorded."""
    media_type: str
    digest: str
    session: str
    turn: int
    seq: int
    commit: str
    """The commit whose input is the content."""


class Document(Artifact, frozen=True, kw_only=True):
    """A version with its content."""

    content: Any


def listed(store: StorePort, session: str) -> list[Artifact]:
    """The newest version of each, last changed first."""
    return [
        _artifact(session, entry.seq, entry.turn, entry.record)
        for entry in store.entries(session, "artifacts")
        if isinstance(entry.record, ArtifactRecord)
    ]


def versions(store: StorePort, session: str, name: str) -> list[Artifact]:
    """Every version of a document, the newest first."""
    found = list(_versions(store, session, text(name, "name")))
    if not found:
        raise _unknown(store, session, name)
    return found


def read(store: StorePort, session: str, name: str, version: int | None = None) -> Document:
    """A version with its content; `Erased` where that is gone. Without a number, the current one."""
    if version is not None and type(version) is not int:
        raise InvalidInput(f"a version must be a number, got {version!r:.40}", path="$.version")
    standing = find_entry(store, session, "artifacts", text(name, "name"))
    if version is None and standing is not None:
        assert isinstance(standing.record, ArtifactRecord)
        return _load(store, _artifact(session, standing.seq, standing.turn, standing.record))
    last = None
    for found in _versions(store, session, name):
        if version == found.version:
            return _load(store, found)
        last = last or found
    if last is None:
        raise _unknown(store, session, name)
    if version is None:
        raise NotFound(
            f"artifact {name!r:.80} was rewound in session {short(session)}",
            hint=f"read a version by its number; the newest is {last.version}",
            session=session,
        )
    raise NotFound(
        f"{name!r:.80} has no version {version}",
        hint=f"the newest is {last.version}",
        session=session,
    )


def diff(
    store: StorePort, session: str, name: str, a: int | None = None, b: int | None = None
) -> str:
    """A unified diff between two versions; of what is not text, of its JSON."""
    new = read(store, session, name, b)
    before = new.version - 1 if a is None else a
    old = read(store, session, name, before) if before else None
    names = [f"{name} v{before}", f"{name} v{new.version}"]
    lines = unified(_lines(old.content) if old is not None else [], _lines(new.content), *names)
    return "".join(line if line.endswith("\n") else f"{line}\n" for line in lines)


def newest(store: StorePort, name: str, project: str) -> Document:
    """The newest version of a document in any session of a project."""
    last: dict[str, KeyTouch] = {}
    for touch in store.touches(
        "artifacts", text(name, "name"), project=project, limit=VERSIONS_MAX
    ):
        last.setdefault(touch.session, touch)
    found = [
        (_made_at(store, commit), commit.seq, artifact)
        for touch in last.values()
        if not touch.dropped
        for commit, artifact in _put(store, touch.session, touch)
    ]
    if not found:
        raise NotFound(
            f"no artifact {name!r:.80} in any session of this project",
            hint="stator artifact lists those of a session",
        )
    return _load(store, max(found, key=lambda item: item[:2])[2])


def _made_at(store: StorePort, commit: Commit) -> int:
    record = store.session(commit.session).record
    return known_time(store, record, commit.seq, commit.at)


# -- finding --------------------------------------------------------------------------------------


def _versions(store: StorePort, session: str, name: str) -> Iterator[Artifact]:
    """Newest first. A version that a rewind restored keeps its number."""
    seen: set[int] = set()
    for touch in store.touches("artifacts", name, session=session, limit=VERSIONS_MAX):
        for commit, artifact in [] if touch.dropped else _put(store, session, touch):
            if artifact.commit == commit.id and artifact.version not in seen:
                seen.add(artifact.version)
                yield artifact


def _put(store: StorePort, session: str, touch: KeyTouch) -> list[tuple[Commit, Artifact]]:
    """What a commit put under the key that it touched."""
    (commit,) = store.commits(session, after=touch.seq - 1, upto=touch.seq, limit=1, load=False)
    return [
        (commit, _artifact(session, commit.seq, commit.turn, op.record))
        for op in commit.delta
        if isinstance(op, Put)
        and isinstance(op.record, ArtifactRecord)
        and op.record.name == touch.key
    ]


def _artifact(session: str, seq: int, turn: int, record: ArtifactRecord) -> Artifact:
    return Artifact(
        name=record.name,
        version=record.version,
        size=record.size,
        media_type=record.media_type,
        digest=record.digest,
        session=session,
        turn=turn,
        seq=seq,
        commit=record.commit,
    )


def _load(store: StorePort, found: Artifact) -> Document:
    digits = found.commit.partition("_")[2]
    # What a session took over from another one lies where it was recorded.
    places = store.locate(digits, found.session) or store.locate(digits)
    session, seq = places[0] if places else (found.session, found.seq)
    commit = commit_at(store, session, seq)
    if commit.kind == "carry":
        raise NotFound(
            f"the content of {found.name!r:.80} was in a session that was purged",
            hint="record it again",
            session=found.session,
        )
    fields = {name: getattr(found, name) for name in Artifact.__struct_fields__}
    return Document(**fields, content=commit.value("input"))


def _unknown(store: StorePort, session: str, name: str) -> NotFound:
    there = [found.name for found in listed(store, session)][:8]
    return NotFound(
        f"no artifact {name!r:.80} in session {short(session)}",
        hint="there is " + ", ".join(map(repr, there)) if there else "it has none",
        session=session,
    )


# -- comparing ------------------------------------------------------------------------------------


def _lines(content: Any) -> list[str]:
    """A document line by line: text as it is, bytes that are text too, the rest as JSON."""
    if isinstance(content, bytes):
        try:
            content = content.decode()
        except UnicodeDecodeError:
            content = f"({len(content):,} bytes that are not text)"
    if not isinstance(content, str):
        content = json.dumps(json_text.clean(content), ensure_ascii=False, indent=2, sort_keys=True)
    lines: list[str] = content.splitlines(keepends=True)
    return lines


def unified(old: list[str], new: list[str], was: str, now: str) -> list[str]:
    """A unified diff; where comparing line by line would take too long, a coarse one."""
    if len(old) * len(new) <= COMPARED:
        return list(difflib.unified_diff(old, new, was, now))
    return coarse(old, new, was, now)


def coarse(old: list[str], new: list[str], was: str, now: str) -> list[str]:
    """A unified diff of one piece: everything between what is equal at both ends."""
    first, last = _equal(old, new), _equal(old[::-1], new[::-1])
    last = min(last, min(len(old), len(new)) - first)
    return [
        f"--- {was}\n",
        f"+++ {now}\n",
        f"@@ -{_part(first, len(old) - last)} +{_part(first, len(new) - last)} @@\n",
        *(f"-{line}" for line in old[first : len(old) - last]),
        *(f"+{line}" for line in new[first : len(new) - last]),
    ]


def _part(first: int, upto: int) -> str:
    """Where a piece begins and how long it is; an empty one is named by the line before it."""
    return f"{first + (upto > first)},{upto - first}"


def _equal(old: list[str], new: list[str]) -> int:
    """How many lines at the start are the same."""
    pairs = enumerate(zip(old, new, strict=False))
    return next((place for place, (a, b) in pairs if a != b), min(len(old), len(new)))
