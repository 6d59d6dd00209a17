"""`${{ }}` in shell scripts: what becomes of it, and where it is refused."""

import json
import random
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.expressions.shell_search import EVIL, PHRASES, RARE, SOUP, accepted_scripts, culprits, run_batch
from tests.expressions.shells import CANARY, NASTY, SHELLS, SHOW, arguments, shown
from weft.core.expressions import ExpressionError, compile_shell


@pytest.mark.parametrize(
    ("script", "text"),
    [
        ("echo hi $HOME ${HOME}", "echo hi $HOME ${HOME}"),
        ("echo ${{ v }}", 'echo "${WEFT_V1}"'),
        ("echo ${{ v }} ${{ w }} ${{v}}", 'echo "${WEFT_V1}" "${WEFT_V2}" "${WEFT_V1}"'),
        ("echo a${{ v }}b", 'echo a"${WEFT_V1}"b'),
        ('echo "a ${{ v }}"', 'echo "a ${WEFT_V1}"'),
        ("echo 'a ${{ v }} b'", "echo 'a '\"${WEFT_V1}\"' b'"),
        ("echo '${{ v['a'] }}'", "echo ''\"${WEFT_V1}\"''"),
        ('echo "${{ v["}}"] }}"', 'echo "${WEFT_V1}"'),
        ('cat <<EOF\n"${{ v }}"\nEOF\necho ${{ v }}', 'cat <<EOF\n"${WEFT_V1}"\nEOF\necho "${WEFT_V1}"'),
        ("cat <<-EOF\n\t${{ v }}\n\tEOF\n", "cat <<-EOF\n\t${WEFT_V1}\n\tEOF\n"),
        ('echo "$(cat ${{ v }} "${{ v }}")"', 'echo "$(cat "${WEFT_V1}" "${WEFT_V1}")"'),
        ("# it's ${{ v }}\necho ${{ v }}", '# it\'s ${{ v }}\necho "${WEFT_V1}"'),
        ("echo a#${{ v }}", 'echo a#"${WEFT_V1}"'),
        ("echo $# ${{ v }}", 'echo $# "${WEFT_V1}"'),
        ("x=$((1 + 2)) y=${{ v }}", 'x=$((1 + 2)) y="${WEFT_V1}"'),
        ("case ${{ v }} in a) echo ${{ v }};; esac", 'case "${WEFT_V1}" in a) echo "${WEFT_V1}";; esac'),
        ('"$(case x in x) echo ${{ v }};; esac)"', '"$(case x in x) echo "${WEFT_V1}";; esac)"'),
        ('"$( (case x in (x) a;; esac); b ${{ v }})"', '"$( (case x in (x) a;; esac); b "${WEFT_V1}")"'),
        ('"$( (case x in x) a;; esac); b ${{ v }})"', '"$( (case x in x) a;; esac); b "${WEFT_V1}")"'),
        ("echo \"$${{ x }}\" '$${{ x }}'", "echo \"\\${{ x }}\" '${{ x }}'"),
        ("cat <<'EOF'\n$${{ x }}\nEOF\n", "cat <<'EOF'\n${{ x }}\nEOF\n"),
        ("export A=${{ v }} B", 'export A="${WEFT_V1}" B'),
        ("read a b <<< ${{ v }}", 'read a b <<< "${WEFT_V1}"'),
        ("a=(x ${{ v }})", 'a=(x "${WEFT_V1}")'),
        ("[ ${{ v }} -eq 1 ]", '[ "${WEFT_V1}" -eq 1 ]'),
        ("[[ ${{ v }} == x* ]]", '[[ "${WEFT_V1}" == x* ]]'),
        ("echo [a] ${{ v }}", 'echo [a] "${WEFT_V1}"'),
        ("printf '%s\\n' ${{ v }}", "printf '%s\\n' \"${WEFT_V1}\""),
        ("cmd >out 2>&1 ${{ v }} & wait", 'cmd >out 2>&1 "${WEFT_V1}" & wait'),
        ("echo \\\n ${{ v }}", 'echo \\\n "${WEFT_V1}"'),
        ("echo a \\\n${{ v }}", 'echo a \\\n"${WEFT_V1}"'),
        ('echo "a\\\n${{ v }}"', 'echo "a\\\n${WEFT_V1}"'),
        ("echo `date` ${{ v }}", 'echo `date` "${WEFT_V1}"'),
    ],
)
def test_each_place_gets_its_quoting(script: str, text: str) -> None:
    assert compile_shell(script, "bash").text == text


@pytest.mark.parametrize(
    ("script", "complaint"),
    [
        ("echo `cat ${{ v }}`", "backticks"),
        ('echo "`cat ${{ v }}`"', "backticks"),
        ("echo $((1 + ${{ v }}))", "$(("),
        ("((x = ${{ v }}))", "(("),
        ("for ((i = 0; i < ${{ v }}; i++)); do :; done", "(("),
        ("cat <<'EOF'\n${{ v }}\nEOF\n", "quoted"),
        ("cat <<\\EOF\n${{ v }}\nEOF\n", "quoted"),
        ('cat <<"EOF"\n${{ v }}\nEOF\n', "quoted"),
        ("cat <<${{ v }}\nEOF\n", "delimiter"),
        ("echo ${x:-${{ v }}}", "inside ${"),
        ('echo "${x:-${{ v }}}"', "inside ${"),
        ("echo $'${{ v }}'", "$'"),
        ("echo $[ ${{ v }} ]", "$["),
        ("echo \\${{ v }}", "backslash"),
        ('echo "\\${{ v }}"', "backslash"),
        ("echo $$${{ v }}", "two ways"),
        ("echo '${{ v }}", "single quote"),
        ('echo "${{ v }}', "double quote"),
        ("echo $(cat ${{ v }}", "$("),
        ("cat <<EOF\n${{ v }}\n", "no end"),
        ("echo ${{ v ", "has no end"),
        ("echo ${{ v + }}", "ends too early"),
        ("a[${{ v }}]=1", "[ ]"),
        ('a["${{ v }}"]=1', "[ ]"),
        ("a[ ${{ v }} ]=1", "[ ]"),
        ("a[ 2> ${{ v }} ]=1", "[ ]"),
        ("'let' ${{ v }}", "let"),
        ("$@le\\t ${{ v }}", "let"),
        ("printf <<< x ${{ v }}", "printf"),
        ("a=([${{ v }}]=1)", "[ ]"),
        ("a=([ ${{ v }} ]=1)", "[ ]"),
        ("[[ ${{ v }} -eq 1 ]]", "arithmetic"),
        ("[[ 1 -lt ${{ v }} ]]", "arithmetic"),
        ("[[ -v ${{ v }} ]]", "-v"),
        ('[ "-v" ${{ v }} ]', "-v"),
        ("test ${{ v }} ${{ w }}", "operator"),
        ("printf -v ${{ v }} x", "printf"),
        ("printf -v x ${{ v }} y", "printf"),
        ("printf $x ${{ v }} y", "printf"),
        ("[ -v $x ${{ v }} ]", "-v"),
        ("[ ${{ v }} $x ${{ w }} ]", "operator"),
        ("printf ${{ v }} x", "printf"),
        ("let ${{ v }}", "let"),
        ("declare x=${{ v }}", "declare"),
        ("declare -i n; n=${{ v }}", "declare -i"),
        ("local -n n=${{ v }}", "local -n"),
        ("export ${{ v }}", "export"),
        ("unset ${{ v }}", "unset"),
        ("RANDOM=${{ v }}", "RANDOM"),
        ("for OPTIND in ${{ v }}; do :; done", "OPTIND"),
        ("2>x declare ${{ v }}", "declare"),
        ("if true; then command declare ${{ v }}; fi", "declare"),
        ("function f { declare ${{ v }}; }", "declare"),
        ("$x read ${{ v }}", "read"),
        ("unset -v { ${{ v }}", "unset"),
        ("coproc let ${{ v }}", "coproc"),
        ("printf -v${{ v }} x", "printf"),
        ("printf -${{ v }} x", "printf"),
        ("printf'' -v${{ v }} x", "printf"),
        ("read RANDOM <<< ${{ v }}", "RANDOM"),
        ("'command' declare ${{ v }}", "declare"),
        ("command -- declare ${{ v }}", "declare"),
        ("builtin -- let ${{ v }}", "let"),
        ("compgen -W ${{ v }}", "compgen"),
        ("for((;${{ v }};)); do :; done", "(("),
        ("if((${{ v }})); then :; fi", "(("),
        ("(\\\n(${{ v }}))", "line broken"),
        ('echo "$\\\n(${{ v }})"', "line broken"),
        ("echo >& ${{ v }}", "twice"),
        ("echo 2>&'${{ v }}'", "twice"),
        ("$(" * 40 + "echo ${{ v }}" + ")" * 40, "nested"),
        ("${a:-" * 4000 + "}" * 4000 + "${{ v }}", "nested"),
    ],
)
def test_elsewhere_it_is_refused(script: str, complaint: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        compile_shell(script, "bash")
    assert complaint in caught.value.message
    assert caught.value.fix
    assert caught.value.column is not None
    assert 1 <= caught.value.column <= len(script) + 1


def test_dollar_quotes_in_sh_are_refused_only_when_shells_differ() -> None:
    assert compile_shell("echo $'a' ${{ v }}", "sh").values
    assert compile_shell("echo $'it\\'s' ${{ v }}", "bash").values
    with pytest.raises(ExpressionError, match="alike"):
        compile_shell("echo $'it\\'s' ${{ v }} '", "sh")


def test_values_in_the_environment() -> None:
    compiled = compile_shell("a ${{ s }} ${{ n }} ${{ l }} ${{ o.x }}")
    names = {"s": "é\n", "n": 1.5, "l": [1, "a"], "o": {"x": None}}
    assert compiled.resolve(names) == {"WEFT_V1": "é\n", "WEFT_V2": "1.5", "WEFT_V3": '[1,"a"]', "WEFT_V4": "null"}
    assert [r.path for r in compiled.references] == [("l",), ("n",), ("o", "x"), ("s",)]
    with pytest.raises(ExpressionError, match="NUL"):
        compiled.resolve({**names, "s": "a\0b"})
    assert compiled.resolve({**names, "s": "é" * 48 * 1024})
    with pytest.raises(ExpressionError, match="98,306 bytes"):
        compiled.resolve({**names, "s": "é" * (48 * 1024 + 1)})


EVERY_PLACE = (
    SHOW
    + """
show ${{ v }}
show a${{ v }}b "${{ v }}" '${{ v }}'
show "x '${{ v }}' y" 'x "${{ v }}" y' "'"${{ v }}"'"
x=${{ v }}; show "$x"
show "$(printf '%s.' ${{ v }})" "$(printf '%s.' "${{ v }}")" "$(printf '%s.' "$(printf '%s.' '${{ v }}')")"
cat <<EOF
[${{ v }}] "${{ v }}" '${{ v }}' $(printf '%s.' ${{ v }})
EOF
cat <<-"END" | cat - ; show ${{ v }}
	plain $x
	END
case ${{ v }} in "$x") show same;; *) show other;; esac
# ${{ v }} in a comment, with ' and " and `
for i in ${{ v }}; do show "$i"; done
(show ${{ v }}) | cat
"""
)


def expected_everywhere(v: str) -> bytes:
    return b"".join(
        [
            arguments(v),
            arguments(f"a{v}b", v, v),
            arguments(f"x '{v}' y", f'x "{v}" y', f"'{v}'"),
            arguments(v),
            arguments(f"{v}.", f"{v}.", f"{v}.."),
            f"[{v}] \"{v}\" '{v}' {v}.\n".encode(),
            b"plain $x\n",
            arguments(v),
            arguments("same"),
            arguments(v),
            arguments(v),
        ]
    )


text_values = st.one_of(
    st.sampled_from(NASTY),
    st.lists(st.sampled_from([*NASTY, "a", " ", "$", "(", "`"]), max_size=4).map("".join),
    st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=30),
)


@pytest.mark.parametrize("shell", SHELLS)
@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(value=text_values)
def test_any_text_arrives_whole_in_every_place(shell: str, tmp_path: Path, value: str) -> None:
    assert shown(shell, EVERY_PLACE, {"v": value}, tmp_path) == expected_everywhere(value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("shell", SHELLS)
def test_other_values_arrive_as_json(shell: str, tmp_path: Path) -> None:
    value = {"a": [1, None, True, f"$(touch {CANARY})'\"\n"], "é": 0.5}
    output = shown(shell, SHOW + "show ${{ v }} '${{ v }}'", {"v": value}, tmp_path)
    _, first, second, _ = output.split(b"\0")
    assert json.loads(first) == json.loads(second) == value
    assert list(tmp_path.iterdir()) == []


class Script:
    """A random script together with the arguments it must show."""

    def __init__(self, rng: random.Random, value: str) -> None:
        self.rng = rng
        self.value = value
        self.here = 0

    def word(self, depth: int) -> tuple[str, str]:
        text = expected = ""
        for _ in range(self.rng.randint(1, 3)):
            part, result = self.part(depth)
            text, expected = text + part, expected + result
        return text, expected

    def part(self, depth: int) -> tuple[str, str]:
        kind = self.rng.randrange(7 if depth else 4)
        if kind == 0:
            return self.rng.choice([("a", "a"), ("\\'", "'"), ('\\"', '"'), ("b#c", "b#c"), ("''", ""), ("\\(", "(")])
        if kind == 1:
            return "${{ v }}", self.value
        if kind == 2:
            return "'${{v}}) # \"'", f'{self.value}) # "'
        if kind == 3:
            return '"${{ v }} \\" ) \' # `echo x`"', f"{self.value} \" ) ' # x"
        command, result = self.command(depth - 1)
        if kind == 4:
            return f'"$({command})"', result
        if kind == 5:
            return f'"[$({command}\n)] ${{{{ v }}}} \'"', f"[{result}] {self.value} '"
        return f'"${{unset_:-x}}$( ({command}); printf %s ${{{{ v }}}})"', f"x{result}{self.value}"

    def command(self, depth: int) -> tuple[str, str]:
        word, result = self.word(depth)
        kind = self.rng.randrange(5)
        if kind == 0:
            return f"case ${{{{ v }}}} in ('never and') x ;; *) printf %s. {word} # ) '\n;; esac", result + "."
        if kind == 1:
            self.here += 1
            end = f"END{self.here}"
            document = f"<${{{{ v }}}}> ) ' \"\n{end}\n"
            return f"cat <<{end}; x=1\n{document}printf %s. {word}", f"<{self.value}> ) ' \"\n{result}."
        if kind == 2:
            return f"if [ -n x ]; then printf %s. {word}; fi", result + "."
        if kind == 3:
            return f'x={word}; printf %s. "$x"', result + "."
        return f"printf %s. {word}", result + "."


@pytest.mark.parametrize("shell", SHELLS)
def test_nested_scripts_show_what_they_must(shell: str, tmp_path: Path) -> None:
    rng = random.Random(3)
    for value in ("plain", f"a b'\"$(touch {CANARY})`touch {CANARY}`\\ *)#"):
        lines, expected = [SHOW], b""
        for _ in range(150):
            word, result = Script(rng, value).word(3)
            lines.append(f"show {word} ${{{{ v }}}}\n")
            expected += arguments(result, value)
        # each is compiled alone too, so that one mistake cannot be hidden by the next
        for line in lines[1:]:
            compile_shell(line, "sh")
        assert shown(shell, "".join(lines), {"v": value}, tmp_path) == expected
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif("bash" not in SHELLS, reason="bash is the shell that evaluates values twice")
def test_no_accepted_script_runs_a_value() -> None:
    """Random scripts under bash: whatever the compiler lets through, a value stays a value. The long search is
    `python -m tests.expressions.shell_search`."""
    rng = random.Random(5)
    for soup in (SOUP, SOUP, PHRASES, PHRASES, SOUP + RARE):
        scripts = accepted_scripts(rng, "bash", soup, 9)
        batch = [next(scripts) for _ in range(200)]
        for first in rng.sample(EVIL, 5):
            variables = {"WEFT_V1": first, "WEFT_V2": rng.choice(EVIL)}
            if run_batch("bash", [text for _, text in batch], variables):
                pytest.fail(f"with {variables}: {culprits(batch, variables)}")


def test_garbage_only_raises_expression_errors() -> None:
    rng = random.Random(9)
    for _ in range(20_000):
        script = "".join(rng.choice(SOUP) for _ in range(rng.randint(1, 12)))
        try:
            compile_shell(script, "sh")
        except ExpressionError as error:
            assert error.column is not None  # noqa: PT017


def test_long_scripts_are_read_in_linear_time() -> None:
    script = (
        f"awk '{'x' * 200_000}' ${{{{ v }}}}\n"
        + 'echo "${{ v }}" # c\n' * 5_000
        + "cat <<E\n"
        + "y\\\n" * 5_000
        + "\nE\n"
    )
    assert compile_shell(script, "sh").text.count("${WEFT_V1}") == 5_001
