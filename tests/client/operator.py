"""An operator who uses the broker's own management, so that these tests do not depend on its internals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from brokers.model import object_name
from tests.amqp.broker_thread import WITHIN, BrokerThread, wait_until
from tests.amqp.clients import bodies, connected, fill, managing

BROKER = object_name("Broker")


class Operator:
    """`within`: time limit for waiting, in seconds."""

    def __init__(self, broker: BrokerThread, within: float = WITHIN) -> None:
        self.broker = broker
        self.within = within

    def _ask(self, operation: str, body: Any = None, **properties: Any) -> Any:
        with managing(self.broker) as management:
            answer = management.ask(operation, body, **properties)
        assert answer.status < 300, answer
        return answer.body

    def create(self, queue: str, **policy: int | str) -> None:
        self._ask("CREATE", policy, name=str(_queue(queue)))

    def read(self, queue: str) -> dict[str, Any]:
        return dict(self._ask("READ", name=str(_queue(queue))))

    def update(self, queue: str, **policy: int | str) -> None:
        self._ask("UPDATE", policy, name=str(_queue(queue)), version=self.read(queue)["version"])

    def delete(self, queue: str) -> None:
        self._ask("DELETE", name=str(_queue(queue)))

    def depth(self, queue: str) -> int:
        return int(self.read(queue)["depth_messages"])

    def producers(self, queue: str) -> list[dict[str, Any]]:
        """All attributes of each, in the order in which they attached."""
        body = {"where": {"queue": str(_queue(queue))}, "sort": "id"}
        found = self._ask("QUERY", body, type="org.amqp.management", name="self", entityType="Producer")
        return [dict(zip(found["attributeNames"], row, strict=True)) for row in found["results"]]

    def blocked(self, queue: str) -> int:
        return sum(p["state"] == "BLOCKED" for p in self.producers(queue))

    def stop_producers(self) -> None:
        self._ask("stop-producers", {"reason": "a test"}, name=str(BROKER))

    def start_producers(self) -> None:
        self._ask("start-producers", {}, name=str(BROKER))

    def until(self, condition: Callable[[], Any], what: str) -> Any:
        return wait_until(condition, what, self.within)

    def until_blocked(self, queue: str, count: int = 1) -> None:
        self.until(lambda: self.blocked(queue) == count, f"{count} producers of {queue} are blocked")

    # -- messages ---------------------------------------------------------------------------------------------------

    def publish(self, queue: str, *messages: Any) -> None:
        fill(self.broker, queue, list(messages))

    def uncommitted(self, queue: str) -> int:
        """Messages of open transactions."""
        return int(self.read(queue)["uncommitted_messages"])

    def take(self, queue: str, count: int) -> list[Any]:
        """Consume `count` messages and return their bodies. Not for bytes: Proton's view of them becomes invalid."""
        with connected(self.broker) as connection:
            return bodies(connection.create_receiver(queue, credit=count), count)


def _queue(name: str) -> Any:
    return object_name("Queue", virtualhost="default", name=name)
