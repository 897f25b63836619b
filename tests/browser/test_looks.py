"""How every page looks at every width: it does not scroll sideways, no text is cut off without a way to read it, and
right-to-left names do not reorder the names of objects."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from playwright.async_api import Page, expect

from brokers.model import object_name
from brokers.testing import InMemoryBroker
from tests.browser.chromium import MISSING, PATH
from tests.browser.conftest import Broker, People
from tests.browser.test_accessibility import QUERIES, create_records, paths
from tests.browser.test_overview import limited, used

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(PATH is None, reason=MISSING),
    pytest.mark.asyncio(loop_scope="module"),
]

WIDTHS = (390, 768, 1024, 1440, 2560)
#: Long names that differ at their ends, and right-to-left ones, alone and mixed.
NAMES = (
    "warehouse.europe-central.returns.refurbished.priority-1",
    "warehouse.europe-central.returns.refurbished.priority-2",
    "الطلبات.المستودع.الرئيسي",
    "הזמנות-2.מחסן-מרכזי",
    "Rechtsschutzversicherungsgesellschaften.Auftragsbestätigung",
    "1",
)
RIGHT_TO_LEFT = object_name("Queue", virtualhost="default", name=NAMES[3])
#: The pages whose lists are long if there are many queues, and empty if there is none.
LISTS = ("overview", "policies", "bulk", "schedule-new", "objects", "alert-rule-new")
#: What is cut off, reordered, or makes the page wider than the window: its markup, with why.
FAULTS = r"""() => {
  const width = document.documentElement.clientWidth;
  const seen = (element) => {
    const box = element.getBoundingClientRect();
    const options = { visibilityProperty: true, opacityProperty: true };
    return box.width > 2 && box.height > 2 && element.checkVisibility(options);
  };
  const whole = document.documentElement.scrollWidth;
  const faults = whole > width ? [`the page is ${whole} wide`] : [];
  const pen = document.createElement("canvas").getContext("2d");
  const room = (element, style) =>
    element.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
  const measured = (text, style) => {
    pen.font = style.font;
    return pen.measureText(text).width;
  };
  for (const element of document.querySelectorAll("body *")) {
    if (!seen(element) || element.closest("svg")) continue;
    const style = getComputedStyle(element);
    const cuts = /hidden|clip/.test(style.overflowX) || style.textOverflow === "ellipsis";
    const text = [...element.childNodes].some((node) => node.nodeType === Node.TEXT_NODE && node.textContent.trim());
    const titled = element.closest("[title]") || element.querySelector("[title]");
    const say = (why) => faults.push(`${why}: ${element.outerHTML.slice(0, 160)}`);
    const over = element.clientWidth > 0 && element.scrollWidth > element.clientWidth + 1;
    if (cuts && over && element.textContent.trim() && !titled) say("cut off");
    for (const node of element.childNodes)
      if (node.nodeType === Node.TEXT_NODE && /type=\w+,.*[\u0590-\u08ff]/.test(node.textContent)) say("not isolated");
    if (!cuts && over && text && /^(BUTTON|A)$/.test(element.tagName)) say("spills over");
    if (element.tagName === "SELECT" && !element.size && !element.multiple) {
      const chosen = element.selectedOptions[0]?.text ?? "";
      if (measured(chosen, style) > room(element, style) + 1) say(`"${chosen}" is cut off`);
    }
    if (element.tagName === "INPUT" && element.placeholder && !element.value) {
      if (measured(element.placeholder, style) > room(element, style) + 1) say(`"${element.placeholder}" is cut off`);
    }
  }
  return faults;
}"""


def empty(_: InMemoryBroker) -> None:
    """No queues."""


def seven(memory: InMemoryBroker) -> None:
    """Queues with such names, a full one with blocked producers, stops with long reasons, a policy."""
    limited(memory, "orders", 10)
    memory.fill("orders", 20)
    for number, name in enumerate(NAMES):
        used(memory, name, 12_345_678 * (number + 1))
        memory.attach_consumer(name)
    memory.management.create(
        object_name("Policy", virtualhost="default", pattern=f"{NAMES[0]}.>"), {"capacity_bytes": 1}
    )
    for name in NAMES[1:4]:
        queue = object_name("Queue", virtualhost="default", name=name)
        reason = "the consumers of this queue are being redeployed, see ticket 12345-67890"
        memory.management.call(queue, "stop-producers", {"reason": reason, "actor": "olga"}, "olga")
    memory._end_turn()


def three_thousand(memory: InMemoryBroker) -> None:
    """More queues than any list shows at once."""
    for number in range(3000):
        queue = object_name("Queue", virtualhost="default", name=f"{NAMES[0]}.{number:04}")
        memory.management.create(queue, {"capacity_messages": 1000 + number})
    memory._end_turn()


def addresses(content: Any) -> list[str]:
    """Of each page with seven queues, among them of one with a right-to-left name; of the lists otherwise."""
    named = {name: path + QUERIES.get(name, "") for name, path in paths().items()}
    if content is not seven:
        return [named[name] for name in LISTS]
    shown = f"?object={quote(str(RIGHT_TO_LEFT))}"
    return [*named.values(), *(path + shown for path in ("/objects/", "/why/", "/policies/scope/", "/audit/"))]


async def faults_of(page: Page) -> list[str]:
    await page.evaluate("new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)))")
    return list(await page.evaluate(FAULTS))


@pytest.mark.timeout(300)
@pytest.mark.parametrize("content", [empty, seven, three_thousand])
async def test_no_page_scrolls_sideways_or_cuts_text_off_at_any_width(
    content: Any, people: People, broker: Broker, tmp_path: Path, settings: Any
) -> None:
    settings.HEADGATE_HISTORY_URL = str(tmp_path / "history")
    people.expected.append("status of 404")  # the test has no history
    broker.do(content)
    page = await people.page("adele", "administrators")
    if content is seven:
        await asyncio.to_thread(create_records)
    found = []
    for address in addresses(content):
        answer = await page.goto(address)
        assert answer is not None
        assert answer.ok, address
        await expect(page.locator("main, .plain-card").first).to_be_visible()
        await expect(page.locator("main .loading:visible")).to_have_count(0)
        await page.evaluate("document.fonts.ready")
        for width in WIDTHS:
            await page.set_viewport_size({"width": width, "height": 900})
            found += [f"{address} at {width}: {fault}" for fault in await faults_of(page)]
    assert not found, "\n".join(found)
