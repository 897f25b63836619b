"""Clients that use only transactions, and the checks of the queues between two runs of the broker.

A *maker* publishes the same orders to `in` and to `book` in one transaction, and rolls some of them back. A *mover*
takes from `in` and publishes what it took to `out`, in one transaction. So at every start `book` has exactly the orders
that are in `in` or in `out`, each of them once: a transaction that is there by half shows at once.
"""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from proton import Event, Message
from proton.handlers import MessagingHandler, TransactionHandler
from proton.reactor import Container, Transaction

from tests.faults.traffic import Deadline, Key, in_order

#: Orders in one transaction.
MOST = 4


@dataclass
class Books:
    """The confirmations of makers and movers, over all rounds."""

    committed: set[Key] = field(default_factory=set)
    undone: set[Key] = field(default_factory=set)  # rolled back, and the client knows
    moved: set[Key] = field(default_factory=set)  # committed by a mover
    wholes: list[set[Key]] = field(default_factory=list)  # of each maker's transaction
    numbers: dict[int, int] = field(default_factory=dict)
    declared: int = 0
    commits: int = 0
    aborts: int = 0

    def next(self, maker: int) -> Key:
        self.numbers[maker] = self.numbers.get(maker, 0) + 1
        return maker, self.numbers[maker]

    def check(self, found: dict[str, list[Key]]) -> None:
        """`found`: what the queues hold after a start, in their order."""
        book, waiting, out = (set(found[queue]) for queue in ("book", "in", "out"))
        for queue, keys in found.items():
            assert len(keys) == len(set(keys)), f"an order is in {queue} twice"
        assert not waiting & out, "an order was moved, and is there still"
        assert book == waiting | out, "a transaction is there by half"
        assert not self.committed - book, "committed, and gone"
        assert not self.undone & book, "rolled back, and there"
        assert not self.moved - out, "moved, and gone"
        for whole in self.wholes:
            assert whole <= book or not whole & book, "a transaction is there by half"
        in_order(found["book"])


class Client(MessagingHandler, TransactionHandler):  # type: ignore[misc]
    """One connection, and one transaction after the other on it."""

    def __init__(self, books: Books, port: int, **options: Any) -> None:
        super().__init__(auto_accept=False, **options)
        self.books, self.port = books, port
        self.transaction: Transaction | None = None
        self.random = random.Random(os.urandom(8))

    def start(self, container: Container) -> None:
        self.container = container
        self.connection = container.connect(
            f"127.0.0.1:{self.port}", reconnect=False, allowed_mechs="ANONYMOUS", handler=self
        )
        self.attach()
        self.declare()

    def attach(self) -> None:
        raise NotImplementedError

    def declare(self) -> None:
        self.container.declare_transaction(self.connection, self, settle_before_discharge=self.random.random() < 0.5)

    def on_transaction_declared(self, event: Event) -> None:
        self.books.declared += 1
        self.transaction = event.transaction
        self.transaction.id = bytes(self.transaction.id)  # Proton's view of it does not last
        self.work()

    def work(self) -> None:
        raise NotImplementedError

    def on_transport_error(self, event: Event) -> None:
        pass  # the broker has been killed


class Maker(Client):
    def __init__(self, books: Books, port: int, number: int) -> None:
        super().__init__(books, port)
        self.number = number
        self.orders: set[Key] = set()

    def attach(self) -> None:
        self.senders = [self.container.create_sender(self.connection, q, handler=self) for q in ("in", "book")]

    def on_sendable(self, event: Event) -> None:
        self.work()

    def work(self) -> None:
        transaction = self.transaction
        if transaction is None or min(s.credit for s in self.senders) < MOST:
            return
        self.transaction = None
        self.orders = {self.books.next(self.number) for _ in range(self.random.randint(1, MOST))}
        self.books.wholes.append(self.orders)
        for key in sorted(self.orders):
            for sender in self.senders:
                transaction.send(sender, Message(body=list(key), durable=True))
        if self.random.random() < 0.2:
            transaction.abort()
        else:
            transaction.commit()

    def on_transaction_committed(self, event: Event) -> None:
        self.books.commits += 1
        self.books.committed |= self.orders
        self.declare()

    def on_transaction_aborted(self, event: Event) -> None:
        self.books.aborts += 1
        self.books.undone |= self.orders
        self.declare()


class Mover(Client):
    def __init__(self, books: Books, port: int) -> None:
        super().__init__(books, port, prefetch=20)
        self.got: list[tuple[Any, Key]] = []
        self.moving: set[Key] = set()

    def attach(self) -> None:
        self.container.create_receiver(self.connection, "in", handler=self)
        self.sender = self.container.create_sender(self.connection, "out", handler=self)

    def on_message(self, event: Event) -> None:
        key = event.message.body[0], event.message.body[1]
        assert key not in self.books.moved, f"{key} was moved, and came back"
        self.got.append((event.delivery, key))
        self.work()

    def on_sendable(self, event: Event) -> None:
        self.work()

    def work(self) -> None:
        transaction = self.transaction
        if transaction is None or not self.got or self.sender.credit < MOST:
            return
        self.transaction = None
        taken, self.got = self.got[:MOST], self.got[MOST:]
        self.moving = {key for _, key in taken}
        for delivery, key in taken:
            transaction.accept(delivery)
            transaction.send(self.sender, Message(body=list(key), durable=True))
        if self.random.random() < 0.2:
            transaction.abort()
        else:
            transaction.commit()

    def on_transaction_committed(self, event: Event) -> None:
        self.books.commits += 1
        self.books.moved |= self.moving
        self.declare()

    def on_transaction_aborted(self, event: Event) -> None:
        self.books.aborts += 1
        self.declare()


class Business(MessagingHandler):  # type: ignore[misc]
    """Makers and movers, until kill -9 `after` seconds after `begun()` was true."""

    def __init__(
        self,
        books: Books,
        port: int,
        *,
        pid: int = 0,
        after: float = 0.0,
        begun: Callable[[], bool] = lambda: True,
    ) -> None:
        super().__init__()
        self.pid = pid
        self.deadline = Deadline(after, begun, self.end)
        makers, movers = [Maker(books, port, n) for n in range(2)], [Mover(books, port) for _ in range(2)]
        self.clients: list[Client] = [*makers, *movers]

    def on_start(self, event: Event) -> None:
        self.start(event.container)
        event.container.schedule(0, self.deadline)

    def start(self, container: Container) -> None:
        for client in self.clients:
            client.start(container)

    def end(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        self.close()

    def close(self) -> None:
        for client in self.clients:
            client.connection.close()

    def run(self) -> None:
        Container(self).run()
