"""A virtual host: a name space of queues, with defaults for their policies and rules for who may come in."""

from __future__ import annotations

from brokers.engine.policy import Value
from brokers.engine.queue import Queue
from brokers.managed import ObjectName, object_name

DEFAULT = "default"


class VirtualHost:
    """`defaults`: policy fields for its queues. `create_on_attach`: unknown queues are created when a client attaches.
    `anonymous`: clients that did not sign in may publish and consume."""

    __slots__ = ("anonymous", "create_on_attach", "defaults", "name", "object_name", "queues", "version")

    def __init__(self, name: str) -> None:
        self.name = name
        self.object_name: ObjectName = object_name("VirtualHost", name=name)
        self.version = 1
        self.defaults: dict[str, Value] = {}
        self.create_on_attach = False
        self.anonymous = False
        self.queues: dict[str, Queue] = {}
