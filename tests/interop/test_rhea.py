"""rhea (AMQP 1.0 for Node.js) against the broker: `rhea/scenarios.js` runs, and reports the results."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.amqp.broker_thread import BrokerThread
from tests.client.operator import Operator
from tests.interop.peers import Peer, built, need, run

PROJECT = Path(__file__).parent / "rhea"
HOW = "install Node.js (18 or later) and npm, on Debian `apt-get install nodejs npm`, and be online once"

CAPACITY = 5
FULL = CAPACITY + 1  # overfull is above the capacity


@pytest.fixture(scope="session")
def rhea(pytestconfig: pytest.Config) -> Peer:
    """npm fetches the client, once, into pytest's cache."""
    node, npm = need("node", HOW), need("npm", HOW)
    assert pytestconfig.cache is not None
    sources = [PROJECT / "package.json", PROJECT / "scenarios.js"]

    def install(folder: Path) -> None:
        for source in sources:
            shutil.copy(source, folder)
        options = ("--no-package-lock", "--ignore-scripts", "--no-audit", "--no-fund")
        run("fetching rhea with npm", HOW, npm, "install", *options, cwd=folder)

    folder = built(pytestconfig.cache.mkdir("interop-rhea"), sources, install)
    return Peer([node, str(folder / "scenarios.js")], lambda port: f"amqp://127.0.0.1:{port}")


@pytest.mark.parametrize("scenario", ["send", "send-ahead"])
def test_publishing_to_a_full_queue_is_blocked_and_released(
    rhea: Peer, broker: BrokerThread, operator: Operator, scenario: str
) -> None:
    operator.create("orders", capacity_messages=CAPACITY, flow_resume_messages=1)
    with rhea.playing(scenario, broker.port, count=10) as running:
        operator.until_blocked("orders")
        operator.until(lambda: operator.depth("orders") == FULL, "all that the queue takes has arrived")
        assert not running.ended
        taken = operator.take("orders", FULL)
        assert running.seen()["accepted"] == 10
    taken += operator.take("orders", 10 - FULL)
    assert taken == [f"m{n}" for n in range(10)]


def test_idle_senders_answer_a_drain_so_that_another_gets_their_credit(
    rhea: Peer, broker: BrokerThread, operator: Operator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("brokers.engine.flow.credit.DRAIN_TIMEOUT_MS", 60_000)  # only an answer ends a drain
    operator.create("orders", capacity_messages=1)
    with rhea.playing("idle", broker.port, links=2) as running:
        operator.until(lambda: [p["credit"] for p in operator.producers("orders")] == [1, 1], "they have all credit")
        operator.publish("orders", "a", "b")
        assert running.terminate()["drains"] >= 2


def test_browsing_takes_nothing(rhea: Peer, broker: BrokerThread, operator: Operator) -> None:
    operator.publish("orders", "m0", "m1", "m2")
    assert rhea.play("browse", broker.port, count=3) == {"first": ["m0", "m1", "m2"], "second": ["m0", "m1", "m2"]}
    assert operator.take("orders", 3) == ["m0", "m1", "m2"]


def test_drain_of_a_receiver_delivers_available_messages_and_ends_its_credit(
    rhea: Peer, broker: BrokerThread, operator: Operator
) -> None:
    operator.publish("orders", "m0", "m1")
    assert rhea.play("drain-receiver", broker.port, count=10) == {"found": ["m0", "m1"], "credit": 0}


def test_a_request_is_answered_through_a_dynamic_source(rhea: Peer, broker: BrokerThread) -> None:
    seen = rhea.play("request-reply", broker.port)
    assert (seen.get("got"), seen.get("to")) == ("answer to q0", "q0"), seen
    assert seen["reply_to"].startswith("temporary-queue.")
    broker.until(lambda s: [q.name for q in s.broker.queues()] == ["orders"], "the queue of the answers has gone")


def test_a_user_signs_in_by_scram_with_the_right_password_only(rhea: Peer, broker: BrokerThread) -> None:
    right = rhea.play("scram", broker.port, user="console", password=broker.secret)
    assert right == {"received": ["m0"]}
    wrong = rhea.play("scram", broker.port, user="console", password="wrong")
    assert "Failed to authenticate" in wrong["error"]
