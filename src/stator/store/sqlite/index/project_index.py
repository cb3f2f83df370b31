"""The index of what the projects of a store know: a file of its own beside the store, see `index_file`.

A row a value of a key, and a row a key for what holds, worked out by `model.views.project_state.settle` when one of
its values changed. A question reads the rows of the newest keys and nothing else.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import apsw
import msgspec

from stator.model.records.tables import COLLECTIONS, NUMBERED
from stator.model.views.knowledge import DURABLE, KeyDrop, SessionKnowledge, Value
from stator.model.views.project_state import (
    VALUES_MAX,
    HeldKey,
    KnownSession,
    Learned,
    SessionAbout,
    settle,
)
from stator.model.views.search import Mark
from stator.model.views.untrusted import ANY, SessionTaint
from stator.store.sqlite import space
from stator.store.sqlite.connection import many, one
from stator.store.sqlite.index.index_file import IndexFile
from stator.store.sqlite.store_lock import LEARNING
from stator.store.sqlite.writer import PATIENCE_S

SUFFIX = "-projects"
APPLICATION_ID = 0x53544150
"""'STAP': an index of projects, and not a store."""
VERSION = 3
"""Of the tables, and of what `knowledge` and `project_state` make of a log: raise it with either."""
SCHEMA = """
CREATE TABLE project (p INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE) STRICT;
CREATE TABLE session (
  s        INTEGER PRIMARY KEY,
  id       TEXT NOT NULL UNIQUE,
  c        INTEGER NOT NULL,
  p        INTEGER NOT NULL,
  parent   TEXT NOT NULL,
  after    TEXT NOT NULL,
  adopted  TEXT NOT NULL,
  seq      INTEGER NOT NULL,
  updated  INTEGER NOT NULL,
  hash     TEXT NOT NULL,
  revision INTEGER NOT NULL,
  upto     INTEGER NOT NULL,
  about    BLOB NOT NULL,
  known    BLOB NOT NULL
) STRICT;
CREATE INDEX session_chunk ON session (c);
CREATE INDEX session_parent ON session (parent) WHERE parent <> '';
CREATE INDEX session_after ON session (after) WHERE after <> '';
CREATE TABLE value (
  p        INTEGER NOT NULL,
  name     INTEGER NOT NULL,
  key      TEXT NOT NULL,
  doubtful INTEGER NOT NULL,
  happened INTEGER NOT NULL,
  original INTEGER NOT NULL,
  session  TEXT NOT NULL,
  seq      INTEGER NOT NULL,
  n        INTEGER NOT NULL,
  body     BLOB NOT NULL,
  PRIMARY KEY (p, name, key, doubtful, happened, original, session, seq, n)
) STRICT, WITHOUT ROWID;
CREATE INDEX value_of ON value (session);
CREATE TABLE gone (
  p       INTEGER NOT NULL,
  name    INTEGER NOT NULL,
  key     TEXT NOT NULL,
  session TEXT NOT NULL,
  body    BLOB NOT NULL,
  PRIMARY KEY (p, name, key, session)
) STRICT, WITHOUT ROWID;
CREATE INDEX gone_of ON gone (session);
CREATE TABLE forgotten (
  p       INTEGER NOT NULL,
  name    INTEGER NOT NULL,
  key     TEXT NOT NULL,
  session TEXT NOT NULL,
  upto    INTEGER NOT NULL,
  PRIMARY KEY (p, name, key, session)
) STRICT, WITHOUT ROWID;
CREATE INDEX forgotten_of ON forgotten (session);
CREATE TABLE lead (
  other   TEXT NOT NULL,
  session TEXT NOT NULL,
  PRIMARY KEY (other, session)
) STRICT, WITHOUT ROWID;
CREATE INDEX lead_of ON lead (session);
CREATE TABLE entry (
  p        INTEGER NOT NULL,
  name     INTEGER NOT NULL,
  key      TEXT NOT NULL,
  happened INTEGER NOT NULL,
  session  TEXT NOT NULL,
  said     TEXT NOT NULL,
  body     BLOB NOT NULL,
  PRIMARY KEY (p, name, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX entry_newest ON entry (p, name, happened DESC, key);
CREATE TABLE total (
  p     INTEGER NOT NULL,
  name  INTEGER NOT NULL,
  count INTEGER NOT NULL,
  PRIMARY KEY (p, name)
) STRICT, WITHOUT ROWID;
"""
OF_SESSION = ("value", "gone", "forgotten")
"""Tables with rows that a session alone gives."""

Key = tuple[int, int, str]
"""Project, collection and key."""
_encode = msgspec.msgpack.Encoder().encode
_value = msgspec.msgpack.Decoder(Value).decode
_drop = msgspec.msgpack.Decoder(KeyDrop).decode
_about = msgspec.msgpack.Decoder(SessionAbout).decode
_settled = msgspec.msgpack.Decoder(HeldKey).decode
_knowledge = msgspec.msgpack.Decoder(SessionKnowledge).decode


class SqliteProjectIndex(IndexFile):
    """See `store.port.ProjectIndex` for what each method promises."""

    JUDGES = True
    SUFFIX, APPLICATION_ID, VERSION, SCHEMA, LOCK = (
        SUFFIX,
        APPLICATION_ID,
        VERSION,
        SCHEMA,
        LEARNING,
    )

    # -- what it knows of sessions ----------------------------------------------------------------

    def known(self, session: str) -> KnownSession | None:
        with self._guarded() as db:
            row = one(
                db,
                "SELECT seq, updated, hash, revision, upto, parent, adopted FROM session WHERE id = ?",
                (session,),
            )
        return None if row is None else KnownSession(Mark(*row[:3]), *row[3:])

    def knowledge(self, session: str) -> SessionKnowledge | None:
        with self._guarded() as db:
            row = one(db, "SELECT known FROM session WHERE id = ?", (session,))
            if row is None:
                return None
            values = many(db, "SELECT body FROM value WHERE session = ?", (session,))
            drops = many(db, "SELECT body FROM gone WHERE session = ?", (session,))
        known = _knowledge(row[0])
        known.add([_value(body) for (body,) in values], [_drop(body) for (body,) in drops])
        return known

    def below(self, sessions: Sequence[str]) -> list[str]:
        found: dict[str, None] = {}
        waiting = list(sessions)
        with self._guarded() as db:
            while waiting:
                rows = many(
                    db,
                    "SELECT id FROM session WHERE parent = ?1 AND parent <> ''"
                    " UNION SELECT id FROM session WHERE after = ?1 AND after <> ''",
                    (waiting.pop(),),
                )
                new = [id for (id,) in rows if id not in found]
                found |= dict.fromkeys(new)
                waiting += new
        return [id for id in found if id not in sessions]

    def taint(self, session: str) -> SessionTaint | None:
        with self._guarded() as db:
            row = one(db, "SELECT known FROM session WHERE id = ?", (session,))
        return None if row is None else _knowledge(row[0]).taint

    def resting(self, sessions: Sequence[str]) -> list[str]:
        found: dict[str, None] = {}
        waiting = list(sessions)
        with self._guarded() as db:
            while waiting:
                rows = many(
                    db,
                    "SELECT session FROM lead WHERE other = ? OR other = ?",
                    (waiting.pop(), ANY),
                )
                new = [id for (id,) in rows if id not in found]
                found |= dict.fromkeys(new)
                waiting += new
        return [id for id in found if id not in sessions]

    def about(self, sessions: Sequence[str]) -> dict[str, SessionAbout]:
        with self._guarded() as db:
            rows = many(
                db,
                "SELECT about FROM json_each(?) JOIN session ON session.id = value AND upto > 0",
                (json.dumps(list(dict.fromkeys(sessions))),),
            )
        found = [_about(about) for (about,) in rows]
        return {about.id: about for about in found}

    # -- filling ----------------------------------------------------------------------------------

    def put(self, groups: Sequence[Sequence[Learned]]) -> bool:
        left_out = 0
        with self._guarded(), self._writing() as db:
            touched: dict[Key, None] = {}
            for group in groups:
                if any(_revision(db, one.about.id) != one.before for one in group):
                    left_out += 1
                    continue
                for learned in group:
                    touched |= dict.fromkeys(self._put(db, learned))
                    self._caught_up(db, learned.about.id)
            self._settle(db, touched)
        return not left_out

    def _put(self, db: apsw.Connection, learned: Learned) -> Iterator[Key]:
        """Write down what a session knows; the keys that must be settled again."""
        about, known = learned.about, learned.knowledge
        p = _project(db, learned.project)
        before = one(db, "SELECT p, about, upto FROM session WHERE id = ?", (about.id,))
        db.execute(
            "INSERT INTO session (id, c, p, parent, after, adopted, seq, updated, hash, revision, upto, about, known)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET c = excluded.c,"
            " p = excluded.p, parent = excluded.parent, after = excluded.after,"
            " adopted = excluded.adopted, seq = excluded.seq, updated = excluded.updated,"
            " hash = excluded.hash, revision = excluded.revision, upto = excluded.upto,"
            " about = excluded.about, known = excluded.known",
            (
                about.id,
                self._chunk_of(about.id),
                p,
                learned.parent,
                learned.continues,
                learned.adopted,
                learned.mark.seq,
                learned.mark.updated,
                learned.mark.hash,
                learned.before + 1,
                learned.upto,
                _encode(about),
                _encode(msgspec.structs.replace(known, live={}, earlier={}, drops={})),
            ),
        )
        db.execute("DELETE FROM lead WHERE session = ?", (about.id,))
        for other in known.taint.leads:
            db.execute("INSERT OR IGNORE INTO lead VALUES (?, ?)", (other, about.id))
        changed = [
            *_replace(db, "value", about.id, _value_rows(p, known)),
            *_replace(db, "gone", about.id, _drop_rows(p, about, known)),
            *_replace(db, "forgotten", about.id, _forgotten_rows(p, about, known)),
        ]
        if changed and before is not None and learned.anew:
            space.mark(db)
        yield from changed
        if before is None or before[1] != _encode(about):
            reached = before is None or _about(before[1]).ancestors != about.ancestors
            yield from self._weighed(db, p, about, known, reached)

    @staticmethod
    def _weighed(
        db: apsw.Connection, p: int, about: SessionAbout, known: SessionKnowledge, reached: bool
    ) -> Iterator[Key]:
        """Keys of a session for which another value holds: whether the two are in conflict depends on when the
        session was used."""
        for name, records in known.live.items():
            number = COLLECTIONS[name].number
            for value in records.values():
                row = one(
                    db,
                    "SELECT session, said FROM entry WHERE p = ? AND name = ? AND key = ?",
                    (p, number, value.key),
                )
                if value.said and (row is None or (row[0] != about.id and value.said != row[1])):
                    yield p, number, value.key
        if reached:
            for drop in known.key_drops():
                yield p, COLLECTIONS[drop.collection].number, drop.key

    def drop(self, sessions: Sequence[str]) -> None:
        with self._guarded(), self._writing() as db:
            touched: dict[Key, None] = {}
            for session in sessions:
                for table in OF_SESSION:
                    touched |= dict.fromkeys(_replace(db, table, session, {}))
                db.execute("DELETE FROM lead WHERE session = ?", (session,))
                db.execute("DELETE FROM session WHERE id = ?", (session,))
                if db.changes():
                    space.mark(db)
                self._caught_up(db, session)
            self._settle(db, touched)

    def _settle(self, db: apsw.Connection, keys: Iterable[Key]) -> None:
        """Work out what holds for keys again."""
        abouts: dict[str, SessionAbout | None] = {}

        def about(session: str) -> SessionAbout | None:
            if session not in abouts:
                abouts[session] = _read_about(db, session)
            return abouts[session]

        for key in keys:
            values = [
                row
                for doubtful in (0, 1)
                for row in many(
                    db,
                    "SELECT body FROM value WHERE p = ? AND name = ? AND key = ? AND doubtful = ?"
                    " ORDER BY happened DESC, original DESC, session DESC, seq DESC, n DESC LIMIT ?",
                    (*key, doubtful, VALUES_MAX),
                )
            ]
            drops = many(db, "SELECT body FROM gone WHERE p = ? AND name = ? AND key = ?", key)
            (upto,) = one(
                db,
                "SELECT coalesce(max(upto), 0) FROM forgotten WHERE p = ? AND name = ? AND key = ?",
                key,
            )
            found = settle(
                [_value(body) for (body,) in values],
                [_drop(body) for (body,) in drops],
                upto,
                about,
            )
            _keep(db, key, found)

    def scrub(self) -> bool:
        with self._guarded() as db:
            if not space.is_marked(db, space.MARK):
                return True
            with self._alone():
                return space.finish(db, self._patience, PATIENCE_S, whole=True)

    # -- asking -----------------------------------------------------------------------------------

    def settled(self, project: str, *, limit: int) -> dict[str, tuple[list[HeldKey], int]]:
        answer: dict[str, tuple[list[HeldKey], int]] = {name: ([], 0) for name in DURABLE}
        with self._guarded() as db:
            row = one(db, "SELECT p FROM project WHERE id = ?", (project,))
            totals = (
                many(db, "SELECT name, count FROM total WHERE p = ? AND count > 0", row)
                if row is not None
                else []
            )
            for number, count in totals:
                rows = many(
                    db,
                    "SELECT body FROM entry WHERE p = ? AND name = ?"
                    " ORDER BY happened DESC, key LIMIT ?",
                    (*row, number, limit),
                )
                answer[NUMBERED[number].name] = [_settled(body) for (body,) in rows], count
            self._must_be_the_same(db)
        return answer

    def find(self, project: str, collection: str, key: str) -> HeldKey | None:
        with self._guarded() as db:
            row = one(
                db,
                "SELECT body FROM entry WHERE p = (SELECT p FROM project WHERE id = ?)"
                " AND name = ? AND key = ?",
                (project, COLLECTIONS[collection].number, key),
            )
            self._must_be_the_same(db)
        return None if row is None else _settled(row[0])


Rows = dict[tuple[Any, ...], Any]
"""The key of a row without its session, and its last column."""


def _value_rows(p: int, known: SessionKnowledge) -> Rows:
    return {
        (
            p,
            COLLECTIONS[value.collection].number,
            value.key,
            int(bool(value.unverified)),
            value.happened,
            int(not value.carried),
            value.session,
            value.seq,
            value.n,
        ): _encode(value)
        for value in known.values()
    }


def _drop_rows(p: int, about: SessionAbout, known: SessionKnowledge) -> Rows:
    """What a session without ancestors dropped, it dropped from itself alone."""
    if not about.ancestors:
        return {}
    return {
        (p, COLLECTIONS[drop.collection].number, drop.key, about.id): _encode(drop)
        for drop in known.key_drops()
    }


def _forgotten_rows(p: int, about: SessionAbout, known: SessionKnowledge) -> Rows:
    if about.scope == "session":
        return {}
    return {
        (p, COLLECTIONS[name].number, key, about.id): upto
        for name, keys in known.forgotten.items()
        if name in COLLECTIONS
        for key, upto in keys.items()
    }


_COLUMNS = {
    "value": ("p", "name", "key", "doubtful", "happened", "original", "session", "seq", "n"),
    "gone": ("p", "name", "key", "session"),
    "forgotten": ("p", "name", "key", "session"),
}
_LAST = {"value": "body", "gone": "body", "forgotten": "upto"}


def _replace(db: apsw.Connection, table: str, session: str, rows: Rows) -> list[Key]:
    """Make the rows of a session these; the keys of those that changed."""
    columns = ", ".join(_COLUMNS[table])
    held: Rows = {
        tuple(row[:-1]): row[-1]
        for row in many(
            db,
            f"SELECT {columns}, {_LAST[table]} FROM {table} WHERE session = ?",  # noqa: S608
            (session,),
        )
    }
    changed: dict[Key, None] = {}
    where = " AND ".join(f"{column} = ?" for column in _COLUMNS[table])
    for key in held.keys() - rows.keys():
        db.execute(f"DELETE FROM {table} WHERE {where}", key)  # noqa: S608
        changed[key[:3]] = None
    marks = ", ".join("?" * (len(_COLUMNS[table]) + 1))
    for key, last in rows.items():
        if held.get(key) != last:
            db.execute(f"INSERT OR REPLACE INTO {table} VALUES ({marks})", (*key, last))  # noqa: S608
            changed[key[:3]] = None
    return list(changed)


def _keep(db: apsw.Connection, key: Key, found: HeldKey | None) -> None:
    there = one(db, "SELECT body FROM entry WHERE p = ? AND name = ? AND key = ?", key)
    if found is None:
        if there is not None:
            db.execute("DELETE FROM entry WHERE p = ? AND name = ? AND key = ?", key)
            _count(db, key, -1)
        return
    body = _encode(found)
    if there is None:
        _count(db, key, 1)
    elif there[0] == body:
        return
    db.execute(
        "INSERT OR REPLACE INTO entry VALUES (?, ?, ?, ?, ?, ?, ?)",
        (*key, found.value.happened, found.value.session, found.value.said, body),
    )


def _count(db: apsw.Connection, key: Key, by: int) -> None:
    db.execute(
        "INSERT INTO total VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET count = count + excluded.count",
        (*key[:2], by),
    )


def _project(db: apsw.Connection, project: str) -> int:
    row = one(db, "SELECT p FROM project WHERE id = ?", (project,))
    if row is None:
        row = one(db, "INSERT INTO project (id) VALUES (?) RETURNING p", (project,))
    return int(row[0])


def _revision(db: apsw.Connection, session: str) -> int:
    row = one(db, "SELECT revision FROM session WHERE id = ?", (session,))
    return 0 if row is None else int(row[0])


def _read_about(db: apsw.Connection, session: str) -> SessionAbout | None:
    """What is known of a session that counts."""
    row = one(db, "SELECT about FROM session WHERE id = ? AND upto > 0", (session,))
    return None if row is None else _about(row[0])
