"""What RabbitMQ has of the managed objects: attributes, what can be written, and how its stops differ."""

from __future__ import annotations

from brokers.adapters.capabilities import LEVELS, STARTS, TOTALS, Capability, Capable

REFUSES = (
    "RabbitMQ cannot hold publishers of a queue: they are refused. Publishers that use confirms get a negative one;"
    " what others publish meanwhile is lost. If the node of a classic queue is restarted during the stop, RabbitMQ"
    " removes the messages from it: they go to its dead-letter exchange or, without one, to the queue headgate-parked,"
    " from which they return after the start."
)
_STOPS = {
    "stop-producers": Capable(producer_effect="reject", remark=REFUSES),
    "start-producers": STARTS,
}
_WRITABLE = ("capacity_messages", "capacity_bytes", "overflow")

CAPABILITIES = {
    "Broker": Capability(
        ("product", "product_version", "started", "connections", "shortages", "memory_limit_bytes", "memory_used_bytes",
         "last_event", "journal", *TOTALS),
        operations={**_STOPS, "preview-change": Capable()},
    ),
    "VirtualHost": Capability(TOTALS, operations=_STOPS),
    "Queue": Capability(
        ("durable", "state", "depth_messages", "depth_bytes", "unacknowledged_messages", "consumers", "rate_in",
         "rate_out", "enqueued_messages", "overfull_since", "overfull_count", "overfull_ms", "stopped_since", "stops",
         "policy", "mechanism", *LEVELS),
        writable=_WRITABLE,
        operations={**_STOPS, "explain": Capable()},
    ),
    "Policy": Capability((), writable=("priority", *_WRITABLE), creatable=True, deletable=True,
                         descriptions={"pattern": "The queues it applies to: a regular expression."}),
    "Connection": Capability(("remote_address", "container_id", "user", "product", "product_version", "opened"),
                             text_keys=("id",),
                             operations={"close": Capable(remark="The client may connect again at once.")}),
    "Producer": Capability(
        ("connection", "link", "client", "state", "reasons", "blocked_since", "blocked_ms", "blocked_count", "release"),
        text_keys=("id",),
    ),
}  # fmt: skip
