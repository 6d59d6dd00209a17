"""What `import weft` gives: flows and tasks in Python, an embedded store, a client of a server.

`weft/__init__.py` lists the names, each imported on first use: every process that runs a Python task imports the
author's module, and with it `weft.task`. What a running attempt calls (`weft.once`, `weft.current`) is in
`executors`, beside the runner that answers it.
"""
