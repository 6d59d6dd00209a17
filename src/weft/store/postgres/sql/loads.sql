-- Loads for rules, inside a write transaction.
--
-- Who holds a run's row may read its tasks without locking them: without that row, a task only ever changes from
-- queued to running. So only loads of queued tasks lock tasks; a later statement's snapshot is younger than the run's lock.

-- name: glance
SELECT {session_row},
  (SELECT min(wake_at) FROM tasks WHERE wake_at IS NOT NULL),
  (SELECT min(deadline_at) FROM runs WHERE deadline_at IS NOT NULL AND finished_at IS NULL),
  EXISTS (SELECT 1 FROM tasks WHERE NOT settled),
  EXISTS (SELECT 1 FROM runs WHERE sweep IS NOT NULL) OR EXISTS (SELECT 1 FROM tasks WHERE errand IS NOT NULL)
    OR EXISTS (SELECT 1 FROM runs WHERE NOT told),
  EXISTS (SELECT 1 FROM tasks WHERE session = $1::text AND stop IS NOT NULL),
  (SELECT max(no) FROM demands),
  (SELECT count(*) > 1 FROM (SELECT 1 FROM leases LIMIT 2) l)
FROM sessions s WHERE s.id = $1::text FOR UPDATE OF s

-- name: session_by_id
SELECT {session_row} FROM sessions s WHERE s.id = $1::text FOR UPDATE

-- name: lease_left
SELECT expires_at FROM leases WHERE session = $1::text FOR UPDATE

-- name: leadership: locked before everything else
SELECT term, session, expires_at FROM leadership WHERE one = 1 FOR UPDATE

-- name: sessions_insisting
SELECT s.id FROM sessions s JOIN leases l ON l.session = s.id
WHERE s.ended_at IS NULL AND s.state = 'live' AND s.role = 'leader' AND l.expires_at > $1::bigint ORDER BY s.id

-- name: tasks_past_deadline
SELECT id FROM tasks WHERE deadline_at IS NOT NULL AND state = 'running' AND held IS NULL AND deadline_at <= $1::bigint
ORDER BY deadline_at, id LIMIT $2::int

-- name: runs_by_no
SELECT {run} FROM runs r WHERE r.no = ANY($1::bigint[]) ORDER BY r.no FOR UPDATE

-- name: runs_if_free: whoever asks holds tasks of theirs already, against the order of locks, so it never waits
SELECT {run} FROM runs r WHERE r.no = ANY($1::bigint[]) ORDER BY r.no FOR UPDATE SKIP LOCKED

-- name: runs_owned_by: with the runs of its attempts, which are wanted next: all runs are locked in one order
SELECT {run} FROM runs r WHERE r.no IN (
  SELECT no FROM runs WHERE owner = $1::text
  UNION SELECT h.run_no FROM tasks h WHERE h.session = $1::text) ORDER BY r.no FOR UPDATE OF r

-- name: run_by_id
SELECT {run} FROM runs r WHERE r.id = $1::text FOR UPDATE

-- name: run_by_key
SELECT id, no, body_hash, state FROM runs WHERE key = $1::text

-- name: run_next: a sequence, so that submissions do not wait for each other. The lock keeps `prune` from removing the
-- workflow that this submission is about to find (workflows_delete_unused).
SELECT nextval('run_numbers'), pg_advisory_xact_lock_shared(1464157780, 3)

-- name: workflows_stored
SELECT w.hash, w.name FROM workflows w WHERE w.hash = ANY($1::text[]) ORDER BY w.hash COLLATE "C"

-- name: workflows_named
SELECT coalesce(r.workflow, w.hash), j.name, r.source, r.root FROM unnest($1::text[]) AS j (name)
LEFT JOIN runs r ON r.no = (SELECT n.no FROM runs n WHERE n.name = j.name
                            ORDER BY n.parent IS NOT NULL, n.no DESC LIMIT 1)
LEFT JOIN workflows w ON w.hash = (SELECT s.hash FROM workflows s WHERE s.name = j.name
                                   ORDER BY s.created_at DESC, s.hash COLLATE "C" LIMIT 1)
WHERE r.no IS NOT NULL OR w.hash IS NOT NULL ORDER BY j.name COLLATE "C"

-- name: workflow_names
SELECT DISTINCT w.name COLLATE "C" AS name FROM workflows w ORDER BY name LIMIT $1::int

-- name: pins_of_root
SELECT workflow, source, name, child, child_source FROM pins WHERE root = $1::bigint
ORDER BY workflow COLLATE "C", source COLLATE "C" NULLS FIRST, name COLLATE "C"

-- name: run_roots
SELECT r.no, r.root, f.id FROM runs r JOIN runs f ON f.no = r.root WHERE r.no = ANY($1::bigint[]) ORDER BY r.no

-- name: run_origin
SELECT source, labels, fresh FROM runs WHERE no = $1::bigint

-- name: tasks_errands: of runs that nobody else is at
WITH free AS MATERIALIZED (
  SELECT r.no FROM runs r
  WHERE r.no IN (SELECT e.run_no FROM tasks e WHERE e.errand IS NOT NULL ORDER BY e.id LIMIT $1::int)
  ORDER BY r.no FOR UPDATE SKIP LOCKED)
SELECT {task} FROM tasks t WHERE t.errand IS NOT NULL AND t.run_no IN (SELECT no FROM free) ORDER BY t.id LIMIT $1::int
FOR UPDATE OF t

-- name: tasks_errands_of_family
WITH free AS MATERIALIZED (
  SELECT r.no FROM runs r
  WHERE r.no IN (SELECT e.run_no FROM tasks e WHERE e.errand IS NOT NULL)
    AND r.root = (SELECT f.root FROM runs f WHERE f.no = $2::bigint)
  ORDER BY r.no FOR UPDATE SKIP LOCKED)
SELECT {task} FROM tasks t WHERE t.errand IS NOT NULL AND t.run_no IN (SELECT no FROM free) ORDER BY t.id LIMIT $1::int
FOR UPDATE OF t

-- name: runs_untold: pairs of which nobody else is at either
WITH ended AS MATERIALIZED (SELECT no, parent FROM runs WHERE NOT told ORDER BY no LIMIT $1::int),
free AS MATERIALIZED (
  SELECT r.no FROM runs r WHERE r.no IN (SELECT no FROM ended UNION SELECT parent >> 24 FROM ended)
  ORDER BY r.no FOR UPDATE SKIP LOCKED)
SELECT e.no, e.parent FROM ended e
WHERE e.no IN (SELECT no FROM free) AND e.parent >> 24 IN (SELECT no FROM free) ORDER BY e.no

-- name: runs_untold_of_family
WITH ended AS MATERIALIZED (
  SELECT no, parent FROM runs WHERE NOT told AND root = (SELECT f.root FROM runs f WHERE f.no = $2::bigint)
  ORDER BY no LIMIT $1::int),
free AS MATERIALIZED (
  SELECT r.no FROM runs r WHERE r.no IN (SELECT no FROM ended UNION SELECT parent >> 24 FROM ended)
  ORDER BY r.no FOR UPDATE SKIP LOCKED)
SELECT e.no, e.parent FROM ended e
WHERE e.no IN (SELECT no FROM free) AND e.parent >> 24 IN (SELECT no FROM free) ORDER BY e.no

-- name: workflow_document
SELECT document FROM workflows WHERE hash = $1::text

-- name: tasks_by_id
SELECT {task} FROM tasks t WHERE t.id = ANY($1::bigint[]) ORDER BY t.id

-- name: tasks_by_place: OFFSET 0 keeps one look per place; joined, a small run's rows would be read all each time
SELECT {task} FROM unnest($1::bigint[], $2::int[], $3::int[]) AS v (run_no, pos, idx) CROSS JOIN LATERAL (
  SELECT * FROM tasks p WHERE v.idx < 0 AND p.id = (v.run_no << {ordinal_bits}) + v.pos
  UNION ALL
  SELECT * FROM tasks p WHERE p.run_no = v.run_no AND p.pos = v.pos AND p.idx = v.idx AND {later} OFFSET 0) t
ORDER BY t.id

-- name: tasks_by_position
SELECT {task} FROM unnest($2::int[]) AS v (pos) CROSS JOIN LATERAL (
  SELECT * FROM tasks p WHERE p.id = ($1::bigint << {ordinal_bits}) + v.pos
  UNION ALL
  SELECT * FROM tasks p WHERE p.run_no = $1::bigint AND p.pos = v.pos AND p.idx = -1 AND {later} OFFSET 0) t
ORDER BY t.id

-- name: task_elements
SELECT {task} FROM (
  SELECT * FROM tasks p WHERE p.run_no = $1::bigint AND p.pos = $2::int AND p.idx >= 0 AND {later}) t ORDER BY t.id

-- name: tasks_queued: locked inside the materialised part, best first, so that rows of others are left out before the
-- limit counts them; as `id IN (SELECT … LIMIT … SKIP LOCKED)` a plan may run the subquery again and again
WITH picked AS MATERIALIZED (
  SELECT q.* FROM unnest($1::text[]) AS d (demand) CROSS JOIN LATERAL (
    SELECT t.* FROM tasks t WHERE t.state = 'queued' AND t.demand = d.demand
    ORDER BY t.rank, t.id LIMIT $2::int FOR UPDATE SKIP LOCKED) q)
SELECT {task} FROM picked t ORDER BY t.rank, t.id LIMIT $2::int

-- name: tasks_queued_spread: beside other nodes. Each has its share of the runs among the first tasks, because reports to
-- one run wait for each other. It takes others' when it has hardly any of its own, and when they are 5 s ahead of those
WITH nodes AS MATERIALIZED (
  SELECT greatest(count(*), 1) AS many, count(*) FILTER (WHERE l.session < $3::text) AS before FROM leases l),
first AS MATERIALIZED (
  SELECT q.id, q.rank, (q.id >> {ordinal_bits}) % n.many = n.before AS own
  FROM nodes n CROSS JOIN unnest($1::text[]) AS d (demand) CROSS JOIN LATERAL (
    SELECT t.id, t.rank FROM tasks t WHERE t.state = 'queued' AND t.demand = d.demand
    ORDER BY t.rank, t.id LIMIT $2::int * 2 * least(n.many, 4)) q),
share AS MATERIALIZED (SELECT count(*) AS many, min(f.rank) AS best FROM first f WHERE f.own),
best AS MATERIALIZED (
  SELECT f.id FROM first f CROSS JOIN share s WHERE f.own OR s.many < $2::int / 4 OR f.rank + 5000 < s.best
  ORDER BY f.rank + CASE WHEN f.own THEN 0 ELSE 5000 END, f.id),
picked AS MATERIALIZED (
  SELECT t.* FROM best JOIN tasks t ON t.id = best.id AND t.state || '' = 'queued' LIMIT $2::int FOR UPDATE OF t SKIP LOCKED)
SELECT {task} FROM picked t ORDER BY t.rank, t.id

-- name: tasks_queued_of_family: over all runs that have not ended. An index of those that have something at work, which
-- the other dialect has, would know `active`, and then no counter of a run could change in place any more.
WITH picked AS MATERIALIZED (
  SELECT q.* FROM runs r CROSS JOIN LATERAL (
    SELECT t.* FROM tasks t WHERE t.state = 'queued' AND t.run_no = r.no AND t.demand = ANY($1::text[])
    ORDER BY t.rank, t.id LIMIT $2::int FOR UPDATE SKIP LOCKED) q
  WHERE r.root = $3::bigint AND r.finished_at IS NULL)
SELECT {task} FROM picked t ORDER BY t.rank, t.id LIMIT $2::int

-- name: tasks_queued_each: with a limit for each demand, where one of them may have more than can be claimed
WITH picked AS MATERIALIZED (
  SELECT q.* FROM unnest($1::text[]) AS d (demand) CROSS JOIN LATERAL (
    SELECT t.* FROM tasks t WHERE t.state = 'queued' AND t.demand = d.demand
    ORDER BY t.rank, t.id LIMIT $2::int FOR UPDATE SKIP LOCKED) q)
SELECT {task} FROM picked t ORDER BY t.rank, t.id

-- name: tasks_queued_each_of_family: for each run of it, which is never too few
WITH picked AS MATERIALIZED (
  SELECT q.* FROM runs r CROSS JOIN unnest($1::text[]) AS d (demand) CROSS JOIN LATERAL (
    SELECT t.* FROM tasks t WHERE t.state = 'queued' AND t.run_no = r.no AND t.demand = d.demand
    ORDER BY t.rank, t.id LIMIT $2::int FOR UPDATE SKIP LOCKED) q
  WHERE r.root = $3::bigint AND r.finished_at IS NULL)
SELECT {task} FROM picked t ORDER BY t.rank, t.id

-- name: demands_waiting: the order leads to the index; without it a plan made without statistics may read the whole queue
SELECT d.demand FROM unnest($1::text[]) AS d (demand) CROSS JOIN LATERAL (
  SELECT 1 FROM tasks q WHERE q.state = 'queued' AND q.demand = d.demand ORDER BY q.rank, q.id LIMIT 1) q
ORDER BY d.demand COLLATE "C"

-- name: pools_by_name: the lock gives the row as it is when it is got, not as it was when the statement began
SELECT p.name, p.size, p.used FROM pools p WHERE p.name = ANY($1::text[]) ORDER BY p.name FOR UPDATE

-- name: demands_placing
SELECT d.demand FROM (
  SELECT DISTINCT t.demand FROM tasks t WHERE t.state = 'queued' AND t.demand >= 'place:' AND t.demand < 'place;'
  UNION ALL
  SELECT DISTINCT t.demand FROM tasks t WHERE t.state = 'queued' AND t.demand >= 'session:' AND t.demand < 'session;') d
ORDER BY d.demand

-- name: sessions_with_lease
SELECT {session_row}
FROM sessions s JOIN leases l ON l.session = s.id WHERE s.ended_at IS NULL AND l.expires_at > $1::bigint ORDER BY s.id

-- name: sessions_measured
SELECT f.session, f.body FROM node_facts f JOIN sessions s ON s.id = f.session WHERE s.ended_at IS NULL ORDER BY s.id

-- name: demands_occupied
SELECT s.id, o.demand, o.many FROM sessions s CROSS JOIN LATERAL (
  SELECT t.demand, count(*) AS many FROM tasks t WHERE t.session = s.id AND t.state = 'running' GROUP BY t.demand) o
WHERE s.ended_at IS NULL ORDER BY s.id, o.demand

-- name: demand_bodies
SELECT d.id, d.body FROM demands d WHERE d.id = ANY($1::text[]) ORDER BY d.id

-- name: tasks_queued_all_of_run: waits for claims that are under way, and leaves out what they took
SELECT {task} FROM tasks t WHERE t.state = 'queued' AND t.run_no = $1::bigint ORDER BY t.rank, t.id FOR UPDATE

-- name: tasks_queued_if_free: those that a claim of somebody else holds are left out
SELECT {task} FROM tasks t WHERE t.state = 'queued' AND t.run_no = $1::bigint ORDER BY t.rank, t.id FOR UPDATE SKIP LOCKED

-- name: tasks_running_of_run: by the range of its ids; by run_no, a plan made while there was one run reads all runs
SELECT {task} FROM tasks t WHERE t.id >= $1::bigint << {ordinal_bits} AND t.id < ($1::bigint + 1) << {ordinal_bits} AND t.state = 'running'
ORDER BY t.id

-- name: tasks_ready
SELECT {task} FROM tasks t
WHERE t.state = 'pending' AND t.ready_at IS NOT NULL AND t.run_no = $1::bigint ORDER BY t.rank, t.id LIMIT $2::int

-- name: next_wake
SELECT min(at) FROM (
  (SELECT wake_at AS at FROM tasks WHERE wake_at IS NOT NULL AND id <> ALL($1::bigint[]) ORDER BY wake_at LIMIT 1)
  UNION ALL
  SELECT min(deadline_at) FROM runs WHERE deadline_at IS NOT NULL AND finished_at IS NULL
    AND no <> ALL($2::bigint[])
) moments HAVING min(at) IS NOT NULL

-- name: tasks_due: runs before tasks, as everywhere; a run that somebody holds has its turn next time. Locked, because one
-- that was given to a session is queued: that session may be claiming it right now
WITH free AS MATERIALIZED (
  SELECT r.no FROM runs r
  WHERE r.no IN (SELECT d.run_no FROM tasks d WHERE d.wake_at IS NOT NULL AND d.wake_at <= $1::bigint
                 ORDER BY d.wake_at, d.id LIMIT $2::int)
  ORDER BY r.no FOR UPDATE SKIP LOCKED)
SELECT {task} FROM tasks t WHERE t.wake_at IS NOT NULL AND t.wake_at <= $1::bigint
AND t.run_no IN (SELECT no FROM free) ORDER BY t.wake_at, t.id LIMIT $2::int FOR UPDATE OF t SKIP LOCKED

-- name: tasks_held: runs before tasks
WITH held AS MATERIALIZED (
  SELECT r.no FROM runs r WHERE r.no IN (SELECT h.run_no FROM tasks h WHERE h.session = $1::text)
  ORDER BY r.no FOR UPDATE)
SELECT {task} FROM tasks t WHERE t.session = $1::text AND (SELECT count(*) FROM held) >= 0 ORDER BY t.id FOR UPDATE OF t

-- name: losses_given_up
SELECT count(*) FROM attempts a JOIN sessions s ON s.id = a.session
WHERE a.task_id = $1::bigint AND a.outcome = 'lost' AND s.gave_up

-- name: tasks_claimed_at
SELECT {task} FROM tasks t WHERE t.session = $1::text AND t.claim_no = $2::bigint AND t.state = 'running' AND t.held IS NULL ORDER BY t.id

-- name: tasks_to_stop
SELECT {task} FROM tasks t WHERE t.session = $1::text AND t.stop IS NOT NULL ORDER BY t.id

-- name: tasks_unsettled: of runs that nobody else is at
WITH free AS MATERIALIZED (
  SELECT r.no FROM runs r
  WHERE r.no IN (SELECT u.run_no FROM tasks u WHERE NOT u.settled ORDER BY u.id LIMIT $1::int)
  ORDER BY r.no FOR UPDATE SKIP LOCKED)
SELECT {task} FROM tasks t WHERE NOT t.settled AND t.run_no IN (SELECT no FROM free) ORDER BY t.id LIMIT $1::int
FOR UPDATE OF t

-- name: tasks_unsettled_of_run
SELECT {task} FROM tasks t WHERE NOT t.settled AND t.run_no = $2::bigint ORDER BY t.id LIMIT $1::int

-- name: runs_to_sweep: whoever holds a run sweeps it
SELECT {run} FROM runs r WHERE r.no IN (
  SELECT no FROM runs WHERE sweep IS NOT NULL
  UNION SELECT no FROM runs
  WHERE deadline_at IS NOT NULL AND finished_at IS NULL AND deadline_at <= $1::bigint)
ORDER BY r.no LIMIT $2::int FOR UPDATE OF r SKIP LOCKED

-- name: tasks_unended
SELECT {task} FROM tasks t WHERE t.id > $1::bigint AND t.id < $2::bigint
AND t.state IN ('pending', 'queued', 'scheduled', 'waiting') ORDER BY t.id LIMIT $3::int FOR UPDATE

-- name: tasks_of_run
SELECT {task} FROM tasks t WHERE t.id >= $1::bigint << {ordinal_bits} AND t.id < ($1::bigint + 1) << {ordinal_bits}
ORDER BY t.pos, t.idx, t.generation

-- name: demands_above
SELECT no, id, body FROM demands WHERE no > $1::bigint ORDER BY no

-- name: runs_finished: families whole, the root last; the lock goes with run_next's
WITH held AS MATERIALIZED (SELECT pg_advisory_xact_lock(1464157780, 3))
SELECT {run} FROM held CROSS JOIN runs f JOIN runs r ON r.root = f.no
WHERE f.parent IS NULL AND f.finished_at < $1::bigint AND f.state = ANY($2::text[])
ORDER BY f.finished_at, f.no, r.no DESC LIMIT $3::int FOR UPDATE OF r

-- name: ends_at: the newest generation of each, without elements that only an earlier one had. In levels, what a
-- cancelled task had done by then does not show: it depends on who was faster.
SELECT t.pos, t.idx, t.state, a.exit_code, coalesce(a.error, t.reason), a.result
FROM json_array_elements_text($2::text::json) AS j (pos) CROSS JOIN LATERAL (
  SELECT * FROM tasks p WHERE p.id = ($1::bigint << {ordinal_bits}) + j.pos::int
  UNION ALL
  SELECT * FROM tasks p WHERE p.run_no = $1::bigint AND p.pos = j.pos::int AND {later} OFFSET 0) t
LEFT JOIN LATERAL (
  SELECT * FROM attempts l WHERE l.task_id = t.id AND l.attempt = t.attempt OFFSET 0) a ON
  NOT (t.state = 'cancelled' AND (SELECT r.level FROM runs r WHERE r.no = $1::bigint) IS NOT NULL)
WHERE {current}
ORDER BY t.pos, t.idx

-- name: ends_held: a result only where it sets keys of the context
SELECT t.id, a.result_hash, CASE WHEN strpos(a.result, '"context":') > 0 THEN a.result END
FROM tasks t JOIN attempts a ON a.task_id = t.id AND a.attempt = t.attempt
WHERE t.id = ANY($1::bigint[]) ORDER BY t.id

-- name: run_inputs
SELECT inputs FROM runs WHERE no = $1::bigint

-- name: context_of_run
SELECT key, value, pos, idx FROM context WHERE run_no = $1::bigint ORDER BY key

-- name: records_by_key
SELECT {record} FROM records k WHERE k.key = ANY($1::text[]) ORDER BY k.key FOR UPDATE

-- name: signal_of_run
SELECT data, rejected FROM signals WHERE run_no = $1::bigint AND name = $2::text

-- name: array_newest: of the newest generation in which the map opened
SELECT generation, value FROM arrays WHERE run_no = $1::bigint AND pos = $2::int ORDER BY generation DESC LIMIT 1

-- name: array_of_map
SELECT value FROM arrays WHERE run_no = $1::bigint AND pos = $2::int AND generation = $3::int

-- name: applying: one at a time; and `prune` must not remove the workflow that this one is about to find
SELECT pg_advisory_xact_lock(1464157780, 4), pg_advisory_xact_lock_shared(1464157780, 3)

-- name: applied_hash
SELECT hash FROM applied WHERE name = $1::text

-- name: trigger_by_id
SELECT {trigger_row} FROM triggers g WHERE g.id = $1::text FOR UPDATE

-- name: triggers_of_workflow
SELECT {trigger_row} FROM triggers g WHERE g.workflow = $1::text ORDER BY g.id FOR UPDATE

-- name: triggers_by_key
SELECT {trigger_row} FROM triggers g
WHERE g.kind = $1::text AND g.key IS NOT NULL AND g.key = ANY($2::text[]) AND g.active ORDER BY g.id

-- name: event_newest: of transactions older than any that is under way
SELECT coalesce(max(seq), 0) FROM events WHERE xid < pg_snapshot_xmin(pg_current_snapshot())

-- name: runs_unfinished_of_trigger
SELECT no, id FROM runs WHERE "trigger" IS NOT NULL AND "trigger" = $1::text AND finished_at IS NULL ORDER BY no

-- name: fires_by_cause
SELECT {fire_row} FROM fires f WHERE f."trigger" = $1::text AND f.cause = ANY($2::text[]) ORDER BY f.cause

-- name: fires_queued: in the order in which they came; of those that came together, by their times
SELECT {fire_row} FROM fires f WHERE f.outcome = 'queued' AND f."trigger" = $1::text
ORDER BY f.at, f.due_at, f.cause LIMIT $2::int

-- name: fires_counted
SELECT count(*) FROM fires WHERE "trigger" = $1::text AND at > $2::bigint AND outcome IN ('started', 'queued')

-- name: token_by_id
SELECT t.id, t.hash, t.label, t.role, t.created_at, t.expires_at, t.revoked_at FROM tokens t WHERE t.id = $1::text FOR UPDATE
