"""Takes a bundle apart, lets a test change one thing, and writes it again with a digest and a chain that fit.

What is written is wrong only where the test made it so: hashes, heads and counts are computed again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from stator.model.exchange import bundle
from stator.model.exchange.bundle import Batch, Bundled, End, Header, Manifest
from stator.model.exchange.packed import pack
from stator.model.log import chain
from stator.model.log.check import encode_record
from stator.model.log.commit import Commit
from stator.model.log.delta import Delta, Put
from stator.model.records.types import Record, SessionRecord
from stator.model.values import canon
from stator.model.values.ids import derived, record_id
from stator.runtime.bundles.file import BundleReader
from stator.runtime.bundles.transfer import read_commits

replace = msgspec.structs.replace
Frame = tuple[bytes, bytes, int, int, bytes]
"""Kind, codec, length as stored, length unpacked, data."""


def raw_frame(kind: bytes, data: bytes) -> Frame:
    return kind, bundle.RAW, len(data), len(data), data


@dataclass
class Part:
    """A session of a bundle: what the manifest says of it, and its commits."""

    one: Bundled
    commits: list[Commit]

    @property
    def opening(self) -> SessionRecord:
        records = (op.record for op in self.commits[0].delta if isinstance(op, Put))
        return next(record for record in records if isinstance(record, SessionRecord))

    def change(self, n: int, **fields: Any) -> None:
        """Change a commit, and compute its hash and all that follow again."""
        self.commits[n] = replace(self.commits[n], **fields)
        self.rechain(n)

    def rechain(self, n: int = 0) -> None:
        for place in range(n, len(self.commits)):
            commit = self.commits[place]
            prev = self.commits[place - 1].hash if place else commit.prev
            commit = replace(commit, prev=prev)
            self.commits[place] = replace(commit, hash=chain.rehash(commit))
        last = self.commits[-1]
        self.one = replace(self.one, seq=last.seq, hash=last.hash)

    def change_record(self, n: int, at: int, **fields: Any) -> None:
        """Change a record that a commit puts."""
        commit = self.commits[n]
        put = commit.delta[at]
        assert isinstance(put, Put)
        delta: Delta = list(commit.delta)
        delta[at] = replace(put, record=replace(put.record, **fields))
        data = encode_record(delta[at].record)  # type: ignore[union-attr]
        self.change(n, delta=delta, content={**commit.content, chain.put_item(at): data})

    def be(self, **fields: Any) -> None:
        """Change what the session says of itself, in all of its commits, and the manifest with it."""
        for n, commit in enumerate(self.commits):
            for at, op in enumerate(commit.delta):
                if isinstance(op, Put) and isinstance(op.record, SessionRecord):
                    self.change_record(n, at, **fields)
        told = {name: fields[name] for name in ("name", "project", "lineage") if name in fields}
        self.one = replace(self.one, **told)

    def rename_session(self, identifier: str) -> None:
        """Give the session another id."""
        self.commits = [replace(commit, session=identifier) for commit in self.commits]
        self.one = replace(self.one, id=identifier)
        self.be(id=identifier)

    def add(self, kind: str, *records: tuple[str, Record], **fields: Any) -> Commit:
        """Add a commit at the end; `records` are put into the collections named."""
        last = self.commits[-1]
        identifier = fields.pop("id", derived("commit", self.one.id, kind, str(last.seq + 1)))
        content: dict[str, Any] = {
            name: canon.dumps(fields.pop(name))
            for name in ("principal", "key", "input", "output", "why")
            if name in fields
        }
        delta: Delta = []
        for at, (collection, record) in enumerate(records):
            put = record_id(identifier, at)
            if collection == "session":
                put = next(op.id for op in self.commits[0].delta if op.collection == "session")
            delta.append(Put(collection, put, record, 0))
            content[chain.put_item(at)] = encode_record(record)
        defaults = {"turn": last.turn, "at": last.at + 1, "happened": last.at + 1, "actor": "user"}
        commit = Commit(
            id=identifier, session=self.one.id, seq=last.seq + 1, kind=kind, hash="",
            prev=last.hash, content=content, delta=delta, salt=bytes(16) if content else b"",
            **{**defaults, **fields},
        )  # fmt: skip
        self.commits.append(commit)
        self.rechain(len(self.commits) - 1)
        return self.commits[-1]

    def index(self, kind: str) -> int:
        return next(n for n, commit in enumerate(self.commits) if commit.kind == kind)


@dataclass
class Forge:
    """A bundle in pieces."""

    path: Path
    parts: list[Part]
    header: Header = field(default_factory=Header)
    exporter: str = "stator"
    end: dict[str, int] = field(default_factory=dict)
    """What the last frame says instead of the truth."""
    on_frames: Callable[[list[Frame]], list[Frame]] = lambda frames: frames
    on_body: Callable[[bytes], bytes] = lambda body: body
    on_file: Callable[[bytes], bytes] = lambda data: data

    @classmethod
    def of(cls, path: Path) -> Forge:
        with BundleReader(str(path)) as reader:
            listed = reader.manifest.sessions
        logs = read_commits(str(path))
        return cls(path, [Part(one, log) for one, log in zip(listed, logs, strict=True)])

    def part(self, name: str) -> Part:
        return next(part for part in self.parts if part.one.name == name)

    def write(self) -> Path:
        """Write the bundle beside the one it was made from."""
        frames = [
            raw_frame(
                bundle.MANIFEST, bundle.encode(Manifest(sessions=[part.one for part in self.parts]))
            )
        ]
        for n, part in enumerate(self.parts):
            packed = [pack(commit) for commit in part.commits]
            frames.append(raw_frame(bundle.BATCH, bundle.encode(Batch(n, packed))))
        told: dict[str, Any] = {
            "commits": sum(len(part.commits) for part in self.parts),
            **self.end,
        }
        frames.append(raw_frame(bundle.END, bundle.encode(End(**told))))
        body = bundle.preface(self.header) + b"".join(
            bundle.FRAME.pack(kind, codec, stored, size) + data
            for kind, codec, stored, size, data in self.on_frames(frames)
        )
        body = self.on_body(body)
        target = self.path.with_name("forged.stator")
        target.write_bytes(self.on_file(body + hashlib.sha256(body).digest()))
        return target
