"""The dialog that stops and starts several brokers of different kinds, in Chromium."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Locator, Page, Route, expect

from brokers.model import object_name
from console.links.registry import link, links
from console.operations import stops_across
from tests.browser.chromium import MISSING, PATH
from tests.browser.conftest import LIMIT, Broker, Console, People
from tests.browser.test_overview import opened, row, used
from tests.console.adapted import Adapted
from tests.console.conftest import until

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(PATH is None, reason=MISSING),
    pytest.mark.asyncio(loop_scope="module"),
]

expect.set_options(timeout=LIMIT)

ORDERS = object_name("Queue", virtualhost="default", name="orders")


class Fleet:
    """Brokers of other kinds beside Headgate's own."""

    def __init__(self, folder: Path, settings: Any) -> None:
        self._folder = folder
        self._settings = settings
        self.others: dict[str, Adapted] = {}

    def add(self, slug: str, effect: str = "reject", title: str = "") -> Adapted:
        made = Adapted(slug, self._folder, effect=effect, title=title)
        for name, limit in (("orders", 10), ("stock.eu", 20)):
            made.memory.add(name, limit)
        self.others[slug] = made
        self._settings.HEADGATE_BROKERS = [*self._settings.HEADGATE_BROKERS, made.entry]
        return made


@pytest.fixture
def rabbits(broker: Broker, tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Fleet:
    """Two brokers that reject and one that trickles; the page's own holds."""
    monkeypatch.setattr(stops_across, "STOP_SECONDS", 2.0)
    monkeypatch.setattr(stops_across, "READ_SECONDS", 2.0)
    made = Fleet(tmp_path / "adapted", settings)
    made.add("north", title="Rabbits north")
    made.add("south", title="Rabbits south")
    made.add("mule", "trickle", title="Mule")
    return made


@pytest.fixture
def fleet(rabbits: Fleet, console: Console, broker: Broker) -> Iterator[Fleet]:
    broker.do(lambda memory: used(memory, "orders", 10))
    until(lambda: all(each.connected and each.queue_count for each in links()))
    yield rabbits
    for other in rabbits.others.values():
        other.close()


async def dialog_of(page: Page, button: str = "Stop all producers") -> Locator:
    await expect(row(page, "orders")).to_be_visible()
    await page.get_by_role("button", name=button).click()
    dialog = page.locator("dialog")
    await dialog.get_by_label("On all 4 brokers").check()
    await expect(dialog.locator(".stop-brokers li")).to_have_count(4)
    return dialog


def entry(dialog: Locator, title: str) -> Locator:
    return dialog.locator(".stop-brokers li").filter(has_text=title)


async def stopped(fleet: Fleet) -> set[str]:
    return {slug for slug, other in fleet.others.items() if other.stopped()}


async def test_each_effect_is_confirmed_once_and_all_are_stopped_and_undone(
    fleet: Fleet, people: People, broker: Broker
) -> None:
    page = await opened(await people.page("ada"), "/?broker=local")
    dialog = await dialog_of(page)
    await expect(dialog.locator(".preview-count")).to_contain_text(
        "This stops at least 1 producer of 7 queues on 4 brokers."
    )
    await expect(entry(dialog, "Rabbits north")).to_contain_text("Reject")
    await expect(entry(dialog, "Rabbits north")).to_contain_text("2 queues, producers not known")
    await expect(entry(dialog, "Local broker")).to_contain_text("Hold")
    confirmations = dialog.locator(".effect-sure")
    await expect(confirmations).to_have_count(2)
    await expect(confirmations.first).to_contain_text("Reject: Rabbits north, Rabbits south: Publishers are refused.")
    await dialog.get_by_label("Reason").fill("incident 7")
    await dialog.locator("button[type=submit]").click()
    await expect(dialog.get_by_role("alert")).to_contain_text("Confirm the effect reject")
    assert await stopped(fleet) == set()
    for box in await confirmations.get_by_role("checkbox").all():
        await box.check()
    await dialog.locator("button[type=submit]").click()
    await expect(dialog.locator("h2")).to_have_text("Producers stopped")
    await expect(dialog.locator(".results .done")).to_have_count(4)
    await expect(entry(dialog, "Mule")).to_contain_text("Stopped: producers of 2 queues")
    assert await stopped(fleet) == {"north", "south", "mule"}
    await dialog.get_by_role("button", name="Undo").click()
    await expect(dialog.locator("h2")).to_have_text("Undone")
    assert await stopped(fleet) == set()
    state = await asyncio.to_thread(broker.do, lambda memory: memory.management.read(ORDERS)["state"])
    assert state == "NORMAL"


async def test_deselected_brokers_are_left_alone(fleet: Fleet, people: People) -> None:
    page = await opened(await people.page("ada"), "/?broker=local")
    dialog = await dialog_of(page)
    for title in ("Rabbits north", "Mule", "Local broker"):
        await dialog.get_by_label(title, exact=True).uncheck()
    await expect(dialog.locator(".effect-sure")).to_have_count(1)
    await expect(dialog.locator(".preview-count")).to_contain_text("This stops the producers of 2 queues on 1 broker.")
    await dialog.locator(".effect-sure").get_by_role("checkbox").check()
    await dialog.get_by_label("Reason").fill("incident 7")
    await dialog.locator("button[type=submit]").click()
    await expect(dialog.locator(".results .done")).to_have_count(1)
    assert await stopped(fleet) == {"south"}


async def test_what_fails_is_said_and_tried_again(fleet: Fleet, people: People) -> None:
    north, south, mule = (fleet.others[slug] for slug in ("north", "south", "mule"))
    people.expected.append("503")
    await asyncio.to_thread(mule.lose)
    await asyncio.to_thread(until, lambda: not link("mule").connected)
    page = await opened(await people.page("ada"), "/?broker=local")
    dialog = await dialog_of(page)
    await expect(entry(dialog, "Mule")).to_contain_text("Not connected: nothing will be done there.")
    await expect(dialog.get_by_label("Mule", exact=True)).to_have_count(0)
    await dialog.locator(".effect-sure").get_by_role("checkbox").check()
    await dialog.get_by_label("Reason").fill("incident 7")
    north.adapter.denied, south.hung = True, True
    await dialog.locator("button[type=submit]").click()
    await expect(entry(dialog, "Local broker")).to_contain_text("Stopped, no answer yet")  # while one is hung
    await expect(dialog.locator("h2")).to_have_text("Producers stopped on 1 of 3 brokers")
    await expect(entry(dialog, "Rabbits north")).to_contain_text(
        "Not stopped: user headgate needs the tag policymaker."
    )
    await expect(entry(dialog, "Rabbits south")).to_contain_text("Not known whether it was done")
    north.adapter.denied, south.hung = False, False
    await dialog.get_by_role("button", name="Retry on 2 brokers").click()
    await expect(dialog.locator("h2")).to_have_text("Producers stopped")
    assert await stopped(fleet) == {"north", "south"}
    await dialog.get_by_role("button", name="Close").click()
    await page.locator(".toast").get_by_role("button", name="Undo").click()
    await expect(page.locator(".toast").last).to_contain_text("3 brokers: stop undone.")
    assert await stopped(fleet) == set()


async def test_undo_leaves_a_stop_that_was_in_force_before_and_says_so(fleet: Fleet, people: People) -> None:
    page = await opened(await people.page("ada"), "/?broker=local")
    for wanted in (["Rabbits north"], ["Rabbits north", "Rabbits south"]):
        dialog = await dialog_of(page)
        for title in ("Local broker", "Mule", "Rabbits north", "Rabbits south"):
            await dialog.get_by_label(title, exact=True).set_checked(title in wanted)
        await dialog.locator(".effect-sure").get_by_role("checkbox").check()
        await dialog.get_by_label("Reason").fill(f"incident {len(wanted)}")
        if len(wanted) == 2:
            await dialog.get_by_label("after", exact=True).check()
        await dialog.locator("button[type=submit]").click()
        await expect(dialog.locator("h2")).to_have_text("Producers stopped")
        if len(wanted) == 1:
            await dialog.get_by_role("button", name="Close").click()
            await expect(page.locator(".toast").last).to_contain_text("Rabbits north: producers stopped.")
    await dialog.get_by_role("button", name="Undo").click()
    await expect(dialog.locator("h2")).to_have_text("Undone")
    await expect(entry(dialog, "Rabbits north")).to_contain_text("Stopped as before, with the earlier end")
    await expect(entry(dialog, "Rabbits south")).to_contain_text("Producers started")
    await expect(dialog.locator(".answer")).to_have_text(
        "The stop was removed on 1 broker. On 1 broker the earlier stop is in force."
    )
    assert await stopped(fleet) == {"north"}


async def test_undo_leaves_what_others_have_changed_meanwhile_and_says_so(fleet: Fleet, people: People) -> None:
    page = await opened(await people.page("ada"), "/?broker=local")
    dialog = await dialog_of(page)
    for title in ("Local broker", "Mule", "Rabbits north", "Rabbits south"):
        await dialog.get_by_label(title, exact=True).set_checked(title != "Mule")
    await dialog.locator(".effect-sure").get_by_role("checkbox").check()
    await dialog.get_by_label("Reason").fill("incident 7")
    await dialog.locator("button[type=submit]").click()
    await expect(dialog.locator("h2")).to_have_text("Producers stopped")
    everything = object_name("Broker")
    stop: dict[str, Any] = {"reason": "incident 7", "actor": "ben", "effect": "reject"}
    for slug, operation, arguments in (
        ("north", "start-producers", {"reason": "over", "actor": "ben"}),
        ("north", "stop-producers", stop),  # made again
        ("south", "stop-producers", {**stop, "for_ms": 600_000}),  # with another end
    ):
        call = link(slug).call
        await asyncio.to_thread(call, lambda admin, o=operation, a=arguments: admin.call(everything, o, a))  # type: ignore[misc]
    await dialog.get_by_role("button", name="Undo").click()
    await expect(dialog.locator("h2")).to_have_text("Undone")
    for title in ("Rabbits north", "Rabbits south"):
        await expect(entry(dialog, title)).to_contain_text("Left as it is: the stop was removed or changed meanwhile")
    await expect(dialog.locator(".answer")).to_have_text(
        "The stop was removed on 1 broker. On 2 brokers it was removed or changed meanwhile, and stays so."
    )
    assert await stopped(fleet) == {"north", "south"}


async def test_a_staged_start_names_the_brokers_without_it_and_leaves_them_stopped(
    fleet: Fleet, people: People
) -> None:
    page = await opened(await people.page("ada"), "/?broker=local")
    dialog = await dialog_of(page)
    for box in await dialog.locator(".effect-sure").get_by_role("checkbox").all():
        await box.check()
    await dialog.get_by_label("Reason").fill("incident 7")
    await dialog.locator("button[type=submit]").click()
    await expect(dialog.locator(".results .done")).to_have_count(4)
    await dialog.get_by_role("button", name="Close").click()
    dialog = await dialog_of(page, "Start all producers")
    await expect(dialog.locator(".stage, .ends").first).to_contain_text(
        "Not on Rabbits north, Rabbits south, Mule: with it, nothing is done there."
    )
    await dialog.locator(".stage, .ends").first.get_by_role("checkbox").first.check()
    await dialog.get_by_label("Reason").fill("over")
    await dialog.locator("button[type=submit]").click()
    await expect(dialog.locator("h2")).to_have_text("Producers started on 1 of 4 brokers")
    await expect(entry(dialog, "Mule")).to_contain_text("this broker has no staged start: start all producers at once.")
    assert await stopped(fleet) == {"north", "south", "mule"}


async def test_a_late_stop_is_seen_and_undone(fleet: Fleet, people: People) -> None:
    north = fleet.others["north"]
    north.hung = north.carries_out = True
    page = await opened(await people.page("ada"), "/?broker=local")
    dialog = await dialog_of(page)
    for title in ("Rabbits south", "Mule", "Local broker"):
        await dialog.get_by_label(title, exact=True).uncheck()
    await dialog.locator(".effect-sure").get_by_role("checkbox").check()
    await dialog.get_by_label("Reason").fill("incident 7")
    people.expected.append("503")
    await dialog.locator("button[type=submit]").click()
    await expect(entry(dialog, "Rabbits north")).to_contain_text("it did not answer in time, and shows the stop")
    north.hung = False
    await dialog.get_by_role("button", name="Undo").click()
    await expect(dialog.locator("h2")).to_have_text("Undone")
    assert await stopped(fleet) == set()


async def test_progress_that_arrives_after_the_undo_changes_nothing(fleet: Fleet, people: People) -> None:
    north = fleet.others["north"]
    north.hung = north.carries_out = True
    page = await opened(await people.page("ada"), "/?broker=local")
    dialog = await dialog_of(page)
    for title in ("Rabbits south", "Mule", "Local broker"):
        await dialog.get_by_label(title, exact=True).uncheck()
    await dialog.locator(".effect-sure").get_by_role("checkbox").check()
    await dialog.get_by_label("Reason").fill("incident 7")
    people.expected.append("503")
    await dialog.locator("button[type=submit]").click()
    await expect(entry(dialog, "Rabbits north")).to_contain_text("it did not answer in time, and shows the stop")
    requested, undone = asyncio.Event(), asyncio.Event()

    async def answer_late(route: Route) -> None:
        answer = await route.fetch()  # of before the undo
        requested.set()
        await undone.wait()
        await route.fulfill(response=answer)

    await page.route("**/stop-producers/progress/**", answer_late)
    await requested.wait()
    north.hung = False
    await dialog.get_by_role("button", name="Undo").click()
    await expect(dialog.locator("h2")).to_have_text("Undone")
    async with page.expect_response("**/stop-producers/progress/**") as late:
        undone.set()
    await (await late.value).finished()
    await page.evaluate("new Promise((resume) => setTimeout(resume))")  # the page has had its turn
    await expect(dialog.locator("h2")).to_have_text("Undone")
    await expect(entry(dialog, "Rabbits north")).to_contain_text("Producers started")
    await expect(dialog.get_by_role("button", name="Undo")).to_have_count(0)


async def test_a_single_broker_that_rejects_wants_its_effect_confirmed(fleet: Fleet, people: People) -> None:
    page = await people.page("ada")
    await page.goto("/queues/default/orders/?broker=north")
    await page.locator("#stop").click()
    dialog = page.locator("dialog")
    await expect(dialog.locator(".effect-sure")).to_contain_text(re.compile("^Reject: Publishers are refused.$"))
    await dialog.get_by_label("Reason").fill("incident 7")
    await dialog.locator("button[type=submit]").click()
    await expect(dialog.get_by_role("alert")).to_contain_text("Confirm the effect reject")
    await dialog.locator(".effect-sure").get_by_role("checkbox").check()
    await dialog.locator("button[type=submit]").click()
    await expect(dialog.locator("h2")).to_have_text("Producers stopped")
    await expect(dialog.locator(".answer")).to_contain_text("The producers of 1 queue are stopped (reject).")
    assert fleet.others["north"].stopped() == {"orders"}
    await dialog.get_by_role("button", name="Close").click()
    await page.locator("#start").click()
    await expect(dialog.get_by_text("Staged start", exact=True)).to_be_hidden()  # this broker has none
    await dialog.get_by_label("Reason").fill("over")
    await dialog.locator("button[type=submit]").click()
    await expect(dialog.locator("h2")).to_have_text("Producers started")
    assert await stopped(fleet) == set()
