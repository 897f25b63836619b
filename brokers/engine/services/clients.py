"""Clients' connections: opened, and closed by either side; and the end of their links."""

from __future__ import annotations

from brokers.admin import NotAllowed
from brokers.engine.flow.producer import Producer
from brokers.engine.flow.turn import Close, Turn
from brokers.engine.ports import ConnectionPort
from brokers.engine.queues.consumer import Consumer
from brokers.engine.registry.connection import ANONYMOUS, Connection, ContainerInUse
from brokers.engine.registry.registry import Registry
from brokers.engine.registry.virtualhost import DEFAULT, VirtualHost
from brokers.engine.services.links import Links
from brokers.engine.services.subscriptions import Subscriptions
from brokers.engine.services.transactions import Transactions
from brokers.engine.values.events import name_in_events


class Clients:
    """See the module."""

    def __init__(
        self, registry: Registry, turn: Turn, links: Links, subscriptions: Subscriptions, transactions: Transactions
    ) -> None:
        self.registry = registry
        self.turn = turn
        self.links = links
        self.subscriptions = subscriptions
        self.transactions = transactions

    def open_connection(
        self,
        hostname: str,
        *,
        user: str | None,
        remote_address: str,
        container_id: str,
        idle_timeout: int,
        handle: ConnectionPort,
        sole: bool = False,
        product: str = "",
        product_version: str = "",
    ) -> Connection:
        """Open a connection. `hostname` as the client sent it; `user` None = did not sign in. `sole`: no other
        connection of this user may have the container-id. `product`, `product_version`: see `Connection`. Raises
        NotFound, NotAllowed, ContainerInUse."""
        host = self._virtualhost_for(hostname)
        if user is None and not host.anonymous:
            raise NotAllowed(f"virtual host {host.name} does not allow anonymous clients")
        self._check_container(host, user or ANONYMOUS, container_id, sole=sole)
        connection = Connection(
            self.registry.next_number(),
            host.name,
            user=user or ANONYMOUS,
            remote_address=remote_address,
            container_id=container_id,
            idle_timeout=idle_timeout,
            opened=self.turn.now,
            sole=sole,
            product=product,
            product_version=product_version,
            handle=handle,
        )
        self.registry.connections[connection.id] = connection
        self._add_fact(connection, "connection-opened", f"Open : Container : {name_in_events(container_id)}")
        return connection

    def _check_container(self, host: VirtualHost, user: str, container_id: str, *, sole: bool) -> None:
        """Refuse a connection if it, or an open one with the same user and container-id, is exclusive."""
        for other in self.registry.connections.values() if container_id else ():
            if (
                (sole or other.sole)
                and not other.leaving
                and (other.container_id, other.user, other.virtualhost) == (container_id, user, host.name)
            ):
                raise ContainerInUse(
                    {
                        "container-id": f"container-id {container_id} is in use by the connection of user {user} from"
                        f" {other.remote_address}, and one of the two is to be its only connection"
                    }
                )

    def _virtualhost_for(self, hostname: str) -> VirtualHost:
        """Return the virtual host for a hostname: `vhost:NAME`, which must exist; a plain name that is a virtual host;
        for any other, such as the server's DNS name, the default."""
        if hostname.startswith("vhost:"):
            return self.registry.virtualhost(hostname.removeprefix("vhost:"))
        return self.registry.virtualhosts.get(hostname) or self.registry.virtualhost(DEFAULT)

    def close_connection(self, connection: Connection, why: str = "") -> None:
        """Remove a closed connection, whose consumers' messages must have been put back before. Idempotent."""
        if self.registry.connections.pop(connection.id, None) is None:
            return
        links: list[Producer | Consumer] = [*connection.producers, *connection.consumers]
        for link in links:
            self.detach(link)
        for transaction in list(connection.transactions.values()):
            self.transactions.roll_back(transaction)
        self._add_fact(connection, "connection-closed", f"Close{f' : {why}' if why else ''}")

    def end_connection(self, connection: Connection, description: str) -> None:
        """Have the protocol layer close the connection."""
        self.turn.effects.append(Close(connection.handle, "amqp:connection:forced", description))

    def detach(self, link: Producer | Consumer) -> None:
        """Remove an ended link; a consumer's messages must have been put back before. Idempotent."""
        if self.links.detach(link) and isinstance(link, Consumer):
            self.subscriptions.left(link.connection.virtualhost, link.queue.name)

    def _add_fact(self, connection: Connection, kind: str, words: str) -> None:
        attributes = {"client": connection.client, "virtualhost": connection.virtualhost}
        self.turn.add_fact(kind, connection.name, connection.subject, words, attributes)
