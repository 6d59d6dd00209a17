-- Reads that must differ from PostgreSQL's, each with the reason. The notation: store/sql/loads.sql.
--
-- A page is read in the order of its key and stops at its limit: no window is needed. It knows no LATERAL; CROSS JOIN
-- keeps the order in which tables are read.

-- name: look (session text, demands text[], known_demands bigint, now bigint): EXISTS stops at the first entry of a
-- partial index. Is an exchange worthwhile for a node that has nothing to report; until something is due; is there a
-- leader
SELECT coalesce((SELECT s.state <> 'live' FROM sessions s WHERE s.id = :session), 1)
  OR coalesce(at.due <= :now, 0)
  OR EXISTS (SELECT 1 FROM tasks WHERE NOT settled)
  OR EXISTS (SELECT 1 FROM runs WHERE sweep IS NOT NULL) OR EXISTS (SELECT 1 FROM tasks WHERE child_action IS NOT NULL)
  OR EXISTS (SELECT 1 FROM runs WHERE NOT reported)
  OR EXISTS (SELECT 1 FROM tasks WHERE session = :session AND stop IS NOT NULL)
  OR coalesce((SELECT max(no) FROM demands), 0) > :known_demands
  OR EXISTS (SELECT 1 FROM json_each(:demands) j CROSS JOIN tasks q ON q.state = 'queued' AND q.demand = j.value),
  max(0, at.due - :now),
  EXISTS (SELECT 1 FROM leadership d JOIN leases l ON l.session = d.session
          WHERE d.one = 1 AND d.expires_at > :now AND l.expires_at > :now)
FROM (SELECT min(moment) AS due FROM (
  SELECT min(wake_at) AS moment FROM tasks WHERE wake_at IS NOT NULL
  UNION ALL
  SELECT min(deadline_at) FROM runs WHERE deadline_at IS NOT NULL AND finished_at IS NULL)) at

-- name: held_digest (session text): without LATERAL. What weft.core.liveness.digest computes on the node
SELECT s.exchange, count(t.id), coalesce(sum((t.id % 1000003) * (t.attempt % 1009 + 1)), 0)
FROM sessions s LEFT JOIN tasks t ON t.session = s.id AND t.held IS NULL WHERE s.id = :session GROUP BY s.exchange

-- name: run_facts (nos json): without LATERAL
SELECT r.no, r.id, r.name, r.workflow, r.inputs, r.source, r.fresh, r.generation FROM runs r WHERE r.no IN :nos ORDER BY r.no

-- name: run_states (ids json): without LATERAL. Of those of the runs that there are
SELECT r.id, r.state, r.name FROM runs r WHERE r.id IN :ids ORDER BY r.id

-- name: tasks_waiting_of_family (run_no bigint, limit int): without LATERAL. Of runs of which nothing is at work
SELECT t.id, r.id, r.workflow, t.pos
FROM runs r CROSS JOIN tasks t ON t.id >= r.no << {ordinal_bits} AND t.id < (r.no + 1) << {ordinal_bits}
WHERE r.root = (SELECT f.root FROM runs f WHERE f.no = :run_no) AND r.finished_at IS NULL AND r.active = 0
AND t.state = 'waiting' ORDER BY t.id LIMIT :limit

-- name: tasks_page (after bigint, end bigint, states json, all_generations boolean, limit bigint): needs no window
SELECT {task_view} FROM tasks t {task_joins}
WHERE t.id > :after AND t.id < :end
AND (:states IS NULL OR t.state IN :states) AND (:all_generations OR ({current}))
ORDER BY t.id LIMIT :limit

-- name: tasks_at (run_no bigint, positions json, idx int, all_generations boolean): without LATERAL. At these positions of
-- a run, with this index
SELECT {task_view} FROM (
  SELECT (:run_no << {ordinal_bits}) + j.value AS id FROM json_each(:positions) j WHERE :idx < 0
  UNION ALL
  SELECT p.id FROM json_each(:positions) j CROSS JOIN tasks p
  ON p.run_no = :run_no AND p.pos = j.value AND p.idx = :idx AND {later}
) f CROSS JOIN tasks t ON t.id = f.id {task_joins}
WHERE :all_generations OR ({current}) ORDER BY t.id

-- name: dead_page (after bigint, limit int): needs no window. Run by run; `state =` without the sign would make an index
-- of all tasks, for this one read
SELECT {task_view} FROM runs d CROSS JOIN tasks t
ON t.id > max(:after, (d.no << {ordinal_bits}) - 1) AND t.id < (d.no + 1) << {ordinal_bits} {task_joins}
WHERE d.dead_letter > 0 AND d.no >= :after >> {ordinal_bits} AND +t.state = 'dead_letter' AND {current}
ORDER BY d.no, t.id LIMIT :limit

-- name: attempts_of_task (run_no bigint, pos int, idx int): without LATERAL
SELECT {attempt_view} FROM (
  SELECT a.* FROM {task_ids} CROSS JOIN attempts a ON a.task_id = i.id
  UNION ALL SELECT {success} FROM {task_ids} CROSS JOIN tasks t ON t.id = i.id WHERE t.ended_at IS NOT NULL) a ORDER BY a.attempt

-- part: event_view
SELECT e.seq, e.at, e.run_no, e.pos, e.idx, e.kind, e.session, e.many, e.data, s.node, r.id, r.workflow
FROM events e LEFT JOIN sessions s ON s.id = e.session LEFT JOIN runs r ON r.no = e.run_no

-- name: events_found (after bigint, kinds json, sessions json, since bigint, until bigint, limit bigint, settled bigint):
-- needs no window. Of the whole cluster
{event_view} WHERE e.seq > :after AND {wanted_event} ORDER BY e.seq LIMIT :limit

-- name: events_found_of_run
-- (after bigint, kinds json, sessions json, since bigint, until bigint, limit bigint, settled bigint, run_no bigint):
-- needs no window
{event_view} WHERE e.run_no = :run_no AND e.seq > :after AND {wanted_event} ORDER BY e.seq LIMIT :limit

-- name: result_hashes (first bigint, end bigint): without LATERAL
SELECT t.id, coalesce(t.result_hash, a.result_hash) FROM tasks t
LEFT JOIN attempts a ON a.task_id = t.id AND a.attempt = t.attempt AND a.outcome = 'succeeded'
WHERE t.id >= :first AND t.id < :end AND t.state = 'succeeded' AND (t.ended_at IS NOT NULL OR a.task_id IS NOT NULL)

-- name: pool_queue: without LATERAL. (demand, how many) of what is queued with a place to take
SELECT t.demand, count(*) FROM tasks t WHERE t.state = 'queued' AND instr(t.demand, '@') > 0
GROUP BY t.demand ORDER BY t.demand

-- name: pool_holders: without LATERAL. Running tasks that hold places
SELECT r.id, r.workflow, t.pos, t.idx, t.demand, s.node FROM tasks t JOIN runs r ON r.no = t.run_no
LEFT JOIN sessions s ON s.id = t.session
WHERE t.session IS NOT NULL AND t.state = 'running' AND instr(t.demand, '@') > 0 ORDER BY t.claimed_at, t.id

-- name: ends_to_follow (limit int, settled bigint): without LATERAL. A trigger and the end of a run that it follows: event,
-- run, its name, what the event says
SELECT {trigger}, e.seq, r.id, r.name, e.data FROM triggers g
CROSS JOIN events e ON e.kind = 'run_finished' AND e.seq > g.cursor AND e.seq <= :settled
CROSS JOIN runs r ON r.no = e.run_no AND r.name = g.key AND r.parent IS NULL
WHERE g.kind = 'after' AND g.key IS NOT NULL AND g.active AND NOT g.paused ORDER BY g.id, e.seq LIMIT :limit

-- name: triggers_all (workflow text): without LATERAL
SELECT {trigger}, f.cause, f.due_at, f.at, f.outcome, f.run, f.reason,
  (SELECT count(*) FROM fires q WHERE q.outcome = 'queued' AND q."trigger" = g.id),
  (SELECT count(*) FROM runs r WHERE r."trigger" IS NOT NULL AND r."trigger" = g.id AND r.finished_at IS NULL)
FROM triggers g LEFT JOIN fires f ON f.rowid = (
  SELECT l.rowid FROM fires l WHERE l."trigger" = g.id ORDER BY l.at DESC, l.due_at DESC LIMIT 1)
WHERE g.active AND (:workflow IS NULL OR g.workflow = :workflow) ORDER BY g.id

-- name: metrics_queue: without LATERAL. (state, priority, how many, since when the oldest); each state has an index of its
-- own
SELECT t.state, r.priority, count(*), min(t.ready_at) FROM tasks t CROSS JOIN runs r ON r.no = t.run_no
WHERE t.state = 'queued' GROUP BY t.state, r.priority
UNION ALL SELECT t.state, r.priority, count(*), min(t.wake_at) FROM tasks t CROSS JOIN runs r ON r.no = t.run_no
WHERE t.wake_at IS NOT NULL AND t.state = 'scheduled' GROUP BY t.state, r.priority
UNION ALL SELECT t.state, r.priority, count(*), min(t.claimed_at) FROM tasks t CROSS JOIN runs r ON r.no = t.run_no
WHERE t.session IS NOT NULL AND t.state = 'running' AND t.held IS NULL GROUP BY t.state, r.priority
ORDER BY 1, 2

-- name: output_read (run_no bigint, pos int, idx int, attempt bigint, stream text, offset bigint, longest bigint): without
-- LATERAL. From an offset on; the first may begin before it, and one may begin after a gap
SELECT o.at, o.data FROM {task_ids} CROSS JOIN output_chunks o ON o.task_id = i.id
WHERE o.attempt = :attempt AND o.stream = :stream
AND o.at > :offset - :longest AND o.at + length(o.data) > :offset ORDER BY o.at LIMIT 1

-- name: output_sent (run_no bigint, pos int, idx int, attempt bigint, stream text): without LATERAL. How far it is there
SELECT coalesce(max(o.at + length(o.data)), 0) FROM {task_ids} CROSS JOIN output_chunks o ON o.task_id = i.id
WHERE o.attempt = :attempt AND o.stream = :stream

-- name: output_tasks (run_no bigint, pos int, idx int, attempt bigint, stream text): of a replica, which has no output. (task
-- that has the attempt, bytes of the stream if it has ended)
SELECT t.id, e.size FROM {task_ids} CROSS JOIN tasks t ON t.id = i.id
LEFT JOIN output_ends e ON e.task_id = t.id AND e.attempt = :attempt AND e.stream = :stream
WHERE t.attempt = :attempt OR EXISTS (SELECT 1 FROM attempts a WHERE a.task_id = t.id AND a.attempt = :attempt)

-- name: output_state (run_no bigint, pos int, idx int, attempt bigint, stream text): without LATERAL. (size if all was
-- sent, how the attempt ended, its result, its node, whether that is gone)
SELECT e.size, CASE WHEN t.ended_at IS NOT NULL AND t.attempt = :attempt THEN 'succeeded' ELSE a.outcome END,
  CASE WHEN e.size IS NULL THEN coalesce(a.result, t.result) END, s.node, s.id IS NULL OR s.ended_at IS NOT NULL
FROM {task_ids} CROSS JOIN tasks t ON t.id = i.id
LEFT JOIN attempts a ON a.task_id = t.id AND a.attempt = :attempt
LEFT JOIN output_ends e ON e.task_id = t.id AND e.attempt = :attempt AND e.stream = :stream
LEFT JOIN sessions s ON s.id = coalesce(a.session, t.ran_by, t.session)
WHERE a.attempt IS NOT NULL OR (t.attempt = :attempt AND (t.state = 'running' OR t.ended_at IS NOT NULL))
