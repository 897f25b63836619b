"""A broker as a server on loopback, in a thread of the test: queues with limits and depths. It notes each change, and
can withhold the answer after some of them, so that a client is killed or hangs in the middle."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: Any) -> None:
        """A client was killed: that is no failure of the test."""


class RemoteBroker:
    def __init__(self) -> None:
        self.limits: dict[str, int] = {}
        self.depths: dict[str, int] = {}
        self.changes: list[tuple[str, int]] = []
        #: The number of changes that are answered; the next one is made, and waits for `go_on`.
        self.answered: int | None = None
        self.waiting = threading.Event()
        self.go_on = threading.Event()
        self.url = ""

    def add(self, name: str, limit: int = 100, depth: int = 0) -> None:
        self.limits[name], self.depths[name] = limit, depth

    def stop_answering_after(self, changes: int) -> None:
        self.waiting.clear()
        self.go_on.clear()
        self.answered = len(self.changes) + changes

    def answer_again(self) -> None:
        self.answered = None
        self.go_on.set()

    def set(self, name: str, limit: int) -> None:
        self.limits[name] = limit
        self.changes.append((name, limit))
        if self.answered is not None and len(self.changes) > self.answered:
            self.waiting.set()
            self.go_on.wait(120)

    @contextmanager
    def serving(self) -> Iterator[None]:
        server = _Server(("127.0.0.1", 0), self._handler())
        thread = threading.Thread(target=server.serve_forever, args=[0.05], daemon=True)
        thread.start()
        self.url = f"http://127.0.0.1:{server.server_port}"
        try:
            yield
        finally:
            self.answer_again()
            server.shutdown()
            server.server_close()
            thread.join()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        broker = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                self._answer({name: [limit, broker.depths[name]] for name, limit in list(broker.limits.items())})

            def do_PUT(self) -> None:
                limit = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                broker.set(self.path.rpartition("/")[2], limit)
                self._answer(True)

            def _answer(self, body: Any) -> None:
                text = json.dumps(body).encode()
                try:
                    self.send_response(200)
                    self.send_header("Content-Length", str(len(text)))
                    self.end_headers()
                    self.wfile.write(text)
                except OSError:
                    self.close_connection = True  # the client was killed

            def log_message(self, *_: Any) -> None:
                pass

        return Handler
