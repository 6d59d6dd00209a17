"""Two definitions as lines of a unified diff, each as the YAML that `weft export` prints."""

from typing import Any


def document_diff(old: Any, new: Any, old_name: str, new_name: str) -> list[str]:
    import difflib

    return list(difflib.unified_diff(yaml_lines(old), yaml_lines(new), old_name, new_name, lineterm=""))


def yaml_lines(document: Any) -> list[str]:
    import yaml

    text: str = yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=110)
    return text.splitlines()
