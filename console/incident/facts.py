"""What a broker answers about a blocked queue or producer: those of the objects around it that the broker has.

A broker declares what it has: some do not list consumers, or do not say which queues a producer sends to, or do not
explain the origins of limits. What it lacks is None here, and never an empty list.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from brokers.admin import BrokerAdmin, NotFound, Page
from brokers.model import Kind, ManagedType, ObjectName, object_name
from console.conditions.remedies import ALL, Remedies
from console.links.object_shapes import row_of, rows_of

Row = Mapping[str, Any]

#: Listed producers, and consumers; connections whose other links are listed.
MOST_LINKS, MOST_CONNECTIONS = 200, 40
#: Listed producers, and consumers, of these connections.
_MOST_SHARING = 500

BROKER = object_name("Broker")


@dataclass(frozen=True, slots=True)
class Facts:
    """The broker's answers. Each object is a row: its attributes and `object`, the text of its name. `queue`: None if
    the broker does not say to which queue the producer sends. `producers` and `consumers`: of the queue; None if the
    broker does not list them by queue. `explain`: field -> its value and origin, if known. `stop`: what a stop of the
    queue does to producers (`Operation.producer_effect`), and the sentence about it. `remedies`: what operators can do
    on this broker."""

    queue: Row | None
    explain: Mapping[str, Mapping[str, Any]]
    producers: Sequence[Row] | None
    producers_total: int | None
    consumers: Sequence[Row] | None
    consumers_total: int | None
    broker: Row
    host: Row
    producer: Row | None = None  # the producer to explain; None: the queue is
    connections: Sequence[Row] = ()
    sharing_producers: Sequence[Row] = ()
    sharing_consumers: Sequence[Row] = ()
    stop: tuple[str, str] = ("hold", "")
    remedies: Remedies = ALL
    now: int = 0  # by the broker's clock, ms since the epoch

    @property
    def name(self) -> str:
        """The name of the queue for people; "" if the queue is unknown."""
        return "" if self.queue is None else str(self.queue["name"])

    @property
    def concerned(self) -> Sequence[Row]:
        """Those of the explained producers that are known."""
        return [self.producer] if self.producer is not None else self.producers or []


async def read(admin: BrokerAdmin, name: ObjectName, now: int = 0) -> Facts | None:
    """Query the broker; None if there is no such queue or producer. `now`: the broker's time, ms since the epoch.
    Raises AdminError."""
    reader = _Reader(admin, await admin.types())
    try:
        producer = await admin.read(name) if name.type == "Producer" else None
        queue = name if producer is None else _queue_of(producer.attributes.get("queue"))
        found, explain, producers, consumers, broker, host = await asyncio.gather(
            reader.queue(queue),
            reader.explain(queue),
            reader.links("Producer", "queue", str(queue), "state,blocked_since,id"),
            reader.links("Consumer", "queue", str(queue), "id"),
            admin.read(BROKER),
            reader.host(name["virtualhost"]),
        )
    except NotFound:
        return None
    around = [row_of(producer)] if producer is not None else [*(producers.rows or ()), *(consumers.rows or ())]
    connections, sharing_producers, sharing_consumers = await reader.connections(around)
    return Facts(
        queue=found,
        explain=explain,
        producers=producers.rows,
        producers_total=producers.total if found is None or producers.rows is not None else found.get("producers"),
        consumers=consumers.rows,
        consumers_total=consumers.total if found is None or consumers.rows is not None else found.get("consumers"),
        broker=row_of(broker),
        host=host,
        producer=None if producer is None else row_of(producer),
        connections=connections,
        sharing_producers=sharing_producers,
        sharing_consumers=sharing_consumers,
        stop=reader.stop,
        remedies=Remedies.of(reader.types),
        now=now,
    )


def _queue_of(text: Any) -> ObjectName | None:
    return ObjectName.parse(str(text)) if text else None


@dataclass(frozen=True, slots=True)
class _Links:
    """Listed links, and how many there are; None: the broker does not list them."""

    rows: Sequence[Row] | None = None
    total: int | None = None


@dataclass(frozen=True, slots=True)
class _Reader:
    """Queries for what the broker has. `types`: as it declares them."""

    admin: BrokerAdmin
    types: Mapping[str, ManagedType] = field(default_factory=dict)

    @property
    def stop(self) -> tuple[str, str]:
        """What a stop of a queue does to producers, and the sentence about it."""
        declared = self.types["Queue"].operation("stop-producers") if "Queue" in self.types else None
        return ("hold", "") if declared is None else (declared.producer_effect or "hold", declared.remark)

    async def queue(self, name: ObjectName | None) -> Row | None:
        return None if name is None else row_of(await self.admin.read(name))

    async def explain(self, name: ObjectName | None) -> Mapping[str, Mapping[str, Any]]:
        if name is None or self.types[name.type].operation("explain") is None:
            return {}
        answer = await self.admin.call(name, "explain", {})
        return dict(answer["fields"])

    async def host(self, name: str) -> Row:
        """Return a virtual host; only its name if the broker has none."""
        if "VirtualHost" not in self.types:
            return {"object": "", "name": name}
        return row_of(await self.admin.read(object_name("VirtualHost", name=name)))

    async def links(
        self, type_name: str, attribute: str, value: str | Sequence[str], sort: str = "", count: int = MOST_LINKS
    ) -> _Links:
        """Return the links of a type of which an attribute has one of these values."""
        declared = self.types.get(type_name)
        if declared is None or declared.attribute(attribute) is None:
            return _Links()
        known = ",".join(each for each in sort.split(",") if declared.attribute(each))
        page: Page = await self.admin.query(type_name, where={attribute: value}, sort=known, count=count)
        return _Links(rows_of(page.items), page.total)

    async def connections(self, links: Sequence[Row]) -> tuple[Sequence[Row], Sequence[Row], Sequence[Row]]:
        """Return the connections of links, and all producers and consumers on them."""
        named = [str(link["connection"]) for link in links if link.get("connection")]
        names = list(dict.fromkeys(named))[:MOST_CONNECTIONS]
        declared = self.types["Connection"].attribute("id") if "Connection" in self.types else None
        if not names or declared is None:
            return (), (), ()
        texts = [ObjectName.parse(text)["id"] for text in names]
        ids = [int(text) for text in texts] if declared.kind is Kind.INTEGER else texts
        connections, producers, consumers = await asyncio.gather(
            self.admin.query("Connection", where={"id": ids}, count=MOST_CONNECTIONS),
            self.links("Producer", "connection", names, count=_MOST_SHARING),
            self.links("Consumer", "connection", names, count=_MOST_SHARING),
        )
        return rows_of(connections.items), producers.rows or (), consumers.rows or ()
