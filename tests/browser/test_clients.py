"""The pages of clients in Chromium: a client is found, stopped and started, and links are closed with a preview."""

from __future__ import annotations

import asyncio
import re

import pytest
from playwright.async_api import Route, expect
from proton import Message

from brokers.engine.flow.producer import Producer
from brokers.model import object_name
from brokers.testing import InMemoryBroker
from tests.browser.chromium import MISSING, PATH
from tests.browser.conftest import LIMIT, Broker, People
from tests.browser.test_overview import opened
from tests.console.conftest import until

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(PATH is None, reason=MISSING),
    pytest.mark.asyncio(loop_scope="module"),
]

expect.set_options(timeout=LIMIT)

ORDERS = object_name("Queue", virtualhost="default", name="orders")
WEB = "/clients/client/?virtualhost=default&user=ann&container_id=web-7"


def furnish(memory: InMemoryBroker) -> tuple[Producer, Producer]:
    hers = memory.attach_producer("orders", link="out-7", user="ann", container_id="web-7")
    his = memory.attach_producer("orders", link="out-8", user="bob", container_id="web-8")
    return hers, his


async def test_client_is_found_stopped_and_started_again(people: People, broker: Broker) -> None:
    hers, his = broker.do(furnish)
    page = await opened(await people.page("ada"), "/?search=nothing-7")
    await expect(page.get_by_role("link", name="Search clients")).to_have_attribute(
        "href", re.compile(r"^/clients/\?search=nothing-7")
    )
    page = await opened(page, "/clients/")
    await page.get_by_label("Search clients and producers").fill("out-7")
    await expect(page.locator("#found-rows tr")).to_have_count(1)
    await page.get_by_label("Search clients and producers").fill("web-7")
    await expect(page.locator("#connection-rows tr")).to_have_count(1)
    await page.get_by_role("link", name="ann · web-7", exact=True).click()
    await expect(page.locator("h1")).to_have_text("ann · web-7")
    await expect(page.locator('[data-attribute="product"] dd')).to_have_text("test client")

    await page.get_by_role("button", name="Stop this client…").click()
    dialog = page.locator("dialog")
    await expect(dialog.locator(".preview-count")).to_have_text("This stops 1 producer of 1 queue.")
    await dialog.get_by_label("Reason").fill("poison messages")
    await dialog.locator("button[type=submit]").click()
    await dialog.get_by_role("button", name="Close").click()
    row = page.locator("#producer-rows tr")
    await expect(row.locator(".state")).to_have_text("Blocked")
    await expect(row).to_contain_text("user ann, container web-7")
    assert broker.do(lambda memory: (hers.blocked, his.blocked)) == (True, False)
    banner = page.locator("#banner-stops")
    await expect(banner).to_contain_text(
        "Producers of user ann, container web-7 in virtual host default are stopped: poison messages"
    )
    await banner.get_by_role("button", name="Start again").click()
    await dialog.get_by_label("Reason").fill("mended")
    await expect(dialog.locator("#stage")).to_have_count(0)
    await dialog.locator("button[type=submit]").click()
    await dialog.get_by_role("button", name="Close").click()
    await expect(row.locator(".state")).to_have_text("Running")
    assert broker.do(lambda memory: hers.blocked) is False


async def test_connections_are_sorted_by_any_column(people: People, broker: Broker) -> None:
    broker.do(furnish)
    page = await opened(await people.page("vic", "viewers"), "/clients/")
    names = page.locator("#connection-rows th > a")
    await expect(names).to_have_text(["ann · web-7", "bob · web-8"])
    await page.locator("thead").get_by_role("button", name="Client").click()
    await expect(page.locator("th[aria-sort=ascending]")).to_have_text("Client")
    await page.locator("thead").get_by_role("button", name="Client").click()
    await expect(names).to_have_text(["bob · web-8", "ann · web-7"])
    await page.reload()
    await expect(names).to_have_text(["bob · web-8", "ann · web-7"])
    await expect(page.locator("th[aria-sort=descending]")).to_have_text("Client")


async def test_connections_of_headgate_itself_are_marked(people: People, broker: Broker) -> None:
    def connect(memory: InMemoryBroker) -> None:
        memory.attach_producer("orders", user="console", container_id="headgate-web-7-1f", product="Headgate")
        memory.attach_producer("orders", user="ann", container_id="headgate-fake", product="Headgate")

    broker.do(connect)
    page = await opened(await people.page("vic", "viewers"), "/clients/")
    rows = page.locator("#connection-rows tr")
    await expect(rows.filter(has_text="headgate-web-7-1f").locator(".tag")).to_have_text("Headgate")
    await expect(rows.filter(has_text="headgate-fake").locator(".tag")).to_have_count(0)  # it only calls itself so
    await page.get_by_role("link", name="console · headgate-web-7-1f", exact=True).click()
    await expect(page.locator(".client-connection .tag")).to_have_text("Headgate")


async def test_queues_that_a_stop_of_the_client_waits_for_are_named(people: People, broker: Broker) -> None:
    def stopped(memory: InMemoryBroker) -> None:
        furnish(memory)
        memory.management.update(ORDERS, {"capacity_messages": 10}, memory.management.read(ORDERS).version)
        memory.publish_encoded("orders", *[bytes(Message(body="x").encode())] * 9)
        given = {"reason": "poison", "below": 40, "user": "ann", "container_id": "web-7"}
        memory.management.call(object_name("VirtualHost", name="default"), "stop-producers", given, "olga")
        memory._end_turn()

    broker.do(stopped)
    page = await opened(await people.page("vic", "viewers"), WEB)
    ends = page.locator("#stop-ends")
    await expect(ends).to_contain_text("ends at a depth of 40%. Waits for 1 queue above 40%: orders (90%)")
    link = ends.get_by_role("link", name="orders")
    await expect(link).to_have_attribute("href", re.compile("/queues/default/orders/"))
    await link.focus()
    broker.do(lambda memory: memory.consume(memory.attach_consumer("orders"), 2))
    await expect(ends).to_contain_text("orders (70%)")
    await expect(link).to_be_focused()
    broker.do(lambda memory: (memory.consume(memory.attach_consumer("orders"), 5), memory.advance(2000)))
    await expect(ends).to_be_hidden()


async def test_stop_on_the_banner_is_not_shown_before_it_in_the_page(people: People, broker: Broker) -> None:
    def stop(memory: InMemoryBroker) -> None:
        given = {"reason": "poison", "user": "ann", "container_id": "web-7"}
        memory.management.call(object_name("VirtualHost", name="default"), "stop-producers", given, "olga")

    broker.do(stop)
    page = await people.page("vic", "viewers")
    come = asyncio.Event()

    async def later(route: Route) -> None:
        await come.wait()
        await route.continue_()

    await page.route("**/objects/type%3DBroker/", later)
    await page.goto(WEB)
    empty = page.locator("#connections-empty p")
    await expect(empty).to_have_text("No open connection.")
    await expect(page.locator("#stops")).to_be_hidden()
    await empty.evaluate("(element) => { element.marked = true; }")
    come.set()
    await expect(page.locator("#banner-stops")).to_contain_text("poison")
    await expect(page.locator("#stops")).to_be_hidden()
    assert await empty.evaluate("(element) => element.marked")  # a live region that is filled again is read again


async def test_page_of_a_client_recovers_from_a_failed_request_for_the_types(people: People, broker: Broker) -> None:
    people.expected += ["503"]
    broker.do(furnish)
    page = await people.page("vic", "viewers")

    async def fail(route: Route) -> None:
        await route.fulfill(status=503, body="{}", content_type="application/json")

    await page.route("**/brokers/local/types/", fail, times=1)
    await page.goto(WEB)
    await expect(page.locator("#problem")).to_contain_text("The broker cannot be reached.")
    await expect(page.locator("#producer-rows tr")).to_have_count(1)
    await expect(page.locator("#problem")).to_be_hidden()


@pytest.mark.parametrize("path", ["/clients/", WEB])
async def test_lost_broker_is_reported_once(people: People, broker: Broker, path: str) -> None:
    people.expected += ["503"]
    broker.do(furnish)
    page = await opened(await people.page("vic", "viewers"), path)
    await expect(page.locator("#connection-rows tr, #producer-rows tr").first).to_be_visible()
    await asyncio.to_thread(broker.lose)
    await expect(page.locator("#banner-lost")).to_contain_text("cannot be reached")
    if path == WEB:  # it polls only until it has the types
        await page.reload()
    for _ in range(2):  # the second request begins after the answer to the first one was shown
        async with page.expect_response(lambda answer: answer.status == 503):
            pass
    await expect(page.locator("#banner-lost")).to_contain_text("cannot be reached")
    await expect(page.locator("#problem")).to_be_hidden()
    await asyncio.to_thread(broker.come_back)
    await expect(page.locator("#banner-lost")).to_be_hidden()
    await expect(page.locator("#connection-rows tr, #producer-rows tr").first).to_be_visible()


async def test_connection_that_never_existed_has_not_ended(people: People, broker: Broker) -> None:
    hers, _ = broker.do(furnish)
    name = str(hers.connection.name)
    page = await people.page("vic", "viewers")
    await page.goto(f"/clients/connection/?object={re.sub('id=.*', 'id=4711', name)}")
    await expect(page.locator("#gone")).to_have_text(re.compile(r"^No such connection\.\s+All clients$"))
    page = await opened(page, f"/clients/connection/?object={name}")
    await expect(page.locator("#producer-rows tr")).to_have_count(1)
    broker.do(lambda memory: (memory._close(hers.connection), memory._end_turn()))
    await expect(page.locator("#gone")).to_contain_text("This connection ended")


async def test_producer_is_closed_with_a_preview_and_a_reason(people: People, broker: Broker) -> None:
    broker.do(furnish)
    page = await opened(await people.page("ada"), WEB)
    await page.locator("#producer-rows").get_by_role("button", name="Close…").click()
    dialog = page.locator("dialog")
    await expect(dialog).to_contain_text("Ends 1 producer.")
    await dialog.get_by_role("button", name="Close", exact=True).click()
    await expect(dialog).to_contain_text("Enter a reason.")
    await dialog.get_by_label("Reason").fill("stuck")
    await dialog.get_by_role("button", name="Close", exact=True).click()
    await expect(page.locator("#producers-empty")).to_have_text("No producers.")
    await asyncio.to_thread(until, lambda: broker.do(lambda memory: len(memory.engine.producers)) == 1)


async def test_viewer_reads_the_page_and_has_no_actions(people: People, broker: Broker) -> None:
    broker.do(furnish)
    page = await opened(await people.page("vic", "viewers"), WEB)
    await expect(page.locator("#producer-rows tr")).to_have_count(1)
    for button in await page.get_by_role("button", name=re.compile("Stop|Close")).all():
        await expect(button).to_have_attribute("aria-disabled", "true")
