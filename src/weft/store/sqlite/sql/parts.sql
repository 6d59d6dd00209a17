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

-- part: greatest
max

-- part: least
min

-- part: task_joins: CROSS JOIN keeps the order in which tables are read
CROSS JOIN runs r ON r.no = t.run_no
LEFT JOIN sessions s ON s.id = t.session
LEFT JOIN attempts a ON a.task_id = t.id AND a.attempt = t.attempt
