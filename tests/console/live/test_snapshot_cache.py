"""The cache of snapshots: what it costs, how old its texts get, and what all pages with the same watch share."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass
from typing import Any

import pytest

from console.links.link import BrokerLink
from console.live import consumer, snapshot_cache
from console.live.overview import View
from console.live.snapshot_cache import SnapshotCache
from tests.console.live.test_link_pages import World, until

TEXT, VIEW = 0.004, 0.008  # processor time of one, s


class Clock:
    """`computed`: by `thread_time`, which elapses, too."""

    def __init__(self) -> None:
        self.at, self.computed, self.views = 1000.0, 0.0, 0

    def monotonic(self) -> float:
        return self.at

    def thread_time(self) -> float:
        return self.computed

    def compute(self, seconds: float) -> None:
        self.computed += seconds
        self.at += seconds


@dataclass(frozen=True)
class Query:
    clock: Clock
    name: int

    def data(self, view: Any) -> dict[str, Any]:
        self.clock.compute(TEXT)
        return {"name": self.name, "made": self.clock.at}


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()

    def view(link: BrokerLink) -> View:
        made.views += 1
        made.compute(VIEW)
        return View(None, [])

    monkeypatch.setattr(snapshot_cache, "time", made)
    monkeypatch.setattr(View, "of", view)
    return made


def changing_link() -> BrokerLink:
    async def never() -> Any:
        raise AssertionError

    return BrokerLink("local", "Local", never, asyncio.get_running_loop())


async def test_text_is_the_same_until_the_given_time_and_then_new(clock: Clock) -> None:
    cache, link, query = SnapshotCache(), changing_link(), Query(clock, 1)
    assert cache.same_until(query) < clock.at
    first, _ = await cache.text(link, query)
    link._revision += 1
    until = cache.same_until(query)
    assert until == pytest.approx(clock.at + 9 * (TEXT + VIEW))
    clock.at = until - 0.001
    assert (await cache.text(link, query))[0] == first
    clock.at = until + 0.001
    assert (await cache.text(link, query))[0] != first


async def test_without_a_change_nothing_is_computed(clock: Clock) -> None:
    cache, link = SnapshotCache(), changing_link()
    first = await cache.text(link, Query(clock, 1))
    clock.at += 1000
    used = clock.computed
    assert await cache.text(link, Query(clock, 1)) == first
    assert clock.computed == used


@pytest.mark.parametrize("queries", [1, 5, 50])
async def test_constant_change_costs_about_a_tenth_and_each_text_is_renewed(clock: Clock, queries: int) -> None:
    cache, link = SnapshotCache(), changing_link()
    watched = [Query(clock, number) for number in range(queries)]
    last, longest = {}, 0.0
    for query in watched:
        last[query] = (await cache.text(link, query))[0], clock.at
    began, used, views = clock.at, clock.computed, clock.views
    while clock.at - began < 60:
        link._revision += 1
        for query in watched:
            text, _ = await cache.text(link, query)
            if text != last[query][0]:
                longest = max(longest, clock.at - last[query][1])
                last[query] = text, clock.at
        clock.at += 0.005
    share = (clock.computed - used) / (clock.at - began)
    rounds = (clock.at - began) / (9 * (VIEW + queries * TEXT))
    assert 0.07 <= share <= 0.15
    assert clock.views - views <= 5 * rounds
    assert longest <= 1.5 * 9 * (VIEW + queries * TEXT) + 0.01
    assert all(clock.at - at <= longest for _, at in last.values())


async def test_queries_that_are_made_no_more_slow_down_no_others(clock: Clock) -> None:
    cache, link = SnapshotCache(), changing_link()
    for number in range(50):
        await cache.text(link, Query(clock, number))
    link._revision += 1
    clock.at += 10
    await cache.text(link, Query(clock, 0))
    assert cache.same_until(Query(clock, 0)) - clock.at <= 9 * (TEXT + VIEW) + 0.001


async def test_page_gets_the_newest_text_when_its_time_has_come_without_another_change(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(consumer, "visible_link", lambda rights, _slug: rights)
    monkeypatch.setattr(consumer, "SNAPSHOTS", 0.0)
    same_until = [0.0]
    monkeypatch.setattr(consumer, "same_until", lambda link, watch: same_until[0])
    world = World(capacity=10)
    page = world.open(None, 0)
    page.take({"watch": "overview"})
    page.wake_now()

    def shown() -> list[Any]:
        frames = map(json.loads, page.texts)
        return [frame["data"]["totals"].get("product") for frame in frames if frame.get("watch") == "overview"]

    await until(lambda: len(shown()) == 1)
    same_until[0] = time.monotonic() + 0.2
    world.link.put_broker({"product": "Headgate"})
    world.link.notify()
    await until(lambda: len(shown()) == 2)
    assert time.monotonic() >= same_until[0]
    assert shown()[-1] == "Headgate"
    await world.close()
