"""Carries out a node's last will: one command, bounded in time."""

import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
else:
    import _signal as signal  # `signal` imports enum, which takes longer than the spawner's start

_CHECK_S = 0.02


def carry_out(argv: tuple[bytes, ...], seconds_max: float) -> None:
    """Run the command and wait for its end. It blocks: the spawner has killed all attempts before."""
    try:
        pid = os.posix_spawn(argv[0], argv, os.environ, setsid=True, setsigmask=(), setsigdef=(signal.SIGTERM,))
    except OSError:
        return
    end = time.monotonic() + seconds_max
    while os.waitpid(pid, os.WNOHANG)[0] == 0:
        if time.monotonic() > end:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            return
        time.sleep(_CHECK_S)
