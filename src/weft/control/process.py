"""Settings of the interpreter for processes that are Weft's own. An application that embeds Weft keeps its own."""

import gc
import sys


def tune() -> None:
    """Threads hand over ten times sooner than by default (a store's thread waits for the loop's otherwise), and the
    collector looks less often: rows come and go by the thousand and form no cycles."""
    sys.setswitchinterval(0.0005)
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)
