-- Loads for rules, inside a write transaction: those that are the same in both databases.
--
-- Notation of all files. A head names a statement, then its parameters with their types in the order in which a caller
-- gives the values: `-- name: tasks_ready (run_no bigint, limit int): a comment`. The text uses them as `:run_no`, as
-- often as it likes. `IN :nos` takes a list: of an array type (bigint[], text[]) a Python list, of the type json the
-- text of a JSON array. Once, when a statement is read, `:run_no` becomes ?1 or $1::bigint, and `IN :nos`
-- `IN (SELECT value FROM json_each(?1))` or `= ANY($1::bigint[])`. The types are PostgreSQL's; SQLite needs none.
-- `v (id bigint, …)` in a head: the statement takes any number of such rows, and its text reads them as the table v.
-- `guarded`: it must change as many rows as it was given (one, without v), else the transaction is void: Superseded.
-- `-- part: current` names a text that stands in others as `{current}`; `{unindexed t.state}` puts t.state for its @.
-- `{task}`, `{run}` … are the columns of a row with their table's letter, in the order of its Struct; likewise
-- `{task_columns}` without it, `{task_values}` as parameters, `{task_typed}` for a head (queries.py has them all).
--
-- `{lock}` and `{lock_or_skip}` lock rows on PostgreSQL; SQLite has one writer at a time. Whoever holds a run's row may
-- read its tasks without locking them: without that row, a task only ever changes from queued to running. So only loads
-- of queued tasks lock tasks; a later statement's snapshot is younger than the run's lock.
-- A task that its run began with has its position in its id, all others (`{later}`) are in the index tasks_by_place.

-- name: exchange_begin (session text, number bigint): one statement instead of six looks at mostly empty indexes, each of
-- which cost 7 µs on SQLite. An exchange of a session that is over, or that it has made before, counts for nothing
UPDATE sessions SET exchange = :number
WHERE id = :session AND exchange < :number AND state IN ('live', 'draining')
RETURNING {session_columns},
  (SELECT min(t.wake_at) FROM tasks t WHERE t.wake_at IS NOT NULL),
  (SELECT min(r.deadline_at) FROM runs r WHERE r.deadline_at IS NOT NULL AND r.finished_at IS NULL),
  EXISTS (SELECT 1 FROM tasks t WHERE NOT t.settled),
  EXISTS (SELECT 1 FROM runs r WHERE r.sweep IS NOT NULL) OR EXISTS (SELECT 1 FROM tasks t WHERE t.child_action IS NOT NULL)
    OR EXISTS (SELECT 1 FROM runs r WHERE NOT r.reported),
  EXISTS (SELECT 1 FROM tasks t WHERE t.session = :session AND t.stop IS NOT NULL),
  (SELECT max(d.no) FROM demands d),
  EXISTS (SELECT 1 FROM notify_state),
  {other_leases}

-- name: session_by_id (id text)
SELECT {session} FROM sessions s WHERE s.id = :id {lock}

-- name: lease_left (session text)
SELECT expires_at FROM leases WHERE session = :session {lock}

-- name: leadership: locked before everything else
SELECT term, session, expires_at FROM leadership WHERE one = 1 {lock}

-- name: sessions_insisting (now bigint)
SELECT s.id FROM sessions s JOIN leases l ON l.session = s.id
WHERE s.ended_at IS NULL AND s.state = 'live' AND s.role = 'leader' AND l.expires_at > :now ORDER BY s.id

-- name: tasks_past_deadline (now bigint, limit int)
SELECT id FROM tasks WHERE deadline_at IS NOT NULL AND state = 'running' AND held IS NULL AND deadline_at <= :now
ORDER BY deadline_at, id LIMIT :limit

-- name: runs_by_no (nos bigint[])
SELECT {run} FROM runs r WHERE r.no IN :nos ORDER BY r.no {lock}

-- name: runs_if_free (nos bigint[]): the transaction holds tasks of theirs already, against the order of locks, so it
-- never waits
SELECT {run} FROM runs r WHERE r.no IN :nos ORDER BY r.no {lock_or_skip}

-- name: run_by_id (id text)
SELECT {run} FROM runs r WHERE r.id = :id {lock}

-- name: run_by_key (key text)
SELECT id, no, body_hash, state FROM runs WHERE key = :key

-- part: taken_over_roots: few runs took over anything; what they took it from goes with its family, or stays
SELECT m.root FROM runs k JOIN runs m ON m.no = k.taken_from WHERE k.taken_from IS NOT NULL

-- name: takeovers (nos bigint[]): two looks at an index; as one OR it would be a look at every run
SELECT k.no, k.id, m.no, m.id FROM runs k JOIN runs m ON m.no = k.taken_from
WHERE k.no IN (SELECT no FROM runs WHERE no IN :nos AND taken_from IS NOT NULL
  UNION SELECT no FROM runs WHERE taken_from IS NOT NULL AND taken_from IN :nos) ORDER BY k.no

-- name: runs_kept (before bigint, states text[], limit int)
SELECT m.id, k.id FROM runs k JOIN runs m ON m.no = k.taken_from JOIN runs f ON f.no = m.root
WHERE k.taken_from IS NOT NULL AND f.finished_at < :before AND f.state IN :states
ORDER BY f.finished_at, m.no, k.no LIMIT :limit

-- name: workflows_stored (hashes text[])
SELECT w.hash, w.name FROM workflows w WHERE w.hash IN :hashes ORDER BY w.hash

-- name: workflow_names (limit int)
SELECT DISTINCT name FROM workflows ORDER BY name LIMIT :limit

-- name: pins_of_root (root bigint)
SELECT {pin} FROM pins p WHERE p.root = :root ORDER BY p.workflow, p.source NULLS FIRST, p.name

-- name: run_roots (nos bigint[])
SELECT r.no, r.root, f.id, r.name FROM runs r JOIN runs f ON f.no = r.root WHERE r.no IN :nos ORDER BY r.no

-- name: run_origin (run_no bigint)
SELECT source, labels, fresh FROM runs WHERE no = :run_no

-- name: workflow_document (hash text)
SELECT document FROM workflows WHERE hash = :hash

-- name: tasks_by_id (ids bigint[])
SELECT {task} FROM tasks t WHERE t.id IN :ids ORDER BY t.id

-- name: task_elements (run_no bigint, pos int)
SELECT {task} FROM (
  SELECT * FROM tasks p WHERE p.run_no = :run_no AND p.pos = :pos AND p.idx >= 0 AND {later}) t ORDER BY t.id

-- name: pools_by_name (names text[]): the lock gives the row as it is when it is got, not as it was when the statement
-- began
SELECT p.name, p.size, p.used FROM pools p WHERE p.name IN :names ORDER BY p.name {lock}

-- name: budgets_by_scope (scopes text[]): after the runs, and after the pools, that they belong to
SELECT {budget} FROM budgets b WHERE b.scope IN :scopes ORDER BY b.scope {lock}

-- name: budgets_if_free (scopes text[]): of runs that this transaction does not hold; who holds one waits for its budget
SELECT {budget} FROM budgets b WHERE b.scope IN :scopes ORDER BY b.scope {lock_or_skip}

-- name: spending_of_tasks (task_ids bigint[])
SELECT s.task_id, s.usd, s.tokens FROM spending s WHERE s.task_id IN :task_ids ORDER BY s.task_id

-- name: tasks_parked (run_no bigint, rank bigint, id bigint, limit int): those that wait for room in the run's budget
SELECT {task} FROM tasks t WHERE t.state = 'queued' AND t.run_no = :run_no AND (t.rank, t.id) > (:rank, :id)
AND t.demand >= 'budget:' AND t.demand < 'budget;' ORDER BY t.rank, t.id LIMIT :limit {lock}

-- name: demands_placing: two ranges of the queue's index; an OR of them would scan the whole queue
SELECT d.demand FROM (
  SELECT DISTINCT t.demand FROM tasks t WHERE t.state = 'queued' AND t.demand >= 'place:' AND t.demand < 'place;'
  UNION ALL
  SELECT DISTINCT t.demand FROM tasks t WHERE t.state = 'queued' AND t.demand >= 'session:' AND t.demand < 'session;') d
ORDER BY d.demand

-- name: sessions_with_lease (now bigint)
SELECT {session}
FROM sessions s JOIN leases l ON l.session = s.id WHERE s.ended_at IS NULL AND l.expires_at > :now ORDER BY s.id

-- name: sessions_measured
SELECT f.session, f.body FROM node_facts f JOIN sessions s ON s.id = f.session WHERE s.ended_at IS NULL ORDER BY s.id

-- name: demand_bodies (ids text[])
SELECT d.id, d.body FROM demands d WHERE d.id IN :ids ORDER BY d.id

-- name: tasks_queued_all_of_run (run_no bigint): waits for claims that are under way, and leaves out what they took
SELECT {task} FROM tasks t WHERE t.state = 'queued' AND t.run_no = :run_no ORDER BY t.rank, t.id {lock}

-- name: tasks_queued_if_free (run_no bigint, limit int): those that a claim of another node holds are left out
SELECT {task} FROM tasks t WHERE t.state = 'queued' AND t.run_no = :run_no ORDER BY t.rank, t.id LIMIT :limit {lock_or_skip}

-- name: task_durations (name text, workflow text, tasks int): of the tasks that the run began with, by the range of their
-- ids. Of few runs, as each submission asks, and a name may have a million
SELECT t.pos, t.finished_at - t.started_at FROM (
  SELECT max(r.no) AS no FROM (SELECT no, workflow, state FROM runs WHERE name = :name ORDER BY no DESC LIMIT 10) r
  WHERE r.workflow = :workflow AND r.state = 'succeeded') r
JOIN tasks t ON t.id >= r.no << {ordinal_bits} AND t.id < (r.no << {ordinal_bits}) + :tasks
WHERE t.started_at IS NOT NULL AND t.finished_at IS NOT NULL ORDER BY t.id

-- name: tasks_running_of_run (run_no bigint): by the range of its ids; by run_no, a plan made while there was one run
-- reads all runs
SELECT {task} FROM tasks t WHERE t.id >= :run_no << {ordinal_bits} AND t.id < (:run_no + 1) << {ordinal_bits}
AND {unindexed t.state} = 'running' ORDER BY t.id

-- name: tasks_ready (run_no bigint, limit int)
SELECT {task} FROM tasks t
WHERE t.state = 'pending' AND t.ready_at IS NOT NULL AND t.run_no = :run_no ORDER BY t.rank, t.id LIMIT :limit

-- name: next_wake (but_tasks bigint[], but_runs bigint[])
SELECT min(m.at) FROM (
  SELECT w.at FROM (
    SELECT wake_at AS at FROM tasks WHERE wake_at IS NOT NULL AND id NOT IN :but_tasks ORDER BY wake_at LIMIT 1) w
  UNION ALL
  SELECT min(deadline_at) FROM runs WHERE deadline_at IS NOT NULL AND finished_at IS NULL AND no NOT IN :but_runs
) m HAVING min(m.at) IS NOT NULL

-- name: handles_unclosed (task_ids bigint[])
SELECT {handle} FROM handles h WHERE h.task_id IN :task_ids AND h.state IN ('open', 'orphaned') ORDER BY h.task_id

-- name: handle_history (task_id bigint, engine text, name text)
SELECT h.attempt,
  (SELECT coalesce(max(o.at + length(o.data)), 0) FROM output_chunks o
   WHERE o.task_id = h.task_id AND o.attempt = h.attempt AND o.stream = 'stdout'),
  (SELECT coalesce(max(o.at + length(o.data)), 0) FROM output_chunks o
   WHERE o.task_id = h.task_id AND o.attempt = h.attempt AND o.stream = 'stderr')
FROM handles h WHERE h.task_id = :task_id AND h.engine = :engine AND h.name = :name ORDER BY h.attempt

-- name: losses_given_up (task_id bigint)
SELECT count(*) FROM attempts a JOIN sessions s ON s.id = a.session
WHERE a.task_id = :task_id AND a.outcome = 'lost' AND s.gave_up

-- name: tasks_claimed_at (session text, number bigint)
SELECT {task} FROM tasks t
WHERE t.session = :session AND t.claim_no = :number AND t.state = 'running' AND t.held IS NULL ORDER BY t.id

-- name: tasks_to_stop (session text)
SELECT {task} FROM tasks t WHERE t.session = :session AND t.stop IS NOT NULL ORDER BY t.id

-- name: tasks_unsettled_of_run (limit int, run_no bigint): few are unsettled at a time, of all runs together
SELECT {task} FROM tasks t WHERE NOT t.settled AND +t.run_no = :run_no ORDER BY t.id LIMIT :limit

-- name: runs_to_sweep (now bigint, limit int): the node that holds a run sweeps it
SELECT {run} FROM runs r WHERE r.no IN (
  SELECT no FROM runs WHERE sweep IS NOT NULL
  UNION SELECT no FROM runs
  WHERE deadline_at IS NOT NULL AND finished_at IS NULL AND deadline_at <= :now)
ORDER BY r.no LIMIT :limit {lock_or_skip}

-- name: tasks_unended (after bigint, end bigint, limit int)
SELECT {task} FROM tasks t WHERE t.id > :after AND t.id < :end
AND t.state IN ('pending', 'queued', 'scheduled', 'waiting') ORDER BY t.id LIMIT :limit {lock}

-- name: tasks_of_run (run_no bigint)
SELECT {task} FROM tasks t WHERE t.id >= :run_no << {ordinal_bits} AND t.id < (:run_no + 1) << {ordinal_bits}
ORDER BY t.pos, t.idx, t.generation

-- name: demands_above (number bigint)
SELECT no, id, body FROM demands WHERE no > :number ORDER BY no

-- name: ends_held (task_ids bigint[]): a result only where it sets keys of the context
SELECT t.id, a.result_hash, CASE WHEN {strpos}(a.result, '"context":') > 0 THEN a.result END
FROM tasks t JOIN attempts a ON a.task_id = t.id AND a.attempt = t.attempt
WHERE t.id IN :task_ids ORDER BY t.id

-- name: ends_to_take_over (first bigint, end bigint): a result only where the new run needs to know it
SELECT t.id, coalesce(t.result_hash, a.result_hash), CASE
  WHEN {strpos}(coalesce(t.result, a.result), '"context":') > 0 OR {strpos}(coalesce(t.result, a.result), '"artifact":') > 0
  THEN coalesce(t.result, a.result) END, a.cached
FROM tasks t LEFT JOIN attempts a ON a.task_id = t.id AND a.attempt = t.attempt
WHERE t.id >= :first AND t.id < :end AND (t.ended_at IS NOT NULL OR a.task_id IS NOT NULL) ORDER BY t.id

-- name: run_inputs (run_no bigint)
SELECT inputs FROM runs WHERE no = :run_no

-- name: context_of_run (run_no bigint)
SELECT key, value, pos, idx FROM context WHERE run_no = :run_no ORDER BY key

-- name: memos_by_key (keys text[])
SELECT {memo} FROM memos k WHERE k.key IN :keys ORDER BY k.key {lock}

-- name: signal_of_run (run_no bigint, name text)
SELECT data, rejected FROM signals WHERE run_no = :run_no AND name = :name

-- name: array_newest (run_no bigint, pos int): of the newest generation in which the map opened
SELECT generation, value FROM arrays WHERE run_no = :run_no AND pos = :pos ORDER BY generation DESC LIMIT 1

-- name: array_of_map (run_no bigint, pos int, generation int): as this generation sees it
SELECT value FROM arrays WHERE run_no = :run_no AND pos = :pos AND generation <= :generation ORDER BY generation DESC LIMIT 1

-- name: labels_newest (run_no bigint, pos int)
SELECT generation, value FROM labels WHERE run_no = :run_no AND pos = :pos ORDER BY generation DESC LIMIT 1

-- name: tasks_failed (first bigint, last bigint): a look at every task of a run, once, if its handlers ask for it
SELECT t.pos, t.state FROM tasks t WHERE t.id >= :first AND t.id < :last AND t.idx = -1
  AND (t.state IN ('failed', 'dead_letter') OR t.generation > 1) ORDER BY t.pos, t.generation

-- name: applied_hash (name text)
SELECT hash FROM applied WHERE name = :name

-- name: trigger_by_id (id text)
SELECT {trigger} FROM triggers g WHERE g.id = :id {lock}

-- name: triggers_of_workflow (workflow text)
SELECT {trigger} FROM triggers g WHERE g.workflow = :workflow ORDER BY g.id {lock}

-- name: triggers_by_key (kind text, keys text[])
SELECT {trigger} FROM triggers g
WHERE g.kind = :kind AND g.key IS NOT NULL AND g.key IN :keys AND g.active ORDER BY g.id

-- name: runs_unfinished_of_trigger (trigger text)
SELECT no, id FROM runs
WHERE "trigger" IS NOT NULL AND "trigger" = :trigger AND finished_at IS NULL AND backfill IS NULL ORDER BY no

-- name: backfill_by_id (id text)
SELECT {backfill} FROM backfills b WHERE b.id = :id {lock}

-- name: runs_unfinished_of_backfill (backfill text)
SELECT no, id FROM runs WHERE backfill IS NOT NULL AND backfill = :backfill AND finished_at IS NULL ORDER BY no

-- name: fires_by_cause (trigger text, causes text[])
SELECT {fire} FROM fires f WHERE f."trigger" = :trigger AND f.cause IN :causes ORDER BY f.cause

-- name: fires_queued (trigger text, limit int): in the order in which they came; of those that came together, by their
-- times
SELECT {fire} FROM fires f WHERE f.outcome = 'queued' AND f."trigger" = :trigger
ORDER BY f.at, f.due_at, f.cause LIMIT :limit

-- name: fires_counted (trigger text, since bigint)
SELECT count(*) FROM fires WHERE "trigger" = :trigger AND at > :since AND outcome IN ('started', 'queued')

-- name: token_by_id (id text)
SELECT {token} FROM tokens t WHERE t.id = :id {lock}

-- name: deadlines_due (now bigint, limit int)
SELECT {deadline} FROM deadlines d WHERE d.state = 'open' AND d.at <= :now
ORDER BY d.at, d.run_no, d.pos, d.by LIMIT :limit

-- name: deadlines_due_of_run (now bigint, limit int, run_no bigint)
SELECT {deadline} FROM deadlines d WHERE d.state = 'open' AND d.at <= :now AND d.run_no = :run_no
ORDER BY d.at, d.pos, d.by LIMIT :limit

-- name: first_start (run_no bigint, pos int): a row of a task that waits has the times of an attempt before, if any
SELECT min(s.at) FROM (
  SELECT coalesce(t.started_at, t.claimed_at) AS at FROM tasks t
  WHERE t.id >= :run_no << {ordinal_bits} AND t.id < (:run_no + 1) << {ordinal_bits} AND (:pos < 0 OR t.pos = :pos)
  AND {unindexed t.state} NOT IN ('pending', 'queued', 'scheduled')
  UNION ALL
  SELECT coalesce(a.started_at, a.claimed_at) FROM attempts a JOIN tasks t ON t.id = a.task_id
  WHERE a.task_id >= :run_no << {ordinal_bits} AND a.task_id < (:run_no + 1) << {ordinal_bits}
  AND (:pos < 0 OR t.pos = :pos) AND a.outcome <> 'returned'
) s HAVING min(s.at) IS NOT NULL

-- name: notify_state (keys text[])
SELECT n.key, n.body FROM notify_state n WHERE n.key IN :keys ORDER BY n.key {lock}

-- name: notifications_by_id (ids text[])
SELECT {notification} FROM notifications n WHERE n.id IN :ids ORDER BY n.id {lock}

-- name: notifications_failed (limit int)
SELECT {notification} FROM notifications n WHERE n.state = 'failed' ORDER BY n.id LIMIT :limit {lock}

-- name: command_reply (id text)
SELECT body_hash, reply FROM commands WHERE id = :id
