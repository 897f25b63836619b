"""The texts of facts, exactly as in DOMAIN.md section 6, and their attributes."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokers.engine.values.clients import Client
from brokers.engine.values.events import (
    MOST_NAME,
    connection_subject,
    dropped_words,
    overfull_words,
    queue_subject,
    text,
    underfull_words,
)
from brokers.engine.values.stops import Scope
from brokers.model import NOTIFICATIONS, TYPES
from tests.engine.ports import Peer
from tests.engine.simulation import START, Simulation

NUMBER = r"(?:\d{1,3}(?:,\d{3})*)"
#: The second form of each text: what today's Broker-J writes.
FORMS = {
    "queue-overfull": rf"\[vh\(/([^)]+)\)/qu\(([^)]+)\)\] QUE-1003 : Overfull : Size : ({NUMBER}) bytes,"
    rf" Capacity : ({NUMBER}), Messages : ({NUMBER}), Message Capacity : ({NUMBER})",
    "queue-underfull": rf"\[vh\(/([^)]+)\)/qu\(([^)]+)\)\] QUE-1004 : Underfull : Size : ({NUMBER}) bytes,"
    rf" Resume Capacity : ({NUMBER}), Messages : ({NUMBER}), Message Capacity : ({NUMBER})",
    "queue-dropped": rf"\[vh\(/([^)]+)\)/qu\(([^)]+)\)\] QUE-1005 : Dropped : ({NUMBER}) messages, Depth : ({NUMBER})"
    rf" bytes, ({NUMBER}) messages, Capacity : ({NUMBER}) bytes, ({NUMBER}) messages",
    "producer-blocked": r"\[con:(\d+)\(([^@]+)@([^/]+)/([^)]+)\)/ch:(\d+)\] CHN-1005 : Flow Control Enforced"
    r" \(Queue (.+)\)",
    "producer-released": r"\[con:(\d+)\(([^@]+)@([^/]+)/([^)]+)\)/ch:(\d+)\] CHN-1006 : Flow Control Removed",
}


@pytest.fixture
def world() -> Simulation:
    return Simulation()


def texts_of(world: Simulation, kind: str) -> str:
    return next(f.text for f in world.facts if f.kind == kind)


@pytest.mark.domain("6 texts")
def test_example_log_lines_are_written_exactly():
    subject = queue_subject("test", "MyQueue")
    channel = f"{connection_subject(2, 'guest', 'anonymous(713889609)', 'test')}/ch:1"
    assert text("queue-overfull", subject, overfull_words(1200, 1000, 12, 10)) == (
        "[vh(/test)/qu(MyQueue)] QUE-1003 : Overfull : Size : 1,200 bytes, Capacity : 1,000,"
        " Messages : 12, Message Capacity : 10"
    )
    assert text("queue-underfull", subject, underfull_words(600, 800, 6, 8)) == (
        "[vh(/test)/qu(MyQueue)] QUE-1004 : Underfull : Size : 600 bytes, Resume Capacity : 800,"
        " Messages : 6, Message Capacity : 8"
    )
    assert text("queue-dropped", subject, dropped_words(3, 900, 9, 1000, 10)) == (
        "[vh(/test)/qu(MyQueue)] QUE-1005 : Dropped : 3 messages, Depth : 900 bytes, 9 messages,"
        " Capacity : 1,000 bytes, 10 messages"
    )
    assert text("producer-blocked", channel, "Flow Control Enforced (Queue MyQueue)") == (
        "[con:2(guest@anonymous(713889609)/test)/ch:1] CHN-1005 : Flow Control Enforced (Queue MyQueue)"
    )
    assert text("producer-released", channel, "Flow Control Removed") == (
        "[con:2(guest@anonymous(713889609)/test)/ch:1] CHN-1006 : Flow Control Removed"
    )


counts = st.integers(0, 1 << 63)


@pytest.mark.domain("6 texts")
@given(counts, counts, counts, counts, counts)
def test_numbers_have_grouping_commas_and_parse_back(one, two, three, four, five):
    subject = queue_subject("vh", "q")
    for kind, words, expected in (
        ("queue-overfull", overfull_words(one, two, three, four), (one, two, three, four)),
        ("queue-underfull", underfull_words(one, two, three, four), (one, two, three, four)),
        ("queue-dropped", dropped_words(one, two, three, four, five), (one, two, three, four, five)),
    ):
        found = re.fullmatch(FORMS[kind], text(kind, subject, words))
        assert found is not None
        assert tuple(int(n.replace(",", "")) for n in found.groups()[2:]) == expected


def test_overfull_queue_adds_facts_for_itself_and_its_blocked_producers(world):
    queue = world.queue("MyQueue", capacity_bytes=1000, flow_resume_bytes=800)
    sender = world.sender(queue)
    world.send(sender, 1, size=1200)
    assert re.fullmatch(FORMS["queue-overfull"], texts_of(world, "queue-overfull")).groups() == (
        *("default", "MyQueue"),
        *("1,200", "1,000", "1", "0"),
    )
    blocked = re.fullmatch(FORMS["producer-blocked"], texts_of(world, "producer-blocked"))
    number = str(sender.producer.connection.id)
    assert blocked.groups() == (number, "guest", "127.0.0.1:40000", "default", "1", "MyQueue")


def test_underfull_queue_adds_facts_for_itself_and_its_unblocked_producers(world):
    queue = world.queue("MyQueue", capacity_messages=2, flow_resume_messages=1)
    world.send(world.sender(queue), 3, size=1500)
    world.facts.clear()
    world.consume(world.receiver(queue), 2)
    assert re.fullmatch(FORMS["queue-underfull"], texts_of(world, "queue-underfull")).groups() == (
        *("default", "MyQueue"),
        *("1,500", "0", "1", "1"),
    )
    assert re.fullmatch(FORMS["producer-released"], texts_of(world, "producer-released"))


def test_ring_adds_a_fact_when_it_drops_messages(world):
    queue = world.queue("MyQueue", capacity_messages=2, overflow="ring")
    world.send(world.sender(queue), 3, size=600)
    assert re.fullmatch(FORMS["queue-dropped"], texts_of(world, "queue-dropped")).groups() == (
        *("default", "MyQueue"),
        *("1", "1,200", "2", "0", "2"),
    )


@pytest.mark.domain("2 log messages")
def test_fact_of_the_queue_precedes_those_of_its_producers(world):
    queue = world.queue(capacity_messages=1)
    one, other = world.sender(queue), world.sender(queue)
    world.kinds()
    world.send(one, 1)
    world.send(other, 1)
    assert world.kinds() == ["queue-overfull", "producer-blocked", "producer-blocked"]
    queue.lanes.purge()
    world.settle()
    assert world.kinds() == ["queue-underfull", "producer-released", "producer-released"]


def test_producer_that_attaches_to_a_stopped_queue_has_a_blocked_fact(world):
    queue = world.queue()
    world.broker.stopping.stop_producers(Scope(), "", "ann")
    world.settle()
    world.kinds()
    world.sender(queue)
    assert world.kinds() == ["connection-opened", "producer-blocked"]


@pytest.mark.domain("2 who is blocked")
def test_second_reason_adds_no_fact_and_unblocking_needs_the_last_to_end(world):
    queue = world.queue(capacity_messages=1)
    sender = world.sender(queue)
    world.send(sender, 2)
    world.kinds()
    world.broker.stopping.stop_producers(Scope(), "", "ann")
    world.settle()
    assert world.kinds() == ["producers-stopped"]
    queue.lanes.purge()
    world.settle()
    assert world.kinds() == ["queue-underfull"]
    world.broker.stopping.start_producers(Scope(), "", "ann")
    world.settle()
    assert sorted(world.kinds()) == ["producer-released", "producers-started"]


def test_fact_about_a_queue_has_the_state_after_the_change(world):
    queue = world.queue(capacity_messages=1)
    world.send(world.sender(queue), 2, size=100)
    fact = next(f for f in world.facts if f.kind == "queue-overfull")
    assert fact.attributes["state"] == "OVERFULL"
    assert (fact.attributes["depth_messages"], fact.attributes["depth_bytes"]) == (2, 200)
    assert fact.attributes["blocked_producers"] == 1
    assert (fact.at, fact.object) == (START, queue.object_name)


def test_unblocked_fact_has_the_duration_of_the_block(world):
    queue = world.queue(capacity_messages=1)
    sender = world.sender(queue)
    world.send(sender, 2)
    world.advance(1500)
    queue.lanes.purge()
    world.settle()
    lasted = {f.kind: f.attributes for f in world.facts if f.kind in ("queue-underfull", "producer-released")}
    assert lasted["queue-underfull"]["overfull_ms"] == 1500
    assert lasted["producer-released"]["blocked_ms"] == 1500
    assert (sender.producer.blocked_ms, sender.producer.blocked_count, queue.gate.overfull_ms) == (1500, 1, 1500)


@pytest.mark.parametrize("kind", NOTIFICATIONS)
@given(words=st.text())
def test_every_text_is_one_line_for_any_input(kind, words):
    line = text(kind, queue_subject(words, words), f"Said : {words}")
    assert len(line.splitlines()) == 1
    assert line.isprintable()


def test_client_cannot_forge_a_line_of_the_log(world):
    forged = "x\n[vh(/default)/qu(orders)] QUE-1003 : Overfull"
    world.broker.open_connection(
        "", user="guest", remote_address="127.0.0.1:1", container_id=forged, idle_timeout=0, handle=Peer()
    )
    world.broker.stopping.stop_producers(Scope(), forged, "ann")
    world.settle()
    assert all("\n" not in f.text for f in world.facts)
    assert world.broker.stops[Scope()].reason == forged


def test_names_that_clients_choose_are_short_in_events_and_whole_elsewhere(world):
    queue, long = world.queue(capacity_messages=1), "n" * 60_000
    connection = world.connection(container_id=long)
    sender = world.sender(queue, connection=connection, link=long)
    world.send(sender, 2)
    assert sender.producer.blocked
    world.broker.closing.close_producer(sender.producer, "a test", "anna")
    world.broker.close_connection(connection)
    world.settle()
    kinds = {fact.kind for fact in world.facts if fact.attributes.get("client") == connection.client}
    assert kinds == {"connection-opened", "producer-blocked", "producer-detached", "connection-closed"}
    assert max(len(repr(fact)) for fact in world.facts) < 3 * MOST_NAME + 1000
    assert (sender.producer.link, connection.container_id) == (long, long)
    stop = Scope(client=Client(container_id="n" * 1000))
    other = world.sender(queue, connection=world.connection(container_id="n" * 1000))
    world.broker.stopping.stop_producers(stop, "a test", "anna")
    world.settle()
    assert other.producer.stopped


def test_every_notification_is_declared_with_a_code_of_its_own():
    codes = [n.code for n in NOTIFICATIONS.values()]
    assert len(set(codes)) == len(codes)
    assert {n.name for t in TYPES.values() for n in t.notifications} == set(NOTIFICATIONS)
