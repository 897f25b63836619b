"""Metrics as text for Prometheus: OpenMetrics if the client accepts it, else the plain format.

A collector is made for each request and lives for it: nothing is registered, and no series outlives its broker.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector, CollectorRegistry

from console.links.link import BrokerLink
from console.metrics.families import ANSWERED, BROKER, QUEUE, UP, Family, Row, totals

_OPENMETRICS = "application/openmetrics-text"


def encoded(collector: Collector, accept: str) -> tuple[bytes, str]:
    """Return the metrics and their media type. `accept`: the header of the request, of any content."""
    # The library's negotiation fails for some headers, and repeats parts of others.
    wanted = any(part.partition(";")[0].strip().lower() == _OPENMETRICS for part in accept.split(",", 100)[:100])
    encoder, media = choose_encoder(f"{_OPENMETRICS}; version=1.0.0" if wanted else "")
    registry = CollectorRegistry(auto_describe=False)
    registry.register(collector)
    return encoder(registry), media


class BrokerMetrics(Collector):
    """The metrics of brokers. One that is not connected has `headgate_broker_up` 0 and nothing else: its last values
    say nothing of now."""

    def __init__(self, links: Sequence[BrokerLink]) -> None:
        self._links = links

    def collect(self) -> Iterator[GaugeMetricFamily]:
        rows = {link.slug: (_totals(link), link) for link in self._links}
        up, answered = _gauge(UP, ["broker"]), _gauge(ANSWERED, ["broker"])
        for slug, (row, link) in rows.items():
            up.add_metric([slug], 0 if row is None else 1)
            if row is not None and link.as_of is not None:
                answered.add_metric([slug], link.as_of / 1000)
        yield up
        yield answered
        for family in BROKER:
            metric = _gauge(family, ["broker"])
            for slug, (row, _) in rows.items():
                if row is not None and (value := family.value(row)) is not None:
                    metric.add_metric([slug], value)
            yield metric


class QueueMetrics(Collector):
    """The metrics of queues: labels and row of each."""

    def __init__(self, queues: Iterable[tuple[str, Row]]) -> None:
        self._queues = [([slug, row["virtualhost"], row["name"]], row) for slug, row in queues]

    def collect(self) -> Iterator[GaugeMetricFamily | CounterMetricFamily]:
        labels = ["broker", "virtualhost", "queue"]
        for family in QUEUE:
            kind = CounterMetricFamily if family.name.endswith("_total") else GaugeMetricFamily
            metric = kind(family.name, family.help, labels=labels)
            for values, row in self._queues:
                if (value := family.value(row)) is not None:
                    metric.add_metric(values, value)
            yield metric


def _gauge(family: Family, labels: Sequence[str]) -> GaugeMetricFamily:
    return GaugeMetricFamily(family.name, family.help, labels=labels)


def _totals(link: BrokerLink) -> Row | None:
    """Return the broker's totals, or None if it is not connected."""
    broker, queues = link.broker, link.queues()
    return totals(broker, queues) if broker is not None and link.connected else None
