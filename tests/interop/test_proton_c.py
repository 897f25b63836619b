"""Qpid Proton's C library, as Debian has it, against the broker: `proton/scenarios.c` runs, and reports the results."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import pytest

from tests.amqp.broker_thread import BrokerThread
from tests.client.operator import Operator
from tests.interop.peers import Peer, absent, built, need, run

SOURCE = Path(__file__).parent / "proton" / "scenarios.c"
HOW = "on Debian `apt-get install gcc pkg-config libqpid-proton11-dev`"

CAPACITY = 5
FULL = CAPACITY + 1  # overfull is above the capacity


@pytest.fixture(scope="session")
def proton(pytestconfig: pytest.Config) -> Peer:
    """Compiled once, into pytest's cache."""
    compiler, pkg_config = need("gcc", HOW), need("pkg-config", HOW)
    command = [pkg_config, "--cflags", "--libs", "libqpid-proton"]
    flags = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    if flags.returncode:
        absent("Proton's C library is not installed", HOW)
    assert pytestconfig.cache is not None

    def compile_it(folder: Path) -> None:
        options = ("-std=gnu11", "-Wall", "-Wextra", "-Werror", "-O1")
        run("compiling", HOW, compiler, *options, SOURCE, "-o", folder / "scenarios", *shlex.split(flags.stdout))

    folder = built(pytestconfig.cache.mkdir("interop-proton"), [SOURCE], compile_it)
    return Peer([str(folder / "scenarios")], str)


def test_publishing_to_a_full_queue_is_blocked_and_released(
    proton: Peer, broker: BrokerThread, operator: Operator
) -> None:
    operator.create("orders", capacity_messages=CAPACITY, flow_resume_messages=1)
    with proton.playing("send", broker.port, count=10) as running:
        operator.until_blocked("orders")
        operator.until(lambda: operator.depth("orders") == FULL, "all that the queue takes has arrived")
        assert not running.ended
        taken = operator.take("orders", FULL)
        assert running.seen()["accepted"] == 10
    taken += operator.take("orders", 10 - FULL)
    assert taken == [f"m{n}" for n in range(10)]


def test_idle_senders_answer_a_drain_so_that_another_gets_their_credit(
    proton: Peer, broker: BrokerThread, operator: Operator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("brokers.engine.flow.credit.DRAIN_TIMEOUT_MS", 60_000)  # only an answer ends a drain
    operator.create("orders", capacity_messages=1)
    with proton.playing("idle", broker.port, links=2) as running:
        operator.until(lambda: [p["credit"] for p in operator.producers("orders")] == [1, 1], "they have all credit")
        operator.publish("orders", "a", "b")
        assert running.terminate()["drains"] >= 2
