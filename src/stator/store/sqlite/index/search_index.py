"""The search index: a file of its own beside the store, see `index_file`.

An inverted index without the texts (FTS5, contentless), a row a commit for what can be filtered by, a row a session
for how far it is known.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import apsw

from stator.model.views.search import (
    Advance,
    Mark,
    SearchQuery,
    Term,
)
from stator.store.sqlite import space
from stator.store.sqlite.connection import many, one
from stator.store.sqlite.index.index_file import IndexFile
from stator.store.sqlite.store_lock import INDEXING
from stator.store.sqlite.writer import PATIENCE_S

SUFFIX = "-search"
APPLICATION_ID = 0x53544153
"""'STAS': a search index, and not a store."""
VERSION = 6
"""Of the tables, and of what `tokenizer` and `search_text` make of a commit: raise it with either."""

SCHEMA = """
CREATE TABLE session (
  s       INTEGER PRIMARY KEY,
  id      TEXT NOT NULL UNIQUE,
  c       INTEGER NOT NULL,
  project TEXT NOT NULL,
  agent   TEXT NOT NULL,
  seq     INTEGER NOT NULL,
  updated INTEGER NOT NULL,
  hash    TEXT NOT NULL
) STRICT;
CREATE INDEX session_chunk ON session (c);
CREATE TABLE doc (
  d    INTEGER PRIMARY KEY,
  s    INTEGER NOT NULL,
  seq  INTEGER NOT NULL,
  at   INTEGER NOT NULL,
  tie  INTEGER NOT NULL,
  kind TEXT NOT NULL,
  tool TEXT NOT NULL
) STRICT;
CREATE INDEX doc_place ON doc (s, seq);
CREATE VIRTUAL TABLE word USING fts5
  (body, paths, content='', contentless_delete=1, tokenize='ascii');
"""
_MATCHING = """
FROM word JOIN doc ON doc.d = word.rowid
WHERE word MATCH :match
  AND (:tool IS NULL OR doc.tool = :tool)
  AND (:since IS NULL OR doc.at >= :since)
  AND (:until IS NULL OR doc.at <= :until)
  AND (:kinds IS NULL OR doc.kind IN (SELECT value FROM json_each(:kinds)))
  AND (:scoped IS NULL OR doc.s IN (
    SELECT s FROM session
    WHERE (:project IS NULL OR project = :project) AND (:agent IS NULL OR agent = :agent)
  ))
  AND (:segments IS NULL OR EXISTS (
    SELECT 1 FROM json_each(:segments)
    WHERE (SELECT id FROM session WHERE s = doc.s) = value ->> 0
      AND doc.seq > value ->> 1 AND (value ->> 2 = 0 OR doc.seq <= value ->> 2)
  ))
"""
BEST = f"""
SELECT (SELECT id FROM session WHERE s = found.s), seq FROM (
  SELECT doc.s, doc.seq {_MATCHING}
  ORDER BY CAST(printf('%.2g', bm25(word)) AS REAL), doc.at DESC, doc.tie, doc.seq DESC LIMIT :limit
) AS found
"""  # noqa: S608
NEWEST = f"""
SELECT (SELECT id FROM session WHERE s = found.s), seq FROM (
  SELECT doc.s, doc.seq {_MATCHING} ORDER BY doc.at DESC, doc.tie, doc.seq DESC LIMIT :limit
) AS found
"""  # noqa: S608
"""Two statements for every question: nothing that was typed is ever part of them."""
RANKED_MAX = 10_000
"""Commits that match and are ranked: a more common word does not narrow the search, and the newest come first."""


class SearchIndex(IndexFile):
    """See `store.port.Index` for what each method promises."""

    SUFFIX, APPLICATION_ID, VERSION, SCHEMA, LOCK = (
        SUFFIX,
        APPLICATION_ID,
        VERSION,
        SCHEMA,
        INDEXING,
    )
    SHADOWS = ("word_config", "word_data", "word_docsize", "word_idx")

    # -- filling ----------------------------------------------------------------------------------

    def mark(self, session: str) -> Mark:
        with self._guarded() as db:
            return self._mark(db, session)

    @staticmethod
    def _mark(db: apsw.Connection, session: str) -> Mark:
        row = one(db, "SELECT seq, updated, hash FROM session WHERE id = ?", (session,))
        return Mark() if row is None else Mark(*row)

    def put(self, advances: Sequence[Advance]) -> None:
        with self._guarded(), self._writing() as db:
            for advance in advances:
                if self._mark(db, advance.session) == advance.before:
                    self._put(db, advance)

    def _put(self, db: apsw.Connection, advance: Advance) -> None:
        to = advance.after
        if advance.anew:
            self._forget(db, advance.session)
        (s,) = one(
            db,
            "INSERT INTO session (id, c, project, agent, seq, updated, hash) VALUES (?, ?, ?, ?, ?, ?, ?)"
            " ON CONFLICT (id) DO UPDATE SET c = excluded.c, project = excluded.project, agent = excluded.agent,"
            " seq = excluded.seq, updated = excluded.updated, hash = excluded.hash RETURNING s",
            (
                advance.session,
                self._chunk_of(advance.session),
                advance.project,
                advance.agent,
                to.seq,
                to.updated,
                to.hash,
            ),
        )
        # Of what happened at once: the same order in every index.
        tie = int(advance.session[-12:], 16)
        for document in advance.documents:
            db.execute(
                "INSERT INTO doc (s, seq, at, tie, kind, tool) VALUES (?, ?, ?, ?, ?, ?)",
                (s, document.seq, document.at, tie, document.kind, document.tool),
            )
            db.execute(
                "INSERT INTO word (rowid, body, paths) VALUES (?, ?, ?)",
                (db.last_insert_rowid(), document.body, document.paths),
            )

    def drop(self, sessions: Sequence[str]) -> None:
        with self._guarded(), self._writing() as db:
            for session in sessions:
                self._forget(db, session)

    @staticmethod
    def _forget(db: apsw.Connection, session: str) -> None:
        row = one(db, "SELECT s FROM session WHERE id = ?", (session,))
        if row is None:
            return
        if one(db, "SELECT 1 FROM doc WHERE s = ? LIMIT 1", row) is not None:
            space.mark(db)
        db.execute("DELETE FROM word WHERE rowid IN (SELECT d FROM doc WHERE s = ?)", row)
        db.execute("DELETE FROM doc WHERE s = ?", row)
        db.execute("DELETE FROM session WHERE s = ?", row)

    def scrub(self) -> bool:
        with self._guarded() as db:
            if not space.is_marked(db):
                return True
            # Deleting marks rows as deleted; their words leave when what they stand in is written anew.
            with self._writing():
                db.execute("INSERT INTO word (word) VALUES ('optimize')")
            with self._alone():
                return space.finish(db, self._patience, PATIENCE_S, whole=True)

    # -- finding ----------------------------------------------------------------------------------

    def find(self, query: SearchQuery, *, limit: int) -> list[tuple[str, int]]:
        values = {
            "match": _match(query),
            "project": query.project,
            "agent": query.agent,
            "scoped": None if query.project is None and query.agent is None else 1,
            "tool": query.tool,
            "since": query.since or None,
            "until": query.until or None,
            "kinds": _listed(query.kinds),
            "segments": _listed([(one.session, one.after, one.upto) for one in query.stretches]),
            "limit": limit,
        }
        with self._guarded() as db:
            (matching,) = one(
                db, "SELECT count(*) FROM word WHERE word MATCH ?", (values["match"],)
            )
            found = many(db, BEST if matching <= RANKED_MAX else NEWEST, values)
            self._must_be_the_same(db)
            return found


def _listed(values: Sequence[Any]) -> str | None:
    return json.dumps(values) if values else None


def _match(query: SearchQuery) -> str:
    """The terms of a query in the syntax of FTS5. Words hold letters and digits only, and each is quoted."""
    wanted = (" OR " if query.any_term else " AND ").join(_expression(term) for term in query.terms)
    made = f"{{body}} : ({wanted})"
    if query.path:
        made = f"({made}) AND ({{paths}} : {_phrase(query.path)})"
    for term in query.without:
        made = f"({made}) NOT ({{body}} : {_expression(term)})"
    return made


def _expression(term: Term) -> str:
    star = " *" if term.prefix else ""
    whole = _phrase(term.words) + star
    return f"({whole} OR {_phrase(term.parts)}{star})" if term.parts else whole


def _phrase(words: Sequence[str]) -> str:
    return f'"{" ".join(words)}"'
