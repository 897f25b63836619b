"""Artemis's recorded answers (2.55.0 and 2.20.0), and the settings that are made of changes.

The expectations are written from the scene in which they were recorded: all addresses block at 50,000 bytes; a client
has sent messages to `orders`, 41 in 2.55 and 36 in 2.20, and waits; `eu.news` has the queues `ann` and `ben`. Then
`eu.news` was blocked, and in 2.55 the match `eu.#` limited to 30,000 bytes, and `bills` to 7 messages, above which it
pages.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from brokers.adapters import artemis_reading as reading
from brokers.adapters.artemis_reading import Look, Settings
from brokers.adapters.jolokia import answer_of
from brokers.admin import NotFound
from tests.adapters.fake import queue_name

ANSWERS = Path(__file__).parent / "answers"
VERSIONS = pytest.mark.parametrize("version", ["2.55", "2.20"])


def answer(version: str, name: str) -> Any:
    return json.loads((ANSWERS / f"artemis-{version}" / f"{name}.json").read_text())


def settings(version: str, match: str) -> Settings:
    said = {name: json.loads(each["value"]) for name, each in answer(version, "settings").items()}
    return Settings(said[match], said.get(reading.stranger_to(match), {}))


class Scene:
    """What a poll reads. `before`: how long before it the producers' counters were last looked at, ms."""

    def __init__(self, version: str, name: str, before: int = 1_000) -> None:
        broker, addresses, queues, producers, connections = answer(version, f"poll-{name}")
        self.broker = broker["value"]
        self.addresses = reading.addresses_of(answer_of(addresses).get())
        every = {address: settings(version, "orders") for address in self.addresses}
        queues_read = reading.queues_of(reading.listed(queues["value"]), self.addresses, every)
        said = json.loads(producers["value"])["data"]
        looks = reading.looks_at(said, reading.looks_at(said, {}, 10_000 - before), 10_000)
        self.connections = reading.connections_of(json.loads(connections["value"])["data"])
        ids = {str(values["remote_address"]): name["id"] for name, values in self.connections.items()}
        flow = reading.flow_of(queues_read, reading.shortages_of(self.broker))
        self.producers = list(reading.producers_of(said, looks, flow, queues_read, ids).items())
        found = reading.count_producers(queues_read, dict(self.producers))
        self.queues = {name["name"]: values for name, values in found.items()}


@VERSIONS
def test_queues_have_the_depth_and_the_limit_of_their_address(version: str) -> None:
    scene = Scene(version, "overfull")
    assert sorted(scene.queues) == ["ann", "ben", "bills", "eu.mail", "orders"]
    orders = scene.queues["orders"]
    depths = {"2.55": (41, 59_399, True), "2.20": (36, 52_154, True)}
    assert (orders["depth_messages"], orders["depth_bytes"], orders["overfull"]) == depths[version]
    assert (orders["effective_capacity_bytes"], orders["effective_stop_bytes"]) == (50_000, 50_000)
    assert (orders["enqueued_messages"], orders["consumers"], orders["producers"]) == (orders["depth_messages"], 0, 1)
    assert scene.queues["bills"]["overfull"] is False
    assert scene.queues["ann"]["address"] == scene.queues["ben"]["address"] == "eu.news"


def test_producer_of_an_overfull_address_is_blocked_when_its_counter_stands_still() -> None:
    scene = Scene("2.55", "overfull")
    ((name, producer),) = scene.producers
    assert producer["blocked"] is True
    assert producer["reasons"] == ["queue-overfull:orders", reading.INFERRED]
    assert producer["queue"] == str(queue_name("orders"))
    assert producer["connection"] == str(*scene.connections)
    assert producer["messages"] == 41
    assert name["id"].endswith(":1")
    assert scene.queues["orders"]["blocked_producers"] == 1


def test_producer_that_was_just_looked_at_is_unknown() -> None:
    scene = Scene("2.55", "overfull", before=100)
    assert scene.producers[0][1]["blocked"] is None
    assert scene.queues["orders"]["blocked_producers"] is None


def test_producer_whose_messages_are_not_counted_is_unknown() -> None:
    scene = Scene("2.20", "overfull")
    ((name, producer),) = scene.producers
    assert producer["blocked"] is None
    assert producer["client"].startswith("anonymous@127.0.0.1:")
    assert producer["connection"] == str(*scene.connections)
    assert "None" not in name["id"]


@pytest.mark.parametrize(
    ("last", "sent", "now", "found"),
    [
        (None, 5, 1_000, Look(1_000, 5)),
        (Look(1_000, 5), 6, 1_100, Look(1_100, 6, True)),
        (Look(1_000, 5), 5, 1_100, Look(1_000, 5)),  # too soon to say
        (Look(1_000, 5, True), 5, 2_000, Look(2_000, 5, False)),
        (Look(1_000, 5, False), 0, 2_000, Look(2_000, 0, True)),
    ],
)
def test_progress_of_a_producer(last: Look | None, sent: int, now: int, found: Look) -> None:
    said = {"session": "s", "id": "1", "msgSent": sent}
    assert reading.looks_at([said], {"s:1": last} if last else {}, now) == {"s:1": found}


def test_block_by_the_management_is_read_where_the_version_has_it() -> None:
    blocked = {name: each["blocked_by_management"] for name, each in Scene("2.55", "blocked").queues.items()}
    assert blocked == {"ann": True, "ben": True, "bills": False, "eu.mail": False, "orders": False}
    assert Scene("2.20", "blocked").queues["ann"]["blocked_by_management"] is None


def test_own_settings_are_the_difference_from_what_another_name_gets() -> None:
    assert settings("2.55", "orders").own == {}
    assert settings("2.55", "eu.mail").own == {}
    assert settings("2.55", "eu.#").own == {"maxSizeBytes": 30_000}
    assert settings("2.55", "bills").own == {"addressFullMessagePolicy": "PAGE", "maxSizeMessages": 7}
    assert settings("2.55", "#").own_limits() == {
        "capacity_bytes": 50_000,
        "capacity_messages": None,
        "mechanism": "block",
        "spool": "memory",
    }
    assert settings("2.20", "orders").own == {}


def test_address_that_pages_has_a_capacity_and_stops_no_producer() -> None:
    bills = settings("2.55", "bills")
    levels = bills.levels()
    assert (levels["effective_capacity_messages"], levels["effective_stop_messages"]) == (7, 0)
    assert bills.own_limits()["spool"] == "disk"
    assert reading.overfull({"AddressSize": 10**9, "MessageCount": 9}, bills) is False


@pytest.mark.parametrize(
    ("address", "limits", "overfull"),
    [
        ({"AddressSize": 9, "MessageCount": 0}, {"maxSizeBytes": 10}, False),
        ({"AddressSize": 10, "MessageCount": 0}, {"maxSizeBytes": 10}, True),
        ({"AddressSize": 99, "MessageCount": 0}, {"maxSizeBytes": -1}, False),
        ({"AddressSize": 0, "MessageCount": 7}, {"maxSizeMessages": 7}, True),
        ({"MessageCount": 7}, {"maxSizeBytes": 10}, None),
        ({"MessageCount": 7}, {"maxSizeBytes": 10, "maxSizeMessages": 7}, True),
        ({}, {}, False),
    ],
)
def test_address_is_overfull_at_its_limit(address: Any, limits: Any, overfull: bool | None) -> None:
    for policy in ("BLOCK", "FAIL"):
        assert reading.overfull(address, Settings({"addressFullMessagePolicy": policy, **limits}, {})) is overfull


@pytest.mark.parametrize(
    ("match", "stranger"),
    [("#", ""), ("eu.#", "#"), ("orders", reading.STRANGER), ("eu.mail.in", f"eu.mail.{reading.STRANGER}")],
)
def test_stranger_gets_what_a_match_inherits(match: str, stranger: str) -> None:
    assert reading.stranger_to(match) == stranger


def test_shown_matches_are_all_addresses_and_shared_first_words() -> None:
    assert reading.matches_of(["eu.mail", "eu.news", "us.mail", "orders", ".x", ".y"]) == ["#", "eu.#"]


INHERITED = {"addressFullMessagePolicy": "BLOCK", "maxSizeBytes": 50_000, "pageSizeBytes": 10_000}


@pytest.mark.parametrize(
    ("own", "attributes", "wanted"),
    [
        # A match is replaced as a whole: what it had otherwise is written again.
        ({"deadLetterAddress": "d"}, {"capacity_bytes": 90_000},
         {"deadLetterAddress": "d", "maxSizeBytes": 90_000, "pageSizeBytes": 10_000}),
        ({}, {"capacity_bytes": 5_000}, {"maxSizeBytes": 5_000, "pageSizeBytes": 5_000}),
        ({"maxSizeBytes": 5_000, "pageSizeBytes": 5_000}, {"capacity_bytes": None}, {}),
        ({"maxSizeBytes": 9_000, "pageSizeBytes": 5_000}, {"capacity_bytes": None}, {"pageSizeBytes": 5_000}),
        ({}, {"capacity_bytes": 0}, {"maxSizeBytes": -1}),
        ({}, {"capacity_messages": 9}, {"maxSizeMessages": 9}),
        ({"maxSizeMessages": 9}, {"capacity_messages": None}, {}),
        ({}, {"mechanism": "reject"}, {"addressFullMessagePolicy": "FAIL"}),
        ({"addressFullMessagePolicy": "FAIL"}, {"mechanism": None}, {}),
        ({}, {"spool": "disk"}, {"addressFullMessagePolicy": "PAGE"}),
        ({"addressFullMessagePolicy": "PAGE"}, {"spool": None}, {}),
        ({"addressFullMessagePolicy": "PAGE"}, {"spool": "memory"}, {"addressFullMessagePolicy": "BLOCK"}),
        ({"addressFullMessagePolicy": "FAIL"}, {"spool": "memory"}, {"addressFullMessagePolicy": "FAIL"}),
        ({"addressFullMessagePolicy": "PAGE"}, {"spool": None, "mechanism": "block"},
         {"addressFullMessagePolicy": "BLOCK"}),
    ],
)  # fmt: skip
def test_changed_limits_are_merged_with_what_the_match_sets(own: Any, attributes: Any, wanted: Any) -> None:
    assert reading.changed(Settings({**INHERITED, **own}, INHERITED), attributes) == wanted


@pytest.mark.parametrize(
    ("read", "shortages"),
    [
        ({"MaxDiskUsage": 90, "DiskStoreUsage": 0.91}, ["disk-overfull"]),
        ({"MaxDiskUsage": -1, "DiskStoreUsage": 0.99}, []),
        ({"GlobalMaxSize": 100, "AddressMemoryUsage": 100}, ["memory-overfull"]),
        ({"GlobalMaxSize": -1, "AddressMemoryUsage": 100}, []),
        ({}, []),
    ],
)
def test_shortages_of_the_broker(read: Any, shortages: list[str]) -> None:
    assert reading.shortages_of(read) == shortages


def test_shortages_hold_producers_of_addresses_that_are_not_overfull() -> None:
    queues = {
        queue_name("q"): {"address": "q", "overfull": False, "throttles": True},
        queue_name("pages"): {"address": "pages", "overfull": False, "throttles": False},
    }
    flow = reading.flow_of(queues, ["disk-overfull", "memory-overfull"])
    assert flow.everywhere == ["disk-overfull"]
    assert flow.reasons == {"q": ["memory-overfull"]}


def test_errors_of_artemis_are_read() -> None:
    refused, gone, no_match, unknown = (answer_of(each) for each in answer("2.55", "refused"))
    with pytest.raises(Exception, match="pageSize has to be lower than maxSizeBytes"):
        refused.get()
    assert gone.get() == {}
    with pytest.raises(NotFound):
        no_match.get()
    assert unknown.error is not None
