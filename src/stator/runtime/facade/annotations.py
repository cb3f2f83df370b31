"""Marks: what a person or another agent adds to a session, whether or not they drive it."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from stator.errors import InvalidInput
from stator.model.log.commit import (
    Commit,
    Draft,
    Erase,
    Upsert,
)
from stator.model.log.rewinds import TAG
from stator.model.records.types import FlagRecord, ScoreRecord, TagRecord
from stator.runtime.base.arguments import text, thousandths
from stator.runtime.base.context import Context
from stator.runtime.driving.turn import Recorder
from stator.runtime.files import restore as restoring
from stator.runtime.files.restore import Restoration
from stator.runtime.views.session import SessionView
from stator.store import port


class Marker(Recorder):
    """Tags, scores, flags and erasures, each with the principal who made it."""

    _store: port.StorePort
    _id: str
    _principal: str
    context: Context

    def _append(self, drafts: Sequence[Draft]) -> list[Commit]:
        raise NotImplementedError

    def tag(self, name: str, at: str = "head") -> str:
        """Name a position."""
        point = SessionView(self._store, self._id).at(at)
        if point.session != self._id:
            raise InvalidInput("a tag names a position of its own session", path="$.at")
        if text(name, "name").startswith(TAG):
            raise InvalidInput(f"{TAG}… names what a rewind left", path="$.name")
        commits = self._store.commits(self._id, after=point.seq - 1, upto=point.seq, load=False)
        hashed = commits[0].hash if commits else ""
        record = TagRecord(name=text(name, "name"), seq=point.seq, hash=hashed)
        return self._record("tag", Upsert("tags", record), principal=self._principal)

    def score(self, name: str, value: float, *, on: str = "", comment: str = "") -> str:
        """Judge the session, a turn or a call; kept in thousandths."""
        record = ScoreRecord(
            name=text(name, "name"),
            value=thousandths(value, "value"),
            on=on,
            comment=comment,
            by=self._principal,
        )
        return self._record("score", Upsert("scores", record), principal=self._principal)

    def flag(self, name: str, *, on: str = "", why: str = "") -> str:
        """Mark something that a person should look at."""
        record = FlagRecord(name=text(name, "name"), on=on, why=why, by=self._principal)
        return self._record("flag", Upsert("flags", record), principal=self._principal)

    def restore(
        self,
        *paths: str,
        at: str,
        apply: bool = False,
        force: bool = False,
        everything: bool = False,
        root: str = "",
    ) -> Restoration:
        """Say what it would take to have files again as they were at a position; `apply` does it.

        Only files this session wrote; `everything` is all of them. What is there now is kept first.
        Files that somebody else changed since, or whose present content cannot be kept, need
        `force`; those outside the session's root need the folder they are in as `root`.
        """
        point = SessionView(self._store, self._id).at(at)
        return restoring.restore(
            self, point, paths, apply=apply, force=force, everything=everything, root=root
        )

    def erase(
        self, ref: str = "", *, fields: Sequence[str] = (), record: tuple[str, str] | None = None
    ) -> str:
        """Erase content fields of the commit at `ref` (none named: all), or every put of a record.

        The bytes are gone from the file when this returns, unless another program reads an older
        state of it (`store.info()` tells); the chain still verifies.
        """
        if record is not None:
            change = Erase(collection=record[0], id=record[1])
        else:
            point = SessionView(self._store, self._id).at(ref)
            change = Erase(seq=point.seq, fields=tuple(fields))
        made = self._submit(
            self._draft(
                "erasure",
                changes=(change,),
                input=msgspec.to_builtins(change),
                actor="user",
                principal=self._principal,
            )
        )
        from stator.runtime.views.search import forget

        forget(self._store, self.context, [self._id])
        return made
