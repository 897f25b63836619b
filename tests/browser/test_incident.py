"""An incident in Chromium: why a queue is blocked, stops that end automatically, undo, and a viewer's pages."""

from __future__ import annotations

import re

import pytest
from playwright.async_api import expect

from brokers.model import object_name
from brokers.testing import InMemoryBroker
from tests.browser.chromium import MISSING, PATH
from tests.browser.conftest import LIMIT, Broker, People
from tests.browser.test_overview import opened, row, used, was_not_reloaded

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(PATH is None, reason=MISSING),
    pytest.mark.asyncio(loop_scope="module"),
]

expect.set_options(timeout=LIMIT)

ORDERS = object_name("Queue", virtualhost="default", name="orders")

STOCK = object_name("Queue", virtualhost="default", name="stock")


def overfull(memory: InMemoryBroker) -> None:
    memory.management.create(
        object_name("Policy", virtualhost="default", pattern="orders"),
        {"capacity_messages": 10, "flow_resume_messages": "50%"},
    )
    memory.fill("orders", 20)
    memory._end_turn()


async def test_blocked_number_links_to_the_details_which_stay_live(people: People, broker: Broker) -> None:
    broker.do(overfull)
    page = await opened(await people.page("ada"))
    await row(page, "orders").get_by_role("link", name="1 of 1 producers blocked").click()
    await expect(page.locator("#connection-text")).to_have_text("Live")
    await page.evaluate("window.notReloaded = true")
    await expect(page.locator("#verdict")).to_have_text("1 producer is blocked: queue orders is overfull.")
    await expect(page.locator("#when")).to_contain_text("the queue has no consumers")
    await expect(page.locator(".chain .effective")).to_contain_text("10 messages")
    await expect(page.locator(".cause")).to_contain_text("Capacity 10 messages from pattern orders")
    await expect(page.locator("#consumers-empty")).to_contain_text("No consumers attached for 11 queued messages")
    await page.locator("#producers th a").click()
    await expect(page.locator("#verdict")).to_have_text("This producer is blocked: queue orders is overfull.")
    await expect(page.locator(".chain .link")).to_contain_text("blocked: no credit")
    await page.locator("#queue-page").click()
    await page.locator("#why").click()
    await expect(page.locator(".cause")).to_have_count(1)
    await page.evaluate("window.notReloaded = true")
    broker.do(lambda memory: memory.management.call(ORDERS, "stop-producers", {"reason": "incident 7"}, "bert"))
    broker.do(lambda memory: memory._end_turn())
    await expect(page.locator(".cause")).to_have_count(2)
    await expect(page.locator("#verdict")).to_contain_text("and bert stopped the producers")
    broker.do(lambda memory: memory.consume(memory.attach_consumer("orders"), 20))
    await expect(page.locator(".cause")).to_have_count(1)
    assert await was_not_reloaded(page)


async def test_start_of_an_overfull_queue_that_is_not_stopped_says_that_there_is_nothing_to_start(
    people: People, broker: Broker
) -> None:
    broker.do(overfull)
    page = await opened(await people.page("ada"), f"/why/?object={ORDERS}")
    ways = page.locator(".cause dd", has_text="consumers that drain it")
    await expect(ways.get_by_role("link", name="a higher capacity")).to_have_attribute(
        "href", re.compile(r"/queues/default/orders/.*#limits")
    )
    await expect(ways.get_by_role("link", name="purging or moving its messages")).to_have_attribute(
        "href", re.compile("/messages/")
    )
    await page.get_by_role("button", name="Start producers").click()
    dialog = page.locator("dialog")
    await expect(dialog.locator(".preview-count")).to_have_text("Nothing to start: this queue is not stopped.")
    await dialog.get_by_label("Reason").fill("it looked like the way out")
    await dialog.locator("button[type=submit]").click()
    await expect(dialog.get_by_role("heading")).to_have_text("Nothing changed")
    await expect(dialog.locator(".answer")).to_have_text("No producer was started: this stop was not in force.")
    await expect(dialog).not_to_contain_text("Removed")


async def test_selection_is_stopped_for_a_duration_and_undone_with_one_click(people: People, broker: Broker) -> None:
    for name in ("orders", "payments", "stock"):
        broker.do(lambda memory, name=name: used(memory, name, 10))  # type: ignore[misc]
    page = await opened(await people.page("ada"))
    for name in ("orders", "stock"):
        await page.get_by_role("checkbox", name=f"Select {name}").check()
    await page.locator("#selection").get_by_role("button", name="Stop producers of").click()
    dialog = page.locator("dialog")
    await expect(dialog.locator("h2")).to_have_text("Stop producers of 2 selected queues")
    await expect(dialog.locator(".preview-count")).to_have_text("This stops 2 producers of 2 queues.")
    await dialog.get_by_label("Reason").fill("a look at it")
    await dialog.get_by_label("Minutes until").fill("15")
    await dialog.locator("button[type=submit]").click()
    await expect(dialog.locator(".answer")).to_have_text("2 producers of 2 queues receive no more credit.")
    broker.do(lambda memory: memory.advance(1000))
    await expect(dialog.locator(".draining-now")).to_contain_text("0: no messages in flight")
    await expect(page.locator("#banner-stops")).to_contain_text("Producers of 2 queues are stopped: a look at it")
    await expect(page.locator("#banner-stops")).to_contain_text("Resumes automatically in 1")
    await expect(row(page, "payments").locator(".state")).to_have_text("Normal")
    await dialog.get_by_role("button", name="Undo").click()
    await expect(dialog.locator("h2")).to_have_text("Undone")
    await dialog.get_by_role("button", name="Close").click()
    await expect(page.locator("#banner-stops")).to_be_hidden()
    await expect(page.locator("#queue-rows .state")).to_have_text(["Normal", "Normal", "Normal"])


async def test_filter_stops_the_previewed_queues_and_the_banner_starts_them(people: People, broker: Broker) -> None:
    for name in ("orders.eu", "orders.us", "stock"):
        broker.do(lambda memory, name=name: used(memory, name, 10))  # type: ignore[misc]
    page = await opened(await people.page("ada"))
    await page.locator("#search").fill("orders")
    await expect(page.locator("#selection")).to_contain_text("2 queues match")
    await page.locator("#selection").get_by_role("button", name="Stop producers of").click()
    dialog = page.locator("dialog")
    await expect(dialog.locator(".preview-count")).to_have_text("This stops 2 producers of 2 queues.")
    await dialog.get_by_label("Reason").fill("incident 7")
    await dialog.locator("button[type=submit]").click()
    await dialog.get_by_role("button", name="Close").click()
    await page.locator("#banner-stops").get_by_role("button", name="Start again").click()
    await expect(dialog.locator("h2")).to_have_text("Start producers of 2 queues")
    await dialog.get_by_label("Reason").fill("it is over")
    await dialog.locator("button[type=submit]").click()
    await expect(dialog.locator(".answer")).to_contain_text("Removed the stop for 2 producers of 2 queues")
    await dialog.get_by_role("button", name="Close").click()
    await expect(page.locator("#banner-stops")).to_be_hidden()


async def test_viewer_sees_why_and_cannot_act_on_it(people: People, broker: Broker) -> None:
    broker.do(overfull)
    page = await opened(await people.page("vic", "viewers"), f"/why/?object={ORDERS}")
    await expect(page.locator("#verdict")).to_have_text("1 producer is blocked: queue orders is overfull.")
    await page.get_by_role("button", name="Stop producers").click(force=True)
    await expect(page.locator(".toast").last).to_contain_text("the role of")
    await page.goto("/?search=orders")
    await page.locator("#selection").get_by_role("button", name="Stop producers of").click(force=True)
    await expect(page.locator(".toast").last).to_contain_text("the role of")
    await expect(page.locator("dialog")).to_have_count(0)


async def test_condition_appears_live_on_the_overview_and_the_queue_page(people: People, broker: Broker) -> None:
    page = await opened(await people.page("vic", "viewers"))
    await expect(page.locator("#conditions-count")).to_have_text("No active conditions")
    broker.do(overfull)
    broker.sample()
    await expect(row(page, "orders").locator(".state")).to_have_text("Overfull")
    for _ in range(3):
        broker.do(lambda memory: memory.advance(3000, step=500))
        broker.do(lambda memory: memory.attach_producer("another"))  # a change, so that the broker sends its time
        broker.sample()
    condition = page.locator("#conditions .condition")
    await expect(condition).to_contain_text("Blocked without consumers orders")
    await expect(condition).to_contain_text("Start a consumer.")
    await page.get_by_role("button", name="Show", exact=True).click()
    await condition.get_by_role("link", name="orders", exact=True).click()
    await expect(page.locator("#conditions .condition")).to_contain_text(
        "the queue has no consumers. Depth: 11 messages."
    )
    broker.do(lambda memory: memory.consume(memory.attach_consumer("orders"), 20))
    broker.do(lambda memory: memory.advance(9000, step=500))
    broker.sample()
    await expect(page.locator("#conditions")).to_be_hidden()
    assert await page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")


@pytest.mark.parametrize("width", [390, 768, 1440])
@pytest.mark.parametrize("path", ["/", "/queues/default/orders/", f"/why/?object={ORDERS}"])
async def test_appearing_and_disappearing_conditions_do_not_move_the_page(
    people: People, broker: Broker, path: str, width: int
) -> None:
    broker.do(lambda memory: (memory.management.create(ORDERS, {}), memory._end_turn()))
    page = await people.page("vic", "viewers")
    await page.set_viewport_size({"width": width, "height": 900})
    await opened(page, path)
    below = page.locator(".overview-grid, .queue-grid, #verdict-card")
    await expect(page.locator("#conditions-count")).to_have_text("No active conditions")

    async def place() -> float:
        box = await below.bounding_box()
        assert box
        return box["y"]

    await page.evaluate("document.fonts.ready")
    quiet = await place()
    broker.do(overfull)
    worst = "Blocked without consumers orders" if path == "/" else "Blocked without consumers"
    for _ in range(3):
        broker.do(lambda memory: memory.advance(3000, step=500))
        broker.do(lambda memory: memory.attach_producer("another"))  # a change, so that the broker sends its time
        broker.sample()
    await expect(page.locator("#conditions-worst")).to_contain_text(worst)
    await expect(page.locator("#conditions")).to_be_hidden()
    assert await place() == quiet

    await page.get_by_role("button", name="Show", exact=True).click()
    await expect(page.locator("#conditions .condition")).to_contain_text("Start a consumer.")
    assert await place() == quiet
    box = await page.locator("#conditions").bounding_box()
    assert box
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= width
    await page.keyboard.press("Escape")
    await expect(page.locator("#conditions")).to_be_hidden()
    await expect(page.get_by_role("button", name="Show", exact=True)).to_be_focused()


async def test_fields_of_the_timeline_have_their_labels_in_one_line(people: People, broker: Broker) -> None:
    page = await opened(await people.page("vic", "viewers"), "/timeline/")
    labels = page.locator(".named > span:first-child")
    await expect(page.locator("#presets button").first).to_be_visible()
    await page.set_viewport_size({"width": 2560, "height": 900})
    tops = await labels.evaluate_all("(all) => all.map((each) => Math.round(each.getBoundingClientRect().top))")
    assert len(tops) > 5
    assert len(set(tops)) == 1


async def test_timeline_is_live_and_its_url_shows_the_same_search_to_others(people: People, broker: Broker) -> None:
    broker.do(overfull)
    page = await opened(await people.page("ada"), "/timeline/?kind=queue-overfull")
    lines = page.locator("#entries > li")
    await expect(lines).to_have_count(1)
    await expect(lines).to_contain_text("Queue overfull orders")
    broker.do(lambda memory: memory.management.create(STOCK, {"capacity_messages": 5}))
    broker.do(lambda memory: memory.fill("stock", 10))
    await expect(lines).to_have_count(2)
    await expect(lines.first).to_contain_text("Queue overfull stock")
    await page.locator("select[name=kind]").select_option("")
    await page.locator("input[name=queue]").fill("stock")
    await expect(lines.filter(has_text="Producer blocked")).to_have_count(1)
    await expect(lines.filter(has_text="orders")).to_have_count(0)
    assert await was_not_reloaded(page)
    address = page.url.removeprefix(page.url.split("/timeline")[0])
    other = await opened(await people.page("vic", "viewers"), address)
    await expect(other.locator("input[name=queue]")).to_have_value("stock")
    await expect(other.locator("#entries > li").filter(has_text="Producer blocked")).to_have_count(1)
    await other.get_by_label("Search in all fields").fill("nothing of the kind")
    await expect(other.locator("#entries-empty")).to_contain_text("No matching entries")
    async with other.expect_download() as downloading:
        await other.get_by_role("button", name="Clear").click()
        await other.get_by_role("link", name="CSV").click()
    download = await downloading.value
    assert download.suggested_filename == "timeline-local.csv"


async def test_stop_is_undone_from_the_page_after_its_dialog_is_closed(people: People, broker: Broker) -> None:
    for name in ("orders", "payments"):
        broker.do(lambda memory, name=name: used(memory, name, 10))  # type: ignore[misc]
    page = await opened(await people.page("ada"))
    dialog, toast = page.locator("dialog"), page.locator(".toast")

    async def stop_orders(reason: str) -> None:
        await page.get_by_role("button", name="Stop producers of orders").click()
        await dialog.get_by_label("Reason").fill(reason)
        await dialog.locator("button[type=submit]").click()
        await dialog.get_by_role("button", name="Close").click()
        await expect(page.locator("#banner-stops")).to_contain_text(reason)

    await stop_orders("a look at it")
    await expect(toast).to_contain_text("queue orders: producers stopped.")
    await toast.get_by_role("button", name="Undo").click()
    await expect(toast).to_contain_text("queue orders: stop undone.")
    await expect(page.locator("#banner-stops")).to_be_hidden()
    await expect(row(page, "orders").locator(".state")).to_have_text("Normal")
    await toast.get_by_role("button", name="Close").click()

    # Another stop that has taken its place is not this one's to undo.
    await stop_orders("a second look")
    broker.do(
        lambda memory: (
            memory.advance(1000),  # a stop is known by its begin
            memory.management.call(ORDERS, "start-producers", {"reason": "enough"}, "bert"),
            memory.management.call(ORDERS, "stop-producers", {"reason": "incident 7"}, "bert"),
            memory._end_turn(),
        )
    )
    await expect(page.locator("#banner-stops")).to_contain_text("incident 7")
    await toast.get_by_role("button", name="Undo").click()
    await expect(toast).to_contain_text("queue orders: This stop is no longer in force, or was changed meanwhile.")
    await expect(row(page, "orders").locator(".state")).to_have_text("Stopped")


async def test_undo_gives_an_older_stop_its_end_again_or_says_why_not(people: People, broker: Broker) -> None:
    def stopped(memory: InMemoryBroker) -> None:
        used(memory, "orders", 10)
        memory.fill("orders", 8)
        memory.management.call(ORDERS, "stop-producers", {"reason": "older", "below": 40}, "bert")
        memory._end_turn()

    broker.do(stopped)
    page = await opened(await people.page("ada"))
    dialog, banner = page.locator("dialog"), page.locator("#banner-stops")
    await expect(banner).to_contain_text("Resumes automatically at a depth of 40%")

    await page.get_by_role("checkbox", name="Select orders").check()

    async def stop_again() -> None:
        await page.locator("#selection").get_by_role("button", name="Stop producers of").click()
        await dialog.get_by_label("Reason").fill("a look at it")
        await dialog.get_by_label("Minutes until").fill("15")
        await dialog.locator("button[type=submit]").click()
        await expect(dialog).to_contain_text("by bert")
        await expect(dialog).to_contain_text(
            "It stays, with the new end. Undo restores the earlier end: resumes automatically at a depth of 40%."
        )
        await expect(banner).to_contain_text("Resumes automatically in 1")

    await stop_again()
    await dialog.get_by_role("button", name="Undo").click()
    await expect(dialog.locator("h2")).to_have_text("Undone")
    await expect(dialog.locator(".answer")).to_have_text(
        "1 queue stopped as before: resumes automatically at a depth of 40%."
    )
    await dialog.get_by_role("button", name="Close").click()
    await expect(banner).to_contain_text("Resumes automatically at a depth of 40%")

    await stop_again()
    broker.do(lambda memory: memory.consume(memory.attach_consumer("orders"), 8))
    people.expected.append("400")
    await dialog.get_by_role("button", name="Undo").click()
    await expect(dialog.get_by_role("alert").last).to_contain_text("Undo failed: below is 40%")
    await expect(dialog.get_by_role("alert").last).to_contain_text("it would end at once")
    await expect(banner).to_contain_text("Resumes automatically in 1")
