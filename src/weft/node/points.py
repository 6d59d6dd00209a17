"""Named places where a test may end this process hard, to see what is lost: nothing.

`WEFT_CRASH_AT=exchange.committed:3` kills the process with SIGKILL the third time it reaches that place. Unset, a
place costs one look at a global.
"""

import os
import signal

POINTS = (
    "submit.before_commit",  # a run was decided, nothing is stored
    "submit.committed",  # it is stored, nobody knows yet
    "exchange.before_commit",  # reports and claims are decided, nothing is stored
    "exchange.committed",  # they are stored, the node does not know yet
    "attempt.before_start",  # claimed, about to be handed to its executor
    "once.before_commit",  # an effect of weft.once has happened, its memo says that it has begun
    "once.committed",  # its memo is complete, the function does not know yet
    "copy.marked",  # the source takes nothing more, the target has nothing yet
    "copy.filled",  # the target has everything, verified, and nothing is committed
    "copy.committed",  # the target is open, the source does not know yet
    "move.marked",  # no node starts on the log any more, its content is nowhere else yet
    "move.kept",  # it is in a file beside the replica
    "fire.before_commit",  # a trigger's fire was decided, nothing is stored
    "fire.committed",  # its run is stored, the leader does not know yet
    "notify.sent",  # a notification is delivered, the store does not know yet
    "attempt.ended",  # its process is over, the report is not sent
)

#: Names, and how often each is passed until the process is killed there.
ARMED: dict[str, int] = {}


def arm(text: str | None) -> None:
    """`name` or `name:n`; None or empty disarms."""
    ARMED.clear()
    if text:
        name, _, count = text.partition(":")
        if name not in POINTS:
            raise ValueError(f"there is no place called {name!r}")
        ARMED[name] = int(count or 1)


def reach(name: str) -> None:
    if not ARMED or name not in ARMED:
        return
    ARMED[name] -= 1
    if ARMED[name] == 0:
        os.kill(os.getpid(), signal.SIGKILL)


arm(os.environ.get("WEFT_CRASH_AT"))
