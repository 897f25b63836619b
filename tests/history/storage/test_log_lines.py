"""Parsing of single lines of brokers' logs."""

from __future__ import annotations

import pytest

from brokers.engine.values.events import dropped_words, overfull_words, queue_subject, text, underfull_words
from console.history.storage.log_lines import Unreadable, may_be_event, read_line

SUBJECT = "[vh(/test)/qu(MyQueue)]"
CHANNEL = "[con:2(guest@anonymous(713889609)/test)/ch:1]"


@pytest.mark.parametrize(
    ("line", "columns"),
    [
        (
            f"{SUBJECT} QUE-1003 : Overfull : Size : 1,200 bytes, Capacity : 1,000",
            {"kind": "queue-overfull", "queue": "MyQueue", "virtualhost": "test", "depth_bytes": 1200}
            | {"stop_bytes": 1000, "depth_messages": None, "stop_messages": None, "state": "OVERFULL"},
        ),
        (
            f"{SUBJECT} QUE-1003 : Overfull : Size : 1,200 bytes, Capacity : 1,000, Messages : 12,"
            " Message Capacity : 10",
            {"depth_bytes": 1200, "stop_bytes": 1000, "depth_messages": 12, "stop_messages": 10},
        ),
        (
            f"{SUBJECT} QUE-1003 : Overfull : Size : 1.234.567 bytes, Capacity : -1, Messages : 12,"
            " Message Capacity : 10",
            {"depth_bytes": 1234567, "stop_bytes": 0, "stop_messages": 10},
        ),
        (
            f"{SUBJECT} QUE-1003 : Overfull : Size : 1\u202f234\u00a0567 bytes, Capacity : 1'000",
            {"depth_bytes": 1234567, "stop_bytes": 1000},
        ),
        (
            f"{SUBJECT} QUE-1004 : Underfull : Size : 600 bytes, Resume Capacity : 800",
            {"kind": "queue-underfull", "depth_bytes": 600, "resume_bytes": 800, "state": "NORMAL"},
        ),
        (
            f"{SUBJECT} QUE-1004 : Underfull : Size : 600 bytes, Resume Capacity : 800, Messages : 6,"
            " Message Capacity : 8",
            {"depth_messages": 6, "resume_messages": 8},
        ),
        (
            f"{SUBJECT} QUE-1005 : Dropped : 3 messages, Depth : 900 bytes, 9 messages, Capacity : 1,000 bytes,"
            " 10 messages",
            {"kind": "queue-dropped", "messages": 3, "depth_bytes": 900, "depth_messages": 9, "stop_bytes": 1000},
        ),
        (
            f"{CHANNEL} CHN-1005 : Flow Control Enforced (Queue MyQueue)",
            {"kind": "producer-blocked", "queue": "MyQueue", "virtualhost": "test", "channel": "ch:1"}
            | {"connection": "con:2(guest@anonymous(713889609)/test)", "client": "guest@anonymous(713889609)"}
            | {"reasons": ["queue-overfull:MyQueue"], "object_type": "Producer"},
        ),
        (
            f"{CHANNEL} CHN-1005 : Flow Control Enforced (Queue ** All Queues **)",
            {"reasons": ["store-overfull"]},
        ),
        (f"{CHANNEL} CHN-1006 : Flow Control Removed", {"kind": "producer-released", "channel": "ch:1"}),
        (
            "[vh(/test)/ms(BDBMessageStore)] MST-1008 : Store overfull, flow control will be enforced",
            {"kind": "store-overfull", "virtualhost": "test", "object": "type=VirtualHost,name=test"},
        ),
        ("[vh(/test)/ms(BDBMessageStore)] MST-1009 : Store overfull condition cleared", {"kind": "store-underfull"}),
        (
            "WARN   Message send delayed by 5s due to broker enforced flow control",
            {"kind": "client-warning", "lasted_ms": 5000},
        ),
        (
            'info Queue "a b": has reached 1000 enqueued messages. Producer flow control activated.',
            {"kind": "queue-overfull", "queue": "a b", "stop_messages": 1000, "virtualhost": "default"},
        ),
        (
            f"MESSAGE {SUBJECT} {SUBJECT} QUE-1003 : Overfull : Size : 1,200 bytes, Capacity : 1,000",
            {"text": f"{SUBJECT} QUE-1003 : Overfull : Size : 1,200 bytes, Capacity : 1,000", "queue": "MyQueue"},
        ),
        # The Java broker's own names of threads
        (
            "INFO  [Broker-Config] (q.m.c.close) - [con:0(guest@/127.0.0.1:60521/default)] CON-1002 : Close",
            {"kind": "connection-closed", "connection": "con:0(guest@/127.0.0.1:60521/default)"}
            | {"text": "[con:0(guest@/127.0.0.1:60521/default)] CON-1002 : Close"},
        ),
        (
            "INFO  [Broker-Config] (q.m.b.ready) - [Broker] BRK-1004 : Qpid Broker Ready",
            {"kind": "broker-ready", "object": "type=Broker", "text": "[Broker] BRK-1004 : Qpid Broker Ready"},
        ),
        (
            f"INFO  [VirtualHostNode-default-Config] (q.m.q.create) - [Broker] {SUBJECT} QUE-1001 : Create : x",
            {"kind": "queue-created", "queue": "MyQueue"},
        ),
        # The end of a channel ends its blocks.
        (f"{CHANNEL} CHN-1003 : Close", {"kind": "producer-detached", "channel": "ch:1"}),
        (f"{CHANNEL} CHN-1003 : Close : 320 - refused", {"kind": "producer-detached", "channel": "ch:1"}),
        (
            f"{CHANNEL} [vh(/te)st)/qu(a]b (c))] QUE-1001 : Create : Owner: x",
            {"queue": "a]b (c)", "virtualhost": "te)st", "connection": "con:2(guest@anonymous(713889609)/test)"},
        ),
    ],
)
def test_documented_line_is_parsed_in_every_format(line: str, columns: dict[str, object]) -> None:
    assert may_be_event(line.encode())
    read = read_line(line)
    assert read is not None
    found = read[1]
    assert {column: found.get(column) for column in columns} == columns


def test_lines_of_the_bundled_broker_are_parsed() -> None:
    subject = queue_subject("default", "orders, (new)")
    for kind, words, columns in (
        ("queue-overfull", overfull_words(1_234_567, 0, 12, 10), (1_234_567, 0, 12, 10)),
        ("queue-underfull", underfull_words(0, 800, 0, 8), (0, 800, 0, 8)),
    ):
        read = read_line(text(kind, subject, words))
        assert read is not None
        level = "stop" if kind == "queue-overfull" else "resume"
        found = [read[1][c] for c in ("depth_bytes", f"{level}_bytes", "depth_messages", f"{level}_messages")]
        assert (read[1]["kind"], read[1]["queue"], tuple(found)) == (kind, "orders, (new)", columns)
    read = read_line(text("queue-dropped", subject, dropped_words(1, 2, 3, 4, 5)))
    assert read is not None
    assert read[1]["stop_messages"] == 5


@pytest.mark.parametrize(
    "line",
    [
        f"{SUBJECT} QUE-1003 : Overfull : Size : many bytes, Capacity : 1,000",
        f"{SUBJECT} QUE-1003 : Overfull : Size : 1,200 bytes",
        f"{CHANNEL} CHN-1005 : Flow Control Enforced",
        "QUE-1003 : Overfull : Size : 1,200 bytes, Capacity : 1,000",
        "[Broker-Config] (a) - QUE-1003 : Overfull : Size : 1,200 bytes, Capacity : 1,000",
        "Queue orders: Producer flow control activated.",
        "AMQ222183: Blocking message production",
        "memory resource limit alarm set on all nodes",
    ],
)
def test_known_code_with_an_unknown_format_is_unreadable(line: str) -> None:
    with pytest.raises(Unreadable):
        read_line(line)


@pytest.mark.parametrize("line", ["", "nothing", f"{CHANNEL} CHN-1001 : Create", "the flow control of a river"])
def test_other_lines_are_no_events(line: str) -> None:
    assert read_line(line) is None
