"""One AMQP connection: bytes in, bytes out, Proton between, and the engine called for what they mean.

No socket and no loop here: the server hands over what it read, and is asked to write through `Wire`. SASL comes first
(`sasl.py`); Proton sees only what follows it. A peer that breaks the protocol loses this connection and nothing else.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Sequence
from typing import Any, Protocol

from brokers.admin import AdminError, AlreadyExists, InvalidValue, NotAllowed, NotFound
from brokers.amqp import proton as pn
from brokers.amqp.container import Container
from brokers.amqp.links import ConsumerLink, IncomingLink, Link, ProducerLink
from brokers.amqp.nodes import NodeSource, NodeTarget, Refused
from brokers.amqp.outlet_link import OutletLink, Route
from brokers.amqp.properties import properties
from brokers.amqp.sasl import SaslServer
from brokers.engine.connection import Connection
from brokers.engine.exchange import Exchange
from brokers.engine.outlet import Outlet
from brokers.engine.queue import Queue

#: A client must send something at least this often, ms; Proton asks for half of it.
IDLE_TIMEOUT_MS = 60_000
#: A client has this long to sign in and open, ms.
SIGN_IN_MS = 15_000
#: A client has this long to answer when the broker closes the connection, ms.
GOODBYE_MS = 5_000
#: A client that wants to hear from the broker more often than every so many ms is seen to more often.
HASTY_MS = 4_000
MAX_FRAME = 65536
CONTAINER_ID = b"headgate"

log = logging.getLogger("headgate.broker")

_OUT_SIZE = 1 << 18
_OUT = pn.new("char[]", _OUT_SIZE)

_CONDITIONS: dict[type[AdminError], str] = {
    NotFound: "amqp:not-found",
    NotAllowed: "amqp:unauthorized-access",
    InvalidValue: "amqp:invalid-field",
    AlreadyExists: "amqp:resource-locked",
}


class Wire(Protocol):
    """How a connection writes."""

    def write(self, data: bytes) -> None: ...

    def close(self) -> None: ...


class AmqpConnection:
    """See the module. `engine`: what the engine knows it as, once it is open."""

    def __init__(self, container: Container, wire: Wire, remote_address: str, *, anonymous: bool, plain: bool) -> None:
        self.container = container
        self.wire = wire
        self.remote_address = remote_address
        self.sasl: SaslServer | None = SaslServer(container.authenticator, anonymous=anonymous, plain=plain)
        self.user: str | None = None
        self.engine: Connection | None = None
        self.links: dict[Any, Link] = {}
        self.sessions: dict[Any, int] = {}  # session -> its number on this connection
        self.reply_links: dict[str, NodeSource] = {}  # address the client chose -> link
        self.closing = False  # our end is closed
        self._session_numbers = itertools.count()
        self._waiting_since = 0  # ms of the clock of `tick`; 0: nothing is waited for
        self.writable = True
        self._transport = transport = pn.transport()
        pn.transport_set_server(transport)
        pn.transport_set_max_frame(transport, MAX_FRAME)
        pn.transport_set_idle_timeout(transport, IDLE_TIMEOUT_MS)
        self._connection = pn.connection()
        self._collector = pn.collector()
        pn.connection_collect(self._connection, self._collector)
        pn.connection_set_container(self._connection, CONTAINER_ID)
        pn.transport_bind(transport, self._connection)
        container.connections.add(self)

    # -- bytes ------------------------------------------------------------------------------------------------

    def receive(self, buffer: Any, count: int) -> None:
        """Take `count` bytes from a cffi char buffer."""
        if self._transport is None:
            return
        if self.sasl is not None:
            self._sign_in(pn.unpack(buffer, count))
            return
        self._push(buffer, count)

    def _sign_in(self, data: bytes) -> None:
        sasl = self.sasl
        assert sasl is not None
        answer = sasl.receive(data)
        if answer:
            self.wire.write(answer)
        if sasl.failed:
            log.info("sign-in from %s refused: %s", self.remote_address, sasl.reason)
            self.wire.close()
        elif sasl.done:
            self.sasl, self.user = None, sasl.user
            if sasl.rest:
                self._push(pn.from_buffer("char[]", sasl.rest), len(sasl.rest))
            self.dirty()

    def _push(self, buffer: Any, count: int) -> None:
        transport, offset, push = self._transport, 0, pn.transport_push
        while offset < count:
            taken = push(transport, buffer + offset, count - offset)
            if taken <= 0:
                break  # see `_input_ended`
            offset += taken
            self._events()
        self.dirty()

    def dirty(self) -> None:
        """There may be something to write at the end of the turn."""
        self.container.unwritten.add(self)

    def abandon(self) -> None:
        """End the socket without another word: what waits to be written must not be said."""
        self.container.unwritten.discard(self)
        self.wire.close()

    def flush(self) -> None:
        """Write what Proton has to say. Before SASL is done it has nothing to say."""
        transport = self._transport
        if transport is None or self.sasl is not None:
            return
        out: bytes | None = None
        more: list[bytes] = []
        while (size := pn.transport_pending(transport)) > 0:
            size = min(size, _OUT_SIZE)
            pn.transport_peek(transport, _OUT, size)
            piece = pn.unpack(_OUT, size)
            pn.transport_pop(transport, size)
            if out is None:
                out = piece
            else:
                more.append(piece)
        if out is not None:
            self.wire.write(b"".join((out, *more)) if more else out)
        if size < 0:
            self.wire.close()

    def tick(self, now: int) -> None:
        """Once a second or so: idle time-outs, both ways, and whoever leaves the broker waiting. `now`: ms of any
        steady clock, above 0."""
        if self.engine is not None and not self.closing:
            self._waiting_since = 0
        elif not self._waiting_since:
            self._waiting_since = now
        elif now - self._waiting_since >= (GOODBYE_MS if self.closing else SIGN_IN_MS):
            self.wire.close()
            return
        if self._transport is not None and self.sasl is None:
            pn.transport_tick(self._transport, now)
            self.dirty()

    def pause(self) -> None:
        """The peer does not read: dispatch nothing more to it."""
        self.writable = False
        if self.engine is not None:
            self.engine.writable = False

    def resume(self) -> None:
        self.writable = True
        if self.engine is not None:
            self.engine.writable = True
            self.container.broker.turn.touched.update(c.queue for c in self.engine.consumers)
        for link in list(self.links.values()):
            if not link.closing:
                link.on_writable()

    def lost(self) -> None:
        """The socket has gone. Every pointer dies here."""
        if self._transport is None:
            return
        self._let_go_of(list(self.links.values()))
        self.links.clear()
        if self.engine is not None:
            why = pn.condition_text(pn.transport_condition(self._transport))
            self.container.broker.close_connection(self.engine, why)
        self.container.connections.discard(self)
        self.container.unwritten.discard(self)
        self.container.hasty.discard(self)
        transport, connection, collector = self._transport, self._connection, self._collector
        self._transport = self._connection = self._collector = None
        pn.transport_unbind(transport)
        pn.decref(transport)
        pn.collector_release(collector)
        pn.connection_release(connection)
        pn.decref(connection)
        pn.collector_free(collector)

    def end(self, condition: str, description: str) -> None:
        """Close our end, with an error; the peer answers or its idle time-out ends it."""
        if self._transport is not None and not self.closing:
            self.closing, self._waiting_since = True, 0
            self._let_go_of(list(self.links.values()))
            pn.set_condition(pn.connection_condition(self._connection), condition, description)
            pn.connection_close(self._connection)
            self.dirty()

    # -- what Proton reports ----------------------------------------------------------------------------------

    def _events(self) -> None:
        collector, links = self._collector, self.links
        peek, pop, type_of = pn.collector_peek, pn.collector_pop, pn.event_type
        delivery_event, flow_event = pn.EV_DELIVERY, pn.EV_LINK_FLOW
        event_delivery, event_link, delivery_link = pn.event_delivery, pn.event_link, pn.delivery_link
        while event := peek(collector):
            kind = type_of(event)
            if kind == delivery_event:
                delivery = event_delivery(event)
                link = links.get(delivery_link(delivery))
                if link is not None:
                    link.on_delivery(delivery)
                else:
                    pn.delivery_settle(delivery)  # of a link that was refused
            elif kind == flow_event:
                link = links.get(event_link(event))
                if link is not None and not link.closing:
                    link.on_flow()
            elif kind in _OTHER:
                _OTHER[kind](self, event)
            pop(collector)

    def _connection_opened(self, event: Any) -> None:
        if self.engine is not None or self.closing:
            return  # a second open frame
        hostname, container_id = pn.connection_hostname(self._connection), pn.connection_container(self._connection)
        pn.connection_open(self._connection)
        try:
            self.engine = self.container.broker.open_connection(
                hostname,
                user=self.user,
                remote_address=self.remote_address,
                container_id=container_id,
                idle_timeout=pn.transport_remote_idle_timeout(self._transport),
                handle=self,
            )
            self.engine.writable = self.writable
            if 0 < self.engine.idle_timeout < HASTY_MS:
                self.container.hasty.add(self)
        except (NotFound, NotAllowed) as refused:
            self.end(_CONDITIONS[type(refused)], str(refused))

    def _connection_closed(self, event: Any) -> None:
        self.closing = True
        self._let_go_of(list(self.links.values()))
        pn.connection_close(self._connection)
        self.dirty()

    def _input_ended(self, event: Any) -> None:
        """Proton takes no more: after a close, or an error, of which it does not tell the peer in every case."""
        if not self.closing and not pn.condition_text(pn.transport_condition(self._transport)):
            self.end("amqp:connection:framing-error", "malformed frame")

    def _session_opened(self, event: Any) -> None:
        if not self.closing:
            session = pn.event_session(event)
            self.sessions[session] = next(self._session_numbers)
            pn.session_open(session)

    def _session_closed(self, event: Any) -> None:
        session = pn.event_session(event)
        gone = [p for p in self.links if pn.link_session(p) == session]
        self._let_go_of([self.links[p] for p in gone])
        for pointer in gone:
            del self.links[pointer]
        self.sessions.pop(session, None)
        pn.session_close(session)
        pn.session_free(session)
        self.dirty()

    def _link_opened(self, event: Any) -> None:
        pointer = pn.event_link(event)
        if self.closing or self.engine is None:
            return
        try:
            self.links[pointer] = self._attach(pointer, self.engine)
        except (AdminError, Refused) as refused:
            condition = refused.condition if isinstance(refused, Refused) else _CONDITIONS[type(refused)]
            info = refused.info if isinstance(refused, Refused) else None
            # No terminus: this is how a client knows at once that it was refused (part 2.6.3 of the standard).
            pn.terminus_set_type(pn.link_source(pointer), pn.UNSPECIFIED)
            pn.terminus_set_type(pn.link_target(pointer), pn.UNSPECIFIED)
            pn.link_open(pointer)
            pn.set_condition(pn.link_condition(pointer), condition, str(refused), info)
            pn.link_close(pointer)
        self.dirty()

    def _link_closed(self, event: Any) -> None:
        pointer = pn.event_link(event)
        link = self.links.pop(pointer, None)
        if link is not None:
            self._let_go_of([link])
        pn.link_close(pointer)
        pn.link_free(pointer)
        self.dirty()

    def _link_detached(self, event: Any) -> None:
        """A detach is answered in kind, unless our end was closed first. Nothing is kept of the link either way."""
        pointer = pn.event_link(event)
        link = self.links.get(pointer)
        if link is not None and not link.closing:
            pn.link_detach(pointer)
        self._link_closed(event)

    def _let_go_of(self, links: list[Link]) -> None:
        for link in links:
            if not link.closing:
                link.closing = True
                link.let_go()

    # -- attaching --------------------------------------------------------------------------------------------

    def _attach(self, pointer: Any, engine: Connection) -> Link:
        """Open the link and make what stands for it here. Raises AdminError or Refused: then it is not open yet."""
        if pn.link_is_sender(pointer):
            return self._attach_source(pointer, engine)
        return self._attach_target(pointer, engine)

    def _attach_source(self, pointer: Any, engine: Connection) -> Link:
        """The client receives."""
        remote = pn.link_remote_source(pointer)
        address = pn.terminus_address(remote)
        if pn.terminus_is_dynamic(remote):
            return self._attach_reply(pointer)
        if address.startswith("$"):
            return self._attach_node_source(pointer, address)
        self._check_right("consume", engine)
        queue = self.container.broker.find_or_create_queue(engine, _required(address, "source"))
        presettled = pn.link_remote_snd_settle_mode(pointer) == pn.SND_SETTLED
        browsing = pn.terminus_distribution_mode(remote) == pn.DIST_MODE_COPY
        link = ConsumerLink(self, pointer, presettled=presettled)
        pn.terminus_copy(pn.link_source(pointer), remote)
        pn.clear_terminus_filter(pn.link_source(pointer))  # none is applied, so none is confirmed
        pn.terminus_copy(pn.link_target(pointer), pn.link_remote_target(pointer))
        pn.link_set_snd_settle_mode(pointer, pn.link_remote_snd_settle_mode(pointer))
        pn.link_set_rcv_settle_mode(pointer, pn.RCV_FIRST)
        pn.link_open(pointer)
        link.consumer = self.container.broker.attach_consumer(
            engine, queue, pn.link_name(pointer), link, browsing=browsing
        )
        return link

    def _attach_target(self, pointer: Any, engine: Connection) -> Link:
        """The client sends."""
        remote = pn.link_remote_target(pointer)
        address = pn.terminus_address(remote)
        if pn.terminus_type(remote) == pn.COORDINATOR:
            raise Refused("amqp:not-implemented", "transactions are not supported")
        if pn.terminus_is_dynamic(remote):
            raise Refused("amqp:not-implemented", "a dynamic target is not supported")
        if address.startswith("$"):
            node_target = NodeTarget(self, pointer)
            self._node(address).open_target(node_target)
            self._open_target(node_target, remote)
            node_target.top_up()
            return node_target
        self._check_right("publish", engine)
        broker, name, channel = self.container.broker, pn.link_name(pointer), self._channel(pointer)
        target = broker.resolve_target(engine, address) if address else None
        if isinstance(target, Queue):
            link = ProducerLink(self, pointer)
            self._open_target(link, remote)
            link.producer = broker.attach_producer(engine, target, name, channel, link)
            return link
        route = self._route_to(*target) if target else self._route_by_message(engine)
        outlet_link = OutletLink(self, pointer, route)
        self._open_target(outlet_link, remote)
        outlet_link.outlet = Outlet(broker, engine, name, channel, outlet_link.settled)
        outlet_link.open()
        return outlet_link

    def _channel(self, pointer: Any) -> int:
        return self.sessions.get(pn.link_session(pointer), 0)

    @staticmethod
    def _route_to(exchange: Exchange, key: str | None) -> Route:
        """To an exchange, with the key of the address or else the subject of each message."""
        return lambda body: exchange.route(properties(body).subject if key is None else key)

    def _route_by_message(self, engine: Connection) -> Route:
        """No target address: each message says where it goes to (the anonymous terminus)."""

        def route(body: bytes) -> Sequence[Queue] | str:
            found = properties(body)
            if not found.to or found.to.startswith("$"):
                return f"the message's to is {found.to!r}: it must be the name of a queue or an exchange"
            try:
                target = self.container.broker.resolve_target(engine, found.to)
            except AdminError as refused:
                return str(refused)
            if isinstance(target, Queue):
                return (target,)
            exchange, key = target
            return exchange.route(found.subject if key is None else key)

        return route

    def _open_target(self, link: IncomingLink, remote: Any) -> None:
        pointer = link.pointer
        pn.terminus_copy(pn.link_target(pointer), remote)
        pn.terminus_copy(pn.link_source(pointer), pn.link_remote_source(pointer))
        pn.link_set_snd_settle_mode(pointer, pn.link_remote_snd_settle_mode(pointer))
        pn.link_set_rcv_settle_mode(pointer, pn.RCV_FIRST)
        pn.link_set_max_message_size(pointer, link.max_size)
        pn.link_open(pointer)

    def _attach_reply(self, pointer: Any) -> Link:
        """A dynamic source: an address of its own, to which answers can be sent."""
        if self.user is None:
            raise Refused("amqp:unauthorized-access", "a dynamic source is for answers from $management: sign in first")
        link = NodeSource(self, pointer, self.container.reply_address())
        self._take_replies(link)
        pn.set_terminus_address(pn.link_source(pointer), link.address)
        self._open_node_source(pointer)
        return link

    def _attach_node_source(self, pointer: Any, address: str) -> Link:
        reply_to = pn.terminus_address(pn.link_remote_target(pointer))
        link = NodeSource(self, pointer, reply_to)
        remote = pn.link_remote_source(pointer)
        self._node(address).open_source(link, pn.terminus_filter(remote))
        if reply_to:
            self._take_replies(link)
        pn.terminus_copy(pn.link_source(pointer), remote)
        self._open_node_source(pointer)
        return link

    def _take_replies(self, link: NodeSource) -> None:
        """Replies for the link's address go to it, until it ends or another takes them."""
        links, address = self.reply_links, link.address
        links[address] = link
        link.on_end.append(lambda: links.pop(address) if links.get(address) is link else None)

    def _open_node_source(self, pointer: Any) -> None:
        pn.terminus_copy(pn.link_target(pointer), pn.link_remote_target(pointer))
        pn.link_set_snd_settle_mode(pointer, pn.SND_SETTLED)
        pn.link_open(pointer)

    def _node(self, address: str) -> Any:
        node = self.container.nodes.get(address)
        if node is None:
            raise Refused("amqp:not-found", f"there is no node {address}")
        if self.user is None:
            raise Refused("amqp:unauthorized-access", f"{address} is for users who signed in")
        if "manage" not in self.container.rights(self.user):
            raise Refused("amqp:unauthorized-access", f"user {self.user} has not the right to manage: no {address}")
        return node

    def _check_right(self, right: str, engine: Connection) -> None:
        """Nobody who signed in may less than an anonymous client."""
        if self.user is None or self.container.broker.virtualhosts[engine.virtualhost].anonymous:
            return
        if right not in self.container.rights(self.user):
            raise Refused("amqp:unauthorized-access", f"user {self.user} has not the right to {right}")


_OTHER = {
    pn.EV_CONNECTION_REMOTE_OPEN: AmqpConnection._connection_opened,
    pn.EV_CONNECTION_REMOTE_CLOSE: AmqpConnection._connection_closed,
    pn.EV_TRANSPORT_TAIL_CLOSED: AmqpConnection._input_ended,
    pn.EV_SESSION_REMOTE_OPEN: AmqpConnection._session_opened,
    pn.EV_SESSION_REMOTE_CLOSE: AmqpConnection._session_closed,
    pn.EV_LINK_REMOTE_OPEN: AmqpConnection._link_opened,
    pn.EV_LINK_REMOTE_CLOSE: AmqpConnection._link_closed,
    pn.EV_LINK_REMOTE_DETACH: AmqpConnection._link_detached,
}


def _required(address: str, terminus: str) -> str:
    if not address:
        raise Refused("amqp:not-implemented", f"the {terminus} has no address: the anonymous terminus is not supported")
    return address
