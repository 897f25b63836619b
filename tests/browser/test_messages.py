"""The messages page in Chromium: the list with its filter and pages, one message, actions; and the dead letters page.

All answers are those of the broker in memory, but of jobs, which a worker does.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from typing import Any

import pytest
from django.db import connections
from playwright.async_api import Page, Route, expect
from proton import Message

from brokers.model import object_name
from brokers.testing import InMemoryBroker
from console.audit.models import AuditEntry
from tests.browser.chromium import MISSING, PATH
from tests.browser.conftest import LIMIT, Broker, People
from tests.browser.test_overview import used
from tests.console.other_kind import OtherKind

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(PATH is None, reason=MISSING),
    pytest.mark.asyncio(loop_scope="module"),
]

expect.set_options(timeout=LIMIT)

ORDERS = "type=Queue,virtualhost=default,name=orders"
PAGE = f"/messages/?object={ORDERS}"
HOSTILE = "bill \u202egnp.exe <img src=x onerror=alert(1)>\x07"


def encoded(**given: Any) -> bytes:
    return bytes(Message(**given).encode())


def published(memory: InMemoryBroker, count: int = 3) -> None:
    """Messages `m0`, `m1` … with a colour, of which the first has a hostile subject."""
    used(memory, "orders", 10_000)
    used(memory, "payments", 10_000)
    colours = ("red", "blue")
    memory.publish_encoded(
        "orders",
        *(
            encoded(
                id=f"m{n}",
                subject=HOSTILE if n == 0 else f"order {n}",
                properties={"colour": colours[n % 2], "n": n},
                body="x" * (n + 1),
            )
            for n in range(count)
        ),
    )


def rows(page: Page) -> Any:
    return page.locator("#messages tr")


async def answering(page: Page, answers: Mapping[str, Any]) -> list[Any]:
    """Answer requests below /api/v1/ whose path is here, or whose path and "?preview" are. Returns the bodies of POST
    requests that are answered so, as they come. A number is a status."""
    sent: list[Any] = []

    async def answer(route: Route) -> None:
        path = route.request.url.split("/api/v1/")[1].split("?")[0]
        body = route.request.post_data_json if route.request.method == "POST" else None
        found = answers.get(f"{path}?preview" if body and body.get("preview") else path)
        if body is not None and found is not None:
            sent.append((path, body))
        if found is None:
            await route.fallback()
        elif isinstance(found, int):
            await route.fulfill(status=found, json={"detail": "It is not there."})
        else:
            await route.fulfill(json=found)

    await page.route("**/api/v1/**", answer)
    return sent


async def test_list_shows_hostile_texts_as_text_with_visible_escapes(people: People, broker: Broker) -> None:
    broker.do(published)
    page = await people.page("vera", "viewers")
    await page.goto(PAGE)
    await expect(rows(page)).to_have_count(3)
    first = rows(page).first
    await expect(first.locator("th a")).to_have_text(r"bill \u202Egnp.exe <img src=x onerror=alert(1)>\x07")
    assert await page.locator("#messages img").count() == 0
    await expect(first.locator("[data-label=Position]")).to_have_text("1")
    await expect(first.locator(".c-properties")).to_have_text("colour=redn=0")
    await expect(page.locator("#depth")).to_contain_text("3 messages")
    await first.locator("th a").click()
    panel = page.locator("#panel")
    await expect(panel.get_by_role("heading", level=2)).to_contain_text(r"\u202Egnp.exe")
    await expect(panel).to_contain_text("require the role of message reader")
    await expect(panel.locator("dl").first).to_contain_text("Redeliveries0")


async def test_filter_is_in_the_address_and_back_returns(people: People, broker: Broker) -> None:
    broker.do(lambda memory: published(memory, 6))
    page = await people.page("vera", "viewers")
    await page.goto(PAGE)
    await expect(rows(page)).to_have_count(6)
    await page.get_by_label("Selector").fill("colour = 'red' AND n > 1")
    await page.get_by_label("Selector").press("Enter")
    await expect(rows(page)).to_have_count(2)
    await page.get_by_label("Property", exact=True).fill("n=4")
    await page.get_by_role("button", name="Filter", exact=True).click()
    await expect(rows(page)).to_have_count(1)
    shared = page.url
    await page.go_back()
    await expect(rows(page)).to_have_count(2)
    await page.go_back()
    await expect(rows(page)).to_have_count(6)
    await expect(page.get_by_label("Selector")).to_have_value("")
    other = await people.page("vasil", "viewers")
    await other.goto(shared)
    await expect(rows(other)).to_have_count(1)
    await expect(other.locator("#properties")).to_contain_text("n=4")
    await other.get_by_role("button", name="Clear").click()
    await expect(rows(other)).to_have_count(6)


async def test_invalid_filter_is_reported_at_its_field(people: People, broker: Broker) -> None:
    people.expected.append("status of 400")
    broker.do(published)
    page = await people.page("vera", "viewers")
    await page.goto(PAGE)
    await expect(rows(page)).to_have_count(3)
    await page.get_by_label("Older than").fill("soon")
    await page.get_by_label("Older than").press("Enter")
    await expect(page.locator("#filter-problem")).to_have_text(re.compile("soon is not a duration"))
    await expect(page.get_by_label("Older than")).to_be_focused()
    await expect(rows(page)).to_have_count(3)  # nothing was requested
    await page.get_by_label("Older than").fill("")
    await page.get_by_label("Selector").fill("colour = ")
    await page.get_by_label("Selector").press("Enter")
    await expect(page.get_by_label("Selector")).to_have_attribute("aria-invalid", "true")
    await expect(rows(page)).to_have_count(0)


async def test_chip_removed_beside_a_faulty_field_stays_until_the_filter_is_valid(
    people: People, broker: Broker
) -> None:
    broker.do(published)
    page = await people.page("ada")
    await page.goto(f"{PAGE}&property=colour%3Dred")
    await expect(rows(page)).to_have_count(2)
    await page.get_by_label("Older than").fill("soon")
    await page.get_by_role("button", name="Remove colour").click()
    await expect(page.locator("#filter-problem")).to_contain_text("soon is not a duration")
    await expect(page.locator("#properties")).to_contain_text("colour=red")  # what the list and the actions still use
    await expect(rows(page)).to_have_count(2)
    await page.get_by_label("Older than").fill("0s")
    async with page.expect_response(lambda answer: "older_than=0s" in answer.url):
        await page.get_by_label("Older than").press("Enter")
    await expect(rows(page)).to_have_count(2)
    await page.get_by_role("button", name="Remove colour").click()
    await expect(rows(page)).to_have_count(3)
    await expect(page.locator("#properties")).to_be_hidden()


async def test_pages_follow_the_cursor_forwards_and_back(people: People, broker: Broker) -> None:
    broker.do(lambda memory: published(memory, 60))
    page = await people.page("vera", "viewers")
    await page.goto(PAGE)
    await expect(rows(page)).to_have_count(50)
    await page.keyboard.press("]")
    await expect(rows(page)).to_have_count(10)
    await expect(rows(page).first.locator("[data-label=Position]")).to_have_text("51")
    await expect(page.locator("#page-number")).to_have_text("Page 2")
    await page.reload()
    await expect(page.locator("#page-number")).to_have_text("Page 2")
    await page.keyboard.press("[")
    await expect(rows(page).first.locator("[data-label=Position]")).to_have_text("1")
    await page.go_back()
    await expect(rows(page).first.locator("[data-label=Position]")).to_have_text("51")


async def test_empty_queue_missing_queue_and_lost_broker_are_distinguished(people: People, broker: Broker) -> None:
    people.expected += ["status of 404", "status of 503"]
    broker.do(lambda memory: (published(memory, 1), used(memory, "idle", 10)))
    page = await people.page("vera", "viewers")
    await page.goto(PAGE.replace("orders", "idle"))
    await expect(page.locator("#messages-empty")).to_have_text("The queue has no messages.")
    await page.goto(PAGE.replace("orders", "missing"))
    await expect(page.locator("#gone")).to_have_text("No such queue. Overview")
    await page.goto(PAGE)
    await expect(rows(page)).to_have_count(1)
    await asyncio.to_thread(broker.lose)
    await expect(page.locator("#banner-lost")).to_be_visible()
    await page.locator("#refresh").click()
    await expect(page.locator("#messages-empty")).to_contain_text("Not known while the broker does not answer")
    await asyncio.to_thread(broker.come_back)
    await expect(rows(page)).to_have_count(1)


async def test_rows_are_ticked_opened_and_closed_by_keys(people: People, broker: Broker) -> None:
    broker.do(published)
    page = await people.page("vera", "viewers")
    await page.goto(PAGE)
    await expect(rows(page)).to_have_count(3)
    for key in ("j", "j", "x"):
        await page.keyboard.press(key)
    await expect(page.locator("#selection")).to_contain_text("1 ticked")
    await expect(rows(page).nth(1).locator("input.pick")).to_be_checked()
    await page.keyboard.press("Enter")
    await expect(page.locator("#panel")).to_be_visible()
    await expect(page.locator("#panel h2")).to_have_text("Message order 1")
    await page.keyboard.press("Escape")
    await expect(page.locator("#panel")).to_be_hidden()
    await expect(rows(page).nth(1).locator("th a")).to_be_focused()
    await page.go_back()  # to the list without a message
    await expect(rows(page)).to_have_count(3)


JSON = '{"id": 12345678901234567890, "name": "<b>\u202e</b>"}'


def audited() -> list[dict[str, Any]]:
    """The audit trail. For a thread of its own: closes the thread's connection."""
    found = list(AuditEntry.objects.values())
    connections.close_all()
    return found


async def opened_message(people: People, broker: Broker, body: Any) -> Page:
    message = encoded(subject="one", body=body, annotations={"x-opt-key": "v"}, content_type="application/json")
    broker.do(lambda memory: (used(memory, "orders", 10), memory.publish_encoded("orders", message)))
    page = await people.page("adele", "administrators")
    await page.goto(PAGE)
    await rows(page).locator("th a").click()
    return page


async def test_body_is_shown_as_json_text_and_hexadecimal(people: People, broker: Broker) -> None:
    page = await opened_message(people, broker, JSON.encode())
    body = page.locator(".body-text")
    await expect(body).to_contain_text('"id": 12345678901234567890')
    await expect(body.locator(".escape")).to_have_text(r"\u202E")
    assert await body.locator("b").count() == 0
    await page.get_by_role("button", name="Text").click()
    await expect(body).to_have_text(JSON.replace("\u202e", r"\u202E"))
    await page.get_by_role("button", name="Hex").click()
    await expect(body).to_contain_text("00000000  7b 22 69 64")
    await expect(page.locator("#panel")).to_contain_text("x-opt-key")
    (entry,) = [entry for entry in await asyncio.to_thread(audited) if entry["operation"] == "read-message"]
    assert (entry["user_name"], entry["object"]) == ("adele", ORDERS)
    assert "12345678901234567890" not in str(entry)


async def test_cut_body_has_a_link_to_the_whole(people: People, broker: Broker) -> None:
    whole = "é" * 100_000
    page = await opened_message(people, broker, whole)
    await expect(page.locator("#panel")).to_contain_text("of 200,000 bytes")
    shown = await page.locator(".body-text").inner_text()
    assert shown == "é" * 32_768
    async with page.expect_download() as started:
        await page.get_by_role("link", name="Download the whole body").click()
    file = await (await started.value).path()
    assert await asyncio.to_thread(file.read_text) == whole


async def test_message_that_is_gone_meanwhile_is_said_to_be(people: People, broker: Broker) -> None:
    people.expected.append("status of 404")
    broker.do(lambda memory: published(memory, 2))
    page = await people.page("adele", "administrators")
    await page.goto(PAGE)
    await expect(rows(page)).to_have_count(2)
    broker.do(lambda memory: memory.consume(memory.attach_consumer("orders"), 1))
    await rows(page).first.locator("th a").click()
    await expect(page.locator("#panel")).to_contain_text("no longer in this queue")


COUNTS = {"messages": 2, "bytes": 500, "skipped": [], "skipped_messages": 0, "complete": True, "blocked": ""}


def acquired(memory: InMemoryBroker) -> None:
    """A consumer has the first message."""
    consumer = memory.attach_consumer("orders")
    consumer.credit = 1
    consumer.queue.touch()
    memory.advance(50)


async def test_ticked_messages_are_moved_to_an_existing_queue_after_a_preview(people: People, broker: Broker) -> None:
    broker.do(lambda memory: (published(memory), acquired(memory)))
    page = await people.page("ada")
    await page.goto(PAGE)
    for n in (0, 2):
        await rows(page).nth(n).locator("input.pick").check()
    await page.locator("#selection").get_by_role("button", name="Move…").click()
    dialog = page.locator("dialog")
    await expect(dialog.locator("h2")).to_have_text("Move: 2 ticked messages")
    await expect(dialog.locator("#target option")).to_have_text(["payments"])  # not the queue itself
    await dialog.locator("#target").select_option("payments")
    await expect(dialog.locator(".preview")).to_contain_text("Skipped: 1 message")
    await dialog.get_by_label("Reason").fill("incident 7")
    await dialog.get_by_role("button", name="Move 1 message").click()
    await expect(dialog.locator("h2")).to_have_text("Moved 1 message")
    await expect(dialog).to_contain_text("consumer has acquired it")
    await dialog.get_by_role("button", name="Close").click()
    await expect(rows(page)).to_have_count(2)
    await expect(page.locator("#selection")).to_contain_text("All messages of the queue")
    await page.goto(PAGE.replace("orders", "payments"))
    await expect(rows(page)).to_have_count(1)
    await expect(rows(page)).to_contain_text("order 2")
    assert "incident 7" in [entry["reason"] for entry in await asyncio.to_thread(audited)]


async def test_all_that_the_filter_finds_are_deleted_by_a_job_that_can_be_interrupted(
    people: People, broker: Broker
) -> None:
    broker.do(lambda memory: published(memory, 6))
    page = await people.page("ada")
    job = {
        "id": 3,
        "created": 1,
        "finished": None,
        "user_name": "ada",
        "object": ORDERS,
        "action": "delete",
        "to": "",
        "reason": "",
        "state": "running",
        "stalled": False,
        "blocked": "The store is full.",
        "error": "",
        "messages": 1200,
        "bytes": 5000,
        "skipped": 1,
        "searched": 4000,
        "depth": 10_000,
        "percent": 40,
        "at_least": False,
        "unconfirmed": 0,
    }
    jobs: dict[str, Any] = {"results": []}
    answers = {
        "messages/delete/?preview": {**COUNTS, "messages": 1000, "complete": False},
        "messages/delete/": {"job": job},
        "message-jobs/": jobs,
        "message-jobs/3/interrupt/": {},
    }
    sent = await answering(page, answers)
    await page.goto(f"{PAGE}&property=colour%3Dred")
    await expect(rows(page)).to_have_count(3)
    await page.locator("#selection").get_by_role("button", name="Delete…").click()
    jobs["results"] = [job]
    await page.locator("dialog").get_by_role("button", name="Delete at least 1,000 messages").click()
    line = page.locator("#jobs li")
    await expect(line).to_contain_text("Running: delete 1,200 messages")
    await expect(line).to_contain_text("40% (4,000 of 10,000 messages searched)")
    await expect(line).to_contain_text("Waiting: The store is full.")
    assert sent[-1][1]["match"] == {"properties": {"colour": "red"}}
    interrupt = line.get_by_role("button", name="Interrupt")
    await interrupt.evaluate("(element) => { element.marked = true; }")
    await interrupt.focus()
    job |= {"searched": 5000, "percent": 50}
    await expect(line).to_contain_text("50% (5,000 of 10,000 messages searched)")
    await expect(interrupt).to_be_focused()
    assert await interrupt.evaluate("(element) => element.marked")  # one that is replaced loses a click
    await interrupt.click()
    job |= {"state": "interrupted", "searched": 10_001, "percent": None}
    await expect(line.get_by_role("button", name="Resume")).to_be_visible()
    await expect(line).to_contain_text("\u2013 (10,001 messages searched)")
    assert sent[-1] == ("message-jobs/3/interrupt/", {})
    await line.get_by_role("button", name="Dismiss job 3").click()
    await expect(line).to_have_count(0)


async def test_published_message_is_in_the_queue_or_the_outcome_says_why_not(people: People, broker: Broker) -> None:
    broker.do(lambda memory: published(memory, 0))
    page = await people.page("adele", "administrators")
    await page.goto(PAGE)
    await page.locator("#publish").click()
    dialog = page.locator("dialog")
    await dialog.get_by_label("Body", exact=True).fill("hello")
    await dialog.get_by_label("Subject").fill("test")
    await dialog.get_by_label("Application properties").fill("colour=red\nbroken")
    await dialog.get_by_role("button", name="Publish").click()
    await expect(dialog).to_contain_text("broken is not NAME=VALUE.")
    await dialog.get_by_label("Application properties").fill("colour=red")
    await dialog.get_by_label("Time to live").fill("10m")
    await dialog.get_by_role("button", name="Publish").click()
    await expect(dialog.locator(".publish-outcome")).to_contain_text("Accepted")
    await expect(rows(page)).to_have_count(1)
    await expect(rows(page)).to_contain_text("colour=red")
    broker.do(stopped)
    await dialog.get_by_role("button", name="Publish again").click()
    await expect(dialog.locator(".publish-outcome")).to_contain_text(re.compile("stopped", re.IGNORECASE))
    await expect(rows(page)).to_have_count(1)


def stopped(memory: InMemoryBroker) -> None:
    name = object_name("Queue", virtualhost="default", name="orders")
    memory.management.call(name, "stop-producers", {"reason": "incident 7", "actor": "olga"}, "olga")
    memory._end_turn()


async def test_purge_says_what_it_will_delete_and_deletes_it(people: People, broker: Broker) -> None:
    broker.do(published)
    page = await people.page("ada")
    await page.goto(PAGE)
    await expect(rows(page)).to_have_count(3)
    await page.locator("#purge").click()
    await expect(page.locator("dialog .preview")).to_contain_text("3 messages")
    await page.locator("dialog").get_by_role("button", name="Purge 3 messages").click()
    await expect(page.locator("#messages-empty")).to_have_text("The queue has no messages.")


async def test_viewer_sees_actions_with_the_role_that_they_need(people: People, broker: Broker) -> None:
    broker.do(published)
    page = await people.page("vera", "viewers")
    await page.goto(PAGE)
    await page.locator("#selection").get_by_role("button", name="Move…").click(force=True)
    await expect(page.locator("#toasts")).to_contain_text("requires the role of operator")
    await page.locator("#publish").click(force=True)
    await expect(page.locator("#toasts")).to_contain_text("requires the role of publisher")
    await expect(page.locator("dialog")).to_have_count(0)


async def test_broker_of_a_kind_without_messages_says_so_in_one_sentence(people: People, broker: Broker) -> None:
    broker.wrap = OtherKind
    broker.do(lambda memory: used(memory, "orders", 10))
    await asyncio.to_thread(broker.lose)
    await asyncio.to_thread(broker.come_back)
    page = await people.page("ada")
    for path in (PAGE, "/dead-letters/"):
        await page.goto(path)
        await expect(page.locator("main .empty")).to_contain_text("does not offer access to messages")
    await page.goto("/queues/default/orders/")
    await expect(page.get_by_role("link", name="Messages")).to_have_count(0)


# -- dead letters ---------------------------------------------------------------------------------------------------


async def test_without_dead_letter_queues_the_page_says_what_happens_instead(people: People, broker: Broker) -> None:
    broker.do(published)
    page = await people.page("vera", "viewers")
    await page.goto("/dead-letters/")
    await expect(page.locator("#dead-letters-empty")).to_contain_text("No dead-letter queues.")
    await expect(page.locator("#dead-letters-empty")).to_contain_text("are discarded")
    await expect(page.locator("#all-empty")).to_be_hidden()


def dead_lettered(memory: InMemoryBroker, count: int = 3) -> None:
    """Dead letters of `orders`, whose consumer fails; and a message that was published to the same queue."""
    name = object_name("Queue", virtualhost="default", name="orders")
    memory.management.create(name, {"dead_letter_queue": "dead", "maximum_deliveries": 1})
    memory.publish_encoded("orders", *(encoded(subject=f"order {n}", body="x") for n in range(count)))
    consumer = memory.attach_consumer("orders")
    consumer.credit = count
    consumer.queue.touch()
    memory.advance(50)
    failed, memory.acquired = memory.acquired, []
    for _, message in failed:
        consumer.queue.put_back(consumer, message, failed=True)
    memory.engine.detach(consumer)
    memory.advance(50)
    memory.publish_encoded("dead", encoded(subject="stranger"))


async def test_dead_letters_are_listed_by_reason_with_a_preview_of_their_return(people: People, broker: Broker) -> None:
    broker.do(dead_lettered)
    page = await people.page("ada")
    await page.goto("/dead-letters/")
    reasons = page.locator(".dead-group")
    await expect(reasons).to_have_count(2)
    await expect(page.locator("#dead-letters-count")).to_contain_text("1 queue, 4 messages")
    mine = reasons.filter(has_text="Maximum deliveries")
    await expect(mine).to_contain_text("from orders")
    await expect(mine.locator("[data-label=Messages]")).to_have_text("3")
    stranger = reasons.filter(has_text="Not dead-lettered")
    await expect(stranger.get_by_role("button")).to_have_count(0)
    await mine.get_by_role("button", name="Retry…").click()
    await expect(page.locator("dialog").get_by_role("button", name="Retry 3 messages")).to_be_enabled()
    await page.keyboard.press("Escape")
    await mine.get_by_role("link", name="Messages").click()
    await expect(page.get_by_role("heading", level=1)).to_have_text("Messages: dead")
    await expect(rows(page)).to_have_count(3)
    await page.locator("#tick-all").check()
    await page.locator("#selection").get_by_role("button", name="Retry…").click()
    await page.locator("dialog").get_by_role("button", name="Retry 3 messages").click()
    await expect(page.locator("#messages-empty")).to_contain_text("No message matches the filter")
    await page.goto(PAGE)
    await expect(rows(page)).to_have_count(3)


def redirected(memory: InMemoryBroker, to: str) -> None:
    """The dead-letter queue of `orders` is another."""
    name = object_name("Queue", virtualhost="default", name="orders")
    if to == "parked":
        used(memory, "parked", 10)
    memory.management.update(name, {"dead_letter_queue": to}, memory.management.read(name).version)


async def test_sent_to_the_dead_letter_queue_of_the_effective_policy(people: People, broker: Broker) -> None:
    def poisoned(memory: InMemoryBroker) -> None:
        used(memory, "dead", 10)
        name = object_name("Queue", virtualhost="default", name="orders")
        memory.management.create(name, {"dead_letter_queue": "dead"})
        memory.publish_encoded("orders", encoded(subject="poison"))

    broker.do(poisoned)
    page = await people.page("ada")
    await page.goto(PAGE)
    await rows(page).locator("th a").click()
    broker.do(lambda memory: redirected(memory, "parked"))  # since the page was opened
    await page.locator("#panel").get_by_role("button", name="Send to dead-letter queue…").click()
    dialog = page.locator("dialog")
    await expect(dialog).to_contain_text("Target queue: parked")
    send = dialog.get_by_role("button", name="Send 1 message to dead-letter queue")
    await expect(send).to_be_enabled()
    broker.do(lambda memory: redirected(memory, "dead"))  # since the dialog was opened
    people.expected.append("409")
    await send.click()
    await expect(dialog.get_by_role("alert")).to_contain_text("is dead by now, and not parked")
    await expect(dialog).to_contain_text("Target queue: dead")
    await send.click()
    await expect(page.locator("#messages-empty")).to_have_text("The queue has no messages.")
    await expect(page.locator("#panel")).to_be_hidden()
