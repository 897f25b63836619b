"""`headgate up`: check that everything can start, start it in order, and print where to sign in.

It starts the console by its command line only and knows nothing else of it.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import errno
import fcntl
import os
import shlex
import socket
import ssl
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import NoReturn, TextIO

from brokers import log_records
from brokers.loopback import is_loopback
from brokers.tls_options import TLS_PORT, add_tls_options, check_tls_options, tls_arguments
from console.catalog import PROGRAM
from console.up.supervisor import Failed, Service, Supervisor


def main(argv: list[str]) -> int:
    options = _parser().parse_args(argv)
    if options.port == options.amqp_port:
        _parser().error(f"--port and --amqp-port are both {options.port}: they must differ")
    try:
        check_tls_options(options)
        if options.tls_port == 0:
            raise ValueError("--tls-port is 0: name a port, from 1 to 65535")
    except ValueError as error:
        _parser().error(str(error))
    options.data = options.data.resolve()
    try:
        lock = claim_folder(options.data)
        check_port(options.host, options.port, "--port")
        check_port(options.host, options.amqp_port, "--amqp-port")
        if options.tls_certificate:
            check_port(options.tls_host or "127.0.0.1", options.tls_port or TLS_PORT, "--tls-port", "--tls-host")
    except Failed as failure:
        if log_records.is_json():
            Supervisor().record("up", str(failure), level="CRITICAL")
        else:
            sys.stderr.write(f"headgate up: {failure}\n")
        return 1
    with lock:
        return asyncio.run(_run(options))


async def _run(options: argparse.Namespace) -> int:
    supervisor = Supervisor()
    return await supervisor.run(lambda: _start(supervisor, options))


async def _start(supervisor: Supervisor, options: argparse.Namespace) -> None:
    """Start broker and database side by side, then the recorder and the web console, the other background processes,
    the demo, and create the first user. One sequence, since this order is its content."""
    host = reachable(options.host)
    # The broker's other addresses accept passwords with TLS only: the console connects by loopback.
    amqp_host = host if is_loopback(host) else "127.0.0.1"
    amqp = _authority(host, options.amqp_port)
    # One certificate for the machine: the console uses it, too.
    https = options.tls_certificate is not None
    url = f"{'https' if https else 'http'}://{_authority(host, options.port)}/"
    environment = {
        # glibc keeps freed memory in an arena for each thread, and here are many mostly idle threads.
        "MALLOC_ARENA_MAX": os.environ.get("MALLOC_ARENA_MAX") or "2",
        "HEADGATE_DATA": str(options.data),
        "HEADGATE_ALLOWED_HOSTS": ",".join(filter(None, [os.environ.get("HEADGATE_ALLOWED_HOSTS"), _bracketed(host)])),
        "HEADGATE_BROKER_HOST": amqp_host,
        "HEADGATE_BROKER_PORT": str(options.amqp_port),
        **({"HEADGATE_HTTPS": "1"} if https else {}),
    }
    broker_data = options.data / "broker"

    def service(name: str, *arguments: str, ready: Callable[[], Awaitable[bool]] | None, essential: bool) -> Service:
        shown = options.verbose or name in ("broker", "demo")  # the broker says how it handles messages
        return Service(name, (*_manage(name), *arguments), environment, ready, essential=essential, show_stdout=shown)

    await asyncio.gather(
        supervisor.keep(
            service(
                "broker",
                *broker_hosts(options.host),
                *("--port", str(options.amqp_port), "--data", str(broker_data)),
                *tls_arguments(options),
                *(["--demo"] if options.demo else []),
                ready=lambda: answers(amqp_host, options.amqp_port),
                essential=True,
            )
        ),
        supervisor.complete("migrate", (*_manage("migrate"), "--no-input", "--verbosity", "0"), environment),
    )
    # Producers and consumers need only the broker: the end of another process stops nothing else. The recorder starts
    # beside the console, so that the history has its first numbers when the first page is opened.
    await supervisor.keep(service("recorder", ready=None, essential=False))
    console = await supervisor.keep(
        service(
            "web",
            *("--host", options.host, "--port", str(options.port)),
            *(
                ("--tls-certificate", _path(options.tls_certificate), "--tls-key", _path(options.tls_key))
                if https
                else ()
            ),
            ready=lambda: answers(host, options.port, path="/login/", tls=https),
            essential=False,
        )
    )
    for name in ("history", "worker", "beat"):
        await supervisor.keep(service(name, ready=None, essential=False))
    # For brokers of other kinds; without one it would only take memory.
    needed = options.data / "adapters" / "needed"
    supervisor.keep_once(needed.exists, service("adapters", ready=None, essential=False))
    if options.demo:
        # It signs in, too: see above.
        at = _authority(amqp_host, options.amqp_port)
        await supervisor.keep(service("demo", "--amqp", at, ready=None, essential=False))
    printed = await supervisor.complete("ensure_admin", _manage("ensure_admin"), environment)
    secure = ""
    if https:
        secure = _authority(reachable(options.tls_host or "127.0.0.1"), options.tls_port or TLS_PORT)
    in_the_clear = not is_loopback(options.host)
    if not console:
        url += "  (does not answer yet: see above)"
    if log_records.is_json():
        supervisor.record("up", ready_message(printed, options.data), url=url, amqp=f"amqp://{amqp}")
        return
    supervisor.show(welcome(url, amqp, options.data, printed, secure=secure, in_the_clear=in_the_clear))


def ready_message(printed: str, data: Path) -> str:
    """Return the record for a new user. The generated password is not in it: logs are collected and stored."""
    made = any(line.startswith("admin ") for line in printed.splitlines())
    return "ready" + (f"; user admin was created: set a password with `{_reset(data)}`" if made else "")


def _reset(data: Path) -> str:
    in_repository = (Path(__file__).parents[2] / "manage.py").exists()
    reset = f"{'uv run ' if in_repository else ''}headgate changepassword admin"
    return reset if data == Path("data").resolve() else f"HEADGATE_DATA={shlex.quote(str(data))} {reset}"


def welcome(url: str, amqp: str, data: Path, printed: str, *, secure: str, in_the_clear: bool) -> str:
    """Return the lines for a new user. `printed`: the output of `ensure_admin`, `admin PASSWORD` if it created the
    user.
    `secure`: where the broker listens with TLS, if it does. `in_the_clear`: other machines can reach what has none."""
    beware = f"Beware: other machines can reach {f'amqp://{amqp}' if secure else 'this'}, and nothing is encrypted"
    made = next((line.split(None, 1)[1].strip() for line in printed.splitlines() if line.startswith("admin ")), "")
    reset = _reset(data)
    lines = [
        "",
        "Headgate is ready.",
        f"  Console    {url}",
        f"  User       admin, password {made or 'as before'}",
        f"             (shown this once; change it with `{reset}`)"
        if made
        else f"             (reset it with `{reset}`)",
        f"  AMQP 1.0   amqp://{amqp}  (virtual host default)",
        *([f"             amqps://{secure}"] if secure else []),
        f"  Data       {data}",
        *([f"  {beware}{' there' if secure else ''}."] if in_the_clear else []),
        "Ctrl-C stops everything.",
        "",
    ]
    return "\n".join(lines) + "\n"


# -- checks before the start --------------------------------------------------------------------------------------


def claim_folder(folder: Path) -> TextIO:
    """Make the data folder and lock it; the lock holds while the returned file is open. Raises Failed."""
    try:
        # It will contain secrets: for its owner only.
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
        lock = (folder / "up.lock").open("a+", encoding="utf-8")
    except OSError as error:
        why = error.strerror or str(error)
        raise Failed(f"cannot write to the data folder {folder} ({why}): choose another with --data") from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        lock.seek(0)
        holder = lock.read().strip() or "unknown"
        lock.close()
        raise Failed(
            f"the data folder {folder} is in use by another `headgate up` (process {holder}): stop that one first,"
            " or choose another folder with --data"
        ) from None
    lock.truncate(0)
    lock.write(f"{os.getpid()}\n")
    lock.flush()
    return lock


def check_port(host: str, port: int, option: str, host_option: str = "--host") -> None:
    """Raise Failed unless the address can be listened on now."""
    try:
        family, kind, protocol, _name, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # like servers: old connections do not matter
            probe.bind(address)
            probe.listen(1)
    except socket.gaierror as error:
        raise Failed(f"{host_option} {host} is not an address of this machine ({error.strerror})") from None
    except OSError as error:
        if error.errno == errno.EADDRNOTAVAIL:
            raise Failed(f"{host_option} {host} is not an address of this machine") from None
        why = "is taken" if error.errno == errno.EADDRINUSE else f"cannot be used ({error.strerror})"
        raise Failed(f"port {port} on {host} {why}: free it, or choose another with {option}") from None


async def answers(host: str, port: int, path: str = "", *, tls: bool = False) -> bool:
    """Whether something takes connections there; with a path, whether HTTP answers it with a page. With `tls`, whatever
    its certificate: the request is a readiness check without secrets."""
    context = None
    if tls:
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    try:
        async with asyncio.timeout(10):
            reader, writer = await asyncio.open_connection(host, port, ssl=context)
            try:
                if not path:
                    return True
                writer.write(
                    f"GET {path} HTTP/1.1\r\nHost: {_authority(host, port)}\r\nConnection: close\r\n\r\n".encode()
                )
                status = (await reader.readline()).split()
                return len(status) > 1 and status[1].startswith((b"2", b"3"))
            finally:
                writer.close()
                with contextlib.suppress(OSError):
                    await writer.wait_closed()
    except (OSError, TimeoutError):
        return False


def reachable(host: str) -> str:
    """Where this machine reaches a server that listens on `host`: a wildcard is no address to connect to."""
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104


def broker_hosts(host: str) -> list[str]:
    """The broker's options for listening on `host`, and where the console reaches it."""
    return ["--host", host, *(["--host", "127.0.0.1"] if not is_loopback(reachable(host)) else [])]


def _path(file: Path) -> str:
    return str(file.resolve())


def _authority(host: str, port: int) -> str:
    return f"{_bracketed(host)}:{port}"


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _manage(command: str) -> tuple[str, ...]:
    return (*PROGRAM, command)


def _port(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port: a port is a number from 1 to 65535")
    return int(text)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """One line, not the whole usage."""
        self.exit(2, f"{self.prog}: {message} (`{self.prog} --help` lists the options)\n")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="headgate up",
        description="Start the broker, the web console and what belongs to them under one supervisor.",
    )
    parser.add_argument("--demo", action="store_true", help="with demo producers and consumers")
    parser.add_argument(
        "--host", default="127.0.0.1", help="address to listen on, for AMQP and web (default: %(default)s)"
    )
    parser.add_argument("--port", type=_port, default=8000, help="port of the web console (default: %(default)s)")
    parser.add_argument("--amqp-port", type=_port, default=5672, help="port of the broker (default: %(default)s)")
    parser.add_argument(
        "--data",
        type=Path,
        default=Path(os.environ.get("HEADGATE_DATA") or "data"),
        help="folder of all data (default: $HEADGATE_DATA or ./data)",
    )
    add_tls_options(parser)
    # Taken by console/commands.py, for every process; here for --help.
    parser.add_argument("--log-format", choices=log_records.FORMATS, help="lines of text (default), or of JSON")
    parser.add_argument("--verbose", action="store_true", help="show the ordinary output of every process, too")
    return parser
