-- Statements of the PostgreSQL store, by name. Each names its tenant (t) although row-level security does too: a role above
-- that reads rightly as well. Only what PostgreSQL's relatives have as well; tests/postgres/test_sql_lint.py
-- lists what must not appear here.

-- name: settings
SELECT set_config('stator.tenant', %(tenant)s, true), set_config('stator.t', %(t)s, true), pg_backend_pid(),
  set_config('client_min_messages', 'warning', true),
  set_config('synchronous_commit', CASE current_setting('synchronous_commit')
    WHEN 'remote_apply' THEN 'remote_apply' ELSE 'on' END, true);

-- name: not_durable
SET LOCAL synchronous_commit = off;

-- A transaction without a change writes nothing that a commit could wait for.
-- name: sync
UPDATE stator.tenant SET id = id WHERE t = %(t)s;

-- ── schema and tenants ──────────────────────────────────────────────────────────────────────────

-- name: tenant_find
SELECT t, id, secret FROM stator.tenant WHERE name = %(name)s;

-- name: tenant_number
SELECT t FROM stator.tenant WHERE name = %(name)s;

-- Whether the role may add sessions, and whether it may append.
-- name: right
SELECT has_table_privilege('stator.session', 'INSERT'), has_table_privilege('stator.log', 'INSERT');

-- name: counts
SELECT project, agent, day::text, sessions, turns, calls, failures, tokens, bytes FROM stator.counts
WHERE t = %(t)s ORDER BY day, project, agent;

-- name: tenant_insert
INSERT INTO stator.tenant (name, t, id, secret)
VALUES (%(name)s, nextval('stator.tenant_number'), %(id)s, %(secret)s)
ON CONFLICT (name) DO NOTHING;

-- name: schema_version
SELECT version FROM stator.schema WHERE one = 1;

-- ── sessions ────────────────────────────────────────────────────────────────────────────────────

-- name: session_by_id
SELECT x.s, x.id, x.record, x.epoch, x.holder, p.beats, x.head, x.hash, x.turn, x.turn_open, x.updated, x.low,
       x.part_s, x.part_after, x.part_upto, x.commits, x.turns, x.calls, x.failed, x.content_bytes
FROM stator.session x LEFT JOIN stator.process p ON p.t = x.t AND p.id = x.process
WHERE x.t = %(t)s AND x.id = %(session)s;

-- The same, and nobody changes it until the transaction ends.
-- name: session_lock
SELECT x.s, x.id, x.record, x.epoch, x.holder, p.beats, x.head, x.hash, x.turn, x.turn_open, x.updated, x.low,
       x.part_s, x.part_after, x.part_upto, x.commits, x.turns, x.calls, x.failed, x.content_bytes
FROM stator.session x LEFT JOIN stator.process p ON p.t = x.t AND p.id = x.process
WHERE x.t = %(t)s AND x.id = %(session)s
FOR UPDATE OF x;

-- name: session_by_name
SELECT x.s, x.id, x.record, x.epoch, x.holder, p.beats, x.head, x.hash, x.turn, x.turn_open, x.updated, x.low,
       x.part_s, x.part_after, x.part_upto, x.commits, x.turns, x.calls, x.failed, x.content_bytes
FROM stator.session x LEFT JOIN stator.process p ON p.t = x.t AND p.id = x.process
WHERE x.t = %(t)s AND x.called = %(called)s;

-- Where a new session's log comes from: its ancestors, and the hash at the end of what each lends. They are not purged
-- until the transaction ends.
-- name: ancestors
SELECT x.id, x.s, l.hash, l.turn
FROM unnest(%(sessions)s::bytea[], %(uptos)s::bigint[]) AS w(id, upto)
JOIN stator.session x ON x.t = %(t)s AND x.id = w.id
LEFT JOIN stator.log l ON l.t = x.t AND l.s = x.s AND l.seq = w.upto
FOR KEY SHARE OF x;

-- Whether the turn is open in which a fork begins.
-- name: last_mark
SELECT l.kind, l.turn
FROM unnest(%(part_s)s::bigint[], %(part_after)s::bigint[], %(part_upto)s::bigint[]) AS g(s, after, upto)
JOIN stator.log l ON l.t = %(t)s AND l.s = g.s AND l.seq > g.after AND l.seq <= g.upto
WHERE l.kind IN ('turn', 'turn_end') AND l.turn = %(turn)s
ORDER BY l.seq DESC LIMIT 1;

-- name: next_session
SELECT nextval('stator.session_number');

-- name: session_insert
INSERT INTO stator.session (t, s, id, called, project, name, agent, mode, status, tenant, parent, created, record,
                            part_s, part_after, part_upto, low, base, head, hash, turn, turn_open, updated, seen, project_mark,
                            name_mark)
VALUES (%(t)s, %(s)s, %(id)s, %(called)s, %(project)s, %(name)s, %(agent)s, %(mode)s, %(status)s, %(tenant)s,
        %(parent)s, %(created)s, %(record)s, %(part_s)s, %(part_after)s, %(part_upto)s, %(low)s, %(base)s, %(low)s,
        %(base)s, %(turn)s, %(turn_open)s, %(created)s, %(created)s, %(project_mark)s, %(name_mark)s);

-- name: session_record
UPDATE stator.session
SET called = %(called)s, project = %(project)s, name = %(name)s, agent = %(agent)s, status = %(status)s, record = %(record)s,
    project_mark = %(project_mark)s, name_mark = %(name_mark)s
WHERE t = %(t)s AND s = %(s)s AND hash = %(hash)s;

-- name: alias_delete
DELETE FROM stator.alias WHERE t = %(t)s AND s = %(s)s;

-- name: alias_insert
INSERT INTO stator.alias (t, alias, s)
SELECT %(t)s, w.alias, %(s)s FROM unnest(%(aliases)s::bytea[]) AS w(alias)
ON CONFLICT DO NOTHING;

-- Sessions by `updated`, which no index holds, through `seen`, which is at most a minute (`grain`) earlier: as many as are
-- asked for were used at `edge` or later, so that no session is on the page that was seen a minute before that.
-- name: session_page
WITH edge AS (
  SELECT x.seen FROM stator.session x
  WHERE x.t = %(t)s
    AND (%(name_mark)s::bytea IS NULL OR x.name_mark = %(name_mark)s)
    AND (%(project_mark)s::bytea IS NULL OR x.project_mark = %(project_mark)s)
    AND (%(tenant)s::text IS NULL OR x.tenant = %(tenant)s)
    AND (%(agent)s::text IS NULL OR x.agent = %(agent)s)
    AND (%(status)s::text IS NULL OR x.status = %(status)s)
    AND (%(mode)s::text IS NULL OR x.mode = %(mode)s)
    AND (%(parent)s::bytea IS NULL OR x.parent = %(parent)s)
    AND (%(suffix)s::text IS NULL OR right('s_' || encode(x.id, 'hex'), length(%(suffix)s)) = %(suffix)s)
    AND (%(alias)s::bytea IS NULL OR x.s IN (SELECT a.s FROM stator.alias a WHERE a.t = %(t)s AND a.alias = %(alias)s))
    AND (%(holds)s::text IS NULL OR EXISTS (
      SELECT 1 FROM stator.rec r WHERE r.t = %(t)s AND r.s = ANY(x.part_s) AND r.c = %(holds)s))
    AND (%(before)s::bigint IS NULL OR (x.updated, x.s) < (%(before)s::bigint, %(before_s)s::bigint))
    AND x.seen <= %(newest)s
  ORDER BY x.seen DESC LIMIT 1 OFFSET %(limit)s - 1
)
SELECT x.s, x.id, x.record, x.epoch, x.holder, p.beats, x.head, x.hash, x.turn, x.turn_open, x.updated, x.low,
       x.part_s, x.part_after, x.part_upto, x.commits, x.turns, x.calls, x.failed, x.content_bytes
FROM stator.session x LEFT JOIN stator.process p ON p.t = x.t AND p.id = x.process
WHERE x.t = %(t)s
  AND (%(name_mark)s::bytea IS NULL OR x.name_mark = %(name_mark)s)
  AND (%(project_mark)s::bytea IS NULL OR x.project_mark = %(project_mark)s)
  AND (%(tenant)s::text IS NULL OR x.tenant = %(tenant)s)
  AND (%(agent)s::text IS NULL OR x.agent = %(agent)s)
  AND (%(status)s::text IS NULL OR x.status = %(status)s)
  AND (%(mode)s::text IS NULL OR x.mode = %(mode)s)
  AND (%(parent)s::bytea IS NULL OR x.parent = %(parent)s)
  AND (%(suffix)s::text IS NULL OR right('s_' || encode(x.id, 'hex'), length(%(suffix)s)) = %(suffix)s)
  AND (%(alias)s::bytea IS NULL OR x.s IN (SELECT a.s FROM stator.alias a WHERE a.t = %(t)s AND a.alias = %(alias)s))
  AND (%(holds)s::text IS NULL OR EXISTS (
    SELECT 1 FROM stator.rec r WHERE r.t = %(t)s AND r.s = ANY(x.part_s) AND r.c = %(holds)s))
  AND (%(before)s::bigint IS NULL OR (x.updated, x.s) < (%(before)s::bigint, %(before_s)s::bigint))
  AND x.seen <= %(newest)s
  AND x.seen > coalesce((SELECT edge.seen FROM edge), 0) - %(grain)s
ORDER BY x.updated DESC, x.s DESC LIMIT %(limit)s;

-- name: heads
SELECT id, head FROM stator.session
WHERE t = %(t)s AND (%(others)s OR id = ANY(%(ids)s::bytea[])) AND (%(project)s::text IS NULL OR project = %(project)s)
ORDER BY s;

-- name: heirs
SELECT id, s FROM stator.session WHERE t = %(t)s AND parent IS NOT NULL AND s <> %(s)s AND %(s)s = ANY(part_s);

-- ── the lease ───────────────────────────────────────────────────────────────────────────────────

-- After `session_lock`, so that it sees the holder that is there, and the counter of its process.
-- An epoch is greater than any before it, also where the tenant's counter was set back with a backup.
-- name: acquire
WITH next AS (
  UPDATE stator.tenant SET epoch = epoch + 1 WHERE t = %(t)s RETURNING epoch
), old AS (
  SELECT y.s, y.epoch, y.holder, p.beats
  FROM stator.session y LEFT JOIN stator.process p ON p.t = y.t AND p.id = y.process
  WHERE y.t = %(t)s AND y.id = %(session)s
)
UPDATE stator.session x
SET epoch = greatest(next.epoch, x.epoch + 1), holder = %(holder)s, process = %(process)s
FROM old, next
WHERE x.t = %(t)s AND x.s = old.s
  AND (old.holder IS NULL OR old.beats IS NULL OR %(take)s OR old.epoch = %(over)s)
RETURNING x.epoch, old.epoch, old.holder, old.beats;

-- name: release
UPDATE stator.session SET holder = NULL, process = NULL
WHERE t = %(t)s AND id = %(session)s AND epoch = %(epoch)s;

-- name: process_insert
INSERT INTO stator.process (t, id, beats) VALUES (%(t)s, %(process)s, 1) ON CONFLICT DO NOTHING;

-- name: process_beat
UPDATE stator.process SET beats = beats + 1 WHERE t = %(t)s AND id = %(process)s;

-- Each process adds its row again when it takes a lease.
-- name: process_sweep
DELETE FROM stator.process p WHERE p.t = %(t)s
  AND NOT EXISTS (SELECT 1 FROM stator.session x WHERE x.t = p.t AND x.process = p.id);

-- name: process_delete
DELETE FROM stator.process WHERE t = %(t)s AND id = %(process)s;

-- ── appending ───────────────────────────────────────────────────────────────────────────────────

-- One statement: nothing of it happens unless the session is as the writer knows it.
-- name: append
WITH ok AS (
  UPDATE stator.session
  SET head = %(head)s, hash = %(hash)s, turn = %(turn)s, turn_open = %(turn_open)s, updated = %(updated)s,
      seen = CASE WHEN seen <= %(updated)s AND seen > %(updated)s - %(grain)s THEN seen ELSE %(updated)s END,
      commits = commits + %(commits)s, turns = turns + %(turns)s, calls = calls + %(calls)s,
      failed = failed + %(failed)s, tokens = tokens + %(tokens)s, content_bytes = content_bytes + %(content_bytes)s
  WHERE t = %(t)s AND s = %(s)s AND head = %(seen)s AND hash = %(seen_hash)s AND epoch = %(epoch)s
    AND (holder IS NOT NULL) = %(held)s
  RETURNING s
), logged AS (
  INSERT INTO stator.log (t, s, seq, id, hash, salts, kind, turn, at, body, status, call, tool, effect, cause, attempt, origin)
  SELECT %(t)s, ok.s, w.seq, w.id, w.hash, w.salts, w.kind, w.turn, w.at, w.body, w.status, w.call, w.tool, w.effect,
         w.cause, w.attempt, w.origin
  FROM ok, unnest(%(l_seq)s::bigint[], %(l_id)s::bytea[], %(l_hash)s::bytea[], %(l_salts)s::bytea[], %(l_kind)s::text[],
                  %(l_turn)s::bigint[], %(l_at)s::bigint[], %(l_body)s::bytea[], %(l_status)s::text[], %(l_call)s::bytea[],
                  %(l_tool)s::text[], %(l_effect)s::text[], %(l_cause)s::text[], %(l_attempt)s::bigint[],
                  %(l_origin)s::bytea[])
           AS w(seq, id, hash, salts, kind, turn, at, body, status, call, tool, effect, cause, attempt, origin)
), kept AS (
  INSERT INTO stator.rec (t, s, c, id, seq, n, put, was, turn, ended, mark, key, span)
  SELECT %(t)s, ok.s, w.c, w.id, w.seq, w.n, w.put, w.was, w.turn, w.ended, w.mark, w.key, w.span
  FROM ok, unnest(%(r_c)s::text[], %(r_id)s::text[], %(r_seq)s::bigint[], %(r_n)s::integer[], %(r_put)s::boolean[],
                  %(r_was)s::bigint[], %(r_turn)s::bigint[], %(r_ended)s::bigint[], %(r_mark)s::bytea[], %(r_key)s::text[],
                  %(r_span)s::integer[])
           AS w(c, id, seq, n, put, was, turn, ended, mark, key, span)
)
SELECT s FROM ok;

-- What follows an append in its transaction happens if the append did: the session then has the hash that it made.
-- A blob that is there is locked, so that an erasure that gives it up waits, and sees that it is needed.
-- name: blob_insert
INSERT INTO stator.blob (t, digest, size, data)
SELECT %(t)s, w.digest, w.size, w.data
FROM stator.session x, unnest(%(digests)s::bytea[], %(sizes)s::bigint[], %(datas)s::bytea[]) AS w(digest, size, data)
WHERE x.t = %(t)s AND x.s = %(s)s AND x.hash = %(hash)s
ON CONFLICT (t, digest) DO UPDATE SET size = excluded.size;

-- name: blob_use_insert
INSERT INTO stator.blob_use (t, s, seq, digest, put)
SELECT %(t)s, %(s)s, w.seq, w.digest, w.put
FROM stator.session x, unnest(%(seqs)s::bigint[], %(digests)s::bytea[], %(puts)s::boolean[]) AS w(seq, digest, put)
WHERE x.t = %(t)s AND x.s = %(s)s AND x.hash = %(hash)s
ON CONFLICT DO NOTHING;

-- name: rec_end
UPDATE stator.rec SET ended = %(ended)s, span = %(span)s
WHERE t = %(t)s AND s = %(s)s AND c = %(c)s AND id = %(id)s AND seq = %(was)s AND ended = %(endless)s
  AND EXISTS (SELECT 1 FROM stator.session x WHERE x.t = %(t)s AND x.s = %(s)s AND x.hash = %(hash)s);

-- name: turn_key_insert
INSERT INTO stator.turn_key (t, s, batch, name, seq)
SELECT %(t)s, %(s)s, w.batch, w.name, w.seq
FROM stator.session x, unnest(%(batches)s::text[], %(names)s::text[], %(seqs)s::bigint[]) AS w(batch, name, seq)
WHERE x.t = %(t)s AND x.s = %(s)s AND x.hash = %(hash)s
ON CONFLICT DO NOTHING;

-- Where the commits are that have one of these ids, or one of these origins in the session's log.
-- name: known_ids
SELECT l.id, l.s, l.seq FROM stator.log l WHERE l.t = %(t)s AND l.id = ANY(%(ids)s::bytea[]);

-- name: known_origins
SELECT l.seq
FROM stator.session x CROSS JOIN LATERAL unnest(x.part_s, x.part_after, x.part_upto) AS g(s, after, upto)
JOIN stator.log l ON l.t = %(t)s AND l.s = g.s AND l.seq > g.after AND l.seq <= g.upto
WHERE x.t = %(t)s AND x.id = %(session)s AND l.origin = ANY(%(origins)s::bytea[])
ORDER BY l.seq;

-- ── bookmarks ───────────────────────────────────────────────────────────────────────────────────

-- name: bookmark_get
SELECT b.number, b.value
FROM stator.session x LEFT JOIN stator.bookmark b ON b.t = x.t AND b.s = x.s AND b.name = %(name)s
WHERE x.t = %(t)s AND x.id = %(session)s;

-- name: bookmark_put
INSERT INTO stator.bookmark (t, s, name, number, value) VALUES (%(t)s, %(s)s, %(name)s, %(number)s, %(value)s)
ON CONFLICT (t, s, name) DO UPDATE SET number = excluded.number, value = excluded.value;

-- name: bookmark_drop
DELETE FROM stator.bookmark WHERE t = %(t)s AND s = %(s)s;

-- ── commits ─────────────────────────────────────────────────────────────────────────────────────

-- Seqs have no gaps, so that so many from one end are a range. What is looked up for each part of a log is a lateral
-- query with a limit, here and below: so it is a range of an index whatever the planner knows of the tables.
-- name: commits_range
SELECT o.id, l.seq, l.id, l.hash, CASE WHEN l.seq = o.low + 1 THEN o.base ELSE coalesce(p.hash, '') END, l.salts, l.body,
       ARRAY(SELECT b.digest FROM stator.blob_use u JOIN stator.blob b ON b.t = u.t AND b.digest = u.digest
             WHERE u.t = %(t)s AND u.s = l.s AND u.seq = l.seq AND (%(load)s OR u.put) ORDER BY b.digest),
       ARRAY(SELECT b.data FROM stator.blob_use u JOIN stator.blob b ON b.t = u.t AND b.digest = u.digest
             WHERE u.t = %(t)s AND u.s = l.s AND u.seq = l.seq AND (%(load)s OR u.put) ORDER BY b.digest)
FROM stator.session x CROSS JOIN LATERAL unnest(x.part_s, x.part_after, x.part_upto) AS g(s, after, upto)
JOIN stator.session o ON o.t = %(t)s AND o.s = g.s
CROSS JOIN LATERAL (
  SELECT y.* FROM stator.log y
  WHERE y.t = %(t)s AND y.s = g.s
    AND y.seq > greatest(g.after, %(after)s, CASE WHEN %(newest)s THEN least(%(upto)s, x.head) - %(limit)s ELSE 0 END)
    AND y.seq <= least(g.upto, %(upto)s, CASE WHEN %(newest)s THEN %(upto)s ELSE %(after)s + %(limit)s END)
  ORDER BY y.seq LIMIT %(limit)s) l
LEFT JOIN stator.log p ON p.t = %(t)s AND p.s = l.s AND p.seq = l.seq - 1
WHERE x.t = %(t)s AND x.id = %(session)s
ORDER BY l.seq;

-- name: commits_named
SELECT o.id, l.seq, l.id, l.hash, CASE WHEN l.seq = o.low + 1 THEN o.base ELSE coalesce(p.hash, '') END, l.salts, l.body,
       ARRAY(SELECT b.digest FROM stator.blob_use u JOIN stator.blob b ON b.t = u.t AND b.digest = u.digest
             WHERE u.t = %(t)s AND u.s = l.s AND u.seq = l.seq AND (%(load)s OR u.put) ORDER BY b.digest),
       ARRAY(SELECT b.data FROM stator.blob_use u JOIN stator.blob b ON b.t = u.t AND b.digest = u.digest
             WHERE u.t = %(t)s AND u.s = l.s AND u.seq = l.seq AND (%(load)s OR u.put) ORDER BY b.digest)
FROM (
  SELECT l.s, l.seq
  FROM stator.session x CROSS JOIN LATERAL unnest(x.part_s, x.part_after, x.part_upto) AS g(s, after, upto)
  JOIN stator.log l ON l.t = %(t)s AND l.s = g.s AND l.seq > g.after AND l.seq <= g.upto
    AND l.seq = ANY(array_append(%(seqs)s::bigint[], CASE WHEN %(newest)s THEN least(x.head, %(upto)s) ELSE 0 END))
  WHERE x.t = %(t)s AND x.id = %(session)s
  UNION
  SELECT l.s, l.seq
  FROM stator.session x CROSS JOIN LATERAL unnest(x.part_s, x.part_after, x.part_upto) AS g(s, after, upto)
  JOIN stator.log l ON l.t = %(t)s AND l.s = g.s AND l.seq > g.after AND l.seq <= g.upto
  WHERE x.t = %(t)s AND x.id = %(session)s AND l.id = ANY(%(ids)s::bytea[])
  UNION
  SELECT l.s, l.seq
  FROM stator.session x CROSS JOIN LATERAL unnest(x.part_s, x.part_after, x.part_upto) AS g(s, after, upto)
  JOIN stator.log l ON l.t = %(t)s AND l.s = g.s AND l.seq > g.after AND l.seq <= g.upto
  WHERE x.t = %(t)s AND x.id = %(session)s AND l.origin = ANY(%(origins)s::bytea[])
) w
JOIN stator.log l ON l.t = %(t)s AND l.s = w.s AND l.seq = w.seq
JOIN stator.session o ON o.t = %(t)s AND o.s = w.s
LEFT JOIN stator.log p ON p.t = %(t)s AND p.s = l.s AND p.seq = l.seq - 1
ORDER BY l.seq;

-- name: locate_id
SELECT o.id, l.seq FROM stator.log l JOIN stator.session o ON o.t = l.t AND o.s = l.s
WHERE l.t = %(t)s AND l.id = %(id)s;

-- name: locate_all
SELECT o.id, l.seq FROM stator.log l JOIN stator.session o ON o.t = l.t AND o.s = l.s
WHERE l.t = %(t)s AND (left(encode(l.hash, 'hex'), length(%(digits)s)) = %(digits)s
                       OR right(encode(l.id, 'hex'), length(%(digits)s)) = %(digits)s)
ORDER BY l.s, l.seq LIMIT 10;

-- name: locate_in
SELECT o.id, l.seq
FROM stator.session x CROSS JOIN LATERAL unnest(x.part_s, x.part_after, x.part_upto) AS g(s, after, upto)
JOIN stator.session o ON o.t = %(t)s AND o.s = g.s
JOIN stator.log l ON l.t = %(t)s AND l.s = g.s AND l.seq > g.after AND l.seq <= g.upto
WHERE x.t = %(t)s AND x.id = %(session)s
  AND (left(encode(l.hash, 'hex'), length(%(digits)s)) = %(digits)s
       OR right(encode(l.id, 'hex'), length(%(digits)s)) = %(digits)s)
ORDER BY l.seq LIMIT 10;

-- name: locate_id_in
SELECT o.id, l.seq
FROM stator.session x CROSS JOIN LATERAL unnest(x.part_s, x.part_after, x.part_upto) AS g(s, after, upto)
JOIN stator.session o ON o.t = %(t)s AND o.s = g.s
JOIN stator.log l ON l.t = %(t)s AND l.s = g.s AND l.seq > g.after AND l.seq <= g.upto
WHERE x.t = %(t)s AND x.id = %(session)s AND l.id = %(id)s;

-- ── turns and calls ─────────────────────────────────────────────────────────────────────────────

-- Turns follow each other, so that so many from one end are a range; one more shows where the last of them ends.
-- name: turn_marks
SELECT l.seq, l.turn, l.kind, l.status, l.at
FROM stator.session x CROSS JOIN LATERAL unnest(x.part_s, x.part_after, x.part_upto) AS g(s, after, upto)
CROSS JOIN LATERAL (
  SELECT y.* FROM stator.log y
  WHERE y.t = %(t)s AND y.s = g.s AND y.seq > g.after AND y.seq <= g.upto AND y.kind IN ('turn', 'turn_end')
    AND y.turn > greatest(%(after)s, CASE WHEN %(newest)s THEN least(%(upto)s, x.turn) - %(limit)s ELSE 0 END)
    AND y.turn <= least(%(upto)s, CASE WHEN %(newest)s THEN x.turn ELSE %(after)s + %(limit)s END) + 1
  ORDER BY y.turn, y.seq LIMIT 1000000) l
WHERE x.t = %(t)s AND x.id = %(session)s
ORDER BY l.seq;

-- name: turn_marks_of
SELECT l.seq, l.turn, l.kind, l.status, l.at
FROM stator.session x CROSS JOIN LATERAL unnest(x.part_s, x.part_after, x.part_upto) AS g(s, after, upto)
JOIN stator.log l ON l.t = %(t)s AND l.s = g.s AND l.seq > g.after AND l.seq <= g.upto
  AND l.kind IN ('turn', 'turn_end') AND l.turn = ANY(%(numbers)s::bigint[])
WHERE x.t = %(t)s AND x.id = %(session)s
ORDER BY l.seq;

-- Names of turns: the salts that are in use, and where names lead.
-- name: turn_salts
SELECT k.name
FROM stator.session x CROSS JOIN LATERAL unnest(x.part_s, x.part_after, x.part_upto) AS g(s, after, upto)
JOIN stator.turn_key k ON k.t = %(t)s AND k.s = g.s AND k.batch = %(salt)s
WHERE x.t = %(t)s AND x.id = %(session)s;

-- name: turn_keyed
SELECT l.turn
FROM stator.session x CROSS JOIN LATERAL unnest(x.part_s, x.part_after, x.part_upto) AS g(s, after, upto)
CROSS JOIN unnest(%(batches)s::text[], %(names)s::text[]) AS w(batch, name)
JOIN stator.turn_key k ON k.t = %(t)s AND k.s = g.s AND k.batch = w.batch AND k.name = w.name
  AND k.seq > g.after AND k.seq <= g.upto
JOIN stator.log l ON l.t = %(t)s AND l.s = g.s AND l.seq = k.seq
WHERE x.t = %(t)s AND x.id = %(session)s;

-- Intents, newest first, each with what was recorded of its call after it.
-- name: calls_in
WITH parts AS (
  SELECT g.s, g.after, g.upto
  FROM stator.session x CROSS JOIN LATERAL unnest(x.part_s, x.part_after, x.part_upto) AS g(s, after, upto)
  WHERE x.t = %(t)s AND x.id = %(session)s
), intents AS (
  SELECT g.s, l.seq, l.call, l.tool, l.turn, l.at, l.effect, l.attempt
  FROM parts g CROSS JOIN LATERAL (
    SELECT y.* FROM stator.log y
    WHERE y.t = %(t)s AND y.s = g.s AND y.kind = 'call'
      AND y.seq > greatest(g.after, %(after)s) AND y.seq <= least(g.upto, %(before)s - 1)
      AND y.turn > %(after_turn)s AND (%(tool)s::text IS NULL OR y.tool = %(tool)s)
    ORDER BY y.seq DESC LIMIT %(limit)s) l
  ORDER BY l.seq DESC LIMIT %(limit)s
)
SELECT o.id, i.s, i.seq, i.call, i.tool, i.turn, i.at, i.effect, i.attempt, q.seq, q.kind, q.status, q.cause
FROM intents i
JOIN stator.session o ON o.t = %(t)s AND o.s = i.s
LEFT JOIN LATERAL (
  SELECT z.seq, z.kind, z.status, z.cause
  FROM parts h CROSS JOIN LATERAL (
    SELECT y.* FROM stator.log y
    WHERE y.t = %(t)s AND y.s = h.s AND y.call = i.call AND y.seq > greatest(h.after, i.seq) AND y.seq <= h.upto
    ORDER BY y.seq LIMIT 1000) z) q ON true
ORDER BY i.seq DESC, q.seq;

-- name: calls_all
WITH intents AS (
  SELECT x.id, x.s, l.seq, l.call, l.tool, l.turn, l.at, l.effect, l.attempt
  FROM stator.session x CROSS JOIN LATERAL (
    SELECT y.* FROM stator.log y
    WHERE y.t = %(t)s AND y.s = x.s AND y.kind = 'call' AND y.seq > greatest(x.low, %(after)s)
      AND (x.s < %(before_s)s OR y.seq < %(before)s)
      AND y.turn > %(after_turn)s AND (%(tool)s::text IS NULL OR y.tool = %(tool)s)
    ORDER BY y.seq DESC LIMIT %(limit)s) l
  WHERE x.t = %(t)s AND x.s <= %(before_s)s AND (%(project)s::text IS NULL OR x.project = %(project)s)
  ORDER BY x.s DESC, l.seq DESC LIMIT %(limit)s
)
SELECT i.id, i.s, i.seq, i.call, i.tool, i.turn, i.at, i.effect, i.attempt, q.seq, q.kind, q.status, q.cause
FROM intents i
LEFT JOIN LATERAL (
  SELECT y.seq, y.kind, y.status, y.cause FROM stator.log y
  WHERE y.t = %(t)s AND y.s = i.s AND y.call = i.call AND y.seq > i.seq
  ORDER BY y.seq LIMIT 1000) q ON true
ORDER BY i.s DESC, i.seq DESC, q.seq;

-- ── state ───────────────────────────────────────────────────────────────────────────────────────

-- Live records at a seq: of each part those in force at its end, unless a later part touched the same record. They are
-- found by how long they were in force (see `span` in the schema), so that what ended or began elsewhere is not looked
-- at; the newest of each length are found in order, so that a page of a session's own records costs what is on it. Those
-- of what it was forked from are all looked at. The first row of each commit carries it.
-- name: entries
WITH parts AS (
  SELECT g.s, o.id AS owner, g.after, CASE WHEN x.head <= %(at)s THEN g.upto ELSE least(g.upto, %(at)s) END AS upto,
         x.s AS own, x.head
  FROM stator.session x CROSS JOIN LATERAL unnest(x.part_s, x.part_after, x.part_upto) AS g(s, after, upto)
  JOIN stator.session o ON o.t = %(t)s AND o.s = g.s
  WHERE x.t = %(t)s AND x.id = %(session)s AND g.after < %(at)s
), found AS (
  SELECT r.*, w.most, g.upto, g.owner
  FROM parts g CROSS JOIN unnest(%(collections)s::text[], %(limits)s::bigint[]) AS w(c, most)
  CROSS JOIN generate_series(1, 63) AS k(span) CROSS JOIN LATERAL (
    SELECT y.s, y.c, y.id, y.seq, y.n, y.turn FROM stator.rec y
    WHERE y.t = %(t)s AND y.s = g.s AND y.c = w.c AND y.span = k.span
      AND y.seq > g.upto - (1::bigint << least(k.span, 62)) AND y.seq <= g.upto AND y.ended > g.upto AND y.put
      AND (%(prefix)s = '' OR left(y.key, length(%(prefix)s)) = %(prefix)s)
    ORDER BY y.seq DESC, y.n DESC
    LIMIT CASE WHEN g.s = g.own THEN w.most ELSE 1000000000 END) r
  WHERE %(marks)s::bytea[] IS NULL
    AND (k.span = 63 OR (g.upto < %(endless)s AND (g.s <> g.own OR 1::bigint << (k.span - 1) <= g.head)))
  UNION ALL
  SELECT y.s, y.c, y.id, y.seq, y.n, y.turn, w.most, g.upto, g.owner
  FROM parts g CROSS JOIN unnest(%(collections)s::text[], %(limits)s::bigint[]) AS w(c, most)
  JOIN stator.rec y ON y.t = %(t)s AND y.s = g.s AND y.c = w.c AND y.mark = ANY(%(marks)s::bytea[])
    AND y.seq + 0 <= g.upto AND y.ended > g.upto AND y.put
    AND (%(prefix)s = '' OR left(y.key, length(%(prefix)s)) = %(prefix)s)
  WHERE %(marks)s::bytea[] IS NOT NULL
), live AS (
  SELECT r.*, row_number() OVER (PARTITION BY r.c ORDER BY r.seq DESC, r.n DESC) AS place
  FROM found r
  WHERE NOT EXISTS (
      SELECT 1 FROM parts h CROSS JOIN LATERAL (
        SELECT 1 FROM stator.rec y
        WHERE y.t = %(t)s AND y.s = h.s AND y.c = r.c AND y.id = r.id AND y.seq + 0 <= h.upto LIMIT 1) q
      WHERE h.after >= r.upto)
), picked AS (
  SELECT live.*, row_number() OVER (PARTITION BY live.s, live.seq ORDER BY live.c, live.n) = 1 AS leads
  FROM live WHERE live.place <= live.most
)
SELECT v.c, v.id, v.seq, v.n, v.turn, v.owner, l.id, l.hash, l.salts, l.body, z.digests, z.datas
FROM picked v
LEFT JOIN LATERAL (
  SELECT x.id, x.hash, x.salts, x.body FROM stator.log x
  WHERE v.leads AND x.t = %(t)s AND x.s = v.s AND x.seq = v.seq LIMIT 1) l ON true
LEFT JOIN LATERAL (
  SELECT array_agg(b.digest) AS digests, array_agg(b.data) AS datas
  FROM stator.blob_use u CROSS JOIN LATERAL (
    SELECT x.digest, x.data FROM stator.blob x WHERE x.t = %(t)s AND x.digest = u.digest LIMIT 1) b
  WHERE v.leads AND u.t = %(t)s AND u.s = v.s AND u.seq = v.seq AND u.put) z ON true;

-- The same without their content: what is there, for a writer, and how much, for listings.
-- name: live_keys
WITH parts AS (
  SELECT g.s, g.after, g.upto, x.s AS own, x.head
  FROM stator.session x CROSS JOIN LATERAL unnest(x.part_s, x.part_after, x.part_upto) AS g(s, after, upto)
  WHERE x.t = %(t)s AND x.id = %(session)s
)
SELECT r.c, r.key
FROM parts g CROSS JOIN unnest(%(collections)s::text[]) AS w(c) CROSS JOIN generate_series(1, 63) AS k(span)
CROSS JOIN LATERAL (
  SELECT y.c, y.id, y.key FROM stator.rec y
  WHERE y.t = %(t)s AND y.s = g.s AND y.c = w.c AND y.span = k.span
    AND y.seq > g.upto - (1::bigint << least(k.span, 62)) AND y.seq <= g.upto AND y.ended > g.upto AND y.put
  ORDER BY y.seq DESC, y.n DESC LIMIT 1000000000) r
WHERE (k.span = 63 OR g.s <> g.own) AND NOT EXISTS (
  SELECT 1 FROM parts h CROSS JOIN LATERAL (
    SELECT 1 FROM stator.rec y
    WHERE y.t = %(t)s AND y.s = h.s AND y.c = r.c AND y.id = r.id AND y.seq + 0 <= h.upto LIMIT 1) q
  WHERE h.after >= g.upto)
LIMIT %(limit)s;

-- name: live_counts
WITH parts AS (
  SELECT g.s, g.after, g.upto, x.s AS own, x.head
  FROM stator.session x CROSS JOIN LATERAL unnest(x.part_s, x.part_after, x.part_upto) AS g(s, after, upto)
  WHERE x.t = %(t)s AND x.id = %(session)s
)
SELECT r.c, count(*)
FROM parts g CROSS JOIN unnest(%(collections)s::text[]) AS w(c) CROSS JOIN generate_series(1, 63) AS k(span)
CROSS JOIN LATERAL (
  SELECT y.c, y.id FROM stator.rec y
  WHERE y.t = %(t)s AND y.s = g.s AND y.c = w.c AND y.span = k.span
    AND y.seq > g.upto - (1::bigint << least(k.span, 62)) AND y.seq <= g.upto AND y.ended > g.upto AND y.put
  ORDER BY y.seq DESC, y.n DESC LIMIT 1000000000) r
WHERE (k.span = 63 OR g.s <> g.own) AND NOT EXISTS (
  SELECT 1 FROM parts h CROSS JOIN LATERAL (
    SELECT 1 FROM stator.rec y
    WHERE y.t = %(t)s AND y.s = h.s AND y.c = r.c AND y.id = r.id AND y.seq + 0 <= h.upto LIMIT 1) q
  WHERE h.after >= g.upto)
GROUP BY r.c;

-- name: versions
WITH picked AS (
  SELECT r.*, row_number() OVER (PARTITION BY r.s, r.seq ORDER BY r.n) = 1 AS leads
  FROM stator.session x CROSS JOIN LATERAL unnest(x.part_s, x.part_after, x.part_upto) AS g(s, after, upto)
  CROSS JOIN LATERAL (
    SELECT y.* FROM stator.rec y
    WHERE y.t = %(t)s AND y.s = g.s AND y.seq > greatest(g.after, %(after)s) AND y.seq <= least(g.upto, %(upto)s)
      AND y.c = ANY(%(collections)s::text[])
    LIMIT 1000000000) r
  WHERE x.t = %(t)s AND x.id = %(session)s
)
SELECT v.c, v.id, v.seq, v.n, v.turn, o.id,
       CASE WHEN v.leads THEN l.id END, CASE WHEN v.leads THEN l.hash END,
       CASE WHEN v.leads THEN l.salts END, CASE WHEN v.leads THEN l.body END,
       CASE WHEN v.leads THEN ARRAY(SELECT b.digest FROM stator.blob_use u JOIN stator.blob b ON b.t = u.t AND b.digest = u.digest
              WHERE u.t = %(t)s AND u.s = v.s AND u.seq = v.seq AND u.put ORDER BY b.digest) END,
       CASE WHEN v.leads THEN ARRAY(SELECT b.data FROM stator.blob_use u JOIN stator.blob b ON b.t = u.t AND b.digest = u.digest
              WHERE u.t = %(t)s AND u.s = v.s AND u.seq = v.seq AND u.put ORDER BY b.digest) END,
       v.key, v.put, v.was
FROM picked v
JOIN stator.session o ON o.t = %(t)s AND o.s = v.s
JOIN stator.log l ON l.t = %(t)s AND l.s = v.s AND l.seq = v.seq
ORDER BY v.seq, v.n;

-- name: replaced
WITH picked AS (
  SELECT r.*, row_number() OVER (PARTITION BY r.s, r.seq ORDER BY r.c, r.n) = 1 AS leads
  FROM stator.session x CROSS JOIN LATERAL unnest(x.part_s, x.part_after, x.part_upto) AS g(s, after, upto)
  CROSS JOIN unnest(%(cs)s::text[], %(ids)s::text[], %(seqs)s::bigint[]) AS w(c, id, seq)
  JOIN stator.rec r ON r.t = %(t)s AND r.s = g.s AND r.c = w.c AND r.id = w.id AND r.seq = w.seq
    AND r.seq > g.after AND r.seq <= g.upto
  WHERE x.t = %(t)s AND x.id = %(session)s
)
SELECT v.c, v.id, v.seq, v.n, v.turn, o.id,
       CASE WHEN v.leads THEN l.id END, CASE WHEN v.leads THEN l.hash END,
       CASE WHEN v.leads THEN l.salts END, CASE WHEN v.leads THEN l.body END,
       CASE WHEN v.leads THEN ARRAY(SELECT b.digest FROM stator.blob_use u JOIN stator.blob b ON b.t = u.t AND b.digest = u.digest
              WHERE u.t = %(t)s AND u.s = v.s AND u.seq = v.seq AND u.put ORDER BY b.digest) END,
       CASE WHEN v.leads THEN ARRAY(SELECT b.data FROM stator.blob_use u JOIN stator.blob b ON b.t = u.t AND b.digest = u.digest
              WHERE u.t = %(t)s AND u.s = v.s AND u.seq = v.seq AND u.put ORDER BY b.digest) END,
       v.key, v.put, v.was
FROM picked v
JOIN stator.session o ON o.t = %(t)s AND o.s = v.s
JOIN stator.log l ON l.t = %(t)s AND l.s = v.s AND l.seq = v.seq
ORDER BY v.seq, v.n;

-- name: touches_in
SELECT o.id, r.seq, r.turn, r.id, r.put
FROM stator.session x CROSS JOIN LATERAL unnest(x.part_s, x.part_after, x.part_upto) AS g(s, after, upto)
JOIN stator.session o ON o.t = %(t)s AND o.s = g.s
JOIN stator.rec r ON r.t = %(t)s AND r.s = g.s AND r.c = %(collection)s AND r.mark = %(mark)s
  AND r.seq > g.after AND r.seq <= g.upto
WHERE x.t = %(t)s AND x.id = %(session)s
ORDER BY r.seq DESC, r.n DESC LIMIT %(limit)s;

-- name: touches_all
SELECT x.id, r.seq, r.turn, r.id, r.put
FROM stator.rec r JOIN stator.session x ON x.t = %(t)s AND x.s = r.s
WHERE r.t = %(t)s AND r.c = %(collection)s AND r.mark = %(mark)s
  AND (%(project)s::text IS NULL OR x.project = %(project)s)
ORDER BY r.s DESC, r.seq DESC, r.n DESC LIMIT %(limit)s;

-- ── erasure and purge ───────────────────────────────────────────────────────────────────────────

-- name: puts_of
SELECT r.seq, r.n
FROM stator.session x CROSS JOIN LATERAL unnest(x.part_s, x.part_after, x.part_upto) AS g(s, after, upto)
JOIN stator.rec r ON r.t = %(t)s AND r.s = g.s AND r.c = %(collection)s AND r.id = %(id)s AND r.put
  AND r.seq > g.after AND r.seq <= g.upto
WHERE x.t = %(t)s AND x.id = %(session)s;

-- name: log_rewrite
UPDATE stator.log SET salts = %(salts)s, body = %(body)s WHERE t = %(t)s AND s = %(s)s AND seq = %(seq)s;

-- name: session_shrunk
UPDATE stator.session SET content_bytes = content_bytes - %(size)s WHERE t = %(t)s AND s = %(s)s;

-- A record that was erased is known by its id, where it was put and where it was dropped again.
-- name: rec_erase
UPDATE stator.rec SET key = %(key)s, mark = %(mark)s
WHERE t = %(t)s AND c = %(collection)s AND id = %(id)s
  AND ((s = %(s)s AND seq = %(seq)s AND n = %(n)s) OR (s = ANY(%(ss)s::bigint[]) AND NOT put AND was = %(seq)s)
       OR (s = %(s)s AND NOT put AND seq = %(seq)s));

-- name: turn_key_delete
DELETE FROM stator.turn_key
WHERE t = %(t)s AND s = %(s)s AND batch = %(batch)s AND name = %(name)s AND seq = %(seq)s;

-- name: blob_unuse
DELETE FROM stator.blob_use WHERE t = %(t)s AND s = %(s)s AND seq = %(seq)s AND digest = ANY(%(digests)s::bytea[]);

-- Locked, then looked at again: what is appended meanwhile and needs it waits, or is seen.
-- name: blob_lock
SELECT digest FROM stator.blob WHERE t = %(t)s AND digest = ANY(%(digests)s::bytea[]) ORDER BY digest FOR UPDATE;

-- name: blob_delete
DELETE FROM stator.blob b
WHERE b.t = %(t)s AND b.digest = ANY(%(digests)s::bytea[])
  AND NOT EXISTS (SELECT 1 FROM stator.blob_use u WHERE u.t = b.t AND u.digest = b.digest);

-- name: blobs_of
SELECT DISTINCT digest FROM stator.blob_use WHERE t = %(t)s AND s = %(s)s;

-- name: purge_blob_use
DELETE FROM stator.blob_use WHERE t = %(t)s AND s = %(s)s;

-- name: purge_log
DELETE FROM stator.log WHERE t = %(t)s AND s = %(s)s;

-- name: purge_rec
DELETE FROM stator.rec WHERE t = %(t)s AND s = %(s)s;

-- name: purge_turn_key
DELETE FROM stator.turn_key WHERE t = %(t)s AND s = %(s)s;

-- name: purge_session
DELETE FROM stator.session WHERE t = %(t)s AND s = %(s)s;

-- ── keeping ─────────────────────────────────────────────────────────────────────────────────────

-- name: session_all
SELECT x.s, x.id, x.record, x.epoch, x.holder, p.beats, x.head, x.hash, x.turn, x.turn_open, x.updated, x.low,
       x.part_s, x.part_after, x.part_upto, x.commits, x.turns, x.calls, x.failed, x.content_bytes
FROM stator.session x LEFT JOIN stator.process p ON p.t = x.t AND p.id = x.process
WHERE x.t = %(t)s
ORDER BY x.s;

-- name: log_page
SELECT l.seq, l.id, l.hash, p.hash, l.salts, l.body,
       ARRAY(SELECT b.digest FROM stator.blob_use u JOIN stator.blob b ON b.t = u.t AND b.digest = u.digest
             WHERE u.t = %(t)s AND u.s = l.s AND u.seq = l.seq ORDER BY b.digest),
       ARRAY(SELECT b.data FROM stator.blob_use u JOIN stator.blob b ON b.t = u.t AND b.digest = u.digest
             WHERE u.t = %(t)s AND u.s = l.s AND u.seq = l.seq ORDER BY b.digest)
FROM stator.log l LEFT JOIN stator.log p ON p.t = %(t)s AND p.s = l.s AND p.seq = l.seq - 1
WHERE l.t = %(t)s AND l.s = %(s)s AND l.seq > %(after)s
ORDER BY l.seq LIMIT %(limit)s;

-- name: log_hash
SELECT hash FROM stator.log WHERE t = %(t)s AND s = %(s)s AND seq = %(seq)s;

-- name: orphans
SELECT l.s, min(l.seq), max(l.seq) FROM stator.log l
WHERE l.t = %(t)s AND NOT EXISTS (SELECT 1 FROM stator.session x WHERE x.t = l.t AND x.s = l.s)
GROUP BY l.s;

-- name: rec_page
SELECT c, id, seq, n, put, was, turn, ended, mark, key, span FROM stator.rec
WHERE t = %(t)s AND s = %(s)s ORDER BY seq, n;

-- name: turn_key_page
SELECT batch, name, seq FROM stator.turn_key WHERE t = %(t)s AND s = %(s)s;

-- name: columns_page
SELECT seq, id, kind, turn, at, status, call, tool, effect, cause, attempt, origin FROM stator.log
WHERE t = %(t)s AND s = %(s)s AND seq > %(after)s ORDER BY seq LIMIT %(limit)s;

-- name: use_page
SELECT seq, digest, put FROM stator.blob_use WHERE t = %(t)s AND s = %(s)s;

-- name: blob_unused
SELECT b.digest FROM stator.blob b
WHERE b.t = %(t)s AND NOT EXISTS (SELECT 1 FROM stator.blob_use u WHERE u.t = b.t AND u.digest = b.digest);

-- name: rebuild_rec
INSERT INTO stator.rec (t, s, c, id, seq, n, put, was, turn, ended, mark, key, span)
SELECT %(t)s, %(s)s, w.c, w.id, w.seq, w.n, w.put, w.was, w.turn, w.ended, w.mark, w.key, w.span
FROM unnest(%(r_c)s::text[], %(r_id)s::text[], %(r_seq)s::bigint[], %(r_n)s::integer[], %(r_put)s::boolean[],
            %(r_was)s::bigint[], %(r_turn)s::bigint[], %(r_ended)s::bigint[], %(r_mark)s::bytea[], %(r_key)s::text[],
                  %(r_span)s::integer[])
     AS w(c, id, seq, n, put, was, turn, ended, mark, key, span);

-- name: rebuild_turn_key
INSERT INTO stator.turn_key (t, s, batch, name, seq)
SELECT %(t)s, %(s)s, w.batch, w.name, w.seq
FROM unnest(%(batches)s::text[], %(names)s::text[], %(seqs)s::bigint[]) AS w(batch, name, seq)
ON CONFLICT DO NOTHING;

-- name: rebuild_log
UPDATE stator.log l
SET kind = w.kind, turn = w.turn, at = w.at, status = w.status, call = w.call, tool = w.tool, effect = w.effect,
    cause = w.cause, attempt = w.attempt, origin = w.origin
FROM unnest(%(l_seq)s::bigint[], %(l_kind)s::text[], %(l_turn)s::bigint[], %(l_at)s::bigint[], %(l_status)s::text[],
            %(l_call)s::bytea[], %(l_tool)s::text[], %(l_effect)s::text[], %(l_cause)s::text[], %(l_attempt)s::bigint[],
            %(l_origin)s::bytea[])
     AS w(seq, kind, turn, at, status, call, tool, effect, cause, attempt, origin)
WHERE l.t = %(t)s AND l.s = %(s)s AND l.seq = w.seq;

-- name: rebuild_session
UPDATE stator.session
SET head = %(head)s, hash = %(hash)s, turn = %(turn)s, turn_open = %(turn_open)s, updated = %(updated)s, seen = %(updated)s,
    commits = %(commits)s, turns = %(turns)s, calls = %(calls)s, failed = %(failed)s, content_bytes = %(content_bytes)s
WHERE t = %(t)s AND s = %(s)s;

-- A blob counts with the first commit that needs it.
-- name: content_bytes
-- By session, what its own commits hold before compression, as each append counts it.
SELECT id, content_bytes FROM stator.session
WHERE t = %(t)s AND (%(session)s::bytea IS NULL OR id = %(session)s) ORDER BY s DESC;

-- name: usage
SELECT x.id, l.kind,
       length(l.id) + length(l.hash) + length(l.salts) + length(l.body)
       + coalesce((SELECT sum(length(b.data))::bigint FROM stator.blob_use u JOIN stator.blob b ON b.t = u.t AND b.digest = u.digest
                   WHERE u.t = %(t)s AND u.s = l.s AND u.seq = l.seq
                     AND NOT EXISTS (SELECT 1 FROM stator.blob_use e WHERE e.t = u.t AND e.digest = u.digest
                                       AND (e.s, e.seq) < (u.s, u.seq))), 0)
FROM stator.log l JOIN stator.session x ON x.t = l.t AND x.s = l.s
WHERE l.t = %(t)s AND (%(session)s::bytea IS NULL OR x.id = %(session)s);

-- ── `stator sql` ────────────────────────────────────────────────────────────────────────────────
-- Pages of what the views are filled from: of all sessions, or of one (`s`) between two places, after a row.

-- name: sql_session
SELECT s FROM stator.session WHERE t = %(t)s AND id = %(id)s;

-- name: sql_sessions
SELECT s, id, name, project, agent, mode, status, created, updated, turns FROM stator.session
WHERE t = %(t)s AND s > %(after_s)s AND (%(s)s::bigint IS NULL OR s = %(s)s)
ORDER BY s LIMIT %(limit)s;

-- `named`: with ids and hashes, which are half of a row.
-- name: sql_log
SELECT l.s, CASE WHEN %(named)s THEN x.id END, l.seq, CASE WHEN %(named)s THEN l.id END,
       CASE WHEN %(named)s THEN l.hash END, l.kind, l.turn, l.at, l.tool, l.status, l.effect, l.cause, b.body
FROM (
  SELECT y.* FROM stator.log y
  WHERE y.t = %(t)s AND (y.s, y.seq) > (%(after_s)s, %(after)s) AND (%(s)s::bigint IS NULL OR y.s = %(s)s)
    AND y.seq BETWEEN %(low)s AND %(high)s
  ORDER BY y.s, y.seq LIMIT %(limit)s) l
CROSS JOIN LATERAL (SELECT o.id FROM stator.session o WHERE o.t = %(t)s AND o.s = l.s LIMIT 1) x
LEFT JOIN LATERAL (SELECT l.body AS body WHERE %(load)s) b ON true
ORDER BY l.s, l.seq;

-- name: sql_rec
SELECT r.s, x.id, x.project, r.c, r.seq, r.n, r.turn, r.put, r.id, b.body
FROM (
  SELECT y.* FROM stator.rec y
  WHERE y.t = %(t)s AND (y.s, y.seq, y.n) > (%(after_s)s, %(after)s, %(after_n)s)
    AND (%(s)s::bigint IS NULL OR y.s = %(s)s) AND y.seq BETWEEN %(low)s AND %(high)s
    AND (%(collection)s::text IS NULL OR y.c = %(collection)s) AND (NOT %(live)s OR y.span = 63)
  ORDER BY y.s, y.seq, y.n LIMIT %(limit)s) r
CROSS JOIN LATERAL (SELECT o.id, o.project FROM stator.session o WHERE o.t = %(t)s AND o.s = r.s LIMIT 1) x
LEFT JOIN LATERAL (
  SELECT l.body FROM stator.log l WHERE %(load)s AND r.put AND l.t = %(t)s AND l.s = r.s AND l.seq = r.seq LIMIT 1) b ON true
ORDER BY r.s, r.seq, r.n;

-- What these sessions have spent.
-- name: sql_spent
SELECT w.s, r.n, l.body
FROM unnest(%(ss)s::bigint[]) AS w(s)
CROSS JOIN LATERAL (
  SELECT y.seq, y.n FROM stator.rec y
  WHERE y.t = %(t)s AND y.s = w.s AND y.c = 'spend' AND y.span = 63 AND y.put ORDER BY y.seq, y.n LIMIT %(limit)s) r
CROSS JOIN LATERAL (
  SELECT z.body FROM stator.log z WHERE z.t = %(t)s AND z.s = w.s AND z.seq = r.seq LIMIT 1) l;

-- The commits that spent something: each of them put a record of it.
-- name: sql_used
SELECT r.s, r.seq, l.body
FROM (
  SELECT DISTINCT y.s, y.seq FROM stator.rec y
  WHERE y.t = %(t)s AND y.c = 'spend' AND (y.s, y.seq) > (%(after_s)s, %(after)s)
    AND (%(s)s::bigint IS NULL OR y.s = %(s)s) AND y.seq BETWEEN %(low)s AND %(high)s
  ORDER BY y.s, y.seq LIMIT %(limit)s) r
CROSS JOIN LATERAL (
  SELECT z.body FROM stator.log z WHERE z.t = %(t)s AND z.s = r.s AND z.seq = r.seq LIMIT 1) l
ORDER BY r.s, r.seq;

-- name: sql_marks
SELECT l.s, x.id, l.turn, l.seq, l.kind, l.status, l.at, x.head
FROM (
  SELECT y.* FROM stator.log y
  WHERE y.t = %(t)s AND y.kind IN ('turn', 'turn_end') AND (y.s, y.turn, y.seq) > (%(after_s)s, %(after_turn)s, %(after)s)
    AND (%(s)s::bigint IS NULL OR y.s = %(s)s) AND y.turn BETWEEN %(low)s AND %(high)s
  ORDER BY y.s, y.turn, y.seq LIMIT %(limit)s) l
CROSS JOIN LATERAL (SELECT o.id, o.head FROM stator.session o WHERE o.t = %(t)s AND o.s = l.s LIMIT 1) x
ORDER BY l.s, l.turn, l.seq;

-- name: sql_calls
SELECT l.s, x.id, l.seq, l.call, l.tool, l.effect, l.attempt, l.turn, l.at, e.seq, e.status, e.cause
FROM (
  SELECT y.* FROM stator.log y
  WHERE y.t = %(t)s AND y.kind = 'call' AND (y.s, y.seq) > (%(after_s)s, %(after)s)
    AND (%(s)s::bigint IS NULL OR y.s = %(s)s) AND y.seq BETWEEN %(low)s AND %(high)s
  ORDER BY y.s, y.seq LIMIT %(limit)s) l
CROSS JOIN LATERAL (SELECT o.id FROM stator.session o WHERE o.t = %(t)s AND o.s = l.s LIMIT 1) x
LEFT JOIN LATERAL (
  SELECT o.seq, o.status, o.cause FROM stator.log o
  WHERE o.t = %(t)s AND o.s = l.s AND o.call = l.call AND o.seq > l.seq AND o.kind IN ('outcome', 'settlement')
    AND o.seq < coalesce((SELECT a.seq FROM stator.log a WHERE a.t = %(t)s AND a.s = l.s AND a.call = l.call
                            AND a.seq > l.seq AND a.kind = 'call' ORDER BY a.seq LIMIT 1), 9223372036854775807)
  ORDER BY o.seq DESC LIMIT 1) e ON true
ORDER BY l.s, l.seq;

-- name: sql_bodies
SELECT w.s, w.seq, l.body
FROM unnest(%(ss)s::bigint[], %(seqs)s::bigint[]) AS w(s, seq) CROSS JOIN LATERAL (
  SELECT y.body FROM stator.log y WHERE y.t = %(t)s AND y.s = w.s AND y.seq = w.seq LIMIT 1) l;

-- name: sql_firsts
SELECT w.s, l.body
FROM unnest(%(ss)s::bigint[]) AS w(s) CROSS JOIN LATERAL (
  SELECT y.body FROM stator.log y WHERE y.t = %(t)s AND y.s = w.s AND y.kind = 'turn' ORDER BY y.turn, y.seq LIMIT 1) l;

-- name: sql_blobs
SELECT b.digest, b.data
FROM unnest(%(digests)s::bytea[]) AS w(digest) CROSS JOIN LATERAL (
  SELECT y.digest, y.data FROM stator.blob y WHERE y.t = %(t)s AND y.digest = w.digest LIMIT 1) b;
