"""`manage.py broker`: the broker engine in a process of its own. No Django in it."""

from __future__ import annotations

import argparse
import asyncio
import gc
import logging
import signal
import sys
from logging.handlers import RotatingFileHandler
from pathlib import Path

from brokers.server.config_store import StoreError
from brokers.server.operators_first import OperatorsFirst
from brokers.server.service import Service

LOG_BYTES = 10 << 20
LOG_FILES = 5


def main(argv: list[str]) -> int:
    """Returns the exit code: 1, after one clear line, if the broker cannot start."""
    options = _parser().parse_args(argv)
    try:
        options.data.mkdir(parents=True, exist_ok=True, mode=0o700)
        _log_to(options.data / "broker.log")
        service = Service(options.data, host=options.host, port=options.port, demo=options.demo)
    except StoreError as error:
        return _fail(str(error))
    except OSError as error:
        return _fail(f"cannot write to the data folder {options.data}: {error.strerror or error}")
    service.selector = selector = OperatorsFirst()
    with asyncio.Runner(loop_factory=lambda: asyncio.SelectorEventLoop(selector)) as runner:
        return runner.run(_serve(service))


async def _serve(service: Service) -> int:
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    try:
        await service.start()
    except OSError as error:
        why = error.strerror or str(error)
        return _fail(f"cannot listen on {service.host}:{service.port}: {why}. Is another broker running? See --port.")
    except StoreError as error:
        return _fail(str(error))
    print(f"broker ready on {service.host}:{service.port}", flush=True)  # noqa: T201  (what the supervisor shows)
    gc.freeze()  # what is here now stays: the collector need not look at it again
    gc.set_threshold(50_000, 20, 50)  # messages come and go by their reference counts; cycles are rare
    await stopped.wait()
    await service.stop()
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="manage.py broker", description="The broker engine: AMQP 1.0 over TCP.")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s)")
    parser.add_argument("--port", type=_port, default=5672, help="port to listen on (default: %(default)s)")
    parser.add_argument(
        "--data", type=Path, default=Path("data/broker"), help="folder for what is kept (default: %(default)s)"
    )
    parser.add_argument(
        "--demo",
        action="store_true",
        help="a new data folder lets anonymous clients in and creates queues as clients attach",
    )
    return parser


def _port(text: str) -> int:
    if not text.isdecimal() or not 0 <= int(text) <= 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port: 0 (any that is free) to 65535")
    return int(text)


def _log_to(path: Path) -> None:
    """The broker log: one line an event, in Qpid's texts; and what goes wrong, also to stderr."""
    handler = RotatingFileHandler(path, maxBytes=LOG_BYTES, backupCount=LOG_FILES, encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)-5s %(message)s"))
    errors = logging.StreamHandler(sys.stderr)
    errors.setLevel(logging.WARNING)
    root = logging.getLogger()
    root.setLevel(logging.INFO)
    root.addHandler(handler)
    root.addHandler(errors)


def _fail(why: str) -> int:
    print(f"broker: {why}", file=sys.stderr, flush=True)  # noqa: T201
    return 1
