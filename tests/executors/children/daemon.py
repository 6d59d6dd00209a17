"""A daemon as daemons go: two forks, a session of its own. With `clean`, it drops its environment, too.

usage: daemon.py PID_FILE [clean]        Its pid is in the file once it is there to stay.
"""

import os
import sys

path, clean = sys.argv[1], "clean" in sys.argv[2:]
ready, not_ready = os.pipe()  # both close when the daemon becomes `sleep`
if os.fork():
    os.close(not_ready)
    os.wait()
    os.read(ready, 1)
    os._exit(0)
os.setsid()
if os.fork():
    os._exit(0)
with open(path + ".new", "w") as file:
    file.write(str(os.getpid()))
os.rename(path + ".new", path)
os.execve("/bin/sleep", ["sleep", "300"], {} if clean else dict(os.environ))
