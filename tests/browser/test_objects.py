"""The object browser in Chromium: everything on it comes from the declared types."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest
from playwright.async_api import Page, Route, expect

from brokers.model import TYPES, object_name
from brokers.testing import InMemoryBroker
from tests.browser.chromium import MISSING, PATH
from tests.browser.conftest import Broker, People
from tests.browser.test_overview import limited, opened

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(PATH is None, reason=MISSING),
    pytest.mark.asyncio(loop_scope="module"),
]

ORDERS = object_name("Queue", virtualhost="default", name="orders")
URL = "/objects/?object=type%3DQueue%2Cvirtualhost%3Ddefault%2Cname%3Dorders"


def value(page: Page, name: str) -> Any:
    row = page.locator(".attributes-table tr", has=page.locator("th", has_text=re.compile(f"^{name}(writable)?$")))
    return row.locator("td.value")


async def test_tree_expands_from_the_broker_to_a_producer(people: People, broker: Broker) -> None:
    broker.do(lambda memory: memory.fill("orders", 3))
    page = await opened(await people.page("ada"), "/objects/")
    tree = page.locator("#tree")
    for name in ("Virtual hosts", "default", "Queues", "orders", "Producers"):
        await tree.locator(".node-row", has_text=re.compile(f"^{name}")).first.click()
    producer = tree.locator('[data-object^="type=Producer"]')
    await expect(producer).to_have_count(1)
    await producer.locator(".node-row").click()
    await expect(page.locator("#object h2")).to_have_text(re.compile("^Producer "))
    await expect(value(page, "Messages")).to_contain_text("3")
    await page.go_back()
    await expect(page.locator("#object h2")).to_have_text("orders")


async def test_all_declared_attributes_are_shown_live(people: People, broker: Broker) -> None:
    broker.do(lambda memory: limited(memory, "orders", 10))
    page = await opened(await people.page("ada"), URL)
    await expect(page.locator(".attributes-table tbody tr")).to_have_count(len(TYPES["Queue"].attributes))
    await expect(value(page, "State")).to_have_text("Normal")
    broker.do(lambda memory: memory.fill("orders", 20))
    await expect(value(page, "State")).to_have_text("Overfull")
    await expect(page.locator('#tree [aria-selected="true"]')).to_have_attribute("data-object", str(ORDERS))


async def test_object_that_never_existed_was_not_deleted(people: People, broker: Broker) -> None:
    def made_and_deleted(memory: InMemoryBroker) -> None:
        name = object_name("Exchange", virtualhost="default", name="fan")
        memory.management.create(name, {"exchange_type": "fanout"})
        memory.management.delete(name, None)
        memory._end_turn()

    broker.do(made_and_deleted)
    url = "/objects/?object=type%3DExchange%2Cvirtualhost%3Ddefault%2Cname%3D"
    page = await opened(await people.page("ada"), f"{url}fan")
    notice = page.locator("#object .notice")
    await expect(notice).to_have_text(
        re.compile(r"^No such object\. It was deleted at [\d:]+\. Show virtual host default$")
    )
    async with page.expect_response(re.compile("/timeline/")) as response:
        await page.goto(f"{url}nowhere")
    await (await response.value).finished()
    await expect(notice).to_have_text(re.compile(r"^No such object\.\s+Show virtual host default$"))
    await notice.get_by_role("link", name="Show virtual host default").click()
    await expect(page.locator("#object h2")).to_have_text("default")
    await expect(notice).to_be_hidden()


async def test_empty_folder_has_its_note_below_its_name(people: People, broker: Broker) -> None:
    # The tree is opened where the object would be.
    url = "/objects/?object=type%3DExchange%2Cvirtualhost%3Ddefault%2Cname%3Dnowhere"
    page = await opened(await people.page("ada"), url)
    folder = page.locator('#tree [data-folder="Exchange"]')
    note = folder.locator(".node-note")
    await expect(note).to_have_text("none")
    indented = await note.evaluate("""(note) => {
        const row = note.closest("[data-folder]").querySelector(".node-name");
        const range = document.createRange();
        range.selectNodeContents(note);
        return range.getBoundingClientRect().left - row.getBoundingClientRect().left;
    }""")
    assert indented >= 0


async def test_folder_that_is_being_loaded_has_its_note_below_its_name(people: People, broker: Broker) -> None:
    page = await people.page("ada")
    come = asyncio.Event()

    async def later(route: Route) -> None:
        await come.wait()
        await route.continue_()

    await page.route("**/objects/?type=VirtualHost*", later)
    await page.goto("/objects/")
    folder = page.locator('#tree [data-folder="VirtualHost"]')
    await folder.locator(".node-row").click()
    note = folder.locator(".loading")
    await expect(note).to_have_text("…")
    row, note_box = await folder.locator(".node-name").bounding_box(), await note.bounding_box()
    start = await note.evaluate("(note) => parseFloat(getComputedStyle(note).paddingInlineStart)")
    assert row is not None
    assert note_box is not None
    assert 0 <= note_box["x"] + start - row["x"] < 24
    come.set()
    await expect(note).to_have_count(0)


async def test_writable_attribute_is_edited(people: People, broker: Broker) -> None:
    broker.do(lambda memory: limited(memory, "orders", 10))
    page = await opened(await people.page("ada"), URL)
    await page.get_by_role("button", name="Edit").click()
    await page.locator(".attributes-form").get_by_label("Capacity messages").fill("500")
    await page.get_by_role("button", name="Save").click()
    await expect(value(page, "Capacity messages")).to_contain_text("500")
    assert broker.do(lambda memory: memory.management.read(ORDERS)["capacity_messages"]) == 500


async def test_destructive_operation_requires_confirmation(people: People, broker: Broker) -> None:
    broker.do(lambda memory: memory.fill("orders", 5))
    page = await opened(await people.page("ada"), f"{URL}&tab=operations")
    operation = page.locator(".operation", has=page.locator("code", has_text=re.compile("^purge$")))
    await operation.get_by_role("button", name="Call purge").click()
    await expect(operation).to_contain_text("Confirm first")
    assert broker.do(lambda memory: memory.management.read(ORDERS)["depth_messages"]) == 5
    await operation.get_by_label("I understand that this cannot be undone").check()
    await operation.get_by_role("button", name="Call purge").click()
    await expect(operation.locator(".operation-answer")).to_contain_text("5")
    assert broker.do(lambda memory: memory.management.read(ORDERS)["depth_messages"]) == 0


async def test_events_of_an_object_are_shown_live(people: People, broker: Broker) -> None:
    broker.do(lambda memory: limited(memory, "orders", 10))
    page = await opened(await people.page("ada"), f"{URL}&tab=notifications")
    await expect(page.locator("#object .feed")).to_contain_text("Queue created")
    broker.do(lambda memory: memory.fill("orders", 20))
    await expect(page.locator("#object .feed")).to_contain_text("Queue overfull")
    await expect(page.locator("#object .feed")).not_to_contain_text("Producer blocked")
    await page.get_by_label("Include child objects").check()
    await expect(page.locator("#object .feed")).to_contain_text("Producer blocked")


async def test_search_finds_objects_of_every_type(people: People, broker: Broker) -> None:
    broker.do(lambda memory: memory.fill("orders", 1))
    broker.do(lambda memory: memory.fill("payments", 1))
    page = await opened(await people.page("ada"), "/objects/")
    await expect(page.locator("#tree .node-row").first).to_be_visible()
    await page.locator("#search").fill("ORD")
    # The queue, and its producer.
    await expect(page.locator("#found button")).to_have_text([re.compile("orders"), re.compile("Producer")])
    await page.locator("#found button").first.click()
    await expect(page.locator("#object h2")).to_have_text("orders")


async def test_viewer_cannot_edit_or_call_operations_with_effects(people: People, broker: Broker) -> None:
    broker.do(lambda memory: limited(memory, "orders", 10))
    page = await opened(await people.page("vic", "viewers"), URL)
    await page.get_by_role("button", name="Edit").click(force=True)
    await expect(page.locator(".toast").last).to_contain_text("the role of")
    await page.locator("#tab-operations").click()
    await page.get_by_role("button", name="Call purge").click(force=True)
    await expect(page.locator(".toast")).to_have_count(2)
    explain = page.locator(".operation", has=page.locator("code", has_text=re.compile("^explain$")))
    await explain.get_by_role("button", name="Call explain").click()
    await expect(explain.locator(".operation-answer")).to_contain_text("capacity_messages")


async def test_queue_is_created_and_deleted_from_its_declared_attributes(people: People, broker: Broker) -> None:
    page = await opened(await people.page("ada"), "/objects/")
    for name in ("Virtual hosts", "default"):
        await page.locator("#tree .node-row", has_text=re.compile(f"^{name}")).first.click()
    queues = page.locator('#tree [data-folder="Queue"] > .node-row')
    await queues.get_by_role("button", name="New").click()
    form = page.locator(".attributes-form")
    await expect(form.get_by_label("Virtualhost")).to_have_value("default")
    await form.get_by_label("Name").fill("orders")
    await form.get_by_label("Capacity messages").fill("10 k")
    await form.get_by_role("button", name="Create").click()
    await expect(page.locator("#object h2")).to_have_text("orders")
    assert broker.do(lambda memory: memory.management.read(ORDERS)["capacity_messages"]) == 10_000
    await expect(page.locator('#tree [aria-selected="true"]')).to_have_attribute("data-object", str(ORDERS))

    await page.locator("#tab-operations").click()
    delete = page.locator(".operation", has=page.locator("code", has_text=re.compile("^delete$")))
    await delete.get_by_role("button", name="Delete this queue").click()
    await expect(delete).to_contain_text("Confirm first")
    await delete.get_by_label("I understand that this cannot be undone").check()
    await delete.get_by_role("button", name="Delete this queue").click()
    await expect(page.locator("#object")).to_have_class(re.compile("gone"))
    await expect(page.locator(f"#tree [data-object='{ORDERS}']")).to_have_count(0)


async def test_subscriptions_and_slow_consumer_policies_are_children_of_their_virtual_host(
    people: People, broker: Broker
) -> None:
    consumer = broker.do(lambda memory: memory.subscribe("prices", "mine", durable=True))
    page = await opened(await people.page("ada"), "/objects/")
    tree = page.locator("#tree")
    for name in ("Virtual hosts", "default", "Subscriptions", "subscriptions.prices"):
        await tree.locator(".node-row", has_text=re.compile(f"^{re.escape(name)}")).first.click()
    await expect(page.locator("#object h2")).to_have_text(consumer.queue.name)
    await expect(value(page, "Topic")).to_have_text("prices")
    await expect(value(page, "Durable")).to_have_text("yes")
    await expect(value(page, "Held in").get_by_role("link")).to_have_attribute(
        "href", re.compile("subscriptions.prices")
    )


async def test_a_slow_consumer_policy_is_created_in_the_form_of_its_type(people: People, broker: Broker) -> None:
    page = await opened(await people.page("ada"), "/objects/")
    tree = page.locator("#tree")
    for name in ("Virtual hosts", "default"):
        await tree.locator(".node-row", has_text=re.compile(f"^{name}")).first.click()
    folder = tree.locator('[data-folder="SlowConsumerPolicy"]')
    await folder.get_by_role("button").first.click()
    form = page.locator(".attributes-form")
    await form.get_by_label("Name").fill("stuck")
    await form.get_by_label("Topic").fill("prices.>")
    await form.get_by_label("Message age").fill("60000")
    await form.get_by_label("Policy").select_option("topicdelete")
    await form.get_by_role("button", name="Create").click()
    await expect(page.locator("#object h2")).to_have_text("stuck")
    made = broker.do(lambda memory: memory.engine.slow_consumers.policy("default", "stuck"))
    assert made.given == {"topic": "prices.>", "messageAge": 60_000, "policy": "topicdelete"}


async def test_generated_password_of_a_new_user_is_shown_once(people: People, broker: Broker) -> None:
    page = await opened(await people.page("adele", "administrators"), "/objects/")
    users = page.locator('#tree [data-folder="User"] > .node-row')
    await users.get_by_role("button", name="New").click()
    form = page.locator(".attributes-form")
    await form.get_by_label("Name").fill("anna")
    assert await form.get_by_label("Password", exact=True).get_attribute("type") == "password"
    await form.get_by_role("button", name="Add a virtual host").click()
    hosts = form.get_by_label("Virtual host")  # chosen from those that exist
    await expect(hosts.locator("option")).to_have_text(["Select a virtual host", "All virtual hosts", "default"])
    await hosts.select_option("default")
    await form.get_by_role("button", name="Create").click()
    await expect(form.get_by_role("alert").filter(has_text="Select permissions on default")).to_be_visible()
    await form.get_by_label("publish", exact=True).check()
    await expect(form.get_by_text("override inherited value")).to_have_count(0)  # a user inherits nothing
    await form.get_by_role("button", name="Create").click()
    secret_box = form.locator(".shown-once")
    await expect(secret_box).to_have_text(re.compile(r"^[\w-]{40,}$"))
    secret = await secret_box.inner_text()
    await form.get_by_role("button", name="I have noted it").click()
    await expect(page.locator("#object h2")).to_have_text("anna")
    await expect(value(page, "Grants")).to_contain_text("default:publish")
    await expect(value(page, "Password")).to_have_text("never shown")
    assert secret not in await page.content()

    await page.get_by_role("button", name="Edit").click()
    await form.get_by_label("Password", exact=True).fill(" another, with blanks ")
    await form.get_by_role("button", name="Save").click()
    await expect(value(page, "Password")).to_have_text("never shown")
    await expect(value(page, "Version")).to_contain_text("2")
    assert "another, with blanks" not in await page.content()


async def test_operator_sees_users_and_which_role_can_change_them(people: People, broker: Broker) -> None:
    page = await opened(await people.page("ada"), "/objects/?object=type%3DUser%2Cname%3Dconsole")
    await expect(value(page, "Administrator")).to_have_text("yes")
    await page.get_by_role("button", name="Edit").click(force=True)
    await expect(page.locator(".toast").last).to_contain_text("role of administrator")
