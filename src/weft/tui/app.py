"""The application behind `weft top`: which screen is shown, where `:` goes, and what the help says."""

import sys
from collections.abc import Callable
from typing import Any, ClassVar, Final

from textual.app import App
from textual.binding import Binding, BindingType

from weft.client.verbs import Connection
from weft.tui.link import TopLink
from weft.tui.list_screens import DeadScreen, NodesScreen, PoolsScreen, TriggersScreen
from weft.tui.live_screen import ERRORS, PLACES, LiveScreen
from weft.tui.prompts import Words
from weft.tui.run_screen import RunScreen
from weft.tui.runs_screen import RunsScreen
from weft.tui.task_screen import TaskScreen

#: With the 5 ms of Python, a thread that decodes a page of tasks makes a key wait for several turns.
SWITCH_INTERVAL_S: Final = 0.001
LISTS: Final[dict[str, Callable[[TopLink], LiveScreen]]] = {
    "runs": RunsScreen, "nodes": NodesScreen, "dead": DeadScreen, "triggers": TriggersScreen, "pools": PoolsScreen,
}  # fmt: skip
HELP: Final = (
    "arrows, PgUp, PgDn, Home, End   select",
    "enter   open what is selected; esc   go back",
    "/words   show only what has all of these words; a state is a word, too",
    ":runs :nodes :dead :triggers :pools :run ID :quit   go there; tab completes",
    "[ ] { }   of a run: go through its history; < >   to the ends of its generations; esc   back to now",
    "capital letters   of a run's screen: what is done to the whole run",
    "The last lines of the screen list the keys that work for what is selected, with your role.",
)


class TopApp(App[None]):
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [Binding("ctrl+c", "quit", show=False, priority=True)]
    CSS = "Screen { layout: vertical; }"

    def __init__(self, link: TopLink, run: str | None = None) -> None:
        super().__init__()
        self.theme = "ansi-dark"  # the terminal's own colours
        self.link = link
        self.known_runs: list[str] = []
        self._first = run

    def on_mount(self) -> None:
        self.link.changed = self._link_changed
        self.push_screen(RunsScreen(self.link))
        if self._first is not None:
            self.open_run(self._first)
        self.run_worker(self._learn_role(), group="role")

    async def _learn_role(self) -> None:
        try:
            await self.link.learn_role()
        except ERRORS as problem:
            self.say(str(problem))
            self.set_timer(1.0, lambda: self.run_worker(self._learn_role(), group="role"))
        self._link_changed()

    def _link_changed(self) -> None:
        if isinstance(self.screen, LiveScreen):
            self.screen.draw_frame()

    def say(self, problem: str) -> None:
        if isinstance(self.screen, LiveScreen):
            self.screen.say(problem, error=True)

    # Going somewhere

    def open_run(self, run_id: str) -> None:
        self.push_screen(RunScreen(self.link, run_id))

    def open_runs(self, trigger: str) -> None:
        self.push_screen(RunsScreen(self.link, trigger))

    def open_task(self, run_id: str, task: str) -> None:
        self.push_screen(TaskScreen(self.link, run_id, task))

    def places(self, screen: LiveScreen) -> list[str]:
        """What `:` completes."""
        return [*PLACES, "run last", *(f"run {run_id}" for run_id in self.known_runs)]

    async def go(self, words: str) -> None:
        place, _, rest = words.partition(" ")
        if place in ("quit", "q"):
            self.exit()
        elif place in LISTS and not rest:
            while len(self.screen_stack) > 2:
                self.pop_screen()
            if place != "runs":
                self.push_screen(LISTS[place](self.link))
        elif place == "run" and rest:
            await self._go_to_run(rest.strip())
        else:
            self.say(f"there is no :{words}; ? lists where it goes")

    async def _go_to_run(self, ref: str) -> None:
        try:
            found = await self.link.ask(lambda connection: connection.run(ref))
        except ERRORS as problem:
            self.say(str(problem))
        else:
            self.open_run(found.id)

    # Text

    def explain(self, run_id: str, task: str | None, event: int | None = None) -> None:
        """With `event`: as it was after it."""
        self.run_worker(self._explain(run_id, task, event), group="why")

    async def _explain(self, run_id: str, task: str | None, event: int | None) -> None:
        try:
            found = await self.link.ask(lambda connection: connection.why(run_id, task, event))
        except ERRORS as problem:
            self.say(str(problem))
            return
        lines: list[str] = []
        for one in found:
            lines += [f"{one.task}: {one.summary}", *(f"    {line}" for line in one.details)]
        self.push_screen(Words(f"why {task or run_id}", lines or ["nothing waits: all of its tasks have ended"]))

    def show_help(self, screen: LiveScreen) -> None:
        here = [f"{key:<10}{name}" for key, name in screen.working_keys()]
        self.push_screen(Words("keys", [*HELP, "", "Here, now:", *here]))


def run_top(connection: Connection, place: str, run: str | None = None) -> int:
    """Until the person leaves. The exit code."""
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    app: App[Any] = TopApp(TopLink(connection, place), run)
    app.run()
    return app.return_code or 0
