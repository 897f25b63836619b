"""Every page for a broker of another kind in its address: no call fails, and nothing unknown is shown as code."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest
from django.urls import reverse
from playwright.async_api import Page, Response, expect

from brokers.model import object_name
from console.bulk.models import BulkEdit, BulkEditRow
from tests.browser.chromium import MISSING, PATH
from tests.browser.conftest import People, connections, until_in_page
from tests.browser.test_hung_broker import PAGES
from tests.console.conftest import Broker
from tests.console.other_kind import OtherKind

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(PATH is None, reason=MISSING),
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.timeout(300),
]

ORDERS = object_name("Queue", virtualhost="default", name="orders")
#: Values of the languages that show where a text was made of something unknown.
CODE = re.compile(r"\b(NaN|undefined|null|Infinity)\b|\[object|Traceback")
#: Opened by other tests: pages of objects that this test does not create, and files.
OTHER_PAGES = {"alert-rule", "schedule", "policies-export"}

ADDRESSES = [name for name in PAGES if name not in OTHER_PAGES]


@pytest.fixture
def broker(broker: Broker) -> Broker:
    broker.wrap = OtherKind
    return broker


def overfull(broker: Broker) -> None:
    def limited(memory: Any) -> None:
        producer = memory.attach_producer("orders")
        memory.attach_consumer("orders")
        memory.publish(producer, 5, 100)

    broker.do(limited)
    link = broker.link
    version = link.call(lambda admin: admin.read(ORDERS)).version
    link.call(lambda admin: admin.update(ORDERS, {"capacity_messages": 3}, version))
    broker.sample_until(lambda: (link.queue(ORDERS) or {}).get("state") == "OVERFULL")
    edit = BulkEdit.objects.create(user_name="ada", broker="local", attributes={"capacity_messages": 3})
    BulkEditRow.objects.create(edit=edit, object=str(ORDERS), wanted={"capacity_messages": 3})
    connections.close_all()


class Watched:
    """A page that remembers the calls that failed."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.failed: list[str] = []
        page.on("response", self._answered)

    def _answered(self, response: Response) -> None:
        if response.status >= 400:
            self.failed.append(f"{response.status} {response.url}")

    async def opened(self, path: str) -> str:
        self.failed.clear()
        await self.page.goto(path)
        await self.page.wait_for_load_state("networkidle")
        text: str = await self.page.inner_text("body")
        return text


async def test_no_page_calls_what_this_kind_lacks(people: People, broker: Broker) -> None:
    await asyncio.to_thread(overfull, broker)
    watched = Watched(await people.page("ada", "administrators"))
    found = {}
    for name in ADDRESSES:
        arguments, query = PAGES[name]
        path = reverse(name, kwargs=arguments) + (f"{query}&" if query else "?") + "broker=local"
        text = await watched.opened(path)
        if watched.failed or CODE.search(text):
            found[name] = (list(watched.failed), [line for line in text.splitlines() if CODE.search(line)])
    assert not found


async def test_links_stay_with_the_broker_of_the_page(people: People, broker: Broker) -> None:
    await asyncio.to_thread(overfull, broker)
    page = await people.page("ada", "administrators")
    await page.goto("/?broker=local")
    await page.locator("#queue-rows th a").first.click()
    await page.wait_for_url("**/queues/default/orders/?broker=local")
    await expect(page.locator("#facts")).to_contain_text("Messages")
    await page.get_by_role("link", name="Attributes").click()
    await page.wait_for_url(lambda url: "/objects/" in url and "broker=local" in url)
    await until_in_page(page, "() => document.querySelector('.attributes-table td.value')")


async def test_limits_of_a_queue_are_edited_without_a_preview(people: People, broker: Broker) -> None:
    await asyncio.to_thread(overfull, broker)
    page = await people.page("ada", "administrators")
    await page.goto(f"/policies/scope/?object={ORDERS}&broker=local")
    await page.get_by_label("Capacity, messages").fill("7")
    await expect(page.locator("#preview")).to_contain_text("cannot preview")
    await page.get_by_role("button", name="Apply").click()
    await expect(page.locator(".effective").first).to_have_text(re.compile("7"))
    read = await asyncio.to_thread(lambda: broker.link.call(lambda admin: admin.read(ORDERS)))
    assert read["capacity_messages"] == 7
    await page.goto("/queues/default/orders/?broker=local")
    await page.locator("#edit-limits").click()
    await page.get_by_label("Capacity, messages").fill("9")
    await page.get_by_role("button", name="Save limits").click()
    await expect(page.locator(".limits-table")).to_contain_text("9")
    await expect(page.locator("#producers-empty")).to_contain_text("does not report")
