"""One AMQP 1.0 connection as a client: Proton's protocol engine driven by asyncio, in one loop and without threads.

It carries messages as bytes and knows nothing of what they say. Links are opened at once, without waiting, so that what
is asked for afterwards on the same connection comes after them at the broker, too. Credit is the reader's: a message is
only sent for again once one has been consumed.
"""

from __future__ import annotations

import asyncio
import ssl
import uuid
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from proton import SASL, Collector, Condition, Connection, Delivery, Endpoint, Event, Link, Session, Transport

from brokers.loopback import is_loopback

#: Larger messages go in several frames, so that one of them does not hold up the others. Bytes.
_FRAME = 65_536

#: How long `close` waits for the broker's goodbye, in seconds.
_GOODBYE_SECONDS = 1.0


class ConnectionLost(Exception):
    """The connection has ended, or never came to be. The message is the reason."""


class SignInRefused(ConnectionLost):
    """The broker does not take the user and password."""


class LinkEnded(Exception):
    """The broker refused or ended a link, with an AMQP error condition."""

    def __init__(self, condition: str, description: str, info: Mapping[str, Any] | None = None) -> None:
        super().__init__(description or condition)
        self.condition = condition
        self.description = description
        self.info = dict(info or {})


class AmqpClient(asyncio.Protocol):
    """A connection; make it with `connect`. `lost` is done, with the reason as its result, when it has ended."""

    def __init__(self, where: str, user: str, password: str, idle_timeout: float) -> None:
        self.where = where
        loop = asyncio.get_running_loop()
        self._loop = loop
        self.lost: asyncio.Future[ConnectionLost] = loop.create_future()
        self._opened: asyncio.Future[None] = loop.create_future()
        self._socket: asyncio.Transport | None = None
        self._pumping = False
        self._tick: asyncio.TimerHandle | None = None
        self._links: dict[str, Sender | Receiver] = {}
        self._numbers = 0

        self._connection = Connection()
        self._connection.container = f"headgate-{uuid.uuid4().hex}"
        self._connection.user, self._connection.password = user, password
        self._collector = Collector()
        self._connection.collect(self._collector)
        self._transport = Transport()
        self._transport.idle_timeout = idle_timeout
        self._transport.max_frame_size = _FRAME
        self._sasl = self._transport.sasl()
        self._sasl.allow_insecure_mechs = True  # PLAIN: the broker is on loopback, or behind a TLS socket
        self._sasl.allowed_mechs("PLAIN")
        self._transport.bind(self._connection)
        self._connection.open()
        self._session: Session = self._connection.session()
        self._session.open()

    @classmethod
    async def connect(
        cls,
        host: str,
        port: int,
        user: str,
        password: str,
        *,
        tls: ssl.SSLContext | None = None,
        idle_timeout: float,
    ) -> AmqpClient:
        """Connect and sign in, with `tls` by TLS. `idle_timeout`: seconds of silence after which the broker counts as
        dead. Raises ConnectionLost; takes as long as it takes, unless it is cancelled."""
        client = cls(f"{host}:{port}", user, password, idle_timeout)
        try:
            if tls is None and not is_loopback(host):
                client._end(
                    SignInRefused(
                        f"the password of {user} could be read on its way to {client.where}: connect with TLS"
                    )
                )
                raise client.lost.result()
            await client._loop.create_connection(lambda: client, host, port, ssl=tls)
        except ssl.SSLCertVerificationError as error:
            client._end(ConnectionLost(f"{client.where} is not trusted: {error.verify_message}"))
            raise client.lost.result() from error
        except OSError as error:
            client._end(ConnectionLost(f"cannot connect to {client.where}: {error.strerror or error}"))
            raise client.lost.result() from error
        try:
            await client._opened
        except BaseException:
            client.abort("gave up connecting")
            raise
        return client

    # Links

    def sender(self, target: str, *, refused: Callable[[str, LinkEnded], None]) -> Sender:
        """Open a link to `target`. `refused` is called with the tag of a message that the broker did not accept."""
        link = self._session.sender(self._link_name(target))
        link.target.address = target
        return Sender(self, link, refused)

    def receiver(
        self,
        source: str,
        *,
        target: str | None = None,
        filters: Mapping[Any, Any] | None = None,
        window: int,
        deliver: Callable[[bytes], None],
    ) -> Receiver:
        """Open a link from `source`. `deliver` is called with each whole message; there are never more than `window`
        of them of which `consumed` has not been told."""
        link = self._session.receiver(self._link_name(source))
        link.source.address = source
        link.target.address = target
        if filters is not None:
            link.source.filter.put_object(dict(filters))
        link.snd_settle_mode = Link.SND_SETTLED
        return Receiver(self, link, window, deliver)

    def _link_name(self, address: str) -> str:
        self._numbers += 1
        return f"{address}-{self._numbers}"

    def _add(self, link: Sender | Receiver) -> None:
        if self.lost.done():
            link._end(self.lost.result())
        else:
            self._links[link.name] = link
            link.link.open()
            self.wake()

    # The end

    async def close(self) -> None:
        """End the connection in good order, or without it if the broker does not answer. Never raises for a
        connection that has ended."""
        if not self.lost.done():
            self._connection.close()
            self.wake()
            # shield: the future is everybody's, and a time-out would cancel it.
            await asyncio.wait([self.lost], timeout=_GOODBYE_SECONDS)
            self.abort("it was closed")

    def abort(self, reason: str) -> None:
        """End the connection now."""
        self._end(ConnectionLost(f"the connection to {self.where} has ended: {reason}"))

    def _end(self, reason: ConnectionLost) -> None:
        if self.lost.done():
            return
        self.lost.set_result(reason)
        if self._tick:
            self._tick.cancel()
        if self._socket:
            self._socket.abort()
        if not self._opened.done():
            self._opened.set_exception(reason)
            self._opened.exception()  # whoever waits still gets it; if nobody does, that is no error
        for link in list(self._links.values()):
            link._end(reason)
        self._links.clear()
        self._transport.unbind()
        self._collector.release()
        self._connection.free()

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._socket = transport
        if self.lost.done():  # given up while the connection was being made
            transport.abort()
        else:
            self._pump()

    def data_received(self, data: bytes) -> None:
        if self.lost.done():
            return
        view = memoryview(data)
        while view:
            capacity = self._transport.capacity()
            if capacity <= 0:  # the peer has closed, or broke the protocol: what it sends is not read any more
                break
            self._transport.push(bytes(view[:capacity]))
            view = view[capacity:]
        self._pump()

    def connection_lost(self, exc: Exception | None) -> None:
        if self.lost.done():
            return
        self._transport.close_tail()
        self._pump()
        self.abort(str(exc) if exc else "the broker closed it")

    # Proton

    def wake(self) -> None:
        """Have what was done to Proton's objects sent soon, all of it at once."""
        if not self._pumping and not self.lost.done():
            self._pumping = True
            self._loop.call_soon(self._pump)

    def _pump(self) -> None:
        self._pumping = False
        if self._socket is None or self.lost.done():
            return
        deadline = 0.0
        try:
            self._dispatch()
            if not self.lost.done():
                deadline = self._transport.tick(self._loop.time())
            while not self.lost.done() and (self._flush() or self._dispatch()):
                pass
            if not self.lost.done() and self._transport.pending() < 0:
                self.abort("the broker closed it")
        except Exception as error:  # whatever the peer's bytes led to, it ends this connection and nothing else
            self._end(ConnectionLost(f"the connection to {self.where} has ended: {error!r}"))
        if self._tick:
            self._tick.cancel()
            self._tick = None
        if deadline and not self.lost.done():
            self._tick = self._loop.call_at(deadline, self._pump)

    def _flush(self) -> bool:
        """Write what Proton has to send; whether there was anything."""
        pending = self._transport.pending()
        if pending <= 0 or self._socket is None:
            return False
        data = self._transport.peek(pending)
        self._socket.write(data)
        self._transport.pop(len(data))
        return True

    def _dispatch(self) -> bool:
        """Take Proton's events; whether there were any."""
        any_events = False
        while not self.lost.done() and (event := self._collector.peek()) is not None:
            any_events = True
            self._on_event(event)
            if not self.lost.done():
                self._collector.pop()
        return any_events

    def _on_event(self, event: Event) -> None:
        kind = event.type
        if kind == Event.DELIVERY:
            delivery = event.delivery
            if link := self._links.get(delivery.link.name):
                link._on_delivery(delivery)
        elif kind == Event.LINK_FLOW:
            if link := self._links.get(event.link.name):
                link._on_flow()
        elif kind in (Event.LINK_REMOTE_CLOSE, Event.LINK_REMOTE_DETACH):
            event.link.close()
            if link := self._links.pop(event.link.name, None):
                link._end(_ended(event.link.remote_condition))
            event.link.free()
        elif kind == Event.CONNECTION_REMOTE_OPEN:
            if not self._opened.done():
                self._opened.set_result(None)
        elif kind in (Event.CONNECTION_REMOTE_CLOSE, Event.SESSION_REMOTE_CLOSE):
            endpoint: Endpoint = event.context
            reason = _ended(endpoint.remote_condition).args[0]
            if self._connection.state & Endpoint.LOCAL_CLOSED:
                reason = "it was closed"
            else:
                self._connection.close()
                self._flush()
            self.abort(reason)
        elif kind == Event.TRANSPORT_ERROR:
            self._on_transport_error(self._transport.condition)

    def _on_transport_error(self, condition: Condition | None) -> None:
        if self._sasl.outcome == SASL.TEMP:
            self.abort("the broker lets nobody sign in for now, or not after so many failed attempts")
        elif self._sasl.outcome not in (SASL.OK, None):
            self._end(SignInRefused(f"{self.where} does not take user {self._connection.user!r} or its password"))
        else:
            self.abort(_ended(condition).args[0])


def _ended(condition: Condition | None) -> LinkEnded:
    if condition is None:
        return LinkEnded("", "the broker ended it without a reason")
    return LinkEnded(str(condition.name), condition.description or "", condition.info)


class Sender:
    """A link to the broker. Messages wait here until the broker gives credit."""

    def __init__(self, client: AmqpClient, link: Link, refused: Callable[[str, LinkEnded], None]) -> None:
        self.client = client
        self.link = link
        self.name: str = link.name
        self.ended: asyncio.Future[Exception] = client._loop.create_future()
        self._refused = refused
        self._waiting: dict[str, bytes] = {}
        client._add(self)

    def send(self, tag: str, message: bytes) -> None:
        """Send once there is credit; nothing if the link has ended."""
        self._waiting[tag] = message
        self._on_flow()

    def forget(self, tag: str) -> None:
        """Do not send the message if it is still waiting for credit."""
        self._waiting.pop(tag, None)

    def _on_flow(self) -> None:
        while self._waiting and not self.ended.done() and self.link.credit > 0:
            tag = next(iter(self._waiting))
            self.link.delivery(tag)
            self.link.stream(self._waiting.pop(tag))
            self.link.advance()
            self.client.wake()

    def _on_delivery(self, delivery: Delivery) -> None:
        state = delivery.remote_state
        if not (state or delivery.settled):
            return
        if state in (Delivery.REJECTED, Delivery.RELEASED, Delivery.MODIFIED):
            condition = delivery.remote.condition if state == Delivery.REJECTED else None
            self._refused(delivery.tag, _ended(condition))
        delivery.settle()

    def _end(self, reason: Exception) -> None:
        if not self.ended.done():
            self.ended.set_result(reason)
        self._waiting.clear()


class Receiver:
    """A link from the broker. `ended` is done, with the reason as its result, when no more will come."""

    def __init__(self, client: AmqpClient, link: Link, window: int, deliver: Callable[[bytes], None]) -> None:
        self.client = client
        self.link = link
        self.name: str = link.name
        self.ended: asyncio.Future[Exception] = client._loop.create_future()
        self._window = window
        self._owed = 0  # consumed, and no credit given for it yet
        self._deliver = deliver
        client._add(self)
        if not self.ended.done():
            link.flow(window)

    def consumed(self) -> None:
        """A message has been dealt with: another may come. Credit goes out in halves of the window, not one by one."""
        self._owed += 1
        if self._owed * 2 >= self._window and not self.ended.done():
            self.link.flow(self._owed)
            self._owed = 0
            self.client.wake()

    def detach(self) -> None:
        """End the link; what arrives after this is dropped."""
        if not self.ended.done():
            self._end(LinkEnded("", "it was closed here"))
            self.client._links.pop(self.name, None)
            self.link.close()
            self.client.wake()

    def _on_flow(self) -> None:
        """Nothing to do: a receiver gives credit, it does not get any."""

    def _on_delivery(self, _delivery: Delivery) -> None:
        # Proton reads the link's current delivery, which is not always the event's.
        messages: deque[bytes] = deque()
        while (current := self.link.current) is not None and current.readable and not current.partial:
            aborted = current.aborted
            data = b"" if aborted else self.link.recv(current.pending) or b""
            current.update(Delivery.ACCEPTED)
            self.link.advance()
            current.settle()
            if aborted:
                self.consumed()
            else:
                messages.append(data)
        while messages:
            self._deliver(messages.popleft())

    def _end(self, reason: Exception) -> None:
        if not self.ended.done():
            self.ended.set_result(reason)
