-- Output of attempts. Written apart from decisions, on a connection of its own.

-- name: output_holders: which of these attempts may send output: those that their session holds or has ended itself.
-- The lock is in nobody's way but in that of `prune`, which would else leave chunks of a run that is gone.
SELECT t.id, v.attempt FROM unnest($1::bigint[], $2::bigint[], $3::text[]) AS v (task_id, attempt, session)
JOIN tasks t ON t.id = v.task_id
WHERE (t.state = 'running' AND t.attempt = v.attempt AND t.session = v.session)
OR EXISTS (SELECT 1 FROM attempts a WHERE a.task_id = v.task_id AND a.attempt = v.attempt AND a.session = v.session
           AND a.outcome <> 'lost')
ORDER BY t.id FOR KEY SHARE OF t

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
SELECT o.at, o.data FROM (
  SELECT ($1::bigint << {ordinal_bits}) + $2::int AS id WHERE $3::int < 0
  UNION ALL SELECT p.id FROM tasks p WHERE p.run_no = $1::bigint AND p.pos = $2::int AND p.idx = $3::int AND {later}
) t JOIN output_chunks o ON o.task_id = t.id
WHERE o.attempt = $4::bigint AND o.stream = $5::text
AND o.at > $6::bigint - $7::bigint AND o.at + length(o.data) > $6::bigint ORDER BY o.at LIMIT 1

-- name: output_sent: how far it is there
SELECT coalesce(max(o.at + length(o.data)), 0) FROM (
  SELECT ($1::bigint << {ordinal_bits}) + $2::int AS id WHERE $3::int < 0
  UNION ALL SELECT p.id FROM tasks p WHERE p.run_no = $1::bigint AND p.pos = $2::int AND p.idx = $3::int AND {later}
) t JOIN output_chunks o ON o.task_id = t.id
WHERE o.attempt = $4::bigint AND o.stream = $5::text

-- name: output_state: (size if all was sent, how the attempt ended, its result, its node, whether that is gone)
SELECT e.size, a.outcome, CASE WHEN e.size IS NULL THEN a.result END, s.node, s.id IS NULL OR s.ended_at IS NOT NULL
FROM (
  SELECT ($1::bigint << {ordinal_bits}) + $2::int AS id WHERE $3::int < 0
  UNION ALL SELECT p.id FROM tasks p WHERE p.run_no = $1::bigint AND p.pos = $2::int AND p.idx = $3::int AND {later}
) i JOIN tasks t ON t.id = i.id
LEFT JOIN attempts a ON a.task_id = t.id AND a.attempt = $4::bigint
LEFT JOIN output_ends e ON e.task_id = t.id AND e.attempt = $4::bigint AND e.stream = $5::text
LEFT JOIN sessions s ON s.id = coalesce(a.session, t.session)
WHERE a.attempt IS NOT NULL OR (t.attempt = $4::bigint AND t.state = 'running')

-- name: run_delete_output_chunks
DELETE FROM output_chunks WHERE task_id >= $1::bigint AND task_id < $2::bigint

-- name: run_delete_output_ends
DELETE FROM output_ends WHERE task_id >= $1::bigint AND task_id < $2::bigint
