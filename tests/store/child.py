"""A process that writes to a shared store: `python -m tests.store.child ADDRESS NAME COUNT ROWS`.

It says `ready`, waits for a line, then makes COUNT transactions (0: until its input ends) of ROWS events each and
prints how many it made.
"""

import select
import sys

from tests.store.conformance import draft_of, open_address
from weft.core.decision.needs import NextRun
from weft.core.rows import EventRow


def main(address: str, name: str, count: int, rows: int) -> None:
    store = open_address(address)
    print("ready", flush=True)
    sys.stdin.readline()
    made = 0
    while made < count if count else not _input_ended():
        with store.transaction() as tx:
            assert tx is not None
            tx.load([NextRun()])
            draft = draft_of(tx)
            draft.events = [EventRow(1, None, None, name, name, {"n": made})] * rows
            tx.write(draft)
        made += 1
    print(made, flush=True)


def _input_ended() -> bool:
    return bool(select.select([sys.stdin], [], [], 0)[0])


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
