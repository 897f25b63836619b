"""Each flow of an operator by keyboard alone, from the first Tab to the answer: the mouse is never touched."""

from __future__ import annotations

import re

import pytest
from playwright.async_api import Locator, Page, expect

from brokers.model import object_name
from tests.browser.chromium import MISSING, PATH
from tests.browser.conftest import LIMIT, Broker, People
from tests.browser.test_messages import PAGE, published, rows
from tests.browser.test_overview import limited, opened, row, used

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(PATH is None, reason=MISSING),
    pytest.mark.asyncio(loop_scope="module"),
]

expect.set_options(timeout=LIMIT)

ORDERS = object_name("Queue", virtualhost="default", name="orders")
#: A page with more stops than these would be no use by keyboard.
MOST_TABS = 120


async def reach(page: Page, target: Locator, key: str = "Tab") -> None:
    """Press Tab, or the key given, until the target has the focus, and see that it shows it."""
    await target.wait_for()
    for _ in range(MOST_TABS):
        if await target.evaluate("(one) => one === document.activeElement"):
            await expect(target).to_be_in_viewport()
            return
        await page.keyboard.press(key)
    raise AssertionError(f"{MOST_TABS} Tabs do not reach {target}")


async def press(page: Page, target: Locator, key: str = "Enter") -> None:
    await reach(page, target)
    await page.keyboard.press(key)


async def enter(page: Page, target: Locator, text: str) -> None:
    """Replace what a field has."""
    await reach(page, target)
    await page.keyboard.press("ControlOrMeta+a")
    await page.keyboard.type(text)


async def test_producers_are_stopped_and_started_by_keyboard(people: People, broker: Broker) -> None:
    broker.do(lambda memory: used(memory, "orders", 10))
    page = await opened(await people.page("ada"))
    stop = row(page, "orders").get_by_role("button", name="Stop producers of orders")
    await press(page, stop)
    dialog, banner = page.locator("dialog"), page.locator("#banner-stops")
    await expect(dialog.get_by_label("Reason")).to_be_focused()
    await page.keyboard.type("incident 7")
    await press(page, dialog.locator("button[type=submit]"))
    await expect(banner).to_contain_text("incident 7")
    await press(page, dialog.get_by_role("button", name="Close"))
    await expect(dialog).to_have_count(0)
    await press(page, banner.get_by_role("button", name="Start again"))
    await expect(dialog.get_by_label("Reason")).to_be_focused()
    await page.keyboard.type("it is over")
    await press(page, dialog.locator("button[type=submit]"))
    await expect(banner).to_be_hidden()
    await page.keyboard.press("Escape")
    await expect(dialog).to_have_count(0)


async def test_limits_are_edited_by_keyboard(people: People, broker: Broker) -> None:
    broker.do(lambda memory: limited(memory, "orders", 10))
    page = await opened(await people.page("ada"), "/queues/default/orders/")
    edit = page.locator("#edit-limits")
    await press(page, edit)
    await enter(page, page.locator(".limits-form").get_by_label("Capacity, messages", exact=True), "30")
    await page.keyboard.press("Enter")
    await expect(page.locator(".toast")).to_contain_text("Limits saved")
    await expect(edit).to_be_focused()
    assert broker.do(lambda memory: memory.management.read(ORDERS)["capacity_messages"]) == 30


async def test_message_is_found_and_moved_by_keyboard(people: People, broker: Broker) -> None:
    broker.do(published)
    page = await people.page("ada")
    await page.goto(PAGE)
    await press(page, rows(page).nth(1).locator("input.pick"), "Space")
    await reach(page, page.locator("#selection").get_by_role("button", name="Move…"), "Shift+Tab")  # above the list
    await page.keyboard.press("Enter")
    dialog = page.locator("dialog")
    await expect(dialog.locator("h2")).to_have_text("Move: 1 ticked message")
    await reach(page, dialog.locator("#target"))
    await page.keyboard.type("pay")
    await expect(dialog.locator("#target")).to_have_value("payments")
    await enter(page, dialog.get_by_label("Reason"), "incident 7")
    await press(page, dialog.get_by_role("button", name="Move 1 message"))
    await expect(page.locator(".toast")).to_contain_text("Moved 1 message.")
    await expect(dialog).to_have_count(0)
    await expect(rows(page)).to_have_count(2)
    await expect(page.locator("#messages-table").locator("..")).to_be_focused()


async def test_alert_rule_is_created_by_keyboard(people: People, broker: Broker) -> None:
    broker.do(lambda memory: limited(memory, "orders", 10))
    page = await opened(await people.page("ada"), "/alerts/rules/new/")
    await enter(page, page.get_by_label("Name"), "Orders are stuck")
    await press(page, page.get_by_label("Overfull", exact=True), "Space")
    await expect(page.get_by_label("Overfull", exact=True)).to_be_checked()
    await press(page, page.get_by_role("button", name="Save"))
    await expect(page.locator("#rules")).to_contain_text("Orders are stuck")


async def test_schedule_is_created_by_keyboard(people: People, broker: Broker) -> None:
    broker.do(lambda memory: limited(memory, "orders", 10))
    page = await opened(await people.page("ada"), "/schedules/new/")
    await enter(page, page.get_by_label("Name"), "Night")
    target = page.locator("[name=target]")
    await reach(page, target)
    await page.keyboard.type("orders")
    await expect(target).to_have_value(str(ORDERS))
    await enter(page, page.locator("[name=reason]"), "the nightly import")
    await press(page, page.get_by_role("button", name="Save"))
    await expect(page.locator("#schedules tr")).to_contain_text(re.compile("Night.*at 22:00", re.DOTALL))
