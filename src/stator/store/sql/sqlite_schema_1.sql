-- Schema 1. The log and blob tables are additive only, for ever; every other table can be made again from them.

-- What this store is: id, keys, the epoch counter.
CREATE TABLE meta (
  key   TEXT PRIMARY KEY,
  value ANY NOT NULL
) STRICT, WITHOUT ROWID;

-- The truth: one row a commit, keyed (session ordinal << 40) | seq. See store/rows.py for what the columns hold.
CREATE TABLE log (
  k     INTEGER PRIMARY KEY,
  id    BLOB NOT NULL,
  hash  BLOB NOT NULL,
  salts BLOB NOT NULL,
  body  BLOB NOT NULL
) STRICT;

-- Large payloads, once, under 63 bits of their keyed digest.
CREATE TABLE blob (
  k      INTEGER PRIMARY KEY,
  digest BLOB NOT NULL,
  size   INTEGER NOT NULL,
  data   BLOB NOT NULL
) STRICT;

-- Which commits need which blob.
CREATE TABLE blob_use (
  blob INTEGER NOT NULL,
  log  INTEGER NOT NULL,
  PRIMARY KEY (blob, log)
) STRICT, WITHOUT ROWID;

-- Sessions. Names, status and epoch are written with the commit that changes them; updated, flushed and counts lazily.
CREATE TABLE session (
  s       INTEGER PRIMARY KEY,
  id      BLOB NOT NULL UNIQUE,
  tenant  TEXT NOT NULL,
  project TEXT NOT NULL,
  name    TEXT NOT NULL,
  agent   TEXT NOT NULL,
  mode    TEXT NOT NULL,
  status  TEXT NOT NULL,
  parent  BLOB,
  record  BLOB NOT NULL,
  epoch   INTEGER NOT NULL,
  holder  BLOB,
  created INTEGER NOT NULL,
  updated INTEGER NOT NULL,
  flushed INTEGER NOT NULL,
  dirty   INTEGER NOT NULL,
  counts  BLOB NOT NULL,
  UNIQUE (tenant, project, name)
) STRICT;
CREATE INDEX session_updated ON session (updated DESC, s DESC);
CREATE INDEX session_dirty ON session (s) WHERE dirty = 1;
CREATE INDEX session_parent ON session (parent) WHERE parent IS NOT NULL;

CREATE TABLE alias (
  tenant  TEXT NOT NULL,
  source  TEXT NOT NULL,
  foreign_id TEXT NOT NULL,
  s       INTEGER NOT NULL,
  PRIMARY KEY (tenant, source, foreign_id, s)
) STRICT, WITHOUT ROWID;

-- Projections: commit ids, origins, turns, record versions, their snapshots, calls.
-- A commit's place under 63 bits of its id; the log row tells whether it is the one (the next slot if not).
CREATE TABLE commit_ix (
  slot INTEGER PRIMARY KEY,
  k    INTEGER NOT NULL
) STRICT;

CREATE TABLE origin_ix (
  s          INTEGER NOT NULL,
  kind       TEXT NOT NULL,
  source     TEXT NOT NULL,
  foreign_id TEXT NOT NULL,
  attempt    INTEGER NOT NULL,
  seq        INTEGER NOT NULL,
  PRIMARY KEY (s, kind, source, foreign_id, attempt)
) STRICT, WITHOUT ROWID;

CREATE TABLE turn_ix (
  s      INTEGER NOT NULL,
  turn   INTEGER NOT NULL,
  first  INTEGER NOT NULL,
  last   INTEGER NOT NULL,
  at     INTEGER NOT NULL,
  status TEXT NOT NULL,
  PRIMARY KEY (s, turn)
) STRICT, WITHOUT ROWID;

-- Puts (op 1) and drops (op 0). key is a digest of the natural key; body is NULL where the record is read from the log.
CREATE TABLE rec (
  s    INTEGER NOT NULL,
  c    INTEGER NOT NULL,
  seq  INTEGER NOT NULL,
  n    INTEGER NOT NULL,
  op   INTEGER NOT NULL,
  was  INTEGER NOT NULL,
  turn INTEGER NOT NULL,
  id   ANY NOT NULL,
  key  INTEGER,
  body BLOB,
  PRIMARY KEY (s, c, seq, n)
) STRICT, WITHOUT ROWID;
CREATE INDEX rec_key ON rec (c, key, s, seq) WHERE key IS NOT NULL;

-- Up to which seqs tails were written here, one after the other.
CREATE TABLE flush_ix (
  s   INTEGER NOT NULL,
  seq INTEGER NOT NULL,
  PRIMARY KEY (s, seq)
) STRICT, WITHOUT ROWID;

-- Which versions were live at a seq, so that old state needs no walk to the beginning.
CREATE TABLE snap (
  s    INTEGER NOT NULL,
  c    INTEGER NOT NULL,
  seq  INTEGER NOT NULL,
  live BLOB NOT NULL,
  PRIMARY KEY (s, c, seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE call_ix (
  s       INTEGER NOT NULL,
  seq     INTEGER NOT NULL,
  call    BLOB NOT NULL,
  tool    TEXT NOT NULL,
  effect  TEXT NOT NULL,
  status  TEXT NOT NULL,
  cause   TEXT NOT NULL,
  attempt INTEGER NOT NULL,
  outcome INTEGER NOT NULL,
  turn    INTEGER NOT NULL,
  at      INTEGER NOT NULL,
  PRIMARY KEY (s, seq)
) STRICT, WITHOUT ROWID;
CREATE INDEX call_failed ON call_ix (s, seq) WHERE status <> 'ok';
