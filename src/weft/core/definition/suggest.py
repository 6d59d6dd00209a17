"""'Did you mean …?': the known word nearest to an unknown one.

Words one edit away are generated and looked up, which costs the same for ten known words and for 100,000. Words two
edits away are searched only among few known words: to compare with each of many would take seconds.
"""

from collections.abc import Collection, Iterator
from typing import Final

_LETTERS: Final = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"
_FEW: Final = 1000
_LONGEST: Final = 64


def nearest(word: str, known: Collection[str]) -> str | None:
    """`known` should be fast to search (a dict or a set-like) and have a fixed order."""
    if not word or len(word) > _LONGEST:
        return None
    if len(known) <= _FEW:
        folded = _folded(word)
        for candidate in known:
            if candidate != word and _folded(candidate) == folded:
                return candidate
    if len(word) > 2:
        for candidate in _one_edit_away(word):
            if candidate in known and candidate != word:
                return candidate
    if len(word) > 5 and len(known) <= _FEW:  # of a shorter word, two edits leave too little: bogus, logs
        for candidate in known:
            if abs(len(candidate) - len(word)) <= 2 and _distance(word, candidate) == 2:
                return candidate
    return None


def did_you_mean(word: str, known: Collection[str]) -> str | None:
    match = nearest(word, known)
    return None if match is None else f"did you mean '{match}'?"


def _folded(word: str) -> str:
    return word.lower().replace("-", "").replace("_", "")


def _one_edit_away(word: str) -> Iterator[str]:
    for at in range(len(word)):
        yield word[:at] + word[at + 1 :]
    for at in range(len(word) - 1):
        yield word[:at] + word[at + 1] + word[at] + word[at + 2 :]
    for at in range(len(word) + 1):
        for letter in _LETTERS:
            yield word[:at] + letter + word[at:]
    for at in range(len(word)):
        for letter in _LETTERS:
            yield word[:at] + letter + word[at + 1 :]


def _distance(one: str, other: str) -> int:
    """Insertions, deletions, replacements and swaps of neighbours that turn one word into the other."""
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, a in enumerate(one, 1):
        before, last, row = row, before, [i]
        for j, b in enumerate(other, 1):
            cost = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (a != b))
            if i > 1 and j > 1 and a == other[j - 2] and one[i - 2] == b:
                cost = min(cost, last[j - 2] + 1)
            row.append(cost)
    return row[-1]
