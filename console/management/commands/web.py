"""`headgate web`: the console's web process (HTTP and WebSockets) on one port."""

from __future__ import annotations

import gc
import signal
import socket
import ssl
import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand

from brokers import input_limits as limits
from console.management.ready import require_database


class Command(BaseCommand):
    help = "Serve the console's pages, API and WebSockets."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: loopback only)")
        parser.add_argument("--port", type=int, default=8000, help="TCP port (default: 8000; 0: any free one)")
        parser.add_argument("--tls-certificate", type=Path, metavar="FILE", help="serve HTTPS: certificate, PEM")
        parser.add_argument("--tls-key", type=Path, metavar="FILE", help="the certificate's private key, PEM")

    def handle(
        self,
        *args: Any,
        host: str,
        port: int,
        tls_certificate: Path | None,
        tls_key: Path | None,
        **options: Any,
    ) -> None:
        if not 0 <= port < 1 << 16:
            self.stderr.write(f"--port is {port}: it must be from 0 to 65535")
            sys.exit(1)
        try:
            listener = _listen(host, port)
        except OSError as error:
            self.stderr.write(f"cannot listen on {host} port {port}: {error.strerror or error}")
            sys.exit(1)
        try:
            tls = _tls(tls_certificate, tls_key)
        except ValueError as error:
            self.stderr.write(str(error))
            sys.exit(1)
        require_database()
        import uvicorn

        from console.asgi import application
        from console.brokers.configured import follow
        from console.links.registry import close_links, links
        from console.management.web_server import Server
        from console.management.web_socket import WebSocketProtocol

        # Sockets, broker links and sums over thousands of queues share this process: switch threads every millisecond.
        sys.setswitchinterval(0.001)
        # Rows of queues are freed by reference counts: to look for cycles among 200,000 of them takes a second.
        gc.set_threshold(50_000, 5, 5)
        follow()
        links()  # connect before the first page is requested
        config = uvicorn.Config(
            application,
            lifespan="off",
            access_log=False,
            log_level="warning",
            ws=WebSocketProtocol,
            # WebSockets of pages stay open: close them without waiting.
            timeout_graceful_shutdown=1,
            ws_max_size=limits.SOCKET_MESSAGE,  # a longer message is not buffered: the socket closes with 1009
            ws_ping_interval=20,
            ws_ping_timeout=20,
            # Compressing the same frames for each page would cost more CPU time than everything else.
            ws_per_message_deflate=False,
            server_header=False,
            proxy_headers=bool(settings.HEADGATE_PROXIES),
            forwarded_allow_ips=settings.HEADGATE_PROXIES,
            ssl_context_factory=(lambda _config, _default: tls) if tls else None,
        )
        with listener:
            self.stdout.write(f"console on {'https' if tls else 'http'}://{_shown(host)}:{listener.getsockname()[1]}/")
            self.stdout.flush()
            # uvicorn stops on both signals and then raises them again, when it has already stopped.
            signal.signal(signal.SIGTERM, lambda *_: None)
            try:
                Server(config).run(sockets=[listener])
            except KeyboardInterrupt:
                pass
            finally:
                close_links()


def _listen(host: str, port: int) -> socket.socket:
    """Bind before anything else is loaded, so that a port in use is reported immediately and in one line."""
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


def _tls(certificate: Path | None, key: Path | None) -> ssl.SSLContext | None:
    """Return the TLS context, or None without a certificate. Raises ValueError that names the option or the files."""
    if certificate is None and key is None:
        return None
    if certificate is None or key is None:
        raise ValueError("HTTPS requires both --tls-certificate and --tls-key")
    if not settings.HTTPS:
        raise ValueError("HEADGATE_HTTPS is not 1: HTTPS requires it, so that cookies are sent only with HTTPS")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2

    def encrypted() -> str:  # otherwise OpenSSL prompts for a password
        raise ValueError(f"the key in {key} is encrypted: store it without a password")

    try:
        context.load_cert_chain(certificate, key, password=encrypted)
    except (OSError, ssl.SSLError) as error:
        why = (getattr(error, "reason", "") or error.strerror or str(error)).replace("_", " ").lower()
        raise ValueError(f"cannot use certificate {certificate} and key {key}: {why}") from None
    return context


def _shown(host: str) -> str:
    return f"[{host}]" if ":" in host else host
