"""The operations on the messages of a queue, as `brokers/model/message_operations.py` declares them."""

from __future__ import annotations

from collections.abc import Mapping

from brokers.engine.broker import Broker
from brokers.engine.management.resources.resource import OperationCall
from brokers.engine.queues.queue import Queue


def message_operations(broker: Broker) -> Mapping[str, OperationCall[Queue]]:
    """Return the operations by their names."""
    lists = broker.message_lists
    return {"list-messages": lists.page}
