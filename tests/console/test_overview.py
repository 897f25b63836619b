"""The overview's list of queues: order by severity, filters, sorting and pages."""

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


def names(rows: list[dict[str, Any]], **options: Any) -> list[str]:
    return [queue["name"] for queue in overview({"stops": []}, rows, **options)["queues"]]


ROWS = [
    row("calm"),
    row("brimming", depth_messages=85, effective_stop_messages=100),
    row("stopped", state="STOPPED", stopped_since=5),
    row("newly-overfull", state="OVERFULL", overfull_since=20),
    row("long-overfull", state="OVERFULL", overfull_since=10),
    row("both", state="OVERFULL_STOPPED", overfull_since=30, stopped_since=31),
]


def test_default_order_is_by_severity_and_then_by_duration() -> None:
    assert names(ROWS) == ["both", "long-overfull", "newly-overfull", "stopped", "brimming", "calm"]


def test_queues_of_unknown_state_come_after_nearly_full_ones_and_before_normal_ones() -> None:
    unknown = [row("unknown", state=None), row("another-unknown", state="SLEEPY")]
    assert names([*unknown, *ROWS]) == [
        "both",
        "long-overfull",
        "newly-overfull",
        "stopped",
        "brimming",
        "another-unknown",
        "unknown",
        "calm",
    ]


@pytest.mark.parametrize("state", [None, "NORMAL", "OVERFULL", "STOPPED"])
def test_queues_that_lack_attributes_are_listed(state: str | None) -> None:
    bare = {"object": "type=Queue,virtualhost=default,name=bare", "virtualhost": "default", "name": "bare"}
    known = bare if state is None else {**bare, "state": state}
    assert "bare" in names([known, *ROWS])
    assert names([known, *ROWS], states=["OVERFULL_STOPPED"]) == ["both"]


def test_quick_filters_select_the_queues_that_match_all_of_them() -> None:
    rows = [
        row("fine", producers=1, consumers=1, effective_stop_messages=100, depth_messages=79),
        row("blocked", blocked_producers=2, consumers=1, effective_stop_messages=100, depth_messages=80),
        row("alone", blocked_producers=1, consumers=0, effective_stop_bytes=10, depth_bytes=9),
        row("unlimited", consumers=0, depth_messages=1000),
        row("unknown", blocked_producers=None, consumers=None, depth_messages=None, depth_bytes=None),
    ]
    assert names(rows, only=["blocked"]) == ["alone", "blocked"]
    assert names(rows, only=["nearly-full"]) == ["alone", "blocked"]
    assert names(rows, only=["no-consumers"]) == ["alone", "unlimited"]
    assert names(rows, only=["blocked", "no-consumers"]) == ["alone"]
    assert names(rows, only=["no-consumers"], search="UNLIM") == ["unlimited"]
    data = overview({"stops": []}, rows, only=["blocked"], size=1)
    assert (data["total"], data["only"]) == (2, ("blocked",))


def test_filter_by_states_counts_the_matching_queues() -> None:
    data = overview({"stops": []}, ROWS, states=["STOPPED", "OVERFULL_STOPPED"])
    assert [queue["name"] for queue in data["queues"]] == ["both", "stopped"]
    assert data["total"] == 2


def test_totals_name_the_sums_that_lack_unknown_values() -> None:
    lost = row("lost", state=None, blocked_producers=None, depth_messages=7)
    totals = overview({"stops": []}, [*ROWS, lost])["totals"]
    assert totals["overfull_queues"] == 3
    assert set(totals["partial"]) == {"overfull_queues", "stopped_queues", "blocked_producers"}
    assert overview({"stops": []}, ROWS)["totals"]["partial"] == []


def test_search_ignores_case() -> None:
    assert names(ROWS, search="OverFull") == ["long-overfull", "newly-overfull"]


def test_totals_do_not_depend_on_filters() -> None:
    data = overview({"stops": []}, ROWS, search="calm")
    assert data["totals"]["queues"] == 6
    assert data["totals"]["overfull_queues"] == 3
    assert data["totals"]["stopped_queues"] == 2


@pytest.mark.parametrize(
    ("sort", "first"),
    [("-depth_messages", "brimming"), ("name", "both"), ("-name", "stopped"), ("-state,name", "stopped")],
)
def test_sort_by_attributes_ascending_and_descending(sort: str, first: str) -> None:
    assert names(ROWS, sort=sort)[0] == first


def test_sort_puts_missing_values_last() -> None:
    assert names(ROWS, sort="overfull_since")[:3] == ["long-overfull", "newly-overfull", "both"]
    assert names(ROWS, sort="-overfull_since")[:3] == ["both", "newly-overfull", "long-overfull"]


def test_sort_by_a_level_orders_numbers_and_percentages() -> None:
    levels = {"a": 400, "b": "80%", "c": None, "d": 90, "e": "100%"}
    rows = [row(name, flow_stop_messages=level) for name, level in levels.items()]
    assert names(rows, sort="flow_stop_messages") == ["d", "a", "e", "b", "c"]
    assert names(rows, sort="-flow_stop_messages") == ["b", "e", "a", "d", "c"]


def test_sort_by_an_unknown_attribute_is_refused() -> None:
    with pytest.raises(BadSort, match="colour"):
        overview(None, [], sort="-colour")


def test_pages_contain_all_queues_in_order() -> None:
    rows = [row(f"q{n:03}") for n in range(25)]
    pages = [overview({"stops": []}, rows, page=number, size=10) for number in (1, 2, 3)]
    assert [[queue["name"] for queue in data["queues"]] for data in pages] == [
        [f"q{n:03}" for n in range(25)][first : first + 10] for first in (0, 10, 20)
    ]
    assert [(data["page"], data["total"]) for data in pages] == [(1, 25), (2, 25), (3, 25)]


def test_page_of_sorted_queues_continues_the_previous_one() -> None:
    rows = [row(f"q{n:03}", depth_messages=n) for n in range(25)]
    assert names(rows, sort="-depth_messages", page=2, size=10)[0] == "q014"


def test_page_beyond_the_last_is_the_last() -> None:
    data = overview({"stops": []}, [row(f"q{n:03}") for n in range(25)], page=9, size=10)
    assert data["page"] == 3
    assert len(data["queues"]) == 5


def test_row_has_every_sampled_attribute() -> None:
    (shown,) = overview({"stops": []}, [row("a")])["queues"]
    assert set(shown) == {"object", "virtualhost", "name", "starting", *SAMPLED}
