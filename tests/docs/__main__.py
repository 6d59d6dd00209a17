"""Writes the generated pages of docs/reference: `make docs`."""

from pathlib import Path

from tests.docs.events import events_reference
from tests.docs.http import errors_reference, http_reference
from tests.docs.metrics import metrics_reference
from tests.docs.python import python_reference
from tests.docs.states import states_reference
from tests.docs.tools import tools_reference
from weft.cli.reference import cli_reference, settings_reference

PAGES = {
    "states.md": states_reference,
    "events.md": events_reference,
    "metrics.md": metrics_reference,
    "cli.md": cli_reference,
    "settings.md": settings_reference,
    "mcp.md": tools_reference,
    "http.md": http_reference,
    "errors.md": errors_reference,
    "python.md": python_reference,
}


def main() -> None:
    directory = Path(__file__).parents[2] / "docs" / "reference"
    directory.mkdir(parents=True, exist_ok=True)
    for name, make in PAGES.items():
        path, text = directory / name, make()
        if not path.exists() or path.read_text() != text:
            path.write_text(text)
            print(f"wrote docs/reference/{name}")


if __name__ == "__main__":
    main()
