-- The views of `stator sql`, made on the connection that reads the store and nowhere else. A query never names them: it
-- sees tables of the same names on a connection of its own, which ask here (store/sqlite/sandbox/views.py).
-- Columns that a query does not see give a row its key: s, k, c, n.
-- A cost is one that was recorded; what prices make of usage comes with the query (store/sandbox/shown_costs.py).
-- A record that the index does not hold is read from the log. A query cannot hold a text of more than 16 MiB: instead of
-- such a record it reads how long it is.

CREATE TEMP VIEW records AS
  SELECT s, c, n, 's_' || lower(hex(session.id)) AS session, collection_name(c) AS collection, seq,
         turn, CASE op WHEN 1 THEN 'put' ELSE 'drop' END AS op, record_id(rec.id) AS id,
         CASE WHEN op != 1 THEN NULL
              WHEN length(rec.body) > 16777216 THEN json_object('type', 'cut', 'bytes', length(rec.body))
              WHEN rec.body IS NOT NULL THEN CAST(rec.body AS TEXT)
              ELSE (SELECT put_text(log.body, n) FROM log WHERE log.k = (s << 40) + seq) END AS record
  FROM rec JOIN session USING (s);

CREATE TEMP VIEW files AS
  SELECT s, c, n, session, seq, turn, id, record ->> 'path' AS path, record ->> 'op' AS op,
         record ->> 'before' AS before, record ->> 'after' AS after
  FROM records WHERE c = collection_number('files') AND op = 'put' AND record IS NOT NULL;

CREATE TEMP VIEW decisions AS
  SELECT s, c, n, session, seq, turn, id, record ->> 'topic' AS topic, record ->> 'what' AS what,
         record ->> 'why' AS why, record ->> 'supersedes' AS supersedes
  FROM records WHERE c = collection_number('decisions') AND op = 'put' AND record IS NOT NULL;

-- The last put or drop of each record; with max(), SQLite takes the other columns from the same row.
CREATE TEMP VIEW newest AS
  SELECT s, c, rec.id AS rid, max(seq) AS seq, n, op, turn, body FROM rec GROUP BY s, c, rec.id;

CREATE TEMP VIEW state AS
  SELECT s, c, n, 's_' || lower(hex(session.id)) AS session, project, collection_name(c) AS collection,
         seq, turn, record_id(rid) AS id,
         CASE WHEN length(body) > 16777216 THEN json_object('type', 'cut', 'bytes', length(body))
              WHEN body IS NOT NULL THEN CAST(body AS TEXT)
              ELSE (SELECT put_text(log.body, n) FROM log WHERE log.k = (s << 40) + seq) END AS record
  FROM newest JOIN session USING (s) WHERE op = 1;

CREATE TEMP VIEW revisions AS
  SELECT s, c, n, session, seq, turn, id, record ->> 'sha' AS sha, record ->> 'subject' AS subject,
         record ->> 'branch' AS branch, record ->> 'pushed' AS pushed
  FROM state WHERE c = collection_number('revisions');

CREATE TEMP VIEW spend AS
  SELECT s, session, record ->> 'unit' AS unit, record ->> 'amount' AS amount
  FROM state WHERE c = collection_number('spend');

CREATE TEMP VIEW sessions AS
  SELECT s, 's_' || lower(hex(id)) AS id, name, project, agent, mode, status, created, updated,
         (SELECT count(*) FROM turn_ix WHERE turn_ix.s = session.s) AS turns,
         (SELECT amount - coalesce((SELECT amount FROM temp.spend
                                    WHERE spend.s = session.s AND unit = 'tokens:cache_read'), 0)
          FROM temp.spend WHERE spend.s = session.s AND unit = 'tokens') AS tokens,
         (SELECT amount FROM temp.spend
          WHERE spend.s = session.s AND unit = 'tokens:cache_read') AS cached,
         (SELECT amount / 1000000.0 FROM temp.spend
          WHERE spend.s = session.s AND unit = 'money:usd') AS cost_usd, 0 AS cost_computed,
         (SELECT commit_content(log.body, 'prompt') FROM log WHERE log.k =
          (SELECT (turn_ix.s << 40) + first FROM turn_ix WHERE turn_ix.s = session.s
           ORDER BY turn LIMIT 1)) AS asked
  FROM session;

CREATE TEMP VIEW commits AS
  SELECT k, 's_' || lower(hex(session.id)) AS session, k & 1099511627775 AS seq,
         'k_' || lower(hex(log.id)) AS id, lower(hex(hash)) AS hash,
         commit_field(body, 'kind') AS kind, commit_field(body, 'turn') AS turn,
         commit_field(body, 'at') AS at, commit_field(body, 'actor') AS actor,
         commit_field(body, 'tool') AS tool, commit_field(body, 'status') AS status,
         commit_field(body, 'effect') AS effect, commit_field(body, 'cause') AS cause,
         commit_field(body, 'happened') AS happened, commit_content(body, 'text') AS text,
         commit_content(body, 'input') AS input, commit_content(body, 'output') AS output,
         commit_content(body, 'input_hash') AS input_hash,
         commit_content(body, 'output_summary') AS summary, commit_content(body, 'why') AS why,
         commit_used(body, 'tokens') - coalesce(commit_used(body, 'cached'), 0) AS tokens,
         commit_used(body, 'cached') AS cached, commit_used(body, 'cost') AS cost_usd, 0 AS cost_computed
  FROM log JOIN session ON session.s = k >> 40;

-- The sums of a turn are over its own commits; a sum of nothing is NULL, so that unknown is not 0.
CREATE TEMP VIEW turns AS
  SELECT s, 's_' || lower(hex(session.id)) AS session, turn, first, last, at,
         CASE turn_ix.status WHEN '-' THEN '' ELSE turn_ix.status END AS status,
         (SELECT commit_field(body, 'happened') FROM log WHERE k = (s << 40) + first) AS happened,
         (SELECT commit_field(body, 'happened') FROM log WHERE k = (s << 40) + last) AS ended,
         (SELECT commit_content(body, 'prompt') FROM log WHERE k = (s << 40) + first) AS prompt,
         (SELECT count(*) FROM call_ix
          WHERE call_ix.s = turn_ix.s AND seq BETWEEN first AND last) AS calls,
         (SELECT count(*) FROM call_ix WHERE call_ix.s = turn_ix.s AND seq BETWEEN first AND last
          AND call_ix.status NOT IN ('ok', 'started')) AS failed,
         (SELECT sum(commit_used(body, 'tokens') - coalesce(commit_used(body, 'cached'), 0))
          FROM log WHERE k BETWEEN (s << 40) + first AND (s << 40) + last) AS tokens,
         (SELECT sum(commit_used(body, 'cached'))
          FROM log WHERE k BETWEEN (s << 40) + first AND (s << 40) + last) AS cached,
         (SELECT sum(commit_used(body, 'cost'))
          FROM log WHERE k BETWEEN (s << 40) + first AND (s << 40) + last) AS cost_usd,
         0 AS cost_computed
  FROM turn_ix JOIN session USING (s);

CREATE TEMP VIEW calls AS
  SELECT s, 's_' || lower(hex(session.id)) AS session, seq, 'c_' || lower(hex(call)) AS call, tool,
         effect, call_ix.status, call_ix.status AS recorded, cause, attempt, outcome, turn, at,
         (SELECT commit_field(body, 'happened') FROM log WHERE k = (s << 40) + seq) AS happened,
         (SELECT commit_field(body, 'happened') FROM log
          WHERE outcome > 0 AND k = (s << 40) + outcome)
           - (SELECT commit_field(body, 'happened') FROM log WHERE k = (s << 40) + seq) AS took,
         (SELECT commit_content(body, 'input') FROM log WHERE k = (s << 40) + seq) AS input,
         (SELECT commit_content(body, 'input_hash') FROM log WHERE k = (s << 40) + seq) AS input_hash,
         (SELECT commit_content(body, 'output') FROM log
          WHERE outcome > 0 AND k = (s << 40) + outcome) AS output,
         (SELECT commit_content(body, 'output_summary') FROM log
          WHERE outcome > 0 AND k = (s << 40) + outcome) AS summary,
         (SELECT commit_content(body, 'why') FROM log WHERE k = (s << 40) + seq) AS why
  FROM call_ix JOIN session USING (s);
