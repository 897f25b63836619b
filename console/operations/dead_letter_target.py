"""The dead-letter queue of a queue as the target of a move: resolved when messages are moved, since it can change
between an operator's look at it and the move. In any other queue they would be no dead letters, which a retry returns.
"""

from __future__ import annotations

from brokers.admin import InvalidValue
from brokers.model import ObjectName
from console.links.registry import BrokerLink
from console.operations.attempt import PreviewOutdated
from console.operations.policies import EXPLAIN, has_operation


def dead_letter_queue_of(link: BrokerLink, queue: ObjectName) -> str:
    """Return the name of the effective dead-letter queue; "": there is none. Raises AdminError."""
    if has_operation(link, "Queue", EXPLAIN):
        answer = link.call(lambda admin: admin.call(queue, EXPLAIN, {}))
        found = (answer["fields"].get("dead_letter_queue") or {}).get("value")
    else:
        found = link.call(lambda admin: admin.read(queue)).attributes.get("dead_letter_queue")
    return "" if found in (None, queue["name"]) else str(found)


def dead_letter_target(link: BrokerLink, queue: ObjectName, shown: str) -> str:
    """Return the name of the dead-letter queue. `shown`: the one that the operator has seen; "": any. Raises
    InvalidValue if there is none, PreviewOutdated if it is another."""
    found = dead_letter_queue_of(link, queue)
    if not shown and not found:
        raise InvalidValue({"dead_letter": f"queue {queue['name']} has no dead-letter queue"})
    if shown and found != shown:
        present = f"is {found} by now, and not {shown}" if found else f"is not {shown} any more: there is none by now"
        raise PreviewOutdated(f"the dead-letter queue of {queue['name']} {present}. Nothing was changed")
    return found
