"""A broker, its operator, and the client's connection to it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from brokers.client import Connection, connect
from tests.amqp.broker_thread import BrokerThread
from tests.client.fake_clock import FakeClock
from tests.client.operator import Operator


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerThread]:
    with BrokerThread(tmp_path / "broker") as running:
        yield running


@pytest.fixture
def operator(broker: BrokerThread) -> Operator:
    return Operator(broker)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def connection(broker: BrokerThread, clock: FakeClock) -> Iterator[Connection]:
    with connect(broker.url, clock=clock, name="tested") as made:
        yield made


def begin(call: Callable[..., Any], *arguments: Any, **named: Any) -> Future[Any]:
    """`call` in a thread of its own."""
    result: Future[Any] = Future()

    def run() -> None:
        try:
            result.set_result(call(*arguments, **named))
        except BaseException as error:
            result.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return result
