-- Writes of a decision. `{rows}` stands for as many rows of parameters as a call has.

-- name: tasks_insert
INSERT INTO tasks ({task_columns}) VALUES {rows}

-- name: tasks_insert_fresh: most columns of a task that was just made are the same for all
WITH v (id, pos, idx, state, open, demand, ready_at, rank) AS (VALUES {rows})
INSERT INTO tasks ({task_columns})
SELECT v.id, {run_no}, v.pos, v.idx, 1, v.state, 0, 0, 0, v.open, 0, 0, 0, NULL, 0, v.demand, v.ready_at, v.rank, NULL, NULL,
       NULL, NULL, 0, 1, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL FROM v

-- name: tasks_claim_if_queued: the hot half of all updates; 26 parameters a row cost twice as much as these 2
WITH v (id, was_attempt) AS (VALUES {rows})
UPDATE tasks SET state = 'running', attempt = v.was_attempt + 1, session = {session}, claim_no = {claim_no}, claimed_at = {now}
FROM v WHERE tasks.id = v.id AND tasks.state = 'queued' AND tasks.attempt = v.was_attempt AND tasks.session IS NULL

-- name: tasks_succeed_if_running: the other half
WITH v (id, was_attempt, was_session, started_at) AS (VALUES {rows})
UPDATE tasks SET state = 'succeeded', session = NULL, reason = NULL, held = NULL, started_at = v.started_at, finished_at = {now}
FROM v WHERE tasks.id = v.id AND tasks.state = 'running' AND tasks.attempt = v.was_attempt AND tasks.session = v.was_session

-- name: tasks_ready_if_pending: its needs are met; it is queued, or claimed already
WITH v (id, was_attempt, state, attempt, open, failed, skipped, tolerated, admitted, upstream, demand, ready_at, rank,
        session, claim_no, claimed_at) AS (VALUES {rows})
UPDATE tasks SET state = v.state, attempt = v.attempt, open = v.open, failed = v.failed, skipped = v.skipped,
  tolerated = v.tolerated, admitted = v.admitted, upstream = v.upstream, demand = v.demand, ready_at = v.ready_at, rank = v.rank,
  session = v.session, claim_no = v.claim_no, claimed_at = v.claimed_at
FROM v WHERE tasks.id = v.id AND tasks.state = 'pending' AND tasks.attempt = v.was_attempt AND tasks.session IS NULL

-- name: tasks_update_if_unchanged
WITH v ({guard_columns}, {task_changing}) AS (VALUES {rows})
UPDATE tasks SET {task_assignments} FROM v
WHERE tasks.id = v.id AND tasks.state = v.was_state AND tasks.attempt = v.was_attempt AND tasks.session IS v.was_session

-- name: run_insert
INSERT INTO runs ({run_columns}, inputs, key, body_hash, source, labels, fresh, "trigger") VALUES {rows}

-- name: run_update
UPDATE runs SET {run_assignments} WHERE no = ?

-- name: pin_insert
INSERT INTO pins (root, workflow, source, name, child, child_source) VALUES (?, ?, ?, ?, ?, ?)

-- name: run_delete_pins
DELETE FROM pins WHERE root = ?

-- name: workflow_insert
INSERT INTO workflows (hash, name, document, created_at) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING

-- name: demand_insert
INSERT INTO demands (id, body) VALUES (?, ?) ON CONFLICT DO NOTHING

-- name: demands_delete_private: of sessions that are over
DELETE FROM demands WHERE id >= 'session:' AND id < 'session;'
AND NOT EXISTS (SELECT 1 FROM sessions s WHERE s.ended_at IS NULL AND instr(demands.id, 'session:' || s.id || '/') = 1)
AND NOT EXISTS (SELECT 1 FROM tasks t WHERE t.state = 'queued' AND t.demand = demands.id)

-- name: pool_set
INSERT INTO pools (name, size, used) VALUES (?, ?, 0) ON CONFLICT (name) DO UPDATE SET size = excluded.size

-- name: pool_use
UPDATE pools SET used = used + ?2 WHERE name = ?1

-- name: attempts_insert
INSERT INTO attempts (task_id, attempt, generation, session, outcome, exit_code, error, claimed_at, started_at,
                      finished_at, result, result_hash, cached) VALUES {rows}

-- name: events_insert
INSERT INTO events (run_no, pos, idx, kind, session, at, data) VALUES {rows}

-- name: stale_insert
INSERT INTO stale_reports (task_id, attempt, session, at, why, body) VALUES {rows}

-- name: context_set
INSERT INTO context (run_no, key, value, pos, idx) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (run_no, key) DO UPDATE SET value = excluded.value, pos = excluded.pos, idx = excluded.idx

-- name: signal_insert
INSERT INTO signals (run_no, name, data, rejected, at) VALUES (?, ?, ?, ?, ?)

-- name: signal_delete
DELETE FROM signals WHERE run_no = ? AND name = ?

-- name: records_keep: the guard is that of the task that succeeds in the same transaction
INSERT INTO records ({record_columns}) VALUES {rows}
ON CONFLICT (key) DO UPDATE SET {record_assignments}

-- name: record_set_if_held: only by the attempt that runs, and never over what is completed
INSERT INTO records ({record_columns})
SELECT {record_values} WHERE EXISTS (
  SELECT 1 FROM tasks t WHERE t.id = ?8 AND t.attempt = ?9 AND t.session = ?10 AND t.state = 'running')
ON CONFLICT (key) DO UPDATE SET {record_assignments} WHERE records.status <> 'completed'

-- name: records_delete_expired
DELETE FROM records WHERE expires_at IS NOT NULL AND expires_at <= ?

-- name: records_delete_cached
DELETE FROM records WHERE kind = 'cache' AND created_at < ?

-- name: run_delete_records
DELETE FROM records WHERE kind = 'once' AND task_id >= ?1 AND task_id < ?2

-- name: array_insert
INSERT INTO arrays (run_no, pos, generation, value) VALUES (?, ?, ?, ?)

-- name: run_delete_arrays
DELETE FROM arrays WHERE run_no = ?

-- name: run_delete_context
DELETE FROM context WHERE run_no = ?

-- name: run_delete_signals
DELETE FROM signals WHERE run_no = ?

-- name: session_insert
INSERT INTO sessions ({session_columns}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)

-- name: lease_insert
INSERT INTO leases (session, expires_at) VALUES (?, ?)

-- name: lease_renew_if_live
UPDATE leases SET expires_at = max(expires_at, ?2) WHERE session = ?1

-- name: lease_delete
DELETE FROM leases WHERE session = ?

-- name: session_end
UPDATE sessions SET state = ?2, ended_at = ?3 WHERE id = ?1 AND ended_at IS NULL

-- name: session_give_up
UPDATE sessions SET gave_up = 1 WHERE id = ?

-- name: session_exchanged
UPDATE sessions SET exchange = ?2 WHERE id = ?1

-- name: session_drain
UPDATE sessions SET state = 'draining', drain_at = ?2 WHERE id = ?1 AND ended_at IS NULL

-- name: leadership_set_if_term
UPDATE leadership SET term = ?1, session = ?2, expires_at = ?3 WHERE one = 1 AND term = ?4

-- name: node_facts_set_if_live
INSERT INTO node_facts (session, at, body) VALUES (?, ?, ?)
ON CONFLICT (session) DO UPDATE SET at = excluded.at, body = excluded.body

-- name: node_facts_delete_unused
DELETE FROM node_facts WHERE NOT EXISTS (SELECT 1 FROM sessions s WHERE s.id = node_facts.session)

-- name: events_delete_cluster_before
DELETE FROM events WHERE run_no = 0 AND at < ?

-- name: run_delete_tasks
DELETE FROM tasks WHERE id >= ?1 << {ordinal_bits} AND id < (?1 + 1) << {ordinal_bits}

-- name: run_delete_attempts
DELETE FROM attempts WHERE task_id >= ?1 AND task_id < ?2

-- name: run_delete_events
DELETE FROM events WHERE run_no = ?

-- name: run_delete_stale
DELETE FROM stale_reports WHERE task_id >= ?1 AND task_id < ?2

-- name: run_delete
DELETE FROM runs WHERE no = ?

-- name: workflows_delete_unused
DELETE FROM workflows WHERE NOT EXISTS (SELECT 1 FROM runs WHERE runs.workflow = workflows.hash)
AND NOT EXISTS (SELECT 1 FROM pins WHERE pins.child = workflows.hash)
AND NOT EXISTS (SELECT 1 FROM applied WHERE applied.hash = workflows.hash)

-- name: sessions_delete_before: one that was given up stays as long as the attempts that were lost with it
DELETE FROM sessions WHERE ended_at < ? AND NOT EXISTS (SELECT 1 FROM tasks t WHERE t.session = sessions.id)
AND NOT (gave_up AND EXISTS (SELECT 1 FROM attempts a WHERE a.session = sessions.id AND a.outcome = 'lost'))

-- name: command_reply
SELECT body_hash, reply FROM commands WHERE id = ?

-- name: command_insert
INSERT INTO commands (id, body_hash, reply, at) VALUES (?, ?, ?, ?)

-- name: commands_delete_old
DELETE FROM commands WHERE at < ?

-- name: applied_set
INSERT INTO applied (name, hash, source, by, at) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (name) DO UPDATE SET hash = excluded.hash, source = excluded.source, by = excluded.by, at = excluded.at

-- name: trigger_set_if_unmoved: a new one, or one that still stands where it was seen
INSERT INTO triggers ({trigger_columns}) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)
ON CONFLICT (id) DO UPDATE SET {trigger_assignments} WHERE triggers.since_ms = ?13

-- name: fire_insert
INSERT INTO fires ({fire_columns}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)

-- name: fire_update_if_queued
UPDATE fires SET at = ?3, outcome = ?4, run = ?5, reason = ?6, names = NULL
WHERE "trigger" = ?1 AND cause = ?2 AND outcome = 'queued'

-- name: fires_drop_queued: their trigger is gone
UPDATE fires SET at = ?2, outcome = 'skipped', reason = 'the trigger was removed', names = NULL
WHERE outcome = 'queued' AND "trigger" = ?1

-- name: fires_delete_before: what is due up to a trigger's place in time never comes again
DELETE FROM fires WHERE at < ? AND outcome <> 'queued'
AND NOT EXISTS (SELECT 1 FROM runs r WHERE r.id = fires.run)

-- name: triggers_delete_unused
DELETE FROM triggers WHERE NOT active AND since_ms < ?1

-- name: token_insert
INSERT INTO tokens (id, hash, label, role, created_at, expires_at, revoked_at) VALUES (?, ?, ?, ?, ?, ?, ?)

-- name: token_revoke
UPDATE tokens SET revoked_at = ?2 WHERE id = ?1 AND revoked_at IS NULL
