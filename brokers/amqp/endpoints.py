"""Sessions and links of one connection: opened, closed and called as Proton's events require.

`handle_events` runs for every message and calls `link.Link`. Events of the connection as a whole go to its owner.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from brokers.admin import AdminError
from brokers.amqp import proton as pn
from brokers.amqp.attaching import attach
from brokers.amqp.link import Link
from brokers.amqp.link_context import LinkContext
from brokers.amqp.node_links import Node
from brokers.amqp.refusals import Refused, condition_of
from brokers.amqp.transport import Transport


class Owner(LinkContext, Protocol):
    """The connection. `closing`: the broker's end is closed."""

    closing: bool

    def peer_opened(self) -> None: ...

    def peer_closed(self) -> None: ...

    def input_ended(self) -> None: ...


class Endpoints:
    """See the module. `links`: Proton's pointer -> link."""

    def __init__(self, owner: Owner, transport: Transport, nodes: Mapping[str, Node]) -> None:
        self.links: dict[Any, Link] = {}
        self._owner = owner
        self._transport = transport
        self._nodes = nodes
        self._sessions: dict[Any, int] = {}  # session -> its number on this connection
        self._session_numbers = itertools.count()
        self._next_event: Callable[[Any], Any] = pn.collector_peek
        self._source: Any = transport.collector
        if owner.runs is not None:
            drain = owner.runs.drain
            self._next_event = lambda address: pn.cast("pn_event_t *", drain(address))
            self._source = transport.collector_address

    def handle_events(self) -> None:
        """Handle Proton's events, in their order; with the extension, ordinary messages and acknowledgements in runs,
        so that the rest is left here."""
        collector, links = self._transport.collector, self.links
        next_event, source = self._next_event, self._source
        pop, type_of = pn.collector_pop, pn.event_type
        delivery_event, flow_event = pn.EV_DELIVERY, pn.EV_LINK_FLOW
        event_delivery, event_link, delivery_link = pn.event_delivery, pn.event_link, pn.delivery_link
        while event := next_event(source):
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

    def end_links(self, links: Iterable[Link] | None = None, *, orderly: bool = False) -> None:
        """Release these links, or all, that have not ended yet. `orderly`: see `Link`."""
        for link in list(self.links.values() if links is None else links):
            if not link.closing:
                link.orderly = orderly
                link.closing = True
                link.release()

    def resume(self) -> None:
        """Resume sending, since the peer reads again."""
        for link in list(self.links.values()):
            if not link.closing:
                link.on_writable()

    def release(self) -> None:
        """Release all links after the socket was closed, and the owner, so that neither waits for the garbage
        collector."""
        self.end_links()
        self.links.clear()
        del self._owner

    # -- rare events of Proton ---------------------------------------------------------------------------------

    def _session_opened(self, event: Any) -> None:
        if not self._owner.closing:
            session = pn.event_session(event)
            self._sessions[session] = next(self._session_numbers)
            pn.session_open(session)

    def _session_closed(self, event: Any) -> None:
        session = pn.event_session(event)
        gone = [p for p in self.links if pn.link_session(p) == session]
        self.end_links([self.links[p] for p in gone], orderly=True)
        for pointer in gone:
            del self.links[pointer]
        self._sessions.pop(session, None)
        pn.session_close(session)
        pn.session_free(session)
        self._owner.dirty()

    def _link_opened(self, event: Any) -> None:
        pointer, engine = pn.event_link(event), self._owner.engine
        if self._owner.closing or engine is None:
            return
        channel = self._sessions.get(pn.link_session(pointer), 0)
        try:
            self.links[pointer] = attach(self._owner, pointer, engine, channel=channel, nodes=self._nodes)
        except (AdminError, Refused) as refused:
            condition, info = condition_of(refused)
            # No terminus: from this a client knows at once that the link is refused (part 2.6.3 of the standard).
            pn.terminus_set_type(pn.link_source(pointer), pn.UNSPECIFIED)
            pn.terminus_set_type(pn.link_target(pointer), pn.UNSPECIFIED)
            pn.link_open(pointer)
            pn.set_condition(pn.link_condition(pointer), condition, str(refused), info)
            pn.link_close(pointer)
        self._owner.dirty()

    def _link_closed(self, event: Any, *, for_good: bool = True) -> None:
        pointer = pn.event_link(event)
        link = self.links.pop(pointer, None)
        if link is not None:
            by_peer = not link.closing
            self.end_links([link], orderly=True)
            if for_good and by_peer:
                link.peer_closed()
        pn.link_close(pointer)
        pn.link_free(pointer)
        self._owner.dirty()

    def _link_detached(self, event: Any) -> None:
        """Answer a detach with a detach, unless the broker's end was closed first. The link itself is not retained."""
        pointer = pn.event_link(event)
        link = self.links.get(pointer)
        if link is not None and not link.closing:
            pn.link_detach(pointer)
        self._link_closed(event, for_good=False)


_OTHER: Mapping[int, Callable[[Endpoints, Any], None]] = {
    pn.EV_CONNECTION_REMOTE_OPEN: lambda endpoints, event: endpoints._owner.peer_opened(),
    pn.EV_CONNECTION_REMOTE_CLOSE: lambda endpoints, event: endpoints._owner.peer_closed(),
    pn.EV_TRANSPORT_TAIL_CLOSED: lambda endpoints, event: endpoints._owner.input_ended(),
    pn.EV_SESSION_REMOTE_OPEN: Endpoints._session_opened,
    pn.EV_SESSION_REMOTE_CLOSE: Endpoints._session_closed,
    pn.EV_LINK_REMOTE_OPEN: Endpoints._link_opened,
    pn.EV_LINK_REMOTE_CLOSE: Endpoints._link_closed,
    pn.EV_LINK_REMOTE_DETACH: Endpoints._link_detached,
}
