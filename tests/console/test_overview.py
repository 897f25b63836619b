"""Trouble first, filtered, sorted and cut."""

from __future__ import annotations

from typing import Any

import pytest

from brokers.admin import SAMPLED
from brokers.model import TYPES, Kind
from console.live.overview import BadSort, overview

_ZERO: dict[Kind, Any] = {Kind.STRING: "", Kind.INTEGER: 0, Kind.NUMBER: 0.0, Kind.LIST: []}


def row(name: str, **values: Any) -> dict[str, Any]:
    empty = {a.name: None if a.nullable else _ZERO.get(a.kind) for a in TYPES["Queue"].attributes}
    text = f"type=Queue,virtualhost=default,name={name}"
    return {**empty, "object": text, "virtualhost": "default", "name": name, "state": "NORMAL", **values}


def names(rows: list[dict[str, Any]], **asked: Any) -> list[str]:
    return [queue["name"] for queue in overview({"stops": []}, rows, **asked)["queues"]]


ROWS = [
    row("calm"),
    row("brimming", depth_messages=85, effective_stop_messages=100),
    row("stopped", state="STOPPED", stopped_since=5),
    row("newly-overfull", state="OVERFULL", overfull_since=20),
    row("long-overfull", state="OVERFULL", overfull_since=10),
    row("both", state="OVERFULL_STOPPED", overfull_since=30, stopped_since=31),
]


def test_no_sort_puts_trouble_first_and_the_longest_trouble_before_the_newest() -> None:
    assert names(ROWS) == ["both", "long-overfull", "newly-overfull", "stopped", "brimming", "calm"]


def test_states_keep_only_those_states_and_count_them() -> None:
    data = overview({"stops": []}, ROWS, states=["STOPPED", "OVERFULL_STOPPED"])
    assert [queue["name"] for queue in data["queues"]] == ["both", "stopped"]
    assert data["total"] == 2


def test_search_ignores_case() -> None:
    assert names(ROWS, search="OverFull") == ["long-overfull", "newly-overfull"]


def test_search_and_states_leave_the_totals_of_the_whole_broker() -> None:
    data = overview({"stops": []}, ROWS, search="calm")
    assert data["totals"]["queues"] == 6
    assert data["totals"]["overfull_queues"] == 3
    assert data["totals"]["stopped_queues"] == 2


@pytest.mark.parametrize(
    ("sort", "first"),
    [("-depth_messages", "brimming"), ("name", "both"), ("-name", "stopped"), ("-state,name", "stopped")],
)
def test_sort_by_attributes_goes_either_way(sort: str, first: str) -> None:
    assert names(ROWS, sort=sort)[0] == first


def test_sort_puts_what_has_no_value_last() -> None:
    assert names(ROWS, sort="overfull_since")[:3] == ["long-overfull", "newly-overfull", "both"]
    assert names(ROWS, sort="-overfull_since")[:3] == ["both", "newly-overfull", "long-overfull"]


def test_sort_by_something_else_is_refused_by_name() -> None:
    with pytest.raises(BadSort, match="colour"):
        overview(None, [], sort="-colour")


def test_pages_go_through_all_queues_in_order_and_count_them() -> None:
    rows = [row(f"q{n:03}") for n in range(25)]
    pages = [overview({"stops": []}, rows, page=number, size=10) for number in (1, 2, 3)]
    assert [[queue["name"] for queue in data["queues"]] for data in pages] == [
        [f"q{n:03}" for n in range(25)][first : first + 10] for first in (0, 10, 20)
    ]
    assert [(data["page"], data["total"]) for data in pages] == [(1, 25), (2, 25), (3, 25)]


def test_page_of_a_sort_by_attribute_goes_on_where_the_one_before_ended() -> None:
    rows = [row(f"q{n:03}", depth_messages=n) for n in range(25)]
    assert names(rows, sort="-depth_messages", page=2, size=10)[0] == "q014"


def test_page_behind_the_last_one_is_the_last_one() -> None:
    data = overview({"stops": []}, [row(f"q{n:03}") for n in range(25)], page=9, size=10)
    assert data["page"] == 3
    assert len(data["queues"]) == 5


def test_row_has_every_sampled_attribute() -> None:
    (shown,) = overview({"stops": []}, [row("a")])["queues"]
    assert set(shown) == {"object", "virtualhost", "name", "starting", *SAMPLED}
