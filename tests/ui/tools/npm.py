"""Programs from npm that check the page: pinned in package-lock.json, installed once in a cache outside the tree."""

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

HERE = Path(__file__).parent
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "weft"
INSTALL_S = 240.0


class CannotRun(Exception):
    """Node or npm is missing here, or npm cannot reach its packages."""


def modules() -> Path:
    """The directory with the pinned packages; they are installed if they are not there yet."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        raise CannotRun("there is no Node with npm here")
    lock = (HERE / "package-lock.json").read_bytes()
    place = CACHE / f"npm-{hashlib.sha256(lock).hexdigest()[:16]}"
    if not place.exists():
        _install(place)
    return place / "node_modules"


def _install(place: Path) -> None:
    """Beside its place first: a process that looks meanwhile finds all of it or nothing."""
    made = place.with_name(f"{place.name}.{os.getpid()}")
    made.mkdir(parents=True)
    for name in ("package.json", "package-lock.json"):
        shutil.copy(HERE / name, made)
    command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--fetch-retries=1"]
    try:
        ended = subprocess.run(command, cwd=made, capture_output=True, text=True, timeout=INSTALL_S, check=False)
        problem = "" if ended.returncode == 0 else (ended.stderr.strip().splitlines() or ["npm failed"])[-1]
    except subprocess.TimeoutExpired:
        problem = f"it took longer than {INSTALL_S:.0f} s"
    if problem:
        shutil.rmtree(made)
        raise CannotRun(f"npm could not install what package-lock.json names: {problem}")
    try:
        made.rename(place)
    except OSError:  # another process was faster
        shutil.rmtree(made)
