"""The packages of executors/: which may import which, and what a spawner and a runner load before they are ready."""

import subprocess
import sys

from tests.architecture.source import SRC, imports, modules

#: From the top down. Modules directly in executors/ are shared by all packages, except those of ABOVE.
PACKAGES = [
    "agent", "kubernetes", "cloud_run", "http_call", "python_runner", "python", "container", "remote", "shell",
    "spawner", "python_functions",
]  # fmt: skip
ABOVE = {"inline.py"}
#: Upward all the same, each for a reason.
UPWARD = {
    ("python_functions", "weft.executors.python_runner.output_streams"): "for type checkers only",
}
#: Modules that take longer to import than a spawner takes to start, or nearly so.
HEAVY = ["msgspec", "asyncio", "socket", "subprocess", "json", "inspect", "dataclasses", "logging"]


def test_executor_packages_import_downward() -> None:
    wrong = []
    for module in modules("executors"):
        parts = module.path.relative_to(SRC / "executors").parts
        level = PACKAGES.index(parts[0]) if len(parts) > 1 else len(PACKAGES)
        for line, name in imports(module):
            target = name.removeprefix("weft.executors.").split(".")[0]
            if not name.startswith("weft.executors.") or target not in PACKAGES or parts[0] in ABOVE:
                continue
            if PACKAGES.index(target) < level and (parts[0], name) not in UPWARD:
                wrong.append(f"{module.name}:{line} imports {name}")
    assert not wrong, "\n".join(wrong)


def test_the_spawner_loads_little() -> None:
    names = ("weft", "weft.executors", "weft.executors.spawner")
    paths = (str(SRC), str(SRC / "executors"), str(SRC / "executors" / "spawner"))
    code = (
        "import sys\n"
        f"for name, path in zip({names!r}, {paths!r}, strict=True):\n"
        "    sys.modules[name] = type(sys)(name)\n"
        "    sys.modules[name].__path__ = [path]\n"
        "import weft.executors.spawner.loop\n"
    )
    assert _loaded(code) == []


def test_a_runner_loads_little() -> None:
    code = f"import sys; sys.path.insert(0, {str(SRC.parent)!r}); import weft.executors.python_runner.runner\n"
    assert _loaded(code) == []


def _loaded(code: str) -> list[str]:
    code += f"print(*[name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.split()
