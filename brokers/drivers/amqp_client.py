"""One AMQP 1.0 connection as a client: Proton's protocol engine driven by asyncio, in one loop and without threads.

It carries messages as bytes and knows nothing of what they say; its links are in `amqp_links.py`. Links are opened at
once, without waiting, so that what is sent afterwards on the same connection comes after them at the broker, too.
Credit is the reader's: there is credit for another message only once one has been consumed.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import ssl
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from proton import SASL, Collector, Condition, Connection, Endpoint, Event, Link, Session, Transport, symbol

from brokers.drivers.amqp_links import LinkEnded, Receiver, Sender, ended_by
from brokers.log_records import PROCESS
from brokers.loopback import is_loopback

_AnyLink = TypeVar("_AnyLink", Sender, Receiver)

#: How a broker's list of connections names the library of these, so that operators know their own.
PRODUCT = "Headgate"

#: Larger messages are sent in several frames, so that one does not delay the others. Bytes.
_FRAME = 65_536

#: Time for which `close` waits for the broker's close, in seconds.
_CLOSE_TIMEOUT_SECONDS = 1.0


class ConnectionLost(Exception):
    """The connection has ended, or could not be established. The message is the reason."""


class SignInRefused(ConnectionLost):
    """The broker does not accept the user and password."""


def container_id() -> str:
    """Return a new container-id that says which process connects: `headgate-web-4711-5f3c09ab`."""
    process = os.environ.get(PROCESS, "")
    return "-".join(filter(None, ("headgate", process, str(os.getpid()), secrets.token_hex(4))))


class AmqpClient(asyncio.Protocol):
    """A connection, created by `connect`. `lost` is done, with the reason as its result, when it has ended."""

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
        self._connection.container = container_id()
        self._connection.properties = {symbol("product"): PRODUCT}
        if user:
            self._connection.user, self._connection.password = user, password
        self._collector = Collector()
        self._connection.collect(self._collector)
        self._transport = Transport()
        self._transport.idle_timeout = idle_timeout
        self._transport.max_frame_size = _FRAME
        self._sasl = self._transport.sasl()
        self._sasl.allow_insecure_mechs = True  # PLAIN: the broker is on loopback, or behind a TLS socket
        self._sasl.allowed_mechs("PLAIN" if user else "ANONYMOUS")
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
        address: str = "",
    ) -> AmqpClient:
        """Connect and sign in, with `tls` by TLS, without a user as ANONYMOUS. `idle_timeout`: seconds of silence after
        which the broker counts as dead. `address`: that of the host, if it was resolved before. Raises ConnectionLost;
        has no timeout, but can be cancelled."""
        client = cls(f"{host}:{port}", user, password, idle_timeout)
        try:
            if tls is None and user and not is_loopback(host):
                client._end(
                    SignInRefused(
                        f"the password of {user} could be read on its way to {client.where}: connect with TLS"
                    )
                )
                raise client.lost.result()
            name = host if tls is not None else None
            await client._loop.create_connection(lambda: client, address or host, port, ssl=tls, server_hostname=name)
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
        return self._add(Sender(self, link, refused))

    def receiver(
        self,
        source: str | None,
        *,
        target: str | None = None,
        filters: Mapping[Any, Any] | None = None,
        window: int,
        deliver: Callable[[bytes], None],
        pace: float = 0.0,
    ) -> Receiver:
        """Open a link from `source`; None: from a temporary queue, which the broker creates. `deliver` is called with
        each complete message, with at most `window` messages before `consumed` is called for them. `pace`: see
        `Receiver`."""
        link = self._session.receiver(self._link_name(source or "temporary"))
        if source is None:
            link.source.dynamic = True
        else:
            link.source.address = source
        link.target.address = target
        if filters is not None:
            link.source.filter.put_object(dict(filters))
        link.snd_settle_mode = Link.SND_SETTLED
        return self._add(Receiver(self, link, window, deliver, pace))

    def _link_name(self, address: str) -> str:
        self._numbers += 1
        return f"{address}-{self._numbers}"

    def _add(self, link: _AnyLink) -> _AnyLink:
        if self.lost.done():
            link.end(self.lost.result())
        else:
            self._links[link.name] = link
            link.open()
            self.wake()
        return link

    def forget(self, name: str) -> None:
        self._links.pop(name, None)

    # The end

    async def close(self) -> None:
        """Close the connection, orderly if the broker answers. Does not raise if it has ended already."""
        if not self.lost.done():
            self._connection.close()
            self.wake()
            # wait: the future has other readers, and a time-out of its own would cancel it.
            await asyncio.wait([self.lost], timeout=_CLOSE_TIMEOUT_SECONDS)
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
            self._opened.exception()  # retrieved: a failure that no caller waits for is no error
        for link in list(self._links.values()):
            link.end(reason)
        self._links.clear()
        self._transport.unbind()
        self._collector.release()
        self._connection.free()

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._socket = transport
        if self.lost.done():  # aborted while connecting
            transport.abort()
        else:
            self._pump()

    def data_received(self, data: bytes) -> None:
        if self.lost.done():
            return
        view = memoryview(data)
        while view:
            capacity = self._transport.capacity()
            if capacity <= 0:  # the peer has closed, or violated the protocol: further input is ignored
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
        """Schedule one write of all pending output of Proton's objects."""
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
        except Exception as error:  # any error caused by the peer's input ends this connection only
            self._end(ConnectionLost(f"the connection to {self.where} has ended: {error!r}"))
        if self._tick:
            self._tick.cancel()
            self._tick = None
        if deadline and not self.lost.done():
            self._tick = self._loop.call_at(deadline, self._pump)

    def _flush(self) -> bool:
        """Write Proton's pending output; return whether there was any."""
        pending = self._transport.pending()
        if pending <= 0 or self._socket is None:
            return False
        data = self._transport.peek(pending)
        self._socket.write(data)
        self._transport.pop(len(data))
        return True

    def _dispatch(self) -> bool:
        """Handle Proton's events; return whether there were any."""
        any_events = False
        while not self.lost.done() and (event := self._collector.peek()) is not None:
            any_events = True
            self._on_event(event)
            if not self.lost.done():
                self._collector.pop()
        return any_events

    def _on_event(self, event: Event) -> None:  # noqa: C901, PLR0912 - one branch for each kind of event
        kind = event.type
        if kind == Event.DELIVERY:
            delivery = event.delivery
            if link := self._links.get(delivery.link.name):
                link.on_delivery(delivery)
        elif kind == Event.LINK_REMOTE_OPEN:
            if link := self._links.get(event.link.name):
                link.on_open()
        elif kind == Event.LINK_FLOW:
            if link := self._links.get(event.link.name):
                link.on_flow()
        elif kind in (Event.LINK_REMOTE_CLOSE, Event.LINK_REMOTE_DETACH):
            event.link.close()
            if link := self._links.pop(event.link.name, None):
                link.end(ended_by(event.link.remote_condition))
            event.link.free()
        elif kind == Event.CONNECTION_REMOTE_OPEN:
            if not self._opened.done():
                self._opened.set_result(None)
        elif kind in (Event.CONNECTION_REMOTE_CLOSE, Event.SESSION_REMOTE_CLOSE):
            endpoint: Endpoint = event.context
            reason = ended_by(endpoint.remote_condition).args[0]
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
            self.abort("the broker refuses sign-ins temporarily, or after too many failed attempts")
        elif self._sasl.outcome not in (SASL.OK, None):
            self._end(SignInRefused(f"{self.where} does not take user {self._connection.user!r} or its password"))
        else:
            self.abort(ended_by(condition).args[0])
