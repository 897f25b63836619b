"""Small scenarios, each of a separate broker: rows that land first, and later ones."""

from __future__ import annotations

from typing import Any

from tests.history.rows import Story, at


def whole(broker: str) -> Story:
    """A queue that is overfull at 60 s, blocks its producer for 30 s and is recorded for ten minutes."""
    counted = {"capacity_messages": 10, "stop_messages": 10, "resume_messages": 8}
    return (
        Story(broker)
        .watch(0, 600)
        .sample(1, 3, whole=True, enqueued_messages=3, dequeued_messages=0, **counted)
        .sample(60, 11, state="OVERFULL", enqueued_messages=14, dequeued_messages=3, **counted)
        .overfull(60)
        .blocked(60)
        .sample(80, 20, state="OVERFULL", enqueued_messages=24, dequeued_messages=4, **counted)
        .underfull(90)
        .released(90)
        .sample(91, 5, enqueued_messages=24, dequeued_messages=19, **counted)
    )


def log(broker: str) -> Story:
    """Lines of a broker's log: without managed objects and samples; CHN-1006 has no queue."""
    story = Story(broker, source="log").watch(0, 600)

    def line(when: float, kind: str, **more: Any) -> None:
        story.event(when, kind, **({"connection": "con:2(guest@127.0.0.1:1/test)", "channel": "ch:1"} | more))

    for queue, when in (("one", 10), ("two", 12)):
        story.event(when, "queue-overfull", virtualhost="test", queue=queue, depth_bytes=1200, stop_bytes=1000)
        line(when, "producer-blocked", virtualhost="test", queue=queue)
    line(12, "producer-blocked", virtualhost="test", queue="one", channel="ch:2")
    story.event(20, "queue-underfull", virtualhost="test", queue="one", depth_bytes=600, resume_bytes=800)
    line(20, "producer-released", channel="ch:2")
    story.event(40, "queue-underfull", virtualhost="test", queue="two", depth_bytes=600, resume_bytes=800)
    line(40, "producer-released")
    return story


def log_without_hosts(broker: str) -> Story:
    """The same with a client name without virtual host, whose queue differs from those with one."""
    who = {"connection": "con:2(guest@127.0.0.1:1)", "channel": "ch:1"}
    return (
        Story(broker, source="log")
        .watch(0, 600)
        .event(10, "queue-overfull", virtualhost="test", queue="q", depth_bytes=1200, stop_bytes=1000)
        .event(10, "producer-blocked", queue="q", **who)
        .event(20, "queue-underfull", virtualhost="test", queue="q", depth_bytes=600, resume_bytes=800)
        .event(20, "producer-released", queue="q", **who)
    )


STOP = {"actor": "ann", "reason": "disk", "queues": 1, "producers": 3}

FIRST = (
    whole("whole"),
    log("log"),
    log_without_hosts("log without hosts"),
    Story("open").watch(0, 300).overfull(60).blocked(60),
    Story("lost").watch(0, 600).overfull(10).blocked(10).sample(60, 2, whole=True),
    Story("joined late").watch(0, 600).sample(30, 20, whole=True, state="OVERFULL", overfull_since=at(-3600)),
    Story("deleted")
    .watch(0, 600)
    .overfull(10)
    .blocked(10)
    .event(20, "queue-deleted", virtualhost="default", queue="q"),
    Story("detached")
    .watch(0, 600)
    .overfull(10)
    .blocked(10)
    .blocked(10, 2)
    .event(15, "producer-detached", object="type=Producer,virtualhost=default,id=1")
    .event(16, "connection-closed", connection="con:2(guest@127.0.0.1:1/default)"),
    Story("restarted").watch(0, 600).overfull(10).blocked(10).event(30, "broker-ready").sample(35, 2, whole=True),
    Story("full after restart").watch(0, 600).overfull(10).blocked(10).event(30, "broker-ready").underfull(50),
    Story("purged")
    .watch(0, 600)
    .overfull(10)
    .event(20, "queue-purged", virtualhost="default", queue="q", actor="ann")
    .underfull(20),
    Story("edited").watch(0, 600).overfull(10).event(20, "policy-changed", actor="ann").underfull(20),
    Story("stopped")
    .watch(0, 600)
    .event(10, "producers-stopped", scope="queue default/q", **STOP)
    .event(11, "producers-stopped", scope="queue other/q", **STOP)
    .event(100, "producers-started", scope="virtualhost default", actor="bob", reason="done"),
    Story("gap").watch(0, 60).sample(1, 3).watch(3600, 3660).sample(3601, 4),
    Story("unwatched").sample(1, 3),
)

LATER = (
    Story("open", numbers_from=10).watch(300, 400).underfull(350).released(350),
    # More than a year late.
    Story("whole").sample(-40_000_000, 1).watch(-40_000_000, -39_999_990),
)
