"""The C extension `_runs`: runs of ordinary deliveries in one call of Python each. Without it every delivery is one.

It is optional: it is compiled when the project is installed, if there is a C compiler. `_runs.c` says what it does, and
`link.Link` and its kinds what they do with it; both ways have the same behaviour (`tests/amqp` runs with both).
"""

from __future__ import annotations

import importlib
import logging
import os
from typing import Any, Protocol, cast

import cproton_ffi

from brokers.amqp import proton as pn
from brokers.engine.values.message import Message

log = logging.getLogger("headgate.broker")

#: Set to anything, the extension is not used.
PLAIN = "HEADGATE_PLAIN"

#: Proton's types of events that `Endpoints` handles beside deliveries; all others are skipped.
_HANDLED = [
    pn.EV_LINK_FLOW,
    pn.EV_CONNECTION_REMOTE_OPEN,
    pn.EV_CONNECTION_REMOTE_CLOSE,
    pn.EV_TRANSPORT_TAIL_CLOSED,
    pn.EV_SESSION_REMOTE_OPEN,
    pn.EV_SESSION_REMOTE_CLOSE,
    pn.EV_LINK_REMOTE_OPEN,
    pn.EV_LINK_REMOTE_CLOSE,
    pn.EV_LINK_REMOTE_DETACH,
]


class Lane(Protocol):
    """What is collected of one link, from its creation to `end`. Its owner, the link, has the methods of `Producing` or
    `Consuming`. `unsettled`, of a consumer: address of a delivery -> message."""

    @property
    def unsettled(self) -> dict[Any, Message]: ...

    def end(self) -> None:
        """Forget the link, which may be freed afterwards. Idempotent."""

    def take(self) -> Any:
        """Take the run: (bodies, sum of their bytes, whether they are durable, id of their transaction or None) of a
        producer, ([messages], id of their transaction or None) of a consumer."""

    def take_special(self) -> bytes | None:
        """Take the body of the current delivery if it was read and is not ordinary."""

    def accept(self) -> None:
        """Accept and settle the deliveries of the producer's run that was taken."""

    def accept_in(self, state: int, /) -> None:
        """As `accept`, within the run's transaction. `state`: address of Proton's data of the state."""

    def withhold(self) -> list[int | None]:
        """Return the addresses of these deliveries instead; None for one that the client has settled."""

    def send(self, messages: list[Message], tag: int) -> int:
        """Send messages, whose tags follow `tag`, and add them to `unsettled`. Return how many were sent."""


class Taking(Protocol):
    """A link, as its lane calls it."""

    def take_run(self) -> None:
        """Take the run of the lane, which is complete."""


class Consuming(Taking, Protocol):
    """A consumer's link, as its lane calls it."""

    def may_acknowledge(self, transaction: bytes) -> bool:
        """Return whether messages can be acknowledged in the transaction with this id."""


class Producing(Taking, Protocol):
    """A producer's link, as its lane calls it."""

    def run_allowance(self, transaction: bytes | None) -> tuple[int, int, int]:
        """Return how long the next run may be: its messages at most; the bytes with which it ends, once it exceeds
        them; and the bytes of one message at most. `transaction`: the id of the one that it is in; None: none."""


class Runs(Protocol):
    """The extension."""

    def Lane(self, link: int, owner: Taking, order: object, producer: bool, /) -> Lane:
        """`order`: the queue of the link, None if it may reach any; at most one link of a queue has an open run."""

    def drain(self, collector: int, /) -> int:
        """Take ordinary events. Return the address of the first other event, which stays; 0: there is none."""

    def accept(self, deliveries: list[int | None], /) -> list[int]:
        """Accept and settle deliveries that are in no transaction; return the others."""

    def output(self, transport: int, enough: int, /) -> tuple[bytes | None, bool]:
        """Return (the next piece of the pending output, which ends with `enough` bytes; whether there will be no
        more)."""


def load() -> Runs | None:
    """Return the extension; None if it is not built, does not fit Proton's library, or is not wanted."""
    if os.environ.get(PLAIN):
        return None
    try:
        extension = importlib.import_module("brokers.amqp._runs")
    except ModuleNotFoundError:
        return None
    except ImportError as error:  # built for another system
        log.warning("the C extension cannot be loaded: %s", error)
        return None
    try:
        extension.bind(cproton_ffi.__file__, pn.EV_DELIVERY, pn.ACCEPTED, pn.TRANSACTIONAL, pn.TYPES, _HANDLED)
    except (ImportError, TypeError, AttributeError) as error:  # of another release of Proton, or of this module
        log.warning("the C extension does not fit the installed python-qpid-proton, or this release: %s", error)
        return None
    return cast(Runs, extension)


def address(pointer: Any) -> int:
    """Return the address of one of Proton's objects, which the extension takes."""
    return int(pn.cast("uintptr_t", pointer))


def description(extension: Runs | None) -> str:
    """Say how messages are handled, for the log and for people."""
    if extension is not None:
        return "messages are handled in batches, by the C extension"
    if os.environ.get(PLAIN):
        return f"messages are handled one by one, since {PLAIN} is set"
    return (
        "messages are handled one by one, several times slower: the C extension is not built"
        " (install gcc, then: uv sync --reinstall-package headgate)"
    )
