"""The protocol layer's ends of links, connections and transactions, for tests of the engine without one."""

from __future__ import annotations

from typing import Any

from brokers.engine.flow.producer import Producer
from brokers.engine.queues.consumer import Consumer
from brokers.engine.registry.connection import Connection
from brokers.engine.values.message import Message
from brokers.engine.values.outcomes import Outcome


class Link:
    """`engine_link`: its producer or consumer; None: not needed by the test."""

    def __init__(self) -> None:
        self.engine_link: Producer | Consumer | None = None

    def sync_credit(self) -> None: ...

    def drain(self) -> None: ...

    def settle(self, count: int, outcome: Outcome) -> None: ...

    @property
    def client_link(self) -> Link:
        return self

    def send(self, messages: list[Message]) -> None: ...

    def confirm(self, count: int) -> None: ...

    def settle_discharged(self, acknowledgement: Any) -> None: ...

    def discharged(self, transaction: Any) -> None: ...

    def end(self, condition: str, description: str) -> None: ...


class Peer:
    """`connection`: its connection; None: not needed by the test."""

    def __init__(self) -> None:
        self.connection: Connection | None = None

    def end(self, condition: str, description: str) -> None: ...
