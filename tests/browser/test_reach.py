"""RabbitMQ and Artemis of an operator's own: added by mouse, blocks explained, stopped, started, and in the history.

Both are real, with real clients, behind `manage.py up`; the test follows what the pages show.
"""

from __future__ import annotations

import asyncio
import re
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from urllib.parse import quote

import amqp
import pytest
import pytest_asyncio
from playwright.async_api import Browser, Locator, Page, expect

from tests.browser.chromium import MISSING, PATH
from tests.interop.artemis_node import PASSWORD, USER, ArtemisNode, artemis, artemis_libraries
from tests.interop.artemis_node import Publisher as ArtemisPublisher
from tests.interop.rabbitmq_node import Publisher as RabbitPublisher
from tests.interop.rabbitmq_node import RabbitNode, publishing, rabbitmq
from tests.up.running import Running, free_port

pytestmark = [
    pytest.mark.browser,
    pytest.mark.interop,
    pytest.mark.slow,
    pytest.mark.skipif(PATH is None, reason=MISSING),
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.timeout(900),
]

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


@pytest.fixture(scope="module")
def site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    assert request.config.cache is not None
    folder = tmp_path_factory.mktemp("reach")
    with ExitStack() as stack:
        classes = artemis_libraries("2.55", request.config.cache)
        here = stack.enter_context(artemis(classes, tmp_path_factory.mktemp("artemis")))
        rabbit = stack.enter_context(rabbitmq(tmp_path_factory.mktemp("rabbitmq"), plugins=("rabbitmq_management",)))
        ports = ["--port", str(free_port()), "--amqp-port", str(free_port())]
        running = stack.enter_context(Running(["manage.py", "up", *ports, "--data", str(folder / "data")], folder))
        running.wait_for("Ctrl-C stops everything", within=LIMIT / 1000)
        url, password = re.search(r"Console\s+(\S+)", running.out), re.search(r"password (\S+)", running.out)
        assert url
        assert password
        published = stack.enter_context(publishing(rabbit.port))
        yield Site(url[1], password[1], rabbit, here, published)
        rabbit.control("set_vm_memory_high_watermark", "0.4")  # its publisher can end
        running.descendants()
        running.end(signal.SIGTERM, within=LIMIT / 1000)


@pytest_asyncio.fixture(loop_scope="module")
async def page(browser: Browser, site: Site) -> AsyncIterator[Page]:
    """A page of the administrator."""
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


async def test_brokers_of_two_kinds_are_added_explained_stopped_started_and_recorded(site: Site, page: Page) -> None:
    await add(page, "RabbitMQ", "Rabbit", f"http://127.0.0.1:{site.rabbit.http_port}", ("guest", "guest"))
    await add(page, "Apache Artemis", "Artemis", site.artemis.url, (USER, PASSWORD))

    # Artemis blocks the producer of a full address.
    producer = ArtemisPublisher(site.artemis.port, "orders", 1_000)
    producer.start()
    await open_broker(page, "Artemis")
    await expect(queue_row(page, "orders").locator(".state")).to_have_text("Overfull")
    await queue_row(page, "orders").get_by_role("link", name="orders", exact=True).click()
    await expect(page.locator("#producers")).to_contain_text("Queue orders is overfull")
    await page.get_by_role("link", name="Why blocked?").click()
    await expect(page.locator("main")).to_contain_text("1 producer is blocked: queue orders is overfull.")
    assert producer.accepted < producer.count

    # RabbitMQ refuses messages for a full queue, and blocks all publishers during an alarm.
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

    # All are stopped and started from one dialog; what a stop does where it does not hold producers is confirmed.
    await open_broker(page, "Rabbit")
    await on_all_brokers(page, "Stop", "a drill")
    await expect(queue_row(page, "bills").locator(".state")).to_have_text("Overfull, stopped")
    assert not await asyncio.to_thread(accepts, site.rabbit.port)
    await open_broker(page, "Artemis")
    await expect(queue_row(page, "orders").locator(".state")).to_have_text("Overfull, stopped")
    await on_all_brokers(page, "Start", "the drill is over")
    await expect(queue_row(page, "orders").locator(".state")).to_have_text("Overfull")
    await open_broker(page, "Rabbit")
    await expect(queue_row(page, "bills").locator(".state")).to_have_text("Overfull")
    assert await asyncio.to_thread(accepts, site.rabbit.port)

    # The history of both shows it.
    for broker, queue in (("artemis", "orders"), ("rabbit", "bills")):
        await page.goto(f"/history/?broker={broker}&range=15m")
        for text in (queue, "a drill"):
            await reloaded_until(page, lambda text=text: lists(page.locator("#episodes"), text))  # type: ignore[misc]
    await page.goto("/history/incident/?broker=rabbit&range=15m")
    await reloaded_until(page, lambda: lists(page.locator("main"), "Producer blocked"))


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
