"""docs/reference/python.md, made from the signatures and docstrings of what `import weft` exports."""

import ast
import importlib
import inspect
import re
import textwrap
from collections.abc import Iterator

import weft
from weft import plugins
from weft.sdk import options

_HEAD = """# Python

<!-- Made by make docs from src/weft/sdk and src/weft/executors/python_functions. -->

All names of `import weft`, and of `weft.plugins` at the end. How they are used together:
[workflows in Python](../guides/python-sdk.md), and [Python functions as tasks](../guides/python.md).
In signatures `P` and `Q` stand for the parameters of a function that is a flow or a task, `R` for its result.
"""

SECTIONS = {
    "Flows and tasks": ["flow", "Flow", "task", "Task", "shell", "wait"],
    "Runs": ["open", "Weft", "Client"],
    "Inside a task": ["current", "CurrentAttempt", "variables", "context_update", "once", "fake_attempt"],
    "Errors": [
        "DefinitionErrors", "FlowError", "RunFailed", "TaskFailure", "Closed", "Stopped", "OutcomeUnknown",
        "AttemptOver",
    ],
}  # fmt: skip
OPTIONS = {
    "TaskOptions": "Options of tasks",
    "WaitOptions": "Options of waits",
    "FlowOptions": "Options of flows",
}
#: Classes that people call themselves; the others are made by functions and decorators.
CONSTRUCTED = ("Client", "AttemptFailed")
WIDTH_MAX = 100
#: What authors of plugins import from weft.plugins, besides the protocol's own types.
PLUGINS = ["AsyncExecutor", "AsyncAttempt", "AttemptFailed", "PolledExecutor", "RemoteState"]
_PLUGINS_TEXT = """\
Names of `weft.plugins`: [types of tasks of your own](../guides/plugins.md). `Executor`, `CheckedExecutor`,
`RemoteExecutor`, `Launch`, `Outcome`, `Handle` and `Usage` are there, too; `src/weft/executors/protocol.py` explains
them.
"""
Function = ast.FunctionDef | ast.AsyncFunctionDef
_OPTIONS_ARGUMENT = re.compile(r"\*\*options: Unpack\[(\w+)\]")


def python_reference() -> str:
    missing = set(weft._HOMES) ^ {name for names in SECTIONS.values() for name in names}
    assert not missing, f"list them in SECTIONS, or export them: {sorted(missing)}"
    lines = [_HEAD]
    for title, names in SECTIONS.items():
        lines += [f"## {title}", ""]
        for name in names:
            lines += _entry(name)
        if title == "Flows and tasks":
            for kind, heading in OPTIONS.items():
                lines += _options(kind, heading)
    lines += ["## Plugins", "", _PLUGINS_TEXT]
    for name in PLUGINS:
        home = getattr(plugins, name).__module__
        module = _Module(home, "weft.plugins")
        node = module.definition(name)
        assert isinstance(node, ast.ClassDef)
        lines += [f"### {name}", "", *module.class_lines(node)]
    return "\n".join(lines).rstrip("\n") + "\n"


def _entry(name: str) -> Iterator[str]:
    module = _Module(weft._HOMES[name])
    node = module.definition(name)
    yield from (f"### {name}", "")
    if isinstance(node, ast.ClassDef):
        yield from module.class_lines(node)
    else:
        yield from _signature(f"weft.{name}", node)
        yield from _text(node)


class _Module:
    """The source of a module: annotations are shown as the author wrote them, which inspect does not keep."""

    def __init__(self, name: str, public: str = "weft") -> None:
        self._public = public
        self.lines = inspect.getsource(importlib.import_module(name)).splitlines()
        self.tree = ast.parse("\n".join(self.lines))

    def definition(self, name: str) -> ast.ClassDef | ast.FunctionDef:
        """The last one of the name: overloads stand before it."""
        kinds = (ast.ClassDef, ast.FunctionDef)
        return [node for node in self.tree.body if isinstance(node, kinds) and node.name == name][-1]

    def class_lines(self, node: ast.ClassDef) -> Iterator[str]:
        bases = [
            text for text in map(ast.unparse, node.bases) if not text.startswith(("Generic", "PythonDefinition"))
        ]
        if node.name in CONSTRUCTED:
            yield from _signature(f"{self._public}.{node.name}", _method(node, "__init__"))
        else:
            yield from (
                "```python",
                f"class {self._public}.{node.name}" + (f"({', '.join(bases)})" if bases else ""),
                "```",
                "",
            )
        yield from _text(node)
        fields = list(self.fields(node))
        if fields:
            yield from ("| attribute | type | |", "| --- | --- | --- |")
            yield from (f"| `{name}` | `{kind}` | {about} |" for name, kind, about in fields)
            yield ""
        for method in _methods(node):
            yield from self.method_lines(node, method)

    def method_lines(self, node: ast.ClassDef, method: Function) -> Iterator[str]:
        assert ast.get_docstring(method), f"{node.name}.{method.name} has no docstring"
        if any(ast.unparse(decorator) == "property" for decorator in method.decorator_list):
            yield from (f"#### {node.name}.{method.name}", "")
            yield from ("```python", f"{method.name}: {_unquoted(method.returns)}", "```", "")
        elif method.name == "__call__":
            yield from (f"#### Calling a {node.name}", "")
            yield from _signature(node.name.lower(), method)
        else:
            yield from (f"#### {node.name}.{method.name}", "")
            is_async = isinstance(method, ast.AsyncFunctionDef)
            yield from _signature(("async " if is_async else "") + method.name, method)
        yield from _text(method)

    def fields(self, node: ast.ClassDef) -> Iterator[tuple[str, str, str]]:
        """(name, type, comment) of annotations in the body of a class."""
        for part in node.body:
            if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name) and part.target.id[0] != "_":
                comment = self.lines[(part.end_lineno or part.lineno) - 1].partition("  # ")[2]
                yield part.target.id, _unquoted(part.annotation).replace("|", "\\|"), comment.replace("|", "\\|")


def _methods(node: ast.ClassDef) -> Iterator[Function]:
    """Public ones, without overloads, in the order of the source."""
    for part in node.body:
        if not isinstance(part, Function) or (part.name[0] == "_" and part.name != "__call__"):
            continue
        if not any(ast.unparse(decorator) == "overload" for decorator in part.decorator_list):
            yield part


def _method(node: ast.ClassDef, name: str) -> ast.FunctionDef:
    return next(part for part in node.body if isinstance(part, ast.FunctionDef) and part.name == name)


def _signature(name: str, node: Function) -> Iterator[str]:
    parts = [part for part in _parameters(node.args) if part.split(":")[0] != "self"]
    yields = any(ast.unparse(decorator) == "contextmanager" for decorator in node.decorator_list)
    constructed = node.name == "__init__"
    result = "" if node.returns is None or yields or constructed else f" -> {_unquoted(node.returns)}"
    text = f"{name}({', '.join(parts)}){result}"
    if len(text) > WIDTH_MAX:
        text = "\n".join([f"{name}(", *(f"    {part}," for part in parts), f"){result}"])
    if yields:
        text = f"with {text} as attempt: ..."
    yield from ("```python", text, "```", "")
    for kind in _OPTIONS_ARGUMENT.findall(text):
        yield from (f"`**options`: see [{OPTIONS[kind].lower()}](#{OPTIONS[kind].lower().replace(' ', '-')}).", "")


def _parameters(arguments: ast.arguments) -> Iterator[str]:
    positional = [*arguments.posonlyargs, *arguments.args]
    defaults = [None] * (len(positional) - len(arguments.defaults)) + list(arguments.defaults)
    for at, (argument, default) in enumerate(zip(positional, defaults, strict=True)):
        yield _parameter(argument, default)
        if arguments.posonlyargs and at == len(arguments.posonlyargs) - 1:
            yield "/"
    if arguments.vararg is not None:
        yield f"*{_parameter(arguments.vararg, None)}"
    elif arguments.kwonlyargs:
        yield "*"
    for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        yield _parameter(argument, default)
    if arguments.kwarg is not None:
        yield f"**{_parameter(arguments.kwarg, None)}"


def _parameter(argument: ast.arg, default: ast.expr | None) -> str:
    text = argument.arg + (f": {_unquoted(argument.annotation)}" if argument.annotation is not None else "")
    if default is None:
        return text
    return f"{text} = {ast.unparse(default)}" if argument.annotation is not None else f"{text}={ast.unparse(default)}"


def _unquoted(annotation: ast.expr | None) -> str:
    """Annotations that are texts, because their names are imported for type checkers only, look like the others."""
    if annotation is None:
        return "None"
    text = ast.unparse(annotation)
    return text if "Literal" in text else text.replace("'", "")


def _text(node: ast.ClassDef | Function) -> Iterator[str]:
    """A docstring as Markdown: examples and indented lines become code."""
    for paragraph in (ast.get_docstring(node) or "").split("\n\n"):
        example = paragraph.startswith((">>> ", "    "))
        yield from (("```python", textwrap.dedent(paragraph), "```", "") if example else (paragraph, ""))


def _options(kind: str, heading: str) -> Iterator[str]:
    module = _Module(options.__name__)
    node = module.definition(kind)
    assert isinstance(node, ast.ClassDef)
    yield from (f"### {heading}", "", ast.get_docstring(node) or "", "")
    yield from ("| option | type | |", "| --- | --- | --- |")
    for name, type_, about in module.fields(node):
        assert about, f"{kind}.{name} has no comment"
        yield f"| `{name}` | `{type_}` | {about} |"
    yield ""
