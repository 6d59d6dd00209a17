"""The messages between a node and a Python runner: framed as those of the spawner are (see spawner/messages.py).

node -> runner
    (START, id, function, arguments, variables, output directory, file stem, cap)
                                    the arguments marshalled on their own: what cannot be must harm nobody else
    (STOP, id)                      raise Stopped in it, or cancel it
    (ANSWER, number, status, value) to a question of this runner's
    (QUIT,)                         end once nothing is left to do
runner -> node
    (HELLO,)                        once, first; with the descriptor of the mark (see Mark)
    (FILES,)                        with the descriptors of the files that plain functions print to from now on
    (KIND, id, is async)            of this one's function, when it is async or stands where only async ones can
    (UNBEGUN, [ids])                take these back: they would have to wait here
    (ENDED, id, started or None, ended, stopped, output as JSON or None, failure or None, context as JSON or None,
            stdout, stderr, processes left running)
        a failure is (one line, type, message, traceback), a stream (bytes written, head kept, tail kept)
    (ASK, id, number, key, ending or None, value as JSON or None, take over)
                                    for weft.once (see protocol.Question); the number is the runner's own
    (LEAVING, why)                  this runner takes no more

The socket is the runner's standard input when it starts: nobody else can reach it. An attempt's secrets go this way
and not through an environment, which other processes of the user can read.

A runner runs what it got in the order it got it. It answers each START with one ENDED or one UNBEGUN.
"""

import mmap
import os

START, STOP, QUIT, HELLO, FILES, KIND, UNBEGUN, ENDED, LEAVING, ASK, ANSWER = range(11)

#: Why a runner takes no more. What it left running must be killed, so it does not end by itself then.
WORN, GROWN, CHANGED, ASKED, LEFT_PROCESSES = "worn", "grown", "changed", "asked", "left processes"

#: The last argument of a runner that serves one attempt alone: its own output is that attempt's.
OWN = "own"

_MARK_BYTES = 16


class Mark:
    """Which attempt has the processor, and since when: in memory that outlives the runner.

    Whatever kills a runner, the node can tell from it whose doing it was.
    """

    def __init__(self, fd: int) -> None:
        self.fd = fd
        if os.fstat(fd).st_size < _MARK_BYTES:
            os.ftruncate(fd, _MARK_BYTES)
        page = memoryview(mmap.mmap(fd, _MARK_BYTES))
        self._ids = page.cast("Q")
        self._times = page.cast("d")

    def set(self, id: int, started: float) -> None:
        self._times[1] = started
        self._ids[0] = id

    def switch(self, id: int) -> None:
        self._ids[0] = id

    def clear(self) -> None:
        self._ids[0] = 0

    @property
    def id(self) -> int:
        return self._ids[0]

    @property
    def started(self) -> float:
        return self._times[1]
