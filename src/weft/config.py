"""Settings: one table of all of them, read from WEFT_* variables and from weft.toml, searched upward.

A flag of the command wins over a variable, a variable over the file, the file over the default.
"""

import ipaddress
import os
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from weft.core.definition.field_types.text_formats import NotReadable, parse_duration_ms, parse_size_bytes
from weft.core.definition.problems import encodes
from weft.core.definition.site_defaults import SiteDefaults
from weft.core.definition.suggest import nearest
from weft.store.urls import StoreUrl, store_url

FILE_NAME = "weft.toml"


class BadSetting(Exception):
    """A setting that cannot be used; exit code 2."""


class Setting(NamedTuple):
    name: str  # the key in weft.toml
    kind: str
    default: str  # as people would write it; a default in (parentheses) is found out when it is needed
    doc: str
    choices: tuple[str, ...] = ()

    @property
    def variable(self) -> str:
        return f"WEFT_{self.name.upper()}"


def _settings_of(kind: str) -> Callable[..., Any]:
    """What a field of Config is set to: (default, doc, choices)."""
    return lambda default, doc, choices=(): Setting("", kind, default, doc, choices)


(
    STORE, SERVER, COUNT, PATH, TEXT, LABELS, WORDS, SIZE, AMOUNT, NUMBER, SOCKET, COMMAND, REACHABLE, PORT,
    CHOICE, DURATION, ROOT_PATH, NETWORKS,
) = map(_settings_of, (
    "store", "server", "count", "path", "text", "labels", "words", "size", "amount", "number", "socket", "command",
    "reachable", "port", "choice", "duration", "root_path", "networks",
))  # fmt: skip


class Config(NamedTuple):
    """The effective settings, each declared once: name, type, how it is read, default, what it is for."""

    store: Path | StoreUrl | None = STORE(
        "(.weft/weft.db, searched upward)",
        "What holds everything: a SQLite file (a directory stands for the file weft.db in it), or"
        " `postgresql://USER@HOST/DATABASE` for several machines",
    )
    server: str | None = SERVER(
        "(none: commands use the store)",
        "A server that commands ask instead of a store, e.g. `http://127.0.0.1:8700`. Its token is in `WEFT_TOKEN`,"
        " or for one of this machine in `.weft/token`",
    )
    slots: int = COUNT("(cores × 4)", "How many attempts a node runs at a time")
    waiting_slots: int = COUNT(
        "1000",
        "How many attempts that only wait for something elsewhere (`kubernetes`, `http`, `cloud_run`) a node holds"
        " at a time, beside its slots",
    )
    python_runners: int = COUNT("(cores)", "How many warm processes a node runs Python functions in")
    workdir: Path | None = PATH("(the working directory)", "Where tasks start whose definition is no file")
    name: str | None = TEXT("(the host's name)", "What the node is called in lists; it need not be unique")
    labels: dict[str, str] = LABELS(
        "", "Labels of the node for `requires.labels`, e.g. `gpu,zone=eu` (in the file also a table)"
    )
    capabilities: tuple[str, ...] = WORDS("", "What the node can do, for `requires.capabilities`, e.g. `docker,cuda`")
    memory: int | None = SIZE("(nine tenths of the machine's)", "Memory that tasks of the node may reserve")
    disk: int | None = SIZE("(what is free at the start)", "Disk space that tasks of the node may reserve")
    cpus: float | None = AMOUNT("(the machine's)", "CPUs that tasks of the node may reserve, e.g. `4` or `1.5`")
    gpus: int | None = NUMBER("(those found)", "GPUs that tasks of the node may reserve")
    gpu_memory: int | None = SIZE("(unknown)", "Memory of each GPU, for `requires.gpu_memory`")
    output_max: int = SIZE("64MiB", "Bytes kept of each output stream of an attempt; the middle goes first")
    output_rate: int = SIZE("8MiB", "Bytes of output that a node sends elsewhere in a second, at most")
    output_copies: int = NUMBER("1", "On a replicated log: other nodes that keep a copy of what a node's tasks print")
    result_max: int = SIZE("1MiB", "Bytes of a task's output that the store keeps; a larger one goes to a file")
    artifact_max: int = SIZE("64MiB", "Bytes that an output may have at all; beyond, its attempt fails")
    files_max: int = SIZE("256MiB", "Bytes of files that one attempt may keep (`artifacts`)")
    artifacts: Path | None = PATH(
        "(artifacts, beside the store)",
        "The directory of artifact files: one that all nodes share if they are to read each other's",
    )
    workspaces: Path | None = PATH("(workspaces, beside the store)", "The directory of workspaces on this machine")
    secrets_dir: Path | None = PATH(
        "(none: secrets come from the node's variables)",
        "A directory of secrets, each a file named like the secret. A file wins over a variable",
    )
    run_as: str | None = TEXT(
        "(the node's own user)",
        "The user that the node's tasks run as, by name or number; the node itself must be root's then",
    )
    container_socket: str | None = SOCKET(
        "(DOCKER_HOST, else Podman's or Docker's usual socket)",
        "The socket of the container engine for `container` tasks: a path, `unix://PATH` or `tcp://HOST:PORT`",
    )
    agent_command: tuple[str, ...] = COMMAND(
        "claude",
        "The program of `agent` tasks without a `command`, with arguments that precede Weft's own, e.g. `claude"
        " --permission-mode acceptEdits`",
    )
    http_allow: tuple[str, ...] = REACHABLE(
        "(what is public; for `weft run FILE` everything)",
        "What `http` tasks may reach, and nothing else: hosts (`api.example.com`, `*.example.com`), addresses and"
        " networks (`10.1.0.0/16`), or `public` for all that is public",
    )
    cloud_run_endpoint: str = SERVER(
        "https://run.googleapis.com",
        "The address of the Cloud Run Admin API for `cloud_run` tasks; the same on all nodes",
    )
    cloud_run_token_file: Path | None = PATH(
        "(none: google-auth finds credentials)",
        "A file with an access token for that API; it is read again when it has changed",
    )
    public_url: str | None = SERVER("(none)", "Where people reach `weft serve`: for the links in notifications")
    smtp_host: str | None = TEXT("(none: no e-mail)", "The server that e-mail of `notify` goes to")
    smtp_port: int = PORT("587", "The port of that server")
    smtp_user: str | None = TEXT("(none: no login)", "The user that Weft logs in as there")
    smtp_password: str | None = TEXT("(none)", "The name of the secret that holds that user's password")
    smtp_from: str | None = TEXT("(none)", "The address that e-mail is from")
    smtp_starttls: str = CHOICE("always", "Whether STARTTLS encrypts the connection", ("always", "never"))
    store_wait: float = DURATION("30s", "How long commands wait for PostgreSQL that does not answer (yet)")
    lease_ttl: float = DURATION("30s", "How long a node's lease lasts without renewal")
    renew_every: float = DURATION("5s", "How often a lease is renewed; at most a third of lease_ttl")
    poll: float = DURATION("1s", "How often a node looks for work that no wake-up told it of")
    drain: float = DURATION("10s", "How long running tasks may go on after the first ^C")
    role: str = CHOICE(
        "auto",
        "auto works and may lead, leader insists on it, worker never leads, observer looks on and changes nothing",
        ("auto", "leader", "worker", "observer"),
    )
    leader_ttl: float = DURATION("30s", "How long the leader's term lasts without renewal")
    leader_renew: float = DURATION("10s", "How often a term is renewed; at most a third of leader_ttl")
    keep: float | None = DURATION("(for ever)", "The leader removes runs that ended longer ago than this")
    on_failure: str | None = CHOICE(
        "(halt)",
        "What a failed task does to the others, for definitions that do not state `on_failure`",
        ("halt", "halt_now", "continue"),
    )
    task_timeout: float | None = DURATION(
        "(none)",
        "How long an attempt may take, for definitions that do not state `defaults.timeout`, and tasks without one",
    )
    host: str = TEXT("127.0.0.1", "The address that `weft serve` listens on; every request needs a token")
    port: int = PORT("8700", "The port that `weft serve` listens on; 0 takes any that is free")
    grpc: int | None = PORT("(none: no gRPC)", "The port on which `weft serve` answers gRPC, too; 0 takes any")
    allow_hosts: tuple[str, ...] = WORDS(
        "", "Names that `weft serve` may be called by, besides addresses, localhost and the machine's own name"
    )
    root_path: str = ROOT_PATH(
        "",
        "What stands before the paths of `weft serve` at a proxy, e.g. `/weft`, whether the proxy removes it or not",
    )
    tls_cert: Path | None = PATH(
        "(none: no TLS)", "The certificate of `weft serve`, followed by those that signed it"
    )
    tls_key: Path | None = PATH("(in the same file)", "The key of that certificate")
    trusted_proxies: tuple[str, ...] = NETWORKS(
        "", "Proxies, e.g. `10.1.0.0/16`, whose X-Forwarded-For says who asks"
    )
    body_max: int = SIZE("32MiB", "Bytes that a request to `weft serve` may have")
    log: str | None = CHOICE(
        "(info for worker, else warning)",
        "The least important messages that are still shown",
        ("error", "warning", "info", "debug"),
    )
    log_format: str = CHOICE("console", "How messages look", ("console", "json"))
    color: str = CHOICE("auto", "Colours: when it is a terminal, or not", ("auto", "always", "never"))
    sources: dict[str, str] = {}  # noqa: RUF012 - where each came from

    def resources(self) -> dict[str, Any]:
        """What a node has for its tasks; None is found out when it starts."""
        return {
            "capabilities": self.capabilities, "memory": self.memory, "disk": self.disk, "cpus": self.cpus,
            "gpus": self.gpus, "gpu_memory": self.gpu_memory,
        }  # fmt: skip

    @property
    def definition_defaults(self) -> SiteDefaults:
        """For definitions that state neither."""
        timeout_ms = None if self.task_timeout is None else max(1, round(self.task_timeout * 1000))
        return SiteDefaults(self.on_failure, timeout_ms)

    def described(self) -> dict[str, Any]:
        """For the log, plain values only."""
        fields = self._asdict()
        del fields["sources"]
        if isinstance(self.store, StoreUrl):
            fields["store"] = self.store.shown
        return {name: str(value) if isinstance(value, Path) else value for name, value in fields.items()}


SETTINGS = tuple(setting._replace(name=name) for name, setting in Config._field_defaults.items() if setting)
BY_NAME = {setting.name: setting for setting in SETTINGS}


def load(
    environ: Mapping[str, str], directory: Path, flags: Mapping[str, Any] | None = None, *, idle: bool = False
) -> Config:
    """`flags` are values of the command line, by setting; None means not given. `idle`: a node without slots is fine,
    whatever its role, because the process has something else to do."""
    values: dict[str, Any] = {}
    sources: dict[str, str] = {}
    path = find_upward(directory, FILE_NAME)
    given = {} if path is None else _read_file(path)
    for setting in SETTINGS:
        place, value, source, base = None, None, "default", directory
        flag = (flags or {}).get(setting.name)
        text = environ.get(setting.variable, "")
        if flag is not None:
            place, value, source = f"--{setting.name.replace('_', '-')}", flag, "flag"
        elif text:
            place, value, source = setting.variable, text, "variable"
        elif setting.name in given:
            assert path is not None
            place, value, source, base = f"{path}: {setting.name}", given[setting.name], str(path), path.parent
        if place is not None:
            values[setting.name] = _read(setting, place, value, base)
        else:
            values[setting.name] = _default(setting)
        sources[setting.name] = source
    if values["role"] == "observer":
        values["slots"] = 0  # so that nobody counts on it, be it `why`, a submission or placement
    config = Config(**values, sources=sources)
    for often, whole in (("renew_every", "lease_ttl"), ("leader_renew", "leader_ttl")):
        if values[often] * 3 > values[whole]:
            raise BadSetting(
                f"{often} ({values[often]:g} s) must be at most a third of {whole} ({values[whole]:g} s)"
            )
    if config.slots == 0 and config.role not in ("leader", "observer") and not idle:
        place = "--slots" if sources["slots"] == "flag" else "slots"
        raise BadSetting(f"{place}: 0 is for nodes that only lead or look on (role leader or observer)")
    return config


def store_from(place: str, value: str, directory: Path) -> Path | StoreUrl:
    """A store that is named in another way than by the setting; `place` says where."""
    found: Path | StoreUrl = _read(BY_NAME["store"], place, value, directory)
    return found


def find_upward(directory: Path, name: str, *, directories: bool = False) -> Path | None:
    """The nearest file of that name (or directory), here or above."""
    directory = directory.absolute()
    for place in (directory, *directory.parents):
        try:
            if (place / name).is_dir() if directories else (place / name).is_file():
                return place / name
        except OSError:
            continue  # a directory that may not be looked into holds nothing of ours
    return None


def _read_file(path: Path) -> dict[str, Any]:
    import tomllib  # most directories have no such file

    try:
        with path.open("rb") as file:
            given = tomllib.load(file)
    except OSError as error:
        raise BadSetting(f"{path} cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadSetting(f"{path} is not TOML: {error}") from None
    for key in given:
        if key not in BY_NAME:
            meant = nearest(key, BY_NAME)
            fix = f"did you mean {meant!r}?" if meant else f"known settings: {', '.join(BY_NAME)}"
            raise BadSetting(f"{path}: there is no setting {key!r}; {fix}")
    return given


def _default(setting: Setting) -> Any:
    if setting.name == "slots":
        return 4 * (os.cpu_count() or 1)
    if setting.name == "python_runners":
        return os.cpu_count() or 1
    if setting.name == "labels":
        return {}
    if setting.kind in ("words", "networks", "reachable"):
        return ()
    if setting.kind == "command":
        return (setting.default,)
    if setting.default.startswith("("):
        return None
    return _read(setting, setting.name, setting.default, Path())


def _read(setting: Setting, place: str, value: Any, base: Path) -> Any:
    try:
        found = _READERS[setting.kind](setting, value, base)
        if isinstance(value, str) and not encodes(value):
            raise ValueError("expected UTF-8")
        return found
    except (NotReadable, ValueError) as error:
        fix = f"; {error.fix}" if isinstance(error, NotReadable) and error.fix else ""
        raise BadSetting(f"{place}: {error}, found {_printable(value)}{fix}") from None


def _printable(value: Any) -> str:
    """An address may hold a password."""
    text = repr(value)
    return text if "@" not in text else f"…@{text.rpartition('@')[2]}"


def _path(setting: Setting, value: Any, base: Path) -> Path:
    if not isinstance(value, (str, Path)) or "\0" in str(value):
        raise ValueError("expected a path")
    try:
        path = Path(os.path.abspath(base / Path(value).expanduser()))
    except RuntimeError:
        raise ValueError("expected a path; there is no such home directory") from None
    if not encodes(str(path)):
        raise ValueError("expected a path in UTF-8")
    return path


def _store(setting: Setting, value: Any, base: Path) -> Path | StoreUrl:
    if isinstance(value, str) and (url := store_url(value)) is not None:
        return url
    if isinstance(value, str) and value.startswith("sqlite://"):  # as SQLAlchemy writes it: sqlite:///relative/path
        value = value.removeprefix("sqlite://").removeprefix("/")
    if isinstance(value, str) and "://" in value:
        raise ValueError("expected a path, sqlite:///path, postgresql://… or etcd://…")
    return _path(setting, value, base)


def server_url(text: str) -> str:
    """An address without a slash at its end, or ValueError."""
    try:
        parts = urlsplit(text)
        fine = parts.port is None or parts.port > 0
    except ValueError:
        parts, fine = urlsplit(""), False
    if parts.scheme not in ("http", "https") or not parts.hostname or not fine or not text.isprintable():
        raise ValueError("expected an address such as http://127.0.0.1:8700")
    if parts.username is not None or parts.query or parts.fragment:
        raise ValueError("expected an address without a user, a query or a fragment (a token goes into WEFT_TOKEN)")
    return text.rstrip("/")


def _server(setting: Setting, value: Any, base: Path) -> str:
    return server_url(str(value))


def _count(setting: Setting, value: Any, base: Path) -> int:
    return _whole(value, "a whole number", 0 if setting.name == "slots" else 1, 100_000)


def _number(setting: Setting, value: Any, base: Path) -> int:
    return _whole(value, "a whole number", 0, 1024)


def _amount(setting: Setting, value: Any, base: Path) -> float:
    """A number with a fraction, as far as it is counted: in thousandths."""
    digits = value if isinstance(value, str) else "" if isinstance(value, bool) else str(value)
    if re.fullmatch(r"[0-9]{1,4}(\.[0-9]{1,3})?", digits, re.ASCII) is None or not 0 < float(digits) <= 4096:
        raise ValueError("expected a number from 0.001 to 4096")
    return float(digits)


def _port(setting: Setting, value: Any, base: Path) -> int:
    return _whole(value, "a port", 0, 65535)


def _whole(value: Any, what: str, low: int, high: int) -> int:
    digits = value if isinstance(value, str) else "" if isinstance(value, bool) else str(value)
    if not (digits.isascii() and digits.isdecimal() and len(digits) <= 9 and low <= int(digits) <= high):
        raise ValueError(f"expected {what} from {low} to {high}")
    return int(digits)


def _words(setting: Setting, value: Any, base: Path) -> tuple[str, ...]:
    words = value.split(",") if isinstance(value, str) else value
    if not isinstance(words, (list, tuple)) or not all(isinstance(word, str) for word in words):
        raise ValueError("expected words such as docker,cuda")
    _check_printable(setting, words)
    return tuple(dict.fromkeys(word.strip() for word in words if word.strip()))


def _command(setting: Setting, value: Any, base: Path) -> tuple[str, ...]:
    words = value
    if isinstance(value, str):
        import shlex  # takes a millisecond, and few commands need it

        try:
            words = shlex.split(value)
        except ValueError:
            words = None
    if not isinstance(words, (list, tuple)) or not words or not all(isinstance(word, str) for word in words):
        raise ValueError("expected a command such as claude --permission-mode acceptEdits")
    _check_printable(setting, words)
    return tuple(words)


def _check_printable(setting: Setting, words: Iterable[str]) -> None:
    """Bytes that are not UTF-8 come as lone surrogates, which no JSON can hold: other nodes could not read them."""
    for word in words:
        if not word.isprintable():
            raise ValueError(f"expected {setting.name} of printable characters in UTF-8")


def _networks(setting: Setting, value: Any, base: Path) -> tuple[str, ...]:
    words = _words(setting, value, base)
    for word in words:
        try:
            ipaddress.ip_network(word)
        except ValueError:
            raise ValueError("expected addresses or networks such as 10.0.0.5,10.1.0.0/16") from None
    return words


def _reachable(setting: Setting, value: Any, base: Path) -> tuple[str, ...]:
    words = _words(setting, value, base)
    for word in words:
        try:
            ipaddress.ip_network(word)
        except ValueError:
            if "/" in word or re.fullmatch(r"(\*\.)?[A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9_])?", word) is None:
                raise ValueError("expected hosts and networks such as *.example.com,10.1.0.0/16") from None
    return words


def _root_path(setting: Setting, value: Any, base: Path) -> str:
    text = value.rstrip("/") if isinstance(value, str) else None
    if text is None or re.fullmatch(r"(/[A-Za-z0-9._~-]+)*", text) is None:
        raise ValueError("expected a path such as /weft")
    return text


def _text(setting: Setting, value: Any, base: Path) -> str:
    if not isinstance(value, str) or not value.isprintable() or len(value) > 64:
        raise ValueError("expected a text of at most 64 characters")
    return value


def _duration(setting: Setting, value: Any, base: Path) -> float:
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise ValueError("expected a duration such as 500ms or 5s")
    seconds = parse_duration_ms(value) / 1000
    if seconds <= 0 and setting.name not in ("drain", "store_wait"):
        raise ValueError("a duration above zero is needed")
    return seconds


def _size(setting: Setting, value: Any, base: Path) -> int:
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        raise ValueError("expected a size such as 64MiB")
    size = parse_size_bytes(value)
    if size < 4096 and setting.name in ("output_max", "output_rate"):
        raise ValueError("at least 4KiB are needed")
    return size


def _choice(setting: Setting, value: Any, base: Path) -> str:
    if value not in setting.choices:
        raise ValueError(f"expected one of {', '.join(setting.choices)}")
    return str(value)


def _labels(setting: Setting, value: Any, base: Path) -> dict[str, str]:
    if isinstance(value, dict):
        labels = {str(name): str(text) for name, text in value.items()}
        _check_printable(setting, labels)
        _check_printable(setting, labels.values())
        return labels
    words = value.split(",") if isinstance(value, str) else value
    if not isinstance(words, (list, tuple)) or not all(isinstance(word, str) for word in words):
        raise ValueError("expected labels such as gpu,zone=eu")
    _check_printable(setting, words)
    labels = {}
    for word in words:
        name, _, text = word.strip().partition("=")
        if not name and (text or "=" in word):
            raise ValueError("a label needs a name")
        if name:
            labels[name] = text
    return labels


def _socket(setting: Setting, value: Any, base: Path) -> str:
    """A path, relative to the place where it is written; or an address with its scheme."""
    if isinstance(value, str) and "://" in value:
        if not value.startswith(("unix://", "tcp://")):
            raise ValueError("expected a path, unix://PATH or tcp://HOST:PORT")
        return value
    return str(_path(setting, value, base))


_READERS: dict[str, Callable[[Setting, Any, Path], Any]] = {
    "store": _store, "path": _path, "count": _count, "text": _text, "duration": _duration, "size": _size,
    "server": _server, "choice": _choice, "labels": _labels, "words": _words, "number": _number, "amount": _amount,
    "port": _port,
    "command": _command, "networks": _networks, "reachable": _reachable, "root_path": _root_path, "socket": _socket,
}  # fmt: skip
