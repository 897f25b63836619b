"""The credit of a link that publishes to any address, under a limit on memory: the client has as much as the broker
counts, whatever is published in runs, so a client that uses its credit is never cut."""

from __future__ import annotations

import random
from typing import Any

import pytest
from proton import Delivery, Message

from brokers.amqp import runs
from brokers.amqp.fan_out_link import FanOutLink
from brokers.amqp.proton import link_credit
from tests.amqp.test_runs_model import Half
from tests.interop.peers import absent


@pytest.fixture(params=[True, False], ids=["in_runs", "one_by_one"])
def extension(request: pytest.FixtureRequest) -> Any:
    if not request.param:
        return None
    return runs.load() or absent("the C extension brokers.amqp._runs is not built", "install gcc, and `uv sync`")


@pytest.mark.parametrize("seed", range(40))
def test_client_has_the_credit_that_the_broker_counts(
    extension: Any, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    links: list[FanOutLink] = []
    begin = FanOutLink.open
    monkeypatch.setattr(FanOutLink, "open", lambda link: (links.append(link), begin(link)))
    chance = random.Random(seed)
    half = Half(extension)
    half.broker.shortages.set_limits({"memory_limit": chance.randrange(20_000, 400_000)})
    half.broker.shortages.measure()
    client = half.clients[0]
    sender = client.sessions[0].sender("anywhere")
    sender.open()
    client.senders.append(sender)
    for queue in ("wide", "orders"):
        client.attach("receiver", queue, 0, False)
        client.receivers[-1].flow(1000)
    half.pump()
    (link,) = links
    for _ in range(60):
        spread, size = chance.random() < 0.7, chance.choice([20, 500, 1500])
        for _ in range(chance.randrange(1, 60)):
            queue = chance.choice(["wide", "orders"]) if spread else "wide"
            client.send(sender, Message(address=queue, body="x" * size).encode(), "", half.pump)
        half.pump()
        if chance.random() < 0.7:
            for delivery in client.waiting:
                delivery.update(Delivery.ACCEPTED)
                delivery.settle()
            client.waiting.clear()
            half.pump()
        assert not link.closing
        assert link_credit(link.pointer) == link.fan_out.credit
    assert len(client.received) > 100
