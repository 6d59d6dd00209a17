"""What stands over a screen: a question, a line to be filled in, some text to be read; a person's editor."""

import os
import shlex
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from rich.text import Text
from textual import events
from textual.app import App, ComposeResult
from textual.containers import Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.suggester import Suggester
from textual.widgets import Input, Static

from weft.cli.terminal.terminal import printable

BOX = """
{name} {{ align: center middle; }}
{name} > .box {{ width: 90%; max-width: 90; height: auto; max-height: 90%; border: round $foreground; padding: 0 1; }}
"""


class Confirm(ModalScreen[bool]):
    DEFAULT_CSS = BOX.format(name="Confirm")

    def __init__(self, question: str) -> None:
        super().__init__()
        self._question = question

    def compose(self) -> ComposeResult:
        with Vertical(classes="box"):
            yield Static(Text(printable(self._question)))
            yield Static(Text("y yes   n no", style="bold"))

    def on_key(self, event: events.Key) -> None:
        event.stop()
        if event.key in ("y", "n", "escape"):
            self.dismiss(event.key == "y")


class Ask(ModalScreen[str | None]):
    """None: it was left with Esc."""

    DEFAULT_CSS = BOX.format(name="Ask")

    def __init__(self, question: str) -> None:
        super().__init__()
        self._question = question

    def compose(self) -> ComposeResult:
        with Vertical(classes="box"):
            yield Static(Text(printable(self._question)))
            yield Input(compact=True)
            yield Static(Text("enter send   esc leave it", style="bold"))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        self.dismiss(event.value)

    def on_key(self, event: events.Key) -> None:
        if event.key == "escape":
            event.stop()
            self.dismiss(None)


class Words(ModalScreen[None]):
    """Text to be read: why a task is where it is, the keys, who holds a pool."""

    DEFAULT_CSS = BOX.format(name="Words") + "Words > .box { height: auto; }"

    def __init__(self, title: str, lines: Sequence[str]) -> None:
        super().__init__()
        self._title = title
        self._lines = lines

    def compose(self) -> ComposeResult:
        with VerticalScroll(classes="box") as box:
            box.can_focus = True
            yield Static(Text(printable(self._title), style="bold"))
            yield Static(Text("\n".join(printable(line) for line in self._lines)))

    def on_key(self, event: events.Key) -> None:
        if event.key in ("escape", "q", "enter", "w", "question_mark"):
            event.stop()
            self.dismiss(None)


class WordsBegun(Suggester):
    """Completes a line that begins like one of these."""

    def __init__(self, choices: Sequence[str]) -> None:
        super().__init__(use_cache=False, case_sensitive=True)
        self.choices = choices

    async def get_suggestion(self, value: str) -> str | None:
        return next((choice for choice in self.choices if value and choice.startswith(value)), None)


class PromptLine(Input):
    """The line at the bottom: `:` goes somewhere, `/` filters."""

    DEFAULT_CSS = "PromptLine { display: none; }"

    def __init__(self) -> None:
        super().__init__(compact=True, select_on_focus=False)
        self.sign = ""

    def begin(self, sign: str, value: str, choices: Sequence[str]) -> None:
        self.sign = sign
        self.suggester = WordsBegun([sign + choice for choice in choices])
        self.value = sign + value
        self.cursor_position = len(self.value)
        self.display = True
        self.focus()

    async def take(self, event: events.Key) -> None:
        """A key that went elsewhere."""
        if event.key == "enter":
            await self.action_submit()
        elif event.key == "backspace":
            self.action_delete_left()
        elif event.character and event.is_printable:
            self.insert_text_at_cursor(event.character)

    def end(self) -> None:
        self.sign = ""
        self.display = False
        self.value = ""

    async def on_key(self, event: events.Key) -> None:
        if event.key == "tab" and self._suggestion:
            event.stop()
            event.prevent_default()
            self.value = self._suggestion
            self.cursor_position = len(self.value)


class NoEditor(ValueError):
    """The editor could not be started, or did not end well."""


def edited(app: App[None], text: str) -> str:
    """The text as it was saved. `VISUAL` or `EDITOR` names the program; without them it is `vi`."""
    command = shlex.split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi")
    with tempfile.TemporaryDirectory(prefix="weft-") as place:
        file = Path(place) / "workflow.yaml"
        file.write_text(text, encoding="utf-8")
        with app.suspend():
            try:
                code = subprocess.run([*command, str(file)], check=False).returncode
            except OSError as problem:
                raise NoEditor(f"{command[0]}: {problem.strerror}; set EDITOR to a program that is there") from None
        if code != 0:
            raise NoEditor(f"{command[0]} ended with {code}: nothing is changed")
        return file.read_text(encoding="utf-8")
