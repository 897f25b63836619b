"""`$events` to followers of both kinds: whatever happens in whatever order, each gets every event that it may see once,
in order. The oracle is the list of all events."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from proton import Described, Message, symbol

from brokers.admin import Event
from brokers.engine.values.rights import ALL, Rights, parse_grants
from brokers.json_bodies import FILTER, FORMAT
from brokers.model import object_name
from brokers.server import event_node
from brokers.server.event_journal import Expired
from brokers.server.event_node import EventNode

HOSTS = ("default", "eu", "")


class Journal:
    """Events in memory."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.first = 1

    @property
    def last(self) -> int:
        return len(self.events)

    def read(self, after: int, count: int = 500) -> list[Event]:
        if after + 1 < self.first:
            raise Expired(self.first)
        return self.events[after : after + count]

    def add(self, host: str, size: int) -> Event:
        name = object_name("Queue", virtualhost=host, name="q") if host else object_name("Broker")
        number = self.last + 1
        attributes = {"depth_bytes": size, "names": ["ä" * size, None, True]}
        event = Event(number, 1000 + number, "queue-overfull", name, f'text "{number}"\n', attributes)
        self.events.append(event)
        return event


class Context:
    def __init__(self, user: str) -> None:
        self.user = user


class Link:
    """A follower's link at the broker. `messages`: what was sent."""

    def __init__(self, user: str, after: int, *, batched: bool) -> None:
        self.context = Context(user)
        self.after = after
        self.batched = batched
        self.credit = 0
        self.on_credit: Any = None
        self.on_end: list[Any] = []
        self.ended = ""
        self.messages: list[bytes] = []

    @property
    def filters(self) -> dict[Any, Any]:
        wanted = {symbol("headgate:after"): Described(symbol("headgate:after"), self.after)}
        return {**wanted, **({symbol(FILTER): Described(symbol(FILTER), FORMAT)} if self.batched else {})}

    def push(self, message: bytes) -> None:
        assert self.credit > 0, "no more than there is credit for"
        self.credit -= 1
        self.messages.append(message)

    def end(self, condition: str, text: str, info: Any = None) -> None:
        self.ended = condition
        for call in self.on_end:
            call()

    def rows(self) -> list[tuple[Any, ...]]:
        """What an AMQP client reads, by Proton's decoder."""
        found = []
        for data in self.messages:
            message = Message()
            message.decode(data)
            if isinstance(message.body, str):
                batch = json.loads(message.body)
                assert self.batched
                assert 0 < len(batch) <= event_node.BATCH_EVENTS
                assert len(batch) == 1 or len(message.body) <= event_node.BATCH_CHARACTERS + len(batch) + 2
                found += [tuple(row) for row in batch]
            else:
                assert not self.batched
                body = message.body
                found.append(tuple(body[k] for k in ("number", "at", "kind", "object", "text", "attributes")))
        return found


def expected(events: Sequence[Event], after: int, hosts: Sequence[str]) -> list[tuple[Any, ...]]:
    return [
        (e.number, e.at, e.kind, str(e.object), e.text, dict(e.attributes))
        for e in events
        if e.number > after and e.object.get("virtualhost") in hosts
    ]


def rights_of(user: str) -> Rights:
    return ALL if user == "all" else Rights(grants=parse_grants(["eu:manage"]))


def visible(journal: Journal, link: Link) -> list[tuple[Any, ...]]:
    return expected(journal.events, link.after, HOSTS if link.context.user == "all" else ("eu",))


def grant(link: Link, count: int) -> None:
    link.credit += count
    link.on_credit()


_ACTS = st.lists(
    st.one_of(
        st.tuples(
            st.just("events"), st.lists(st.tuples(st.sampled_from(HOSTS), st.integers(0, 40)), min_size=1, max_size=12)
        ),
        st.tuples(st.just("credit"), st.integers(0, 3), st.integers(1, 5)),
        st.tuples(st.just("turn")),
    ),
    max_size=30,
)


def _do(node: EventNode, journal: Journal, links: list[Link], act: str, values: list[Any], *, publishes: bool) -> None:
    match act:
        case "events":
            events = [journal.add(host, size) for host, size in values[0]]
            node.publish(events if publishes else ())  # as brokers behind adapters do
        case "credit":
            grant(links[values[0]], values[1])
        case "turn":
            node.go_on()


@pytest.mark.parametrize("publishes", [True, False], ids=["published", "found in the journal"])
@given(acts=_ACTS, before=st.integers(0, 30), starts=st.lists(st.integers(0, 30), min_size=4, max_size=4))
def test_every_follower_gets_its_events_once_and_in_order(
    publishes: bool, acts: Any, before: int, starts: list[int]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (("TAIL", 8), ("AT_ONCE", 5), ("BATCH_EVENTS", 3), ("BATCH_CHARACTERS", 300)):
            patch.setattr(event_node, name, value)
        journal = Journal()
        for _ in range(before):
            journal.add("eu", 3)
        node = EventNode(journal, rights_of)
        links = [
            Link(user, min(start, before), batched=batched)
            for start, (user, batched) in zip(
                starts, [("all", True), ("all", False), ("eu", True), ("eu", False)], strict=True
            )
        ]
        for link in links:
            node.open_source(link, link.filters)

        for act, *values in acts:
            _do(node, journal, links, act, values, publishes=publishes)
            for link in links:
                got = link.rows()
                assert got == visible(journal, link)[: len(got)]
        # Liveness: with credit for all, and turns while there is more, everything arrives.
        for link in links:
            grant(link, 10_000)
        while node.is_behind:
            node.go_on()
        for link in links:
            assert link.rows() == expected(journal.events, link.after, HOSTS if link.context.user == "all" else ("eu",))


def test_followers_without_credit_get_one_batch_of_all_that_happened_meanwhile() -> None:
    journal = Journal()
    node = EventNode(journal, rights_of)
    link = Link("all", 0, batched=True)
    node.open_source(link, link.filters)
    for _ in range(150):
        node.publish([journal.add("eu", 1)])
    assert link.messages == []
    grant(link, 1)
    assert len(link.messages) == 1
    assert len(link.rows()) == 150


def test_an_event_larger_than_a_batch_is_sent_alone() -> None:
    journal = Journal()
    node = EventNode(journal, rights_of)
    link = Link("all", 0, batched=True)
    node.open_source(link, link.filters)
    sizes = [1, event_node.BATCH_CHARACTERS * 2, 1, 1]
    node.publish([journal.add("eu", size) for size in sizes])
    grant(link, 10)
    assert [len(json.loads(_text(m))) for m in link.messages] == [1, 1, 2]
    assert [row[0] for row in link.rows()] == [1, 2, 3, 4]


def test_each_text_is_made_once_for_all_followers(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    encode = event_node.json_bodies.event_json
    monkeypatch.setattr(event_node.json_bodies, "event_json", lambda e: made.append(e.number) or encode(e))
    journal = Journal()
    node = EventNode(journal, rights_of)
    links = [Link("all", 0, batched=True) for _ in range(5)]
    for link in links:
        node.open_source(link, link.filters)
        link.credit = 100
    node.publish([journal.add("eu", 1), journal.add("default", 1)])
    assert made == [1, 2]
    assert all(len(link.rows()) == 2 for link in links)
    journal.add("eu", 1)
    node.publish(())
    assert made == [1, 2, 3]
    assert all(len(link.rows()) == 3 for link in links)


def test_followers_of_expired_events_get_the_reason_and_are_forgotten() -> None:
    journal = Journal()
    node = EventNode(journal, rights_of)
    link = Link("all", 0, batched=True)
    node.open_source(link, link.filters)
    for _ in range(event_node.TAIL + 5):
        node.publish([journal.add("eu", 1)])
    journal.first = journal.last
    grant(link, 1)
    assert (link.ended, link.messages) == ("headgate:events-expired", [])
    assert not node._batched
    assert not node._reached


@pytest.mark.parametrize("value", [2, "1", True, None, [1], Described(symbol(FILTER), 2)])
def test_another_format_gets_an_event_a_message(value: Any) -> None:
    journal = Journal()
    node = EventNode(journal, rights_of)
    link = Link("all", 0, batched=False)
    node.open_source(link, {symbol("headgate:after"): 0, symbol(FILTER): value})
    link.credit = 10
    node.publish([journal.add("eu", 1), journal.add("eu", 1)])
    assert [row[0] for row in link.rows()] == [1, 2]


def test_format_without_a_number_starts_now() -> None:
    journal = Journal()
    journal.add("eu", 1)
    node = EventNode(journal, rights_of)
    link = Link("all", 0, batched=True)
    node.open_source(link, {symbol(FILTER): Described(symbol(FILTER), FORMAT)})
    link.credit = 10
    node.publish([journal.add("eu", 1)])
    assert [row[0] for row in link.rows()] == [2]


def _text(data: bytes) -> str:
    message = Message()
    message.decode(data)
    return str(message.body)
