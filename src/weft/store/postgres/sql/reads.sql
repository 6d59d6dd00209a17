-- Reads that must differ from SQLite's, each with the reason. The notation: store/sql/loads.sql.
--
-- What stands beside a row is looked up in a LATERAL subquery that OFFSET 0 keeps apart, and a page is read in windows of
-- its key. With ORDER BY and LIMIT alone PostgreSQL sorted all that was left of a run for each page: 40,000 tasks took 4 s,
-- 200,000 took 256 s.

-- name: look (session text, demands text[], known_demands bigint, now bigint): min() and not
-- EXISTS: without statistics that expects half of all tasks to be unsettled, and would read them all to find none. Is an
-- exchange worthwhile for a node that has nothing to report; until something is due; is there a leader
WITH at AS MATERIALIZED (
  SELECT {clock} AS now, least(
    (SELECT min(wake_at) FROM tasks WHERE wake_at IS NOT NULL),
    (SELECT deadline_at FROM runs WHERE deadline_at IS NOT NULL AND finished_at IS NULL
     ORDER BY deadline_at LIMIT 1)) AS due)
SELECT coalesce((SELECT s.state <> 'live' FROM sessions s WHERE s.id = :session), true)
  OR coalesce(at.due <= at.now, false)
  OR (SELECT min(id) FROM tasks WHERE NOT settled) IS NOT NULL
  OR (SELECT min(no) FROM runs WHERE sweep IS NOT NULL) IS NOT NULL
  OR (SELECT min(id) FROM tasks WHERE child_action IS NOT NULL) IS NOT NULL
  OR (SELECT min(no) FROM runs WHERE NOT reported) IS NOT NULL
  OR EXISTS (SELECT 1 FROM tasks WHERE session = :session AND stop IS NOT NULL)
  OR coalesce((SELECT max(no) FROM demands), 0) > :known_demands
  OR EXISTS (SELECT 1 FROM unnest(:demands) AS d (demand) CROSS JOIN LATERAL (
    SELECT 1 FROM tasks q WHERE q.state = 'queued' AND q.demand = d.demand ORDER BY q.rank, q.id LIMIT 1) q),
  CASE WHEN at.due IS NOT NULL THEN greatest(0, at.due - at.now) END,
  coalesce((SELECT d.expires_at > at.now AND (SELECT l.expires_at FROM leases l WHERE l.session = d.session) > at.now
            FROM leadership d WHERE d.one = 1), false)
FROM at

-- name: held_digest (session text): a sum is numeric here. What weft.core.liveness.digest computes on the node
SELECT s.exchange, h.many, h.checksum FROM sessions s CROSS JOIN LATERAL (
  SELECT count(*) AS many, coalesce(sum((t.id % 1000003) * (t.attempt % 1009 + 1)), 0)::bigint AS checksum
  FROM tasks t WHERE t.session = s.id AND t.held IS NULL) h
WHERE s.id = :session

-- name: run_facts (nos json): one look per run
SELECT r.no, r.id, r.name, r.workflow, r.inputs, r.source, r.fresh, r.generation FROM json_array_elements_text(:nos::json) AS j (no)
CROSS JOIN LATERAL (SELECT * FROM runs x WHERE x.no = j.no::bigint OFFSET 0) r ORDER BY r.no

-- name: run_states (ids json): one look per run. Of those of the runs that there are
SELECT r.id, r.state, r.name FROM json_array_elements_text(:ids::json) AS j (id)
CROSS JOIN LATERAL (SELECT * FROM runs x WHERE x.id = j.id OFFSET 0) r ORDER BY r.id

-- name: tasks_waiting_of_family (run_no bigint, limit int): one range per run. Of runs of which nothing is at work
SELECT t.id, r.id, r.workflow, t.pos FROM runs r CROSS JOIN LATERAL (
  SELECT w.id, w.pos FROM tasks w WHERE w.id >= r.no << {ordinal_bits} AND w.id < (r.no + 1) << {ordinal_bits}
  AND w.state = 'waiting' OFFSET 0) t
WHERE r.root = (SELECT f.root FROM runs f WHERE f.no = :run_no) AND r.finished_at IS NULL AND r.active = 0
ORDER BY t.id LIMIT :limit

-- name: tasks_page (after bigint, end bigint, states json, all_generations boolean, limit bigint): a window is as many
-- ids as the page has rows, from the next one on that there is
WITH RECURSIVE page (at, ids, many) AS (
  SELECT :after, ARRAY[]::bigint[], 0
  UNION ALL
  SELECT w.last, f.ids, p.many + cardinality(f.ids) FROM page p
  CROSS JOIN LATERAL (SELECT min(n.id) + greatest(:limit, 100) - 1 AS last FROM tasks n WHERE n.id > p.at) w
  CROSS JOIN LATERAL (SELECT ARRAY(
    SELECT t.id FROM tasks t WHERE t.id > p.at AND t.id <= w.last AND t.id < :end
    AND (:states IS NULL OR t.state IN :states) AND (:all_generations OR ({current}))
    ORDER BY t.id) AS ids OFFSET 0) f
  WHERE p.at < :end - 1 AND p.many < :limit)
SELECT {task_view} FROM (SELECT unnest(p.ids) AS id FROM page p ORDER BY 1 LIMIT :limit) i
CROSS JOIN LATERAL (SELECT * FROM tasks x WHERE x.id = i.id OFFSET 0) t {task_joins}
ORDER BY t.id

-- name: tasks_at (run_no bigint, positions json, idx int, all_generations boolean): one look per position. At these positions of a run, with
-- this index
SELECT {task_view} FROM json_array_elements_text(:positions::json) AS j (pos) CROSS JOIN LATERAL (
  SELECT * FROM tasks p WHERE :idx < 0 AND p.id = (:run_no << {ordinal_bits}) + j.pos::int
  UNION ALL
  SELECT * FROM tasks p WHERE p.run_no = :run_no AND p.pos = j.pos::int AND p.idx = :idx AND {later} OFFSET 0) t
{task_joins}
WHERE :all_generations OR ({current}) ORDER BY t.id

-- name: dead_page (after bigint, limit int): windows of the runs that have some
WITH RECURSIVE page (at, ids, many) AS (
  SELECT :after, ARRAY[]::bigint[], 0
  UNION ALL
  SELECT w.last, f.ids, p.many + cardinality(f.ids) FROM page p
  CROSS JOIN LATERAL (
    SELECT greatest(p.at + 1, r.no << {ordinal_bits}) AS first, greatest(p.at, (r.no << {ordinal_bits}) - 1) + greatest(:limit, 100) AS last
    FROM runs r WHERE r.dead_letter > 0 AND r.no >= (p.at + 1) >> {ordinal_bits} AND (r.no << {ordinal_bits}) + r.ordinals > p.at + 1
    ORDER BY r.no LIMIT 1) w
  CROSS JOIN LATERAL (SELECT ARRAY(
    SELECT t.id FROM tasks t WHERE t.id >= w.first AND t.id <= w.last AND t.state = 'dead_letter' AND {current} ORDER BY t.id) AS ids OFFSET 0) f
  WHERE p.many < :limit)
SELECT {task_view} FROM (SELECT unnest(p.ids) AS id FROM page p ORDER BY 1 LIMIT :limit) i
CROSS JOIN LATERAL (SELECT * FROM tasks x WHERE x.id = i.id OFFSET 0) t {task_joins}
ORDER BY t.id

-- name: attempts_of_task (run_no bigint, pos int, idx int): one look per task
SELECT {attempt_view} FROM {task_ids} CROSS JOIN LATERAL (SELECT * FROM all_attempts x WHERE x.task_id = i.id OFFSET 0) a ORDER BY a.attempt

-- part: events_of_page
SELECT e.seq, e.at, e.run_no, e.pos, e.idx, e.kind, e.session, e.many, e.data,
  (SELECT s.node FROM sessions s WHERE s.id = e.session), r.id, r.workflow
FROM (SELECT unnest(p.seqs) AS seq FROM page p ORDER BY 1 LIMIT :limit) i
CROSS JOIN LATERAL (SELECT * FROM events x WHERE x.seq = i.seq OFFSET 0) e
LEFT JOIN LATERAL (SELECT x.id, x.workflow FROM runs x WHERE x.no = e.run_no OFFSET 0) r ON true
ORDER BY e.seq

-- name: events_found (after bigint, kinds json, sessions json, since bigint, until bigint, limit bigint, settled
-- bigint): in windows. Of the whole cluster; `settled`: only those before which nothing can appear any more (horizon.py)
WITH RECURSIVE page (at, seqs, many) AS (
  SELECT :after, ARRAY[]::bigint[], 0
  UNION ALL
  SELECT w.last, f.seqs, p.many + cardinality(f.seqs) FROM page p
  CROSS JOIN LATERAL (
    SELECT n.seq + greatest(:limit, 100) * {event_block} - 1 AS last FROM events n WHERE n.seq > p.at AND n.seq <= :settled ORDER BY n.seq LIMIT 1) w
  CROSS JOIN LATERAL (SELECT ARRAY(
    SELECT e.seq FROM events e WHERE e.seq > p.at AND e.seq <= w.last AND {wanted_event} ORDER BY e.seq) AS seqs OFFSET 0) f
  WHERE p.many < :limit)
{events_of_page}

-- name: events_found_of_run (after bigint, kinds json, sessions json, since bigint, until bigint, limit bigint, settled
-- bigint, run_no bigint): likewise
WITH RECURSIVE page (at, seqs, many) AS (
  SELECT :after, ARRAY[]::bigint[], 0
  UNION ALL
  SELECT w.last, f.seqs, p.many + cardinality(f.seqs) FROM page p
  CROSS JOIN LATERAL (
    SELECT n.seq + greatest(:limit, 100) * {event_block} - 1 AS last FROM events n
    WHERE n.run_no = :run_no AND n.seq > p.at AND n.seq <= :settled ORDER BY n.seq LIMIT 1) w
  CROSS JOIN LATERAL (SELECT ARRAY(
    SELECT e.seq FROM events e WHERE e.run_no = :run_no AND e.seq > p.at AND e.seq <= w.last AND {wanted_event}
    ORDER BY e.seq) AS seqs OFFSET 0) f
  WHERE p.many < :limit)
{events_of_page}

-- name: result_hashes (first bigint, end bigint): one look per task
SELECT t.id, a.result_hash FROM tasks t CROSS JOIN LATERAL (
  SELECT x.result_hash FROM all_attempts x WHERE x.task_id = t.id AND x.attempt = t.attempt AND x.outcome = 'succeeded' OFFSET 0) a
WHERE t.id >= :first AND t.id < :end AND t.state = 'succeeded'

-- name: pool_queue: (demand, how many) of what is queued with a place to take; each demand has its part of the queue's
-- index
SELECT d.id, q.many FROM demands d CROSS JOIN LATERAL (
  SELECT count(*) AS many FROM tasks t WHERE t.state = 'queued' AND t.demand = d.id) q
WHERE strpos(d.id, '@') > 0 AND q.many > 0 ORDER BY d.id

-- name: pool_holders: by session. Running tasks that hold places
SELECT r.id, r.workflow, t.pos, t.idx, t.demand, s.node FROM sessions s CROSS JOIN LATERAL (
  SELECT * FROM tasks x WHERE x.session = s.id AND x.state = 'running' AND strpos(x.demand, '@') > 0 OFFSET 0) t
CROSS JOIN LATERAL (SELECT x.id, x.workflow FROM runs x WHERE x.no = t.run_no OFFSET 0) r
WHERE s.ended_at IS NULL ORDER BY t.claimed_at, t.id

-- name: ends_to_follow (limit int, settled bigint): one look per trigger. A trigger and the end of a run that it follows: event, run, its
-- name, what the event says
SELECT {trigger}, e.seq, r.id, r.name, e.data FROM triggers g CROSS JOIN LATERAL (
  SELECT x.seq, x.run_no, x.data FROM events x WHERE x.kind = 'run_finished' AND x.seq > g.cursor AND x.seq <= :settled OFFSET 0) e
CROSS JOIN LATERAL (
  SELECT x.id, x.name FROM runs x WHERE x.no = e.run_no AND x.name = g.key AND x.parent IS NULL OFFSET 0) r
WHERE g.kind = 'after' AND g.key IS NOT NULL AND g.active AND NOT g.paused ORDER BY g.id, e.seq LIMIT :limit

-- name: triggers_all (workflow text): one look per trigger
SELECT {trigger}, f.cause, f.due_at, f.at, f.outcome, f.run, f.reason,
  (SELECT count(*) FROM fires q WHERE q.outcome = 'queued' AND q."trigger" = g.id),
  (SELECT count(*) FROM runs r WHERE r."trigger" IS NOT NULL AND r."trigger" = g.id AND r.finished_at IS NULL)
FROM triggers g LEFT JOIN LATERAL (
  SELECT * FROM fires l WHERE l."trigger" = g.id ORDER BY l.at DESC, l.due_at DESC NULLS LAST LIMIT 1) f ON true
WHERE g.active AND (:workflow IS NULL OR g.workflow = :workflow) ORDER BY g.id

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

-- name: output_read (run_no bigint, pos int, idx int, attempt bigint, stream text, offset bigint, longest bigint): one
-- look per task. From an offset on; the first may begin before it, and one may begin after a gap
SELECT o.at, o.data FROM {task_ids} CROSS JOIN LATERAL (
  SELECT x.at, x.data FROM output_chunks x WHERE x.task_id = i.id AND x.attempt = :attempt AND x.stream = :stream
  AND x.at > :offset - :longest AND x.at + length(x.data) > :offset ORDER BY x.at LIMIT 1) o
ORDER BY o.at LIMIT 1

-- name: output_sent (run_no bigint, pos int, idx int, attempt bigint, stream text): one look per task. How far it is there
SELECT coalesce(max(o.till), 0) FROM {task_ids} CROSS JOIN LATERAL (
  SELECT x.at + length(x.data) AS till FROM output_chunks x
  WHERE x.task_id = i.id AND x.attempt = :attempt AND x.stream = :stream ORDER BY x.at DESC LIMIT 1) o

-- name: output_state (run_no bigint, pos int, idx int, attempt bigint, stream text): one look per task. (size if all was sent, how the
-- attempt ended, its result, its node, whether that is gone)
SELECT e.size, a.outcome, CASE WHEN e.size IS NULL THEN a.result END, s.node, s.id IS NULL OR s.ended_at IS NOT NULL
FROM {task_ids} CROSS JOIN LATERAL (SELECT * FROM tasks x WHERE x.id = i.id OFFSET 0) t
LEFT JOIN LATERAL (SELECT * FROM all_attempts x WHERE x.task_id = i.id AND x.attempt = :attempt OFFSET 0) a ON true
LEFT JOIN LATERAL (
  SELECT x.size FROM output_ends x WHERE x.task_id = i.id AND x.attempt = :attempt AND x.stream = :stream OFFSET 0) e ON true
LEFT JOIN LATERAL (SELECT * FROM sessions x WHERE x.id = coalesce(a.session, t.session) OFFSET 0) s ON true
WHERE a.attempt IS NOT NULL OR (t.attempt = :attempt AND t.state = 'running')
