"""Fifty processes that are never the same: each forks its successor into a new session, and exits.

usage: comets.py READY_FILE             They give up by themselves after 30 seconds.
As long as one lives, a file `alive` is made again when it is removed.
"""

import os
import signal
import sys
import time

end = time.monotonic() + 30


def comet() -> None:
    while time.monotonic() < end:
        time.sleep(0.004)
        if os.fork():
            os._exit(0)
        os.setsid()
        os.close(os.open("alive", os.O_CREAT | os.O_WRONLY))
    os._exit(0)


signal.signal(signal.SIGTERM, signal.SIG_IGN)
for _ in range(50):
    if os.fork() == 0:
        comet()
with open(sys.argv[1], "w") as file:
    file.write("ready")
while time.monotonic() < end:
    time.sleep(1)
