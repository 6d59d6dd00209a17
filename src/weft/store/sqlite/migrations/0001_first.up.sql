CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;

CREATE TABLE workflows (
  hash       TEXT PRIMARY KEY,
  name       TEXT NOT NULL,
  document   BLOB NOT NULL,
  created_at INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE runs (
  no           INTEGER PRIMARY KEY,
  id           TEXT NOT NULL UNIQUE,
  name         TEXT NOT NULL,
  workflow     TEXT NOT NULL,
  state        TEXT NOT NULL CHECK (state IN ('pending', 'running', 'succeeded', 'failed', 'cancelled')),
  generation   INTEGER NOT NULL,
  priority     INTEGER NOT NULL,
  max_parallel INTEGER,
  halted       INTEGER NOT NULL,
  stop         TEXT,
  sweep        INTEGER,
  ordinals     INTEGER NOT NULL,
  active       INTEGER NOT NULL CHECK (active >= 0),
  open         INTEGER NOT NULL CHECK (open >= 0),
  open_main    INTEGER NOT NULL CHECK (open_main >= 0),
  total        INTEGER NOT NULL,
  succeeded    INTEGER NOT NULL,
  failed       INTEGER NOT NULL,
  dead_letter  INTEGER NOT NULL,
  cancelled    INTEGER NOT NULL,
  skipped      INTEGER NOT NULL,
  broken       INTEGER NOT NULL,
  created_at   INTEGER NOT NULL,
  started_at   INTEGER,
  finished_at  INTEGER,
  deadline_at  INTEGER,
  reason       TEXT,
  inputs       TEXT NOT NULL,
  key          TEXT UNIQUE,
  body_hash    TEXT NOT NULL,
  source       TEXT,
  labels       TEXT NOT NULL,
  fresh        INTEGER NOT NULL DEFAULT 0,
  level        INTEGER,
  level_open   INTEGER CHECK (level_open >= 0),
  advance_state         TEXT CHECK (advance_state IN ('level', 'task', 'paused')),
  owner        TEXT,
  root         INTEGER NOT NULL,
  parent       INTEGER,
  reported         INTEGER NOT NULL,
  paused           INTEGER NOT NULL,
  "trigger"    TEXT,
  taken_from   INTEGER,
  backfill     TEXT
);
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
-- Few of a large family are at work at a time; a claim for the family looks at those only.
CREATE INDEX runs_at_work ON runs (root, no) WHERE active > 0;
-- Few runs take over results; what they refer to is kept.
CREATE INDEX runs_by_takeover ON runs (taken_from) WHERE taken_from IS NOT NULL;
CREATE INDEX runs_unreported ON runs (no) WHERE NOT reported;

-- What the names of workflows in a family of runs mean: settled when its root was submitted.
-- the definition that a run had until this generation, if it was corrected then
CREATE TABLE corrections (
  run_no       INTEGER NOT NULL,
  generation   INTEGER NOT NULL,
  workflow     TEXT NOT NULL,
  PRIMARY KEY (run_no, generation)
) WITHOUT ROWID;
CREATE INDEX corrections_by_workflow ON corrections (workflow);

CREATE TABLE pins (
  root         INTEGER NOT NULL,
  workflow     TEXT NOT NULL,
  source       TEXT,
  name         TEXT NOT NULL,
  child        TEXT NOT NULL,
  child_source TEXT
);
CREATE INDEX pins_by_root ON pins (root);
CREATE INDEX pins_by_child ON pins (child);

CREATE TABLE tasks (
  id          INTEGER PRIMARY KEY,
  run_no      INTEGER NOT NULL,
  pos         INTEGER NOT NULL,
  idx         INTEGER NOT NULL,
  generation  INTEGER NOT NULL DEFAULT 1,
  state       TEXT NOT NULL CHECK (state IN ('pending', 'queued', 'scheduled', 'waiting', 'running',
                                             'succeeded', 'failed', 'cancelled', 'skipped', 'dead_letter')),
  attempt     INTEGER NOT NULL DEFAULT 0,
  failures    INTEGER NOT NULL DEFAULT 0,
  lost        INTEGER NOT NULL DEFAULT 0,
  open        INTEGER NOT NULL CHECK (open >= 0),
  failed      INTEGER NOT NULL DEFAULT 0,
  skipped     INTEGER NOT NULL DEFAULT 0,
  tolerated   INTEGER NOT NULL DEFAULT 0,
  elements    INTEGER,
  admitted    INTEGER NOT NULL DEFAULT 0,
  demand      TEXT NOT NULL,
  ready_at    INTEGER,
  rank        INTEGER NOT NULL,
  wake_at     INTEGER,
  session     TEXT,
  claim_no    INTEGER,
  stop        TEXT,
  upstream    INTEGER NOT NULL DEFAULT false,
  settled     INTEGER NOT NULL DEFAULT true,
  claimed_at  INTEGER,
  started_at  INTEGER,
  finished_at INTEGER,
  reason      TEXT,
  held        TEXT CHECK (held IN ('succeeded', 'failed', 'dead_letter')),
  deadline_at INTEGER,
  child       INTEGER,
  child_action TEXT,
  head_start  INTEGER NOT NULL DEFAULT 0,
  -- The attempt that succeeded, where it is the plain kind: then it has no row in `attempts`.
  ran_by      TEXT,
  exit_code   INTEGER,
  ended_at    INTEGER,
  result_hash TEXT,
  result      TEXT
);
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
  task_id     INTEGER NOT NULL,
  attempt     INTEGER NOT NULL,
  generation  INTEGER NOT NULL,
  session     TEXT NOT NULL,
  outcome     TEXT NOT NULL CHECK (outcome IN ('succeeded', 'failed', 'cancelled', 'lost', 'returned')),
  exit_code   INTEGER,
  error       TEXT,
  claimed_at  INTEGER,
  started_at  INTEGER,
  finished_at INTEGER NOT NULL,
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
  run_no INTEGER NOT NULL,
  key    TEXT NOT NULL,
  value  TEXT NOT NULL,
  pos    INTEGER,
  idx    INTEGER,
  PRIMARY KEY (run_no, key)
) WITHOUT ROWID;

-- Outside answers. One that comes before its wait is reached is kept; each is applied once.
CREATE TABLE signals (
  run_no   INTEGER NOT NULL,
  name     TEXT NOT NULL,
  data     TEXT,
  rejected TEXT,
  at       INTEGER NOT NULL,
  PRIMARY KEY (run_no, name)
) WITHOUT ROWID;

CREATE TABLE events (
  seq     INTEGER PRIMARY KEY AUTOINCREMENT,
  run_no  INTEGER NOT NULL,
  pos     INTEGER,
  idx     INTEGER,
  kind    TEXT NOT NULL,
  session TEXT,
  at      INTEGER NOT NULL,
  many    INTEGER NOT NULL DEFAULT 1,
  data    TEXT NOT NULL
);
CREATE INDEX events_by_run ON events (run_no, seq);

CREATE TABLE demands (
  no   INTEGER PRIMARY KEY AUTOINCREMENT, -- never used again: nodes ask for those above the last one they know
  id   TEXT NOT NULL UNIQUE,
  body TEXT NOT NULL
);

CREATE TABLE sessions (
  id         TEXT PRIMARY KEY,
  node       TEXT NOT NULL,
  state      TEXT NOT NULL CHECK (state IN ('live', 'draining', 'dead', 'left')),
  exchange   INTEGER NOT NULL,
  scope      INTEGER,
  started_at INTEGER NOT NULL,
  ended_at   INTEGER,
  body       TEXT NOT NULL,
  role       TEXT NOT NULL CHECK (role IN ('auto', 'leader', 'worker', 'observer')),
  drain_at   INTEGER,
  gave_up    INTEGER NOT NULL DEFAULT 0,
  token      TEXT
);
CREATE INDEX sessions_live ON sessions (id) WHERE ended_at IS NULL;

-- Apart from sessions: a renewal touches nothing that an exchange holds. No row: the session is dead.
CREATE TABLE leases (
  session    TEXT PRIMARY KEY,
  expires_at INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE stale_reports (
  id      INTEGER PRIMARY KEY,
  task_id INTEGER NOT NULL,
  attempt INTEGER NOT NULL,
  session TEXT NOT NULL,
  at      INTEGER NOT NULL,
  why     TEXT NOT NULL,
  body    TEXT NOT NULL
);
CREATE INDEX stale_reports_by_task ON stale_reports (task_id);

-- One row per command of a person, inserted first: a retry after an unknown commit gets the first reply.
CREATE TABLE commands (
  id        TEXT PRIMARY KEY,
  body_hash TEXT NOT NULL,
  reply     TEXT NOT NULL,
  at        INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX commands_by_age ON commands (at);

-- What outlives an attempt: results kept for `cache`, effects that `once` has seen through.
CREATE TABLE memos (
  key        TEXT PRIMARY KEY,
  kind       TEXT NOT NULL CHECK (kind IN ('cache', 'once')),
  status     TEXT NOT NULL CHECK (status IN ('pending', 'completed', 'failed')),
  value      TEXT,
  hash       TEXT,
  run        TEXT NOT NULL,
  task       TEXT NOT NULL,
  task_id    INTEGER NOT NULL,
  attempt    INTEGER NOT NULL,
  session    TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  expires_at INTEGER
);
CREATE INDEX memos_by_expiry ON memos (expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX memos_of_tasks ON memos (task_id) WHERE kind = 'once';
-- Limits that tasks of many runs share. A claim locks the row before it counts; `used` is how many running tasks hold a place.
CREATE TABLE pools (
  name TEXT PRIMARY KEY,
  size INTEGER NOT NULL CHECK (size >= 0),
  used INTEGER NOT NULL CHECK (used >= 0)
) WITHOUT ROWID;

-- What a mapped task maps over, where that came from the run's context, which goes on changing: fixed when it opens.
CREATE TABLE arrays (
  run_no     INTEGER NOT NULL,
  pos        INTEGER NOT NULL,
  generation INTEGER NOT NULL,
  value      TEXT NOT NULL,
  PRIMARY KEY (run_no, pos, generation)
) WITHOUT ROWID;

-- What people call the elements of a mapped task, one JSON array for all of them.
CREATE TABLE labels (
  run_no     INTEGER NOT NULL,
  pos        INTEGER NOT NULL,
  generation INTEGER NOT NULL,
  value      TEXT NOT NULL,
  PRIMARY KEY (run_no, pos, generation)
) WITHOUT ROWID;

-- What a node measures of its machine, sent with its renewals: apart from the rows that exchanges lock, and without an
-- index of its own.
CREATE TABLE node_facts (
  session TEXT PRIMARY KEY,
  at      INTEGER NOT NULL,
  body    TEXT NOT NULL
) WITHOUT ROWID;

-- One row for ever: who leads, under which term. Terms only go up; a term without a session was resigned.
CREATE TABLE leadership (
  one        INTEGER PRIMARY KEY CHECK (one = 1),
  term       INTEGER NOT NULL,
  session    TEXT,
  expires_at INTEGER NOT NULL
);
INSERT INTO leadership (one, term, session, expires_at) VALUES (1, 0, NULL, 0);

-- Versions of one name, newest first.
CREATE INDEX workflows_by_name ON workflows (name, created_at);

-- Output of attempts without their files: sent by nodes on other machines, or copied from a store that had it so. What
-- a report carries whole is not in here.
CREATE TABLE output_chunks (
  task_id INTEGER NOT NULL,
  attempt INTEGER NOT NULL,
  stream  TEXT NOT NULL CHECK (stream IN ('stdout', 'stderr', 'files')),
  at      INTEGER NOT NULL CHECK (at >= 0),
  data    BLOB NOT NULL,
  PRIMARY KEY (task_id, attempt, stream, at)
);

-- All of a stream was sent, up to the cap: so many bytes were written. What lacks in between was cut out.
CREATE TABLE output_ends (
  task_id INTEGER NOT NULL,
  attempt INTEGER NOT NULL,
  stream  TEXT NOT NULL CHECK (stream IN ('stdout', 'stderr')),
  size    INTEGER NOT NULL,
  PRIMARY KEY (task_id, attempt, stream)
) WITHOUT ROWID;

-- Which version of a workflow is current: the one that `weft apply` was told of last.
CREATE TABLE applied (
  name   TEXT PRIMARY KEY,
  hash   TEXT NOT NULL,
  source TEXT,
  by     TEXT,
  at     INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX applied_by_hash ON applied (hash);

-- Whatever is due up to `since_ms` has been decided; `next_ms` is when to look again.
CREATE TABLE triggers (
  id       TEXT PRIMARY KEY,
  workflow TEXT NOT NULL,
  kind     TEXT NOT NULL CHECK (kind IN ('cron', 'every', 'webhook', 'after')),
  key      TEXT,
  body     TEXT NOT NULL,
  hash     TEXT NOT NULL,
  source   TEXT,
  active   INTEGER NOT NULL,
  paused   INTEGER NOT NULL,
  since_ms INTEGER NOT NULL,
  next_ms  INTEGER,
  cursor   INTEGER NOT NULL,
  checked_ms INTEGER NOT NULL DEFAULT 0,
  check_ms INTEGER
) WITHOUT ROWID;
CREATE INDEX triggers_of_workflow ON triggers (workflow, id);
CREATE INDEX triggers_by_key ON triggers (kind, key) WHERE key IS NOT NULL;

-- What became of each fire. The key is the guarantee: one for each cause of a trigger, for ever.
CREATE TABLE fires (
  "trigger" TEXT NOT NULL,
  cause     TEXT NOT NULL,
  due_at    INTEGER,
  at        INTEGER NOT NULL,
  outcome   TEXT NOT NULL CHECK (outcome IN ('started', 'queued', 'skipped', 'missed', 'failed')),
  run       TEXT,
  reason    TEXT,
  names     TEXT,
  PRIMARY KEY ("trigger", cause)
);
-- One run for each fire time of a range. What lies before the cursor, in its direction, has been decided.
CREATE TABLE backfills (
  id         TEXT PRIMARY KEY,
  "trigger"  TEXT NOT NULL,
  first_ms   INTEGER NOT NULL,
  last_ms    INTEGER NOT NULL,
  parallel   INTEGER NOT NULL CHECK (parallel > 0),
  reverse    INTEGER NOT NULL,
  again      INTEGER NOT NULL,
  inputs     TEXT NOT NULL,
  total      INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  by         TEXT,
  state      TEXT NOT NULL CHECK (state IN ('active', 'complete', 'cancelled')),
  cursor     INTEGER,
  started    INTEGER NOT NULL,
  existing   INTEGER NOT NULL,
  failed     INTEGER NOT NULL,
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
  task_id   INTEGER NOT NULL,
  attempt   INTEGER NOT NULL,
  session   TEXT NOT NULL,
  kind      TEXT NOT NULL,
  engine    TEXT NOT NULL,
  name      TEXT NOT NULL,
  place     TEXT NOT NULL,
  adoptable INTEGER NOT NULL,
  state     TEXT NOT NULL CHECK (state IN ('open', 'orphaned', 'gone', 'adopted', 'released')),
  opened_at INTEGER NOT NULL,
  closed_at INTEGER,
  note      TEXT,
  PRIMARY KEY (task_id, attempt)
) WITHOUT ROWID;
CREATE UNIQUE INDEX handles_unclosed ON handles (task_id) WHERE state IN ('open', 'orphaned');
CREATE INDEX handles_orphaned ON handles (engine, task_id) WHERE state = 'orphaned';

-- What a run (run:7) or all tasks in a pool (pool:llm) may spend, have spent, and have reserved for running tasks:
-- millionths of a US dollar, and tokens. Changed relatively, like pools.
CREATE TABLE budgets (
  scope           TEXT PRIMARY KEY,
  usd             INTEGER,
  tokens          INTEGER,
  usd_spent       INTEGER NOT NULL CHECK (usd_spent >= 0),
  tokens_spent    INTEGER NOT NULL CHECK (tokens_spent >= 0),
  usd_reserved    INTEGER NOT NULL CHECK (usd_reserved >= 0),
  tokens_reserved INTEGER NOT NULL CHECK (tokens_reserved >= 0)
) WITHOUT ROWID;

-- What the attempts of a task have spent together. A new generation is another task.
CREATE TABLE spending (
  task_id INTEGER PRIMARY KEY,
  usd     INTEGER NOT NULL CHECK (usd >= 0),
  tokens  INTEGER NOT NULL CHECK (tokens >= 0)
);

-- Bearer tokens of the API: hashes only. Revoked ones stay, so that the history can be understood.
CREATE TABLE tokens (
  id         TEXT PRIMARY KEY,
  hash       TEXT NOT NULL,
  label      TEXT NOT NULL,
  role       TEXT NOT NULL CHECK (role IN ('viewer', 'operator', 'admin', 'worker')),
  created_at INTEGER NOT NULL,
  expires_at INTEGER,
  revoked_at INTEGER,
  binding    TEXT
) WITHOUT ROWID;

-- Moments by which runs (pos -1) and tasks should have started or ended; the leader judges each once, when it has passed.
CREATE TABLE deadlines (
  run_no INTEGER NOT NULL,
  pos    INTEGER NOT NULL,
  by     TEXT NOT NULL CHECK (by IN ('start_by', 'finish_by')),
  at     INTEGER NOT NULL,
  state  TEXT NOT NULL CHECK (state IN ('open', 'met', 'late')),
  PRIMARY KEY (run_no, pos, by)
) WITHOUT ROWID;
CREATE INDEX deadlines_open ON deadlines (at, run_no) WHERE state = 'open';
CREATE INDEX deadlines_late ON deadlines (run_no) WHERE state = 'late';

-- The outbox: a row is written with the event that it is about, and delivered at least once by the leader.
CREATE TABLE notifications (
  id           TEXT PRIMARY KEY,
  run_no       INTEGER,
  run          TEXT,
  pos          INTEGER,
  workflow     TEXT NOT NULL,
  event        TEXT NOT NULL CHECK (event IN ('failed', 'recovered', 'dead_letter', 'late', 'waiting')),
  target       TEXT NOT NULL,
  facts        TEXT NOT NULL,
  created_at   INTEGER NOT NULL,
  state        TEXT NOT NULL CHECK (state IN ('pending', 'delivered', 'failed')),
  tries        INTEGER NOT NULL,
  next_at      INTEGER CHECK ((state = 'pending') = (next_at IS NOT NULL)),
  term         INTEGER,
  error        TEXT,
  delivered_at INTEGER CHECK ((state = 'delivered') = (delivered_at IS NOT NULL))
) WITHOUT ROWID;
CREATE INDEX notifications_pending ON notifications (next_at, id) WHERE state = 'pending';
CREATE INDEX notifications_failed ON notifications (id) WHERE state = 'failed';
CREATE INDEX notifications_by_age ON notifications (created_at, id);
CREATE INDEX notifications_by_run ON notifications (run_no) WHERE run_no IS NOT NULL;

-- What notifications need to know besides definitions: `default`, the targets for all workflows, as JSON; and
-- `failed:NAME`, the last run of a workflow whose recovery will be reported.
CREATE TABLE notify_state (
  key  TEXT PRIMARY KEY,
  body TEXT NOT NULL
) WITHOUT ROWID;
