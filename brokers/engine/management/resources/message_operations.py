"""The operations on the messages of a queue, as `brokers/model/message_operations.py` declares them."""

from __future__ import annotations

from collections.abc import Mapping

from brokers.engine.broker import Broker
from brokers.engine.management.resources.resource import OperationCall
from brokers.engine.queues.queue import Queue
from brokers.engine.services.message_publishing import publish


def message_operations(broker: Broker) -> Mapping[str, OperationCall[Queue]]:
    """Return the operations by their names."""
    changes, reading = broker.message_changes, broker.message_reading
    return {
        "list-messages": broker.message_lists.page,
        "read-message": reading.read,
        "summarize-messages": reading.summarize,
        "move-messages": changes.move,
        "copy-messages": changes.copy,
        "retry-messages": changes.retry,
        "delete-messages": changes.delete,
        "publish-message": publish,
    }
