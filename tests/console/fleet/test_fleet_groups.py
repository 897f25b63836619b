"""Groups of the queues of all brokers against an oracle: all rows added up, sorted and cut, after any changes."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from threading import Lock
from typing import Any, cast

import pytest

from brokers.admin import ManagedObject
from brokers.model import object_name
from console.links.group_totals import TableGroups
from console.links.link import BrokerLink
from console.links.queue_filter import matching
from console.links.queue_groups import Grouping, prefix_of
from console.links.queue_totals import RATES, SUMMED, GroupTotals
from console.links.visibility import as_visible
from console.live.fleet.groups import grouped_queues_page, groups_page
from console.live.fleet.members import Member
from console.live.fleet.queues import queues_page
from console.live.fleet.watching import FleetWatch, fleet_data
from console.live.overview import BadSort, queue_key
from console.live.watching import BadWatch
from console.permissions.rights import Grant, Role
from tests.console.access.conftest import HOST_OPTIONS, person
from tests.console.conftest import signed_in, until
from tests.console.fleet.conftest import FleetBroker, overfull
from tests.console.fleet.test_fleet import Link, World, known_sum
from tests.console.test_queue_totals import EMPTY, Changes

SORTS = (
    "",
    "broker",
    "-broker",
    "name",
    "-name",
    "virtualhost",
    "-depth_messages",
    "producers",
    "-rate_in",
    "rate_out",
    "-state",
)
FILTERS: list[dict[str, Any]] = [
    *({}, {}, {}),
    *({"search": "ORD"}, {"search": "b/"}, {"states": ("OVERFULL", "STOPPED")}, {"only": ("blocked",)}),
]


class RatedWorld(World):
    def values(self) -> dict[str, Any]:
        rates = {name: self.dice.choice([None, 0.0, 0.1, self.dice.random() * 1000]) for name in RATES}
        return {**super().values(), **rates}


def group_name(by: str, row: Mapping[str, Any]) -> str:
    return str(row["virtualhost"]) if by == "virtualhost" else prefix_of(row["name"])


def totals_of(rows: list[Any]) -> dict[str, Any]:
    """Sums of all rows, from nothing."""
    states = [row["state"] or "" for row in rows]
    sums = {name: known_sum([row.get(name) for row in rows]) for name in SUMMED}
    for name in RATES:
        whole = known_sum([None if (rate := row.get(name)) is None else round(rate * 1000) for row in rows])
        sums[name] = None if whole is None else whole / 1000
    partial = [name for name in (*SUMMED, *RATES) if any(row.get(name) is None for row in rows)]
    return {
        "queues": len(rows),
        "overfull_queues": sum(state.startswith("OVERFULL") for state in states),
        "stopped_queues": sum(state.endswith("STOPPED") for state in states),
        **sums,
        "partial": [*(["overfull_queues", "stopped_queues"] if "" in states else []), *partial],
    }


class Oracle:
    """All matching queues of all members, sorted, grouped and cut into lines."""

    def __init__(self, members: list[Member], by: str, sort: str, **filters: Any) -> None:
        if sort in ("broker", "-broker"):
            members = sorted(members, key=lambda m: (m.title.casefold(), m.slug), reverse=sort[0] == "-")
        key = queue_key("" if sort in ("broker", "-broker") else sort)
        found = [
            (number, row)
            for number, member in enumerate(members)
            if member.link.as_of is not None
            for row in matching(member.link.queues(), **filters)
        ]
        if sort in ("broker", "-broker"):
            found.sort(key=lambda each: (each[0], key(each[1])))
        else:
            found.sort(key=lambda each: (key(each[1]), each[0]))
        self.groups: dict[str, list[tuple[Member, Any]]] = {}
        for number, row in found:
            self.groups.setdefault(group_name(by, row), []).append((members[number], row))
        self.names = list(self.groups)
        attribute = sort.removeprefix("-")
        if attribute in ("name", by):
            self.names.sort(key=lambda name: (name.casefold(), name), reverse=sort.startswith("-"))
            self.names.sort(key=lambda name: name == "")
        elif attribute in (*SUMMED, *RATES):
            sign = -1 if sort.startswith("-") else 1
            self.names.sort(key=lambda n: (self.json(n)[attribute] is None, sign * (self.json(n)[attribute] or 0), n))

    def json(self, name: str) -> dict[str, Any]:
        members = {member.slug for member, _ in self.groups[name]}
        return {"name": name, **totals_of([row for _, row in self.groups[name]]), "brokers": len(members)}

    def page(self, grouping: Grouping, page: int, size: int) -> tuple[Any, ...]:
        lines: list[tuple[str, str, str]] = []
        for name in self.names:
            lines.append((name, "", ""))
            if grouping.is_open(name):
                lines += [(name, member.slug, row["object"]) for member, row in self.groups[name]]
        page = min(page, max(1, -(-len(lines) // size)))
        part = lines[(page - 1) * size : page * size]
        shown = list(dict.fromkeys(name for name, _, _ in part))
        groups = [{**self.json(name), "open": grouping.is_open(name)} for name in shown]
        return page, len(lines), groups, [line for line in part if line[2]]


@pytest.mark.parametrize("seed", range(16))
def test_groups_equal_sums_sorts_and_cuts_of_all_rows_after_any_changes(seed: int) -> None:
    world = RatedWorld(seed)
    dice = random.Random(seed + 1000)
    for _ in range(30):
        world.step()
        by = dice.choice(["prefix", "virtualhost"])
        filters = dice.choice(FILTERS)
        sort, size, wanted = dice.choice(SORTS), dice.choice([1, 3, 50]), dice.choice([1, 2, 7])
        toggled = frozenset(dice.sample(["orders", "mail", "a", "b", "gone"], dice.randrange(4)))
        grouping = Grouping(by, dice.random() < 0.5, toggled)
        members = world.members
        if dice.random() < 0.3:  # as a user who sees one virtual host
            members = [Member(as_visible(m.link, frozenset({"a"})), m.kind, m.tags, m.paused) for m in members]
        oracle = Oracle(members, by, sort, **filters)
        found = grouped_queues_page(members, grouping, sort=sort, page=wanted, size=size, **filters)
        page, lines, groups, queues = oracle.page(grouping, wanted, size)
        assert (found["page"], found["lines"], found["groups_total"]) == (page, lines, len(oracle.names))
        assert found["groups"] == groups
        assert [(q["of_group"], q["broker"], q["object"]) for q in found["results"]] == queues
        assert found["count"] == queues_page(members, sort=sort, **filters)["count"]
        listed = groups_page(members, by, sort=sort, page=wanted, size=size, **filters)
        expected = [oracle.json(name) for name in oracle.names[(wanted - 1) * size : wanted * size]]
        assert (listed["count"], listed["results"]) == (len(oracle.names), expected)


def groups_of(groups: TableGroups, by: str, hosts: Any = None) -> dict[str, Any]:
    found: dict[str, GroupTotals] = {}
    names = groups.add_to(found, by, hosts)
    assert set(names) == set(found)
    return {name: {**totals.values, "partial": totals.partial} for name, totals in found.items()}


@pytest.mark.parametrize("seed", range(8))
def test_totals_of_groups_stay_exact_after_any_changes(seed: int) -> None:
    class Rated(Changes):
        def values(self) -> dict[str, Any]:
            return {**super().values(), **{name: self.dice.choice([None, 0.1, 0.2, 1e9 / 3]) for name in RATES}}

    changes = Rated(seed, queues=40)
    changes.names = [
        object_name("Queue", virtualhost=n["virtualhost"], name=f"p{i % 5}.{i}") for i, n in enumerate(changes.names)
    ]
    groups = TableGroups(changes.table, lambda: 0, Lock())
    for _ in range(60):
        changes.make(changes.dice.choice([0, 1, 3, 40]))
        rows = changes.table.rows()
        for by in ("prefix", "virtualhost"):
            for hosts in (None, {"a"}, {"a", "c", "gone"}, set()):
                seen = [row for row in rows if hosts is None or row["virtualhost"] in hosts]
                names = {group_name(by, row) for row in seen}
                expected = {name: totals_of([row for row in seen if group_name(by, row) == name]) for name in names}
                assert groups_of(groups, by, hosts) == expected


def test_groups_that_are_not_used_cost_nothing_and_are_right_when_used_again() -> None:
    now = [0]
    changes = Changes(5, queues=20)
    groups = TableGroups(changes.table, lambda: now[0], Lock(), unused=30_000)
    changes.make(30)
    groups.end_unused()
    assert not changes.table._recorded  # never used
    groups_of(groups, "prefix")
    now[0] = 30_000
    groups.end_unused()
    assert len(changes.table._recorded) == 1
    now[0] = 30_001
    groups.end_unused()
    assert not changes.table._recorded
    changes.make(30)
    found = groups_of(groups, "virtualhost")
    assert {name: group["queues"] for name, group in found.items()} == {
        host: sum(row["virtualhost"] == host for row in changes.table.rows())
        for host in {row["virtualhost"] for row in changes.table.rows()}
    }


def test_without_a_filter_only_changed_queues_are_added_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """The promise of the page with 200,000 queues: neither a snapshot of closed groups nor one of their order adds up
    or sorts all rows."""
    link = Link("b", "B")
    link.connected_now(link.clock.now())
    names = [object_name("Queue", virtualhost="a", name=f"p{n % 7}.{n}") for n in range(500)]
    for name in names:
        link.table.put(ManagedObject(name, 1, {**EMPTY, **dict(name.keys), "state": "NORMAL", "rate_in": 1.0}))
    members = [Member(cast(BrokerLink, link))]
    counted = {"added": 0, "replaced": 0}

    def counting(what: str, method: Callable[..., None]) -> Callable[..., None]:
        def count(self: GroupTotals, *rows: Any) -> None:
            counted[what] += isinstance(self, GroupTotals)
            method(self, *rows)

        return count

    grouping = Grouping("prefix", toggled=frozenset({"p3"}))
    grouped_queues_page(members, grouping)
    monkeypatch.setattr(GroupTotals, "_count", counting("added", GroupTotals._count))
    monkeypatch.setattr(GroupTotals, "replace", counting("replaced", GroupTotals.replace))
    for sort in ("", "-rate_in", "name"):
        link.table.merge(names[3], {"rate_in": 5.0 + len(sort)})
        grouped_queues_page(members, grouping, sort=sort)
    assert counted == {"added": 0, "replaced": 3}


def test_unknown_sort_and_grouping_are_refused_by_name() -> None:
    with pytest.raises(BadSort):
        grouped_queues_page([], Grouping("prefix"), sort="colour")
    for given, named in (({"group": "broker"}, "broker"), ({"group": "prefix", "toggled": "x"}, "toggled")):
        with pytest.raises(BadWatch, match=named):
            FleetWatch.parse({"watch": "fleet", **given})


@pytest.mark.django_db
def test_page_and_api_group_the_queues_of_all_brokers(fleet: dict[str, FleetBroker]) -> None:
    client = signed_in(person("vera", Grant(Role.VIEWER)))
    overfull(fleet["us"], "orders.us")
    members = [Member(broker.link) for broker in fleet.values()]
    data = fleet_data(members, FleetWatch.parse({"watch": "fleet", "group": "prefix", "toggled": ["mail"]}))
    assert [(group["name"], group["queues"], group["brokers"]) for group in data["groups"]] == [
        ("orders", 2, 2),
        ("mail", 2, 2),
    ]
    assert [(queue["broker"], queue["name"]) for queue in data["queues"]] == [("eu", "mail.eu"), ("us", "mail.us")]
    assert (data["lines"], data["groups_total"], data["total"]) == (4, 2, 4)
    assert "groups" not in fleet_data(members, FleetWatch.parse({"watch": "fleet"}))

    def get(**parameters: Any) -> Any:
        return client.get("/api/v1/fleet/queues/groups/", parameters)

    answer = get(by="prefix").json()
    assert [(g["name"], g["overfull_queues"], g["depth_messages"], g["brokers"]) for g in answer["results"]] == [
        ("orders", 1, 11, 2),
        ("mail", 0, 0, 2),
    ]
    assert (answer["count"], answer["stale"]) == (2, True)  # of one broker nothing is known
    assert set(RATES) <= answer["results"][0].keys()
    (found,) = get(by="virtualhost", broker="us", search="ORDERS").json()["results"]
    assert (found["name"], found["queues"], found["brokers"]) == ("default", 1, 1)
    for parameters, field in (({}, "by"), ({"by": "broker"}, "by"), ({"by": "prefix", "sort": "colour"}, "sort")):
        refused = get(**parameters)
        assert (refused.status_code, list(refused.json())) == (400, [field])
    assert get(by="prefix", broker="nowhere").status_code == 404


@pytest.mark.django_db
def test_user_of_one_virtual_host_gets_its_groups_alone(fleet: dict[str, FleetBroker]) -> None:
    blue = object_name("VirtualHost", name="blue")
    fleet["eu"].link.call(lambda admin: admin.create(blue, HOST_OPTIONS))
    for name in ("secret.a", "orders.b"):
        fleet["eu"].do(lambda memory, name=name: memory.attach_producer(name, "blue"))  # type: ignore[misc]
    until(lambda: fleet["eu"].link.queue_count == 4)
    client = signed_in(person("hal", Grant(Role.VIEWER, "eu", "default")))
    text = client.get("/api/v1/fleet/queues/groups/", {"by": "prefix"}).content.decode()
    assert "secret" not in text
    groups = {g["name"]: g["queues"] for g in client.get("/api/v1/fleet/queues/groups/?by=prefix").json()["results"]}
    assert groups == {"orders": 1, "mail": 1}
    (only,) = client.get("/api/v1/fleet/queues/groups/?by=virtualhost").json()["results"]
    assert (only["name"], only["queues"]) == ("default", 2)
