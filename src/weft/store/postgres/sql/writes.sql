-- Writes that must differ from SQLite's, each with the reason. The notation: store/sql/loads.sql.
--
-- COMMIT travels in the same round trip as the writes, so a guard that fails must be an error inside the server: what is
-- `guarded` ends in a division by zero (statements.py), which voids everything that follows it, COMMIT included.

-- name: demand_insert v (id text, body text): nodes ask for those above the newest number they know, so numbers must
-- appear in their order: a new one's is drawn under a lock that is kept until COMMIT
, fresh AS MATERIALIZED (SELECT v.id, v.body FROM v WHERE NOT EXISTS (SELECT 1 FROM demands d WHERE d.id = v.id)),
locked AS MATERIALIZED (SELECT f.id, f.body, pg_advisory_xact_lock(1464157780, 2) FROM fresh f)
INSERT INTO demands (id, body) SELECT l.id, l.body FROM locked l ON CONFLICT DO NOTHING

-- name: output_holders (task_ids bigint[], attempts bigint[], sessions text[]): all of a shipment in one round trip.
-- Which of these attempts may send output: those that their session holds or has ended itself. The lock is in nobody's
-- way but in that of `prune`, which would else leave chunks of a run that is gone
SELECT t.id, v.attempt FROM (
  SELECT * FROM unnest(:task_ids, :attempts, :sessions) AS u (task_id, attempt, session) ORDER BY u.task_id) v
CROSS JOIN LATERAL (SELECT x.id, x.state, x.attempt, x.session, x.ran_by FROM tasks x WHERE x.id = v.task_id FOR KEY SHARE) t
WHERE (t.attempt = v.attempt AND ((t.state = 'running' AND t.session = v.session) OR t.ran_by = v.session))
OR (SELECT a.session = v.session AND a.outcome <> 'lost' FROM attempts a
    WHERE a.task_id = v.task_id AND a.attempt = v.attempt)
ORDER BY t.id

-- name: output_insert (task_ids bigint[], attempts bigint[], streams text[], ats bigint[], firsts bigint[],
-- lengths bigint[], data bytea): all chunks in one parameter, each cut out of it
INSERT INTO output_chunks (task_id, attempt, stream, at, data)
SELECT v.task_id, v.attempt, v.stream, v.at, substring(:data FROM v.first::int FOR v.length::int)
FROM unnest(:task_ids, :attempts, :streams, :ats, :firsts, :lengths) AS v (task_id, attempt, stream, at, first, length)
ON CONFLICT DO NOTHING

-- name: events_insert (now bigint) v (run_no bigint, pos int, idx int, kind text, session text, many int, data text): a row's
-- number comes from the sequence, after the locks, EVENT_BLOCK apart
INSERT INTO events (run_no, pos, idx, kind, session, many, data, at) SELECT v.*, :now FROM v

-- name: tasks_succeed_if_running (now bigint, session text, exit_code int)
-- v (id bigint, was_attempt int, started_at bigint, ended_at bigint, result_hash text, result text, version bigint) guarded:
-- by the version, too, where a row was not loaded (known_rows.py). The other half of all updates, with the attempt itself.
-- `session =` would bring in the index of all that is held
UPDATE tasks SET state = 'succeeded', session = NULL, reason = NULL, held = NULL, started_at = v.started_at, finished_at = :now,
  ran_by = :session, exit_code = :exit_code, ended_at = v.ended_at, result_hash = v.result_hash, result = v.result
FROM v WHERE tasks.id = v.id AND tasks.state = 'running' AND tasks.attempt = v.was_attempt
AND tasks.session IS NOT DISTINCT FROM :session
AND (v.version IS NULL OR tasks.xmin = v.version::text::xid)
