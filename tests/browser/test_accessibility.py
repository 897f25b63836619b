"""axe-core on every page and dialog, in both themes: nothing serious. And what the keyboard alone can do."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.async_playwright import Axe
from django.contrib.auth.models import User
from django.db import connections
from django.urls import URLPattern
from playwright.async_api import Page, expect

from brokers.model import object_name
from brokers.testing import InMemoryBroker
from console.access.actor import Actor
from console.alerts import editing as alerts
from console.alerts.receiver_editing import create_receiver
from console.bulk.editing import Selection, begin_bulk
from console.links.registry import link
from console.pages.urls import urlpatterns
from console.schedules import editing as schedules
from tests.browser.chromium import MISSING, PATH
from tests.browser.conftest import LIMIT, Broker, People
from tests.browser.test_overview import limited, opened, row, used

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(PATH is None, reason=MISSING),
    pytest.mark.asyncio(loop_scope="module"),
]

expect.set_options(timeout=LIMIT)

WIDE, NARROW = {"width": 1440, "height": 900}, {"width": 390, "height": 800}
QUEUE = "type=Queue,virtualhost=default,name=orders"
ORDERS = "type%3DQueue%2Cvirtualhost%3Ddefault%2Cname%3Dorders"
#: Whether what has the focus shows it, and its markup.
RING = """() => {
  const at = document.activeElement;
  if (at === document.body) return null;
  const rings = [at, at.closest(".chip, label")].filter(Boolean).map((element) => getComputedStyle(element));
  const seen = rings.some((style) => style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 1);
  return [seen, at.outerHTML.slice(0, 120)];
}"""
#: Values of the parameters in the pages' paths, and query strings of some pages.
PARAMETERS = {"virtualhost": "default", "name": "orders", "number": "1", "slug": "terms"}
QUERIES = {
    **dict.fromkeys(("why", "objects", "policy", "messages"), f"?object={ORDERS}"),
    "connection": "?object=type=Connection,virtualhost=default,id=1",
    "client": "?virtualhost=default&user=anonymous&container_id=test",
}
DOWNLOADS = {"policies-export"}
DIALOGS = {
    "stop": ("/", "#stop-all"),
    "start": ("/", "#start-all"),
    "keys": ("/", "#keys"),
    "limits": ("/queues/default/orders/", "#edit-limits"),
    "purge": (f"/messages/?object={ORDERS}", "#purge"),
    "act": (f"/messages/?object={ORDERS}", "#selection button >> nth=0"),
}


def paths() -> dict[str, str]:
    """Every page there is, by the name of its URL."""
    patterns = [each for each in urlpatterns if isinstance(each, URLPattern) and each.name not in DOWNLOADS]
    return {
        str(each.name): "/" + re.sub(r"<\w+:(\w+)>", lambda found: PARAMETERS[found[1]], str(each.pattern))
        for each in patterns
    }


def busy(memory: InMemoryBroker) -> None:
    """One of each: an overfull queue, blocked producers, a stop, a pattern, a consumer."""
    limited(memory, "orders", 10)
    memory.fill("orders", 20)
    for name in ("payments", "prices.eu"):
        used(memory, name, 10)
    memory.attach_consumer("payments")
    memory.management.create(object_name("Policy", virtualhost="default", pattern="prices.>"), {"capacity_bytes": 1000})
    queue = object_name("Queue", virtualhost="default", name="payments")
    memory.management.call(queue, "stop-producers", {"reason": "a look at it", "actor": "olga"}, "olga")
    memory._end_turn()


def create_records() -> None:
    """One of each thing with a page of its own that the console keeps: a bulk edit, a rule of alerts, a schedule."""
    boss = Actor(User.objects.get(username="adele"))
    on = {"broker": "local", "name": "night"}
    receiver = create_receiver(boss, {"name": "hook", "kind": "webhook", "url": "https://hook.example.org/"})
    alerts.create_rule(boss, {**on, "kinds": ["flapping"], "receivers": [receiver.pk]})
    schedules.create(boss, {**on, "action": "stop", "target": QUEUE, "zone": "UTC", "hour": "3", "lasts": 60})
    begin_bulk(boss, link("local"), Selection(virtualhost="default"), {"capacity_messages": 30}, reason="a look")
    connections.close_all()


#: What axe-core's rules find differently in the other theme.
OF_THEMES = {"runOnly": ["color-contrast", "link-in-text-block"], "resultTypes": ["violations"]}


async def findings(page: Page, options: dict[str, Any] | None = None) -> list[str]:
    """What axe-core calls serious or critical, each with where. `options`: axe-core's; None means all rules."""
    await page.evaluate("document.fonts.ready")
    report: dict[str, Any] = (await Axe().run(page, **({"options": options} if options else {}))).response
    assert report["testEngine"]["name"] == "axe-core"
    return [
        f"{page.url}: {found['id']} ({found['help']}): {node['html'][:160]} - {node['failureSummary'][:240]}"
        for found in report["violations"]
        if found["impact"] in ("serious", "critical")
        for node in found["nodes"][:3]
    ]


@pytest.fixture
def no_history(tmp_path: Path, settings: Any) -> None:
    settings.HEADGATE_HISTORY_URL = str(tmp_path / "history")


async def findings_in_both_themes(page: Page) -> list[str]:
    found = await findings(page)
    await page.emulate_media(color_scheme="dark")
    found += await findings(page, OF_THEMES)
    await page.emulate_media(color_scheme="light")
    return found


@pytest.mark.timeout(500)
@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["wide", "narrow"])
async def test_axe_finds_nothing_serious_on_any_page(
    size: Any, people: People, broker: Broker, no_history: None
) -> None:
    people.expected.append("status of 404")  # the test has no history
    broker.do(busy)
    page = await people.page("adele", group="administrators", color_scheme="light", viewport=size)
    await asyncio.to_thread(create_records)
    found = []
    for name, path in paths().items():
        answer = await page.goto(path + QUERIES.get(name, ""))
        assert answer is not None
        assert answer.ok, path
        await expect(page.locator("main, .plain-card").first).to_be_visible()
        await page.wait_for_timeout(400)  # requests that follow the load of the page
        found += await findings_in_both_themes(page)
    stranger = await people.page(color_scheme="light", viewport=size)
    await stranger.goto("/login/")
    found += await findings_in_both_themes(stranger)
    assert not found, "\n".join(found)


@pytest.mark.timeout(300)
async def test_axe_finds_nothing_serious_in_dialogs(people: People, broker: Broker) -> None:
    broker.do(busy)
    page = await people.page("ada", color_scheme="light")
    found = []
    for path, opener in DIALOGS.values():
        await opened(page, path)
        await page.locator(opener).click()
        await expect(page.locator("dialog[open], .limits-form, form[id]").first).to_be_visible()
        await page.wait_for_timeout(300)
        found += await findings_in_both_themes(page)
    assert not found, "\n".join(found)


# -- keyboard -------------------------------------------------------------------------------------------------------


async def test_question_mark_lists_the_keyboard_shortcuts(people: People, broker: Broker) -> None:
    broker.do(lambda memory: used(memory, "orders", 10))
    page = await opened(await people.page("ada"))
    await expect(row(page, "orders")).to_be_visible()
    await page.keyboard.press("?")
    dialog = page.locator("#keys-dialog")
    for says in ("Search", "Next row", "Stop all producers", "Timeline"):
        await expect(dialog.get_by_text(says, exact=True)).to_be_visible()
    await page.keyboard.press("Escape")
    await expect(dialog).to_have_count(0)
    await page.goto("/audit/")
    await page.keyboard.press("?")
    await expect(dialog.get_by_text("Stop all producers")).to_have_count(0)


async def test_rows_are_navigated_selected_and_opened_by_keys(people: People, broker: Broker) -> None:
    for name in ("aaa", "bbb"):
        broker.do(lambda memory, name=name: used(memory, name, 10))  # type: ignore[misc]
    page = await opened(await people.page("ada"))
    await expect(row(page, "bbb")).to_be_visible()
    await page.keyboard.press("j")
    await expect(row(page, "aaa").locator("th a")).to_be_focused()
    await page.keyboard.press("ArrowDown")
    await expect(row(page, "bbb").locator("th a")).to_be_focused()
    await page.keyboard.press("x")
    await expect(row(page, "bbb").locator("input.pick")).to_be_checked()
    await page.keyboard.press("k")
    await expect(row(page, "aaa").locator("th a")).to_be_focused()
    await page.keyboard.press("s")
    await expect(page.locator("dialog h2")).to_have_text("Stop producers of queue aaa")
    await page.keyboard.press("Escape")
    await row(page, "aaa").get_by_role("link", name="aaa", exact=True).press("Enter")
    await expect(page).to_have_url(re.compile("/queues/default/aaa/"))


async def test_key_sequences_open_pages_except_in_text_fields(people: People, broker: Broker) -> None:
    page = await opened(await people.page("ada"))
    await page.keyboard.press("/")
    await page.keyboard.type("ga?")
    await expect(page.locator("#search")).to_have_value("ga?")
    await expect(page.locator("#keys-dialog")).to_have_count(0)
    await page.locator("#search").press("Tab")
    await page.keyboard.press("g")
    await page.keyboard.press("a")
    await expect(page).to_have_url(re.compile("/audit/"))


async def test_skip_link_is_the_first_link_and_leads_to_the_content(people: People, broker: Broker) -> None:
    page = await opened(await people.page("ada"))
    await page.keyboard.press("Tab")
    skip = page.get_by_role("link", name="Skip to content")
    await expect(skip).to_be_focused()
    await expect(skip).to_be_in_viewport()
    await skip.press("Enter")
    await expect(page.locator("main")).to_be_focused()


async def test_focus_is_visible_on_all_focusable_elements(people: People, broker: Broker) -> None:
    broker.do(busy)
    page = await opened(await people.page("ada"))
    await expect(row(page, "orders")).to_be_visible()
    unseen = []
    for _ in range(45):
        await page.keyboard.press("Tab")
        seen = await page.evaluate(RING)
        if seen and not seen[0]:
            unseen.append(seen[1])
    assert not unseen, unseen
