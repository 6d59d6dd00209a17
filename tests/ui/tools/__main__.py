"""The types of the page's scripts (JSDoc), checked by TypeScript; part of `make lint`."""

import subprocess
import sys

from tests.ui.tools.npm import HERE, CannotRun, modules


def main() -> int:
    try:
        compiler = modules() / ".bin" / "tsc"
    except CannotRun as reason:
        print(f"the types of the page's scripts are not checked: {reason}")
        return 0
    return subprocess.run([compiler, "-p", HERE / "tsconfig.json"], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
