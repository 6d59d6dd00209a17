"""APIs of models on loopback, for tests: the Messages API and chat completions, streamed as the real ones stream,
with the ways in which those fail. Each request gets the next reply of a list."""

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

#: Writes the answer to a request.
Reply = Callable[["Handler"], None]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: "ModelServer"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        with self.server.lock:
            self.server.requests.append((self.path, dict(self.headers.items()), json.loads(body)))
            reply = self.server.replies.pop(0) if self.server.replies else status(500, "no reply is left")
        reply(self)

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def stream(self, events: Iterator[bytes], *, whole: bool = True) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream; charset=utf-8")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for event in events:
            self.wfile.write(b"%x\r\n%s\r\n" % (len(event), event))
            self.wfile.flush()
        if whole:
            self.wfile.write(b"0\r\n\r\n")
        else:
            self.close_connection = True


class ModelServer(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, *replies: Reply) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.replies = list(replies)
        self.requests: list[tuple[str, dict[str, str], dict[str, Any]]] = []
        self.lock = threading.Lock()
        self.released = threading.Event()
        self._thread = threading.Thread(target=self.serve_forever, daemon=True)

    def __enter__(self) -> "ModelServer":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.released.set()
        self.shutdown()
        self.server_close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


def status(code: int, message: str = "no", **headers: str) -> Reply:
    def reply(handler: Handler) -> None:
        kind = {429: "rate_limit_error", 529: "overloaded_error"}.get(code, "invalid_request_error")
        body = json.dumps({"type": "error", "error": {"type": kind, "message": message}}).encode()
        handler.send_response(code)
        handler.send_header("content-type", "application/json")
        handler.send_header("content-length", str(len(body)))
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.end_headers()
        handler.wfile.write(body)

    return reply


def page(text: str = "<html>hello</html>") -> Reply:
    def reply(handler: Handler) -> None:
        handler.send_response(200)
        handler.send_header("content-type", "text/html")
        handler.send_header("content-length", str(len(text)))
        handler.end_headers()
        handler.wfile.write(text.encode())

    return reply


def hang(events: list[bytes] | None = None) -> Reply:
    """Sends the beginning of an answer, and then nothing more."""

    def endless(handler: Handler) -> Iterator[bytes]:
        yield from events or [sse("ping", {"type": "ping"})]
        handler.server.released.wait(60)

    return lambda handler: handler.stream(endless(handler), whole=False)


def stream(events: list[bytes], *, whole: bool = True) -> Reply:
    return lambda handler: handler.stream(iter(events), whole=whole)


def sse(name: str, data: Any) -> bytes:
    text = data if isinstance(data, str) else json.dumps(data)
    return f"event: {name}\ndata: {text}\n\n".encode()


def text(value: str) -> dict[str, Any]:
    return {"type": "text", "text": value}


def tool_use(name: str, **arguments: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": "toolu_01", "name": name, "input": arguments}


def anthropic_events(
    *blocks: dict[str, Any], stop: str = "end_turn", usage: tuple[int, int] = (20, 7), id: str = "msg_01"
) -> list[bytes]:
    start: dict[str, Any] = {
        "id": id, "type": "message", "role": "assistant", "content": [], "model": "claude-test-1",
        "stop_reason": None, "stop_sequence": None,
        "usage": {"input_tokens": usage[0], "cache_read_input_tokens": 0, "output_tokens": 1},
    }  # fmt: skip
    events = [sse("message_start", {"type": "message_start", "message": start}), sse("ping", {"type": "ping"})]
    for index, block in enumerate(blocks):
        empty = {**block, "text": ""} if block["type"] == "text" else {**block, "input": {}}
        events.append(
            sse("content_block_start", {"type": "content_block_start", "index": index, "content_block": empty})
        )
        whole = block["text"] if block["type"] == "text" else json.dumps(block["input"])
        kind, key = ("text_delta", "text") if block["type"] == "text" else ("input_json_delta", "partial_json")
        for part in (whole[: len(whole) // 2], whole[len(whole) // 2 :]):
            delta = {"type": "content_block_delta", "index": index, "delta": {"type": kind, key: part}}
            events.append(sse("content_block_delta", delta))
        events.append(sse("content_block_stop", {"type": "content_block_stop", "index": index}))
    delta = {"stop_reason": stop, "stop_sequence": None}
    events.append(
        sse("message_delta", {"type": "message_delta", "delta": delta, "usage": {"output_tokens": usage[1]}})
    )
    return [*events, sse("message_stop", {"type": "message_stop"})]


def anthropic(*blocks: dict[str, Any], **more: Any) -> Reply:
    return stream(anthropic_events(*blocks, **more))


def chat(
    content: str = "", calls: list[tuple[str, dict[str, Any]]] | None = None, finish: str = "stop",
    usage: tuple[int, int, int] = (20, 7, 0), whole: bool = True,
) -> Reply:  # fmt: skip
    """(prompt tokens, completion tokens, cached ones among the first)."""

    def chunk(**fields: Any) -> bytes:
        body = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "test-1", **fields}
        return f"data: {json.dumps(body)}\n\n".encode()

    def delta(finish_reason: str | None = None, **fields: Any) -> bytes:
        return chunk(choices=[{"index": 0, "delta": fields, "finish_reason": finish_reason}])

    events = [delta(role="assistant", content="")]
    events += [delta(content=part) for part in (content[:3], content[3:]) if part]
    for index, (name, arguments) in enumerate(calls or []):
        encoded = json.dumps(arguments)
        function = {"name": name, "arguments": ""}
        events.append(
            delta(tool_calls=[{"index": index, "id": f"c{index}", "type": "function", "function": function}])
        )
        for part in (encoded[:4], encoded[4:]):
            events.append(delta(tool_calls=[{"index": index, "function": {"arguments": part}}]))
    if whole:
        details = {"cached_tokens": usage[2]}
        counted = {"prompt_tokens": usage[0], "completion_tokens": usage[1], "prompt_tokens_details": details}
        events += [delta(finish), chunk(choices=[], usage=counted), b"data: [DONE]\n\n"]
    return stream(events, whole=whole)
