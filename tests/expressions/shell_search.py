"""A long search for a script that the compiler accepts and in which a value becomes syntax.

    python -m tests.expressions.shell_search [SECONDS [SEED]]

Random scripts, from a soup of everything that means something to a shell, are compiled; what is accepted runs under
real shells with values that would leave a file behind if anything of them were ever evaluated. The test in
test_shell_text makes a short search of the same kind.
"""

import contextlib
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.expressions.shells import CANARY, run_text
from weft.core.expressions import ExpressionError, compile_shell

SOUP = [
    "show", "echo", "printf", "declare", "export", "local", "let", "test", "[", "]", "[[", "]]", "-eq", "-v", "-n",
    "-a", "!", "if", "then", "fi", "case", "in", "esac", "for", "do", "done", "x", "x=", "a[", "]=1", "a=(", "(", ")",
    "((", "))", "{", "}", ";", ";;", "\n", "&&", "|", "<<<", "'", '"', "$(", "$((", "${x:-", "${a[", "`", "\\", "#",
    "RANDOM=", "=", "<(", "${{ v }}", "${{ v }}", "${{ v }}", "${{ w }}", "<<E\n", "\nE\n", "read", "unset",
    "readonly", "y", "1", "==", "$'",
]  # fmt: skip
#: What the short search leaves out: rarer words.
RARE = [
    "while", "until", "select", "function", "time", "coproc", "command", "builtin", "exec", "set", "--", "-i", "-p",
    "-A", "-o", "-R", "-le", "-ge", "-f", "-t", "-z", "-W", "-c", "=~", "!=", "<", ">", ">&", "<&", "&>", "2>", ">|",
    "&", "||", ";&", ";;&", "$x", '"$x"', "${x}", "${#x}", "${x[1]}", "${!x}", "$@", "$[", "@(", "?(", "+(", "!(",
    "*", '$"', "shift", "getopts", "mapfile", "readarray", "wait", "typeset", "hash", "compgen", "complete", "ulimit",
    "umask", "OPTIND=", "SECONDS", "RANDOM", "OPTIND", "LINENO=", "IFS=", "a+=(", "a[1]=", "a+=", "x+=", "[0]=",
    "f()", "f() {", "return", "exit", "break", "continue", "jobs", "shopt", "-s", "extglob", "((x=", "for((", "$$",
    "$#", "'a'", '"a"', "\\a", "$${{", "x=${{ v }}", '"${{ v }}"', "'${{ v }}'", '"$(', ')"', "${x:", "${x/", "${x%",
    "${x@", "{a,", "..", "%", "^", "true", "<<-E\n", "\tE\n", "<<'E'\n", "\t", "\\\n", "# c\n",
]  # fmt: skip
#: What evaluates its operands when written plainly, and is refused then. Mutations of it must not slip through.
PHRASES = [
    [word.replace("|n", "\n") for word in line.split()]
    for line in """
[[ ${{v}} -eq 1 ]]
[[ 1 -lt ${{v}} ]]
[[ -v ${{v}} ]]
[ -v ${{v}} ]
test -v ${{v}}
test ${{v}} ${{w}}
(( ${{v}} ))
(\\|n ( ${{v}} ))
if (( ${{v}} )) ; then : ; fi
for (( ; ${{v}} ; )) do break ; done
echo $(( ${{v}} ))
echo ${x: ${{v}} }
${a[ ${{v}} ]}
a[ ${{v}} ]=1
a=( [ ${{v}} ]=1 )
declare -i x= ${{v}}
declare x= ${{v}}
declare -n x= a ; x= ${{v}}
command -p declare ${{v}}
local x= ${{v}}
f() { local x= ${{v}} ; } ; f
function f { declare ${{v}} ; } |n f
readonly x= ${{v}}
typeset -i x ; x= ${{v}}
export ${{v}}
let ${{v}}
let x= ${{v}}
builtin -- let ${{v}}
printf -v ${{v}} 1
printf ${{v}} 1
read ${{v}} <<< 1
read RANDOM <<< ${{v}}
echo ${{v}} | read x
unset ${{v}}
RANDOM= ${{v}}
for OPTIND in ${{v}} ; do : ; done
select x in ${{v}} ; do break ; done <<< 1
mapfile -c 1 -C ${{v}} y <<< 1
getopts a ${{v}}
wait -n -p ${{v}}
compgen -W ${{v}}
echo >& ${{v}}
case ${{v}} in ${{v}} ) (( ${{v}} )) ;; esac
cat <<E|n ${{v}} |nE|n
` echo ${{v}} `
coproc ${{v}}
exec ${{v}}
if [[ ${{v}} == 1 ]] ; then let x=1 ; fi
""".strip().splitlines()
]
EVIL = [
    f"a[$(touch {CANARY})]",
    f"$(touch {CANARY})",
    f"'\"; touch {CANARY} #`touch {CANARY}`",
    "-v",
    f"-va[$(touch {CANARY})]",
    f"x=$(touch {CANARY})",
    f"a[$(touch {CANARY})]=1",
    f"\ntouch {CANARY}\n",
    f"E\ntouch {CANARY}\n",
    f"([$(touch {CANARY})]=1)",
    f") ; touch {CANARY} ; (",
    f"}} ; touch {CANARY} ; {{",
    f"${{x:-$(touch {CANARY})}}",
    f"@(`touch {CANARY}`)",
]
#: (how the script is compiled, how it is run): bash called sh is what `sh` is on many machines
DIALECTS = [("bash", "bash"), ("sh", "bash-as-sh"), ("sh", "dash"), ("sh", "busybox")]
BATCH = 60


def _mutated(rng: random.Random, words: list[str]) -> list[str]:
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(words) + 1)
        kind = rng.randrange(5)
        if kind == 0:
            words.insert(at, rng.choice(SOUP + RARE))
        elif kind == 1 and at < len(words) > 1:
            del words[at]
        elif kind == 2 and at < len(words):
            words[at] = rng.choice(['"{}"', "'{}'", "$x{}", "\\{}", "{}$x", '""{}', '"$( {} )"', "{{ {}; }}"]).format(
                words[at]
            )
        elif kind == 3:
            words[at:at] = rng.choice(PHRASES)
        elif at < len(words):
            cut = rng.randrange(len(words[at]) + 1)
            words[at] = words[at][:cut] + rng.choice(["''", '""', "\\\n", "$x", "\\"]) + words[at][cut:]
    return words


def accepted_scripts(rng: random.Random, dialect: str, soup: list[Any], longest: int) -> Iterator[tuple[str, str]]:
    """(script, compiled text) of random scripts with a value in them, for ever."""
    while True:
        if soup is PHRASES:
            words = _mutated(rng, list(rng.choice(PHRASES)))
        else:
            words = [rng.choice(soup) for _ in range(rng.randint(2, longest))]
        script = "".join(word + rng.choice(["", " ", " "]) for word in words)
        try:
            compiled = compile_shell(script, "bash" if dialect == "bash" else "sh")
        except ExpressionError:
            continue
        if compiled.values:
            yield script, compiled.text


def run_batch(shell: str, texts: list[str], variables: dict[str, str]) -> bool:
    """Do these scripts, each in a subshell of its own, leave the canary? In a directory of their own: what a script
    left running must not speak for another."""
    batch = {f"S{i}": text for i, text in enumerate(texts)}
    # eval reads the script itself, as `-c` would; the subshell keeps what it changes to itself
    lead = "a=(1); " if shell.startswith("bash") else ""
    driver = "".join(f'( {lead}eval "$S{i}" ) >/dev/null 2>&1 </dev/null\n' for i in range(len(batch)))
    if shell == "bash-as-sh":
        driver = "set -o posix\n" + driver
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as made:
        with contextlib.suppress(subprocess.TimeoutExpired):
            run_text(shell.split("-")[0], "ulimit -t 5\n" + driver, {**variables, **batch}, Path(made))
        return (Path(made) / CANARY).exists()


def culprits(batch: list[tuple[str, str]], variables: dict[str, str], shell: str = "bash") -> list[tuple[str, str]]:
    """Which of the scripts ran the value: (script, text)."""
    return [(script, text) for script, text in batch if run_batch(shell, [text], variables)]


def search(seconds: float, seed: int) -> int:
    rng = random.Random(seed)
    dialects = [d for d in DIALECTS if shutil.which(d[1].split("-")[0])]
    until = time.monotonic() + seconds
    tried = dict.fromkeys([shell for _, shell in dialects], 0)
    found = 0
    while time.monotonic() < until:
        dialect, shell = rng.choice(dialects)
        soup: list[Any] = rng.choice(
            [PHRASES, PHRASES, PHRASES, SOUP, SOUP + RARE, rng.sample(SOUP + RARE, 20) + ["${{ v }}"] * 4]
        )
        scripts = accepted_scripts(rng, dialect, soup, rng.choice([6, 9, 14]))
        batch = [next(scripts) for _ in range(BATCH)]
        for first in rng.sample(EVIL, 5):
            variables = {"WEFT_V1": first, "WEFT_V2": rng.choice(EVIL), "x": rng.choice(["", "1", "a"])}
            if run_batch(shell, [text for _, text in batch], variables):
                for script, text in culprits(batch, variables, shell):
                    found += 1
                    print(f"{shell}: {script!r}\n  -> {text!r}\n  with {variables}", flush=True)
        tried[shell] += len(batch)
    print(f"tried {tried}, found {found}")
    return found


if __name__ == "__main__":
    numbers = [float(arg) for arg in sys.argv[1:]]
    sys.exit(1 if search(numbers[0] if numbers else 300, int(numbers[1]) if len(numbers) > 1 else 1) else 0)
