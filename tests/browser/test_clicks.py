"""Tasks of operators and administrators in Chromium, done by mouse as a user does them, and how many clicks each takes.

A click is a press of the mouse, or a choice in a list. Typing is not counted, nor is reaching a field in order to type
(by Tab), nor Enter. Unless its test says otherwise, a task begins on the overview, signed in.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from playwright.async_api import Locator, Page, Route, expect

from brokers.model import object_name
from brokers.testing import InMemoryBroker
from tests.browser.chromium import MISSING, PATH
from tests.browser.conftest import Broker, Console, People
from tests.browser.test_alerts import evaluate, hook, in_thread, stop_producers  # noqa: F401  (hook: a fixture)
from tests.browser.test_history import MINUTE, WHOLE, T, recorded_hour, url  # noqa: F401  (two fixtures)
from tests.browser.test_overview import limited, opened, row, used
from tests.console.alerts.receivers import Received
from tests.history.delta import write

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(PATH is None, reason=MISSING),
    pytest.mark.asyncio(loop_scope="module"),
]

#: Clicks of each task, exactly, so that the table stays true: more are a fault, for fewer lower the number.
CLICKS = {
    "see why a producer is blocked, from the sign-in": 2,
    "stop two queues for ten minutes": 4,
    "undo a stop": 1,
    "undo a stop whose dialog was closed": 1,
    "start all in stages": 2,
    "start again from the banner": 2,
    "raise a limit for a pattern": 3,
    "raise a limit by a bulk edit": 5,
    "undo a bulk edit": 2,
    "revert a change from the audit trail": 2,
    "share five minutes of the timeline": 2,
    "share five minutes of an incident": 4,
    "be notified by a webhook in a private network": 12,
    "silence a rule": 2,
    "schedule a nightly stop": 4,
    "create an operator of one virtual host": 8,
    "create a token": 4,
    "simulate other limits, from the history": 2,
    "apply a recommendation": 2,
    "apply simulated limits": 2,
    "export the timeline": 1,
    "export the policies": 3,
}
ORDERS = object_name("Queue", virtualhost="default", name="orders")
#: A press counts at once, since it may lead to another page. One that Playwright prevents, since the page has moved
#: under the mouse meanwhile, is made again: it is taken back.
COUNT = """
  let number = 0;
  const count = (event) => {
    const key = `${performance.timeOrigin}-${number++}`;
    window.countedClick(key, `${event.type} ${event.target.textContent.trim().slice(0, 30)}`);
    return key;
  };
  addEventListener("pointerdown", (event) => {
    if (!event.isTrusted) return;
    const key = count(event);
    setTimeout(() => event.defaultPrevented && window.countedClick(key, ""));
  }, { capture: true });
  addEventListener("change", (event) => event.target.matches("select") && count(event), { capture: true });
"""


class Clicks:
    """Counts the clicks on a page, whatever made them. `made`: what was clicked, by a key of each click."""

    def __init__(self) -> None:
        self.made: dict[str, str] = {}

    async def watch(self, page: Page) -> None:
        await page.context.expose_function("countedClick", self._made)
        await page.context.add_init_script(COUNT)

    def _made(self, key: str, what: str) -> None:
        if what:
            self.made[key] = what
        else:
            self.made.pop(key, None)

    @asynccontextmanager
    async def of(self, task: str) -> AsyncIterator[None]:
        self.made.clear()
        yield
        clicked = ", ".join(self.made.values())
        assert len(self.made) == CLICKS[task], f"{task}: {len(self.made)} clicks ({clicked})"


@pytest.fixture
def clicks() -> Clicks:
    return Clicks()


async def overview(people: People, clicks: Clicks, name: str = "ada", group: str = "operators", **options: Any) -> Page:
    page = await people.page(name, group, **options)
    await clicks.watch(page)
    return await opened(page)


async def visit(page: Page, label: str) -> None:
    await page.locator("nav.nav").get_by_role("link", name=label, exact=True).click()


def queues(memory: InMemoryBroker) -> None:
    for name in ("orders", "stock", "payments"):
        used(memory, name, 100)


async def stop(page: Page, reason: str) -> Locator:
    dialog = page.locator("dialog")
    await dialog.get_by_label("Reason").fill(reason)
    await dialog.locator("button[type=submit]").click()
    return dialog


# -- incidents --------------------------------------------------------------------------------------------------------


async def test_blocked_producer_is_explained_two_clicks_after_the_sign_in(
    people: People, broker: Broker, clicks: Clicks
) -> None:
    broker.do(lambda memory: (limited(memory, "orders", 10), memory.fill("orders", 20)))
    await in_thread(
        lambda: User.objects.create_user("ada", password="a long password").groups.add(
            Group.objects.get(name="operators")
        )
    )
    page = await people.page()
    await clicks.watch(page)
    await page.goto("/")
    async with clicks.of("see why a producer is blocked, from the sign-in"):
        await page.get_by_label("User name").fill("ada")
        await page.get_by_label("Password").fill("a long password")
        await page.get_by_role("button", name="Sign in").click()
        await row(page, "orders").get_by_role("link", name=re.compile("producers blocked")).click()
        await expect(page.locator("#verdict")).to_contain_text("queue orders is overfull")


async def test_two_queues_are_stopped_for_ten_minutes_and_the_stop_is_undone(
    people: People, broker: Broker, clicks: Clicks
) -> None:
    broker.do(queues)
    page = await overview(people, clicks)
    async with clicks.of("stop two queues for ten minutes"):
        for name in ("orders", "stock"):
            await page.get_by_role("checkbox", name=f"Select {name}").check()
        await page.locator("#selection").get_by_role("button", name="Stop producers of").click()
        await page.locator("dialog").get_by_label("Minutes until").fill("10")
        dialog = await stop(page, "a look at it")
        await expect(page.locator("#banner-stops")).to_contain_text(re.compile(r"Resumes automatically in \d min"))
    async with clicks.of("undo a stop"):
        await dialog.get_by_role("button", name="Undo").click()
        await expect(page.locator("#banner-stops")).to_be_hidden()


async def test_stop_is_undone_from_the_banner_of_another_page(people: People, broker: Broker, clicks: Clicks) -> None:
    broker.do(queues)
    page = await overview(people, clicks)
    await row(page, "orders").get_by_role("button", name="Stop").click()
    await (await stop(page, "a look at it")).get_by_role("button", name="Close").click()
    await opened(page, "/audit/")
    async with clicks.of("undo a stop whose dialog was closed"):
        await page.locator("#banner-stops").get_by_role("button", name="Undo").click()
        await expect(page.locator("#banner-stops")).to_be_hidden()


async def test_all_producers_are_started_in_stages(people: People, broker: Broker, clicks: Clicks) -> None:
    broker.do(queues)
    page = await overview(people, clicks)
    await page.get_by_role("button", name="Stop all producers").click()
    await (await stop(page, "incident 7")).get_by_role("button", name="Close").click()
    async with clicks.of("start all in stages"):
        await page.get_by_role("button", name="Start all producers").click()
        await page.locator("dialog").get_by_label("Initial messages per second").fill("50")
        await stop(page, "it is over")
        await expect(page.locator("#banner-stops")).to_contain_text("being started in stages")


async def test_producers_are_started_again_from_the_banner(people: People, broker: Broker, clicks: Clicks) -> None:
    broker.do(queues)
    page = await overview(people, clicks)
    await row(page, "orders").get_by_role("button", name="Stop").click()
    await (await stop(page, "incident 7")).get_by_role("button", name="Close").click()
    async with clicks.of("start again from the banner"):
        await page.locator("#banner-stops").get_by_role("button", name="Start again").click()
        await stop(page, "it is over")
        await expect(page.locator("#banner-stops")).to_be_hidden()


# -- policies ---------------------------------------------------------------------------------------------------------


async def test_limit_is_raised_for_a_pattern(people: People, broker: Broker, clicks: Clicks) -> None:
    for name in ("orders.eu", "orders.us"):
        broker.do(lambda memory, name=name: memory.fill(name, 3))  # type: ignore[misc]
    page = await overview(people, clicks)
    async with clicks.of("raise a limit for a pattern"):
        await visit(page, "Policies")
        await page.locator("#new-pattern").click()
        await page.locator("form [name=pattern]").fill("orders.>")
        await page.locator("form [name=capacity_messages]").fill("5000")
        await expect(page.locator("#preview")).to_contain_text("2 queues affected")
        await page.get_by_role("button", name="Create").click()
        await expect(page.locator("h1")).to_have_text("orders.>")


async def test_limit_is_raised_by_a_bulk_edit_which_is_undone(people: People, broker: Broker, clicks: Clicks) -> None:
    broker.do(queues)
    page = await overview(people, clicks)
    async with clicks.of("raise a limit by a bulk edit"):
        await visit(page, "Policies")
        await page.get_by_role("link", name="Bulk edit").click()
        await page.get_by_label("All matching queues").check()
        await page.get_by_label("Capacity, messages", exact=True).first.check()
        await page.locator("form [name=capacity_messages]").fill("+50%")
        await expect(page.locator("#preview")).to_contain_text("3 queues")
        await page.get_by_role("button", name="Apply").click()
        await expect(page.locator("#state")).to_contain_text("Done at")
    assert broker.do(lambda memory: memory.management.read(ORDERS)["capacity_messages"]) == 150
    async with clicks.of("undo a bulk edit"):
        await page.get_by_role("button", name="Undo").click()
        await page.locator("dialog").get_by_role("button", name="Undo").click()
        await expect(page.locator("h1")).to_contain_text("Undo of bulk edit")
        await expect(page.locator("#state")).to_contain_text("Done at")


async def test_change_is_reverted_from_the_audit_trail(people: People, broker: Broker, clicks: Clicks) -> None:
    broker.do(queues)
    page = await overview(people, clicks)
    await page.goto(f"/policies/scope/?object={ORDERS}")
    await page.locator("form [name=capacity_messages]").fill("70")
    await page.get_by_role("button", name="Apply").click()
    await expect(page.locator(".toast")).to_contain_text("Applied")
    await page.goto("/audit/")
    async with clicks.of("revert a change from the audit trail"):
        await page.get_by_role("button", name="Revert").click()
        await page.locator("dialog").get_by_role("button", name="Revert").click()
        await expect(page.locator(".toast")).to_contain_text("Reverted")
    assert broker.do(lambda memory: memory.management.read(ORDERS)["capacity_messages"]) == 100


async def test_policies_are_exported(people: People, broker: Broker, clicks: Clicks) -> None:
    page = await overview(people, clicks)
    async with clicks.of("export the policies"), page.expect_download():
        await visit(page, "Policies")
        await page.get_by_role("link", name="Import/export").click()
        await page.get_by_role("link", name="Download current policies").click()


# -- times ------------------------------------------------------------------------------------------------------------


def typed(ms: int) -> str:
    """What a field of a moment gets."""
    return dt.datetime.fromtimestamp(ms / 1000, dt.UTC).strftime("%Y-%m-%dT%H:%M:%S")


async def test_five_minutes_of_the_timeline_are_shared_and_exported(
    people: People, broker: Broker, clicks: Clicks
) -> None:
    broker.do(lambda memory: (limited(memory, "orders", 10), memory.fill("orders", 20)))
    page = await overview(people, clicks, timezone_id="UTC", permissions=["clipboard-read", "clipboard-write"])
    async with clicks.of("share five minutes of the timeline"):
        await visit(page, "Timeline")
        await page.locator("[name=from]").fill(typed(T))
        await page.locator("[name=until]").fill(typed(T + 5 * MINUTE))
        await expect(page).to_have_url(re.compile("until="))
        await page.get_by_role("button", name="Copy link").click()
        await expect(page.locator(".toast")).to_be_visible()
    assert (await page.evaluate("navigator.clipboard.readText()")) == page.url
    await opened(page, "/timeline/")
    async with clicks.of("export the timeline"), page.expect_download():
        await page.get_by_role("link", name="CSV").click()


async def test_five_minutes_of_an_incident_are_shared(
    people: People,
    clicks: Clicks,
    recorded_hour: str,  # noqa: F811
) -> None:
    page = await overview(people, clicks, timezone_id="UTC", permissions=["clipboard-read", "clipboard-write"])
    async with clicks.of("share five minutes of an incident"):
        await visit(page, "History")
        await page.locator(".page-title").get_by_role("link", name="Incident").click()
        await page.locator("#range [name=from]").fill(typed(T + 8 * MINUTE))
        await page.locator("#range [name=until]").fill(typed(T + 13 * MINUTE))
        await page.locator("#range").get_by_role("button", name="Show").click()
        await expect(page.locator("#timeline")).to_contain_text("Queue overfull")
        await page.get_by_role("button", name="Copy link").click()
        await expect(page.locator(".toast")).to_be_visible()
    assert (await page.evaluate("navigator.clipboard.readText()")) == page.url


async def test_range_that_is_chosen_before_it_is_known_what_was_recorded_stays(
    people: People,
    recorded_hour: str,  # noqa: F811
) -> None:
    page = await people.page("ada", timezone_id="UTC", permissions=["clipboard-read", "clipboard-write"])
    known = asyncio.Event()

    async def later(route: Route) -> None:
        await known.wait()
        await route.continue_()

    await page.route("**/api/v1/history/", later)
    await page.goto("/history/incident/")
    await page.locator("#range [name=from]").fill(typed(T + 8 * MINUTE))
    await page.locator("#range [name=until]").fill(typed(T + 13 * MINUTE))
    await page.locator("#range").get_by_role("button", name="Show").click()
    await expect(page).to_have_url(re.compile("from="))
    async with page.expect_response("**/api/v1/history/"):
        known.set()
    await expect(page.locator("#timeline")).to_contain_text("Queue overfull")
    await page.get_by_role("button", name="Copy link").click()
    await expect(page.locator(".toast")).to_be_visible()
    assert (await page.evaluate("navigator.clipboard.readText()")) == page.url


# -- history ----------------------------------------------------------------------------------------------------------


async def test_other_limits_are_simulated_and_applied(
    people: People,
    broker: Broker,
    clicks: Clicks,
    recorded_hour: str,  # noqa: F811
) -> None:
    broker.do(lambda memory: limited(memory, "orders", 1000))
    page = await overview(people, clicks)
    await page.goto(f"/history/?{WHOLE}")
    async with clicks.of("simulate other limits, from the history"):
        await page.locator("#top-queues a").click()
        await page.locator("#what-if").click()
        await expect(page.locator(".what-if-table tbody tr")).to_have_count(3)
    async with clicks.of("apply simulated limits"):
        await page.locator(".what-if-table tbody tr").nth(1).get_by_role("link", name="Edit policy").click()
        await page.get_by_role("button", name="Apply").click()
        await expect(page.locator("#toasts")).to_contain_text("Applied")
    assert broker.do(lambda memory: memory.management.read(ORDERS)["capacity_messages"]) == 2000


async def test_recommendation_is_applied(
    people: People,
    broker: Broker,
    clicks: Clicks,
    recorded_hour: str,  # noqa: F811
) -> None:
    broker.do(lambda memory: limited(memory, "orders", 1000))
    about = {"broker": "local", "virtualhost": "default", "queue": "orders", "begin": T, "at": T + 60 * MINUTE}
    levels = {"stop_messages": 1000.0, "resume_messages": 800.0, "recommended_stop_messages": 1500}
    levels |= {"recommended_resume_messages": 1200, "recorded_blocked_seconds": 60.0}
    write(recorded_hour, "recommendations", [{**about, **levels, "kind": "raise-capacity", "text": "Raise it."}])
    page = await overview(people, clicks)
    await page.goto("/history/advice/")
    async with clicks.of("apply a recommendation"):
        await page.locator("#rows").get_by_role("link", name="Edit policy").click()
        await page.get_by_role("button", name="Apply").click()
        await expect(page.locator("#toasts")).to_contain_text("Applied")
    assert broker.do(lambda memory: memory.management.read(ORDERS)["capacity_messages"]) == 1500


# -- alerts, schedules, access ----------------------------------------------------------------------------------------


async def test_webhook_in_a_private_network_is_notified_and_its_rule_silenced(
    people: People,
    broker: Broker,
    clicks: Clicks,
    hook: Received,  # noqa: F811
) -> None:
    broker.do(queues)
    page = await overview(people, clicks, "adele", "administrators")
    dialog = page.locator("dialog")
    async with clicks.of("be notified by a webhook in a private network"):
        await visit(page, "Alerts")
        await page.locator("#networks-title").locator("..").get_by_role("button", name="Add").click()
        await dialog.get_by_label("Network").fill("127.0.0.0/8")
        await dialog.locator("button[type=submit]").click()
        await expect(page.locator("#networks")).to_contain_text("127.0.0.0/8")
        await page.get_by_role("button", name="New receiver").click()
        await dialog.get_by_label("Kind").select_option("webhook")
        await dialog.get_by_label("Name").fill("team hook")
        await dialog.get_by_label("URL").fill(hook.url)
        await dialog.get_by_role("button", name="Save").click()
        await dialog.get_by_role("button", name="Close").click()
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
    async with clicks.of("silence a rule"):
        await page.locator("#rules").get_by_role("button", name="Silence").click()
        await dialog.get_by_label("Reason").fill("release")
        await dialog.get_by_role("button", name="Silence").click()
        await expect(page.locator("#silences")).to_contain_text("release")


async def test_nightly_stop_of_a_queue_is_scheduled(people: People, broker: Broker, clicks: Clicks) -> None:
    broker.do(queues)
    page = await overview(people, clicks)
    async with clicks.of("schedule a nightly stop"):
        await visit(page, "Schedules")
        await page.get_by_role("link", name="New schedule").click()
        await page.get_by_label("Name").fill("Night")
        await page.locator("[name=target]").select_option(str(ORDERS))
        await page.locator("[name=reason]").fill("the nightly import")
        await page.get_by_role("button", name="Save").click()
        await expect(page.locator("#schedules tr")).to_contain_text("at 22:00")


async def test_operator_of_one_virtual_host_is_created(people: People, broker: Broker, clicks: Clicks) -> None:
    page = await overview(people, clicks, "adele", "administrators")
    async with clicks.of("create an operator of one virtual host"):
        await page.locator("#user-menu summary").click()
        await page.get_by_role("link", name="Access").click()
        await page.get_by_label("User name").fill("olav")
        await page.get_by_role("button", name="Create user").click()
        form = page.locator("#give")
        await form.locator("select[name=holder]").select_option("user:olav")
        await form.locator("select[name=role]").select_option("operator")
        await form.locator("select[name=broker]").select_option("local")
        await form.locator("select[name=virtualhost]").select_option("default")
        await form.get_by_role("button", name="Assign").click()
        await expect(page.locator("#grants tr", has_text="olav")).to_contain_text(
            "Virtual host default of broker local"
        )


async def test_token_is_created(people: People, console: Console, clicks: Clicks) -> None:
    page = await overview(people, clicks)
    async with clicks.of("create a token"):
        await page.locator("#user-menu summary").click()
        await page.get_by_role("link", name="API tokens").click()
        await page.get_by_label("Name", exact=True).fill("ci")
        await page.get_by_label("Operator").check()
        await page.get_by_role("button", name="Create").click()
        await expect(page.locator("#secret")).to_contain_text("headgate_")
