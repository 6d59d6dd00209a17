-- Names and ids are compared byte by byte (COLLATE "C"), in every table that has them: an index is no use to a
-- comparison under another collation, and a join of two would read the whole table for each row.
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);

-- What is checked of the tables that every exchange writes: the server keeps a domain's checks ready, while those of a table
-- are parsed anew by each statement that writes to it (an eighth of its time for a chain's task).
CREATE DOMAIN counter AS INTEGER CHECK (VALUE >= 0);
CREATE DOMAIN run_state AS TEXT CHECK (VALUE IN ('pending', 'running', 'succeeded', 'failed', 'cancelled'));
CREATE DOMAIN advance_state AS TEXT CHECK (VALUE IN ('level', 'task', 'paused'));
CREATE DOMAIN task_state AS TEXT CHECK (VALUE IN (
  'pending', 'queued', 'scheduled', 'waiting', 'running', 'succeeded', 'failed', 'cancelled', 'skipped', 'dead_letter'));
CREATE DOMAIN held_state AS TEXT CHECK (VALUE IN ('succeeded', 'failed', 'dead_letter'));
CREATE DOMAIN session_state AS TEXT CHECK (VALUE IN ('live', 'draining', 'dead', 'left'));
CREATE DOMAIN session_role AS TEXT CHECK (VALUE IN ('auto', 'leader', 'worker', 'observer'));

-- Drawn by submissions without waiting for each other; one that is rolled back leaves a gap.
CREATE SEQUENCE run_numbers;

CREATE TABLE workflows (
  hash       TEXT COLLATE "C" PRIMARY KEY,
  name       TEXT COLLATE "C" NOT NULL,
  document   BYTEA NOT NULL,
  created_at BIGINT NOT NULL
);

-- A quarter of each page stays free, so that the counters of a run can change in place (no index knows them).
CREATE TABLE runs (
  no           BIGINT PRIMARY KEY,
  id           TEXT COLLATE "C" NOT NULL UNIQUE,
  name         TEXT NOT NULL,
  workflow     TEXT COLLATE "C" NOT NULL,
  state        run_state NOT NULL,
  generation   INTEGER NOT NULL,
  priority     INTEGER NOT NULL,
  max_parallel INTEGER,
  halted       BOOLEAN NOT NULL,
  stop         TEXT,
  sweep        BIGINT,
  ordinals     INTEGER NOT NULL,
  active       counter NOT NULL,
  open         counter NOT NULL,
  open_main    counter NOT NULL,
  total        INTEGER NOT NULL,
  succeeded    INTEGER NOT NULL,
  failed       INTEGER NOT NULL,
  dead_letter  INTEGER NOT NULL,
  cancelled    INTEGER NOT NULL,
  skipped      INTEGER NOT NULL,
  broken       INTEGER NOT NULL,
  created_at   BIGINT NOT NULL,
  started_at   BIGINT,
  finished_at  BIGINT,
  deadline_at  BIGINT,
  reason       TEXT,
  inputs       TEXT NOT NULL,
  key          TEXT UNIQUE,
  body_hash    TEXT NOT NULL,
  source       TEXT,
  labels       TEXT NOT NULL,
  fresh        BOOLEAN NOT NULL DEFAULT false,
  level        INTEGER,
  level_open   counter,
  advance_state advance_state,
  owner        TEXT COLLATE "C",
  root         BIGINT NOT NULL,
  parent       BIGINT,
  reported         BOOLEAN NOT NULL,
  paused           BOOLEAN NOT NULL,
  "trigger"    TEXT COLLATE "C",
  taken_from   BIGINT,
  backfill     TEXT COLLATE "C"
) WITH (fillfactor = 75, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 200);
CREATE INDEX runs_by_state ON runs (state, no);
CREATE INDEX runs_by_finish ON runs (finished_at) WHERE finished_at IS NOT NULL;
CREATE INDEX runs_with_dead_letters ON runs (no) WHERE dead_letter > 0;
CREATE INDEX runs_owned ON runs (owner, no) WHERE owner IS NOT NULL;
CREATE INDEX runs_to_sweep ON runs (no) WHERE sweep IS NOT NULL;
CREATE INDEX runs_by_deadline ON runs (deadline_at)
  WHERE deadline_at IS NOT NULL AND finished_at IS NULL;

CREATE INDEX runs_by_name ON runs (name, no);
CREATE INDEX runs_by_workflow ON runs (workflow);
CREATE INDEX runs_by_root ON runs (root, no);
CREATE INDEX runs_by_parent ON runs (parent) WHERE parent IS NOT NULL;
CREATE INDEX runs_unfinished ON runs (root, no) WHERE finished_at IS NULL;
-- Few runs take over results; what they refer to is kept.
CREATE INDEX runs_by_takeover ON runs (taken_from) WHERE taken_from IS NOT NULL;
CREATE INDEX runs_unreported ON runs (no) WHERE NOT reported;

-- What the names of workflows in a family of runs mean: settled when its root was submitted.
-- the definition that a run had until this generation, if it was corrected then
CREATE TABLE corrections (
  run_no       BIGINT NOT NULL,
  generation   BIGINT NOT NULL,
  workflow     TEXT COLLATE "C" NOT NULL,
  PRIMARY KEY (run_no, generation)
);
CREATE INDEX corrections_by_workflow ON corrections (workflow);

CREATE TABLE pins (
  root         BIGINT NOT NULL,
  workflow     TEXT COLLATE "C" NOT NULL,
  source       TEXT COLLATE "C",
  name         TEXT COLLATE "C" NOT NULL,
  child        TEXT COLLATE "C" NOT NULL,
  child_source TEXT
);
CREATE INDEX pins_by_root ON pins (root);
CREATE INDEX pins_by_child ON pins (child);

CREATE TABLE tasks (
  id          BIGINT PRIMARY KEY,
  run_no      BIGINT NOT NULL,
  pos         INTEGER NOT NULL,
  idx         INTEGER NOT NULL,
  generation  INTEGER NOT NULL DEFAULT 1,
  state       task_state NOT NULL,
  attempt     INTEGER NOT NULL DEFAULT 0,
  failures    INTEGER NOT NULL DEFAULT 0,
  lost        INTEGER NOT NULL DEFAULT 0,
  open        counter NOT NULL,
  failed      INTEGER NOT NULL DEFAULT 0,
  skipped     INTEGER NOT NULL DEFAULT 0,
  tolerated   INTEGER NOT NULL DEFAULT 0,
  elements    INTEGER,
  admitted    INTEGER NOT NULL DEFAULT 0,
  demand      TEXT COLLATE "C" NOT NULL,
  ready_at    BIGINT,
  rank        BIGINT NOT NULL,
  wake_at     BIGINT,
  session     TEXT COLLATE "C",
  claim_no    BIGINT,
  stop        TEXT,
  upstream    BOOLEAN NOT NULL DEFAULT false,
  settled     BOOLEAN NOT NULL DEFAULT true,
  claimed_at  BIGINT,
  started_at  BIGINT,
  finished_at BIGINT,
  reason      TEXT,
  held        held_state,
  deadline_at BIGINT,
  child       BIGINT,
  child_action TEXT,
  head_start  INTEGER NOT NULL DEFAULT 0,
  -- The attempt that succeeded, where it is the plain kind: then it has no row in `attempts`.
  ran_by      TEXT COLLATE "C",
  exit_code   INTEGER,
  ended_at    BIGINT,
  result_hash TEXT,
  result      TEXT
) WITH (fillfactor = 85, autovacuum_vacuum_scale_factor = 0.05, autovacuum_vacuum_threshold = 2000,
        autovacuum_analyze_scale_factor = 0.1, autovacuum_vacuum_insert_scale_factor = 0.2);
-- A run's first tasks have their position in their id; only elements and later generations are found by their place.
CREATE UNIQUE INDEX tasks_by_place ON tasks (run_no, pos, idx, generation) WHERE generation > 1 OR idx >= 0;
-- Partial, so that a finished task costs no claim anything: with a million of them the queue stays small.
CREATE INDEX tasks_in_queue ON tasks (demand, rank, id) WHERE state = 'queued';
CREATE INDEX tasks_in_run_queue ON tasks (run_no, rank, id) WHERE state = 'queued';
CREATE INDEX tasks_ready ON tasks (run_no, rank, id) WHERE state = 'pending' AND ready_at IS NOT NULL;
CREATE INDEX tasks_due ON tasks (wake_at, id) WHERE wake_at IS NOT NULL;
CREATE INDEX tasks_held ON tasks (session, id) WHERE session IS NOT NULL;
CREATE INDEX tasks_to_stop ON tasks (session, id) WHERE stop IS NOT NULL;
CREATE INDEX tasks_unsettled ON tasks (id) WHERE NOT settled;
-- Only attempts with a timeout that have lasted a while are in here.
CREATE INDEX tasks_by_deadline ON tasks (deadline_at, id) WHERE deadline_at IS NOT NULL AND state = 'running';
CREATE INDEX tasks_child_actions ON tasks (id) WHERE child_action IS NOT NULL;

CREATE TABLE attempts (
  task_id     BIGINT NOT NULL,
  attempt     INTEGER NOT NULL,
  generation  INTEGER NOT NULL,
  session     TEXT COLLATE "C" NOT NULL,
  outcome     TEXT NOT NULL CHECK (outcome IN ('succeeded', 'failed', 'cancelled', 'lost', 'returned')),
  exit_code   INTEGER,
  error       TEXT,
  claimed_at  BIGINT,
  started_at  BIGINT,
  finished_at BIGINT NOT NULL,
  result      TEXT,
  result_hash TEXT,
  cached      TEXT
);
CREATE UNIQUE INDEX attempts_by_task ON attempts (task_id, attempt);
CREATE INDEX attempts_lost ON attempts (session) WHERE outcome = 'lost';
CREATE VIEW all_attempts AS
SELECT task_id, attempt, generation, session, outcome, exit_code, error, claimed_at, started_at, finished_at, result,
  result_hash, cached FROM attempts
UNION ALL
SELECT id, attempt, generation, ran_by, 'succeeded', exit_code, NULL, claimed_at, started_at, ended_at, result,
  result_hash, NULL FROM tasks WHERE ended_at IS NOT NULL;

-- One row per key of a run's context; the writer that is last by (level, name, index) wins.
CREATE TABLE context (
  run_no BIGINT NOT NULL,
  key    TEXT COLLATE "C" NOT NULL,
  value  TEXT NOT NULL,
  pos    INTEGER,
  idx    INTEGER,
  PRIMARY KEY (run_no, key)
);

-- Outside answers. One that comes before its wait is reached is kept; each is applied once.
CREATE TABLE signals (
  run_no   BIGINT NOT NULL,
  name     TEXT NOT NULL,
  data     TEXT,
  rejected TEXT,
  at       BIGINT NOT NULL,
  PRIMARY KEY (run_no, name)
);

-- Numbers are drawn before COMMIT, so a lower one may become visible after a higher one: followers go by horizon.py. `xid` says
-- where a new trigger begins to look.
CREATE TABLE events (
  seq     BIGINT GENERATED ALWAYS AS IDENTITY (START WITH 1024 INCREMENT BY 1024) PRIMARY KEY,
  run_no  BIGINT NOT NULL,
  pos     INTEGER,
  idx     INTEGER,
  kind    TEXT NOT NULL,
  session TEXT COLLATE "C",
  at      BIGINT NOT NULL,
  many    INTEGER NOT NULL DEFAULT 1,
  data    TEXT NOT NULL,
  xid     XID8 NOT NULL DEFAULT pg_current_xact_id()
);
CREATE INDEX events_by_run ON events (run_no, seq);

CREATE TABLE demands (
  no   BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  id   TEXT COLLATE "C" NOT NULL UNIQUE,
  body TEXT NOT NULL
);

CREATE TABLE sessions (
  id         TEXT COLLATE "C" PRIMARY KEY,
  node       TEXT NOT NULL,
  state      session_state NOT NULL,
  exchange   BIGINT NOT NULL,
  scope      BIGINT,
  started_at BIGINT NOT NULL,
  ended_at   BIGINT,
  body       TEXT NOT NULL,
  role       session_role NOT NULL,
  drain_at   BIGINT,
  gave_up    BOOLEAN NOT NULL DEFAULT false,
  token      TEXT
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
CREATE INDEX sessions_live ON sessions (id) WHERE ended_at IS NULL;

-- Apart from sessions: a renewal touches nothing that an exchange holds. No row: the session is dead. No index knows
-- `expires_at`: a renewal stays within its page.
-- Its session has the collation of sessions.id: else no index could serve where they are compared.
CREATE TABLE leases (
  session    TEXT COLLATE "C" PRIMARY KEY,
  expires_at BIGINT NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

CREATE TABLE stale_reports (
  id      BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  task_id BIGINT NOT NULL,
  attempt INTEGER NOT NULL,
  session TEXT COLLATE "C" NOT NULL,
  at      BIGINT NOT NULL,
  why     TEXT NOT NULL,
  body    TEXT NOT NULL
);
CREATE INDEX stale_reports_by_task ON stale_reports (task_id);

-- One row per command of a person, inserted first: a retry after an unknown commit gets the first reply.
CREATE TABLE commands (
  id        TEXT PRIMARY KEY,
  body_hash TEXT NOT NULL,
  reply     TEXT NOT NULL,
  at        BIGINT NOT NULL
);
CREATE INDEX commands_by_age ON commands (at);

-- What outlives an attempt: results kept for `cache`, effects that `once` has seen through.
CREATE TABLE memos (
  key        TEXT COLLATE "C" PRIMARY KEY,
  kind       TEXT NOT NULL CHECK (kind IN ('cache', 'once')),
  status     TEXT NOT NULL CHECK (status IN ('pending', 'completed', 'failed')),
  value      TEXT,
  hash       TEXT,
  run        TEXT NOT NULL,
  task       TEXT NOT NULL,
  task_id    BIGINT NOT NULL,
  attempt    INTEGER NOT NULL,
  session    TEXT COLLATE "C" NOT NULL,
  created_at BIGINT NOT NULL,
  expires_at BIGINT
);
CREATE INDEX memos_by_expiry ON memos (expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX memos_of_tasks ON memos (task_id) WHERE kind = 'once';
-- Limits that tasks of many runs share. A claim locks the row before it counts; `used` is how many running tasks hold a place.
CREATE TABLE pools (
  name TEXT COLLATE "C" PRIMARY KEY,
  size BIGINT NOT NULL CHECK (size >= 0),
  used BIGINT NOT NULL CHECK (used >= 0)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

-- What a mapped task maps over, where that came from the run's context, which goes on changing: fixed when it opens.
CREATE TABLE arrays (
  run_no     BIGINT NOT NULL,
  pos        INTEGER NOT NULL,
  generation INTEGER NOT NULL,
  value      TEXT NOT NULL,
  PRIMARY KEY (run_no, pos, generation)
);

-- What people call the elements of a mapped task, one JSON array for all of them.
CREATE TABLE labels (
  run_no     BIGINT NOT NULL,
  pos        INTEGER NOT NULL,
  generation INTEGER NOT NULL,
  value      TEXT NOT NULL,
  PRIMARY KEY (run_no, pos, generation)
);

-- What a node measures of its machine, sent with its renewals: apart from the rows that exchanges lock, and without an
-- index of its own.
CREATE TABLE node_facts (
  session TEXT COLLATE "C" PRIMARY KEY,
  at      BIGINT NOT NULL,
  body    TEXT NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

-- One row for ever: who leads, under which term. Terms only go up; a term without a session was resigned.
CREATE TABLE leadership (
  one        INTEGER PRIMARY KEY CHECK (one = 1),
  term       BIGINT NOT NULL,
  session    TEXT COLLATE "C",
  expires_at BIGINT NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);
INSERT INTO leadership (one, term, session, expires_at) VALUES (1, 0, NULL, 0);

-- Versions of one name, newest first.
CREATE INDEX workflows_by_name ON workflows (name, created_at);

-- Output of attempts, sent by their nodes: whoever asks need not reach the machine that ran them. What a report
-- carries whole is not in here.
CREATE TABLE output_chunks (
  task_id BIGINT NOT NULL,
  attempt INTEGER NOT NULL,
  stream  TEXT NOT NULL CHECK (stream IN ('stdout', 'stderr', 'files')),
  at      BIGINT NOT NULL CHECK (at >= 0),
  data    BYTEA NOT NULL,
  PRIMARY KEY (task_id, attempt, stream, at)
);

-- All of a stream was sent, up to the cap: so many bytes were written. What lacks in between was cut out.
CREATE TABLE output_ends (
  task_id BIGINT NOT NULL,
  attempt INTEGER NOT NULL,
  stream  TEXT NOT NULL CHECK (stream IN ('stdout', 'stderr')),
  size    BIGINT NOT NULL,
  PRIMARY KEY (task_id, attempt, stream)
);

-- Which version of a workflow is current: the one that `weft apply` was told of last.
CREATE TABLE applied (
  name   TEXT COLLATE "C" PRIMARY KEY,
  hash   TEXT COLLATE "C" NOT NULL,
  source TEXT,
  by     TEXT,
  at     BIGINT NOT NULL
);
CREATE INDEX applied_by_hash ON applied (hash);

-- Whatever is due up to `since_ms` has been decided; `next_ms` is when to look again.
CREATE TABLE triggers (
  id       TEXT COLLATE "C" PRIMARY KEY,
  workflow TEXT COLLATE "C" NOT NULL,
  kind     TEXT NOT NULL CHECK (kind IN ('cron', 'every', 'webhook', 'after')),
  key      TEXT COLLATE "C",
  body     TEXT NOT NULL,
  hash     TEXT COLLATE "C" NOT NULL,
  source   TEXT,
  active   BOOLEAN NOT NULL,
  paused   BOOLEAN NOT NULL,
  since_ms BIGINT NOT NULL,
  next_ms  BIGINT,
  cursor   BIGINT NOT NULL,
  checked_ms BIGINT NOT NULL DEFAULT 0,
  check_ms BIGINT
);
CREATE INDEX triggers_of_workflow ON triggers (workflow, id);
CREATE INDEX triggers_by_key ON triggers (kind, key) WHERE key IS NOT NULL;

-- What became of each fire. The key is the guarantee: one for each cause of a trigger, for ever.
CREATE TABLE fires (
  "trigger" TEXT COLLATE "C" NOT NULL,
  cause     TEXT COLLATE "C" NOT NULL,
  due_at    BIGINT,
  at        BIGINT NOT NULL,
  outcome   TEXT NOT NULL CHECK (outcome IN ('started', 'queued', 'skipped', 'missed', 'failed')),
  run       TEXT,
  reason    TEXT,
  names     TEXT,
  PRIMARY KEY ("trigger", cause)
);
-- One run for each fire time of a range. What lies before the cursor, in its direction, has been decided.
CREATE TABLE backfills (
  id         TEXT COLLATE "C" PRIMARY KEY,
  "trigger"  TEXT COLLATE "C" NOT NULL,
  first_ms   BIGINT NOT NULL,
  last_ms    BIGINT NOT NULL,
  parallel   BIGINT NOT NULL CHECK (parallel > 0),
  reverse    BOOLEAN NOT NULL,
  again      BOOLEAN NOT NULL,
  inputs     TEXT NOT NULL,
  total      BIGINT NOT NULL,
  created_at BIGINT NOT NULL,
  by         TEXT,
  state      TEXT NOT NULL CHECK (state IN ('active', 'complete', 'cancelled')),
  cursor     BIGINT,
  started    BIGINT NOT NULL,
  existing   BIGINT NOT NULL,
  failed     BIGINT NOT NULL,
  reason     TEXT
);
CREATE INDEX backfills_active ON backfills (created_at, id) WHERE state = 'active';
CREATE INDEX runs_of_backfills ON runs (backfill, no) WHERE backfill IS NOT NULL;
CREATE INDEX fires_by_time ON fires ("trigger", at);
CREATE INDEX fires_queued ON fires ("trigger", at) WHERE outcome = 'queued';
CREATE INDEX runs_of_triggers ON runs ("trigger", no) WHERE "trigger" IS NOT NULL AND finished_at IS NULL;
CREATE INDEX events_of_ends ON events (seq) WHERE kind = 'run_finished';

-- Attempts that run on engines: containers, Kubernetes. Written before the engine is asked for anything; at most one
-- of a task is not closed. Orphaned: its session is over, and no engine has said yet that it is gone.
CREATE TABLE handles (
  task_id   BIGINT NOT NULL,
  attempt   INTEGER NOT NULL,
  session   TEXT COLLATE "C" NOT NULL,
  kind      TEXT NOT NULL,
  engine    TEXT COLLATE "C" NOT NULL,
  name      TEXT COLLATE "C" NOT NULL,
  place     TEXT NOT NULL,
  adoptable BOOLEAN NOT NULL,
  state     TEXT NOT NULL CHECK (state IN ('open', 'orphaned', 'gone', 'adopted', 'released')),
  opened_at BIGINT NOT NULL,
  closed_at BIGINT,
  note      TEXT,
  PRIMARY KEY (task_id, attempt)
);
CREATE UNIQUE INDEX handles_unclosed ON handles (task_id) WHERE state IN ('open', 'orphaned');
CREATE INDEX handles_orphaned ON handles (engine, task_id) WHERE state = 'orphaned';

-- What a run (run:7) or all tasks in a pool (pool:llm) may spend, have spent, and have reserved for running tasks:
-- millionths of a US dollar, and tokens. Changed relatively, like pools.
CREATE TABLE budgets (
  scope           TEXT COLLATE "C" PRIMARY KEY,
  usd             BIGINT,
  tokens          BIGINT,
  usd_spent       BIGINT NOT NULL CHECK (usd_spent >= 0),
  tokens_spent    BIGINT NOT NULL CHECK (tokens_spent >= 0),
  usd_reserved    BIGINT NOT NULL CHECK (usd_reserved >= 0),
  tokens_reserved BIGINT NOT NULL CHECK (tokens_reserved >= 0)
);

-- What the attempts of a task have spent together. A new generation is another task.
CREATE TABLE spending (
  task_id BIGINT PRIMARY KEY,
  usd     BIGINT NOT NULL CHECK (usd >= 0),
  tokens  BIGINT NOT NULL CHECK (tokens >= 0)
);

-- Bearer tokens of the API: hashes only. Revoked ones stay, so that the history can be understood.
CREATE TABLE tokens (
  id         TEXT PRIMARY KEY,
  hash       TEXT NOT NULL,
  label      TEXT NOT NULL,
  role       TEXT NOT NULL CHECK (role IN ('viewer', 'operator', 'admin', 'worker')),
  created_at BIGINT NOT NULL,
  expires_at BIGINT,
  revoked_at BIGINT,
  binding    TEXT
);

-- Moments by which runs (pos -1) and tasks should have started or ended; the leader judges each once, when it has passed.
CREATE TABLE deadlines (
  run_no BIGINT NOT NULL,
  pos    INTEGER NOT NULL,
  by     TEXT NOT NULL CHECK (by IN ('start_by', 'finish_by')),
  at     BIGINT NOT NULL,
  state  TEXT NOT NULL CHECK (state IN ('open', 'met', 'late')),
  PRIMARY KEY (run_no, pos, by)
);
CREATE INDEX deadlines_open ON deadlines (at, run_no) WHERE state = 'open';
CREATE INDEX deadlines_late ON deadlines (run_no) WHERE state = 'late';

-- The outbox: a row is written with the event that it is about, and delivered at least once by the leader.
CREATE TABLE notifications (
  id           TEXT PRIMARY KEY,
  run_no       BIGINT,
  run          TEXT,
  pos          INTEGER,
  workflow     TEXT NOT NULL,
  event        TEXT NOT NULL CHECK (event IN ('failed', 'recovered', 'dead_letter', 'late', 'waiting')),
  target       TEXT NOT NULL,
  facts        TEXT NOT NULL,
  created_at   BIGINT NOT NULL,
  state        TEXT NOT NULL CHECK (state IN ('pending', 'delivered', 'failed')),
  tries        INTEGER NOT NULL,
  next_at      BIGINT CHECK ((state = 'pending') = (next_at IS NOT NULL)),
  term         BIGINT,
  error        TEXT,
  delivered_at BIGINT CHECK ((state = 'delivered') = (delivered_at IS NOT NULL))
);
CREATE INDEX notifications_pending ON notifications (next_at, id) WHERE state = 'pending';
CREATE INDEX notifications_failed ON notifications (id) WHERE state = 'failed';
CREATE INDEX notifications_by_age ON notifications (created_at, id);
CREATE INDEX notifications_by_run ON notifications (run_no) WHERE run_no IS NOT NULL;

-- What notifications need to know besides definitions: `default`, the targets for all workflows, as JSON; and
-- `failed:NAME`, the last run of a workflow whose recovery will be reported.
CREATE TABLE notify_state (
  key  TEXT PRIMARY KEY,
  body TEXT NOT NULL
);
