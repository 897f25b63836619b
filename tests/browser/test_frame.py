"""What is around every page, in Chromium: log-in, themes, narrow screens, policy of scripts."""

from __future__ import annotations

import asyncio
import re

import pytest
from django.contrib.auth.models import Group, User
from playwright.async_api import Page, Route, expect

from brokers.model import object_name
from tests.browser.chromium import MISSING, PATH
from tests.browser.conftest import Broker, People, connections
from tests.browser.test_overview import limited, opened

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(PATH is None, reason=MISSING),
    pytest.mark.asyncio(loop_scope="module"),
]

_BROKER = object_name("Broker")
PAGES = ["/", "/queues/default/orders/", "/objects/", "/audit/", "/api/"]
WIDE_HEADED = [
    "/",
    "/queues/default/orders/",
    f"/why/?object={object_name('Queue', virtualhost='default', name='orders')}",
    "/policies/",
    "/policies/bulk/",
    "/timeline/",
    "/history/",
    "/history/incident/",
    "/history/queues/default/orders/",
    "/alerts/",
    "/schedules/new/",
    "/audit/",
    "/access/",
]
#: Rows of things side by side: none of them lies on another, nor past the edge, nor is its text cut off.
ROWS = ".topbar, .page-head, .page-title, .page-actions, .card-head, .totals, .history-bar, .filters, form#filters"
COLLISIONS = """(rows) => {
    const found = [];
    const edge = document.documentElement.clientWidth;
    for (const row of document.querySelectorAll(rows)) {
        const parts = [...row.children].filter((part) => part.getClientRects().length);
        const boxes = parts.map((part) => part.getBoundingClientRect());
        boxes.forEach((box, n) => {
            const name = `${row.className || row.id}: ${parts[n].innerText.slice(0, 30)}`;
            if (box.left < -0.5 || box.right > edge + 0.5) found.push(`${name} past the edge`);
            boxes.slice(n + 1).forEach((other, m) => {
                const apart = box.right <= other.left + 0.5 || box.left >= other.right - 0.5
                    || box.bottom <= other.top + 0.5 || box.top >= other.bottom - 0.5;
                if (!apart) found.push(`${name} on ${parts[n + 1 + m].innerText.slice(0, 30)}`);
            });
        });
    }
    for (const button of document.querySelectorAll("main :is(.page-actions, .card-head) :is(button, a)")) {
        const cut = button.scrollWidth > button.clientWidth + 1 && getComputedStyle(button).display !== "inline";
        if (cut && button.getClientRects().length) found.push(`${button.innerText} is cut off`);
    }
    return found;
}"""


async def test_sign_in_leads_to_the_requested_page_and_sign_out_to_the_form(people: People) -> None:
    def create() -> None:
        user = User.objects.create_user("ada", password="correct horse")
        user.groups.add(Group.objects.get(name="viewers"))
        connections.close_all()

    await asyncio.to_thread(create)
    page = await people.page()
    await page.goto("/audit/")
    await page.get_by_label("User name").fill("ada")
    await page.get_by_label("Password").fill("wrong")
    await page.get_by_role("button", name="Sign in").click()
    await expect(page.get_by_role("alert")).to_be_visible()
    await page.get_by_label("Password").fill("correct horse")
    # The banner loads the broker as soon as the page is live: sign out after its response.
    async with page.expect_response("**/api/v1/brokers/local/objects/type%3DBroker/"):
        await page.get_by_role("button", name="Sign in").click()
    await expect(page.get_by_role("heading", name="Audit")).to_be_visible()
    await page.locator("#user-menu summary").click()
    await page.get_by_role("button", name="Sign out").click()
    await expect(page.get_by_role("button", name="Sign in")).to_be_visible()


@pytest.mark.parametrize("path", [*PAGES, "/nowhere/"])
async def test_page_has_no_errors_and_never_scrolls_sideways(path: str, people: People, broker: Broker) -> None:
    people.expected.append("status of 404" if path == "/nowhere/" else "nothing else")
    name = "a-queue-with-a-name-that-is-much-too-long-for-a-telephone." * 3
    broker.do(lambda memory: limited(memory, "orders", 10))
    broker.do(lambda memory: limited(memory, name, 10))
    broker.do(lambda memory: memory.fill("orders", 20))
    page = await people.page("ada", viewport={"width": 1440, "height": 800})
    await page.goto(path)
    await page.wait_for_load_state("networkidle")
    for width in (2560, 1440, 1181, 1101, 1024, 959, 900, 820, 768, 741, 400):
        await page.set_viewport_size({"width": width, "height": 800})
        wide = await page.evaluate("[document.documentElement.scrollWidth, document.documentElement.clientWidth]")
        assert wide[0] <= wide[1], (width, wide)
        # Nothing of the bar lies on something else of it, nor past the edge.
        parts = await page.evaluate(
            """() => [...document.querySelectorAll(".topbar > *")].filter((each) => each.offsetParent)
              .map((each) => { const r = each.getBoundingClientRect(); return [r.left, r.top, r.right, r.bottom]; })"""
        )
        for n, (left, top, right, bottom) in enumerate(parts):
            assert left >= -0.5, (width, parts)
            assert right <= width + 0.5, (width, parts)
            for other in parts[n + 1 :]:
                apart = right <= other[0] + 0.5 or left >= other[2] - 0.5
                assert apart or bottom <= other[1] + 0.5 or top >= other[3] - 0.5, (width, parts)


async def test_headers_and_action_rows_do_not_overlap(people: People, broker: Broker) -> None:
    people.expected += ["status of 404", "status of 503"]  # the test has no history
    broker.do(lambda memory: limited(memory, "orders", 10))
    broker.do(lambda memory: memory.fill("orders", 20))
    page = await people.page("ada", "administrators", viewport={"width": 1440, "height": 800})
    found = []
    for path in WIDE_HEADED:
        await opened(page, path)
        for width in (390, 741, 900, 959, 1280):
            await page.set_viewport_size({"width": width, "height": 800})
            found += [(path, width, what) for what in await page.evaluate(COLLISIONS, ROWS)]
    assert not found


@pytest.mark.parametrize("path", ["/", "/history/", "/audit/"])
async def test_link_of_the_current_page_is_visible_on_a_phone(path: str, people: People) -> None:
    people.expected.append("status of 404")  # the test has no history
    page = await opened(await people.page("ada", viewport={"width": 400, "height": 800}), path)
    link = page.locator(".nav [aria-current]")
    box = await link.bounding_box()
    assert box is not None
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= 400
    assert await page.evaluate("scrollY") == 0


async def test_theme_is_applied_before_the_first_paint(people: People) -> None:
    page = await opened(await people.page("ada", color_scheme="light"))
    colour = "getComputedStyle(document.documentElement).backgroundColor"
    light = await page.evaluate(colour)
    await page.locator("#theme").click()  # light
    await page.locator("#theme").click()  # dark
    await expect(page.locator("html")).not_to_have_css("background-color", light)
    dark = await page.evaluate(colour)
    await page.goto("/audit/", wait_until="commit")
    await page.wait_for_selector("header")
    assert await page.evaluate(colour) == dark
    await expect(page.locator("#connection-text")).to_have_text("Live")  # its scripts have run
    await page.locator("#theme").click()  # as the system has it
    # Awaited: a click before the last module has run is repeated after it (core/early_clicks.js).
    await expect(page.locator("html")).to_have_css("background-color", light)


@pytest.mark.parametrize("late", ["frame", "objects"])
async def test_click_before_the_scripts_have_loaded_is_repeated_afterwards(people: People, late: str) -> None:
    page = await people.page("ada")
    come = asyncio.Event()

    async def later(route: Route) -> None:
        await come.wait()
        await route.continue_()

    await page.route(re.compile(rf"/pages/{late}\.js$"), later)  # the other of the two is there at once
    await page.goto("/objects/", wait_until="commit")
    await page.get_by_role("button", name="Keyboard shortcuts").click()
    come.set()
    await expect(page.locator("dialog")).to_contain_text("This list")
    await expect(page.locator("#connection-text")).to_have_text("Live")
    await expect(page.locator("dialog")).to_have_count(1)


async def early(page: Page, path: str, script: str) -> asyncio.Event:
    """Open a page whose script comes once the event is set."""
    come = asyncio.Event()

    async def later(route: Route) -> None:
        await come.wait()
        await route.continue_()

    await page.route(re.compile(rf"/pages/{script}\.js$"), later)
    await page.goto(path, wait_until="commit")
    return come


async def test_text_entered_and_submitted_before_the_scripts_have_loaded_filters_afterwards(people: People) -> None:
    page = await people.page("ada")
    come = await early(page, "/?sort=name", "overview")
    search = page.get_by_label("Filter by name")
    await search.fill("pay")
    await search.press("Enter")
    come.set()
    await expect(page.locator("#queues-empty")).to_contain_text("No matching queues")
    await expect(search).to_have_value("pay")
    assert page.url.endswith("/?search=pay&sort=name")


async def test_preferences_submitted_before_the_scripts_have_loaded_are_saved_afterwards(people: People) -> None:
    page = await people.page("ada")
    come = await early(page, "/preferences/", "preferences")
    await page.get_by_label("Time zone").fill("Berlin")
    await page.get_by_label("Clock").select_option("12")
    await page.get_by_role("button", name="Save").click()
    come.set()
    await expect(page.locator("#toasts")).to_contain_text("Saved")
    await expect(page.get_by_label("Time zone")).to_have_value("Europe/Berlin")
    await page.reload()
    await expect(page.get_by_label("Clock")).to_have_value("12")


async def test_help_opened_before_the_scripts_have_loaded_stays_open(people: People) -> None:
    page = await people.page("ada")
    come = await early(page, "/conditions/", "conditions")
    await page.get_by_role("button", name="What is condition").click()
    come.set()
    await expect(page.locator("#connection-text")).to_have_text("Live")
    await expect(page.locator(".explanation").first).to_be_visible()


async def test_stop_in_force_is_shown_on_pages_without_queues(people: People, broker: Broker) -> None:
    page = await opened(await people.page("ada"), "/audit/")
    await expect(page.locator("#banner-stops")).to_be_hidden()
    broker.do(
        lambda memory: memory._answer(memory.management.call(_BROKER, "stop-producers", {"reason": "a fire"}, "bob"))
    )
    await expect(page.locator("#banner-stops")).to_contain_text("a fire")
    await expect(page.locator("#banner-stops")).to_contain_text("bob")


async def test_ended_session_is_reported_with_a_link_to_sign_in(people: People) -> None:
    people.expected += ["403", "WebSocket"]
    page = await opened(await people.page("ada"))
    await page.context.clear_cookies()
    # What a laptop does that was asleep: the socket is gone, and the page looks again.
    await page.evaluate("dispatchEvent(new Event('pagehide')); dispatchEvent(new Event('online'))")
    await expect(page.locator("#banner-lost")).to_contain_text("You are signed out")
    await expect(page.locator("#banner-lost a")).to_have_attribute("href", "/login/?next=%2F")
