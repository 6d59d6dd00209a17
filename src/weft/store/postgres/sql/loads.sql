-- Loads for rules that must differ from SQLite's, each with the reason: mostly that rows are locked in an order, or that
-- a subquery (LATERAL, OFFSET 0) keeps a plan from reading more than it should. The notation: store/sql/loads.sql.

-- part: outlook: the number of this transaction, which is that of the rows it writes; the tasks that follow, with theirs
k.xid, t.xmin::text::bigint, {task}
FROM (SELECT (pg_current_xact_id()::text::bigint & 4294967295) AS xid) k LEFT JOIN tasks t ON t.id IN :following

-- name: exchange_outlook (following bigint[], demands text[]): what the next exchange is about to need (known_rows.py).
-- SQLite keeps the rows that it writes, and reads the others as quickly as this. Also whether anything is queued
SELECT EXISTS (SELECT 1 FROM unnest(:demands) AS d (demand) CROSS JOIN LATERAL (
    SELECT 1 FROM tasks q WHERE q.state = 'queued' AND q.demand = d.demand ORDER BY q.rank, q.id LIMIT 1) q),
  {outlook}

-- name: exchange_begin_known (session text, number bigint, run_no bigint, version bigint, following bigint[]): of an
-- exchange whose rows are known; it fails if its session or its run is no longer what it was. The session is locked first
WITH begun AS (
  UPDATE sessions SET exchange = :number WHERE id = :session AND exchange < :number AND state = 'live' RETURNING 1),
held AS MATERIALIZED (
  SELECT 1 FROM runs h WHERE h.no = :run_no AND h.xmin = :version::text::xid AND (SELECT count(*) FROM begun) = 1
  FOR UPDATE OF h)
SELECT 1 / (SELECT count(*) FROM held)::int, {outlook}

-- part: known_tasks: those of these ids whose versions are these
FROM unnest(:ids, :versions) AS k (id, version) JOIN tasks t ON t.id = k.id AND t.xmin = k.version::text::xid

-- name: tasks_if_known (ids bigint[], versions bigint[]): it fails if one of them is no longer what it was
SELECT 1 / (count(*) = cardinality(:ids))::int {known_tasks}

-- name: runs_owned_by (session text): with the runs of its attempts, which are asked for next: all runs are locked in one
-- order
SELECT {run} FROM runs r WHERE r.no IN (
  SELECT no FROM runs WHERE owner = :session
  UNION SELECT h.run_no FROM tasks h WHERE h.session = :session) ORDER BY r.no FOR UPDATE OF r

-- name: run_next: a sequence, so that submissions do not wait for each other. The lock keeps `prune` from removing the
-- workflow that this submission is about to find (workflows_delete_unused).
SELECT nextval('run_numbers'), pg_advisory_xact_lock_shared(1464157780, 3)

-- name: workflows_named (names text[]): an array has no collation of its own
SELECT coalesce(r.workflow, w.hash), j.name, r.source, r.root FROM unnest(:names) AS j (name)
LEFT JOIN runs r ON r.no = (SELECT n.no FROM runs n WHERE n.name = j.name
                            ORDER BY n.parent IS NOT NULL, n.no DESC LIMIT 1)
LEFT JOIN workflows w ON w.hash = (SELECT s.hash FROM workflows s WHERE s.name = j.name
                                   ORDER BY s.created_at DESC, s.hash LIMIT 1)
WHERE r.no IS NOT NULL OR w.hash IS NOT NULL ORDER BY j.name COLLATE "C"

-- name: tasks_child_actions (limit int): of runs that no other transaction holds
WITH free AS MATERIALIZED (
  SELECT r.no FROM runs r
  WHERE r.no IN (SELECT e.run_no FROM tasks e WHERE e.child_action IS NOT NULL ORDER BY e.id LIMIT :limit)
  ORDER BY r.no FOR UPDATE SKIP LOCKED)
SELECT {task} FROM tasks t WHERE t.child_action IS NOT NULL AND t.run_no IN (SELECT no FROM free) ORDER BY t.id LIMIT :limit
FOR UPDATE OF t

-- name: tasks_child_actions_of_family (limit int, run_no bigint): likewise
WITH free AS MATERIALIZED (
  SELECT r.no FROM runs r
  WHERE r.no IN (SELECT e.run_no FROM tasks e WHERE e.child_action IS NOT NULL)
    AND r.root = (SELECT f.root FROM runs f WHERE f.no = :run_no)
  ORDER BY r.no FOR UPDATE SKIP LOCKED)
SELECT {task} FROM tasks t WHERE t.child_action IS NOT NULL AND t.run_no IN (SELECT no FROM free) ORDER BY t.id LIMIT :limit
FOR UPDATE OF t

-- part: free_pairs: of which no other transaction holds either
free AS MATERIALIZED (
  SELECT r.no FROM runs r WHERE r.no IN (SELECT no FROM ended UNION SELECT parent >> {ordinal_bits} FROM ended)
  ORDER BY r.no FOR UPDATE SKIP LOCKED)
SELECT e.no, e.parent FROM ended e
WHERE e.no IN (SELECT no FROM free) AND e.parent >> {ordinal_bits} IN (SELECT no FROM free) ORDER BY e.no

-- name: runs_unreported (limit int): locks a run and the one that started it, or neither
WITH ended AS MATERIALIZED (SELECT no, parent FROM runs WHERE NOT reported ORDER BY no LIMIT :limit),
{free_pairs}

-- name: runs_unreported_of_family (limit int, run_no bigint): likewise
WITH ended AS MATERIALIZED (
  SELECT no, parent FROM runs WHERE NOT reported AND root = (SELECT f.root FROM runs f WHERE f.no = :run_no)
  ORDER BY no LIMIT :limit),
{free_pairs}

-- name: tasks_by_place (run_nos bigint[], positions int[], idxs int[]): OFFSET 0 keeps one look per place; joined, a small run's rows would be read all
-- each time
SELECT {task} FROM unnest(:run_nos, :positions, :idxs) AS v (run_no, pos, idx) CROSS JOIN LATERAL (
  SELECT * FROM tasks p WHERE v.idx < 0 AND p.id = (v.run_no << {ordinal_bits}) + v.pos
  UNION ALL
  SELECT * FROM tasks p WHERE p.run_no = v.run_no AND p.pos = v.pos AND p.idx = v.idx AND {later} OFFSET 0) t
ORDER BY t.id

-- name: tasks_by_position (run_no bigint, positions int[]): likewise
SELECT {task} FROM unnest(:positions) AS v (pos) CROSS JOIN LATERAL (
  SELECT * FROM tasks p WHERE p.id = (:run_no << {ordinal_bits}) + v.pos
  UNION ALL
  SELECT * FROM tasks p WHERE p.run_no = :run_no AND p.pos = v.pos AND p.idx = -1 AND {later} OFFSET 0) t
ORDER BY t.id

-- name: tasks_queued (demands text[], limit int): locked inside the materialised part, best first, so that rows of
-- others are left out before the limit counts them; as `id IN (SELECT … LIMIT … SKIP LOCKED)` a plan may run the
-- subquery again and again
WITH picked AS MATERIALIZED (
  SELECT q.* FROM unnest(:demands) AS d (demand) CROSS JOIN LATERAL (
    SELECT t.* FROM tasks t WHERE t.state = 'queued' AND t.demand = d.demand
    ORDER BY t.rank, t.id LIMIT :limit FOR UPDATE SKIP LOCKED) q)
SELECT {task} FROM picked t ORDER BY t.rank, t.id LIMIT :limit

-- name: tasks_queued_spread (demands text[], limit int, session text): on SQLite nodes write one after the other anyway.
-- Beside other nodes, each has its share of the runs among the first tasks, because reports to one run wait for each
-- other. It takes others' when it has hardly any of its own, and when they are 5 s ahead of those
WITH nodes AS MATERIALIZED (
  SELECT greatest(count(*), 1) AS many, count(*) FILTER (WHERE l.session < :session) AS before FROM leases l),
first AS MATERIALIZED (
  SELECT q.id, q.rank, (q.id >> {ordinal_bits}) % n.many = n.before AS own
  FROM nodes n CROSS JOIN unnest(:demands) AS d (demand) CROSS JOIN LATERAL (
    SELECT t.id, t.rank FROM tasks t WHERE t.state = 'queued' AND t.demand = d.demand
    ORDER BY t.rank, t.id LIMIT :limit * 2 * least(n.many, 4)) q),
share AS MATERIALIZED (SELECT count(*) AS many, min(f.rank) AS best FROM first f WHERE f.own),
best AS MATERIALIZED (
  SELECT f.id FROM first f CROSS JOIN share s WHERE f.own OR s.many < :limit / 4 OR f.rank + 5000 < s.best
  ORDER BY f.rank + CASE WHEN f.own THEN 0 ELSE 5000 END, f.id),
picked AS MATERIALIZED (
  SELECT t.* FROM best JOIN tasks t ON t.id = best.id AND t.state || '' = 'queued' LIMIT :limit FOR UPDATE OF t SKIP LOCKED)
SELECT {task} FROM picked t ORDER BY t.rank, t.id

-- name: tasks_queued_of_family (demands text[], limit int, root bigint): over all runs that have not ended. An index of
-- those that have something at work, which the other dialect has, would know `active`, and then no counter of a run
-- could change in place any more.
WITH picked AS MATERIALIZED (
  SELECT q.* FROM runs r CROSS JOIN LATERAL (
    SELECT t.* FROM tasks t WHERE t.state = 'queued' AND t.run_no = r.no AND t.demand IN :demands
    ORDER BY t.rank, t.id LIMIT :limit FOR UPDATE SKIP LOCKED) q
  WHERE r.root = :root AND r.finished_at IS NULL)
SELECT {task} FROM picked t ORDER BY t.rank, t.id LIMIT :limit

-- name: tasks_queued_each (demands text[], limit int): locked as above. With a limit for each demand, where one of them may have more
-- than can be claimed
WITH picked AS MATERIALIZED (
  SELECT q.* FROM unnest(:demands) AS d (demand) CROSS JOIN LATERAL (
    SELECT t.* FROM tasks t WHERE t.state = 'queued' AND t.demand = d.demand
    ORDER BY t.rank, t.id LIMIT :limit FOR UPDATE SKIP LOCKED) q)
SELECT {task} FROM picked t ORDER BY t.rank, t.id

-- name: tasks_queued_each_of_family (demands text[], limit int, root bigint): locked as above. For each run of it, which is never too
-- few
WITH picked AS MATERIALIZED (
  SELECT q.* FROM runs r CROSS JOIN unnest(:demands) AS d (demand) CROSS JOIN LATERAL (
    SELECT t.* FROM tasks t WHERE t.state = 'queued' AND t.run_no = r.no AND t.demand = d.demand
    ORDER BY t.rank, t.id LIMIT :limit FOR UPDATE SKIP LOCKED) q
  WHERE r.root = :root AND r.finished_at IS NULL)
SELECT {task} FROM picked t ORDER BY t.rank, t.id

-- name: tasks_queued_of_workflows (demands text[], limit int, workflows json): over all runs that have not ended, as for
-- a family: only workers whose token is bound to workflows ask
WITH picked AS MATERIALIZED (
  SELECT q.* FROM runs r CROSS JOIN LATERAL (
    SELECT t.* FROM tasks t WHERE t.state = 'queued' AND t.run_no = r.no AND t.demand IN :demands
    ORDER BY t.rank, t.id LIMIT :limit FOR UPDATE SKIP LOCKED) q
  WHERE r.finished_at IS NULL AND {allowed_workflow})
SELECT {task} FROM picked t ORDER BY t.rank, t.id LIMIT :limit

-- name: tasks_queued_each_of_workflows (demands text[], limit int, workflows json): locked as above
WITH picked AS MATERIALIZED (
  SELECT q.* FROM runs r CROSS JOIN unnest(:demands) AS d (demand) CROSS JOIN LATERAL (
    SELECT t.* FROM tasks t WHERE t.state = 'queued' AND t.run_no = r.no AND t.demand = d.demand
    ORDER BY t.rank, t.id LIMIT :limit FOR UPDATE SKIP LOCKED) q
  WHERE r.finished_at IS NULL AND {allowed_workflow})
SELECT {task} FROM picked t ORDER BY t.rank, t.id

-- name: demands_waiting (demands json): the order leads to the index; without it a plan made without statistics may
-- read the whole queue
SELECT d.demand FROM json_array_elements_text(:demands::json) AS d (demand) CROSS JOIN LATERAL (
  SELECT 1 FROM tasks q WHERE q.state = 'queued' AND q.demand = d.demand ORDER BY q.rank, q.id LIMIT 1) q
ORDER BY d.demand COLLATE "C"

-- name: demands_waiting_of_workflows (demands json, workflows json): of runs of these, which are looked at one by one
SELECT d.demand FROM json_array_elements_text(:demands::json) AS d (demand) WHERE EXISTS (
  SELECT 1 FROM runs r CROSS JOIN LATERAL (
    SELECT 1 FROM tasks q WHERE q.state = 'queued' AND q.run_no = r.no AND q.demand = d.demand
    ORDER BY q.rank, q.id LIMIT 1) q
  WHERE r.finished_at IS NULL AND {allowed_workflow}) ORDER BY d.demand COLLATE "C"

-- name: demands_occupied: by session; grouped over all tasks, a plan made without statistics reads them all
SELECT s.id, o.demand, o.many FROM sessions s CROSS JOIN LATERAL (
  SELECT t.demand, count(*) AS many FROM tasks t WHERE t.session = s.id AND t.state = 'running' GROUP BY t.demand) o
WHERE s.ended_at IS NULL ORDER BY s.id, o.demand

-- name: tasks_due (now bigint, limit int): runs before tasks, as everywhere; a run that another transaction holds has its turn
-- next time. Locked, because one that was given to a session is queued: that session may be claiming it right now
WITH free AS MATERIALIZED (
  SELECT r.no FROM runs r
  WHERE r.no IN (SELECT d.run_no FROM tasks d WHERE d.wake_at IS NOT NULL AND d.wake_at <= :now
                 ORDER BY d.wake_at, d.id LIMIT :limit)
  ORDER BY r.no FOR UPDATE SKIP LOCKED)
SELECT {task} FROM tasks t WHERE t.wake_at IS NOT NULL AND t.wake_at <= :now
AND t.run_no IN (SELECT no FROM free) ORDER BY t.wake_at, t.id LIMIT :limit FOR UPDATE OF t SKIP LOCKED

-- name: tasks_held (session text): runs before tasks
WITH held AS MATERIALIZED (
  SELECT r.no FROM runs r WHERE r.no IN (SELECT h.run_no FROM tasks h WHERE h.session = :session)
  ORDER BY r.no FOR UPDATE)
SELECT {task} FROM tasks t WHERE t.session = :session AND (SELECT count(*) FROM held) >= 0 ORDER BY t.id FOR UPDATE OF t

-- name: tasks_unsettled (limit int): of runs that no other transaction holds
WITH free AS MATERIALIZED (
  SELECT r.no FROM runs r
  WHERE r.no IN (SELECT u.run_no FROM tasks u WHERE NOT u.settled ORDER BY u.id LIMIT :limit)
  ORDER BY r.no FOR UPDATE SKIP LOCKED)
SELECT {task} FROM tasks t WHERE NOT t.settled AND t.run_no IN (SELECT no FROM free) ORDER BY t.id LIMIT :limit
FOR UPDATE OF t

-- name: runs_finished (before bigint, states text[], limit int, nos bigint[]): families whole, the root last; the lock goes with
-- run_next's
WITH held AS MATERIALIZED (SELECT pg_advisory_xact_lock(1464157780, 3))
SELECT {run} FROM held CROSS JOIN runs f JOIN runs r ON r.root = f.no
WHERE f.parent IS NULL AND f.finished_at < :before AND f.state IN :states
AND (:nos IS NULL OR f.no IN :nos) AND f.no NOT IN ({taken_over_roots})
ORDER BY f.finished_at, f.no, r.no DESC LIMIT :limit FOR UPDATE OF r

-- name: ends_at (run_no bigint, positions json): one look per position, see tasks_by_place. The newest generation of each,
-- without elements that only an earlier one had. In levels, what a cancelled task had done by then does not show: it
-- depends on which was faster
SELECT t.pos, t.idx, t.state, coalesce(t.exit_code, a.exit_code), coalesce(a.error, t.reason), coalesce(t.result, a.result)
FROM json_array_elements_text(:positions::json) AS j (pos) CROSS JOIN LATERAL (
  SELECT * FROM tasks p WHERE p.id = (:run_no << {ordinal_bits}) + j.pos::int
  UNION ALL
  SELECT * FROM tasks p WHERE p.run_no = :run_no AND p.pos = j.pos::int AND {later} OFFSET 0) t
LEFT JOIN LATERAL (
  SELECT * FROM attempts l WHERE l.task_id = t.id AND l.attempt = t.attempt OFFSET 0) a ON
  NOT (t.state = 'cancelled' AND (SELECT r.level FROM runs r WHERE r.no = :run_no) IS NOT NULL)
WHERE {current}
ORDER BY t.pos, t.idx

-- name: applying: one at a time; and `prune` must not remove the workflow that this one is about to find
SELECT pg_advisory_xact_lock(1464157780, 4), pg_advisory_xact_lock_shared(1464157780, 3)

-- name: event_newest: of transactions older than any that is under way
SELECT coalesce(max(seq), 0) FROM events WHERE xid < pg_snapshot_xmin(pg_current_snapshot())
