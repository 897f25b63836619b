"""An operator's way with brokers of their own, by mouse: both added, blocks explained, all stopped and started, the
history read, other limits simulated. RabbitMQ and Artemis are real, with real clients, behind `manage.py up`.

`test_reach.py` runs it as a test; `bench/own_brokers.py` measures the time of each step.
"""

from __future__ import annotations

import asyncio
import re
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import amqp
import pytest
from playwright.async_api import Browser, Locator, Page, expect

from tests.interop.artemis_node import PASSWORD, USER, ArtemisNode, artemis
from tests.interop.artemis_node import Publisher as ArtemisPublisher
from tests.interop.rabbitmq_node import Publisher as RabbitPublisher
from tests.interop.rabbitmq_node import RabbitNode, publishing, rabbitmq
from tests.up.running import Running, free_port

LIMIT = 120_000  # ms, also on a slow machine
FULL = 5  # messages that the queue of RabbitMQ accepts


@dataclass
class Site:
    """The console and the two brokers with their publishers."""

    url: str
    password: str
    rabbit: RabbitNode
    artemis: ArtemisNode
    published: RabbitPublisher


@contextmanager
def running_site(artemis_classes: Path, folder: Path) -> Iterator[Site]:
    """Run all of it in an empty folder."""
    for name in ("console", "artemis", "rabbitmq"):
        (folder / name).mkdir()
    with ExitStack() as stack:
        here = stack.enter_context(artemis(artemis_classes, folder / "artemis"))
        rabbit = stack.enter_context(rabbitmq(folder / "rabbitmq", plugins=("rabbitmq_management",)))
        arguments = ["manage.py", "up", "--port", str(free_port()), "--amqp-port", str(free_port())]
        running = stack.enter_context(
            Running([*arguments, "--data", str(folder / "console" / "data")], folder / "console")
        )
        running.wait_for("Ctrl-C stops everything", within=LIMIT / 1000)
        url, password = re.search(r"Console\s+(\S+)", running.out), re.search(r"password (\S+)", running.out)
        assert url
        assert password
        published = stack.enter_context(publishing(rabbit.port))
        yield Site(url[1], password[1], rabbit, here, published)
        rabbit.control("set_vm_memory_high_watermark", "0.4")  # its publisher can end
        running.descendants()
        running.end(signal.SIGTERM, within=LIMIT / 1000)


@asynccontextmanager
async def signed_in(browser: Browser, site: Site) -> AsyncIterator[Page]:
    """Open a page of the administrator."""
    context = await browser.new_context(base_url=site.url, viewport={"width": 1440, "height": 900})
    context.set_default_timeout(LIMIT)
    expect.set_options(timeout=LIMIT)
    page = await context.new_page()
    await page.goto("/")
    await page.get_by_label("User name").fill("admin")
    await page.get_by_label("Password").fill(site.password)
    await page.get_by_role("button", name="Sign in").click()
    await expect(page.get_by_role("link", name="Overview")).to_be_visible()
    yield page
    expect.set_options(timeout=5_000)
    await context.close()


async def add_control_and_review(site: Site, page: Page, step: Callable[[str], None]) -> None:
    """Do all of it. `step` is called with what has just been done, as soon as the page shows it."""
    await add(page, "RabbitMQ", "Rabbit", f"http://127.0.0.1:{site.rabbit.http_port}", ("guest", "guest"))
    step("RabbitMQ is added and connected")
    await add(page, "Apache Artemis", "Artemis", site.artemis.url, (USER, PASSWORD))
    step("Artemis is added and connected")
    await explain_artemis(site, page)
    step("a producer of Artemis is blocked and explained")
    await explain_rabbit(site, page)
    step("a refusal and a blocked producer of RabbitMQ are explained")
    await stop_and_start_all(site, page, step)
    await review(page)
    step("the history of both shows it")
    for broker, queue in (("artemis", "orders"), ("rabbit", "bills")):
        await simulate(page, broker, queue)
    step("twice the limits are simulated from the recorded traffic of both")


async def explain_artemis(site: Site, page: Page) -> None:
    """Artemis blocks the producer of a full address."""
    producer = ArtemisPublisher(site.artemis.port, "orders", 1_000)
    producer.start()
    await open_broker(page, "Artemis")
    await expect(queue_row(page, "orders").locator(".state")).to_have_text("Overfull")
    await queue_row(page, "orders").get_by_role("link", name="orders", exact=True).click()
    await expect(page.locator("#producers")).to_contain_text("Queue orders is overfull")
    await page.get_by_role("link", name="Why blocked?").click()
    await expect(page.locator("main")).to_contain_text("1 producer is blocked: queue orders is overfull.")
    assert producer.accepted < producer.count


async def explain_rabbit(site: Site, page: Page) -> None:
    """RabbitMQ refuses messages for a full queue, and blocks all publishers during an alarm."""
    await asyncio.to_thread(fill_queue, site.rabbit.port)
    await open_broker(page, "Rabbit")
    await expect(queue_row(page, "bills").locator(".state")).to_have_text("Overfull")
    await asyncio.to_thread(site.rabbit.control, "set_vm_memory_high_watermark", "0")
    await asyncio.to_thread(site.published.wait_until_blocked, True)
    await expect(page.locator("main")).to_contain_text("above its limit for memory")
    name = await blocked_producer(page)
    await page.goto(f"/why/?broker=rabbit&object={quote(name)}")
    await expect(page.locator("main")).to_contain_text(
        re.compile(r"is blocked: node \S+ is above its limit for memory")
    )
    await asyncio.to_thread(site.rabbit.control, "set_vm_memory_high_watermark", "0.4")
    await asyncio.to_thread(site.published.wait_until_blocked, False)


async def stop_and_start_all(site: Site, page: Page, step: Callable[[str], None]) -> None:
    """From one dialog; what a stop does where it does not hold producers is confirmed."""
    await open_broker(page, "Rabbit")
    await on_all_brokers(page, "Stop", "a drill")
    step("the producers of all brokers are stopped")
    await expect(queue_row(page, "bills").locator(".state")).to_have_text("Overfull, stopped")
    assert not await asyncio.to_thread(accepts, site.rabbit.port)
    await open_broker(page, "Artemis")
    await expect(queue_row(page, "orders").locator(".state")).to_have_text("Overfull, stopped")
    step("both brokers' pages were looked at")
    await on_all_brokers(page, "Start", "the drill is over")
    step("the producers of all brokers are started")
    await expect(queue_row(page, "orders").locator(".state")).to_have_text("Overfull")
    await open_broker(page, "Rabbit")
    await expect(queue_row(page, "bills").locator(".state")).to_have_text("Overfull")
    assert await asyncio.to_thread(accepts, site.rabbit.port)
    step("both brokers' pages were looked at again")


async def review(page: Page) -> None:
    """The history of both shows what happened."""
    for broker, queue in (("artemis", "orders"), ("rabbit", "bills")):
        await page.goto(f"/history/?broker={broker}&range=15m")
        for text in (queue, "a drill"):
            await reloaded_until(page, lambda text=text: lists(page.locator("#episodes"), text))  # type: ignore[misc]
    await page.goto("/history/incident/?broker=rabbit&range=15m")
    await reloaded_until(page, lambda: lists(page.locator("main"), "Producer blocked"))


async def simulate(page: Page, broker: str, queue: str) -> None:
    """Simulate twice the limits of a queue from what was recorded of it, as its page of the history offers it."""
    await page.goto(f"/history/?broker={broker}&range=15m")
    await page.locator("#episodes").get_by_role("link", name=queue, exact=True).first.click()
    await page.get_by_role("link", name="Simulate limits").click()
    # What was recorded can be simulated a minute later. The rows: the limits of now, twice and four times these.
    await expect(page.locator(".what-if-table tbody tr")).to_have_count(3)
    capacity = page.locator("[name^=capacity_]:not([value=''])").first
    await capacity.fill("1M")
    await page.get_by_role("button", name="Simulate").click()
    await expect(page.locator(".limits-words").nth(1)).to_contain_text("1M messages")


async def reloaded_until(page: Page, shown: Callable[[], Awaitable[bool]]) -> None:
    """Open a page again, which does not update, until it shows something."""
    async with asyncio.timeout(LIMIT / 1000):
        while not await shown():
            await page.reload()


async def open_brokers(page: Page) -> None:
    await page.locator("#user-menu summary").click()
    await page.get_by_role("link", name="Brokers", exact=True).click()


async def open_broker(page: Page, title: str) -> None:
    """Open a broker's overview."""
    await open_brokers(page)
    await page.get_by_role("link", name=title, exact=True).click()


async def add(page: Page, kind: str, title: str, url: str, account: tuple[str, str]) -> None:
    """Add a broker by mouse. `account`: user name and password."""
    await open_brokers(page)
    form = page.locator("form").filter(has=page.get_by_label("Kind"))
    await form.get_by_label("Kind").select_option(kind)
    await form.get_by_label("Slug").fill(title.lower())
    await form.get_by_label("Title").fill(title)
    await form.get_by_label("URL").fill(url)
    await form.get_by_label("User name").fill(account[0])
    await form.get_by_label("Password").fill(account[1])
    await form.get_by_role("button", name="Add").click()
    await expect(page.get_by_text(f"{title} is added.")).to_be_visible()
    await reloaded_until(page, lambda: connected(page, title))


async def connected(page: Page, title: str) -> bool:
    text = await page.get_by_role("row").filter(has_text=title).inner_text()
    return re.search(r"\bConnected\b", text) is not None


def queue_row(page: Page, name: str) -> Locator:
    return page.locator("#queue-rows tr").filter(has=page.get_by_role("link", name=name, exact=True))


def fill_queue(port: int) -> None:
    """Publish to a queue of RabbitMQ that refuses messages when it is full."""
    with amqp.Connection(f"127.0.0.1:{port}", confirm_publish=True) as connection:
        channel = connection.channel()
        limits = {"x-max-length": FULL, "x-overflow": "reject-publish"}
        channel.queue_declare("bills", durable=True, auto_delete=False, arguments=limits)
        channel.queue_declare("mail", durable=True, auto_delete=False)
        for _ in range(FULL):
            channel.basic_publish(amqp.Message("x" * 100), routing_key="bills")
        with pytest.raises(amqp.exceptions.MessageNacked):
            channel.basic_publish(amqp.Message("x" * 100), routing_key="bills")


def accepts(port: int) -> bool:
    """Return whether RabbitMQ accepts a message for a queue without limits."""
    with amqp.Connection(f"127.0.0.1:{port}", confirm_publish=True) as connection:
        try:
            connection.channel().basic_publish(amqp.Message("x"), routing_key="mail")
        except amqp.exceptions.MessageNacked:
            return False
    return True


async def on_all_brokers(page: Page, action: str, reason: str) -> None:
    """Stop or start the producers of all brokers, the bundled one included, from the dialog."""
    await page.get_by_role("button", name=f"{action} all producers").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("On all 3 brokers").check()
    for title in ("Rabbit", "Artemis"):
        await expect(dialog.locator(".stop-brokers")).to_contain_text(title)
    if action == "Stop":
        await dialog.get_by_label("Reject:").check()
    await dialog.get_by_label("Reason").fill(reason)
    await dialog.get_by_role("button", name=f"{action} all producers").click()
    done = {"Stop": "stopped", "Start": "started"}[action]
    await expect(dialog.get_by_role("heading")).to_have_text(f"Producers {done}")
    await dialog.get_by_role("button", name="Close").click()


async def blocked_producer(page: Page) -> str:
    """Return the name of the producer that RabbitMQ blocks."""
    async with asyncio.timeout(LIMIT / 1000):
        while True:
            answer = await (await page.request.get("/api/v1/producers/?broker=rabbit&state=BLOCKED")).json()
            if answer["results"]:
                return str(answer["results"][0]["object"])
            await page.wait_for_timeout(200)


async def lists(box: Locator, text: str) -> bool:
    """Return whether a part of the page shows a text soon."""
    try:
        await expect(box).to_contain_text(text, timeout=5_000)
    except AssertionError:
        return False
    return True
