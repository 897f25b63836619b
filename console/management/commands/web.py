"""`manage.py web`: the console's web process (HTTP and WebSockets) on one port."""

from __future__ import annotations

import signal
import socket
import sys
from argparse import ArgumentParser
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand


class Command(BaseCommand):
    help = "Serve the console's pages, HTTP interface and WebSockets."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: loopback only)")
        parser.add_argument("--port", type=int, default=8000, help="TCP port (default: 8000; 0: any free one)")

    def handle(self, *args: Any, host: str, port: int, **options: Any) -> None:
        if not 0 <= port < 1 << 16:
            self.stderr.write(f"--port is {port}: it must be from 0 to 65535")
            sys.exit(1)
        try:
            listener = _listen(host, port)
        except OSError as error:
            self.stderr.write(f"cannot listen on {host} port {port}: {error.strerror or error}")
            sys.exit(1)
        import uvicorn

        from console.asgi import application
        from console.brokers import close_links, links

        links()  # connected by the time the first page asks
        config = uvicorn.Config(
            application,
            lifespan="off",
            access_log=False,
            log_level="warning",
            # A page's WebSocket never ends by itself: say good-bye and do not wait for it.
            timeout_graceful_shutdown=1,
            ws_ping_interval=20,
            ws_ping_timeout=20,
            server_header=False,
            proxy_headers=bool(settings.HEADGATE_PROXIES),
            forwarded_allow_ips=settings.HEADGATE_PROXIES,
        )
        with listener:
            self.stdout.write(f"console on http://{_shown(host)}:{listener.getsockname()[1]}/")
            self.stdout.flush()
            # uvicorn stops on both signals and then raises them again: the stop is done with by then.
            signal.signal(signal.SIGTERM, lambda *_: None)
            try:
                uvicorn.Server(config).run(sockets=[listener])
            except KeyboardInterrupt:
                pass
            finally:
                close_links()


def _listen(host: str, port: int) -> socket.socket:
    """Bind before anything else is loaded, so that a taken port is told at once and in one line."""
    family, kind, proto, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    listener = socket.socket(family, kind, proto)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(128)
    except OSError:
        listener.close()
        raise
    listener.set_inheritable(True)
    return listener


def _shown(host: str) -> str:
    return f"[{host}]" if ":" in host else host
