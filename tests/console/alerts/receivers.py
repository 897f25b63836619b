"""Real receivers on loopback: an HTTP server and an SMTP server that record requests and mails."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email import message_from_bytes
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from aiosmtpd.controller import Controller


@dataclass
class Received:
    """Recorded requests. `answers`: statuses of the next responses, then 200. `texts`: their bodies, then `text`.
    `headers`: of the responses. `began`, `go_on`: if set, a request sets the first and waits for the second."""

    url: str = ""
    requests: list[tuple[dict[str, str], bytes]] = field(default_factory=list)
    answers: list[int] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    text: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    began: threading.Event | None = None
    go_on: threading.Event | None = None

    @property
    def bodies(self) -> list[dict[str, Any]]:
        return [json.loads(body) for _, body in self.requests]


@contextmanager
def http_receiver() -> Iterator[Received]:
    got = Received()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            got.requests.append((dict(self.headers), body))
            if got.began is not None and got.go_on is not None:
                got.began.set()
                got.go_on.wait(60)
            self.send_response(got.answers.pop(0) if got.answers else 200)
            for name, value in got.headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write((got.texts.pop(0) if got.texts else got.text).encode())

        def log_message(self, *args: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    got.url = f"http://127.0.0.1:{server.server_address[1]}/hook?team=a"
    try:
        yield got
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)


class Mailbox:
    def __init__(self) -> None:
        self.mails: list[Message] = []
        self.envelopes: list[list[str]] = []
        self.refuse = 0
        self.refused: dict[str, str] = {}  # response by recipient

    async def handle_RCPT(self, server: Any, session: Any, envelope: Any, address: str, options: Any) -> str:
        if address in self.refused:
            return self.refused[address]
        envelope.rcpt_tos.append(address)
        return "250 taken"

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:
        if self.refuse:
            self.refuse -= 1
            return "451 come back later"
        self.mails.append(message_from_bytes(envelope.content))
        self.envelopes.append(list(envelope.rcpt_tos))
        return "250 taken"


@contextmanager
def smtp_receiver() -> Iterator[tuple[Mailbox, int]]:
    box = Mailbox()
    controller = Controller(box, hostname="127.0.0.1", port=0)
    controller.port = _free_port()
    controller.start()
    try:
        yield box, controller.port
    finally:
        controller.stop()


def _free_port() -> int:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
