"""A broker for each test, and its operator. All tests here drive a peer in another language."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.amqp.broker_thread import BrokerThread
from tests.client.operator import Operator

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.interop)
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(300))  # the first of a peer waits until it is built


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerThread]:
    with BrokerThread(tmp_path / "broker") as running:
        yield running


@pytest.fixture
def operator(broker: BrokerThread) -> Operator:
    return Operator(broker, within=30)  # a JVM takes seconds to start on a busy machine
