"""Proton's side of one connection: bytes in, each frame checked first, bytes out, and the release of its memory.

`endpoints.py` handles Proton's events. No socket: `Wire` writes.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Protocol

from proton import symbol

from brokers.amqp import proton as pn
from brokers.amqp.frame_check import FrameCheck, Malformed
from brokers.amqp.runs import Runs, address

MAX_FRAME = 65536
CONTAINER_ID = b"headgate"
#: What is shown of a property of a client, in characters.
LONGEST_PROPERTY = 100

#: A client that desires this is refused while another connection of its user has its container-id (Qpid JMS does).
SOLE_CONNECTION = "sole-connection-for-container"
#: Capabilities that clients check: shared subscriptions; the above; delivery times. ANONYMOUS-RELAY is not offered,
#: though a link without a target address works: without it Qpid JMS sends each message on a link to its own
#: destination and waits for credit itself, so a message whose send timed out was certainly not sent.
CAPABILITIES = ("SHARED-SUBS", SOLE_CONNECTION, "DELAYED_DELIVERY")

log = logging.getLogger("headgate.broker")

#: Proton's error if it cannot encode its output. The peer would get no further output.
_NO_ANSWER = "ERROR: process error"

#: Bytes of output that are written together: what is larger would be copied each time that it grows.
_OUT_SIZE = 1 << 18
_OUT = pn.new("char[]", _OUT_SIZE)

#: Bytes of input whose events are handled together. Proton takes 16 KiB at a time, in which there is hardly a run of
#: messages of 10 KiB. With all of an input (256 KiB) messages of 100 B took up to a sixth more processor time, with
#: this size none (four pairs on a busy machine).
PIECE_IN = 1 << 15


class Wire(Protocol):
    """The output of a connection."""

    def write(self, data: bytes) -> None: ...

    def close(self) -> None: ...

    def prefer(self) -> None:
        """Serve this connection before those that only carry messages."""


class Transport:
    """`remote_address`: for the log. `idle_timeout_ms`: the client must send something at least this often.
    `runs`: the extension, if it is used. `connection`, `collector`: Proton's; None once freed.
    `collector_address`: for `runs`."""

    def __init__(self, wire: Wire, remote_address: str, idle_timeout_ms: int, runs: Runs | None) -> None:
        self._failed = False  # Proton will produce no more output
        self._wire = wire
        self.freed = False
        self._remote_address = remote_address
        self._check = FrameCheck(MAX_FRAME)
        self._malformed = False  # further input is ignored
        self._transport = transport = pn.transport()
        pn.transport_hear(transport, self._log)
        pn.transport_set_server(transport)
        pn.transport_set_max_frame(transport, MAX_FRAME)
        pn.transport_set_idle_timeout(transport, idle_timeout_ms)
        self.connection = pn.connection()
        self.collector = pn.collector()
        pn.connection_collect(self.connection, self.collector)
        pn.connection_set_container(self.connection, CONTAINER_ID)
        pn.offer_capabilities(self.connection, *CAPABILITIES)
        pn.transport_bind(transport, self.connection)
        self.collector_address = address(self.collector)
        #: Takes a piece of the pending output of what follows.
        self._output: Callable[[Any, int], tuple[bytes | None, bool]] = _output if runs is None else runs.output
        self._output_of = transport if runs is None else address(transport)

    def push(self, buffer: Any, count: int, handle_events: Callable[[], None]) -> Malformed | None:
        """Pass `count` bytes of a cffi char buffer to Proton, up to a malformed frame, which is returned.
        `handle_events` is called after each piece: there may be events in `collector`."""
        if self._malformed:
            return None
        malformed: Malformed | None = None
        try:
            self._check.take(pn.unpack(buffer, count))
        except Malformed as found:
            malformed, count = found, found.start
            self._malformed = True
        transport, offset, due, push = self._transport, 0, PIECE_IN, pn.transport_push
        while offset < count:
            taken = push(transport, buffer + offset, count - offset)
            if taken <= 0:
                break  # Proton ends the input, and reports it as an event
            offset += taken
            if offset >= due:
                handle_events()
                due = offset + PIECE_IN
        handle_events()
        return malformed

    def flush(self) -> None:
        """Write Proton's pending output."""
        if self._transport is None:
            return
        out, ended = self._output(self._output_of, _OUT_SIZE)
        while out is not None:
            self._wire.write(out)
            if len(out) < _OUT_SIZE:
                break
            out, ended = self._output(self._output_of, _OUT_SIZE)
        if ended or self._failed:
            self._wire.close()

    def frame(self) -> None:
        """Encode all pending output now: otherwise Proton puts transfers first."""
        if not self.freed:
            pn.transport_pending(self._transport)

    def tick(self, now: int) -> None:
        """Check idle time-outs. `now`: ms of any steady clock, above 0."""
        pn.transport_tick(self._transport, now)

    # -- the connection ---------------------------------------------------------------------------------------

    def open(self, properties: dict[Any, Any] | None = None) -> None:
        if properties:
            pn.set_properties(self.connection, properties)
        pn.connection_open(self.connection)

    def close(self, error: tuple[str, str, dict[Any, Any] | None] | None = None) -> None:
        """`error`: condition, description, details."""
        if error is not None:
            pn.set_condition(pn.connection_condition(self.connection), *error)
        pn.connection_close(self.connection)

    def end_input(self, condition: str, description: str) -> None:
        """Stop reading, for this reason. There may be events afterwards."""
        # Proton sends this, not a reason of its own, to a peer if the connection is not open.
        pn.set_condition(pn.transport_condition(self._transport), condition, description)
        pn.transport_close_tail(self._transport)

    @property
    def fault(self) -> str:
        """The error with which the transport ended; empty if there was none."""
        return str(pn.condition_text(pn.transport_condition(self._transport)))

    @property
    def hostname(self) -> str:
        """The hostname in the peer's open."""
        return str(pn.connection_hostname(self.connection))

    @property
    def container_id(self) -> str:
        """The peer's container-id."""
        return str(pn.connection_container(self.connection))

    @property
    def idle_timeout(self) -> int:
        """The peer's idle time-out, ms; 0: none."""
        return int(pn.transport_remote_idle_timeout(self._transport))

    @property
    def wants_to_be_sole(self) -> bool:
        return SOLE_CONNECTION in pn.desired_capabilities(self.connection)

    def client_property(self, name: str) -> str:
        """Return a text among the properties with which the peer describes itself, shortened to `LONGEST_PROPERTY`
        characters; "" if it does not have this one as a text."""
        found = pn.connection_properties(self.connection).get(name)
        return found[:LONGEST_PROPERTY] if isinstance(found, str) else ""

    def _log(self, message: str) -> None:
        """Log Proton's message about this connection, such as of a peer that attaches more links than allowed."""
        log.info("connection from %s: %s", self._remote_address, message)
        self._failed |= message.startswith(_NO_ANSWER)

    def free(self) -> None:
        """Free Proton's objects: no pointer is valid afterwards."""
        self.freed = True
        transport, connection, collector = self._transport, self.connection, self.collector
        self._transport = self.connection = self.collector = None
        pn.transport_unbind(transport)
        pn.transport_deaf(transport)
        pn.decref(transport)
        pn.collector_release(collector)
        pn.connection_release(connection)
        pn.decref(connection)
        pn.collector_free(collector)


#: Sent with the open of a refused connection: it announces the close, so that clients do not take it for open.
NOT_ESTABLISHED = {symbol("amqp:connection-establishment-failed"): True}


def _output(transport: Any, enough: int) -> tuple[bytes | None, bool]:
    """Take Proton's pending output, up to a piece that ends with `enough` bytes. Return it, and whether there will be
    no more."""
    pieces: list[bytes] = []
    taken = size = 0
    while taken < enough and (size := pn.transport_pending(transport)) > 0:
        size = min(size, _OUT_SIZE)
        pn.transport_peek(transport, _OUT, size)
        pieces.append(pn.unpack(_OUT, size))
        pn.transport_pop(transport, size)
        taken += size
    return (b"".join(pieces) if pieces else None), size < 0
