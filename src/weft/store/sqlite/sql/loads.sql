-- Loads for rules that must differ from PostgreSQL's, each with the reason. The notation: store/sql/loads.sql.
--
-- CROSS JOIN is how SQLite is told which table to read first; it knows no LATERAL.

-- name: runs_owned_by (session text): nothing has to be locked in one go
SELECT {run} FROM runs r WHERE r.owner = :session ORDER BY r.no

-- name: run_next: there are no sequences
INSERT INTO meta (key, value) VALUES ('runs', 1) ON CONFLICT (key) DO UPDATE SET value = value + 1 RETURNING value

-- name: workflows_named (names text[]): json_each instead of unnest; every comparison is bytewise
SELECT coalesce(r.workflow, w.hash), j.value, r.source, r.root FROM json_each(:names) j
LEFT JOIN runs r ON r.no = (SELECT n.no FROM runs n WHERE n.name = j.value
                            ORDER BY n.parent IS NOT NULL, n.no DESC LIMIT 1)
LEFT JOIN workflows w ON w.hash = (SELECT s.hash FROM workflows s WHERE s.name = j.value
                                   ORDER BY s.created_at DESC, s.hash LIMIT 1)
WHERE r.no IS NOT NULL OR w.hash IS NOT NULL ORDER BY j.value

-- name: tasks_child_actions (limit int): no run has to be free
SELECT {task} FROM tasks t WHERE t.child_action IS NOT NULL ORDER BY t.id LIMIT :limit

-- name: tasks_child_actions_of_family (limit int, run_no bigint): no run has to be free
SELECT {task} FROM tasks t JOIN runs r ON r.no = t.run_no
WHERE t.child_action IS NOT NULL AND r.root = (SELECT f.root FROM runs f WHERE f.no = :run_no) ORDER BY t.id LIMIT :limit

-- name: runs_unreported (limit int): no run has to be free
SELECT no, parent FROM runs WHERE NOT reported ORDER BY no LIMIT :limit

-- name: runs_unreported_of_family (limit int, run_no bigint): no run has to be free
SELECT no, parent FROM runs WHERE NOT reported AND +root = (SELECT f.root FROM runs f WHERE f.no = :run_no)
ORDER BY no LIMIT :limit

-- name: tasks_by_place (places json): places come as one JSON text instead of three arrays
SELECT {task} FROM (
  SELECT ((j.value ->> 0) << {ordinal_bits}) + (j.value ->> 1) AS id FROM json_each(:places) j WHERE j.value ->> 2 < 0
  UNION ALL
  SELECT p.id FROM json_each(:places) j CROSS JOIN tasks p
  ON p.run_no = j.value ->> 0 AND p.pos = j.value ->> 1 AND p.idx = j.value ->> 2 AND {later}
) f CROSS JOIN tasks t ON t.id = f.id ORDER BY t.id

-- name: tasks_by_position (run_no bigint, positions int[]): without LATERAL
SELECT {task} FROM (
  SELECT (:run_no << {ordinal_bits}) + j.value AS id FROM json_each(:positions) j
  UNION ALL
  SELECT p.id FROM json_each(:positions) j CROSS JOIN tasks p
  ON p.run_no = :run_no AND p.pos = j.value AND p.idx = -1 AND {later}
) f CROSS JOIN tasks t ON t.id = f.id ORDER BY t.id

-- name: tasks_queued (demands text[], limit int): without LATERAL; nothing is locked
SELECT {task} FROM json_each(:demands) d CROSS JOIN tasks t ON t.id IN (
  SELECT q.id FROM tasks q WHERE q.state = 'queued' AND q.demand = d.value ORDER BY q.rank, q.id LIMIT :limit)
ORDER BY t.rank, t.id LIMIT :limit

-- name: tasks_queued_of_family (demands text[], limit int, root bigint): without LATERAL, and runs_at_work is an index of
-- runs with something to claim. The best of each run, merged; one sort over all that is queued would be the whole queue
SELECT {task} FROM runs r CROSS JOIN tasks t ON t.id IN (
  SELECT q.id FROM tasks q WHERE q.state = 'queued' AND q.run_no = r.no AND q.demand IN :demands
  ORDER BY q.rank, q.id LIMIT :limit)
WHERE r.root = :root AND r.active > 0 ORDER BY t.rank, t.id LIMIT :limit

-- name: tasks_queued_each (demands text[], limit int): without LATERAL. With a limit for each demand, where one of them
-- may have more than can be claimed
SELECT {task} FROM json_each(:demands) d CROSS JOIN tasks t ON t.id IN (
  SELECT q.id FROM tasks q WHERE q.state = 'queued' AND q.demand = d.value ORDER BY q.rank, q.id LIMIT :limit)
ORDER BY t.rank, t.id

-- name: tasks_queued_each_of_family (demands text[], limit int, root bigint): without LATERAL. For each run of it, which
-- is never too few
SELECT {task} FROM runs r CROSS JOIN json_each(:demands) d CROSS JOIN tasks t ON t.id IN (
  SELECT q.id FROM tasks q WHERE q.state = 'queued' AND q.run_no = r.no AND +q.demand = d.value
  ORDER BY q.rank, q.id LIMIT :limit)
WHERE r.root = :root AND r.active > 0 ORDER BY t.rank, t.id

-- name: tasks_queued_of_workflows (demands text[], limit int, workflows json): without LATERAL, and runs_at_work is an
-- index of runs with something to claim
SELECT {task} FROM runs r CROSS JOIN tasks t ON t.id IN (
  SELECT q.id FROM tasks q WHERE q.state = 'queued' AND q.run_no = r.no AND q.demand IN :demands
  ORDER BY q.rank, q.id LIMIT :limit)
WHERE r.active > 0 AND {allowed_workflow} ORDER BY t.rank, t.id LIMIT :limit

-- name: tasks_queued_each_of_workflows (demands text[], limit int, workflows json): without LATERAL
SELECT {task} FROM runs r CROSS JOIN json_each(:demands) d CROSS JOIN tasks t ON t.id IN (
  SELECT q.id FROM tasks q WHERE q.state = 'queued' AND q.run_no = r.no AND +q.demand = d.value
  ORDER BY q.rank, q.id LIMIT :limit)
WHERE r.active > 0 AND {allowed_workflow} ORDER BY t.rank, t.id

-- name: demands_waiting (demands json): without LATERAL
SELECT d.value FROM json_each(:demands) d
WHERE EXISTS (SELECT 1 FROM tasks q WHERE q.state = 'queued' AND q.demand = d.value) ORDER BY d.value

-- name: demands_waiting_of_workflows (demands json, workflows json): of runs of these, which are looked at one by one
SELECT d.value FROM json_each(:demands) d WHERE EXISTS (
  SELECT 1 FROM runs r WHERE r.active > 0 AND {allowed_workflow} AND EXISTS (
    SELECT 1 FROM tasks q WHERE q.state = 'queued' AND q.run_no = r.no AND +q.demand = d.value)) ORDER BY d.value

-- name: demands_occupied: without LATERAL; the index of held tasks is read once
SELECT t.session, t.demand, count(*) FROM tasks t WHERE t.session IS NOT NULL AND t.state = 'running'
GROUP BY t.session, t.demand ORDER BY t.session, t.demand

-- name: tasks_due (now bigint, limit int): no run has to be free
SELECT {task} FROM tasks t WHERE t.wake_at IS NOT NULL AND t.wake_at <= :now ORDER BY t.wake_at, t.id LIMIT :limit

-- name: tasks_held (session text): no run has to be locked first
SELECT {task} FROM tasks t WHERE t.session = :session ORDER BY t.id

-- name: tasks_unsettled (limit int): no run has to be free
SELECT {task} FROM tasks t WHERE NOT t.settled ORDER BY t.id LIMIT :limit

-- name: runs_finished (before bigint, states text[], limit int, nos bigint[]): no advisory lock. Families whole, the root last
SELECT {run} FROM runs f CROSS JOIN runs r ON r.root = f.no
WHERE f.parent IS NULL AND f.finished_at < :before AND f.state IN :states
AND (:nos IS NULL OR f.no IN :nos) AND f.no NOT IN ({taken_over_roots})
ORDER BY f.finished_at, f.no, r.no DESC LIMIT :limit

-- name: ends_at (run_no bigint, positions json): without LATERAL. The newest generation of each, without elements that
-- only an earlier one had. In levels, what a cancelled task had done by then does not show: it depends on which was faster
SELECT t.pos, t.idx, t.state, coalesce(t.exit_code, a.exit_code), coalesce(a.error, t.reason), coalesce(t.result, a.result) FROM (
  SELECT (:run_no << {ordinal_bits}) + j.value AS id FROM json_each(:positions) j
  UNION ALL
  SELECT p.id FROM json_each(:positions) j CROSS JOIN tasks p ON p.run_no = :run_no AND p.pos = j.value AND {later}
) f CROSS JOIN tasks t ON t.id = f.id
LEFT JOIN attempts a ON a.task_id = t.id AND a.attempt = t.attempt
  AND NOT (t.state = 'cancelled' AND (SELECT r.level FROM runs r WHERE r.no = :run_no) IS NOT NULL)
WHERE {current}
ORDER BY t.pos, t.idx

-- name: applying: there is one writer at a time
SELECT 1

-- name: event_newest: there is one writer at a time, so numbers appear in their order
SELECT coalesce(max(seq), 0) FROM events
