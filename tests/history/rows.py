"""Concise landing rows for tests: times are seconds after NOON."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from console.history.storage.landing import SCHEMAS, Landing

NOON = dt.datetime(2026, 3, 14, 12, tzinfo=dt.UTC)

Row = dict[str, Any]


def at(seconds: float) -> dt.datetime:
    return NOON + dt.timedelta(seconds=seconds)


class Story:
    """Rows of one broker. Events are numbered consecutively in the order of the calls."""

    def __init__(
        self, broker: str = "b", virtualhost: str = "default", source: str = "made", numbers_from: int = 1
    ) -> None:
        self.broker, self.virtualhost, self.source = broker, virtualhost, source
        self._numbers_from = numbers_from
        self.rows: dict[str, list[Row]] = {"events": [], "samples": [], "coverage": []}

    def watch(self, begin: float, end: float, **more: Any) -> Story:
        return self._add("coverage", begin, until=at(end), followed=True, **more)

    def event(self, when: float, kind: str, **more: Any) -> Story:
        number = len(self.rows["events"]) + self._numbers_from
        return self._add("events", when, number=number, sequence=number, kind=kind, **more)

    def overfull(self, when: float, queue: str = "q", depth: int = 11, stop: int = 10, **more: Any) -> Story:
        return self._of_queue(
            when,
            "queue-overfull",
            queue,
            depth,
            state="OVERFULL",
            stop_messages=stop,
            **{"blocked_producers": 1, **more},
        )

    def underfull(self, when: float, queue: str = "q", depth: int = 5, **more: Any) -> Story:
        return self._of_queue(
            when, "queue-underfull", queue, depth, **{"state": "NORMAL", "blocked_producers": 0, **more}
        )

    def blocked(self, when: float, producer: int = 1, queue: str = "q", **more: Any) -> Story:
        return self._of_producer(
            when, "producer-blocked", producer, queue, reasons=[f"queue-overfull:{queue}"], blocked_producers=1, **more
        )

    def released(self, when: float, producer: int = 1, queue: str = "q", **more: Any) -> Story:
        return self._of_producer(when, "producer-released", producer, queue, blocked_producers=0, **more)

    def sample(self, when: float, depth: int, queue: str = "q", *, whole: bool = False, **more: Any) -> Story:
        given = {"state": "NORMAL", "blocked_producers": 0, "producers": 1, "consumers": 1} | more
        return self._add(
            "samples",
            when,
            virtualhost=self.virtualhost,
            queue=queue,
            depth_messages=depth,
            depth_bytes=depth * 100,
            whole=whole,
            **given,
        )

    def _of_queue(self, when: float, kind: str, queue: str, depth: int, **more: Any) -> Story:
        name = f"type=Queue,virtualhost={self.virtualhost},name={queue}"
        more = {"depth_messages": depth, "depth_bytes": depth * 100} | more
        return self.event(
            when, kind, object=name, object_type="Queue", virtualhost=self.virtualhost, queue=queue, **more
        )

    def _of_producer(self, when: float, kind: str, producer: int, queue: str, **more: Any) -> Story:
        given = {
            "object": f"type=Producer,virtualhost={self.virtualhost},id={producer}",
            "object_type": "Producer",
            "virtualhost": self.virtualhost,
            "queue": queue,
            "client": f"client-{producer}",
            "link": f"link-{producer}",
            "connection": f"con:{producer}(guest@127.0.0.1:1/default)",
            "channel": "ch:1",
        }
        return self.event(when, kind, **(given | more))

    def _add(self, table: str, when: float, **values: Any) -> Story:
        self.rows[table].append({"broker": self.broker, "run": "r", "at": at(when), "source": self.source, **values})
        return self


def table(kind: str, rows: Iterable[Mapping[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist([dict(row) for row in rows], schema=SCHEMAS[kind])


def land(url: str, rows: Mapping[str, list[Row]]) -> None:
    """Publish all rows, one file per kind."""
    landing = Landing(url)
    for kind, some in rows.items():
        if some:
            landing.publish(kind, table(kind, some))
