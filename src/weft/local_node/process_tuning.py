"""Settings of processes that are Weft's own. An application that embeds Weft keeps its own."""

import gc
import sys

from weft.executors.linux import deny_inspection


def tune() -> None:
    """Threads hand over ten times sooner than by default (a store's thread waits for the loop's otherwise), and the
    collector looks less often: rows come and go by the thousand and form no cycles. Tasks of the same user cannot
    read the environment that this process was started with, where WEFT_TOKEN and the store's password may be."""
    deny_inspection()
    sys.setswitchinterval(0.0005)
    gc.freeze()  # without a search for garbage first: it took 27 ms beside other load, and found 174 objects
    gc.set_threshold(50_000, 20, 50)
