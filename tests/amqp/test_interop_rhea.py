"""A client in another language, with a protocol engine of its own: rhea, in JavaScript. To have it: `npm install` in
tests/amqp/interop."""

from __future__ import annotations

import json
import select
import shutil
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Any

import pytest

from tests.amqp.broker_thread import WITHIN, BrokerThread
from tests.amqp.clients import fill

HERE = Path(__file__).parent / "interop"

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed"),
    pytest.mark.skipif(not (HERE / "node_modules/rhea").is_dir(), reason="npm install in tests/amqp/interop first"),
]


class Rhea:
    """The client as a process. `said`: what it has told so far."""

    def __init__(self, broker: BrokerThread, **wanted: Any) -> None:
        wanted = {"port": broker.port, "mechanism": "ANONYMOUS", **wanted}
        self.process = subprocess.Popen(
            ["node", "peer.js", json.dumps(wanted)], cwd=HERE, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
        )
        self.said: list[dict[str, Any]] = []

    def __enter__(self) -> Rhea:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        self.process.kill()
        self.process.communicate(timeout=WITHIN)

    def read(self, within: float) -> bool:
        """Take what it says next; False if it is silent."""
        assert self.process.stdout is not None
        if not select.select([self.process.stdout], [], [], within)[0]:
            return False
        line = self.process.stdout.readline()
        assert line, f"it has ended: {self.said}"
        self.said.append(json.loads(line))
        return True

    def until(self, key: str, value: Any = None) -> Any:
        """What it said under `key`, once it did (and it is `value`)."""
        end = time.monotonic() + WITHIN
        while not (found := [s[key] for s in self.said if key in s and value in (None, s[key])]):
            assert self.read(end - time.monotonic()), f"no {key} {value}: {self.said}"
        return found[-1]

    def told(self, key: str) -> list[Any]:
        return [s[key] for s in self.said if key in s]


def test_rhea_publishes_is_blocked_is_released_and_consumes(broker: BrokerThread) -> None:
    broker.queue("orders", capacity_messages=10, flow_resume_messages=5)
    with Rhea(broker, send={"address": "orders", "count": 40}) as producer:
        producer.until("accepted", 11)
        broker.until_queue("orders", lambda q: q.state.overfull, "it is overfull")
        assert not producer.read(0.3), "it is blocked"
        with Rhea(broker, take={"address": "orders", "count": 40}) as consumer:
            producer.until("accepted", 40)
            consumer.until("taken", 40)
            assert consumer.told("taken") == list(range(1, 41))
        assert set().union(*producer.said) == {"open", "accepted"}


def test_idle_rhea_clients_give_their_credit_back(broker: BrokerThread) -> None:
    broker.queue("orders", capacity_messages=2)
    with (
        Rhea(broker, send={"address": "orders", "count": 0}) as one,
        Rhea(broker, send={"address": "orders", "count": 0}) as two,
        Rhea(broker, send={"address": "orders", "count": 0}) as three,
    ):
        for idle in (one, two, three):
            idle.until("open")
        broker.until_queue("orders", lambda q: q.producer_count == 3 and q.room() == 0, "all credit is out")
        with Rhea(broker, send={"address": "orders", "count": 3}) as busy:
            busy.until("accepted", 3)
        assert all(set().union(*idle.said) == {"open"} for idle in (one, two, three))


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_rhea_signs_in_and_asks_for_a_managed_object(broker: BrokerThread, mechanism: str) -> None:
    fill(broker, "orders", ["one"])
    name = "type=Queue,virtualhost=default,name=orders"
    with Rhea(broker, mechanism=mechanism, user="console", password=broker.secret, ask={"name": name}) as client:
        answer = client.until("answer")
        assert (answer["object"], answer["depth_messages"]) == (name, 1)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_rhea_with_a_wrong_password_is_refused(broker: BrokerThread, mechanism: str) -> None:
    with Rhea(broker, mechanism=mechanism, user="console", password="wrong") as client:
        client.until("disconnected")
        assert "open" not in set().union(*client.said)


def test_rhea_is_told_why_a_link_is_refused(strict_broker: BrokerThread) -> None:
    who = {"mechanism": "PLAIN", "user": "console", "password": strict_broker.secret}
    with Rhea(strict_broker, send={"address": "nowhere", "count": 1}, **who) as client:
        assert client.until("sender_error") == "amqp:not-found"
