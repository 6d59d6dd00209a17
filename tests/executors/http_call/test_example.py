"""examples/http.yaml through the command line, with a service of our own; and what workers refuse."""

import json
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests import forked

ROOT = Path(__file__).parents[3]


class Reports(BaseHTTPRequestHandler):
    asked: list[tuple[str, str, dict[str, str]]]
    protocol_version = "HTTP/1.1"

    def answer(self) -> None:
        size = int(self.headers.get("Content-Length") or 0)
        self.rfile.read(size)
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.asked.append((self.command, self.path, headers))
        seen = [path for _, path, _ in self.asked].count(self.path)
        body: dict[str, Any]
        if self.path == "/reports":
            code, body = (503, {}) if seen == 1 else (202, {"state": "queued", "self": "/reports/7"})
        elif self.path == "/reports/7":
            code, body = 200, {"state": "ready" if seen > 1 else "busy", "rows": "/rows/7"}
        else:
            code, body = 200, {"complete": True, "rows": 3}
        data = json.dumps(body).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    do_GET = do_POST = do_DELETE = answer

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing is printed."""


@contextmanager
def reports() -> Iterator[tuple[str, list[tuple[str, str, dict[str, str]]]]]:
    asked: list[tuple[str, str, dict[str, str]]] = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Own", (Reports,), {"asked": asked}))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", asked
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_it_runs(tmp_path: Path) -> None:
    environment = {**os.environ, "REPORTS_TOKEN": "hush-hush-42"}
    with reports() as (url, asked):
        words = ["run", str(ROOT / "examples" / "http.yaml"), "--json", "--input", f"service={url}"]
        done = forked.run(words, tmp_path, environment, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(done.stdout.splitlines()[-1])["output"] == {"complete": True, "rows": 3}
    orders = [headers for method, path, headers in asked if (method, path) == ("POST", "/reports")]
    assert [one["authorization"] for one in orders] == ["Bearer hush-hush-42"] * 2
    assert len({one["idempotency-key"] for one in orders}) == 1
    logs = forked.run(["logs", "last", "order"], tmp_path, environment, timeout=60)
    assert f"GET {url}/reports/7 200" in (logs.stdout + logs.stderr).decode()
