import re

from weft.executors.remote.names import attempt_name


def test_the_readable_form_is_kept_where_it_fits() -> None:
    assert attempt_name("20261117-ab12", "load", 3) == "weft-20261117-ab12-load-3"


def test_other_characters_and_lengths_become_a_hash() -> None:
    names = [
        attempt_name("r1", task, attempt)
        for task in ("load.3", "load-3", "Load", "load", "l_oad", "x" * 64, "x" * 65)
        for attempt in (1, 12)
    ]
    assert len(dict.fromkeys(names)) == len(names)
    assert all(re.fullmatch("[a-z0-9]([a-z0-9-]*[a-z0-9])?", name) and len(name) <= 63 for name in names), names
