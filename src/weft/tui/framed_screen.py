"""What all screens have around their list: a head that says what is shown and whether it is true, and the keys."""

import time
from collections.abc import Sequence
from textwrap import wrap
from typing import Any, Final

from rich.text import Text
from textual.app import ComposeResult
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Static

from weft.cli.terminal.formats import clock, duration
from weft.cli.terminal.terminal import cut, printable, width_of
from weft.tui.line_table import Column, LineTable
from weft.tui.link import TopLink
from weft.tui.looks import Cell
from weft.tui.prompts import PromptLine
from weft.tui.verbs import Verb, offered

NOTE_S: Final = 6.0
NOTE_LINES: Final = 3


class FrameText(Static):
    """The head or the keys. The whole screen is laid out anew only if its number of lines changes: that takes longer
    than everything else that a key does."""

    def __init__(self, id: str) -> None:
        super().__init__(id=id)
        self._shown = Text()
        self.styles.height = 1

    def show(self, text: Text) -> None:
        if text != self._shown:
            self._shown = text
            self.styles.height = text.plain.count("\n") + 1
            self.update(text, layout=False)


class FramedScreen(Screen[None]):
    title_text = ""
    columns: Sequence[Column] = ()
    filterable = True
    filter_word = "filter"

    def __init__(self, link: TopLink) -> None:
        super().__init__()
        self.link = link
        self.filter = ""
        self.table = LineTable(self.columns, self.cells, self.key_of, id="rows")
        self.first_focus: Widget = self.table
        self._note = ("", "")
        self._note_until = 0.0

    # What a screen of its own says

    def cells(self, row: Any) -> Sequence[Cell]:
        raise NotImplementedError

    def key_of(self, row: Any) -> Any:
        raise NotImplementedError

    def subject(self) -> Any:
        """What verbs are for: the selected row, in general."""
        return self.table.row

    def verbs(self) -> list[tuple[Verb, Any]]:
        """What can be done here, each with what it is done to."""
        subject = self.subject()
        return [(verb, subject) for verb in offered(subject, self.link.may)]

    def more_keys(self) -> list[tuple[str, str]]:
        """Keys of this screen alone, for the row that is selected."""
        return []

    def details(self) -> str:
        """The second line of the head."""
        return ""

    def body(self) -> list[Widget]:
        return [self.table]

    # Drawing

    def compose(self) -> ComposeResult:
        yield FrameText("head")
        yield from self.body()
        yield PromptLine()
        yield FrameText("keys")

    def draw_frame(self) -> None:
        """Head and keys; the list draws itself."""
        if not self.is_mounted or not self.query("#head"):  # a poll may end while the screen opens or closes
            return
        width = self.size.width or 80
        head = Text(no_wrap=True, overflow="crop")
        left = f" weft {self.title_text} "
        right = self._status()
        head.append(cut(left, max(10, width - width_of(right) - 1)), style="bold")
        head.append(" " * max(1, width - width_of(head.plain) - width_of(right)))
        head.append(right, style="bold red reverse" if self.link.silent else "dim")
        details = self.details()
        if details:
            head.append("\n" + cut(f" {printable(details)}", width))
        self.query_one("#head", FrameText).show(head)
        self.query_one("#keys", FrameText).show(self._key_text(width))

    def _status(self) -> str:
        if self.link.silent:
            since = self.link.heard_at
            silent = duration(max(0, time.time() - since) * 1000)
            return f" no answer since {clock(int(since * 1000))} ({silent}) "
        role = "" if self.link.role == "admin" else f"{self.link.role} · "
        place = self.link.place
        room = max(12, (self.size.width or 80) // 2 - 12)
        return f"{role}{place if len(place) <= room else '…' + place[1 - room :]} "

    def working_keys(self) -> list[tuple[str, str]]:
        """Those that work now, for this row and this role."""
        verbs = [(verb.key, verb.name) for verb, _ in self.verbs()]
        back = [("esc", "back")] if len(self.app.screen_stack) > 2 or self.filter else []
        filtering = [("/", self.filter_word)] if self.filterable else []
        return [*self.more_keys(), *verbs, *filtering, (":", "go to"), *back, ("?", "help"), ("q", "quit")]

    def _key_text(self, width: int) -> Text:
        text, used = Text(no_wrap=True, overflow="crop"), 0
        if time.monotonic() < self._note_until:
            for line in wrap(self._note[0], max(10, width - 2))[:NOTE_LINES]:
                text.append(f" {line}\n", style=self._note[1])
        for key, name in self.working_keys():
            length = width_of(key) + width_of(name) + 3
            if used and used + length > width:
                text.append("\n")
                used = 0
            text.append(f" {key}", style="bold")
            text.append(f" {name} ", style="dim")
            used += length
        return text

    def say(self, text: str, *, error: bool = False) -> None:
        """A line above the keys, for a while."""
        self._note = (printable(text.replace("\n", " ")), "bold red" if error else "bold")
        self._note_until = time.monotonic() + NOTE_S
        self.draw_frame()

    def on_line_table_moved(self) -> None:
        self.draw_frame()

    def on_resize(self) -> None:
        self.draw_frame()
