"""Annotates a session: tags, scores, flags, erasures and restored files, by its driver or from outside."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from stator.errors import InvalidInput
from stator.model.log.commit import Erase, Upsert
from stator.model.log.rewinds import TAG
from stator.model.records.types import FlagRecord, ScoreRecord, TagRecord
from stator.runtime.base.arguments import text, thousandths
from stator.runtime.base.erased_keys import with_kept_keys
from stator.runtime.branches import restore as restoring
from stator.runtime.branches.restore import Restoration
from stator.runtime.driving.state_writer import StateWriter
from stator.runtime.driving.writer import SessionWriter
from stator.runtime.views.refs import Point, locate
from stator.store.port import StorePort


class Marker(StateWriter):
    """Tags, scores, flags and erasures, each with the principal who made it."""

    _writer: SessionWriter

    def _place(self) -> tuple[StorePort, str]:
        return self._writer.store, self._writer.id

    def _at(self, ref: str) -> Point:
        return locate(self._writer.store, self._writer.id, ref)

    def tag(self, name: str, at: str = "head") -> str:
        """Name a position."""
        store, session = self._writer.store, self._writer.id
        point = self._at(at)
        if point.session != session:
            raise InvalidInput("a tag can name only a position of its own session", path="$.at")
        if text(name, "name").startswith(TAG):
            raise InvalidInput(
                f"{TAG}… is reserved for positions that a rewind left", path="$.name"
            )
        commits = store.commits(session, after=point.seq - 1, upto=point.seq, load=False)
        hashed = commits[0].hash if commits else ""
        record = TagRecord(name=text(name, "name"), seq=point.seq, hash=hashed)
        return self._record("tag", Upsert("tags", record), principal=self._writer.principal)

    def score(self, name: str, value: float, *, on: str = "", comment: str = "") -> str:
        """Rate the session, a turn or a call; stored in thousandths."""
        record = ScoreRecord(
            name=text(name, "name"),
            value=thousandths(value, "value"),
            on=on,
            comment=comment,
            by=self._writer.principal,
        )
        return self._record("score", Upsert("scores", record), principal=self._writer.principal)

    def flag(self, name: str, *, on: str = "", why: str = "") -> str:
        """Mark something that a person should look at."""
        record = FlagRecord(name=text(name, "name"), on=on, why=why, by=self._writer.principal)
        return self._record("flag", Upsert("flags", record), principal=self._writer.principal)

    def restore(
        self,
        *paths: str,
        at: str,
        apply: bool = False,
        force: bool = False,
        everything: bool = False,
        root: str = "",
    ) -> Restoration:
        """Show how to restore files as they were at a position; `apply` does it.

        Only files this session wrote; `everything` is all of them. The current content is recorded first.
        Files that others have changed since, or whose current content cannot be recorded, need
        `force`; those outside the session's root need the folder they are in as `root`.
        """
        return restoring.restore(
            self._writer,
            self._at(at),
            paths,
            apply=apply,
            force=force,
            everything=everything,
            root=root,
        )

    def erase(
        self, ref: str = "", *, fields: Sequence[str] = (), record: tuple[str, str] | None = None
    ) -> str:
        """Erase content fields of the commit at `ref` (none named: all), or every put of a record.

        The bytes are gone from the file when this returns, unless another program reads an older state of it
        (see `store.info()`); the chain still verifies.
        """
        if record is not None:
            change = Erase(collection=record[0], id=record[1])
        else:
            change = Erase(seq=self._at(ref).seq, fields=tuple(fields))
        writer = self._writer
        said = msgspec.to_builtins(change)
        made = self._submit(
            self._draft(
                "erasure",
                changes=(change,),
                input=with_kept_keys(writer.store, writer.context, writer.id, (change,), said),
                actor="user",
                principal=writer.principal,
            )
        )
        from stator.runtime.views.project_state import forget_in_indexes

        forget_in_indexes(writer.store, writer.context, [writer.id])
        return made
