"""Queues whose names are odd or long: every address that a page's scripts make of them leads to that queue, what is
done there is done to it, and no page scrolls sideways for them."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import unquote

import pytest
from django.urls import resolve, reverse
from playwright.async_api import Page, expect

from brokers.model import ObjectName, object_name
from brokers.testing import InMemoryBroker
from tests.browser.chromium import MISSING, PATH
from tests.browser.conftest import Broker, People
from tests.browser.test_overview import opened
from tests.browser.test_queue import field

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(PATH is None, reason=MISSING),
    pytest.mark.asyncio(loop_scope="module"),
]

LONGEST = 250
#: Among them such as cannot be created any more and may be there all the same.
NAMES = [
    "a/b",
    "zürich 東京",
    "x y",
    "%",
    "100%/50%",
    "a+b&c=d?e#f",
    '"quoted", type=Queue',
    "..",
    "a/../b",
    "a//check",
    "~~x",
    "line\nbreak",
    "W" * LONGEST,
    ("very-long-segment." * 20)[:LONGEST],
]


def named(name: str) -> ObjectName:
    return object_name("Queue", virtualhost="default", name=name)


def limited_to(memory: InMemoryBroker, name: str, capacity: int) -> None:
    """That capacity, and more messages than that to send."""
    version = memory.management.read(named(name)).version
    memory.management.update(named(name), {"capacity_messages": capacity}, version, "bob")
    memory.fill(name, 2 * capacity)
    memory._end_turn()


def there(memory: InMemoryBroker, name: str) -> None:
    """A queue of that name which is overfull, with a client whose name is long."""
    engine = memory.engine
    engine.add_queue(engine.virtualhost("default"), name, {}, 0)
    limited_to(memory, name, 10)


async def is_of(page: Page, name: str) -> None:
    """The page is live and about that queue, and it is there."""
    await expect(page.locator("#connection-text")).to_have_text("Live")
    await expect(page.locator("#queue-state, #state").first).to_have_text("Overfull")
    shown = await page.locator("h1").evaluate("one => one.textContent")
    assert name.split() == re.sub("^Why blocked: ", "", shown).split()


@pytest.mark.domain("8 every name opens")
async def test_scripts_and_server_build_the_same_url(people: People) -> None:
    page = await opened(await people.page("ada"))
    written = await page.evaluate(
        r"""async (names) => {
            const script = document.querySelector("script[type=module][src]").src;
            const { queueUrl } = await import(script.replace(/[^/]*\/[^/]*$/, "core/object_names.js"));
            return names.flatMap((name) => [queueUrl("default", name), queueUrl(name, "orders")]);
        }""",
        NAMES,
    )
    pairs = [pair for name in NAMES for pair in (("default", name), (name, "orders"))]
    assert [unquote(url) for url in written] == [unquote(reverse("queue", args=pair)) for pair in pairs]
    for url, (host, name) in zip(written, pairs, strict=True):
        assert resolve(unquote(url)).kwargs == {"virtualhost": host, "name": name}


@pytest.mark.domain("8 every name opens")
@pytest.mark.parametrize("name", ["a/b", "zürich 東京 100%", '"quoted", type=Queue', ".."])
async def test_links_to_a_queue_with_an_odd_name_lead_to_it(people: People, broker: Broker, name: str) -> None:
    people.expected += ["status of 404", "status of 503"]  # the test has no history
    broker.do(lambda memory: there(memory, name))
    page = await opened(await people.page("ada", "administrators"))
    link = page.locator("#queue-rows th a")
    await expect(link).to_have_attribute("title", f"{name} on default")
    event = page.locator("#feed li", has_text="Queue overfull").get_by_role("link")
    address = await link.get_attribute("href")
    assert await event.get_attribute("href") == address
    await event.click()
    await is_of(page, name)

    await page.get_by_role("button", name="Edit").click()
    await field(page, "Capacity, messages").fill("30")
    await expect(page.locator(".form-note")).to_contain_text("capacity 30")
    await page.get_by_role("button", name="Save limits").click()
    await expect(page.locator(".toast")).to_contain_text("Limits saved")
    assert broker.do(lambda memory: memory.management.read(named(name))["capacity_messages"]) == 30
    broker.do(lambda memory: limited_to(memory, name, 10))

    await page.goto("/")
    await page.locator("#queue-rows td[data-label=Blocked] a").click()
    await is_of(page, name)
    await page.locator("#queue-page").click()
    await is_of(page, name)
    await page.locator("#queue-timeline").click()
    await expect(page.locator("#entries li").first).to_be_visible()
    await page.locator("#entries a").first.click()
    await is_of(page, name)
    await page.get_by_role("link", name="Attributes").click()
    await expect(page.locator(".attributes-table")).to_contain_text("OVERFULL", ignore_case=True)
    await page.get_by_role("link", name="Open page").click()
    await is_of(page, name)
    await page.get_by_role("link", name="All fields").click()
    await expect(page.locator("[name=capacity_messages]")).to_have_value("10")
    await page.get_by_role("link", name="Open queue").click()
    await is_of(page, name)
    await page.get_by_role("link", name="History").last.click()
    await expect(page.locator("h1")).to_have_text(" ".join(name.split()))


PLACES = {
    "overview": "/",
    "queue": "/queues/default/{name}/",
    "why": "/why/?object={object}",
    "conditions": "/conditions/",
    "policy": "/policies/scope/?object={object}",
    "policies": "/policies/",
    "bulk": "/policies/bulk/",
    "timeline": "/timeline/",
    "objects": "/objects/?object={object}",
    "history": "/history/queues/default/{name}/",
}


@pytest.mark.parametrize("letter", ["W", "very-long-segment."])
async def test_no_page_scrolls_sideways_for_the_longest_name(people: People, broker: Broker, letter: str) -> None:
    people.expected += ["status of 404", "status of 503"]
    name = (letter * LONGEST)[:LONGEST]
    broker.do(lambda memory: there(memory, name))
    page = await people.page("ada", "administrators")
    wide: list[Any] = []
    for place, path in PLACES.items():
        await opened(page, path.format(name=name, object=named(name)))
        await expect(page.locator("main .loading:visible")).to_have_count(0)
        for width in (390, 741, 900, 1280):
            await page.set_viewport_size({"width": width, "height": 900})
            there_is = await page.evaluate("document.documentElement.scrollWidth")
            if there_is > width:
                wide.append((place, width, there_is))
    assert not wide


async def test_object_is_found_by_any_valid_quoting_of_its_name(people: People, broker: Broker) -> None:
    broker.do(lambda memory: there(memory, "orders"))
    quoted = 'type=Queue,virtualhost=default,name="orders"'
    page = await opened(await people.page("ada"), f"/objects/?object={quoted}")
    await expect(page.locator(".attributes-table")).to_contain_text("Overfull")
    await opened(page, f"/timeline/?queue={quoted}")
    await expect(page.locator("#entries")).to_contain_text("Queue overfull")
    await expect(page.locator("#entries li", has_text="Producer blocked")).to_contain_text("queue orders is overfull")
    await expect(page.locator("#entries")).not_to_contain_text("queue-overfull")
