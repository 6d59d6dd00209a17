-- Output of attempts. Written apart from decisions, on a connection of its own.

-- name: output_holders: which of these attempts may send output: those that their session holds or has ended itself.
-- The lock is in nobody's way but in that of `prune`, which would else leave chunks of a run that is gone.
SELECT t.id, v.attempt FROM (
  SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::text[]) AS u (task_id, attempt, session) ORDER BY u.task_id) v
CROSS JOIN LATERAL (SELECT x.id, x.state, x.attempt, x.session FROM tasks x WHERE x.id = v.task_id FOR KEY SHARE) t
WHERE (t.state = 'running' AND t.attempt = v.attempt AND t.session = v.session)
OR (SELECT a.session = v.session AND a.outcome <> 'lost' FROM attempts a WHERE a.task_id = v.task_id AND a.attempt = v.attempt)
ORDER BY t.id

-- name: output_insert: all chunks in one parameter, each cut out of it
INSERT INTO output_chunks (task_id, attempt, stream, at, data)
SELECT v.task_id, v.attempt, v.stream, v.at, substring($7::bytea FROM v.first::int FOR v.length::int)
FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::bigint[], $5::bigint[], $6::bigint[])
  AS v (task_id, attempt, stream, at, first, length)
ON CONFLICT DO NOTHING

-- name: output_drop: what lies within these bytes entirely
DELETE FROM output_chunks WHERE task_id = $1::bigint AND attempt = $2::bigint AND stream = $3::text
AND at >= $4::bigint AND at + length(data) <= $5::bigint

-- name: output_end
INSERT INTO output_ends (task_id, attempt, stream, size) VALUES ($1::bigint, $2::bigint, $3::text, $4::bigint)
ON CONFLICT DO NOTHING

-- name: output_read: from an offset on; the first may begin before it, and one may begin after a gap
SELECT o.at, o.data FROM {task_ids} CROSS JOIN LATERAL (
  SELECT x.at, x.data FROM output_chunks x WHERE x.task_id = i.id AND x.attempt = $4::bigint AND x.stream = $5::text
  AND x.at > $6::bigint - $7::bigint AND x.at + length(x.data) > $6::bigint ORDER BY x.at LIMIT 1) o
ORDER BY o.at LIMIT 1

-- name: output_sent: how far it is there
SELECT coalesce(max(o.till), 0) FROM {task_ids} CROSS JOIN LATERAL (
  SELECT x.at + length(x.data) AS till FROM output_chunks x
  WHERE x.task_id = i.id AND x.attempt = $4::bigint AND x.stream = $5::text ORDER BY x.at DESC LIMIT 1) o

-- name: output_state: (size if all was sent, how the attempt ended, its result, its node, whether that is gone)
SELECT e.size, a.outcome, CASE WHEN e.size IS NULL THEN a.result END, s.node, s.id IS NULL OR s.ended_at IS NOT NULL
FROM {task_ids} CROSS JOIN LATERAL (SELECT * FROM tasks x WHERE x.id = i.id OFFSET 0) t
LEFT JOIN LATERAL (SELECT * FROM attempts x WHERE x.task_id = i.id AND x.attempt = $4::bigint OFFSET 0) a ON true
LEFT JOIN LATERAL (
  SELECT x.size FROM output_ends x WHERE x.task_id = i.id AND x.attempt = $4::bigint AND x.stream = $5::text OFFSET 0) e ON true
LEFT JOIN LATERAL (SELECT * FROM sessions x WHERE x.id = coalesce(a.session, t.session) OFFSET 0) s ON true
WHERE a.attempt IS NOT NULL OR (t.attempt = $4::bigint AND t.state = 'running')

-- name: run_delete_output_chunks
DELETE FROM output_chunks WHERE task_id >= $1::bigint AND task_id < $2::bigint

-- name: run_delete_output_ends
DELETE FROM output_ends WHERE task_id >= $1::bigint AND task_id < $2::bigint
