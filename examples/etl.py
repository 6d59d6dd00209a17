"""A small pipeline in Python: find files, count the words of each, add them up.

    python etl.py               runs it here, durably
    weft run etl.py:count       the same from the command line
    weft export etl.py:count    the same as YAML

It prints: {'files': 3, 'words': 11, 'longest': 'b.txt'}
"""

from pathlib import Path
from typing import Any

from weft import flow, shell, task


@task
def find(directory: str) -> list[str]:
    return sorted(str(path) for path in Path(directory).glob("*.txt"))


@task(retries=2, timeout="1m")
def words(path: str) -> dict[str, Any]:
    return {"name": Path(path).name, "words": len(Path(path).read_text().split())}


@task
def report(counted: list[dict[str, Any]]) -> dict[str, Any]:
    longest = max(counted, key=lambda one: one["words"])
    return {"files": len(counted), "words": sum(one["words"] for one in counted), "longest": longest["name"]}


@flow
def count(directory: str = "texts") -> dict[str, Any]:
    """Counts the words of all texts of a directory."""
    made = shell(
        'mkdir -p "$DIR" && cd "$DIR" && echo one two three > a.txt && echo a b c d e > b.txt && echo x y z > c.txt',
        env={"DIR": directory},
        name="make_texts",
    )
    found = find.options(needs=[made])(directory)
    return report(words.map(found))


if __name__ == "__main__":
    print(count.run())
