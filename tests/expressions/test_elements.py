"""The combinations of a matrix, and the labels of elements."""

from typing import Any

import pytest

from weft.authoring.load import load_value
from weft.core.expressions import ExpressionError
from weft.core.expressions.elements import LABEL_MAX, array_of, combinations, labels_of


def pairs(matrix: dict[str, Any]) -> list[str]:
    return [" ".join(f"{key}={value}" for key, value in one.items()) for one in combinations(matrix)]


def test_the_last_axis_varies_fastest() -> None:
    assert pairs({"os": ["a", "b"], "py": [1, 2]}) == ["os=a py=1", "os=a py=2", "os=b py=1", "os=b py=2"]


def test_exclude_matches_all_its_keys() -> None:
    matrix = {"os": ["a", "b"], "py": [1, 2], "exclude": [{"os": "a"}, {"os": "b", "py": 2}]}
    assert pairs(matrix) == ["os=b py=1"]


def test_include_adds_keys_to_what_matches_and_is_a_combination_if_nothing_does() -> None:
    matrix = {
        "fruit": ["apple", "pear"],
        "animal": ["cat", "dog"],
        "include": [
            {"color": "green"},
            {"color": "pink", "animal": "cat"},
            {"fruit": "apple", "shape": "circle"},
            {"fruit": "banana"},
            {"fruit": "banana", "animal": "cat"},
        ],
    }
    assert pairs(matrix) == [
        "fruit=apple animal=cat color=pink shape=circle",
        "fruit=apple animal=dog color=green shape=circle",
        "fruit=pear animal=cat color=pink",
        "fruit=pear animal=dog color=green",
        "fruit=banana",
        "fruit=banana animal=cat",
    ]


def test_what_was_excluded_may_be_included_again() -> None:
    matrix = {"os": ["a", "b"], "exclude": [{"os": "a"}], "include": [{"os": "a", "slow": True}]}
    assert pairs(matrix) == ["os=b", "os=a slow=True"]


def test_only_include() -> None:
    assert pairs({"include": [{"a": 1}, {"b": 2}]}) == ["a=1", "b=2"]


def test_true_is_not_one() -> None:
    assert pairs({"x": [1, True], "exclude": [{"x": True}]}) == ["x=1"]


@pytest.mark.parametrize(("matrix", "message"), [
    ({"os": "linux"}, "the axis os must be an array"),
    ({"a": [0] * 1000, "b": [0] * 1000}, "1,000,000 combinations are over the limit"),
])  # fmt: skip
def test_what_cannot_be_combined(matrix: dict[str, Any], message: str) -> None:
    with pytest.raises(ExpressionError, match=message):
        combinations(matrix)


def labels(task: dict[str, Any], **inputs: Any) -> list[str]:
    document = {"inputs": dict.fromkeys(inputs, "array"), "tasks": {"t": {"run": "x", **task}}}
    definition = load_value(document).workflow.tasks[0]
    names = {"inputs": inputs}
    array = array_of(names, definition)
    return labels_of(names, definition, definition.replicas or len(array), array)


def test_labels() -> None:
    assert labels({"matrix": {"os": ["a"], "n": [1, None]}}) == ["os=a, n=1", "os=a, n=null"]
    assert labels({"matrix": {"n": "${{ inputs.n }}"}, "label": "${{ item.n }}"}, n=[1, [2]]) == ["1", "[2]"]
    assert labels({"map": "${{ inputs.c }}", "label": "in ${{ item.city }}"}, c=[{"city": "A\nB\x1b"}]) == ["in A B "]
    assert labels({"replicas": 2, "label": "shard ${{ index + 1 }}"}) == ["shard 1", "shard 2"]
    (long,) = labels({"map": ["x" * 500], "label": "${{ item }}"})
    assert len(long) == LABEL_MAX
    assert long.endswith("x…")
