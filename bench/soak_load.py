"""Durable load in transactions, for `soak.py`: a process of its own, with Proton's own client.

A maker publishes to `soak.in` in transactions, a mover takes from there and publishes to `soak.out` in transactions, a
consumer takes from `soak.out`. One transaction in fifty is rolled back. Each line of its output is a JSON object of
what it counted since its start: `sent`, `moved`, `consumed` (messages), `aborted` (transactions). It ends, with exit
code 1, when a connection or a link ends: that is unexpected.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections import deque
from typing import Any, NoReturn

from proton import Event, Message
from proton.handlers import MessagingHandler, TransactionHandler
from proton.reactor import Container, Transaction

IN, OUT = "soak.in", "soak.out"
BATCH = 10  # messages in a transaction
MOST = 2000  # messages that were sent and not consumed: on a slow machine the load is less, the queues no deeper
ABORTED = 50  # every fiftieth transaction is rolled back
TICK = 0.05  # seconds
SAID_EVERY = 5.0  # seconds
BODY = "x" * 500


def end(error: str) -> NoReturn:
    """Report at once: a connection that waits for the others must not look like a stalled load."""
    print(error, file=sys.stderr, flush=True)
    os._exit(1)


class Counts:
    def __init__(self) -> None:
        self.sent = self.moved = self.consumed = self.aborted = 0


class Client(MessagingHandler):  # type: ignore[misc]  # Proton has no types
    """One connection. Its end, or that of one of its links, ends the whole load."""

    def __init__(self, counts: Counts, **options: Any) -> None:
        super().__init__(auto_accept=False, **options)
        self.counts = counts

    def start(self, container: Container, url: str, name: str) -> None:
        self.container = container
        container.container_id = name
        self.connection = container.connect(
            url, handler=self, reconnect=False, heartbeat=30, virtual_host="default", allallowance_mechs="ANONYMOUS"
        )
        self.attach()

    def attach(self) -> None:
        raise NotImplementedError

    def _ended(self, what: str, endpoint: Any) -> None:
        end(f"{type(self).__name__}: {what} ended: {endpoint and endpoint.remote_condition}")

    def on_transport_error(self, event: Event) -> None:
        end(f"{type(self).__name__}: {event.transport.condition}")

    def on_connection_closing(self, event: Event) -> None:
        self._ended("connection", event.connection)

    def on_session_closing(self, event: Event) -> None:
        self._ended("session", event.session)

    def on_link_closing(self, event: Event) -> None:
        self._ended("link", event.link)

    def on_settled(self, event: Event) -> None:
        """Settle accepted deliveries, which Proton's transactions do not: 2 KiB per message would leak."""
        event.delivery.settle()


class Worker(Client, TransactionHandler):  # type: ignore[misc]  # Proton has no types
    """Runs one transaction after the other."""

    transaction: Transaction | None = None
    done = 0  # transactions
    rolling_back = False

    def declare(self) -> None:
        self.container.declare_transaction(self.connection, self, settle_before_discharge=False)

    def on_transaction_declared(self, event: Event) -> None:
        self.transaction = event.transaction
        self.transaction.id = bytes(self.transaction.id)  # Proton's view of it does not last
        self.work()

    def work(self) -> None:
        raise NotImplementedError

    def count(self) -> None:
        """A transaction was committed."""
        raise NotImplementedError

    def discharge(self, transaction: Transaction) -> None:
        self.transaction = None
        self.done += 1
        if self.done % ABORTED:
            transaction.commit()
        else:
            transaction.abort()

    def on_transaction_committed(self, event: Event) -> None:
        self.count()
        self.forget(event.transaction)
        self.declare()

    def on_transaction_aborted(self, event: Event) -> None:
        self.counts.aborted += 1
        self.forget(event.transaction)
        self.declare()

    def forget(self, transaction: Transaction) -> None:
        """Break the reference cycle with its deliveries, which goes through Proton's C objects, invisible to the
        collector."""
        transaction._declare = transaction._discharge = None

    def on_transaction_declare_failed(self, event: Event) -> None:
        self._ended("transaction", None)

    def on_transaction_commit_failed(self, event: Event) -> None:
        self._ended("transaction", None)


class Maker(Worker):
    """`allowance`: messages that its rate allows now."""

    allowance = 0.0

    def attach(self) -> None:
        self.sender = self.container.create_sender(self.connection, IN, handler=self)
        self.declare()

    def on_sendable(self, event: Event) -> None:
        self.work()

    def work(self) -> None:
        transaction = self.transaction
        counts = self.counts
        if (
            transaction is None
            or self.allowance < BATCH
            or self.sender.credit < BATCH
            or counts.sent - counts.consumed > MOST
        ):
            return
        self.allowance -= BATCH
        for _ in range(BATCH):
            transaction.send(self.sender, Message(body=BODY, durable=True))
        self.discharge(transaction)

    def count(self) -> None:
        self.counts.sent += BATCH


class Mover(Worker):
    def __init__(self, counts: Counts) -> None:
        super().__init__(counts, prefetch=10 * BATCH)
        self.got: deque[tuple[Any, Any]] = deque()
        self.taken = 0

    def attach(self) -> None:
        self.container.create_receiver(self.connection, IN, handler=self)
        self.sender = self.container.create_sender(self.connection, OUT, handler=self)
        self.declare()

    def on_message(self, event: Event) -> None:
        self.got.append((event.delivery, event.message.body))
        self.work()

    def on_sendable(self, event: Event) -> None:
        self.work()

    def work(self) -> None:
        transaction = self.transaction
        if transaction is None or not self.got or self.sender.credit < BATCH:
            return
        self.taken = min(BATCH, len(self.got))
        for _ in range(self.taken):
            delivery, body = self.got.popleft()
            transaction.accept(delivery)
            transaction.send(self.sender, Message(body=body, durable=True))
        self.discharge(transaction)

    def count(self) -> None:
        self.counts.moved += self.taken


class Taker(Client):
    def attach(self) -> None:
        self.container.create_receiver(self.connection, OUT, handler=self)

    def on_message(self, event: Event) -> None:
        self.accept(event.delivery)
        self.counts.consumed += 1


class Load(MessagingHandler):  # type: ignore[misc]  # Proton has no types
    def __init__(self, url: str, rate: float) -> None:
        super().__init__()
        self.url, self.rate = url, rate
        self.counts = Counts()
        self.maker = Maker(self.counts)
        self.clients: list[Client] = [self.maker, Mover(self.counts), Taker(self.counts, prefetch=100)]
        self.last = self.said = time.monotonic()

    def on_start(self, event: Event) -> None:
        for client in self.clients:
            client.start(event.container, self.url, f"soak-{type(client).__name__.lower()}")
        event.container.schedule(TICK, self)

    def on_timer_task(self, event: Event) -> None:
        event.container.schedule(TICK, self)
        now = time.monotonic()
        self.maker.allowance = min(self.maker.allowance + (now - self.last) * self.rate, 5 * self.rate)
        self.last = now
        self.maker.work()
        if now - self.said >= SAID_EVERY:
            self.said = now
            print(json.dumps(vars(self.counts)), flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True, help="of the broker")
    parser.add_argument("--rate", type=float, default=300, help="messages/s (default: %(default)s)")
    options = parser.parse_args()
    Container(Load(f"amqp://127.0.0.1:{options.port}", options.rate)).run()
    return 1


if __name__ == "__main__":
    sys.exit(main())
