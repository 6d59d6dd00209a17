"""show RUN TASK tells what ran: item, command, arguments, variables; never the value of a secret."""

from pathlib import Path

from tests.cli.conftest import Weft

DEFINITION = """\
inputs: {who: {default: me}}
env: {SHARED: "${{ inputs.who }}"}
tasks:
  cities: {run: 'echo ''["Rome", "Oslo"]'' > $WEFT_OUTPUT'}
  visit:
    map: ${{ tasks.cities.output }}
    argv: [echo, "${{ item }}", "${{ index }}"]
    env: {CITY: "${{ item }}"}
    with: {city: "${{ item }}"}
  say: {needs: [visit], run: 'echo ${{ inputs.who }}', secrets: [TOKEN]}
  long: {argv: [echo, "${{ inputs.who }}"]}
"""


def test_what_ran_is_shown_without_secrets(weft: Weft, tmp_path: Path) -> None:
    (tmp_path / "w.yaml").write_text(DEFINITION)
    secret = {"TOKEN": "swordfish-17"}
    assert weft("run", "w.yaml", "-i", f"who={'x' * 5000}", env=secret).code == 0

    element = weft("show", "last", "visit.1", "--json").json["launch"]
    assert element["item"] == "Oslo"
    assert element["spec"]["argv"] == ["echo", "Oslo", "1"]
    assert element["spec"]["with"] == {"city": "Oslo"}
    assert element["env"]["CITY"] == "Oslo"
    shown = weft("show", "last", "visit.1").out
    assert 'argv     ["echo", "Oslo", "1"]' in shown

    said = weft("show", "last", "say", "--json", env=secret)
    assert said.json["launch"]["secrets"] == ["TOKEN"]
    assert "${{" not in said.json["launch"]["spec"]["run"]
    assert "swordfish" not in said.out
    assert "swordfish" not in weft("show", "last", "say", env=secret).out

    long = weft("show", "last", "long", "--json").json["launch"]["spec"]["argv"][1]
    assert len(long) < 2100
    assert long.endswith("(5,000 characters)")
    assert weft("show", "last", "visit", "--json").json["launch"]["spec"]["argv"][1] == "${{ item }}"
