"""The overview in Chromium: what happens at the broker is on the page without a reload; stops through the dialog."""

from __future__ import annotations

import datetime as dt
import math
import re

import pytest
from playwright.async_api import Locator, Page, expect

from brokers.model import object_name
from brokers.testing import InMemoryBroker
from tests.browser.chromium import MISSING, PATH
from tests.browser.conftest import LIMIT, Broker, Console, People, until_in_page

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(PATH is None, reason=MISSING),
    pytest.mark.asyncio(loop_scope="module"),
]

expect.set_options(timeout=LIMIT)


def limited(memory: InMemoryBroker, name: str, capacity: int) -> None:
    """Create a queue with a capacity in messages, without producers and consumers."""
    memory.management.create(object_name("Queue", virtualhost="default", name=name), {"capacity_messages": capacity})
    memory._end_turn()


def used(memory: InMemoryBroker, name: str, capacity: int) -> None:
    """`limited`, with a producer that has sent nothing."""
    limited(memory, name, capacity)
    memory.attach_producer(name)


def row(page: Page, name: str) -> Locator:
    return page.locator("#queue-rows tr", has=page.get_by_role("link", name=name, exact=True))


async def opened(page: Page, path: str = "/") -> Page:
    """The page, live, and marked so that a reload would be noticed."""
    await page.goto(path)
    await expect(page.locator("#connection-text")).to_have_text("Live")
    await page.evaluate("window.notReloaded = true")
    return page


async def was_not_reloaded(page: Page) -> bool:
    return bool(await page.evaluate("window.notReloaded === true"))


async def test_memory_and_uptime_of_the_broker_are_beside_its_totals(people: People, broker: Broker) -> None:
    broker.do(lambda memory: limited(memory, "orders", 10))
    page = await opened(await people.page("ada"))
    memory = page.locator('[data-health="memory"]')
    await expect(memory).to_have_text("0 Bmemory")
    await expect(memory).to_have_attribute("title", "0 B, no limit")
    await expect(page.locator('[data-health="uptime"]')).to_have_text(re.compile(r"^1 min \d+ suptime$"))


async def test_overfull_queue_moves_to_the_top_without_reload(people: People, broker: Broker) -> None:
    for name in ("aaa", "orders"):
        broker.do(lambda memory, name=name: limited(memory, name, 10))  # type: ignore[misc]
    page = await opened(await people.page("ada"))
    await expect(page.locator("#queue-rows tr th a")).to_have_text(["aaa", "orders"])
    await expect(row(page, "orders").locator(".state")).to_have_text("Normal")
    broker.do(lambda memory: memory.fill("orders", 20))
    await expect(row(page, "orders").locator(".state")).to_have_text("Overfull")
    await expect(page.locator("#queue-rows tr th a")).to_have_text(["orders", "aaa"])
    await expect(page.locator('[data-total="overfull_queues"] .total-value')).to_have_text("1")
    await expect(page.locator("#feed").get_by_text("Queue overfull")).to_be_visible()
    assert await was_not_reloaded(page)


async def test_first_queue_replaces_the_empty_state(people: People, broker: Broker) -> None:
    page = await opened(await people.page("ada"))
    await expect(page.locator("#queues-empty")).to_contain_text("No queues yet")
    broker.do(lambda memory: memory.attach_producer("orders"))
    await expect(row(page, "orders")).to_be_visible()
    await expect(page.locator("#queues-empty")).to_be_hidden()


@pytest.mark.domain("3 stop and start all producers")
async def test_stop_all_and_start_all_through_the_dialog(people: People, broker: Broker) -> None:
    for name in ("orders", "payments"):
        broker.do(lambda memory, name=name: used(memory, name, 10))  # type: ignore[misc]
    page = await opened(await people.page("ada"))
    await page.get_by_role("button", name="Stop all producers").click()
    dialog = page.locator("dialog")
    await expect(dialog.locator(".preview-count")).to_have_text("This stops 2 producers of 2 queues.")
    submit = dialog.locator("button[type=submit]")
    await submit.click()
    await expect(dialog.get_by_text("Enter a reason")).to_be_visible()
    await expect(page.locator("#queue-rows .state")).to_have_text(["Normal", "Normal"])
    await dialog.get_by_label("Reason").fill("the store is being moved")
    await submit.click()
    await expect(dialog.locator(".answer")).to_have_text("2 producers of 2 queues receive no more credit.")
    await expect(dialog.locator(".draining-now")).to_contain_text("2: messages in flight")
    broker.do(lambda memory: memory.advance(1000))  # the clients give their credit back
    await expect(dialog.locator(".draining-now")).to_contain_text("0: no messages in flight")
    await expect(dialog.locator(".stopped-now")).to_have_text("2")
    await dialog.get_by_role("button", name="Close").click()
    await expect(page.locator("#queue-rows .state")).to_have_text(["Stopped", "Stopped"])
    await expect(page.locator("#banner-stops")).to_contain_text("the store is being moved")
    await expect(page.locator("#banner-stops")).to_contain_text("ada")

    await page.get_by_role("button", name="Start all producers").click()
    await dialog.get_by_label("Reason").fill("it is moved")
    await dialog.locator("button[type=submit]").click()
    await expect(dialog.locator(".answer")).to_contain_text("Removed the stop for 2 producers of 2 queues")
    await dialog.get_by_role("button", name="Close").click()
    await expect(page.locator("#queue-rows .state")).to_have_text(["Normal", "Normal"])
    await expect(page.locator("#banner-stops")).to_be_hidden()
    assert await was_not_reloaded(page)
    await page.goto("/audit/")
    await expect(page.locator(".audit-table tbody tr")).to_have_count(2)
    await expect(page.locator(".audit-table tbody tr").first).to_contain_text("it is moved")


async def test_start_of_one_queue_leaves_the_others_stopped(people: People, broker: Broker) -> None:
    for name in ("orders", "payments"):
        broker.do(lambda memory, name=name: used(memory, name, 10))  # type: ignore[misc]
    page = await opened(await people.page("ada"))
    for name in ("orders", "payments"):
        await page.get_by_role("button", name=f"Stop producers of {name}").click()
        await page.locator("dialog").get_by_label("Reason").fill("a look at it")
        await page.locator("dialog button[type=submit]").click()
        await page.locator("dialog").get_by_role("button", name="Close").click()
        await expect(row(page, name).locator(".state")).to_have_text("Stopped")
    await page.get_by_role("button", name="Start producers of orders").click()
    await page.locator("dialog").get_by_label("Reason").fill("seen enough")
    await page.locator("dialog button[type=submit]").click()
    await expect(row(page, "orders").locator(".state")).to_have_text("Normal")
    await expect(row(page, "payments").locator(".state")).to_have_text("Stopped")


async def test_viewer_cannot_act_on_the_page_or_by_the_api(people: People, broker: Broker) -> None:
    people.expected.append("403")
    broker.do(lambda memory: limited(memory, "orders", 10))
    page = await opened(await people.page("vic", "viewers"))
    await expect(row(page, "orders")).to_be_visible()
    await expect(page.locator(".viewer-hint")).to_contain_text("the role of")
    for name in ("Stop all producers", "Start all producers", "Stop producers of orders"):
        await page.get_by_role("button", name=name).click(force=True)  # a person can click it, too
        await expect(page.locator(".toast").last).to_contain_text("the role of")
    await expect(page.locator("dialog")).to_have_count(0)
    status = await page.evaluate(
        """async () => (await fetch("/api/v1/stop-producers/", {method: "POST", headers: {
            "Content-Type": "application/json",
            "X-CSRFToken": document.querySelector("meta[name=csrf-token]").content,
        }, body: JSON.stringify({scope: "type=Broker", reason: "because"})})).status"""
    )
    assert status == 403
    await expect(row(page, "orders").locator(".state")).to_have_text("Normal")


async def test_page_reconnects_to_a_restarted_console_and_shows_the_current_state(
    people: People, broker: Broker, console: Console
) -> None:
    people.expected += ["WebSocket", "ERR_CONNECTION_REFUSED", "Failed to load resource"]
    broker.do(lambda memory: limited(memory, "orders", 10))
    page = await opened(await people.page("ada"))
    await expect(row(page, "orders").locator(".state")).to_have_text("Normal")
    console.stop()
    await expect(page.locator("#connection-text")).to_have_text("Reconnecting…")
    await expect(page.locator("#banner-lost")).to_contain_text("Shown as of")
    broker.do(lambda memory: memory.fill("orders", 20))
    broker.do(lambda memory: limited(memory, "payments", 10))
    console.start()
    await expect(page.locator("#connection-text")).to_have_text("Live", timeout=15_000)
    await expect(page.locator("#banner-lost")).to_be_hidden()
    await expect(row(page, "orders").locator(".state")).to_have_text("Overfull")
    await expect(row(page, "payments")).to_be_visible()
    await expect(page.locator("#feed").get_by_text("Queue overfull")).to_be_visible()
    assert await was_not_reloaded(page)


async def test_lost_broker_and_its_return_are_reported(people: People, broker: Broker) -> None:
    broker.do(lambda memory: limited(memory, "orders", 10))
    page = await opened(await people.page("ada"))
    await expect(row(page, "orders")).to_be_visible()
    broker.lose()
    await expect(page.locator("#banner-lost")).to_contain_text("Local broker cannot be reached")
    await expect(row(page, "orders")).to_be_visible()
    broker.do(lambda memory: memory.fill("orders", 20))
    broker.come_back()
    await expect(page.locator("#banner-lost")).to_be_hidden()
    await expect(row(page, "orders").locator(".state")).to_have_text("Overfull")


async def test_filter_is_in_the_url_and_slash_focuses_it(people: People, broker: Broker) -> None:
    for name in ("orders", "payments.eu", "payments.us"):
        broker.do(lambda memory, name=name: limited(memory, name, 5))  # type: ignore[misc]
    broker.do(lambda memory: memory.fill("payments.eu", 20))
    page = await opened(await people.page("ada"))
    await expect(page.locator("#queue-rows tr")).to_have_count(3)
    await page.keyboard.press("/")
    await page.keyboard.type("pay")
    await expect(page.locator("#queue-rows tr")).to_have_count(2)
    await page.locator(".chip", has_text=re.compile("^Overfull$")).click()
    await expect(page.locator("#queue-rows tr")).to_have_count(1)
    await expect(page).to_have_url(re.compile(r"\?search=pay&state=OVERFULL$"))
    await page.reload()
    await expect(page.locator("#queue-rows tr th a")).to_have_text(["payments.eu"])
    await page.locator("#search").fill("no such")
    await expect(page.locator("#queues-empty")).to_contain_text("No matching queues")
    await page.get_by_role("button", name="Show all queues").click()
    await expect(page.locator("#queue-rows tr")).to_have_count(3)


async def test_bulk_action_applies_to_the_current_filter(people: People, broker: Broker) -> None:
    """The answer for the text that was typed last is late: until it is there nothing can be done to the old answer."""
    for name in ("stock.eu", "stock.us", "payments"):
        broker.do(lambda memory, name=name: used(memory, name, 10))  # type: ignore[misc]
    page = await people.page("ada")
    await page.add_init_script(
        """
        window.late = [];
        const add = WebSocket.prototype.addEventListener;
        WebSocket.prototype.addEventListener = function (type, listener) {
          add.call(this, type, type !== "message" ? listener
            : (event) => (window.waiting ? window.late.push(() => listener(event)) : listener(event)));
        };
        window.deliver = () => { window.waiting = false; for (const each of window.late.splice(0)) each(); };
        """
    )
    await opened(page)
    bar = page.locator("#selection")
    await page.locator("#search").fill("stock")
    await expect(bar).to_contain_text("2 queues match")
    await page.evaluate("window.waiting = true")
    await page.locator("#search").fill("payments")
    assert await bar.get_by_role("button", name="Stop producers").is_disabled()  # at once, not after the pause
    await expect(bar.get_by_role("button", name="Start producers")).to_be_disabled()
    await expect(bar).not_to_contain_text("match")
    await expect(page).to_have_url(re.compile("search=payments"))
    await expect(bar.get_by_role("button", name="Stop producers")).to_be_disabled()
    await until_in_page(page, "() => window.late.length > 0")
    await expect(bar).not_to_contain_text("match")
    await page.evaluate("window.deliver()")
    await expect(bar).to_contain_text("1 queue matches")
    await bar.get_by_role("button", name="Stop producers of 1 queue").click()
    dialog = page.locator("dialog")
    await expect(dialog.locator("h2")).to_have_text("Stop producers of 1 queue with “payments” in the name")
    await expect(dialog.locator(".preview-largest")).to_have_text(re.compile("payments"))
    await expect(dialog.locator(".preview-largest")).not_to_contain_text("stock")


async def test_first_selected_queue_does_not_move_the_rows(people: People, broker: Broker) -> None:
    for name in ("orders", "payments"):
        broker.do(lambda memory, name=name: used(memory, name, 10))  # type: ignore[misc]
    page = await opened(await people.page("ada"))
    bar, box = page.locator("#selection"), page.get_by_label("Select payments")
    await expect(bar).to_contain_text("Select queues or filter them")
    before = await box.bounding_box()
    await box.check()
    await expect(bar).to_contain_text("1 selected")
    assert await box.bounding_box() == before
    await bar.get_by_role("button", name="Clear").click()
    await expect(bar).to_contain_text("Select queues or filter them")


async def test_long_names_are_distinguishable_in_the_table(people: People, broker: Broker) -> None:
    """Of names that differ at their ends nothing is cut off; of much too long ones the middle is."""
    stem = "warehouse.europe.central.stock-movements.replay"  # 47 characters
    names = [f"{stem}.{place}" for place in ("muc", "zrh")]
    names += [f"{'very-long-segment.' * 12}{place}" for place in ("eu", "us")]
    for name in names:
        broker.do(lambda memory, name=name: limited(memory, name, 10))  # type: ignore[misc]
    page = await opened(await people.page("ada"))
    links = page.locator("#queue-rows th a")
    await expect(links).to_have_count(4)
    for width in (1440, 768, 390):
        await page.set_viewport_size({"width": width, "height": 900})
        assert await links.evaluate_all("all => all.every((a) => a.scrollWidth <= a.clientWidth + 1)")
        shown = await links.evaluate_all("all => all.map((a) => a.innerText)")
        assert len(set(shown)) == 4
        assert set(names[:2]) < set(shown)  # whole, if they are of usual length
    titles = await links.evaluate_all("all => all.map((a) => a.title)")
    assert any(names[2] in title for title in titles)


async def test_queues_are_grouped_by_prefix_and_groups_expand_and_stay_open(people: People, broker: Broker) -> None:
    for name in ("shop.orders", "shop.mail", "billing.runs", "alone"):
        broker.do(lambda memory, name=name: limited(memory, name, 10))  # type: ignore[misc]
    page = await opened(await people.page("ada"))
    await page.locator("#table-options summary").click()
    await page.get_by_label("Group by").select_option("prefix")
    await page.keyboard.press("Escape")
    names = page.locator("#queue-rows .c-group button")
    await expect(names).to_have_text(["No prefix", "billing", "shop"], use_inner_text=True)
    await expect(page.locator("#queues-count")).to_have_text("4 in 3 groups")
    await expect(page.locator("#queue-rows .c-name")).to_have_count(0)
    broker.do(lambda memory: memory.fill("shop.mail", 20))  # on no row, but in the totals of its group
    await expect(names).to_have_text(["shop", "No prefix", "billing"], use_inner_text=True)
    shop = page.locator("#queue-rows tr.group").first
    await expect(shop).to_contain_text("1 overfull")
    await expect(shop.locator(".c-depth")).to_contain_text("11 msg")
    for rate in (".c-in", ".c-out"):
        await expect(shop.locator(rate)).to_have_text(re.compile(r"^[\d.,]+$"))
    await shop.get_by_role("button", name="shop").press("Enter")
    await expect(shop.get_by_role("button")).to_have_attribute("aria-expanded", "true")
    await expect(page.locator("#queue-rows .c-name a")).to_have_text(["shop.mail", "shop.orders"])
    await page.reload()
    await expect(page.locator("#queue-rows .c-name a")).to_have_text(["shop.mail", "shop.orders"])
    await expect(page.locator("#queue-rows tr")).to_have_count(5)


@pytest.mark.parametrize("width", [800, 960, 1024])
async def test_stop_of_a_row_is_within_the_table_on_narrow_screens(people: People, broker: Broker, width: int) -> None:
    broker.do(lambda memory: used(memory, "a-very-long-name-with-words.europe.frankfurt.production.orders", 10))
    page = await opened(await people.page("ada", viewport={"width": width, "height": 800}))
    await page.locator("#table-options summary").click()
    await page.get_by_label("Unacknowledged").check()  # the widest: with every column
    box, act = page.locator("#queues-box"), page.locator("#queue-rows .row-act")
    await expect(act).to_be_visible()
    outer, inner = await box.bounding_box(), await act.bounding_box()
    assert outer is not None
    assert inner is not None
    assert inner["x"] + inner["width"] <= outer["x"] + outer["width"]


async def feed_of_one_more_event(page: Page, broker: Broker, name: str) -> int:
    """Cause an event, and let the page's time pass until it is drawn. Return how many lines are drawn then."""
    broker.do(lambda memory: limited(memory, name, 10))
    newest = page.locator("#feed > li").first
    while name not in await newest.inner_text():
        await page.clock.run_for(20)
    return await page.locator("#feed > li").count()


async def test_feed_draws_its_top_at_once_and_other_lines_after_a_pause_or_when_it_is_scrolled(
    people: People, broker: Broker
) -> None:
    for number in range(80):
        broker.do(lambda memory, number=number: limited(memory, f"q{number}", 10))  # type: ignore[misc]
    page = await people.page("ada")
    await page.clock.install()
    await opened(page)
    await page.clock.pause_at(dt.datetime.now(dt.UTC) + dt.timedelta(hours=1))
    lines = page.locator("#feed > li")
    top = math.ceil(await page.evaluate("innerHeight") / 40)
    assert await feed_of_one_more_event(page, broker, "first") == top < 50
    await page.clock.run_for(700)  # it was drawn up to 250 ms after it had arrived
    await expect(lines).to_have_count(top)
    await page.clock.run_for(400)
    await expect(lines).to_have_count(51)  # 50 past events and this one
    assert await feed_of_one_more_event(page, broker, "second") == top
    await page.locator("#feed").evaluate("feed => feed.scrollTo(0, 100)")
    while await lines.count() == top:
        await page.clock.run_for(20)
    assert await lines.count() == 52
    assert await feed_of_one_more_event(page, broker, "third") == 53
