"""Real clients: Proton's blocking ones for a step after the other, and a crowd of event-driven ones in a thread."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from proton import Delivery, Event, Message, symbol
from proton.handlers import MessagingHandler
from proton.reactor import ApplicationEvent, Container, EventInjector, LinkOption
from proton.utils import BlockingConnection, SyncRequestResponse

from tests.amqp.broker_thread import WITHIN, BrokerThread, wait_until


@contextmanager
def connected(
    broker: BrokerThread,
    *,
    user: str = "",
    virtual_host: str = "",
    timeout: float = WITHIN,
    container_id: str = "",
    client_properties: dict[str, Any] | None = None,
) -> Iterator[Any]:
    """A blocking connection; `user` "console" signs in with the generated secret."""
    options: dict[str, Any] = {"allowed_mechs": "ANONYMOUS"}
    if user:
        options = {"allowed_mechs": "PLAIN", "user": user, "password": broker.secret}
    if virtual_host:
        options["virtual_host"] = virtual_host
    if container_id:
        options["container"] = Container()
        options["container"].container_id = container_id
    if client_properties is not None:
        options["properties"] = client_properties
    connection = BlockingConnection(broker.url, timeout=timeout, **options)
    # For tests that call `container.process()` in a loop of their own: take what has come, without waiting for more.
    connection.container.timeout = 0.01
    try:
        yield connection
    finally:
        if not connection.disconnected:
            connection.close()


class Copy(LinkOption):  # type: ignore[misc]
    """Browse."""

    def apply(self, link: Any) -> None:
        from proton import Terminus

        link.source.distribution_mode = Terminus.DIST_MODE_COPY


class Prefetch(LinkOption):  # type: ignore[misc]
    """Request pre-settled deliveries."""

    def apply(self, link: Any) -> None:
        link.snd_settle_mode = link.SND_SETTLED


class ReplyTo(LinkOption):  # type: ignore[misc]
    def __init__(self, address: str) -> None:
        self.address = address

    def apply(self, link: Any) -> None:
        link.target.address = self.address


class After(LinkOption):  # type: ignore[misc]
    """Events after a number."""

    def __init__(self, number: Any) -> None:
        self.number = number

    def apply(self, link: Any) -> None:
        link.source.filter.put_object({symbol("headgate:after"): self.number})


def bodies(receiver: Any, count: int, *, accept: bool = True) -> list[Any]:
    found = []
    for _ in range(count):
        found.append(receiver.receive().body)
        if accept:
            receiver.accept()
    return found


def until(connection: Any, condition: Callable[[], Any], what: str, within: float = WITHIN) -> None:
    """Run a blocking connection until `condition` holds."""
    end = time.monotonic() + within
    connection.container.timeout = 0.02
    while not condition():
        assert time.monotonic() < end, f"not within {within:g} s: {what}"
        connection.container.process()
    connection.container.timeout = connection.timeout


def fill(broker: BrokerThread, address: str, messages: list[Any], **options: Any) -> None:
    """Publish each body and wait for its acceptance."""
    with connected(broker, **options) as connection:
        sender = connection.create_sender(address)
        for body in messages:
            sender.send(body if isinstance(body, Message) else Message(body=body))


# -- management ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Answer:
    status: int
    properties: dict[str, Any]
    body: Any

    @property
    def error(self) -> str:
        return str(self.properties.get("error", ""))

    @property
    def description(self) -> str:
        return str(self.properties.get("statusDescription", ""))


class Managing:
    """A client of `$management` on a blocking connection."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection
        self.requests = SyncRequestResponse(connection, "$management")

    def ask(self, operation: str | None, body: Any = None, **properties: Any) -> Answer:
        if operation is not None:
            properties = {"operation": operation, **properties}
        return self.send(Message(body=body, properties=properties))

    def send(self, request: Message) -> Answer:
        answer = self.requests.call(request)
        properties = dict(answer.properties)
        return Answer(int(properties.pop("statusCode")), properties, answer.body)


@contextmanager
def managing(broker: BrokerThread) -> Iterator[Managing]:
    with connected(broker, user="console") as connection:
        yield Managing(connection)


# -- a crowd --------------------------------------------------------------------------------------------------------


#: Seconds: eight busy producers took more than eight on a machine with ten times the work that it can do.
_CLOSED_WITHIN = 60


class Crowd(MessagingHandler):  # type: ignore[misc]
    """Clients in one thread. Their counters may be read from any thread; `do` runs a function in it."""

    def __init__(self, broker: BrokerThread) -> None:
        super().__init__(prefetch=0, auto_accept=False)
        self.broker = broker
        self.started = threading.Event()
        self.injector = EventInjector()
        self.failures: list[BaseException] = []
        self.connections: list[Any] = []

    def __enter__(self) -> Crowd:
        self.container = Container(self)
        self.container.selectable(self.injector)
        self.thread = threading.Thread(target=self._run, name="crowd")
        self.thread.start()
        assert self.started.wait(WITHIN)
        return self

    def _run(self) -> None:
        try:
            self.container.run()
        except BaseException as failure:
            self.failures.append(failure)
            self.started.set()

    def __exit__(self, *exception: object) -> None:
        self.do(lambda: [c.close() for c in self.connections] or True)
        self.injector.close()  # the container ends with its last connection, which messages under way may delay
        self.thread.join(_CLOSED_WITHIN)
        assert not self.thread.is_alive()
        assert not self.failures, self.failures

    def on_reactor_init(self, event: Event) -> None:
        super().on_reactor_init(event)
        self.started.set()

    def do(self, call: Callable[[], Any]) -> Any:
        """Run `call()` in the crowd's thread and return its result."""
        done = threading.Event()
        result: list[Any] = []

        def run() -> None:
            try:
                result.append(call())
            finally:
                done.set()

        self.injector.trigger(ApplicationEvent("ask", subject=run))
        assert done.wait(WITHIN), f"the crowd did not do {call}"
        assert result, f"{call} failed: {self.failures}"
        return result[0]

    def on_ask(self, event: Event) -> None:
        event.subject()

    def connect(self, handler: Any = None, **options: Any) -> Any:
        connection = self.container.connect(
            self.broker.url, handler=handler, reconnect=False, allowed_mechs="ANONYMOUS", **options
        )
        self.connections.append(connection)
        return connection

    def publisher(self, address: str, count: int = 0, **options: Any) -> Publisher:
        """`count`: messages to send; 0: as many as the credit allows, until another call."""
        return self.do(lambda: Publisher(self, address, count, **options))

    def taker(self, address: str, **options: Any) -> Taker:
        return self.do(lambda: Taker(self, address, **options))


class Publisher(MessagingHandler):  # type: ignore[misc]
    """A sender that uses every credit at once. `answers_drains`: False for one that never calls `drained()`."""

    def __init__(
        self,
        crowd: Crowd,
        address: str,
        count: int,
        *,
        connection: Any = None,
        size: int = 100,
        answers_drains: bool = True,
        name: str | None = None,
    ) -> None:
        super().__init__()
        self.crowd = crowd
        self.body = b"x" * size
        self.limit: float = count or float("inf")
        self.answers_drains = answers_drains
        self.sent = self.accepted = self.refused = 0
        self.condition = ""
        self.shared = connection is not None
        self.connection = connection or crowd.connect(self)
        self.link = crowd.container.create_sender(self.connection, address, name=name, handler=self)

    @property
    def attached(self) -> bool:
        return bool(self.link.state & self.link.REMOTE_ACTIVE)

    def on_sendable(self, event: Event) -> None:
        self._work()

    def on_link_flow(self, event: Event) -> None:
        super().on_link_flow(event) if hasattr(super(), "on_link_flow") else None
        self._work()
        if self.answers_drains and event.link == self.link and event.link.drain_mode:
            event.link.drained()

    def _work(self) -> None:
        while self.link.credit > 0 and self.sent < self.limit and self.link.state & self.link.LOCAL_ACTIVE:
            self.link.send(Message(body=self.body))
            self.sent += 1

    def go_on(self, count: int) -> None:
        """Send `count` more."""

        def more() -> bool:
            self.limit = self.sent + count
            self._work()
            return True

        self.crowd.do(more)

    def on_accepted(self, event: Event) -> None:
        self.accepted += 1

    def on_rejected(self, event: Event) -> None:
        self.refused += 1

    def on_released(self, event: Event) -> None:
        self.refused += 1

    def on_link_error(self, event: Event) -> None:
        self.condition = str(event.link.remote_condition.name)
        event.link.close()

    def on_connection_error(self, event: Event) -> None:
        self.condition = str(event.connection.remote_condition.name)

    def on_transport_error(self, event: Event) -> None:
        self.condition = str(event.transport.condition.name)

    def close(self) -> None:
        self.crowd.do(lambda: (self.connection.close(), True))


class Taker(MessagingHandler):  # type: ignore[misc]
    """A receiver that accepts what it gets. `taken`: the bodies."""

    def __init__(self, crowd: Crowd, address: str, *, connection: Any = None, credit: int = 100) -> None:
        super().__init__(prefetch=credit)
        self.crowd = crowd
        self.taken: list[Any] = []
        self.connection = connection or crowd.connect(self)
        self.link = crowd.container.create_receiver(self.connection, address, handler=self)

    def on_message(self, event: Event) -> None:
        self.taken.append(event.message.body)


def settled_as(delivery: Any) -> str:
    return {Delivery.ACCEPTED: "accepted", Delivery.REJECTED: "rejected", Delivery.RELEASED: "released"}.get(
        delivery.remote_state, str(delivery.remote_state)
    )


def steady(get: Callable[[], Any], what: str, for_seconds: float = 0.2) -> Any:
    """Return the value of `get` once it has not changed for a while."""
    state: dict[str, Any] = {"value": get(), "since": time.monotonic()}

    def settled() -> bool:
        now = get()
        if now != state["value"]:
            state.update(value=now, since=time.monotonic())
        return time.monotonic() - state["since"] >= for_seconds

    wait_until(settled, what)
    return state["value"]
