"""Stops and starts in Chromium beyond the plain ones: in stages, by saved selections; and the many queues that they are
chosen from, page by page."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connections
from playwright.async_api import Route, expect

from brokers.model import object_name
from brokers.testing import InMemoryBroker
from console.access.actor import Actor
from console.operations import Aim, stop_producers
from tests.browser.chromium import MISSING, PATH
from tests.browser.conftest import LIMIT, Broker, People
from tests.browser.test_overview import opened, row, used

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(PATH is None, reason=MISSING),
    pytest.mark.asyncio(loop_scope="module"),
]

expect.set_options(timeout=LIMIT)

ORDERS = object_name("Queue", virtualhost="default", name="orders")
PAYMENTS = object_name("Queue", virtualhost="default", name="payments")
_BROKER = object_name("Broker")


@pytest.mark.domain("3 staged start")
async def test_staged_start_halts_when_the_depth_exceeds_its_limit(people: People, broker: Broker) -> None:
    def create(memory: InMemoryBroker) -> Any:
        memory.management.create(ORDERS, {"capacity_messages": 100})
        return memory.attach_producer("orders")

    producer = broker.do(create)
    page = await opened(await people.page("ada"))
    await page.get_by_role("button", name="Stop producers of orders").click()
    dialog = page.locator("dialog")
    await dialog.get_by_label("Reason").fill("consumers are down")
    await dialog.locator("button[type=submit]").click()
    await dialog.get_by_role("button", name="Close").click()
    await expect(row(page, "orders").locator(".state")).to_have_text("Stopped")

    await page.get_by_role("button", name="Start producers of orders").click()
    await dialog.get_by_label("Reason").fill("staged")
    await dialog.get_by_label("Initial messages per second").fill("0")
    await dialog.locator("button[type=submit]").click()
    await expect(dialog.get_by_role("alert")).to_contain_text("must be a whole number from 1")
    await dialog.get_by_label("Initial messages per second").fill("50")
    await dialog.get_by_label("Percent of the capacity at which the start halts").fill("40")
    await dialog.locator("button[type=submit]").click()
    await expect(dialog.locator(".answer")).to_contain_text("being started in stages, initially 50 messages/s")
    await dialog.get_by_role("button", name="Close").click()
    banner = page.locator("#banner-stops")
    await expect(banner).to_contain_text("Producers of queue orders are being started in stages")
    await expect(banner).to_contain_text("halts above 40%")
    await expect(banner).not_to_contain_text("consumers are down")
    await expect(row(page, "orders").locator(".state")).to_have_text("Staged start")
    timeline = await opened(await people.page("ben"), "/timeline/")
    await expect(timeline.locator("#banner-stops")).to_contain_text("being started in stages")

    for _ in range(3):  # without consumers the depth grows
        broker.do(lambda memory: (memory.advance(1000, step=100), memory.publish(producer, 20)))
    broker.do(lambda memory: memory.advance(1000, step=100))
    await expect(row(page, "orders").locator(".state")).to_have_text("Stopped")
    assert broker.do(lambda memory: memory.management.read(ORDERS)["depth_messages"]) < 100
    halted = re.compile(r"The staged start of queue orders halted: queue orders is at \d\d%, above 40%")
    for each in (page, timeline):
        await expect(each.locator("#banner-stops")).to_contain_text(halted)
        await expect(each.locator("#banner-stops")).to_contain_text(
            re.compile(r"Started by ada at \d\d:\d\d:\d\d: staged")
        )
        await expect(each.locator("#banner-stops")).not_to_contain_text("consumers are down")
        await expect(each.locator(".toast.error")).to_contain_text(halted)
    await expect(timeline.locator("#entries")).to_contain_text(
        re.compile("the staged start of ada halted: queue orders is at ")
    )
    await expect(page.locator("#conditions")).to_contain_text("Staged start halted")


async def test_viewer_sees_the_banner_of_a_stop_but_cannot_start_producers(people: People, broker: Broker) -> None:
    def stop(memory: InMemoryBroker) -> None:
        used(memory, "orders", 10)
        memory.management.call(
            object_name("Broker"), "stop-producers", {"reason": "incident 9", "actor": "olga"}, "olga"
        )
        memory._end_turn()

    broker.do(stop)
    page = await opened(await people.page("vic", "viewers"))
    await expect(page.locator("#banner-stops")).to_contain_text("incident 9")
    await page.locator("#banner-stops").get_by_role("button", name="Start again").click(force=True)
    await expect(page.locator(".toast").last).to_contain_text("the role of operator")
    await expect(page.locator("dialog")).to_have_count(0)
    await expect(row(page, "orders").locator(".state")).to_have_text("Stopped")


# -- saved selections -------------------------------------------------------------------------------------------------


async def test_saved_filter_is_shared_and_stopped_by_another_user(people: People, broker: Broker) -> None:
    for name in ("orders.eu", "orders.us", "stock"):
        broker.do(lambda memory, name=name: used(memory, name, 10))  # type: ignore[misc]
    page = await opened(await people.page("ada"), "/?search=orders&only=no-consumers")
    await page.locator("#selection").get_by_role("button", name="Save…").click()
    dialog = page.locator("dialog")
    await dialog.get_by_label("Name").fill("the shop")
    await dialog.get_by_label("Share with all users").check()
    await dialog.get_by_role("button", name="Save").click()
    await expect(page.locator("#saved option:checked")).to_have_text("the shop")

    other = await opened(await people.page("ben"))
    await other.get_by_label("Saved selections").select_option(label="the shop (ada)")
    await expect(other.locator("#queue-rows tr")).to_have_count(2)
    await expect(other.locator("#search")).to_have_value("orders")
    await expect(other.get_by_label("No consumers")).to_be_checked()
    await other.get_by_role("button", name="Stop all producers").click()
    dialog = other.locator("dialog")
    await dialog.get_by_text("Restrict to queues").click()
    await dialog.get_by_label("Saved selection").select_option(label="the shop (ada)")
    await expect(dialog.locator("h2")).to_have_text("Stop producers of the shop (ada)")
    await expect(dialog.locator(".preview-count")).to_have_text("This stops 2 producers of 2 queues.")
    await dialog.get_by_label("Reason").fill("incident 8")
    await dialog.locator("button[type=submit]").click()
    await expect(dialog.locator(".answer")).to_have_text("2 producers of 2 queues receive no more credit.")
    stock = object_name("Queue", virtualhost="default", name="stock")
    assert broker.do(lambda memory: memory.management.read(stock)["state"]) == "NORMAL"
    await other.goto("/audit/")
    await expect(other.locator(".audit-table tbody")).to_contain_text("save-selection")


async def test_selection_of_queues_is_saved_reused_and_deleted(people: People, broker: Broker) -> None:
    for name in ("orders", "payments", "stock"):
        broker.do(lambda memory, name=name: used(memory, name, 10))  # type: ignore[misc]
    page = await opened(await people.page("ada"))
    for name in ("orders", "stock"):
        await page.get_by_role("checkbox", name=f"Select {name}").check()
    await page.locator("#selection").get_by_role("button", name="Save…").click()
    await page.locator("dialog").get_by_label("Name").fill("two")
    await page.locator("dialog").get_by_role("button", name="Save").click()
    await expect(page.locator(".toast")).to_contain_text("Saved as two")
    await page.goto("/")
    await page.get_by_label("Saved selections").select_option(label="two")
    await expect(page.locator("#selection")).to_contain_text("2 selected")
    await expect(page.get_by_role("checkbox", name="Select stock")).to_be_checked()
    await expect(page.get_by_role("checkbox", name="Select payments")).not_to_be_checked()
    await page.locator("#saved-box").get_by_role("button", name="Delete").click()
    await expect(page.locator("#saved-box")).to_be_hidden()


async def test_viewer_can_save_a_selection_but_not_share_it_or_stop_its_queues(people: People, broker: Broker) -> None:
    broker.do(lambda memory: used(memory, "orders", 10))
    page = await opened(await people.page("vic", "viewers"), "/?search=orders")
    await page.locator("#selection").get_by_role("button", name="Save…").click()
    dialog = page.locator("dialog")
    await expect(dialog.get_by_label("Share with all users")).to_be_disabled()
    await dialog.get_by_label("Name").fill("mine")
    await dialog.get_by_role("button", name="Save").click()
    await expect(page.locator("#saved option:checked")).to_have_text("mine")
    await page.locator("#selection").get_by_role("button", name="Stop producers of").click(force=True)
    await expect(page.locator(".toast").last).to_contain_text("the role of")
    await expect(page.locator("dialog")).to_have_count(0)


# -- many queues ------------------------------------------------------------------------------------------------------


async def test_thousand_queues_are_paged_and_only_one_page_is_rendered(people: People, broker: Broker) -> None:
    def create(memory: InMemoryBroker) -> None:
        for n in range(1000):
            memory.attach_producer(f"q{n:04}")

    broker.do(create)
    page = await opened(await people.page("ada"))
    names = page.locator("#queue-rows tr th a")
    await expect(names).to_have_count(50)
    await expect(page.locator("#queues-pager .where")).to_contain_text("50 of 1,000 queues")
    await page.keyboard.press("]")
    await expect(names.first).to_have_text("q0050")
    await expect(page).to_have_url(re.compile(r"\?page=2$"))
    await page.get_by_label("Rows per page").select_option("25")
    await expect(names).to_have_count(25)
    await expect(names.first).to_have_text("q0000")
    await page.goto("/?page=40")
    await expect(names.first).to_have_text("q0975")
    await expect(page.locator("#queues-pager").get_by_role("button", name="Next")).to_be_disabled()
    await page.locator("#search").fill("q0001")
    await expect(names).to_have_text(["q0001"])
    await expect(page.locator("#queues-pager")).to_be_hidden()


async def test_page_size_that_the_server_has_not_confirmed_is_on_the_next_page_and_saved(
    people: People, broker: Broker
) -> None:
    def create(memory: InMemoryBroker) -> None:
        for n in range(60):
            memory.attach_producer(f"q{n:04}")

    broker.do(create)
    page = await opened(await people.page("ada"))
    names = page.locator("#queue-rows tr th a")

    answering = False

    async def answer_later(route: Route) -> None:
        if answering:
            await route.continue_()

    await page.route("**/api/v1/preferences/", answer_later)
    await expect(names).to_have_count(50)
    await page.get_by_label("Rows per page").select_option("25")
    await expect(names).to_have_count(25)
    await page.goto("/?page=2")  # the browser cancels what is not answered
    await expect(names.first).to_have_text("q0025")
    async with page.expect_response("**/api/v1/preferences/") as saved:
        answering = True
        await page.reload()
    assert (await saved.value).ok
    await expect(names.first).to_have_text("q0025")
    other = await opened(await page.context.new_page(), "/?page=2")  # another tab has what the server has
    await expect(other.locator("#queue-rows tr th a").first).to_have_text("q0025")


async def test_stop_dialog_shows_the_number_of_further_queues(people: People, broker: Broker) -> None:
    for n in range(7):
        broker.do(lambda memory, n=n: used(memory, f"q{n}", 10))  # type: ignore[misc]
    page = await opened(await people.page("ada"))
    await expect(page.locator("#queue-rows tr")).to_have_count(7)
    await page.get_by_role("button", name="Stop all producers").click()
    await expect(page.locator("dialog .preview-largest li")).to_have_count(6)
    await expect(page.locator("dialog .preview-largest li").last).to_have_text("2 more")


# -- help beside fields ------------------------------------------------------------------------------------------------


async def test_help_beside_a_field_is_opened_and_closed_by_keyboard_in_the_dialog(
    people: People, broker: Broker
) -> None:
    broker.do(lambda memory: used(memory, "orders", 10))
    page = await opened(await people.page("ada"))
    await row(page, "orders").get_by_role("button", name="Stop").click()
    dialog = page.locator("dialog")
    await dialog.get_by_label("Reason").fill("typed before")
    button = dialog.get_by_role("button", name="What is automatic end?")
    await button.focus()
    await page.keyboard.press("Enter")
    help_text = dialog.locator(".explanation:popover-open")
    await expect(help_text.locator(".explained-term")).to_have_text("Automatic end")
    await expect(help_text.locator(".explained-text")).to_contain_text("the broker lifts a stop without an operator.")
    await expect(help_text.get_by_role("link").last).to_have_attribute("href", "/help/terms/#automatic-end")
    await page.keyboard.press("Escape")
    await expect(help_text).to_have_count(0)
    await expect(button).to_be_focused()
    await expect(dialog).to_be_visible()
    await expect(dialog.get_by_label("Reason")).to_have_value("typed before")
    await expect(dialog.get_by_role("group", name="Resume automatically", exact=True)).to_be_visible()


@pytest.mark.parametrize(
    ("aim", "what"),
    [
        (Aim(ORDERS), "queue orders"),
        (Aim(_BROKER, queues=(str(ORDERS),)), "queue orders"),
        (Aim(_BROKER, queues=(str(ORDERS), str(PAYMENTS))), "2 queues"),
    ],
    ids=["one queue", "one selected queue", "two selected queues"],
)
async def test_undo_in_the_banner_restores_the_end_before_the_last_change_and_then_removes_the_stop(
    people: People, broker: Broker, aim: Aim, what: str
) -> None:
    for name in ("orders", "payments"):
        broker.do(lambda memory, name=name: used(memory, name, 10))  # type: ignore[misc]
    page = await opened(await people.page("ada"))

    def stop(**end: int) -> None:
        try:
            ada = Actor(User.objects.get(username="ada"), "127.0.0.1")
            stop_producers(ada, broker.link, aim, reason="incident 7", **end)
        finally:
            connections.close_all()

    banner, toast = page.locator("#banner-stops"), page.locator(".toast").last
    undo = banner.get_by_role("button", name="Undo")
    await asyncio.to_thread(stop)
    await asyncio.to_thread(stop, for_ms=600_000)
    await expect(banner).to_contain_text("Resumes automatically")
    await undo.click()
    await expect(toast).to_contain_text(f"{what}: the stop has no automatic end, as before.")
    await expect(banner).not_to_contain_text("Resumes automatically")
    await expect(banner).to_contain_text("incident 7")
    await undo.click()
    await expect(toast).to_contain_text(f"{what}: stop undone.")
    await expect(banner).to_be_hidden()


async def test_undo_in_the_dialog_leaves_a_stop_whose_end_another_has_changed(people: People, broker: Broker) -> None:
    """The reason and the user are those of the first request, the end that of the last."""
    broker.do(lambda memory: used(memory, "orders", 10))
    page = await opened(await people.page("ada"))
    await page.get_by_role("button", name="Stop all producers").click()
    dialog = page.locator("dialog")
    await dialog.get_by_label("Reason").fill("incident 7")
    await dialog.locator("button[type=submit]").click()
    undo = dialog.get_by_role("button", name="Undo")
    await expect(undo).to_be_enabled()
    arguments = {"reason": "incident 7", "actor": "ben", "for_ms": 600_000}
    await asyncio.to_thread(broker.link.call, lambda admin: admin.call(_BROKER, "stop-producers", arguments))
    await undo.click()
    await expect(dialog.locator("h2")).to_have_text("Not undone")
    await expect(dialog).to_contain_text("This stop is no longer in force, or was changed meanwhile.")
    stops = broker.do(lambda memory: list(memory.engine.stops.values()))
    assert [bool(stop.end.until) for stop in stops] == [True]


async def test_undo_in_the_banner_changes_nothing_while_the_earlier_end_is_not_known(
    people: People, broker: Broker
) -> None:
    people.expected += ["500"]
    broker.do(lambda memory: used(memory, "orders", 10))
    page = await opened(await people.page("ada"))

    async def fail(route: Route) -> None:
        await route.fulfill(status=500, body="{}", content_type="application/json")

    await page.route("**/api/v1/audit/?*", fail)
    await page.get_by_role("button", name="Stop producers of orders").click()
    dialog = page.locator("dialog")
    await dialog.get_by_label("Reason").fill("incident 7")
    await dialog.locator("button[type=submit]").click()
    await dialog.get_by_role("button", name="Close").click()
    banner = page.locator("#banner-stops")
    await banner.get_by_role("button", name="Undo").click()
    await expect(page.locator(".toast.error")).to_contain_text("The earlier end is not known")
    await expect(row(page, "orders").locator(".state")).to_have_text("Stopped")
    await page.unroute("**/api/v1/audit/?*")
    await banner.get_by_role("button", name="Undo").click()
    await expect(banner).to_be_hidden()
