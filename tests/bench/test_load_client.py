"""The C client of the measurements (`bench/load.c`) against a real broker: what it counts, and that a broker that
rejects, blocks or loses messages is found out. Headgate's own broker can do all three."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.bench.scripts import script
from tests.interop.peers import absent

measured, rate_rows, steps = script("measured"), script("rate_rows"), script("steps")

pytestmark = pytest.mark.slow

QUEUES: dict[str, dict[str, object]] = {
    "durable": {"durable": True},
    "rejects": {"capacity_messages": 5, "mechanism": "reject"},
    "blocks": {"capacity_messages": 5, "mechanism": "block"},
    "loses": {"capacity_messages": 5, "overflow": "ring"},
}


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    into = tmp_path_factory.mktemp("programs")
    try:
        measured.load_clients(into)
    except measured.Failed as why:
        absent("a C compiler or Proton's headers are missing", str(why))
    return into


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    data, port = tmp_path_factory.mktemp("data"), measured.free_port()
    with measured.running(measured.our_broker(port, data), port) as process:
        asyncio.run(create_queues(port, data))
        yield measured.Broker("Headgate", port, process.pid)


async def create_queues(port: int, data: Path) -> None:
    from brokers.model import object_name

    admin = await measured.admin(port, data)
    for name, attributes in QUEUES.items():
        await admin.create(object_name("Queue", virtualhost="default", name=name), attributes)
    await admin.close()


@pytest.mark.parametrize(
    ("queue", "counts", "options"),
    [
        ("plain", (2000, 1), {}),
        ("pairs", (1001, 1), {"senders": 3, "receivers": 2}),
        ("large", (21, 1), {"size": 2**20, "window": 4, "unaccepted": 4}),
        ("topic", (300, 7), {"receivers": 7, "topic": True}),
        ("durable", (500, 1), {"durable": True}),
        ("durable", (205, 1), {"durable": True, "transaction": 10}),
        ("durable", (301, 1), {"durable": True, "transaction": 100, "senders": 3, "receivers": 3}),
        ("spread", (400, 1), {"senders": 20, "receivers": 20, "queues": 4}),
    ],
    ids=lambda value: str(value) if isinstance(value, str | dict) else "",
)
def test_each_message_is_counted_once(
    programs: Path, broker: Any, queue: str, counts: tuple[int, int], options: dict[str, Any]
) -> None:
    """`counts`: of the messages, and of the deliveries of each."""
    count, copies = counts
    done = measured.load(programs, broker, queue, count=count, exact=True, **options)
    assert (done["sent"], done["accepted"], done["refused"]) == (count, count, 0)
    assert (done["received"], done["repeated"], done["foreign"], done["presettled"]) == (count * copies, 0, 0, 0)
    assert sum(done["accepted_by"]) == count
    assert rate_rows.fault(done, count, copies) == ""


@pytest.mark.parametrize(
    ("queue", "options", "why"),
    [
        ("rejects", {}, "refused"),
        ("rejects", {"transaction": 10}, "refused"),
        ("blocks", {}, "never had credit"),
        ("loses", {"receivers": 1, "window": 1, "pace": 1, "seconds": 3}, "deliveries arrived"),
    ],
    ids=lambda value: str(value) if isinstance(value, str | dict) else "",
)
def test_a_broker_that_rejects_blocks_or_loses_is_found_out(
    programs: Path, broker: Any, queue: str, options: dict[str, Any], why: str
) -> None:
    count = 200
    done = measured.load(programs, broker, queue, count=count, exact=True, quiet=1000, **{"receivers": 0, **options})
    assert why in rate_rows.fault(done, count), done


def test_messages_of_an_earlier_run_are_taken_and_not_counted(programs: Path, broker: Any) -> None:
    left = measured.load(programs, broker, "left", count=50, receivers=0)
    assert left["accepted"] == 50
    done = measured.load(programs, broker, "left", count=100, exact=True)
    assert (done["received"], done["foreign"]) == (100, 50)
    assert rate_rows.fault(done, 100) == ""


def test_an_attended_client_goes_on_when_it_may(programs: Path, broker: Any) -> None:
    with steps.steps(programs / "load", broker, "attended", count=100, exact=True, attended=True) as client:
        client.next("attached")
        done = client.next("done")
        client.finish()
    assert rate_rows.fault(done, 100) == ""


def test_a_client_whose_broker_refuses_the_link_says_why(programs: Path, broker: Any) -> None:
    with (
        steps.steps(programs / "load", broker, "$nothing/of/the/kind", count=1, attended=True) as client,
        pytest.raises(measured.Failed, match="amqp:"),
    ):
        client.next("attached")
