-- Schema 1 of the PostgreSQL store. Additive only: a later file may add tables, columns with defaults and indexes.
--
-- Every primary and unique key begins with t, the number of the tenant; row-level security shows each connection the
-- rows of its own. Text that an index holds is held as a digest: an entry of an index has a limit, a key of ours has not.
-- Nothing that every append changes is indexed, so that a session's row is updated in place (HOT): listings go by `seen`.

CREATE SEQUENCE stator.tenant_number;
CREATE SEQUENCE stator.session_number;

CREATE TABLE stator.tenant (
  name   bytea  NOT NULL PRIMARY KEY,
  t      bigint NOT NULL,
  id     bytea  NOT NULL,
  secret bytea  NOT NULL,
  epoch  bigint NOT NULL DEFAULT 0
);

-- The log of a session is that of its parts: those it was forked from, and the last one, its own.
CREATE TABLE stator.session (
  t             bigint   NOT NULL,
  s             bigint   NOT NULL,
  id            bytea    NOT NULL,
  called        bytea    NOT NULL, -- digest of tenant, project and name
  project       text     NOT NULL,
  name          text     NOT NULL,
  agent         text     NOT NULL,
  mode          text     NOT NULL,
  status        text     NOT NULL,
  tenant        text     NOT NULL,
  parent        bytea,
  created       bigint   NOT NULL,
  record        bytea    NOT NULL,
  part_s        bigint[] NOT NULL,
  part_after    bigint[] NOT NULL,
  part_upto     bigint[] NOT NULL,
  low           bigint   NOT NULL,
  base          bytea    NOT NULL, -- the hash that its first commit continues
  head          bigint   NOT NULL,
  hash          bytea    NOT NULL,
  turn          bigint   NOT NULL,
  turn_open     boolean  NOT NULL,
  updated       bigint   NOT NULL,
  seen          bigint   NOT NULL, -- `updated`, at most a minute earlier
  project_mark  bytea    NOT NULL, -- digest
  name_mark     bytea    NOT NULL, -- digest
  epoch         bigint   NOT NULL DEFAULT 0,
  holder        bytea,
  process       bytea,
  commits       bigint   NOT NULL DEFAULT 0,
  turns         bigint   NOT NULL DEFAULT 0,
  calls         bigint   NOT NULL DEFAULT 0,
  failed        bigint   NOT NULL DEFAULT 0,
  tokens        bigint   NOT NULL DEFAULT 0, -- as reported; erasing the report does not change it
  content_bytes bigint   NOT NULL DEFAULT 0,
  PRIMARY KEY (t, s)
) WITH (fillfactor = 50);
CREATE UNIQUE INDEX session_id ON stator.session (t, id);
CREATE UNIQUE INDEX session_called ON stator.session (t, called);
CREATE INDEX session_seen ON stator.session (t, seen);
CREATE INDEX session_project ON stator.session (t, project_mark, seen);
CREATE INDEX session_name ON stator.session (t, name_mark);
CREATE INDEX session_parent ON stator.session (t, parent) WHERE parent IS NOT NULL;

CREATE TABLE stator.alias (
  t     bigint NOT NULL,
  alias bytea  NOT NULL, -- digest of source and id
  s     bigint NOT NULL,
  PRIMARY KEY (t, alias, s)
);

-- The truth: a commit as `store/rows.py` lays it out, and what queries look for beside it.
CREATE TABLE stator.log (
  t       bigint NOT NULL,
  s       bigint NOT NULL,
  seq     bigint NOT NULL,
  id      bytea  NOT NULL,
  hash    bytea  NOT NULL,
  salts   bytea  NOT NULL,
  kind    text   NOT NULL,
  turn    bigint NOT NULL,
  at      bigint NOT NULL,
  body    bytea  NOT NULL,
  status  text,
  call    bytea,
  tool    text,
  effect  text,
  cause   text,
  attempt bigint,
  origin  bytea, -- digest of source and id
  PRIMARY KEY (t, s, seq)
);
ALTER TABLE stator.log ALTER COLUMN body SET STORAGE EXTERNAL;
CREATE UNIQUE INDEX log_id ON stator.log (t, id);
CREATE INDEX log_call ON stator.log (t, s, call, seq) WHERE call IS NOT NULL;
CREATE INDEX log_intent ON stator.log (t, s, seq) WHERE kind = 'call';
CREATE INDEX log_turn ON stator.log (t, s, turn, seq) WHERE kind IN ('turn', 'turn_end');
CREATE INDEX log_origin ON stator.log (t, s, origin) WHERE origin IS NOT NULL;

CREATE TABLE stator.blob (
  t      bigint NOT NULL,
  digest bytea  NOT NULL, -- keyed by the tenant's secret
  size   bigint NOT NULL,
  data   bytea  NOT NULL,
  PRIMARY KEY (t, digest)
);
ALTER TABLE stator.blob ALTER COLUMN data SET STORAGE EXTERNAL;

-- Which commits need a blob; `put`: for a record, and not only for what was said.
CREATE TABLE stator.blob_use (
  t      bigint  NOT NULL,
  s      bigint  NOT NULL,
  seq    bigint  NOT NULL,
  digest bytea   NOT NULL,
  put    boolean NOT NULL,
  PRIMARY KEY (t, s, seq, digest)
);
CREATE INDEX blob_use_digest ON stator.blob_use (t, digest);

-- Versions of records: what a commit put or dropped, in force from `seq` until before `ended`. Content is in the log.
-- `span` is how many binary digits `ended - seq` has, and 63 while it is in force. What was in force at a seq is found
-- by it: of those with k digits, only what began less than 2^k before, so that no more than twice as much is looked at.
CREATE TABLE stator.rec (
  t     bigint  NOT NULL,
  s     bigint  NOT NULL,
  c     text    NOT NULL, -- the collection
  id    text    NOT NULL,
  seq   bigint  NOT NULL,
  n     integer NOT NULL,
  span  smallint NOT NULL,
  put   boolean NOT NULL,
  was   bigint  NOT NULL,
  turn  bigint  NOT NULL,
  ended bigint  NOT NULL,
  mark  bytea   NOT NULL, -- digest of the key
  key   text    NOT NULL,
  PRIMARY KEY (t, s, c, id, seq, n)
);
CREATE INDEX rec_span ON stator.rec (t, s, c, span, seq, n);
CREATE INDEX rec_seq ON stator.rec (t, s, seq);
CREATE INDEX rec_mark ON stator.rec (t, c, mark, s);

CREATE TABLE stator.turn_key (
  t     bigint NOT NULL,
  s     bigint NOT NULL,
  batch text   NOT NULL,
  name  text   NOT NULL,
  seq   bigint NOT NULL,
  PRIMARY KEY (t, s, batch, name, seq)
);

CREATE TABLE stator.bookmark (
  t      bigint NOT NULL,
  s      bigint NOT NULL,
  name   bytea  NOT NULL, -- digest
  number bigint NOT NULL,
  value  bytea  NOT NULL,
  PRIMARY KEY (t, s, name)
);

-- A sign of life of each process that drives sessions.
CREATE TABLE stator.process (
  t     bigint NOT NULL,
  id    bytea  NOT NULL,
  beats bigint NOT NULL,
  PRIMARY KEY (t, id)
) WITH (fillfactor = 50);

ALTER TABLE stator.tenant   ENABLE ROW LEVEL SECURITY;
ALTER TABLE stator.session  ENABLE ROW LEVEL SECURITY;
ALTER TABLE stator.alias    ENABLE ROW LEVEL SECURITY;
ALTER TABLE stator.log      ENABLE ROW LEVEL SECURITY;
ALTER TABLE stator.blob     ENABLE ROW LEVEL SECURITY;
ALTER TABLE stator.blob_use ENABLE ROW LEVEL SECURITY;
ALTER TABLE stator.rec      ENABLE ROW LEVEL SECURITY;
ALTER TABLE stator.turn_key ENABLE ROW LEVEL SECURITY;
ALTER TABLE stator.bookmark ENABLE ROW LEVEL SECURITY;
ALTER TABLE stator.process  ENABLE ROW LEVEL SECURITY;
ALTER TABLE stator.tenant   FORCE ROW LEVEL SECURITY;
ALTER TABLE stator.session  FORCE ROW LEVEL SECURITY;
ALTER TABLE stator.alias    FORCE ROW LEVEL SECURITY;
ALTER TABLE stator.log      FORCE ROW LEVEL SECURITY;
ALTER TABLE stator.blob     FORCE ROW LEVEL SECURITY;
ALTER TABLE stator.blob_use FORCE ROW LEVEL SECURITY;
ALTER TABLE stator.rec      FORCE ROW LEVEL SECURITY;
ALTER TABLE stator.turn_key FORCE ROW LEVEL SECURITY;
ALTER TABLE stator.bookmark FORCE ROW LEVEL SECURITY;
ALTER TABLE stator.process  FORCE ROW LEVEL SECURITY;

CREATE POLICY tenant   ON stator.tenant   USING (encode(name, 'hex') = current_setting('stator.tenant', true));
CREATE POLICY tenant   ON stator.session  USING (t = nullif(current_setting('stator.t', true), '')::bigint);
CREATE POLICY tenant   ON stator.alias    USING (t = nullif(current_setting('stator.t', true), '')::bigint);
CREATE POLICY tenant   ON stator.log      USING (t = nullif(current_setting('stator.t', true), '')::bigint);
CREATE POLICY tenant   ON stator.blob     USING (t = nullif(current_setting('stator.t', true), '')::bigint);
CREATE POLICY tenant   ON stator.blob_use USING (t = nullif(current_setting('stator.t', true), '')::bigint);
CREATE POLICY tenant   ON stator.rec      USING (t = nullif(current_setting('stator.t', true), '')::bigint);
CREATE POLICY tenant   ON stator.turn_key USING (t = nullif(current_setting('stator.t', true), '')::bigint);
CREATE POLICY tenant   ON stator.bookmark USING (t = nullif(current_setting('stator.t', true), '')::bigint);
CREATE POLICY tenant   ON stator.process  USING (t = nullif(current_setting('stator.t', true), '')::bigint);
