"""One AMQP connection: bytes in, bytes out, Proton between, and the engine called for what they mean.

No socket and no loop here: the server hands over what it read, and is asked to write through `Wire`. SASL comes first
(`sasl.py`); Proton sees only what follows it. A peer that breaks the protocol loses this connection and nothing else.
"""

from __future__ import annotations

import itertools
import logging
from typing import Any, Protocol

from proton import symbol

from brokers.admin import AdminError, AlreadyExists, InvalidValue, NotAllowed, NotFound
from brokers.amqp import proton as pn
from brokers.amqp.attaching import attach
from brokers.amqp.container import Container
from brokers.amqp.frame_check import FrameCheck, Malformed
from brokers.amqp.links import Link
from brokers.amqp.nodes import Refused, Replies
from brokers.amqp.sasl import SaslServer
from brokers.engine.connection import Connection, ContainerInUse
from brokers.engine.services.temporary import TooMany

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

#: A client that desires this is refused while another connection of its user has its container-id (Qpid JMS does).
SOLE_CONNECTION = "sole-connection-for-container"
#: What clients ask for before they rely on it: subscriptions that several consumers share; the above; that the broker
#: keeps messages until their delivery time. ANONYMOUS-RELAY
#: is not offered, though a link without a target address works: Qpid JMS then sends each message on a link to its own
#: destination, waits for credit itself, and so has certainly not sent a message whose send timed out.
CAPABILITIES = ("SHARED-SUBS", SOLE_CONNECTION, "DELAYED_DELIVERY")

log = logging.getLogger("headgate.broker")

#: How Proton says that it cannot make a frame of what it was to say. The peer would hear nothing more, for ever.
_NO_ANSWER = "ERROR: process error"

_OUT_SIZE = 1 << 18
_OUT = pn.new("char[]", _OUT_SIZE)

_CONDITIONS: dict[type[AdminError], str] = {
    NotFound: "amqp:not-found",
    NotAllowed: "amqp:unauthorized-access",
    InvalidValue: "amqp:invalid-field",
    AlreadyExists: "amqp:resource-locked",
    ContainerInUse: "amqp:invalid-field",
    TooMany: "amqp:resource-limit-exceeded",
}


class Wire(Protocol):
    """How a connection writes."""

    def write(self, data: bytes) -> None: ...

    def close(self) -> None: ...

    def prefer(self) -> None:
        """Serve this connection before those that only carry messages."""


class _Gate:
    """The broker's count of attempts, for one remote address."""

    def __init__(self, container: Container, address: str) -> None:
        self._container = container
        self._address = address

    def wait_ms(self, user: str) -> int:
        return self._container.attempts.wait_ms(self._address, user, self._now())

    def _now(self) -> int:
        """Of the engine's steady clock: a clock that is set must neither end a pause nor make it last."""
        return self._container.clock()

    def check_wait_ms(self, user: str) -> int:
        return self._container.attempts.check_wait_ms(self._address, user, self._now())

    def failed(self, user: str) -> None:
        self._container.attempts.failed(self._address, user, self._now())

    def succeeded(self, user: str) -> None:
        self._container.attempts.succeeded(self._address, user)


class AmqpConnection:
    """See the module. `engine`: what the engine knows it as, once it is open."""

    def __init__(
        self,
        container: Container,
        wire: Wire,
        remote: tuple[str, int],
        *,
        anonymous: bool,
        plain: bool,
        certificate: str | None = None,
    ) -> None:
        self.container = container
        self.wire = wire
        self.remote_address = f"{remote[0]}:{remote[1]}"
        self.sasl: SaslServer | None = SaslServer(
            container.authenticator,
            anonymous=anonymous,
            plain=plain,
            certificate=certificate,
            gate=_Gate(container, remote[0]),
        )
        self.user: str | None = None
        self._proof: object = None  # that the user signed in with
        self.engine: Connection | None = None
        self.links: dict[Any, Link] = {}
        self.sessions: dict[Any, int] = {}  # session -> its number on this connection
        self.reply_links: dict[str, Replies] = {}  # address that the client chose or was given -> link
        self.transacted = False  # it has, or had, a link to the transaction coordinator
        self.closing = False  # our end is closed
        self._session_numbers = itertools.count()
        self._waiting_since = 0  # ms of the clock of `tick`; 0: nothing is waited for
        self.writable = True
        self._check = FrameCheck(MAX_FRAME)
        self._refused = False  # what it sends is read no more
        self._mute = False  # Proton cannot say what it was to say, and will not say anything more
        self._transport = transport = pn.transport()
        pn.transport_hear(transport, self._hear)
        pn.transport_set_server(transport)
        pn.transport_set_max_frame(transport, MAX_FRAME)
        pn.transport_set_idle_timeout(transport, IDLE_TIMEOUT_MS)
        self._connection = pn.connection()
        self._collector = pn.collector()
        pn.connection_collect(self._connection, self._collector)
        pn.connection_set_container(self._connection, CONTAINER_ID)
        pn.offer_capabilities(self._connection, *CAPABILITIES)
        pn.transport_bind(transport, self._connection)
        container.connections.add(self)
        container.add_unopened(self)

    # -- bytes ------------------------------------------------------------------------------------------------

    def receive(self, buffer: Any, count: int) -> None:
        """Take `count` bytes from a cffi char buffer."""
        if self._transport is None:
            return
        self.container.speaking = self
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
            if sasl.user is not None:
                self._proof = self.container.broker.accounts.proof(sasl.user)
                if sasl.user in self.container.attempts.exempt:
                    self.wire.prefer()
            if sasl.rest:
                self._push(pn.from_buffer("char[]", sasl.rest), len(sasl.rest))
            self.dirty()

    def _push(self, buffer: Any, count: int) -> None:
        if self._refused:
            return
        malformed: Malformed | None = None
        try:
            self._check.take(pn.unpack(buffer, count))
        except Malformed as found:
            malformed, count = found, found.start
        transport, offset, push = self._transport, 0, pn.transport_push
        while offset < count:
            taken = push(transport, buffer + offset, count - offset)
            if taken <= 0:
                break  # see `_input_ended`
            offset += taken
            self._events()
        if malformed is not None:
            self._refuse(malformed)
        self.dirty()

    def _refuse(self, malformed: Malformed) -> None:
        """Say so and end: there is no reading on, since Proton was not given the whole of the frame."""
        self._refused = True
        if not self.closing:
            pn.connection_open(self._connection)  # if it was the frame that was to open it: a close follows an open
            self.end("amqp:decode-error", f"malformed frame: {malformed}")
        self.frame()
        # Proton says this, not a reason of its own, to a peer that it has not opened the connection with.
        reason = pn.transport_condition(self._transport)
        pn.set_condition(reason, "amqp:decode-error", f"malformed frame: {malformed}")
        pn.transport_close_tail(self._transport)
        self._events()

    def dirty(self) -> None:
        """There may be something to write at the end of the turn."""
        self.container.unwritten.add(self)

    def frame(self) -> None:
        """Have frames made of all that there is to say so far: left to itself, Proton puts transfers first."""
        if self._transport is not None:
            pn.transport_pending(self._transport)

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
        if size < 0 or self._mute:
            self.wire.close()

    def _hear(self, said: str) -> None:
        """What Proton says of this connection, of a peer that attaches more links than it has handles for, say."""
        log.info("connection from %s: %s", self.remote_address, said)
        self._mute |= said.startswith(_NO_ANSWER)

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
        self.container.unopened.pop(self, None)
        self.container.unwritten.discard(self)
        self.container.hasty.discard(self)
        self.engine = None  # which holds this; so neither waits for the collector
        transport, connection, collector = self._transport, self._connection, self._collector
        self._transport = self._connection = self._collector = None
        pn.transport_unbind(transport)
        pn.transport_deaf(transport)
        pn.decref(transport)
        pn.collector_release(collector)
        pn.connection_release(connection)
        pn.decref(connection)
        pn.collector_free(collector)

    def end(
        self, condition: str, description: str, *, orderly: bool = False, info: dict[Any, Any] | None = None
    ) -> None:
        """Close our end, with an error; the peer answers or its idle time-out ends it. `orderly`: the client is not to
        blame."""
        if self._transport is not None and not self.closing:
            self._leave()
            self._waiting_since = 0
            self._let_go_of(list(self.links.values()), orderly=orderly)
            pn.set_condition(pn.connection_condition(self._connection), condition, description, info)
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
        try:
            self.engine = self._admit(hostname, container_id)
        except (NotFound, NotAllowed, ContainerInUse) as refused:
            # The property says so before the close does: a client is not to take the connection for open until then.
            pn.set_properties(self._connection, {symbol("amqp:connection-establishment-failed"): True})
            pn.connection_open(self._connection)
            in_use = {symbol("invalid-field"): symbol("container-id")}
            info = in_use if isinstance(refused, ContainerInUse) else None
            self.end(_CONDITIONS[type(refused)], str(refused), info=info)
            return
        pn.connection_open(self._connection)
        self.container.unopened.pop(self, None)
        self.engine.writable = self.writable
        if 0 < self.engine.idle_timeout < HASTY_MS:
            self.container.hasty.add(self)

    def _admit(self, hostname: str, container_id: str) -> Connection:
        """Raises NotFound, NotAllowed, ContainerInUse."""
        if self.user is not None and self._proof != self.container.broker.accounts.proof(self.user):
            # Only open connections end when their user's password is changed.
            raise NotAllowed(f"user {self.user} was changed meanwhile and must sign in again")
        return self.container.broker.open_connection(
            hostname,
            user=self.user,
            remote_address=self.remote_address,
            container_id=container_id,
            idle_timeout=pn.transport_remote_idle_timeout(self._transport),
            sole=SOLE_CONNECTION in pn.desired_capabilities(self._connection),
            handle=self,
        )

    def _connection_closed(self, event: Any) -> None:
        self._leave()
        self._let_go_of(list(self.links.values()), orderly=True)
        pn.connection_close(self._connection)
        self.dirty()

    def _leave(self) -> None:
        """Our end is closed, and the socket will follow: the client may come back before it does."""
        self.closing = True
        if self.engine is not None:
            self.engine.leaving = True

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
        self._let_go_of([self.links[p] for p in gone], orderly=True)
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
            self.links[pointer] = attach(self, pointer, self.engine)
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

    def _link_closed(self, event: Any, *, for_good: bool = True) -> None:
        pointer = pn.event_link(event)
        link = self.links.pop(pointer, None)
        if link is not None:
            by_peer = not link.closing
            self._let_go_of([link], orderly=True)
            if for_good and by_peer:
                link.peer_closed()
        pn.link_close(pointer)
        pn.link_free(pointer)
        self.dirty()

    def _link_detached(self, event: Any) -> None:
        """A detach is answered in kind, unless our end was closed first. Of the link itself nothing is kept."""
        pointer = pn.event_link(event)
        link = self.links.get(pointer)
        if link is not None and not link.closing:
            pn.link_detach(pointer)
        self._link_closed(event, for_good=False)

    def _let_go_of(self, links: list[Link], *, orderly: bool = False) -> None:
        for link in links:
            if not link.closing:
                link.orderly = orderly
                link.closing = True
                link.let_go()


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
