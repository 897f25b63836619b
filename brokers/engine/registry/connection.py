"""A client's connection: its user, its container and its links."""

from __future__ import annotations

from typing import Any

from brokers.admin import InvalidValue
from brokers.engine.flow.producer import Producer
from brokers.engine.ports import ConnectionPort
from brokers.engine.queues.consumer import Consumer
from brokers.engine.registry.transaction import Transaction
from brokers.engine.values.events import connection_subject, name_in_events
from brokers.model import ObjectName, object_name

ANONYMOUS = "anonymous"


class ContainerInUse(InvalidValue):
    """A connection is refused since another one of the same user has its container-id exclusively."""


class Connection:
    """`opened` in ms since the epoch; `idle_timeout` in ms, 0 = none; `product`, `product_version`: the client's
    library, as it calls itself, empty if it does not; `sole`: no other connection of its user may have its
    container-id; `handle` belongs to the protocol layer."""

    __slots__ = (
        "blocked",
        "consumers",
        "container_id",
        "handle",
        "id",
        "idle_timeout",
        "leaving",
        "name",
        "opened",
        "producers",
        "product",
        "product_version",
        "remote_address",
        "sole",
        "transactions",
        "user",
        "virtualhost",
        "writable",
    )

    def __init__(
        self,
        number: int,
        virtualhost: str,
        *,
        user: str = ANONYMOUS,
        remote_address: str = "",
        container_id: str = "",
        idle_timeout: int = 0,
        opened: int = 0,
        sole: bool = False,
        product: str = "",
        product_version: str = "",
        handle: ConnectionPort,
    ) -> None:
        self.id = number
        self.virtualhost = virtualhost
        self.user = user
        self.remote_address = remote_address
        self.container_id = container_id
        self.idle_timeout = idle_timeout
        self.opened = opened
        self.product = product
        self.product_version = product_version
        self.sole = sole
        self.leaving = False  # while it is closed: its container-id is free
        self.handle = handle
        self.producers: set[Producer] = set()
        self.consumers: set[Consumer] = set()
        self.transactions: dict[bytes, Transaction] = {}  # the open ones, by the id that the client uses
        self.blocked: dict[int, dict[Producer, None]] = {}  # its blocked producers, by channel
        self.writable = True  # False while the peer does not read: nothing is dispatched to it
        self.name: ObjectName = object_name("Connection", virtualhost=virtualhost, id=number)

    def forget(self, link: Any) -> None:
        """Remove a link that has ended."""
        self.producers.discard(link)
        self.consumers.discard(link)

    @property
    def subject(self) -> str:
        return connection_subject(self.id, self.user, self.remote_address, self.virtualhost)

    @property
    def client(self) -> str:
        """The user, container and address, for people and events."""
        return f"{self.user} · {name_in_events(self.container_id) or '?'} · {self.remote_address}"
