"""A screen that stays true by itself, and what keys do on every screen.

Its rows are asked for again and again, in threads. A store or server that does not answer changes nothing on the
screen but the head, which says since when; the next answer brings everything up to date.
"""

import asyncio
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, cast

from textual import events
from textual.app import SuspendNotSupported
from textual.screen import ModalScreen
from textual.widgets import Input

from weft.authoring.errors import DefinitionErrors
from weft.cli.terminal.terminal import printable
from weft.client.verbs import Connection
from weft.core.commands import Refused
from weft.operations.errors import Ambiguous, ApiError, NotFound
from weft.tui.framed_screen import FramedScreen
from weft.tui.link import UNANSWERED, TopLink
from weft.tui.prompts import Ask, Confirm, PromptLine, edited
from weft.tui.verbs import Verb

if TYPE_CHECKING:
    from weft.tui.app import TopApp

EVERY_S: Final = 1.0
Preview = Callable[[Connection, Any, str], str]
PLACES: Final = ("runs", "nodes", "dead", "triggers", "pools", "run ", "quit")
ERRORS: Final = (NotFound, Ambiguous, ApiError, Refused, DefinitionErrors, ValueError, *UNANSWERED)


class LiveScreen(FramedScreen):
    cost_factor = 10.0  # what takes long to ask for is asked for less often

    def __init__(self, link: TopLink) -> None:
        super().__init__(link)
        self._wake = asyncio.Event()

    # What a screen of its own says

    async def update(self) -> None:
        """Ask for what it shows, and show it."""
        raise NotImplementedError

    async def pressed(self, key: str) -> bool:
        """A key of this screen alone; False: it is none."""
        return False

    async def filtered(self) -> None:
        """The filter is another one."""
        self.soon()

    def every_s(self) -> float:
        return EVERY_S

    # Staying true

    def on_mount(self) -> None:
        self.first_focus.focus()
        self.run_worker(self._live(), exclusive=True, group="live")
        self.set_interval(1.0, self.draw_frame)
        self.draw_frame()

    def soon(self) -> None:
        """Ask now, not when it is time."""
        self._wake.set()

    def on_screen_resume(self) -> None:
        self.soon()
        self.draw_frame()

    @property
    def seen(self) -> bool:
        """It is on top, but for questions."""
        below = [screen for screen in self.app.screen_stack if not isinstance(screen, ModalScreen)]
        return below[-1:] == [self]

    async def _live(self) -> None:
        while True:
            began = time.monotonic()
            self._wake.clear()
            if self.seen:
                await self._update_once()
            cost = time.monotonic() - began
            wait_s = max(self.every_s(), 0.0 if self.link.silent else cost * self.cost_factor)
            try:
                await asyncio.wait_for(self._wake.wait(), wait_s)
            except TimeoutError:
                continue

    async def _update_once(self) -> None:
        try:
            await self.update()
        except UNANSWERED as problem:
            self.table.empty = f" {printable(str(problem))}"
        except ERRORS as problem:
            self.say(str(problem), error=True)
        self.draw_frame()

    # Keys

    @property
    def top(self) -> "TopApp":
        return cast("TopApp", self.app)

    async def on_key(self, event: events.Key) -> None:
        prompt = self.query_one(PromptLine)
        if prompt.sign:
            event.stop()
            if event.key == "escape":
                await self._leave_prompt(cancelled=True)
            else:
                await prompt.take(event)  # it was sent before the line had the focus
            return
        key = event.character if event.character and event.character.isprintable() else event.key
        found = next((one for one in self.verbs() if one[0].key == key), None)
        if await self.pressed(key):
            event.stop()
        elif found is not None:
            event.stop()
            self.run_worker(self._carry_out(*found), group="verb")
        elif key == ":" or (key == "/" and self.filterable):
            event.stop()
            choices = self.top.places(self) if key == ":" else ()
            prompt.begin(key, self.filter if key == "/" else "", choices)
        elif key == "?":
            self.top.show_help(self)
        elif key == "q":
            self.app.exit()
        elif key == "escape":
            await self._back()

    async def _back(self) -> None:
        if self.filter:
            self.filter = ""
            await self.filtered()
            self.draw_frame()
        elif len(self.app.screen_stack) > 2:
            self.app.pop_screen()

    async def on_input_changed(self, event: Input.Changed) -> None:
        prompt = self.query_one(PromptLine)
        if prompt.sign and not event.value.startswith(prompt.sign):
            await self._leave_prompt(cancelled=True)
        elif prompt.sign == "/" and event.value[1:] != self.filter:
            self.filter = event.value[1:]
            await self.filtered()

    async def on_input_submitted(self, event: Input.Submitted) -> None:
        sign, value = event.value[:1], event.value[1:].strip()
        await self._leave_prompt(cancelled=False)
        if sign == ":" and value:
            await self.top.go(value)

    async def _leave_prompt(self, *, cancelled: bool) -> None:
        prompt = self.query_one(PromptLine)
        sign = prompt.sign
        prompt.end()
        self.first_focus.focus()
        if cancelled and sign == "/" and self.filter:
            self.filter = ""
            await self.filtered()
        self.draw_frame()

    async def _carry_out(self, verb: Verb, subject: Any) -> None:
        answer = ""
        if verb.edit is not None:
            text = await self._edit(verb, subject)
            if text is None:
                return
            answer = text
        elif verb.ask is not None:
            asked = await self.app.push_screen_wait(Ask(verb.ask))
            if asked is None:
                return
            answer = asked
        elif verb.confirm is not None and not await self.app.push_screen_wait(Confirm(verb.confirm(subject))):
            return
        try:
            self.say(await self.link.ask(lambda connection: verb.act(connection, subject, answer)))
        except ERRORS as problem:
            self.say(f"{verb.name}: {problem}", error=True)
        self.soon()

    async def _edit(self, verb: Verb, subject: Any) -> str | None:
        """The text that a person has edited and agreed to; None: it is left as it was. What is wrong with a text can
        be mended: nothing that was written is lost."""
        edit, preview = verb.edit, verb.preview
        assert edit is not None
        assert preview is not None
        try:
            text = first = await self.link.ask(lambda connection: edit(connection, subject))
            while True:
                text = edited(self.app, text)
                if text == first:
                    self.say(f"{verb.name}: nothing was changed")
                    return None
                question, agreed = await self._previewed(preview, subject, text)
                yes = await self.app.push_screen_wait(Confirm(question))
                if agreed or not yes:
                    return text if yes else None
        except (*ERRORS, SuspendNotSupported) as problem:
            self.say(f"{verb.name}: {problem}", error=True)
            return None

    async def _previewed(self, preview: Preview, subject: Any, text: str) -> tuple[str, bool]:
        """(a question, whether a yes to it means to go on; otherwise, to edit again)."""
        try:
            return await self.link.ask(lambda connection: preview(connection, subject, text)), True
        except UNANSWERED:
            raise
        except ERRORS as problem:
            return f"{problem}\n\nEdit it again?", False
