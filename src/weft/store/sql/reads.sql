-- Reads outside of rules. They change nothing. The notation: loads.sql.
--
-- On PostgreSQL they run with the server's own settings, often on tables that nobody has analysed yet, and a plan may be
-- kept from when a table was small. So no plan may have a choice that matters (tests/postgres/test_plans.py looks at all
-- of them): what stands beside a row is looked up in a subquery.

-- name: sessions_live (now bigint): and whether their leases have passed
SELECT s.id, coalesce((SELECT l.expires_at <= c.now FROM leases l WHERE l.session = s.id), true)
FROM (SELECT {clock} AS now) c CROSS JOIN sessions s WHERE s.ended_at IS NULL ORDER BY s.id

-- name: session_of_worker (session text): the token that it came with, and what it said of itself
SELECT s.token, s.node, s.body FROM sessions s WHERE s.id = :session

-- name: task_of_worker (run_no bigint, pos int, idx int): if a worker without the store holds it, or ended it
SELECT 1 FROM {task_ids} CROSS JOIN tasks t WHERE t.id = i.id
AND (SELECT s.token FROM sessions s WHERE s.id = coalesce(t.session, t.ran_by)) IS NOT NULL LIMIT 1

-- name: sessions_to_wake: that are drained, or hold attempts that shall stop
SELECT s.id FROM sessions s WHERE s.ended_at IS NULL AND (
  s.state = 'draining' OR (SELECT min(t.id) FROM tasks t WHERE t.session = s.id AND t.stop IS NOT NULL) IS NOT NULL)
ORDER BY s.id

-- name: runs_of_session (session text): runs of which it holds attempts, and their workflows
SELECT r.no, r.workflow FROM runs r WHERE r.no IN (
  SELECT t.run_no FROM tasks t WHERE t.session = :session AND t.state = 'running') ORDER BY r.no

-- name: handles_of_token (token text): orphaned ones that workers with this token have left
SELECT h.task_id, h.attempt FROM handles h WHERE h.state = 'orphaned'
AND (SELECT s.token FROM sessions s WHERE s.id = h.session) = :token ORDER BY h.task_id, h.attempt

-- name: leader: who leads, until when, until when its own lease lasts
SELECT d.term, d.session, d.expires_at, (SELECT l.expires_at FROM leases l WHERE l.session = d.session)
FROM leadership d WHERE d.one = 1

-- name: leader_left (now bigint): who leads, and for how long at least: no longer than its own lease lasts
SELECT h.session, {greatest}(0, {least}(h.expires_at, h.lease_until) - {clock})
FROM (SELECT d.session, d.expires_at, (SELECT l.expires_at FROM leases l WHERE l.session = d.session) AS lease_until
      FROM leadership d WHERE d.one = 1) h WHERE h.lease_until IS NOT NULL

-- name: handles_orphaned (engines text[], limit int): on these engines, and whether their tasks shall stop
SELECT {handle}, coalesce((SELECT t.stop IS NOT NULL FROM tasks t WHERE t.id = h.task_id), true)
FROM handles h WHERE h.state = 'orphaned' AND h.engine IN :engines ORDER BY h.task_id LIMIT :limit

-- name: handle_of_task (task_id bigint): the one that is not closed
SELECT {handle} FROM handles h WHERE h.task_id = :task_id AND h.state IN ('open', 'orphaned')

-- name: budgets_of (scopes json)
SELECT {budget} FROM budgets b WHERE b.scope IN :scopes ORDER BY b.scope

-- name: budgets_of_pools
SELECT {budget} FROM budgets b WHERE b.scope >= 'pool:' AND b.scope < 'pool;' ORDER BY b.scope

-- name: spending_between (first bigint, end bigint): by the range of a run's ids
SELECT s.task_id, s.usd, s.tokens FROM spending s WHERE s.task_id >= :first AND s.task_id < :end ORDER BY s.task_id

-- name: task_place (id bigint)
SELECT t.pos, t.idx, t.generation FROM tasks t WHERE t.id = :id

-- name: attempt_running (id bigint, attempt int): run, place, session and lease of a task, while it runs this attempt
SELECT t.run_no, (SELECT r.id FROM runs r WHERE r.no = t.run_no), (SELECT r.workflow FROM runs r WHERE r.no = t.run_no),
  t.pos, t.idx, (SELECT s.body FROM sessions s WHERE s.id = t.session),
  (SELECT l.expires_at FROM leases l WHERE l.session = t.session)
FROM tasks t WHERE t.id = :id AND t.attempt = :attempt AND t.state = 'running'

-- name: memos_cached (keys text[], now bigint): results that may stand for others now
SELECT {memo} FROM memos k WHERE k.key IN :keys
AND k.kind = 'cache' AND (k.expires_at IS NULL OR k.expires_at > :now) ORDER BY k.key

-- part: run_view
{run}, r.inputs, r.source, r.key, (SELECT p.id FROM runs p WHERE p.no = r.parent >> {ordinal_bits}),
  (SELECT f.id FROM runs f WHERE f.no = r.root), r.labels, r."trigger",
  (SELECT k.id FROM runs k WHERE k.no = r.taken_from), r.backfill,
  EXISTS (SELECT 1 FROM deadlines d WHERE d.run_no = r.no AND d.state = 'late')

-- name: file_chunks (task_id bigint, attempt bigint, first bigint, end bigint, limit int): of the files that it has kept
SELECT o.at, o.data FROM output_chunks o WHERE o.task_id = :task_id AND o.attempt = :attempt AND o.stream = 'files'
AND o.at >= :first AND o.at < :end ORDER BY o.at LIMIT :limit

-- name: run_shown (run_no bigint)
SELECT {run_view} FROM runs r WHERE r.no = :run_no

-- name: runs_page (before bigint, states json, name text, limit int, children boolean)
SELECT {run_view} FROM runs r WHERE r.no < :before
AND (:states IS NULL OR r.state IN :states)
AND (:name IS NULL OR r.name = :name)
AND (:children OR r.parent IS NULL)
ORDER BY r.no DESC LIMIT :limit

-- name: runs_found (before bigint, states json, name text, limit int, children boolean, first bigint, since bigint,
-- until bigint, trigger text, labels text, inputs text, words text, backfill text, late boolean): labels and inputs are JSON mappings of texts.
-- No index by label, input, trigger or text: a filter that nothing of 100,000 runs passes takes 20 to 180 ms on SQLite,
-- and an index would cost each submission.
SELECT {run_view} FROM runs r WHERE r.no < :before AND r.no >= :first
AND (:states IS NULL OR r.state IN :states)
AND (:name IS NULL OR r.name = :name)
AND (:children OR r.parent IS NULL)
AND (:since IS NULL OR r.created_at >= :since)
AND (:until IS NULL OR r.created_at < :until)
AND (:trigger IS NULL OR r."trigger" = :trigger)
AND (:backfill IS NULL OR r.backfill = :backfill)
AND (NOT :late OR EXISTS (SELECT 1 FROM deadlines d WHERE d.run_no = r.no AND d.state = 'late'))
AND (:labels IS NULL OR r.labels <> '{}' AND {has_labels})
AND (:inputs IS NULL OR r.inputs <> '{}' AND {has_inputs})
AND (:words IS NULL OR {strpos}({folded r.id}, :words) > 0 OR {strpos}({folded r.name}, :words) > 0
  OR {strpos}({folded r.labels}, :words) > 0 OR {strpos}({folded r.inputs}, :words) > 0
  OR {strpos}({folded r.reason}, :words) > 0)
ORDER BY r.no DESC LIMIT :limit

-- name: runs_counted (first bigint, since bigint, until bigint, bucket bigint, name text, trigger text, children boolean):
-- runs by when they were submitted, in buckets, and by state
SELECT r.created_at / :bucket, r.state, count(*) FROM runs r WHERE r.no >= :first
AND r.created_at >= :since AND r.created_at < :until
AND (:name IS NULL OR r.name = :name) AND (:trigger IS NULL OR r."trigger" = :trigger) AND (:children OR r.parent IS NULL)
GROUP BY 1, 2 ORDER BY 1, 2

-- name: run_from (run_no bigint): the first run from this number on, and when it was submitted
SELECT no, created_at FROM runs WHERE no >= :run_no ORDER BY no LIMIT 1

-- name: run_newest
SELECT no FROM runs ORDER BY no DESC LIMIT 1

-- name: runs_of_family (run_no bigint)
SELECT r.no, r.id, r.parent FROM runs r WHERE r.root = (SELECT f.root FROM runs f WHERE f.no = :run_no) ORDER BY r.no

-- name: runs_by_prefix (first text, end text)
SELECT no, id FROM runs WHERE id >= :first AND id < :end ORDER BY id LIMIT 5

-- name: run_last
SELECT no, id FROM runs WHERE parent IS NULL ORDER BY no DESC LIMIT 1

-- name: run_state (run_no bigint)
SELECT state FROM runs WHERE no = :run_no

-- part: current: the newest generation of a task, and no element that only an earlier one had
t.generation = coalesce(
  (SELECT max(p.generation) FROM tasks p WHERE p.run_no = t.run_no AND p.pos = t.pos AND p.idx = t.idx AND {later}), 1)
AND (t.idx < 0 OR t.idx < (SELECT w.elements FROM tasks w WHERE w.id = coalesce(
  (SELECT max(p.id) FROM tasks p WHERE p.run_no = t.run_no AND p.pos = t.pos AND p.idx = -1 AND {later}),
  (t.run_no << {ordinal_bits}) + t.pos)))

-- part: task_view
{task}, r.id, r.workflow, s.node, coalesce(t.exit_code, a.exit_code), coalesce(t.ran_by, a.session),
  (SELECT n.node FROM sessions n WHERE n.id = coalesce(t.ran_by, a.session)), a.cached,
  (SELECT l.expires_at FROM leases l WHERE l.session = t.session), (SELECT c.id FROM runs c WHERE c.no = t.child)

-- part: task_ids: of one place, in all generations
(SELECT (:run_no << {ordinal_bits}) + :pos AS id WHERE :idx < 0
 UNION ALL SELECT p.id FROM tasks p WHERE p.run_no = :run_no AND p.pos = :pos AND p.idx = :idx AND {later}) i

-- part: success: the attempt in a task's own row, with the columns of `attempts`
t.id, t.attempt, t.generation, t.ran_by, 'succeeded', t.exit_code, NULL, t.claimed_at, t.started_at, t.ended_at, t.result,
  t.result_hash, NULL

-- part: attempt_view
a.attempt, a.generation, a.session, a.outcome, a.exit_code, a.error, a.claimed_at, a.started_at, a.finished_at, a.result,
  (SELECT s.node FROM sessions s WHERE s.id = a.session), a.cached

-- part: wanted_event
(:kinds IS NULL OR e.kind IN :kinds) AND (:sessions IS NULL OR e.session IN :sessions)
AND (:since IS NULL OR e.at >= :since) AND (:until IS NULL OR e.at < :until) AND e.seq <= :settled

-- name: run_first_open: the oldest run that has not ended; one look at the index for each state
SELECT f.no FROM (SELECT min(no) AS no FROM runs WHERE state = 'pending'
  UNION ALL SELECT min(no) FROM runs WHERE state = 'running') f WHERE f.no IS NOT NULL ORDER BY f.no LIMIT 1

-- name: events_before (before bigint, limit bigint): of all runs and nodes, the newest first
SELECT e.seq, e.at, e.pos, e.idx, e.kind, e.many, e.data, s.node, r.id, r.workflow
FROM events e LEFT JOIN sessions s ON s.id = e.session LEFT JOIN runs r ON r.no = e.run_no
WHERE e.seq < :before ORDER BY e.seq DESC LIMIT :limit

-- name: event_last
SELECT coalesce(max(seq), 0) FROM events

-- name: event_last_of_run (run_no bigint)
SELECT coalesce(max(seq), 0) FROM events WHERE run_no = :run_no

-- name: states_of_run (first bigint, end bigint): its tasks without their elements; a later generation comes later
SELECT t.pos, t.state, t.attempt, t.elements, coalesce(t.started_at, t.claimed_at), t.finished_at
FROM tasks t WHERE t.id >= :first AND t.id < :end AND t.idx < 0 ORDER BY t.id

-- name: element_states_of_run (first bigint, end bigint)
SELECT t.pos, t.state, count(*) FROM tasks t WHERE t.id >= :first AND t.id < :end AND t.idx >= 0 AND {current}
GROUP BY t.pos, t.state ORDER BY t.pos, t.state

-- name: element_states_of_task (first bigint, end bigint, pos int): (index, state); a later generation comes later
SELECT t.idx, t.state FROM tasks t
WHERE t.id >= :first AND t.id < :end AND t.pos = :pos AND t.idx >= 0 ORDER BY t.id

-- name: elements_of_task (first bigint, end bigint, pos int): how many the mapped task has, in its last generation
SELECT t.elements FROM tasks t
WHERE t.id >= :first AND t.id < :end AND t.pos = :pos AND t.idx < 0 ORDER BY t.id DESC LIMIT 1

-- name: sessions_all (ended boolean)
SELECT s.id, s.node, s.state, s.started_at, s.ended_at, s.body, s.role, s.drain_at,
  (SELECT id FROM runs WHERE no = s.scope), (SELECT expires_at FROM leases l WHERE l.session = s.id),
  (SELECT count(*) FROM tasks t WHERE t.session = s.id AND t.held IS NULL),
  (SELECT f.at FROM node_facts f WHERE f.session = s.id), (SELECT f.body FROM node_facts f WHERE f.session = s.id)
FROM sessions s WHERE :ended OR s.ended_at IS NULL ORDER BY s.started_at, s.id

-- name: count_runs
SELECT state, count(*) FROM runs GROUP BY state

-- name: count_runs_and_children
SELECT state, count(*), count(parent) FROM runs GROUP BY state

-- name: count_tasks
SELECT state, count(*) FROM tasks GROUP BY state

-- name: count_events
SELECT coalesce(sum(many), 0) FROM events

-- name: count_stale
SELECT count(*) FROM stale_reports

-- name: count_stale_of_session (session text)
SELECT count(*) FROM stale_reports WHERE session = :session

-- part: in_queue
(SELECT count(*) FROM tasks t WHERE t.state = 'queued' AND t.demand = :demand AND

-- name: tasks_queued_between (demand text, rank bigint, id bigint, to_rank bigint, to_id bigint): from this place in the
-- queue on, before that one; a range of (rank, id) pairs would be read to the end of the last rank
SELECT {in_queue} t.rank = :rank AND t.id >= :id AND t.id < CASE WHEN :rank = :to_rank THEN :to_id ELSE 4611686018427387904 END)
  + {in_queue} t.rank > :rank AND t.rank < :to_rank)
  + {in_queue} :rank < :to_rank AND t.rank = :to_rank AND t.id < :to_id)

-- name: tasks_queued_by_head_start (run_no bigint)
SELECT t.head_start, count(*) FROM tasks t WHERE t.state = 'queued' AND t.run_no = :run_no
GROUP BY t.head_start ORDER BY t.head_start

-- name: run_at_work (first bigint, end bigint): something of it runs, waits, or is about to run without anybody's doing
SELECT EXISTS (SELECT 1 FROM tasks t WHERE t.id >= :first AND t.id < :end AND t.held IS NULL
  AND (t.state IN ('queued', 'scheduled', 'waiting') OR (t.state = 'running' AND t.elements IS NULL)
       OR (t.state = 'pending' AND t.ready_at IS NOT NULL AND t.admitted > 0)))

-- name: demand_body (id text)
SELECT body FROM demands WHERE id = :id

-- name: placing_waits: one look at the index; mostly there is nothing
SELECT EXISTS (SELECT 1 FROM tasks t WHERE t.state = 'queued' AND t.demand >= 'place:' AND t.demand < 'place;')
  OR EXISTS (SELECT 1 FROM tasks t WHERE t.state = 'queued' AND t.demand >= 'session:' AND t.demand < 'session;'
             AND t.wake_at IS NOT NULL)

-- name: pools_all
SELECT p.name, p.size, p.used FROM pools p ORDER BY p.name

-- name: arrays_of_run (run_no bigint)
SELECT pos, generation, value FROM arrays WHERE run_no = :run_no ORDER BY pos, generation

-- name: labels_of_run (run_no bigint)
SELECT pos, generation, value FROM labels WHERE run_no = :run_no ORDER BY pos, generation

-- name: workflows_page (after text, limit int): each name with its newest version
SELECT w.name, w.hash, w.created_at, (SELECT count(*) FROM workflows v WHERE v.name = w.name) FROM workflows w
WHERE w.name > :after AND NOT EXISTS (SELECT 1 FROM workflows n WHERE n.name = w.name
  AND (n.created_at > w.created_at OR (n.created_at = w.created_at AND n.hash > w.hash)))
ORDER BY w.name LIMIT :limit

-- name: workflow_versions (name text, before bigint, hash text, limit int): newest first
SELECT w.hash, w.created_at FROM workflows w WHERE w.name = :name
AND (:before IS NULL OR w.created_at < :before OR (w.created_at = :before AND w.hash < :hash))
ORDER BY w.created_at DESC, w.hash DESC LIMIT :limit

-- name: workflow_versions_by_prefix (name text, first text, end text)
SELECT w.hash, w.created_at FROM workflows w WHERE w.name = :name AND w.hash >= :first AND w.hash < :end
ORDER BY w.hash LIMIT 2

-- name: attempts_of_session (session text, newest bigint): (outcome, how many, the last one's end), among so many of the
-- newest tasks'
SELECT a.outcome, count(*), max(a.finished_at)
FROM (
  SELECT f.* FROM (SELECT session, outcome, finished_at FROM attempts ORDER BY task_id DESC LIMIT :newest) f
  UNION ALL
  SELECT f.* FROM (SELECT ran_by, 'succeeded', ended_at FROM tasks ORDER BY id DESC LIMIT :newest) f) a
WHERE a.session = :session GROUP BY a.outcome ORDER BY a.outcome

-- name: attempts_beyond (many bigint): are there more than so many?
SELECT EXISTS (SELECT 1 FROM attempts ORDER BY task_id DESC LIMIT 1 OFFSET :many)
OR EXISTS (SELECT 1 FROM tasks ORDER BY id DESC LIMIT 1 OFFSET :many)

-- name: facts_of_session (session text)
SELECT f.at, f.body FROM node_facts f WHERE f.session = :session

-- name: tasks_of_session (session text, limit int): what it holds
SELECT (SELECT r.id FROM runs r WHERE r.no = t.run_no), (SELECT r.workflow FROM runs r WHERE r.no = t.run_no),
  t.pos, t.idx, t.attempt, t.claimed_at, t.started_at
FROM tasks t WHERE t.session = :session AND t.held IS NULL ORDER BY t.id LIMIT :limit

-- name: session_activity (session text): (exchanges, last claim of what it holds, how much it holds)
SELECT s.exchange, (SELECT max(t.claimed_at) FROM tasks t WHERE t.session = s.id AND t.held IS NULL),
  (SELECT count(*) FROM tasks t WHERE t.session = s.id AND t.held IS NULL) FROM sessions s WHERE s.id = :session

-- name: count_sessions_dead (node text)
SELECT count(*) FROM sessions s WHERE s.node = :node AND s.state = 'dead'

-- name: triggers_due (now bigint): their time has come, or a queued fire's turn
SELECT {trigger} FROM triggers g WHERE g.active AND NOT g.paused AND (g.next_ms <= {clock} OR EXISTS (
  SELECT 1 FROM fires f WHERE f.outcome = 'queued' AND f."trigger" = g.id AND NOT EXISTS (
    SELECT 1 FROM runs r
    WHERE r."trigger" IS NOT NULL AND r."trigger" = g.id AND r.finished_at IS NULL AND r.backfill IS NULL)))
ORDER BY g.id

-- name: backfills_to_step (limit int): those that may have one more run
SELECT {backfill}, {trigger} FROM backfills b JOIN triggers g ON g.id = b."trigger"
WHERE b.state = 'active' AND b.parallel > (SELECT count(*) FROM runs r
  WHERE r.backfill IS NOT NULL AND r.backfill = b.id AND r.finished_at IS NULL)
ORDER BY b.created_at, b.id LIMIT :limit

-- name: backfills_page (id text, limit int): newest first, with how many of its runs are in each state
SELECT {backfill}, (SELECT count(*) FROM runs r WHERE r.backfill IS NOT NULL AND r.backfill = b.id AND r.state = 'succeeded'),
  (SELECT count(*) FROM runs r WHERE r.backfill IS NOT NULL AND r.backfill = b.id AND r.state = 'failed'),
  (SELECT count(*) FROM runs r WHERE r.backfill IS NOT NULL AND r.backfill = b.id AND r.state = 'cancelled'),
  (SELECT count(*) FROM runs r WHERE r.backfill IS NOT NULL AND r.backfill = b.id AND r.finished_at IS NULL)
FROM backfills b WHERE :id IS NULL OR b.id = :id ORDER BY b.created_at DESC, b.id LIMIT :limit

-- name: backfill_unfinished (backfill text)
SELECT no, id FROM runs WHERE backfill IS NOT NULL AND backfill = :backfill AND finished_at IS NULL ORDER BY no

-- name: fires_with_runs (trigger text, first bigint, last bigint)
SELECT f.due_at, min(f.run) FROM fires f WHERE f."trigger" = :trigger AND f.due_at >= :first AND f.due_at <= :last
AND (f.run IS NOT NULL OR f.outcome = 'queued') GROUP BY f.due_at ORDER BY f.due_at

-- name: triggers_next: when the next one's time comes, and whether one follows runs
SELECT min(next_ms), count(*) FILTER (WHERE kind = 'after' AND key IS NOT NULL) > 0
FROM triggers WHERE active AND NOT paused

-- name: triggers_behind (seq bigint): those that follow runs, and have not looked at the newest events for long
SELECT {trigger} FROM triggers g
WHERE g.kind = 'after' AND g.key IS NOT NULL AND g.active AND NOT g.paused AND g.cursor < :seq ORDER BY g.id

-- name: outbox_look (now bigint): what the leader may have to do about deadlines, late triggers and notifications
SELECT {clock},
  EXISTS (SELECT 1 FROM deadlines d WHERE d.state = 'open' AND d.at <= {clock}),
  EXISTS (SELECT 1 FROM triggers g WHERE g.active AND g.check_ms IS NOT NULL AND g.check_ms <= {clock}),
  EXISTS (SELECT 1 FROM notifications n WHERE n.state = 'pending')

-- name: triggers_to_check (now bigint)
SELECT {trigger} FROM triggers g WHERE g.active AND g.check_ms IS NOT NULL AND g.check_ms <= {clock} ORDER BY g.id

-- name: notifications_due (now bigint, term bigint, limit int): with the result of the newest failed attempt of its task.
-- What a leader of another term had begun is due
SELECT {notification}, (
  SELECT c.result FROM (
    SELECT t.id AS id,
      (SELECT a.result FROM attempts a WHERE a.task_id = t.id AND a.outcome = 'failed' ORDER BY a.attempt DESC LIMIT 1)
        AS result,
      (SELECT a.finished_at FROM attempts a WHERE a.task_id = t.id AND a.outcome = 'failed'
        ORDER BY a.attempt DESC LIMIT 1) AS finished_at
    FROM (SELECT (n.run_no << {ordinal_bits}) + n.pos AS id
      UNION ALL SELECT p.id FROM tasks p WHERE p.run_no = n.run_no AND p.pos = n.pos AND {later}) t) c
  WHERE c.finished_at IS NOT NULL ORDER BY c.finished_at DESC, c.id DESC LIMIT 1)
FROM notifications n
WHERE n.state = 'pending' AND (n.next_at <= {clock} OR (n.term IS NOT NULL AND n.term <> :term))
ORDER BY n.next_at, n.id LIMIT :limit

-- name: notifications_page (state text, run text, created_at bigint, id text, limit int): newest first, after that one
SELECT {notification} FROM notifications n
WHERE (:state IS NULL OR n.state = :state) AND (:run IS NULL OR n.run = :run)
AND (:created_at IS NULL OR (n.created_at, n.id) < (:created_at, :id))
ORDER BY n.created_at DESC, n.id DESC LIMIT :limit

-- name: notify_default
SELECT n.body FROM notify_state n WHERE n.key = 'default'

-- name: deadlines_of_run (run_no bigint)
SELECT {deadline} FROM deadlines d WHERE d.run_no = :run_no ORDER BY d.pos, d.at, d.by

-- name: fires_page (trigger text, limit int): newest first
SELECT {fire} FROM fires f WHERE f."trigger" = :trigger ORDER BY f.at DESC, f.due_at DESC NULLS LAST LIMIT :limit

-- name: applied_all
SELECT name, hash, source, at, by FROM applied ORDER BY name

-- name: trigger_now (id text)
SELECT {trigger} FROM triggers g WHERE g.id = :id AND g.active

-- name: webhook_by_name (key text)
SELECT {trigger} FROM triggers g WHERE g.kind = 'webhook' AND g.key IS NOT NULL AND g.key = :key AND g.active

-- name: tokens_all (id text): newest last
SELECT {token} FROM tokens t WHERE :id IS NULL OR t.id = :id ORDER BY t.created_at, t.id

-- name: metrics_open: (priority, tasks that have not ended) of runs that have not
SELECT r.priority, CAST(sum(r.open) AS bigint) FROM runs r WHERE r.state IN ('pending', 'running')
GROUP BY r.priority ORDER BY r.priority

-- name: metrics_dead_letters
SELECT CAST(coalesce(sum(r.dead_letter), 0) AS bigint) FROM runs r WHERE r.dead_letter > 0

-- name: metrics_stale: by node
SELECT coalesce(s.node, ''), count(*) FROM stale_reports p LEFT JOIN sessions s ON s.id = p.session GROUP BY 1 ORDER BY 1

-- name: metrics_expired: sessions of each node that others ended
SELECT s.node, count(*) FROM sessions s WHERE s.state = 'dead' GROUP BY s.node ORDER BY s.node

-- name: metrics_counted: what live nodes say of themselves
SELECT s.node, f.body FROM sessions s JOIN node_facts f ON f.session = s.id WHERE s.ended_at IS NULL
ORDER BY s.node, s.id
