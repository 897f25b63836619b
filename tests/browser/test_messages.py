"""The messages page in Chromium: the list with its filter and pages, one message, actions; and the dead letters page.

The list, the filter and the queues are those of the broker in memory; answers that change messages are given by the
test where it is about what the page makes of them.
"""

from __future__ import annotations

import asyncio
import base64
import re
from collections.abc import Mapping
from typing import Any

import pytest
from playwright.async_api import Page, Route, expect
from proton import Message

from brokers.testing import InMemoryBroker
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


@pytest.fixture
def offering(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pages offer every operation, also one that the broker in memory lacks."""
    import console.pages.messages as pages

    monkeypatch.setattr(pages, "_offered", lambda _link: list(pages._OPERATIONS))


async def test_list_shows_hostile_texts_as_text_with_visible_escapes(
    people: People, broker: Broker, offering: None
) -> None:
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
    await expect(page.locator("#gone")).to_contain_text("does not exist")
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


def read(**more: Any) -> dict[str, Any]:
    body = JSON.encode()
    message = {"id": "x", "size": 9, "redeliveries": 0, "priority": 4, "state": "available", "properties": {}}
    return {
        "message": {**message, "annotations": {"x-opt-key": "v"}},
        "body_kind": "data",
        "body": base64.b64encode(body).decode(),
        "body_bytes": len(body),
        "cut": False,
        **more,
    }


async def opened_message(people: People, broker: Broker, answer: Any) -> Page:
    broker.do(published)
    page = await people.page("adele", "administrators")
    await page.goto(PAGE)
    identifier = await rows(page).nth(1).get_attribute("data-id")
    await page.route(
        f"**/api/v1/messages/{identifier}/?*",
        lambda route: route.fulfill(status=404, json={"detail": "-"}) if answer is None else route.fulfill(json=answer),
    )
    await rows(page).nth(1).locator("th a").click()
    return page


async def test_body_is_shown_as_json_text_and_hexadecimal(people: People, broker: Broker, offering: None) -> None:
    page = await opened_message(people, broker, read(cut=True, body_bytes=4_200_000))
    body = page.locator(".body-text")
    await expect(body).to_contain_text('"id": 12345678901234567890')
    await expect(body.locator(".escape")).to_have_text(r"\u202E")
    assert await body.locator("b").count() == 0
    await page.get_by_role("button", name="Text").click()
    await expect(body).to_have_text(JSON.replace("\u202e", r"\u202E"))
    await page.get_by_role("button", name="Hex").click()
    await expect(body).to_contain_text("00000000  7b 22 69 64")
    await expect(page.locator("#panel")).to_contain_text("of 4,200,000 bytes")
    await expect(page.locator("#panel")).to_contain_text("x-opt-key")
    whole = page.get_by_role("link", name="Download the whole body")
    assert re.search(r"/api/v1/messages/[^/]+/body/\?object=type", str(await whole.get_attribute("href")))


async def test_message_that_is_gone_meanwhile_is_said_to_be(people: People, broker: Broker, offering: None) -> None:
    people.expected.append("status of 404")
    page = await opened_message(people, broker, None)
    await expect(page.locator("#panel")).to_contain_text("no longer in this queue")


COUNTS = {"messages": 2, "bytes": 500, "skipped": [], "skipped_messages": 0, "complete": True, "blocked": ""}


async def test_ticked_messages_are_moved_to_an_existing_queue_after_a_preview(
    people: People, broker: Broker, offering: None
) -> None:
    broker.do(published)
    page = await people.page("ada")
    preview = {**COUNTS, "messages": 1, "skipped": [{"id": "1", "why": "a consumer has acquired it"}]}
    sent = await answering(
        page, {"messages/move/?preview": {**preview, "skipped_messages": 1}, "messages/move/": COUNTS}
    )
    await page.goto(PAGE)
    for n in (0, 2):
        await rows(page).nth(n).locator("input.pick").check()
    await page.locator("#selection").get_by_role("button", name="Move…").click()
    dialog = page.locator("dialog")
    await expect(dialog.locator("h2")).to_have_text("Move: 2 ticked messages")
    await expect(dialog.locator("#target")).not_to_contain_text("orders")
    await dialog.locator("#target").select_option("payments")
    await expect(dialog.locator(".preview")).to_contain_text("a consumer has acquired it")
    await dialog.get_by_label("Reason").fill("incident 7")
    await dialog.get_by_role("button", name="Move 1 message").click()
    await expect(dialog).to_have_count(0)
    await expect(page.locator("#toasts")).to_contain_text("Moved 2 messages")
    ids = [await rows(page).nth(n).get_attribute("data-id") for n in (0, 2)]
    assert sent == [
        ("messages/move/", {"object": ORDERS, "ids": ids, "to": "payments", "preview": True}),
        ("messages/move/", {"object": ORDERS, "ids": ids, "to": "payments", "preview": False, "reason": "incident 7"}),
    ]
    await expect(page.locator("#selection")).to_contain_text("All messages of the queue")


async def test_all_that_the_filter_finds_are_deleted_by_a_job_that_can_be_interrupted(
    people: People, broker: Broker, offering: None
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
    await expect(line).to_contain_text("Waiting: The store is full.")
    assert sent[-1][1]["match"] == {"properties": {"colour": "red"}}
    await line.get_by_role("button", name="Interrupt").click()
    job |= {"state": "interrupted"}
    await expect(line.get_by_role("button", name="Resume")).to_be_visible()
    assert sent[-1] == ("message-jobs/3/interrupt/", {})


async def test_published_message_that_waits_is_shown_as_parked(people: People, broker: Broker, offering: None) -> None:
    broker.do(published)
    page = await people.page("adele", "administrators")
    answer = {"outcome": "parked", "id": None, "sentence": "The queue is overfull: the message waits."}
    sent = await answering(page, {"messages/publish/": answer})
    await page.goto(PAGE)
    await page.locator("#publish").click()
    dialog = page.locator("dialog")
    await dialog.get_by_label("Body", exact=True).fill("hello")
    await dialog.get_by_label("Application properties").fill("colour=red\nbroken")
    await dialog.get_by_role("button", name="Publish").click()
    await expect(dialog).to_contain_text("broken is not NAME=VALUE.")
    assert not sent
    await dialog.get_by_label("Application properties").fill("colour=red")
    await dialog.get_by_label("Time to live").fill("10m")
    await dialog.get_by_role("button", name="Publish").click()
    await expect(dialog.locator(".publish-outcome")).to_contain_text("The queue is overfull: the message waits.")
    message = sent[0][1]
    assert message["application_properties"] == {"colour": "red"}
    assert (message["body"], message["body_kind"], message["ttl"], message["priority"]) == ("hello", "text", "10m", 4)


async def test_purge_says_what_it_will_delete_and_deletes_it(people: People, broker: Broker) -> None:
    broker.do(published)
    page = await people.page("ada")
    await page.goto(PAGE)
    await expect(rows(page)).to_have_count(3)
    await page.locator("#purge").click()
    await expect(page.locator("dialog .preview")).to_contain_text("3 messages")
    await page.locator("dialog").get_by_role("button", name="Purge 3 messages").click()
    await expect(page.locator("#messages-empty")).to_have_text("The queue has no messages.")


async def test_viewer_sees_actions_with_the_role_that_they_need(people: People, broker: Broker, offering: None) -> None:
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


async def test_dead_letters_are_listed_by_reason_and_returned(people: People, broker: Broker, offering: None) -> None:
    dead = {
        "object": "type=Queue,virtualhost=default,name=dlq",
        "virtualhost": "default",
        "name": "dlq",
        "state": "NORMAL",
        "depth_messages": 3,
        "depth_bytes": 300,
        "oldest_message_at": 1,
        "sources": 2,
    }
    empty = {**dead, "object": "type=Queue,virtualhost=default,name=dlq2", "name": "dlq2"}
    group = {"reason": "rejected", "queue": "orders", "messages": 2, "bytes": 200, "oldest_at": None}
    other = {"reason": "", "queue": "", "messages": 1, "bytes": 100, "oldest_at": None}
    page = await people.page("ada")
    answers = {
        "dead-letters/": {"results": [{**empty, "depth_messages": 0, "consumers": 0}, {**dead, "consumers": 1}]},
        "messages/summary/": {"groups": [group, other], "searched": 3, "complete": True},
        "messages/retry/?preview": COUNTS,
        "messages/retry/": {**COUNTS, "blocked": "Queue orders is overfull."},
    }
    sent = await answering(page, answers)
    await page.goto("/dead-letters/")
    reasons = page.locator(".dead-group")
    await expect(reasons).to_have_count(2)
    await expect(page.locator("#dead-letters tr").first).to_contain_text("dlq")
    await expect(reasons.first).to_contain_text("Rejected from orders")
    await expect(reasons.nth(1).get_by_role("button")).to_have_count(0)
    href = await reasons.first.get_by_role("link", name="Messages").get_attribute("href")
    assert href is not None
    assert "reason=rejected&source=orders" in href
    await reasons.first.get_by_role("button", name="Retry…").click()
    await page.locator("dialog").get_by_role("button", name="Retry 2 messages").click()
    await expect(page.locator("dialog")).to_contain_text("Queue orders is overfull.")
    assert sent[-1][1]["match"] == {"dead_letter_reason": "rejected", "dead_letter_queue": "orders"}
