-- What shared statements leave to this dialect. The notation: store/sql/loads.sql.

-- part: lock: there is one writer at a time

-- part: lock_or_skip

-- part: other_leases: on PostgreSQL whether other nodes have leases, which matters to tasks_queued_spread alone
false

-- part: clock: of this machine, so the driver reads it
:now

-- part: unindexed
+@

-- part: strpos
instr

-- part: folded: A to Z as a to z, and nothing else
lower(@)

-- part: has_labels
NOT EXISTS (SELECT 1 FROM json_each(:labels) w WHERE NOT EXISTS (
  SELECT 1 FROM json_each(r.labels) l WHERE l.key = w.key AND l.value = w.value))

-- part: has_inputs: as text; true and false are 1 and 0 to json_each
NOT EXISTS (SELECT 1 FROM json_each(:inputs) w WHERE NOT EXISTS (
  SELECT 1 FROM json_each(r.inputs) l WHERE l.key = w.key
  AND CASE WHEN l.type IN ('true', 'false') THEN l.type ELSE CAST(l.value AS TEXT) END = w.value))

-- part: greatest
max

-- part: least
min

-- part: task_joins: CROSS JOIN keeps the order in which tables are read
CROSS JOIN runs r ON r.no = t.run_no
LEFT JOIN sessions s ON s.id = t.session
LEFT JOIN attempts a ON a.task_id = t.id AND a.attempt = t.attempt

-- part: allowed_workflow: a name, or the beginning of one with a * after it (core/placement/worker_binding.py)
EXISTS (SELECT 1 FROM json_each(:workflows) p WHERE r.name = p.value
        OR (substr(p.value, -1) = '*' AND substr(r.name, 1, length(p.value) - 1) = substr(p.value, 1, length(p.value) - 1)))
