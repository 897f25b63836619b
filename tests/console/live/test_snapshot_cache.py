"""The cache of snapshots: what it costs, how old its texts get, and what all pages with the same watch share."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest

from console.links.link import BrokerLink
from console.live import consumer, snapshot_cache, watching
from console.live.overview import View
from console.live.snapshot_cache import SnapshotCache
from tests.console.live.test_link_pages import Page, World, until

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
    cost: float = TEXT

    def data(self, view: Any) -> dict[str, Any]:
        self.clock.compute(self.cost)
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
    assert cache.same_until(link, query, None) < clock.at
    first, revision = await cache.text(link, query)
    link._revision += 1
    assert cache.same_until(link, query, revision - 1) < clock.at, "a page with an older text need not wait"
    until = cache.same_until(link, query, revision)
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
    _, revision = await cache.text(link, Query(clock, 0))
    assert cache.same_until(link, Query(clock, 0), revision) - clock.at <= 9 * (TEXT + VIEW) + 0.001


@pytest.mark.parametrize("cost", [0.001, 0.02])
async def test_pages_that_wait_until_their_text_may_change_cost_a_tenth_too(clock: Clock, cost: float) -> None:
    cache, link = SnapshotCache(), changing_link()
    watched = [Query(clock, number, cost) for number in range(100)]
    has = {query: (await cache.text(link, query))[1] for query in watched}
    due = dict.fromkeys(watched, clock.at)
    began, used = clock.at, clock.computed
    while clock.at - began < 120:
        link._revision += 1
        for query in [query for query in watched if due[query] <= clock.at]:
            until = cache.same_until(link, query, has[query])
            if until <= clock.at:
                _, has[query] = await cache.text(link, query)
                until = cache.same_until(link, query, has[query])
            due[query] = max(until, clock.at + 0.2)
        clock.at += 0.01
    assert 0.02 <= (clock.computed - used) / (clock.at - began) <= 0.15


async def test_no_text_is_from_before_a_reconnect(clock: Clock) -> None:
    cache, link, query = SnapshotCache(), changing_link(), Query(clock, 1)
    link.connected_now(0)
    before, revision = await cache.text(link, query)
    link.lost("it is gone")
    link.connected_now(0)
    assert cache.same_until(link, query, revision) < clock.at
    assert (await cache.text(link, query))[0] != before
    assert clock.views == 2


@dataclass(frozen=True)
class Overviews:
    """Pages of one broker that watch the overview, and the products that each has been shown."""

    world: World
    pages: list[Page]

    def shown(self, page: Page) -> list[Any]:
        frames = map(json.loads, page.texts)
        return [frame["data"]["totals"].get("product") for frame in frames if frame.get("watch") == "overview"]

    def change(self, product: str) -> None:
        self.world.link.put_broker({"product": product})
        self.world.link.notify()


@pytest.fixture
async def overviews(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Overviews]:
    monkeypatch.setattr(consumer, "visible_link", lambda rights, _slug: rights)
    monkeypatch.setattr(consumer, "SNAPSHOTS", 0.0)
    world = World(capacity=10)
    made = Overviews(world, [world.open(None, 0) for _ in range(10)])
    for page in made.pages:
        page.take({"watch": "overview"})
        page.wake_now()
    await until(lambda: all(len(made.shown(page)) == 1 for page in made.pages))
    yield made
    await world.close()


async def test_page_gets_the_newest_text_when_its_time_has_come_without_another_change(
    monkeypatch: pytest.MonkeyPatch, overviews: Overviews
) -> None:
    soon = time.monotonic() + 0.2
    monkeypatch.setattr(consumer, "same_until", lambda link, watch, state: soon)
    overviews.change("Headgate")
    await until(lambda: all(overviews.shown(page)[-1] == "Headgate" for page in overviews.pages))
    assert time.monotonic() >= soon


async def test_pages_with_the_same_watch_do_not_starve_each_other(
    monkeypatch: pytest.MonkeyPatch, overviews: Overviews
) -> None:
    # So long that only one text is made in this test: each page must get it, whichever had it made.
    monkeypatch.setattr(snapshot_cache, "_REUSED", 1e9)
    cache = watching._snapshots[overviews.world.link]
    overviews.change("Headgate")
    cache._texts.clear()
    cache._view = None
    for page in overviews.pages:
        page.wake_now()
    await until(lambda: all(overviews.shown(page)[-1] == "Headgate" for page in overviews.pages))


async def test_page_with_another_watch_does_not_wait_for_the_time_of_the_last_one(
    monkeypatch: pytest.MonkeyPatch, overviews: Overviews
) -> None:
    page = overviews.pages[0]
    monkeypatch.setattr(consumer, "same_until", lambda link, watch, state: time.monotonic() + 1000)
    overviews.change("Headgate")
    await until(lambda: page._not_before > time.monotonic() + 100)
    overviews.change("Hatgeade")
    await until(lambda: page._wake_later is not None)
    monkeypatch.setattr(consumer, "same_until", lambda link, watch, state: float("-inf"))
    page.take({"watch": "overview", "search": "x"})
    page.wake_now()
    await until(lambda: len(overviews.shown(page)) == 2)
    overviews.change("Gatehead")
    await until(lambda: overviews.shown(page)[-1] == "Gatehead")
