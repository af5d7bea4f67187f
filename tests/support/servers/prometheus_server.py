"""A small HTTP server that answers as the HTTP API of Prometheus does, with what a test sets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import orjson

Answer = Callable[[str, dict[str, str]], Any]


@dataclass
class PrometheusServer:
    """`asked`: path and arguments of each request; `headers`: of the last one. `answer` returns the
    result of a query (path, arguments); `status`, `body` and `more_headers`: another answer."""

    address: str = ""
    asked: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    headers: dict[str, str] = field(default_factory=dict)
    answer: Answer = lambda path, arguments: []
    status: int = 200
    body: bytes | None = None
    more_headers: dict[str, str] = field(default_factory=dict)

    @property
    def queries(self) -> list[str]:
        return [arguments["query"] for _, arguments in self.asked]


@contextmanager
def prometheus_server() -> Iterator[PrometheusServer]:
    state = PrometheusServer()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            arguments = dict(parse_qsl(parts.query))
            state.asked.append((parts.path, arguments))
            state.headers = {name.lower(): value for name, value in self.headers.items()}
            body = state.body
            if body is None:
                kind = "matrix" if parts.path.endswith("query_range") else "vector"
                result = state.answer(parts.path, arguments)
                data = {"resultType": kind, "result": result}
                body = orjson.dumps({"status": "success", "data": data})
            self.send_response(state.status)
            for name, value in state.more_headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    state.address = f"http://127.0.0.1:{server.server_address[1]}"
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def matrix(labels: dict[str, str], start: int, step: int, values: list[str]) -> dict[str, Any]:
    """A series of a range query."""
    samples = [[start + step * number, value] for number, value in enumerate(values)]
    return {"metric": labels, "values": samples}
