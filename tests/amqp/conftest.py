"""A broker for each test; each test of a broker runs with the C extension and without it (`brokers/amqp/runs.py`)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from brokers.amqp import runs
from tests.amqp.broker_thread import BrokerThread
from tests.interop.peers import absent

IN_RUNS, ONE_BY_ONE = "in_runs", "one_by_one"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if {"broker", "strict_broker"} & set(metafunc.fixturenames) or hasattr(metafunc.module, "BrokerThread"):
        metafunc.fixturenames.insert(0, "messages")
        metafunc.parametrize("messages", [IN_RUNS, ONE_BY_ONE], indirect=True)


@pytest.fixture
def messages(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """How brokers of this test handle messages, also those in processes of their own."""
    if request.param == ONE_BY_ONE:
        monkeypatch.setenv(runs.PLAIN, "1")
        assert runs.load() is None
    else:
        monkeypatch.delenv(runs.PLAIN, raising=False)
        if runs.load() is None:
            absent("the C extension brokers.amqp._runs is not built", "install gcc, and `uv sync`")
    return str(request.param)


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
