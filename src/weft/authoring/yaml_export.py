"""A definition as YAML text that the loader reads back to exactly the same definition.

PyYAML writes YAML 1.1, where `1e5` is text and `off` is not; Weft reads YAML 1.2. So a text is written without quotes
only if the loader reads it as that text.
"""

from typing import Any

import yaml

from weft.authoring.yaml_text import plain_value


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:
        """The loader refuses aliases: repeated values are written each time."""
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> Any:
        return super().increase_indent(flow, False)


def _text(dumper: _Dumper, value: str) -> yaml.ScalarNode:
    if "\n" in value.rstrip("\n") and _fits_block(value):
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style="|")
    try:
        plain = bool(value) and value.isprintable() and plain_value(value) is value
    except ValueError:
        plain = False
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=None if plain else '"')


def _fits_block(value: str) -> bool:
    """Whether a text of several lines can be a block, which reads best; PyYAML uses quotes where it must."""
    return all(line == line.rstrip() and line.isprintable() for line in value.split("\n"))


_Dumper.add_representer(str, _text)


def yaml_of(document: dict[str, Any]) -> str:
    """The document as a file's text.

    >>> print(yaml_of({"name": "hello", "tasks": {"greet": {"run": "echo hello"}}}), end="")
    name: hello
    tasks:
      greet:
        run: echo hello
    """
    return yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=1_000_000)
