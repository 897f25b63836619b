"""Durable messages through a whole broker in this process: accepted once stored, there again after a restart."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path
from typing import Any

import pytest
from proton import Delivery, Message
from proton.utils import SendException

from brokers.amqp import runs
from brokers.engine.queues import durable_storage, purging
from brokers.engine.queues.agenda import Agenda
from brokers.engine.queues.queue import Queue
from brokers.server.journal.journal_store import JournalStore
from brokers.server.journal.segments import Segments
from brokers.server.message_groups import Group, Written
from brokers.server.service import Service
from brokers.server.sqlite_file import DiskFull
from tests.amqp.broker_thread import BrokerThread, wait_until
from tests.amqp.clients import connected, fill, managing

ORDERS = "type=Queue,virtualhost=default,name=orders"


def make_durable(broker: BrokerThread, name: str = "orders", **policy: int | str) -> None:
    broker.do(lambda s: s.broker.create_queue(s.broker.virtualhost("default"), name, policy, durable=True))


def message(body: Any, *, durable: bool = True) -> Message:
    return Message(body=body, durable=durable)


class SteppedStore:
    """Puts itself before the writing of a store: nothing is written until `go`, and nothing at all while `broken`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.go = threading.Event()
        self.broken = False
        write = JournalStore.write
        append = Segments.append

        def stepped(store: JournalStore, group: Group) -> Written:
            assert self.go.wait(20)
            return write(store, group)

        def appended(segments: Segments, *given: Any) -> None:
            if self.broken:
                raise DiskFull("the disk is full")
            append(segments, *given)

        monkeypatch.setattr(JournalStore, "write", stepped)
        monkeypatch.setattr(Segments, "append", appended)


@pytest.fixture
def stepped(monkeypatch: pytest.MonkeyPatch) -> SteppedStore:
    return SteppedStore(monkeypatch)


def test_only_durable_messages_survive_a_restart(tmp_path: Path) -> None:
    with BrokerThread(tmp_path) as broker:
        make_durable(broker)
        broker.queue("fleeting")
        with connected(broker) as connection:
            for queue in ("orders", "fleeting"):
                sender = connection.create_sender(queue)
                for number in range(10):
                    sender.send(message(number, durable=number % 3 != 0))
    with BrokerThread(tmp_path) as broker:
        assert broker.depth("orders") == 6
        assert broker.depth("fleeting") == 0
        said = [text for text in broker.texts() if "MST-" in text]
        assert said[-3:] == [
            "[vh(/default)/ms(Journal)] MST-1004 : Recovery Start",
            "[vh(/default)/ms(Journal)] MST-1005 : Recovered 6 messages",
            "[vh(/default)/ms(Journal)] MST-1006 : Recovery Complete",
        ]
        with connected(broker) as connection:
            receiver = connection.create_receiver("orders", credit=10)
            assert [receiver.receive().body for _ in range(6)] == [1, 2, 4, 5, 7, 8]
            for _ in range(3):
                receiver.accept()
        broker.until_queue(
            "orders", lambda q: q.gate.depth_messages == 3 and not q.lanes.unacknowledged, "three are left"
        )
    with BrokerThread(tmp_path) as broker:
        assert broker.depth("orders") == 3
        # Numbers are not given twice: what comes now is behind.
        with connected(broker) as connection:
            connection.create_sender("orders").send(message("new"))
            receiver = connection.create_receiver("orders", credit=10)
            got = [receiver.receive() for _ in range(4)]
            assert [each.body for each in got] == [5, 7, 8, "new"]
            assert [each.delivery_count for each in got] == [0] * 4  # their consumer ended in order


def test_durable_message_is_neither_accepted_nor_delivered_before_it_is_stored(
    tmp_path: Path, stepped: SteppedStore
) -> None:
    with BrokerThread(tmp_path) as broker:
        make_durable(broker)
        with connected(broker) as connection, connected(broker) as other:
            receiver = other.create_receiver("orders", credit=10)
            sender = connection.create_sender("orders")
            first = sender.link.send(message("stored"))
            second = sender.link.send(message("passing", durable=False))
            wait_until(lambda: connection.container.process() and second.settled, "the other one is accepted")
            broker.until_queue("orders", lambda q: q.gate.depth_messages == 2, "both count")
            assert not first.settled
            assert broker.see("orders", lambda q: (len(q.lanes.usual.ready), q.lanes.unacknowledged)) == (
                0,
                0,
            )  # it keeps its place
            stepped.go.set()
            wait_until(lambda: connection.container.process() and first.settled, "it is accepted")
            assert first.remote_state == Delivery.ACCEPTED
            assert [receiver.receive().body for _ in range(2)] == ["stored", "passing"]


def test_many_producers_share_a_commit(tmp_path: Path, stepped: SteppedStore) -> None:
    with BrokerThread(tmp_path) as broker:
        make_durable(broker)
        with connected(broker) as one, connected(broker) as other:
            senders = [connection.create_sender("orders").link for connection in (one, other)]
            sent = [sender.send(message(number)) for number in range(4) for sender in senders]

            def settled() -> bool:
                one.container.process()
                other.container.process()
                return all(delivery.settled for delivery in sent)

            wait_until(lambda: not settled() and broker.depth("orders") == len(sent), "all have come")
            tickets = broker.see(
                "orders", lambda q: {u.ticket for u in q.storage.unsafe} if q.durable is not None else ()
            )
            assert len(tickets) <= 2  # the first goes alone, the others together
            stepped.go.set()
            wait_until(settled, "all are accepted")


def test_a_settlement_is_confirmed_once_the_message_is_out_of_the_store(tmp_path: Path, stepped: SteppedStore) -> None:
    stepped.go.set()
    with BrokerThread(tmp_path) as broker:
        make_durable(broker)
        with connected(broker) as connection:
            connection.create_sender("orders").send(message("once"))
            receiver = connection.create_receiver("orders", credit=1)
            receiver.receive()
            delivery = receiver.fetcher.unsettled.popleft()
            stepped.go.clear()
            connection.container.timeout = 0.02  # of `process`, when there is nothing to hear
            delivery.update(Delivery.ACCEPTED)
            wait_until(lambda: connection.container.process() and broker.depth("orders") == 0, "the broker has heard")
            connection.container.process()
            assert not delivery.settled
            stepped.go.set()
            wait_until(lambda: connection.container.process() and delivery.settled, "it is confirmed")
            delivery.settle()
    with BrokerThread(tmp_path) as broker:
        assert broker.depth("orders") == 0


def test_store_that_cannot_be_written_rejects_only_durable_messages(tmp_path: Path, stepped: SteppedStore) -> None:
    stepped.go.set()
    with BrokerThread(tmp_path) as broker:
        make_durable(broker)
        with connected(broker) as connection:
            sender = connection.create_sender("orders")
            sender.send(message("before"))
            stepped.broken = True
            with pytest.raises(SendException):
                sender.send(message("refused"))
            sender.send(message("passing", durable=False))
            assert broker.see("orders", lambda q: (q.gate.depth_messages, q.gate.rejected)) == (2, 1)
            stepped.broken = False
            sender.send(message("after"))
    with BrokerThread(tmp_path) as broker, connected(broker) as connection:
        assert broker.depth("orders") == 2
        receiver = connection.create_receiver("orders", credit=2)
        assert [receiver.receive().body for _ in range(2)] == ["before", "after"]


def test_messages_that_come_together_are_stored_or_refused_together(tmp_path: Path, stepped: SteppedStore) -> None:
    """As runs, if the C extension is there; counted, settled and in order as single ones in any case."""
    count = 100
    stepped.go.set()
    with BrokerThread(tmp_path) as broker:
        make_durable(broker)
        with connected(broker) as connection:
            blocking = connection.create_sender("orders")
            blocking.send(message(-1))
            sender, process = blocking.link, connection.container.process

            def send(first: int, depth: int) -> list[Any]:
                """Send messages, which are not stored yet."""
                stepped.go.clear()
                wait_until(lambda: process() is not None and sender.credit >= count, "credit")
                sent = [sender.send(message(number)) for number in range(first, first + count)]
                wait_until(lambda: process() is not None and broker.depth("orders") == depth, "they have come")
                assert broker.see("orders", lambda q: (q.storage.stored, q.lanes.unacknowledged)) == (depth, 0)
                assert broker.see("orders", lambda q: [p.unsettled for p in q.gate.producers]) == [count]
                if runs.load() is not None:
                    assert broker.see("orders", lambda q: len(q.storage.unsafe)) < count / 5
                assert not any(delivery.settled for delivery in sent)
                return sent

            for first, broken, depth in ((0, False, 1), (count, True, 1 + count), (2 * count, False, 1 + count)):
                stepped.broken = broken
                sent = send(first, depth + count)
                stepped.go.set()
                wait_until(lambda sent=sent: process() and all(d.settled for d in sent), "they are settled")
                outcome = Delivery.REJECTED if broken else Delivery.ACCEPTED
                assert {delivery.remote_state for delivery in sent} == {outcome}
            assert broker.see("orders", lambda q: (q.gate.depth_messages, q.gate.rejected)) == (1 + 2 * count, count)
            receiver = connection.create_receiver("orders", credit=count)
            for number in [-1, *range(60)]:
                assert receiver.receive().body == number
                receiver.accept()
    with BrokerThread(tmp_path) as broker, connected(broker) as connection:
        assert broker.depth("orders") == 2 * count - 60
        receiver = connection.create_receiver("orders", credit=count)
        for number in [*range(60, count), *range(2 * count, 3 * count)]:
            assert receiver.receive().body == number


def test_a_deep_queue_keeps_its_bodies_in_the_store_and_its_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(durable_storage, "READY_MESSAGES", 200)
    count = 1000
    with BrokerThread(tmp_path) as broker:
        make_durable(broker)
        with connected(broker) as connection:
            sender = connection.create_sender("orders").link
            sent = []
            for number in range(count):
                wait_until(lambda: connection.container.process() is not None and sender.credit > 0, "credit")
                sent.append(sender.send(message(number, durable=number % 50 != 7)))
            wait_until(lambda: connection.container.process() and all(d.settled for d in sent), "all are accepted")
            assert broker.see("orders", lambda q: len(q.lanes.usual.ready)) == 200
            receiver = connection.create_receiver("orders", credit=300)
            for number in range(count):
                assert receiver.receive().body == number
                receiver.accept()
    with BrokerThread(tmp_path) as broker:
        assert broker.depth("orders") == 0


def test_deleted_queues_leave_nothing_in_the_store(tmp_path: Path) -> None:
    with BrokerThread(tmp_path) as broker:
        make_durable(broker)
        with connected(broker) as connection:
            sender = connection.create_sender("orders")
            for number in range(20):
                sender.send(message(number))
        broker.do(lambda s: s.broker.delete_queue(s.broker.queue("default", "orders")))
        make_durable(broker)
    with BrokerThread(tmp_path) as broker:
        assert broker.depth("orders") == 0


def test_clients_queues_are_durable_if_the_virtual_host_says_so(tmp_path: Path) -> None:
    with BrokerThread(tmp_path) as broker:
        broker.do(lambda s: setattr(s.broker.virtualhost("default"), "durable_queues", True))
        with connected(broker) as connection:
            connection.create_sender("made").send(message("stored"))
    with BrokerThread(tmp_path) as broker:
        assert broker.depth("made") == 1


@pytest.mark.domain("2 disk quota")
def test_a_store_above_its_limit_blocks_real_producers_until_consumers_have_made_room(tmp_path: Path) -> None:
    with BrokerThread(tmp_path) as broker:
        make_durable(broker)

        def limit(service: Service) -> None:
            host = service.broker.virtualhost("default")
            service.broker.shortages.set_store_limits(
                host, {"store_overfull_bytes": 400_000, "store_underfull_bytes": 200_000}
            )

        broker.do(limit)
        with connected(broker) as connection:
            sender = connection.create_sender("orders").link
            other = connection.create_sender("elsewhere").link
            connection.container.timeout = 0.02
            sent = []

            def blocked() -> bool:
                while sender.credit > 0:  # below: what was taken back is in flight
                    sent.append(sender.send(message("x" * 4000)))
                connection.container.process()
                return bool(broker.look(lambda s: all(p.blocked for p in s.broker.producers.values())))

            wait_until(blocked, "both producers are blocked")
            assert any("MST-1008 : Store overfull" in text for text in broker.texts())
            wait_until(
                lambda: connection.container.process() and all(d.settled for d in sent), "the messages are stored"
            )
            assert {d.remote_state for d in sent} == {Delivery.ACCEPTED}
            assert sender.credit == other.credit == 0
            broker.do(lambda s: s.broker.queue("default", "orders").lanes.purge())
            wait_until(lambda: connection.container.process() and sender.credit and other.credit, "both are released")
            assert any("MST-1009 : Store overfull condition cleared" in text for text in broker.texts())


@pytest.mark.domain("4 cursors")
def test_a_queue_that_spools_takes_more_than_its_capacity_and_gives_it_all_in_order(tmp_path: Path) -> None:
    with BrokerThread(tmp_path) as broker:
        broker.queue("spooled", capacity_messages=50, spool="disk")
        with connected(broker) as connection:
            sender = connection.create_sender("spooled").link
            sent = []
            for number in range(600):
                wait_until(lambda: connection.container.process() is not None and sender.credit > 0, "credit")
                sent.append(sender.send(message("x" * 2000 + str(number), durable=False)))
            wait_until(lambda: connection.container.process() and all(d.settled for d in sent), "all are accepted")
            broker.until_queue("spooled", lambda q: q.memory_bytes() < 51 * 2200, "the rest has left memory")
            assert broker.look(lambda s: s.broker.stores.temp.used_bytes if s.broker.stores.temp else 0) > 500 * 2000
            receiver = connection.create_receiver("spooled", credit=100)
            for number in range(600):
                assert receiver.receive().body == "x" * 2000 + str(number)
                receiver.accept()
            connection.container.timeout = 0.02
            wait_until(lambda: connection.container.process() and broker.depth("spooled") == 0, "it is empty")
    with BrokerThread(tmp_path) as broker:
        assert broker.depth("spooled") == 0


@pytest.mark.parametrize(
    ("operation", "given", "moved"),
    [
        ("purge", {}, 0),
        ("delete-messages", {"match": {}, "reason": "wrong"}, 0),
        ("move-messages", {"match": {}, "to": "archive", "reason": "wrong"}, 3),
    ],
)
def test_removal_is_answered_once_it_survives_a_crash_and_others_are_served_meanwhile(
    tmp_path: Path, stepped: SteppedStore, operation: str, given: dict[str, Any], moved: int
) -> None:
    with BrokerThread(tmp_path / "data") as broker:
        make_durable(broker)
        make_durable(broker, "archive")
        broker.queue("others")
        stepped.go.set()
        with connected(broker) as connection, managing(broker) as manager:
            sender = connection.create_sender("orders")
            for number in range(3):
                sender.send(message(number))
            stepped.go.clear()
            request = threading.Thread(target=lambda: answers.append(manager.ask(operation, given, name=ORDERS).body))
            answers: list[Any] = []
            request.start()
            broker.until_queue("orders", lambda q: not q.gate.depth_messages, "they are removed")
            fill(broker, "others", ["one"])
            assert not answers, "a crash would bring its messages back"
            stepped.go.set()
            request.join(20)
            assert [answer["messages"] for answer in answers] == [3]
            shutil.copytree(tmp_path / "data", tmp_path / "killed")
    with BrokerThread(tmp_path / "killed") as broker:
        assert (broker.depth("orders"), broker.depth("archive")) == (0, moved)


def test_messages_of_a_deleted_queue_are_freed_in_turns_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(purging, "PORTION", 10)
    portions: list[bool] = []
    free_some = Agenda.free_some

    def counted(agenda: Agenda[Queue]) -> bool:
        portions.append(free_some(agenda))
        return portions[-1]

    monkeypatch.setattr(Agenda, "free_some", counted)
    with BrokerThread(tmp_path) as broker:
        broker.queue("orders")
        fill(broker, "orders", list(map(str, range(200))))
        with managing(broker) as manager:
            manager.ask("DELETE", name=ORDERS)
            assert manager.ask("READ", name=ORDERS).status == 404
        broker.until(lambda s: len(portions) > 20 and not portions[-1], "all is freed")


def test_what_a_purge_has_taken_out_is_freed_without_another_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(purging, "PORTION", 10)
    with BrokerThread(tmp_path) as broker:
        broker.queue("orders")
        fill(broker, "orders", list(map(str, range(200))))
        broker.do(lambda s: s.broker.queue("default", "orders").lanes.purge())
        broker.until(lambda s: not s.broker.agenda.freeing, "all is freed")
