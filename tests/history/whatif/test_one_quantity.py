"""Blocked producer time is one quantity: on the live page, in history, simulation and recommendations."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from django.contrib.auth.models import User
from rest_framework.test import APIClient

from brokers.model import object_name
from brokers.testing import InMemoryBroker
from console.history.storage.landing import Landing
from console.history.storage.queue_key import QueueKey
from console.history.storage.reader import reader_of
from console.history.whatif.fleet_recommendations import recommendation_of_queue
from console.history.whatif.minute_traffic import COLUMNS, KNOWN
from console.history.whatif.recorded_traffic import recorded
from tests.history.record.test_recorder import looked, recording

MINUTE = 60_000
ORDERS = object_name("Queue", virtualhost="default", name="orders")


def ten_minutes(memory: InMemoryBroker) -> None:
    """Two producers fill `orders` twice; each time they are blocked until a consumer drains it half a minute later."""
    producers = [memory.attach_producer("orders", link=f"sender-{n}") for n in range(2)]
    consumer = memory.attach_consumer("orders", credit=10_000)
    for second in range(600):
        is_filling, is_draining = second % 300 in range(60, 80), second % 300 in range(110, 130)
        if is_filling:
            for producer in producers:
                memory.publish(producer, 5)
        if is_draining:
            memory.consume(consumer, 10)
        memory.advance(1000, step=500)
        memory.sample()


async def record(landing: Landing) -> tuple[int, int, int]:
    """Record the ten minutes; return their beginning and end, ms, and the blocked time that the live page shows, summed
    over the producers."""
    memory = InMemoryBroker()
    await memory.create(ORDERS, {"capacity_messages": 100, "flow_resume_messages": 20})
    begin = memory.engine.turn.now
    async with recording(memory, landing):
        await looked(landing, memory)
        ten_minutes(memory)
        end = memory.engine.turn.now
        await looked(landing, memory, since=end)
    live = sum(producer.attributes["blocked_ms"] for producer in (await memory.query("Producer")).items)
    return begin, end + MINUTE, live


@pytest.mark.django_db
def test_live_history_simulation_and_recommendation_have_the_same_blocked_producer_time(
    tmp_path: Path, settings: Any
) -> None:
    settings.HEADGATE_HISTORY_URL = str(tmp_path / "history")
    begin, until, live = asyncio.run(record(Landing(str(tmp_path / "history"))))
    assert live > 60_000

    reader = reader_of(str(tmp_path / "history"))
    found = recorded(reader, QueueKey("local", "default", "orders"), begin, until)
    assert found is not None
    assert round(found.blocked.seconds * 1000) == live

    minutes = reader.batches(
        f"""SELECT epoch_ms("at") AS ms, broker, virtualhost, name, {", ".join(COLUMNS)}
        FROM {{minutes}} WHERE {KNOWN} AND broker = 'local' AND name = 'orders'""",
        {},
        begin=begin,
        end=until,
        where={"broker": "local"},
    ).read_all()
    of_queue = {"begin_ms": begin, "at_ms": until, "consumers_most": 1, "unacknowledged_share": 0.0, "resumes": True}
    for name, value in of_queue.items():
        minutes = minutes.append_column(name, pa.array([value] * len(minutes)))
    recommended = recommendation_of_queue(minutes).to_pylist()[0]
    assert round(recommended["recorded_blocked_seconds"] * 1000) == live

    client = APIClient()
    client.force_login(User.objects.create_superuser("ada"))
    about = {"broker": "local", "virtualhost": "default", "queue": "orders", "from": begin, "until": until}
    ranges = {name: about[name] for name in ("from", "until", "broker")}
    top = client.get("/api/v1/history/top/", {**ranges, "of": "queues"}).json()
    episodes = client.get("/api/v1/history/episodes/", about).json()
    simulated = client.post("/api/v1/history/what-if/", about, format="json").json()
    assert [row["blocked_ms"] for row in top["rows"]] == [live]
    assert sum(row["blocked_ms"] for row in episodes["results"]) == live
    assert simulated["recorded_blocked_ms"] == live
    # Two producers are blocked while it is overfull.
    assert simulated["blocked_producers"] == pytest.approx(2, rel=0.02)
    assert simulated["current"]["blocked_low_ms"] * 0.8 <= live <= simulated["current"]["blocked_high_ms"] * 1.2
