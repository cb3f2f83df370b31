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
CREATE TABLE commit_ix (
  id BLOB PRIMARY KEY,
  k  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

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

-- Every put (op 1) and drop (op 0). body is NULL where the record is read from the log.
CREATE TABLE rec (
  s    INTEGER NOT NULL,
  c    INTEGER NOT NULL,
  seq  INTEGER NOT NULL,
  n    INTEGER NOT NULL,
  op   INTEGER NOT NULL,
  was  INTEGER NOT NULL,
  turn INTEGER NOT NULL,
  id   TEXT NOT NULL,
  key  TEXT,
  body BLOB,
  PRIMARY KEY (s, c, seq, n)
) STRICT, WITHOUT ROWID;
CREATE INDEX rec_key ON rec (c, key, s, seq) WHERE key IS NOT NULL;

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

-- Documented views for `stator sql`.
CREATE VIEW sessions AS
  SELECT 's_' || lower(hex(id)) AS id, name, project, agent, mode, status, created, updated
  FROM session;
CREATE VIEW turns AS
  SELECT 's_' || lower(hex(session.id)) AS session, turn, first, last, at, turn_ix.status
  FROM turn_ix JOIN session USING (s);
CREATE VIEW calls AS
  SELECT 's_' || lower(hex(session.id)) AS session, seq, 'c_' || lower(hex(call)) AS call, tool,
         effect, call_ix.status, cause, attempt, outcome, turn, at
  FROM call_ix JOIN session USING (s);
CREATE VIEW records AS
  SELECT 's_' || lower(hex(session.id)) AS session,
         CASE c WHEN 1 THEN 'session' WHEN 2 THEN 'tags' WHEN 3 THEN 'runs' WHEN 4 THEN 'children'
                WHEN 5 THEN 'tools' WHEN 6 THEN 'files' WHEN 7 THEN 'decisions' WHEN 8 THEN 'pending'
                WHEN 9 THEN 'calls' WHEN 10 THEN 'plan' WHEN 11 THEN 'facts' WHEN 12 THEN 'preferences'
                WHEN 13 THEN 'dead_ends' WHEN 14 THEN 'artifacts' WHEN 15 THEN 'working_set'
                WHEN 16 THEN 'approvals' WHEN 17 THEN 'spend' WHEN 18 THEN 'scores'
                WHEN 19 THEN 'evicted' WHEN 20 THEN 'flags' WHEN 21 THEN 'scratch' WHEN 22 THEN 'app'
         END AS collection,
         seq, n, CASE op WHEN 1 THEN 'put' ELSE 'drop' END AS op, was, turn, rec.id, key,
         CAST(body AS TEXT) AS record
  FROM rec JOIN session USING (s);
CREATE VIEW files AS
  SELECT session, seq, turn, key AS path, record ->> 'op' AS op, record ->> 'before' AS before,
         record ->> 'after' AS after
  FROM records WHERE collection = 'files' AND op = 'put';
CREATE VIEW decisions AS
  SELECT session, seq, turn, id, record ->> 'topic' AS topic, record ->> 'what' AS what,
         record ->> 'why' AS why, record ->> 'supersedes' AS supersedes
  FROM records WHERE collection = 'decisions' AND op = 'put';
