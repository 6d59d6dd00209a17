"""All commands as data: what argparse, the overview of `weft --help` and docs/reference/cli.md are made from.

Nothing heavy is imported here. A command's work is named as `module:function` and imported when it is called:
it gets the parsed arguments and a Session, and returns the exit code.
"""

from typing import Any, NamedTuple

from weft.cli.arguments import dollars, whole


class Option(NamedTuple):
    names: tuple[str, ...]
    help: str
    given: dict[str, Any] = {}  # noqa: RUF012 - for argparse; never changed


class Command(NamedTuple):
    name: str
    group: str
    summary: str
    function: str  # "file:function" in cli/commands
    options: tuple[Option, ...] = ()
    note: str = ""
    store: bool = True
    remote: bool = True  # a server can do it, too

    @property
    def target(self) -> tuple[str, str]:
        """The module that has it, and its name there."""
        file, _, name = self.function.partition(":")
        return f"weft.cli.commands.{file}", name


def _option(*names: str, help: str, **given: Any) -> Option:
    return Option(names, help, given)


def _flag(*names: str, help: str) -> Option:
    return Option(names, help, {"action": "store_true"})


#: Whose files `weft mcp install` writes (mcp/install.py).
MCP_CLIENTS = ("claude", "claude-desktop", "cursor", "vscode", "codex", "gemini", "windsurf", "zed")
STORE = _option(
    "--store", metavar="PATH",
    help="the store: a file, postgresql://… or etcd://… (default: .weft/weft.db, searched upward)",
)  # fmt: skip
SERVER = _option(
    "--server",
    metavar="URL",
    help="ask this server instead of a store; its token: WEFT_TOKEN, else .weft/token",
)
CONSISTENT = _flag("--consistent", help="of a store on etcd: first wait for all that is in its log by now")
JSON = _flag("--json", help="for machines: JSON on standard output")
VERBOSE = _flag("-v", "--verbose", help="log what happens, and the settings, on standard error")

RUN = _option("run", metavar="RUN", help="a run's id, the beginning of one, or `last`")
TASK = _option("task", metavar="TASK", nargs="?", help="a task, or one element of it (name.3)")
FILE = _option(
    "file", metavar="FILE",
    help="a definition in YAML or JSON, or a flow (module:flow, file.py:flow); - reads standard input",
)  # fmt: skip
SLOTS = _option("--slots", metavar="N", help="how many attempts run at a time (default: cores × 4)")
PYTHON_RUNNERS = _option(
    "--python-runners", metavar="N", help="how many warm processes run Python functions (default: cores)"
)
LABEL = _option(
    "--label", metavar="K[=V]", action="append", default=[], help="a label of this node; may be given several times"
)
CAPABILITY = _option(
    "--capability", metavar="WORD", action="append", default=[],
    help="something this node can do; may be given several times",
)  # fmt: skip
MEMORY = _option("--memory", metavar="SIZE", help="memory for its tasks (default: nine tenths of the machine's)")
DISK = _option("--disk", metavar="SIZE", help="disk space for its tasks (default: what is free)")
CPUS = _option("--cpus", metavar="N", help="CPUs for its tasks, e.g. 4 or 1.5 (default: the machine's)")
GPUS = _option("--gpus", metavar="N", help="GPUs for its tasks (default: those found)")
PLACE = (LABEL, CAPABILITY, MEMORY, DISK, CPUS, GPUS)
DRAIN = _option("--drain", metavar="TIME", help="how long running tasks may go on after ^C (default: 10s)")
NAME = _option("--name", metavar="TEXT", help="what it is called in lists")
LOG_FORMAT = _option(
    "--log-format", choices=("console", "json"), help="how messages look (default: console; --json means json)"
)
ROLE = _option(
    "--role", choices=("auto", "leader", "worker", "observer"),
    help="may it lead? (default: auto; leader insists, worker never does, observer only reads)",
)  # fmt: skip
RUN_AS = _option("--run-as", metavar="USER", help="start tasks as this user (needs root; default: its own user)")
HOST = _option("--host", metavar="ADDRESS", help="listen on this address (default: 127.0.0.1)")
PORT = _option("--port", metavar="PORT", help="listen on this port (default: 8700)")
GRPC = _option(
    "--grpc", metavar="PORT", nargs="?", const="8701", help="answer gRPC, too, on this port (8701 if none is given)"
)
ROOT_PATH = _option(
    "--root-path", metavar="PATH", help="what stands before its paths at a proxy, e.g. /weft (default: nothing)"
)
TLS_CERT = _option("--tls-cert", metavar="FILE", help="speak TLS, with this certificate and those that signed it")
TLS_KEY = _option("--tls-key", metavar="FILE", help="the key of that certificate (default: in the same file)")
ALLOW_HOST = _option(
    "--allow-host", metavar="NAME", action="append", default=[],
    help="a name that requests may be addressed to; may be given several times",
)  # fmt: skip
INPUT = _option(
    "--input",
    "-i",
    metavar="K=V",
    action="append",
    default=[],
    help="an input; K=@FILE takes its value from a file, K=@@TEXT is the text @TEXT",
)
PARALLEL = _option("--max-parallel", metavar="N", type=whole, help="at most this many tasks of the run at a time")
PRIORITY = _option("--priority", metavar="N", type=whole, default=0, help="0 to 10; higher goes first")
RUN_LABEL = _option(
    "--run-label", metavar="K=V", action="append", default=[],
    help="a label of the run, by which `weft ls` finds it; may be given several times",
)  # fmt: skip
KEY = _option("--key", metavar="TEXT", help="idempotency: one run per key, however often it is asked for")
AT = _option("--at", metavar="EVENT", type=whole, help="as it was after this event (`weft events` has their numbers)")
DETACH = _flag("--detach", help="do not work on it here: leave it to workers")
LOGS = _flag("--logs", help="show the tasks' output as it comes (a bare list of commands always does)")
NO_CACHE = _flag("--no-cache", help="run tasks with `cache` all the same, and keep what comes out")
USD = _option("--usd", metavar="N", type=dollars, help="what may be spent, in US dollars")
TOKENS = _option("--tokens", metavar="N", type=whole, help="what may be spent, in tokens")
LIMIT = _option("--limit", "-n", metavar="N", type=whole, help="at most so many")
PAGE = _flag("--ui", help="also open it in the browser; a server that is started for that stays until ^C")
DRY_RUN = _flag("--dry-run", help="only say what would start, level by level, and on which nodes it could run")
BY_HAND = _option(
    "--step", action="store_true", dest="manual_advance",
    help="of a workflow with mode: levels: pause after each level, until `weft advance`",
)  # fmt: skip
FOLLOW = _flag("-f", "--follow", help="go on until it has ended")
OF_A_NODE = (SLOTS, PYTHON_RUNNERS, *PLACE, DRAIN)
WORKING = (*OF_A_NODE, LOGS, VERBOSE)

DIR = _option("--dir", metavar="DIR", help="apply the definitions of this directory, and whenever one changes")

RUN_FILTERS = (
    _option("--state", metavar="STATE", action="append", help="only runs in this state; may be repeated"),
    _option("--name", metavar="NAME", help="only runs of this workflow"),
    _option("--run-label", metavar="K=V", action="append", default=[],
            help="only runs with this label; may be given several times"),
    _option("--input", "-i", metavar="K=V", action="append", default=[],
            help="only runs with this value of an input; may be given several times"),
    _option("--trigger", metavar="TRIGGER",
            help="only runs that this trigger made: workflow/name, or one of the two where that is enough"),
    _option("--since", metavar="TIME",
            help="only runs submitted since then, e.g. 10m; or a date and time"),
    _option("--until", metavar="TIME", help="only runs submitted before then; or a date and time"),
    _option("--text", metavar="TEXT",
            help="only runs with this text in their id, name, labels, inputs or reason; A to Z are as a to z"),
    _option("--backfill", metavar="ID", help="only runs of this backfill"),
    _flag("--late", help="only runs with a deadline that was not met"),
)  # fmt: skip
CHILDREN = _flag("--all", help="also runs that tasks of other runs have started")

COMMANDS: tuple[Command, ...] = (
    Command(
        "run", "Run", "run a workflow here and watch it", "run:run",
        (_option("file", metavar="FILE", nargs="?", help=FILE.help + "; or the name of an applied workflow"),
         INPUT, RUN_LABEL, PARALLEL, PRIORITY, KEY,
         NO_CACHE, BY_HAND, DRY_RUN, PAGE, *WORKING),
        "`weft run -- CMD…` runs one command durably, and ends with its exit code (1 if it has none: it was"
        " cancelled, or never ran). The first ^C lets running tasks finish, the second kills them;"
        " either way `weft resume` goes on. With `--server` the server's nodes run it, and ^C only stops watching.",
    ),
    Command(
        "submit", "Run", "store a run for workers to take", "run:submit",
        (FILE, INPUT, RUN_LABEL, PARALLEL, PRIORITY, KEY, NO_CACHE, BY_HAND),
        "What no live worker could run is accepted with a warning (`warnings` in JSON) and waits for one that can;"
        " `weft why` explains it.",
    ),
    Command(
        "worker", "Run", "work on whatever is queued, until stopped", "worker:worker",
        (SLOTS, PYTHON_RUNNERS, *PLACE, DRAIN,
         NAME, ROLE, RUN_AS, DIR, LOG_FORMAT, VERBOSE,
         _option("--server", metavar="URL[,URL]", dest="servers",
                 help="work for this server, without a store; the next one is asked when one does not answer"),
         _option("--token-file", metavar="FILE",
                 help="with --server: its token, of `weft token create --worker` (default: WEFT_TOKEN)"),
         _option("--ca-file", metavar="FILE",
                 help="with --server: certificates that its certificate is checked with (default: the system's)")),
        "With --server it needs no way to the database: docs/guides/workers-over-http.md."
        " SIGTERM or ^C drains it: no new tasks, running ones may end within `--drain`, the rest is requeued without"
        " using a retry."
        " The second one kills. `weft drain` does the same from elsewhere.",
        remote=False,
    ),
    Command(
        "serve", "Run", "the HTTP API, and a node that works", "serve:serve",
        (HOST, PORT, GRPC, ROOT_PATH, ALLOW_HOST, TLS_CERT, TLS_KEY, SLOTS, PYTHON_RUNNERS, *PLACE, DRAIN, NAME,
         ROLE, RUN_AS, DIR, LOG_FORMAT, VERBOSE),
        "Every request needs a token: the owner's is in `.weft/token`, which commands read by themselves; create"
        " others with `weft token create`. `--slots 0`: run no tasks here."
        " SIGTERM or ^C drains: requests under way are answered, running tasks may end within `--drain`.",
        remote=False,
    ),
    Command(
        "ui", "Run", "the page in a browser, signed in; with a server if none answers", "ui:ui",
        (_flag("--no-open", help="only print the address"), PORT, SLOTS, DIR, LOG_FORMAT, VERBOSE),
        "A server that answers at the address is used; else one is started here, as by `weft serve`, until ^C. The"
        " link that is opened works once, within a minute.",
    ),
    Command(
        "mcp", "Run", "tools for AI agents (MCP), over standard input and output or HTTP", "mcp:mcp",
        (_option("action", metavar="install", nargs="?", choices=("install",),
                 help="write an entry for Weft into the configuration of clients, instead of serving"),
         _option("--client", metavar="CLIENT", action="append", choices=MCP_CLIENTS,
                 help=f"install: {', '.join(MCP_CLIENTS)}; may be repeated"),
         _flag("--print", help="install: only show what would be written"),
         _flag("--remove", help="install: remove the entry again"),
         _flag("--write-token", help="install: also write the token of WEFT_TOKEN into the file, in clear"),
         _flag("--http", help="serve it at /mcp of an address, instead of standard input and output"),
         HOST, PORT, ROOT_PATH, ALLOW_HOST,
         _flag("--read-only", help="only tools that read: those that change something are left out"),
         _flag("--work", help="also run tasks, in a node of its own for as long as it serves"),
         SLOTS, PYTHON_RUNNERS, *PLACE, DRAIN, NAME, VERBOSE),
        "A client starts it and talks to it, until it closes its input. `weft serve` has the same tools at /mcp."
        " Over HTTP every request needs a token, as with `weft serve`.",
    ),
    Command(
        "resume", "Run", "make a run finish here: what did not succeed runs again", "run:resume",
        (RUN, _option("--file", metavar="FILE", dest="definition_file",
                      help="go on with this corrected definition, in a new generation"),
         _flag("--preview", help="with --file: only say what would run again"), DETACH, *WORKING),
        "With --file, tasks map by name. Those that succeeded and do the same keep their results; changed ones, and"
        " what follows them, run again.",
    ),
    Command(
        "advance", "Run", "continue a run paused between levels", "run:advance",
        (RUN, _flag("--task", help="by one task, in the order of their names, instead of by one level"),
         DETACH, *WORKING),
        "Such a run was started with `weft run --step`. It pauses again after this level, or task.",
    ),
    Command(
        "rerun", "Run", "start a new run with the same definition, and the same inputs or others", "run:rerun",
        (RUN, INPUT,
         _option("--from", metavar="TASK", dest="from_task", action="append", default=[],
                 help="run only this task and what follows it; may be given several times"),
         _flag("--preview", help="with --from: only say what would run, and what would be taken over"),
         DETACH, NO_CACHE, *WORKING),
        "With --from, what succeeded or was skipped before those tasks is taken over, with its results and what it"
        " set in the context. Handlers run again. prune keeps the old run as long as the new one.",
    ),
    Command("init", "Run", "write a first workflow", "init:init", (
        _option("file", metavar="FILE", nargs="?", default="workflow.yaml", help="where to (default: workflow.yaml)"),
        _flag("--force", help="overwrite the file if there is one"),
    ), store=False),
    Command("demo", "Run", "see a run survive kill -9, in 20 seconds", "init:demo",
            (_flag("--ui", help="then look at it in the browser, until ^C"),), store=False),
    Command(
        "ls", "Look", "list runs, newest first", "ls:ls",
        (*RUN_FILTERS, CHILDREN,
         LIMIT, _option("--before", metavar="NO", type=whole, help="the page before this one ended at this number")),
    ),
    Command(
        "tasks", "Look", "list tasks", "ls:tasks",
        (_option("run", metavar="RUN", nargs="?", help="of this run only"),
         _option("--state", metavar="STATE", action="append", help="only tasks in this state; may be repeated"),
         LIMIT, _option("--after", metavar="ID", type=whole, default=0, help="go on where the page before ended")),
    ),
    Command(
        "show", "Look", "show a run's graph, or a task's attempts", "show:show",
        (RUN, TASK, _flag("--all", help="every task, however many there are"),
         _flag("--definition", help="the definition that it runs, as YAML"), AT),
    ),
    Command(
        "diff", "Look", "compare two runs: definition, inputs, durations, outcomes", "workflows:diff",
        (RUN, _option("other", metavar="RUN", help="the run to compare it with"),
         _flag("--all", help="also tasks that ended alike")),
    ),
    Command(
        "logs", "Look", "show the output of tasks", "logs:logs",
        (RUN, TASK, FOLLOW, _option("--attempt", metavar="N", type=whole, help="of this attempt, not of the last"),
         _option("--stream", choices=("stdout", "stderr"), help="one stream only"),
         _option("--tail", metavar="N", type=whole, help="only the last N lines of each task's streams; -f goes on"),
         _option("--grep", metavar="TEXT", help="only lines of TASK with this text, each with its number"),
         _flag("--ignore-case", help="with --grep: A to Z are as a to z"),
         _flag("--timestamps", help="a time before each line: with -f, when it was seen here; of older output, when"
                                    " its attempt began, because lines have no times of their own")),
    ),
    Command(
        "artifacts", "Look", "list the files that tasks have kept, or get one", "logs:artifacts",
        (_option("words", metavar="RUN [TASK] | get RUN TASK PATH", nargs="+",
                 help="the run, and one of its tasks; or get, and which file"),
         _option("-o", "--output", metavar="FILE", help="get: write it here; by default to standard output")),
        "A task keeps what its `artifacts` name.",
    ),
    Command(
        "watch", "Look", "watch a run as `weft run` shows it, wherever it runs", "run:watch",
        (RUN, LOGS),
        "It begins now, ends with the run, and has the run's exit code. ^C stops watching, and nothing else.",
    ),
    Command(
        "top", "Look", "runs, tasks, nodes and output in the terminal, live", "top:top",
        (_option("run", metavar="RUN", nargs="?", help=f"open this run: {RUN.help}"),),
        "Needs `weft[tui]`. The last lines list the keys that work; `?` explains the others.",
    ),
    Command(
        "events", "Look", "show a run's history, or what happens in the whole cluster", "events:events",
        (_option("run", metavar="RUN", nargs="?", help=f"{RUN.help}; without it, all: runs, nodes, the leader"),
         FOLLOW, LIMIT, _option("--after", metavar="SEQ", type=whole, help="only what came later"),
         _option("--node", metavar="NODE", help="only what this node (name or session) did, or what happened to it"),
         _option("--task", metavar="TASK", help="only of tasks of this name, or of one element (name.3)"),
         _option("--kind", "--type", metavar="KIND", action="append", help="only of this kind; may be repeated"),
         _option("--since", metavar="TIME", help="only what is not older than this, e.g. 10m; or a date and time"),
         _option("--until", metavar="TIME", help="only what is older than this; or a date and time"),
         _flag("--canonical", help="only the records of a run in levels, the same whatever order tasks ended in")),
    ),
    Command(
        "workflows", "Look", "list workflows, or the versions of one", "workflows:workflows",
        (_option("name", metavar="NAME", nargs="?", help="of this one: its versions"),
         _option("--diff", metavar="HASH", nargs="*",
                 help="how versions differ: the current one and that before it, or these two (beginnings will do)"),
         LIMIT),
    ),
    Command("backfills", "Look", "list backfills, newest first", "backfill:backfills", (LIMIT,)),
    Command("why", "Look", "explain what a task waits for", "events:why", (RUN, TASK, AT)),
    Command(
        "verify", "Look", "rebuild a run's state from its events and compare", "events:verify",
        (_option("run", metavar="RUN", nargs="?", help="a run's id, the beginning of one, or `last`"),
         _flag("--replicas", help="compare the replicas of all live nodes instead (a store on etcd)")),
    ),
    Command(
        "nodes", "Look", "list nodes, or show one of them", "nodes:nodes",
        (_option("action", metavar="show", nargs="?", choices=("show",), help="show: all about one node"),
         _option("node", metavar="NODE", nargs="?", help="its name, its session, or the beginning of that"),
         _flag("--ended", help="also those that ended")),
        "A node is healthy; stale when more than half of its lease is gone; dead when all of it is. By the store's"
        " clock.",
    ),
    Command(
        "executors", "Look", "list the types of tasks that can run here and on live nodes", "nodes:executors",
        note="Those of Weft and those that plugins add, with the version of the plugin; whether what each needs"
        " answers now (a container engine, a cluster, a program), and why not. Nothing is asked for longer than 3 s.",
    ),
    Command(
        "drain", "Change", "let a node finish its tasks and leave", "nodes:drain",
        (_option("node", metavar="NODE", help="its name, its session, or the beginning of that"),
         _option("--deadline", metavar="TIME", default="60s",
                 help="what still runs then is requeued without using a retry (default: 60s)"),
         _flag("--wait", help="until it has left")),
    ),
    Command(
        "cancel", "Change", "stop a run, or one task of it", "cancel:cancel",
        (RUN, TASK, _option("--reason", metavar="TEXT", default="cancelled by request", help="kept in the history"),
         _flag("--now", help="of a run: skip its handlers, too (`when: always`)"),
         _flag("--no-wait", help="do not wait until nothing of it is left running")),
    ),
    Command(
        "bulk", "Change", "cancel, pause, unpause, resume, rerun, retry-dead or remove many runs", "bulk:bulk",
        (_option("action", metavar="ACTION", help="cancel, pause, unpause, resume, rerun, retry-dead or remove"),
         _option("runs", metavar="RUN", nargs="*", help="these; or those that the filters of `weft ls` find"),
         *RUN_FILTERS, CHILDREN,
         _flag("--preview", help="only say what would be done"),
         _option("--reason", metavar="TEXT", default="by request", help="kept in the history")),
        "Each run is changed by itself. Runs for which it means nothing are listed with the reason.",
    ),
    Command(
        "release", "Change", "go on without the proof that a lost attempt was stopped", "cancel:release",
        (RUN, _option("task", metavar="TASK", help="a task, or one element of it (name.3)"),
         _option("--reason", metavar="TEXT", default="released by request", help="kept in the history")),
        "For a container or a Kubernetes attempt whose node is lost and whose engine cannot be asked: `weft why` says"
        " so. If it still runs there, it may run twice.",
    ),
    Command(
        "skip", "Change", "skip tasks of a run, as if their condition were false", "repair:skip",
        (RUN, _option("tasks", metavar="TASK", nargs="+", help="tasks that have not started, or of an ended run"),
         _option("--reason", metavar="TEXT", default="skipped by request", help="kept in the history")),
        "Of a run that has ended, this begins a new generation: what needs the task is decided again.",
    ),
    Command(
        "mark", "Change", "let tasks of a run count as succeeded without running them", "repair:mark",
        (RUN, _option("tasks", metavar="TASK", nargs="+", help="tasks that have not started, or of an ended run"),
         _flag("--succeeded", help="what they are marked as"),
         _option("--output", metavar="JSON", help="their output"),
         _option("--reason", metavar="TEXT", default="marked by request", help="kept in the history")),
        "Of a run that has ended, this begins a new generation: what needs the task runs again.",
    ),
    Command(
        "pause", "Change", "let nothing more of a run start", "repair:pause",
        (RUN, _option("--reason", metavar="TEXT", default="paused by request", help="kept in the history")),
        "What runs goes on to its end. The run's timeout goes on, too.",
    ),
    Command(
        "unpause", "Change", "let a paused run go on", "repair:unpause",
        (RUN, _option("--reason", metavar="TEXT", default="unpaused by request", help="kept in the history")),
    ),
    Command(
        "signal", "Change", "answer a task that waits for a signal", "signals:signal",
        (RUN, _option("name", metavar="NAME", help="the signal's name (`wait: {signal: NAME}`), or its task's"),
         _option("--data", metavar="JSON", help="what comes with it: the wait's output"),
         _option("--reject", metavar="REASON", help="reject it: the wait fails")),
        "A signal that comes before its wait is reached is kept. Each signal is applied once: sent again with the"
        " same data it changes nothing, with other data it is refused.",
    ),
    Command(
        "dead", "Change", "list dead letters, or retry them", "dead:dead",
        (_option("action", metavar="list|retry", choices=("list", "retry"), help="what to do"),
         _option("run", metavar="RUN", nargs="?", help="retry: the run"),
         _option("tasks", metavar="TASK", nargs="*", help="retry: only these, and what needs them"),
         DETACH, LIMIT, *WORKING),
    ),
    Command(
        "pools", "Change", "list pools, or set the size of one", "pools:pools",
        (_option("action", metavar="set", nargs="?", choices=("set",), help="set: create a pool, or change its size"),
         _option("name", metavar="NAME", nargs="?", help="set: the pool"),
         _option("size", metavar="SIZE", nargs="?", type=whole,
                 help="set: how many tasks may hold a place at a time"),
         USD, TOKENS,
         _option("--renew", action="store_true", help="set: what its tasks have spent so far no longer counts")),
        "A task with `pools: NAME` takes a place while it runs, whichever node runs it. Size 0 lets nothing more"
        " start; what runs goes on.",
    ),
    Command(
        "budget", "Change", "show what a run has spent, or change what it may spend", "budget:budget",
        (RUN, USD, TOKENS),
        "Without --usd and --tokens it shows. A larger budget lets waiting tasks start; a smaller one stops nothing"
        " that runs.",
    ),
    Command(
        "apply", "Change", "make definitions current, and their triggers active", "apply:apply",
        (_option("files", metavar="FILE|DIR", nargs="+",
                 help="definitions in YAML or JSON, flows, directories of definitions, or - for standard input"),
         _flag("--dry-run", help="only show what would change")),
        "Triggers that a definition no longer has are deactivated; pauses stay. `weft run` activates nothing."
        " The leader fires what is due: some node must be there (`weft worker`).",
    ),
    Command(
        "triggers", "Change", "list triggers, or pause, resume and fire one", "triggers:triggers",
        (_option("action", metavar="list|show|pause|resume|fire|next", nargs="?", default="list",
                 choices=("list", "show", "pause", "resume", "fire", "next"), help="what to do (default: list)"),
         _option("trigger", metavar="TRIGGER", nargs="?",
                 help="workflow/name; or one of the two, where that is enough"),
         _option("--body", metavar="JSON", help="fire: what `trigger.body` is, of a webhook"), LIMIT),
        "`fire` makes a run now, paused or not; what `overlap` says still counts. `next` shows when it will fire.",
    ),
    Command(
        "backfill", "Change", "make one run for each fire time of a range", "backfill:backfill",
        (_option("what", metavar="WORKFLOW|TRIGGER|show|cancel",
                 help="workflow/name; or one of the two, where that is enough; or what to do with a backfill"),
         _option("id", metavar="ID", nargs="?", help="show, cancel: the backfill"),
         _option("--from", metavar="TIME", dest="first", help="the first moment, e.g. 7d; or a date and time"),
         _option("--to", metavar="TIME", dest="last", help="the last one, included (default: now)"),
         _option("--parallel", metavar="N", type=whole, default=1,
                 help="so many of its runs may be unfinished at a time (default: 1)"),
         _flag("--reverse", help="the newest time first"),
         _flag("--again", help="also for times that have a run already"),
         _flag("--dry-run", help="only list the times"), INPUT,
         _option("--reason", metavar="TEXT", default="cancelled by request", help="cancel: kept in the history")),
        "Times that already have a run are left out. The leader starts the runs: some node must"
        " be there (`weft worker`). `show` tells how far it is; `cancel` cancels what runs and what is to come.",
    ),
    Command(
        "notifications", "Change", "list notifications, have them delivered again, or set targets for all workflows",
        "notifications:notifications",
        (_option("action", metavar="list|retry|default", nargs="?", default="list",
                 choices=("list", "retry", "default"), help="what to do (default: list)"),
         _option("ids", metavar="ID", nargs="*", help="retry: these"),
         _flag("--failed", help="retry: all that are no longer tried"),
         _option("--state", metavar="STATE", choices=("pending", "delivered", "failed"),
                 help="list: only those in this state"),
         _option("--run", metavar="RUN", help="list: only those of this run"),
         _option("--file", metavar="FILE", help="default: a file with a list of targets, as `notify` has them"),
         _flag("--none", help="default: no targets any more"), LIMIT),
        "`default` without --file and --none shows the targets that the runs of all workflows have. The leader"
        " delivers: some node must be there (`weft worker`); `weft run` delivers what its run has left.",
    ),
    Command(
        "token", "Change", "create, list or revoke tokens for the server",
        "tokens:token",
        (_option("action", metavar="create|list|revoke", choices=("create", "list", "revoke"), help="what to do"),
         _option("token", metavar="TOKEN", nargs="?",
                 help="create: a label for it; revoke: its id, the beginning of that, or its label"),
         _option("--role", choices=("viewer", "operator", "admin"), dest="api_role",
                 help="create: viewer reads, operator starts and stops work, admin may do everything"
                      " (default: viewer)"),
         _option("--worker", metavar="NAME",
                 help="create: for `weft worker --server`, and nothing else; the names of its nodes begin with NAME"),
         _option("--label", metavar="K[=V]", action="append", default=[], dest="worker_label",
                 help="create --worker: a label that all its nodes have, and no others; may be repeated"),
         _option("--workflow", metavar="NAME", action="append", default=[], dest="worker_workflow",
                 help="create --worker: only tasks of this workflow, or of all that begin so (nightly*); may be"
                      " repeated"),
         _option("--expires", metavar="TIME", default="90d", help="create: after this, or never (default: 90d)")),
        "A token is shown once, when it is created; the store keeps its hash. Who did what is in `weft events`.",
    ),
    Command(
        "prune", "Change", "remove runs that ended long ago", "cancel:prune",
        (_option("--older", metavar="TIME", required=True, help="ended longer ago than this, e.g. 7d"),
         _option("--state", metavar="STATE", action="append", help="only runs in this state; may be repeated"),
         _flag("--cache", help="also results that `cache` has kept for longer than that")),
        "Results that `cache` keeps outlive their runs. Those past their `ttl` go with every prune.",
    ),
    Command(
        "store", "Change", "show what the store holds, move it, or change its schema", "store:store",
        (_option("action", metavar="info|copy|migrate|downgrade", choices=("info", "copy", "migrate", "downgrade"),
                 help="info: location, size, counts; copy: move everything to another kind of store;"
                      " migrate: bring its tables to this version; downgrade: back to those of an older one"),
         _option("--from", dest="source", metavar="STORE", help="copy: what is moved (default: the store in use)"),
         _option("--to", dest="target", metavar="STORE",
                 help="copy: postgresql://… (an empty database) or etcd://…; from etcd://… also a file"),
         _flag("--wait", help="copy: drain the nodes that are at work, and wait until they have left"),
         _flag("--quick", help="copy: verify only runs that have not ended and the newest others"),
         _flag("--undo", help="copy: use the old store again after a copy that was broken off"),
         _option("--schema", metavar="N", type=whole, help="downgrade: the number of the older schema")),
        "A copy may be killed at any point and run again. When it is done, every command on the old store says where"
        " it went; looking at it still works.",
    ),
    Command("validate", "Define", "check definitions", "validate:validate", (
        _option("files", metavar="FILE", nargs="+",
                help="definitions in YAML or JSON, or flows; - reads standard input"),
        _option("--import", dest="imports", action="store_true", help="import flows that tasks run, and check them"),
    ), "No code of a file is run: flows that its tasks name (workflow: module:flow) are checked with --import only. A"
       " FILE that is a flow itself (module:flow) is imported.", store=False),
    Command("graph", "Define", "draw a definition's graph", "validate:graph", (
        _option("file", metavar="FILE", help="a definition in YAML or JSON, or a flow; - reads standard input"),
        _option("--format", choices=("text", "mermaid", "dot"), default="text", help="how (default: text)"),
    ), store=False),
    Command("export", "Define", "print a flow as a definition in YAML", "export:export", (
        _option("file", metavar="FLOW", help="module:flow, file.py:flow, or a definition's file"),
    ), "Put it where the flow's module is: functions are found from the definition's directory. With --json it is"
       " printed as JSON.", store=False),
    Command("schema", "Define", "print the JSON Schema of definitions", "validate:schema", (), store=False),
    Command("version", "Define", "print the version", "init:version", (), store=False),
)  # fmt: skip
BY_NAME = {command.name: command for command in COMMANDS}
#: What other tools call it -> what it is here.
ELSEWHERE = {
    "list": "ls", "runs": "ls", "ps": "ls", "status": "show", "describe": "show", "inspect": "show", "start": "run",
    "exec": "run", "stop": "cancel", "kill": "cancel", "abort": "cancel", "retry": "resume", "replay": "verify",
    "check": "validate", "lint": "validate", "server": "serve", "history": "events", "gc": "prune",
    "cleanup": "prune", "approve": "signal", "deploy": "apply", "schedule": "triggers", "cron": "triggers",
}  # fmt: skip
#: What is never proposed for a word that only looks like it: `pause` is two letters away from `prune`. A word that
#: means the same elsewhere (`kill`) still finds it.
DESTRUCTIVE = ("prune", "cancel", "release", "drain")
EXIT_CODES = (
    "0 succeeded · 1 the run failed or was cancelled · 2 bad input · 3 not found · 4 the store or the server does not"
    " answer, or the output cannot be written · 130 interrupted · `weft run -- CMD` ends with the code of CMD"
)
