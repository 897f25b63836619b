"""`headgate broker`: the broker engine in a process of its own. No Django in it."""

from __future__ import annotations

import argparse
import asyncio
import errno
import gc
import logging
import os
import signal
import sys
from pathlib import Path

from brokers import log_records
from brokers.amqp import runs
from brokers.server.config_store import StoreError
from brokers.server.listening import CannotListen, TlsAddress
from brokers.server.log_file import LOG_BYTES, LOG_FILES, LogFile
from brokers.server.operators_first import OperatorsFirst
from brokers.server.service import Service
from brokers.server.sqlite_file import make_folder
from brokers.server.tls import TlsError, TlsFiles
from brokers.tls_options import TLS_PORT, add_tls_options, check_tls_options, port_number


def main(argv: list[str]) -> int:
    """Run the broker; return the exit code: 1, after a one-line error, if the broker cannot start."""
    options = _parser().parse_args(argv)
    try:
        make_folder(options.data)
        if not os.access(options.data, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        log_file = options.data / "broker.log"
        _log_to(log_file)
        tls = tls_address(options)
        service = Service(
            options.data, host=options.host or ["127.0.0.1"], port=options.port, tls=tls, demo=options.demo
        )
    except ValueError as error:
        return _fail(str(error))
    except StoreError as error:
        return _fail(str(error))
    except OSError as error:
        return _fail(f"cannot write to the data folder {options.data}: {error.strerror or error}")
    service.broker.log = str(log_file.resolve())
    service.selector = selector = OperatorsFirst()
    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(selector)) as runner:
        return runner.run(_serve(service))


async def _serve(service: Service) -> int:
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    try:
        await service.start()
    except (CannotListen, StoreError, TlsError) as error:
        return _fail(str(error))
    renewing: set[asyncio.Task[None]] = set()

    def renew_tls() -> None:
        task = asyncio.ensure_future(service.listening.renew_tls())
        renewing.add(task)  # the loop has only weak references to tasks
        task.add_done_callback(renewing.discard)

    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, renew_tls)
    for address in service.addresses():
        print(f"broker ready on {address}", flush=True)  # noqa: T201  (what the supervisor shows)
    print(runs.description(service.container.runs), flush=True)  # noqa: T201
    gc.freeze()  # permanent objects: the collector need not traverse them again
    # Messages are freed by reference counts. Connections, links and deleted queues are reference cycles: until the
    # collector runs, their data stays in memory. (20, 50: 360 MiB after 60,000 connections, and growing.)
    gc.set_threshold(50_000, 5, 5)
    await stopped.wait()
    await service.stop()
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="headgate broker", description="The broker engine: AMQP 1.0 over TCP.")
    parser.add_argument(
        "--host", action="append", help="address to listen on, may be given several times (default: 127.0.0.1)"
    )
    parser.add_argument("--port", type=port_number, default=5672, help="port to listen on (default: %(default)s)")
    parser.add_argument(
        "--data",
        type=Path,
        default=Path("data/broker"),
        help="folder of messages, objects and secrets (default: %(default)s)",
    )
    parser.add_argument(
        "--demo",
        action="store_true",
        help="with a new data folder: allow anonymous clients, and create queues on attach",
    )
    add_tls_options(parser)
    return parser


def tls_address(options: argparse.Namespace) -> TlsAddress | None:
    """Return the TLS settings of the options. Raises ValueError, naming them, if they are inconsistent."""
    check_tls_options(options)
    if not options.tls_certificate:
        return None
    files = TlsFiles(
        options.tls_certificate,
        options.tls_key,
        client_ca=options.tls_client_ca,
        client_required=options.tls_client_certificates == "required",
    )
    port = TLS_PORT if options.tls_port is None else options.tls_port
    return TlsAddress(files, host=options.tls_host or "127.0.0.1", port=port)


def _log_to(path: Path) -> None:
    """Configure the broker log: one line per event, in Qpid's texts; errors also go to stderr."""
    handler = LogFile(path, LOG_BYTES, LOG_FILES)
    errors: logging.Handler = log_records.Handler() if log_records.is_json() else logging.StreamHandler(sys.stderr)
    if not log_records.is_json():  # collected records have the events, too
        errors.setLevel(logging.WARNING)
    root = logging.getLogger()
    root.setLevel(logging.INFO)
    root.addHandler(handler)
    root.addHandler(errors)


def _fail(why: str) -> int:
    print(f"broker: {why}", file=sys.stderr, flush=True)  # noqa: T201
    return 1
