"""Which plugins are there, and why some of them cannot be used."""

import pytest

from tests.plugins.conftest import Install
from weft.plugins.registry import find_plugin, installed_types

GOOD = """
    from weft.plugins import AsyncExecutor

    class Echo(AsyncExecutor):
        schema = {"type": "object", "properties": {"text": {"type": "string"}}}
        requires = {"programs": ["sh"]}
"""


def test_a_plugin_is_found_by_its_type(install: Install) -> None:
    install("weft-echo", {"echo": "weft_echo:Echo"}, GOOD, version="2.5")
    found = find_plugin("echo")
    assert found is not None
    assert "echo" in installed_types()
    assert (found.distribution, found.version, found.error) == ("weft-echo", "2.5", None)
    assert found.schema is not None
    assert found.requires == {"programs": ("sh",)}
    assert not found.remote
    assert find_plugin("nothing") is None


@pytest.mark.parametrize(
    ("type_", "value", "source", "why"),
    [
        ("echo", "weft_bad:Echo", "raise OSError('no disk')", "weft_bad:Echo cannot be imported: OSError: no disk"),
        ("echo", "weft_bad:Echo", "raise SystemExit(3)", "weft_bad:Echo cannot be imported: SystemExit: 3"),
        ("echo", "weft_bad:Nothing", "", "cannot be imported: AttributeError: module 'weft_bad' has no attribute"),
        ("echo", "weft_bad:Echo", "Echo = 7", "weft_bad:Echo: expected a class, found a int"),
        ("echo", "weft_bad:Echo", "class Echo: start = stop = print", "Echo is no executor: it has no open, started"),
        ("shell", "weft_bad:Echo", GOOD, "this is one of Weft's own types; the plugin must have another name"),
        ("shel", "weft_bad:Echo", GOOD, "a definition with this type is taken for a misspelt 'shell'"),
        ("Echo!", "weft_bad:Echo", GOOD, "this is no name of a type: lower-case letters, digits and _"),
        (
            "echo", "weft_bad:Echo", GOOD.replace('"sh"', "1").replace("programs", "rooms"),
            "`requires` must be a dict with lists of names under programs, labels, capabilities",
        ),
        (
            "echo", "weft_bad:Echo", GOOD.replace('"type": "object"', '"allOf": []'),
            "weft_bad:Echo: schema: Weft does not check 'allOf'; check that in the executor instead",
        ),
        (
            "echo", "weft_bad:Echo", GOOD.replace('"type": "string"', '"$ref": "#/$defs/x"'),
            "weft_bad:Echo: there is no #/$defs/x; references lead to #/$defs/… of the same schema",
        ),
        (
            "echo", "weft_bad:Echo", GOOD.replace('["sh"]}', '["sh"]}\n        remove = handle = check = print'),
            "weft_bad:Echo: Echo is no executor: it has no engine",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_used_says_why(install: Install, type_: str, value: str, source: str, why: str) -> None:
    install("weft-bad", {type_: value}, source)
    found = find_plugin(type_)
    assert found is not None
    assert found.executor is None
    assert found.error is not None
    assert why in found.error


def test_two_distributions_of_one_type_are_both_refused(install: Install) -> None:
    install("weft-echo", {"echo": "weft_echo:Echo"}, GOOD)
    install("weft-other", {"echo": "weft_other:Echo"}, GOOD)
    found = find_plugin("echo")
    assert found is not None
    assert found.error == "weft-echo and weft-other both add this type; uninstall one of them"
