"""Exit codes, and the one exception by which a command gives up with a message."""

OK = 0
FAILED = 1  # the run failed or was cancelled
BAD_INPUT = 2
NOT_FOUND = 3
UNREACHABLE = 4  # the store did not answer
INTERRUPTED = 130


class GiveUp(Exception):
    """What is wrong in one line, and what to do about it."""

    def __init__(self, code: int, message: str, fix: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.fix = fix

    def __str__(self) -> str:
        return self.message if self.fix is None else f"{self.message}\n  fix: {self.fix}"
