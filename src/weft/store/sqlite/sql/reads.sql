-- Reads outside of rules. They change nothing.

-- name: sessions_live
SELECT s.id, coalesce((SELECT l.expires_at <= ?1 FROM leases l WHERE l.session = s.id), 1)
FROM sessions s WHERE s.ended_at IS NULL ORDER BY s.id

-- name: look: is an exchange worthwhile for a node that has nothing to report; until something is due; is there a leader
SELECT coalesce((SELECT s.state <> 'live' FROM sessions s WHERE s.id = ?1), 1)
  OR coalesce(at.due <= ?4, 0)
  OR EXISTS (SELECT 1 FROM tasks WHERE settled = 0)
  OR EXISTS (SELECT 1 FROM runs WHERE sweep IS NOT NULL) OR EXISTS (SELECT 1 FROM tasks WHERE errand IS NOT NULL)
  OR EXISTS (SELECT 1 FROM runs WHERE told = 0)
  OR EXISTS (SELECT 1 FROM tasks WHERE session = ?1 AND stop IS NOT NULL)
  OR coalesce((SELECT max(no) FROM demands), 0) > ?3
  OR EXISTS (SELECT 1 FROM json_each(?2) j CROSS JOIN tasks q ON q.state = 'queued' AND q.demand = j.value),
  max(0, at.due - ?4),
  EXISTS (SELECT 1 FROM leadership d JOIN leases l ON l.session = d.session
          WHERE d.one = 1 AND d.expires_at > ?4 AND l.expires_at > ?4)
FROM (SELECT min(moment) AS due FROM (
  SELECT min(wake_at) AS moment FROM tasks WHERE wake_at IS NOT NULL
  UNION ALL
  SELECT min(deadline_at) FROM runs WHERE deadline_at IS NOT NULL AND finished_at IS NULL)) at

-- name: held_digest: what weft.core.liveness.digest computes on the node
SELECT s.exchange, count(t.id), coalesce(sum((t.id % 1000003) * (t.attempt % 1009 + 1)), 0)
FROM sessions s LEFT JOIN tasks t ON t.session = s.id AND t.held IS NULL WHERE s.id = ? GROUP BY s.exchange

-- name: leader: who leads, until when, until when its own lease lasts
SELECT d.term, d.session, d.expires_at, (SELECT l.expires_at FROM leases l WHERE l.session = d.session)
FROM leadership d WHERE d.one = 1

-- name: leader_left: who leads, and for how long at least: no longer than its own lease lasts
SELECT d.session, max(0, min(d.expires_at, l.expires_at) - ?1)
FROM leadership d JOIN leases l ON l.session = d.session WHERE d.one = 1

-- name: run_facts
SELECT r.no, r.id, r.name, r.workflow, r.inputs, r.source, r.fresh FROM json_each(?) j CROSS JOIN runs r ON r.no = j.value ORDER BY r.no

-- name: records_cached: results that may stand for others now
SELECT {record} FROM json_each(?1) j CROSS JOIN records k ON k.key = j.value
WHERE k.kind = 'cache' AND (k.expires_at IS NULL OR k.expires_at > ?2) ORDER BY k.key

-- part: run_view
{run}, r.inputs, r.source, r.key, (SELECT p.id FROM runs p WHERE p.no = r.parent >> 24), (SELECT f.id FROM runs f WHERE f.no = r.root)

-- name: run_shown
SELECT {run_view} FROM runs r WHERE r.no = ?1

-- name: runs_page
SELECT {run_view} FROM runs r WHERE r.no < ?1
AND (?2 IS NULL OR r.state IN (SELECT value FROM json_each(?2)))
AND (?3 IS NULL OR r.name = ?3)
AND (?5 OR r.parent IS NULL)
ORDER BY r.no DESC LIMIT ?4

-- name: runs_of_family
SELECT r.no, r.id, r.parent FROM runs r WHERE r.root = (SELECT f.root FROM runs f WHERE f.no = ?1) ORDER BY r.no

-- name: tasks_waiting_of_family: of runs of which nothing is at work
SELECT t.id, r.id, r.workflow, t.pos FROM runs r CROSS JOIN tasks t ON t.id >= r.no << {ordinal_bits} AND t.id < (r.no + 1) << {ordinal_bits}
WHERE r.root = (SELECT f.root FROM runs f WHERE f.no = ?1) AND r.finished_at IS NULL AND r.active = 0
AND t.state = 'waiting' ORDER BY t.id LIMIT ?2

-- name: runs_by_prefix
SELECT no, id FROM runs WHERE id >= ?1 AND id < ?2 ORDER BY id LIMIT 5

-- name: run_last
SELECT no, id FROM runs WHERE parent IS NULL ORDER BY no DESC LIMIT 1

-- name: run_state
SELECT state FROM runs WHERE no = ?

-- part: current: the newest generation of a task, and no element that only an earlier one had
t.generation = coalesce(
  (SELECT max(p.generation) FROM tasks p WHERE p.run_no = t.run_no AND p.pos = t.pos AND p.idx = t.idx AND {later}), 1)
AND (t.idx < 0 OR t.idx < (SELECT w.elements FROM tasks w WHERE w.id = coalesce(
  (SELECT max(p.id) FROM tasks p WHERE p.run_no = t.run_no AND p.pos = t.pos AND p.idx = -1 AND {later}),
  (t.run_no << {ordinal_bits}) + t.pos)))

-- part: task_view
{task}, r.id, r.workflow, s.node, a.exit_code, a.session, (SELECT n.node FROM sessions n WHERE n.id = a.session), a.cached,
  (SELECT l.expires_at FROM leases l WHERE l.session = t.session), (SELECT c.id FROM runs c WHERE c.no = t.child)

-- part: beside_task
CROSS JOIN runs r ON r.no = t.run_no
LEFT JOIN sessions s ON s.id = t.session
LEFT JOIN attempts a ON a.task_id = t.id AND a.attempt = t.attempt

-- name: tasks_page
SELECT {task_view} FROM tasks t {beside_task}
WHERE t.id > ?1 AND t.id < ?2
AND (?3 IS NULL OR t.state IN (SELECT value FROM json_each(?3))) AND (?4 OR ({current}))
ORDER BY t.id LIMIT ?5

-- name: tasks_at: at these positions of a run, with this index
SELECT {task_view} FROM (
  SELECT (?1 << {ordinal_bits}) + j.value AS id FROM json_each(?2) j WHERE ?3 < 0
  UNION ALL
  SELECT p.id FROM json_each(?2) j CROSS JOIN tasks p ON p.run_no = ?1 AND p.pos = j.value AND p.idx = ?3 AND {later}
) f CROSS JOIN tasks t ON t.id = f.id {beside_task}
WHERE ?4 OR ({current}) ORDER BY t.id

-- name: dead_page: run by run; `state =` without the sign would make an index of all tasks, for this one read
SELECT {task_view} FROM runs d CROSS JOIN tasks t ON t.id > max(?1, (d.no << {ordinal_bits}) - 1) AND t.id < (d.no + 1) << {ordinal_bits} {beside_task}
WHERE d.dead_letter > 0 AND d.no >= ?1 >> {ordinal_bits} AND +t.state = 'dead_letter' AND {current}
ORDER BY d.no, t.id LIMIT ?2

-- part: task_ids: of one place, in all generations
(SELECT (?1 << {ordinal_bits}) + ?2 AS id WHERE ?3 < 0
 UNION ALL SELECT p.id FROM tasks p WHERE p.run_no = ?1 AND p.pos = ?2 AND p.idx = ?3 AND {later}) i

-- name: attempts_of_task
SELECT a.attempt, a.generation, a.session, a.outcome, a.exit_code, a.error, a.claimed_at, a.started_at,
       a.finished_at, a.result, (SELECT s.node FROM sessions s WHERE s.id = a.session), a.cached
FROM {task_ids} CROSS JOIN attempts a ON a.task_id = i.id ORDER BY a.attempt

-- part: wanted_event
(?2 IS NULL OR e.kind IN (SELECT value FROM json_each(?2)))
AND (?3 IS NULL OR e.session IN (SELECT value FROM json_each(?3)))
AND (?4 IS NULL OR e.at >= ?4) AND (?5 IS NULL OR e.at < ?5) AND e.seq <= ?7

-- name: events_found: of the whole cluster
SELECT e.seq, e.at, e.run_no, e.pos, e.idx, e.kind, e.session, e.data, s.node, r.id, r.workflow
FROM events e LEFT JOIN sessions s ON s.id = e.session LEFT JOIN runs r ON r.no = e.run_no
WHERE e.seq > ?1 AND {wanted_event} ORDER BY e.seq LIMIT ?6

-- name: events_found_of_run
SELECT e.seq, e.at, e.run_no, e.pos, e.idx, e.kind, e.session, e.data, s.node, r.id, r.workflow
FROM events e LEFT JOIN sessions s ON s.id = e.session LEFT JOIN runs r ON r.no = e.run_no
WHERE e.run_no = ?8 AND e.seq > ?1 AND {wanted_event} ORDER BY e.seq LIMIT ?6

-- name: event_last
SELECT coalesce(max(seq), 0) FROM events

-- name: sessions_all
SELECT s.id, s.node, s.state, s.started_at, s.ended_at, s.body, s.role, s.drain_at,
  (SELECT id FROM runs WHERE no = s.scope), (SELECT expires_at FROM leases l WHERE l.session = s.id),
  (SELECT count(*) FROM tasks t WHERE t.session = s.id AND t.held IS NULL), f.at, f.body
FROM sessions s LEFT JOIN node_facts f ON f.session = s.id
WHERE ?1 OR s.ended_at IS NULL ORDER BY s.started_at, s.id

-- name: count_runs
SELECT state, count(*) FROM runs GROUP BY state

-- name: count_tasks
SELECT state, count(*) FROM tasks GROUP BY state

-- name: count_events
SELECT count(*) FROM events

-- name: count_stale
SELECT count(*) FROM stale_reports

-- name: count_stale_of_session
SELECT count(*) FROM stale_reports WHERE session = ?

-- part: in_queue
(SELECT count(*) FROM tasks t WHERE t.state = 'queued' AND t.demand = ?1 AND

-- name: tasks_queued_between: from this place in the queue on, before that one; a range of (rank, id) pairs would be read
-- to the end of the last rank
SELECT {in_queue} t.rank = ?2 AND t.id >= ?3 AND t.id < CASE WHEN ?2 = ?4 THEN ?5 ELSE 1 << 62 END)
  + {in_queue} t.rank > ?2 AND t.rank < ?4)
  + {in_queue} ?2 < ?4 AND t.rank = ?4 AND t.id < ?5)

-- name: run_at_work: something of it runs, waits, or is about to run without anybody's doing
SELECT EXISTS (SELECT 1 FROM tasks t WHERE t.id >= ?1 AND t.id < ?2 AND t.held IS NULL
  AND (t.state IN ('queued', 'scheduled', 'waiting') OR (t.state = 'running' AND t.elements IS NULL)
       OR (t.state = 'pending' AND t.ready_at IS NOT NULL AND t.admitted > 0)))

-- name: demand_body
SELECT body FROM demands WHERE id = ?

-- name: result_hashes
SELECT t.id, a.result_hash FROM tasks t CROSS JOIN attempts a ON a.task_id = t.id AND a.attempt = t.attempt
WHERE t.id >= ?1 AND t.id < ?2 AND t.state = 'succeeded' AND a.outcome = 'succeeded'

-- name: placing_waits: one look at the index; mostly there is nothing
SELECT EXISTS (SELECT 1 FROM tasks t WHERE t.state = 'queued' AND t.demand >= 'place:' AND t.demand < 'place;')
  OR EXISTS (SELECT 1 FROM tasks t WHERE t.state = 'queued' AND t.demand >= 'session:' AND t.demand < 'session;'
             AND t.wake_at IS NOT NULL)

-- name: pools_all
SELECT p.name, p.size, p.used FROM pools p ORDER BY p.name

-- name: pool_queue: (demand, how many) of what is queued with a place to take
SELECT t.demand, count(*) FROM tasks t WHERE t.state = 'queued' AND instr(t.demand, '@') > 0
GROUP BY t.demand ORDER BY t.demand

-- name: pool_holders: running tasks that hold places
SELECT r.id, r.workflow, t.pos, t.idx, t.demand, s.node FROM tasks t JOIN runs r ON r.no = t.run_no
LEFT JOIN sessions s ON s.id = t.session
WHERE t.session IS NOT NULL AND t.state = 'running' AND instr(t.demand, '@') > 0 ORDER BY t.claimed_at, t.id

-- name: arrays_of_run
SELECT pos, generation, value FROM arrays WHERE run_no = ? ORDER BY pos, generation

-- name: workflows_page: each name with its newest version
SELECT w.name, w.hash, w.created_at, (SELECT count(*) FROM workflows v WHERE v.name = w.name) FROM workflows w
WHERE w.name > ?1 AND NOT EXISTS (SELECT 1 FROM workflows n WHERE n.name = w.name
  AND (n.created_at > w.created_at OR (n.created_at = w.created_at AND n.hash > w.hash)))
ORDER BY w.name LIMIT ?2

-- name: workflow_versions: newest first
SELECT w.hash, w.created_at FROM workflows w WHERE w.name = ?1
AND (?2 IS NULL OR w.created_at < ?2 OR (w.created_at = ?2 AND w.hash < ?3))
ORDER BY w.created_at DESC, w.hash DESC LIMIT ?4

-- name: workflow_versions_by_prefix
SELECT w.hash, w.created_at FROM workflows w WHERE w.name = ?1 AND w.hash >= ?2 AND w.hash < ?3 ORDER BY w.hash LIMIT 2

-- name: attempts_of_session: (outcome, how many, the last one's end), among so many of the newest tasks'
SELECT a.outcome, count(*), max(a.finished_at)
FROM (SELECT session, outcome, finished_at FROM attempts ORDER BY task_id DESC LIMIT ?2) a
WHERE a.session = ?1 GROUP BY a.outcome ORDER BY a.outcome

-- name: attempts_beyond: are there more than so many?
SELECT EXISTS (SELECT 1 FROM attempts ORDER BY task_id DESC LIMIT 1 OFFSET ?1)

-- name: facts_of_session
SELECT f.at, f.body FROM node_facts f WHERE f.session = ?1

-- name: tasks_of_session: what it holds
SELECT r.id, r.workflow, t.pos, t.idx, t.attempt, t.claimed_at, t.started_at FROM tasks t JOIN runs r ON r.no = t.run_no
WHERE t.session = ?1 AND t.held IS NULL ORDER BY t.id LIMIT ?2

-- name: session_activity: (exchanges, last claim of what it holds, how much it holds)
SELECT s.exchange, (SELECT max(t.claimed_at) FROM tasks t WHERE t.session = s.id AND t.held IS NULL),
  (SELECT count(*) FROM tasks t WHERE t.session = s.id AND t.held IS NULL) FROM sessions s WHERE s.id = ?1

-- name: count_sessions_dead
SELECT count(*) FROM sessions s WHERE s.node = ?1 AND s.state = 'dead'

-- name: triggers_due: their time has come, or a queued fire's turn
SELECT {trigger_row} FROM triggers g WHERE g.active AND NOT g.paused AND (g.next_ms <= ?1 OR EXISTS (
  SELECT 1 FROM fires f WHERE f.outcome = 'queued' AND f."trigger" = g.id AND NOT EXISTS (
    SELECT 1 FROM runs r WHERE r."trigger" IS NOT NULL AND r."trigger" = g.id AND r.finished_at IS NULL)))
ORDER BY g.id

-- name: triggers_next: when the next one's time comes, and whether one follows runs
SELECT min(next_ms), count(*) FILTER (WHERE kind = 'after' AND key IS NOT NULL) > 0 FROM triggers WHERE active AND NOT paused

-- name: ends_to_follow: a trigger and the end of a run that it follows: event, run, its name, what the event says
SELECT {trigger_row}, e.seq, r.id, r.name, e.data FROM triggers g
CROSS JOIN events e ON e.kind = 'run_finished' AND e.seq > g.cursor CROSS JOIN runs r ON r.no = e.run_no AND r.name = g.key AND r.parent IS NULL
WHERE g.kind = 'after' AND g.key IS NOT NULL AND g.active AND NOT g.paused ORDER BY g.id, e.seq LIMIT ?1

-- name: triggers_behind: those that follow runs, and have not looked at the newest events for long
SELECT {trigger_row} FROM triggers g
WHERE g.kind = 'after' AND g.key IS NOT NULL AND g.active AND NOT g.paused AND g.cursor < ?1 ORDER BY g.id

-- name: triggers_all
SELECT {trigger_row}, f.cause, f.due_at, f.at, f.outcome, f.run, f.reason,
  (SELECT count(*) FROM fires q WHERE q.outcome = 'queued' AND q."trigger" = g.id),
  (SELECT count(*) FROM runs r WHERE r."trigger" IS NOT NULL AND r."trigger" = g.id AND r.finished_at IS NULL)
FROM triggers g LEFT JOIN fires f ON f.rowid = (
  SELECT l.rowid FROM fires l WHERE l."trigger" = g.id ORDER BY l.at DESC, l.due_at DESC LIMIT 1)
WHERE g.active AND (?1 IS NULL OR g.workflow = ?1) ORDER BY g.id

-- name: fires_page: newest first
SELECT {fire_row} FROM fires f WHERE f."trigger" = ?1 ORDER BY f.at DESC, f.due_at DESC LIMIT ?2

-- name: applied_all
SELECT name, hash, source, at, by FROM applied ORDER BY name

-- name: trigger_now
SELECT {trigger_row} FROM triggers g WHERE g.id = ?1 AND g.active

-- name: webhook_by_name
SELECT {trigger_row} FROM triggers g WHERE g.kind = 'webhook' AND g.key IS NOT NULL AND g.key = ?1 AND g.active

-- name: tokens_all: newest last
SELECT t.id, t.hash, t.label, t.role, t.created_at, t.expires_at, t.revoked_at FROM tokens t WHERE ?1 IS NULL OR t.id = ?1 ORDER BY t.created_at, t.id

-- name: metrics_queue: (state, priority, how many, since when the oldest); each state has an index of its own
SELECT t.state, r.priority, count(*), min(t.ready_at) FROM tasks t CROSS JOIN runs r ON r.no = t.run_no
WHERE t.state = 'queued' GROUP BY t.state, r.priority
UNION ALL SELECT t.state, r.priority, count(*), min(t.wake_at) FROM tasks t CROSS JOIN runs r ON r.no = t.run_no
WHERE t.wake_at IS NOT NULL AND t.state = 'scheduled' GROUP BY t.state, r.priority
UNION ALL SELECT t.state, r.priority, count(*), min(t.claimed_at) FROM tasks t CROSS JOIN runs r ON r.no = t.run_no
WHERE t.session IS NOT NULL AND t.state = 'running' AND t.held IS NULL GROUP BY t.state, r.priority
ORDER BY 1, 2

-- name: metrics_open: (priority, tasks that have not ended) of runs that have not
SELECT r.priority, sum(r.open) FROM runs r WHERE r.state IN ('pending', 'running') GROUP BY r.priority ORDER BY r.priority

-- name: metrics_dead_letters
SELECT coalesce(sum(r.dead_letter), 0) FROM runs r WHERE r.dead_letter > 0

-- name: metrics_stale: by node
SELECT coalesce(s.node, ''), count(*) FROM stale_reports p LEFT JOIN sessions s ON s.id = p.session GROUP BY 1 ORDER BY 1

-- name: metrics_expired: sessions of each node that others ended
SELECT s.node, count(*) FROM sessions s WHERE s.state = 'dead' GROUP BY s.node ORDER BY s.node

-- name: metrics_counted: what live nodes say of themselves
SELECT s.node, f.body FROM sessions s JOIN node_facts f ON f.session = s.id WHERE s.ended_at IS NULL ORDER BY s.node, s.id
