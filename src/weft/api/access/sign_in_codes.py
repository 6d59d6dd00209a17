"""Codes for one-time links: a browser exchanges one for the token of the request that made it.

A link with the token itself would be in the arguments of the process that opens the browser, which every user of the
machine can read, and in the browser's history. A code is good once and for a minute, and only in this process.
"""

import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

GOOD_S: Final = 60.0
CODES_MAX: Final = 100


class SignInCodes:
    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._tokens: OrderedDict[str, tuple[str, float]] = OrderedDict()  # by code: the token, and until when

    def create(self, token: str) -> str:
        code = secrets.token_hex(16)
        self._tokens[code] = (token, self._clock() + GOOD_S)
        while len(self._tokens) > CODES_MAX:
            self._tokens.popitem(last=False)
        return code

    def use(self, code: str) -> str | None:
        """The token, once."""
        token, until = self._tokens.pop(code, ("", 0.0))
        return token if self._clock() < until else None
