-- Every statement the SQLite store runs, by name.

-- name: head
-- The last commit of a session: seek to the end of its key range.
SELECT k, id, hash FROM log WHERE k > :low AND k < :high ORDER BY k DESC LIMIT 1;

-- name: heads_known
-- Sessions by id, as JSON of ids and seqs: those whose last commit has another seq, or that are not there (-1).
WITH known(name, id, seq) AS MATERIALIZED (
  SELECT key, iif(substr(key, 1, 2) = 's_', unhex(substr(key, 3))), value FROM json_each(:known)),
place(name, seq, s) AS (
  SELECT known.name, seq, s FROM known LEFT JOIN session
    ON session.id = known.id AND (:project IS NULL OR project = :project))
SELECT coalesce(s, -1), name, iif(s IS NULL, -1,
  (SELECT k & 0xffffffffff FROM log WHERE k > s << 40 AND k < (s + 1) << 40 ORDER BY k DESC LIMIT 1)) AS head
FROM place WHERE head <> seq;

-- name: heads_other
-- Every session that is not among these. Only of those with a tail it is read in the log how far they go.
WITH known(id) AS MATERIALIZED (
  SELECT unhex(substr(key, 3)) FROM json_each(:known) WHERE unhex(substr(key, 3)) IS NOT NULL)
SELECT s, 's_' || lower(hex(id)), iif(dirty = 0, flushed,
  (SELECT k & 0xffffffffff FROM log WHERE k > s << 40 AND k < (s + 1) << 40 ORDER BY k DESC LIMIT 1))
FROM session WHERE (:project IS NULL OR project = :project) AND id NOT IN (SELECT id FROM known);

-- name: log_insert
INSERT INTO log (k, id, hash, salts, body) VALUES (?, ?, ?, ?, ?);

-- name: log_range
SELECT k, id, hash, salts, body FROM log WHERE k > ? AND k <= ? ORDER BY k LIMIT ?;

-- name: log_range_newest
SELECT k, id, hash, salts, body FROM log WHERE k > ? AND k <= ? ORDER BY k DESC LIMIT ?;

-- name: log_one
SELECT id, hash, salts, body FROM log WHERE k = ?;

-- name: log_some
-- The commits at some keys (a JSON array), each with the hash of the row before.
SELECT k, log.id, hash, salts, body, (SELECT earlier.hash FROM log AS earlier WHERE earlier.k = log.k - 1)
FROM json_each(CAST(? AS TEXT)) AS wanted CROSS JOIN log ON k = wanted.value;

-- name: log_hash
SELECT hash FROM log WHERE k = ?;

-- name: log_rewrite
-- Erasure: the same commit with less content.
UPDATE log SET salts = ?, body = ? WHERE k = ?;

-- name: log_match
-- Commits of one session by the end of their id or the start of their hash.
SELECT k FROM log WHERE k > :low AND k < :high
  AND (substr(lower(hex(hash)), 1, length(:digits)) = :digits
       OR substr(lower(hex(id)), -length(:digits)) = :digits)
LIMIT 10;

-- name: log_match_all
-- The same of every session, in one pass: whole bytes are compared first, which is cheap.
SELECT k FROM log
WHERE (substr(hash, 1, :n) = :head AND substr(lower(hex(hash)), 1, length(:digits)) = :digits)
   OR (substr(id, -:n) = :tail AND substr(lower(hex(id)), -length(:digits)) = :digits)
LIMIT 10;

-- name: blob_get
SELECT digest, data FROM blob WHERE k = ?;

-- name: blob_insert
INSERT INTO blob (k, digest, size, data) VALUES (?, ?, ?, ?);

-- name: blob_delete
DELETE FROM blob WHERE k = ?;

-- name: blob_use_insert
INSERT OR IGNORE INTO blob_use (blob, log) VALUES (?, ?);

-- name: blob_use_delete
DELETE FROM blob_use WHERE blob = ? AND log = ?;

-- name: blob_used
SELECT 1 FROM blob_use WHERE blob = ? LIMIT 1;

-- name: session_by_id
SELECT s, record, epoch, holder, updated, flushed, dirty, counts FROM session WHERE id = ?;

-- name: session_by_name
SELECT s, id FROM session WHERE tenant = ? AND project = ? AND name = ?;

-- name: session_named
-- tenant by tenant, because the index of names begins with it
WITH RECURSIVE tenants(t) AS (
  SELECT min(tenant) FROM session
  UNION ALL SELECT (SELECT min(tenant) FROM session WHERE tenant > t) FROM tenants WHERE t IS NOT NULL)
SELECT one.s FROM tenants CROSS JOIN session AS one ON one.tenant = t
WHERE one.project = :project AND one.name = :name;

-- name: session_insert
INSERT INTO session (id, tenant, project, name, agent, mode, status, parent, record, epoch, holder,
                     created, updated, flushed, dirty, counts)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 0, NULL, ?, ?, ?, 1, ?) RETURNING s;

-- name: session_record
-- A commit changed the session's own record.
UPDATE session SET name = ?, agent = ?, status = ?, record = ?, updated = ? WHERE s = ?;

-- name: session_dirty
UPDATE session SET dirty = 1 WHERE s = ?;

-- name: session_flushed
UPDATE session SET flushed = ?, dirty = 0, updated = ?, counts = ? WHERE s = ?;

-- name: session_tails
-- How many sessions have commits that no projection holds yet.
SELECT count(*) FROM session WHERE dirty = 1;

-- name: session_lease
UPDATE session SET epoch = ?, holder = ? WHERE s = ?;

-- name: session_page
SELECT s, record, epoch, holder, updated, flushed, dirty, counts FROM session
WHERE dirty = 0 AND (updated, s) < (:updated, :s)
  AND (:name IS NULL OR name = :name)
  AND (:project IS NULL OR project = :project)
  AND (:tenant IS NULL OR tenant = :tenant)
  AND (:agent IS NULL OR agent = :agent)
  AND (:status IS NULL OR status = :status)
  AND (:mode IS NULL OR mode = :mode)
  AND (:parent IS NULL OR parent = :parent)
  AND (:suffix IS NULL OR substr(lower(hex(id)), -length(:suffix)) = :suffix)
  AND (:source IS NULL OR s IN (
    -- tenant by tenant, because the key of an alias begins with it
    WITH RECURSIVE tenants(t) AS (
      SELECT min(tenant) FROM alias
      UNION ALL SELECT (SELECT min(tenant) FROM alias WHERE tenant > t) FROM tenants WHERE t IS NOT NULL)
    SELECT alias.s FROM tenants CROSS JOIN alias ON alias.tenant = t
    WHERE source = :source AND foreign_id = :foreign_id))
ORDER BY updated DESC, s DESC LIMIT :limit;

-- Sessions that put a record of a collection, or may have one in a tail, and what was forked from them.
-- name: session_holders
WITH RECURSIVE holder(s, id) AS (
  SELECT s, id FROM session
  WHERE dirty = 1 OR EXISTS (SELECT 1 FROM rec WHERE rec.s = session.s AND rec.c = :holds)
  UNION SELECT child.s, child.id FROM holder CROSS JOIN session AS child ON child.parent = holder.id)
SELECT holder.s FROM holder;

-- name: session_counts
UPDATE session SET counts = ? WHERE s = ?;

-- name: session_ids
SELECT s, id FROM session ORDER BY s;

-- name: session_ledgers
SELECT id, counts, dirty FROM session WHERE (:id IS NULL OR id = :id) ORDER BY s DESC;

-- name: session_id
SELECT id FROM session WHERE s = ?;

-- name: session_reset
UPDATE session SET flushed = ?, dirty = 1, counts = ? WHERE s = ?;

-- name: alias_insert
INSERT OR IGNORE INTO alias (tenant, source, foreign_id, s) VALUES (?, ?, ?, ?);

-- name: alias_delete
DELETE FROM alias WHERE s = ?;

-- name: next_epoch
UPDATE meta SET value = value + 1 WHERE key = 'epoch' RETURNING value;

-- name: commit_slot
SELECT k FROM commit_ix WHERE slot = ?;

-- name: log_id
SELECT id FROM log WHERE k = ?;

-- name: commit_taken
SELECT slot, k FROM commit_ix WHERE slot BETWEEN ? AND ? LIMIT ?;

-- name: commit_insert
INSERT INTO commit_ix (slot, k) VALUES (?, ?);

-- name: flush_insert
INSERT OR IGNORE INTO flush_ix (s, seq) VALUES (?, ?);

-- name: flush_before
-- The last seq up to which the projections were made at or before a seq.
SELECT max(seq) FROM flush_ix WHERE s = ? AND seq <= ?;

-- name: origin_find
SELECT seq FROM origin_ix WHERE s = ? AND kind = ? AND source = ? AND foreign_id = ? AND attempt = ?;

-- name: origin_some
-- Where commits with some origins (a JSON array of pairs) are, whatever their kind: kind by kind, because the key
-- begins with it.
WITH RECURSIVE kinds(k) AS (
  SELECT min(kind) FROM origin_ix WHERE s = :s
  UNION ALL SELECT (SELECT min(kind) FROM origin_ix WHERE s = :s AND kind > k) FROM kinds WHERE k IS NOT NULL)
SELECT seq FROM kinds CROSS JOIN json_each(CAST(:origins AS TEXT)) AS wanted CROSS JOIN origin_ix
ON s = :s AND kind = k AND kind <> :not_kind
  AND source = wanted.value ->> 0 AND foreign_id = wanted.value ->> 1
WHERE seq > :after AND seq <= :upto;

-- name: origin_insert
INSERT OR REPLACE INTO origin_ix (s, kind, source, foreign_id, attempt, seq) VALUES (?, ?, ?, ?, ?, ?);

-- name: key_find
SELECT seq FROM origin_ix WHERE s = ? AND kind = ? AND source = ? AND foreign_id = ?;

-- name: key_salts
SELECT foreign_id FROM origin_ix WHERE s = ? AND kind = ? AND source = ?;

-- name: key_delete
DELETE FROM origin_ix WHERE s = ? AND kind = ? AND source = ? AND foreign_id = ? AND attempt = ?;

-- name: turn_firsts
-- In the order of turn numbers, which is that of the log.
SELECT first FROM turn_ix WHERE s = ? AND first > ? AND first <= ? ORDER BY turn;

-- name: turn_put
INSERT INTO turn_ix (s, turn, first, last, at, status) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (s, turn) DO UPDATE SET last = excluded.last,
  status = CASE WHEN excluded.status = '-' THEN status ELSE excluded.status END;

-- name: turn_range
SELECT turn, first, last, at, status FROM turn_ix WHERE s = ? AND turn > ? AND turn <= ? ORDER BY turn;

-- name: turn_some
-- The turns with some numbers (a JSON array).
SELECT turn, first, last, at, status FROM json_each(CAST(:turns AS TEXT)) AS wanted CROSS JOIN turn_ix
ON s = :s AND turn = wanted.value;

-- name: turn_last
SELECT turn, first, last, at, status FROM turn_ix WHERE s = ? ORDER BY turn DESC LIMIT 1;

-- name: rec_insert
INSERT OR REPLACE INTO rec (s, c, seq, n, op, was, turn, id, key, body)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: rec_back
-- Versions of a collection, newest first, down to a snapshot.
SELECT seq, n, op, turn, id, body FROM rec
WHERE s = ? AND c = ? AND seq > ? AND seq <= ? ORDER BY seq DESC, n DESC;

-- name: rec_places
-- The same columns of the rows at some places (seq << 20 | n, as a JSON array), in their order.
SELECT seq, n, op, turn, rec.id, body FROM json_each(CAST(? AS TEXT)) AS place CROSS JOIN rec
ON s = ? AND c = ? AND seq = place.value >> 20 AND n = place.value & 1048575;

-- name: rec_nth_back
-- Where the nth row of a collection before a seq lies.
SELECT seq FROM rec WHERE s = ? AND c = ? AND seq <= ? ORDER BY seq DESC, n DESC LIMIT 1 OFFSET ?;

-- name: rec_forward
SELECT seq, n, op, was, turn, id, key, body FROM rec
WHERE s = ? AND c = ? AND seq > ? AND seq <= ? ORDER BY seq, n;

-- name: rec_one
SELECT seq, n, op, was, turn, id, key, body FROM rec WHERE s = ? AND c = ? AND seq = ? AND n = ?;

-- name: rec_at
-- The version of a record at the seq that touched it.
SELECT seq, n, op, was, turn, id, key, body FROM rec
WHERE s = ? AND c = ? AND seq = ? AND id = ? ORDER BY n DESC LIMIT 1;

-- name: rec_put_with
-- The last put of a record in the commit that also drops it.
SELECT seq, n, op, was, turn, id, key, body FROM rec
WHERE s = ? AND c = ? AND seq = ? AND id = ? AND n < ? AND op = 1 ORDER BY n DESC LIMIT 1;

-- name: rec_find
SELECT seq, n, op, was, turn, id, key, body FROM rec INDEXED BY rec_key
WHERE c = ? AND key = ? AND s = ? AND seq > ? AND seq <= ? ORDER BY seq DESC, n DESC LIMIT 8;

-- name: rec_find_some
-- The newest version under each of some keys (a JSON array of their digests).
SELECT rec.seq, rec.n, op, was, turn, rec.id, wanted.value, body
FROM json_each(CAST(:keys AS TEXT)) AS wanted CROSS JOIN rec
ON s = :s AND c = :c AND (rec.seq, rec.n) = (
  SELECT newest.seq, newest.n FROM rec AS newest INDEXED BY rec_key
  WHERE newest.c = :c AND newest.key = wanted.value AND newest.s = :s
    AND newest.seq > :after AND newest.seq <= :upto
  ORDER BY newest.seq DESC, newest.n DESC LIMIT 1);

-- name: rec_touches
SELECT s, seq, n, op, turn, id, key FROM rec INDEXED BY rec_key
WHERE c = ? AND key = ?
  AND (? IS NULL OR s IN (SELECT session.s FROM session WHERE project = ?))
ORDER BY s DESC, seq DESC, n DESC LIMIT ?;

-- name: rec_touches_in
SELECT s, seq, n, op, turn, id, key FROM rec INDEXED BY rec_key
WHERE c = ? AND key = ? AND s = ? AND seq > ? AND seq <= ? ORDER BY seq DESC, n DESC LIMIT ?;

-- name: rec_erase
UPDATE rec SET key = NULL, body = ? WHERE s = ? AND c = ? AND seq = ? AND n = ?;

-- name: rec_of
SELECT seq, n FROM rec WHERE s = ? AND c = ? AND id = ? AND op = 1 ORDER BY seq, n;

-- name: rec_drop_keys
-- The drop of a version that was erased: it stood in the same commit, or at the seq the drop names.
UPDATE rec SET key = NULL WHERE s = :s AND c = :c AND id = :id AND op = 0
  AND (seq = :seq OR (was = :seq AND NOT EXISTS (
    SELECT 1 FROM rec AS put WHERE put.s = rec.s AND put.c = rec.c AND put.seq = rec.seq
      AND put.id = rec.id AND put.op = 1 AND put.n < rec.n)));

-- name: snap_last
SELECT seq, live FROM snap WHERE s = ? AND c = ? AND seq > ? AND seq <= ? ORDER BY seq DESC LIMIT 1;

-- name: snap_insert
INSERT OR REPLACE INTO snap (s, c, seq, live) VALUES (?, ?, ?, ?);

-- name: call_insert
INSERT OR REPLACE INTO call_ix (s, seq, call, tool, effect, status, cause, attempt, outcome, turn, at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: call_latest
-- A call's latest attempt; found from the end, where it usually is.
SELECT seq, call, tool, effect, status, cause, attempt, outcome, turn, at FROM call_ix
WHERE s = ? AND call = ? AND seq > ? AND seq <= ? ORDER BY seq DESC LIMIT 1;

-- name: call_one
SELECT s, seq, call, tool, effect, status, cause, attempt, outcome, turn, at FROM call_ix
WHERE s = ? AND seq = ?;

-- name: call_standing
-- Calls begun between two seqs and settled after the second.
SELECT seq FROM call_ix WHERE s = ? AND seq > ? AND seq <= ? AND outcome > ? ORDER BY seq DESC;

-- name: call_outcome
UPDATE call_ix SET status = ?, cause = ?, outcome = ? WHERE s = ? AND seq = ?;

-- name: call_page
SELECT s, seq, call, tool, effect, status, cause, attempt, outcome, turn, at FROM call_ix
WHERE s = :s AND seq > :low AND seq < :high AND turn > :turn
  AND (:tool IS NULL OR tool = :tool)
ORDER BY seq DESC LIMIT :limit;

-- name: sessions_with_calls
-- Newest first: those with a call of a tool, of any if none is named, and those with a tail, whose calls are not here.
SELECT s, id FROM session
WHERE s <= :start AND (:project IS NULL OR project = :project)
  AND (dirty = 1 OR EXISTS (
    SELECT 1 FROM call_ix WHERE call_ix.s = session.s AND (:tool IS NULL OR tool = :tool)))
ORDER BY s DESC LIMIT :limit;

-- name: sessions_with_failed_calls
-- The same by calls that ended in some other way than ok (a JSON array), which have an index of their own.
SELECT s, id FROM session
WHERE s <= :start AND (:project IS NULL OR project = :project)
  AND (dirty = 1 OR EXISTS (
    SELECT 1 FROM call_ix INDEXED BY call_failed WHERE call_ix.s = session.s AND status <> 'ok'
      AND (:tool IS NULL OR tool = :tool)
      AND status IN (SELECT value FROM json_each(CAST(:statuses AS TEXT)))))
ORDER BY s DESC LIMIT :limit;

-- name: sessions_with_open_calls
-- The same of calls without a known outcome, all at once: few sessions have one, so the index is read, not each session.
WITH wanted(status) AS MATERIALIZED (SELECT value FROM json_each(CAST(:statuses AS TEXT))),
held(s) AS (
  SELECT s FROM call_ix INDEXED BY call_failed
  WHERE s <= :start AND status <> 'ok' AND (:tool IS NULL OR tool = :tool) AND status IN wanted
  UNION SELECT s FROM session INDEXED BY session_dirty WHERE dirty = 1 AND s <= :start)
SELECT s, id FROM held CROSS JOIN session USING (s)
WHERE (:project IS NULL OR project = :project) ORDER BY s DESC;

-- name: call_page_failed
-- The same over calls that did not end ok, which have an index of their own.
SELECT s, seq, call, tool, effect, status, cause, attempt, outcome, turn, at
FROM call_ix INDEXED BY call_failed
WHERE s = :s AND seq > :low AND seq < :high AND turn > :turn
  AND (:tool IS NULL OR tool = :tool) AND status <> 'ok'
ORDER BY seq DESC LIMIT :limit;

-- name: bytes_log
SELECT coalesce(sum(length(body) + length(salts) + 56), 0) FROM log;

-- name: bytes_blob
SELECT coalesce(sum(length(data) + 24), 0) FROM blob;

-- name: bytes_log_by_key
SELECT k, length(body) + length(salts) + 56 FROM log WHERE k > ? AND k <= ?;

-- name: bytes_log_with_body
SELECT k, length(body) + length(salts) + 56, body FROM log WHERE k > ? AND k <= ?;

-- name: bytes_blob_by_log
-- Each blob with the first commit that needs it.
SELECT min(log), length(data) + 24 FROM blob JOIN blob_use ON blob = blob.k GROUP BY blob.k;
