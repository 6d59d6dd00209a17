"""An agent's answer as JSON that matches a schema.

The library is jsonschema-rs: one wheel without dependencies, which never fetches a reference that it does not have
(offline) and bounds what a pattern may cost. The runner calls it, not the node: a schema comes from a definition.
"""

import re
from typing import Any, Final

import msgspec

_FENCED: Final = re.compile(r"```(?:json)?[ \t]*\n(.*?)\n[ \t]*```", re.DOTALL)
_ERRORS_MAX: Final = 3
_SHOWN_MAX: Final = 200
_BACKTRACK_MAX: Final = 100_000


class SchemaMismatch(Exception):
    """The answer is not what the schema asks for. Another attempt may do better."""


class UnusableSchema(Exception):
    """No answer could match: the schema itself is wrong, or the library is missing."""


class AnswerSchema:
    def __init__(self, schema: Any) -> None:
        """Raises UnusableSchema."""
        try:
            import jsonschema_rs
        except ImportError:
            raise UnusableSchema("output_schema needs jsonschema-rs on the node: install weft[agent]") from None
        try:
            self._validator = jsonschema_rs.validator_for(
                schema, offline=True, pattern_options=jsonschema_rs.FancyRegexOptions(backtrack_limit=_BACKTRACK_MAX)
            )
        except (ValueError, jsonschema_rs.ReferencingError) as error:
            raise UnusableSchema(f"output_schema cannot be used: {_short(str(error).splitlines()[0])}") from None

    def check(self, value: Any) -> None:
        """Raises SchemaMismatch, which names the place of what is wrong."""
        found = []
        for error in self._validator.iter_errors(value):
            path = "".join(f"/{part}" for part in error.instance_path) or "the whole answer"
            found.append(f"{path}: {_short(error.message)}")
            if len(found) == _ERRORS_MAX:
                break
        if found:
            raise SchemaMismatch("the answer does not match output_schema: " + "; ".join(found))


def parse_answer_json(text: str) -> Any:
    """The JSON of an answer that may stand in a fence of Markdown. Raises SchemaMismatch."""
    fenced = _FENCED.findall(text)
    for candidate in (text, *reversed(fenced)):
        try:
            return msgspec.json.decode(candidate)
        except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
            continue
    shown = " ".join(text.split())
    raise SchemaMismatch(f"the answer is not JSON: {_short(shown) or 'it is empty'}")


def instruction(schema: Any) -> str:
    """For programs and APIs that are only told in words."""
    encoded = msgspec.json.encode(schema).decode()
    return f"Answer with one JSON value that matches this JSON Schema, and with nothing else:\n{encoded}"


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN_MAX else text[: _SHOWN_MAX - 1] + "…"
