"""Reads a shell script far enough to know how each `${{ }}` in it has to be quoted.

    bare word               ${{ x }}         "${WEFT_V1}"       one word, whatever is in it
    double quotes           "a ${{ x }}"     "a ${WEFT_V1}"
    single quotes           'a ${{ x }}'     'a '"${WEFT_V1}"''
    here-document <<EOF     a ${{ x }}       a ${WEFT_V1}
    anywhere else           refused, with `env` as the way out

`$( … )` starts afresh inside, whatever is around it. Comments are left as they are. Where shells differ in how
they read something (`$'…'` in sh, quotes inside `"${x:-'…'}"`), the text is refused rather than guessed at. A
wrong guess could break a word apart, but still not make syntax of a value: the value is never in the text.
"""

import re
from typing import Final

from weft.core.expressions.errors import ExpressionError
from weft.core.expressions.expression import Expression
from weft.core.expressions.shell.heredocs import delimiter_at, end_of_body, quoted_body
from weft.core.expressions.shell.words import CHECK_FIX, ENV_FIX, OPAQUE, VALUE, Commands
from weft.core.expressions.templates import OPENING, expression_in
from weft.core.patterns import lazy

NESTING_MAX: Final = 32
_LITERAL: Final = "$" + OPENING
_PLAIN_BARE = lazy(r"[^\\'\"$`# \t\n;&|()<>\[\]]+")
_SPACES: Final = ("", " ", "\t", "\n")
_PLAIN_SINGLE = lazy(r"[^'$]+")
_PLAIN_DOUBLE = lazy(r"[^\\\"$`]+")
_PLAIN_HEREDOC = lazy(r"[^\\$`]+")
_BLANKS = lazy(r"[ \t]+")
_PARAMETER = lazy(r"[A-Za-z_][A-Za-z0-9_]*|[0-9$#?!*@-]")
_COMMENT = lazy(r"#[^\n]*")
_BACKTICKS = lazy(r"`(?:[^`\\]|\\[\s\S])*`")
_ANSI_QUOTED = lazy(r"\$'(?:[^'\\]|\\[\s\S])*'")
_DOLLAR_QUOTED = lazy(r"\$'[^']*'")


class Scanner:
    """One pass over one script. What the shell will get gathers in `out`."""

    def __init__(self, text: str, dialect: str) -> None:
        self.text = text
        self.dialect = dialect
        self.at = 0
        self.end = len(text)
        self.out: list[str] = []
        self.expressions: list[Expression] = []
        self.variables: dict[str, str] = {}  # by source: the same expression twice is one variable
        self.nesting = 0
        self.refusal: tuple[str, str] | None = None  # why no value may stand here, and what to do
        self.heredoc_waits = False  # a here-document of an outer row has not begun yet

    def script(self) -> None:
        self.commands(nested=False)

    # -- moving on ------------------------------------------------------------------------------------

    def error(self, message: str, fix: str, at: int | None = None) -> ExpressionError:
        return ExpressionError(message, (self.at if at is None else at) + 1, fix)

    def starts(self, text: str) -> bool:
        return self.text.startswith(text, self.at, self.end)

    def take(self, count: int = 1) -> str:
        taken = self.text[self.at : min(self.at + count, self.end)]
        self.out.append(taken)
        self.at += len(taken)
        return taken

    def take_plain(self, pattern: re.Pattern[str]) -> str:
        match = pattern.match(self.text, self.at, self.end)
        return self.take(len(match.group())) if match else ""

    def take_escaped(self, where: str) -> None:
        """A backslash and what it protects."""
        if self.text.startswith(OPENING, self.at + 1) or self.text.startswith(_LITERAL, self.at + 1):
            raise self.error("a backslash does not keep ${{ as text", "write $${{ for the text ${{")
        if self.starts("\\\n"):
            self.refuse_broken(where)
        self.take(2)

    def refuse_broken(self, where: str) -> None:
        """The shell joins a broken line before it reads it: `(`, backslash, line end, `(` are `((`."""
        before, after = self.text[self.at - 1 : self.at] if self.at else "", self.text[self.at + 2 : self.at + 3]
        joins = before not in _SPACES and after not in _SPACES if where == "bare" else before == "$"
        if joins:
            raise self.error("a line broken here joins what stands on both sides of it", "put a blank before the \\")

    def unterminated(self, what: str, start: int) -> ExpressionError:
        return self.error(f"this {what} has no end", "close it", start)

    # -- commands -------------------------------------------------------------------------------------

    def commands(self, nested: bool) -> None:
        """Up to the end, or past the `)` that ends a `$( … )`."""
        start = self.at
        state = Commands()
        while self.at < self.end:
            plain = self.take_plain(_PLAIN_BARE)
            if plain:
                state.add(plain)
                continue
            char = self.text[self.at]
            if char == ")":
                if not state.close_group(self.at + 1) and nested:
                    if state.heredocs:
                        raise self.error("a here-document must begin before this )", "put the ) on a line of its own")
                    self.take()
                    return
                self.take()
            else:
                self.command_char(char, state)
        state.end_word(self.end)
        if nested:
            raise self.unterminated("$(", start - 2)
        if state.heredocs:
            raise self.unterminated("here-document", start)

    def command_char(self, char: str, state: Commands) -> None:
        if char == "\n":
            self.line_end(state)
        elif char in " \t":
            state.end_word(self.at + 1)
            self.take_plain(_BLANKS)
        elif char == "\\":
            if not self.starts("\\\n"):
                state.add(OPAQUE + self.text[self.at + 1 : self.at + 2])
            self.take_escaped("bare")
        elif char == "'":
            self.single_quoted(state)
        elif char == '"':
            self.double_quoted(state)
        elif char == "$":
            self.dollar(state, "bare")
        elif char == "`":
            state.add(OPAQUE)
            self.backticks()
        elif char == "#" and state.word is None:
            self.take_plain(_COMMENT)
        elif char == "#":
            state.add(self.take())
        elif char in "[]":
            self.take()
            state.bracket(char)
        else:
            self.operator(char, state)

    def operator(self, char: str, state: Commands) -> None:
        if char == "(":
            if self.starts("((") and not state.redirect and not state.opens_words():
                state.end_word(self.at + 1)  # `for((` and `if((` need no blank
                self.take(2)
                self.arithmetic("((")
                state.add(OPAQUE)
            else:
                state.open_group(self.at)
                self.take()
        elif self.starts("<<<"):
            state.redirection(self.at)
            self.take(3)
        elif self.starts("<<") and state.test_depth is None:
            state.redirection(self.at)
            self.heredoc_start(state)
        elif char in "<>":
            state.redirection(self.at)
            self.take()
        elif char in "&|" and state.redirect and state.word is None:
            state.duplicates = char == "&"
            self.take()  # of >& and >|
        elif self.starts("&>"):
            state.end_word(self.at)
            self.take()
        else:
            state.separator(self.at)
            self.take()

    # -- quotes and dollars ---------------------------------------------------------------------------

    def single_quoted(self, state: Commands) -> None:
        start = self.at
        self.take()
        state.add("")
        while self.at < self.end:
            plain = self.take_plain(_PLAIN_SINGLE)
            if plain:
                state.add(plain)
            elif self.text[self.at] == "'":
                self.take()
                state.add(OPAQUE)
                return
            elif self.starts(_LITERAL):
                self.literal("single")
            elif self.starts(OPENING):
                self.value(state, "single")
            else:
                state.add(self.take())
        raise self.unterminated("single quote", start)

    def double_quoted(self, state: Commands) -> None:
        start = self.at
        self.take()
        state.add("")
        while self.at < self.end:
            plain = self.take_plain(_PLAIN_DOUBLE)
            state.add(plain)
            if plain:
                continue
            char = self.text[self.at]
            if char == '"':
                self.take()
                state.add(OPAQUE)
                return
            if char == "\\":
                self.take_escaped("double")
            elif char == "`":
                self.backticks()
            else:
                self.dollar(state, "double")
        raise self.unterminated("double quote", start)

    def dollar(self, state: Commands, where: str) -> None:
        if self.starts("$" + _LITERAL):
            raise self.error("$$${{ can be read in two ways", ENV_FIX)
        if self.starts(_LITERAL):
            self.literal(where)
            state.add(OPAQUE)
        elif self.starts(OPENING):
            self.value(state, where)
        elif self.starts("$(("):
            self.take(3)
            self.arithmetic("$((")
            state.add(OPAQUE)
        elif self.starts("$("):
            self.take(2)
            self.substitution(bool(state.heredocs))
            state.add(OPAQUE)
        elif self.starts("${"):
            self.take(2)
            self.parameter(where)
            state.add(OPAQUE)
        elif self.starts("$["):
            raise self.error("$[ is arithmetic to some shells and text to others", "write $(( … )), or \\$[")
        elif where == "bare" and self.starts("$'"):
            self.ansi_quoted()
            state.add(OPAQUE)
        else:
            self.take()
            state.add(OPAQUE)
            self.take_plain(_PARAMETER)

    def ansi_quoted(self) -> None:
        """`$'…'`: bash protects a quote with a backslash in there; other shells see a dollar and plain quotes."""
        start = self.at
        escaped = _ANSI_QUOTED.match(self.text, self.at, self.end)
        plain = _DOLLAR_QUOTED.match(self.text, self.at, self.end)
        if escaped is None or plain is None:
            raise self.unterminated("$'", start)
        if escaped.end() != plain.end() and self.dialect != "bash":
            raise self.error("$'…\\'…' is not read alike by all shells", "use double quotes, or shell: bash")
        if OPENING in escaped.group():
            raise self.error("${{ }} cannot stand inside $'…'", ENV_FIX, start + escaped.group().index(OPENING))
        self.take(len(escaped.group()))

    def descend(self) -> None:
        self.nesting += 1
        if self.nesting > NESTING_MAX:
            raise self.error(f"this is nested deeper than {NESTING_MAX}", "split it into several tasks")

    def substitution(self, heredoc_waits: bool) -> None:
        self.descend()
        waited = self.heredoc_waits
        self.heredoc_waits = waited or heredoc_waits
        self.commands(nested=True)
        self.heredoc_waits = waited
        self.nesting -= 1

    # -- where no value may stand ---------------------------------------------------------------------

    def backticks(self) -> None:
        match = _BACKTICKS.match(self.text, self.at, self.end)
        if match is None:
            raise self.unterminated("backtick", self.at)
        if OPENING in match.group():
            at = self.at + match.group().index(OPENING)
            raise self.error(
                "${{ }} cannot stand inside backticks", "write $( … ) instead of backticks, or " + ENV_FIX, at
            )
        self.take(len(match.group()))

    def arithmetic(self, opening: str) -> None:
        start = self.at - len(opening)
        self.descend()
        refused, self.refusal = self.refusal, (f"${{{{ }}}} cannot stand inside {opening} … ))", CHECK_FIX)
        state = Commands()
        depth = 0
        while self.at < self.end:
            char = self.text[self.at]
            if char == "\\":
                self.take_escaped("arithmetic")
            elif char == "$":
                self.dollar(state, "arithmetic")
            elif char == "`":
                self.backticks()
            elif char == "'":
                raise self.error("a single quote in arithmetic is not read alike by all shells", "leave it out")
            elif self.starts("))") and depth == 0:
                self.take(2)
                self.refusal = refused
                self.nesting -= 1
                return
            elif char == ")" and depth == 0:
                fix = f"write {opening[:-1]} ( with a space between"
                raise self.error(f"{opening} starts arithmetic, which ends with ))", fix, start)
            else:
                depth += (char == "(") - (char == ")")
                self.take()
        raise self.unterminated(opening, start)

    def parameter(self, where: str) -> None:
        """`${ … }` of the shell itself."""
        start = self.at - 2
        if self.at < self.end and self.text[self.at] in " \t\n|(":
            raise self.error("this ${ is not read alike by all shells", "write $( … ) or ${NAME}", start)
        self.descend()
        refused, self.refusal = self.refusal, ("${{ }} cannot stand inside ${ … }", ENV_FIX)
        state = Commands()
        while self.at < self.end:
            char = self.text[self.at]
            if char == "}":
                self.take()
                self.refusal = refused
                self.nesting -= 1
                return
            if char == "\\":
                self.take_escaped(where)
            elif char == "'":
                if where != "bare":
                    raise self.error(
                        "a single quote in here is not read alike by all shells", "use a variable for it"
                    )
                self.single_quoted(state)
            elif char == '"':
                if where == "heredoc":
                    raise self.error(
                        "a double quote in here is not read alike by all shells", "use a variable for it"
                    )
                self.double_quoted(state)
            elif char == "$":
                self.dollar(state, where)
            elif char == "`":
                self.backticks()
            else:
                self.take()
        raise self.unterminated("${", start)

    # -- here-documents -------------------------------------------------------------------------------

    def heredoc_start(self, state: Commands) -> None:
        self.take(2)
        strips = self.starts("-")
        if strips:
            self.take()
        self.take_plain(_BLANKS)
        word, delimiter = delimiter_at(self.text, self.at, self.end)
        state.heredocs.append((delimiter, delimiter != word, strips))
        self.take(len(word))
        state.redirect = False

    def line_end(self, state: Commands) -> None:
        if self.heredoc_waits:
            raise self.error("a here-document begins inside this $( … )", "put its << after the )")
        state.separator(self.at)
        self.take()
        waiting, state.heredocs = state.heredocs, []
        for delimiter, quoted, strips in waiting:
            self.heredoc_body(delimiter, quoted, strips)

    def heredoc_body(self, delimiter: str, quoted: bool, strips: bool) -> None:
        start = self.at
        body_end, after = end_of_body(self.text, start, self.end, delimiter, quoted, strips)
        if quoted:
            self.out.append(quoted_body(self.text, start, body_end))
        else:
            end, self.end = self.end, body_end
            nesting = Commands()
            while self.at < self.end:
                if self.take_plain(_PLAIN_HEREDOC):
                    continue
                char = self.text[self.at]
                if char == "\\":
                    self.take_escaped("heredoc")
                elif char == "`":
                    self.backticks()
                else:
                    self.dollar(nesting, "heredoc")
            self.end = end
        self.at = body_end
        self.take(after - body_end)

    # -- values ---------------------------------------------------------------------------------------

    def literal(self, where: str) -> None:
        """`$${{`: the three characters themselves, protected where the shell would read them."""
        if self.refusal:
            raise self.error(*self.refusal)
        self.out.append(OPENING if where == "single" else "\\" + OPENING)
        self.at += len(_LITERAL)

    def value(self, state: Commands, where: str) -> None:
        start = self.at
        if self.refusal:
            raise self.error(*self.refusal)
        expression, after = expression_in(self.text, self.at + len(OPENING))
        if after > self.end:
            raise self.unterminated("${{", start)
        state.accept_value(start + 1)
        source = expression.source.strip()
        name = self.variables.get(source)
        if name is None:
            name = self.variables[source] = f"WEFT_V{len(self.variables) + 1}"
            self.expressions.append(expression)
        reference = "${" + name + "}"
        if where == "bare":
            reference = f'"{reference}"'
        elif where == "single":
            reference = f"'\"{reference}\"'"
        self.out.append(reference)
        self.at = after
        state.add(VALUE)
