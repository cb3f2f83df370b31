-- The views of `stator sql`, made on the connection that reads the store and nowhere else. A query never names them: it
-- sees tables of the same names on a connection of its own, which ask here (store/sqlite/sandbox/views.py).
-- Columns that a query does not see give a row its key: s, k, c, n.

CREATE TEMP VIEW sessions AS
  SELECT s, 's_' || lower(hex(id)) AS id, name, project, agent, mode, status, created, updated
  FROM session;

CREATE TEMP VIEW commits AS
  SELECT k, 's_' || lower(hex(session.id)) AS session, k & 1099511627775 AS seq,
         'k_' || lower(hex(log.id)) AS id, lower(hex(hash)) AS hash,
         commit_field(body, 'kind') AS kind, commit_field(body, 'turn') AS turn,
         commit_field(body, 'at') AS at, commit_field(body, 'actor') AS actor,
         commit_field(body, 'tool') AS tool, commit_field(body, 'status') AS status,
         commit_field(body, 'effect') AS effect, commit_field(body, 'cause') AS cause
  FROM log JOIN session ON session.s = k >> 40;

CREATE TEMP VIEW turns AS
  SELECT s, 's_' || lower(hex(session.id)) AS session, turn, first, last, at,
         CASE turn_ix.status WHEN '-' THEN '' ELSE turn_ix.status END AS status
  FROM turn_ix JOIN session USING (s);

CREATE TEMP VIEW calls AS
  SELECT s, 's_' || lower(hex(session.id)) AS session, seq, 'c_' || lower(hex(call)) AS call, tool,
         effect, call_ix.status, cause, attempt, outcome, turn, at
  FROM call_ix JOIN session USING (s);

-- What a record held at each put; of a record put several times in a row, the last put carries its content.
-- A query cannot hold a text of more than 16 MiB: instead of such a record it reads how long it is.
CREATE TEMP VIEW records AS
  SELECT s, c, n, 's_' || lower(hex(session.id)) AS session, collection_name(c) AS collection, seq,
         turn, CASE op WHEN 1 THEN 'put' ELSE 'drop' END AS op, record_id(rec.id) AS id,
         CASE WHEN length(body) > 16777216 THEN json_object('type', 'cut', 'bytes', length(body))
              ELSE CAST(body AS TEXT) END AS record
  FROM rec JOIN session USING (s);

CREATE TEMP VIEW files AS
  SELECT s, c, n, session, seq, turn, id, record ->> 'path' AS path, record ->> 'op' AS op,
         record ->> 'before' AS before, record ->> 'after' AS after
  FROM records WHERE c = collection_number('files') AND op = 'put' AND record IS NOT NULL;

CREATE TEMP VIEW decisions AS
  SELECT s, c, n, session, seq, turn, id, record ->> 'topic' AS topic, record ->> 'what' AS what,
         record ->> 'why' AS why, record ->> 'supersedes' AS supersedes
  FROM records WHERE c = collection_number('decisions') AND op = 'put' AND record IS NOT NULL;
