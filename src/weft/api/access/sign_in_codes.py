"""Codes that stand for a token, in this process only: of one-time links, and of browsers without scripts.

A browser exchanges the code of a link for the token of the request that made it. A link with the token itself would
be in the arguments of the process that opens the browser, which every user of the machine can read, and in the
browser's history. Such a code is good once and for a minute. The cookie of a browser without scripts holds a code,
too: cookies are sent to every port of a host, and this one opens the plain page of this server and nothing else.
"""

import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

GOOD_S: Final = 60.0
COOKIE_GOOD_S: Final = 12 * 3600.0
CODES_MAX: Final = 100


class SignInCodes:
    def __init__(self, clock: Callable[[], float] = time.monotonic, good_s: float = GOOD_S) -> None:
        self._clock = clock
        self._good_s = good_s
        self._tokens: OrderedDict[str, tuple[str, float]] = OrderedDict()  # by code: the token, and until when

    def create(self, token: str) -> str:
        code = secrets.token_hex(16)
        self._tokens[code] = (token, self._clock() + self._good_s)
        while len(self._tokens) > CODES_MAX:
            self._tokens.popitem(last=False)
        return code

    def use(self, code: str) -> str | None:
        """The token, once."""
        token, until = self._tokens.pop(code, ("", 0.0))
        return token if self._clock() < until else None

    def token(self, code: str) -> str | None:
        """The token, any number of times."""
        token, until = self._tokens.get(code, ("", 0.0))
        return token if self._clock() < until else None

    def forget(self, code: str) -> None:
        self._tokens.pop(code, None)
