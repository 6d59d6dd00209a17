-- Loads for rules, inside a write transaction.

-- name: glance: one statement instead of six looks at mostly empty indexes, each of which cost 7 µs
SELECT {session_row},
  (SELECT min(wake_at) FROM tasks WHERE wake_at IS NOT NULL),
  (SELECT min(deadline_at) FROM runs WHERE deadline_at IS NOT NULL AND finished_at IS NULL),
  EXISTS (SELECT 1 FROM tasks WHERE settled = 0),
  EXISTS (SELECT 1 FROM runs WHERE sweep IS NOT NULL) OR EXISTS (SELECT 1 FROM tasks WHERE errand IS NOT NULL)
    OR EXISTS (SELECT 1 FROM runs WHERE told = 0),
  EXISTS (SELECT 1 FROM tasks WHERE session = ?1 AND stop IS NOT NULL),
  (SELECT max(no) FROM demands)
FROM sessions s WHERE s.id = ?1

-- name: session_by_id
SELECT {session_row} FROM sessions s WHERE s.id = ?

-- name: lease_left
SELECT expires_at FROM leases WHERE session = ?

-- name: leadership: locked before everything else
SELECT term, session, expires_at FROM leadership WHERE one = 1

-- name: sessions_insisting
SELECT s.id FROM sessions s JOIN leases l ON l.session = s.id
WHERE s.ended_at IS NULL AND s.state = 'live' AND s.role = 'leader' AND l.expires_at > ? ORDER BY s.id

-- name: tasks_past_deadline
SELECT id FROM tasks WHERE deadline_at IS NOT NULL AND state = 'running' AND held IS NULL AND deadline_at <= ?1
ORDER BY deadline_at, id LIMIT ?2

-- name: runs_by_no
SELECT {run} FROM json_each(?) j CROSS JOIN runs r ON r.no = j.value ORDER BY r.no

-- name: runs_if_free: there is one writer at a time
SELECT {run} FROM json_each(?) j CROSS JOIN runs r ON r.no = j.value ORDER BY r.no

-- name: runs_owned_by
SELECT {run} FROM runs r WHERE r.owner = ? ORDER BY r.no

-- name: run_by_id
SELECT {run} FROM runs r WHERE r.id = ?

-- name: run_by_key
SELECT id, no, body_hash, state FROM runs WHERE key = ?

-- name: run_next
INSERT INTO meta (key, value) VALUES ('runs', 1) ON CONFLICT (key) DO UPDATE SET value = value + 1 RETURNING value

-- name: workflows_stored
SELECT w.hash, w.name FROM json_each(?) j CROSS JOIN workflows w ON w.hash = j.value ORDER BY w.hash

-- name: workflows_named
SELECT coalesce(r.workflow, w.hash), j.value, r.source, r.root FROM json_each(?) j
LEFT JOIN runs r ON r.no = (SELECT n.no FROM runs n WHERE n.name = j.value
                            ORDER BY n.parent IS NOT NULL, n.no DESC LIMIT 1)
LEFT JOIN workflows w ON w.hash = (SELECT s.hash FROM workflows s WHERE s.name = j.value
                                   ORDER BY s.created_at DESC, s.hash LIMIT 1)
WHERE r.no IS NOT NULL OR w.hash IS NOT NULL ORDER BY j.value

-- name: workflow_names
SELECT DISTINCT name FROM workflows ORDER BY name LIMIT ?

-- name: pins_of_root
SELECT workflow, source, name, child, child_source FROM pins WHERE root = ? ORDER BY workflow, source, name

-- name: run_roots
SELECT r.no, r.root, f.id FROM json_each(?) j CROSS JOIN runs r ON r.no = j.value CROSS JOIN runs f ON f.no = r.root
ORDER BY r.no

-- name: run_origin
SELECT source, labels, fresh FROM runs WHERE no = ?

-- name: tasks_errands
SELECT {task} FROM tasks t WHERE t.errand IS NOT NULL ORDER BY t.id LIMIT ?

-- name: tasks_errands_of_family
SELECT {task} FROM tasks t JOIN runs r ON r.no = t.run_no
WHERE t.errand IS NOT NULL AND r.root = (SELECT f.root FROM runs f WHERE f.no = ?2) ORDER BY t.id LIMIT ?1

-- name: runs_untold
SELECT no, parent FROM runs WHERE told = 0 ORDER BY no LIMIT ?

-- name: runs_untold_of_family
SELECT no, parent FROM runs WHERE told = 0 AND +root = (SELECT f.root FROM runs f WHERE f.no = ?2)
ORDER BY no LIMIT ?1

-- name: workflow_document
SELECT document FROM workflows WHERE hash = ?

-- name: tasks_by_id
SELECT {task} FROM json_each(?) j CROSS JOIN tasks t ON t.id = j.value ORDER BY t.id

-- name: tasks_by_place
SELECT {task} FROM (
  SELECT ((j.value ->> 0) << {ordinal_bits}) + (j.value ->> 1) AS id FROM json_each(?1) j WHERE j.value ->> 2 < 0
  UNION ALL
  SELECT p.id FROM json_each(?1) j CROSS JOIN tasks p
  ON p.run_no = j.value ->> 0 AND p.pos = j.value ->> 1 AND p.idx = j.value ->> 2 AND {later}
) f CROSS JOIN tasks t ON t.id = f.id ORDER BY t.id

-- name: tasks_by_position
SELECT {task} FROM (
  SELECT (?1 << {ordinal_bits}) + j.value AS id FROM json_each(?2) j
  UNION ALL
  SELECT p.id FROM json_each(?2) j CROSS JOIN tasks p ON p.run_no = ?1 AND p.pos = j.value AND p.idx = -1 AND {later}
) f CROSS JOIN tasks t ON t.id = f.id ORDER BY t.id

-- name: task_elements
SELECT {task} FROM tasks p CROSS JOIN tasks t ON t.id = p.id
WHERE p.run_no = ? AND p.pos = ? AND p.idx >= 0 AND {later} ORDER BY t.id

-- name: tasks_queued
SELECT {task} FROM json_each(?1) d CROSS JOIN tasks t ON t.id IN (
  SELECT q.id FROM tasks q WHERE q.state = 'queued' AND q.demand = d.value ORDER BY q.rank, q.id LIMIT ?2)
ORDER BY t.rank, t.id LIMIT ?2

-- name: tasks_queued_of_family: the best of each run, merged; one sort over all that is queued would be the whole queue
SELECT {task} FROM runs r CROSS JOIN tasks t ON t.id IN (
  SELECT q.id FROM tasks q WHERE q.state = 'queued' AND q.run_no = r.no AND q.demand IN (SELECT value FROM json_each(?1))
  ORDER BY q.rank, q.id LIMIT ?2)
WHERE r.root = ?3 AND r.active > 0 ORDER BY t.rank, t.id LIMIT ?2

-- name: tasks_queued_each: with a limit for each demand, where one of them may have more than can be claimed
SELECT {task} FROM json_each(?1) d CROSS JOIN tasks t ON t.id IN (
  SELECT q.id FROM tasks q WHERE q.state = 'queued' AND q.demand = d.value ORDER BY q.rank, q.id LIMIT ?2)
ORDER BY t.rank, t.id

-- name: tasks_queued_each_of_family: for each run of it, which is never too few
SELECT {task} FROM runs r CROSS JOIN json_each(?1) d CROSS JOIN tasks t ON t.id IN (
  SELECT q.id FROM tasks q WHERE q.state = 'queued' AND q.run_no = r.no AND +q.demand = d.value ORDER BY q.rank, q.id LIMIT ?2)
WHERE r.root = ?3 AND r.active > 0 ORDER BY t.rank, t.id

-- name: demands_waiting
SELECT d.value FROM json_each(?1) d
WHERE EXISTS (SELECT 1 FROM tasks q WHERE q.state = 'queued' AND q.demand = d.value) ORDER BY d.value

-- name: pools_by_name
SELECT p.name, p.size, p.used FROM json_each(?) j CROSS JOIN pools p ON p.name = j.value ORDER BY p.name

-- name: demands_placing: two ranges of the queue's index; an OR of them would scan the whole queue
SELECT DISTINCT t.demand FROM tasks t WHERE t.state = 'queued' AND t.demand >= 'place:' AND t.demand < 'place;'
UNION ALL
SELECT DISTINCT t.demand FROM tasks t WHERE t.state = 'queued' AND t.demand >= 'session:' AND t.demand < 'session;'
ORDER BY 1

-- name: sessions_with_lease
SELECT {session_row}
FROM sessions s JOIN leases l ON l.session = s.id WHERE s.ended_at IS NULL AND l.expires_at > ? ORDER BY s.id

-- name: sessions_measured
SELECT f.session, f.body FROM node_facts f JOIN sessions s ON s.id = f.session WHERE s.ended_at IS NULL ORDER BY s.id

-- name: demands_occupied
SELECT t.session, t.demand, count(*) FROM tasks t WHERE t.session IS NOT NULL AND t.state = 'running'
GROUP BY t.session, t.demand ORDER BY t.session, t.demand

-- name: demand_bodies
SELECT d.id, d.body FROM json_each(?) j CROSS JOIN demands d ON d.id = j.value ORDER BY d.id

-- name: tasks_queued_all_of_run
SELECT {task} FROM tasks t WHERE t.state = 'queued' AND t.run_no = ? ORDER BY t.rank, t.id

-- name: tasks_queued_if_free: there is one writer at a time
SELECT {task} FROM tasks t WHERE t.state = 'queued' AND t.run_no = ? ORDER BY t.rank, t.id

-- name: tasks_running_of_run
SELECT {task} FROM tasks t WHERE t.id >= ?1 << {ordinal_bits} AND t.id < (?1 + 1) << {ordinal_bits}
AND +t.state = 'running' ORDER BY t.id

-- name: tasks_ready
SELECT {task} FROM tasks t
WHERE t.state = 'pending' AND t.ready_at IS NOT NULL AND t.run_no = ? ORDER BY t.rank, t.id LIMIT ?

-- name: next_wake
SELECT min(at) FROM (
  SELECT * FROM (SELECT wake_at AS at FROM tasks WHERE wake_at IS NOT NULL AND id NOT IN (SELECT value FROM json_each(?1))
    ORDER BY wake_at LIMIT 1)
  UNION ALL
  SELECT min(deadline_at) FROM runs WHERE deadline_at IS NOT NULL AND finished_at IS NULL
    AND no NOT IN (SELECT value FROM json_each(?2))
) HAVING min(at) IS NOT NULL

-- name: tasks_due
SELECT {task} FROM tasks t WHERE t.wake_at IS NOT NULL AND t.wake_at <= ? ORDER BY t.wake_at, t.id LIMIT ?

-- name: tasks_held
SELECT {task} FROM tasks t WHERE t.session = ? ORDER BY t.id

-- name: losses_given_up
SELECT count(*) FROM attempts a JOIN sessions s ON s.id = a.session
WHERE a.task_id = ? AND a.outcome = 'lost' AND s.gave_up

-- name: tasks_claimed_at
SELECT {task} FROM tasks t WHERE t.session = ? AND t.claim_no = ? AND t.state = 'running' AND t.held IS NULL ORDER BY t.id

-- name: tasks_to_stop
SELECT {task} FROM tasks t WHERE t.session = ? AND t.stop IS NOT NULL ORDER BY t.id

-- name: tasks_unsettled
SELECT {task} FROM tasks t WHERE t.settled = 0 ORDER BY t.id LIMIT ?

-- name: tasks_unsettled_of_run
SELECT {task} FROM tasks t WHERE t.settled = 0 AND +t.run_no = ?2 ORDER BY t.id LIMIT ?1

-- name: runs_to_sweep
SELECT {run} FROM runs r WHERE r.no IN (
  SELECT no FROM runs WHERE sweep IS NOT NULL
  UNION SELECT no FROM runs
  WHERE deadline_at IS NOT NULL AND finished_at IS NULL AND deadline_at <= ?1)
ORDER BY r.no LIMIT ?2

-- name: tasks_unended
SELECT {task} FROM tasks t WHERE t.id > ?1 AND t.id < ?2
AND t.state IN ('pending', 'queued', 'scheduled', 'waiting') ORDER BY t.id LIMIT ?3

-- name: tasks_of_run
SELECT {task} FROM tasks t WHERE t.id >= ?1 << {ordinal_bits} AND t.id < (?1 + 1) << {ordinal_bits}
ORDER BY t.pos, t.idx, t.generation

-- name: demands_above
SELECT no, id, body FROM demands WHERE no > ? ORDER BY no

-- name: runs_finished: families whole, the root last
SELECT {run} FROM runs f CROSS JOIN runs r ON r.root = f.no
WHERE f.parent IS NULL AND f.finished_at < ?1 AND f.state IN (SELECT value FROM json_each(?2))
ORDER BY f.finished_at, f.no, r.no DESC LIMIT ?3

-- name: ends_at: the newest generation of each, without elements that only an earlier one had. In levels, what a
-- cancelled task had done by then does not show: it depends on who was faster.
SELECT t.pos, t.idx, t.state, a.exit_code, coalesce(a.error, t.reason), a.result FROM (
  SELECT (?1 << {ordinal_bits}) + j.value AS id FROM json_each(?2) j
  UNION ALL
  SELECT p.id FROM json_each(?2) j CROSS JOIN tasks p ON p.run_no = ?1 AND p.pos = j.value AND {later}
) f CROSS JOIN tasks t ON t.id = f.id
LEFT JOIN attempts a ON a.task_id = t.id AND a.attempt = t.attempt
  AND NOT (t.state = 'cancelled' AND (SELECT r.level FROM runs r WHERE r.no = ?1) IS NOT NULL)
WHERE {current}
ORDER BY t.pos, t.idx

-- name: ends_held: a result only where it sets keys of the context
SELECT t.id, a.result_hash, CASE WHEN instr(a.result, '"context":') THEN a.result END
FROM json_each(?) j CROSS JOIN tasks t ON t.id = j.value
JOIN attempts a ON a.task_id = t.id AND a.attempt = t.attempt ORDER BY t.id

-- name: run_inputs
SELECT inputs FROM runs WHERE no = ?

-- name: context_of_run
SELECT key, value, pos, idx FROM context WHERE run_no = ? ORDER BY key

-- name: records_by_key
SELECT {record} FROM json_each(?) j CROSS JOIN records k ON k.key = j.value ORDER BY k.key

-- name: signal_of_run
SELECT data, rejected FROM signals WHERE run_no = ? AND name = ?

-- name: array_newest: of the newest generation in which the map opened
SELECT generation, value FROM arrays WHERE run_no = ? AND pos = ? ORDER BY generation DESC LIMIT 1

-- name: array_of_map
SELECT value FROM arrays WHERE run_no = ? AND pos = ? AND generation = ?

-- name: applying: there is one writer at a time
SELECT 1

-- name: applied_hash
SELECT hash FROM applied WHERE name = ?

-- name: trigger_by_id
SELECT {trigger_row} FROM triggers g WHERE g.id = ?

-- name: triggers_of_workflow
SELECT {trigger_row} FROM triggers g WHERE g.workflow = ? ORDER BY g.id

-- name: triggers_by_key
SELECT {trigger_row} FROM triggers g
WHERE g.kind = ?1 AND g.key IS NOT NULL AND g.key IN (SELECT value FROM json_each(?2)) AND g.active ORDER BY g.id

-- name: event_newest
SELECT coalesce(max(seq), 0) FROM events

-- name: runs_unfinished_of_trigger
SELECT no, id FROM runs WHERE "trigger" IS NOT NULL AND "trigger" = ? AND finished_at IS NULL ORDER BY no

-- name: fires_by_cause
SELECT {fire_row} FROM json_each(?2) j CROSS JOIN fires f ON f."trigger" = ?1 AND f.cause = j.value ORDER BY f.cause

-- name: fires_queued: in the order in which they came; of those that came together, by their times
SELECT {fire_row} FROM fires f WHERE f.outcome = 'queued' AND f."trigger" = ?1 ORDER BY f.at, f.due_at, f.cause LIMIT ?2

-- name: fires_counted
SELECT count(*) FROM fires WHERE "trigger" = ?1 AND at > ?2 AND outcome IN ('started', 'queued')

-- name: token_by_id
SELECT t.id, t.hash, t.label, t.role, t.created_at, t.expires_at, t.revoked_at FROM tokens t WHERE t.id = ?
