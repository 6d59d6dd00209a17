-- Writes that must differ from PostgreSQL's, each with the reason. The notation: store/sql/loads.sql.

-- name: demand_insert v (id text, body text): there is one writer at a time, so numbers appear in their order
INSERT INTO demands (id, body) SELECT v.id, v.body FROM v WHERE true ON CONFLICT DO NOTHING

-- name: output_holders (task_id bigint, attempt bigint, session text): one attempt at a time, for nothing has to be locked
-- in one go. Whether it may send output: one that its session holds, or has ended itself
SELECT 1 FROM tasks t WHERE t.id = :task_id
AND ((t.attempt = :attempt AND ((t.state = 'running' AND t.session = :session) OR t.ran_by = :session))
OR EXISTS (SELECT 1 FROM attempts a
           WHERE a.task_id = :task_id AND a.attempt = :attempt AND a.session = :session AND a.outcome <> 'lost'))

-- name: output_insert (task_id bigint, attempt bigint, stream text, at bigint, data bytea): one chunk at a time; there is
-- no round trip to save
INSERT INTO output_chunks (task_id, attempt, stream, at, data) VALUES (:task_id, :attempt, :stream, :at, :data)
ON CONFLICT DO NOTHING

-- name: events_insert (now bigint) v (run_no bigint, pos int, idx int, kind text, session text, many int, data text): there is
-- one writer, so that numbers need no gaps; the sequence remembers those of runs that were removed
INSERT INTO events (seq, run_no, pos, idx, kind, session, many, data, at)
SELECT coalesce((SELECT q.seq FROM sqlite_sequence q WHERE q.name = 'events'), 0) + sum(v.many) OVER (ROWS UNBOUNDED PRECEDING),
  v.*, :now FROM v

-- name: tasks_succeed_if_running (now bigint, session text, exit_code int)
-- v (id bigint, was_attempt int, started_at bigint, ended_at bigint, result_hash text, result text) guarded: without a
-- version, which rows have on PostgreSQL only. The other half of all updates, with the attempt itself. `session =` would
-- bring in the index of all that is held
UPDATE tasks SET state = 'succeeded', session = NULL, reason = NULL, held = NULL, started_at = v.started_at, finished_at = :now,
  ran_by = :session, exit_code = :exit_code, ended_at = v.ended_at, result_hash = v.result_hash, result = v.result
FROM v WHERE tasks.id = v.id AND tasks.state = 'running' AND tasks.attempt = v.was_attempt
AND tasks.session IS NOT DISTINCT FROM :session
