"""How states look in the terminal view: a sign of its own for each, its word beside it, and a colour last."""

from typing import Final

from rich.style import Style

from weft.cli.terminal.formats import state_word

PLAIN: Final = Style()
DIM: Final = Style(dim=True)
BOLD: Final = Style(bold=True)
REVERSE: Final = Style(reverse=True)
RED: Final = Style(color="red")
YELLOW: Final = Style(color="yellow")
CYAN: Final = Style(color="cyan")
GREEN: Final = Style(color="green")

#: The sign and the colour of a state; all signs differ, so that nobody has to tell colours apart.
LOOKS: Final[dict[str, tuple[str, Style]]] = {
    "pending": (" ", DIM), "queued": ("·", PLAIN), "scheduled": ("↻", YELLOW), "waiting": ("?", YELLOW),
    "running": ("▸", CYAN), "succeeded": ("✓", GREEN), "failed": ("✗", RED), "dead_letter": ("†", RED),
    "cancelled": ("■", YELLOW), "skipped": ("○", DIM), "held": ("=", CYAN), "paused": ("‖", YELLOW),
    "lost": ("!", YELLOW), "returned": ("↩", YELLOW),
    "healthy": ("✓", GREEN), "stale": ("!", YELLOW), "draining": ("■", YELLOW), "dead": ("†", RED),
    "left": ("○", DIM),
}  # fmt: skip
BAR_CELLS: Final = 10

Cell = tuple[str, Style]


def state_cell(state: str) -> Cell:
    sign, style = LOOKS.get(state, (" ", PLAIN))
    return f"{sign} {state_word(state)}", style


def bar(done: int, total: int) -> str:
    full = BAR_CELLS if total and done >= total else BAR_CELLS * done // max(1, total)
    return "━" * full + "─" * (BAR_CELLS - full)
