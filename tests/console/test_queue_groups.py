"""Groups of queues: names of groups, totals over all queues that match, order, pages, and the API."""

from __future__ import annotations

from typing import Any

import pytest
from rest_framework.test import APIClient

from brokers.model import object_name
from console.links.queue_groups import Grouping, prefix_of
from console.live.overview import overview
from console.live.watching import BadWatch, Watch
from tests.console.conftest import Broker
from tests.console.test_overview import row


@pytest.mark.parametrize(
    ("name", "prefix"),
    [
        ("shop.orders.eu", "shop"),
        ("shop-orders", "shop"),
        ("shop/orders", "shop"),
        ("shop_orders.eu", "shop"),
        ("/shop/orders", "/shop"),
        ("__shop.orders", "__shop"),
        ("orders", ""),
        ("", ""),
        ("...", ""),
        ("orders.", "orders"),
        ("Käse.1", "Käse"),
        ("a\nb.c", "a\nb"),
    ],
)
def test_prefix_is_what_precedes_the_first_separator(name: str, prefix: str) -> None:
    assert prefix_of(name) == prefix


def shown(rows: list[dict[str, Any]], grouping: Grouping, **options: Any) -> list[str]:
    """Return the lines of a page: names of groups in brackets, and names of queues."""
    data = overview({"stops": []}, rows, grouping=grouping, **options)
    lines = []
    for group in data["groups"]:
        lines.append(f"[{group['name']}]")
        lines += [queue["name"] for queue in data["queues"] if queue["of_group"] == group["name"]]
    assert sum(not line.startswith("[") for line in lines) == len(data["queues"])
    return lines


OPEN = Grouping("prefix", collapsed=False)
CLOSED = Grouping("prefix")
ROWS = [
    row("shop.a", depth_messages=5, producers=2, blocked_producers=1, state="OVERFULL", overfull_since=9),
    row("shop.b", depth_messages=6, producers=1, state="STOPPED", stopped_since=5),
    row("mail.a", depth_messages=8, producers=4, rate_in=3.75),
    row("mail.b", depth_messages=1, state="OVERFULL_STOPPED", overfull_since=1, stopped_since=1),
    row("alone", depth_messages=100),
]


def test_groups_come_in_the_order_of_their_most_severe_queue() -> None:
    assert shown(ROWS, CLOSED) == ["[mail]", "[shop]", "[]"]
    assert shown(ROWS, OPEN) == ["[mail]", "mail.b", "mail.a", "[shop]", "shop.a", "shop.b", "[]", "alone"]


def test_groups_are_sorted_by_totals_and_names_and_their_queues_by_values() -> None:
    assert shown(ROWS, OPEN, sort="-depth_messages") == [
        "[]", "alone", "[shop]", "shop.b", "shop.a", "[mail]", "mail.a", "mail.b",
    ]  # fmt: skip
    assert shown(ROWS, CLOSED, sort="depth_messages") == ["[mail]", "[shop]", "[]"]
    assert shown(ROWS, CLOSED, sort="name") == ["[mail]", "[shop]", "[]"]
    assert shown(ROWS, CLOSED, sort="-name") == ["[shop]", "[mail]", "[]"]
    assert shown(ROWS, CLOSED, sort="-overfull_since") == ["[shop]", "[mail]", "[]"]


def test_one_group_is_toggled() -> None:
    assert shown(ROWS, Grouping("prefix", toggled=frozenset({"shop"}))) == [
        "[mail]",
        "[shop]",
        "shop.a",
        "shop.b",
        "[]",
    ]
    other = Grouping("prefix", collapsed=False, toggled=frozenset({"shop", "gone"}))
    assert shown(ROWS, other) == ["[mail]", "mail.b", "mail.a", "[shop]", "[]", "alone"]


def test_totals_are_over_all_matching_queues_whatever_the_page_shows() -> None:
    data = overview({"stops": []}, ROWS, grouping=OPEN, size=2)
    assert (data["lines"], data["groups_total"], data["total"]) == (8, 3, 5)
    (mail,) = data["groups"]
    assert mail == {
        "name": "mail",
        "open": True,
        "queues": 2,
        "overfull_queues": 1,
        "stopped_queues": 1,
        "producers": 4,
        "blocked_producers": 0,
        "consumers": 0,
        "depth_messages": 9,
        "depth_bytes": 0,
        "rate_in": 3.75,
        "rate_out": 0.0,
        "partial": [],
    }
    (stopped,) = overview({"stops": []}, ROWS, grouping=CLOSED, states=["STOPPED"])["groups"]
    assert (stopped["name"], stopped["queues"], stopped["depth_messages"]) == ("shop", 1, 6)


def test_unknown_values_are_not_zero() -> None:
    rows = [row("a.1", depth_messages=None, state=None), row("a.2", depth_messages=None)]
    (group,) = overview({"stops": []}, rows, grouping=CLOSED)["groups"]
    assert group["depth_messages"] is None
    assert {"depth_messages", "overfull_queues"} <= set(group["partial"])
    rows.append(row("b.1", depth_messages=3))
    assert shown(rows, CLOSED, sort="depth_messages") == ["[b]", "[a]"]
    assert shown(rows, CLOSED, sort="-depth_messages") == ["[b]", "[a]"]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 50])
@pytest.mark.parametrize("sort", ["", "-depth_messages", "name", "rate_in"])
@pytest.mark.parametrize("grouping", [OPEN, CLOSED, Grouping("prefix", toggled=frozenset({"p1", "p3"}))])
def test_pages_have_every_line_once_and_repeat_a_group_that_goes_on(grouping: Grouping, sort: str, size: int) -> None:
    rows = [row(f"p{n % 5}.{n:02}", depth_messages=n * 7 % 11, rate_in=float(n % 3)) for n in range(23)]
    whole = shown(rows, grouping, sort=sort, size=500)
    assert len({line for line in whole if line.startswith("[")}) == 5
    for page in range(1, len(whole) // size + 2):
        wanted = whole[(page - 1) * size : page * size]
        if not wanted:
            continue
        if not wanted[0].startswith("["):  # amid a group
            wanted = [next(line for line in reversed(whole[: (page - 1) * size]) if line.startswith("[")), *wanted]
        assert shown(rows, grouping, sort=sort, size=size, page=page) == wanted
    last = -(-len(whole) // size)
    assert overview({"stops": []}, rows, grouping=grouping, sort=sort, size=size, page=last + 5)["page"] == last


def test_no_queue_matches() -> None:
    data = overview({"stops": []}, ROWS, grouping=CLOSED, search="nothing")
    assert (data["groups"], data["lines"], data["groups_total"], data["page"], data["queues"]) == ([], 0, 0, 1, [])


def test_virtual_hosts_are_groups_whatever_the_names() -> None:
    rows = [row("same"), {**row("same"), "virtualhost": "blue", "object": "type=Queue,virtualhost=blue,name=same"}]
    assert shown(rows, Grouping("virtualhost"), sort="-virtualhost") == ["[default]", "[blue]"]


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"group": "colour"}, "colour"),
        ({"group": 5}, "5"),
        ({"group": ["prefix"]}, "prefix"),
        ({"group": "prefix", "collapsed": "yes"}, "yes"),
        ({"group": "prefix", "toggled": "shop"}, "toggled"),
        ({"group": "prefix", "toggled": [1]}, "toggled"),
    ],
)
def test_invalid_groups_are_refused_by_name(given: dict[str, Any], named: str) -> None:
    with pytest.raises(BadWatch, match=named):
        Watch.parse({"watch": "overview", **given})


def test_pages_with_the_same_groups_share_a_snapshot() -> None:
    message = {"watch": "overview", "group": "prefix", "toggled": ["a", "b"]}
    assert Watch.parse(message) == Watch.parse({**message, "toggled": ["b", "a", "b"]})
    assert Watch.parse(message) != Watch.parse({**message, "collapsed": False})


@pytest.mark.django_db
def test_api_lists_groups_with_totals_over_matching_queues(broker: Broker, as_viewer: APIClient) -> None:
    for name in ("shop.a", "shop.b", "mail"):
        broker.memory.management.create(object_name("Queue", virtualhost="default", name=name), {})
    broker.memory.attach_producer("shop.a")
    broker.connected()
    path = "/api/v1/queues/groups/"
    answer = as_viewer.get(path, {"by": "prefix", "sort": "name"}).json()
    assert [(group["name"], group["queues"], group["producers"]) for group in answer["results"]] == [
        ("shop", 2, 1),
        ("", 1, 0),
    ]
    assert (answer["count"], answer["stale"]) == (2, False)
    second = as_viewer.get(path, {"by": "prefix", "sort": "name", "page": 2, "page_size": 1}).json()
    assert [group["name"] for group in second["results"]] == [""]
    (found,) = as_viewer.get(path, {"by": "virtualhost", "search": "SHOP.A"}).json()["results"]
    assert (found["name"], found["queues"]) == ("default", 1)
    for parameters, field in (({}, "by"), ({"by": "colour"}, "by"), ({"by": "prefix", "sort": "colour"}, "sort")):
        refused = as_viewer.get(path, parameters)
        assert (refused.status_code, list(refused.json())) == (400, [field])
