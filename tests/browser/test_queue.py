"""The queue page in Chromium: who is blocked and why, limits edited and refused, a queue that goes and comes back."""

from __future__ import annotations

import asyncio
import re
import time
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Page, expect

from brokers.model import object_name
from brokers.testing import InMemoryBroker
from console.audit.models import AuditEntry
from tests.browser.chromium import MISSING, PATH
from tests.browser.conftest import Broker, People, connections, until_in_page
from tests.browser.test_overview import limited, opened, used, was_not_reloaded
from tests.history.delta import coverage, sample, write

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(PATH is None, reason=MISSING),
    pytest.mark.asyncio(loop_scope="module"),
]

ORDERS = object_name("Queue", virtualhost="default", name="orders")
PAGE = "/queues/default/orders/"


def limit(broker: Broker, **attributes: Any) -> None:
    """Change the queue's own policy, as another operator does."""

    def change(memory: InMemoryBroker) -> None:
        version = memory.management.read(ORDERS).version
        memory.management.update(ORDERS, attributes, version, "bob")
        memory._end_turn()

    broker.do(change)


def attribute(broker: Broker, name: str) -> Any:
    return broker.do(lambda memory: memory.management.read(ORDERS)[name])


async def shown(page: Page, reads: str, name: str, value: int | str | bool) -> None:
    """Wait until the page's function returns this value."""
    await until_in_page(page, f"([name, value]) => ({reads})(name) === value", [name, value])


def field(page: Page, label: str) -> Any:
    return page.locator(".limits-form").get_by_label(label, exact=True)


def crowded(memory: InMemoryBroker) -> None:
    """Two producers hold all the credit that there is room for and never send; a third has none."""
    memory.management.create(ORDERS, {"capacity_messages": 1})
    for _ in range(3):
        memory.attach_producer("orders")


@pytest.mark.domain("3 never without a reason")
async def test_unblocked_producer_without_credit_is_shown_as_waiting_with_the_reason(
    people: People, broker: Broker
) -> None:
    broker.do(crowded)
    page = await opened(await people.page("ada"), PAGE)
    waiting = page.locator("#producers tr[data-state=WAITING]")
    await expect(waiting).to_have_count(1)
    await expect(waiting.locator(".state")).to_have_text("Waiting for credit")
    await expect(waiting.locator(".why")).to_contain_text("Not blocked. Waiting for its turn: the room left")
    await expect(page.locator("#facts")).to_contain_text("3, 0 blocked, 1 waiting for credit")
    await expect(page.locator("#facts")).to_contain_text("Parkednone")
    assert await was_not_reloaded(page)


async def test_chart_begins_with_recorded_samples_and_a_gap_where_nothing_was_recorded(
    people: People, broker: Broker, tmp_path: Path, settings: Any
) -> None:
    settings.HEADGATE_HISTORY_URL = url = str(tmp_path / "history")
    minute, now = 60_000, int(time.time() * 1000)
    write(url, "coverage", [coverage(now - 10 * minute, now - 5 * minute), coverage(now - 2 * minute, now - 1000)])
    write(url, "samples", [sample(now - m * minute, 77) for m in (10, 9, 8, 7, 6, 2, 1)])
    broker.do(lambda memory: limited(memory, "orders", 100))
    page = await opened(await people.page("ada"), PAGE)
    await until_in_page(
        page,
        """([now]) => {
            const chart = document.querySelector("#chart");
            const line = chart.data?.find((trace) => trace.meta === "depth_messages");
            const times = line?.x.map((x) => new Date(x.replace(" ", "T")).getTime());
            const at = (m) => times.findIndex((x) => Math.abs(x - (now - m * 60000)) < 1500);
            return line && line.y[at(10)] === 77 && line.y[at(2)] === 77 && line.y.slice(at(6), at(2)).includes(null);
        }""",
        [now],
    )


#: The texts of cells that are wider than their cell: they would lie over the next one, or be cut off.
TOO_WIDE = """() => [...document.querySelectorAll(".producers-table :is(td, th), .consumers-table :is(td, th)")]
    .filter((cell) => cell.checkVisibility() && cell.clientWidth > 1 && cell.scrollWidth > cell.clientWidth)
    .map((cell) => cell.innerText)"""


async def test_cells_of_the_producers_table_fit_their_text(people: People, broker: Broker) -> None:
    def busy(memory: InMemoryBroker) -> None:
        crowded(memory)
        memory.attach_consumer("orders", 10)

    broker.do(busy)
    page = await opened(await people.page("ada"), PAGE)
    await expect(page.locator("#producers tr[data-state=WAITING]")).to_have_count(1)
    found = []
    for width in (390, 768, 900, 1100, 1280, 1440, 2560):
        await page.set_viewport_size({"width": width, "height": 900})
        found += [(width, text) for text in await page.evaluate(TOO_WIDE)]
        box = page.locator(".producers-card .table-box")
        if await box.evaluate("(box) => box.scrollWidth > box.clientWidth"):
            found.append((width, "the table scrolls"))
    assert not found


@pytest.mark.domain("4 hung producer")
async def test_blocked_producer_shows_its_reason_and_is_unblocked_live(people: People, broker: Broker) -> None:
    broker.do(lambda memory: limited(memory, "orders", 10))
    limit(broker, flow_resume_messages="50%")
    page = await opened(await people.page("ada"), PAGE)
    await expect(page.locator("#producers-empty")).to_contain_text("No producers attached")
    broker.do(lambda memory: memory.fill("orders", 20))
    producer = page.locator("#producers tr")
    await expect(producer.locator(".state")).to_have_text("Blocked")
    await expect(producer.locator(".why")).to_contain_text("Queue orders is overfull.")
    await expect(producer.locator(".why")).to_contain_text("Unblocked when queue orders falls to 5 messages")
    await expect(page.locator("#queue-state")).to_have_text("Overfull")
    await expect(page.locator("#queue-since")).to_contain_text("overfull for")
    await expect(page.locator("#consumers-empty")).to_contain_text("No consumers attached")
    broker.do(lambda memory: memory.attach_consumer("orders", 10))
    await expect(producer.locator(".state")).to_have_text("Running")
    await expect(page.locator("#queue-state")).to_have_text("Normal")
    await expect(page.locator("#consumers tr")).to_have_count(1)
    await expect(page.locator("#feed")).to_contain_text("Queue underfull")
    assert await was_not_reloaded(page)


async def test_chart_has_the_limits_and_the_overfull_span(people: People, broker: Broker) -> None:
    broker.do(lambda memory: limited(memory, "orders", 10))
    limit(broker, flow_resume_messages="50%")
    page = await opened(await people.page("ada"), PAGE)
    await expect(page.locator("#chart .main-svg").first).to_be_visible()
    broker.do(lambda memory: memory.fill("orders", 20))
    reads = """name => { const t = document.getElementById("chart").data.find((t) => t.meta === name);
               return t && t.visible !== false ? t.y.at(-1) : null; }"""
    await shown(page, reads, "overfull", 1)
    assert await page.evaluate(reads, "depth_messages") == 11
    assert await page.evaluate(reads, "effective_capacity_messages") == 10
    assert await page.evaluate(reads, "effective_resume_messages") == 5
    assert await page.evaluate(reads, "effective_stop_messages") is None  # it is the capacity
    await page.get_by_role("button", name="Bytes").click()
    await shown(page, reads, "depth_bytes", 1100)
    broker.do(lambda memory: (memory.advance(1000), memory.sample()))
    await page.get_by_role("button", name="Rates").click()
    await shown(page, reads, "rate_out", 0)
    await expect(page.locator("#chart-title")).to_have_text("Rates")
    assert await page.evaluate(reads, "depth_bytes") is None


async def test_chart_has_a_gap_at_a_restart_of_the_broker(people: People, broker: Broker) -> None:
    broker.do(lambda memory: (limited(memory, "orders", 10), memory.advance(1_000)))
    broker.do(lambda memory: memory.fill("orders", 20))

    def restart(memory: InMemoryBroker) -> None:
        memory.advance(5_000)
        memory.engine.turn.add_fact("broker-ready", object_name("Broker"), "broker", "BRK-1004 : Ready", {})
        memory._end_turn()

    broker.do(restart)
    page = await opened(await people.page("ada"), PAGE)
    await shown(
        page,
        """() => document.getElementById("chart").data?.find((t) => t.meta === "overfull").y
            .map((y) => y === null ? "-" : y).join("")""",
        "",
        "01-11",
    )


#: The filled shapes of the chart with sides that are neither upright nor level, as the texts of their paths.
SLANTED = """() => [...document.querySelectorAll("#chart .js-fill")].map((one) => one.getAttribute("d")).filter((d) => {
    let [x, y] = [null, null];
    return (d.match(/[MLHV][^MLHVZ]*/g) ?? []).some((step) => {
        const numbers = step.slice(1).split(/[ ,]+/).filter(Boolean).map(Number);
        const [toX, toY] = { H: [numbers[0], y], V: [x, numbers[0]] }[step[0]] ?? numbers;
        const slants = step[0] === "L" && Math.abs(toX - x) > 0.5 && Math.abs(toY - y) > 0.5;
        [x, y] = [toX, toY];
        return slants;
    });
})"""


async def test_chart_fills_no_area_across_a_gap(people: People, broker: Broker) -> None:
    """After a restart the queue was overfull, and then the page was without the broker for a while."""
    broker.do(lambda memory: (limited(memory, "orders", 10), memory.advance(1_000)))

    def restart(memory: InMemoryBroker) -> None:
        memory.advance(5_000)
        memory.engine.turn.add_fact("broker-ready", object_name("Broker"), "broker", "BRK-1004 : Ready", {})
        memory._end_turn()
        memory.advance(10_000)

    broker.do(restart)
    broker.do(lambda memory: memory.fill("orders", 20))
    page = await opened(await people.page("ada"), PAGE)
    reads = """name => document.getElementById("chart").data?.find((t) => t.meta === name)?.y
        .map((y) => y === null ? "-" : y).join(" ")"""
    await expect(page.locator("#chart .js-fill").first).to_be_attached()
    await shown(page, f"(name) => ({reads})(name)?.includes('0 - 1') ?? false", "overfull", True)
    assert await page.evaluate(SLANTED) == []
    people.expected.append("503")
    broker.lose()
    await expect(page.locator("#banner-lost")).to_be_visible()
    broker.do(lambda memory: memory.consume(memory.attach_consumer("orders"), 20))
    broker.come_back()
    await shown(page, f"(name) => /\\d -.* 0$/.test(({reads})(name))", "depth_messages", True)
    assert await page.evaluate(SLANTED) == []


async def test_saved_capacity_takes_effect_at_once_and_is_audited(people: People, broker: Broker) -> None:
    broker.do(lambda memory: limited(memory, "orders", 10))
    broker.do(lambda memory: memory.fill("orders", 20))
    page = await opened(await people.page("ada"), PAGE)
    await expect(page.locator("#queue-state")).to_have_text("Overfull")
    await page.get_by_role("button", name="Edit").click()
    await expect(field(page, "Capacity, messages")).to_have_value("10")
    await expect(field(page, "Capacity, bytes")).to_have_attribute("placeholder", "no limit (default)")
    await field(page, "Capacity, messages").fill("2,000")
    await expect(page.locator(".form-note")).to_contain_text("capacity 2,000")
    await field(page, "Reason").fill("the consumers need an hour")
    await page.get_by_role("button", name="Save limits").click()
    await expect(page.locator(".toast")).to_contain_text("Limits saved")
    await expect(page.locator("#queue-state")).to_have_text("Normal")
    await expect(page.locator(".limits-table")).to_contain_text("2,000")
    assert attribute(broker, "capacity_messages") == 2000

    def audited() -> list[tuple[str, str, Any]]:
        rows = [(row.user_name, row.reason, row.after) for row in AuditEntry.objects.all()]
        connections.close_all()
        return rows

    ((who, why, after),) = await asyncio.to_thread(audited)
    assert (who, why, after["capacity_messages"]) == ("ada", "the consumers need an hour", 2000)


async def test_form_of_limits_says_whether_an_overfull_queue_resumes_with_them(people: People, broker: Broker) -> None:
    broker.do(lambda memory: (limited(memory, "orders", 10), memory.fill("orders", 20)))
    page = await opened(await people.page("ada"), PAGE)
    await page.get_by_role("button", name="Edit").click()
    note = page.locator(".form-note")
    await field(page, "Capacity, messages").fill("9")
    await expect(note).to_contain_text("stays overfull")
    await field(page, "Capacity, messages").fill("1000")
    await expect(note).to_contain_text("not overfull any more")


@pytest.mark.domain("1 misconfiguration")
async def test_invalid_limits_are_reported_while_typing_and_cannot_be_saved(people: People, broker: Broker) -> None:
    people.expected.append("400")  # Chromium reports the refused checks
    broker.do(lambda memory: limited(memory, "orders", 10))
    page = await opened(await people.page("ada"), PAGE)
    await page.get_by_role("button", name="Edit").click()
    await field(page, "Capacity, messages").fill("many")
    await expect(page.locator(".limits-form")).to_contain_text("This must be a whole number of 0 or more")
    await field(page, "Capacity, messages").fill("100")
    await field(page, "Resume at, messages").fill("150")
    await expect(page.locator(".limits-form .wrong", has_text=re.compile("150.*100|100.*150"))).to_be_visible()
    await page.get_by_role("button", name="Save limits").click()
    await expect(page.locator(".limits-form")).to_be_visible()
    assert attribute(broker, "capacity_messages") == 10
    await field(page, "Resume at, messages").fill("80%")
    await expect(page.locator(".form-note")).to_contain_text("resume at 80")


async def test_change_by_another_client_is_reported_and_edits_are_preserved(people: People, broker: Broker) -> None:
    people.expected.append("409")  # of a check in flight during the other change
    broker.do(lambda memory: limited(memory, "orders", 10))
    page = await opened(await people.page("ada"), PAGE)
    await page.get_by_role("button", name="Edit").click()
    await field(page, "Capacity, bytes").fill("64 kB")
    limit(broker, capacity_messages=77)
    await expect(page.locator(".limits-form .notice")).to_contain_text("Capacity, messages: 10 messages → 77 messages")
    await expect(field(page, "Capacity, bytes")).to_have_value("64 kB")
    await expect(field(page, "Capacity, messages")).to_have_value("77")
    await page.get_by_role("button", name="Save limits").click()
    await expect(page.locator(".limits-table")).to_be_visible()
    assert attribute(broker, "capacity_messages") == 77
    assert attribute(broker, "capacity_bytes") == 64_000


async def test_outdated_version_is_refused_and_the_current_values_are_shown(people: People, broker: Broker) -> None:
    people.expected.append("409")
    broker.do(lambda memory: limited(memory, "orders", 10))
    page = await opened(await people.page("ada"), PAGE)
    await page.get_by_role("button", name="Edit").click()
    await field(page, "Capacity, bytes").fill("5000")
    # No frame reaches the page any more, so that it cannot know of the change when it saves.
    await page.evaluate("WebSocket.prototype.send = () => {}; 0")
    await page.route(
        "**/api/v1/queues/default/orders/",
        lambda route: route.continue_(post_data=re.sub(r'"version":\d+', '"version":0', route.request.post_data or "")),
        times=1,
    )
    await page.get_by_role("button", name="Save limits").click()
    await expect(page.locator(".limits-form .notice")).to_contain_text("since you opened it")
    await expect(field(page, "Capacity, bytes")).to_have_value("5000")
    await page.get_by_role("button", name="Save limits").click()
    await expect(page.locator(".limits-table")).to_be_visible()
    assert attribute(broker, "capacity_bytes") == 5000


@pytest.mark.domain("4 hung producer")
async def test_stop_of_the_queue_shows_user_and_reason_at_each_producer(people: People, broker: Broker) -> None:
    broker.do(lambda memory: used(memory, "orders", 10))
    page = await opened(await people.page("ada"), PAGE)
    await page.get_by_role("button", name="Stop producers").click()
    await page.locator("dialog").get_by_label("Reason").fill("poison messages")
    await page.locator("dialog button[type=submit]").click()
    await page.locator("dialog").get_by_role("button", name="Close").click()
    await expect(page.locator("#queue-state")).to_have_text("Stopped")
    await expect(page.locator("#producers .why")).to_contain_text("An operator stopped queue orders.")
    await expect(page.locator("#producers .why")).to_contain_text("poison messages")


async def test_page_follows_a_queue_that_is_deleted_and_created_again(people: People, broker: Broker) -> None:
    broker.do(lambda memory: limited(memory, "orders", 10))
    page = await opened(await people.page("ada"), PAGE)
    await expect(page.locator("#queue-state")).to_have_text("Normal")

    def delete(memory: InMemoryBroker) -> None:
        memory.management.delete(ORDERS, None)
        memory._end_turn()

    broker.do(delete)
    await expect(page.locator("#gone")).to_contain_text("No such queue. It was deleted")
    broker.do(lambda memory: limited(memory, "orders", 25))
    await expect(page.locator("#gone")).to_be_hidden()
    await expect(page.locator("#facts")).to_contain_text("0 of 25 (0%)")


async def test_fields_beside_the_limits_are_named_and_valued_as_on_the_policy_page(
    people: People, broker: Broker
) -> None:
    broker.do(lambda memory: limited(memory, "orders", 10))
    page = await opened(await people.page("ada"), PAGE)
    rows = page.locator(".limits-table tbody tr")
    for name, value in {
        "Producer window, bytes": "no limit",
        "Producer window, messages": "1,000 messages",
        "Maximum deliveries": "no limit",
        "Dead letter queue": "none",
        "Reject after": "1,000 ms",
    }.items():
        row = rows.filter(has=page.get_by_role("rowheader", name=name, exact=True))
        await expect(row.locator("td")).to_have_text(f"{value}default")


async def test_dates_of_the_chart_are_written_as_elsewhere(people: People, broker: Broker) -> None:
    broker.do(lambda memory: limited(memory, "orders", 10))
    page = await opened(await people.page("ada"), PAGE)
    dates = page.locator("#chart .xtick text", has_text=re.compile(r"\d{4}"))
    await expect(dates).to_have_text([re.compile(r"^\d\d:\d\d:\d\d\s*\d{1,2} [A-Z][a-z]{2} \d{4}$")])


async def test_queue_was_deleted_only_if_the_event_log_says_so(people: People, broker: Broker) -> None:
    def delete(memory: InMemoryBroker) -> None:
        limited(memory, "orders", 10)
        memory.management.delete(ORDERS, None)
        memory._end_turn()

    broker.do(delete)
    page = await opened(await people.page("ada"), PAGE)
    gone = page.locator("#gone")
    await expect(gone).to_have_text(re.compile(r"^No such queue\. It was deleted at [\d:]+\. The page updates when"))
    # The log is read once for each page: the answer about this one is there when it is about the other.
    async with page.expect_response(re.compile("/timeline/")) as response:
        await page.goto("/queues/default/nowhere/")
    await (await response.value).finished()
    await expect(gone).to_have_text(re.compile(r"^No such queue\.\s+The page updates when it is created\. Overview$"))
    page = await opened(page, f"/why/?object={object_name('Queue', virtualhost='default', name='nowhere')}")
    await expect(gone).to_have_text(re.compile(r"^No such object\.\s+Show its queue$"))


async def test_what_explains_a_block_appears_without_a_gap_before_or_a_jump(people: People, broker: Broker) -> None:
    broker.do(lambda memory: limited(memory, "orders", 10))
    page = await opened(await people.page("ada"), PAGE)
    await expect(page.locator("#queue-state")).to_have_text("Normal")
    edges = """() => {
        const box = (selector) => document.querySelector(selector).getBoundingClientRect();
        const last = document.querySelector(".page-actions").lastElementChild.getBoundingClientRect();
        return [box(".page-head").right - last.right, last.x, last.y, box(".queue-grid").y];
    }"""
    before = await page.evaluate(edges)
    assert before[0] == 0
    broker.do(lambda memory: memory.fill("orders", 20))
    await expect(page.get_by_role("link", name="Why blocked?")).to_be_visible()
    assert await page.evaluate(edges) == before


async def test_viewer_cannot_edit_limits(people: People, broker: Broker) -> None:
    broker.do(lambda memory: limited(memory, "orders", 10))
    page = await opened(await people.page("vic", "viewers"), PAGE)
    await page.get_by_role("button", name="Edit").click(force=True)
    await expect(page.locator(".toast")).to_contain_text("the role of")
    await expect(page.locator(".limits-form")).to_have_count(0)


@pytest.mark.domain("clients temporary destinations")
async def test_temporary_queue_shows_its_lifetime_and_owner(people: People, broker: Broker) -> None:
    made = broker.do(lambda memory: memory.engine.temporary.create_queue(memory.attach_producer("orders").connection))
    page = await opened(await people.page("ada"), f"/queues/default/{made.name}/")
    await expect(page.locator("#facts")).to_contain_text("temporary: Connection ")
    page = await opened(await people.page("bert"), PAGE)
    await expect(page.locator("#facts")).not_to_contain_text("temporary")
