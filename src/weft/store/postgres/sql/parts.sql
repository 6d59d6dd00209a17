-- What shared statements leave to this dialect. The notation: store/sql/loads.sql.

-- part: lock
FOR UPDATE

-- part: lock_or_skip
FOR UPDATE SKIP LOCKED

-- part: other_leases: whether other nodes have leases: see tasks_queued_spread
(SELECT count(*) > 1 FROM (SELECT 1 FROM leases LIMIT 2) l)

-- part: clock: the server's, at the moment of the statement; :now is a test's
coalesce(:now, (extract(epoch FROM clock_timestamp()) * 1000)::bigint)

-- part: unindexed
@ || ''

-- part: strpos
strpos

-- part: folded: A to Z as a to z, and nothing else
lower(@ COLLATE "C")

-- part: has_labels
CASE WHEN strpos(r.labels, '\u0000') > 0 THEN false ELSE r.labels::jsonb @> CAST(:labels AS jsonb) END

-- part: has_inputs: as text. A text with a NUL has no jsonb form
CASE WHEN strpos(r.inputs, '\u0000') > 0 THEN false ELSE NOT EXISTS (
  SELECT 1 FROM jsonb_each_text(CAST(:inputs AS jsonb)) w WHERE NOT EXISTS (
    SELECT 1 FROM jsonb_each_text(r.inputs::jsonb) l WHERE l.key = w.key AND l.value = w.value)) END

-- part: greatest
greatest

-- part: least
least

-- part: task_joins: OFFSET 0 keeps each apart, one look by its key
CROSS JOIN LATERAL (SELECT x.id, x.workflow FROM runs x WHERE x.no = t.run_no OFFSET 0) r
LEFT JOIN LATERAL (SELECT x.node FROM sessions x WHERE x.id = t.session OFFSET 0) s ON true
LEFT JOIN LATERAL (
  SELECT x.exit_code, x.session, x.cached FROM attempts x WHERE x.task_id = t.id AND x.attempt = t.attempt OFFSET 0) a ON true

-- part: allowed_workflow: a name, or the beginning of one with a * after it (core/placement/worker_binding.py)
(SELECT bool_or(r.name = p.name OR (right(p.name, 1) = '*' AND left(r.name, length(p.name) - 1) = left(p.name, -1)))
 FROM json_array_elements_text(:workflows::json) AS p (name))
