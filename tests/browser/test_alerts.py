"""Alerts and schedules in Chromium: made, fired, delivered, silenced; due, carried out; and looked at by a viewer."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connections
from django.utils import timezone
from playwright.async_api import Route, expect

from brokers.model import object_name
from console.alerts import tasks
from console.alerts.evaluator import Evaluator
from console.alerts.models import AllowedNetwork, Delivery
from console.links.registry import links
from console.schedules import carrying_out
from console.schedules.models import Schedule
from tests.browser.chromium import MISSING, PATH
from tests.browser.conftest import Broker, People
from tests.browser.test_overview import limited, opened
from tests.console.alerts.receiving import Received, http_receiver
from tests.console.conftest import until

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(PATH is None, reason=MISSING),
    pytest.mark.asyncio(loop_scope="module"),
]


@pytest.fixture
def hook() -> Iterator[Received]:
    with http_receiver() as got:
        yield got


async def in_thread(act: Any) -> Any:
    """What another process does, with a connection of its own."""

    def acting() -> Any:
        try:
            return act()
        finally:
            connections.close_all()

    return await asyncio.to_thread(acting)


def look() -> None:
    Evaluator(links, tasks.deliver.delay).look()


async def stop_by_somebody(broker: Broker, reason: str) -> None:
    name = object_name("Queue", virtualhost="default", name="orders")
    link, known = broker.link, broker.link.newest_event
    asked = {"reason": reason, "actor": "ada"}
    await asyncio.to_thread(link.call, lambda admin: admin.call(name, "stop-producers", asked))
    await asyncio.to_thread(until, lambda: link.newest_event > known)


async def test_a_rule_is_made_fires_is_delivered_and_silenced(people: People, broker: Broker, hook: Received) -> None:
    broker.do(lambda memory: limited(memory, "orders", 100))
    await in_thread(lambda: AllowedNetwork.objects.create(network="127.0.0.0/8", added_by="adele"))
    page = await opened(await people.page("ada"), "/alerts/")
    await expect(page.locator("#rules-empty")).to_be_visible()

    await page.get_by_role("button", name="New webhook").click()
    dialog = page.locator("dialog")
    await dialog.get_by_label("Name").fill("team hook")
    await dialog.get_by_label("URL").fill("nonsense")
    people.expected.append("400")
    await dialog.get_by_role("button", name="Make it").click()
    await expect(dialog).to_contain_text("it must begin with https://")
    await dialog.get_by_label("URL").fill(hook.url)
    await dialog.get_by_role("button", name="Make it").click()
    await expect(dialog.locator(".secret")).not_to_be_empty()
    await dialog.get_by_role("button", name="Close").click()

    await page.locator("#receivers").get_by_role("button", name="Test").click()
    await expect(page.locator("#log")).to_contain_text("delivered")
    assert [each["phase"] for each in hook.bodies] == ["test"]

    await page.get_by_role("link", name="New rule").click()
    await page.get_by_label("Name").fill("Somebody stops")
    await page.locator("#events-box summary").click()
    await page.get_by_label("Producers stopped").check()
    await page.get_by_label("team hook").check()
    await page.get_by_role("button", name="Save").click()
    await expect(page.locator("#rules")).to_contain_text("Somebody stops")

    await in_thread(look)  # from now on
    await stop_by_somebody(broker, "incident 7")
    await in_thread(look)
    await expect(page.locator("#log")).to_contain_text("Producers stopped: default/orders")
    assert [each["phase"] for each in hook.bodies] == ["test", "event"]

    await page.locator("#rules").get_by_role("button", name="Silence").click()
    await page.locator("dialog").get_by_label("Why").fill("release")
    await page.locator("dialog").get_by_role("button", name="Silence").click()
    await expect(page.locator("#silences")).to_contain_text("ada: release")
    await page.locator("#silences").get_by_role("button", name="End").click()
    await expect(page.locator("#silences-empty")).to_be_visible()


async def test_a_webhook_that_may_not_be_called_says_so_when_it_is_saved(people: People, broker: Broker) -> None:
    page = await opened(await people.page("ada"), "/alerts/")
    await page.get_by_role("button", name="New webhook").click()
    dialog = page.locator("dialog")
    await dialog.get_by_label("Name").fill("inside")
    await dialog.get_by_label("URL").fill("http://10.1.2.3/hook")
    await dialog.get_by_role("button", name="Make it").click()
    await expect(dialog.get_by_role("alert")).to_contain_text("10.1.2.3 is not a public address")
    await expect(dialog.locator(".secret")).not_to_be_empty()
    await dialog.get_by_role("button", name="Close").click()
    await page.locator("#receivers").get_by_role("button", name="Edit").click()
    await dialog.get_by_label("URL").fill("http://10.1.2.4/hook")
    await dialog.get_by_role("button", name="Save").click()
    await expect(dialog.get_by_role("alert")).to_contain_text("10.1.2.4 is not a public address")


async def test_a_delivery_that_was_given_up_tells_why_and_is_sent_again(
    people: People, broker: Broker, hook: Received
) -> None:
    page = await opened(await people.page("ada"), "/alerts/")
    await page.get_by_role("button", name="New webhook").click()
    await page.locator("dialog").get_by_label("Name").fill("inside")
    await page.locator("dialog").get_by_label("URL").fill(hook.url)
    await page.locator("dialog").get_by_role("button", name="Make it").click()
    await page.locator("dialog").get_by_role("button", name="Close").click()
    await page.locator("#receivers").get_by_role("button", name="Test").click()
    await expect(page.locator("#log")).to_contain_text("an administrator must allow its network")
    await in_thread(lambda: AllowedNetwork.objects.create(network="127.0.0.0/8", added_by="adele"))
    await page.locator("#log").get_by_role("button", name="Again").click()
    await expect(page.locator("#log")).to_contain_text("delivered")
    assert len(hook.requests) == 1


async def test_a_viewer_sees_alerts_and_may_change_nothing(people: People, broker: Broker) -> None:
    page = await opened(await people.page("vic", "viewers"), "/alerts/")
    await expect(page.locator("#firing-empty")).to_be_visible()
    await page.get_by_role("button", name="New webhook").click(force=True)
    await expect(page.locator(".toast").last).to_contain_text("role of operator")
    await expect(page.locator("dialog")).to_have_count(0)
    assert await in_thread(Delivery.objects.count) == 0


async def test_of_two_answers_on_their_way_the_newer_one_stays(people: People, broker: Broker) -> None:
    page = await people.page("ada")
    await page.add_init_script("""
        let read = 0;
        const text = Response.prototype.text;
        window.bothRead = new Promise((resolve) => {
          Response.prototype.text = async function () {
            const value = await text.call(this);
            if (this.url.endsWith("/alerts/networks/") && ++read === 2) setTimeout(resolve);
            return value;
          };
        });
    """)
    held, go_on, over = asyncio.Event(), asyncio.Event(), asyncio.Event()
    asked = 0

    async def one_is_slow(route: Route) -> None:
        nonlocal asked
        asked += 1
        if asked == 1:
            old = await route.fetch()
            held.set()
            await go_on.wait()
            await route.fulfill(response=old)
            return
        if asked > 2:
            await over.wait()
        await route.continue_()

    await page.route("**/api/v1/alerts/networks/", one_is_slow)
    await page.goto("/alerts/")
    await held.wait()
    await in_thread(lambda: AllowedNetwork.objects.create(network="10.20.0.0/16", added_by="adele"))
    await page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")  # then it asks at once
    await expect(page.locator("#networks")).to_contain_text("10.20.0.0/16")
    go_on.set()
    await page.evaluate(
        "window.bothRead.then(() => new Promise((shown) => requestAnimationFrame(() => setTimeout(shown))))"
    )
    assert "10.20.0.0/16" in await page.locator("#networks").inner_text()
    over.set()


async def test_a_schedule_is_made_is_due_sets_and_puts_back(people: People, broker: Broker) -> None:
    broker.do(lambda memory: limited(memory, "orders", 100))
    orders = object_name("Queue", virtualhost="default", name="orders")
    page = await opened(await people.page("ada", timezone_id="Europe/Paris"), "/schedules/new/")
    await expect(page.get_by_label("By the clock of")).to_have_value("Europe/Paris")
    await page.get_by_label("Name").fill("Night")
    await page.locator("[name=action]").select_option("policy")
    await page.locator("[name=target]").fill(str(orders))
    await page.locator("[name=set-capacity_messages]").check()
    await page.locator("[name=capacity_messages]").fill("7")
    await page.locator("#when .chip", has_text="Sun").click()
    await expect(page.locator("#preview li")).to_have_count(5)
    await expect(page.locator("#preview")).to_contain_text("22:00")
    await page.get_by_role("button", name="Save").click()
    row = page.locator("#schedules tr")
    await expect(row).to_contain_text("Mon, Tue, Wed, Thu, Fri, Sat at 22:00")
    await expect(row).to_contain_text("Europe/Paris")

    def pass_to_now() -> None:
        now = timezone.now()
        Schedule.objects.update(next=now)
        carrying_out.claim_due(now)
        for number in carrying_out.due_runs(now):
            carrying_out.carry_out(number, now)

    def capacity() -> Any:
        return broker.do(lambda memory: memory.management.read(orders)["capacity_messages"])

    await in_thread(pass_to_now)
    assert capacity() == 7
    await expect(page.locator("#runs")).to_contain_text("in force")
    await row.get_by_role("button", name="End now").click()
    await expect(page.locator("#runs")).to_contain_text("put back")
    assert capacity() == 100
    await row.get_by_role("button", name="Pause").click()
    await expect(row).to_contain_text("paused")


async def test_a_schedule_for_the_whole_broker_is_made_only_after_a_question(people: People, broker: Broker) -> None:
    page = await opened(await people.page("ada"), "/schedules/new/")
    await expect(page.locator("[name=target]")).to_have_value("")
    await page.get_by_label("Name").fill("Night")
    await page.locator("[name=target]").fill("type=Broker")
    await page.locator("[name=reason]").fill("the night")
    await page.get_by_role("button", name="Save").click()
    dialog = page.get_by_role("dialog")
    await expect(dialog).to_contain_text("stops the producers of every queue of Local broker")
    await dialog.get_by_role("button", name="Cancel").click()
    assert await in_thread(Schedule.objects.count) == 0
    await page.get_by_role("button", name="Save").click()
    await dialog.get_by_role("button", name="Save").click()
    await expect(page.locator("#schedules tr")).to_contain_text("Night")


async def test_a_viewer_sees_schedules_and_may_change_nothing(people: People, broker: Broker) -> None:
    page = await opened(await people.page("vic", "viewers"), "/schedules/")
    await expect(page.locator("#schedules-empty")).to_be_visible()
    await page.get_by_role("link", name="New schedule").click(force=True)
    await expect(page.locator(".toast").last).to_contain_text("role of operator")
    assert page.url.endswith("/schedules/")
