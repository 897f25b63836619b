"""The page of all brokers and the switcher of brokers, in Chromium: with several brokers, of which one is lost."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import pytest_asyncio
from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Page, expect

from console.links.registry import close_links
from console.live.fleet.watching import FleetSnapshots
from tests.browser.chromium import MISSING, PATH
from tests.browser.conftest import LIMIT, Console, People
from tests.console.fleet.conftest import FleetBroker, fleet, overfull  # noqa: F401  (a fixture)

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(PATH is None, reason=MISSING),
    pytest.mark.asyncio(loop_scope="module"),
]

expect.set_options(timeout=LIMIT)

WIDE, NARROW = {"width": 1440, "height": 900}, {"width": 390, "height": 800}
Fleet = dict[str, FleetBroker]


@pytest.fixture
def console(database: None, fleet: Fleet) -> Iterator[Console]:  # noqa: F811
    running = Console()
    running.start()
    yield running
    running.stop()
    close_links()


@pytest_asyncio.fixture(loop_scope="module")
async def page(people: People, fleet: Fleet) -> AsyncIterator[Page]:  # noqa: F811
    made = await people.page("olga", "operators")
    await made.goto("/")
    yield made


def broker_row(page: Page, title: str) -> Any:
    return page.locator("#broker-rows tr", has=page.get_by_role("link", name=title, exact=True))


async def test_queues_of_all_brokers_are_grouped_with_their_rates(page: Page, fleet: Fleet) -> None:  # noqa: F811
    await page.locator("#table-options summary").click()
    await page.get_by_label("Group by").select_option("prefix")
    await page.keyboard.press("Escape")
    names = page.locator("#queue-rows .c-group button")
    await expect(names).to_have_text(["mail", "orders"], use_inner_text=True)
    await expect(page.locator("#queues-count")).to_have_text("4 in 2 groups")
    await asyncio.to_thread(overfull, fleet["us"], "orders.us")
    await expect(names).to_have_text(["orders", "mail"], use_inner_text=True)
    orders = page.locator("#queue-rows tr.group").first
    await expect(orders).to_contain_text("1 overfull")
    await expect(orders.locator(".c-broker")).to_have_text("2 brokers")
    await expect(orders.locator(".c-depth")).to_contain_text("11 msg")
    for rate in (".c-in", ".c-out"):
        await expect(orders.locator(rate)).to_have_text(re.compile(r"^[\d.,]+$"))
    await orders.get_by_role("button", name="orders").press("Enter")
    await expect(page.locator("#queue-rows .c-name a")).to_have_text(["orders.us", "orders.eu"])
    await page.reload()
    await expect(page.locator("#queue-rows .c-name a")).to_have_text(["orders.us", "orders.eu"])
    await page.get_by_role("searchbox").fill("mail")
    await expect(names).to_have_text(["mail"], use_inner_text=True)
    await expect(page.locator("#queues-count")).to_have_text("2 in 1 group")
    found = await Axe().run(page, options={"resultTypes": ["violations"]})
    assert not found.response["violations"], found.generate_report()
    await page.set_viewport_size(NARROW)
    assert await page.evaluate("document.documentElement.scrollWidth") <= NARROW["width"]


async def test_first_page_of_several_brokers_is_all_of_them_updated_live(page: Page, fleet: Fleet) -> None:  # noqa: F811
    assert page.url.endswith("/fleet/")
    await expect(page.locator("#queue-rows tr")).to_have_count(4)
    await expect(page.locator('[data-total="brokers"] .total-value')).to_have_text("2 / 3")
    await expect(page.locator("#fleet-note")).to_have_text("Not in the totals: 1 broker, not known.")
    gone = broker_row(page, "Broker gone")
    await expect(gone).to_contain_text("Disconnected")
    await expect(gone).to_contain_text("nothing known yet")
    assert "0" not in await gone.inner_text(), "unknown is not shown as 0"
    await asyncio.to_thread(overfull, fleet["us"], "orders.us")
    first = page.locator("#queue-rows tr").first
    await expect(first).to_contain_text("orders.us")
    await expect(first).to_contain_text("Overfull")
    await expect(page.locator("#feed")).to_contain_text("Broker us: ")
    await first.get_by_role("link", name="orders.us", exact=True).click()
    await expect(page.locator("h1")).to_contain_text("orders.us")
    assert page.url.endswith("/queues/default/orders.us/?broker=us")
    await expect(page.locator(".broker-chosen")).to_have_text("Broker us")


async def test_name_of_the_chosen_broker_is_readable_at_every_width(page: Page) -> None:
    await page.goto("/?broker=us")
    for width in (768, 1024, 1181, 1240, 1400, 1401, 2560):
        await page.set_viewport_size({"width": width, "height": 900})
        chosen = page.locator(".broker-chosen")
        assert await chosen.evaluate("(name) => name.clientWidth > 0 && name.scrollWidth <= name.clientWidth"), width


async def test_filters_are_in_the_address_and_apply_to_the_whole_page(page: Page) -> None:
    await expect(page.locator("#queue-rows tr")).to_have_count(4)
    await page.select_option("#scope-tags", "slow")
    await expect(page.locator("#queue-rows tr")).to_have_count(2)
    await expect(page.locator("#broker-rows tr")).to_have_count(1)
    await page.fill("#search", "orders")
    await expect(page.locator("#queue-rows tr")).to_have_count(1)
    assert page.url.endswith("/fleet/?tag=slow&search=orders")
    await page.reload()
    await expect(page.locator("#queue-rows tr")).to_have_count(1)
    await expect(page.locator("#scope-tags")).to_have_value("slow")
    await page.select_option("#scope-tags", "")
    await expect(page.locator("#queue-rows tr")).to_have_count(2)


async def test_stop_of_all_opens_with_every_broker_selected(page: Page) -> None:
    await expect(page.locator("#queue-rows tr")).to_have_count(4)
    await page.click("#stop-all")
    chosen = page.get_by_role("dialog").locator("ul.stop-brokers")
    for title in ("Broker eu", "Broker us", "Broker gone"):
        await expect(chosen).to_contain_text(title)
    await page.keyboard.press("Escape")
    await expect(page.get_by_role("dialog")).to_have_count(0)


async def test_stop_of_all_waits_until_the_brokers_of_a_new_filter_are_known(
    page: Page, monkeypatch: pytest.MonkeyPatch
) -> None:
    await expect(page.locator("#queue-rows tr")).to_have_count(4)
    answered, text = threading.Event(), FleetSnapshots.text

    async def late(self: FleetSnapshots, members: Any, watch: Any) -> str:
        if watch.members.tags:
            await asyncio.to_thread(answered.wait, 60)
        return await text(self, members, watch)

    monkeypatch.setattr(FleetSnapshots, "text", late)
    await page.select_option("#scope-tags", "slow")
    for button in ("#stop-all", "#start-all"):
        # The property: a page without frames for some time sets aria-disabled.
        assert await page.locator(button).evaluate("button => button.disabled")
    answered.set()
    await page.click("#stop-all")
    brokers = page.get_by_role("dialog").locator("ul.stop-brokers label")
    await expect(brokers.filter(has_text="Broker us").locator("input")).to_be_checked()
    await expect(brokers.filter(has_text="Broker eu").locator("input")).not_to_be_checked()


async def test_last_hour_of_a_filter_without_brokers_is_that_of_none(page: Page) -> None:
    await page.goto("/fleet/?tag=none")
    await expect(page.locator("#brokers-empty")).to_have_text("No matching brokers.")
    await expect(page.locator("#last-hour-note")).to_have_text("No matching brokers.")


async def test_lost_broker_is_dated_while_the_others_go_on(page: Page, fleet: Fleet) -> None:  # noqa: F811
    await page.goto("/fleet/?tag=prod")
    await asyncio.to_thread(overfull, fleet["us"], "orders.us")
    await expect(page.locator("#queue-rows tr").first).to_contain_text("Overfull")
    await expect(page.locator("#fleet-note")).to_have_text("")
    top = "(box) => box.getBoundingClientRect().top"
    before = await page.locator("#brokers-box").evaluate(top)
    await asyncio.to_thread(fleet["us"].lose)
    us = broker_row(page, "Broker us")
    await expect(us).to_contain_text("Disconnected")
    await expect(us).to_contain_text("as of ")
    await expect(page.locator("#queue-rows tr.outdated")).to_have_count(2)
    await expect(page.locator("#fleet-note")).to_have_text("As of the last snapshot: 1 disconnected broker.")
    assert await page.locator("#brokers-box").evaluate(top) == before, "the page does not move"
    assert await page.locator("#queue-rows tr.outdated time[data-since]").count() == 0, "durations do not go on"
    await asyncio.to_thread(overfull, fleet["eu"], "orders.eu")
    await expect(broker_row(page, "Broker eu").locator("td.hot").first).to_be_visible()
    await asyncio.to_thread(fleet["us"].come_back)
    await expect(us).to_contain_text("Connected")
    await expect(page.locator("#queue-rows tr.outdated")).to_have_count(0)


async def test_switcher_works_with_the_keyboard_and_stays_on_the_page(page: Page) -> None:
    await page.goto("/timeline/?broker=eu")
    summary = page.locator("#broker-choice summary")
    await expect(summary).to_have_text("Broker: Broker eu")
    await summary.focus()
    await page.keyboard.press("Enter")
    await expect(page.locator("#broker-choice li[data-broker=gone] small")).to_have_text("Disconnected")
    await expect(page.locator("#broker-choice a[aria-current]")).to_be_focused()
    await page.keyboard.press("Escape")
    await expect(summary).to_be_focused()
    await page.keyboard.press("Enter")
    await expect(page.locator("#broker-choice a[aria-current]")).to_be_focused()
    await page.keyboard.press("ArrowDown")
    await page.keyboard.press("Enter")
    await page.wait_for_url("**/timeline/?broker=us")
    await expect(page.locator(".broker-chosen")).to_have_text("Broker us")


async def test_page_that_configures_brokers_updates_their_connections(people: People, fleet: Fleet) -> None:  # noqa: F811
    page = await people.page("root", "administrators")
    await page.goto("/brokers/")
    us = page.locator("[data-connection-of=us]")
    await expect(us).to_have_text("Connected")
    await asyncio.to_thread(fleet["us"].lose)
    await expect(us).to_contain_text("Disconnected")
    await asyncio.to_thread(fleet["us"].come_back)
    await expect(us).to_have_text("Connected")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [WIDE, NARROW])
async def test_page_is_accessible_and_not_wider_than_the_screen(
    people: People,
    fleet: Fleet,  # noqa: F811
    scheme: str,
    size: dict[str, int],
) -> None:
    await asyncio.to_thread(overfull, fleet["us"], "orders.us")
    page = await people.page(f"ada-{scheme}-{size['width']}", "operators", color_scheme=scheme, viewport=size)
    await page.goto("/fleet/")
    await expect(page.locator("#queue-rows tr")).to_have_count(4)
    await page.click("#broker-choice summary")
    await expect(page.locator("#broker-choice .menu-body")).to_be_visible()
    await expect(page.locator("#broker-choice li[data-broker=gone] small")).to_have_text("Disconnected")
    found = (await Axe().run(page)).response["violations"]
    assert [each["id"] for each in found if each["impact"] in ("serious", "critical")] == []
    assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    box = await page.locator("#broker-choice .menu-body").bounding_box()
    assert box is not None
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= size["width"]
