"""Real shells for the tests of shell text, and values that try to become syntax."""

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

from weft.core.expressions import compile_shell

SHELLS = [name for name in ("dash", "bash", "busybox") if shutil.which(name)]
CANARY = "pwned"

#: Prints how many arguments it got, and each of them.
SHOW = 'show() { printf \'%s\\000\' "$#" "$@"; }\n'

NASTY = [
    "", " ", "  two  words ", "*", "-n", "--", "~", "#", "!", "a'b", 'a"b', "'", '"', "\\", "\\\\'", "\n", "\t", "\r",
    "a\nEOF\nb", "EOF", "$HOME", "${HOME}", "$$", "-v", "=", "]", "]]", ")", "}", "}}", "${{ v }}", "%s%n",
    "é😀\u2028", "\x01\x1b[31m", "0", "1", "true", f"$(touch {CANARY})", f"`touch {CANARY}`", f"; touch {CANARY};",
    f"'; touch {CANARY}; '", f'"; touch {CANARY}; "', f"\n touch {CANARY}\n", f"| touch {CANARY}",
    f"&& touch {CANARY}", f"a[$(touch {CANARY})]", f"x[$(touch {CANARY})]=1", f"([$(touch {CANARY})]=1)",
    f"-va[$(touch {CANARY})]", f"() {{ :; }}; touch {CANARY}",
]  # fmt: skip


def argv(shell: str) -> list[str]:
    return {"busybox": ["busybox", "sh"]}.get(shell, [shell])


def run_text(shell: str, text: str, variables: dict[str, str], where: Path) -> subprocess.CompletedProcess[bytes]:
    """The compiled text under a real shell, with nothing but its variables around it."""
    environment = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", **variables}
    return subprocess.run(
        [*argv(shell), "-c", text],
        env=environment,
        cwd=where,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=20,
    )


def shown(shell: str, script: str, names: dict[str, Any], where: Path) -> bytes:
    """What a script prints; it must end well."""
    compiled = compile_shell(script, "bash" if shell == "bash" else "sh")
    done = run_text(shell, compiled.text, compiled.resolve(names), where)
    assert done.returncode == 0, f"{shell}: {done.stderr.decode()}\n{compiled.text}"
    return done.stdout


def arguments(*values: str) -> bytes:
    """What `show` prints for these arguments."""
    return b"".join(value.encode() + b"\0" for value in (str(len(values)), *values))
