-- Reads outside of rules. They change nothing. Lists come as JSON text, as in the other dialect.
--
-- They run with the server's own settings, often on tables that nobody has analysed yet, and a plan may be kept from when
-- a table was small. So no plan may have a choice that matters (tests/postgres/test_plans.py looks at all of them):
-- what stands beside a row is looked up in a LATERAL subquery that OFFSET 0 keeps apart, and a page is read in windows
-- of its key. With ORDER BY and LIMIT alone PostgreSQL sorted all that was left of a run for each page: 40,000 tasks
-- took 4 s, 200,000 took 256 s.

-- name: sessions_live
SELECT s.id, coalesce((SELECT l.expires_at <= c.now FROM leases l WHERE l.session = s.id), true)
FROM (SELECT coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now) c CROSS JOIN sessions s WHERE s.ended_at IS NULL ORDER BY s.id

-- name: look: is an exchange worthwhile for a node that has nothing to report; until something is due; is there a leader.
-- min() and not EXISTS: without statistics that expects half of all tasks to be unsettled, and would read them all to find none
WITH at AS MATERIALIZED (
  SELECT coalesce($4::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint) AS now, least(
    (SELECT min(wake_at) FROM tasks WHERE wake_at IS NOT NULL),
    (SELECT deadline_at FROM runs WHERE deadline_at IS NOT NULL AND finished_at IS NULL
     ORDER BY deadline_at LIMIT 1)) AS due)
SELECT coalesce((SELECT s.state <> 'live' FROM sessions s WHERE s.id = $1::text), true)
  OR coalesce(at.due <= at.now, false)
  OR (SELECT min(id) FROM tasks WHERE NOT settled) IS NOT NULL
  OR (SELECT min(no) FROM runs WHERE sweep IS NOT NULL) IS NOT NULL
  OR (SELECT min(id) FROM tasks WHERE errand IS NOT NULL) IS NOT NULL
  OR (SELECT min(no) FROM runs WHERE NOT told) IS NOT NULL
  OR EXISTS (SELECT 1 FROM tasks WHERE session = $1::text AND stop IS NOT NULL)
  OR coalesce((SELECT max(no) FROM demands), 0) > $3::bigint
  OR EXISTS (SELECT 1 FROM unnest($2::text[]) AS d (demand) CROSS JOIN LATERAL (
    SELECT 1 FROM tasks q WHERE q.state = 'queued' AND q.demand = d.demand ORDER BY q.rank, q.id LIMIT 1) q),
  CASE WHEN at.due IS NOT NULL THEN greatest(0, at.due - at.now) END,
  coalesce((SELECT d.expires_at > at.now AND (SELECT l.expires_at FROM leases l WHERE l.session = d.session) > at.now
            FROM leadership d WHERE d.one = 1), false)
FROM at

-- name: held_digest: what weft.core.liveness.digest computes on the node
SELECT s.exchange, h.many, h.checksum FROM sessions s CROSS JOIN LATERAL (
  SELECT count(*) AS many, coalesce(sum((t.id % 1000003) * (t.attempt % 1009 + 1)), 0)::bigint AS checksum
  FROM tasks t WHERE t.session = s.id AND t.held IS NULL) h
WHERE s.id = $1::text

-- name: leader: who leads, until when, until when its own lease lasts
SELECT d.term, d.session, d.expires_at, (SELECT l.expires_at FROM leases l WHERE l.session = d.session)
FROM leadership d WHERE d.one = 1

-- name: leader_left: who leads, and for how long at least: no longer than its own lease lasts
SELECT h.session, greatest(0, least(h.expires_at, h.lease_until)
  - coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint))
FROM (SELECT d.session, d.expires_at, (SELECT l.expires_at FROM leases l WHERE l.session = d.session) AS lease_until
      FROM leadership d WHERE d.one = 1) h WHERE h.lease_until IS NOT NULL

-- name: run_facts
SELECT r.no, r.id, r.name, r.workflow, r.inputs, r.source, r.fresh FROM json_array_elements_text($1::text::json) AS j (no)
CROSS JOIN LATERAL (SELECT * FROM runs x WHERE x.no = j.no::bigint OFFSET 0) r ORDER BY r.no

-- name: records_cached: results that may stand for others now
SELECT {record} FROM records k WHERE k.key = ANY(ARRAY(SELECT json_array_elements_text($1::text::json)))
AND k.kind = 'cache' AND (k.expires_at IS NULL OR k.expires_at > $2::bigint) ORDER BY k.key

-- part: run_view
{run}, r.inputs, r.source, r.key, (SELECT p.id FROM runs p WHERE p.no = r.parent >> 24), (SELECT f.id FROM runs f WHERE f.no = r.root)

-- name: run_shown
SELECT {run_view} FROM runs r WHERE r.no = $1::bigint

-- name: runs_page
SELECT {run_view} FROM runs r WHERE r.no < $1::bigint
AND ($2::text IS NULL OR r.state IN (SELECT json_array_elements_text($2::text::json)))
AND ($3::text IS NULL OR r.name = $3::text)
AND ($5::boolean OR r.parent IS NULL)
ORDER BY r.no DESC LIMIT $4::int

-- name: runs_of_family
SELECT r.no, r.id, r.parent FROM runs r WHERE r.root = (SELECT f.root FROM runs f WHERE f.no = $1::bigint) ORDER BY r.no

-- name: tasks_waiting_of_family: of runs of which nothing is at work
SELECT t.id, r.id, r.workflow, t.pos FROM runs r CROSS JOIN LATERAL (
  SELECT w.id, w.pos FROM tasks w WHERE w.id >= r.no << {ordinal_bits} AND w.id < (r.no + 1) << {ordinal_bits} AND w.state = 'waiting' OFFSET 0) t
WHERE r.root = (SELECT f.root FROM runs f WHERE f.no = $1::bigint) AND r.finished_at IS NULL AND r.active = 0
ORDER BY t.id LIMIT $2::int

-- name: runs_by_prefix
SELECT no, id FROM runs WHERE id >= $1::text AND id < $2::text ORDER BY id LIMIT 5

-- name: run_last
SELECT no, id FROM runs WHERE parent IS NULL ORDER BY no DESC LIMIT 1

-- name: run_state
SELECT state FROM runs WHERE no = $1::bigint

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
CROSS JOIN LATERAL (SELECT x.id, x.workflow FROM runs x WHERE x.no = t.run_no OFFSET 0) r
LEFT JOIN LATERAL (SELECT x.node FROM sessions x WHERE x.id = t.session OFFSET 0) s ON true
LEFT JOIN LATERAL (
  SELECT x.exit_code, x.session, x.cached FROM attempts x WHERE x.task_id = t.id AND x.attempt = t.attempt OFFSET 0) a ON true

-- name: tasks_page: a window is as many ids as the page has rows, from the next one on that there is
WITH RECURSIVE page (at, ids, many) AS (
  SELECT $1::bigint, ARRAY[]::bigint[], 0
  UNION ALL
  SELECT w.last, f.ids, p.many + cardinality(f.ids) FROM page p
  CROSS JOIN LATERAL (SELECT min(n.id) + greatest($5::bigint, 100) - 1 AS last FROM tasks n WHERE n.id > p.at) w
  CROSS JOIN LATERAL (SELECT ARRAY(
    SELECT t.id FROM tasks t WHERE t.id > p.at AND t.id <= w.last AND t.id < $2::bigint
    AND ($3::text IS NULL OR t.state IN (SELECT json_array_elements_text($3::text::json))) AND ($4::boolean OR ({current}))
    ORDER BY t.id) AS ids OFFSET 0) f
  WHERE p.at < $2::bigint - 1 AND p.many < $5::bigint)
SELECT {task_view} FROM (SELECT unnest(p.ids) AS id FROM page p ORDER BY 1 LIMIT $5::bigint) i
CROSS JOIN LATERAL (SELECT * FROM tasks x WHERE x.id = i.id OFFSET 0) t {beside_task}
ORDER BY t.id

-- name: tasks_at: at these positions of a run, with this index
SELECT {task_view} FROM json_array_elements_text($2::text::json) AS j (pos) CROSS JOIN LATERAL (
  SELECT * FROM tasks p WHERE $3::int < 0 AND p.id = ($1::bigint << {ordinal_bits}) + j.pos::int
  UNION ALL
  SELECT * FROM tasks p WHERE p.run_no = $1::bigint AND p.pos = j.pos::int AND p.idx = $3::int AND {later} OFFSET 0) t
{beside_task}
WHERE $4::boolean OR ({current}) ORDER BY t.id

-- name: dead_page: windows of the runs that have some
WITH RECURSIVE page (at, ids, many) AS (
  SELECT $1::bigint, ARRAY[]::bigint[], 0
  UNION ALL
  SELECT w.last, f.ids, p.many + cardinality(f.ids) FROM page p
  CROSS JOIN LATERAL (
    SELECT greatest(p.at + 1, r.no << {ordinal_bits}) AS first, greatest(p.at, (r.no << {ordinal_bits}) - 1) + greatest($2::int, 100) AS last
    FROM runs r WHERE r.dead_letter > 0 AND r.no >= (p.at + 1) >> {ordinal_bits} AND (r.no << {ordinal_bits}) + r.ordinals > p.at + 1
    ORDER BY r.no LIMIT 1) w
  CROSS JOIN LATERAL (SELECT ARRAY(
    SELECT t.id FROM tasks t WHERE t.id >= w.first AND t.id <= w.last AND t.state = 'dead_letter' AND {current} ORDER BY t.id) AS ids OFFSET 0) f
  WHERE p.many < $2::int)
SELECT {task_view} FROM (SELECT unnest(p.ids) AS id FROM page p ORDER BY 1 LIMIT $2::int) i
CROSS JOIN LATERAL (SELECT * FROM tasks x WHERE x.id = i.id OFFSET 0) t {beside_task}
ORDER BY t.id

-- part: task_ids: of one place, in all generations
(SELECT ($1::bigint << {ordinal_bits}) + $2::int AS id WHERE $3::int < 0
 UNION ALL SELECT p.id FROM tasks p WHERE p.run_no = $1::bigint AND p.pos = $2::int AND p.idx = $3::int AND {later}) i

-- name: attempts_of_task
SELECT a.attempt, a.generation, a.session, a.outcome, a.exit_code, a.error, a.claimed_at, a.started_at,
       a.finished_at, a.result, (SELECT s.node FROM sessions s WHERE s.id = a.session), a.cached
FROM {task_ids} CROSS JOIN LATERAL (SELECT * FROM attempts x WHERE x.task_id = i.id OFFSET 0) a ORDER BY a.attempt

-- part: wanted_event
($2::text IS NULL OR e.kind IN (SELECT json_array_elements_text($2::text::json)))
AND ($3::text IS NULL OR e.session IN (SELECT json_array_elements_text($3::text::json)))
AND ($4::bigint IS NULL OR e.at >= $4::bigint) AND ($5::bigint IS NULL OR e.at < $5::bigint) AND e.seq <= $7::bigint

-- part: events_of_page
SELECT e.seq, e.at, e.run_no, e.pos, e.idx, e.kind, e.session, e.data, (SELECT s.node FROM sessions s WHERE s.id = e.session), r.id, r.workflow
FROM (SELECT unnest(p.seqs) AS seq FROM page p ORDER BY 1 LIMIT $6::bigint) i
CROSS JOIN LATERAL (SELECT * FROM events x WHERE x.seq = i.seq OFFSET 0) e
LEFT JOIN LATERAL (SELECT x.id, x.workflow FROM runs x WHERE x.no = e.run_no OFFSET 0) r ON true
ORDER BY e.seq

-- name: events_found: of the whole cluster; $7: only those before which nothing can appear any more (horizon.py)
WITH RECURSIVE page (at, seqs, many) AS (
  SELECT $1::bigint, ARRAY[]::bigint[], 0
  UNION ALL
  SELECT w.last, f.seqs, p.many + cardinality(f.seqs) FROM page p
  CROSS JOIN LATERAL (
    SELECT n.seq + greatest($6::bigint, 100) - 1 AS last FROM events n WHERE n.seq > p.at AND n.seq <= $7::bigint ORDER BY n.seq LIMIT 1) w
  CROSS JOIN LATERAL (SELECT ARRAY(
    SELECT e.seq FROM events e WHERE e.seq > p.at AND e.seq <= w.last AND {wanted_event} ORDER BY e.seq) AS seqs OFFSET 0) f
  WHERE p.many < $6::bigint)
{events_of_page}

-- name: events_found_of_run: likewise
WITH RECURSIVE page (at, seqs, many) AS (
  SELECT $1::bigint, ARRAY[]::bigint[], 0
  UNION ALL
  SELECT w.last, f.seqs, p.many + cardinality(f.seqs) FROM page p
  CROSS JOIN LATERAL (
    SELECT n.seq + greatest($6::bigint, 100) - 1 AS last FROM events n
    WHERE n.run_no = $8::bigint AND n.seq > p.at AND n.seq <= $7::bigint ORDER BY n.seq LIMIT 1) w
  CROSS JOIN LATERAL (SELECT ARRAY(
    SELECT e.seq FROM events e WHERE e.run_no = $8::bigint AND e.seq > p.at AND e.seq <= w.last AND {wanted_event}
    ORDER BY e.seq) AS seqs OFFSET 0) f
  WHERE p.many < $6::bigint)
{events_of_page}

-- name: event_last
SELECT coalesce(max(seq), 0) FROM events

-- name: sessions_all
SELECT s.id, s.node, s.state, s.started_at, s.ended_at, s.body, s.role, s.drain_at,
  (SELECT id FROM runs WHERE no = s.scope), (SELECT expires_at FROM leases l WHERE l.session = s.id),
  (SELECT count(*) FROM tasks t WHERE t.session = s.id AND t.held IS NULL), f.at, f.body
FROM sessions s LEFT JOIN LATERAL (SELECT x.at, x.body FROM node_facts x WHERE x.session = s.id OFFSET 0) f ON true
WHERE $1::boolean OR s.ended_at IS NULL ORDER BY s.started_at, s.id

-- name: count_runs
SELECT state, count(*) FROM runs GROUP BY state

-- name: count_tasks
SELECT state, count(*) FROM tasks GROUP BY state

-- name: count_events
SELECT count(*) FROM events

-- name: count_stale
SELECT count(*) FROM stale_reports

-- name: count_stale_of_session
SELECT count(*) FROM stale_reports WHERE session = $1::text

-- part: in_queue
(SELECT count(*) FROM tasks t WHERE t.state = 'queued' AND t.demand = $1::text AND

-- name: tasks_queued_between: from this place in the queue on, before that one; a range of (rank, id) pairs would be read
-- to the end of the last rank
SELECT {in_queue} t.rank = $2::bigint AND t.id >= $3::bigint AND t.id < CASE WHEN $2::bigint = $4::bigint THEN $5::bigint ELSE 1::bigint << 62 END)
  + {in_queue} t.rank > $2::bigint AND t.rank < $4::bigint)
  + {in_queue} $2::bigint < $4::bigint AND t.rank = $4::bigint AND t.id < $5::bigint)

-- name: run_at_work: something of it runs, waits, or is about to run without anybody's doing
SELECT EXISTS (SELECT 1 FROM tasks t WHERE t.id >= $1::bigint AND t.id < $2::bigint AND t.held IS NULL
  AND (t.state IN ('queued', 'scheduled', 'waiting') OR (t.state = 'running' AND t.elements IS NULL)
       OR (t.state = 'pending' AND t.ready_at IS NOT NULL AND t.admitted > 0)))

-- name: demand_body
SELECT body FROM demands WHERE id = $1::text

-- name: result_hashes
SELECT t.id, a.result_hash FROM tasks t CROSS JOIN LATERAL (
  SELECT x.result_hash FROM attempts x WHERE x.task_id = t.id AND x.attempt = t.attempt AND x.outcome = 'succeeded' OFFSET 0) a
WHERE t.id >= $1::bigint AND t.id < $2::bigint AND t.state = 'succeeded'

-- name: placing_waits: one look at the index; mostly there is nothing
SELECT EXISTS (SELECT 1 FROM tasks t WHERE t.state = 'queued' AND t.demand >= 'place:' AND t.demand < 'place;')
  OR EXISTS (SELECT 1 FROM tasks t WHERE t.state = 'queued' AND t.demand >= 'session:' AND t.demand < 'session;'
             AND t.wake_at IS NOT NULL)

-- name: pools_all
SELECT p.name, p.size, p.used FROM pools p ORDER BY p.name

-- name: pool_queue: (demand, how many) of what is queued with a place to take; each demand has its part of the queue's index
SELECT d.id, q.many FROM demands d CROSS JOIN LATERAL (
  SELECT count(*) AS many FROM tasks t WHERE t.state = 'queued' AND t.demand = d.id) q
WHERE strpos(d.id, '@') > 0 AND q.many > 0 ORDER BY d.id

-- name: pool_holders: running tasks that hold places
SELECT r.id, r.workflow, t.pos, t.idx, t.demand, s.node FROM sessions s CROSS JOIN LATERAL (
  SELECT * FROM tasks x WHERE x.session = s.id AND x.state = 'running' AND strpos(x.demand, '@') > 0 OFFSET 0) t
CROSS JOIN LATERAL (SELECT x.id, x.workflow FROM runs x WHERE x.no = t.run_no OFFSET 0) r
WHERE s.ended_at IS NULL ORDER BY t.claimed_at, t.id

-- name: arrays_of_run
SELECT pos, generation, value FROM arrays WHERE run_no = $1::bigint ORDER BY pos, generation

-- name: workflows_page: each name with its newest version
SELECT w.name, w.hash, w.created_at, (SELECT count(*) FROM workflows v WHERE v.name = w.name) FROM workflows w
WHERE w.name > $1::text AND NOT EXISTS (SELECT 1 FROM workflows n WHERE n.name = w.name
  AND (n.created_at > w.created_at OR (n.created_at = w.created_at AND n.hash > w.hash)))
ORDER BY w.name LIMIT $2::int

-- name: workflow_versions: newest first
SELECT w.hash, w.created_at FROM workflows w WHERE w.name = $1::text
AND ($2::bigint IS NULL OR w.created_at < $2::bigint OR (w.created_at = $2::bigint AND w.hash < $3::text))
ORDER BY w.created_at DESC, w.hash DESC LIMIT $4::int

-- name: workflow_versions_by_prefix
SELECT w.hash, w.created_at FROM workflows w WHERE w.name = $1::text AND w.hash >= $2::text AND w.hash < $3::text ORDER BY w.hash LIMIT 2

-- name: attempts_of_session: (outcome, how many, the last one's end), among so many of the newest tasks'
SELECT a.outcome, count(*), max(a.finished_at)
FROM (SELECT session, outcome, finished_at FROM attempts ORDER BY task_id DESC LIMIT $2::bigint) a
WHERE a.session = $1::text GROUP BY a.outcome ORDER BY a.outcome

-- name: attempts_beyond: are there more than so many?
SELECT EXISTS (SELECT 1 FROM attempts ORDER BY task_id DESC LIMIT 1 OFFSET $1::bigint)

-- name: facts_of_session
SELECT f.at, f.body FROM node_facts f WHERE f.session = $1::text

-- name: tasks_of_session: what it holds
SELECT r.id, r.workflow, t.pos, t.idx, t.attempt, t.claimed_at, t.started_at FROM (
  SELECT * FROM tasks x WHERE x.session = $1::text AND x.held IS NULL ORDER BY x.id LIMIT $2::int) t
CROSS JOIN LATERAL (SELECT x.id, x.workflow FROM runs x WHERE x.no = t.run_no OFFSET 0) r ORDER BY t.id

-- name: session_activity: (exchanges, last claim of what it holds, how much it holds)
SELECT s.exchange, (SELECT max(t.claimed_at) FROM tasks t WHERE t.session = s.id AND t.held IS NULL),
  (SELECT count(*) FROM tasks t WHERE t.session = s.id AND t.held IS NULL) FROM sessions s WHERE s.id = $1::text

-- name: count_sessions_dead
SELECT count(*) FROM sessions s WHERE s.node = $1::text AND s.state = 'dead'

-- name: triggers_due: their time has come, or a queued fire's turn
SELECT {trigger_row} FROM triggers g WHERE g.active AND NOT g.paused AND (
  g.next_ms <= coalesce($1::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint) OR EXISTS (
  SELECT 1 FROM fires f WHERE f.outcome = 'queued' AND f."trigger" = g.id AND NOT EXISTS (
    SELECT 1 FROM runs r WHERE r."trigger" IS NOT NULL AND r."trigger" = g.id AND r.finished_at IS NULL)))
ORDER BY g.id

-- name: triggers_next: when the next one's time comes, and whether one follows runs
SELECT min(next_ms), count(*) FILTER (WHERE kind = 'after' AND key IS NOT NULL) > 0 FROM triggers WHERE active AND NOT paused

-- name: ends_to_follow: a trigger and the end of a run that it follows: event, run, its name, what the event says
SELECT {trigger_row}, e.seq, r.id, r.name, e.data FROM triggers g CROSS JOIN LATERAL (
  SELECT x.seq, x.run_no, x.data FROM events x WHERE x.kind = 'run_finished' AND x.seq > g.cursor AND x.seq <= $2::bigint OFFSET 0) e
CROSS JOIN LATERAL (
  SELECT x.id, x.name FROM runs x WHERE x.no = e.run_no AND x.name = g.key AND x.parent IS NULL OFFSET 0) r
WHERE g.kind = 'after' AND g.key IS NOT NULL AND g.active AND NOT g.paused ORDER BY g.id, e.seq LIMIT $1::int

-- name: triggers_behind: those that follow runs, and have not looked at the newest events for long
SELECT {trigger_row} FROM triggers g
WHERE g.kind = 'after' AND g.key IS NOT NULL AND g.active AND NOT g.paused AND g.cursor < $1::bigint ORDER BY g.id

-- name: triggers_all
SELECT {trigger_row}, f.cause, f.due_at, f.at, f.outcome, f.run, f.reason,
  (SELECT count(*) FROM fires q WHERE q.outcome = 'queued' AND q."trigger" = g.id),
  (SELECT count(*) FROM runs r WHERE r."trigger" IS NOT NULL AND r."trigger" = g.id AND r.finished_at IS NULL)
FROM triggers g LEFT JOIN LATERAL (
  SELECT * FROM fires l WHERE l."trigger" = g.id ORDER BY l.at DESC, l.due_at DESC NULLS LAST LIMIT 1) f ON true
WHERE g.active AND ($1::text IS NULL OR g.workflow = $1::text) ORDER BY g.id

-- name: fires_page: newest first
SELECT {fire_row} FROM fires f WHERE f."trigger" = $1::text ORDER BY f.at DESC, f.due_at DESC NULLS LAST LIMIT $2::int

-- name: applied_all
SELECT name, hash, source, at, by FROM applied ORDER BY name

-- name: trigger_now
SELECT {trigger_row} FROM triggers g WHERE g.id = $1::text AND g.active

-- name: webhook_by_name
SELECT {trigger_row} FROM triggers g WHERE g.kind = 'webhook' AND g.key IS NOT NULL AND g.key = $1::text AND g.active

-- name: tokens_all: newest last
SELECT t.id, t.hash, t.label, t.role, t.created_at, t.expires_at, t.revoked_at FROM tokens t WHERE $1::text IS NULL OR t.id = $1::text ORDER BY t.created_at, t.id

-- part: priority_of_run
CROSS JOIN LATERAL (SELECT x.priority FROM runs x WHERE x.no = q.run_no OFFSET 0) r GROUP BY r.priority

-- name: metrics_queue: (state, priority, how many, since when the oldest); each state has an index of its own, that of
-- wake-up times only where both ends of a range are named
SELECT 'queued', r.priority, sum(q.many)::bigint, min(q.since) FROM (
  SELECT t.run_no, count(*) AS many, min(t.ready_at) AS since FROM tasks t WHERE t.state = 'queued' GROUP BY t.run_no) q
{priority_of_run}
UNION ALL SELECT 'scheduled', r.priority, sum(q.many)::bigint, min(q.since) FROM (
  SELECT t.run_no, count(*) AS many, min(t.wake_at) AS since FROM tasks t
  WHERE t.wake_at >= 0 AND t.wake_at < 1::bigint << 62 AND t.state = 'scheduled' GROUP BY t.run_no) q
{priority_of_run}
UNION ALL SELECT 'running', r.priority, sum(q.many)::bigint, min(q.since) FROM sessions s CROSS JOIN LATERAL (
  SELECT t.run_no, count(*) AS many, min(t.claimed_at) AS since FROM tasks t
  WHERE t.session = s.id AND t.state = 'running' AND t.held IS NULL GROUP BY t.run_no) q
{priority_of_run}
ORDER BY 1, 2

-- name: metrics_open: (priority, tasks that have not ended) of runs that have not
SELECT r.priority, sum(r.open)::bigint FROM runs r WHERE r.state IN ('pending', 'running') GROUP BY r.priority ORDER BY r.priority

-- name: metrics_dead_letters
SELECT coalesce(sum(r.dead_letter), 0)::bigint FROM runs r WHERE r.dead_letter > 0

-- name: metrics_stale: by node
SELECT coalesce(s.node, ''), count(*) FROM stale_reports p LEFT JOIN sessions s ON s.id = p.session GROUP BY 1 ORDER BY 1

-- name: metrics_expired: sessions of each node that others ended
SELECT s.node, count(*) FROM sessions s WHERE s.state = 'dead' GROUP BY s.node ORDER BY s.node

-- name: metrics_counted: what live nodes say of themselves
SELECT s.node, f.body FROM sessions s JOIN node_facts f ON f.session = s.id WHERE s.ended_at IS NULL ORDER BY s.node, s.id
