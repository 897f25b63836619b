"""Messages with a delivery time and an expiry outlive whatever happens to the broker and to its files."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest
from proton import Message, symbol, timestamp
from proton.utils import BlockingConnection

from brokers.engine.queues import durable_storage
from brokers.engine.values.message import DELAYED
from brokers.server.config_store import ConfigStore
from brokers.server.earlier_store import salvage
from brokers.server.journal.journal_store import JournalStore
from brokers.server.journal.reading import JournalReader, damaged_messages
from brokers.server.store_adoption import adopt
from brokers.server.store_command import main
from brokers.server.store_folder import file_name
from brokers.server.store_identity import CONFIG, FOLDER
from brokers.server.store_survey import read_store
from brokers.steady_clock import time_of_day
from tests.amqp.broker_thread import BrokerThread
from tests.amqp.clients import bodies, connected, fill
from tests.server.earlier_writer.folders import as_of_the_release_before
from tests.server.test_bit_rot import flip_in
from tests.server.test_broker_process import running

HOUR = 3_600_000
STORE = f"{FOLDER}/{file_name('default')}"


def messages() -> list[Message]:
    """By their delivery times, in hours; one expires before it is due, one after."""

    def message(text: str, annotations: dict[Any, Any], hours_to_live: float = 0) -> Message:
        return Message(body=text, durable=True, ttl=hours_to_live * 3600, annotations=annotations)

    time, delay = symbol("x-opt-delivery-time"), symbol("x-opt-delivery-delay")
    return [
        message("at 5", {time: timestamp(time_of_day() + 5 * HOUR)}),
        message("after 3", {delay: 3 * HOUR}),
        message("gone before 7", {time: time_of_day() + 7 * HOUR}, 6),
        message("at 4, gone after", {time: time_of_day() + 4 * HOUR}, 8),
    ]


def assert_all_is_well(data: Path) -> None:
    """None is seen early, all are seen in time, and what has expired is gone."""
    assert list(damaged_messages(data / STORE)) == []
    with BrokerThread(data) as broker:
        broker.do(lambda s: setattr(s.broker.virtualhost("default"), "anonymous", True))
        broker.until_queue(
            "q", lambda q: len(q.lanes.delayed) == 4 and not q.lanes.delayed.has_unread, "the times are known"
        )
        with connected(broker, timeout=30) as connection:
            receiver = connection.create_receiver("q", credit=10)
            for hours, text in ((3.5, "after 3"), (1, "at 4, gone after"), (1, "at 5")):
                broker.pass_time(int(hours * HOUR))
                assert bodies(receiver, 1) == [text]
            broker.pass_time(4 * HOUR)
            broker.until_queue("q", lambda q: q.lanes.expired == 1, "the last has expired")
        broker.until_queue("q", lambda q: (q.gate.depth_messages, len(q.lanes.delayed)) == (0, 0), "nothing is left")


def filled(data: Path) -> Path:
    with BrokerThread(data) as broker:
        broker.do(lambda s: s.broker.create_queue(s.broker.virtualhost("default"), "q", {}, durable=True))
        fill(broker, "q", messages())
    return data


@pytest.mark.domain("clients delivery delay")
def test_they_outlive_a_broker_that_is_killed(tmp_path: Path) -> None:
    async def killed() -> None:
        async with running(tmp_path) as broker:
            await asyncio.to_thread(send, broker.port)
            assert (await broker.end(signal.SIGKILL))[0] == -signal.SIGKILL

    def send(port: int) -> None:
        connection = BlockingConnection(f"127.0.0.1:{port}", timeout=30, allowed_mechs="ANONYMOUS")
        sender = connection.create_sender("q")
        for message in messages():
            sender.send(message)
        connection.close()

    with BrokerThread(tmp_path) as broker:
        broker.do(lambda s: s.broker.create_queue(s.broker.virtualhost("default"), "q", {}, durable=True))
    asyncio.run(killed())
    assert_all_is_well(tmp_path)


def test_they_outlive_the_loss_of_the_configuration(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (filled(tmp_path) / CONFIG).unlink()
    capsys.readouterr()
    assert main(["adopt", "--data", str(tmp_path), "--json"]) == 0
    assert "4 messages" in json.loads(capsys.readouterr().out)["done"][0]
    assert_all_is_well(tmp_path)


def test_they_outlive_a_journal_that_is_written_again_for_another_broker(tmp_path: Path) -> None:
    """Its queues get other numbers."""
    data, other = filled(tmp_path / "data"), tmp_path / "other"
    with BrokerThread(other) as broker:
        broker.do(lambda s: s.broker.create_queue(s.broker.virtualhost("default"), "orders", {}, durable=True))
    shutil.copy(other / CONFIG, data / CONFIG)
    [before] = read_store(data / STORE).queues
    assert "queue q was created for the 4 messages" in " ".join(adopt(data))
    [number] = read_store(data / STORE).queues
    assert number != before
    assert_all_is_well(data)


def test_they_outlive_the_compaction_of_their_segment(tmp_path: Path) -> None:
    filled(tmp_path)
    size = 64 << 10
    with contextlib.closing(JournalStore(tmp_path / STORE, segment_bytes=size)) as store:
        [before] = {run.segment.serial for segment in store._index.segments.values() for run in segment.runs}
        entries = list(store.recover())
        for number in range(400):
            store.put(2, number, bytes(20_000))
            store.remove(2, number)
            while store.write(store.take()).unfinished:
                pass
        assert before not in store._index.segments
        assert list(store.recover()) == entries
    with contextlib.closing(ConfigStore(tmp_path / CONFIG)) as config:  # else the store is newer than it
        [(key, value)] = [(key, value) for kind, key, value in config.load() if kind == "broker"]
        config.put("broker", key, value | {"last_store_id": 2})
        config.commit()
    assert_all_is_well(tmp_path)


@pytest.mark.parametrize("repaired", [False, True])
def test_they_outlive_the_repair_and_the_conversion_of_a_store_of_the_release_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, repaired: bool
) -> None:
    as_of_the_release_before(filled(tmp_path))
    with monkeypatch.context() as patch:
        if repaired:
            patch.setattr(salvage, "_findings", lambda db, table: ["as if it were damaged"])
        assert main(["convert", "--data", str(tmp_path)]) == 0
    assert ("4 messages were saved" in caplog.text) == repaired
    assert_all_is_well(tmp_path)


def test_the_expiry_of_one_has_a_bit_set_and_is_as_ever(tmp_path: Path) -> None:
    filled(tmp_path)
    with contextlib.closing(JournalReader(tmp_path / STORE)) as reader:
        expiries = [expires for *_, expires in reader.recover()]
    assert [expires & DELAYED for expires in expiries] == [DELAYED] * 4
    hours = [round((expires - DELAYED - time_of_day()) / HOUR) if expires != DELAYED else 0 for expires in expiries]
    assert hours == [0, 0, 6, 8]


def test_one_that_is_damaged_costs_itself(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    flip_in(filled(tmp_path) / STORE, b"after 3")
    with BrokerThread(tmp_path) as broker:
        broker.until_queue(
            "q", lambda q: (q.lanes.dropped, len(q.lanes.delayed)) == (1, 3), "it is missed when times are read"
        )
        assert "message 2 of queue q is not delivered" in caplog.text
        broker.pass_time(5 * HOUR + HOUR // 2)
        with connected(broker, timeout=30) as connection:
            assert bodies(connection.create_receiver("q", credit=10), 2) == ["at 5", "at 4, gone after"]


@pytest.mark.parametrize("restarted", [False, True])
def test_many_that_are_due_at_once_stay_in_the_store_until_they_are_wanted(tmp_path: Path, restarted: bool) -> None:
    """Also before others that are in memory, of which each comes in its turn."""
    count, size = 1500, 10_000
    assert count * size > 3 * durable_storage.READY_BYTES

    def publish(service: Any) -> None:
        queue = service.broker.queue("default", "q")
        due = timestamp(time_of_day() + HOUR)
        for number in range(count):
            annotations = {symbol("x-opt-delivery-time"): due}
            queue.enqueue(bytes(Message(id=number, body=b"x" * size, durable=True, annotations=annotations).encode()))
        queue.enqueue(bytes(Message(id=count, body=b"plain", durable=True).encode()))
        queue.enqueue(bytes(Message(id=count + 1, body=b"not durable").encode()))

    with BrokerThread(tmp_path) as broker:
        broker.do(lambda s: s.broker.create_queue(s.broker.virtualhost("default"), "q", {}, durable=True))
        broker.do(publish)
        broker.until_queue("q", lambda q: len(q.lanes.delayed) == count, "they are stored", within=60)
        if not restarted:
            see_them_come(broker, count, size, plain=2)
    if restarted:
        with BrokerThread(tmp_path) as broker:
            broker.until_queue(
                "q",
                lambda q: len(q.lanes.delayed) == count and not q.lanes.delayed.has_unread,
                "times are known",
                within=60,
            )
            see_them_come(broker, count, size, plain=1)


def see_them_come(broker: BrokerThread, count: int, size: int, *, plain: int) -> None:
    memory: list[int] = []

    def looked(queue: Any) -> bool:
        memory.append(queue.memory_bytes())
        return not queue.lanes.delayed

    broker.pass_time(HOUR)
    broker.until_queue("q", looked, "all are due", within=60)
    assert max(memory) <= durable_storage.READY_BYTES + (2 << 20)
    with connected(broker, timeout=60) as connection:
        receiver = connection.create_receiver("q", credit=100)
        found = []
        for _ in range(count + plain):
            found.append(receiver.receive().id)
            receiver.accept()
    assert found == list(range(count + plain))
    assert max(memory) <= durable_storage.READY_BYTES + (2 << 20)
