"""The fleet's pure parts against an oracle: sums and sorts over all rows of all brokers, after any changes."""

from __future__ import annotations

import random
from typing import Any, cast

import pytest

from brokers.admin import Event, ManagedObject
from brokers.model import ObjectName, object_name
from brokers.steady_clock import SteadyClock
from console.conditions.active import Condition
from console.conditions.detectors import Finding
from console.links.event_window import EventWindow
from console.links.link import BrokerLink
from console.links.queue_totals import SUMMED
from console.links.state import BrokerState
from console.links.visibility import as_visible
from console.live.fleet.brokers import COUNTS, broker_rows, fleet_totals, trouble_key
from console.live.fleet.members import Member, MemberFilter
from console.live.fleet.queues import queues_page
from console.live.fleet.stream import conditions_page, newest_events, stream
from console.live.overview import BadSort, queue_key, severity_key
from tests.console.test_queue_totals import EMPTY, STATES

KINDS, TAGS = ("headgate", "rabbitmq"), ("prod", "eu", "slow")


class Link(BrokerState):
    """A link without a connection."""

    def __init__(self, slug: str, title: str) -> None:
        super().__init__(slug, 500, SteadyClock(lambda: 1_000_000_000_000, lambda: 1_000_000_000_000))
        self.title = title
        self.pace = None
        self.restricted: dict[frozenset[str], BrokerLink] = {}


class World:
    """Brokers that come, go, hang and change at random."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.links: list[Link] = []
        self.members: list[Member] = []
        self.names: dict[str, list[ObjectName]] = {}
        self.number = 0

    def step(self) -> None:
        dice = self.dice
        if not self.links or (dice.random() < 0.1 and len(self.links) < 8):
            self.join()
        if dice.random() < 0.05 and len(self.links) > 1:
            gone = dice.randrange(len(self.links))
            del self.links[gone], self.members[gone]
        for link in dice.sample(self.links, dice.randrange(len(self.links) + 1)):
            act = dice.random()
            if act < 0.15:
                link.lost("it hangs")
            elif act < 0.4:
                link.connected_now(link.clock.now())
            self.change(link)

    def join(self) -> None:
        self.number += 1
        link = Link(f"b{self.number}", self.dice.choice(["Same title", f"Broker {self.number}"]))
        self.names[link.slug] = [
            object_name("Queue", virtualhost=self.dice.choice(["a", "b"]), name=f"{area}.{n}")
            for area in ("orders", "mail")
            for n in range(self.dice.choice([1, 20]))
        ]
        tags = tuple(self.dice.sample(TAGS, self.dice.randrange(3)))
        self.links.append(link)
        kind, paused = self.dice.choice(KINDS), self.dice.random() < 0.1
        self.members.append(Member(cast(BrokerLink, link), kind, tags, paused))

    def change(self, link: Link) -> None:
        for _ in range(self.dice.randrange(12)):
            name = self.dice.choice(self.names[link.slug])
            act = self.dice.random()
            if act < 0.4:
                link.table.put(ManagedObject(name, 1, {**EMPTY, **dict(name.keys), **self.values()}))
            elif act < 0.8:
                link.table.merge(name, self.values())
            else:
                link.table.drop(name)
            at = self.dice.randrange(100)
            link.window.add([Event((link.window.last or 0) + 1, at, "queue-overfull", name, "text", {})])
        found = self.dice.sample(self.names[link.slug], min(3, len(self.names[link.slug])))
        link.active_conditions.conditions = tuple(
            sorted(
                (
                    Condition(
                        Finding("flapping", str(name), self.dice.choice(["trouble", "warning"]), "saw", "advice"),
                        self.dice.randrange(100),
                    )
                    for name in found[: self.dice.randrange(4)]
                ),
                key=lambda c: c.finding.severity != "trouble",
            )
        )

    def values(self) -> dict[str, Any]:
        numbers = {name: self.dice.choice([None, 0, 3, self.dice.randrange(50)]) for name in SUMMED}
        since = {name: self.dice.choice([None, self.dice.randrange(5)]) for name in ("overfull_since", "stopped_since")}
        return {"state": self.dice.choice(STATES), **numbers, **since}

    def rows(self, members: list[Member]) -> list[tuple[Member, Any]]:
        return [(m, row) for m in members if m.link.as_of is not None for row in m.link.queues()]


def known_sum(values: list[Any]) -> Any:
    known = [value for value in values if value is not None]
    return sum(known) if known or not values else None


@pytest.mark.parametrize("seed", range(25))
def test_fleet_equals_sums_and_sorts_over_all_rows(seed: int) -> None:
    world = World(seed)
    for _ in range(40):
        world.step()
        chosen = MemberFilter(tags=frozenset(world.dice.sample(TAGS, world.dice.randrange(2)))).matching(world.members)
        check_brokers(world, chosen)
        check_queues(world, chosen)
        check_stream(world, chosen)


def check_brokers(world: World, members: list[Member]) -> None:
    rows = broker_rows(members)
    assert {row["slug"] for row in rows} == {member.slug for member in members}
    assert rows == sorted(rows, key=trouble_key)
    by_slug = {row["slug"]: row for row in rows}
    for member in members:
        row, queues = by_slug[member.slug], [row for m, row in world.rows([member]) if m is member]
        if member.link.as_of is None:
            assert all(row[name] is None for name in (*COUNTS, "conditions")), "unknown is not 0"
            continue
        assert row["queues"] == len(queues)
        assert row["overfull_queues"] == sum((q["state"] or "").startswith("OVERFULL") for q in queues)
        assert row["stopped_queues"] == sum((q["state"] or "").endswith("STOPPED") for q in queues)
        for name in SUMMED:
            assert row[name] == known_sum([q[name] for q in queues])
            assert (name in row["partial"]) == any(q[name] is None for q in queues)
        assert row["stale"] == (not member.link.connected)
    totals = fleet_totals(rows)
    assert totals["brokers"]["all"] == len(members) == sum(totals["brokers"].values()) - len(members)
    for name in (*COUNTS, "conditions"):
        assert totals[name] == known_sum([row[name] for row in rows])
        lacking = sum(row[name] is None or name in row["partial"] for row in rows)
        assert totals["partial"].get(name, 0) == lacking
    assert totals["stale"] == sum(row["stale"] for row in rows)


def check_queues(world: World, members: list[Member]) -> None:
    dice = world.dice
    sort = dice.choice(["", "-depth_messages", "name", "-name", "state,-producers"])
    states = dice.sample([state for state in STATES if state], dice.randrange(3))
    search = dice.choice(["", "ORD", "a/", ".1", "nothing"])
    key = queue_key(sort)
    wanted = [
        (m, row)
        for m, row in world.rows(members)
        if (not states or row["state"] in states) and search.casefold() in f"{row['virtualhost']}/{row['name']}"
    ]
    wanted.sort(key=lambda found: (key(found[1]), members.index(found[0])))
    size = dice.choice([1, 7, 500])
    page = dice.choice([1, 2, 1000])
    found = queues_page(members, search=search, states=states, sort=sort, page=page, size=size)
    last = max(1, -(-len(wanted) // size))
    assert (found["count"], found["page"]) == (len(wanted), min(page, last))
    first = (min(page, last) - 1) * size
    assert [(row["broker"], row["object"]) for row in found["results"]] == [
        (m.slug, row["object"]) for m, row in wanted[first : first + size]
    ]


def check_stream(world: World, members: list[Member]) -> None:
    known = [m for m in members if m.link.as_of is not None]
    conditions = [(c, m) for m in known for c in m.link.conditions()]
    page = conditions_page(members, newest=True, size=500)
    assert page["count"] == len(conditions)
    assert [c["since"] for c in page["results"]] == sorted((c.since for c, _ in conditions), reverse=True)
    severe = [c["severity"] for c in conditions_page(members, size=500)["results"]]
    assert severe == sorted(severe), "trouble before warning"
    count = world.dice.choice([1, 30])
    everything = sorted((e.at for m in members for e in m.link.window.after(0).events), reverse=True)
    recent = [e["at"] for e in newest_events(members, count)]
    assert recent == sorted(recent, reverse=True)
    assert len(recent) == min(count, len(everything))
    times = [each["at"] for each in stream(members, count)]
    assert times == sorted(times, reverse=True)
    assert len(times) == min(count, len(everything) + len(conditions))


def test_newest_events_are_those_with_the_newest_numbers_of_each_broker() -> None:
    link = Link("one", "One")
    name = object_name("Queue", virtualhost="a", name="orders")
    link.window.add([Event(n, 1000 + n, "queue-overfull", name, "text", {}) for n in range(1, 400)])
    found = newest_events([Member(cast(BrokerLink, link))], 3)
    assert [(event["number"], event["broker"]) for event in found] == [(399, "one"), (398, "one"), (397, "one")]


def test_queues_sorted_by_broker_have_each_brokers_most_severe_first() -> None:
    world = World(5)
    while len(world.links) < 3:
        world.join()
    for link in world.links:
        link.connected_now(0)
        for _ in range(5):
            world.change(link)
    for sort in ("broker", "-broker"):
        found = queues_page(world.members, sort=sort, size=500)["results"]
        by_title = sorted(world.members, key=lambda m: (m.title.casefold(), m.slug), reverse=sort[0] == "-")
        wanted = [(m.slug, row["object"]) for m in by_title for row in sorted(m.link.queues(), key=severity_key)]
        assert [(row["broker"], row["object"]) for row in found] == wanted


def test_restricted_members_have_only_what_their_virtual_hosts_have() -> None:
    world = World(3)
    world.join()
    link = world.links[0]
    link.connected_now(0)
    for _ in range(20):
        world.change(link)
    member = Member(as_visible(cast(BrokerLink, link), frozenset({"a"})))
    here = [row for row in link.queues() if row["virtualhost"] == "a"]
    assert 0 < len(here) < len(link.queues())
    [row] = broker_rows([member])
    assert row["queues"] == len(here)
    assert row["depth_messages"] == known_sum([row["depth_messages"] for row in here])
    found = queues_page([member], size=500)
    assert {row["object"] for row in found["results"]} == {row["object"] for row in here}
    assert all("virtualhost=a" in event["object"] for event in newest_events([member], 100))
    assert all("virtualhost=a" in c["object"] for c in conditions_page([member])["results"])


def test_restricted_members_have_their_newest_events_however_many_others_follow() -> None:
    link = Link("one", "One")
    link.window = EventWindow()
    mine, other = (object_name("Queue", virtualhost=host, name="orders") for host in ("a", "b"))
    events = [Event(n, 1000 + n, "queue-overfull", mine if n <= 3 else other, "text", {}) for n in range(1, 4501)]
    link.window.add(events)
    member = Member(as_visible(cast(BrokerLink, link), frozenset({"a"})))
    assert [event["number"] for event in newest_events([member], 2)] == [3, 2]
    assert [entry["number"] for entry in stream([member], 9)] == [3, 2, 1]


def test_unknown_sort_is_refused() -> None:
    with pytest.raises(BadSort, match="nothing"):
        queues_page([], sort="nothing")
