-- Four roles of a PostgreSQL store, which `prepare(url, roles=True)` makes: groups without a login, for logins to be
-- members of one each. None owns a table or is above row-level security; each sees the tenant that its transaction names.

-- name: make_counts
CREATE ROLE stator_counts NOLOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOBYPASSRLS;

-- name: make_read
CREATE ROLE stator_read NOLOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOBYPASSRLS;

-- name: make_approve
CREATE ROLE stator_approve NOLOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOBYPASSRLS;

-- name: make_drive
CREATE ROLE stator_drive NOLOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOBYPASSRLS;

-- name: there
SELECT rolname FROM pg_roles WHERE rolname IN ('stator_counts', 'stator_read', 'stator_approve', 'stator_drive');

-- name: grants
REVOKE ALL ON ALL TABLES IN SCHEMA stator FROM stator_counts, stator_read, stator_approve, stator_drive;
REVOKE ALL ON ALL SEQUENCES IN SCHEMA stator FROM stator_counts, stator_read, stator_approve, stator_drive;
GRANT USAGE ON SCHEMA stator TO stator_counts, stator_read, stator_approve, stator_drive;

-- Numbers: the columns that the view needs, and none that says what a session is called or holds.
CREATE OR REPLACE VIEW stator.counts WITH (security_invoker = true, security_barrier = true) AS
  SELECT t, project, agent, DATE '1970-01-01' + least(greatest(created / 86400000000, 0), 2932896)::integer AS day,
         count(*) AS sessions, sum(turns)::bigint AS turns, sum(calls)::bigint AS calls, sum(failed)::bigint AS failures,
         sum(tokens)::bigint AS tokens, sum(content_bytes)::bigint AS bytes
  FROM stator.session WHERE t = nullif(current_setting('stator.t', true), '')::bigint AND mode <> 'project'
  GROUP BY 1, 2, 3, 4;
GRANT SELECT ON stator.counts TO stator_counts;
GRANT SELECT (t, project, agent, mode, created, turns, calls, failed, tokens, content_bytes) ON stator.session
  TO stator_counts;
GRANT SELECT (name, t) ON stator.tenant TO stator_counts;

GRANT SELECT ON ALL TABLES IN SCHEMA stator TO stator_read, stator_approve, stator_drive;

-- Rows of the log and what follows from them; not who drives, what a session is, or that something is gone.
GRANT INSERT ON stator.log, stator.rec, stator.blob, stator.blob_use TO stator_approve;
GRANT UPDATE (head, hash, turn, turn_open, updated, seen, commits, turns, calls, failed, tokens, content_bytes)
  ON stator.session TO stator_approve;
GRANT UPDATE (ended, span) ON stator.rec TO stator_approve;
GRANT UPDATE (size) ON stator.blob TO stator_approve;
DROP POLICY IF EXISTS approves ON stator.log;
CREATE POLICY approves ON stator.log AS RESTRICTIVE FOR INSERT TO stator_approve
  WITH CHECK (kind IN ('approval', 'settlement', 'candidate', 'check'));

GRANT INSERT, UPDATE, DELETE ON stator.tenant, stator.session, stator.alias, stator.log, stator.blob, stator.blob_use,
  stator.rec, stator.turn_key, stator.bookmark, stator.process TO stator_drive;
GRANT USAGE ON ALL SEQUENCES IN SCHEMA stator TO stator_drive;
