"""A broker for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.amqp.broker_thread import BrokerThread


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerThread]:
    """Lets anonymous clients in and creates queues on attach."""
    with BrokerThread(tmp_path / "broker") as running:
        yield running


@pytest.fixture
def strict_broker(tmp_path: Path) -> Iterator[BrokerThread]:
    """Like a new installation without --demo: no anonymous clients, no queues created on attach."""
    with BrokerThread(tmp_path / "broker", demo=False) as running:
        yield running
