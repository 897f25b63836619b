"""Policies in Chromium: edits are previewed, applied, and reverted from the audit trail."""

from __future__ import annotations

import asyncio
import re
from urllib.parse import quote

import pytest
from playwright.async_api import Page, Route, expect

from brokers.model import POLICY, ObjectName, object_name
from brokers.testing import InMemoryBroker
from tests.browser.chromium import MISSING, PATH
from tests.browser.conftest import Broker, People, until_in_page
from tests.browser.test_overview import limited, opened
from tests.console.conftest import until

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(PATH is None, reason=MISSING),
    pytest.mark.asyncio(loop_scope="module"),
]

ORDERS = object_name("Queue", virtualhost="default", name="orders")
PATTERN = object_name("Policy", virtualhost="default", pattern="orders.>")


def url(name: ObjectName) -> str:
    return f"/policies/scope/?object={quote(str(name), safe='')}"


def busy(broker: Broker) -> None:
    broker.do(lambda memory: limited(memory, "orders", 100))
    broker.do(lambda memory: memory.fill("orders", 10))


async def typed(page: Page, **values: str) -> None:
    for name, value in values.items():
        await page.locator(f"form [name={name}]").fill(value)


async def test_edit_is_previewed_applied_and_reverted(people: People, broker: Broker) -> None:
    busy(broker)
    page = await opened(await people.page("ada"), url(ORDERS))
    await expect(page.locator("#values tr")).to_have_count(len(POLICY))
    await expect(page.locator("form [name=capacity_messages]")).to_have_value("100")
    apply = page.get_by_role("button", name="Apply")
    await expect(apply).to_be_disabled()

    await typed(page, capacity_messages="5")
    await expect(page.locator("#preview")).to_contain_text("1 queue becomes overfull")
    await expect(page.locator("#preview")).to_contain_text("1 producer is blocked")
    assert broker.do(lambda memory: memory.management.read(ORDERS)["state"]) == "NORMAL"

    await apply.click()
    await expect(page.locator(".toast")).to_contain_text("Applied")
    assert broker.do(lambda memory: memory.management.read(ORDERS)["state"]) == "OVERFULL"

    await page.get_by_role("link", name="Change history").click()
    await page.get_by_role("button", name="Revert").click()
    dialog = page.locator("dialog")
    await expect(dialog).to_contain_text("1 producer is unblocked")
    await dialog.get_by_role("button", name="Revert").click()
    await expect(page.locator(".toast")).to_contain_text("Reverted")
    assert broker.do(lambda memory: memory.management.read(ORDERS)["state"]) == "NORMAL"
    await expect(page.locator(".audit-table tbody tr")).to_have_count(2)


async def test_invalid_value_is_reported_at_its_field_and_not_applied(people: People, broker: Broker) -> None:
    busy(broker)
    people.expected.append("400")
    page = await opened(await people.page("ada"), url(ORDERS))
    await expect(page.locator("form [name=capacity_messages]")).to_have_value("100")
    await typed(page, flow_resume_messages="101")
    row = page.locator("#values tr", has=page.locator("[name=flow_resume_messages]"))
    await expect(row).to_contain_text("resume above stop would lock flow control on")
    await expect(page.get_by_role("button", name="Apply")).to_be_disabled()
    await typed(page, flow_resume_messages="lots")
    await expect(row).to_contain_text("a percentage such as 80%")


async def test_none_differs_from_inherited(people: People, broker: Broker) -> None:
    """One queue of a virtual host with a dead-letter queue has none."""

    def inherit(memory: InMemoryBroker) -> None:
        host = object_name("VirtualHost", name="default")
        version = memory.management.read(host).version
        memory.management.update(host, {"dead_letter_queue": "dead"}, version, "test")

    busy(broker)
    broker.do(inherit)
    page = await opened(await people.page("ada"), url(ORDERS))
    field = page.locator("form [name=dead_letter_queue]")
    await expect(field).to_have_attribute("placeholder", re.compile("^dead "))
    none = page.locator("form [name=dead_letter_queue-none]")
    await none.check()
    await expect(field).to_be_disabled()
    await expect(page.locator("#preview ins")).to_have_text("none")
    await page.get_by_role("button", name="Apply").click()
    await expect(page.locator(".toast")).to_contain_text("Applied")
    assert broker.do(lambda memory: memory.management.read(ORDERS)["dead_letter_queue"]) == ""
    await page.reload()
    await expect(none).to_be_checked()
    await none.uncheck()
    await expect(page.locator("#preview ins")).to_have_text("dead")
    await page.get_by_role("button", name="Apply").click()
    await expect(page.locator(".toast")).to_contain_text("Applied")
    assert broker.do(lambda memory: memory.management.read(ORDERS)["dead_letter_queue"]) is None


async def test_pattern_is_created_reordered_and_removed(people: People, broker: Broker) -> None:
    for name in ("orders.eu", "orders.us"):
        broker.do(lambda memory, name=name: memory.fill(name, 3))  # type: ignore[misc]
    for pattern in ("*.eu", "*.us"):
        broker.do(
            lambda memory, p=pattern: memory.management.create(  # type: ignore[misc]
                object_name("Policy", virtualhost="default", pattern=p), {}
            )
        )
    page = await opened(await people.page("ada"), "/policies/")
    host = page.locator('[data-host="default"]')
    await expect(host.locator("tbody th")).to_have_text(["*.us", "*.eu"])
    await host.get_by_role("button", name="Move *.eu up").click()
    await page.locator("dialog").get_by_role("button", name="Change order").click()
    await expect(host.locator("tbody th")).to_have_text(["*.eu", "*.us"])

    await host.get_by_role("link", name="New pattern").click()
    await typed(page, pattern="orders.>", capacity_messages="2")
    await expect(page.locator("#preview")).to_contain_text("2 queues affected (of 2 matching)")
    await page.get_by_role("button", name="Create").click()
    await expect(page.locator("h1")).to_have_text("orders.>")
    await expect(page.locator("#scope-says")).to_have_text("best match for 2 queues")
    assert broker.do(lambda memory: memory.management.read(PATTERN)["capacity_messages"]) == 2

    await page.get_by_role("button", name="Remove").click()
    await expect(page.locator("dialog")).to_contain_text("2 producers are unblocked")
    await page.locator("dialog").get_by_role("button", name="Remove").click()
    await expect(page.locator('[data-host="default"] tbody th')).to_have_text(["*.eu", "*.us"])


async def test_change_by_another_user_is_reported_and_edits_are_preserved(people: People, broker: Broker) -> None:
    people.expected.append("409")  # of a preview in flight during the other change
    busy(broker)
    page = await opened(await people.page("ada"), url(ORDERS))
    await expect(page.locator("form [name=capacity_messages]")).to_have_value("100")
    await typed(page, capacity_messages="70")
    broker.do(lambda memory: (memory.management.update(ORDERS, {"reject_after_ms": 5}, 1), memory._end_turn()))
    await expect(page.locator("#problem")).to_contain_text(re.compile(r"Changed at .* since you opened it"))
    await expect(page.locator("form [name=reject_after_ms]")).to_have_value("5")
    await expect(page.locator("form [name=capacity_messages]")).to_have_value("70")
    await page.get_by_role("button", name="Apply").click()
    await expect(page.locator(".toast")).to_contain_text("Applied")
    now = broker.do(lambda memory: memory.management.read(ORDERS))
    assert (now["capacity_messages"], now["reject_after_ms"]) == (70, 5)


async def test_own_change_is_never_reported_as_a_conflict(people: People, broker: Broker) -> None:
    """The snapshot with the new version arrives before the response to the request that made it."""
    busy(broker)
    page = await opened(await people.page("ada"), url(ORDERS))
    await expect(page.locator("form [name=capacity_messages]")).to_have_value("100")
    delayed, release = asyncio.Event(), asyncio.Event()

    async def slow(route: Route) -> None:
        response = await route.fetch()
        if route.request.method == "PATCH":
            delayed.set()
            await release.wait()
        await route.fulfill(response=response)

    await page.route("**/api/v1/brokers/*/objects/*/", slow)
    await page.evaluate(
        """async () => {
          window.problems = [];
          const box = document.getElementById("problem");
          const look = () => box.hidden || window.problems.push(box.textContent);
          new MutationObserver(look).observe(box, { attributes: true, childList: true });
          const { live } = await import(
              document.querySelector('script[src*="frame"]').src.replace("pages/frame.js", "core/connection.js")
          );
          window.versions = [];
          live.addEventListener("snapshot", (event) => window.versions.push(event.detail.data.object?.version));
        }"""
    )
    await typed(page, capacity_messages="70")
    await page.get_by_role("button", name="Apply").click()
    await delayed.wait()
    version = broker.do(lambda memory: memory.management.read(ORDERS).version)
    await until_in_page(page, "version => window.versions.includes(version)", version)
    release.set()
    await expect(page.locator(".toast")).to_contain_text("Applied")
    await expect(page.locator("form [name=capacity_messages]")).to_have_value("70")
    assert await page.evaluate("window.problems") == []

    people.expected.append("409")  # of a preview in flight during the other change
    await typed(page, capacity_messages="60")
    broker.do(lambda memory: (memory.management.update(ORDERS, {"reject_after_ms": 5}, version), memory._end_turn()))
    await expect(page.locator("#problem")).to_contain_text("since you opened it")  # another client


async def test_change_by_another_client_during_the_reload_after_saving_is_reported(
    people: People, broker: Broker
) -> None:
    busy(broker)
    page = await opened(await people.page("ada"), url(ORDERS))
    await expect(page.locator("form [name=capacity_messages]")).to_have_value("100")
    reloading, release = asyncio.Event(), asyncio.Event()
    saved = False

    async def slow(route: Route) -> None:
        nonlocal saved
        response = await route.fetch()
        if saved:
            reloading.set()
            await release.wait()
        saved = saved or route.request.method == "PATCH"
        await route.fulfill(response=response)

    await page.route("**/api/v1/brokers/*/objects/*/", slow)
    await typed(page, capacity_messages="70")
    await page.get_by_role("button", name="Apply").click()
    await reloading.wait()
    people.expected.append("409")  # of a preview on top of the version of the reload
    await typed(page, capacity_messages="60")
    await expect(page.get_by_role("button", name="Apply")).to_be_enabled()  # previewed before the other change
    version = broker.do(lambda memory: memory.management.read(ORDERS).version)
    broker.do(lambda memory: (memory.management.update(ORDERS, {"reject_after_ms": 5}, version), memory._end_turn()))
    release.set()
    await expect(page.locator("#problem")).to_contain_text("since you opened it")
    await expect(page.locator("form [name=capacity_messages]")).to_have_value("60")


async def test_conflict_names_the_other_user_and_the_time(people: People, broker: Broker) -> None:
    busy(broker)
    ada = await opened(await people.page("ada"), url(ORDERS))
    ben = await opened(await people.page("ben"), url(ORDERS))
    await typed(ada, capacity_messages="70")
    await expect(ada.locator("#preview ins")).to_have_text("70 messages")
    await typed(ben, reject_after_ms="5")
    await ben.get_by_role("button", name="Apply").click()
    await expect(ada.locator("#problem")).to_contain_text(
        re.compile(r"Changed by ben at \d\d:\d\d:\d\d since you opened it")
    )
    await expect(ada.locator("form [name=reject_after_ms]")).to_have_value("5")
    await expect(ada.locator("form [name=capacity_messages]")).to_have_value("70")


async def test_viewer_can_preview_but_not_apply(people: People, broker: Broker) -> None:
    busy(broker)
    page = await opened(await people.page("vic", "viewers"), url(ORDERS))
    await expect(page.locator("form [name=capacity_messages]")).to_have_value("100")
    await typed(page, capacity_messages="5")
    await expect(page.locator("#preview")).to_contain_text("1 producer is blocked")
    await page.get_by_role("button", name="Apply").click(force=True)
    await expect(page.locator(".toast").last).to_contain_text("the role of")
    assert broker.do(lambda memory: memory.management.read(ORDERS)["capacity_messages"]) == 100


async def test_scopes_are_listed_with_their_overrides_and_updated_live(people: People, broker: Broker) -> None:
    page = await opened(await people.page("vic", "viewers"), "/policies/")
    await expect(page.locator("#own-empty")).to_contain_text("No overrides: all queues inherit")
    busy(broker)
    broker.do(
        lambda memory: (
            memory.management.create(PATTERN, {"capacity_messages": 7, "flow_resume_messages": "50%"}),
            memory._end_turn(),
        )
    )
    row = page.locator('[data-host="default"] tbody tr')
    await expect(row.locator(".setting")).to_have_text(
        [re.compile("Capacity 7 messages"), re.compile("Resume at, messages 50%")]
    )
    await expect(page.locator("#own th a")).to_have_text(["orders"])


FILE = "version: 1\nvirtualhosts: {default: {queues: {orders: {capacity_messages: 5}}}}"


async def test_newer_search_gives_up_the_one_before_whose_answer_is_late(people: People, broker: Broker) -> None:
    busy(broker)
    page = await opened(await people.page("ada"), "/policies/")
    await expect(page.locator("#own tr")).to_have_count(1)
    await page.route("**/policies/?*search=late*", lambda route: None)  # it is never answered
    async with page.expect_request(lambda sent: "search=late" in sent.url):
        await page.locator("#search").fill("late")
    async with page.expect_event("requestfailed", lambda sent: "search=late" in sent.url):
        await page.locator("#search").fill("none")
    await expect(page.locator("#own-empty")).to_contain_text("No matching queue with overrides.")


async def test_file_is_compared_and_applied(people: People, broker: Broker) -> None:
    busy(broker)
    people.expected.append("400")
    page = await opened(await people.page("ada"), "/policies/file/")
    apply = page.get_by_role("button", name="Apply")
    await page.get_by_role("button", name="Load current policies").click()
    await expect(page.locator("#yaml")).to_have_value(re.compile("capacity_messages: 100"))
    await page.get_by_role("button", name="Compare").click()
    await expect(page.locator("#difference")).to_contain_text("No differences")
    await expect(apply).to_be_disabled()

    await page.locator("#yaml").fill("version: 1\nbroker: {colour: red}")
    await page.get_by_role("button", name="Compare").click()
    await expect(page.locator("#problem")).to_contain_text("line 2: colour is not a policy field")

    await page.locator("#yaml").fill(FILE)
    await page.get_by_role("button", name="Compare").click()
    await expect(page.locator("#difference")).to_contain_text("1 object would change")
    await expect(page.locator("#difference")).to_contain_text("1 producer is blocked")
    await apply.click()
    await expect(page.locator("#difference")).to_contain_text("1 object changed")
    assert broker.do(lambda memory: memory.management.read(ORDERS)["capacity_messages"]) == 5


async def test_viewer_exports_and_compares_but_cannot_apply_a_file(people: People, broker: Broker) -> None:
    busy(broker)
    page = await opened(await people.page("vic", "viewers"), "/policies/file/")
    async with page.expect_download() as downloading:
        await page.get_by_role("link", name="Download current policies").click()
    assert (await downloading.value).suggested_filename == "policies-local.yaml"
    await page.locator("#yaml").fill(FILE)
    await page.get_by_role("button", name="Compare").click()
    await expect(page.locator("#difference")).to_contain_text("1 object would change")
    await page.get_by_role("button", name="Apply").click(force=True)
    await expect(page.locator(".toast").last).to_contain_text("the role of")
    assert broker.do(lambda memory: memory.management.read(ORDERS)["capacity_messages"]) == 100


async def test_bulk_edit_is_previewed_applied_and_undone(people: People, broker: Broker) -> None:
    for name in ("a.1", "a.2", "b.1"):
        broker.do(lambda memory, name=name: (limited(memory, name, 100), memory.fill(name, 10)))  # type: ignore[misc]
    page = await opened(await people.page("ada"), "/policies/bulk/")
    await expect(page.locator("#count")).to_have_text("None selected")
    await page.get_by_label("All matching queues").check()
    await expect(page.locator("#count")).to_have_text("3")
    await page.locator("#pattern").fill("a.>")
    await expect(page.locator("#count")).to_have_text("2")
    await page.get_by_label("Capacity, messages", exact=True).first.check()
    await typed(page, capacity_messages="5")
    await expect(page.locator("#preview")).to_contain_text("2 queues become overfull")
    await page.get_by_role("button", name="Apply").click()

    await expect(page.locator("h1")).to_contain_text("Bulk edit")
    await expect(page.locator("#state")).to_contain_text("Done at")
    await expect(page.locator("#counts")).to_contain_text("2 queues changed")
    names = ("a.1", "a.2", "b.1")

    def capacities() -> list[object]:
        return broker.do(
            lambda memory: [
                memory.management.read(object_name("Queue", virtualhost="default", name=name))["capacity_messages"]
                for name in names
            ]
        )

    assert capacities() == [5, 5, 100]
    await page.get_by_role("button", name="Undo").click()
    await expect(page.locator("dialog")).to_contain_text("2 producers are unblocked")
    await page.locator("dialog").get_by_role("button", name="Undo").click()
    await expect(page.locator("h1")).to_contain_text("Undo of bulk edit")
    await expect(page.locator("#state")).to_contain_text("Done at")
    assert capacities() == [100, 100, 100]
    await page.locator("#sets").get_by_role("link").click()
    await expect(page.locator("#sets")).to_contain_text("Undone by bulk edit")
    await expect(page.locator("#undo")).to_be_hidden()


async def test_undo_of_a_bulk_edit_says_what_others_have_changed_since(people: People, broker: Broker) -> None:
    names = ("a.1", "a.2")
    for name in names:
        broker.do(lambda memory, name=name: limited(memory, name, 100))  # type: ignore[misc]
    page = await opened(await people.page("ada"), "/policies/bulk/")
    await page.get_by_label("All matching queues").check()
    await page.get_by_label("Capacity, messages", exact=True).first.check()
    await typed(page, capacity_messages="50")
    await page.get_by_role("button", name="Apply to 2 queues").click()
    await expect(page.locator("#counts")).to_contain_text("2 queues changed")
    for changed in names:
        queue = object_name("Queue", virtualhost="default", name=changed)
        version = broker.do(lambda memory, queue=queue: memory.management.read(queue).version)  # type: ignore[misc]
        broker.do(
            lambda memory, queue=queue, version=version: memory.management.update(  # type: ignore[misc]
                queue, {"capacity_messages": 70}, version
            )
        )
        await asyncio.to_thread(until, lambda queue=queue: broker.link.queue(queue)["capacity_messages"] == 70)  # type: ignore[misc]
        await page.get_by_role("button", name="Undo").click()
        dialog = page.locator("dialog")
        left = 1 if changed == "a.1" else 2
        said = "1 queue has been changed or deleted" if left == 1 else "2 queues have been changed or deleted"
        await expect(dialog).to_contain_text(f"{said} since the edit")
        undo = dialog.get_by_role("button", name="Undo")
        await (expect(undo).to_be_enabled() if left == 1 else expect(undo).to_be_disabled())
        await dialog.get_by_role("button", name="Cancel").click()


async def test_bulk_edit_of_other_queues_than_previewed_is_refused_and_previewed_again(
    people: People, broker: Broker
) -> None:
    people.expected.append("409")
    broker.do(lambda memory: limited(memory, "a.1", 100))
    page = await opened(await people.page("ada"), "/policies/bulk/")
    await page.get_by_label("All matching queues").check()
    await page.get_by_label("Capacity, messages", exact=True).first.check()
    await typed(page, capacity_messages="x2")
    apply = page.locator("#apply")
    await expect(apply).to_have_text("Apply to 1 queue")
    await expect(apply).to_be_enabled()
    broker.do(lambda memory: limited(memory, "a.2", 100))  # while the reason is typed
    await asyncio.to_thread(until, lambda: len(broker.link.queues()) == 2)
    await page.get_by_label("Reason").fill("outage")
    await apply.click()
    await expect(page.locator("#problem")).to_contain_text("it would now change 2 queues")
    await expect(apply).to_have_text("Apply to 2 queues")
    await expect(page.locator("#count")).to_have_text("2")
    await apply.click()
    await expect(page.locator("#counts")).to_contain_text("2 queues changed")


async def test_viewer_can_preview_but_not_apply_a_bulk_edit_of_selected_queues(people: People, broker: Broker) -> None:
    for name in ("a.1", "a.2"):
        broker.do(lambda memory, name=name: (limited(memory, name, 100), memory.fill(name, 10)))  # type: ignore[misc]
    page = await opened(await people.page("vic", "viewers"), "/policies/bulk/")
    await page.get_by_label("All matching queues").uncheck()
    await page.get_by_label("Select a.2").check()
    await page.get_by_label("Capacity, messages", exact=True).first.check()
    await typed(page, capacity_messages="5")
    await expect(page.locator("#preview")).to_contain_text("1 queue becomes overfull")
    await page.get_by_role("button", name="Apply").click(force=True)
    await expect(page.locator(".toast").last).to_contain_text("the role of")
    await expect(page.locator("#jobs-empty")).to_be_visible()


async def test_viewer_cannot_reorder_or_remove_patterns_or_revert(people: People, broker: Broker) -> None:
    busy(broker)
    for pattern in ("*.eu", "*.us"):
        broker.do(
            lambda memory, p=pattern: memory.management.create(  # type: ignore[misc]
                object_name("Policy", virtualhost="default", pattern=p), {}
            )
        )
    editor = await opened(await people.page("ada"), url(ORDERS))
    await typed(editor, capacity_messages="50")
    await editor.get_by_role("button", name="Apply").click()
    await expect(editor.locator(".toast")).to_contain_text("Applied")

    page = await opened(await people.page("vic", "viewers"), "/policies/")
    for path, button in (
        ("/policies/", "Move *.eu up"),
        (url(object_name("Policy", virtualhost="default", pattern="*.eu")), "Remove…"),
        ("/audit/", "Revert…"),
    ):
        await page.goto(path)
        await page.get_by_role("button", name=button).click(force=True)
        await expect(page.locator(".toast").last).to_contain_text("the role of")
        await expect(page.locator("dialog")).to_have_count(0)


async def test_preview_of_a_pattern_without_effect_lists_overriding_queues(people: People, broker: Broker) -> None:
    for name in ("orders.eu", "orders.us"):
        broker.do(lambda memory, name=name: limited(memory, name, 100))  # type: ignore[misc]
    page = await opened(await people.page("ada"), "/policies/")
    await page.locator('[data-host="default"]').get_by_role("link", name="New pattern").click()
    await typed(page, pattern="orders.>", capacity_messages="2")
    preview = page.locator("#preview")
    await expect(preview).to_contain_text("Matches 2 queues; no effective value changes.")
    await expect(preview.locator(".overrides li")).to_have_text(
        [re.compile("orders.eu sets Capacity, messages"), re.compile("orders.us sets Capacity, messages")]
    )
