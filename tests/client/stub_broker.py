"""A broker that a test controls, for behaviour that is rare with the real one, or not implemented."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from proton import Condition, Delivery, Described, Event, Link, Message, SSLDomain, Terminus, symbol, ulong
from proton.handlers import MessagingHandler
from proton.reactor import ApplicationEvent, Container, EventInjector

from tests.amqp.broker_thread import WITHIN, wait_until

DECLARED, TRANSACTIONAL = 0x33, 0x34


class StubBroker(MessagingHandler):  # type: ignore[misc]
    """It gives `credit` to each link, and passes each delivery to `settle`; without one it collects them in
    `unsettled`."""

    def __init__(self, credit: int = 10, ssl_domain: SSLDomain | None = None) -> None:
        super().__init__(prefetch=0, auto_accept=False, auto_settle=False)
        self.credit = credit
        self.ssl_domain = ssl_domain
        self.settle: Callable[[StubBroker, Delivery], None] | None = None
        self.unsettled: list[Delivery] = []
        self.links: list[Link] = []
        self.bodies: list[Any] = []
        self.transactions: list[Any] = []  # of each message: its transaction, or None
        self.control: list[tuple[str, Any]] = []  # requests to the coordinator
        self.refuse_commit = False
        self._ready = threading.Event()

    def __enter__(self) -> StubBroker:
        self._injector = EventInjector()
        self._container = Container(self)
        self._container.selectable(self._injector)
        self._thread = threading.Thread(target=self._container.run, name="stub broker")
        self._thread.start()
        assert self._ready.wait(WITHIN)
        return self

    def __exit__(self, *exception: object) -> None:
        self.do(self._container.stop)
        self._thread.join(WITHIN)
        assert not self._thread.is_alive()
        self._acceptor.close()

    def do(self, call: Callable[[], Any]) -> Any:
        """Run `call()` in the stub's thread and return its result."""
        done, found = threading.Event(), []

        def run() -> None:
            found.append(call())
            done.set()

        self._injector.trigger(ApplicationEvent("ask", subject=run))
        assert done.wait(WITHIN), f"the stub did not do {call}"
        return found[0]

    def until(self, condition: Callable[[], Any], what: str) -> Any:
        return wait_until(lambda: self.do(condition), what)

    def drop(self) -> None:
        """End every connection, like a broker that shuts down."""

        def end() -> None:
            for link in self.links:
                link.connection.condition = Condition("amqp:connection:forced", "shutting down")
                link.connection.close()

        self.do(end)

    # -- Proton's events ----------------------------------------------------------------------------------------

    def on_reactor_init(self, event: Event) -> None:
        super().on_reactor_init(event)
        self._acceptor = event.container.listen("127.0.0.1:0", ssl_domain=self.ssl_domain)
        self.port = self._acceptor._selectable._delegate.getsockname()[1]
        self._ready.set()

    @property
    def url(self) -> str:
        return f"amqp://127.0.0.1:{self.port}"

    def on_ask(self, event: Event) -> None:
        event.subject()

    def on_link_opening(self, event: Event) -> None:
        if event.link.remote_target.type == Terminus.COORDINATOR:
            event.link.target.type = Terminus.COORDINATOR
            event.link.flow(100)
        else:
            event.link.target.address = event.link.remote_target.address
            event.link.flow(self.credit)
            self.links.append(event.link)

    def on_message(self, event: Event) -> None:
        delivery, message = event.delivery, event.message
        if event.link.remote_target.type == Terminus.COORDINATOR:
            self._coordinate(delivery, message)
            return
        self.bodies.append(message.body)
        data = delivery.remote.data
        self.transactions.append(bytes(data[0]) if delivery.remote_state == TRANSACTIONAL else None)
        if self.settle is None:
            self.unsettled.append(delivery)
        else:
            self.settle(self, delivery)

    def _coordinate(self, delivery: Delivery, message: Message) -> None:
        descriptor = str(message.body.descriptor)
        if descriptor == "amqp:declare:list":
            self.control.append(("declare", None))
            delivery.local.data = [b"tx-%d" % len(self.control)]
            delivery.update(DECLARED)
        else:
            number, failed = message.body.value
            self.control.append(("rollback" if failed else "commit", bytes(number)))
            if self.refuse_commit and not failed:
                delivery.local.condition = Condition("amqp:transaction:rollback", "it does not fit")
                delivery.update(Delivery.REJECTED)
            else:
                delivery.update(Delivery.ACCEPTED)
        delivery.settle()


def accept(_broker: StubBroker, delivery: Delivery) -> None:
    data = delivery.remote.data
    if delivery.remote_state == TRANSACTIONAL:
        delivery.local.data = [data[0], Described(ulong(Delivery.ACCEPTED), [])]
        delivery.update(TRANSACTIONAL)
    else:
        delivery.update(Delivery.ACCEPTED)
    delivery.settle()


def reject(_broker: StubBroker, delivery: Delivery) -> None:
    name, words = "amqp:resource-limit-exceeded", "queue orders is full"
    if delivery.remote_state == TRANSACTIONAL:
        error = Described(symbol("amqp:error:list"), [symbol(name), words])
        delivery.local.data = [delivery.remote.data[0], Described(ulong(Delivery.REJECTED), [error])]
        delivery.update(TRANSACTIONAL)
    else:
        delivery.local.condition = Condition(name, words)
        delivery.update(Delivery.REJECTED)
    delivery.settle()


def release(_broker: StubBroker, delivery: Delivery) -> None:
    delivery.update(Delivery.RELEASED)
    delivery.settle()
