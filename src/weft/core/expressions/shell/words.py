"""Where in a shell command a word stands, as far as `${{ }}` needs to know.

A variable's value is never parsed as syntax by a shell, with a few exceptions that evaluate their operands a
second time: arithmetic, subscripts, and builtins that take names. Bash runs `$(…)` found inside such an operand
(`[[ "$v" -eq 1 ]]` with v='a[$(reboot)]' reboots), so a `${{ }}` there is refused, in `sh` too, which on many
systems is bash. Each entry of the tables below was seen to run a command in bash 5.2.
"""

import re
from typing import Final

from weft.core.expressions.errors import ExpressionError

ENV_FIX: Final = 'set it in env, for example NAME: "${{ … }}", and write "$NAME" here'
#: Where the shell evaluates what it finds, a variable alone is no cure.
CHECK_FIX: Final = "set it in env and check it first, for example that it is digits only"

#: Stands in a word for what is not plain text, so that no such word is taken for a keyword.
OPAQUE: Final = "\ufffc"
#: Stands in a word for a value.
VALUE: Final = "\ufffd"

_WORD_KEPT = 256  # characters of a word that are looked at; no name or option is longer
_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(?:\[[^\]]*\])?\+?=")
_SUBSCRIPT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\[")
#: After these the next word is again in the place of a command.
_LEADING: Final = frozenset(
    {"if", "then", "else", "elif", "do", "while", "until", "!", "{", "time", "command", "builtin"}
)
#: Of those, the builtins that take options before the command that they run.
_PASSING_ON: Final = frozenset({"command", "builtin", "time"})
#: `declare y=…` reads the value as an array's list if y is an array already.
DECLARING: Final = frozenset({"declare", "typeset", "local", "readonly"})
NAME_TAKING: Final = frozenset(
    {"unset", "read", "mapfile", "readarray", "getopts", "wait", "let", "compgen", "complete"}
)
_ARITHMETIC_TESTS: Final = frozenset({"-eq", "-ne", "-lt", "-le", "-gt", "-ge"})
_VARIABLE_TESTS: Final = frozenset({"-v", "-R"})
#: Assigning to these evaluates arithmetic.
_NUMBER_VARIABLES: Final = frozenset({"RANDOM", "SRANDOM", "HISTCMD", "OPTIND", "SECONDS", "LINENO"})


class Commands:
    """The state of one row of commands: the script, or the inside of one `$( … )`."""

    __slots__ = (
        "brackets",
        "cases",
        "command",
        "duplicates",
        "groups",
        "heredocs",
        "passes_on",
        "previous",
        "redirect",
        "test_arithmetic",
        "test_depth",
        "test_value",
        "word",
    )

    def __init__(self) -> None:
        self.word: str | None = None  # the word so far; None between words
        self.previous = ""
        self.command: str | None = None  # None where a command may start
        self.passes_on = False  # after `command` and the like: options may come before the command
        self.redirect = False  # the word is the target of a redirection
        self.duplicates = False  # … of `>&` or `<&`, which bash expands twice
        self.brackets = 0  # unquoted [ of the word that wait for their ]
        self.groups: list[tuple[bool, str | None, int]] = []  # open (: holds words only, command and cases before
        self.cases = 0  # case … esac around us
        self.heredocs: list[tuple[str, bool, bool]] = []  # (delimiter, quoted, strips tabs) to come at the line's end
        self.test_depth: int | None = None  # groups open at the `[[` we are in
        self.test_arithmetic = False
        self.test_value: int | None = None  # column of a value inside this [[ ]]

    def add(self, text: str) -> None:
        if self.word is None:
            self.word = text[:_WORD_KEPT]
        elif len(self.word) < _WORD_KEPT:
            self.word += text[:_WORD_KEPT]

    def bracket(self, char: str) -> None:
        self.add(char)
        self.brackets = self.brackets + 1 if char == "[" else max(0, self.brackets - 1)

    def refuse_open_subscript(self, column: int) -> None:
        """`a[ 1 ]=x` is one word to bash and three to others, whatever blanks and operators are in the brackets."""
        if not self.brackets or self.word is None:
            return
        in_list = bool(self.groups) and self.groups[-1][0] and self.word.startswith("[")
        if in_list or _SUBSCRIPT.match(self.word):
            raise ExpressionError(
                "a blank or an operator inside [ ] is not read alike by all shells",
                column,
                "leave it out, or quote it",
            )

    def end_word(self, column: int) -> None:
        word = self.word
        if word is None:
            return
        self.refuse_open_subscript(column)
        self.word = None
        self.brackets = 0
        if self.redirect:
            self.redirect = False
            return
        if word.strip(OPAQUE):
            self.previous = word  # but `$x` may turn out to be no word at all
        if self.test_depth is not None:
            self._test_word(word)
        elif self.command is None:
            self._first_word(word, column)
        elif self.command == OPAQUE:
            self.command = word  # `$x read …` is read when x is empty
        elif self.command == "function" and word == "{":
            self.command = None
        elif self.command == "case" and word == "in":
            self.command = None  # a pattern or esac comes next
        elif _plain(self.command) in DECLARING and _plain(word)[:1] in ("-", "+") and ("i" in word or "n" in word):
            raise ExpressionError(
                f"{self.command} {word} makes the shell evaluate values, so it cannot share a script with ${{{{ }}}}",
                column,
                "leave the option out",
            )
        elif _plain(self.command) == "printf" and _plain(word).startswith("-v"):
            self.command = "printf -v"
        elif _plain(self.command) in ("for", "select", "read") and _plain(word) in _NUMBER_VARIABLES:
            raise ExpressionError(f"{word} evaluates what it is given", column, "use another name")

    def _first_word(self, word: str, column: int) -> None:
        plain = _plain(word)
        if plain in _LEADING or _ASSIGNMENT.match(word):
            self.passes_on = plain in _PASSING_ON
            return
        if self.passes_on and plain.startswith("-"):
            return
        self.passes_on = False
        if word == "coproc":
            raise ExpressionError("coproc cannot share a script with ${{ }}", column, ENV_FIX)
        self.command = word
        if word == "case":
            self.cases += 1
        elif word == "esac":
            self.cases = max(0, self.cases - 1)
        elif word == "[[":
            self.test_depth = len(self.groups)
            self.test_arithmetic = False
            self.test_value = None

    def _test_word(self, word: str) -> None:
        if word == "]]":
            self.test_depth = None
        elif word in _ARITHMETIC_TESTS:
            self.test_arithmetic = True
            self._refuse_arithmetic_test()

    def _refuse_arithmetic_test(self) -> None:
        if self.test_arithmetic and self.test_value is not None:
            raise ExpressionError(
                "[[ ]] evaluates the operands of -eq, -lt and the like as arithmetic",
                self.test_value,
                "compare with [ … ] instead, which takes plain numbers only",
            )

    def redirection(self, column: int) -> None:
        """A `<` or `>`; the digits right before it are a descriptor, no word of the command."""
        if self.word is not None and self.word.isdigit():
            self.word = None
        self.end_word(column)
        self.redirect = self.test_depth is None
        self.duplicates = False

    def separator(self, column: int) -> None:
        """A line end or an operator: the next word starts a command, unless we are inside an array or a test."""
        self.end_word(column)
        self.redirect = False
        if self.test_depth is None and not (self.groups and self.groups[-1][0]):
            self.command = None

    def opens_words(self) -> bool:
        """a=( … ) and the patterns @( … ) hold words; ( … ), <( … ) and f() hold commands."""
        word = self.word
        return word is not None and word != "!" and word[-1:] in ("=", "@", "!", "?", "*", "+")

    def open_group(self, column: int) -> None:
        if self.opens_words():
            self.word = None
            self.groups.append((True, self.command, self.cases))
            self.command = "("
            return
        before = self.command
        self.end_word(column)
        self.groups.append((False, before, self.cases))
        self.redirect = False
        if self.test_depth is None:
            self.command = None

    def close_group(self, column: int) -> bool:
        """True if this `)` is one of this row's own; False if it ends the row."""
        self.end_word(column)
        if self.test_depth is not None and len(self.groups) == self.test_depth:
            return True
        if self.cases > (self.groups[-1][2] if self.groups else 0):
            self.command = None  # the end of a pattern of case
            return True
        if not self.groups:
            return False
        _, self.command, _ = self.groups.pop()
        return True

    def accept_value(self, column: int) -> None:
        """Refuses a `${{ }}` in the current word if the shell would evaluate its value."""
        reason = self._evaluated()
        if reason is not None:
            raise ExpressionError(reason[0], column, reason[1])
        if self.test_depth is not None:
            self.test_value = column
            self._refuse_arithmetic_test()

    def _evaluated(self) -> tuple[str, str] | None:
        """What is wrong with a value here, and the fix."""
        word = self.word or ""
        if self.brackets:
            return "${{ }} cannot stand inside [ ] of a word, where the shell may evaluate it", CHECK_FIX
        assigned = _ASSIGNMENT.match(word)
        if assigned and assigned.group(1) in _NUMBER_VARIABLES:
            return f"{assigned.group(1)} evaluates what it is given", "use another name"
        if self.redirect and self.duplicates:
            return "the shell expands what follows >& twice", "write > file 2>&1"
        if self.redirect or self.command is None:
            return None
        command, previous, plain = _plain(self.command), _plain(self.previous), _plain(word)
        if command in ("test", "[", "[[") and previous in _VARIABLE_TESTS:
            return f"{previous} takes the name of a variable, which the shell evaluates", CHECK_FIX
        if command in ("test", "[") and previous.startswith(VALUE):
            return (
                f"one value right after another could make an operator of {command}",
                "write the operator out",
            )
        first = command == "printf" and previous in ("printf", "--")
        if command == "printf -v" or (first and (not plain or plain.startswith("-"))):
            return "printf would take a value as its options or format", "write printf '%s\\n' ${{ … }}"
        if command in NAME_TAKING:
            return f"{command} takes names, which the shell evaluates", CHECK_FIX
        if command in DECLARING:
            return f"{command} may evaluate a value", "assign it on a line of its own: name=${{ … }}"
        if command == "export" and not assigned:
            return "export takes names, which ${{ }} must not make", "write export name=${{ … }}"
        return None


def _plain(word: str) -> str:
    """A word without its quotes, and without what may turn out to be nothing: `"let"`, `\\let` and `$x"let"`."""
    return word.replace(OPAQUE, "")
