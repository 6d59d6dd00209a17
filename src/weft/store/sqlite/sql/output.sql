-- Output of attempts. Written apart from decisions.

-- name: output_holders: whether this attempt may send output: one that its session holds, or has ended itself
SELECT 1 FROM tasks t WHERE t.id = ?1
AND ((t.state = 'running' AND t.attempt = ?2 AND t.session = ?3)
OR EXISTS (SELECT 1 FROM attempts a WHERE a.task_id = ?1 AND a.attempt = ?2 AND a.session = ?3 AND a.outcome <> 'lost'))

-- name: output_insert
INSERT INTO output_chunks (task_id, attempt, stream, at, data) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING

-- name: output_drop: what lies within these bytes entirely
DELETE FROM output_chunks WHERE task_id = ?1 AND attempt = ?2 AND stream = ?3 AND at >= ?4 AND at + length(data) <= ?5

-- name: output_end
INSERT INTO output_ends (task_id, attempt, stream, size) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING

-- name: output_read: from an offset on; the first may begin before it, and one may begin after a gap
SELECT o.at, o.data FROM {task_ids} CROSS JOIN output_chunks o ON o.task_id = i.id
WHERE o.attempt = ?4 AND o.stream = ?5
AND o.at > ?6 - ?7 AND o.at + length(o.data) > ?6 ORDER BY o.at LIMIT 1

-- name: output_sent: how far it is there
SELECT coalesce(max(o.at + length(o.data)), 0) FROM {task_ids} CROSS JOIN output_chunks o ON o.task_id = i.id
WHERE o.attempt = ?4 AND o.stream = ?5

-- name: output_state: (size if all was sent, how the attempt ended, its result, its node, whether that is gone)
SELECT e.size, a.outcome, CASE WHEN e.size IS NULL THEN a.result END, s.node, s.id IS NULL OR s.ended_at IS NOT NULL
FROM {task_ids} CROSS JOIN tasks t ON t.id = i.id
LEFT JOIN attempts a ON a.task_id = t.id AND a.attempt = ?4
LEFT JOIN output_ends e ON e.task_id = t.id AND e.attempt = ?4 AND e.stream = ?5
LEFT JOIN sessions s ON s.id = coalesce(a.session, t.session)
WHERE a.attempt IS NOT NULL OR (t.attempt = ?4 AND t.state = 'running')

-- name: run_delete_output_chunks
DELETE FROM output_chunks WHERE task_id >= ?1 AND task_id < ?2

-- name: run_delete_output_ends
DELETE FROM output_ends WHERE task_id >= ?1 AND task_id < ?2
