"""YAML text to plain values, by the core schema of YAML 1.2 and a few rules of our own.

PyYAML's event parser reads the text. Values are built from its events here, iteratively, because PyYAML's own
constructors implement YAML 1.1 (dates, `no` as a boolean), follow aliases and keep the last of two equal keys.
"""

import math
import re
from collections.abc import Iterator
from typing import Any, Final

import yaml

from weft.authoring.errors import SyntaxFault, TextPosition, UnreadableText
from weft.authoring.source_positions import TextToken
from weft.core.definition.field_types.collections import DEPTH_MAX
from weft.core.definition.problems import INTEGER_MAX, PROBLEMS_MAX, quoted

_LOADER: Final = getattr(yaml, "CLoader", yaml.Loader)  # without libyaml: the same events, ten times slower
_MISSING: Final = object()

_CONSTANTS: Final[dict[str, Any]] = {
    "": None, "~": None, "null": None, "Null": None, "NULL": None,
    "true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False,
}  # fmt: skip
_MAY_BE_NUMBER: Final = frozenset("+-.0123456789")
_INTEGER: Final = re.compile(r"[-+]?[0-9]+", re.ASCII)
_FLOAT: Final = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", re.ASCII)
_BASED: Final = re.compile(r"0o([0-7]+)|0x([0-9a-fA-F]+)", re.ASCII)
_ENDLESS: Final = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)", re.ASCII)
_NOT_YAML: Final = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

_HINTS: Final = (
    ("mapping values are not allowed", "put the text in quotes if it contains a colon, or check the indentation"),
    ("found character that cannot start any token", "put the text in quotes"),
    ("could not find expected ':'", "write `key: value`, or put the text in quotes"),
    (
        "did not find expected key",
        "check the indentation; if there is text after a closing quote, put the whole text in quotes",
    ),
    ("did not find expected ',' or", "put text with { } [ ] or ${{ … }} in quotes, and a comma between two entries"),
    ("did not find expected '-' indicator", "check the indentation of the list"),
    ("found unexpected end of stream", "close the quote"),
)


LINE_BREAK: Final = re.compile("\r\n|[\n\r\x85\u2028\u2029]")  # as libyaml counts lines


class _Refused(ValueError):
    """A scalar that YAML allows and Weft refuses."""

    def __init__(self, message: str, fix: str | None = None) -> None:
        super().__init__(message)
        self.fix = fix


def build(text: str) -> tuple[Any, list[SyntaxFault]]:
    """The value of a text, and the errors after which parsing could continue."""
    builder = _Builder()
    try:
        for event in yaml.parse(text, Loader=_LOADER):
            builder.take(event)
    except yaml.YAMLError as error:
        raise UnreadableText(*builder.faults, _syntax_fault(text, error)) from None
    except UnicodeEncodeError as error:
        position = _position_of(text, error.start)
        raise UnreadableText(SyntaxFault(position, "the text contains half a character (a lone surrogate)")) from None
    if builder.root is _MISSING:
        raise UnreadableText(SyntaxFault(TextPosition(1, 1), "the file is empty", "add tasks, or a list of commands"))
    return builder.root, builder.faults


class _Builder:
    def __init__(self) -> None:
        self.root: Any = _MISSING
        self.faults: list[SyntaxFault] = []
        self.stack: list[tuple[Any, Any]] = []  # the containers around the open one, with their pending keys
        self.open: Any = None
        self.key: Any = _MISSING
        self.texts: dict[str, str] = {}  # one copy of each text: keys and list items repeat

    def take(self, event: Any) -> None:
        kind = type(event)
        if kind is yaml.ScalarEvent:
            if event.anchor is not None or event.tag is not None:
                self._refuse_extras(event)
            text = event.value
            open_ = self.open
            if type(open_) is dict:
                if self.key is _MISSING:
                    self._take_key(event, text)
                    return
                open_[self.key] = text if event.style else self._plain(event, text)
                self.key = _MISSING
            elif type(open_) is list:
                item = text if event.style else self._plain(event, text)
                open_.append(self.texts.setdefault(item, item) if type(item) is str else item)
            else:
                self.root = text if event.style else self._plain(event, text)
        elif kind is yaml.MappingStartEvent or kind is yaml.SequenceStartEvent:
            if event.anchor is not None or event.tag is not None:
                self._refuse_extras(event)
            self._enter(event, {} if kind is yaml.MappingStartEvent else [])
        elif kind is yaml.MappingEndEvent or kind is yaml.SequenceEndEvent:
            self.open, self.key = self.stack.pop()
        elif kind is yaml.AliasEvent:
            self._refuse_alias(event)
        elif kind is yaml.DocumentStartEvent and self.root is not _MISSING:
            raise UnreadableText(
                *self.faults,
                SyntaxFault(
                    _start(event),
                    "the file contains a second YAML document",
                    "put each workflow into a file of its own",
                ),
            )

    def _fault(self, fault: SyntaxFault) -> None:
        self.faults.append(fault)
        if len(self.faults) >= PROBLEMS_MAX:
            raise UnreadableText(*self.faults)

    def _take_key(self, event: Any, text: str) -> None:
        if not text and not event.style:
            self._fault(SyntaxFault(_start(event), "there is no key before the colon"))
        key = self.texts.setdefault(text, text)
        if key in self.open:
            self._fault(
                SyntaxFault(
                    _extent(event), f"the key {quoted(key)} is used twice in this mapping", "remove one of them"
                )
            )
        self.key = key

    def _enter(self, event: Any, value: Any) -> None:
        if type(self.open) is dict and self.key is _MISSING:
            fix = "put it in quotes; a value that begins with ${{ needs them"
            raise UnreadableText(*self.faults, SyntaxFault(_start(event), "a key must be text", fix))
        if len(self.stack) >= DEPTH_MAX:
            raise UnreadableText(
                *self.faults, SyntaxFault(_start(event), f"nested more than {DEPTH_MAX} levels deep")
            )
        self._put(value)
        self.stack.append((self.open, self.key))
        self.open, self.key = value, _MISSING

    def _put(self, value: Any) -> None:
        if type(self.open) is dict:
            self.open[self.key] = value
            self.key = _MISSING
        elif type(self.open) is list:
            self.open.append(value)
        else:
            self.root = value

    def _plain(self, event: Any, text: str) -> Any:
        try:
            return plain_value(text)
        except _Refused as refusal:
            self._fault(SyntaxFault(_extent(event), str(refusal), refusal.fix))
            return text

    def _refuse_extras(self, event: Any) -> None:
        feature, sign = ("anchors", "&") if event.anchor is not None else ("tags", "!")
        self._fault(
            SyntaxFault(
                _start(event),
                f"YAML {feature} are not supported",
                f"write the value itself; a text that begins with {sign} needs quotes",
            )
        )

    def _refuse_alias(self, event: Any) -> None:
        self._fault(
            SyntaxFault(
                _start(event),
                "YAML aliases are not supported",
                "write the value itself; a text that begins with * needs quotes",
            )
        )
        if type(self.open) is dict and self.key is _MISSING:
            self.key = "*"
        else:
            self._put(None)


def plain_value(text: str) -> Any:
    """The value of a scalar without quotes."""
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if text[0] not in _MAY_BE_NUMBER:
        return text
    if _INTEGER.fullmatch(text):
        digits = text.lstrip("+-")
        if digits[0] == "0" and len(digits) > 1:
            fix = f'write {int(digits[:19])}, or "{text[:19]}" in quotes if it is text'
            raise _Refused("a number with a leading zero is ambiguous: some parsers read it as octal", fix)
        if len(digits) > 19 or abs(int(text)) > INTEGER_MAX:
            raise _Refused("the number does not fit into 64 bits")
        return int(text)
    if _FLOAT.fullmatch(text):
        number = float(text)
        if math.isinf(number):
            raise _Refused("the number is too large")
        return number
    based = _BASED.fullmatch(text)
    if based:
        if len(text) > 18:
            raise _Refused("the number does not fit into 64 bits")
        return int(based[1], 8) if based[1] else int(based[2], 16)
    if _ENDLESS.fullmatch(text):
        raise _Refused("a number must be finite to have a JSON form")
    return text


def tokens(text: str) -> Iterator[TextToken]:
    """The tokens of the text, with positions; ends at the first syntax error."""
    try:
        for event in yaml.parse(text, Loader=_LOADER):
            kind = type(event)
            if kind in (yaml.ScalarEvent, yaml.AliasEvent):
                line, column, length = _extent(event)
                yield TextToken("scalar", getattr(event, "value", None), line, column, length)
            elif kind in (yaml.MappingStartEvent, yaml.SequenceStartEvent):
                line, column, _ = _start(event)
                yield TextToken("map" if kind is yaml.MappingStartEvent else "list", None, line, column, 1)
            elif kind in (yaml.MappingEndEvent, yaml.SequenceEndEvent):
                yield TextToken("end", None, 0, 0, 0)
    except yaml.YAMLError:
        return


def _start(event: Any) -> TextPosition:
    mark = event.start_mark
    return TextPosition(mark.line + 1, mark.column + 1)


def _extent(event: Any) -> TextPosition:
    start, end = event.start_mark, event.end_mark
    length = end.column - start.column if end.line == start.line else 1
    return TextPosition(start.line + 1, start.column + 1, max(1, length))


def _syntax_fault(text: str, error: Any) -> SyntaxFault:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    if mark is None:
        wrong = _NOT_YAML.search(text)
        position = _position_of(text, wrong.start() if wrong else 0)
        sign = f" (U+{ord(wrong[0]):04X})" if wrong else ""
        return SyntaxFault(position, f"the file contains a character that YAML does not allow{sign}", "remove it")
    problem = getattr(error, "problem", None) or "not YAML"
    if "unexpected end of stream" in problem and getattr(error, "context_mark", None) is not None:
        mark = error.context_mark  # the position of the opening quote helps more than the end of the file
    position = TextPosition(mark.line + 1, mark.column + 1)
    if "cannot start any token" in problem and mark.index < len(text) and text[mark.index] == "\t":
        return SyntaxFault(position, "a tab is used for indentation", "use spaces")
    fix = next((hint for start, hint in _HINTS if start in problem), None)
    return SyntaxFault(position, f"not YAML: {problem}", fix)


def _position_of(text: str, at: int) -> TextPosition:
    line = text.count("\n", 0, at)
    return TextPosition(line + 1, at - (text.rfind("\n", 0, at) + 1) + 1)
