-- Writes of a decision. Rows come as one array per column.
--
-- COMMIT travels in the same round trip as the writes, so a guard that fails must be an error inside the server: the
-- division by zero at the end of guarded updates voids everything that follows it, COMMIT included.

-- name: tasks_insert
INSERT INTO tasks ({task_columns}) SELECT * FROM unnest({task_arrays})

-- name: tasks_insert_fresh: most columns of a task that was just made are the same for all
INSERT INTO tasks ({task_columns})
SELECT v.id, $9::bigint, v.pos, v.idx, 1, v.state, 0, 0, 0, v.open, 0, 0, 0, NULL, 0, v.demand, v.ready_at, v.rank, NULL, NULL,
       NULL, NULL, false, true, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL
FROM unnest($1::bigint[], $2::int[], $3::int[], $4::text[], $5::int[], $6::text[], $7::bigint[], $8::bigint[])
  AS v (id, pos, idx, state, open, demand, ready_at, rank)

-- name: tasks_claim_if_queued: with `state = 'queued'` a plan may read the whole queue instead of these ids
WITH done AS (
  UPDATE tasks SET state = 'running', attempt = v.was_attempt + 1, session = $3::text, claim_no = $4::bigint,
                   claimed_at = $5::bigint
  FROM unnest($1::bigint[], $2::int[]) AS v (id, was_attempt)
  WHERE tasks.id = v.id AND tasks.state || '' = 'queued' AND tasks.attempt = v.was_attempt AND tasks.session IS NULL
  RETURNING 1)
SELECT 1 / (count(*) = cardinality($1::bigint[]))::int FROM done

-- name: tasks_succeed_if_running: likewise, `session =` would bring in the index of all that is held
WITH done AS (
  UPDATE tasks SET state = 'succeeded', session = NULL, reason = NULL, held = NULL, started_at = v.started_at,
                   finished_at = $5::bigint
  FROM unnest($1::bigint[], $2::int[], $3::text[], $4::bigint[]) AS v (id, was_attempt, was_session, started_at)
  WHERE tasks.id = v.id AND tasks.state = 'running' AND tasks.attempt = v.was_attempt
    AND tasks.session IS NOT DISTINCT FROM v.was_session
  RETURNING 1)
SELECT 1 / (count(*) = cardinality($1::bigint[]))::int FROM done

-- name: tasks_ready_if_pending: its needs are met; it is queued, or claimed already. `state =` as above
WITH done AS (
  UPDATE tasks SET state = v.state, attempt = v.attempt, open = v.open, failed = v.failed, skipped = v.skipped,
    tolerated = v.tolerated, admitted = v.admitted, upstream = v.upstream, demand = v.demand, ready_at = v.ready_at, rank = v.rank,
    session = v.session, claim_no = v.claim_no, claimed_at = v.claimed_at
  FROM unnest($1::bigint[], $2::int[], $3::text[], $4::int[], $5::int[], $6::int[], $7::int[], $8::int[], $9::int[],
              $10::boolean[], $11::text[], $12::bigint[], $13::bigint[], $14::text[], $15::bigint[], $16::bigint[])
    AS v (id, was_attempt, state, attempt, open, failed, skipped, tolerated, admitted, upstream, demand, ready_at, rank,
          session, claim_no, claimed_at)
  WHERE tasks.id = v.id AND tasks.state || '' = 'pending' AND tasks.attempt = v.was_attempt AND tasks.session IS NULL
  RETURNING 1)
SELECT 1 / (count(*) = cardinality($1::bigint[]))::int FROM done

-- name: tasks_update_if_unchanged
WITH done AS (
  UPDATE tasks SET {task_assignments}
  FROM unnest({change_arrays}) AS v ({guard_columns}, {task_changing})
  WHERE tasks.id = v.id AND tasks.state = v.was_state AND tasks.attempt = v.was_attempt
    AND tasks.session IS NOT DISTINCT FROM v.was_session
  RETURNING 1)
SELECT 1 / (count(*) = cardinality($1::bigint[]))::int FROM done

-- name: run_insert
INSERT INTO runs ({run_columns}, inputs, key, body_hash, source, labels, fresh, "trigger") SELECT * FROM unnest({run_arrays})

-- name: run_update
UPDATE runs SET {run_assignments} WHERE no = $1::bigint

-- name: pin_insert
INSERT INTO pins (root, workflow, source, name, child, child_source)
VALUES ($1::bigint, $2::text, $3::text, $4::text, $5::text, $6::text)

-- name: run_delete_pins
DELETE FROM pins WHERE root = $1::bigint

-- name: workflow_insert
INSERT INTO workflows (hash, name, document, created_at) VALUES ($1::text, $2::text, $3::bytea, $4::bigint)
ON CONFLICT DO NOTHING

-- name: demand_insert: nodes ask for those above the newest number they know, so numbers must appear in their order:
-- whoever has a new one draws its number under a lock that it keeps until COMMIT
WITH fresh AS MATERIALIZED (
  SELECT v.id, v.body FROM unnest($1::text[], $2::text[]) AS v (id, body)
  WHERE NOT EXISTS (SELECT 1 FROM demands d WHERE d.id = v.id)),
locked AS MATERIALIZED (SELECT f.id, f.body, pg_advisory_xact_lock(1464157780, 2) FROM fresh f)
INSERT INTO demands (id, body) SELECT l.id, l.body FROM locked l ON CONFLICT DO NOTHING

-- name: demands_delete_private: of sessions that are over
DELETE FROM demands WHERE id >= 'session:' AND id < 'session;'
AND NOT EXISTS (SELECT 1 FROM sessions s WHERE s.ended_at IS NULL AND strpos(demands.id, 'session:' || s.id || '/') = 1)
AND NOT EXISTS (SELECT 1 FROM tasks t WHERE t.state = 'queued' AND t.demand = demands.id)

-- name: pool_set
INSERT INTO pools (name, size, used) VALUES ($1::text, $2::bigint, 0) ON CONFLICT (name) DO UPDATE SET size = excluded.size

-- name: pool_use: a pool that is gone voids the transaction
WITH done AS (UPDATE pools SET used = used + $2::bigint WHERE name = $1::text RETURNING 1)
SELECT 1 / (count(*) = 1)::int FROM done

-- name: attempts_insert
INSERT INTO attempts (task_id, attempt, generation, session, outcome, exit_code, error, claimed_at, started_at,
                      finished_at, result, result_hash, cached)
SELECT * FROM unnest($1::bigint[], $2::int[], $3::int[], $4::text[], $5::text[], $6::int[], $7::text[], $8::bigint[],
                     $9::bigint[], $10::bigint[], $11::text[], $12::text[], $13::text[])

-- name: events_insert: numbers are drawn here, after the locks
INSERT INTO events (run_no, pos, idx, kind, session, data, at)
SELECT v.*, $7::bigint
FROM unnest($1::bigint[], $2::int[], $3::int[], $4::text[], $5::text[], $6::text[]) AS v (run_no, pos, idx, kind, session, data)

-- name: stale_insert
INSERT INTO stale_reports (task_id, attempt, session, why, body, at)
SELECT v.*, $6::bigint
FROM unnest($1::bigint[], $2::int[], $3::text[], $4::text[], $5::text[]) AS v (task_id, attempt, session, why, body)

-- name: context_set
INSERT INTO context (run_no, key, value, pos, idx) VALUES ($1::bigint, $2::text, $3::text, $4::int, $5::int)
ON CONFLICT (run_no, key) DO UPDATE SET value = excluded.value, pos = excluded.pos, idx = excluded.idx

-- name: signal_insert
INSERT INTO signals (run_no, name, data, rejected, at) VALUES ($1::bigint, $2::text, $3::text, $4::text, $5::bigint)

-- name: signal_delete
DELETE FROM signals WHERE run_no = $1::bigint AND name = $2::text

-- name: records_keep: the guard is that of the task that succeeds in the same transaction
INSERT INTO records ({record_columns}) SELECT * FROM unnest({record_arrays})
ON CONFLICT (key) DO UPDATE SET {record_assignments}

-- name: record_set_if_held: only by the attempt that runs, and never over what is completed
WITH done AS (
  INSERT INTO records ({record_columns})
  SELECT {record_values} WHERE EXISTS (
    SELECT 1 FROM tasks t
    WHERE t.id = $8::bigint AND t.attempt = $9::bigint AND t.session = $10::text AND t.state = 'running')
  ON CONFLICT (key) DO UPDATE SET {record_assignments} WHERE records.status <> 'completed'
  RETURNING 1)
SELECT 1 / (count(*) = 1)::int FROM done

-- name: records_delete_expired
DELETE FROM records WHERE expires_at IS NOT NULL AND expires_at <= $1::bigint

-- name: records_delete_cached
DELETE FROM records WHERE kind = 'cache' AND created_at < $1::bigint

-- name: run_delete_records
DELETE FROM records WHERE kind = 'once' AND task_id >= $1::bigint AND task_id < $2::bigint

-- name: array_insert
INSERT INTO arrays (run_no, pos, generation, value) VALUES ($1::bigint, $2::int, $3::int, $4::text)

-- name: run_delete_arrays
DELETE FROM arrays WHERE run_no = $1::bigint

-- name: run_delete_context
DELETE FROM context WHERE run_no = $1::bigint

-- name: run_delete_signals
DELETE FROM signals WHERE run_no = $1::bigint

-- name: session_insert
INSERT INTO sessions ({session_columns})
VALUES ($1::text, $2::text, $3::text, $4::bigint, $5::bigint, $6::bigint, $7::bigint, $8::text, $9::text, $10::bigint,
  $11::boolean)

-- name: lease_insert
INSERT INTO leases (session, expires_at) VALUES ($1::text, $2::bigint)

-- name: lease_renew_if_live: counted by the server's clock ($3: a test's), at the moment of the write
UPDATE leases SET expires_at = greatest(expires_at,
  coalesce($3::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint) + $2::bigint)
WHERE session = $1::text RETURNING 1

-- name: lease_delete
DELETE FROM leases WHERE session = $1::text

-- name: session_end
UPDATE sessions SET state = $2::text, ended_at = $3::bigint WHERE id = $1::text AND ended_at IS NULL

-- name: session_give_up
UPDATE sessions SET gave_up = true WHERE id = $1::text

-- name: session_exchanged
UPDATE sessions SET exchange = $2::bigint WHERE id = $1::text

-- name: session_drain
UPDATE sessions SET state = 'draining', drain_at = $2::bigint WHERE id = $1::text AND ended_at IS NULL

-- name: leadership_set_if_term
WITH done AS (
  UPDATE leadership SET term = $1::bigint, session = $2::text, expires_at = $3::bigint WHERE one = 1 AND term = $4::bigint
  RETURNING 1)
SELECT 1 / count(*) FROM done

-- name: node_facts_set_if_live
INSERT INTO node_facts (session, at, body)
SELECT l.session, coalesce($2::bigint, (extract(epoch FROM clock_timestamp()) * 1000)::bigint), $3::text
FROM leases l WHERE l.session = $1::text
ON CONFLICT (session) DO UPDATE SET at = excluded.at, body = excluded.body

-- name: node_facts_delete_unused
DELETE FROM node_facts WHERE NOT EXISTS (SELECT 1 FROM sessions s WHERE s.id = node_facts.session)

-- name: events_delete_cluster_before
DELETE FROM events WHERE run_no = 0 AND at < $1::bigint

-- name: run_delete_tasks
DELETE FROM tasks WHERE id >= $1::bigint << {ordinal_bits} AND id < ($1::bigint + 1) << {ordinal_bits}

-- name: run_delete_attempts
DELETE FROM attempts WHERE task_id >= $1::bigint AND task_id < $2::bigint

-- name: run_delete_events
DELETE FROM events WHERE run_no = $1::bigint

-- name: run_delete_stale
DELETE FROM stale_reports WHERE task_id >= $1::bigint AND task_id < $2::bigint

-- name: run_delete
DELETE FROM runs WHERE no = $1::bigint

-- name: workflows_delete_unused: no submission can be about to use one, see run_next
DELETE FROM workflows WHERE NOT EXISTS (SELECT 1 FROM runs WHERE runs.workflow = workflows.hash)
AND NOT EXISTS (SELECT 1 FROM pins WHERE pins.child = workflows.hash)
AND NOT EXISTS (SELECT 1 FROM applied WHERE applied.hash = workflows.hash)

-- name: sessions_delete_before: one that was given up stays as long as the attempts that were lost with it
DELETE FROM sessions WHERE ended_at < $1::bigint AND NOT EXISTS (SELECT 1 FROM tasks t WHERE t.session = sessions.id)
AND NOT (gave_up AND EXISTS (SELECT 1 FROM attempts a WHERE a.session = sessions.id AND a.outcome = 'lost'))

-- name: command_reply
SELECT body_hash, reply FROM commands WHERE id = $1::text

-- name: command_insert
INSERT INTO commands (id, body_hash, reply, at) VALUES ($1::text, $2::text, $3::text, $4::bigint)

-- name: commands_delete_old
DELETE FROM commands WHERE at < $1::bigint

-- name: applied_set
INSERT INTO applied (name, hash, source, by, at) VALUES ($1::text, $2::text, $3::text, $4::text, $5::bigint)
ON CONFLICT (name) DO UPDATE SET hash = excluded.hash, source = excluded.source, by = excluded.by, at = excluded.at

-- name: trigger_set_if_unmoved: a new one, or one that still stands where it was seen
WITH done AS (
  INSERT INTO triggers ({trigger_columns})
  VALUES ($1::text, $2::text, $3::text, $4::text, $5::text, $6::text, $7::text, $8::boolean, $9::boolean, $10::bigint,
          $11::bigint, $12::bigint)
  ON CONFLICT (id) DO UPDATE SET {trigger_assignments} WHERE triggers.since_ms = $13::bigint
  RETURNING 1)
SELECT 1 / (count(*) = 1)::int FROM done

-- name: fire_insert
INSERT INTO fires ({fire_columns})
VALUES ($1::text, $2::text, $3::bigint, $4::bigint, $5::text, $6::text, $7::text, $8::text)

-- name: fire_update_if_queued
WITH done AS (
  UPDATE fires SET at = $3::bigint, outcome = $4::text, run = $5::text, reason = $6::text, names = NULL
  WHERE "trigger" = $1::text AND cause = $2::text AND outcome = 'queued' RETURNING 1)
SELECT 1 / (count(*) = 1)::int FROM done

-- name: fires_drop_queued: their trigger is gone
UPDATE fires SET at = $2::bigint, outcome = 'skipped', reason = 'the trigger was removed', names = NULL
WHERE outcome = 'queued' AND "trigger" = $1::text

-- name: fires_delete_before: what is due up to a trigger's place in time never comes again
DELETE FROM fires WHERE at < $1::bigint AND outcome <> 'queued'
AND NOT EXISTS (SELECT 1 FROM runs r WHERE r.id = fires.run)

-- name: triggers_delete_unused
DELETE FROM triggers WHERE NOT active AND since_ms < $1::bigint

-- name: token_insert
INSERT INTO tokens (id, hash, label, role, created_at, expires_at, revoked_at)
VALUES ($1::text, $2::text, $3::text, $4::text, $5::bigint, $6::bigint, $7::bigint)

-- name: token_revoke
UPDATE tokens SET revoked_at = $2::bigint WHERE id = $1::text AND revoked_at IS NULL
