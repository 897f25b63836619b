"""Several brokers in memory behind links: they come, go, and hang."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from brokers.model import object_name
from console.links.registry import BrokerLink, close_links, link
from console.live.fleet.members import Member
from tests.console.conftest import QUICK, Broker, until


class FleetBroker(Broker):
    """A broker of the fleet, by its slug."""

    def __init__(self, slug: str) -> None:
        super().__init__()
        self.slug = slug

    @property
    def link(self) -> BrokerLink:
        return link(self.slug)


def entry(broker: FleetBroker, **more: Any) -> dict[str, Any]:
    title = f"Broker {broker.slug}"
    return {"slug": broker.slug, "title": title, "connect": broker.connect, "options": {}, "pace": QUICK, **more}


@pytest.fixture
def fleet(settings: Any) -> Iterator[dict[str, FleetBroker]]:
    """`eu` (its own kind, prod), `us` (rabbitmq; prod, slow), and `gone`, which was never connected."""
    close_links()
    brokers = {slug: FleetBroker(slug) for slug in ("eu", "us", "gone")}
    brokers["gone"].memory.disconnect()
    settings.HEADGATE_BROKERS = [
        entry(brokers["eu"], tags=["prod"]),
        entry(brokers["us"], kind="rabbitmq", tags=["prod", "slow"]),
        entry(brokers["gone"], kind="artemis"),
    ]
    for slug in ("eu", "us"):
        for name in (f"orders.{slug}", f"mail.{slug}"):
            brokers[slug].memory.management.create(object_name("Queue", virtualhost="default", name=name), {})
        brokers[slug].memory._end_turn()
        brokers[slug].connected()
    until(lambda: link("eu").queue_count == link("us").queue_count == 2)
    until(lambda: "gone" in link("gone").status.error or not link("gone").connected)
    yield brokers
    close_links()


def overfull(broker: FleetBroker, name: str, depth: int = 20) -> None:
    """Give a queue a capacity, and exceed it."""
    queue = object_name("Queue", virtualhost="default", name=name)
    changed = broker.link.call(lambda admin: admin.read(queue))
    broker.link.call(lambda admin: admin.update(queue, {"capacity_messages": 10}, changed.version))
    broker.do(lambda memory: memory.fill(name, depth))
    until(lambda: (broker.link.queue(queue) or {}).get("state") == "OVERFULL")


def members(brokers: dict[str, FleetBroker]) -> list[Member]:
    return [Member(broker.link) for broker in brokers.values()]
