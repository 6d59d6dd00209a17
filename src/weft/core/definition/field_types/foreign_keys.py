"""Keys that other tools have where Weft has another one: such an unknown key is answered with "in Weft this is …".

One table for each record of a definition, in which a line has the words of all tools for one thing. Words are
compared without case, `-` and `_`: `depends_on`, `depends-on` and `dependsOn` are one. A word that is a key of the
record itself never gets here, and a line whose own key the record lacks (a task in the long form has no `run`) is
passed over.
"""

import json
import re
from collections.abc import Callable, Collection
from typing import Any, Final, NamedTuple

VALUE_MAX: Final = 60
#: Texts that need no quotes in YAML, as the whole value of a key and within a list.
_PLAIN: Final = re.compile(r"[A-Za-z_./]([^\x00-\x1f:#]|:(?! )|(?<! )#)*(?<![ :])")
_PLAIN_IN_LIST: Final = re.compile(r"[A-Za-z_./][A-Za-z0-9_./ -]*(?<! )")


class ForeignKey(NamedTuple):
    """`key` is Weft's own key, `""` where Weft has none. `form` has `{}` for the author's value, which `convert`
    makes; where that has no answer (None), `example` takes its place."""

    key: str
    form: str
    example: str = "…"
    convert: Callable[[Any], str | None] = lambda value: _shown(value)


def foreign_fix(record: str, known: Collection[str], key: str, value: Any) -> str | None:
    """How Weft writes what another tool's key means; None if no tool's key is known by that name."""
    found = _find(record, known, key)
    if found is None:
        return None
    shown = found.convert(value)
    return found.form.replace("{}", found.example if shown is None else shown)


def means_one_of(record: str, known: Collection[str], key: str, expected: Collection[str]) -> bool:
    """Whether a foreign key stands for one of the expected keys: the lack of those needs no message of its own."""
    found = _find(record, known, key)
    return found is not None and found.key in expected


def _find(record: str, known: Collection[str], key: str) -> ForeignKey | None:
    found = FOREIGN_KEYS.get(record, {}).get(_folded(key))
    return found if found is not None and (not found.key or found.key in known) else None


def _folded(word: str) -> str:
    return word.lower().replace("-", "").replace("_", "")


def _shown(value: Any) -> str | None:
    """A scalar, or a list of them, as YAML has it; None for what is too long or nested to repeat."""
    if isinstance(value, (list, tuple)):
        items = [_scalar(item, _PLAIN_IN_LIST) for item in value]
        text = None if None in items else f"[{', '.join(item for item in items if item is not None)}]"
    else:
        text = _scalar(value, _PLAIN)
    return text if text is not None and 0 < len(text) <= VALUE_MAX else None


def _scalar(value: Any, plain: re.Pattern[str]) -> str | None:
    if isinstance(value, str):
        return value if plain.fullmatch(value) else json.dumps(value, ensure_ascii=False)
    return json.dumps(value) if isinstance(value, (bool, int, float)) else None


def _script(value: Any) -> str | None:
    """A list of commands is one text for the shell."""
    listed = isinstance(value, (list, tuple)) and all(isinstance(item, str) for item in value)
    return _shown(" && ".join(value) if listed else value)


def _command(value: Any) -> str | None:
    """A list is a program with its arguments, as in Compose and Kubernetes."""
    shown = _shown(value)
    return None if shown is None else f"{'argv' if isinstance(value, (list, tuple)) else 'run'}: {shown}"


def _names(value: Any) -> str | None:
    """Compose has a mapping of names to conditions, Argo a text `a && b`."""
    if isinstance(value, dict):
        return _shown(list(value))
    return _shown(re.split(r"\s*&&\s*", value)) if isinstance(value, str) and "&&" in value else _shown(value)


def _matrix(value: Any) -> str | None:
    """GitHub's `strategy: {matrix: {os: [a, b]}}`."""
    matrix = value.get("matrix") if isinstance(value, dict) else None
    axes = {name: _shown(items) for name, items in matrix.items()} if isinstance(matrix, dict) else {}
    text = f"{{{', '.join(f'{name}: {items}' for name, items in axes.items())}}}"
    return text if axes and None not in axes.values() and len(text) <= VALUE_MAX else None


def _unit(unit: str) -> Callable[[Any], str | None]:
    def convert(value: Any) -> str | None:
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        return f"{value:g}{unit}" if number and 0 < value < 1e9 else None

    return convert


def _seconds(value: Any) -> str | None:
    """A bare number counts seconds wherever these words come from; a text such as 10m is one of Weft's, too."""
    if isinstance(value, str):
        return value if re.fullmatch(r"[0-9][0-9a-z.]{0,19}", value) else None
    return _unit("s")(value)


def _trigger_rule(value: Any) -> str | None:
    """Airflow's words for how the needed tasks must end."""
    return {
        "all_success": "all_success", "all_done": "always", "always": "always", "dummy": "always",
        "one_failed": "on_failure", "all_failed": "on_failure", "one_success": "any_success",
        "none_failed": "none_failed", "none_failed_min_one_success": "none_failed",
    }.get(value if isinstance(value, str) else "")  # fmt: skip


def _cron(value: Any) -> str | None:
    """`schedule: "0 3 * * *"`, or a list of one, or Airflow's names."""
    if isinstance(value, (list, tuple)) and len(value) == 1:
        value = value[0]
    if isinstance(value, dict) and len(value) == 1:
        value = next(iter(value.values()))
    if not isinstance(value, str):
        return None
    named = {"@hourly": "0 * * * *", "@daily": "0 0 * * *", "@weekly": "0 0 * * 0", "@monthly": "0 0 1 * *"}
    text = named.get(value, value)
    return json.dumps(text) if len(text.split()) == 5 and len(text) <= VALUE_MAX else None


def _on(value: Any) -> str | None:
    """GitHub's `on: {schedule: [{cron: …}]}`."""
    schedule = value.get("schedule") if isinstance(value, dict) else None
    return _cron(schedule)


def _nothing(value: Any) -> None:
    return None


def _table(*lines: tuple[str, ForeignKey]) -> dict[str, ForeignKey]:
    return {_folded(word): meant for words, meant in lines for word in words.split()}


_HERE: Final = "in Weft this is "
_ABSENT: Final = "Weft has no such key: "
_TRIGGER: Final = _HERE + "`triggers: [{cron: {}}]`, which `weft apply` activates"
_INPUTS: Final = _HERE + "`inputs: {name: {default: value}}`, read as ${{ inputs.name }}"
_PART: Final = (
    "in Weft a task runs one command: make each of them a task of its own, with `needs`, or `run: |` with lines"
)

_OPTIONS: Final = (
    (
        "environment variables vars envs env_vars envVars",
        ForeignKey("env", _HERE + "`env: {NAME: value}`", convert=_nothing),
    ),
    (
        "working_directory working_dir workdir work_dir dir directory chdir",
        ForeignKey("cwd", _HERE + "`cwd: {}`", "path"),
    ),
    (
        "retries retry_count max_retries retryCount num_retries retry_limit",
        ForeignKey("retry", _HERE + "`retry: {}`", "3"),
    ),
    ("retry_strategy retry_policy", ForeignKey("retry", _HERE + "`retry: {max: 3, backoff: 1s}`", convert=_nothing)),
    (
        "retry_delay retry_delay_seconds retry_interval retry_interval_sec",
        ForeignKey("retry", _HERE + "`retry: {max: 3, backoff: {}}`", "10s", _seconds),
    ),
    ("timeout_minutes", ForeignKey("timeout", _HERE + "`timeout: {}`", "10m", _unit("m"))),
    (
        "timeout_sec timeout_secs timeout_seconds timeout_in_seconds execution_timeout active_deadline_seconds",
        ForeignKey("timeout", _HERE + "`timeout: {}`", "30s", _seconds),
    ),
    ("timeout_ms timeout_millis", ForeignKey("timeout", _HERE + "`timeout: {}`", "500ms", _unit("ms"))),
    (
        "continue_on_error continue_on_failure ignore_error ignore_errors continue_on ignore_failure",
        ForeignKey("allow_failure", _HERE + "`allow_failure: {}`", "true"),
    ),
    ("priority_weight", ForeignKey("priority", _HERE + "`priority: {}`, from 0 to 10", "5")),
    ("image", ForeignKey("container", _HERE + "`container: {image: {}}`", "name")),
)

FOREIGN_KEYS: Final[dict[str, dict[str, ForeignKey]]] = {
    "a task": _table(
        *_OPTIONS,
        (
            "depends_on depends dependencies depend upstream upstream_task_ids deps after requires_tasks",
            ForeignKey("needs", _HERE + "`needs: {}`", "[task]", _names),
        ),
        (
            "downstream before required_by",
            ForeignKey("needs", "in Weft the later task names the earlier one: `needs: [this task]` there"),
        ),
        (
            "command cmd exec execute",
            ForeignKey(
                "run", _HERE + "`{}`", "run: <command>`, or without a shell `argv: [program, argument]", _command
            ),
        ),
        (
            "script commands cmds bash_command bash shell_command",
            ForeignKey("run", _HERE + "`run: {}`", "<command>", _script),
        ),
        ("args arguments", ForeignKey("argv", _HERE + "`argv: [program, argument]`, or part of `run`")),
        ("steps stages jobs tasks", ForeignKey("run", _PART)),
        (
            "before_script after_script pre_script post_script pre post defer",
            ForeignKey(
                "run",
                "in Weft this is part of `run`, or a task of its own; `when: always` for what must run at the end",
            ),
        ),
        (
            "uses template extends call task include action",
            ForeignKey(
                "workflow", _HERE + "`workflow: ./file.yaml` or the name of an applied one, with its inputs in `with`"
            ),
        ),
        (
            "python_callable callable function entry_point",
            ForeignKey("python", _HERE + "`python: module:function`", convert=_nothing),
        ),
        (
            "operator executor kind",
            ForeignKey(
                "run", "in Weft one key says what a task does: run, argv, python, http, wait, workflow, container …"
            ),
        ),
        (
            "parameters params inputs op_kwargs kwargs templates_dict",
            ForeignKey("with", _HERE + "`with: {name: value}`", convert=_nothing),
        ),
        (
            "outputs output",
            ForeignKey(
                "run",
                "in Weft a task writes its output as JSON to $WEFT_OUTPUT, and others read ${{ tasks.NAME.output }}",
            ),
        ),
        (
            "budget max_cost cost_limit",
            ForeignKey("agent", "in Weft this is a key of the agent: `agent: {prompt: …, budget: {usd: 1}}`"),
        ),
        ("strategy", ForeignKey("matrix", _HERE + "`matrix: {}`", "{os: [a, b]}", _matrix)),
        (
            "for_each foreach loop with_items with_param with_sequence items range_over for",
            ForeignKey("map", _HERE + "`map: {}`, with `item` in expressions", "[a, b]"),
        ),
        (
            "parallel parallelism replicas_count instances count scale",
            ForeignKey("replicas", _HERE + "`replicas: {}`", "4"),
        ),
        (
            "runs_on tags node_selector labels queue agent_pool",
            ForeignKey("requires", _HERE + "`requires: {labels: {}}`", "[label]"),
        ),
        ("resources", ForeignKey("requires", _HERE + "`requires: {memory: 1GiB, cpus: 2}`", convert=_nothing)),
        ("pool resource_group mutex semaphore synchronization", ForeignKey("pools", _HERE + "`pools: {}`", "[name]")),
        ("trigger_rule run_on", ForeignKey("when", _HERE + "`when: {}`", "always", _trigger_rule)),
        (
            "rules only except precondition preconditions condition_expression unless",
            ForeignKey("if", _HERE + "`if: <condition>`", convert=_nothing),
        ),
        (
            "entrypoint volumes user network_mode ports",
            ForeignKey("container", "in Weft this stands in `container: {image: …}`", convert=_nothing),
        ),
        (
            "task_id step_name display_name title",
            ForeignKey("", "in Weft the name of a task is its key under `tasks`; add `description` for a title"),
        ),
        ("stage", ForeignKey("needs", "Weft has no stages: `needs` says which tasks end first")),
        ("delay sleep start_delay", ForeignKey("wait", _HERE + "a task of its own: `wait: {}`", "10m", _seconds)),
        ("sources generates", ForeignKey("cache", _HERE + "`cache: true`, or `cache: {key: …}`", convert=_nothing)),
        (
            "schedule cron on",
            ForeignKey("", "in Weft a schedule stands at the top: `triggers: [{cron: {}}]`", '"0 3 * * *"', _cron),
        ),
    ),
    "the workflow": _table(
        *_OPTIONS,
        (
            "stages",
            ForeignKey("tasks", "Weft has no stages: tasks stand under `tasks`, and `needs` says which end first"),
        ),
        (
            "jobs steps nodes operations pipeline templates services",
            ForeignKey("tasks", _HERE + "`tasks: {name: command}`", convert=_nothing),
        ),
        (
            "schedule cron schedule_interval schedules timetable crontab",
            ForeignKey("triggers", _TRIGGER, '"0 3 * * *"', _cron),
        ),
        ("on trigger events sensors", ForeignKey("triggers", _TRIGGER, '"0 3 * * *"', _on)),
        ("params parameters arguments args", ForeignKey("inputs", _INPUTS, convert=_nothing)),
        ("secrets", ForeignKey("", "list them in the tasks that need them, or under defaults")),
        (
            "handler_on handlers on_exit on_success on_error finally hooks",
            ForeignKey("tasks", "in Weft a handler is a task with `when: on_failure` or `when: always`"),
        ),
        ("strategy fail_fast", ForeignKey("on_failure", _HERE + "`on_failure: halt`, `halt_now` or `continue`")),
        (
            "parallelism max_active_tasks max_active_steps max_workers concurrency_limit",
            ForeignKey("max_parallel", _HERE + "`max_parallel: {}`", "4"),
        ),
        ("max_active_runs", ForeignKey("triggers", _HERE + "`overlap: skip` or `queue` of a trigger")),
        ("catchup", ForeignKey("triggers", _HERE + "`catch_up: none`, `last` or `all` of a trigger")),
        ("timezone tz", ForeignKey("triggers", _HERE + "`triggers: [{cron: …, timezone: {}}]`", "Europe/Berlin")),
        ("dag_id id workflow title metadata flow_name", ForeignKey("name", _HERE + "`name: {}`", "text")),
        (
            "default default_args",
            ForeignKey("defaults", _HERE + "`defaults: {timeout: 10m, retry: 3}`", convert=_nothing),
        ),
        ("outputs result", ForeignKey("output", _HERE + "`output: ${{ tasks.NAME.output }}`", convert=_nothing)),
        (
            "shell image container retry retries working_directory workdir working_dir",
            ForeignKey("defaults", "in Weft this is an option of tasks: set it in them, or under `defaults`"),
        ),
        (
            "include includes imports",
            ForeignKey("tasks", "in Weft a task runs another file: `workflow: ./file.yaml`"),
        ),
        ("version api_version kind", ForeignKey("", _ABSENT + "remove it")),
        ("permissions", ForeignKey("", _ABSENT + "tokens have roles (weft token create --role)")),
    ),
    "defaults": _table(
        *_OPTIONS,
        ("run", ForeignKey("shell", "`run` belongs in each task; here stand the options that they share")),
    ),
    "retry": _table(
        (
            "attempts max_attempts",
            ForeignKey(
                "max",
                _HERE + "`max: {}`: it counts the retries after the first attempt",
                "2",
                lambda value: str(value - 1) if type(value) is int and value > 0 else None,
            ),
        ),
        ("limit count retries max_retries times", ForeignKey("max", _HERE + "`max: {}`", "3")),
        (
            "delay interval wait initial_interval interval_sec retry_delay duration delay_seconds",
            ForeignKey("backoff", _HERE + "`backoff: {}`", "10s", _seconds),
        ),
        (
            "factor coefficient backoff_coefficient exponential rate",
            ForeignKey("multiplier", _HERE + "`multiplier: {}`", "2"),
        ),
        (
            "max_delay max_interval max_duration cap",
            ForeignKey("max_backoff", _HERE + "`max_backoff: {}`", "5m", _seconds),
        ),
        ("when exit_codes exit_code on_exit_codes retry_on", ForeignKey("on", _HERE + "`on: {}`", "[75, timeout]")),
    ),
    "an input": _table(
        ("options choices values allowed", ForeignKey("enum", _HERE + "`enum: {}`", "[a, b]")),
        ("value", ForeignKey("default", _HERE + "`default: {}`", "value")),
        ("help title", ForeignKey("description", _HERE + "`description: {}`", "text")),
        ("optional", ForeignKey("required", _HERE + "`required: false`, or a `default`", convert=_nothing)),
    ),
    "a trigger": _table(
        ("schedule", ForeignKey("cron", _HERE + "`cron: {}`", '"0 3 * * *"', _cron)),
        ("interval", ForeignKey("every", _HERE + "`every: {}`", "10m", _seconds)),
        ("tz", ForeignKey("timezone", _HERE + "`timezone: {}`", "Europe/Berlin")),
        ("params parameters with", ForeignKey("inputs", _HERE + "`inputs: {name: value}`", convert=_nothing)),
        ("backfill", ForeignKey("catch_up", _HERE + "`catch_up: none`, `last` or `all`")),
        ("suspend disabled", ForeignKey("paused", _HERE + "`paused: {}`", "true")),
        ("concurrency_policy", ForeignKey("overlap", _HERE + "`overlap: skip`, `queue`, `replace` or `allow`")),
    ),
}
