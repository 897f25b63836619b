"""What a page says and what its banner says of it change in one step: no moment has facts without their date, neither
when the broker falls silent nor when it is back. Nothing else may be needed for it: no further snapshot, no answer to
a call, no next frame of a tab in the background.
"""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest
from playwright.async_api import Locator, Page, expect

from brokers.model import object_name
from console.brokers.configured import configured
from console.links import registry
from console.links.registry import close_links
from tests.browser.chromium import MISSING, PATH
from tests.browser.conftest import Broker, Console, People, until_in_page
from tests.browser.test_hung_broker import UNTRUE
from tests.browser.test_overview import limited, opened, used, was_not_reloaded
from tests.browser.test_queue import field

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(PATH is None, reason=MISSING),
    pytest.mark.asyncio(loop_scope="module"),
]

ORDERS = object_name("Queue", virtualhost="default", name="orders")
NOWHERE = object_name("Queue", virtualhost="default", name="nowhere")
TIME = r"at \d\d:\d\d:\d\d"

#: Snapshots wait while `window.late` is a list; from then on there is no next frame, either.
LATE = """
const add = WebSocket.prototype.addEventListener;
WebSocket.prototype.addEventListener = function (type, listener) {
  add.call(this, type, type !== "message" ? listener : (event) => {
    if (window.late && JSON.parse(event.data).type === "snapshot") window.late.push(() => listener(event));
    else listener(event);
  });
};
const frame = window.requestAnimationFrame.bind(window);
window.requestAnimationFrame = (act) => (window.late ? 0 : frame(act));
window.deliver = () => { const all = window.late; for (const each of all.splice(0)) each(); };
"""
#: Writes down what the page says whenever the banner comes, goes or changes: before anything else can happen.
WATCH = """() => {
  const banner = document.getElementById("banner-lost");
  const words = () => document.getElementById("main").innerText;
  window.said = [];
  new MutationObserver(() => window.said.push([!banner.hidden, words()]))
    .observe(banner, { attributes: true, attributeFilter: ["hidden"], childList: true });
  window.late = [];
}"""


async def silenced(people: People, broker: Broker, path: str) -> Page:
    """The page after the broker has fallen silent, with nothing but the frame that says so."""
    people.expected += ["503", "Failed to load resource", "ERR_FAILED"]
    page = await people.page("ada")
    await page.add_init_script(LATE)
    await opened(page, path)
    await page.wait_for_load_state("networkidle")
    await expect(page.locator("main .loading:visible")).to_have_count(0)
    await page.route("**/api/v1/**", lambda route: route.abort())
    await page.evaluate(WATCH)
    broker.lose()
    await expect(page.locator("#banner-lost")).to_contain_text("Shown as of")
    return page


@pytest.mark.domain("4 hung broker")
@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("/", f"none {TIME}"),
        ("/?search=nothing-like-it", f"No matching queues {TIME}"),
        ("/queues/default/orders/", f"No producers attached {TIME}"),
        ("/queues/default/nowhere/", f"No such queue {TIME}"),
        (f"/why/?object={ORDERS}", f"No clients connected {TIME}"),
        (f"/why/?object={NOWHERE}", f"No such object {TIME}"),
        ("/conditions/", f"No active conditions {TIME}"),
        ("/timeline/?search=nothing-like-it", f"as of|Events {TIME}"),
    ],
)
async def test_facts_are_dated_in_the_same_step_as_the_banner_appears(
    people: People, broker: Broker, path: str, says: str
) -> None:
    broker.do(lambda memory: limited(memory, "orders", 10))
    page = await silenced(people, broker, path)
    said: list[Any] = await page.evaluate("window.said")
    assert said[0][0] is True
    for _, words in said:
        assert not (found := re.search(UNTRUE, words)), f"{found.group()!r} stands undated in {words}"
        assert re.search(says, words), words


@pytest.mark.parametrize(("path", "shows"), [("/", "#queue-rows .state"), ("/queues/default/orders/", "#queue-state")])
async def test_page_is_current_in_the_same_step_as_the_banner_disappears(
    people: People, broker: Broker, path: str, shows: str
) -> None:
    """That the broker is back is one frame, what is so there another: between them the banner stays."""
    broker.do(lambda memory: limited(memory, "orders", 10))
    page = await silenced(people, broker, path)
    await page.evaluate(f"""() => {{
        window.states = [];
        const banner = document.getElementById("banner-lost");
        new MutationObserver(() => banner.hidden && window.states.push(document.querySelector({shows!r}).innerText))
            .observe(banner, {{ attributes: true, attributeFilter: ["hidden"] }});
    }}""")
    await expect(page.locator(shows)).to_have_text("Normal")
    broker.do(lambda memory: memory.fill("orders", 20))
    broker.come_back()
    await until_in_page(page, "() => window.late.length > 0")
    await expect(page.locator("#banner-lost")).to_be_visible()
    await expect(page.locator("#connection-text")).to_have_text("Disconnected")
    await expect(page.locator("#stop, #stop-all")).to_have_attribute("aria-disabled", "true")
    await page.evaluate("window.deliver()")
    await expect(page.locator("#banner-lost")).to_be_hidden()
    assert await page.evaluate("window.states") == ["Overfull"]
    assert await page.locator("#stop, #stop-all").get_attribute("aria-disabled") is None


@pytest.mark.domain("4 hung broker")
@pytest.mark.parametrize(
    ("path", "shows"),
    [
        ("/", "Overfull"),
        ("/queues/default/orders/", "Overfull"),
        (f"/why/?object={ORDERS}", "is overfull"),
        ("/conditions/", "No active conditions"),
    ],
)
async def test_page_stays_dated_when_the_console_restarts_while_the_broker_is_disconnected(
    people: People, broker: Broker, console: Console, path: str, shows: str
) -> None:
    """The server that is up again knows nothing of the broker then: less than the page does."""
    people.expected += ["503", "Failed to load resource", "WebSocket", "ERR_CONNECTION_REFUSED"]
    broker.do(lambda memory: (limited(memory, "orders", 10), memory.fill("orders", 20)))
    page = await opened(await people.page("ada"), path)
    await page.wait_for_load_state("networkidle")
    await expect(page.locator("main .loading:visible")).to_have_count(0)
    await expect(page.locator("main")).to_contain_text(shows)
    broker.lose()
    lost = page.locator("#banner-lost")
    await expect(lost).to_contain_text("Shown as of")
    [as_of] = re.findall(r"as of \d\d:\d\d:\d\d", await lost.inner_text())
    before = await page.locator("main").inner_text()
    console.stop()
    await expect(page.locator("#connection-text")).to_have_text("Reconnecting…")
    await asyncio.to_thread(close_links)
    console.start()
    await expect(page.locator("#connection-text")).to_have_text("Disconnected")
    await expect(lost).to_contain_text(as_of)
    assert await page.locator("main").inner_text() == before
    if path == "/":  # the restarted console has no data for new requests
        await page.get_by_role("searchbox").fill("pay")
        await expect(lost).to_contain_text("Nothing is known yet")
        await expect(page.locator("[data-total] .total-value")).to_have_text(["\u2013"] * 7)
        await expect(page.locator("#queue-rows")).to_be_hidden()
        await page.get_by_role("searchbox").fill("")
    broker.come_back()
    await expect(lost).to_be_hidden()
    await expect(page.locator("main")).to_contain_text(shows)
    assert await was_not_reloaded(page)


async def is_off(button: Locator) -> None:
    """It says that it does nothing now, and why, also when it is clicked."""
    await expect(button).to_have_attribute("aria-disabled", "true")
    await expect(button).to_have_attribute("title", re.compile("does not answer: changes are not possible"))
    await button.click(force=True)
    toast = button.page.locator(".toast.error").last
    await expect(toast).to_contain_text("does not answer")
    await toast.get_by_role("button", name="Close").click()  # it is in front, and not behind the dialog


async def test_edits_survive_a_disconnection_and_are_saved_without_a_reload(people: People, broker: Broker) -> None:
    people.expected += ["503", "400"]
    broker.do(lambda memory: used(memory, "orders", 10))
    context = (await people.page("ada", "administrators")).context

    queue = await opened(await context.new_page(), "/queues/default/orders/")
    await queue.get_by_role("button", name="Edit").click()
    await field(queue, "Capacity, messages").fill("77")
    await field(queue, "Reason").fill("half typed")

    policy = await opened(await context.new_page(), "/policies/scope/?object=type%3DBroker")
    await expect(policy.locator(".effective").first).not_to_be_empty()
    await policy.locator("[name=capacity_messages]").fill("55")
    await policy.get_by_label("Reason").fill("half typed")

    stop = await opened(await context.new_page(), "/")
    await stop.get_by_role("button", name="Stop all producers").click()
    await stop.locator("dialog").get_by_label("Reason").fill("half typed")

    bulk = await opened(await context.new_page(), "/policies/bulk/")
    await expect(bulk.locator("#queues tr")).to_have_count(1)
    await bulk.get_by_label("All matching queues").check()
    await bulk.locator("[name=set-flow_control]").check()
    await bulk.get_by_label("Reason").fill("half typed")

    buttons = {
        queue: queue.get_by_role("button", name="Save limits"),
        policy: policy.get_by_role("button", name="Apply"),
        stop: stop.locator("dialog button[type=submit]"),
        bulk: bulk.locator("#apply"),
    }
    await expect(buttons[policy]).to_be_enabled()  # what it would do is there
    await expect(buttons[bulk]).to_be_enabled()
    broker.lose()
    for page, button in buttons.items():
        await expect(page.locator("#banner-lost")).to_contain_text("Shown as of")
        await is_off(button)
    await policy.locator("[name=capacity_messages]").fill("56")
    await expect(policy.locator("#preview")).to_have_text("Not known while the broker does not answer.")
    broker.come_back()
    for page, button in buttons.items():
        await expect(page.locator("#banner-lost")).to_be_hidden()
        await expect(button).not_to_have_attribute("aria-disabled", "true")
        assert await page.evaluate("window.notReloaded === true")
        await expect(page.get_by_label("Reason")).to_have_value("half typed")
    await expect(bulk.locator("[name=set-flow_control]")).to_be_checked()
    await expect(field(queue, "Capacity, messages")).to_have_value("77")
    await expect(policy.locator("[name=capacity_messages]")).to_have_value("56")
    await expect(buttons[policy]).to_be_enabled()  # what was typed meanwhile is previewed

    await buttons[queue].click()
    await expect(queue.locator(".toast.done")).to_contain_text("Limits saved")
    await buttons[policy].click()
    await expect(policy.locator(".toast.done")).to_contain_text("Applied")
    await buttons[stop].click()
    await expect(stop.locator("dialog .answer")).to_contain_text("1 producer")


async def test_durations_are_right_although_the_clock_of_the_browser_is_not(people: People, broker: Broker) -> None:
    people.expected += ["503", "Failed to load resource"]
    page = await people.page("ada")
    await page.add_init_script("const real = Date.now; Date.now = () => real() + 600_000;")
    await opened(page, "/")
    broker.lose()
    banner = page.locator("#banner-lost")
    await expect(banner).to_contain_text(re.compile(r"disconnected for \d+ s\)"))
    await expect(banner).not_to_contain_text("min")


async def test_page_of_a_removed_broker_says_so_while_the_console_does_not_have_it(
    people: People, broker: Broker
) -> None:
    page = await people.page("ada")
    await opened(page, "/?broker=local")
    link = broker.link
    link._loop.call_soon_threadsafe(link.removed)  # as when an administrator removes it
    await expect(page.locator("#connection-text")).to_have_text("Removed")
    banner = page.locator("#banner-lost")
    await expect(banner).to_contain_text("Local broker was removed from the console")
    await expect(banner).to_contain_text("Shown as of")
    await expect(banner.get_by_role("link", name="Other brokers")).to_be_visible()
    async with page.expect_websocket() as opening:
        await page.evaluate("dispatchEvent(new Event('online'))")
    refused = await opening.value
    if not refused.is_closed():
        await refused.wait_for_event("close")
    await expect(page.locator("#connection-text")).to_have_text("Removed")


async def test_page_of_a_broker_that_was_removed_and_added_again_is_loaded_again(
    people: People, broker: Broker
) -> None:
    people.expected.append("status of 404")  # the answer to a request that arrives while the broker is removed
    page = await opened(await people.page("ada"), "/?broker=local")
    await page.evaluate("window.isBefore = true")
    made = registry._links
    assert made is not None
    made.update([])
    await expect(page.locator("#connection-text")).to_have_text("Removed")
    async with page.expect_event("load"):
        made.update(configured())
        await page.evaluate("dispatchEvent(new Event('online'))")
    assert await page.evaluate("window.isBefore") is None
    await expect(page.locator("#connection-text")).to_have_text("Live")


async def test_page_with_input_stays_until_its_user_loads_it_again(people: People, broker: Broker) -> None:
    people.expected.append("status of 404")  # the answer to a request that arrives while the broker is removed
    page = await opened(await people.page("ada"), "/?broker=local")
    await page.locator("#stop-all").click()
    await page.locator("dialog").get_by_label("Reason").fill("a long reason")
    made = registry._links
    assert made is not None
    made.update([])
    await expect(page.locator("#connection-text")).to_have_text("Removed")
    await page.clock.install()
    made.update(configured())
    await page.evaluate("dispatchEvent(new Event('online'))")
    again = page.get_by_role("button", name="Load the page again", include_hidden=True)
    await expect(again).to_have_count(1)
    await expect(page.locator("#banner-lost")).to_contain_text("was removed and added again")
    await expect(page.locator("#stop-all")).to_have_attribute("aria-disabled", "true")
    await page.clock.run_for(60_000)
    await expect(page.locator("dialog").get_by_label("Reason")).to_have_value("a long reason")
    await page.keyboard.press("Escape")
    await again.click()
    await expect(page.locator("#connection-text")).to_have_text("Live")
