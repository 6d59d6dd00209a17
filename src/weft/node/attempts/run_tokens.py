"""Tokens of attempts: each opens its own run only, and only while the attempt runs.

A token is the attempt's fence (task and number) and its HMAC under a key of the node's session, which the store keeps
with the session. So nothing is written for an attempt: whether a token is good follows from the task's row, and it
ends when that row says anything but "this attempt runs, in this session".
"""

import hashlib
import hmac
import re
from typing import Final, NamedTuple

from weft.core.workflow import TaskDef
from weft.executors.protocol import Launch

PREFIX: Final = "weftrun_"
VARIABLE: Final = "WEFT_TOKEN"
SERVER_VARIABLE: Final = "WEFT_SERVER"
KEY_FACT: Final = "token_key"  # of a session, among what its node says of itself
_TOKEN: Final = re.compile(r"weftrun_([0-9]{1,19})_([0-9]{1,9})_([0-9a-f]{64})")


class AttemptToken(NamedTuple):
    task_id: int
    attempt: int
    signature: str


def mint(key: str, task_id: int, attempt: int) -> str:
    return f"{PREFIX}{task_id}_{attempt}_{_signature(key, task_id, attempt)}"


def parse(token: str) -> AttemptToken | None:
    """What it claims to be; `signed_with` says whether it is."""
    found = _TOKEN.fullmatch(token)
    return None if found is None else AttemptToken(int(found[1]), int(found[2]), found[3])


def signed_with(key: str, token: AttemptToken) -> bool:
    return hmac.compare_digest(_signature(key, token.task_id, token.attempt), token.signature)


def _signature(key: str, task_id: int, attempt: int) -> str:
    return hmac.new(bytes.fromhex(key), f"{task_id}/{attempt}".encode(), hashlib.sha256).hexdigest()


def wants_token(definition: TaskDef) -> bool:
    """Tasks that say what they are allowed, and agents that have the tools of Weft."""
    if definition.allow is not None:
        return True
    return definition.kind == "agent" and "weft" in definition.spec["agent"].get("tools", ())


def add_token(launch: Launch, definition: TaskDef, key: str, server: str | None) -> None:
    """As one of its secrets, unless the definition sets the variable itself; with the server that this node works
    for, if there is one."""
    if wants_token(definition) and VARIABLE not in launch.env:
        launch.secrets = {**launch.secrets, VARIABLE: mint(key, launch.task_id, launch.attempt)}
        if server is not None:
            launch.env.setdefault(SERVER_VARIABLE, server)
