"""Distributions with plugins, written into a directory as an installer would leave them."""

import textwrap
from pathlib import Path


def write_distribution(
    site: Path, name: str, entries: dict[str, str], source: str = "", version: str = "1.0"
) -> None:
    """`source` becomes the module `name`; `entries` are types of tasks and what their entry points name."""
    site.mkdir(exist_ok=True)
    module = name.replace("-", "_")
    (site / f"{module}.py").write_text(textwrap.dedent(source))
    info = site / f"{module}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    lines = "".join(f"{type_} = {value}\n" for type_, value in entries.items())
    (info / "entry_points.txt").write_text(f"[weft.executors]\n{lines}")
