"""Alerts and schedules in Chromium: creation, firing, delivery, silences; runs and reverts; and a viewer's pages."""

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
from console.alerts.models import Alert, AllowedNetwork, Delivery, Receiver, Rule
from console.links.registry import links
from console.schedules import execution
from console.schedules.models import Schedule
from tests.browser.chromium import MISSING, PATH
from tests.browser.conftest import Broker, People, until_in_page
from tests.browser.test_overview import limited, opened
from tests.console.alerts.receivers import Received, http_receiver
from tests.console.conftest import until

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(PATH is None, reason=MISSING),
    pytest.mark.asyncio(loop_scope="module"),
]


@pytest.fixture
def hook() -> Iterator[Received]:
    with http_receiver() as received:
        yield received


async def in_thread(act: Any) -> Any:
    """Run `act` as another process would: with its own database connections."""

    def acting() -> Any:
        try:
            return act()
        finally:
            connections.close_all()

    return await asyncio.to_thread(acting)


def evaluate() -> None:
    Evaluator(links, tasks.deliver.delay).poll()


async def stop_producers(broker: Broker, reason: str) -> None:
    name = object_name("Queue", virtualhost="default", name="orders")
    link, known = broker.link, broker.link.newest_event
    arguments = {"reason": reason, "actor": "ada"}
    await asyncio.to_thread(link.call, lambda admin: admin.call(name, "stop-producers", arguments))
    await asyncio.to_thread(until, lambda: link.newest_event > known)


async def test_new_rule_fires_delivers_and_can_be_silenced(people: People, broker: Broker, hook: Received) -> None:
    broker.do(lambda memory: limited(memory, "orders", 100))
    await in_thread(lambda: AllowedNetwork.objects.create(network="127.0.0.0/8", added_by="adele"))
    page = await opened(await people.page("ada"), "/alerts/")
    await expect(page.locator("#rules-empty")).to_be_visible()

    await page.get_by_role("button", name="New receiver").click()
    dialog = page.locator("dialog")
    await dialog.get_by_label("Kind").select_option("webhook")
    await dialog.get_by_label("Name").fill("team hook")
    await dialog.get_by_label("URL").fill("nonsense")
    people.expected.append("400")
    await dialog.get_by_role("button", name="Save").click()
    await expect(dialog).to_contain_text("it must begin with https://")
    await dialog.get_by_label("URL").fill(hook.url)
    await dialog.get_by_role("button", name="Save").click()
    await expect(dialog.locator(".secret")).not_to_be_empty()
    await expect(dialog).to_contain_text("Saved. Test message delivered to team hook: HTTP 200")
    await dialog.get_by_role("button", name="Close").click()
    await expect(page.locator("#log")).to_contain_text("delivered")
    assert [each["phase"] for each in hook.bodies] == ["test"]
    await expect(page.locator("#no-links")).to_contain_text("An administrator can enter it on this page.")
    await expect(page.locator("#enter-url")).to_be_hidden()
    await expect(page.locator("#console-url button")).to_have_attribute("aria-disabled", "true")

    await page.get_by_role("link", name="New rule").click()
    await page.get_by_label("Name").fill("Producers are stopped")
    await page.locator("#events-box summary").click()
    await page.get_by_label("Producers stopped").check()
    await page.get_by_label("team hook").check()
    await page.get_by_role("button", name="Save").click()
    await expect(page.locator("#rules")).to_contain_text("Producers are stopped")

    await in_thread(evaluate)  # events from now on count
    await stop_producers(broker, "incident 7")
    await in_thread(evaluate)
    await expect(page.locator("#log")).to_contain_text("Producers stopped: default/orders")
    assert [each["phase"] for each in hook.bodies] == ["test", "event"]

    await page.locator("#rules").get_by_role("button", name="Silence").click()
    await page.locator("dialog").get_by_label("Reason").fill("release")
    await page.locator("dialog").get_by_role("button", name="Silence").click()
    await expect(page.locator("#silences")).to_contain_text("ada: release")
    await page.locator("#silences").get_by_role("button", name="End").click()
    await expect(page.locator("#silences-empty")).to_be_visible()
    await page.locator("#new-silence").click()
    hosts = page.locator("dialog").get_by_label("Virtual host", exact=True)
    await expect(hosts.locator("option")).to_have_text(["all virtual hosts", "default"])


async def test_administrator_enters_the_address_that_the_page_asks_for(
    people: People, broker: Broker, settings: Any
) -> None:
    page = await opened(await people.page("adele", "administrators"), "/alerts/")
    await expect(page.locator("#console-url")).to_contain_text("No address entered: notifications have no links")
    await expect(page.locator("#no-links")).to_be_hidden()  # no receiver needs it yet
    await in_thread(lambda: Receiver.objects.create(kind="email", name="team", recipients=["a@example.com"]))
    await page.get_by_role("button", name="Enter the address…").click()
    dialog = page.locator("dialog")
    await expect(dialog.get_by_label("Address")).to_have_value(str(await page.evaluate("location.origin")))
    await expect(dialog).to_contain_text("Only programs on this machine reach this address")
    await dialog.get_by_label("Address").fill("https://headgate.example.com/alerts/")
    await expect(dialog).not_to_contain_text("Only programs on this machine")
    people.expected.append("400")
    await dialog.get_by_role("button", name="Save").click()
    await expect(dialog.get_by_role("alert").first).to_contain_text("it must end after the host and its port")
    await dialog.get_by_label("Address").fill("https://headgate.example.com")
    await dialog.get_by_role("button", name="Save").click()
    await expect(dialog).to_have_count(0)
    await expect(page.locator("#console-url")).to_contain_text("https://headgate.example.com")
    await expect(page.locator("#console-url")).to_contain_text("Entered by adele")
    await expect(page.locator("#no-links")).to_be_hidden()

    settings.HEADGATE_URL = "https://set.example.com"
    await expect(page.locator("#console-url code")).to_have_text("https://set.example.com")
    await expect(page.locator("#console-url")).to_contain_text("It overrides https://headgate.example.com")
    await page.locator("#console-url").get_by_role("button", name="Remove").click()
    await expect(page.locator("#console-url")).not_to_contain_text("overrides")
    await expect(page.locator("#console-url button")).to_have_count(0)
    settings.HEADGATE_URL = ""
    await expect(page.locator("#no-links")).to_be_visible()


async def test_saving_a_webhook_with_a_forbidden_address_shows_a_warning(people: People, broker: Broker) -> None:
    page = await opened(await people.page("ada"), "/alerts/")
    await page.get_by_role("button", name="New receiver").click()
    dialog = page.locator("dialog")
    await dialog.get_by_label("Kind").select_option("webhook")
    await dialog.get_by_label("Name").fill("inside")
    await dialog.get_by_label("URL").fill("http://10.1.2.3/hook")
    await dialog.get_by_role("button", name="Save").click()
    await expect(dialog.get_by_role("alert")).to_contain_text("10.1.2.3 is not a public address")
    await expect(dialog.locator(".secret")).not_to_be_empty()
    await dialog.get_by_role("button", name="Close").click()
    await page.locator("#receivers").get_by_role("button", name="Edit").click()
    await dialog.get_by_label("URL").fill("http://10.1.2.4/hook")
    await dialog.get_by_role("button", name="Save").click()
    await expect(dialog.get_by_role("alert")).to_contain_text("10.1.2.4 is not a public address")


async def test_failed_delivery_shows_its_reason_and_can_be_retried(
    people: People, broker: Broker, hook: Received
) -> None:
    page = await opened(await people.page("ada"), "/alerts/")
    await page.get_by_role("button", name="New receiver").click()
    await page.locator("dialog").get_by_label("Kind").select_option("webhook")
    await page.locator("dialog").get_by_label("Name").fill("inside")
    await page.locator("dialog").get_by_label("URL").fill(hook.url)
    await page.locator("dialog").get_by_role("button", name="Save").click()
    await page.locator("dialog").get_by_role("button", name="Close").click()
    await page.locator("#receivers").get_by_role("button", name="Test").click()
    await expect(page.locator("#log")).to_contain_text("an administrator must first add its network")
    await in_thread(lambda: AllowedNetwork.objects.create(network="127.0.0.0/8", added_by="adele"))
    await page.locator("#log").get_by_role("button", name="Retry").click()
    await expect(page.locator("#log")).to_contain_text("delivered")
    assert len(hook.requests) == 1


async def test_slack_receiver_that_refuses_is_saved_and_says_why(
    people: People, broker: Broker, hook: Received, settings: Any, tmp_path: Any
) -> None:
    settings.HEADGATE_BROKER_KEYS = str(tmp_path / "keys")
    await in_thread(lambda: AllowedNetwork.objects.create(network="127.0.0.0/8", added_by="adele"))
    hook.text = "no_service"
    page = await opened(await people.page("ada"), "/alerts/")
    await page.get_by_role("button", name="New receiver").click()
    dialog = page.locator("dialog")
    await expect(dialog.get_by_label("Integration key")).to_be_hidden()
    await dialog.get_by_label("Name").fill("team chat")
    await dialog.get_by_label("URL").fill(hook.url)
    await dialog.get_by_role("button", name="Save").click()
    await expect(dialog).to_contain_text("the webhook was removed or disabled in Slack")
    await dialog.get_by_role("button", name="Close").click()
    await expect(page.locator("#receivers")).to_contain_text("Slack")
    await expect(page.locator("#receivers")).not_to_contain_text("/hook")
    hook.text = "ok"
    await page.locator("#receivers").get_by_role("button", name="Test").click()
    await expect(page.locator(".toast").last).to_contain_text("Slack accepted it")


async def test_template_is_previewed_and_becomes_a_rule_with_one_click(people: People, broker: Broker) -> None:
    broker.do(lambda memory: limited(memory, "orders", 5))
    broker.do(lambda memory: memory.fill("orders", 6))
    broker.sample()
    page = await opened(await people.page("ada"), "/alerts/")
    template = page.locator("#template-nearly-full")
    await expect(template).to_contain_text("Met now by 1 object: default/orders.")
    await expect(page.locator("#template-broker-unreachable")).to_contain_text("No object meets it now.")
    await template.get_by_role("button", name="Create").click()
    await expect(page.locator("#rules")).to_contain_text("Queue nearly full")
    await expect(template.get_by_text("Created")).to_be_visible()
    await expect(template.get_by_role("link")).to_have_text(["default/orders"])
    await in_thread(evaluate)
    await expect(page.locator("#firing")).to_contain_text("orders")


async def test_rule_about_a_queue_begins_on_its_page(people: People, broker: Broker) -> None:
    broker.do(lambda memory: limited(memory, "orders", 5))
    broker.do(lambda memory: memory.fill("orders", 6))
    broker.sample()
    page = await opened(await people.page("ada"), "/queues/default/orders/")
    await page.get_by_role("link", name="Alert me…").click()
    await expect(page.get_by_label("Name")).to_have_value("Queue orders")
    await expect(page.get_by_label("Queues")).to_have_value("orders")
    await expect(page.get_by_label("Virtual host")).to_have_value("default")
    await expect(page.locator("#preview")).to_contain_text("Met now by")
    await expect(page.get_by_label("Oldest message above", exact=True)).to_be_hidden()
    hosts = page.get_by_label("Virtual host", exact=True)  # chosen from those that exist
    await expect(hosts.locator("option")).to_have_text(["all virtual hosts", "default"])
    await page.get_by_label("Broker", exact=True).select_option("")
    await expect(hosts).to_have_value("default")
    await page.get_by_label("Oldest message above an age").check()
    await expect(page.get_by_label("Oldest message above", exact=True)).to_be_visible()
    await page.get_by_label("Queues").fill("bills")
    await expect(page.locator("#preview")).to_contain_text("No object meets it now.")
    await page.get_by_role("button", name="Save").click()
    await expect(page.locator("#rules")).to_contain_text("queues bills")


async def test_browser_notification_is_shown_once_for_an_alert_that_begins(people: People, broker: Broker) -> None:
    page = await people.page("ada")
    await page.add_init_script("""
        window.requests = 0;
        window.shown = [];
        window.Notification = class extends EventTarget {
          static get permission() { return localStorage.getItem("test-permission") ?? "default"; }
          static async requestPermission() {
            window.requests += 1;
            localStorage.setItem("test-permission", "granted");
            return "granted";
          }
          constructor(title, options) { super(); window.shown.push([title, options.tag]); }
          close() {}
        };
    """)
    broker.do(lambda memory: limited(memory, "orders", 5))
    broker.sample()
    await opened(page, "/alerts/")
    await expect(page.locator("#notifications")).to_contain_text("only while a page of this console is open")
    assert await page.evaluate("window.requests") == 0, "requested upon a click only"
    await page.locator("#notifications-change").click()
    await expect(page.locator("#notifications")).to_contain_text("On in this browser.")
    await until_in_page(page, "() => localStorage.getItem('headgate-notified') === '[]'")
    await in_thread(lambda: Rule.objects.create(name="deep", kinds=["depth-above"], depth=5))
    broker.do(lambda memory: memory.fill("orders", 6))
    broker.sample()
    await in_thread(lambda: until(lambda: (evaluate(), Alert.objects.filter(state="firing").exists())[1]))
    await until_in_page(page, "() => window.shown.length === 1")
    assert (await page.evaluate("window.shown"))[0][0] == "Depth above a number of messages: default/orders"
    await opened(page, "/queues/default/orders/")
    await until_in_page(page, "() => window.shown.length === 0 && localStorage.getItem('headgate-notified').length > 2")
    await opened(page, "/alerts/")
    await page.locator("#notifications-change").click()
    await expect(page.locator("#notifications")).to_contain_text("Off in this browser.")


async def test_viewer_sees_alerts_but_cannot_change_them(people: People, broker: Broker) -> None:
    page = await opened(await people.page("vic", "viewers"), "/alerts/")
    await expect(page.locator("#firing-empty")).to_be_visible()
    await page.get_by_role("button", name="New receiver").click(force=True)
    await expect(page.locator(".toast").last).to_contain_text("role of operator")
    await expect(page.locator("dialog")).to_have_count(0)
    assert await in_thread(Delivery.objects.count) == 0


async def test_empty_section_takes_one_line(people: People, broker: Broker) -> None:
    page = await opened(await people.page("vic", "viewers"), "/alerts/")
    for name in ("firing", "silences", "rules", "receivers", "log"):
        empty = page.locator(f"#{name}-empty")
        await expect(empty).to_be_visible()
        assert await empty.evaluate("(empty) => empty.clientHeight") < 40, name


async def test_late_response_does_not_replace_a_newer_one(people: People, broker: Broker) -> None:
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
    delayed, release, finished = asyncio.Event(), asyncio.Event(), asyncio.Event()
    requests = 0

    async def delay_first_response(route: Route) -> None:
        nonlocal requests
        requests += 1
        if requests == 1:
            old = await route.fetch()
            delayed.set()
            await release.wait()
            await route.fulfill(response=old)
            return
        if requests > 2:
            await finished.wait()
        await route.continue_()

    await page.route("**/api/v1/alerts/networks/", delay_first_response)
    await page.goto("/alerts/")
    await delayed.wait()
    await in_thread(lambda: AllowedNetwork.objects.create(network="10.20.0.0/16", added_by="adele"))
    await page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")  # polls at once
    await expect(page.locator("#networks")).to_contain_text("10.20.0.0/16")
    release.set()
    await page.evaluate(
        "window.bothRead.then(() => new Promise((shown) => requestAnimationFrame(() => setTimeout(shown))))"
    )
    assert "10.20.0.0/16" in await page.locator("#networks").inner_text()
    finished.set()


async def test_new_schedule_sets_fields_and_reverts_them_at_its_end(people: People, broker: Broker) -> None:
    broker.do(lambda memory: limited(memory, "orders", 100))
    orders = object_name("Queue", virtualhost="default", name="orders")
    page = await opened(await people.page("ada", timezone_id="Europe/Paris"), "/schedules/new/")
    await expect(page.get_by_label("Time zone")).to_have_value("Europe/Paris")
    await page.get_by_label("Name").fill("Night")
    await page.locator("[name=action]").select_option("policy")
    await page.locator("[name=target]").select_option(str(orders))
    await page.locator("[name=set-capacity_messages]").check()
    await page.locator("[name=capacity_messages]").fill("7")
    await page.locator("#when .chip", has_text="Sun").click()
    await expect(page.locator("#preview li")).to_have_count(5)
    await expect(page.locator("#preview")).to_contain_text("22:00")
    await page.get_by_role("button", name="Save").click()
    row = page.locator("#schedules tr")
    await expect(row).to_contain_text("Mon, Tue, Wed, Thu, Fri, Sat at 22:00")
    await expect(row).to_contain_text("Europe/Paris")

    def run_now() -> None:
        now = timezone.now()
        Schedule.objects.update(next=now)
        execution.create_due_runs(now)
        for number in execution.due_runs(now):
            execution.execute(number, now)

    def capacity() -> Any:
        return broker.do(lambda memory: memory.management.read(orders)["capacity_messages"])

    await in_thread(run_now)
    assert capacity() == 7
    await expect(page.locator("#runs")).to_contain_text("active")
    await row.get_by_role("button", name="End now").click()
    await expect(page.locator("#runs")).to_contain_text("reverted")
    assert capacity() == 100
    await row.get_by_role("button", name="Pause").click()
    await expect(row).to_contain_text("paused")


async def test_schedule_for_the_whole_broker_requires_confirmation(people: People, broker: Broker) -> None:
    page = await opened(await people.page("ada"), "/schedules/new/")
    await expect(page.locator("[name=target]")).to_have_value("")
    await page.get_by_label("Name").fill("Night")
    await page.locator("[name=target]").select_option("type=Broker")
    await page.locator("[name=reason]").fill("the night")
    await page.get_by_role("button", name="Save").click()
    dialog = page.get_by_role("dialog")
    await expect(dialog).to_contain_text("stops the producers of every queue of Local broker")
    await dialog.get_by_role("button", name="Cancel").click()
    assert await in_thread(Schedule.objects.count) == 0
    await page.get_by_role("button", name="Save").click()
    await dialog.get_by_role("button", name="Save").click()
    await expect(page.locator("#schedules tr")).to_contain_text("Night")


async def test_viewer_sees_schedules_but_cannot_change_them(people: People, broker: Broker) -> None:
    page = await opened(await people.page("vic", "viewers"), "/schedules/")
    await expect(page.locator("#schedules-empty")).to_be_visible()
    await page.get_by_role("link", name="New schedule").click(force=True)
    await expect(page.locator(".toast").last).to_contain_text("role of operator")
    assert page.url.endswith("/schedules/")
