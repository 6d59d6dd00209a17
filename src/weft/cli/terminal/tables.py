"""Lists in columns that fit the window: the widest gives way first; where it is very narrow, the last are dropped."""

from collections.abc import Sequence

from weft.cli.terminal.terminal import Terminal, cut, padded, width_of

_GAP = "  "
_NARROWEST = 6


def table(
    terminal: Terminal, heads: Sequence[str], rows: Sequence[Sequence[str]], styles: Sequence[str | None] = ()
) -> list[str]:
    """`styles` by column: a style's name, or "state" for the colour of the state that the cell names."""
    if not rows:
        return []
    widths = [max(width_of(head), *(width_of(row[at]) for row in rows)) for at, head in enumerate(heads)]
    limit = terminal.size()[0] if terminal.tty else 10_000
    while len(widths) > 1 and sum(min(width, _NARROWEST) for width in widths) + len(_GAP) * (len(widths) - 1) > limit:
        widths.pop()
    while sum(widths) + len(_GAP) * (len(widths) - 1) > limit and max(widths) > _NARROWEST:
        widths[widths.index(max(widths))] -= 1
    lines = [terminal.paint(_line(heads, widths, terminal, ()), "dim")]
    lines += [_line(row, widths, terminal, styles) for row in rows]
    return lines


def _line(cells: Sequence[str], widths: list[int], terminal: Terminal, styles: Sequence[str | None]) -> str:
    out = []
    for at, cell in enumerate(cells[: len(widths)]):
        text = cut(cell, widths[at], terminal.sign("more"))
        space = "" if at == len(widths) - 1 else padded(text, widths[at])[len(text) :]
        style = styles[at] if at < len(styles) else None
        if style == "state":
            text = terminal.state(cell.replace(" ", "_"), text)
        elif style is not None:
            text = terminal.paint(text, style)
        out.append(text + space)
    return _GAP.join(out).rstrip()
