"""One AMQP connection, from sign-in to its end, between the server and the engine's `Connection`.

No socket and no loop here: the server passes received bytes in and implements `Wire` for output. SASL comes first
(`sasl.py`); Proton (`transport.py`) gets only the bytes after it. A peer that violates the protocol loses this
connection and nothing else.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from brokers.admin import NotAllowed, NotFound
from brokers.amqp import proton as pn
from brokers.amqp.container import Container
from brokers.amqp.endpoints import Endpoints
from brokers.amqp.frame_check import Malformed
from brokers.amqp.link_context import Drainable, Replies
from brokers.amqp.refusals import condition_of
from brokers.amqp.sasl import SaslServer
from brokers.amqp.sign_in_attempts import AttemptsFrom
from brokers.amqp.transport import NOT_ESTABLISHED, Transport, Wire
from brokers.engine.registry.connection import Connection, ContainerInUse

#: A client must send something at least this often, ms; Proton asks for half of it.
IDLE_TIMEOUT_MS = 60_000
#: Time for a client to sign in and open the connection, ms.
SIGN_IN_TIMEOUT_MS = 15_000
#: Time for a client to answer when the broker closes the connection, ms.
CLOSE_TIMEOUT_MS = 5_000
#: A client whose idle time-out is shorter than this, ms, gets more than one tick a second.
SHORT_IDLE_TIMEOUT_MS = 4_000

log = logging.getLogger("headgate.broker")


class AmqpConnection:
    """See the module. `engine`, `user`, `writable`, `transacted`, `runs`, `replies`: see `LinkContext`, which this
    implements for its links. `closing`: the broker's end is closed."""

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
        self.broker = container.broker
        self.runs = container.runs
        self.wire = wire
        self.remote_address = f"{remote[0]}:{remote[1]}"
        self.sasl: SaslServer | None = SaslServer(
            container.authenticator,
            anonymous=anonymous,
            plain=plain,
            certificate=certificate,
            gate=AttemptsFrom(container.attempts, remote[0], container.clock),
        )
        self.user: str | None = None
        self._proof: object = None  # with which the user signed in
        self.engine: Connection | None = None
        self.replies: dict[str, Replies] = {}
        self.transacted = False
        self.closing = False
        self.writable = True
        self._waiting_since = 0  # ms of the clock of `tick`; 0: not waiting for the peer
        self._transport = Transport(wire, self.remote_address, IDLE_TIMEOUT_MS, self.runs)
        #: Writes pending output: none before SASL is done. An attribute, not a method that delegates: it runs in every
        #: turn.
        self.flush: Callable[[], None] = _write_nothing
        self.endpoints = Endpoints(self, self._transport, container.nodes)
        container.connections.add(self)
        container.add_unopened(self)

    # -- bytes ------------------------------------------------------------------------------------------------

    def receive(self, buffer: Any, count: int) -> None:
        """Take `count` bytes from a cffi char buffer."""
        if self._transport.freed:
            return
        self.container.current = self
        if self.sasl is not None:
            rest = self._sign_in(self.sasl, pn.unpack(buffer, count))
            if not rest:
                return
            buffer, count = pn.from_buffer("char[]", rest), len(rest)
        malformed = self._transport.push(buffer, count, self.endpoints.handle_events)
        if malformed is not None:
            self._refuse(malformed)
        self.dirty()

    def _sign_in(self, sasl: SaslServer, data: bytes) -> bytes:
        """Process SASL input; return the bytes after the end of SASL."""
        answer = sasl.receive(data)
        if answer:
            self.wire.write(answer)
        if sasl.failed:
            log.info("sign-in from %s refused: %s", self.remote_address, sasl.reason)
            self.wire.close()
        elif sasl.done:
            self.sasl, self.user = None, sasl.user
            self.flush = self._transport.flush
            if sasl.user is not None:
                self._proof = self.broker.accounts.proof(sasl.user)
                if sasl.user in self.container.attempts.exempt:
                    self.wire.prefer()
            self.dirty()
            return sasl.rest
        return b""

    def _refuse(self, malformed: Malformed) -> None:
        """Close with an error. No further input can be read, since Proton did not get the whole frame."""
        text = f"malformed frame: {malformed}"
        if not self.closing:
            self._transport.open()  # if the frame was the peer's open: a close follows an open
            self.end("amqp:decode-error", text)
        self.frame()
        self._transport.end_input("amqp:decode-error", text)
        self.endpoints.handle_events()

    # -- for its links: see `LinkContext` ------------------------------------------------------------------------

    def dirty(self) -> None:
        self.container.unwritten.add(self)

    def frame(self) -> None:
        self._transport.frame()

    def prefer(self) -> None:
        self.wire.prefer()

    def begin_transactions(self) -> None:
        self.transacted = True
        for link in self.endpoints.links.values():
            link.watch_transactions()

    def expect_answer(self) -> None:
        self.container.requesters.add(self)

    def drain_later(self, link: Drainable) -> None:
        self.container.draining.add(link)

    def forget_drain(self, link: Drainable) -> None:
        self.container.draining.discard(link)

    # -- life cycle ---------------------------------------------------------------------------------------------

    def tick(self, now: int) -> None:
        """Check, about once a second, idle time-outs of both ends and the peer's deadlines. `now`: ms of any steady
        clock, above 0."""
        if self.engine is not None and not self.closing:
            self._waiting_since = 0
        elif not self._waiting_since:
            self._waiting_since = now
        elif now - self._waiting_since >= (CLOSE_TIMEOUT_MS if self.closing else SIGN_IN_TIMEOUT_MS):
            self.wire.close()
            return
        if not self._transport.freed and self.sasl is None:
            self._transport.tick(now)
            self.dirty()

    def pause(self) -> None:
        """Stop dispatching messages to the peer, since it does not read."""
        self.writable = False
        if self.engine is not None:
            self.engine.writable = False

    def resume(self) -> None:
        self.writable = True
        if self.engine is not None:
            self.engine.writable = True
            for consumer in self.engine.consumers:
                consumer.queue.touch()
        self.endpoints.resume()

    def abandon(self) -> None:
        """Close the socket at once and discard pending output, which must not be sent."""
        self.container.unwritten.discard(self)
        self.wire.close()

    def end(
        self, condition: str, description: str, *, orderly: bool = False, info: dict[Any, Any] | None = None
    ) -> None:
        """Close the broker's end with an error; the peer answers, or is cut off after `CLOSE_TIMEOUT_MS`. `orderly`:
        not caused by the client."""
        if not self._transport.freed and not self.closing:
            self._leave()
            self._waiting_since = 0
            self.endpoints.end_links(orderly=orderly)
            self._transport.close((condition, description, info))
            self.dirty()

    def lost(self) -> None:
        """Release everything after the socket was closed."""
        if self._transport.freed:
            return
        self.endpoints.release()
        if self.engine is not None:
            self.broker.close_connection(self.engine, self._transport.fault)
        self.container.forget(self)
        self.engine = None  # a reference cycle: without it neither waits for the garbage collector
        self._transport.free()

    def _leave(self) -> None:
        """Mark the connection as closing: the client may reconnect before the socket is closed."""
        self.closing = True
        if self.engine is not None:
            self.engine.leaving = True

    # -- Proton's events of the connection as a whole: see `Endpoints` ------------------------------------------

    def peer_opened(self) -> None:
        if self.engine is not None or self.closing:
            return  # a second open frame
        try:
            self.engine = self._admit()
        except (NotFound, NotAllowed, ContainerInUse) as refused:
            condition, info = condition_of(refused)
            self._transport.open(NOT_ESTABLISHED)
            self.end(condition, str(refused), info=info)
            return
        self._transport.open()
        self.container.unopened.pop(self, None)
        self.engine.writable = self.writable
        if 0 < self.engine.idle_timeout < SHORT_IDLE_TIMEOUT_MS:
            self.container.ticked_often.add(self)

    def _admit(self) -> Connection:
        """Open the engine's connection. Raises NotFound, NotAllowed, ContainerInUse."""
        transport = self._transport
        if self.user is not None and self._proof != self.broker.accounts.proof(self.user):
            # Only open connections end when their user's password is changed.
            raise NotAllowed(f"user {self.user} was changed meanwhile and must sign in again")
        return self.broker.open_connection(
            transport.hostname,
            user=self.user,
            remote_address=self.remote_address,
            container_id=transport.container_id,
            idle_timeout=transport.idle_timeout,
            sole=transport.wants_to_be_sole,
            product=transport.client_property("product"),
            product_version=transport.client_property("version"),
            handle=self,
        )

    def peer_closed(self) -> None:
        self._leave()
        self.endpoints.end_links(orderly=True)
        self._transport.close()
        self.dirty()

    def input_ended(self) -> None:
        """Proton accepts no more input: after a close, or an error, which it does not always report to the peer."""
        if not self.closing and not self._transport.fault:
            self.end("amqp:connection:framing-error", "malformed frame")


def _write_nothing() -> None: ...
