"""The program that stands for an agent's command line where a definition names an API. It prints the messages that
`claude -p --output-format stream-json` prints."""

import asyncio
import sys
from typing import Final

import msgspec

from weft.executors.agent.api.request import ApiRequest

_MISSING: Final = "an agent with `api` needs the package {}: install weft[agent]"


def main() -> int:
    request = msgspec.json.decode(sys.stdin.buffer.read(), type=ApiRequest)
    try:
        from weft.executors.agent.api.api_agent import ApiAgent
    except ImportError as error:
        result = {
            "type": "result", "subtype": "error_during_execution", "is_error": True, "num_turns": 0, "usage": {},
            "errors": [_MISSING.format(error.name)], "weft": {"retryable": False},
        }  # fmt: skip
        print(msgspec.json.encode(result).decode(), flush=True)
        return 1
    return asyncio.run(ApiAgent(request).run())
