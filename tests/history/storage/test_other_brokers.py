"""Flow-control lines of Artemis, ActiveMQ and RabbitMQ."""

from __future__ import annotations

from typing import Any

import pytest

from console.history.storage.log_lines import may_be_event, read_line

ORDERS = {"queue": "orders", "virtualhost": "default", "object": "type=Queue,virtualhost=default,name=orders"}
MORE = " See http://activemq.apache.org/producer-flow-control.html for more info"
THROTTLED = "Producers will be throttled to the rate at which messages are removed from this destination to prevent"


@pytest.mark.parametrize(
    ("line", "columns"),
    [
        (
            "WARN  [o.a.a.artemis.core.server] AMQ222183: Blocking message production on address 'orders';"
            " size=102400 bytes (99 messages); maxSize=100000 bytes (-1 messages); globalSize=102400 bytes (99 messag"
            "es); globalMaxSize=268435456 bytes (-1 messages);",
            {"kind": "queue-overfull", "state": "OVERFULL", "depth_bytes": 102_400, "depth_messages": 99}
            | {"stop_bytes": 100_000, "stop_messages": 0}
            | ORDERS,
        ),
        (
            "INFO  [org.apache.activemq.artemis.core.server] AMQ221046: Unblocking message production on address"
            " 'orders'; size=0 bytes (0 messages); maxSize=100000 bytes (5 messages); globalSize=0 bytes (0 messages);"
            " globalMaxSize=268435456 bytes (-1 messages);",
            {"kind": "queue-underfull", "state": "NORMAL", "depth_bytes": 0, "resume_messages": 5} | ORDERS,
        ),
        (
            "AMQ222183: Blocking message production on address 'orders'; size is currently: 10,240 bytes;",
            {"kind": "queue-overfull", "depth_bytes": None} | ORDERS,
        ),
        (
            "AMQ222183: Blocking message production on address 'orders'; size is currently: 10240 bytes;"
            " max-size-bytes: 10000; global-size-bytes: 10240",
            {"kind": "queue-overfull", "depth_bytes": 10_240, "stop_bytes": 10_000} | ORDERS,
        ),
        (
            "AMQ222212: Disk Full! Blocking message production on address 'orders'. Clients will report blocked.",
            {"kind": "queue-overfull", "state": "OVERFULL"} | ORDERS,
        ),
        (
            "AMQ222210: Free storage space is at 1MB of 10MB total. Usage rate is 90% which is beyond the configured"
            " <max-disk-usage>. System will start blocking producers.",
            {"kind": "store-overfull", "object_type": "Broker"},
        ),
        (
            "AMQ224114: Address control block, blocking message production on address 'orders'. Clients will not get"
            " further credit.",
            {"kind": "producers-stopped", "scope": "queue default/orders", "state": None} | ORDERS,
        ),
        (
            "AMQ224115: Address control unblock of address 'orders'. Clients will be granted credit as normal.",
            {"kind": "producers-started", "scope": "queue default/orders"},
        ),
        (
            "[warning] <0.381.0> memory resource limit alarm set on node 'rabbit@my-host'.",
            {"kind": "producers-stopped", "scope": "broker", "reason": "memory alarm on rabbit@my-host"},
        ),
        (
            "[warning] <0.381.0> disk resource limit alarm cleared on node rabbit@host",
            {"kind": "producers-started", "scope": "broker", "reason": "disk alarm on rabbit@host"},
        ),
        (
            "[warning] <0.381.0> memory resource limit alarm cleared for dead node rabbit@b",
            {"kind": "producers-started", "reason": "memory alarm on rabbit@b"},
        ),
        ("[info] <0.9.0> Server startup complete; 4 plugins started.", {"kind": "broker-ready"}),
        (
            f"WARN | Usage Manager Memory Limit (1048576) reached on queue://orders, size 120. {THROTTLED}",
            {"kind": "blocked-now", "state": "OVERFULL", "stop_bytes": 1_048_576, "depth_messages": 120} | ORDERS,
        ),
        (
            f"WARN | Usage Manager Memory Limit reached on queue://orders. {THROTTLED}",
            {"kind": "blocked-now"} | ORDERS,
        ),
        (
            f"WARN | topic://prices.eu, Usage Manager memory limit reached 1048576. {THROTTLED}",
            {"kind": "blocked-now", "queue": "topic://prices.eu", "stop_bytes": 1_048_576},
        ),
        (
            "Usage(default:memory:queue://orders:memory) percentUsage=100%, usage=1048576, limit=1048576: Usage Manager"
            " Memory Limit reached. Producer (ID:host-1:1:1) stopped to prevent flooding queue://orders."
            f"{MORE} (blocking for: 31s)",
            {"kind": "blocked-now", "lasted_ms": 31_000} | ORDERS,
        ),
        (
            "INFO | Usage(default:memory:queue://a.dlq:memory) percentUsage=69%, usage=467812303, limit=668309914,"
            " percentUsageMinDelta=1%;Parent:Usage(default:memory) percentUsage=100%, usage=668329690, limit=668309914,"
            " percentUsageMinDelta=1%: Usage Manager Memory Limit reached. Producer (ID:a-1:49:3:1) stopped to prevent"
            f" flooding queue://a.dlq.{MORE} (blocking for: 964s)",
            {"kind": "blocked-now", "scope": "broker", "reason": "broker memory full", "lasted_ms": 964_000},
        ),
        (
            "Usage(Main:store) percentUsage=100%: Persistent store is Full, 100% of 1048576. Stopping producer"
            f" (ID:host-1:1:1) to prevent flooding queue://orders.{MORE} (blocking for: 1s)",
            {"kind": "blocked-now", "scope": "broker", "reason": "persistent store full", "lasted_ms": 1000},
        ),
    ],
)  # fmt: skip
def test_flow_control_line_of_another_broker_is_parsed(line: str, columns: dict[str, Any]) -> None:
    assert may_be_event(line.encode())
    read = read_line(line)
    assert read is not None
    assert {name: read[1].get(name) for name in columns} == columns


@pytest.mark.parametrize(
    "line",
    [
        "[warning] <0.381.0> memory resource limit alarm cleared across the cluster",  # said by the last node's line
        "AMQ222038: Starting paging on address 'orders'; size=1 bytes",
        "INFO | Usage Manager is configured",
    ],
)
def test_other_line_of_another_broker_is_no_event(line: str) -> None:
    assert read_line(line) is None
