-- Writes of a decision, and what a node writes beside them (leases, output). The notation: loads.sql.

-- name: tasks_insert v ({task_typed})
INSERT INTO tasks ({task_columns}) SELECT * FROM v

-- name: tasks_insert_fresh (run_no bigint)
-- v (id bigint, pos int, idx int, state text, open int, demand text, ready_at bigint, rank bigint, head_start int):
-- as a submission creates them; the other columns have the table's defaults
INSERT INTO tasks (id, run_no, pos, idx, state, open, demand, ready_at, rank, head_start)
SELECT v.id, :run_no, v.pos, v.idx, v.state, v.open, v.demand, v.ready_at, v.rank, v.head_start FROM v

-- name: tasks_claim_if_queued (session text, claim_no bigint, now bigint, was_attempt int) v (id bigint) guarded: the hot
-- half of all updates: whatever differs between rows costs. With `state =` a plan of PostgreSQL may read the whole queue
-- instead of these ids
UPDATE tasks SET state = 'running', attempt = :was_attempt + 1, session = :session, claim_no = :claim_no, claimed_at = :now
WHERE tasks.id IN (SELECT v.id FROM v) AND {unindexed tasks.state} = 'queued' AND tasks.attempt = :was_attempt
AND tasks.session IS NULL

-- name: tasks_ready_if_pending
-- v (id bigint, was_attempt int, state text, attempt int, open int, failed int, skipped int, tolerated int, admitted int,
--    upstream boolean, demand text, ready_at bigint, rank bigint, session text, claim_no bigint, claimed_at bigint)
-- guarded: its needs are met; it is queued, or claimed already. `state =` as above
UPDATE tasks SET state = v.state, attempt = v.attempt, open = v.open, failed = v.failed, skipped = v.skipped,
  tolerated = v.tolerated, admitted = v.admitted, upstream = v.upstream, demand = v.demand, ready_at = v.ready_at,
  rank = v.rank, session = v.session, claim_no = v.claim_no, claimed_at = v.claimed_at
FROM v WHERE tasks.id = v.id AND {unindexed tasks.state} = 'pending' AND tasks.attempt = v.was_attempt
AND tasks.session IS NULL

-- name: tasks_update_if_unchanged
-- v (id bigint, was_state text, was_attempt bigint, was_session text, {task_changing_typed}) guarded
UPDATE tasks SET {task_changes}
FROM v WHERE tasks.id = v.id AND tasks.state = v.was_state AND tasks.attempt = v.was_attempt
AND tasks.session IS NOT DISTINCT FROM v.was_session

-- name: run_insert v ({run_typed}, {run_extra_typed})
INSERT INTO runs ({run_columns}, {run_extra_columns}) SELECT * FROM v

-- name: run_update (no bigint, {run_changing_typed})
UPDATE runs SET {run_changes} WHERE no = :no

-- name: run_update_progress (no bigint, active bigint, open bigint, open_main bigint, succeeded bigint): while its tasks succeed
UPDATE runs SET active = :active, open = :open, open_main = :open_main, succeeded = :succeeded WHERE no = :no

-- name: pin_insert (root bigint, {pin_typed})
INSERT INTO pins (root, {pin_columns}) VALUES (:root, {pin_values})

-- name: correction_insert (run_no bigint, generation bigint, workflow text)
INSERT INTO corrections (run_no, generation, workflow) VALUES (:run_no, :generation, :workflow)

-- name: run_correct (no bigint, workflow text)
UPDATE runs SET workflow = :workflow WHERE no = :no

-- name: run_delete_corrections (run_no bigint)
DELETE FROM corrections WHERE run_no = :run_no

-- name: run_delete_pins (run_no bigint)
DELETE FROM pins WHERE root = :run_no

-- name: workflow_insert (hash text, name text, document bytea, now bigint)
INSERT INTO workflows (hash, name, document, created_at) VALUES (:hash, :name, :document, :now) ON CONFLICT DO NOTHING

-- name: demands_delete_private: of sessions that are over
DELETE FROM demands WHERE id >= 'session:' AND id < 'session;'
AND NOT EXISTS (SELECT 1 FROM sessions s WHERE s.ended_at IS NULL AND {strpos}(demands.id, 'session:' || s.id || '/') = 1)
AND NOT EXISTS (SELECT 1 FROM tasks t WHERE t.state = 'queued' AND t.demand = demands.id)

-- name: pool_set (name text, size bigint)
INSERT INTO pools (name, size, used) VALUES (:name, :size, 0) ON CONFLICT (name) DO UPDATE SET size = excluded.size

-- name: pool_use (name text, change bigint) guarded: it may have gone
UPDATE pools SET used = used + :change WHERE name = :name

-- name: budget_insert ({budget_typed})
INSERT INTO budgets ({budget_columns}) VALUES ({budget_values})

-- name: budget_limit (scope text, usd bigint, tokens bigint) guarded
UPDATE budgets SET usd = coalesce(:usd, usd), tokens = coalesce(:tokens, tokens) WHERE scope = :scope

-- name: budget_renew (scope text) guarded
UPDATE budgets SET usd_spent = 0, tokens_spent = 0 WHERE scope = :scope

-- name: budget_count (scope text, usd_spent bigint, tokens_spent bigint, usd_reserved bigint, tokens_reserved bigint): a
-- workflow's own pool has none
UPDATE budgets SET usd_spent = usd_spent + :usd_spent, tokens_spent = tokens_spent + :tokens_spent,
  usd_reserved = usd_reserved + :usd_reserved, tokens_reserved = tokens_reserved + :tokens_reserved WHERE scope = :scope

-- name: spending_add (task_id bigint, usd bigint, tokens bigint)
INSERT INTO spending (task_id, usd, tokens) VALUES (:task_id, :usd, :tokens)
ON CONFLICT (task_id) DO UPDATE SET usd = spending.usd + excluded.usd, tokens = spending.tokens + excluded.tokens

-- name: run_delete_budget (run_no bigint)
DELETE FROM budgets WHERE scope = 'run:' || :run_no

-- name: run_delete_spending (first bigint, end bigint)
DELETE FROM spending WHERE task_id >= :first AND task_id < :end

-- name: attempts_insert v ({attempt_typed})
INSERT INTO attempts ({attempt_columns}) SELECT * FROM v

-- name: attempts_take_over (now bigint) v (task_id bigint, source bigint, result text, cached text) guarded: the result goes
-- from row to row within the store, but for one that refers to an artifact
INSERT INTO attempts ({attempt_columns})
SELECT v.task_id, 1, 1, '', coalesce(a.outcome, 'succeeded'), coalesce(t.exit_code, a.exit_code), a.error, :now, :now, :now,
  coalesce(v.result, t.result, a.result), coalesce(t.result_hash, a.result_hash), v.cached
FROM v JOIN tasks t ON t.id = v.source LEFT JOIN attempts a ON a.task_id = t.id AND a.attempt = t.attempt

-- name: stale_insert (now bigint) v (task_id bigint, attempt int, session text, why text, body text)
INSERT INTO stale_reports (task_id, attempt, session, why, body, at) SELECT v.*, :now FROM v

-- name: context_set (run_no bigint, key text, value text, pos int, idx int)
INSERT INTO context (run_no, key, value, pos, idx) VALUES (:run_no, :key, :value, :pos, :idx)
ON CONFLICT (run_no, key) DO UPDATE SET value = excluded.value, pos = excluded.pos, idx = excluded.idx

-- name: signal_insert (run_no bigint, name text, data text, rejected text, now bigint)
INSERT INTO signals (run_no, name, data, rejected, at) VALUES (:run_no, :name, :data, :rejected, :now)

-- name: signal_delete (run_no bigint, name text)
DELETE FROM signals WHERE run_no = :run_no AND name = :name

-- name: memos_keep v ({memo_typed}): the guard is that of the task that succeeds in the same transaction
INSERT INTO memos ({memo_columns}) SELECT * FROM v WHERE true
ON CONFLICT (key) DO UPDATE SET {memo_excluded}

-- name: memo_set_if_held ({memo_typed}) guarded: only by the attempt that runs, and never over what is completed
INSERT INTO memos ({memo_columns})
SELECT {memo_values} WHERE EXISTS (
  SELECT 1 FROM tasks t WHERE t.id = :task_id AND t.attempt = :attempt AND t.session = :session AND t.state = 'running')
ON CONFLICT (key) DO UPDATE SET {memo_excluded} WHERE memos.status <> 'completed'

-- name: memos_delete_expired (now bigint)
DELETE FROM memos WHERE expires_at IS NOT NULL AND expires_at <= :now

-- name: memos_delete_cached (before bigint)
DELETE FROM memos WHERE kind = 'cache' AND created_at < :before

-- name: array_insert (run_no bigint, pos int, generation int, value text)
INSERT INTO arrays (run_no, pos, generation, value) VALUES (:run_no, :pos, :generation, :value)

-- name: labels_insert (run_no bigint, pos int, generation int, value text)
INSERT INTO labels (run_no, pos, generation, value) VALUES (:run_no, :pos, :generation, :value)

-- name: session_insert ({session_typed})
INSERT INTO sessions ({session_columns}) VALUES ({session_values})

-- name: lease_insert (session text, expires_at bigint)
INSERT INTO leases (session, expires_at) VALUES (:session, :expires_at)

-- name: lease_renew_if_live (session text, ttl_ms bigint, now bigint): by the clock at the moment of the write
UPDATE leases SET expires_at = {greatest}(expires_at, {clock} + :ttl_ms) WHERE session = :session RETURNING 1

-- name: lease_delete (session text)
DELETE FROM leases WHERE session = :session

-- name: session_end (id text, state text, now bigint)
UPDATE sessions SET state = :state, ended_at = :now WHERE id = :id AND ended_at IS NULL

-- name: session_give_up (id text)
UPDATE sessions SET gave_up = true WHERE id = :id

-- name: session_drain (id text, drain_at bigint)
UPDATE sessions SET state = 'draining', drain_at = :drain_at WHERE id = :id AND ended_at IS NULL

-- name: leadership_set_if_term (term bigint, session text, expires_at bigint, was_term bigint) guarded
UPDATE leadership SET term = :term, session = :session, expires_at = :expires_at WHERE one = 1 AND term = :was_term

-- name: node_facts_set_if_live (session text, now bigint, body text)
INSERT INTO node_facts (session, at, body) SELECT l.session, {clock}, :body FROM leases l WHERE l.session = :session
ON CONFLICT (session) DO UPDATE SET at = excluded.at, body = excluded.body

-- name: node_facts_delete_unused
DELETE FROM node_facts WHERE NOT EXISTS (SELECT 1 FROM sessions s WHERE s.id = node_facts.session)

-- name: events_delete_cluster_before (before bigint)
DELETE FROM events WHERE run_no = 0 AND at < :before

-- name: run_delete_tasks (first bigint, end bigint)
DELETE FROM tasks WHERE id >= :first AND id < :end

-- name: run_delete_attempts (first bigint, end bigint)
DELETE FROM attempts WHERE task_id >= :first AND task_id < :end

-- name: run_delete_stale (first bigint, end bigint)
DELETE FROM stale_reports WHERE task_id >= :first AND task_id < :end

-- name: run_delete_handles (first bigint, end bigint)
DELETE FROM handles WHERE task_id >= :first AND task_id < :end

-- name: handle_insert ({handle_typed})
INSERT INTO handles ({handle_columns}) VALUES ({handle_values})

-- name: handle_orphan_if_open (task_id bigint, attempt int) guarded
UPDATE handles SET state = 'orphaned' WHERE task_id = :task_id AND attempt = :attempt AND state = 'open'

-- name: handle_close_if_unclosed (task_id bigint, attempt int, state text, now bigint) guarded
UPDATE handles SET state = :state, closed_at = :now
WHERE task_id = :task_id AND attempt = :attempt AND state IN ('open', 'orphaned')

-- name: handle_note (task_id bigint, attempt int, note text)
UPDATE handles SET note = :note WHERE task_id = :task_id AND attempt = :attempt AND state = 'open'

-- name: run_delete_memos (first bigint, end bigint)
DELETE FROM memos WHERE kind = 'once' AND task_id >= :first AND task_id < :end

-- name: files_delete_earlier (task_id bigint, attempt bigint): what earlier attempts have left, which cannot be accepted
DELETE FROM output_chunks WHERE task_id = :task_id AND attempt < :attempt AND stream = 'files'

-- name: run_delete_output_chunks (first bigint, end bigint)
DELETE FROM output_chunks WHERE task_id >= :first AND task_id < :end

-- name: run_delete_output_ends (first bigint, end bigint)
DELETE FROM output_ends WHERE task_id >= :first AND task_id < :end

-- name: run_delete_events (run_no bigint)
DELETE FROM events WHERE run_no = :run_no

-- name: run_delete_context (run_no bigint)
DELETE FROM context WHERE run_no = :run_no

-- name: run_delete_signals (run_no bigint)
DELETE FROM signals WHERE run_no = :run_no

-- name: run_delete_arrays (run_no bigint)
DELETE FROM arrays WHERE run_no = :run_no

-- name: run_delete_labels (run_no bigint)
DELETE FROM labels WHERE run_no = :run_no

-- name: run_delete (run_no bigint)
DELETE FROM runs WHERE no = :run_no

-- name: workflows_delete_unused: no submission can be about to use one, see run_next
DELETE FROM workflows WHERE NOT EXISTS (SELECT 1 FROM runs WHERE runs.workflow = workflows.hash)
AND NOT EXISTS (SELECT 1 FROM pins WHERE pins.child = workflows.hash)
AND NOT EXISTS (SELECT 1 FROM applied WHERE applied.hash = workflows.hash)
AND NOT EXISTS (SELECT 1 FROM corrections WHERE corrections.workflow = workflows.hash)

-- name: sessions_delete_before (before bigint): one that was given up stays as long as the attempts that were lost with it
DELETE FROM sessions WHERE ended_at < :before AND NOT EXISTS (SELECT 1 FROM tasks t WHERE t.session = sessions.id)
AND NOT (gave_up AND EXISTS (SELECT 1 FROM attempts a WHERE a.session = sessions.id AND a.outcome = 'lost'))

-- name: command_insert (id text, body_hash text, reply text, now bigint)
INSERT INTO commands (id, body_hash, reply, at) VALUES (:id, :body_hash, :reply, :now)

-- name: commands_delete_old (before bigint)
DELETE FROM commands WHERE at < :before

-- name: applied_set (name text, hash text, source text, by text, now bigint)
INSERT INTO applied (name, hash, source, by, at) VALUES (:name, :hash, :source, :by, :now)
ON CONFLICT (name) DO UPDATE SET hash = excluded.hash, source = excluded.source, by = excluded.by, at = excluded.at

-- name: trigger_set_if_unmoved ({trigger_typed}, was_since_ms bigint) guarded: a new one, or one that still stands where
-- it was seen
INSERT INTO triggers ({trigger_columns}) VALUES ({trigger_values})
ON CONFLICT (id) DO UPDATE SET {trigger_excluded} WHERE triggers.since_ms = :was_since_ms

-- name: fire_insert ({fire_typed})
INSERT INTO fires ({fire_columns}) VALUES ({fire_values})

-- name: fire_update_if_queued (trigger text, cause text, at bigint, outcome text, run text, reason text) guarded
UPDATE fires SET at = :at, outcome = :outcome, run = :run, reason = :reason, names = NULL
WHERE "trigger" = :trigger AND cause = :cause AND outcome = 'queued'

-- name: fire_remake_if_without_run (trigger text, cause text, at bigint, outcome text, run text, reason text) guarded: a
-- backfill makes up for it
UPDATE fires SET at = :at, outcome = :outcome, run = :run, reason = :reason
WHERE "trigger" = :trigger AND cause = :cause AND run IS NULL AND outcome <> 'queued'

-- name: backfill_insert ({backfill_typed})
INSERT INTO backfills ({backfill_columns}) VALUES ({backfill_values})

-- name: backfill_move_if_at (id text, state text, cursor bigint, started bigint, existing bigint, failed bigint, reason text,
-- was_cursor bigint) guarded: one that still stands where it was seen
UPDATE backfills SET state = :state, cursor = :cursor, started = :started, existing = :existing, failed = :failed,
  reason = :reason WHERE id = :id AND state = 'active' AND cursor IS NOT DISTINCT FROM :was_cursor

-- name: backfills_delete_unused (before bigint)
DELETE FROM backfills WHERE state <> 'active' AND created_at < :before
AND NOT EXISTS (SELECT 1 FROM runs r WHERE r.backfill IS NOT NULL AND r.backfill = backfills.id)

-- name: fires_drop_queued (trigger text, now bigint): their trigger is gone
UPDATE fires SET at = :now, outcome = 'skipped', reason = 'the trigger was removed', names = NULL
WHERE outcome = 'queued' AND "trigger" = :trigger

-- name: fires_delete_before (before bigint): what is due up to a trigger's place in time never comes again
DELETE FROM fires WHERE at < :before AND outcome <> 'queued'
AND NOT EXISTS (SELECT 1 FROM runs r WHERE r.id = fires.run)

-- name: triggers_delete_unused (before bigint)
DELETE FROM triggers WHERE NOT active AND since_ms < :before
AND id NOT IN (SELECT b."trigger" FROM backfills b WHERE b.state = 'active')

-- name: deadlines_insert v ({deadline_typed})
INSERT INTO deadlines ({deadline_columns}) SELECT {deadline_columns} FROM v

-- name: deadline_judge_if_open (run_no bigint, pos int, by text, state text) guarded
UPDATE deadlines SET state = :state WHERE run_no = :run_no AND pos = :pos AND by = :by AND state = 'open'

-- name: notification_insert ({notification_typed}): the same event for the same target is one row, whoever writes it
INSERT INTO notifications ({notification_columns}) VALUES ({notification_values}) ON CONFLICT DO NOTHING

-- name: notification_set_if_tries ({notification_delivery_typed}, was_tries int) guarded
UPDATE notifications SET {notification_delivery} WHERE id = :id AND tries = :was_tries

-- name: notify_state_set (key text, body text)
INSERT INTO notify_state (key, body) VALUES (:key, :body) ON CONFLICT (key) DO UPDATE SET body = excluded.body

-- name: notify_state_delete (key text)
DELETE FROM notify_state WHERE key = :key

-- name: run_delete_deadlines (run_no bigint)
DELETE FROM deadlines WHERE run_no = :run_no

-- name: run_delete_notifications (run_no bigint)
DELETE FROM notifications WHERE run_no = :run_no

-- name: notifications_delete_before (before bigint): those of triggers; those of runs go with their runs
DELETE FROM notifications WHERE run_no IS NULL AND state <> 'pending' AND created_at < :before

-- name: token_insert ({token_typed})
INSERT INTO tokens ({token_columns}) VALUES ({token_values})

-- name: token_revoke (id text, now bigint)
UPDATE tokens SET revoked_at = :now WHERE id = :id AND revoked_at IS NULL

-- name: output_drop (task_id bigint, attempt bigint, stream text, first bigint, end bigint): what lies within these bytes
-- entirely
DELETE FROM output_chunks WHERE task_id = :task_id AND attempt = :attempt AND stream = :stream
AND at >= :first AND at + length(data) <= :end

-- name: output_end (task_id bigint, attempt bigint, stream text, size bigint)
INSERT INTO output_ends (task_id, attempt, stream, size) VALUES (:task_id, :attempt, :stream, :size) ON CONFLICT DO NOTHING
